//! An agent behind its guardian, as the runner and a worker see it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, PipeReader, PipeWriter},
    os::unix::process::ExitStatusExt,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    Closed, GuardPost, Identity, NotStarted, ProcessNews, ProcessSpec, StartFault,
    protocol::{GuardianCommand, GuardianNotice, GuardianSpec, OutputRoute},
    send, tree,
};
use crate::{core::executor::ExecutorFault, crash};

/// A running agent behind its guardian.
#[derive(Debug)]
pub struct AgentProcess {
    guardian: Identity,
    identity: Identity,
    orders: Mutex<PipeWriter>,
}

impl AgentProcess {
    /// Starts the guardian, which starts the agent, and a thread that calls `tell` for each notice.
    ///
    /// # Errors
    /// When the agent or its guardian cannot be started. `tell` is not called then. Nothing runs,
    /// except what a guardian started that was killed before it could report it.
    pub fn spawn(
        spec: &ProcessSpec,
        post: &GuardPost<'_>,
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
        AgentProcess::under_guard(&brief, &post.program, post.lock, move |notice| {
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
                    | GuardianNotice::Output { .. },
                ) => return,
            };
            tell(news);
        })
    }

    /// Starts a guardian, and a thread that calls `tell` for each notice after the start; the last
    /// one is that the agent is gone, or none if the guardian died.
    ///
    /// # Errors
    /// As for [`AgentProcess::spawn`].
    pub(super) fn under_guard(
        brief: &GuardianSpec,
        program: &Path,
        lock: &File,
        tell: impl Fn(Option<GuardianNotice>) + Send + 'static,
    ) -> Result<AgentProcess, NotStarted> {
        let (order_reader, mut orders) = io::pipe()?;
        let (notice_reader, notices) = io::pipe()?;
        let mut guardians = tree::guardians();
        let handle = duct::cmd(program, ["__guard"])
            .stdin_file(order_reader)
            .stdout_file(lock.try_clone()?)
            .stderr_file(notices)
            .unchecked()
            .start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        let guardian = Identity::of(pid);
        guardians.push(pid);
        drop(guardians);
        let gone = move || tree::guardians().retain(|guardian| *guardian != pid);
        crash::point("agent.guarded");
        // A guardian that ends before it has read its orders is handled like one that ends
        // afterwards.
        let _ = send(&mut orders, brief);
        await_answer(&notice_reader, &guardian);
        let mut notices = BufReader::new(notice_reader).lines();
        let notice = loop {
            match next(&mut notices) {
                // A quick agent prints before its guardian has told the start.
                output @ Some(GuardianNotice::Output { .. }) => tell(output),
                notice => break notice,
            }
        };
        let Some(GuardianNotice::Started { identity }) = notice else {
            let killed = handle.wait().is_ok_and(|output| output.status.signal().is_some());
            gone();
            return Err(match notice {
                Some(GuardianNotice::NotStarted { error, fault }) => match fault {
                    Some(StartFault::Program) => NotStarted::Missing(error),
                    Some(StartFault::Executor) => {
                        NotStarted::Executor(ExecutorFault::lasting(error))
                    }
                    Some(StartFault::Unreachable) => {
                        NotStarted::Executor(ExecutorFault::passing(error))
                    }
                    None => NotStarted::Refused(error),
                },
                _ if killed => NotStarted::Unguarded,
                _ => NotStarted::Refused("its guardian could not be started".to_owned()),
            });
        };
        thread::Builder::new().name("agent".to_owned()).spawn(move || {
            let last = loop {
                match next(&mut notices) {
                    notice @ (Some(GuardianNotice::Closed { .. }) | None) => break notice,
                    notice => tell(notice),
                }
            };
            let _ = handle.wait();
            gone();
            tell(last);
        })?;
        Ok(AgentProcess { guardian, identity, orders: Mutex::new(orders) })
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
        tree::wake(&self.guardian);
    }

    /// Kills a guardian that does not answer. What it guarded must be ended by other means.
    pub fn kill_guardian(&self) {
        tree::kill(&self.guardian);
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
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = send(&mut *orders, &order);
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
fn next(lines: &mut impl Iterator<Item = io::Result<String>>) -> Option<GuardianNotice> {
    lines.map_while(Result::ok).find_map(|line| serde_json::from_str(&line).ok())
}
