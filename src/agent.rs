//! One agent process: started in a group of its own, waited for without polling, ended as a group.
//!
//! The only user of `duct` and of rustix's process functions. Knows no task, no graph and no
//! verdict: it says how a process ended, and somebody else says what that means.
//!
//! Odd on purpose: the waiter thread waits for the leader *without reaping it*, then kills what is
//! left of the group, then reaps. A process that is dead and not yet reaped still holds its number,
//! so that the number of the group cannot belong to a stranger at that moment; after the reap it
//! can. duct has no such wait and signals no groups, so both are done beside it with rustix: the
//! `duct::Handle` belongs to the waiter alone and is not asked anything until the process is dead,
//! which makes its own wait return at once and do nothing but reap.
//!
//! A child that calls `setsid` leaves the group and is not reached from here.

use std::{
    collections::{BTreeSet, HashMap},
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{self, Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process_group, waitid},
};
use serde::{Deserialize, Serialize};

use crate::verdict::Outcome;

/// What to start, and where its input and output lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
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

/// Which process this is, so that it can be told from a later one with the same number.
///
/// On a system without `/proc` the boot id is empty and the start time 0. Such an identity matches
/// no process: there is no proof without `/proc`, and nobody is signalled on a guess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The process, which is also the number of its group.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since the boot.
    pub start_time: u64,
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

/// A started process and its group.
#[derive(Debug)]
pub struct Agent {
    identity: Identity,
    group: Arc<Group>,
}

impl Agent {
    /// Starts the process and a thread that calls `ended` when it is over, whatever the reason.
    /// By then the process is reaped and what was left in its group has been killed.
    ///
    /// `ended` gets [`Outcome::Exited`] or [`Outcome::Signaled`]. Should the status be lost, which
    /// takes a parent that set SIGCHLD to be ignored, the exit code is -1.
    ///
    /// # Errors
    /// When a file cannot be opened, the program is not found or cannot be executed, or the system
    /// has no process or thread to give. Nothing runs then, and `ended` is not called.
    pub fn spawn(spec: &Spec, ended: impl FnOnce(Outcome) + Send + 'static) -> io::Result<Agent> {
        let handle = command(spec)?.start()?;
        let pid = *handle.pids().first().expect("a started command has a process");
        // Before the waiter exists nobody can reap it, so that even a process which is already
        // over has its entry in /proc.
        let identity = Identity {
            boot_id: boot_id().to_owned(),
            pid,
            start_time: Stat::of(pid).map_or(0, |stat| stat.start_time),
        };
        let leader = number(pid).expect("the number of a child is positive");
        let group = Arc::new(Group { leader, reaped: Mutex::new(false) });
        let waiting = Arc::new((handle, Arc::clone(&group)));
        let spare = Arc::clone(&waiting);
        let waiter = thread::Builder::new()
            .name("agent".to_owned())
            .spawn(move || ended(waiting.1.wait(&waiting.0)));
        if let Err(error) = waiter {
            group.signal(&[Signal::KILL]);
            spare.1.wait(&spare.0);
            return Err(error);
        }
        Ok(Agent { identity, group })
    }

    /// Which process this is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Asks the group to end. Does nothing once the process is reaped.
    pub fn terminate(&self) {
        // A stopped process does not see TERM before it goes on.
        self.group.signal(&[Signal::TERM, Signal::CONT]);
    }

    /// Ends the group. Does nothing once the process is reaped.
    pub fn kill(&self) {
        self.group.signal(&[Signal::KILL]);
    }
}

/// The program is made absolute because duct hands over the whole environment, and std takes its
/// fast path (`posix_spawn`) with a changed `PATH` only if it need not search it.
fn command(spec: &Spec) -> io::Result<duct::Expression> {
    let (program, arguments) = spec
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let dir = path::absolute(&spec.dir)?;
    let mut environment: HashMap<OsString, OsString> = env::vars_os().collect();
    for name in &spec.env_remove {
        environment.remove(OsStr::new(name));
    }
    for (name, value) in &spec.env {
        environment.insert(name.into(), value.into());
    }
    environment.insert("PWD".into(), dir.clone().into());
    let search = environment.get(OsStr::new("PATH"));
    let program = find(program, &dir, search.map(OsString::as_os_str))
        .map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))?;
    if !dir.is_dir() {
        let why = format!("`{}` is not a directory to work in", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let stdin = named(&spec.stdin, File::open(&spec.stdin))?;
    // Appending, so that two streams into one file do not write over each other.
    let append = |file: &Path| {
        let opened = OpenOptions::new().create(true).append(true).open(file);
        named(file, opened)
    };
    let (stdout, stderr) = (append(&spec.stdout)?, append(&spec.stderr)?);
    Ok(duct::cmd(program, arguments)
        .dir(dir)
        .full_env(environment)
        .stdin_file(stdin)
        .stdout_file(stdout)
        .stderr_file(stderr)
        .before_spawn(|command| {
            command.process_group(0);
            Ok(())
        })
        .unchecked())
}

fn named<T>(file: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        io::Error::new(error.kind(), format!("open `{}`: {error}", file.display()))
    })
}

