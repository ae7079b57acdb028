//! The reporter that keeps the machine awake while a run lasts.

use crate::{
    adapters::{
        awake::{self, AwakeHold},
        terminal,
    },
    core::{
        event::{Event, RunEvent, record::Record},
        select::View,
    },
    runner::Reporter,
};

/// A reporter that holds the machine from the start of a run until it is dropped.
pub struct AwakeReporter {
    wanted: Option<bool>,
    is_quiet: bool,
    hold: Option<AwakeHold>,
}

impl AwakeReporter {
    /// Returns a reporter that holds if this is wanted, or by default if the machine may sleep.
    pub fn new(wanted: Option<bool>, is_quiet: bool) -> AwakeReporter {
        AwakeReporter { wanted, is_quiet, hold: None }
    }

    fn say(&self, text: &str) {
        if !self.is_quiet {
            terminal::say_wrapped(text);
        }
    }
}

impl Reporter for AwakeReporter {
    fn record(&mut self, record: &Record, _view: &View<'_>) {
        let Event::Run(RunEvent::LoopStarted(_)) = record.event else {
            return;
        };
        if !self.wanted.unwrap_or_else(awake::may_sleep) {
            return;
        }
        match AwakeHold::take() {
            Ok(hold) => {
                let lid = if hold.with_lid { "also with its lid closed" } else { "its lid open" };
                self.say(&format!("the machine stays awake until the run ends, {lid}"));
                self.hold = Some(hold);
            }
            Err(why) => self.say(&format!("the machine may sleep during the run: {why}")),
        }
    }
}
