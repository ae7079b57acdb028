//! The setting of notifications: commands, and the events that each is told of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::core::{notification_kind::NotificationKind, variants};

/// The word that selects all events.
const ANY: &str = "any";

/// A command that is told of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenNotifier", into = "WrittenNotifier")]
pub struct Notifier {
    /// The events.
    pub on: Vec<NotificationKind>,
    /// The shell command.
    pub command: String,
}

impl fmt::Display for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The length at which commands are cut, in characters.
        const LONG: usize = 60;
        match self.command.char_indices().nth(LONG) {
            Some((end, _)) => write!(f, "`{}…`", &self.command[..end]),
            None => write!(f, "`{}`", self.command),
        }
    }
}

/// A [`Notifier`] as written in the settings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "each entry of `notify` must be a command, or a mapping with `command` and `on`"
)]
pub(super) enum WrittenNotifier {
    /// A shell command, told of the events that end a run or need a person.
    Command(String),
    /// A shell command, told of certain events.
    Selected {
        /// The shell command. It receives the event as JSON on standard input and in `RALPH_*`.
        command: String,
        /// The events, or `any`.
        #[schemars(with = "Value", extend("type" = ["string", "array"], "items" = words()))]
        on: OneOrManyKinds,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrManyKinds {
    One(String),
    Many(Vec<String>),
}

fn words() -> Value {
    let words: Vec<&str> =
        variants::names::<NotificationKind>().iter().copied().chain([ANY]).collect();
    json!({ "enum": words })
}

impl TryFrom<WrittenNotifier> for Notifier {
    type Error = String;

    fn try_from(written: WrittenNotifier) -> Result<Notifier, String> {
        Ok(match written {
            WrittenNotifier::Command(command) => {
                Notifier { on: NotificationKind::USUAL.to_vec(), command }
            }
            WrittenNotifier::Selected { command, on: OneOrManyKinds::One(word) } => {
                Notifier { on: kinds(&[word])?, command }
            }
            WrittenNotifier::Selected { command, on: OneOrManyKinds::Many(words) } => {
                Notifier { on: kinds(&words)?, command }
            }
        })
    }
}

fn kinds(words: &[String]) -> Result<Vec<NotificationKind>, String> {
    if words.is_empty() {
        return Err("`on` names no event; write the command alone for the usual ones".to_owned());
    }
    let mut found = Vec::new();
    for word in words {
        match variants::all::<NotificationKind>().into_iter().find(|kind| kind.word() == word) {
            Some(kind) => found.push(kind),
            None if word == ANY => found.extend(variants::all::<NotificationKind>()),
            None => {
                let known = variants::names::<NotificationKind>().join(", ");
                let word = word.escape_debug();
                return Err(format!("unknown event `{word}`; expected one of {known}, {ANY}"));
            }
        }
    }
    Ok(found)
}

impl From<Notifier> for WrittenNotifier {
    fn from(Notifier { on, command }: Notifier) -> WrittenNotifier {
        if on == NotificationKind::USUAL {
            return WrittenNotifier::Command(command);
        }
        let words = on.iter().map(|kind| kind.word().to_owned()).collect();
        WrittenNotifier::Selected { command, on: OneOrManyKinds::Many(words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<Notifier, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn events_are_a_word_a_list_or_the_usual_ones() {
        let on = |value: Value| read(value).unwrap().on;
        assert_eq!(on(json!({"command": "x", "on": "parked"})), [NotificationKind::Parked]);
        assert_eq!(on(json!({"command": "x", "on": ["parked"]})), [NotificationKind::Parked]);
        assert_eq!(on(json!({"command": "x", "on": "any"})), variants::all::<NotificationKind>());
        assert_eq!(on(json!("x")), NotificationKind::USUAL);
    }

    #[test]
    fn invalid_entries_are_rejected() {
        for (given, part) in [
            (json!({"on": "parked"}), "must be a command, or a mapping"),
            (json!({"run": "x"}), "must be a command, or a mapping"),
            (json!({"command": "x", "on": 3}), "must be a command, or a mapping"),
            (json!({"command": "x", "on": []}), "names no event"),
            (json!({"command": "x", "on": "praked"}), "unknown event `praked`; expected one of"),
        ] {
            let error = read(given.clone()).unwrap_err();
            assert!(error.contains(part), "{given}: {error}");
        }
    }

    #[test]
    fn a_notifier_is_written_as_it_was_read() {
        for given in [json!("mail me"), json!({"command": "mail me", "on": ["parked", "finished"]})]
        {
            assert_eq!(serde_json::to_value(read(given.clone()).unwrap()).unwrap(), given);
        }
    }
}
