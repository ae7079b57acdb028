//! The texts of a source: a file, the files of a folder, or standard input.

use std::{
    fmt::Write as _,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{format_of, refused};
use crate::{
    core::{
        diagnostic::Diagnostic,
        import::{self, BacklogFormat, STANDARD_INPUT},
    },
    regular_file,
};

/// The number of files of a folder that are read.
const MOST_FILES: usize = 20_000;
/// The number of files that an error names.
const SHOWN: usize = 10;
/// How deep folders are searched.
const DEEPEST: usize = 6;
/// The endings of names of files that may be backlogs.
const ENDINGS: [&str; 8] = ["md", "markdown", "json", "jsonl", "yaml", "yml", "csv", "tsv"];
/// Folders that contain no backlogs.
const SKIPPED: [&str; 5] = ["node_modules", "target", "vendor", "dist", "logs"];

/// A text that may be a backlog.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// Its name in messages and in `source:`: relative to the repository if it is inside.
    pub name: String,
    /// Its path; none for standard input.
    pub path: Option<PathBuf>,
    /// The text.
    pub text: String,
    /// The format.
    pub format: BacklogFormat,
}

/// A file of a folder that is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// Its name, as in [`SourceText`].
    pub name: String,
    /// The reason, as a lower-case fragment.
    pub why: String,
}

/// Reads a source. Returns its texts, and the files of a folder that are not read.
///
/// # Errors
/// There is no such file; it is not text; it looks like no backlog.
pub fn gather(
    root: &Path,
    path: &Path,
    format: Option<BacklogFormat>,
) -> Result<(Vec<SourceText>, Vec<SkippedFile>)> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let input = std::io::stdin().lock();
        let limit = regular_file::LARGEST;
        input.take(limit).read_to_end(&mut bytes).context("read standard input")?;
        let text = utf8("standard input", bytes)?;
        let format = format_of("standard input", &text, format)?;
        let name = STANDARD_INPUT.to_owned();
        return Ok((vec![SourceText { name, path: None, text, format }], Vec::new()));
    }
    let name = name_of(root, path);
    let found = fs::metadata(path).with_context(|| format!("read `{name}`"))?;
    if !found.is_dir() {
        let bytes = regular_file::read(path).with_context(|| format!("read `{name}`"))?;
        let text = utf8(&name, bytes)?;
        let format = format_of(&name, &text, format)?;
        let text = SourceText { name, path: Some(path.to_owned()), text, format };
        return Ok((vec![text], Vec::new()));
    }
    let (texts, skipped) = gather_folder(root, path, format)?;
    if texts.is_empty() {
        let fault = Diagnostic::error(format!("there is no backlog in `{name}`"), 0..0);
        let mut help = "name a file, or `--format` if the files have an unusual form".to_owned();
        for file in skipped.iter().take(SHOWN) {
            let _ = write!(help, "\n`{}` is not read: {}", file.name.escape_debug(), file.why);
        }
        return Err(refused(&name, "", &[fault.help(help)]));
    }
    Ok((texts, skipped))
}

/// Reads the files of a folder. Returns the texts of those that are backlogs, and the other files.
///
/// # Errors
/// Errors of the disk.
fn gather_folder(
    root: &Path,
    path: &Path,
    format: Option<BacklogFormat>,
) -> Result<(Vec<SourceText>, Vec<SkippedFile>)> {
    let (mut texts, mut skipped) = (Vec::new(), Vec::new());
    for path in files(path, 0)?.into_iter().take(MOST_FILES) {
        let name = name_of(root, &path);
        match in_folder(&path, &name, format)? {
            Ok((text, format)) => texts.push(SourceText { name, path: Some(path), text, format }),
            Err(why) => skipped.push(SkippedFile { name, why }),
        }
    }
    // Next to tickets, a text with checkboxes explains them.
    if format.is_none() && texts.iter().any(|text| text.format != BacklogFormat::Markdown) {
        let is_plan = |text: &SourceText| text.format == BacklogFormat::Markdown;
        let why = "a plan next to other backlogs; name it alone to import it";
        skipped.extend(
            texts
                .iter()
                .filter(|text| is_plan(text))
                .map(|text| SkippedFile { name: text.name.clone(), why: why.to_owned() }),
        );
        texts.retain(|text| !is_plan(text));
    }
    skipped.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((texts, skipped))
}

/// Reads a file of a folder: its text and its format, or why it is not read.
///
/// # Errors
/// Errors of the disk.
fn in_folder(
    path: &Path,
    name: &str,
    format: Option<BacklogFormat>,
) -> Result<Result<(String, BacklogFormat), String>> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !ENDINGS.contains(&ending.to_ascii_lowercase().as_str()) {
        return Ok(Err(format!("the ending is none of {}", ENDINGS.join(", "))));
    }
    let bytes = regular_file::read(path).with_context(|| format!("read `{name}`"))?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(Err("it is not UTF-8".to_owned()));
    };
    let detected = import::detect(&text);
    let Some(wanted) = format.or(detected) else { return Ok(Err(import::why_not(&text))) };
    Ok(match import::read(wanted, name, &text) {
        Ok(backlog) if backlog.tasks.is_empty() => Err("it has no tasks".to_owned()),
        // The errors in a file that was meant to be read are shown with their places.
        Err(faults) if detected != Some(wanted) => Err(faults[0].message.clone()),
        Ok(_) | Err(_) => Ok((text, wanted)),
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
        let is_hidden =
            name.starts_with('.') && ![".beads", ".taskmaster"].contains(&name.as_str());
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
pub fn name_of(root: &Path, path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let inside = whole.strip_prefix(&root).map(Path::to_owned);
    inside.unwrap_or(whole).display().to_string()
}

fn utf8(name: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.into_bytes()).into_owned();
        let fault = Diagnostic::error("the file is not UTF-8", at..at + '\u{fffd}'.len_utf8());
        refused(name, &text, &[fault.help("save it as UTF-8; nothing was changed")])
    })
}
