//! The shapes of what `--json` prints: `docs/json.md` lists every field and its kind, and `ralph
//! schema views` prints the schema of most of it.
//!
//! `RALPH_WRITE=1 cargo test --test it json` rewrites the page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use crate::support::{DIAMOND, RALPH, SETTINGS, TestProject, agent, is_page, until};

const TOP: &str = "\
# What `--json` prints

Every field with its kind. `[]` stands for each item of a list, `null` for what may be missing.
Within a version (`schema`), fields are added and never renamed. `ralph schema views` prints the
JSON Schema of the commands whose output has a version. Made by `RALPH_WRITE=1 cargo test --test it
json`; [journal.md](journal.md) describes journal lines.
";

/// The commands, what each shows, and whether it works before the first run.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["dag-status", "--json"], "The state of every task."),
    (
        &["graph", "--format", "json"],
        "The tasks and dependencies of the graph, as a picture shows them.",
    ),
    (
        &["graph", "--format", "json", "--fold", "chains"],
        "The same, with the boxes and lines of the image and where they are.",
    ),
    (&["status", "--json"], "The state of the newest run."),
    (&["report", "--json"], "The report of the newest run; the same as `ralph status --json`."),
    (&["slots", "--json"], "The slots of attempts, and whether each can be removed."),
    (&["ls", "--json"], "The run and the loops of this repository."),
    (&["plan", "--json", "--jobs", "2"], "The forecast of a run in which every attempt succeeds."),
    (&["check", "--json"], "The errors and warnings of the graph file."),
    (&["doctor", "--json"], "The checks and their findings."),
    (&["attempts", "--json"], "All attempts."),
    (&["show", "start", "--json"], "One attempt."),
    (&["costs", "--json"], "The cost and tokens of attempts."),
    (
        &["config", "timeout", "--json"],
        "One setting, or a mapping of all settings if no name is given.",
    ),
    (&["prompt", "left", "--json"], "The variables of a template."),
    (&["task-show", "start", "--json"], "A task with its place in the graph and its attempts."),
    (
        &["task-edit", "start", "--set", "notes=x", "--json"],
        "The task; `task-add` and `task-move` print the same.",
    ),
    (
        &["import", "plan.md", "--json"],
        "What came and what was lost; with `--refresh` also what changed. `outcome` is `taken`, \
         `changed-in-graph`, `kept-complete` or `no-place`.",
    ),
    (&["export", "--to", "csv", "new.csv", "--json"], "What was written and what was lost."),
    (&["undo", "--list", "--json"], "The changes of the graph that were kept, the newest first."),
];

/// The graph of a run that goes on. One of its tasks waits in vain.
fn busy_graph() -> String {
    format!("{DIAMOND}  - {{id: held, status: blocked}}\n  - {{id: late, depends_on: [held]}}\n")
}

fn shape(value: &Value, path: &str, found: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(items) => {
            for item in items {
                shape(item, &format!("{path}[]"), found);
            }
            if !items.is_empty() {
                return;
            }
            "list"
        }
        Value::Object(entries) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (key, it) in entries {
                shape(it, &format!("{path}{dot}{key}"), found);
            }
            if !entries.is_empty() {
                return;
            }
            "mapping"
        }
    };
    found.entry(path.to_owned()).or_default().insert(kind);
}

/// Plans to import.
fn write_plans(trial: &TestProject) {
    trial.write("plan.md", "# Plan\n\n- [ ] Cut it\n- [ ] Sew it (depends on: Cut it, the wind)\n");
    trial.write("plans/plan.md", "- [ ] Fly\n");
    trial.write("plans/README.md", "Read me.\n");
}

/// Takes the other shapes of `import` and `export`.
fn take_more_of_backlogs(
    trial: &TestProject,
    command: &str,
    take: &mut impl FnMut(&TestProject, &[&str]),
) {
    if command == "import" {
        trial.write("plan.md", "# Plan\n\n- [ ] Cut it out\n");
        take(trial, &["import", "plan.md", "--refresh", "--json"]);
        take(trial, &["import", "plans", "--dry-run", "--json"]);
    } else {
        take(trial, &["export", "--to", "markdown", "plan.md", "--json"]);
    }
}

