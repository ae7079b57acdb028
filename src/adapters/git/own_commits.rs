//! The commits of an attempt, told from those of others that it pulled or found.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::{Repo, is_commit, lossy, program, slot_settings::refuses_pushes};
use crate::{
    core::{
        attempt::{LeftCommits, OwnWork},
        commit_id::CommitId,
    },
    regular_file,
};

/// How a commit is listed: whether it is right below the others, and its id.
const FORMAT: &str = "--format=%m %H";

/// The message of a commit that joins what an attempt pulled with its base.
const JOINS: &str = "Merge commits that were pulled\n";

/// Where an attempt started.
#[derive(Clone, Copy, Debug)]
pub struct AttemptStart<'a> {
    /// The commit.
    pub base: &'a CommitId,
    /// The branch.
    pub branch: Option<&'a str>,
    /// The time, in seconds since 1970.
    pub began: i64,
}

impl Repo {
    /// Finds the commits at HEAD that are an attempt's own, and puts the branch of its slot to them: what
    /// is checked out is its work. Work without a commit below it becomes one commit with this message;
    /// a checkout stays as it is. Returns the commit below them, which `others`, or what was pulled, may
    /// have made, and the base may descend from. HEAD may still not descend from it.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn settle_own(
        &self,
        start: AttemptStart<'_>,
        others: &[CommitId],
        message: &str,
    ) -> Result<CommitId> {
        let (at, is_slot) = (self.head()?, self.slot_of().is_some());
        let base = start.base;
        let (Some(head), None) = (at.commit, self.unfinished()) else { return Ok(base.clone()) };
        if let Some(branch) =
            start.branch.filter(|name| is_slot && at.branch.as_deref() != Some(name))
        {
            self.slot().name_branch(branch, &head)?;
        }
        if head == *base {
            return Ok(head);
        }
        let left = self.left_commits(head.clone(), &start, others)?;
        // There, what HEAD lacks of the base is lost.
        if !is_slot && !left.has_base {
            return Ok(base.clone());
        }
        let (below, is_merge) = match left.own_work() {
            OwnWork::After(below) => return Ok(below),
            OwnWork::Difference(below) if is_slot => (below, false),
            OwnWork::Merge(below) => (below, true),
            OwnWork::Difference(_) | OwnWork::Strayed => return Ok(base.clone()),
        };
        let Some(below) = self.join(&below)? else { return Ok(base.clone()) };
        let tree = if is_merge {
            let Ok(tree) = self.landings().merged_tree(&below, &head)? else {
                return Ok(base.clone());
            };
            tree
        } else {
            self.tree_of(&head)?
        };
        let branch = start.branch.context("no branch")?;
        let is_same = tree == self.tree_of(&below)?;
        let make = || self.commits().commit_tree(&[&below], &tree, message);
        let work = if is_same { below.clone() } else { make()? };
        self.slot().name_branch(branch, &work)?;
        Ok(below)
    }

    fn left_commits(
        &self,
        head: CommitId,
        start: &AttemptStart<'_>,
        others: &[CommitId],
    ) -> Result<LeftCommits> {
        let base = start.base.clone();
        let mut known: BTreeSet<String> = others.iter().map(ToString::to_string).collect();
        let fetched = self.fetched(start.began)?;
        known.extend(fetched.iter().cloned());
        known.insert(base.to_string());
        let hidden: String = known.iter().flat_map(|id| ["^", id, "\n"]).collect();
        let log = ["log", "--no-show-signature", "--ignore-missing", FORMAT, "--stdin"];
        let arguments = [&log[..], &["--boundary", &head]].concat();
        let found = program::run_with_input(&self.root, &arguments, &[], hidden.as_bytes())?;
        let mut below: Vec<CommitId> = Vec::new();
        let mut new: BTreeSet<String> = BTreeSet::new();
        for (mark, id) in lossy(&found).lines().filter_map(|line| line.split_once(' ')) {
            if mark == "-" { below.push(id.into()) } else { new.extend(Some(id.to_owned())) }
        }
        let has_base = self.has_ancestor(&head, &base)?;
        let is_amended = |id: &str| self.amended(id).iter().any(|id| new.contains(id));
        // What was pulled and then amended is below the work as it was pulled.
        let pulled: Vec<&str> =
            fetched.iter().map(|id| &**id).filter(|id| is_amended(id)).collect();
        let has_amended = !has_base && is_amended(&base) || !pulled.is_empty();
        let newest_below = if pulled.is_empty() && below.iter().all(|id| *id == base) {
            vec![base.clone()]
        } else {
            let mut independent = vec!["merge-base", "--independent", base.as_str()];
            independent.extend(below.iter().map(CommitId::as_str).chain(pulled));
            lossy(&program::run(&self.root, &independent)?).lines().map(CommitId::from).collect()
        };
        let has_new = !new.is_empty();
        Ok(LeftCommits { base, head, has_new, below, newest_below, has_base, has_amended })
    }

    /// The commits that a commit was amended to, one after another.
    fn amended(&self, commit: &str) -> Vec<String> {
        let log = regular_file::read(&self.git_dir.join("logs/HEAD")).unwrap_or_default();
        let mut found = vec![commit.to_owned()];
        for line in lossy(&log).lines().filter(|line| line.contains("\tcommit (amend)")) {
            if let [old, new, ..] = line.split(' ').collect::<Vec<_>>()[..]
                && found.iter().any(|id| id == old)
            {
                found.push(new.to_owned());
            }
        }
        found
    }

    /// The commits that were fetched from elsewhere: what the branches of remotes are at, unless they may
    /// have been pushed from here, and what was fetched last that is older than the attempt.
    fn fetched(&self, began: i64) -> Result<Vec<String>> {
        let mut found = Vec::new();
        if refuses_pushes(&self.git_dir) {
            let refs = lossy(&self.refs(&["refs/remotes"])?);
            found.extend(refs.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned));
        }
        let last = regular_file::read(&self.git_dir.join("FETCH_HEAD")).unwrap_or_default();
        for id in lossy(&last).lines().filter_map(|line| line.split('\t').next()) {
            let date = ["log", "-1", "--no-show-signature", "--format=%ct", id, "--"];
            // What was fetched without its objects is in no history.
            let at = is_commit(id).then(|| program::answer(&self.root, &date).ok()).flatten();
            let at: Option<i64> = at.flatten().and_then(|at| at.trim().parse().ok());
            found.extend(at.filter(|at| *at < began).map(|_| id.to_owned()));
        }
        Ok(found)
    }

    /// The tags and branches that an attempt has made in its slot since then, except the branch at HEAD.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn made_refs(&self, began: i64) -> Result<Vec<String>> {
        const FOLDERS: [&str; 2] = ["refs/heads", "refs/tags"];
        let (Some(main), head) = (self.slot_of(), self.head()?) else { return Ok(Vec::new()) };
        let theirs = lossy(&self.refs_of(Some(&main), &FOLDERS)?);
        let theirs: BTreeSet<&str> =
            theirs.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        let format = "--format=%(creatordate:unix) %(objectname) %(refname)";
        let list = program::run(&self.root, &[&["for-each-ref", format], &FOLDERS[..]].concat())?;
        let made = |line: &str| {
            let [at, id, name] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().ok()?;
            let is_new =
                at.parse().is_ok_and(|at: i64| at >= began) || head.commit.as_deref() == Some(id);
            let (kind, name) =
                match (name.strip_prefix("refs/heads/"), name.strip_prefix("refs/tags/")) {
                    _ if !is_new || theirs.contains(name) => return None,
                    (Some(name), _) if head.branch.as_deref() != Some(name) => ("branch", name),
                    (_, Some(name)) => ("tag", name),
                    _ => return None,
                };
            Some(format!("{kind} {name}"))
        };
        Ok(lossy(&list).lines().filter_map(made).collect())
    }

    /// Joins commits that do not have each other; none if they conflict.
    fn join(&self, commits: &[CommitId]) -> Result<Option<CommitId>> {
        let Some((first, rest)) = commits.split_first() else { return Ok(None) };
        let mut joined = first.clone();
        for other in rest {
            let Ok(tree) = self.landings().merged_tree(&joined, other)? else { return Ok(None) };
            joined = self.commits().commit_tree(&[&joined, other], &tree, JOINS)?;
        }
        Ok(Some(joined))
    }
}
