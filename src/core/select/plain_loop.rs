//! The decisions of a plain loop that differ from those of a run over a graph.

use chrono::TimeDelta;

use super::{View, backoff};
use crate::{event::StopReason, history::TaskHistory};

impl View<'_> {
    /// Returns the pause after the newest attempt at a task.
    pub fn pause_after(&self, past: &TaskHistory) -> TimeDelta {
        let run = &self.history.run;
        match &self.policy.plain {
            None => backoff(past.counted.max(past.lost)),
            // The result of an earlier loop of this name does not delay this one.
            Some(_) if run.iterations == run.begun.before => TimeDelta::zero(),
            Some(plain) => {
                let delay = TimeDelta::from_std(plain.restart_delay()).unwrap_or(TimeDelta::MAX);
                if plain.fixed_delay { delay } else { delay.max(backoff(run.failures_in_a_row)) }
            }
        }
    }

    /// The reason for a pause before the next attempt.
    pub(super) fn pausing(&self) -> &'static str {
        if self.policy.plain.is_some() && self.history.run.failures_in_a_row == 0 {
            "the next iteration"
        } else {
            "retrying after a failure"
        }
    }

    /// The reason to stop when all tasks are complete.
    pub(super) fn complete(&self) -> StopReason {
        if self.policy.plain.is_none() {
            return if self.policy.filter.selects_all() {
                StopReason::Complete
            } else {
                StopReason::SelectionComplete
            };
        }
        let run = &self.history.run;
        let task = self.graph.tasks().first().map(|task| self.history.of(&task.id));
        let last = task.and_then(|past| past.last.as_ref()).filter(|_| run.last_completed);
        let report = last.and_then(|last| last.ended.evidence.report);
        StopReason::Done { iterations: run.iterations, report }
    }

    /// The number of failures in a row that stops the run: of different tasks, or of iterations of a
    /// plain loop. 0 for no limit.
    pub(super) fn max_failures(&self) -> u32 {
        self.policy.plain.as_ref().map_or(self.policy.max_failures, |plain| plain.max_failures)
    }

    /// Returns the limit on restarts if it is reached.
    pub(super) fn restarts(&self) -> Option<StopReason> {
        let max = self.policy.plain.as_ref()?.max_restarts?;
        let limit = format!("{max} restart{}", if max == 1 { "" } else { "s" });
        (self.history.run.iterations > max).then_some(StopReason::Limit(limit))
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{end, record, started, task};
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::{
        event::{Begun, Event, PlainLoop, RunEvent},
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::History,
        select::{Decision, MAX_FAILURES, Policy, keys},
        verdict::Verdict,
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// Returns the decision two seconds after the last of these iterations. The first `before` of
    /// them belong to a loop that was paused.
    fn decided(plain: &PlainLoop, status: Status, before: u32, verdicts: &[Verdict]) -> Decision {
        let graph =
            TaskGraph::new(vec![crate::graph::task::Task { status, ..task("l") }], Vec::new())
                .unwrap();
        let mut history = History::default();
        let plain_loop = Some(plain.clone());
        let begun = Begun { before, plain: plain_loop, ..Begun::default() };
        history.apply(&record("", 0, RunEvent::LoopStarted(begun)));
        for (attempt, verdict) in (1..).zip(verdicts.iter().skip(before as usize)) {
            history.apply(&record("l", 0, started(attempt)));
            let ended = end(attempt, *verdict);
            let ended = Event::Ended(ended);
            history.apply(&record("l", 0, ended));
        }
        let policy = Policy {
            max_iterations: Some(20),
            max_attempts: u32::MAX,
            start_limit: 0,
            plain: Some(plain.clone()),
            ..Policy::default()
        };
        let keys = keys(&graph, false);
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        view.decide(at(2))
    }

    fn plain() -> PlainLoop {
        PlainLoop {
            name: TaskId::new("l").unwrap(),
            prompt_file: "PROMPT.md".into(),
            restart_delay_seconds: 1.0,
            fixed_delay: false,
            max_restarts: None,
            max_failures: MAX_FAILURES,
        }
    }

    /// Returns the end of the wait in seconds, or 0 for a start.
    fn wait(decision: &Decision) -> i64 {
        match decision {
            Decision::Start(_) => 0,
            Decision::Wait(wait) => wait.until.unwrap().timestamp(),
            Decision::Stop(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn failures_in_a_row_double_the_pause_and_the_fifth_stops_the_loop() {
        use Verdict::{Again, Failed, TimedOut};
        let ends = |verdicts: &[Verdict]| decided(&plain(), Status::Pending, 0, verdicts);
        for (verdicts, want) in [
            (&[][..], 0),
            (&[Again], 0),
            (&[Failed], 0),
            (&[Failed, Failed, Failed], 4),
            (&[Failed, TimedOut, Failed, Failed], 8),
            (&[Failed, Failed, Failed, Again], 0),
            (&[Failed, Failed, Failed, Failed, Again, Failed, Failed, Failed], 4),
        ] {
            assert_eq!(wait(&ends(verdicts)), want, "{verdicts:?}");
        }
        assert_eq!(ends(&[Failed; 5]), Decision::Stop(StopReason::Failures(5)));
        let never = PlainLoop { max_failures: 0, ..plain() };
        assert_eq!(wait(&decided(&never, Status::Pending, 0, &[Failed; 9])), 256);
        assert_eq!(wait(&decided(&never, Status::Pending, 0, &[Failed; 12])), 300);
        assert_eq!(wait(&decided(&plain(), Status::Pending, 4, &[Failed; 4])), 0);
    }

    #[test]
    fn the_restart_delay_is_the_shortest_pause() {
        let slow = PlainLoop { restart_delay_seconds: 6.0, ..plain() };
        let ends = |verdicts: &[Verdict]| wait(&decided(&slow, Status::Pending, 0, verdicts));
        assert_eq!(ends(&[]), 0, "the first iteration is not a restart");
        assert_eq!(ends(&[Verdict::Again]), 6);
        assert_eq!(ends(&[Verdict::Failed; 4]), 8);
        let fixed = PlainLoop { fixed_delay: true, ..slow.clone() };
        let after = decided(&fixed, Status::Pending, 0, &[Verdict::Failed; 4]);
        assert_eq!(wait(&after), 6, "a delay that was given is not extended");
        let endless = PlainLoop { restart_delay_seconds: 1e18, ..plain() };
        assert!(wait(&decided(&endless, Status::Pending, 0, &[Verdict::Again])) > 1_000_000);
    }

    #[test]
    fn completion_takes_precedence_over_a_question_and_a_question_over_a_limit() {
        use Verdict::{Again, Complete};
        let last = PlainLoop { max_restarts: Some(1), ..plain() };
        let stop = |status, verdicts: &[Verdict]| match decided(&last, status, 0, verdicts) {
            Decision::Stop(reason) => reason.to_string(),
            other @ (Decision::Start(_) | Decision::Wait(_)) => panic!("{other:?}"),
        };
        assert_eq!(stop(Status::Pending, &[Again; 2]), "limit reached: 1 restart");
        assert!(stop(Status::NeedsInput, &[Again; 2]).starts_with("waiting for a person: `l`"));
        assert_eq!(stop(Status::Complete, &[Again, Complete]), "loop complete after 2 iterations");
        assert_eq!(stop(Status::Complete, &[]), "loop complete after 0 iterations");
        assert_eq!(wait(&decided(&last, Status::Pending, 0, &[Again])), 0);
    }
}
