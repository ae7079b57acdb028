//! Provider errors: problems that stop an agent but not because of its task, such as a usage limit,
//! a network failure or a rejected key; and the advice for each.
//!
//! The signs are checked in a fixed order, each weaker than the one before: what `ralph` did to the
//! agent, the agent's own result, its exit status, and last the text of one line, only if the agent
//! failed and the line starts like an error. What an agent read or wrote about limits does not
//! count. The time is an argument.

mod signs;

use std::fmt;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    agents::{
        agent_command::AgentCommand,
        agent_preset::AgentPreset,
        reset::{LimitWindow, reset},
        transcript::{AgentTranscript, AgentWait, FinalResult, Format},
    },
    exit::Exit,
    outcome::Outcome,
};

/// The kind of a provider error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProviderErrorKind {
    /// The account reached its usage limit for a period.
    UsageLimit {
        /// The time of the reset, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<DateTime<Utc>>,
        /// The period, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<LimitWindow>,
    },
    /// Too many requests in a short time.
    RateLimit {
        /// The time from which the provider takes requests again, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<DateTime<Utc>>,
    },
    /// The provider is overloaded.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// The provider never answered: the attempt reached a limit of time before the model said or did
    /// anything, or all requests timed out.
    NoAnswer,
    /// The provider stopped in the middle of an answer.
    Stalled,
    /// The provider cannot be reached.
    Network,
    /// The key is missing or rejected.
    Authentication,
    /// The account has no credit, or may not spend it.
    Credit,
    /// The provider does not serve the country or region from which it is asked.
    Region,
    /// The account has no such model.
    Model,
    /// The agent rejected its command line or settings at start.
    Setup,
    /// The agent's program is missing or cannot be executed.
    Missing,
    /// The agent's program is missing, and was there before: it may be updating itself.
    Vanished,
    /// The agent reported an error that is not known, before its model said or did anything: whatever
    /// it is, it is not the task's.
    Unexplained,
    /// The agent asked a person something, and waited for the answer before it did anything.
    Asked,
    /// The model refused the request.
    Refused,
    /// The conversation or the answer is too long for the model.
    TooLong,
    /// The agent reached its own turn limit.
    TurnLimit,
    /// The agent reached its own cost limit.
    Budget,
}

/// The reaction to a provider error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Start no attempt with this agent before this time. The attempt does not count.
    Wait {
        /// The end of the wait.
        until: DateTime<Utc>,
    },
    /// Stop the run with this exit code, because every task would fail the same way. The attempt
    /// does not count.
    Stop(Exit),
    /// Treat the attempt as failed. It counts.
    Count,
}

/// The margin after a reset: resets are sometimes late by a minute, and a request that is too early
/// costs an attempt.
const SLACK: TimeDelta = TimeDelta::seconds(60);
/// The margin after the short waits that a provider names, and the first pause for a program that is
/// gone. Each further one is twice as long.
const RETRY_SLACK: TimeDelta = TimeDelta::seconds(5);
/// The number of these pauses for a program that is gone: about five minutes.
const BRIEFLY: u32 = 6;
/// Longer waits than this are those of a usage limit.
const SHORT_WAIT: TimeDelta = TimeDelta::hours(1);
/// The number of provider failures in a row to wait out. More may be caused by the task.
pub(crate) const PATIENCE: u32 = 8;

/// The reaction to a kind of error, whatever happened before.
#[derive(Clone, Copy)]
enum Reaction {
    /// Wait until a limit resets, if that time is known.
    Reset(Option<DateTime<Utc>>),
    /// Wait until the provider takes requests again.
    Retry(DateTime<Utc>),
    /// Wait as long as it lasts.
    Wait,
    /// Wait, unless it may be the task that causes it.
    Patience,
    /// Wait for seconds, then for minutes, and stop at the end of these.
    Briefly(Exit),
    Stop(Exit),
    Count,
}

