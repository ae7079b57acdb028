//! `ralph costs`: what attempts and drafts used, by task, day, agent or story.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use chrono::Local;

use super::Invocation;
use crate::{
    adapters::terminal::{self, visible},
    cli::{By, CostsArgs},
    core::{
        duration,
        exit::Exit,
        history::attempt_log::{AttemptEntry, AttemptLog},
        spend::Spend,
    },
    project::workspace::Workspace,
    view::spend::{CostSum, CostView, TokensView},
};

/// The row of the calls of `ralph draft`. No task has an id with a blank.
const DRAFTS: &str = "ralph draft";

/// Sums what the attempts of the journal used.
///
/// # Errors
/// No repository; an invalid graph, by story; as the disk gives them.
pub fn run(invocation: &Invocation, options: &CostsArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let costs = sums(&workspace, &workspace.attempt_log()?, options.by)?;
    let text = if options.json {
        terminal::json(&costs)
    } else if costs.sums.is_empty() {
        "no attempt yet\n".to_owned()
    } else {
        table(&costs)
    };
    terminal::print(&text)?;
    Ok(Exit::Success)
}

/// The sums of what attempts used, in groups.
///
/// # Errors
/// An invalid graph, by story; errors of the disk.
pub(super) fn sums(workspace: &Workspace, log: &AttemptLog, by: By) -> Result<CostView> {
    // Only stories need the graph, which may be unreadable for the rest.
    let graph = if by == By::Story { Some(workspace.graph()?) } else { None };
    let story = |entry: &AttemptEntry| {
        let graph = graph.as_ref()?.graph();
        graph.task(graph.number(&entry.task_id)?).story.clone()
    };
    let mut total = Spend::default();
    let mut sums: BTreeMap<String, Spend> = BTreeMap::new();
    for entry in log.of(None) {
        let Some((at, ended)) = &entry.ended else {
            continue;
        };
        let key = match by {
            By::Task => entry.task_id.to_string(),
            By::Day => at.with_timezone(&Local).date_naive().to_string(),
            By::Agent => ended.agent.clone().unwrap_or_else(|| "unknown".to_owned()),
            By::Story => story(entry).unwrap_or_else(|| "none".to_owned()),
        };
        sums.entry(key).or_default().add(ended);
        total.add(ended);
    }
    for (at, call) in log.drafts() {
        let key = match by {
            By::Task | By::Story => DRAFTS.to_owned(),
            By::Day => at.with_timezone(&Local).date_naive().to_string(),
            By::Agent => call.agent.clone(),
        };
        sums.entry(key).or_default().add_draft(call);
        total.add_draft(call);
    }
    Ok(CostView::of(&sums, &total))
}

fn table(costs: &CostView) -> String {
    let mut rows =
        vec![["", "attempts", "time", "cost", "sent", "cached", "written"].map(str::to_owned)];
    rows.extend(costs.sums.iter().map(row));
    if costs.sums.len() > 1 {
        rows.push(row(&costs.total));
    }
    terminal::table(&rows)
}

fn row(sum: &CostSum) -> [String; 7] {
    let time = Duration::try_from_secs_f64(sum.duration_seconds).unwrap_or_default();
    let tokens = |count: fn(&TokensView) -> u64| {
        let tokens = sum.tokens.as_ref();
        tokens.map_or("unknown".to_owned(), |tokens| count(tokens).to_string())
    };
    [
        visible(&sum.name).into_owned(),
        sum.attempts.to_string(),
        duration::short(time),
        sum.cost.clone(),
        tokens(TokensView::sent),
        tokens(|tokens| tokens.cache_read),
        tokens(|tokens| tokens.output),
    ]
}
