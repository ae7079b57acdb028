//! The text of `--help` on wide and narrow screens, the pages made from the flags and the settings,
//! and shell completions.
//!
//! `RALPH_WRITE=1 cargo test --test it help` rewrites the pages.

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
    let mut page = String::new();
    let pages = [("ralph", &["--help"][..]), ("ralph help all", &["help", "all"])];
    for (line, words) in pages.into_iter().chain([("ralph help agents", &["help", "agents"][..])]) {
        let text = said(words);
        let blank = if page.is_empty() { "" } else { "\n" };
        let _ = write!(page, "{blank}## {line}\n\n```text\n{}\n```\n", text.trim_end());
    }
    for name in ralph::cli::commands() {
        let below: &[&str] = match &*name {
            "schedule" => &["install"],
            "slots" => &["remove"],
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
fn help_fits_wide_and_narrow_screens() {
    let page = help("60");
    is_page("tests/it/help-60.md", &page);
    let examples = |line: &&str| line.starts_with("  ralph ") || line.starts_with("  source ");
    for (page, columns) in [(page, 60), (help("100"), 100)] {
        let long: Vec<&str> =
            page.lines().filter(|line| line.chars().count() > columns && !examples(line)).collect();
        assert_eq!(long, [""; 0]);
    }
}

#[test]
fn the_list_of_settings_is_made_from_the_schema() {
    let schema = ralph::project::config::Config::schema();
    let row = |(key, property): (&String, &serde_json::Value)| {
        let what = property["description"].as_str().unwrap().replace('\n', " ");
        let default = match &property["default"] {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => format!(" (`{text}`)"),
            other => format!(" (`{other}`)"),
        };
        format!("- `{key}`{default}: {what}")
    };
    let rows = schema["properties"].as_object().unwrap().iter().map(row);
    is_list("docs/settings.md", "## All settings\n\n", rows);
}

/// Holds the rows of the list or table below this text in a page against these.
#[track_caller]
fn is_list(path: &str, above: &str, rows: impl IntoIterator<Item = String>) {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let page = std::fs::read_to_string(page).unwrap();
    let (before, mut after) = page.split_once(above).expect("the text above the list");
    while after.starts_with("- ") || after.starts_with('|') {
        after = after.split_once('\n').map_or("", |(_, after)| after);
    }
    let rows: String = rows.into_iter().map(|row| row + "\n").collect();
    is_page(path, &format!("{before}{above}{rows}{after}"));
}

#[test]
fn the_list_of_task_fields_is_made_from_the_fields() {
    use ralph::core::graph::load::fields::FIELDS;
    let row = |field: &ralph::core::graph::load::fields::TaskField| {
        format!("- `{}`: {}", field.name, field.description)
    };
    is_list("docs/task-graph.md", "## Fields\n\n", FIELDS.iter().map(row));
    let own = FIELDS.iter().filter(|field| !field.has_default);
    let own: Vec<String> = own.map(|field| format!("`{}`", field.name)).collect();
    let sentence = format!("for all tasks, except {}.\n", own.join(", "));
    let page = std::fs::read_to_string("docs/task-graph.md").unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(sentence.trim()), "docs/task-graph.md does not say {sentence:?}");
}

#[test]
fn the_table_of_agents_is_made_from_the_presets() {
    let row = |preset: &ralph::core::agents::agent_preset::AgentPreset| {
        let login = preset.login.map_or("not checked", |login| login.how);
        let (name, command, install) =
            (preset.name, shell_words::join(preset.argv), preset.install);
        format!("| `{name}` | `{command}` | `{install}` | {login} |")
    };
    let rows = ralph::core::agents::agent_preset::ALL.iter().map(row);
    let ruler = "|---|---|---|---|".to_owned();
    let header = "| agent | command | installation | login |\n";
    is_list("docs/agents.md", header, [ruler].into_iter().chain(rows));
}

#[test]
fn a_shell_completes_commands_and_ids() {
    let trial = TestProject::new().graph(DIAMOND);
    let script = "source <(\"$RALPH\" completions bash)\n\
                  ask() { COMP_WORDS=(ralph \"$@\"); COMP_CWORD=$#; COMP_TYPE=9; COMPREPLY=(); \
                  _clap_complete_ralph ralph \"${!#}\" x; printf '%s\\n' \"$*: ${COMPREPLY[*]}\"; }\n\
                  ask task-c; ask task-reset r; ask run --task s; ask task-reset zz\n";
    let output = trial.process("bash").args(["-c", script]).env("RALPH", RALPH).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    task-c: task-complete
    task-reset r: right
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
