//! The attempt log: every attempt in the journal. The history itself keeps only the newest attempt
//! of each task. This module does no I/O.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::OnceLock,
};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    agents::transcript::Format,
    commit_id::CommitId,
    event::{
        AttemptEvent, AttemptResult, CheckEvent, Event, ExecutorEvent, GraphEvent, LandingEvent,
        RequestEvent, record::Record,
    },
    executor::Placement,
    graph::task::TaskId,
    proof::Proof,
    spend::Spend,
    verdict::Verdict,
};

/// One attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptEntry {
    /// The task.
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// The run it belonged to.
    pub run_id: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// The commit it started from.
    pub base: Option<CommitId>,
    /// The folder with its prompt and output, relative to the repository.
    pub log: String,
    /// The format of its output.
    pub format: Format,
    /// The executor to run on, unless local.
    pub run_on: Option<String>,
    /// Where its agent really ran.
    pub placement: Option<Placement>,
    /// The slot that it worked in; none in the checkout itself.
    pub slot: Option<String>,
    /// When its verify commands began.
    pub verified_from: Option<DateTime<Utc>>,
    /// When its work was queued to land.
    pub queued_at: Option<DateTime<Utc>>,
    /// When and how it ended; none while it runs, or if no end was recorded.
    pub ended: Option<(DateTime<Utc>, StoredResult)>,
    /// The proof of its work.
    pub proof: Option<Box<Proof>>,
    /// Whether a person took its landed work back.
    pub is_taken_back: bool,
    /// The changes of the log that were made while it was open: the first, and the end if it is closed.
    during: (usize, Option<usize>),
}

impl AttemptEntry {
    /// Notes a step of the attempt while it is open.
    fn step(&mut self, record: &Record) {
        if let Event::Attempt(AttemptEvent::AgentStarted { placement, .. }) = &record.event {
            self.placement.clone_from(placement);
        } else if let Event::Check(CheckEvent::Verifying { .. }) = record.event {
            self.verified_from.get_or_insert(record.timestamp);
        } else if let Event::Landing(LandingEvent::Queued { .. }) = record.event {
            self.queued_at.get_or_insert(record.timestamp);
        }
    }

    /// The name that people use for it: `a.2`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.task_id, self.attempt)
    }
}

/// A call of an agent that is no attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct PaidCall {
    /// When it ended.
    pub at: DateTime<Utc>,
    /// Its purpose; no task has this id.
    pub what: &'static str,
    /// The task that it was about.
    pub task_id: Option<TaskId>,
    /// The name of the agent.
    pub agent: String,
    /// Its model, if reported.
    pub model: Option<String>,
    /// Its usage.
    pub spend: Spend,
}

impl PaidCall {
    /// The call that a record ends.
    fn of(record: &Record) -> Option<PaidCall> {
        let (what, agent, usage, spend) =
            if let Event::Graph(GraphEvent::Drafted(call)) = &record.event {
                ("ralph draft", &call.agent, &call.usage, call.spend())
            } else if let Event::Check(CheckEvent::WorkReviewed(end)) = &record.event {
                ("reviews of work", &end.review.by, &end.usage, end.spend())
            } else {
                return None;
            };
        let (agent, model) = (agent.clone(), usage.model.clone());
        let task_id = record.task_id.clone();
        Some(PaidCall { at: record.timestamp, what, task_id, agent, model, spend })
    }
}

/// How much of the journal a log keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogDetail {
    /// The attempts with their results.
    #[default]
    Results,
    /// Also the changes while they were open, and the messages.
    All,
    /// All of it, of these tasks only.
    Tasks(BTreeSet<TaskId>),
}

impl LogDetail {
    /// All about the attempts that a name like `a.2` or `a` may mean.
    pub fn of_name(name: &str) -> LogDetail {
        let id = split(name).map(|(id, _)| id);
        LogDetail::Tasks(id.into_iter().chain(TaskId::new(name).ok()).collect())
    }
}

/// The attempts, in the order of their start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptLog {
    detail: LogDetail,
    entries: Vec<AttemptEntry>,
    /// The tasks with an open attempt, each with its index in `entries` if it is kept.
    open: BTreeMap<TaskId, Option<usize>>,
    /// The calls of agents that are no attempts.
    calls: Vec<PaidCall>,
    /// The messages of people and agents about tasks.
    messages: Vec<Record>,
    /// The events about tasks and the graph file while attempts were open, each kept once, and whether
    /// its own task had an open attempt.
    changes: Vec<(Record, bool)>,
}

