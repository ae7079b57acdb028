//! No process that an agent started outlives its attempt: every kind of child, every way to end an
//! attempt.
//!
//! Every child runs a script of the trial's own folder, whose name stays in `/proc` when a child
//! gives up its group, its terminal, its parent, its environment and its open files.

use std::{
    fs::{self, OpenOptions},
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Live, TestProject, each, until};

/// Each kind of child, and how many children of that kind there are.
const KINDS: [(&str, usize); 9] = [
    ("bomb", 63),
    ("chain", 1),
    ("plain", 1),
    ("nohup", 1),
    ("setsid", 1),
    ("twice", 1),
    ("wiped", 1),
    ("deaf", 1),
    ("traceless", 1),
];

/// The ways in which an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Normal,
    Timeout,
    Runner,
    Guardian,
    Both,
}

const ENDS: [End; 5] = [End::Timeout, End::Normal, End::Runner, End::Guardian, End::Both];

/// The one cell that is not possible: a child that cleared its environment, left its group and
/// closed every inherited file has no mark of its attempt, and after both the runner and the
/// guardian are killed it has no parent that could find it.
const UNMET: (&str, End) = ("traceless", End::Both);

/// Blocks on a pipe that is never opened for writing.
const KID: &str = ": > \"$(dirname \"$0\")/kid.$$\"\nread -r _ < \"$(dirname \"$0\")/never\"\n";

/// Replaces itself by a new process again and again, until the folder is gone.
const CHAIN: &str = "[ -e \"$0\" ] || exit 0\n: > \"${0%/*}/kid.chain\"\n/bin/sh \"$0\" &\n";

/// Forks two copies of itself down to level 0, then a child like the others: 63 processes from 5.
const BOMB: &str = "if [ \"$1\" -gt 0 ]; then\n\
                    /bin/sh \"$0\" $(($1 - 1)) &\n\
                    /bin/sh \"$0\" $(($1 - 1)) &\nfi\n\
                    . \"${0%/*}/kid\"\n";

/// Processes alive whose command line names this folder's scripts.
fn kids(dir: &Path) -> Vec<Pid> {
    let scripts = ["kid", "chain", "bomb"].map(|name| dir.join(name).display().to_string());
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        // The command line of an interpreter, not of an agent that is about to start one.
        if words.iter().skip(1).take(1).any(|word| scripts.iter().any(|s| s.as_bytes() == *word)) {
            found.extend(Pid::from_raw(pid));
        }
    }
    found
}

/// A chain may be between two processes at any one look.
fn survivors(dir: &Path) -> Vec<Pid> {
    (0..5).map(|_| kids(dir)).find(|found| !found.is_empty()).unwrap_or_default()
}

fn stage(kind: &str) -> TestProject {
    let trial = TestProject::new()
        .graph("tasks: [{id: a, max_attempts: 9}]\n")
        .agent("brood")
        .env("BROOD", kind);
    for (name, text) in [("kid", KID), ("chain", CHAIN), ("bomb", BOMB)] {
        fs::write(trial.sign(name), text).unwrap();
    }
    for name in ["never", "go"] {
        let path = trial.sign(name);
        assert!(trial.process("mkfifo").arg(path).status().unwrap().success());
    }
    trial
}

fn started(trial: &TestProject) -> usize {
    let names = fs::read_dir(trial.dir()).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_str().is_some_and(|name| name.starts_with("kid."))).count()
}

/// The next run, which may find the guardian of the previous one still running.
fn next_run(trial: &TestProject) {
    let mut code = 5;
    until("a further run completes the graph", || {
        code = trial
            .process(env!("CARGO_BIN_EXE_ralph"))
            .args(["run", "-q", "--"])
            .arg(crate::support::agent("brood"))
            .output()
            .unwrap()
            .status
            .code()
            .unwrap_or(-1);
        code != 5
    });
    assert_eq!(code, 0);
}

/// Ends the attempt; `run` is over afterwards.
fn end(trial: &TestProject, run: Live, how: End) {
    match how {
        End::Normal => {
            let go = OpenOptions::new().write(true).open(trial.sign("go")).unwrap();
            drop(go);
            run.end(trial);
        }
        End::Timeout => drop(run.end(trial).code(1)),
        End::Runner => run.kill(),
        End::Guardian => {
            kill_process(trial.guardian("a.1"), Signal::KILL).unwrap();
            run.end(trial);
        }
        End::Both => {
            let guardian = trial.guardian("a.1");
            // Stopped first, so that neither sees the other die.
            for signal in [Signal::STOP, Signal::KILL] {
                run.signal(signal);
                kill_process(guardian, signal).unwrap();
            }
            run.kill();
        }
    }
}

/// One cell: how many children there were, how many lived on, and the time until none did.
fn cell(kind: &str, count: usize, how: End) -> (usize, usize, Duration) {
    let trial = stage(kind);
    let run = match how {
        End::Timeout => trial.start(["run", "-q", "--once", "--timeout", "3s"]),
        _ => trial.start(["run", "-q"]),
    };
    until("the children are there", || started(&trial) >= count);
    if how != End::Timeout {
        trial.guardian("a.1");
    }
    end(&trial, run, how);
    let began = Instant::now();
    match how {
        // Here the end of the run says that nothing is left.
        End::Normal | End::Timeout | End::Guardian => {}
        End::Runner | End::Both => next_run(&trial),
    }
    let took = began.elapsed();
    let left = survivors(&trial.dir());
    if how == End::Timeout {
        next_run(&trial);
    }
    assert_eq!(trial.status("a"), "complete", "{kind} {how:?}");
    let ends = ["completed", "failed", "interrupted"].map(|action| trial.lines(action)).concat();
    let of_first = ends.iter().filter(|line| line["attempt"] == 1).count();
    assert_eq!(of_first, 1, "{kind} {how:?}: one outcome");
    for pid in &left {
        let _ = kill_process(*pid, Signal::KILL);
    }
    (count, left.len(), took)
}

#[test]
#[ignore = "slow"]
fn nothing_outlives_its_attempt() {
    let cells: Vec<_> =
        KINDS.iter().flat_map(|kind| ENDS.iter().map(move |end| (*kind, *end))).collect();
    let report = each(6, &cells, |((kind, count), how)| {
        let (live, left, took) = cell(kind, *count, *how);
        (*kind, *how, live, left, took)
    });
    let sum = |of: fn(&(&str, End, usize, usize, Duration)) -> usize| -> usize {
        report.iter().filter(|row| (row.0, row.1) != UNMET).map(of).sum()
    };
    let (live, left) = (sum(|row| row.2), sum(|row| row.3));
    let met = report.iter().filter(|row| row.3 == 0).count();
    println!("survivors {left} of {live}; {met} of {} cells met", report.len());
    for (kind, how, _, left, took) in report.iter().filter(|row| row.3 > 0) {
        println!("  {kind} {how:?}: {left} left after {took:?}");
    }
    let unmet = report.iter().find(|row| (row.0, row.1) == UNMET).unwrap();
    assert_eq!(unmet.3, 1, "what is said to be impossible has become possible: say so no more");
    assert_eq!(left, 0);
}
