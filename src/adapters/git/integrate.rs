//! Integrates a branch onto another commit, in a slot that is used for nothing else.
//!
//! The `git` program merges, because libgit2 supports no merge drivers, filters and signatures.
//! A killed git's leftovers are kept under a ref of the slot, and the next call starts from the
//! beginning: nothing of an earlier call is continued.

use std::{ffi::OsStr, fmt::Write as _, path::Path, process::Output};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{
    Integration, PinSource,
    head::QUIET,
    lossy,
    program::{self, NewCommit, STAYS_OUT},
};
use crate::core::{commit_id::CommitId, verdict::ResolvedConflict};

/// The ref that keeps the uncommitted state of the slot; only the last one. It belongs to this
/// slot, and is removed with it.
const KEPT: &str = "refs/worktree/kept";

/// The maximum length of the diff of a conflict, in bytes.
const LONG: usize = 64 << 10;

/// The settings that override a person's settings for their own merges. Settings for the form of
/// commits still apply.
const OWN: &[&str] = &[
    "-c",
    "merge.autoStash=false",
    "-c",
    "merge.conflictStyle=diff3",
    "-c",
    "merge.log=false",
    "-c",
    "rebase.autoSquash=false",
    "-c",
    "rebase.autoStash=false",
    "-c",
    "rebase.missingCommitsCheck=ignore",
    "-c",
    "rebase.rebaseMerges=false",
    "-c",
    "rebase.updateRefs=false",
    "-c",
    "rerere.enabled=false",
];

/// The method of integrating work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntegrationMethod {
    /// The commits are replayed on top, one by one.
    ///
    /// A branch that contains merges is merged instead: only the merge commits contain how
    /// conflicts were resolved, and a replay would lose that or ask again.
    Rebase,
    /// The commits stay as they are, and a merge commit is added.
    ///
    /// If the base of the branch is no longer in the target, the commits are replayed: a merge
    /// would restore content removed from the target.
    Merge,
}

/// The work of one branch.
#[derive(Clone, Copy, Debug)]
pub struct BranchWork<'a> {
    /// The last commit of the branch.
    pub head: &'a str,
    /// The commit from which the branch started.
    pub base: &'a str,
    /// The message of the merge or of the single commit, including trailers.
    pub message: &'a str,
}

/// The result of an integration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrated {
    /// The work is in this commit.
    Done(CommitId),
    /// The same, after conflicts were resolved.
    Resolved {
        /// The commit.
        commit: CommitId,
        /// The files. One with the value of [`REGENERATES`](super::REGENERATES) has the content of
        /// the target, and must be regenerated.
        files: Vec<ResolvedConflict>,
        /// The commits of the target that changed these files.
        others: String,
    },
    /// The work conflicts with the target. It is in no commit.
    Conflict {
        /// The paths that both have changed.
        paths: Vec<String>,
        /// The messages of git, the conflicted diff, at most 64 KiB, and the commits of the target
        /// that changed these paths.
        diff: String,
    },
    /// There is nothing to integrate: the target contains all of it, or it was left out.
    Nothing,
}

impl Integrated {
    /// Work in this commit, with resolved conflicts in these files.
    fn of(commit: CommitId, files: Vec<ResolvedConflict>) -> Integrated {
        if files.is_empty() {
            return Integrated::Done(commit);
        }
        Integrated::Resolved { commit, files, others: String::new() }
    }
}

