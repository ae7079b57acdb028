//! One attempt at one task, without its process: the record that is on disk before it starts, the
//! prompt, and the evidence it leaves.
//!
//! The same evidence is collected for an attempt that ends normally and for one found after a
//! crash.

mod criteria;
pub mod leftovers;
mod open;
mod reports;
pub mod scrutiny;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    path::Path,
};

use anyhow::{Context, Result};
use chrono::Utc;
use serde_json::json;

use crate::{
    adapters::git::{Head, Repo},
    core::{
        agents::agent_command::AgentCommand,
        executor::{Executor, FileTravel},
        exit::{self, Exit},
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::History,
        loop_paths::{self, DONE, NOTES, WAIT},
        prompt::{self, PromptContext},
        reviewer::ReviewFinding,
        run::command::FollowUp,
        verdict::{Evidence, Merge, Report},
    },
    crash,
    project::{
        executors, failure_output, fatal,
        graph_file::{GraphFile, rfc3339},
        workspace::{self, Workspace, checkout_graph},
    },
    regular_file,
};

pub use criteria::AcceptanceCriteria;
pub use open::{AttemptRecord, SlotAssignment};
pub use reports::{QUESTION, clear_reports, done_file, loop_prompt, new_folder, read_prompt};

/// The number of recent commits in a prompt.
const RECENT: usize = 10;
/// The size limit of the learnings in a prompt, in bytes.
const LEARNINGS_TAIL: usize = 8 * 1024;
/// The size limit of a dependency's notes in a prompt, in bytes.
const NOTES_TAIL: usize = 4 * 1024;
/// The size limit of a failed verify command's output in a prompt, in bytes.
const VERIFY_TAIL: usize = 6 * 1024;
/// The size limit of the standard error of a failed attempt in a prompt, in bytes.
const ERRORS_TAIL: usize = 2 * 1024;
/// The file in an attempt's folder with the conflict that its work caused when it was about to
/// land.
pub const CONFLICT: &str = "conflict.diff";
/// The number of leftover paths that are recorded; a build folder that is not ignored has
/// thousands.
pub const LEFTOVERS: usize = 50;

/// The first part of the branch names of isolated attempts.
pub const BRANCHES: &str = "ralph";

/// Returns the branch of a task's isolated attempts.
pub fn branch_of(id: &TaskId) -> String {
    // Git rejects branch names with these endings. A `+` cannot clash, because no id contains one.
    let barred = [".", ".lock"].iter().any(|end| id.as_str().ends_with(end));
    format!("{BRANCHES}/{id}{}", if barred { "+" } else { "" })
}

/// A run's decisions about the next attempt at a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptPlace<'a> {
    /// The executor that replaces the task's.
    pub run_on: Option<&'a str>,
    /// Its own folder; the folder of the task before it has one.
    pub folder: Option<&'a str>,
}

/// Renders the prompt of the next attempt at a task, for this agent. Changes nothing on disk.
///
/// # Errors
/// The template cannot be rendered; the error shows where.
pub fn render(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    number: usize,
    max_attempts: u32,
    agent: Option<&AgentCommand>,
    place: AttemptPlace<'_>,
) -> Result<String> {
    let context = context(workspace, graph, history, number, max_attempts, agent, place)?;
    let name = graph.task(number).prompt.clone().unwrap_or_else(|| "task.md".to_owned());
    rendered(workspace, &name, &context)
}

/// Renders a template of the project, or the built-in one of this name.
///
/// # Errors
/// It cannot be rendered; the error shows where.
pub fn rendered(workspace: &Workspace, name: &str, context: &serde_json::Value) -> Result<String> {
    let root = workspace.root().to_owned();
    prompt::render(name, move |name| workspace::template(&root, name), context)
        .map_err(|fault| fatal::unrenderable(&fault))
}

