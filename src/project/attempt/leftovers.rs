//! The work that an attempt leaves: committed if it was reported done, kept under a ref if the
//! attempt did not complete its task.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Error, Result};
use serde_json::json;

use super::{AttemptRecord, changed};
use crate::{
    adapters::{
        agent_output,
        git::{self, CommitDraft, NOT_WORK, Pin, PinSource, Repo},
        process::{self, GuardianProgram, GuardianSpec, ProcessSpec},
    },
    core::{
        commit_id::CommitId,
        executor::Executor,
        graph::task::TaskId,
        loop_paths::LoopPaths,
        proof::source_code::lexer::Language,
        redact::is_secret_file,
        verdict::{Autocommit, Outcome},
    },
    crash,
    project::{
        executors,
        placement::{self, ProcessFacts},
        slot_pool::SlotPool,
        workspace::Workspace,
    },
};

/// The file in the attempt's folder with the output of git and its hooks.
const LOG: &str = "commit.log";
/// The number of last lines that explain why a commit was refused.
const LINES: usize = 3;

/// The number of paths that are not work of an attempt and that are named.
const MOST_OTHERS: usize = 10_000;

/// Tool leftovers in a repository, even if it does not ignore them.
const UNWANTED: [&str; 4] = ["node_modules", ".venv", "__pycache__", ".claude/settings.local.json"];

/// Returns the tool leftovers that a commit lacks: they do not land.
pub fn unwanted(workspace: &Workspace, base: Option<&CommitId>) -> Vec<&'static str> {
    let has = |base: &CommitId, path: &str| workspace.repo.has_at(base, path).unwrap_or(true);
    let is_new = |path: &&str| base.is_none_or(|base| !has(base, path));
    UNWANTED.into_iter().filter(is_new).collect()
}

/// Says which of that an attempt has left in its slot, unless the repository ignores it, and which
/// source code it wrote that git ignores: no commit of it lands either.
///
/// # Errors
/// The error of `git`.
pub fn left_out(workspace: &Workspace, tree: &Repo, record: &AttemptRecord) -> Result<Vec<String>> {
    if record.slot.is_none() {
        return Ok(Vec::new());
    }
    let began = SystemTime::from(record.started_at);
    let mut unwanted = unwanted(workspace, record.base.as_ref());
    unwanted.retain(|path| is_written_since(&tree.root().join(path), began));
    if !unwanted.is_empty() {
        unwanted = workspace.repo.local().unignored(&unwanted)?;
    }
    let tools = unwanted.iter().map(|path| format!("{path}, which `.gitignore` should name"));
    let code = ignored_code(tree, began)?;
    Ok(tools.chain(code.iter().map(|path| format!("{path}, which git ignores"))).collect())
}

/// The files of source code, written since, that git ignores in a folder of sources, and folders
/// with such files. In other folders they are build output.
fn ignored_code(tree: &Repo, since: SystemTime) -> Result<Vec<String>> {
    /// The source folders of a project.
    const SOURCES: [&str; 5] = ["src", "lib", "app", "tests", "test"];
    let is_new = |file: &PathBuf| {
        // Files of C may be made of others.
        Language::of(&file.to_string_lossy()).is_some_and(|it| it != Language::C)
            && is_written_since(file, since)
    };
    let has_code = |path: &String| {
        let place = tree.root().join(path);
        let files = place.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
        files.chain([place]).any(|file| is_new(&file))
    };
    let mut places = tree.local().ignored_places()?;
    places.retain(|path| path.split('/').any(|name| SOURCES.contains(&name)) && has_code(path));
    Ok(places)
}

fn is_written_since(file: &Path, at: SystemTime) -> bool {
    file.symlink_metadata().and_then(|found| found.modified()).is_ok_and(|written| written >= at)
}

/// Returns the ref that keeps the work of an attempt.
pub fn pin_name(place: &LoopPaths, id: &TaskId, attempt: u32) -> String {
    format!("{}/{attempt}", place.pins(id))
}

