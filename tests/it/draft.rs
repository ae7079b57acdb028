//! `ralph draft`: what agents write, right and wrong, and what becomes of it.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    support::{TestProject, agent, wait_for},
    terminal::{bare, code, on_terminal},
};

const GRAPH: &str = "\
tasks:
  # The lexer.
  - id: lexer
    title: Write the lexer # soon
    status: done
  - id: parser
    title: Write the parser
    priority: high
    depends_on: [lexer]
  - id: docs
    title: Document the parser
    depends_on: [parser]
";

/// A draft without remarks.
const GOOD: &str = "\
tasks:
  - id: types
    title: Write the type checker in types.sh
    description: The function `check` of types.sh rejects a sum of a number and a text.
    verify: [sh -n types.sh]
    output: [types.sh]
  - id: report
    title: Print the errors of the type checker
    description: Each error has the line and the column in front, as in `3:14`.
    verify: [sh -n types.sh]
    depends_on: [types]
";

/// A repository whose agent drafts.
fn project() -> TestProject {
    let settings = "grace: 200ms\nterm_grace: 200ms\nexit_grace: 1s\nagent: [\"AGENT\"]\n"
        .replace("AGENT", &agent("draft"));
    TestProject::new().file(".ralph/config.yaml", &settings)
}

/// Sets the script of a call, `draft-1`, or of all, `draft`.
fn tell(trial: &TestProject, call: &str, script: &str) {
    fs::write(trial.sign(call), script).unwrap();
}

/// A script that writes this draft.
fn writes(draft: &str) -> String {
    format!("cat > \"$answer\" <<'END'\n{draft}END\n")
}

/// What a repository must be like when nothing was kept: no graph change, no slot, no process.
#[track_caller]
fn is_untouched(trial: &TestProject) {
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    assert_eq!(trial.git(&["for-each-ref", "refs/ralph"]), "");
    assert!(!trial.dir().join("repo.slots").exists(), "the slot is left");
    trial.no_process_is_left();
}

fn prompt(trial: &TestProject, call: u32) -> String {
    fs::read_to_string(trial.sign(&format!("prompt-{call}"))).unwrap()
}

#[test]
fn an_agent_that_errs_twice_is_told_its_errors() {
    let trial = project().file("PRD.md", "# Types\nEvery sum is checked.\n");
    tell(&trial, "draft-1", &writes("tasks:\n- id: [\n"));
    let unknown = GOOD.replace("[types]\n", "[typos]\n");
    tell(&trial, "draft-2", &writes(&unknown));
    tell(&trial, "draft-3", &writes(GOOD));
    let ran = trial.run(["draft", "PRD.md", "--yes"]);
    let ran = ran.stderr_has("2 tasks, 0 remarks; 3 calls in ");
    let ran = ran.stderr_has("goes back to the agent: draft.yaml:2");
    let ran = ran.stderr_has("unknown dependency `typos`");
    ran.stdout_has("types").stderr_has("kept 2 tasks in task-graph.yaml");
    assert_eq!(trial.graph_text(), GOOD);
    let first = prompt(&trial, 1);
    assert!(first.contains("Every sum is checked.") && first.contains("PRD.md\n"), "{first}");
    assert!(!first.contains("Your last draft"));
    let second = prompt(&trial, 2);
    assert!(second.contains("- id: [") && second.contains("draft.yaml:2"), "{second}");
    let third = prompt(&trial, 3);
    assert!(third.contains("unknown dependency") || third.contains("`typos`"), "{third}");
    assert!(third.contains("did you mean `types`?"), "{third}");
    let calls = trial.lines("drafted");
    let tasks: Vec<&Value> = calls.iter().map(|call| &call["tasks"]).collect();
    assert_eq!(tasks, [&Value::Null, &Value::Null, &json!(2)]);
    assert_eq!(trial.tasks("status_changed"), ["types", "report"]);
    let costs = trial.run(["costs", "--json"]).json();
    assert_eq!(
        (&costs["total"]["attempts"], &costs["sums"][0]["name"]),
        (&json!(3), &json!("ralph draft"))
    );
    assert!(!trial.dir().join("repo.slots").exists());
    trial.no_process_is_left();
}

