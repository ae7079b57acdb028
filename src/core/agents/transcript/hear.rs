//! What an agent tells, piece by piece, for people who listen along.

/// A piece of it. Raw text: whoever shows it makes it harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It says something.
    Says(String),
    /// It goes on with what it said last.
    GoesOn(String),
    /// It uses a tool, or waits; in one short line.
    Uses(String),
    /// It fails, and says why.
    Fails(String),
    /// A line that is no event.
    Prints(String),
}

/// What was heard and not taken yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ear {
    heard: Vec<Heard>,
    /// Its words since it did something else: some agents give them in growing parts, and some
    /// again as their result.
    words: String,
}

impl Ear {
    pub fn hear(&mut self, heard: Heard) {
        self.words.clear();
        self.heard.push(heard);
    }

    /// Takes in what it says, whole.
    pub fn hear_words(&mut self, text: &str) {
        match text.strip_prefix(&*self.words) {
            Some("") => return,
            Some(more) if !self.words.is_empty() => self.heard.push(Heard::GoesOn(more.to_owned())),
            _ => self.heard.push(Heard::Says(text.to_owned())),
        }
        text.clone_into(&mut self.words);
    }

    /// Takes in why it fails, unless it has just said that.
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
    fn words_that_grow_or_come_again_are_heard_once() {
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
