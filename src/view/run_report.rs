//! The report of a run: its state or end, its requests to people, its landed work, its next steps.
//!
//! `ralph status`, `ralph report`, the end of `ralph run` and notifications show this one value.

mod attention;
mod headline;
mod next;
mod text;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    night::NightView, plan::UpcomingTask, review::ProofView, run::RunView, spend::WasteView,
    state::TaskCounts, words::ids,
};
use crate::{
    core::{
        exit::Exit,
        graph::{
            TaskGraph,
            task::{Task, TaskId},
        },
        history::{History, LastAttempt, attempt_log::AttemptEntry},
        select::{Decision, View},
        verdict::Commit,
    },
    project::failure_output::FailureOutputs,
};
pub use attention::{Attention, AttentionKind};
pub use headline::{Headline, HeadlineKind, HeadlinePart, Tone};

/// The report of a run that ended or is in progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// The current state, in one line.
    pub headline: Headline,
    /// The state of the run.
    #[serde(flatten)]
    pub run: RunView,
    /// Its number, counted back from the newest run, which is 1.
    pub number: usize,
    /// When it ended; if it exited unexpectedly, when it was last known to run.
    pub ended_at: Option<DateTime<Utc>>,
    /// The wall time of the reported runs; `spend.duration_seconds` is the time of its attempts together.
    pub duration_seconds: Option<f64>,
    /// The time of the attempts of the reported runs together, with those that have not ended.
    pub agent_seconds: f64,
    /// How many of its attempts were needed.
    pub waste: WasteView,
    /// The items that need a person, the most useful first.
    pub attention: Vec<Attention>,
    /// The tasks that it completed, in the order of completion.
    pub landed: Vec<LandedTask>,
    /// The tasks whose newest attempt failed in it, in the order of failure.
    pub failed: Vec<FailedTask>,
    /// The next tasks, in the order they start; only the first ones.
    pub upcoming: Vec<UpcomingTask>,
    /// The forecast of the run, or of a run that starts now; none if nothing can start.
    pub forecast: Option<NightView>,
    /// How many tasks are in each state; none if the graph is not known.
    pub left: Option<TaskCounts>,
    /// How many tasks were neither complete nor cancelled when it ended.
    pub remaining: Option<usize>,
    /// The next steps for a person, with the commands.
    pub next: Vec<String>,
    /// The facts missing in this report, and why.
    pub unknown: Vec<String>,
}

/// A task that a run completed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LandedTask {
    /// The task.
    pub id: TaskId,
    /// Its title; none if it is no longer in the graph.
    pub title: Option<String>,
    /// The commits that completed it, oldest first.
    pub commits: Vec<Commit>,
    /// The number of files that these changed.
    pub files: usize,
    /// Lines added.
    pub insertions: usize,
    /// Lines removed.
    pub deletions: usize,
    /// The cost of its attempts since its last reset, in US dollars; none if a cost is unknown.
    pub cost_usd: Option<f64>,
    /// The number of these attempts.
    pub attempts: u32,
    /// The time of these attempts together.
    pub duration_seconds: f64,
    /// The remarks for a person to look at, as predicates: it changed its own checks, or takes back
    /// other work.
    pub remarks: Vec<String>,
    /// Whether the verify commands notice it; none if that was not examined.
    pub proof: Option<ProofView>,
    /// Whether a person has reviewed it.
    pub reviewed: bool,
    /// When it was completed.
    pub at: DateTime<Utc>,
}

/// A task whose newest attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedTask {
    /// The task.
    pub id: TaskId,
    /// Its title; none if it is no longer in the graph.
    pub title: Option<String>,
    /// The number of the attempt.
    pub attempt: u32,
    /// Why it failed.
    pub why: String,
    /// When it ended.
    pub at: DateTime<Utc>,
}

/// The input of a report.
#[derive(Clone, Copy)]
pub struct ReportSource<'a> {
    /// The history; of an earlier run, as it stood at the end of that run.
    pub history: &'a History,
    /// The current graph, for titles.
    pub graph: Option<&'a TaskGraph>,
    /// The states of the tasks; none if the graph at the time of the report is not known.
    pub view: Option<View<'a>>,
    /// The ends of the outputs of failed commands.
    pub outputs: &'a FailureOutputs,
    /// When the run beat last.
    pub beat: Option<DateTime<Utc>>,
    /// The time of the report.
    pub now: DateTime<Utc>,
}

impl RunReport {
    /// Returns the report at a time of the run that `view` shows.
    pub fn live(view: &View<'_>, outputs: &FailureOutputs, now: DateTime<Utc>) -> RunReport {
        let (history, graph) = (view.history, Some(view.graph));
        let source = ReportSource { history, graph, view: Some(*view), outputs, beat: None, now };
        RunReport::of(RunView::live(view, now), &source)
    }

