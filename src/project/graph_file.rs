//! `task-graph.yaml` on disk: read after each change, edited in place, never overwritten blindly.
//!
//! People, agents and other `ralph` processes write this file too. `ralph` processes take a lock.
//! Because the others do not, every edit is made on the current text, which is compared with the
//! file again immediately before it is replaced.

mod text;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use chrono::{DateTime, SecondsFormat, Utc};

use crate::{
    adapters::state::{self, Stamp, StateFolder},
    core::{
        diagnostic::{Diagnostic, Severity, position},
        graph::{
            TaskGraph, load,
            task::{Status, TaskId},
            yaml::Document,
        },
        select::{SelectionKey, keys},
    },
    crash, regular_file,
};

/// How long a missing or empty file is waited for, when another process may be writing it.
const ABSENT: Duration = Duration::from_millis(700);

/// The file as it was last read or written.
#[derive(Debug)]
pub struct GraphFile {
    path: PathBuf,
    name: String,
    /// None if the text in memory may differ from the file.
    stamp: Option<Stamp>,
    document: Document,
    graph: TaskGraph,
    keys: Vec<SelectionKey>,
    warnings: Vec<Diagnostic>,
}

/// A change of a status by a person, an agent or another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The task.
    pub task_id: TaskId,
    /// The status before; none for a new task.
    pub old: Option<Status>,
    /// The status after; none for a removed task.
    pub new: Option<Status>,
}

/// The result of writing a status.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The statuses that others have changed since the file was last read.
    pub foreign: Vec<Foreign>,
    /// The status of the task just before; none if the task was removed.
    pub old: Option<Status>,
    /// Whether the file has the status: not if the task was removed, or can no longer start when
    /// claimed.
    pub is_written: bool,
}

/// The result of an edit of the whole text.
#[derive(Debug)]
pub struct EditedText {
    /// The statuses that the edit changed; none if it left the text as it was.
    pub own: Option<Vec<Foreign>>,
    /// The statuses that others changed before.
    pub foreign: Vec<Foreign>,
}

/// The reason why a file is not a valid graph.
#[derive(Debug)]
pub struct Rejected {
    /// The displayed name of the file.
    pub name: String,
    /// Its text, as far as it was read.
    pub text: String,
    /// The errors and warnings.
    pub faults: Vec<Diagnostic>,
}

impl Rejected {
    /// Returns the first error as one line, with its location.
    pub fn summary(&self) -> String {
        let worst = self.faults.iter().find(|fault| fault.severity == Severity::Error);
        let Some(fault) = worst.or(self.faults.first()) else {
            return format!("{}: unreadable", self.name);
        };
        let (line, column) = position(&self.text, fault.at.start);
        format!("{}:{line}:{column}: {}", self.name, fault.message)
    }
}

/// A status to write, with the fields that belong to it.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Claimed.
    Claim {
        /// When (RFC 3339).
        at: &'a str,
        /// Who claims it.
        by: &'a str,
    },
    /// Complete.
    Complete {
        /// When (RFC 3339).
        at: &'a str,
    },
    /// Any other status. It ends a claim or a completion.
    Plain(Status),
    /// Pending, as the file had it before a claim: the word, or none for a task without a status.
    Restored(Option<&'a str>),
}

impl Write<'_> {
    /// Returns the status to write.
    pub fn status(self) -> Status {
        match self {
            Write::Claim { .. } => Status::InProgress,
            Write::Complete { .. } => Status::Complete,
            Write::Plain(status) => status,
            Write::Restored(_) => Status::Pending,
        }
    }
}

impl GraphFile {
    /// Reads the file. `name` is its name in messages.
    ///
    /// # Errors
    /// The errors in the file.
    pub fn read(path: &Path, name: &str) -> Result<GraphFile, Box<Rejected>> {
        let (stamp, text) = text::read_text(path, name)?;
        let file = GraphFile::assume(path, name, &text)?;
        Ok(GraphFile { stamp: Some(stamp), ..file })
    }

