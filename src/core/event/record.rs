//! A line of the journal: an event with its envelope, written and read as JSON.
//!
//! The line is flat. It is read without serde's `flatten`, whose buffering would make a long journal
//! four times slower to read: after the `action`, the rest of the line is read directly into the
//! event.

use std::fmt;

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, value::MapAccessDeserializer},
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
    /// What happened.
    pub event: Event,
}

/// The fields of every line, in the order in which they are written.
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
        let (action, fields) =
            body[1..body.len() - 1].split_once(':').expect("an event is one key and its fields");
        let comma = if fields == "{}" { "" } else { "," };
        format!("{},\"action\":{action}{comma}{}\n", &head[..head.len() - 1], &fields[1..])
    }

    /// Returns the record without secrets in its event. The envelope cannot contain text of an
    /// agent and stays.
    #[must_use]
    pub fn redacted(self, secrets: &Redactor) -> Record {
        let event = serde_json::to_string(&self.event)
            .expect("an event has only string keys and finite numbers");
        let clean = secrets.clone().text(&event);
        if clean == event {
            return self;
        }
        // A secret that equals a word of the journal format would make the event unreadable.
        let event = serde_json::from_str(&clean).unwrap_or(self.event);
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
                RecordKey::Timestamp => timestamp = Some(map.next_value_seed(TimestampSeed)?),
                RecordKey::RunId => run_id = Some(map.next_value()?),
                RecordKey::Seq => seq = Some(map.next_value()?),
                RecordKey::Iteration => iteration = map.next_value()?,
                RecordKey::TaskId => task_id = map.next_value()?,
                RecordKey::Other => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                RecordKey::Action => {
                    let action: std::borrow::Cow<'de, str> = map.next_value()?;
                    let event = Event::deserialize(Tagged { action: &action, fields: map });
                    // Few lines fail, and the list of actions is long.
                    *self.unknown = event.is_err() && !Event::actions().contains(&&*action);
                    return Ok(Record {
                        timestamp: timestamp
                            .ok_or_else(|| de::Error::missing_field("timestamp"))?,
                        run_id: run_id.ok_or_else(|| de::Error::missing_field("run_id"))?,
                        seq: seq.ok_or_else(|| de::Error::missing_field("seq"))?,
                        iteration,
                        task_id,
                        event: event?,
                    });
                }
            }
        }
        Err(de::Error::missing_field("action"))
    }
}

/// Reads a time as [`Record::to_line`] and serde write it without the general reader of chrono, which
/// would take a tenth of the time for a line.
pub(crate) fn read_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<DateTime<Utc>, D::Error> {
    de::DeserializeSeed::deserialize(TimestampSeed, deserializer)
}

struct TimestampSeed;

impl<'de> de::DeserializeSeed<'de> for TimestampSeed {
    type Value = DateTime<Utc>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DateTime<Utc>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl de::Visitor<'_> for TimestampSeed {
    type Value = DateTime<Utc>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an RFC 3339 time")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<DateTime<Utc>, E> {
        written_time(text).map_or_else(|| text.parse().map_err(E::custom), Ok)
    }
}

/// The time that a text such as `2026-11-20T22:44:03.125Z` or `2026-11-20T22:44:03Z` stands for; none
/// for any other form.
fn written_time(text: &str) -> Option<DateTime<Utc>> {
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let ends: &[(usize, u8)] = match bytes.len() {
        24 => &[(19, b'.'), (23, b'Z')],
        20 => &[(19, b'Z')],
        _ => return None,
    };
    if marks.iter().chain(ends).any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let number = |digits: std::ops::Range<usize>| {
        bytes[digits].iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
        })
    };
    let date = NaiveDate::from_ymd_opt(number(0..4)?.cast_signed(), number(5..7)?, number(8..10)?)?;
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let milliseconds = if bytes.len() == 24 { number(20..23)? } else { 0 };
    let time = date.and_hms_milli_opt(hour, minute, second, milliseconds)?;
    Some(time.and_utc())
}

