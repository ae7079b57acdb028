//! A task and its parts: id, status, priority, weight.
//!
//! Nothing here reads files; `load` reads `task-graph.yaml`.

use std::{borrow::Borrow, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::core::{agents::agent_command::AgentCommand, graph::glob::Glob};

/// The id of a task: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, without `..`.
///
/// The rule makes an id safe as a file name, a branch name and a word on a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TaskId(Arc<str>);

/// The longest id, in bytes.
pub const MAX_ID: usize = 64;

impl TaskId {
    /// Checks that the text is an id.
    ///
    /// # Errors
    /// The broken rule, as a phrase to follow "the id `…`".
    pub fn new(text: &str) -> Result<TaskId, &'static str> {
        let mut bytes = text.bytes();
        let Some(first) = bytes.next() else {
            return Err("is empty");
        };
        if text.len() > MAX_ID {
            return Err("is longer than 64 characters");
        }
        if !first.is_ascii_alphanumeric() {
            return Err("must start with a letter or a digit");
        }
        if !bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            return Err("may contain only letters, digits, `.`, `_` and `-`");
        }
        if text.contains("..") {
            return Err("must not contain `..`");
        }
        Ok(TaskId(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Lets maps by id be searched with any text.
impl Borrow<str> for TaskId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<TaskId, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        TaskId::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The status of a task in the graph file. Whether a pending task is *ready* is derived, never
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Not started, or released.
    Pending,
    /// Claimed. Only the lock and the attempt records show whether an attempt is running.
    InProgress,
    /// Done, with evidence.
    Complete,
    /// Blocked by a person.
    Blocked,
    /// Waiting for an answer from a person.
    NeedsInput,
    /// Will not be done. It does not satisfy its dependents.
    Cancelled,
}

/// All accepted spellings, the canonical one first. `_`, `-`, blanks and case do not matter.
const SPELLINGS: [(Status, &[&str]); 6] = [
    (Status::Pending, &["pending", "ready", "todo", "open", "backlog", "not-started"]),
    (Status::InProgress, &["in-progress", "doing", "started", "wip"]),
    (Status::Complete, &["complete", "completed", "done", "closed"]),
    (Status::Blocked, &["blocked", "on-hold"]),
    (Status::NeedsInput, &["needs-input", "waiting-for-input"]),
    (
        Status::Cancelled,
        &["cancelled", "canceled", "deferred", "rejected", "wontfix", "skipped", "superseded"],
    ),
];

impl Status {
    /// Parses any accepted spelling.
    pub fn parse(text: &str) -> Option<Status> {
        let exact = SPELLINGS.iter().find(|(_, words)| words.contains(&text));
        if let Some((status, _)) = exact {
            return Some(*status);
        }
        let folded: String = text
            .chars()
            .map(|c| if c == '_' || c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        let squeezed = |word: &str| word.chars().filter(|c| *c != '-').collect::<String>();
        SPELLINGS
            .iter()
            .find(|(_, words)| {
                words.contains(&folded.as_str())
                    || words.iter().any(|w| squeezed(w) == squeezed(&folded))
            })
            .map(|(status, _)| *status)
    }

    /// Whether there is nothing left to do: complete or cancelled.
    pub fn is_over(self) -> bool {
        matches!(self, Status::Complete | Status::Cancelled)
    }

    /// The canonical spelling.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::InProgress => "in-progress",
            Status::Complete => "complete",
            Status::Blocked => "blocked",
            Status::NeedsInput => "needs-input",
            Status::Cancelled => "cancelled",
        }
    }

    /// All accepted spellings.
    pub fn words() -> impl Iterator<Item = &'static str> {
        SPELLINGS.iter().flat_map(|(_, words)| words.iter().copied())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The spelling of statuses in one graph file, which `ralph` keeps when it writes.
#[derive(Clone, Debug, Default)]
pub struct Spelling {
    seen: Vec<(Status, String, usize)>,
}

impl Spelling {
    /// Counts a spelling found in the file.
    pub fn note(&mut self, status: Status, text: &str) {
        match self.seen.iter_mut().find(|(_, word, _)| word == text) {
            Some((_, _, count)) => *count += 1,
            None => self.seen.push((status, text.to_owned(), 1)),
        }
    }

    /// Returns the most frequent spelling of `status` in the file. If there is none, returns the
    /// canonical word with the separator and the case of the other statuses.
    pub fn write(&self, status: Status) -> String {
        let commonest = self
            .seen
            .iter()
            .filter(|(seen, _, _)| *seen == status)
            // If the file has both `ready` and `pending`, a released task is only pending.
            .max_by_key(|(_, word, count)| {
                (status == Status::Pending && word == "pending", *count)
            });
        if let Some((_, word, _)) = commonest {
            return word.clone();
        }
        let any = |test: fn(&str) -> bool| self.seen.iter().any(|(_, word, _)| test(word));
        let mut word = status.word().to_owned();
        if any(|w| w.contains('_')) {
            word = word.replace('-', "_");
        }
        if !self.seen.is_empty() && !any(|w| w.contains(|c: char| c.is_ascii_lowercase())) {
            word = word.to_ascii_uppercase();
        } else if !self.seen.is_empty() && !any(|w| w.starts_with(|c: char| c.is_ascii_lowercase()))
        {
            word[..1].make_ascii_uppercase();
        }
        word
    }
}

/// The urgency of a task: smaller is more urgent. `P0`–`P4` are 0–4; critical, high, medium and
/// low are 0, 1, 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub i64);

impl Priority {
    /// Parses a number, `P0`–`P4` or a word.
    pub fn parse(text: &str) -> Option<Priority> {
        let text = text.trim();
        let value = match text.to_ascii_lowercase().as_str() {
            "critical" | "urgent" | "p0" => 0,
            "high" | "p1" => 1,
            "medium" | "normal" | "p2" => 2,
            "low" | "p3" => 3,
            "p4" => 4,
            other => other.parse().ok()?,
        };
        Some(Priority(value))
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority(2)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}

/// Returns the expected minutes of a size, the weight of a task in the longest remaining chain.
///
/// Each size is twice the one before it. Only the proportions affect the order of tasks.
pub fn minutes_of_size(size: &str) -> Option<u32> {
    match size.to_ascii_uppercase().as_str() {
        "XS" => Some(15),
        "S" => Some(30),
        "M" => Some(60),
        "L" => Some(120),
        "XL" => Some(240),
        _ => None,
    }
}

/// The weight of a task with neither `estimate` nor `complexity`, which is that of size M.
pub const DEFAULT_MINUTES: u32 = 60;

/// Whether a task needs a commit to be complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitRule {
    /// A commit is needed.
    #[default]
    Required,
    /// A report is enough, as for research.
    Optional,
}

/// A task as declared in the file. Its dependencies are in the graph.
#[derive(Clone, Debug)]
pub struct Task {
    /// The id.
    pub id: TaskId,
    /// One line. Default: the id.
    pub title: String,
    /// The text for the agent.
    pub description: Option<String>,
    /// The urgency.
    pub priority: Priority,
    /// The status in the file.
    pub status: Status,
    /// The expected duration in minutes, from `estimate` or `complexity`.
    pub minutes: u32,
    /// Whether a commit is required.
    pub commit: CommitRule,
    /// The story that it belongs to.
    pub story: Option<String>,
    /// The milestone that it belongs to.
    pub milestone: Option<String>,
    /// The labels.
    pub tags: Vec<String>,
    /// The files that it will change. Empty if it declares none.
    pub touches: Vec<Glob>,
    /// The template under `prompts/` that replaces `task.md`.
    pub prompt: Option<String>,
    /// The agents, in the order in which they are tried. Empty for those of the settings.
    pub agents: Vec<AgentCommand>,
    /// Where its attempts run. None for what the settings say.
    pub run_on: Option<String>,
    /// Shell commands that must succeed before it is complete. None for those of the settings.
    pub verify: Option<Vec<String>>,
    /// Whether they also run before an attempt.
    pub verify_baseline: Option<bool>,
    /// The wall-clock limit of one attempt.
    pub timeout: Option<Duration>,
    /// The idle time after which an attempt is ended; zero for no limit.
    pub idle: Option<Duration>,
    /// The time in progress after which it counts as stale.
    pub stale_after: Option<Duration>,
    /// The number of attempts before it is parked.
    pub max_attempts: Option<u32>,
    /// The most that all its attempts together may cost, in US dollars.
    pub max_cost: Option<f64>,
    /// The rules of `ralph check --strict` that do not apply to it.
    pub allow: Vec<String>,
    /// When it was claimed (RFC 3339), as the file says.
    pub claimed_at: Option<String>,
    /// Who claimed it.
    pub claimed_by: Option<String>,
    /// The fields that templates see as written: `path`, `output`, `verify` and unknown fields.
    pub extra: Map<String, Value>,
}

impl Task {
    /// The run of `ralph` that has claimed it, while it is in progress; `prompt` for a claim by
    /// `ralph prompt --accept`.
    pub fn claiming_run(&self) -> Option<&str> {
        let by = self.claimed_by.as_deref()?.strip_prefix("ralph ")?;
        (self.status == Status::InProgress).then_some(by)
    }

    /// A pending task for which the file sets nothing but the id.
    pub fn new(id: TaskId) -> Task {
        Task {
            title: id.to_string(),
            id,
            description: None,
            priority: Priority::default(),
            status: Status::Pending,
            minutes: DEFAULT_MINUTES,
            commit: CommitRule::default(),
            story: None,
            milestone: None,
            tags: Vec::new(),
            touches: Vec::new(),
            prompt: None,
            agents: Vec::new(),
            run_on: None,
            verify: None,
            verify_baseline: None,
            timeout: None,
            idle: None,
            stale_after: None,
            max_attempts: None,
            max_cost: None,
            allow: Vec::new(),
            claimed_at: None,
            claimed_by: None,
            extra: Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_rule() {
        for good in ["a", "S-001-R", "T_1.2", "0", &"x".repeat(64)] {
            assert!(TaskId::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "a b", "a/b", "a..b", "é", "a\0", "a\u{1b}[0m", &"x".repeat(65)]
        {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn statuses_are_read_in_any_spelling() {
        for (text, want) in [
            ("IN_PROGRESS", Status::InProgress),
            ("In Progress", Status::InProgress),
            ("inProgress", Status::InProgress),
            ("Done", Status::Complete),
            ("todo", Status::Pending),
            ("needs_input", Status::NeedsInput),
            ("wontfix", Status::Cancelled),
        ] {
            assert_eq!(Status::parse(text), Some(want), "{text}");
        }
        assert_eq!(Status::parse("dnoe"), None);
    }

    #[test]
    fn writing_keeps_the_spelling_of_the_file() {
        let of = |words: &[&str]| {
            let mut spelling = Spelling::default();
            for word in words {
                spelling.note(Status::parse(word).unwrap(), word);
            }
            spelling
        };
        assert_eq!(of(&[]).write(Status::InProgress), "in-progress");
        assert_eq!(of(&["todo", "done"]).write(Status::Complete), "done");
        assert_eq!(of(&["needs_input"]).write(Status::InProgress), "in_progress");
        assert_eq!(of(&["TODO"]).write(Status::InProgress), "IN-PROGRESS");
        assert_eq!(of(&["Todo"]).write(Status::Complete), "Complete");
        assert_eq!(of(&["ready", "ready", "pending"]).write(Status::Pending), "pending");
        assert_eq!(of(&["ready"]).write(Status::Pending), "ready");
    }

    #[test]
    fn priorities_are_numbers_or_words() {
        assert_eq!(Priority::parse("P0"), Some(Priority(0)));
        assert_eq!(Priority::parse("High"), Some(Priority(1)));
        assert_eq!(Priority::parse("7"), Some(Priority(7)));
        assert_eq!(Priority::parse("soonish"), None);
    }
}
