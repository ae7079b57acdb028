//! The settings: their types, descriptions, defaults and bounds.
//!
//! A new setting is a field of [`Config`] and its default. Its doc comment is its description in
//! `ralph schema config` and in `docs/settings.md`, its name is the key in the files and, in
//! capitals after `RALPH_`, the variable. `config_layers` finds the values.

mod agents;
mod review;
mod notify;
mod schedule;

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    adapters::git::{IntegrationMethod, PushRule},
    core::{
        agents::{
            agent_command::AgentCommand,
            promise::{self, Pattern, Worth},
        },
        attempt::Isolation,
        duration::{self, written as length},
        event::Orphans,
        executor::{self, ExecutorKind},
        glob::Glob,
        proof::ProofSettings,
        select::{self, Policy},
        spend::Budget,
    },
};
pub use schedule::{ScheduleConfig, Secret, TriggerConfig};

pub use agents::{Agents, Commands, ConcurrencyLimits, Hooks, SettingFault, anchored};
pub use notify::Notifier;
pub use review::ReviewConfig;

/// The default agent.
const AGENT: &str = "claude";

/// Settings as they are written, of one layer or of all layers together.
pub type ConfigLayer = Map<String, Value>;

/// Makes [`Config`] and its defaults from one table: the description, the name, the type and the
/// default of each setting. A `length` is a duration, `commands` are one or several, and words in
/// brackets are all values of the type after them.
macro_rules! settings {
    (@ [$($field:tt)*] [$($default:tt)*]) => {
        /// All settings with their values.
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(title = "settings of ralph")]
        pub struct Config { $($field)* }

        impl Default for Config {
            fn default() -> Config {
                Config { $($default)* }
            }
        }
    };
    (@ $fields:tt $defaults:tt $(#[$meta:meta])* $name:ident: length = $value:expr; $($rest:tt)*) => {
        settings!(@ $fields $defaults $(#[$meta])* #[serde(with = "length")]
            #[schemars(with = "String")] $name: Duration = $value; $($rest)*);
    };
    (@ $fields:tt $defaults:tt $(#[$meta:meta])* $name:ident: commands = $value:expr; $($rest:tt)*) => {
        settings!(@ $fields $defaults $(#[$meta])*
            #[schemars(with = "Value", extend("type" = ["string", "array"]))]
            $name: Commands = $value; $($rest)*);
    };
    (@ $fields:tt $defaults:tt $(#[$meta:meta])* $name:ident: optional_length = $value:expr;
        $($rest:tt)*) => {
        settings!(@ $fields $defaults $(#[$meta])*
            #[serde(serialize_with = "length::serialize_optional")]
            #[serde(deserialize_with = "length::deserialize_optional")]
            #[schemars(with = "Option<String>")] $name: Option<Duration> = $value; $($rest)*);
    };
    (@ $fields:tt $defaults:tt $(#[$meta:meta])* $name:ident: words $words:tt $type:ty = $value:expr;
        $($rest:tt)*) => {
        settings!(@ $fields $defaults $(#[$meta])*
            #[schemars(with = "String", extend("enum" = $words))]
            $name: $type = $value; $($rest)*);
    };
    (@ [$($field:tt)*] [$($default:tt)*] $(#[$meta:meta])* $name:ident: $type:ty = $value:expr;
        $($rest:tt)*) => {
        settings!(@ [$($field)* $(#[$meta])* pub $name: $type,] [$($default)* $name: $value,]
            $($rest)*);
    };
}

/// How another attempt at a task starts in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retry {
    /// With the commits and the uncommitted changes of the attempt before.
    #[default]
    Continue,
    /// Without them.
    Fresh,
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

settings! { @ [] []
    /// A preset (claude, codex, gemini, opencode, amp, copilot, qwen, pi, aider), a command as a
    /// list of words, a mapping with `command` or `preset`, or a list of agents: each takes over
    /// while those before it are rate-limited.
    #[schemars(with = "Value", extend("type" = ["string", "array", "object"]))]
    agent: Agents = Agents::new(json!(AGENT), AgentCommand::preset(AGENT).into_iter().collect());
    /// Agents by tag, story or size of a task, such as `{"tag:db": strong, "complexity:L": [strong,
    /// codex]}`; the first that fits, in this order.
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    agent_for: BTreeMap<String, Agents> = BTreeMap::new();
    /// Names for agents, such as `{fast: {preset: claude, model: haiku}}`, also for `limits` and
    /// `ralph costs`.
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    agents: BTreeMap<String, Agents> = BTreeMap::new();
    /// Files that may land although git ignores them or they hold secrets: patterns as in
    /// `touches`.
    #[schemars(with = "Vec<String>")]
    allow_files: Vec<Glob> = Vec::new();
    /// Commit the uncommitted changes of an attempt that reported completion, without new files
    /// that hold secrets by their name, such as `.env`.
    autocommit: bool = true;
    /// How long to wait for processes that an agent left running after its report; `0s`: not at
    /// all.
    child_wait_timeout: length = minutes(5);
    /// The time limit of a commit, with hooks and signing.
    commit_timeout: length = minutes(1);
    /// A regular expression; a final result that matches it promises completion.
    #[schemars(with = "Option<String>")]
    done_pattern: Option<Pattern> = None;
    /// Variables that keep the path of the checkout; in others it becomes that of the slot.
    env_keep: Vec<String> = Vec::new();
    /// The agents of the first, the second … attempt at a task; the last one also of those after
    /// it.
    #[schemars(with = "Value", extend("type" = ["string", "array", "null"]))]
    escalate: Option<Agents> = None;
    /// Where attempts can run: names with `sandbox`, `container`, `slurm`, `ssh` or `command`.
    #[serde(deserialize_with = "agents::read_kinds")]
    #[schemars(with = "BTreeMap<String, Value>")]
    executors: BTreeMap<String, ExecutorKind> = BTreeMap::new();
    /// How long an agent may run after its final result or report; its work counts in any case.
    exit_grace: length = Duration::from_secs(30);
    /// Further prompts in the conversation of an attempt that ends without a report or whose work
    /// is not accepted.
    follow_ups: u32 = 2;
    /// The time between the first signal and SIGKILL when an agent is ended.
    grace: length = Duration::from_secs(5);
    /// Commands before and after runs and attempts.
    hooks: Hooks = Hooks::default();
    /// End an attempt after this long without output, CPU time or changed files, unless its agent
    /// says that it waits for its provider; `0s`: never.
    idle: length = minutes(15);
    /// Attempts work each in a `slot`, a copy of the repository, or one after the other in the
    /// `checkout`.
    isolation: words ["slot", "checkout"] Isolation = Isolation::Slot;
    /// The number of attempts at a time; above 1, each needs a slot.
    #[schemars(range(min = 1))]
    jobs: usize = 1;
    /// Keep the machine awake during a run, also with its lid closed; default: if it has a battery
    /// or a lid.
    keep_awake: Option<bool> = None;
    /// The number of attempts at a time per agent, tag or executor, such as `{claude: 3, db: 1}`.
    #[schemars(with = "BTreeMap<String, NonZeroU32>")]
    limits: ConcurrencyLimits = ConcurrencyLimits::default();
    /// The number of attempts per task before it is parked.
    #[schemars(range(min = 1))]
    max_attempts: u32 = select::MAX_ATTEMPTS;
    /// The cost limit of a run, in US dollars; it ends an attempt that reaches it.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_cost: Option<f64> = None;
    /// The time limit of a run; it ends running attempts too.
    max_duration: optional_length = None;
    /// Stop a run after this many different tasks failed in a row; 0: never.
    max_failures: u32 = select::MAX_FAILURES;
    /// The number of attempts per run, without refused and interrupted ones; default: open tasks
    /// times `max_attempts`, at least 50.
    #[schemars(range(min = 1))]
    max_iterations: Option<u32> = None;
    /// The token limit of a run, without cached input; it ends an attempt that reaches it.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64> = None;
    /// The longest wait for a rate-limited or unavailable provider.
    max_wait: length = select::MAX_WAIT;
    /// Commands that are told of events, each alone or as `{command: …, on: [EVENT, …]}`.
    #[schemars(with = "Vec<notify::WrittenNotifier>")]
    notify: Vec<Notifier> = Vec::new();
    /// How work lands: its commits one by one (`rebase`), or with a merge commit (`merge`).
    merge: words ["rebase", "merge"] IntegrationMethod = IntegrationMethod::Rebase;
    /// The branch that work lands on, made from HEAD if missing; default: that of the checkout.
    /// Applies from the next run.
    onto: Option<String> = None;
    /// Whether processes of an agent that outlast `child_wait_timeout` are ended (`kill`) or live on
    /// (`leave`).
    on_orphans: words ["kill", "leave"] Orphans = Orphans::default();
    /// What an agent's promise that everything is complete does: `check` it against the graph,
    /// `trust` it and end the run, or nothing (`off`).
    promise: words ["check", "trust", "off"] Worth = Worth::default();
    /// The text of such a promise; empty for none.
    promise_text: String = promise::TEXT.to_owned();
    /// Verify commands must fail without the source of the work: `report` it after landing,
    /// `require` it before, ask for `tests` or `exercised`, or `none`; or a mapping with
    /// `policy`, and `tests` and `source` (patterns as in `touches`).
    #[schemars(with = "Value", extend("type" = ["string", "object"]))]
    proof: ProofSettings = ProofSettings::default();
    /// Files that no attempt may change: patterns as in `touches`.
    #[schemars(with = "Vec<String>")]
    protect: Vec<Glob> = Vec::new();
    /// Whether an agent may push from its slot: `refuse` and say so, or `allow`.
    push: words ["refuse", "allow"] PushRule = PushRule::Refuse;
    /// Another agent reviews work before it lands, such as `{by: strong, when: risky, rounds: 2,
    /// severity: medium, required: false}`.
    review: Option<ReviewConfig> = None;
    /// When `ralph schedule` starts a run: a cron expression, a list of them, or a mapping with
    /// `cron`, `time_zone`, `run` and `trigger`.
    #[schemars(with = "Option<schedule::WrittenSchedule>")]
    schedule: Option<ScheduleConfig> = None;
    /// Another attempt starts with the commits and changes of the last one (`continue`) or without
    /// them (`fresh`); in slots.
    retry: words ["continue", "fresh"] Retry = Retry::default();
    /// How often a task on which others depend gets `max_attempts` attempts before it is parked,
    /// each time after everything else and with the next agent of the list. Not for tasks with
    /// their own `max_attempts`.
    #[schemars(range(min = 1))]
    rounds: u32 = select::ROUNDS;
    /// Where attempts run: `local`, `sandbox` or one of `executors`.
    run_on: String = executor::LOCAL.to_owned();
    /// One or more commands that prepare a slot before an attempt, such as `npm ci`.
    setup: commands = Commands(Vec::new());
    /// The time limit of each command of `setup`.
    setup_timeout: length = minutes(15);
    /// The folder of the slots, relative to the repository; default: next to it.
    slot_dir: Option<String> = None;
    /// A task in progress for this long counts as stale.
    stale_after: length = select::STALE_AFTER;
    /// Stop a run after this many attempts in a row that fail immediately; 0: never.
    start_limit: u32 = select::START_LIMIT;
    /// How long a running attempt may continue after SIGTERM.
    term_grace: length = Duration::from_secs(30);
    /// The time limit of an attempt.
    timeout: length = minutes(120);
    /// One or more commands that must succeed before a task is complete. A task can add its own.
    verify: commands = Commands(Vec::new());
    /// Run verify commands one at a time, because they share a port, a database or a daemon.
    verify_exclusive: bool = false;
    /// The time limit of each verify command.
    verify_timeout: length = minutes(15);
}

impl Config {
    /// How many pieces of work a run with this number of jobs verifies at once.
    pub fn queue_width(&self, jobs: usize) -> usize {
        if self.verify_exclusive { 1 } else { jobs }
    }

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
            Ok(config) if may_be_small(value) => return config.out_of_bounds(key),
            Ok(_) => return None,
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
        const NEVER_ZERO: [&str; 5] =
            ["commit_timeout", "max_duration", "setup_timeout", "timeout", "verify_timeout"];
        static SCHEMA: LazyLock<Value> = LazyLock::new(Config::schema);
        let value = self.to_layer().remove(key)?;
        let property = &SCHEMA["properties"][key];
        if property["minimum"].as_u64() == Some(1) && value.as_u64() == Some(0) {
            return Some(format!("`{key}` must be at least 1"));
        }
        let is_zero = match &property["exclusiveMinimum"] {
            Value::Null => NEVER_ZERO.contains(&key) && value == duration::text(Duration::ZERO),
            bound => value.as_f64().is_some_and(|sum| bound.as_f64().is_some_and(|b| sum <= b)),
        };
        is_zero.then(|| format!("`{key}` must be more than nothing; leave it out for the default"))
    }

    /// Whether each attempt has a slot.
    pub fn is_isolated(&self) -> bool {
        self.isolation == Isolation::Slot
    }

    /// Whether an attempt starts from the work of the one before.
    pub fn continues_work(&self) -> bool {
        self.is_isolated() && self.retry == Retry::Continue
    }

    /// The settings that decide which task is next, and when a run stops.
    pub fn policy(&self) -> Policy {
        Policy {
            jobs: self.jobs,
            limits: self.limits.0.clone(),
            hosts: self.executors.keys().filter(|it| it.contains('@')).cloned().collect(),
            max_iterations: self.max_iterations,
            max_attempts: self.max_attempts,
            rounds: self.rounds,
            stale_after: self.stale_after,
            agents: self.agent.calls.clone(),
            roster: self.roster(),
            budget: Budget {
                cost: self.max_cost,
                tokens: self.max_tokens,
                duration: self.max_duration,
            },
            max_wait: self.max_wait,
            max_failures: self.max_failures,
            start_limit: self.start_limit,
            isolation: self.isolation,
            ..Policy::default()
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

/// Whether a value may be out of bounds: none of them is above 1. The schema with the bounds takes as
/// long as reading the settings.
fn may_be_small(value: &Value) -> bool {
    let is_above_zero = |text: &str| text.contains(|c: char| ('1'..='9').contains(&c));
    match value {
        Value::Number(number) => number.as_f64().is_none_or(|it| it < 1.0),
        // A duration.
        Value::String(text) => !is_above_zero(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Whether one of the patterns names this path.
pub fn is_named(patterns: &[Glob], path: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path))
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
            "agent": ["sh", "-c", "cat"], "timeout": "15m",
            "on_orphans": "leave", "verify": "make", "max_duration": null
        })))
        .unwrap();
        assert_eq!(config.on_orphans, Orphans::Leave);
        assert_eq!(config.agent.calls[0].argv, ["sh", "-c", "cat"]);
        assert_eq!(config.timeout, Duration::from_secs(900));
        assert_eq!(config.verify.0, ["make"]);
        assert_eq!(config.grace, Config::default().grace);
    }

    #[test]
    fn no_bound_is_above_one() {
        let schema = Config::schema();
        let properties = schema["properties"].as_object().unwrap();
        let bounds = properties.values().flat_map(|property| {
            ["minimum", "exclusiveMinimum"].map(|name| property[name].as_f64().map(|it| (name, it)))
        });
        let bounds: Vec<(&str, f64)> = bounds.flatten().collect();
        assert!(bounds.len() > 4 && bounds.iter().all(|(_, it)| *it <= 1.0), "{bounds:?}");
        assert!(properties.values().all(|it| it["maximum"].is_null()), "no bound is above");
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
            (
                json!({"autocommit": 3}),
                "`autocommit`: invalid type: integer `3`, expected a boolean",
            ),
            (json!({"verify": 3}), "`verify`: it must be a command"),
            (json!({"on_orphans": "ask"}), "expected `kill` or `leave`"),
            (json!({"done_pattern": "("}), "is not a valid pattern"),
        ] {
            let faults = Config::of(&layer(&given)).unwrap_err();
            assert!(faults.len() == 1 && faults[0].contains(part), "{given}: {faults:?}");
        }
        assert_eq!(
            Config::of(&layer(&json!({"autocommit": 3, "grace": "x"}))).unwrap_err().len(),
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
        let numbers = ["max_attempts", "max_cost", "max_iterations"];
        let lengths = ["commit_timeout", "max_duration"];
        let others = ["jobs", "max_tokens", "setup_timeout", "timeout", "verify_timeout"];
        for key in numbers.iter().chain(&lengths).chain(&others) {
            assert!(refused.iter().any(|refused| refused == key), "{key}: {refused:?}");
        }
        for key in ["child_wait_timeout", "grace", "idle", "max_failures", "start_limit"] {
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
        for (key, values) in [("promise", 3), ("push", 2), ("on_orphans", 2)] {
            let values_of = properties[key]["enum"].as_array().unwrap();
            assert_eq!(values_of.len(), values);
            for value in values_of {
                assert!(Config::fault(key, value).is_none(), "{key}: {value}");
            }
        }
    }
}
