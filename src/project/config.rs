//! The settings: their types, descriptions, defaults and bounds.
//!
//! A new setting is a field of [`Config`] and its default. Its doc comment is its description in
//! `ralph schema config` and in `docs/settings.md`, its name is the key in the files and, in
//! capitals after `RALPH_`, the variable. `config_layers` finds the values.

mod hooks;
mod notify;
mod schedule;

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value, json};

use crate::{
    adapters::git::IntegrationMethod,
    core::{
        agents::{
            agent_command::AgentCommand,
            promise::{self, Pattern, Promise, Worth},
        },
        duration,
        event::Orphans,
        select::{self, Policy},
        spend::Budget,
    },
};
pub use schedule::{ScheduleConfig, Secret, TriggerConfig};

pub use hooks::Hooks;
pub use notify::{Notifier, NotifierTarget};

/// The default agent.
const AGENT: &str = "claude";
/// The default path of the learnings file.
const LEARNINGS: &str = "docs/knowledge/learnings.md";

/// Settings as they are written, of one layer or of all layers together.
pub type ConfigLayer = Map<String, Value>;

/// All settings with their values.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "settings of ralph")]
#[expect(clippy::struct_excessive_bools, reason = "these are switches")]
pub struct Config {
    /// The agent: a preset (claude, codex, gemini, opencode, amp, copilot, aider), a command as a
    /// list of words, a mapping with `command` or `preset`, or a list of agents of which the next
    /// goes on while the limit of the one before it lasts.
    #[schemars(with = "Value", extend("type" = ["string", "array", "object"]))]
    pub agent: Agents,
    /// Whether `ralph` commits what an attempt that reported its task done left uncommitted.
    pub autocommit: bool,
    /// How long what an agent left running after its report is waited for; `0s` for not at all.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub child_wait_timeout: Duration,
    /// How long such a commit may take, hooks and signing included.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub commit_timeout: Duration,
    /// A regular expression for the final result of an agent that also makes a promise of it.
    #[schemars(with = "Option<String>")]
    pub done_pattern: Option<Pattern>,
    /// How long an agent may take to exit after its final result; its work counts.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub exit_grace: Duration,
    /// Whether what `ralph` has recorded survives a power cut. A change counts from the next run.
    pub fsync: bool,
    /// Between asking an agent to end and killing it.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub grace: Duration,
    /// How long a command of `hooks` may take.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub hook_timeout: Duration,
    /// Commands that are run before and after runs and attempts.
    pub hooks: Hooks,
    /// After how long without output, processor time and changed files an attempt is ended; `0s`
    /// for never.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub idle: Duration,
    /// Attempts at the same time; above 1 each in a worktree of its own.
    #[schemars(range(min = 1))]
    pub jobs: usize,
    /// The file in which agents keep what they learned.
    pub learnings: String,
    /// How many attempts there are at the same time with an agent, or at tasks with a tag: a
    /// mapping of names to numbers, such as `{claude: 3, db: 1}`.
    #[schemars(with = "BTreeMap<String, NonZeroU32>")]
    pub limits: ConcurrencyLimits,
    /// Attempts per task before it is parked.
    #[schemars(range(min = 1))]
    pub max_attempts: u32,
    /// What a run may cost, in US dollars.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_cost: Option<f64>,
    /// What 24 hours may cost, in US dollars, whatever the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_cost_per_day: Option<f64>,
    /// How long a run may take; nothing is started after it.
    #[serde(with = "maybe_length")]
    #[schemars(with = "Option<String>")]
    pub max_duration: Option<Duration>,
    /// Attempts per run.
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// Tokens that a run may use, those read from a cache left out.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// How long a provider that gives no service for now may be waited for.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub max_wait: Duration,
    /// Who is told of what: a list of commands, webhooks and desktops.
    #[schemars(with = "Vec<notify::WrittenNotifier>")]
    pub notify: Vec<Notifier>,
    /// How long it may take to tell one of them.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub notify_timeout: Duration,
    /// How long a run that is over waits for those who have not been told yet.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub notify_wait: Duration,
    /// How the work of an attempt in a work tree comes into the target branch: its commits one by
    /// one (`rebase`), with a merge commit (`merge`), or as one commit (`squash`).
    #[schemars(with = "String", extend("enum" = ["rebase", "merge", "squash"]))]
    pub merge: IntegrationMethod,
    /// Files whose lines from both sides are kept when work is merged, beside the learnings: changelogs.
    /// Patterns as in `.gitattributes`.
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub merge_union: Commands,
    /// What becomes of what an agent left running when the wait for it is over.
    #[schemars(with = "String", extend("enum" = ["kill", "leave"]))]
    pub on_orphans: Orphans,
    /// What an agent's word that all is done is worth: `check` holds it against the graph, `trust`
    /// ends the run, `off` does not look for it.
    #[schemars(with = "String", extend("enum" = ["check", "trust", "off"]))]
    pub promise: Worth,
    /// The text in a final result that is such a word; empty for none.
    pub promise_text: String,
    /// Whether secrets are kept out of `logs/`.
    pub redact: bool,
    /// When `ralph schedule` starts a run: a cron expression, a list of them, or a mapping with
    /// `cron`, `time_zone`, `run` and `trigger`.
    #[schemars(with = "Option<schedule::WrittenSchedule>")]
    pub schedule: Option<ScheduleConfig>,
    /// How the next task is chosen: by its `own` priority, or by the most urgent one among itself
    /// and all that waits for it (`inherit`).
    #[schemars(with = "String", extend("enum" = ["own", "inherit"]))]
    pub select: Select,
    /// The commands, or the one, that prepare a work tree before an attempt in it, such as `npm ci`.
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub setup: Commands,
    /// How long one of them may take.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub setup_timeout: Duration,
    /// After how long a task that is in progress counts as stale.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub stale_after: Duration,
    /// How many attempts in a row that fail at once stop a run; 0 for no such limit.
    pub start_limit: u32,
    /// How long an attempt may go on after SIGTERM.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub term_grace: Duration,
    /// The wall-clock limit of an attempt.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub timeout: Duration,
    /// The commands, or the one, that must succeed before a task is complete that names none.
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub verify: Commands,
    /// Whether they are tried before an attempt too.
    pub verify_baseline: bool,
    /// The wall-clock limit of one of them.
    #[serde(with = "length")]
    #[schemars(with = "String")]
    pub verify_timeout: Duration,
    /// Whether attempts work in a work tree of their own also where there is one at a time.
    pub worktree: bool,
    /// The folder of these work trees, relative to the repository; one beside the repository where
    /// nothing is said.
    pub worktree_dir: Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        const fn minutes(count: u64) -> Duration {
            Duration::from_secs(count * 60)
        }
        Config {
            agent: Agents {
                given: json!(AGENT),
                calls: AgentCommand::preset(AGENT).into_iter().collect(),
            },
            autocommit: true,
            child_wait_timeout: minutes(5),
            commit_timeout: minutes(1),
            done_pattern: None,
            exit_grace: Duration::from_secs(30),
            fsync: true,
            grace: Duration::from_secs(5),
            hook_timeout: minutes(1),
            hooks: Hooks::default(),
            idle: minutes(15),
            jobs: 1,
            learnings: LEARNINGS.to_owned(),
            limits: ConcurrencyLimits::default(),
            max_attempts: select::MAX_ATTEMPTS,
            max_cost: None,
            max_cost_per_day: None,
            max_duration: None,
            max_iterations: select::MAX_ITERATIONS,
            max_tokens: None,
            max_wait: select::MAX_WAIT,
            merge: IntegrationMethod::Rebase,
            merge_union: Commands(vec!["CHANGELOG.md".to_owned()]),
            notify: Vec::new(),
            notify_timeout: Duration::from_secs(10),
            notify_wait: Duration::from_secs(10),
            on_orphans: Orphans::default(),
            promise: Worth::default(),
            promise_text: promise::TEXT.to_owned(),
            redact: true,
            schedule: None,
            select: Select::Own,
            setup: Commands(Vec::new()),
            setup_timeout: minutes(15),
            stale_after: select::STALE_AFTER,
            start_limit: select::START_LIMIT,
            term_grace: Duration::from_secs(30),
            timeout: minutes(120),
            verify: Commands(Vec::new()),
            verify_baseline: false,
            verify_timeout: minutes(15),
            worktree: false,
            worktree_dir: None,
        }
    }
}

