//! `ralph run` from the first line to the last: order, journal, graph, git, filters, limits.

use std::fs;

use crate::support::{DIAMOND, TestProject, agent};

#[test]
fn a_diamond_is_worked_off_in_order() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  4 tasks, 0 done
    [time]  start started: Begin
    [time]  ✓ start  [took]  +1 −0  Begin
    [time]  right started: The right half
    [time]  ✓ right  [took]  +1 −0  The right half
    [time]  left started: The left half
    [time]  ✓ left   [took]  +1 −0  The left half
    [time]  end started: Put it together
    [time]  ✓ end    [took]  +1 −0  Put it together
    [time]  the graph is complete, and nothing was verified (exit code 0)
    [time]  4 completed in 4 attempts, [took]; 4 of 4 complete
    [time]  landed (4 to review: `ralph review`, `ralph diff ID`):
    [time]    + start: Begin; 1 commit, 1 file, +1 -0, [took]
    [time]    + right: The right half; 1 commit, 1 file, +1 -0, [took]
    [time]    + left: The left half; 1 commit, 1 file, +1 -0, [took]
    [time]    + end: Put it together; 1 commit, 1 file, +1 -0, [took]
    ");
    assert_eq!(trial.tasks("started"), ["start", "right", "left", "end"]);
    let subjects = ["start", "right", "left", "end"].map(|id| format!("Work on {id}"));
    assert_eq!(trial.subjects(), subjects);
    assert_eq!(trial.completions(), ["start", "right", "left", "end"]);
    trial.no_process_is_left();
}

#[test]
fn only_statuses_and_times_change_in_the_graph() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "-q"]);
    insta::assert_snapshot!(trial.redact(&trial.graph_text()), @r#"
    version: 1
    # The order of the file is not the order of the work.
    tasks:
      - id: end
        status: complete
        completed_at: "[when]"
        title: Put it together # last
        priority: critical
        depends_on: [left, right]
      - id: left
        status: complete
        completed_at: "[when]"
        title: The left half
        priority: low
        depends_on: [start]
      - id: right
        status: complete
        completed_at: "[when]"
        title: 'The right half'
        priority: "high"
        depends_on:
          - start
      - {id: start, status: complete, completed_at: "[when]", title: Begin}
    "#);
    let ours = ["status: complete", "completed_at:"];
    let kept: Vec<String> = trial
        .graph_text()
        .lines()
        .filter(|line| !ours.iter().any(|field| line.trim_start().starts_with(field)))
        .map(|line| match (line.find("{id: start"), line.find(", title")) {
            (Some(_), Some(rest)) => format!("  - {{id: start{}", &line[rest..]),
            _ => line.to_owned(),
        })
        .collect();
    assert_eq!(kept.join("\n") + "\n", DIAMOND, "every other byte is as it was");
    assert_eq!(trial.git(&["status", "--porcelain"]), "", "and it is committed");
}

#[test]
fn the_journal_tells_all_of_it() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial.run(["run"]);
    let journal = trial.journal();
    let told: Vec<String> = journal
        .iter()
        .map(|line| {
            let word = |field: &str| line[field].as_str().unwrap_or("-").to_owned();
            let iteration = line["iteration"].as_u64().map_or("-".to_owned(), |n| n.to_string());
            format!("{iteration} {} {}", word("task_id"), word("action"))
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    - - loop_started
    - - graph_loaded
    1 start status_changed
    1 start started
    1 start agent_started
    1 start agent_ended
    1 start queued
    1 start merging
    1 start status_changed
    1 start completed
    2 right status_changed
    2 right started
    2 right agent_started
    2 right agent_ended
    2 right queued
    2 right merging
    2 right status_changed
    2 right completed
    3 left status_changed
    3 left started
    3 left agent_started
    3 left agent_ended
    3 left queued
    3 left merging
    3 left status_changed
    3 left completed
    4 end status_changed
    4 end started
    4 end agent_started
    4 end agent_ended
    4 end queued
    4 end merging
    4 end status_changed
    4 end completed
    - - finished
    ");
    let (first, last) = (&journal[0], journal.last().unwrap());
    assert_eq!((&first["schema"], &first["seq"]), (&1.into(), &0.into()));
    assert_eq!(first["agent"], serde_json::json!([agent("commit")]));
    assert_eq!((&last["exit_code"], &last["remaining"]), (&0.into(), &0.into()));
    assert!(journal.iter().all(|line| line["run_id"] == first["run_id"]));

    let commits = trial.git(&["log", "--reverse", "--grep=^Work on", "--format=%H"]);
    assert_eq!(commits.lines().count(), 4);
    let completed = trial.lines("completed");
    for (line, id) in completed.iter().zip(commits.lines()) {
        assert_eq!(line["commits"][0]["id"], id, "each commit belongs to the attempt that made it");
        assert_eq!(line["commits"].as_array().unwrap().len(), 1);
        assert_eq!((&line["verdict"], &line["report"]), (&"complete".into(), &"done_file".into()));
        let log = line["log"].as_str().unwrap();
        assert!(trial.read(&format!("{log}/prompt.md")).starts_with("# Task "));
        assert!(trial.read(&format!("{log}/stdout")).contains("is reported as done"));
    }
}

#[test]
fn the_heartbeat_is_a_time_and_says_how_it_ended() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.run(["run"]);
    let beat = trial.read("logs/ralph.heartbeat");
    let mut lines = beat.lines();
    chrono::DateTime::parse_from_rfc3339(lines.next().unwrap()).unwrap();
    let facts: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(facts["finished"], trial.lines("finished")[0]["why"]);
    trial.run(["heartbeat"]).stdout_has("ended [took] ago: ");
}

