//! Requests of people and agents by a command.

use serde::{Deserialize, Serialize};

use crate::default_value::is_default;

/// A request of a person or an agent by a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEvent {
    /// A person answered the question of a task, with `ralph answer`.
    Answered(Answer),
    /// An agent left a note for the tasks that depend on its own, with `ralph note`.
    Noted {
        /// The attempt.
        attempt: u32,
        /// The note.
        note: String,
    },
    /// A person reviewed the landed work of the task, with `ralph review`, and keeps it.
    Reviewed {
        /// The attempt.
        attempt: u32,
        /// The person's note about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A person looked at the end of the newest run.
    Looked {},
    /// The attempts of the task were reset.
    Reset {},
    /// `ralph pause`: no attempt starts until `ralph resume`.
    PauseRequested {},
    /// `ralph resume` ended the pause.
    ResumeRequested {
        /// Whether rate-limited providers are retried immediately.
        #[serde(default, skip_serializing_if = "is_default")]
        now: bool,
    },
    /// A signal, `ralph stop` or the time limit asked the run to stop.
    StopRequested(StopRequest),
}

/// A question and the answer of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The question; empty if the task needed input without one.
    pub question: String,
    /// The answer.
    pub answer: String,
}

impl Answer {
    /// A person's unasked note to the next attempts: an answer to no question.
    pub fn note(text: impl Into<String>) -> Answer {
        Answer { question: String::new(), answer: text.into() }
    }
}

/// A request to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// The name of the signal; none for `ralph stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The limit on the time of the run, if that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Whether the running attempts are ended too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub now: bool,
}