#[test]
fn a_draft_in_the_last_message_counts() {
    let trial = project();
    let said = format!("echo 'Here it is:'; cat <<'END'\n```yaml\n{GOOD}```\nDone.\nEND\n");
    tell(&trial, "draft", &said);
    trial.run(["draft", "Check the types of all sums", "--yes"]);
    assert_eq!(trial.graph_text(), GOOD);
    // The same from an agent with events.
    let trial = project();
    let text = serde_json::to_string(&format!("```yaml\n{GOOD}```\n")).unwrap();
    let event = format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.25,"result":{text}}}"#
    );
    tell(&trial, "draft", &format!("cat <<'END'\n{event}\nEND\n"));
    let call = format!(
        "agent: {{command: [\"{}\"], output: claude-json, name: scribe}}\n",
        agent("draft")
    );
    trial.write(".ralph/config.yaml", &format!("{call}"));
    trial.run(["draft", "Check the types", "--yes"]).stderr_has("cost $0.25");
    assert_eq!(trial.graph_text(), GOOD);
    trial.assert_record("drafted", &json!({"agent": "scribe", "cost_usd": 0.25, "tasks": 2}));
}

#[test]
fn a_draft_that_is_never_valid_changes_nothing() {
    let trial = project();
    tell(&trial, "draft", "echo \"tasks: [{id: a, depends_on: [b$number]}]\" > \"$answer\"\n");
    let ran = trial.run(["draft", "Do it all"]).code(65);
    let ran = ran.stderr_has("draft 3 of 3 is still not a valid graph");
    ran.stderr_has("`b3`").stderr_has("logs/draft/[run]");
    assert_eq!(trial.lines("drafted").len(), 3);
    is_untouched(&trial);
    // Without any draft.
    let trial = project();
    tell(&trial, "draft", "echo 'I would rather not.'\n");
    trial.run(["draft", "Do it all"]).code(65).stderr_has("no fenced block");
    is_untouched(&trial);
}

#[test]
fn without_a_terminal_a_draft_is_printed_and_can_be_kept_later() {
    let trial = project().graph(GRAPH);
    tell(&trial, "draft", &writes(GOOD));
    let ran = trial.run(["draft", "--extend", "Check the types"]).code(4);
    let said = ran.stderr_has("not kept").stdout_has("report").err();
    is_untouched(&trial);
    assert_eq!(trial.graph_text(), GRAPH);
    assert!(said.contains("ralph draft --extend --keep logs/draft/[run]/1/draft.yaml"), "{said}");
    let runs = fs::read_dir(trial.root().join("logs/draft")).unwrap();
    let path = runs.last().unwrap().unwrap().path().join("1/draft.yaml");
    trial.run(["draft", "--extend", "--keep", path.to_str().unwrap()]);
    let text = trial.graph_text();
    assert!(text.starts_with(GRAPH) && text.contains("  - id: types\n"), "{text}");
    assert!(text.contains("    depends_on: [types]\n"), "{text}");
    assert_eq!(trial.lines("drafted").len(), 1, "no agent was called");
    // A second time, its ids are taken.
    let again = trial.run(["draft", "--extend", "--keep", path.to_str().unwrap()]).code(65);
    again.stderr_has("already has a task `types`");
}

#[test]
fn a_graph_with_tasks_is_not_replaced() {
    let trial = project().graph(GRAPH);
    let ran = trial.run(["draft", "Do it"]).code(64);
    ran.stderr_has("`--extend` adds to them").stderr_has("`--graph FILE`");
    tell(&trial, "draft", &writes(GOOD));
    trial.run(["--graph", "other.yaml", "draft", "Do it", "--yes"]);
    assert_eq!((trial.read("other.yaml"), trial.graph_text()), (GOOD.to_owned(), GRAPH.to_owned()));
    // Neither are the examples of `ralph init` a graph that anyone wants to extend.
    let trial = project();
    trial.write("TODO.md", "- [ ] all\n");
    trial.run(["init", "--yes"]);
    tell(&trial, "draft", &writes(GOOD));
    trial.run(["draft", "TODO.md", "--yes"]);
    assert_eq!(trial.graph_text(), GOOD);
}