impl Config {
    /// Returns the settings of a layer, with defaults for the others.
    ///
    /// # Errors
    /// A message for each invalid setting.
    pub fn of(layer: &ConfigLayer) -> Result<Config, Vec<String>> {
        let Ok(config) = Config::read(layer.clone()) else {
            // The error is about only one setting.
            return Err(layer
                .iter()
                .filter_map(|(key, value)| Config::fault(key, value))
                .collect());
        };
        let faults: Vec<String> =
            layer.keys().filter_map(|key| config.out_of_bounds(key)).collect();
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// Returns a message if the value is invalid for the setting.
    pub fn fault(key: &str, value: &Value) -> Option<String> {
        let one = ConfigLayer::from_iter([(key.to_owned(), value.clone())]);
        let error = match Config::read(one) {
            Ok(config) => return config.out_of_bounds(key),
            Err(error) => error,
        };
        let plain = [
            ("u32", "a whole number"),
            ("usize", "a whole number"),
            ("u64", "a whole number"),
            ("f64", "a number"),
        ];
        let words = plain.into_iter().fold(error.to_string(), |words, (name, plain)| {
            words.replace(&format!("expected {name}"), &format!("expected {plain}"))
        });
        let quoted = format!("`{key}`");
        let named = words.starts_with(&quoted);
        Some(if named { words } else { format!("{quoted}: {words}") })
    }

    fn read(layer: ConfigLayer) -> serde_json::Result<Config> {
        serde_json::from_value(Value::Object(layer))
    }

    /// Checks the bounds of a setting whose type is right: those of numbers are in the schema.
    fn out_of_bounds(&self, key: &str) -> Option<String> {
        /// Durations that `0s` would make useless. For the others it means never or at once.
        const NEVER_ZERO: [&str; 7] = [
            "commit_timeout",
            "hook_timeout",
            "max_duration",
            "notify_timeout",
            "setup_timeout",
            "timeout",
            "verify_timeout",
        ];
        static SCHEMA: LazyLock<Value> = LazyLock::new(Config::schema);
        let property = &SCHEMA["properties"][key];
        let value = self.to_layer().remove(key)?;
        if property["minimum"].as_u64() == Some(1) && value.as_u64() == Some(0) {
            return Some(format!("`{key}` must be at least 1"));
        }
        let is_zero = match &property["exclusiveMinimum"] {
            Value::Null => NEVER_ZERO.contains(&key) && value == duration::text(Duration::ZERO),
            bound => value.as_f64().is_some_and(|sum| bound.as_f64().is_some_and(|b| sum <= b)),
        };
        is_zero.then(|| format!("`{key}` must be more than nothing; leave it out for the default"))
    }

    /// The longest time without a sign of life before an attempt is ended, if there is a limit.
    pub fn idle_limit(&self) -> Option<Duration> {
        (!self.idle.is_zero()).then_some(self.idle)
    }

    /// The settings that decide which task is next, and when a run stops.
    pub fn policy(&self) -> Policy {
        Policy {
            jobs: self.jobs,
            limits: self.limits.0.clone(),
            max_iterations: self.max_iterations,
            max_attempts: self.max_attempts,
            stale_after: self.stale_after,
            agents: self.agent.calls.clone(),
            budget: Budget {
                cost: self.max_cost,
                tokens: self.max_tokens,
                duration: self.max_duration,
                cost_per_day: self.max_cost_per_day,
            },
            max_wait: self.max_wait,
            start_limit: self.start_limit,
            inherit: self.select == Select::Inherit,
            ..Policy::default()
        }
    }

    /// How an agent promises that everything is done, and how far the promise is trusted.
    pub fn promise(&self) -> Promise {
        Promise {
            worth: self.promise,
            text: self.promise_text.clone(),
            pattern: self.done_pattern.clone(),
        }
    }

    /// Returns the settings as they would be written.
    pub fn to_layer(&self) -> ConfigLayer {
        match serde_json::to_value(self) {
            Ok(Value::Object(layer)) => layer,
            _ => ConfigLayer::new(),
        }
    }

    /// The names of all settings, sorted.
    pub fn keys() -> &'static [String] {
        static KEYS: OnceLock<Vec<String>> = OnceLock::new();
        KEYS.get_or_init(|| Config::default().to_layer().keys().cloned().collect())
    }

