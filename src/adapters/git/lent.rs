//! Repositories that stay open between the steps of a run.
//!
//! A step that prepares a slot or lands work opens the main repository and reads its settings, which
//! takes longer than most of what the step does with it. A repository that a step has opened serves the
//! next one, whichever thread that runs on, while nothing that was read when it was opened has changed.

use std::{
    fs,
    ops::Deref,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;

use super::Repo;

/// The number of repositories that wait for the next step.
const WAITING: usize = 4;

/// How long a repository stays open. Settings may include files that are not looked at.
const OPEN: Duration = Duration::from_secs(1);

/// What a repository was when it was opened.
struct OpenedRepo {
    dir: PathBuf,
    at: Instant,
    /// What tells the files that were read then from changed or other ones.
    files: Vec<Option<FileStamp>>,
    repo: Repo,
}

/// Inode, length, and the time of the last change.
type FileStamp = (u64, u64, i64, i64);

static IDLE: Mutex<Vec<OpenedRepo>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<OpenedRepo>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A repository for one step.
pub struct LentRepo(Option<OpenedRepo>);

impl Repo {
    /// Opens the repository at the top `dir` for one step, or takes one that another step has opened.
    /// Its settings are those of at most one second ago.
    ///
    /// # Errors
    /// As [`Repo::discover`].
    pub fn lend(dir: &Path) -> Result<LentRepo> {
        let take = || {
            let mut idle = idle();
            idle.retain(|it| it.at.elapsed() < OPEN);
            let at = idle.iter().position(|it| it.dir == dir)?;
            Some(idle.swap_remove(at))
        };
        if let Some(opened) = take().filter(|it| it.files == stamps(&it.repo)) {
            return Ok(LentRepo(Some(opened)));
        }
        let at = Instant::now();
        let repo = Repo::discover_for_now(dir)?;
        let files = stamps(&repo);
        Ok(LentRepo(Some(OpenedRepo { dir: dir.to_owned(), at, files, repo })))
    }
}

impl Deref for LentRepo {
    type Target = Repo;

    fn deref(&self) -> &Repo {
        &self.0.as_ref().expect("it is here until it is dropped").repo
    }
}

impl Drop for LentRepo {
    fn drop(&mut self) {
        // One that libgit2 could not read, or no longer can, is opened again.
        let opened = self.0.take().filter(|it| it.repo.backend.library().is_some());
        let mut idle = idle();
        if idle.len() < WAITING {
            idle.extend(opened);
        }
    }
}

/// The stamps of the files that libgit2 reads when it opens a repository, and of its folders.
fn stamps(repo: &Repo) -> Vec<Option<FileStamp>> {
    let own = ["", "shallow", "info/grafts", "objects/info/alternates"];
    let own = own.map(|name| repo.common_dir.join(name));
    let stamp = |file: PathBuf| {
        let found = fs::metadata(&file).ok()?;
        // The entries of a folder change all the time.
        let changed = if found.is_dir() { (0, 0) } else { (found.ctime(), found.ctime_nsec()) };
        let length = if found.is_dir() { 0 } else { found.len() };
        Some((found.ino(), length, changed.0, changed.1))
    };
    repo.config_files().into_iter().chain(own).map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::TestRepository;

    #[test]
    fn changed_settings_and_another_repository_are_noticed() {
        let place = TestRepository::new();
        let first = place.commit("a", "1\n", "First");
        let dir = place.top.clone();
        let setting = || Repo::lend(&dir).unwrap().backend.setting("x.y");
        let waiting = || idle().iter().filter(|it| it.dir == dir).count();
        assert_eq!((setting(), waiting()), (None, 1));
        let (one, other) = (Repo::lend(&dir).unwrap(), Repo::lend(&dir).unwrap());
        assert_eq!(one.head().unwrap(), other.head().unwrap());
        drop((one, other));
        place.git(&["config", "x.y", "z"]);
        assert_eq!(setting().as_deref(), Some("z"));
        // Refs and objects are read each time.
        let second = place.commit("a", "2\n", "Second");
        assert!(Repo::lend(&dir).unwrap().is_ancestor(&first, &second).unwrap());
        assert_eq!(Repo::lend(&dir).unwrap().head().unwrap().commit, Some(second));
        fs::remove_dir_all(dir.join(".git")).unwrap();
        place.git(&["init", "-q", "-b", "other"]);
        assert_eq!((setting(), Repo::lend(&dir).unwrap().head().unwrap().commit), (None, None));
    }
}
