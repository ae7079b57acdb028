//! The tip of a branch: the ref of `ralph` on which verified work lands before the branch has it.
//!
//! Nothing of a person's can be in the way of the ref. It exists while the branch waits for what
//! landed; a branch that has all of it is its own tip.

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, Result, ensure};
use git2::{Oid, Reference, Repository};

use super::{
    BranchLandings, lossy,
    pin::IDENTITY,
    program::{self, NewCommit},
    reader::{commit_id, existing},
};
use crate::core::commit_id::CommitId;

/// A branch's relation to its landed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TipStanding {
    /// It has all of it.
    Level,
    /// It can move forward to it.
    Behind,
    /// It has commits of a person besides.
    Diverged,
    /// A person moved it back behind the place from which it was to follow, or rewrote that.
    Rewritten,
}

/// A branch and its landed work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTip {
    /// The commit that work starts from and lands on.
    pub commit: CommitId,
    /// The commit of the branch.
    pub branch: CommitId,
    /// How the branch stands to the tip.
    pub standing: TipStanding,
    /// The target of the ref; none without it.
    own: Option<CommitId>,
}

/// The ref of a tip.
fn tip_ref(branch: &str) -> String {
    format!("refs/ralph/tip/{branch}")
}

/// The ref with the commit of a branch beyond which work has landed.
fn origin_ref(branch: &str) -> String {
    format!("refs/ralph/origin/{branch}")
}

