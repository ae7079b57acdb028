//! The report of a night: `ralph report`, `ralph status`, the end of a run, and notifications.

use base64::Engine;
use std::fs;

use serde_json::{Value, json};

use crate::{
    support::{SETTINGS, TestProject, agent, until},
    terminal::{bare, code, on_terminal},
};

const NIGHT: &str = "\
tasks:
  - {id: parser, title: Parse the input, priority: critical}
  - {id: lexer, title: Cut it into tokens, priority: high, verify: [sh check.sh]}
  - {id: choice, title: Choose the database, priority: high}
  - {id: readme, title: Describe it}
  - {id: schema, title: Deploy it, depends_on: [choice]}
  - {id: later, title: Use the tokens, depends_on: [lexer]}
  - {id: deploy, title: 'Write `it` | for @octocat, see #12 <b>', status: blocked}
";

/// The agent of that night: `lexer` does not pass its check, `choice` asks, `readme` changes a file
/// that a person has changed too.
const AGENT: &str = "\
cat > /dev/null
work() { echo \"$1\" >> \"$2\"; git add --all; git commit --quiet --message \"$1\"; }
case $RALPH_TASK_ID in
choice) \"$RALPH\" ask \"$(printf 'Postgres or SQLite?\\nBoth can carry the load.')\"; exit 42 ;;
readme) work 'Describe the tool' README.md ;;
*) work \"Work on $RALPH_TASK_ID\" $RALPH_TASK_ID.txt ;;
esac
\"$RALPH\" task-complete $RALPH_TASK_ID
";

const CHECK: &str = "for n in 1 2 3; do echo \"test $n ok\"; done\n\
                     printf '\\033[31mtest lexer::empty FAILED\\033[0m\\r\\nkey=%s\\n' \"$MY_TOKEN\"\nexit 9\n";

/// The project before that night.
fn project(settings: &str) -> TestProject {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}max_attempts: 1\n{settings}"))
        .file("check.sh", CHECK)
        .file("README.md", "What it is\n")
        .graph(NIGHT)
        .env("MY_TOKEN", "s3cr3t-s3cr3t-s3cr3t");
    let agent = trial.dir().join("agent");
    trial.script(&agent, AGENT);
    let trial = trial.command([agent.to_str().unwrap()]);
    trial.write("README.md", "What it is to me\n");
    trial
}

/// The project after that night.
fn night() -> TestProject {
    let trial = project("");
    trial.run(["run", "-q"]).code(3);
    trial
}

/// What needs a person, by kind and task.
fn needs(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["attention"].as_array().unwrap();
    all.iter().map(|it| (text(&it["kind"]), text(&it["task_id"]))).collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect()
}

#[test]
fn a_night_is_told_in_one_look() {
    let trial = night();
    let report = trial.run(["report", "--json"]).json();
    let mut status = trial.run(["status", "--json"]).json();
    // How long the queued attempt waits grows.
    status["attempts"].clone_from(&report["attempts"]);
    assert_eq!(report, status);
    let kinds = ["checkout_waits readme", "question choice", "parked lexer", "blocked deploy"];
    let found = needs(&report).into_iter().map(|(kind, id)| format!("{kind} {id}"));
    assert_eq!(found.collect::<Vec<_>>(), kinds);
    let all = &report["attention"];
    assert_eq!(all[0]["detail"], json!(["README.md"]));
    let output = json!([
        "test 1 ok",
        "test 2 ok",
        "test 3 ok",
        "test lexer::empty FAILED",
        "key=[redacted]"
    ]);
    assert_eq!(all[2]["detail"], output);
    assert_eq!(all[1]["detail"], json!(["Postgres or SQLite?", "Both can carry the load."]));
    assert_eq!(all[1]["next"], "`ralph answer choice \"…\"`");
    assert_eq!((&all[1]["unblocks"], &all[2]["unblocks"]), (&json!(2), &json!(2)));
    let landed = &report["landed"];
    assert_eq!(names(landed), ["parser", "readme"]);
    let fields = ["title", "files", "insertions", "deletions", "attempts", "cost_usd"];
    let of = fields.map(|field| landed[0][field].clone());
    assert_eq!(json!(of), json!(["Parse the input", 1, 1, 0, 1, null]));
    assert_eq!(landed[0]["commits"][0]["subject"], "Work on parser");
    assert_eq!(names(&report["failed"]), ["lexer"]);
    assert_eq!(names(&report["upcoming"]), ["schema", "later"]);
    assert_eq!(report["upcoming"][0]["why"], "waiting on choice (needs input)");
    assert_eq!((&report["forecast"], &report["left"]["total"]), (&Value::Null, &json!(7)));

    // The commands work as they are.
    trial.run(["answer", "choice", "Postgres"]);
    trial.run(["task-reset", "lexer"]);
    trial.run(["task-reset", "deploy"]);
    let command = all[0]["next"].as_str().unwrap().split('`').nth(1).unwrap();
    let command = command.replace("[repo]", trial.root().to_str().unwrap());
    assert!(trial.process("sh").args(["-c", &command]).status().unwrap().success());
    trial.write("check.sh", "true\n");
    let after = trial.run(["report", "--json"]).json();
    assert!(needs(&after).iter().all(|(kind, _)| kind == "checkout_waits"), "{after:#}");
    assert_eq!(after["forecast"]["open"], 5);
    assert_eq!(after["upcoming"][0]["why"], Value::Null);
}

