//! The executors that do not answer or cannot be used.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::{counted, moment};
use crate::core::{
    history::{History, UnreachableExecutor},
    select::fault_words,
};

/// An executor that does not answer or cannot be used.
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
    /// Whether only a person can mend it, and the run does not try it again.
    pub lasts: bool,
    /// When it is tried again; none while it is tried, if it is not, and where no run goes on.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub next_try: Option<DateTime<Utc>>,
}

impl UnreachableView {
    /// The executors that the newest run cannot have, by name. Only a run that goes on tries them
    /// again.
    pub(super) fn all(history: &History, goes_on: bool) -> Vec<UnreachableView> {
        let known = history.unreachable.iter();
        let view = |(name, known): (&String, &UnreachableExecutor)| {
            let next_try = known.next_try.filter(|_| known.trying.is_none() && goes_on);
            UnreachableView {
                executor: name.clone(),
                since: known.since,
                why: known.why.clone(),
                tries: known.tries,
                lasts: known.next_try.is_none(),
                next_try,
            }
        };
        known.map(view).collect()
    }

    /// Which executor a run cannot have, since when and why; where a run goes on, also the next try.
    pub fn text(&self, goes_on: bool, now: DateTime<Utc>) -> String {
        if self.lasts {
            return format!("{} {}: {}", self.executor, fault_words(true), self.why);
        }
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

/// Says what is wrong with this executor, and when it is tried again.
pub fn until_text(
    executor: &str,
    lasts: bool,
    until: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> String {
    let next = match until {
        _ if lasts => String::new(),
        Some(until) => format!(", next try at {}", moment(until, now)),
        None => ", tried again now".to_owned(),
    };
    format!("{executor} {}{next}", fault_words(lasts))
}
