//! `ralph dag-status`: what is done, in progress, ready and blocked, and by what.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Invocation, active, filter, open_attempts, underway::AttemptCourse};
use crate::{
    adapters::terminal::{self, Paint, Style, visible},
    cli::DagStatusArgs,
    core::{
        attempt::AttemptState,
        duration,
        exit::Exit,
        graph::task::{Status, Task},
        history::ActiveAttempt,
        select::{Policy, SelectionKey, TaskState, View},
    },
    project::{
        event_store::EventStore,
        workspace::{Workspace, view},
    },
    view::lines::moment,
};

/// How many tasks of each part are shown without `--all`.
const SHOWN: usize = 15;

/// Shows how the graph stands.
///
/// # Errors
/// No repository; an invalid graph.
pub fn run(here: &Invocation, options: DagStatusArgs) -> Result<Exit> {
    let workspace = here.workspace()?;
    let file = workspace.graph()?;
    let chronicle = workspace.chronicle()?;
    let policy = Policy { filter: filter(options.which), ..workspace.policy() };
    let open = open_attempts(&workspace, chronicle.history())?;
    let active = active(&open, file.graph(), chronicle.history());
    let view = View { active: &active, ..view(&file, chronicle.history(), &policy) };
    let parts = Parts::of(&view, &workspace, &chronicle)?;
    if options.json {
        terminal::print(&terminal::json(&parts.json(&view, file.name())))?;
    } else {
        let shown = if options.all { usize::MAX } else { SHOWN };
        terminal::print(&DagStatusPage::new(shown).text(&parts, &view, file.name(), &chronicle))?;
    }
    Ok(Exit::Success)
}

/// A task in progress.
struct Claimed {
    number: usize,
    /// Whether an attempt of a living run works on it.
    live: bool,
    age: Option<Duration>,
    stale: bool,
    /// The attempt that has no end.
    course: Option<AttemptCourse>,
}

/// The tasks by state, each list in the order in which it is shown.
#[derive(Default)]
struct Parts {
    total: usize,
    complete: usize,
    cancelled: usize,
    in_progress: Vec<Claimed>,
    parked: Vec<usize>,
    needs_input: Vec<usize>,
    held: Vec<usize>,
    ready: Vec<usize>,
    /// Each with what it cannot be worked on beside.
    apart: Vec<(usize, String)>,
    backoff: Vec<(usize, DateTime<Utc>)>,
    waiting: Vec<(usize, Vec<usize>)>,
}

impl Parts {
    fn of(view: &View<'_>, workspace: &Workspace, chronicle: &EventStore) -> Result<Parts> {
        let now = Utc::now();
        let running = workspace.is_live(chronicle.history())?;
        let (mut parts, mut ready) = (Parts::default(), Vec::new());
        let mut courses = AttemptCourse::all(workspace, chronicle.history());
        for number in view.admitted() {
            parts.total += 1;
            match view.state(number, now) {
                TaskState::Complete => parts.complete += 1,
                TaskState::Cancelled => parts.cancelled += 1,
                TaskState::Running | TaskState::Claimed => {
                    let task = view.graph.task(number);
                    let active = chronicle.history().active.of(&task.id);
                    let live = running && active.is_some();
                    let age = age(task, active, now);
                    let limit = task.stale_after.unwrap_or(view.policy.stale_after);
                    let stale = !live && age.is_none_or(|age| age > limit);
                    let at = courses.iter().position(|course| course.going.task_id == task.id);
                    let course = at.map(|at| courses.swap_remove(at));
                    parts.in_progress.push(Claimed { number, live, age, stale, course });
                }
                TaskState::Parked(_) | TaskState::Spent => parts.parked.push(number),
                TaskState::NeedsInput => parts.needs_input.push(number),
                TaskState::Held => parts.held.push(number),
                // A run that begins tries its agent again.
                TaskState::Ready | TaskState::Denied => ready.push(view.keys[number]),
                TaskState::Apart => {
                    let why = view.apart(number, now).map(|bar| view.explain(bar));
                    parts.apart.push((number, why.unwrap_or_default()));
                }
                TaskState::Backoff(until) | TaskState::Limited(until) => {
                    parts.backoff.push((number, until));
                }
                TaskState::Waiting => {
                    parts.waiting.push((number, view.waits_for(number).collect()));
                }
            }
        }
        ready.sort_unstable();
        parts.ready = ready.into_iter().map(|key: SelectionKey| key.number).collect();
        Ok(parts)
    }