#[test]
fn the_screen_of_the_morning_fits_the_terminal() {
    // The path of the project, which is of no certain length, is only in the command for a landing.
    let trial = project("");
    trial.git(&["checkout", "--", "README.md"]);
    trial.run(["run", "-q"]).code(3);
    for columns in [100, 60] {
        let mut screen = on_terminal(&trial, columns, "status");
        let text = bare(&screen.exp_eof().unwrap()).replace('\r', "");
        assert_eq!(code(&screen), 0);
        for line in text.lines() {
            let width = ralph::adapters::terminal::columns(line);
            assert!(width <= columns as usize, "{width} of {columns}: {line}");
        }
        assert!(text.lines().count() < 30, "{text}");
        let text = trial.redact(&text);
        let (text, _) = text.split_once("\nRun: ").unwrap();
        if columns == 100 {
            insta::assert_snapshot!(text, @r#"
            Status: finished: everything left is blocked (exit code 3)
            2 completed in 4 attempts, [took]; 2 of 7 complete
            paid 4, needed 3: 1 red check
            needs you:
              - choice (Choose the database): needs input; 1 other waits on it
                  Postgres or SQLite?
                  Both can carry the load.
                  ralph answer choice "…"
              - lexer (Cut it into tokens): parked after 1 attempt: verify-failed: reported done, but sh
                check.sh exited with code 9 on top of main; 1 other waits on it
                  test 1 ok
                  test 2 ok
                  test 3 ok
                  test lexer::empty FAILED
                  key=[redacted]
                  ralph show lexer.1 shows it; ralph task-reset lexer --note "…"
              - deploy (Write it | for @octocat, see #12 <b>): blocked by a person
                  ralph task-reset deploy
            landed (2 to review: ralph review, ralph diff ID):
              + parser: Parse the input; 1 commit, 1 file, +1 -0, [took]
              + readme: Describe it; 1 commit, 1 file, +1 -0, [took]
            left: 5 (1 parked, 1 needs input, 1 blocked, 2 waiting)
            next: afterwards, ralph run continues
            "#);
        } else {
            insta::assert_snapshot!(text, @r#"
            Status: finished: everything left is blocked (exit code 3)
            2 completed in 4 attempts, [took]; 2 of 7 complete
            paid 4, needed 3: 1 red check
            needs you:
              - choice: needs input; 1 other waits on it
                  Postgres or SQLite?
                  Both can carry the load.
                  ralph answer choice "…"
              - lexer: parked after 1 attempt: verify-failed: reported
                done, but sh check.sh exited with code 9 on top of
                main; 1 other waits on it
                  test 1 ok
                  test 2 ok
                  test 3 ok
                  test lexer::empty FAILED
                  key=[redacted]
                  ralph show lexer.1 shows it; ralph task-reset lexer
                    --note "…"
              - deploy: blocked by a person
                  ralph task-reset deploy
            landed (2 to review: ralph review):
              + parser: Parse the input; +1 -0, [took]
              + readme: Describe it; +1 -0, [took]
            left: 5 (1 parked, 1 needs input, 1 blocked, 2 waiting)
            next: afterwards, ralph run continues
            "#);
        }
    }
}

#[test]
fn the_end_of_a_run_on_a_terminal_has_whole_reasons() {
    let verify = "test -f an-unusual-name-of-a-file -a -f another-unusual-name-of-a-file";
    let graph = format!("tasks: [{{id: a, verify: {}}}, {{id: b}}]\n", json!(verify));
    let trial = TestProject::new().graph(&graph);
    let run = format!("run --task a --max-iterations 1 -- {}", agent("commit"));
    let mut screen = on_terminal(&trial, 60, &run);
    let text = bare(&screen.exp_eof().unwrap()).replace('\r', "");
    let (_, end) = text.rsplit_once("limit reached").expect("the report is at the end");
    assert!(end.lines().all(|line| ralph::adapters::terminal::columns(line) <= 60), "{end}");
    let words = end.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = format!("verify-failed: reported done, but {verify} exited with code 1");
    assert!(words.contains(&why), "{end}");
}

#[test]
fn as_markdown_the_words_of_others_stay_what_they_are() {
    let trial = night();
    let text = trial.run(["report", "--markdown"]).out();
    let title = "- `deploy` (Write `it` &#124; for @&#8203;octocat, see &#35;12 &#60;b>): blocked by a person";
    assert!(text.contains(title), "{text}");
    for part in [
        "## Run ",
        "\n### Needs you\n",
        "\n### Landed\n",
        "\n- `parser`: Parse the input; 1 commit, 1 file, +1 -0, ",
        "\n      test lexer::empty FAILED\n",
        "\n  - `ralph show lexer.1` shows it; `ralph task-reset lexer --note \"…\"`\n",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(!text.contains("s3cr3t") && !text.contains('\u{1b}'), "{text}");
    trial.run(["report", "night.md"]).stderr_has("report written to `[repo]/night.md`");
    assert!(trial.read("night.md").contains(title));
    trial.run(["report", "night.json"]);
    let value: Value = serde_json::from_str(&trial.read("night.json")).unwrap();
    assert_eq!(names(&value["landed"]), ["parser", "readme"]);
    trial.run(["report", "night.pdf"]).code(64).stderr_has("no report has the format `pdf`");
    assert!(!trial.root().join("night.pdf").exists());
}

#[test]
fn the_end_of_a_run_and_its_notification_say_the_same() {
    let note = "notify: [{on: [finished], command: 'cat >> \"$TRIAL_DIR/told\"'}]\n";
    let trial = project(note);
    let said = trial.run(["run", "-q"]).code(3).err();
    let told = fs::read_to_string(trial.sign("told")).unwrap();
    let told: Value = serde_json::from_str(told.trim()).unwrap();
    let text = trial.redact(told["text"].as_str().unwrap());
    let lines = said.lines().filter_map(|line| line.strip_prefix("[time]  "));
    assert_eq!(lines.collect::<Vec<_>>(), text.lines().collect::<Vec<_>>());
    for part in [
        "2 completed in 4 attempts",
        "`ralph answer choice \"…\"`",
        "`ralph task-reset lexer --note \"…\"`",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn an_earlier_night_stays_as_it_was() {
    let trial = night();
    let then = trial.run(["report", "--json"]).json();
    trial.run(["answer", "choice", "Postgres"]);
    trial.run(["task-reset", "lexer"]);
    fs::remove_file(trial.root().join("README.md")).unwrap();
    trial.git(&["checkout", "--", "README.md"]);
    trial.run(["run", "-q"]).code(3);
    let report = trial.run(["report", "--run", "2", "--json"]).json();
    assert_eq!((&then["number"], &report["number"]), (&json!(1), &json!(2)));
    assert_eq!(names(&report["landed"]), ["parser", "readme"]);
    for field in ["run_id", "why", "exit_code", "spend", "landed", "failed", "duration_seconds"] {
        assert_eq!(report[field], then[field], "{field}");
    }
    let kinds = |report: &Value| -> Vec<String> {
        let mut kinds: Vec<String> = needs(report).into_iter().map(|(kind, _)| kind).collect();
        kinds.retain(|kind| kind != "blocked");
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&report), kinds(&then));
    assert!(report["attention"].as_array().unwrap().iter().all(|it| it["next"].is_null()));
    assert_eq!((&report["left"], &report["upcoming"]), (&Value::Null, &json!([])));
    assert!(report["unknown"][0].as_str().unwrap().contains("graph"), "{report}");
    let text = trial.run(["status", "--run", "2"]).stdout_has("Postgres or SQLite?").out();
    assert!(text.contains("\nnot known: "), "{text}");
    trial.run(["report", "--run", "9"]).code(64).stderr_has("no run 9; the journal has 2 runs");
}

#[test]
fn a_task_that_is_reset_has_landed_in_the_time_of_its_attempt() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.run(["run", "-q"]);
    let then = trial.run(["status", "--json"]).json();
    trial.run(["task-reset", "a"]);
    let now = trial.run(["status", "--json"]).json();
    assert!(now["landed"][0]["duration_seconds"].as_f64().unwrap() > 0.0, "{now}");
    assert_eq!(now["landed"], then["landed"]);
}

#[test]
fn a_task_that_an_edit_made_complete_is_told() {
    let graph = "tasks:\n  - {id: a}\n  - {id: b}\n  - {id: c}\n";
    let trial = TestProject::new().graph(graph);
    let agent = trial.dir().join("agent");
    let file = trial.root().join("task-graph.yaml");
    let text = format!(
        "cat > prompt; echo x > \"$RALPH_TASK_ID.txt\"; git add \"$RALPH_TASK_ID.txt\"\n\
         git commit -qm Work; [ \"$RALPH_TASK_ID\" = b ] || sed -i 's/id: [bc]/&, status: complete/' '{}'\n\
         touch \"$RALPH_TASK_DIR/DONE\"",
        file.display()
    );
    trial.script(&agent, &text);
    let whole = "not known: whether they are done: b, c; they were marked complete in the graph file \
                 during an attempt, and nothing verified it; `ralph task-reset b` opens a task again";
    trial.run(["run", "--", agent.to_str().unwrap()]).graph_complete().stderr_has(whole);
    trial.run(["status"]).stdout_has("whether they are done: b, c; ");
    // A person opens one of them, and an attempt does it.
    trial.run(["task-reset", "b"]).code(0);
    trial.run(["status"]).stdout_has("whether it is done: c; ");
    trial.run(["run", "-q", "--", agent.to_str().unwrap()]).graph_complete();
    assert_eq!(trial.run(["status", "--json"]).json()["unknown"], json!([]));
}

#[test]
fn every_earlier_run_can_be_asked_for() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}, {id: c}]\n").agent("commit");
    for code in [2, 2, 0] {
        trial.run(["run", "-q", "--max-iterations", "1"]).code(code);
    }
    for (number, task) in [("1", "c"), ("2", "b"), ("3", "a")] {
        for command in ["report", "status"] {
            let report = trial.run([command, "--run", number, "--json"]).json();
            assert_eq!(names(&report["landed"]), [task], "{command} --run {number}");
        }
    }
}

#[test]
fn a_run_with_nothing_to_do_does_not_hide_the_one_before() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.run(["run", "-q"]).graph_complete();
    let then = trial.run(["status", "--json"]).json();
    trial.run(["run", "-q"]);
    trial.run(["run", "-q"]);
    let now = trial.run(["status", "--json"]).json();
    assert_eq!((&now["runs"], &now["since"]), (&json!(3), &then["since"]));
    assert_eq!((names(&now["landed"]), &now["left"]), (vec!["a"], &then["left"]));
    trial.run(["status"]).stdout_has("Run 3: ").stdout_has("`ralph status --run 3`");
    let newest = trial.run(["status", "--run", "1", "--json"]).json();
    assert_eq!((&newest["iteration"], &newest["landed"]), (&json!(0), &json!([])));
}

