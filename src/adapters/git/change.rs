//! Work that landed, as the change from one commit to another: shown to a person, applied elsewhere, and
//! sent to another repository.

use std::{fs, process::Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{
    BranchLandings, lossy,
    program::{self, NewCommit},
};
use crate::core::{commit_id::CommitId, executor::shell_word};

/// What became of applying a change to another commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppliedChange {
    /// The commit with it.
    Done(CommitId),
    /// That commit has it.
    Nothing,
    /// Later commits changed the same lines.
    Conflict {
        /// The files.
        paths: Vec<String>,
        /// The later commits that changed them, newest first: the short id and the subject.
        commits: Vec<String>,
    },
}

/// How a change is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStyle {
    /// All lines.
    Lines,
    /// The files, and how much changed in each.
    Sizes,
    /// In the program that `git difftool` opens.
    Tool,
}

impl BranchLandings<'_> {
    /// The commit below some commits that follow each other, of which `last` is the newest: the first
    /// that is none of them, from parent to parent. None below the first commit of all.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn below(&self, last: &CommitId, commits: &[CommitId]) -> Result<Option<CommitId>> {
        let mut below = Some(last.clone());
        while let Some(commit) = below.take_if(|commit| commits.contains(commit)) {
            below = self.commit_of(&format!("{commit}^"))?;
        }
        Ok(below)
    }

    /// Makes a commit on top of `onto` with the change from one commit to another. Files at `all_but` stay
    /// as they are.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn apply_change(
        &self,
        onto: &str,
        (from, to): (&str, &str),
        all_but: &[&str],
        message: &str,
    ) -> Result<AppliedChange> {
        let kept = self.entries(from, all_but)?;
        let tree = self.commits().with_entries(to, all_but, &kept)?;
        let env = &self.commits().identity()[..];
        let new = NewCommit { tree: &tree, parents: &[from], message, env, is_signed: false };
        let to = &program::commit_tree(&self.root, &new)?;
        let base = format!("--merge-base={from}");
        match self.merged_tree(&[&base], onto, to)? {
            Ok(tree) if tree == self.tree_of(onto)? => Ok(AppliedChange::Nothing),
            Ok(tree) => {
                let commit = self.commits().commit_merge(&[onto], &tree, message)?;
                Ok(AppliedChange::Done(commit))
            }
            Err(paths) if paths.is_empty() => bail!("git 2.40 or newer is needed for this"),
            Err(paths) => {
                let commits = self.later_changes((from, onto), &paths, "%h %s")?;
                let commits = commits.lines().map(str::to_owned).collect();
                Ok(AppliedChange::Conflict { paths, commits })
            }
        }
    }

    /// What the newest commits after `from` that changed these paths are, each in this format of
    /// git-log(1).
    pub(super) fn later_changes(
        &self,
        (from, onto): (&str, &str),
        paths: &[String],
        format: &str,
    ) -> Result<String> {
        const MOST: &str = "-5";
        let log = ["--literal-pathspecs", "log", MOST, "--no-merges", "--no-color"];
        let (format, range) = (format!("--format={format}"), format!("{from}..{onto}"));
        let rest = [format.as_str(), &range, "--"];
        let paths = paths.iter().map(String::as_str);
        let arguments: Vec<&str> = log.into_iter().chain(rest).chain(paths).collect();
        Ok(lossy(&program::run(&self.root, &arguments)?))
    }

    /// Shows changes, each from one commit to another, to the person in front of the terminal, with the
    /// pager and the colors of `git`. Files at `all_but` are left out.
    ///
    /// # Errors
    /// `git` cannot be started, or fails.
    pub fn show_changes(
        &self,
        changes: &[(CommitId, CommitId)],
        style: ChangeStyle,
        all_but: &[String],
    ) -> Result<()> {
        let command: &[&str] = match style {
            ChangeStyle::Lines => &["git", "diff"],
            ChangeStyle::Sizes => &["git", "diff", "--stat"],
            ChangeStyle::Tool => &["git", "difftool", "--no-prompt"],
        };
        let mut paths = vec![":(top)".to_owned()];
        paths.extend(all_but.iter().map(|path| format!(":(top,exclude,literal){path}")));
        let paths: Vec<String> = paths.iter().map(|path| shell_word(path)).collect();
        let one = |(from, to): &(CommitId, CommitId)| {
            format!("{} {from} {to} -- {}", command.join(" "), paths.join(" "))
        };
        let script: Vec<String> = changes.iter().map(one).collect();
        // One pager for all of them.
        let alias = format!("alias.ralph-changes=!{}", script.join(" && "));
        let paging: &[&str] = if style == ChangeStyle::Tool { &[] } else { &["-p"] };
        let mut git = program::for_person(&self.root);
        git.args(["-c", &alias]).args(paging).arg("ralph-changes");
        if let (ChangeStyle::Tool, Ok(terminal)) = (style, fs::File::open("/dev/tty")) {
            git.stdin(Stdio::from(terminal));
        }
        git.status().map(drop).context("start `git`")
    }

    /// The remote repositories, by name, with their addresses.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn remotes(&self) -> Result<Vec<(String, String)>> {
        let list = ["config", "-z", "--get-regexp", r"^remote\..*\.url$"];
        let said = lossy(&program::run_raw(&self.root, &list, &[])?.stdout);
        let one = |part: &str| {
            let (key, url) = part.split_once('\n')?;
            let name = key.strip_prefix("remote.")?.strip_suffix(".url")?;
            Some((name.to_owned(), url.to_owned()))
        };
        Ok(said.split('\0').filter_map(one).collect())
    }

    /// The branch of a remote that it offers first, as far as it is known here.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn default_branch(&self, remote: &str) -> Result<Option<String>> {
        let start = format!("refs/remotes/{remote}/");
        let found = program::answer(&self.root, &["symbolic-ref", "-q", &format!("{start}HEAD")])?;
        Ok(found.and_then(|name| Some(name.trim().strip_prefix(&start)?.to_owned())))
    }

    /// Sends a commit to a branch of a remote, as the person does: with their keys, and their `pre-push`.
    ///
    /// # Errors
    /// `git` cannot be started, or refuses.
    pub fn push(&self, remote: &str, commit: &CommitId, branch: &str) -> Result<()> {
        let to = format!("{commit}:refs/heads/{branch}");
        let status = program::for_person(&self.root).args(["push", remote, &to]).status();
        let status = status.context("start `git`")?;
        ensure!(status.success(), "`git push {remote} {to}` failed");
        Ok(())
    }
}
