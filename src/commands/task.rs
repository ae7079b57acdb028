//! `ralph task-reset`, `task-complete` and `task-block`: change the status of a task.

use anyhow::Result;
use chrono::Utc;

use super::{
    Invocation,
    inside::SurroundingAttempt,
    task_editor::{ChangeCommand, TaskEditor, live_attempt},
};
use crate::{
    adapters::terminal,
    core::{
        event::Event,
        exit::{Exit, Failure},
        graph::task::{Status, TaskId},
    },
    project::{
        attempt::AttemptRecord,
        graph_file::{Write, rfc3339},
        workspace::find,
    },
};

/// Sets tasks to pending, with all attempts available again.
///
/// # Errors
/// An unknown task, before any is changed; a task with a running attempt; inside an attempt.
pub fn reset(invocation: &Invocation, ids: &[String]) -> Result<Exit> {
    let mut desk = TaskEditor::open(invocation)?;
    desk.refuse_inside("task-reset")?;
    let found = ids.iter().map(|id| find(&desk.file, id)).collect::<Result<Vec<_>>>()?;
    for (id, _) in &found {
        desk.refuse_if_live(id)?;
    }
    for (id, number) in found {
        let counted = desk.store.history().of(&id).counted;
        if desk.status(number) == Status::Pending && counted == 0 {
            terminal::print(&format!("{id} is already pending\n"))?;
            continue;
        }
        let mut old = Status::Pending;
        if desk.status(number) != Status::Pending {
            let is_lasting = matches!(
                desk.status(number),
                Status::Complete | Status::Blocked | Status::Cancelled
            );
            let why = "its attempts were reset; `ralph task-block` keeps it from being tried";
            let final_because = (counted > 0 || !is_lasting).then_some(why);
            let command = ChangeCommand {
                name: "task-reset",
                about: std::slice::from_ref(&id),
                final_because,
            };
            old = desk.write(&id, Write::Plain(Status::Pending), None, &command)?;
        }
        let past = desk.store.history().of(&id);
        let has_work = past.work.is_some() || !past.commits.is_empty();
        desk.store.emit(None, Some(&id), Event::Reset {})?;
        if old == Status::Complete && has_work {
            terminal::say(&format!(
                "the commits of {id} stay, and no longer count as its work; `ralph task-complete \
                 {id}` completes it with them"
            ));
        }
        let change =
            if old == Status::Pending { String::new() } else { format!("{old} -> pending, ") };
        terminal::print(&format!("{id}: {change}attempts reset\n"))?;
    }
    Ok(Exit::Success)
}

/// Marks a task complete. While an attempt is running, this is only its report, which is verified at
/// the end of the attempt.
///
/// # Errors
/// An unknown task; inside an attempt at another task.
pub fn complete(invocation: &Invocation, id: &str) -> Result<Exit> {
    if report(invocation, id)? {
        return Ok(Exit::Success);
    }
    let mut desk = TaskEditor::open(invocation)?;
    let (id, number) = find(&desk.file, id)?;
    if desk.status(number) == Status::Complete {
        terminal::print(&format!("{id} is already complete\n"))?;
        return Ok(Exit::Success);
    }
    let at = rfc3339(Utc::now());
    let command = ChangeCommand::of("task-complete", std::slice::from_ref(&id));
    let old = desk.write(&id, Write::Complete { at: &at }, None, &command)?;
    terminal::print(&format!("{id}: {old} -> complete\n"))?;
    Ok(Exit::Success)
}

/// Records a report if an attempt at the task is running. Does not read the graph: a report must not be
/// lost because the file is being edited.
fn report(invocation: &Invocation, id: &str) -> Result<bool> {
    let workspace = invocation.heard()?;
    let around = SurroundingAttempt::of(&workspace).map(|around| around.at(id)).transpose()?;
    let Ok(id) = TaskId::new(id) else {
        return Ok(false);
    };
    let mut store = workspace.event_store()?;
    let attempt = match around {
        None => live_attempt(&workspace, &store, &id)?,
        // Its run may just have been killed. Then the next run judges it.
        Some(own) => {
            let active = store.history().active.of(&id).map(|active| active.attempt);
            // An agent may have removed the journal.
            let is_open = |record: &AttemptRecord| record.task_id == id && record.attempt == own;
            let open = workspace.state.peek::<AttemptRecord>();
            if active != Some(own) && !open.iter().any(is_open) {
                let message = format!("attempt {own} at `{id}` has ended");
                return Err(Failure::new(Exit::Error, message).into());
            }
            Some(own)
        }
    };
    let Some(attempt) = attempt else {
        return Ok(false);
    };
    store.emit(None, Some(&id), Event::Reported { attempt })?;
    terminal::print(&format!(
        "{id} is reported as done; it is verified when attempt {attempt} ends\n"
    ))?;
    Ok(true)
}

/// Blocks a task.
///
/// # Errors
/// An unknown task; a task with a running attempt; inside an attempt.
pub fn block(invocation: &Invocation, id: &str, reason: &str) -> Result<Exit> {
    let mut desk = TaskEditor::open(invocation)?;
    desk.refuse_inside("task-block")?;
    let (id, _) = find(&desk.file, id)?;
    desk.refuse_if_live(&id)?;
    let command = ChangeCommand::of("task-block", std::slice::from_ref(&id));
    let old = desk.write(&id, Write::Plain(Status::Blocked), Some(reason), &command)?;
    terminal::print(&format!("{id}: {old} -> blocked ({reason})\n"))?;
    Ok(Exit::Success)
}
