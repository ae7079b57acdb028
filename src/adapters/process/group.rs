//! One process: started in a group of its own, waited for without polling, ended as a group.
//!
//! The waiter thread waits for the leader *without reaping it*. The leader stays unreaped until the
//! caller has handled the rest of the group and calls `reap`. A process that is dead and not reaped
//! keeps its number, so the number of the group cannot be reused meanwhile; after the reap it can.
//! duct has no such wait and signals no groups, so rustix does both: the `duct::Handle` is used
//! only after the process is dead, when its own wait returns at once and only reaps.

use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid},
};

use super::{
    Identity, ProcessSpec,
    program::{self, NoProgram},
    tree::{identity_of, number},
};
use crate::core::verdict::Outcome;

/// A started process and its group.
#[derive(Debug)]
pub(super) struct Process {
    identity: Identity,
    group: Arc<ProcessGroup>,
    handle: duct::Handle,
}

impl Process {
    /// Starts the process and a thread that calls `ended` when the process is over, for whatever
    /// reason. The rest of its group still runs then, and can be signalled until
    /// [`reap`](Self::reap).
    ///
    /// `ended` gets [`Outcome::Exited`] or [`Outcome::Signaled`]. If the status is lost, because a
    /// parent set SIGCHLD to be ignored, the exit code is -1.
    ///
    /// # Errors
    /// When a file cannot be opened, the program is not found or cannot be executed, or the system
    /// cannot create a process or thread. Nothing runs then, and `ended` is not called.
    pub(super) fn spawn(
        spec: &ProcessSpec,
        stdout: impl Into<OwnedFd>,
        stderr: impl Into<OwnedFd>,
        ended: impl FnOnce(Outcome) + Send + 'static,
    ) -> io::Result<Process> {
        let stdin = || Ok(named(&spec.stdin, File::open(&spec.stdin))?.into());
        Process::spawn_reading(spec, stdin, stdout, stderr, ended)
    }

    /// Like [`spawn`](Self::spawn), with another standard input than the file of `spec`.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn), and those of `stdin`.
    pub(super) fn spawn_reading(
        spec: &ProcessSpec,
        stdin: impl FnOnce() -> io::Result<OwnedFd>,
        stdout: impl Into<OwnedFd>,
        stderr: impl Into<OwnedFd>,
        ended: impl FnOnce(Outcome) + Send + 'static,
    ) -> io::Result<Process> {
        let (program, command) = command(spec, stdin, stdout.into(), stderr.into())?;
        let handle = command.start().map_err(|error| NoProgram::of_start(&program, error))?;
        let pid = *handle.pids().first().expect("a started command has a process");
        // Nothing can reap the process before the waiter exists, so that even a process that is
        // already over has its entry in /proc.
        let identity = identity_of(pid);
        let leader = number(pid).expect("the number of a child is positive");
        let group = Arc::new(ProcessGroup { leader, reaped: Mutex::new(false) });
        let watched = Arc::clone(&group);
        let waiter =
            thread::Builder::new().name("agent".to_owned()).spawn(move || ended(watched.wait()));
        let process = Process { identity, group, handle };
        if let Err(error) = waiter {
            process.kill();
            process.reap();
            return Err(error);
        }
        Ok(process)
    }

    /// The identity of the process.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Sends INT to the group. Does nothing once the process is reaped.
    pub(super) fn interrupt(&self) {
        // A stopped process handles INT only after it is continued.
        self.group.signal(&[Signal::INT, Signal::CONT]);
    }

    /// Sends TERM to the group. Does nothing once the process is reaped.
    pub(super) fn terminate(&self) {
        let signals: &[Signal] = if crate::core::known_bug::is_on("no-continue") {
            &[Signal::TERM]
        } else {
            // A stopped process handles TERM only after it is continued.
            &[Signal::TERM, Signal::CONT]
        };
        self.group.signal(signals);
    }

    /// Kills the group. Does nothing once the process is reaped.
    pub(super) fn kill(&self) {
        self.group.signal(&[Signal::KILL]);
    }

    /// Waits for the end of the process and reaps it.
    pub(super) fn reap(&self) {
        let mut reaped = self.group.lock();
        let _ = self.handle.wait();
        *reaped = true;
    }
}

