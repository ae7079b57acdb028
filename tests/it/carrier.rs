//! Agents behind carriers: real carriers, workers, guardians and agents, every way in which one of
//! them can end, and what is left then.
//!
//! A far host is a thread that starts workers as `sshd` does: with another environment, as children
//! of another process, and connected by nothing but a line in each direction.

mod sent;

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use ralph::{
    adapters::process::{
        AgentProcess, Carrier, Closed, GuardianCommand, GuardianProgram, GuardianSpec, NotStarted,
        ProcessNews, ProcessSpec, StartFault, WorkTransfer, is_alive,
    },
    core::verdict::Outcome,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::{RALPH, SOON, until, wait_for};

/// Calls the host in the folder `$0`: both directions are named pipes.
const CALL: &str = "[ -p \"$0/calls\" ] || exit 255\n\
                    mkfifo \"$0/in.$$\" \"$0/out.$$\"; echo $$ > \"$0/calls\"\n\
                    cat \"$0/out.$$\" &\nexec cat > \"$0/in.$$\"\n";

/// A machine that a carrier reaches.
struct FarHost {
    dir: PathBuf,
    workers: Arc<Mutex<Vec<u32>>>,
}

impl FarHost {
    fn start(dir: &Path) -> FarHost {
        fs::create_dir(dir).unwrap();
        assert!(Command::new("mkfifo").arg(dir.join("calls")).status().unwrap().success());
        let workers: Arc<Mutex<Vec<u32>>> = Arc::default();
        let (own, list) = (dir.to_owned(), Arc::clone(&workers));
        thread::spawn(move || {
            // Open for writing as well, so that it does not end after the first call.
            let calls = File::options().read(true).write(true).open(own.join("calls")).unwrap();
            for number in BufReader::new(calls).lines().map_while(Result::ok) {
                let home = own.join("home");
                let _ = fs::create_dir(&home);
                let mut command = Command::new("sh");
                command
                    .args(["-c", "exec \"$1\" __worker < \"$0/in.$2\" > \"$0/out.$2\""])
                    .args([own.as_os_str(), RALPH.as_ref(), number.as_ref()])
                    .env_clear()
                    .env("PATH", std::env::var("PATH").unwrap())
                    .env("HOME", home)
                    .env("THERE", "yes")
                    .current_dir("/")
                    .process_group(0)
                    .stdin(Stdio::null());
                let mut worker = command.spawn().unwrap();
                list.lock().unwrap().push(worker.id());
                thread::spawn(move || worker.wait());
            }
        });
        FarHost { dir: dir.to_owned(), workers }
    }

    fn carrier(&self) -> Vec<String> {
        ["sh", "-c", CALL, self.dir.to_str().unwrap()].map(str::to_owned).to_vec()
    }

    fn all_workers_end(&self) {
        let is_alive = |worker: &u32| {
            let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        until("the workers end", || !self.workers.lock().unwrap().iter().any(is_alive));
    }

    fn worker(&self) -> Pid {
        until("a worker", || !self.workers.lock().unwrap().is_empty());
        let last = *self.workers.lock().unwrap().last().unwrap();
        Pid::from_raw(i32::try_from(last).unwrap()).unwrap()
    }
}

impl Drop for FarHost {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.all_workers_end();
        }
    }
}

/// An attempt whose agent is a script in the folder `there`.
struct CarriedAgent {
    folder: TempDir,
    spec: ProcessSpec,
    argv: Vec<String>,
    transfer: Option<WorkTransfer>,
    idle: Option<Duration>,
}

/// An agent that is about to run.
struct Underway {
    agent: AgentProcess,
    news: Receiver<ProcessNews>,
}

