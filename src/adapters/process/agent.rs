//! An agent behind its guardian, as the runner and a worker see it; or another command, such as a
//! hook, a notification, or the agent of a draft.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, PipeReader, PipeWriter},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    Closed, Identity, NotStarted, ProcessNews, StartFault, own_program,
    protocol::{GuardianCommand, GuardianNotice, GuardianSpec},
    send, tree,
};
use crate::{
    core::{
        event::Orphans,
        executor::ExecutorFault,
        run::process_watch::{GracePeriods, LimitReached, ProcessLimits, ProcessWatch},
        verdict::Outcome,
    },
    crash,
};

/// The program of guardians, and the lock that they hold.
#[derive(Clone, Debug)]
pub struct GuardianProgram {
    program: PathBuf,
    lock: Arc<File>,
}

impl GuardianProgram {
    /// This program as a guardian that holds `lock`.
    ///
    /// # Errors
    /// System errors.
    pub fn new(lock: &File) -> io::Result<GuardianProgram> {
        GuardianProgram::of(own_program(), lock)
    }

    /// A program, which must be this one, as a guardian that holds `lock`.
    ///
    /// # Errors
    /// System errors.
    pub fn of(program: PathBuf, lock: &File) -> io::Result<GuardianProgram> {
        Ok(GuardianProgram { program, lock: Arc::new(lock.try_clone()?) })
    }

    /// Starts a guardian, with the line to it in both directions.
    fn start(&self) -> io::Result<(GuardianProcess, PipeWriter, BufReader<PipeReader>)> {
        let (order_reader, orders) = io::pipe()?;
        let (notice_reader, notices) = io::pipe()?;
        let mut guardians = tree::guardians();
        let guardian = duct::cmd(&self.program, ["__guard"]).stdin_file(order_reader);
        let guardian = if crate::core::known_bug::is_on("free-the-lock-too-soon") {
            guardian.stdout_null()
        } else {
            guardian.stdout_file(self.lock.try_clone()?)
        };
        let handle = guardian.stderr_file(notices).unchecked().start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        guardians.push(pid);
        let process = GuardianProcess { identity: tree::identity_of(pid), handle };
        Ok((process, orders, BufReader::new(notice_reader)))
    }
}

/// The process of a guardian, which ends once its line is closed.
#[derive(Debug)]
struct GuardianProcess {
    identity: Identity,
    handle: duct::Handle,
}

impl GuardianProcess {
    /// Waits until it has ended. Returns whether it was killed.
    fn wait(self) -> bool {
        let ended = self.handle.wait();
        tree::guardians().retain(|guardian| *guardian != self.identity.pid);
        ended.is_ok_and(|output| output.status.signal().is_some())
    }
}

/// A running agent behind its guardian. Dropping it ends an agent that still runs.
#[derive(Debug)]
pub struct AgentProcess {
    guardian: Identity,
    identity: Identity,
    orders: OrderLine,
}

/// The line for orders to a guardian, which ends once that is closed; none once its agent is gone.
type OrderLine = Arc<Mutex<Option<PipeWriter>>>;

impl AgentProcess {
    /// Starts the guardian, which starts the agent, and a thread that calls `tell` for each notice.
    ///
    /// # Errors
    /// When the agent or its guardian cannot be started. `tell` is not called then. Nothing runs,
    /// except processes of a guardian killed before it could report them.
    pub fn spawn(
        guardians: &GuardianProgram,
        spec: &GuardianSpec,
        tell: impl Fn(ProcessNews) + Send + 'static,
    ) -> Result<AgentProcess, NotStarted> {
        AgentProcess::with_output(guardians, spec, move |notice| match notice {
            GuardianNotice::News(news) => tell(news),
            GuardianNotice::Started { .. }
            | GuardianNotice::NotStarted { .. }
            | GuardianNotice::Output { .. } => {}
        })
    }

