//! What goes wrong around an attempt: locks left behind, a damaged graph, logs and disks that fail.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::support::{DIAMOND, Workspace, until};

#[test]
fn locks_of_a_killed_git_are_removed() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").chaos("d3");
    trial.run(["run", "--timeout", "1s"]).stderr_has(
        "removed what a killed git had left: .git/index.lock, .git/refs/heads/main.lock",
    );
    let left = &trial.lines("failed")[0]["unlocked"];
    assert_eq!(*left, json!([".git/index.lock", ".git/refs/heads/main.lock"]));
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_lock_that_was_there_before_is_not_touched() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.write(".git/index.lock", "");
    trial.run(["run", "--once", "-q"]).whatever().code(1);
    assert!(trial.root().join(".git/index.lock").exists());
    assert!(trial.lines("failed")[0].get("unlocked").is_none());
    fs::remove_file(trial.root().join(".git/index.lock")).unwrap();
    trial.run(["run", "-q"]).whatever();
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn the_advice_fits_what_holds() {
    for (task, code, advice) in [
        ("status: blocked", 3, "to unblock `a`, set its `status` to `pending`"),
        ("status: cancelled", 3, "remove `a` from the `depends_on` of the tasks that wait on it"),
        ("status: needs-input", 4, "answer it with `ralph answer a \"…\"`"),
        ("status: in-progress", 3, "if nothing works on it, `ralph task-reset a`"),
        ("tags: [x]", 3, "run again with `--task a`, or without the restriction"),
    ] {
        let text = format!("tasks:\n  - {{id: a, {task}}}\n  - {{id: b, depends_on: [a]}}\n");
        let trial = Workspace::new().graph(&text).agent("commit");
        trial.run(["run", "--task", "b"]).code(code).stderr_has(advice);
    }
}

#[test]
fn a_graph_wrecked_by_an_agent_is_put_back() {
    let graph = "tasks:\n  - id: a # mine\n";
    let trial = Workspace::new().graph(graph).chaos("work,report,c3:cut");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  1 task, 0 complete
    [time]  Iteration 1 of 50 · a · P2 · attempt 1
    [time]    a
    [time]  the graph file cannot be read: task-graph.yaml:2:9: `[` is opened here and never closed
    [time]  the attempt left the graph file unreadable; the last good one is back; what it left is kept in logs/attempts/a/1/graph.damaged.yaml
    [time]  a complete in [took]: reported done, and committed
    [time]    [commit] Work on a
    [time]    1 file, +1 -0
    [time]    0 left
    [time]  the graph is complete (exit code 0)
    [time]  1 completed in 1 attempt, [took]; 1 of 1 complete
    [time]    + a: [commit] Work on a
    ");
    let told = trial.lines("graph_guarded").remove(0);
    assert_eq!((&told["what"], &told["undone"]), (&"damaged".into(), &true.into()));
    assert_eq!(told["kept"], "logs/attempts/a/1/graph.damaged.yaml");
    assert_eq!(trial.read("logs/attempts/a/1/graph.damaged.yaml"), "tasks:\n  - id: [");
    assert!(trial.graph_text().starts_with("tasks:\n  - id: a # mine\n    status: complete\n"));
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_deleted_graph_is_put_back() {
    let trial = Workspace::new().graph(DIAMOND).chaos("work,report,c3:delete");
    trial.run(["run"]).stderr_has("the attempt left no graph file; the last good one is back\n");
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    let told = trial.lines("graph_guarded");
    assert_eq!((told.len(), &told[0]["what"]), (1, &"deleted".into()));
    assert!(trial.graph_text().contains("# The order of the file is not the order of the work."));
}

#[test]
fn an_emptied_graph_is_put_back() {
    let trial = Workspace::new().graph(DIAMOND).chaos("work,report,c3:empty");
    trial.run(["run"]).stderr_has("graph file unreadable; the last good one is back");
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    assert_eq!(trial.read("logs/attempts/start/1/graph.damaged.yaml"), "");
}

#[test]
fn a_graph_that_is_unreadable_while_an_agent_works_stops_nobody() {
    let trial = Workspace::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let whole = trial.graph_text();
    trial.save("task-graph.yaml", "tasks: [");
    // Without a request it would look at the file with its next beat, ten seconds later.
    trial.run(["pause"]).whatever();
    until("the fault is told", || run.said().contains("cannot be read"));
    trial.run(["resume"]).whatever();
    until("it still turns", || run.said().contains("resumed"));
    trial.save("task-graph.yaml", &whole);
    trial.leave("open");
    run.end(&trial).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.lines("graph_rejected").len(), 1);
    assert!(trial.lines("graph_guarded").is_empty());
}

