//! Copies of the graph file before and after each change that a person made by a command, so that
//! `ralph undo` can take it back.
//!
//! They are in the state folder. Each change has a number and three files:
//! what it was, the text before, and the text after. The lock of the graph file is held while one
//! is written.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::state::{self, StateFolder},
    core::graph::task::TaskId,
    regular_file,
};

/// How many changes are kept.
const KEPT: usize = 20;
/// How many bytes the copies may have together. The newest change is always kept.
const BYTES: u64 = 64 << 20;

/// A change of the graph file that a person made by a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChange {
    /// Its number; later changes have greater ones.
    pub number: u32,
    /// When it was made.
    pub at: DateTime<Utc>,
    /// The command, such as `task-add`.
    pub command: String,
    /// The graph file.
    pub graph: PathBuf,
    /// The tasks that it was about.
    pub tasks: Vec<TaskId>,
    /// Whether it created the file; the text before is that of a graph without tasks then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Why it cannot be taken back, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_because: Option<String>,
}

/// The kept changes of a repository, or of one loop.
#[derive(Clone, Debug)]
pub struct KeptChanges {
    dir: PathBuf,
    durable: bool,
}

impl KeptChanges {
    /// The changes in this state folder.
    pub fn of(state: &StateFolder) -> KeptChanges {
        KeptChanges { dir: state.dir().join("changes"), durable: state.is_durable() }
    }

    /// Returns the changes of a graph file, the newest first. Files that cannot be read are left
    /// out.
    pub fn list(&self, graph: &Path) -> Vec<KeptChange> {
        let numbers = self.numbers().into_iter().rev();
        let read = |number| {
            let text = regular_file::read_to_string(&self.path(number, "json")).ok()?;
            serde_json::from_str::<KeptChange>(&text).ok()
        };
        numbers.filter_map(read).filter(|change| change.graph == graph).collect()
    }

    /// Keeps a change, whose number is set here, with the texts before and after.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn keep(&self, mut change: KeptChange, before: &str, after: &str) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        change.number = self.numbers().last().map_or(1, |last| last + 1);
        let write = |kind: &str, bytes: &[u8]| {
            state::replace(&self.path(change.number, kind), bytes, self.durable)
        };
        write("before", before.as_bytes())?;
        write("after", after.as_bytes())?;
        // The change exists once this file does.
        write("json", &serde_json::to_vec(&change)?)?;
        self.prune()
    }

    /// Returns the texts before and after a change.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn texts(&self, change: &KeptChange) -> io::Result<(String, String)> {
        let read = |kind: &str| regular_file::read_to_string(&self.path(change.number, kind));
        Ok((read("before")?, read("after")?))
    }

    /// Removes a change.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn remove(&self, number: u32) -> io::Result<()> {
        for kind in ["json", "before", "after"] {
            match fs::remove_file(self.path(number, kind)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn path(&self, number: u32, kind: &str) -> PathBuf {
        self.dir.join(format!("{number}.{kind}"))
    }

    /// The numbers in use, ascending.
    fn numbers(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".json")?.parse().ok()
        };
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Removes the oldest changes beyond the limits.
    fn prune(&self) -> io::Result<()> {
        let mut bytes = 0;
        for (at, number) in self.numbers().into_iter().rev().enumerate() {
            for kind in ["before", "after"] {
                bytes += fs::metadata(self.path(number, kind)).map_or(0, |found| found.len());
            }
            if at > 0 && (at >= KEPT || bytes > BYTES) {
                self.remove(number)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_changes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let changes = KeptChanges::of(&StateFolder::open(folder.path().to_owned(), false));
        let graph = Path::new("/g.yaml");
        assert_eq!(changes.list(graph), []);
        for n in 0..KEPT + 5 {
            let change = KeptChange {
                number: 0,
                at: DateTime::UNIX_EPOCH,
                command: format!("task-add t{n}"),
                graph: graph.to_owned(),
                tasks: Vec::new(),
                created: false,
                final_because: None,
            };
            changes.keep(change, "before", &format!("after {n}")).unwrap();
        }
        let found = changes.list(graph);
        assert_eq!(found.len(), KEPT);
        assert_eq!((found[0].number, found[0].command.as_str()), (25, "task-add t24"));
        let texts = changes.texts(&found[0]).unwrap();
        assert_eq!(texts, ("before".to_owned(), "after 24".to_owned()));
        changes.remove(25).unwrap();
        assert_eq!(changes.list(graph).len(), KEPT - 1);
        assert_eq!(changes.list(Path::new("/other.yaml")), []);
        let big = "x".repeat(usize::try_from(BYTES).unwrap());
        let change = KeptChange { command: "task-add big".to_owned(), ..found[0].clone() };
        changes.keep(change, &big, &big).unwrap();
        assert_eq!(changes.list(graph).len(), 1);
    }
}
