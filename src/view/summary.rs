//! The end of a run in words: what was done, by which commits, what is left and why.

use chrono::Utc;

use super::{
    lines::{COMMITS, Line, counted, how_to_answer, length, line, standing},
    task::TaskCounts,
};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Blocker, Event, PlainLoop, record::Record},
        graph::task::TaskId,
        select::{TaskState, View},
        verdict::Commit,
    },
};

/// How many tasks each part of the summary names.
const TASKS: usize = 40;

/// What the final summary is made of.
#[derive(Clone, Debug, Default)]
pub struct RunTally {
    /// The first of those that are done; a long run does not keep them all.
    done: Vec<(TaskId, Vec<Commit>)>,
    done_in_all: usize,
    holders: Vec<Blocker>,
    max_iterations: u32,
}

impl RunTally {
    /// Notes what the summary will need.
    pub fn note(&mut self, record: &Record) {
        match &record.event {
            Event::LoopStarted(begun) => self.max_iterations = begun.max_iterations,
            Event::Completed(_) if self.done.len() == TASKS => self.done_in_all += 1,
            Event::Completed(ended) => {
                self.done_in_all += 1;
                self.done
                    .extend(record.task_id.clone().map(|id| (id, ended.evidence.commits.clone())));
            }
            Event::Blocked { holders } => self.holders.clone_from(holders),
            _ => {}
        }
    }

    /// The bound on attempts.
    pub fn max_iterations(&self) -> u32 {
        self.max_iterations
    }

    /// The end of a run: what was done, by which commits, what is left and why.
    pub fn summary(&self, record: &Record, view: &View<'_>) -> Vec<Line> {
        let Event::Finished { why, exit_code, iterations, completed, remaining, duration_seconds } =
            &record.event
        else {
            return Vec::new();
        };
        let style = if *exit_code == 0 { Style::Good } else { Style::Warn };
        let time = length(*duration_seconds);
        let spend = &view.history.run.spend;
        let known = spend.unknown_cost < spend.attempts;
        let cost = if known { format!("; {}", spend.cost()) } else { String::new() };
        let first = line(style, format!("{why} (exit code {exit_code})"));
        if let Some(plain) = &view.policy.plain {
            let made = counted(*iterations as usize, "iteration");
            let failed = view.history.run.failures;
            let mut lines =
                vec![first, line(None, format!("{made}, {failed} failed, {time}{cost}"))];
            lines.extend(self.next(plain));
            return lines;
        }
        let mut lines = vec![
            first,
            line(
                None,
                format!(
                    "{completed} completed in {}, {time}{cost}; {}",
                    counted(*iterations as usize, "attempt"),
                    TaskCounts::of(view, Utc::now()).progress(),
                ),
            ),
        ];
        for (id, commits) in self.done.iter().take(TASKS) {
            let proof = commits.first().map_or("no commit".to_owned(), |first| {
                format!("{} {}", first.short(), first.subject)
            });
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
        lines.extend(more(self.done_in_all));
        if *remaining > 0 {
            lines.extend(self.left(view));
        }
        lines
    }

    /// What lets a plain loop go on that waits for an answer.
    fn next(&self, plain: &PlainLoop) -> Option<Line> {
        self.holders.first()?;
        let name = plain.name.as_str();
        let answer = how_to_answer(name);
        Some(line(Style::Faint, format!("  next: {answer}, then `ralph resume --name {name}`")))
    }

    fn left(&self, view: &View<'_>) -> Vec<Line> {
        let mut lines = vec![line(None, "left:")];
        if self.holders.is_empty() {
            lines.extend(standing(view).1.into_iter().map(|text| line(None, format!("  {text}"))));
            return lines;
        }
        for holder in self.holders.iter().take(TASKS) {
            let frees = match holder.frees {
                0 | 1 => String::new(),
                2 => "; 1 other waits for it".to_owned(),
                count => format!("; {} others wait for it", count - 1),
            };
            lines.push(line(Style::Warn, format!("  - {}: {}{frees}", holder.task_id, holder.why)));
        }
        lines.extend(more(self.holders.len()));
        lines.push(line(
            Style::Faint,
            format!("  next: {}", advice(&self.holders[0].task_id, view)),
        ));
        lines
    }
}

/// What lets the holder go on, by the reason for which it holds.
fn advice(id: &TaskId, view: &View<'_>) -> String {
    let look = "look at it with `ralph dag-status`, then";
    let Some(number) = view.graph.number(id) else {
        return "look with `ralph dag-status`".to_owned();
    };
    match view.state(number, Utc::now()) {
        TaskState::Parked(_) => format!("{look} `ralph task-reset {id}`"),
        TaskState::Claimed => format!("if nobody works on it, `ralph task-reset {id}`"),
        TaskState::Spent => format!("give `{id}` a higher `max_cost`, or `ralph task-reset {id}`"),
        TaskState::NeedsInput => how_to_answer(id.as_str()),
        TaskState::Held => {
            format!("once `{id}` may go on, set its `status` back to `pending` in the graph file")
        }
        TaskState::Cancelled => format!(
            "take `{id}` out of the `depends_on` of what waits for it, or cancel that as well"
        ),
        TaskState::Ready
        | TaskState::Apart
        | TaskState::Backoff(_)
        | TaskState::Limited(_)
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
