//! A command that is no attempt, behind a guardian of its own: a hook, a notification, or the agent
//! of a draft.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use super::{
    AgentProcess, GuardianCommand, GuardianProgram, GuardianSpec, NotStarted, ProcessNews, tree,
};
use crate::core::{
    event::Orphans,
    executor::ExecutorFault,
    run::process_watch::{GracePeriods, LimitReached, ProcessLimits, ProcessWatch},
    verdict::Outcome,
};

/// The interval between two calls of `turn`.
const TURN: Duration = Duration::from_millis(50);

/// Runs a command to its end; sends TERM after `limit` or when it is idle, and KILL after `grace`. Everything that it
/// started has ended on return. The record of `spec` must be open in no other process.
///
/// `turn` is called repeatedly meanwhile and returns whether the command may continue; the time it
/// takes does not count.
///
/// # Errors
/// The errors of `turn`, after which the guardian ends the command.
pub fn run_guarded<E>(
    guardians: &GuardianProgram,
    spec: &GuardianSpec,
    (limit, grace): (Duration, Duration),
    mut turn: impl FnMut(&AgentProcess) -> Result<bool, E>,
) -> Result<Outcome, E> {
    let (tell, told) = mpsc::channel();
    let agent = match AgentProcess::spawn(guardians, spec, move |news| drop(tell.send(news))) {
        Ok(agent) => agent,
        Err(
            NotStarted::Missing(error)
            | NotStarted::Executor(ExecutorFault { why: error, .. })
            | NotStarted::Refused(error),
        ) => {
            return Ok(Outcome::NotStarted { error });
        }
        Err(NotStarted::Unguarded) => {
            tree::kill_marked(None, &spec.record);
            return Ok(Outcome::Interrupted);
        }
    };
    let limits = ProcessLimits { started: Instant::now(), limit, idle: spec.idle };
    let on_orphans = Orphans::Kill;
    let graces =
        GracePeriods { kill: grace, term: grace, exit: grace, children: grace, on_orphans };
    let mut watch = ProcessWatch::new(limits, false);
    let mut is_idle = false;
    loop {
        match told.recv_timeout(TURN) {
            Ok(ProcessNews::Closed(closed)) => {
                if closed.outcome.is_none() {
                    tree::kill_marked(None, &spec.record);
                }
                let ours = watch.ending().cloned();
                return Ok(ours.or(closed.outcome).unwrap_or(Outcome::Interrupted));
            }
            Ok(ProcessNews::Left(_)) => agent.order(GuardianCommand::Kill),
            Ok(ProcessNews::Idle) => is_idle = true,
            Ok(ProcessNews::Arrived(_) | ProcessNews::Fetching | ProcessNews::Contact(_))
            | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::Interrupted),
        }
        let began = Instant::now();
        let may_continue = turn(&agent)?;
        watch.postpone(began.elapsed());
        let ours = if !may_continue {
            Some(Outcome::Cancelled)
        } else if is_idle {
            Some(Outcome::Idle { limit_seconds: spec.idle.unwrap_or_default().as_secs() })
        } else {
            None
        };
        if let Some(ours) = ours.filter(|_| !watch.is_ending()) {
            watch.end(ours, Instant::now(), &graces);
            agent.order(GuardianCommand::Terminate);
        }
        match watch.reached(Instant::now(), &graces) {
            None | Some(LimitReached::Children) => {}
            Some(LimitReached::Interrupt | LimitReached::End(..)) => {
                agent.order(GuardianCommand::Terminate);
            }
            Some(LimitReached::Grace) => agent.order(GuardianCommand::Kill),
            Some(LimitReached::Unanswered) => agent.kill_guardian(),
        }
    }
}
