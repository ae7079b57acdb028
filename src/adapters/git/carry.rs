//! Brings the commits of a slot into the repository without a process.
//!
//! It does what `git fetch` does with `fetch.fsckObjects`, for the ordinary case: a few loose objects
//! of ordinary files, on top of commits that the repository keeps. The objects are read and checked
//! by [`loose_objects`], the rules of git-fsck(1) are applied more strictly than git does, and all
//! that a commit names must be among them or in the repository. Whatever is not clearly in order
//! is left to the `git` program, which then says what is wrong.

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, Result};
use git2::{Indexer, ObjectType, Odb, Oid, Repository, Tree};

use super::{
    Repo,
    backend::open_at_rest,
    loose_objects::{
        self, FOLDER, LINK, LooseObject, LooseObjects, ObjectLimits, TreeEntry, tree_entries,
    },
    pin::IDENTITY,
};

/// The limits up to which objects are carried in the thread of the caller.
const CARRIED: ObjectLimits = ObjectLimits { count: 1_000, bytes: 8 << 20 };

/// The largest number of entries of trees that the repository has and that are looked at.
const LOOKED_AT: usize = 20_000;

/// The only files whose names begin with `.git` that git gives no meaning in a tree, or only that of
/// a list of patterns.
const HARMLESS: &[&[u8]] = &[b".gitignore", b".gitkeep", b".github", b".gitlab-ci.yml"];

impl Repo {
    /// Brings a commit of a slot and all that it needs into this repository. Returns false, and
    /// does nothing, if that is left to the program.
    ///
    /// # Errors
    /// I/O errors while the objects are written.
    pub(super) fn carry_home(&self, slot: &Repo, commit: &str) -> Result<bool> {
        let objects = slot.common_dir.join("objects");
        if self.backend.library().is_none() {
            return Ok(false);
        }
        let new = loose_objects::read(&objects, CARRIED);
        let opened = open_at_rest(&self.common_dir);
        let (Some(new), Ok(repo), Ok(commit)) = (new, opened, Oid::from_str(commit)) else {
            return Ok(false);
        };
        let suits = !repo.is_shallow()
            && repo.config().is_ok_and(|it| it.get_entry("core.sharedRepository").is_err());
        if !suits {
            return Ok(false);
        }
        let mut load = Load { repo: &repo, new: &new, ids: BTreeSet::new(), looks: LOOKED_AT };
        if load.commits(commit).is_none() {
            return Ok(false);
        }
        let (mut ids, odb) = (load.ids, repo.odb()?);
        // What came home before this attempt ended is there.
        ids.retain(|id| !odb.exists(*id));
        if ids.is_empty() {
            return Ok(true);
        }
        self.keep_objects(&new, &ids).context("cannot keep the objects of the slot")?;
        Ok(true)
    }

    /// Whether this slot may have commits of its own that HEAD does not reach, such as stashes and
    /// other branches. Those that `ralph` has made to prepare the slot do not count.
    pub(super) fn may_have_strays(&self, head: Option<&str>) -> bool {
        let Some(own) = loose_objects::read(&self.common_dir.join("objects"), CARRIED) else {
            return true;
        };
        let head = head.and_then(|head| Oid::from_str(head).ok());
        let mut reached = HashSet::new();
        let mut open: Vec<Oid> = head.into_iter().collect();
        while let Some(id) = open.pop() {
            let Some(object) = own.get(&id).filter(|it| it.kind == ObjectType::Commit) else {
                continue;
            };
            let Some((_, parents)) = commit_links(&object.content) else { return true };
            if reached.insert(id) {
                open.extend(parents);
            }
        }
        let [.., (_, name), (_, address)] = IDENTITY;
        let committer = format!("committer {name} <{address}> ");
        let is_agents = |object: &LooseObject| {
            let by_ralph = |line: &[u8]| line.starts_with(committer.as_bytes());
            object.kind == ObjectType::Commit
                && !object.content.split(|it| *it == b'\n').any(by_ralph)
        };
        own.iter().any(|(id, object)| is_agents(object) && !reached.contains(id))
    }

    /// Writes objects to a new pack, which is on disk afterwards.
    fn keep_objects(&self, new: &LooseObjects, ids: &BTreeSet<Oid>) -> Result<()> {
        // In memory, where the pack is made from. libgit2 would search the packs of the repository for
        // each object before it writes it there.
        let odb = Odb::new()?;
        let _memory = odb.add_new_mempack_backend(1_000)?;
        let repo = Repository::from_odb(odb)?;
        let odb = repo.odb()?;
        let mut pack = repo.packbuilder()?;
        pack.set_threads(1);
        for id in ids {
            let object = &new[id];
            odb.write(object.kind, &object.content)?;
            pack.insert_object(*id, None)?;
        }
        let folder = self.common_dir.join("objects/pack");
        fs::create_dir_all(&folder)?;
        store(&mut pack, &folder)
    }
}

