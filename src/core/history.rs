//! What has happened so far, as a fold over the journal.
//!
//! Live view, status, the choice of the next task and recovery all read this and nothing else of
//! the past, so they cannot disagree. Pure: the journal is read by `journal`.

pub mod attempt_log;
mod active;

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::core::{
    agents::{provider_error::ProviderError, transcript::Tokens},
    event::{
        Answer, AttemptResult, Begun, Cause, ChildAgent, Event, Slept, StopRequest, record::Record,
    },
    graph::task::{Status, TaskId},
    spend::{DAY, Spend},
    verdict::{Commit, Verdict},
};
pub use active::{ActiveAttempt, ActiveAttempts};
use attempt_log::AttemptLog;

/// The fold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    tasks: HashMap<TaskId, TaskHistory>,
    /// The newest run.
    pub run: RunHistory,
    /// The attempts that have not ended, and the merge queue.
    pub active: ActiveAttempts,
    /// How many attempts have ended: by this it is known which of them ran together. Clocks are set.
    ended: u64,
    /// Whether an attempt that was not completed has left commits that nobody has proven since.
    pub unproven: bool,
    /// The agents that met an obstacle in their newest attempt, by name.
    pub resting: HashMap<String, AgentCooldown>,
    /// Whether nothing may start until `ralph resume`, in whatever run.
    pub paused: bool,
    /// What was spent in the last day, and when.
    pub recent: Vec<(DateTime<Utc>, f64)>,
    /// The child agents that have no end, the oldest first.
    pub children: Vec<OpenChild>,
    /// Every attempt there was, where the whole journal is read for it.
    #[serde(skip)]
    pub log: Option<AttemptLog>,
    /// What `ralph schedule` waits for, or waited for when it was cut off.
    pub schedule: Option<ScheduleState>,
}

/// A schedule that nobody has ended by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// What it waits for.
    pub slept: Slept,
    /// Whether it has started a run instead, and that is not over.
    pub awake: bool,
    /// Up to then every time is seen to. Later than the newest fact where the clock was set back.
    pub seen_to: DateTime<Utc>,
}

/// A child agent that has no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChild {
    /// The task it works for.
    pub task_id: TaskId,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Which.
    pub child: ChildAgent,
}

/// The newest run, finished or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunHistory {
    /// Its id; empty before the first.
    pub id: String,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// What it began with.
    pub begun: Begun,
    /// Attempts begun, those of the paused run that it goes on with included.
    pub iterations: u32,
    /// Tasks completed.
    pub completed: u32,
    /// Failed attempts since the last completed one, or since an iteration that did not fail; of
    /// those that ran together, one.
    pub failures_in_a_row: u32,
    /// The count of ended attempts with the newest of them.
    failed_at: u64,
    /// Attempts that failed at once, with nothing in between that did not; of those that ran
    /// together, one.
    pub starts_failed: u32,
    /// The count of ended attempts with the newest of them.
    start_failed_at: u64,
    /// Failed attempts.
    pub failures: u32,
    /// What its attempts used, those of the paused run that it goes on with included.
    pub spend: Spend,
    /// Waits for something outside since the last attempt.
    pub waits: u32,
    /// Whether its newest attempt completed its task.
    pub last_completed: bool,
    /// Whether its agent said that all is done, and is to be believed.
    pub promised: bool,
    /// What was red before an attempt of it, if anything was.
    pub baseline_broken: Option<String>,
    /// Whether Ctrl-Z made it stand still.
    pub suspended: bool,
    /// How it was asked to stop, if it was.
    pub stop: Option<StopRequest>,
    /// Why it ended and its exit code, once it has.
    pub finished: Option<(String, u8)>,
}

/// An agent that met an obstacle in its newest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCooldown {
    /// What it met last.
    pub met: ProviderError,
    /// How many attempts in a row met one; of those that ran together, one.
    pub count: u32,
    /// The count of ended attempts with the newest of them.
    at: u64,
    /// When the first of them ended.
    pub since: DateTime<Utc>,
}

