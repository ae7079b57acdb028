//! Brings the work of an earlier attempt into a slot.

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, Result};

use super::{
    BranchWork, Integrated, Integration, IntegrationMethod, lossy,
    pin::IDENTITY,
    program::{self, NewCommit},
    slot_settings::remove_all,
};
use crate::{core::commit_id::CommitId, regular_file};

/// The trailer of a pin for a path, as a JSON string, that is kept there and is not work of the
/// attempt: a command of `setup` or `verify` wrote it.
pub const NOT_WORK: &str = "Ralph-Not-Work";

/// The message of the work that [`Integration::merge_into_files`] brings, which git writes at the end
/// of each conflict.
const EARLIER_WORK: &str = "work of an earlier attempt";

/// Whether a text has a conflict as an attempt finds it in its files.
pub fn is_marked(text: &[u8]) -> bool {
    let end = format!(" ({EARLIER_WORK})");
    let is_end = |line: &[u8]| {
        line.starts_with(b">>>>>>> ") && line.trim_ascii_end().ends_with(end.as_bytes())
    };
    text.split(|byte| *byte == b'\n').any(is_end)
}

/// The result of bringing kept work into a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoredWork {
    /// The work is in the slot.
    Done,
    /// The work is in the files of the slot, uncommitted. It conflicts with the branch in these, which
    /// have both sides, marked.
    Marked(Vec<String>),
    /// The work conflicts with the branch in these files. The slot has none of it.
    Conflict(Vec<String>),
    /// The work cannot be read, for this reason. The slot has none of it.
    Unreadable(String),
}

/// The work of a pin.
struct PinnedWork {
    /// The last commit of the attempt.
    head: CommitId,
    /// The commit from which it started.
    base: CommitId,
    /// A commit on top of `head` with what it left uncommitted, if there is any.
    changes: Option<CommitId>,
}

impl PinnedWork {
    fn all(&self) -> &CommitId {
        self.changes.as_ref().unwrap_or(&self.head)
    }
}

