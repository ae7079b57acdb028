//! The proof that verify commands notice landed work.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{TestProject, agent, wait_for};

/// A program in Python and its tests.
fn project(config: &str) -> TestProject {
    let stage = TestProject::new()
        .graph("tasks:\n  - id: mul\n    title: Add mul\n    max_attempts: 1\n")
        .file(".gitignore", "__pycache__\nlogs\n")
        .file("calc.py", "def add(a, b):\n    return a + b\n\n\ndef half(n):\n    return n // 2\n")
        .file("tests/__init__.py", "")
        .file("tests/test_calc.py", TESTS);
    stage.save(".ralph/config.yaml", &format!("{}{config}\n", stage.read(".ralph/config.yaml")));
    stage
}

const TESTS: &str = "import unittest

import calc


class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)

    def test_half(self):
        self.assertEqual(calc.half(7), 3)
";

/// The verify commands of a project: a formatter that no control passes, and its tests.
const VERIFY: &str = "verify: ['! grep -q \"if abs\" calc.py', python3 -m unittest]";

/// A new function.
const MUL: &str = "printf '\\n\\ndef mul(a, b):\\n    return a * b\\n' >> calc.py";

/// Adds a test, with these lines in it, to those that are there.
fn test(lines: &str) -> String {
    format!("printf '\\n    def test_mul(self):\\n        {lines}\\n' >> tests/test_calc.py")
}

/// Runs an agent that works with a script, and then ralph. Returns the proof of its work, and what the run
/// printed.
fn proof_after(project: TestProject, work: &str, code: i32) -> (Value, String) {
    let script = format!("cat > /dev/null; {work}\ngit add -A; \"$0\" < /dev/null");
    let project = project.command(["sh", "-c", &script, &agent("commit")]);
    let printed = project.run(["run", "-v"]).code(code).whole();
    let proof = project.lines("proved").pop().unwrap_or_default();
    let shown = project.run(["show", "mul.1", "--json"]).code(0).json();
    assert_eq!(shown["proof"]["outcome"], proof["outcome"], "{shown}");
    project.no_process_is_left();
    (proof, printed)
}

/// The outcome and the reason of a proof.
fn words(proof: &Value) -> [&str; 2] {
    ["outcome", "reason"].map(|key| proof[key].as_str().unwrap_or_default())
}

#[test]
fn work_with_a_test_that_needs_it_is_proved() {
    let work = format!("{MUL}; {}", test("self.assertEqual(calc.mul(2, 3), 6)"));
    let (proof, printed) = proof_after(project(VERIFY), &work, 0);
    assert_eq!(words(&proof), ["proved", "noticed"], "{proof}");
    assert_eq!(proof["tests"][0], "tests.test_calc.CalcTest.test_mul", "{proof}");
    assert!(printed.contains("mul proved: without the work `tests.test_calc."), "{printed}");
    assert!(printed.contains("the graph is complete"), "{printed}");
}

#[test]
fn a_red_base_that_becomes_green_is_proved_without_a_new_test() {
    let broken = project(VERIFY)
        .file("calc.py", "def add(a, b):\n    return 1\n\n\ndef half(n):\n    return n // 2\n");
    let (proof, _) =
        proof_after(broken, "sed -i.old 's/return 1/return a + b/' calc.py; rm calc.py.old", 0);
    assert_eq!(words(&proof), ["proved", "noticed"], "{proof}");
}

#[test]
fn worthless_work_is_not_proved() {
    let mul = |lines| format!("{MUL}; {}", test(lines));
    let div = "printf '\\n\\ndef div(a, b):\\n    return a * b\\n' >> calc.py";
    let cheats = [
        (["not_proved", "never_run"], MUL.to_owned()),
        (["not_proved", "not_noticed"], mul("calc.mul(2, 3)")),
        (["not_proved", "not_noticed"], mul("self.assertIsInstance(calc.mul(2, 3), int)")),
        (["not_proved", "not_noticed"], mul("self.assertEqual(calc.mul(2, 3), calc.mul(2, 3))")),
        (
            ["not_proved", "never_run"],
            format!("{}; {div}", mul("self.assertEqual(calc.mul(2, 3), 6)")),
        ),
        (
            ["not_proved", "notices_less"],
            format!(
                "{}; sed -i.old 's/def test_half/def no_half/' tests/test_calc.py; rm tests/*.old",
                mul("self.assertEqual(calc.mul(2, 3), 6)")
            ),
        ),
        (
            ["not_proved", "not_kept"],
            "sed -i.old 's/7), 3/7), 4/' tests/test_calc.py; rm tests/*.old; git add -A".to_owned(),
        ),
    ];
    for (want, work) in cheats {
        let mut begun = project(VERIFY);
        if want[1] == "not_kept" {
            begun = begun.file(
                "calc.py",
                "def add(a, b):\n    return a + b\n\n\ndef half(n):\n    return (n + 1) // 2\n",
            );
        }
        let (proof, printed) = proof_after(begun, &work, 6);
        assert_eq!(words(&proof), want, "{work}: {proof}");
        assert!(
            printed.contains("what was to be done has landed; not proved: `mul`"),
            "{work}: {printed}"
        );
    }
}

