//! A run as a timeline: its attempts in lanes, its landings, its waits.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{
    VERSION,
    lines::{MarkKind, mark},
};
use crate::core::{
    event::{AttemptEvent, Event, RunEvent, record::Record},
    graph::task::TaskId,
    history::attempt_log::{AttemptEntry, AttemptLog},
};

/// The attempts, waits and marks of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineView {
    /// The version of this shape.
    pub schema: u32,
    /// Its number, counted back from the newest run, which is 1; 0 before the first run.
    pub number: usize,
    /// How many runs there are.
    pub runs: usize,
    /// Its id; none before the first run.
    pub run_id: Option<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended, or its last line in the journal.
    pub last_at: Option<DateTime<Utc>>,
    /// Why it ended; none while it runs, and if it exited unexpectedly.
    pub why: Option<String>,
    /// Its exit code.
    pub exit_code: Option<u8>,
    /// The number of lanes: the most attempts that ran at once.
    pub lanes: usize,
    /// The attempts, in the order of their start.
    pub bars: Vec<TimelineBar>,
    /// The times when no attempt could start.
    pub waits: Vec<TimelineWait>,
    /// The events of single moments, in order.
    pub marks: Vec<TimelineMark>,
    /// The lengths of all attempts together.
    pub agent_seconds: f64,
}

/// An attempt on a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineBar {
    /// The task.
    pub task_id: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// Its lane, from 0.
    pub lane: usize,
    /// The slot that it worked in; none in the checkout itself.
    pub slot: Option<String>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When its verify commands began.
    pub verified_from: Option<DateTime<Utc>>,
    /// When its work was queued to land.
    pub queued_at: Option<DateTime<Utc>>,
    /// When it ended; none while it runs.
    pub ended_at: Option<DateTime<Utc>>,
    /// The verdict.
    pub verdict: Option<String>,
    /// Why.
    pub why: Option<String>,
    /// The cost in US dollars, if its agent reported it.
    pub cost_usd: Option<f64>,
    /// The number of its commits.
    pub commits: usize,
}

/// A time when no attempt could start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineWait {
    /// When it began.
    pub from: DateTime<Utc>,
    /// When it ended, or was to end.
    pub until: DateTime<Utc>,
    /// The reason.
    pub why: String,
}

/// An event of one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineMark {
    /// When.
    pub at: DateTime<Utc>,
    /// Its kind.
    pub kind: MarkKind,
    /// The task.
    pub task_id: Option<TaskId>,
    /// It in words.
    pub text: String,
}

/// The fold of a journal into the timeline of one of its runs.
#[derive(Clone, Debug, Default)]
pub struct TimelineFold {
    runs: Vec<RunLine>,
    /// The attempts of all runs.
    log: AttemptLog,
}

/// One run as far as its records have been seen.
#[derive(Clone, Debug, Default)]
struct RunLine {
    id: String,
    started_at: Option<DateTime<Utc>>,
    last_at: Option<DateTime<Utc>>,
    finished: Option<(String, u8)>,
    waits: Vec<TimelineWait>,
    marks: Vec<TimelineMark>,
}

