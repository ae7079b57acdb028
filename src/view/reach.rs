//! The executors that do not answer.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::{counted, moment};
use crate::core::{
    history::{History, UnreachableExecutor},
    select::View,
};

/// An executor that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnreachableView {
    /// Its name.
    pub executor: String,
    /// When it did not answer for the first time.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: DateTime<Utc>,
    /// The newest reason.
    pub why: String,
    /// The number of tries since it answered last.
    pub tries: u32,
    /// When it is tried again; none while it is tried, and where no run goes on.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub next_try: Option<DateTime<Utc>>,
}

impl UnreachableView {
    /// The executors that do not answer the newest run, by name. Only a run that goes on tries them
    /// again.
    pub(super) fn all(history: &History, goes_on: bool) -> Vec<UnreachableView> {
        let known = history.unreachable.iter();
        let view = |(name, known): (&String, &UnreachableExecutor)| {
            let next_try = Some(known.next_try).filter(|_| known.trying.is_none() && goes_on);
            UnreachableView {
                executor: name.clone(),
                since: known.since,
                why: known.why.clone(),
                tries: known.tries,
                next_try,
            }
        };
        known.map(view).collect()
    }

    /// Which executor does not answer, since when and why; where a run goes on, also the next try.
    pub fn text(&self, goes_on: bool, now: DateTime<Utc>) -> String {
        let tries = match self.tries {
            0 => String::new(),
            tries => format!(" ({})", counted(tries as usize, "failed start")),
        };
        let next = match self.next_try {
            _ if !goes_on || self.tries == 0 => String::new(),
            Some(at) => format!("; next try at {}", moment(at, now)),
            None => "; tried again now".to_owned(),
        };
        let Self { executor, since, why, .. } = self;
        format!("{executor} has not answered since {}{tries}: {why}{next}", moment(*since, now))
    }
}

/// Says that the executor of a task does not answer, and when it is tried again.
pub(super) fn unreachable_until(
    view: &View<'_>,
    number: usize,
    until: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> String {
    until_text(view.executor(number).unwrap_or_default(), until, now)
}

/// Says that this executor does not answer, and when it is tried again.
pub fn until_text(executor: &str, until: Option<DateTime<Utc>>, now: DateTime<Utc>) -> String {
    let next = match until {
        Some(until) => format!("next try at {}", moment(until, now)),
        None => "tried again now".to_owned(),
    };
    format!("{executor} does not answer, {next}")
}
