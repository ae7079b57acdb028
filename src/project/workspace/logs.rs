//! The folder of the logs, whose files are shown to people and sent to others.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::Workspace;

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

impl Workspace {
    /// The folder of the logs.
    pub fn log_folder(&self) -> LogFolder {
        let journal = self.root().join(self.place.journal());
        let folder = journal.parent().unwrap_or(Path::new("")).to_owned();
        LogFolder { root: self.root().to_owned(), folder }
    }
}