#[test]
fn the_page_of_shapes_is_what_is_printed() {
    // One task is done, one failed, one asks, one waits.
    let trial = TestProject::new()
        .graph(DIAMOND)
        .file("other.yaml", "tasks: [{id: a, status: dnoe, depends_on: [b]}]\n")
        .command(["sh", "-c", "\"$0\" && echo Done.", &agent("commit")]);
    trial.run(["run", "-q", "--once"]);
    let trial = trial.agent("fail");
    trial.run(["run", "-q", "--once"]).code(1);
    let trial =
        trial.command(["sh", "-c", "cat > /dev/null; \"$RALPH\" ask 'Which one?'; exit 42"]);
    trial.run(["run", "-q", "--once", "--task", "left"]).code(1);
    let prompt = "PROMPT.md";
    trial.write(prompt, "Go on.\n");
    let words = ["loop", "-q", "--prompt-file", prompt, "--max-iterations", "1", "--"];
    let looped = trial.process(RALPH).args(words).arg(agent("empty")).output();
    assert!(looped.is_ok());
    until("nothing backs off", || {
        let output = trial.process(RALPH).args(["dag-status", "--json"]).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["backing_off"].as_array().unwrap().is_empty()
    });
    write_plans(&trial);
    let schedule = trial.start(["schedule", "--cron", "@yearly", "--time-zone", "UTC"]);
    until("it waits", || schedule.said().contains("next wake "));
    let busy = TestProject::new()
        .graph(&busy_graph())
        .file(".ralph/config.yaml", &format!("{SETTINGS}jobs: 2\n"))
        .agent("gate");
    let run = busy.start_until(["run"], "waiting-start");
    let mut page = TOP.to_owned();
    let schema = trial.run(["schema", "views"]).json();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("views.json", schema.clone()).unwrap();
    let index = compiler.compile("views.json", &mut schemas).unwrap();
    let mut validated = BTreeSet::new();
    for (words, about) in COMMANDS {
        let mut shapes = BTreeMap::new();
        let mut take = |trial: &TestProject, words: &[&str]| {
            let output = trial.process(RALPH).args(words).output().unwrap();
            let value: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"));
            assert!(output.stdout.ends_with(b"\n"), "{words:?}");
            shape(&value, "", &mut shapes);
            let command = words[0].to_owned();
            if schema["properties"].get(&command).is_some() {
                let printed = json!({ &command: value });
                let valid = schemas.validate(&printed, index);
                valid.unwrap_or_else(|error| panic!("{words:?}: {error:#}"));
                validated.insert(command);
            }
        };
        take(&trial, words);
        match words[0] {
            "check" => take(&trial, &["check", "other.yaml", "--json"]),
            "status" | "report" => {
                take(&trial, &[words[0], "--json", "--name", "loop"]);
                // The run that completed a task, and the one that failed.
                take(&trial, &[words[0], "--json", "--run", "3"]);
                take(&trial, &[words[0], "--json", "--run", "2"]);
                take(&busy, words);
            }
            "import" | "export" => take_more_of_backlogs(&trial, words[0], &mut take),
            "dag-status" | "slots" => take(&busy, words),
            _ => {}
        }
        let name = words.iter().take_while(|word| **word != "--jobs").copied();
        let name = name.collect::<Vec<_>>().join(" ");
        let name = name.replace(" start", " ID").replace(" left", " ID").replace("timeout", "KEY");
        let name = name.replace("plan.md", "FILE").replace("new.csv", "FILE");
        let _ = write!(page, "\n## `ralph {name}`\n{about}\n\n| field | kind |\n|---|---|\n");
        for (path, kinds) in shapes {
            let kinds: Vec<&str> = kinds.into_iter().collect();
            let path = if path.is_empty() { "the whole" } else { &format!("`{path}`") };
            let _ = writeln!(page, "| {path} | {} |", kinds.join(" or "));
        }
    }
    schedule.kill();
    run.kill();
    let known: BTreeSet<String> =
        schema["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(validated, known, "the commands with a schema");
    is_page("docs/json.md", &page);
}
