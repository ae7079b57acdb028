//! Agents whose files are sent to them, and whose work is sent back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ralph::{
    adapters::{
        git::{PushRule, Repo},
        process::{GuardianCommand, ProcessSpec, StartFault, WorkTransfer, WorkerFiles},
    },
    core::verdict::Outcome,
};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{CALL, CarriedAgent, FarHost, Underway, child_of, exited, pid, why};
use crate::support::{RALPH, TestProject, until, wait_for};

/// A repository with a slot, whose agents run at a far host.
struct SentProject {
    project: TestProject,
    slot: PathBuf,
    host: FarHost,
}

impl SentProject {
    fn new() -> SentProject {
        let project = TestProject::new().file("given", "given\n").file(".gitignore", "cache\n");
        // Git also runs in this process, with the settings of the user.
        project.git(&["config", "core.autocrlf", "false"]);
        let main = Repo::discover(project.root()).unwrap();
        let settings = main.slots().settings(PushRule::Refuse).unwrap();
        let base = main.head().unwrap().commit.unwrap();
        let slot = project.dir().join("slots/1");
        fs::create_dir(project.dir().join("slots")).unwrap();
        let made = main.slots().make(&slot, &settings, &base).unwrap();
        main.slots().start(&made, &settings, &base, "ralph/a").unwrap();
        let host = FarHost::start(&project.dir().join("host"));
        SentProject { project, slot, host }
    }

