//! The test harness: a repository in a temporary folder with a graph and an agent, and the real
//! program running in it, independent of this machine's settings.
//!
//! ```text
//! let trial = TestProject::new().graph("...").agent("commit");
//! trial.run(["run"]).graph_complete();
//! assert_eq!(trial.tasks("completed"), ["a"]);
//! ```
//!
//! Tests assert facts: the exit code (0 unless the test says otherwise), journal records, statuses,
//! files, commits. A stream is compared only if the test gives text for it, which is for tests of
//! that text. Times, commits and folders in it are replaced by placeholders. A panic of the program
//! fails every test.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    panic::Location,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The limit of every wait: long enough for a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

/// The program.
pub const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// A graph whose order in the file is not the order of the work.
pub const DIAMOND: &str = "\
version: 1
# The order of the file is not the order of the work.
tasks:
  - id: end
    title: Put it together # last
    priority: critical
    depends_on: [left, right]
  - id: left
    title: The left half
    priority: low
    depends_on: [start]
  - id: right
    title: 'The right half'
    priority: \"high\"
    depends_on:
      - start
  - {id: start, title: Begin}
";

/// The settings of a test project: short graces, no wait for leftover processes, no
/// limit on agents that fail at once, and one round of attempts.
pub const SETTINGS: &str = "grace: 200ms\nterm_grace: 200ms\nstart_limit: 0\n\
                            child_wait_timeout: 0s\nrounds: 1\n";

/// Says why a test cannot run here. With `CI` set, as `.ci/run` does once it has installed what the
/// tests need, the test fails.
#[track_caller]
pub fn unavailable(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "this test cannot run: {why}");
    eprintln!("skipped: {why}");
}

