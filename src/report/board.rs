//! The lines of the live display: one for each attempt, one for the merge queue, those that need a
//! person, and how far the run is. They are rendered from a [`RunView`], independent of a terminal.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    adapters::terminal::{Paint, Style, columns, fit, visible},
    core::{
        attempt::AttemptState,
        duration,
        event::{
            AttemptEvent, CheckEvent, Event, ExecutorEvent, LandingEvent, RunEvent, record::Record,
        },
        graph::task::TaskId,
        select::{TaskState, View},
        spend::dollars,
    },
};
use crate::{
    runner::AT_WORK,
    view::{
        attempt::AttemptView,
        lines,
        night::NightView,
        run::{RunView, Standing},
        state::{StateKind, TaskCounts},
        waits::{QueueView, if_already_there},
    },
};

/// The interval between two frames for a single attempt, and between two states of the spinner. It
/// is long, so that the display costs less than a thousandth of a core.
const FRAME: Duration = Duration::from_millis(400);
/// The interval between two frames for several attempts: the times change once a second, and each
/// frame draws every line.
const FRAME_OF_SEVERAL: Duration = Duration::from_secs(1);
/// The frames of the spinner.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The mark of a waiting attempt.
const STILL: &str = "·";
/// The largest width of an id, in columns.
const ID: usize = 24;
/// The width of a time, in columns: `59m 59s`.
const TIME: usize = 7;
/// How many of the tasks that need a person are named.
const STUCK: usize = 3;
/// The cells of the bar.
const BAR: usize = 10;
/// How often the end of the run is foreseen at most; in a large graph that takes a tenth of a second.
const FORESIGHT: TimeDelta = TimeDelta::seconds(30);

/// The state of the live display.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// Whether several attempts may run at once.
    several: bool,
    run: Option<RunView>,
    /// How far the graph is; none in a plain loop.
    progress: Option<GraphProgress>,
    /// The newest status text of each attempt that this run has events of.
    news: Vec<News>,
    /// The newest status text of the batch that is landing.
    landing: String,
    /// The time until which nothing can start, and the reason.
    wait: Option<(DateTime<Utc>, String)>,
    since: DateTime<Utc>,
}

/// How far the graph is.
#[derive(Clone, Debug)]
struct GraphProgress {
    counts: TaskCounts,
    /// The tasks that need a person, the most urgent first.
    stuck: Vec<String>,
    /// The rest of the run, as it was last foreseen.
    night: Option<NightView>,
}

/// The newest status text of an attempt.
#[derive(Clone, Debug)]
struct News {
    id: TaskId,
    lead: &'static str,
    text: String,
}

