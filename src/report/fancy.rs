//! The reporter for terminals: past events, and below them the current state. A single attempt is
//! headed by a bar.
//!
//! This is the only user of indicatif, which redraws from its own thread and prints nothing without
//! a terminal. Therefore `plain` is a separate reporter and not a mode of this one.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::Utc;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::board::Board;
use crate::{
    adapters::terminal::{self, Paint, Style},
    core::{
        event::{AttemptEvent, CheckEvent, Event, LandingEvent, record::Record},
        graph::task::TaskId,
        select::View,
    },
};
use crate::{
    project::failure_output::FailureOutputReader,
    runner::Reporter,
    view::{
        lines::{self, Line, Verbosity},
        run_report::RunReport,
    },
};

/// The interval for updating the activity of agents.
const LOOK: Duration = Duration::from_secs(1);
/// The largest width of a bar.
const BAR: usize = 72;

/// A reporter that draws on standard error.
pub struct FancyReporter {
    verbosity: Verbosity,
    outputs: FailureOutputReader,
    paint: Paint,
    drawn: Arc<Mutex<Drawn>>,
    /// The drawing bar, if there is something to draw.
    bar: Option<ProgressBar>,
}

/// The live display below the lines of the log.
#[derive(Default)]
struct Drawn {
    board: Board,
    width: usize,
    rows: usize,
}

impl FancyReporter {
    /// Returns a reporter with this verbosity.
    pub fn new(verbosity: Verbosity, outputs: FailureOutputReader) -> FancyReporter {
        let paint = Paint::for_stream(&std::io::stderr());
        FancyReporter { verbosity, outputs, paint, drawn: Arc::default(), bar: None }
    }

    fn say(&self, lines: &[Line]) {
        for line in lines {
            let width = terminal::stderr_width().unwrap_or(80);
            // Marks show success and failure also without color.
            let mark = match line.style {
                Some(Style::Good) if !line.text.starts_with(' ') => "✓ ",
                Some(Style::Bad) if !line.text.starts_with(' ') => "✗ ",
                _ => "",
            };
            for text in terminal::wrap(&format!("{mark}{}", line.text), width) {
                let text = match line.style {
                    Some(style) => self.paint.text(style, text),
                    None => text.into(),
                };
                match &self.bar {
                    Some(bar) => bar.println(text),
                    None => terminal::say(&text),
                }
            }
        }
    }

    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the live display, or removes it if it is empty.
    fn show(&mut self) {
        let mut drawn = self.drawn();
        drawn.measure();
        if drawn.board.is_empty() {
            drop(drawn);
            return self.rest();
        }
        drop(drawn);
        if self.bar.is_none() {
            self.bar = Some(begin(Arc::clone(&self.drawn), self.paint));
        }
    }

    fn rest(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Prints the heading of an attempt, between bars if attempts run one at a time.
    fn head(&self, record: &Record, attempt: u32, number: usize, view: &View<'_>) {
        let strong = |text: String| Line { style: Some(Style::Strong), text };
        let mut heading = lines::heading(record, attempt, number, view).into_iter();
        let first = heading.next().unwrap_or_default();
        if view.policy.jobs > 1 {
            let width = terminal::stderr_width().unwrap_or(80);
            return self.say(&[strong(terminal::fit(&first, width).into_owned())]);
        }
        let bar = rule();
        self.say(&[bar.clone(), strong(format!("  {first}"))]);
        self.say(&heading.map(|text| Line { style: None, text }).collect::<Vec<_>>());
        self.say(&[bar]);
    }
}

impl Drawn {
    /// Measures the screen. Too slow to call in every frame.
    fn measure(&mut self) {
        self.width = terminal::stderr_width().unwrap_or(80);
        self.rows = terminal::stderr_height().unwrap_or(24).saturating_sub(2).max(1);
    }
}

/// Starts drawing. One bar draws all lines at once and in step; a bar for each line would need a
/// thread each.
fn begin(drawn: Arc<Mutex<Drawn>>, paint: Paint) -> ProgressBar {
    let frame = drawn.lock().unwrap_or_else(PoisonError::into_inner).board.frame();
    let draw = move |_: &ProgressState, out: &mut dyn fmt::Write| {
        let drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = drawn.board.lines(Utc::now(), paint, drawn.width, drawn.rows);
        let _ = out.write_str(&lines.join("\n"));
    };
    let style = ProgressStyle::with_template("{board}").expect("the template is valid");
    let bar = ProgressBar::new_spinner();
    bar.set_style(style.with_key("board", draw));
    bar.enable_steady_tick(frame);
    bar
}

impl Reporter for FancyReporter {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        if let Some(report) = RunReport::at_end(record, view, |history| self.outputs.read(history))
        {
            self.rest();
            let (bar, head) = (rule(), report.head());
            let rows = terminal::stderr_height().unwrap_or(24);
            // The two bars with the head between them.
            let body = report.body_on_screen(terminal::stderr_width(), rows, 4);
            self.say(std::slice::from_ref(&bar));
            self.say(&head);
            self.say(std::slice::from_ref(&bar));
            return self.say(&body);
        }
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.drawn().board.note(record, view);
        let alone = view.policy.jobs == 1;
        let is_start = matches!(record.event, Event::Attempt(AttemptEvent::Started { .. }));
        // The heading of a single attempt goes above the live display.
        if (is_start && alone) || self.drawn().board.is_empty() {
            self.rest();
        }
        let number = record.task_id.as_ref().and_then(|id| view.graph.number(id));
        if let (Event::Attempt(AttemptEvent::Started { attempt, .. }), Some(number)) =
            (&record.event, number)
        {
            self.head(record, *attempt, number, view);
        }
        // With several attempts, the live display already shows these events.
        let is_seen = matches!(
            record.event,
            Event::Check(
                CheckEvent::SettingUp { .. }
                    | CheckEvent::Verifying { .. }
                    | CheckEvent::Verified(_)
                    | CheckEvent::Proved { .. }
            ) | Event::Landing(LandingEvent::Queued { .. })
        );
        if !is_seen || alone || self.verbosity == Verbosity::Verbose {
            self.say(&lines::lines(record, view, self.verbosity));
        }
        self.show();
    }

    fn doing(&mut self, id: &TaskId, doing: &str) {
        self.drawn().board.doing(id, doing);
    }

    fn tick(&mut self) {
        // The bar keeps what it cannot write, and a closed terminal takes nothing.
        if !terminal::stderr_is_terminal() {
            self.rest();
        }
        if self.bar.is_some() {
            self.drawn().measure();
        }
    }

    fn interval(&self) -> Duration {
        if self.bar.is_some() { LOOK } else { Duration::from_secs(3600) }
    }
}

/// Returns the bar between iterations.
fn rule() -> Line {
    let width = terminal::stderr_width().unwrap_or(80).min(BAR);
    Line { style: Some(Style::Faint), text: "═".repeat(width) }
}
