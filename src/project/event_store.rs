//! The journal and the history derived from it. All events are recorded here.
//!
//! An event is written first. The history then follows the journal: where other processes have written
//! lines before it, it is read back together with them, so that the runner and an agent's `ralph
//! task-complete` see all events in the order of the journal.

use std::{
    hash::{BuildHasher, RandomState},
    io, mem,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        journal::{Journal, JournalPosition, SkippedLines},
        state::StateFolder,
    },
    core::{
        event::{Event, RequestEvent, RunEvent, WaitingWork, record::Record},
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
    secrets: Redactor,
}

/// The history up to a position in the journal. All worktrees of a repository share it, and each has a
/// journal of its own.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Snapshot {
    own: JournalRead,
    /// The journals of the other worktrees.
    others: Vec<JournalRead>,
    history: History,
}

/// How far a journal is part of the history.
#[derive(Debug, Default, Serialize, Deserialize)]
struct JournalRead {
    path: PathBuf,
    mark: JournalPosition,
    /// The first line that was read, and the newest one.
    lines: Option<(LineId, LineId)>,
}

/// The unique id of a journal line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LineId {
    seq: u64,
    timestamp: DateTime<Utc>,
}

impl LineId {
    fn of(record: &Record) -> LineId {
        LineId { seq: record.seq, timestamp: record.timestamp }
    }
}

impl Snapshot {
    /// Switches to the journal of a worktree: one at this path, or a known one whose path is gone,
    /// because its worktree was moved.
    fn turn_to(&mut self, journal: &Journal) {
        let path = journal.path();
        let mut all: Vec<JournalRead> = self.others.drain(..).collect();
        all.push(mem::take(&mut self.own));
        let at = all.iter().position(|read| read.path == path);
        let at = at.or_else(|| all.iter().position(|read| !read.path.exists()));
        self.own = at.map_or_else(JournalRead::default, |at| all.swap_remove(at));
        path.clone_into(&mut self.own.path);
        self.others = all;
    }

    /// Adds a record to the history.
    fn add(&mut self, record: &Record) {
        let newest = LineId::of(record);
        let first = self.own.lines.map_or(newest, |(first, _)| first);
        self.own.lines = Some((first, newest));
        self.history.apply(record);
    }

    /// Returns the number of records of a journal that are part of the history, although its file is
    /// another one than before: those up to the newest that was read. Where that one is missing, the
    /// file is an earlier version of the journal if it begins with the same line, else a new journal.
    /// Times say nothing here, because the clock may have been set back.
    fn known_records(&self, journal: &Journal) -> io::Result<usize> {
        let Some((first, newest)) = self.own.lines else {
            return Ok(0);
        };
        let (mut count, mut known, mut earlier, mut is_same) = (0, None, 0, false);
        journal.read(&mut JournalPosition::default(), |record| {
            if let Some(line) = record.map(LineId::of) {
                is_same |= count == 0 && line == first;
                count += 1;
                earlier += usize::from(line.seq <= newest.seq);
                known = known.or((line == newest).then_some(count));
            }
        })?;
        Ok(known.unwrap_or(if is_same { earlier } else { 0 }))
    }
}

