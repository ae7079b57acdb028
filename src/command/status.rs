//! `ralph status`: how the run stands, from lock, journal and heartbeat; true also when nobody is
//! left to ask.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use chrono::{DateTime, Local, Utc};
use serde_json::{Value, json};

use super::Here;
use crate::{
    agent,
    chronicle::Chronicle,
    duration,
    exit::Exit,
    history::{History, OpenChild},
    prompt::pretty,
    report::{heartbeat, words::clock},
    task::TaskId,
    terminal::{self, visible},
    workspace::Workspace,
};

/// Shows how the run stands.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn run(here: &Here, as_json: bool) -> Result<Exit> {
    let workspace = here.workspace()?;
    let (chronicle, live) = look(&workspace)?;
    let history = chronicle.history();
    let standing = Standing::of(history, live);
    let beat = last_beat(&workspace).filter(|_| live);
    let max_attempts = max_attempts(history, &workspace);
    terminal::print(&if as_json {
        pretty(&as_value(history, standing, beat, max_attempts)) + "\n"
    } else {
        text(history, standing, beat, max_attempts)
    })?;
    Ok(Exit::Success)
}

/// The past, and whether its newest run goes on.
///
/// # Errors
/// As the disk gives them.
pub(super) fn look(workspace: &Workspace) -> Result<(Chronicle, bool)> {
    let mut chronicle = workspace.chronicle()?;
    // The lock before the journal: a run that ended in between has its end there.
    loop {
        let run_id = chronicle.history().run.id.clone();
        let live = workspace.is_live(chronicle.history())?;
        chronicle.catch_up()?;
        if chronicle.history().run.id == run_id {
            return Ok((chronicle, live));
        }
    }
}

/// How long ago a run beat last, if one ever did.
pub(super) fn last_beat(workspace: &Workspace) -> Option<Duration> {
    heartbeat::read(&workspace.root().join(workspace.place.heartbeat()))
        .ok()
        .map(|(at, _)| since(at))
}

/// In a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    None,
    Running,
    Suspended,
    Pausing,
    Stopping,
    Paused,
    Finished,
    Crashed,
}

impl Standing {
    pub(super) fn of(history: &History, live: bool) -> Standing {
        let run = &history.run;
        match (live, &run.finished) {
            (true, None) if run.suspended => Standing::Suspended,
            (true, None) if run.stop.is_some() => Standing::Stopping,
            (true, None) if history.paused => Standing::Pausing,
            (true, None) => Standing::Running,
            (_, None) if !run.id.is_empty() => Standing::Crashed,
            _ if history.paused => Standing::Paused,
            (_, None) => Standing::None,
            (_, Some(_)) => Standing::Finished,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Standing::None => "none",
            Standing::Running => "running",
            Standing::Suspended => "suspended",
            Standing::Pausing => "pausing",
            Standing::Stopping => "stopping",
            Standing::Paused => "paused",
            Standing::Finished => "finished",
            Standing::Crashed => "crashed",
        }
    }

    pub(super) fn sentence(self, history: &History) -> String {
        let more = match self {
            Standing::None => "no run yet; `ralph run` starts one",
            Standing::Running => return "running".to_owned(),
            Standing::Suspended => "Ctrl-Z made it stand still; `fg` in its terminal goes on",
            Standing::Pausing => "no other attempt starts; `ralph resume` goes on",
            Standing::Stopping => "no other attempt starts",
            Standing::Paused => "`ralph resume` goes on",
            Standing::Finished => history.run.finished.as_ref().map_or("", |(why, _)| why),
            Standing::Crashed if history.paused => {
                "no process holds the lock but the newest run has no end; it is also paused, and \
                 `ralph resume` goes on"
            }
            Standing::Crashed => {
                "no process holds the lock but the newest run has no end; `ralph run` goes on"
            }
        };
        format!("{}: {more}", self.word())
    }
}

/// The bound on attempts per task, as the run had it.
fn max_attempts(history: &History, workspace: &Workspace) -> u32 {
    match history.run.begun.max_attempts {
        0 => workspace.policy().max_attempts,
        max => max,
    }
}

