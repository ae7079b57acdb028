//! A child agent: a command in the foreground, with the streams of this process.
//!
//! In the group of whoever started it, so that a signal to the group reaches it as well.

use std::{io, os::unix::process::ExitStatusExt, path::Path};

use duct::unix::HandleExt;

use super::{Identity, NESTED, process};
use crate::verdict::Outcome;

/// A command that runs.
#[derive(Debug)]
pub struct Foreground {
    handle: duct::Handle,
    identity: Identity,
}

impl Foreground {
    /// Starts a program, found already, in `dir` and with `env` on top of this process's
    /// environment.
    ///
    /// # Errors
    /// When it cannot be executed, or the system has no process to give.
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: &Path,
        env: &[(&str, &str)],
    ) -> io::Result<Foreground> {
        let mut command = duct::cmd(program, arguments).dir(dir).env("PWD", dir);
        for name in NESTED {
            command = command.env_remove(name);
        }
        for (name, value) in env {
            command = command.env(name, value);
        }
        let handle = command.unchecked().start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        Ok(Foreground { identity: Identity::of(pid), handle })
    }

    /// Its process.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Sends it a signal, if it is still there.
    pub fn signal(&self, number: i32) {
        let _ = self.handle.send_signal(number);
    }

    /// Ends it.
    pub fn kill(&self) {
        let _ = self.handle.kill();
    }

    /// Waits until it is over.
    ///
    /// # Errors
    /// When its status is lost.
    pub fn wait(&self) -> io::Result<Outcome> {
        let status = self.handle.wait()?.status;
        Ok(process::outcome(status.code(), status.signal()))
    }
}