/// The path of a fake agent.
pub fn agent(name: &str) -> String {
    format!("{}/tests/agents/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A temporary repository for one test.
pub struct TestProject {
    _dir: TempDir,
    root: PathBuf,
    agent: Vec<String>,
    env: BTreeMap<String, String>,
    trial: String,
    /// The files of the first commit, which is made once something looks at the repository.
    first: Mutex<Option<Vec<String>>>,
}

impl TestProject {
    /// An empty folder that is not a repository.
    pub fn bare() -> TestProject {
        TestProject::bare_in(&std::env::temp_dir())
    }

    /// The tasks in the order of a run with one job, as `ralph plan` predicts it.
    #[track_caller]
    pub fn planned(&self, flags: &[&str]) -> Vec<String> {
        let words = ["plan", "--json", "--all", "--jobs", "1"].iter().chain(flags).copied();
        let plan = self.run(words.collect::<Vec<_>>()).json();
        let count = plan["count"].as_u64().unwrap() as usize;
        let tasks = plan["order"].as_array().unwrap().iter().take(count);
        tasks.map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The same in another folder than that of temporary files.
    pub fn bare_in(folder: &Path) -> TestProject {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::Builder::new().prefix("trial-").tempdir_in(folder).unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&root).unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let trial = format!("{}-{number}", std::process::id());
        let (agent, env, first) = (Vec::new(), BTreeMap::new(), Mutex::default());
        TestProject { _dir: dir, root, agent, env, trial, first }
    }

    /// A repository with one commit.
    pub fn new() -> TestProject {
        TestProject::bare().repository()
    }

    /// Makes the empty folder a repository.
    pub fn repository(self) -> TestProject {
        const CORE: &str = "bare = false\n\tfilemode = true\n\tlogallrefupdates = true\n";
        const USER: &str = "[user]\n\tname = Tess\n\temail = tess@example.invalid\n";
        let (trial, core) = (self, format!("[core]\n\trepositoryformatversion = 0\n\t{CORE}"));
        if trial.env.is_empty() {
            // What `git init` makes, without a process.
            for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks"] {
                fs::create_dir_all(trial.root.join(".git").join(folder)).unwrap();
            }
            trial.put(".git/HEAD", "ref: refs/heads/main\n");
            trial.put(".git/description", "A repository of a test\n");
            trial.put(".git/info/exclude", "");
            trial.put(".git/config", &(core + USER));
        } else {
            trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
            let made = trial.read(".git/config");
            trial.put(".git/config", &(made + USER));
        }
        *trial.first.lock().unwrap() = Some(Vec::new());
        trial.file(".ralph/config.yaml", SETTINGS)
    }

    /// Adds this graph, committed.
    pub fn graph(self, text: &str) -> TestProject {
        self.file("task-graph.yaml", text)
    }

    /// Adds this file, committed.
    pub fn file(self, path: &str, text: &str) -> TestProject {
        self.put(path, text);
        match &mut *self.first.lock().unwrap() {
            Some(paths) => paths.push(path.to_owned()),
            None => self.commit(&[path.to_owned()]),
        }
        self
    }

    /// Commits what there is; each file after it has a commit of its own.
    pub fn begun(self) -> TestProject {
        self.begin();
        self
    }

    /// Makes the first commit, unless it is made.
    fn begin(&self) {
        let first = self.first.lock().unwrap().take();
        if let Some(paths) = first {
            self.commit(&paths);
        }
    }

    /// Commits files, whatever the variables and hooks of the test are.
    fn commit(&self, paths: &[String]) {
        let add = ["add", "--force", "--"].into_iter().chain(paths.iter().map(String::as_str));
        let commit = ["commit", "--quiet", "--message", "Set the stage"];
        for words in [add.collect(), commit.to_vec()] {
            let mut git = Command::new("git");
            git.current_dir(&self.root).env_clear().envs(self.own_variables());
            git.args(["-c", "core.hooksPath=/dev/null", "-c", "maintenance.auto=false"]);
            assert!(git.args(&words).status().unwrap().success(), "git {}", words.join(" "));
        }
    }

    /// Sets the fake agent of `ralph run` and `ralph loop`.
    pub fn agent(mut self, name: &str) -> TestProject {
        self.agent = vec![agent(name)];
        self
    }

    /// Sets the agent `chaos`, with these words for its first attempt.
    pub fn chaos(self, words: &str) -> TestProject {
        let never = self.sign("never");
        if !never.exists() {
            assert!(self.process("mkfifo").arg(never).status().unwrap().success());
        }
        self.agent("chaos").env("RALPH_CHAOS", words)
    }

    /// Makes attempts work in the checkout.
    pub fn in_place(self) -> TestProject {
        self.env("RALPH_ISOLATION", "checkout")
    }

    /// Sets the agent's command line for `ralph run` and `ralph loop`.
    pub fn command<const N: usize>(mut self, words: [&str; N]) -> TestProject {
        self.agent = words.map(str::to_owned).to_vec();
        self
    }

    /// Sets a variable for the program, its agents and git.
    pub fn env(mut self, name: &str, value: &str) -> TestProject {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The top of the repository.
    pub fn root(&self) -> &Path {
        self.begin();
        &self.root
    }

    /// The folder that contains the repository and the signal files of agents.
    pub fn dir(&self) -> PathBuf {
        self.root.parent().unwrap().to_owned()
    }

    /// The state folder, `.git/ralph`.
    pub fn state(&self) -> PathBuf {
        self.root.join(".git/ralph")
    }

    /// Every environment variable of this project's processes.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let mut all = self.own_variables();
        all.extend(self.env.clone());
        all
    }

    /// The variables that every project has.
    fn own_variables(&self) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.display().to_string();
        let mut all: BTreeMap<String, String> = [
            ("PATH", std::env::var("PATH").unwrap()),
            ("TZ", "UTC".to_owned()),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("USER", "tess".to_owned()),
            ("HOME", text(self.dir())),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("GIT_CONFIG_SYSTEM", "/dev/null".to_owned()),
            ("RALPH", RALPH.to_owned()),
            // A laptop says more than another machine.
            ("RALPH_KEEP_AWAKE", "false".to_owned()),
            ("RALPH_NO_FSYNC", "1".to_owned()),
            ("TRIAL", self.trial.clone()),
            ("TRIAL_DIR", text(self.dir())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        // The switch of a known bug is passed on.
        let bug = std::env::var("RALPH_KNOWN_BUG").ok();
        all.extend(bug.map(|name| ("RALPH_KNOWN_BUG".to_owned(), name)));
        all
    }

    /// A command in this repository.
    pub fn process(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root()).env_clear().envs(self.variables()).stdin(Stdio::null());
        command
    }

    fn ralph(&self, words: &[&str]) -> Command {
        let mut command = self.process(RALPH);
        command.args(words);
        let starts = words.first().is_some_and(|word| ["run", "loop"].contains(word));
        if starts && !self.agent.is_empty() {
            command.arg("--").args(&self.agent);
        }
        command
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn run<'a>(&self, words: impl AsRef<[&'a str]>) -> Ran {
        let words = words.as_ref();
        let output = self.ralph(words).output().unwrap();
        Ran {
            place: Location::caller(),
            words: words.join(" "),
            code: (output.status.code().unwrap_or(-1), 0),
            stdout: Stream::new(self.redact(&String::from_utf8_lossy(&output.stdout))),
            stderr: Stream::new(self.redact(&String::from_utf8_lossy(&output.stderr))),
            journal: self.root.join("logs/ralph.jsonl"),
        }
    }

    /// Starts the program and returns while it runs.
    pub fn start<'a>(&self, words: impl AsRef<[&'a str]>) -> Live {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let words = words.as_ref();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = |name: &str| self.dir().join(format!("{name}.{number}"));
        let (stdout, stderr) = (path("stdout"), path("stderr"));
        let mut command = self.ralph(words);
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        Live { child: command.spawn().unwrap(), words: words.join(" "), stdout, stderr }
    }

    /// Starts the program and returns when an agent has created this signal file.
    pub fn start_until<'a>(&self, words: impl AsRef<[&'a str]>, sign: &str) -> Live {
        let run = self.start(words);
        wait_for(&self.sign(sign));
        run
    }

    /// Runs git, and returns its output.
    pub fn git(&self, words: &[&str]) -> String {
        let output = self.process("git").args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {}: {text}", words.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The subjects of all commits except the initial ones and those that complete tasks, oldest
    /// first.
    pub fn subjects(&self) -> Vec<String> {
        self.history()
            .into_iter()
            .filter_map(|(subject, done)| done.is_none().then_some(subject))
            .collect()
    }

    /// The tasks that commits of `ralph` complete, oldest first.
    pub fn completions(&self) -> Vec<String> {
        self.history().into_iter().filter_map(|(_, done)| done).collect()
    }

    /// The subjects of all commits except the initial ones, with the task that each completes,
    /// oldest first.
    fn history(&self) -> Vec<(String, Option<String>)> {
        let format = "--format=%s%x09%(trailers:key=Ralph-Task,valueonly,separator=%x2C)";
        let log = self.git(&["log", "--reverse", format]);
        let commits = log.lines().filter_map(|line| line.rsplit_once('\t'));
        let commits = commits.filter(|(subject, _)| *subject != "Set the stage");
        let done = |subject: &str, id: &str| {
            let completes = subject.starts_with(&format!("Complete {id}: "));
            (completes && !id.is_empty()).then(|| id.to_owned())
        };
        commits.map(|(subject, id)| (subject.to_owned(), done(subject, id))).collect()
    }

    /// Writes a file, and creates its folder.
    pub fn write(&self, path: &str, text: &str) {
        self.begin();
        self.put(path, text);
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Replaces a file atomically, as an editor does.
    pub fn save(&self, path: &str, text: &str) {
        let aside = self.dir().join("saved");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, self.root().join(path)).unwrap();
    }

    /// Creates an executable script. Another process writes it: a file that is open for writing
    /// here could be inherited by a fork in another thread, and could not be executed.
    pub fn script(&self, path: &Path, text: &str) {
        let plain = self.sign("script");
        fs::write(&plain, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mut install = Command::new("install");
        assert!(install.args(["-D", "-m", "755"]).args([&plain, path]).status().unwrap().success());
    }

    /// Installs this script as a git hook.
    pub fn hook(&self, name: &str, text: &str) {
        self.script(&self.root().join(".git/hooks").join(name), text);
    }

    /// Reads a file.
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// The path of a signal file.
    pub fn sign(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Creates a signal file for an agent.
    pub fn leave(&self, name: &str) {
        fs::write(self.sign(name), "").unwrap();
    }

    /// The text of the graph file.
    pub fn graph_text(&self) -> String {
        self.read("task-graph.yaml")
    }

    /// The status of a task, as `ralph` reads it.
    pub fn status(&self, id: &str) -> String {
        let path = self.root.join("task-graph.yaml");
        let file = ralph::project::graph_file::GraphFile::read(&path, "graph").unwrap();
        let id = ralph::core::graph::task::TaskId::new(id).unwrap();
        let number = file.graph().number(&id).unwrap();
        file.graph().task(number).status.to_string()
    }

    /// The records of the journal. Every line must be JSON and have the common fields.
    #[track_caller]
    pub fn journal(&self) -> Vec<Value> {
        // A process may be writing it: a file in memory is written page by page.
        let read = || self.read("logs/ralph.jsonl");
        let (mut text, began) = (read(), Instant::now());
        while !text.ends_with('\n') && began.elapsed() < SOON {
            thread::sleep(Duration::from_millis(1));
            text = read();
        }
        assert!(text.ends_with('\n'), "the last line is whole");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        for (at, line) in lines.iter().enumerate() {
            for field in ["timestamp", "run_id", "seq", "iteration", "task_id", "action"] {
                assert!(line.get(field).is_some(), "no `{field}` in {line}");
            }
            let time = line["timestamp"].as_str().unwrap();
            chrono::DateTime::parse_from_rfc3339(time).unwrap();
            assert!(time.ends_with('Z') && time.len() == 24, "{time}");
            assert_eq!(line["seq"], at as u64 + lines[0]["seq"].as_u64().unwrap(), "{text}");
        }
        lines
    }

    /// The records with this action.
    #[track_caller]
    pub fn lines(&self, action: &str) -> Vec<Value> {
        self.journal().into_iter().filter(|line| line["action"] == action).collect()
    }

    /// Waits until the journal has this many records with this action.
    #[track_caller]
    pub fn wait_for_records(&self, count: usize, action: &str) {
        let action = format!("\"action\":\"{action}\"");
        let journal = self.root.join("logs/ralph.jsonl");
        until(&format!("the journal has {count} of {action}"), || {
            let text = fs::read_to_string(&journal).unwrap_or_default();
            text.matches(&action).count() >= count
        });
    }

    /// The task ids of all records with this action, in order.
    #[track_caller]
    pub fn tasks(&self, action: &str) -> Vec<String> {
        let lines = self.lines(action);
        lines.iter().map(|line| line["task_id"].as_str().unwrap().to_owned()).collect()
    }

    /// Expects a record in the journal with this action and at least these fields.
    #[track_caller]
    pub fn assert_record(&self, action: &str, fields: &Value) {
        let fields = fields.as_object().unwrap();
        let lines = self.lines(action);
        let fits = |line: &Value| fields.iter().all(|(name, value)| line[name] == *value);
        assert!(lines.iter().any(fits), "no `{action}` with {fields:?} in {lines:#?}");
    }

    /// The guardian of an attempt such as `a.1`, once it is recorded.
    pub fn guardian(&self, attempt: &str) -> Pid {
        let path = self.state().join(format!("attempts/{attempt}.json"));
        let mut guardian = None;
        until("the guardian is on record", || {
            let record: Value =
                serde_json::from_slice(&fs::read(&path).unwrap_or_default()).unwrap_or_default();
            let pid = record["guardian"]["pid"].as_i64();
            guardian = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).unwrap()));
            guardian.is_some()
        });
        guardian.unwrap()
    }

    /// Every path of the repository, `.git` included, with its mode and contents.
    pub fn everything(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let found = fs::symlink_metadata(&path).unwrap();
                if found.is_dir() {
                    folders.push(path.clone());
                }
                let bytes = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                all.insert(path, (found.mode(), bytes));
            }
        }
        all
    }

    /// Expects that no process of this project is left, or that the last ones end soon. Zombies do
    /// not count.
    #[track_caller]
    pub fn no_process_is_left(&self) {
        let marker = format!("TRIAL={}", self.trial);
        let left = || -> Vec<String> {
            let mut left = Vec::new();
            for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
                let environ = fs::read(process.path().join("environ")).unwrap_or_default();
                if environ.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes()) {
                    let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
                    left.push(String::from_utf8_lossy(&line).replace('\0', " "));
                }
            }
            left
        };
        let began = Instant::now();
        while !left().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(15), "still alive: {:?}", left());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Replaces what differs between runs by placeholders.
    pub fn redact(&self, text: &str) -> String {
        let text = text
            .replace(&self.root.display().to_string(), "[repo]")
            .replace(&self.dir().display().to_string(), "[trial]")
            .replace(RALPH, "[ralph]")
            .replace(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents"), "[agents]");
        let text = redact(&without_dates(&text));
        // Whether a wait is needed depends on the speed of the machine.
        let waits = |line: &&str| !line.starts_with("[time]  waiting until [time]: retrying after");
        text.split_inclusive('\n').filter(waits).collect()
    }
}

