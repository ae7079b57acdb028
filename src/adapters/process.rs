//! The agent of an attempt: started behind a guardian, ended with everything it started.
//!
//! The only user of `duct` and of rustix's process functions. Knows no task, no graph and no
//! verdict: it says how a process ended, and somebody else says what that means.
//!
//! Between the runner and the agent stands a guardian, this very program as `ralph __guard`:
//!
//! - its standard input is a pipe of which only the runner holds the other end: orders come through
//!   it, and its end means that the runner is dead, in whatever way;
//! - its standard output is the runner's lock, so that no other run begins while it still cleans up;
//! - its standard error is a pipe on which it tells the runner what happened.

mod child;
pub mod guard;
mod guarded;
mod group;
mod stream;
mod tree;

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader, PipeWriter, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, process::ExitStatusExt},
    },
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Signal, getpgrp, kill_process_group};
use serde::{Deserialize, Serialize};

pub use crate::core::event::Identity;
use crate::{
    core::{redact::Redactor, verdict::Outcome},
    crash,
};
pub use child::{Foreground, ForegroundGroup};
use group::Process;
use guard::{GuardianCommand, GuardianNotice, GuardianSpec};
pub use guarded::run_guarded;
use stream::Streams;
pub use tree::{Member, is_alive, is_childless, kill_marked, outlast_children, sweep, works_in};

/// What Claude Code takes as the sign that it runs inside another Claude Code.
pub const NESTED: [&str; 2] = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"];

/// Names the attempt to what only holds up the terminal of its agent; the agent does not get it.
pub const PANE: &str = "RALPH_PANE";

/// What to start, and where its input and output lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// The program and its arguments; the program is found as [`resolve`] finds it, on the `PATH`
    /// of `env` if that has one.
    pub argv: Vec<String>,
    /// The working directory, also told as `PWD`.
    pub dir: PathBuf,
    /// Set on top of the environment of this process, after `env_remove`.
    pub env: Vec<(String, String)>,
    /// Taken out of the environment of this process.
    pub env_remove: Vec<String>,
    /// Read as standard input; must exist. A file and not a pipe, because an agent that never
    /// reads it cannot block anybody.
    pub stdin: PathBuf,
    /// Appended to, created if missing.
    pub stdout: PathBuf,
    /// Appended to, created if missing; may be the same file as `stdout`.
    pub stderr: PathBuf,
}

/// What the guardian needs beside the agent's own.
#[derive(Debug)]
pub struct GuardPost<'a> {
    /// This program.
    pub program: PathBuf,
    /// The attempt's record, which stays open in the whole tree as a sign of whose it is.
    pub record: PathBuf,
    /// Where the guardian writes how the agent ended, if that is to be known after a crash.
    pub exit: Option<PathBuf>,
    /// The runner's lock.
    pub lock: &'a File,
    /// After how long without a sign of life it says so.
    pub idle: Option<Duration>,
    /// Whether it takes secrets out of the agent's output.
    pub redact: bool,
    /// Where the agent is shown on a terminal of its own: the file that says what is on it, in a
    /// number. Whether that changes is then the one sign of life.
    pub screen: Option<PathBuf>,
}

/// What the runner hears of its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessNews {
    /// It shows no sign of life.
    Idle,
    /// It ended by itself, and these of its processes have not; told again when they are others.
    /// They are waited for until an order says otherwise.
    Left(Vec<Member>),
    /// It is gone, with everything it started that was not spared. Nothing follows.
    Closed(Closed),
}

/// How an attempt's processes ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The agent; none if the guardian died before it could say.
    pub outcome: Option<Outcome>,
    /// What the agent had left running and was killed.
    pub swept: Vec<String>,
    /// How many of those would not die.
    pub immortal: usize,
}

/// Why an agent does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// It cannot be started, for this reason.
    Refused(String),
    /// Its guardian was killed before it could say whether it had started it.
    Unguarded,
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> NotStarted {
        NotStarted::Refused(error.to_string())
    }
}