impl ProviderErrorKind {
    /// The reaction, and the description in messages.
    fn facts(self) -> (Reaction, &'static str) {
        match self {
            ProviderErrorKind::UsageLimit { resets_at, .. } => {
                (Reaction::Reset(resets_at), "the account reached its usage limit")
            }
            ProviderErrorKind::RateLimit { retry_at: Some(at) } => {
                (Reaction::Retry(at), "the provider limits the request rate")
            }
            ProviderErrorKind::RateLimit { retry_at: None } => {
                (Reaction::Wait, "the provider limits the request rate")
            }
            ProviderErrorKind::NoAnswer => (Reaction::Wait, "the provider did not answer"),
            ProviderErrorKind::Stalled => {
                (Reaction::Patience, "the provider stopped in the middle of an answer")
            }
            ProviderErrorKind::Network => (Reaction::Wait, "the provider cannot be reached"),
            ProviderErrorKind::Overloaded => (Reaction::Patience, "the provider is overloaded"),
            ProviderErrorKind::ServerError => {
                (Reaction::Patience, "the provider returned a server error")
            }
            ProviderErrorKind::Authentication => {
                (Reaction::Stop(Exit::Denied), "authentication failed: no login, or a rejected key")
            }
            ProviderErrorKind::Credit => {
                (Reaction::Stop(Exit::Denied), "the account has no credit")
            }
            ProviderErrorKind::Region => {
                (Reaction::Stop(Exit::Denied), "the provider does not serve this country or region")
            }
            ProviderErrorKind::Model => {
                (Reaction::Stop(Exit::Agent), "the model is not available to this account")
            }
            ProviderErrorKind::Setup => {
                (Reaction::Stop(Exit::Agent), "the agent rejected its command line")
            }
            ProviderErrorKind::Missing => {
                (Reaction::Stop(Exit::Agent), "the agent cannot be started")
            }
            ProviderErrorKind::Vanished => (
                Reaction::Briefly(Exit::Agent),
                "the agent's program is missing; it may be updating itself",
            ),
            ProviderErrorKind::Unexplained => {
                (Reaction::Briefly(Exit::Agent), "the agent failed before its model said anything")
            }
            ProviderErrorKind::Asked => {
                (Reaction::Stop(Exit::Agent), "the agent asked a person something and waited")
            }
            ProviderErrorKind::Refused => (Reaction::Count, "the model refused the request"),
            ProviderErrorKind::TooLong => {
                (Reaction::Count, "the conversation is too long for the model")
            }
            ProviderErrorKind::TurnLimit => (Reaction::Count, "the agent reached its turn limit"),
            ProviderErrorKind::Budget => (Reaction::Count, "the agent reached its cost limit"),
        }
    }

    /// The advice, after `earlier` attempts in a row met provider errors.
    ///
    /// Agents retry by themselves for minutes before they give up, so pauses are minutes: 1, 2, 4,
    /// 8, then 15. Only the caller limits the total wait.
    pub fn advice(self, earlier: u32, now: DateTime<Utc>) -> Advice {
        let pause = TimeDelta::minutes(15.min(1 << earlier.min(4)));
        match self.facts().0 {
            Reaction::Reset(Some(at)) => {
                Advice::Wait { until: at.max(now + pause - SLACK) + SLACK }
            }
            Reaction::Reset(None) => {
                Advice::Wait { until: now + pause.max(TimeDelta::minutes(15)) }
            }
            // The same limit again, so the time was too short.
            Reaction::Retry(at) => {
                let margin = RETRY_SLACK * (1 << earlier.min(6));
                Advice::Wait { until: at.max(now) + margin }
            }
            Reaction::Wait => Advice::Wait { until: now + pause },
            Reaction::Patience if earlier < PATIENCE => Advice::Wait { until: now + pause },
            Reaction::Patience | Reaction::Count => Advice::Count,
            Reaction::Briefly(_) if earlier < BRIEFLY => {
                Advice::Wait { until: now + RETRY_SLACK * (1 << earlier) }
            }
            Reaction::Briefly(code) | Reaction::Stop(code) => Advice::Stop(code),
        }
    }

