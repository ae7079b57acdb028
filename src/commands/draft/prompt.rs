//! The prompt of a draft.

use anyhow::{Context, Result};
use serde_json::json;

use super::{check::DraftTarget, slot::DraftSlot, spec::DraftSpec};
use crate::{
    commands::init,
    core::{
        graph::{drafted::DraftAim, task_edit::piece},
        prompt,
        setup::layout,
    },
    project::{fatal, workspace::Workspace},
};

/// The most lines that name files.
const FILES: usize = 300;
/// The most existing tasks that are named.
const TASKS: usize = 500;
/// The most of the last draft and of its errors that is in the prompt, in bytes.
const LAST: usize = 256 << 10;

/// A draft that was not good enough.
pub(super) struct LastDraft {
    /// Its text; empty if there was none.
    pub(super) text: String,
    /// What is wrong with it.
    pub(super) report: String,
}

/// Renders the prompt of the next call.
///
/// # Errors
/// The template cannot be rendered; the error shows where.
pub(super) fn render(
    workspace: &Workspace,
    target: &DraftTarget,
    spec: &DraftSpec,
    slot: &DraftSlot,
    last: Option<&LastDraft>,
) -> Result<String> {
    let (aim, task) = match target.aim() {
        DraftAim::New => ("new", None),
        DraftAim::Extend => ("extend", None),
        DraftAim::Split(id) => {
            let text = piece(target.base().unwrap_or_default(), id);
            ("split", Some(text.context("show the task")?))
        }
    };
    let mut tasks = target.tasks();
    if tasks.len() > TASKS {
        let more = tasks.len() - TASKS;
        tasks.truncate(TASKS);
        tasks.push(format!("… and {more} more, in {}", workspace.graph_path().display()));
    }
    let verify = match &workspace.config.verify.0 {
        verify if !verify.is_empty() => verify.clone(),
        _ => init::found(&slot.root).verify(),
    };
    let context = json!({
        "aim": aim,
        "task": task,
        "spec": {
            "text": spec.beginning().trim_end(),
            "is_cut": spec.is_cut(),
            "file": slot.spec_file().display().to_string(),
        },
        "files": layout(&slot.files, FILES),
        "verify": verify,
        "graph": tasks,
        "answer": slot.answer_file().display().to_string(),
        "last": last.map(|last| json!({
            "text": cut(&last.text),
            "report": cut(&last.report),
        })),
    });
    let root = workspace.root().to_owned();
    prompt::render("draft.md", move |name| Workspace::template(&root, name), &context)
        .map_err(|fault| fatal::unrenderable(&fault))
}

fn cut(text: &str) -> &str {
    let end = (0..=LAST.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}
