//! Faults around an attempt: stale locks, a damaged graph, failing logs and disks.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::support::{DIAMOND, TestProject, until};

#[test]
fn locks_of_a_killed_git_are_removed() {
    for trial in [TestProject::new(), TestProject::new().in_place()] {
        let trial = trial.graph("tasks: [{id: a}]\n").chaos("d3");
        trial
            .run(["run", "-v", "--timeout", "1s"])
            .graph_complete()
            .stderr_has("removed lock files of a killed git: .git/index.lock, ");
        let left = &trial.lines("failed")[0]["unlocked"];
        assert_eq!(*left, json!([".git/index.lock", ".git/refs/heads/main.lock"]));
        assert_eq!(trial.tasks("completed"), ["a"]);
    }
}

#[test]
fn a_lock_that_was_there_before_is_not_touched() {
    let trial = TestProject::new().in_place().graph("tasks: [{id: a}]\n").agent("commit");
    trial.write(".git/index.lock", "");
    // It looks as new as one of the attempt, however long that takes to start.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(600);
    File::open(trial.root().join(".git/index.lock")).unwrap().set_modified(later).unwrap();
    trial.run(["run", "--once", "-q"]).code(1);
    assert!(trial.root().join(".git/index.lock").exists());
    assert!(trial.lines("failed")[0].get("unlocked").is_none());
    fs::remove_file(trial.root().join(".git/index.lock")).unwrap();
    trial.run(["run", "-q"]);
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn the_advice_fits_what_holds() {
    for (task, code, advice) in [
        ("status: blocked", 3, "    `ralph task-reset a`"),
        ("status: cancelled", 3, "or remove it from the `depends_on` of the tasks that wait on it"),
        ("status: needs-input", 4, "    `ralph answer a \"…\"`"),
        ("status: in-progress", 3, "if nothing works on it, `ralph task-reset a`"),
        ("tags: [x]", 3, "run again with `--task a`, or without the restriction"),
    ] {
        let text = format!("tasks:\n  - {{id: a, {task}}}\n  - {{id: b, depends_on: [a]}}\n");
        let trial = TestProject::new().graph(&text).agent("commit");
        trial.run(["run", "--task", "b"]).code(code).stderr_has(advice);
    }
}

#[test]
fn a_filter_that_hangs_at_the_start_of_a_run_is_named() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let trial = trial.file("data", "1\n").file(".gitattributes", "data filter=slow\n");
    let clean = "until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.05; done; cat";
    trial.git(&["config", "filter.slow.clean", clean]);
    trial.write("data", "2\n");
    let trial = trial.env("RALPH_FIXED_LIMIT", "60s");
    let run = trial.start(["run"]);
    until("git is said to hang", || run.said().contains("git still looks for changes"));
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_task_in_progress_that_nobody_claimed_is_parked_and_needs_a_person() {
    let trial = TestProject::new().graph("tasks: [{id: a, status: in-progress}, {id: b}]\n");
    trial.run(["dag-status"]).stdout_has("1 parked, 1 ready");
    let status = trial.run(["status", "--json"]).json();
    assert_eq!(status["attention"][0]["kind"], "claimed");
    assert_eq!(
        (&status["left"]["in_progress"], &status["headline"]["needs"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_graph_wrecked_by_an_agent_is_put_back() {
    let graph = "tasks:\n  - id: a # mine\n";
    let trial = TestProject::new().in_place().graph(graph).chaos("work,report,c3:cut");
    trial.run(["run"]).graph_complete();
    let told = trial.lines("graph_guarded").remove(0);
    assert_eq!((&told["what"], &told["undone"]), (&"damaged".into(), &true.into()));
    assert_eq!(told["kept"], "logs/attempts/a/1/graph.damaged.yaml");
    assert_eq!(trial.read("logs/attempts/a/1/graph.damaged.yaml"), "tasks:\n  - id: [");
    assert!(trial.graph_text().starts_with("tasks:\n  - id: a # mine\n    status: complete\n"));
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_deleted_graph_is_put_back() {
    let trial = TestProject::new().in_place().graph(DIAMOND).chaos("work,report,c3:delete");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    let told = trial.lines("graph_guarded");
    assert_eq!((told.len(), &told[0]["what"]), (1, &"deleted".into()));
    assert!(trial.graph_text().contains("# The order of the file is not the order of the work."));
}

#[test]
fn an_emptied_graph_is_put_back() {
    let trial = TestProject::new().in_place().graph(DIAMOND).chaos("work,report,c3:empty");
    trial.run(["run"]).graph_complete();
    trial.assert_record("graph_guarded", &json!({"what": "damaged", "undone": true}));
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    assert_eq!(trial.read("logs/attempts/start/1/graph.damaged.yaml"), "");
}

#[test]
fn an_unreadable_graph_during_an_attempt_does_not_stop_the_run() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let whole = trial.graph_text();
    trial.save("task-graph.yaml", "tasks: [");
    // Without a request the run would read the file at its next beat, ten seconds later.
    trial.run(["pause"]);
    trial.wait_for_records(1, "file_rejected");
    trial.run(["resume"]);
    until("it still turns", || run.said().contains("resumed"));
    trial.save("task-graph.yaml", &whole);
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("file_rejected").len(), 1);
    assert!(trial.lines("graph_guarded").is_empty());
}

#[test]
fn other_tasks_that_an_agents_commit_finishes_are_put_back() {
    let graph = "tasks:\n  - id: a\n  - id: b\n    status: pending\n  - id: c\n    \
                 status: pending # late\n";
    let trial = TestProject::new().in_place().graph(graph).chaos("c4:finish");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
    let told = &trial.lines("graph_guarded")[0];
    assert_eq!((&told["what"], &told["tasks"]), (&"finished".into(), &json!(["b", "c"])));
    let causes: Vec<_> = trial.lines("status_changed").iter().map(|l| l["cause"].clone()).collect();
    assert!(causes.contains(&"put_back".into()), "{causes:?}");
}

#[test]
fn a_status_that_is_not_committed_may_be_a_persons() {
    let graph = "tasks:\n  - id: a\n  - id: b\n    status: pending\n";
    let trial = TestProject::new().graph(graph).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.save("task-graph.yaml", &trial.graph_text().replace("pending", "cancelled"));
    trial.leave("open");
    run.end(&trial).graph_complete();
    let change = json!({"task_id": "b", "new": "cancelled", "cause": "edited_during_attempt"});
    trial.assert_record("status_changed", &change);
    assert_eq!(trial.status("b"), "cancelled");
    assert!(trial.lines("graph_guarded").is_empty());
}

#[test]
fn tasks_that_an_agents_commit_drops_come_back() {
    let graph =
        "tasks:\n  - id: a\n    priority: high\n  - id: b # keep\n  - id: c\n    depends_on: [b]\n";
    let trial = TestProject::new().in_place().graph(graph).chaos("c4:drop");
    trial.run(["run"]).graph_complete();
    trial.assert_record(
        "graph_guarded",
        &json!({"what": "dropped", "tasks": ["b", "c"], "undone": true,
               "kept": "logs/attempts/a/1/graph.damaged.yaml"}),
    );
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
    assert!(trial.graph_text().contains("- id: b # keep\n"));
}

#[test]
fn logs_that_lead_elsewhere_are_refused() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    fs::create_dir(trial.sign("elsewhere")).unwrap();
    symlink(trial.sign("elsewhere"), trial.root().join("logs")).unwrap();
    trial.run(["run"]).code(74).stderr_has(
        "ralph: error: `logs` is a link to `[trial]/elsewhere`, which is not in the repository; \
         remove the link, and `ralph` will write a file or folder of its own\n",
    );
    assert_eq!(fs::read_dir(trial.sign("elsewhere")).unwrap().count(), 0);
    assert_eq!(trial.status("a"), "pending");
}

#[test]
fn logs_deleted_during_a_run_are_recreated() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_run() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    trial.write("logs", "not a folder");
    trial.leave("open");
    run.end(&trial).code(74).stderr_has("`[repo]/logs/ralph.jsonl`");
    fs::remove_file(trial.root().join("logs")).unwrap();
    trial.run(["run"]).graph_complete();
    let mut done = trial.tasks("completed");
    done.sort();
    assert_eq!(done, ["a", "b"]);
}

/// A small file system, unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    /// Returns `None`, and prints why, where mounting is not allowed.
    fn at(path: &Path, size: &str) -> Option<Disk> {
        let options = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Disk(path.to_owned()));
        }
        println!("skipped: nothing can be mounted here");
        None
    }

    fn remount(&self, how: &str) {
        let status = Command::new("mount").args(["-o", how]).arg(&self.0).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_the_run_and_costs_nothing() {
    let trial = TestProject::bare();
    let Some(disk) = Disk::at(trial.root(), "8m") else { return };
    let graph = "tasks:\n  - id: a # mine\n  - id: b\n";
    // The slots are on the same disk.
    let trial = trial.repository().graph(graph).chaos("work,report,fill");
    let trial = trial.env("RALPH_SLOT_DIR", ".slots");
    let said = trial.run(["run"]).code(74).stderr_has("ralph: error: disk full: cannot ").whole();
    assert!(said.contains("free some space and run again"), "{said}");
    assert_eq!(trial.graph_text(), graph);
    trial.run(["run"]).code(74);
    assert!(trial.lines("completed").is_empty());

    fs::remove_file(trial.root().join(".slots/1/repo/filler")).unwrap();
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b"]);

    disk.remount("remount,ro");
    trial.run(["run"]).code(74);
    trial.run(["dag-status"]);
    disk.remount("remount,rw");
}

#[test]
fn a_full_disk_of_slots_stops_the_run_before_attempts_are_used_up() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n");
    let slots = trial.dir().join("disk");
    fs::create_dir(&slots).unwrap();
    let Some(disk) = Disk::at(&slots, "96k") else { return };
    let agent = "cat > /dev/null; echo w > $RALPH_TASK_ID; git add -A; git commit -qm w; \
                 \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = trial.command(["sh", "-c", agent]);
    let trial = trial.env("RALPH_SLOT_DIR", slots.join("s").to_str().unwrap());
    fs::write(slots.join("filler"), vec![0; 90_000]).unwrap();
    trial.run(["run"]).code(74).stderr_has("disk full: cannot ");
    assert_eq!((trial.tasks("failed").len(), trial.tasks("parked").len()), (0, 0));
    fs::remove_file(slots.join("filler")).unwrap();
    disk.remount("remount,size=8m");
    trial.run(["run"]).graph_complete();
}