/// Returns the program and the command that runs it.
///
/// The program is made absolute because duct passes the whole environment, and std takes its fast
/// path (`posix_spawn`) with a changed `PATH` only if it need not search it.
fn command(
    spec: &ProcessSpec,
    stdin: impl FnOnce() -> io::Result<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
) -> io::Result<(PathBuf, duct::Expression)> {
    let (program, arguments) = spec
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let dir = path::absolute(&spec.dir)?;
    if !dir.is_dir() {
        let why = format!("`{}` is not a directory", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let mut environment = environment(spec);
    environment.insert("PWD".into(), dir.clone().into());
    let search = environment.get(OsStr::new("PATH"));
    let program = program::find(program, &dir, search.map(OsString::as_os_str))?;
    let stdin = stdin()?;
    let command = duct::cmd(&program, arguments)
        .dir(dir)
        .full_env(environment)
        .stdin_file(stdin)
        .stdout_file(stdout)
        .stderr_file(stderr)
        .before_spawn(|command| {
            command.process_group(0);
            Ok(())
        })
        .unchecked();
    Ok((program, command))
}

/// Checks that the program of a process can be executed, as far as that can be seen.
///
/// # Errors
/// A message for a person.
pub fn check(spec: &ProcessSpec) -> Result<(), String> {
    let program = spec.argv.first().map_or("", String::as_str);
    let environment = environment(spec);
    let search = environment.get(OsStr::new("PATH"));
    let found = program::find(program, &spec.dir, search.map(OsString::as_os_str));
    found.map(drop).map_err(|why| why.0)
}

/// The environment that a process of this specification gets, apart from `PWD`.
pub(super) fn environment(spec: &ProcessSpec) -> HashMap<OsString, OsString> {
    let mut environment: HashMap<OsString, OsString> = env::vars_os().collect();
    for name in &spec.env_remove {
        environment.remove(OsStr::new(name));
    }
    for (name, value) in &spec.env {
        environment.insert(name.into(), value.into());
    }
    environment
}

fn named<T>(file: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        io::Error::new(error.kind(), format!("open `{}`: {error}", file.display()))
    })
}

#[derive(Debug)]
struct ProcessGroup {
    leader: Pid,
    /// Locked while a signal is sent and while the leader is reaped: after the reap the number may
    /// belong to another process.
    reaped: Mutex<bool>,
}

impl ProcessGroup {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signals: &[Signal]) {
        let reaped = self.lock();
        if !*reaped {
            for signal in signals {
                // Fails only for processes of another user, which cannot be signalled.
                let _ = kill_process_group(self.leader, *signal);
            }
        }
    }

    /// Waits until the leader is dead, and does not reap it.
    fn wait(&self) -> Outcome {
        let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = loop {
            match waitid(WaitId::Pid(self.leader), dead) {
                Err(Errno::INTR) => {}
                Ok(status) => break status,
                Err(_) => {
                    // The system has reaped it: the number is no longer ours.
                    *self.lock() = true;
                    break None;
                }
            }
        };
        let status = status.as_ref();
        outcome(
            status.and_then(WaitIdStatus::exit_status),
            status.and_then(WaitIdStatus::terminating_signal),
        )
    }
}

