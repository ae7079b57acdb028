//! A line of the journal: an event with its envelope, written and read as JSON.
//!
//! The line is flat: after the `action`, the rest of the line is read directly into the event.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess},
};

use crate::{event::Event, graph::task::TaskId, redact::Redactor};

/// A line of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The time, to the millisecond.
    pub timestamp: DateTime<Utc>,
    /// The run that it belongs to.
    pub run_id: String,
    /// The number of the line in the journal, without gaps.
    pub seq: u64,
    /// The number of the attempt in its run.
    pub iteration: Option<u32>,
    /// The task that it is about.
    pub task_id: Option<TaskId>,
    /// The event.
    pub event: Event,
}

/// The fields of every line, in the order they are written.
#[derive(Serialize)]
struct Envelope<'a> {
    timestamp: String,
    run_id: &'a str,
    seq: u64,
    iteration: Option<u32>,
    task_id: Option<&'a TaskId>,
}

impl Record {
    /// Returns one line of JSON with its newline. `action` and the fields of the event follow the
    /// envelope.
    pub fn to_line(&self) -> String {
        format!("{},{}\n", self.envelope(), self.action_and_fields())
    }

    /// Returns the fields of the line.
    pub fn fields(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::from_str(&self.to_line()).unwrap_or_default()
    }

    /// Returns the beginning of the line, up to the last field that every line has.
    fn envelope(&self) -> String {
        let mut head = json(&Envelope {
            timestamp: self.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
            run_id: &self.run_id,
            seq: self.seq,
            iteration: self.iteration,
            task_id: self.task_id.as_ref(),
        });
        head.pop();
        head
    }

    /// Returns the rest of the line.
    fn action_and_fields(&self) -> String {
        let body = json(&self.event);
        // body is `{"action":{fields}}`.
        let (action, fields) =
            body[1..body.len() - 1].split_once(':').expect("an event is one key and its fields");
        let comma = if fields == "{}" { "" } else { "," };
        format!("\"action\":{action}{comma}{}", &fields[1..])
    }

    /// Returns the record without secrets in its event. The envelope cannot contain text of an
    /// agent and stays.
    #[must_use]
    pub fn redacted(self, secrets: &Redactor) -> Record {
        let event = self.action_and_fields();
        let clean = secrets.clone().text(&event);
        if clean == event {
            return self;
        }
        let read = Record::from_line(format!("{},{clean}", self.envelope()).as_bytes());
        // A secret that equals a word of the journal format would make the event unreadable.
        let event = read.map_or(self.event, |read| read.event);
        Record { event, ..self }
    }

    /// Reads a line that [`Record::to_line`] wrote, by this version or another.
    ///
    /// # Errors
    /// [`Unread::Unknown`] for an action of a newer version, else [`Unread::Damaged`].
    pub fn from_line(line: &[u8]) -> Result<Record, Unread> {
        // Checked as a whole, its strings need not be checked one by one.
        match std::str::from_utf8(line) {
            Ok(line) => read(serde_json::Deserializer::from_str(line)),
            Err(_) => read(serde_json::Deserializer::from_slice(line)),
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("an event has only string keys and finite numbers")
}

fn read<'de>(
    mut deserializer: serde_json::Deserializer<impl serde_json::de::Read<'de>>,
) -> Result<Record, Unread> {
    let mut unknown = false;
    let record = deserializer
        .deserialize_map(RecordVisitor { unknown: &mut unknown })
        .and_then(|record| deserializer.end().map(|()| record));
    record.map_err(|_| if unknown { Unread::Unknown } else { Unread::Damaged })
}

/// The reason why a line was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Not a record: truncated, or written by another program.
    Damaged,
    /// An action unknown to this version.
    Unknown,
}

