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
};

use proptest::prelude::*;

use super::*;
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

impl TransferTest {
    fn with(options: &[&str]) -> Option<TransferTest> {
        let trees = TestSlots::with(options)?;
        let main = trees.main();
        let slot = trees.add("1");
        let settings = main.slot_settings().unwrap();
        let slot = main.start_slot(&slot, &settings, &trees.first, "ralph/x").unwrap();
        let store = WorkerStore::open(&trees.path("worker"), "top").unwrap();
        Some(TransferTest { trees, slot, store })
    }

    fn new() -> TransferTest {
        TransferTest::with(&[]).unwrap()
    }

    /// Sends the slot to the worker.
    fn send(&self, token: &str) -> WorkerSlot {
        let slot = self.store.slot("1", token).unwrap();
        slot.apply(&mut &*self.packed(token)).unwrap();
        slot
    }

    fn packed(&self, token: &str) -> Vec<u8> {
        let mut pack = Vec::new();
        self.slot.pack_work(&self.store.have().unwrap(), token, &mut pack).unwrap();
        pack
    }

    fn unpack(&self, token: &str, pack: &[u8]) -> Result<Unpacked> {
        self.slot.unpack_work(&self.trees.main(), Some(&self.trees.first), token, &mut &*pack)
    }

    /// Fetches the work of the worker.
    fn fetch(&self, token: &str, slot: &WorkerSlot) -> Unpacked {
        let mut pack = Vec::new();
        slot.pack(&slot.sent(), &mut pack).unwrap();
        let unpacked = self.unpack(token, &pack).unwrap();
        slot.note_fetched().unwrap();
        unpacked
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
        // Whether changes are staged does not matter.
        let state = |dir: &Path| Repo::discover(dir).unwrap().work_state().unwrap();
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
        let there = both.send("t1");
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
        let unpacked = both.fetch("t1", &there);
        assert_eq!((unpacked.arrival, unpacked.replaced), (Arrival::Moved, None));
        both.assert_same(&there);
        assert_eq!(both.git(here, &["log", "--format=%s"]), "Work\nFirst");
        assert_eq!(both.trees.place.git(&["for-each-ref", "refs/ralph/stale"]), "");
        assert_eq!(both.fetch("t1", &there).arrival, Arrival::Unchanged);
        drop(there);
        let again = both.send("t1");
        both.assert_same(&again);
        drop(again);
        let other = both.send("t2");
        both.assert_same(&other);
        assert!(other.stale().is_none());
    }
}

#[test]
fn refused() {
    let both = TransferTest::new();
    let there = both.send("t1");
    assert!(said(both.unpack("t1", b"")).contains("sent nothing"));
    drop(there);
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
            Edit::Append(at) if file(at).is_file() && !is_below_link(at) => {
                let text = [fs::read(file(at)).unwrap(), b"more\n".to_vec()].concat();
                fs::write(file(at), text).unwrap();
            }
            Edit::Remove(at) if !is_below_link(at) => drop(remove_all(&file(at))),
            Edit::Executable(at, on) if !is_below_link(at) => {
                if fs::symlink_metadata(file(at)).is_ok_and(|found| found.is_file()) {
                    let mode = if on { 0o755 } else { 0o644 };
                    fs::set_permissions(file(at), PermissionsExt::from_mode(mode)).unwrap();
                }
            }
            Edit::Link(at, to) if !is_below_link(at) => {
                clear(at);
                symlink(TARGETS[to], file(at)).unwrap();
            }
            Edit::Rename(from, to) => {
                if !is_below_link(from) && !is_below_link(to) {
                    let _ = fs::rename(file(from), file(to));
                }
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
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

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
            let there = both.send(&token);
            both.assert_same(&there);
            for edit in edits {
                edit.apply(&both.trees.place, there.dir());
            }
            let unpacked = both.fetch(&token, &there);
            prop_assert!(matches!(unpacked.arrival, Arrival::Moved | Arrival::Unchanged));
            prop_assert_eq!(unpacked.replaced, None);
            both.assert_same(&there);
            prop_assert!(there.stale().is_none());
        }
        prop_assert_eq!(both.trees.place.git(&["for-each-ref", "refs/ralph/stale"]), "");
    }
}

/// A pack with this header and these objects of the slot.
fn forged(both: &TransferTest, header: &str, tips: &[&str]) -> Vec<u8> {
    let mut pack = format!("{header}\n").into_bytes();
    let mut objects = tips.join("\n").into_bytes();
    objects.push(b'\n');
    let list = ["pack-objects", "--revs", "--stdout", "-q"];
    pack.extend(program::run_with_input(both.slot.root(), &list, &[], &objects).unwrap());
    pack
}