impl TimelineFold {
    /// Takes the next record of the journal.
    pub fn apply(&mut self, record: &Record) {
        if matches!(record.event, Event::Run(RunEvent::LoopStarted(_))) {
            let id = record.run_id.clone();
            let started_at = Some(record.timestamp);
            self.runs.push(RunLine { id, started_at, ..RunLine::default() });
        }
        self.log.apply(record);
        // An event between two runs, as an answer or a missed start, belongs to the earlier one.
        if let Some(run) = self.runs.last_mut() {
            run.apply(record);
        }
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The timeline of the run of this number, counted back from the newest, which is 1, that
    /// gave its last sign of life then.
    pub fn timeline(mut self, number: usize, beat: Option<DateTime<Utc>>) -> TimelineView {
        let runs = self.runs.len();
        let at = runs.checked_sub(number.max(1));
        let Some(mut run) = at.map(|at| self.runs.swap_remove(at)) else {
            return RunLine::default().view(0, runs, Vec::new());
        };
        let entries = self.log.of(None).filter(|entry| entry.run_id == run.id);
        let mut bars: Vec<TimelineBar> = entries.map(TimelineBar::of).collect();
        if number > 1 {
            // The next run ends an attempt that a run left open.
            for bar in &mut bars {
                bar.ended_at = bar.ended_at.min(run.last_at.filter(|_| bar.ended_at.is_some()));
            }
        }
        if number <= 1 && run.finished.is_none() {
            run.last_at = run.last_at.max(beat);
        }
        run.view(number.max(1), runs, in_lanes(bars))
    }
}

impl TimelineBar {
    fn of(entry: &AttemptEntry) -> TimelineBar {
        let ended = entry.ended.as_ref();
        let result = ended.map(|(_, result)| result.read());
        let result = result.as_deref();
        TimelineBar {
            task_id: entry.task_id.clone(),
            attempt: entry.attempt,
            lane: 0,
            slot: entry.slot.clone(),
            started_at: entry.started_at,
            verified_from: entry.verified_from,
            queued_at: entry.queued_at,
            ended_at: ended.map(|(at, _)| *at),
            verdict: result.map(|result| result.verdict.to_string()),
            why: result.map(|result| result.why.clone()),
            cost_usd: result.and_then(|result| result.usage.cost_usd),
            commits: result.map_or(0, |result| result.evidence.commits.len()),
        }
    }
}

/// Puts each attempt into the first lane that is free when it starts.
fn in_lanes(mut bars: Vec<TimelineBar>) -> Vec<TimelineBar> {
    // When each lane is free again; never while its attempt runs.
    let mut lanes: Vec<Option<DateTime<Utc>>> = Vec::new();
    for bar in &mut bars {
        let is_free = |end: &Option<DateTime<Utc>>| end.is_some_and(|end| end <= bar.started_at);
        bar.lane = lanes.iter().position(is_free).unwrap_or(lanes.len());
        lanes.resize(lanes.len().max(bar.lane + 1), None);
        lanes[bar.lane] = bar.ended_at;
    }
    bars
}

impl RunLine {
    fn apply(&mut self, record: &Record) {
        if record.run_id == self.id {
            self.last_at = Some(record.timestamp);
        }
        if let Some((kind, text)) = mark(&record.event) {
            let task_id = record.task_id.clone();
            self.marks.push(TimelineMark { at: record.timestamp, kind, task_id, text });
        }
        let now = record.timestamp;
        if let Event::Run(RunEvent::Waiting { until, why }) = &record.event {
            self.waits.push(TimelineWait { from: now, until: *until, why: why.clone() });
        }
        if let Event::Run(RunEvent::Finished { why, exit_code, .. }) = &record.event {
            self.finished = Some((why.clone(), *exit_code));
        }
        if let (Event::Attempt(AttemptEvent::Started { .. }), Some(wait)) =
            (&record.event, self.waits.last_mut())
        {
            // A wait ends early when an attempt can start.
            wait.until = wait.until.min(now);
        }
    }

