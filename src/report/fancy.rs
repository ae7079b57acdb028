//! The view on a terminal: a bar between iterations, a spinner with the agent's last line.
//!
//! The only user of indicatif, which redraws from a thread of its own and is silent off a
//! terminal; that is why `plain` is a reporter of its own and not a mode of this one.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Reporter, Verbosity,
    words::{self, Line, Tally},
};
use crate::{
    event::Event,
    output,
    plan::View,
    record::Record,
    terminal::{self, Paint, Style, visible},
};

/// Between two frames of the spinner. Slower than the eye would like, so that a night of it costs
/// under a thousandth of a core.
const FRAME: Duration = Duration::from_millis(330);
/// Between two looks at the agent's output.
const LOOK: Duration = Duration::from_secs(1);
/// The widest bar.
const BAR: usize = 72;

/// Draws on standard error.
pub struct Fancy {
    verbosity: Verbosity,
    paint: Paint,
    root: PathBuf,
    tally: Tally,
    /// The output of the attempt's agent.
    output: Option<PathBuf>,
    spinner: Option<Spinner>,
}

struct Spinner {
    bar: ProgressBar,
    /// The file whose last line is shown.
    output: Option<PathBuf>,
    looked: Instant,
}

impl Fancy {
    /// For the repository at `root`.
    pub fn new(root: PathBuf, verbosity: Verbosity) -> Fancy {
        let paint = Paint::for_stream(&std::io::stderr());
        Fancy { verbosity, paint, root, tally: Tally::default(), output: None, spinner: None }
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

    fn spin(&mut self, message: String, output: Option<PathBuf>) {
        self.rest();
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}")
            .expect("the template is right");
        bar.set_style(style.tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
        bar.set_message(message);
        bar.enable_steady_tick(FRAME);
        self.spinner = Some(Spinner { bar, output, looked: Instant::now() });
    }

    fn watch_agent(&mut self) {
        self.spin("the agent is at work".to_owned(), self.output.clone());
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
            Event::Started { attempt, log, .. } => record
                .task_id
                .as_ref()
                .and_then(|id| view.graph.number(id))
                .map(|number| (number, *attempt, log)),
            Event::Completed(_)
            | Event::Failed(_)
            | Event::Interrupted(_)
            | Event::NeedsInput(_) => {
                self.rest();
                None
            }
            _ => None,
        };
        if let Some((number, attempt, log)) = started {
            self.rest();
            let task = view.graph.task(number);
            let of = self.tally.max_iterations();
            let heading = words::heading(record, of, attempt, number, view);
            let strong = |text: String| Line { style: Some(Style::Strong), text };
            let bar = rule();
            self.say(&[bar.clone(), strong(format!("  {heading}"))]);
            self.say(&[Line { style: None, text: format!("  {}", visible(&task.title)) }, bar]);
            self.say(&words::lines(record, view, self.verbosity));
            self.output = Some(self.root.join(log).join("stdout"));
            return self.watch_agent();
        }
        if let Event::Verifying { command, log, .. } = &record.event {
            self.say(&words::lines(record, view, self.verbosity));
            return self.spin(visible(command).into_owned(), Some(self.root.join(log)));
        }
        if let Event::Waiting { until, why } = &record.event {
            return self.spin(format!("{why}; until {}", words::clock(*until)), None);
        }
        self.say(&words::lines(record, view, self.verbosity));
        if let Event::Verified(_) = &record.event {
            self.watch_agent();
        }
    }

    fn tick(&mut self) {
        if let Some(spinner) = &mut self.spinner
            && let Some(path) = &spinner.output
            && spinner.looked.elapsed() >= LOOK
        {
            spinner.looked = Instant::now();
            if let Ok(Some(line)) = output::last_line(path) {
                spinner.bar.set_message(visible(&line).into_owned());
            }
        }
    }

    fn interval(&self) -> Duration {
        if self.spinner.is_some() { LOOK } else { Duration::from_secs(3600) }
    }
}

/// The bar between iterations.
fn rule() -> Line {
    let width = terminal::stderr_width().unwrap_or(80).min(BAR);
    Line { style: Some(Style::Faint), text: "═".repeat(width) }
}
