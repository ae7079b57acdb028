//! The fault model: one row for each fault, with the promised result and how it is tested. Some
//! rows are small tests with the agent `chaos`; its words reproduce them by hand.
//!
//! `RALPH_CHAOS_PAIRS=all` tests all pairs of faults, and not only some.

use std::{
    env, fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    oracle,
    support::{RALPH, SOON, TestProject, agent, is_a_test, wait_for},
};

/// How a row is tested.
enum How {
    /// By words for the agent `chaos` in these places: the run completes the graph, and its output
    /// has this text.
    Words(Place, &'static [(&'static str, &'static str)]),
    /// By a function.
    Trial(fn()),
    /// By other tests.
    Tests(&'static [&'static str]),
}

/// Where the attempts of a row work.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Slot,
    /// What is damaged is only in the checkout.
    Checkout,
    Both,
}

use How::{Tests, Trial, Words};
use Place::{Both, Checkout, Slot};

/// Every fault, the promised result, and how it is tested.
const ROWS: &[(&str, &str, How)] = &[
    (
        "A1",
        "the runner is killed anywhere: nothing is lost or done twice",
        Tests(&["points::a_kill_at_any_point", "torture::no_kill_at_any_moment"]),
    ),
    ("A2", "the machine restarts: the open attempt is closed", Trial(another_boot)),
    ("A3", "the runner aborts: as if it were killed", Trial(the_runner_aborts)),
    ("A4", "two at once: the second is told who is first", Tests(&["run::a_second_run_is_told"])),
    (
        "A5",
        "old agents live after a crash: gone before the next attempt",
        Tests(&["crash::a_group_left_by_a_dead_run", "containment::nothing_outlives"]),
    ),
    (
        "A6",
        "a number belongs to a stranger now: it is left alone",
        Trial(a_stranger_has_the_number),
    ),
    (
        "A7",
        "Ctrl-C once, twice, thrice: end, kill, leave",
        Tests(&[
            "signals::ctrl_c_ends",
            "signals::a_second_signal_kills",
            "signals::a_third_signal_leaves",
        ]),
    ),
    ("A8", "TERM: recorded, with its code; HUP: nothing", Tests(&["signals::term_has_its_code"])),
    (
        "A9",
        "Ctrl-Z: everything is suspended, and can still be ended",
        Tests(&[
            "signals::ctrl_z_stops_the_agent_too",
            "signals::a_suspended_run_can_be_ended",
            "src/adapters/process/group::a_stopped_child_ends_on_term",
        ]),
    ),
    (
        "A10",
        "the machine sleeps: told, and no work",
        Tests(&["src/adapters/machine::sleep_is_not_work"]),
    ),
    (
        "A11",
        "the clock is set: no limit moves",
        Tests(&["src/adapters/machine::sleep_is_not_work"]),
    ),
    ("A12", "the disk is full: stop, shorten nothing", Tests(&["faults::a_full_disk_stops"])),
    (
        "A13",
        "the disk is read-only: stop, show all the same",
        Tests(&["faults::a_full_disk_stops"]),
    ),
    ("A14", "the program is replaced: the run goes on", Trial(the_program_is_replaced)),
    (
        "B1",
        "the agent hangs: ended at a limit",
        Tests(&["limits::an_agent_past_its_limit", "limits::an_attempt_without_a_sign_of_life"]),
    ),
    ("B2", "the agent fails or is killed: named", Tests(&["verdicts::a_failing_process"])),
    (
        "B3",
        "it reports and does not end: the report counts",
        Tests(&["limits::work_reported_and_committed_before_the_limit"]),
    ),
    ("B4", "it leaves children: none is left", Tests(&["containment::nothing_outlives"])),
    ("B5", "it multiplies: as B4", Tests(&["containment::nothing_outlives"])),
    (
        "B6",
        "it closes its output, or a child keeps it open: the end is the process's",
        Words(Slot, &[("b6:closed", "✓ t0"), ("b6:kept", "✓ t0")]),
    ),
    ("B7", "it never reads its prompt: nothing blocks", Tests(&["verdicts::an_unread_prompt"])),
    (
        "B8",
        "a flood, an endless line, bytes that are no text: drained and kept",
        Words(Slot, &[("b8", "✓ t0")]),
    ),
    (
        "B9",
        "escapes and fake lines: shown, not obeyed",
        Tests(&["verdicts::control_characters_in_output", "status::control_characters_in_tasks"]),
    ),
    (
        "B10",
        "it kills guardian, runner or both: the next run goes on, nothing is left",
        Words(Slot, &[("b10:guardian", ""), ("b10:runner", ""), ("b10:both", "")]),
    ),
    (
        "B11",
        "no such agent, or it refuses: found before anything is claimed",
        Tests(&["run::a_missing_agent_is_found", "run::claude_as_root_is_refused"]),
    ),
    (
        "B12",
        "it asks, or says done without a commit: not done",
        Tests(&[
            "asking::a_question_sets_its_task_aside",
            "verdicts::silence_is_incomplete",
            "verdicts::a_lie_is_unverified",
        ]),
    ),
    (
        "B13",
        "its provider limits it: waited for, bounded, not counted",
        Tests(&["agents::a_usage_limit_is_waited_for", "agents::waiting_is_bounded"]),
    ),
    ("B14", "its login has expired: the run stops", Tests(&["agents::a_refused_key_stops"])),
    ("B15", "the network is down: waited for", Tests(&["agents::a_network_that_is_out"])),
    (
        "B16",
        "it runs on and on: limits by default",
        Tests(&["limits::the_limit_of_iterations", "verdicts::different_tasks_that_fail"]),
    ),
    (
        "C1",
        "a person edits the graph: kept, picked up",
        Tests(&["edits::an_edit_in_the_middle", "edits::a_task_that_a_person_blocks"]),
    ),
    (
        "C2",
        "a half-saved graph: waited for, then named",
        Tests(&["edits::a_half_saved_graph", "run::an_invalid_graph_is_drawn"]),
    ),
    (
        "C3",
        "the graph is cut, emptied or deleted: put back, kept aside",
        Tests(&[
            "faults::a_graph_wrecked",
            "faults::an_emptied_graph",
            "faults::a_deleted_graph",
            "crash::a_graph_that_a_killed_attempt_destroyed",
        ]),
    ),
    (
        "C4",
        "it finishes or drops other tasks: undone",
        Tests(&["faults::other_tasks_that", "faults::tasks_that_an_agents_commit_drops"]),
    ),
    (
        "C5",
        "it makes a cycle: told as a walk, put back",
        Words(Both, &[("c5", "`t0` -> `t1` -> `t0`")]),
    ),
    (
        "C6",
        "the running task is removed: told, no crash",
        Tests(&["edits::a_task_that_is_deleted_meanwhile"]),
    ),
    (
        "C7",
        "ids that are none: refused with their place",
        Tests(&["check::every_fault_is_shown_at_once"]),
    ),
    (
        "C8",
        "huge, deep or hostile: refused fast",
        Tests(&["check::hostile_files", "check::a_long_chain", "check::a_file_of_200_mib"]),
    ),
    (
        "C9",
        "the template is missing, broken or endless: nothing is claimed",
        Tests(&[
            "settings::a_misspelt_variable",
            "settings::a_template_that_is_not_there",
            "src/core/prompt::invalid_templates_and_prompts_are_rejected",
        ]),
    ),
    ("C10", "logs, prompts or the state folder vanish: recreated, or stop", Trial(folders_vanish)),
    (
        "C11",
        "the journal is rotated, cut or edited: the next line is whole",
        Words(Checkout, &[("c11:rotate", "✓ t0"), ("c11:cut", "✓ t0"), ("c11:edit", "✓ t0")]),
    ),
    (
        "D3",
        "a killed git left its locks: removed and named",
        Tests(&["faults::locks_of_a_killed_git", "faults::a_lock_that_was_there_before"]),
    ),
    (
        "D4",
        "the branch is left: what is checked out in a slot is the work; in place it is named, not done",
        Words(Checkout, &[("d4:detach", "` to a detached HEAD")]),
    ),
    (
        "D5",
        "a merge is unfinished: no completion, and the next attempt is told",
        Words(Both, &[("work,report,d5:merge", "a merge is unfinished")]),
    ),
    ("D6", "git is gone or damaged: an error, and then it goes on", Trial(git_is_damaged)),
];