/// Returns the template context of a task's next attempt with this agent.
///
/// # Errors
/// Errors of git.
pub fn context(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    number: usize,
    max_attempts: u32,
    agent: Option<&AgentCommand>,
    place: AttemptPlace<'_>,
) -> Result<serde_json::Value> {
    let id = &graph.task(number).id;
    let root = workspace.root();
    let tail = |path: &Path, limit| tail(root, path, limit);
    // The work of a dependency may have landed before the end of its attempt is recorded.
    let open = workspace.state.peek::<AttemptRecord>();
    let notes = graph
        .dependencies(number)
        .map(|d| {
            let id = &graph.task(d).id;
            let record = open.iter().find(|record| record.task_id == *id);
            let folder = record.map_or_else(|| workspace.task_dir(id), |it| it.folder(workspace));
            (id.to_string(), tail(&root.join(folder).join(NOTES), NOTES_TAIL))
        })
        .filter(|(_, notes)| !notes.is_empty())
        .collect();
    let last = history.of(id).last.as_ref();
    let red = last.and_then(|last| last.ended.evidence.red());
    let isolated = workspace.config.is_isolated();
    let run_on = executors::name_of(&workspace.config, graph.task(number), place.run_on);
    let executor = executors::find(&workspace.config, Some(run_on)).ok();
    let files = executor.as_ref().and_then(Executor::files);
    // Behind a worker, the folder of the task is in the slot.
    let is_behind_worker = files.is_some();
    let is_sent = files == Some(FileTravel::Sent);
    let folder = place.folder.map_or_else(|| workspace.task_dir(id), str::to_owned);
    let report_path = |name: &str| {
        let path = format!("{folder}/{name}");
        if isolated && !is_behind_worker { root.join(path).display().to_string() } else { path }
    };
    let facts = PromptContext {
        verify: workspace.verify_of(graph.task(number)),
        folder: graph.task(number).folder(|path| root.join(path).is_dir()),
        verify_output: red.map_or_else(String::new, |red| tail(&root.join(&red.log), VERIFY_TAIL)),
        branch: if isolated { Some(branch_of(id)) } else { workspace.repo.branch_in_use()? },
        commits: workspace.repo.recent(RECENT)?,
        learnings: tail(&root.join(loop_paths::LEARNINGS), LEARNINGS_TAIL),
        notes,
        attempt: history.of(id).attempts + 1,
        max_attempts,
        // A worker has its own program under this name.
        command: if files.is_some() { "ralph".to_owned() } else { workspace::own_command() },
        done_file: report_path(DONE),
        reopened_output: history.of(id).reopening().map_or_else(String::new, |reopened| {
            tail(&root.join(&reopened.red.check.log), VERIFY_TAIL)
        }),
        wait_file: report_path(WAIT),
        edits_only: agent.is_some_and(AgentCommand::edits_only),
        graph_path: workspace.graph_name(),
        learnings_path: loop_paths::LEARNINGS.to_owned(),
        isolated_from: (isolated && !is_sent).then(|| root.display().to_string()),
        errors: last.map_or_else(String::new, |last| {
            failure_output::errors(root, &last.ended, ERRORS_TAIL)
        }),
        conflict: last.map_or_else(String::new, |last| {
            tail(&root.join(&last.ended.log).join(CONFLICT), VERIFY_TAIL)
        }),
    };
    Ok(prompt::context(graph, history, number, &facts))
}

/// The end of a file of the repository as text, at most `limit` bytes; empty if it cannot be read.
fn tail(root: &Path, path: &Path, limit: usize) -> String {
    let mut text = Vec::new();
    let file = regular_file::open_within(root, path).map(|file| file.take(regular_file::LARGEST));
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    prompt::tail(&String::from_utf8_lossy(&text), limit).trim().to_owned()
}

/// Writes another prompt for the agent of an attempt in its conversation.
///
/// # Errors
/// The template cannot be rendered; errors of the disk.
pub fn write_follow_up(
    workspace: &Workspace,
    record: &AttemptRecord,
    next: &FollowUp,
) -> Result<()> {
    let root = workspace.root();
    let output = next.log.as_ref().map(|log| tail(root, &root.join(log), VERIFY_TAIL));
    let context = json!({
        "task": { "id": record.task_id },
        "why": next.why,
        "output": output,
        "findings": next.findings.iter().map(ReviewFinding::line).collect::<Vec<_>>(),
        "report": {
            "command": workspace::own_command(),
            "done_file": root.join(record.folder(workspace)).join(DONE),
        },
    });
    let prompt = rendered(workspace, "follow-up.md", &context)?;
    write_prompt(workspace, record, &follow_up_prompt(next.number), &prompt)
}

/// The name of the file with another prompt.
pub fn follow_up_prompt(number: usize) -> String {
    format!("follow-up-{number}.md")
}

/// Writes a prompt without secret values.
///
/// # Errors
/// Errors of the disk.
pub fn write_prompt(
    workspace: &Workspace,
    record: &AttemptRecord,
    name: &str,
    prompt: &str,
) -> Result<()> {
    let path = record.file(workspace, name);
    let prompt = workspace.secrets().without_shapes().text(prompt);
    regular_file::write(&path, prompt.as_bytes())
        .with_context(|| format!("write `{}`", path.display()))
}