fn text(
    history: &History,
    standing: Standing,
    beat: Option<Duration>,
    max_attempts: u32,
) -> String {
    let run = &history.run;
    let begun = &run.begun;
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key}: {}", visible(value));
    };
    line("Status", &standing.sentence(history));
    if run.id.is_empty() {
        return text;
    }
    line("Run", &format!("{}, process {}", run.id, begun.pid));
    line("Iteration", &format!("{} of {}", run.iterations, begun.max_iterations));
    if let Some(at) = run.started_at {
        line("Started", &at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string());
    }
    let open = history.open();
    if open.is_empty() {
        line("Current attempt", "none");
    }
    for (id, attempt, at) in open {
        let cut_off = matches!(standing, Standing::Crashed | Standing::Finished | Standing::Paused);
        let age = if cut_off { "cut off".to_owned() } else { format!("for {}", short(at)) };
        line("Current attempt", &format!("{id}, attempt {attempt}, since {}, {age}", clock(at)));
        for open in children(history, id) {
            let (name, run) = (open.child.name(), &open.child.child_run_id);
            let (process, age) = (open.child.process.pid, short(open.since));
            line("  child agent", &format!("{name}, run {run}, process {process}, for {age}"));
        }
    }
    line("Failures in a row", &run.failures_in_a_row.to_string());
    line("Failures in this run", &run.failures.to_string());
    line("Completed", &run.completed.to_string());
    if run.spend.attempts > 0 {
        line("Spent", &run.spend.cost());
    }
    let limit = |seconds: Option<f64>| {
        let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        length.filter(|length| !length.is_zero()).map_or("none".to_owned(), duration::short)
    };
    line("Timeout", &limit(begun.timeout_seconds));
    line("Idle limit", &limit(begun.idle_seconds));
    line("Attempts per task", &format!("at most {max_attempts}"));
    line("Agent", &begun.agent.join(" "));
    if let Some(beat) = beat {
        line("Last beat", &format!("{} ago", duration::short(beat)));
    }
    text
}

fn as_value(
    history: &History,
    standing: Standing,
    beat: Option<Duration>,
    max_attempts: u32,
) -> Value {
    let run = &history.run;
    let attempts: Vec<Value> = history
        .open()
        .into_iter()
        .map(|(id, attempt, at)| {
            let children: Vec<Value> = children(history, id).map(child).collect();
            json!({
                "task_id": id,
                "attempt": attempt,
                "since": at,
                "seconds": since(at).as_secs(),
                "children": children,
            })
        })
        .collect();
    json!({
        "status": standing.word(),
        "paused": history.paused,
        "why": run.finished.as_ref().map(|(why, _)| why),
        "exit_code": run.finished.as_ref().map(|(_, code)| code),
        "run_id": (!run.id.is_empty()).then_some(&run.id),
        "pid": run.begun.pid,
        "started_at": run.started_at,
        "iteration": run.iterations,
        "attempts": attempts,
        "failures_in_a_row": run.failures_in_a_row,
        "failures": run.failures,
        "completed": run.completed,
        "spend": run.spend,
        "limits": {
            "timeout_seconds": run.begun.timeout_seconds,
            "idle_seconds": run.begun.idle_seconds,
            "max_iterations": run.begun.max_iterations,
            "max_attempts": max_attempts,
        },
        "agent": run.begun.agent,
        "last_beat_seconds": beat.map(|beat| beat.as_secs()),
    })
}

/// The child agents of a task that are alive.
fn children<'a>(history: &'a History, id: &'a TaskId) -> impl Iterator<Item = &'a OpenChild> {
    let alive = |open: &&OpenChild| agent::is_alive(&open.child.process);
    history.children.iter().filter(|open| open.task_id == *id).filter(alive)
}

fn child(open: &OpenChild) -> Value {
    json!({
        "run_id": open.child.child_run_id,
        "parent_run_id": open.child.parent_run_id,
        "name": open.child.name(),
        "argv": open.child.argv,
        "pid": open.child.process.pid,
        "since": open.since,
        "seconds": since(open.since).as_secs(),
    })
}

fn since(at: DateTime<Utc>) -> Duration {
    (Utc::now() - at).to_std().unwrap_or_default()
}

fn short(at: DateTime<Utc>) -> String {
    duration::short(since(at))
}
