//! `ralph __work`: work on its way to another machine and back, with kills where state changes.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use ralph::adapters::git::{GitService, PushRule, Repo, WorkerSlot, WorkerStore};
use serde_json::json;

use crate::support::{RALPH, TestProject};

/// More than any work here has.
const ALL: &str = "100000000";

/// A repository with a slot for an attempt, and a worker in the same process.
struct TransferProject {
    trial: TestProject,
    main: Repo,
    slot: Repo,
    base: String,
    store: WorkerStore,
}

impl TransferProject {
    fn new() -> TransferProject {
        let trial = TestProject::new().file("a", "1\n").file("gone", "1\n");
        // This process reads the settings of git that the commands of the test do not have.
        trial.git(&["config", "core.autocrlf", "false"]);
        let main = Repo::discover(trial.root()).unwrap();
        let base = main.head().unwrap().commit.unwrap().to_string();
        let settings = main.slots().settings(PushRule::Refuse).unwrap();
        let slot = main.slots().make(&trial.sign("slot"), &settings, &base).unwrap();
        let slot = main.slots().start(&slot, &settings, &base, "ralph/x").unwrap();
        fs::write(slot.root().join("left"), "by an earlier attempt\n").unwrap();
        let store = WorkerStore::open(&trial.sign("worker"), "repo", false).unwrap();
        TransferProject { trial, main, slot, base, store }
    }

    fn spec(&self, token: &str) -> PathBuf {
        let file = self.trial.sign("spec.json");
        let spec = json!({
            "slot": self.slot.root(), "main": self.main.root(), "token": token,
            "expected_base": self.base,
        });
        fs::write(&file, spec.to_string()).unwrap();
        file
    }

    /// Runs a step with git at the store at the other end, and with a kill at this point if it is not
    /// empty. The words of the other end are cut off at this length.
    fn work(&self, step: &str, token: &str, deadly: &str, length: &str) -> Output {
        let record = self.trial.sign("passed");
        let _ = fs::remove_file(&record);
        let service = if step == "send" { GitService::Receive } else { GitService::Upload };
        let argv = self.store.command(service).unwrap();
        let mut git = Command::new(&argv[0]);
        git.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut git = git.spawn().unwrap();
        let mut pass = Command::new("dd");
        pass.args(["bs=1", "status=none", &format!("count={length}")]);
        pass.stdin(git.stdout.take().unwrap()).stdout(Stdio::piped());
        let mut pass = pass.spawn().unwrap();
        let mut command = self.trial.process(RALPH);
        command.args(["__work", step]).arg(self.spec(token));
        command.env("RALPH_CRASH_RECORD", record).env("RALPH_CRASH_POINT", deadly);
        command.stdin(pass.stdout.take().unwrap()).stdout(git.stdin.take().unwrap());
        let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        drop(command);
        git.wait().unwrap();
        pass.wait().unwrap();
        output
    }

    fn send(&self, token: &str) -> WorkerSlot {
        let mut there = self.store.slot("1", token).unwrap();
        let output = self.work("send", token, "", ALL);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        there.take_arrived().unwrap();
        there
    }

    /// Fetches the work, and returns what is said about it.
    fn fetch(&self, token: &str) -> String {
        let output = self.work("fetch", token, "", ALL);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    }

    fn git(&self, dir: &Path, arguments: &[&str]) -> String {
        let output = self.trial.process("git").arg("-C").arg(dir).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Does what an agent does: commits, changes, removes.
    fn edit(&self, dir: &Path) {
        fs::write(dir.join("b"), "work\n").unwrap();
        self.git(dir, &["add", "b"]);
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"];
        self.git(dir, &[&identity[..], &["commit", "-q", "-m", "Work"]].concat());
        fs::write(dir.join("a"), "changed\n").unwrap();
        fs::remove_file(dir.join("gone")).unwrap();
        fs::create_dir(dir.join("gone")).unwrap();
        fs::write(dir.join("gone/x"), "").unwrap();
    }

    /// Asserts that the slot has the work of [`edit`](Self::edit).
    fn assert_edited(&self) {
        let dir = self.slot.root();
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let files = ["b", "a", "gone/x", "left"].map(read);
        assert_eq!(files, ["work\n", "changed\n", "", "by an earlier attempt\n"]);
        assert_eq!(self.git(dir, &["log", "-1", "--format=%s"]), "Work");
        assert_eq!(self.git(dir, &["symbolic-ref", "HEAD"]), "refs/heads/ralph/x");
        let status = self.git(dir, &["status", "--porcelain", "-uall"]);
        assert_eq!(status, "M a\n D gone\n?? gone/x\n?? left");
    }

    fn stale(&self) -> String {
        self.git(self.main.root(), &["for-each-ref", "--format=%(refname)", "refs/ralph/stale"])
    }
}

#[test]
fn the_commands_carry_work_over_pipes() {
    let project = TransferProject::new();
    let mut there = project.send("t1");
    project.edit(there.dir());
    there.offer().unwrap();
    // A line that is cut leaves nothing.
    let before = project.git(project.slot.root(), &["count-objects", "-v"]);
    let output = project.work("fetch", "t1", "", "300");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(project.git(project.slot.root(), &["count-objects", "-v"]), before);
    assert!(!project.slot.git_dir().join("ralph-incoming").exists());
    for _ in 0..2 {
        assert_eq!(project.fetch("t1"), "");
        project.assert_edited();
    }
    assert_eq!(project.stale(), "");
    there.note_fetched().unwrap();
    project.git(there.dir(), &["checkout", "-q", "--orphan", "fresh"]);
    project.git(there.dir(), &["commit", "-q", "-m", "Fresh"]);
    there.offer().unwrap();
    let said = project.fetch("t1");
    assert!(said.contains("does not descend") && said.contains("refs/ralph/stale/t1"), "{said}");
    assert_eq!(project.stale(), "refs/ralph/stale/t1");
    project.assert_edited();
}

#[cfg(debug_assertions)]
#[test]
fn a_kill_loses_no_work() {
    for deadly in ["arrived", "filled", "moved"].map(|point| format!("transfer.{point}:1")) {
        let project = TransferProject::new();
        let mut there = project.send("t1");
        project.edit(there.dir());
        there.offer().unwrap();
        let killed = project.work("fetch", "t1", &deadly, ALL);
        assert_eq!(killed.status.signal(), Some(9), "{deadly}");
        // The worker still has it, and the next call takes it on.
        assert_eq!(project.fetch("t1"), "", "{deadly}");
        project.assert_edited();
        there.note_fetched().unwrap();
        drop(there);
        let again = project.send("t1-next");
        assert_eq!(fs::read(again.dir().join("b")).unwrap(), b"work\n");
    }
    // A kill while it is sent: nothing has changed.
    let project = TransferProject::new();
    let there = project.store.slot("1", "t1").unwrap();
    let killed = project.work("send", "t1", "transfer.noted:1", ALL);
    assert_eq!(killed.status.signal(), Some(9));
    drop(there);
    let there = project.send("t1");
    project.edit(there.dir());
}
