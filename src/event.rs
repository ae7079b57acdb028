//! The facts of a run: what is written to the journal, and what every view is made from.
//!
//! Owned, serialisable, in the past tense. One enum, one line each, documented in
//! `docs/journal.md`. Outcome (how the process ended), evidence (what git shows) and verdict (the
//! judgement on both) are three types, because a runner that blurs them loops for ever or stops
//! too soon.
//!
//! Knows no disk and no clock. The hand-written (de)serialisers of [`Record`] keep a journal line
//! flat without serde's `flatten`, whose buffering makes reading four times slower.

use std::{fmt, time::Duration};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, value::MapAccessDeserializer},
};

use crate::{
    duration,
    exit::Exit,
    task::{CommitRule, Status, TaskId},
};

/// The version of the journal's shape, in the first line of every run.
pub const SCHEMA: u32 = 1;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When, to the millisecond.
    pub timestamp: DateTime<Utc>,
    /// The invocation it belongs to.
    pub run_id: String,
    /// Counts the lines of the journal, without gaps.
    pub seq: u64,
    /// The attempt's number in its run.
    pub iteration: Option<u32>,
    /// The task it is about.
    pub task_id: Option<TaskId>,
    /// What happened.
    pub event: Event,
}

/// What happened. The name in snake case is the line's `action`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// `ralph run` began.
    LoopStarted {
        /// [`SCHEMA`].
        schema: u32,
        /// The version of `ralph`.
        version: String,
        /// The process.
        pid: u32,
        /// The agent's command line.
        agent: Vec<String>,
        /// The bound on attempts.
        max_iterations: u32,
        /// What the run was restricted to, as the flags said it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        filter: Vec<String>,
    },
    /// The graph file was read, at the start or because it had changed.
    GraphLoaded {
        /// How many tasks.
        tasks: usize,
        /// How many of them are complete.
        complete: usize,
    },
    /// The graph file had changed and could not be read; the last good one is kept.
    GraphRejected {
        /// The first fault, with its place.
        error: String,
    },
    /// An attempt began.
    Started {
        /// Its number, per task.
        attempt: u32,
        /// The commit it started from; none in an unborn repository.
        base: Option<String>,
        /// The branch it started on.
        branch: Option<String>,
        /// Where prompt and output lie, relative to the repository.
        log: String,
        /// The key by which the task was chosen.
        why: String,
    },
    /// Somebody said the task is done, with `ralph task-complete`, while an attempt ran.
    Reported {
        /// The attempt.
        attempt: u32,
    },
    /// The attempt was told to end before it did so by itself.
    Terminating {
        /// The attempt.
        attempt: u32,
        /// The reason.
        why: String,
    },
    /// The attempt ended and the task is complete.
    Completed(Ended),
    /// The attempt ended and the task is not complete; the attempt counts.
    Failed(Ended),
    /// The attempt was cut off by `ralph` or by a crash; it does not count.
    Interrupted(Ended),
    /// The task is out of attempts and waits for a person.
    Parked {
        /// How many attempts were made since the last reset.
        attempts: u32,
    },
    /// An attempt was found open at the start; the line after this one closes it.
    Recovered {
        /// The attempt.
        attempt: u32,
        /// The run that left it.
        from_run: String,
    },
    /// A status changed in the graph file.
    StatusChanged {
        /// Before; none for a task that is new.
        old: Option<Status>,
        /// After; none for a task that is gone.
        new: Option<Status>,
        /// By whom and why.
        cause: Cause,
        /// What the person said, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The task's attempts were set back to none.
    Reset {},
    /// Nothing can start before `until`.
    Waiting {
        /// The time.
        until: DateTime<Utc>,
        /// What for.
        why: String,
    },
    /// Everything left is blocked; what holds it, and how much each would free.
    Blocked {
        /// The smallest set, most freeing first.
        holders: Vec<Holder>,
    },
    /// A signal asked the run to stop.
    StopRequested {
        /// Its name.
        signal: String,
    },
    /// `ralph run` ended.
    Finished {
        /// In words.
        why: String,
        /// The exit code.
        exit_code: u8,
        /// Attempts in this run.
        iterations: u32,
        /// Tasks completed in this run.
        completed: u32,
        /// Tasks neither complete nor cancelled.
        remaining: usize,
        /// Wall time of the run.
        duration_seconds: f64,
    },
}