#[test]
fn a_killed_run_says_what_it_did_until_then() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b, depends_on: [a]}]\n");
    let agent = trial.dir().join("agent");
    let gate = "[ $RALPH_TASK_ID = a ] || { touch \"$TRIAL_DIR/waiting\"; sleep 600; }\n\
                echo x > x; git add x; git commit -qm Work; \"$RALPH\" task-complete a";
    trial.script(&agent, gate);
    let trial = trial.command([agent.to_str().unwrap()]);
    trial.start_until(["run"], "waiting").kill();
    until("its guardian is gone", || trial.run(["status", "--json"]).json()["status"] == "crashed");
    let report = trial.run(["report", "--json"]).json();
    assert_eq!(names(&report["landed"]), ["a"]);
    assert_eq!((&report["attention"], &report["remaining"]), (&json!([]), &Value::Null));
    assert!(report["ended_at"].is_string() && report["duration_seconds"].is_number(), "{report:#}");
    assert_eq!(report["next"], json!(["`ralph run` continues"]));
    let text = trial.run(["status"]).out();
    assert!(text.starts_with("Status: crashed: ") && text.contains(", cut off"), "{text}");
    trial.no_process_is_left();
}

#[test]
fn a_night_without_work_is_not_green() {
    let trial = TestProject::new().graph("tasks: [{id: a, status: done}]\n").agent("fail");
    let mut screen = on_terminal(&trial, 100, "run -- true");
    let said = screen.exp_eof().unwrap();
    assert_eq!(code(&screen), 0);
    assert!(!said.contains("\u{1b}[32m") && bare(&said).contains("nothing done in 0"), "{said}");
    let mut screen = on_terminal(&trial, 100, "status");
    let said = screen.exp_eof().unwrap();
    assert!(!said.contains("\u{1b}[32m") && bare(&said).contains("nothing done in 0"), "{said}");
    let report = trial.run(["report", "--json"]).json();
    assert_eq!((&report["completed"], &report["landed"]), (&json!(0), &json!([])));
}

