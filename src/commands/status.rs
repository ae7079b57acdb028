//! `ralph status`: how the run stands, from lock, journal and heartbeat; true also when nobody is
//! left to ask.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, Local, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{
    Invocation,
    underway::{self, AttemptCourse},
};
use crate::{
    adapters::{
        process,
        terminal::{self, visible},
    },
    core::{
        duration,
        event::PlainLoop,
        exit::Exit,
        graph::task::TaskId,
        history::{ActiveAttempt, History, OpenChild, ScheduleState},
        loop_paths::LoopPaths,
    },
    project::{
        event_store::EventStore,
        workspace::{LockHolder, Workspace},
    },
    report::heartbeat,
    view::lines::{clock, moment},
};

/// Shows how the run stands.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn run(here: &Invocation, as_json: bool) -> Result<Exit> {
    let workspace = here.workspace()?;
    let glance = RunStatus::of(&workspace)?;
    terminal::print(&if as_json { terminal::json(&glance.to_value()) } else { glance.text() })?;
    Ok(Exit::Success)
}

/// What the run over the graph is called in a list; no loop can be.
const GRAPH: &str = "(graph)";

/// How much of an agent's command line is in a list, in columns.
const AGENT: usize = 32;

/// What there is to see of one loop.
pub(super) struct RunStatus {
    chronicle: EventStore,
    name: Option<TaskId>,
    standing: Standing,
    beat: Option<Duration>,
    max_attempts: u32,
    done_pattern: Option<String>,
    /// The plain loops that there were.
    loops: Vec<TaskId>,
    /// The attempts that have no end.
    courses: Vec<AttemptCourse>,
}

impl RunStatus {
    /// At the loop that is meant.
    ///
    /// # Errors
    /// As the disk gives them.
    pub(super) fn of(workspace: &Workspace) -> Result<RunStatus> {
        let (chronicle, live) = look(workspace)?;
        let elsewhere = !live && is_elsewhere(workspace, chronicle.history())?;
        let standing = Standing::of(chronicle.history(), live);
        Ok(RunStatus {
            name: workspace.place.name().cloned(),
            standing: if elsewhere { Standing::Elsewhere } else { standing },
            beat: last_beat(workspace).filter(|_| live),
            max_attempts: max_attempts(chronicle.history(), workspace),
            done_pattern: workspace.config.done_pattern.as_ref().map(ToString::to_string),
            loops: workspace.loops().context("list the loops")?,
            courses: AttemptCourse::all(workspace, chronicle.history()),
            chronicle,
        })
    }