impl AttemptLog {
    /// An empty log that keeps this much.
    pub fn with(detail: LogDetail) -> AttemptLog {
        AttemptLog { detail, ..AttemptLog::default() }
    }

    fn keeps(&self, id: &TaskId) -> bool {
        !matches!(&self.detail, LogDetail::Tasks(ids) if !ids.contains(id))
    }

    /// Closes the open attempt of a task. Returns its entry if it is kept.
    fn close(&mut self, id: &TaskId) -> Option<usize> {
        let at = self.open.remove(id).flatten()?;
        self.entries[at].during.1 = Some(self.changes.len());
        Some(at)
    }

    /// Adds messages, and facts learned about attempts after their ends.
    fn amend(&mut self, id: &TaskId, record: &Record) {
        if self.detail != LogDetail::Results && self.keeps(id) && AttemptLog::is_message(record) {
            self.messages.push(record.clone());
        }
        let mut of_task = self.entries.iter_mut().filter(|entry| entry.task_id == *id).rev();
        if let Event::Check(CheckEvent::Proved { attempt, proof }) = &record.event {
            if let Some(entry) = of_task.find(|entry| entry.attempt == *attempt) {
                entry.proof = Some(Box::new(proof.clone()));
            }
        } else if let Event::Landing(LandingEvent::TakenBack(_)) = &record.event {
            of_task.for_each(|entry| entry.is_taken_back = true);
        }
    }

    /// Whether a record is a message about the task. A question is in the end of its attempt.
    fn is_message(record: &Record) -> bool {
        if let Some(ended) = record.event.ended() {
            return ended.question().is_some();
        }
        matches!(
            record.event,
            Event::Request(
                RequestEvent::Answered(_)
                    | RequestEvent::Noted { .. }
                    | RequestEvent::Reviewed { .. }
                    | RequestEvent::Reset {}
            ) | Event::Landing(LandingEvent::TakenBack(_))
        )
    }

    /// Applies an event.
    pub fn apply(&mut self, record: &Record) {
        self.calls.extend(PaidCall::of(record));
        let Some(id) = &record.task_id else {
            return;
        };
        if let Some(ended) = record.event.ended()
            && let Some(at) = self.close(id)
            && self.entries[at].attempt == ended.attempt
        {
            self.entries[at].ended = Some((record.timestamp, ended.clone().into()));
        }
        self.amend(id, record);
        if let Event::Executor(ExecutorEvent::Withdrawn { attempt, .. }) = &record.event
            && let Some(at) = self.close(id)
            && self.entries[at].attempt == *attempt
        {
            self.entries.remove(at);
            self.open.values_mut().flatten().filter(|other| **other > at).for_each(|at| *at -= 1);
        }
        self.start(id, record);
        if let Some(at) = self.open.get(id).copied().flatten() {
            self.entries[at].step(record);
        }
        if is_change(&record.event) && self.has_open() {
            self.changes.push((record.clone(), self.open.contains_key(id)));
        }
    }

    /// Adds the attempt that a record starts, if it starts one.
    fn start(&mut self, id: &TaskId, record: &Record) {
        let Event::Attempt(AttemptEvent::Started {
            attempt, base, log, format, run_on, slot, ..
        }) = &record.event
        else {
            return;
        };
        // One without an end is not open any more.
        self.close(id);
        let keeps = self.keeps(id);
        self.open.insert(id.clone(), keeps.then_some(self.entries.len()));
        self.entries.extend(keeps.then(|| AttemptEntry {
            task_id: id.clone(),
            attempt: *attempt,
            run_id: record.run_id.clone(),
            started_at: record.timestamp,
            base: base.clone(),
            log: log.clone(),
            format: *format,
            run_on: run_on.clone(),
            placement: None,
            slot: slot.clone(),
            verified_from: None,
            queued_at: None,
            ended: None,
            proof: None,
            is_taken_back: false,
            during: (self.changes.len(), None),
        }));
    }

    /// Whether an attempt is open whose changes are kept.
    fn has_open(&self) -> bool {
        match &self.detail {
            LogDetail::Results => false,
            LogDetail::All => !self.open.is_empty(),
            LogDetail::Tasks(ids) => ids.iter().any(|id| self.open.contains_key(id)),
        }
    }

