//! `ralph heartbeat`: for cron. Exit 0 or 1, with one line.

use std::{io::ErrorKind, time::Duration};

use anyhow::Result;
use chrono::Utc;

use super::{Invocation, status::look};
use crate::{
    adapters::terminal,
    core::{duration, exit::Exit},
    report::heartbeat,
};

/// Says whether the loop lives. A loop that did not end is dead if its process no longer holds the
/// lock, or if its last beat is older than `max_age`.
///
/// # Errors
/// No repository.
pub fn run(invocation: &Invocation, max_age: Duration) -> Result<Exit> {
    let workspace = invocation.watched()?;
    let name = workspace.place.heartbeat();
    let (exit, text) = match heartbeat::read(&workspace.root().join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            (Exit::Error, format!("no heartbeat: `{name}` does not exist"))
        }
        Err(error) => (Exit::Error, format!("no heartbeat: `{name}`: {error}")),
        Ok((at, facts)) => {
            let age = (Utc::now() - at).to_std().unwrap_or_default();
            let ago = duration::short(age);
            let (store, live) = look(&workspace)?;
            let facts = facts.unwrap_or_default();
            let run = &store.history().run;
            let is_its = !run.id.is_empty() && facts.run_id == run.id;
            let is_gone = is_its && !live && run.finished.is_none();
            let on = facts.task_id.map_or(String::new(), |id| format!(", working on {id}"));
            match facts.finished {
                Some(why) => (Exit::Success, format!("ended {ago} ago: {why}")),
                None if is_gone => {
                    (Exit::Error, format!("dead: its process is gone; last beat {ago} ago{on}"))
                }
                None if age > max_age => {
                    let max = duration::short(max_age);
                    (Exit::Error, format!("dead: last beat {ago} ago, more than {max}{on}"))
                }
                None => (Exit::Success, format!("alive: last beat {ago} ago{on}")),
            }
        }
    };
    terminal::print(&format!("{text}\n"))?;
    Ok(exit)
}
