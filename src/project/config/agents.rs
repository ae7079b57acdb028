//! Agents, executors, hooks, and limits of them in the settings, and lists of commands.

use std::{collections::BTreeMap, num::NonZeroU32, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use super::Config;
use crate::{
    adapters::process,
    core::{
        agents::{agent_command::AgentCommand, promise::Promise},
        event::Hook,
        executor::{ExecutorKind, LOCAL, read_executors},
        select::roster::{AgentFault, KINDS, Roster},
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

impl Config {
    /// How an agent promises that everything is done, and how far the promise is trusted.
    pub fn promise(&self) -> Promise {
        Promise {
            worth: self.promise,
            text: self.promise_text.clone(),
            pattern: self.done_pattern.clone(),
        }
    }
    /// The names of agents, and the agents of certain tasks and attempts.
    pub(super) fn roster(&self) -> Roster {
        let named = self.agents.iter().filter_map(|(name, agents)| {
            let call = agents.calls.first()?.clone();
            Some((name.clone(), AgentCommand { name: name.clone(), ..call }))
        });
        let by_kind = self.agent_for.iter().map(|(kind, it)| (kind.clone(), it.calls.clone()));
        let rungs = self.escalate.as_ref().map(|agents| agents.calls.clone());
        Roster::new(named.collect(), by_kind.collect(), rungs.unwrap_or_default())
    }

    /// Puts the agents in the place of their names, and makes relative paths of their programs absolute,
    /// starting from `root`; those of `agent` from `base`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn settle_agents(&mut self, base: &Path, root: &Path) -> Result<(), SettingFault> {
        // What is not on this machine cannot be seen.
        let is_here = self.run_on == LOCAL && self.executors.is_empty();
        let has_program = |word: &str| !is_here || process::resolve(word, root).is_ok();
        let roster = self.roster();
        for (name, agents) in &mut self.agents {
            if agents.calls.len() != 1 {
                let text = format!("`{name}` must be one agent; a list stands in `agent`");
                return Err(SettingFault::new("agents", name, &text));
            }
            if let Some(fault) = roster.misspelled(&agents.calls, &has_program) {
                return Err(SettingFault::of("agents", &fault));
            }
            agents.anchor(root);
        }
        for kind in self.agent_for.keys() {
            let of = kind.split_once(':').map(|(of, _)| of);
            if of.is_none_or(|of| !KINDS.contains(&of)) {
                let text = format!("`{kind}` must begin with `{}:`", KINDS.join(":`, `"));
                return Err(SettingFault::new("agent_for", kind, &text));
            }
        }
        let roster = self.roster();
        let reviewer = self.review.as_ref().and_then(|review| review.by.as_ref());
        if reviewer.is_some_and(|by| roster.resolve(&by.calls).len() != 1) {
            return Err(SettingFault::new("review", "by", "`by` must be one agent"));
        }
        let others = self.agent_for.values_mut().map(|agents| ("agent_for", root, agents));
        let reviewer = self.review.as_mut().and_then(|review| review.by.as_mut());
        let reviewer = reviewer.into_iter().map(|agents| ("review", root, agents));
        let rungs = self.escalate.iter_mut().map(|agents| ("escalate", root, agents));
        let own = [("agent", base, &mut self.agent)];
        let all = others.chain(reviewer).chain(rungs).chain(own);
        for (setting, dir, agents) in all {
            let fault = roster.fault(&agents.calls);
            // A run names an agent that cannot be started, and one of a command line.
            let fault = match setting {
                "agent" => fault,
                _ => fault.or_else(|| roster.misspelled(&agents.calls, &has_program)),
            };
            if let Some(fault) = fault {
                return Err(SettingFault::of(setting, &fault));
            }
            agents.calls = roster.resolve(&agents.calls).into_iter().cloned().collect();
            agents.anchor(dir);
        }
        Ok(())
    }
}

/// An error in a setting that is seen only together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFault {
    /// The setting.
    pub setting: &'static str,
    /// The word in its value that it is about.
    pub word: String,
    /// What is wrong.
    pub text: String,
}

impl SettingFault {
    fn new(setting: &'static str, word: &str, text: &str) -> SettingFault {
        SettingFault { setting, word: word.to_owned(), text: format!("`{setting}`: {text}") }
    }

    fn of(setting: &'static str, fault: &AgentFault) -> SettingFault {
        SettingFault::new(setting, &fault.word, &fault.text)
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
