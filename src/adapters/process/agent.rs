//! An agent behind its guardian, as the runner and a worker see it.

use std::{
    io::{BufRead, BufReader, PipeReader, PipeWriter},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    Closed, GuardPost, Identity, NotStarted, ProcessNews, ProcessSpec, StartFault,
    guardian_pool::{Guardian, GuardianPool},
    protocol::{GuardianCommand, GuardianNotice, GuardianSpec, OutputRoute},
    send, tree,
};
use crate::{core::executor::ExecutorFault, crash};

/// A running agent behind its guardian.
#[derive(Debug)]
pub struct AgentProcess {
    guardian: Identity,
    identity: Identity,
    line: SharedLine,
    guardians: GuardianPool,
}

/// The line to the guardian of an agent, of this process and of the thread that hears it.
type SharedLine = Arc<Mutex<GuardianLine>>;

/// What can be done with the guardian of an agent.
#[derive(Debug)]
enum GuardianLine {
    /// It takes orders for the agent.
    Open(PipeWriter),
    /// The agent is gone, and the guardian can take another one once this one is no longer asked about.
    Ready(Box<Guardian>),
    /// The guardian has ended, or does so because its line is closed.
    Closed,
}

impl AgentProcess {
    /// Starts the guardian, which starts the agent, and a thread that calls `tell` for each notice.
    ///
    /// # Errors
    /// When the agent or its guardian cannot be started. `tell` is not called then. Nothing runs,
    /// except what a guardian started that was killed before it could report it.
    pub fn spawn(
        spec: &ProcessSpec,
        post: &GuardPost,
        tell: impl Fn(ProcessNews) + Send + 'static,
    ) -> Result<AgentProcess, NotStarted> {
        let brief = GuardianSpec {
            spec: spec.clone(),
            record: post.record.clone(),
            exit: post.exit.clone(),
            idle: post.idle,
            redact: post.redact,
            screen: post.screen.clone(),
            carrier: post.carrier.clone(),
            sign: None,
            output: OutputRoute::Files,
        };
        AgentProcess::under_guard(&brief, &post.guardians, move |notice| {
            let news = match notice {
                Some(GuardianNotice::Idle {}) => ProcessNews::Idle,
                Some(GuardianNotice::Left { members }) => ProcessNews::Left(members),
                Some(GuardianNotice::Arrived { host }) => ProcessNews::Arrived(host),
                Some(GuardianNotice::Fetching {}) => ProcessNews::Fetching,
                Some(GuardianNotice::Contact { silent_ms }) => {
                    ProcessNews::Contact(silent_ms.map(Duration::from_millis))
                }
                Some(GuardianNotice::Closed { outcome, swept, immortal, fault }) => {
                    let outcome = Some(outcome);
                    ProcessNews::Closed(Closed { outcome, swept, immortal, fault })
                }
                None => ProcessNews::Closed(Closed::default()),
                Some(
                    GuardianNotice::Started { .. }
                    | GuardianNotice::NotStarted { .. }
                    | GuardianNotice::Output { .. }
                    | GuardianNotice::Ready {},
                ) => return,
            };
            tell(news);
        })
    }

    /// Gives the agent to a guardian, and starts a thread that calls `tell` for each notice after the
    /// start; the last one is that the agent is gone, or none if the guardian died.
    ///
    /// # Errors
    /// As for [`AgentProcess::spawn`].
    pub(super) fn under_guard(
        brief: &GuardianSpec,
        guardians: &GuardianPool,
        tell: impl Fn(Option<GuardianNotice>) + Send + 'static,
    ) -> Result<AgentProcess, NotStarted> {
        let Guardian { process, mut orders, mut notices } = guardians.take()?;
        let guardian = process.identity.clone();
        crash::point("agent.guarded");
        // A guardian that ends before it has read its orders is handled like one that ends
        // afterwards.
        let _ = send(&mut orders, brief);
        await_answer(notices.get_ref(), &guardian);
        let notice = loop {
            match next(&mut notices) {
                // A quick agent prints before its guardian has told the start.
                output @ Some(GuardianNotice::Output { .. }) => tell(output),
                notice => break notice,
            }
        };
        let Some(GuardianNotice::Started { identity }) = notice else {
            return Err(not_started(notice, process.wait()));
        };
        let line: SharedLine = Arc::new(Mutex::new(GuardianLine::Open(orders)));
        let shared = Arc::clone(&line);
        thread::Builder::new().name("agent".to_owned()).spawn(move || {
            let last = loop {
                match next(&mut notices) {
                    notice @ (Some(GuardianNotice::Closed { .. }) | None) => break notice,
                    notice => tell(notice),
                }
            };
            let is_ready =
                last.is_some() && matches!(next(&mut notices), Some(GuardianNotice::Ready {}));
            // From here on, no order for this agent reaches the guardian.
            let mut line = lock(&shared);
            match line.close() {
                GuardianLine::Open(orders) if is_ready => {
                    let ready = Guardian { process, orders, notices };
                    *line = GuardianLine::Ready(Box::new(ready));
                    drop(line);
                }
                closed => {
                    drop((line, closed));
                    process.wait();
                }
            }
            tell(last);
        })?;
        Ok(AgentProcess { guardian, identity, line, guardians: guardians.clone() })
    }