impl Integration<'_> {
    /// The commit that has the work on top of `onto` without any change: the head of a branch that
    /// started there, if the method is rebase and the branch changes none of the paths `own`. A
    /// commit that a person has taken off the target since is not brought back.
    /// Starts at most one process where libgit2 can read the repository.
    ///
    /// # Errors
    /// The error of `git`.
    fn fits_as_it_is(
        &self,
        onto: &str,
        piece: &BranchWork<'_>,
        how: IntegrationMethod,
        own: &[&str],
    ) -> Result<Option<CommitId>> {
        if how != IntegrationMethod::Rebase
            || piece.head == onto
            || !self.is_ancestor(onto, piece.head)?
            || !self.is_ancestor(piece.base, onto)?
        {
            return Ok(None);
        }
        let is_same = self.entries(onto, own)? == self.entries(piece.head, own)?;
        let links = self.links(piece.head, [onto, piece.base])?;
        Ok((is_same && !self.touches(&links, own)?).then(|| piece.head.into()))
    }

    /// Integrates the work onto `onto`, in this slot. No branch is moved and no hook is run.
    /// The branch's changes at the paths `own` are left out: its commits are rewritten without
    /// them, and a commit that changed nothing else is dropped. `attributes` is an additional
    /// attributes file (gitattributes(5)).
    ///
    /// Afterwards the slot is clean. HEAD is on no branch after a conflict, at `onto`, and with
    /// resolved conflicts, at their commit; else the caller checks out the result. It may be called
    /// again after a kill at any moment.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    pub fn integrate(
        &self,
        onto: &str,
        piece: &BranchWork<'_>,
        how: IntegrationMethod,
        own: &[&str],
        attributes: Option<&Path>,
    ) -> Result<Integrated> {
        let combine = || self.combine(onto, piece, how, own, attributes);
        let mut integrated = self.commits().signed_if_possible(combine)?;
        match &mut integrated {
            Integrated::Conflict { paths, diff } => {
                diff.push_str(&self.other_side(onto, piece.base, paths)?);
            }
            Integrated::Resolved { files, others, .. } => {
                *others = self.other_side(onto, piece.base, &ResolvedConflict::paths(files))?;
            }
            Integrated::Done(_) | Integrated::Nothing => {}
        }
        if matches!(integrated, Integrated::Conflict { .. })
            && !crate::core::known_bug::is_on("leave-head-at-the-conflict")
        {
            // Git returns to the head of the branch when it aborts a rebase.
            self.slot().detach_at(onto)?;
        }
        Ok(integrated)
    }

    /// A note on the newest commits that changed these paths since `base`.
    fn other_side(&self, onto: &str, base: &str, paths: &[String]) -> Result<String> {
        const LINES: usize = 40;
        const FORMAT: &str = "%h %s%n%w(0,2,2)%b";
        let said = self.landings().later_changes((base, onto), paths, FORMAT)?;
        let lines = said.lines().filter(|line| !line.trim().is_empty()).take(LINES);
        let lines: Vec<&str> = lines.collect();
        if lines.is_empty() {
            return Ok(String::new());
        }
        Ok(format!("\nThe other side has these commits:\n{}\n", lines.join("\n")))
    }

    /// Takes these files, as they are in this slot, into the commit at HEAD. Returns the commit; other
    /// changes are dropped.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn amend(&self, files: &[ResolvedConflict]) -> Result<CommitId> {
        let git = self.calls(None);
        let paths = files.iter().filter(|file| file.command.is_some()).map(|it| it.path.as_str());
        let add: Vec<&str> =
            ["--literal-pathspecs", "add", "--"].into_iter().chain(paths).collect();
        let commit = [
            "commit",
            "-q",
            "--amend",
            "--no-verify",
            "--allow-empty",
            "--cleanup=verbatim",
            "-CHEAD",
        ];
        let amend = || -> Result<()> {
            for arguments in [&add[..], &commit] {
                let output = git.run_raw(arguments)?;
                if !output.status.success() {
                    return Err(program::failed(arguments, &output));
                }
            }
            Ok(())
        };
        self.commits().signed_if_possible(amend)?;
        let commit = self.head()?.commit.context("HEAD is at no commit after a commit")?;
        self.check_out(&commit)?;
        Ok(commit)
    }

    /// Checks out a commit in the slot for merges, without leftovers of commands.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn check_out(&self, commit: &str) -> Result<()> {
        self.clean_up().context("cannot clean the slot for merges")?;
        self.slot().detach_at(commit)
    }

    /// Does the work of [`integrate`](Integration::integrate). Leaves HEAD where git leaves it.
    fn combine(
        &self,
        onto: &str,
        piece: &BranchWork<'_>,
        how: IntegrationMethod,
        own: &[&str],
        attributes: Option<&Path>,
    ) -> Result<Integrated> {
        self.clean_up().context("cannot clean the slot for merges")?;
        if let Some(same) = self.fits_as_it_is(onto, piece, how, own)? {
            return Ok(Integrated::Done(same));
        }
        let links = self.links(piece.head, [onto, piece.base])?;
        let head = self.rewrite_without(&links, piece.head, own)?;
        let piece = &BranchWork { head: &head, ..*piece };
        let links = self.links(piece.head, [onto, piece.base])?;
        let Some(first) = links.first() else { return Ok(Integrated::Nothing) };
        let has_merges = links.iter().any(|link| link.parents.len() > 1);
        let is_based = self.is_ancestor(piece.base, onto)?;
        let git = self.calls(attributes);
        if is_based && (has_merges || how == IntegrationMethod::Merge) {
            self.merge(&git, onto, piece, own)
        } else if has_merges {
            self.squash(&git, onto, piece, own)
        } else {
            self.replay(&git, onto, first.parents.first().map(CommitId::as_str), piece.head)
        }
    }

    /// Makes the slot for merges clean, whatever was left in it.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    pub fn clean_up(&self) -> Result<()> {
        self.slot().drop_locks()?;
        self.slot().forget_unfinished()?;
        let changed: Vec<String> = self.dirty()?.into_keys().collect();
        if changed.is_empty() {
            return Ok(());
        }
        let head = self.head()?.commit;
        let left =
            PinSource { base: head.as_deref(), branch: None, began: None, changed: &changed };
        let scratch = self.git_dir.join("ralph-index");
        let kept = self.pins().pin(KEPT, "Left in the slot for merges\n\n", left, &scratch)?;
        match kept.commit.or(head) {
            // Unkept files stay, and git refuses if they are in the way.
            Some(commit) => self.slot().settle_on(&commit).map(drop),
            None => Ok(()),
        }
    }

    fn replay(
        &self,
        git: &GitCalls<'_>,
        onto: &str,
        from: Option<&str>,
        head: &str,
    ) -> Result<Integrated> {
        let rebase = ["rebase", "--merge", "--empty=drop", "--reapply-cherry-picks"];
        let rest = ["--no-fork-point", "--no-stat", "--onto", onto, from.unwrap_or("--root"), head];
        let arguments = [&rebase[..], &rest].concat();
        let mut output = git.run_raw(&arguments)?;
        let mut resolved: Vec<ResolvedConflict> = Vec::new();
        while !output.status.success() {
            // Git would clean up the message.
            let commit = ["commit", "-q", "--no-verify", "--cleanup=verbatim", "-C", "REBASE_HEAD"];
            let files = git.resolve()?;
            if files.is_empty() || !git.run_raw(&commit)?.status.success() {
                return git.conflict(&arguments, &output);
            }
            for file in files {
                if !resolved.contains(&file) {
                    resolved.push(file);
                }
            }
            output = git.run_raw(&["rebase", "--continue"])?;
        }
        let result = self.head()?.commit.context("HEAD is at no commit after a rebase")?;
        Ok(if result == *onto { Integrated::Nothing } else { Integrated::of(result, resolved) })
    }

    fn merge(
        &self,
        git: &GitCalls<'_>,
        onto: &str,
        piece: &BranchWork<'_>,
        own: &[&str],
    ) -> Result<Integrated> {
        // A merge inside the branch may have taken the older text of a file that the target
        // changed.
        let has = self.entries(piece.head, own)?;
        for common in self.merge_bases(onto, piece.head)? {
            if self.entries(&common, own)? != has {
                return self.squash(git, onto, piece, own);
            }
        }
        self.slot().detach_at(onto)?;
        let merge = ["merge", "--no-ff", "--no-edit", "--no-stat", "--no-verify-signatures"];
        let arguments =
            [&merge[..], &["--allow-unrelated-histories", "-m", piece.message, piece.head]]
                .concat();
        let output = git.run_raw(&arguments)?;
        let commit = ["commit", "-q", "--no-verify", "-m", piece.message];
        let mut resolved = Vec::new();
        if !output.status.success() {
            resolved = git.resolve()?;
            if resolved.is_empty() || !git.run_raw(&commit)?.status.success() {
                return git.conflict(&arguments, &output);
            }
        }
        let result = self.head()?.commit.context("HEAD is at no commit after a merge")?;
        let is_same = self.tree_of(&result)? == self.tree_of(onto)?;
        Ok(if is_same { Integrated::Nothing } else { Integrated::of(result, resolved) })
    }

    fn squash(
        &self,
        git: &GitCalls<'_>,
        onto: &str,
        piece: &BranchWork<'_>,
        own: &[&str],
    ) -> Result<Integrated> {
        let is_signed = self.commits().signs_commits()?;
        match self.as_one(git, onto, piece, own, is_signed)? {
            Some((from, one)) => self.replay(git, onto, Some(&from), &one),
            None => Ok(Integrated::Nothing),
        }
    }

    /// Returns one commit with all changes of a branch, and its parent; none if it changes nothing.
    pub(super) fn as_one(
        &self,
        git: &GitCalls<'_>,
        onto: &str,
        piece: &BranchWork<'_>,
        own: &[&str],
        is_signed: bool,
    ) -> Result<Option<(CommitId, CommitId)>> {
        // The branch may have merged commits that are newer than its base.
        let common = self.merge_bases(onto, piece.head)?.into_iter().next();
        let from = match common {
            Some(common) if self.is_ancestor(piece.base, onto)? => common,
            _ => piece.base.into(),
        };
        let tree = self.commits().with_entries(piece.head, own, &self.entries(&from, own)?)?;
        if tree == self.tree_of(&from)? {
            return Ok(None);
        }
        let (message, env) = (piece.message, &git.env[..]);
        let new = NewCommit { tree: &tree, parents: &[&from], message, env, is_signed };
        let one = program::commit_tree(&self.root, &new)?;
        Ok(Some((from, one)))
    }

    /// How git is called, with an additional attributes file.
    pub(super) fn calls(&self, attributes: Option<&Path>) -> GitCalls<'_> {
        let attributes = attributes.map(|file| format!("core.attributesFile={}", file.display()));
        GitCalls { repo: self, attributes, env: self.commits().identity() }
    }

    /// The newest commits that both contain.
    fn merge_bases(&self, one: &str, other: &str) -> Result<Vec<CommitId>> {
        let found = program::answer(&self.root, &["merge-base", "--all", one, other])?;
        Ok(found.unwrap_or_default().lines().map(CommitId::from).collect())
    }
}

