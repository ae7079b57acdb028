//! The output of an agent in pieces, for a live view.

/// One piece of the output. Raw text: escape it before printing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPiece {
    /// A message.
    Message(String),
    /// The continuation of the last message.
    Continuation(String),
    /// A tool use or a wait, in one short line.
    Action(String),
    /// A failure with its reason.
    Failure(String),
    /// A line that is not an event.
    Line(String),
}

/// The collected pieces that were not taken yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PieceCollector {
    pieces: Vec<OutputPiece>,
    /// The last message if nothing else followed: some agents repeat a growing message, and some
    /// repeat it as their result.
    message: String,
}

impl PieceCollector {
    pub fn push(&mut self, piece: OutputPiece) {
        self.message.clear();
        self.pieces.push(piece);
    }

    /// Collects a whole message.
    pub fn push_message(&mut self, text: &str) {
        match text.strip_prefix(&*self.message) {
            Some("") => return,
            Some(more) if !self.message.is_empty() => {
                self.pieces.push(OutputPiece::Continuation(more.to_owned()));
            }
            _ => self.pieces.push(OutputPiece::Message(text.to_owned())),
        }
        text.clone_into(&mut self.message);
    }

    /// Collects a failure, unless the last message said the same.
    pub fn push_failure(&mut self, why: &str) {
        if self.message.is_empty() || self.message != why {
            self.push(OutputPiece::Failure(why.to_owned()));
        }
    }

    pub fn take(&mut self) -> Vec<OutputPiece> {
        std::mem::take(&mut self.pieces)
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
        pieces.push_message("a");
        let says = |text: &str| OutputPiece::Message(text.to_owned());
        let more = OutputPiece::Continuation(" b".to_owned());
        let used = OutputPiece::Action("Bash ls".to_owned());
        pieces.push_failure("a");
        pieces.push_failure("b");
        let fails = OutputPiece::Failure("b".to_owned());
        assert_eq!(pieces.take(), [says("a"), more, says("c"), says("a"), used, says("a"), fails]);
        assert_eq!(pieces.take(), []);
    }
}
