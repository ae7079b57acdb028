//! Work that landed, as the change from one commit to another: shown to a person, applied elsewhere, and
//! sent to another repository.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail, ensure};

use super::{BranchLandings, integrate::GitCalls, lossy, program};
use crate::{
    core::{commit_id::CommitId, executor::shell_word, verdict::ResolvedConflict},
    regular_file,
};

/// The result of applying a change to another commit.
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
}

impl BranchLandings<'_> {
    /// The commit below consecutive commits that end with `last`: its first ancestor, from parent
    /// to parent, outside of `commits`. None below the root commit.
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
        let before = self.tree_of(onto)?;
        match self.merged_from(from, [&before, &tree])? {
            Ok(tree) if tree == before => Ok(AppliedChange::Nothing),
            Ok(tree) => {
                let commit = self.commits().commit_tree(&[onto], &tree, message)?;
                Ok(AppliedChange::Done(commit))
            }
            Err(paths) if paths.is_empty() => bail!("git 2.38 or newer is needed for this"),
            Err(paths) => {
                let commits = self.later_changes((from, onto), &paths, "%h %s")?;
                let commits = commits.lines().map(str::to_owned).collect();
                Ok(AppliedChange::Conflict { paths, commits })
            }
        }
    }

    /// The newest commits after `from` that changed these paths, each in this format of git-log(1).
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
        let mut git = program::for_person(&self.root);
        git.args(["-c", &alias, "-p", "ralph-changes"]).status().map(drop).context("start `git`")
    }

    /// Shows how a file differs from another one, with the pager and the colors of `git`.
    ///
    /// # Errors
    /// `git` cannot be started.
    pub fn show_difference(&self, before: &Path, after: &Path) -> Result<()> {
        let mut git = program::for_person(&self.root);
        git.args(["diff", "--no-index", "--"]).arg(before).arg(after);
        git.status().map(drop).context("start `git`")
    }

    /// The names of the remote repositories.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn remotes(&self) -> Result<Vec<String>> {
        let said = lossy(&program::run_raw(&self.root, &["remote"], &[])?.stdout);
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// The default branch of a remote, as recorded here.
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

// Conflicts that need no agent. Where both sides only added lines at the same place, the lines of
// both are kept, and the verify commands decide; a file that a tool writes is made again by it.

/// The attribute of files for which this is tried. A file with its own `merge` attribute follows
/// that.
pub const KEEPS_ADDED: &str = "ralph-keep-added";

/// The attribute of files that a command makes again after a conflict. Its value is for the caller.
pub const REGENERATES: &str = "ralph-regenerate";

/// The resolution of a conflicting file.
enum Resolution {
    /// Both sides only added lines: the file with those of both.
    Both(Vec<u8>),
    /// It keeps the content of the target until a command makes it again.
    Regenerated(String),
}

