//! `ralph loop`: an agent runs on a prompt file repeatedly, until something ends the loop.

use std::{fs, path::PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Live, SETTINGS, TestProject, until, wait_for};

/// The arguments of a loop without delays.
const FAST: [&str; 7] =
    ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "9", "--restart-delay", "0"];

/// The arguments of a loop without delays, and more.
fn fast<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&FAST, more].concat()
}

/// A repository with a prompt, and an agent that reads the prompt and runs this script.
fn trial(script: &str) -> TestProject {
    let script = format!("prompt=$(cat); n=$RALPH_ATTEMPT; {script}");
    TestProject::new().file("PROMPT.md", "Do task A\n").command(["sh", "-c", &script])
}

/// The records of a loop's journal with this action.
fn lines(trial: &TestProject, name: &str, action: &str) -> Vec<Value> {
    let text = trial.read(&format!("logs/loops/{name}/ralph.jsonl"));
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines.filter(|line| line["action"] == action).collect()
}

/// The numbers of the iterations that have started.
fn iterations(trial: &TestProject, name: &str) -> Vec<u64> {
    lines(trial, name, "started").iter().map(|line| line["iteration"].as_u64().unwrap()).collect()
}

fn verdicts(trial: &TestProject) -> Vec<String> {
    let text = trial.read("logs/loops/loop/ralph.jsonl");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines.filter_map(|line| line["verdict"].as_str().map(str::to_owned)).collect()
}

fn folder(trial: &TestProject, name: &str) -> PathBuf {
    trial.root().join(".ralph/loops").join(name)
}

fn prompt(trial: &TestProject, iteration: u32) -> String {
    trial.read(&format!("logs/loops/loop/attempts/{iteration}/prompt.md"))
}

#[test]
fn any_exit_code_goes_on_until_the_file_done_is_there() {
    let trial = trial(
        "case $n in 1) exit 0 ;; 2) echo 'no idea'; exit 3 ;;
         3) echo x > x; git add x; git commit -qm 'Write x' ;; 4) touch \"$TASK_FOLDER/DONE\" ;; esac",
    );
    insta::assert_snapshot!(trial.run(FAST).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  loop: starting iteration 1/9
    [time]  loop: iteration 1 exited with code 0 after [took]
    [time]  loop: starting iteration 2/9
    [time]  loop: iteration 2 exited with code 3 after [took]; failure 1 of 5 in a row; the next starts in [took]
    [time]      output in logs/loops/loop/attempts/2
    [time]      no idea
    [time]  loop: starting iteration 3/9
    [time]  loop: iteration 3 exited with code 0 after [took]
    [time]  loop: starting iteration 4/9
    [time]  loop: iteration 4: reported done after [took]
    [time]  loop complete after 4 iterations: reported done (exit code 0)
    [time]  4 iterations, 1 failed, [took]
    ");
    assert_eq!(verdicts(&trial), ["again", "failed", "again", "complete"]);
    let begun = &lines(&trial, "loop", "loop_started")[0]["loop"];
    assert_eq!(begun["prompt_file"], trial.root().join("PROMPT.md").display().to_string());
    assert_eq!(prompt(&trial, 4), "Do task A\n", "as it is");
    assert_eq!(trial.git(&["status", "--short"]), "", "its own files are ignored");
    assert!(!trial.root().join("logs/ralph.jsonl").exists());
    // `DONE` holds until a person removes it.
    insta::assert_snapshot!(trial.run(FAST).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  loop: `.ralph/loops/loop/DONE` exists; remove it to start again
    [time]  loop complete after 0 iterations (exit code 0)
    [time]  0 iterations, 0 failed, [took]
    ");
    fs::remove_file(folder(&trial, "loop").join("DONE")).unwrap();
    trial.run(fast(&["--max-restarts", "0"])).code(2);
}

#[test]
fn done_before_the_first_iteration_needs_no_agent() {
    let trial = trial("touch \"$TRIAL_DIR/begun\"");
    fs::create_dir_all(folder(&trial, "docs")).unwrap();
    fs::write(folder(&trial, "docs").join("DONE"), "").unwrap();
    let words = ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "3", "--name", "docs"];
    trial.run(words).stderr_has("loop complete after 0 iterations (exit code 0)");
    assert!(!trial.sign("begun").exists());
    fs::remove_file(folder(&trial, "docs").join("DONE")).unwrap();
    fs::create_dir(folder(&trial, "docs").join("DONE")).unwrap();
    trial.run(words).code(1).stderr_has(
        "ralph: error: `.ralph/loops/docs/DONE` is a folder; remove it, because a file of that \
         name ends the loop\n",
    );
    assert!(!trial.sign("begun").exists());
}

