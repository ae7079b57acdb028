//! The reporter that prints lines with times, for pipes, files and service journals.

use std::{fmt::Write as _, io::Write};

use chrono::Local;

use crate::core::{
    event::{AttemptEvent, Event, RunEvent, record::Record},
    select::View,
};
use crate::{
    project::failure_output::FailureOutputReader,
    runner::Reporter,
    view::{
        lines::{self, Line, Verbosity},
        run_report::RunReport,
    },
};

/// A reporter that writes to `out`: standard error, except in tests.
pub struct PlainReporter<W> {
    out: W,
    verbosity: Verbosity,
    outputs: FailureOutputReader,
    /// Whether each run begins with a line that has its date and id.
    dated: bool,
}

impl<W: Write> PlainReporter<W> {
    /// Returns a reporter with this verbosity.
    pub fn new(out: W, verbosity: Verbosity, outputs: FailureOutputReader) -> PlainReporter<W> {
        PlainReporter { out, verbosity, outputs, dated: false }
    }

    /// Returns a reporter for a file with several runs: each begins with its date and id.
    pub fn dated(out: W, outputs: FailureOutputReader) -> PlainReporter<W> {
        PlainReporter { out, verbosity: Verbosity::Normal, outputs, dated: true }
    }

    fn say(&mut self, time: &str, lines: &[Line]) {
        // Use one write, so that output of other processes is not mixed in.
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, "{time}  {}", line.text);
        }
        let _ = self.out.write_all(text.as_bytes());
    }
}

impl<W: Write> Reporter for PlainReporter<W> {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        let time = lines::clock(record.timestamp);
        if let (Event::Run(RunEvent::LoopStarted(_)), true) = (&record.event, self.dated) {
            let day = record.timestamp.with_timezone(&Local).format("%Y-%m-%d");
            let _ = self.out.write_all(format!("{day} run {}\n", record.run_id).as_bytes());
        }
        if let Event::Run(RunEvent::Finished { .. }) = record.event {
            let outputs = self.outputs.read(view.history);
            let report = RunReport::live(view, &outputs, record.timestamp);
            return self.say(&time, &report.lines());
        }
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        let mut lines = Vec::new();
        if let Event::Attempt(AttemptEvent::Started { attempt, .. }) = record.event {
            lines.push(lines::started(record, attempt, view));
        }
        lines.extend(lines::lines(record, view, self.verbosity));
        self.say(&time, &lines);
    }
}