/// How git is called for one integration.
pub(super) struct GitCalls<'a> {
    pub(super) repo: &'a Integration<'a>,
    /// A setting.
    attributes: Option<String>,
    env: Vec<(&'static str, &'static OsStr)>,
}

impl GitCalls<'_> {
    pub(super) fn run_raw(&self, arguments: &[&str]) -> Result<Output> {
        let attributes: Vec<&str> =
            self.attributes.iter().flat_map(|setting| ["-c", setting]).collect();
        program::run_raw(&self.repo.root, &[QUIET, OWN, &attributes, arguments].concat(), &self.env)
    }

    /// The files with conflicts.
    pub(super) fn unmerged(&self) -> Result<Vec<String>> {
        let names =
            self.run_raw(&["diff", "--name-only", "--diff-filter=U", "-z", STAYS_OUT])?.stdout;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut paths: Vec<String> = names.map(lossy).collect();
        paths.dedup();
        Ok(paths)
    }

    /// The conflict at which git stopped; makes the slot clean again.
    fn conflict(&self, arguments: &[&str], output: &Output) -> Result<Integrated> {
        let paths = self.unmerged()?;
        let said = lossy(&output.stdout);
        let mut diff = String::new();
        for line in said.lines().filter(|line| line.starts_with("CONFLICT")) {
            let _ = writeln!(diff, "{line}");
        }
        let show = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", STAYS_OUT];
        diff.push_str(&lossy(&self.run_raw(&show)?.stdout));
        let abort = self.run_raw(&[arguments[0], "--abort"])?;
        // A rebase or merge that never began has nothing to abort.
        let failed = program::failed(arguments, output);
        self.repo
            .integration()
            .clean_up()
            .with_context(|| lossy(&abort.stderr).trim().to_owned())?;
        if paths.is_empty() {
            return Err(failed);
        }
        Ok(Integrated::Conflict { paths, diff: cut(diff) })
    }
}