#[test]
fn a_finished_graph_is_complete_at_once() {
    let trial = TestProject::new().graph("tasks: [{id: a, status: done}]\n").agent("fail");
    trial.run(["run"]).stderr(
        "[time]  1 task, 1 done\n[time]  the graph is complete (exit code 0)\n\
         [time]  nothing done in 0 attempts, [took]; 1 of 1 complete\n",
    );
}

#[test]
fn quiet_says_only_how_it_ended() {
    let trial = TestProject::new().graph("tasks: [{id: a, title: Do it}]\n").agent("done-file");
    let lines = trial.run(["run", "-q"]).graph_complete().err().lines().count();
    assert_eq!(lines, 4, "why it ended, how much was done, and what");
}

#[test]
fn verbose_says_all_that_is_in_the_journal() {
    let trial = TestProject::new().graph("tasks: [{id: a, title: Do it}]\n").agent("commit");
    insta::assert_snapshot!(trial.run(["run", "-v"]).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  run [run], agent: [agents]/commit
    [time]  1 task, 0 done
    [time]  a: pending -> in-progress by this run
    [time]  a started: Do it
    [time]  chosen by: P2, longest chain 1h, unblocks 0, place 1
    [time]  from [commit] on ralph/a; prompt and output in logs/attempts/a/1
    [time]  a is queued to land
    [time]  landing a on main at [commit]
    [time]  a: in-progress -> complete by this run
    [time]  ✓ a  [took]  +1 −0  Do it
    [time]      [commit] Work on a
    [time]      1 file, +1 -0
    [time]      reported done, and committed; landed on `main`
    [time]  the graph is complete, and nothing was verified (exit code 0)
    [time]  1 completed in 1 attempt, [took]; 1 of 1 complete
    [time]  landed (1 to review: `ralph review`, `ralph diff ID`):
    [time]    + a: Do it; 1 commit, 1 file, +1 -0, [took]
    ");
}

#[test]
fn an_agent_is_told_where_it_stands() {
    let show = agent("show");
    let trial = TestProject::new()
        .graph("tasks: [{id: a, title: Do it}]\n")
        .command([&show, "--model", "a b"])
        .env("CLAUDECODE", "1");
    trial.run(["run", "-q"]);
    let given = fs::read_to_string(trial.sign("given")).unwrap();
    insta::assert_snapshot!(trial.redact(&given), @r"
    words: --model a b
    task: a attempt: 1
    pwd: [repo].slots/1/repo
    folder: [repo]/.ralph/tasks/a/[own] [repo]/.ralph/tasks/a/[own]
    claude: unset
    no terminal
    ");
    let prompt = fs::read_to_string(trial.sign("prompt")).unwrap();
    assert_eq!(prompt, trial.read("logs/attempts/a/1/prompt.md"));
}

const SORTED: &str = "\
tasks:
  - {id: a, story: S1, milestone: M1, tags: [x]}
  - {id: b, story: S1, milestone: M2, tags: [y, x]}
  - {id: c, story: S2, milestone: M1}
  - {id: d, tags: [z]}
";

#[test]
fn filters_narrow_a_run() {
    let trial = TestProject::new().graph(SORTED).agent("commit");
    let planned = |flag: &str, name: &str| trial.planned(&[flag, name]).join(" ");
    assert_eq!(planned("--story", "S1"), "a b");
    assert_eq!(planned("--milestone", "M1"), "a c");
    assert_eq!(planned("--tag", "x"), "a b");
    assert_eq!(planned("--task", "c"), "c");
    trial.run(["run", "--story", "S1", "--milestone", "M2"]).graph_complete();
    trial.run(["run", "--task", "d", "--task", "c"]).graph_complete();
    trial
        .run(["run", "--tag", "x"])
        .graph_complete()
        .stderr_has("selected tasks complete, and nothing was verified");
    assert_eq!(trial.tasks("completed"), ["b", "c", "d", "a"]);
    assert_eq!(trial.lines("loop_started")[1]["filter"], serde_json::json!(["task=d", "task=c"]));
}

#[test]
fn an_unknown_task_in_a_filter_is_an_error_with_a_suggestion() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial
        .run(["run", "--task", "strat"])
        .code(64)
        .stderr("ralph: error: no task `strat` in `task-graph.yaml`; did you mean `start`?\n");
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn what_waits_outside_the_filter_is_named() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run", "--task", "end"]).whole(), @r"
    exit code 3
    --- stderr ---
    [time]  4 tasks, 0 done
    [time]  everything left is blocked (exit code 3)
    [time]  nothing done in 0 attempts, [took]; 0 of 1 done
    [time]  needs you:
    [time]    - start (Begin): ready, but excluded by the filters of this run; 3 others wait on it
    [time]        run again with `--task start`, or without the restriction
    [time]  left: 1 (1 waiting)
    [time]  next: afterwards, `ralph run` continues
    ");
}

#[test]
fn a_plan_needs_no_agent_and_touches_nothing() {
    let text = format!(
        "{DIAMOND}  - {{id: held, status: blocked}}\n  - {{id: after, depends_on: [held]}}\n"
    );
    let trial = TestProject::new().graph(&text).command(["no-such-agent"]);
    let before = trial.everything();
    assert_eq!(trial.planned(&[]), ["start", "right", "left", "end"]);
    trial.run(["plan"]);
    let after = trial.everything();
    let new: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
    assert!(new.is_empty(), "a plan made {new:?}");
    assert!(before == after, "a plan changed something");
}

#[test]
fn without_a_repository_git_init_is_named() {
    let trial = TestProject::bare();
    trial.write("task-graph.yaml", "tasks: [{id: a}]\n");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 1
    --- stderr ---
    ralph: error: `[repo]` is not in a git repository; make one with `git init`
    ");
}

#[test]
fn a_filter_that_matches_nothing_is_a_usage_error_with_a_suggestion() {
    let trial = TestProject::new()
        .graph("tasks: [{id: a, tags: [nightly], story: login, milestone: v1}, {id: b}]\n")
        .agent("commit");
    for (flag, name, near) in [
        ("--tag", "nightl", "nightly"),
        ("--story", "logni", "login"),
        ("--milestone", "v2", "v1"),
        ("--task", "aa", "a"),
    ] {
        for words in [&["run"][..], &["plan"], &["dag-status"]] {
            let words: Vec<&str> = words.iter().copied().chain([flag, name]).collect();
            trial.run(words).code(64).stderr_has(&format!("did you mean `{near}`?"));
        }
    }
    trial.run(["run", "--tag", "other"]).code(64).stderr(
        "ralph: error: no task with the tag `other` in `task-graph.yaml`; it has `nightly`\n",
    );
    trial.run(["run", "--tag", "nightly", "--task", "b"]).code(64).stderr_has("matches all of");
    assert!(!trial.root().join("logs").exists(), "nothing started");
}

#[test]
fn without_a_graph_it_is_said_what_to_write() {
    let trial = TestProject::new();
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: there is no `task-graph.yaml`
    --> task-graph.yaml
     = help: `ralph init` writes an example; a list `tasks:`, each with an `id`, is enough
    ");
}

#[test]
fn an_invalid_graph_is_drawn_and_nothing_starts() {
    let trial = TestProject::new()
        .graph("tasks:\n  - id: a\n    depends_on: [bb]\n  - id: b\n")
        .agent("commit");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 65
    --- stderr ---
    error: unknown dependency `bb`
     --> task-graph.yaml:3:18
      |
    2 |   - id: a
      |         - in this task
    3 |     depends_on: [bb]
      |                  ^^ no task has this id
      |
    help: did you mean `b`?
      |
    3 -     depends_on: [bb]
    3 +     depends_on: [b]
      |
    ");
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn a_missing_agent_is_found_before_anything_is_claimed() {
    for (words, why) in [
        ("no-such-agent", "`no-such-agent` is not on PATH"),
        ("./nowhere/agent", "`[repo]/nowhere/agent` does not exist; check the path"),
        ("./notes.txt", "`[repo]/notes.txt` is not executable; chmod +x it"),
    ] {
        let trial = TestProject::new().graph(DIAMOND).file("notes.txt", "x").command([words]);
        trial.run(["run"]).code(69).stderr(&format!(
            "ralph: error: the agent cannot be started: {why}; name another after `--`, or set \
             `agent` in `.ralph/config.yaml`\n"
        ));
        assert_eq!(trial.graph_text(), DIAMOND);
        assert!(!trial.root().join("logs").exists());
    }
}

#[test]
fn claude_as_root_is_refused_with_the_cure() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root");
        return;
    }
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let path = crate::support::disguised(&trial, "commit", "claude");
    let trial = trial.env("PATH", &path);
    trial.run(["run"]).code(69).stderr(
        "ralph: error: `claude` refuses `--dangerously-skip-permissions` as root; run as another \
         user, or set `IS_SANDBOX=1` if this machine is a sandbox\n",
    );
    assert_eq!(trial.status("a"), "pending");
    let trial = trial.env("IS_SANDBOX", "1");
    trial.run(["run"]).graph_complete();
    let agent = &trial.lines("loop_started")[0]["agent"];
    assert_eq!(
        *agent,
        serde_json::json!([
            "claude",
            "-p",
            "--dangerously-skip-permissions",
            "--disallowedTools",
            "EnterWorktree,ScheduleWakeup,CronCreate,Monitor",
            "--settings",
            "{\"crossSessionInbound\":\"refuse\"}",
            "--output-format",
            "stream-json",
            "--verbose"
        ])
    );
}