/// Waits until a condition holds.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < SOON, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for a file.
#[track_caller]
pub fn wait_for(path: &Path) {
    until(&format!("{} is there", path.display()), || path.exists());
}

/// Applies a function to all items, this many at once. The results are in no order.
pub fn each<T: Sync, R: Send>(at_once: usize, work: &[T], does: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(one) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = does(one);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// Expects that a generated page of the docs is up to date; `RALPH_WRITE=1` writes it.
#[track_caller]
pub fn is_page(path: &str, want: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("RALPH_WRITE").is_some() {
        fs::write(&path, want).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(want.lines()).find(|(found, want)| found != want);
    let test = Location::caller().file();
    assert_eq!(differs, None, "{}; see {test} for how it is made", path.display());
    assert_eq!(found.lines().count(), want.lines().count());
}

/// Replaces times of other days, such as `Mon Nov 23, 00:30`: a test may run before midnight.
fn without_dates(text: &str) -> String {
    const SHAPES: [&str; 2] = ["Aaa Aaa 0, 00:00", "Aaa Aaa 00, 00:00"];
    let shape = |text: &str| -> String {
        let letter = |c: char| match c {
            'A'..='Z' => 'A',
            'a'..='z' => 'a',
            '0'..='9' => '0',
            c => c,
        };
        text.chars().map(letter).collect()
    };
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = SHAPES.iter().map(|shape| shape.len()).find(|length| {
            rest.get(..*length).is_some_and(|part| SHAPES.contains(&shape(part).as_str()))
        });
        let length = found.unwrap_or(first.len_utf8());
        shown += if found.is_some() { "00:00:00" } else { &rest[..length] };
        rest = &rest[length..];
    }
    shown
}

/// Replaces times, durations, commits, runs and processes by placeholders.
fn redact(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || ":.-".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = "";
    while !rest.is_empty() {
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        if end == 0 {
            let next = rest.find(word).unwrap_or(rest.len());
            shown += &rest[..next];
            rest = &rest[next..];
            continue;
        }
        let bare = rest[..end].trim_end_matches(['.', ':', '-']);
        let whole = if bare.is_empty() { &rest[..end] } else { bare };
        shown += placeholder(before, whole).unwrap_or(whole);
        before = whole;
        rest = &rest[whole.len()..];
    }
    shown
}

fn placeholder(before: &str, word: &str) -> Option<&'static str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let shape: String =
        word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).take(24).collect();
    let hex = word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if shape.starts_with("0000-00-00T00:00:00") {
        return Some("[when]");
    }
    if shape == "00:00:00" || shape == "00:00" {
        return Some("[time]");
    }
    if shape == "0000-00-00" {
        return Some("[date]");
    }
    if shape.starts_with("00000000T000000Z-") {
        return Some("[run]");
    }
    if hex && word.len() == 16 {
        return Some("[own]");
    }
    if hex && [7, 10, 40].contains(&word.len()) {
        return Some("[commit]");
    }
    if before == "process" && digits(word) {
        return Some("[pid]");
    }
    let number = word.strip_suffix("ms").or(word.strip_suffix('s'))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    (digits(whole) && digits(part)).then_some("[took]")
}

