//! The journal read afterwards: every fact in one line, without the graph.

use super::lines::{self, Line, Verbosity, counted, line};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{AttemptEvent, Blocker, Cause, Event, GraphEvent, RunEvent, record::Record},
        graph::{TaskGraph, task::TaskId},
        history::History,
        select::{Policy, View},
    },
};

/// The words for each fact.
pub struct JournalLog {
    /// An empty one: the graph of that time is not known.
    graph: TaskGraph,
    history: History,
    policy: Policy,
}

impl Default for JournalLog {
    fn default() -> JournalLog {
        let graph = TaskGraph::new(Vec::new(), Vec::new()).expect("nothing has no cycle");
        // With several jobs, each line names its task.
        let policy = Policy { jobs: 2, ..Policy::default() };
        let history = History::default();
        JournalLog { graph, history, policy }
    }
}

impl JournalLog {
    /// The history so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The next fact in one line, safe to print; none where other lines say as much.
    pub fn line(&mut self, record: &Record) -> Option<Line> {
        // The line of a plain loop has its failures in a row, that of a trial its tasks.
        self.history.apply(record);
        let begun = &self.history.run.begun;
        if let Event::Run(RunEvent::LoopStarted(_)) = record.event {
            self.policy.max_iterations = Some(begun.max_iterations);
            self.policy.plain.clone_from(&begun.plain);
        }
        let event = &record.event;
        let id = record.task_id.as_ref().map_or("", TaskId::as_str);
        if let Event::Attempt(AttemptEvent::Started { attempt, .. }) = event {
            Some(lines::started(record, *attempt, &self.view()))
        } else if let Event::Attempt(AttemptEvent::Promised { kept: true, .. }) = event {
            Some(line(Style::Good, format!("{id} promised that all is done")))
        } else if let Event::Run(RunEvent::Blocked { holders }) = event {
            let one = |holder: &Blocker| format!("{} ({})", holder.task_id, holder.why);
            let all: Vec<String> = holders.iter().map(one).collect();
            Some(line(Style::Warn, format!("nothing left can start: {}", all.join(", "))))
        } else if let Event::Run(RunEvent::Finished {
            why,
            exit_code,
            iterations,
            completed,
            remaining,
            ..
        }) = event
        {
            let style = if *exit_code == 0 { Style::Good } else { Style::Warn };
            let attempts = counted(*iterations as usize, "attempt");
            let totals = format!(": {completed} completed in {attempts}, {remaining} left");
            let totals = if self.policy.plain.is_some() { "" } else { &totals };
            Some(line(style, format!("{why} (exit code {exit_code}){totals}")))
        } else if let Event::Graph(GraphEvent::StatusChanged {
            cause: Cause::Claimed | Cause::Completed | Cause::Released | Cause::Asked,
            ..
        }) = event
        {
            None
        } else {
            self.as_told_live(record)
        }
    }

    fn view(&self) -> View<'_> {
        let JournalLog { graph, history, policy } = self;
        View { graph, keys: &[], history, policy, active: &[] }
    }

    /// The first line of a reporter at the highest verbosity.
    fn as_told_live(&self, record: &Record) -> Option<Line> {
        let lines = lines::lines(record, &self.view(), Verbosity::Verbose);
        let first = lines.into_iter().next()?;
        Some(Line { text: first.text.trim_start().to_owned(), ..first })
    }
}