    /// The events about the task of an attempt and the graph file while it was open. An event about
    /// the task of an open attempt is its own; any open attempt may have changed another task.
    pub fn changes<'a>(&'a self, entry: &'a AttemptEntry) -> impl Iterator<Item = &'a Record> {
        let (from, end) = entry.during;
        let during = self.changes.get(from..end.unwrap_or(self.changes.len())).unwrap_or_default();
        let is_its = |(record, has_own): &&(Record, bool)| {
            !has_own || record.task_id.as_ref() == Some(&entry.task_id)
        };
        during.iter().filter(is_its).map(|(record, _)| record)
    }

    /// The attempts, oldest first; only those at task `id` if it is given.
    pub fn of<'a>(
        &'a self,
        id: Option<&'a TaskId>,
    ) -> impl Iterator<Item = &'a AttemptEntry> + Clone {
        self.entries.iter().filter(move |entry| id.is_none_or(|id| entry.task_id == *id))
    }

    /// The messages of people and agents about a task, oldest first.
    pub fn messages<'a>(&'a self, id: &'a TaskId) -> impl Iterator<Item = &'a Record> {
        self.messages.iter().filter(move |record| record.task_id.as_ref() == Some(id))
    }

    /// The calls of agents that are no attempts, oldest first.
    pub fn calls(&self) -> &[PaidCall] {
        &self.calls
    }

    /// Finds the attempt named `a.2`, or the newest attempt of the task `a`. The id of a task may
    /// end like the name of an attempt; then the task takes precedence.
    pub fn find(&self, name: &str) -> Option<&AttemptEntry> {
        let newest = self.entries.iter().rev().find(|entry| entry.task_id.as_str() == name);
        newest.or_else(|| {
            let (id, number) = split(name)?;
            self.entries.iter().rev().find(|entry| entry.task_id == id && entry.attempt == number)
        })
    }
}

/// Whether an event changes a task or the graph file.
fn is_change(event: &Event) -> bool {
    matches!(
        event,
        Event::Graph(GraphEvent::StatusChanged { .. } | GraphEvent::GraphGuarded { .. })
            | Event::Request(RequestEvent::Noted { .. })
    )
}

/// Splits the name of an attempt into its task and number.
pub fn split(name: &str) -> Option<(TaskId, u32)> {
    let (id, number) = name.rsplit_once('.')?;
    Some((TaskId::new(id).ok()?, number.parse().ok()?))
}

// The result of an attempt as the stored history has it: read when it is needed.
//
// The results are most of a stored history, and few of them are looked at.

/// The result of an attempt, or the text from which it is read.
#[derive(Clone, Debug)]
pub struct StoredResult {
    /// None if the result is at hand.
    text: Option<Box<RawValue>>,
    result: OnceLock<Box<AttemptResult>>,
}

impl From<AttemptResult> for StoredResult {
    fn from(result: AttemptResult) -> StoredResult {
        // Results that completed a task are rarely read, and a long run has thousands of them.
        let is_over = result.verdict == Verdict::Complete;
        match is_over.then(|| to_raw_value(&result).ok()).flatten() {
            Some(text) => StoredResult { text: Some(text), result: OnceLock::new() },
            None => StoredResult { text: None, result: OnceLock::from(Box::new(result)) },
        }
    }
}

impl StoredResult {
    /// Whether this build can read the text. Two builds of the same version may differ.
    pub(super) fn can_be_read(&self) -> bool {
        self.text.as_ref().is_none_or(|text| read(text).is_some())
    }
}

fn read(text: &RawValue) -> Option<AttemptResult> {
    serde_json::from_str(text.get()).ok()
}

impl StoredResult {
    /// The result, which is not kept as one: for a reader of the results of all tasks.
    pub fn read(&self) -> Cow<'_, AttemptResult> {
        match &self.text {
            Some(text) if self.result.get().is_none() => {
                Cow::Owned(read(text).unwrap_or_else(AttemptResult::unreadable))
            }
            _ => Cow::Borrowed(self),
        }
    }
}

impl Deref for StoredResult {
    type Target = AttemptResult;

    fn deref(&self) -> &AttemptResult {
        self.result.get_or_init(|| {
            let result = self.text.as_ref().and_then(|text| read(text));
            Box::new(result.unwrap_or_else(AttemptResult::unreadable))
        })
    }
}

impl PartialEq for StoredResult {
    fn eq(&self, other: &StoredResult) -> bool {
        **self == **other
    }
}