/// Returns all paths that changed since the start of the attempt or that an earlier attempt at the
/// task left. In the checkout, the settings belong to people.
///
/// # Errors
/// Errors of git.
pub fn left(workspace: &Workspace, tree: &Repo, record: &AttemptRecord) -> Result<Vec<String>> {
    let mut before = record.dirty.clone();
    before.retain(|path, _| !record.inherited.contains(path));
    let is_checkout = record.slot.is_none() && workspace.place.name().is_none();
    let settings = workspace.layers.own_text().map(|(path, _)| path).filter(|_| is_checkout);
    let mut now = changed(workspace, tree)?;
    now.retain(|path, _| settings.as_ref() != Some(path));
    Ok(since(now, &before))
}

/// Returns the files with uncommitted changes in the checkout that were written during an attempt: the
/// first of them.
///
/// # Errors
/// Errors of git.
pub fn in_checkout(workspace: &Workspace, record: &AttemptRecord) -> Result<Vec<String>> {
    /// The number of files that are named.
    const FEW: usize = 10;
    let began = SystemTime::from(record.started_at);
    let paths = changed(workspace, &workspace.repo)?.into_keys();
    let files = paths.map(|path| workspace.root().join(path));
    Ok(files
        .filter(|file| is_written_since(file, began))
        .take(FEW)
        .map(|file| file.display().to_string())
        .collect())
}