/// Presents `action` and the rest of the line as an externally tagged enum, which serde derives.
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
    type Variant = RecordFields<M>;

    fn variant_seed<S: de::DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, RecordFields<M>), M::Error> {
        let tag = de::value::StrDeserializer::new(self.action);
        Ok((seed.deserialize(tag)?, RecordFields(self.fields)))
    }
}

struct RecordFields<M>(M);

impl<'de, M: MapAccess<'de>> de::VariantAccess<'de> for RecordFields<M> {
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
    use crate::{
        agents::{
            provider_error::{ProviderError, ProviderErrorKind},
            transcript::{Format, LimitWindow, Tokens, Usage},
        },
        event::*,
        graph::task::{CommitRule, Status},
        verdict::*,
    };

    fn ended(verdict: Verdict) -> AttemptResult {
        AttemptResult {
            attempt: 2,
            verdict,
            why: "because".to_owned(),
            outcome: Outcome::Exited { exit_code: 0 },
            duration_seconds: 1.5,
            evidence: Box::new(Evidence {
                report: Some(Report::DoneFile),
                commits: vec![Commit {
                    id: "a".repeat(40).into(),
                    subject: "Do \"it\"".to_owned(),
                }],
                earlier: Some("e".into()),
                diff: Some(DiffStat { files: 1, insertions: 2, deletions: 0 }),
                leftovers: vec!["x y".to_owned()],
                strayed: None,
                verify: vec![check()],
                question: Some("which?".to_owned()),
                autocommit: Some(Autocommit::Refused("no".to_owned())),
                missing: vec!["there is no `x`".to_owned()],
                tampered: vec![".git/config".to_owned()],
                verify_inputs_changed: vec!["check.sh".to_owned()],
                others: vec![TaskId::new("b").unwrap()],
                done_folder: Some(".ralph/tasks/a/DONE".to_owned()),
                added: vec![TaskId::new("c").unwrap()],
                added_besides: 1,
                graph_fault: Some("line 1".to_owned()),
                metadata_only: true,
                bad_base: Some("no submodule".to_owned()),
                setup: Some(check()),
                merge: Some(Merge::Landed { branch: "main".to_owned(), commit: "c".into() }),
                obstacle: Some(ProviderError {
                    obstacle: ProviderErrorKind::UsageLimit {
                        resets_at: Some(DateTime::UNIX_EPOCH),
                        window: Some(LimitWindow::Weekly),
                    },
                    until: Some(DateTime::UNIX_EPOCH),
                }),
            }),
            agent: Some("claude".to_owned()),
            usage: Usage {
                cost_usd: Some(0.25),
                tokens: Some(Tokens { input: 1, output: 2, cache_read: 3, cache_write: 4 }),
                turns: Some(5),
                model: Some("m".to_owned()),
            },
            tools: [("Bash".to_owned(), 3)].into(),
            last_line: Some("bye".to_owned()),
            swept: vec!["sleep".to_owned()],
            unlocked: vec![".git/index.lock".to_owned()],
            pinned: Some("refs/ralph/a/2".to_owned()),
            unpinned: vec!["big (101 MB)".to_owned()],
            log: "logs/attempts/a/2".to_owned(),
        }
    }

    fn check() -> CheckResult {
        CheckResult {
            command: "make \"test\"".to_owned(),
            outcome: Outcome::TimedOut { limit_seconds: 900 },
            duration_seconds: 900.25,
            last_line: Some("ok".to_owned()),
            log: "logs/attempts/a/2/verify-1.log".to_owned(),
        }
    }

    fn child() -> ChildAgent {
        ChildAgent {
            child_run_id: "r2".to_owned(),
            parent_run_id: "r1".to_owned(),
            attempt: 1,
            argv: vec!["worker".to_owned(), "--fast".to_owned()],
            process: Identity { boot_id: "b".to_owned(), pid: 7, start_time: 8, pid_namespace: 0 },
        }
    }

    fn batch() -> Batch {
        let tasks = vec![TaskId::new("a").unwrap()];
        Batch { branch: "main".to_owned(), onto: "b".into(), tasks }
    }

    fn left() -> ChildrenLeft {
        ChildrenLeft { attempt: 1, children: vec!["sleep".to_owned()], limit_seconds: 300.0 }
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

    /// One event of each variant, in the order of the enum.
    #[expect(clippy::too_many_lines, reason = "one line or more for each")]
    fn every_event() -> Vec<Event> {
        let id = TaskId::new("a").unwrap();
        let all = vec![
            Event::LoopStarted(Begun {
                schema: SCHEMA,
                version: "0".to_owned(),
                agent: vec!["cat".to_owned()],
                timeout_seconds: Some(0.4),
                once: true,
                ..Begun::default()
            }),
            Event::GraphLoaded { tasks: 2, complete: 1 },
            Event::GraphRejected { error: "x".to_owned() },
            Event::UncommittedFound { paths: vec!["f".to_owned()], more: 2 },
            Event::SettingsLoaded { changed: vec!["timeout".to_owned()] },
            Event::SettingsRejected { error: "x".to_owned() },
            Event::RecordDamaged { kept: "k".to_owned() },
            Event::GraphGuarded {
                what: Harm::Dropped,
                tasks: vec![id.clone()],
                undone: true,
                kept: Some("l/graph.damaged.yaml".to_owned()),
            },
            Event::CheckoutRestored(CheckoutRestored {
                attempt: 1,
                branch: Some("main".to_owned()),
                commit: Some("c".into()),
                files: vec!["f".to_owned()],
            }),
            Event::Started {
                attempt: 1,
                base: None,
                branch: Some("main".to_owned()),
                log: "l".to_owned(),
                why: "w".to_owned(),
                format: Format::ClaudeJson,
                slot: Some("/t/1".to_owned()),
                run_on: Some("near".to_owned()),
            },
            Event::DoneRemoved { path: ".ralph/tasks/a/DONE".to_owned() },
            Event::AgentChanged(AgentChange {
                agent: "codex".to_owned(),
                from: "claude".to_owned(),
                obstacle: None,
            }),
            Event::SlotKept { slot: "/t/1".to_owned(), why: "w".to_owned() },
            Event::WorkRestored {
                attempt: 2,
                from: "refs/ralph/a/1".to_owned(),
                conflicts: vec!["f".to_owned()],
            },
            Event::SettingUp { attempt: 1, command: "npm ci".to_owned(), log: "l".to_owned() },
            Event::AwaitingExecutor {
                attempt: 1,
                run_on: "farm".to_owned(),
                why: "its job waits in the queue (Resources)".to_owned(),
            },
            Event::Withdrawn { attempt: 1, run_on: "farm".to_owned(), why: "w".to_owned() },
            Event::ExecutorUnreachable {
                run_on: "farm".to_owned(),
                why: "w".to_owned(),
                tries: 3,
                pause_seconds: Some(4),
            },
            Event::ExecutorReachable { run_on: "farm".to_owned() },
            Event::ContactLost { attempt: 1, since: DateTime::UNIX_EPOCH },
            Event::ContactRegained { attempt: 1 },
            Event::AgentStarted { attempt: 1, placement: None },
            Event::Queued { attempt: 1, waiting: 2 },
            Event::Merging(batch()),
            Event::Split(batch()),
            Event::MergeHeld(Held {
                branch: "main".to_owned(),
                checkout: "/t".to_owned(),
                paths: vec!["a".to_owned()],
                tasks: Vec::new(),
                why: None,
            }),
            Event::Reported { attempt: 1 },
            Event::Asked { attempt: 1, question: "which?".to_owned() },
            Event::Answered(Answer { question: "which?".to_owned(), answer: "this".to_owned() }),
            Event::Noted {
                attempt: 1,
                note: "n".to_owned(),
                for_all: true,
                tag: Some("tests".to_owned()),
            },
            Event::Verifying {
                attempt: 1,
                command: "make test".to_owned(),
                baseline: true,
                log: "l".to_owned(),
            },
            Event::Verified(check()),
            Event::VerifyFailed(check()),
            Event::VerifyPostponed { attempt: 1 },
            Event::ChildStarted(child()),
            Event::ChildStopRequested(child()),
            Event::ChildEnded(ChildEnded {
                child: child(),
                outcome: ChildOutcome::Exited { exit_code: 3 },
                duration_seconds: Some(1.5),
            }),
            Event::WaitingForChildren(left()),
            Event::ChildrenEnded { attempt: 1, duration_seconds: 0.5 },
            Event::ChildrenOverdue { left: left(), on_orphans: Orphans::Leave },
            Event::Terminating { attempt: 1, why: "w".to_owned() },
            Event::Completed(ended(Verdict::Complete)),
            Event::Failed(ended(Verdict::Unverified)),
            Event::Interrupted(ended(Verdict::Cancelled)),
            Event::NeedsInput(ended(Verdict::NeedsInput)),
            Event::RateLimited(ended(Verdict::RateLimited)),
            Event::Denied(ended(Verdict::Denied)),
            Event::Iterated(ended(Verdict::Again)),
            Event::Promised { attempt: 1, kept: false },
            Event::Parked { attempts: 3 },
            Event::Recovered { attempt: 1, from_run: "r0".to_owned() },
            Event::StatusChanged {
                old: Some(Status::Pending),
                new: None,
                cause: Cause::Edited,
                reason: None,
            },
            Event::TaskEdited {
                command: "task-edit".to_owned(),
                fields: vec!["title".to_owned()],
                cause: Cause::Command,
            },
            Event::Drafted(DraftCall {
                call: 1,
                agent: "claude".to_owned(),
                outcome: Outcome::Exited { exit_code: 0 },
                duration_seconds: 1.5,
                usage: Usage { cost_usd: Some(0.5), ..Usage::default() },
                tasks: Some(3),
                log: "logs/draft/r/1".to_owned(),
            }),
            Event::Reset {},
            Event::Waiting { until: DateTime::UNIX_EPOCH, why: "w".to_owned() },
            Event::Blocked {
                holders: vec![Blocker { task_id: id, why: "parked".to_owned(), frees: 3 }],
            },
            Event::PauseRequested {},
            Event::ResumeRequested { now: true },
            Event::StopRequested(StopRequest { signal: Some("SIGINT".to_owned()), now: true }),
            Event::Suspended {},
            Event::Continued { seconds: 60, slept: true },
            Event::ClockSet { seconds: -60 },
            Event::HookFailed(HookFailed { hook: Hook::BeforeRun, check: check() }),
            Event::NotifyFailed(NotifyFailed {
                notifier: "webhook hooks.example.com".to_owned(),
                moment: "finished".to_owned(),
                why: "it answered 500".to_owned(),
            }),
            Event::SourceRefreshed(SourceRefreshed {
                source: "prd.json".to_owned(),
                what: "1 task added".to_owned(),
            }),
            Event::SourceUpdated(SourceUpdated {
                source: "prd.json".to_owned(),
                tasks: vec![TaskId::new("a").unwrap()],
                commit: Some("c".into()),
                uncommitted: None,
            }),
            Event::SourceFailed(SourceFailed {
                source: "prd.json".to_owned(),
                why: "it is not UTF-8".to_owned(),
            }),
            Event::Slept(Slept {
                until: Some(DateTime::UNIX_EPOCH),
                cron: vec!["@daily".to_owned()],
                time_zone: Some("UTC".to_owned()),
                process: Some(child().process),
                exit_code: Some(2),
                duration_seconds: Some(1.5),
            }),
            Event::Woken(Woken {
                trigger: WakeTrigger::Cron,
                scheduled_for: Some(DateTime::UNIX_EPOCH),
                late_seconds: 3600,
                missed: 2,
                run: vec!["--once".to_owned()],
            }),
            Event::WakeSkipped(SkippedWake {
                trigger: WakeTrigger::Webhook,
                scheduled_for: None,
                why: Hindrance::StillRunning,
            }),
            Event::ScheduleEnded { signal: Some("SIGTERM".to_owned()), exit_code: Some(143) },
            Event::Finished {
                why: "complete".to_owned(),
                exit_code: 0,
                iterations: 1,
                completed: 1,
                remaining: 0,
                duration_seconds: 0.5,
            },
        ];
        assert_eq!(all.len(), Event::actions().len());
        all
    }

    #[test]
    fn every_event_survives_writing_and_reading() {
        for (event, action) in every_event().into_iter().zip(Event::actions()) {
            let record = record(event);
            let line = record.to_line();
            assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["action"], *action);
            assert_eq!(value["timestamp"], "2026-11-20T22:44:03.125Z");
            assert_eq!(Record::from_line(line.as_bytes()).as_ref(), Ok(&record), "{line}");
        }
    }

    #[test]
    fn times_are_read_as_chrono_reads_them() {
        let read = |text: &str| {
            let line = record(Event::Reset {}).to_line();
            let line = line.replace("2026-11-20T22:44:03.125Z", text);
            Record::from_line(line.as_bytes()).ok().map(|record| record.timestamp)
        };
        for text in [
            "2026-11-20T22:44:03.125Z",
            "2024-02-29T00:00:00.000Z",
            "0000-01-01T00:00:00.000Z",
            "9999-12-31T23:59:59.999Z",
            // A leap second.
            "2016-12-31T23:59:60.500Z",
            "2026-11-20T22:44:03Z",
            "2026-11-20T22:44:03.125+01:00",
            "2026-11-20T22:44:03.125123Z",
            "2026-11-20 22:44:03.125Z",
            "2026-11-20T22:44:03.125z",
            "2023-02-29T00:00:00.000Z",
            "2026-11-20T24:00:00.000Z",
            "2026-11-20T22:61:00.000Z",
            "2026-11-20T22:44:61.000Z",
            "2026-11-2 T22:44:03.125Z",
            "+026-11-20T22:44:03.125Z",
            "2026-11-20T22:44:03.1 5Z",
            "2026\u{e9}11-20T22:44:03.12Z",
            "",
        ] {
            assert_eq!(read(text), text.parse().ok(), "{text}");
        }
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
            Outcome::Interrupted,
            lost(),
            Outcome::NotStarted { error: "no program".to_owned() },
        ];
        for outcome in outcomes {
            let mut ended = AttemptResult { outcome, ..ended(Verdict::Failed) };
            ended.evidence.verify[0].outcome = lost();
            let record = record(Event::of_end(ended));
            assert_eq!(Record::from_line(record.to_line().as_bytes()), Ok(record));
        }
    }

    #[test]
    fn a_lost_attempt_is_interrupted_and_names_the_executor() {
        let lost = Outcome::Lost { executor: "far".to_owned(), why: "no route".to_owned() };
        let mut evidence = ended(Verdict::Failed).evidence;
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
        let line = record(Event::Reset {}).to_line();
        let newer = line.replace("reset", "teleported");
        assert_eq!(Record::from_line(newer.as_bytes()), Err(Unread::Unknown));
        for cut in 0..line.trim_end().len() {
            assert_eq!(Record::from_line(&line.as_bytes()[..cut]), Err(Unread::Damaged));
        }
        let more = line.replace("\"action\"", "\"new_field\":[1],\"action\"");
        assert!(Record::from_line(more.as_bytes()).is_ok());
    }
}
