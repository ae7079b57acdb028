//! The steps at the end of an attempt: the loop takes them one after the other, and hands each
//! owner its inputs from the others.

use std::{
    mem, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    Runner, RunnerMessage, attempts, away, checkout,
    close::{self, DueCommit, EndedSlot},
    context::{Facts, task_of},
    graph_copy,
    graph_guard::{COMMAND, GraphBefore, GraphChanges},
    landing::drop_trials,
    reviewer,
};
use crate::{
    core::{
        event::{Cause, CheckEvent, Harm, RequestEvent, RunEvent},
        graph::task::{Status, TaskId},
        proof::{Proof, ProofPolicy, ProofReason},
        run::{
            command::{AttemptId, PendingResult, ProcessEnd},
            input::{FoundAttempt, Input},
        },
        verdict::{Autocommit, Evidence, Outcome},
    },
    crash, fixed_limit,
    project::{
        attempt::{self, AttemptRecord, leftovers, scrutiny},
        graph_file::Write,
        workspace::Workspace,
    },
};

/// Adds the failure of a proof that was made before the work landed, and is not repeated.
pub(super) fn weigh(evidence: &mut Evidence, reason: &ProofReason, is_required: bool) {
    evidence.to_prove = false;
    if matches!(reason, ProofReason::NoticesLess { .. }) {
        let cure = "the task may do that with `proof: none`";
        evidence.missing.push(format!("{reason}; {cure}"));
    } else if is_required && !reason.is_good() {
        evidence.missing.push(format!("its proof is missing: {reason}"));
    }
}

impl Runner {
    /// Examines the results of an agent in the graph and in git, once all its processes have ended.
    pub(super) fn collect(&mut self, id: &AttemptId, end: ProcessEnd) -> Result<Option<Input>> {
        let Some(mut record) = self.attempts.get(id).cloned() else {
            return Ok(None);
        };
        self.core.cx.workspace.ignore_outputs()?;
        crash::point("close.begun");
        for (number, note) in close::new_notes(&self.core.cx, &record) {
            let noted = RequestEvent::Noted { attempt: id.attempt, note };
            self.core.emit(Some((&id.task_id, record.iteration)), noted)?;
            record.noted = number + 1;
            record.write(&self.core.cx.workspace)?;
        }
        let title = task_of(self.core.graph.file.graph(), &record).map(|task| task.title);
        let title = title.unwrap_or_else(|| id.task_id.to_string());
        let workspace = &self.core.cx.workspace;
        let mut slot = EndedSlot::open(workspace, &self.slots, &mut record, &title);
        if let Some(known) = self.attempts.get_mut(id) {
            known.clone_from(&record);
        }
        let unlocked = mem::take(&mut slot.unlocked);
        crash::point("close.unlocked");
        let passed_over = checkout::pass_over_settings(&mut self.core.cx, &record);
        self.core.tell(passed_over)?;
        let damage = checkout::take_back_damaged(&self.core.cx, &record)?;
        self.core.catch_up()?;
        let (status, changes) = self.examine_graph(&record)?;
        crash::point("close.settled");
        let (cx, history) = (&self.core.cx, self.core.journal.history());
        let report = attempts::report(cx, &record, status);
        let mut evidence = slot.evidence(&cx.workspace, &record, report)?;
        self.attempts.record_left(cx, id, &mut evidence)?;
        evidence.strayed = damage.or(evidence.strayed);
        evidence.earlier = self.attempts.earlier_work(cx, history, &record, &evidence)?;
        let graph = self.core.graph.file.graph();
        close::add_graph_changes(&cx.workspace, graph, history, &record, changes, &mut evidence);
        let result = close::result_of(cx, history, (graph, &record), end, evidence);
        let result = PendingResult { unlocked, ..result };
        Ok(Some(Input::Collected(id.clone(), Box::new(result))))
    }

