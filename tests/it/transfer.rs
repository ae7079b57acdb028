//! `ralph __work`: work on its way to another machine and back, with kills where state changes.

use std::{
    fs,
    io::Write,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use ralph::adapters::git::{Repo, WorkerSlot, WorkerStore};
use serde_json::{Value, json};

use crate::support::{RALPH, TestProject};

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
        let main = Repo::discover(trial.root()).unwrap();
        let base = main.head().unwrap().commit.unwrap().to_string();
        let settings = main.slots().settings().unwrap();
        let slot = main.slots().make(&trial.sign("slot"), &settings, &base).unwrap();
        let slot = main.slots().start(&slot, &settings, &base, "ralph/x").unwrap();
        fs::write(slot.root().join("left"), "by an earlier attempt\n").unwrap();
        let store = WorkerStore::open(&trial.sign("worker"), "repo").unwrap();
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

    /// Runs a step with this input, and with a kill at this point if it is not empty.
    fn work(&self, step: &str, token: &str, input: &[u8], deadly: &str) -> Output {
        let record = self.trial.sign("passed");
        let _ = fs::remove_file(&record);
        let mut command = self.trial.process(RALPH);
        command.args(["__work", step]).arg(self.spec(token));
        command.env("RALPH_CRASH_RECORD", record).env("RALPH_CRASH_POINT", deadly);
        let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
        let [stdin, stdout, stderr] = pipes;
        let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
        // It may be killed before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    fn pack(&self, token: &str) -> Vec<u8> {
        let have = self.store.have().unwrap().join("\n");
        let output = self.work("pack", token, have.as_bytes(), "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn send(&self, token: &str) -> WorkerSlot {
        let there = self.store.slot("1", token).unwrap();
        there.apply(&mut &*self.pack(token)).unwrap();
        there
    }

    fn unpack(&self, token: &str, pack: &[u8]) -> Value {
        let output = self.work("unpack", token, pack, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
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
    let there = project.send("t1");
    project.edit(there.dir());
    let mut pack = Vec::new();
    there.pack(&there.sent(), &mut pack).unwrap();
    assert_eq!(project.unpack("t1", &pack)["arrival"], "moved");
    project.assert_edited();
    assert_eq!(project.unpack("t1", &pack)["arrival"], "unchanged");
    assert_eq!(project.stale(), "");
    let other = project.unpack("t2", &pack);
    assert_eq!(
        (&other["arrival"], &other["kept"]),
        (&json!("other_token"), &project.stale().into())
    );
    // A pack for which this side lacks a commit has its own exit code.
    let absent = "1".repeat(project.base.len());
    let end = pack.iter().position(|byte| *byte == b'\n').unwrap();
    let mut header: Value = serde_json::from_slice(&pack[..end]).unwrap();
    header["base"] = json!([absent]);
    let lacking = [header.to_string().as_bytes(), &pack[end..]].concat();
    let output = project.work("unpack", "t1", &lacking, "");
    assert_eq!(output.status.code(), Some(65));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said, json!({"arrival": "lacking", "commits": [absent]}));
    // A pack that is cut off is an error.
    let output = project.work("unpack", "t1", &pack[..pack.len() / 2], "");
    assert_eq!(output.status.code(), Some(1));
    project.assert_edited();
}

#[cfg(debug_assertions)]
#[test]
fn a_kill_loses_no_work() {
    let points = ["arrived", "kept", "filled", "moved"];
    for deadly in points.map(|point| format!("transfer.{point}:1")) {
        let project = TransferProject::new();
        let there = project.send("t1");
        project.edit(there.dir());
        let mut pack = Vec::new();
        there.pack(&there.sent(), &mut pack).unwrap();
        let killed = project.work("unpack", "t1", &pack, &deadly);
        assert_eq!(killed.status.signal(), Some(9), "{deadly}");
        // Once the objects are here, a ref keeps them, or the slot has the work.
        if deadly.contains("kept") || deadly.contains("filled") {
            assert_eq!(project.stale(), "refs/ralph/stale/t1");
        }
        // The worker still has it, and the next call takes it on.
        let unpacked = project.unpack("t1", &pack);
        assert!(["moved", "unchanged"].contains(&unpacked["arrival"].as_str().unwrap()));
        project.assert_edited();
        let again = project.send("t1-next");
        assert_eq!(fs::read(again.dir().join("b")).unwrap(), b"work\n");
    }
    // A kill while it is packed: nothing has changed.
    let project = TransferProject::new();
    let killed = project.work("pack", "t1", b"", "transfer.noted:1");
    assert_eq!(killed.status.signal(), Some(9));
    let there = project.send("t1");
    project.edit(there.dir());
}