    /// Whether the task may be the cause: others may get answers meanwhile.
    pub fn may_be_of_task(self) -> bool {
        matches!(self.facts().0, Reaction::Patience)
    }

    /// What a person can do so that this agent can work, as an imperative; none if waiting is enough
    /// or the task is the reason.
    pub fn remedy(self, call: &AgentCommand) -> Option<String> {
        let preset = call.known();
        let is = |kind: ProviderErrorKind| self == kind;
        if is(ProviderErrorKind::Authentication) {
            let own = || format!("log in to `{}`, or set the key that it needs", call.name);
            let login = preset.and_then(|preset| preset.login);
            Some(login.map_or_else(own, |login| login.how.to_owned()))
        } else if is(ProviderErrorKind::Setup) {
            Some(format!("correct its command line, `{}`", call.argv.join(" ")))
        } else if is(ProviderErrorKind::Asked) || is(ProviderErrorKind::Unexplained) {
            Some(format!(
                "start `{}` once by hand in this repository and see what it says",
                call.name
            ))
        } else if is(ProviderErrorKind::Missing) || is(ProviderErrorKind::Vanished) {
            let own = || "correct its command, or name another agent with `--agent`".to_owned();
            Some(preset.map_or_else(own, AgentPreset::installation))
        } else if is(ProviderErrorKind::Credit) {
            Some("add credit to the account, or name another agent with `--agent`".to_owned())
        } else if is(ProviderErrorKind::Region) {
            Some("name another agent with `--agent`".to_owned())
        } else if is(ProviderErrorKind::Model) {
            Some(
                "name a model of this account in the command of the agent or in its own settings"
                    .to_owned(),
            )
        } else {
            None
        }
    }
}

impl AgentPreset {
    /// How to install it, as an imperative.
    pub fn installation(&self) -> String {
        format!("install it with `{}`", self.install)
    }
}

impl fmt::Display for ProviderErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ProviderErrorKind::UsageLimit { window: Some(window), .. } = self {
            return write!(f, "the account reached its {}", LimitWindow::limit(Some(*window)));
        }
        f.pad(self.facts().1)
    }
}

/// A provider error of an attempt, with the time until which the agent must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderError {
    /// The kind of error.
    #[serde(flatten)]
    pub obstacle: ProviderErrorKind,
    /// The time from which the agent may be called again; none if waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
}

impl ProviderError {
    /// Creates the error, after `earlier` attempts of the agent in a row met provider errors.
    pub fn new(obstacle: ProviderErrorKind, earlier: u32, now: DateTime<Utc>) -> ProviderError {
        let until = match obstacle.advice(earlier, now) {
            Advice::Wait { until } => Some(until),
            Advice::Stop(_) | Advice::Count => None,
        };
        ProviderError { obstacle, until }
    }

    /// Returns the error that blocks the agent for longer. A failed request of one attempt does not
    /// lift a limit that another attempt met at the same time.
    #[must_use]
    pub fn or_longer(self, other: ProviderError) -> ProviderError {
        let weight = |error: &ProviderError| match error.advice() {
            Advice::Count => (0, None),
            Advice::Wait { until } => (1, Some(until)),
            Advice::Stop(_) => (2, None),
        };
        if weight(&other) > weight(&self) { other } else { self }
    }

    /// The advice, as decided when the error occurred.
    pub fn advice(&self) -> Advice {
        match (self.until, self.obstacle.facts().0) {
            (Some(until), _) => Advice::Wait { until },
            (None, Reaction::Stop(code) | Reaction::Briefly(code)) => Advice::Stop(code),
            (None, _) => Advice::Count,
        }
    }
}