    /// The agent's process.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The guardian's process.
    pub fn guardian(&self) -> &Identity {
        &self.guardian
    }

    /// Notes that a person stopped the run, for an exit that only the next run sees.
    pub fn cancel(&self) {
        self.order(GuardianCommand::Cancel);
    }

    /// Sends INT to the agent and its group.
    pub fn interrupt(&self) {
        self.order(GuardianCommand::Interrupt);
    }

    /// Continues the guardian if something has stopped it.
    pub fn wake(&self) {
        if lock(&self.line).is_open() {
            tree::wake(&self.guardian);
        }
    }

    /// Kills a guardian that does not answer. What it guarded must be ended by other means.
    pub fn kill_guardian(&self) {
        if lock(&self.line).is_open() {
            tree::kill(&self.guardian);
        }
    }

    /// Sends TERM to the agent and its group.
    pub fn terminate(&self) {
        self.order(GuardianCommand::Terminate);
    }

    /// Ends the agent and everything it started.
    pub fn kill(&self) {
        self.order(GuardianCommand::Kill);
    }

    /// Stops the agent and everything it started, until [`thaw`](AgentProcess::thaw).
    pub fn freeze(&self) {
        self.order(GuardianCommand::Freeze);
    }

    /// Continues the agent after [`freeze`](AgentProcess::freeze).
    pub fn thaw(&self) {
        self.order(GuardianCommand::Thaw);
    }

    /// Resets the idle timer: files have changed.
    pub fn awake(&self) {
        self.order(GuardianCommand::Awake);
    }

    /// Leaves the remaining processes running, unguarded.
    pub fn spare(&self) {
        self.order(GuardianCommand::Spare);
    }

    /// Gives the guardian an order.
    pub(super) fn order(&self, order: GuardianCommand) {
        self.wake();
        // A guardian that is gone has ended everything already.
        if let GuardianLine::Open(orders) = &mut *lock(&self.line) {
            let _ = send(orders, &order);
        }
    }
}

impl Drop for AgentProcess {
    /// Frees the guardian for another agent. One whose agent runs ends it, because it is no longer
    /// wanted.
    fn drop(&mut self) {
        let line = lock(&self.line).close();
        if let GuardianLine::Ready(guardian) = line {
            self.guardians.put(*guardian);
        }
    }
}

impl GuardianLine {
    fn is_open(&self) -> bool {
        matches!(self, GuardianLine::Open(_))
    }

    /// Closes the line. Returns what it was.
    fn close(&mut self) -> GuardianLine {
        mem::replace(self, GuardianLine::Closed)
    }
}

fn lock(line: &SharedLine) -> MutexGuard<'_, GuardianLine> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a guardian that told this first, and that may have been killed, has not started its agent.
fn not_started(notice: Option<GuardianNotice>, is_killed: bool) -> NotStarted {
    match notice {
        Some(GuardianNotice::NotStarted { error, fault }) => match fault {
            Some(StartFault::Program) => NotStarted::Missing(error),
            Some(StartFault::Executor) => NotStarted::Executor(ExecutorFault::lasting(error)),
            Some(StartFault::Unreachable) => NotStarted::Executor(ExecutorFault::passing(error)),
            None => NotStarted::Refused(error),
        },
        _ if is_killed => NotStarted::Unguarded,
        _ => NotStarted::Refused("its guardian could not be started".to_owned()),
    }
}

/// Waits until a guardian has told something or has ended. One that does neither is killed.
fn await_answer(notices: &PipeReader, guardian: &Identity) {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    /// The time in which even a busy machine starts a process.
    const LIMIT: Duration = Duration::from_secs(60);
    let began = Instant::now();
    loop {
        match poll(&mut [PollFd::new(notices, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => tree::wake(guardian),
            Ok(_) | Err(_) => return,
        }
        if began.elapsed() >= LIMIT {
            return tree::kill(guardian);
        }
    }
}

/// The next line that is a notice; other output of a dying guardian is skipped.
fn next(notices: &mut BufReader<PipeReader>) -> Option<GuardianNotice> {
    notices.lines().map_while(Result::ok).find_map(|line| serde_json::from_str(&line).ok())
}
