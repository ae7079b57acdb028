//! `ralph status`: how the run stands, from lock, journal and heartbeat; true also when no process
//! is left to ask.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, Local, Utc};

use super::Invocation;
use crate::{
    adapters::{
        journal::JournalPosition,
        process,
        terminal::{self, visible},
    },
    cli::StatusArgs,
    core::{
        duration,
        event::{Event, record::Record},
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::{ActiveAttempt, History, OpenChild},
    },
    project::{
        attempt::AttemptRecord,
        event_store::EventStore,
        workspace::{LockHolder, Workspace},
    },
    report::heartbeat,
    view::{
        attempt::{AttemptView, ChildView},
        lines::{clock, counted},
        run::{LoopView, RunFacts, RunView, Standing},
    },
};

/// How many earlier runs are named.
const EARLIER: usize = 3;

/// Shows how the run stands.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn run(invocation: &Invocation, options: &StatusArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let now = Utc::now();
    let view = match options.run {
        None | Some(1) => read(&workspace, now)?,
        Some(number) => earlier(&workspace, number as usize, now)?,
    };
    terminal::print(&if options.json { terminal::json(&view) } else { text(&view, now) })?;
    Ok(Exit::Success)
}

/// Reads an earlier run from the journal, as it stood when the next one began.
fn earlier(workspace: &Workspace, number: usize, now: DateTime<Utc>) -> Result<RunView> {
    let each = |see: &mut dyn FnMut(&Record)| {
        let take = |record: Option<Record>| record.iter().for_each(&mut *see);
        workspace.journal().read(&mut JournalPosition::default(), take)
    };
    let mut runs = 0;
    each(&mut |record| runs += usize::from(matches!(record.event, Event::LoopStarted(_))))?;
    if number > runs {
        let message = format!("no run {number}; the journal has {}", counted(runs, "run"));
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let (mut history, mut begun) = (History::default(), 0);
    each(&mut |record| {
        begun += usize::from(matches!(record.event, Event::LoopStarted(_)));
        if begun <= runs + 1 - number {
            history.apply(record);
        }
    })?;
    let facts = RunFacts {
        name: workspace.place.name().cloned(),
        standing: Standing::of(&history, false),
        last_beat: None,
        max_attempts: max_attempts(&history, workspace),
        done_pattern: None,
        loops: Vec::new(),
        attempts: open_attempts(workspace, &history, now),
        children: Vec::new(),
        scheduled: Some(false),
    };
    let mut view = RunView::of(&history, facts, now);
    for run in &mut view.earlier_runs {
        run.number += number - 1;
    }
    Ok(view)
}

/// Reads the newest run of the loop that is meant.
///
/// # Errors
/// As the disk gives them.
pub(super) fn read(workspace: &Workspace, now: DateTime<Utc>) -> Result<RunView> {
    let (store, live) = look(workspace)?;
    let history = store.history();
    let elsewhere = !live && is_elsewhere(workspace, history)?;
    let standing = if elsewhere { Standing::Elsewhere } else { Standing::of(history, live) };
    let process = history.schedule.as_ref().and_then(|schedule| schedule.slept.process.as_ref());
    let facts = RunFacts {
        name: workspace.place.name().cloned(),
        standing,
        last_beat: last_beat(workspace).filter(|_| live),
        max_attempts: max_attempts(history, workspace),
        done_pattern: workspace.config.done_pattern.as_ref().map(ToString::to_string),
        loops: workspace.loops().context("list the loops")?,
        attempts: open_attempts(workspace, history, now),
        children: living_children(history).iter().map(|open| ChildView::of(open, now)).collect(),
        scheduled: process.map(process::is_alive),
    };
    Ok(RunView::of(history, facts, now))
}

/// The attempts that have not ended, the oldest first.
pub(super) fn open_attempts(
    workspace: &Workspace,
    history: &History,
    now: DateTime<Utc>,
) -> Vec<AttemptView> {
    let records: Vec<AttemptRecord> = workspace.state.peek();
    let children = living_children(history);
    let view = |active: &ActiveAttempt| {
        let same =
            |one: &&AttemptRecord| one.task_id == active.task_id && one.attempt == active.attempt;
        let record = records.iter().find(same);
        let slot = record.and_then(|open| Some(open.slot.as_ref()?.path.clone()));
        let branch = record.and_then(|open| open.branch.clone());
        AttemptView::of(active, (slot, branch), &children, workspace.root(), now)
    };
    history.active.attempts.iter().map(view).collect()
}

/// The child agents that are alive.
fn living_children(history: &History) -> Vec<&OpenChild> {
    history.children.iter().filter(|open| process::is_alive(&open.child.process)).collect()
}

fn text(view: &RunView, now: DateTime<Utc>) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key}: {}", visible(value));
    };
    if let Some(name) = &view.name {
        line("Loop", name.as_str());
    }
    if view.is_blank() && view.name.is_some() {
        line("Status", "none: it has not run yet");
        return text;
    }
    line("Status", &view.sentence());
    if let Some(waiting) = &view.waiting {
        line("Waiting", &waiting.text(now));
    }
    if let Some(schedule) = &view.schedule {
        line("Schedule", &schedule.text(now));
    }
    let Some(run_id) = &view.run_id else {
        if !view.loops.is_empty() {
            let names: Vec<&str> = view.loops.iter().map(TaskId::as_str).collect();
            line("Plain loops", &format!("{}; `ralph ls` shows them", names.join(", ")));
        }
        return text;
    };
    line("Run", &format!("{run_id}, process {}", view.pid));
    match &view.plain {
        Some(plain) => lines_of_loop(view, plain, &mut line),
        None => lines_of_graph(view, &mut line),
    }
    for run in view.earlier_runs.iter().take(EARLIER) {
        let began = run.started_at.map_or(String::new(), full);
        let number = run.number;
        let text = format!("{began}, {}; `ralph status --run {number}`", run.text());
        line(&format!("Run {number}"), &text);
    }
    if let Some(beat) = view.last_beat_seconds {
        line("Last beat", &format!("{} ago", short(beat)));
    }
    text
}

