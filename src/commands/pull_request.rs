//! `ralph pr`: a pull request of what landed, with the report as its text; opened by `gh`.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    Invocation,
    review::{ReviewItem, landings},
    status, success,
    task_editor::TaskEditor,
};
use crate::{
    adapters::{
        process,
        terminal::{self, visible},
    },
    cli::PullRequestArgs,
    core::{
        executor::shell_word,
        exit::{Exit, fail},
    },
    project::workspace::{landed_tip, landing_branch},
    view::{lines::counted, review::ReviewView, run_report::RunReport},
};

/// The remote that is meant where there are several.
const USUAL: &str = "origin";
/// The longest title.
const TITLE: usize = 72;
/// The longest text, in characters; GitHub refuses one of more than 65,536.
const BODY: usize = 65_000;

/// Prints the text of a pull request and the commands that open it; or, if wanted, pushes and opens it.
///
/// # Errors
/// Nothing has landed that the base does not have; `git push` or `gh` fails.
pub fn run(invocation: &Invocation, options: &PullRequestArgs) -> Result<Exit> {
    let editor = TaskEditor::for_review(invocation, "pr")?;
    let (workspace, repo) = (&editor.workspace, &editor.workspace.repo);
    let report = status::read_for_person(invocation, options.run, Utc::now())?;
    let onto = landing_branch(workspace)?.context("HEAD is on no branch")?;
    let commit = landed_tip(workspace, &onto)?;
    let remotes = repo.landings().remotes()?;
    let remote = remotes.iter().find(|name| *name == USUAL).or(remotes.first()).map(String::as_str);
    let usual = remote.map(|remote| repo.landings().default_branch(remote)).transpose()?.flatten();
    let at_remote = |branch: &str| match remote {
        Some(remote) => repo.commit_of(&format!("refs/remotes/{remote}/{branch}")),
        None => Ok(None),
    };
    // Where nothing says what the base is, a branch of the remote is.
    let known =
        if at_remote("main")?.is_none() && at_remote(&onto)?.is_some() { &onto } else { "main" };
    let base = options.base.clone().or(usual).unwrap_or_else(|| known.to_owned());
    let mut start = at_remote(&base)?;
    if start.is_none() && onto != base {
        start = repo.branch(&base)?;
    }
    let run_id = report.run.run_id.clone().unwrap_or_default();
    let is_of_run = options.run.is_some() || start.is_none();
    let mut items = landings(&editor, |entry| !is_of_run || report.has(entry))?;
    if let Some(start) = &start {
        items.retain(|item| !repo.is_ancestor(&item.last, start).unwrap_or(false));
    }
    items.sort_by_key(|item| item.at);
    if items.is_empty() {
        let why = "nothing has landed that `{base}` does not have; `ralph report` tells of the run";
        return fail(Exit::Error, why.replace("{base}", &base));
    }
    let branch = if onto == base { format!("ralph/run-{run_id}") } else { onto };
    let title = title(&items);
    let body = workspace.secrets().text(&text(&report, items));
    let body: String = body.chars().take(BODY).collect();
    let file = workspace.state.dir().join("pull-request.md");
    fs::write(&file, &body).with_context(|| format!("write `{}`", file.display()))?;
    let open = gh(&["create", "--base", &base, "--head", &branch, "--title", &title], &file);
    let open: Vec<String> =
        open.into_iter().chain(options.draft.then(|| "--draft".to_owned())).collect();
    let open_line = open.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
    let (true, Some(remote)) = (options.push, remote) else {
        success(&format!(
            "{}\n\n{}\n",
            visible(&title),
            terminal::visible_lines(&body).trim_end()
        ))?;
        terminal::say(&terminal::visible_lines(&match remote {
            None => {
                "there is no remote repository; `git remote add origin URL` names one".to_owned()
            }
            Some(remote) => {
                format!("`ralph pr --push` opens it for `{base}`, as these do:")
                    + &format!("\n  git push {remote} {commit}:refs/heads/{branch}\n  {open_line}")
            }
        }));
        return Ok(Exit::Waiting);
    };
    repo.landings().push(remote, &commit, &branch)?;
    if process::resolve("gh", Path::new("/")).is_err() {
        let text = format!("`{branch}` is pushed; to open it:\n  {open_line}");
        terminal::say(&terminal::visible_lines(&text));
        return Ok(Exit::Waiting);
    }
    // A second run on one branch finds the request of the first: it has the new commits by the push.
    if succeeds(&open, workspace.root())?
        || succeeds(&gh(&["edit", &branch], &file), workspace.root())?
    {
        return Ok(Exit::Success);
    }
    fail(Exit::Error, format!("`gh` did not open it; `{branch}` is pushed"))
}

/// A command of `gh` for a pull request whose text is in a file.
fn gh(words: &[&str], file: &Path) -> Vec<String> {
    let file = file.display().to_string();
    let words = ["gh", "pr"].iter().chain(words).chain(&["--body-file"]);
    words.map(ToString::to_string).chain([file]).collect()
}

/// Whether a program, which says itself what is wrong, succeeds.
fn succeeds(words: &[String], dir: &Path) -> Result<bool> {
    let status = Command::new(&words[0]).args(&words[1..]).current_dir(dir).status();
    Ok(status.with_context(|| format!("start `{}`", words[0]))?.success())
}

fn title(items: &[ReviewItem]) -> String {
    let title = match items {
        [] => String::new(),
        [one] => one.title.clone(),
        [first, more @ ..] => format!("{}, and {}", first.title, counted(more.len(), "more task")),
    };
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    terminal::fit(&line, TITLE).into_owned()
}

/// The report of the run: what changed and how it was checked; and what deserves a look.
fn text(report: &RunReport, items: Vec<ReviewItem>) -> String {
    let mut text = report.markdown(Utc::now());
    let items = ReviewView::of(items).to_review;
    let is_told = |item: &&ReviewItem| !report.landed.iter().any(|told| told.id == item.task_id);
    let before: Vec<String> = items
        .iter()
        .filter(is_told)
        .map(|item| format!("- **{}**: {}; {}\n", item.task_id, item.title, item.facts()))
        .collect();
    let risky = items.iter().filter(|item| !item.risks.is_empty()).map(|item| {
        let why: Vec<&str> = item.risks.iter().map(|risk| risk.why.as_str()).collect();
        format!("- **{}**: {}\n", item.task_id, why.join("; "))
    });
    let risky: Vec<String> = risky.collect();
    for (heading, lines) in [("Landed before this run", before), ("What deserves a look", risky)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n### {heading}\n\n{}", lines.concat());
        }
    }
    text
}
