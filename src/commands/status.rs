//! `ralph status` and `ralph heartbeat`: how runs stand, from lock, journal and heartbeat; true also when
//! no process is left to ask.

mod run_report;

use std::{fmt::Write as _, io::ErrorKind, thread, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use super::{Invocation, success};
use crate::{
    adapters::{
        process,
        terminal::{self, Paint, visible},
    },
    cli::StatusArgs,
    core::{
        duration,
        exit::{Exit, fail},
        graph::task::TaskId,
        history::{ActiveAttempt, History},
        loop_paths::LoopPaths,
    },
    project::{
        attempt::AttemptRecord,
        event_store::EventStore,
        follower::Follower,
        workspace::{LockUse, Workspace},
    },
    report::heartbeat,
    view::{
        attempt::AttemptView,
        lines::{Line, clock, full, limit, short},
        page::{Markup, TextPage},
        run::{LoopView, RunFacts, RunView, Standing},
        run_report::RunReport,
        waits::waiting_text,
    },
};
pub(super) use run_report::{read_chosen, read_for_person};

/// The rows to fill where no terminal says how many it has.
const ROWS: usize = 30;

/// Shows how the run stands.
///
/// # Errors
/// No repository; errors of the disk.
pub fn run(invocation: &Invocation, options: &StatusArgs) -> Result<Exit> {
    if options.watch {
        return watch(
            |now| page(invocation, options, now),
            "the run cannot be read: `ralph status`",
        );
    }
    let now = Utc::now();
    let read = if options.json { read_chosen } else { read_for_person };
    success(&text(invocation, options, &read(invocation, options.run, now)?, now)?)
}

fn page(invocation: &Invocation, options: &StatusArgs, now: DateTime<Utc>) -> Result<String> {
    text(invocation, options, &read_chosen(invocation, options.run, now)?, now)
}

fn text(
    invocation: &Invocation,
    options: &StatusArgs,
    report: &RunReport,
    now: DateTime<Utc>,
) -> Result<String> {
    Ok(if options.json {
        terminal::json(report)
    } else if report.run.name.is_some() {
        text_of_loop(&report.run, now)
    } else {
        let loops = if options.run.is_none() { loops(invocation, now)? } else { String::new() };
        let rows = terminal::stdout_height().unwrap_or(ROWS);
        let rows = rows.saturating_sub(loops.lines().count());
        drawn(&report.status(terminal::stdout_width(), rows, now), None) + &loops
    })
}

/// How often a watched page looks for a change.
const LOOK: Duration = Duration::from_millis(500);

/// Redraws a page whenever it changes, until Ctrl-C. While it cannot be made, the last one stays, with
/// a line that says so.
///
/// # Errors
/// No terminal; the first page cannot be made.
pub(super) fn watch(page: impl Fn(DateTime<Utc>) -> Result<String>, trouble: &str) -> Result<Exit> {
    if !terminal::stdout_is_terminal() {
        return fail(
            Exit::Usage,
            "`--watch` redraws a terminal, and the output is none; without it the state is printed \
             once",
        );
    }
    let now = Utc::now();
    let (mut good, mut read_at) = (page(now)?, now);
    let (mut text, mut drawn) = (good.clone(), None);
    loop {
        let screen = (terminal::stdout_width(), terminal::stdout_height());
        if drawn.as_ref() != Some(&(text.clone(), screen)) {
            match terminal::redraw(&text, screen.1) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
                result => result?,
            }
            drawn = Some((text, screen));
        }
        thread::sleep(LOOK);
        let now = Utc::now();
        text = if let Ok(page) = page(now) {
            (good, read_at) = (page, now);
            good.clone()
        } else {
            format!("as of {}; {trouble}\n{good}", clock(read_at))
        };
    }
}

/// Lines in the colors of standard output, cut at a width.
pub(super) fn drawn(lines: &[Line], width: Option<usize>) -> String {
    let paint = Paint::for_stream(&std::io::stdout());
    let mut text = String::new();
    for Line { style, text: line } in lines {
        let line = width.map_or(line.as_str().into(), |width| terminal::fit(line, width));
        let _ = writeln!(text, "{}", paint.rows(*style, &line, None).join("\n"));
    }
    text
}