/// The past of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskHistory {
    /// Attempts ever begun: the number of the newest one.
    pub attempts: u32,
    /// Attempts that count, since the last reset.
    pub counted: u32,
    /// Whether it is parked however many attempts it has left.
    #[serde(default)]
    pub stuck: bool,
    /// What its attempts used since the last reset.
    #[serde(default)]
    pub spend: Spend,
    /// How the newest ended attempt went.
    pub last: Option<Box<LastAttempt>>,
    /// The commits of the attempt that completed it.
    pub commits: Vec<Commit>,
    /// What its agents asked and a person answered, until it is complete; oldest first.
    #[serde(default)]
    pub answers: Vec<Answer>,
}

/// The end of the newest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastAttempt {
    /// When.
    pub at: DateTime<Utc>,
    /// How.
    pub ended: AttemptResult,
}

/// Whether an attempt failed so soon, and without a commit, that its agent can hardly have begun.
fn failed_to_start(ended: &AttemptResult) -> bool {
    /// What a real agent needs to begin: Claude Code has its first answer after about a second, a
    /// refused key or flag ends it in less.
    const AT_ONCE: Duration = Duration::from_secs(5);
    ended.verdict == Verdict::Failed
        && ended.evidence.commits.is_empty()
        && ended.duration() < AT_ONCE
}

impl RunHistory {
    /// Takes in the end of an attempt, the one with which so many have ended, of which so many had
    /// when it began.
    ///
    /// What counts in a row are failures that were begun in view of the one before. Eight attempts
    /// that run together and fail by one broken commit or one network that is out are one event; as
    /// eight in a row they would end a night's run over what the next attempt may find mended. With
    /// one attempt at a time each begins after the one before has ended, and each counts.
    fn close(&mut self, at: u64, began: u64, ended: &AttemptResult) {
        self.last_completed = ended.verdict == Verdict::Complete;
        self.spend.add(ended);
        if !failed_to_start(ended) {
            (self.starts_failed, self.start_failed_at) = (0, 0);
        } else if began >= self.start_failed_at {
            (self.starts_failed, self.start_failed_at) = (self.starts_failed + 1, at);
        }
        if ended.verdict == Verdict::BaselineBroken {
            self.baseline_broken = Some(ended.why.clone());
        }
        self.completed += u32::from(self.last_completed);
        if self.last_completed || ended.verdict == Verdict::Again {
            (self.failures_in_a_row, self.failed_at) = (0, 0);
        } else if ended.verdict.counts() {
            self.failures += 1;
            if began >= self.failed_at {
                (self.failures_in_a_row, self.failed_at) = (self.failures_in_a_row + 1, at);
            }
        }
    }
}

impl TaskHistory {
    /// What the newest attempt asks, if it waits for a person.
    pub fn question(&self) -> Option<&str> {
        self.last.as_ref().and_then(|last| last.ended.question())
    }
}

static NOTHING: TaskHistory = TaskHistory {
    attempts: 0,
    counted: 0,
    stuck: false,
    spend: Spend {
        attempts: 0,
        cost_usd: 0.0,
        unknown_cost: 0,
        tokens: Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0 },
        unknown_tokens: 0,
        duration_seconds: 0.0,
    },
    last: None,
    commits: Vec::new(),
    answers: Vec::new(),
};

impl TaskHistory {
    fn reset(&mut self) {
        (self.counted, self.stuck, self.spend) = (0, false, Spend::default());
    }

    /// Takes in a person's word on the status. An agent that writes so is not believed yet.
    fn set_by_hand(&mut self, status: Status) {
        match status {
            // To put a parked task back by hand means what `task-reset` says.
            Status::Pending => self.reset(),
            Status::Complete => self.answers.clear(),
            Status::InProgress | Status::Blocked | Status::NeedsInput | Status::Cancelled => {}
        }
    }
}

