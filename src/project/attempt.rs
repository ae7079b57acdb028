//! One attempt at one task, apart from its process: the record that is on disk before it starts,
//! the prompt, and the evidence it leaves.
//!
//! The same evidence is gathered for an attempt that ends before our eyes and for one that is
//! found after a crash.

pub mod leftovers;
mod open;
pub mod prompt_file;
pub mod scrutiny;

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use chrono::Utc;

use crate::{
    adapters::{git::Repo, state},
    core::{
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::History,
        prompt::{self, PromptContext},
        verdict::{Evidence, Report},
    },
    crash,
    project::{
        fatal,
        graph_file::{GraphFile, rfc3339},
        workspace::Workspace,
    },
};

pub use open::{AcceptanceCriteria, AttemptRecord, WorktreeAssignment};

/// The file in a task's folder that says done.
const DONE: &str = "DONE";
/// The file in a task's folder that says: waits for a person; what it asks is in it.
const WAIT: &str = "WAIT_WITHOUT_RESTART";
/// The file in a task's folder for the tasks that depend on it.
pub const NOTES: &str = "notes.md";
/// How many of the newest commits a prompt names.
const RECENT: usize = 10;
/// How much of the learnings file goes into a prompt, in bytes.
const LEARNINGS_TAIL: usize = 8 * 1024;
/// How much of a dependency's notes goes into a prompt, in bytes.
const NOTES_TAIL: usize = 4 * 1024;
/// How much of the output of a failed verify command goes into a prompt, in bytes.
const VERIFY_TAIL: usize = 6 * 1024;
/// Where the conflict is kept that an attempt's work met when it was to be merged, in its folder.
pub const CONFLICT: &str = "conflict.diff";
/// How much of a question is kept, in characters.
const QUESTION: usize = 2000;
/// How many leftover paths are put on record; a build folder that nobody ignored has thousands.
pub const LEFTOVERS: usize = 50;

/// What the names of the branches begin with on which attempts in work trees of their own work.
pub const BRANCHES: &str = "ralph";

/// The branch of a task's attempts that have a work tree to themselves.
pub fn branch_of(id: &TaskId) -> String {
    // Git has no branch with such an end; no id has a `+` in it.
    let barred = [".", ".lock"].iter().any(|end| id.as_str().ends_with(end));
    format!("{BRANCHES}/{id}{}", if barred { "+" } else { "" })
}

/// Renders the prompt of the next attempt at a task. Touches nothing.
///
/// # Errors
/// A template that cannot be rendered, drawn.
pub fn render(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    number: usize,
    max_attempts: u32,
) -> Result<String> {
    let context = context(workspace, graph, history, number, max_attempts)?;
    let name = graph.task(number).prompt.clone().unwrap_or_else(|| "task.md".to_owned());
    let root = workspace.root().to_owned();
    prompt::render(&name, move |name| Workspace::template(&root, name), &context)
        .map_err(|fault| fatal::unrenderable(&fault))
}

/// Everything the template of a task's next attempt can name.
///
/// # Errors
/// As git gives them.
pub fn context(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    number: usize,
    max_attempts: u32,
) -> Result<serde_json::Value> {
    let id = &graph.task(number).id;
    let root = workspace.root();
    let tail = |path: &Path, limit| {
        let text = fs::read(path).unwrap_or_default();
        prompt::tail(&String::from_utf8_lossy(&text), limit).trim().to_owned()
    };
    let notes = graph
        .dependencies(number)
        .map(|d| {
            let id = &graph.task(d).id;
            let path = root.join(workspace.task_dir(id)).join(NOTES);
            (id.to_string(), tail(&path, NOTES_TAIL))
        })
        .filter(|(_, notes)| !notes.is_empty())
        .collect();
    let last = history.of(id).last.as_ref();
    let red = last.and_then(|last| last.ended.evidence.red());
    let isolated = workspace.is_isolated();
    let said = |name: &str| {
        let path = format!("{}/{name}", workspace.task_dir(id));
        if isolated { root.join(path).display().to_string() } else { path }
    };
    let facts = PromptContext {
        verify: workspace.verify_of(graph.task(number)),
        verify_output: red.map_or_else(String::new, |red| tail(&root.join(&red.log), VERIFY_TAIL)),
        branch: if isolated { Some(branch_of(id)) } else { workspace.repo.head()?.branch },
        commits: workspace.repo.recent(RECENT)?,
        learnings: tail(&root.join(workspace.learnings()), LEARNINGS_TAIL),
        notes,
        attempt: history.of(id).attempts + 1,
        max_attempts,
        command: Workspace::own_command(),
        done_file: said(DONE),
        wait_file: said(WAIT),
        graph_path: workspace.graph_name(),
        learnings_path: workspace.learnings().to_owned(),
        isolated_from: isolated.then(|| root.display().to_string()),
        conflict: last.map_or_else(String::new, |last| {
            tail(&root.join(&last.ended.log).join(CONFLICT), VERIFY_TAIL)
        }),
    };
    Ok(prompt::context(graph, history, number, &facts))
}

