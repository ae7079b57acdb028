//! The end of an attempt: its results are examined, judged, kept and released.

mod checkout;

use std::{
    io::{self, Read},
    mem, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{Runner, harm::GraphChanges, start::attempt_id};
use crate::{
    adapters::{
        agent_output,
        git::{HeadPlace, Repo},
        process, terminal,
    },
    core::{
        agents::provider_error::{ProviderError, ProviderErrorKind},
        commit_id::CommitId,
        event::Event,
        failure_line,
        graph::task::CommitRule,
        loop_paths::{self, STALE_WORK},
        notes,
        run::{
            command::{AttemptId, PendingResult, ProcessEnd},
            input::{FoundAttempt, Input},
            verified_batch::VerifyRun,
        },
        verdict::{Autocommit, Evidence, Merge, Outcome, Rule, Verdict},
    },
    crash,
    project::{
        attempt::{self, AttemptRecord, leftovers, scrutiny},
        executors, landing_graph,
    },
    regular_file,
};

impl Runner {
    /// Examines the results of an agent in the graph and in git, once all its processes have ended.
    pub(super) fn collect(&mut self, id: &AttemptId, end: ProcessEnd) -> Result<Option<Input>> {
        let Some(record) = self.records.get(id).cloned() else {
            return Ok(None);
        };
        let outcome = end.outcome.unwrap_or(Outcome::Interrupted);
        self.workspace.ignore_outputs()?;
        crash::point("close.begun");
        self.journal_notes(id)?;
        let before = record.tree(&self.workspace);
        let tampered = before.as_ref().ok().map(|it| scrutiny::tampered(&record, it));
        let tree = before.and_then(|tree| self.secured(&record, tree));
        let unlocked = tree.as_ref().map(|tree| record.unlock(tree)).unwrap_or_default();
        let tree = tree.and_then(|tree| self.return_slot(&record, &tree).map(|()| tree));
        crash::point("close.unlocked");
        let damage = self.examine_checkout(&record)?;
        let records = self.store.catch_up()?;
        self.publish(&records);
        self.close_children(Some(id))?;
        let fault = self.reread_graph(&record)?;
        // The agent's change to its own task counts even if its other changes are undone.
        let graph = self.graph.file.graph();
        let status = graph.number(&id.task_id).map(|number| graph.task(number).status);
        let changes = self.examine_graph_copy(&record)?;
        let changes = if record.slot.is_some() {
            changes
        } else {
            GraphChanges { fault, ..self.guard_graph(&record)? }
        };
        let status = changes.status.or(status);
        crash::point("close.settled");
        let report = self.report(&record, status);
        let found = match tree {
            Ok(tree) => match attempt::evidence(&self.workspace, &tree, &record, report) {
                // An attempt may have damaged its slot. That must not end the run.
                Err(error) if record.slot.is_none() => return Err(error),
                found => found,
            },
            Err(error) => Err(error),
        };
        let mut evidence =
            found.unwrap_or_else(|error| attempt::evidence_of_nothing(&record, report, &error));
        self.record_left(id, &mut evidence)?;
        evidence.strayed = damage.or(evidence.strayed);
        evidence.tampered = tampered.unwrap_or_default();
        evidence.earlier = self.earlier_work(&record, &evidence)?;
        self.add_graph_changes(&record, changes, &mut evidence);
        let (transcript, error_kind) = record.transcript(&self.workspace, &outcome);
        let missing = end.no_program.then_some(ProviderErrorKind::Missing);
        evidence.obstacle = missing.or(error_kind).map(|error_kind| {
            let name = record.call.as_ref().map_or("", |call| call.name.as_str());
            let earlier = self.store.history().errors_before(name, &id.task_id);
            ProviderError::new(error_kind, earlier, Utc::now())
        });
        let word = transcript.end.as_ref().map(|end| end.text.clone());
        let word = word.filter(|text| !text.trim().is_empty());
        let promise = self.workspace.config.promise();
        let promised = word.as_deref().or(transcript.last_line.as_deref());
        let promised = promised.is_some_and(|result| promise.is_made(result));
        let has_failed = word.is_some() && transcript.end.as_ref().is_some_and(|end| end.is_error);
        let said = word.or(transcript.message).or(transcript.last_line).unwrap_or_default();
        let last_line = if has_failed {
            failure_line::of(&terminal::plain(&said))
        } else {
            self.last_line(&record, &said, &outcome)
        };
        let result = PendingResult {
            outcome,
            took: end.took,
            swept: end.swept,
            unlocked,
            evidence,
            verified: VerifyRun::default(),
            usage: transcript.usage,
            tools: transcript.tools,
            last_line,
            // In a plain loop the promise counts as a report.
            promised: promised && self.plain().is_none(),
        };
        Ok(Some(Input::Collected(id.clone(), Box::new(result))))
    }

    /// Journals the notes of an attempt that ran where the journal is not.
    fn journal_notes(&mut self, id: &AttemptId) -> Result<()> {
        let Some(record) = self.records.get(id) else {
            return Ok(());
        };
        let executor = executors::find(&self.workspace.config, record.run_on.as_deref());
        if executor.is_ok_and(|executor| executor.files().is_none()) {
            return Ok(());
        }
        let root = self.workspace.root();
        let path = root.join(self.workspace.task_dir(&id.task_id)).join(loop_paths::NOTES);
        let file = regular_file::open_within(root, &path);
        let text = file.and_then(|file| io::read_to_string(file.take(regular_file::LARGEST)));
        let all = notes::of_attempt(&text.unwrap_or_default(), &record.name());
        let (attempt, iteration) = (id.attempt, record.iteration);
        for (number, note) in all.iter().enumerate().skip(record.noted) {
            let noted = Event::Noted { attempt, note: note.clone(), for_all: false, tag: None };
            self.emit(Some((&id.task_id, iteration)), noted)?;
            if let Some(record) = self.records.get_mut(id) {
                record.noted = number + 1;
                record.write(&self.workspace)?;
            }
        }
        Ok(())
    }

    /// Puts a slot whose attempt an earlier run had begun to verify back to where its agent left it:
    /// what verify commands commit or check out is no work of the attempt. It is kept as stale.
    fn return_slot(&self, record: &AttemptRecord, tree: &Repo) -> Result<()> {
        let (Some(end), Some(left), Some(_)) = (&record.end_head, &record.left, &record.slot)
        else {
            return Ok(());
        };
        let head = tree.head()?.commit;
        if let Some(head) = head.filter(|head| head != end) {
            let name = format!("{STALE_WORK}/{}", record.mark());
            self.workspace.repo.bring_home(tree, &head, &name)?;
        }
        let place = HeadPlace { branch: record.branch.as_deref(), commit: Some(end) };
        tree.take_back_with_files(place, left)
    }

    /// Records what an agent left. A run that was killed later may have verified, which leaves files
    /// as well.
    fn record_left(&mut self, id: &AttemptId, evidence: &mut Evidence) -> Result<()> {
        let Some(record) = self.records.get_mut(id) else {
            return Ok(());
        };
        let left = &mut evidence.leftovers;
        if let Some(known) = &record.left {
            left.retain(|path| known.contains(path));
            return Ok(());
        }
        record.left = Some(left.clone());
        if record.slot.is_some() && evidence.strayed.is_none() {
            let last = evidence.commits.last().map(|commit| commit.id.clone());
            record.end_head = last.or_else(|| record.base.clone());
        }
        let before = record.ignored.take();
        let mut record = record.clone();
        record.has_own_ignored = before.is_some() && self.ignored_in_slot(&record) != before;
        record.write(&self.workspace)?;
        self.records.insert(id.clone(), record);
        Ok(())
    }

    /// Returns the last line of what an agent said. If the agent failed, returns the line that says
    /// why: its standard error has the reason if it states an error, or if the agent said nothing.
    fn last_line(&self, record: &AttemptRecord, said: &str, outcome: &Outcome) -> Option<String> {
        let said = terminal::plain(said);
        if !outcome.is_own_failure() {
            return failure_line::last(&said);
        }
        let errors = agent_output::failure(&record.file(&self.workspace, "stderr"));
        let errors = terminal::plain(&errors);
        failure_line::stated(&errors)
            .or_else(|| failure_line::of(&said))
            .or_else(|| failure_line::of(&errors))
    }

    /// Returns a commit of an earlier attempt at the same task, since its last reset, that is in the
    /// history of the base: an attempt that finds everything done has nothing to commit.
    fn earlier_work(
        &mut self,
        record: &AttemptRecord,
        evidence: &Evidence,
    ) -> Result<Option<CommitId>> {
        let is_needed = evidence.report.is_some();
        let Some(base) = record.base.as_ref().filter(|_| is_needed && self.plain().is_none())
        else {
            return Ok(None);
        };
        let repo = &self.workspace.repo;
        let is_reverted = |commit: &CommitId| -> Result<bool> {
            let line = format!("This reverts commit {commit}.");
            Ok(repo.commit_with_line(base, commit, &line)?.is_some())
        };
        let past = self.store.history().of(&record.task_id);
        let was_reset = past.was_reset;
        if let Some(work) = past.work.clone()
            && repo.is_ancestor(&work, base).unwrap_or(false)
        {
            return Ok(Some(work).filter(|work| !is_reverted(work).unwrap_or(false)));
        }
        // The message of a commit does not tell whether it is from before the reset.
        if !evidence.commits.is_empty() || was_reset {
            return Ok(None);
        }
        // A commit that only marks the task as done in its source has no attempt.
        let found = self.task_commits.newest(repo, base, &record.task_id)?;
        Ok(match found {
            Some(commit) if !is_reverted(&commit)? => Some(commit),
            _ => None,
        })
    }

    /// Adds what the attempt changed in the graph to its evidence. New tasks are its work if the graph
    /// is an output of the task.
    fn add_graph_changes(
        &self,
        record: &AttemptRecord,
        changes: GraphChanges,
        evidence: &mut Evidence,
    ) {
        let GraphChanges { others, added, fault, status: _ } = changes;
        (evidence.others, evidence.graph_fault) = (others, fault);
        let task = self.task_of(record);
        if !task.is_some_and(|task| scrutiny::makes_tasks(&self.workspace, &task)) {
            evidence.added_besides = added.len();
            return;
        }
        let graph = self.graph.file.graph();
        let earlier = self.store.history().of(&record.task_id).added.iter();
        // New tasks of this attempt are in the graph once its work lands.
        let earlier = earlier.filter(|id| graph.number(id).is_some());
        evidence.added = earlier.chain(&added).cloned().collect();
        evidence.added.sort_unstable();
        evidence.added.dedup();
    }

    /// Commits verified but uncommitted work that was reported done, and examines the outputs of
    /// the task.
    pub(super) fn judge(
        &mut self,
        id: &AttemptId,
        mut end: PendingResult,
    ) -> Result<Option<Input>> {
        let Some(record) = self.records.get(id).cloned() else {
            return Ok(None);
        };
        let record = &record;
        self.keep_settings(record)?;
        if end.evidence.strayed.is_none() && self.has_left_branch(record)? {
            end.evidence.strayed = Some("HEAD left its branch while it was verified".to_owned());
        }
        if end.evidence.strayed.is_none() {
            end.evidence.strayed = self.keep_lost(record, &end.evidence)?;
        }
        let (workspace, evidence) = (&self.workspace, &mut end.evidence);
        let task = self.task_of(record);
        let rule = self.rule(task.as_ref());
        let verdict = Verdict::of(&end.outcome, evidence, rule);
        let mut tree = self.secured_tree(record);
        if let (Some(task), Ok(tree)) = (task, &mut tree) {
            let may_commit = self.with_situation(&[], |sit| sit.may_commit(verdict));
            if may_commit && !evidence.leftovers.is_empty() {
                let limit = workspace.config.commit_timeout;
                let mut left = mem::take(&mut evidence.leftovers);
                let secrets = leftovers::take_new_secrets(tree, &mut left);
                let autocommit =
                    leftovers::commit(workspace, tree, record, &left, &task.title, limit)?;
                // Hooks may run files of the attempt, and change what was read of the slot before.
                self.slots.let_change();
                *tree = self.secured_tree(record)?;
                let damage = self.take_back_damaged(record)?;
                let Evidence { commits, diff, mut leftovers, strayed, .. } =
                    attempt::evidence(workspace, tree, record, evidence.report)?;
                // Changes made by a verify command do not belong to the attempt.
                leftovers.retain(|path| left.binary_search(path).is_ok() || secrets.contains(path));
                (evidence.commits, evidence.diff) = (commits, diff);
                (evidence.leftovers, evidence.strayed) = (leftovers, damage.or(strayed));
                evidence.autocommit = autocommit;
            } else if verdict == Verdict::Complete
                && rule == Rule::Task(CommitRule::Required)
                && !evidence.leftovers.is_empty()
            {
                evidence.autocommit = Some(Autocommit::Off);
            }
            scrutiny::check_evidence(workspace, tree, record, &task, evidence)?;
        }
        // Also where the task is no longer in the graph.
        let verdict = Verdict::of(&end.outcome, evidence, rule);
        if let (Verdict::Complete, None, Some(slot)) = (verdict, &evidence.merge, &record.slot)
            && let (Some(head), Ok(tree)) = (evidence.commits.last(), &tree)
        {
            let name = leftovers::pin_name(&workspace.place, &record.task_id, record.attempt);
            if let Err(error) = workspace.repo.bring_home(tree, &head.id, &name) {
                let (branch, why) = (slot.target.clone(), format!("{error:#}"));
                evidence.merge = Some(Merge::Refused { branch, why });
            }
            crash::point("close.home");
        }
        Ok(Some(Input::Judged(id.clone(), Box::new(end))))
    }

    /// Keeps the work that an attempt left. Returns the ref, and what could not be kept. For a
    /// complete isolated attempt, keeps only what is not in the target branch as is: commits that
    /// were rebased or squashed, and files that verify commands left. The ref is not returned if all that
    /// it has did land.
    pub(super) fn keep(
        &self,
        id: &AttemptId,
        verdict: Verdict,
        evidence: &Evidence,
    ) -> Result<Option<Input>> {
        let Some(record) = self.records.get(id) else {
            return Ok(None);
        };
        let (pinned, unpinned) = self.keep_work(record, verdict, evidence)?;
        crash::point("close.judged");
        Ok(Some(Input::Kept { id: id.clone(), pinned, unpinned }))
    }

    fn keep_work(
        &self,
        record: &AttemptRecord,
        verdict: Verdict,
        evidence: &Evidence,
    ) -> Result<(Option<String>, Vec<String>)> {
        let nothing = (None, Vec::new());
        let is_complete = verdict == Verdict::Complete;
        let without_agent = matches!(verdict, Verdict::BaselineBroken | Verdict::SetupFailed);
        if record.slot.is_none() && (is_complete || without_agent) {
            return Ok(nothing);
        }
        let tree = match self.secured_tree(record) {
            Ok(tree) => tree,
            Err(_) if is_complete => return Ok(nothing),
            Err(error) => return Ok((None, vec![format!("{error:#}")])),
        };
        let is_dirty = || -> Result<bool> {
            // Nothing of the attempt has run since its evidence was collected.
            let is_as_collected = evidence.verify.is_empty() && evidence.autocommit.is_none();
            let is_known = is_as_collected && evidence.leftovers.is_empty();
            Ok(!is_known && !tree.dirty()?.is_empty())
        };
        if !is_complete || is_dirty()? || tree.has_own_strays()? {
            let kept = leftovers::pin(&self.workspace, &tree, record, &evidence.leftovers);
            // The repository's filters may run files of the attempt.
            self.slots.let_change();
            return Ok(kept);
        }
        let Some(Merge::Landed { branch, .. }) = &evidence.merge else {
            return Ok(nothing);
        };
        let place = &self.workspace.place;
        let name = leftovers::pin_name(place, &record.task_id, record.attempt);
        let repo = &self.workspace.repo;
        if let Some(head) = tree.head()?.commit
            && repo.commit_of(&name)?.is_some_and(|home| home != head)
        {
            // A verify command has made a commit.
            repo.bring_home(&tree, &head, &name)?;
        }
        let (Some(head), Some(tip)) = (repo.commit_of(&name)?, self.tip(branch)?) else {
            return Ok(nothing);
        };
        if repo.is_ancestor(&head, &tip)? {
            repo.drop_ref(&name)?;
            return Ok(nothing);
        }
        // The commits as they were stay under the ref; only what has not landed is worth a word.
        let is_whole = self.has_landed_unchanged(record, evidence, &head)?;
        Ok((Some(name).filter(|_| !is_whole), Vec::new()))
    }

    /// Whether the commits that have landed do to the target branch what the attempt, whose last commit is
    /// `head`, did to its base.
    fn has_landed_unchanged(
        &self,
        record: &AttemptRecord,
        evidence: &Evidence,
        head: &CommitId,
    ) -> Result<bool> {
        let landed = (evidence.commits.first(), evidence.commits.last());
        let (Some(base), (Some(first), Some(last))) = (&record.base, landed) else {
            return Ok(false);
        };
        let repo = &self.workspace.repo;
        let onto = repo.commit_of(&format!("{}^", first.id))?;
        onto.map_or(Ok(false), |onto| repo.is_same_change([base, head], [&onto, &last.id]))
    }

    /// Removes the files of an attempt whose end is recorded, and its report.
    pub(super) fn release(&mut self, id: &AttemptId, believed: bool) -> Result<()> {
        let Some(record) = self.records.remove(id) else {
            return Ok(());
        };
        self.graph.changes.remove(id);
        self.restore_checkout(&record)?;
        self.release_slot(&record)?;
        self.remove_judged_done(&record, believed)?;
        record.forget(&self.workspace)?;
        crash::point("close.removed");
        Ok(())
    }

    /// Waits for git processes of an isolated attempt that a dead run left running, and removes the
    /// lock files of killed ones.
    fn wait_for_git(&self, record: &AttemptRecord) {
        const PATIENCE: Duration = Duration::from_secs(30);
        let Some(slot) = &record.slot else {
            return;
        };
        let began = Instant::now();
        while process::works_in("git", &slot.path) && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        record.unlock(&self.workspace.repo);
    }

    /// Closes every attempt that an earlier run left open, as if it had ended just now.
    pub(super) fn recover(&mut self) -> Result<()> {
        let (open, damaged) =
            self.workspace.state.attempts::<AttemptRecord>().context("read open attempts")?;
        for path in damaged {
            self.emit(None, Event::RecordDamaged { kept: path.display().to_string() })?;
        }
        let mut ended = Vec::new();
        for record in open {
            let swept = record.end_all(&self.workspace);
            self.end_elsewhere(&record)?;
            crash::point("recover.ended");
            ended.push((record, swept));
        }
        // This must precede any reading of the repository, and must follow the end of our own
        // processes.
        for (record, _) in &ended {
            self.wait_for_git(record);
        }
        let repo = &self.workspace.repo;
        landing_graph::recover(&self.workspace.state, repo, |commit| {
            let head = repo.head()?.commit;
            head.map_or(Ok(false), |head| repo.is_ancestor(commit, &head))
        })?;
        for (record, swept) in ended {
            let took = record.last_sign(&self.workspace) - record.started_at;
            let took = took.to_std().unwrap_or_default();
            let outcome = record.outcome_left(&self.workspace);
            record.take_fetched_output(&self.workspace)?;
            let found = FoundAttempt {
                attempt: self.open_attempt(&record),
                from_run: record.run_id.clone(),
                had_agent: record.file(&self.workspace, "stdout").exists(),
                is_away: outcome.is_none() && self.is_away(&record),
                outcome: outcome.unwrap_or(Outcome::Interrupted),
                took,
                swept,
                landed: self.has_landed(&record)?,
            };
            self.records.insert(attempt_id(&record), record);
            crash::point("recover.found");
            self.handle(Input::Found(Box::new(found)))?;
        }
        // What was about to land has landed or is built again.
        self.workspace.repo.drop_ref(&self.workspace.place.trial_ref())?;
        self.close_children(None)
    }
}