impl RunHistory {
    /// Takes in a request to stop. A later and milder one does not take back a harder one.
    fn request_stop(&mut self, stop: &StopRequest) {
        let now = stop.now || self.stop.as_ref().is_some_and(|before| before.now);
        self.stop = Some(StopRequest { now, ..stop.clone() });
    }
}

impl History {
    /// A history that also keeps every attempt there was.
    pub fn with_log() -> History {
        History { log: Some(AttemptLog::default()), ..History::default() }
    }

    /// The past of a task; a blank one if it has none.
    pub fn of(&self, id: &TaskId) -> &TaskHistory {
        self.tasks.get(id).unwrap_or(&NOTHING)
    }

    /// How many attempts with an agent met obstacles in a row before the one that is open at a task.
    pub fn obstacles_before(&self, agent: &str, id: &TaskId) -> u32 {
        let Some(rest) = self.resting.get(agent) else {
            return 0;
        };
        let together = self.active.of(id).is_some_and(|active| active.began_after < rest.at);
        rest.count - u32::from(together)
    }

    /// Takes in one more fact.
    pub fn apply(&mut self, record: &Record) {
        let id = record.task_id.as_ref();
        match &record.event {
            Event::LoopStarted(begun) => self.begin(record, begun),
            Event::Started { attempt, .. } => {
                (self.run.iterations, self.run.waits) = (self.run.iterations + 1, 0);
                self.with(id, |past| past.attempts = *attempt);
            }
            Event::Answered(answer) => self.with(id, |past| past.answers.push(answer.clone())),
            Event::Completed(ended)
            | Event::RateLimited(ended)
            | Event::Denied(ended)
            | Event::Failed(ended)
            | Event::Interrupted(ended)
            | Event::NeedsInput(ended)
            | Event::Iterated(ended) => self.close(record, ended),
            Event::ChildStarted(child) => self.children.extend(id.map(|id| OpenChild {
                task_id: id.clone(),
                since: record.timestamp,
                child: child.clone(),
            })),
            Event::ChildEnded(end) => self.children.retain(|open| open.child != end.child),
            Event::Reset {} => self.with(id, TaskHistory::reset),
            Event::StatusChanged {
                new: Some(new), cause: Cause::Edited | Cause::Command, ..
            } => {
                self.with(id, |past| past.set_by_hand(*new));
            }
            Event::Waiting { .. } => self.run.waits += 1,
            Event::PauseRequested {} => self.paused = true,
            Event::ResumeRequested { now } => self.resume(*now),
            Event::StopRequested(stop) => self.run.request_stop(stop),
            Event::Promised { kept, .. } => self.run.promised |= kept,
            Event::Suspended {} => self.run.suspended = true,
            Event::Continued { .. } => self.run.suspended = false,
            Event::Finished { why, exit_code, .. } => {
                self.run.finished = Some((why.clone(), *exit_code));
            }
            Event::Slept(_)
            | Event::Woken(_)
            | Event::WakeSkipped(_)
            | Event::ScheduleEnded { .. } => self.see_to_schedule(record),
            Event::Reported { .. }
            | Event::AgentStarted { .. }
            | Event::GraphLoaded { .. }
            | Event::GraphRejected { .. }
            | Event::SettingsLoaded { .. }
            | Event::SettingsRejected { .. }
            | Event::RecordDamaged { .. }
            | Event::GraphGuarded { .. }
            | Event::Asked { .. }
            | Event::Noted { .. }
            | Event::WorktreeKept { .. }
            | Event::SettingUp { .. }
            | Event::Queued { .. }
            | Event::Merging(_)
            | Event::Split(_)
            | Event::MergeHeld(_)
            | Event::Verifying { .. }
            | Event::Verified(_)
            | Event::VerifyFailed(_)
            | Event::VerifyPostponed { .. }
            | Event::WaitingForChildren(_)
            | Event::ChildrenEnded { .. }
            | Event::ChildrenOverdue { .. }
            | Event::Terminating { .. }
            | Event::Parked { .. }
            | Event::Recovered { .. }
            | Event::StatusChanged { .. }
            | Event::Blocked { .. }
            | Event::ClockSet { .. }
            | Event::HookFailed(_)
            | Event::NotifyFailed(_) => {}
        }
        self.active.apply(record, self.ended);
        if let Some(log) = &mut self.log {
            log.apply(record);
        }
    }