impl CarriedAgent {
    fn new(script: &str) -> CarriedAgent {
        let folder = tempfile::Builder::new().prefix("carried-").tempdir().unwrap();
        let dir = folder.path().canonicalize().unwrap();
        let there = dir.join("there");
        fs::create_dir(&there).unwrap();
        fs::write(there.join("agent"), script).unwrap();
        fs::write(dir.join("record"), "").unwrap();
        fs::write(dir.join("prompt"), "the prompt\n").unwrap();
        let spec = ProcessSpec {
            argv: vec!["sh".to_owned(), there.join("agent").display().to_string()],
            dir: there,
            env: vec![("RALPH_ATTEMPT_ID".to_owned(), "r1.a.1".to_owned())],
            env_remove: Vec::new(),
            stdin: dir.join("prompt"),
            stdout: dir.join("stdout"),
            stderr: dir.join("stderr"),
        };
        let argv = ["sh", "-c", "exec \"$@\"", "_", RALPH, "__worker"];
        let argv = argv.map(str::to_owned).to_vec();
        CarriedAgent { folder, spec, argv, transfer: None, idle: None }
    }

    /// The same agent at a far host.
    fn far(mut self) -> (CarriedAgent, FarHost) {
        let host = FarHost::start(&self.folder.path().canonicalize().unwrap().join("host"));
        self.argv = host.carrier();
        (self, host)
    }

    fn carried_by(mut self, script: &str) -> CarriedAgent {
        self.argv = ["sh", "-c", script, RALPH].map(str::to_owned).to_vec();
        self
    }

    fn env(mut self, name: &str, value: &str) -> CarriedAgent {
        self.spec.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.spec.dir.join(name)
    }

    fn try_start(&self) -> Result<Underway, NotStarted> {
        let (tell, news) = mpsc::channel();
        let dir = self.folder.path();
        let lock = File::open(dir).unwrap();
        let carrier = Carrier {
            executor: "far".to_owned(),
            argv: self.argv.clone(),
            image: None,
            transfer: self.transfer.clone(),
            patience_seconds: 0,
            recovers: false,
            signs: None,
        };
        let guardians = GuardianProgram::of(RALPH.into(), &lock).unwrap();
        let record = dir.canonicalize().unwrap().join("record");
        let spec = GuardianSpec {
            exit: Some(dir.join("exit.json")),
            idle: self.idle,
            carrier: Some(carrier),
            ..GuardianSpec::new(self.spec.clone(), record)
        };
        let agent = AgentProcess::spawn(&guardians, &spec, move |told| drop(tell.send(told)))?;
        Ok(Underway { agent, news })
    }

    fn start(&self) -> Underway {
        self.try_start().unwrap()
    }

    fn run(&self) -> Closed {
        self.start().closed()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// The processes of the agent that are alive.
    fn alive(&self) -> Vec<i32> {
        let there = self.spec.dir.to_str().unwrap().as_bytes().to_vec();
        let is_own = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1).is_some_and(|word| word.starts_with(&there))
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_own).collect()
    }

    fn nothing_is_left(&self) {
        until("nothing is left", || self.alive().is_empty());
    }
}

/// The end of an agent.
fn closed(news: &Receiver<ProcessNews>) -> Closed {
    loop {
        if let ProcessNews::Closed(closed) = news.recv_timeout(SOON).unwrap() {
            return closed;
        }
    }
}

impl Underway {
    /// The next news but those of silence, which a loaded machine causes.
    fn next(&self) -> ProcessNews {
        loop {
            match self.news.recv_timeout(SOON).unwrap() {
                ProcessNews::Contact(_) => {}
                news => return news,
            }
        }
    }

    /// Waits until the agent runs.
    fn arrived(self) -> Underway {
        let news = self.next();
        assert!(matches!(news, ProcessNews::Arrived(_)), "{news:?}");
        self
    }

    /// Waits until the agent is gone and its work is being fetched.
    fn wait_for_fetch(&self) {
        while self.next() != ProcessNews::Fetching {}
    }

    fn closed(&self) -> Closed {
        closed(&self.news)
    }
}

fn exited(exit_code: i32) -> Outcome {
    Outcome::Exited { exit_code }
}

/// The reason of a loss.
fn why(closed: Closed) -> String {
    match closed.outcome {
        Some(Outcome::Lost { executor, why }) if executor == "far" => why,
        outcome => panic!("not lost: {outcome:?}"),
    }
}

