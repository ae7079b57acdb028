//! Exit codes: the only place that defines them.

use std::fmt;

/// An exit code. A signal exits with 128 plus its number, as in a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The graph is complete, or the command succeeded.
    Success,
    /// An error with no code of its own, or five failures in a row.
    Error,
    /// A limit was reached.
    Limit,
    /// Everything left is blocked or parked.
    Blocked,
    /// Waiting for a person: paused, stopped by `ralph stop`, or an answer is missing.
    Waiting,
    /// Another `ralph` is running in this repository.
    Running,
    /// All work has landed, and some of it is not proved.
    NotProved,
    /// The command line is invalid.
    Usage,
    /// The graph, the configuration or a template is invalid.
    Invalid,
    /// The agent's command is missing or does not start.
    Agent,
    /// The disk is full, read-only or failing.
    Disk,
    /// Authentication failed: no key, a rejected key, or no credit.
    Denied,
    /// Stopped by this signal.
    Signal(i32),
    /// A program that was run for another one exited with this code.
    Child(u8),
}

impl Exit {
    /// The numeric code. 64, 65, 69, 74 and 77 are those of BSD's `sysexits.h`.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Error => 1,
            Exit::Limit => 2,
            Exit::Blocked => 3,
            Exit::Waiting => 4,
            Exit::Running => 5,
            Exit::NotProved => 6,
            Exit::Usage => 64,
            Exit::Invalid => 65,
            Exit::Agent => 69,
            Exit::Disk => 74,
            Exit::Denied => 77,
            Exit::Child(code) => code,
            Exit::Signal(number) => u8::try_from(128 + number).unwrap_or(1),
        }
    }
}

/// An error with its own exit code, which `main` reads.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub exit: Exit,
    /// Whether the message is a rendered diagnostic, which includes the word "error".
    pub is_drawn: bool,
    message: String,
}

impl Failure {
    /// Creates a failure with its message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, is_drawn: false, message: message.into() }
    }

    /// Creates a failure from a rendered diagnostic.
    pub fn drawn(exit: Exit, message: String) -> Failure {
        Failure { exit, is_drawn: true, message }
    }
}

/// Returns a failure with this exit code and message.
///
/// # Errors
/// The failure, always.
pub fn fail<T>(exit: Exit, message: impl Into<String>) -> anyhow::Result<T> {
    Err(Failure::new(exit, message).into())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The exit code for an error.
pub fn of_error(error: &anyhow::Error) -> Exit {
    if let Some(failure) = error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
        return failure.exit;
    }
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    match io.map(std::io::Error::kind) {
        Some(
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::ReadOnlyFilesystem,
        ) => Exit::Disk,
        _ => Exit::Error,
    }
}

/// Formats an error. A full disk is named as such, with the step that failed.
pub fn words(error: &anyhow::Error) -> String {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    if !io.is_some_and(|io| matches!(io.kind(), StorageFull | QuotaExceeded)) {
        return format!("{error:#}");
    }
    let step: Vec<String> = error
        .chain()
        .take_while(|cause| !cause.is::<std::io::Error>())
        .map(ToString::to_string)
        .collect();
    let step = if step.is_empty() { "continue".to_owned() } else { step.join(": ") };
    let step = step.strip_prefix("cannot ").unwrap_or(&step);
    format!("disk full: cannot {step}; free some space and run again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_its_code() {
        let error = anyhow::Error::new(Failure::new(Exit::Running, "busy")).context("start");
        assert_eq!(of_error(&error).code(), 5);
        assert_eq!(of_error(&anyhow::anyhow!("x")).code(), 1);
        let full = anyhow::Error::new(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(of_error(&full).code(), 74);
        let full = full.context("write `x`").context("close the attempt");
        assert_eq!(
            words(&full),
            "disk full: cannot close the attempt: write `x`; free some space and run again"
        );
        assert_eq!(words(&anyhow::anyhow!("x").context("y")), "y: x");
        assert_eq!(Exit::Signal(15).code(), 143);
    }
}