impl Board {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.news.is_empty() && self.progress.is_none() && self.wait.is_none()
    }

    /// The interval between two frames.
    pub fn frame(&self) -> Duration {
        if self.several { FRAME_OF_SEVERAL } else { FRAME }
    }

    /// Updates the state of the run, and the status text from the event.
    pub fn note(&mut self, record: &Record, view: &View<'_>) {
        self.several = view.policy.jobs > 1;
        let run = RunView::live(view, record.timestamp);
        self.news.retain(|news| run.attempts.iter().any(|attempt| attempt.task_id == news.id));
        let attempt =
            run.attempts.iter().find(|attempt| Some(&attempt.task_id) == record.task_id.as_ref());
        if let Some(attempt) = attempt
            && let Some((lead, text)) = status_text(&record.event, attempt.position.state)
        {
            self.set_status(&attempt.task_id, lead, visible(&text).into_owned());
        }
        if let Event::Run(RunEvent::Waiting { until, why }) = &record.event {
            self.since = record.timestamp;
            self.wait = Some((*until, visible(why).into_owned()));
        } else if !self.news.is_empty() {
            self.wait = None;
        }
        match &run.merge_queue.landing {
            Some(batch) if batch.tasks.first() == record.task_id.as_ref() => {
                if let Event::Check(CheckEvent::Verifying { command, .. }) = &record.event {
                    self.landing = visible(command).into_owned();
                }
            }
            Some(_) if matches!(record.event, Event::Landing(LandingEvent::Merging(_))) => {
                self.landing.clear();
            }
            Some(_) => {}
            None => self.landing.clear(),
        }
        self.run = Some(run);
        if view.policy.plain.is_none() && may_change_states(&record.event) {
            self.progress = Some(GraphProgress::of(record, view, self.progress.take()));
        }
    }

    fn set_status(&mut self, id: &TaskId, lead: &'static str, text: String) {
        let news = News { id: id.clone(), lead, text };
        match self.news.iter_mut().find(|news| news.id == *id) {
            Some(before) => *before = news,
            None => self.news.push(news),
        }
    }

    /// Returns the attempts that have a status text.
    fn rows(&self) -> impl Iterator<Item = (&AttemptView, &News)> {
        self.news.iter().filter_map(|news| {
            let mut attempts = self.run.iter().flat_map(|run| &run.attempts);
            Some((attempts.find(|attempt| attempt.task_id == news.id)?, news))
        })
    }

    /// Returns the merge queue, unless it is empty.
    fn queue(&self) -> Option<&QueueView> {
        let queue = &self.run.as_ref()?.merge_queue;
        (!queue.waiting.is_empty()).then_some(queue)
    }

    /// Sets the current activity of an attempt, or of the batch that it lands with.
    pub fn doing(&mut self, id: &TaskId, doing: &str) {
        let doing = visible(doing);
        let is_landing = self.rows().any(|(attempt, _)| {
            attempt.task_id == *id && attempt.position.state == AttemptState::Landing
        });
        if is_landing && self.queue().is_some() {
            self.landing = doing.into_owned();
        } else if let Some(news) = self.news.iter_mut().find(|news| news.id == *id)
            && news.text != doing
        {
            news.text = doing.into_owned();
        }
    }

    fn queue_line(&self, queue: &QueueView) -> String {
        let waiting = format!("merge queue: {} queued", queue.waiting.len());
        match (&queue.landing, &queue.blocked) {
            (Some(batch), _) => {
                let branch = visible(&batch.branch);
                let text = format!("{waiting}; landing {} on {branch}", lines::ids(&batch.tasks));
                if self.landing.is_empty() { text } else { format!("{text}: {}", self.landing) }
            }
            (None, Some(blocked)) => format!("{waiting}; {}", visible(&blocked.text)),
            (None, None) => waiting,
        }
    }

    /// Returns the lines at the time `now`, at most `width` columns wide and at most `most` lines.
    pub fn lines(
        &self,
        now: DateTime<Utc>,
        paint: Paint,
        width: usize,
        most: usize,
    ) -> Vec<String> {
        let frames = u128::try_from(now.timestamp_millis()).unwrap_or(0) / FRAME.as_millis();
        let frame = FRAMES[usize::try_from(frames % 10).unwrap_or(0)];
        let mut lines = Vec::new();
        if let Some((until, why)) = &self.wait {
            let age = age(now - self.since);
            lines.push((None, format!("{frame} {age} {}", countdown(*until, why, now))));
        }
        let (rows, queue) = (self.rows().count(), self.queue());
        let below = self.below(now, width);
        let room = most.saturating_sub(usize::from(queue.is_some()) + lines.len() + below.len());
        let room = room.max(1);
        let shown = if rows > room { room.saturating_sub(1).max(1) } else { room };
        let ids = self.news.iter().map(|news| columns(news.id.as_str())).max().unwrap_or(0).min(ID);
        lines.extend(self.rows().take(shown).map(|(attempt, news)| {
            let state = attempt.position.state;
            let (lead, text) = match state {
                AttemptState::Queued => ("", "queued to land"),
                AttemptState::Landing => ("", "landing"),
                AttemptState::Reviewing => ("", "reviewing"),
                AttemptState::Preparing
                | AttemptState::SettingUp
                | AttemptState::Running
                | AttemptState::WaitingForChildren
                | AttemptState::Verifying => (news.lead, news.text.as_str()),
            };
            let (mark, age) =
                (if state.is_queued() { STILL } else { frame }, age(now - attempt.since));
            let id = fit(news.id.as_str(), ID);
            let style = (state != AttemptState::Running).then_some(Style::Faint);
            (style, format!("{mark} {age:>TIME$}  {id:<ids$}  {lead}{text}"))
        }));
        if rows > shown {
            lines.push((Some(Style::Faint), format!("  and {} more", rows - shown)));
        }
        lines.extend(queue.map(|queue| {
            let mark = if queue.landing.is_some() { frame } else { STILL };
            let is_blocked = queue.landing.is_none() && queue.blocked.is_some();
            let style = if is_blocked { Style::Warn } else { Style::Faint };
            (Some(style), format!("{mark} {}", self.queue_line(queue)))
        }));
        lines.extend(below);
        let end = lines.split_off(lines.len().saturating_sub(1));
        lines.truncate(most.saturating_sub(1));
        let drawn = |(style, line): (Option<Style>, String)| {
            paint.rows(style, &fit(&line, width), None).concat()
        };
        lines.into_iter().chain(end).map(drawn).collect()
    }

    /// The tasks that need a person, and how far the run is.
    fn below(&self, now: DateTime<Utc>, width: usize) -> Vec<(Option<Style>, String)> {
        let (Some(progress), Some(run)) = (&self.progress, &self.run) else {
            return Vec::new();
        };
        let stuck = progress.stuck.iter().take(STUCK).cloned();
        let mut lines: Vec<_> = stuck.map(|text| (Some(Style::Warn), text)).collect();
        let parts = status_parts(progress, run, now);
        let mut dropped = 0;
        let line = |dropped: usize| {
            let shown = parts.iter().filter(|(rank, text)| *rank >= dropped && !text.is_empty());
            shown.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" · ")
        };
        while columns(&line(dropped)) > width && dropped < parts.len() {
            dropped += 1;
        }
        lines.push((None, line(dropped)));
        lines
    }
}

