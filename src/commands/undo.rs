//! `ralph undo`: takes back a change of the graph that a command made.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    Invocation, success,
    task_editor::{TaskEditor, usage},
};
use crate::{
    adapters::terminal,
    cli::UndoArgs,
    core::{
        event::RequestEvent,
        exit::{Exit, Failure, fail},
        graph::{
            merge::{Conflict, Texts, merge},
            task::{Status, TaskId},
            task_edit::{TaskDifference, differences, remove},
        },
        history::attempt_log::LogDetail,
    },
    project::{
        follower::{BUSY, Followed, Follower},
        graph_change::{self, DIAGNOSE, KeptChange, KeptChanges, remove_new_file},
        graph_file::{GraphFile, read_graph},
        workspace::{checkout_graph, landing_branch},
    },
    view::{lines::full, waits::WaitingWorkView},
};

/// How many tasks of a change are named.
const NAMED: usize = 3;
/// How many tasks of an undone change are shown.
const SHOWN: usize = 20;

/// A change as `--list --json` prints it.
#[derive(Serialize)]
struct ListedChange<'a> {
    #[serde(flatten)]
    change: &'a KeptChange,
    /// Why it cannot be taken back now, if it cannot.
    refused: Option<String>,
}

/// Takes back a change, or lists the changes.
///
/// # Errors
/// There is no such change, or it cannot be taken back; inside an attempt.
pub fn run(invocation: &Invocation, options: &UndoArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "undo")?;
    let kept = KeptChanges::of(&editor.workspace.state);
    let changes = kept.list(editor.workspace.graph_path());
    if options.list {
        return list(&editor, &kept, &changes, options.json);
    }
    let found = match options.number {
        None => changes.first(),
        Some(number) => changes.iter().find(|change| change.number == number),
    };
    let Some(change) = found else {
        return match options.number {
            Some(number) if !changes.is_empty() => {
                usage(format!("no change {number}; `ralph undo --list` lists the changes"))
            }
            _ => fail(Exit::Error, nothing_to_undo(&editor)),
        };
    };
    take_back(&mut editor, &kept, change)?;
    Ok(Exit::Success)
}

/// Says that there is no change to take back; and what undoes a take-back, which is made of commits.
fn nothing_to_undo(editor: &TaskEditor) -> String {
    let mut commits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in editor.file.graph().tasks().iter().map(|task| &task.id) {
        if let Some(commit) = &editor.store.history().of(id).taken_back {
            commits.entry(commit.short()).or_default().push(id.as_str());
        }
    }
    let nothing =
        "nothing to undo: no command has changed the graph, or all its changes were taken back";
    commits.into_iter().fold(nothing.to_owned(), |why, (commit, ids)| {
        let ids = ids.join(" ");
        why + &format!(
            "; `ralph take-back {ids}` made commits, up to {commit}: `git revert` of these undoes it"
        )
    })
}

fn take_back(editor: &mut TaskEditor, kept: &KeptChanges, change: &KeptChange) -> Result<()> {
    let texts = kept.texts(change).context("read the copies of the graph")?;
    if let Some(why) = never(editor, change, &texts)? {
        return Err(refused(change, &why));
    }
    let name = editor.file.name().to_owned();
    if change.command == DIAGNOSE {
        follow_tip(editor, change, &texts)?;
    }
    if change.created && editor.file.text() == texts.1 {
        return remove_file(editor, kept, change, &texts);
    }
    let edit = |file: &GraphFile| match reversed(change, file.text(), &texts, &name) {
        Ok(text) => Ok(Some(text)),
        Err(why) => Err(refused(change, &why)),
    };
    let before = editor.change_text(None, edit)?;
    kept.remove(change.number).context("remove the copies of the graph")?;
    let Some(before) = before else {
        let line = format!("`{name}` no longer has the change of `{}`", title(change));
        terminal::print(&format!("{line}; there is nothing to take back\n"))?;
        return Ok(());
    };
    let found = differences(&before, editor.file.text(), &change.tasks);
    record(editor, change, &found)
}

