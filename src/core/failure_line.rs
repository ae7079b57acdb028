//! The line of an output that says why a program failed.
//!
//! The last line of a failed program is often a statistic, a hint or an empty frame of a stack. The
//! text must be free of control sequences.

/// The longest line that is kept, in characters.
const LENGTH: usize = 500;

/// The beginnings of lines that name a failed test.
const TESTS: &[&str] = &["not ok ", "✖ ", "✕ ", "✗ ", "--- FAIL: ", "FAIL ", "FAIL: ", "FAILED "];

/// Parts of lines that state an error. In lower case.
const ERRORS: &[&str] = &[
    "error: ",
    "error[",
    "error ts",
    "fatal: ",
    "panicked at",
    "exception: ",
    "unknown option",
    "unknown flag",
    "unrecognized option",
    "unrecognized argument",
    "unexpected argument",
    "invalid option",
    "illegal option",
    "flag provided but not defined",
    "command not found",
    "permission denied",
    "no such file or directory",
];

/// Parts of lines that do not say why. In lower case.
const NOISE: &[&str] = &[
    "could not compile",
    "aborting due to",
    "test failed, to rerun",
    "failing tests:",
    "for more information",
    "a complete log of this run",
    "lifecycle script",
    "rust_backtrace",
    "npm err! code",
    "npm error code",
    "npm err! path",
    "npm error path",
    "npm error command",
    "test result: failed",
];

/// A part of what `ralph task-complete` prints in an attempt. As the last line of an agent it would say
/// that its task is still to be verified.
const REPORTED: &str = " is reported as done; it is verified when attempt ";

/// The mark of lines that are left out of an excerpt.
pub const GAP: &str = "…";
/// How many lines from the cause on an excerpt has at least, if it has room for them.
const CAUSE: usize = 3;

/// Returns the line that says why, or else the last line that is not blank.
pub fn of(text: &str) -> Option<String> {
    let lines = lines(text);
    reason(&lines).map(|at| cut(lines[at]))
}

/// Returns the last line of an agent's message that is not blank.
pub fn last(text: &str) -> Option<String> {
    lines(text).last().map(|line| cut(line))
}

/// Returns the line that states an error, if any: the last to name a failed test, or else the last
/// to name an error.
pub fn stated(text: &str) -> Option<String> {
    let lines = lines(text);
    statement(&lines).map(|at| cut(lines[at]))
}

/// Returns at most `count` of these lines: the line that states the error, with those that follow
/// it or name the cause. [`GAP`] stands for omitted lines and is not counted.
pub fn excerpt(lines: &[&str], count: usize) -> Vec<String> {
    let chosen = choice(lines, count);
    let mut excerpt = Vec::new();
    let mut next = 0;
    for at in chosen {
        if at > next {
            excerpt.push(GAP.to_owned());
        }
        excerpt.push(cut(lines[at]));
        next = at + 1;
    }
    if next < lines.len() {
        excerpt.push(GAP.to_owned());
    }
    excerpt
}

/// The places of the lines of an excerpt, in order.
fn choice(lines: &[&str], count: usize) -> Vec<usize> {
    let Some(reason) = reason(lines).filter(|_| count > 0) else {
        return Vec::new();
    };
    if lines.len() - reason <= count {
        return (lines.len().saturating_sub(count)..lines.len()).collect();
    }
    match cause(lines, reason) {
        Some(cause) if cause + CAUSE > reason + count => {
            let end = lines.len().min(cause + count - 1);
            [reason].into_iter().chain(cause..end).collect()
        }
        _ => (reason..reason + count).collect(),
    }
}

/// The place of the line that says why, or else of the last line.
fn reason(lines: &[&str]) -> Option<usize> {
    let last = || lines.iter().rposition(|line| !is_noise(line));
    statement(lines).or_else(last).or(lines.len().checked_sub(1))
}

