//! Which agent a task may have now, and what follows when there is none.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Bar, Decision, View, Wait};
use crate::core::{
    agents::{agent_command::AgentCommand, provider_error::Advice},
    duration,
    event::StopReason,
    exit::Exit,
};

/// Whose turn it is at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// This agent's; none where the rules name no agent at all.
    Now(Option<&'a AgentCommand>),
    /// Nobody's before an attempt ends: this one has as many as it may, and what is tried before and
    /// after it rests or has as many, too.
    Busy(Bar<'a>),
    /// Nobody's before then: all of its agents rest.
    Later(DateTime<Utc>),
    /// Nobody's in this run: all of its agents are refused.
    Never,
}

impl<'a> View<'a> {
    /// The agents that a task may have.
    pub fn agents(&self, number: usize) -> &'a [AgentCommand] {
        let own = &self.graph.task(number).agents;
        if self.policy.agents_given || own.is_empty() { &self.policy.agents } else { own }
    }

    /// The first agent of a task that can be called now.
    pub fn agent(&self, number: usize, now: DateTime<Utc>) -> Turn<'a> {
        let calls = self.agents(number);
        let mut turn = if calls.is_empty() { Turn::Now(None) } else { Turn::Never };
        for call in calls {
            match self.history.resting.get(&call.name).map(|rest| rest.met.advice()) {
                Some(Advice::Wait { until }) if now < until => {
                    turn = match turn {
                        Turn::Later(soonest) => Turn::Later(soonest.min(until)),
                        Turn::Busy(bar) => Turn::Busy(bar),
                        Turn::Now(_) | Turn::Never => Turn::Later(until),
                    };
                }
                Some(Advice::Stop(_)) => {}
                Some(Advice::Wait { .. } | Advice::Count) | None => match self.busy(call) {
                    None => return Turn::Now(Some(call)),
                    Some(_) if matches!(turn, Turn::Busy(_)) => {}
                    Some(bar) => turn = Turn::Busy(bar),
                },
            }
        }
        turn
    }

    /// Nothing can start before a provider gives service again.
    pub(super) fn wait_for_provider(&self, until: DateTime<Utc>) -> Decision {
        let resting = || self.history.resting.values();
        let since = resting().map(|rest| rest.since).min().unwrap_or(until);
        let longest = TimeDelta::from_std(self.policy.max_wait).unwrap_or(TimeDelta::MAX);
        if until - since > longest {
            let limit = duration::short(self.policy.max_wait);
            return Decision::Stop(StopReason::Limit(format!("{limit} of waiting")));
        }
        let why = resting().find(|rest| rest.met.until == Some(until));
        let why = why.map_or_else(String::new, |rest| rest.met.obstacle.to_string());
        Decision::Wait(Wait { until: Some(until), why })
    }

    /// Why no agent of this task may be called again.
    pub(super) fn denied(&self, number: usize) -> StopReason {
        let refusal = |call: &AgentCommand| {
            let rest = self.history.resting.get(&call.name)?;
            let Advice::Stop(code) = rest.met.advice() else {
                return None;
            };
            Some((format!("`{}`: {}", call.name, rest.met.obstacle), code))
        };
        let refusals: Vec<(String, Exit)> =
            self.agents(number).iter().filter_map(refusal).collect();
        let code = refusals.first().map_or(Exit::Agent, |(_, code)| *code);
        let why: Vec<String> = refusals.into_iter().map(|(why, _)| why).collect();
        StopReason::Denied(why.join("; "), code)
    }
}
