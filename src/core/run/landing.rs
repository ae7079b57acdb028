//! Landing: what the merge queue of a run tries next, and what follows from that.

use std::time::{Duration, Instant};

use super::{
    Situation,
    command::{AttemptId, RunCommand},
    input::{BuiltBatch, BuiltCommit, LandOutcome},
};
use crate::core::{
    commit_id::CommitId,
    event::{Batch, Event, Held},
    merge_queue::{MergeQueue, QueueStep},
    verdict::{CheckResult, Merge},
};

/// After how long a branch that could not be moved is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The same while another git is at work there.
const BUSY: Duration = Duration::from_millis(300);
/// After how long a lock of another git counts as left behind.
const BLOCKED: Duration = Duration::from_secs(10);

/// Work that passed and is queued to land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuedWork {
    pub(super) id: AttemptId,
    pub(super) iteration: u32,
    pub(super) target: String,
}

/// A batch that is tried.
#[derive(Clone, Debug, PartialEq)]
struct QueueTrial {
    branch: String,
    onto: CommitId,
    /// What each of its members comes to on top of those before it.
    commits: Vec<BuiltCommit>,
}

/// The merge queue of a run.
#[derive(Clone, Debug, Default)]
pub struct LandingQueue {
    queue: MergeQueue<QueuedWork>,
    trial: Option<QueueTrial>,
    /// A batch that passed and could not land yet.
    green: Option<QueueTrial>,
    /// The command that failed with those that are suspected, and the tip where it did.
    red: Option<(CheckResult, CommitId)>,
    /// What keeps the target branch from moving.
    held: Option<Held>,
    /// When it is tried again.
    again: Option<Instant>,
    /// Since when another git is at work there.
    busy: Option<Instant>,
}

/// What follows from a step of the merge queue.
#[derive(Debug)]
pub(super) enum LandingNext {
    /// These commands.
    Commands(Vec<RunCommand>),
    /// The trial passes by its verify commands, which its first member leads.
    Verify(AttemptId),
    /// These have ended, each with what became of its work and the failed command, if one did; the
    /// commands come first.
    Ended(Vec<RunCommand>, Vec<(AttemptId, Merge, Option<CheckResult>, Option<BuiltCommit>)>),
}

impl LandingQueue {
    /// The attempts that are queued, in order.
    pub fn queued(&self) -> impl Iterator<Item = &AttemptId> {
        self.queue.waiting().iter().map(|work| &work.id)
    }

    /// Whether a batch is being tried.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// The branch that the next step needs to know the tip of, if a step is due.
    pub fn due(&self, sit: &Situation<'_>) -> Option<&str> {
        let waits = self.again.is_some_and(|at| sit.now < at);
        if self.is_trying() || sit.is_ending() || waits {
            return None;
        }
        self.queue.waiting().first().map(|work| work.target.as_str())
    }