/// The place of the line that states an error.
fn statement(lines: &[&str]) -> Option<usize> {
    let last = |is_it: &dyn Fn(usize) -> bool| {
        (0..lines.len()).rev().find(|at| !is_noise(lines[*at]) && is_it(*at))
    };
    last(&|at| names_test(lines[at].trim()) && !is_group(&lines[at + 1..]))
        .or_else(|| last(&|at| names_test(lines[at].trim())))
        .or_else(|| last(&|at| names_error(lines[at].trim())))
}

/// Whether these lines follow the name of a group in TAP that failed because of one of its tests.
fn is_group(after: &[&str]) -> bool {
    let own = after.iter().take_while(|line| !names_test(line.trim()));
    own.take(6).any(|line| line.trim() == "failureType: 'subtestsFailed'")
}

/// The place of the first line that names an error after the name of a failed test; in the output of
/// cargo, in the part about that test.
fn cause(lines: &[&str], reason: usize) -> Option<usize> {
    let name = lines[reason].trim().strip_prefix("test ");
    let name = name.and_then(|rest| rest.strip_suffix(" ... FAILED"));
    let part = name.and_then(|name| {
        let heading = format!("---- {name} stdout ----");
        lines.iter().rposition(|line| line.trim() == heading)
    });
    let from = part.unwrap_or(reason) + 1;
    let is_error = |line: &&str| !is_noise(line) && names_error(line.trim());
    let found = from + lines.get(from..)?.iter().position(is_error)?;
    // In YAML, the text is in the lines below.
    Some(found + usize::from(lines[found].ends_with(": |-") && found + 1 < lines.len()))
}

/// The lines that are neither blank nor output of `ralph task-complete` for an agent.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.split(['\n', '\r']).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.contains(REPORTED)).collect()
}

fn cut(line: &str) -> String {
    line.chars().take(LENGTH).collect()
}

fn names_test(line: &str) -> bool {
    let of_cargo = line.starts_with("test ") && line.ends_with("... FAILED");
    of_cargo || TESTS.iter().any(|start| line.starts_with(start))
}

fn names_error(line: &str) -> bool {
    let lower = line.to_lowercase();
    // `AssertionError [ERR_ASSERTION]: …`, `ValueError: …`, `API Error: …`.
    let kind = line.split([':', '[']).next().unwrap_or_default().trim_end();
    let is_kind = kind.len() < line.len() && kind.ends_with("Error");
    is_kind || ERRORS.iter().any(|part| lower.contains(part))
}