/// Brings a change that a run committed to the checkout, if that does not have it yet.
fn follow_tip(
    editor: &mut TaskEditor,
    change: &KeptChange,
    texts: &(String, String),
) -> Result<()> {
    let workspace = &editor.workspace;
    let lacks =
        |text: &str| reversed(change, text, texts, editor.file.name()).is_ok_and(|it| it == text);
    let branch = landing_branch(workspace)?.filter(|_| lacks(editor.file.text()));
    let Some(branch) = branch else { return Ok(()) };
    let tip = workspace.repo.landings().tip(&branch)?;
    let landed = tip.map(|tip| workspace.committed_text(&tip.commit)).transpose()?.flatten();
    if landed.is_none_or(|landed| lacks(&landed)) {
        return Ok(());
    }
    if workspace.repo.head()?.branch.as_ref() != Some(&branch) {
        let why = format!("it is on `{branch}`; `git switch` to that branch, and undo it there");
        return Err(refused(change, &why));
    }
    if let Followed::Waits(waiting) = Follower::of(workspace, &branch).follow(BUSY)? {
        let waiting = WaitingWorkView::of(&waiting);
        let why = format!("{}; {}; then undo it", waiting.text(), waiting.cure());
        return Err(refused(change, &why));
    }
    editor.file = checkout_graph(workspace)?;
    Ok(())
}

/// Removes the graph file that a change created, if it is still as it was then.
fn remove_file(
    editor: &mut TaskEditor,
    kept: &KeptChanges,
    change: &KeptChange,
    (empty, after): &(String, String),
) -> Result<()> {
    let name = editor.file.name().to_owned();
    remove_new_file(&editor.workspace, after)?;
    kept.remove(change.number).context("remove the copies of the graph")?;
    record(editor, change, &differences(after, empty, &change.tasks))?;
    terminal::print(&format!("removed `{name}`, which this command created\n"))?;
    Ok(())
}

/// Records what an undone change was, and shows it.
fn record(editor: &mut TaskEditor, change: &KeptChange, found: &[TaskDifference]) -> Result<()> {
    graph_change::record(&mut editor.store, "undo", found)?;
    if let Some(id) = change.tasks.first().filter(|_| change.command == DIAGNOSE) {
        editor.store.emit(None, Some(id), RequestEvent::DiagnosisUndone {})?;
    }
    for TaskDifference { id, old, new, .. } in found {
        // Otherwise the commit that completed it counts again.
        if *old == Some(Status::Complete) && new.is_some_and(|new| new != Status::Complete) {
            editor.store.emit(None, Some(id), RequestEvent::Reset {})?;
        }
    }
    terminal::print(&format!("took back `{}`\n", title(change)))?;
    for one in found.iter().take(SHOWN) {
        terminal::print(&format!("  {}\n", line(one)))?;
    }
    if let Some(more) = found.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        terminal::print(&format!("  and {more} more\n"))?;
    }
    Ok(())
}

/// Why a change cannot be taken back, whatever the file contains.
fn never(
    editor: &TaskEditor,
    change: &KeptChange,
    (before, after): &(String, String),
) -> Result<Option<String>> {
    if let Some(why) = &change.final_because {
        return Ok(Some(why.clone()));
    }
    let log = editor.workspace.attempt_log(LogDetail::Results)?;
    for one in differences(before, after, &change.tasks) {
        // The place of a task is nothing that an attempt works with.
        if one.old == one.new && one.fields.iter().all(|field| field == "place") {
            continue;
        }
        let is_open = editor.store.history().active.of(&one.id).is_some();
        let later = log.of(Some(&one.id)).find(|entry| entry.started_at >= change.at);
        if let Some(entry) = later {
            return Ok(Some(format!("attempt {} has worked on `{}` since", entry.attempt, one.id)));
        }
        if is_open {
            return Ok(Some(format!("an attempt at `{}` is running", one.id)));
        }
        let graph = editor.file.graph();
        let completed = graph.number(&one.id).filter(|_| one.new == Some(Status::Complete));
        if let Some(number) = completed {
            let mut dependents = graph.dependents(number).map(|at| &graph.task(at).id);
            let began = |id: &&TaskId| log.of(Some(id)).any(|it| it.started_at >= change.at);
            if let Some(other) = dependents.find(began) {
                let why = format!("`{other}`, which depends on `{}`, was attempted since", one.id);
                return Ok(Some(why));
            }
        }
    }
    Ok(None)
}

/// The text without a change, or why there is none.
fn reversed(
    change: &KeptChange,
    text: &str,
    (before, after): &(String, String),
    name: &str,
) -> Result<String, String> {
    if change.created {
        return without_tasks(change, text, after, name);
    }
    let merged = merge(Texts { base: after, ours: text, theirs: before }).map_err(|refused| {
        let place = refused.place.unwrap_or_else(|| format!("the layout of `{name}`"));
        format!("{place} changed since")
    })?;
    if !merged.conflicts.is_empty() {
        let places: Vec<String> = merged.conflicts.iter().map(Conflict::place).collect();
        return Err(format!("{} changed since", places.join(", ")));
    }
    checked(text, merged.text, name)
}

