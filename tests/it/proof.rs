//! The proof that verify commands notice landed work.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{TestProject, agent, wait_for};

/// A program and its test, for any shell. The test of `add` is not one of `mul`.
fn project(config: &str) -> TestProject {
    let stage = TestProject::new()
        .graph("tasks:\n  - id: mul\n    title: Add mul\n    max_attempts: 1\n")
        .file("src/add.sh", "add() { echo $(($1 + $2)); }\n")
        .file("tests/add.sh", ". src/add.sh\n[ \"$(add 1 2)\" = 3 ]\n");
    stage.save(".ralph/config.yaml", &format!("{}{config}\n", stage.read(".ralph/config.yaml")));
    stage
}

/// Lets one more attempt be made.
fn give_another_attempt(project: &TestProject) {
    let graph = project.graph_text().replace("max_attempts: 1", "max_attempts: 2");
    project.save("task-graph.yaml", &graph);
}

/// The verify command of a project: each of its tests.
const VERIFY: &str = "verify: 'for it in tests/*.sh; do sh -e $it || exit 1; done'";

/// Runs an agent that works with a script. Returns the proof of its work, and what the run printed.
fn proof(project: TestProject, work: &str) -> (Value, String) {
    let script = format!("cat > /dev/null; {work}\ngit add -A; \"$0\" < /dev/null");
    let project = project.command(["sh", "-c", &script, &agent("commit")]);
    let printed = project.run(["run", "-v"]).code(0).whole();
    let proof = project.lines("proved").pop().unwrap_or_default();
    let shown = project.run(["show", "mul.1", "--json"]).code(0).json();
    assert_eq!(shown["proof"]["outcome"], proof["outcome"], "{shown}");
    project.no_process_is_left();
    (proof, printed)
}

#[test]
fn work_with_a_test_that_needs_it_is_proved() {
    let (proof, printed) = proof(
        project(VERIFY),
        "echo 'mul() { echo $(($1 * $2)); }' > src/mul.sh
         printf '. src/mul.sh\\n[ \"$(mul 2 3)\" = 6 ]\\n' > tests/mul.sh",
    );
    assert_eq!(proof["outcome"], "proved", "{proof}");
    assert_eq!((&proof["files"], proof["controls"].as_array().map(Vec::len)), (&1.into(), Some(4)));
    assert!(printed.contains("mul proved: without its 1 source file `for it in"), "{printed}");
    assert!(printed.contains("fails, and passes with it"), "{printed}");
    assert!(printed.contains("the graph is complete"), "{printed}");
}

#[test]
fn only_a_base_that_is_red_is_repaired() {
    let broken = project(VERIFY).file("src/add.sh", "add() { echo 1; }\n");
    let (repaired, _) = proof(broken, "echo 'add() { echo $(($1 + $2)); }' > src/add.sh");
    assert_eq!(repaired["outcome"], "repaired", "{repaired}");
    // The source and what a test compares with change together.
    let golden = project(VERIFY)
        .file("tests/add.sh", ". src/add.sh\nadd 1 2 | cmp - golden.txt\n")
        .file("golden.txt", "3\n");
    let work = "echo 'add() { echo sum $(($1 + $2)); }' > src/add.sh; echo sum 3 > golden.txt";
    let (proved, _) = proof(golden, work);
    assert_eq!((&proved["outcome"], &proved["tests_changed"]), (&"proved".into(), &1.into()));
}

