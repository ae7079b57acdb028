//! What is said of a moment to those who are not there: the same words, and a few for what else is
//! in the summary only.

use super::{Line, line, lines};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Begun, Event, record::Record},
        select::View,
    },
    view::{lines::Verbosity, summary::summary, task::TaskCounts},
};

/// How many of those that hold everything back are named.
const HOLDERS: usize = 10;

/// What is said of a record.
pub fn notice(record: &Record, view: &View<'_>) -> Vec<Line> {
    match &record.event {
        Event::LoopStarted(Begun { plain: Some(plain), .. }) => {
            vec![line(None, format!("the loop {} began", plain.name))]
        }
        Event::LoopStarted(begun) => {
            let progress = TaskCounts::of(view, record.timestamp).progress();
            let agent = begun.agent.first().map_or("none", String::as_str);
            let text = format!("a run began: {progress}; agent {agent}");
            vec![line(None, text)]
        }
        Event::Blocked { holders } => {
            let head = line(Style::Warn, "nothing left can start");
            let rest = holders.iter().take(HOLDERS);
            let rest = rest.map(|one| line(None, format!("  {}: {}", one.task_id, one.why)));
            [head].into_iter().chain(rest).collect()
        }
        Event::Finished { .. } => summary(record, view),
        _ => lines(record, view, Verbosity::Normal),
    }
}
