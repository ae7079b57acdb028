//! The settings of notifications: the events to report, and how.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::core::{notification_kind::NotificationKind, variants};

/// The word that selects all events.
const ANY: &str = "any";

/// A notifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenNotifier", into = "WrittenNotifier")]
pub struct Notifier {
    /// The events to report.
    pub on: Vec<NotificationKind>,
    /// The way to send notifications.
    pub way: NotifierTarget,
}

/// The way to send notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifierTarget {
    /// Run a shell command.
    Run(String),
    /// Send an HTTP request.
    Webhook {
        /// The URL, or `$` and the name of the variable that holds it.
        url: String,
        /// The variable with the secret that signs the request.
        secret_env: Option<String>,
    },
    /// Show a desktop notification.
    Desktop,
}

impl fmt::Display for NotifierTarget {
    /// Omits the parts of a URL that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The length at which commands are cut, in characters.
        const LONG: usize = 60;
        match self {
            NotifierTarget::Run(command) if command.chars().count() > LONG => {
                write!(f, "`{}…`", command.chars().take(LONG).collect::<String>())
            }
            NotifierTarget::Run(command) => write!(f, "`{command}`"),
            NotifierTarget::Webhook { url, .. } => write!(f, "webhook {}", host(url)),
            NotifierTarget::Desktop => f.write_str("desktop"),
        }
    }
}

/// Returns the public part of a URL: the host, or the name of the variable that holds the URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// A [`Notifier`] as written in the settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenNotifier {
    /// The events to report, or `any`. The default is those that end a run or need a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value", extend("type" = ["string", "array"], "items" = words()))]
    on: Option<OneOrManyKinds>,
    /// A shell command. It receives the event as JSON on standard input and in `RALPH_*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// A URL that receives the event as JSON, or `$NAME` for a URL in a variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    webhook: Option<String>,
    /// The variable with the secret that signs requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret_env: Option<String>,
    /// Whether to show a desktop notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    desktop: Option<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "`on` must be an event or a list of events")]
enum OneOrManyKinds {
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
        let on = match written.on {
            None => NotificationKind::USUAL.to_vec(),
            Some(OneOrManyKinds::One(word)) => kinds(&[word])?,
            Some(OneOrManyKinds::Many(words)) => kinds(&words)?,
        };
        let secret = written.secret_env;
        let way = match (written.run, written.webhook, written.desktop) {
            (Some(command), None, None) if secret.is_none() => NotifierTarget::Run(command),
            (None, Some(url), None) => webhook(url, secret)?,
            (None, None, Some(true)) if secret.is_none() => NotifierTarget::Desktop,
            _ => {
                return Err(
                    "each entry needs exactly one of `run: COMMAND`, `webhook: URL` (optionally \
                            with `secret_env: NAME`) and `desktop: true`"
                        .to_owned(),
                );
            }
        };
        Ok(Notifier { on, way })
    }
}

fn kinds(words: &[String]) -> Result<Vec<NotificationKind>, String> {
    if words.is_empty() {
        return Err("`on` names no event; omit it for the default events".to_owned());
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

fn webhook(url: String, secret_env: Option<String>) -> Result<NotifierTarget, String> {
    if !cfg!(feature = "webhook") {
        return Err(
            "this `ralph` was built without webhooks; to include them, build it with `cargo \
                    install --path . --features webhook`"
                .to_owned(),
        );
    }
    let named = url.strip_prefix('$').is_some_and(|name| !name.is_empty());
    let web = ["http://", "https://"].iter().any(|start| url.starts_with(start));
    let address = web && !host(&url).is_empty();
    if !named && !address {
        return Err(
            "`webhook` must be a URL that starts with `https://` or `http://`, or `$NAME` \
                    for a URL in a variable"
                .to_owned(),
        );
    }
    Ok(NotifierTarget::Webhook { url, secret_env })
}

impl From<Notifier> for WrittenNotifier {
    fn from(notifier: Notifier) -> WrittenNotifier {
        let words = notifier.on.iter().map(|kind| kind.word().to_owned()).collect();
        let written =
            WrittenNotifier { on: Some(OneOrManyKinds::Many(words)), ..WrittenNotifier::default() };
        match notifier.way {
            NotifierTarget::Run(command) => WrittenNotifier { run: Some(command), ..written },
            NotifierTarget::Webhook { url, secret_env } => {
                WrittenNotifier { webhook: Some(url), secret_env, ..written }
            }
            NotifierTarget::Desktop => WrittenNotifier { desktop: Some(true), ..written },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<Notifier, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn events_are_a_word_a_list_or_the_default_ones() {
        let on = |value: Value| read(value).unwrap().on;
        assert_eq!(on(json!({"run": "x", "on": "parked"})), [NotificationKind::Parked]);
        assert_eq!(on(json!({"run": "x", "on": ["needs-input"]})), [NotificationKind::NeedsInput]);
        assert_eq!(on(json!({"run": "x", "on": "any"})), variants::all::<NotificationKind>());
        assert_eq!(on(json!({"desktop": true})), NotificationKind::USUAL);
    }

    #[test]
    fn invalid_entries_are_rejected() {
        for (given, part) in [
            (json!({"on": "parked"}), "each entry needs exactly one of"),
            (json!({"run": "x", "desktop": true}), "each entry needs exactly one of"),
            (json!({"run": "x", "secret_env": "S"}), "each entry needs exactly one of"),
            (json!({"desktop": false}), "each entry needs exactly one of"),
            (json!({"run": "x", "on": []}), "names no event"),
            (
                json!({"run": "x", "on": "praked"}),
                "unknown event `praked`; expected one of started",
            ),
            (json!({"run": "x", "on": 3}), "`on` must be an event"),
            (json!({"command": "x"}), "unknown field `command`"),
        ] {
            let error = read(given.clone()).unwrap_err();
            assert!(error.contains(part), "{given}: {error}");
        }
    }

    #[cfg(feature = "webhook")]
    #[test]
    fn a_webhook_is_a_url_or_a_variable_and_shows_only_its_host() {
        let shown = |url: &str| read(json!({"webhook": url})).map(|it| it.way.to_string());
        let given = concat!("https://me:", "pass@hooks.example.com:8443/T0/B1?key=x");
        assert_eq!(shown(given).unwrap(), "webhook hooks.example.com:8443");
        assert_eq!(shown("$CHAT_URL").unwrap(), "webhook $CHAT_URL");
        for wrong in ["hooks.example.com", "ftp://x", "https://", "$", ""] {
            assert!(shown(wrong).unwrap_err().contains("must be a URL"), "{wrong}");
        }
    }

    #[cfg(not(feature = "webhook"))]
    #[test]
    fn a_build_without_webhooks_says_how_to_include_them() {
        let error = read(json!({"webhook": "https://hooks.example.com"})).unwrap_err();
        assert!(error.contains("--features webhook"), "{error}");
    }

    #[test]
    fn a_notifier_is_written_as_it_was_read() {
        let given = json!({"on": ["parked", "finished"], "run": "mail me"});
        assert_eq!(serde_json::to_value(read(given.clone()).unwrap()).unwrap(), given);
    }
}
