//! `ralph draft`: what agents write, right and wrong, and what becomes of it.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

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
    trial.run(["draft", "Check the types"]).code(4);
    is_untouched(&trial);
    assert_eq!((trial.graph_text(), trial.git(&["for-each-ref"])), (GRAPH.to_owned(), before));
    assert!(!trial.sign("ran").exists(), "a filter of the agent was run");
    let place = fs::read_to_string(trial.sign("place")).unwrap();
    assert!(place.ends_with("repo.slots/draft/repo.slots/loop-draft-1/repo\n"), "{place}");
}

#[test]
fn a_signal_ends_the_agent_and_keeps_what_it_wrote() {
    for (signal, number) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let trial = project().graph(GRAPH);
        let script =
            format!("{}touch \"$TRIAL_DIR/written\"; while :; do sleep 1; done\n", writes(GOOD));
        tell(&trial, "draft", &script);
        let live = trial.start_until(["draft", "Do it", "--yes"], "written");
        live.signal(signal);
        let ran = live.end(&trial).code(number);
        ran.stderr_has("the graph is unchanged").stderr_has("logs/draft/[run]/1");
        assert_eq!(trial.graph_text(), GRAPH);
        let record = &trial.lines("drafted")[0];
        assert_eq!(record["outcome"], "cancelled");
        let log = record["log"].as_str().unwrap();
        assert_eq!(trial.read(&format!("{log}/task-graph.yaml")), GOOD);
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
fn errors_of_the_agent_have_their_exit_codes() {
    let trial = project();
    trial.run(["draft", "Do it", "--", "no-such-agent"]).code(69).stderr_has("no-such-agent");
    assert!(!trial.root().join("logs/draft").exists());
    tell(&trial, "draft", "echo 'Error: 401 Unauthorized: invalid API key' >&2; exit 1\n");
    trial.run(["draft", "Do it"]).code(77).stderr_has("the graph is unchanged");
    tell(&trial, "draft", "echo 'out of luck' >&2; exit 3\n");
    trial.run(["draft", "Do it"]).code(1).stderr_has("exited with code 3");
    is_untouched(&trial);
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

#[test]
fn findings_go_back_once_and_a_valid_draft_is_taken_over() {
    let trial = project().graph(GRAPH).file("PRD.md", "# Types\nEvery sum is checked.\n");
    let whole = format!("{GRAPH}{}", GOOD.replace("tasks:\n", ""));
    tell(&trial, "draft-1", &writes(&whole.replace("[types]\n", "[typos]\n")));
    let script = "grep -c 'Every sum' \"${answer%/*}/spec.md\" > \"$TRIAL_DIR/seen\"; ".to_owned();
    tell(&trial, "draft-2", &(script + &writes(&whole)));
    let ran = trial.run(["draft", "PRD.md", "--yes"]);
    let ran = ran.stderr_has("goes back to the agent").stderr_has("unknown dependency `typos`");
    ran.stdout_has("+  - id: types").stderr_has("task-graph.yaml: 2 tasks added");
    assert_eq!(trial.graph_text(), whole);
    assert_eq!(fs::read_to_string(trial.sign("seen")).unwrap(), "1\n");
    assert!(!prompt(&trial, 1).contains("ralph check --strict"));
    assert!(prompt(&trial, 2).contains("did you mean `types`?"), "{}", prompt(&trial, 2));
    let calls = trial.lines("drafted");
    let tasks: Vec<_> = calls.iter().map(|call| call["tasks"].as_u64()).collect();
    assert_eq!(tasks, [None, Some(2)]);
    assert_eq!(trial.tasks("status_changed"), ["types", "report"]);
    let costs = trial.run(["costs", "--json"]).json();
    assert_eq!(costs["sums"][0]["name"], "ralph draft");
    trial.no_process_is_left();
}

#[test]
fn a_draft_that_is_never_valid_changes_nothing() {
    for script in [
        "echo \"tasks: [{id: a, depends_on: [b$number]}]\" > \"$answer\"\n",
        "echo 'I would rather not.'\n",
        "rm \"$answer\"; mkfifo \"$answer\"\n",
        "rm -rf \"$(dirname \"$answer\")\"; ln -s /dev \"$(dirname \"$answer\")\"\n",
    ] {
        let trial = project();
        tell(&trial, "draft", script);
        let ran = trial.run(["draft", "Do it all", "--yes"]).code(65);
        ran.stderr_has("no valid draft").stderr_has("logs/draft/[run]");
        assert_eq!(trial.lines("drafted").len(), 2);
        is_untouched(&trial);
    }
}

#[test]
fn without_a_terminal_a_draft_is_shown_and_not_taken_over() {
    let trial = project();
    tell(&trial, "draft", &writes(GOOD));
    let ran = trial.run(["draft", "Check the types"]).code(4);
    let said = ran.stdout_has("+  - id: report").err();
    assert!(said.contains("not taken over") && said.contains("cp logs/draft/"), "{said}");
    is_untouched(&trial);
    // Examples of `ralph init` are replaced.
    let trial = project();
    trial.write("TODO.md", "- [ ] all\n");
    trial.run(["init", "--yes"]);
    tell(&trial, "draft", &writes(GOOD));
    trial.run(["draft", "TODO.md", "--yes"]);
    assert_eq!(trial.graph_text(), GOOD);
}

#[test]
fn a_worse_second_draft_is_not_taken() {
    let trial = project();
    let vague = "tasks:\n  - {id: a, title: Make it good}\n";
    tell(&trial, "draft-1", &writes(vague));
    tell(&trial, "draft-2", "echo 'tasks: 3' > \"$answer\"\n");
    trial.run(["draft", "Do it", "--yes"]).stderr_has("no-check");
    assert_eq!(trial.graph_text(), vague);
}

#[test]
fn an_agent_that_hangs_is_ended_at_the_limit() {
    for (name, outcome) in [("RALPH_TIMEOUT", "timed_out"), ("RALPH_IDLE", "idle")] {
        let trial = project().env(name, "1s");
        let script = "trap '' TERM INT; setsid sleep 1000 & sleep 1000; sleep 1000\n";
        tell(&trial, "draft", script);
        trial.run(["draft", "Do it"]).code(2).stderr_has("the graph is unchanged");
        trial.assert_record("drafted", &json!({"outcome": outcome, "limit_seconds": 1}));
        is_untouched(&trial);
    }
}

#[test]
fn a_graph_that_changed_meanwhile_is_not_overwritten() {
    let trial = project().graph(GRAPH);
    let other = format!("{GRAPH}  - id: mine\n");
    fs::write(trial.sign("other.yaml"), &other).unwrap();
    let root = trial.root().display().to_string();
    let script = format!("cp \"$TRIAL_DIR/other.yaml\" '{root}/task-graph.yaml'\n{}", writes(GOOD));
    tell(&trial, "draft", &script);
    trial.run(["draft", "Do it", "--yes"]).code(1).stderr_has("changed while the agent worked");
    assert_eq!(trial.graph_text(), other);
}

#[test]
fn what_is_wanted_comes_from_a_file_a_pipe_or_words() {
    let trial = project();
    for (words, why) in [
        (&["draft"][..], "required"),
        (&["draft", "PDR.md"], "there is no file `PDR.md`"),
        (&["draft", " "], "there is no text"),
        (&["draft", "-"], "there is no text"),
        (&["draft", "--split", "a"], "`--split` is gone"),
    ] {
        trial.run(words).code(64).stderr_has(why);
    }
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn a_person_is_asked_on_a_terminal() {
    for (answer, want) in [("y", 0), ("n", 4), ("\u{3}", 130)] {
        let trial = project().env("GIT_PAGER", "cat");
        tell(&trial, "draft", &writes(GOOD));
        let mut terminal = on_terminal(&trial, 80, "draft 'Check the types of all sums'");
        let mut seen = terminal.exp_string("Take this over into task-graph.yaml?").unwrap();
        terminal.send(answer).unwrap();
        terminal.flush().unwrap();
        seen += &terminal.exp_eof().unwrap();
        assert_eq!(code(&terminal), want, "{seen}");
        assert!(bare(&seen).contains("id: types"), "{seen}");
        assert_eq!(trial.root().join("task-graph.yaml").exists(), want == 0, "{seen}");
    }
}

#[test]
fn the_prompt_can_be_replaced() {
    let trial = project();
    tell(&trial, "draft", &writes(GOOD));
    let own = "Own words.\nEdit this file, a task graph in YAML: {{ graph | code }}. Keep it.\n";
    trial.write("prompts/draft.md", own);
    trial.run(["draft", "Check the types"]).code(4);
    assert!(prompt(&trial, 1).starts_with("Own words.\n"));
    trial.write("prompts/draft.md", "{{ nothing }}\n");
    trial.run(["draft", "Check the types"]).code(65).stderr_has("prompts/draft.md");
    assert!(!trial.dir().join("repo.slots").exists());
}
