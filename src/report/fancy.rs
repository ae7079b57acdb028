//! The view on a terminal: a bar between iterations, a spinner with what the agent does.
//!
//! The only user of indicatif, which redraws from a thread of its own and is silent off a
//! terminal; that is why `plain` is a reporter of its own and not a mode of this one.

use std::time::Duration;

use chrono::{DateTime, Utc};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Reporter, Verbosity,
    summary::Tally,
    words::{self, Line},
};
use crate::{
    duration,
    event::Event,
    plan::View,
    record::Record,
    terminal::{self, Paint, Style, visible},
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
    spinner: Option<Spinner>,
}

struct Spinner {
    bar: ProgressBar,
    /// What is waited for, and until when.
    until: Option<(DateTime<Utc>, String)>,
}

impl Fancy {
    /// Tells as much as `verbosity` says.
    pub fn new(verbosity: Verbosity) -> Fancy {
        let paint = Paint::for_stream(&std::io::stderr());
        Fancy { verbosity, paint, tally: Tally::default(), spinner: None }
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
                match &self.spinner {
                    Some(spinner) => spinner.bar.println(text),
                    None => terminal::say(&text),
                }
            }
        }
    }

    fn spin(&mut self, message: String, until: Option<(DateTime<Utc>, String)>) {
        self.rest();
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}")
            .expect("the template is right");
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        bar.set_message(message);
        bar.enable_steady_tick(FRAME);
        self.spinner = Some(Spinner { bar, until });
    }

    fn watch_agent(&mut self) {
        self.spin("the agent is at work".to_owned(), None);
    }

    fn rest(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.bar.finish_and_clear();
        }
    }
}

impl Reporter for Fancy {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        self.tally.note(record);
        let started = match &record.event {
            Event::Finished { .. } => {
                self.rest();
                let summary = self.tally.summary(record, view);
                let (bar, (head, rest)) = (rule(), summary.split_at(2));
                self.say(std::slice::from_ref(&bar));
                self.say(head);
                self.say(std::slice::from_ref(&bar));
                return self.say(rest);
            }
            _ if self.verbosity == Verbosity::Quiet => return,
            Event::Started { attempt, .. } => record
                .task_id
                .as_ref()
                .and_then(|id| view.graph.number(id))
                .map(|number| (number, *attempt)),
            event => {
                if event.ended().is_some() {
                    self.rest();
                }
                None
            }
        };
        if let Some((number, attempt)) = started {
            self.rest();
            let task = view.graph.task(number);
            let of = self.tally.max_iterations();
            let heading = words::heading(record, of, attempt, number, view);
            let strong = |text: String| Line { style: Some(Style::Strong), text };
            let bar = rule();
            self.say(&[bar.clone(), strong(format!("  {heading}"))]);
            if view.policy.plain.is_none() {
                self.say(&[Line { style: None, text: format!("  {}", visible(&task.title)) }]);
            }
            self.say(&[bar]);
            self.say(&words::lines(record, view, self.verbosity));
            return self.watch_agent();
        }
        if let Event::Verifying { command, .. } = &record.event {
            self.say(&words::lines(record, view, self.verbosity));
            return self.spin(visible(command).into_owned(), None);
        }
        if let Event::Waiting { until, why } = &record.event {
            self.say(&words::lines(record, view, self.verbosity));
            return self.spin(countdown(*until, why), Some((*until, why.clone())));
        }
        self.say(&words::lines(record, view, self.verbosity));
        match &record.event {
            Event::Verified(_) => self.watch_agent(),
            Event::WaitingForChildren(left) => self.spin(words::waiting(left), None),
            _ => {}
        }
    }

    fn doing(&mut self, doing: &str) {
        if let Some(Spinner { bar, until: None }) = &self.spinner {
            bar.set_message(visible(doing).into_owned());
        }
    }

    fn tick(&mut self) {
        if let Some(Spinner { bar, until: Some((until, why)) }) = &self.spinner {
            bar.set_message(countdown(*until, why));
        }
    }

    fn interval(&self) -> Duration {
        if self.spinner.is_some() { LOOK } else { Duration::from_secs(3600) }
    }
}

/// What is waited for, and how long still.
fn countdown(until: DateTime<Utc>, why: &str) -> String {
    let left = (until - Utc::now()).to_std().unwrap_or_default();
    let left = duration::short(Duration::from_secs(left.as_secs()));
    format!("{}; {left} left, until {}", visible(why), words::moment(until, Utc::now()))
}

/// The bar between iterations.
fn rule() -> Line {
    let width = terminal::stderr_width().unwrap_or(80).min(BAR);
    Line { style: Some(Style::Faint), text: "═".repeat(width) }
}