struct RecordVisitor<'a> {
    unknown: &'a mut bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordKey {
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
        while let Some(key) = map.next_key::<RecordKey>()? {
            match key {
                RecordKey::Timestamp => timestamp = Some(map.next_value()?),
                RecordKey::RunId => run_id = Some(map.next_value()?),
                RecordKey::Seq => seq = Some(map.next_value()?),
                RecordKey::Iteration => iteration = map.next_value()?,
                RecordKey::TaskId => task_id = map.next_value()?,
                RecordKey::Other => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                RecordKey::Action => {
                    let action: std::borrow::Cow<'de, str> = map.next_value()?;
                    let event = Event::read(&action, map);
                    *self.unknown = event.is_none();
                    return Ok(Record {
                        timestamp: timestamp
                            .ok_or_else(|| de::Error::missing_field("timestamp"))?,
                        run_id: run_id.ok_or_else(|| de::Error::missing_field("run_id"))?,
                        seq: seq.ok_or_else(|| de::Error::missing_field("seq"))?,
                        iteration,
                        task_id,
                        event: event.ok_or_else(|| de::Error::custom("unknown action"))??,
                    });
                }
            }
        }
        Err(de::Error::missing_field("action"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        event::{AttemptResult, RequestEvent},
        graph::task::CommitRule,
        verdict::{Outcome, Report, Rule, Verdict},
    };

    fn record(event: impl Into<Event>) -> Record {
        Record {
            timestamp: "2026-11-20T22:44:03.125Z".parse().unwrap(),
            run_id: "r1".to_owned(),
            seq: 7,
            iteration: Some(3),
            task_id: Some(TaskId::new("a").unwrap()),
            event: event.into(),
        }
    }

    /// One line of each action, as the first release writes them.
    fn lines() -> impl Iterator<Item = &'static str> {
        include_str!("journal.jsonl").split_inclusive('\n')
    }

    /// A failed attempt with all its evidence.
    fn failed() -> AttemptResult {
        let mut read = lines().filter_map(|line| Record::from_line(line.as_bytes()).ok());
        let ended = read.find_map(|it| it.event.ended().cloned()).unwrap();
        AttemptResult { verdict: Verdict::Failed, ..ended }
    }

    #[test]
    fn the_lines_on_disk_stay_the_same() {
        let mut actions = BTreeSet::new();
        for line in lines() {
            let record = Record::from_line(line.as_bytes());
            let record = record.unwrap_or_else(|error| panic!("{error:?}: {line}"));
            assert_eq!(record.to_line(), line);
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            actions.insert(value["action"].as_str().unwrap().to_owned());
        }
        let all = Event::actions();
        assert_eq!(lines().count(), all.len(), "a line for each");
        assert_eq!(actions, all.into_iter().map(ToOwned::to_owned).collect());
    }

    #[test]
    fn every_outcome_survives_writing_and_reading() {
        let lost = || Outcome::Lost { executor: "far".to_owned(), why: "no route".to_owned() };
        let outcomes = [
            Outcome::Exited { exit_code: 3 },
            Outcome::Signaled { signal: 15 },
            Outcome::TimedOut { limit_seconds: 1 },
            Outcome::Idle { limit_seconds: 2 },
            Outcome::Lingered { limit_seconds: 3 },
            Outcome::Cancelled,
            Outcome::OverCost,
            Outcome::Interrupted,
            lost(),
            Outcome::NotStarted { error: "no program".to_owned() },
        ];
        for outcome in outcomes {
            let mut ended = AttemptResult { outcome, ..failed() };
            ended.evidence.verify[0].outcome = lost();
            let record = record(Event::Ended(ended));
            assert_eq!(Record::from_line(record.to_line().as_bytes()), Ok(record));
        }
    }

    #[test]
    fn a_lost_attempt_is_interrupted_and_names_the_executor() {
        let lost = Outcome::Lost { executor: "far".to_owned(), why: "no route".to_owned() };
        let mut evidence = failed().evidence;
        (evidence.question, evidence.obstacle) = (None, None);
        (evidence.merge, evidence.graph_fault, evidence.strayed) = (None, None, None);
        for report in [None, Some(Report::DoneFile)] {
            evidence.report = report;
            let verdict = Verdict::of(&lost, &evidence, Rule::Task(CommitRule::Required));
            assert_eq!((verdict, verdict.counts()), (Verdict::Interrupted, false));
            let why = verdict.explain(&lost, &evidence);
            assert!(why.contains("`far`") && why.contains("no route"), "{why}");
        }
        // The agent had ended; a verify command was lost.
        evidence.verify[0].outcome = lost;
        let exited = Outcome::Exited { exit_code: 0 };
        let verdict = Verdict::of(&exited, &evidence, Rule::Task(CommitRule::Required));
        assert_eq!(verdict, Verdict::Interrupted);
        assert!(verdict.explain(&exited, &evidence).contains("`far`"));
    }

    #[test]
    fn an_unreadable_line_says_why() {
        let line = record(RequestEvent::Reset {}).to_line();
        let newer = line.replace("reset", "teleported");
        assert_eq!(Record::from_line(newer.as_bytes()), Err(Unread::Unknown));
        for cut in 0..line.trim_end().len() {
            assert_eq!(Record::from_line(&line.as_bytes()[..cut]), Err(Unread::Damaged));
        }
        let more = line.replace("\"action\"", "\"new_field\":[1],\"action\"");
        assert!(Record::from_line(more.as_bytes()).is_ok());
    }
}
