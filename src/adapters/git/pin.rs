//! Pins: commits that keep work which would otherwise be lost, under a ref that `git gc` respects.
//!
//! The `git` program writes them with an index of their own: the user's index, the worktree, HEAD
//! and all branches are left alone, and it works in every kind of repository.

use std::{collections::HashSet, ffi::OsStr, fs, path::Path};

use anyhow::{Context, Result};

use super::{
    Codes, Pins, Repo, RepoReader, branch_name, lossy,
    program::{self, NewCommit},
    reader::refs_in,
};
use crate::{
    core::{commit_id::CommitId, verdict::OtherBranch},
    regular_file,
};

/// The size in bytes above which a file is named instead of copied.
const BIG: u64 = 100 << 20;
/// How far back the moves of HEAD are followed.
const MOVES: &str = "--max-count=200";
/// The identity of these commits: a person's identity may be missing, and is not needed.
pub(super) const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "ralph"),
    ("GIT_AUTHOR_EMAIL", "ralph@localhost"),
    ("GIT_COMMITTER_NAME", "ralph"),
    ("GIT_COMMITTER_EMAIL", "ralph@localhost"),
];

/// The work to keep.
#[derive(Clone, Copy, Debug)]
pub struct PinSource<'a> {
    /// The commit at which the attempt started.
    pub base: Option<&'a str>,
    /// The branch at that time.
    pub branch: Option<&'a str>,
    /// The start in seconds since 1970: moves of HEAD since then are followed. None to follow none.
    pub began: Option<i64>,
    /// The changed paths, as returned by `RepoReader::dirty`.
    pub changed: &'a [String],
}

/// The kept work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The commit; none if there was nothing to keep.
    pub commit: Option<CommitId>,
    /// The skipped paths and why.
    pub left_out: Vec<String>,
}

/// The flags of a call of `git update-index`, and its input.
pub(super) type IndexUpdate<'a> = (&'a [&'a str], &'a [u8]);

/// Changed paths that can be kept.
#[derive(Debug, Default)]
pub(super) struct KeptPaths {
    /// Those that are files or links, and those where nothing is.
    as_they_are: Vec<Vec<u8>>,
    /// Those whose file is gone because a folder or a link to one is in its place.
    gone: Vec<Vec<u8>>,
}