    /// How long until something has to be done about it.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.again.map(|at| at.saturating_duration_since(now))
    }

    /// What keeps the branch from moving, while work is queued and nothing is tried.
    pub fn held(&self) -> Option<&Held> {
        let waits = !self.is_trying() && !self.queue.waiting().is_empty();
        self.held.as_ref().filter(|_| waits)
    }

    /// The attempts that are tried together.
    pub(super) fn tried(&self) -> impl Iterator<Item = &AttemptId> {
        let count = self.trial.as_ref().map_or(0, |trial| trial.commits.len());
        self.queued().take(count)
    }

    /// Queues work at the end; returns how many are queued.
    pub(super) fn push(&mut self, work: QueuedWork) -> usize {
        self.queue.push(work);
        self.queue.waiting().len()
    }

    /// Takes the next step, with the target branch at `tip`.
    pub(super) fn step(&mut self, tip: Option<&CommitId>, sit: &Situation<'_>) -> LandingNext {
        self.again = None;
        // What was tried need not be tried again where the branch has not moved.
        if let Some(trial) = self.green.take().filter(|trial| Some(&trial.onto) == tip) {
            self.trial = Some(trial);
            return LandingNext::Commands(self.land());
        }
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

    /// An event about the first of the queue as a command.
    fn emit(&self, event: Event) -> RunCommand {
        let first = self.queue.waiting().first();
        let about = first.map(|work| (work.id.task_id.clone(), work.iteration));
        RunCommand::Emit(about, Box::new(event))
    }

    /// Has the first few put together on top of the target branch.
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
            let why = format!("branch `{branch}` is gone");
            return self.hold(Held::because(branch, why), sit);
        };
        let members = waiting[..count].iter().take_while(|work| work.target == branch);
        let members: Vec<AttemptId> = members.map(|work| work.id.clone()).collect();
        let merging = self.emit(Event::Merging(self.batch(members.len(), &branch, &onto)));
        self.trial =
            Some(QueueTrial { branch: branch.clone(), onto: onto.clone(), commits: Vec::new() });
        vec![merging, RunCommand::Build { branch, onto, members }]
    }

    /// Goes on with what was put together.
    pub(super) fn built(
        &mut self,
        built: Result<BuiltBatch, String>,
        verifies: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let Some(trial) = &mut self.trial else {
            return LandingNext::Commands(Vec::new());
        };
        let (branch, onto) = (trial.branch.clone(), trial.onto.clone());
        let BuiltBatch { commits, conflict, is_verified } = match built {
            Ok(built) => built,
            Err(why) => {
                self.trial = None;
                return LandingNext::Commands(self.hold(Held::because(branch, why), sit));
            }
        };
        if commits.is_empty() {
            self.trial = None;
            let paths = conflict.unwrap_or_default();
            return self.send_back(
                Vec::new(),
                |branch| Merge::Conflict { branch, onto, paths },
                None,
            );
        }
        trial.commits = commits;
        if sit.is_ending() && !is_verified {
            self.trial = None;
            return LandingNext::Commands(Vec::new());
        }
        if is_verified || !verifies {
            return LandingNext::Commands(self.land());
        }
        match self.queued().next().cloned() {
            Some(leader) => LandingNext::Verify(leader),
            None => LandingNext::Commands(Vec::new()),
        }
    }

    /// Goes on after the verify commands of a trial; none were cut off, and the next run tries again.
    pub(super) fn verified(&mut self, checks: Option<Vec<CheckResult>>) -> Vec<RunCommand> {
        let Some(checks) = checks else {
            self.trial = None;
            return Vec::new();
        };
        let Some(mut check) = checks.into_iter().find(|check| !check.is_green()) else {
            return self.land();
        };
        let Some(trial) = self.trial.take() else {
            return Vec::new();
        };
        // The next trial that the same attempt leads writes its own.
        let from = check.log.clone();
        check.log = check.log.replace("/merge-", "/red-merge-");
        let mut commands = vec![RunCommand::KeepLog { from, to: check.log.clone() }];
        let count = trial.commits.len();
        if count > 1 {
            let batch = self.batch(count, &trial.branch, &trial.onto);
            commands.push(self.emit(Event::Split(batch)));
        }
        self.red = Some((check, trial.onto));
        self.queue.red(count);
        commands
    }

    /// Moves the target branch. What is about to land is in the records before.
    fn land(&mut self) -> Vec<RunCommand> {
        let Some(trial) = &self.trial else {
            return Vec::new();
        };
        let Some(last) = trial.commits.last() else {
            return Vec::new();
        };
        let members = self.queue.waiting().iter().zip(&trial.commits);
        let record = members
            .map(|(work, built)| RunCommand::RecordLanding(work.id.clone(), built.commit.clone()));
        let land = RunCommand::Land {
            branch: trial.branch.clone(),
            onto: trial.onto.clone(),
            commit: last.commit.clone(),
        };
        record.chain([land]).collect()
    }

    /// Goes on after the target branch was moved, or not.
    pub(super) fn landed(
        &mut self,
        landed: Result<LandOutcome, String>,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let Some(trial) = self.trial.take() else {
            return LandingNext::Commands(Vec::new());
        };
        let branch = trial.branch.clone();
        let commands = match landed {
            Ok(LandOutcome::Landed) => return self.has_landed(trial),
            Ok(LandOutcome::Moved) => {
                self.queue.moved();
                Vec::new()
            }
            Ok(LandOutcome::Busy { why }) => {
                self.green = Some(trial);
                let since = *self.busy.get_or_insert(sit.now);
                if sit.now.saturating_duration_since(since) > BLOCKED {
                    self.hold(Held::because(branch, why), sit)
                } else {
                    self.again = Some(sit.now + BUSY);
                    Vec::new()
                }
            }
            Ok(LandOutcome::Blocked { checkout, paths, why }) => {
                self.green = Some(trial);
                let why = paths.is_empty().then_some(why);
                self.hold(Held { branch, checkout, paths, why }, sit)
            }
            Err(why) => self.hold(Held::because(branch, why), sit),
        };
        LandingNext::Commands(commands)
    }

    fn has_landed(&mut self, trial: QueueTrial) -> LandingNext {
        let QueueTrial { branch, commits, .. } = trial;
        (self.held, self.busy) = (None, None);
        if let (Some((_, onto)), Some(last)) = (&mut self.red, commits.last()) {
            onto.clone_from(&last.commit);
        }
        let members = self.queue.landed(commits.len());
        let ended = members.into_iter().zip(commits).map(|(work, built)| {
            let merge = Merge::Landed { branch: branch.clone(), commit: built.commit.clone() };
            (work.id, merge, None, Some(built))
        });
        LandingNext::Ended(Vec::new(), ended.collect())
    }

    /// Leaves everything for a while, and says why, once.
    fn hold(&mut self, held: Held, sit: &Situation<'_>) -> Vec<RunCommand> {
        self.again = Some(sit.now + RETRY);
        if self.held.replace(held.clone()).as_ref() == Some(&held) {
            return Vec::new();
        }
        vec![RunCommand::Emit(None, Box::new(Event::MergeHeld(held)))]
    }

    /// Takes out the first, whose work does not fit.
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
