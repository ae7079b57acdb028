//! The agents of the settings, with the value as it was written.

use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{adapters::process, core::agents::agent_command::AgentCommand};

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
