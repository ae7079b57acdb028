//! What kept an agent from working that is not its work: a limit of its provider, a network that is
//! out, a key that is refused; and what is to be done about each.
//!
//! Judged in a fixed order, because each later sign is weaker: what `ralph` itself did to the agent,
//! the agent's own result, its exit status, and last the words of one line, only when it failed and
//! only when the line begins as an error does. What an agent read or wrote about limits is none.
//! Pure: the time is an argument.

mod reset;
mod signs;

use std::fmt;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use serde::{Deserialize, Serialize};

use crate::core::{
    agents::transcript::{AgentTranscript, FinalResult, Format},
    exit::Exit,
    outcome::Outcome,
};
pub use reset::reset;

/// What was in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProviderErrorKind {
    /// What the account may use in a span of time is used up.
    UsageLimit {
        /// When it may go on; none if that was not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<DateTime<Utc>>,
    },
    /// Too many requests in a short time.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed, or did not answer in time.
    ServerError,
    /// The provider cannot be reached.
    Network,
    /// No key, or one that is refused.
    Authentication,
    /// No money, or no right to spend it.
    Credit,
    /// There is no such model for this account.
    Model,
    /// The agent refused its command line or its settings before it began.
    Setup,
    /// The model refused the request.
    Refused,
    /// The conversation or the answer became too long for the model.
    TooLong,
    /// The agent's own limit of turns.
    TurnLimit,
    /// The agent's own limit of money.
    Budget,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Start nothing with this agent before then. The attempt does not count.
    Wait {
        /// The time.
        until: DateTime<Utc>,
    },
    /// Stop the run with this code: every task would fail alike. The attempt does not count.
    Stop(Exit),
    /// A failed attempt like any other. It counts.
    Count,
}

/// Resets come late by a minute now and then; asking too early costs an attempt.
const SLACK: TimeDelta = TimeDelta::seconds(60);
/// So many failures of the provider in a row are waited for; more may be the task's own.
const PATIENCE: u32 = 8;

impl ProviderErrorKind {
    /// What to do, when the `earlier` attempts just before this one met obstacles too.
    ///
    /// Agents try again by themselves for minutes before they give up, so pauses are minutes: 1, 2,
    /// 4, 8 and then 15. Nobody bounds the waiting as a whole but the caller.
    pub fn advice(self, earlier: u32, now: DateTime<Utc>) -> Advice {
        let pause = TimeDelta::minutes(15.min(1 << earlier.min(4)));
        let back_off = Advice::Wait { until: now + pause };
        match self {
            ProviderErrorKind::UsageLimit { resets_at: Some(at) } => {
                Advice::Wait { until: at.max(now + pause - SLACK) + SLACK }
            }
            ProviderErrorKind::UsageLimit { resets_at: None } => {
                Advice::Wait { until: now + pause.max(TimeDelta::minutes(15)) }
            }
            ProviderErrorKind::RateLimit | ProviderErrorKind::Network => back_off,
            ProviderErrorKind::Overloaded | ProviderErrorKind::ServerError
                if earlier < PATIENCE =>
            {
                back_off
            }
            other => other.fatal().map_or(Advice::Count, Advice::Stop),
        }
    }

    /// The code of a run that it stops, because every task would fail alike.
    fn fatal(self) -> Option<Exit> {
        match self {
            ProviderErrorKind::Authentication | ProviderErrorKind::Credit => Some(Exit::Denied),
            ProviderErrorKind::Model | ProviderErrorKind::Setup => Some(Exit::Agent),
            ProviderErrorKind::UsageLimit { .. }
            | ProviderErrorKind::RateLimit
            | ProviderErrorKind::Overloaded
            | ProviderErrorKind::ServerError
            | ProviderErrorKind::Network
            | ProviderErrorKind::Refused
            | ProviderErrorKind::TooLong
            | ProviderErrorKind::TurnLimit
            | ProviderErrorKind::Budget => None,
        }
    }
}

