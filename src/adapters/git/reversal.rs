//! Work that landed, as the change from one commit to another: shown to a person, and taken back.

use std::{fs, process::Stdio};

use anyhow::{Context, Result, bail};

use super::{
    BranchLandings, Repo, lossy,
    program::{self, NewCommit},
};
use crate::core::{commit_id::CommitId, executor::shell_word};

/// What became of taking back some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reversal {
    /// The commit without it.
    Done(CommitId),
    /// Nothing of it is there.
    Nothing,
    /// Later commits changed what it changed.
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

    /// Makes a commit on top of `onto` without the change from `before` to `last`. Files at `all_but` stay
    /// as they are.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn reverted(
        &self,
        onto: &str,
        (before, last): (&str, &str),
        all_but: &[&str],
        message: &str,
    ) -> Result<Reversal> {
        let kept = self.entries(last, all_but)?;
        let tree = self.commits().with_entries(before, all_but, &kept)?;
        let env = &self.commits().identity()[..];
        let new = NewCommit { tree: &tree, parents: &[last], message, env, is_signed: false };
        let before = &program::commit_tree(&self.root, &new)?;
        let base = format!("--merge-base={last}");
        match self.merged_tree(&[&base], onto, before)? {
            Ok(tree) if tree == self.tree_of(onto)? => Ok(Reversal::Nothing),
            Ok(tree) => self.commits().commit_merge(&[onto], &tree, message).map(Reversal::Done),
            Err(paths) if paths.is_empty() => {
                bail!("git 2.40 or newer is needed to take work back")
            }
            Err(paths) => {
                let commits = self.later_changes((last, onto), &paths)?;
                Ok(Reversal::Conflict { paths, commits })
            }
        }
    }

    /// The newest commits after `last` that changed these paths.
    fn later_changes(&self, (last, onto): (&str, &str), paths: &[String]) -> Result<Vec<String>> {
        const MOST: &str = "-5";
        let log = ["--literal-pathspecs", "log", MOST, "--no-merges", "--no-color"];
        let range = format!("{last}..{onto}");
        let rest = ["--format=%h %s", &range, "--"];
        let paths = paths.iter().map(String::as_str);
        let arguments: Vec<&str> = log.into_iter().chain(rest).chain(paths).collect();
        let said = lossy(&program::run(&self.root, &arguments)?);
        Ok(said.lines().map(str::to_owned).collect())
    }
}

impl Repo {
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
            ChangeStyle::Tool => &["git", "difftool", "--dir-diff"],
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
}