/// A running agent behind its guardian.
#[derive(Debug)]
pub struct AgentProcess {
    guardian: Identity,
    identity: Identity,
    orders: Mutex<PipeWriter>,
}

impl AgentProcess {
    /// Starts the guardian, which starts the agent, and a thread that calls `tell` with the news.
    ///
    /// # Errors
    /// When the agent or its guardian cannot be started. `tell` is not called then, and nothing
    /// runs but what a guardian started that was killed before it could say so.
    pub fn spawn(
        spec: &ProcessSpec,
        post: &GuardPost<'_>,
        tell: impl Fn(ProcessNews) + Send + 'static,
    ) -> Result<AgentProcess, NotStarted> {
        let (order_reader, mut orders) = io::pipe()?;
        let (notice_reader, notices) = io::pipe()?;
        let mut guardians = tree::guardians();
        let handle = duct::cmd(&post.program, ["__guard"])
            .stdin_file(order_reader)
            .stdout_file(post.lock.try_clone()?)
            .stderr_file(notices)
            .unchecked()
            .start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        let guardian = Identity::of(pid);
        guardians.push(pid);
        drop(guardians);
        let gone = move || tree::guardians().retain(|guardian| *guardian != pid);
        crash::point("agent.guarded");
        let brief = GuardianSpec {
            spec: spec.clone(),
            record: post.record.clone(),
            exit: post.exit.clone(),
            idle: post.idle,
            redact: post.redact,
            screen: post.screen.clone(),
        };
        // A guardian that is gone before it has read its brief says no more than one that is gone
        // after it.
        let _ = send(&mut orders, &brief);
        let mut notices = BufReader::new(notice_reader).lines();
        let notice = next(&mut notices);
        let Some(GuardianNotice::Started { identity }) = notice else {
            let killed = handle.wait().is_ok_and(|output| output.status.signal().is_some());
            gone();
            return Err(match notice {
                Some(GuardianNotice::NotStarted { error }) => NotStarted::Refused(error),
                _ if killed => NotStarted::Unguarded,
                _ => NotStarted::Refused("its guardian could not be started".to_owned()),
            });
        };
        thread::Builder::new().name("agent".to_owned()).spawn(move || {
            let closed = loop {
                match next(&mut notices) {
                    Some(GuardianNotice::Idle {}) => tell(ProcessNews::Idle),
                    Some(GuardianNotice::Left { members }) => tell(ProcessNews::Left(members)),
                    Some(GuardianNotice::Closed { outcome, swept, immortal }) => {
                        break Closed { outcome: Some(outcome), swept, immortal };
                    }
                    Some(GuardianNotice::Started { .. } | GuardianNotice::NotStarted { .. }) => {}
                    None => break Closed { outcome: None, swept: Vec::new(), immortal: 0 },
                }
            };
            let _ = handle.wait();
            gone();
            tell(ProcessNews::Closed(closed));
        })?;
        Ok(AgentProcess { guardian, identity, orders: Mutex::new(orders) })
    }

    /// The agent's process.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The guardian's process.
    pub fn guardian(&self) -> &Identity {
        &self.guardian
    }

    /// Asks the agent and its group to end.
    pub fn terminate(&self) {
        self.order(GuardianCommand::Terminate);
    }

    /// Ends the agent and everything it started.
    pub fn kill(&self) {
        self.order(GuardianCommand::Kill);
    }

    /// Stops the agent and everything it started, until [`thaw`](Agent::thaw).
    pub fn freeze(&self) {
        self.order(GuardianCommand::Freeze);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.order(GuardianCommand::Thaw);
    }

    /// It is not idle: files have changed.
    pub fn awake(&self) {
        self.order(GuardianCommand::Awake);
    }

    /// Lets what it left behind live, unguarded.
    pub fn spare(&self) {
        self.order(GuardianCommand::Spare);
    }

