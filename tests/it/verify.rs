//! Verify commands, which must pass before a task is complete.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{TestProject, agent, until};

/// A check that prints what it expected.
const VALUE: &str =
    "test \"$(cat value)\" = good || { echo \"wanted good, found $(cat value)\"; exit 3; }";

fn graph(fields: &str) -> String {
    format!("tasks:\n  - id: a\n{fields}\n")
}

#[test]
fn a_failed_verify_is_told_to_the_next_attempt() {
    let verify = format!("    verify:\n      - test -e value\n      - '{VALUE}'");
    let trial = TestProject::new().graph(&graph(&verify)).file("value", "none\n");
    let trial = trial.agent("fix-verify");
    trial.run(["run"]).graph_complete().stderr_has(
        "\
[time]      wanted good, found bad
[time]  a started, attempt 2 (1 of 3 used)
[time]  ✓ a  [took]  +1 −1  Write bad
",
    );
    let verdicts: Vec<_> = ["failed", "completed"]
        .map(|action| trial.lines(action)[0]["verdict"].as_str().unwrap().to_owned())
        .into();
    assert_eq!(verdicts, ["verify-failed", "complete"]);
    let proof = &trial.lines("completed")[0]["verify"];
    assert_eq!(
        (proof[0]["exit_code"].as_i64(), proof[1]["exit_code"].as_i64()),
        (Some(0), Some(0))
    );
    assert_eq!(trial.read("logs/attempts/a/1/red-merge-2.log"), "wanted good, found bad\n");
    assert!(trial.read("logs/attempts/a/2/prompt.md").contains("verify a`"));
    trial.no_process_is_left();
}

#[test]
fn an_agent_does_not_choose_its_own_judge() {
    let script = "cat > /dev/null; \"$0\" < /dev/null
        sed -i -e 's/verify: .*false.*/verify: []/' -e 's/priority: low/priority: high/' task-graph.yaml";
    let graph = "tasks:\n  - id: a\n    max_attempts: 1\n    verify: ['false']\n  \
                 - {id: b, priority: low, depends_on: [a]}\n";
    let stage = || TestProject::new().graph(graph).command(["sh", "-c", script, &agent("commit")]);
    let trial = stage();
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("failed")[0]["verdict"], "verify-failed");
    assert!(!trial.graph_text().contains("verify: []"), "it changed its own copy");

    let trial = stage().in_place();
    trial.run(["run"]).code(3);
    let guarded = json!({"what": "changed", "tasks": ["a", "b"], "undone": false});
    trial.assert_record("graph_guarded", &guarded);
    assert_eq!(trial.lines("failed")[0]["verdict"], "verify-failed");
    assert!(trial.graph_text().contains("verify: []"), "what may be a person's stays");
}

#[test]
fn what_was_not_reported_is_not_verified() {
    let trial =
        TestProject::new().graph(&graph("    verify: touch $TRIAL_DIR/ran\n    max_attempts: 1"));
    let trial = trial.agent("fail");
    trial.run(["run", "-q"]).code(3);
    assert!(!trial.sign("ran").exists());
}

#[test]
fn a_task_adds_to_the_checks_of_the_project() {
    let says = |word: &str| format!("echo {word} >> \"$TRIAL_DIR/ran\"");
    let stage = |fields: &str| {
        let settings = json!({"verify": [says("all")]});
        let trial = TestProject::new()
            .file(".ralph/config.yaml", &settings.to_string())
            .graph(&format!(
                "defaults: {{verify: '{}'}}\ntasks:\n- {{id: a{fields}}}\n",
                says("default")
            ))
            .agent("commit");
        trial.run(["run", "-q"]).code(0);
        fs::read_to_string(trial.sign("ran")).unwrap_or_default()
    };
    let own = format!(", verify: '{}'", says("own"));
    let only = format!(", verify_only: '{}'", says("only"));
    assert_eq!(stage(""), "all\ndefault\n");
    assert_eq!(stage(&own), "all\ndefault\nown\n");
    assert_eq!(stage(", verify: []"), "all\ndefault\n");
    // The end of the run verifies the whole.
    assert_eq!(stage(&only), "only\ndefault\nall\n");
    assert_eq!(stage(&(only + &own)), "only\ndefault\nown\nall\n");
    let trial = TestProject::new()
        .file(".ralph/config.yaml", "verify: [make]\n")
        .graph("tasks: [{id: a, description: What to do now in one line., verify_only: 'true && make b'}]\n");
    let said = trial.run(["check", "--strict"]).code(1).whole();
    assert!(said.contains("`a` does not run `make` (replaced-checks)"), "{said}");
}

