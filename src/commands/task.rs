//! `ralph task-reset`, `task-complete` and `task-block` change the status of a task; `ralph verify` runs
//! its checks.

use anyhow::Result;
use chrono::Utc;

use super::{
    Invocation,
    agent_reports::{ReportingAttempt, is_away},
    inside::{AttemptContext, SurroundingAttempt, refuse_beside},
    probe::{Probe, ProbeFolder, ProbePlace},
    success,
    talk::{ANSWER, given},
    task_editor::{TaskEditor, live_attempt},
};
use crate::{
    adapters::terminal::{self, visible},
    cli::TaskCompleteArgs,
    core::{
        event::{Answer, RequestEvent},
        executor::{Executor, ExecutorKind, LOCAL},
        exit::{Exit, fail},
        graph::task::{Status, TaskId},
        verdict::{Outcome, Verdict},
    },
    project::{
        executors,
        graph_file::{Write, rfc3339},
        workspace::find,
    },
    runner::open_reset,
};

/// Sets tasks to pending, with all attempts available again.
///
/// # Errors
/// An unknown task, before any is changed; a task with a running attempt; inside an attempt.
pub fn reset(invocation: &Invocation, ids: &[String], note: Option<&str>) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "task-reset")?;
    let note = note.map(|text| given(text, ANSWER, "a note")).transpose()?;
    let found = ids.iter().map(|id| find(&editor.file, id)).collect::<Result<Vec<_>>>()?;
    for (id, _) in &found {
        editor.refuse_if_live(id)?;
    }
    for (id, number) in found {
        if let Some(note) = &note {
            let answer = Answer::note(note);
            editor.store.emit(None, Some(&id), RequestEvent::Answered(answer))?;
        }
        let past = editor.store.history().of(&id);
        // Another branch may have it as complete.
        let is_done = past.last.as_ref().is_some_and(|it| it.verdict == Verdict::Complete);
        let is_new = past.counted == 0 && (!is_done || past.was_reset);
        if editor.status(number) == Status::Pending && is_new {
            let hears = if note.is_some() { "; its next attempt gets the note" } else { "" };
            terminal::print(&format!("{id} is already pending{hears}\n"))?;
            continue;
        }
        let mut old = Status::Pending;
        if editor.status(number) != Status::Pending {
            old = editor.write(&id, Write::Plain(Status::Pending), None)?;
        }
        let past = editor.store.history().of(&id);
        let has_work = past.work.is_some() || !past.commits.is_empty();
        editor.store.emit(None, Some(&id), RequestEvent::Reset {})?;
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
    if let Some(branch) = &editor.workspace.config.onto
        && !editor.workspace.is_busy()?
    {
        open_reset(&editor.workspace, editor.store.history(), branch)?;
    }
    Ok(Exit::Success)
}

/// Marks a task complete. While an attempt is running, this is only its report, which is verified at
/// the end of the attempt.
///
/// # Errors
/// An unknown task; inside an attempt at another task.
pub fn complete(invocation: &Invocation, options: TaskCompleteArgs) -> Result<Exit> {
    let id = options.id;
    if is_away() {
        return ReportingAttempt::around("task-complete")?.complete(&id);
    }
    let invocation = &invocation.of_task(options.called.name, std::slice::from_ref(&id))?;
    if let Some(attempt) = reporting(invocation, &id)? {
        return attempt.complete(&id);
    }
    let mut editor = TaskEditor::open(invocation)?;
    let (id, number) = find(&editor.file, &id)?;
    let past = editor.store.history().of(&id);
    let (is_unproved, kept) = (past.is_doubtful(), past.left.clone());
    if editor.status(number) == Status::Complete && !is_unproved {
        return success(&format!("{id} is already complete\n"));
    }
    let at = rfc3339(Utc::now());
    let old = editor.write(&id, Write::Complete { at: &at }, None)?;
    if old == Status::Complete {
        return success(&format!("{id}: accepted without a proof\n"));
    }
    let repo = &editor.workspace.repo;
    let work = kept.map(|name| repo.commit_of(&name)).transpose()?.flatten();
    if let (Some(work), Some(head)) = (work, repo.head()?.commit)
        && !repo.is_ancestor(&work, &head)?
    {
        terminal::say(&format!(
            "the work of its last attempt has not landed; `ralph restore {id}` makes a branch of it"
        ));
    }
    success(&format!("{id}: {old} -> complete\n"))
}

