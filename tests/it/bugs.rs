//! The known bugs: plausible mistakes that the program has as switches (`core::known_bug`), each with
//! the test that must fail when it is switched on.
//!
//! A switch stands where the mistake would be made, so moving code takes it along.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::is_a_test;

/// The time limit of a test with a bug; a test that does not end has failed.
const TEST_LIMIT: Duration = Duration::from_secs(150);

/// The number of bugs that are tried at once.
const AT_ONCE: usize = 3;

/// A mistake and the test that must notice it.
struct KnownBug {
    /// The name of its switch.
    name: &'static str,
    /// A test of this binary, or a unit test of the package with this name.
    caught_by: CaughtBy,
}

/// A test.
enum CaughtBy {
    /// `module::function` of this binary.
    Integration(&'static str),
    /// A function of the unit tests of a package.
    Unit(&'static str, &'static str),
}

use CaughtBy::{Integration, Unit};

/// The package of the program, and that of its core.
const PROGRAM: &str = "ralph-dag";
const CORE: &str = "ralph-dag-core";

/// All known bugs.
const BUGS: &[KnownBug] = &[
    // Work lands whose verify commands ran on another commit.
    KnownBug {
        name: "believe-checks-of-another-commit",
        caught_by: Unit(CORE, "only_commands_that_passed_on_the_last_commit_are_a_proof"),
    },
    // A `DONE` file that was there before an attempt counts as its report.
    KnownBug {
        name: "believe-an-old-report",
        caught_by: Integration(
            "verdicts::a_done_file_that_was_there_before_the_attempt_is_no_report",
        ),
    },
    // Exit code 0 counts as a report.
    KnownBug {
        name: "believe-the-exit-code",
        caught_by: Unit(CORE, "verdicts_follow_report_then_proof"),
    },
    // A report without a commit is sufficient.
    KnownBug {
        name: "believe-the-report",
        caught_by: Integration("verdicts::a_lie_is_unverified"),
    },
    // An attempt whose end is already in the journal is closed again.
    KnownBug {
        name: "close-twice",
        caught_by: Integration("points::a_kill_at_any_point_costs_nothing"),
    },
    // An attempt cut off by a crash counts towards the limit of attempts.
    KnownBug {
        name: "count-interrupted-attempts",
        caught_by: Integration("crash::an_attempt_cut_off_is_recovered_and_does_not_count"),
    },
    // The journal trusts the number of its own last line although another process wrote since.
    KnownBug {
        name: "count-lines-from-memory",
        caught_by: Unit(PROGRAM, "lines_are_counted_across_writers_and_read_once"),
    },
    // The guardian does not inherit the lock, so it is free as soon as the runner dies.
    KnownBug {
        name: "free-the-lock-too-soon",
        caught_by: Integration("crash::the_lock_is_held_until_the_guardian_is_gone"),
    },
    // An agent may complete tasks other than its own in the graph file.
    KnownBug {
        name: "guard-no-graph",
        caught_by: Integration(
            "others::a_status_that_is_set_in_the_file_is_put_back_and_the_next_prompt_says_so",
        ),
    },
    // A run continues although the folder that it locked is gone.
    KnownBug {
        name: "hold-a-removed-lock",
        caught_by: Integration("matrix::every_fault_comes_to_what_is_promised"),
    },
    // Processes that left the agent's process group survive it.
    KnownBug {
        name: "kill-only-the-group",
        caught_by: Integration("containment::nothing_outlives_its_attempt"),
    },
    // A journal line is appended to an incomplete last line, and both are lost.
    KnownBug {
        name: "leave-a-torn-tail",
        caught_by: Unit(PROGRAM, "a_tail_torn_at_any_byte_costs_only_itself"),
    },
    // After a conflict, the worktree for merges stays at the work that conflicts.
    KnownBug {
        name: "leave-head-at-the-conflict",
        caught_by: Unit(PROGRAM, "a_conflict_is_reported_and_cleaned_up"),
    },
    // A stopped process gets SIGTERM without SIGCONT and never handles it.
    KnownBug { name: "no-continue", caught_by: Unit(PROGRAM, "a_stopped_child_ends_on_term") },
    // An edit is applied to the text read earlier and overwrites what others wrote since.
    KnownBug {
        name: "overwrite-the-graph",
        caught_by: Unit(PROGRAM, "what_others_write_is_kept_and_told"),
    },
    // Git lock files that existed before an attempt are removed together with its own.
    KnownBug {
        name: "remove-a-persons-lock",
        caught_by: Integration("faults::a_lock_that_was_there_before_is_not_touched"),
    },
    // The record of an attempt is removed before the end of the attempt is in the journal.
    KnownBug {
        name: "remove-the-record-first",
        caught_by: Integration("points::a_kill_at_any_point_costs_nothing"),
    },
    // An agent starts before its task is claimed.
    KnownBug {
        name: "start-without-a-claim",
        caught_by: Integration("crash::an_attempt_cut_off_is_recovered_and_does_not_count"),
    },
    // A recorded process number is trusted although another process may have it now.
    KnownBug {
        name: "trust-a-pid",
        caught_by: Unit(PROGRAM, "an_identity_holds_for_one_process_only"),
    },
    // An attempt ends when its output does, not when its process does.
    KnownBug {
        name: "wait-for-the-end-of-output",
        caught_by: Integration("matrix::every_fault_comes_to_what_is_promised"),
    },
];

/// All Rust files below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let (mut texts, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}

#[test]
fn every_known_bug_has_its_switch_and_its_test() {
    let texts = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut switches = BTreeSet::new();
    for text in &texts {
        for rest in text.split("known_bug::is_on(").skip(1) {
            switches.extend(rest.split('"').nth(1).map(str::to_owned));
        }
    }
    let listed: BTreeSet<String> = BUGS.iter().map(|bug| bug.name.to_owned()).collect();
    assert_eq!(switches, listed);
    for bug in BUGS {
        match bug.caught_by {
            Integration(test) => assert!(is_a_test(test), "{}: no test {test}", bug.name),
            Unit(_, test) => {
                let count = |text: &String| text.matches(&format!("fn {test}()")).count();
                let count: usize = texts.iter().map(count).sum();
                assert_eq!(count, 1, "{}: unit tests of the name {test}", bug.name);
            }
        }
    }
}

impl KnownBug {
    /// Runs the test with the bug, and returns whether the test failed or did not end in time.
    fn is_caught(&self, folder: &Path) -> bool {
        let mut test = match self.caught_by {
            Integration(name) => {
                let mut test = Command::new(env::current_exe().unwrap());
                test.args(["--exact", "--include-ignored", name]);
                test
            }
            Unit(package, name) => {
                let mut test = Command::new(env!("CARGO"));
                test.args(["test", "--quiet", "--offline", "--lib", "--package", package]);
                test.arg(format!("::{name}")).current_dir(env!("CARGO_MANIFEST_DIR"));
                test
            }
        };
        let log: PathBuf = folder.join(self.name);
        let output = fs::File::create(log).unwrap();
        test.env("RALPH_KNOWN_BUG", self.name).env_remove("RALPH_BUGS").process_group(0);
        test.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut child = test.spawn().unwrap();
        let began = Instant::now();
        while began.elapsed() < TEST_LIMIT {
            if let Some(status) = child.try_wait().unwrap() {
                return !status.success();
            }
            thread::sleep(Duration::from_millis(50));
        }
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let _ = kill_process_group(group, Signal::KILL);
        child.wait().unwrap();
        true
    }
}

#[test]
#[ignore = "slow"]
fn every_known_bug_is_caught() {
    let names = env::var("RALPH_BUGS").unwrap_or_default();
    let names: Vec<&str> = names.split_whitespace().filter(|name| *name != "all").collect();
    let is_meant = |bug: &&KnownBug| names.is_empty() || names.contains(&bug.name);
    let bugs: Vec<&KnownBug> = BUGS.iter().filter(is_meant).collect();
    assert!(names.is_empty() || bugs.len() == names.len(), "unknown names in {names:?}");
    let folder = tempfile::tempdir().unwrap();
    let (next, escaped) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_caught = bug.is_caught(folder.path());
                    println!("{}: {}", bug.name, if is_caught { "caught" } else { "NOT caught" });
                    if !is_caught {
                        escaped.lock().unwrap().push(bug.name);
                    }
                }
            });
        }
    });
    let escaped = escaped.into_inner().unwrap();
    println!("caught {} of {}", bugs.len() - escaped.len(), bugs.len());
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
