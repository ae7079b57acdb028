//! `ralph costs`: what attempts used, by task, day, agent or story.

use std::collections::BTreeMap;

use anyhow::Result;
use chrono::Local;
use serde_json::{Value, json};

use super::Invocation;
use crate::{
    adapters::terminal::{self, visible},
    cli::{By, CostsArgs},
    core::{duration, exit::Exit, history::attempt_log::AttemptEntry, spend::Spend},
};

/// Sums what the journal tells.
///
/// # Errors
/// No repository; an invalid graph, by story; as the disk gives them.
pub fn run(here: &Invocation, options: &CostsArgs) -> Result<Exit> {
    let workspace = here.workspace()?;
    let log = workspace.attempt_log()?;
    // Only stories stand in the graph, which need not be readable for the rest.
    let graph = if options.by == By::Story { Some(workspace.graph()?) } else { None };
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
        let key = match options.by {
            By::Task => entry.task_id.to_string(),
            By::Day => at.with_timezone(&Local).date_naive().to_string(),
            By::Agent => ended.agent.clone().unwrap_or_else(|| "unknown".to_owned()),
            By::Story => story(entry).unwrap_or_else(|| "none".to_owned()),
        };
        sums.entry(key).or_default().add(ended);
        total.add(ended);
    }
    let text = if options.json {
        let sums: Vec<Value> = sums.iter().map(|(key, spend)| as_value(key, spend)).collect();
        terminal::json(&json!({ "sums": sums, "total": as_value("total", &total) }))
    } else if sums.is_empty() {
        "no attempt yet\n".to_owned()
    } else {
        table(&sums, &total)
    };
    terminal::print(&text)?;
    Ok(Exit::Success)
}

/// What is unknown in part has no sum, so that nobody takes it for one.
fn as_value(key: &str, spend: &Spend) -> Value {
    json!({
        "name": key,
        "attempts": spend.attempts,
        "cost_usd": (spend.unknown_cost < spend.attempts).then_some(spend.cost_usd),
        "unknown_cost": spend.unknown_cost,
        "tokens": (spend.unknown_tokens < spend.attempts).then_some(spend.tokens),
        "unknown_tokens": spend.unknown_tokens,
        "duration_seconds": spend.duration_seconds,
    })
}

fn table(sums: &BTreeMap<String, Spend>, total: &Spend) -> String {
    let mut rows =
        vec![["", "attempts", "time", "cost", "sent", "cached", "written"].map(str::to_owned)];
    rows.extend(sums.iter().map(|(key, spend)| row(key, spend)));
    if sums.len() > 1 {
        rows.push(row("total", total));
    }
    terminal::table(&rows)
}

fn row(key: &str, spend: &Spend) -> [String; 7] {
    let time = std::time::Duration::try_from_secs_f64(spend.duration_seconds).unwrap_or_default();
    let tokens = |count: u64| {
        if spend.unknown_tokens == spend.attempts {
            "unknown".to_owned()
        } else {
            count.to_string()
        }
    };
    [
        visible(key).into_owned(),
        spend.attempts.to_string(),
        duration::short(time),
        spend.cost(),
        tokens(spend.tokens.input + spend.tokens.cache_write),
        tokens(spend.tokens.cache_read),
        tokens(spend.tokens.output),
    ]
}