impl Integration<'_> {
    /// Brings the work of the pin `pin` into this slot, on top of `onto`, with HEAD on `branch`.
    /// What the work changed at the paths `own` is left out, as is what is [not work](NOT_WORK).
    /// `attributes` is an additional attributes file (gitattributes(5)). With `marks`, conflicts are
    /// left in the files if that can be done; without, work with such marks is a conflict.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    pub fn restore(
        &self,
        pin: &str,
        onto: &str,
        branch: &str,
        own: &[&str],
        attributes: Option<&Path>,
        marks: bool,
    ) -> Result<RestoredWork> {
        let restore = || -> Result<_> {
            let work = self.pinned_work(pin)?;
            let marked = self.marked_files(&work.base, work.all())?;
            if !marked.is_empty() && !marks {
                return Ok((RestoredWork::Conflict(marked), CommitId::from(onto)));
            }
            let paths = match self.replay_pin(&work, onto, own, attributes)? {
                Ok(head) if marked.is_empty() => return Ok((RestoredWork::Done, head)),
                Ok(head) => return Ok((RestoredWork::Marked(marked), head)),
                Err(paths) => paths,
            };
            let (head, base) = (&**work.all(), &*work.base);
            let piece = BranchWork { head, base, message: EARLIER_WORK };
            if marks
                && marked.is_empty()
                && let Some(marked) = self.merge_into_files(onto, &piece, own, attributes)?
            {
                return Ok((RestoredWork::Marked(marked), onto.into()));
            }
            Ok((RestoredWork::Conflict(paths), onto.into()))
        };
        let (restored, head) = restore().with_context(|| {
            format!("cannot restore the work of commit {}", CommitId::from(pin).short())
        })?;
        if matches!(restored, RestoredWork::Conflict(_)) {
            self.slot().move_to(onto)?;
        }
        self.begin_on(branch, &head)?;
        Ok(restored)
    }

    /// Removes what [`restore`](Integration::restore) has brought from this slot, which the pin keeps.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    pub fn start_over(&self, onto: &str, branch: &str) -> Result<()> {
        self.clean_up()?;
        self.slot().move_to(onto)?;
        self.begin_on(branch, onto)
    }

    /// Puts HEAD on the branch of an attempt, at the commit where it is.
    fn begin_on(&self, branch: &str, head: &str) -> Result<()> {
        // The steps up to here are no commits that the attempt leaves.
        remove_all(&self.git_dir.join("logs")).context("remove the reflogs of the slot")?;
        self.slot().name_branch(branch, head)
    }

    /// Puts the changes of a branch into the files of this slot, uncommitted, with HEAD at `onto`.
    /// Where both changed the same lines, the file has both sides, marked. Returns these files; none,
    /// and a clean slot, if one of them cannot have marks.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    fn merge_into_files(
        &self,
        onto: &str,
        piece: &BranchWork<'_>,
        own: &[&str],
        attributes: Option<&Path>,
    ) -> Result<Option<Vec<String>>> {
        let git = self.calls(attributes);
        let one = self.as_one(&git, onto, piece, own, false)?;
        let Some((_, one)) = one else { return Ok(None) };
        self.slot().detach_at(onto)?;
        let arguments = ["cherry-pick", "--no-commit", &one];
        let output = git.run_raw(&arguments)?;
        let paths = git.unmerged()?;
        if !output.status.success() && paths.is_empty() {
            return Err(program::failed(&arguments, &output));
        }
        let has_marks = |path: &String| {
            regular_file::read(&self.root.join(path)).is_ok_and(|text| is_marked(&text))
        };
        if !paths.iter().all(has_marks) {
            self.clean_up()?;
            return Ok(None);
        }
        // Nothing is staged, and git forgets that it stopped in the middle.
        git.run_raw(&["reset", "-q", "--mixed"])?;
        Ok(Some(paths))
    }

    /// Returns the files that differ between two commits and have such marks in the second.
    ///
    /// # Errors
    /// The error of `git`.
    fn marked_files(&self, base: &str, commit: &str) -> Result<Vec<String>> {
        let mut marked = Vec::new();
        for path in self.differing(Some(base), commit)? {
            if self.file_at(commit, &path)?.is_some_and(|text| is_marked(&text)) {
                marked.push(path);
            }
        }
        Ok(marked)
    }

    fn pinned_work(&self, pin: &str) -> Result<PinnedWork> {
        let base = "%(trailers:key=Ralph-Base,valueonly)";
        let format = format!("--format=%P%n{base}%(trailers:key={NOT_WORK},valueonly)");
        let shown = lossy(&program::run(&self.root, &["log", "-1", &format, pin])?);
        let mut lines = shown.lines();
        let head = lines.next().and_then(|parents| parents.split(' ').next());
        let head = head.filter(|head| !head.is_empty()).context("it has no parent")?;
        let base = lines.next().context("it does not name its base")?.into();
        let not_work: Vec<String> = lines.filter_map(|it| serde_json::from_str(it).ok()).collect();
        let not_work: Vec<&str> = not_work.iter().map(String::as_str).collect();
        let tree = self.commits().with_entries(pin, &not_work, &self.entries(head, &not_work)?)?;
        let mut changes = None;
        if tree != self.tree_of(head)? {
            // The pin may have more parents, for commits that HEAD was moved away from.
            let (parents, message) = (&[head][..], "Uncommitted\n");
            let env = &IDENTITY.map(|(name, value)| (name, OsStr::new(value)));
            let new = NewCommit { tree: &tree, parents, message, env, is_signed: false };
            changes = Some(program::commit_tree(&self.root, &new)?);
        }
        Ok(PinnedWork { head: head.into(), base, changes })
    }

    /// Returns the new head of the work, with the uncommitted changes in the files; or the paths of
    /// a conflict.
    fn replay_pin(
        &self,
        work: &PinnedWork,
        onto: &str,
        own: &[&str],
        attributes: Option<&Path>,
    ) -> Result<Result<CommitId, Vec<String>>> {
        let replay = |onto: &str, head: &str, base: &str| -> Result<_> {
            let piece = BranchWork { head, base, message: "Work of an earlier attempt" };
            let how = IntegrationMethod::Rebase;
            let at = match self.integrate(onto, &piece, how, own, attributes)? {
                Integrated::Done(commit) | Integrated::Resolved { commit, .. } => commit,
                Integrated::Nothing => CommitId::from(onto),
                Integrated::Conflict { paths, .. } => return Ok(Err(paths)),
            };
            self.slot().move_to(&at)?;
            Ok(Ok(at))
        };
        let committed = match replay(onto, &work.head, &work.base)? {
            Ok(commit) => commit,
            Err(paths) => return Ok(Err(paths)),
        };
        let Some(changes) = &work.changes else { return Ok(Ok(committed)) };
        if let Err(paths) = replay(&committed, changes, &work.head)? {
            return Ok(Err(paths));
        }
        // The files keep the changes, and index and HEAD do not have them.
        self.point_head(None, Some(&committed), "ralph: uncommitted work")?;
        self.reset_index(Some(&committed))?;
        Ok(Ok(committed))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Repo;
    use super::*;
    use crate::adapters::git::{PinSource, PushRule, tests::TestSlots};

    /// Commits `b`, leaves `c` uncommitted, and pins both. Returns the pin.
    fn left(trees: &TestSlots, slot: &Repo) -> CommitId {
        trees.commit(slot, "b", "work\n");
        fs::write(slot.root().join("c"), "left\n").unwrap();
        fs::write(slot.root().join("a"), "left too\n").unwrap();
        // These are not its work.
        fs::write(slot.root().join("b"), "by a command\n").unwrap();
        fs::write(slot.root().join("made \"here\""), "by a command\n").unwrap();
        let changed: Vec<String> = slot.dirty().unwrap().into_keys().collect();
        let base = Some(&*trees.first);
        let left = PinSource { base, branch: None, began: None, changed: &changed };
        let others = format!("{NOT_WORK}: \"b\"\n{NOT_WORK}: \"made \\\"here\\\"\"\n");
        let message = format!("Left\n\nRalph-Base: {}\n{others}", trees.first);
        let pin =
            slot.pins().pin("refs/ralph/x/1", &message, left, &trees.path("scratch")).unwrap();
        let pin = pin.commit.unwrap();
        trees.bring(slot, &pin);
        assert!(slot.slot().settle_on(&pin).unwrap());
        slot.slot().note(&pin).unwrap();
        pin
    }

    #[test]
    fn commits_and_changes_are_continued() {
        let trees = TestSlots::new();
        let main = trees.main();
        let settings = main.slots().settings(PushRule::Refuse).unwrap();
        let slot = trees.add("1");
        let pin = left(&trees, &slot);
        let state = |slot: &Repo| trees.git(slot, &["status", "--porcelain"]);
        let log = |slot: &Repo| trees.git(slot, &["log", "--format=%s"]);
        // In the same slot, and the branch has not moved.
        let slot = main.slots().start(&slot, &settings, &trees.first, "ralph/x").unwrap();
        let restored =
            slot.integration().restore(&pin, &trees.first, "ralph/x", &[], None, false).unwrap();
        assert_eq!(restored, RestoredWork::Done);
        assert_eq!((&*state(&slot), &*log(&slot)), ("M a\n?? c", "b\nFirst"));
        assert_eq!(slot.head().unwrap().branch.as_deref(), Some("ralph/x"));
        trees.git(&slot, &["add", "-A"]);
        trees.git(&slot, &["commit", "-qm", "Both"]);
        assert!(!slot.pins().has_own_strays().unwrap(), "how it was restored is nobody's work");
        trees.git(&slot, &["reset", "-q", "--mixed", "HEAD~"]);
        assert!(slot.pins().has_own_strays().unwrap());
        // In another one, on top of what has landed since.
        let tip = trees.place.commit("d", "1\n", "d");
        let other = main.slots().make(&trees.path("2"), &settings, &tip).unwrap();
        let restored =
            other.integration().restore(&pin, &tip, "ralph/x", &[], None, false).unwrap();
        assert_eq!(restored, RestoredWork::Done);
        assert_eq!((&*state(&other), &*log(&other)), ("M a\n?? c", "b\nd\nFirst"));
        // A conflict with a commit, and one with an uncommitted change.
        for path in ["b", "a"] {
            let tip = trees.place.commit(path, "other\n", "Other");
            let slot = main.slots().make(&trees.path(path), &settings, &tip).unwrap();
            let restore = |marks| {
                slot.integration().restore(&pin, &tip, "ralph/x", &[], None, marks).unwrap()
            };
            assert_eq!(restore(false), RestoredWork::Conflict(vec![path.to_owned()]));
            let at = || (slot.head().unwrap().branch, slot.head().unwrap().commit);
            assert_eq!((state(&slot), at().1), (String::new(), Some(tip.clone())));
            // In the files, with all other changes, and nothing staged.
            assert_eq!(restore(true), RestoredWork::Marked(vec![path.to_owned()]));
            assert_eq!(at(), (Some("ralph/x".to_owned()), Some(tip.clone())));
            let changed: Vec<String> = slot.dirty().unwrap().into_keys().collect();
            assert_eq!(changed, ["a", "b", "c"]);
            let text = fs::read(slot.root().join(path)).unwrap();
            assert!(is_marked(&text) && text.starts_with(b"<<<<<<< "), "{text:?}");
            assert_eq!(slot.unfinished(), None);
            assert_eq!(trees.git(&slot, &["diff", "--cached", "--name-only"]), "");
            // An attempt that leaves the marks is continued only where that is wanted.
            let left = PinSource { base: Some(&tip), branch: None, began: None, changed: &changed };
            let message = format!("Left\n\nRalph-Base: {tip}\n");
            let marked = slot.pins().pin("refs/ralph/x/2", &message, left, &trees.path("scratch"));
            let marked = marked.unwrap().commit.unwrap();
            slot.integration().start_over(&tip, "ralph/x").unwrap();
            assert_eq!((state(&slot), at().1), (String::new(), Some(tip.clone())));
            for (marks, restored) in [
                (true, RestoredWork::Marked(vec![path.to_owned()])),
                (false, RestoredWork::Conflict(vec![path.to_owned()])),
            ] {
                let again = slot.integration().restore(&marked, &tip, "ralph/x", &[], None, marks);
                assert_eq!(again.unwrap(), restored);
                slot.integration().start_over(&tip, "ralph/x").unwrap();
            }
            trees.place.git(&["reset", "-q", "--hard", "HEAD~"]);
        }
        // A file that one side removed has no marks.
        trees.place.git(&["rm", "-q", "a"]);
        // Nor is it taken for this one under another name.
        let tip = trees.place.commit("d", "2\n", "Removed");
        let slot = main.slots().make(&trees.path("removed"), &settings, &tip).unwrap();
        let restored = slot.integration().restore(&pin, &tip, "ralph/x", &[], None, true).unwrap();
        assert_eq!(restored, RestoredWork::Conflict(vec!["a".to_owned()]));
        assert_eq!((state(&slot), slot.head().unwrap().commit), (String::new(), Some(tip)));
    }
}
