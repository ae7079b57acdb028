//! Carries out the commands of a run. Makes no decisions.

use std::{collections::VecDeque, fs};

use anyhow::Result;
use chrono::Utc;

use super::{Runner, process_spec::ProcessKind};
use crate::{
    adapters::process::AgentProcess,
    core::{
        event::{Cause, Event},
        exit::{Exit, Failure},
        graph::task::{Status, TaskId},
        run::{
            command::{AttemptId, RunCommand, StatusWrite},
            input::Input,
            process_watch::ProcessWatch,
        },
        verdict::Outcome,
    },
    crash,
    project::{
        attempt::{AttemptRecord, leftovers},
        graph_file::{GraphFile, Write, graph_of, rfc3339, with_status},
    },
};

impl Runner {
    /// Passes an input to the run, and carries out the resulting commands.
    pub(super) fn handle(&mut self, input: Input) -> Result<()> {
        let commands = self.with_run(|run, sit| run.handle(input, sit));
        self.carry_out(commands)
    }

    /// Carries out commands in order. Commands that follow from one come before the next.
    pub(super) fn carry_out(&mut self, commands: Vec<RunCommand>) -> Result<()> {
        self.slots.let_change();
        let carried_out = self.carry_out_each(VecDeque::from(commands));
        // While the run waits, processes may start that it does not know.
        self.slots.let_change();
        carried_out
    }

    fn carry_out_each(&mut self, mut commands: VecDeque<RunCommand>) -> Result<()> {
        while let Some(command) = commands.pop_front() {
            if !is_without_process(&command) {
                self.slots.let_change();
            }
            let Some(input) = self.apply(command)? else {
                continue;
            };
            let more = self.with_run(|run, sit| run.handle(input, sit));
            for command in more.into_iter().rev() {
                commands.push_front(command);
            }
        }
        Ok(())
    }

    /// Carries out one command. Returns an immediate result as an input.
    fn apply(&mut self, command: RunCommand) -> Result<Option<Input>> {
        match command {
            RunCommand::Emit(about, event) => self.journal(about.as_ref(), *event)?,
            RunCommand::WriteStatus(id, iteration, write, cause) => {
                self.write_status((&id, iteration), &write, cause)?;
            }
            RunCommand::Record(key) => return self.record(key),
            RunCommand::SetHolder(id) => self.write_lock_holder(id.as_ref())?,
            RunCommand::KeepGraph => {
                self.remember_graph()?;
                crash::point("start.kept");
            }
            RunCommand::PrepareSlot(id) => self.prepare_slot(&id)?,
            RunCommand::ReassignSlot(id) => self.reassign_slot(&id)?,
            RunCommand::TakeAsGiven(id) => return Ok(self.take_as_given(&id)),
            RunCommand::StartAgent(id) => return self.start_process(&id, &ProcessKind::Agent),
            RunCommand::FetchWork(id, took) => return Ok(self.fetch_work(&id, took)),
            RunCommand::StartCheck(id, purpose, number, command) => {
                return self.start_process(&id, &ProcessKind::Check(purpose, number, command));
            }
            RunCommand::Interrupt(id) => self.end_process(&id, AgentProcess::interrupt),
            RunCommand::Terminate(id) => self.end_process(&id, AgentProcess::terminate),
            RunCommand::Kill(id) => self.end_process(&id, AgentProcess::kill),
            RunCommand::KillGuardian(id) => {
                self.processes.order(&id, AgentProcess::kill_guardian);
            }
            RunCommand::KeepAwake(id) => self.processes.order(&id, AgentProcess::awake),
            RunCommand::Spare(id) => self.processes.spare(&id),
            RunCommand::Collect(id, end) => return self.collect(&id, *end),
            RunCommand::Judge(id, end) => return self.judge(&id, *end),
            RunCommand::Keep(id, verdict, evidence) => return self.keep(&id, verdict, &evidence),
            RunCommand::Release { id, believed } => self.release(&id, believed)?,
            RunCommand::Withdraw(id) => self.withdraw(&id)?,
            RunCommand::AfterAttempt(_) => self.after_attempt()?,
            RunCommand::Build { onto, members, in_trial } => {
                return self.build(onto, &members, in_trial);
            }
            RunCommand::RecordLanding(id, commit) => self.record_landing(&id, commit)?,
            RunCommand::Land(batch) => self.land(&batch),
            RunCommand::KeepLog { from, to } => {
                let root = self.workspace.root();
                // A missing file needs no action.
                let _ = fs::rename(root.join(from), root.join(to));
            }
            RunCommand::Abandon(number) => {
                let why = "stopped at once; the next run recovers the attempt";
                return Err(Failure::new(Exit::Signal(number), why).into());
            }
        }
        Ok(None)
    }

    /// Gives an order that ends the process of an attempt. If a person stopped the run, the guardian
    /// records that, because the next run may have to judge the attempt.
    fn end_process(&mut self, id: &AttemptId, order: impl FnOnce(&AgentProcess)) {
        if self.stop_asking(id) {
            return;
        }
        let watch = self.run.attempts().process(id).and_then(|process| process.watch.as_ref());
        if watch.and_then(ProcessWatch::ending) == Some(&Outcome::Cancelled) {
            self.processes.order(id, AgentProcess::cancel);
        }
        self.processes.order(id, order);
    }

