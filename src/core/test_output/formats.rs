//! The formats of test runners: a row each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{find, first, nested};

/// The names of the tests that failed.
pub(super) enum FailedTests {
    /// Each has a line that matches one of these: its groups are the parts of the name.
    Lines(&'static [&'static str]),
    /// They are read by a function. It returns the number of failures that are no tests.
    Read(fn(&str, &mut BTreeSet<String>) -> u64),
}

/// The output of a test runner. The groups of patterns of numbers are added up.
pub(super) struct RunnerFormat {
    /// Texts of which an output of the format has at least one.
    pub(super) signs: &'static [&'static str],
    /// A line that only this runner writes.
    pub(super) seen: &'static str,
    /// A line of a runner that this one runs in, or that runs in this one.
    pub(super) unless: &'static str,
    /// The names of the tests that failed.
    pub(super) failed: FailedTests,
    /// A file of tests, or a package, that could not be loaded.
    pub(super) unloaded: &'static str,
    /// The numbers of tests that ran.
    pub(super) ran: &'static str,
    /// A line of tests that ran without their number.
    pub(super) uncounted: &'static str,
    /// The numbers of those among them that did not.
    pub(super) minus: &'static str,
    /// The numbers of those that failed.
    pub(super) lost: &'static str,
}

/// A pattern that matches nothing.
const NEVER: &str = "$.^";

/// A format without its own patterns.
const PLAIN: RunnerFormat = RunnerFormat {
    signs: &[],
    seen: NEVER,
    unless: NEVER,
    failed: FailedTests::Lines(&[]),
    unloaded: NEVER,
    ran: NEVER,
    uncounted: NEVER,
    minus: NEVER,
    lost: NEVER,
};

