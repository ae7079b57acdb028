//! A command in the foreground, with the streams of this process: a child agent, the agent of a
//! pane, or a run that is started by the clock.

use std::{
    fs::File,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
};

use duct::unix::HandleExt;

use super::{Identity, NESTED, PANE, group};
use crate::core::verdict::Outcome;

/// A command that runs.
#[derive(Debug)]
pub struct Foreground {
    handle: duct::Handle,
    identity: Identity,
}

/// Whose signals a command gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForegroundGroup {
    /// Those of the group of whoever started it, from the terminal or from a guardian.
    Shared,
    /// Only what it is sent, so that nothing reaches it twice.
    Own,
}

impl Foreground {
    /// Starts a program, found already, in `dir`, with `env` on top of this process's environment,
    /// out of which a variable without a value is taken, and, if there is one, `input` as its
    /// standard input.
    ///
    /// # Errors
    /// When it cannot be executed, or the system has no process to give.
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
        Ok(group::outcome(status.code(), status.signal()))
    }
}
