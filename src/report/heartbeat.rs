//! `logs/ralph.heartbeat`: proof for monitoring that the loop is running.
//!
//! The first line is the time; the second is the state as JSON. The file is one block of a fixed
//! size, written in place by one system call: readers never see half of a write, and it also works
//! on a full disk, where a new file could not be created.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        machine::{self, AwakeHold},
        service_manager::{self, NotifyState},
        terminal,
    },
    core::{
        event::{Event, RunEvent, record::Record},
        select::View,
    },
    regular_file,
    runner::Reporter,
};

/// The size of the file, in bytes.
const SIZE: usize = 256;
/// The longest interval between two beats.
const BEAT: Duration = Duration::from_secs(10);
/// The shortest interval between two beats with the same contents.
const SAME: Duration = Duration::from_secs(1);

/// The contents of a heartbeat, apart from the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatFacts {
    /// The id of the run.
    pub run_id: String,
    /// The process id of the run.
    pub pid: u32,
    /// The task of the newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The reason for the end of the run, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
}

/// Writes the heartbeat on every record that changes it, about every second while records follow each
/// other, and every ten seconds.
#[derive(Debug)]
pub struct HeartbeatReporter {
    path: PathBuf,
    facts: HeartbeatFacts,
    /// The last beat, and its contents.
    last: Option<(Instant, HeartbeatFacts)>,
}

impl HeartbeatReporter {
    /// Returns a reporter that writes to the file at `path`.
    pub fn new(path: PathBuf) -> HeartbeatReporter {
        let facts = HeartbeatFacts { pid: std::process::id(), ..HeartbeatFacts::default() };
        HeartbeatReporter { path, facts, last: None }
    }

    fn beat(&mut self) {
        let is_due = self
            .last
            .as_ref()
            .is_none_or(|(at, facts)| at.elapsed() >= SAME || *facts != self.facts);
        if !is_due {
            return;
        }
        self.last = Some((Instant::now(), self.facts.clone()));
        // A heartbeat that cannot be written becomes stale, which is its purpose.
        let _ = write(&self.path, Utc::now(), &self.facts);
        service_manager::tell(NotifyState::Watchdog);
    }
}

impl Reporter for HeartbeatReporter {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        let (run, active) = (&view.history.run, &view.history.active);
        self.facts = HeartbeatFacts {
            run_id: run.id.clone(),
            pid: self.facts.pid,
            task_id: active.attempts.last().map(|active| active.task_id.to_string()),
            finished: run.finished.as_ref().map(|(why, _)| why.chars().take(60).collect()),
        };
        if let Event::Run(RunEvent::LoopStarted { .. }) = record.event {
            service_manager::tell(NotifyState::Ready);
        }
        self.beat();
    }

    fn tick(&mut self) {
        self.beat();
    }

    fn interval(&self) -> Duration {
        BEAT
    }
}

fn write(path: &Path, now: DateTime<Utc>, facts: &HeartbeatFacts) -> io::Result<()> {
    let facts = serde_json::to_string(facts)?;
    let time = now.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut block = format!("{time}\n{facts}").into_bytes();
    block.resize(SIZE - 1, b' ');
    block.push(b'\n');
    let file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            open(path)?
        }
        opened => opened?,
    };
    file.write_all_at(&block, 0)?;
    if file.metadata()?.len() > SIZE as u64 { file.set_len(SIZE as u64) } else { Ok(()) }
}

fn open(path: &Path) -> io::Result<File> {
    regular_file::open_instead(path, OpenOptions::new().write(true).create(true).truncate(false))
}

/// Reads a heartbeat: its time, and its contents if they are valid.
///
/// # Errors
/// Errors of the disk, and `InvalidData` if the first line is not a time.
pub fn read(path: &Path) -> io::Result<(DateTime<Utc>, Option<HeartbeatFacts>)> {
    let text = regular_file::read_to_string(path)?;
    let mut lines = text.lines();
    let time =
        lines.next().and_then(|line| DateTime::parse_from_rfc3339(line.trim()).ok()).ok_or_else(
            || io::Error::new(io::ErrorKind::InvalidData, "its first line is not a time"),
        )?;
    let facts = lines.next().and_then(|line| serde_json::from_str(line.trim()).ok());
    Ok((time.to_utc(), facts))
}

// The reporter that keeps the machine awake while a run lasts.

/// A reporter that holds the machine from the start of a run until it is dropped.
pub struct AwakeReporter {
    wanted: Option<bool>,
    is_quiet: bool,
    hold: Option<AwakeHold>,
}

impl AwakeReporter {
    /// Returns a reporter that holds if this is wanted, or by default if the machine may sleep.
    pub fn new(wanted: Option<bool>, is_quiet: bool) -> AwakeReporter {
        AwakeReporter { wanted, is_quiet, hold: None }
    }

    fn say(&self, text: &str) {
        if !self.is_quiet {
            terminal::say_wrapped(text);
        }
    }
}

impl Reporter for AwakeReporter {
    fn record(&mut self, record: &Record, _view: &View<'_>) {
        let Event::Run(RunEvent::LoopStarted(_)) = record.event else {
            return;
        };
        if !self.wanted.unwrap_or_else(machine::may_sleep) {
            return;
        }
        match AwakeHold::take() {
            Ok(hold) => {
                let lid = if hold.with_lid { "also with its lid closed" } else { "its lid open" };
                self.say(&format!("the machine stays awake until the run ends, {lid}"));
                self.hold = Some(hold);
            }
            Err(why) => self.say(&format!("the machine may sleep during the run: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_a_time_and_facts_in_a_block_of_fixed_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/ralph.heartbeat");
        let now: DateTime<Utc> = "2026-11-20T22:44:03.120Z".parse().unwrap();
        let facts = HeartbeatFacts { run_id: "r".to_owned(), pid: 7, ..HeartbeatFacts::default() };
        fs::create_dir(dir.path().join("logs")).unwrap();
        fs::write(&path, "x".repeat(999)).unwrap();
        write(&path, now, &facts).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), SIZE as u64);
        assert!(fs::read_to_string(&path).unwrap().starts_with("2026-11-20T22:44:03.120Z\n{"));
        assert_eq!(read(&path).unwrap(), (now, Some(facts)));
        fs::write(&path, "soon").unwrap();
        assert!(read(&path).is_err());
    }
}
