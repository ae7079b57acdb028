//! `ralph ls`: every loop of this repository and how it stands, by lock and journal.

use std::iter;

use anyhow::Result;
use chrono::Utc;

use super::{Invocation, status};
use crate::{
    adapters::terminal::{self, visible},
    core::{exit::Exit, graph::task::TaskId},
    view::{
        lines::{full, short},
        run::RunView,
    },
};

/// The heads of the columns.
const HEAD: [&str; 7] =
    ["name", "status", "iteration", "since", "last beat", "agent", "how it ended"];

/// What the run over the graph is called; no loop can have this name.
const GRAPH: &str = "(graph)";

/// How much of an agent's command line is shown, in columns.
const AGENT: usize = 32;

/// Lists them, the run over the graph first.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn run(invocation: &Invocation, as_json: bool) -> Result<Exit> {
    let mut views = Vec::new();
    for workspace in invocation.all_loops()? {
        let view = status::read(&workspace, Utc::now())?;
        if !view.is_blank() {
            views.push(view);
        }
    }
    let text = if as_json {
        terminal::json(&views)
    } else if views.is_empty() {
        "no loop yet; `ralph run` and `ralph loop` start one\n".to_owned()
    } else {
        let head = HEAD.map(str::to_owned);
        let rows: Vec<[String; 7]> = iter::once(head).chain(views.iter().map(row)).collect();
        terminal::table(&rows)
    };
    terminal::print(&text)?;
    Ok(Exit::Success)
}

fn row(view: &RunView) -> [String; 7] {
    let name = view.name.as_ref().map_or(GRAPH, TaskId::as_str);
    [
        name.to_owned(),
        view.status.word().to_owned(),
        format!("{}/{}", view.iteration, view.limits.max_iterations),
        view.started_at.map_or(String::new(), full),
        view.last_beat_seconds.map_or(String::new(), |beat| format!("{} ago", short(beat))),
        terminal::fit(&visible(&view.agent.join(" ")), AGENT).into_owned(),
        view.why.as_deref().map_or(String::new(), |why| visible(why).into_owned()),
    ]
}
