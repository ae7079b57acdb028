//! `ralph ls`: every loop of this repository and how it stands, by lock and journal.

use std::iter;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Invocation, status::RunStatus};
use crate::{
    adapters::terminal,
    core::{exit::Exit, loop_paths::LoopPaths},
};

/// What stands over the columns.
const HEAD: [&str; 7] =
    ["name", "status", "iteration", "since", "last beat", "agent", "how it ended"];

/// Lists them, the run over the graph first.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn run(here: &Invocation, as_json: bool) -> Result<Exit> {
    let names = here.workspace()?.loops().context("list the loops")?;
    let places = iter::once(LoopPaths::default()).chain(names.into_iter().map(LoopPaths::of_loop));
    let mut glances = Vec::new();
    for place in places {
        let glance = RunStatus::of(&here.open(place)?)?;
        if !glance.is_blank() {
            glances.push(glance);
        }
    }
    let text = if as_json {
        terminal::json(&glances.iter().map(RunStatus::to_value).collect::<Vec<Value>>())
    } else if glances.is_empty() {
        "no loop yet; `ralph run` and `ralph loop` start one\n".to_owned()
    } else {
        let head = HEAD.map(str::to_owned);
        let rows: Vec<[String; 7]> =
            iter::once(head).chain(glances.iter().map(RunStatus::row)).collect();
        terminal::table(&rows)
    };
    terminal::print(&text)?;
    Ok(Exit::Success)
}