/// The outcome of a process with this exit code or ended by this signal.
pub(super) fn outcome(code: Option<i32>, signal: Option<i32>) -> Outcome {
    match signal {
        Some(signal) => Outcome::Signaled { signal },
        None => Outcome::Exited { exit_code: code.unwrap_or(-1) },
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::mpsc::{self, Receiver},
        time::{Duration, Instant},
    };

    use tempfile::TempDir;

    use super::{
        super::tree::{Stat, is_alive},
        *,
    };

    const SOON: Duration = Duration::from_secs(20);

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds() {
            assert!(Instant::now() < deadline, "never: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn open(path: &Path) -> File {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    struct GroupBench {
        folder: TempDir,
        spec: ProcessSpec,
    }

    fn bench(script: &str) -> GroupBench {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("prompt"), "").unwrap();
        let spec = ProcessSpec {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            dir: folder.path().to_owned(),
            env: Vec::new(),
            env_remove: Vec::new(),
            stdin: file("prompt"),
            stdout: file("out"),
            stderr: file("err"),
        };
        GroupBench { folder, spec }
    }

    impl GroupBench {
        fn start(&self) -> (Process, Receiver<Outcome>) {
            let (sender, receiver) = mpsc::channel();
            let (stdout, stderr) = (open(&self.spec.stdout), open(&self.spec.stderr));
            let told = move |outcome| sender.send(outcome).unwrap();
            (Process::spawn(&self.spec, stdout, stderr, told).unwrap(), receiver)
        }

        fn run(&self) -> Outcome {
            self.start().1.recv_timeout(SOON).unwrap()
        }

        fn out(&self) -> String {
            fs::read_to_string(&self.spec.stdout).unwrap()
        }

        /// Waits until the script has written complete lines, and reads them.
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
    fn exit_codes_and_signals_differ() {
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
    fn a_child_that_ignores_term_is_killed() {
        let bench = bench("trap '' TERM; echo ready; while :; do sleep 0.05; done");
        let (process, ended) = bench.start();
        bench.lines(1);
        process.terminate();
        assert!(ended.recv_timeout(Duration::from_millis(200)).is_err());
        process.kill();
        assert_eq!(ended.recv_timeout(SOON), Ok(Outcome::Signaled { signal: 9 }));
        process.reap();
        process.kill();
        process.terminate();
    }

    #[test]
    fn a_child_that_handles_term_keeps_its_exit_code() {
        let bench = bench("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
        let (process, ended) = bench.start();
        bench.lines(1);
        process.terminate();
        assert_eq!(ended.recv_timeout(SOON), Ok(exited(7)));
    }

    #[test]
    fn a_stopped_child_ends_on_term() {
        let bench = bench("echo ready; kill -STOP $$; exit 3");
        let (process, ended) = bench.start();
        let pid = process.identity().pid;
        until("stopped", || Stat::of(pid).is_some_and(|stat| stat.state == b'T'));
        assert!(is_alive(process.identity()));
        process.terminate();
        assert_eq!(ended.recv_timeout(SOON), Ok(Outcome::Signaled { signal: 15 }));
    }

    #[test]
    fn the_rest_of_a_group_can_be_killed_until_the_reap() {
        let bench = bench("(trap '' TERM HUP; echo up; exec sleep 600) & echo $!; exit 5");
        let (process, ended) = bench.start();
        assert_eq!(ended.recv_timeout(SOON), Ok(exited(5)));
        let lines = bench.out();
        let pid = lines.lines().find_map(|line| line.parse().ok()).unwrap();
        assert!(!gone(pid) && Stat::of(process.identity().pid).is_some(), "dead and not reaped");
        process.kill();
        process.reap();
        until("the background child is gone", || gone(pid));
        assert_eq!(Stat::of(process.identity().pid), None);
    }

    #[test]
    fn an_open_pipe_does_not_delay_the_end() {
        let bench = bench("setsid sleep 60 & exit 0");
        let start = Instant::now();
        assert_eq!(bench.run(), exited(0));
        assert!(start.elapsed() < Duration::from_secs(50), "it was waited for");
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
        let (process, ended) = bench.start();
        let pid = process.identity().pid;
        assert_eq!(Stat::of(pid).unwrap().group, pid);
        process.kill();
        ended.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let start = |change: &dyn Fn(&mut ProcessSpec)| {
            let mut bench = bench("exit 0");
            change(&mut bench.spec);
            let called = |_| panic!("nothing ran");
            let null = || File::create("/dev/null").unwrap();
            Process::spawn(&bench.spec, null(), null(), called).unwrap_err().to_string()
        };
        assert_eq!(
            start(&|spec| spec.argv = vec!["no-such-agent".to_owned()]),
            "`no-such-agent` is not on PATH"
        );
        assert_eq!(start(&|spec| spec.argv.clear()), "the command is empty");
        assert!(start(&|spec| spec.stdin = "/no/prompt".into()).starts_with("open `/no/prompt`:"));
        assert!(start(&|spec| spec.dir = "/no/dir".into()).contains("`/no/dir`"));
    }

    #[test]
    fn an_identity_holds_for_one_process_only() {
        let bench = bench("echo up; while :; do sleep 0.05; done");
        let (process, ended) = bench.start();
        let identity = process.identity().clone();
        assert!(is_alive(&identity));
        let json = serde_json::to_string(&identity).unwrap();
        assert_eq!(serde_json::from_str::<Identity>(&json).unwrap(), identity);
        let others = [
            Identity { start_time: identity.start_time + 1, ..identity.clone() },
            Identity { boot_id: "other".to_owned(), ..identity.clone() },
            Identity { boot_id: String::new(), ..identity.clone() },
            Identity { pid_namespace: 1, ..identity.clone() },
            Identity { pid: 0, ..identity.clone() },
            Identity { pid: 1, ..identity.clone() },
            Identity { pid: u32::MAX, ..identity.clone() },
        ];
        for other in &others {
            assert!(!is_alive(other), "{other:?}");
        }
        assert!(is_alive(&identity));
        process.kill();
        assert_eq!(ended.recv_timeout(SOON), Ok(Outcome::Signaled { signal: 9 }));
        assert!(!is_alive(&identity), "reaped");
    }
}
