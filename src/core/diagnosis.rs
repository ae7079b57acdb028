//! The diagnosis of a task that ran out of attempts, by another agent: its answer, and what follows.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{graph::task::TaskId, reviewer::last_json};

/// What happens to a task that runs out of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnParked {
    /// It waits for a person.
    #[default]
    Wait,
    /// An agent reads its attempts first, and may mend the graph.
    Diagnose,
}

/// The most tasks that a diagnosis may add.
pub const MOST_TASKS: usize = 8;
/// The longest reason, and the longest question, in characters.
const LONGEST: (usize, usize) = (500, 2000);

/// The answer of an agent that diagnoses a task. It can ask for nothing else.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum DiagnosisAnswer {
    /// Parts of the task are done first, as tasks of their own.
    Split {
        /// The parts, with the fields of tasks.
        tasks: Vec<Map<String, Value>>,
        /// The reason.
        why: String,
    },
    /// Something else is done first.
    Prerequisite {
        /// The task.
        tasks: Vec<Map<String, Value>>,
        /// The reason.
        why: String,
    },
    /// Another agent tries.
    Agent {
        /// Its name.
        agent: String,
        /// The reason.
        why: String,
    },
    /// A person has to say something.
    Ask {
        /// The question.
        question: String,
    },
    /// The task cannot be done.
    GiveUp {
        /// The reason.
        why: String,
    },
}

impl DiagnosisAnswer {
    /// The last answer in a text.
    ///
    /// # Errors
    /// There is none, or it is not of use: what is wrong with it.
    pub fn read(text: &str) -> Result<DiagnosisAnswer, String> {
        let found = last_json(text, '{', |value| value.get("action").is_some().then_some(value));
        let found = found.ok_or("its last message has no `action` as JSON")?;
        let mut answer =
            serde_json::from_value(found).map_err(|why| format!("its answer: {why}"))?;
        let count = |all: &[_], least: usize, most: usize| {
            let fits = (least..=most).contains(&all.len());
            let wanted =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let why = || format!("its answer has {} tasks instead of {wanted}", all.len());
            fits.then_some(()).ok_or_else(why)
        };
        let (text, longest) = match &mut answer {
            DiagnosisAnswer::Split { tasks, why } => {
                count(tasks, 2, MOST_TASKS)?;
                (why, LONGEST.0)
            }
            DiagnosisAnswer::Prerequisite { tasks, why } => {
                count(tasks, 1, 1)?;
                (why, LONGEST.0)
            }
            DiagnosisAnswer::Agent { why, .. } | DiagnosisAnswer::GiveUp { why } => {
                (why, LONGEST.0)
            }
            DiagnosisAnswer::Ask { question } => (question, LONGEST.1),
        };
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        *text = words.chars().take(longest).collect();
        if text.is_empty() {
            return Err("its answer gives no reason".to_owned());
        }
        Ok(answer)
    }

    /// The tasks that it adds, as the text of a draft.
    pub fn draft(&self) -> Option<String> {
        match self {
            DiagnosisAnswer::Split { tasks, .. } | DiagnosisAnswer::Prerequisite { tasks, .. } => {
                Some(json!({ "tasks": tasks }).to_string())
            }
            DiagnosisAnswer::Agent { .. }
            | DiagnosisAnswer::Ask { .. }
            | DiagnosisAnswer::GiveUp { .. } => None,
        }
    }

    /// What was done about it; `added` are the tasks that it added.
    pub fn remedy(self, added: Vec<TaskId>) -> Remedy {
        match self {
            DiagnosisAnswer::Split { why, .. } => Remedy::Split { tasks: added, why },
            DiagnosisAnswer::Prerequisite { why, .. } => Remedy::Prerequisite { tasks: added, why },
            DiagnosisAnswer::Agent { agent, why } => Remedy::Agent { agent, why },
            DiagnosisAnswer::Ask { question } => Remedy::Asked { question },
            DiagnosisAnswer::GiveUp { why } => Remedy::GivenUp { why },
        }
    }
}

