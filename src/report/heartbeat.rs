//! `logs/ralph.heartbeat`: proof that the loop itself turns, for cron.
//!
//! The first line is the time; the second says what goes on, as JSON. One block of a fixed size,
//! written in place: that is one system call, never half seen, and works on a full disk, where a
//! new file could not be made.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::runner::reporter::Reporter;
use crate::{
    adapters::service_manager::{self, Manager},
    core::{
        event::{Event, record::Record},
        select::View,
    },
};

/// The size of the file, in bytes.
const SIZE: usize = 256;
/// Between two beats.
const BEAT: Duration = Duration::from_secs(10);

/// What the heartbeat says besides the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatFacts {
    /// The run.
    pub run_id: String,
    /// The runner's process.
    pub pid: u32,
    /// What it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Why the run ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
}

/// Beats on every fact, and every ten seconds.
#[derive(Debug)]
pub struct HeartbeatReporter {
    path: PathBuf,
    facts: HeartbeatFacts,
    /// Who hears of every beat, if a service manager started this run.
    manager: Manager,
}

impl HeartbeatReporter {
    /// Beats into the file at `path`.
    pub fn new(path: PathBuf) -> HeartbeatReporter {
        let facts = HeartbeatFacts { pid: std::process::id(), ..HeartbeatFacts::default() };
        HeartbeatReporter { path, facts, manager: Manager::of_environment() }
    }

    fn beat(&self) {
        // A heartbeat that cannot be written goes stale, which is what it is for.
        let _ = write(&self.path, Utc::now(), &self.facts);
        self.manager.tell(service_manager::ALIVE);
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
        if let Event::LoopStarted { .. } = record.event {
            self.manager.tell(service_manager::READY);
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
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Reads a heartbeat: when it beat, and what it said, where that can be read.
///
/// # Errors
/// As the disk gives them, and `InvalidData` where the first line is no time.
pub fn read(path: &Path) -> io::Result<(DateTime<Utc>, Option<HeartbeatFacts>)> {
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines();
    let time = lines
        .next()
        .and_then(|line| DateTime::parse_from_rfc3339(line.trim()).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its first line is no time"))?;
    let facts = lines.next().and_then(|line| serde_json::from_str(line.trim()).ok());
    Ok((time.to_utc(), facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_is_a_time_and_facts_in_a_block_of_one_size() {
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