/// The formats.
pub(super) const FORMATS: &[RunnerFormat] = &[
    // pytest
    RunnerFormat {
        signs: &["passed", "failed", "error", "skipped", "no tests ran", "deselected"],
        seen: r"^[=\s]*(?:\d+ [a-z]+(?:, )?|no tests ran)+ in \d[\d.]*s.*$|^=+ short test summary info|^ERROR: (?:usage: |file or directory not found|not found: )|^[.FEsxX]+ +\[ *\d+%\]$",
        failed: FailedTests::Read(pytest),
        unloaded: r"^ERROR \S+\.py(?: - .*)?$",
        ran: r"^[=\s]*(no tests ran) in |^[=\s]*(?:\d+ (?:skipped|deselected|warnings?|errors?)(?:, )?)+ (in) |^[=\s]*(?:(\d+) failed,? ?)?(?:(\d+) passed,? ?)?(?:\d+ skipped,? ?)?(?:\d+ deselected,? ?)?(?:(\d+) xfailed,? ?)?(?:(\d+) xpassed,? ?)?(?:\d+ [a-z]+,? ?)*in \d[\d.]*s",
        lost: r"^[=\s]*(?:(\d+) failed,? ?)?(?:\d+ (?:passed|skipped|deselected|xfailed|xpassed|warnings?),? ?)*(?:(\d+) errors?)?(?:, \d+ [a-z]+)* in \d[\d.]*s",
        ..PLAIN
    },
    // unittest
    RunnerFormat {
        signs: &["Ran "],
        seen: r"^Ran \d+ tests? in ",
        failed: FailedTests::Read(unittest),
        unloaded: r"^ERROR: \S+ \(unittest\.loader\._FailedTest",
        ran: r"^Ran (\d+) tests? in",
        minus: r"^(?:OK|FAILED) \(.*?skipped=(\d+)|^(?:FAIL|ERROR): \S+ \(unittest\.loader\._FailedTest()",
        lost: r"^FAILED \(.*?failures=(\d+)|^FAILED \(.*?errors=(\d+)",
        ..PLAIN
    },
    // cargo test
    RunnerFormat {
        signs: &["running ", "test result: "],
        seen: r"^running \d+ tests?$|^test result: ",
        unless: "Nextest run",
        failed: FailedTests::Read(cargo),
        ran: r"^test result: .*?(\d+) passed; (\d+) failed",
        lost: r"^test result: .*?(\d+) failed",
        ..PLAIN
    },
    // cargo nextest
    RunnerFormat {
        signs: &["Summary ["],
        seen: r"^ +Summary \[ *[\d.]+s\]",
        failed: FailedTests::Lines(&[
            r"^ +(?:TRY \d+ )?(?:FAIL|TIMEOUT|TMT|SIG[A-Z]+|ABORT|LEAK-FAIL) \[[ >]*[\d.]+s\] (?:\( *\d+/\d+\) +)?(\S.*)$",
        ]),
        ran: r"^ +Summary \[.*?\] +(\d+)",
        lost: r"^ +Summary .* (\d+) failed",
        ..PLAIN
    },
    // go test
    RunnerFormat {
        signs: &["ok  \t", "FAIL", "?   \t", "\"Action\":"],
        seen: r#"^(?:ok  |FAIL|\?   )\t\S+|^\{"(?:Time|Action)".*"Action":"#,
        failed: FailedTests::Read(go),
        unloaded: r"^FAIL\t\S+ \[(?:build|setup) failed\]$",
        ran: r#"^\{"Time".*"Action":"(?:pass|fail)".*"Test":"()|^=== RUN ()|\[(no tests to run|no test files)\]$"#,
        uncounted: r"^(?:ok  |FAIL)\t\S+\t(?:[\d.]+s|\(cached\))(?:\tcoverage: .*)?$()",
        lost: r"^FAIL\t\S+\t[\d.]+s$()",
        ..PLAIN
    },
    // node --test
    RunnerFormat {
        signs: &["# cancelled ", "ℹ cancelled ", "# duration_ms ", "ℹ duration_ms "],
        seen: r"^(?:#|ℹ) (?:cancelled|duration_ms) [\d.]+$",
        failed: FailedTests::Read(nested::node),
        unloaded: r"^✖ \S+\.[cm]?[jt]sx?(?: \(|$)|^not ok \d+ - \S+\.[cm]?[jt]sx?$",
        ran: r"^ *(?:#|ℹ) pass +(\d+)(?:\n *(?:#|ℹ) fail +(\d+))?",
        lost: r"^ *(?:#|ℹ) fail (\d+)",
        ..PLAIN
    },
    // vitest
    RunnerFormat {
        signs: &["Test Files  ", "Tests  ", "No test files found"],
        seen: r"^No test files found|^ +(?:Test Files|Tests)  ",
        failed: FailedTests::Read(vitest),
        unloaded: r"^ FAIL  .* \[ .* \]$",
        ran: r"^(No test files found)|^ +Tests  (?:(\d+) failed)?(?: \| )?(?:(\d+) passed)?|^ +Tests  (no tests)",
        lost: r"^ +Tests  .*?(\d+) failed",
        ..PLAIN
    },
    // jest
    RunnerFormat {
        signs: &["No tests found", "Tests: "],
        seen: r"^No tests found(?:, exiting| related)|^Tests: .*\d total$",
        failed: FailedTests::Read(jest),
        unloaded: r"^  ● Test suite failed to run$",
        ran: r"^(No tests found)|^Tests: (?:.*?(\d+) failed)?(?:.*?(\d+) passed)?.* total$",
        lost: r"^Tests: .*?(\d+) failed",
        ..PLAIN
    },
    // mocha
    RunnerFormat {
        signs: &[" passing ("],
        seen: r"^  \d+ passing \(",
        failed: FailedTests::Read(nested::mocha),
        ran: r"^  (\d+) (?:passing|failing)",
        lost: r"^  (\d+) failing$",
        ..PLAIN
    },
    // jasmine
    RunnerFormat {
        signs: &[" specs, ", " spec, "],
        seen: r"^\d+ specs?, \d+ failure",
        failed: FailedTests::Lines(&[r"^\d+\) (.+)\n  Message:"]),
        ran: r"^(\d+) specs?,",
        minus: r"^\d+ spec.* (\d+) pending",
        lost: r"^\d+ specs?, (\d+) failure",
        ..PLAIN
    },
    // bun
    RunnerFormat {
        signs: &["bun test v", "across "],
        seen: r"^bun test v|^Ran \d+ tests? across",
        failed: FailedTests::Lines(&[r"^(?:\(fail\)|✗) (.+?)(?: \[[\d.]+m?s\])?$"]),
        ran: r"^ *(\d+) (?:pass|fail)$",
        minus: r"^ *(\d+) errors?$",
        ..PLAIN
    },
    // deno
    RunnerFormat {
        signs: &["ok | ", "FAILED | "],
        seen: r"^(?:ok|FAILED) \| \d+ passed",
        failed: FailedTests::Lines(&[r"^(\S.*?) => \S+:\d+:\d+$"]),
        ran: r"^(?:ok|FAILED) \| (\d+) passed(?:.*?\| (\d+) failed)?",
        ..PLAIN
    },
    // JUnit by Maven
    RunnerFormat {
        signs: &["Tests run: ", "No tests to run"],
        seen: r"^\[\w+\] +(?:Tests run: \d+, Failures|No tests to run)",
        failed: FailedTests::Read(maven),
        ran: r"^\[\w+\] Tests run: (\d+), Failures: \d+, Errors: \d+, Skipped: \d+$|^\[\w+\] (No tests to run)",
        minus: r"^\[\w+\] Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: (\d+)$",
        lost: r"^\[\w+\] Tests run: \d+, Failures: (\d+), Errors: (\d+), Skipped: \d+$",
        ..PLAIN
    },
    // JUnit by Gradle
    RunnerFormat {
        signs: &["tests completed", "test completed"],
        seen: r"^\d+ tests? completed",
        failed: FailedTests::Lines(&[r"^(\S.* > .+?)(?:\(\))? FAILED$"]),
        ran: r"^(\d+) tests? completed",
        minus: r"^\d+ tests? completed.* (\d+) skipped",
        lost: r"^\d+ tests? completed, (\d+) failed",
        ..PLAIN
    },
    // JUnit 4 by its own console
    RunnerFormat {
        signs: &["JUnit version 4"],
        seen: r"^JUnit version 4",
        failed: FailedTests::Read(junit),
        ran: r"^OK \((\d+) test|^Tests run: (\d+)",
        lost: r"^Tests run: \d+, +Failures: (\d+)",
        ..PLAIN
    },
    // JUnit 5 by its own console
    RunnerFormat {
        signs: &[" tests found"],
        seen: r"^\[ +\d+ tests found",
        failed: FailedTests::Read(junit),
        ran: r"^\[ +(\d+) tests (?:successful|failed)",
        ..PLAIN
    },
    // CTest
    RunnerFormat {
        signs: &["tests passed, ", "No tests were found!!!"],
        seen: r"tests passed, \d+ tests? failed out of|^No tests were found!!!",
        failed: FailedTests::Lines(&[
            r"^\t +\d+ - (.+?) \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Exception|ILLEGAL|NUMERICAL|BAD_COMMAND|Not Run)\)",
        ]),
        ran: r"failed out of (\d+)|^(No tests were found!!!)",
        minus: r"\*\*\*(?:Not Run|Skipped)()",
        lost: r"tests passed, (\d+) tests? failed",
        ..PLAIN
    },
    // PHPUnit
    RunnerFormat {
        signs: &["PHPUnit", "Assertions: ", " assertions)", "No tests executed!"],
        seen: r"^PHPUnit [\d.]+|^Tests: \d+, Assertions:|^OK \(\d+ tests?, |^No tests executed!",
        failed: FailedTests::Read(phpunit),
        ran: r"^OK \((\d+) test|^Tests: (\d+),|^(No tests executed!)",
        minus: r"^Tests: .*Skipped: (\d+)",
        lost: r"^Tests: .*Failures: (\d+)|^Tests: .*Errors: (\d+)",
        ..PLAIN
    },
    // RSpec
    RunnerFormat {
        signs: &[" example"],
        seen: r"^\d+ examples?, \d+ failure",
        failed: FailedTests::Lines(&[r"^rspec \S+ # (.+)$"]),
        ran: r"^(\d+) examples?, ",
        minus: r"^\d+ example.* (\d+) pending",
        lost: r"^\d+ examples?, (\d+) failure",
        ..PLAIN
    },
    // minitest
    RunnerFormat {
        signs: &[" assertions, "],
        seen: r"^\d+ (?:runs|tests), \d+ assertions",
        failed: FailedTests::Lines(&[r"^ +\d+\) (?:Failure|Error):\n(\S.*?)(?: \[.*\])?:$"]),
        ran: r"^(\d+) (?:runs|tests), ",
        minus: r"assertions, .* (\d+) skips",
        lost: r"^\d+ (?:runs|tests), .* (\d+) failures, (\d+) errors",
        ..PLAIN
    },
    // GoogleTest
    RunnerFormat {
        signs: &["[====", "[  PASSED  ]", "[  FAILED  ]"],
        seen: r"^\[=+\] .*\d+ tests? from|^\[  (?:PASSED|FAILED)  \] \d+ test",
        failed: FailedTests::Lines(&[
            r"^\[  FAILED  \] (\S+\.\S+?)(?:, where .*)?(?: \(\d+ ms\))?$",
        ]),
        ran: r"^\[=+\] (\d+) tests? .* ran\.",
        minus: r"^\[  SKIPPED \] (\d+) test",
        ..PLAIN
    },
    // a program of C that `assert` ends
    RunnerFormat {
        signs: &["Assertion `", "Assertion failed: ("],
        seen: r"^\S.*:\d+: .*: Assertion `.*' failed\.|^Assertion failed: \(.*\), function ",
        unless: r"tests passed, \d+ tests? failed out of|^\[=+\] ",
        failed: FailedTests::Lines(&[
            r"^(?:\S+: )?(?:\S*/)?([\w.-]+):\d+: (?:.* )?\**(\w+)(?:\(.*\))?: Assertion `",
            r"^Assertion failed: \(.*\), function (\w+), file ",
        ]),
        ..PLAIN
    },
    // prove
    RunnerFormat {
        signs: &["Files=", "Result: NOTESTS"],
        seen: r"^Files=\d+, Tests=\d+|Result: NOTESTS",
        failed: FailedTests::Lines(&[r"^#   Failed test '(.+)'"]),
        ran: r"^Files=\d+, Tests=(\d+)",
        ..PLAIN
    },
    // TAP of any other program, such as bats
    RunnerFormat {
        signs: &["1.."],
        seen: r"^1\.\.\d+",
        unless: r"^# (?:pass|duration_ms) |^Files=|# time=",
        failed: FailedTests::Read(tap),
        ran: r"^(?:not )?ok \d+()|^(1\.\.0)",
        minus: r"^(?:not )?ok \d+ .*# (?:skip|SKIP)()|^not ok \d+ setup_file()",
        ..PLAIN
    },
];

