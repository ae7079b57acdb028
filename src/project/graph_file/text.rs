//! Reads the text of the graph file, which an agent may have replaced by something else.

use std::{env, fs, io, path::Path};

use serde_json::Value;

use super::{GraphFile, Rejected, Write};
use crate::{
    adapters::state::{self, Stamp},
    core::{
        diagnostic::Diagnostic,
        executor::shell_word,
        graph::{
            edit::{EntryPlace, TextEdit, Unsupported},
            load,
            yaml::{MAX_BYTES, Node},
        },
    },
    regular_file,
};

/// Reads the file, and its stamp right before.
///
/// # Errors
/// It is missing, too large, not UTF-8 or not a regular file; errors of the disk.
pub(super) fn read_text(path: &Path, name: &str) -> Result<(Stamp, String), Box<Rejected>> {
    let refuse = |message: String, help: &str| {
        let fault = Diagnostic::error(message, 0..0);
        let fault = if help.is_empty() { fault } else { fault.help(help) };
        Box::new(Rejected { name: name.to_owned(), text: String::new(), faults: vec![fault] })
    };
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            let usual =
                "`ralph init` writes an example; a list `tasks:`, each with an `id`, is enough";
            // As in a repository of several projects.
            let here = env::current_dir().ok().zip(path.file_name());
            let here = here.map(|(here, file)| here.join(file));
            let help = match here.filter(|here| here != path && here.is_file()) {
                Some(here) => format!(
                    "it is looked for at the top of the repository; `--graph {}` uses the one in this \
                     folder",
                    shell_word(&here.display().to_string())
                ),
                None => usual.to_owned(),
            };
            refuse(format!("there is no `{name}`"), &help)
        }
        _ => refuse(format!("cannot read `{name}`: {error}"), ""),
    };
    if regular_file::is_special(path) {
        let help = "remove what is there, and restore the file, as with `git checkout`";
        return Err(refuse(format!("`{name}` is not a regular file"), help));
    }
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_BYTES as u64 {
        return Err(refuse(
            format!("`{name}` is {} MiB long; the limit is {} MiB", length >> 20, MAX_BYTES >> 20),
            "a graph of 100,000 tasks is about 13 MiB: is this the right file?",
        ));
    }
    // The stamp is taken first, so that a change during the read is noticed later.
    let stamp = state::stamp(path).map_err(unreadable)?;
    let bytes = regular_file::read(path).map_err(unreadable)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((stamp, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&error.into_bytes()).into_owned();
            let fault = Diagnostic::error("the file is not UTF-8", at..at + '\u{fffd}'.len_utf8())
                .help("save it as UTF-8");
            Err(Box::new(Rejected { name: name.to_owned(), text, faults: vec![fault] }))
        }
    }
}

// Edits of the status of one task in the text.

impl GraphFile {
    /// The status of a task as the file spells it; none for a task without one.
    pub fn status_word(&self, number: usize) -> Option<String> {
        let status = load::task_node(&self.document, number)?.get("status")?;
        Some(status.text()?.into_owned())
    }

    /// Writes status, claim and completion time together. If the layout of the task does not allow
    /// the other fields, writes only the status.
    pub(super) fn splice(&mut self, number: usize, write: Write<'_>) -> Result<(), Unsupported> {
        let word = self.graph.spelling.write(write.status());
        let text = |text: &str| Some(Value::from(text));
        let status = match write {
            Write::Restored(word) => word.and_then(text),
            Write::Claim { .. } | Write::Complete { .. } | Write::Plain(_) => text(&word),
        };
        let changes = match write {
            Write::Claim { at, by } => {
                vec![("status", status), ("claimed_at", text(at)), ("claimed_by", text(by))]
            }
            Write::Complete { at } => vec![
                ("status", status),
                ("completed_at", text(at)),
                ("claimed_at", None),
                ("claimed_by", None),
            ],
            Write::Plain(_) | Write::Restored(_) => vec![
                ("status", status),
                ("completed_at", None),
                ("claimed_at", None),
                ("claimed_by", None),
            ],
        };
        let edit = |changes: &[(&str, Option<Value>)]| {
            let task = load::task_node(&self.document, number).map(Node::id);
            let mut edit = TextEdit::new(&self.document);
            edit.set(
                task.expect("a task of the graph is in its text"),
                changes,
                EntryPlace::AfterStatus,
            )?;
            edit.finish()
        };
        self.document = edit(&changes).or_else(|_| edit(&changes[..1]))?;
        Ok(())
    }
}