/// Creates the attempt's folders, writes its prompt without secret values, and writes the record to
/// disk. From here on, a crash is recoverable.
///
/// # Errors
/// Errors of git and of the disk.
pub fn open(workspace: &Workspace, record: AttemptRecord, prompt: &str) -> Result<AttemptRecord> {
    let own = workspace.root().join(record.folder(workspace));
    fs::create_dir_all(&own).with_context(|| format!("create `{}`", own.display()))?;
    let folder = workspace.root().join(&record.log);
    fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
    write_prompt(workspace, &record, "prompt.md", prompt)?;
    crash::point("start.prepared");
    record.write(workspace)?;
    record.take_files(workspace)?;
    Ok(record)
}

/// Returns the record of an attempt that is about to start, without the place where it works.
pub fn begin(
    workspace: &Workspace,
    run_id: &str,
    iteration: u32,
    id: &TaskId,
    attempt: u32,
    folder: String,
) -> AttemptRecord {
    AttemptRecord {
        run_id: run_id.to_owned(),
        task_id: id.clone(),
        attempt,
        iteration,
        started_at: Utc::now(),
        base: None,
        started_from: None,
        branch: None,
        dirty: BTreeMap::new(),
        left: None,
        end_head: None,
        asks: 0,
        inherited: BTreeSet::new(),
        marked: Vec::new(),
        slot: None,
        run_on: None,
        log: workspace.place.attempt(id, attempt),
        folder: Some(folder),
        terms: None,
        call: None,
        agent: None,
        guardian: None,
        terminal: false,
        noted: 0,
        status_word: None,
        locks: Vec::new(),
        controls: None,
        refused: None,
        found: None,
    }
}

/// Returns the record of an attempt that works in the checkout, as the checkout is now.
///
/// # Errors
/// Errors of git.
pub fn in_checkout(workspace: &Workspace, record: AttemptRecord) -> Result<AttemptRecord> {
    let tree = &workspace.repo;
    let head = tree.head()?;
    let branch = tree.branch_in_use()?;
    let base = match &branch {
        // An attempt before has left a rebase unfinished.
        Some(name) if branch != head.branch => tree.branch(name)?,
        _ => head.commit,
    };
    let dirty = changed(workspace, tree)?;
    let (id, attempt) = (&record.task_id, record.attempt);
    let inherited = leftovers::inherited(workspace, tree, id, attempt, &dirty)?;
    let (locks, controls) = (tree.locks(), Some(tree.local().controls()));
    Ok(AttemptRecord { base, branch, dirty, inherited, locks, controls, ..record })
}

/// Returns the graph to continue with. If the file is unreadable and an interrupted attempt may
/// have caused that, returns the graph from the start of that attempt: closing the attempt restores
/// it.
///
/// # Errors
/// The file is invalid; the error shows where and has its own exit code.
pub fn graph(workspace: &Workspace) -> Result<GraphFile> {
    let error = match checkout_graph(workspace) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    let records = workspace.state.peek::<AttemptRecord>();
    records.iter().find_map(|record| kept_graph(workspace, record)).ok_or(error)
}

/// Returns the graph at the start of an attempt, as if the file still had that text. None if the
/// copy belongs to another attempt: the run may have been killed before it made a new one.
pub fn kept_graph(workspace: &Workspace, record: &AttemptRecord) -> Option<GraphFile> {
    workspace.kept_graph().filter(|file| {
        let task = file.graph().number(&record.task_id).map(|n| file.graph().task(n));
        let at = task.and_then(|task| task.claimed_at.as_deref());
        at == Some(&rfc3339(record.started_at))
    })
}

/// Returns how the attempt reported its task done, if it did. `status` is the current status of the
/// task in the graph file.
pub fn report(
    workspace: &Workspace,
    record: &AttemptRecord,
    status: Option<Status>,
) -> Option<Report> {
    if record.has_done_file(workspace) {
        Some(Report::DoneFile)
    } else {
        (status == Some(Status::Complete)).then_some(Report::Graph)
    }
}