    /// Makes the file from this text. The next refresh reads the real one.
    ///
    /// # Errors
    /// The errors in the text.
    pub fn assume(path: &Path, name: &str, text: &str) -> Result<GraphFile, Box<Rejected>> {
        let rejected = |text: &str, faults| {
            Box::new(Rejected { name: name.to_owned(), text: text.to_owned(), faults })
        };
        let (document, loaded) = load::read(text).map_err(|faults| rejected(text, faults))?;
        Ok(GraphFile {
            path: path.to_owned(),
            name: name.to_owned(),
            stamp: None,
            keys: keys(&loaded.graph),
            graph: loaded.graph,
            warnings: loaded.warnings,
            document,
        })
    }

    /// Returns the same file as if it had this text.
    ///
    /// # Errors
    /// The errors in the text.
    pub fn with_text(&self, text: &str) -> Result<GraphFile, Box<Rejected>> {
        GraphFile::assume(&self.path, &self.name, text)
    }

    /// Returns the statuses that differ from those of another version.
    pub fn changes_since(&self, before: &GraphFile) -> Vec<Foreign> {
        differences(&before.graph, &self.graph)
    }

    /// The graph.
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// The keys of all tasks.
    pub fn keys(&self) -> &[SelectionKey] {
        &self.keys
    }

    /// The warnings about the file.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The text with its tree, as it was last read or written.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The text as it was last read or written.
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// The line on which a task begins.
    pub fn line_of(&self, number: usize) -> usize {
        let at = load::task_node(&self.document, number).map_or(0, |task| task.range().start);
        position(self.text(), at).0
    }

    /// The name of the file in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the file has changed since it was last read.
    pub fn has_changed(&self) -> bool {
        self.stamp.is_none() || state::stamp(&self.path).ok() != self.stamp
    }

    /// Reads the file again if it has changed. Returns the changed statuses; none if the file is
    /// unchanged.
    ///
    /// # Errors
    /// The errors in the file. The last valid graph is kept.
    pub fn refresh(&mut self, state: &StateFolder) -> Result<Option<Vec<Foreign>>, Box<Rejected>> {
        if !self.has_changed() {
            return Ok(None);
        }
        let _turn = state.lock_graph();
        self.reread()
    }

    fn reread(&mut self) -> Result<Option<Vec<Foreign>>, Box<Rejected>> {
        if !self.has_changed() {
            return Ok(None);
        }
        // Git and some editors remove the file and write it again.
        regular_file::wait_for_text(&self.path, ABSENT);
        let fresh = GraphFile::read(&self.path, &self.name)?;
        let changes = differences(&self.graph, &fresh.graph);
        *self = fresh;
        Ok(Some(changes))
    }

    /// Writes the status of a task in place.
    ///
    /// # Errors
    /// [`Rejected`] as the cause if the file has become invalid; otherwise the error of the edit or
    /// of the disk.
    pub fn write(&mut self, state: &StateFolder, id: &TaskId, write: Write<'_>) -> Result<Written> {
        let _turn = state.lock_graph().context("lock the graph file")?;
        crash::point("graph.locked");
        let mut foreign = Vec::new();
        loop {
            if !crate::core::known_bug::is_on("overwrite-the-graph") {
                let reread = self.reread().map_err(|rejected| anyhow!(*rejected))?;
                foreign.extend(reread.unwrap_or_default());
            }
            let number = self.graph.number(id);
            let old = number.map(|number| self.graph.task(number).status);
            let Some(number) =
                number.filter(|it| !matches!(write, Write::Claim { .. }) || self.may_start(*it))
            else {
                return Ok(Written { foreign, old, is_written: false });
            };
            if self.has(number, write) {
                return Ok(Written { foreign, old, is_written: true });
            }
            self.splice(number, write)
                .with_context(|| format!("edit the status of `{id}` in `{}`", self.name))?;
            // If the edit does not reach the disk, the file must be read again.
            let seen = self.stamp.take();
            if state::stamp(&self.path).ok() != seen
                && !crate::core::known_bug::is_on("overwrite-the-graph")
            {
                continue;
            }
            crash::point("graph.edited");
            state::replace(&self.path, self.document.text().as_bytes())
                .with_context(|| format!("write `{}`", self.name))?;
            crash::point("graph.written");
            self.stamp = state::stamp(&self.path).ok();
            self.follow(number, write);
            return Ok(Written { foreign, old, is_written: true });
        }
    }