/// Two tasks, the first of which has these words.
fn stage(words: &str) -> TestProject {
    oracle::stage(2).chaos(words)
}

/// The same with these attempts.
fn stage_in(place: Place, words: &str) -> TestProject {
    if place == Slot { stage(words) } else { stage(words).in_place() }
}

/// Runs until a run ends by itself, and returns its exit code and all output.
fn work_off(trial: &TestProject) -> (i32, String) {
    let (began, mut said) = (Instant::now(), String::new());
    loop {
        assert!(began.elapsed() < SOON, "does not end:\n{said}");
        // An attempt that reaches its limit is a fault: see the oracle.
        let run = trial.start(["run", "--timeout", "20s"]).end(trial).whole();
        let code = run.lines().next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
        said += &run;
        match code.expect("a code") {
            -1 | 5 => {}
            code => return (code, said),
        }
    }
}

/// The graph is complete, and the oracle finds no fault.
#[track_caller]
fn is_well(trial: &TestProject) {
    let (faults, torn) = oracle::faults(trial, 2);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let edited = trial.variables().get("RALPH_CHAOS").is_some_and(|words| words.contains("c11"));
    assert!(torn == 0 || edited, "{torn} torn lines");
    trial.no_process_is_left();
}

#[track_caller]
fn completes(trial: &TestProject) -> String {
    let (code, said) = work_off(trial);
    assert_eq!(code, 0, "{said}");
    is_well(trial);
    said
}

