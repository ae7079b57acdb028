//! Questions to executors outside of an attempt: the fate of a job, leftover containers, whether a
//! host has this program.
//!
//! Every question has a limit. Silence says nothing about the processes there.

pub mod container;
pub mod slurm;
pub mod ssh;

use std::{
    io::{self, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

/// The time for a program to answer.
const LIMIT: Duration = Duration::from_secs(30);
/// The time between two looks at a program that has not answered.
const LOOK: Duration = Duration::from_millis(5);
/// The time for the output of an ended program to arrive.
const DRAIN: Duration = Duration::from_secs(2);
/// The size limit of an answer, in bytes.
const LONG: u64 = 1 << 20;

/// How a program ended.
#[derive(Debug)]
struct ProgramAnswer {
    /// The exit code; none if it was killed.
    code: Option<i32>,
    /// The standard output.
    output: String,
    /// The standard error.
    errors: String,
}

impl ProgramAnswer {
    /// Whether it succeeded.
    fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// Its last message.
    fn why(&self) -> String {
        let said = [&self.errors, &self.output];
        let line = said.iter().find_map(|text| {
            text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
        });
        line.unwrap_or_else(|| match self.code {
            Some(code) => format!("it exited with code {code}"),
            None => "it was killed".to_owned(),
        })
    }
}

/// Runs a program without input to its end.
///
/// # Errors
/// It cannot be started, with the error of the system, or does not end within the limit.
fn ask(argv: &[String], limit: Duration) -> io::Result<ProgramAnswer> {
    let (program, arguments) = argv.split_first().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let code = end(&mut child, Instant::now() + limit)?;
    let text = |receiver: Option<Receiver<String>>| {
        receiver.and_then(|text| text.recv_timeout(DRAIN).ok()).unwrap_or_default()
    };
    Ok(ProgramAnswer { code, output: text(output), errors: text(errors) })
}

/// Waits for a program, and kills it at the deadline.
///
/// # Errors
/// The deadline has passed.
fn end(child: &mut Child, deadline: Instant) -> io::Result<Option<i32>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        thread::sleep(LOOK);
    }
}

/// Reads a stream on a thread: another process that has it open must not hold up this one.
fn collect(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.take(LONG).read_to_end(&mut bytes);
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    told
}

/// The words of a command.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