    /// Returns the fields that a message about the run has besides its event.
    pub fn facts(&self) -> Map<String, Value> {
        let landed: Vec<&TaskId> = self.landed.iter().map(|task| &task.id).collect();
        let facts = [
            ("attention", json!(self.attention)),
            ("landed", json!(landed)),
            ("left", json!(self.left)),
        ];
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns the report of a run.
    pub fn of(run: RunView, source: &ReportSource<'_>) -> RunReport {
        let past = &source.history.run;
        let decision = source.view.map(|view| view.decide(source.now));
        let attention = match (&source.view, &decision) {
            (Some(view), Some(decision)) => attention::now(view, source, decision),
            _ => attention::then(source),
        };
        let (upcoming, forecast) = match &source.view {
            Some(view) if run.plain.is_none() => next::upcoming(view, &run, source.now),
            _ => (Vec::new(), None),
        };
        let landed: Vec<LandedTask> = source.landed();
        let next = decision
            .map_or_else(Vec::new, |decision: Decision| next::steps(&decision, &run, &attention));
        let has_ended = past.finished.is_some() || !run.goes_on();
        // A crashed run may have lived on after its last event.
        let last_at = match past.finished {
            Some(_) => past.last_at,
            None => past.last_at.max(source.beat),
        };
        let end = if has_ended { last_at } else { Some(source.now) };
        let reported = source.history.reported();
        let open = source.history.active.attempts.iter();
        let open = open.filter_map(|attempt| wall_time(attempt.since, end?));
        let agent_seconds = reported.spend.duration_seconds + open.sum::<f64>();
        let mut report = RunReport {
            headline: Headline::default(),
            number: 1,
            ended_at: last_at.filter(|_| has_ended),
            duration_seconds: past
                .duration_seconds
                .or_else(|| wall_time(past.started_at?, end?))
                .map(|own| past.reported_before().map_or(0.0, |it| it.wall_seconds) + own),
            agent_seconds,
            waste: WasteView::of(&reported.paid),
            attention,
            failed: source.failed(),
            landed,
            upcoming,
            forecast,
            left: source.view.map(|view| TaskCounts::of(&view, source.now)),
            remaining: past.remaining,
            next,
            unknown: source.unproven().into_iter().collect(),
            run,
        };
        report.headline = Headline::of(&report, headline::to_review(source));
        report
    }

    /// Whether an attempt completed its task in the reported runs.
    pub fn has(&self, entry: &AttemptEntry) -> bool {
        let is_of = |task: &LandedTask| {
            let ended = entry.ended.as_ref().map(|(at, _)| *at);
            task.id == entry.task_id && Some(task.at) == ended
        };
        self.landed.iter().any(is_of)
    }

    /// Whether the run ended as it should, and completed something.
    pub fn is_good(&self) -> bool {
        self.run.exit_code == Some(0) && (self.run.completed > 0 || self.run.plain.is_some())
    }

    /// How many tasks are open again, or new, since the run ended with a complete graph.
    fn open_since(&self) -> Option<usize> {
        let codes = [Exit::Success, Exit::NotProved].map(Exit::code);
        let is_end = self.run.exit_code.is_some_and(|code| codes.contains(&code));
        let was_complete = self.remaining == Some(0) && is_end;
        let left = self.left.as_ref().filter(|_| was_complete && !self.run.goes_on())?;
        Some(left.left()).filter(|open| *open > 0)
    }

    /// The failed tasks that do not already need a person.
    fn only_failed(&self) -> Vec<&FailedTask> {
        let needs = |id: &TaskId| self.attention.iter().any(|it| it.task_id.as_ref() == Some(id));
        self.failed.iter().filter(|task| !needs(&task.id)).collect()
    }
}

impl ReportSource<'_> {
    /// A task of the graph.
    fn task(&self, id: &TaskId) -> Option<&Task> {
        let graph = self.graph?;
        Some(graph.task(graph.number(id)?))
    }

    fn title(&self, id: &TaskId) -> Option<String> {
        self.task(id).map(|task| task.title_line().to_owned())
    }