    fn text(&self) -> String {
        let history = self.chronicle.history();
        let (standing, beat, max_attempts) = (self.standing, self.beat, self.max_attempts);
        let run = &history.run;
        let begun = &run.begun;
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "{key}: {}", visible(value));
        };
        if let Some(name) = &self.name {
            line("Loop", name.as_str());
        }
        if self.is_blank() && self.name.is_some() {
            line("Status", "none: it has not run yet");
            return text;
        }
        line("Status", &standing.sentence(history));
        if let Some(schedule) = schedule(history) {
            line("Schedule", &waits(schedule));
        }
        if run.id.is_empty() {
            if !self.loops.is_empty() {
                let names: Vec<&str> = self.loops.iter().map(TaskId::as_str).collect();
                line("Plain loops", &format!("{}; `ralph ls` shows them", names.join(", ")));
            }
            return text;
        }
        line("Run", &format!("{}, process {}", run.id, begun.pid));
        if let Some(plain) = &begun.plain {
            self.lines_of_loop(plain, &mut line);
            return text;
        }
        line("Iteration", &format!("{} of {}", run.iterations, begun.max_iterations));
        if let Some(at) = run.started_at {
            line("Started", &full(at));
        }
        if self.courses.is_empty() {
            line("Current attempt", "none");
        }
        for course in &self.courses {
            let (id, attempt, at) =
                (&course.going.task_id, course.going.attempt, course.going.since);
            let age = if course.waits() { format!("for {}", short(at)) } else { self.age(at) };
            let more = course.text().map_or(String::new(), |text| format!("; {text}"));
            line(
                "Current attempt",
                &format!("{id}, attempt {attempt}, since {}, {age}{more}", clock(at)),
            );
            for open in children(history, id) {
                let (name, run) = (open.child.name(), &open.child.child_run_id);
                let (process, age) = (open.child.process.pid, short(open.since));
                line("  child agent", &format!("{name}, run {run}, process {process}, for {age}"));
            }
        }
        if let Some(queue) = underway::queue(&history.active) {
            line("Merge queue", &queue);
        }
        line("Failures in a row", &run.failures_in_a_row.to_string());
        line("Failures in this run", &run.failures.to_string());
        line("Completed", &run.completed.to_string());
        if run.spend.attempts > 0 {
            line("Spent", &run.spend.cost());
        }
        line("Timeout", &limit(begun.timeout_seconds));
        line("Idle limit", &limit(begun.idle_seconds));
        line("Attempts per task", &format!("at most {max_attempts}"));
        line("Agent", &begun.agent.join(" "));
        if let Some(beat) = beat {
            line("Last beat", &format!("{} ago", duration::short(beat)));
        }
        text
    }

    /// What there is to see of a plain loop.
    fn lines_of_loop(&self, plain: &PlainLoop, line: &mut impl FnMut(&str, &str)) {
        let history = self.chronicle.history();
        let (run, begun) = (&history.run, &history.run.begun);
        line("Iteration", &format!("{}/{}", run.iterations, begun.max_iterations));
        if let Some(at) = run.started_at {
            line("Started", &full(at));
        }
        let current = history
            .active
            .attempts
            .first()
            .map(|open| format!("{}, {}", full(open.since), self.age(open.since)));
        line("Current iteration started", current.as_deref().unwrap_or("none runs"));
        for open in history.children.iter().filter(|open| process::is_alive(&open.child.process)) {
            line("  child agent", &format!("{}, for {}", open.child.name(), short(open.since)));
        }
        let most = match plain.max_failures {
            0 => "no limit".to_owned(),
            most => format!("at most {most}"),
        };
        line("Consecutive failures", &format!("{} ({most})", run.failures_in_a_row));
        line("Total failures", &run.failures.to_string());
        if run.spend.attempts > 0 {
            line("Spent", &run.spend.cost());
        }
        line("Timeout", &limit(begun.timeout_seconds));
        line("Inactivity timeout", &limit(begun.idle_seconds));
        line("Restart delay", &limit(Some(plain.restart_delay_seconds)));
        if let Some(max) = plain.max_restarts {
            line("Restarts", &format!("at most {max}"));
        }
        line("Done pattern", self.pattern().unwrap_or("none"));
        line("Prompt file", &plain.prompt_file.display().to_string());
        line("Agent", &begun.agent.join(" "));
        if let Some(beat) = self.beat {
            line("Last beat", &format!("{} ago", duration::short(beat)));
        }
    }

    /// The pattern that ends it, by a flag of its own or by the settings.
    fn pattern(&self) -> Option<&str> {
        let flag = self.chronicle.history().run.begun.flags.get("done_pattern");
        flag.and_then(Value::as_str).or(self.done_pattern.as_deref())
    }

    /// How long an attempt goes on that began then, if it does.
    fn age(&self, at: DateTime<Utc>) -> String {
        match self.standing {
            Standing::Crashed | Standing::Finished | Standing::Paused => "cut off".to_owned(),
            _ => format!("for {}", short(at)),
        }
    }

    /// Whether there is nothing to see.
    pub(super) fn is_blank(&self) -> bool {
        self.standing == Standing::None
    }

    /// As one line of a list.
    pub(super) fn row(&self) -> [String; 7] {
        let run = &self.chronicle.history().run;
        let begun = &run.begun;
        let name = self.name.as_ref().map_or(GRAPH, TaskId::as_str);
        let ended = run.finished.as_ref().map_or("", |(why, _)| why);
        [
            name.to_owned(),
            self.standing.word().to_owned(),
            format!("{}/{}", run.iterations, begun.max_iterations),
            run.started_at.map_or(String::new(), full),
            self.beat.map_or(String::new(), |beat| format!("{} ago", duration::short(beat))),
            terminal::fit(&visible(&begun.agent.join(" ")), AGENT).into_owned(),
            visible(ended).into_owned(),
        ]
    }

    /// As JSON.
    pub(super) fn to_value(&self) -> Value {
        let history = self.chronicle.history();
        let run = &history.run;
        let attempt = |course: &AttemptCourse| {
            let ActiveAttempt { task_id, attempt, since: at, .. } = &course.going;
            let children: Vec<Value> = children(history, task_id).map(child).collect();
            let mut value = json!({
                "task_id": task_id,
                "attempt": attempt,
                "since": at,
                "seconds": since(*at).as_secs(),
                "children": children,
            });
            value.as_object_mut().expect("it is one").extend(course.fields());
            value
        };
        let attempts: Vec<Value> = self.courses.iter().map(attempt).collect();
        json!({
            "name": self.name,
            "status": self.standing.word(),
            "paused": history.paused,
            "why": run.finished.as_ref().map(|(why, _)| why),
            "exit_code": run.finished.as_ref().map(|(_, code)| code),
            "run_id": (!run.id.is_empty()).then_some(&run.id),
            "pid": run.begun.pid,
            "started_at": run.started_at,
            "iteration": run.iterations,
            "attempts": attempts,
            "merge_queue": underway::queue_value(&history.active),
            "failures_in_a_row": run.failures_in_a_row,
            "failures": run.failures,
            "completed": run.completed,
            "spend": run.spend,
            "limits": {
                "timeout_seconds": run.begun.timeout_seconds,
                "idle_seconds": run.begun.idle_seconds,
                "max_iterations": run.begun.max_iterations,
                "max_attempts": self.name.is_none().then_some(self.max_attempts),
            },
            "agent": run.begun.agent,
            "loop": run.begun.plain,
            "done_pattern": self.pattern(),
            "schedule": schedule(history).map(|schedule| json!({
                "awake": schedule.awake,
                "next_wake": schedule.slept.until.filter(|_| !schedule.awake),
                "cron": schedule.slept.cron,
                "time_zone": schedule.slept.time_zone,
                "pid": schedule.slept.process.as_ref().map(|process| process.pid),
            })),
            "last_beat_seconds": self.beat.map(|beat| beat.as_secs()),
        })
    }
}

