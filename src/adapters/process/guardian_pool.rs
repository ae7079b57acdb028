//! Guardians between two agents. One that has ended an agent takes the next, because the start of a
//! process is the largest part of what a short command costs.
//!
//! A guardian here has no child and waits for its brief. It ends when nothing holds its line any more,
//! so none outlives the process that has started it.

use std::{
    fs::File,
    io::{self, BufReader, PipeReader, PipeWriter},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{Identity, tree};

/// The guardians that a process has started and that have no agent at the moment, and what the next
/// one needs.
#[derive(Clone, Debug)]
pub struct GuardianPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    program: PathBuf,
    lock: File,
    idle: Mutex<Vec<Guardian>>,
}

/// A guardian without an agent.
#[derive(Debug)]
pub(super) struct Guardian {
    pub(super) process: GuardianProcess,
    pub(super) orders: PipeWriter,
    pub(super) notices: BufReader<PipeReader>,
}

/// The process of a guardian, which ends once its line is closed.
#[derive(Debug)]
pub(super) struct GuardianProcess {
    pub(super) identity: Identity,
    handle: duct::Handle,
}

/// The time in which a guardian without an agent ends once its line is closed.
const ENDING: Duration = Duration::from_secs(5);

impl GuardianPool {
    /// Makes a pool without guardians. They run `program`, which is this one, and hold `lock`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn new(program: PathBuf, lock: &File) -> io::Result<GuardianPool> {
        let (lock, idle) = (lock.try_clone()?, Mutex::default());
        Ok(GuardianPool(Arc::new(Pool { program, lock, idle })))
    }

    /// Takes a guardian that lives, or starts one.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn take(&self) -> io::Result<Guardian> {
        loop {
            let Some(guardian) = self.0.idle().pop() else {
                return self.0.start();
            };
            if guardian.process.is_alive() {
                return Ok(guardian);
            }
            guardian.process.wait();
        }
    }

    /// Takes back a guardian that has ended its agent and waits for another brief.
    pub(super) fn put(&self, guardian: Guardian) {
        self.0.idle().push(guardian);
    }
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Vec<Guardian>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> io::Result<Guardian> {
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
        Ok(Guardian { process, orders, notices: BufReader::new(notice_reader) })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle());
        // The lines of all of them are closed before the first is waited for.
        let ending: Vec<GuardianProcess> = idle.into_iter().map(|it| it.process).collect();
        for process in ending {
            process.end();
        }
    }
}

impl GuardianProcess {
    fn is_alive(&self) -> bool {
        matches!(self.handle.try_wait(), Ok(None))
    }

    /// Waits until it has ended, without an agent and after its line was closed. An agent may have
    /// stopped it.
    fn end(self) {
        let began = Instant::now();
        while self.is_alive() {
            tree::wake(&self.identity);
            if began.elapsed() >= ENDING {
                tree::kill(&self.identity);
            }
            thread::sleep(Duration::from_micros(200));
        }
        self.wait();
    }

    /// Waits until it has ended. Returns whether it was killed.
    pub(super) fn wait(self) -> bool {
        let ended = self.handle.wait();
        tree::guardians().retain(|guardian| *guardian != self.identity.pid);
        ended.is_ok_and(|output| output.status.signal().is_some())
    }
}
