//! A command that is no agent, behind a guardian of its own: a hook, or one who tells somebody.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use super::{AgentProcess, GuardPost, NotStarted, ProcessNews, ProcessSpec, tree};
use crate::core::verdict::Outcome;

/// Between two looks at what else there is to do.
const TURN: Duration = Duration::from_millis(50);

/// Runs a command to its end, or asks it to end when `limit` is over and kills it after `grace`.
/// Whatever it started is gone then. `post.record` must be open in no other process.
///
/// Meanwhile `turn` is called again and again, and says whether the command may go on; the time that
/// it takes does not count.
///
/// # Errors
/// Those of `turn`, after which the command is ended by its guardian.
pub fn run_guarded<E>(
    spec: &ProcessSpec,
    post: &GuardPost<'_>,
    (limit, grace): (Duration, Duration),
    mut turn: impl FnMut(&AgentProcess) -> Result<bool, E>,
) -> Result<Outcome, E> {
    let (tell, told) = mpsc::channel();
    let agent = match AgentProcess::spawn(spec, post, move |news| drop(tell.send(news))) {
        Ok(agent) => agent,
        Err(NotStarted::Refused(error)) => return Ok(Outcome::NotStarted { error }),
        Err(NotStarted::Unguarded) => {
            tree::kill_marked(None, &post.record);
            return Ok(Outcome::Interrupted);
        }
    };
    let mut left = limit;
    let mut ending: Option<(Outcome, Instant)> = None;
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
            Ok(ProcessNews::Idle) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::Interrupted),
        }
        left = left.saturating_sub(began.elapsed());
        let goes_on = turn(&agent)?;
        let why = match &mut ending {
            Some((_, kill_at)) => {
                if Instant::now() >= *kill_at {
                    agent.kill();
                    *kill_at += Duration::from_secs(1);
                }
                continue;
            }
            None if !goes_on => Outcome::Cancelled,
            None if left.is_zero() => Outcome::TimedOut { limit_seconds: limit.as_secs() },
            None => continue,
        };
        agent.terminate();
        ending = Some((why, Instant::now() + grace));
    }
}
