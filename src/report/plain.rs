//! Lines with times, for pipes, files and journals of services.

use std::io::Write;

use super::{
    Reporter, Verbosity,
    summary::Tally,
    words::{self, Line},
};
use crate::{event::Event, plan::View, record::Record, terminal::visible};

/// Writes to `out`, which is standard error but in tests.
pub struct Plain<W> {
    out: W,
    verbosity: Verbosity,
    tally: Tally,
}

impl<W: Write> Plain<W> {
    /// Tells as much as `verbosity` says.
    pub fn new(out: W, verbosity: Verbosity) -> Plain<W> {
        Plain { out, verbosity, tally: Tally::default() }
    }

    fn say(&mut self, time: &str, lines: &[Line]) {
        for line in lines {
            let _ = writeln!(self.out, "{time}  {}", line.text);
        }
    }
}

impl<W: Write> Reporter for Plain<W> {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        self.tally.note(record);
        let time = words::clock(record.timestamp);
        if let Event::Finished { .. } = record.event {
            let summary = self.tally.summary(record, view);
            return self.say(&time, &summary);
        }
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        if let (Event::Started { attempt, .. }, Some(number)) =
            (&record.event, record.task_id.as_ref().and_then(|id| view.graph.number(id)))
        {
            let task = view.graph.task(number);
            let of = self.tally.max_iterations();
            let heading = words::heading(record, of, *attempt, number, view);
            self.say(&time, &[Line { style: None, text: heading }]);
            if view.policy.plain.is_none() {
                let title = format!("  {}", visible(&task.title));
                self.say(&time, &[Line { style: None, text: title }]);
            }
        }
        let lines = words::lines(record, view, self.verbosity);
        self.say(&time, &lines);
    }
}
