//! Landing: the trials of the merge queue of a run, and their results.

use std::time::{Duration, Instant};

use super::{
    Situation,
    command::{AttemptId, LandingCommand, RunCommand},
    input::{BuiltBatch, LandOutcome},
    verified_batch::{BuiltCommit, CheckedCommand, Unproven, VerifiedBatch, VerifyRun},
};
use crate::{
    commit_id::CommitId,
    event::{Batch, Event, Held, LandingEvent},
    merge_queue::{MergeQueue, QueueStep},
    verdict::{CheckResult, Merge},
    whole::ProvenTip,
};

/// The pause before another step after one that failed.
const RETRY: Duration = Duration::from_secs(10);

/// Work that passed and is queued to land.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueuedWork {
    pub(super) id: AttemptId,
    pub(super) iteration: u32,
    pub(super) target: String,
    /// The commands that verify it.
    pub(super) verify: Vec<String>,
    /// The run of these commands in its own worktree.
    pub(super) own_run: VerifyRun,
}

/// A batch in a trial.
#[derive(Clone, Debug, PartialEq)]
struct QueueTrial {
    branch: String,
    onto: CommitId,
    began: Instant,
    stage: TrialStage,
}

/// The step of a trial.
#[derive(Clone, Debug, PartialEq)]
enum TrialStage {
    /// The work of the members is being combined.
    Building,
    /// The commands that verify the batch run.
    Verifying {
        /// The work of each member on top of the members before it.
        commits: Vec<BuiltCommit>,
        /// The files that differed from the last commit before the first command.
        changed: Vec<String>,
        /// The commands that must pass.
        required: Vec<String>,
    },
    /// The tip is being moved.
    Landing(VerifiedBatch),
}

/// The merge queue of a run.
#[derive(Clone, Debug, Default)]
pub struct LandingQueue {
    queue: MergeQueue<QueuedWork>,
    trial: Option<QueueTrial>,
    /// The command that failed with the suspects, and the tip of that trial.
    red: Option<(CheckResult, CommitId)>,
    /// The tip of the last trial, if its commands did not run on the batch.
    strayed: Option<CommitId>,
    /// What blocked landing at the last step.
    held: Option<Held>,
    /// The last such reason that was journalled, until something lands.
    told: Option<Held>,
    /// Whether only queued work was left at the last step, and is since then.
    is_last_step: bool,
    /// When the next step is due.
    again: Option<Instant>,
    /// What passed on the commit that landed last.
    proven: Option<ProvenTip>,
}

/// The result of a step of the merge queue.
#[derive(Debug)]
pub(super) enum LandingNext {
    /// Execute these commands.
    Commands(Vec<RunCommand>),
    /// Run these commands in the trial, under its first member, this attempt.
    Verify(AttemptId, Vec<String>),
    /// Execute the commands, then conclude these attempts. Each has the outcome of its landing, the
    /// failed command if there is one, and its work on the target branch.
    Ended(Vec<RunCommand>, Vec<(AttemptId, Merge, Option<CheckResult>, Option<BuiltCommit>)>),
}

impl LandingQueue {
    /// The attempts that are queued, in order.
    pub fn queued(&self) -> impl Iterator<Item = &AttemptId> {
        self.queue.waiting().iter().map(|work| &work.id)
    }

    pub(super) fn rename_branch(&mut self, from: &str, to: &str) {
        let targets = self.queue.waiting_mut().iter_mut().map(|work| &mut work.target);
        targets.filter(|target| *target == from).for_each(|target| to.clone_into(target));
    }

    /// Whether a batch is being tried.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// The target branch of the next step, if a step is due. `is_alone` says whether only queued
    /// work is left.
    pub(super) fn due(&mut self, is_alone: bool, sit: &Situation<'_>) -> Option<&str> {
        self.is_last_step &= is_alone;
        // What blocked landing before may be gone, and the run is about to stop because of it.
        let is_stale = is_alone && self.held().is_some() && !self.is_last_step;
        let is_due = |at: Option<Instant>| is_stale || at.is_none_or(|at| at <= sit.now);
        if self.is_trying() {
            return None;
        }
        let waiting = self.queue.waiting().first().filter(|_| is_due(self.again));
        waiting.map(|work| work.target.as_str())
    }

