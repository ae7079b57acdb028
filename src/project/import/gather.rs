//! The texts of a source: a file, the files of a folder, or standard input.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{format_of, refused};
use crate::{
    core::{
        diagnostic::Diagnostic,
        import::{BacklogFormat, detect},
    },
    regular_file,
};

/// The number of files of a folder that are read.
const MOST_FILES: usize = 20_000;
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

/// Reads a source. Returns its texts, and the names of files in a folder that are no backlogs.
///
/// # Errors
/// There is no such file; it is not text; it looks like no backlog.
pub fn gather(
    root: &Path,
    path: &Path,
    format: Option<BacklogFormat>,
) -> Result<(Vec<SourceText>, Vec<String>)> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let input = std::io::stdin().lock();
        let limit = regular_file::LARGEST;
        input.take(limit).read_to_end(&mut bytes).context("read standard input")?;
        let text = utf8("standard input", bytes)?;
        let format = format_of("standard input", &text, format)?;
        let name = "stdin".to_owned();
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
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for path in files(path, 0)?.into_iter().take(MOST_FILES) {
        let name = name_of(root, &path);
        let bytes = regular_file::read(&path).with_context(|| format!("read `{name}`"))?;
        let text = utf8(&name, bytes)?;
        match format.or_else(|| detect::detect(&text)) {
            Some(format) => texts.push(SourceText { name, path: Some(path), text, format }),
            None => others.push(name),
        }
    }
    // Next to tickets, a text with checkboxes explains them.
    if format.is_none() && texts.iter().any(|text| text.format != BacklogFormat::Markdown) {
        let is_plan = |text: &SourceText| text.format == BacklogFormat::Markdown;
        others.extend(texts.iter().filter(|text| is_plan(text)).map(|text| text.name.clone()));
        texts.retain(|text| !is_plan(text));
    }
    if texts.is_empty() {
        let fault = Diagnostic::error(format!("there is no backlog in `{name}`"), 0..0);
        let help = "name a file, or `--format` if the files have an unusual form";
        return Err(refused(&name, "", &[fault.help(help)]));
    }
    others.sort();
    Ok((texts, others))
}

/// The files below a folder that may be backlogs, sorted.
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
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        // A link may lead out of the folder, or around.
        let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        if is_hidden || is_link {
            continue;
        }
        if path.is_dir() {
            if depth < DEEPEST && !SKIPPED.contains(&name.as_str()) {
                found.extend(files(&path, depth + 1)?);
            }
        } else if path.is_file() && ENDINGS.contains(&ending.to_ascii_lowercase().as_str()) {
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