/// The past, and whether its newest run goes on.
///
/// # Errors
/// As the disk gives them.
pub(super) fn look(workspace: &Workspace) -> Result<(EventStore, bool)> {
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

/// Whether a run goes on that this work tree has no journal of: the lock is for all of them.
fn is_elsewhere(workspace: &Workspace, history: &History) -> Result<bool> {
    let other =
        |holder: LockHolder| holder.run_id != history.run.id && process::is_alive(&holder.process);
    Ok(workspace.state.is_locked().context("look at the lock")?
        && workspace.holder().is_some_and(other))
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
    Elsewhere,
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
            Standing::Elsewhere => "elsewhere",
        }
    }

    pub(super) fn sentence(self, history: &History) -> String {
        let plain = history.run.begun.plain.as_ref();
        let flag =
            plain.map_or(String::new(), |plain| LoopPaths::of_loop(plain.name.clone()).flag());
        let crashed = "no process holds the lock but the newest run has no end";
        let more = match self {
            Standing::None => "no run yet; `ralph run` starts one",
            Standing::Elsewhere => "in another work tree of this repository",
            Standing::Running => return "running".to_owned(),
            Standing::Suspended => "Ctrl-Z made it stand still; `fg` in its terminal goes on",
            Standing::Pausing => &format!("no other attempt starts; `ralph resume{flag}` goes on"),
            Standing::Stopping => "no other attempt starts",
            Standing::Paused => &format!("`ralph resume{flag}` goes on"),
            Standing::Finished => history.run.finished.as_ref().map_or("", |(why, _)| why),
            Standing::Crashed if history.paused => {
                &format!("{crashed}; it is also paused, and `ralph resume{flag}` goes on")
            }
            Standing::Crashed if !flag.is_empty() => {
                &format!("{crashed}; `ralph resume{flag}` goes on")
            }
            Standing::Crashed => &format!("{crashed}; `ralph run` goes on"),
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

/// The schedule by which runs start, if somebody lives who goes by it: a process of its own, or a
/// cron that asked not long ago.
fn schedule(history: &History) -> Option<&ScheduleState> {
    /// A cron asks every minute.
    const OVERDUE: TimeDelta = TimeDelta::minutes(2);
    history.schedule.as_ref().filter(|schedule| match &schedule.slept.process {
        Some(process) => process::is_alive(process),
        None => schedule.slept.until.is_some_and(|until| until + OVERDUE > Utc::now()),
    })
}

fn waits(schedule: &ScheduleState) -> String {
    match schedule.slept.until {
        _ if schedule.awake => "woken; its run goes on".to_owned(),
        None => "waiting for requests".to_owned(),
        Some(until) => format!("next wake {}", moment(until, Utc::now())),
    }
}

/// The child agents of a task that are alive.
fn children<'a>(history: &'a History, id: &'a TaskId) -> impl Iterator<Item = &'a OpenChild> {
    let alive = |open: &&OpenChild| process::is_alive(&open.child.process);
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

/// A limit in seconds, for people.
fn limit(seconds: Option<f64>) -> String {
    let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    length.filter(|length| !length.is_zero()).map_or("none".to_owned(), duration::short)
}

/// Day and time here.
fn full(at: DateTime<Utc>) -> String {
    at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

fn since(at: DateTime<Utc>) -> Duration {
    (Utc::now() - at).to_std().unwrap_or_default()
}

fn short(at: DateTime<Utc>) -> String {
    duration::short(since(at))
}