    /// Replaces the text by the result of `edit`, which gets the current file. Nothing is written if
    /// the edit changes nothing.
    ///
    /// # Errors
    /// The error of the edit; [`Rejected`] for an edit that makes the graph invalid. The file is then
    /// unchanged. Errors of the disk.
    pub fn edit_text(
        &mut self,
        state: &StateFolder,
        edit: impl Fn(&GraphFile) -> Result<Option<String>>,
    ) -> Result<EditedText> {
        let _turn = state.lock_graph().context("lock the graph file")?;
        let mut foreign = Vec::new();
        loop {
            foreign
                .extend(self.reread().map_err(|rejected| anyhow!(*rejected))?.unwrap_or_default());
            let Some(text) = edit(self)?.filter(|text| text != self.text()) else {
                return Ok(EditedText { own: None, foreign });
            };
            let name = format!("{}, with this change", self.name);
            let edited = GraphFile::assume(&self.path, &name, &text)
                .map_err(|rejected| anyhow!(*rejected))?;
            if state::stamp(&self.path).ok() != self.stamp {
                self.stamp = None;
                continue;
            }
            state::replace(&self.path, text.as_bytes())
                .with_context(|| format!("write `{}`", self.name))?;
            let own = Some(differences(&self.graph, &edited.graph));
            let (stamp, name) = (state::stamp(&self.path).ok(), self.name.clone());
            *self = GraphFile { name, stamp, ..edited };
            return Ok(EditedText { own, foreign });
        }
    }

    /// Restores the file if a special file is in its place: no editor does that. Returns the new
    /// path of the special file, if any.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn restore_special(&mut self, state: &StateFolder) -> Result<Option<PathBuf>> {
        if !regular_file::is_special(&self.path) {
            return Ok(None);
        }
        let _turn = state.lock_graph().context("lock the graph file")?;
        let aside = regular_file::set_aside(&self.path, &state.dir().join("damaged"))
            .with_context(|| format!("keep `{}` aside", self.name))?;
        state::replace(&self.path, self.text().as_bytes())
            .with_context(|| format!("write `{}`", self.name))?;
        *self = GraphFile::read(&self.path, &self.name).map_err(|rejected| anyhow!(*rejected))?;
        Ok(aside)
    }

    /// Replaces the file by a valid text, and saves its current text as the file `aside`. Returns
    /// whether there was a text to save.
    ///
    /// # Errors
    /// Errors of the disk; a text that is not a valid graph.
    pub fn put_back(&mut self, state: &StateFolder, text: &str, aside: &Path) -> Result<bool> {
        let _turn = state.lock_graph().context("lock the graph file")?;
        let kept = match regular_file::copy(&self.path, aside) {
            Ok(()) => true,
            Err(error) if !self.path.exists() && error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                return Err(error).with_context(|| format!("keep `{}` aside", self.name));
            }
        };
        crash::point("graph.kept");
        state::replace(&self.path, text.as_bytes())
            .with_context(|| format!("write `{}`", self.name))?;
        crash::point("graph.restored");
        *self = GraphFile::read(&self.path, &self.name).map_err(|rejected| anyhow!(*rejected))?;
        Ok(kept)
    }

    /// Whether a task is neither at work, nor over, nor waiting on another.
    pub fn may_start(&self, number: usize) -> bool {
        self.graph.task(number).status == Status::Pending && !self.graph.is_waiting(number)
    }

    /// Whether a landing has written this already.
    fn has(&self, number: usize, write: Write<'_>) -> bool {
        let task = self.graph.task(number);
        matches!(write, Write::Complete { .. })
            && task.status == Status::Complete
            && task.claimed_at.is_none()
            && self.stamp.is_some()
    }

    /// Takes a status over into the graph, and not into the text.
    pub fn follow(&mut self, number: usize, write: Write<'_>) {
        self.graph.set_status(number, write.status());
        match write {
            Write::Claim { at, by } => {
                self.graph.set_claim(number, Some(at.to_owned()), Some(by.to_owned()));
            }
            Write::Complete { .. } | Write::Plain(_) | Write::Restored(_) => {
                self.graph.set_claim(number, None, None);
            }
        }
    }
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.summary())
    }
}