#[test]
fn a_graph_that_cannot_be_read_does_not_hide_the_night() {
    let trial = night();
    trial.save("task-graph.yaml", "tasks: [");
    let report = trial.run(["status", "--json"]).json();
    assert_eq!(names(&report["landed"]), ["parser", "readme"]);
    assert!(report["unknown"][0].as_str().unwrap().contains("`task-graph.yaml`"), "{report}");
    let kinds: Vec<String> = needs(&report).into_iter().map(|(kind, _)| kind).collect();
    assert!(kinds.contains(&"question".to_owned()), "{kinds:?}");
    trial.run(["status"]).stdout_has("`ralph check` says why");
}

#[test]
#[ignore = "slow"]
fn a_page_in_one_file_holds_a_night_of_fifty_tasks() {
    let tasks: String = (0..50)
        .map(|number| {
            let after = if number % 5 == 0 { String::new() } else { format!(", depends_on: [t{}]", number - 1) };
            format!(
                "  - {{id: t{number}, title: Do part {number} of the whole, story: part {}, description: \
                 'A paragraph about part {number} that says what is to be done and how it is \
                 checked.'{after}}}\n",
                number / 5
            )
        })
        .collect();
    let trial = TestProject::new()
        .graph(&format!("tasks:\n{tasks}  - {{id: left, title: '</script><script>alert(1)</script>', depends_on: [none]}}\n  - {{id: none, status: blocked}}\n"))
        .agent("commit");
    trial.run(["run", "--max-iterations", "60"]).code(3);
    trial.run(["report", "night.html"]);
    let page = trial.read("night.html");
    assert!(page.len() <= 300_000, "{} bytes", page.len());
    assert_eq!(page.matches("</script>").count(), 2, "data cannot end a script");
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let data = page[start..].split("</script>").next().unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    let data: serde_json::Value =
        serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).unwrap();
    for address in [
        "page",
        "now",
        "timeline",
        "graph",
        "costs?by=task",
        "tasks/t49",
        "attempts/t49.1",
        "attempts/t49.1/transcript",
        "journal",
    ] {
        assert!(data.get(address).is_some(), "{address} is missing");
    }
    assert_eq!(data["timeline"]["bars"].as_array().unwrap().len(), 50);
    let stdout = trial.run(["report", "--html"]).whole();
    assert!(stdout.contains("<!doctype html>"), "{}", &stdout[..200]);
}

#[test]
fn a_run_on_a_graph_that_a_person_broke_says_what_comes_first() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("told");
    std::fs::write(trial.sign("do-a"), "await open; work\n").unwrap();
    let run = trial.start_until(["run"], "waiting-a");
    trial.write("task-graph.yaml", "tasks: [");
    trial.leave("open");
    let said = run.end(&trial).code(65).whole();
    assert!(said.contains("next: `ralph check` names every error of the graph"), "{said}");
    assert!(said.contains("afterwards, `ralph run` continues"), "{said}");
}
