//! The text of `--help` on wide and narrow screens, the pages made from the flags and the settings,
//! and shell completions.
//!
//! `RALPH_WRITE=1 cargo test --test it help` rewrites the pages.

use std::{collections::BTreeMap, fmt::Write as _};

use clap::{Arg, Command, CommandFactory, builder::PossibleValue};

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
    let agents = said(&["help", "agents"]);
    let mut page = String::new();
    for (line, text) in [("ralph", whole), ("ralph help agents", agents)] {
        let blank = if page.is_empty() { "" } else { "\n" };
        let _ = write!(page, "{blank}## {line}\n\n```text\n{}\n```\n", text.trim_end());
    }
    for (name, _) in ralph::cli::commands() {
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

/// A flag or an argument in a line of the page: how it is written, and its help.
fn described(arg: &Arg) -> (String, String) {
    let value = arg.get_value_names().unwrap_or_default().join(" ");
    let takes = arg.get_action().takes_values();
    let may_stand_alone =
        takes && arg.get_num_args().is_some_and(|values| values.min_values() == 0);
    let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
    let written = match arg.get_long() {
        Some(long) if may_stand_alone => format!("{short}--{long}[=<{value}>]"),
        Some(long) if takes => format!("{short}--{long} <{value}>"),
        Some(long) => format!("{short}--{long}"),
        None => format!("<{value}>"),
    };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
    if takes && !values.is_empty() {
        let _ = write!(help, " [{}]", values.join(", "));
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.collect();
    if takes && !defaults.is_empty() {
        let _ = write!(help, " [default: {}]", defaults.join(" "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(help, " [env: {}]", variable.to_string_lossy());
    }
    (written, help.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The arguments and flags of a command that its help shows.
fn shown(command: &Command) -> impl Iterator<Item = (String, String)> {
    let own =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    command.get_arguments().filter(own).map(described)
}

/// The words that call a command, its description, and its flags.
type DescribedCommand<'a> = (String, String, &'a Command);

/// The commands with those below them, in the groups of the help.
fn in_groups(whole: &Command) -> Vec<(&'static str, Vec<DescribedCommand<'_>>)> {
    let with_those_below = |(name, about): (String, String)| {
        let command = whole.find_subcommand(&name).expect("a command of the help");
        let below = command.get_subcommands().filter(|below| below.get_name() != "help");
        let below = below.map(|below| {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            (format!("{name} {}", below.get_name()), about, below)
        });
        [(name.clone(), about, command)].into_iter().chain(below).collect::<Vec<_>>()
    };
    let groups = ralph::cli::command_groups().into_iter();
    let whole = |commands: Vec<_>| commands.into_iter().flat_map(with_those_below).collect();
    groups.map(|(title, commands)| (title, whole(commands))).collect()
}

#[test]
fn the_page_of_commands_is_current() {
    let mut whole = ralph::cli::Cli::command();
    whole.build();
    let groups = in_groups(&whole);
    // Of the others, the text before the list says everything.
    let is_told = |name: &str, (written, help): &(String, String)| {
        let of_a_run = ["run", "tonight"].map(|name| whole.find_subcommand(name).unwrap());
        let in_run = || shown(of_a_run[0]).any(|(flag, _)| flag == *written);
        ["Print JSON", "The task", "The tasks"].contains(&help.as_str())
            || name == "tonight" && in_run()
    };
    let mut users: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for (name, _, command) in groups.iter().flat_map(|(_, commands)| commands) {
        for flag in shown(command).filter(|flag| !is_told(name, flag)) {
            users.entry(flag).or_default().push(name);
        }
    }
    let is_shared = |flag: &(String, String)| {
        users[flag].len() > 1 && (flag.0.starts_with('-') || flag.0 == "<AGENT>")
    };
    let mut page =
        "# Commands\n\nFor people who look up a command or a flag. `ralph help COMMAND` adds \
                    examples. `ralph tonight` has the\nflags of a run, `<ID>` is a task, and \
                    `--json` prints [JSON](json.md) wherever a program may read it. Generated by\n\
                    `RALPH_WRITE=1 cargo test --test it help`.\n\n## Every command\n\n"
            .to_owned();
    for (written, help) in shown(&whole) {
        let _ = writeln!(page, "- `{written}` {help}");
    }
    page += "\n## Several commands\n\n";
    for (flag, names) in users.iter().filter(|(flag, _)| is_shared(flag)) {
        let _ = writeln!(page, "- `{}` {} (`{}`)", flag.0, flag.1, names.join("`, `"));
    }
    for (title, commands) in &groups {
        let _ = write!(page, "\n## {title}\n");
        for (name, about, command) in commands {
            let _ = writeln!(page, "\n**`ralph {name}`**: {about}");
            let is_own = |flag: &(String, String)| !is_told(name, flag) && !is_shared(flag);
            let own: Vec<_> = shown(command).filter(is_own).collect();
            page += if own.is_empty() { "" } else { "\n" };
            for (written, help) in own {
                let _ = writeln!(page, "- `{written}` {help}");
            }
        }
    }
    is_page("docs/commands.md", &page);
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
        let (name, command, install) = (preset.name, preset.argv.join(" "), preset.install);
        format!("| `{name}` | `{command}` | `{install}` | {login} |")
    };
    let rows = ralph::core::agents::agent_preset::ALL.iter().map(row);
    let ruler = "|---|---|---|---|".to_owned();
    let header = "| agent | command | installation | login |\n";
    is_list("docs/agents.md", header, [ruler].into_iter().chain(rows));
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
