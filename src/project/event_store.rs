//! The journal and the history derived from it. All events are recorded here.
//!
//! An event is written first. The history then follows the journal: where other processes have written
//! lines before it, it is read back together with them, so that the runner and an agent's `ralph
//! task-complete` see all events in the order of the journal.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::Result;
use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        journal::{Journal, JournalPosition, SkippedLines},
        state::StateFolder,
    },
    core::{
        event::{Event, record::Record},
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::History,
        redact::Redactor,
    },
};

/// A new snapshot is written after this many bytes of journal.
const SNAPSHOT_AFTER: u64 = 512 * 1024;

/// The history of one repository, to read and to add to.
#[derive(Debug)]
pub struct EventStore {
    journal: Journal,
    state: StateFolder,
    past: Snapshot,
    /// The position in the journal at which the snapshot on disk ends.
    saved: u64,
    run_id: String,
    skipped: SkippedLines,
    /// The secrets, which must not get into the journal.
    secrets: Option<Redactor>,
}

/// The history up to a position in the journal.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Snapshot {
    mark: JournalPosition,
    history: History,
    newest: Option<DateTime<Utc>>,
}

impl EventStore {
    /// Reads the history. Events that this process adds carry `run_id` and contain none of the
    /// `secrets`.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn open(
        journal: Journal,
        state: StateFolder,
        run_id: String,
        secrets: Option<Redactor>,
    ) -> Result<EventStore> {
        let stored = state.snapshot().filter(|past: &Snapshot| past.history.can_be_read());
        let past = stored.unwrap_or_default();
        let saved = past.mark.offset();
        let mut store = EventStore {
            journal,
            state,
            past,
            saved,
            run_id,
            skipped: SkippedLines::default(),
            secrets,
        };
        // A cold start reads everything, and returns none of it.
        store.take_in(None)?;
        Ok(store)
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.past.history
    }

    /// The run that the events of this process belong to.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The number of unreadable lines.
    pub fn skipped(&self) -> SkippedLines {
        self.skipped
    }

    /// Writes an event and adds it to the history. Returns it, after the lines that other processes
    /// wrote before it.
    ///
    /// # Errors
    /// Errors of the disk. The event is then not part of the history.
    pub fn emit(
        &mut self,
        iteration: Option<u32>,
        task_id: Option<&TaskId>,
        event: Event,
    ) -> Result<Vec<Record>> {
        self.write(iteration, vec![(task_id.cloned(), event)])
    }

    /// Writes events of tasks together, and adds them to the history.
    ///
    /// # Errors
    /// Errors of the disk. The events are then not part of the history.
    pub fn emit_all(&mut self, events: Vec<(TaskId, Event)>) -> Result<()> {
        let events = events.into_iter().map(|(id, event)| (Some(id), event)).collect();
        self.write(None, events).map(drop)
    }

    fn write(
        &mut self,
        iteration: Option<u32>,
        events: Vec<(Option<TaskId>, Event)>,
    ) -> Result<Vec<Record>> {
        let any = |is: fn(&Event) -> bool| events.iter().any(|(_, event)| is(event));
        let (sync, is_asked) = (any(is_an_end), any(is_asked_by_a_person));
        let records = self.append(sync, iteration, events)?;
        if is_asked {
            self.save();
        }
        Ok(records)
    }

    fn append(
        &mut self,
        sync: bool,
        iteration: Option<u32>,
        events: Vec<(Option<TaskId>, Event)>,
    ) -> Result<Vec<Record>> {
        let make = |first: u64| {
            let record = |(seq, (task_id, event))| {
                let record = Record {
                    timestamp: Utc::now().trunc_subsecs(3),
                    run_id: self.run_id.clone(),
                    seq,
                    iteration,
                    task_id,
                    event,
                };
                match &self.secrets {
                    Some(secrets) => record.redacted(secrets),
                    None => record,
                }
            };
            (first..).zip(events).map(record).collect()
        };
        let mark = &mut self.past.mark;
        let (written, follows) = match self.journal.append_after(mark, sync, make) {
            Ok(appended) => appended,
            Err(error) => return Err(unusable("write", self.journal.path(), error)),
        };
        if follows {
            self.add(&written);
            return Ok(written);
        }
        let mut records = self.catch_up()?;
        if written.last().is_some_and(|last| !records.contains(last)) {
            // The journal was removed after the write; the events are still part of the history.
            for record in &written {
                self.past.history.apply(record);
            }
            records.extend(written);
        }
        Ok(records)
    }

    /// Adds records to the history that were written right after what has been read.
    fn add(&mut self, written: &[Record]) {
        for record in written {
            // Every other reader gets it from its line.
            debug_assert_eq!(Record::from_line(record.to_line().as_bytes()).as_ref(), Ok(record));
            self.past.newest = self.past.newest.max(Some(record.timestamp));
            self.past.history.apply(record);
        }
        self.save_sometimes();
    }

    /// Returns a function that reads the lines that are new from now on, and returns whether they ask
    /// the run to stop at once. Other threads may call it.
    pub fn stop_request(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (journal, seen) = (self.journal.clone(), Mutex::new((self.past.mark, false)));
        move || {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (mark, stop) = &mut *seen;
            let each = |record: Option<&Record>| match record.map(|record| &record.event) {
                Some(Event::StopRequested(request)) => *stop |= request.now,
                Some(Event::LoopStarted(_)) | None => *stop = false,
                Some(_) => {}
            };
            // An error of the disk ends the run elsewhere.
            let _ = journal.read(mark, each);
            *stop
        }
    }

    /// Whether the journal has new lines, judged by its length.
    pub fn has_news(&self) -> bool {
        self.journal.has_more(&self.past.mark)
    }

    /// Adds new lines of all processes to the history.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn catch_up(&mut self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        if self.has_news() {
            self.take_in(Some(&mut records))?;
        }
        Ok(records)
    }

    /// Adds new lines to the history, and to `records` if they are wanted.
    fn take_in(&mut self, mut records: Option<&mut Vec<Record>>) -> Result<()> {
        let past = &mut self.past;
        // After a rotation of the journal, older lines are already part of the history.
        let (mut known_until, mut is_another) = (None, false);
        let skipped = self
            .journal
            .read(&mut past.mark, |record| {
                let Some(record) = record else {
                    (known_until, is_another) = (past.newest, true);
                    return;
                };
                if known_until.is_some_and(|known| record.timestamp <= known) {
                    return;
                }
                past.newest = past.newest.max(Some(record.timestamp));
                past.history.apply(record);
                if let Some(records) = &mut records {
                    records.push(record.clone());
                }
            })
            .map_err(|error| unusable("read", self.journal.path(), error))?;
        if is_another {
            // The snapshot on disk ends in another file, whatever the offset.
            self.saved = 0;
        }
        self.skipped.damaged += skipped.damaged;
        self.skipped.unknown += skipped.unknown;
        self.save_sometimes();
        Ok(())
    }

    fn save_sometimes(&mut self) {
        if self.past.mark.offset().abs_diff(self.saved) > SNAPSHOT_AFTER {
            self.save();
        }
    }

    /// Saves a snapshot. A failure only makes the next start slower.
    pub fn save(&mut self) {
        if self.state.write_snapshot(&self.past).is_ok() {
            self.saved = self.past.mark.offset();
        }
    }
}