    fn json(&self, view: &View<'_>, file: &str) -> Value {
        let task = |number: usize| -> serde_json::Map<String, Value> {
            let task = view.graph.task(number);
            let fields = json!({ "id": task.id, "title": task.title, "priority": task.priority });
            fields.as_object().cloned().unwrap_or_default()
        };
        let with = |number: usize, more: Value| -> Value {
            let mut fields = task(number);
            fields.extend(more.as_object().cloned().unwrap_or_default());
            Value::Object(fields)
        };
        let plain = |numbers: &[usize]| -> Vec<Value> {
            numbers.iter().map(|number| Value::Object(task(*number))).collect()
        };
        let in_progress: Vec<Value> = self
            .in_progress
            .iter()
            .map(|claimed| {
                let of = view.graph.task(claimed.number);
                let mut more = json!({
                    "live": claimed.live,
                    "stale": claimed.stale,
                    "age_seconds": claimed.age.map(|age| age.as_secs()),
                    "claimed_at": of.claimed_at,
                    "claimed_by": of.claimed_by,
                });
                let fields = claimed.course.as_ref().map(AttemptCourse::fields);
                more.as_object_mut().expect("it is one").extend(fields.into_iter().flatten());
                with(claimed.number, more)
            })
            .collect();
        let parked: Vec<Value> =
            self.parked.iter().map(|n| with(*n, json!({ "why": last_words(view, *n) }))).collect();
        let blocked: Vec<Value> = self
            .waiting
            .iter()
            .map(|(number, on)| {
                let on: Vec<&str> = on.iter().map(|d| view.graph.task(*d).id.as_str()).collect();
                with(*number, json!({ "on": on }))
            })
            .collect();
        json!({
            "file": file,
            "counts": {
                "total": self.total,
                "complete": self.complete,
                "cancelled": self.cancelled,
                "in_progress": self.in_progress.len(),
                "parked": self.parked.len(),
                "needs_input": self.needs_input.len(),
                "held": self.held.len(),
                "ready": self.ready.len(),
                "kept_apart": self.apart.len(),
                "backing_off": self.backoff.len(),
                "blocked": self.waiting.len(),
            },
            "in_progress": in_progress,
            "parked": parked,
            "needs_input": self.needs_input.iter()
                .map(|number| with(*number, json!({ "question": question(view, *number) })))
                .collect::<Vec<_>>(),
            "held": plain(&self.held),
            "ready": plain(&self.ready),
            "kept_apart": self.apart.iter()
                .map(|(number, why)| with(*number, json!({ "why": why })))
                .collect::<Vec<_>>(),
            "backing_off": self.backoff.iter()
                .map(|(number, until)| with(*number, json!({ "until": until })))
                .collect::<Vec<_>>(),
            "blocked": blocked,
        })
    }
}

/// How long a task has been in progress, by the journal or by what the file says.
fn age(task: &Task, active: Option<&ActiveAttempt>, now: DateTime<Utc>) -> Option<Duration> {
    let claimed = task.claimed_at.as_deref().and_then(|at| DateTime::parse_from_rfc3339(at).ok());
    let since = active.map(|active| active.since).or(claimed.map(|at| at.to_utc()))?;
    Some((now - since).to_std().unwrap_or_default())
}

/// Why the newest attempt at a task did not complete it.
fn last_words(view: &View<'_>, number: usize) -> String {
    let past = view.history.of(&view.graph.task(number).id);
    past.last
        .as_ref()
        .map_or_else(String::new, |last| format!("{}: {}", last.ended.verdict, last.ended.why))
}

/// What the newest attempt at a task asks a person.
fn question<'a>(view: &View<'a>, number: usize) -> Option<&'a str> {
    view.history.of(&view.graph.task(number).id).question()
}

/// The page for people: as wide as the terminal, or as wide as it needs to be.
struct DagStatusPage {
    shown: usize,
    width: Option<usize>,
    paint: Paint,
    text: String,
}

impl DagStatusPage {
    fn new(shown: usize) -> DagStatusPage {
        let paint = Paint::for_stream(&std::io::stdout());
        DagStatusPage { shown, width: terminal::stdout_width(), paint, text: String::new() }
    }

    fn text(
        mut self,
        parts: &Parts,
        view: &View<'_>,
        file: &str,
        chronicle: &EventStore,
    ) -> String {
        self.counts(parts, file);
        self.in_progress(parts, view);
        self.part(
            "Parked: out of attempts",
            Style::Bad,
            &parts.parked,
            |number| {
                let id = &view.graph.task(*number).id;
                (*number, format!("{}; `ralph task-reset {id}`", last_words(view, *number)))
            },
            view,
        );
        self.part(
            "Needs input; `ralph answer ID \"…\"`",
            Style::Warn,
            &parts.needs_input,
            |number| {
                let first = question(view, *number).and_then(|text| text.lines().next());
                (*number, first.unwrap_or_default().to_owned())
            },
            view,
        );
        self.part("Held back by hand", Style::Warn, &parts.held, |n| (*n, String::new()), view);
        self.part(
            "Ready, in the order they will run",
            Style::Good,
            &parts.ready,
            |number| (*number, view.graph.task(*number).priority.to_string()),
            view,
        );
        self.part(
            "Ready, but not beside what runs now",
            Style::Warn,
            &parts.apart,
            |(number, why)| (*number, why.clone()),
            view,
        );
        self.part(
            "Ready again later",
            Style::Warn,
            &parts.backoff,
            |(number, until)| (*number, format!("until {}", moment(*until, Utc::now()))),
            view,
        );
        self.part(
            "Blocked",
            Style::Faint,
            &parts.waiting,
            |(number, on)| (*number, format!("waits for {}", blockers(view, on))),
            view,
        );
        let skipped = chronicle.skipped();
        if skipped.damaged > 0 {
            self.line(
                None,
                &format!(
                    "\n{} lines of the journal could not be read and were skipped",
                    skipped.damaged
                ),
            );
        }
        self.text
    }

