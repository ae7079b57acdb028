//! A call of this program by itself, with its output.

use std::{io, path::Path, time::Duration};

use super::{NESTED, PANE, own_program};

/// How a call of this program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCall {
    /// The exit code; none if it was killed.
    pub code: Option<i32>,
    /// The standard output.
    pub output: String,
    /// The standard error.
    pub errors: String,
}

/// Runs this program in `dir` with these arguments and this standard input. It is killed after
/// `limit`.
///
/// # Errors
/// It cannot be started, or its end is lost.
pub fn call_own(
    arguments: &[String],
    dir: &Path,
    input: &str,
    limit: Duration,
) -> io::Result<OwnCall> {
    let mut command = duct::cmd(own_program(), arguments)
        .dir(dir)
        .env("PWD", dir)
        .stdin_bytes(input)
        .stdout_capture()
        .stderr_capture()
        .unchecked();
    for name in NESTED.into_iter().chain([PANE]) {
        command = command.env_remove(name);
    }
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