/// The parts of the status line in order, each with its rank; the lowest ranks are dropped first.
fn status_parts(
    progress: &GraphProgress,
    run: &RunView,
    now: DateTime<Utc>,
) -> [(usize, String); 7] {
    let counts = &progress.counts;
    let done = counts.states[StateKind::Complete];
    let total = counts.total - counts.states[StateKind::Cancelled];
    let filled = (done * BAR).checked_div(total).unwrap_or(0);
    let bar = "▓".repeat(filled) + &"░".repeat(BAR - filled);
    let works = run.attempts.iter().filter(|attempt| !attempt.position.state.is_queued()).count();
    let standing =
        if run.status == Standing::Running { "" } else { &format!("{}, ", run.status.word()) };
    let running = format!("{standing}{works} running");
    let needs = match progress.stuck.len() {
        0 => String::new(),
        1 => "1 needs you".to_owned(),
        count => format!("{count} need you"),
    };
    let cost = run.spend.cost_usd.filter(|cost| *cost > 0.0).map(dollars).unwrap_or_default();
    let age = run.started_at.map(|since| age(now - since)).unwrap_or_default();
    [
        (6, format!("{done}/{total}")),
        (0, bar),
        (3, running),
        (5, needs),
        (2, cost),
        (1, age),
        (4, progress.night.as_ref().and_then(|it| it.end_in_short(now)).unwrap_or_default()),
    ]
}

/// Whether an event may change the states of tasks.
fn may_change_states(event: &Event) -> bool {
    match event {
        Event::Ended(_)
        | Event::Run(_)
        | Event::Request(_)
        | Event::Attempt(_)
        | Event::Graph(_)
        | Event::Landing(_) => true,
        Event::Check(_) | Event::Executor(_) | Event::Schedule(_) => false,
    }
}

