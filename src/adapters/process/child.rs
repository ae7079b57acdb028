//! A command in the foreground with the streams of this process: a child agent, the agent of a
//! pane, or a scheduled run.

use std::{
    fs::File,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
};

use duct::unix::HandleExt;

use super::{Identity, NESTED, PANE, group};
use crate::core::verdict::Outcome;

/// A running command.
#[derive(Debug)]
pub struct Foreground {
    handle: duct::Handle,
    identity: Identity,
}

/// The process group, and so the signals, of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForegroundGroup {
    /// The group of the parent: signals come from the terminal or from a guardian.
    Shared,
    /// A group of its own: only explicit signals reach it, so that none arrives twice.
    Own,
}

impl Foreground {
    /// Starts an executable in `dir`. `env` is added to this process's environment; a variable
    /// without a value is removed. `input` is the standard input if there is one.
    ///
    /// # Errors
    /// When it cannot be executed, or the system cannot create a process.
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: &Path,
        env: &[(&str, Option<&str>)],
        input: Option<File>,
        group: ForegroundGroup,
    ) -> io::Result<Foreground> {
        let mut command = duct::cmd(program, arguments).dir(dir).env("PWD", dir);
        if let Some(input) = input {
            command = command.stdin_file(input);
        }
        for name in NESTED.into_iter().chain([PANE]) {
            command = command.env_remove(name);
        }
        for (name, value) in env {
            command = match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if group == ForegroundGroup::Own {
            command = command.before_spawn(|command| {
                command.process_group(0);
                Ok(())
            });
        }
        let handle = command.unchecked().start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        Ok(Foreground { identity: super::tree::identity_of(pid), handle })
    }

    /// The process.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Sends a signal to the process if it still runs.
    pub fn signal(&self, number: i32) {
        let _ = self.handle.send_signal(number);
    }

    /// Kills the process.
    pub fn kill(&self) {
        let _ = self.handle.kill();
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// When its status is lost.
    pub fn wait(&self) -> io::Result<Outcome> {
        let status = self.handle.wait()?.status;
        Ok(group::outcome(status.code(), status.signal()))
    }
}