#[test]
fn checks_that_fail_when_they_run_again_show_nothing() {
    let unused = "printf 'mul() {\n echo 6\n}\n' >> src/add.sh";
    let once = ". src/add.sh\n[ ! -e state.db ]\ntouch state.db\n";
    let often = "at=$(cat state.db || echo 0)\necho $((at + 1)) > state.db\n[ $((at % 3)) = 0 ]\n";
    for test in [once, often] {
        let project = project(VERIFY).file("tests/add.sh", test).file(".gitignore", "state.db\n");
        let tries = format!("rm -f state.db; {unused}; sh tests/add.sh");
        let (proof, printed) = proof(project, &tries);
        assert_eq!(proof["outcome"], "skipped", "{test}: {proof}");
        assert!(printed.contains("the checks fail now and then with the same work"), "{printed}");
    }
    let required = project(&format!("{VERIFY}\nproof: require"))
        .file("tests/add.sh", once)
        .file(".gitignore", "state.db\n");
    let script =
        format!("cat > /dev/null; rm -f state.db; {unused}; git add -A; \"$0\" < /dev/null");
    let required = required.command(["sh", "-c", &script, &agent("commit")]);
    required.run(["run"]).code(3).stderr_has("its proof is missing: not examined: the checks fail");
}

#[test]
fn edits_of_tests_need_no_proof_unless_they_weaken() {
    let helper = || {
        project(&format!("{VERIFY}\nproof: require"))
            .file("tests/lib/two.sh", "two() { echo 2; }\n")
            .file("tests/add.sh", ". src/add.sh; . tests/lib/two.sh\n[ \"$(add 1 $(two))\" = 3 ]\n")
    };
    for work in [
        "printf 'TWO=2\ntwo() { echo $TWO; }\n' > tests/lib/two.sh",
        "sed -i.old 's/= 3 ]/= 3 ] # three/' tests/add.sh; rm tests/add.sh.old",
    ] {
        let (proof, printed) = proof(helper(), work);
        assert_eq!(proof["outcome"], "not_needed", "{work}: {proof}");
        assert!(printed.contains("the graph is complete"), "{work}: {printed}");
    }
    let limit = helper()
        .file("limit.yaml", "limit: 3\n")
        .file("tests/limit.sh", "grep -q 'limit: 3' limit.yaml\n");
    let work =
        "echo 'limit: 4' > limit.yaml; echo \"grep -q 'limit: 4' limit.yaml\" > tests/limit.sh";
    assert_eq!(proof(limit, work).0["outcome"], "not_needed");
    // A test that was red is made green, and the source stays as it is.
    let red = project(VERIFY).file("src/add.sh", "add() { echo 4; }\n");
    let (proof, _) = proof(red, "sed -i.old 's/= 3/= 4/' tests/add.sh; rm tests/add.sh.old");
    assert_eq!(proof["outcome"], "checks_changed", "{proof}");
}

#[test]
fn worthless_work_is_not_called_complete() {
    let cheats = [
        ("not_noticed", VERIFY, "echo 'mul() { echo 6; }' > src/mul.sh"),
        ("not_noticed", VERIFY, "echo 'add() { :; }' > src/add.sh; echo : > tests/add.sh"),
        ("tests_removed", VERIFY, "git rm -q tests/add.sh; mkdir -p tests; echo : > tests/mul.sh"),
        (
            "checks_changed",
            "verify: sh check.sh",
            "echo 'mul() { echo 6; }' > src/mul.sh; sed -i.old 's/^/A=6; export A; /' check.sh
             rm check.sh.old; printf '. src/mul.sh\\n[ \"$(mul)\" = $A ]\\n' > tests/mul.sh",
        ),
    ];
    for (want, config, work) in cheats {
        let check = "for it in tests/*.sh; do sh -e $it || exit 1; done\n";
        let project = project(config).file("check.sh", check);
        let (proof, printed) = proof(project, work);
        assert_eq!(proof["outcome"], want, "{work}: {proof}");
        assert!(!printed.contains("is complete"), "{work}: {printed}");
    }
}

