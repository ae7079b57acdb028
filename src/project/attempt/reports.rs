//! The report folder of an attempt's agent: its `DONE`, its questions, its notes.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{AttemptRecord, CONFLICT, VERIFY_TAIL};
use crate::{
    adapters::machine,
    core::{
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::TaskHistory,
        loop_paths::{DONE, NOTES, REPORTS, WAIT},
        prompt::{self, PromptAppendix},
        verdict::Merge,
    },
    project::workspace::Workspace,
    regular_file::{self, FileBelow},
};

/// The length limit of the questions of an attempt, in characters.
pub const QUESTION: usize = 2000;

/// Returns the report folder of the next attempt at a task, relative to the repository. Other
/// attempts do not know its name, so that none can speak for it. A plain loop, with one attempt at
/// a time, has one folder that people use as well.
///
/// # Errors
/// There are no random numbers.
pub fn new_folder(workspace: &Workspace, id: &TaskId) -> Result<String> {
    /// The random digits.
    const DIGITS: usize = 16;
    let task = workspace.task_dir(id);
    if workspace.place.name().is_some() {
        return Ok(task);
    }
    let token = machine::token().context("choose the name of a folder")?;
    Ok(format!("{task}/{}", &token[..DIGITS]))
}

/// Moves the files of one folder to another. Notes are appended to existing ones; another existing
/// file stays, and so does its source.
///
/// # Errors
/// Errors of the disk.
fn move_files(workspace: &Workspace, from: &str, to: &str) -> Result<()> {
    let root = workspace.root();
    let (source, target) = (root.join(from), root.join(to));
    // An agent may have put a link in its place.
    if !fs::symlink_metadata(&source).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let failed = || format!("move the files of `{from}` to `{to}`");
    for entry in fs::read_dir(&source).with_context(failed)? {
        let name = entry.with_context(failed)?.file_name();
        let (old, new) = (source.join(&name), target.join(&name));
        if old == target {
            continue;
        }
        if fs::symlink_metadata(&new).is_err() {
            fs::rename(&old, &new).with_context(failed)?;
        } else if name == NOTES {
            let file = |folder: &str| FileBelow::of(root, &Path::new(folder).join(NOTES));
            // Non-text files stay in place.
            let text = |folder| file(folder)?.read_to_string();
            if let (Ok(Some(first)), Ok(Some(second))) = (text(to), text(from)) {
                let joined = [first.trim_end(), second.trim_end()].join("\n\n") + "\n";
                file(to).and_then(|file| file.replace(&joined)).with_context(failed)?;
                fs::remove_file(&old).with_context(failed)?;
            }
        }
    }
    Ok(())
}

/// Removes the reports and questions that are there before an attempt. Returns the path of a `DONE`
/// that was removed, relative to the repository: reports of attempts are removed at their end.
///
/// # Errors
/// Errors of the disk.
pub fn clear_reports(workspace: &Workspace, id: &TaskId) -> Result<Option<String>> {
    let name = |name: &str| format!("{}/{name}", workspace.task_dir(id));
    let remove = |name: &str| {
        let path = workspace.root().join(name);
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        let removed = if is_folder { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        match removed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // A person or the next agent has to look at it.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error).with_context(|| format!("remove `{}`", path.display())),
        }
    };
    remove(&name(WAIT))?;
    // A plain loop has already checked for `DONE`; a file that is there now is newer and counts.
    let is_meant =
        workspace.place.name().is_some() || crate::core::known_bug::is_on("believe-an-old-report");
    Ok(if !is_meant && remove(&name(DONE))? { Some(name(DONE)) } else { None })
}

/// Returns the path of the file that reports a task done.
pub fn done_file(workspace: &Workspace, id: &TaskId) -> PathBuf {
    workspace.root().join(workspace.task_dir(id)).join(DONE)
}

impl AttemptRecord {
    /// The folder for its agent's reports, relative to the repository.
    pub fn folder(&self, workspace: &Workspace) -> String {
        self.folder.clone().unwrap_or_else(|| workspace.task_dir(&self.task_id))
    }

