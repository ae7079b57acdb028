//! What goes wrong around an attempt: locks left behind, a damaged graph, logs and disks that fail.

use std::fs;

use crate::support::Workspace;

#[test]
fn locks_of_a_killed_git_are_removed() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("lock");
    trial.run(["run", "--timeout", "1s"]).stderr_has(
        "removed what a killed git had left: .git/index.lock, .git/refs/heads/main.lock",
    );
    let left = &trial.lines("failed")[0]["unlocked"];
    assert_eq!(*left, serde_json::json!([".git/index.lock", ".git/refs/heads/main.lock"]));
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
    for (task, advice) in [
        ("status: blocked", "once `a` may go on, set its `status` back to `pending`"),
        ("status: cancelled", "take `a` out of the `depends_on` of what waits for it"),
        ("status: needs-input", "answer in the description of `a`, then `ralph task-reset a`"),
        ("status: in-progress", "if nobody works on it, `ralph task-reset a`"),
        ("tags: [x]", "run again with `--task a`, or without the restriction"),
    ] {
        let text = format!("tasks:\n  - {{id: a, {task}}}\n  - {{id: b, depends_on: [a]}}\n");
        let trial = Workspace::new().graph(&text).agent("commit");
        trial.run(["run", "--task", "b"]).code(3).stderr_has(advice);
    }
}