impl GraphProgress {
    fn of(record: &Record, view: &View<'_>, before: Option<GraphProgress>) -> GraphProgress {
        let now = record.timestamp;
        let mut stuck = Vec::new();
        let counts = TaskCounts::with(view, now, |number, state| {
            let id = &view.graph.task(number).id;
            let text = needs(id.as_str(), view, state);
            stuck.extend(text.map(|text| (StateKind::of(state), text)));
        });
        stuck.sort_by_key(|(kind, _)| *kind != StateKind::NeedsInput);
        let stuck = stuck.into_iter().map(|(_, text)| text).collect();
        let is_due = before
            .as_ref()
            .is_none_or(|it| it.night.as_ref().is_none_or(|it| it.from + FORESIGHT <= now));
        if matches!(record.event, Event::Ended(_)) && is_due {
            return GraphProgress { counts, stuck, night: NightView::of(view, true, now) };
        }
        GraphProgress { counts, stuck, night: before.and_then(|it| it.night) }
    }
}

/// Why a task needs a person, with the command; none if it does not.
fn needs(id: &str, view: &View<'_>, state: TaskState) -> Option<String> {
    match state {
        TaskState::NeedsInput => Some(format!("? {id}  {}", lines::how_to_answer(id))),
        TaskState::Parked(_) => {
            let there = if_already_there(id, view);
            Some(format!("✗ {id}  parked; {} retries it{there}", lines::how_to_retry(id)))
        }
        TaskState::Spent => Some(format!("! {id}  its cost limit is reached")),
        TaskState::OnBranch => Some(format!("! {id}  complete on another branch")),
        TaskState::Blocked
        | TaskState::Claimed
        | TaskState::Unclaimed
        | TaskState::Ready
        | TaskState::Complete
        | TaskState::Cancelled
        | TaskState::Running
        | TaskState::Conflicting
        | TaskState::Retrying(_)
        | TaskState::RateLimited(_)
        | TaskState::Unreachable(_)
        | TaskState::Denied
        | TaskState::Waiting => None,
    }
}

/// Returns the status text of an event for its attempt, with a prefix.
fn status_text(event: &Event, state: AttemptState) -> Option<(&'static str, String)> {
    let is_landing = state == AttemptState::Landing;
    if let Event::Attempt(AttemptEvent::Started { slot: Some(_), .. }) = event {
        Some(("", "preparing its slot".to_owned()))
    } else if matches!(
        event,
        Event::Attempt(AttemptEvent::Started { .. } | AttemptEvent::AgentStarted { .. })
    ) {
        Some(("", AT_WORK.to_owned()))
    } else if let Event::Executor(ExecutorEvent::AwaitingExecutor { why, .. }) = event {
        Some(("", why.clone()))
    } else if let Event::Executor(ExecutorEvent::Contact { lost_since, .. }) = event {
        let lost = lost_since.map(|since| format!("no contact since {}", lines::clock(since)));
        Some(("", lost.unwrap_or_else(|| AT_WORK.to_owned())))
    } else if let Event::Check(CheckEvent::SettingUp { command, .. }) = event {
        Some(("setting up: ", command.clone()))
    } else if let (false, Event::Check(CheckEvent::Verifying { command, .. })) = (is_landing, event)
    {
        Some(("verifying: ", command.clone()))
    } else if let (false, Event::Check(CheckEvent::Verified(_))) = (is_landing, event) {
        Some(("", AT_WORK.to_owned()))
    } else if let Event::Attempt(AttemptEvent::WaitingForChildren(left)) = event {
        Some(("", lines::waiting(left)))
    } else {
        // A queued attempt needs no text apart from its state.
        matches!(event, Event::Landing(LandingEvent::Queued { .. })).then(|| ("", String::new()))
    }
}

/// Formats a duration in whole seconds.
fn age(length: TimeDelta) -> String {
    let seconds = length.num_seconds().max(0).unsigned_abs();
    if seconds < 10 { format!("{seconds}s") } else { duration::short(Duration::from_secs(seconds)) }
}

