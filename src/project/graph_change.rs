//! Changes of the graph file by a person's command: checked, kept for `ralph undo`, and recorded.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::state::{self, StateFolder},
    core::{
        event::{Cause, GraphEvent},
        graph::{
            task::TaskId,
            task_edit::{TaskDifference, differences, remove},
        },
    },
    project::{
        event_store::EventStore,
        graph_file::{GraphFile, Rejected, graph_of},
        workspace::{self, Workspace},
    },
    regular_file,
};

/// The name of a change that a diagnosis made, among those of commands.
pub const DIAGNOSE: &str = "diagnose";

/// A command that changes the graph file, as it is kept and recorded.
#[derive(Clone, Copy, Debug)]
pub struct ChangeCommand<'a> {
    /// The name of the command.
    pub name: &'a str,
    /// The tasks that it is about; none for those that it adds.
    pub about: &'a [TaskId],
    /// Why the change cannot be taken back, if it cannot.
    pub final_because: Option<&'a str>,
}

impl<'a> ChangeCommand<'a> {
    /// A command whose change can be taken back.
    pub fn of(name: &'a str, about: &'a [TaskId]) -> ChangeCommand<'a> {
        ChangeCommand { name, about, final_because: None }
    }
}

/// Changes the graph file without a record in the journal; keeps the change if a command is given.
/// Returns the text before; none if nothing changed.
///
/// # Errors
/// The error of the edit; an edit that makes the graph invalid. Errors of the disk.
pub fn change_text(
    workspace: &Workspace,
    file: &mut GraphFile,
    command: Option<&ChangeCommand<'_>>,
    edit: impl Fn(&GraphFile) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let keep = |before: &GraphFile, after: &GraphFile| {
        let Some(command) = command else { return Ok(()) };
        let known = before.graph();
        let added = after.graph().tasks().iter().filter(|it| known.number(&it.id).is_none());
        let mut tasks: Vec<TaskId> = added.map(|task| task.id.clone()).collect();
        if tasks.is_empty() && command.about.is_empty() {
            let found = differences(before.text(), after.text(), &[]);
            tasks.extend(found.into_iter().map(|found| found.id));
        }
        keep_texts(workspace, command, tasks, false, (before.text(), after.text()))
    };
    let before = file.edit_text(&workspace.state, edit, keep).map_err(drawn)?.before;
    if before.is_some() {
        // The journal may be the first file of `ralph` here. The change is made, whatever git says.
        let _ = workspace.ignore_own_files();
    }
    Ok(before)
}

/// Creates the graph file by a command, and keeps that. Returns what is new in it.
///
/// # Errors
/// There is a file by now; errors of the disk.
pub fn create_file(
    workspace: &Workspace,
    command: &ChangeCommand<'_>,
    text: &str,
) -> Result<Vec<TaskDifference>> {
    let (path, name) = (workspace.graph_path(), workspace.graph_name());
    let _turn = workspace.state.lock_graph().context("lock the graph file")?;
    if path.symlink_metadata().is_ok() {
        bail!("`{name}` was created meanwhile; nothing was changed, so try again");
    }
    let graph = graph_of(text.as_bytes()).context("read the new graph")?;
    let tasks: Vec<TaskId> = graph.tasks().iter().map(|task| task.id.clone()).collect();
    let empty = remove(text, &tasks).map_err(|why| anyhow!("{}", why.reason))?;
    let found = differences(&empty, text, &[]);
    keep_texts(workspace, command, tasks, true, (&empty, text))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    state::replace(path, text.as_bytes(), workspace.config.fsync)
        .with_context(|| format!("write `{name}`"))?;
    // The graph is there, whatever git says.
    let _ = workspace.ignore_own_files();
    Ok(found)
}

/// Removes the graph file, which a command created with this text.
///
/// # Errors
/// The file has another text now; errors of the disk.
pub fn remove_new_file(workspace: &Workspace, text: &str) -> Result<()> {
    let (path, name) = (workspace.graph_path(), workspace.graph_name());
    let _turn = workspace.state.lock_graph().context("lock the graph file")?;
    let found = regular_file::read_to_string(path).with_context(|| format!("read `{name}`"))?;
    if found != text {
        bail!("`{name}` changed at this moment; try again");
    }
    fs::remove_file(path).with_context(|| format!("remove `{name}`"))
}

/// Keeps the texts before and after a change. `changed` are the tasks in question where the command
/// is about none.
///
/// # Errors
/// Errors of the disk.
pub fn keep_texts(
    workspace: &Workspace,
    command: &ChangeCommand<'_>,
    changed: Vec<TaskId>,
    created: bool,
    (before, after): (&str, &str),
) -> Result<()> {
    let tasks = if command.about.is_empty() { changed } else { command.about.to_vec() };
    let change = KeptChange {
        number: 0,
        at: Utc::now(),
        command: command.name.to_owned(),
        graph: workspace.graph_path().to_owned(),
        tasks,
        created,
        final_because: command.final_because.map(str::to_owned),
    };
    let kept = KeptChanges::of(&workspace.state);
    kept.keep(change, before, after).context("keep the graph for `ralph undo`")
}

/// Records the changes of a command in the journal.
///
/// # Errors
/// Errors of the disk.
pub fn record(store: &mut EventStore, command: &str, found: &[TaskDifference]) -> Result<()> {
    record_because(store, command, None, found)
}

