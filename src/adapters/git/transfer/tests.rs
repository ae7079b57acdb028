//! Tests with real repositories on both sides.

#![cfg(test)]

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proptest::prelude::*;

use super::{worker::QUARANTINE, *};
use crate::adapters::git::{
    slot_settings::remove_all,
    tests::{TestRepository, TestSlots, said},
};

/// Everything in a folder except `.git`: kind or permissions, and content.
fn files(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if kind.is_symlink() {
                let to = fs::read_link(&path).unwrap();
                found.insert(name, (0, to.as_os_str().as_bytes().to_vec()));
            } else if kind.is_file() {
                let mode = kind.permissions().mode() & 0o111;
                found.insert(name, (mode | 0o1000, fs::read(&path).unwrap()));
            } else if kind.is_dir() && path.file_name() != Some(OsStr::new(".git")) {
                folders.push(path);
            }
        }
    }
    found
}

/// A repository with a slot, and a worker.
struct TransferTest {
    trees: TestSlots,
    slot: Repo,
    store: WorkerStore,
}

/// Waits until no other test has a line: each program that a test starts inherits the ends of all lines,
/// and two that wait for the end of each other's line wait forever.
fn only_line() -> MutexGuard<'static, ()> {
    static LINE: Mutex<()> = Mutex::new(());
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command of a store as the other end of a line.
fn served(store: &WorkerStore, service: GitService, call: impl FnOnce(&GitLine)) -> ExitStatus {
    let _only = only_line();
    let argv = store.command(service).unwrap();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut git = command.stderr(Stdio::null()).spawn().unwrap();
    let (stdin, stdout) = (git.stdin.take().unwrap(), git.stdout.take().unwrap());
    let line = GitLine::of(&stdout, &stdin).unwrap();
    drop((stdin, stdout));
    call(&line);
    drop(line);
    git.wait().unwrap()
}

/// Sends the work in a slot to a store.
fn push(slot: &Repo, store: &WorkerStore, token: &str) -> Result<()> {
    let mut sent = Ok(());
    served(store, GitService::Receive, |line| sent = slot.transfers().send_work(token, line));
    sent
}

/// Fetches a store's work for this token into a slot.
fn pull(
    slot: &Repo,
    main: &Repo,
    store: &WorkerStore,
    token: &str,
    base: &str,
) -> Result<FetchedWork> {
    let mut fetched = None;
    served(store, GitService::Upload, |line| {
        fetched = Some(slot.transfers().fetch_work(main, Some(base), token, line));
    });
    fetched.unwrap()
}

impl TransferTest {
    fn with(options: &[&str]) -> Option<TransferTest> {
        let trees = TestSlots::with(options)?;
        let main = trees.main();
        let slot = trees.add("1");
        let settings = main.slots().settings(PushRule::Refuse).unwrap();
        let slot = main.slots().start(&slot, &settings, &trees.first, "ralph/x").unwrap();
        let is_sha256 = trees.first.len() == 64;
        let store = WorkerStore::open(&trees.path("worker"), "top", is_sha256).unwrap();
        Some(TransferTest { trees, slot, store })
    }

    fn new() -> TransferTest {
        TransferTest::with(&[]).unwrap()
    }

    /// Sends the slot to the worker.
    fn send(&self, token: &str) -> WorkerSlot {
        let mut slot = self.store.slot("1", token).unwrap();
        push(&self.slot, &self.store, token).unwrap();
        slot.take_arrived().unwrap();
        slot
    }

    /// Fetches the store's work for this token.
    fn pull(&self, token: &str) -> Result<FetchedWork> {
        pull(&self.slot, &self.trees.main(), &self.store, token, &self.trees.first)
    }

    /// Fetches the work of the worker.
    fn fetch(&self, token: &str, slot: &mut WorkerSlot) -> FetchedWork {
        slot.offer().unwrap();
        let fetched = self.pull(token).unwrap();
        slot.note_fetched().unwrap();
        fetched
    }

    /// The commit that is kept as stale work under this name.
    fn stale(&self, name: &str) -> Option<CommitId> {
        self.trees.main().commit_of(&format!("{STALE_WORK}/{name}")).unwrap()
    }

    fn all_stale(&self) -> String {
        self.trees.place.git(&["for-each-ref", "--format=%(refname)", STALE_WORK])
    }

    /// The size of the objects of a store, in KiB.
    fn size_there(&self) -> u64 {
        let count = self.git(&self.trees.path("worker/top/store.git"), &["count-objects", "-v"]);
        let sizes = count.lines().filter_map(|line| {
            line.strip_prefix("size: ").or_else(|| line.strip_prefix("size-pack: "))
        });
        sizes.map(|size| size.parse::<u64>().unwrap()).sum()
    }

    fn git(&self, dir: &Path, arguments: &[&str]) -> String {
        self.trees.place.git_in(dir, arguments)
    }

    fn assert_same(&self, there: &WorkerSlot) {
        assert_eq!(files(self.slot.root()), files(there.dir()));
        for arguments in [&["rev-parse", "HEAD"][..], &["rev-parse", "--abbrev-ref", "HEAD"]] {
            let here = self.git(self.slot.root(), arguments);
            assert_eq!(here, self.git(there.dir(), arguments), "{arguments:?}");
        }
        // The index does not travel: a file that was staged and removed is a change here only.
        let state = |dir: &Path| {
            let state = Repo::discover(dir).unwrap().transfers().work_state().unwrap();
            WorkState { is_clean: true, ..state }
        };
        assert_eq!(state(self.slot.root()), state(there.dir()));
    }
}

