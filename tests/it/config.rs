//! Settings from all sources: `ralph config`, `ralph schema`, and edits during a run.

use std::fs;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use crate::support::{DIAMOND, SETTINGS, TestProject, agent};

/// A project with settings from all sources.
fn layered() -> TestProject {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}verify: [cargo fmt --check, cargo test]\n"))
        .env("RALPH_TIMEOUT", "45m");
    trial.write("../.ralph/config.yaml", "# for all projects\nmax_cost: 20\ntimeout: 1h\n");
    trial
}

#[test]
fn every_setting_is_shown_with_its_origin() {
    insta::assert_snapshot!(layered().run(["config"]).out(), @r#"
    agent               claude                              default
    agent_for           {}                                  default
    agents              {}                                  default
    allow_files         []                                  default
    autocommit          true                                default
    child_wait_timeout  [took]                                  .ralph/config.yaml:4
    commit_timeout      1m                                  default
    done_pattern        none                                default
    env_keep            []                                  default
    escalate            none                                default
    executors           {}                                  default
    exit_grace          [took]                                 default
    follow_ups          2                                   default
    grace               [took]                               .ralph/config.yaml:1
    hooks               {}                                  default
    idle                15m                                 default
    isolation           slot                                default
    jobs                1                                   default
    keep_awake          false                               RALPH_KEEP_AWAKE
    limits              {}                                  default
    max_attempts        3                                   default
    max_cost            20                                  ~/.ralph/config.yaml:2
    max_duration        none                                default
    max_failures        5                                   default
    max_iterations      none                                default
    max_tokens          none                                default
    max_wait            6h                                  default
    merge               rebase                              default
    notify              []                                  default
    on_orphans          kill                                default
    onto                none                                default
    promise             check                               default
    promise_text        <promise>COMPLETE</promise>         default
    proof               report                              default
    protect             []                                  default
    push                refuse                              default
    retry               continue                            default
    review              none                                default
    rounds              1                                   .ralph/config.yaml:5
    run_on              local                               default
    schedule            none                                default
    setup               []                                  default
    setup_timeout       15m                                 default
    slot_dir            none                                default
    stale_after         2h                                  default
    start_limit         0                                   .ralph/config.yaml:3
    term_grace          [took]                               .ralph/config.yaml:2
    timeout             45m                                 RALPH_TIMEOUT
    verify              ["cargo fmt --check","cargo test"]  .ralph/config.yaml:6
    verify_exclusive    false                               default
    verify_timeout      15m                                 default
    "#);
}

#[test]
fn every_setting_has_its_origin_in_json() {
    let trial = layered();
    insta::assert_snapshot!(trial.run(["config", "max_cost"]).out(), @"20");
    let all = trial.run(["config", "--json"]).json();
    assert_eq!(
        all["timeout"],
        json!({"value": "45m", "origin": "variable", "variable": "RALPH_TIMEOUT"})
    );
    assert_eq!(
        all["max_cost"],
        json!({"value": 20, "origin": "file", "file": "~/.ralph/config.yaml", "line": 2})
    );
    assert_eq!(all["agent"], json!({"value": "claude", "origin": "default"}));
}

#[test]
fn an_unknown_setting_is_corrected() {
    let trial = TestProject::new();
    insta::assert_snapshot!(trial.run(["config", "max_costs"]).whole(), @r"
    exit code 64
    --- stderr ---
    ralph: error: unknown setting `max_costs`; did you mean `max_cost`?
    ");
}

#[test]
fn an_invalid_variable_is_named() {
    let trial = TestProject::new().graph(DIAMOND).env("RALPH_MAX_ITERATIONS", "many");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r#"
    exit code 65
    --- stderr ---
    ralph: error: RALPH_MAX_ITERATIONS: `max_iterations`: invalid type: string "many", expected a whole number
    "#);
    let trial = TestProject::new().env("RALPH_MAX_ITERATION", "3");
    insta::assert_snapshot!(trial.run(["config", "max_iterations"]).whole(), @r"
    exit code 0
    --- stdout ---
    none
    --- stderr ---
    warning: `RALPH_MAX_ITERATION` is not a setting; did you mean `RALPH_MAX_ITERATIONS`?
    ");
}

#[test]
fn every_fault_of_a_file_is_drawn_at_once() {
    let text = "# mine\ntimeuot: 5m\nmax_attempts: 0\nidle: 90\nagent: {preset: clade}\n";
    let trial = TestProject::new().file(".ralph/config.yaml", text).graph(DIAMOND).agent("commit");
    let drawn = trial.run(["config"]).whole();
    insta::assert_snapshot!(drawn, @r"
    exit code 65
    --- stderr ---
    error: unknown setting `timeuot`
     --> .ralph/config.yaml:2:1
      |
    2 | timeuot: 5m
      | ^^^^^^^
      |
    help: did you mean `timeout`?
      |
    2 - timeuot: 5m
    2 + timeout: 5m
      |

    error: `max_attempts` must be at least 1
     --> .ralph/config.yaml:3:15
      |
    3 | max_attempts: 0
      |               ^

    error: `idle`: `90` is not a length of time; write `[took]`, `15m` or `2h`
     --> .ralph/config.yaml:4:7
      |
    4 | idle: 90
      |       ^^

    error: `agent`: unknown preset `clade`; did you mean `claude`?
     --> .ralph/config.yaml:5:8
      |
    5 | agent: {preset: clade}
      |        ^^^^^^^^^^^^^^^
    ");
    assert_eq!(trial.run(["run"]).whole(), drawn);
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn a_settings_file_may_be_named() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("commit");
    trial.save("night.yaml", &format!("{SETTINGS}max_iterations: 1\n"));
    trial.run(["--config", "night.yaml", "config", "max_iterations"]).stdout("1\n");
    trial.run(["config", "max_iterations"]).stdout("none\n");
    trial.run(["run", "-q", "--config", "night.yaml"]).code(2);
    insta::assert_snapshot!(trial.run(["--config", "nigth.yaml", "config"]).whole(), @r"
    exit code 65
    --- stderr ---
    ralph: error: no settings at `nigth.yaml`; name a file that is there, or none
    ");
}

#[test]
fn settings_that_a_person_changes_count_from_the_next_attempt_on() {
    let graph = "tasks: [{id: a, priority: high}, {id: b}, {id: c}]\n";
    let trial = TestProject::new().graph(graph).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.save(
        ".ralph/config.yaml",
        &format!("{SETTINGS}verify: 'echo $RALPH_TASK_ID; false'\nmax_attempts: 1\n"),
    );
    trial.leave("open");
    run.end(&trial).code(3);
    assert_eq!(trial.tasks("completed"), ["a"], "it is judged by the settings of its start");
    for id in ["b", "c"] {
        let red = json!({"task_id": id, "verdict": "verify-failed"});
        trial.assert_record("failed", &red);
    }
    let loaded = trial.lines("noticed");
    assert_eq!(loaded.len(), 1);
    assert_eq!(loaded[0]["text"], "settings changed: max_attempts, verify");
}

#[test]
fn settings_that_a_hook_changes_between_attempts_count() {
    // The second change is invalid.
    let hook = "case $RALPH_TASK_ID in b) echo 'max_attempts: 1' >> .ralph/config.yaml;; \
                c) echo 'verify: [' >> .ralph/config.yaml;; esac";
    for isolation in ["slot", "checkout"] {
        let settings = format!("{SETTINGS}hooks: {{before_attempt: \"{hook}\"}}\n");
        let trial = TestProject::new()
            .graph("tasks: [{id: a}, {id: b}, {id: c}]\n")
            .file(".ralph/config.yaml", &settings)
            .agent("commit")
            .env("RALPH_ISOLATION", isolation);
        trial.run(["run"]).graph_complete();
        let loaded = trial.lines("noticed");
        assert_eq!(
            (loaded.len(), &loaded[0]["text"]),
            (1, &json!("settings changed: max_attempts"))
        );
        assert_eq!(trial.lines("file_rejected").len(), 1, "told once");
    }
}

#[test]
fn flags_have_precedence_after_an_edit_and_a_pause() {
    let hook = "echo 'max_iterations: 7' >> .ralph/config.yaml";
    let trial = TestProject::new()
        .graph("tasks: [{id: a}, {id: b}]\n")
        .file(".ralph/config.yaml", &format!("{SETTINGS}hooks: {{after_attempt: \"{hook}\"}}\n"))
        .agent("commit")
        .env("RALPH_MAX_ITERATIONS", "9");
    trial.run(["run", "-q", "--max-iterations", "1"]).code(2);
    assert_eq!(trial.lines("loop_started")[0]["flags"], json!({"max_iterations": 1}));
}

/// The errors of a value against the schema of the graph or of the settings.
fn validator(of: &str) -> impl Fn(&Value) -> Result<(), String> {
    let schema = TestProject::bare().run(["schema", of]).json();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("schema.json", schema).unwrap();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    move |value| schemas.validate(value, index).map_err(|error| error.to_string())
}

#[test]
fn the_schema_of_the_graph_takes_what_the_reader_takes() {
    let is_valid = validator("graph");
    for name in ["edges", "nested"] {
        let path = format!("{}/tests/graphs/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(is_valid(&value), Ok(()), "{name}");
    }
    assert_eq!(is_valid(&serde_yaml::from_str(DIAMOND).unwrap()), Ok(()));
    for wrong in [
        json!({}),
        json!({"tasks": {}}),
        json!({"tasks": [{"title": "x"}]}),
        json!({"tasks": [{"id": "a b"}]}),
        json!({"tasks": [{"id": "a", "commit": "never"}]}),
        json!({"tasks": [{"id": "a", "timeout": "90"}]}),
        json!({"tasks": [{"id": "a", "max_attempts": 0}]}),
    ] {
        assert!(is_valid(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_schema_of_the_settings_takes_what_the_reader_takes() {
    let is_valid = validator("config");
    let shown = TestProject::new().run(["config", "--json"]).json();
    let all: Value = shown
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, it)| (key.clone(), it["value"].clone()))
        .collect();
    assert_eq!(is_valid(&all), Ok(()));
    for (key, value) in [
        ("timeout", json!(90)),
        ("timeuot", json!("5m")),
        ("max_attempts", json!(0)),
        ("promise", json!("no")),
        ("schedule", json!(4)),
        ("schedule", json!({"crn": "@daily"})),
        ("schedule", json!({"trigger": {"secret": "in here"}})),
    ] {
        assert!(is_valid(&json!({key: value})).is_err(), "{key}");
    }
    let trigger = json!({"listen": "127.0.0.1:1", "secret_env": "X"});
    let schedule = json!({"cron": ["@daily"], "run": ["--max-cost", 5], "trigger": trigger});
    for (key, value) in
        [("agent", json!(agent("commit"))), ("schedule", json!("@daily")), ("schedule", schedule)]
    {
        assert_eq!(is_valid(&json!({key: value})), Ok(()), "{key}");
    }
}

/// Neither file is in the repository, whatever the words begin with.
#[test]
fn files_outside_of_the_repository_may_have_a_relative_path() {
    for mode in [&["run"][..], &["run", "--in-place"]] {
        let trial = TestProject::new().graph("tasks: []\n").agent("commit");
        let outside = trial.root().parent().unwrap().to_owned();
        fs::write(outside.join("night.yaml"), SETTINGS).unwrap();
        fs::write(outside.join("graph.yaml"), "tasks: [{id: a}, {id: b}]\n").unwrap();
        let files = ["--config", "../night.yaml", "--graph", "../graph.yaml"];
        trial.run([mode, &files].concat()).graph_complete();
        assert_eq!(trial.tasks("completed"), ["a", "b"]);
        let left = trial.git(&["status", "--porcelain"]);
        assert_eq!(left, "");
    }
}