/// The run over the graph.
fn lines_of_graph(view: &RunView, line: &mut impl FnMut(&str, &str)) {
    line("Iteration", &format!("{} of {}", view.iteration, view.limits.max_iterations));
    if let Some(at) = view.started_at {
        line("Started", &full(at));
    }
    if view.attempts.is_empty() {
        line("Current attempt", "none");
    }
    for attempt in &view.attempts {
        let AttemptView { task_id, attempt: number, since, position, .. } = attempt;
        let age = age(view, attempt);
        let more = position.text().map_or(String::new(), |text| format!("; {text}"));
        line(
            "Current attempt",
            &format!("{task_id}, attempt {number}, since {}, {age}{more}", clock(*since)),
        );
        for child in &attempt.children {
            line("  child agent", &of_child(child));
        }
    }
    if let Some(queue) = view.merge_queue.text() {
        line("Merge queue", &queue);
    }
    line("Failures in a row", &view.failures_in_a_row.to_string());
    line("Failures in this run", &view.failures.to_string());
    let names: Vec<&str> = view.completed_tasks.iter().map(TaskId::as_str).collect();
    let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    line("Completed in this run", &format!("{}{names}", view.completed));
    if view.spend.attempts > 0 {
        line("Spent", &view.spend.cost);
    }
    line("Timeout", &limit(view.limits.timeout_seconds));
    line("Idle limit", &limit(view.limits.idle_seconds));
    let max = view.limits.max_attempts.unwrap_or_default();
    line("Attempts per task", &format!("at most {max}"));
    line("Agent", &view.agent.join(" "));
}