impl GitCalls<'_> {
    /// Resolves the conflicts at which git stopped, where the attributes of the files allow it. Returns
    /// these files. Else changes nothing, and returns none.
    pub(super) fn resolve(&self) -> Result<Vec<ResolvedConflict>> {
        let unmerged = self.run_raw(&["ls-files", "--unmerged", "-z"])?.stdout;
        // Each line is `MODE OBJECT STAGE\tPATH`. A file that both added, or one of them removed, has
        // fewer stages than three.
        let mut files: BTreeMap<String, [Option<String>; 3]> = BTreeMap::new();
        for entry in unmerged.split(|byte| *byte == 0).filter(|it| !it.is_empty()).map(lossy) {
            let Some((about, path)) = entry.split_once('\t') else { return Ok(Vec::new()) };
            let stage = about.rsplit(' ').next().and_then(|stage| stage.parse::<usize>().ok());
            let modes = files.entry(path.to_owned()).or_default();
            if let Some(mode) = stage.and_then(|stage| modes.get_mut(stage.wrapping_sub(1))) {
                *mode = about.split(' ').next().map(str::to_owned);
            }
        }
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        let mut resolutions = Vec::new();
        for ((path, modes), resolution) in files.iter().zip(self.attributes_of(&paths)?) {
            let is_file =
                |mode: &Option<String>| mode.as_ref().is_some_and(|it| it.starts_with("100"));
            let [base, ours, theirs] = modes;
            let resolution = match resolution {
                Some(Resolution::Regenerated(value)) if is_file(ours) && is_file(theirs) => {
                    Resolution::Regenerated(value)
                }
                Some(Resolution::Both(_)) if is_file(base) && base == ours && base == theirs => {
                    let text = regular_file::read(&self.repo.root.join(path)).ok();
                    let Some(text) = text.and_then(|text| with_both(&text)) else {
                        return Ok(Vec::new());
                    };
                    Resolution::Both(text)
                }
                Some(_) | None => return Ok(Vec::new()),
            };
            resolutions.push((path, resolution));
        }
        let mut resolved = Vec::new();
        for (path, resolution) in resolutions {
            let command = match resolution {
                Resolution::Both(text) => {
                    regular_file::write(&self.repo.root.join(path), &text)?;
                    None
                }
                Resolution::Regenerated(value) => {
                    let ours = ["--literal-pathspecs", "checkout", "--ours", "--", path.as_str()];
                    if !self.run_raw(&ours)?.status.success() {
                        return Ok(Vec::new());
                    }
                    Some(value)
                }
            };
            resolved.push(ResolvedConflict { path: path.clone(), command });
        }
        let add = ["--literal-pathspecs", "add", "--"].into_iter().chain(paths);
        let added = resolved.is_empty() || self.run_raw(&add.collect::<Vec<_>>())?.status.success();
        Ok(if added { resolved } else { Vec::new() })
    }

    /// The resolutions that the attributes of each file allow. A file with its own `merge`
    /// attribute follows that.
    fn attributes_of(&self, paths: &[&str]) -> Result<Vec<Option<Resolution>>> {
        let ask = ["check-attr", "-z", KEEPS_ADDED, REGENERATES, "merge", "--"];
        let arguments: Vec<&str> = ask.into_iter().chain(paths.iter().copied()).collect();
        let answer = lossy(&self.run_raw(&arguments)?.stdout);
        // Path, attribute and value in turn.
        let fields: Vec<&str> = answer.split('\0').collect();
        let values: Vec<&str> = fields.chunks_exact(3).map(|field| field[2]).collect();
        let of_file = |values: &[&str]| match values {
            [_, value, "unspecified"] if !["unspecified", "unset", "set"].contains(value) => {
                Some(Resolution::Regenerated((*value).to_owned()))
            }
            ["set", _, "unspecified"] => Some(Resolution::Both(Vec::new())),
            _ => None,
        };
        Ok(values.chunks_exact(3).map(of_file).collect())
    }
}

/// The text with the lines of both sides, of a text with conflicts in the style `diff3`; none if a
/// side changed or removed a line there. The added lines of a side stay together.
fn with_both(text: &[u8]) -> Option<Vec<u8>> {
    const MARKERS: [&[u8]; 4] = [b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> "];
    let mut kept = Vec::with_capacity(text.len());
    // The marker that comes next.
    let mut next = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(MARKERS[next]) {
            next = (next + 1) % MARKERS.len();
        } else if next == 2 || line.starts_with(MARKERS[0]) {
            // A line of the base, or a file that has such lines of its own.
            return None;
        } else {
            kept.extend_from_slice(line);
        }
    }
    (next == 0 && kept.len() < text.len()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_of_both_are_kept_together_and_anything_else_is_a_conflict() {
        let conflict = |base: &str| {
            let (head, end) = ("a\n<<<<<<< ours\nfn x() {\n}\n", "=======\nfn y() {\n}\n");
            format!("{head}||||||| base\n{base}{end}>>>>>>> theirs\nb\n")
        };
        let both = with_both(conflict("").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(both).unwrap(), "a\nfn x() {\n}\nfn y() {\n}\nb\n");
        let windows = conflict("").replace('\n', "\r\n");
        assert!(with_both(windows.as_bytes()).unwrap().ends_with(b"fn y() {\r\n}\r\nb\r\n"));
        for text in [
            conflict("old\n"),
            conflict("") + &conflict("old\n"),
            conflict("").replace(">>>>>>> theirs", "theirs"),
            "a\n".to_owned(),
        ] {
            assert_eq!(with_both(text.as_bytes()), None, "{text}");
        }
    }
}
