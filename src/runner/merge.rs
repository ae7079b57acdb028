//! The merge queue at work: what is done by itself is put on top of the target branch, tried there,
//! and lands.
//!
//! Git's part is done beside the loop; the verify commands run like those of an attempt, as those of
//! the first one of the batch. The target branch is only ever moved to a commit on which they have
//! succeeded.

use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    Runner, RunnerMessage,
    close::PendingResult,
    verify::{Checks, ProcessStage},
};
use crate::{
    adapters::git::{BranchWork, Integrated, IntegrationMethod, Landing, Repo},
    core::{
        event::{Batch, Event, Held, StopReason},
        graph::task::TaskId,
        merge_queue::{MergeQueue, QueueStep},
        verdict::{CheckResult, Merge, Verdict},
    },
    crash,
    project::{
        attempt::{AttemptRecord, CONFLICT, leftovers},
        worktree_pool::WorktreePool,
    },
};

/// Between two attempts at moving a branch that somebody's changes hold back.
const RETRY: Duration = Duration::from_secs(5);
/// The same while another git is at work there.
const BUSY: Duration = Duration::from_millis(300);
/// After how long that is taken for a lock that somebody has left.
const BLOCKED: Duration = Duration::from_secs(10);

/// An attempt that is done by itself.
struct QueuedAttempt {
    record: AttemptRecord,
    end: PendingResult,
    target: String,
    /// The last commit of its branch.
    head: String,
}

/// What is being tried.
#[derive(Clone)]
struct QueueTrial {
    branch: String,
    onto: String,
    /// What each of them comes to on top of those before it.
    commits: Vec<String>,
}

/// The merge queue of a run.
#[derive(Default)]
pub(super) struct LandingQueue {
    queue: MergeQueue<QueuedAttempt>,
    trial: Option<QueueTrial>,
    /// What is green and could not land yet.
    green: Option<QueueTrial>,
    /// The command that did not succeed with those who are suspected, and where that was.
    red: Option<(CheckResult, String)>,
    /// What keeps the target branch where it is.
    held: Option<Held>,
    again: Option<Instant>,
    /// Since when another git is at work there.
    busy: Option<Instant>,
}

impl LandingQueue {
    /// The records of those who wait.
    pub(super) fn records(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.queue.waiting().iter().map(|waiting| &waiting.record)
    }

    /// Whether something is tried now.
    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether another git is at work there for longer than any should be.
    fn is_blocked(&mut self) -> bool {
        self.busy.get_or_insert_with(Instant::now).elapsed() > BLOCKED
    }

    /// When something has to be done about it.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.again.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

/// What is put together, and where.
struct TrialOrder {
    pool: WorktreePool,
    onto: String,
    pieces: Vec<(String, String, String)>,
    how: IntegrationMethod,
    own: Vec<String>,
    attributes: PathBuf,
}

/// What came of that: the commits of those that fit, and why the next one does not.
pub(super) struct BuiltTrial {
    commits: Vec<String>,
    conflict: Option<(Vec<String>, String)>,
}

fn build(order: &TrialOrder) -> Result<BuiltTrial> {
    let (tree, _) = order.pool.open(&order.pool.merge(), &order.onto)?;
    let own: Vec<&str> = order.own.iter().map(String::as_str).collect();
    let mut commits: Vec<String> = Vec::new();
    for (base, head, message) in &order.pieces {
        let onto = commits.last().unwrap_or(&order.onto).clone();
        let piece = BranchWork { head, base, message };
        match tree.integrate(&onto, &piece, order.how, &own, Some(&order.attributes))? {
            Integrated::Done(commit) => commits.push(commit.into()),
            Integrated::Nothing => commits.push(onto),
            Integrated::Conflict { paths, diff } => {
                return Ok(BuiltTrial { commits, conflict: Some((paths, diff)) });
            }
        }
    }
    Ok(BuiltTrial { commits, conflict: None })
}

impl Runner {
    /// Puts an attempt that is done by itself at the end of the queue.
    pub(super) fn enqueue(
        &mut self,
        record: &AttemptRecord,
        end: PendingResult,
        target: String,
    ) -> Result<()> {
        let head =
            end.evidence.commits.last().context("an attempt without commits")?.id.to_string();
        self.queue.queue.push(QueuedAttempt { record: record.clone(), end, target, head });
        let waiting = self.queue.queue.waiting().len();
        let event = Event::Queued { attempt: record.attempt, waiting };
        self.emit(Some((&record.task_id, record.iteration)), event)?;
        crash::point("merge.queued");
        Ok(())
    }