#[test]
fn a_task_is_split_in_place() {
    let trial = project().graph(GRAPH);
    tell(&trial, "draft", &writes(GOOD));
    trial.run(["draft", "--split", "parser", "--yes"]);
    let shown = prompt(&trial, 1);
    assert!(
        shown.contains("id: parser\n    title: Write the parser")
            && shown.contains("lexer (complete)"),
        "{shown}"
    );
    assert!(!shown.contains("parser (pending)"));
    let graph = trial.run(["graph", "--format", "json"]).json();
    let edges: Vec<String> = graph["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| format!("{} -> {}", edge["from"], edge["to"]).replace('"', ""))
        .collect();
    assert_eq!(edges, ["lexer -> types", "types -> report", "report -> docs"]);
    let text = trial.graph_text();
    assert!(
        text.contains("# The lexer.") && text.contains("# soon") && !text.contains("id: parser")
    );
    assert_eq!(text.matches("priority: high").count(), 2, "{text}");
    let found = trial.lines("status_changed");
    assert!(found.iter().any(|line| line["task_id"] == "parser" && line["new"] == Value::Null));
    trial.save("task-graph.yaml", GRAPH);
    trial.run(["draft", "--split", "lexer"]).code(64).stderr_has("only an open task");
    trial.run(["draft", "--split", "parsr"]).code(1).stderr_has("did you mean `parser`?");
}

#[test]
fn what_an_agent_does_in_its_slot_reaches_nothing() {
    let trial = project().graph(GRAPH);
    let script = format!(
        "echo x > PRD.md; mkdir -p src; echo y > src/new; echo 'tasks: []' > task-graph.yaml\n\
         git add --all; git commit -qm Mine; git branch stray; git tag odd\n\
         git config filter.x.clean 'touch \"{0}\"; cat'; echo '* filter=x' > .gitattributes\n\
         mkfifo fifo; ln -s /dev/zero zero; chmod 500 src\n\
         \"$RALPH\" task-add Sneaky > /dev/null 2>&1 || true\n\
         setsid sleep 1000 & {1}",
        trial.sign("ran").display(),
        writes(GOOD)
    );
    tell(&trial, "draft", &script);
    let before = trial.git(&["for-each-ref"]);
    trial.run(["draft", "--extend", "Check the types"]).code(4);
    is_untouched(&trial);
    assert_eq!((trial.graph_text(), trial.git(&["for-each-ref"])), (GRAPH.to_owned(), before));
    assert!(!trial.sign("ran").exists(), "a filter of the agent was run");
    let place = fs::read_to_string(trial.sign("place")).unwrap();
    assert!(place.ends_with("repo.slots/draft.slots/loop-draft-1\n"), "{place}");
}

#[test]
fn a_link_or_a_fifo_in_place_of_the_draft_is_no_draft() {
    let trial = project();
    tell(&trial, "draft-1", "mkfifo \"$answer\"\n");
    tell(&trial, "draft-2", "ln -s \"$TRIAL_DIR/good.yaml\" \"$answer\"\n");
    tell(
        &trial,
        "draft-3",
        "rm -rf \"$(dirname \"$answer\")\"; ln -s /dev \"$(dirname \"$answer\")\"\n",
    );
    fs::write(trial.sign("good.yaml"), GOOD).unwrap();
    trial.run(["draft", "Do it"]).code(65);
    is_untouched(&trial);
}

#[test]
fn an_agent_that_hangs_is_ended_at_the_limit() {
    let trial = project();
    tell(
        &trial,
        "draft",
        &format!(
            "{}trap '' TERM INT; setsid sleep 1000 & while :; do sleep 1; done\n",
            writes(GOOD)
        ),
    );
    let ran = trial.run(["draft", "Do it", "--timeout", "1s"]).code(2);
    ran.stderr_has("at its limit of [took]").stderr_has("logs/draft/[run]/1");
    trial.assert_record("drafted", &json!({"outcome": "timed_out", "limit_seconds": 1}));
    is_untouched(&trial);
}

#[test]
fn an_idle_agent_is_ended() {
    let trial = project().env("RALPH_IDLE", "1s");
    tell(&trial, "draft", "sleep 1000\n");
    trial.run(["draft", "Do it"]).code(2).stderr_has("after [took] without activity");
    trial.assert_record("drafted", &json!({"outcome": "idle", "limit_seconds": 1}));
    is_untouched(&trial);
}

#[test]
fn a_signal_ends_the_agent_and_keeps_what_it_wrote() {
    for (signal, number) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let trial = project().graph(GRAPH);
        let script =
            format!("{}touch \"$TRIAL_DIR/written\"; while :; do sleep 1; done\n", writes(GOOD));
        tell(&trial, "draft", &script);
        let live = trial.start_until(["draft", "--extend", "Do it", "--yes"], "written");
        live.signal(signal);
        let ran = live.end(&trial).code(number);
        ran.stderr_has("the graph is unchanged").stderr_has("logs/draft/[run]/1");
        assert_eq!(trial.graph_text(), GRAPH);
        let record = &trial.lines("drafted")[0];
        assert_eq!(record["outcome"], "cancelled");
        let log = record["log"].as_str().unwrap();
        assert_eq!(trial.read(&format!("{log}/draft.yaml")), GOOD);
        is_untouched(&trial);
    }
}

