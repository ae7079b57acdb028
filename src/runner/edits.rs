//! Changes to the graph file and the settings during a run, both by others and by the run itself.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use chrono::Utc;

use super::{HALF_SAVED, Runner, harm::GraphBefore};
use crate::{
    core::{
        event::{Cause, Event, Harm},
        graph::task::{Status, Task, TaskId},
        run::command::AttemptId,
        select::Policy,
        verdict::Merge,
    },
    project::{
        attempt, fatal,
        graph_file::{Foreign, GraphFile, Rejected, Write, rfc3339},
        landing_graph::GraphChange,
        workspace,
    },
};

/// The graph file of a run, and what is known about it.
pub(super) struct RunGraph {
    pub(super) file: GraphFile,
    /// What the landing of each attempt changes in it.
    pub(super) changes: BTreeMap<AttemptId, GraphChange>,
    /// The graph before the running attempt.
    pub(super) before: Option<GraphBefore>,
    /// Since when the file cannot be read, which the journal has then. The last valid graph is used, and
    /// no task starts.
    pub(super) unreadable: Option<Instant>,
}

impl RunGraph {
    pub(super) fn new(file: GraphFile) -> RunGraph {
        RunGraph { file, changes: BTreeMap::new(), before: None, unreadable: None }
    }
}