#[test]
fn work_with_which_the_checks_notice_less_does_not_land() {
    let all = "n=0; for it in tests/*.sh; do sh -e $it || exit 1; n=$((n + 1)); done
               echo \"Ran $n tests in 0.001s\"\n";
    let with = |check: &str, code| {
        let project = project("verify: sh check.sh").file("check.sh", all);
        let project = project.file("tests/sub.sh", ". src/add.sh\n[ \"$(add 3 -1)\" = 2 ]\n");
        let work = format!("cat > /dev/null; cat > check.sh <<'E'\n{check}\nE\ngit add -A");
        let script = format!("{work}; \"$0\" < /dev/null");
        let project = project.command(["sh", "-c", &script, &agent("commit")]);
        let printed = project.run(["run"]).code(code).whole();
        (project, printed)
    };
    let cases = [
        ("`sh check.sh` passes even if all code is broken", all.replace("exit 1", ":")),
        ("only 1 test of 2 run", all.replace('*', "a*")),
    ];
    for (said, check) in cases {
        let (project, printed) = with(&check, 3);
        let said = format!("checks changed: with the new `check.sh` {said}");
        assert!(printed.contains(&format!("reported done, but {said}")), "{check}: {printed}");
        assert_eq!(project.git(&["show", "main:check.sh"]), all);
        give_another_attempt(&project);
        let prompt = project.run(["prompt", "mul"]).code(0).whole();
        let next = format!("notice less than before: {said}.\nTake that change back.");
        assert!(prompt.contains(&next), "{prompt}");
        project.no_process_is_left();
    }
    let (project, printed) = with(&format!("set -u\n{all}"), 0);
    assert!(printed.contains("no proof needed: only settings and scripts of checks"), "{printed}");
    assert!(printed.contains("the graph is complete"), "{printed}");
    project.no_process_is_left();
}

#[test]
fn work_that_needs_a_proof_lands_only_with_it() {
    let feature = "echo 'mul() { echo $(($1 * $2)); }' > src/mul.sh";
    let required = || project(&format!("{VERIFY}\nproof: require"));
    let script = format!("cat > /dev/null; {feature}\ngit add -A; \"$0\" < /dev/null");
    let without = required().command(["sh", "-c", &script, &agent("commit")]);
    without.run(["run"]).code(3).stderr_has(
        "unverified (1 of 1 attempts): its proof is missing: not noticed: the checks \
         pass without this change",
    );
    assert_eq!(without.git(&["ls-tree", "--name-only", "main", "src/"]), "src/add.sh\n");
    give_another_attempt(&without);
    let prompt = without.run(["prompt", "mul"]).code(0).whole();
    for said in [
        "- `for it in tests/*.sh; do sh -e $it || exit 1; done`\n\nThey also pass\n- without the source",
        "Add a test that fails without the work",
    ] {
        assert!(prompt.contains(said), "{prompt}");
    }
    without.no_process_is_left();
    let test = "printf '. src/mul.sh\\n[ \"$(mul 2 3)\" = 6 ]\\n' > tests/mul.sh";
    let (proof, printed) = proof(required(), &format!("{feature}\n{test}"));
    assert_eq!(proof["outcome"], "proved", "{proof}");
    assert!(printed.contains("✓ mul ") && printed.contains("the graph is complete"));
    assert!(!printed.contains("is kept"), "controls are kept: {printed}");
}

#[test]
fn a_task_that_keeps_behavior_needs_no_test_that_fails() {
    let keep = || {
        let project = project(VERIFY);
        let graph = project.graph_text().replace("title:", "proof: keep\n    title:");
        project.graph(&graph)
    };
    let (kept, _) = proof(keep(), "echo 'add() { expr $1 + $2; }' > src/add.sh");
    assert_eq!(kept["outcome"], "kept", "{kept}");
    let weaker = "echo 'add() { :; }' > src/add.sh; echo : > tests/add.sh";
    let (lost, _) = proof(keep(), weaker);
    assert_eq!(lost["outcome"], "not_kept", "{lost}");
}

#[test]
fn documents_need_no_proof_and_a_proof_can_be_turned_off() {
    let (none, printed) = proof(project(VERIFY), "echo '# Add' > README.md");
    assert_eq!(none, Value::Null);
    assert!(printed.contains("✓ mul "), "{printed}");
    let project = project(&format!("{VERIFY}\nproof: none"));
    let (none, _) = proof(project, "echo 'mul() { echo 6; }' > src/mul.sh");
    assert_eq!(none, Value::Null);
}