    fn order(&self, order: GuardianCommand) {
        // A guardian that is gone has ended everything already.
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = send(&mut *orders, &order);
    }
}

fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// The next line that is a notice; whatever else a dying guardian prints is passed over.
fn next(lines: &mut impl Iterator<Item = io::Result<String>>) -> Option<GuardianNotice> {
    lines.map_while(Result::ok).find_map(|line| serde_json::from_str(&line).ok())
}

/// Runs a shell command to its end, with this process's own input and output.
///
/// # Errors
/// When the shell cannot be started.
pub fn run_here(command: &str, dir: &Path, variable: (&str, &str)) -> io::Result<Outcome> {
    let (name, value) = variable;
    let run = duct::cmd!("sh", "-c", command).dir(dir).env(name, value).unchecked().run()?;
    Ok(group::outcome(run.status.code(), run.status.signal()))
}

/// Runs a command that is no agent to its end or to the limit, in a group of its own, of which
/// nothing is left then. `end_rest` ends what it started outside of its group. Its output is
/// appended to the files of `spec`, with `redact` without the secrets in it.
///
/// # Errors
/// When it cannot be started.
pub fn run(
    spec: &ProcessSpec,
    limit: Duration,
    redact: bool,
    end_rest: impl FnOnce(),
) -> io::Result<Outcome> {
    let secrets = redact.then(|| secrets(spec));
    let (streams, stdout, stderr) = Streams::open(spec, secrets.as_ref(), &Arc::default())?;
    let (tell, ended) = mpsc::channel();
    let process = Process::spawn(spec, stdout, stderr, move |outcome| drop(tell.send(outcome)))?;
    let outcome = ended.recv_timeout(limit);
    // What is left of the group, or all of it.
    process.kill();
    process.reap();
    // The rest may hold the pipes open.
    end_rest();
    streams.drain();
    Ok(outcome.unwrap_or(Outcome::TimedOut { limit_seconds: limit.as_secs() }))
}

/// Finds the secrets in what a process of this specification prints.
fn secrets(spec: &ProcessSpec) -> Redactor {
    Redactor::of_variables(group::environment(spec))
}

/// This very program, also after a new version of it was put in its place.
pub fn own_program() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { env::current_exe().unwrap_or_default() }
}

/// The file of this program, as others can name it. Linux says of a file that was replaced while it
/// runs that it is deleted; the new one will do.
///
/// # Errors
/// As the system gives them.
pub fn own_file() -> io::Result<PathBuf> {
    let file = env::current_exe()?;
    Ok(match file.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(replaced) if !file.exists() => PathBuf::from(replaced),
        _ => file,
    })
}

/// This process.
pub fn own_identity() -> Identity {
    Identity::of(std::process::id())
}

/// Opens the record of an attempt so that whatever this process starts has it open as well: std
/// closes what it opens on exec, a plain duplicate stays.
///
/// # Errors
/// As the system gives them.
pub fn sign(record: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::io::dup(File::open(record)?)?)
}

/// Asks the group of this process to end.
pub fn terminate_own_group() {
    signal_own_group(&[Signal::TERM, Signal::CONT]);
}

/// Ends the group of this process, itself included.
pub fn kill_own_group() {
    signal_own_group(&[Signal::KILL]);
}

fn signal_own_group(signals: &[Signal]) {
    for signal in signals {
        let _ = kill_process_group(getpgrp(), *signal);
    }
}

/// Makes this process the parent of whatever its descendants leave behind, so that the children of
/// a guardian that was killed are found. Only where the system can.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Replaces standard input, output and error of this process by `/dev/null`.
///
/// # Errors
/// As the system gives them.
pub fn close_stdio() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Finds the program that `argv[0]` means in `dir`: with a slash in it a path from `dir`, otherwise
/// a name on the `PATH` of this process. The result is absolute.
///
/// # Errors
/// In words for a person, when there is no such program or it may not be executed.
pub fn resolve(program: &str, dir: &Path) -> Result<PathBuf, String> {
    find(program, dir, env::var_os("PATH").as_deref())
}