    /// Emits an event and passes the crash points of the journal.
    fn journal(&mut self, about: Option<&(TaskId, u32)>, event: Event) -> Result<()> {
        if let Event::Verified(_) | Event::VerifyFailed(_) = event {
            crash::point("verify.ended");
        }
        let about = about.map(|(id, iteration)| (id, *iteration));
        let record = self.emit_record(about, event)?;
        match &record.event {
            Event::Recovered { .. } => crash::point("recover.told"),
            Event::Started { .. } => crash::point("start.told"),
            Event::AgentStarted { .. } => crash::point("start.told_agent"),
            Event::Verifying { .. } => crash::point("verify.told"),
            Event::Queued { .. } => crash::point("merge.queued"),
            Event::Merging(_) => crash::point("merge.told"),
            event if event.ended().is_some() => {
                self.hooks.ended = Some(record);
                crash::point("close.told");
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns how the file spelled the status of a task before it was claimed, if the task gets
    /// that status again.
    fn word_before(&self, id: &TaskId, status: Status) -> Option<String> {
        let is_its = |record: &&AttemptRecord| record.task_id == *id;
        let word = self.records.values().find(is_its)?.status_word.clone()?;
        let was = if word.is_empty() { Some(Status::Pending) } else { Status::parse(&word) };
        (status == Status::Pending && was == Some(Status::Pending)).then_some(word)
    }

    /// Adds the new tasks of a completed attempt to the graph file, if landing has not: git may not
    /// track the file, and a person may be on another branch.
    fn adopt_new_tasks(&mut self, id: &TaskId) -> Result<()> {
        let change = self.graph.changes.values().find(|change| change.task_id == *id).cloned();
        let Some(change) = change.filter(|change| change.adopted.is_some()) else {
            return Ok(());
        };
        let edit = |file: &GraphFile| change.applied(file.text());
        match self.graph.file.edit_text(&self.workspace.state, edit, |_, _| Ok(())) {
            Ok(edited) => {
                let foreign = self.without_landings(edited.statuses);
                self.note(foreign, Cause::EditedDuringAttempt)
            }
            // A person has changed the file so that they do not fit; git has them.
            Err(_) => Ok(()),
        }
    }

    /// Commits the status of a task whose attempt worked in the checkout: completion belongs to the
    /// work, and a claim that the attempt committed is undone.
    fn commit_status(&self, id: &TaskId, write: Write<'_>) -> Result<()> {
        let is_its = |record: &&AttemptRecord| record.task_id == *id && record.slot.is_none();
        let Some(record) = self.records.values().find(is_its).filter(|_| self.plain().is_none())
        else {
            return Ok(());
        };
        if self.has_left_branch(record)? {
            return Ok(());
        }
        let repo = &self.workspace.repo;
        let Some(text) =
            repo.head()?.commit.map(|head| self.committed(&head)).transpose()?.flatten()
        else {
            return Ok(());
        };
        let Some(graph) = graph_of(&text) else { return Ok(()) };
        let Some(task) = graph.number(id).map(|number| graph.task(number)) else { return Ok(()) };
        let is_due = match write {
            Write::Complete { .. } => true,
            Write::Claim { .. } | Write::Plain(_) | Write::Restored(_) => {
                task.claimed_by == Some(format!("ralph {}", record.run_id))
            }
        };
        let text = String::from_utf8_lossy(&text);
        if !is_due {
            return Ok(());
        }
        let path = self.workspace.graph_name();
        if let Ok(Some(changed)) = with_status(&text, id, write)
            && changed != text
        {
            let message = match write {
                Write::Complete { .. } => leftovers::completion_message(record, &task.title),
                Write::Claim { .. } | Write::Plain(_) | Write::Restored(_) => {
                    leftovers::release_message(record, &task.title)
                }
            };
            // A person who commits at the same moment wins; the status then stays uncommitted.
            let _ = repo.commit_file_on_head(&path, &changed, &message);
            crash::point("close.committed");
        } else {
            let _ = repo.finish_file_commit(&path);
        }
        Ok(())
    }

    /// Returns when a task was complete according to the commit that landed with its work.
    fn landed_at(&self, id: &TaskId) -> Option<String> {
        let (landed, _) = self
            .records
            .iter()
            .find(|(_, record)| record.task_id == *id && record.landing().is_some())?;
        self.graph.changes.get(landed).map(|change| change.at.clone())
    }

    /// Returns when a task was complete, according to the graph file.
    fn completed_at(&self, id: &TaskId) -> Option<String> {
        let graph = self.graph.file.graph();
        let task = graph.task(graph.number(id)?);
        task.extra.get("completed_at")?.as_str().map(str::to_owned)
    }

    fn write_status(
        &mut self,
        about: (&TaskId, u32),
        write: &StatusWrite,
        cause: Cause,
    ) -> Result<()> {
        match write {
            StatusWrite::Complete => {
                let at = self.landed_at(about.0).unwrap_or_else(|| rfc3339(Utc::now()));
                self.set(about, Write::Complete { at: &at }, cause)?;
                // A killed run may have written the status, with an earlier time.
                let at = self.completed_at(about.0).unwrap_or(at);
                self.commit_status(about.0, Write::Complete { at: &at })?;
                self.adopt_new_tasks(about.0)?;
            }
            StatusWrite::Plain(status) => {
                let word = self.word_before(about.0, *status);
                let write = word.as_deref().map_or(Write::Plain(*status), |word| {
                    Write::Restored(Some(word).filter(|word| !word.is_empty()))
                });
                self.set(about, write, cause)?;
                self.commit_status(about.0, write)?;
            }
        }
        crash::point("close.written");
        Ok(())
    }
}

/// Whether no process is started by this step at the end of an attempt, except by git itself: what
/// was read of its slot before is still true after it.
fn is_without_process(command: &RunCommand) -> bool {
    matches!(
        command,
        RunCommand::Emit(..)
            | RunCommand::WriteStatus(..)
            | RunCommand::SetHolder(_)
            | RunCommand::Judge(..)
            | RunCommand::Keep(..)
            | RunCommand::Release { .. }
    )
}
