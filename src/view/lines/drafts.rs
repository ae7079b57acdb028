//! The line of a call of an agent by `ralph draft`.

use super::{Line, counted, length, line};
use crate::{
    adapters::terminal::Style,
    core::{event::DraftCall, spend::dollars},
};

/// Returns the line of a call.
pub(super) fn called(call: &DraftCall) -> Line {
    let (number, took) = (call.call, length(call.duration_seconds));
    let cost = call.usage.cost_usd.map_or_else(|| "unknown".to_owned(), dollars);
    let found = match call.tasks {
        Some(count) => counted(count, "task"),
        None => "no valid graph".to_owned(),
    };
    let style = if call.tasks.is_some() { Style::Good } else { Style::Warn };
    let text = format!(
        "draft, call {number} of `{}`: {found} ({}) after {took}, cost {cost}; output in {}",
        call.agent, call.outcome, call.log
    );
    line(style, text)
}