fn of_child(child: &ChildView) -> String {
    let ChildView { name, run_id, pid, seconds, .. } = child;
    format!("{name}, run {run_id}, process {pid}, for {}", short(*seconds))
}

/// A plain loop.
fn lines_of_loop(view: &RunView, plain: &LoopView, line: &mut impl FnMut(&str, &str)) {
    line("Iteration", &format!("{}/{}", view.iteration, view.limits.max_iterations));
    if let Some(at) = view.started_at {
        line("Started", &full(at));
    }
    let current = view.attempts.first();
    let current = current.map(|open| format!("{}, {}", full(open.since), age(view, open)));
    line("Current iteration started", current.as_deref().unwrap_or("none runs"));
    for child in &view.children {
        line("  child agent", &of_child(child));
    }
    let most = match plain.max_failures {
        0 => "no limit".to_owned(),
        most => format!("at most {most}"),
    };
    line("Consecutive failures", &format!("{} ({most})", view.failures_in_a_row));
    line("Total failures", &view.failures.to_string());
    if view.spend.attempts > 0 {
        line("Spent", &view.spend.cost);
    }
    line("Timeout", &limit(view.limits.timeout_seconds));
    line("Inactivity timeout", &limit(view.limits.idle_seconds));
    if plain.isolated {
        line("Works in", "a slot; lands when it is done");
    }
    if let Some(kept) = &plain.not_landed {
        line("Not landed", kept);
    }
    line("Restart delay", &limit(Some(plain.restart_delay_seconds)));
    if let Some(max) = plain.max_restarts {
        line("Restarts", &format!("at most {max}"));
    }
    line("Done pattern", view.done_pattern.as_deref().unwrap_or("none"));
    line("Prompt file", &plain.prompt_file.display().to_string());
    line("Agent", &view.agent.join(" "));
}

/// How long an attempt has run, if it still does.
fn age(view: &RunView, attempt: &AttemptView) -> String {
    if view.goes_on() || attempt.position.state.has_passed() {
        format!("for {}", short(attempt.seconds))
    } else {
        "cut off".to_owned()
    }
}

/// Reads the past, and whether its newest run has a living process.
///
/// # Errors
/// As the disk gives them.
pub(super) fn look(workspace: &Workspace) -> Result<(EventStore, bool)> {
    let mut store = workspace.event_store()?;
    // The lock before the journal: a run that ended in between has its end there.
    loop {
        let run_id = store.history().run.id.clone();
        let live = workspace.is_live(store.history())?;
        store.catch_up()?;
        if store.history().run.id == run_id {
            return Ok((store, live));
        }
    }
}

/// Whether a run that this slot has no journal of holds the lock, which all slots share.
fn is_elsewhere(workspace: &Workspace, history: &History) -> Result<bool> {
    let other =
        |holder: LockHolder| holder.run_id != history.run.id && process::may_live(&holder.process);
    Ok(workspace.state.is_locked().context("look at the lock")?
        && workspace.holder().is_some_and(other))
}

/// How long ago a run beat last, if one ever did.
pub(super) fn last_beat(workspace: &Workspace) -> Option<Duration> {
    heartbeat::read(&workspace.root().join(workspace.place.heartbeat()))
        .ok()
        .map(|(at, _)| (Utc::now() - at).to_std().unwrap_or_default())
}

/// The bound on attempts per task, as the run had it.
fn max_attempts(history: &History, workspace: &Workspace) -> u32 {
    match history.run.begun.max_attempts {
        0 => workspace.policy().max_attempts,
        max => max,
    }
}

/// A limit in seconds, for people.
fn limit(seconds: Option<f64>) -> String {
    let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    length.filter(|length| !length.is_zero()).map_or("none".to_owned(), duration::short)
}

/// Day and time here.
pub(super) fn full(at: DateTime<Utc>) -> String {
    at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A length of whole seconds, for people.
pub(super) fn short(seconds: u64) -> String {
    duration::short(Duration::from_secs(seconds))
}
