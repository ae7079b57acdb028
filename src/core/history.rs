//! The history: the state that follows from the events in the journal.
//!
//! The live view, `status`, the selection of the next task and recovery read the past only from
//! here, so they cannot disagree. This module does no I/O; `journal` reads the file.

pub mod attempt_log;
mod active;
mod effect;
mod run_history;
mod sample;
mod task_history;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    attempt::AttemptState,
    event::{
        AttemptEvent, AttemptResult, Begun, Cause, Slept, StopReason, StopRequest, record::Record,
    },
    executor::LOCAL,
    graph::{
        TaskGraph,
        filter::Filter,
        task::{Status, TaskId},
    },
    spend::Spend,
    verdict::{Merge, Verdict},
};
pub use active::AgentCooldown;
pub use active::{ActiveAttempt, ActiveAttempts};
pub use attempt_log::StoredResult;
pub use effect::Effect;
use run_history::KEPT_RUNS;
pub use run_history::{LandedWork, PastRun, ReportedRuns, RunHistory, Waiting};
pub use sample::UnreachableExecutor;
pub use sample::{AttemptSample, AttemptSamples};
use task_history::NO_HISTORY;
pub use task_history::{LastAttempt, Reopened, TaskHistory};

/// The state after all events in the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    tasks: HashMap<TaskId, Box<TaskHistory>>,
    /// The tasks whose status was ever set to complete.
    completed: BTreeSet<TaskId>,
    /// The newest run.
    pub run: RunHistory,
    /// The runs before it, oldest first; only the last few.
    pub earlier: Vec<PastRun>,
    /// The active attempts and the merge queue.
    pub active: ActiveAttempts,
    /// The number of ended attempts. It shows which attempts ran at the same time; timestamps do
    /// not, because the clock can be set.
    ended: u64,
    /// The number of ended attempts when the newest completed its task.
    #[serde(default)]
    succeeded_at: u64,
    /// Whether an attempt that did not complete its task left commits, and no later attempt was
    /// verified.
    pub unproven: bool,
    /// The agents that got a provider error in their newest attempt, by name.
    #[serde(rename = "resting")]
    pub cooldowns: HashMap<String, AgentCooldown>,
    /// The executors that do not answer the newest run, by name.
    pub unreachable: BTreeMap<String, UnreachableExecutor>,
    /// Whether no run may start an attempt until `ralph resume`.
    pub paused: bool,
    /// The newest attempts that help to forecast the next ones.
    pub samples: AttemptSamples,
    /// The state of `ralph schedule`, also after it was interrupted.
    pub schedule: Option<ScheduleState>,
}

/// A schedule that a person has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// The current wait.
    pub slept: Slept,
    /// Whether it has started a run that has not ended.
    pub awake: bool,
    /// All occurrences up to this time have been handled. It is later than the newest event if the
    /// clock was set back.
    pub seen_to: DateTime<Utc>,
}

impl History {
    /// The history of a task; an empty one if it has none.
    pub fn of(&self, id: &(impl Borrow<str> + ?Sized)) -> &TaskHistory {
        self.tasks.get(id.borrow()).map_or(&NO_HISTORY, |past| past)
    }

    /// The tasks of the graph that are complete without a proof of their work, in any run.
    pub fn unproved(&self, graph: &TaskGraph, filter: &Filter) -> Vec<&TaskId> {
        let is_complete = |id: &TaskId| {
            let task = graph.number(id).map(|number| graph.task(number));
            task.is_some_and(|task| task.status == Status::Complete && filter.admits(task))
        };
        let doubtful = self.tasks.iter().filter(|(id, past)| past.is_doubtful() && is_complete(id));
        let mut tasks: Vec<&TaskId> = doubtful.map(|(id, _)| id).collect();
        tasks.sort_unstable();
        tasks
    }

    /// The attempts whose work landed and whose proof is not there yet.
    pub fn unexamined(&self) -> impl Iterator<Item = (&TaskId, u32)> {
        self.tasks.iter().filter_map(|(id, past)| Some((id, past.awaits_proof?)))
    }

    /// Whether this build has written the parts of a stored history that are read on demand,
    /// judged by one of them.
    pub fn can_be_read(&self) -> bool {
        let newest = self.tasks.values().find_map(|past| past.last.as_ref());
        newest.is_none_or(|last| last.ended.can_be_read())
    }

