//! Agents, executors, hooks, and limits of them in the settings, and lists of commands.

use std::{collections::BTreeMap, num::NonZeroU32, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use crate::{
    adapters::process,
    core::{
        agents::agent_command::AgentCommand,
        event::Hook,
        executor::{ExecutorKind, read_executors},
    },
};

/// Agents, in the order in which they are tried; see [`AgentCommand::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agents {
    /// The value as it was written.
    given: Value,
    /// The commands that it stands for.
    pub calls: Vec<AgentCommand>,
}

impl Agents {
    /// Returns these commands, as they were written.
    pub(super) fn new(given: Value, calls: Vec<AgentCommand>) -> Agents {
        Agents { given, calls }
    }

    /// Makes relative paths of their programs absolute, starting from `dir`.
    pub fn anchor(&mut self, dir: &Path) {
        for call in &mut self.calls {
            *call = anchored(call.clone(), dir);
        }
    }
}

/// Returns the command of an agent with the path of its program made absolute, starting from `dir`:
/// an isolated attempt works in another folder. The same for a file above `dir`, such as the script
/// of an interpreter: no slot has it.
#[must_use]
pub fn anchored(mut call: AgentCommand, dir: &Path) -> AgentCommand {
    for program in [call.argv.first_mut(), call.version_check.first_mut()].into_iter().flatten() {
        *program = process::absolute(program, dir);
    }
    for word in call.argv.iter_mut().skip(1) {
        if word.starts_with("../") && dir.join(&word).exists() {
            *word = process::absolute(word, dir);
        }
    }
    call
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

/// Reads executors, also in their short forms.
pub(super) fn read_kinds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, ExecutorKind>, D::Error> {
    read_executors(&Map::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Commands to run before and after runs and attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Commands to run before a run starts. If one fails, the run ends with exit code 1.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub before_run: Commands,
    /// Commands to run after a run, whatever its result.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub after_run: Commands,
    /// Commands to run before an attempt claims its task. If one fails, the run ends with exit code
    /// 1.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub before_attempt: Commands,
    /// Commands to run after the verdict on an attempt.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub after_attempt: Commands,
    /// Commands to run before a run that `ralph schedule` starts.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub on_scheduled_wake: Commands,
}

impl Hooks {
    /// Returns the commands of a hook.
    pub fn of(&self, hook: Hook) -> &[String] {
        let commands = match hook {
            Hook::BeforeRun => &self.before_run,
            Hook::AfterRun => &self.after_run,
            Hook::BeforeAttempt => &self.before_attempt,
            Hook::AfterAttempt => &self.after_attempt,
            Hook::OnScheduledWake => &self.on_scheduled_wake,
        };
        &commands.0
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
