//! A command that is no attempt, behind a guardian of its own: a hook, a notification, or the agent
//! of a draft.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use super::{AgentProcess, GuardPost, NotStarted, ProcessNews, ProcessSpec, tree};
use crate::core::{executor::ExecutorFault, run::process_watch::UNANSWERED, verdict::Outcome};

/// The interval between two calls of `turn`.
const TURN: Duration = Duration::from_millis(50);

/// Runs a command to its end; sends TERM after `limit` or when it is idle, and KILL after `grace`. Everything that it
/// started has ended on return. `post.record` must be open in no other process.
///
/// `turn` is called repeatedly meanwhile and returns whether the command may continue; the time it
/// takes does not count.
///
/// # Errors
/// The errors of `turn`, after which the guardian ends the command.
pub fn run_guarded<E>(
    spec: &ProcessSpec,
    post: &GuardPost,
    (limit, grace): (Duration, Duration),
    mut turn: impl FnMut(&AgentProcess) -> Result<bool, E>,
) -> Result<Outcome, E> {
    let (tell, told) = mpsc::channel();
    let agent = match AgentProcess::spawn(spec, post, move |news| drop(tell.send(news))) {
        Ok(agent) => agent,
        Err(
            NotStarted::Missing(error)
            | NotStarted::Executor(ExecutorFault { why: error, .. })
            | NotStarted::Refused(error),
        ) => {
            return Ok(Outcome::NotStarted { error });
        }
        Err(NotStarted::Unguarded) => {
            tree::kill_marked(None, &post.record);
            return Ok(Outcome::Interrupted);
        }
    };
    let mut left = limit;
    let mut ending: Option<(Outcome, Instant)> = None;
    let mut killed_at: Option<Instant> = None;
    let mut is_idle = false;
    loop {
        let began = Instant::now();
        match told.recv_timeout(TURN) {
            Ok(ProcessNews::Closed(closed)) => {
                if closed.outcome.is_none() {
                    tree::kill_marked(None, &post.record);
                }
                let ours = ending.map(|(ours, _)| ours);
                return Ok(ours.or(closed.outcome).unwrap_or(Outcome::Interrupted));
            }
            Ok(ProcessNews::Left(_)) => agent.kill(),
            Ok(ProcessNews::Idle) => is_idle = true,
            Ok(ProcessNews::Arrived(_) | ProcessNews::Fetching | ProcessNews::Contact(_))
            | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::Interrupted),
        }
        left = left.saturating_sub(began.elapsed());
        let goes_on = turn(&agent)?;
        let why = match &mut ending {
            Some((_, kill_at)) => {
                if Instant::now() >= *kill_at {
                    agent.kill();
                    if killed_at.get_or_insert(began).elapsed() >= UNANSWERED {
                        agent.kill_guardian();
                    }
                    *kill_at += Duration::from_secs(1);
                }
                continue;
            }
            None if !goes_on => Outcome::Cancelled,
            None if is_idle => {
                Outcome::Idle { limit_seconds: post.idle.unwrap_or_default().as_secs() }
            }
            None if left.is_zero() => Outcome::TimedOut { limit_seconds: limit.as_secs() },
            None => continue,
        };
        agent.terminate();
        ending = Some((why, Instant::now() + grace));
    }
}
