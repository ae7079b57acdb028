//! Edits of the status of one task in the text.

use serde_json::Value;

use super::{GraphFile, Write};
use crate::core::graph::{
    edit::{EntryPlace, TextEdit, Unsupported},
    load,
    yaml::Node,
};

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