    fn see_to_schedule(&mut self, record: &Record) {
        let at = record.timestamp;
        match (&record.event, &mut self.schedule) {
            (Event::Slept(slept), before) => {
                let seen_to = before.as_ref().map_or(at, |before| before.seen_to.max(at));
                *before = Some(ScheduleState { slept: slept.clone(), awake: false, seen_to });
            }
            (Event::ScheduleEnded { signal, .. }, schedule) => {
                // A service manager that ends it does so for a restart or a shutdown, after which
                // it goes on; whoever ends it otherwise wants no more of it.
                if signal.as_deref() != Some("SIGTERM") {
                    *schedule = None;
                }
            }
            (event, Some(schedule)) => {
                schedule.seen_to = schedule.seen_to.max(at);
                schedule.awake |= matches!(event, Event::Woken(_));
            }
            (_, None) => {}
        }
    }

    fn begin(&mut self, record: &Record, begun: &Begun) {
        // Whoever starts again may have logged in meanwhile.
        self.resting.retain(|_, rest| rest.met.until.is_some());
        self.run = RunHistory {
            id: record.run_id.clone(),
            started_at: Some(record.timestamp),
            begun: begun.clone(),
            iterations: begun.before,
            spend: if begun.before > 0 { self.run.spend } else { Spend::default() },
            ..RunHistory::default()
        };
    }

    fn resume(&mut self, now: bool) {
        self.paused = false;
        if now {
            self.resting.clear();
        }
    }

    /// Takes in whether an attempt's agent met an obstacle. An attempt that began before the newest
    /// obstacle was met ran into the same one, if into any: several of them are one step of the
    /// waiting. If it met none, that is no sign that the obstacle is gone.
    fn meet(&mut self, since: DateTime<Utc>, began: u64, ended: &AttemptResult) {
        let Some(agent) = &ended.agent else {
            return;
        };
        let (at, rest) = (self.ended, self.resting.get_mut(agent));
        let anew = rest.as_ref().is_none_or(|rest| began >= rest.at);
        match (ended.evidence.obstacle, rest) {
            (None, _) if anew => drop(self.resting.remove(agent)),
            (None, _) => {}
            (Some(met), Some(rest)) if !anew => rest.met = rest.met.or_longer(met),
            (Some(met), Some(rest)) => (rest.met, rest.count, rest.at) = (met, rest.count + 1, at),
            (Some(met), None) => {
                self.resting.insert(agent.clone(), AgentCooldown { met, count: 1, at, since });
            }
        }
    }

    fn with(&mut self, id: Option<&TaskId>, change: impl FnOnce(&mut TaskHistory)) {
        if let Some(id) = id {
            change(self.tasks.entry(id.clone()).or_default());
        }
    }