#[test]
fn an_agent_ends_its_loop_in_many_ways() {
    for (how, report) in [
        ("\"$RALPH\" task-complete loop", "done_file"),
        ("echo bye; echo 'All good. <promise>COMPLETE</promise>'", "promise"),
        ("echo 'All tasks complete'; echo bye; exit 1", "pattern"),
    ] {
        let trial = trial(&format!("[ $n = 1 ] || {{ {how}; }}"));
        let words = fast(&["--done-pattern", "^All tasks? complete$|tasks complete"]);
        trial.run(words);
        assert_eq!(verdicts(&trial), ["again", "complete"], "{how}");
        assert_eq!(lines(&trial, "loop", "completed")[0]["report"], report);
        assert_eq!(lines(&trial, "loop", "finished")[0]["exit_code"], 0);
    }
}

#[test]
fn the_done_pattern_is_searched_on_standard_error_too() {
    let trial = trial("echo \"$prompt\" >&2; [ $n = 1 ] || echo All tasks complete >&2; echo bye")
        .file("PROMPT.md", "Print `All tasks complete` at the end.\nNot before.\n");
    trial.run(fast(&["--done-pattern", "All tasks complete"])).code(0);
    assert_eq!(verdicts(&trial), ["again", "complete"]);
    assert_eq!(lines(&trial, "loop", "completed")[0]["report"], "pattern");
}

#[test]
fn an_agent_that_shows_its_prompt_promises_nothing() {
    let prompt = "Say `All tasks complete` when all is done.\nNot before.\n";
    let trial =
        trial("echo \"you said:\"; echo \"$prompt\"; cat PROMPT.md; [ $n = 1 ] || echo All tasks complete")
            .file("PROMPT.md", prompt);
    let words = fast(&["--done-pattern", "All tasks complete"]);
    trial.run(words);
    assert_eq!(verdicts(&trial), ["again", "complete"]);
    assert_eq!(lines(&trial, "loop", "completed")[0]["report"], "pattern");
}

#[test]
fn verify_commands_decide_about_every_report() {
    let settings = format!("{SETTINGS}verify: 'echo checking; test -e proof'\n");
    let trial = trial(
        "case $n in 1) touch \"$RALPH_TASK_DIR/DONE\" ;; 3) \"$RALPH\" task-complete loop ;;
         4) touch proof; echo '<promise>COMPLETE</promise>' ;; esac",
    )
    .file(".ralph/config.yaml", &settings);
    trial.run(FAST);
    assert_eq!(verdicts(&trial), ["verify-failed", "again", "verify-failed", "complete"]);
    insta::assert_snapshot!(prompt(&trial, 2), @r"
    Do task A

    ## Not done yet

    The agent before you reported completion. This command then failed (exited with code 1):

    ```text
    echo checking; test -e proof
    ```

    The end of its output; the full output is in `logs/loops/loop/attempts/1/verify-1.log`:

    ```text
    checking
    ```
    ");
    assert!(!folder(&trial, "loop").join("DONE").exists(), "it was judged, and did not hold");
}

