//! Git: whether a commit can be made here when nobody looks on.

use anyhow::Result;

use super::{
    Finding,
    bench::{Probe, ProbeAnswer, ProbeFolder},
    few, parts,
};
use crate::{
    adapters::git::TrialRepository,
    core::{duration, exit::Exit},
    project::{attempt, workspace::Workspace},
    view::lines::counted,
};

/// Git knows who commits.
pub(super) fn committer(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "identity";
    match workspace.repo.committer() {
        Ok(who) => Finding::ok(ABOUT, who),
        Err(error) => {
            let text = error.to_string();
            let (found, cure) = parts(&text, "");
            Finding::warning(ABOUT, found, cure)
        }
    }
}

/// HEAD is on a branch that has a commit.
pub(super) fn head(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "branch";
    match workspace.repo.head() {
        Err(error) => Finding::of_error(ABOUT, &error, "see what `git status` says"),
        Ok(head) => match (head.branch, head.commit) {
            (Some(branch), Some(_)) => Finding::ok(ABOUT, branch),
            (branch, _) if workspace.is_apart() => {
                let (found, cure) = match branch {
                    Some(branch) => (format!("`{branch}` has no commit yet"), "make the first one"),
                    None => ("HEAD is detached".to_owned(), "`git switch` to a branch"),
                };
                let found = format!("{found}, and attempts in work trees of their own need one");
                Finding::fault(ABOUT, Exit::Error, found, cure)
            }
            (Some(branch), None) => Finding::warning(
                ABOUT,
                format!("`{branch}` has no commit yet"),
                "commit what is there, so that it can be told from what agents do",
            ),
            (None, _) => Finding::warning(
                ABOUT,
                "HEAD is detached, so that commits are on no branch",
                "`git switch` to a branch",
            ),
        },
    }
}

/// Nothing is changed that an agent could take along.
pub(super) fn work_tree(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "work tree";
    match attempt::changed(workspace, &workspace.repo) {
        Err(error) => Finding::of_error(ABOUT, &error, "see what `git status` says"),
        Ok(changed) if changed.is_empty() => Finding::ok(ABOUT, "clean"),
        Ok(changed) => {
            let names: Vec<String> = changed.into_keys().collect();
            let found = format!("{} not committed: {}", counted(names.len(), "path"), few(&names));
            let cure = if workspace.is_apart() {
                "commit or stash; work on the same files is not merged before"
            } else {
                "commit or stash; the `git add -A` of an agent takes them along"
            };
            Finding::warning(ABOUT, found, cure)
        }
    }
}

/// A commit can be signed with nobody there, where commits are signed.
pub(super) fn signing(workspace: &Workspace, bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "signing";
    let cure = "make the key usable without a person, or `git config commit.gpgSign false` here";
    match workspace.repo.signs_commits() {
        Ok(false) => return Finding::ok(ABOUT, "commits are not signed"),
        Ok(true) => {}
        Err(error) => return Finding::warning(ABOUT, format!("{error:#}"), cure),
    }
    let tried = "a signed commit in a throw-away repository";
    let answer = workspace.repo.committer().and_then(|_| {
        let trial = workspace.repo.trial(&bench.folder("signing")?)?;
        ask(bench, &trial, trial.signed_commit())
    });
    judge(ABOUT, tried, answer, cure)
}

/// The hooks let a commit through and end.
pub(super) fn hooks(workspace: &Workspace, bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "hooks";
    let names = workspace.repo.commit_hooks();
    if names.is_empty() {
        return Finding::ok(ABOUT, "none runs at a commit");
    }
    let tried = format!("an empty commit in a fresh checkout, with {}", names.join(", "));
    let answer = workspace.repo.committer().and_then(|_| {
        let trial = workspace.repo.trial(&bench.folder("hooks")?)?;
        if workspace.repo.head()?.commit.is_some() {
            let checkout = ask(bench, &trial, trial.checkout())?;
            if !matches!(checkout, ProbeAnswer::Yes(_)) {
                return Ok(checkout);
            }
        }
        ask(bench, &trial, trial.hooked_commit())
    });
    let cure = "make the hooks pass and end with no terminal; what they refuse stays uncommitted";
    judge(ABOUT, &tried, answer, cure)
}

fn ask(bench: &ProbeFolder, trial: &TrialRepository, argv: Vec<String>) -> Result<ProbeAnswer> {
    let question = Probe {
        argv,
        dir: Some(trial.dir.clone()),
        env: trial.env.clone(),
        env_remove: trial.env_remove.clone(),
    };
    bench.ask(question, bench.commit)
}

fn judge(about: &'static str, tried: &str, answer: Result<ProbeAnswer>, cure: &str) -> Finding {
    match answer {
        Ok(ProbeAnswer::Yes(_)) => Finding::ok(about, format!("tried: {tried}")),
        Ok(ProbeAnswer::No(why)) => {
            Finding::warning(about, format!("tried {tried}, and it failed: {why}"), cure)
        }
        Ok(ProbeAnswer::Late(limit)) => {
            let limit = duration::short(limit);
            let found = format!("tried {tried}, and it did not end within {limit}");
            Finding::warning(about, found, cure)
        }
        Err(error) => {
            let text = format!("not tried: {error:#}");
            let (found, cure) = parts(&text, cure);
            Finding::warning(about, found, cure)
        }
    }
}