impl fmt::Display for ProviderErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ProviderErrorKind::UsageLimit { .. } => "the usage limit of the account is reached",
            ProviderErrorKind::RateLimit => "the provider says: too many requests",
            ProviderErrorKind::Overloaded => "the provider is overloaded",
            ProviderErrorKind::ServerError => "the provider failed",
            ProviderErrorKind::Network => "the provider cannot be reached",
            ProviderErrorKind::Authentication => {
                "the agent is not logged in, or its key is refused"
            }
            ProviderErrorKind::Credit => "the account has no credit",
            ProviderErrorKind::Model => "the model does not exist for this account",
            ProviderErrorKind::Setup => "the agent refused its command line",
            ProviderErrorKind::Refused => "the model refused",
            ProviderErrorKind::TooLong => "it became too long for the model",
            ProviderErrorKind::TurnLimit => "the agent reached its limit of turns",
            ProviderErrorKind::Budget => "the agent reached its limit of money",
        })
    }
}

/// An obstacle that an attempt met, and until when nothing is to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderError {
    /// What it was.
    #[serde(flatten)]
    pub obstacle: ProviderErrorKind,
    /// When the agent may be called again; none where waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
}

impl ProviderError {
    /// The obstacle, when the `earlier` attempts of the agent just before met obstacles too.
    pub fn new(obstacle: ProviderErrorKind, earlier: u32, now: DateTime<Utc>) -> ProviderError {
        let until = match obstacle.advice(earlier, now) {
            Advice::Wait { until } => Some(until),
            Advice::Stop(_) | Advice::Count => None,
        };
        ProviderError { obstacle, until }
    }

    /// The one of two that keeps the agent from being called for longer. A failed request of one
    /// attempt says nothing against a limit that another met at the same time.
    #[must_use]
    pub fn or_longer(self, other: ProviderError) -> ProviderError {
        let weight = |met: &ProviderError| match met.advice() {
            Advice::Count => (0, None),
            Advice::Wait { until } => (1, Some(until)),
            Advice::Stop(_) => (2, None),
        };
        if weight(&other) > weight(&self) { other } else { self }
    }

    /// What to do about it, as it was decided when it was met.
    pub fn advice(&self) -> Advice {
        match (self.until, self.obstacle.fatal()) {
            (Some(until), _) => Advice::Wait { until },
            (None, Some(code)) => Advice::Stop(code),
            (None, None) => Advice::Count,
        }
    }
}

/// The end of an attempt's process, as it shows from outside.
#[derive(Clone, Copy, Debug)]
pub struct AttemptOutput<'a> {
    /// How the output is to be read.
    pub format: Format,
    /// What it told.
    pub told: &'a AgentTranscript,
    /// How the process ended.
    pub outcome: &'a Outcome,
    /// The end of its standard error; a few kilobytes do.
    pub stderr: &'a str,
}

/// What was in the way; none when nothing was, or nothing that is known. `now` also says in which
/// zone a time without one is meant: that of the machine.
pub fn classify<Z: TimeZone>(
    remains: &AttemptOutput<'_>,
    now: &DateTime<Z>,
) -> Option<ProviderErrorKind> {
    let exit_code = match remains.outcome {
        Outcome::Exited { exit_code } => Some(*exit_code),
        Outcome::Lingered { .. } => Some(0),
        Outcome::Signaled { .. } => None,
        Outcome::TimedOut { .. }
        | Outcome::Idle { .. }
        | Outcome::Cancelled
        | Outcome::Interrupted
        | Outcome::NotStarted { .. } => return None,
    };
    if let Some(end) = &remains.told.end {
        return end.is_error.then(|| of_end(remains.format, end, exit_code, now)).flatten();
    }
    if exit_code == Some(0) {
        return None;
    }
    if !remains.told.has_spoken && remains.stderr.lines().any(signs::is_setup) {
        return Some(ProviderErrorKind::Setup);
    }
    let last = remains.stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    [remains.told.last_line.as_deref(), last]
        .into_iter()
        .flatten()
        .filter(|line| signs::is_error(line))
        .find_map(|line| Some(with_reset(signs::of_text(line)?, line, now)))
}