    /// An agent of the attempt with this token, which runs a script.
    fn agent(&self, token: &str, script: &str) -> CarriedAgent {
        let mut agent = CarriedAgent::new("");
        let text = |path: &Path| path.display().to_string();
        let task = self.task_dir();
        fs::create_dir_all(&task).unwrap();
        let env = [
            ("RALPH_ATTEMPT_ID", "r1.a.1".to_owned()),
            ("RALPH_TASK_DIR", text(&task)),
            ("RALPH_SLOT", text(&self.slot)),
        ];
        agent.spec = ProcessSpec {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            dir: self.slot.clone(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            ..agent.spec
        };
        let spec = agent.folder.path().join("work.json");
        let base = self.project.git(&["rev-parse", "main"]);
        let work = json!({
            "slot": self.slot, "main": self.project.root(), "token": token,
            "expected_base": base.trim(),
        });
        fs::write(&spec, work.to_string()).unwrap();
        let step = |step: &str| vec![RALPH.into(), "__work".into(), step.into(), text(&spec)];
        agent.argv = self.host.carrier();
        agent.transfer = Some(WorkTransfer {
            files: WorkerFiles {
                repository: "top".to_owned(),
                slot: "1".to_owned(),
                dir: None,
                token: token.to_owned(),
                is_sha256: false,
                is_set_up: false,
            },
            send: step("send"),
            fetch: step("fetch"),
        });
        agent
    }

    fn task_dir(&self) -> PathBuf {
        self.project.root().join(".ralph/tasks/a")
    }

    /// The folder of the worker.
    fn far(&self) -> PathBuf {
        self.host.dir.join("home/.cache/ralph/top")
    }

    fn git(&self, words: &[&str]) -> String {
        let output = self.project.process("git").arg("-C").arg(&self.slot).args(words).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    fn subjects(&self) -> Vec<String> {
        self.git(&["log", "--format=%s", "main..HEAD"]).lines().map(str::to_owned).collect()
    }

    /// The processes that work in a slot of the worker.
    fn at_work(&self) -> usize {
        let far = self.far();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let cwd = all.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok());
        cwd.filter(|cwd| cwd.starts_with(&far)).count()
    }

    /// The agent commits and waits, and then the line is cut.
    fn lose(&self, agent: &CarriedAgent, cut: impl Fn(&Underway)) -> String {
        let running = agent.start().arrived();
        wait_for(&self.far().join("slots/1/cache/up"));
        cut(&running);
        let why = why(running.closed());
        until("nothing is at work", || self.at_work() == 0);
        why
    }
}

/// What ends a line.
type LineCut = fn(&SentProject, &Underway);

/// Commits, starts a child that leaves its group, and waits.
const WORK: &str = "echo more > made; git add made; git commit -qm Made; echo left > left\n\
                    mkdir -p cache; mkfifo cache/never; setsid sh -c 'read -r _ < cache/never' &\n\
                    : > cache/up; read -r _ < cache/never\n";

#[test]
fn work_and_reports_come_back() {
    let top = SentProject::new();
    let script = "cat; cat given; echo more > made; git add made; git commit -qm Made\n\
                  echo changed > given; echo left > left; mkdir cache; echo big > cache/big\n\
                  cat \"$TASK_FOLDER/notes.md\"; echo two >> \"$RALPH_TASK_DIR/notes.md\"\n\
                  : > .ralph/tasks/a/DONE; echo \"$RALPH_SLOT $GIT_CEILING_DIRECTORIES $PWD\"\n";
    let mut agent = top.agent("t1", script);
    let extra = [("TASK_FOLDER", top.task_dir()), ("GIT_CEILING_DIRECTORIES", "/x".into())];
    agent.spec.env.extend(extra.map(|(name, dir)| (name.to_owned(), dir.display().to_string())));
    fs::write(top.task_dir().join("notes.md"), "one\n").unwrap();
    fs::write(top.slot.join("given"), "edited here\n").unwrap();
    assert_eq!(agent.run().outcome, Some(exited(0)), "{}", agent.read("stderr"));
    assert_eq!(top.subjects(), ["Made"]);
    assert_eq!(fs::read_to_string(top.slot.join("given")).unwrap(), "changed\n");
    assert_eq!(fs::read_to_string(top.slot.join("left")).unwrap(), "left\n");
    assert!(!top.slot.join("cache").exists(), "ignored files stay there");
    assert!(top.task_dir().join("DONE").is_file());
    assert_eq!(fs::read_to_string(top.task_dir().join("notes.md")).unwrap(), "one\ntwo\n");
    let slots = top.far().join("slots");
    let (slots, slot) = (slots.display(), slots.join("1"));
    let slot = slot.display();
    let want = format!("the prompt\nedited here\none\n{slot} {slots} {slot}\n");
    assert_eq!(agent.read("stdout"), want);
    // The next process of the attempt finds everything, also what git ignores.
    let check = top.agent("t1", "cat made left cache/big; ls .ralph/tasks/a; rm left\n");
    assert_eq!(check.run().outcome, Some(exited(0)));
    assert_eq!(check.read("stdout"), "more\nleft\nbig\nDONE\nnotes.md\n");
    assert!(!top.slot.join("left").exists());
    // The next attempt does not find the report of this one.
    fs::remove_file(top.task_dir().join("DONE")).unwrap();
    let next = top.agent("t2", "ls .ralph/tasks/a; cat cache/big\n");
    assert_eq!(next.run().outcome, Some(exited(0)));
    assert_eq!(next.read("stdout"), "notes.md\nbig\n");
    assert!(!top.task_dir().join("DONE").exists());
}

#[test]
fn work_of_a_lost_agent_is_fetched() {
    let cuts: [(&str, LineCut); 4] = [
        ("carrier", |_, running| {
            kill_process(pid(running.agent.identity().pid), Signal::KILL).unwrap();
        }),
        ("worker", |top, _| kill_process(top.host.worker(), Signal::KILL).unwrap()),
        ("guardian", |top, _| kill_process(child_of(top.host.worker()), Signal::KILL).unwrap()),
        ("both", |top, _| {
            let worker = top.host.worker();
            let guardian = child_of(worker);
            // Stopped first, so that neither sees the other die.
            for signal in [Signal::STOP, Signal::KILL] {
                kill_process(worker, signal).unwrap();
                kill_process(guardian, signal).unwrap();
            }
        }),
    ];
    for (what, cut) in cuts {
        let top = SentProject::new();
        top.lose(&top.agent("t1", WORK), |running| cut(&top, running));
        assert_eq!(top.subjects(), ["Made"], "{what}");
        assert_eq!(fs::read_to_string(top.slot.join("left")).unwrap(), "left\n", "{what}");
    }
}

#[test]
fn work_is_fetched_if_the_line_ends_between_the_agent_and_its_work() {
    // The first line ends when git there begins to send the work.
    let filter = "if [ -e \"$0/cut\" ]; then cat; \
                  else sed -u '/^{\"offers\"/,${/^{\"git\"/Q;}'; : > \"$0/cut\"; fi";
    let call = CALL.replace("cat \"$0/out.$$\"", &format!("{{ cat \"$0/out.$$\" | {filter}; }}"));
    let top = SentProject::new();
    let mut agent = top.agent("t1", "echo more > made; git add made; git commit -qm Made\n");
    agent.argv[2] = call;
    // The agent had ended there: its attempt is as if the line had lasted.
    assert_eq!(agent.run().outcome, Some(exited(0)));
    assert!(top.host.dir.join("cut").exists());
    assert_eq!(top.subjects(), ["Made"]);
}

#[test]
fn work_that_cannot_be_fetched_is_kept_as_stale_by_a_later_attempt() {
    let top = SentProject::new();
    top.lose(&top.agent("t1", WORK), |running| {
        let calls = top.host.dir.join("calls");
        fs::rename(&calls, top.host.dir.join("later")).unwrap();
        kill_process(pid(running.agent.identity().pid), Signal::KILL).unwrap();
        running.wait_for_fetch();
        running.agent.order(GuardianCommand::Kill);
    });
    assert_eq!(top.subjects(), [""; 0]);
    fs::rename(top.host.dir.join("later"), top.host.dir.join("calls")).unwrap();
    let next = top.agent("t2", "ls\n");
    assert_eq!(next.run().outcome, Some(exited(0)), "{}", next.read("stderr"));
    assert_eq!(next.read("stdout"), "cache\ngiven\n", "it starts from what is here");
    let refs = top.project.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/stale"]);
    assert!(refs.contains("refs/ralph/stale/t1"), "{refs}");
    let kept = top.project.git(&["ls-tree", "--name-only", refs.lines().next().unwrap()]);
    assert!(kept.contains("made") && kept.contains("left"), "{kept}");
}

#[test]
fn work_that_cannot_be_sent_or_fetched_is_told() {
    let top = SentProject::new();
    let fails =
        |why: &str| ["sh", "-c", &format!("echo '{why}' >&2; exit 1")].map(str::to_owned).to_vec();
    let mut agent = top.agent("t1", "echo ran\n");
    agent.transfer.as_mut().unwrap().send = fails("the slot is gone");
    let closed = agent.run();
    assert_eq!(closed.fault, Some(StartFault::Refused));
    assert!(why(closed).contains("the slot is gone"));
    let mut agent = top.agent("t2", "git commit -q --allow-empty -m Made\n");
    agent.transfer.as_mut().unwrap().fetch = fails("the disk is full");
    let running = agent.start().arrived();
    running.wait_for_fetch();
    running.agent.order(GuardianCommand::Kill);
    assert!(why(running.closed()).contains("the disk is full"));
    // The work of the agent waits there.
    let next = top.agent("t3", "true\n");
    assert_eq!(next.run().outcome, Some(exited(0)));
    let refs = top.project.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/stale"]);
    assert!(refs.contains("refs/ralph/stale/t2"), "{refs}");
}

#[test]
fn a_line_that_ends_while_work_is_sent_ends_both_sides() {
    let top = SentProject::new();
    let mut agent = top.agent("t1", "echo ran\n");
    let up = agent.folder.path().join("up");
    let hangs = format!(": > '{}'; exec sleep 600", up.display());
    agent.transfer.as_mut().unwrap().send = ["sh", "-c", &hangs].map(str::to_owned).to_vec();
    let running = agent.start();
    wait_for(&up);
    kill_process(pid(running.agent.identity().pid), Signal::KILL).unwrap();
    why(running.closed());
    top.host.all_workers_end();
    // Nothing of it is in the way of the next one.
    let next = top.agent("t1", "cat given\n");
    assert_eq!(next.run().outcome, Some(exited(0)), "{}", next.read("stderr"));
    assert_eq!(next.read("stdout"), "given\n");
}

#[test]
fn work_on_another_base_is_kept_and_told() {
    let top = SentProject::new();
    let script = "git checkout -q --orphan other; git commit -qm Strayed\n";
    let agent = top.agent("t1", script);
    assert_eq!(agent.run().outcome, Some(exited(0)));
    assert_eq!(top.subjects(), [""; 0]);
    let said = agent.read("stderr");
    let kept = said.split('`').nth(1).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(top.project.git(&["log", "-1", "--format=%s", kept]), "Strayed\n");
}

#[test]
fn two_attempts_that_want_the_same_slot_get_two() {
    let top = SentProject::new();
    let one = top.agent("t1", WORK);
    let running = one.start().arrived();
    wait_for(&top.far().join("slots/1/cache/up"));
    let other = top.agent("t2", "echo \"${RALPH_SLOT##*/}\"\n");
    assert_eq!(other.run().outcome, Some(exited(0)));
    assert_ne!(other.read("stdout"), "1\n");
    running.agent.order(GuardianCommand::Kill);
    assert_eq!(running.closed().outcome, Some(Outcome::Signaled { signal: 9 }));
    assert_eq!(top.subjects(), ["Made"], "what it did before is fetched");
}