    /// Like [`AgentProcess::spawn`], with the notices about output. The last notice is that the agent
    /// is gone.
    ///
    /// # Errors
    /// As for [`AgentProcess::spawn`].
    pub(super) fn with_output(
        guardians: &GuardianProgram,
        spec: &GuardianSpec,
        tell: impl Fn(GuardianNotice) + Send + 'static,
    ) -> Result<AgentProcess, NotStarted> {
        let (process, mut orders, mut notices) = guardians.start()?;
        let guardian = process.identity.clone();
        crash::point("agent.guarded");
        // A guardian that ends before it has read its orders is handled as if it ended afterwards.
        let _ = send(&mut orders, spec);
        await_answer(notices.get_ref(), &guardian);
        let notice = loop {
            match next(&mut notices) {
                // A quick agent prints before its guardian reports the start.
                Some(output @ GuardianNotice::Output { .. }) => tell(output),
                notice => break notice,
            }
        };
        let Some(GuardianNotice::Started { identity }) = notice else {
            return Err(not_started(notice, process.wait()));
        };
        let orders: OrderLine = Arc::new(Mutex::new(Some(orders)));
        let shared = Arc::clone(&orders);
        thread::Builder::new().name("agent".to_owned()).spawn(move || {
            let closed = loop {
                match next(&mut notices) {
                    Some(GuardianNotice::News(ProcessNews::Closed(closed))) => break closed,
                    Some(notice) => tell(notice),
                    None => break Closed::default(),
                }
            };
            drop(lock(&shared).take());
            process.wait();
            tell(GuardianNotice::News(ProcessNews::Closed(closed)));
        })?;
        Ok(AgentProcess { guardian, identity, orders })
    }

    /// The agent's process.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The guardian's process.
    pub fn guardian(&self) -> &Identity {
        &self.guardian
    }

    /// Continues the guardian if something has stopped it.
    pub fn wake(&self) {
        if lock(&self.orders).is_some() {
            tree::wake(&self.guardian);
        }
    }

    /// Kills a guardian that does not answer. Its processes must be ended by other means.
    pub fn kill_guardian(&self) {
        if lock(&self.orders).is_some() {
            tree::kill(&self.guardian);
        }
    }

    /// Gives the guardian an order.
    pub fn order(&self, order: GuardianCommand) {
        self.wake();
        // A guardian that is gone has ended everything already.
        if let Some(orders) = &mut *lock(&self.orders) {
            let _ = send(orders, &order);
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        drop(lock(&self.orders).take());
    }
}

fn lock(orders: &OrderLine) -> MutexGuard<'_, Option<PipeWriter>> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a guardian with this first notice, which may have been killed, has not started its agent.
fn not_started(notice: Option<GuardianNotice>, is_killed: bool) -> NotStarted {
    match notice {
        Some(GuardianNotice::NotStarted { error, fault }) => match fault {
            Some(StartFault::Program) => NotStarted::Missing(error),
            Some(StartFault::Executor) => NotStarted::Executor(ExecutorFault::lasting(error)),
            Some(StartFault::Unreachable | StartFault::Refused) => {
                NotStarted::Executor(ExecutorFault::passing(error))
            }
            None => NotStarted::Refused(error),
        },
        _ if is_killed => NotStarted::Unguarded,
        _ => NotStarted::Refused("its guardian could not be started".to_owned()),
    }
}

/// Waits for the first notice of a guardian or its end. Kills it if neither comes.
fn await_answer(notices: &PipeReader, guardian: &Identity) {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    /// The time for even a busy machine to start a process.
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

/// The interval between two calls of `turn`.
const TURN: Duration = Duration::from_millis(50);

/// Runs a command to its end; sends TERM after `limit` or when it is idle, and KILL after `grace`. Everything that it
/// started has ended on return. The record of `spec` must be open in no other process.
///
/// `goes_on` is called repeatedly meanwhile and returns whether the command may continue.
pub fn run_guarded(
    guardians: &GuardianProgram,
    spec: &GuardianSpec,
    (limit, grace): (Duration, Duration),
    mut goes_on: impl FnMut() -> bool,
) -> Outcome {
    let (tell, told) = mpsc::channel();
    let agent = match AgentProcess::spawn(guardians, spec, move |news| drop(tell.send(news))) {
        Ok(agent) => agent,
        Err(
            NotStarted::Missing(error)
            | NotStarted::Executor(ExecutorFault { why: error, .. })
            | NotStarted::Refused(error),
        ) => {
            return Outcome::NotStarted { error };
        }
        Err(NotStarted::Unguarded) => {
            tree::kill_marked(None, &spec.record);
            return Outcome::Interrupted;
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
                return ours.or(closed.outcome).unwrap_or(Outcome::Interrupted);
            }
            Ok(ProcessNews::Left(_)) => agent.order(GuardianCommand::Kill),
            Ok(ProcessNews::Idle) => is_idle = true,
            Ok(ProcessNews::Arrived(_) | ProcessNews::Fetching | ProcessNews::Contact(_))
            | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Outcome::Interrupted,
        }
        let ours = if !goes_on() {
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
