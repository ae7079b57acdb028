//! Checks of git: whether commits work here without a person.

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

/// Checks that git has an identity for commits.
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

/// Checks that HEAD is on a branch with a commit.
pub(super) fn head(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "branch";
    match workspace.repo.head() {
        Err(error) => Finding::of_error(ABOUT, &error, "see `git status`"),
        Ok(head) => match (head.branch, head.commit) {
            (Some(branch), Some(_)) => Finding::ok(ABOUT, branch),
            (branch, _) if workspace.config.is_isolated() => {
                let (found, cure) = match branch {
                    Some(branch) => {
                        (format!("`{branch}` has no commit yet"), "make the first commit")
                    }
                    None => ("HEAD is detached".to_owned(), "switch to a branch with `git switch`"),
                };
                let found = format!("{found}, and attempts start from a branch with a commit");
                let cure = format!("{cure}, or use `--in-place`");
                Finding::fault(ABOUT, Exit::Error, found, cure)
            }
            (Some(branch), None) => Finding::warning(
                ABOUT,
                format!("`{branch}` has no commit yet"),
                "commit the existing files, to tell them from the work of agents",
            ),
            (None, _) => Finding::warning(
                ABOUT,
                "HEAD is detached; commits would be on no branch",
                "switch to a branch with `git switch`",
            ),
        },
    }
}

/// Checks that there are no uncommitted changes that an agent could commit.
pub(super) fn work_tree(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "checkout";
    match attempt::changed(workspace, &workspace.repo) {
        Err(error) => Finding::of_error(ABOUT, &error, "see `git status`"),
        Ok(changed) if changed.is_empty() => Finding::ok(ABOUT, "clean"),
        Ok(changed) => {
            let names: Vec<String> = changed.into_keys().collect();
            let found = format!("{} not committed: {}", counted(names.len(), "path"), few(&names));
            let cure = if workspace.config.is_isolated() {
                "commit or stash; work on the same files lands only then"
            } else {
                "commit or stash; `git add -A` by an agent would include them"
            };
            Finding::warning(ABOUT, found, cure)
        }
    }
}

/// Checks that commits can be signed without a person.
pub(super) fn signing(workspace: &Workspace, bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "signing";
    let cure = "make the key usable without a person, or run `git config commit.gpgSign false`";
    match workspace.repo.signs_commits() {
        Ok(false) => return Finding::ok(ABOUT, "commits are not signed"),
        Ok(true) => {}
        Err(error) => return Finding::warning(ABOUT, format!("{error:#}"), cure),
    }
    let tried = "a signed commit in a temporary repository";
    let answer = workspace.repo.committer().and_then(|_| {
        let trial = workspace.repo.trial(&bench.folder("signing")?)?;
        ask(bench, &trial, trial.signed_commit())
    });
    judge(ABOUT, tried, answer, cure)
}

/// Checks that the commit hooks pass and exit.
pub(super) fn hooks(workspace: &Workspace, bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "hooks";
    let names = workspace.repo.commit_hooks();
    if names.is_empty() {
        return Finding::ok(ABOUT, "no commit hooks");
    }
    let tried = format!("an empty commit in a fresh checkout (with {})", names.join(", "));
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
    let cure = "make the hooks pass and exit without a terminal; rejected work stays uncommitted";
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
        Ok(ProbeAnswer::Yes(_)) => Finding::ok(about, format!("tested: {tried}")),
        Ok(ProbeAnswer::No(why)) => Finding::warning(about, format!("{tried} failed: {why}"), cure),
        Ok(ProbeAnswer::Late(limit)) => {
            let limit = duration::short(limit);
            let found = format!("{tried} did not finish within {limit}");
            Finding::warning(about, found, cure)
        }
        Err(error) => {
            let text = format!("not tested: {error:#}");
            let (found, cure) = parts(&text, cure);
            Finding::warning(about, found, cure)
        }
    }
}