/// The running attempt at a task, which reports it. Does not read the graph: a report must not be lost
/// because the file is being edited.
fn reporting(invocation: &Invocation, id: &str) -> Result<Option<ReportingAttempt>> {
    let found = invocation.heard();
    // The agent may stand in a worktree, a submodule or a clone, or in no repository at all. Another
    // repository with a graph of its own is meant itself.
    refuse_beside("task-complete")?;
    let own = AttemptContext::of_environment("task-complete").ok();
    let own = own.and_then(|own| Some((own.task_id.as_str() == id, own.workspace().ok()?)));
    let own = own.filter(|(is_own_task, own)| match &found {
        Ok(found) => {
            own.place.name() == found.place.name()
                && (own.repo.common_dir() == found.repo.common_dir()
                    || *is_own_task
                        && (found.root().starts_with(own.root()) || !found.graph_path().exists()))
        }
        Err(_) => *is_own_task,
    });
    let workspace = own.map_or(found, |(_, own)| Ok(own))?;
    let around = SurroundingAttempt::of(&workspace).map(|around| around.at(id)).transpose()?;
    let Ok(id) = TaskId::new(id) else {
        return Ok(None);
    };
    let Some(own) = around else {
        let live = live_attempt(&workspace, &workspace.event_store()?, &id)?;
        return Ok(live.and_then(|live| ReportingAttempt::of(&workspace, &id, live)));
    };
    // Its run may just have been killed. Then the next run judges it.
    let open = ReportingAttempt::of(&workspace, &id, own);
    open.map_or_else(
        || fail(Exit::Error, format!("attempt {own} at `{id}` has ended")),
        |it| Ok(Some(it)),
    )
}

/// Blocks a task.
///
/// # Errors
/// An unknown task; a task with a running attempt; inside an attempt.
pub fn block(invocation: &Invocation, id: &str, reason: &str) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "task-block")?;
    let (id, _) = find(&editor.file, id)?;
    editor.refuse_if_live(&id)?;
    let old = editor.write(&id, Write::Plain(Status::Blocked), Some(reason))?;
    success(&format!("{id}: {old} -> blocked ({reason})\n"))
}

/// Runs the commands in order, up to the first failure. Changes no state.
///
/// # Errors
/// An unknown task; a shell that does not start.
pub fn verify(invocation: &Invocation, id: &str) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let file = workspace.graph()?;
    let (id, number) = find(&file, id)?;
    let commands = workspace.verify_of(file.graph().task(number));
    if commands.is_empty() {
        terminal::say(&format!(
            "`{id}` has no verify commands; set `verify` for it in `{}`, or for all tasks in \
             `.ralph/config.yaml`",
            file.name()
        ));
        return Ok(Exit::Success);
    }
    let config = &workspace.config;
    let is_inside = is_away() || SurroundingAttempt::of(&workspace).is_some();
    let wanted = executors::name_of(config, file.graph().task(number), None);
    // A sandbox or a container works on this checkout; another machine would need a copy.
    let of_checkout =
        |it: &Executor| matches!(it.kind, ExecutorKind::Sandbox(_) | ExecutorKind::Container(_));
    let found = if is_inside { Executor::local() } else { executors::find(config, Some(wanted))? };
    let is_here = !of_checkout(&found);
    let verifier = if is_here { Executor::local() } else { found };
    let at = match (is_here, is_inside || wanted == LOCAL) {
        (false, _) => format!(" on `{}`", verifier.name),
        (true, true) => String::new(),
        (true, false) => format!(" here, not on `{wanted}`"),
    };
    let bench = ProbeFolder::new(config)?;
    let folder = workspace.standpoint();
    let place = ProbePlace {
        workspace: &workspace,
        executor: &verifier,
        folder: folder.to_owned(),
        base: None,
        is_set_up: false,
    };
    for command in &commands {
        terminal::say(&format!("verifying {id}{at}: `{}`", visible(command)));
        let env = vec![("RALPH_TASK_ID".to_owned(), id.to_string())];
        let probe = Probe { is_shown: true, env, ..Probe::shell(command, folder) };
        let (outcome, _) = bench.run_in(&place, probe, config.verify_timeout)?;
        if let Outcome::NotStarted { error } = outcome {
            return fail(Exit::Agent, error);
        }
        if outcome != (Outcome::Exited { exit_code: 0 }) {
            terminal::say(&format!("`{}` {outcome}", visible(command)));
            return Ok(Exit::Error);
        }
    }
    let count = commands.len();
    let all = if count == 1 { "it succeeded".to_owned() } else { format!("all {count} succeeded") };
    terminal::say(&all);
    Ok(Exit::Success)
}