/// The visible end of an attempt's process.
#[derive(Clone, Copy, Debug)]
pub struct AttemptOutput<'a> {
    /// The format of the output.
    pub format: Format,
    /// Whether the agent prints what the model says and does as it happens, and not only at the end.
    pub streams: bool,
    /// The transcript of its output.
    pub transcript: &'a AgentTranscript,
    /// How the process ended.
    pub outcome: &'a Outcome,
    /// The last few kilobytes of its standard error.
    pub stderr: &'a str,
}

/// Classifies the provider error, if there is a known one. `now` also gives the zone for times
/// without one: that of the machine.
pub fn classify<Z: TimeZone>(
    output: &AttemptOutput<'_>,
    now: &DateTime<Z>,
) -> Option<ProviderErrorKind> {
    let exit_code = match output.outcome {
        Outcome::Exited { exit_code } => Some(*exit_code),
        Outcome::Lingered { .. } => Some(0),
        Outcome::Signaled { .. } => None,
        Outcome::TimedOut { .. } | Outcome::Idle { .. } => return without_end(output),
        Outcome::Cancelled
        | Outcome::OverCost
        | Outcome::Interrupted
        | Outcome::Lost { .. }
        | Outcome::Exceeded { .. }
        | Outcome::NotStarted { .. } => return None,
    };
    if let Some(end) = &output.transcript.end {
        let known = end.is_error.then(|| of_end(output.format, end, exit_code, now)).flatten();
        let is_early = end.is_error && output.streams && !output.transcript.has_used_model();
        return known.or(is_early.then_some(ProviderErrorKind::Unexplained));
    }
    if exit_code == Some(0) {
        return None;
    }
    if !output.transcript.has_spoken {
        if output.stderr.lines().any(signs::is_setup) {
            return Some(ProviderErrorKind::Setup);
        }
        // How to log in may follow in many lines.
        let mut found = output.stderr.lines().filter_map(signs::of_text);
        if let Some(error) = found.find(|it| *it == ProviderErrorKind::Authentication) {
            return Some(error);
        }
    }
    last_lines(&output.transcript.lines)
        .chain(last_lines(output.stderr))
        .filter(|line| signs::is_error(line))
        .find_map(|line| Some(with_period(signs::of_text(line)?, line, now)))
}

/// The lines of a text that may be its error, the last first: the last line, and the one before the
/// notices that programs print after their errors, such as that of an update.
fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    const LINES: usize = 12;
    let lines = text.split(['\n', '\r']).map(str::trim).rev().filter(|line| !line.is_empty());
    let mut is_over = false;
    lines
        .take(LINES)
        .take_while(move |line| !std::mem::replace(&mut is_over, !signs::is_notice(line)))
}

/// The error of an agent that `ralph` ended at a limit.
fn without_end(output: &AttemptOutput<'_>) -> Option<ProviderErrorKind> {
    let transcript = output.transcript;
    if !output.streams {
        return None;
    }
    if let (Some(AgentWait::Until(at)), end) = (transcript.wait, &transcript.end) {
        let window = end.as_ref().and_then(|end| end.window);
        return Some(ProviderErrorKind::UsageLimit { resets_at: Some(at), window });
    }
    if !transcript.has_answered() || transcript.wait.is_some() {
        let has_asked = transcript.last_line().is_some_and(signs::is_question);
        return Some(if has_asked {
            ProviderErrorKind::Asked
        } else {
            ProviderErrorKind::NoAnswer
        });
    }
    // What it prints when it is interrupted says nothing else.
    let interrupted = ["error_during_execution", "aborted_streaming"];
    let was_cut = transcript
        .end
        .as_ref()
        .is_none_or(|end| end.codes.iter().any(|code| interrupted.contains(&code.as_str())));
    let is_idle = matches!(output.outcome, Outcome::Idle { .. });
    (is_idle && was_cut && transcript.awaits_provider).then_some(ProviderErrorKind::Stalled)
}

