//! The history of the newest run.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{History, LastAttempt, TaskHistory};
use crate::{
    commit_id::CommitId,
    event::{
        AgentChange, AttemptResult, Begun, Blocker, Cause, StopReason, StopRequest, record::Record,
    },
    exit::Exit,
    graph::task::{Status, TaskId},
    spend::Spend,
    verdict::Verdict,
    waste::PaidAttempts,
};

/// The number of earlier runs that are kept.
pub(super) const KEPT_RUNS: usize = 20;

/// The newest run, whether it has ended or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "these are facts")]
pub struct RunHistory {
    /// Its id; empty before the first run.
    pub id: String,
    /// When it started.
    pub started_at: Option<DateTime<Utc>>,
    /// The event of its start.
    pub begun: Begun,
    /// The number of attempts, including those of the paused run that it continues.
    pub iterations: u32,
    /// How many of these do not count towards the limit.
    unused: u32,
    /// The numbers of attempts that were withdrawn, which later attempts get.
    #[serde(default)]
    withdrawn: BTreeSet<u32>,
    /// The number of completed tasks.
    pub completed: u32,
    /// The tasks that an edit of the graph file during an attempt made complete. No attempt did.
    pub marked: BTreeSet<TaskId>,
    /// The statuses that tasks have by a command of a person; none for a removed task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub commanded: BTreeMap<TaskId, Option<Status>>,
    /// The number of different tasks that failed since the last completed one; in a plain loop, of
    /// iterations since the last without failure. Attempts that ran at the same time count as one.
    pub failures_in_a_row: u32,
    /// These tasks, in the order of their failures.
    pub failed_tasks: Vec<TaskId>,
    /// The number of ended attempts when the newest of these failures ended.
    failed_at: u64,
    /// The number of attempts in a row that failed right after their start. Attempts that ran at
    /// the same time count as one.
    pub starts_failed: u32,
    /// The number of ended attempts when the newest of these failures ended.
    start_failed_at: u64,
    /// The number of failed attempts; in a plain loop, including those of the paused run that it
    /// continues.
    pub failures: u32,
    /// The usage of its attempts, including those of the paused run that it continues.
    pub spend: Spend,
    /// How many of its attempts were needed.
    #[serde(default)]
    pub paid: PaidAttempts,
    /// The runs before it that are reported with it.
    pub before: ReportedRuns,
    /// Whether a person has looked at its end.
    pub seen: bool,
    /// The usage of the paused run that it continues; none in a plain loop, which stays one run.
    spend_before: Spend,
    /// The number of waits for other processes or people since the last attempt.
    pub waits: u32,
    /// Whether its newest attempt completed its task.
    pub last_completed: bool,
    /// Whether an agent reported that everything is done, and this is accepted.
    pub promised: bool,
    /// The agent of the newest attempt, if it was denied access.
    pub denied: Option<String>,
    /// The newest change of agents.
    pub agent_change: Option<AgentChange>,
    /// The verify command that failed before an attempt, if one did.
    pub baseline_broken: Option<String>,
    /// The reason why no attempt can start from the tip of the target branch, if there is one.
    pub bad_base: Option<String>,
    /// Its last wait, until an attempt starts.
    pub waiting: Option<Waiting>,
    /// Whether `ralph pause` was requested before it ended.
    pub was_paused: bool,
    /// Whether Ctrl-Z has suspended it.
    pub suspended: bool,
    /// Whether it makes commits without the signature that they are to have.
    pub is_unsigned: bool,
    /// The request to stop, if there was one.
    pub stop: Option<StopRequest>,
    /// Why it ended and its exit code, once it has ended.
    pub finished: Option<(String, u8)>,
    /// The time of its newest event; of its end, once it has ended.
    pub last_at: Option<DateTime<Utc>>,
    /// Its wall time, once it has ended.
    pub duration_seconds: Option<f64>,
    /// The number of tasks that were neither complete nor cancelled when it ended.
    pub remaining: Option<usize>,
    /// The tasks that blocked everything else, if that was so when it last looked.
    pub blockers: Vec<Blocker>,
    /// The work that has landed, in order; also that of an earlier run that was killed before it could
    /// verify the whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub landed: Vec<LandedWork>,
}

/// Work that has landed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandedWork {
    /// The task.
    pub task_id: TaskId,
    /// The attempt.
    pub attempt: u32,
    /// The folder of the attempt, relative to the repository.
    pub log: String,
    /// Its commits, as they landed.
    pub commits: Vec<CommitId>,
    /// The commit of the branch with the work and the status of the task.
    pub commit: CommitId,
    /// The commit of the branch before its trial; none if the end was found after a crash.
    pub onto: Option<CommitId>,
}

