//! The text of a notification: the lines of the event, and a short text for events that only the
//! summary covers.

use super::{Line, line, lines};
use crate::{
    core::{
        event::{Begun, Event, record::Record},
        select::View,
    },
    view::{lines::Verbosity, run_report::RunReport, task::TaskCounts},
};

/// Returns the lines of a record; `report` is that of an event that says how the run stands.
pub fn notice(record: &Record, view: &View<'_>, report: Option<&RunReport>) -> Vec<Line> {
    if let Event::LoopStarted(Begun { plain: Some(plain), .. }) = &record.event {
        vec![line(None, format!("the loop {} began", plain.name))]
    } else if let Event::LoopStarted(begun) = &record.event {
        let progress = TaskCounts::of(view, record.timestamp).progress();
        let agent = begun.agent.first().map_or("none", String::as_str);
        vec![line(None, format!("a run began: {progress}; agent {agent}"))]
    } else if let Some(report) = report {
        if let Event::Blocked { .. } = record.event {
            report.people_lines("nothing left can start")
        } else {
            report.lines()
        }
    } else {
        lines(record, view, Verbosity::Normal)
    }
}