    /// Examines an attempt's graph changes. Returns the status of its own task, too: the agent's
    /// change to it counts even if its other changes are undone.
    fn examine_graph(&mut self, record: &AttemptRecord) -> Result<(Option<Status>, GraphChanges)> {
        let workspace = &self.core.cx.workspace;
        let mut facts = Facts::default();
        let fault = self.core.graph.reread(workspace, self.attempts.records(), record, &mut facts);
        self.core.tell(facts)?;
        let fault = fault?;
        let status = self.core.graph.file.graph().status_of(&record.task_id);
        let workspace = &self.core.cx.workspace;
        let tree = self.slots.opened_tree(workspace, record).ok();
        let mut facts = Facts::default();
        let file = &self.core.graph.file;
        let found = graph_copy::examine(workspace, file, record, tree.as_deref(), &mut facts);
        self.core.tell(facts)?;
        let (change, mut changes) = found?;
        self.landing.changes.insert(record.id(), change);
        if record.slot.is_none() {
            changes = GraphChanges { fault, ..self.guard_graph(record)? };
        }
        Ok((changes.status.or(status), changes))
    }

    /// Undoes changes to other tasks that are certainly the agent's, and completions of other tasks,
    /// after an attempt in the checkout.
    fn guard_graph(&mut self, record: &AttemptRecord) -> Result<GraphChanges> {
        let kept = || attempt::kept_graph(&self.core.cx.workspace, record);
        let before =
            self.core.graph.before.take().or_else(|| Some(GraphBefore::of(&kept()?, true)));
        let Some(before) = before else {
            return Ok(GraphChanges::default());
        };
        let mut facts = Facts::default();
        let redefined = before.redefined(&self.core.graph.file, record);
        if !redefined.is_empty() {
            facts.guarded(record, Harm::Changed, redefined, false, None);
        }
        self.core.tell(facts)?;
        let completed = |runner: &Runner| {
            let active = runner.core.journal.history().active.of(&record.task_id);
            before.completed(runner.core.graph.file.graph(), record, active)
        };
        let mut others = completed(self);
        if !others.is_empty() {
            // A command that has just written the file is about to write the journal.
            thread::sleep(COMMAND);
            self.core.catch_up()?;
            others = completed(self);
        }
        let active = self.core.journal.history().active.of(&record.task_id);
        let graph = self.core.graph.file.graph();
        let (dropped, cancelled) = before.ended(&self.core.cx.workspace, graph, record, active)?;
        if !dropped.is_empty() {
            let mut facts = Facts::default();
            // Only if the file is exactly the agent's commit; otherwise a person's edit would be
            // lost.
            let is_committed = self.core.graph.is_committed(&self.core.cx.workspace)?;
            let kept = is_committed
                .then(|| self.core.graph.put_back(&self.core.cx.workspace, record, before.text()))
                .transpose()?
                .flatten();
            facts.guarded(record, Harm::Dropped, dropped, is_committed, kept);
            self.core.tell(facts)?;
        }
        others.extend(cancelled);
        for id in &others {
            let old = before.status_of(id);
            if self.core.graph.file.graph().status_of(id).is_some_and(|now| now != old) {
                self.set((id, record.iteration), Write::Plain(old), Cause::PutBack)?;
            }
        }
        let mut facts = Facts::default();
        if !others.is_empty() {
            facts.guarded(record, Harm::Finished, others.clone(), true, None);
        }
        checkout::restore_committed_graph(
            &self.core.cx,
            &self.core.graph.file,
            record,
            &mut facts,
        )?;
        self.core.tell(facts)?;
        let added = before.added(self.core.graph.file.graph());
        Ok(GraphChanges { others, added, ..GraphChanges::default() })
    }