/// One stream of a run.
struct Stream {
    text: String,
    /// The exact text, if the test gives one.
    want: Option<String>,
}

impl Stream {
    fn new(text: String) -> Stream {
        Stream { text, want: None }
    }
}

/// A run of the program that has ended. Its exit code, and the text of streams for which a test
/// gives text, are checked when it is dropped.
pub struct Ran {
    place: &'static Location<'static>,
    words: String,
    /// The actual exit code and the expected one.
    code: (i32, i32),
    stdout: Stream,
    stderr: Stream,
    journal: PathBuf,
}

impl Ran {
    /// Expects this exit code instead of 0.
    pub fn code(mut self, code: i32) -> Ran {
        self.code.1 = code;
        self
    }

    /// Accepts any exit code.
    pub fn code_is_any(mut self) {
        self.code.1 = self.code.0;
    }

    /// Expects exactly this text on standard output.
    pub fn stdout(mut self, text: &str) -> Ran {
        self.stdout.want = Some(text.to_owned());
        self
    }

    /// Expects exactly this text on standard error.
    pub fn stderr(mut self, text: &str) -> Ran {
        self.stderr.want = Some(text.to_owned());
        self
    }

    /// Expects this text somewhere on standard error. Another test compares the whole message.
    #[track_caller]
    pub fn stderr_has(self, part: &str) -> Ran {
        let text = &self.stderr.text;
        assert!(text.contains(part), "`ralph {}` does not say `{part}`:\n{text}", self.words);
        self
    }