/// Classifies by the agent's own report of failure.
fn of_end<Z: TimeZone>(
    format: Format,
    end: &FinalResult,
    exit_code: Option<i32>,
    now: &DateTime<Z>,
) -> Option<ProviderErrorKind> {
    let codes = || end.codes.iter().map(String::as_str);
    // Claude Code's result may be text of the model even after a failure. The result of other
    // agents is always an error message.
    let is_error = format != Format::ClaudeJson || signs::is_error(&end.text);
    let by_text = is_error.then(|| signs::of_text(&end.text)).flatten();
    // An account limit has the same status as too many requests, and only some versions give it a
    // code. A prompt that is too long and a lack of credit have the status of any bad request.
    let text_is_sure = matches!(
        by_text,
        Some(
            ProviderErrorKind::UsageLimit { .. }
                | ProviderErrorKind::Credit
                | ProviderErrorKind::Region
                | ProviderErrorKind::TooLong
                | ProviderErrorKind::NoAnswer
        )
    );
    // Gemini exits with the HTTP status, of which the process keeps the low eight bits.
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
        .or_else(by_exit)
        // Its model has no other way to end with an error.
        .or_else(|| (format == Format::PiJson).then_some(ProviderErrorKind::ServerError))?;
    let is_limit =
        matches!(found, ProviderErrorKind::UsageLimit { .. } | ProviderErrorKind::RateLimit { .. });
    if is_limit && end.resets_at.is_some() {
        let window = end.window.or_else(|| LimitWindow::of_text(&end.text));
        return Some(ProviderErrorKind::UsageLimit { resets_at: end.resets_at, window });
    }
    Some(with_period(found, &end.text, now))
}