    /// Tries what waits, if nothing is tried.
    pub(super) fn merge(&mut self) -> Result<()> {
        if self.queue.is_trying()
            || self.is_ending()
            || self.queue.patience().is_some_and(|left| !left.is_zero())
        {
            return Ok(());
        }
        self.queue.again = None;
        // What was tried need not be tried again where the branch is still there.
        if let Some(trial) = self.queue.green.take()
            && self.tip(&trial.branch)?.as_ref() == Some(&trial.onto)
        {
            self.queue.trial = Some(trial);
            return self.land();
        }
        self.forget_red()?;
        loop {
            match self.queue.queue.next() {
                QueueStep::Nothing => return Ok(()),
                QueueStep::Try(count) => return self.try_together(count),
                QueueStep::SendBack => {
                    let (check, onto) = self.queue.red.take().context("red without a check")?;
                    self.send_back(|branch| Merge::Red { branch, onto }, Some(check))?;
                }
            }
        }
    }

    /// Forgets who was red together where the target branch has been moved by somebody else since.
    fn forget_red(&mut self) -> Result<()> {
        let (Some((_, onto)), Some(first)) = (&self.queue.red, self.queue.queue.waiting().first())
        else {
            return Ok(());
        };
        if self.tip(&first.target)?.as_ref() != Some(onto) {
            self.queue.red = None;
            self.queue.queue.moved();
        }
        Ok(())
    }

    /// Whether all that is left to do is to wait for a person who is in the way.
    pub(super) fn stuck_in_merge(&self) -> Option<StopReason> {
        let held = self.queue.held.clone()?;
        let idle = self.running.is_empty() && self.trees.preparing.is_empty();
        let waits = !self.queue.is_trying() && self.queue.records().next().is_some();
        (idle && waits && !self.policy.wait).then_some(StopReason::MergeHeld(held))
    }

    fn batch(&self, count: usize, branch: &str, onto: &str) -> Batch {
        let tasks: Vec<TaskId> =
            self.queue.records().take(count).map(|record| record.task_id.clone()).collect();
        Batch { branch: branch.to_owned(), onto: onto.to_owned(), tasks }
    }

    fn leader(&self) -> Result<AttemptRecord> {
        self.queue.records().next().cloned().context("a trial of nothing")
    }

    /// Puts the first few together on top of the target branch.
    fn try_together(&mut self, count: usize) -> Result<()> {
        let waiting = self.queue.queue.waiting();
        let branch = waiting.first().context("a trial of nothing")?.target.clone();
        let count = waiting[..count].iter().take_while(|one| one.target == branch).count();
        let Some(onto) = self.tip(&branch)? else {
            let why = format!("branch `{branch}` is gone");
            return self.hold_back(Held::because(branch, why));
        };
        let leader = self.leader()?;
        let event = Event::Merging(self.batch(count, &branch, &onto));
        self.emit(Some((&leader.task_id, leader.iteration)), event)?;
        crash::point("merge.told");
        let how = self.workspace.config.merge;
        let own: Vec<String> = Some(self.workspace.graph_name())
            .filter(|name| !name.starts_with('/'))
            .into_iter()
            .collect();
        let waiting = &self.queue.queue.waiting()[..count];
        if let [one] = waiting
            && let Some(base) = one.record.base.as_ref().filter(|base| **base == onto)
            // They saw these, too.
            && one.end.evidence.leftovers.is_empty()
        {
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let piece = BranchWork { head: &one.head, base, message: "" };
            if let Some(commit) = self.workspace.repo.fits_as_it_is(&onto, &piece, how, &own)? {
                // It is on top already, and its verify commands have succeeded just there.
                self.queue.trial = Some(QueueTrial { branch, onto, commits: vec![commit.into()] });
                return self.land();
            }
        }
        let mut pieces = Vec::new();
        for one in waiting {
            let base = one.record.base.clone().context("an attempt without a base")?;
            let title = self.task_of(&one.record).map(|task| task.title).unwrap_or_default();
            let message = leftovers::message(&one.record, &title);
            pieces.push((base, one.head.clone(), message));
        }
        let attributes = self.attributes()?;
        let pool = self.trees.pool.clone();
        let order = TrialOrder { pool, onto: onto.clone(), pieces, how, own, attributes };
        self.queue.trial = Some(QueueTrial { branch, onto, commits: Vec::new() });
        let outbox = self.outbox.clone();
        thread::spawn(move || drop(outbox.send(RunnerMessage::Built(build(&order)))));
        Ok(())
    }

