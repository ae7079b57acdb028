//! What a draft is made from, and the prompt that asks for it.

use std::path::Path;

use anyhow::{Result, anyhow};
use serde_json::json;

use super::{agent::DraftSlot, target::DraftTarget};
use crate::{
    commands::{
        Invocation, init,
        task_editor::{read_text, shown, usage},
    },
    core::{
        graph::{
            drafted::DraftAim,
            load,
            yaml::{Document, Node},
        },
        setup::layout,
    },
    project::{attempt, workspace::Workspace},
};

/// The longest text, in bytes.
pub(super) const LONGEST: u64 = 16 << 20;
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
    let path = Path::new(given);
    // A text that is too long for a path is no path.
    let text = if given == "-" || invocation.file(path)?.symlink_metadata().is_ok() {
        read_text(invocation, path, LONGEST)?
    } else if is_path(given) {
        return usage(format!("there is no file `{}`", shown(path)));
    } else {
        given.to_owned()
    };
    if text.trim().is_empty() {
        return usage("there is no text to draft tasks from");
    }
    Ok(DraftSpec { text })
}

/// Whether one word looks like the path of a file, so that a misspelt one is not drafted.
fn is_path(text: &str) -> bool {
    let is_word = !text.trim().is_empty() && !text.contains(char::is_whitespace);
    is_word && (text.contains('/') || Path::new(text).extension().is_some())
}

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
    let (aim, task) = match &target.aim {
        DraftAim::New => ("new", None),
        DraftAim::Extend | DraftAim::Before(_) => ("extend", None),
        DraftAim::Split(id) => {
            let document = Document::parse(target.base().unwrap_or_default());
            let document = document.map_err(|fault| anyhow!("show the task: {fault}"))?;
            let is_it = |task: &Node<'_>| {
                task.get("id").and_then(Node::text).is_some_and(|it| it == id.as_str())
            };
            ("split", load::task_nodes(&document).find(is_it).map(|task| task.written().to_owned()))
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
        _ => init::found(slot.root()).verify(),
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
    attempt::rendered(workspace, "draft.md", &context)
}

fn cut(text: &str) -> &str {
    let end = (0..=LAST.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
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