/// Returns the paths whose contents differ from `before`. Staging a path is not a change.
fn since(now: BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Vec<String> {
    let contents = |print: &str| print.split_once(' ').map(|(_, contents)| contents.to_owned());
    let is_new = |(path, print): &(String, String)| {
        before.get(path).is_none_or(|before| contents(before) != contents(print))
    };
    now.into_iter().filter(is_new).map(|(path, _)| path).collect()
}

/// Returns the changed paths that earlier attempts at the same task left and that have not changed
/// since.
///
/// # Errors
/// Errors of git.
pub fn inherited(
    workspace: &Workspace,
    tree: &Repo,
    id: &TaskId,
    attempt: u32,
    dirty: &BTreeMap<String, String>,
) -> Result<BTreeSet<String>> {
    // Before the first attempt, every change belongs to a person or another task.
    if attempt == 1 || dirty.is_empty() {
        return Ok(BTreeSet::new());
    }
    let Some(pin) = tree.pins().newest(&workspace.place.pins(id))? else {
        return Ok(BTreeSet::new());
    };
    let changed: Vec<String> = dirty.keys().cloned().collect();
    let name = format!("{id}.{attempt}");
    let scratch = workspace.state.scratch(&name).context("create a temporary index")?;
    Ok(tree.pins().still_as_pinned(&pin, &changed, &scratch)?.into_iter().collect())
}

/// Keeps the work that the attempt left, with its commits; `work` are the changed paths that are its
/// own. Returns the ref if there was anything to keep, and the paths that could not be kept, with
/// the reason.
pub fn pin(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    work: &[String],
) -> (Option<String>, Vec<String>) {
    let name = record.pin(&workspace.place);
    let mut moved = Vec::new();
    let changed = match &record.slot {
        None => left(workspace, tree, record),
        // Everything in an isolated slot belongs to the attempt, and all of it must be kept
        // before the next attempt can use the slot.
        Some(_) => tree.dirty().map(|dirty| {
            let mut changed = dirty.into_keys().collect();
            moved = set_aside(workspace, tree, record, &mut changed);
            changed
        }),
    };
    let kept = changed.and_then(|changed| {
        let left = PinSource {
            base: record.base.as_deref(),
            branch: record.branch.as_deref(),
            began: Some(record.started_at.timestamp()),
            changed: &changed,
        };
        let base = record.base.as_deref().unwrap_or("none");
        let others = changed.iter().filter(|path| !work.contains(path)).take(MOST_OTHERS);
        let others: Vec<String> =
            others.map(|path| format!("{NOT_WORK}: {}\n", json!(path))).collect();
        let others = others.concat();
        let message = format!(
            "Work left by attempt {} at {}\n\n{}Ralph-Base: {base}\n{others}",
            record.attempt,
            record.task_id,
            trailers(record)
        );
        let scratch =
            workspace.state.scratch(&record.name()).context("create a temporary index")?;
        let kept = tree.pins().pin(&name, &message, left, &scratch)?;
        if let (Some(commit), Some(_)) = (&kept.commit, &record.slot) {
            workspace.repo.slots().bring_home(tree, commit, &name)?;
        }
        crash::point("left.kept");
        Ok(kept)
    });
    match kept {
        Ok(Pin { commit, left_out }) => {
            moved.extend(left_out);
            (commit.map(|_| name), moved)
        }
        // The slot has all of it: nothing is lost, and the run can continue.
        Err(error) => (None, vec![format!("{error:#}")]),
    }
}

/// Moves repositories that an attempt made in its slot to a folder next to the slots: no commit can
/// keep them, and each would keep a slot out of use. Returns their new paths.
fn set_aside(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    changed: &mut Vec<String>,
) -> Vec<String> {
    let folder = SlotPool::of(workspace).folder().join("kept").join(record.name());
    let mut moved = Vec::new();
    changed.retain(|path| {
        let (from, to) = (tree.root().join(path), folder.join(path));
        let is_nested = path.ends_with('/') && from.join(".git").exists();
        let make = || fs::create_dir_all(to.parent()?).and_then(|()| fs::rename(&from, &to)).ok();
        let is_moved = is_nested && make().is_some();
        let (path, to) = (path.escape_debug(), to.display());
        moved.extend(is_moved.then(|| format!("{path} (a nested repository, now `{to}`)")));
        !is_moved
    });
    moved
}

/// Returns the message of a commit that `ralph` makes from an attempt's work.
pub fn message(record: &AttemptRecord, title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{title}\n\n{}", trailers(record))
}

/// Returns the message of the commit that completes the task of an attempt in the graph.
pub fn completion_message(record: &AttemptRecord, title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("Complete {}: {title}\n\n{}", record.task_id, trailers(record))
}

/// Returns the message of the commit that removes a claim which an attempt has committed.
pub fn release_message(record: &AttemptRecord, title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    // Without the trailers, which mark work.
    format!("Release {}: {title}\n", record.task_id)
}

fn trailers(record: &AttemptRecord) -> String {
    format!("Ralph-Task: {}\nRalph-Attempt: {}\n", record.task_id, record.attempt)
}

/// Takes the files out of `left` that hold [secrets](is_secret_file) and are not in a commit yet.
pub fn take_new_secrets(tree: &Repo, left: &mut Vec<String>) -> Vec<String> {
    let is_new = |path: &str| !tree.file_at("HEAD", path).is_ok_and(|found| found.is_some());
    let is_one = |path: &&String| is_secret_file(path) && is_new(path);
    let secrets: Vec<String> = left.iter().filter(is_one).cloned().collect();
    left.retain(|path| !secrets.contains(path));
    secrets
}

/// Commits the paths that the attempt left, with the project's hooks and signing, within
/// `commit_timeout`. They have no terminal. The hooks of an attempt in a sandbox, which may have written them, run in it; keys are outside.
/// Returns `None` if there is nothing to commit.
///
/// # Errors
/// Errors of the disk. An error of git is returned as a refusal.
pub fn commit(
    workspace: &Workspace,
    guardians: &GuardianProgram,
    tree: &Repo,
    record: &AttemptRecord,
    (left, title): (&[String], &str),
) -> Result<Option<Autocommit>> {
    let run =
        |draft: &CommitDraft, sandbox| run(workspace, guardians, tree, record, (draft, sandbox));
    let message = message(record, title);
    let before = tree.head()?.commit;
    let draft = match tree.commits().draft(left, &message) {
        Ok(None) => return Ok(None),
        Ok(Some(draft)) => draft,
        Err(error) => return Ok(Some(Autocommit::Refused(format!("{error:#}")))),
    };
    crash::point("left.drafted");
    let executor = executors::find(&workspace.config, record.run_on.as_deref())?;
    let sandbox = Some(&executor).filter(|executor| executor.is_sandbox());
    let is_unsigned = sandbox.is_some() || git::unsigned().is_some();
    let unsigned = draft.clone().unsigned();
    let mut why = run(if is_unsigned { &unsigned } else { &draft }, sandbox)?;
    crash::point("left.committed");
    // A hook that fails or hangs after the commit does not undo the commit.
    let made = || Ok::<_, Error>(tree.head()?.commit.filter(|head| before.as_ref() != Some(head)));
    let mut commit = made()?;
    if commit.is_none() && !is_unsigned && tree.commits().cannot_sign() {
        why = run(&unsigned, None)?;
        commit = made()?;
    } else if commit.is_some()
        && sandbox.is_some()
        && git::unsigned().is_none()
        && tree.commits().signs_commits()?
    {
        run(&draft.clone().signing(), None)?;
        if made()? == commit {
            tree.commits().cannot_sign();
        }
        commit = made()?;
    }
    if let Some(head) = commit {
        tree.commits().restage(&head, left)?;
        return Ok(Some(Autocommit::Committed(head)));
    }
    tree.commits().drop_draft(&draft)?;
    Ok(Some(Autocommit::Refused(why)))
}

/// Runs the commit. Returns the reason for a failure, should it have failed.
fn run(
    workspace: &Workspace,
    guardians: &GuardianProgram,
    tree: &Repo,
    record: &AttemptRecord,
    (draft, sandbox): (&CommitDraft, Option<&Executor>),
) -> Result<String> {
    let limit = workspace.config.commit_timeout;
    let paths =
        workspace.state.scratch(&record.name()).context("create a temporary list of paths")?;
    fs::write(&paths, &draft.input).context("write a list of paths")?;
    let log = record.file(workspace, LOG);
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).context("create the attempt's folder")?;
    }
    let mut env = draft.env.clone();
    env.push(("RALPH_ATTEMPT_ID".to_owned(), record.mark()));
    let mut spec = ProcessSpec {
        argv: draft.argv.clone(),
        dir: tree.root().to_owned(),
        env,
        env_remove: draft.env_remove.clone(),
        stdin: paths.clone(),
        stdout: log.clone(),
        stderr: log.clone(),
    };
    if let Some(executor) = sandbox {
        let facts = ProcessFacts {
            mark: record.mark(),
            slot: spec.dir.clone(),
            base: record.base.clone(),
            task_dir: workspace.root().join(workspace.task_dir(&record.task_id)),
            record: workspace.state.attempt(&record.name()),
            agent: None,
            limit: Some(limit),
            resources: None,
        };
        match placement::placed(workspace, executor, &facts, spec) {
            Ok(placed) => spec = placed.spec,
            Err(fault) => return Ok(fault.to_string()),
        }
    }
    let file = workspace.state.attempt(&record.name());
    let spec = GuardianSpec::new(spec, file);
    let limits = (limit, workspace.config.grace);
    let outcome = process::run_guarded(guardians, &spec, limits, || true);
    let _ = fs::remove_file(&paths);
    record.unlock(tree);
    Ok(match outcome {
        Outcome::TimedOut { .. } => {
            let limit = crate::core::duration::short(limit);
            format!("the commit exceeded its limit of {limit} (`commit_timeout`)")
        }
        Outcome::NotStarted { error } => format!("git could not be started: {error}"),
        _ => match agent_output::last_lines(&log, LINES).unwrap_or_default() {
            lines if lines.is_empty() => "git commit failed without output".to_owned(),
            lines => lines.join(" / "),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_contents_are_a_change_but_staging_is_not() {
        let prints = |list: &[(&str, &str)]| {
            list.iter().map(|(path, print)| ((*path).to_owned(), (*print).to_owned())).collect()
        };
        let before = prints(&[("a", ".M 1 2.0 644"), ("b", "?? 1 2.0 644"), ("c", ".D gone")]);
        let now = prints(&[
            ("a", "M. 1 2.0 644"),
            ("b", "?? 2 3.0 644"),
            ("c", "D. gone"),
            ("d", "?? 1 2.0 644"),
        ]);
        assert_eq!(since(now, &before), ["b", "d"]);
    }
}