#[test]
fn a_check_that_runs_no_test_is_named() {
    let tests = "printf 'test result: ok. %s passed; 0 failed; 0 ignored\\n'";
    let graph = format!("tasks:\n- {{id: a, verify: [\"{tests} 3\", \"{tests} 0\"]}}\n");
    let trial = TestProject::new().graph(&graph.replace("\\n'", "\\\\n'")).agent("commit");
    trial.run(["run"]).graph_complete().stderr_has("[time]      ! no test ran in `");
    let proof = &trial.lines("completed")[0]["verify"];
    assert_eq!((&proof[0]["no_test"], &proof[1]["no_test"]), (&json!(null), &json!(true)));
    assert!(trial.run(["show", "a"]).out().contains("no test ran in"));
    // In the colors of a terminal.
    let skipped =
        r"printf '\033[2m     Tests \033[22m \033[33m2 skipped\033[39m\033[90m (2)\033[39m\n'";
    let graph = json!({"tasks": [{"id": "a", "verify": skipped}]}).to_string();
    let trial = TestProject::new().graph(&graph).agent("commit");
    trial.run(["run", "-q"]).code(0);
    assert_eq!(trial.lines("completed")[0]["verify"][0]["no_test"], true);
}

#[test]
fn what_leads_to_the_checkout_leads_to_the_slot() {
    let trial = TestProject::new()
        .file("bin/check", "#!/bin/sh\n! grep -q broken value\n")
        .file("value", "fine\n")
        .graph(
            "tasks: [{id: a, max_attempts: 1, verify: 'check && test ! -d \"$VIRTUAL_ENV\"'}]\n",
        );
    let path = trial.root().join("bin/check");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    trial.git(&["commit", "-qam", "Make it executable"]);
    // It changes the check in its slot, which its own verification must then use.
    let script = "cat > /dev/null; echo exit 7 >> bin/check; test \"$BASE\" = \"$PWD\" && \
                  git commit -qam Work && \"$RALPH\" task-complete a";
    let root = trial.root().display().to_string();
    let trial = trial
        .env("PATH", &format!("{root}/bin:{}", std::env::var("PATH").unwrap()))
        .env("BASE", &root)
        .env("VIRTUAL_ENV", &format!("{root}/.venv"))
        .command(["sh", "-c", script]);
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("verify_failed")[0]["exit_code"], 7);
    let kept = trial.env("RALPH_ENV_KEEP", "[PATH]");
    kept.run(["task-reset", "a"]);
    kept.run(["run"]).graph_complete();
}

#[test]
fn a_verify_command_that_hangs_is_ended_with_all_it_started() {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", "grace: 200ms\nverify_timeout: 1s\n")
        .graph(&graph("    verify: setsid sleep 600 & sleep 600\n    max_attempts: 1"))
        .agent("commit");
    trial.run(["verify", "a"]).code(1).stderr_has("ended by ralph at its limit of");
    trial.no_process_is_left();
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("verify_failed")[0]["outcome"], "timed_out");
    trial.no_process_is_left();
}

#[test]
fn the_next_run_continues_a_stopped_verification() {
    let verify = "    verify: 'touch \"$TRIAL_DIR/verifying\"; until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.05; done'";
    for kill in [false, true] {
        let trial = TestProject::new().graph(&graph(verify)).agent("commit");
        let run = trial.start_until(["run"], "verifying");
        if kill {
            run.kill();
        } else {
            run.signal(Signal::INT);
            run.end(&trial).code(130);
            trial.assert_record("verify_postponed", &json!({"task_id": "a", "attempt": 1}));
        }
        trial.no_process_is_left();
        trial.run(["status"]).stdout_has("Merge queue: a");
        trial.leave("go");
        trial.run(["run"]).graph_complete();
        trial.assert_record("recovered", &json!({"task_id": "a", "attempt": 1}));
        assert_eq!(trial.status("a"), "complete");
        assert_eq!(trial.lines("started").len(), 1, "the work was done once");
        assert_eq!(trial.subjects(), ["Work on a"]);
    }
}