/// A run whose agent waits to be killed, with the path of its open record.
fn waiting(trial: &TestProject) -> (Child, std::path::PathBuf) {
    let mut run = trial.process(RALPH);
    run.args(["run", "-q", "--"]).arg(agent("chaos"));
    let run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&trial.sign("waiting"));
    trial.guardian("t0.1");
    (run, trial.state().join("attempts/t0.1.json"))
}

fn signal(run: &mut Child, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(run.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    run.wait().unwrap();
}

fn change(record: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    change(&mut value);
    fs::write(record, value.to_string()).unwrap();
}

fn another_boot() {
    let trial = stage("wait");
    let (mut run, record) = waiting(&trial);
    signal(&mut run, Signal::KILL);
    trial.no_process_is_left();
    change(&record, |record| {
        for process in ["agent", "guardian"] {
            record[process]["boot_id"] = "of another boot".into();
        }
    });
    completes(&trial);
    assert_eq!(trial.tasks("recovered"), ["t0"]);
}

fn the_runner_aborts() {
    let trial = stage("wait");
    let (mut run, _) = waiting(&trial);
    signal(&mut run, Signal::ABORT);
    trial.no_process_is_left();
    completes(&trial);
    assert_eq!(trial.tasks("recovered"), ["t0"]);
}

fn a_stranger_has_the_number() {
    let trial = stage("wait");
    let (mut run, record) = waiting(&trial);
    signal(&mut run, Signal::KILL);
    trial.no_process_is_left();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    change(&record, |record| {
        for process in ["agent", "guardian"] {
            record[process]["pid"] = stranger.id().into();
        }
    });
    completes(&trial);
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

fn the_program_is_replaced() {
    let trial = stage("a14").env("REAL_RALPH", RALPH);
    let own = trial.sign("ralph");
    if fs::hard_link(RALPH, &own).is_err() {
        // Not by this process: a child of another test would hold the open file, and Linux starts
        // no program that is open for writing.
        assert!(
            trial.process("cp").args([RALPH.as_ref(), own.as_path()]).status().unwrap().success()
        );
    }
    let own = own.to_str().unwrap().to_owned();
    let trial = trial.env("RALPH", &own);
    let mut run = trial.process(&own);
    run.args(["run", "-q", "--"]).arg(agent("chaos"));
    assert!(run.output().unwrap().status.success());
    is_well(&trial);
    let prompt = trial.read("logs/attempts/t1/1/prompt.md");
    assert!(prompt.contains("ralph task-complete t1"), "{prompt}");
}

fn folders_vanish() {
    for words in ["c10:logs", "c10:prompts"] {
        let template = "# Task {{ task.id }}\n";
        completes(&stage_in(Checkout, words).file("prompts/task.md", template));
    }
    let trial = stage_in(Checkout, "c10:state");
    let (code, said) = work_off(&trial);
    assert_eq!(code, 74, "{said}");
    assert!(said.contains("/.git/ralph` was moved or removed"), "{said}");
    completes(&trial);
}

fn git_is_damaged() {
    type Repair = fn(&TestProject);
    let done = || "complete".to_owned();
    let repairs: [(&str, Repair); 3] = [
        ("work,report,d6:head", |trial| trial.write(".git/HEAD", "ref: refs/heads/main\n")),
        ("work,report,d6:index", |trial| {
            fs::remove_file(trial.root().join(".git/index")).unwrap();
            trial.git(&["reset", "--quiet"]);
        }),
        ("work,report,d6:git", |trial| {
            let _ = fs::remove_dir_all(trial.root().join(".git"));
            fs::rename(trial.sign("git"), trial.root().join(".git")).unwrap();
        }),
    ];
    for (words, repair) in repairs {
        // A damaged slot is not used again, and may contain the only copy of the work.
        let trial = stage(words);
        let (code, said) = work_off(&trial);
        assert_eq!((code, trial.status("t0"), trial.status("t1")), (0, done(), done()), "{said}");
        let trial = stage_in(Checkout, words);
        let run = trial.process(RALPH).args(["run", "--once", "--"]).arg(agent("chaos")).output();
        let said = String::from_utf8(run.unwrap().stderr).unwrap();
        let wanted = match words {
            "work,report,d6:head" => "not a git repository",
            "work,report,d6:git" => "was moved or removed while this run held its lock",
            _ => "",
        };
        let named = said.contains(wanted);
        assert!(named && !said.contains("panicked"), "{words}:\n{said}");
        repair(&trial);
        completes(&trial);
    }
}

/// Pairs of faults that leave the work possible.
fn pairs() -> Vec<String> {
    const WORDS: [&str; 8] =
        ["b6:closed", "b6:kept", "b7", "b8", "b9", "c11:rotate", "c11:cut", "c11:edit"];
    let all: Vec<String> = WORDS
        .iter()
        .flat_map(|first| WORDS.iter().map(move |second| format!("{first},{second}")))
        .collect();
    match env::var("RALPH_CHAOS_PAIRS") {
        Ok(_) => all,
        // 13 and 64 have no common factor.
        Err(_) => (1..5).map(|nth| all[nth * 13].clone()).collect(),
    }
}

/// The tests of this table, as pieces that can run in parallel.
fn pieces() -> Vec<(String, Box<dyn Fn() + Send + Sync>)> {
    let mut pieces: Vec<(String, Box<dyn Fn() + Send + Sync>)> = Vec::new();
    for (name, _, how) in ROWS {
        match how {
            Words(place, lines) => {
                let places = [Slot, Checkout].into_iter();
                for place in places.filter(|it| [*it, Both].contains(place)) {
                    for (words, part) in *lines {
                        let trial = move || {
                            let said = completes(&stage_in(place, words));
                            assert!(said.contains(part), "`{part}` is not said:\n{said}");
                        };
                        pieces.push(((*name).to_owned(), Box::new(trial)));
                    }
                }
            }
            Trial(trial) => pieces.push(((*name).to_owned(), Box::new(trial))),
            Tests(_) => {}
        }
    }
    for words in pairs() {
        let name = format!("RALPH_CHAOS={words}");
        let place = if words.contains("c11") { Checkout } else { Slot };
        pieces.push((name, Box::new(move || drop(completes(&stage_in(place, &words))))));
    }
    pieces
}

#[test]
#[ignore = "slow"]
fn every_fault_comes_to_what_is_promised() {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let pieces = pieces();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((name, trial)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = panic::catch_unwind(AssertUnwindSafe(trial)) {
                        let why = error.downcast_ref::<String>().cloned().unwrap_or_default();
                        failed.lock().unwrap().push((name.clone(), why));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let mut kept = 0;
    for (name, promise, how) in ROWS {
        let (is_kept, by) = match how {
            Words(_, lines) => (!failed.iter().any(|(row, _)| row == name), {
                lines.iter().map(|(words, _)| *words).collect::<Vec<_>>().join(" | ")
            }),
            Trial(_) => (!failed.iter().any(|(row, _)| row == name), "a trial".to_owned()),
            Tests(tests) => (tests.iter().all(|test| is_a_test(test)), tests.join(", ")),
        };
        kept += usize::from(is_kept);
        let sign = if is_kept { "yes" } else { "NO " };
        println!("{name:<4} {sign} {promise} [{by}]");
    }
    println!("rows as promised {kept} / rows tried {}", ROWS.len());
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(kept, ROWS.len(), "a test that a row names is not there");
}