#[test]
fn a_killed_draft_leaves_nothing_running_and_the_next_one_works() {
    let trial = project();
    tell(
        &trial,
        "draft-1",
        "mkdir junk; touch \"$TRIAL_DIR/here\"; setsid sleep 1000 & sleep 1000\n",
    );
    tell(&trial, "draft-2", &writes(GOOD));
    let live = trial.start(["draft", "Do it", "--yes"]);
    wait_for(&trial.sign("here"));
    trial.run(["draft", "Do it"]).code(5).stderr_has("another `ralph draft` is running");
    live.kill();
    trial.no_process_is_left();
    trial.run(["draft", "Do it", "--yes"]);
    assert_eq!(trial.graph_text(), GOOD);
    assert!(!trial.dir().join("repo.slots").exists());
}

#[test]
fn remarks_are_sent_back_once_and_shown() {
    let trial = project();
    let vague = "tasks:\n  - {id: a, title: Make it good}\n";
    tell(&trial, "draft", &writes(vague));
    let ran = trial.run(["draft", "Do it", "--yes"]).stderr_has("no-check");
    ran.stderr_has("1 task, 2 remarks; 2 calls");
    assert!(prompt(&trial, 2).contains("(no-check)"));
    assert_eq!(trial.graph_text(), vague);
    // A draft that became worse is not taken.
    let trial = project();
    tell(&trial, "draft-1", &writes(vague));
    tell(&trial, "draft-2", "echo 'tasks: 3' > \"$answer\"\n");
    trial.run(["draft", "Do it", "--yes"]);
    assert_eq!(trial.graph_text(), vague);
}

#[test]
fn a_cost_limit_ends_the_calls() {
    let event = r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":1.5,"result":"no"}"#;
    let trial = project();
    let call = format!("agent: {{command: [\"{}\"], output: claude-json}}\n", agent("draft"));
    trial.write(".ralph/config.yaml", &format!("{call}"));
    tell(&trial, "draft", &format!("echo '{event}'\n"));
    let ran = trial.run(["draft", "Do it", "--max-cost", "2"]).code(2);
    ran.stderr_has("$2.00 per run ($3.00 spent)");
    assert_eq!(trial.lines("drafted").len(), 2);
    // The limit of a day counts earlier drafts.
    let trial = trial.env("RALPH_MAX_COST_PER_DAY", "3");
    trial.run(["draft", "Do it"]).code(2).stderr_has("$3.00 in 24 hours");
    assert_eq!(trial.lines("drafted").len(), 2);
}

#[test]
fn a_graph_that_changed_meanwhile_is_not_overwritten() {
    let trial = project().graph(GRAPH);
    let other = format!("{GRAPH}  - id: types\n");
    fs::write(trial.sign("other.yaml"), &other).unwrap();
    let script = format!(
        "cp \"$TRIAL_DIR/other.yaml\" '{}/task-graph.yaml'\n{}",
        trial.root().display(),
        writes(GOOD)
    );
    tell(&trial, "draft", &script);
    let ran = trial.run(["draft", "--extend", "Do it", "--yes"]).code(65);
    ran.stderr_has("already has a task `types`").stderr_has("--extend --keep logs/draft/[run]/1");
    assert_eq!(trial.graph_text(), other);
    // What does not clash is kept.
    let other = format!("{GRAPH}  - id: mine\n");
    trial.write("task-graph.yaml", GRAPH);
    fs::write(trial.sign("other.yaml"), &other).unwrap();
    trial.run(["draft", "--extend", "Do it", "--yes"]);
    assert!(trial.graph_text().starts_with(&other) && trial.graph_text().contains("id: report"));
}

