//! What the measurements run on: graphs, repositories and a journal, the same bytes every time.
//!
//! The layout is the one `ralph` itself writes; sizes and shapes are those that people meet or fear.
//! It must not measure anything.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use chrono::{DateTime, TimeDelta};
use ralph::core::{
    agents::transcript::{Format, Usage},
    event::{AttemptEvent, AttemptResult, Event, record::Record},
    graph::task::TaskId,
    verdict::{Commit, DiffStat, Evidence, Outcome, Report, Verdict},
};

/// The 64-bit generator of Steele, Lea and Flood; the seed is the whole state.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `range`.
    pub fn pick(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + usize::try_from(self.next() % (range.len() as u64)).expect("below a usize")
    }
}

/// How tasks depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Layers of about the square root of the count, each task needing 0 to 4 of the two before.
    Layered,
    /// Each needs the one before.
    Chain,
    /// All need the first.
    FanOut,
}

const VERBS: [&str; 8] = ["Add", "Fix", "Port", "Split", "Cache", "Parse", "Trace", "Rename"];
const NOUNS: [&str; 8] = [
    "login form",
    "task store",
    "retry queue",
    "prompt template",
    "status table",
    "error page",
    "commit check",
    "rate limiter",
];

/// A task's id.
pub fn id(number: usize) -> String {
    format!("T-{number:06}")
}

/// A graph of `count` tasks, the first `done` of which are complete.
pub fn graph(shape: Shape, count: usize, done: usize) -> String {
    let mut random = Random::new(1);
    let width = count.isqrt().max(1);
    let mut text = String::from("version: 1\ndefaults:\n  commit: optional\ntasks:\n");
    for number in 0..count {
        let before: Vec<usize> = match shape {
            Shape::Chain => number.checked_sub(1).into_iter().collect(),
            Shape::FanOut => (number > 0).then_some(0).into_iter().collect(),
            Shape::Layered => layered(&mut random, number, width),
        };
        let names: Vec<String> = before.into_iter().map(id).collect();
        let _ = writeln!(
            text,
            "  - id: {}\n    title: {} the {} (part {})\n    priority: {}\n    status: {}\n    \
             depends_on: [{}]",
            id(number),
            VERBS[random.pick(0..VERBS.len())],
            NOUNS[random.pick(0..NOUNS.len())],
            random.pick(1..100),
            random.pick(0..10),
            if number < done { "done" } else { "pending" },
            names.join(", "),
        );
    }
    text
}

/// Rules for `make` with the same dependencies as a layered graph of `count` tasks.
pub fn rules(count: usize) -> String {
    let mut random = Random::new(1);
    let width = count.isqrt().max(1);
    let mut text = String::new();
    let mut all = String::from("all:");
    for number in 0..count {
        let before: Vec<String> = layered(&mut random, number, width).into_iter().map(id).collect();
        // The graph takes as many numbers for the rest of a task.
        for range in [0..VERBS.len(), 0..NOUNS.len(), 1..100, 0..10] {
            random.pick(range);
        }
        let _ = writeln!(text, "{}: {}\n\t@: work", id(number), before.join(" "));
        let _ = write!(all, " {}", id(number));
    }
    format!("{text}{all}\n")
}

/// What a task of a layered graph needs.
fn layered(random: &mut Random, number: usize, width: usize) -> Vec<usize> {
    let layer = number / width;
    let from = layer.saturating_sub(2) * width..layer * width;
    let wanted = if layer == 0 { 0 } else { random.pick(0..5) };
    let mut picked: Vec<usize> = (0..wanted).map(|_| random.pick(from.clone())).collect();
    picked.sort_unstable();
    picked.dedup();
    picked
}

/// A task that only takes time.
pub struct Nap {
    /// So many milliseconds.
    pub ms: usize,
    /// The tasks that it needs, all of them before it.
    pub after: Vec<usize>,
}

/// `count` tasks in layers that take 20 to 200 ms each.
pub fn naps(count: usize) -> Vec<Nap> {
    let mut random = Random::new(3);
    let width = count.isqrt().max(1);
    (0..count)
        .map(|number| Nap { ms: random.pick(20..201), after: layered(&mut random, number, width) })
        .collect()
}