impl std::error::Error for Rejected {}

/// Returns a time in the format of the file: RFC 3339, to the second.
pub fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns a text with the status of a task; none if the task is not in it.
///
/// # Errors
/// The text is not a valid graph, or its layout does not allow the edit.
pub fn with_status(text: &str, id: &TaskId, write: Write<'_>) -> Result<Option<String>> {
    /// The last result: each piece of work lands on the text of the one before.
    static LAST: Mutex<Option<GraphFile>> = Mutex::new(None);
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let read = || {
        let file = GraphFile::assume(Path::new(""), "the graph", text);
        file.map_err(|rejected| anyhow!(*rejected))
    };
    let known = last().take_if(|last| last.text() == text);
    let mut file = known.map_or_else(read, Ok)?;
    let Some(number) = file.graph.number(id) else {
        return Ok(None);
    };
    file.splice(number, write)?;
    file.follow(number, write);
    let text = file.text().to_owned();
    *last() = Some(file);
    Ok(Some(text))
}

fn differences(old: &TaskGraph, new: &TaskGraph) -> Vec<Foreign> {
    let mut changes = Vec::new();
    for task in new.tasks() {
        let before = old.number(&task.id).map(|number| old.task(number).status);
        if before != Some(task.status) {
            changes.push(Foreign { task_id: task.id.clone(), old: before, new: Some(task.status) });
        }
    }
    for task in old.tasks() {
        if new.number(&task.id).is_none() {
            changes.push(Foreign { task_id: task.id.clone(), old: Some(task.status), new: None });
        }
    }
    changes
}

/// Reads a graph from a text; none if the text is not a valid graph.
pub fn graph_of(bytes: &[u8]) -> Option<TaskGraph> {
    let (_, loaded) = load::read(std::str::from_utf8(bytes).ok()?).ok()?;
    Some(loaded.graph)
}

