//! The waits of an agent on its own, from its output.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{AgentTranscript, OutputPiece};

/// A wait that an agent reports before it continues on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentWait {
    /// The reset of a limit.
    Until(DateTime<Utc>),
    /// Its next try, after this time.
    For(Duration),
    /// The network.
    Network,
}

impl AgentTranscript {
    /// Returns the time until which the agent waits by itself, from that after an earlier number of
    /// waits.
    pub fn waits_until(
        &self,
        (until, count): (Option<DateTime<Utc>>, u64),
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        match self.wait? {
            AgentWait::Until(at) => Some(at),
            AgentWait::For(_) if self.waits == count => until,
            AgentWait::For(delay) => now.checked_add_signed(TimeDelta::from_std(delay).ok()?),
            AgentWait::Network => Some(DateTime::<Utc>::MAX_UTC),
        }
    }

    /// Notes a wait of the agent on its own.
    pub(super) fn set_wait(&mut self, wait: AgentWait) {
        (self.wait, self.waits) = (Some(wait), self.waits + 1);
    }

    /// Shows that the agent waits for its provider.
    pub(super) fn record_wait(&mut self, why: &str) {
        self.set_activity(&format!("waiting for the provider ({why})"));
        if let (Some(pieces), Some(doing)) = (&mut self.pieces, &self.doing) {
            pieces.push(OutputPiece::Action(doing.clone()));
        }
    }
}