    /// Whether an attempt at a task failed since the last completed task and since its own last
    /// reset.
    pub fn has_failed(&self, id: &TaskId) -> bool {
        self.of(id).failed_at > self.succeeded_at
    }

    /// Applies an event.
    pub fn apply(&mut self, record: &Record) {
        let id = record.task_id.as_ref();
        self.run.note_time(record);
        self.active.with(id, |active| active.awaits = None);
        record.event.effect().apply(record, self);
    }

    /// Starts a wait of the schedule.
    pub(crate) fn sleep(&mut self, slept: &Slept, at: DateTime<Utc>) {
        let seen_to = self.schedule.as_ref().map_or(at, |before| before.seen_to.max(at));
        self.schedule = Some(ScheduleState { slept: slept.clone(), awake: false, seen_to });
    }

    /// Notes a wake of the schedule, and whether it started a run.
    pub(crate) fn wake(&mut self, at: DateTime<Utc>, starts_run: bool) {
        if let Some(schedule) = &mut self.schedule {
            schedule.seen_to = schedule.seen_to.max(at);
            schedule.awake |= starts_run;
        }
    }

    pub(crate) fn set_status(
        &mut self,
        id: Option<&TaskId>,
        new: Option<Status>,
        cause: Cause,
        reason: Option<&str>,
    ) {
        self.completed.extend(id.filter(|_| new == Some(Status::Complete)).cloned());
        if let Some(id) = id {
            self.run.mark(id, new, cause);
            if cause == Cause::Command {
                for active in &mut self.active.attempts {
                    active.commanded.insert(id.clone());
                }
            }
        }
        self.with(id, |past| past.set_status(new, cause, reason));
    }

    pub(crate) fn begin(&mut self, record: &Record, begun: &Begun) {
        // The user may have logged in before this start, so authentication is tried again.
        self.cooldowns.retain(|_, cooldown| cooldown.error.until.is_some());
        self.earlier.extend(self.run.as_past());
        self.earlier.drain(..self.earlier.len().saturating_sub(KEPT_RUNS));
        self.run.begin(record, begun);
        // A new run rebuilds the queue, and tries again what blocked the branch and the executors.
        self.active.end_all_trials();
        (self.active.queue, self.active.held) = (Vec::new(), None);
        self.unreachable.clear();
    }

    pub(crate) fn start(&mut self, record: &Record, event: &AttemptEvent) {
        let AttemptEvent::Started { attempt, branch, log, slot, run_on, .. } = event else {
            return;
        };
        self.run.start(record.iteration);
        let Some(id) = &record.task_id else {
            return;
        };
        self.with(Some(id), |past| {
            (past.attempts, past.withdrawn, past.asks) = (*attempt, None, false);
            (past.proof, past.awaits_proof) = (None, None);
        });
        self.try_executor(Some(id), run_on.as_deref().unwrap_or(LOCAL));
        self.active.start(ActiveAttempt {
            task_id: id.clone(),
            attempt: *attempt,
            since: record.timestamp,
            state: AttemptState::Preparing,
            slot: slot.clone(),
            branch: branch.clone(),
            log: log.clone(),
            command: None,
            has_agent: false,
            continued: Vec::new(),
            review: None,
            review_slot: None,
            review_wait: None,
            queued_at: None,
            run_on: run_on.clone(),
            awaits: None,
            calls_usd: 0.0,
            no_contact_since: None,
            placement: None,
            commanded: BTreeSet::new(),
            spent: None,
            began_after: self.ended,
        });
    }

    pub(crate) fn pause(&mut self) {
        self.paused = true;
        self.run.was_paused |= self.run.finished.is_none() && !self.run.id.is_empty();
    }

    /// Applies a request to stop. `ralph stop` also ends a paused run; a signal keeps the pause.
    pub(crate) fn stop(&mut self, stop: &StopRequest) {
        self.run.request_stop(stop);
        if stop.signal.is_some() {
            return;
        }
        self.paused = false;
        if let Some(finished) = self.run.finished.as_mut().filter(|_| self.run.was_paused) {
            *finished = (StopReason::Stopped.to_string(), StopReason::Stopped.exit().code());
        }
        self.run.was_paused = false;
    }

    pub(crate) fn resume(&mut self, now: bool) {
        self.paused = false;
        if now {
            self.run.waiting = None;
            self.cooldowns.clear();
        }
    }

    pub(crate) fn with(&mut self, id: Option<&TaskId>, change: impl FnOnce(&mut TaskHistory)) {
        if let Some(id) = id {
            change(self.tasks.entry(id.clone()).or_default());
        }
    }

