//! A child agent, or the agent of a pane: a command in the foreground, with the streams of this
//! process.
//!
//! In the group of whoever started it, so that a signal to the group reaches it as well.

use std::{fs::File, io, os::unix::process::ExitStatusExt, path::Path};

use duct::unix::HandleExt;

use super::{Identity, NESTED, PANE, process};
use crate::verdict::Outcome;

/// A command that runs.
#[derive(Debug)]
pub struct Foreground {
    handle: duct::Handle,
    identity: Identity,
}

impl Foreground {
    /// Starts a program, found already, in `dir`, with `env` on top of this process's environment
    /// and, if there is one, `input` as its standard input.
    ///
    /// # Errors
    /// When it cannot be executed, or the system has no process to give.
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: &Path,
        env: &[(&str, &str)],
        input: Option<File>,
    ) -> io::Result<Foreground> {
        let mut command = duct::cmd(program, arguments).dir(dir).env("PWD", dir);
        if let Some(input) = input {
            command = command.stdin_file(input);
        }
        for name in NESTED.into_iter().chain([PANE]) {
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