fn pytest(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let summary = output.rfind("short test summary info").map_or(output, |at| &output[at..]);
    let mut subtests = 0;
    for line in find(r"^(FAILED|ERROR|SUBFAIL(?:ED)?(?:[(\[].*?[)\]])?) (\S.*)$", summary) {
        let [word, rest] = line[..] else { continue };
        subtests += u64::from(word.starts_with("SUB"));
        // The first ` - ` outside of brackets ends the name.
        let (mut depth, mut end) = (0_i32, rest.len());
        for (at, c) in rest.char_indices() {
            depth += i32::from(c == '[') - i32::from(c == ']');
            if depth <= 0 && rest[at..].starts_with(" - ") {
                end = at;
                break;
            }
        }
        let name = rest[..end].trim();
        if name.contains("::") {
            failed.insert(name.to_owned());
        }
    }
    let verbose = r"^(?:\[gw\d+\] \[ *\d+%\] )?(\S+::.*?) (?:FAILED|ERROR)(?: +\[ *\d+%\])?$";
    let crashed = r"^worker 'gw\d+' crashed while running '(.+)'$";
    let found = [verbose, crashed].into_iter().flat_map(|it| find(it, output));
    failed.extend(found.flatten().map(str::to_owned));
    // A file that cannot be loaded is an error without a test.
    subtests + find(r"^ERROR \S+\.py(?: - .*)?$", summary).len() as u64
}