#[test]
fn other_tasks_that_an_agents_commit_finishes_are_put_back() {
    let graph = "tasks:\n  - id: a\n  - id: b\n    status: pending\n  - id: c\n    \
                 status: pending # late\n";
    let trial = Workspace::new().graph(graph).chaos("c4:finish");
    let said = "the attempt committed a graph in which b, c is complete or cancelled, which is not \
                its task; put back";
    trial.run(["run"]).stderr_has(said);
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
    let told = &trial.lines("graph_guarded")[0];
    assert_eq!((&told["what"], &told["tasks"]), (&"finished".into(), &json!(["b", "c"])));
    let causes: Vec<_> = trial.lines("status_changed").iter().map(|l| l["cause"].clone()).collect();
    assert!(causes.contains(&"put_back".into()), "{causes:?}");
}

#[test]
fn a_status_that_is_not_committed_may_be_a_persons() {
    let graph = "tasks:\n  - id: a\n  - id: b\n    status: pending\n";
    let trial = Workspace::new().graph(graph).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.save("task-graph.yaml", &trial.graph_text().replace("pending", "cancelled"));
    trial.leave("open");
    run.end(&trial).stderr_has("b: pending -> cancelled by an edit while an attempt ran");
    assert_eq!(trial.status("b"), "cancelled");
    assert!(trial.lines("graph_guarded").is_empty());
}

#[test]
fn tasks_that_an_agents_commit_drops_come_back() {
    let graph =
        "tasks:\n  - id: a\n    priority: high\n  - id: b # keep\n  - id: c\n    depends_on: [b]\n";
    let trial = Workspace::new().graph(graph).chaos("c4:drop");
    trial.run(["run"]).stderr_has(
        "the attempt committed a graph without b, c; the one from before it is back; what it left \
         is kept in logs/attempts/a/1/graph.damaged.yaml",
    );
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
    assert!(trial.graph_text().contains("- id: b # keep\n"));
}

#[test]
fn logs_that_lead_elsewhere_are_refused() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("commit");
    fs::create_dir(trial.sign("elsewhere")).unwrap();
    symlink(trial.sign("elsewhere"), trial.root().join("logs")).unwrap();
    trial.run(["run"]).code(74).stderr(
        "ralph: error: `logs` is a link to `[trial]/elsewhere`, which is not in the repository; \
         remove the link, and `ralph` will write a file or folder of its own\n",
    );
    assert_eq!(fs::read_dir(trial.sign("elsewhere")).unwrap().count(), 0);
    assert_eq!(trial.status("a"), "pending");
}

#[test]
fn logs_that_vanish_in_the_middle_begin_anew() {
    let trial = Workspace::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    trial.leave("open");
    run.end(&trial).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_run() {
    let trial = Workspace::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    trial.write("logs", "not a folder");
    trial.leave("open");
    run.end(&trial).code(74).stderr_has("`[repo]/logs/ralph.jsonl`");
    fs::remove_file(trial.root().join("logs")).unwrap();
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
    let mut done = trial.tasks("completed");
    done.sort();
    assert_eq!(done, ["a", "b"]);
}

/// A small disk of its own, gone when dropped.
struct Disk(PathBuf);

impl Disk {
    /// None, with a line, where nothing may be mounted.
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
    let trial = Workspace::bare();
    let Some(disk) = Disk::at(trial.root(), "8m") else { return };
    let graph = "tasks:\n  - id: a # mine\n  - id: b\n";
    let trial = trial.repository().graph(graph).chaos("work,report,fill");
    let said = trial.run(["run"]).code(74).stderr_has("ralph: error: disk full: cannot ").whole();
    assert!(said.contains("make room, then run again"), "{said}");
    assert!(trial.graph_text().starts_with("tasks:\n  - id: a # mine\n    status: in-progress\n"));
    trial.run(["run"]).code(74).stderr_has("disk full: cannot ");
    assert!(trial.lines("completed").is_empty());

    fs::remove_file(trial.root().join("filler")).unwrap();
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.tasks("completed"), ["a", "b"]);

    disk.remount("remount,ro");
    trial.run(["run"]).code(74).whatever();
    trial.run(["dag-status"]).whatever();
    disk.remount("remount,rw");
}
