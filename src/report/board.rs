//! What goes on now, in lines that are drawn again and again: one for each attempt, and one for the
//! merge queue. Knows the facts and the words, and no terminal.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    adapters::terminal::{Paint, Style, columns, fit, visible},
    core::{
        attempt::AttemptState,
        duration,
        event::{Event, record::Record},
        graph::task::TaskId,
        history::ActiveAttempts,
        select::View,
    },
};
use crate::{runner::reporter::AT_WORK, view::lines};

/// Between two frames. Slower than the eye would like, so that a night of it costs under a
/// thousandth of a core.
pub const FRAME: Duration = Duration::from_millis(400);
/// What turns, frame by frame.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Stands there for what only waits.
const STILL: &str = "·";
/// How many columns an id has at most.
const ID: usize = 24;
/// How many columns the time has, `59m 59s`.
const TIME: usize = 7;

/// What goes on now.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// Whether several attempts may go on at once; of a single one no name has to be said.
    several: bool,
    rows: Vec<Row>,
    /// How many tasks wait to be merged, and what the queue does about it.
    queue: Option<(usize, Trying)>,
    /// Until when nothing can start, and why.
    wait: Option<(DateTime<Utc>, String)>,
    since: DateTime<Utc>,
}

/// An attempt.
#[derive(Clone, Debug)]
struct Row {
    id: TaskId,
    since: DateTime<Utc>,
    stage: AttemptState,
    /// What is done, and of it the newest word.
    lead: &'static str,
    text: String,
}

/// What the merge queue does.
#[derive(Clone, Debug, Default)]
struct Trying {
    tasks: String,
    branch: String,
    /// The command that runs, or what it printed last.
    doing: String,
    /// What it is held by.
    held: Option<String>,
}

