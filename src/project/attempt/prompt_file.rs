//! The prompt of a plain loop: the prompt file, plus the answers and failures that its agent could
//! not know otherwise.

use std::{io, path::Path};

use anyhow::Result;

use super::{CONFLICT, VERIFY_TAIL};
use crate::{
    core::{
        exit::{Exit, Failure},
        history::TaskHistory,
        prompt::{self, PromptAppendix},
        verdict::Merge,
    },
    project::workspace::Workspace,
    regular_file,
};

/// Reads the prompt file at `path`; errors call it `name`.
///
/// # Errors
/// The file does not exist or cannot be read.
pub fn read(path: &Path, name: &Path) -> Result<String> {
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

/// Returns the prompt of the next iteration: the file, then what its agent could not know.
///
/// # Errors
/// Errors of [`read`].
pub fn prompt(workspace: &Workspace, path: &Path, past: &TaskHistory) -> Result<String> {
    let text = read(path, path.strip_prefix(workspace.root()).unwrap_or(path))?;
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