fn find(program: &str, dir: &Path, search: Option<&OsStr>) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the command is empty; name a program".to_owned());
    }
    let dir = path::absolute(dir).map_err(|error| format!("`{}`: {error}", dir.display()))?;
    let not_executable = |name: &str| format!("`{name}` is not executable; chmod +x it");
    if program.contains('/') {
        let file = dir.join(program);
        return match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("`{program}` does not exist in `{}`; check the path", dir.display()))
            }
            Err(error) => Err(format!("`{program}` cannot be looked at: {error}")),
            Ok(found) if found.is_dir() => {
                Err(format!("`{program}` is a directory; name a program"))
            }
            Ok(found) if !may_execute(&found) => Err(not_executable(program)),
            Ok(_) => Ok(file),
        };
    }
    let mut blocked = None;
    for place in env::split_paths(search.unwrap_or_default()) {
        let file = dir.join(place).join(program);
        match fs::metadata(&file) {
            Ok(found) if found.is_file() && may_execute(&found) => return Ok(file),
            Ok(found) if found.is_file() => blocked = blocked.or(Some(file)),
            _ => {}
        }
    }
    Err(match blocked {
        Some(file) => not_executable(&file.display().to_string()),
        None => format!("`{program}` is not on PATH"),
    })
}

fn may_execute(file: &fs::Metadata) -> bool {
    file.permissions().mode() & 0o111 != 0
}

/// Whether this process has root's rights; Claude Code refuses to skip permissions with them.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn a_guardian_that_is_killed_is_told_from_one_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let start = |script: &str| {
            let program = dir.join("guardian");
            let text = dir.join("text");
            fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
            // By another process: what this one has open for writing, a thread that forks hands on,
            // and then it cannot be executed.
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
            let (record, exit) = (dir.join("record"), dir.join("exit"));
            let exit = Some(exit);
            let (idle, redact, screen) = (None, true, None);
            let post = GuardPost { program, record, exit, lock: &lock, idle, redact, screen };
            AgentProcess::spawn(&spec, &post, |_| panic!("nothing ran")).unwrap_err()
        };
        assert_eq!(start("kill -KILL $$"), NotStarted::Unguarded);
        assert_eq!(start("read -r _; kill -KILL $$"), NotStarted::Unguarded);
        let refused = |why: &str| NotStarted::Refused(why.to_owned());
        assert_eq!(start("exit 3"), refused("its guardian could not be started"));
        let notice = r#"read -r _; echo '{"not_started":{"error":"no"}}' >&2"#;
        assert_eq!(start(notice), refused("no"));
    }

    #[test]
    fn programs_are_found_as_the_child_would_find_them() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir(dir.join("bin")).unwrap();
        fs::write(dir.join("x.sh"), "#!/bin/sh\n").unwrap();
        fs::copy(dir.join("x.sh"), dir.join("bin/tool")).unwrap();
        let search = OsString::from("bin:/nowhere");
        let find = |program: &str| find(program, dir, Some(&search));
        assert_eq!(find("./x.sh"), Err("`./x.sh` is not executable; chmod +x it".to_owned()));
        let tool = dir.join("bin/tool");
        let blocked = format!("`{}` is not executable; chmod +x it", tool.display());
        assert_eq!(find("tool"), Err(blocked));
        for file in ["x.sh", "bin/tool"] {
            fs::set_permissions(dir.join(file), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(find("./x.sh"), Ok(dir.join("./x.sh")));
        assert_eq!(find("tool"), Ok(tool));
        assert_eq!(find("clude"), Err("`clude` is not on PATH".to_owned()));
        assert!(find("./bin").unwrap_err().contains("is a directory"));
        assert!(find("./none").unwrap_err().contains("does not exist"));
        assert!(find("").unwrap_err().contains("empty"));
        assert!(resolve("sh", dir).unwrap().is_absolute());
    }
}
