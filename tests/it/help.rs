//! The text of `--help` on wide and narrow screens, and shell completions.
//!
//! `RALPH_WRITE=1 cargo test --test it help` rewrites both pages.

use std::fmt::Write as _;

use crate::support::{DIAMOND, RALPH, TestProject, is_page};

/// The help of every command, one after the other, on a screen of this many columns.
fn help(columns: &str) -> String {
    let trial = TestProject::bare().env("COLUMNS", columns);
    // Not by `run`, which replaces durations by placeholders.
    let said = |words: &[&str]| {
        let output = trial.process(RALPH).args(words).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = said(&["--help"]);
    let mut page = format!("## ralph\n\n```text\n{}\n```\n", whole.trim_end());
    for (name, _) in ralph::cli::commands() {
        let below: &[&str] = match &*name {
            "schedule" => &["install", "uninstall"],
            "worktree" => &["list", "new", "remove"],
            _ => &[],
        };
        let all = [&[][..]].into_iter().chain(below.chunks(1));
        for more in all {
            let words = [&[&*name], more].concat();
            let text = said(&[&words[..], &["--help"]].concat());
            let (line, text) = (words.join(" "), text.trim_end());
            let _ = write!(page, "\n## ralph {line}\n\n```text\n{text}\n```\n");
        }
    }
    page
}

#[test]
fn the_page_of_commands_is_what_they_say() {
    let top = "# Commands\n\nWhat `ralph COMMAND --help` says. Made by `RALPH_WRITE=1 cargo test --test \
               it help`.\n\n";
    is_page("docs/commands.md", &format!("{top}{}", help("100")));
}

#[test]
fn help_fits_a_narrow_screen() {
    let page = help("60");
    is_page("tests/it/help-60.md", &page);
    let examples = |line: &&str| line.starts_with("  ralph ") || line.starts_with("  source ");
    let long: Vec<&str> =
        page.lines().filter(|line| line.chars().count() > 60 && !examples(line)).collect();
    assert_eq!(long, [""; 0]);
}

#[test]
fn the_page_of_settings_is_what_they_are() {
    let schema = ralph::project::config::Config::schema();
    let mut page =
        "# Settings\n\nWhat `.ralph/config.yaml` may hold, as `ralph schema config` describes \
                    it. A variable `RALPH_` and\nthe name in capitals stands above the files, a \
                    flag above both. Made by\n`RALPH_WRITE=1 cargo test --test it help`.\n\n\
                    | setting | default | what it is |\n|---|---|---|\n"
            .to_owned();
    for (key, property) in schema["properties"].as_object().unwrap() {
        let what = property["description"].as_str().unwrap().replace('\n', " ").replace('|', "\\|");
        let default = match &property["default"] {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        };
        let _ = writeln!(page, "| `{key}` | {default} | {what} |");
    }
    is_page("docs/settings.md", &page);
}

#[test]
fn a_shell_completes_commands_ids_and_settings() {
    let trial = TestProject::new().graph(DIAMOND);
    let script = "source <(\"$RALPH\" completions bash)\n\
                  ask() { COMP_WORDS=(ralph \"$@\"); COMP_CWORD=$#; COMP_TYPE=9; COMPREPLY=(); \
                  _clap_complete_ralph ralph \"${!#}\" x; printf '%s\\n' \"$*: ${COMPREPLY[*]}\"; }\n\
                  ask task-c; ask task-reset r; ask config max_c; ask run --task s; ask task-reset zz\n";
    let output = trial.process("bash").args(["-c", script]).env("RALPH", RALPH).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    task-c: task-complete
    task-reset r: right
    config max_c: max_cost max_cost_per_day
    run --task s: start
    task-reset zz:
    ");
    let broken = trial.file("task-graph.yaml", "tasks: [");
    let output = broken.process("bash").args(["-c", script]).env("RALPH", RALPH).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let trial = TestProject::bare();
    let count = ralph::cli::commands().len() + 1;
    trial.run(["man", "--to", "man1"]).stdout(&format!("{count} pages in man1\n"));
    let page = trial.read("man1/ralph-run.1");
    assert!(page.contains(".TH ralph-run 1") && page.contains("max\\-iterations"), "{page}");
    assert!(trial.run(["man"]).out().contains("ralph\\-doctor(1)"));
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(trial.run(["completions", shell]).out().contains("RALPH_COMPLETE"), "{shell}");
    }
}