/// A run before the newest one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastRun {
    /// Its id.
    pub id: String,
    /// When it started.
    pub started_at: Option<DateTime<Utc>>,
    /// The number of attempts.
    pub iterations: u32,
    /// The number of completed tasks.
    pub completed: u32,
    /// Why it ended and its exit code; none if it exited unexpectedly.
    pub finished: Option<(String, u8)>,
}

/// Runs that are reported as one, because the ends of the earlier ones were not seen or they were
/// continued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedRuns {
    /// When the first of them started.
    pub since: Option<DateTime<Utc>>,
    /// Their number.
    pub runs: u32,
    /// How many of them crashed.
    pub crashed: u32,
    /// The number of completed tasks.
    pub completed: u32,
    /// The number of failed attempts.
    pub failures: u32,
    /// The usage of the attempts.
    pub spend: Spend,
    /// How many of the attempts were needed.
    pub paid: PaidAttempts,
    /// Their wall time, without the time between them.
    pub wall_seconds: f64,
}

/// The wait of a run while no attempt can start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The time of the next decision.
    pub until: DateTime<Utc>,
    /// The reason.
    pub why: String,
}

/// Whether an attempt failed without a commit and so soon that its agent probably did not start.
fn failed_to_start(ended: &AttemptResult) -> bool {
    /// A failure within this time counts as a failed start. Claude Code gives its first answer
    /// after about a second; an invalid key or flag ends it sooner.
    const AT_ONCE: Duration = Duration::from_secs(5);
    // A provider error shows that the agent started, and so does an answer of its model, or work.
    let has_answered = ended.usage.tokens.is_some_and(|tokens| tokens.output > 0);
    ended.verdict == Verdict::Failed
        && ended.evidence.obstacle.is_none()
        && !has_answered
        && ended.evidence.commits.is_empty()
        && ended.evidence.leftovers.is_empty()
        && ended.duration() < AT_ONCE
}

impl RunHistory {
    /// The past run to keep once another begins; none before the first run.
    pub(super) fn as_past(&self) -> Option<PastRun> {
        (!self.id.is_empty()).then(|| PastRun {
            id: self.id.clone(),
            started_at: self.started_at,
            iterations: self.own_iterations(),
            completed: self.completed,
            finished: self.end_as_past(),
        })
    }

    /// Why it ended and its exit code, in words that stay true once another run has begun.
    pub fn end_as_past(&self) -> Option<(String, u8)> {
        let name = self.begun.plain.as_ref().map(|plain| plain.name.clone());
        let paused = StopReason::Paused(name).to_string();
        let (why, code) = self.finished.clone()?;
        Some((if why == paused { "paused".to_owned() } else { why }, code))
    }

    /// Whether it ended early: by a crash, a signal or a person, or because it waits for a person.
    pub fn was_cut_short(&self) -> bool {
        /// Exit codes above this are signals.
        const SIGNALS: u8 = 128;
        let by_itself =
            |(_, code): &(String, u8)| *code != Exit::Waiting.code() && *code <= SIGNALS;
        !self.id.is_empty() && !self.finished.as_ref().is_some_and(by_itself)
    }

    /// Whether it ended at a limit.
    pub fn ended_at_limit(&self) -> bool {
        self.finished.as_ref().is_some_and(|(_, code)| *code == Exit::Limit.code())
    }

    /// The runs before it that are reported with it.
    pub fn reported_before(&self) -> Option<&ReportedRuns> {
        Some(&self.before).filter(|before| before.runs > 0)
    }

    /// The runs that are reported with it, and itself; `spend` is the usage of its attempts.
    pub(super) fn reported(&self, spend: &Spend) -> ReportedRuns {
        let mut all = self.reported_before().cloned().unwrap_or_default();
        let own = self.last_at.zip(self.started_at).map(|(to, from)| to - from);
        let own = own.and_then(|own| own.to_std().ok()).unwrap_or_default().as_secs_f64();
        all.since = all.since.or(self.started_at);
        all.runs += 1;
        all.crashed += u32::from(self.finished.is_none());
        all.completed += self.completed;
        all.failures += self.failures;
        all.spend = all.spend.plus(&self.own(spend));
        all.paid.join(&self.paid);
        all.wall_seconds += self.duration_seconds.unwrap_or(own);
        all
    }