    /// Adds the usage of a call of an agent that is no attempt.
    pub(crate) fn add_call(&mut self, record: &Record, spend: &Spend) {
        self.run.spend = self.run.spend.plus(spend);
        self.active.with(record.task_id.as_ref(), |open| open.calls_usd += spend.cost_usd);
    }

    /// The usage of the run, with that of agents that have ended whose work is still open.
    pub fn spend(&self) -> Spend {
        self.active.spent().fold(self.run.spend, |sum, (_, spend)| sum.plus(spend))
    }

    /// Adds the work of an attempt that has landed.
    fn note_landing(&mut self, id: Option<&TaskId>, ended: &AttemptResult) {
        let (Some(id), Some(Merge::Landed { commit, .. })) = (id, &ended.evidence.merge) else {
            return;
        };
        let trial = self.active.trials.iter().find(|trial| trial.tasks.contains(id));
        self.run.landed.push(LandedWork {
            task_id: id.clone(),
            attempt: ended.attempt,
            log: ended.log.clone(),
            commits: ended.evidence.commits.iter().map(|commit| commit.id.clone()).collect(),
            commit: commit.clone(),
            onto: trial.map(|trial| trial.onto.clone()),
        });
        let waiting = self.active.waiting.as_mut();
        if let Some(waiting) = waiting.filter(|waiting| !waiting.tasks.contains(id)) {
            waiting.tasks.push(id.clone());
        }
    }