fn unittest(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let heads = find(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\w+) \(([\w.<>]+)\)", output);
    let unexpected = find(r"^(\w+) \(([\w.]+)\)(?:\n.*)? \.\.\. unexpected success$", output);
    let mut heads_seen = 0;
    for head in heads.into_iter().chain(unexpected) {
        let [name, place] = head[..] else { continue };
        heads_seen += 1;
        let is_test = !place.contains("_FailedTest")
            && !["setUpClass", "tearDownClass", "setUpModule", "tearDownModule"].contains(&name);
        let is_whole = place.rsplit('.').next() == Some(name);
        if is_test {
            failed.insert(if is_whole { place.to_owned() } else { format!("{place}.{name}") });
        }
    }
    // Each of several parts of a test may fail.
    u64::saturating_sub(heads_seen, failed.len() as u64)
}

fn cargo(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let mut names: Vec<&str> =
        find(r"^test (.+?) \.\.\. \x08*FAILED$", output).into_iter().flatten().collect();
    for block in find(r"^failures:\n((?:    \S.*\n)+)", output).into_iter().flatten() {
        names.extend(block.lines().map(str::trim));
    }
    for name in names {
        // An example of a document: without its line, which any edit changes.
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        let end = name
            .rfind(" (line ")
            .filter(|at| name[*at..].ends_with(')') || name[*at..].contains(") - "));
        let end = end.or_else(|| name.rfind(" - compile"));
        failed.insert(name[..end.unwrap_or(name.len())].to_owned());
    }
    0
}