impl KeptPaths {
    /// Paths in whose place is no folder.
    pub(super) fn of_files(paths: &[Vec<u8>]) -> KeptPaths {
        KeptPaths { as_they_are: paths.to_vec(), gone: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_they_are.is_empty() && self.gone.is_empty()
    }
}

impl Pins<'_> {
    /// The refs that only `ralph` makes.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn all_refs(&self) -> Result<Vec<String>> {
        let refs = lossy(&self.refs(&["refs/ralph"])?);
        let names = refs.lines().filter_map(|line| line.split_once(' '));
        Ok(names.map(|(_, name)| name.to_owned()).collect())
    }

    /// Keeps HEAD, the commits that HEAD was moved away from, and the changed paths, as one commit
    /// under the ref `name`. Its tree is that of HEAD with the changed paths as they are now; its
    /// parents are HEAD and the commits that HEAD does not reach. `scratch` is a file that may be
    /// overwritten.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn pin(
        &self,
        name: &str,
        message: &str,
        left: PinSource<'_>,
        scratch: &Path,
    ) -> Result<Pin> {
        let (changed, left_out) = self.to_keep(left.changed)?;
        let head = self.head()?.commit;
        let strays = self.strays(head.as_deref(), left)?;
        let moved = head.as_deref() != left.base || !strays.is_empty();
        if !moved && changed.is_empty() {
            return Ok(Pin { commit: None, left_out });
        }
        let tree = self.tree(head.as_deref(), &changed, scratch)?;
        if !moved && tree == self.base_tree(head.as_deref())? {
            return Ok(Pin { commit: None, left_out });
        }
        let mut message = message.to_owned();
        for what in &left_out {
            message = format!("{message}Ralph-Left-Out: {what}\n");
        }
        let parents: Vec<&str> = head.iter().chain(&strays).map(CommitId::as_str).collect();
        let env = &IDENTITY.map(|(name, value)| (name, OsStr::new(value)));
        let (tree, message) = (&*tree, &*message);
        let new = NewCommit { tree, parents: &parents, message, env, is_signed: false };
        let commit = program::commit_tree(&self.root, &new)?;
        program::move_ref(&self.root, name, &commit, "ralph: kept")?;
        Ok(Pin { commit: Some(commit), left_out })
    }

    /// The newest of the pins under the folder of refs; none without one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn newest(&self, folder: &str) -> Result<Option<CommitId>> {
        // After logs are removed, attempt numbers start again while the old pins exist; so the time
        // is compared first.
        let newest = ["--sort=-version:refname", "--sort=-committerdate", "--count=1"];
        let list = ["for-each-ref", "--format=%(objectname)"];
        let text = program::run(&self.root, &[&list, &newest[..], &[folder]].concat())
            .with_context(|| format!("cannot list what is kept under `{folder}`"))?;
        let text = lossy(&text);
        Ok(text.lines().next().map(CommitId::from))
    }

    /// Whether a pin also keeps commits that its branch does not have, such as stashes and other
    /// branches.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_strays(&self, pin: &str) -> Result<bool> {
        let second = format!("{pin}^2");
        Ok(program::commit(&self.root, &second)?.is_some())
    }

    /// The changed paths that are unchanged since the commit `pin` kept them. `scratch` is a file
    /// that may be overwritten.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn still_as_pinned(
        &self,
        pin: &str,
        changed: &[String],
        scratch: &Path,
    ) -> Result<Vec<String>> {
        // Its first parent is the HEAD at that time; before the first commit it has none.
        let head = program::commit(&self.root, &format!("{pin}^"))?;
        let left: HashSet<String> = self.differing(head.as_deref(), pin)?.into_iter().collect();
        let names: Vec<String> =
            changed.iter().filter(|name| left.contains(*name)).cloned().collect();
        let (paths, _) = self.to_keep(&names)?;
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.tree(Some(pin), &paths, scratch)?;
        let touched = self.differing(Some(pin), &now)?;
        let paths = paths.as_they_are.iter().chain(&paths.gone).map(|path| lossy(path));
        Ok(paths.filter(|path| !touched.contains(path)).collect())
    }

    /// The changed paths of these names that can be kept, and the others with the reason.
    fn to_keep(&self, names: &[String]) -> Result<(KeptPaths, Vec<String>)> {
        if names.is_empty() {
            return Ok((KeptPaths::default(), Vec::new()));
        }
        Ok(self.keepable(&self.changed(names)?))
    }

    /// The changed paths that can be kept, and the others with the reason.
    pub(super) fn keepable(&self, changed: &Codes) -> (KeptPaths, Vec<String>) {
        let (mut kept, mut left_out) = (KeptPaths::default(), Vec::new());
        for path in changed.keys() {
            let mut leave = |why: &str| {
                left_out.push(format!("{} ({why})", lossy(path).escape_debug()));
            };
            let path = path.clone();
            let file = self.file(&path);
            match fs::symlink_metadata(&file) {
                _ if self.is_behind_link(&path) => kept.gone.push(path),
                Ok(_) if path.ends_with(b"/") => leave("a nested repository"),
                Ok(found) if found.is_file() && found.len() > BIG => {
                    leave(&format!("{} MB", found.len() >> 20));
                }
                Ok(found) if found.is_file() => match regular_file::open(&file) {
                    Ok(_) => kept.as_they_are.push(path),
                    Err(error) => leave(&error.to_string()),
                },
                Ok(found) if !found.is_dir() && !found.is_symlink() => leave("not a file"),
                Ok(found) if found.is_dir() && !file.join(".git").exists() => kept.gone.push(path),
                Ok(_) | Err(_) => kept.as_they_are.push(path),
            }
        }
        (kept, left_out)
    }

    /// The tree of a commit, or the empty one.
    fn base_tree(&self, commit: Option<&str>) -> Result<String> {
        commit.map_or_else(|| program::empty_tree(&self.root), |commit| self.tree_of(commit))
    }

    /// The tree of HEAD with these paths as they are now.
    pub(super) fn tree(
        &self,
        head: Option<&str>,
        changed: &KeptPaths,
        scratch: &Path,
    ) -> Result<String> {
        if changed.is_empty() {
            return self.base_tree(head);
        }
        let remove = ["--force-remove", "-z", "--stdin"];
        let add = ["--add", "--remove", "--replace", "-z", "--stdin"];
        let (gone, as_they_are) = (changed.gone.join(&0), changed.as_they_are.join(&0));
        let updates: [IndexUpdate<'_>; 2] = [(&remove, &gone), (&add, &as_they_are)];
        self.changed_tree(head, &updates, scratch)
    }

    /// The tree of a commit as calls of `git update-index` change it.
    pub(super) fn changed_tree(
        &self,
        commit: Option<&str>,
        updates: &[IndexUpdate<'_>],
        scratch: &Path,
    ) -> Result<String> {
        let mut lock = scratch.as_os_str().to_owned();
        lock.push(".lock");
        // Left by a run that was killed here.
        let clear = || [Path::new(&lock), scratch].map(|file| drop(fs::remove_file(file)));
        clear();
        let env = [("GIT_INDEX_FILE", scratch.as_os_str())];
        let own = ["-c", "core.splitIndex=false", "-c", "core.safecrlf=false"];
        let git = |arguments: &[&str], input: &[u8]| {
            program::run_with_input(&self.root, &[&own[..], arguments].concat(), &env, input)
        };
        let write = || -> Result<Vec<u8>> {
            git(&["read-tree", commit.unwrap_or("--empty")], &[])?;
            for (update, input) in updates.iter().filter(|(_, input)| !input.is_empty()) {
                git(&[&["update-index"], *update].concat(), input)?;
            }
            git(&["write-tree", "--missing-ok"], &[])
        };
        let tree = write();
        clear();
        Ok(lossy(&tree?).trim().to_owned())
    }

    /// Whether this slot has commits that neither HEAD nor a ref of its repository reaches, such as
    /// stashes, other branches and commits that were rewritten.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_own_strays(&self) -> Result<bool> {
        let head = self.head()?.commit;
        let left = PinSource { base: None, branch: None, began: None, changed: &[] };
        Ok(!self.strays(head.as_deref(), left)?.is_empty())
    }

    /// The base and the commits that HEAD was moved away from, if HEAD does not reach them.
    pub(super) fn strays(&self, head: Option<&str>, left: PinSource<'_>) -> Result<Vec<CommitId>> {
        let mut tips: Vec<CommitId> = left.base.map(CommitId::from).into_iter().collect();
        if let Some(branch) = left.branch {
            tips.extend(program::commit(&self.root, &format!("refs/heads/{branch}"))?);
        }
        tips.extend(left.began.map(|began| self.moves_since(began)).unwrap_or_default());
        if let Some(main) = self.slot_of() {
            tips.extend(self.slot_tips(&main)?);
        }
        tips.retain(|tip| Some(&**tip) != head);
        tips.sort();
        tips.dedup();
        if tips.is_empty() {
            return Ok(tips);
        }
        let mut arguments = vec!["merge-base", "--independent"];
        arguments.extend(head.into_iter().chain(tips.iter().map(CommitId::as_str)));
        let independent = lossy(&program::run(&self.root, &arguments)?);
        let stray = independent.lines().filter(|tip| Some(*tip) != head);
        Ok(stray.map(CommitId::from).collect())
    }

    /// The newest commits of a slot that its repository does not have: in branches, tags, stashes
    /// and worktrees that the attempt made, and in their reflogs. They go with the slot.
    fn slot_tips(&self, main: &Path) -> Result<Vec<CommitId>> {
        let known = format!("{}^HEAD\n", self.exclusions(Some(main), &["refs"])?);
        let list = ["rev-list", "--ignore-missing", "--parents", MOVES, "--all", "--reflog"];
        let list = [&list[..], &["--stdin"]].concat();
        let text = lossy(&program::run_with_input(&self.root, &list, &[], known.as_bytes())?);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        let parents: HashSet<&str> = lines.iter().flat_map(|line| &line[1..]).copied().collect();
        let commits = lines.iter().map(|line| line[0]);
        Ok(commits.filter(|commit| !parents.contains(commit)).map(CommitId::from).collect())
    }

    /// The branches, and the stash, with commits made since then that neither HEAD nor `base` has, and
    /// for a slot no branch of its repository, except the branches of other worktrees.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn apart(&self, base: Option<&str>, began: i64) -> Result<Vec<OtherBranch>> {
        let format = "--format=%(committerdate:unix) %(objectname) %(worktreepath)%(refname)";
        let list = ["for-each-ref", format, "--no-merged=HEAD", "refs/heads", "refs/stash"];
        // Before the first commit of HEAD there are none.
        let text = lossy(&program::run(&self.root, &list).unwrap_or_default());
        // Work landed while a slot was prepared is in its copies of these branches.
        let known = match self.slot_of() {
            Some(main) => self.exclusions(Some(&main), &["refs/heads", "refs/ralph/tip"])?,
            None => String::new(),
        };
        let known = base.map_or_else(String::new, |base| format!("^{base}\n")) + &known;
        let mut apart = Vec::new();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let at = words.next().and_then(|at| at.parse().ok());
            let (Some(commit), Some(name)) = (words.next(), words.next()) else { continue };
            if at.is_none_or(|at: i64| at < began) || !name.starts_with("refs/") {
                continue;
            }
            let branch = if name == "refs/stash" { "stash".to_owned() } else { branch_name(name) };
            let count = ["rev-list", "--count", "--ignore-missing", "--stdin", commit, "^HEAD"];
            let count = program::run_with_input(&self.root, &count, &[], known.as_bytes())?;
            let commits = lossy(&count).trim().parse().unwrap_or(1);
            if commits > 0 {
                apart.push(OtherBranch { branch, commit: commit.into(), commits, checkout: None });
            }
        }
        Ok(apart)
    }

    /// The commits made in this checkout since then that neither `base` nor landed work has, also work
    /// that a tip no longer names because the branch has followed; none without any.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn made_here(&self, base: &str, began: i64) -> Result<Option<OtherBranch>> {
        let head = self.head()?;
        let Some(commit) = head.commit else { return Ok(None) };
        let (age, base) = (format!("--max-age={began}"), format!("^{base}"));
        // Each landing ends with a commit that names its task.
        let newest = ["rev-list", "--max-count=1", "--grep=^Ralph-Task: ", commit.as_str(), &base];
        let landed = lossy(&program::run(&self.root, &newest)?).trim().to_owned();
        let landed = (!landed.is_empty()).then(|| format!("^{landed}"));
        let tips = ["--not", "--glob=refs/ralph/tip/*"];
        let count = ["rev-list", "--count", &age, commit.as_str(), &base];
        let count: Vec<&str> = count.into_iter().chain(landed.as_deref()).chain(tips).collect();
        let commits = lossy(&program::run(&self.root, &count)?).trim().parse()?;
        let branch = head.branch.unwrap_or_else(|| "HEAD".to_owned());
        let checkout = Some(self.root.display().to_string());
        Ok((commits > 0).then_some(OtherBranch { branch, commit, commits, checkout }))
    }

    /// The positions of HEAD since then, from the reflog.
    fn moves_since(&self, began: i64) -> Vec<CommitId> {
        let list = ["log", "--walk-reflogs", "--format=%H %gd", "--date=unix", MOVES, "HEAD", "--"];
        // Without a reflog, or on a branch without a commit, there are none.
        let text = lossy(&program::run(&self.root, &list).unwrap_or_default());
        let moves = text.lines().filter_map(|line| {
            let (commit, selector) = line.split_once(' ')?;
            let at: i64 = selector.split_once("@{")?.1.trim_end_matches('}').parse().ok()?;
            (at >= began).then(|| commit.into())
        });
        moves.collect()
    }
}