/// What a diagnosis did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum Remedy {
    /// Added parts of the task, for which it waits.
    Split {
        /// The parts.
        tasks: Vec<TaskId>,
        /// The reason.
        why: String,
    },
    /// Added a task, for which it waits.
    Prerequisite {
        /// The task.
        tasks: Vec<TaskId>,
        /// The reason.
        why: String,
    },
    /// Gave it to another agent.
    Agent {
        /// The agent.
        agent: String,
        /// The reason.
        why: String,
    },
    /// Asked a person.
    Asked {
        /// The question.
        question: String,
    },
    /// Said that it cannot be done.
    GivenUp {
        /// The reason.
        why: String,
    },
    /// Nothing, because there is no diagnosis.
    Failed {
        /// The reason.
        why: String,
    },
}

impl Remedy {
    /// The tasks that it added.
    pub fn added(&self) -> &[TaskId] {
        match self {
            Remedy::Split { tasks, .. } | Remedy::Prerequisite { tasks, .. } => tasks,
            Remedy::Agent { .. }
            | Remedy::Asked { .. }
            | Remedy::GivenUp { .. }
            | Remedy::Failed { .. } => &[],
        }
    }

    /// Whether it changes the graph, so that the task gets another round of attempts.
    pub fn mends(&self) -> bool {
        matches!(self, Remedy::Agent { .. }) || !self.added().is_empty()
    }
}

/// A diagnosis of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The name of the agent that made it.
    pub by: String,
    /// What it did.
    #[serde(flatten)]
    pub remedy: Remedy,
}

impl Diagnosis {
    /// A diagnosis that was not made.
    pub fn failed(by: &str, why: String) -> Diagnosis {
        Diagnosis { by: by.to_owned(), remedy: Remedy::Failed { why } }
    }

    /// The question to a person.
    pub fn question(&self) -> Option<&str> {
        if let Remedy::Asked { question } = &self.remedy { Some(question) } else { None }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |tasks: &[TaskId]| {
            let names: Vec<String> = tasks.iter().map(|id| format!("`{id}`")).collect();
            names.join(", ")
        };
        let by = &self.by;
        match &self.remedy {
            Remedy::Split { tasks, why } => {
                write!(f, "`{by}` split {} off it: {why}", names(tasks))
            }
            Remedy::Prerequisite { tasks, why } => {
                write!(f, "`{by}` put {} before it: {why}", names(tasks))
            }
            Remedy::Agent { agent, why } => write!(f, "`{by}` gave it to `{agent}`: {why}"),
            Remedy::Asked { question } => write!(f, "`{by}` asked: {question}"),
            Remedy::GivenUp { why } => write!(f, "`{by}` says that it cannot be done: {why}"),
            Remedy::Failed { why } => write!(f, "`{by}` did not diagnose it: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_answers_are_read() {
        let good = r#"For example {"action": "ask", "question": "no"}. So:
            {"action": "split", "why": "too\n large", "tasks": [{"id": "b"}, {"id": "c", "verify": ["x"]}]}
            Done."#;
        let DiagnosisAnswer::Split { tasks, why } = DiagnosisAnswer::read(good).unwrap() else {
            panic!("it splits");
        };
        assert_eq!((tasks.len(), why.as_str()), (2, "too large"));
        for (odd, why) in [
            ("I would split it", "no `action`"),
            (r#"{"action": "remove", "why": "x"}"#, "unknown variant `remove`"),
            (r#"{"action": "give_up", "why": " "}"#, "no reason"),
            (r#"{"action": "give_up", "why": "x", "verify": []}"#, "unknown field `verify`"),
            (r#"{"action": "agent", "agent": "a", "why": "x", "task": "b"}"#, "unknown field"),
            (r#"{"action": "split", "why": "x", "tasks": [{"id": "b"}]}"#, "1 tasks instead of 2"),
            (r#"{"action": "prerequisite", "why": "x", "tasks": []}"#, "0 tasks instead of 1"),
        ] {
            let fault = DiagnosisAnswer::read(odd).unwrap_err();
            assert!(fault.contains(why), "{odd}: {fault}");
        }
    }
}
