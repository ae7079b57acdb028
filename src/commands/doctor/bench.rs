//! Where things are tried: a folder that goes, and programs that are asked with a limit.

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
        process::{self, GuardPost, ProcessSpec},
    },
    core::verdict::Outcome,
    project::config::Config,
};

/// How long a program may take to say its version.
pub(super) const VERSION: Duration = Duration::from_secs(10);
/// How long a commit may take, and less where a run would give it less.
const COMMIT: Duration = Duration::from_secs(20);
/// How many lines of an answer are kept.
const LINES: usize = 3;

/// The folder and the limit.
pub(super) struct ProbeFolder {
    folder: TempDir,
    /// How long a tried commit may take.
    pub(super) commit: Duration,
}

/// What a program said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeAnswer {
    /// It succeeded, with these last lines.
    Yes(Vec<String>),
    /// It did not, for this reason.
    No(String),
    /// It was ended after this long.
    Late(Duration),
}

/// A question to a program.
#[derive(Default)]
pub(super) struct Probe {
    /// The command line.
    pub(super) argv: Vec<String>,
    /// Where it is asked; without one, in a folder with nothing in it.
    pub(super) dir: Option<PathBuf>,
    /// Set in its environment.
    pub(super) env: Vec<(String, String)>,
    /// Taken out of it.
    pub(super) env_remove: Vec<String>,
}

impl ProbeFolder {
    /// A folder for one examination.
    ///
    /// # Errors
    /// As the disk gives them.
    pub(super) fn new(config: &Config) -> Result<ProbeFolder> {
        let folder = tempfile::Builder::new().prefix("ralph-doctor-").tempdir();
        let folder = folder.context("make a temporary folder")?;
        let commit = config.commit_timeout.min(COMMIT);
        Ok(ProbeFolder { folder, commit })
    }

    /// An empty folder.
    ///
    /// # Errors
    /// As the disk gives them.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).context("make a temporary folder")?;
        Ok(path)
    }

    /// Asks with nothing on standard input and no terminal, behind a guardian as agents are: whatever
    /// the program starts is ended with it, at the limit, or when this process dies.
    ///
    /// # Errors
    /// As the disk gives them.
    pub(super) fn ask(&self, question: Probe, limit: Duration) -> Result<ProbeAnswer> {
        let dir = match question.dir {
            Some(dir) => dir,
            None => self.folder("empty")?,
        };
        let said = self.folder.path().join("said");
        fs::write(&said, "").context("write into a temporary folder")?;
        let record = self.folder.path().join("record");
        fs::write(&record, "").context("write into a temporary folder")?;
        let spec = ProcessSpec {
            argv: question.argv,
            dir,
            env: question.env,
            env_remove: question.env_remove,
            stdin: Path::new("/dev/null").to_owned(),
            stdout: said.clone(),
            stderr: said.clone(),
        };
        let lock = File::open(self.folder.path()).context("open a temporary folder")?;
        let post = GuardPost {
            program: process::own_program(),
            record,
            exit: None,
            lock: &lock,
            idle: None,
            redact: false,
            screen: None,
        };
        // What is asked here has nothing to put in order at its end.
        let limits = (limit, Duration::ZERO);
        let Ok(outcome) = process::run_guarded(&spec, &post, limits, |_| Ok::<_, Infallible>(true));
        let lines = agent_output::last_lines(&said, LINES).unwrap_or_default();
        Ok(match outcome {
            Outcome::Exited { exit_code: 0 } => ProbeAnswer::Yes(lines),
            Outcome::TimedOut { .. } => ProbeAnswer::Late(limit),
            Outcome::NotStarted { error } => ProbeAnswer::No(error),
            Outcome::Interrupted => ProbeAnswer::No("its guardian died".to_owned()),
            outcome if lines.is_empty() => ProbeAnswer::No(outcome.to_string()),
            _ => ProbeAnswer::No(lines.join(" / ")),
        })
    }
}