/// By the agent's own word that it failed.
fn of_end<Z: TimeZone>(
    format: Format,
    end: &FinalResult,
    exit_code: Option<i32>,
    now: &DateTime<Z>,
) -> Option<ProviderErrorKind> {
    let codes = || end.codes.iter().map(String::as_str);
    // Claude Code's result may be the model's own words even when it failed; an error of the others
    // is nothing else.
    let is_error = format != Format::ClaudeJson || signs::is_error(&end.text);
    let by_text = is_error.then(|| signs::of_text(&end.text)).flatten();
    // A limit of the account has the same status as too many requests, and only some versions give
    // it a code; a prompt that is too long and a lack of credit have that of any wrong request.
    let text_is_sure = matches!(
        by_text,
        Some(
            ProviderErrorKind::UsageLimit { .. }
                | ProviderErrorKind::Credit
                | ProviderErrorKind::TooLong
        )
    );
    // Gemini exits with the status of the request, of which a process keeps the last eight bits.
    let by_exit = || {
        let code = exit_code.filter(|_| format == Format::GeminiJson)?;
        let status = [400, 401, 403, 404, 429, 500, 502, 503, 529]
            .into_iter()
            .find(|status| status % 256 == code)?;
        signs::of_status(u16::try_from(status).ok()?)
    };
    let found = codes()
        .find_map(signs::of_sure_code)
        .or(by_text.filter(|_| text_is_sure))
        .or_else(|| end.status.and_then(signs::of_status))
        .or_else(|| codes().find_map(signs::of_code))
        .or(by_text)
        .or_else(by_exit)?;
    match found {
        ProviderErrorKind::UsageLimit { .. } | ProviderErrorKind::RateLimit
            if end.resets_at.is_some() =>
        {
            Some(ProviderErrorKind::UsageLimit { resets_at: end.resets_at })
        }
        found => Some(with_reset(found, &end.text, now)),
    }
}

/// With the time that the text names, if it is a limit that has one.
fn with_reset<Z: TimeZone>(
    found: ProviderErrorKind,
    text: &str,
    now: &DateTime<Z>,
) -> ProviderErrorKind {
    match found {
        ProviderErrorKind::UsageLimit { .. } => {
            ProviderErrorKind::UsageLimit { resets_at: reset(text, now) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_obstacle_has_its_advice() {
        use ProviderErrorKind as O;
        let now = Utc.with_ymd_and_hms(2026, 11, 20, 12, 0, 0).unwrap();
        let wait = |minutes| Advice::Wait { until: now + TimeDelta::minutes(minutes) };
        let limit = |minutes| O::UsageLimit { resets_at: Some(now + TimeDelta::minutes(minutes)) };
        let (denied, agent) = (Advice::Stop(Exit::Denied), Advice::Stop(Exit::Agent));
        // After no, three and fifty others in a row.
        for (obstacle, want) in [
            (limit(90), [wait(91), wait(91), wait(91)]),
            (limit(-5), [wait(1), wait(8), wait(15)]),
            (O::UsageLimit { resets_at: None }, [wait(15), wait(15), wait(15)]),
            (O::RateLimit, [wait(1), wait(8), wait(15)]),
            (O::Network, [wait(1), wait(8), wait(15)]),
            (O::Overloaded, [wait(1), wait(8), Advice::Count]),
            (O::ServerError, [wait(1), wait(8), Advice::Count]),
            (O::Authentication, [denied; 3]),
            (O::Credit, [denied; 3]),
            (O::Model, [agent; 3]),
            (O::Setup, [agent; 3]),
            (O::Refused, [Advice::Count; 3]),
            (O::TooLong, [Advice::Count; 3]),
            (O::TurnLimit, [Advice::Count; 3]),
            (O::Budget, [Advice::Count; 3]),
        ] {
            let got = [0, 3, 50].map(|earlier| obstacle.advice(earlier, now));
            assert_eq!(got, want, "{obstacle}");
        }
        assert_eq!(Exit::Denied.code(), 77);
    }

    #[test]
    fn it_can_be_written_down() {
        let line = r#"{"kind":"usage_limit","resets_at":"2026-11-20T12:00:00Z"}"#;
        let obstacle: ProviderErrorKind = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&obstacle).unwrap(), line);
        assert_eq!(
            serde_json::to_string(&ProviderErrorKind::RateLimit).unwrap(),
            r#"{"kind":"rate_limit"}"#
        );
    }
}
