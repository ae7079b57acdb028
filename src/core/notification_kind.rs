//! The moments that people want to be told of: a few, made from the many facts of the journal.

use serde::{Deserialize, Serialize};

use crate::core::event::{Event, record::Record};

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// A run began.
    Started,
    /// A task is complete.
    Completed,
    /// An attempt failed.
    Failed,
    /// A task waits for a person's answer.
    NeedsInput,
    /// A task is out of attempts.
    Parked,
    /// A provider gives no service for now.
    Limit,
    /// An agent is refused.
    Denied,
    /// Everything left is blocked.
    Blocked,
    /// An attempt was found that a crash had cut off.
    Recovered,
    /// A hook did not succeed.
    HookFailed,
    /// A run ended.
    Finished,
}

impl Moment {
    /// All of them, in the order in which they come.
    pub const ALL: [Moment; 11] = [
        Moment::Started,
        Moment::Completed,
        Moment::Failed,
        Moment::NeedsInput,
        Moment::Parked,
        Moment::Limit,
        Moment::Denied,
        Moment::Blocked,
        Moment::Recovered,
        Moment::HookFailed,
        Moment::Finished,
    ];

    /// Those that are told where nobody says which: what ends a run or waits for a person.
    pub const USUAL: [Moment; 7] = [
        Moment::NeedsInput,
        Moment::Parked,
        Moment::Limit,
        Moment::Denied,
        Moment::Blocked,
        Moment::HookFailed,
        Moment::Finished,
    ];

    /// As it is written in settings.
    pub fn word(self) -> &'static str {
        match self {
            Moment::Started => "started",
            Moment::Completed => "completed",
            Moment::Failed => "failed",
            Moment::NeedsInput => "needs-input",
            Moment::Parked => "parked",
            Moment::Limit => "limit",
            Moment::Denied => "denied",
            Moment::Blocked => "blocked",
            Moment::Recovered => "recovered",
            Moment::HookFailed => "hook-failed",
            Moment::Finished => "finished",
        }
    }
}

/// The moment that a fact is, if it is one.
pub fn moment_of(record: &Record) -> Option<Moment> {
    match &record.event {
        Event::LoopStarted(_) => Some(Moment::Started),
        Event::Completed(_) => Some(Moment::Completed),
        Event::Failed(_) => Some(Moment::Failed),
        Event::NeedsInput(_) => Some(Moment::NeedsInput),
        Event::Parked { .. } => Some(Moment::Parked),
        Event::RateLimited(_) => Some(Moment::Limit),
        Event::Denied(_) => Some(Moment::Denied),
        Event::Blocked { .. } => Some(Moment::Blocked),
        Event::Recovered { .. } => Some(Moment::Recovered),
        Event::HookFailed(_) => Some(Moment::HookFailed),
        Event::Finished { .. } => Some(Moment::Finished),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_those_of_the_settings() {
        for moment in Moment::ALL {
            assert_eq!(json!(moment), moment.word());
        }
        assert!(Moment::USUAL.iter().all(|moment| Moment::ALL.contains(moment)));
    }

    #[test]
    fn most_facts_are_no_moment() {
        let of = |event| {
            moment_of(&Record {
                timestamp: DateTime::UNIX_EPOCH,
                run_id: "r".to_owned(),
                seq: 0,
                iteration: None,
                task_id: None,
                event,
            })
        };
        assert_eq!(of(Event::Parked { attempts: 3 }), Some(Moment::Parked));
        assert_eq!(of(Event::Blocked { holders: Vec::new() }), Some(Moment::Blocked));
        assert_eq!(of(Event::Reset {}), None);
        assert_eq!(of(Event::PauseRequested {}), None);
    }
}
