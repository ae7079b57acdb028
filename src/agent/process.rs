//! One process: started in a group of its own, waited for without polling, ended as a group.
//!
//! Odd on purpose: the waiter thread waits for the leader *without reaping it*, then kills what is
//! left of the group, then reaps. A process that is dead and not yet reaped still holds its number,
//! so that the number of the group cannot belong to a stranger at that moment; after the reap it
//! can. duct has no such wait and signals no groups, so both are done beside it with rustix: the
//! `duct::Handle` belongs to the waiter alone and is not asked anything until the process is dead,
//! which makes its own wait return at once and do nothing but reap.

use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{self, Path},
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use super::{
    Spec, find,
    tree::{Identity, number},
};
use crate::verdict::Outcome;

/// A started process and its group.
#[derive(Debug)]
pub(super) struct Process {
    identity: Identity,
    group: Arc<Group>,
}

impl Process {
    /// Starts the process and a thread that calls `ended` when it is over, whatever the reason.
    /// By then the process is reaped and what was left in its group has been killed.
    ///
    /// `ended` gets [`Outcome::Exited`] or [`Outcome::Signaled`]. Should the status be lost, which
    /// takes a parent that set SIGCHLD to be ignored, the exit code is -1.
    ///
    /// # Errors
    /// When a file cannot be opened, the program is not found or cannot be executed, or the system
    /// has no process or thread to give. Nothing runs then, and `ended` is not called.
    pub(super) fn spawn(
        spec: &Spec,
        stdout: impl Into<OwnedFd>,
        stderr: impl Into<OwnedFd>,
        ended: impl FnOnce(Outcome) + Send + 'static,
    ) -> io::Result<Process> {
        let handle = command(spec, stdout.into(), stderr.into())?.start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        // Before the waiter exists nobody can reap it, so that even a process which is already
        // over has its entry in /proc.
        let identity = Identity::of(pid);
        let leader = number(pid).expect("the number of a child is positive");
        let group = Arc::new(Group { leader, reaped: Mutex::new(false) });
        let waiting = Arc::new((handle, Arc::clone(&group)));
        let spare = Arc::clone(&waiting);
        let waiter = thread::Builder::new()
            .name("agent".to_owned())
            .spawn(move || ended(waiting.1.wait(&waiting.0)));
        if let Err(error) = waiter {
            group.signal(&[Signal::KILL]);
            spare.1.wait(&spare.0);
            return Err(error);
        }
        Ok(Process { identity, group })
    }

    /// Which process this is.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Asks the group to end. Does nothing once the process is reaped.
    pub(super) fn terminate(&self) {
        // A stopped process does not see TERM before it goes on.
        self.group.signal(&[Signal::TERM, Signal::CONT]);
    }

    /// Ends the group. Does nothing once the process is reaped.
    pub(super) fn kill(&self) {
        self.group.signal(&[Signal::KILL]);
    }
}

/// The program is made absolute because duct hands over the whole environment, and std takes its
/// fast path (`posix_spawn`) with a changed `PATH` only if it need not search it.
fn command(spec: &Spec, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<duct::Expression> {
    let (program, arguments) = spec
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let dir = path::absolute(&spec.dir)?;
    let mut environment: HashMap<OsString, OsString> = env::vars_os().collect();
    for name in &spec.env_remove {
        environment.remove(OsStr::new(name));
    }
    for (name, value) in &spec.env {
        environment.insert(name.into(), value.into());
    }
    environment.insert("PWD".into(), dir.clone().into());
    let search = environment.get(OsStr::new("PATH"));
    let program = find(program, &dir, search.map(OsString::as_os_str))
        .map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))?;
    if !dir.is_dir() {
        let why = format!("`{}` is not a directory to work in", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let stdin = named(&spec.stdin, File::open(&spec.stdin))?;
    Ok(duct::cmd(program, arguments)
        .dir(dir)
        .full_env(environment)
        .stdin_file(stdin)
        .stdout_file(stdout)
        .stderr_file(stderr)
        .before_spawn(|command| {
            command.process_group(0);
            Ok(())
        })
        .unchecked())
}

fn named<T>(file: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        io::Error::new(error.kind(), format!("open `{}`: {error}", file.display()))
    })
}

#[derive(Debug)]
struct Group {
    leader: Pid,
    /// Locked while a signal is sent and while the leader is reaped: after the reap the number may
    /// be a stranger's.
    reaped: Mutex<bool>,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signals: &[Signal]) {
        let reaped = self.lock();
        if !*reaped {
            for signal in signals {
                // It fails for members of another user only, who cannot be helped.
                let _ = kill_process_group(self.leader, *signal);
            }
        }
    }

    fn wait(&self, handle: &duct::Handle) -> Outcome {
        let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = loop {
            match waitid(WaitId::Pid(self.leader), dead) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let mut reaped = self.lock();
        // An error means that the system has reaped it: the number is not ours any more.
        if waited.is_ok() {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        let status = handle.wait().map(|output| output.status);
        *reaped = true;
        drop(reaped);
        outcome(status.ok())
    }
}

fn outcome(status: Option<ExitStatus>) -> Outcome {
    let signal = status.and_then(|status| status.signal());
    match signal {
        Some(signal) => Outcome::Signaled { signal },
        None => {
            Outcome::Exited { exit_code: status.and_then(|status| status.code()).unwrap_or(-1) }
        }
    }
}