    /// Expects this text somewhere on standard output.
    #[track_caller]
    pub fn stdout_has(self, part: &str) -> Ran {
        let text = &self.stdout.text;
        assert!(text.contains(part), "`ralph {}` does not print `{part}`:\n{text}", self.words);
        self
    }

    /// Expects that the run completed the graph, or the tasks selected from it: exit code 0, and
    /// no task remaining according to the journal.
    #[track_caller]
    pub fn graph_complete(self) -> Ran {
        assert_eq!(self.code.0, 0, "`ralph {}`:\n{}", self.words, self.stderr.text);
        let end = self.finished();
        assert_eq!((&end["exit_code"], &end["remaining"]), (&0.into(), &0.into()), "{end}");
        self
    }

    /// The journal's last `finished` record.
    #[track_caller]
    pub fn finished(&self) -> Value {
        let text = fs::read_to_string(&self.journal).unwrap_or_default();
        let mut lines = text.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
        let end = lines.find(|line: &Value| line["action"] == "finished");
        end.unwrap_or_else(|| panic!("`ralph {}` did not finish a run:\n{text}", self.words))
    }

    /// Its standard output as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.stdout.text).expect(&self.stdout.text)
    }

    /// Its standard output.
    pub fn out(self) -> String {
        self.stdout.text.clone()
    }

    /// Its standard error.
    pub fn err(self) -> String {
        self.stderr.text.clone()
    }

    /// Its exit code and streams as one text, for a snapshot.
    pub fn whole(mut self) -> String {
        self.code.1 = self.code.0;
        let mut text = format!("exit code {}\n", self.code.0);
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.text.is_empty() {
                let _ = write!(text, "--- {name} ---\n{}", stream.text);
            }
        }
        text
    }
}