impl Event {
    /// Every `action`, in the order of the variants. Tests hold it against the enum and the docs.
    pub const ACTIONS: &[&str] = &[
        "loop_started",
        "graph_loaded",
        "graph_rejected",
        "started",
        "reported",
        "terminating",
        "completed",
        "failed",
        "interrupted",
        "parked",
        "recovered",
        "status_changed",
        "reset",
        "waiting",
        "blocked",
        "stop_requested",
        "finished",
    ];
}

/// Who changed a status, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `ralph` is about to start an attempt, or `ralph prompt --accept` did.
    Claimed,
    /// The verdict was complete.
    Completed,
    /// The attempt did not complete it; it is ready for another.
    Released,
    /// A person's command: `task-reset`, `task-complete`, `task-block`.
    Command,
    /// Somebody edited the file between attempts.
    Edited,
    /// The file was edited while an attempt ran: by its agent or by a person.
    EditedDuringAttempt,
    /// Recovery after a crash gave it back.
    Recovered,
}

/// The end of an attempt, with its proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Its number.
    pub attempt: u32,
    /// The judgement.
    pub verdict: Verdict,
    /// The judgement in words.
    pub why: String,
    /// How the process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// What the repository shows.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// The last line of output that is not blank, cut to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// Where prompt and output lie, relative to the repository.
    pub log: String,
}

impl Ended {
    /// Wall time.
    pub fn duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.duration_seconds).unwrap_or_default()
    }
}

/// A task that holds others back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The task.
    pub task_id: TaskId,
    /// What is the matter with it.
    pub why: String,
    /// How many unfinished tasks would be free to go on, all the holders before it in the list
    /// being dealt with, itself counted.
    pub frees: usize,
}

/// How the agent's process ended: what `ralph` did to it first, its status second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// By itself.
    Exited {
        /// With this code.
        exit_code: i32,
    },
    /// By a signal that was not ours.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// We ended it at its limit.
    TimedOut {
        /// The limit.
        limit_seconds: u64,
    },
    /// We ended it because the run was stopped.
    Cancelled,
    /// The runner died; how the agent ended is not known.
    Interrupted,
    /// It never began.
    NotStarted {
        /// The reason.
        error: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exited { exit_code } => write!(f, "exited with code {exit_code}"),
            Outcome::Signaled { signal: 9 } => f.write_str("killed by signal 9 (out of memory?)"),
            Outcome::Signaled { signal } => write!(f, "killed by signal {signal}"),
            Outcome::TimedOut { limit_seconds } => {
                let limit = duration::short(Duration::from_secs(*limit_seconds));
                write!(f, "ended by ralph at its limit of {limit}")
            }
            Outcome::Cancelled => f.write_str("ended by ralph because the run was stopped"),
            Outcome::Interrupted => f.write_str("cut off when the runner died"),
            Outcome::NotStarted { error } => write!(f, "could not be started: {error}"),
        }
    }
}

/// How the agent said that it is done. An exit code is never such a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// `ralph task-complete ID`.
    Command,
    /// The file `DONE` in the task's folder.
    DoneFile,
    /// The graph file's own `status: complete`.
    Graph,
}

/// One commit of the agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The full id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// The first seven digits of the id.
    pub fn short(&self) -> &str {
        self.id.get(..7).unwrap_or(&self.id)
    }
}

/// How much changed between two commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// Files touched.
    pub files: usize,
    /// Lines added.
    pub insertions: usize,
    /// Lines removed.
    pub deletions: usize,
}

impl fmt::Display for DiffStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.files == 1 { "" } else { "s" };
        write!(
            f,
            "{} file{plural}, +{} -{}",
            self.files, self.insertions, self.deletions
        )
    }
}

/// What the repository and the graph show after an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// How completion was reported, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// New commits that descend from the base, oldest first.
    #[serde(default)]
    pub commits: Vec<Commit>,
    /// What they changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
    /// Paths that are changed and not committed, and were not so before the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// What happened to the branch, when it is not where a descendant of the base would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strayed: Option<String>,
}