/// Returns the evidence of an attempt in the repository, with all its leftovers.
///
/// # Errors
/// Errors of git.
pub fn evidence(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    report: Option<Report>,
) -> Result<Evidence> {
    let head = tree.head()?;
    if let (Some(slot), Some(commit)) = (&record.slot, &head.commit)
        && head.commit != record.base
    {
        // Read in the repository, where its objects are checked: git may not be able to read others.
        let name = record.pin(&workspace.place);
        match workspace.repo.slots().bring_home(tree, commit, &name) {
            Err(error) if exit::of_error(&error) != Exit::Disk => {
                let (branch, why) = (slot.target.clone(), format!("{error:#}"));
                let merge = Some(Merge::Refused { branch, why });
                return Ok(Evidence { report, merge, ..Evidence::default() });
            }
            other => other?,
        }
    }
    let mut since = tree.since(record.base.as_deref())?;
    // Graph changes by an isolated attempt do not land with its work.
    if let (Some(_), Some(base), Some(head), Some(path)) =
        (&record.slot, &record.base, &head.commit, workspace.graph_in_git())
        && let Some(all) = since.diff.filter(|all| all.files > 1)
        && tree.file_at(base, &path)? != tree.file_at(head, &path)?
    {
        since.diff =
            Some(tree.diff(base, head, Some(&path))?).filter(|it| it.files > 0).or(Some(all));
    }
    let strayed = strayed(tree, record, &head, since.descends)?;
    let began = record.started_at.timestamp();
    let mut apart = tree.pins().apart(record.base.as_deref(), began)?;
    if let (Some(_), Some(base), []) = (&record.slot, &record.base, &since.commits[..]) {
        // An agent that goes by the absolute paths of its task works in the checkout.
        apart.extend(workspace.repo.pins().made_here(base, began)?);
    }
    let pushes = tree.slot().tried_pushes().into_iter().map(|name| format!("push of {name}"));
    let mut made = tree.made_refs(began)?;
    made.retain(|name| !apart.iter().any(|it| *name == format!("branch {}", it.branch)));
    let pulled = match (&record.started_from, &record.base) {
        (Some(from), Some(base)) => tree.between(from, base)?,
        _ => Vec::new(),
    };
    made.extend(leftovers::left_out(workspace, tree, record)?);
    let leftovers = leftovers::left(workspace, tree, record)?;
    let is_idle = record.slot.is_some() && since.commits.is_empty() && leftovers.is_empty();
    let touched = if is_idle { leftovers::in_checkout(workspace, record)? } else { Vec::new() };
    Ok(Evidence {
        report,
        commits: since.commits,
        diff: since.diff,
        apart,
        tried: pushes.chain(made).collect(),
        pulled,
        leftovers,
        touched,
        strayed,
        refused: record.refused.clone().filter(|_| report.is_none()),
        question: reports::question(&record.report_file(workspace, WAIT)),
        done_folder: (report.is_none() && record.report_file(workspace, DONE).is_dir())
            .then(|| format!("{}/{DONE}", workspace.task_dir(&record.task_id))),
        ..Evidence::default()
    })
}

/// Returns why the checked-out work cannot land as that of an attempt, if so.
fn strayed(
    tree: &Repo,
    record: &AttemptRecord,
    head: &Head,
    descends: bool,
) -> Result<Option<String>> {
    Ok(if let Some(what) = tree.unfinished() {
        // A commit of the leftovers would conclude the unfinished operation.
        Some(format!("{what} is unfinished"))
    } else if head.branch != record.branch {
        let name = |branch: &Option<String>| match branch {
            Some(branch) => format!("`{branch}`"),
            None => "a detached HEAD".to_owned(),
        };
        Some(format!("it moved from {} to {}", name(&record.branch), name(&head.branch)))
    } else if !descends {
        Some("it rewrote the history: HEAD does not descend from its base".to_owned())
    } else if let (Some(base), Some(commit)) = (&record.base, &head.commit)
        && let Some(path) = tree.nested_repository(base, commit)?
    {
        Some(format!(
            "it committed the repository `{path}` as a link, whose commits no one else has; remove \
             `{path}/.git` and add the files, or make it a submodule"
        ))
    } else {
        None
    })
}

/// Returns the evidence of an attempt whose slot no longer exists, or cannot be read because of this
/// error. Work that has landed is in the repository.
///
/// # Errors
/// Errors of git.
pub fn evidence_of_nothing(
    workspace: &Workspace,
    record: &AttemptRecord,
    report: Option<Report>,
    error: &anyhow::Error,
) -> Result<Evidence> {
    if let (Some(_), Some(base)) = (record.has_landed(workspace)?, &record.base) {
        let name = record.pin(&workspace.place);
        let home = workspace.repo.commit_of(&name)?;
        let commits = home.map(|home| workspace.repo.between(base, &home)).transpose()?;
        let commits = commits.unwrap_or_default();
        return Ok(Evidence { report, commits, ..Evidence::default() });
    }
    let path = record.slot.as_ref().map(|slot| slot.path.clone()).unwrap_or_default();
    let slot = path.display();
    let strayed = if path.exists() {
        format!("its slot is damaged: {error:#}")
    } else {
        format!("its slot `{slot}` no longer exists")
    };
    Ok(Evidence { report, strayed: Some(strayed), ..Evidence::default() })
}

/// Returns the uncommitted changes in a slot, without the files that `ralph` writes: path ->
/// fingerprint.
///
/// # Errors
/// Errors of git.
pub fn changed(workspace: &Workspace, tree: &Repo) -> Result<BTreeMap<String, String>> {
    let mut dirty = tree.dirty()?;
    dirty.retain(|path, _| !workspace.is_own(path));
    Ok(dirty)
}
