//! The journal read afterwards: every fact in one line, whatever has become of the graph since.

use super::lines::{self, Line, Verbosity, counted, length, line};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Blocker, Cause, Event, record::Record},
        graph::{TaskGraph, task::TaskId},
        history::History,
        select::{Policy, View},
    },
};

/// What is said of each fact.
pub struct JournalLog {
    /// The facts must be enough: the graph is not that of then.
    graph: TaskGraph,
    history: History,
    policy: Policy,
    max_iterations: u32,
}

impl Default for JournalLog {
    fn default() -> JournalLog {
        let graph = TaskGraph::new(Vec::new(), Vec::new()).expect("nothing has no cycle");
        let (history, policy) = (History::default(), Policy::default());
        JournalLog { graph, history, policy, max_iterations: 0 }
    }
}

impl JournalLog {
    /// The next fact in one line, safe to print; none where the lines beside it say as much.
    pub fn line(&mut self, record: &Record) -> Option<Line> {
        if let Event::LoopStarted(begun) = &record.event {
            self.max_iterations = begun.max_iterations;
            self.policy.max_iterations = begun.max_iterations;
            self.policy.plain.clone_from(&begun.plain);
        }
        // A plain loop is told with its failures in a row, a trial with what is tried.
        self.history.apply(record);
        if let Some(plain) = &self.policy.plain {
            if let Event::Started { .. } = &record.event {
                let text = lines::start_of_iteration(record, self.max_iterations, plain);
                return Some(line(Style::Strong, text));
            }
            if let Event::Finished { why, exit_code, .. } = &record.event {
                let style = if *exit_code == 0 { Style::Good } else { Style::Warn };
                return Some(line(style, format!("{why} (exit code {exit_code})")));
            }
        }
        let id = record.task_id.as_ref().map_or("", TaskId::as_str);
        Some(match &record.event {
            Event::Started { attempt, .. } => {
                let iteration = record.iteration.unwrap_or(0);
                let of = match self.max_iterations {
                    0 => String::new(),
                    of => format!(" of {of}"),
                };
                let text = format!("Iteration {iteration}{of} · {id} · attempt {attempt}");
                line(Style::Strong, text)
            }
            Event::Verified(check) => {
                let took = length(check.duration_seconds);
                line(Style::Faint, format!("{id}: `{}` succeeded in {took}", check.command))
            }
            Event::VerifyFailed(check) => {
                let took = length(check.duration_seconds);
                let text = format!("{id}: `{}` {} after {took}", check.command, check.outcome);
                line(Style::Warn, text)
            }
            Event::Promised { kept: true, .. } => {
                line(Style::Good, format!("{id} promised that all is done"))
            }
            Event::Blocked { holders } => {
                let one = |holder: &Blocker| format!("{} ({})", holder.task_id, holder.why);
                let all: Vec<String> = holders.iter().map(one).collect();
                line(Style::Warn, format!("what is left is held back by {}", all.join(", ")))
            }
            Event::Finished { why, exit_code, iterations, completed, remaining, .. } => {
                let style = if *exit_code == 0 { Style::Good } else { Style::Warn };
                let attempts = counted(*iterations as usize, "attempt");
                line(
                    style,
                    format!(
                        "{why} (exit code {exit_code}): {completed} completed in {attempts}, \
                         {remaining} left"
                    ),
                )
            }
            Event::StatusChanged {
                cause: Cause::Claimed | Cause::Completed | Cause::Released | Cause::Asked,
                ..
            } => return None,
            _ => return self.as_told_live(record),
        })
    }

    /// The first line of what a reporter would have said, had it been asked for everything.
    fn as_told_live(&self, record: &Record) -> Option<Line> {
        let (graph, history, policy) = (&self.graph, &self.history, &self.policy);
        let view = View { graph, keys: &[], history, policy, active: &[] };
        let lines = lines::lines(record, &view, Verbosity::Verbose);
        let first = lines.into_iter().next()?;
        Some(Line { text: first.text.trim_start().to_owned(), ..first })
    }
}
