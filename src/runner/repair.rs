//! A verify command that fails on the target branch without the work of any task: with
//! `on_red_base: repair` it becomes a task of its own, which goes before all others.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Runner,
    checkout_graph::{commit_graph, commit_statuses},
    whole,
};
use crate::{
    core::{
        commit_id::CommitId,
        event::{Cause, CheckEvent},
        graph::{
            task::{REPAIRS, Status, Task, TaskId, id_of_title},
            task_edit::{NewTask, TaskPlace, insert},
        },
        history::History,
        isolation::OnRedBase,
        select,
        verdict::{CheckResult, Merge, Verdict},
    },
    project::{follower::BUSY, graph_file::Write},
};

/// Gives the command that fails to a task. Returns whether the run goes on with it: not if that was
/// tried in this run, or the graph is not in git.
pub(super) fn begin(runner: &mut Runner) -> Result<bool> {
    let (core, landing) = (&mut runner.core, &mut runner.landing);
    let (workspace, history) = (&core.cx.workspace, core.journal.history());
    let tasks = history.tasks().into_iter();
    let broken = tasks.filter_map(|(_, past)| past.last.as_deref());
    let broken = broken.filter(|last| last.verdict == Verdict::BaselineBroken);
    let Some(newest) = broken.max_by_key(|last| last.at) else { return Ok(false) };
    let red = newest.ended.evidence.red();
    let (Some(red), Some(branch)) = (red.cloned(), core.cx.target.clone()) else {
        return Ok(false);
    };
    if workspace.config.on_red_base != OnRedBase::Repair || history.run.repair.is_some() {
        return Ok(false);
    }
    let graph = core.graph.file.graph();
    let repairs = || graph.tasks().iter().filter(|task| task.repairs() == Some(&red.command));
    let onto = match &newest.ended.evidence.merge {
        Some(Merge::RedBase { onto, .. }) => Some(onto),
        _ => None,
    };
    if repairs().any(|task| is_settled(task, onto, history)) {
        return Ok(false);
    }
    // A run before this one may have added it.
    let mut open = repairs().filter(|task| !task.status.is_over());
    let known = open.next().map(|task| task.id.clone());
    let id = known.clone().unwrap_or_else(|| {
        let used = history.used_ids();
        id_of_title("repair", |id| {
            TaskId::new(id).is_ok_and(|id| used.contains(&id) || graph.number(&id).is_some())
        })
    });
    if known.is_none() {
        let is_of_project = workspace.config.verify.0.contains(&red.command);
        let fields = fields(&red, &branch, is_of_project);
        let task = NewTask { id: id.clone(), fields, depends_on: Vec::new() };
        let add = |text: &str| insert(text, &[task], &TaskPlace::Last).ok();
        let title = format!("Add {id}: {}", title(&red));
        if !commit_graph(workspace, &branch, add, &title)? {
            return Ok(false);
        }
    }
    let repairing = CheckEvent::Repairing { command: red.command, why: String::new() };
    core.emit(Some((&id, 0)), repairing)?;
    landing.follow(core, BUSY)?;
    runner.refresh()?;
    Ok(runner.core.with_view(|view| select::repair(view).is_some()))
}

/// Whether another repair would be paid for the same: a person cancelled this one, or `onto`, where the
/// command fails, is the commit with its work.
fn is_settled(task: &Task, onto: Option<&CommitId>, history: &History) -> bool {
    match task.status {
        Status::Cancelled => true,
        Status::Complete => {
            let last = history.of(&task.id).last.as_deref();
            let merge = last.and_then(|last| last.ended.evidence.merge.as_ref());
            matches!(merge, Some(Merge::Landed { commit, .. }) if Some(commit) == onto)
        }
        Status::Pending | Status::InProgress | Status::Blocked | Status::NeedsInput => false,
    }
}

/// Runs the command on the tip that an open task of an earlier run is to mend, before any agent is paid.
/// If it fails, the task goes before all others, or the run ends where it has used its attempts; if it
/// passes, nobody needs the task.
pub(super) fn recheck(runner: &mut Runner) -> Result<()> {
    let core = &runner.core;
    if core.cx.workspace.config.on_red_base != OnRedBase::Repair
        || !core.run.attempts().open().is_empty()
    {
        return Ok(());
    }
    let graph = core.graph.file.graph();
    let number = core.with_view(|view| {
        let is_open = |task: &Task| !task.status.is_over() && task.repairs().is_some();
        view.admitted().find(|number| is_open(graph.task(*number)))
    });
    let (Some(number), Some(branch)) = (number, core.cx.target.clone()) else { return Ok(()) };
    let id = graph.task(number).id.clone();
    let command = graph.task(number).repairs().unwrap_or_default().to_owned();
    let Some(check) = whole::check_tip(runner, &branch, &id, &command)? else { return Ok(()) };
    if check.is_green() {
        let title = format!("Complete {id}: its command passes");
        commit_statuses(
            &runner.core.cx.workspace,
            &branch,
            &[(id.clone(), Status::Complete)],
            &title,
        )?;
        runner.set((&id, 0), Write::Plain(Status::Complete), Cause::Mended)?;
        runner.landing.follow(&mut runner.core, BUSY)?;
        return runner.refresh();
    }
    let how = if runner.core.with_view(|view| select::can_mend(view, number)) {
        String::new()
    } else {
        format!(
            ", and `{id}`, which mends it, is out of attempts or waits for a person (`ralph task-reset {id}` \
             tries it again)"
        )
    };
    let why = format!("{check} on `{branch}`{how}");
    runner.core.emit(Some((&id, 0)), CheckEvent::Repairing { command, why })?;
    Ok(())
}

fn title(red: &CheckResult) -> String {
    format!("Make `{}` pass", red.command.lines().next().unwrap_or_default())
}

fn fields(red: &CheckResult, branch: &str, is_of_project: bool) -> Vec<(String, Value)> {
    let last = red.last_line.as_ref();
    let last =
        last.map_or_else(String::new, |line| format!(" The last line of its output: {line}"));
    let description = format!(
        "The command `{}` fails on `{branch}` without the work of any task: it {}.{last}\n\nFind out why, \
         and make it pass. Do not weaken it or a test.\n",
        red.command, red.outcome
    );
    let mut fields = vec![
        ("title", json!(title(red))),
        ("description", json!(description)),
        ("priority", json!(0)),
        (REPAIRS, json!(red.command)),
    ];
    if !is_of_project {
        fields.push(("verify", json!([red.command])));
    }
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
