//! What the ordinary output of a command says of its tests: how many ran, and which failed, by name.
//!
//! A command is worth as much as the tests in it: a formatter, a linter or a compiler that fails is no
//! failing test, and a command such as `cargo test mul` succeeds when no test has that name.

mod formats;
mod nested;

use std::collections::BTreeSet;

use formats::{FORMATS, FailedTests, RunnerFormat};
use regex_lite::Regex;

/// What test runners say in the output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRun {
    /// The number of tests that ran; none if a runner does not say it.
    pub ran: Option<u64>,
    /// The names of the tests that failed.
    pub failed: BTreeSet<String>,
    /// The number of failures that are no tests, such as files that cannot be loaded.
    pub others: u64,
    /// Whether a file of tests, or a package, could not be loaded.
    pub is_unloaded: bool,
    /// Whether a runner counts more failures than it names.
    pub is_cut: bool,
}

impl TestRun {
    /// Reads an output without its colors; none if no known test runner wrote in it.
    pub fn read(output: &str) -> Option<TestRun> {
        let output = output.replace("\r\n", "\n").replace('\r', "\n");
        let runs = FORMATS.iter().filter_map(|format| read_format(format, &output));
        runs.reduce(|mut all, run| {
            all.ran = all.ran.zip(run.ran).map(|(one, other)| one.saturating_add(other));
            all.failed.extend(run.failed);
            let others = all.others + run.others;
            let is_unloaded = all.is_unloaded || run.is_unloaded;
            TestRun { others, is_unloaded, is_cut: all.is_cut || run.is_cut, ..all }
        })
    }

    /// Whether anything failed.
    pub fn is_red(&self) -> bool {
        !self.failed.is_empty() || self.is_cut || self.others > 0
    }

    /// Whether no test ran.
    pub fn is_empty(&self) -> bool {
        self.ran == Some(0) && self.failed.is_empty() && !self.is_cut
    }
}

/// Whether a test runner says in this output, without its colors, that it ran no test, and no runner
/// says that it ran one.
pub fn ran_none(output: &str) -> bool {
    TestRun::read(output).is_some_and(|run| run.is_empty())
}

/// Reads an output as one of a format; none if it is of none.
fn read_format(format: &RunnerFormat, output: &str) -> Option<TestRun> {
    // A pattern is slow: most outputs have none of the words.
    if !format.signs.iter().any(|sign| output.contains(sign))
        || find(format.seen, output).is_empty()
        || !find(format.unless, output).is_empty()
    {
        return None;
    }
    let mut run = TestRun::default();
    match format.failed {
        FailedTests::Lines(patterns) => {
            let found = patterns.iter().flat_map(|pattern| find(pattern, output));
            run.failed.extend(found.map(|parts| parts.join(" > ")));
        }
        FailedTests::Read(read) => run.others = read(output, &mut run.failed),
    }
    run.is_unloaded = !find(format.unloaded, output).is_empty();
    let sum = |pattern: &str| -> Option<u64> {
        let found = find(pattern, output);
        // An empty group is one test, and words such as `no tests ran` are none.
        let number = |it: &&str| if it.is_empty() { 1 } else { it.parse::<u64>().unwrap_or(0) };
        (!found.is_empty()).then(|| found.iter().flatten().map(number).sum())
    };
    run.ran = sum(format.ran).map(|ran| {
        let minus = sum(format.minus).unwrap_or(0);
        ran.saturating_sub(minus)
    });
    if run.ran.is_none_or(|ran| ran == 0) && !find(format.uncounted, output).is_empty() {
        run.ran = None;
    }
    run.is_cut = sum(format.lost).is_some_and(|lost| lost > run.failed.len() as u64 + run.others);
    Some(run)
}

/// The groups of each match of a pattern, in which `^` and `$` are ends of lines: those that matched.
fn find<'t>(pattern: &str, text: &'t str) -> Vec<Vec<&'t str>> {
    let Ok(pattern) = Regex::new(&format!("(?m){pattern}")) else { return Vec::new() };
    let groups = |found: regex_lite::Captures<'t>| {
        found.iter().skip(1).flatten().map(|group| group.as_str()).collect()
    };
    pattern.captures_iter(text).map(groups).collect()
}