fn cut(mut text: String) -> String {
    const NOTE: &str = "(truncated)\n";
    if text.len() > LONG {
        let lines = &text.as_bytes()[..LONG - NOTE.len()];
        let end = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(end);
        text.push_str(NOTE);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::super::{KEEPS_ADDED, Repo};
    use super::*;
    use crate::adapters::git::pin::IDENTITY;
    use crate::adapters::git::tests::{TestSlots, said, without_library};

    const HOWS: [IntegrationMethod; 2] = [IntegrationMethod::Rebase, IntegrationMethod::Merge];

    /// A slot `1` to work in, and one to merge in.
    struct IntegratePlace {
        trees: TestSlots,
        slot: Repo,
        merger: Repo,
    }

    impl IntegratePlace {
        fn of(trees: TestSlots) -> IntegratePlace {
            let (slot, merger) = (trees.add("1"), trees.add("merge"));
            IntegratePlace { trees, slot, merger }
        }

        fn new() -> IntegratePlace {
            IntegratePlace::of(TestSlots::new())
        }

        /// Makes a commit on `main`.
        fn main(&self, path: &str, text: &str) -> CommitId {
            let commit = self.trees.place.commit(path, text, path);
            for slot in [&self.slot, &self.merger] {
                self.trees.git(slot, &["update-ref", "refs/heads/main", &commit]);
            }
            commit
        }

        fn work(&self, path: &str, text: &str) -> CommitId {
            let commit = self.trees.commit(&self.slot, path, text);
            self.trees.bring(&self.slot, &commit);
            commit
        }

        fn git(&self, arguments: &[&str]) -> String {
            self.trees.place.git(arguments)
        }

        fn bring(
            &self,
            onto: &str,
            head: &str,
            how: IntegrationMethod,
            own: &[&str],
        ) -> Integrated {
            let piece =
                BranchWork { head, base: &self.trees.first, message: "All of it\n\nRalph-Task: x" };
            let done = self.merger.integration().integrate(onto, &piece, how, own, None).unwrap();
            assert!(self.merger.dirty().unwrap().is_empty());
            assert_eq!(self.merger.unfinished(), None);
            let is_at = |commit: &str| {
                let at = self.merger.head().unwrap();
                assert_eq!((at.commit.as_deref(), at.branch), (Some(commit), None));
            };
            match &done {
                Integrated::Done(commit) => self.merger.slot().move_to(commit).unwrap(),
                Integrated::Resolved { commit, .. } => is_at(commit),
                Integrated::Conflict { .. } => is_at(onto),
                Integrated::Nothing => {}
            }
            if let Integrated::Done(commit) | Integrated::Resolved { commit, .. } = &done {
                self.trees.bring(&self.merger, commit);
            }
            done
        }

        fn done(&self, onto: &str, head: &str, how: IntegrationMethod, own: &[&str]) -> CommitId {
            match self.bring(onto, head, how, own) {
                Integrated::Done(commit) => commit,
                other => panic!("{how:?}: {other:?}"),
            }
        }

        /// The subjects along first parents, newest first.
        fn history(&self, commit: &str) -> String {
            self.trees
                .git(&self.merger, &["log", "--first-parent", "--format=%s", commit])
                .replace('\n', " < ")
        }

        fn parents(&self, commit: &str) -> String {
            self.trees.git(&self.merger, &["log", "-1", "--format=%P", commit])
        }

        fn show(&self, commit: &str, path: &str) -> String {
            self.trees.git(&self.merger, &["show", &format!("{commit}:{path}")])
        }
    }

    #[test]
    fn work_on_top_of_the_target_is_not_rewritten() {
        let place = IntegratePlace::new();
        let first = place.trees.first.clone();
        place.work("b", "1\n");
        let head = place.work("c", "1\n");
        assert_eq!(place.done(&first, &head, IntegrationMethod::Rebase, &["graph"]), head);
        assert!(place.merger.root().join("c").exists());
        for repo in [&place.slot, &without_library(&place.slot)] {
            let fits = |onto: &str, head: &str, how, own: &[&str]| {
                let piece = BranchWork { head, base: &first, message: "" };
                repo.integration().fits_as_it_is(onto, &piece, how, own).unwrap().is_some()
            };
            assert!(fits(&first, &head, IntegrationMethod::Rebase, &[]));
            assert!(
                !fits(&first, &head, IntegrationMethod::Rebase, &["x", "c"]),
                "an own file is changed"
            );
            assert!(!fits(&first, &head, IntegrationMethod::Merge, &[]));
            assert!(
                !fits(&head, &head, IntegrationMethod::Rebase, &[]),
                "there is nothing to bring"
            );
        }
        assert_eq!(place.bring(&head, &head, IntegrationMethod::Rebase, &[]), Integrated::Nothing);
        assert_eq!(place.bring(&head, &first, IntegrationMethod::Merge, &[]), Integrated::Nothing);
    }

    #[test]
    fn work_is_integrated_in_two_forms() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let place = IntegratePlace::of(trees);
            let path = place.slot.root().join("b");
            fs::write(&path, "1\n").unwrap();
            place.trees.git(&place.slot, &["add", "-A"]);
            let author =
                ["--author=Somebody Else <else@example.org>", "--date=2001-02-03T04:05:06Z"];
            let message = "b\n\n# no comment\n  Kept: as it is";
            let commit = [&["commit", "-q", "--cleanup=verbatim", "-m", message], &author[..]];
            place.trees.git(&place.slot, &commit.concat());
            let head = place.work("c", "1\n");
            let onto = place.main("d", "1\n");
            let hook = place.trees.place.top.join(".git/hooks");
            fs::create_dir_all(&hook).unwrap();
            for name in ["pre-rebase", "pre-commit", "commit-msg", "pre-merge-commit"] {
                fs::write(hook.join(name), "#!/bin/sh\nexit 1\n").unwrap();
                fs::set_permissions(hook.join(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
            let rebased = place.done(&onto, &head, IntegrationMethod::Rebase, &[]);
            assert_eq!(place.history(&rebased), "c < b < d < First");
            let told = place.trees.git(
                &place.merger,
                &["log", "-1", "--format=%an %ae %at%n%B", &format!("{rebased}^")],
            );
            let author = "Somebody Else else@example.org 981173106";
            assert_eq!(told, format!("{author}\n{message}"));
            let merged = place.done(&onto, &head, IntegrationMethod::Merge, &[]);
            assert_eq!(place.history(&merged), "All of it < d < First");
            assert_eq!(place.parents(&merged), format!("{onto} {head}"));
            let trailers = "--format=%s %(trailers:key=Ralph-Task)";
            assert_eq!(
                place.trees.git(&place.merger, &["log", "-1", trailers, &merged]),
                "All of it Ralph-Task: x"
            );
            let tree = |commit: &str| place.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
            assert_eq!(tree(&rebased), tree(&merged));
            // Work that is in the target is not integrated twice.
            for how in HOWS {
                assert_eq!(place.bring(&rebased, &head, how, &[]), Integrated::Nothing, "{how:?}");
            }
            assert_eq!(place.trees.git(&place.slot, &["rev-parse", "HEAD"]), head);
            assert_eq!(place.git(&["rev-parse", "main"]), onto);
        }
    }

    #[test]
    fn a_conflict_is_reported_and_cleaned_up() {
        let place = IntegratePlace::new();
        place.main("gone", "1\n");
        place.trees.git(&place.slot, &["merge", "-q", "main"]);
        fs::remove_file(place.slot.root().join("gone")).unwrap();
        let head = place.work("a", "branch\n");
        place.main("gone", "2\n");
        let onto = place.main("a", "target\n");
        for how in HOWS {
            let Integrated::Conflict { paths, diff } = place.bring(&onto, &head, how, &[]) else {
                panic!("{how:?} has no conflict");
            };
            assert_eq!(paths, ["a", "gone"]);
            for part in
                ["CONFLICT (modify/delete): gone", "++<<<<<<<", " +target", "++1", "+ branch"]
                    .into_iter()
                    .chain(["\nThe other side has these commits:\n", " gone\n"])
            {
                assert!(diff.contains(part), "{part} in {diff}");
            }
            // The next integration succeeds.
            let other = place.trees.add(&format!("{how:?}"));
            let fits = place.trees.commit(&other, "fits", "1\n");
            place.trees.bring(&other, &fits);
            place.done(&onto, &fits, how, &[]);
        }
        let long = "\u{fc}ber\n".repeat(15_000);
        let head = place.work("a", &long);
        let Integrated::Conflict { diff, .. } =
            place.bring(&onto, &head, IntegrationMethod::Merge, &[])
        else {
            panic!("no conflict");
        };
        let (diff, commits) = diff.split_once("\nThe other side").unwrap();
        assert!(diff.len() <= LONG && diff.len() > LONG - 100, "{}", diff.len());
        assert!(diff.ends_with("ber\n(truncated)\n") && commits.contains(" a\n"));
    }

    #[test]
    fn own_files_are_left_out_of_every_commit() {
        let own = ["graph", "deep/graph"];
        for options in [&[][..], &["--object-format=sha256"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let place = IntegratePlace::of(trees);
            place.main("graph", "1\n");
            place.trees.git(&place.slot, &["merge", "-q", "main"]);
            let base = place.trees.git(&place.slot, &["rev-parse", "HEAD"]);
            place.work("graph", "branch\n");
            fs::create_dir(place.slot.root().join("deep")).unwrap();
            fs::write(place.slot.root().join("graph"), "branch again\n").unwrap();
            fs::write(place.slot.root().join("deep/graph"), "new\n").unwrap();
            place.work("code", "1\n");
            fs::remove_file(place.slot.root().join("graph")).unwrap();
            let head = place.work("deep/graph", "2\n");
            // At its base: the same commits without the path, which git need not rewrite again.
            let piece = BranchWork { head: &head, base: &base, message: "All of it" };
            let plain = place
                .merger
                .integration()
                .integrate(&base, &piece, IntegrationMethod::Rebase, &own, None)
                .unwrap();
            let Integrated::Done(plain) = plain else { panic!("{plain:?}") };
            assert_eq!(place.history(&plain), "code < graph < First");
            assert_eq!(place.parents(&plain), base);
            assert_eq!(place.trees.git(&place.merger, &["log", "-1", "--format=%an", &plain]), "A");
            let onto = place.main("graph", "target\n");
            for how in HOWS {
                let done = place.done(&onto, &head, how, &own);
                assert_eq!(place.show(&done, "graph"), "target", "{how:?}");
                assert_eq!(place.show(&done, "code"), "1");
                let names = place.trees.git(
                    &place.merger,
                    &["log", "--name-only", "--format=", &done, &format!("^{onto}")],
                );
                assert_eq!(names, "code", "{how:?}");
            }
            place.trees.git(&place.slot, &["checkout", "-q", "--detach", &base]);
            let head = place.work("graph", "nothing else\n");
            for how in HOWS {
                assert_eq!(place.bring(&onto, &head, how, &own), Integrated::Nothing);
                assert_eq!(place.bring(&base, &head, how, &own), Integrated::Nothing);
            }
            assert_eq!(place.trees.git(&place.slot, &["status", "--porcelain"]), "");
        }
    }

    #[test]
    fn resolved_merges_of_a_branch_are_kept() {
        let place = IntegratePlace::new();
        let own = ["graph"];
        place.work("a", "branch\n");
        place.work("graph", "branch\n");
        place.main("graph", "newer\n");
        let middle = place.main("a", "target\n");
        place.trees.place.try_git(place.slot.root(), &["merge", "-q", "main"]);
        fs::write(place.slot.root().join("graph"), "of the merge\n").unwrap();
        let merged = place.work("a", "both\n");
        // The branch contains the target, except for its own file.
        let done = place.done(&middle, &merged, IntegrationMethod::Rebase, &[]);
        assert_eq!(done, merged);
        for how in HOWS {
            let done = place.done(&middle, &merged, how, &own);
            assert_eq!((&*place.show(&done, "graph"), &*place.show(&done, "a")), ("newer", "both"));
        }
        let onto = place.main("graph", "newest\n");
        for how in HOWS {
            let done = place.done(&onto, &merged, how, &own);
            let has = (place.show(&done, "graph"), place.show(&done, "a"));
            assert_eq!((&*has.0, &*has.1), ("newest", "both"), "{how:?}");
        }
        let done = place.done(&onto, &merged, IntegrationMethod::Rebase, &own);
        assert!(place.parents(&done).starts_with(&format!("{onto} ")), "it is merged");
        // Two lines of the branch, one with the newer file; the merge took the older one.
        place.trees.git(&place.slot, &["checkout", "-q", "--detach", &place.trees.first]);
        let side = place.work("side", "1\n");
        place.trees.git(&place.slot, &["checkout", "-q", "--detach", &middle]);
        place.work("other", "1\n");
        place.trees.git(&place.slot, &["merge", "-q", "--no-commit", "--no-ff", &side]);
        fs::remove_file(place.slot.root().join("graph")).unwrap();
        let head = place.work("both", "1\n");
        for how in HOWS {
            let done = place.done(&onto, &head, how, &own);
            assert_eq!(place.show(&done, "graph"), "newest", "{how:?}");
            assert_eq!(place.show(&done, "side") + &place.show(&done, "other"), "11");
        }
    }

    #[test]
    fn files_removed_from_the_target_stay_removed() {
        let place = IntegratePlace::new();
        let base = place.main("dropped", "1\n");
        place.trees.git(&place.slot, &["checkout", "-q", "--detach", "main"]);
        let head = place.work("b", "1\n");
        place.git(&["reset", "-q", "--hard", "HEAD~"]);
        let onto = place.main("c", "1\n");
        let piece = BranchWork { head: &head, base: &base, message: "All of it" };
        for how in HOWS {
            let done = place.merger.integration().integrate(&onto, &piece, how, &[], None).unwrap();
            let Integrated::Done(done) = done else { panic!("{done:?}") };
            assert_eq!(
                place.trees.git(&place.merger, &["ls-tree", "--name-only", &done]),
                "a\nb\nc",
                "{how:?}"
            );
            assert_eq!(place.parents(&done), onto);
        }
        // A merge makes the commits indistinguishable.
        place.trees.git(&place.slot, &["merge", "-q", "--no-edit", &onto]);
        let head = place.work("d", "1\n");
        let onto = place.main("e", "1\n");
        let piece = BranchWork { head: &head, ..piece };
        for how in HOWS {
            let done = place.merger.integration().integrate(&onto, &piece, how, &[], None).unwrap();
            let Integrated::Done(done) = done else { panic!("{done:?}") };
            assert_eq!(
                place.trees.git(&place.merger, &["ls-tree", "--name-only", &done]),
                "a\nb\nc\nd\ne",
                "{how:?}"
            );
        }
    }

    #[test]
    fn attributes_of_the_caller_apply() {
        let place = IntegratePlace::new();
        let head = place.work("notes", "branch\n");
        let onto = place.main("notes", "target\n");
        let attributes = place.trees.path("attributes");
        fs::write(&attributes, "notes merge=union\n").unwrap();
        let piece = BranchWork { head: &head, base: &place.trees.first, message: "All of it" };
        for how in HOWS {
            let bring = |attributes| {
                place.merger.integration().integrate(&onto, &piece, how, &[], attributes).unwrap()
            };
            assert!(matches!(bring(None), Integrated::Conflict { .. }));
            let Integrated::Done(done) = bring(Some(&attributes)) else { panic!("{how:?}") };
            assert_eq!(place.show(&done, "notes"), "target\nbranch");
        }
    }

    #[test]
    fn lines_that_both_added_are_kept_in_files_with_the_attribute() {
        let place = IntegratePlace::new();
        let base = place.main("list", "start\nend\n");
        place.trees.git(&place.slot, &["merge", "-q", "main"]);
        place.work("list", "start\nmine\nend\n");
        place.work("b", "1\n");
        let message = "again\n\n# no comment\n  Kept: as it is";
        fs::write(place.slot.root().join("list"), "start\nmine\nmore\nend\n").unwrap();
        place.trees.git(&place.slot, &["add", "-A"]);
        let author = ["--author=Somebody Else <e@example.org>", "--date=2001-02-03T04:05:06Z"];
        let commit = [&["commit", "-q", "--cleanup=verbatim", "-m", message], &author[..]];
        place.trees.git(&place.slot, &commit.concat());
        let head = place.trees.git(&place.slot, &["rev-parse", "HEAD"]);
        place.trees.bring(&place.slot, &head);
        let attributes = place.trees.path("attributes");
        let bring = |onto: &str, how, text: &str| {
            fs::write(&attributes, text).unwrap();
            let piece = BranchWork { head: &head, base: &base, message: "All\n\nRalph-Task: x" };
            let work = place.merger.integration();
            let integrated = work.integrate(onto, &piece, how, &[], Some(&attributes)).unwrap();
            assert_eq!((place.merger.unfinished(), place.merger.dirty().unwrap().len()), (None, 0));
            integrated
        };
        let onto = place.main("list", "start\ntheirs\nend\n");
        for how in HOWS {
            let all = format!("* {KEEPS_ADDED}\n");
            let Integrated::Resolved { commit: done, files, others } = bring(&onto, how, &all)
            else {
                panic!("{how:?}")
            };
            assert_eq!(files, [ResolvedConflict { path: "list".to_owned(), command: None }]);
            assert!(others.ends_with(&format!("{} list\n", &onto[..7])), "{others}");
            assert_eq!(place.show(&done, "list"), "start\ntheirs\nmine\nmore\nend");
            let told = ["log", "-1", "--format=%an %at%n%B", &done];
            let told = place.trees.git(&place.merger, &told);
            let same = format!("Somebody Else 981173106\n{message}");
            match how {
                IntegrationMethod::Rebase => assert_eq!(told, same),
                IntegrationMethod::Merge => {
                    assert_eq!(place.parents(&done), format!("{onto} {head}"));
                }
            }
            for one in ["list -ralph-keep-added", "list merge", "list -merge", "list merge=x"] {
                let strict = bring(&onto, how, &format!("{all}{one}\n"));
                assert!(matches!(strict, Integrated::Conflict { .. }), "{how:?} {one}");
            }
            assert!(matches!(bring(&onto, how, ""), Integrated::Conflict { .. }));
        }
        // A changed line is a conflict, also besides added ones, and so is a removed file.
        let changed = place.main("list", "begin\ntheirs\nend\n");
        place.git(&["rm", "-q", "list"]);
        let gone = place.main("other", "1\n");
        for how in HOWS {
            for onto in [&changed, &gone] {
                let conflict = bring(onto, how, &format!("* {KEEPS_ADDED}\n"));
                assert!(matches!(conflict, Integrated::Conflict { .. }), "{how:?} {onto}");
            }
        }
    }

    #[test]
    fn merge_settings_of_a_person_do_not_apply() {
        let place = IntegratePlace::new();
        place.work("b", "1\n");
        let head = place.work("b", "2\n");
        let onto = place.main("c", "1\n");
        place.git(&["branch", "pointer", &head]);
        for (key, value) in [
            ("rebase.updateRefs", "true"),
            ("rebase.autoStash", "true"),
            ("rebase.missingCommitsCheck", "error"),
            ("rebase.backend", "apply"),
            ("merge.ff", "only"),
            ("merge.autoStash", "true"),
            ("merge.verifySignatures", "true"),
            ("submodule.recurse", "true"),
            ("core.editor", "false"),
            ("sequence.editor", "false"),
        ] {
            place.git(&["config", key, value]);
        }
        for how in HOWS {
            place.done(&onto, &head, how, &[]);
        }
        assert_eq!(place.git(&["rev-parse", "pointer"]), head);
        assert_eq!(place.git(&["stash", "list"]), "");
    }

    #[test]
    fn leftovers_of_a_killed_git_are_kept_and_cleaned_up() {
        let place = IntegratePlace::new();
        let root = place.merger.root().to_owned();
        let head = place.work("a", "branch\n");
        let onto = place.main("a", "target\n");
        let fits = place.trees.add("2");
        let other = fits;
        let fits = place.trees.commit(&other, "fits", "1\n");
        place.trees.bring(&other, &fits);
        let kept =
            |path: &str| place.trees.git(&place.merger, &["show", &format!("{KEPT}:{path}")]);
        let begin: &[&[&str]] = &[
            &["rebase", "--onto", &onto, &place.trees.first, &head],
            &["merge", &head],
            &["cherry-pick", &head],
        ];
        for begin in begin {
            place.trees.git(&place.merger, &["checkout", "-q", "--detach", &onto]);
            place.trees.place.try_git(&root, begin);
            assert!(place.merger.unfinished().is_some());
            fs::write(place.merger.git_dir.join("index.lock"), "").unwrap();
            place.done(&onto, &fits, IntegrationMethod::Rebase, &[]);
            assert!(kept("a").contains("<<<<<<<"), "{begin:?}");
        }
        // A checkout that was killed while writing files, and files that tests left.
        place.trees.git(&place.merger, &["checkout", "-q", "--detach", &place.trees.first]);
        fs::write(root.join("a"), "target\n").unwrap();
        fs::write(root.join("fits"), "half\n").unwrap();
        fs::write(root.join("report"), "of the tests\n").unwrap();
        place.done(&onto, &fits, IntegrationMethod::Rebase, &[]);
        assert_eq!((&*kept("fits"), &*kept("report")), ("half", "of the tests"));
        assert!(!root.join("report").exists());
        // An incomplete state of a rebase.
        fs::create_dir(place.merger.git_dir.join("rebase-merge")).unwrap();
        place.done(&onto, &fits, IntegrationMethod::Merge, &[]);
        // A person has put the worktree on a branch.
        place.trees.git(&place.merger, &["checkout", "-q", "-b", "person", &fits]);
        place.done(&onto, &fits, IntegrationMethod::Rebase, &[]);
        assert_eq!(place.trees.git(&place.merger, &["rev-parse", "person"]), fits);
        let piece = BranchWork { head: &fits, base: &place.trees.first, message: "" };
        let refused = place.trees.main().integration().integrate(
            &onto,
            &piece,
            IntegrationMethod::Rebase,
            &[],
            None,
        );
        assert!(said(refused).contains("is not a slot"));
    }

    #[test]
    fn unrelated_histories_are_integrated() {
        let place = IntegratePlace::new();
        place.trees.git(&place.slot, &["checkout", "-q", "--orphan", "fresh"]);
        place.trees.git(&place.slot, &["rm", "-q", "--cached", "a"]);
        fs::remove_file(place.slot.root().join("a")).unwrap();
        let head = place.work("b", "1\n");
        let onto = place.main("c", "1\n");
        for how in [IntegrationMethod::Rebase, IntegrationMethod::Merge] {
            let done = place.done(&onto, &head, how, &["graph"]);
            assert_eq!(
                place.trees.git(&place.merger, &["ls-tree", "--name-only", &done]),
                "a\nb\nc",
                "{how:?}"
            );
        }
    }

    #[test]
    fn commits_have_an_identity_without_git_settings() {
        let place = IntegratePlace::new();
        place.trees.git(&place.merger, &["config", "user.name", ""]);
        assert_eq!(
            place.merger.commits().identity(),
            IDENTITY.map(|(name, value)| (name, OsStr::new(value)))
        );
        place.trees.git(&place.merger, &["config", "user.name", "P"]);
        place.trees.git(&place.merger, &["config", "user.email", "p@example.org"]);
        assert_eq!(place.merger.commits().identity(), []);
        let head = place.work("b", "1\n");
        let onto = place.main("c", "1\n");
        let who = |how| {
            let done = place.done(&onto, &head, how, &[]);
            place.trees.git(&place.merger, &["log", "-1", "--format=%an %cn", &done])
        };
        assert_eq!(HOWS.map(who), ["A P", "P P"]);
    }
}
