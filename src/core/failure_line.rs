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

/// Returns the line that says why, or else the last line that is not blank.
pub fn of(text: &str) -> Option<String> {
    stated(text).or_else(|| {
        let last = lines(text).rfind(|line| !is_noise(line)).or_else(|| lines(text).next_back());
        last.map(cut)
    })
}

/// Returns the line that states an error, if there is one: the last one that names a failed test, or
/// else the last one that names an error.
pub fn stated(text: &str) -> Option<String> {
    let told = || lines(text).filter(|line| !is_noise(line));
    told()
        .rfind(|line| names_test(line))
        .or_else(|| told().rfind(|line| names_error(line)))
        .map(cut)
}

fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty())
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
    fn the_line_that_says_why_is_found() {
        for (text, want) in [
            ("one\ntwo\n\n", "two"),
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
}