    /// The JSON Schema of the settings.
    pub fn schema() -> Value {
        schemars::schema_for!(Config).to_value()
    }
}

/// Agents, in the order in which they are tried; see [`AgentCommand::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents {
    /// The value as it was written.
    given: Value,
    /// The commands that it stands for.
    pub calls: Vec<AgentCommand>,
}

impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Agents, D::Error> {
        let given = Value::deserialize(deserializer)?;
        let calls = AgentCommand::read(&given).map_err(D::Error::custom)?;
        Ok(Agents { given, calls })
    }
}

impl Serialize for Agents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.given.serialize(serializer)
    }
}

/// Shell commands: one, or a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "OneOrManyCommands")]
pub struct Commands(pub Vec<String>);

impl Commands {
    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "it must be a command or a list of commands")]
enum OneOrManyCommands {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrManyCommands> for Commands {
    fn from(commands: OneOrManyCommands) -> Commands {
        Commands(match commands {
            OneOrManyCommands::One(command) => vec![command],
            OneOrManyCommands::Many(commands) => commands,
        })
    }
}

/// The most attempts that run at the same time with an agent, or at tasks with a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConcurrencyLimits(pub BTreeMap<String, NonZeroU32>);

impl<'de> Deserialize<'de> for ConcurrencyLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConcurrencyLimits, D::Error> {
        let Value::Object(given) = Value::deserialize(deserializer)? else {
            return Err(D::Error::custom("it must be a mapping such as `{claude: 3, db: 1}`"));
        };
        let limit = |(name, value): (String, Value)| {
            let limit = serde_json::from_value(value);
            let fault = || D::Error::custom(format!("`{name}` must be a whole number from 1"));
            limit.map_err(|_| fault()).map(|limit| (name.clone(), limit))
        };
        given.into_iter().map(limit).collect::<Result<_, _>>().map(ConcurrencyLimits)
    }
}