impl RepoReader {
    /// Lines that exclude the history of all refs in these folders from a walk: those of the repository
    /// in `main` from which this one borrows its objects, or its own.
    pub(super) fn exclusions(&self, main: Option<&Path>, folders: &[&str]) -> Result<String> {
        let refs = lossy(&self.refs_of(main, folders)?);
        let ids = refs.lines().map(|line| line.split(' ').next().unwrap_or_default());
        Ok(ids.flat_map(|id| ["^", id, "\n"]).collect())
    }

    /// The refs in these folders of the repository in `main` from which this one borrows its objects, or
    /// its own.
    pub(super) fn refs_of(&self, main: Option<&Path>, folders: &[&str]) -> Result<Vec<u8>> {
        match (main, &self.main) {
            (None, _) => self.refs(folders),
            (Some(root), Some(place)) => refs_in(place, root, folders),
            (Some(root), None) => RepoReader::of(root, None).refs(folders),
        }
    }
}

impl Repo {
    /// Creates a branch at a commit, without switching to it.
    ///
    /// # Errors
    /// The error of `git`; an existing branch is never moved.
    pub fn make_branch(&self, name: &str, commit: &str) -> Result<()> {
        program::run(&self.root, &["branch", "--no-track", "--", name, commit]).map(drop)
    }