/// The id of such a task; its agent reads there how long it is to sleep.
pub fn nap_id(number: usize, nap: &Nap) -> String {
    format!("{}-{}", id(number), nap.ms)
}

/// A graph of them with so many levels of priority. A millisecond is estimated as a minute.
pub fn graph_of_naps(naps: &[Nap], levels: usize) -> String {
    let mut random = Random::new(4);
    let mut text = String::from("version: 1\ndefaults:\n  commit: optional\ntasks:\n");
    for (number, nap) in naps.iter().enumerate() {
        let after: Vec<String> = nap.after.iter().map(|n| nap_id(*n, &naps[*n])).collect();
        let _ = writeln!(
            text,
            "  - id: {}\n    priority: {}\n    estimate: {}m\n    depends_on: [{}]",
            nap_id(number, nap),
            random.pick(0..levels),
            nap.ms,
            after.join(", "),
        );
    }
    text
}

/// The same for a program that takes rules of files: `rule` of a task's name, of the names that it
/// needs, and of the seconds that it takes.
pub fn rules_of_naps(naps: &[Nap], rule: impl Fn(&str, &str, f64) -> String) -> String {
    let name = |number: &usize| format!("out/{number}");
    let rules = naps.iter().enumerate().map(|(number, nap)| {
        let after: Vec<String> = nap.after.iter().map(name).collect();
        rule(&name(&number), &after.join(" "), nap.ms as f64 / 1e3)
    });
    rules.collect()
}

/// A repository with a graph in it, committed.
pub struct Place {
    /// Its top.
    pub dir: PathBuf,
}

impl Place {
    /// Makes `dir` with this graph.
    pub fn new(dir: PathBuf, graph: &str) -> Place {
        fs::create_dir_all(dir.join(".ralph")).expect("make a folder");
        fs::write(dir.join(".ralph/config.yaml"), "").expect("write");
        fs::write(dir.join("task-graph.yaml"), graph).expect("write the graph");
        git(&dir, &["init", "-q", "-b", "main"]);
        git(&dir, &["add", "-A"]);
        git(&dir, &["commit", "-q", "-m", "Begin"]);
        git(&dir, &["tag", "begin"]);
        Place { dir }
    }

    /// A layered graph of which two fifths are done, nothing synced.
    pub fn layered(root: &Path, count: usize) -> Place {
        let graph = graph(Shape::Layered, count, count * 2 / 5);
        Place::new(root.join(format!("layered-{count}")), &graph)
    }

    /// Puts everything back to how it was when made.
    pub fn reset(&self) {
        git(&self.dir, &["reset", "-q", "--hard", "begin"]);
        for own in ["logs", ".ralph/tasks", ".git/ralph"] {
            match fs::remove_dir_all(self.dir.join(own)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{own}: {error}"),
                _ => {}
            }
        }
    }
}

/// GitHub issues, as `gh issue list --json` prints them; each but the first depends on the one before.
pub fn issues(count: usize) -> String {
    let issue = |number: usize| {
        let waits =
            if number > 1 { format!("\\n\\nDepends on #{}", number - 1) } else { String::new() };
        let state = if number.is_multiple_of(3) { "CLOSED" } else { "OPEN" };
        format!(
            "{{\"number\":{number},\"title\":\"Issue {number}\",\"body\":\"Make part {number} \
             work.{waits}\",\"state\":\"{state}\",\"labels\":[{{\"name\":\"bug\"}}],\
             \"url\":\"https://github.com/owner/name/issues/{number}\"}}"
        )
    };
    format!("[{}]\n", (1..=count).map(issue).collect::<Vec<_>>().join(",\n"))
}

/// Runs git, away from the settings of whoever measures.
pub fn git(dir: &Path, arguments: &[&str]) {
    let mut command = git_command(dir);
    let status = command.args(arguments).status().expect("start git");
    assert!(status.success(), "git {arguments:?}: {status}");
}

/// The call of git that does so.
pub fn git_command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Bench");
        command.env(format!("GIT_{role}_EMAIL"), "bench@example.invalid");
    }
    command
}