#[test]
fn work_goes_there_and_comes_back() {
    for options in [&[][..], &["--object-format=sha256"]] {
        let Some(both) = TransferTest::with(options) else { continue };
        let here = both.slot.root();
        fs::write(here.join("new"), "1\n").unwrap();
        fs::write(here.join("a"), "changed\n").unwrap();
        let mut there = both.send("t1");
        both.assert_same(&there);
        // The agent commits one thing and leaves others.
        let dir = there.dir();
        fs::write(dir.join("b"), "work\n").unwrap();
        both.git(dir, &["add", "b"]);
        both.git(dir, &["commit", "-q", "-m", "Work", "b"]);
        fs::remove_file(dir.join("new")).unwrap();
        fs::create_dir(dir.join("new")).unwrap();
        symlink("/nowhere", dir.join("new/link")).unwrap();
        fs::write(dir.join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
        fs::set_permissions(dir.join("a"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(both.fetch("t1", &mut there), FetchedWork::default());
        both.assert_same(&there);
        assert_eq!(both.git(here, &["log", "--format=%s"]), "Work\nFirst");
        assert_eq!(both.trees.place.git(&["for-each-ref", "refs/ralph/stale"]), "");
        assert_eq!(both.fetch("t1", &mut there), FetchedWork::default());
        drop(there);
        let again = both.send("t1");
        both.assert_same(&again);
        drop(again);
        let other = both.send("t2");
        both.assert_same(&other);
        assert_eq!(both.all_stale(), "");
    }
}

/// A change of one file by an agent.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, usize),
    Append(usize),
    Remove(usize),
    Executable(usize, bool),
    Link(usize, usize),
    Rename(usize, usize),
    Commit,
    Stage,
    Branch(usize),
    Detach,
}

/// Paths that are files in some states and folders in others.
const PATHS: [&[u8]; 12] = [
    b"a",
    b"b",
    b"folder",
    b"folder/x",
    b"folder/deep",
    b"folder/deep/y",
    b"caf\xe9",
    b"caf\xe9/in it",
    b"quote\"d 'name'\n*",
    b"-dash",
    b"lines.txt",
    b"b/c",
];

const CONTENTS: [&[u8]; 6] =
    [b"", b"1\n", b"line\r\nline\r\n", b"mixed\r\nline\n", b"\0\xff\0\r\n", b"no end"];

const TARGETS: [&str; 4] = ["a", "folder", "/nowhere", "../outside"];

impl Edit {
    fn any() -> impl Strategy<Value = Edit> {
        let path = 0..PATHS.len();
        prop_oneof![
            6 => (path.clone(), 0..CONTENTS.len()).prop_map(|(at, text)| Edit::Write(at, text)),
            2 => path.clone().prop_map(Edit::Append),
            3 => path.clone().prop_map(Edit::Remove),
            2 => (path.clone(), any::<bool>()).prop_map(|(at, on)| Edit::Executable(at, on)),
            2 => (path.clone(), 0..TARGETS.len()).prop_map(|(at, to)| Edit::Link(at, to)),
            2 => (path.clone(), path).prop_map(|(from, to)| Edit::Rename(from, to)),
            2 => Just(Edit::Commit),
            1 => Just(Edit::Stage),
            1 => (0..3_usize).prop_map(Edit::Branch),
            1 => Just(Edit::Detach),
        ]
    }

    /// Applies it where it is possible.
    fn apply(&self, place: &TestRepository, root: &Path) {
        let file = |at: usize| root.join(OsStr::from_bytes(PATHS[at]));
        // A link above leads elsewhere.
        let is_below_link = |at: usize| {
            let file = file(at);
            let above = file.ancestors().skip(1).take_while(|above| *above != root);
            let mut above = above.map(fs::symlink_metadata);
            above.any(|above| above.is_ok_and(|above| above.is_symlink()))
        };
        let is_file = |at: usize| fs::symlink_metadata(file(at)).is_ok_and(|found| found.is_file());
        let clear = |at: usize| {
            if is_below_link(at) {
                return;
            }
            for above in file(at).ancestors().skip(1).take_while(|above| *above != root) {
                if above.is_file() {
                    fs::remove_file(above).unwrap();
                }
            }
            remove_all(&file(at)).unwrap();
            fs::create_dir_all(file(at).parent().unwrap()).unwrap();
        };
        let git = |arguments: &[&str]| drop(place.try_git(root, arguments));
        match *self {
            Edit::Write(at, text) if !is_below_link(at) => {
                clear(at);
                fs::write(file(at), CONTENTS[text]).unwrap();
            }
            Edit::Append(at) if is_file(at) && !is_below_link(at) => {
                let text = [fs::read(file(at)).unwrap(), b"more\n".to_vec()].concat();
                fs::write(file(at), text).unwrap();
            }
            Edit::Remove(at) if !is_below_link(at) => drop(remove_all(&file(at))),
            Edit::Executable(at, on) if !is_below_link(at) && is_file(at) => {
                let mode = if on { 0o755 } else { 0o644 };
                fs::set_permissions(file(at), PermissionsExt::from_mode(mode)).unwrap();
            }
            Edit::Link(at, to) if !is_below_link(at) => {
                clear(at);
                symlink(TARGETS[to], file(at)).unwrap();
            }
            Edit::Rename(from, to) if !is_below_link(from) && !is_below_link(to) => {
                // Not onto a folder, nor into itself.
                let _ = fs::rename(file(from), file(to));
            }
            Edit::Commit => {
                git(&["add", "-A"]);
                git(&["commit", "-q", "-m", "Work"]);
            }
            Edit::Stage => git(&["add", "-A"]),
            Edit::Branch(which) => git(&["checkout", "-q", "-B", ["ralph/x", "y", "z/y"][which]]),
            Edit::Detach => git(&["checkout", "-q", "--detach"]),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    /// The state there is the state here, byte for byte, after any edits on either side.
    #[test]
    fn any_state_arrives(
        before in prop::collection::vec(Edit::any(), 0..12),
        rounds in prop::collection::vec(prop::collection::vec(Edit::any(), 0..12), 1..4),
    ) {
        let both = TransferTest::new();
        for edit in &before {
            edit.apply(&both.trees.place, both.slot.root());
        }
        for (number, edits) in rounds.iter().enumerate() {
            // Two processes of an attempt, then those of the next.
            let token = format!("t{}", number / 2);
            let mut there = both.send(&token);
            both.assert_same(&there);
            for edit in edits {
                edit.apply(&both.trees.place, there.dir());
            }
            prop_assert_eq!(both.fetch(&token, &mut there).strayed, None);
            both.assert_same(&there);
        }
        prop_assert_eq!(both.all_stale(), "");
    }
}

/// Offers a commit with these parents and this note, as a worker does.
fn plant(both: &TransferTest, parents: &[&str], note: &str) {
    let store = both.store.repo().unwrap();
    let tree = format!("{}^{{tree}}", both.trees.first);
    let id = store.transfers().work_commit(&tree, parents, note).unwrap();
    store.transfers().update_refs(&format!("update {OUT}/t1 {id}\n")).unwrap();
}

fn note(head: &str, more: &str) -> String {
    format!(r#"{{"token":"t1","head":"{head}","branch":null{more}}}"#)
}

/// The objects, the refs and the fetch leftovers of a slot.
fn contents(slot: &Repo) -> (String, String, bool) {
    let git = |words: &[&str]| lossy(&program::run(slot.root(), words).unwrap());
    let quarantine = slot.git_dir().join(QUARANTINE);
    (git(&["count-objects", "-v"]), git(&["for-each-ref"]), quarantine.exists())
}

#[test]
fn work_that_is_not_valid_is_refused() {
    let both = TransferTest::new();
    let first = both.trees.first.to_string();
    drop(both.send("t1"));
    let before = (files(both.slot.root()), contents(&both.slot));
    let store = both.trees.path("worker/top/store.git");
    let good = note(&first, "");
    let long = note(&first, &format!(r#","ignore":"{}""#, "x".repeat(1 << 20)));
    let many = note(&first, &format!(r#","left_out":[{}"x"]"#, r#""x","#.repeat(300)));
    let branch = |name: &str| good.replace("null", &format!("{name:?}"));
    let works = [
        (String::new(), "not valid"),
        ("nothing".to_owned(), "not valid"),
        ("{}".to_owned(), "not valid"),
        (good.replace("t1", "../x"), "valid token"),
        (good.replace("t1", "x.lock"), "valid token"),
        (good.replace("t1", "t2"), "of another attempt"),
        (branch("../../../../hooks/x"), "name of a branch"),
        (branch("-f"), "name of a branch"),
        (branch("x.lock"), "name of a branch"),
        (long, "too long"),
        (many, "too many paths"),
        (note("HEAD", ""), "not a commit id"),
        (note("--all", ""), "not a commit id"),
    ];
    for (text, why) in works {
        plant(&both, &[&first], &text);
        let error = said(both.pull("t1"));
        assert!(error.contains(why), "{why}: {error}");
    }
    plant(&both, &[], &good);
    assert!(said(both.pull("t1")).contains("0 parents"));
    // A commit that exists, and is not on top of HEAD.
    let other = ["commit-tree", "-m", "x", &format!("{first}^{{tree}}")];
    let other = both.git(&store, &other);
    plant(&both, &[&other], &good);
    assert!(said(both.pull("t1")).contains("not on top of HEAD"));
    assert!(said(both.pull("t7")).contains("refs/out/t7"));
    // Cut connections.
    let argv = both.store.command(GitService::Upload).unwrap();
    plant(&both, &[&first], &good);
    let _only = only_line();
    for end in [0, 100, 2_000] {
        let mut git = Command::new(&argv[0]);
        git.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut git = git.spawn().unwrap();
        let mut head = Command::new("dd");
        head.args(["bs=1", "status=none", &format!("count={end}")]);
        head.stdin(git.stdout.take().unwrap());
        let mut head = head.stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (git.stdin.take().unwrap(), head.stdout.take().unwrap());
        let line = GitLine::of(&stdout, &stdin).unwrap();
        drop((stdin, stdout));
        let fetched =
            both.slot.transfers().fetch_work(&both.trees.main(), Some(&first), "t1", &line);
        drop(line);
        git.wait().unwrap();
        head.wait().unwrap();
        assert_eq!(fetched.is_ok(), end == 2_000, "{end}: {fetched:?}");
    }
    let kept = both.slot.transfers().sent_tip();
    both.slot.transfers().note_sent(&kept.unwrap()).unwrap();
    let after = (files(both.slot.root()), contents(&both.slot));
    assert_eq!(after.0, before.0);
    assert_eq!((&after.1.1, after.1.2), (&before.1.1, false));
    assert_eq!(both.all_stale(), "");
}

#[test]
fn texts_of_a_worker_have_no_control_characters() {
    let both = TransferTest::new();
    let first = both.trees.first.to_string();
    drop(both.send("t1"));
    plant(&both, &[&first], &note(&first, r#","left_out":["a\u001b[31m\nb"],"more":1"#));
    assert_eq!(both.pull("t1").unwrap().left_out, ["a?[31m?b"]);
}

#[test]
fn work_that_is_not_the_expected_work_is_kept() {
    let both = TransferTest::new();
    let mut there = both.send("t1");
    let before = files(both.slot.root());
    fs::write(there.dir().join("b"), "work\n").unwrap();
    both.git(there.dir(), &["checkout", "-q", "--orphan", "fresh"]);
    both.git(there.dir(), &["add", "b"]);
    both.git(there.dir(), &["commit", "-q", "-m", "Fresh"]);
    // Twice is once.
    for _ in 0..2 {
        let fetched = both.fetch("t1", &mut there);
        assert_eq!(fetched.strayed, Some(format!("{STALE_WORK}/t1")));
    }
    let kept = both.stale("t1").unwrap();
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}:b")]), "work");
    both.git(there.dir(), &["commit", "-q", "--amend", "-m", "More"]);
    let fetched = both.fetch("t1", &mut there);
    let name = fetched.strayed.unwrap();
    assert_eq!(both.trees.place.git(&["log", "-1", "--format=%s", &name]), "More");
    assert_eq!(both.stale("t1"), Some(kept));
    assert_eq!(files(both.slot.root()), before);
}

#[test]
fn what_was_not_sent_is_kept_before_the_slot_changes() {
    let both = TransferTest::new();
    let mut there = both.send("t1");
    fs::write(there.dir().join("b"), "work\n").unwrap();
    // A person edits the slot here.
    fs::write(both.slot.root().join("a"), "mine\n").unwrap();
    both.fetch("t1", &mut there);
    let kept = format!("{STALE_WORK}/t1.here");
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}:a")]), "mine");
    both.assert_same(&there);
    // Unkept files are not replaced.
    fs::write(there.dir().join("nested"), "work\n").unwrap();
    both.git(both.slot.root(), &["init", "-q", "nested"]);
    fs::write(both.slot.root().join("nested/mine"), "").unwrap();
    let before = files(both.slot.root());
    there.offer().unwrap();
    let error = said(both.pull("t1"));
    assert!(error.contains("nested"), "{error}");
    assert_eq!(both.trees.place.git(&["show", &format!("{STALE_WORK}/t1:nested")]), "work");
    assert_eq!(files(both.slot.root()), before);
}

#[test]
fn work_on_a_branch_that_git_cannot_have_arrives_without_it() {
    let both = TransferTest::new();
    let mut there = both.send("t1");
    fs::write(there.dir().join("b"), "work\n").unwrap();
    both.git(there.dir(), &["checkout", "-q", "--detach"]);
    both.git(there.dir(), &["branch", "-q", "-D", "ralph/x"]);
    both.git(there.dir(), &["checkout", "-q", "-b", "ralph"]);
    assert_eq!(both.fetch("t1", &mut there), FetchedWork::default());
    let head = both.slot.head().unwrap();
    assert_eq!((head.commit.as_deref(), head.branch), (Some(&*both.trees.first), None));
    assert_eq!(fs::read_to_string(both.slot.root().join("b")).unwrap(), "work\n");
}

#[test]
fn objects_that_git_refuses_do_not_arrive() {
    let both = TransferTest::new();
    drop(both.send("t1"));
    let root = &*both.trees.path("worker/top/store.git");
    let blob = both.git(root, &["rev-parse", &format!("{}:a", both.trees.first)]);
    let write = |kind: &str, content: &[u8]| {
        let write = ["hash-object", "-w", "--literally", "-t", kind, "--stdin"];
        lossy(&program::run_with_input(root, &write, &[], content).unwrap()).trim().to_owned()
    };
    let raw = |hex: &str| -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    let entry = |mode: &str, name: &str, id: &str| {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &raw(id)].concat()
    };
    let link = write("blob", b"../../outside");
    let inside = write("tree", &entry("100644", "x", &blob));
    let trees = [
        (entry("100644", ".git", &blob), "hasDotgit"),
        (entry("40000", ".GIT", &inside), "hasDotgit"),
        (entry("100644", "..", &blob), "hasDotdot"),
        (entry("100644", "../x", &blob), "fullPathname"),
        (entry("100644", "git~1", &blob), "hasDotgit"),
        (entry("120000", ".gitmodules", &link), "gitmodulesSymlink"),
        // A link, and a folder of the same name.
        ([entry("120000", "x", &link), entry("40000", "x", &inside)].concat(), "duplicateEntries"),
        // Git there cannot send it.
        (entry("100644", "absent", &"1".repeat(40)), ""),
    ];
    for (tree, why) in trees {
        let tree = write("tree", &tree);
        let who = "A <a@b.c> 1700000000 +0000";
        let first = &both.trees.first;
        let commit = format!("tree {tree}\nparent {first}\nauthor {who}\ncommitter {who}\n\nx\n");
        let commit = write("commit", commit.as_bytes());
        plant(&both, &[&commit], &note(&commit, ""));
        let error = said(both.pull("t1"));
        assert!(error.contains(why), "{why}: {error}");
        assert!(both.slot.commit_of(&commit).unwrap().is_none(), "{why}");
        assert!(!both.slot.git_dir().join(QUARANTINE).exists(), "{why}");
    }
}

#[test]
fn an_agent_cannot_control_git_at_a_worker() {
    let both = TransferTest::new();
    let mut there = both.send("t1");
    let (dir, git_dir) = (there.dir(), there.dir().join(".git"));
    let ran = both.trees.path("ran");
    let command = format!("touch {}; cat", ran.display());
    both.git(dir, &["config", "filter.x.clean", &command]);
    both.git(dir, &["config", "filter.x.smudge", &command]);
    both.git(dir, &["config", "core.fsmonitor", &command]);
    both.git(dir, &["config", "core.worktree", "/"]);
    fs::write(git_dir.join("info/attributes"), "* filter=x\n").unwrap();
    fs::create_dir_all(git_dir.join("hooks")).unwrap();
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        let file = git_dir.join("hooks").join(hook);
        fs::write(&file, format!("#!/bin/sh\n{command}\n")).unwrap();
        fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::write(git_dir.join("objects/info/alternates"), "/nowhere\n").unwrap();
    fs::write(dir.join("a"), "work\n").unwrap();
    let mkfifo = Command::new("mkfifo").arg(git_dir.join("info/grafts")).status();
    assert!(mkfifo.unwrap().success());
    assert_eq!(both.fetch("t1", &mut there), FetchedWork::default());
    both.assert_same(&there);
    drop(there);
    let mut there = both.send("t1");
    both.assert_same(&there);
    assert!(!ran.exists());
    // Links that lead outside are only links.
    symlink(both.trees.place.top.join(".git"), there.dir().join("hooks")).unwrap();
    both.fetch("t1", &mut there);
    both.assert_same(&there);
    // A slot that is none any more is an error, and another attempt gets another one.
    let elsewhere = both.trees.path("elsewhere");
    for link in [false, true] {
        let git_dir = there.dir().join(".git");
        fs::rename(&git_dir, &elsewhere).unwrap();
        if link {
            symlink(&elsewhere, &git_dir).unwrap();
        } else {
            fs::write(&git_dir, format!("gitdir: {}\n", elsewhere.display())).unwrap();
        }
        let error = there.offer().unwrap_err();
        assert!(error.is::<BrokenSlot>(), "{error:#}");
        fs::remove_file(&git_dir).unwrap();
        fs::rename(&elsewhere, &git_dir).unwrap();
    }
    fs::remove_dir_all(there.dir().join(".git")).unwrap();
    drop(there);
    let other = both.send("t2");
    assert_eq!(other.name(), "1+2");
    both.assert_same(&other);
}

#[test]
fn a_slot_in_use_is_not_shared() {
    let both = TransferTest::new();
    let first = both.send("t1");
    let second = both.send("t2");
    assert_eq!((first.name(), second.name()), ("1", "1+2"));
    fs::write(first.dir().join("b"), "1\n").unwrap();
    both.assert_same(&second);
    // The slot of an attempt is not replaced by another one.
    assert!(both.store.slot("1", "t1").unwrap_err().is::<SlotInUse>());
    drop(first);
    let mut again = both.store.slot("1", "t1").unwrap();
    assert_eq!(again.name(), "1");
    assert_eq!(both.fetch("t1", &mut again), FetchedWork::default());
    both.assert_same(&again);
    assert!(both.store.slot("../x", "t3").is_err() && both.store.slot("x", "../t3").is_err());
    assert!(WorkerStore::open(&both.trees.path("worker"), "..", false).is_err());
}

#[test]
fn work_that_was_never_fetched_is_stale() {
    let both = TransferTest::new();
    let there = both.send("t1");
    fs::write(there.dir().join("b"), "work\n").unwrap();
    both.git(there.dir(), &["add", "b"]);
    both.git(there.dir(), &["commit", "-q", "-m", "Work"]);
    fs::write(there.dir().join("c"), "more\n").unwrap();
    fs::create_dir(there.dir().join("target")).unwrap();
    drop(there);
    // Another attempt gets the slot; ignored files stay in it.
    let mut there = both.send("t2");
    assert_eq!(there.name(), "1");
    both.assert_same(&there);
    assert_eq!(both.fetch("t2", &mut there), FetchedWork::default());
    let kept = both.stale("t1").unwrap();
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}:c")]), "more");
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}^:b")]), "work");
    both.assert_same(&there);
    // Only once.
    both.trees.main().drop_ref(&format!("{STALE_WORK}/t1")).unwrap();
    both.fetch("t2", &mut there);
    assert_eq!(both.all_stale(), "");
    // Work that another state of the same attempt replaces is stale as well.
    fs::write(there.dir().join("d"), "lost\n").unwrap();
    push(&both.slot, &both.store, "t2").unwrap();
    there.take_arrived().unwrap();
    both.assert_same(&there);
    drop(there);
    let mut there = both.send("t3");
    both.fetch("t3", &mut there);
    assert_eq!(both.trees.place.git(&["show", &format!("{STALE_WORK}/t2:d")]), "lost");
    // It stays there until the other side has it.
    fs::write(there.dir().join("e"), "late\n").unwrap();
    drop(there);
    let mut there = both.send("t4");
    there.offer().unwrap();
    both.pull("t4").unwrap();
    drop(there);
    both.trees.main().drop_ref(&format!("{STALE_WORK}/t3")).unwrap();
    let mut there = both.send("t4");
    both.fetch("t4", &mut there);
    assert_eq!(both.trees.place.git(&["show", &format!("{STALE_WORK}/t3:e")]), "late");
}

#[test]
fn only_what_the_other_side_lacks_is_sent() {
    let both = TransferTest::new();
    let noise: Vec<String> =
        (0..20_000_u64).map(|n| (n * n * 7_919 % 99_991).to_string()).collect();
    both.trees.place.commit("large", &noise.concat(), "Large");
    let main = both.trees.main();
    let settings = main.slots().settings(PushRule::Refuse).unwrap();
    let base = main.head().unwrap().commit.unwrap();
    let slot = main.slots().start(&both.slot, &settings, &base, "ralph/x").unwrap();
    let both = TransferTest { slot, ..both };
    let mut there = both.send("t1");
    let whole = both.size_there();
    let own = |slot: &Repo| {
        let folders = fs::read_dir(slot.git_dir().join("objects")).unwrap().flatten();
        folders.filter(|entry| entry.file_name().len() == 2).count()
    };
    fs::write(there.dir().join("b"), "more\n").unwrap();
    both.fetch("t1", &mut there);
    both.assert_same(&there);
    assert!(own(&both.slot) <= 3, "a commit, a tree and a file: {}", own(&both.slot));
    drop(there);
    fs::write(both.slot.root().join("c"), "more\n").unwrap();
    let there = both.send("t2");
    both.assert_same(&there);
    let now = both.size_there();
    assert!(now * 10 < whole * 15, "{now} KiB after {whole} KiB");
    drop(there);
    // The store is wiped.
    fs::remove_dir_all(both.trees.path("worker")).unwrap();
    let store = WorkerStore::open(&both.trees.path("worker"), "top", false).unwrap();
    let both = TransferTest { store, ..both };
    let mut there = both.send("t2");
    both.assert_same(&there);
    both.git(there.dir(), &["commit", "-q", "--allow-empty", "-m", "Work"]);
    assert_eq!(both.fetch("t2", &mut there), FetchedWork::default());
    both.assert_same(&there);
    // Another format of objects under the same name.
    let error = WorkerStore::open(&both.trees.path("worker"), "top", true).unwrap_err();
    assert!(format!("{error:#}").contains("sha256"), "{error:#}");
}

#[test]
fn shallow_and_partial_clones_work() {
    let both = TransferTest::new();
    both.trees.place.commit("b", "1\n", "Second");
    both.trees.place.commit("c", "1\n", "Third");
    both.trees.place.git(&["config", "uploadpack.allowFilter", "true"]);
    let from = format!("file://{}", both.trees.place.top.display());
    for how in ["--depth=2", "--filter=blob:none"] {
        let path = both.trees.path(how);
        both.trees.place.git(&["clone", "-q", how, &from, path.to_str().unwrap()]);
        let main = Repo::discover(&path).unwrap();
        let base = main.head().unwrap().commit.unwrap();
        let settings = main.slots().settings(PushRule::Refuse).unwrap();
        let slot = main.slots().make(&both.trees.path(&format!("slot{how}")), &settings, &base);
        let slot = slot.unwrap();
        let mut deeper = false;
        for token in ["t1", "t2", "t3"] {
            let mut there = both.store.slot("1", token).unwrap();
            push(&slot, &both.store, token)
                .unwrap_or_else(|error| panic!("{how} {token}: {error:#}"));
            there.take_arrived().unwrap();
            assert_eq!(files(slot.root()), files(there.dir()));
            let count = both.git(there.dir(), &["rev-list", "--count", "HEAD"]);
            assert_eq!(count, both.git(slot.root(), &["rev-list", "--count", "HEAD"]));
            fs::write(there.dir().join("b"), token).unwrap();
            both.git(there.dir(), &["commit", "-q", "-a", "-m", token]);
            fs::write(there.dir().join("d"), token).unwrap();
            there.offer().unwrap();
            let fetched = pull(&slot, &main, &both.store, token, &base).unwrap();
            assert_eq!(fetched, FetchedWork::default(), "{how}");
            assert_eq!(files(slot.root()), files(there.dir()));
            there.note_fetched().unwrap();
            if token == "t2" && how == "--depth=2" {
                both.git(&path, &["fetch", "-q", "--unshallow"]);
                fs::remove_file(slot.git_dir().join("shallow")).unwrap();
                deeper = true;
            }
        }
        assert_eq!(deeper, how == "--depth=2");
    }
}

#[test]
fn commits_that_head_does_not_reach_come_as_well() {
    let both = TransferTest::new();
    let mut there = both.send("t1");
    let dir = there.dir().to_owned();
    let git = |arguments: &[&str]| both.git(&dir, arguments);
    fs::write(there.dir().join("a"), "stashed\n").unwrap();
    git(&["stash", "-q"]);
    git(&["checkout", "-q", "-b", "aside"]);
    fs::write(there.dir().join("b"), "aside\n").unwrap();
    git(&["add", "b"]);
    git(&["commit", "-q", "-m", "Aside"]);
    let aside = git(&["rev-parse", "HEAD"]);
    git(&["checkout", "-q", "ralph/x"]);
    // The line ends before the other side has it.
    there.offer().unwrap();
    drop(there);
    let mut there = both.store.slot("1", "t1").unwrap();
    both.fetch("t1", &mut there);
    both.assert_same(&there);
    // A pin of the slot contains them.
    let left = crate::adapters::git::PinSource {
        base: Some(&both.trees.first),
        branch: Some("ralph/x"),
        began: None,
        changed: &[],
    };
    let scratch = both.trees.path("scratch");
    let pin =
        both.slot.pins().pin("refs/ralph/x/1", "Left\n\n", left, &scratch).unwrap().commit.unwrap();
    let parents = both.git(both.slot.root(), &["rev-list", "--parents", "-n1", &pin]);
    assert!(parents.contains(&aside));
    let reached = both.git(both.slot.root(), &["log", "--format=%s", &pin]);
    assert!(reached.contains("WIP on ralph/x"), "{reached}");
    // They are fetched once, and the slot has nothing stale for the next attempt.
    there.offer().unwrap();
    assert_eq!(there.out.as_ref().unwrap().strays, Vec::<CommitId>::new());
    drop(there);
    let mut there = both.send("t2");
    both.fetch("t2", &mut there);
    assert_eq!(both.all_stale(), "");
    // Without a fetch they are stale.
    fs::write(there.dir().join("a"), "stashed\n").unwrap();
    both.git(there.dir(), &["stash", "-q"]);
    drop(there);
    let mut there = both.send("t3");
    both.fetch("t3", &mut there);
    let list = ["for-each-ref", "--format=%(contents:subject)", STALE_WORK];
    let kept = both.trees.place.git(&list);
    assert!(kept.contains("WIP on ralph/x"), "{kept}");
}

#[test]
fn ignored_files_stay_on_each_side() {
    let both = TransferTest::new();
    let here = both.slot.root();
    fs::write(here.join(".gitignore"), "/cache/\n").unwrap();
    fs::write(both.slot.git_dir().join("info/exclude"), "*.log\n").unwrap();
    fs::create_dir(here.join("cache")).unwrap();
    fs::write(here.join("cache/x"), "here\n").unwrap();
    fs::write(here.join("x.log"), "here\n").unwrap();
    let mut there = both.send("t1");
    assert!(!there.dir().join("cache").exists() && !there.dir().join("x.log").exists());
    fs::create_dir(there.dir().join("cache")).unwrap();
    fs::write(there.dir().join("cache/x"), "there\n").unwrap();
    fs::write(there.dir().join("y.log"), "there\n").unwrap();
    fs::write(there.dir().join("b"), "work\n").unwrap();
    both.fetch("t1", &mut there);
    drop(there);
    let mut there = both.send("t2");
    let read = |root: &Path, name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    for name in ["cache/x", "x.log", "y.log", "b"] {
        let both = [read(here, name), read(there.dir(), name)];
        let expected = match name {
            "cache/x" => ["here\n", "there\n"],
            "x.log" => ["here\n", ""],
            "y.log" => ["", "there\n"],
            _ => ["work\n", "work\n"],
        };
        assert_eq!(both, expected, "{name}");
    }
    // Commits are made for the person.
    both.git(there.dir(), &["add", "b"]);
    both.trees.place.git(&["config", "user.name", "Person \"x\" \\ y"]);
    both.trees.place.git(&["config", "user.email", "p@example.invalid"]);
    let main = both.trees.main();
    let slot = main
        .slots()
        .refresh(&both.slot, &main.slots().settings(PushRule::Refuse).unwrap())
        .unwrap();
    push(&slot, &both.store, "t2").unwrap();
    there.take_arrived().unwrap();
    let name = both.git(there.dir(), &["config", "user.name"]);
    assert_eq!(name, "Person \"x\" \\ y");
}

#[test]
fn line_ends_and_pointers_of_large_files_arrive_as_git_has_them() {
    let both = TransferTest::new();
    let main = both.trees.main();
    both.trees.place.git(&["config", "core.autocrlf", "true"]);
    both.trees.place.git(&["config", "filter.lfs.clean", "sed s/content/pointer/"]);
    both.trees.place.git(&["config", "filter.lfs.smudge", "sed s/pointer/content/"]);
    both.trees.place.write(".gitattributes", "*.bin filter=lfs -text\n");
    both.trees.place.write("x.bin", "content 1\n");
    let base = both.trees.place.commit("lines", "1\r\n2\r\n", "Lines");
    let settings = main.slots().settings(PushRule::Refuse).unwrap();
    let slot = main.slots().start(&both.slot, &settings, &base, "ralph/x").unwrap();
    let both = TransferTest { slot, ..both };
    let here = both.slot.root();
    assert_eq!(fs::read(here.join("lines")).unwrap(), b"1\r\n2\r\n");
    fs::write(here.join("new"), "1\r\n").unwrap();
    fs::write(here.join("new.bin"), "content 2\n").unwrap();
    let mut there = both.send("t1");
    let dir = there.dir();
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!([read("lines"), read("new")], ["1\n2\n", "1\n"]);
    assert_eq!([read("x.bin"), read("new.bin")], ["pointer 1\n", "pointer 2\n"]);
    assert_eq!(
        Repo::discover(dir).unwrap().transfers().work_state().unwrap(),
        both.slot.transfers().work_state().unwrap()
    );
    fs::write(dir.join("lines"), "1\n2\n3\n").unwrap();
    fs::write(dir.join("mixed"), "1\r\n2\n").unwrap();
    let before = files(here);
    assert_eq!(both.fetch("t1", &mut there), FetchedWork::default());
    let after = files(here);
    assert_eq!(after[Path::new("lines")].1, b"1\r\n2\r\n3\r\n");
    for same in ["x.bin", "new.bin", "new", "a"] {
        assert_eq!(before[Path::new(same)], after[Path::new(same)]);
    }
    // Arrived work is known here, whatever its line ends.
    both.fetch("t1", &mut there);
    assert_eq!(both.all_stale(), "");
}

#[test]
fn submodules_and_special_files_are_named() {
    let both = TransferTest::new();
    let module = both.trees.path("module");
    fs::create_dir_all(&module).unwrap();
    both.git(&module, &["init", "-q"]);
    both.git(&module, &["commit", "-q", "--allow-empty", "-m", "Module"]);
    both.trees.place.git(&["submodule", "--quiet", "add", module.to_str().unwrap(), "sub"]);
    let base = both.trees.place.commit("b", "1\n", "Submodule");
    let main = both.trees.main();
    let slot = main
        .slots()
        .start(&both.slot, &main.slots().settings(PushRule::Refuse).unwrap(), &base, "ralph/x")
        .unwrap();
    slot.slot().update_submodules(&main).unwrap();
    let both = TransferTest { slot, ..both };
    let here = both.slot.root();
    fs::write(here.join("sub/inside"), "x").unwrap();
    both.git(here, &["init", "-q", "nested"]);
    fs::write(here.join("nested/x"), "x").unwrap();
    let mut there = both.send("t1");
    assert!(fs::read_dir(there.dir().join("sub")).unwrap().next().is_none());
    assert!(!there.dir().join("nested").exists());
    let fifo = there.dir().join("fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    fs::write(there.dir().join("c"), "work\n").unwrap();
    let fetched = both.fetch("t1", &mut there);
    assert_eq!(fetched.left_out, ["sub (the files of a submodule)"]);
    assert!(here.join("sub/inside").exists() && here.join("nested/x").exists());
    assert_eq!(fs::read(here.join("c")).unwrap(), b"work\n");
}

#[test]
fn many_files_arrive() {
    let both = TransferTest::new();
    for number in 0..3_000 {
        let folder = both.slot.root().join(format!("f{}", number % 100));
        if number < 100 {
            fs::create_dir(&folder).unwrap();
        }
        fs::write(folder.join(number.to_string()), format!("{number}\n")).unwrap();
    }
    let mut there = both.send("t1");
    for number in (0..3_000).step_by(3) {
        let file = there.dir().join(format!("f{}/{number}", number % 100));
        if number % 2 == 0 { fs::remove_file(file).unwrap() } else { fs::write(file, "x").unwrap() }
    }
    both.git(there.dir(), &["add", "-A"]);
    both.git(there.dir(), &["commit", "-q", "-m", "Many"]);
    assert_eq!(both.fetch("t1", &mut there), FetchedWork::default());
    both.assert_same(&there);
}

/// The variable with the folder and the token for a worker that is killed.
const KILLED: &str = "RALPH_TEST_KILLED_WORKER";

/// A worker that a crash point kills: started by the next test, and otherwise nothing.
#[test]
fn killed_worker() {
    let Ok(what) = env::var(KILLED) else { return };
    let [top, slot, folder, token] = what.split('\n').collect::<Vec<_>>()[..] else {
        panic!("{what}")
    };
    let store = WorkerStore::open(Path::new(folder), "top", false).unwrap();
    let main = Repo::discover(Path::new(top)).unwrap();
    let mut there = store.slot("1", token).unwrap();
    push(&main.slots().open(Path::new(slot)).unwrap(), &store, token).unwrap();
    there.take_arrived().unwrap();
}

#[cfg(debug_assertions)]
#[test]
fn a_kill_of_a_worker_loses_no_work() {
    use std::os::unix::process::ExitStatusExt;

    let kill = |both: &TransferTest, token: &str, deadly: &str| {
        let folder = both.trees.path("worker");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let what =
            [text(&both.trees.place.top), text(both.slot.root()), text(&folder), token.into()];
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", "adapters::git::transfer::tests::killed_worker"])
            .env(KILLED, what.join("\n"))
            .env("RALPH_CRASH_RECORD", both.trees.path("passed"))
            .env("RALPH_CRASH_POINT", format!("{deadly}:1"))
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(9), "{deadly}: {}", lossy(&output.stdout));
    };
    let all = |points: &[&[&'static str]]| points.concat();
    let made = ["transfer.received", "slot.begun", "slot.made", "transfer.filled"];
    for deadly in all(&[&made, &["transfer.taken"]]) {
        let both = TransferTest::new();
        fs::write(both.slot.root().join("a"), "changed\n").unwrap();
        fs::write(both.slot.root().join("new"), "1\n").unwrap();
        kill(&both, "t1", deadly);
        // The attempt continues with the slot's current content.
        fs::write(both.slot.root().join("new"), "2\n").unwrap();
        let mut there = both.send("t1");
        both.assert_same(&there);
        fs::write(there.dir().join("b"), "work\n").unwrap();
        both.fetch("t1", &mut there);
        both.assert_same(&there);
    }
    let moved = ["transfer.cleared", "transfer.received", "slot.cleared", "slot.written"];
    for deadly in all(&[&moved, &["transfer.filled", "transfer.taken"]]) {
        let both = TransferTest::new();
        let there = both.send("t1");
        fs::write(there.dir().join("b"), "work\n").unwrap();
        drop(there);
        fs::write(both.slot.root().join("a"), "changed\n").unwrap();
        kill(&both, "t2", deadly);
        let mut there = both.send("t2");
        both.assert_same(&there);
        both.fetch("t2", &mut there);
        let kept = both.trees.place.git(&["show", &format!("{STALE_WORK}/t1:b")]);
        assert_eq!(kept, "work", "{deadly}");
        assert_eq!(both.all_stale(), format!("{STALE_WORK}/t1"), "{deadly}");
    }
}