/// Records the changes of a command in the journal, with the reason for other statuses of known
/// tasks.
///
/// # Errors
/// Errors of the disk.
pub fn record_because(
    store: &mut EventStore,
    command: &str,
    why: Option<&str>,
    found: &[TaskDifference],
) -> Result<()> {
    let cause = Cause::Command;
    let mut events = Vec::new();
    for TaskDifference { id, old, new, fields } in found {
        if old != new {
            let reason = why.filter(|_| old.is_some()).map(str::to_owned);
            let changed = GraphEvent::StatusChanged { old: *old, new: *new, cause, reason };
            events.push((id.clone(), changed));
        }
        if !fields.is_empty() {
            let (command, fields) = (command.to_owned(), fields.clone());
            events.push((id.clone(), GraphEvent::TaskEdited { command, fields, cause }));
        }
    }
    store.emit_all(events)
}

/// Draws the errors of a graph that a change would make invalid.
fn drawn(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Rejected>() {
        Ok(rejected) => workspace::refused(&rejected),
        Err(error) => error,
    }
}

// Copies of the graph file before and after each change that a person made by a command, so that
// `ralph undo` can take it back.
//
// They are in the state folder. Each change has a number and three files:
// what it was, the text before, and the text after. The lock of the graph file is held while one
// is written.

/// How many changes are kept.
const KEPT: usize = 20;
/// How many bytes the copies may have together. The newest change is always kept.
const BYTES: u64 = 64 << 20;

/// A change of the graph file that a person made by a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChange {
    /// Its number; later changes have greater ones.
    pub number: u32,
    /// When it was made.
    pub at: DateTime<Utc>,
    /// The command, such as `task-add`.
    pub command: String,
    /// The graph file.
    pub graph: PathBuf,
    /// The tasks that it was about.
    pub tasks: Vec<TaskId>,
    /// Whether it created the file; the text before is that of a graph without tasks then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Why it cannot be taken back, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_because: Option<String>,
}

/// The kept changes of a repository, or of one loop.
#[derive(Clone, Debug)]
pub struct KeptChanges {
    dir: PathBuf,
    durable: bool,
}

impl KeptChanges {
    /// The changes in this state folder.
    pub fn of(state: &StateFolder) -> KeptChanges {
        KeptChanges { dir: state.dir().join("changes"), durable: state.is_durable() }
    }

    /// Returns the changes of a graph file, the newest first. Files that cannot be read are left
    /// out.
    pub fn list(&self, graph: &Path) -> Vec<KeptChange> {
        let numbers = self.numbers().into_iter().rev();
        let read = |number| {
            let text = regular_file::read_to_string(&self.path(number, "json")).ok()?;
            serde_json::from_str::<KeptChange>(&text).ok()
        };
        numbers.filter_map(read).filter(|change| change.graph == graph).collect()
    }

    /// Keeps a change, whose number is set here, with the texts before and after.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn keep(&self, mut change: KeptChange, before: &str, after: &str) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        change.number = self.numbers().last().map_or(1, |last| last + 1);
        let write = |kind: &str, bytes: &[u8]| {
            state::replace(&self.path(change.number, kind), bytes, self.durable)
        };
        write("before", before.as_bytes())?;
        write("after", after.as_bytes())?;
        // The change exists once this file does.
        write("json", &serde_json::to_vec(&change)?)?;
        self.prune()
    }

    /// Returns the texts before and after a change.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn texts(&self, change: &KeptChange) -> io::Result<(String, String)> {
        let read = |kind: &str| regular_file::read_to_string(&self.path(change.number, kind));
        Ok((read("before")?, read("after")?))
    }

    /// Removes a change.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn remove(&self, number: u32) -> io::Result<()> {
        for kind in ["json", "before", "after"] {
            match fs::remove_file(self.path(number, kind)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn path(&self, number: u32, kind: &str) -> PathBuf {
        self.dir.join(format!("{number}.{kind}"))
    }

    /// The numbers in use, ascending.
    fn numbers(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".json")?.parse().ok()
        };
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Removes the oldest changes beyond the limits.
    fn prune(&self) -> io::Result<()> {
        let mut bytes = 0;
        for (at, number) in self.numbers().into_iter().rev().enumerate() {
            for kind in ["before", "after"] {
                bytes += fs::metadata(self.path(number, kind)).map_or(0, |found| found.len());
            }
            if at > 0 && (at >= KEPT || bytes > BYTES) {
                self.remove(number)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_changes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let changes = KeptChanges::of(&StateFolder::open(folder.path().to_owned(), false));
        let graph = Path::new("/g.yaml");
        assert_eq!(changes.list(graph), []);
        for n in 0..KEPT + 5 {
            let change = KeptChange {
                number: 0,
                at: DateTime::UNIX_EPOCH,
                command: format!("task-add t{n}"),
                graph: graph.to_owned(),
                tasks: Vec::new(),
                created: false,
                final_because: None,
            };
            changes.keep(change, "before", &format!("after {n}")).unwrap();
        }
        let found = changes.list(graph);
        assert_eq!(found.len(), KEPT);
        assert_eq!((found[0].number, found[0].command.as_str()), (25, "task-add t24"));
        let texts = changes.texts(&found[0]).unwrap();
        assert_eq!(texts, ("before".to_owned(), "after 24".to_owned()));
        changes.remove(25).unwrap();
        assert_eq!(changes.list(graph).len(), KEPT - 1);
        assert_eq!(changes.list(Path::new("/other.yaml")), []);
        let big = "x".repeat(usize::try_from(BYTES).unwrap());
        let change = KeptChange { command: "task-add big".to_owned(), ..found[0].clone() };
        changes.keep(change, &big, &big).unwrap();
        assert_eq!(changes.list(graph).len(), 1);
    }
}