impl BranchLandings<'_> {
    /// The tip of a branch; none if there is no such branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn tip(&self, branch: &str) -> Result<Option<BranchTip>> {
        let Some(head) = self.branch(branch)? else { return Ok(None) };
        let own = self.commit_of(&tip_ref(branch))?;
        let at = |standing, commit: &CommitId| {
            let (commit, branch, own) = (commit.clone(), head.clone(), own.clone());
            Ok(Some(BranchTip { commit, branch, standing, own }))
        };
        let Some(tip) = &own else { return at(TipStanding::Level, &head) };
        if self.is_ancestor(tip, &head)? {
            return at(TipStanding::Level, &head);
        }
        if let Some(origin) = self.commit_of(&origin_ref(branch))?
            && !self.is_ancestor(&origin, &head)?
        {
            return at(TipStanding::Rewritten, tip);
        }
        let is_behind = self.is_ancestor(&head, tip)?;
        at(if is_behind { TipStanding::Behind } else { TipStanding::Diverged }, tip)
    }

    /// Makes a branch at a commit unless it exists. Returns why work cannot land on a branch of this
    /// name, if so.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn begin(&self, branch: &str, at: &str) -> Result<Result<(), String>> {
        let name = format!("refs/heads/{branch}");
        let is_name = !branch.starts_with(['-', '@']) && !branch.starts_with("refs/");
        if !is_name || branch == "HEAD" || !Reference::is_valid_name(&name) {
            return Ok(Err("it is not a valid name of a branch".to_owned()));
        }
        if self.branch(branch)?.is_some() {
            return Ok(Ok(()));
        }
        if self.commit_of(&format!("refs/tags/{branch}"))?.is_some() {
            return Ok(Err("it is a tag; name a branch".to_owned()));
        }
        if self.commit_of(&format!("refs/remotes/{branch}"))?.is_some() {
            let local = branch.split_once('/').map_or(branch, |(_, local)| local);
            return Ok(Err(format!("it is a branch of a remote; `--onto {local}` is a local one")));
        }
        Ok(self.move_ref(&name, None, at).map(drop).map_err(|error| format!("{error:#}")))
    }

    /// The name that a branch has now which a person has renamed, by the reflogs; none if there is
    /// no such branch. Its landed work waits under that name, too.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn renamed(&self, from: &str) -> Result<Option<String>> {
        let refs = lossy(&self.refs(&["refs/heads"])?);
        let names = refs.lines().filter_map(|line| line.split_once(" refs/heads/"));
        for (_, to) in names {
            let entry = format!("Branch: renamed refs/heads/{from} to refs/heads/{to}");
            let log = ["log", "-g", "--format=%gs", &format!("refs/heads/{to}"), "--"];
            let found = program::run_raw(&self.root, &log, &[])?;
            if lossy(&found.stdout).lines().any(|line| line == entry) {
                for name in [tip_ref, origin_ref] {
                    if let Some(commit) = self.commit_of(&name(from))? {
                        self.set_ref(&name(to), &commit)?;
                        self.drop_ref(&name(from))?;
                    }
                }
                return Ok(Some(to.to_owned()));
            }
        }
        Ok(None)
    }

    /// The branches that do not have all that landed for them.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn waiting_branches(&self) -> Result<Vec<String>> {
        const FOLDER: &str = "refs/ralph/tip";
        let refs = lossy(&self.refs(&[FOLDER])?);
        let name = |line: &str| Some(line.split_once(&format!("{FOLDER}/"))?.1.to_owned());
        let mut waiting: Vec<String> = refs.lines().filter_map(name).collect();
        waiting.retain(|branch| {
            let tip = self.tip(branch).ok().flatten();
            tip.is_some_and(|tip| tip.standing != TipStanding::Level)
        });
        Ok(waiting)
    }

    /// Points the ref `name` to a commit if it points to `old`, or does not exist without one.
    /// Returns whether it did.
    fn move_ref(&self, name: &str, old: Option<&str>, new: &str) -> Result<bool> {
        const WHY: &str = "ralph: landed";
        let library = |repo: &Repository| {
            let id = Oid::from_str(new)?;
            repo.find_commit(id)?;
            match old {
                Some(old) => {
                    repo.reference_matching(name, id, true, Oid::from_str(old)?, WHY).map(drop)
                }
                None => repo.reference(name, id, false, WHY).map(drop),
            }
        };
        let none = "0".repeat(new.len());
        let update = ["update-ref", "-m", WHY, name, new, old.unwrap_or(&none)];
        match self.ask(library, |root| program::run(root, &update).map(drop)) {
            Ok(()) => Ok(true),
            Err(_) if self.commit_of(name)?.as_deref() != old => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The newest commit that two commits descend from, or that is one of them; none without one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<Option<CommitId>> {
        let library = |repo: &Repository| {
            let (one, other) = (Oid::from_str(one)?, Oid::from_str(other)?);
            Ok(existing(repo.merge_base(one, other))?.map(commit_id))
        };
        let program = |root: &Path| {
            let output = program::run_raw(root, &["merge-base", one, other], &[])?;
            Ok(lossy(&output.stdout).split_whitespace().next().map(CommitId::from))
        };
        self.ask(library, program)
    }

    /// Moves the tip of a branch to a commit that descends from `onto`. Returns false, and moves
    /// nothing, if others moved the tip or the branch and `onto` does not have what they added. May
    /// be called again after a kill.
    ///
    /// # Errors
    /// The error of `git`; when the commit does not descend from `onto`.
    pub fn land(&self, branch: &str, onto: &str, commit: &str) -> Result<bool> {
        ensure!(self.is_ancestor(onto, commit)?, "{commit} does not descend from {onto}");
        let Some(tip) = self.tip(branch)? else { return Ok(false) };
        if self.is_ancestor(commit, &tip.commit)? {
            return Ok(true);
        }
        let has_all = *tip.commit == *onto
            || (self.is_ancestor(&tip.commit, onto)? && self.is_ancestor(&tip.branch, onto)?);
        Ok(has_all && self.move_tip(branch, &tip, commit)?)
    }

    /// Moves a tip, unless others have moved it.
    fn move_tip(&self, branch: &str, tip: &BranchTip, commit: &str) -> Result<bool> {
        if tip.standing != TipStanding::Behind && self.is_ancestor(&tip.branch, commit)? {
            self.set_ref(&origin_ref(branch), &tip.branch)?;
        }
        self.move_ref(&tip_ref(branch), tip.own.as_deref(), commit)
    }

    /// Removes the refs of a tip that the branch has.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn forget_tip(&self, branch: &str, tip: &BranchTip) -> Result<()> {
        let Some(own) = &tip.own else { return Ok(()) };
        self.delete_ref(&tip_ref(branch), own)?;
        self.drop_ref(&origin_ref(branch))
    }

    /// Whether landed work and a person's own commits on the branch do not conflict.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn can_join(&self, tip: &BranchTip) -> Result<bool> {
        Ok(self.merged_tree(&tip.commit, &tip.branch)?.is_ok())
    }

    /// Makes a commit of landed work and a person's own commits on the branch. Returns none if they
    /// conflict.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn joined(&self, branch: &str, tip: &BranchTip) -> Result<Option<CommitId>> {
        let Ok(tree) = self.merged_tree(&tip.commit, &tip.branch)? else { return Ok(None) };
        let message = format!("Take in what was committed on {branch}\n");
        self.commits().commit_tree(&[&tip.commit, &tip.branch], &tree, &message).map(Some)
    }

    /// Puts the work that landed on top of a branch that a person moved or rewrote. The old tip is
    /// kept. Returns its ref, and whether the work is on the branch's tip now: if not, it conflicts
    /// with it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn carry_over(&self, branch: &str, tip: &BranchTip) -> Result<(String, bool)> {
        let kept = format!("refs/ralph/stale/tip/{branch}/{}", tip.commit.short());
        self.set_ref(&kept, &tip.commit)?;
        let origin = self.commit_of(&origin_ref(branch))?.context("the origin of a tip is gone")?;
        let (theirs, ours) = (self.tree_of(&tip.branch)?, self.tree_of(&tip.commit)?);
        let Ok(tree) = self.merged_from(&origin, [&theirs, &ours])? else {
            self.forget_tip(branch, tip)?;
            return Ok((kept, false));
        };
        let work = self.messages_with(&tip.commit, Some(&origin), "Ralph-")?;
        let trailers = work.iter().rev().flat_map(|(_, message)| message.lines());
        let trailers: Vec<&str> = trailers.filter(|line| line.starts_with("Ralph-")).collect();
        let message =
            format!("Carry over what landed on {branch} before\n\n{}\n", trailers.join("\n"));
        let commit = self.commits().commit_tree(&[&tip.branch], &tree, &message)?;
        self.move_tip(branch, tip, &commit)?;
        Ok((kept, true))
    }

    /// The result of [`merged_tree`](BranchLandings::merged_tree) for two trees that are both made from
    /// a commit. Git takes the base of a merge as an option only since 2.40.
    pub(super) fn merged_from(
        &self,
        base: &str,
        trees: [&str; 2],
    ) -> Result<Result<String, Vec<String>>> {
        let env = &IDENTITY.map(|(name, value)| (name, OsStr::new(value)));
        let commit = |tree: &str| {
            let message = "For a merge\n";
            let new = NewCommit { tree, parents: &[base], message, env, is_signed: false };
            program::commit_tree(&self.root, &new)
        };
        self.merged_tree(&commit(trees[0])?, &commit(trees[1])?)
    }

    /// The tree of a merge; the files in conflict if it has conflicts, and none of them if git cannot
    /// merge the commits at all.
    pub(super) fn merged_tree(
        &self,
        ours: &str,
        theirs: &str,
    ) -> Result<Result<String, Vec<String>>> {
        let merge = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        let arguments = [&merge[..], &[ours, theirs]].concat();
        let output = program::run_raw(&self.root, &arguments, &[])?;
        let said = lossy(&output.stdout);
        let mut parts = said.split('\0').filter(|part| !part.is_empty()).map(str::to_owned);
        match (output.status.code(), parts.next()) {
            (Some(0), Some(tree)) => Ok(Ok(tree)),
            (Some(1), Some(_)) => Ok(Err(parts.collect())),
            _ => Ok(Err(Vec::new())),
        }
    }
}
