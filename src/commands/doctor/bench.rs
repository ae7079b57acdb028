//! The temporary folder for trials, and programs that run with a time limit.

use std::{
    convert::Infallible,
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{
    adapters::{
        agent_output,
        process::{self, GuardPost, GuardianPool, ProcessSpec},
    },
    core::verdict::Outcome,
    project::{config::Config, placement::PlacedProcess},
};

/// The time limit for a program to print its version.
pub(super) const VERSION: Duration = Duration::from_secs(10);
/// The time limit for a trial commit, unless `commit_timeout` is shorter.
const COMMIT: Duration = Duration::from_secs(20);
/// The number of output lines to keep.
const LINES: usize = 3;

/// A temporary folder for trials.
pub(super) struct ProbeFolder {
    folder: TempDir,
    /// The time limit for a trial commit.
    pub(super) commit: Duration,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeAnswer {
    /// The program succeeded, with these last lines of output.
    Yes(Vec<String>),
    /// The program failed, for this reason.
    No(String),
    /// The program was killed after this long.
    Late(Duration),
}

/// A program to run.
#[derive(Default)]
pub(super) struct Probe {
    /// The command line.
    pub(super) argv: Vec<String>,
    /// The working directory; by default an empty folder.
    pub(super) dir: Option<PathBuf>,
    /// Variables to set.
    pub(super) env: Vec<(String, String)>,
    /// Variables to remove.
    pub(super) env_remove: Vec<String>,
}

impl ProbeFolder {
    /// Creates the folder.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn new(config: &Config) -> Result<ProbeFolder> {
        let folder = tempfile::Builder::new().prefix("ralph-doctor-").tempdir();
        let folder = folder.context("create a temporary folder")?;
        let commit = config.commit_timeout.min(COMMIT);
        Ok(ProbeFolder { folder, commit })
    }

    /// Creates a folder of this name inside.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).context("create a temporary folder")?;
        Ok(path)
    }

    /// The record of the processes that are tried.
    pub(super) fn record(&self) -> PathBuf {
        self.folder.path().join("record")
    }

    /// Runs a program without input or terminal, under a guardian like an agent: its processes end with
    /// it, at the limit, or when this process dies.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn ask(&self, question: Probe, limit: Duration) -> Result<ProbeAnswer> {
        self.ask_at(question, limit, |spec| Ok(PlacedProcess::here(spec)))
    }

    /// Runs a program where `place` brings it.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn ask_at(
        &self,
        question: Probe,
        limit: Duration,
        place: impl FnOnce(ProcessSpec) -> Result<PlacedProcess, String>,
    ) -> Result<ProbeAnswer> {
        let dir = match question.dir {
            Some(dir) => dir,
            None => self.folder("empty")?,
        };
        let said = self.folder.path().join("said");
        fs::write(&said, "").context("write to a temporary folder")?;
        let record = self.record();
        fs::write(&record, "").context("write to a temporary folder")?;
        let spec = ProcessSpec {
            argv: question.argv,
            dir,
            env: question.env,
            env_remove: question.env_remove,
            stdin: Path::new("/dev/null").to_owned(),
            stdout: said.clone(),
            stderr: said.clone(),
        };
        let PlacedProcess { spec, carrier, .. } = match place(spec) {
            Ok(placed) => placed,
            Err(why) => return Ok(ProbeAnswer::No(why)),
        };
        let lock = File::open(self.folder.path()).context("open a temporary folder")?;
        let guardians =
            GuardianPool::new(process::own_program(), &lock).context("duplicate a file")?;
        let post = GuardPost {
            guardians,
            record,
            exit: None,
            idle: None,
            redact: false,
            screen: None,
            carrier,
        };
        // A probe needs no grace period.
        let limits = (limit, Duration::ZERO);
        let Ok(outcome) = process::run_guarded(&spec, &post, limits, |_| Ok::<_, Infallible>(true));
        let lines = agent_output::last_lines(&said, LINES).unwrap_or_default();
        Ok(match outcome {
            Outcome::Exited { exit_code: 0 } => ProbeAnswer::Yes(lines),
            Outcome::TimedOut { .. } => ProbeAnswer::Late(limit),
            Outcome::NotStarted { error } => ProbeAnswer::No(error),
            Outcome::Interrupted => ProbeAnswer::No("its guardian died".to_owned()),
            Outcome::Lost { why, .. } if lines.is_empty() => ProbeAnswer::No(why),
            outcome if lines.is_empty() => ProbeAnswer::No(outcome.to_string()),
            _ => ProbeAnswer::No(lines.join(" / ")),
        })
    }
}