#[test]
fn errors_of_the_agent_have_their_exit_codes() {
    let trial = project();
    trial.run(["draft", "Do it", "--", "no-such-agent"]).code(69).stderr_has("no-such-agent");
    assert!(!trial.root().join("logs/draft").exists());
    tell(&trial, "draft", "echo 'Error: 401 Unauthorized: invalid API key' >&2; exit 1\n");
    trial.run(["draft", "Do it"]).code(77).stderr_has("the graph is unchanged");
    tell(&trial, "draft", "echo 'out of luck' >&2; exit 3\n");
    trial.run(["draft", "Do it"]).code(1).stderr_has("exited with code 3: out of luck");
    is_untouched(&trial);
}

#[test]
fn what_is_wanted_comes_from_a_file_a_pipe_or_words() {
    let trial = project();
    for (words, why) in [
        (&["draft"][..], "required"),
        (&["draft", "PDR.md"], "there is no file `PDR.md`"),
        (&["draft", " "], "there is no text"),
        (&["draft", "."], "cannot read `.`"),
        (&["draft", "-"], "there is no text"),
        (&["draft", "--extend", "--split", "a"], "cannot be used with"),
    ] {
        trial.run(words).code(64).stderr_has(why);
    }
    assert!(!trial.root().join("logs").exists());
    // A megabyte does not fit the prompt: the agent reads the file in its slot.
    let big =
        format!("The first line.\n{}The last line.\n", "Every sum is checked.\n".repeat(50_000));
    trial.write("big.md", &big);
    tell(
        &trial,
        "draft",
        &format!(
            "grep -c 'The last line' \"${{answer%/*}}/spec.md\" > \"$TRIAL_DIR/seen\"; {}",
            writes(GOOD)
        ),
    );
    trial.run(["draft", "big.md"]).code(4);
    let shown = prompt(&trial, 1);
    assert!(shown.len() < 60_000 && shown.contains("The first line."), "{}", shown.len());
    assert!(shown.contains("/spec.md") && !shown.contains("The last line."));
    assert_eq!(fs::read_to_string(trial.sign("seen")).unwrap(), "1\n");
}

#[test]
fn a_person_is_asked_on_a_terminal() {
    for (columns, answer, kept) in [(60, "y", true), (100, "n", false), (60, "\u{3}", false)] {
        let trial = project();
        tell(&trial, "draft", &writes(GOOD));
        let mut terminal = on_terminal(&trial, columns, "draft 'Check the types of all sums'");
        let mut seen = terminal.exp_string("Keep 2 tasks in task-graph.yaml?").unwrap();
        terminal.send(answer).unwrap();
        terminal.flush().unwrap();
        seen += &terminal.exp_eof().unwrap();
        let expected = if kept {
            0
        } else if answer == "n" {
            4
        } else {
            130
        };
        assert_eq!(code(&terminal), expected, "{seen}");
        let seen = bare(&seen);
        assert!(seen.contains("types") && seen.contains("cost unknown"), "{seen}");
        assert_eq!(trial.root().join("task-graph.yaml").exists(), kept, "{seen}");
        assert_eq!(seen.contains("--keep logs/draft/"), !kept, "{seen}");
    }
}

#[test]
fn the_prompt_can_be_replaced() {
    let trial = project();
    tell(&trial, "draft", &writes(GOOD));
    trial.run(["template", "draft"]).stdout_has("Write this file, in YAML: {{ answer | code }}.");
    let own = "Own words: {{ spec.text }}\nWrite this file, in YAML: {{ answer | code }}. If so.\n";
    trial.write("prompts/draft.md", own);
    trial.run(["draft", "Check the types"]).code(4);
    assert!(prompt(&trial, 1).starts_with("Own words: Check the types\n"));
    trial.write("prompts/draft.md", "{{ nothing }}\n");
    trial.run(["draft", "Check the types"]).code(65).stderr_has("prompts/draft.md");
    assert!(!trial.dir().join("repo.slots").exists());
}

#[test]
fn a_repository_without_a_commit_cannot_be_copied() {
    let trial = TestProject::bare();
    trial.git(&["init", "--quiet"]);
    trial.write("PRD.md", "All of it.\n");
    let agent = agent("draft");
    trial.run(["draft", "PRD.md", "--", &agent]).code(1).stderr_has("make the first commit");
}