/// Makes the attempt's folders, writes its prompt without the values of secrets, and puts the record
/// on disk: from here on a crash is found.
///
/// # Errors
/// As git or the disk gives them.
pub fn open(workspace: &Workspace, record: AttemptRecord, prompt: &str) -> Result<AttemptRecord> {
    let task_dir = workspace.root().join(workspace.task_dir(&record.task_id));
    fs::create_dir_all(&task_dir).with_context(|| format!("make `{}`", task_dir.display()))?;
    // What an earlier attempt reported or asked is not said by this one. A plain loop has looked for
    // `DONE` already; one that is there now is newer than that, and meant.
    for said in [DONE, WAIT].map(|name| task_dir.join(name)) {
        let is_meant = workspace.place.name().is_some() && said.ends_with(DONE);
        if said.is_file() && !is_meant {
            fs::remove_file(&said).with_context(|| format!("remove `{}`", said.display()))?;
        }
    }
    let folder = workspace.root().join(&record.log);
    fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    let path = folder.join("prompt.md");
    let clean = workspace.secrets().map(|secrets| secrets.without_shapes().text(prompt));
    let prompt = clean.as_deref().unwrap_or(prompt);
    fs::write(&path, prompt).with_context(|| format!("write `{}`", path.display()))?;
    crash::point("start.prepared");
    record.write(workspace)?;
    Ok(record)
}

/// The record of an attempt that is about to begin.
///
/// # Errors
/// As git gives them.
pub fn begin(
    workspace: &Workspace,
    run_id: &str,
    iteration: u32,
    id: &TaskId,
    attempt: u32,
) -> Result<AttemptRecord> {
    let tree = &workspace.repo;
    let head = tree.head()?;
    let dirty = changed(workspace, tree)?;
    let inherited = leftovers::inherited(workspace, tree, id, attempt, &dirty)?;
    Ok(AttemptRecord {
        run_id: run_id.to_owned(),
        task_id: id.clone(),
        attempt,
        iteration,
        started_at: Utc::now(),
        base: head.commit,
        branch: head.branch,
        dirty,
        inherited,
        worktree: None,
        log: workspace.place.attempt(id, attempt),
        terms: None,
        call: None,
        agent: None,
        guardian: None,
        pane: None,
        locks: tree.locks(),
        controls: Some(tree.controls()),
    })
}