#[test]
fn work_that_keeps_all_behavior_is_exercised_if_tests_run_it() {
    let work = "sed -i.old 's/n \\/\\/ 2/int(n \\/ 2)/' calc.py; rm calc.py.old";
    let (proof, printed) = proof_after(project(VERIFY), work, 0);
    assert_eq!(words(&proof), ["exercised", "run"], "{proof}");
    assert!(printed.contains("the graph is complete"), "{printed}");
    let wants = |policy: &str| {
        let project = project(VERIFY);
        let graph = project.graph_text().replace("title:", &format!("proof: {policy}\n    title:"));
        project.graph(&graph)
    };
    let (proof, _) = proof_after(wants("tests"), work, 6);
    assert_eq!(words(&proof), ["not_proved", "only_exercised"], "{proof}");
    let (proof, _) = proof_after(wants("exercised"), work, 0);
    assert_eq!(words(&proof), ["exercised", "run"], "{proof}");
}

#[test]
fn tests_that_move_are_as_good_as_before() {
    let work =
        "mkdir tests/calc; touch tests/calc/__init__.py; git mv tests/test_calc.py tests/calc/";
    let (proof, _) = proof_after(project(VERIFY), work, 0);
    assert_eq!(words(&proof), ["exercised", "checks_only"], "{proof}");
}

#[test]
fn a_command_without_tests_proves_nothing() {
    let (proof, printed) = proof_after(project("verify: python3 -m compileall -q ."), MUL, 6);
    assert_eq!(words(&proof), ["not_proved", "no_test"], "{proof}");
    assert!(printed.contains("not proved: no test ran in `python3 -m compileall"), "{printed}");
}

#[test]
fn tests_that_fail_after_any_edit_show_nothing() {
    let once = format!(
        "{TESTS}\n    def test_text(self):\n        with open('calc.py') as text:\n            self.assertNotIn('if abs', text.read())\n"
    );
    let work = format!("{MUL}; {}", test("self.assertTrue(calc.mul)"));
    let (proof, _) = proof_after(
        project("verify: python3 -m unittest").file("tests/test_calc.py", &once),
        &work,
        6,
    );
    assert_eq!(words(&proof), ["not_proved", "never_run"], "{proof}");
}

#[test]
fn work_with_which_the_checks_notice_less_does_not_land() {
    let check = "python3 -m unittest\n";
    let begun = project("verify: sh check.sh").file("check.sh", check);
    let work = "cat > /dev/null; echo 'python3 -m unittest -k add' > check.sh; git add -A";
    let script = format!("{work}; \"$0\" < /dev/null");
    let project = begun.command(["sh", "-c", &script, &agent("commit")]);
    let printed = project.run(["run"]).code(3).whole();
    let said =
        "if all code is broken, with the new `check.sh` it is noticed no more by `test_half`";
    assert!(printed.contains(said), "{printed}");
    assert_eq!(project.git(&["show", "main:check.sh"]), check);
    let again = project.graph_text().replace("max_attempts: 1", "max_attempts: 2");
    let project = project.graph(&again);
    let prompt = project.run(["prompt", "mul"]).code(0).whole();
    assert!(prompt.contains("Take that change back."), "{prompt}");
    project.no_process_is_left();
}

#[test]
fn work_that_needs_a_proof_lands_only_with_it() {
    let required = || project(&format!("{VERIFY}\nproof: require"));
    let script = format!("cat > /dev/null; {MUL}\ngit add -A; \"$0\" < /dev/null");
    let without = required().command(["sh", "-c", &script, &agent("commit")]);
    let why = "unverified (1 of 1 attempts): its proof is missing: not proved: no test runs";
    without.run(["run"]).code(3).stderr_has(why);
    assert!(!without.git(&["show", "main:calc.py"]).contains("mul"));
    let again = without.graph_text().replace("max_attempts: 1", "max_attempts: 2");
    let without = without.graph(&again);
    let prompt = without.run(["prompt", "mul"]).code(0).whole();
    for said in ["The work is not proved: no test runs `mul`.", "a test that fails without it"] {
        assert!(prompt.contains(said), "{prompt}");
    }
    without.no_process_is_left();
    let work = format!("{MUL}; {}", test("self.assertEqual(calc.mul(2, 3), 6)"));
    let (proof, printed) = proof_after(required(), &work, 0);
    assert_eq!(words(&proof), ["proved", "noticed"], "{proof}");
    assert!(printed.contains("✓ mul ") && printed.contains("the graph is complete"));
    assert!(!printed.contains("is kept"), "controls are kept: {printed}");
}

