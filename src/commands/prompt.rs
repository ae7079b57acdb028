//! `ralph prompt`: shows the prompt of a task, claims a task, and explains the order.

use std::{env, fmt::Write as _};

use anyhow::Result;
use chrono::Utc;

use super::{Invocation, active, inside::SurroundingAttempt, open_attempts, success};
use crate::{
    adapters::terminal,
    cli::PromptArgs,
    core::{
        attempt::Isolation,
        event::{Cause, GraphEvent},
        exit::{Exit, Failure, fail},
        graph::task::{Status, TaskId},
        select::{SelectionKey, TaskState, View},
    },
    project::{
        attempt::{self, AttemptPlace},
        graph_file::{GraphFile, Write, rfc3339},
        workspace::{Workspace, find, policy_for, view},
    },
    view::{state::StateMark, task::TaskView},
};

/// The number of following tasks that `--why` shows.
const RUNNERS_UP: usize = 9;

/// Shows the prompt of a task, or of the next task.
///
/// # Errors
/// No ready task; an unknown task; a template that does not render.
pub fn run(invocation: &Invocation, options: &PromptArgs) -> Result<Exit> {
    let mut workspace = invocation.workspace()?;
    if options.accept {
        if let Some(around) = SurroundingAttempt::of(&workspace) {
            return Err(around.refuse("prompt --accept"));
        }
        // The claimed task is then done in the checkout.
        (workspace.config.isolation, workspace.config.onto) = (Isolation::Checkout, None);
    }
    let mut file = workspace.graph()?;
    let mut store = workspace.event_store()?;
    let policy = policy_for(&workspace, workspace.policy(), file.graph(), store.history())?;
    let open = open_attempts(&workspace, store.history())?;
    let active = active(&open, file.graph(), store.history());
    let view = View { active: &active, ..view(&file, store.history(), &policy) };
    if options.why {
        return why(&view);
    }
    let number = match &options.id {
        Some(id) => find(&file, id)?.1,
        None => next(&view)?,
    };
    let (max, agent) = (view.max_attempts(number), view.agents(number).first().copied());
    let place = AttemptPlace::default();
    if options.json {
        let context =
            attempt::context(&workspace, file.graph(), store.history(), number, max, agent, place)?;
        return success(&terminal::json(&context));
    }
    if options.accept {
        acceptable(&view, number)?;
    }
    let text =
        attempt::render(&workspace, file.graph(), store.history(), number, max, agent, place)?;
    if options.accept {
        let id = file.graph().task(number).id.clone();
        claim(&workspace, &mut file, &id)?;
        let claimed = GraphEvent::StatusChanged {
            old: Some(Status::Pending),
            new: Some(Status::InProgress),
            cause: Cause::Claimed,
            reason: None,
        };
        store.emit(None, Some(&id), claimed)?;
    }
    success(&text)
}

/// The number of the next task.
fn next(view: &View<'_>) -> Result<usize> {
    if let Some(key) = view.ready(Utc::now()).first() {
        return Ok(key.number);
    }
    let message = if view.graph.tasks().iter().all(|task| task.status.is_over()) {
        "all tasks complete"
    } else {
        "all tasks blocked or in progress"
    };
    Err(Failure::drawn(Exit::Error, message.to_owned()).into())
}

fn why(view: &View<'_>) -> Result<Exit> {
    let now = Utc::now();
    let mut text = String::new();
    let mut say = |lead: &str, key: SelectionKey, note: &str| {
        let task = view.graph.task(key.number);
        let title = terminal::visible(task.title_line());
        let _ = writeln!(text, "{lead}  {:<16}  {key}  {title}{note}", task.id);
    };
    for (rank, key) in view.ready(now).into_iter().take(1 + RUNNERS_UP).enumerate() {
        say(if rank == 0 { "next" } else { "then" }, key, "");
    }
    for key in view.all_in(TaskState::Conflicting, now).into_iter().take(1 + RUNNERS_UP) {
        let why = view.conflict(key.number, now).map(|conflict| view.explain(conflict));
        say("wait", key, &format!(": {}", why.unwrap_or_default()));
    }
    if text.is_empty() {
        next(view)?;
    }
    success(&text)
}

fn acceptable(view: &View<'_>, number: usize) -> Result<()> {
    let now = Utc::now();
    let task = TaskView::at(view, number, (false, &[]), now);
    if task.kind().mark() == StateMark::Ready {
        return Ok(());
    }
    fail(Exit::Error, format!("`{}` cannot be claimed: it is {}", task.id, task.state_text(now)))
}

fn claim(workspace: &Workspace, file: &mut GraphFile, id: &TaskId) -> Result<()> {
    let at = rfc3339(Utc::now());
    let by = env::var("USER").unwrap_or_else(|_| "ralph prompt".to_owned());
    let written = file.write(&workspace.state, id, Write::Claim { at: &at, by: &by })?;
    if !written.is_written {
        return fail(
            Exit::Error,
            format!("`{id}` cannot be claimed: it was changed just now; try again"),
        );
    }
    Ok(())
}
