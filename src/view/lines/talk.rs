//! The lines of questions, answers, notes, reports that do not count, and changes of agents.

use chrono::{DateTime, Utc};

use super::{Line, line, proof};
use crate::{
    adapters::terminal::Style,
    core::{
        agents::provider_error::ProviderError,
        duration,
        event::{AgentChange, AttemptResult, Event},
    },
    view::words::moment,
};

/// The largest number of lines of a question to show.
const ASKED: usize = 12;

/// Returns the lines of such an event.
pub(super) fn lines(id: &str, event: &Event, now: DateTime<Utc>, verbose: bool) -> Vec<Line> {
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let shown = if let Event::Asked { question, .. } = event {
        Some(line(Style::Warn, format!("{id} asks: {}", first(question))))
    } else if let Event::Answered(one) = event
        && one.question.is_empty()
    {
        Some(line(None, format!("{id} was told by a person: {}", first(&one.answer))))
    } else if let Event::Answered(one) = event {
        Some(line(None, format!("{id} was answered: {}", first(&one.answer))))
    } else if let Event::DoneRemoved { path } = event {
        let text = format!(
            "removed {path}, which was there before the attempt: with it only the attempt reports; \
             `ralph task-complete {id}` completes the task"
        );
        Some(line(Style::Warn, text))
    } else if let Event::AgentChanged(change) = event {
        Some(line(Style::Warn, changed_agent(change, now)))
    } else if let (true, Event::Noted { note, .. }) = (verbose, event) {
        Some(line(Style::Faint, format!("{id} noted: {}", first(note))))
    } else {
        None
    };
    shown.into_iter().collect()
}

fn changed_agent(change: &AgentChange, now: DateTime<Utc>) -> String {
    let AgentChange { agent, from, obstacle } = change;
    match obstacle {
        None => format!("{agent} is available again and replaces {from}"),
        Some(ProviderError { obstacle, until: None }) => {
            format!("{agent} takes over from {from}: {obstacle}")
        }
        Some(ProviderError { obstacle, until: Some(until) }) => {
            format!("{agent} takes over from {from} until {}: {obstacle}", moment(*until, now))
        }
    }
}

/// Returns the lines of an attempt that ended with a question.
pub(super) fn asked(id: &str, ended: &AttemptResult) -> Vec<Line> {
    let time = duration::short(ended.duration());
    let mut lines = vec![line(Style::Warn, format!("{id} needs input after {time}"))];
    let question = ended.question().unwrap_or("it wrote no question");
    lines.extend(question.lines().take(ASKED).map(|text| line(None, format!("  {text}"))));
    lines.extend(proof(ended));
    let hint = format!("  {}; output in {}", how_to_answer(id), ended.log);
    lines.push(line(Style::Faint, hint));
    lines
}

/// Returns how to answer a question.
pub fn how_to_answer(id: &str) -> String {
    format!("answer it with `ralph answer {id} \"…\"`")
}
