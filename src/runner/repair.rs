//! A verify command that fails on the target branch without the work of any task: with
//! `on_red_base: repair` it becomes a task of its own, which goes before all others.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Runner, checkout_graph::commit_graph};
use crate::{
    core::{
        event::CheckEvent,
        graph::{
            task::{REPAIRS, TaskId, id_of_title},
            task_edit::{NewTask, TaskPlace, insert},
        },
        isolation::OnRedBase,
        select,
        verdict::{CheckResult, Verdict},
    },
    project::follower::BUSY,
};

/// Gives the command that fails to a task. Returns whether the run goes on with it: not if that was
/// tried in this run, or the graph is not in git.
pub(super) fn begin(runner: &mut Runner) -> Result<bool> {
    let (core, landing) = (&mut runner.core, &mut runner.landing);
    let (workspace, history) = (&core.cx.workspace, core.journal.history());
    let tasks = history.tasks().into_iter();
    let broken = tasks.filter_map(|(_, past)| past.last.as_deref());
    let broken = broken.filter(|last| last.verdict == Verdict::BaselineBroken);
    let red = broken.max_by_key(|last| last.at).and_then(|last| last.ended.evidence.red());
    let (Some(red), Some(branch)) = (red.cloned(), core.cx.target.clone()) else {
        return Ok(false);
    };
    if workspace.config.on_red_base != OnRedBase::Repair || history.run.repair.is_some() {
        return Ok(false);
    }
    let graph = core.graph.file.graph();
    // A run before this one may have added it.
    let mut open = graph.tasks().iter().filter(|task| !task.status.is_over());
    let known = open.find(|task| task.repairs() == Some(&red.command)).map(|task| task.id.clone());
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
    core.emit(Some((&id, 0)), CheckEvent::Repairing { command: red.command })?;
    landing.follow(core, BUSY)?;
    runner.refresh()?;
    Ok(runner.core.with_view(|view| select::repair(view).is_some()))
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