#[test]
fn a_guardian_killed_while_verifying_costs_only_the_command() {
    let verify =
        "    verify: '[ -e \"$TRIAL_DIR/go\" ] || { touch \"$TRIAL_DIR/verifying\"; sleep 600; }'";
    let trial = TestProject::new().graph(&graph(verify)).agent("commit");
    let run = trial.start_until(["run"], "verifying");
    trial.leave("go");
    let record = || fs::read_to_string(trial.state().join("attempts/a.1.json")).unwrap_or_default();
    let guardian = || {
        let record: serde_json::Value = serde_json::from_str(&record()).ok()?;
        let pid = i32::try_from(record["guardian"]["pid"].as_i64()?).unwrap();
        rustix::process::Pid::from_raw(pid)
    };
    // For a moment the record still has the guardian of the agent, which has ended.
    let kill = |pid| rustix::process::kill_process(pid, Signal::KILL).is_ok();
    until("its guardian is on record", || guardian().is_some_and(kill));
    run.end(&trial).graph_complete();
    assert_eq!((trial.lines("verifying").len(), trial.lines("started").len()), (2, 1));
    trial.no_process_is_left();
}

/// A folder with a manifest is a project of its own in the repository. A folder without one, and the
/// document of a task, only say where to look.
#[test]
fn the_commands_of_a_task_run_in_its_project() {
    let own = "verify: ['test -f only-here', 'echo \"${PWD##*/}\" >> \"$TRIAL_DIR/ran\"; test -s ../b.txt']";
    let graph = format!(
        "tasks:\n- {{id: b, path: web/app, {own}}}\n- {{id: c, path: docs, verify: test -f top}}\n\
         - {{id: d, path: docs/d.md, verify: test -f top}}\n"
    );
    let settings = format!("{}verify: [test -f top]\n", crate::support::SETTINGS);
    let agent = "cat > prompt-$RALPH_TASK_ID.txt; mkdir -p web; echo 1 > web/$RALPH_TASK_ID.txt\n\
                 git add -A; git commit -qm Work; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .file("web/app/package.json", "{}\n")
        .file("web/app/only-here", "")
        .file("docs/d.md", "Do it.\n")
        .file("top", "")
        .graph(&graph)
        .command(["sh", "-c", agent]);
    trial.run(["verify", "b"]).code(1).stderr_has("`cd web/app || exit; echo ");
    trial.run(["run"]).graph_complete();
    assert!(fs::read_to_string(trial.sign("ran")).unwrap().contains("app\n"));
    let prompt = |id: &str| trial.git(&["show", &format!("main:prompt-{id}.txt")]);
    assert!(prompt("b").contains("The work is in the folder `web/app`."));
    assert!(prompt("b").contains("cd web/app && test -f only-here"), "{}", prompt("b"));
    assert!(prompt("c").contains("in the folder `docs`") && !prompt("c").contains("cd docs"));
    assert!(prompt("d").contains("own document is `docs/d.md`"));
}

#[test]
fn verifying_by_hand() {
    let trial = TestProject::new().graph("tasks:\n  - {id: a, verify: [echo one, 'false', echo two]}\n  - {id: b, verify: 'true'}\n  - id: c\n");
    trial
        .run(["verify", "a"])
        .code(1)
        .stdout("one\n")
        .stderr("verifying a: `echo one`\nverifying a: `false`\n`false` exited with code 1\n");
    trial.run(["verify", "b"]).stderr("verifying b: `true`\nit succeeded\n");
    trial.run(["verify", "c"]).stderr_has("`c` has no verify commands; set");
}

#[test]
fn a_failure_is_shown_with_the_failed_test() {
    let tap = r"printf 'ok 1 - adds\n\033[31mnot ok 2 - multiplies\033[0m\n1..2\n# fail 1\n# duration_ms 123\n'";
    let trial = TestProject::new()
        .graph(&format!(
            "tasks: [{{id: a, max_attempts: 1, verify: {}}}]\n",
            json!(format!("{tap}; exit 1"))
        ))
        .agent("commit");
    trial.run(["run"]).code(3).stderr_has("not ok 2 - multiplies\n");
    trial.assert_record("verify_failed", &json!({"last_line": "not ok 2 - multiplies"}));
}

/// Twice that is an accident; the third time it is a red check.
#[test]
fn a_verify_command_that_always_loses_its_guardian_is_not_repeated_for_long() {
    let verify = "    verify: 'kill -9 $PPID; sleep 600'";
    let trial = TestProject::new().graph(&graph(verify)).agent("commit");
    trial.run(["run", "--once"]).code_is_any();
    assert_eq!(trial.lines("verifying").len(), 3);
    assert_eq!(trial.lines("failed")[0]["verdict"], "verify-failed");
    trial.no_process_is_left();
}
