//! What the output of a test runner says of the number of tests that ran.
//!
//! A command such as `cargo test mul` succeeds when no test has that name. The known runners say so in
//! their last lines.

/// Whether a test runner says in this output, without its colors, that it ran no test, and no runner
/// says that it ran one.
pub fn ran_none(output: &str) -> bool {
    let mut ran_none = false;
    for line in output.lines() {
        match ran_any(line.trim()) {
            Some(true) => return false,
            Some(false) => ran_none = true,
            None => {}
        }
    }
    ran_none
}

/// The number of tests that ran, by the summaries of known runners; none if none says it.
pub fn ran(output: &str) -> Option<u64> {
    output.lines().filter_map(|line| ran_in(line.trim())).reduce(u64::saturating_add)
}

/// Whether tests failed only because a name is not there that they use, such as an import, or is there
/// twice, and none because of what it does.
pub fn misses_names(output: &str) -> bool {
    const NAMES: &[&str] = &[
        "ImportError",                          // Python
        "ModuleNotFoundError",                  //
        "NameError: name ",                     //
        "AttributeError: module ",              //
        " object has no attribute ",            //
        "Cannot find module",                   // JavaScript, TypeScript
        "ERR_MODULE_NOT_FOUND",                 //
        "does not provide an export named",     //
        " is not defined",                      //
        " is not a function",                   //
        " is not a constructor",                //
        "has no exported member",               //
        "cannot find function",                 // Rust
        "unresolved import",                    //
        "no method named",                      //
        "no function or associated item named", //
        ": undefined: ",                        // Go
        " has no field or method ",             //
        " redeclared in this block",
    ];
    const OTHERS: &[&str] = &[
        "AssertionError",
        "E       assert",
        "ERR_ASSERTION",
        "DID NOT RAISE",
        "Received:",
        "'NoneType' object",
        "panicked at",
        "--- FAIL: ",
    ];
    let has = |words: &[&str]| words.iter().any(|word| output.contains(word));
    has(NAMES) && !has(OTHERS)
}

/// The number of tests that failed, by the summaries of known runners; none if none says it.
pub fn failed(output: &str) -> Option<u64> {
    let of_line = |line: &str| {
        let line = line.trim();
        if let Some(count) = ["# fail ", "ℹ fail "].iter().find_map(|it| line.strip_prefix(it)) {
            return count.trim().parse().ok();
        }
        if let Some(counts) = line.strip_prefix("FAILED (") {
            let numbers =
                counts.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse::<u64>().ok());
            return Some(numbers.sum());
        }
        // Each failed test of go has a line.
        if line.starts_with("--- FAIL: ") {
            return Some(1);
        }
        let is_summary = ran_any(line).is_some();
        let counts = counts(line);
        let failed = counts.iter().filter(|(_, word)| {
            ["failed", "failing", "failures", "failure", "errors", "error"].contains(&word.as_str())
        });
        failed.map(|(count, _)| *count).reduce(u64::saturating_add).filter(|_| is_summary)
    };
    output.lines().filter_map(of_line).reduce(u64::saturating_add)
}

/// Whether a test ran, by the summary of a known runner; none for any other line.
fn ran_any(line: &str) -> Option<bool> {
    // go test: one line a package, without a number.
    if let Some(package) = line.strip_prefix("ok  \t").or_else(|| line.strip_prefix("ok \t")) {
        return Some(!package.contains("[no tests to run]"));
    }
    if line.starts_with("?   \t") && line.ends_with("[no test files]") {
        return Some(false);
    }
    ran_in(line).map(|count| count > 0)
}

/// The number of tests that ran, by the summary of a known runner; none for any other line.
fn ran_in(line: &str) -> Option<u64> {
    /// Lines that say it in words.
    const NONE: &[&str] = &[
        "no tests ran",                      // pytest, dart
        "NO TESTS RAN",                      // unittest of Python 3.12
        "No tests found",                    // jest, vitest, PHPUnit
        "No test files found",               // vitest
        "No tests executed!",                // PHPUnit
        "No tests were found!!!",            // ctest
        "No test is available",              // dotnet
        "No test matches",                   // dotnet
        "There are no tests to run",         // mix
        "No tests to run",                   // surefire
        "testing: warning: no tests to run", // go
        "1..0",                              // TAP
    ];
    if NONE.iter().any(|words| line.trim_start_matches(['=', ' ']).starts_with(words)) {
        return Some(0);
    }
    let counts = counts(line);
    let of = |words: &[&str]| {
        let named = counts.iter().filter(|(_, word)| words.contains(&word.as_str()));
        named.map(|(count, _)| *count).reduce(u64::saturating_add)
    };
    let starts = |prefix: &str| line.strip_prefix(prefix);
    // cargo test; deno
    if starts("test result: ").is_some() || starts("ok | ").is_some() {
        return of(&["passed", "failed"]);
    }
    // jest, vitest
    if starts("Tests:").or_else(|| starts("Tests  ")).is_some() {
        return of(&["passed", "failed"]).or((!counts.is_empty()).then_some(0));
    }
    // node --test
    if let Some(rest) = starts("# ").or_else(|| starts("ℹ ")) {
        let count = rest.strip_prefix("pass ").or_else(|| rest.strip_prefix("fail "))?;
        return count.trim().parse().ok();
    }
    // pytest
    if line.trim_matches(['=', ' ']).rsplit_once(" in ").is_some_and(|(_, took)| is_time(took)) {
        let ran = ["passed", "failed", "error", "errors", "xfailed", "xpassed"];
        let others = ["skipped", "deselected"];
        let found = of(&ran).or_else(|| of(&others).map(|_| 0));
        if found.is_some() {
            return found;
        }
    }
    let first = counts.first().map(|(count, word)| (*count, word.as_str()));
    match first {
        // mocha; bun
        Some((ran, "passing" | "failing" | "pass" | "fail")) if starts_with_digit(line) => {
            Some(ran)
        }
        // minitest; RSpec; mix
        Some((ran, "runs" | "examples" | "example" | "tests" | "test"))
            if starts_with_digit(line) && line.contains(" failure") =>
        {
            Some(ran)
        }
        // unittest; XCTest; PHPUnit; nextest
        Some((ran, "tests" | "test"))
            if ["Ran ", "Executed ", "OK (", "Summary ["].iter().any(|it| line.starts_with(it)) =>
        {
            Some(ran)
        }
        // JUnit by surefire
        _ => {
            let count = starts("Tests run: ").or_else(|| starts("[INFO] Tests run: "))?;
            let count = count.split(',').next()?;
            count.parse().ok()
        }
    }
}