    /// The file that says how git merges what agents write together.
    fn attributes(&self) -> Result<PathBuf> {
        let config = &self.workspace.config;
        let union = config.merge_union.0.iter().map(String::as_str);
        let union = union.chain([self.workspace.learnings()]);
        let lines: Vec<String> = union.map(|path| format!("{path} merge=union\n")).collect();
        let lines = lines.concat();
        let path = self.workspace.state.dir().join("attributes");
        if fs::read_to_string(&path).ok().as_ref() != Some(&lines) {
            fs::write(&path, lines).with_context(|| format!("write `{}`", path.display()))?;
        }
        Ok(path)
    }

    /// Git has put them together, as far as they fit.
    pub(super) fn built(&mut self, built: Result<BuiltTrial>) -> Result<()> {
        crash::point("merge.built");
        let Some(trial) = &mut self.queue.trial else {
            return Ok(());
        };
        let (branch, onto) = (trial.branch.clone(), trial.onto.clone());
        let BuiltTrial { commits, conflict } = match built {
            Ok(built) => built,
            Err(error) => {
                self.queue.trial = None;
                return self.hold_back(Held::because(branch, format!("{error:#}")));
            }
        };
        if commits.is_empty() {
            self.queue.trial = None;
            let (paths, diff) = conflict.context("nothing fits, and nothing is in conflict")?;
            let leader = self.leader()?;
            let path = leader.file(&self.workspace, CONFLICT);
            fs::write(&path, diff).with_context(|| format!("write `{}`", path.display()))?;
            return self.send_back(|branch| Merge::Conflict { branch, onto, paths }, None);
        }
        trial.commits = commits;
        if self.is_ending() {
            self.queue.trial = None;
            return Ok(());
        }
        let commands = self.commands_of_trial();
        if commands.is_empty() {
            return self.land();
        }
        let leader = self.leader()?;
        self.launch(leader, ProcessStage::Trial(Checks::new(commands)))
    }

    /// What must succeed: the verify commands of each of them, in a work tree that is set up.
    fn commands_of_trial(&self) -> Vec<String> {
        let count = self.queue.trial.as_ref().map_or(0, |trial| trial.commits.len());
        let records = self.queue.records().take(count);
        let verify = records.filter_map(|record| Some(record.terms.as_ref()?.verify().to_vec()));
        let mut seen = HashSet::new();
        let verify: Vec<String> =
            verify.flatten().filter(|command| seen.insert(command.clone())).collect();
        if verify.is_empty() {
            return verify;
        }
        self.workspace.config.setup.0.iter().cloned().chain(verify).collect()
    }

    /// Its verify commands have been run.
    pub(super) fn tried(&mut self, checks: &[CheckResult]) -> Result<()> {
        let red = checks.iter().find(|check| !check.is_green()).cloned();
        let Some(mut check) = red else {
            return self.land();
        };
        // The next trial of the same leader has its own.
        let (root, log) = (self.workspace.root(), check.log.replace("/merge-", "/red-merge-"));
        if fs::rename(root.join(&check.log), root.join(&log)).is_ok() {
            check.log = log;
        }
        let Some(trial) = self.queue.trial.take() else {
            return Ok(());
        };
        let count = trial.commits.len();
        if count > 1 {
            let leader = self.leader()?;
            let event = Event::Split(self.batch(count, &trial.branch, &trial.onto));
            self.emit(Some((&leader.task_id, leader.iteration)), event)?;
        }
        self.queue.red = Some((check, trial.onto));
        self.queue.queue.red(count);
        Ok(())
    }

    /// The run is being stopped in the middle of a trial, which the next run makes again.
    pub(super) fn drop_trial(&mut self) {
        self.queue.trial = None;
    }

