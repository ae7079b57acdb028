//! The view on a terminal: what happened, and below it what goes on now. Alone, an attempt has a bar
//! before it.
//!
//! The only user of indicatif, which redraws from a thread of its own and is silent off a
//! terminal; that is why `plain` is a reporter of its own and not a mode of this one.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chrono::Utc;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::{
    Reporter, Verbosity,
    board::Board,
    summary::Tally,
    words::{self, Line},
};
use crate::{
    event::Event,
    plan::View,
    record::Record,
    task::TaskId,
    terminal::{self, Paint, Style},
};

/// Between two frames of the spinner. Slower than the eye would like, so that a night of it costs
/// under a thousandth of a core.
const FRAME: Duration = Duration::from_millis(330);
/// Between two looks at what the agent does.
const LOOK: Duration = Duration::from_secs(1);
/// The widest bar.
const BAR: usize = 72;

/// Draws on standard error.
pub struct Fancy {
    verbosity: Verbosity,
    paint: Paint,
    tally: Tally,
    board: Board,
    live: Option<Live>,
}

/// What is drawn again and again, below all that is said.
struct Live {
    bar: ProgressBar,
    board: Arc<Mutex<Board>>,
}

impl Fancy {
    /// Tells as much as `verbosity` says.
    pub fn new(verbosity: Verbosity) -> Fancy {
        let paint = Paint::for_stream(&std::io::stderr());
        let (tally, board) = (Tally::default(), Board::default());
        Fancy { verbosity, paint, tally, board, live: None }
    }

    fn say(&self, lines: &[Line]) {
        for line in lines {
            let width = terminal::stderr_width().unwrap_or(80);
            // What ended well or badly is seen without reading, also without colour.
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
                match &self.live {
                    Some(live) => live.bar.println(text),
                    None => terminal::say(&text),
                }
            }
        }
    }

    /// Draws what goes on now, or nothing where nothing does.
    fn show(&mut self) {
        if self.board.is_empty() {
            return self.rest();
        }
        let live = self.live.get_or_insert_with(|| Live::begin(self.paint));
        live.board.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.board);
    }

    fn rest(&mut self) {
        if let Some(live) = self.live.take() {
            live.bar.finish_and_clear();
        }
    }

    /// Says that an attempt begins: loudly where it is the only one.
    fn head(&self, record: &Record, attempt: u32, number: usize, view: &View<'_>) {
        let of = self.tally.max_iterations();
        let strong = |text: String| Line { style: Some(Style::Strong), text };
        let mut heading = words::heading(record, of, attempt, number, view).into_iter();
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

impl Live {
    /// Begins to draw. One line each would be a thread each; this way they turn in step, and all of
    /// them are drawn at once.
    fn begin(paint: Paint) -> Live {
        let board = Arc::new(Mutex::new(Board::default()));
        let shown = Arc::clone(&board);
        let draw = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let width = terminal::stderr_width().unwrap_or(80);
            let most = terminal::stderr_height().unwrap_or(24).saturating_sub(2).max(1);
            let board = shown.lock().unwrap_or_else(PoisonError::into_inner);
            let lines = board.lines(Utc::now(), paint, width, most);
            let _ = out.write_str(&lines.join("\n"));
        };
        let style = ProgressStyle::with_template("{board}").expect("the template is right");
        let bar = ProgressBar::new_spinner();
        bar.set_style(style.with_key("board", draw));
        bar.enable_steady_tick(FRAME);
        Live { bar, board }
    }
}

impl Reporter for Fancy {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        self.tally.note(record);
        if let Event::Finished { .. } = &record.event {
            self.rest();
            let summary = self.tally.summary(record, view);
            let (bar, (head, rest)) = (rule(), summary.split_at(2));
            self.say(std::slice::from_ref(&bar));
            self.say(head);
            self.say(std::slice::from_ref(&bar));
            return self.say(rest);
        }
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.board.note(record, view);
        self.show();
        let number = record.task_id.as_ref().and_then(|id| view.graph.number(id));
        if let (Event::Started { attempt, .. }, Some(number)) = (&record.event, number) {
            self.head(record, *attempt, number, view);
        }
        // Of several, the lines that are drawn say what each is about.
        let is_seen = matches!(
            record.event,
            Event::SettingUp { .. }
                | Event::Verifying { .. }
                | Event::Verified(_)
                | Event::Queued { .. }
        );
        if !is_seen || view.policy.jobs == 1 || self.verbosity == Verbosity::Verbose {
            self.say(&words::lines(record, view, self.verbosity));
        }
    }

    fn doing(&mut self, id: &TaskId, doing: &str) {
        self.board.doing(id, doing);
        if self.live.is_some() {
            self.show();
        }
    }

    fn interval(&self) -> Duration {
        if self.live.is_some() { LOOK } else { Duration::from_secs(3600) }
    }
}

/// The bar between iterations.
fn rule() -> Line {
    let width = terminal::stderr_width().unwrap_or(80).min(BAR);
    Line { style: Some(Style::Faint), text: "═".repeat(width) }
}
