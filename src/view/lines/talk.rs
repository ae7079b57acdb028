//! What is said of questions, answers and notes.

use super::{Line, line, proof};
use crate::{
    adapters::terminal::Style,
    core::{
        duration,
        event::{AttemptResult, Event},
    },
};

/// How many lines of a question are shown.
const ASKED: usize = 12;

/// What is said of a fact; none if it is none of these.
pub(super) fn lines(id: &str, event: &Event, verbose: bool) -> Option<Vec<Line>> {
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let said = match event {
        Event::Asked { question, .. } => {
            line(Style::Warn, format!("{id} asks: {}", first(question)))
        }
        Event::Answered(one) => line(None, format!("{id} was answered: {}", first(&one.answer))),
        Event::Noted { note, .. } if verbose => {
            line(Style::Faint, format!("{id} noted: {}", first(note)))
        }
        Event::Noted { .. } => return Some(Vec::new()),
        _ => return None,
    };
    Some(vec![said])
}

/// The end of an attempt that waits for a person.
pub(super) fn asked(id: &str, ended: &AttemptResult) -> Vec<Line> {
    let time = duration::short(ended.duration());
    let mut lines = vec![line(Style::Warn, format!("{id} needs input after {time}"))];
    let question = ended.question().unwrap_or("it left no question");
    lines.extend(question.lines().take(ASKED).map(|text| line(None, format!("  {text}"))));
    lines.extend(proof(ended));
    let hint = format!("  {}; output in {}", how_to_answer(id), ended.log);
    lines.push(line(Style::Faint, hint));
    lines
}

/// How a question is answered.
pub fn how_to_answer(id: &str) -> String {
    format!("answer it with `ralph answer {id} \"…\"`")
}
