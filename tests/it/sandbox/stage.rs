//! A run with two attempts, and processes of the first one in a sandbox.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
};

use ralph::{
    adapters::process::{
        AgentProcess, Closed, GuardianCommand, GuardianProgram, GuardianSpec, ProcessNews,
        ProcessSpec,
        sandbox::{SandboxPaths, confined},
    },
    core::{
        agents::agent_command::AgentCommand, executor::SandboxSettings, loop_paths::LoopPaths,
        verdict::Outcome,
    },
    project::{
        attempt::AttemptRecord,
        placement::{self, ProcessFacts},
        workspace::Workspace,
    },
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Live, RALPH, SOON, TestProject, until, wait_for};

/// What no process in a sandbox may read.
pub const CANARY: &str = "c4n4ry-5ecret";

/// The credentials in the home folder.
pub const CREDENTIALS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/private-keys-v1.d/key",
    ".netrc",
    ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db",
    ".kube/config",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".git-credentials",
    ".local/share/keyrings/login.keyring",
    ".mozilla/firefox/x/logins.json",
    ".config/google-chrome/Default/Cookies",
    ".bash_history",
    "secrets/token",
];

/// A process that has ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A stopped process, killed when dropped.
struct Victim(Child);

impl Victim {
    fn new() -> Victim {
        let victim = Victim(Command::new("sleep").arg("600").spawn().unwrap());
        let pid = Pid::from_raw(i32::try_from(victim.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        let is_stopped = || fs::read_to_string(victim.stat()).unwrap().contains(") T ");
        until("the victim is stopped", is_stopped);
        victim
    }

    fn stat(&self) -> PathBuf {
        format!("/proc/{}/stat", self.0.id()).into()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Stage {
    pub trial: TestProject,
    pub run: Live,
    /// The slots of both attempts.
    pub slot: PathBuf,
    pub other: PathBuf,
    /// The processes of the run.
    pub guardian: i32,
    pub other_agent: i32,
    pub tcp: TcpListener,
    pub abstract_name: String,
    sockets: Vec<UnixListener>,
    victim: Victim,
    next: AtomicU32,
}

impl Stage {
    pub fn new() -> Stage {
        let trial = TestProject::new()
            .file("file.txt", "text\n")
            .file("prompts/task.md", "{{ task.id }}: {{ task.title }}\n")
            .graph("tasks: [{id: a, title: One, verify: ['true']}, {id: b, title: Two}]\n")
            .agent("gate")
            .env("SECRET_OF_RUNNER_TOKEN", CANARY);
        for name in CREDENTIALS {
            let path = trial.dir().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{CANARY}\n")).unwrap();
        }
        fs::write(trial.dir().join(".profile"), "profile\n").unwrap();
        fs::create_dir(trial.dir().join(".claude")).unwrap();
        fs::write(trial.dir().join(".claude/statusline.sh"), "echo\n").unwrap();
        fs::write(trial.dir().join(".claude.json"), "{}\n").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let abstract_name =
            format!("ralph-{}-{}", std::process::id(), tcp.local_addr().unwrap().port());
        fs::create_dir_all(trial.dir().join(".docker/run")).unwrap();
        let sockets = [".docker/run/docker.sock", "agent.sock"]
            .map(|name| UnixListener::bind(trial.dir().join(name)).unwrap());
        let run = trial.start(["run", "--jobs", "2"]);
        for id in ["a", "b"] {
            wait_for(&trial.sign(&format!("waiting-{id}")));
        }
        let guardian = trial.guardian("a.1").as_raw_nonzero().get();
        let record = |name: &str| -> Value {
            let path = trial.state().join(format!("attempts/{name}.json"));
            serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
        };
        let slot = |name: &str| PathBuf::from(record(name)["slot"]["path"].as_str().unwrap());
        let (slot, other) = (slot("a.1"), slot("b.1"));
        fs::write(other.join("secret.txt"), CANARY).unwrap();
        // An agent may be at work before its process is recorded.
        until("the process is recorded", || record("b.1")["agent"]["pid"].is_i64());
        let other_agent = i32::try_from(record("b.1")["agent"]["pid"].as_i64().unwrap()).unwrap();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let mut sockets = Vec::from(sockets);
        sockets.push(UnixListener::bind_addr(&address).unwrap());
        let next = AtomicU32::new(0);
        let stage = Stage {
            trial,
            run,
            slot,
            other,
            guardian,
            other_agent,
            tcp,
            abstract_name,
            sockets,
            victim: Victim::new(),
            next,
        };
        let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let variables = stage.variables().into_iter();
        let env: String =
            variables.map(|(name, value)| format!(" {name}={}", quote(&value))).collect();
        let line = format!("exec env -i{env} {} \"$@\"", quote(RALPH));
        stage.trial.script(&stage.trial.sign("guardian"), &line);
        stage
    }

    /// Lets the run end.
    pub fn end(self) {
        self.trial.leave("open");
        drop(self.sockets);
        self.run.end(&self.trial).code_is_any();
        self.trial.no_process_is_left();
    }

    /// The variables of the guardian.
    fn variables(&self) -> BTreeMap<String, String> {
        let mut all = self.trial.variables();
        for name in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD"] {
            all.insert(name.to_owned(), CANARY.to_owned());
        }
        let socket = self.trial.dir().join("agent.sock").display().to_string();
        all.insert("SSH_AUTH_SOCK".to_owned(), socket);
        all
    }

    /// A process of the first attempt, with a record of its own.
    fn spec(&self, script: &str) -> (ProcessSpec, PathBuf) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.trial.dir().join(format!("process-{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("prompt.md"), "the prompt\n").unwrap();
        fs::write(folder.join("record.json"), "{}").unwrap();
        let (workspace, attempt) = self.attempt();
        let task = self.trial.root().join(attempt.folder(&workspace)).display().to_string();
        let run_id = self.trial.lines("loop_started")[0]["run_id"].as_str().unwrap().to_owned();
        let slot = self.slot.display().to_string();
        let env = [
            ("RALPH_TASK_ID", "a"),
            ("RALPH_ATTEMPT", "1"),
            ("RALPH_RUN_ID", &run_id),
            ("RALPH_ATTEMPT_ID", &format!("process-{number}")),
            ("RALPH_TASK_DIR", &task),
            ("TASK_FOLDER", &task),
            ("RALPH_SLOT", &slot),
        ];
        let script = format!("echo ready\n{script}");
        let spec = ProcessSpec {
            argv: ["sh", "-c", &script].map(str::to_owned).to_vec(),
            dir: self.slot.clone(),
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            env_remove: Vec::new(),
            stdin: folder.join("prompt.md"),
            stdout: folder.join("stdout"),
            stderr: folder.join("stderr"),
        };
        (spec, folder)
    }

    /// The record of the first attempt.
    fn attempt(&self) -> (Workspace, AttemptRecord) {
        let root = self.trial.root();
        let workspace = Workspace::open(root, LoopPaths::default(), None, None).unwrap();
        let attempts: Vec<AttemptRecord> = workspace.state.peek();
        let is_first = |attempt: &AttemptRecord| attempt.task_id.as_str() == "a";
        (workspace, attempts.into_iter().find(is_first).unwrap())
    }

    /// The paths of the first attempt, with another record.
    fn paths(&self, record: PathBuf) -> SandboxPaths {
        let root = self.trial.root();
        let (workspace, attempt) = self.attempt();
        let facts = ProcessFacts {
            mark: attempt.mark(),
            slot: self.slot.clone(),
            base: None,
            task_dir: root.join(attempt.folder(&workspace)),
            record: record.clone(),
            agent: attempt.call.as_ref().and_then(AgentCommand::preset_name),
            resources: None,
            limit: None,
        };
        SandboxPaths {
            record,
            ralph: RALPH.into(),
            home: self.trial.dir(),
            environment: self.variables(),
            ..placement::sandbox_paths(&workspace, &facts).unwrap()
        }
    }

    /// Runs a script in a sandbox.
    pub fn run_in(&self, settings: &SandboxSettings, script: &str) -> Result<Ended, String> {
        self.run_with(settings, script, |paths| paths, |_| ())
    }

    /// Runs a script in a sandbox with other paths; `meanwhile` gets its process.
    pub fn run_with(
        &self,
        settings: &SandboxSettings,
        script: &str,
        change: impl FnOnce(SandboxPaths) -> SandboxPaths,
        meanwhile: impl FnOnce(&AgentProcess),
    ) -> Result<Ended, String> {
        let (spec, folder) = self.spec(script);
        let paths = change(self.paths(folder.join("record.json")));
        if paths.record != folder.join("record.json") {
            fs::write(&paths.record, "{}").unwrap();
        }
        let spec = ProcessSpec { dir: paths.worktree.clone(), ..spec };
        let spec = confined(spec, settings, &paths)?;
        Ok(self.guarded(&spec, &folder, meanwhile))
    }

    /// Runs a script without a sandbox.
    pub fn run_outside(&self, script: &str) -> Ended {
        let (spec, folder) = self.spec(script);
        self.guarded(&spec, &folder, |_| ())
    }

    fn guarded(
        &self,
        spec: &ProcessSpec,
        folder: &Path,
        meanwhile: impl FnOnce(&AgentProcess),
    ) -> Ended {
        let lock = File::open(folder).unwrap();
        let guardians = GuardianProgram::of(self.trial.sign("guardian"), &lock).unwrap();
        let spec = GuardianSpec::new(spec.clone(), folder.join("record.json"));
        let (tell, told) = mpsc::channel();
        let process =
            AgentProcess::spawn(&guardians, &spec, move |news| drop(tell.send(news))).unwrap();
        meanwhile(&process);
        let closed: Closed = loop {
            match told.recv_timeout(SOON).expect("the process ends") {
                ProcessNews::Closed(closed) => break closed,
                ProcessNews::Left(_) => process.order(GuardianCommand::Kill),
                ProcessNews::Idle
                | ProcessNews::Arrived(_)
                | ProcessNews::Contact(_)
                | ProcessNews::Fetching => {}
            }
        };
        let text = |name: &str| {
            let bytes = fs::read(folder.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let code = match closed.outcome {
            Some(Outcome::Exited { exit_code }) => Some(exit_code),
            _ => None,
        };
        Ended { code, stdout: text("stdout"), stderr: text("stderr") }
    }

    /// The record of the newest process.
    pub fn record_of_newest(&self) -> PathBuf {
        let number = self.next.load(Ordering::Relaxed) - 1;
        self.trial.dir().join(format!("process-{number}/record.json"))
    }

    /// What the system says about a stopped process.
    pub fn victim_stat(&self) -> PathBuf {
        self.victim.stat()
    }
}

/// Whether a process lives whose command line has this word.
pub fn lives(marker: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    })
}

/// Whether a file contains what an attack wrote.
pub fn is_planted(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("evil"))
}

/// What is at a path.
pub fn content(path: &Path) -> Option<Vec<u8>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Some(Vec::new()),
        Ok(_) => Some(fs::read(path).unwrap_or_default()),
        Err(_) => None,
    }
}
