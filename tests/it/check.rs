//! `ralph check`: one line for valid files, every error of invalid ones, fast refusal of hostile
//! ones.

use std::{
    fs::{self, File},
    time::{Duration, Instant},
};

use crate::support::{DIAMOND, TestProject};

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/graphs/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn a_good_graph_is_one_line() {
    let trial = TestProject::new().graph(DIAMOND);
    let before = trial.everything();
    trial
        .run(["check"])
        .stdout("task-graph.yaml: 4 tasks, 4 dependencies, longest chain 3, 1 ready now\n");
    let after = trial.everything();
    assert!(before == after, "checking changed something");
}

#[test]
fn a_file_needs_no_repository() {
    let trial = TestProject::bare();
    trial.write("g.yaml", DIAMOND);
    trial
        .run(["check", "g.yaml"])
        .stdout("g.yaml: 4 tasks, 4 dependencies, longest chain 3, 1 ready now\n");
    let json = trial.run(["check", "--json", "g.yaml"]).json();
    assert_eq!((&json["valid"], &json["longest_chain"]), (&true.into(), &3.into()));
    assert_eq!(json["diagnostics"], serde_json::json!([]));
}

#[test]
fn strict_finds_what_wastes_a_run() {
    let graph = "tasks:\n  - id: parser\n    title: Improve it\n    verify: ['true']\n  \
                 - id: printer\n    title: Print it\n";
    let trial = TestProject::new().graph(graph).agent("commit");
    insta::assert_snapshot!(trial.run(["check", "--strict"]).code(1).whole(), @r"
    exit code 1
    --- stdout ---
    task-graph.yaml: 2 tasks, 0 dependencies, longest chain 1, 2 ready now
    --- stderr ---
    warning: `true` cannot fail (always-passes)
     --> task-graph.yaml:4:13
      |
    4 |     verify: ['true']
      |             ^^^^^^^^ unfinished work would count as done
      |
      = help: use a command that fails while the work is not done, or drop it

    warning: nothing tells when `printer` is done (no-check)
     --> task-graph.yaml:5:9
      |
    5 |   - id: printer
      |         ^^^^^^^ it has no `verify`, no `output` and no criteria
      |
      = help: add `verify:` with a command that fails until it is done, or say in the description what must be true then
    ");
    let report = trial.run(["check", "--strict", "--json"]).code(1).json();
    let lines: Vec<_> =
        report["diagnostics"].as_array().unwrap().iter().map(|it| it["line"].clone()).collect();
    assert_eq!(lines, [4, 5]);
    trial.run(["check"]);
    trial
        .run(["tonight"])
        .stdout_has("2 remarks about the tasks; `ralph check --strict` shows them");
    // Of a file in it, the settings count as well.
    let checked = TestProject::new().graph("tasks: [{id: a, title: Write it}]\n");
    checked.run(["check", "--strict", "task-graph.yaml"]).code(1).stderr_has("no-check");
    checked.write(".ralph/config.yaml", "verify: make test\n");
    checked.run(["check", "--strict", "task-graph.yaml"]).code(0);
    // A file outside of any repository.
    let trial = TestProject::bare();
    trial.write("deep/g.yaml", &graph.replace("['true']", "[nosuch]"));
    trial.run(["check", "--strict", "deep/g.yaml"]).code(1).stderr_has("no program `nosuch`");
    let allowed = graph.replace("['true']", "sh x") + "    allow: no-check\n";
    trial.write("deep/g.yaml", &allowed);
    trial.run(["check", "--strict", "deep/g.yaml"]);
}

#[test]
fn both_shapes_and_their_neighbours_are_read() {
    let trial = TestProject::bare();
    for (name, line) in [
        ("edges.yaml", "5 tasks, 5 dependencies, longest chain 4, 1 ready now"),
        ("nested.yaml", "4 tasks, 3 dependencies, longest chain 3, 1 ready now"),
    ] {
        trial.write(name, &fixture(name));
        trial.run(["check", name]).stdout(&format!("{name}: {line}\n"));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a page of faults")]
fn every_fault_is_shown_at_once() {
    let trial = TestProject::bare();
    trial.write("bad.yaml", &fixture("bad.yaml"));
    insta::assert_snapshot!(trial.run(["check", "bad.yaml"]).whole(), @r#"
    exit code 65
    --- stderr ---
    error: `priority` must be a whole number, `P0`–`P4`, or critical, high, medium, low
     --> bad.yaml:5:15
      |
    5 |     priority: hihg
      |               ^^^^ found this text

    error: unknown status `doen`
     --> bad.yaml:6:13
      |
    6 |     status: doen
      |             ^^^^
      |
    help: did you mean `done`?
      |
    6 -     status: doen
    6 +     status: done
      |

    error: two tasks have the id `one`
     --> bad.yaml:7:9
      |
    3 |   - id: one
      |         --- first used here
    ...
    7 |   - id: one
      |         ^^^
      |
      = help: ids name tasks in the journal and in `depends_on`: rename one

    error: unknown dependency `tow`
     --> bad.yaml:8:18
      |
    7 |   - id: one
      |         --- in this task
    8 |     depends_on: [tow, one]
      |                  ^^^ no task has this id
      |
    help: did you mean `two`?
      |
    8 -     depends_on: [tow, one]
    8 +     depends_on: [two, one]
      |

    error: a task depends on itself
     --> bad.yaml:8:23
      |
    8 |     depends_on: [tow, one]
      |                       ^^^
      |
      = help: remove it: a task cannot wait for its own end

    error: unknown dependency `three`
      --> bad.yaml:10:17
       |
     9 |   - id: two
       |         --- in this task
    10 |     depends_on: three
       |                 ^^^^^ no task has this id

    error: `timeout` must be a length of time: `[took]`, `15m` or `2h`
      --> bad.yaml:11:14
       |
    11 |     timeout: 90
       |              ^^ found a number

    error: `max_attempts` must be a whole number from 1
      --> bad.yaml:12:19
       |
    12 |     max_attempts: many
       |                   ^^^^ found this text

    error: a task without `id`
      --> bad.yaml:13:5
       |
    13 |   - title: No id at all
       |     ^^^^^^^^^^^^^^^^^^^
       |
       = help: give it a short name that stays, such as `T-1`

    error: the id `has space` may contain only letters, digits, `.`, `_` and `-`
      --> bad.yaml:14:9
       |
    14 |   - id: "has space"
       |         ^^^^^^^^^^^
       |
       = help: ids are letters, digits, `.`, `_` and `-`, at most 64

    error: `tags` must be a list
      --> bad.yaml:16:11
       |
    16 |     tags: {a: b}
       |           ^^^^^^ found a mapping

    error: `description` must be text
      --> bad.yaml:17:18
       |
    17 |     description: [1, 2]
       |                  ^^^^^^ found a list

    error: unknown dependency `nowhere`
      --> bad.yaml:19:21
       |
    19 |   - {from: one, to: nowhere}
       |                     ^^^^^^^ no task has this id

    bad.yaml: 13 errors
    "#);
    let json = trial.run(["check", "bad.yaml", "--json"]).code(65).json();
    assert_eq!(json["valid"], false);
    let faults = json["diagnostics"].as_array().unwrap();
    assert!(faults.iter().all(|fault| fault["line"].as_u64() > Some(0)), "{json}");
}

#[test]
fn an_invalid_pattern_is_shown_with_its_location() {
    let trial = TestProject::new().graph(
        "tasks:
  - id: a
    touches: [src/**, 'docs/[a']
  - {id: b, touches: /etc/passwd}
  - {id: c, touches: {x: 1}}
  - {id: d, toches: src}
defaults:
  touches: a/**b
",
    );
    insta::assert_snapshot!(trial.run(["check"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: the pattern `docs/[a` is not valid: unclosed character class; missing ']'
     --> task-graph.yaml:3:23
      |
    3 |     touches: [src/**, 'docs/[a']
      |                       ^^^^^^^^^

    error: the pattern `/etc/passwd` begins with `/`; make it relative to the repository
     --> task-graph.yaml:4:22
      |
    4 |   - {id: b, touches: /etc/passwd}
      |                      ^^^^^^^^^^^

    error: `touches` must be a list
     --> task-graph.yaml:5:22
      |
    5 |   - {id: c, touches: {x: 1}}
      |                      ^^^^^^ found a mapping

    error: unknown field `toches`
     --> task-graph.yaml:6:13
      |
    6 |   - {id: d, toches: src}
      |             ^^^^^^ a field of your own starts with `x-`: `x-toches`
      |
    help: did you mean `touches`?
      |
    6 |   - {id: d, touches: src}
      |               +

    error: the pattern `a/**b` has a `**` next to other characters; write `**/*`
     --> task-graph.yaml:8:12
      |
    8 |   touches: a/**b
      |            ^^^^^

    task-graph.yaml: 5 errors
    ");
    let good = "tasks: [{id: a, touches: src}, {id: b, touches: ['{a,b}/*.rs', 'x[!0-9]']}]\n";
    TestProject::new().graph(good).run(["check"]).stdout_has("2 tasks");
}

#[test]
fn structural_errors_are_shown_first() {
    let trial = TestProject::bare();
    trial.write("shapeless.yaml", &fixture("shapeless.yaml"));
    insta::assert_snapshot!(trial.run(["check", "shapeless.yaml"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: a task must be a mapping
     --> shapeless.yaml:2:5
      |
    2 |   - just words
      |     ^^^^^^^^^^ a single value

    error: a task must be a mapping
     --> shapeless.yaml:3:5
      |
    3 |   - [a, list]
      |     ^^^^^^^^^ a list

    error: an edge must be a mapping
     --> shapeless.yaml:8:5
      |
    8 |   - one -> two
      |     ^^^^^^^^^^ a single value

    shapeless.yaml: 3 errors
    ");
}

#[test]
fn commands_that_no_shell_accepts_are_errors() {
    let graph = "tasks:\n  - {id: a, status: complete, verify: ['if']}\n  - id: b\n    verify:\n      \
                 - cargo test\n      - if true\n";
    let trial = TestProject::new().graph(graph).agent("commit");
    let found = trial.run(["check", "--json"]).code(65).json();
    let all = found["diagnostics"].as_array().unwrap();
    assert_eq!((all.len(), &all[0]["line"]), (1, &5.into()), "{all:?}");
    assert!(all[0]["message"].as_str().unwrap().contains("`if true`"));
    trial.run(["run"]).code(65).stderr_has("`verify` of `b`");
    assert!(trial.run(["doctor", "--quick", "--", "true"]).code(65).out().contains("`if true`"));
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "no attempt was made");
    let quoted = ["--verify", "echo 'open"];
    let added = trial.run(["task-add", "C", quoted[0], quoted[1]]);
    added.stderr_has("warning: `verify`: `echo 'open`").stderr_has("not a valid shell command");
    let settings = trial.graph("tasks: [{id: a}]\n").env("RALPH_SETUP", "[\"echo (\"]");
    settings.run(["run"]).code(65).stderr_has("`setup` in the settings");
}

#[test]
fn keys_after_a_question_mark_are_errors() {
    let trial = TestProject::new().graph("tasks:\n  - ? id\n    : a\n  - id: b\n    title: Why?\n");
    let found = trial.run(["check", "--json"]).code(65).json();
    let all = found["diagnostics"].as_array().unwrap();
    let place = (&all[0]["line"], &all[0]["column"]);
    assert_eq!((all.len(), place), (1, (&2.into(), &7.into())), "{all:?}");
    trial.run(["run", "--", "true"]).code(65);
}

#[test]
fn a_file_without_tasks_is_an_error() {
    let trial = TestProject::bare();
    trial.write("other.yaml", "version: 1\nservices: {}\n");
    insta::assert_snapshot!(trial.run(["check", "other.yaml"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: the file has no `tasks`
     --> other.yaml:1:1
      |
    1 | version: 1
      | ^
      |
      = help: write `tasks:` and under it a list of tasks, each with an `id`

    other.yaml: 1 error
    ");
    trial.write("misspelt.yaml", "version: 1\ntaks:\n  - id: a\n");
    trial.run(["check", "misspelt.yaml"]).code(65).stderr_has("did you mean `tasks`?");
}

#[test]
fn a_cycle_is_shown_as_a_walk() {
    let trial = TestProject::bare();
    trial.write("cycle.yaml", &fixture("cycle.yaml"));
    insta::assert_snapshot!(trial.run(["check", "cycle.yaml"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: the tasks form a cycle: `a` -> `c` -> `b` -> `a`
     --> cycle.yaml:3:26
      |
    3 |   - {id: a, depends_on: [b]}
      |                          ^ this makes `a` wait for itself
      |
      = help: remove one of these dependencies

    cycle.yaml: 1 error
    ");
}

#[test]
fn a_misspelled_field_is_an_error_and_a_field_of_ones_own_is_not() {
    let trial = TestProject::bare();
    let odd =
        "tasks:\n  - id: a\n    depend_on: []\n    state: new\n    x-title: b\n    owner: me\n";
    trial.write("odd.yaml", odd);
    insta::assert_snapshot!(trial.run(["check", "odd.yaml"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: unknown field `depend_on`
     --> odd.yaml:3:5
      |
    3 |     depend_on: []
      |     ^^^^^^^^^ a field of your own starts with `x-`: `x-depend_on`
      |
    help: did you mean `depends_on`?
      |
    3 |     depends_on: []
      |           +

    warning: unknown field `state`
     --> odd.yaml:4:5
      |
    4 |     state: new
      |     ^^^^^ kept for templates, otherwise ignored
      |
    help: did you mean `status`?
      |
    4 -     state: new
    4 +     status: new
      |

    odd.yaml: 1 error
    ");
    trial.write("own.yaml", "tasks:\n  - {id: a, x-title: b, owner: me}\n");
    trial.run(["check", "own.yaml"]).code(0).stderr("");
}

/// The file is refused with exit code 65 and a short message, quickly even in a debug build.
#[test]
fn a_graph_in_the_folder_of_a_project_is_named() {
    let trial = TestProject::new().file("packages/a b/task-graph.yaml", "tasks: [{id: a}]\n");
    let mut command = trial.process(crate::support::RALPH);
    let folder = trial.root().join("packages/a b");
    let output = command.arg("check").current_dir(&folder).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let named = format!("`--graph '{}/task-graph.yaml'`", folder.display());
    assert!(said.contains(&named), "{said}");
}

#[track_caller]
fn refused(name: &str, bytes: &[u8], part: &str) {
    let trial = TestProject::bare();
    fs::write(trial.root().join(name), bytes).unwrap();
    let began = Instant::now();
    let said = trial.run(["check", name]).whole();
    assert!(began.elapsed() < Duration::from_secs(20), "{name} took {:?}", began.elapsed());
    assert!(said.starts_with("exit code 65\n") && said.len() < 10_000, "{name}: {said}");
    assert!(said.contains(part), "`{part}` is not said of {name}:\n{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(!said.contains(['\u{1b}', '\0', '\u{7}']), "{name}: control characters in {said:?}");
}

#[test]
fn hostile_files_are_refused_fast() {
    refused("deep.yaml", "[".repeat(100_000).as_bytes(), "nest");
    let bomb: String = (1..30)
        .map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(9)))
        .collect();
    refused("bomb.yaml", format!("a0: &a0 [lol]\n{bomb}tasks: *a29\n").as_bytes(), "alias");
    refused("empty.yaml", b"", "tasks");
    refused("list.yaml", b"- a\n- b\n", "error");
    refused("tabs.yaml", b"tasks:\n\t- id: a\n", "tab");
    refused("twice.yaml", b"tasks:\n  - id: a\n    title: x\n    title: y\n", "title");
    refused("two.yaml", b"tasks: [{id: a}]\n---\ntasks: [{id: b}]\n", "document");
    refused("no.yaml", b"tasks:\n  - id: no\n  - id: yes\n", "error");
    refused("nul.yaml", b"tasks:\n  - id: \"a\\0b\"\n", "id");
    refused("escape.yaml", b"tasks:\n  - id: \"\\e]0;x\\a\\e[31m\"\n", "id");
    refused("raw.yaml", b"tasks:\n  - id: a\x1b[31mb\n", "error");
    refused("latin.yaml", b"tasks:\n  - id: a\n    title: caf\xe9\n", "not UTF-8");
    refused("up.yaml", b"tasks:\n  - id: ../../etc\n", "id");
    refused("long.yaml", format!("tasks:\n  - id: {}\n", "a".repeat(65)).as_bytes(), "64");
    refused("self.yaml", b"tasks:\n  - {id: a, depends_on: [a]}\n", "itself");
}

#[test]
fn a_file_of_200_mib_is_not_even_read() {
    let trial = TestProject::bare();
    File::create(trial.root().join("huge.yaml")).unwrap().set_len(200 << 20).unwrap();
    trial.run(["check", "huge.yaml"]).code(65).stderr_has("200 MiB long; the limit is 64 MiB");
}

#[test]
fn a_missing_file_is_an_error() {
    let trial = TestProject::bare();
    trial.run(["check", "nowhere.yaml"]).code(65).stderr_has("there is no `nowhere.yaml`");
    trial.run(["check", "."]).code(65).stderr_has("`.` is not a regular file");
}

#[test]
fn a_long_chain_overflows_nothing() {
    let tasks: String =
        (1..20_000).map(|n| format!("  - {{id: t{n}, depends_on: [t{}]}}\n", n - 1)).collect();
    let text = format!("tasks:\n  - {{id: t0}}\n{tasks}");
    let trial = TestProject::bare();
    trial.write("chain.yaml", &text);
    trial
        .run(["check", "chain.yaml"])
        .stdout("chain.yaml: 20000 tasks, 19999 dependencies, longest chain 20000, 1 ready now\n");
}

#[test]
fn conflict_markers_are_named_before_other_errors() {
    let graph = "tasks:\n- id: a\n<<<<<<< HEAD\n  title: A\n=======\n  title: B\n>>>>>>> other\n";
    let trial = TestProject::new().graph(graph);
    let ran = trial.run(["check"]).code(65);
    ran.stderr_has("conflict markers").stderr_has("task-graph.yaml:3:1");
    // One that was forgotten.
    trial.write("task-graph.yaml", "tasks:\n- id: a\n- id: b\n>>>>>>> other\n");
    trial.run(["check"]).code(65).stderr_has("conflict markers").stderr_has(":4:1");
    // In a text they mean nothing.
    trial.write("task-graph.yaml", "tasks:\n- id: a\n  description: |\n    =======\n");
    trial.run(["check"]).code(0);
}
