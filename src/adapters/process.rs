//! The agent of an attempt: started behind a guardian, ended with everything it started.
//!
//! The only user of `duct`, and with `git/bounded` of rustix's process functions. This module knows no task, no graph
//! and no verdict: it reports how a process ended and does not judge it.
//!
//! A guardian process runs between the runner and the agent: this program as `ralph __guard`.
//!
//! - its standard input is a pipe whose other end only the runner holds: orders come through it,
//!   and its end means that the runner is dead, for whatever reason;
//! - its standard output is the runner's lock, so that no other run begins while it still cleans up;
//! - its standard error is a pipe for its notices to the runner.

mod agent;
mod carried;
mod calls;
mod connection;
pub mod guard;
mod group;
mod kept_end;
mod line;
mod outputs;
mod program;
pub mod sandbox;
mod protocol;
pub mod sign_of_life;
mod stream;
mod task_files;
mod there;
mod tree;
pub mod worker;

use std::{
    env,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use crate::core::event::Identity;
use crate::core::{executor::ExecutorFault, redact::Redactor, verdict::Outcome};
pub use agent::{AgentProcess, GuardianProgram, run_guarded};
pub use calls::{
    Foreground, ForegroundGroup, OwnCall, STARTED, call_own, leave_streams, leave_terminal,
    open_in_browser, shell_fault,
};
pub use group::check;
pub use outputs::OutputReaders;
pub use program::{absolute, resolve};
pub use protocol::{GuardianCommand, GuardianSpec, WorkerFiles, sent_sign};
pub use sign_of_life::SignsOfLife;
pub use tree::{
    Member, is_alive, is_below, is_childless, is_elsewhere, kill_marked, may_live, sweep,
    wake_guardians, works_in,
};

/// The variables by which Claude Code detects that it runs inside another Claude Code.
pub const NESTED: [&str; 2] = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"];

/// The command to start, and the files for its input and output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// The program and its arguments; the program is found as [`resolve`] finds it, on the `PATH`
    /// of `env` if that has one.
    pub argv: Vec<String>,
    /// The working directory, also set as `PWD`.
    pub dir: PathBuf,
    /// The variables that are added to the environment of this process, after `env_remove`.
    pub env: Vec<(String, String)>,
    /// The variables that are removed from the environment of this process.
    pub env_remove: Vec<String>,
    /// The standard input; must exist. A file and not a pipe, so that an agent that never reads it
    /// blocks no writer.
    pub stdin: PathBuf,
    /// The standard output; appended to, created if missing.
    pub stdout: PathBuf,
    /// The standard error; appended to, created if missing; may be the same file as `stdout`.
    pub stderr: PathBuf,
}

/// The way to a process elsewhere, behind a worker: `ralph __worker`, which a command starts there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carrier {
    /// The name of the executor.
    pub executor: String,
    /// The command. Its standard input and output are those of the worker.
    pub argv: Vec<String>,
    /// The image, if the command runs a container.
    pub image: Option<String>,
    /// How the files of the attempt get there and back; none if they are there under the same path.
    pub transfer: Option<WorkTransfer>,
    /// Where its signs of life are, if its files are the very files that are here.
    pub signs: Option<SignsOfLife>,
    /// How long the finished work of an attempt is asked for, in seconds, after its line was cut.
    #[serde(default)]
    pub patience_seconds: u64,
    /// Whether nothing is started, and only the end and the work of an agent are fetched whose
    /// guardian was lost.
    #[serde(default)]
    pub recovers: bool,
}

/// How the work in a slot gets to a worker and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTransfer {
    /// The files of the worker.
    pub files: WorkerFiles,
    /// The command that sends the work in the slot here. Its standard input and output lead to git at
    /// the worker.
    pub send: Vec<String>,
    /// The command that fetches the work of the worker into the slot, and prints notes for a person
    /// about it on its standard error.
    pub fetch: Vec<String>,
}

/// A notice about a running agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessNews {
    /// Nothing in the tree has printed or used the processor for the configured time.
    Idle,
    /// The agent ended by itself, and these of its processes have not; sent again when the list
    /// changes. They are waited for until an order says otherwise.
    Left(Vec<Member>),
    /// The agent runs now on the machine of this name, behind a carrier that started before.
    Arrived(String),
    /// The agent is gone from where it ran, and its work is being fetched.
    Fetching,
    /// There has been no contact with the agent for this long; none if there is again.
    Contact(Option<Duration>),
    /// The agent is gone, with everything it started that was not spared. Nothing follows.
    Closed(Closed),
}

