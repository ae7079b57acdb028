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

use super::*;
use crate::adapters::git::tests::{TestSlots, said};

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
        for arguments in [
            &["rev-parse", "HEAD"][..],
            &["rev-parse", "--abbrev-ref", "HEAD"],
            &["status", "--porcelain"],
        ] {
            let here = self.git(self.slot.root(), arguments);
            assert_eq!(here, self.git(there.dir(), arguments), "{arguments:?}");
        }
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
