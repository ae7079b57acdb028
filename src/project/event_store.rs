//! The journal and the past made of it, kept in step: the one way in which a fact enters the world.
//!
//! A fact is written first and taken in afterwards, by reading it back together with whatever
//! other processes wrote: an agent's `ralph task-complete` and the runner's own lines arrive in
//! the one order that the journal has.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    path::Path,
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

/// After so many bytes of journal a new snapshot is worth its write.
const SNAPSHOT_AFTER: u64 = 512 * 1024;

/// The past of one repository, and the means to add to it.
#[derive(Debug)]
pub struct EventStore {
    journal: Journal,
    state: StateFolder,
    past: Snapshot,
    /// Where the snapshot on disk ends.
    saved: u64,
    run_id: String,
    skipped: SkippedLines,
    /// What must not get into the journal.
    secrets: Option<Redactor>,
}

/// The past up to a place in the journal.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Snapshot {
    mark: JournalPosition,
    history: History,
    newest: Option<DateTime<Utc>>,
}

impl EventStore {
    /// Reads the past. Facts that this process adds carry `run_id` and have none of the `secrets`.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn open(
        journal: Journal,
        state: StateFolder,
        run_id: String,
        secrets: Option<Redactor>,
    ) -> Result<EventStore> {
        let past: Snapshot = state.snapshot().unwrap_or_default();
        let saved = past.mark.offset();
        let mut chronicle = EventStore {
            journal,
            state,
            past,
            saved,
            run_id,
            skipped: SkippedLines::default(),
            secrets,
        };
        // A cold start reads all there is, and shows it to nobody.
        chronicle.take_in(drop)?;
        Ok(chronicle)
    }

    /// What has happened.
    pub fn history(&self) -> &History {
        &self.past.history
    }

    /// The run that facts of this process belong to.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Lines that could not be used.
    pub fn skipped(&self) -> SkippedLines {
        self.skipped
    }

    /// Writes a fact and takes it in. Returns it, after whatever others wrote before it.
    ///
    /// # Errors
    /// As the disk gives them; what is not on disk has not happened.
    pub fn emit(
        &mut self,
        iteration: Option<u32>,
        task_id: Option<&TaskId>,
        event: Event,
    ) -> Result<Vec<Record>> {
        let sync = is_an_end(&event);
        let record = self
            .journal
            .append(sync, |seq| {
                let record = Record {
                    timestamp: Utc::now().trunc_subsecs(3),
                    run_id: self.run_id.clone(),
                    seq,
                    iteration,
                    task_id: task_id.cloned(),
                    event,
                };
                match &self.secrets {
                    Some(secrets) => record.redacted(secrets),
                    None => record,
                }
            })
            .map_err(|error| unusable("write", self.journal.path(), error))?;
        let mut records = self.catch_up()?;
        if !records.contains(&record) {
            // Somebody removed the journal between the two; the fact stands all the same.
            self.past.history.apply(&record);
            records.push(record);
        }
        Ok(records)
    }

    /// Whether anything was written since; one look at the file's length.
    pub fn has_news(&self) -> bool {
        self.journal.has_more(&self.past.mark)
    }

    /// Takes in what was written since, by whomever.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn catch_up(&mut self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        self.take_in(|record| records.push(record))?;
        Ok(records)
    }

    fn take_in(&mut self, mut told: impl FnMut(Record)) -> Result<()> {
        let past = &mut self.past;
        // In a journal that starts anew, what is older than the past is in it already.
        let mut known_until = None;
        let skipped = self
            .journal
            .read(&mut past.mark, |record| {
                let Some(record) = record else {
                    known_until = past.newest;
                    return;
                };
                if known_until.is_some_and(|known| record.timestamp <= known) {
                    return;
                }
                past.newest = past.newest.max(Some(record.timestamp));
                past.history.apply(&record);
                told(record);
            })
            .map_err(|error| unusable("read", self.journal.path(), error))?;
        self.skipped.damaged += skipped.damaged;
        self.skipped.unknown += skipped.unknown;
        if self.past.mark.offset().abs_diff(self.saved) > SNAPSHOT_AFTER {
            self.save();
        }
        Ok(())
    }

    /// Keeps a snapshot. A failure costs time at the next start and nothing else.
    pub fn save(&mut self) {
        if self.state.write_snapshot(&self.past).is_ok() {
            self.saved = self.past.mark.offset();
        }
    }
}

/// A journal that cannot be used is a fault of the disk, whatever the system calls it.
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

/// Whether a power cut must not take the line: the ends, from which everything else follows.
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

/// A name for a run: sortable by time, and unlike any other of the same second.
pub fn new_run_id(now: DateTime<Utc>) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{}-{:04x}", now.format("%Y%m%dT%H%M%SZ"), random & 0xffff)
}

#[cfg(test)]
mod tests {
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

        // Rotated: the past stays, the new file is read from its start. Lines of the very
        // millisecond up to which the past is known would be taken for known ones.
        std::thread::sleep(std::time::Duration::from_millis(2));
        fs::rename(dir.path().join("ralph.jsonl"), dir.path().join("old")).unwrap();
        assert!(open(dir.path(), "r").history().of(&id).answers.len() == 1);
        writer.emit(None, Some(&TaskId::new("b").unwrap()), answered()).unwrap();
        let reader = open(dir.path(), "r");
        assert!(reader.history().of(&TaskId::new("b").unwrap()).answers.len() == 1);
        assert!(reader.history().of(&id).answers.len() == 1);
    }

    #[test]
    fn run_ids_sort_and_differ() {
        let now = Utc::now();
        assert_ne!(new_run_id(now), new_run_id(now));
        assert!(new_run_id(now) < new_run_id(now + chrono::TimeDelta::seconds(1)));
    }
}