/// How the next task is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Select {
    /// By its own priority.
    Own,
    /// By the most urgent priority among itself and all that waits for it.
    Inherit,
}

/// Reads and writes a duration as people write it.
mod length {
    use super::{Deserialize, Deserializer, Duration, Error, Serializer, Value, duration};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = match Value::deserialize(from)? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        duration::parse(&text).map_err(D::Error::custom)
    }

    pub(super) fn serialize<S: Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&duration::text(*length))
    }
}

/// Reads and writes a duration, or null for none.
mod maybe_length {
    use super::{Deserialize, Deserializer, Duration, Error, Serializer, Value, length};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        match Value::deserialize(from)? {
            Value::Null => Ok(None),
            value => length::deserialize(value).map(Some).map_err(D::Error::custom),
        }
    }

    #[expect(clippy::ref_option, reason = "serde wants it so")]
    pub(super) fn serialize<S: Serializer>(
        length: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => length::serialize(length, to),
            None => to.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(value: &Value) -> ConfigLayer {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_a_layer_says_stands_above_the_defaults() {
        let config = Config::of(&layer(&json!({
            "agent": ["sh", "-c", "cat"], "timeout": "15m", "select": "inherit",
            "on_orphans": "leave", "verify": "make", "max_duration": null
        })))
        .unwrap();
        assert_eq!(config.on_orphans, Orphans::Leave);
        assert_eq!(config.agent.calls[0].argv, ["sh", "-c", "cat"]);
        assert_eq!(config.timeout, Duration::from_secs(900));
        assert_eq!(config.select, Select::Inherit);
        assert_eq!(config.verify.0, ["make"]);
        assert_eq!(config.grace, Config::default().grace);
    }

    #[test]
    fn every_setting_survives_being_written_and_read() {
        let config = Config {
            max_duration: Some(Duration::from_millis(5_432_100)),
            done_pattern: Some(Pattern::new("a+").unwrap()),
            limits: ConcurrencyLimits(BTreeMap::from([("db".to_owned(), NonZeroU32::MIN)])),
            ..Config::default()
        };
        let written = config.to_layer();
        assert_eq!(Config::of(&written).unwrap().to_layer(), written);
        assert_eq!(written["idle"], "15m");
        assert_eq!(written["max_duration"], "1h 30m 32s 100ms");
    }

    #[test]
    fn what_is_wrong_is_said_of_each() {
        for (given, part) in [
            (json!({"timeout": 90}), "`timeout`: `90` is not a length of time"),
            (json!({"max_attempts": 0}), "`max_attempts` must be at least 1"),
            (json!({"max_cost": -1}), "`max_cost` must be more than nothing"),
            (json!({"timeout": "0s"}), "`timeout` must be more than nothing"),
            (json!({"agent": []}), "`agent` must be a preset"),
            (json!({"jobs": 0}), "`jobs` must be at least 1"),
            (
                json!({"jobs": "two"}),
                "`jobs`: invalid type: string \"two\", expected a whole number",
            ),
            (json!({"limits": ["claude"]}), "`limits`: it must be a mapping such as"),
            (json!({"limits": {"db": 0}}), "`limits`: `db` must be a whole number from 1"),
            (json!({"fsync": 3}), "`fsync`: invalid type: integer `3`, expected a boolean"),
            (json!({"verify": 3}), "`verify`: it must be a command"),
            (json!({"on_orphans": "ask"}), "expected `kill` or `leave`"),
            (json!({"done_pattern": "("}), "is no pattern"),
        ] {
            let faults = Config::of(&layer(&given)).unwrap_err();
            assert!(faults.len() == 1 && faults[0].contains(part), "{given}: {faults:?}");
        }
        assert_eq!(
            Config::of(&layer(&json!({"fsync": 3, "grace": "x"}))).unwrap_err().len(),
            2,
            "all at once"
        );
    }

    #[test]
    fn zero_is_refused_where_it_would_be_useless() {
        let is_refused = |key: &String| {
            let zero = match Config::default().to_layer()[key] {
                Value::Bool(_) => return false,
                Value::String(_) => json!("0s"),
                _ if key == "max_duration" => json!("0s"),
                _ => json!(0),
            };
            Config::fault(key, &zero).is_some_and(|fault| fault.contains("` must be "))
        };
        let refused: Vec<&String> = Config::keys().iter().filter(|key| is_refused(key)).collect();
        let numbers = ["max_attempts", "max_cost", "max_cost_per_day", "max_iterations"];
        let lengths = ["commit_timeout", "hook_timeout", "max_duration", "notify_timeout"];
        let others = ["jobs", "max_tokens", "setup_timeout", "timeout", "verify_timeout"];
        for key in numbers.iter().chain(&lengths).chain(&others) {
            assert!(refused.iter().any(|refused| refused == key), "{key}: {refused:?}");
        }
        for key in ["child_wait_timeout", "grace", "idle", "start_limit"] {
            assert!(!refused.iter().any(|refused| *refused == key), "{key}");
        }
    }

    #[test]
    fn the_schema_describes_every_setting_and_its_default() {
        let schema = Config::schema();
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(
            properties.keys().collect::<Vec<_>>(),
            Config::keys().iter().collect::<Vec<_>>()
        );
        for (key, property) in properties {
            assert!(
                property["description"].as_str().is_some_and(|text| text.ends_with('.')),
                "{key}"
            );
        }
        assert_eq!(properties["timeout"]["default"], "2h");
        for (key, values) in [("promise", 3), ("select", 2), ("on_orphans", 2)] {
            let values_of = properties[key]["enum"].as_array().unwrap();
            assert_eq!(values_of.len(), values);
            for value in values_of {
                assert!(Config::fault(key, value).is_none(), "{key}: {value}");
            }
        }
    }
}
