//! Edits of the status of one task in the text.

use std::borrow::Cow;

use super::{GraphFile, Write};
use crate::core::graph::{
    edit::{Change, Document, Unsupported},
    load,
    task::TaskId,
    yaml::NodeId,
};

impl GraphFile {
    /// The status of a task as the file spells it; none for a task without one.
    pub fn status_word(&self, number: usize) -> Option<String> {
        let node = load::node_of(&self.document, number)?;
        self.document.node(node).get("status")?.text().map(Cow::into_owned)
    }

    /// Writes status, claim and completion time together. If the layout of the task does not allow
    /// the other fields, writes only the status.
    pub(super) fn splice(&mut self, number: usize, write: Write<'_>) -> Result<(), Unsupported> {
        let word = self.graph.spelling.write(write.status());
        let status = match write {
            Write::Restored(None) => Change::Remove { key: "status" },
            Write::Restored(Some(word)) => Change::Set { key: "status", value: word },
            Write::Claim { .. } | Write::Complete { .. } | Write::Plain(_) => {
                Change::Set { key: "status", value: &word }
            }
        };
        let unclaimed =
            [Change::Remove { key: "claimed_at" }, Change::Remove { key: "claimed_by" }];
        let extras = match write {
            Write::Claim { at, by } => vec![
                Change::Set { key: "claimed_by", value: by },
                Change::Set { key: "claimed_at", value: at },
            ],
            Write::Complete { at } => {
                let mut extras = vec![Change::Set { key: "completed_at", value: at }];
                extras.extend(unclaimed);
                extras
            }
            Write::Plain(_) | Write::Restored(_) => {
                let mut extras = unclaimed.to_vec();
                extras.push(Change::Remove { key: "completed_at" });
                extras
            }
        };
        let all: Vec<Change<'_>> = std::iter::once(status).chain(extras).collect();
        let edit = |document: &mut Document, node: Option<NodeId>| {
            let id = &self.graph.task(number).id;
            let node = node.filter(|node| is_task(document, *node, id)).ok_or_else(|| {
                let reason = format!("`{id}` is not where it was");
                Unsupported { reason }
            })?;
            document.edit(node, &all).or_else(|_| document.edit(node, &[status]))
        };
        let node = load::node_of(&self.document, number);
        edit(&mut self.document, node)
    }
}

/// Whether the node is the task with this id.
fn is_task(document: &Document, node: NodeId, id: &TaskId) -> bool {
    let (tree, text) = (document.tree(), document.text());
    let value = tree.entry(text, node, "id").map(|(_, value)| tree.target(value).unwrap_or(value));
    value.and_then(|value| tree.scalar(text, value)).is_some_and(|seen| seen == id.as_str())
}
