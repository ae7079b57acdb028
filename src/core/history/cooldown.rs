//! The agents whose providers refuse them for now.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::History;
use crate::{agents::provider_error::ProviderError, event::AttemptResult, graph::task::TaskId};

/// An agent that got a provider error in its newest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCooldown {
    /// The newest error.
    #[serde(rename = "met")]
    pub error: ProviderError,
    /// The number of attempts in a row with an error. Attempts that ran at the same time count as
    /// one.
    pub count: u32,
    /// The number of ended attempts when the newest of these attempts ended.
    at: u64,
    /// When the first of these attempts ended.
    pub since: DateTime<Utc>,
}

impl History {
    /// The number of attempts of an agent in a row that got provider errors before the open attempt
    /// at a task started.
    pub fn errors_before(&self, agent: &str, id: &TaskId) -> u32 {
        let Some(cooldown) = self.cooldowns.get(agent) else {
            return 0;
        };
        let together = self.active.of(id).is_some_and(|active| active.began_after < cooldown.at);
        cooldown.count - u32::from(together)
    }

    /// Whether the newest attempt at some task has run with this agent.
    pub fn has_worked(&self, agent: &str) -> bool {
        let is_it = |ended: &AttemptResult| {
            ended.agent.as_deref() == Some(agent) && ended.evidence.obstacle.is_none()
        };
        self.tasks.values().filter_map(|task| task.last.as_ref()).any(|last| is_it(&last.ended))
    }

    /// Applies the provider error of an attempt, or its absence. An attempt that started before the
    /// newest error met the same condition, so its error does not increase the count, and its
    /// success does not end the cooldown.
    pub(super) fn apply_provider_error(
        &mut self,
        since: DateTime<Utc>,
        began: u64,
        ended: &AttemptResult,
    ) {
        let Some(agent) = &ended.agent else {
            return;
        };
        let (at, cooldown) = (self.ended, self.cooldowns.get_mut(agent));
        let is_new = cooldown.as_ref().is_none_or(|cooldown| began >= cooldown.at);
        match (ended.evidence.obstacle, cooldown) {
            (None, _) if is_new => drop(self.cooldowns.remove(agent)),
            (None, _) => {}
            (Some(error), Some(cooldown)) if !is_new => {
                cooldown.error = cooldown.error.or_longer(error);
            }
            (Some(error), Some(cooldown)) => {
                (cooldown.error, cooldown.count, cooldown.at) = (error, cooldown.count + 1, at);
            }
            (Some(error), None) => {
                self.cooldowns.insert(agent.clone(), AgentCooldown { error, count: 1, at, since });
            }
        }
    }
}