/// A repository of many files and commits, none of them checked out.
pub fn history(dir: &Path, files: usize, commits: usize) {
    fs::create_dir_all(dir).expect("make a folder");
    git(dir, &["init", "-q", "-b", "main"]);
    let mut import = git_command(dir)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("start git fast-import");
    let mut to = BufWriter::new(import.stdin.take().expect("a pipe"));
    for commit in 0..commits {
        let message = format!("Commit {commit}\n");
        let when = 1_700_000_000 + commit * 60;
        let head = format!(
            "commit refs/heads/main\ncommitter Bench <bench@example.invalid> {when} +0000\n\
             data {}\n{message}",
            message.len()
        );
        to.write_all(head.as_bytes()).expect("write to git");
        let changed: Vec<usize> = if commit == 0 {
            (0..files).collect()
        } else {
            (0..3).map(|k| (commit * 7919 + k * 31) % files).collect()
        };
        for file in changed {
            let body = format!("file {file} in {commit}\n").repeat(20);
            let path = format!("src/{:02}/{:02}/{file:05}.txt", file % 40, file / 40 % 25);
            write!(to, "M 100644 inline {path}\ndata {}\n{body}\n", body.len()).expect("write");
        }
    }
    drop(to);
    assert!(import.wait().expect("wait for git").success(), "git fast-import failed");
}

/// A journal of `lines` lines, of attempts at `tasks` tasks.
pub fn journal(path: &Path, lines: u64, tasks: usize) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
    let mut to = BufWriter::new(File::create(path).expect("make the journal"));
    let mut random = Random::new(2);
    let began = DateTime::from_timestamp(1_760_000_000, 0).expect("a time");
    let mut attempts = vec![0; tasks];
    let mut task = 0;
    for seq in 0..lines {
        let start = seq % 2 == 0;
        if start {
            task = random.pick(0..tasks);
            attempts[task] += 1;
        }
        let attempt = attempts[task];
        let log = format!("logs/attempts/{}/{attempt}", id(task));
        let event = if start {
            started(&mut random, attempt, log)
        } else {
            let end = ended(&mut random, attempt, log);
            Event::Ended(end)
        };
        let record = Record {
            timestamp: began + TimeDelta::seconds(seq.cast_signed()),
            run_id: "20251009T090000Z-c0de".to_owned(),
            seq,
            iteration: u32::try_from(seq / 2).ok(),
            task_id: TaskId::new(&id(task)).ok(),
            event,
        };
        to.write_all(record.to_line().as_bytes()).expect("write the journal");
    }
}

/// The start of an attempt.
pub fn started(random: &mut Random, attempt: u32, log: String) -> Event {
    AttemptEvent::Started {
        attempt,
        base: Some(format!("{:040x}", random.next()).into()),
        branch: Some("main".to_owned()),
        log,
        format: Format::Text,
        slot: None,
        run_on: None,
        why: "P2, longest chain 4h, unblocks 2, place 17".to_owned(),
    }
    .into()
}

/// The end of an attempt: most are complete.
pub fn ended(random: &mut Random, attempt: u32, log: String) -> AttemptResult {
    let complete = random.pick(0..100) < 93;
    let commit =
        || Commit { id: "0123456789abcdef".repeat(3)[..40].into(), subject: "Work".to_owned() };
    AttemptResult {
        attempt,
        verdict: if complete { Verdict::Complete } else { Verdict::Failed },
        why: if complete { "reported and committed" } else { "exited with code 1" }.to_owned(),
        outcome: Outcome::Exited { exit_code: i32::from(!complete) },
        duration_seconds: random.pick(1..900) as f64,
        evidence: Box::new(Evidence {
            report: complete.then_some(Report::DoneFile),
            commits: complete.then(commit).into_iter().collect(),
            diff: complete.then_some(DiffStat { files: 2, insertions: 31, deletions: 4 }),
            ..Evidence::default()
        }),
        swept: Vec::new(),
        unlocked: Vec::new(),
        pinned: None,
        unpinned: Vec::new(),
        agent: Some("sh".to_owned()),
        usage: Usage::default(),
        tools: std::collections::BTreeMap::new(),
        last_line: Some("All tests pass.".to_owned()),
        continued: Vec::new(),
        log,
    }
}
