//! The selection of an agent for a task, and the decision when no agent is available.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, TaskConflict, View, Wait, used_attempts};
use crate::{
    agents::{agent_command::AgentCommand, provider_error::Advice},
    event::{AgentChange, StopReason},
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
    /// Returns the agents of a task, in the order its next attempt tries them.
    pub fn agents(&self, number: usize) -> Vec<&'a AgentCommand> {
        let task = self.graph.task(number);
        let failed = used_attempts(self, number, self.history.of(&task.id));
        self.policy.agents_of(task, failed, self.round(number))
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

    /// Returns the change of agents that the next attempt at a task brings, if there is one to report:
    /// another agent of the list takes over while those before it are blocked, or the first agent is
    /// available again.
    pub fn agent_change(&self, number: usize, now: DateTime<Utc>) -> Option<AgentChange> {
        let calls = self.agents(number);
        let (Turn::Now(Some(next)), Some(first)) = (self.agent(number, now), calls.first()) else {
            return None;
        };
        let before = self.history.run.agent_change.as_ref();
        let change = |from: &str, obstacle| {
            let (agent, from) = (next.name.clone(), from.to_owned());
            Some(AgentChange { agent, from, obstacle })
        };
        if next.name == first.name {
            let is_back = |before: &&AgentChange| before.from == first.name;
            let before = before.filter(is_back).filter(|before| before.obstacle.is_some())?;
            return change(&before.agent, None);
        }
        let error = self.history.cooldowns.get(&first.name)?.error;
        let is_blocked = match error.advice() {
            Advice::Wait { until } => now < until,
            Advice::Stop(_) => true,
            Advice::Count => false,
        };
        let is_known = |before: &AgentChange| {
            before.agent == next.name && before.from == first.name && before.obstacle.is_some()
        };
        if !is_blocked || before.is_some_and(is_known) {
            return None;
        }
        change(&first.name, Some(error))
    }

    /// Decides whether to wait until a provider is available again.
    pub(super) fn wait_for_provider(&self, until: DateTime<Utc>) -> Decision {
        let cooldowns = || self.history.cooldowns.values();
        let since = cooldowns().map(|cooldown| cooldown.since).min().unwrap_or(until);
        let longest = TimeDelta::from_std(self.policy.max_wait).unwrap_or(TimeDelta::MAX);
        let cause = cooldowns().find(|cooldown| cooldown.error.until == Some(until));
        let obstacle = cause.map(|cooldown| cooldown.error.obstacle);
        if until - since > longest {
            let max_wait = self.policy.max_wait;
            let reviewer = None;
            return Decision::Stop(StopReason::Provider {
                reviewer,
                obstacle,
                since,
                until,
                max_wait,
            });
        }
        let why = obstacle.map_or_else(String::new, |obstacle| obstacle.to_string());
        Decision::Wait(Wait { until: Some(until), why })
    }

    /// The reason why no agent of this task can start again.
    pub(super) fn denied(&self, number: usize) -> StopReason {
        let calls = self.agents(number).into_iter();
        let refusals: Vec<(String, Exit)> = calls.filter_map(|call| self.refusal(call)).collect();
        let code = refusals.first().map_or(Exit::Agent, |(_, code)| *code);
        let why: Vec<String> = refusals.into_iter().map(|(why, _)| why).collect();
        StopReason::Denied(why.join("; "), code)
    }

    /// The denial of access to the agent of the newest attempt, if that is how the attempt ended.
    pub(super) fn denied_last(&self) -> Option<StopReason> {
        let name = self.history.run.denied.as_ref()?;
        let all = (0..self.graph.tasks().len()).flat_map(|number| self.agents(number));
        let (why, code) = all.filter(|call| call.name == *name).find_map(|it| self.refusal(it))?;
        Some(StopReason::Denied(why, code))
    }

    /// Describes why an agent is denied access and what to do about it.
    fn refusal(&self, call: &AgentCommand) -> Option<(String, Exit)> {
        let error = self.history.cooldowns.get(&call.name)?.error;
        let Advice::Stop(code) = error.advice() else {
            return None;
        };
        let remedy = error.obstacle.remedy(call);
        let remedy =
            remedy.map_or_else(String::new, |remedy| format!("; {remedy}, then run again"));
        Some((format!("`{}`: {}{remedy}", call.name, error.obstacle), code))
    }
}