/// The text without the tasks of the change that created the file.
fn without_tasks(
    change: &KeptChange,
    text: &str,
    after: &str,
    name: &str,
) -> Result<String, String> {
    let mut gone = Vec::new();
    for one in differences(after, text, &[]).into_iter().filter(|one| one.old.is_some()) {
        if one.new.is_some() {
            return Err(format!("task `{}` changed since", one.id));
        }
        gone.push(one.id);
    }
    let ids: Vec<TaskId> = change.tasks.iter().filter(|id| !gone.contains(id)).cloned().collect();
    if let Some(why) = needed_of(text, &ids) {
        return Err(why);
    }
    let text = &remove(text, &ids).map_err(|why| why.reason)?;
    checked(text, text.clone(), name)
}

/// The text of a graph that can be read, or why it cannot.
fn checked(text: &str, found: String, name: &str) -> Result<String, String> {
    match read_graph(name, &found) {
        Ok(_) => Ok(found),
        Err(why) => Err(needed(text, &found).unwrap_or(why)),
    }
}

/// The task that depends on one which would be removed.
fn needed(text: &str, without: &str) -> Option<String> {
    let removed = differences(text, without, &[]).into_iter().filter(|one| one.new.is_none());
    needed_of(text, &removed.map(|one| one.id).collect::<Vec<_>>())
}

fn needed_of(text: &str, removed: &[TaskId]) -> Option<String> {
    let file = GraphFile::assume("".as_ref(), "", false, false, text).ok()?;
    let graph = file.graph();
    for id in removed {
        let dependents = graph.dependents(graph.number(id)?).map(|at| &graph.task(at).id);
        if let Some(other) = dependents.into_iter().find(|other| !removed.contains(other)) {
            return Some(format!("`{other}` depends on `{id}` by now"));
        }
    }
    None
}

fn refused(change: &KeptChange, why: &str) -> anyhow::Error {
    let message = format!("cannot take back `{}` (change {}): {why}", title(change), change.number);
    Failure::new(Exit::Error, message).into()
}

/// The command with its tasks.
fn title(change: &KeptChange) -> String {
    let mut words = vec![change.command.clone()];
    words.extend(change.tasks.iter().take(NAMED).map(TaskId::to_string));
    if change.tasks.len() > NAMED {
        words.push("…".to_owned());
    }
    words.join(" ")
}

/// A difference in words.
fn line(one: &TaskDifference) -> String {
    let mut what = match (one.old, one.new) {
        (None, _) => vec!["added".to_owned()],
        (_, None) => vec!["removed".to_owned()],
        (Some(old), Some(new)) if old != new => vec![format!("{old} -> {new}")],
        _ => Vec::new(),
    };
    if !one.fields.is_empty() {
        what.push(format!("{} changed", one.fields.join(", ")));
    }
    format!("{}: {}", one.id, what.join("; "))
}

fn list(
    editor: &TaskEditor,
    kept: &KeptChanges,
    changes: &[KeptChange],
    as_json: bool,
) -> Result<Exit> {
    let listed = |change| -> Result<ListedChange<'_>> {
        let texts = kept.texts(change).context("read the copies of the graph")?;
        let refused = match never(editor, change, &texts)? {
            Some(why) => Some(why),
            None => reversed(change, editor.file.text(), &texts, editor.file.name()).err(),
        };
        Ok(ListedChange { change, refused })
    };
    let listed = changes.iter().map(listed).collect::<Result<Vec<_>>>()?;
    let text = if as_json {
        terminal::json(&listed)
    } else if listed.is_empty() {
        "no change to take back\n".to_owned()
    } else {
        let row = |ListedChange { change, .. }: &ListedChange<'_>| {
            [change.number.to_string(), full(change.at), title(change)]
        };
        let table = terminal::table(["number", "when", "change"], listed.iter().map(row));
        let whys = std::iter::once(None).chain(listed.iter().map(|one| one.refused.as_ref()));
        let mut lines = Vec::new();
        for (line, why) in table.lines().zip(whys) {
            lines.push(line.to_owned());
            lines.extend(why.map(|why| format!("        not now: {}", terminal::visible(why))));
        }
        let width = terminal::stdout_width().unwrap_or(usize::MAX);
        lines.iter().flat_map(|line| [terminal::fit(line, width), "\n".into()]).collect()
    };
    success(&text)
}
