//! The texts of a source: a file, the files of a folder, or standard input.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::refused;
use crate::{
    core::{
        diagnostic::{Diagnostic, position},
        exit::{Exit, Failure},
        import::{self, Refusal, STANDARD_INPUT, plan::SourceFile},
    },
    regular_file,
};

/// The number of files of a folder that are read.
const MOST_FILES: usize = 20_000;
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
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let input = std::io::stdin().lock();
        input.take(regular_file::LARGEST).read_to_end(&mut bytes).context("read standard input")?;
        return Ok(Gathered { files: vec![read(STANDARD_INPUT, bytes)?], skipped: Vec::new() });
    }
    let name = name_of(root, path);
    let found = fs::metadata(path).with_context(|| format!("read `{name}`"))?;
    if !found.is_dir() {
        let bytes = regular_file::read(path).with_context(|| format!("read `{name}`"))?;
        return Ok(Gathered { files: vec![read(&name, bytes)?], skipped: Vec::new() });
    }
    let mut gathered = Gathered::default();
    for file in files(path, 0)?.into_iter().take(MOST_FILES) {
        let name = name_of(root, &file);
        match read_in_folder(path, &file, &name)? {
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
fn read(name: &str, bytes: Vec<u8>) -> Result<SourceFile> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let fault = Diagnostic::error("the file is not UTF-8", at..at + '\u{fffd}'.len_utf8());
        refused(name, &text, &Refusal::from(fault.help("save it as UTF-8")))
    })?;
    let backlog = import::read(name, &text).map_err(|refusal| refused(name, &text, &refusal))?;
    Ok(SourceFile { name: name.to_owned(), backlog })
}

/// Reads a file of a folder, or returns why it is not read. Its own errors are shown with their
/// places.
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
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(Err("it is not UTF-8".to_owned()));
    };
    Ok(match import::read(name, &text) {
        Ok(backlog) if backlog.tasks.is_empty() => Err("it has no tasks".to_owned()),
        Ok(backlog) => Ok(SourceFile { name: name.to_owned(), backlog }),
        Err(Refusal::Foreign(what)) => Err(format!("it is {what}")),
        Err(Refusal::Fault(fault)) => {
            let (line, _) = position(&text, fault.at.start);
            Err(format!("{} (line {line})", fault.message))
        }
    })
}

/// The files below a folder, sorted.
fn files(folder: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read `{}`", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .with_context(|| format!("read `{}`", folder.display()))?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && !HIDDEN.contains(&name.as_str());
        // A link may lead out of the folder, or around.
        let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        if is_hidden || is_link {
            continue;
        }
        if path.is_dir() {
            if depth < DEEPEST && !SKIPPED.contains(&name.as_str()) {
                found.extend(files(&path, depth + 1)?);
            }
        } else if path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

/// The name of a file: relative to the repository if it is inside.
fn name_of(root: &Path, path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let inside = whole.strip_prefix(&root).map(Path::to_owned);
    inside.unwrap_or(whole).display().to_string()
}
