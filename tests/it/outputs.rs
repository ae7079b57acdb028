//! Files that receive the output of `ralph` itself, and files that agents leave for themselves, are no
//! work of an attempt and are not committed.

use crate::support::{RALPH, TestProject, agent};

/// Runs `ralph run` with these words in a shell, which sends the output to files.
fn shell(trial: &TestProject, words: &str, outputs: &str, code: i32) {
    let line = format!("set -o pipefail; {RALPH} run {words} {outputs}");
    let status = trial.process("bash").args(["-c", &line]).status().unwrap();
    assert_eq!(status.code(), Some(code), "{line}");
}

/// How a shell sends the output of `ralph` to the file `ralph.log`.
const WAYS: [&str; 4] = [
    "> ralph.log 2>&1",
    "2> ralph.log",
    "2>&1 | tee ralph.log > /dev/null",
    "2>&1 | cat | tee -a ralph.log > /dev/null",
];

#[test]
fn the_output_of_a_run_is_no_evidence() {
    for mode in ["", "--in-place"] {
        for way in WAYS {
            let trial = TestProject::new().graph("tasks: [{id: a}]\n");
            shell(&trial, &format!("--once {mode} -- {}", agent("lie")), way, 1);
            assert_eq!(trial.lines("failed")[0]["verdict"], "unverified", "{way}");
            assert!(trial.lines("failed")[0]["leftovers"].is_null(), "{way}");
            let log = trial.read("ralph.log");
            assert!(!log.is_empty() && !log.contains("attempts do not have it"), "{way}: {log}");
        }
    }
}

#[test]
#[ignore = "slow"]
fn the_output_of_a_run_is_not_committed() {
    let add_all = "cat > /dev/null; echo work > work; git add --all; git commit -qm Work; \
                   \"$RALPH\" task-complete a";
    for mode in ["", "--in-place"] {
        for way in WAYS {
            for agent in [agent("leave"), format!("sh -c '{add_all}'")] {
                let trial = TestProject::new().graph("tasks: [{id: a}]\n");
                shell(&trial, &format!("{mode} -- {agent}"), way, 0);
                assert_eq!(trial.tasks("completed"), ["a"], "{way}");
                let files = trial.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
                assert!(!files.contains("ralph.log"), "{way}: {files}");
                assert_eq!(trial.git(&["status", "--porcelain", "--", "ralph.log"]), "", "{way}");
            }
        }
    }
}

#[test]
fn a_log_of_any_name_is_found_and_other_files_are_not_hidden() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    trial.write("notes.txt", "mine\n");
    let way = "> 'logs/my [best] log*.txt ' 2>&1";
    std::fs::create_dir(trial.root().join("logs")).unwrap();
    shell(&trial, &format!("-- {}", agent("leave")), way, 0);
    assert_eq!(trial.git(&["status", "--porcelain", "--untracked-files=all", "--", "logs"]), "");
    assert_eq!(trial.git(&["status", "--porcelain", "--", "notes.txt"]), "?? notes.txt\n");
}

#[test]
fn what_an_agent_keeps_for_itself_is_neither_evidence_nor_committed() {
    let litter = "cat > /dev/null; echo hi > .aider.chat.history.md; mkdir -p sub/.aider.tags.v4
        echo x > sub/.aider.tags.v4/cache";
    let report = "\"$RALPH\" task-complete a";
    for mode in [&["run", "--once"][..], &["run", "--once", "--in-place"]] {
        for (work, code) in [
            ("", 1),
            ("echo work > work", 0),
            ("echo work > work; git add --all; git commit -qm Work", 0),
        ] {
            let trial = TestProject::new().graph("tasks: [{id: a}]\n");
            let path = trial.sign("bin/aider");
            trial.script(&path, &format!("{litter}\n{work}\n{report}"));
            let trial = trial.command([path.display().to_string().as_str()]);
            trial.run(mode).code(code);
            let files = trial.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
            assert!(!files.contains(".aider"), "{work}: {files}");
            let status = trial.git(&["status", "--porcelain", "--untracked-files=all"]);
            assert!(!status.contains(".aider"), "{work}: {status}");
            if code == 1 {
                assert_eq!(trial.lines("failed")[0]["verdict"], "unverified");
            }
        }
    }
}