/// Writes a pack to a folder of packs, and both to disk.
pub(super) fn store(pack: &mut git2::PackBuilder<'_>, folder: &Path) -> Result<()> {
    let mut index = Indexer::new(None, folder, 0, false)?;
    let mut written = Ok(());
    pack.foreach(|bytes| {
        written = index.write_all(bytes);
        written.is_ok()
    })?;
    written?;
    let name = index.commit()?;
    let sync = |path: &Path| -> io::Result<()> { File::open(path)?.sync_all() };
    for end in ["pack", "idx"] {
        sync(&folder.join(format!("pack-{name}.{end}")))?;
    }
    sync(folder)?;
    Ok(())
}

/// The objects that a commit needs and the repository does not have.
struct Load<'a> {
    repo: &'a Repository,
    new: &'a LooseObjects,
    ids: BTreeSet<Oid>,
    /// How many more entries of trees of the repository are looked at.
    looks: usize,
}

impl Load<'_> {
    /// Adds a commit with all that it needs; none if anything is not clearly in order.
    fn commits(&mut self, head: Oid) -> Option<()> {
        let (mut open, mut trees, mut base) = (vec![head], Vec::new(), None);
        while let Some(id) = open.pop() {
            let Some(object) = self.new.get(&id) else {
                if !self.is_kept(id) {
                    return None;
                }
                base = base.or(Some(id));
                continue;
            };
            if object.kind != ObjectType::Commit {
                return None;
            }
            let (tree, parents) = commit_links(&object.content)?;
            if self.ids.insert(id) {
                trees.push(tree);
                open.extend(parents);
            }
        }
        let base = self.repo.find_commit(base?).ok()?.tree().ok()?;
        trees.into_iter().try_for_each(|tree| self.tree(tree, &base))
    }

    /// Whether a commit of the repository is kept by a ref.
    fn is_kept(&self, id: Oid) -> bool {
        let head = self.repo.head().ok().and_then(|head| head.target());
        let is_named = || {
            let refs = self.repo.references().into_iter().flatten().flatten();
            refs.into_iter().any(|found| found.target() == Some(id))
        };
        head == Some(id)
            || is_named()
            || head.is_some_and(|head| self.repo.graph_descendant_of(head, id).unwrap_or(false))
    }

    /// Adds a tree with all that it needs. What `base` has at the same path is in order.
    fn tree(&mut self, tree: Oid, base: &Tree<'_>) -> Option<()> {
        let mut open = vec![(tree, Some(base.id()))];
        let mut done: HashSet<Oid> = HashSet::new();
        while let Some((id, base)) = open.pop() {
            if Some(id) == base || !done.insert(id) {
                continue;
            }
            let Some(object) = self.new.get(&id) else {
                self.has_tree(id)?;
                continue;
            };
            if object.kind != ObjectType::Tree {
                return None;
            }
            self.ids.insert(id);
            let base = base.and_then(|base| self.repo.find_tree(base).ok());
            let entries = tree_entries(&object.content)?;
            if !are_in_order(&entries) {
                return None;
            }
            for entry in entries {
                let before = base.as_ref().and_then(|base| {
                    let found = base.iter().find(|it| it.name_bytes() == entry.name)?;
                    Some((u32::try_from(found.filemode_raw()).ok()?, found.id()))
                });
                if before == Some((entry.mode, entry.id)) {
                    continue;
                }
                if entry.mode == LINK || !is_harmless(entry.name) {
                    return None;
                }
                if entry.mode == FOLDER {
                    let below = before.filter(|(mode, _)| *mode == FOLDER).map(|(_, id)| id);
                    open.push((entry.id, below));
                } else {
                    self.blob(entry.id)?;
                }
            }
        }
        Some(())
    }

    fn blob(&mut self, id: Oid) -> Option<()> {
        match self.new.get(&id) {
            Some(object) if object.kind == ObjectType::Blob => {
                self.ids.insert(id);
                Some(())
            }
            Some(_) => None,
            None => {
                let (_, kind) = self.repo.odb().ok()?.read_header(id).ok()?;
                (kind == ObjectType::Blob).then_some(())
            }
        }
    }

    /// Whether the repository has a whole tree.
    fn has_tree(&mut self, id: Oid) -> Option<()> {
        let odb = self.repo.odb().ok()?;
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for entry in &self.repo.find_tree(id).ok()? {
                self.looks = self.looks.checked_sub(1)?;
                match entry.kind()? {
                    ObjectType::Tree => open.push(entry.id()),
                    ObjectType::Blob if odb.exists(entry.id()) => {}
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

/// Whether the entries of a tree are sorted as git sorts them, and no two have the same name.
fn are_in_order(entries: &[TreeEntry<'_>]) -> bool {
    let key = |entry: &TreeEntry<'_>| {
        let end: &[u8] = if entry.mode == FOLDER { b"/" } else { b"" };
        [entry.name, end].concat()
    };
    let mut names = HashSet::new();
    entries.windows(2).all(|two| key(&two[0]) < key(&two[1]))
        && entries.iter().all(|entry| names.insert(entry.name) && !entry.id.is_zero())
}

/// Whether a name in a tree means nothing to git, on any file system.
fn is_harmless(name: &[u8]) -> bool {
    let is_plain = !name.is_empty()
        && name.len() <= 255
        && !name.iter().any(|byte| b"/\\:~".contains(byte))
        && !name.ends_with(b".")
        && !name.ends_with(b" ");
    // Characters that some file systems ignore are among those that begin with these bytes.
    let marks: [&[u8]; 3] = [b"\xe2\x80", b"\xe2\x81", b"\xef\xbb"];
    let is_marked = marks.iter().any(|mark| name.windows(2).any(|two| two == *mark));
    let is_gits = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b".git"));
    is_plain && !is_marked && (!is_gits || HARMLESS.contains(&name))
}

/// The tree and the parents of a commit; none if git would not write it in this form.
fn commit_links(content: &[u8]) -> Option<(Oid, Vec<Oid>)> {
    let content = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))?;
    let (head, _) =
        content.split_once("\n\n").or_else(|| Some((content.strip_suffix('\n')?, "")))?;
    let mut lines = head.split('\n').peekable();
    let id = |line: &str, name: &str| {
        let text = line.strip_prefix(name)?;
        let is_id = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 40 && text.bytes().all(is_id)).then(|| Oid::from_str(text).ok())?
    };
    let tree = id(lines.next()?, "tree ")?;
    let mut parents = Vec::new();
    while lines.peek()?.starts_with("parent ") {
        parents.push(id(lines.next()?, "parent ")?);
    }
    for name in ["author ", "committer "] {
        is_signed(lines.next()?.strip_prefix(name)?).then_some(())?;
    }
    let is_known = |line: &str| line.starts_with("gpgsig ") || line.starts_with(' ');
    lines.all(is_known).then_some((tree, parents))
}