    fn counts(&mut self, parts: &Parts, file: &str) {
        let mut counts = vec![format!("{} of {} complete", parts.complete, parts.total)];
        for (count, word) in [
            (parts.in_progress.len(), "in progress"),
            (parts.parked.len(), "parked"),
            (parts.needs_input.len(), "need input"),
            (parts.held.len(), "held"),
            (parts.ready.len(), "ready"),
            (parts.apart.len(), "kept apart"),
            (parts.backoff.len(), "backing off"),
            (parts.waiting.len(), "blocked"),
            (parts.cancelled, "cancelled"),
        ] {
            if count > 0 {
                counts.push(format!("{count} {word}"));
            }
        }
        self.line(Some(Style::Strong), &format!("{file}: {}", counts.join(", ")));
    }

    fn in_progress(&mut self, parts: &Parts, view: &View<'_>) {
        self.part(
            "In progress",
            Style::Warn,
            &parts.in_progress,
            |claimed| {
                let task = view.graph.task(claimed.number);
                let mut note = claimed.age.map_or("since when is not known".to_owned(), |age| {
                    format!("for {}", duration::short(age))
                });
                let course = claimed.course.as_ref();
                if claimed.live
                    && course.is_none_or(|course| course.going.state == AttemptState::Running)
                {
                    note += ", an agent is at work";
                } else if let Some(by) = task.claimed_by.as_ref().filter(|_| !claimed.live) {
                    let _ = write!(note, ", by {by}");
                }
                if let Some(text) = course.and_then(AttemptCourse::text) {
                    let _ = write!(note, ", {text}");
                }
                if claimed.stale {
                    let _ = write!(note, ", STALE; `ralph task-reset {}` gives it back", task.id);
                }
                (claimed.number, note)
            },
            view,
        );
    }

    /// A heading and a line for each task: id, title, note.
    fn part<T>(
        &mut self,
        heading: &str,
        style: Style,
        items: &[T],
        describe: impl Fn(&T) -> (usize, String),
        view: &View<'_>,
    ) {
        if items.is_empty() {
            return;
        }
        self.line(None, "");
        self.line(Some(style), heading);
        let shown: Vec<(usize, String)> = items.iter().take(self.shown).map(describe).collect();
        let ids = shown.iter().map(|(number, _)| view.graph.task(*number).id.as_str().len());
        let ids = ids.max().unwrap_or(0);
        for (number, note) in &shown {
            let task = view.graph.task(*number);
            let mut line = format!("  {:<ids$}", task.id);
            let note = visible(note);
            let title =
                if task.title == task.id.as_str() { "".into() } else { visible(&task.title) };
            // The note says what to do, so the title gives way.
            let room =
                self.width.map(|width| width.saturating_sub(ids + 6 + terminal::columns(&note)));
            let title = match room {
                Some(room) => terminal::fit(&title, room.max(8)).into_owned(),
                None => title.into_owned(),
            };
            for part in [title.as_str(), &note] {
                if !part.is_empty() {
                    line += "  ";
                    line += part;
                }
            }
            self.line(None, &line);
        }
        if items.len() > shown.len() {
            self.line(
                Some(Style::Faint),
                &format!("  … and {} more (--all)", items.len() - shown.len()),
            );
        }
    }

    fn line(&mut self, style: Option<Style>, text: &str) {
        let text = match self.width {
            Some(width) => terminal::fit(text, width),
            None => text.into(),
        };
        self.text += &match style {
            Some(style) => self.paint.text(style, text),
            None => text,
        };
        self.text.push('\n');
    }
}

/// What a task waits for; each with its state where that is not simply "not yet".
fn blockers(view: &View<'_>, on: &[usize]) -> String {
    const NAMED: usize = 4;
    let mut names: Vec<String> = on
        .iter()
        .take(NAMED)
        .map(|number| {
            let task = view.graph.task(*number);
            match task.status {
                Status::Cancelled => format!("{} (cancelled: it will never be done)", task.id),
                Status::Blocked | Status::NeedsInput | Status::InProgress => {
                    format!("{} ({})", task.id, task.status)
                }
                Status::Pending | Status::Complete => task.id.to_string(),
            }
        })
        .collect();
    if on.len() > NAMED {
        names.push(format!("{} more", on.len() - NAMED));
    }
    names.join(", ")
}