    fn close(&mut self, record: &Record, ended: &AttemptResult) {
        let id = record.task_id.as_ref();
        let open = id.and_then(|id| self.active.of(id));
        let began = open.map_or(self.ended, |active| active.began_after);
        self.ended += 1;
        self.run.close(self.ended, began, ended);
        self.meet(record.timestamp, began, ended);
        self.recent.retain(|(at, _)| record.timestamp - *at < DAY);
        self.recent.extend(ended.usage.cost_usd.map(|cost| (record.timestamp, cost)));
        let complete = ended.verdict == Verdict::Complete;
        self.unproven = !complete && (self.unproven || !ended.evidence.commits.is_empty());
        self.with(id, |past| {
            past.attempts = past.attempts.max(ended.attempt);
            past.spend.add(ended);
            if ended.verdict == Verdict::Complete {
                past.counted = 0;
                past.commits.clone_from(&ended.evidence.commits);
                past.answers.clear();
            } else if ended.verdict.counts() {
                past.counted += 1;
            }
            // Another attempt would meet the same: only a person can help.
            past.stuck = ended.verdict == Verdict::SetupFailed;
            past.last = Some(Box::new(LastAttempt { at: record.timestamp, ended: ended.clone() }));
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::{
        agents::transcript::{Format, Usage},
        event::{WakeTrigger, Woken},
        verdict::{Evidence, Outcome},
    };

    /// A record of `event` about task `id`, `at` seconds after the epoch.
    pub(crate) fn record(id: &str, at: i64, event: Event) -> Record {
        Record {
            timestamp: DateTime::from_timestamp(at, 0).unwrap(),
            run_id: "r".to_owned(),
            seq: 0,
            iteration: None,
            task_id: TaskId::new(id).ok(),
            event,
        }
    }

    /// The end of attempt `attempt` with `verdict`.
    pub(crate) fn end(attempt: u32, verdict: Verdict) -> AttemptResult {
        AttemptResult {
            attempt,
            verdict,
            why: String::new(),
            outcome: Outcome::Exited { exit_code: 0 },
            duration_seconds: 1.0,
            evidence: Evidence::default(),
            agent: None,
            usage: Usage::default(),
            tools: std::collections::BTreeMap::new(),
            last_line: None,
            swept: Vec::new(),
            unlocked: Vec::new(),
            pinned: None,
            unpinned: Vec::new(),
            log: String::new(),
        }
    }

    pub fn started(attempt: u32) -> Event {
        Event::Started {
            attempt,
            base: None,
            branch: None,
            log: String::new(),
            why: String::new(),
            format: Format::Text,
            worktree: None,
        }
    }

    #[test]
    fn a_schedule_goes_on_unless_somebody_ended_it() {
        let slept = |minute: &str| {
            let until = Some(format!("1970-01-01T00:{minute}:00Z").parse().unwrap());
            Event::Slept(Slept {
                until,
                cron: vec!["* * * * *".to_owned()],
                time_zone: None,
                process: None,
                exit_code: None,
                duration_seconds: None,
            })
        };
        let woken = Event::Woken(Woken {
            trigger: WakeTrigger::Cron,
            scheduled_for: None,
            late_seconds: 0,
            missed: 0,
            run: Vec::new(),
        });
        let ended =
            |name: &str| Event::ScheduleEnded { signal: Some(name.to_owned()), exit_code: None };
        let mut history = History::default();
        history.apply(&record("a", 30, woken.clone()));
        assert_eq!(history.schedule, None);
        let mut seen = Vec::new();
        // The clock is set back before the third.
        for (at, event) in
            [(30, slept("01")), (61, woken), (40, slept("02")), (41, ended("SIGTERM"))]
        {
            history.apply(&record("a", at, event));
            let schedule = history.schedule.as_ref().unwrap();
            seen.push((schedule.seen_to.timestamp(), schedule.awake));
        }
        assert_eq!(seen, [(30, false), (61, true), (61, false), (61, false)]);
        history.apply(&record("a", 42, ended("SIGINT")));
        assert_eq!(history.schedule, None);
    }

    #[test]
    fn attempts_are_numbered_for_ever_and_counted_since_the_reset() {
        let mut history = History::default();
        for event in [
            started(1),
            Event::Failed(end(1, Verdict::Failed)),
            started(2),
            Event::Interrupted(end(2, Verdict::Cancelled)),
            started(3),
            Event::Failed(end(3, Verdict::Incomplete)),
        ] {
            history.apply(&record("a", 1, event));
        }
        let past = history.of(&TaskId::new("a").unwrap());
        assert_eq!((past.attempts, past.counted), (3, 2));
        assert!(history.active.attempts.is_empty());
        assert_eq!((history.run.iterations, history.run.failures_in_a_row), (3, 2));

        history.apply(&record("a", 2, Event::Reset {}));
        history.apply(&record("a", 3, started(4)));
        let past = history.of(&TaskId::new("a").unwrap());
        assert_eq!((past.attempts, past.counted), (4, 0));
        assert_eq!(history.active.attempts.len(), 1);

        history.apply(&record("a", 4, Event::Completed(end(4, Verdict::Complete))));
        assert_eq!((history.run.completed, history.run.failures_in_a_row), (1, 0));
    }

    #[test]
    fn what_ran_together_is_one_in_a_row() {
        let mut history = History::default();
        let round = |history: &mut History, at: i64, ids: &[&str], verdicts: &[Verdict]| {
            for id in ids {
                history.apply(&record(id, at, started(1)));
            }
            for (id, verdict) in ids.iter().zip(verdicts) {
                let ended = end(1, *verdict);
                // The clock is set back in every round.
                history.apply(&record(id, -at, Event::of_end(ended)));
            }
            let run = &history.run;
            (run.failures_in_a_row, run.starts_failed, run.failures)
        };
        let failed = [Verdict::Failed; 4];
        let all = ["a", "b", "c", "d"];
        assert_eq!(round(&mut history, 1, &all, &failed), (1, 1, 4));
        assert_eq!(round(&mut history, 2, &all, &failed), (2, 2, 8));
        // The first failure of a round is known to what takes its place.
        history.apply(&record("a", 3, started(1)));
        history.apply(&record("b", 3, started(1)));
        history.apply(&record("a", 4, Event::Failed(end(1, Verdict::Failed))));
        history.apply(&record("c", 4, started(1)));
        history.apply(&record("b", 5, Event::Failed(end(1, Verdict::Failed))));
        assert_eq!(history.run.failures_in_a_row, 3);
        history.apply(&record("c", 6, Event::Failed(end(1, Verdict::Failed))));
        assert_eq!(history.run.failures_in_a_row, 4);
        let mixed = [Verdict::Failed, Verdict::Complete, Verdict::Failed, Verdict::Failed];
        assert_eq!(round(&mut history, 7, &all, &mixed), (1, 1, 14));
        assert_eq!(round(&mut history, 8, &["a"], &failed), (2, 2, 15));
    }

    #[test]
    fn answers_hold_until_the_task_is_complete() {
        let mut history = History::default();
        let answers = |history: &History| -> Vec<String> {
            let past = history.of(&TaskId::new("a").unwrap());
            past.answers.iter().map(|one| one.answer.clone()).collect()
        };
        let answered = |answer: &str| {
            Event::Answered(Answer { question: "?".to_owned(), answer: answer.to_owned() })
        };
        let complete = |cause| Event::StatusChanged {
            old: Some(Status::InProgress),
            new: Some(Status::Complete),
            cause,
            reason: None,
        };
        history.apply(&record("a", 1, answered("one")));
        history.apply(&record("a", 2, Event::Failed(end(1, Verdict::Failed))));
        history.apply(&record("a", 3, Event::Reset {}));
        history.apply(&record("a", 4, answered("two")));
        history.apply(&record("a", 5, complete(Cause::EditedDuringAttempt)));
        assert_eq!(answers(&history), ["one", "two"]);
        for end in [complete(Cause::Command), Event::Completed(end(2, Verdict::Complete))] {
            let mut history = history.clone();
            history.apply(&record("a", 6, end));
            assert!(answers(&history).is_empty());
        }
    }

    #[test]
    fn a_status_put_back_by_hand_resets() {
        let mut history = History::default();
        history.apply(&record("a", 1, Event::Failed(end(1, Verdict::Failed))));
        let released = |cause| Event::StatusChanged {
            old: Some(Status::InProgress),
            new: Some(Status::Pending),
            cause,
            reason: None,
        };
        history.apply(&record("a", 2, released(Cause::Released)));
        assert_eq!(history.of(&TaskId::new("a").unwrap()).counted, 1);
        history.apply(&record("a", 3, released(Cause::Edited)));
        assert_eq!(history.of(&TaskId::new("a").unwrap()).counted, 0);
    }
}