impl Board {
    /// Whether there is nothing to be seen.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.queue.is_none() && self.wait.is_none()
    }

    /// Takes in one more fact, which the history has taken in already.
    pub fn note(&mut self, record: &Record, view: &View<'_>) {
        self.several = view.policy.jobs > 1;
        let underway = &view.history.active;
        if let Some(id) = &record.task_id {
            self.note_task(id, record, underway);
        }
        if let Event::Waiting { until, why } = &record.event {
            self.since = record.timestamp;
            self.wait = Some((*until, visible(why).into_owned()));
        } else if !self.rows.is_empty() {
            self.wait = None;
        }
        if let Event::Merging(_) | Event::Split(_) | Event::MergeHeld(_) = &record.event {
            for row in &mut self.rows {
                let stage = underway.of(&row.id).map(|going| going.state);
                let moved = |stage: &AttemptState| {
                    matches!(stage, AttemptState::Queued | AttemptState::Landing)
                        && *stage != row.stage
                };
                if let Some(stage) = stage.filter(moved) {
                    row.tell(stage, "", merging(stage).to_owned());
                }
            }
        }
        self.note_queue(record, underway);
    }

    fn note_task(&mut self, id: &TaskId, record: &Record, underway: &ActiveAttempts) {
        if record.event.ended().is_some() {
            return self.rows.retain(|row| row.id != *id);
        }
        // What an earlier run has left open is seen once something is done about it.
        let Some(going) = underway.of(id) else {
            return;
        };
        let stage = going.state;
        let (lead, text) = match &record.event {
            Event::Started { worktree: Some(_), .. } => ("", "preparing its worktree"),
            Event::Started { worktree: None, .. } | Event::AgentStarted { .. } => ("", AT_WORK),
            Event::SettingUp { command, .. } => ("setting up: ", command.as_str()),
            Event::Verifying { .. } if stage == AttemptState::Landing => return,
            Event::Verifying { command, .. } => ("verifying: ", command.as_str()),
            Event::Verified(_) if stage != AttemptState::Landing => ("", AT_WORK),
            Event::WaitingForChildren(left) => {
                return self.row(id, record.timestamp, going.since).tell(
                    stage,
                    "",
                    lines::waiting(left),
                );
            }
            Event::Queued { .. } => ("", merging(AttemptState::Queued)),
            _ => return,
        };
        let text = visible(text).into_owned();
        self.row(id, record.timestamp, going.since).tell(stage, lead, text);
    }

    fn row(&mut self, id: &TaskId, now: DateTime<Utc>, began: DateTime<Utc>) -> &mut Row {
        let at = self.rows.iter().position(|row| row.id == *id).unwrap_or_else(|| {
            let (id, since) = (id.clone(), began);
            self.rows.push(Row {
                id,
                since,
                stage: AttemptState::Running,
                lead: "",
                text: String::new(),
            });
            self.rows.len() - 1
        });
        if !self.several {
            // Alone, it is what it does now that has a length.
            self.rows[at].since = now;
        }
        &mut self.rows[at]
    }

    fn note_queue(&mut self, record: &Record, underway: &ActiveAttempts) {
        let waiting = underway.queue.len();
        if waiting == 0 || !self.several {
            self.queue = None;
            return;
        }
        let before = self.queue.take().map(|(_, trying)| trying.doing).unwrap_or_default();
        let trying = match &underway.trial {
            None => Trying {
                held: underway
                    .held
                    .as_ref()
                    .map(|held| crate::view::queue::HeldView::of(held).reason()),
                ..Trying::default()
            },
            Some(trial) => Trying {
                tasks: lines::ids(&trial.tasks),
                branch: visible(&trial.branch).into_owned(),
                doing: match &record.event {
                    Event::Merging(_) => String::new(),
                    Event::Verifying { command, .. }
                        if record.task_id.as_ref() == trial.tasks.first() =>
                    {
                        visible(command).into_owned()
                    }
                    _ => before,
                },
                held: None,
            },
        };
        self.queue = Some((waiting, trying));
    }

    /// What the process of an attempt does now, or that of the merge queue's trial of it.
    pub fn doing(&mut self, id: &TaskId, doing: &str) {
        let doing = visible(doing);
        let Some(row) = self.rows.iter_mut().find(|row| row.id == *id) else {
            return;
        };
        match (row.stage, &mut self.queue) {
            (AttemptState::Landing, Some((_, trying))) => trying.doing = doing.into_owned(),
            _ if row.text != doing => row.text = doing.into_owned(),
            _ => {}
        }
    }

    /// The lines at some time: at most so many columns wide, and so many of them.
    pub fn lines(
        &self,
        now: DateTime<Utc>,
        paint: Paint,
        width: usize,
        most: usize,
    ) -> Vec<String> {
        let frames = u128::try_from(now.timestamp_millis()).unwrap_or(0) / FRAME.as_millis();
        let frame = FRAMES[usize::try_from(frames % 10).unwrap_or(0)];
        let mut lines = Vec::new();
        if let Some((until, why)) = &self.wait {
            let age = age(now - self.since);
            lines.push((None, format!("{frame} {age} {}", countdown(*until, why, now))));
        }
        let below = usize::from(self.queue.is_some()) + lines.len();
        let room = most.saturating_sub(below).max(1);
        let shown = if self.rows.len() > room { room.saturating_sub(1).max(1) } else { room };
        let ids = self.rows.iter().map(|row| columns(row.id.as_str())).max().unwrap_or(0).min(ID);
        lines.extend(self.rows.iter().take(shown).map(|row| {
            let (lead, text, age) = (row.lead, &row.text, age(now - row.since));
            if !self.several {
                return (None, format!("{frame} {age} {text}"));
            }
            let waits = matches!(row.stage, AttemptState::Queued | AttemptState::Landing);
            let mark = if waits { STILL } else { frame };
            let id = fit(row.id.as_str(), ID);
            let style = (row.stage != AttemptState::Running).then_some(Style::Faint);
            (style, format!("{mark} {age:>TIME$}  {id:<ids$}  {lead}{text}"))
        }));
        if self.rows.len() > shown {
            let more = self.rows.len() - shown;
            lines.push((Some(Style::Faint), format!("  and {more} more")));
        }
        lines.extend(self.queue.as_ref().map(|(waiting, trying)| {
            let mark = if trying.tasks.is_empty() { STILL } else { frame };
            let style = if trying.held.is_some() { Style::Warn } else { Style::Faint };
            (Some(style), format!("{mark} {}", queue(*waiting, trying)))
        }));
        let drawn = |(style, line): (Option<Style>, String)| {
            let line = fit(&line, width);
            style.map_or(line.clone(), |style| paint.text(style, line)).into_owned()
        };
        lines.into_iter().take(most).map(drawn).collect()
    }
}