#[derive(Debug)]
struct Group {
    leader: Pid,
    /// Locked while a signal is sent and while the leader is reaped: after the reap the number may
    /// be a stranger's.
    reaped: Mutex<bool>,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signals: &[Signal]) {
        let reaped = self.lock();
        if !*reaped {
            for signal in signals {
                // It fails for members of another user only, who cannot be helped.
                let _ = kill_process_group(self.leader, *signal);
            }
        }
    }

    fn wait(&self, handle: &duct::Handle) -> Outcome {
        let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = loop {
            match waitid(WaitId::Pid(self.leader), dead) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let mut reaped = self.lock();
        // An error means that the system has reaped it: the number is not ours any more.
        if waited.is_ok() {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        let status = handle.wait().map(|output| output.status);
        *reaped = true;
        drop(reaped);
        outcome(status.ok())
    }
}

fn outcome(status: Option<ExitStatus>) -> Outcome {
    let signal = status.and_then(|status| status.signal());
    match signal {
        Some(signal) => Outcome::Signaled { signal },
        None => {
            Outcome::Exited { exit_code: status.and_then(|status| status.code()).unwrap_or(-1) }
        }
    }
}

/// Whether this process has root's rights; Claude Code refuses to skip permissions with them.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether exactly this process still runs. A dead one that nobody has reaped does not.
pub fn is_alive(identity: &Identity) -> bool {
    found(identity).is_some_and(|stat| stat.alive())
}

/// After a crash of the runner: kills what is left of an agent's group, and says whether anything
/// was signalled. `marker` is a whole entry of the environment, as `RALPH_RUN_ID=r1`.
///
/// While the leader is there, its identity is the proof. When it is gone, each member of the group
/// must have the marker in the environment it was started with; members without it are left alone.
/// When the leader's number belongs to somebody else, the group is gone, since Linux does not give
/// a number away that a group still bears.
pub fn kill_group_of(identity: &Identity, marker: &str) -> bool {
    // A group of 1 or less would be everybody.
    let Some(leader) = number(identity.pid).filter(|_| identity.pid > 1) else {
        return false;
    };
    if !booted_as(identity) || getpgrp() == leader {
        return false;
    }
    match Stat::of(identity.pid) {
        Some(stat) if stat.start_time == identity.start_time => {
            kill_process_group(leader, Signal::KILL).is_ok()
        }
        Some(_) => false,
        None => kill_marked(identity.pid, marker),
    }
}

/// Goes over the processes until a pass finds no new one, because a member can start another
/// behind the back of a pass; one that has been killed cannot.
fn kill_marked(group: u32, marker: &str) -> bool {
    const PASSES: usize = 50;
    let mut killed = BTreeSet::new();
    for _ in 0..PASSES {
        let before = killed.len();
        let Ok(processes) = fs::read_dir("/proc") else {
            break;
        };
        for process in processes.flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid
                && !killed.contains(&pid)
                && kill_if(pid, || is_marked(pid, group, marker))
            {
                killed.insert(pid);
            }
        }
        if killed.len() == before {
            break;
        }
    }
    !killed.is_empty()
}

fn is_marked(pid: u32, group: u32, marker: &str) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.group == group && stat.alive())
        && fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes())
        })
}

/// The descriptor is taken before `ours` is asked, so that the process which is signalled is the
/// one which was asked about.
#[cfg(target_os = "linux")]
fn kill_if(pid: u32, ours: impl Fn() -> bool) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    if !ours() {
        return false;
    }
    number(pid)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .is_some_and(|process| ours() && pidfd_send_signal(&process, Signal::KILL).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn kill_if(pid: u32, ours: impl Fn() -> bool) -> bool {
    ours()
        && number(pid).is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
}

fn number(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Read once: a process does not outlive its boot.
fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    })
}

