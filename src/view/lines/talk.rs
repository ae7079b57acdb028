//! The lines of questions, answers, notes and reports that do not count.

use super::{Line, line, proof};
use crate::{
    adapters::terminal::Style,
    core::{
        duration,
        event::{AttemptResult, Event},
    },
};

/// The largest number of lines of a question to show.
const ASKED: usize = 12;

/// Returns the lines of such an event.
pub(super) fn lines(id: &str, event: &Event, verbose: bool) -> Vec<Line> {
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let shown = if let Event::Asked { question, .. } = event {
        Some(line(Style::Warn, format!("{id} asks: {}", first(question))))
    } else if let Event::Answered(one) = event {
        Some(line(None, format!("{id} was answered: {}", first(&one.answer))))
    } else if let Event::DoneRemoved { path } = event {
        let text = format!(
            "removed {path}, which was there before the attempt: with it only the attempt reports; \
             `ralph task-complete {id}` completes the task"
        );
        Some(line(Style::Warn, text))
    } else if let (true, Event::Noted { note, .. }) = (verbose, event) {
        Some(line(Style::Faint, format!("{id} noted: {}", first(note))))
    } else {
        None
    };
    shown.into_iter().collect()
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