fn starts_with_digit(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a text is a time such as `0.01s` or `75.31s (0:01:15)`.
fn is_time(text: &str) -> bool {
    let seconds = text.split(' ').next().and_then(|word| word.strip_suffix('s'));
    seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

/// The whole numbers of a line, each with the word after it.
fn counts(line: &str) -> Vec<(u64, String)> {
    let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let count = pair[0].trim_start_matches(['(', '[']).parse().ok()?;
        let word = pair[1].trim_matches(|c: char| !c.is_alphanumeric());
        Some((count, word.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_ran_no_test_is_seen() {
        for output in [
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n",
            "============ no tests ran in 0.01s ============\n",
            "collected 3 items / 3 deselected / 0 selected\n\n===== 3 deselected in 0.01s =====\n",
            "2 skipped in 0.02s\n",
            "Ran 0 tests in 0.000s\n\nOK\n",
            "1..2\n# tests 2\n# suites 0\n# pass 0\n# fail 0\n# cancelled 0\n# skipped 2\n",
            "ℹ tests 0\nℹ pass 0\nℹ fail 0\n",
            "No tests found, exiting with code 0\n",
            "Test Suites: 1 skipped, 0 of 1 total\nTests:       2 skipped, 2 total\n",
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
    fn tests_are_counted() {
        for (output, count) in [
            (
                "test result: ok. 2 passed; 1 failed; 4 ignored\n\ntest result: ok. 1 passed; 0 failed\n",
                Some(4),
            ),
            ("=== 1 failed, 2 passed, 5 deselected, 1 error in 0.02s ===\n", Some(4)),
            ("3 skipped in 0.02s\n", Some(0)),
            ("# tests 129\n# pass  129\n", Some(129)),
            ("# tests 9\n# pass 7\n# fail 1\n# skipped 1\n", Some(8)),
            ("Tests:       1 skipped, 1 failed, 2 passed, 4 total\n", Some(3)),
            ("  3 passing (2ms)\n  1 failing\n", Some(4)),
            ("Ran 3 tests in 0.000s\n", Some(3)),
            ("ok  \tx\t0.002s\n", None),
            ("fine\n", None),
        ] {
            assert_eq!(ran(output), count, "{output}");
        }
        assert!(misses_names("E   ImportError: cannot import name 'mul'\n1 error in 0.1s\n"));
        assert!(misses_names("TypeError: mul is not a function\n"));
        assert!(misses_names("error[E0425]: cannot find function `mul` in this scope\n"));
        assert!(misses_names("./a_test.go:6:5: undefined: Mul\nFAIL\tx [build failed]\n"));
        assert!(!misses_names("ImportError: x\nE       assert 1 == 2\n"));
    }

    #[test]
    fn one_test_of_any_runner_is_enough() {
        for output in [
            "",
            "all good\n",
            "test result: ok. 1 passed; 0 failed; 0 ignored\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored\n",
            "=== 2 passed, 1 skipped in 75.31s (0:01:15) ===\n",
            "1 failed in 0.02s\n",
            "Ran 3 tests in 0.000s\n",
            "# tests 2\n# pass 2\n# fail 0\n",
            "Tests:       1 skipped, 1 passed, 2 total\n",
            "      Tests  3 passed (3)\n",
            "  3 passing (2ms)\n  1 pending\n",
            "?   \tx/y\t[no test files]\nok  \tx\t0.002s\n",
            "3 examples, 0 failures\n0 runs, 0 assertions, 0 failures\n",
            "OK (3 tests, 5 assertions)\n",
            "Tests run: 4, Failures: 0, Errors: 0\n",
            "Summary [   0.012s] 5 tests run: 5 passed, 0 skipped\n",
            " 3 pass\n 0 fail\n",
            "finished in 3.1s\n0 problems\n",
        ] {
            assert!(!ran_none(output), "{output}");
        }
    }
}