impl Row {
    fn tell(&mut self, stage: AttemptState, lead: &'static str, text: String) {
        (self.stage, self.lead, self.text) = (stage, lead, text);
    }
}

fn merging(stage: AttemptState) -> &'static str {
    if stage == AttemptState::Landing {
        "is tried by the merge queue"
    } else {
        "waits to be merged"
    }
}

fn queue(waiting: usize, trying: &Trying) -> String {
    let waits = format!("merge queue: {waiting} {}", if waiting == 1 { "waits" } else { "wait" });
    let Trying { tasks, branch, doing, held } = trying;
    match held {
        Some(why) => format!("{waits}, held back: {why}"),
        None if tasks.is_empty() => waits,
        None if doing.is_empty() => format!("{waits}; trying {tasks} on {branch}"),
        None => format!("{waits}; trying {tasks} on {branch}: {doing}"),
    }
}

/// How long something goes on, in whole seconds.
fn age(length: TimeDelta) -> String {
    let seconds = length.num_seconds().max(0).unsigned_abs();
    if seconds < 10 { format!("{seconds}s") } else { duration::short(Duration::from_secs(seconds)) }
}

/// What is waited for, and how long still.
fn countdown(until: DateTime<Utc>, why: &str, now: DateTime<Utc>) -> String {
    let left = (until - now).to_std().unwrap_or_default();
    let left = duration::short(Duration::from_secs(left.as_secs()));
    format!("{why}; {left} left, until {}", lines::moment(until, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        event::{Batch, Held},
        graph::TaskGraph,
        history::{
            History,
            tests::{end, record, started},
        },
        select::Policy,
        verdict::Verdict,
    };

    /// The lines after these facts, a minute after the first second.
    fn lines(jobs: usize, width: usize, most: usize, told: &[(&str, Event)]) -> String {
        let graph = TaskGraph::new(Vec::new(), Vec::new()).unwrap();
        let (mut history, mut board) = (History::default(), Board::default());
        let policy = Policy { jobs, ..Policy::default() };
        for (at, (id, event)) in (1..).zip(told) {
            let record = record(id, at, event.clone());
            history.apply(&record);
            let (history, keys) = (&history, &[]);
            let view = View { graph: &graph, keys, history, policy: &policy, active: &[] };
            board.note(&record, &view);
            if let Event::Started { .. } = event {
                let id = TaskId::new(id).unwrap();
                board.doing(&id, AT_WORK);
            }
            if *id == "loud" {
                let id = TaskId::new("loud").unwrap();
                board.doing(&id, "Bash: \u{1b}[31m日本語の題名はとても長いので端末の幅には収まりません, and so does this");
            }
        }
        let now = DateTime::from_timestamp(61, 0).unwrap();
        let paint = Paint::default();
        let lines = board.lines(now, paint, width, most);
        assert!(lines.iter().all(|line| columns(line) <= width) && lines.len() <= most);
        lines.join("\n")
    }

    fn apart() -> Event {
        match started(1) {
            Event::Started { attempt, base, branch, log, why, format, .. } => {
                let worktree = Some("/trees/1".to_owned());
                Event::Started { attempt, base, branch, log, why, format, worktree }
            }
            other => other,
        }
    }

    fn command(command: &str) -> Event {
        let (command, log) = (command.to_owned(), String::new());
        Event::Verifying { attempt: 1, command, baseline: false, log }
    }

    fn queued() -> Event {
        Event::Queued { attempt: 1, waiting: 1 }
    }

    fn batch(ids: &[&str]) -> Batch {
        let tasks = ids.iter().map(|id| TaskId::new(id).unwrap()).collect();
        Batch { branch: "main".to_owned(), onto: "0".to_owned(), tasks }
    }

    #[test]
    fn each_attempt_and_the_queue_have_a_line() {
        let setting =
            Event::SettingUp { attempt: 1, command: "npm ci".to_owned(), log: String::new() };
        let long = "an-id-that-is-longer-than-any-column-of-ids-may-be";
        let told = [
            ("loud", apart()),
            ("parser", apart()),
            ("done", apart()),
            (long, apart()),
            ("done", queued()),
            ("lexer", apart()),
            ("lexer", setting),
            ("other", apart()),
            ("other", queued()),
            ("parser", command("cargo test --workspace")),
            ("done", Event::Merging(batch(&["done", "other"]))),
            ("done", command("cargo test --workspace && cargo clippy")),
        ];
        insta::assert_snapshot!(lines(6, 100, 20, &told), @r"
        ⠹      1m  loud                      Bash: \u{1b}[31m日本語の題名はとても長いので端末の幅には収まり…
        ⠹     59s  parser                    verifying: cargo test --workspace
        ·     58s  done                      is tried by the merge queue
        ⠹     57s  an-id-that-is-longer-th…  the agent is at work
        ⠹     55s  lexer                     setting up: npm ci
        ·     53s  other                     is tried by the merge queue
        ⠹ merge queue: 2 wait; trying done, other on main: cargo test --workspace && cargo clippy
        ");
        insta::assert_snapshot!(lines(6, 60, 20, &told), @r"
        ⠹      1m  loud                      Bash: \u{1b}[31m日本語…
        ⠹     59s  parser                    verifying: cargo test …
        ·     58s  done                      is tried by the merge …
        ⠹     57s  an-id-that-is-longer-th…  the agent is at work
        ⠹     55s  lexer                     setting up: npm ci
        ·     53s  other                     is tried by the merge …
        ⠹ merge queue: 2 wait; trying done, other on main: cargo te…
        ");
        insta::assert_snapshot!(lines(6, 60, 4, &told), @r"
        ⠹      1m  loud                      Bash: \u{1b}[31m日本語…
        ⠹     59s  parser                    verifying: cargo test …
          and 4 more
        ⠹ merge queue: 2 wait; trying done, other on main: cargo te…
        ");
        assert_eq!(lines(6, 60, 1, &told).lines().count(), 1);
    }

    #[test]
    fn what_is_over_is_gone_and_what_is_held_is_said() {
        let held = Held {
            branch: "main".to_owned(),
            checkout: "/repo".to_owned(),
            paths: vec!["x".to_owned()],
            why: None,
        };
        let told = [
            ("a", apart()),
            ("b", apart()),
            ("b", queued()),
            ("b", Event::Merging(batch(&["b"]))),
            ("", Event::MergeHeld(held)),
            ("a", Event::Failed(end(1, Verdict::Failed))),
        ];
        insta::assert_snapshot!(lines(2, 60, 20, &told), @r"
        ·     59s  b  waits to be merged
        · merge queue: 1 waits, held back: changes of yours are in …
        ");
        assert_eq!(
            lines(2, 60, 20, &[("a", apart()), ("a", Event::Failed(end(1, Verdict::Failed)))]),
            ""
        );
    }

    #[test]
    fn alone_it_needs_no_name() {
        let told = [("a", started(1)), ("a", command("cargo test"))];
        insta::assert_snapshot!(lines(1, 60, 20, &told), @"⠹ 59s cargo test");
        let until = DateTime::from_timestamp(100, 0).unwrap();
        let wait = Event::Waiting { until, why: "a limit of the provider".to_owned() };
        let text = lines(1, 100, 20, &[("", wait)]);
        assert!(text.starts_with("⠹ 1m a limit of the provider; 39s left, until "), "{text}");
    }
}