impl Serialize for StoredResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Some(text) => text.serialize(serializer),
            None => (**self).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for StoredResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoredResult, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(StoredResult { text: Some(text), result: OnceLock::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{end, record, started};
    use crate::{event::Cause, graph::task::Status, verdict::Verdict};

    #[test]
    fn every_attempt_is_kept_with_its_end_and_the_changes_during_it() {
        let mut log = AttemptLog::with(LogDetail::All);
        let changed = || GraphEvent::StatusChanged {
            old: None,
            new: Some(Status::Pending),
            cause: Cause::EditedDuringAttempt,
            reason: None,
        };
        log.apply(&record("b", 1, changed()));
        log.apply(&record("a", 1, started(1)));
        log.apply(&record("b", 2, changed()));
        log.apply(&record("a", 3, Event::Ended(end(1, Verdict::Failed))));
        log.apply(&record("a", 4, started(2)));
        log.apply(&record("a.2", 5, started(1)));
        let names =
            |id: Option<&TaskId>| -> Vec<String> { log.of(id).map(AttemptEntry::name).collect() };
        assert_eq!(names(None), ["a.1", "a.2", "a.2.1"]);
        assert_eq!(names(Some(&TaskId::new("a").unwrap())), ["a.1", "a.2"]);
        let first = log.find("a.1").unwrap();
        assert_eq!(log.changes(first).count(), 1);
        assert_eq!(first.ended.as_ref().unwrap().1.verdict, Verdict::Failed);
        assert!(log.find("a").unwrap().ended.is_none(), "the newest attempt");
        assert_eq!(
            log.find("a.2").unwrap().name(),
            "a.2.1",
            "a task with this id takes precedence"
        );
        assert!(log.find("c").is_none() && log.find("a.3").is_none());
    }
    /// As [`AttemptLog::changes`], with a copy of each change for each open attempt.
    fn copied(records: &[Record]) -> BTreeMap<String, Vec<u64>> {
        let (mut open, mut copies) = (BTreeMap::new(), BTreeMap::<String, Vec<u64>>::new());
        for record in records {
            let id = record.task_id.as_ref().unwrap();
            if record.event.ended().is_some() {
                open.remove(id);
            }
            if let Event::Attempt(AttemptEvent::Started { attempt, .. }) = &record.event {
                open.insert(id, format!("{id}.{attempt}"));
                copies.insert(format!("{id}.{attempt}"), Vec::new());
            }
            let own = open.get(id);
            for name in open.values().filter(|it| own.is_none_or(|own| own == *it)) {
                copies
                    .get_mut(name)
                    .unwrap()
                    .extend(is_change(&record.event).then_some(record.seq));
            }
        }
        copies
    }

    #[test]
    fn many_attempts_without_an_end_share_the_changes_during_them() {
        let edited = || GraphEvent::StatusChanged {
            old: None,
            new: None,
            cause: Cause::Edited,
            reason: None,
        };
        let mut records = Vec::new();
        for number in 0..500 {
            let (id, attempt) = (format!("t{}", number % 450), 1 + number / 450);
            records.push(record(&id, 1, started(attempt)));
            for other in ["t0", "x", "t449", "y"] {
                records.push(record(other, 1, edited()));
            }
            if number % 9 == 0 {
                records.push(record(&id, 2, Event::Ended(end(attempt, Verdict::Failed))));
            }
        }
        for (seq, record) in (0..).zip(&mut records) {
            record.seq = seq;
        }
        let fold = |detail| {
            let mut log = AttemptLog::with(detail);
            for record in &records {
                log.apply(record);
            }
            log
        };
        let changes = |log: &AttemptLog, entry: &AttemptEntry| -> Vec<u64> {
            log.changes(entry).map(|record| record.seq).collect()
        };
        let all = fold(LogDetail::All);
        assert_eq!(all.changes.len(), 2000, "each is kept once");
        let expected = copied(&records);
        for (at, entry) in all.of(None).enumerate() {
            let name = entry.name();
            assert_eq!(changes(&all, entry), expected[&name], "{name}");
            if at % 83 == 0 {
                let own = fold(LogDetail::of_name(&name));
                assert_eq!(changes(&own, own.find(&name).unwrap()), expected[&name], "{name}");
            }
        }
        assert_eq!(expected.len(), all.of(None).count());
        assert!(fold(LogDetail::Results).changes.is_empty());
    }
}