/// The judgement on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Reported and proven.
    Complete,
    /// Ended without a report.
    Incomplete,
    /// Reported, but nothing changed in git.
    Unverified,
    /// Reported, but the work is not committed.
    Uncommitted,
    /// Reported, but the branch was left or its history rewritten.
    OffBranch,
    /// The process failed.
    Failed,
    /// It reached its limit.
    TimedOut,
    /// The run was stopped.
    Cancelled,
    /// The runner died.
    Interrupted,
}

impl Verdict {
    /// Judges. The report decides first, the proof second; the exit code only names what went
    /// wrong, since real agents exit 0 after errors and 1 after good work.
    pub fn of(outcome: &Outcome, evidence: &Evidence, rule: CommitRule) -> Verdict {
        if evidence.report.is_none() {
            return match outcome {
                Outcome::Exited { exit_code: 0 } => Verdict::Incomplete,
                Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::NotStarted { .. } => {
                    Verdict::Failed
                }
                Outcome::TimedOut { .. } => Verdict::TimedOut,
                Outcome::Cancelled => Verdict::Cancelled,
                Outcome::Interrupted => Verdict::Interrupted,
            };
        }
        if evidence.strayed.is_some() {
            return Verdict::OffBranch;
        }
        if !evidence.leftovers.is_empty() {
            // Cut short in the middle of its last changes: the report came too early.
            match outcome {
                Outcome::TimedOut { .. } => return Verdict::TimedOut,
                Outcome::Cancelled => return Verdict::Cancelled,
                Outcome::Interrupted => return Verdict::Interrupted,
                Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::NotStarted { .. } => {}
            }
        }
        match (
            evidence.commits.is_empty(),
            rule,
            evidence.leftovers.is_empty(),
        ) {
            (false, _, _) | (true, CommitRule::Optional, _) => Verdict::Complete,
            (true, CommitRule::Required, false) => Verdict::Uncommitted,
            (true, CommitRule::Required, true) => Verdict::Unverified,
        }
    }

    /// Whether the attempt uses up one of the task's.
    pub fn counts(self) -> bool {
        !matches!(
            self,
            Verdict::Complete | Verdict::Cancelled | Verdict::Interrupted
        )
    }

