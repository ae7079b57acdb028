//! The texts of a source: a file, the files of a folder, or standard input.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{
    core::{
        diagnostic::position,
        exit::{Exit, Failure},
        import::{self, Refusal, STANDARD_INPUT, plan::SourceFile},
    },
    regular_file,
};

/// How deep folders are searched.
const DEEPEST: usize = 6;
/// The endings of names of files that may be backlogs.
const ENDINGS: [&str; 8] = ["md", "markdown", "json", "jsonl", "yaml", "yml", "csv", "tsv"];
/// Folders that contain no backlogs, and hidden ones that do.
const SKIPPED: [&str; 5] = ["node_modules", "target", "vendor", "dist", "logs"];
const HIDDEN: [&str; 2] = [".beads", ".taskmaster"];
/// Folders next to tickets whose files are no tasks.
const NO_TASKS: [&str; 2] = ["archive", "drafts"];

/// The backlogs of a source.
#[derive(Default)]
pub struct Gathered {
    /// The files that were read.
    pub files: Vec<SourceFile>,
    /// The files of a folder that are not read.
    pub skipped: Vec<SkippedFile>,
}

/// A file of a folder that is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// Its name, relative to the repository if it is inside.
    pub name: String,
    /// The reason, as a lower-case fragment.
    pub why: String,
}

/// Reads a source.
///
/// # Errors
/// There is no such file; it is not text; it has a format that is not imported.
pub fn gather(root: &Path, path: &Path) -> Result<Gathered> {
    let is_input = path.as_os_str() == "-";
    let name = if is_input { STANDARD_INPUT.to_owned() } else { name_in(root, path) };
    let reading = || format!("read `{name}`");
    if !is_input && fs::metadata(path).with_context(reading)?.is_dir() {
        return gather_folder(root, path, &name);
    }
    let mut bytes = Vec::new();
    if is_input {
        let input = std::io::stdin().lock();
        input.take(regular_file::LARGEST).read_to_end(&mut bytes).with_context(reading)?;
    } else {
        bytes = regular_file::read(path).with_context(reading)?;
    }
    let file = read(&name, bytes).map_err(|refusal| {
        let message = match refusal {
            Refusal::Foreign(what) => format!(
                "`{name}` is {what}, which is not imported; an agent reads it: `ralph draft {name}`"
            ),
            Refusal::Fault { line, column, message } => {
                format!("{name}:{line}:{column}: {message}")
            }
        };
        Failure::new(Exit::Invalid, message)
    })?;
    Ok(Gathered { files: vec![file], skipped: Vec::new() })
}

/// Reads the files of a folder.
fn gather_folder(root: &Path, folder: &Path, name: &str) -> Result<Gathered> {
    let mut gathered = Gathered::default();
    for path in files(folder, 0)? {
        let name = name_in(root, &path);
        match read_in_folder(folder, &path, &name)? {
            Ok(file) => gathered.files.push(file),
            Err(why) => gathered.skipped.push(SkippedFile { name, why }),
        }
    }
    // Next to tickets, a text with checkboxes explains them.
    let is_list = |file: &SourceFile| file.backlog.format == "markdown";
    if !gathered.files.iter().all(is_list) {
        let why = "a checklist next to other backlogs; name it alone to import it";
        let (lists, files) = gathered.files.into_iter().partition(is_list);
        gathered.files = files;
        let skipped = |file: SourceFile| SkippedFile { name: file.name, why: why.to_owned() };
        gathered.skipped.extend(Vec::into_iter(lists).map(skipped));
    }
    if gathered.files.is_empty() {
        let first = gathered.skipped.iter().find(|file| !file.why.starts_with("its ending"));
        let why = first.map_or(String::new(), |file| format!(" (`{}`: {})", file.name, file.why));
        let message = format!(
            "`{name}` has no backlog that is imported{why}; an agent reads it: `ralph draft {name}`"
        );
        return Err(Failure::new(Exit::Invalid, message).into());
    }
    Ok(gathered)
}

/// Reads a text.
fn read(name: &str, bytes: Vec<u8>) -> Result<SourceFile, Refusal> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let (line, column) = position(&String::from_utf8_lossy(before), before.len());
        let message = "the file is not UTF-8; save it as UTF-8".to_owned();
        Refusal::Fault { line, column, message }
    })?;
    Ok(SourceFile { name: name.to_owned(), backlog: import::read(name, &text)? })
}

/// Reads a file of a folder, or returns why it is not read.
fn read_in_folder(folder: &Path, path: &Path, name: &str) -> Result<Result<SourceFile, String>> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !ENDINGS.contains(&ending.to_ascii_lowercase().as_str()) {
        return Ok(Err(format!("its ending is none of {}", ENDINGS.join(", "))));
    }
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let mut folders = inside.components().filter_map(|part| part.as_os_str().to_str());
    if let Some(folder) = folders.find(|part| NO_TASKS.contains(part)) {
        return Ok(Err(format!("the files in `{folder}` are no tasks")));
    }
    let bytes = regular_file::read(path).with_context(|| format!("read `{name}`"))?;
    Ok(match read(name, bytes) {
        Ok(file) if file.backlog.tasks.is_empty() => Err("it has no tasks".to_owned()),
        Ok(file) => Ok(file),
        Err(Refusal::Foreign(what)) => Err(format!("it is {what}")),
        Err(Refusal::Fault { line, message, .. }) => Err(format!("{message} (line {line})")),
    })
}

/// The files below a folder, sorted.
fn files(folder: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let reading = || format!("read `{}`", folder.display());
    let entries = fs::read_dir(folder).with_context(reading)?;
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>().with_context(reading)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && !HIDDEN.contains(&name.as_str()) {
            continue;
        }
        // A link may lead out of the folder, or around: it is neither here.
        let kind = entry.file_type().with_context(reading)?;
        if kind.is_file() {
            found.push(entry.path());
        } else if kind.is_dir() && depth < DEEPEST && !SKIPPED.contains(&name.as_str()) {
            found.extend(files(&entry.path(), depth + 1)?);
        }
    }
    Ok(found)
}

/// The name of a file: relative to the repository if it is inside.
fn name_in(root: &Path, path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let inside = whole.strip_prefix(&root).map(Path::to_owned);
    inside.unwrap_or(whole).display().to_string()
}
