//! What a draft is made from: a file, standard input, or a sentence.

use std::{
    io::{self, Read as _},
    path::Path,
};

use anyhow::{Context, Result};

use crate::{
    commands::{
        Invocation,
        task_editor::{shown, usage},
    },
    regular_file,
};

/// The longest text, in bytes.
const LONGEST: u64 = 16 << 20;
/// The longest text that is in the prompt as a whole, in bytes.
const WHOLE: usize = 64 << 10;
/// How much of a longer text is in the prompt, in bytes.
const BEGINNING: usize = 16 << 10;

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DraftSpec {
    /// The text; empty if the task to split says it all.
    pub(super) text: String,
}

impl DraftSpec {
    /// The part of the text that is in the prompt.
    pub(super) fn beginning(&self) -> &str {
        if self.text.len() <= WHOLE {
            return &self.text;
        }
        let end = (0..=BEGINNING).rev().find(|at| self.text.is_char_boundary(*at));
        &self.text[..end.unwrap_or(0)]
    }

    /// Whether the prompt has only the beginning.
    pub(super) fn is_cut(&self) -> bool {
        self.text.len() > WHOLE
    }
}

/// Reads what is wanted.
///
/// # Errors
/// A file that cannot be read, or nothing.
pub(super) fn read(invocation: &Invocation, given: Option<&str>) -> Result<DraftSpec> {
    let Some(given) = given else {
        return Ok(DraftSpec::default());
    };
    let text = if given == "-" {
        let mut bytes = Vec::new();
        io::stdin().take(LONGEST + 1).read_to_end(&mut bytes).context("read standard input")?;
        text_of(bytes, "standard input")?
    } else {
        let path = Path::new(given);
        let whole = invocation.file(path)?;
        // A text that is too long for a path is no path.
        if whole.symlink_metadata().is_ok() {
            read_file(&whole, path)?
        } else if is_path(given) {
            return usage(format!("there is no file `{}`", shown(path)));
        } else {
            given.to_owned()
        }
    };
    if text.trim().is_empty() {
        return usage("there is no text to draft tasks from");
    }
    Ok(DraftSpec { text })
}

/// Reads a file as text; errors call it `name`.
///
/// # Errors
/// It cannot be read, is too long, or is not UTF-8.
pub(super) fn read_file(path: &Path, name: &Path) -> Result<String> {
    let name = format!("`{}`", shown(name));
    if path.metadata().is_ok_and(|found| found.len() > LONGEST) {
        return too_long(&name);
    }
    match regular_file::read(path) {
        Ok(bytes) => text_of(bytes, &name),
        Err(error) => usage(format!("cannot read {name}: {error}")),
    }
}

fn text_of(bytes: Vec<u8>, name: &str) -> Result<String> {
    if bytes.len() as u64 > LONGEST {
        return too_long(name);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()),
        Err(_) => usage(format!("{name} is not UTF-8")),
    }
}

fn too_long<T>(name: &str) -> Result<T> {
    usage(format!("{name} is longer than {} MiB", LONGEST >> 20))
}

/// Whether one word looks like the path of a file, so that a misspelt one is not drafted.
fn is_path(text: &str) -> bool {
    let is_word = !text.trim().is_empty() && !text.contains(char::is_whitespace);
    is_word && (text.contains('/') || Path::new(text).extension().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let spec = DraftSpec { text: "x".to_owned() + &"é".repeat(WHOLE) };
        assert!(spec.is_cut() && spec.beginning().len() == BEGINNING - 1);
        let spec = DraftSpec { text: "é".to_owned() };
        assert!(!spec.is_cut() && spec.beginning() == "é");
    }

    #[test]
    fn a_word_like_a_path_is_one() {
        for path in ["PRD.md", "docs/plan", "./x", "notes.txt"] {
            assert!(is_path(path), "{path}");
        }
        for text in ["Add a dark theme", "i18n", "Fix src/a.rs", ""] {
            assert!(!is_path(text), "{text}");
        }
    }
}