/// Adds the reset time and the window that the text names, if the error is a usage limit.
fn with_period<Z: TimeZone>(
    found: ProviderErrorKind,
    text: &str,
    now: &DateTime<Z>,
) -> ProviderErrorKind {
    match (found, reset(text, now)) {
        (ProviderErrorKind::UsageLimit { .. }, resets_at) => {
            ProviderErrorKind::UsageLimit { resets_at, window: LimitWindow::of_text(text) }
        }
        (ProviderErrorKind::RateLimit { .. }, at @ Some(until))
            if until > now.with_timezone(&Utc) + SHORT_WAIT =>
        {
            ProviderErrorKind::UsageLimit { resets_at: at, window: None }
        }
        (ProviderErrorKind::RateLimit { .. }, retry_at) => {
            ProviderErrorKind::RateLimit { retry_at }
        }
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::transcript::Tokens;

    #[test]
    fn every_kind_of_error_has_its_advice() {
        use ProviderErrorKind as O;
        let now = Utc.with_ymd_and_hms(2026, 11, 20, 12, 0, 0).unwrap();
        let wait = |minutes| Advice::Wait { until: now + TimeDelta::minutes(minutes) };
        let limit = |minutes| O::UsageLimit {
            resets_at: Some(now + TimeDelta::minutes(minutes)),
            window: None,
        };
        let seconds = |count| Advice::Wait { until: now + TimeDelta::seconds(count) };
        let retry = |count| Some(now + TimeDelta::seconds(count));
        let (denied, agent) = (Advice::Stop(Exit::Denied), Advice::Stop(Exit::Agent));
        // After 0, 3 and 50 errors in a row.
        for (obstacle, want) in [
            (limit(90), [wait(91), wait(91), wait(91)]),
            (limit(-5), [wait(1), wait(8), wait(15)]),
            (O::UsageLimit { resets_at: None, window: None }, [wait(15), wait(15), wait(15)]),
            (O::RateLimit { retry_at: None }, [wait(1), wait(8), wait(15)]),
            (O::Network, [wait(1), wait(8), wait(15)]),
            (O::NoAnswer, [wait(1), wait(8), wait(15)]),
            (O::Stalled, [wait(1), wait(8), Advice::Count]),
            (O::Overloaded, [wait(1), wait(8), Advice::Count]),
            (O::ServerError, [wait(1), wait(8), Advice::Count]),
            (O::Authentication, [denied; 3]),
            (O::Credit, [denied; 3]),
            (O::Region, [denied; 3]),
            (O::Model, [agent; 3]),
            (O::Setup, [agent; 3]),
            (O::Missing, [agent; 3]),
            (O::Asked, [agent; 3]),
            (O::Vanished, [seconds(5), seconds(40), agent]),
            (O::Unexplained, [seconds(5), seconds(40), agent]),
            (O::RateLimit { retry_at: retry(15) }, [seconds(20), seconds(55), seconds(335)]),
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

    /// Whatever its words are: no prompt of a task has been read.
    #[test]
    fn an_error_before_the_model_said_anything_is_not_the_tasks() {
        let end =
            FinalResult { text: "flux gate".to_owned(), is_error: true, ..FinalResult::default() };
        let mut transcript = AgentTranscript::default();
        transcript.end = Some(end);
        let kind = |transcript: &AgentTranscript| {
            let outcome = &Outcome::Exited { exit_code: 1 };
            let (format, streams, stderr) = (Format::CodexJson, true, "");
            let output = AttemptOutput { format, streams, transcript, outcome, stderr };
            classify(&output, &Utc::now())
        };
        assert_eq!(kind(&transcript), Some(ProviderErrorKind::Unexplained));
        let region = "unexpected status 403 Forbidden: Country, region, or territory not supported";
        transcript.end.as_mut().unwrap().text = region.to_owned();
        transcript.end.as_mut().unwrap().status = Some(403);
        assert_eq!(kind(&transcript), Some(ProviderErrorKind::Region));
        transcript.end.as_mut().unwrap().text = "flux gate".to_owned();
        transcript.end.as_mut().unwrap().status = None;
        transcript.usage.tokens = Some(Tokens { input: 9, ..Tokens::default() });
        assert_eq!(kind(&transcript), None);
    }

    #[test]
    fn a_kind_is_written_as_json() {
        let line = r#"{"kind":"usage_limit","resets_at":"2026-11-20T12:00:00Z","window":"weekly"}"#;
        let obstacle: ProviderErrorKind = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&obstacle).unwrap(), line);
        assert_eq!(
            serde_json::to_string(&ProviderErrorKind::RateLimit { retry_at: None }).unwrap(),
            r#"{"kind":"rate_limit"}"#
        );
    }

    #[test]
    fn every_error_that_stops_a_run_has_a_remedy() {
        let claude = AgentCommand::preset("claude").unwrap();
        let own = AgentCommand::command(vec!["./mine.sh".to_owned(), "-x".to_owned()]);
        for (error, call, part) in [
            (ProviderErrorKind::Authentication, &claude, "`claude` and `/login`"),
            (ProviderErrorKind::Authentication, &own, "log in to `mine.sh`"),
            (ProviderErrorKind::Missing, &claude, "`npm install -g @anthropic-ai/claude-code`"),
            (ProviderErrorKind::Missing, &own, "correct its command"),
            (ProviderErrorKind::Setup, &own, "`./mine.sh -x`"),
            (ProviderErrorKind::Asked, &claude, "start `claude` once by hand"),
            (ProviderErrorKind::Unexplained, &claude, "start `claude` once by hand"),
            (ProviderErrorKind::Vanished, &claude, "`npm install -g @anthropic-ai/claude-code`"),
            (ProviderErrorKind::Credit, &claude, "add credit"),
            (ProviderErrorKind::Model, &claude, "name a model"),
        ] {
            let remedy = error.remedy(call).unwrap();
            assert!(remedy.contains(part), "{remedy}");
        }
        assert_eq!(ProviderErrorKind::Refused.remedy(&claude), None);
    }
}
