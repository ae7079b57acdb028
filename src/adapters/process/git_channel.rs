//! A program whose standard input and output are at the other end of a line: git and what calls it.

use std::{
    io::{self, PipeWriter, Read, Write},
    sync::Arc,
    thread,
    time::Duration,
};

use super::protocol::{CHUNK, Encoded};

/// The time for a program to end once its line is closed.
const ENDING: Duration = Duration::from_secs(10);

/// A program that talks over a line. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct GitChannel {
    handle: Arc<duct::Handle>,
    input: Option<PipeWriter>,
}

impl GitChannel {
    /// Starts a command. A thread passes its output to `send`, and its end to `ended`: what it has said
    /// on its standard error, or why it failed.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(
        argv: &[String],
        send: impl Fn(Encoded) -> io::Result<()> + Send + 'static,
        ended: impl FnOnce(Result<Vec<String>, String>) + Send + 'static,
    ) -> io::Result<GitChannel> {
        let empty = || io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
        let (program, arguments) = argv.split_first().ok_or_else(empty)?;
        let ((stdin, input), (mut output, stdout)) = (io::pipe()?, io::pipe()?);
        let command = duct::cmd(program, arguments).stdin_file(stdin).stdout_file(stdout);
        let handle = Arc::new(command.stderr_capture().unchecked().start()?);
        let own = Arc::clone(&handle);
        thread::Builder::new().name("git".to_owned()).spawn(move || {
            let mut block = vec![0; CHUNK];
            while let Ok(length @ 1..) = output.read(&mut block) {
                if send(Encoded::of(&block[..length])).is_err() {
                    break;
                }
            }
            drop(output);
            ended(end_of(&own));
        })?;
        Ok(GitChannel { handle, input: Some(input) })
    }

    /// Passes on what the other end says. How the program ends tells why it reads no more.
    pub(super) fn take(&mut self, bytes: &Encoded) {
        if let (Some(input), Ok(bytes)) = (&mut self.input, bytes.bytes()) {
            let _ = input.write_all(&bytes);
        }
    }

    /// Notes that the other end says no more.
    pub(super) fn end_input(&mut self) {
        self.input = None;
    }
}

impl Drop for GitChannel {
    /// Closes its input, at which git ends and removes what is incomplete.
    fn drop(&mut self) {
        self.input = None;
        if !matches!(self.handle.wait_timeout(ENDING), Ok(Some(_))) {
            let _ = self.handle.kill();
        }
    }
}

/// What a program has said whose standard error is captured.
fn end_of(handle: &duct::Handle) -> Result<Vec<String>, String> {
    let output = handle.wait().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
    let mut said: Vec<String> = said.collect();
    if output.status.success() {
        return Ok(said);
    }
    Err(said.pop().unwrap_or_else(|| output.status.to_string()))
}
