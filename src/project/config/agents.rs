//! The agents of the settings, with the value as it was written.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::core::agents::agent_command::AgentCommand;

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