    /// Whether a run that starts now is reported with it.
    fn is_joined_by(&self, now: DateTime<Utc>) -> bool {
        /// A run that continues another within this time belongs to the same night.
        const NIGHT: TimeDelta = TimeDelta::hours(6);
        let is_near = self.last_at.is_some_and(|last| now - last < NIGHT);
        let continues = is_near && (self.was_cut_short() || self.ended_at_limit());
        let is_graph = !self.id.is_empty() && self.begun.plain.is_none();
        is_graph && (!self.seen || continues)
    }

    /// The number of attempts without those of the paused run that it continues.
    pub fn own_iterations(&self) -> u32 {
        self.iterations.saturating_sub(self.begun.before)
    }

    /// The usage, from `spend` of it so far, without that of the paused run that it continues.
    pub(super) fn own(&self, spend: &Spend) -> Spend {
        spend.since(&self.spend_before)
    }

    /// The number of attempts that count towards the limit.
    pub fn used(&self) -> u32 {
        self.iterations.saturating_sub(self.unused)
    }

    /// The limit on attempts to show next to their number.
    pub fn shown_limit(&self) -> u32 {
        self.begun.max_iterations.saturating_add(self.unused).max(self.iterations)
    }

    /// Applies the verdict on an attempt; `is_of_run` says whether this run started it.
    pub(super) fn note_unused(&mut self, verdict: Verdict, is_of_run: bool) {
        if !verdict.uses_iteration() && (is_of_run || self.begun.before > 0) {
            self.unused += 1;
        }
    }

    /// The number in the run of the next attempt.
    pub fn next_iteration(&self) -> u32 {
        let highest = self.iterations + u32::try_from(self.withdrawn.len()).unwrap_or(u32::MAX);
        self.withdrawn.first().copied().unwrap_or(highest + 1)
    }

    /// Applies the start of an attempt with this number.
    pub(super) fn start(&mut self, iteration: Option<u32>) {
        (self.iterations, self.waits) = (self.iterations + 1, 0);
        self.withdrawn.retain(|number| Some(*number) != iteration);
        self.waiting = None;
        self.blockers.clear();
    }

    /// Takes back the start of an attempt with this number.
    pub(super) fn withdraw(&mut self, iteration: Option<u32>) {
        self.iterations = self.iterations.saturating_sub(1);
        self.withdrawn.extend(iteration);
    }

    /// Applies a wait.
    pub(crate) fn wait(&mut self, until: DateTime<Utc>, why: &str) {
        self.waits += 1;
        self.waiting = Some(Waiting { until, why: why.to_owned() });
    }

    /// Applies the time of an event.
    pub(super) fn note_time(&mut self, record: &Record) {
        if record.run_id == self.id && self.finished.is_none() {
            self.last_at = Some(record.timestamp);
        }
    }

    /// Applies the end of an attempt. `at` is the number of ended attempts including this one, and
    /// `began` is that number when the attempt started.
    ///
    /// A failure counts as the next one in a row only if its attempt started after the previous
    /// failure. Eight parallel attempts that fail because of one broken commit or one network
    /// outage are one failure; otherwise they would stop a run that the next attempt might
    /// continue. With one attempt at a time, the first failure of every task counts, and every failure
    /// of a plain loop.
    pub(super) fn close(
        &mut self,
        id: Option<&TaskId>,
        (at, began): (u64, u64),
        ended: &AttemptResult,
        spend: &Spend,
    ) {
        self.last_completed = ended.verdict == Verdict::Complete;
        self.spend = self.spend.plus(spend);
        self.paid.add(ended);
        if !failed_to_start(ended) {
            (self.starts_failed, self.start_failed_at) = (0, 0);
        } else if began >= self.start_failed_at {
            (self.starts_failed, self.start_failed_at) = (self.starts_failed + 1, at);
        }
        self.denied = ended.agent.clone().filter(|_| ended.verdict == Verdict::Denied);
        if ended.verdict == Verdict::BaselineBroken {
            let is_bad_base = ended.evidence.bad_base.is_some();
            let fault = if is_bad_base { &mut self.bad_base } else { &mut self.baseline_broken };
            *fault = Some(ended.why.clone());
        }
        self.completed += u32::from(self.last_completed);
        if self.last_completed || ended.verdict == Verdict::Again {
            (self.failures_in_a_row, self.failed_at) = (0, 0);
            self.failed_tasks.clear();
        } else if ended.verdict.counts() {
            self.failures += 1;
            let is_known = id.is_some_and(|id| self.failed_tasks.contains(id));
            if began >= self.failed_at && (self.begun.plain.is_some() || !is_known) {
                (self.failures_in_a_row, self.failed_at) = (self.failures_in_a_row + 1, at);
                self.failed_tasks.extend(id.filter(|_| !is_known).cloned());
            }
        }
    }

