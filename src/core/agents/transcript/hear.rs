//! The output of an agent in pieces, for a live view.

/// One piece of the output. Raw text: escape it before printing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message.
    Says(String),
    /// The continuation of the last message.
    GoesOn(String),
    /// A tool use or a wait, in one short line.
    Uses(String),
    /// A failure with its reason.
    Fails(String),
    /// A line that is not an event.
    Prints(String),
}

/// The collected pieces that were not taken yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ear {
    heard: Vec<Heard>,
    /// The last message if nothing else followed: some agents repeat a growing message, and some
    /// repeat it as their result.
    words: String,
}

impl Ear {
    pub fn hear(&mut self, heard: Heard) {
        self.words.clear();
        self.heard.push(heard);
    }

    /// Collects a whole message.
    pub fn hear_words(&mut self, text: &str) {
        match text.strip_prefix(&*self.words) {
            Some("") => return,
            Some(more) if !self.words.is_empty() => self.heard.push(Heard::GoesOn(more.to_owned())),
            _ => self.heard.push(Heard::Says(text.to_owned())),
        }
        text.clone_into(&mut self.words);
    }

    /// Collects a failure, unless the last message said the same.
    pub fn hear_failure(&mut self, why: &str) {
        if self.words.is_empty() || self.words != why {
            self.hear(Heard::Fails(why.to_owned()));
        }
    }

    pub fn take(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_and_repeated_messages_are_collected_once() {
        let mut ear = Ear::default();
        for text in ["a", "a b", "a b", "c", "a"] {
            ear.hear_words(text);
        }
        ear.hear(Heard::Uses("Bash ls".to_owned()));
        ear.hear_words("a");
        let says = |text: &str| Heard::Says(text.to_owned());
        let more = Heard::GoesOn(" b".to_owned());
        let used = Heard::Uses("Bash ls".to_owned());
        ear.hear_failure("a");
        ear.hear_failure("b");
        let fails = Heard::Fails("b".to_owned());
        assert_eq!(ear.take(), [says("a"), more, says("c"), says("a"), used, says("a"), fails]);
        assert_eq!(ear.take(), []);
    }
}
