//! The lock of a repository's run, and who holds it.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    adapters::{
        machine,
        process::{self, Identity},
        state::Lock,
    },
    core::{
        executor::shell_word,
        exit::{Exit, Failure},
        history::History,
    },
};

/// What the lock is held for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockUse {
    /// A run.
    #[default]
    Run,
    /// The trial before a run, which shows whether the checks notice broken code.
    Start,
    /// The trial of `ralph doctor`.
    Doctor,
}

/// The holder of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The process of the runner.
    pub process: Identity,
    /// What it holds it for.
    #[serde(default)]
    pub holds_for: LockUse,
    /// The id of its run; empty for a trial.
    pub run_id: String,
    /// When it took the lock (RFC 3339).
    pub since: String,
    /// The task that it works on.
    pub task_id: Option<String>,
    /// The branch that its work lands on, if that is not the one of the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
}

/// How long a guardian may take to clean up after a dead runner.
const CLEANING: Duration = Duration::from_secs(30);

/// The same if nothing can be seen of the runner, because it is in another pid namespace.
const ELSEWHERE: Duration = Duration::from_secs(1);

impl Workspace {
    /// Takes the lock; none if another run has it. Waits a few milliseconds for a guardian that
    /// still holds it to clean up after a dead runner.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn lock(&self) -> Result<Option<Lock>> {
        let began = Instant::now();
        loop {
            if let Some(lock) = self.state.try_lock().context("take the lock")? {
                return Ok(Some(lock));
            }
            let holder = self.holder().map(|holder| holder.process);
            // A lock without a living runner, or one that a command tests, is released soon.
            let patience = if holder.as_ref().is_some_and(process::is_elsewhere) {
                ELSEWHERE
            } else if holder.as_ref().is_none_or(process::is_alive) {
                Duration::from_millis(100)
            } else {
                process::wake_guardians(self.state.dir());
                CLEANING
            };
            if began.elapsed() > patience {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the newest run of this history is still running.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn is_live(&self, history: &History) -> Result<bool> {
        // All worktrees share the lock but not the journal, and a guardian that cleans up after a
        // dead runner holds the lock too.
        let ours = |holder: LockHolder| {
            holder.holds_for == LockUse::Run
                && holder.run_id == history.run.id
                && process::may_live(&holder.process)
        };
        Ok(self.state.is_locked().context("look at the lock")? && self.holder().is_none_or(ours))
    }

    /// Whether a run is active in any worktree of this repository.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn is_busy(&self) -> Result<bool> {
        let lives = |holder: LockHolder| process::may_live(&holder.process);
        Ok(self.state.is_locked().context("look at the lock")? && self.holder().is_none_or(lives))
    }

    /// The holder of the lock, or its last holder.
    pub fn holder(&self) -> Option<LockHolder> {
        self.state.holder()
    }
}

// The folder of the logs, whose files are shown to people and sent to others.

/// The folder of the logs. An agent can write there, and into the journal that names its files.
#[derive(Clone, Debug)]
pub struct LogFolder {
    root: PathBuf,
    folder: PathBuf,
}

impl LogFolder {
    /// The path of a file or folder that the journal names, relative to the repository; none if it
    /// leads out of the folder of the logs, by its name or by a link.
    pub fn path(&self, log: &str) -> Option<PathBuf> {
        let (folder, path) = (fs::canonicalize(&self.folder), self.root.join(log));
        fs::canonicalize(path).ok().filter(|path| folder.is_ok_and(|it| path.starts_with(it)))
    }
}

/// Checks that this user may write to the repository.
///
/// # Errors
/// A folder of it that cannot be written.
pub fn check_rights(workspace: &Workspace) -> Result<()> {
    let (root, git) = (workspace.root(), workspace.repo.common_dir());
    let folders = [git, &git.join("objects"), workspace.state.dir(), root];
    let Some(folder) = folders.into_iter().find(|it| !machine::may_write(it)) else {
        return Ok(());
    };
    let (folder, root) = (folder.display(), shell_word(&root.display().to_string()));
    let cure = format!("`chmod -R u+w {root}` mends that if the files are yours");
    Err(Failure::new(Exit::Disk, format!("`{folder}` cannot be written; {cure}")).into())
}

impl Workspace {
    /// The folder of the logs.
    pub fn log_folder(&self) -> LogFolder {
        let journal = self.root().join(self.place.journal());
        let folder = journal.parent().unwrap_or(Path::new("")).to_owned();
        LogFolder { root: self.root().to_owned(), folder }
    }

    /// Refuses to write logs outside of the repository: `logs` may be a symbolic link in it.
    ///
    /// # Errors
    /// `logs` as a link that leaves the repository; those of [`check_rights`].
    pub fn check_logs(&self) -> Result<()> {
        check_rights(self)?;
        let place = &self.place;
        let folder = Path::new(place.journal()).parent().into_iter().flat_map(Path::ancestors);
        let files =
            [place.journal(), place.heartbeat(), place.run_log(), place.attempts(), place.hooks()]
                .map(Path::new);
        for name in folder.filter(|path| !path.as_os_str().is_empty()).chain(files) {
            let path = self.root().join(name);
            let Ok(target) = fs::read_link(&path) else {
                continue;
            };
            if path.canonicalize().is_ok_and(|real| real.starts_with(self.root())) {
                continue;
            }
            let message = format!(
                "`{}` is a link to `{}`, which is not in the repository; remove the link, and \
                 `ralph` will write a file or folder of its own",
                name.display(),
                target.display()
            );
            return Err(Failure::new(Exit::Disk, message).into());
        }
        Ok(())
    }
}