    /// Starts a run. A run that continues a paused one keeps its usage and its failures.
    pub(super) fn begin(&mut self, record: &Record, begun: &Begun) {
        let mut before = mem::take(self);
        // A run that was killed or stopped by a person has not verified its landed work.
        let was_stopped = |code: u8| code > 128 || code == Exit::Waiting.code();
        let is_verified = before.finished.as_ref().is_some_and(|(_, code)| !was_stopped(*code));
        let landed = if is_verified { Vec::new() } else { mem::take(&mut before.landed) };
        let reported =
            before.is_joined_by(record.timestamp).then(|| before.reported(&before.spend));
        let is_loop = begun.plain.is_some();
        let continued = if begun.before > 0 { before } else { RunHistory::default() };
        *self = RunHistory {
            id: record.run_id.clone(),
            started_at: Some(record.timestamp),
            last_at: Some(record.timestamp),
            begun: begun.clone(),
            iterations: begun.before,
            unused: continued.unused,
            spend: continued.spend,
            spend_before: if is_loop { Spend::default() } else { continued.spend },
            before: reported.unwrap_or_default(),
            failures: if is_loop { continued.failures } else { 0 },
            paid: if is_loop { continued.paid } else { PaidAttempts::default() },
            failures_in_a_row: continued.failures_in_a_row,
            failed_tasks: continued.failed_tasks,
            failed_at: continued.failed_at,
            landed,
            ..RunHistory::default()
        };
    }

    /// Notes whether a command gave a task its status, and whether an edit during an attempt made it
    /// complete.
    pub(super) fn mark(&mut self, id: &TaskId, new: Option<Status>, cause: Cause) {
        self.commanded.remove(id);
        self.commanded.extend((cause == Cause::Command).then(|| (id.clone(), new)));
        if (new, cause) == (Some(Status::Complete), Cause::EditedDuringAttempt) {
            self.marked.insert(id.clone());
        } else {
            self.marked.remove(id);
        }
    }

    /// Applies a request to stop. A later request without `now` does not cancel an earlier one with
    /// `now`.
    pub(super) fn request_stop(&mut self, stop: &StopRequest) {
        let now = stop.now || self.stop.as_ref().is_some_and(|before| before.now);
        self.stop = Some(StopRequest { now, ..stop.clone() });
    }
}

impl History {
    /// The ids that a new task must not have: those of tasks that were attempted or complete, whether
    /// or not they are still in the graph.
    pub fn used_ids(&self) -> BTreeSet<TaskId> {
        let attempted = self.tasks.iter().filter(|(_, past)| past.attempts > 0);
        attempted.map(|(id, _)| id).chain(&self.completed).cloned().collect()
    }

    /// The tasks with a history, by id.
    pub fn tasks(&self) -> Vec<(&TaskId, &TaskHistory)> {
        let mut tasks: Vec<_> = self.tasks.iter().map(|(id, past)| (id, &**past)).collect();
        tasks.sort_unstable_by_key(|(id, _)| id.as_str());
        tasks
    }

    /// The newest run with those that are reported with it.
    pub fn reported(&self) -> ReportedRuns {
        self.run.reported(&self.spend())
    }

    /// The tasks that the reported runs completed, in the order of completion.
    pub fn completed_in_run(&self) -> Vec<(&TaskId, &LastAttempt)> {
        self.ended_in_run(|verdict| verdict == Verdict::Complete)
    }

    /// The tasks whose newest attempt failed in the reported runs, in the order of failure.
    pub fn failed_in_run(&self) -> Vec<(&TaskId, &LastAttempt)> {
        self.ended_in_run(Verdict::counts)
    }

    fn ended_in_run(&self, wanted: fn(Verdict) -> bool) -> Vec<(&TaskId, &LastAttempt)> {
        let before = self.run.reported_before();
        let began = before.map_or(self.run.started_at, |before| before.since);
        let last = self.tasks.iter().filter_map(|(id, past)| Some((id, past.last.as_deref()?)));
        let in_run = |last: &LastAttempt| wanted(last.verdict) && Some(last.at) >= began;
        let mut ended: Vec<_> = last.filter(|(_, last)| in_run(last)).collect();
        ended.sort_by_key(|(id, last)| (last.at, id.as_str()));
        ended
    }
}