/// Whether a line has a name, an address, a time and a zone as git writes them.
fn is_signed(line: &str) -> bool {
    let parts = || {
        let (name, rest) = line.split_once(" <")?;
        let (address, rest) = rest.split_once("> ")?;
        let (time, zone) = rest.split_once(' ')?;
        let is_free = |text: &str| !text.contains(['<', '>']);
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_time = (1..=10).contains(&time.len()) && is_number(time) && !time.starts_with('0');
        let digits = zone.strip_prefix(['+', '-'])?;
        let is_zone = digits.len() == 4 && is_number(digits);
        let is_named = !name.trim().is_empty() && is_free(name) && is_free(address);
        Some(is_named && is_time && is_zone)
    };
    parts().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::{
        lossy, program,
        tests::{TestSlots, said},
    };

    const HOME: &str = "refs/ralph/x/1";

    /// Writes an object to a slot, whatever it is.
    fn write(slot: &Repo, kind: &str, content: &[u8]) -> String {
        let arguments = ["hash-object", "-t", kind, "-w", "--literally", "--stdin"];
        let id = program::run_with_input(slot.root(), &arguments, &[], content).unwrap();
        lossy(&id).trim().to_owned()
    }

    fn commit_text(tree: &str, parent: &str, rest: &str) -> Vec<u8> {
        let who = "A <a@b.c> 1700000000 +0000";
        format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{rest}\nx\n").into()
    }

    #[test]
    fn ordinary_work_comes_home_without_a_process() {
        let trees = TestSlots::new();
        trees.place.write("kept/deep/file", "1\n");
        trees.place.write(".gitattributes", "*.x -diff\n");
        let base = trees.place.commit("kept/other", "1\n", "Base");
        let main = trees.main();
        let settings = main.slot_settings().unwrap();
        let slot = main.make_slot(&trees.path("1"), &settings, &base).unwrap();
        trees.commit(&slot, "new", "1\n");
        fs::create_dir_all(slot.root().join("kept/more")).unwrap();
        fs::rename(slot.root().join("kept/other"), slot.root().join("kept/more/other")).unwrap();
        trees.commit(&slot, ".gitignore", "*.log\n");
        trees.git(&slot, &["checkout", "-q", "-b", "side", "HEAD~"]);
        trees.commit(&slot, "side", "1\n");
        trees.git(&slot, &["merge", "-q", "-m", "Both", "@{-1}"]);
        let head = trees.git(&slot, &["rev-parse", "HEAD"]);
        assert!(main.carry_home(&slot, &head).unwrap());
        trees.place.git(&["update-ref", HOME, &head]);
        fs::remove_dir_all(slot.root()).unwrap();
        trees.place.git(&["fsck", "--strict"]);
        assert_eq!(trees.place.git(&["rev-list", "--count", HOME]), "6");
        assert_eq!(trees.place.git(&["show", "refs/ralph/x/1:kept/more/other"]), "1");
        // No file of the slot is needed for what is there already.
        let slot = main.make_slot(&trees.path("2"), &settings, &base).unwrap();
        assert!(main.carry_home(&slot, &base).unwrap());
        main.bring_home(&slot, &base, HOME).unwrap();
    }

    #[test]
    fn what_is_not_in_order_is_left_to_git() {
        let trees = TestSlots::new();
        let (main, slot) = (trees.main(), trees.add("1"));
        let first = &*trees.first;
        let tree = trees.git(&slot, &["rev-parse", "HEAD^{tree}"]);
        let blob = trees.git(&slot, &["rev-parse", "HEAD:a"]);
        let raw = |id: &str| Oid::from_str(id).unwrap().as_bytes().to_vec();
        let entry = |mode: &str, name: &str, id: &str| {
            [format!("{mode} {name}\0").into(), raw(id)].concat()
        };
        let absent = "1".repeat(40);
        let file = |name: &str| entry("100644", name, &blob);
        let contents = [
            file(".git"),
            file(".GIT"),
            file("git~1"),
            file(".gitmodules"),
            file("a/b"),
            file(".."),
            file(".git\u{200c}"),
            file(""),
            entry("100644", "absent", &absent),
            entry("100664", "mode", &blob),
            entry("160000", "link", &absent),
            entry("40000", "is-a-file", &blob),
            entry("100644", "is-a-folder", &tree),
            [file("b"), file("a")].concat(),
            [file("a"), file("a")].concat(),
        ];
        for content in contents {
            let bad = write(&slot, "tree", &content);
            for tree in [bad.clone(), write(&slot, "tree", &entry("40000", "below", &bad))] {
                let commit = write(&slot, "commit", &commit_text(&tree, first, ""));
                let shown = lossy(&content);
                assert!(!main.carry_home(&slot, &commit).unwrap(), "{shown}");
            }
        }
        let whole = write(&slot, "tree", &file("new"));
        let texts = [
            commit_text(&whole, &absent, ""),
            commit_text(&blob, first, ""),
            commit_text(&whole, &blob, ""),
            commit_text(&whole, first, "parent 0\n"),
            format!("tree {whole}\nauthor A <a@b.c> 1 +0000\n\nx\n").into(),
            format!("tree {whole}\nparent {first}\nauthor <> 1 +0\ncommitter A <a> 1 +0000\n\n")
                .into(),
        ];
        for text in texts {
            let commit = write(&slot, "commit", &text);
            assert!(!main.carry_home(&slot, &commit).unwrap(), "{}", lossy(&text));
        }
        let count = trees.place.git(&["count-objects", "-v"]);
        assert!(count.contains("packs: 0"), "nothing came home: {count}");
        // The program says what is wrong with it.
        let bad = write(&slot, "tree", &file(".git"));
        let commit = write(&slot, "commit", &commit_text(&bad, first, ""));
        assert!(said(main.bring_home(&slot, &commit, HOME)).contains("hasDotgit"));
    }

    #[test]
    fn a_commit_that_no_ref_keeps_is_not_built_upon() {
        let trees = TestSlots::new();
        let (main, slot) = (trees.main(), trees.add("1"));
        let loose = trees.place.commit("b", "1\n", "Loose");
        trees.place.git(&["reset", "-q", "--hard", "HEAD~"]);
        let tree = trees.git(&slot, &["rev-parse", "HEAD^{tree}"]);
        let commit = write(&slot, "commit", &commit_text(&tree, &loose, ""));
        assert!(!main.carry_home(&slot, &commit).unwrap());
        trees.place.git(&["update-ref", "refs/ralph/base/x", &loose]);
        assert!(main.carry_home(&slot, &commit).unwrap());
    }
}