    /// The time until the next step is due.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.again.map(|at| at.saturating_duration_since(now))
    }

    /// What blocks all landing, while work is queued and no trial runs.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref().filter(|_| !self.is_trying() && !self.queue.waiting().is_empty())
    }

    /// What passed on the commit that landed last in this run.
    pub fn proven(&self) -> Option<&ProvenTip> {
        self.proven.as_ref()
    }

    /// Queues work at the end; returns how many are queued.
    pub(super) fn push(&mut self, work: QueuedWork) -> usize {
        self.queue.push(work);
        self.queue.waiting().len()
    }

    /// Takes the next step, with the work on top of `tip`; `is_alone` as in
    /// [`due`](LandingQueue::due).
    pub(super) fn step(
        &mut self,
        tip: Option<&CommitId>,
        is_alone: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        (self.again, self.held, self.is_last_step) = (None, None, is_alone);
        if self.red.as_ref().is_some_and(|(_, onto)| Some(onto) != tip) {
            self.red = None;
            self.queue.moved();
        }
        match self.queue.next() {
            QueueStep::Nothing => LandingNext::Commands(Vec::new()),
            QueueStep::Try(count) => LandingNext::Commands(self.build(count, tip, sit)),
            QueueStep::SendBack => {
                let (check, onto) = match self.red.take() {
                    Some((check, onto)) => (Some(check), onto),
                    None => (None, CommitId::from("")),
                };
                let merge = |branch| Merge::Red { branch, onto };
                self.send_back(Vec::new(), merge, check)
            }
        }
    }

    fn batch(&self, count: usize, branch: &str, onto: &CommitId) -> Batch {
        let members = self.queue.waiting().iter().take(count);
        let tasks = members.map(|work| work.id.task_id.clone()).collect();
        Batch { branch: branch.to_owned(), onto: onto.clone(), tasks }
    }

    /// Returns the command that journals an event about the first entry of the queue.
    fn emit(&self, event: impl Into<Event>) -> RunCommand {
        let first = self.queue.waiting().first();
        let about = first.map(|work| (work.id.task_id.clone(), work.iteration));
        RunCommand::Emit(about, Box::new(event.into()))
    }

    /// Returns the commands that build a batch of the first `count` entries on the target branch.
    fn build(
        &mut self,
        count: usize,
        tip: Option<&CommitId>,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let waiting = self.queue.waiting();
        let Some(branch) = waiting.first().map(|work| work.target.clone()) else {
            return Vec::new();
        };
        let Some(onto) = tip.cloned() else {
            let why =
                format!("branch `{branch}` is gone; `git branch {branch}` makes it again here");
            return self.hold(Held { branch, why }, sit);
        };
        let members = waiting[..count].iter().take_while(|work| work.target == branch);
        let members: Vec<AttemptId> = members.map(|work| work.id.clone()).collect();
        let merging = self.emit(LandingEvent::Merging(self.batch(members.len(), &branch, &onto)));
        let (stage, began) = (TrialStage::Building, sit.now);
        self.trial = Some(QueueTrial { branch, onto: onto.clone(), began, stage });
        vec![merging, LandingCommand::Build { onto, members, in_trial: false }.into()]
    }

    /// Handles a built batch. `required` are the commands that must pass on it; `None` if it can no
    /// longer land.
    pub(super) fn built(
        &mut self,
        built: Result<BuiltBatch, String>,
        required: Option<Vec<String>>,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let Some(trial) = self.trial.take() else {
            return LandingNext::Commands(Vec::new());
        };
        let QueueTrial { branch, onto, .. } = trial.clone();
        let BuiltBatch { commits, conflict, refused, changed, as_is, is_set_up: _ } = match built {
            Ok(built) => built,
            Err(why) => return LandingNext::Commands(self.hold(Held { branch, why }, sit)),
        };
        if commits.is_empty() {
            let paths = conflict.unwrap_or_default();
            let result = |branch| match refused {
                Some(why) => Merge::Refused { branch, why },
                None => Merge::Conflict { branch, onto, paths },
            };
            return self.send_back(Vec::new(), result, None);
        }
        if as_is {
            return LandingNext::Commands(self.land_as_is(trial, &commits, sit));
        }
        let Some(required) = required else {
            return LandingNext::Commands(Vec::new());
        };
        let leader = self.queued().next().cloned();
        let stage = TrialStage::Verifying { commits, changed, required: required.clone() };
        self.trial = Some(QueueTrial { stage, ..trial });
        match leader {
            Some(leader) if !required.is_empty() => LandingNext::Verify(leader, required),
            _ => LandingNext::Commands(self.verified(Some(Vec::new()), sit)),
        }
    }

    /// Lands the first entry, whose work is on top of the target branch already, if its verify
    /// commands passed there. If not, it is tried as any other work.
    fn land_as_is(
        &mut self,
        trial: QueueTrial,
        commits: &[BuiltCommit],
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(QueuedWork { id, verify, own_run, .. }) = self.queue.waiting().first() else {
            return Vec::new();
        };
        let (branch, onto) = (&trial.branch, trial.onto.clone());
        if let Ok(batch) = VerifiedBatch::new(branch, &onto, commits, verify, own_run) {
            return self.land(batch, sit);
        }
        let members = vec![id.clone()];
        self.trial = Some(trial);
        vec![LandingCommand::Build { onto, members, in_trial: true }.into()]
    }

    /// Handles the results of the verify commands of a trial. None means that they were
    /// interrupted; the next run tries again.
    pub(super) fn verified(
        &mut self,
        commands: Option<Vec<CheckedCommand>>,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(QueueTrial { branch, onto, began, stage }) = self.trial.take() else {
            return Vec::new();
        };
        let (Some(commands), TrialStage::Verifying { commits, changed, required }) =
            (commands, stage)
        else {
            return Vec::new();
        };
        let run = VerifyRun { changed, commands };
        match VerifiedBatch::new(&branch, &onto, &commits, &required, &run) {
            Ok(batch) => self.land(batch, sit),
            Err(Unproven::Red(check)) => self.red(*check, commits.len(), &branch, onto),
            // It is no verdict on the work. The next trial starts from a clean worktree.
            Err(Unproven::Strayed(why)) => {
                if self.strayed.replace(onto.clone()) != Some(onto) {
                    return Vec::new();
                }
                let commands = self.hold(Held { branch, why }, sit);
                // Verify commands can take long.
                self.again = self.again.max(Some(sit.now + (sit.now - began)));
                commands
            }
        }
    }

    /// Handles a batch of the first `count` entries that fails.
    fn red(
        &mut self,
        mut check: CheckResult,
        count: usize,
        branch: &str,
        onto: CommitId,
    ) -> Vec<RunCommand> {
        // The next trial under the same attempt writes to the same file.
        let from = check.log.clone();
        check.log = check.log.replace("/merge-", "/red-merge-");
        let mut commands = vec![LandingCommand::KeepLog { from, to: check.log.clone() }.into()];
        if count > 1 {
            commands.push(self.emit(LandingEvent::Split(self.batch(count, branch, &onto))));
        }
        self.strayed = None;
        self.red = Some((check, onto));
        self.queue.red(count);
        commands
    }

    /// Moves the tip, after the records contain the commits that are about to land.
    fn land(&mut self, batch: VerifiedBatch, sit: &Situation<'_>) -> Vec<RunCommand> {
        self.strayed = None;
        let members = self.queue.waiting().iter().zip(batch.commits());
        let record = members.map(|(work, built)| {
            LandingCommand::Record(work.id.clone(), built.commit.clone()).into()
        });
        let commands = record.chain([LandingCommand::Land(batch.clone()).into()]).collect();
        let (branch, onto) = (batch.branch().to_owned(), batch.onto().clone());
        let (stage, began) = (TrialStage::Landing(batch), sit.now);
        self.trial = Some(QueueTrial { branch, onto, began, stage });
        commands
    }

    /// Handles the result of moving the tip.
    pub(super) fn landed(
        &mut self,
        landed: Result<LandOutcome, String>,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let Some(QueueTrial { branch, stage: TrialStage::Landing(batch), .. }) = self.trial.take()
        else {
            return LandingNext::Commands(Vec::new());
        };
        let commands = match landed {
            Ok(LandOutcome::Landed { waits }) => return self.has_landed(&batch, waits),
            Ok(LandOutcome::Moved) => {
                self.queue.moved();
                Vec::new()
            }
            Err(why) => self.hold(Held { branch, why }, sit),
        };
        LandingNext::Commands(commands)
    }

    fn has_landed(&mut self, batch: &VerifiedBatch, waits: bool) -> LandingNext {
        self.told = None;
        if let Some((_, onto)) = &mut self.red {
            onto.clone_from(batch.tip());
        }
        let commits = batch.commits();
        let members = self.queue.landed(commits.len());
        self.proven = members.first().map(|leader| ProvenTip {
            commit: batch.tip().clone(),
            task_id: leader.id.task_id.clone(),
            commands: batch.required().to_vec(),
        });
        let ended = members.into_iter().zip(commits).map(|(work, built)| {
            let (branch, commit) = (batch.branch().to_owned(), built.commit.clone());
            (work.id, Merge::Landed { branch, commit, waits }, None, Some(built.clone()))
        });
        LandingNext::Ended(Vec::new(), ended.collect())
    }

    /// Pauses landing, and journals each new reason once.
    fn hold(&mut self, held: Held, sit: &Situation<'_>) -> Vec<RunCommand> {
        self.again = Some(sit.now + RETRY);
        self.held = Some(held.clone());
        if self.told.replace(held.clone()).as_ref() == Some(&held) {
            return Vec::new();
        }
        vec![RunCommand::Emit(None, Box::new(LandingEvent::MergeHeld(held).into()))]
    }

    /// Removes the first entry, whose work cannot land.
    fn send_back(
        &mut self,
        commands: Vec<RunCommand>,
        merge: impl FnOnce(String) -> Merge,
        check: Option<CheckResult>,
    ) -> LandingNext {
        let first = self.queue.send_back();
        let ended = first.map(|work| (work.id, merge(work.target), check, None));
        LandingNext::Ended(commands, ended.into_iter().collect())
    }
}