    /// Moves the target branch. What is about to land is on record before.
    fn land(&mut self) -> Result<()> {
        let trial = self.queue.trial.as_ref().context("landing without a trial")?;
        let (branch, onto) = (trial.branch.clone(), trial.onto.clone());
        let commits = trial.commits.clone();
        for (waiting, commit) in self.queue.queue.waiting_mut().iter_mut().zip(&commits) {
            if let Some(apart) = &mut waiting.record.apart {
                apart.landing = Some(commit.clone());
            }
        }
        for record in self.queue.records().take(commits.len()) {
            record.write(&self.workspace)?;
            crash::point("merge.intended");
        }
        let (root, outbox) = (self.workspace.root().to_owned(), self.outbox.clone());
        let last = commits.last().cloned().context("landing nothing")?;
        thread::spawn(move || {
            let landed = Repo::discover(&root).and_then(|repo| repo.land(&branch, &onto, &last));
            drop(outbox.send(RunnerMessage::Landed(landed)));
        });
        Ok(())
    }

    /// The target branch was moved, or not.
    pub(super) fn landed(&mut self, landed: Result<Landing>) -> Result<()> {
        crash::point("merge.landed");
        let Some(trial) = self.queue.trial.take() else {
            return Ok(());
        };
        if let Ok(Landing::InTheWay { .. } | Landing::Busy { .. }) = landed {
            self.queue.green = Some(trial.clone());
        }
        let QueueTrial { branch, onto, commits } = trial;
        match landed {
            Ok(Landing::Landed) => {
                self.queue.held = None;
                self.queue.busy = None;
                if let (Some((_, onto)), Some(last)) = (&mut self.queue.red, commits.last()) {
                    onto.clone_from(last);
                }
                let members = self.queue.queue.landed(commits.len());
                let mut before = onto;
                for (waiting, commit) in members.into_iter().zip(commits) {
                    let QueuedAttempt { record, mut end, head, .. } = waiting;
                    if commit != head {
                        // Those that are in the branch now are its commits.
                        end.evidence.commits = self.workspace.repo.between(&before, &commit)?;
                    }
                    before.clone_from(&commit);
                    let branch = branch.clone();
                    end.evidence.merge = Some(Merge::Landed { branch, commit });
                    self.conclude(&record, end)?;
                }
                Ok(())
            }
            Ok(Landing::Moved) => {
                self.queue.queue.moved();
                Ok(())
            }
            Ok(Landing::Busy { why }) if self.queue.is_blocked() => {
                self.hold_back(Held::because(branch, why))
            }
            Ok(Landing::Busy { .. }) => {
                self.queue.again = Some(Instant::now() + BUSY);
                Ok(())
            }
            Ok(Landing::InTheWay { checkout, paths, why }) => {
                let why = paths.is_empty().then_some(why);
                let checkout = checkout.display().to_string();
                self.hold_back(Held { branch, checkout, paths, why })
            }
            Err(error) => self.hold_back(Held::because(branch, format!("{error:#}"))),
        }
    }

    /// Lets everything wait for a while, and says why, once.
    fn hold_back(&mut self, held: Held) -> Result<()> {
        self.queue.again = Some(Instant::now() + RETRY);
        if self.queue.held.replace(held.clone()).as_ref() == Some(&held) {
            return Ok(());
        }
        self.emit(None, Event::MergeHeld(held))
    }

    /// Closes the attempt that is first in the queue as one whose work does not fit.
    fn send_back(
        &mut self,
        merge: impl FnOnce(String) -> Merge,
        check: Option<CheckResult>,
    ) -> Result<()> {
        let Some(QueuedAttempt { record, mut end, target, .. }) = self.queue.queue.send_back()
        else {
            return Ok(());
        };
        end.evidence.merge = Some(merge(target));
        end.evidence.verify.extend(check);
        self.conclude(&record, end)
    }

    /// Whether the work of an attempt that was found after a crash is in the target branch.
    pub(super) fn has_landed(&self, record: &AttemptRecord) -> Result<Option<Merge>> {
        let Some(apart) = &record.apart else {
            return Ok(None);
        };
        let (Some(commit), Some(tip)) = (apart.landing.clone(), self.tip(&apart.target)?) else {
            return Ok(None);
        };
        let is_in = self.workspace.repo.is_ancestor(&commit, &tip)?;
        let branch = apart.target.clone();
        Ok(is_in.then_some(Merge::Landed { branch, commit }))
    }
}

/// Whether an attempt that is judged so has something to merge, and where to.
pub(super) fn target_of(
    record: &AttemptRecord,
    end: &PendingResult,
    verdict: Verdict,
) -> Option<String> {
    let apart = record.apart.as_ref()?;
    let is_due = verdict == Verdict::Complete && end.evidence.merge.is_none();
    (is_due && !end.evidence.commits.is_empty()).then(|| apart.target.clone())
}
