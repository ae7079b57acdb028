//! `.ralph/config.yaml`: a project's settings.
//!
//! Flags and `RALPH_*` variables stand above it, defaults below. An unknown key is an error: a
//! misspelt limit must not be no limit.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    call::Call,
    complaint,
    diagnostic::{Diagnostic, nearest},
    duration,
    edit::Document,
    event::Orphans,
    load,
    promise::{Pattern, Worth},
};

/// Where it is, relative to the repository.
pub const PATH: &str = ".ralph/config.yaml";

const KEYS: &[&str] = &[
    "agent",
    "autocommit",
    "child_wait_timeout",
    "commit_timeout",
    "done_pattern",
    "exit_grace",
    "fsync",
    "grace",
    "idle",
    "learnings",
    "max_attempts",
    "max_cost",
    "max_cost_per_day",
    "max_duration",
    "max_iterations",
    "max_tokens",
    "max_wait",
    "on_orphans",
    "promise",
    "promise_text",
    "redact",
    "select",
    "stale_after",
    "start_limit",
    "term_grace",
    "timeout",
    "verify",
    "verify_baseline",
    "verify_timeout",
];

/// What the file says; absent keys are none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The agents.
    pub agent: Option<Agents>,
    /// Whether the leftovers of an attempt that reported its task done are committed for it
    /// (default true).
    pub autocommit: Option<bool>,
    /// How long what an agent left running after its report is waited for; `0s` for not at all.
    #[serde(deserialize_with = "length")]
    pub child_wait_timeout: Option<Duration>,
    /// How long that commit, hooks and signing included, may take.
    #[serde(deserialize_with = "length")]
    pub commit_timeout: Option<Duration>,
    /// Whether state survives a power cut (default true).
    pub fsync: Option<bool>,
    /// Between asking an agent to end and killing it.
    #[serde(deserialize_with = "length")]
    pub grace: Option<Duration>,
    /// After how long without a sign of life an attempt is ended; `0s` for never.
    #[serde(deserialize_with = "length")]
    pub idle: Option<Duration>,
    /// The file in which agents keep what they learned.
    pub learnings: Option<String>,
    /// How long an agent may take to exit after its final result.
    #[serde(deserialize_with = "length")]
    pub exit_grace: Option<Duration>,
    /// Attempts per task.
    pub max_attempts: Option<u32>,
    /// Attempts per run.
    pub max_iterations: Option<u32>,
    /// What a run may cost, in US dollars.
    pub max_cost: Option<f64>,
    /// What 24 hours may cost, in US dollars, whatever the run.
    pub max_cost_per_day: Option<f64>,
    /// How long a run may take.
    #[serde(deserialize_with = "length")]
    pub max_duration: Option<Duration>,
    /// Tokens that a run may use.
    pub max_tokens: Option<u64>,
    /// How long a provider may be waited for.
    #[serde(deserialize_with = "length")]
    pub max_wait: Option<Duration>,
    /// What becomes of what is still there then.
    pub on_orphans: Option<Orphans>,
    /// What an agent's word that all is done is worth.
    pub promise: Option<Worth>,
    /// The text that gives it; empty for none.
    pub promise_text: Option<String>,
    /// The pattern that gives it.
    #[serde(deserialize_with = "pattern")]
    pub done_pattern: Option<Pattern>,
    /// Whether secrets are kept out of `logs/` (default true).
    pub redact: Option<bool>,
    /// Whether a task inherits the priority of what waits for it.
    pub select: Option<Select>,
    /// After how long `in-progress` is stale.
    #[serde(deserialize_with = "length")]
    pub stale_after: Option<Duration>,
    /// How many attempts in a row that fail at once stop a run; 0 for no such limit.
    pub start_limit: Option<u32>,
    /// How long an attempt may go on after SIGTERM.
    #[serde(deserialize_with = "length")]
    pub term_grace: Option<Duration>,
    /// The wall-clock limit of an attempt.
    #[serde(deserialize_with = "length")]
    pub timeout: Option<Duration>,
    /// What must succeed before a task is complete that says nothing of its own.
    pub verify: Option<Commands>,
    /// Whether that is tried before an attempt too.
    pub verify_baseline: Option<bool>,
    /// The wall-clock limit of one verify command.
    #[serde(deserialize_with = "length")]
    pub verify_timeout: Option<Duration>,
}