/// Whether a line is a statistic, a frame of a stack, punctuation or a hint.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    let lower = line.to_lowercase();
    let is_count = |rest: &str| {
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap_or_default();
        let value = words.next().unwrap_or_default();
        let is_number = value.starts_with(|c: char| c.is_ascii_digit()) && words.next().is_none();
        is_number && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let is_statistic = line.strip_prefix("# ").or(line.strip_prefix("ℹ ")).is_some_and(is_count);
    let is_plan = line.starts_with("1..") && line[3..].chars().all(|c| c.is_ascii_digit());
    let is_frame = lower.starts_with("at ") && (line.ends_with(')') || line.contains(':'));
    let is_punctuation = !line.chars().any(char::is_alphanumeric);
    is_statistic
        || is_plan
        || is_frame
        || is_punctuation
        || NOISE.iter().any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_an_agent_are_its_own() {
        let report = "a is reported as done; it is verified when attempt 1 ends\n";
        assert_eq!(
            last(&format!("All tests pass.\n\n{report}")).as_deref(),
            Some("All tests pass.")
        );
        assert_eq!(last(report), None);
    }

    #[test]
    fn the_line_that_says_why_is_found() {
        for (text, want) in [
            ("one\ntwo\n\n", "two"),
            ("one\na is reported as done; it is verified when attempt 1 ends\n", "one"),
            (
                "TAP version 13\nok 1 - adds\nnot ok 2 - multiplies\n  ---\n  error: '7 !== 8'\n  \
                 ...\n1..2\n# tests 2\n# pass 1\n# fail 1\n# duration_ms 123\n",
                "not ok 2 - multiplies",
            ),
            (
                "✔ adds (1ms)\n✖ multiplies (2ms)\nℹ tests 2\nℹ duration_ms 61.2\n\n✖ failing \
                 tests:\n\ntest at a.js:3:1\n✖ multiplies (2ms)\n  AssertionError [ERR_ASSERTION]: \
                 7 !== 8\n      at run (a.js:3:9) {\n    code: 'x'\n  }\n",
                "✖ multiplies (2ms)",
            ),
            (
                "test a ... ok\ntest b ... FAILED\n\nthread 'b' panicked at a.rs:1:\nno\n\ntest \
                 result: FAILED. 1 passed; 1 failed\n\nerror: test failed, to rerun pass `--lib`\n",
                "test b ... FAILED",
            ),
            (
                "error[E0425]: cannot find value `x`\n --> a.rs:1:2\n\nerror: could not compile `a` \
                 (lib) due to 1 previous error\n",
                "error[E0425]: cannot find value `x`",
            ),
            (
                "error: unexpected argument '--bogus' found\n\nUsage: a [OPTIONS]\n\nFor more \
                 information, try '--help'.\n",
                "error: unexpected argument '--bogus' found",
            ),
            (
                "usage: a [-h]\na: error: unrecognized arguments: --bogus\n",
                "a: error: unrecognized arguments: --bogus",
            ),
            (
                "API Error: safeguards flagged this message\nTry another wording.\nLearn more: x\n",
                "API Error: safeguards flagged this message",
            ),
            ("Traceback:\n  File x\nValueError: bad\n", "ValueError: bad"),
            ("# duration_ms 123\n", "# duration_ms 123"),
            ("50%\r100%\n", "100%"),
        ] {
            assert_eq!(of(text).as_deref(), Some(want));
        }
        assert_eq!((of(" \n\n"), stated("all went well\n")), (None, None));
    }

    const NODE: &str = "TAP version 13
# Subtest: adds
ok 1 - adds
  ---
  duration_ms: 0.999839
  ...
# Subtest: by number works
not ok 2 - by number works
  ---
  duration_ms: 0.99742
  location: '/repo/a.test.js:3:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:
    6 !== 7
  code: 'ERR_ASSERTION'
  name: 'AssertionError'
  expected: 7
  actual: 6
  operator: 'strictEqual'
  stack: |-
    TestContext.<anonymous> (/repo/a.test.js:3:36)
    Test.runInAsyncScope (node:async_hooks:206:9)
  ...
# Subtest: subtracts
ok 3 - subtracts
  ---
  duration_ms: 0.11381
  ...
1..3
# tests 3
# suites 0
# pass 2
# fail 1
# cancelled 0
# skipped 0
# todo 0
# duration_ms 166.166876";

    const NODE_GROUP: &str = "# Subtest: numbers
    # Subtest: multiplies
    not ok 1 - multiplies
      ---
      duration_ms: 5.768771
      location: '/repo/d.test.js:2:45'
      failureType: 'testCodeFailure'
      error: '6 !== 7'
      code: 'ERR_ASSERTION'
      ...
    1..1
not ok 1 - numbers
  ---
  duration_ms: 7.663819
  type: 'suite'
  location: '/repo/d.test.js:2:1'
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  code: 'ERR_TEST_FAILURE'
  ...
1..1
# tests 1
# fail 1
# duration_ms 203.349936";

    const PYTEST: &str = "collecting ... collected 3 items
rootdir: /repo
test_a.py .F.                                                            [100%]
=================================== FAILURES ===================================
________________________________ test_by_number ________________________________
    def test_by_number():
>       assert multiply(2, 3) == 7
E       assert 6 == 7
E        +  where 6 = multiply(2, 3)
test_a.py:8: AssertionError
=========================== short test summary info ============================
FAILED test_a.py::test_by_number - assert 6 == 7
========================= 1 failed, 2 passed in 0.02s ==========================";

    const CARGO: &str = "running 14 tests
test adds ... ok
test by_number ... FAILED
test a1 ... ok
test a2 ... ok
test a3 ... ok
test a4 ... ok
test a5 ... ok
test a6 ... ok
test a7 ... ok
test a8 ... ok
test a9 ... ok
test subtracts ... ok
failures:
---- by_number stdout ----
thread 'by_number' (30124) panicked at src/lib.rs:2:24:
assertion `left == right` failed
  left: 6
 right: 7
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
failures:
    by_number
test result: FAILED. 13 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.14s
error: test failed, to rerun pass `--lib`";

    const GO: &str = "=== RUN   TestAdds
--- PASS: TestAdds (0.00s)
=== RUN   TestMultiplies
=== RUN   TestMultiplies/by_number
    a_test.go:14: got 6, want 7
--- FAIL: TestMultiplies (0.00s)
    --- FAIL: TestMultiplies/by_number (0.00s)
=== RUN   TestSubtracts
--- PASS: TestSubtracts (0.00s)
FAIL
FAIL\texample.com/a\t0.003s
FAIL";

    const JEST: &str = "FAIL ./a.test.js
  numbers
    ✓ adds (2 ms)
    ✕ by number works (1 ms)
    ✓ subtracts
  ● numbers › by number works
    expect(received).toBe(expected) // Object.is equality
    Expected: 7
    Received: 6
      3 |   test('by number works', () => {
    > 4 |     expect(2 * 3).toBe(7);
        |                   ^
      5 |   });
      at Object.toBe (a.test.js:4:19)
Test Suites: 1 failed, 1 total
Tests:       1 failed, 2 passed, 3 total
Snapshots:   0 total
Time:        0.312 s
Ran all test suites.";

    #[test]
    fn an_excerpt_has_the_failed_test_and_its_cause() {
        for (text, needed) in [
            (NODE, ["not ok 2 - by number works", "    6 !== 7"]),
            (NODE_GROUP, ["    not ok 1 - multiplies", "      error: '6 !== 7'"]),
            (PYTEST, ["FAILED test_a.py::test_by_number - assert 6 == 7", "E       assert 6 == 7"]),
            (CARGO, ["test by_number ... FAILED", "  left: 6"]),
            (
                GO,
                [
                    "    --- FAIL: TestMultiplies/by_number (0.00s)",
                    "    a_test.go:14: got 6, want 7",
                ],
            ),
            (JEST, ["    ✕ by number works (1 ms)", "    Received: 6"]),
        ] {
            let lines: Vec<&str> = text.lines().collect();
            let found = excerpt(&lines, 10);
            assert!(needed.iter().all(|line| found.iter().any(|it| it == line)), "{found:#?}");
            assert_eq!(found.iter().filter(|line| *line != GAP).count(), 10, "{found:#?}");
            assert_eq!(excerpt(&lines, lines.len()), lines);
        }
    }

    #[test]
    fn a_short_excerpt_leaves_out_what_is_between_the_test_and_the_cause() {
        let excerpt = |text: &str, count| {
            let lines: Vec<&str> = text.lines().collect();
            excerpt(&lines, count)
        };
        let values = "    Expected values to be strictly equal:";
        let test = "not ok 2 - by number works";
        assert_eq!(excerpt(NODE, 3), [GAP, test, GAP, values, "    6 !== 7", GAP]);
        assert_eq!(excerpt(NODE, 1), [GAP, test, GAP]);
        let panic = "thread 'by_number' (30124) panicked at src/lib.rs:2:24:";
        let why = "assertion `left == right` failed";
        assert_eq!(excerpt(CARGO, 3)[1..5], ["test by_number ... FAILED", GAP, panic, why]);
        assert_eq!(excerpt("1\n2\n3\n4", 2), [GAP, "3", "4"]);
        assert!(excerpt("", 2).is_empty());
    }
}