#[test]
fn documents_need_no_proof_and_a_proof_can_be_turned_off() {
    let (none, printed) = proof_after(project(VERIFY), "echo '# Add' > README.md", 0);
    assert_eq!(none, Value::Null);
    assert!(printed.contains("✓ mul "), "{printed}");
    let project = project(&format!("{VERIFY}\nproof: none"));
    let (none, _) = proof_after(project, MUL, 0);
    assert_eq!(none, Value::Null);
}

/// The end words of a run whose task landed without a proof.
const UNPROVED: &str = "what was to be done has landed; not proved: `mul`";

#[test]
fn a_proof_that_was_not_made_is_named_by_this_run_and_the_next_until_a_person_accepts_the_work() {
    let slow = "verify: sleep 2; python3 -m unittest";
    let script = format!("cat > /dev/null; {MUL}\ngit add -A; \"$0\" < /dev/null");
    let with = |config: &str| project(config).command(["sh", "-c", &script, &agent("commit")]);
    let late = with(slow).env("RALPH_FIXED_LIMIT", "1s");
    let in_place = with(VERIFY).in_place();
    for (project, why) in
        [(late, "the limit of a proof ("), (in_place, "attempts work in the checkout")]
    {
        let printed = project.run(["run", "-v"]).code(6).whole();
        assert!(printed.contains(&format!("mul not proved: {why}")), "{printed}");
        assert!(printed.contains(UNPROVED), "{printed}");
        assert_eq!(project.lines("proved").len(), 1);
        let shown = project.run(["show", "mul.1", "--json"]).code(0).json();
        let text = shown["proof"]["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("not proved: {why}")), "{text}");
        project.run(["status"]).code(0).stdout_has("1 of 1 landed, 1 not proved");
        project.run(["run"]).code(6).stderr_has(UNPROVED);
        project.run(["task-complete", "mul"]).code(0);
        project.run(["run"]).code(0).stderr_has("the graph is complete");
        project.run(["status"]).code(0).stdout_has("1 of 1 complete");
        project.no_process_is_left();
    }
}

#[test]
fn the_proof_of_a_killed_or_stopped_run_is_made_by_the_next() {
    let half = "sed -i.old 's/n \\/\\/ 2/int(n \\/ 2)/' calc.py; rm calc.py.old";
    let mul = test("self.assertEqual(calc.mul(2, 3), 6)");
    let work = format!("{half}; {MUL}; {mul}; git add -A");
    let script = format!("cat > /dev/null; {work}; \"$0\" < /dev/null");
    for is_killed in [true, false] {
        // Without the new function, the check hangs the first time.
        let slow = "setup: touch made\nverify: '[ -e made ] && { grep -q mul calc.py || sh wait.sh; } && python3 -m unittest'";
        let project = project(slow).command(["sh", "-c", &script, &agent("commit")]);
        let began = project.root().join("logs/began");
        let wait = format!("[ ! -e '{0}' ] || exit 0\ntouch '{0}'; sleep 30\n", began.display());
        let project =
            project.file("wait.sh", &wait).file(".gitignore", "made\nlogs\n__pycache__\n");
        let run = project.start(["run", "--unproved"]);
        wait_for(&began);
        if is_killed {
            run.kill();
        } else {
            run.signal(Signal::INT);
            run.end(&project).code(6);
            assert_eq!(project.lines("proved").len(), 1);
        }
        let printed = project.run(["run", "-v"]).code(0).whole();
        assert!(printed.contains("mul proved"), "{printed}");
        assert!(printed.contains("the graph is complete"), "{printed}");
        let proofs = project.lines("proved").len();
        project.run(["run"]).code(0);
        assert_eq!(project.lines("proved").len(), proofs, "once");
        project.no_process_is_left();
    }
}

#[test]
fn work_in_the_checkout_cannot_require_a_proof() {
    let project = project(&format!("{VERIFY}\nproof: require")).in_place();
    project.run(["run"]).code(64).stderr_has("its work can be proved only in a slot");
}

#[test]
fn a_control_that_does_not_end_is_red() {
    let begun = project("verify: python3 -m unittest\nverify_timeout: 3s");
    let loops = "printf '\\n\\ndef count(n):\\n    return n - 1\\n' >> calc.py";
    let lines = "n = 3\\n        while n > 0:\\n            n = calc.count(n)";
    let (proof, _) = proof_after(begun, &format!("{loops}; {}", test(lines)), 0);
    assert_eq!(words(&proof), ["proved", "noticed"], "{proof}");
}