/// How an attempt's processes ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The outcome of the agent; none if the guardian died before it could report it.
    pub outcome: Option<Outcome>,
    /// The processes that the agent left running and that were killed.
    pub swept: Vec<String>,
    /// The number of those that did not die.
    pub immortal: usize,
    /// The fault that stops any such agent, if it did not start.
    pub fault: Option<StartFault>,
}

/// A fault that stops agents from starting at any task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFault {
    /// The agent's program is missing on its executor, or cannot be executed.
    Program,
    /// The executor cannot be used: its carrier or its `ralph` is missing or has another version.
    Executor,
    /// The executor does not answer.
    Unreachable,
    /// The executor answers, and cannot take an agent now.
    Refused,
}

/// The reason why an agent does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// Its program is missing or cannot be executed, for this reason.
    Missing(String),
    /// Its executor does not answer or cannot be used.
    Executor(ExecutorFault),
    /// It cannot be started, for this reason.
    Refused(String),
    /// Its guardian was killed before it could report whether it had started the agent.
    Unguarded,
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> NotStarted {
        NotStarted::Executor(ExecutorFault::passing(error.to_string()))
    }
}

fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Finds the secrets in the output of a process of this specification.
fn secrets(spec: &ProcessSpec) -> Redactor {
    Redactor::of_variables(group::environment(spec))
}

/// This program, also after a new version has replaced its file.
pub fn own_program() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { env::current_exe().unwrap_or_default() }
}

/// The path of this program for other processes. Linux marks the path of a replaced running program
/// as deleted; the new file is used then.
///
/// # Errors
/// System errors.
pub fn own_file() -> io::Result<PathBuf> {
    let file = env::current_exe()?;
    Ok(match file.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(replaced) if !file.exists() => PathBuf::from(replaced),
        _ => file,
    })
}

/// This process.
pub fn own_identity() -> Identity {
    tree::identity_of(std::process::id())
}

/// Opens the record of an attempt so that every process that this one starts has it open as well:
/// std closes its files on exec, a plain duplicate stays open.
///
/// # Errors
/// System errors.
fn sign(record: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::io::dup(File::open(record)?)?)
}

/// Makes this process the parent of the orphans of its descendants, so that the children of a
/// killed guardian are found. Does nothing where the system cannot do this.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Whether this process has root privileges; Claude Code refuses to skip permissions with them.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_killed_guardian_differs_from_one_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let start = |script: &str| {
            let program = dir.join("guardian");
            let text = dir.join("text");
            fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
            // Written by another process: a thread that forks inherits this one's writable files,
            // and then the file cannot be executed.
            let mut install = std::process::Command::new("install");
            install.args(["-m", "755"]).args([&text, &program]);
            assert!(install.status().unwrap().success());
            let spec = ProcessSpec {
                argv: vec!["true".to_owned()],
                dir: dir.to_owned(),
                env: Vec::new(),
                env_remove: Vec::new(),
                stdin: dir.join("in"),
                stdout: dir.join("out"),
                stderr: dir.join("err"),
            };
            let lock = File::open(dir).unwrap();
            let guardians = GuardianProgram::of(program, &lock).unwrap();
            let spec = GuardianSpec::new(spec, dir.join("record"));
            AgentProcess::spawn(&guardians, &spec, |_| panic!("nothing ran")).unwrap_err()
        };
        assert_eq!(start("kill -KILL $$"), NotStarted::Unguarded);
        assert_eq!(start("read -r _; kill -KILL $$"), NotStarted::Unguarded);
        let refused = |why: &str| NotStarted::Refused(why.to_owned());
        assert_eq!(start("exit 3"), refused("its guardian could not be started"));
        let notice = r#"read -r _; echo '{"not_started":{"error":"no","fault":null}}' >&2"#;
        assert_eq!(start(notice), refused("no"));
        let notice = r#"read -r _; echo '{"not_started":{"error":"no","fault":"program"}}' >&2"#;
        assert_eq!(start(notice), NotStarted::Missing("no".to_owned()));
    }
}