/// An event that was written.
#[derive(Debug)]
pub struct Emitted {
    /// All lines that were new, in the order of the journal.
    pub records: Vec<Record>,
    /// The line of the event.
    pub own: Record,
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
        secrets: Redactor,
    ) -> Result<EventStore> {
        let stored = state.snapshot().filter(|past: &Snapshot| past.history.can_be_read());
        let mut past = stored.unwrap_or_default();
        past.turn_to(&journal);
        let saved = past.own.mark.offset();
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

    /// Notes work waiting for the checkout: a person may have made room since that was journalled.
    pub fn note_waiting(&mut self, waiting: Option<WaitingWork>) {
        self.past.history.active.waiting = waiting;
    }

    /// The state folder.
    pub fn state_dir(&self) -> &Path {
        self.state.dir()
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

    /// Writes an event and adds it to the history. Returns it, among the lines that other processes
    /// wrote meanwhile.
    ///
    /// # Errors
    /// Errors of the disk. The event is then not part of the history.
    pub fn emit(
        &mut self,
        iteration: Option<u32>,
        task_id: Option<&TaskId>,
        event: impl Into<Event>,
    ) -> Result<Emitted> {
        let (records, written) = self.write(iteration, vec![(task_id.cloned(), event.into())])?;
        let own = written.into_iter().next_back().context("no event was written")?;
        Ok(Emitted { records, own })
    }

    /// Writes events of tasks together, and adds them to the history.
    ///
    /// # Errors
    /// Errors of the disk. The events are then not part of the history.
    pub fn emit_all(&mut self, events: Vec<(TaskId, impl Into<Event>)>) -> Result<()> {
        let events = events.into_iter().map(|(id, event)| (Some(id), event.into())).collect();
        self.write(None, events).map(drop)
    }

    /// Writes events. Returns all new lines, and those of these events.
    fn write(
        &mut self,
        iteration: Option<u32>,
        events: Vec<(Option<TaskId>, Event)>,
    ) -> Result<(Vec<Record>, Vec<Record>)> {
        let sync = events.iter().any(|(_, event)| event.effect().is_durable());
        let is_said_once = events.iter().any(|(_, event)| event.effect().is_said_once());
        let records = self.append(sync, iteration, events)?;
        if is_said_once {
            self.save();
        }
        Ok(records)
    }

    fn append(
        &mut self,
        sync: bool,
        iteration: Option<u32>,
        events: Vec<(Option<TaskId>, Event)>,
    ) -> Result<(Vec<Record>, Vec<Record>)> {
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
                record.redacted(&self.secrets)
            };
            (first..).zip(events).map(record).collect()
        };
        let mark = &mut self.past.own.mark;
        let (written, follows) = match self.journal.append(mark, sync, make) {
            Ok(appended) => appended,
            Err(error) => return Err(unusable("write", self.journal.path(), error)),
        };
        if follows {
            self.add(&written);
            return Ok((written.clone(), written));
        }
        let mut records = self.catch_up()?;
        if written.last().is_some_and(|last| !records.contains(last)) {
            // The journal was removed after the write; the events are still part of the history.
            for record in &written {
                self.past.history.apply(record);
            }
            records.extend(written.iter().cloned());
        }
        Ok((records, written))
    }

    /// Adds records to the history, written right after the last read one.
    fn add(&mut self, written: &[Record]) {
        for record in written {
            // Every other reader gets it from its line.
            debug_assert_eq!(Record::from_line(record.to_line().as_bytes()).as_ref(), Ok(record));
            self.past.add(record);
        }
        self.save_sometimes();
    }

    /// Returns a function that reads the lines that are new from now on, and returns whether they ask
    /// the run to stop at once. Other threads may call it.
    pub fn stop_request(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (journal, seen) = (self.journal.clone(), Mutex::new((self.past.own.mark, false)));
        move || {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (mark, stop) = &mut *seen;
            let each = |record: Option<&Record>| match record.map(|record| &record.event) {
                Some(Event::Request(RequestEvent::StopRequested(request))) => *stop |= request.now,
                Some(Event::Run(RunEvent::LoopStarted(_))) | None => *stop = false,
                Some(_) => {}
            };
            // An error of the disk ends the run elsewhere.
            let _ = journal.read(mark, each);
            *stop
        }
    }

    /// Whether the journal has new lines, judged by its length.
    pub fn has_news(&self) -> bool {
        self.journal.has_more(&self.past.own.mark)
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
        let (journal, past) = (&self.journal, &mut self.past);
        let (mut mark, mut is_another, mut fault) = (past.own.mark, false, None);
        let (mut is_first, mut known) = (false, 0);
        let read = journal.read(&mut mark, |record| {
            let Some(record) = record else {
                (is_another, is_first) = (true, true);
                known = past.known_records(journal).unwrap_or_else(|error| {
                    fault = Some(error);
                    usize::MAX
                });
                return;
            };
            if let (true, Some(lines)) = (is_first, &mut past.own.lines) {
                lines.0 = LineId::of(record);
            }
            is_first = false;
            if known > 0 {
                known -= 1;
                return;
            }
            past.add(record);
            if let Some(records) = &mut records {
                records.push(record.clone());
            }
        });
        past.own.mark = mark;
        let skipped = fault
            .map_or(read, Err)
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
        if self.past.own.mark.offset().abs_diff(self.saved) > SNAPSHOT_AFTER {
            self.save();
        }
    }

    /// Saves a snapshot. A failure only makes the next start slower.
    pub fn save(&mut self) {
        if self.state.write_snapshot(&self.past).is_ok() {
            self.saved = self.past.own.mark.offset();
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
    use crate::core::event::{Answer, AttemptEvent};

    fn answered() -> Event {
        RequestEvent::Answered(Answer { question: String::new(), answer: "yes".to_owned() }).into()
    }

    fn open(dir: &Path, run: &str) -> EventStore {
        open_in(dir, "ralph.jsonl", run)
    }

    /// Opens the journal of a worktree.
    fn open_in(dir: &Path, journal: &str, run: &str) -> EventStore {
        let state = StateFolder::open(dir.join("ralph"));
        EventStore::open(
            Journal::new(dir.join(journal)),
            state,
            run.to_owned(),
            Redactor::new([""; 0]),
        )
        .unwrap()
    }

    #[test]
    fn what_others_write_arrives_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (open(dir.path(), "one"), open(dir.path(), "two"));
        let id = TaskId::new("a").unwrap();
        one.emit(None, Some(&id), RequestEvent::Reset {}).unwrap();
        two.emit(None, Some(&id), answered()).unwrap();
        let seen = one.emit(None, Some(&id), RequestEvent::Reset {}).unwrap().records;
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
        writer.emit(None, Some(&id), AttemptEvent::Parked { attempts: 3 }).unwrap();
        writer.emit(None, Some(&id), answered()).unwrap();
        writer.save();
        writer.emit(None, Some(&id), RequestEvent::Reset {}).unwrap();
        assert_eq!(open(dir.path(), "r").history(), writer.history());

        // After a rotation the history stays, and the new file is read from its start.
        fs::rename(dir.path().join("ralph.jsonl"), dir.path().join("old")).unwrap();
        assert!(open(dir.path(), "r").history().of(&id).answers.len() == 1);
        writer.emit(None, Some(&TaskId::new("b").unwrap()), answered()).unwrap();
        let reader = open(dir.path(), "r");
        assert!(reader.history().of(&TaskId::new("b").unwrap()).answers.len() == 1);
        assert!(reader.history().of(&id).answers.len() == 1);
    }

    #[test]
    fn each_line_of_two_worktrees_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let id = TaskId::new("a").unwrap();
        let fail = |journal: &str, attempt: u32| {
            let mut store = open_in(dir.path(), journal, "w");
            let result = end(attempt, crate::core::verdict::Verdict::Failed);
            store.emit(Some(attempt), Some(&id), Event::Ended(result)).unwrap();
            store.save();
            store.history().of(&id).counted
        };
        assert_eq!((fail("one", 1), fail("two", 2), fail("one", 3)), (1, 2, 3));
        open_in(dir.path(), "two", "w").emit(None, Some(&id), RequestEvent::Reset {}).unwrap();
        assert_eq!(open_in(dir.path(), "one", "w").history().of(&id).counted, 0);
        // Neither a move of a worktree nor one in place of it counts a line twice.
        fs::rename(dir.path().join("one"), dir.path().join("moved")).unwrap();
        assert_eq!((fail("moved", 4), fail("two", 5), fail("moved", 6)), (1, 2, 3));
        fs::remove_file(dir.path().join("moved")).unwrap();
        assert_eq!((fail("new", 7), fail("two", 8), fail("new", 9)), (4, 5, 6));
    }

    /// The number of answers after the journal was replaced by this text.
    fn answers_with(dir: &Path, text: &str) -> usize {
        fs::write(dir.join("new"), text).unwrap();
        fs::rename(dir.join("new"), dir.join("ralph.jsonl")).unwrap();
        open(dir, "r").history().of(&TaskId::new("a").unwrap()).answers.len()
    }

    #[test]
    fn every_event_counts_once_whatever_becomes_of_the_file() {
        let journal = |from: u64, to: u64, second: i64| -> String {
            let record = |seq| Record {
                timestamp: DateTime::from_timestamp(second, 0).unwrap(),
                run_id: "w".to_owned(),
                seq,
                iteration: None,
                task_id: TaskId::new("a").ok(),
                event: answered(),
            };
            (from..to).map(|seq| record(seq).to_line()).collect()
        };
        let cases = [
            ("copied", journal(0, 3, 1000), 3),
            ("copied, with new lines", journal(0, 5, 1000), 5),
            ("without its first lines", journal(2, 5, 1000), 5),
            ("an earlier version", journal(0, 2, 1000), 3),
            ("an earlier version, with new lines", journal(0, 2, 1000) + &journal(3, 4, 999), 4),
            ("rotated", journal(0, 2, 2000), 5),
            ("rotated after the clock was set back", journal(0, 2, 10), 5),
        ];
        for (what, text, answers) in cases {
            let dir = tempfile::tempdir().unwrap();
            assert_eq!(answers_with(dir.path(), &journal(0, 3, 1000)), 3);
            open(dir.path(), "w").save();
            assert_eq!(answers_with(dir.path(), &text), answers, "{what}");
        }
    }

    #[test]
    fn a_snapshot_with_results_of_another_build_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let id = TaskId::new("a").unwrap();
        let mut writer = open(dir.path(), "w");
        let result = end(1, crate::core::verdict::Verdict::Failed);
        writer.emit(Some(1), Some(&id), Event::Ended(result)).unwrap();
        writer.save();
        let state = StateFolder::open(dir.path().join("ralph"));
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
        let long = || RunEvent::Blocked { holders: Vec::new() };
        while writer.past.own.mark.offset() <= SNAPSHOT_AFTER + 100_000 {
            writer.emit_all(vec![(id.clone(), long()); 1_000]).unwrap();
        }
        writer.save();
        let (path, copy) = (dir.path().join("ralph.jsonl"), dir.path().join("copy"));
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        let saved = || StateFolder::open(dir.path().join("ralph")).snapshot::<Snapshot>();
        let before = saved().unwrap().own.mark;
        let reader = open(dir.path(), "r");
        assert_eq!(reader.history(), writer.history());
        let after = saved().unwrap().own.mark;
        assert!(after != before && after == reader.past.own.mark, "its position is kept");
    }

    #[test]
    fn a_damaged_snapshot_is_dropped_whatever_byte_changed() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), "w");
        for id in ["a", "b"] {
            let id = TaskId::new(id).unwrap();
            writer.emit(None, Some(&id), AttemptEvent::Parked { attempts: 3 }).unwrap();
            writer.emit(None, Some(&id), answered()).unwrap();
        }
        writer.save();
        let path = dir.path().join("ralph/history.json");
        let whole = fs::read(&path).unwrap();
        let state = || StateFolder::open(dir.path().join("ralph"));
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
