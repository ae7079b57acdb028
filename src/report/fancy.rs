//! The reporter for terminals: past events, and below them the current state.
//!
//! This is the only user of indicatif, which redraws from its own thread and prints nothing without
//! a terminal. Therefore `plain` is a separate reporter and not a mode of this one.

use std::{
    borrow::Cow,
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
        event::{AttemptEvent, Event, RunEvent, record::Record},
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

/// A reporter that draws on standard error.
pub struct FancyReporter {
    verbosity: Verbosity,
    outputs: FailureOutputReader,
    paint: Paint,
    drawn: Arc<Mutex<Drawn>>,
    /// The drawing bar, if any.
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

    /// Prints lines; a success takes one row if it is `brief`.
    fn say(&self, lines: &[Line], brief: bool) {
        let width = terminal::stderr_width().unwrap_or(80);
        for line in lines {
            let text = marked(line);
            let is_cut = brief && line.style == Some(Style::Good);
            let text = if is_cut { terminal::fit(&text, width) } else { text };
            for row in self.paint.rows(line.style, &text, Some(width)) {
                match &self.bar {
                    Some(bar) => bar.println(row),
                    None => terminal::say(&row),
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
        if let Event::Run(RunEvent::Finished { .. }) = record.event {
            let outputs = self.outputs.read(view.history);
            let report = RunReport::live(view, &outputs, record.timestamp);
            self.rest();
            let head = report.head();
            let rows = terminal::stderr_height().unwrap_or(24);
            let body = report.body_on_screen(terminal::stderr_width(), rows, head.len());
            self.say(&head, false);
            return self.say(&body, false);
        }
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.drawn().board.note(record, view);
        if self.drawn().board.is_empty() {
            self.rest();
        }
        let is_verbose = self.verbosity == Verbosity::Verbose;
        if let Event::Attempt(AttemptEvent::Started { attempt, .. }) = record.event
            && (is_verbose || view.policy.plain.is_some())
        {
            self.say(&[lines::started(record, attempt, view)], true);
        }
        // The live display shows a wait.
        if is_verbose || !matches!(record.event, Event::Run(RunEvent::Waiting { .. })) {
            self.say(&lines::lines(record, view, self.verbosity), !is_verbose);
        }
        self.show();
    }

    fn doing(&mut self, id: &TaskId, doing: &str) {
        self.drawn().board.doing(id, doing);
    }

    fn tick(&mut self) {
        // The bar keeps unwritten output, and a closed terminal takes none.
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

/// Returns the text with a sign, so that success and failure differ also without color.
fn marked(line: &Line) -> Cow<'_, str> {
    let sign = match line.style {
        Some(Style::Good) => '✓',
        Some(Style::Bad) => '✗',
        Some(Style::Warn) => '!',
        Some(Style::Strong | Style::Faint) | None => return line.text.as_str().into(),
    };
    if line.text.starts_with(' ') || terminal::end_of_sign(&line.text) > 0 {
        return line.text.as_str().into();
    }
    format!("{sign} {}", line.text).into()
}
