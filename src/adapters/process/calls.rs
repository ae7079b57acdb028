//! Commands without a guardian: in the foreground with the streams of this process, or short ones
//! whose output is captured.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, PipeReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use duct::unix::HandleExt;

use super::{Identity, NESTED, group, own_file, own_program};
use crate::{core::verdict::Outcome, regular_file};

/// A running command in the foreground: a child agent, or a scheduled run.
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
        let mut command = outside(&duct::cmd(program, arguments), dir);
        if let Some(input) = input {
            command = command.stdin_file(input);
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
        Foreground::of(&command)
    }

    /// Starts this program again, for the background. Returns its standard output.
    ///
    /// # Errors
    /// When the system cannot create a process.
    pub fn start_copy(arguments: Vec<OsString>) -> io::Result<(Foreground, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        let command = duct::cmd(own_file()?, arguments).stdin_null().stdout_file(writer);
        Ok((Foreground::of(&command)?, reader))
    }

    fn of(command: &duct::Expression) -> io::Result<Foreground> {
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

/// The standard output of a run in the background once it has started.
pub const STARTED: &str = "started\n";

/// Leaves the terminal: its signals do not reach this process any more.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Writes [`STARTED`] to standard output. From then on both output streams go to this log.
///
/// # Errors
/// System errors.
pub fn leave_streams(log: &Path) -> io::Result<()> {
    let log = regular_file::open_with(log, OpenOptions::new().append(true).create(true))?;
    rustix::stdio::dup2_stderr(&log)?;
    let mut out = io::stdout();
    out.write_all(STARTED.as_bytes()).and_then(|()| out.flush())?;
    Ok(rustix::stdio::dup2_stdout(&log)?)
}

/// A command in `dir` that does not count as a part of an agent.
fn outside(command: &duct::Expression, dir: &Path) -> duct::Expression {
    let command = command.dir(dir).env("PWD", dir);
    NESTED.into_iter().fold(command, |command, name| command.env_remove(name))
}

/// How a short command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCall {
    /// The exit code; none if it was killed.
    pub code: Option<i32>,
    /// The standard output.
    pub output: String,
    /// The standard error.
    pub errors: String,
}

/// Runs this program in `dir` with these arguments and this standard input, without the editor of a
/// person. It is killed after `limit`.
///
/// # Errors
/// It cannot be started, or its end is lost.
pub fn call_own(
    arguments: &[String],
    dir: &Path,
    input: &str,
    limit: Duration,
) -> io::Result<OwnCall> {
    let command = outside(&duct::cmd(own_program(), arguments), dir);
    let command = command.env_remove("VISUAL").env_remove("EDITOR");
    captured(&command, input, limit)
}

/// Runs a short command. It is killed after `limit`.
fn captured(command: &duct::Expression, input: &str, limit: Duration) -> io::Result<OwnCall> {
    let command = command.stdin_bytes(input).stdout_capture().stderr_capture().unchecked();
    let handle = command.start()?;
    if handle.wait_timeout(limit)?.is_none() {
        handle.kill()?;
    }
    let output = handle.wait()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(OwnCall {
        code: output.status.code(),
        output: text(&output.stdout),
        errors: text(&output.stderr),
    })
}

/// The programs that open an address, in the order of trial.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens an address in the browser of the person, which outlives this process. Returns
/// whether a program was started.
pub fn open_in_browser(address: &str) -> bool {
    OPENERS.iter().any(|opener| {
        Command::new(opener)
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .is_ok()
    })
}

/// Words with which a command that starts right may still lack its end.
const RESERVED: &[&str] = &[
    "!", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while", "{", "}",
];

/// Returns why the shell does not accept a command; none if it does, or if there is no shell to ask.
pub fn shell_fault(command: &str) -> Option<String> {
    /// The time for a busy machine to parse a command.
    const PATIENCE: Duration = Duration::from_secs(20);
    if is_plain(command) {
        return None;
    }
    let asked = duct::cmd("sh", ["-n", "-c", command]);
    let OwnCall { code, errors, .. } = captured(&asked, "", PATIENCE).ok()?;
    if code? == 0 {
        return None;
    }
    let line = errors.lines().next().unwrap_or("it is refused");
    // `sh: 1: Syntax error: …`, `sh: -c: line 1: syntax error …`.
    let said = line.to_lowercase().find("syntax error").map_or(line, |at| &line[at..]);
    Some(said.replacen("Syntax", "syntax", 1))
}

/// Whether a command is only words without a meaning to the shell, which it always accepts.
fn is_plain(command: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./=:,@%+- ".contains(c);
    command.chars().all(is_plain) && !command.split(' ').any(|word| RESERVED.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_shell_would_refuse_is_found() {
        for good in
            ["cargo test --all", "test -f a && echo 'b'", "if true; then :; fi", "exit 3", ""]
        {
            assert_eq!(shell_fault(good), None, "{good}");
        }
        for bad in ["if true", "echo 'open", "echo (", "cargo test &&& true", "for x in a do"] {
            assert!(shell_fault(bad).is_some(), "{bad}");
        }
    }
}