/// An agent that has started two children, one in a process group of its own, and waits.
const FAMILY: &str = "sh \"$PWD/kid\" & setsid sh \"$PWD/kid\" & : > up; read -r _ < never\n";

fn family() -> CarriedAgent {
    let agent = CarriedAgent::new(FAMILY);
    fs::write(agent.path("kid"), ": > kid.$$; read -r _ < \"$PWD/never\"\n").unwrap();
    assert!(Command::new("mkfifo").arg(agent.path("never")).status().unwrap().success());
    agent
}

impl CarriedAgent {
    /// Waits until all three of the family run.
    fn wait_for_family(&self) {
        wait_for(&self.path("up"));
        until("three processes", || self.alive().len() == 3);
    }
}

#[test]
fn an_agent_behind_a_carrier_is_like_one_here() {
    let script = "cat; echo \"$PWD $ADDED $THERE\"; echo problem >&2; exit 7\n";
    let near = CarriedAgent::new(script).env("ADDED", "a b");
    let bare = CarriedAgent::new(script)
        .env("ADDED", "a b")
        .carried_by("exec env -i PATH=\"$PATH\" HOME=/nonexistent THERE=yes \"$0\" __worker");
    let (far, _host) = CarriedAgent::new(script).env("ADDED", "a b").far();
    for (agent, there) in [(near, ""), (bare, "yes"), (far, "yes")] {
        let closed = agent.run();
        assert_eq!(closed, Closed { outcome: Some(exited(7)), ..Closed::default() });
        let want = format!("the prompt\n{} a b {there}\n", agent.spec.dir.display());
        assert_eq!((agent.read("stdout"), agent.read("stderr").as_str()), (want, "problem\n"));
        assert!(agent.read("exit.json").contains("\"exit_code\":7"));
    }
}

#[test]
fn streams_that_share_a_file_keep_their_order() {
    let mut agent = CarriedAgent::new("for n in 1 2 3 4 5; do echo $n; echo $n >&2; done\n");
    agent.spec.stderr.clone_from(&agent.spec.stdout);
    assert_eq!(agent.run().outcome, Some(exited(0)));
    assert_eq!(agent.read("stdout"), "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n");
}

#[test]
fn a_greeting_before_the_worker_is_skipped_up_to_a_bound() {
    let greeting = "echo 'Welcome!'; echo '{\"json\": 1}'; printf 'Last login: never';";
    let agent =
        CarriedAgent::new("echo done\n").carried_by(&format!("{greeting} exec \"$0\" __worker"));
    assert_eq!(agent.run().outcome, Some(exited(0)));
    assert_eq!(agent.read("stdout"), "done\n");
    for endless in ["yes rubbish", "cat /dev/zero", "yes rubbish | tr -d '\\n'"] {
        let agent =
            CarriedAgent::new("echo done\n").carried_by(&format!("exec 3>&1; {endless} >&3"));
        why(agent.run());
        assert_eq!(agent.read("stdout"), "");
    }
    let agent =
        CarriedAgent::new("").carried_by("\"$0\" __worker | sed -u 's/\"ready\"/\"rubbish\"/'");
    assert!(why(agent.run()).contains("rubbish"));
}

#[test]
fn another_version_is_named() {
    let hello =
        r#"{"hello":{"protocol":9,"version":"9.9.9","host":"moon","program":"/bin/ralph"}}"#;
    let agent = CarriedAgent::new("").carried_by(&format!("echo '{hello}'; exec cat > /dev/null"));
    let closed = agent.run();
    assert_eq!(closed.fault, Some(StartFault::Executor));
    let error = why(closed);
    for part in ["moon", "/bin/ralph", "9.9.9", env!("CARGO_PKG_VERSION")] {
        assert!(error.contains(part), "{error} does not name {part}");
    }
}