    /// Commits uncommitted work that was reported done, in another thread if the attempt has a slot, and
    /// judges it then.
    pub(super) fn judge(
        &mut self,
        id: &AttemptId,
        mut end: PendingResult,
    ) -> Result<Option<Input>> {
        let Some(record) = self.attempts.get(id).cloned() else {
            return Ok(None);
        };
        let record = &record;
        let passed_over = checkout::pass_over_settings(&mut self.core.cx, record);
        self.core.tell(passed_over)?;
        let (cx, evidence) = (&self.core.cx, &mut end.evidence);
        if evidence.strayed.is_none() && checkout::has_left_branch(cx, record)? {
            evidence.strayed = Some("HEAD left its branch while it was verified".to_owned());
        }
        if evidence.strayed.is_none() {
            evidence.strayed = checkout::keep_lost(cx, record, evidence)?;
        }
        let due = close::due_commit(&self.core, &self.slots, record, &end.outcome, evidence);
        let Some(DueCommit { left, title }) = due else { return self.judge_committed(id, end) };
        let guardians = cx.guardians.clone();
        self.slots.let_change();
        if record.slot.is_none() {
            // An attempt in the checkout works alone.
            let (workspace, tree) = (&cx.workspace, &cx.workspace.repo);
            let made = leftovers::commit(workspace, &guardians, tree, record, (&left, &title));
            return self.committed(id, end, made);
        }
        let (open, outbox) = (cx.workspace.opener(), cx.outbox.clone());
        let (record, end) = (record.clone(), Box::new(end));
        self.attempts.committing += 1;
        thread::spawn(move || {
            let commit = |workspace: Workspace| {
                let tree = record.tree(&workspace)?;
                leftovers::commit(&workspace, &guardians, &tree, &record, (&left, &title))
            };
            let made = open().and_then(commit);
            drop(outbox.send(RunnerMessage::Committed(record.id(), end, made)));
        });
        Ok(None)
    }

    /// Judges work whose leftovers were committed, or whose commit git refused.
    pub(super) fn committed(
        &mut self,
        id: &AttemptId,
        mut end: PendingResult,
        made: Result<Option<Autocommit>>,
    ) -> Result<Option<Input>> {
        self.slots.let_change();
        let Some(record) = self.attempts.get(id) else { return Ok(None) };
        end.evidence.autocommit = made?;
        let (cx, slots) = (&self.core.cx, &self.slots);
        close::look_after_commit(cx, slots, record, &mut end.evidence)?;
        self.judge_committed(id, end)
    }

    /// Examines the outputs of the task, and other conditions for its work to land.
    fn judge_committed(&mut self, id: &AttemptId, mut end: PendingResult) -> Result<Option<Input>> {
        let Some(record) = self.attempts.get(id).cloned() else {
            return Ok(None);
        };
        let record = &record;
        let (workspace, evidence) = (&self.core.cx.workspace, &mut end.evidence);
        let (tree, is_complete) =
            close::examine(&self.core, &self.slots, record, &end.outcome, evidence)?;
        // Also where the task is no longer in the graph.
        if is_complete {
            close::bring_home(workspace, tree.as_deref().ok(), record, evidence);
            let landed = &self.core.journal.history().run.landed;
            if record.slot.is_some() && !landed.is_empty() {
                let collided = &self.core.journal.history().of(&record.task_id).collided;
                scrutiny::weigh_others(workspace, record, (landed, collided), evidence);
            }
            let settings = self.core.proof_settings(record);
            let is_first = settings.is_required
                || (settings.policy != ProofPolicy::None && evidence.settings_changed);
            let is_proved = evidence.to_prove && is_first && record.slot.is_some();
            reviewer::note_gap(&self.core, record, evidence);
            let graph = self.core.graph.file.graph();
            let is_refused = !evidence.missing.is_empty();
            let is_reviewed = reviewer::is_due(&self.core.cx, graph, record, evidence);
            if !is_refused && (is_proved || is_reviewed) {
                drop(tree);
                let open = self.core.run.attempts().get(id);
                if evidence.verify.is_empty() && open.is_some_and(|open| !open.verify.is_empty()) {
                    return Ok(Some(Input::VerifyFirst(id.clone(), Box::new(end))));
                }
                if is_proved {
                    return Ok(self.proofs.start_first(&mut self.core, record, end));
                }
                return reviewer::begin(self, record, Box::new(end));
            }
        }
        Ok(Some(Input::Judged(id.clone(), Box::new(end))))
    }