/// Formats the reason of a wait and the remaining time.
fn countdown(until: DateTime<Utc>, why: &str, now: DateTime<Utc>) -> String {
    let left = (until - now).to_std().unwrap_or_default();
    let left = duration::short(Duration::from_secs(left.as_secs()));
    format!("{why}; {left} left, until {}", lines::moment(until, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::core::samples::{end, record, started, task};
    use crate::core::{
        event::{Batch, Cause, GraphEvent, Held},
        graph::{TaskGraph, task::Status},
        history::History,
        select::{Policy, keys},
        verdict::Verdict,
    };

    /// Returns the lines after these events, a minute after the first second.
    fn lines(jobs: usize, width: usize, most: usize, events: &[(&str, Event)]) -> String {
        let ids: BTreeSet<&str> =
            events.iter().map(|(id, _)| *id).filter(|id| !id.is_empty()).collect();
        let tasks = ids.into_iter().chain(["idle"]).map(task).collect();
        let mut graph = TaskGraph::new(tasks, Vec::new()).unwrap();
        let keys = keys(&graph);
        let (mut history, mut board) = (History::default(), Board::default());
        let policy = Policy { jobs, ..Policy::default() };
        for (at, (id, event)) in (1..).zip(events) {
            let record = record(id, at, event.clone());
            history.apply(&record);
            let (history, keys) = (&history, &keys);
            if let Event::Graph(GraphEvent::StatusChanged { new: Some(new), .. }) = event {
                graph.set_status(graph.number(&TaskId::new(id).unwrap()).unwrap(), *new);
            }
            let view = View { graph: &graph, keys, history, policy: &policy, active: &[] };
            board.note(&record, &view);
            if let Event::Attempt(AttemptEvent::Started { .. }) = event {
                let id = TaskId::new(id).unwrap();
                board.doing(&id, AT_WORK);
            }
            if *id == "loud" {
                let id = TaskId::new("loud").unwrap();
                board.doing(&id, "Bash: \u{1b}[31m日本語の題名はとても長いので端末の幅には収まりません, and so does this");
            }
        }
        let now = DateTime::from_timestamp(61, 0).unwrap();
        let paint = Paint::default();
        let lines = board.lines(now, paint, width, most);
        assert!(lines.iter().all(|line| columns(line) <= width) && lines.len() <= most);
        lines.join("\n")
    }

    fn isolated() -> Event {
        let mut event = started(1);
        if let Event::Attempt(AttemptEvent::Started { slot, .. }) = &mut event {
            *slot = Some("/trees/1".to_owned());
        }
        event
    }

    fn command(command: &str) -> Event {
        let (command, log) = (command.to_owned(), String::new());
        CheckEvent::Verifying { attempt: 1, command, log }.into()
    }

    fn asked() -> Event {
        let (old, new) = (Some(Status::InProgress), Some(Status::NeedsInput));
        GraphEvent::StatusChanged { old, new, cause: Cause::Asked, reason: None }.into()
    }

    fn queued() -> Event {
        LandingEvent::Queued { attempt: 1, waiting: 1 }.into()
    }

    fn batch(ids: &[&str]) -> Batch {
        let tasks = ids.iter().map(|id| TaskId::new(id).unwrap()).collect();
        Batch { branch: "main".to_owned(), onto: "0".into(), tasks }
    }

    #[test]
    fn each_attempt_and_the_merge_queue_have_a_line() {
        let setting =
            CheckEvent::SettingUp { attempt: 1, command: "npm ci".to_owned(), log: String::new() };
        let long = "an-id-that-is-longer-than-any-column-of-ids-may-be";
        let events = [
            ("loud", isolated()),
            ("parser", isolated()),
            ("done", isolated()),
            (long, isolated()),
            ("done", queued()),
            ("lexer", isolated()),
            ("lexer", setting.into()),
            ("other", isolated()),
            ("other", queued()),
            ("parser", command("cargo test --workspace")),
            ("done", LandingEvent::Merging(batch(&["done", "other"])).into()),
            ("done", command("cargo test --workspace && cargo clippy")),
        ];
        insta::assert_snapshot!(lines(6, 100, 20, &events), @r"
        ⠹      1m  loud                      Bash: \u{1b}[31m日本語の題名はとても長いので端末の幅には収まり…
        ⠹     59s  parser                    verifying: cargo test --workspace
        ·     58s  done                      landing
        ⠹     57s  an-id-that-is-longer-th…  the agent is at work
        ⠹     55s  lexer                     setting up: npm ci
        ·     53s  other                     landing
        ⠹ merge queue: 2 queued; landing done, other on main: cargo test --workspace && cargo clippy
        0/7 · ░░░░░░░░░░ · 4 running
        ");
        insta::assert_snapshot!(lines(6, 60, 20, &events), @r"
        ⠹      1m  loud                      Bash: \u{1b}[31m日本語…
        ⠹     59s  parser                    verifying: cargo test …
        ·     58s  done                      landing
        ⠹     57s  an-id-that-is-longer-th…  the agent is at work
        ⠹     55s  lexer                     setting up: npm ci
        ·     53s  other                     landing
        ⠹ merge queue: 2 queued; landing done, other on main: cargo…
        0/7 · ░░░░░░░░░░ · 4 running
        ");
        insta::assert_snapshot!(lines(6, 60, 4, &events), @r"
        ⠹      1m  loud                      Bash: \u{1b}[31m日本語…
          and 5 more
        ⠹ merge queue: 2 queued; landing done, other on main: cargo…
        0/7 · ░░░░░░░░░░ · 4 running
        ");
        assert_eq!(lines(6, 60, 1, &events).lines().count(), 1);
    }

    #[test]
    fn finished_attempts_are_gone_and_a_held_queue_is_shown() {
        let held = Held { branch: "main".to_owned(), why: "x".to_owned() };
        let events = [
            ("a", isolated()),
            ("b", isolated()),
            ("b", queued()),
            ("b", LandingEvent::Merging(batch(&["b"])).into()),
            ("", LandingEvent::MergeHeld(held).into()),
            ("a", Event::Ended(end(1, Verdict::Failed))),
        ];
        insta::assert_snapshot!(lines(2, 60, 20, &events), @r"
        ·     59s  b  queued to land
        · merge queue: 1 queued; `b` cannot land on `main`: x
        0/3 · ░░░░░░░░░░ · 0 running
        ");
        let asking = end(1, Verdict::NeedsInput);
        let events = [("a", isolated()), ("a", Event::Ended(asking.clone())), ("a", asked())];
        insta::assert_snapshot!(lines(2, 60, 20, &events), @r#"
        ? a  answer it with `ralph answer a "…"`
        0/2 · ░░░░░░░░░░ · 0 running · 1 needs you
        "#);
        insta::assert_snapshot!(lines(2, 22, 20, &events), @r"
        ? a  answer it with `…
        0/2 · 1 needs you
        ");
    }

    #[test]
    fn one_attempt_at_a_time_is_shown_in_the_same_way() {
        let events = [("a", started(1)), ("a", command("cargo test"))];
        insta::assert_snapshot!(lines(1, 60, 20, &events), @r"
        ⠹      1m  a  verifying: cargo test
        0/2 · ░░░░░░░░░░ · 1 running
        ");
        let events = [("a", isolated()), ("a", queued())];
        insta::assert_snapshot!(lines(1, 60, 20, &events), @r"
        ·      1m  a  queued to land
        · merge queue: 1 queued
        0/2 · ░░░░░░░░░░ · 0 running
        ");
        let until = DateTime::from_timestamp(100, 0).unwrap();
        let wait = RunEvent::Waiting { until, why: "a limit of the provider".to_owned() };
        let text = lines(1, 100, 20, &[("", wait.into())]);
        assert!(text.starts_with("⠹ 1m a limit of the provider; 39s left, until "), "{text}");
    }
}