/// Agents, to be tried one after the other; see [`Call::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents(pub Vec<Call>);

impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Agents, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Call::read(&value).map(Agents).map_err(D::Error::custom)
    }
}

/// Commands for a shell: a list, or a single one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Commands(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "`verify` must be a command or a list of commands")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Commands {
    fn from(commands: OneOrMany) -> Commands {
        Commands(match commands {
            OneOrMany::One(command) => vec![command],
            OneOrMany::Many(commands) => commands,
        })
    }
}

/// How the next task is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Select {
    /// By its own priority.
    Own,
    /// By the most urgent priority among itself and all that waits for it.
    Inherit,
}

fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration::parse(&text).map(Some).map_err(D::Error::custom)
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Pattern::new(&text).map(Some).map_err(D::Error::custom)
}

impl Config {
    /// Reads the project's file; without one, nothing is set.
    ///
    /// # Errors
    /// What is wrong with it, drawn.
    pub fn read(root: &Path) -> Result<Config> {
        let path = root.join(PATH);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Config::default());
            }
            read => read.with_context(|| format!("read `{PATH}`"))?,
        };
        parse(&text).map_err(|faults| complaint::invalid(PATH, &text, &faults))
    }
}

fn parse(text: &str) -> Result<Config, Vec<Diagnostic>> {
    let document = Document::parse(text).map_err(|fault| vec![load::diagnostic(fault)])?;
    let tree = document.tree();
    let Some(root) = tree.root() else {
        return Ok(Config::default());
    };
    let unknown: Vec<Diagnostic> = tree
        .entries(root)
        .filter_map(|(key, _)| {
            let name = tree.scalar(text, key)?;
            let known = KEYS.contains(&&*name);
            (!known).then(|| {
                Diagnostic::error(
                    format!("unknown setting `{}`", name.escape_debug()),
                    tree.range(key),
                )
                .help(format!("the settings are {}", KEYS.join(", ")))
                .did_you_mean(nearest(&name, KEYS.iter().copied()))
            })
        })
        .collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let config: Config = load::settings(&document)?;
    for (key, value) in
        [("max_attempts", config.max_attempts), ("max_iterations", config.max_iterations)]
    {
        if value == Some(0) {
            let at = tree.entry(text, root, key).map_or(0..0, |(_, value)| tree.range(value));
            return Err(vec![Diagnostic::error(format!("`{key}` must be at least 1"), at)]);
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_knows_and_refuses_the_rest() {
        let text = "agent: [sh, -c, cat]\ntimeout: 15m\nselect: inherit\non_orphans: leave\n";
        let config = parse(text).unwrap();
        assert_eq!(config.on_orphans, Some(Orphans::Leave));
        assert_eq!(config.agent.unwrap().0[0].argv, ["sh", "-c", "cat"]);
        assert_eq!(config.timeout, Some(Duration::from_secs(900)));
        assert_eq!(config.select, Some(Select::Inherit));
        assert!(parse("# nothing yet\n").unwrap().agent.is_none());

        let faults = parse("max_iteration: 3\n").unwrap_err();
        assert_eq!(faults[0].help.as_deref(), Some("did you mean `max_iterations`?"));
        for wrong in ["timeout: 90\n", "max_attempts: 0\n", "agent: []\n", "- a\n", "fsync: 3\n"] {
            assert_eq!(parse(wrong).unwrap_err().len(), 1, "{wrong}");
        }
    }
}