#[test]
fn what_runs_and_is_read_is_shown_before_it_is_kept() {
    let trial = project();
    let draft = "tasks:\n  - id: types\n    title: Write the type checker in types.sh\n    \
                 description: It must print each error.\n    path: secrets.txt\n    verify:\n      \
                 - sh -n types.sh\n      - |\n        echo one\n        echo \"\\e[2K\"\n";
    tell(&trial, "draft", &writes(draft));
    let said = trial.run(["draft", "Check the types"]).code(4).err();
    assert!(said.contains("  types: sh -n types.sh\n  types: echo one\n      echo "), "{said}");
    assert!(said.contains("\n  types: secrets.txt\n"), "{said}");
}

#[test]
fn hints_name_the_graph_file_that_was_given() {
    let trial = project();
    tell(&trial, "draft", &writes(GOOD));
    let said = trial.run(["--graph", "my graph.yaml", "draft", "Check the types"]).code(4).err();
    let hint = "ralph --graph 'my graph.yaml' draft --keep logs/draft/";
    assert!(said.contains(hint), "{said}");
    let ran = trial.run(["--graph", "my graph.yaml", "draft", "Check the types", "--yes"]);
    ran.stderr_has("`ralph --graph 'my graph.yaml' run`");
}

#[test]
fn the_next_agent_drafts_where_one_is_refused() {
    let trial = project();
    let agents = format!(
        "agent:\n  - {{command: [\"{0}\"], name: one}}\n  - {{command: [\"{0}\"], name: two}}\n",
        agent("draft")
    );
    trial.write(".ralph/config.yaml", &format!("{agents}"));
    tell(&trial, "draft-1", "echo 'Error: 401 Unauthorized: invalid API key' >&2; exit 1\n");
    tell(&trial, "draft-2", &writes(GOOD));
    let ran = trial.run(["draft", "Check the types", "--yes"]);
    ran.stderr_has("calling `two` instead");
    assert_eq!(trial.graph_text(), GOOD);
    let calls = trial.lines("drafted");
    let seen: Vec<(&Value, &Value)> =
        calls.iter().map(|call| (&call["agent"], &call["tasks"])).collect();
    assert_eq!(seen, [(&json!("one"), &Value::Null), (&json!("two"), &json!(2))]);
    // What an agent does wrong by itself is its own fault.
    let trial = project();
    trial.write(".ralph/config.yaml", &format!("{agents}"));
    tell(&trial, "draft", "exit 3\n");
    trial.run(["draft", "Check the types"]).code(1);
    assert_eq!(trial.lines("drafted").len(), 1);
}

#[test]
fn the_slot_of_a_draft_is_set_up() {
    let project = |setup: &str| {
        let agent = agent("draft");
        let settings = format!("agent: [\"{agent}\"]\nsetup: [{setup}]\n");
        TestProject::new().file(".ralph/config.yaml", &settings)
    };
    let trial = project("echo ready > made");
    let script = format!("cat made > \"$TRIAL_DIR/seen\"\n{}", writes(GOOD));
    tell(&trial, "draft", &script);
    trial.run(["draft", "Check the types", "--yes"]);
    assert_eq!(fs::read_to_string(trial.sign("seen")).unwrap(), "ready\n");
    assert!(!trial.dir().join("repo.slots").exists());
    trial.no_process_is_left();
    // As in a run, no agent works in a slot that is not set up.
    let trial = project("echo no >&2; exit 7");
    trial.run(["draft", "Check the types"]).code(69).stderr_has("setup failed");
    is_untouched(&trial);
}

#[test]
fn a_signal_ends_the_setup_of_a_draft() {
    let settings = format!(
        "grace: 200ms\nagent: [\"{}\"]\nsetup: [\"trap '' INT TERM; touch \\\"$TRIAL_DIR/setup\\\"; \
         setsid sleep 1000 & while :; do sleep 1; done\"]\n",
        agent("draft")
    );
    let trial = TestProject::new().file(".ralph/config.yaml", &settings);
    let live = trial.start_until(["draft", "Do it", "--yes"], "setup");
    live.signal(Signal::INT);
    live.end(&trial).code(130).stderr_has("the graph is unchanged");
    is_untouched(&trial);
}