/// The first group of the first match of a pattern at the start of a line.
fn first<'t>(pattern: &str, line: &'t str) -> Option<&'t str> {
    find(pattern, line).into_iter().next()?.into_iter().next()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// A recorded output, and what is true of it.
    #[derive(Deserialize)]
    struct RecordedRun {
        case: String,
        output: String,
        ran: Option<u64>,
        failed: BTreeSet<String>,
    }

    /// What real runners wrote: where none is known, what formatters, linters and shells wrote.
    fn recorded() -> impl Iterator<Item = RecordedRun> {
        let lines = include_str!("../../tests/test_runs.jsonl").lines();
        lines.map(|line| serde_json::from_str(line).expect("a recorded run"))
    }

    #[test]
    fn the_names_of_failed_tests_are_read_as_runners_write_them() {
        for RecordedRun { case, output, ran, failed } in recorded() {
            let run = TestRun::read(&output);
            assert_eq!(run.is_some(), !case.starts_with("none/"), "{case}");
            let run = run.unwrap_or_default();
            assert_eq!(run.failed, failed, "{case}");
            assert!(!run.is_cut && (run.ran.is_none() || run.ran == ran), "{case}: {run:?}");
        }
    }

    #[test]
    fn failures_without_names_are_seen() {
        for cut in [
            "=== 1 failed, 2 passed in 0.02s ===\n",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored\n",
            "# pass 1\n# fail 1\n# cancelled 0\n",
            "FAIL\texample.com/a\t0.002s\n",
        ] {
            assert!(TestRun::read(cut).is_some_and(|run| run.is_cut), "{cut}");
        }
        for unloaded in [
            "  ● Test suite failed to run\n\nTest Suites: 1 failed, 1 total\nTests:       0 total\n",
            " FAIL  a.test.ts [ a.test.ts ]\nError: x\n\n Test Files  1 failed (1)\n      Tests  no tests\n",
        ] {
            assert!(TestRun::read(unloaded).is_some_and(|run| run.is_red()), "{unloaded}");
        }
    }

    #[test]
    fn a_runner_that_ran_no_test_is_seen() {
        for output in [
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n",
            "============ no tests ran in 0.01s ============\n",
            "===== 3 deselected in 0.01s =====\n",
            "2 skipped in 0.02s\n",
            "Ran 0 tests in 0.000s\n\nOK\n",
            "1..2\n# tests 2\n# pass 0\n# fail 0\n# cancelled 0\n# skipped 2\n",
            "ℹ tests 0\nℹ pass 0\nℹ fail 0\nℹ cancelled 0\n",
            "No tests found, exiting with code 0\n",
            "Tests:       2 skipped, 2 total\n",
            "      Tests  2 skipped (2)\n",
            "No test files found, exiting with code 0\n",
            "\n  0 passing (1ms)\n",
            "?   \tx/y\t[no test files]\nok  \tx\t0.002s [no tests to run]\n",
            "0 examples, 0 failures\n",
            "0 runs, 0 assertions, 0 failures, 0 errors, 0 skips\n",
            "No tests executed!\n",
            "[INFO] Tests run: 0, Failures: 0, Errors: 0, Skipped: 0\n",
            "1..0\n",
            "ok | 0 passed | 0 failed (2ms)\n",
        ] {
            assert!(ran_none(output), "{output}");
        }
    }

    #[test]
    fn one_test_of_any_runner_is_enough() {
        for output in [
            "",
            "all good\n",
            "test result: ok. 1 passed; 0 failed; 0 ignored\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n",
            "=== 2 passed, 1 skipped in 75.31s (0:01:15) ===\n",
            "1 failed in 0.02s\n",
            "Tests:       1 skipped, 1 passed, 2 total\n",
            "?   \tx/y\t[no test files]\nok  \tx\t0.002s\n",
            "3 examples, 0 failures\n0 runs, 0 assertions, 0 failures\n",
            "Summary [   0.012s] 5 tests run: 5 passed, 0 skipped\n",
            "finished in 3.1s\n0 problems\n",
        ] {
            assert!(!ran_none(output), "{output}");
        }
    }
}
