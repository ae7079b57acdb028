//! The command line itself: help, version, usage errors.

use crate::support::TestProject;

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let help = TestProject::bare().run(["--help"]).out();
    for (name, about) in ralph::cli::commands() {
        let line = help.lines().find(|line| line.trim_start().starts_with(&name));
        let words = about.split_whitespace().next().unwrap();
        assert!(line.is_some_and(|line| line.contains(words)), "{name} is not in\n{help}");
    }
    assert!(help.contains("Exit codes: 0 complete") && !help.contains("__demo-agent"), "{help}");
    assert!(!help.contains('\u{1b}'), "no colour in a pipe: {help:?}");
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
    error: unrecognized subcommand 'dag-stauts'

      tip: some similar subcommands exist: 'status', 'dag-status'

    Usage: ralph [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    trial.run(["task-reset"]).code(64).stderr_has("<ID>...");
    trial.run(["run", "--task", "a b"]).code(64).stderr_has("the id may hold only letters");
    trial.run(["run", "-q", "-v"]).code(64).stderr_has("cannot be used with");
    let nothing = trial.run([]).whole();
    assert!(nothing.starts_with("exit code 64\n") && nothing.contains("Usage: ralph"), "{nothing}");
}
