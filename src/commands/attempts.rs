//! `ralph attempts` and `restore`: what was tried, how it went, and the work that is kept.

use anyhow::Result;

use super::{Invocation, success};
use crate::{
    adapters::terminal::{self, visible},
    cli::{AttemptsArgs, RestoreArgs},
    core::{
        diagnostic::nearest_or,
        duration,
        exit::{Exit, Failure, fail},
        history::attempt_log::{self, AttemptEntry, AttemptLog, LogDetail},
        verdict::Verdict,
    },
    project::{attempt::leftovers::pin_name, workspace::Workspace},
    view::{
        attempt::PastAttemptView,
        lines::{counted, full},
    },
};

/// Lists the attempts.
///
/// # Errors
/// A task that was never attempted; errors of the disk.
pub fn list(invocation: &Invocation, options: &AttemptsArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let name = options.id.as_ref().map(|id| typed(&workspace, id));
    let detail = name.as_deref().map_or(LogDetail::Results, LogDetail::of_name);
    let log = workspace.attempt_log(detail)?;
    let id = name.map(|it| find(&workspace, &log, &it)).transpose()?.map(|it| it.task_id.clone());
    let mut all = log.of(id.as_ref()).map(PastAttemptView::of).peekable();
    if options.json {
        return Ok(terminal::print_json_list(all).map(|()| Exit::Success)?);
    }
    success(&match all.peek() {
        Some(_) => table(all),
        None => "no attempt yet\n".to_owned(),
    })
}

/// The table of attempts, with its heading.
pub(super) fn table(all: impl Iterator<Item = PastAttemptView>) -> String {
    terminal::table(["attempt", "when", "took", "verdict", "kept", "left"], all.map(row))
}

fn row(attempt: PastAttemptView) -> [String; 6] {
    let (name, when) = (attempt.name(), full(attempt.started_at));
    let Some(ended) = attempt.end else {
        let blank = String::new;
        return [name, when, blank(), "not ended".to_owned(), blank(), blank()];
    };
    let mut left = Vec::new();
    let evidence = &ended.evidence;
    if !evidence.commits.is_empty() {
        left.push(counted(evidence.commits.len(), "commit"));
    }
    left.extend(evidence.diff.filter(|_| !left.is_empty()).map(|diff| diff.to_string()));
    if !evidence.leftovers.is_empty() {
        left.push(format!("{} uncommitted", evidence.leftovers.len()));
    }
    let took = duration::short(ended.duration());
    let kept = ended.pinned.unwrap_or_default();
    [name, when, took, ended.verdict.to_string(), kept, left.join(", ")]
}

/// Makes a branch of what is kept of an attempt.
///
/// # Errors
/// Nothing kept; a branch of that name; in git's own words.
pub fn restore(invocation: &Invocation, options: &RestoreArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let repo = &workspace.repo;
    let name = typed(&workspace, &options.name);
    // A ref outlives the journal, which may have been removed.
    let log = workspace.attempt_log(LogDetail::of_name(&name))?;
    let entry = log.find(&name);
    let (id, attempt) = match entry {
        Some(entry) => (entry.task_id.clone(), entry.attempt),
        None => attempt_log::split(&name).ok_or_else(|| unknown(&name, []))?,
    };
    let ended = entry.and_then(|entry| entry.ended.as_ref());
    let is_off_branch = ended.is_some_and(|(_, ended)| ended.verdict == Verdict::OffBranch);
    let missing = ended.map_or_else(Vec::new, |(_, ended)| ended.evidence.missing.clone());
    let refuse = |why: String| fail(Exit::Error, why);
    let pin = pin_name(&workspace.place, &id, attempt);
    let Some(commit) = repo.commit_of(&pin)? else {
        return refuse(format!(
            "nothing is kept of attempt {attempt} at `{id}`; `ralph attempts{} {id}` shows what is",
            workspace.place.flag()
        ));
    };
    let branch = match &options.branch {
        Some(branch) => branch.clone(),
        None if workspace.place.name().is_some() => format!("ralph/restore/loops/{id}.{attempt}"),
        None => format!("ralph/restore/{id}.{attempt}"),
    };
    match repo.branch(&branch)? {
        Some(found) if found == commit => {
            terminal::print(&format!("branch {branch} has it already\n"))?;
        }
        Some(_) => {
            return refuse(format!(
                "there is a branch `{branch}` already, and it stays unchanged; name another with \
                 `--branch`"
            ));
        }
        None => {
            repo.make_branch(&branch, &commit)?;
            terminal::print(&format!("branch {branch} has what attempt {attempt} at {id} left\n"))?;
        }
    }
    terminal::print(&format!(
        "look at it:      git log --stat HEAD..{branch}\n\
         compare:         git diff HEAD...{branch}\n\
         take one file:   git restore --source={branch} -- PATH\n{}",
        if is_off_branch {
            "take a commit:   git cherry-pick COMMIT\n\
             Do not merge it: the attempt rewrote its history or left its branch, so a merge may \
             undo the work of others.\n"
                .to_owned()
        } else if missing.is_empty() {
            format!("take all of it:  git merge {branch}\n")
        } else {
            format!("Do not merge it as it is: {}\n", visible(&missing.join("; ")))
        }
    ))?;
    if repo.pins().has_strays(&commit)? {
        terminal::print(&format!(
            "stashes and other branches that it left: git log --oneline {branch}^@ --not {branch}^1\n"
        ))?;
    }
    Ok(Exit::Success)
}

/// What was typed, in a plain loop with its name before a bare number.
pub(super) fn typed(workspace: &Workspace, name: &str) -> String {
    match workspace.place.name() {
        Some(own) if name.parse::<u32>().is_ok() => format!("{own}.{name}"),
        _ => name.to_owned(),
    }
}

pub(super) fn find<'a>(
    workspace: &Workspace,
    log: &'a AttemptLog,
    name: &str,
) -> Result<&'a AttemptEntry> {
    if let Some(found) = log.find(name) {
        return Ok(found);
    }
    let all = workspace.attempt_log(LogDetail::Results)?;
    let names: Vec<String> = all.of(None).map(AttemptEntry::name).collect();
    let ids = all.of(None).map(|entry| entry.task_id.as_str());
    Err(unknown(name, ids.chain(names.iter().map(String::as_str))))
}

fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> anyhow::Error {
    let hint = nearest_or(name, known, "`ralph attempts` lists them");
    Failure::new(Exit::Error, format!("no attempt `{}`; {hint}", name.escape_debug())).into()
}