#[test]
fn a_second_run_is_told_who_is_first() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("gate");
    let first = trial.start(["run"]);
    crate::support::wait_for(&trial.sign("waiting-a"));
    trial.run(["run"]).code(5).stderr(
        "ralph: error: another ralph runs in this repository: process [pid], run [run], working \
         on `a`, since [when]\n",
    );
    trial.leave("open");
    first.end(&trial).graph_complete();
    assert_eq!(trial.lines("loop_started").len(), 1);
}

#[test]
fn it_works_from_a_subfolder_and_with_a_graph_of_another_name() {
    let trial = TestProject::new().file("plans/next.yaml", "tasks: [{id: a}]\n").agent("commit");
    trial.run(["run", "-C", "plans", "--graph", "plans/next.yaml"]).graph_complete();
    assert!(trial.read("plans/next.yaml").contains("status: complete"));
    assert!(!trial.root().join("plans/logs").exists(), "logs are at the top");
}

#[test]
fn a_repository_without_a_commit_is_worked_in() {
    let trial = TestProject::bare();
    trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
    trial.git(&["config", "user.name", "Tess"]);
    trial.git(&["config", "user.email", "tess@example.invalid"]);
    trial.write("task-graph.yaml", "tasks: [{id: a}]\n");
    let trial = trial.agent("commit");
    trial.run(["run"]).code(1).stderr(
        "ralph: error: attempts start from a branch: the repository has no commit; create the first \
         one, or use `--in-place`\n",
    );
    assert_eq!(trial.status("a"), "pending");
    trial.in_place().run(["run"]).graph_complete();
}

