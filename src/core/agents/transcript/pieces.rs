//! The output of an agent in pieces, for a live view.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    AgentTranscript, MESSAGE, cut,
    tools::{ToolResult, ToolUse},
};

/// One piece of the output. Raw text: escape it before printing.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputPiece {
    /// A message.
    Message(String),
    /// The continuation of the last message.
    Continuation(String),
    /// A thought of the model, where its agent prints that.
    Thought(String),
    /// A wait, in one short line.
    Action(String),
    /// A tool use.
    Use(Box<ToolUse>),
    /// The result of a tool use.
    Result(ToolResult),
    /// A failure with its reason.
    Failure(String),
    /// A line that is not an event.
    Line(String),
}

/// A piece with the time that the agent printed with it.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedPiece {
    /// The time; none if the agent prints none.
    pub at: Option<DateTime<Utc>>,
    /// The piece.
    pub piece: OutputPiece,
}

/// The collected pieces that were not taken yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PieceCollector {
    pieces: Vec<TimedPiece>,
    /// The time of the current event.
    at: Option<DateTime<Utc>>,
    /// The last message if nothing else followed: some agents repeat a growing message, and some
    /// repeat it as their result.
    message: String,
}

impl PieceCollector {
    pub fn push(&mut self, piece: OutputPiece) {
        self.message.clear();
        self.add(piece);
    }

    fn add(&mut self, piece: OutputPiece) {
        self.pieces.push(TimedPiece { at: self.at, piece });
    }

    /// Collects a whole message.
    pub fn push_message(&mut self, text: &str) {
        match text.strip_prefix(&*self.message) {
            Some("") => return,
            Some(more) if !self.message.is_empty() => {
                self.add(OutputPiece::Continuation(more.to_owned()));
            }
            _ => self.add(OutputPiece::Message(text.to_owned())),
        }
        text.clone_into(&mut self.message);
    }

    /// Collects a thought, unless it is empty.
    pub fn push_thought(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.push(OutputPiece::Thought(cut(text, MESSAGE)));
        }
    }

    /// Collects a failure, unless the last message said the same.
    pub fn push_failure(&mut self, why: &str) {
        if self.message.is_empty() || self.message != why {
            self.push(OutputPiece::Failure(why.to_owned()));
        }
    }

    pub fn take(&mut self) -> Vec<TimedPiece> {
        std::mem::take(&mut self.pieces)
    }
}

impl AgentTranscript {
    /// Notes the time of the next piece.
    pub(super) fn note_time(&mut self, at: &Value) {
        if let Some(pieces) = &mut self.pieces {
            pieces.at = time(at);
        }
    }

    /// Collects a tool use, with a one-line summary.
    pub(super) fn shows(&mut self, tool: &str, line: &str, input: &Value, id: &Value) {
        if let Some(pieces) = &mut self.pieces {
            let used = ToolUse::new(tool, line.to_owned(), input, id);
            pieces.push(OutputPiece::Use(Box::new(used)));
        }
    }

    /// Collects a result.
    pub(super) fn shows_result(&mut self, id: &Value, content: &Value, is_error: bool) {
        if let Some(pieces) = &mut self.pieces {
            pieces.push(OutputPiece::Result(ToolResult::new(id, content, is_error)));
        }
    }

    /// Records a thought of the model.
    pub(super) fn thinks_aloud(&mut self, text: &Value) {
        if let Some(pieces) = &mut self.pieces {
            pieces.push_thought(text.as_str().unwrap_or_default());
        }
        self.thinks();
    }
}

/// A time as agents print it: as text, or in milliseconds since 1970.
fn time(value: &Value) -> Option<DateTime<Utc>> {
    match value.as_str() {
        Some(text) => Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc()),
        None => DateTime::from_timestamp_millis(value.as_i64()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_and_repeated_messages_are_collected_once() {
        let mut pieces = PieceCollector::default();
        for text in ["a", "a b", "a b", "c", "a"] {
            pieces.push_message(text);
        }
        pieces.push(OutputPiece::Action("Bash ls".to_owned()));
        pieces.push_thought(" ");
        pieces.push_message("a");
        let says = |text: &str| OutputPiece::Message(text.to_owned());
        let more = OutputPiece::Continuation(" b".to_owned());
        let used = OutputPiece::Action("Bash ls".to_owned());
        pieces.push_failure("a");
        pieces.push_failure("b");
        let fails = OutputPiece::Failure("b".to_owned());
        let taken: Vec<OutputPiece> = pieces.take().into_iter().map(|it| it.piece).collect();
        assert_eq!(taken, [says("a"), more, says("c"), says("a"), used, says("a"), fails]);
        assert_eq!(pieces.take(), []);
    }
}