/// A row of a list: what names a task, padded to `columns`, its title, and a note. The note says what to
/// do, so the title gives way.
pub(super) fn row(
    (name, columns): (&str, usize),
    (id, title): (&TaskId, &str),
    note: &str,
    width: Option<usize>,
) -> String {
    let used = terminal::columns(name);
    let title = if title == id.as_str() { "".into() } else { visible(title) };
    let room = width.map(|width| {
        let note = if note.is_empty() { 0 } else { terminal::columns(note) + 2 };
        width.saturating_sub(used.max(columns) + 2 + note).max(8)
    });
    let title = room.map_or_else(|| title.clone(), |room| terminal::fit(&title, room));
    let mut row = format!("{name}{}", " ".repeat(columns.saturating_sub(used)));
    for part in [&*title, note].into_iter().filter(|part| !part.is_empty()) {
        row += "  ";
        row += part;
    }
    row.truncate(row.trim_end().len());
    row
}

/// The newest run of a history; `live` where a process holds its lock.
fn of_history(
    workspace: &Workspace,
    history: &History,
    live: bool,
    now: DateTime<Utc>,
) -> Result<RunView> {
    let other = if live { None } else { standing_of_other(workspace, history)? };
    let standing = other.unwrap_or_else(|| Standing::of(history, live));
    let process = history.schedule.as_ref().and_then(|schedule| schedule.slept.process.as_ref());
    let facts = RunFacts {
        name: workspace.place.name().cloned(),
        standing,
        last_beat: last_beat(workspace).filter(|_| live),
        max_attempts: max_attempts(history, workspace),
        done_pattern: workspace.config.done_pattern.as_ref().map(ToString::to_string),
        loops: workspace.loops().context("list the loops")?,
        attempts: open_attempts(workspace, history, now),
        scheduled: process.map(process::is_alive),
    };
    Ok(RunView::of(history, facts, now))
}

/// The attempts that have not ended, the oldest first.
pub(super) fn open_attempts(
    workspace: &Workspace,
    history: &History,
    now: DateTime<Utc>,
) -> Vec<AttemptView> {
    let records: Vec<AttemptRecord> = workspace.state.peek();
    let view = |active: &ActiveAttempt| {
        let same =
            |one: &&AttemptRecord| one.task_id == active.task_id && one.attempt == active.attempt;
        let record = records.iter().find(same);
        let slot = record.and_then(|open| Some(open.slot.as_ref()?.path.clone()));
        let branch = record.and_then(|open| open.branch.clone());
        AttemptView::of(active, (slot, branch), workspace.root(), now)
    };
    history.active.attempts.iter().map(view).collect()
}

/// The lines of a plain loop.
fn text_of_loop(view: &RunView, now: DateTime<Utc>) -> String {
    let mut page = TextPage::new(Markup::Terminal(terminal::stdout_width()));
    write_loop(&mut page, view, now);
    drawn(&page.lines, None)
}

fn write_loop(page: &mut TextPage, view: &RunView, now: DateTime<Utc>) {
    if let Some(name) = &view.name {
        page.field("Loop", name.as_str());
    }
    if view.is_blank() {
        page.field("Status", "none: it has not run yet");
        return;
    }
    page.field("Status", &view.sentence());
    if let Some(waiting) = &view.waiting {
        page.field("Waiting", &waiting_text(waiting, now));
    }
    for executor in &view.unreachable {
        page.field("Executor", &executor.text(view.goes_on(), now));
    }
    if let Some(schedule) = &view.schedule {
        page.field("Schedule", &schedule.text(now));
    }
    if let Some(run_id) = &view.run_id {
        page.field("Run", &format!("{run_id}, process {}", view.pid.unwrap_or_default()));
    }
    if let Some(plain) = &view.plain {
        lines_of_loop(view, plain, page);
    }
    if let Some(beat) = view.last_beat_seconds {
        page.field("Last beat", &format!("{} ago", short(beat)));
    }
}

/// A plain loop.
fn lines_of_loop(view: &RunView, plain: &LoopView, page: &mut TextPage) {
    page.field("Iteration", &format!("{}/{}", view.iteration, view.limits.max_iterations));
    if let Some(at) = view.started_at {
        page.field("Started", &full(at));
    }
    let current = view.attempts.first();
    let current = current.map(|open| format!("{}, {}", full(open.since), open.age(view.goes_on())));
    page.field("Current iteration started", current.as_deref().unwrap_or("none runs"));
    let most = match plain.max_failures {
        0 => "no limit".to_owned(),
        most => format!("at most {most}"),
    };
    page.field("Consecutive failures", &format!("{} ({most})", view.failures_in_a_row));
    page.field("Total failures", &view.failures.to_string());
    if view.spend.attempts > 0 {
        page.field("Spent", &view.spend.cost);
    }
    page.field("Timeout", &limit(view.limits.timeout_seconds));
    page.field("Inactivity timeout", &limit(view.limits.idle_seconds));
    if plain.isolated {
        page.field("Works in", "a slot; lands when it is done");
    }
    if let Some(kept) = &plain.not_landed {
        page.field("Not landed", kept);
    }
    page.field("Restart delay", &limit(Some(plain.restart_delay_seconds)));
    if let Some(max) = plain.max_restarts {
        page.field("Restarts", &format!("at most {max}"));
    }
    page.field("Done pattern", view.done_pattern.as_deref().unwrap_or("none"));
    page.field("Prompt file", &plain.prompt_file.display().to_string());
    page.field("Agent", &view.agent.join(" "));
}