    /// The completed tasks; none of a plain loop, which has no tasks.
    fn landed(&self) -> Vec<LandedTask> {
        if self.history.run.begun.plain.is_some() {
            return Vec::new();
        }
        let task = |(id, last): (&TaskId, &LastAttempt)| {
            let ended = last.ended.read();
            let evidence = &ended.evidence;
            let diff = evidence.diff.filter(|_| !evidence.commits.is_empty()).unwrap_or_default();
            let spend = self.history.of(id).spend_with(&ended);
            let by = self.task(id).and_then(|task| task.added_by.as_ref());
            let added = by.map(|by| format!("was added by the agent of `{by}`"));
            let review = evidence.review.as_ref().filter(|review| !review.is_good());
            let findings = review.map(|review| format!("landed although {review}"));
            LandedTask {
                id: id.clone(),
                title: self.title(id),
                commits: evidence.commits.clone(),
                files: diff.files,
                insertions: diff.insertions,
                deletions: diff.deletions,
                cost_usd: spend.known_cost(),
                attempts: spend.attempts,
                duration_seconds: spend.duration_seconds,
                remarks: evidence.remarks().into_iter().chain(findings).chain(added).collect(),
                proof: self.history.of(id).proof.as_deref().map(ProofView::of),
                reviewed: self.history.of(id).reviewed >= last.ended.attempt,
                at: last.at,
            }
        };
        let there = self.history.completed_in_run().into_iter();
        there
            .filter(|(id, _)| self.history.of(id.as_str()).taken_back.is_none())
            .map(task)
            .collect()
    }

    /// Says which tasks are complete without an attempt.
    fn unproven(&self) -> Option<String> {
        let marked: Vec<TaskId> = self.history.run.marked.iter().cloned().collect();
        let (first, more) = (marked.first()?, marked.len() > 1);
        let (it, was) = if more { ("they are", "they were") } else { ("it is", "it was") };
        Some(format!(
            "whether {it} done: {}; {was} marked complete in the graph file during an attempt, and \
             nothing verified it; `ralph task-reset {first}` opens a task again",
            ids(&marked)
        ))
    }

    fn failed(&self) -> Vec<FailedTask> {
        if self.history.run.begun.plain.is_some() {
            return Vec::new();
        }
        let is_gone = |id: &TaskId| self.view.is_some_and(|view| view.graph.number(id).is_none());
        let task = |(id, last): (&TaskId, &LastAttempt)| FailedTask {
            id: id.clone(),
            title: self.title(id),
            attempt: last.ended.attempt,
            why: format!("{}: {}", last.ended.verdict, last.ended.why),
            at: last.at,
        };
        let failed = self.history.failed_in_run().into_iter();
        failed.filter(|(id, _)| !is_gone(id)).map(task).collect()
    }
}

