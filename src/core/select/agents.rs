//! The selection of an agent for a task, and the decision when no agent is available.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, TaskConflict, View, Wait};
use crate::core::{
    agents::{agent_command::AgentCommand, provider_error::Advice},
    duration,
    event::StopReason,
    exit::Exit,
};

/// The agent for the next attempt at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// This agent can start now; none if no agent is configured.
    Now(Option<&'a AgentCommand>),
    /// No agent can start before an attempt ends: this limit is reached, and the other agents are
    /// rate-limited or have reached their limits too.
    Busy(TaskConflict<'a>),
    /// No agent can start before this time: all of them are rate-limited.
    Later(DateTime<Utc>),
    /// No agent can start in this run: all of them are denied access.
    Never,
}

impl<'a> View<'a> {
    /// Returns the agents of a task, in the order in which they are tried.
    pub fn agents(&self, number: usize) -> &'a [AgentCommand] {
        let own = &self.graph.task(number).agents;
        if self.policy.agents_given || own.is_empty() { &self.policy.agents } else { own }
    }

    /// Returns the first agent of a task that can start now.
    pub fn agent(&self, number: usize, now: DateTime<Utc>) -> Turn<'a> {
        let calls = self.agents(number);
        let mut turn = if calls.is_empty() { Turn::Now(None) } else { Turn::Never };
        for call in calls {
            match self.history.cooldowns.get(&call.name).map(|cooldown| cooldown.error.advice()) {
                Some(Advice::Wait { until }) if now < until => {
                    turn = match turn {
                        Turn::Later(soonest) => Turn::Later(soonest.min(until)),
                        Turn::Busy(conflict) => Turn::Busy(conflict),
                        Turn::Now(_) | Turn::Never => Turn::Later(until),
                    };
                }
                Some(Advice::Stop(_)) => {}
                Some(Advice::Wait { .. } | Advice::Count) | None => match self.busy(call) {
                    None => return Turn::Now(Some(call)),
                    Some(_) if matches!(turn, Turn::Busy(_)) => {}
                    Some(conflict) => turn = Turn::Busy(conflict),
                },
            }
        }
        turn
    }

    /// Decides whether to wait until a provider is available again.
    pub(super) fn wait_for_provider(&self, until: DateTime<Utc>) -> Decision {
        let cooldowns = || self.history.cooldowns.values();
        let since = cooldowns().map(|cooldown| cooldown.since).min().unwrap_or(until);
        let longest = TimeDelta::from_std(self.policy.max_wait).unwrap_or(TimeDelta::MAX);
        if until - since > longest {
            let limit = duration::short(self.policy.max_wait);
            return Decision::Stop(StopReason::Limit(format!(
                "rate-limited for longer than `max_wait` ({limit})"
            )));
        }
        let why = cooldowns().find(|cooldown| cooldown.error.until == Some(until));
        let why = why.map_or_else(String::new, |cooldown| cooldown.error.obstacle.to_string());
        Decision::Wait(Wait { until: Some(until), why })
    }

    /// The reason why no agent of this task can start again.
    pub(super) fn denied(&self, number: usize) -> StopReason {
        let refusal = |call: &AgentCommand| {
            let cooldown = self.history.cooldowns.get(&call.name)?;
            let Advice::Stop(code) = cooldown.error.advice() else {
                return None;
            };
            Some((format!("`{}`: {}", call.name, cooldown.error.obstacle), code))
        };
        let refusals: Vec<(String, Exit)> =
            self.agents(number).iter().filter_map(refusal).collect();
        let code = refusals.first().map_or(Exit::Agent, |(_, code)| *code);
        let why: Vec<String> = refusals.into_iter().map(|(why, _)| why).collect();
        StopReason::Denied(why.join("; "), code)
    }
}