    /// Removes the files of an attempt whose end is recorded, and its report.
    pub(super) fn release(&mut self, id: &AttemptId, believed: bool) -> Result<()> {
        let Some(record) = self.attempts.remove(id) else {
            return Ok(());
        };
        self.landing.changes.remove(id);
        let (cx, mut facts) = (&self.core.cx, Facts::default());
        let run_id = self.core.journal.run_id();
        let restored =
            checkout::restore_checkout(cx, &self.core.graph.file, run_id, &record, &mut facts);
        let released =
            restored.and_then(|()| self.slots.release(&cx.workspace, &record, &mut facts));
        self.core.tell(facts)?;
        released?;
        let is_kept = record.slot.as_ref().is_some_and(|slot| self.slots.is_kept(&slot.path));
        close::return_files(&self.core.cx, &record, believed)?;
        // Its controls make the folder of the attempt again, which is gone from here on.
        self.proofs.begin(&mut self.core, &record, self.hooks.ended.as_ref(), is_kept)?;
        record.forget(&self.core.cx.workspace)?;
        crash::point("close.removed");
        // While another process has the lock of the refs, the next attempt is early enough.
        let _ = self.core.cx.workspace.repo.pack_refs();
        Ok(())
    }

    /// Journals the proof of an attempt, whose slot is free again.
    pub(super) fn proved(&mut self, id: &AttemptId, proof: Proof) -> Result<()> {
        let (iteration, end) = self.proofs.ended(&self.core.cx.workspace, id, &proof);
        self.core.proves = self.proofs.any();
        self.slots.let_change();
        let reason = proof.reason.clone();
        let event = CheckEvent::Proved { attempt: id.attempt, proof };
        self.core.emit(Some((&id.task_id, iteration)), event)?;
        let Some(mut end) = end else { return Ok(()) };
        let mut is_required = true;
        if let Some(record) = self.attempts.get(id) {
            is_required = self.core.proof_settings(record).is_required;
            let place = end.evidence.commits.last().map(|commit| commit.id.clone());
            close::return_from_controls(&self.core.cx.workspace, record, place.as_ref())?;
        }
        let is_skipped = matches!(reason, ProofReason::NotMade { .. });
        if is_skipped && self.proofs.is_stopped() {
            return self.handle(Input::Postponed(id.clone()));
        }
        weigh(&mut end.evidence, &reason, is_required);
        let record = self.attempts.get(id).cloned();
        let next = record.map(|record| reviewer::begin(self, &record, end)).transpose()?;
        next.flatten().map_or(Ok(()), |next| self.handle(next))
    }

    /// Waits for the proofs that are being made, up to their limit or a signal.
    pub(super) fn await_proofs(&mut self) -> Result<()> {
        /// How long a proof may take to end the command that it runs.
        const END: Duration = Duration::from_secs(20);
        /// How long the wait for proofs lasts before it is journalled.
        const SILENT: Duration = Duration::from_secs(5);
        let limit = fixed_limit::proof();
        let mut deadline = Instant::now() + limit;
        let tasks = self.proofs.tasks();
        let policy = &self.core.cx.policy;
        self.proofs.allow(&self.core.cx.workspace.config, policy.jobs, true);
        if self.core.cx.policy.stop.is_some() {
            self.proofs.stop();
            deadline = Instant::now() + END;
        }
        let began = Instant::now();
        let mut is_recorded = tasks.is_empty() || self.core.cx.policy.stop.is_some();
        while !self.proofs.tasks().is_empty() {
            if Instant::now() >= deadline {
                if self.proofs.is_stopped() {
                    break;
                }
                self.proofs.stop();
                deadline = Instant::now() + END;
            }
            if !is_recorded && began.elapsed() > SILENT {
                is_recorded = true;
                let names = tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ");
                let are = if tasks.len() == 1 { "is" } else { "are" };
                let why =
                    format!("{names} {are} being proved; the run ends as soon as that is done");
                let until = Utc::now() + limit;
                self.core.emit(None, RunEvent::Waiting { until, why })?;
            }
            let message = self.inbox.listen(Duration::from_millis(200), || false);
            self.core.catch_up()?;
            let is_stopped = self.core.is_ended_now() && !self.proofs.is_stopped();
            if is_stopped || matches!(message, Some(RunnerMessage::Signal(_))) {
                self.proofs.stop();
                deadline = deadline.min(Instant::now() + END);
            }
            if message.is_some() {
                self.receive(message)?;
            }
            self.core.journal.tick();
        }
        self.proofs.stop();
        self.proofs.record_unmade(&mut self.core)
    }

