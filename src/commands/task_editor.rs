//! Changes of the graph file by a person's command: checked and recorded.

use std::{
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    Invocation, inside::SurroundingAttempt, status::open_attempts as attempt_views, with_view,
};
use crate::{
    adapters::terminal,
    core::{
        diagnostic,
        event::{Cause, GraphEvent},
        exit::{Exit, Failure, fail},
        graph::{
            edit::Unsupported,
            task::{Status, TaskId},
        },
    },
    project::{
        event_store::EventStore,
        graph_change::{change_text, create_file, record},
        graph_file::{Foreign, GraphFile, Write, with_status},
        workspace::{Workspace, checkout_graph, empty_graph, find, landing_branch},
    },
    regular_file,
    view::{lines::clock, task::TaskView},
};

/// The graph and the journal, for a command that changes a task.
pub(super) struct TaskEditor {
    pub(super) workspace: Workspace,
    pub(super) file: GraphFile,
    pub(super) store: EventStore,
}

impl TaskEditor {
    pub(super) fn open(invocation: &Invocation) -> Result<TaskEditor> {
        TaskEditor::of(invocation.workspace()?, checkout_graph)
    }

    /// Opens the graph for a command that people use to change it.
    pub(super) fn for_person(invocation: &Invocation, command: &str) -> Result<TaskEditor> {
        TaskEditor::open(invocation)?.outside(command)
    }

    /// Opens the graph for a person who reviews landed work.
    pub(super) fn for_review(invocation: &Invocation, command: &str) -> Result<TaskEditor> {
        TaskEditor::of(invocation.reviewed()?, checkout_graph)?.outside(command)
    }

    /// Opens the graph for a command that may add the first task: where there is no graph file, the first
    /// change creates it.
    pub(super) fn for_first(invocation: &Invocation, command: &str) -> Result<TaskEditor> {
        let workspace = invocation.workspace()?;
        let is_there = has_graph(&workspace);
        let read = if is_there { checkout_graph } else { empty_graph };
        TaskEditor::of(workspace, read)?.outside(command)
    }

    fn of(
        workspace: Workspace,
        read: impl Fn(&Workspace) -> Result<GraphFile>,
    ) -> Result<TaskEditor> {
        let file = read(&workspace)?;
        let store = workspace.event_store()?;
        Ok(TaskEditor { workspace, file, store })
    }

    fn outside(self, command: &str) -> Result<TaskEditor> {
        self.refuse_inside(command)?;
        Ok(self)
    }

    /// The status of a task. A run does not write into the file that a task needs input.
    pub(super) fn status(&self, number: usize) -> Status {
        let task = self.file.graph().task(number);
        match task.status {
            Status::Pending if self.store.history().of(&task.id).asks => Status::NeedsInput,
            status => status,
        }
    }

    /// Refuses a command for people in an attempt.
    pub(super) fn refuse_inside(&self, command: &str) -> Result<()> {
        SurroundingAttempt::of(&self.workspace).map_or(Ok(()), |around| Err(around.refuse(command)))
    }

    /// Refuses to change a task while an attempt is running.
    pub(super) fn refuse_if_live(&self, id: &TaskId) -> Result<()> {
        let is_done = |file: &GraphFile| file.graph().status_of(id) == Some(Status::Complete);
        // Another branch than that of the checkout is opened by the next run that lands on it.
        let is_here = landing_branch(&self.workspace)? == self.workspace.repo.head()?.branch;
        if is_here
            && !is_done(&self.file)
            && self.workspace.graph().is_ok_and(|landed| is_done(&landed))
        {
            let why = format!(
                "`{id}` is complete: its work has landed and waits for your checkout; bring it with \
                 `ralph land` first"
            );
            return fail(Exit::Error, why);
        }
        let Some(attempt) = live_attempt(&self.workspace, &self.store, id)? else {
            return Ok(());
        };
        let active = self.store.history().active.of(id);
        let since = active.map_or(String::new(), |active| clock(active.since));
        fail(
            Exit::Running,
            format!(
                "attempt {attempt} at `{id}` has been running since {since}; stop the run first"
            ),
        )
    }

    pub(super) fn write(
        &mut self,
        id: &TaskId,
        write: Write<'_>,
        reason: Option<&str>,
    ) -> Result<Status> {
        let old = self.file.graph().number(id).map(|number| self.status(number));
        let name = self.file.name().to_owned();
        self.change_text(|file| {
            with_status(file.text(), id, write)
                .with_context(|| format!("edit the status of `{id}` in `{name}`"))?
                .with_context(|| format!("the task `{id}` is no longer in `{name}`"))
                .map(Some)
        })?;
        let changed = GraphEvent::StatusChanged {
            old,
            new: Some(write.status()),
            cause: Cause::Command,
            reason: reason.map(str::to_owned),
        };
        self.store.emit(None, Some(id), changed)?;
        Ok(old.unwrap_or(Status::Pending))
    }