    /// Moves the files of its task to its own folder.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn take_files(&self, workspace: &Workspace) -> Result<()> {
        let (own, task) = (self.folder(workspace), workspace.task_dir(&self.task_id));
        if own == task {
            return Ok(());
        }
        move_files(workspace, &task, &own)
    }

    /// Moves the files of its own folder to that of its task, where people and later attempts find
    /// them. Its `DONE` has been judged.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn return_files(&self, workspace: &Workspace) -> Result<()> {
        let (own, task) = (self.folder(workspace), workspace.task_dir(&self.task_id));
        if own == task {
            return Ok(());
        }
        let root = workspace.root();
        let reports = [root.join(&own), root.join(&task)].map(|folder| folder.join(DONE));
        for file in reports.iter().filter(|file| file.is_file()) {
            fs::remove_file(file).with_context(|| format!("remove `{}`", file.display()))?;
        }
        move_files(workspace, &own, &task)?;
        // Only if empty: unmoved files are kept.
        let _ = fs::remove_dir(root.join(&own));
        if let Some(slot) = &self.slot {
            let folder = slot.path.join(&own);
            for name in REPORTS {
                let _ = fs::remove_file(folder.join(name));
            }
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Returns the path of a file with which the agent reports. An agent in a slot may have taken the
    /// folder for one of its own copy, as one behind a worker has to.
    pub(super) fn report_file(&self, workspace: &Workspace, name: &str) -> PathBuf {
        let folders = [self.folder(workspace), workspace.task_dir(&self.task_id)];
        let own = workspace.root().join(&folders[0]).join(name);
        if own.exists() {
            return own;
        }
        let slot = self.slot.as_ref().map(|slot| &slot.path);
        let in_slot = |slot: &PathBuf| {
            let files = folders.iter().map(|folder| slot.join(folder).join(name));
            files.into_iter().find(|path| path.exists())
        };
        slot.and_then(in_slot).unwrap_or(own)
    }

    /// Removes the reports of earlier attempts at the task in the slot.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn clear_slot_reports(&self, workspace: &Workspace) -> Result<()> {
        let Some(slot) = &self.slot else {
            return Ok(());
        };
        for name in [DONE, WAIT] {
            let path = slot.path.join(workspace.task_dir(&self.task_id)).join(name);
            if path.is_file() {
                fs::remove_file(&path).with_context(|| format!("remove `{}`", path.display()))?;
            }
        }
        Ok(())
    }

    /// Removes its completion reports, since its agent continues.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn withdraw_report(&self, workspace: &Workspace) -> Result<()> {
        while self.has_done_file(workspace) {
            let path = self.report_file(workspace, DONE);
            fs::remove_file(&path).with_context(|| format!("remove `{}`", path.display()))?;
        }
        Ok(())
    }

    /// Whether the file `DONE` reports the task done.
    pub fn has_done_file(&self, workspace: &Workspace) -> bool {
        self.report_file(workspace, DONE).is_file()
    }
}

/// Returns the content of the question file, or `None` without that file.
pub(super) fn question(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = Vec::new();
    // A character takes four bytes at most. An unreadable file still counts as a question.
    let file = path
        .parent()
        .map_or_else(|| regular_file::open(path), |folder| regular_file::open_within(folder, path));
    let file = file.map(|file| file.take(4 * QUESTION as u64));
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    Some(String::from_utf8_lossy(&text).trim().chars().take(QUESTION).collect())
}

// The prompt of a plain loop: the prompt file, plus the answers and failures that its agent could
// not know otherwise.

/// Reads the prompt file at `path`; errors call it `name`.
///
/// # Errors
/// The file does not exist or cannot be read.
pub fn read_prompt(path: &Path, name: &Path) -> Result<String> {
    let name = name.display();
    regular_file::read_to_string(path).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => format!("prompt file not found: `{name}`"),
            io::ErrorKind::InvalidData => format!("cannot read prompt file: `{name}`: not UTF-8"),
            _ => format!("cannot read prompt file: `{name}`: {error}"),
        };
        Failure::new(Exit::Error, why).into()
    })
}

/// Returns the prompt of the next iteration: the file, then facts unknown to its agent.
///
/// # Errors
/// Errors of [`read_prompt`].
pub fn loop_prompt(workspace: &Workspace, path: &Path, past: &TaskHistory) -> Result<String> {
    let text = read_prompt(path, path.strip_prefix(workspace.root()).unwrap_or(path))?;
    let last = past.last.as_ref().map(|last| &last.ended);
    let tail = |path: &str| {
        let output = regular_file::read(&workspace.root().join(path)).unwrap_or_default();
        prompt::tail(&String::from_utf8_lossy(&output), VERIFY_TAIL).trim().to_owned()
    };
    let red = last.and_then(|last| last.evidence.red());
    let conflict = last.and_then(|last| match &last.evidence.merge {
        Some(Merge::Conflict { paths, .. }) => {
            Some((paths.as_slice(), tail(&format!("{}/{CONFLICT}", last.log))))
        }
        Some(
            Merge::Landed { .. }
            | Merge::Red { .. }
            | Merge::RedBase { .. }
            | Merge::Refused { .. },
        )
        | None => None,
    });
    let more = PromptAppendix {
        answers: &past.answers,
        left: past.left.as_deref().filter(|_| workspace.config.continues_work()),
        conflict,
        red: red.map(|check| (check, tail(&check.log))),
    };
    Ok(text + &prompt::appendix(&more))
}
