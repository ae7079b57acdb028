//! Paths named by a task: its outputs, the inputs of its verify commands, and files in its text.
//!
//! The caller checks whether they exist.

use std::mem;

use serde_json::Value;

/// The characters that end a word of a command line, including quotes, so that a quoted path is
/// found.
const ENDS: &[char] = &['\'', '"', '`', '(', ')', ';', '|', '&', '<', '>', '=', ','];

/// Built-ins and keywords of a POSIX shell.
const SHELLS_OWN: &str = ". alias bg break case cd command continue echo eval exec exit \
    export false fc fg for getopts hash if jobs kill local printf pwd read readonly return set \
    shift test time times trap true type ulimit umask unalias unset until wait while";

/// The paths of an `output` field: a list, or a text with commas. Text with blanks is a description
/// and text with wildcards is a pattern, so neither is a path.
pub fn of_output(output: &Value) -> Vec<String> {
    let found: Vec<&str> = match output {
        Value::String(text) => text.split(',').map(str::trim).collect(),
        Value::Array(paths) => paths.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let is_path = |text: &&str| !text.is_empty() && !text.contains([' ', '\n', '*', '?', '{', '[']);
    found.into_iter().filter(is_path).map(plain).collect()
}

/// Returns the `changed` paths that verify commands name, or that lie in a folder they name: an
/// attempt could change these to make its own check pass.
pub fn named_by(verify: &[String], changed: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for text in verify {
        let all = text.split(|c: char| c.is_whitespace() || ENDS.contains(&c)).map(plain);
        let (mut changes_folder, mut folder) = (false, None);
        for word in all.filter(|word| !word.is_empty() && word != "." && !word.starts_with('-')) {
            if mem::replace(&mut changes_folder, word == "cd") {
                folder = Some(word);
            } else if !changes_folder {
                words.extend(folder.as_ref().map(|folder| format!("{folder}/{word}")));
                words.push(word);
            }
        }
    }
    let is_named = |path: &&String| {
        words.iter().any(|word| {
            path.strip_prefix(word.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    changed.iter().filter(is_named).cloned().collect()
}

/// Returns the parts of verify commands that run something, and do not only look at the work.
pub fn running(verify: &[String]) -> Vec<String> {
    const LOOKS: &str = "[ [[ cat cmp diff grep head jq ls rg stat tail test wc";
    let mut running = Vec::new();
    for text in verify {
        let mut folder = "";
        for part in text.split(['\n', ';', '&', '|', '(', ')', '`', '$']) {
            match part.split_whitespace().find(|word| *word != "!") {
                Some("cd") => folder = part,
                Some(word) if !LOOKS.split(' ').any(|it| it == word) => {
                    running.push(format!("{folder};{part}"));
                }
                Some(_) | None => {}
            }
        }
    }
    running
}

/// The program of a shell command, if it is a plain word: none for built-ins and for text that only
/// a shell can interpret.
pub fn program_of(command: &str) -> Option<&str> {
    let word = command.split([' ', '\t', '\n', ';', '&', '|', '<', '>']).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(plain);
    (is_plain && !SHELLS_OWN.split(' ').any(|it| it == word)).then_some(word)
}

/// Normalizes a path: `./tests/` becomes `tests`.
pub(crate) fn plain(path: &str) -> String {
    let mut path = path.trim_end_matches('/');
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path.to_owned()
}

/// Whether a character does not end a path in a text.
pub(crate) fn is_path_part(c: char) -> bool {
    c.is_alphanumeric() || "/._-+@".contains(c)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_a_check_only_looks_at_is_not_run() {
        let verify =
            ["sh check.sh && ! test \"$(cat data/value)\" = good; grep -q x out | sh more.sh"];
        let runs = running(&verify.map(str::to_owned));
        let changed = ["check.sh", "data/value", "more.sh", "out"].map(str::to_owned);
        assert_eq!(named_by(&runs, &changed), ["check.sh", "more.sh"]);
    }

    #[test]
    fn paths_are_relative_to_the_folder_of_a_command() {
        let changed = ["web/check.sh", "web/x.js", "check.sh", "api/x"].map(str::to_owned);
        let named = |verify: &str| named_by(&running(&[verify.to_owned()]), &changed);
        assert_eq!(named("cd ./web/ && sh check.sh"), ["web/check.sh", "check.sh"]);
        assert_eq!(named("cd web || exit; npm test | tail"), [""; 0]);
        assert_eq!(named("sh api; cd web"), ["api/x"]);
    }

    #[test]
    fn only_path_like_outputs_are_paths() {
        assert_eq!(of_output(&json!("a.md, ./docs/")), ["a.md", "docs"]);
        assert_eq!(of_output(&json!(["a,b", "a report", "src/*.rs", ""])), ["a,b"]);
        assert_eq!(of_output(&json!("a summary of it all")), [""; 0]);
        assert_eq!(of_output(&Value::Null), [""; 0]);
    }

    #[test]
    fn the_program_of_a_command_is_its_first_plain_word() {
        for (command, program) in [
            ("cargo test --all", Some("cargo")),
            ("./check.sh&& make", Some("./check.sh")),
            ("/usr/bin/g++-12", Some("/usr/bin/g++-12")),
            ("cd app && npm test", None),
            ("test -f x", None),
            ("[ -f x ]", None),
            ("! grep TBD src", None),
            ("A=b make", None),
            ("\"$HOME/x\" y", None),
            ("(make)", None),
            ("", None),
        ] {
            assert_eq!(program_of(command), program, "{command}");
        }
    }

    #[test]
    fn inputs_of_a_check_are_found_in_its_words() {
        let changed = ["tests/a.rs", "tests.rs", "check.sh", "src/lib.rs", "my dir/x"];
        let changed = changed.map(str::to_owned);
        let named = |verify: &str| named_by(&["true".to_owned(), verify.to_owned()], &changed);
        assert_eq!(named("cargo test"), [""; 0]);
        assert_eq!(named("sh ./check.sh && pytest 'tests/'"), ["tests/a.rs", "check.sh"]);
        assert_eq!(named("ls . && cat <tests.rs"), ["tests.rs"]);
        assert_eq!(named("make --dir=src"), ["src/lib.rs"]);
    }
}