    /// Changes the graph file and records the changed statuses. Returns them.
    ///
    /// # Errors
    /// The error of the edit; an edit that makes the graph invalid. Errors of the disk.
    pub(super) fn change(
        &mut self,
        edit: impl Fn(&GraphFile) -> Result<Option<String>>,
    ) -> Result<Vec<Foreign>> {
        let found = if has_graph(&self.workspace) {
            self.change_text(edit)?
        } else {
            let Some(text) = edit(&self.file)? else { return Ok(Vec::new()) };
            let found = create_file(&self.workspace, &text)?;
            self.file = checkout_graph(&self.workspace)?;
            found
        };
        record(&mut self.store, &found)?;
        Ok(found)
    }

    /// Changes the graph file without a record in the journal. Returns the changed statuses.
    pub(super) fn change_text(
        &mut self,
        edit: impl Fn(&GraphFile) -> Result<Option<String>>,
    ) -> Result<Vec<Foreign>> {
        change_text(&self.workspace, &mut self.file, edit)
    }

    /// Finds tasks by ids that were typed.
    pub(super) fn find_all(&self, ids: &[String]) -> Result<Vec<TaskId>> {
        ids.iter().map(|id| Ok(find(&self.file, id.trim())?.0)).collect()
    }

    /// The task as `--json` prints it.
    pub(super) fn view_of(&self, id: &TaskId) -> Result<TaskView> {
        let number = self.number(id)?;
        let (history, policy) = (self.store.history(), self.workspace.policy());
        let live = self.workspace.is_live(history)?;
        let now = Utc::now();
        let attempts = attempt_views(&self.workspace, history, now);
        with_view(&self.workspace, &self.file, history, &policy, |view| {
            TaskView::at(view, number, (live, &attempts), now)
        })
    }

    /// The number of a task that was in the graph a moment ago.
    pub(super) fn number(&self, id: &TaskId) -> Result<usize> {
        let gone = || format!("the task `{id}` is no longer in `{}`", self.file.name());
        self.file.graph().number(id).with_context(gone)
    }

    /// Prints a task as JSON, or a line about it.
    pub(super) fn print(&self, id: &TaskId, as_json: bool, line: &str) -> Result<()> {
        terminal::print(&if as_json {
            terminal::json(&self.view_of(id)?)
        } else {
            format!("{}\n", terminal::visible(line))
        })?;
        Ok(())
    }
}

/// The number of the running attempt at the task.
pub(super) fn live_attempt(
    workspace: &Workspace,
    store: &EventStore,
    id: &TaskId,
) -> Result<Option<u32>> {
    let active = store.history().active.of(id);
    let live = active.is_some() && workspace.is_live(store.history())?;
    Ok(active.filter(|_| live).map(|active| active.attempt))
}

/// An edit that the layout of the file does not allow, as an error for people.
pub(super) fn unsupported(name: &str) -> impl Fn(Unsupported) -> anyhow::Error {
    let name = name.to_owned();
    move |why| {
        let message = format!("cannot change `{name}`: {why}; edit the file, and `ralph check` it");
        Failure::new(Exit::Error, message).into()
    }
}

/// A usage error.
pub(super) fn usage<T>(message: impl Into<String>) -> Result<T> {
    fail(Exit::Usage, message.into())
}

/// Reads a text from a file, or from standard input for `-`.
///
/// # Errors
/// It cannot be read, is longer than `most` bytes, or is not UTF-8.
pub(super) fn read_text(invocation: &Invocation, path: &Path, most: u64) -> Result<String> {
    let mut bytes = Vec::new();
    let mut read = |from: &mut dyn Read| from.take(most + 1).read_to_end(&mut bytes);
    let (name, result) = if path == Path::new("-") {
        ("standard input".to_owned(), read(&mut io::stdin()))
    } else {
        let file = regular_file::open(&invocation.file(path)?);
        (format!("`{}`", shown(path)), file.and_then(|mut file| read(&mut file)))
    };
    if let Err(error) = result {
        return usage(format!("cannot read {name}: {error}"));
    }
    if bytes.len() as u64 > most {
        return usage(format!("{name} is longer than {} MiB", most >> 20));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return usage(format!("{name} is not UTF-8"));
    };
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The name of a path in messages.
pub(super) fn shown(path: &Path) -> String {
    diagnostic::visible(&path.display().to_string()).into_owned()
}

/// Whether there is anything at the path of the graph file, also a broken link.
pub(super) fn has_graph(workspace: &Workspace) -> bool {
    workspace.graph_path().symlink_metadata().is_ok()
}