fn booted_as(identity: &Identity) -> bool {
    !identity.boot_id.is_empty() && identity.boot_id == boot_id()
}

fn found(identity: &Identity) -> Option<Stat> {
    Stat::of(identity.pid)
        .filter(|stat| booted_as(identity) && stat.start_time == identity.start_time)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    group: u32,
    start_time: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Field 2 is the program's name in parentheses and may itself contain spaces, parentheses and
    /// line ends; the fields after it cannot, so they are counted from the last parenthesis.
    fn parse(text: &[u8]) -> Option<Stat> {
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            state: *field(3)?.as_bytes().first()?,
            group: field(5)?.parse().ok()?,
            start_time: field(22)?.parse().ok()?,
        })
    }

    fn alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        process::{Child, Command, Stdio},
        sync::mpsc::{self, Receiver},
        time::{Duration, Instant},
    };

    use rustix::process::{WaitOptions, getpid, waitpid};
    use tempfile::TempDir;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds() {
            assert!(Instant::now() < deadline, "never: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    struct Bench {
        folder: TempDir,
        spec: Spec,
    }

    fn bench(script: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("prompt"), "").unwrap();
        let spec = Spec {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            dir: folder.path().to_owned(),
            env: Vec::new(),
            env_remove: Vec::new(),
            stdin: file("prompt"),
            stdout: file("out"),
            stderr: file("err"),
        };
        Bench { folder, spec }
    }

    impl Bench {
        fn start(&self) -> (Agent, Receiver<Outcome>) {
            let (sender, receiver) = mpsc::channel();
            let agent = Agent::spawn(&self.spec, move |outcome| sender.send(outcome).unwrap());
            (agent.unwrap(), receiver)
        }

        fn run(&self) -> Outcome {
            self.start().1.recv_timeout(SOON).unwrap()
        }

        fn out(&self) -> String {
            fs::read_to_string(&self.spec.stdout).unwrap()
        }

        /// Waits for the script to have written whole lines, and reads them.
        fn lines(&self, count: usize) -> Vec<String> {
            until("lines of output", || self.out().matches('\n').count() >= count);
            self.out().lines().map(str::to_owned).collect()
        }
    }

    fn exited(exit_code: i32) -> Outcome {
        Outcome::Exited { exit_code }
    }

    fn gone(pid: u32) -> bool {
        Stat::of(pid).is_none_or(|stat| !stat.alive())
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        for code in [0, 1, 42, 255] {
            assert_eq!(bench(&format!("exit {code}")).run(), exited(code));
        }
        for signal in [9, 15, 11] {
            let killed = bench(&format!("kill -{signal} $$")).run();
            assert_eq!(killed, Outcome::Signaled { signal });
        }
        assert_eq!(bench("kill -9 $$ & wait; exit 128").run(), Outcome::Signaled { signal: 9 });
    }

    #[test]
    fn a_child_that_ignores_term_falls_to_kill() {
        let bench = bench("trap '' TERM; echo ready; while :; do sleep 0.05; done");
        let (agent, ended) = bench.start();
        bench.lines(1);
        agent.terminate();
        assert!(ended.recv_timeout(Duration::from_millis(200)).is_err());
        agent.kill();
        assert_eq!(ended.recv_timeout(SOON), Ok(Outcome::Signaled { signal: 9 }));
        agent.kill();
        agent.terminate();
    }

    #[test]
    fn a_child_that_handles_term_says_its_own_code() {
        let bench = bench("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
        let (agent, ended) = bench.start();
        bench.lines(1);
        agent.terminate();
        assert_eq!(ended.recv_timeout(SOON), Ok(exited(7)));
    }

    #[test]
    fn a_stopped_child_ends_on_term() {
        let bench = bench("echo ready; kill -STOP $$; exit 3");
        let (agent, ended) = bench.start();
        let pid = agent.identity().pid;
        until("stopped", || Stat::of(pid).is_some_and(|stat| stat.state == b'T'));
        assert!(is_alive(agent.identity()));
        agent.terminate();
        assert_eq!(ended.recv_timeout(SOON), Ok(Outcome::Signaled { signal: 15 }));
    }

    #[test]
    fn what_stays_in_the_group_goes_with_the_leader() {
        let bench = bench("(trap '' TERM HUP; echo up; exec sleep 600) & echo $!; exit 5");
        let (_agent, ended) = bench.start();
        assert_eq!(ended.recv_timeout(SOON), Ok(exited(5)));
        let lines = bench.out();
        let pid = lines.lines().find_map(|line| line.parse().ok()).unwrap();
        until("the background child is gone", || gone(pid));
    }

    #[test]
    fn the_end_is_not_held_up_by_who_holds_the_output() {
        let bench = bench("setsid sleep 3 & exit 0");
        let start = Instant::now();
        assert_eq!(bench.run(), exited(0));
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn a_large_prompt_needs_no_reader() {
        let bench = bench("exit 0");
        fs::write(&bench.spec.stdin, vec![b'x'; 8 << 20]).unwrap();
        assert_eq!(bench.run(), exited(0));
    }

    #[test]
    fn a_large_prompt_is_read_whole() {
        let mut bench = bench("");
        bench.spec.argv = vec!["cat".to_owned()];
        let prompt: Vec<u8> = (0..8_u32 << 20).map(|at| (at % 251) as u8).collect();
        fs::write(&bench.spec.stdin, &prompt).unwrap();
        assert_eq!(bench.run(), exited(0));
        assert!(fs::read(&bench.spec.stdout).unwrap() == prompt);
    }

    #[test]
    fn both_streams_may_share_a_file_and_keep_what_it_held() {
        let mut bench = bench("echo one; echo two >&2; echo three");
        bench.spec.stderr.clone_from(&bench.spec.stdout);
        fs::write(&bench.spec.stdout, "zero\n").unwrap();
        assert_eq!(bench.run(), exited(0));
        assert_eq!(bench.out(), "zero\none\ntwo\nthree\n");
    }

    #[test]
    fn the_child_sees_its_directory_and_environment() {
        let mut bench = bench("/bin/pwd; echo \"$PWD|$ADDED|${HOME-none}|${PATH:+some}\"");
        bench.spec.env = vec![("ADDED".to_owned(), "a b=c".to_owned())];
        bench.spec.env_remove = vec!["HOME".to_owned(), "NOT_THERE".to_owned()];
        assert_eq!(bench.run(), exited(0));
        let real = bench.folder.path().canonicalize().unwrap();
        let want = format!("{}\n{}|a b=c|none|some\n", real.display(), bench.spec.dir.display());
        assert_eq!(bench.out(), want);
    }

    #[test]
    fn the_child_leads_a_group_of_its_own() {
        let bench = bench("echo up; while :; do sleep 0.05; done");
        let (agent, ended) = bench.start();
        let pid = agent.identity().pid;
        assert_eq!(Stat::of(pid).unwrap().group, pid);
        agent.kill();
        ended.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let start = |change: &dyn Fn(&mut Spec)| {
            let mut bench = bench("exit 0");
            change(&mut bench.spec);
            let called = |_| panic!("nothing ran");
            Agent::spawn(&bench.spec, called).unwrap_err().to_string()
        };
        assert_eq!(
            start(&|spec| spec.argv = vec!["no-such-agent".to_owned()]),
            "`no-such-agent` is not on PATH"
        );
        assert_eq!(start(&|spec| spec.argv.clear()), "the command is empty");
        assert!(start(&|spec| spec.stdin = "/no/prompt".into()).starts_with("open `/no/prompt`:"));
        assert!(start(&|spec| spec.stdout = "/no/out".into()).starts_with("open `/no/out`:"));
        assert!(start(&|spec| spec.dir = "/no/dir".into()).contains("`/no/dir`"));
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

    #[test]
    fn an_identity_holds_for_one_process_only() {
        let bench = bench("echo up; while :; do sleep 0.05; done");
        let (agent, ended) = bench.start();
        let identity = agent.identity().clone();
        assert!(is_alive(&identity));
        let json = serde_json::to_string(&identity).unwrap();
        assert_eq!(serde_json::from_str::<Identity>(&json).unwrap(), identity);
        let marker = "RALPH_RUN_ID=r1";
        let others = [
            Identity { start_time: identity.start_time + 1, ..identity.clone() },
            Identity { boot_id: "other".to_owned(), ..identity.clone() },
            Identity { boot_id: String::new(), ..identity.clone() },
            Identity { pid: 0, ..identity.clone() },
            Identity { pid: 1, ..identity.clone() },
            Identity { pid: u32::MAX, ..identity.clone() },
        ];
        for other in &others {
            assert!(!is_alive(other) && !kill_group_of(other, marker), "{other:?}");
        }
        assert!(is_alive(&identity));
        assert!(kill_group_of(&identity, marker));
        assert_eq!(ended.recv_timeout(SOON), Ok(Outcome::Signaled { signal: 9 }));
        assert!(!is_alive(&identity), "reaped");
        assert!(!kill_group_of(&identity, marker));
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        until("dead", || gone(pid));
        let identity = Identity {
            boot_id: boot_id().to_owned(),
            pid,
            start_time: Stat::of(pid).unwrap().start_time,
        };
        assert!(!is_alive(&identity));
        child.wait().unwrap();
    }

    /// A group whose leader is gone: two members with the marker, one without.
    fn orphans(marker: &str) -> (Identity, Vec<u32>) {
        let (name, value) = marker.split_once('=').unwrap();
        let script = "sleep 600 & echo $!; sleep 600 & echo $!; \
                      env -i sleep 600 & echo $!; read line";
        let mut leader: Child = Command::new("sh")
            .args(["-c", script])
            .env(name, value)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = io::BufReader::new(leader.stdout.take().unwrap());
        let members = (0..3)
            .map(|_| {
                let mut line = String::new();
                io::BufRead::read_line(&mut reader, &mut line).unwrap();
                line.trim().parse().unwrap()
            })
            .collect();
        let pid = leader.id();
        let start_time = Stat::of(pid).unwrap().start_time;
        leader.stdin.take().unwrap().write_all(b"\n").unwrap();
        leader.wait().unwrap();
        let boot_id = boot_id().to_owned();
        (Identity { boot_id, pid, start_time }, members)
    }

    #[test]
    fn without_its_leader_only_marked_members_are_killed() {
        let marker = format!("RALPH_RUN_ID=r{}", getpid().as_raw_nonzero());
        let (identity, members) = orphans(&marker);
        let [first, second, stranger] = members[..] else { panic!("three members") };
        until("started", || {
            members.iter().all(|pid| {
                fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.starts_with(b"sleep"))
            })
        });
        assert!(!kill_group_of(&identity, "RALPH_RUN_ID=r"), "the marker counts as a whole");
        let rebooted = Identity { boot_id: "other".to_owned(), ..identity.clone() };
        assert!(!kill_group_of(&rebooted, &marker));
        assert!(members.iter().all(|pid| !gone(*pid)));
        assert!(kill_group_of(&identity, &marker));
        until("the marked are gone", || gone(first) && gone(second));
        assert!(!gone(stranger));
        assert!(!kill_group_of(&identity, &marker));
        assert!(!gone(stranger));
        rustix::process::kill_process(number(stranger).unwrap(), Signal::KILL).unwrap();
        let _ = waitpid(number(stranger), WaitOptions::empty());
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let tail = "S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 9 9";
        let want = Stat { state: b'S', group: 77, start_time: 4242 };
        for name in ["sh", "a b", ") R 1 (", "\n)", "\u{e4}"] {
            let text = format!("77 ({name}) {tail}");
            assert_eq!(Stat::parse(text.as_bytes()).as_ref(), Some(&want), "{name}");
        }
        for text in ["", "77 (sh", "77 (sh)", "77 (sh) S 1 x"] {
            assert_eq!(Stat::parse(text.as_bytes()), None);
        }
    }

    /// Prints figures and asserts only what no load can break.
    #[test]
    #[ignore = "a measurement"]
    fn measure_spawn_and_end() {
        const ROUNDS: usize = 200;
        let median = |mut times: Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let mut bench = bench("");
        bench.spec.argv = vec!["/bin/true".to_owned()];
        let (mut spawned, mut whole, mut plain, mut plain_whole) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let (_agent, ended) = bench.start();
            spawned.push(start.elapsed());
            ended.recv_timeout(SOON).unwrap();
            whole.push(start.elapsed());
            let start = Instant::now();
            let mut child = Command::new("/bin/true").stdout(Stdio::null()).spawn().unwrap();
            plain.push(start.elapsed());
            child.wait().unwrap();
            plain_whole.push(start.elapsed());
        }
        println!(
            "spawn {:?} (std {:?}), to ended {:?} (std {:?})",
            median(spawned),
            median(plain),
            median(whole),
            median(plain_whole)
        );
        let mut noticed = vec![];
        bench.spec.argv = ["sleep", "600"].map(str::to_owned).to_vec();
        for _ in 0..ROUNDS {
            let (agent, ended) = bench.start();
            let start = Instant::now();
            agent.kill();
            ended.recv_timeout(SOON).unwrap();
            noticed.push(start.elapsed());
        }
        println!("kill to ended {:?}", median(noticed));
    }
}
