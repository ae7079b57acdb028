//! Promises: the agent's claim that everything is done, as a text or pattern in its final result.
//!
//! A promise is weak evidence: agents claim too early, and may echo a prompt that asks for it. So
//! only the final result counts, and only if the graph agrees, unless the settings trust it.

use std::fmt;

use regex_lite::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::outcome::Report;

/// The default text of a promise.
pub const TEXT: &str = "<promise>COMPLETE</promise>";

/// The effect of a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Worth {
    /// It counts only if the graph agrees.
    #[default]
    Check,
    /// It ends the run.
    Trust,
    /// It is ignored.
    Off,
}

/// A regular expression for the final result.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Parses a regular expression.
    ///
    /// # Errors
    /// A message for people.
    pub fn new(text: &str) -> Result<Pattern, String> {
        Regex::new(text)
            .map(Pattern)
            .map_err(|error| format!("`{text}` is not a valid pattern: {error}"))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        Pattern::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// The settings of promises.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The effect of a promise.
    pub worth: Worth,
    /// The text of a promise; empty for none.
    pub text: String,
    /// The pattern of a promise.
    pub pattern: Option<Pattern>,
}

impl Default for Promise {
    fn default() -> Promise {
        Promise { worth: Worth::default(), text: TEXT.to_owned(), pattern: None }
    }
}

impl Promise {
    /// Whether a final result makes a promise.
    pub fn is_made(&self, result: &str) -> bool {
        self.report(result).is_some()
    }

    /// The report that a final result makes by a promise, if any.
    pub fn report(&self, result: &str) -> Option<Report> {
        // Elsewhere an agent may only speak of it.
        let by_text = !self.text.is_empty() && result.trim_end().ends_with(&self.text);
        let by_pattern = || self.pattern.as_ref().is_some_and(|it| it.0.is_match(result));
        match self.worth {
            Worth::Off => None,
            Worth::Check | Worth::Trust if by_text => Some(Report::Promise),
            Worth::Check | Worth::Trust => by_pattern().then_some(Report::Pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_a_text_or_a_pattern() {
        let plain = Promise::default();
        assert!(plain.is_made("All done.\n<promise>COMPLETE</promise>\n"));
        assert!(!plain.is_made("I cannot say COMPLETE yet."));
        assert!(!plain.is_made("I will say <promise>COMPLETE</promise> once all is done."));
        let pattern = Pattern::new("(?m)^ALL GREEN$").unwrap();
        let both = Promise { text: String::new(), pattern: Some(pattern), ..Promise::default() };
        assert!(both.is_made("tests ran\nALL GREEN\n"));
        assert!(!both.is_made("not ALL GREEN\n<promise>COMPLETE</promise>"));
        assert!(!Promise { worth: Worth::Off, ..both }.is_made("ALL GREEN"));
        assert!(Pattern::new("(").unwrap_err().starts_with("`(` is not a valid pattern: "));
    }
}