    pub(crate) fn close(&mut self, record: &Record, ended: &AttemptResult) {
        let id = record.task_id.as_ref();
        self.end_try(id);
        let open = id.and_then(|id| self.active.of(id));
        let began = open.map_or(self.ended, |active| active.began_after);
        let had_agent = open.is_none_or(|active| active.has_agent);
        if let Some(open) = open {
            self.samples.add(open, record.timestamp, ended);
        }
        self.ended += 1;
        let is_of_run = open.is_some_and(|active| Some(active.since) >= self.run.started_at);
        let spend = ended.spend(self.samples.dearest(ended.agent.as_ref()));
        self.run.close(id, (self.ended, began), ended, &spend);
        self.run.note_unused(ended.verdict, is_of_run);
        self.apply_provider_error(record.timestamp, began, ended);
        let complete = ended.verdict == Verdict::Complete;
        let at = self.ended;
        self.succeeded_at = if complete { at } else { self.succeeded_at };
        if id.is_some_and(|id| complete && self.active.is_landing(id)) {
            self.active.held = None;
        }
        self.note_landing(id, ended);
        self.unproven = !complete && (self.unproven || !ended.evidence.commits.is_empty());
        self.with(id, |past| {
            past.close(record.timestamp, ended, (had_agent, at, &spend));
        });
        if let Some(id) = id {
            self.active.end(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{
        Answer, Event, GraphEvent, RequestEvent, ScheduleEvent, WakeTrigger, Woken,
    };
    use crate::samples::{end, record, started};

    #[test]
    fn a_schedule_continues_unless_a_person_ended_it() {
        let slept = |minute: &str| {
            let until = Some(format!("1970-01-01T00:{minute}:00Z").parse().unwrap());
            ScheduleEvent::Slept(Slept {
                until,
                cron: vec!["* * * * *".to_owned()],
                time_zone: None,
                process: None,
                exit_code: None,
                duration_seconds: None,
            })
        };
        let woken = ScheduleEvent::Woken(Woken {
            trigger: WakeTrigger::Cron,
            scheduled_for: None,
            late_seconds: 0,
            missed: 0,
            run: Vec::new(),
            skipped: None,
        });
        let ended = |name: &str| ScheduleEvent::ScheduleEnded {
            signal: Some(name.to_owned()),
            exit_code: None,
        };
        let mut history = History::default();
        history.apply(&record("a", 30, woken.clone()));
        assert_eq!(history.schedule, None);
        let mut seen = Vec::new();
        // The clock is set back before the third event.
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
    fn a_reset_clears_the_count_of_attempts_but_not_their_numbers() {
        let mut history = History::default();
        for event in [
            started(1),
            Event::Ended(end(1, Verdict::Failed)),
            started(2),
            Event::Ended(end(2, Verdict::Cancelled)),
            started(3),
            Event::Ended(end(3, Verdict::Incomplete)),
        ] {
            history.apply(&record("a", 1, event));
        }
        let past = history.of(&TaskId::new("a").unwrap());
        assert_eq!((past.attempts, past.counted), (3, 2));
        assert!(history.active.attempts.is_empty());
        assert_eq!((history.run.iterations, history.run.failures_in_a_row), (3, 1));
        assert!(history.has_failed(&TaskId::new("a").unwrap()));

        history.apply(&record("a", 2, RequestEvent::Reset {}));
        history.apply(&record("a", 3, started(4)));
        let past = history.of(&TaskId::new("a").unwrap());
        assert_eq!((past.attempts, past.counted), (4, 0));
        assert!(!history.has_failed(&TaskId::new("a").unwrap()));
        assert_eq!(history.active.attempts.len(), 1);

        history.apply(&record("a", 4, Event::Ended(end(4, Verdict::Complete))));
        assert_eq!((history.run.completed, history.run.failures_in_a_row), (1, 0));
    }

    #[test]
    fn failures_of_parallel_attempts_count_as_one_in_a_row() {
        let mut history = History::default();
        let round = |history: &mut History, at: i64, ids: &[&str], verdicts: &[Verdict]| {
            for id in ids {
                history.apply(&record(id, at, started(1)));
            }
            for (id, verdict) in ids.iter().zip(verdicts) {
                let ended = end(1, *verdict);
                // The clock is set back in every round.
                history.apply(&record(id, -at, Event::Ended(ended)));
            }
            let run = &history.run;
            (run.failures_in_a_row, run.starts_failed, run.failures)
        };
        let failed = [Verdict::Failed; 4];
        let all = ["a", "b", "c", "d"];
        assert_eq!(round(&mut history, 1, &all, &failed), (1, 1, 4));
        assert_eq!(round(&mut history, 2, &all, &failed), (2, 2, 8));
        // The failures of `a` and `b` have counted; that of `c` did not, with `b` at the same time.
        history.apply(&record("a", 3, started(1)));
        history.apply(&record("b", 3, started(1)));
        history.apply(&record("a", 4, Event::Ended(end(1, Verdict::Failed))));
        history.apply(&record("c", 4, started(1)));
        history.apply(&record("b", 5, Event::Ended(end(1, Verdict::Failed))));
        assert_eq!(history.run.failures_in_a_row, 2);
        history.apply(&record("c", 6, Event::Ended(end(1, Verdict::Failed))));
        assert_eq!(history.run.failures_in_a_row, 3);
        let mixed = [Verdict::Failed, Verdict::Complete, Verdict::Failed, Verdict::Failed];
        assert_eq!(round(&mut history, 7, &all, &mixed), (1, 1, 14));
        assert_eq!(round(&mut history, 8, &["a"], &failed), (2, 2, 15));
    }

    #[test]
    fn answers_are_kept_until_the_task_is_complete() {
        let mut history = History::default();
        let answers = |history: &History| -> Vec<String> {
            let past = history.of(&TaskId::new("a").unwrap());
            past.answers.iter().map(|one| one.answer.clone()).collect()
        };
        let answered = |answer: &str| {
            RequestEvent::Answered(Answer {
                question: format!("{answer}?"),
                answer: answer.to_owned(),
            })
        };
        let complete = |cause| GraphEvent::StatusChanged {
            old: Some(Status::InProgress),
            new: Some(Status::Complete),
            cause,
            reason: None,
        };
        history.apply(&record("a", 1, answered("one")));
        history.apply(&record("a", 2, Event::Ended(end(1, Verdict::Failed))));
        history.apply(&record("a", 3, RequestEvent::Reset {}));
        history.apply(&record("a", 4, answered("two")));
        // Once more before an attempt: it is corrected.
        history.apply(&record("a", 5, answered("two")));
        history.apply(&record("a", 5, complete(Cause::EditedDuringAttempt)));
        assert_eq!(answers(&history), ["one", "two"]);
        for end in [complete(Cause::Command).into(), Event::Ended(end(2, Verdict::Complete))] {
            let mut history = history.clone();
            history.apply(&record("a", 6, end));
            assert!(answers(&history).is_empty());
        }
    }

    #[test]
    fn setting_the_status_to_pending_by_hand_resets_the_attempts() {
        let mut history = History::default();
        history.apply(&record("a", 1, Event::Ended(end(1, Verdict::Failed))));
        let released = |cause| GraphEvent::StatusChanged {
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
