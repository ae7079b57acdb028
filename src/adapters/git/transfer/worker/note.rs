//! The note about a slot at a worker, and JSON files in general.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{
    adapters::git::{
        Repo, SlotSettings,
        transfer::{header::WorkAuthor, state::WorkState},
    },
    core::commit_id::CommitId,
    regular_file,
};

/// What is known about a slot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WorkerNote {
    pub(super) token: String,
    /// The commit with all that arrived for this token; none before it arrived.
    pub(super) arrived: Option<CommitId>,
    /// The commit of HEAD that arrived.
    pub(super) arrived_head: Option<CommitId>,
    /// The commit with all that was last packed.
    pub(super) packed: Option<CommitId>,
    /// The commit with all that the other side is known to have.
    pub(super) fetched: Option<CommitId>,
    /// The commits that HEAD does not reach and that were last packed.
    #[serde(default)]
    pub(super) packed_strays: Vec<CommitId>,
    /// Those that the other side has.
    #[serde(default)]
    pub(super) fetched_strays: Vec<CommitId>,
    pub(super) ignore: String,
    pub(super) author: Option<WorkAuthor>,
}

impl WorkerNote {
    /// Whether the other side has this state of the slot.
    pub(super) fn is_fetched(&self, work: &WorkState) -> bool {
        [&self.arrived, &self.fetched].contains(&&Some(work.tip().clone()))
            && work.strays.iter().all(|stray| self.fetched_strays.contains(stray))
    }

    /// The settings of a slot with this note.
    pub(super) fn settings(&self, store: &Repo) -> Result<SlotSettings> {
        let mut settings = store.slots().settings()?;
        settings.ignore(&[&self.ignore]);
        if let Some(WorkAuthor { name, email }) = &self.author {
            settings.commit_as(name, email);
        }
        Ok(settings)
    }
}

/// The JSON files of a folder with their names. Files that cannot be read are left out.
pub(super) fn read_all<T: for<'a> Deserialize<'a>>(folder: &Path) -> Vec<(String, T)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, read_json(&entry.path())?))
    });
    named.collect()
}

pub(super) fn read_json<T: for<'a> Deserialize<'a>>(file: &Path) -> Option<T> {
    serde_json::from_slice(&regular_file::read(file).ok()?).ok()
}

/// Replaces a file as a whole.
pub(super) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".making");
    let making = PathBuf::from(name);
    fs::write(&making, content)?;
    fs::rename(making, file)
}