/// Reports an unusable journal as an error of the disk, whatever its cause.
fn unusable(step: &str, path: &Path, error: io::Error) -> anyhow::Error {
    let step = format!("{step} `{}`", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory => Failure::new(
            Exit::Disk,
            format!("cannot {step}: {error}; make it a file that can be read and written"),
        )
        .into(),
        _ => anyhow::Error::new(error).context(step),
    }
}

/// Whether the line must survive a power cut. That holds for ends, from which the rest follows.
fn is_an_end(event: &Event) -> bool {
    let other = matches!(
        event,
        Event::Reported { .. }
            | Event::Answered(_)
            | Event::Reset {}
            | Event::PauseRequested {}
            | Event::ResumeRequested { .. }
            | Event::Finished { .. }
    );
    other || event.ended().is_some()
}

/// Whether a person said it once, outside of a run. The journal may be rotated before the next run
/// saves what follows from it.
fn is_asked_by_a_person(event: &Event) -> bool {
    matches!(
        event,
        Event::Answered(_)
            | Event::Reset {}
            | Event::PauseRequested {}
            | Event::ResumeRequested { .. }
    )
}

/// Returns a new run id. Ids sort by time and differ within one second.
pub fn new_run_id(now: DateTime<Utc>) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{}-{:04x}", now.format("%Y%m%dT%H%M%SZ"), random & 0xffff)
}

#[cfg(test)]
mod tests {
    use crate::core::samples::end;
    use std::fs;

    use super::*;
    use crate::core::event::Answer;

    fn answered() -> Event {
        Event::Answered(Answer { question: String::new(), answer: "yes".to_owned() })
    }

    fn open(dir: &Path, run: &str) -> EventStore {
        let state = StateFolder::open(dir.join("ralph"), false);
        EventStore::open(Journal::new(dir.join("ralph.jsonl"), false), state, run.to_owned(), None)
            .unwrap()
    }