/// Reads a graph from a text. `name` is its name in the message.
///
/// # Errors
/// The first error in the text, with its location.
pub fn read_graph(name: &str, text: &str) -> Result<TaskGraph, String> {
    let file = GraphFile::assume(Path::new(name), name, text);
    file.map(|file| file.graph).map_err(|rejected| rejected.summary())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = "tasks:\n  - id: a\n    status: todo # mine\n  - {id: b, title: B}\n";

    fn open(dir: &Path) -> (StateFolder, PathBuf, GraphFile) {
        let path = dir.join("g.yaml");
        fs::write(&path, TEXT).unwrap();
        let state = StateFolder::open(dir.join("ralph"));
        let file = GraphFile::read(&path, "g.yaml").unwrap();
        (state, path, file)
    }

    #[test]
    fn a_claim_comes_and_goes_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let (state, path, mut file) = open(dir.path());
        for id in ["a", "b"] {
            let id = TaskId::new(id).unwrap();
            let claim = Write::Claim { at: "2026-11-20T22:44:03Z", by: "me" };
            let written = file.write(&state, &id, claim).unwrap();
            assert!(written.is_written && written.foreign.is_empty(), "{written:?}");
            assert!(file.graph().task(file.graph().number(&id).unwrap()).claimed_at.is_some());
            file.write(&state, &id, Write::Plain(Status::Pending)).unwrap();
        }
        let want = TEXT.replace("{id: b, title: B}", "{id: b, status: todo, title: B}");
        assert_eq!(fs::read_to_string(&path).unwrap(), want);
        assert!(file.reread().unwrap().is_none(), "our own writes are no news");
    }

    #[test]
    fn what_others_write_is_kept_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let (state, path, mut file) = open(dir.path());
        let edited = TEXT.replace("todo", "blocked") + "  - id: c # new\n";
        fs::write(&path, &edited).unwrap();
        let (b, at) = (TaskId::new("b").unwrap(), "2026-11-20T22:44:03Z");
        let Written { foreign, old, .. } = file.write(&state, &b, Write::Complete { at }).unwrap();
        assert_eq!(old, Some(Status::Pending));
        let change = |id: &str, old, new| Foreign { task_id: TaskId::new(id).unwrap(), old, new };
        assert_eq!(
            foreign,
            [
                change("a", Some(Status::Pending), Some(Status::Blocked)),
                change("c", None, Some(Status::Pending)),
            ]
        );
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("status: blocked # mine") && text.contains("- id: c # new"),
            "{text}"
        );

        fs::write(&path, "tasks: [").unwrap();
        let refused = file.write(&state, &b, Write::Plain(Status::Pending)).unwrap_err();
        assert!(refused.downcast_ref::<Rejected>().is_some(), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "tasks: [");
        assert_eq!(file.graph().tasks().len(), 3, "the last good graph is kept");
    }

    #[test]
    fn a_task_that_others_took_is_not_claimed() {
        let dir = tempfile::tempdir().unwrap();
        let (state, path, mut file) = open(dir.path());
        let a = TaskId::new("a").unwrap();
        let claim = Write::Claim { at: "2026-11-20T22:44:03Z", by: "me" };
        for text in [
            TEXT.replace("todo", "blocked"),
            TEXT.replace("todo", "done"),
            TEXT.replace("id: a", "id: other"),
            TEXT.replace("id: a", "id: a\n    depends_on: [b]"),
        ] {
            fs::write(&path, &text).unwrap();
            let Written { foreign, old, is_written } = file.write(&state, &a, claim).unwrap();
            assert!(!is_written, "{text}");
            let now = graph_of(text.as_bytes()).unwrap();
            assert_eq!(old, now.status_of(&a), "as it was under the lock");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            if text.contains("id: other") {
                let write = Write::Plain(Status::Blocked);
                let written = file.write(&state, &a, write).unwrap();
                assert_eq!(written, Written { foreign: vec![], old: None, is_written: false });
            }
            let is_new_edge = text.contains("depends_on: [b]");
            assert!(foreign.iter().any(|change| change.task_id == a) || is_new_edge, "{text}");
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_is_refused_or_says_which_tasks_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path, mut file) = open(dir.path());
        let whole = "tasks:\n  - id: one\n    status: todo\n  - id: two\n    depends_on: [one]\n\
                     \x20 - {id: three, title: \u{e9}}\n";
        for cut in 0..whole.len() {
            fs::write(&path, whole).unwrap();
            file.stamp = None;
            file.reread().unwrap();
            fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            file.stamp = None;
            let Ok(changes) = file.reread() else {
                assert_eq!(file.text(), whole, "the last good one is kept: cut at {cut}");
                continue;
            };
            let gone = changes.unwrap().into_iter().filter(|change| change.new.is_none());
            let gone: Vec<String> = gone.map(|change| change.task_id.to_string()).collect();
            let left = |id: &str| file.graph().number(&TaskId::new(id).unwrap()).is_some();
            for id in ["one", "two", "three"] {
                assert!(left(id) != gone.contains(&id.to_owned()), "{id} at {cut}: {gone:?}");
            }
            assert!(!file.graph().tasks().is_empty(), "cut at {cut}");
        }
    }

    #[test]
    fn unreadable_files_say_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        let summary = || GraphFile::read(&path, "g.yaml").unwrap_err().summary();
        assert_eq!(summary(), "g.yaml:1:1: there is no `g.yaml`");
        fs::write(&path, b"tasks:\n  - id: a\xff\n").unwrap();
        assert_eq!(summary(), "g.yaml:2:10: the file is not UTF-8");
        fs::File::create(&path).unwrap().set_len(200 << 20).unwrap();
        assert!(summary().contains("200 MiB long; the limit is 64 MiB"));
    }
}
