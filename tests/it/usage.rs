//! The command line itself: help, version, usage errors.

use crate::support::TestProject;

#[test]
fn help_lists_the_commands_in_groups() {
    let trial = TestProject::bare();
    let help = trial.run(["--help"]).out();
    let agents = trial.run(["help", "agents"]).out();
    for (title, commands) in ralph::cli::command_groups() {
        let page = if help.contains(&format!("\n{title}:\n")) { &help } else { &agents };
        let (_, group) = page.split_once(&format!("\n{title}:\n")).expect(title);
        for (line, (name, about)) in group.lines().zip(commands) {
            assert!(line.starts_with(&format!("  {name} ")) && line.ends_with(&about), "{line}");
        }
    }
    assert!(help.contains("Exit codes: 0 complete") && !help.contains("__guard"), "{help}");
    assert!(!help.contains("\n  ask ") && agents.contains("\n  ask "), "{help}{agents}");
    assert!(!help.contains('\u{1b}'), "no colour in a pipe: {help:?}");
}

#[test]
fn help_is_also_a_command() {
    let trial = TestProject::bare();
    assert_eq!(trial.run(["help"]).out(), trial.run(["--help"]).out());
    assert_eq!(trial.run(["help", "run"]).out(), trial.run(["run", "--help"]).out());
    let nested = trial.run(["slots", "remove", "--help"]).out();
    assert_eq!(trial.run(["help", "slots", "remove"]).out(), nested);
    trial.run(["help", "reset"]).code(64).stderr_has("did you mean `ralph task-reset`?");
}

#[test]
fn global_options_are_shown_once() {
    let trial = TestProject::bare();
    assert!(trial.run(["--help"]).out().contains("--graph <FILE>"));
    for words in [&["run", "--help"][..], &["slots", "remove", "--help"]] {
        let help = trial.run(words).out();
        assert!(!help.contains("--graph <FILE>") && !help.contains("--directory"), "{help}");
    }
    trial.run(["run", "--help"]).stdout_has("Global options: see `ralph --help`");
    // They are accepted on both sides of the command.
    let listed = trial.run(["-C", ".", "ls"]).whole();
    assert_eq!(trial.run(["ls", "-C", "."]).whole(), listed);
}

#[test]
fn the_version_is_one_line() {
    let version = concat!("ralph ", env!("CARGO_PKG_VERSION"), "\n");
    TestProject::bare().run(["--version"]).stdout(version);
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let trial = TestProject::bare();
    insta::assert_snapshot!(trial.run(["dag-stauts"]).whole(), @r"
    exit code 64
    --- stderr ---
    ralph: error: no command `dag-stauts`; did you mean `ralph dag-status`?
    ");
    trial.run(["next"]).code(64).stderr_has("did you mean `ralph prompt` or `ralph plan`?");
    trial.run(["xylophone"]).code(64).stderr_has("`ralph --help` lists the commands");
    trial.run(["slots", "lst"]).code(64).stderr_has("Usage: ralph slots");
    trial.run(["worktree"]).code(64).stderr_has("did you mean `ralph slots`?");
    let repository = TestProject::new();
    repository.run(["config", "list"]).code(64).stderr_has("`ralph config` lists the settings");
    trial.run(["task-reset"]).code(64).stderr_has("<ID>...");
    trial.run(["run", "--task", "a b"]).code(64).stderr_has("the id may contain only letters");
    trial.run(["run", "-q", "-v"]).code(64).stderr_has("cannot be used with");
    let nothing = trial.run([]).whole();
    assert!(nothing.starts_with("exit code 64\n") && nothing.contains("Usage: ralph"), "{nothing}");
}