    /// The judgement in words, for people and for the next prompt.
    pub fn explain(self, outcome: &Outcome, evidence: &Evidence) -> String {
        let left = evidence.leftovers.len();
        match self {
            Verdict::Complete if evidence.commits.is_empty() => {
                "reported done; no commit is required".to_owned()
            }
            Verdict::Complete => "reported done, and committed".to_owned(),
            Verdict::Incomplete => "ended without reporting that the task is done".to_owned(),
            Verdict::Unverified => "reported done, but nothing changed in git".to_owned(),
            Verdict::Uncommitted => {
                let plural = if left == 1 { "" } else { "s" };
                format!("reported done, but left {left} changed file{plural} uncommitted")
            }
            Verdict::OffBranch => format!(
                "reported done, but {}",
                evidence.strayed.as_deref().unwrap_or("the branch was left")
            ),
            Verdict::Failed | Verdict::TimedOut | Verdict::Cancelled | Verdict::Interrupted => {
                outcome.to_string()
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Complete => "complete",
            Verdict::Incomplete => "incomplete",
            Verdict::Unverified => "unverified",
            Verdict::Uncommitted => "uncommitted",
            Verdict::OffBranch => "off-branch",
            Verdict::Failed => "failed",
            Verdict::TimedOut => "timed-out",
            Verdict::Cancelled => "cancelled",
            Verdict::Interrupted => "interrupted",
        })
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum StopReason {
    /// Every task in question is complete.
    Complete,
    /// This limit was reached.
    Limit(String),
    /// Nothing left can start.
    Blocked(Vec<Holder>),
    /// So many attempts failed one after the other.
    Failures(u32),
    /// A signal: its number and name.
    Signal(i32, &'static str),
}

impl StopReason {
    /// The code to exit with.
    pub fn exit(&self) -> Exit {
        match self {
            StopReason::Complete => Exit::Success,
            StopReason::Limit(_) => Exit::Limit,
            StopReason::Blocked(_) => Exit::Blocked,
            StopReason::Failures(_) => Exit::Error,
            StopReason::Signal(number, _) => Exit::Signal(*number),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Complete => f.write_str("complete"),
            StopReason::Limit(what) => write!(f, "{what} reached"),
            StopReason::Blocked(_) => f.write_str("everything left is blocked"),
            StopReason::Failures(count) => write!(f, "{count} failures in a row"),
            StopReason::Signal(_, name) => write!(f, "stopped by {name}"),
        }
    }
}

/// The fields every line has, in the order in which they are written.
#[derive(Serialize)]
struct Envelope<'a> {
    timestamp: String,
    run_id: &'a str,
    seq: u64,
    iteration: Option<u32>,
    task_id: Option<&'a TaskId>,
}

impl Record {
    /// One line of JSON with its newline; `action` and the event's fields follow the envelope.
    pub fn to_line(&self) -> String {
        let envelope = Envelope {
            timestamp: self.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
            run_id: &self.run_id,
            seq: self.seq,
            iteration: self.iteration,
            task_id: self.task_id.as_ref(),
        };
        let json = |result: Result<String, serde_json::Error>| {
            result.expect("an event has only string keys and finite numbers")
        };
        let head = json(serde_json::to_string(&envelope));
        let body = json(serde_json::to_string(&self.event));
        // body is `{"action":{fields}}`.
        let (action, fields) = body[1..body.len() - 1]
            .split_once(':')
            .expect("an event is one key and its fields");
        let comma = if fields == "{}" { "" } else { "," };
        format!(
            "{},\"action\":{action}{comma}{}\n",
            &head[..head.len() - 1],
            &fields[1..]
        )
    }

    /// Reads a line that [`Record::to_line`] wrote, by this version or another.
    ///
    /// # Errors
    /// [`Unread::Unknown`] for an action of a newer version, else [`Unread::Damaged`].
    pub fn from_line(line: &[u8]) -> Result<Record, Unread> {
        let mut unknown = false;
        let mut deserializer = serde_json::Deserializer::from_slice(line);
        let record = deserializer
            .deserialize_map(RecordVisitor {
                unknown: &mut unknown,
            })
            .and_then(|record| deserializer.end().map(|()| record));
        record.map_err(|_| {
            if unknown {
                Unread::Unknown
            } else {
                Unread::Damaged
            }
        })
    }
}

/// Why a line was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Not a record: torn, or written by somebody else.
    Damaged,
    /// An action that this version does not know.
    Unknown,
}

struct RecordVisitor<'a> {
    unknown: &'a mut bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Timestamp,
    RunId,
    Seq,
    Iteration,
    TaskId,
    Action,
    #[serde(other)]
    Other,
}

impl<'de> de::Visitor<'de> for RecordVisitor<'_> {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a journal line")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Record, M::Error> {
        let (mut timestamp, mut run_id, mut seq) = (None, None, None);
        let (mut iteration, mut task_id) = (None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Timestamp => timestamp = Some(map.next_value()?),
                Key::RunId => run_id = Some(map.next_value()?),
                Key::Seq => seq = Some(map.next_value()?),
                Key::Iteration => iteration = map.next_value()?,
                Key::TaskId => task_id = map.next_value()?,
                Key::Other => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                Key::Action => {
                    let action: std::borrow::Cow<'de, str> = map.next_value()?;
                    if !Event::ACTIONS.contains(&&*action) {
                        *self.unknown = true;
                        return Err(de::Error::custom("unknown action"));
                    }
                    return Ok(Record {
                        timestamp: timestamp
                            .ok_or_else(|| de::Error::missing_field("timestamp"))?,
                        run_id: run_id.ok_or_else(|| de::Error::missing_field("run_id"))?,
                        seq: seq.ok_or_else(|| de::Error::missing_field("seq"))?,
                        iteration,
                        task_id,
                        event: Event::deserialize(Tagged {
                            action: &action,
                            fields: map,
                        })?,
                    });
                }
            }
        }
        Err(de::Error::missing_field("action"))
    }
}

