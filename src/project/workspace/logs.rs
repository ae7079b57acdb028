//! The folder of the logs, whose files are shown to people and sent to others.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::Workspace;
use crate::{
    adapters::machine,
    core::{
        executor::shell_word,
        exit::{Exit, Failure},
    },
};

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