#[test]
fn a_worker_answers_other_versions_and_refuses_other_input() {
    let answer = |text: &str| {
        let mut worker = Command::new(RALPH);
        let pipes = worker.arg("__worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut worker = pipes.stderr(Stdio::null()).spawn().unwrap();
        let mut input = worker.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(worker.stdout.take().unwrap());
        // The other side goes once it knows the version.
        while text.contains("begin") && !said.contains("hello") {
            assert!(output.read_line(&mut said).unwrap() > 0, "{said}");
        }
        drop(input);
        output.read_to_string(&mut said).unwrap();
        (worker.wait().unwrap().code(), said)
    };
    let (code, said) = answer("{\"begin\":{\"protocol\":9,\"version\":\"9.9.9\",\"new\":1}}\n");
    assert_eq!(code, Some(0));
    assert!(said.contains("\"hello\"") && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    for text in ["", "hello\n", "{\"start\":1}\n"] {
        assert_eq!(answer(text), (Some(1), String::new()), "{text}");
    }
}

#[test]
fn a_carrier_that_cannot_be_started_differs_from_one_that_reaches_nothing() {
    let mut agent = CarriedAgent::new("");
    agent.argv = vec!["no-such-carrier".to_owned()];
    assert!(
        matches!(agent.try_start(), Err(NotStarted::Executor(fault)) if fault.lasts && fault.why.contains("no-such"))
    );
    let agent = CarriedAgent::new("").carried_by("echo \"sh: ralph: not found\" >&2; exit 127");
    let closed = agent.run();
    assert_eq!(closed.fault, Some(StartFault::Executor));
    let error = why(closed);
    assert!(error.contains("ralph: not found"), "{error}");
    let agent = CarriedAgent::new("").carried_by("echo 'moon: no route to host' >&2; exit 255");
    let why = why(agent.run());
    assert!(why.contains("255") && why.contains("no route to host"), "{why}");
}

#[test]
fn a_program_that_is_missing_there_is_told() {
    let mut agent = CarriedAgent::new("");
    agent.spec.argv = vec!["no-such-agent".to_owned()];
    let closed = agent.run();
    assert_eq!(closed.fault, Some(StartFault::Program));
    let Some(Outcome::NotStarted { error }) = closed.outcome else {
        panic!("{closed:?}");
    };
    assert!(error.contains("no-such-agent") && error.contains("far"), "{error}");
}

#[test]
fn a_large_prompt_arrives_whole_even_if_it_is_not_read() {
    let agent = CarriedAgent::new("cat\n");
    let prompt: Vec<u8> = (0..5_u32 << 20).map(|at| b'a' + (at % 23) as u8).collect();
    fs::write(&agent.spec.stdin, &prompt).unwrap();
    assert_eq!(agent.run().outcome, Some(exited(0)));
    assert!(fs::read(&agent.spec.stdout).unwrap() == prompt);
    let agent = CarriedAgent::new("exit 3\n");
    fs::write(&agent.spec.stdin, &prompt).unwrap();
    assert_eq!(agent.run().outcome, Some(exited(3)));
}

/// The most memory that a process has had, in KiB.
fn peak(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

#[test]
#[ignore = "slow"]
fn a_flood_needs_little_memory_and_is_bounded_in_the_files() {
    let script = "head -c 50000000 /dev/zero | tr '\\0' 'x'; echo; echo end; : > up\n\
                  read -r _ < never; exit 0\n";
    let (agent, host) = CarriedAgent::new(script).far();
    assert!(Command::new("mkfifo").arg(agent.path("never")).status().unwrap().success());
    let running = agent.start().arrived();
    // A runner side that does not read for a while must not make the other one store everything.
    let guardian = pid(running.agent.guardian().pid);
    kill_process(guardian, Signal::STOP).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert!(!agent.path("up").exists(), "something stored all of it");
    kill_process(guardian, Signal::CONT).unwrap();
    wait_for(&agent.path("up"));
    for process in [guardian, host.worker()] {
        let peak = peak(process);
        assert!(peak < 64 << 10, "{peak} KiB");
    }
    drop(OpenOptions::new().write(true).open(agent.path("never")).unwrap());
    assert_eq!(running.closed().outcome, Some(exited(0)));
    assert!(agent.read("stdout").ends_with("\nend\n"));
    assert!(fs::metadata(&agent.spec.stdout).unwrap().len() >= 50_000_000);
}

#[test]
fn secrets_of_both_sides_are_removed() {
    let script = "echo \"$OTHER_TOKEN\"; echo \"$HERE_TOKEN\"\n";
    let agent = CarriedAgent::new(script)
        .env("HERE_TOKEN", "abcdefgh12345678")
        .carried_by("OTHER_TOKEN=stuvwxyz87654321 exec \"$0\" __worker");
    assert_eq!(agent.run().outcome, Some(exited(0)));
    assert_eq!(agent.read("stdout"), "[redacted]\n[redacted]\n");
}

#[test]
fn signals_reach_the_agent() {
    let script = "trap 'echo int; exit 3' INT; trap 'echo term; exit 4' TERM; : > up\n\
                  while :; do sleep 0.05; done\n";
    for (order, outcome, said) in [
        (GuardianCommand::Interrupt, Outcome::Exited { exit_code: 3 }, "int\n"),
        (GuardianCommand::Terminate, Outcome::Exited { exit_code: 4 }, "term\n"),
        (GuardianCommand::Kill, Outcome::Signaled { signal: 9 }, ""),
    ] {
        let (agent, _host) = CarriedAgent::new(script).far();
        let running = agent.start().arrived();
        wait_for(&agent.path("up"));
        running.agent.order(order);
        assert_eq!(running.closed().outcome, Some(outcome));
        assert_eq!(agent.read("stdout"), said);
        agent.nothing_is_left();
    }
}

#[test]
fn children_that_are_left_are_told_and_ended_or_spared() {
    let script = "setsid sh \"$PWD/kid\" & echo end\n";
    let stage = || {
        let agent = CarriedAgent::new(script);
        fs::write(agent.path("kid"), ": > up; read -r _ < \"$PWD/never\"\n").unwrap();
        assert!(Command::new("mkfifo").arg(agent.path("never")).status().unwrap().success());
        agent.far()
    };
    let left = |running: &Underway, agent: &CarriedAgent| loop {
        if let ProcessNews::Left(members) = running.next() {
            // What it printed before is in the file.
            assert_eq!(agent.read("stdout"), "end\n");
            break members;
        }
    };
    let (agent, _host) = stage();
    let running = agent.start();
    left(&running, &agent);
    // Before that, it may still be `setsid`.
    wait_for(&agent.path("up"));
    running.agent.order(GuardianCommand::Kill);
    let closed = running.closed();
    assert_eq!((closed.outcome, closed.swept), (Some(exited(0)), vec!["sh".to_owned()]));
    agent.nothing_is_left();
    let (agent, _host) = stage();
    let running = agent.start();
    left(&running, &agent);
    wait_for(&agent.path("up"));
    running.agent.order(GuardianCommand::Spare);
    assert_eq!(running.closed(), Closed { outcome: Some(exited(0)), ..Closed::default() });
    assert_eq!(agent.alive().len(), 1);
    drop(OpenOptions::new().write(true).open(agent.path("never")).unwrap());
    agent.nothing_is_left();
}

/// The states of processes: `T` is a stopped one.
fn states(pids: &[i32]) -> Vec<char> {
    let state = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    pids.iter().map(state).collect()
}

#[test]
fn an_agent_is_frozen_and_thawed_with_all_it_started() {
    let (agent, _host) = family().far();
    let running = agent.start().arrived();
    agent.wait_for_family();
    running.agent.order(GuardianCommand::Freeze);
    until("all are stopped", || states(&agent.alive()) == ['T', 'T', 'T']);
    running.agent.order(GuardianCommand::Thaw);
    until("all go on", || states(&agent.alive()) == ['S', 'S', 'S']);
    running.agent.order(GuardianCommand::Kill);
    running.closed();
    agent.nothing_is_left();
}

#[test]
fn an_idle_agent_is_noticed_and_a_busy_one_is_not() {
    let (mut agent, _host) = CarriedAgent::new("read -r _ < never\n").far();
    assert!(Command::new("mkfifo").arg(agent.path("never")).status().unwrap().success());
    agent.idle = Some(Duration::from_millis(400));
    let running = agent.start().arrived();
    assert_eq!(running.next(), ProcessNews::Idle);
    running.agent.order(GuardianCommand::Terminate);
    assert_eq!(running.closed().outcome, Some(Outcome::Signaled { signal: 15 }));
    let script = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $n; sleep 0.1; done\n";
    let (mut agent, _host) = CarriedAgent::new(script).far();
    agent.idle = Some(Duration::from_secs(20));
    let running = agent.start().arrived();
    assert!(matches!(running.next(), ProcessNews::Closed(_)));
}

/// What is killed while an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Carrier,
    Worker,
    FarGuardian,
    Guardian,
    Runner,
}

fn child_of(parent: Pid) -> Pid {
    let number = parent.as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap();
    Pid::from_raw(text.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
}

#[test]
fn nothing_survives_the_death_of_any_process_of_the_chain() {
    use Victim::{Carrier, FarGuardian, Guardian, Runner, Worker};
    for victim in [Carrier, Worker, FarGuardian, Guardian, Runner] {
        let (agent, host) = family().far();
        let Underway { agent: process, news } = agent.start().arrived();
        agent.wait_for_family();
        let kill = |pid| kill_process(pid, Signal::KILL).unwrap();
        match victim {
            Carrier => kill(pid(process.identity().pid)),
            Worker => kill(host.worker()),
            FarGuardian => kill(child_of(host.worker())),
            Guardian => kill(pid(process.guardian().pid)),
            // Its end of the pipe is closed then.
            Runner => drop(process),
        }
        let closed = closed(&news);
        agent.nothing_is_left();
        match victim {
            Guardian => assert_eq!(closed.outcome, None),
            Runner => {
                assert_eq!(closed.outcome, Some(Outcome::Interrupted));
                assert!(agent.read("exit.json").contains("\"cut_off\":true"));
            }
            Carrier | Worker | FarGuardian => drop(why(closed)),
        }
    }
}

#[test]
fn a_carrier_that_dies_before_the_agent_runs_loses_it() {
    // Before the worker has answered, and after that.
    for script in
        [": > \"$0.up\"; read -r _; exec sleep 600", ": > \"$0.up\"; exec \"$0\" __worker"]
    {
        let mut agent = CarriedAgent::new(": > up\n").carried_by(script);
        let link = agent.folder.path().join("ralph");
        std::os::unix::fs::symlink(RALPH, &link).unwrap();
        agent.argv[3] = link.display().to_string();
        // The prompt never comes.
        fs::remove_file(&agent.spec.stdin).unwrap();
        assert!(Command::new("mkfifo").arg(&agent.spec.stdin).status().unwrap().success());
        let running = agent.start();
        wait_for(&agent.folder.path().join("ralph.up"));
        kill_process(pid(running.agent.identity().pid), Signal::KILL).unwrap();
        why(running.closed());
        assert!(!agent.path("up").exists());
    }
}

#[test]
fn an_agent_that_does_not_run_yet_is_ended_with_its_carrier() {
    for (order, signal) in [(GuardianCommand::Interrupt, 2), (GuardianCommand::Terminate, 15)] {
        // As in a queue.
        let agent = CarriedAgent::new("").carried_by(": > \"$PWD/up\"; exec sleep 600");
        let running = agent.start();
        wait_for(&agent.path("up"));
        running.agent.order(order);
        assert_eq!(running.closed().outcome, Some(Outcome::Signaled { signal }));
        until("the carrier has ended", || !is_alive(running.agent.identity()));
    }
}

#[test]
#[ignore = "slow"]
fn a_worker_that_was_stopped_while_its_line_was_cut_ends_its_tree() {
    let (agent, host) = family().far();
    let running = agent.start().arrived();
    agent.wait_for_family();
    let worker = host.worker();
    kill_process(worker, Signal::STOP).unwrap();
    kill_process(pid(running.agent.identity().pid), Signal::KILL).unwrap();
    why(running.closed());
    assert_eq!(agent.alive().len(), 3, "nothing there knows of the cut");
    kill_process(worker, Signal::CONT).unwrap();
    agent.nothing_is_left();
}
