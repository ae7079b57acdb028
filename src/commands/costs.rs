//! `ralph costs`: the costs and the results of attempts.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use chrono::Local;

use super::{Invocation, success};
use crate::{
    adapters::terminal,
    cli::{By, CostsArgs},
    core::{
        agents::transcript::Tokens,
        duration,
        exit::Exit,
        graph::task::TaskId,
        history::attempt_log::{AttemptLog, LogDetail},
        spend::Spend,
        verdict::Verdict,
        waste::PaidAttempts,
    },
    project::workspace::Workspace,
    view::spend::{CostSum, CostView},
};

/// Sums the usage of journaled attempts.
///
/// # Errors
/// No repository; an invalid graph, by story; errors of the disk.
pub fn costs(invocation: &Invocation, options: &CostsArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let costs = sums(&workspace, &workspace.attempt_log(LogDetail::Results)?, options.by)?;
    let text = if options.json {
        terminal::json(&costs)
    } else if costs.sums.is_empty() {
        "no attempt yet\n".to_owned()
    } else {
        table(&costs)
    };
    success(&text)
}

/// The usage of attempts, in groups.
///
/// # Errors
/// An invalid graph, by story; errors of the disk.
pub(super) fn sums(workspace: &Workspace, log: &AttemptLog, by: By) -> Result<CostView> {
    // Only the fields of tasks need the graph, which may be unreadable for the rest.
    let has_task = matches!(by, By::Story | By::Prompt);
    let graph = if has_task { Some(workspace.graph()?) } else { None };
    let task = |id: &TaskId| {
        let graph = graph.as_ref()?.graph();
        Some(graph.task(graph.number(id)?))
    };
    let story = |id| task(id).and_then(|it| it.story.clone()).unwrap_or_else(|| "none".to_owned());
    let prompt =
        |id| task(id).and_then(|it| it.prompt.clone()).unwrap_or_else(|| "task.md".to_owned());
    let unknown = || "unknown".to_owned();
    let (mut total, mut paid) = (<(Spend, u32)>::default(), PaidAttempts::default());
    let mut sums: BTreeMap<String, (Spend, u32)> = BTreeMap::new();
    for entry in log.of(None) {
        let Some((at, ended)) = &entry.ended else {
            continue;
        };
        let ended = &ended.read();
        let key = match by {
            By::Task => entry.task_id.to_string(),
            By::Day => at.with_timezone(&Local).date_naive().to_string(),
            By::Agent => ended.agent.clone().unwrap_or_else(unknown),
            By::Model => ended.usage.model.clone().unwrap_or_else(unknown),
            By::Story => story(&entry.task_id),
            By::Prompt => prompt(&entry.task_id),
        };
        for (spend, done) in [sums.entry(key).or_default(), &mut total] {
            *spend = spend.plus(&ended.spend(None));
            *done += u32::from(ended.verdict == Verdict::Complete);
        }
        paid.add(ended);
    }
    for call in log.calls() {
        let own = || call.what.to_owned();
        let id = call.task_id.as_ref();
        let key = match by {
            By::Task => own(),
            By::Story => id.map_or_else(own, &story),
            By::Prompt => id.map_or_else(own, &prompt),
            By::Day => call.at.with_timezone(&Local).date_naive().to_string(),
            By::Agent => call.agent.clone(),
            By::Model => call.model.clone().unwrap_or_else(unknown),
        };
        for (spend, _) in [sums.entry(key).or_default(), &mut total] {
            *spend = spend.plus(&call.spend);
        }
    }
    Ok(CostView::of(&sums, &total, &paid))
}

fn table(costs: &CostView) -> String {
    let head = ["", "attempts", "done", "time", "cost", "sent", "cached", "written"];
    let total = (costs.sums.len() > 1).then_some(&costs.total);
    let waste = costs.waste.text.iter().map(|text| format!("{text}\n"));
    terminal::table(head, costs.sums.iter().chain(total).map(row)) + &waste.collect::<String>()
}

fn row(CostSum { name, spend: sum, done }: &CostSum) -> [String; 8] {
    let time = Duration::try_from_secs_f64(sum.duration_seconds).unwrap_or_default();
    let tokens = |count: fn(&Tokens) -> u64| {
        let tokens = sum.tokens.as_ref();
        tokens.map_or("unknown".to_owned(), |tokens| count(tokens).to_string())
    };
    [
        name.clone(),
        sum.attempts.to_string(),
        done.to_string(),
        duration::short(time),
        sum.cost.clone(),
        tokens(Tokens::sent),
        tokens(|tokens| tokens.cache_read),
        tokens(|tokens| tokens.output),
    ]
}
