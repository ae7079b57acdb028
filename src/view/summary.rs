//! The end of a run in words: what was completed, by which commits, what is left and why.

use chrono::{DateTime, Utc};

use super::{
    lines::{COMMITS, Line, counted, how_to_answer, length, line, standing},
    task::TaskCounts,
};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Blocker, Event, PlainLoop, StopReason, record::Record},
        graph::task::TaskId,
        history::LastAttempt,
        select::{Decision, TaskState, View},
        verdict::{Commit, Verdict},
    },
};

/// How many tasks each part of the summary names.
const TASKS: usize = 40;

/// Returns the lines at the end of a run; none for any other event.
pub fn summary(record: &Record, view: &View<'_>) -> Vec<Line> {
    let Event::Finished { why, exit_code, iterations, completed, remaining, duration_seconds } =
        &record.event
    else {
        return Vec::new();
    };
    let now = record.timestamp;
    let style = if *exit_code == 0 { Style::Good } else { Style::Warn };
    let time = length(*duration_seconds);
    let spend = &view.history.run.spend;
    let known = spend.unknown_cost < spend.attempts;
    let cost = if known { format!("; {}", spend.cost()) } else { String::new() };
    let first = line(style, format!("{why} (exit code {exit_code})"));
    if let Some(plain) = &view.policy.plain {
        let made = counted(*iterations as usize, "iteration");
        let failed = view.history.run.failures;
        let mut lines = vec![first, line(None, format!("{made}, {failed} failed, {time}{cost}"))];
        lines.extend(next_of_loop(plain, &blockers(view, now)));
        return lines;
    }
    let mut lines = vec![
        first,
        line(
            None,
            format!(
                "{completed} completed in {}, {time}{cost}; {}",
                counted(*iterations as usize, "attempt"),
                TaskCounts::of(view, now).progress(),
            ),
        ),
    ];
    let done = completed_in_run(view);
    for (id, commits) in done.iter().take(TASKS) {
        let proof = commits
            .first()
            .map_or("no commit".to_owned(), |first| format!("{} {}", first.short(), first.subject));
        lines.push(line(Style::Good, format!("  + {id}: {proof}")));
        lines.extend(
            commits
                .iter()
                .take(COMMITS)
                .skip(1)
                .map(|commit| line(None, format!("    {} {}", commit.short(), commit.subject))),
        );
        if commits.len() > COMMITS {
            lines.push(line(None, format!("    and {} more", commits.len() - COMMITS)));
        }
    }
    lines.extend(more(done.len()));
    if *remaining > 0 {
        lines.extend(left(view, &blockers(view, now), now));
    }
    lines
}

/// The tasks that the newest run completed, in the order in which it did, with their commits.
fn completed_in_run<'a>(view: &View<'a>) -> Vec<(&'a TaskId, &'a [Commit])> {
    let history = view.history;
    let began = history.run.started_at;
    let in_run =
        |last: &&LastAttempt| last.ended.verdict == Verdict::Complete && Some(last.at) >= began;
    let end = |id: &'a TaskId| {
        let last = history.of(id).last.as_deref().filter(in_run)?;
        Some((last.at, id, last.ended.evidence.commits.as_slice()))
    };
    let mut done: Vec<_> = view.graph.tasks().iter().filter_map(|task| end(&task.id)).collect();
    done.sort_by_key(|(at, ..)| *at);
    done.into_iter().map(|(_, id, commits)| (id, commits)).collect()
}

/// What holds back everything that is left, if that is why the run ended.
fn blockers(view: &View<'_>, now: DateTime<Utc>) -> Vec<Blocker> {
    match view.decide(now) {
        Decision::Stop(StopReason::Blocked(holders) | StopReason::NeedsInput(holders)) => holders,
        Decision::Stop(
            StopReason::Complete
            | StopReason::Done { .. }
            | StopReason::Limit(_)
            | StopReason::Failures(_)
            | StopReason::StartLimit(_)
            | StopReason::Denied(..)
            | StopReason::Promised
            | StopReason::BaselineBroken(_)
            | StopReason::HookFailed(_)
            | StopReason::MergeHeld(_)
            | StopReason::Once { .. }
            | StopReason::Paused(_)
            | StopReason::Stopped
            | StopReason::Signal(..),
        )
        | Decision::Start(_)
        | Decision::Wait(_) => Vec::new(),
    }
}

/// How a plain loop that waits for an answer continues.
fn next_of_loop(plain: &PlainLoop, blockers: &[Blocker]) -> Option<Line> {
    blockers.first()?;
    let name = plain.name.as_str();
    let answer = how_to_answer(name);
    Some(line(Style::Faint, format!("  next: {answer}, then `ralph resume --name {name}`")))
}

fn left(view: &View<'_>, blockers: &[Blocker], now: DateTime<Utc>) -> Vec<Line> {
    let mut lines = vec![line(None, "left:")];
    let Some(first) = blockers.first() else {
        lines.extend(standing(view).1.into_iter().map(|text| line(None, format!("  {text}"))));
        return lines;
    };
    for blocker in blockers.iter().take(TASKS) {
        let frees = match blocker.frees {
            0 | 1 => String::new(),
            2 => "; 1 other waits on it".to_owned(),
            count => format!("; {} others wait on it", count - 1),
        };
        lines.push(line(Style::Warn, format!("  - {}: {}{frees}", blocker.task_id, blocker.why)));
    }
    lines.extend(more(blockers.len()));
    lines.push(line(Style::Faint, format!("  next: {}", advice(&first.task_id, view, now))));
    lines
}

/// What a person can do about a task that holds others back.
fn advice(id: &TaskId, view: &View<'_>, now: DateTime<Utc>) -> String {
    let look = "look at it with `ralph dag-status`, then";
    let Some(number) = view.graph.number(id) else {
        return "look with `ralph dag-status`".to_owned();
    };
    match view.state(number, now) {
        TaskState::Parked(_) => format!("{look} `ralph task-reset {id}`"),
        TaskState::Claimed => format!("if nothing works on it, `ralph task-reset {id}`"),
        TaskState::Spent => format!("give `{id}` a higher `max_cost`, or `ralph task-reset {id}`"),
        TaskState::NeedsInput => how_to_answer(id.as_str()),
        TaskState::Blocked => {
            format!("to unblock `{id}`, set its `status` to `pending` in the graph file")
        }
        TaskState::Cancelled => format!(
            "remove `{id}` from the `depends_on` of the tasks that wait on it, or cancel them too"
        ),
        TaskState::Ready
        | TaskState::Conflicting
        | TaskState::Retrying(_)
        | TaskState::RateLimited(_)
        | TaskState::Denied
        | TaskState::Waiting => {
            format!("run again with `--task {id}`, or without the restriction")
        }
        TaskState::Complete | TaskState::Running => "run again".to_owned(),
    }
}

fn more(count: usize) -> Option<Line> {
    (count > TASKS).then(|| line(None, format!("  … and {} more", count - TASKS)))
}