#[test]
fn another_worktree_of_the_repository_has_the_same_lock() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("gate");
    trial.git(&["worktree", "add", "--quiet", "../beside", "-b", "beside"]);
    let run = trial.start(["run"]);
    crate::support::wait_for(&trial.sign("waiting-a"));
    trial.run(["run", "-C", "../beside"]).code(5);
    trial.leave("open");
    run.end(&trial).graph_complete();
}

#[test]
fn a_folder_with_blanks_and_quotes_is_a_folder_like_any_other() {
    let trial = TestProject::bare();
    trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet", "it's a \"place\""]);
    trial.write("it's a \"place\"/task-graph.yaml", "tasks: [{id: a}]\n");
    let place = "it's a \"place\"";
    for (name, value) in [("user.name", "Tess"), ("user.email", "tess@example.invalid")] {
        trial.git(&["-C", place, "config", name, value]);
    }
    trial.git(&["-C", place, "add", "."]);
    trial.git(&["-C", place, "commit", "--quiet", "--message", "Set the stage"]);
    let trial = trial.agent("done-file");
    trial.run(["run", "-C", place]);
    assert!(trial.read(&format!("{place}/task-graph.yaml")).contains("status: complete"));
    assert!(trial.root().join(format!("{place}.slots/1")).exists());
}

#[test]
fn control_characters_in_commit_subjects_are_escaped() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command([
        "sh",
        "-c",
        "cat > said.txt; git add said.txt; git commit -q -m \"$(printf 'Say \"hi\"\\033[31m\\n\\nbody')\"; \
         \"$RALPH\" task-complete a",
    ]);
    trial.run(["run"]).stderr_has(" −0  Say \"hi\"\\u{1b}[31m\n");
    assert_eq!(trial.lines("completed")[0]["commits"][0]["subject"], "Say \"hi\"\u{1b}[31m");
}