    #[test]
    fn what_others_write_arrives_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(dir.path(), "one"), open(dir.path(), "two"));
        let id = TaskId::new("a").unwrap();
        one.emit(None, Some(&id), Event::Reset {}).unwrap();
        two.emit(None, Some(&id), answered()).unwrap();
        let seen = one.emit(None, Some(&id), Event::Reset {}).unwrap();
        let runs: Vec<_> = seen.iter().map(|record| record.run_id.as_str()).collect();
        assert_eq!(runs, ["two", "one"]);
        assert!(one.history().of(&id).answers.len() == 1);
        assert_eq!(open(dir.path(), "three").history(), one.history());
    }

    #[test]
    fn a_snapshot_is_as_good_as_the_whole_journal() {
        let dir = tempfile::tempdir().unwrap();
        let id = TaskId::new("a").unwrap();
        let mut writer = open(dir.path(), "w");
        writer.emit(None, Some(&id), Event::Parked { attempts: 3 }).unwrap();
        writer.emit(None, Some(&id), answered()).unwrap();
        writer.save();
        writer.emit(None, Some(&id), Event::Reset {}).unwrap();
        assert_eq!(open(dir.path(), "r").history(), writer.history());

        // After a rotation the history stays, and the new file is read from its start. Lines of the
        // last known millisecond would be taken for known ones.
        std::thread::sleep(std::time::Duration::from_millis(2));
        fs::rename(dir.path().join("ralph.jsonl"), dir.path().join("old")).unwrap();
        assert!(open(dir.path(), "r").history().of(&id).answers.len() == 1);
        writer.emit(None, Some(&TaskId::new("b").unwrap()), answered()).unwrap();
        let reader = open(dir.path(), "r");
        assert!(reader.history().of(&TaskId::new("b").unwrap()).answers.len() == 1);
        assert!(reader.history().of(&id).answers.len() == 1);
    }

    #[test]
    fn a_snapshot_with_results_of_another_build_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let id = TaskId::new("a").unwrap();
        let mut writer = open(dir.path(), "w");
        let result = end(1, crate::core::verdict::Verdict::Failed);
        writer.emit(Some(1), Some(&id), Event::Failed(result)).unwrap();
        writer.save();
        let state = StateFolder::open(dir.path().join("ralph"), false);
        let mut stored: serde_json::Value = state.snapshot().unwrap();
        let ended = &mut stored["history"]["tasks"]["a"]["last"]["ended"];
        assert_eq!(ended.as_object_mut().unwrap().remove("why").unwrap(), "");
        state.write_snapshot(&stored).unwrap();
        assert!(!state.snapshot::<Snapshot>().unwrap().history.can_be_read());
        assert_eq!(open(dir.path(), "r").history(), writer.history());
    }

    #[test]
    fn a_journal_that_was_copied_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let id = TaskId::new("a").unwrap();
        let mut writer = open(dir.path(), "w");
        let long = || Event::Blocked { holders: Vec::new() };
        while writer.past.mark.offset() <= SNAPSHOT_AFTER + 100_000 {
            writer.emit_all(vec![(id.clone(), long()); 1_000]).unwrap();
        }
        writer.save();
        let (path, copy) = (dir.path().join("ralph.jsonl"), dir.path().join("copy"));
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        let saved = || StateFolder::open(dir.path().join("ralph"), false).snapshot::<Snapshot>();
        let before = saved().unwrap().mark;
        let reader = open(dir.path(), "r");
        assert_eq!(reader.history(), writer.history());
        let after = saved().unwrap().mark;
        assert!(after != before && after == reader.past.mark, "its position is kept");
    }

    #[test]
    fn a_damaged_snapshot_is_dropped_whatever_byte_changed() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), "w");
        for id in ["a", "b"] {
            let id = TaskId::new(id).unwrap();
            writer.emit(None, Some(&id), Event::Parked { attempts: 3 }).unwrap();
            writer.emit(None, Some(&id), answered()).unwrap();
        }
        writer.save();
        let path = dir.path().join("ralph/history.json");
        let whole = fs::read(&path).unwrap();
        let state = || StateFolder::open(dir.path().join("ralph"), false);
        assert!(state().snapshot::<Snapshot>().is_some());
        for at in 0..whole.len() {
            let mut cut = whole.clone();
            cut.truncate(at);
            for change in [1, 0x20, 0x80] {
                let mut damaged = whole.clone();
                damaged[at] ^= change;
                fs::write(&path, &damaged).unwrap();
                assert!(state().snapshot::<Snapshot>().is_none(), "byte {at} ^ {change}");
            }
            fs::write(&path, &cut).unwrap();
            assert!(state().snapshot::<Snapshot>().is_none(), "cut at {at}");
        }
        fs::write(&path, [&whole[..], b" "].concat()).unwrap();
        assert!(state().snapshot::<Snapshot>().is_none(), "longer");
        assert_eq!(open(dir.path(), "r").history(), writer.history(), "read from the journal");
    }

    #[test]
    fn run_ids_sort_and_differ() {
        let now = Utc::now();
        assert_ne!(new_run_id(now), new_run_id(now));
        assert!(new_run_id(now) < new_run_id(now + chrono::TimeDelta::seconds(1)));
    }
}
