//! The GitHub issues that tasks were imported from, and those that were closed.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    core::{
        event::AttemptResult,
        verdict::{Commit, Merge},
    },
    project::workspace::Workspace,
};

/// The number of commits that a comment names.
const MOST_COMMITS: usize = 50;

/// The issues that were closed here, by address. Each is closed once: a person may open it again.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClosedIssues(BTreeSet<String>);

impl ClosedIssues {
    /// Reads the list.
    pub fn read(workspace: &Workspace) -> ClosedIssues {
        workspace.state.closed_issues().unwrap_or_default()
    }

    /// Whether an issue was closed.
    pub fn has(&self, address: &str) -> bool {
        self.0.contains(address)
    }

    /// Adds an issue.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn add(&mut self, workspace: &Workspace, address: &str) -> Result<()> {
        self.0.insert(address.to_owned());
        workspace.state.write_closed_issues(self).context("keep which issues are closed")
    }
}

/// An issue of a GitHub repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The repository, as `gh` names it.
    repository: String,
    /// The number.
    number: String,
}

impl Issue {
    /// Reads an address such as `https://github.com/owner/name/issues/12`; none for anything else.
    pub fn of(address: &str) -> Option<Issue> {
        let parts: Vec<&str> = address.strip_prefix("https://")?.split('/').collect();
        let [host, owner, name, "issues", number] = parts[..] else { return None };
        let is_word = |text: &str| {
            let is_usual = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_usual)
        };
        let is_number =
            !number.is_empty() && number.len() < 19 && number.chars().all(|c| c.is_ascii_digit());
        if !is_number || ![host, owner, name].into_iter().all(is_word) {
            return None;
        }
        let host = if host == "github.com" { String::new() } else { format!("{host}/") };
        let repository = format!("{host}{owner}/{name}");
        Some(Issue { repository, number: number.to_owned() })
    }

    /// The command that closes it with a comment.
    pub fn closing(&self, comment: &str) -> Vec<String> {
        let (repository, number) = (self.repository.as_str(), self.number.as_str());
        let words = ["gh", "issue", "close", number, "--repo", repository, "--comment", comment];
        words.map(str::to_owned).to_vec()
    }
}

/// The comment for the issue of a completed task: the verdict and the commits.
pub fn comment(ended: &AttemptResult, commits: &[Commit]) -> String {
    let mut text = format!("Done: {}.\n", ended.why.trim_end_matches('.'));
    if let Some(Merge::Landed { branch, commit }) = &ended.evidence.merge {
        let _ = writeln!(text, "\nLanded on `{branch}` as {commit}.");
    }
    let passed: Vec<String> = { ended.evidence.verify.iter() }
        .filter(|check| check.is_green())
        .map(|check| format!("- `{}` passed\n", check.command))
        .collect();
    if !passed.is_empty() {
        let _ = write!(text, "\n{}", passed.concat());
    }
    if !commits.is_empty() {
        text.push('\n');
    }
    for commit in commits.iter().take(MOST_COMMITS) {
        let _ = writeln!(text, "- {} {}", commit.id, commit.subject);
    }
    if commits.len() > MOST_COMMITS {
        let _ = writeln!(text, "- and {} more", commits.len() - MOST_COMMITS);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_an_issue_is_one() {
        let repository = |address: &str| Issue::of(address).map(|issue| issue.repository);
        let home = "https://github.com/owner/na.me/issues/12";
        assert_eq!(repository(home).as_deref(), Some("owner/na.me"));
        assert_eq!(
            repository("https://git.example.com/o/n/issues/1").as_deref(),
            Some("git.example.com/o/n")
        );
        let command = Issue::of(home).unwrap().closing("c");
        assert_eq!(command.join(" "), "gh issue close 12 --repo owner/na.me --comment c");
        for other in [
            "prd.json#a",
            "http://github.com/o/n/issues/1",
            "https://github.com/o/n/pull/1",
            "https://github.com/o/n/issues/1/x",
            "https://github.com/o/n/issues/",
            "https://github.com/o/n/issues/-1",
            "https://github.com/-o/n/issues/1",
            "https://github.com/o/../issues/1",
            "https://github.com/o /n/issues/1",
            "https://evil@github.com/o/n/issues/1",
        ] {
            assert_eq!(Issue::of(other), None, "{other}");
        }
    }
}
