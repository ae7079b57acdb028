//! Carries out the commands of a run. Makes no decisions.

use std::{collections::VecDeque, fs};

use anyhow::Result;
use chrono::Utc;

use super::{Runner, start::ProcessKind};
use crate::{
    adapters::process::AgentProcess,
    core::{
        event::{Cause, Event},
        exit::{Exit, Failure},
        graph::task::TaskId,
        run::{
            command::{AttemptId, RunCommand, StatusWrite},
            input::Input,
            process_watch::ProcessWatch,
        },
        verdict::Outcome,
    },
    crash,
    project::graph_file::{Write, rfc3339},
};

impl Runner {
    /// Passes an input to the run, and carries out the resulting commands.
    pub(super) fn handle(&mut self, input: Input) -> Result<()> {
        let commands = self.with_run(|run, sit| run.handle(input, sit));
        self.carry_out(commands)
    }

    /// Carries out commands in order. Commands that follow from one come before the next.
    pub(super) fn carry_out(&mut self, commands: Vec<RunCommand>) -> Result<()> {
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
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
            RunCommand::Record(key) => return self.record(key).map(Some),
            RunCommand::SetHolder(id) => self.write_lock_holder(id.as_ref())?,
            RunCommand::KeepGraph => {
                self.remember_graph()?;
                crash::point("start.kept");
            }
            RunCommand::PrepareWorktree(id) => self.prepare_worktree(&id)?,
            RunCommand::ReassignWorktree(id) => self.reassign_worktree(&id)?,
            RunCommand::TakeAsGiven(id) => return Ok(self.take_as_given(&id)),
            RunCommand::StartAgent(id) => return self.start_process(&id, &ProcessKind::Agent),
            RunCommand::StartCheck(id, purpose, number, command) => {
                return self.start_process(&id, &ProcessKind::Check(purpose, number, command));
            }
            RunCommand::Terminate(id) => self.end_process(&id, AgentProcess::terminate),
            RunCommand::Kill(id) => self.end_process(&id, AgentProcess::kill),
            RunCommand::KeepAwake(id) => self.processes.order(&id, AgentProcess::awake),
            RunCommand::Spare(id) => self.processes.spare(&id),
            RunCommand::Collect(id, end) => return self.collect(&id, *end),
            RunCommand::Judge(id, end) => return self.judge(&id, *end),
            RunCommand::Keep(id, verdict, evidence) => return self.keep(&id, verdict, &evidence),
            RunCommand::Release { id, verdict, believed } => {
                self.release(&id, verdict, believed)?;
            }
            RunCommand::AfterAttempt(_) => self.after_attempt()?,
            RunCommand::Build { onto, members, in_trial } => {
                return self.build(onto, &members, in_trial);
            }
            RunCommand::RecordLanding(id, commit) => self.record_landing(&id, commit)?,
            RunCommand::Land(batch) => self.land(batch),
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
    fn end_process(&self, id: &AttemptId, order: impl FnOnce(&AgentProcess)) {
        let open = self.run.attempts().get(id);
        let watch = open.and_then(|open| open.process.as_ref()?.watch.as_ref());
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

    fn write_status(
        &mut self,
        about: (&TaskId, u32),
        write: &StatusWrite,
        cause: Cause,
    ) -> Result<()> {
        match write {
            StatusWrite::Claim { at, by } => {
                self.set(about, Write::Claim { at: &rfc3339(*at), by }, cause)?;
                crash::point("start.claimed");
            }
            StatusWrite::Complete => {
                let at = rfc3339(Utc::now());
                self.set(about, Write::Complete { at: &at }, cause)?;
            }
            StatusWrite::Plain(status) => self.set(about, Write::Plain(*status), cause)?,
        }
        if !matches!(write, StatusWrite::Claim { .. }) {
            crash::point("close.written");
        }
        Ok(())
    }
}