/// The header of a clean commit, with more fields.
fn header(token: &str, head: &str, more: &str) -> String {
    format!(r#"{{"ralph_pack":1,"token":"{token}","head":"{head}","base":[]{more}}}"#)
}

#[test]
fn a_header_that_is_not_valid_is_refused() {
    let both = TransferTest::new();
    let first = &*both.trees.first;
    let before = files(both.slot.root());
    let long = format!(r#","ignore":"{}""#, "x".repeat(1 << 20));
    let many = format!(r#","left_out":[{}"x"]"#, r#""x","#.repeat(300));
    let wide = "0".repeat(64);
    let heads = [
        (String::new(), "not valid"),
        ("{}".to_owned(), "not valid"),
        (header("t1", first, "").replace(":1", ":2"), "format is 2"),
        (header("../x", first, ""), "valid token"),
        (header("x.lock", first, ""), "valid token"),
        (header("t1", "HEAD", ""), "not a commit id"),
        (header("t1", "--all", ""), "not a commit id"),
        (header("t1", first, r#","changes":"HEAD""#), "not a commit id"),
        (header("t1", first, &format!(r#","changes":"{wide}""#)), "not a commit id"),
        (header("t1", first, r#","branch":"../../../../hooks/x""#), "name of a branch"),
        (header("t1", first, r#","branch":"-f""#), "name of a branch"),
        (header("t1", first, r#","branch":"x.lock""#), "name of a branch"),
        (header("t1", first, &long), "too long"),
        (header("t1", first, &many), "too many paths"),
        (header("t1", &"1".repeat(40), ""), "not accepted"),
        // A commit that exists, and is not on top of HEAD.
        (header("t1", first, &format!(r#","changes":"{first}""#)), "not on top of HEAD"),
    ];
    for (head, why) in heads {
        let error = said(both.unpack("t1", &forged(&both, &head, &[first])));
        assert!(error.contains(why), "{head}: {error}");
    }
    let whole = forged(&both, &header("t1", first, ""), &[first]);
    for end in [0, 10, whole.len() - 30] {
        assert!(both.unpack("t1", &whole[..end]).is_err(), "{end}");
    }
    let mut damaged = whole.clone();
    let at = damaged.len() - 40;
    damaged[at] ^= 0x55;
    assert!(said(both.unpack("t1", &damaged)).contains("not accepted"));
    assert_eq!(files(both.slot.root()), before);
    assert_eq!(both.trees.place.git(&["for-each-ref", "refs/ralph/stale"]), "");
    // Nothing of it is left in the slot.
    let objects = fs::read_dir(both.slot.git_dir().join("objects")).unwrap();
    let left = objects.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!left.into_iter().any(|name| name.starts_with("tmp_objdir")));
}

#[test]
fn work_that_is_not_the_expected_work_is_kept() {
    let both = TransferTest::new();
    let stale = |name: &str| both.trees.main().commit_of(&format!("{STALE}/{name}")).unwrap();
    let there = both.send("t1");
    fs::write(there.dir().join("b"), "work\n").unwrap();
    let mut pack = Vec::new();
    there.pack(&there.sent(), &mut pack).unwrap();
    let before = files(both.slot.root());
    // Of another attempt; twice is once.
    for _ in 0..2 {
        let unpacked = both.unpack("t2", &pack).unwrap();
        assert_eq!(unpacked.arrival, Arrival::OtherToken { kept: format!("{STALE}/t1") });
    }
    let kept = stale("t1").unwrap();
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}:b")]), "work");
    // Without the base.
    both.git(there.dir(), &["checkout", "-q", "--orphan", "fresh"]);
    both.git(there.dir(), &["commit", "-q", "-m", "Fresh"]);
    let unpacked = both.fetch("t1", &there);
    assert_eq!(unpacked.arrival, Arrival::Strayed { kept: format!("{STALE}/t1.2") });
    assert!(stale("t1.2").is_some() && stale("t1") == Some(kept));
    assert_eq!(files(both.slot.root()), before);
}

#[test]
fn what_was_not_sent_is_kept_before_the_slot_changes() {
    let both = TransferTest::new();
    let there = both.send("t1");
    fs::write(there.dir().join("b"), "work\n").unwrap();
    // A person edits the slot here.
    fs::write(both.slot.root().join("a"), "mine\n").unwrap();
    let unpacked = both.fetch("t1", &there);
    let kept = format!("{STALE}/t1.here");
    assert_eq!((unpacked.arrival, unpacked.replaced), (Arrival::Moved, Some(kept.clone())));
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}:a")]), "mine");
    both.assert_same(&there);
    // What git cannot keep is not replaced.
    fs::write(there.dir().join("nested"), "work\n").unwrap();
    both.git(both.slot.root(), &["init", "-q", "nested"]);
    fs::write(both.slot.root().join("nested/mine"), "").unwrap();
    let before = files(both.slot.root());
    let unpacked = both.fetch("t1", &there);
    let Arrival::Blocked { kept, why } = unpacked.arrival else { panic!("{unpacked:?}") };
    assert!(why.contains("nested"), "{why}");
    assert_eq!(both.trees.place.git(&["show", &format!("{kept}:nested")]), "work");
    assert_eq!(files(both.slot.root()), before);
}

#[test]
fn objects_that_git_refuses_do_not_arrive() {
    let both = TransferTest::new();
    let there = both.send("t1");
    let root = there.dir();
    let blob = both.git(root, &["rev-parse", "HEAD:a"]);
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
        (entry("100644", "absent", &"1".repeat(40)), "expected object"),
    ];
    for (tree, why) in trees {
        let tree = write("tree", &tree);
        let who = "A <a@b.c> 1700000000 +0000";
        let first = &both.trees.first;
        let commit = format!("tree {tree}\nparent {first}\nauthor {who}\ncommitter {who}\n\nx\n");
        let commit = write("commit", commit.as_bytes());
        // The pack is made without a walk, which would refuse to.
        let mut pack = format!("{}\n", header("t1", &commit, "")).into_bytes();
        let ids = format!("{commit}\n{tree}\n{inside}\n{link}\n");
        let list = ["pack-objects", "--stdout", "-q"];
        pack.extend(program::run_with_input(root, &list, &[], ids.as_bytes()).unwrap());
        let error = said(both.unpack("t1", &pack));
        assert!(error.contains(why), "{why}: {error}");
        assert!(both.slot.commit_of(&commit).unwrap().is_none(), "{why}");
    }
}