/// The end words of a run whose task landed without a proof.
const UNPROVED: &str = "all tasks have landed, without a proof of `mul`";

#[test]
fn a_proof_that_was_not_made_is_named_by_this_run_and_the_next_until_a_person_accepts_the_work() {
    let work = "echo 'mul() { sleep 30; }' > src/mul.sh; echo . src/mul.sh > tests/mul.sh";
    let slow = "verify: 'sleep 2; for it in tests/*.sh; do sh -e $it || exit 1; done'";
    let script = format!("cat > /dev/null; {work}\ngit add -A; \"$0\" < /dev/null");
    let with = |config: &str| project(config).command(["sh", "-c", &script, &agent("commit")]);
    let late = with(slow).env("RALPH_FIXED_LIMIT", "1s");
    let in_place = with(VERIFY).in_place();
    for (project, why) in
        [(late, "the limit of a proof ("), (in_place, "attempts work in the checkout")]
    {
        let printed = project.run(["run", "-v"]).code(0).whole();
        assert!(printed.contains(&format!("mul not examined: {why}")), "{printed}");
        assert!(printed.contains(UNPROVED), "{printed}");
        assert_eq!(project.lines("proved").len(), 1);
        let shown = project.run(["show", "mul.1", "--json"]).code(0).json();
        let text = shown["proof"]["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("not examined: {why}")), "{text}");
        project.run(["status"]).code(0).stdout_has("1 of 1 landed, 1 not proved");
        project.run(["run"]).code(0).stderr_has(UNPROVED);
        project.run(["task-complete", "mul"]).code(0);
        project.run(["run"]).code(0).stderr_has("the graph is complete");
        project.run(["status"]).code(0).stdout_has("1 of 1 complete");
        project.no_process_is_left();
    }
}

#[test]
fn the_proof_of_a_killed_or_stopped_run_is_made_by_the_next() {
    let work = "echo 'mul() { :; }' > src/mul.sh; echo : > tests/mul.sh; git add -A";
    let script = format!("cat > /dev/null; {work}; \"$0\" < /dev/null");
    for is_killed in [true, false] {
        // Without the source of the work, the check hangs the first time.
        let slow = "setup: touch made\nverify: '[ -e made ] && { [ ! -e tests/mul.sh ] || [ -e src/mul.sh ] || sh wait.sh; }'";
        let project = project(slow).command(["sh", "-c", &script, &agent("commit")]);
        let began = project.root().join("logs/began");
        let wait = format!("[ ! -e '{0}' ] || exit 1\ntouch '{0}'; sleep 30\n", began.display());
        let project = project.file("wait.sh", &wait).file(".gitignore", "made\nlogs\n");
        let run = project.start(["run"]);
        wait_for(&began);
        if is_killed {
            run.kill();
        } else {
            run.signal(Signal::INT);
            run.end(&project).code(0);
            assert_eq!(project.lines("proved").len(), 1);
        }
        let printed = project.run(["run", "-v"]).code(0).whole();
        assert!(printed.contains("mul proved"), "{printed}");
        assert!(printed.contains("the graph is complete"), "{printed}");
        // Once.
        let again = project.run(["run", "-v"]).code(0).whole();
        assert!(!again.contains("proved"), "{again}");
        project.no_process_is_left();
    }
}

#[test]
fn work_in_the_checkout_cannot_require_a_proof() {
    let project = project(&format!("{VERIFY}\nproof: require")).in_place();
    project.run(["run"]).code(64).stderr_has("its work can be proved only in a slot");
}

#[test]
fn a_control_that_takes_too_long_shows_nothing() {
    let slow = "verify: '[ ! -e tests/mul.sh ] || [ -e src/mul.sh ] || sleep 30'";
    let work = "echo 'mul() { :; }' > src/mul.sh; echo : > tests/mul.sh";
    let (proof, printed) = proof(project(&format!("{slow}\nverify_timeout: 1s")), work);
    assert_eq!(proof["outcome"], "skipped", "{proof}");
    assert!(printed.contains("|| sleep 30` took longer than "), "{printed}");
}