    /// Removes the record of an attempt that was withdrawn, and releases its slot. No agent has run
    /// in it, so nothing of it is kept: the work of an earlier attempt in it has a ref of its own.
    pub(super) fn withdraw(&mut self, id: &AttemptId) -> Result<()> {
        let Some(record) = self.attempts.get(id).cloned() else {
            return Ok(());
        };
        let workspace = &self.core.cx.workspace;
        for name in ["stdout", "stderr"] {
            // The next attempt has the same number, and must not find them.
            let _ = std::fs::remove_file(record.file(workspace, name));
        }
        let is_prepared = record.slot.is_some() && record.controls.is_some();
        let tree = is_prepared.then(|| self.slots.secured_tree(workspace, &record).ok()).flatten();
        if let Some(tree) = &tree {
            // The setup's output may be missing, wherever that is.
            tree.slot().note_setup(None)?;
        }
        if let Some(tree) = tree.as_ref().filter(|_| record.file(workspace, "setup-1.log").exists())
        {
            // Its setup has failed there: the next one runs in a new slot.
            tree.slot().remove()?;
            self.slots.let_change();
        }
        let pinned = tree.and_then(|tree| leftovers::pin(workspace, &tree, &record, &[]).0);
        self.release(id, true)?;
        pinned.map_or(Ok(()), |name| self.core.cx.workspace.repo.drop_ref(&name))
    }

    /// Closes every attempt that an earlier run left open, as if it had ended just now.
    pub(super) fn recover(&mut self) -> Result<()> {
        let (open, damaged) = self
            .core
            .cx
            .workspace
            .state
            .attempts::<AttemptRecord>()
            .context("read open attempts")?;
        for path in damaged {
            let text = format!(
                "the record of an attempt cannot be read; it is kept as {}, and its task stays in \
                 progress until `ralph task-reset`",
                path.display()
            );
            self.core.emit(None, RunEvent::Noticed { text })?;
        }
        let mut ended = Vec::new();
        for record in open {
            let swept = record.end_all(&self.core.cx.workspace);
            if let Some(why) = away::end_elsewhere(&self.core.cx, &record) {
                self.slots.suspect(&self.core.cx, &record, why)?;
            }
            crash::point("recover.ended");
            ended.push((record, swept));
        }
        // This must precede any reading of the repository, and must follow the end of our own
        // processes.
        for (record, _) in &ended {
            close::wait_for_git(&self.core.cx.workspace, record);
        }
        for (record, swept) in ended {
            let (cx, workspace) = (&self.core.cx, &self.core.cx.workspace);
            let took = record.last_sign(workspace) - record.started_at;
            let outcome = record.outcome_left(workspace);
            record.take_fetched_output(workspace)?;
            let found = FoundAttempt {
                attempt: attempts::open_attempt(cx, &self.core.graph.file, &record),
                from_run: record.run_id.clone(),
                had_agent: record.file(workspace, "stdout").exists(),
                is_away: outcome.is_none() && away::is_away(cx, &record),
                outcome: outcome.unwrap_or(Outcome::Interrupted),
                took: took.to_std().unwrap_or_default(),
                swept,
                landed: record.has_landed(workspace)?,
            };
            self.attempts.insert(record);
            crash::point("recover.found");
            self.handle(Input::Found(Box::new(found)))?;
        }
        // Pending work has landed or is built again.
        drop_trials(&self.core.cx.workspace)
    }
}
