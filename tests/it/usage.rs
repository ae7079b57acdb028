//! The command line itself: help, version, usage errors.

use crate::support::TestProject;

#[test]
fn the_first_page_has_a_dozen_commands_and_says_where_the_rest_is() {
    let trial = TestProject::bare();
    let help = trial.run(["--help"]).out();
    let (_, list) = help.split_once("\nCommands:\n").expect("a list");
    let names: Vec<&str> =
        list.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let wanted = "init run status review answer note task-add task-reset take-back plan serve stop";
    assert_eq!(names.join(" "), wanted);
    for part in ["`ralph help all`", "`ralph help agents`", "Exit codes: 0 complete", "--graph"] {
        assert!(help.contains(part), "{part} is not in {help}");
    }
    let (all, agents) = (trial.run(["help", "all"]).out(), trial.run(["help", "agents"]).out());
    for name in ["run", "task-complete", "doctor", "note"] {
        assert!(all.contains(&format!("\n  {name} ")), "{name} is not in {all}");
    }
    assert!(all.starts_with("Work:\n  run ") && all.contains("\n\nSet up:\n  init "), "{all}");
    let hidden = ["__guard", "template", "schema", "merge-driver", "completions", "man", "attach"];
    for name in hidden.into_iter().chain(["help", "ask"]) {
        assert!(!all.contains(&format!("\n  {name} ")), "{name} is in {all}");
    }
    assert!(all.lines().filter(|line| line.starts_with("  ")).count() <= 50, "{all}");
    for name in ["ask", "note", "verify", "task-complete", "heartbeat"] {
        assert!(agents.contains(&format!("\n  {name} ")), "{name} is not in {agents}");
    }
    assert!(!(help + &all).contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn the_help_of_run_shows_the_usual_flags_first() {
    let help = TestProject::bare().run(["run", "--help"]).out();
    let (first, more) = help.split_once("\nMore options:\n").expect("two parts");
    for flag in ["--once", "--task", "--jobs", "--agent", "--max-iterations", "--max-cost"] {
        assert!(first.contains(flag) && !more.contains(&format!("  {flag} ")), "{flag}: {help}");
    }
    let flags = first.lines().filter(|line| line.trim_start().starts_with('-')).count();
    assert_eq!(flags, 9, "eight and `--help`: {first}");
    assert!(more.contains("--idle") && more.contains("--serve"), "{more}");
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
    let listed = trial.run(["-C", ".", "attempts"]).whole();
    assert_eq!(trial.run(["attempts", "-C", "."]).whole(), listed);
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
    trial.run(["xylophone"]).code(64).stderr_has("`ralph help all` lists the commands");
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