    fn view(self, number: usize, runs: usize, bars: Vec<TimelineBar>) -> TimelineView {
        let (why, exit_code) = self.finished.unzip();
        let length = |bar: &TimelineBar| {
            let end = bar.ended_at.or(self.last_at).unwrap_or(bar.started_at);
            (end - bar.started_at).as_seconds_f64().max(0.0)
        };
        TimelineView {
            schema: VERSION,
            number,
            runs,
            run_id: (!self.id.is_empty()).then_some(self.id),
            started_at: self.started_at,
            last_at: self.last_at,
            why,
            exit_code,
            lanes: bars.iter().map(|bar| bar.lane + 1).max().unwrap_or(0),
            agent_seconds: bars.iter().map(length).sum(),
            bars,
            waits: self.waits,
            marks: self.marks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::ExecutorEvent;
    use crate::core::samples::{end, record, started};
    use crate::core::verdict::Verdict;

    fn begun(run: &str, at: i64) -> Record {
        let event = RunEvent::LoopStarted(crate::core::event::Begun::default());
        Record { run_id: run.to_owned(), task_id: None, ..record("x", at, event) }
    }

    fn fold(records: &[Record]) -> TimelineFold {
        let mut fold = TimelineFold::default();
        for record in records {
            fold.apply(record);
        }
        fold
    }

    #[test]
    fn attempts_at_once_have_lanes_of_their_own() {
        let records = [
            begun("r", 0),
            record("a", 1, started(1)),
            record("b", 2, started(1)),
            record("a", 5, Event::Ended(end(1, Verdict::Complete))),
            record("c", 6, started(1)),
            record("b", 7, Event::Ended(end(1, Verdict::Failed))),
            record("c", 9, Event::Ended(end(1, Verdict::Complete))),
        ];
        let view = fold(&records).timeline(1, None);
        let lanes: Vec<usize> = view.bars.iter().map(|bar| bar.lane).collect();
        assert_eq!((lanes, view.lanes), (vec![0, 1, 0], 2));
        assert!((view.agent_seconds - 12.0).abs() < 1e-6, "{}", view.agent_seconds);
        let landed = view.marks.iter().filter(|mark| mark.kind == MarkKind::Landed);
        assert_eq!(landed.count(), 2);
        assert_eq!(view.why, None, "it has not ended");
    }

    #[test]
    fn an_attempt_that_the_next_run_ends_keeps_its_end() {
        let of = |run: &str, record: Record| Record { run_id: run.to_owned(), ..record };
        let records = [
            begun("run", 0),
            of("run", record("a", 1, started(1))),
            of("run", record("b", 2, started(1))),
            begun("next", 100),
            of("next", record("b", 101, end(1, Verdict::Interrupted))),
            of("next", record("b", 102, started(2))),
        ];
        let first = fold(&records).timeline(2, None);
        let ended: Vec<_> = first.bars.iter().map(|bar| bar.verdict.as_deref()).collect();
        assert_eq!(ended, [None, Some("interrupted")]);
        // It did not run between the two runs.
        assert_eq!(first.bars[1].ended_at.unwrap().timestamp(), 2);
        assert_eq!(fold(&records).timeline(1, None).bars.len(), 1);
    }

    #[test]
    fn a_withdrawn_attempt_leaves_the_others_in_place() {
        let withdrawn =
            ExecutorEvent::Withdrawn { attempt: 1, run_on: "far".to_owned(), why: String::new() };
        let records = [
            begun("r", 0),
            record("a", 1, started(1)),
            record("b", 2, started(1)),
            record("c", 3, started(1)),
            record("b", 4, withdrawn),
            record("c", 5, end(1, Verdict::Complete)),
            record("a", 6, end(1, Verdict::Failed)),
        ];
        let view = fold(&records).timeline(1, None);
        let ended: Vec<_> =
            view.bars.iter().map(|bar| (bar.task_id.as_str(), bar.verdict.as_deref())).collect();
        assert_eq!(ended, [("a", Some("failed")), ("c", Some("complete"))]);
    }

    #[test]
    fn runs_are_counted_back_and_a_wait_ends_when_something_starts() {
        let until = DateTime::from_timestamp(3600, 0).unwrap();
        let waiting = RunEvent::Waiting { until, why: "rate limit".to_owned() };
        let records = [
            begun("r", 0),
            Record { task_id: None, ..record("x", 1, waiting) },
            record("a", 60, started(1)),
            begun("next", 100),
        ];
        let fold = fold(&records);
        let first = fold.clone().timeline(2, None);
        assert_eq!((first.number, first.runs, first.bars.len()), (2, 2, 1));
        assert_eq!(first.waits[0].until.timestamp(), 60);
        assert_eq!(fold.clone().timeline(1, None).bars.len(), 0);
        let none = fold.timeline(3, None);
        assert_eq!((none.number, none.runs, none.run_id), (0, 2, None));
    }
}