/// Presents `action` and the rest of the line as the externally tagged enum that serde derives.
struct Tagged<'a, M> {
    action: &'a str,
    fields: M,
}

impl<'de, M: MapAccess<'de>> Deserializer<'de> for Tagged<'_, M> {
    type Error = M::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, M::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de, M: MapAccess<'de>> de::EnumAccess<'de> for Tagged<'_, M> {
    type Error = M::Error;
    type Variant = Fields<M>;

    fn variant_seed<S: de::DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Fields<M>), M::Error> {
        let tag = de::value::StrDeserializer::new(self.action);
        Ok((seed.deserialize(tag)?, Fields(self.fields)))
    }
}

struct Fields<M>(M);

impl<'de, M: MapAccess<'de>> de::VariantAccess<'de> for Fields<M> {
    type Error = M::Error;

    fn unit_variant(self) -> Result<(), M::Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: de::DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<S::Value, M::Error> {
        seed.deserialize(MapAccessDeserializer::new(self.0))
    }

    fn tuple_variant<V: de::Visitor<'de>>(
        self,
        _len: usize,
        _visitor: V,
    ) -> Result<V::Value, M::Error> {
        Err(de::Error::custom("an event has named fields"))
    }

    fn struct_variant<V: de::Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, M::Error> {
        visitor.visit_map(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(verdict: Verdict) -> Ended {
        Ended {
            attempt: 2,
            verdict,
            why: "because".to_owned(),
            outcome: Outcome::Exited { exit_code: 0 },
            duration_seconds: 1.5,
            evidence: Evidence {
                report: Some(Report::DoneFile),
                commits: vec![Commit {
                    id: "a".repeat(40),
                    subject: "Do \"it\"".to_owned(),
                }],
                diff: Some(DiffStat {
                    files: 1,
                    insertions: 2,
                    deletions: 0,
                }),
                leftovers: vec!["x y".to_owned()],
                strayed: None,
            },
            last_line: Some("bye".to_owned()),
            log: "logs/attempts/a/2".to_owned(),
        }
    }

    fn record(event: Event) -> Record {
        Record {
            timestamp: "2026-11-20T22:44:03.125Z".parse().unwrap(),
            run_id: "r1".to_owned(),
            seq: 7,
            iteration: Some(3),
            task_id: Some(TaskId::new("a").unwrap()),
            event,
        }
    }

    /// One of each variant, so that a new one must be added here to compile the test below.
    fn every_event() -> Vec<Event> {
        let id = TaskId::new("a").unwrap();
        let all = vec![
            Event::LoopStarted {
                schema: SCHEMA,
                version: "0".to_owned(),
                pid: 1,
                agent: vec!["cat".to_owned()],
                max_iterations: 50,
                filter: Vec::new(),
            },
            Event::GraphLoaded {
                tasks: 2,
                complete: 1,
            },
            Event::GraphRejected {
                error: "x".to_owned(),
            },
            Event::Started {
                attempt: 1,
                base: None,
                branch: Some("main".to_owned()),
                log: "l".to_owned(),
                why: "w".to_owned(),
            },
            Event::Reported { attempt: 1 },
            Event::Terminating {
                attempt: 1,
                why: "w".to_owned(),
            },
            Event::Completed(ended(Verdict::Complete)),
            Event::Failed(ended(Verdict::Unverified)),
            Event::Interrupted(ended(Verdict::Cancelled)),
            Event::Parked { attempts: 3 },
            Event::Recovered {
                attempt: 1,
                from_run: "r0".to_owned(),
            },
            Event::StatusChanged {
                old: Some(Status::Pending),
                new: None,
                cause: Cause::Edited,
                reason: None,
            },
            Event::Reset {},
            Event::Waiting {
                until: DateTime::UNIX_EPOCH,
                why: "w".to_owned(),
            },
            Event::Blocked {
                holders: vec![Holder {
                    task_id: id,
                    why: "parked".to_owned(),
                    frees: 3,
                }],
            },
            Event::StopRequested {
                signal: "SIGINT".to_owned(),
            },
            Event::Finished {
                why: "complete".to_owned(),
                exit_code: 0,
                iterations: 1,
                completed: 1,
                remaining: 0,
                duration_seconds: 0.5,
            },
        ];
        assert_eq!(all.len(), Event::ACTIONS.len());
        all
    }

    #[test]
    fn every_line_reads_back_as_it_was() {
        for (event, action) in every_event().into_iter().zip(Event::ACTIONS) {
            let record = record(event);
            let line = record.to_line();
            assert!(
                line.ends_with("}\n") && line.matches('\n').count() == 1,
                "{line}"
            );
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["action"], *action);
            assert_eq!(value["timestamp"], "2026-11-20T22:44:03.125Z");
            assert_eq!(
                Record::from_line(line.as_bytes()).as_ref(),
                Ok(&record),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_not_a_record_says_why() {
        let line = record(Event::Reset {}).to_line();
        let newer = line.replace("reset", "teleported");
        assert_eq!(Record::from_line(newer.as_bytes()), Err(Unread::Unknown));
        for cut in 0..line.trim_end().len() {
            assert_eq!(
                Record::from_line(&line.as_bytes()[..cut]),
                Err(Unread::Damaged)
            );
        }
        let more = line.replace("\"action\"", "\"new_field\":[1],\"action\"");
        assert!(Record::from_line(more.as_bytes()).is_ok());
    }

    #[test]
    fn verdicts_follow_report_then_proof() {
        use Outcome::{Cancelled, Exited, Interrupted, NotStarted, Signaled, TimedOut};
        let (ok, bad) = (Exited { exit_code: 0 }, Exited { exit_code: 1 });
        let late = TimedOut { limit_seconds: 1 };
        let proof = |report: bool, commits: usize, leftovers: usize, strayed: bool| Evidence {
            report: report.then_some(Report::Command),
            commits: vec![
                Commit {
                    id: "a".to_owned(),
                    subject: String::new()
                };
                commits
            ],
            diff: None,
            leftovers: vec!["f".to_owned(); leftovers],
            strayed: strayed.then(|| "HEAD was detached".to_owned()),
        };
        let (req, opt) = (CommitRule::Required, CommitRule::Optional);
        let table = [
            (ok.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (
                bad.clone(),
                proof(true, 1, 0, false),
                req,
                Verdict::Complete,
            ),
            (
                late.clone(),
                proof(true, 1, 0, false),
                req,
                Verdict::Complete,
            ),
            (
                Interrupted,
                proof(true, 1, 0, false),
                req,
                Verdict::Complete,
            ),
            (ok.clone(), proof(true, 1, 1, false), req, Verdict::Complete),
            (ok.clone(), proof(true, 0, 0, false), opt, Verdict::Complete),
            (
                ok.clone(),
                proof(true, 0, 0, false),
                req,
                Verdict::Unverified,
            ),
            (
                ok.clone(),
                proof(true, 0, 2, false),
                req,
                Verdict::Uncommitted,
            ),
            (ok.clone(), proof(true, 1, 0, true), req, Verdict::OffBranch),
            (
                late.clone(),
                proof(true, 1, 1, false),
                req,
                Verdict::TimedOut,
            ),
            (Cancelled, proof(true, 1, 1, false), req, Verdict::Cancelled),
            (
                Interrupted,
                proof(true, 0, 1, false),
                req,
                Verdict::Interrupted,
            ),
            (ok, proof(false, 1, 0, false), req, Verdict::Incomplete),
            (bad, proof(false, 1, 0, false), req, Verdict::Failed),
            (
                Signaled { signal: 9 },
                proof(false, 0, 0, false),
                req,
                Verdict::Failed,
            ),
            (
                NotStarted {
                    error: "x".to_owned(),
                },
                proof(false, 0, 0, false),
                req,
                Verdict::Failed,
            ),
            (late, proof(false, 1, 0, false), req, Verdict::TimedOut),
            (
                Cancelled,
                proof(false, 0, 0, false),
                req,
                Verdict::Cancelled,
            ),
            (
                Interrupted,
                proof(false, 0, 0, false),
                req,
                Verdict::Interrupted,
            ),
        ];
        for (outcome, evidence, rule, want) in table {
            assert_eq!(
                Verdict::of(&outcome, &evidence, rule),
                want,
                "{outcome:?} {evidence:?}"
            );
        }
    }
}