/// The seconds between two times; none if the clock was set back.
fn wall_time(from: DateTime<Utc>, to: DateTime<Utc>) -> Option<f64> {
    (to - from).to_std().ok().map(|length| length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::samples::{end, record, started, task};
    use crate::core::{
        event::{Event, PlainLoop, RunEvent, record::Record},
        graph::task::Status,
        select::{Policy, keys},
        verdict::{DiffStat, Verdict},
    };
    use crate::view::state::StateKind;

    pub(super) fn finished(exit_code: u8, completed: u32, remaining: usize) -> Record {
        let event = RunEvent::Finished {
            why: "the end".to_owned(),
            exit_code,
            iterations: 2,
            completed,
            remaining,
            duration_seconds: 61.0,
        };
        Record { task_id: None, ..record("run", 60, event) }
    }

    /// Returns the report of a run that completed `done` with this many commits and failed at
    /// `parked`, whose check printed two lines. Its JSON has exactly the fields of the schema.
    pub(super) fn report_of(
        tasks: Vec<Task>,
        commits: usize,
        policy: &Policy,
        finished: &Record,
    ) -> RunReport {
        let graph = TaskGraph::new(tasks, vec![(1, 2)]).unwrap();
        let mut history = History::default();
        history.run.started_at = DateTime::from_timestamp(0, 0);
        (history.run.id, history.run.begun.plain) = ("r".to_owned(), policy.plain.clone());
        let mut complete = end(1, Verdict::Complete);
        complete.usage.cost_usd = Some(1.5);
        complete.evidence.diff = Some(DiffStat { files: 2, insertions: 30, deletions: 4 });
        let commit = |number| Commit {
            id: format!("{number}bcdef0123").into(),
            subject: format!("Part {number}"),
        };
        complete.evidence.commits = (0..commits).map(commit).collect();
        let mut failed = end(1, Verdict::VerifyFailed);
        "`make` exited with code 2".clone_into(&mut failed.why);
        for (id, at, event) in [
            ("done", 1, started(1)),
            ("done", 2, Event::Ended(complete)),
            ("parked", 3, started(1)),
            ("parked", 4, Event::Ended(failed)),
        ] {
            history.apply(&record(id, at, event));
        }
        history.apply(finished);
        let keys = keys(&graph);
        let view = View { graph: &graph, keys: &keys, history: &history, policy, active: &[] };
        let output = vec!["the first line".to_owned(), "2 tests failed".to_owned()];
        let outputs = FailureOutputs::from([(TaskId::new("parked").unwrap(), output)]);
        RunReport::live(&view, &outputs, finished.timestamp)
    }

    pub(super) fn tasks() -> Vec<Task> {
        let titled = |id: &str, title: &str| Task { title: title.to_owned(), ..task(id) };
        let done = Task { status: Status::Complete, ..titled("done", "Do `this` | that") };
        let parked = titled("parked", "Ask @octocat about #12 & <b>");
        vec![done, parked, task("after"), task("other")]
    }

    #[test]
    fn a_blocked_run_names_who_is_needed_with_the_next_commands() {
        let policy = Policy { max_attempts: 1, rounds: 1, start_limit: 0, ..Policy::default() };
        let mut tasks = tasks();
        tasks[3].status = Status::Blocked;
        let report = report_of(tasks, 4, &policy, &finished(1, 1, 3));
        let done = &report.landed[0];
        assert_eq!((done.id.as_str(), done.commits.len(), done.files), ("done", 4, 2));
        assert_eq!((done.cost_usd, done.attempts, done.insertions), (Some(1.5), 1, 30));
        assert_eq!(report.attention.len(), 2);
        let parked = &report.attention[0];
        assert_eq!((parked.kind, parked.unblocks), (AttentionKind::Parked, 2));
        assert_eq!(parked.remedy.as_deref(), Some("`ralph task-reset parked --note \"…\"`"));
        assert_eq!(parked.show.as_deref(), Some("`ralph show parked.1`"));
        assert_eq!(parked.detail.last().unwrap(), "2 tests failed");
        assert!(parked.why.contains("`make` exited with code 2"), "{}", parked.why);
        let blocked = &report.attention[1];
        assert_eq!(blocked.kind, AttentionKind::Blocked);
        assert_eq!(report.next.len(), 1, "{:?}", report.next);
        assert_eq!((report.failed[0].id.as_str(), report.failed[0].attempt), ("parked", 1));
        assert!(report.only_failed().is_empty(), "it is named once");
        let left = report.left.unwrap().states;
        assert_eq!((left[StateKind::Parked], left[StateKind::Blocked]), (1, 1));
        assert_eq!((report.forecast, report.upcoming[0].id.as_str()), (None, "after"));
    }

    #[test]
    fn a_run_that_stops_early_has_a_forecast_of_the_rest() {
        let policy = Policy { once: true, jobs: 2, ..Policy::default() };
        let report = report_of(tasks(), 0, &policy, &finished(0, 1, 3));
        assert_eq!(report.attention, []);
        assert_eq!(report.landed[0].commits, []);
        let upcoming: Vec<&str> = report.upcoming.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(upcoming, ["other", "parked", "after"]);
        let all = report.forecast.as_ref().unwrap();
        assert_eq!((all.open, all.learned_from), (3, 0));
        assert_eq!((report.run.failures, report.remaining), (1, Some(3)));
        assert_eq!(report.duration_seconds, Some(61.0));
        assert!(report.is_good());
    }

    #[test]
    fn a_run_without_a_completed_task_is_never_good() {
        let done = tasks().into_iter().map(|task| Task { status: Status::Complete, ..task });
        let mut report = report_of(done.collect(), 1, &Policy::default(), &finished(0, 0, 0));
        report.landed.clear();
        report.run.completed = 0;
        assert!(!report.is_good());
        let [head, totals] = report.head();
        assert_ne!(head.style, Some(crate::adapters::terminal::Style::Good));
        assert!(totals.text.starts_with("nothing done in "), "{}", totals.text);
    }

    #[test]
    fn a_plain_loop_that_asks_says_how_to_go_on() {
        let name = TaskId::new("parked").unwrap();
        let plain = PlainLoop {
            name: name.clone(),
            prompt_file: "PROMPT.md".into(),
            restart_delay_seconds: 0.0,
            fixed_delay: false,
            max_restarts: None,
            max_failures: 0,
        };
        let policy = Policy { plain: Some(plain), ..Policy::default() };
        let mut tasks = tasks();
        tasks[1].status = Status::NeedsInput;
        let report = report_of(tasks, 1, &policy, &finished(1, 0, 1));
        assert_eq!(report.run.name, Some(name));
        assert_eq!(report.attention.len(), 1);
        let remedy = report.attention[0].remedy.as_ref().unwrap();
        assert!(remedy.ends_with("`ralph resume --name parked`"), "{remedy}");
        assert!(report.lines().iter().all(|line| !line.text.starts_with("left")));
    }
}