fn go(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let mut open: Vec<&str> = Vec::new();
    for line in output.lines() {
        if line.starts_with("{\"") {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
            if text("Action") == "fail" && !text("Test").is_empty() {
                failed.insert(format!("{} {}", text("Package"), text("Test")));
            }
        } else if let Some(name) = first(r"^ *--- FAIL: (\S+) \([\d.]+s\)", line) {
            open.push(name);
        } else if let Some(name) = first(r"^\t(Test\S+) \([\d.]+s\)$", line) {
            // It was running at the time limit.
            open.push(name);
        } else if let Some(package) = first(r"^(?:FAIL|ok  )\t(\S+)", line) {
            failed.extend(open.drain(..).map(|name| format!("{package} {name}")));
        }
    }
    0
}

fn vitest(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let heads = find(r"^ FAIL  (.+)$", output).into_iter().flatten();
    // A file that cannot be loaded has its own name again: `a.test.js [ a.test.js ]`.
    let is_file = |head: &&str| head.ends_with(" ]") && head.contains(" [ ");
    let (files, tests): (Vec<&str>, Vec<&str>) = heads.partition(is_file);
    failed.extend(tests.into_iter().map(|head| {
        let head =
            head.strip_prefix('|').and_then(|it| it.split_once("| ")).map_or(head, |it| it.1);
        head.split_once(" > ").map_or(head, |(_, name)| name).trim().to_owned()
    }));
    files.len() as u64
}

fn jest(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let heads = find(r"^  ● ([^ \n].*)$", output).into_iter().flatten();
    let (files, tests): (Vec<&str>, Vec<&str>) =
        heads.partition(|it| *it == "Test suite failed to run");
    let is_test = |it: &&str| *it != "Console" && !it.starts_with("process.exit called");
    failed.extend(tests.into_iter().filter(is_test).map(|name| name.replace(" › ", " > ")));
    files.len() as u64
}

fn maven(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let old = r"^\[ERROR\] (\w+)\(([\w.$]+)\) +(?:-- )?Time elapsed: .*<<<";
    let names = find(old, output).into_iter().filter_map(|found| match found[..] {
        [method, class] => Some(format!("{class}.{method}")),
        _ => None,
    });
    failed.extend(names);
    let new = find(r"^\[ERROR\] ([\w.$]+\.\w+) +-- Time elapsed: .*<<<", output);
    failed.extend(new.into_iter().flatten().map(str::to_owned));
    0
}

fn junit(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let old = find(r"^\d+\) (\w+)\(([\w.$]+)\)$", output).into_iter();
    let new = r"MethodSource \[className = '(.+?)', methodName = '(.+?)'";
    let new = find(new, output).into_iter().map(|found| found.into_iter().rev().collect());
    failed.extend(old.chain(new).filter_map(|found: Vec<&str>| match found[..] {
        [method, class] => Some(format!("{class}.{method}")),
        _ => None,
    }));
    0
}

fn phpunit(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let mut is_failure = false;
    for line in output.lines() {
        if let Some(what) = first(r"^There (?:was|were) \d+ (?:PHPUnit )?(\S+)", line) {
            is_failure = what.starts_with("failure") || what.starts_with("error");
        }
        let name = r#"^\d+\) (\S+::\w+(?: with data set (?:"[^"]*"|#\d+))?)"#;
        failed.extend(first(name, line).filter(|_| is_failure).map(str::to_owned));
    }
    0
}

fn tap(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let lines = find(r"^not ok \d+ (?:- )?(.+?)(?: in \d+ms)?$", output).into_iter().flatten();
    let is_test = |line: &&str| {
        let line = line.to_ascii_lowercase();
        !line.contains("# skip") && !line.contains("# todo") && !line.starts_with("setup_file")
    };
    failed.extend(lines.filter(is_test).map(str::to_owned));
    0
}