    /// Whether a folder of a path is a symbolic link now.
    pub(super) fn is_behind_link(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut above = ends.map(|end| fs::symlink_metadata(self.file(&path[..end])));
        above.any(|above| above.is_ok_and(|found| found.is_symlink()))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        fs::File,
        os::unix::{ffi::OsStrExt, fs::symlink},
        path::PathBuf,
    };

    use super::*;
    use crate::adapters::git::tests::{TestRepository, TestSlots};

    const NAME: &str = "refs/ralph/a/1";

    /// Pins everything that is changed; the attempt started long ago at `base` on `main`.
    fn pin(place: &TestRepository, base: Option<&str>) -> Pin {
        let repo = Repo::discover(&place.top).unwrap();
        let changed: Vec<String> = repo.dirty().unwrap().into_keys().collect();
        let left = PinSource { base, branch: Some("main"), began: Some(0), changed: &changed };
        repo.pins().pin(NAME, "What was left\n\n", left, &place.top.join(".git/scratch")).unwrap()
    }

    /// The index, HEAD, the branches and the worktree.
    fn all_of(place: &TestRepository) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![place.top.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap();
                let skip = ["objects", "ralph"].map(|name| Some(OsStr::new(name)));
                if kind.is_dir() && !skip.contains(&path.file_name()) {
                    folders.push(path);
                } else if kind.is_file() && kind.len() < BIG {
                    all.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        all
    }

    #[test]
    fn what_landed_in_the_checkout_was_not_made_there() {
        let place = TestRepository::new();
        let base = place.commit("a", "1\n", "First");
        let made = || {
            let made = Repo::discover(&place.top).unwrap().pins().made_here(&base, 0).unwrap();
            made.map(|made| made.commits)
        };
        assert_eq!(made(), None);
        place.commit("a", "2\n", "The work of a task");
        place.commit("graph", "1\n", "Complete it\n\nRalph-Task: other\nRalph-Attempt: 1");
        assert_eq!(made(), None, "its landing");
        place.commit("b", "1\n", "In the wrong folder");
        assert_eq!(made(), Some(1));
    }

    #[test]
    fn a_folder_that_became_a_link_and_the_reverse_are_kept() {
        let place = TestRepository::new();
        place.write(".gitignore", "ignored\n");
        place.write("ignored/x", "1\n");
        place.git(&["add", "-f", "ignored/x"]);
        let base = place.commit("folder/x", "1\n", "First");
        for name in ["folder", "ignored"] {
            let to = place.top.with_file_name(name);
            fs::create_dir(&to).unwrap();
            fs::write(to.join("x"), "elsewhere\n").unwrap();
            fs::remove_dir_all(place.top.join(name)).unwrap();
            symlink(&to, place.top.join(name)).unwrap();
        }
        place.write("staged", "1\n");
        place.git(&["add", "staged"]);
        fs::remove_file(place.top.join("staged")).unwrap();
        place.write("staged/x", "1\n");
        let pin = pin(&place, Some(&base));
        let list = place.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", NAME]);
        assert_eq!(list, "100644 .gitignore\n120000 folder\n100644 staged/x");
        assert_eq!(pin.left_out, Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_leftover_is_kept_and_nothing_is_touched() {
        let place = TestRepository::new();
        for name in ["changed", "gone", "folder", "staged", "same"] {
            place.write(name, &format!("{name}\n"));
        }
        place.write(".gitignore", "*.log\n");
        let base = place.commit("typed", "x\n", "First");
        place.write("changed", "2\n");
        place.write("staged", "2\n");
        place.git(&["add", "staged"]);
        fs::remove_file(place.top.join("gone")).unwrap();
        fs::remove_file(place.top.join("folder")).unwrap();
        place.write("folder/in it", "x");
        fs::remove_file(place.top.join("typed")).unwrap();
        symlink("nowhere", place.top.join("typed")).unwrap();
        place.write("deep/er/quote\"d 'name'\n*", "x");
        place.write("x.log", "ignored");
        fs::write(place.top.join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
        place.git(&["init", "-q", "nested"]);
        place.write("nested/own", "x");
        place.git_in(&place.top.join("nested"), &["add", "own"]);
        place.git_in(&place.top.join("nested"), &["commit", "-q", "-m", "Own"]);
        File::create(place.top.join("big")).unwrap().set_len(BIG + 1).unwrap();
        let before = all_of(&place);

        let pinned = pin(&place, Some(&base));
        assert_eq!(before, all_of(&place), "neither index nor HEAD nor files are touched");
        assert_eq!(pinned.left_out, ["big (100 MB)", "nested/ (a nested repository)"]);
        let kept = place.try_git(&place.top, &["ls-tree", "-r", "-z", "--name-only", NAME]).stdout;
        let kept: Vec<&[u8]> = kept.split(|byte| *byte == 0).filter(|it| !it.is_empty()).collect();
        let want: [&[u8]; 8] = [
            b".gitignore",
            b"caf\xe9",
            b"changed",
            b"deep/er/quote\"d 'name'\n*",
            b"folder/in it",
            b"same",
            b"staged",
            b"typed",
        ];
        assert_eq!(kept, want);
        assert_eq!(place.git(&["show", &format!("{NAME}:changed")]), "2");
        assert!(place.git(&["log", "-1", "--format=%B", NAME]).ends_with("nested repository)"));
        assert_eq!(place.git(&["rev-parse", &format!("{NAME}^1")]), base);
        assert!(pin(&place, Some(&base)).commit.is_some(), "again is no harm");
    }

    #[test]
    fn without_changes_nothing_is_pinned() {
        let place = TestRepository::new();
        assert_eq!(pin(&place, None), Pin::default());
        let base = place.commit("a", "1\n", "First");
        assert_eq!(pin(&place, Some(&base)), Pin::default());
        assert!(
            !place.try_git(&place.top, &["rev-parse", "-q", "--verify", NAME]).status.success()
        );
        place.commit("a", "2\n", "Second");
        assert!(pin(&place, Some(&base)).commit.is_some(), "a commit is something");
    }

    #[test]
    fn untouched_leftovers_are_recognized() {
        let place = TestRepository::new();
        place.write("a person's", "1\n");
        let repo = Repo::discover(&place.top).unwrap();
        let scratch = place.top.join(".git/scratch");
        let same = |pin: &str| {
            let changed: Vec<String> = repo.dirty().unwrap().into_keys().collect();
            repo.pins().still_as_pinned(pin, &changed, &scratch).unwrap()
        };
        let keep = |name: &str, base: Option<&str>, left: &[&str]| {
            let changed: Vec<String> = left.iter().map(|&path| path.to_owned()).collect();
            let left = PinSource { base, branch: Some("main"), began: Some(0), changed: &changed };
            repo.pins().pin(name, "What was left\n\n", left, &scratch).unwrap().commit.unwrap()
        };
        let unborn = keep("refs/ralph/a/9", None, &["a person's"]);
        assert_eq!(same(&unborn), ["a person's"], "before the first commit");

        let base = place.commit("gone", "1\n", "First");
        place.write("same", "1\n");
        place.write("touched", "1\n");
        place.write("staged", "1\n");
        fs::remove_file(place.top.join("gone")).unwrap();
        let left = ["gone", "same", "staged", "touched"];
        let pin = keep("refs/ralph/a/10", Some(&base), &left);
        place.write("touched", "2\n");
        place.write("new", "1\n");
        place.git(&["add", "staged"]);
        assert_eq!(same(&pin), ["gone", "same", "staged"]);
        place.write("gone", "1\n");
        place.git(&["add", "same"]);
        place.git(&["commit", "-q", "-m", "Second", "--", "same"]);
        assert_eq!(same(&pin), ["staged"]);
        assert_eq!(repo.pins().newest("refs/ralph/a").unwrap(), Some(pin));
        assert_eq!(repo.pins().newest("refs/ralph/b").unwrap(), None);
    }

    #[test]
    fn before_the_first_commit_there_is_no_parent() {
        let place = TestRepository::new();
        place.write("a b", "1\n");
        assert!(pin(&place, None).commit.is_some());
        assert_eq!(place.git(&["log", "--format=%s", NAME]), "What was left");
        assert_eq!(place.git(&["show", &format!("{NAME}:a b")]), "1");
    }

    #[test]
    fn pinned_commits_survive_gc() {
        let place = TestRepository::new();
        place.commit("a", "0\n", "Root");
        let base = place.commit("a", "1\n", "Base");
        let lost = place.commit("lost", "1\n", "Lost by a reset");
        place.git(&["reset", "-q", "--hard", "HEAD~1"]);
        place.git(&["commit", "-q", "--amend", "-m", "Another base"]);
        place.git(&["checkout", "-q", "-b", "other"]);
        place.git(&["branch", "-q", "-D", "main"]);
        assert!(pin(&place, Some(&base)).commit.is_some());
        place.git(&["reflog", "expire", "--expire=now", "--all"]);
        place.git(&["gc", "-q", "--prune=now"]);
        let kept = place.git(&["log", "--format=%H", NAME]);
        for commit in [&base, &lost] {
            assert!(kept.contains(commit.as_str()), "{commit} is gone");
        }
        let head = place.git(&["rev-parse", "HEAD"]);
        assert_eq!(place.git(&["rev-parse", &format!("{NAME}^1")]), head);
    }

    #[test]
    fn all_that_an_attempt_committed_in_its_slot_is_kept() {
        let trees = TestSlots::new();
        let base = trees.place.commit("a", "0\n", "Base");
        trees.place.git(&["branch", "-q", "others"]);
        let slot = trees.add("1");
        let git = |arguments: &[&str]| trees.git(&slot, arguments);
        let mut kept = Vec::new();
        for branch in ["side", "tagged"] {
            git(&["checkout", "-q", "-b", branch, &base]);
            kept.push(trees.commit(&slot, branch, "1\n"));
        }
        git(&["tag", "mark"]);
        git(&["checkout", "-q", "side"]);
        git(&["branch", "-q", "-D", "tagged"]);
        for text in ["one\n", "two\n"] {
            fs::write(slot.root().join("a"), text).unwrap();
            git(&["stash", "-q"]);
            kept.push(git(&["rev-parse", "stash"]).into());
        }
        let second = trees.path("second");
        git(&["worktree", "add", "-q", "--detach", second.to_str().unwrap()]);
        fs::write(second.join("b"), "1\n").unwrap();
        trees.place.git_in(&second, &["add", "b"]);
        trees.place.git_in(&second, &["commit", "-q", "-m", "Second"]);
        kept.push(trees.place.git_in(&second, &["rev-parse", "HEAD"]).into());
        git(&["checkout", "-q", "others"]);
        let source =
            PinSource { base: Some(&base), branch: Some("others"), began: Some(0), changed: &[] };
        let pin = slot.pins().pin(NAME, "Work\n", source, &trees.path("scratch")).unwrap();
        let pin = pin.commit.unwrap();
        trees.main().slots().bring_home(&slot, &pin, NAME).unwrap();
        fs::remove_dir_all(slot.root()).unwrap();
        trees.place.git(&["gc", "-q", "--prune=now"]);
        assert!(trees.main().pins().has_strays(&pin).unwrap());
        let log = trees.place.git(&["log", "--format=%H", NAME]);
        for commit in &kept {
            assert!(log.contains(commit.as_str()), "{commit} is gone");
        }
        // Without work of its own there is no pin.
        let slot = trees.add("2");
        let head = slot.head().unwrap().commit;
        let source = PinSource { base: head.as_deref(), branch: None, ..source };
        let pin = slot.pins().pin(NAME, "Work\n", source, &trees.path("scratch")).unwrap();
        assert_eq!(pin.commit, None);
    }

    #[test]
    fn what_landed_while_a_slot_was_prepared_is_no_branch_of_its_attempt() {
        let trees = TestSlots::new();
        let base = trees.place.commit("a", "0\n", "Base");
        let slot = trees.add("1");
        let landed = trees.place.commit("a", "1\n", "Landed");
        trees.git(&slot, &["update-ref", "refs/heads/main", &landed]);
        assert_eq!(slot.pins().apart(Some(&base), 0).unwrap(), []);
        trees.git(&slot, &["checkout", "-q", "-b", "side", "main"]);
        trees.commit(&slot, "b", "1\n");
        trees.git(&slot, &["checkout", "-q", "--detach", &base]);
        let apart = slot.pins().apart(Some(&base), 0).unwrap();
        let found: Vec<_> = apart.iter().map(|it| (it.branch.as_str(), it.commits)).collect();
        assert_eq!(found, [("side", 1)]);
    }

    #[test]
    fn other_repository_formats_can_be_pinned() {
        for format in ["--object-format=sha256", "--ref-format=reftable"] {
            let Some(place) = TestRepository::with(&[format]) else {
                continue;
            };
            let base = place.commit("a", "1\n", "First");
            place.write("b", "2\n");
            assert!(pin(&place, Some(&base)).commit.is_some());
            assert_eq!(place.git(&["show", &format!("{NAME}:b")]), "2");
            let repo = Repo::discover(&place.top).unwrap();
            assert_eq!(repo.has_text_at(&base, "a").unwrap(), Some(true));
            assert!(repo.local().controls().contains_key(".git/config"));
        }
    }
}