impl Runner {
    /// Rereads the graph file and records the changes of others.
    pub(super) fn refresh(&mut self) -> Result<()> {
        self.restore_special_graph()?;
        loop {
            match self.graph.file.refresh(&self.workspace.state) {
                Ok(found) => {
                    // What landed meanwhile is not in the file.
                    let is_back = self.graph.unreadable.take().is_some();
                    let is_changed = found.is_some();
                    let foreign = self.without_landings(found.unwrap_or_default());
                    let is_news = is_changed && (!foreign.is_empty() || !self.lands());
                    if !is_back && !is_news {
                        return Ok(());
                    }
                    self.announce_graph()?;
                    self.note(foreign, self.edited())?;
                    return self.follow_history();
                }
                // While an attempt runs, the last valid graph is used; the end of an attempt in the
                // checkout repairs the file. A run that ends needs no other.
                Err(rejected) if self.run.attempts().any_process() || self.is_asked_to_end() => {
                    return self.report_bad_graph(&rejected);
                }
                Err(rejected) if !self.is_half_saved() => {
                    // What is open is judged, and lands.
                    let is_open = self.has_open_attempts();
                    return if is_open { Ok(()) } else { Err(workspace::refused(&rejected)) };
                }
                Err(rejected) => {
                    self.report_bad_graph(&rejected)?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Whether the graph file may be in the middle of being saved.
    fn is_half_saved(&self) -> bool {
        self.graph.unreadable.is_none_or(|since| since.elapsed() <= HALF_SAVED)
    }

    /// Whether attempts are at work, or their work is about to land.
    fn has_open_attempts(&self) -> bool {
        !self.run.attempts().open().is_empty()
    }

    /// Whether a person asked the run to stop or to pause.
    fn is_asked_to_end(&self) -> bool {
        let history = self.store.history();
        self.policy.stop.is_some() || history.paused || history.run.stop.is_some()
    }

    /// Puts the graph file back if an attempt put something in its place that is not a file.
    pub(super) fn restore_special_graph(&mut self) -> Result<()> {
        let Some(aside) = self.graph.file.restore_special(&self.workspace.state)? else {
            return Ok(());
        };
        let kept = aside.strip_prefix(self.workspace.root()).unwrap_or(&aside);
        let kept = Some(kept.display().to_string());
        let (what, tasks) = (Harm::Damaged, Vec::new());
        self.emit(None, Event::GraphGuarded { what, tasks, undone: true, kept })
    }

    /// Whether work of this run is about to land, or has just landed.
    fn lands(&self) -> bool {
        self.records.values().any(|record| record.landing().is_some())
    }

    /// Whether the completion of a task has landed with its work.
    fn is_in_git(&self, id: &TaskId) -> bool {
        let mut records = self.records.values();
        self.workspace.graph_in_git().is_some()
            && records.any(|record| record.task_id == *id && record.landing().is_some())
    }

    /// Leaves out the completions of tasks whose work has just landed: each is recorded with the end
    /// of its attempt.
    pub(super) fn without_landings(&self, mut foreign: Vec<Foreign>) -> Vec<Foreign> {
        foreign.retain(|change| {
            let mut records = self.records.values();
            change.new != Some(Status::Complete)
                || !records.any(|record| record.task_id == change.task_id && record.slot.is_some())
        });
        foreign
    }

    /// Reloads changed settings between attempts: an attempt is judged by the settings of its
    /// start. If the new settings are invalid, the last valid ones stay.
    pub(super) fn reload_settings(&mut self) -> Result<()> {
        if self.run.attempts().any_process() && !self.is_isolated() {
            return Ok(());
        }
        let (config, changed) = match self.workspace.layers.refresh() {
            Ok(None) => return Ok(()),
            Ok(Some(new)) => new,
            Err(error) => {
                let error = fatal::summary(&error);
                return self.emit(None, Event::SettingsRejected { error });
            }
        };
        self.workspace.configure(config);
        for reporter in &mut self.reporters {
            reporter.settle(&self.workspace.config);
        }
        let stop = self.policy.stop;
        self.policy = Policy { stop, ..self.options.policy(&self.workspace) };
        self.graph.file.inherit(self.policy.inherit);
        if changed.is_empty() { Ok(()) } else { self.emit(None, Event::SettingsLoaded { changed }) }
    }

    /// Corrects statuses in the file that git or the lock of this run contradict: a task that is
    /// complete in the newest commit is complete, unless a person reset it, and the claim of a run
    /// that is over is void. An older version of the file may have been restored. A commit that
    /// opens the task again, such as a revert, counts as well.
    pub(super) fn follow_history(&mut self) -> Result<()> {
        // A person may look at another branch than the one that work lands on.
        let tip = match self.slots.target() {
            Some(target) => self.tip(target)?,
            None => self.workspace.repo.head()?.commit,
        };
        let Some(tip) = tip.filter(|_| self.plain().is_none()) else {
            return Ok(());
        };
        let Some(committed) = self.committed_graph(&tip)? else { return Ok(()) };
        let open: Vec<TaskId> = self.records.keys().map(|id| id.task_id.clone()).collect();
        let tasks = self.graph.file.graph().tasks().iter();
        let is_open = |task: &&Task| {
            matches!(task.status, Status::Pending | Status::InProgress) && !open.contains(&task.id)
        };
        let mut done = Vec::new();
        let (mut void, mut asked) = (Vec::new(), Vec::new());
        // The file was restored, and the question with the status was lost.
        let is_asked = |task: &Task| {
            let is_open = task.status == Status::Pending && !self.run.attempts().any_process();
            is_open && self.store.history().of(&task.id).asks
        };
        for task in tasks.filter(is_open) {
            let past = self.store.history().of(&task.id);
            let number = committed.graph().number(&task.id);
            let there = number.map(|number| committed.graph().task(number));
            let is_done = there.is_some_and(|there| there.status == Status::Complete);
            if !past.was_reset && is_done {
                let at = there.and_then(|task| task.extra.get("completed_at")?.as_str());
                done.push((task.id.clone(), at.map(str::to_owned)));
            } else if is_asked(task) {
                asked.push(task.id.clone());
            } else if is_void_claim(task) {
                let word = number.filter(|_| !there.is_some_and(is_void_claim));
                let word = word.map(|number| committed.status_word(number));
                void.push((task.id.clone(), word));
            }
        }
        for (id, at) in done {
            let at = at.unwrap_or_else(|| rfc3339(Utc::now()));
            self.set((&id, 0), Write::Complete { at: &at }, Cause::History)?;
        }
        for id in asked {
            self.set((&id, 0), Write::Plain(Status::NeedsInput), Cause::History)?;
        }
        for (id, word) in void {
            let write = match &word {
                Some(word) => Write::Restored(word.as_deref()),
                None => Write::Plain(Status::Pending),
            };
            self.set((&id, 0), write, Cause::Recovered)?;
        }
        Ok(())
    }

    /// Records which files of a person an attempt in the checkout finds changed.
    pub(super) fn name_uncommitted(&mut self) -> Result<()> {
        if self.is_isolated() || self.plain().is_some() {
            return Ok(());
        }
        let (paths, more) = attempt::first_changed(&self.workspace)?;
        if paths.is_empty() {
            return Ok(());
        }
        self.emit(None, Event::UncommittedFound { paths, more })
    }

    /// Opens the tasks again whose work landed on another branch than the one that is checked out:
    /// this branch does not have the work, and a changed graph file would keep git from switching
    /// branches.
    pub(super) fn reopen_other_branches(&mut self) -> Result<()> {
        let head = self.workspace.repo.head()?;
        let (Some(branch), Some(tip)) = (head.branch, head.commit) else { return Ok(()) };
        let is_elsewhere = |task: &&Task| {
            let last = self.store.history().of(&task.id).last.as_ref();
            let merge = last.and_then(|last| last.ended.evidence.merge.as_ref());
            let Some(Merge::Landed { branch: other, commit }) = merge else { return false };
            let is_ancestor = |commit| self.workspace.repo.is_ancestor(commit, &tip);
            task.status == Status::Complete
                && *other != branch
                && !is_ancestor(commit).unwrap_or(true)
        };
        let tasks = self.graph.file.graph().tasks().iter();
        let elsewhere: Vec<TaskId> =
            tasks.filter(is_elsewhere).map(|task| task.id.clone()).collect();
        if elsewhere.is_empty() {
            return Ok(());
        }
        let Some(committed) = self.committed_graph(&tip)? else { return Ok(()) };
        for id in elsewhere {
            let Some(number) = committed.graph().number(&id) else { continue };
            let there = committed.graph().task(number);
            let word = committed.status_word(number);
            let write = match there.status {
                Status::Pending => Write::Restored(word.as_deref()),
                // A person has committed the claim.
                Status::InProgress if is_void_claim(there) => Write::Plain(Status::Pending),
                _ => continue,
            };
            self.set((&id, 0), write, Cause::OtherBranch)?;
        }
        Ok(())
    }

    /// The graph of a commit; none if the commit has no valid one.
    pub(super) fn committed_graph(&self, commit: &str) -> Result<Option<GraphFile>> {
        let text = self.committed(commit)?;
        let text = text.and_then(|text| String::from_utf8(text).ok());
        Ok(text.and_then(|text| GraphFile::assume(Path::new(""), "", false, false, &text).ok()))
    }

    /// Reports once that the graph file is unreadable.
    pub(super) fn report_bad_graph(&mut self, rejected: &Rejected) -> Result<()> {
        if self.graph.unreadable.is_some() {
            return Ok(());
        }
        self.graph.unreadable = Some(Instant::now());
        self.emit(None, Event::GraphRejected { error: rejected.summary() })
    }

    /// Returns the cause to record for an edit that is found now.
    pub(super) fn edited(&self) -> Cause {
        if self.run.attempts().any_process() { Cause::EditedDuringAttempt } else { Cause::Edited }
    }

    /// Records the changes of others in the graph file.
    pub(super) fn note(
        &mut self,
        foreign: impl IntoIterator<Item = Foreign>,
        cause: Cause,
    ) -> Result<()> {
        for Foreign { task_id, old, new } in foreign {
            let event = Event::StatusChanged { old, new, cause, reason: None };
            let records = self.store.emit(None, Some(&task_id), event)?;
            self.publish(&records);
        }
        Ok(())
    }

    /// Writes a status to the graph file and records the change. Returns whether the file has it.
    pub(super) fn set(
        &mut self,
        about: (&TaskId, u32),
        write: Write<'_>,
        cause: Cause,
    ) -> Result<bool> {
        let (id, _) = about;
        let status = |file: &GraphFile| {
            file.graph().number(id).map(|number| file.graph().task(number).status)
        };
        let is_claimed = self.records.values().any(|record| record.task_id == *id);
        let old = match (write, status(&self.graph.file)) {
            // The landing has written it.
            (Write::Complete { .. }, Some(Status::Complete)) if is_claimed => {
                Some(Status::InProgress)
            }
            (_, old) => old,
        };
        let (foreign, is_written) = match self.graph.file.write(&self.workspace.state, id, write) {
            Ok(written) => written,
            Err(error) => {
                let rejected = error.downcast::<Rejected>()?;
                // Once the file can be read, the claim that stays in it is void, and the commit that
                // completed a task counts.
                let is_known = match write {
                    Write::Complete { .. } => self.is_in_git(id),
                    // The attempt does not start.
                    Write::Claim { .. } => true,
                    Write::Plain(_) | Write::Restored(_) => {
                        self.has_open_attempts() || self.is_asked_to_end()
                    }
                };
                return if is_known {
                    self.report_bad_graph(&rejected)?;
                    Ok(false)
                } else {
                    Err(workspace::refused(&rejected))
                };
            }
        };
        self.note(self.without_landings(foreign), self.edited())?;
        let new = Some(write.status());
        if is_written && old != new {
            self.emit(Some(about), Event::StatusChanged { old, new, cause, reason: None })?;
        }
        Ok(is_written)
    }
}

/// Whether a run of `ralph` claimed a task that no open attempt works on: that run is over, since
/// this one has the lock.
fn is_void_claim(task: &Task) -> bool {
    task.claiming_run().is_some_and(|run| run != "prompt")
}
