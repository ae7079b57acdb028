//! The prompt of a plain loop: the prompt file, plus the answers and failures that its agent could
//! not know otherwise.

use std::{fs, io, path::Path};

use anyhow::Result;

use super::VERIFY_TAIL;
use crate::{
    core::{
        exit::{Exit, Failure},
        history::TaskHistory,
        prompt,
    },
    project::workspace::Workspace,
};

/// Reads the prompt file at `path`; errors call it `name`.
///
/// # Errors
/// The file does not exist or cannot be read.
pub fn read(path: &Path, name: &Path) -> Result<String> {
    let name = name.display();
    fs::read_to_string(path).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => format!("prompt file not found: `{name}`"),
            io::ErrorKind::InvalidData => format!("cannot read prompt file: `{name}`: not UTF-8"),
            _ => format!("cannot read prompt file: `{name}`: {error}"),
        };
        Failure::new(Exit::Error, why).into()
    })
}

/// Returns the prompt of the next iteration: the file, then the answers of people, then the verify
/// command that failed, if any.
///
/// # Errors
/// Errors of [`read`].
pub fn prompt(workspace: &Workspace, path: &Path, past: &TaskHistory) -> Result<String> {
    let text = read(path, path.strip_prefix(workspace.root()).unwrap_or(path))?;
    let red = past.last.as_ref().and_then(|last| last.ended.evidence.red());
    let red = red.map(|check| {
        let output = fs::read(workspace.root().join(&check.log)).unwrap_or_default();
        let output = prompt::tail(&String::from_utf8_lossy(&output), VERIFY_TAIL).trim().to_owned();
        (check, output)
    });
    Ok(text
        + &prompt::appendix(
            &past.answers,
            red.as_ref().map(|(check, output)| (*check, output.as_str())),
        ))
}