#[test]
fn failures_in_a_row_end_a_loop() {
    let trial = trial("exit 7");
    trial.run(fast(&["--max-failures", "2"])).code(1).stderr_has(
        "\
[time]  loop: iteration 2 exited with code 7 after [took]; failure 2 of 2 in a row
[time]      output in logs/loops/loop/attempts/2
[time]  2 failures in a row (exit code 1)
",
    );
    trial
        .run(["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "1", "--max-failures", "1"])
        .code(1)
        .stderr_has("stopped after 1 failure (exit code 1)");
    trial
        .run(["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "1", "--max-failures", "0"])
        .code(2);
}

#[test]
fn a_failure_is_shown_with_the_reason_on_standard_error() {
    let usage = "printf \"error: unknown option '--bogus'\\n\\nUsage: x\\n\" >&2";
    let trial = trial(&format!("echo Starting.; {usage}; exit 2"));
    trial
        .run(fast(&["--max-failures", "1"]))
        .code(1)
        .stderr_has("iteration 1 exited with code 2 after ")
        .stderr_has("    error: unknown option '--bogus'\n");
}

#[test]
fn limits_are_no_success() {
    let trial = trial("");
    trial.run(["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "1"]).code(2);
    assert_eq!(verdicts(&trial).len(), 1);
    trial
        .run(fast(&["--max-restarts", "2", "-q"]))
        .code(2)
        .stderr_has("limit reached: 2 restarts (exit code 2)");
    assert_eq!(verdicts(&trial).len(), 4);
    trial
        .run([
            "loop",
            "--prompt-file",
            "PROMPT.md",
            "--max-iterations",
            "51",
            "--max-restarts",
            "0",
        ])
        .code(2)
        .stderr_has("warning: up to 51 iterations");
}

#[test]
fn an_idle_iteration_is_restarted_and_no_failure() {
    let trial = trial("[ $n = 1 ] && exec sleep 600; touch \"$TASK_FOLDER/DONE\"");
    trial.run(fast(&["--inactivity-timeout", "1"]));
    assert_eq!(lines(&trial, "loop", "iterated")[0]["outcome"], "idle");
    let said = trial.run(["status", "--name", "loop", "--json"]).json();
    assert_eq!((&said["failures"], &said["limits"]["idle_seconds"]), (&json!(0), &json!(1.0)));
    trial.no_process_is_left();
}

#[test]
fn the_prompt_file_is_read_for_each_iteration() {
    let trial =
        trial("touch \"$TRIAL_DIR/at-$n\"; until [ -e \"$TRIAL_DIR/go-$n\" ]; do sleep 0.02; done");
    let run = trial.start_until(FAST, "at-1");
    trial.save("PROMPT.md", "");
    trial.leave("go-1");
    wait_for(&trial.sign("at-2"));
    trial.save("PROMPT.md", "/Do task B");
    trial.leave("go-2");
    wait_for(&trial.sign("at-3"));
    fs::remove_file(trial.root().join("PROMPT.md")).unwrap();
    trial.leave("go-3");
    run.end(&trial).code(1);
    let prompts = [1, 2, 3].map(|n| prompt(&trial, n));
    assert_eq!(prompts, ["Do task A\n", "", "/Do task B"]);
    assert_eq!(lines(&trial, "loop", "started").len(), 3);
    assert_eq!(lines(&trial, "loop", "finished")[0]["exit_code"], 1);
    assert!(!trial.root().join(".git/ralph/loops/loop/attempts/loop.4.json").exists());
}

#[test]
fn invalid_arguments_start_no_loop() {
    let trial = trial("");
    let words = |file| ["loop", "--prompt-file", file, "--max-iterations", "2"];
    let missing = "ralph: error: prompt file not found: `./missing.md`\n";
    trial.run(words("./missing.md")).code(1).stderr(missing);
    let unreadable = "ralph: error: cannot read prompt file: `.git`: it is not a regular file\n";
    trial.run(words(".git")).code(1).stderr(unreadable);
    trial.write("binary", "");
    fs::write(trial.root().join("binary"), b"\xff\xfe").unwrap();
    let binary = "ralph: error: cannot read prompt file: `binary`: not UTF-8\n";
    trial.run(words("binary")).code(1).stderr(binary);
    trial.run(["loop", "--max-iterations", "2"]).code(64).stderr_has("--prompt-file <FILE>");
    trial.run(["loop", "--prompt-file", "PROMPT.md"]).code(64).stderr_has("--max-iterations <N>");
    trial
        .run([
            "loop",
            "--prompt-file",
            "PROMPT.md",
            "--max-iterations",
            "2",
            "--restart-delay",
            "soon",
        ])
        .code(64)
        .stderr_has("`soon` is not a length of time");
    trial
        .run(fast(&["--name", "../x"]))
        .code(64)
        .stderr_has("the name must start with a letter or a digit");
    trial
        .run(["status", "--name", "loop"])
        .code(1)
        .stderr("ralph: error: there is no loop `loop`; `ralph status` lists the loops\n");
    assert!(!trial.state().exists() && !trial.root().join("logs").exists());
}

#[test]
fn a_loop_that_asks_goes_on_with_the_answer() {
    let trial = trial(
        "case $prompt in *'the answer is blue'*) touch \"$TASK_FOLDER/DONE\" ;;
         *) echo 'Which colour?'; exit 42 ;; esac",
    );
    let words = ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "1", "--name", "docs"];
    insta::assert_snapshot!(trial.run(words).whole(), @r#"
    exit code 4
    --- stderr ---
    [time]  docs: starting iteration 1/1
    [time]  ? docs  [took]  asks: Which colour?
    [time]      answer it with `ralph answer docs "…"`
    [time]  waiting for a person: `docs` needs input: Which colour? (exit code 4)
    [time]  1 iteration, 0 failed, [took]
    [time]  needs you:
    [time]    - docs (Work of the loop docs): needs input
    [time]        Which colour?
    [time]        `ralph answer docs "…"`, then `ralph resume --name docs`
    "#);
    trial.run(words).code(4);
    assert_eq!(lines(&trial, "docs", "started").len(), 1, "it is not asked again");
    trial.run(["answer", "docs"]).stdout("Which colour?\n");
    trial.run(["answer", "docs", "the answer is blue"]);
    trial.run(words);
    assert_eq!(lines(&trial, "docs", "finished").last().unwrap()["exit_code"], 0);
    insta::assert_snapshot!(trial.read("logs/loops/docs/attempts/2/prompt.md"), @r"
    Do task A

    ## What a person answered

    A person answered earlier agents, or left a note; it still applies.

    Asked:

    ```text
    Which colour?
    ```

    Answered:

    ```text
    the answer is blue
    ```
    ");
}

#[test]
fn an_agent_asks_by_command_and_resume_goes_on() {
    let trial = trial(
        "case $prompt in *blue*) \"$RALPH\" task-complete loop ;;
         *) \"$RALPH\" ask 'Which colour?' ;; esac",
    )
    .graph("tasks: [{id: loop}]\n");
    trial.run(FAST).code(4);
    assert_eq!(lines(&trial, "loop", "needs_input")[0]["question"], "Which colour?");
    let graph = "ralph: error: `loop` is pending; only a task that needs input can be answered; \
                 use `--name loop` for the loop of that name\n";
    trial.run(["answer", "loop", "blue"]).code(1).stderr(graph);
    trial.run(["answer", "--name", "loop", "loop", "blue"]);
    trial.run(["resume", "--name", "loop"]);
    assert_eq!(lines(&trial, "loop", "started")[1]["iteration"], 2);
    assert_eq!(lines(&trial, "loop", "finished")[1]["exit_code"], 0);
    trial.run(["resume", "--name", "loop"]);
    assert_eq!(lines(&trial, "loop", "loop_started").len(), 2, "nothing is left to resume");
    assert_eq!(trial.status("loop"), "pending", "the task of the graph is another");
}

/// A loop whose agent waits for the file `open`.
fn gated(name: &str, iterations: &str) -> (TestProject, Live) {
    let trial =
        trial("touch \"$TRIAL_DIR/at-$n\"; until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done");
    let words =
        ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", iterations, "--name", name];
    let run = trial.start_until(words, "at-1");
    (trial, run)
}

#[test]
fn a_paused_loop_goes_on_as_it_was() {
    let trial =
        trial("touch \"$TRIAL_DIR/at-$n\"; until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done");
    let run = trial.start([
        "loop",
        "--prompt-file",
        "PROMPT.md",
        "--max-iterations",
        "3",
        "--name",
        "docs",
        "--restart-delay",
        "0.1",
        "--max-restarts",
        "7",
        "--max-failures",
        "2",
        "--timeout",
        "40m",
        "--inactivity-timeout",
        "20m",
        "--done-pattern",
        "X+",
        "--max-wait",
        "1h",
    ]);
    wait_for(&trial.sign("at-1"));
    trial.run(["pause", "--name", "docs"]).stdout(
        "pausing: running attempts finish, and none starts until `ralph resume --name \
         docs`\n",
    );
    trial.leave("open");
    run.end(&trial).code(4);
    trial
        .run(["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "3", "--name", "docs"])
        .code(4)
        .stderr("ralph: error: paused; `ralph resume --name docs` continues\n");
    trial.run(["status"]).stdout_has("\ndocs  ");
    assert_eq!(trial.run(["status", "--name", "docs", "--json"]).json()["status"], "paused");
    trial.run(["resume", "--name", "docs"]).code(2);
    assert_eq!(iterations(&trial, "docs"), [1, 2, 3]);
    let (mut first, mut second) = {
        let mut begun = lines(&trial, "docs", "loop_started").into_iter();
        (begun.next().unwrap(), begun.next().unwrap())
    };
    assert_eq!((&first["before"], &second["before"]), (&Value::Null, &json!(1)));
    for lines in [&mut first, &mut second] {
        for differs in ["timestamp", "run_id", "seq", "pid", "before"] {
            lines.as_object_mut().unwrap().remove(differs);
        }
    }
    assert_eq!(first, second);
    trial.run(["pause", "--name", "docs"]);
    trial
        .run(["resume", "--name", "docs"])
        .code(2)
        .stderr_has("used its 3 attempts; `ralph resume --name docs --max-iterations N`");
    trial.run(["resume", "--name", "docs", "--max-iterations", "4"]).code(2);
    assert_eq!(iterations(&trial, "docs"), [1, 2, 3, 4]);
}

#[test]
fn the_counts_of_a_loop_survive_a_pause() {
    let result = json!({"type": "result", "is_error": true, "result": "no", "total_cost_usd": 0.25,
        "usage": {"input_tokens": 9}});
    let script = format!(
        "cat > /dev/null; n=$RALPH_ATTEMPT; [ $n != 2 ] || \"$RALPH\" pause --name loop; \
         echo '{result}'; exit 1"
    );
    let agent = format!("agent: {{command: [sh, -c, {}], output: claude-json}}\n", json!(script));
    let trial = TestProject::new()
        .file("PROMPT.md", "Do task A\n")
        .file(".ralph/config.yaml", &format!("{SETTINGS}{agent}"));
    let counts = || {
        let status = trial.run(["status", "--name", "loop", "--json"]).json();
        let names = ["iteration", "failures", "failures_in_a_row"];
        (names.map(|name| status[name].as_u64()), status["spend"]["cost_usd"].clone())
    };
    trial.run(fast(&["--max-failures", "4"])).code(4);
    assert_eq!(counts(), ([Some(2); 3], json!(0.5)));
    // The third and the fourth failure in a row.
    trial.run(["resume", "--name", "loop"]).code(1);
    assert_eq!(counts(), ([Some(4); 3], json!(1.0)));
    // A new loop counts from the start.
    trial.run(fast(&["--max-failures", "1"])).code(1);
    assert_eq!(counts(), ([Some(1); 3], json!(0.25)));
}

#[test]
fn a_loop_is_stopped_by_its_name() {
    let (trial, run) = gated("docs", "3");
    trial.run(["stop"]);
    assert!(lines(&trial, "docs", "stop_requested").is_empty(), "it means the run");
    trial
        .run(["stop", "--name", "doc"])
        .code(1)
        .stderr("ralph: error: there is no loop `doc`; did you mean `docs`?\n");
    trial.run(["stop", "--name", "docs"]).stdout_has("`ralph stop --name docs --now` ends it");
    trial.run(["stop", "--name", "docs", "--now"]);
    run.end(&trial).code(4);
    assert_eq!(lines(&trial, "docs", "interrupted")[0]["verdict"], "cancelled");
    trial.no_process_is_left();
}

#[test]
fn a_crashed_loop_goes_on_with_its_count() {
    let (trial, run) = gated("docs", "3");
    run.kill();
    let status = || trial.run(["status", "--name", "docs", "--json"]).json()["status"].clone();
    until("its guardian is gone", || status() == "crashed");
    trial.run(["status", "--name", "docs"]).stdout_has(
        "Status: crashed: the last run exited unexpectedly; `ralph resume \
         --name docs` continues it\n",
    );
    trial.leave("open");
    let said = trial.run(["resume", "--name", "docs"]).code(2).err();
    assert!(said.contains("docs: recovered iteration 1, left open by run [run]"), "{said}");
    assert_eq!(lines(&trial, "docs", "interrupted")[0]["verdict"], "interrupted");
    assert_eq!(iterations(&trial, "docs"), [1, 2, 3, 4], "the interrupted one uses none");
    trial.no_process_is_left();
}

#[test]
fn ctrl_c_ends_a_loop_and_its_agent() {
    let (trial, run) = gated("docs", "3");
    run.signal(Signal::INT);
    run.end(&trial).code(130);
    trial.no_process_is_left();
    trial.leave("open");
    trial.run(["resume", "--name", "docs"]).code(2);
    assert_eq!(iterations(&trial, "docs"), [1, 2, 3, 4]);
}

#[test]
fn the_status_of_a_loop() {
    let (trial, run) = gated("docs", "100");
    let shown = trial.run(["status", "--name", "docs"]).out();
    let shown: String = shown
        .lines()
        .map(|line| match line.split_once("tarted: ") {
            Some((key, _)) => format!("{key}tarted: [when]\n"),
            None => line.to_owned() + "\n",
        })
        .collect();
    insta::assert_snapshot!(shown, @r#"
    Loop: docs
    Status: running
    Run: [run], process [pid]
    Iteration: 1/100
    Started: [when]
    Current iteration started: [when]
    Consecutive failures: 0 (at most 5)
    Total failures: 0
    Timeout: 2h
    Inactivity timeout: 15m
    Restart delay: [took]
    Done pattern: none
    Prompt file: [repo]/PROMPT.md
    Agent: sh -c prompt=$(cat); n=$RALPH_ATTEMPT; touch "$TRIAL_DIR/at-$n"; until [ -e "$TRIAL_DIR/open" ]; do sleep 0.02; done
    Last beat: [took] ago
    "#);
    trial.run(["heartbeat", "--name", "docs"]).stdout_has("alive: last beat ");
    trial.run(["heartbeat"]).code(1);
    let again = ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "2", "--name", "docs"];
    trial.run(again).code(5).stderr(
        "ralph: error: the loop `docs` is already running; `--name` starts another one: process [pid], \
         run [run], since [when]\n",
    );
    run.kill();
}

#[test]
fn loops_and_a_run_go_on_at_once() {
    let script = "touch \"$TRIAL_DIR/at-$RALPH_TASK_ID\"; echo \"$RALPH_LOOP\" > \"$TRIAL_DIR/in-$RALPH_TASK_ID\";
         until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done; \"$RALPH\" task-complete \"$RALPH_TASK_ID\"";
    let trial = trial(script).graph("tasks: [{id: one, commit: optional}]\n");
    let start = |name| {
        trial.start(["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "2", "--name", name])
    };
    // One of the loops has the name of the task.
    let runs = [trial.start(["run"]), start("one"), start("two")];
    wait_for(&trial.sign("at-two"));
    let running = || {
        let words = [
            &["status", "--json"][..],
            &["status", "--json", "--name", "one"],
            &["status", "--json", "--name", "two"],
        ];
        let seen =
            words.map(|words| trial.process(crate::support::RALPH).args(words).output().unwrap());
        seen.map(|it| {
            let view: Value = serde_json::from_slice(&it.stdout).unwrap_or_default();
            (view["name"].clone(), view["attempts"].as_array().map_or(0, Vec::len))
        })
    };
    let all = [(Value::Null, 1), (json!("one"), 1), (json!("two"), 1)];
    until("all work", || running() == all);
    for run in &runs {
        assert!(!run.said().contains("error"), "{}", run.said());
    }
    trial.run(["stop", "--name", "two", "--now"]);
    let [run, one, two] = runs;
    two.end(&trial).code(4);
    trial.leave("open");
    run.end(&trial).graph_complete();
    one.end(&trial);
    assert_eq!(trial.tasks("completed"), ["one"]);
    assert_eq!(lines(&trial, "one", "completed").len(), 1);
    assert_eq!(fs::read_to_string(trial.sign("in-two")).unwrap(), "two\n");
    let shown = trial.run(["status"]).out();
    let shown: Vec<String> = shown
        .lines()
        .skip_while(|line| !line.starts_with("loop "))
        .map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(shown, ["loop status iteration", "one finished 1/2", "two finished 1/3"]);
    trial.no_process_is_left();
}

#[test]
fn an_agent_means_its_own_loop() {
    let trial = trial(
        "\"$RALPH\" status > \"$TRIAL_DIR/said\"; \"$RALPH\" prompt > \"$TRIAL_DIR/next\";
         \"$RALPH\" note --for-all 'mind the gap' > \"$TRIAL_DIR/noted\";
         \"$RALPH\" run -- sh -c 'echo \"${RALPH_LOOP-none}\" > \"$TRIAL_DIR/inner\"; \"$RALPH\" task-complete a';
         \"$RALPH\" stop; sleep 0.1",
    )
    .graph("tasks: [{id: a, title: Of the graph, commit: optional}]\n");
    trial.run(FAST).code(4);
    let read = |name: &str| fs::read_to_string(trial.sign(name)).unwrap();
    assert!(read("said").starts_with("Loop: loop\nStatus: running\n"), "{}", read("said"));
    assert!(read("next").contains("Of the graph"), "{}", read("next"));
    assert_eq!(read("inner"), "none\n", "a run within is another");
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert!(trial.read("docs/knowledge/learnings.md").contains("mind the gap"));
}

#[test]
fn what_an_iteration_left_is_kept_under_a_name_of_its_own() {
    let trial = trial("echo $n > half; exit 1").graph("tasks: [{id: loop}]\n");
    let words = ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "1"];
    trial.run(words).code(2);
    trial.run(["run", "--once"]).code(1);
    let refs = trial.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    assert_eq!(refs, "refs/ralph/loop+loop/1\nrefs/ralph/loop/1\n");
    trial.run(["show", "--name", "loop", "1"]).stdout_has("Attempt: 1 at loop\n");
    trial
        .run(["restore", "--name", "loop", "1"])
        .stdout_has("branch ralph/restore/loops/loop.1 has");
    trial.run(["restore", "loop.1"]).stdout_has("branch ralph/restore/loop.1 has");
    trial.run(["attempts", "--name", "loop"]).stdout_has("refs/ralph/loop+loop/1");
}

#[test]
fn what_an_agent_left_running_with_its_report_is_waited_for() {
    let settings = SETTINGS.replace("child_wait_timeout: 0s", "child_wait_timeout: 50s");
    let trial = trial(
        "(until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done; touch \"$TRIAL_DIR/late\") \
         > /dev/null 2>&1 & echo '<promise>COMPLETE</promise>'",
    )
    .file(".ralph/config.yaml", &settings);
    let run = trial.start(FAST);
    until("it waits", || run.said().contains("loop is reported done; waiting up to 50s for "));
    trial.leave("open");
    run.end(&trial);
    assert_eq!(lines(&trial, "loop", "completed")[0]["report"], "promise");
    assert!(trial.sign("late").exists());
}

#[test]
fn the_list_shows_crashed_loops() {
    let (trial, run) = gated("docs", "3");
    let listed = || trial.run(["status", "--name", "docs", "--json"]).json();
    let alive = listed();
    assert_eq!((&alive["name"], &alive["status"]), (&json!("docs"), &json!("running")));
    assert!(alive["last_beat_seconds"].is_u64() && alive["loop"]["max_failures"] == 5, "{alive}");
    run.kill();
    until("its guardian is gone", || listed()["status"] == "crashed");
    let row = trial.run(["status"]).out();
    let row: Vec<&str> = row.lines().last().unwrap().split_whitespace().take(3).collect();
    assert_eq!(row, ["docs", "crashed", "1/3"]);
    assert_eq!(listed()["last_beat_seconds"], Value::Null);
}

#[test]
fn a_loop_in_another_worktree_is_shown_as_elsewhere() {
    let (trial, run) = gated("docs", "3");
    trial.git(&["worktree", "add", "-q", "../other"]);
    let other = trial.dir().join("other");
    let other = other.to_str().unwrap();
    let row = trial.run(["-C", other, "status"]).out();
    assert!(row.lines().last().is_some_and(|row| row.starts_with("docs  elsewhere  ")), "{row}");
    let words = ["-C", other, "loop", "--name", "docs", "--max-iterations", "2", "--prompt-file"];
    let words = [&words[..], &["PROMPT.md", "--", "true"]].concat();
    trial.run(words).code(5);
    run.kill();
}

#[test]
fn hooks_and_the_log_know_the_loop() {
    let hook =
        "hooks:\n  before_attempt: echo $RALPH_LOOP $RALPH_ATTEMPT >> \"$TRIAL_DIR/hooked\"\n";
    let trial = trial("echo $n; [ $n = 1 ] && exit 3; touch \"$TASK_FOLDER/DONE\"")
        .file(".ralph/config.yaml", &format!("{SETTINGS}{hook}"));
    trial.run(FAST);
    assert_eq!(fs::read_to_string(trial.sign("hooked")).unwrap(), "loop 1\nloop 2\n");
    let said = trial.run(["logs", "--name", "loop"]).out();
    let said = said.lines().skip(2).collect::<Vec<_>>().join("\n");
    let of_loop = said.lines().filter(|line| line.contains("  loop: ")).count();
    assert_eq!((of_loop, said.lines().count()), (4, 5), "{said}");
    trial
        .run(["logs", "--name", "loop", "--output"])
        .stdout_has("[time]  loop: starting iteration 2/9\n2\n");
    trial.run(["attach", "--name", "loop"]).code(1).stderr(
        "ralph: error: no run is active: the last run is finished; `ralph logs --name loop \
         --output` shows its output\n",
    );
}

#[test]
fn a_question_can_be_dropped() {
    let trial = trial("[ $n = 1 ] && exit 42; touch \"$TASK_FOLDER/DONE\"");
    trial.run(FAST).code(4);
    trial.run(["task-reset", "loop"]);
    trial.run(FAST);
    assert_eq!(lines(&trial, "loop", "completed").len(), 1);
}

#[test]
fn an_isolated_loop_lands_when_it_is_done_and_verified() {
    let trial = trial(
        "echo $n >> steps; case $n in
         1) git add steps; git commit -qm One ;;
         2) ;;
         3) git add steps; git commit -qm Three; echo late > late; \"$RALPH\" task-complete loop ;;
         esac",
    )
    .file(".ralph/config.yaml", &format!("{SETTINGS}verify: test \"$(wc -l < steps)\" -eq 3\n"));
    let before = trial.subjects();
    let words = fast(&["--isolated"]);
    let first = ["loop", "--isolated", "--prompt-file", "PROMPT.md", "--max-iterations", "1"];
    trial.run(first).code(2);
    assert_eq!(trial.subjects(), before, "nothing lands before the loop is done");
    assert!(!trial.root().join("steps").exists());
    let kept = trial.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    assert_eq!(kept, "refs/ralph/loop+loop/1\n");
    trial.run(words).code(0).stderr_has("loop complete after 2 iterations");
    assert_eq!(trial.read("steps"), "1\n2\n3\n", "each iteration continued the one before");
    assert_eq!(trial.read("late"), "late\n", "what was not committed is committed");
    assert_eq!(trial.subjects(), ["One", "Three", "Work of the loop loop"]);
    assert_eq!(trial.git(&["status", "--short"]), "");
    let text = prompt(&trial, 2);
    assert!(text.contains("`git log -p refs/ralph/loop+loop/1`"), "{text}");
    let line = trial.run(["slots"]).out();
    assert!(line.contains("../repo.slots/loop-loop-1/repo"), "{line}");
    trial.run(["slots", "remove", "loop-loop-1"]).code(0);
}

#[test]
fn an_isolated_loop_brings_its_conflict_to_the_next_iteration() {
    let trial = trial(
        "if [ $n = 1 ]; then
             echo ours > file; git add file; git commit -qm Ours; touch \"$TRIAL_DIR/made\"
             until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done
         else echo both > file; git add file; git commit -qm Both; fi
         echo '<promise>COMPLETE</promise>'",
    );
    let run = trial.start_until(fast(&["--isolated"]), "made");
    trial.write("file", "theirs\n");
    trial.git(&["add", "file"]);
    trial.git(&["commit", "-qm", "Theirs"]);
    trial.leave("open");
    run.end(&trial).code(0);
    assert_eq!(trial.read("file"), "both\n");
    assert_eq!(verdicts(&trial), ["conflict", "complete"]);
    let text = prompt(&trial, 2);
    assert!(text.contains("the same lines of `file`") && text.contains("+theirs"), "{text}");
}

#[test]
fn an_isolated_loop_and_a_run_share_neither_slots_nor_refs() {
    let script = "echo $RALPH_TASK_ID > of-$RALPH_TASK_ID; git add .; git commit -qm Work;
         touch \"$TRIAL_DIR/at-${RALPH_LOOP:-graph}\"
         until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = trial(script).graph("tasks: [{id: a}]\n");
    let run = trial.start_until(["run"], "at-graph");
    let loops = trial.start_until(fast(&["--isolated", "--name", "docs"]), "at-docs");
    insta::assert_snapshot!(trial.run(["slots"]).out(), @r"
    slot                            task  state
    ../repo.slots/1/repo            a     in use by attempt a.1, running
    ../repo.slots/loop-docs-1/repo  docs  in use by attempt docs.1, running
    ");
    trial.run(["slots", "remove", "loop-docs-1"]).code(1).stderr_has("works in it");
    trial.leave("open");
    run.end(&trial).graph_complete();
    loops.end(&trial).code(0);
    assert_eq!(trial.git(&["ls-files", "of-*"]), "of-a\nof-docs\n");
    assert_eq!(trial.git(&["status", "--short"]), "");
    trial.run(["slots", "remove"]).code(0);
    trial.no_process_is_left();
}

#[test]
fn an_isolated_loop_that_is_paused_stays_isolated() {
    let trial = trial(
        "case $n in 1) echo one > one; \"$RALPH\" pause --name loop ;;
         *) test -e one && mkdir -p .ralph/loops/loop && touch .ralph/loops/loop/DONE ;; esac",
    );
    trial.run(fast(&["--isolated"])).code(4);
    assert!(!trial.root().join("one").exists());
    trial.run(["resume", "--name", "loop"]).code(0);
    assert_eq!(trial.read("one"), "one\n");
    assert_eq!(verdicts(&trial), ["again", "complete"]);
    trial.run(fast(&["--isolated"])).code(0).stderr_has("complete after 0 iterations");
}

#[test]
fn an_isolated_loop_goes_on_after_an_answer() {
    let trial = trial(
        "case $n in 1) echo one > one; git add one; git commit -qm One; \"$RALPH\" ask 'Which?' ;;
         *) test -e one && echo two > two && \"$RALPH\" task-complete loop ;; esac",
    );
    trial.run(fast(&["--isolated"])).code(4);
    trial.run(["answer", "loop", "Blue."]);
    trial.run(fast(&["--isolated"])).code(0);
    assert_eq!(trial.read("one") + &trial.read("two"), "one\ntwo\n");
}

#[test]
fn an_isolated_loop_killed_at_its_end_completes_in_the_next() {
    for point in ["close.home", "merge.intended", "merge.landed"] {
        let trial = trial("echo done > work; echo '<promise>COMPLETE</promise>'");
        let trial = trial.env("RALPH_CRASH_POINT", point);
        trial.run(fast(&["--isolated"]));
        let trial = trial.env("RALPH_CRASH_POINT", "");
        trial.run(fast(&["--isolated"])).code(0);
        assert_eq!(trial.read("work"), "done\n", "{point}");
        assert_eq!(verdicts(&trial).last().unwrap(), "complete", "{point}");
        assert_eq!(trial.git(&["status", "--short"]), "", "{point}");
    }
}