/// Reads the past, and whether its newest run has a living process.
///
/// # Errors
/// Errors of the disk.
pub(super) fn look(workspace: &Workspace) -> Result<(EventStore, bool)> {
    let mut store = workspace.event_store()?;
    // The lock before the journal: a run that ended in between has its end there.
    loop {
        let run_id = store.history().run.id.clone();
        let live = workspace.is_live(store.history())?;
        store.catch_up()?;
        if store.history().run.id == run_id {
            look_at_checkout(workspace, &mut store)?;
            return Ok((store, live));
        }
    }
}

/// Looks again at what the history says to wait for a checkout.
///
/// # Errors
/// Errors of git.
pub(super) fn look_at_checkout(workspace: &Workspace, store: &mut EventStore) -> Result<()> {
    let known = store.history().active.waiting.as_ref().map(|known| known.branch.clone());
    if let Some(branch) = known {
        store.note_waiting(Follower::of(workspace, &branch).waiting()?);
    }
    Ok(())
}

/// How a run stands that holds the lock, which all worktrees share, and has no journal here: it starts, or
/// is in another worktree.
fn standing_of_other(workspace: &Workspace, history: &History) -> Result<Option<Standing>> {
    let is_locked = workspace.state.is_locked().context("look at the lock")?;
    let holder = workspace.holder().filter(|it| is_locked && process::may_live(&it.process));
    Ok(holder.and_then(|holder| match holder.holds_for {
        LockUse::Start => Some(Standing::Starting),
        LockUse::Run => (holder.run_id != history.run.id).then_some(Standing::Elsewhere),
        LockUse::Doctor => None,
    }))
}

/// How long ago a run beat last, if one ever did.
pub(super) fn last_beat(workspace: &Workspace) -> Option<Duration> {
    heartbeat::read(&workspace.root().join(workspace.place.heartbeat()))
        .ok()
        .map(|(at, _)| (Utc::now() - at).to_std().unwrap_or_default())
}

/// The bound on attempts per task, as the run had it.
fn max_attempts(history: &History, workspace: &Workspace) -> u32 {
    match history.run.begun.max_attempts {
        0 => workspace.policy().max_attempts,
        max => max,
    }
}

/// The heads of the columns.
const HEAD: [&str; 4] = ["loop", "status", "iteration", "how it ended"];

/// The table of the plain loops; empty if there are none.
fn loops(invocation: &Invocation, now: DateTime<Utc>) -> Result<String> {
    let mut rows = Vec::new();
    // With default settings: invalid ones do not hide what runs.
    let directory = invocation.directory()?;
    let graph = Workspace::unset(&directory, LoopPaths::default())?;
    for name in graph.loops().context("list the loops")? {
        let workspace = Workspace::unset(&directory, LoopPaths::of_loop(name))?;
        let (store, live) = look(&workspace)?;
        let view = of_history(&workspace, store.history(), live, now)?;
        if !view.is_blank() {
            rows.push(loop_row(&view));
        }
    }
    let is_blank = rows.is_empty();
    Ok(if is_blank { String::new() } else { format!("\n{}", terminal::table(HEAD, rows)) })
}

fn loop_row(view: &RunView) -> [String; 4] {
    [
        view.name.as_ref().map(ToString::to_string).unwrap_or_default(),
        view.status.word().to_owned(),
        format!("{}/{}", view.iteration, view.limits.max_iterations),
        view.why.clone().unwrap_or_default(),
    ]
}

/// Says whether the loop lives. A loop that did not end is dead if its process no longer holds the
/// lock, or if its last beat is older than `max_age`.
///
/// # Errors
/// No repository.
pub fn heartbeat(invocation: &Invocation, max_age: Duration) -> Result<Exit> {
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