/// The graph to go on with. Where the file cannot be read and an attempt that was cut off may have
/// done that, it is the one this attempt began with: closing the attempt puts it back.
///
/// # Errors
/// What is wrong with the file, drawn, with its exit code.
pub fn graph(workspace: &Workspace) -> Result<GraphFile> {
    let error = match workspace.graph() {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    let kept = workspace.kept_graph().filter(|file| {
        // The copy is of this attempt only if its claim is in it: the run may have been killed
        // before there was one.
        let claimed = |record: &AttemptRecord| {
            let task = file.graph().number(&record.task_id).map(|n| file.graph().task(n));
            let at = task.and_then(|task| task.claimed_at.as_deref());
            at == Some(&rfc3339(record.started_at))
        };
        workspace.state.peek::<AttemptRecord>().iter().any(claimed)
    });
    kept.ok_or(error)
}

/// The file that says that a task is done.
pub fn done_file(workspace: &Workspace, id: &TaskId) -> PathBuf {
    workspace.root().join(workspace.task_dir(id)).join(DONE)
}

/// How the attempt said that its task is done, if it did. `by_command` is a report by
/// `ralph task-complete`, `status` what the graph file says of the task now.
pub fn report(
    workspace: &Workspace,
    record: &AttemptRecord,
    by_command: bool,
    status: Option<Status>,
) -> Option<Report> {
    if by_command {
        Some(Report::Command)
    } else if record.said(workspace, DONE).is_file() {
        Some(Report::DoneFile)
    } else {
        (status == Some(Status::Complete)).then_some(Report::Graph)
    }
}

/// What the repository shows of an attempt, all its leftovers included.
///
/// # Errors
/// As git gives them.
pub fn evidence(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    report: Option<Report>,
) -> Result<Evidence> {
    let head = tree.head()?;
    let since = tree.since(record.base.as_deref())?;
    let strayed = if let Some(what) = tree.unfinished() {
        // A commit of what is left would be taken for its end.
        Some(format!("{what} is left half-way"))
    } else if head.branch != record.branch {
        let name = |branch: &Option<String>| match branch {
            Some(branch) => format!("`{branch}`"),
            None => "a detached HEAD".to_owned(),
        };
        Some(format!("it moved from {} to {}", name(&record.branch), name(&head.branch)))
    } else if !since.descends {
        Some("it rewrote the history: HEAD does not descend from where it began".to_owned())
    } else {
        None
    };
    Ok(Evidence {
        report,
        commits: since.commits,
        diff: since.diff,
        leftovers: leftovers::left(workspace, tree, record)?,
        strayed,
        question: question(&record.said(workspace, WAIT)),
        ..Evidence::default()
    })
}

/// What can be said of an attempt whose work tree is not there any more.
pub fn evidence_of_nothing(record: &AttemptRecord, report: Option<Report>) -> Evidence {
    let tree = record.worktree.as_ref().map(|worktree| worktree.tree.display().to_string());
    let strayed = format!("its work tree `{}` is gone", tree.unwrap_or_default());
    Evidence { report, strayed: Some(strayed), ..Evidence::default() }
}

/// Puts a question to a person into the task's folder, behind those that are there.
///
/// # Errors
/// More questions than can be shown; as the disk gives them.
pub fn ask(workspace: &Workspace, id: &TaskId, text: &str) -> Result<()> {
    let folder = workspace.root().join(workspace.task_dir(id));
    let path = folder.join(WAIT);
    let asked = question(&path).filter(|asked| !asked.is_empty());
    let whole = asked.map_or_else(|| text.to_owned(), |asked| format!("{asked}\n\n{text}"));
    let length = whole.chars().count();
    ensure!(
        length <= QUESTION,
        "what an attempt asks may have {QUESTION} characters in all, and this makes {length}; put \
         the rest into a file and name it"
    );
    fs::create_dir_all(&folder).with_context(|| format!("make `{}`", folder.display()))?;
    state::replace(&path, (whole + "\n").as_bytes(), workspace.durable())
        .with_context(|| format!("write `{}`", path.display()))
}

/// What the file in which an agent says that it waits for a person has in it; none without one.
fn question(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = Vec::new();
    // Four bytes are the most that a character takes. What cannot be read was written all the same.
    let file = fs::File::open(path).map(|file| file.take(4 * QUESTION as u64));
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    Some(String::from_utf8_lossy(&text).trim().chars().take(QUESTION).collect())
}

/// What is changed and not committed in a work tree, without the files that `ralph` writes itself: path ->
/// fingerprint.
///
/// # Errors
/// As git gives them.
pub fn changed(workspace: &Workspace, tree: &Repo) -> Result<BTreeMap<String, String>> {
    let mut dirty = tree.dirty()?;
    dirty.retain(|path, _| !workspace.is_own(path));
    Ok(dirty)
}