impl Drop for Ran {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let mut faults = String::new();
        if self.code.0 != self.code.1 {
            let _ = writeln!(faults, "exit code {}, not {}", self.code.0, self.code.1);
        }
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if let Some(want) = &stream.want
                && *want != stream.text
            {
                let _ = writeln!(faults, "--- {name} should be\n{want}--- and is\n{}", stream.text);
            }
        }
        if ["panicked at", "internal error"].iter().any(|part| self.stderr.text.contains(part)) {
            faults += "it panicked\n";
        }
        if !faults.is_empty() {
            let both = format!("{}{}", self.stdout.text, self.stderr.text);
            panic!("`ralph {}` at {}:\n{faults}--- all\n{both}", self.words, self.place);
        }
    }
}

/// A run of the program that has not ended; killed when dropped.
pub struct Live {
    child: Child,
    words: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Live {
    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it, and waits until it is dead.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its standard error so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Its standard output so far.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn end(mut self, trial: &TestProject) -> Ran {
        until(&format!("`ralph {}` ends", self.words), || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        let text = |path: &Path| trial.redact(&fs::read_to_string(path).unwrap());
        Ran {
            place: Location::caller(),
            words: self.words.clone(),
            code: (status.code().unwrap_or(-1), 0),
            stdout: Stream::new(text(&self.stdout)),
            stderr: Stream::new(text(&self.stderr)),
            journal: trial.root.join("logs/ralph.jsonl"),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A `PATH` that starts with a folder in which a fake agent has this name.
pub fn disguised(trial: &TestProject, agent_name: &str, name: &str) -> String {
    let folder = trial.dir().join("bin");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(agent(agent_name), folder.join(name)).unwrap();
    path_with(folder.as_os_str())
}

fn path_with(folder: &OsStr) -> String {
    format!("{}:{}", folder.to_str().unwrap(), std::env::var("PATH").unwrap())
}

/// Whether a test exists whose name starts like this: `crash::a_reset`, or `src/plan::a_choice` for
/// a unit test.
pub fn is_a_test(test: &str) -> bool {
    let (file, name) = test.split_once("::").unwrap();
    let folder = if file.starts_with("src/") { "" } else { "tests/it/" };
    let path = format!("{}/{folder}{file}.rs", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {name}")))
}
