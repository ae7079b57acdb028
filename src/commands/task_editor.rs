//! Changes of the graph file by a person's command: checked, kept for `ralph undo`, and recorded.

use std::path::Path;

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    Invocation, inside::SurroundingAttempt, status::open_attempts as attempt_views, with_view,
};
use crate::{
    adapters::terminal,
    core::{
        diagnostic::visible,
        event::{Cause, Event},
        exit::{Exit, Failure},
        graph::{
            edit::Unsupported,
            task::{Status, TaskId},
            task_edit::{TaskDifference, differences},
        },
    },
    project::{
        event_store::EventStore,
        graph_change::{change_text, record},
        graph_file::{GraphFile, Write, with_status},
        workspace::{Workspace, find},
    },
    view::{lines::clock, task::TaskView},
};

pub(super) use crate::project::graph_change::ChangeCommand;

/// The graph and the journal, for a command that changes a task.
pub(super) struct TaskEditor {
    pub(super) workspace: Workspace,
    pub(super) file: GraphFile,
    pub(super) store: EventStore,
}

impl TaskEditor {
    pub(super) fn open(invocation: &Invocation) -> Result<TaskEditor> {
        let workspace = invocation.workspace()?;
        let file = workspace.graph()?;
        let store = workspace.event_store()?;
        Ok(TaskEditor { workspace, file, store })
    }

    pub(super) fn status(&self, number: usize) -> Status {
        self.file.graph().task(number).status
    }

    /// Refuses a command for people in an attempt.
    pub(super) fn refuse_inside(&self, command: &str) -> Result<()> {
        SurroundingAttempt::of(&self.workspace).map_or(Ok(()), |around| Err(around.refuse(command)))
    }

    /// Refuses to change a task while an attempt is running.
    pub(super) fn refuse_if_live(&self, id: &TaskId) -> Result<()> {
        let Some(attempt) = live_attempt(&self.workspace, &self.store, id)? else {
            return Ok(());
        };
        let active = self.store.history().active.of(id);
        let since = active.map_or(String::new(), |active| clock(active.since));
        let message = format!(
            "attempt {attempt} at `{id}` has been running since {since}; stop the run first"
        );
        Err(Failure::new(Exit::Running, message).into())
    }

    pub(super) fn write(
        &mut self,
        id: &TaskId,
        write: Write<'_>,
        reason: Option<&str>,
        command: &ChangeCommand<'_>,
    ) -> Result<Status> {
        let old = self.file.graph().number(id).map(|number| self.status(number));
        let name = self.file.name().to_owned();
        self.change_text(Some(command), |file| {
            with_status(file.text(), id, write)
                .with_context(|| format!("edit the status of `{id}` in `{name}`"))?
                .with_context(|| format!("the task `{id}` is no longer in `{name}`"))
                .map(Some)
        })?;
        let changed = Event::StatusChanged {
            old,
            new: Some(write.status()),
            cause: Cause::Command,
            reason: reason.map(str::to_owned),
        };
        self.store.emit(None, Some(id), changed)?;
        Ok(old.unwrap_or(Status::Pending))
    }
}

impl TaskEditor {
    /// Opens the graph for a command that people use to change it.
    pub(super) fn for_person(invocation: &Invocation, command: &str) -> Result<TaskEditor> {
        let editor = TaskEditor::open(invocation)?;
        editor.refuse_inside(command)?;
        Ok(editor)
    }

    /// Changes the graph file and records what changed. Returns it; empty if nothing did.
    ///
    /// # Errors
    /// The error of the edit; an edit that makes the graph invalid. Errors of the disk.
    pub(super) fn change(
        &mut self,
        command: &ChangeCommand<'_>,
        edit: impl Fn(&GraphFile) -> Result<Option<String>>,
    ) -> Result<Vec<TaskDifference>> {
        let Some(before) = self.change_text(Some(command), edit)? else {
            return Ok(Vec::new());
        };
        let found = differences(&before, self.file.text(), command.about);
        self.record(command.name, &found)?;
        Ok(found)
    }

    /// Changes the graph file without a record in the journal; keeps the change if a command is
    /// given. Returns the text before; none if nothing changed.
    pub(super) fn change_text(
        &mut self,
        command: Option<&ChangeCommand<'_>>,
        edit: impl Fn(&GraphFile) -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        change_text(&self.workspace, &mut self.file, command, edit)
    }

    /// Records the changes of a command in the journal.
    pub(super) fn record(&mut self, command: &str, found: &[TaskDifference]) -> Result<()> {
        record(&mut self.store, command, found)
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

    /// Says that a running attempt is not judged by this change.
    pub(super) fn warn_if_live(&self, id: &TaskId) -> Result<()> {
        if let Some(attempt) = live_attempt(&self.workspace, &self.store, id)? {
            terminal::say(&format!(
                "note: attempt {attempt} at `{id}` is running; it is judged by the definition at \
                 its start, and the next attempt gets the new one"
            ));
        }
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
    Err(Failure::new(Exit::Usage, message.into()).into())
}

/// The name of a path in messages.
pub(super) fn shown(path: &Path) -> String {
    visible(&path.display().to_string()).into_owned()
}
