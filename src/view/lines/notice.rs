//! The text of a notification: the lines of the event, and a short text for events that only the
//! summary covers.

use super::{Line, line, lines};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Begun, Event, record::Record},
        select::View,
    },
    project::failure_output::FailureOutputReader,
    view::{lines::Verbosity, run_report::RunReport, task::TaskCounts},
};

/// The largest number of blockers to name.
const HOLDERS: usize = 10;

/// Returns the lines of a record.
pub fn notice(record: &Record, view: &View<'_>, outputs: &FailureOutputReader) -> Vec<Line> {
    if let Event::LoopStarted(Begun { plain: Some(plain), .. }) = &record.event {
        vec![line(None, format!("the loop {} began", plain.name))]
    } else if let Event::LoopStarted(begun) = &record.event {
        let progress = TaskCounts::of(view, record.timestamp).progress();
        let agent = begun.agent.first().map_or("none", String::as_str);
        vec![line(None, format!("a run began: {progress}; agent {agent}"))]
    } else if let Event::Blocked { holders } = &record.event {
        let head = line(Style::Warn, "nothing left can start");
        let rest = holders.iter().take(HOLDERS);
        let rest = rest.map(|one| line(None, format!("  {}: {}", one.task_id, one.why)));
        [head].into_iter().chain(rest).collect()
    } else if let Some(report) = RunReport::at_end(record, view, |history| outputs.read(history)) {
        report.lines()
    } else {
        lines(record, view, Verbosity::Normal)
    }
}
