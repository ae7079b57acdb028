//! `ralph answer` and `note`: messages to later attempts.

use std::io::{self, Read};

use anyhow::{Context, Result};

use super::{
    Invocation, success,
    task_editor::{TaskEditor, live_attempt},
};
use crate::{
    adapters::terminal::visible,
    core::{
        event::{Answer, RequestEvent},
        exit::{Exit, fail},
        graph::task::Status,
        verdict::Verdict,
    },
    project::{graph_file::Write, workspace::find},
    view::lines::how_to_answer,
};

/// The longest question or answer, in bytes.
pub(super) const ANSWER: usize = 8 * 1024;
/// The argument, or standard input for `-`.
pub(super) fn given(text: &str, most: usize, what: &str) -> Result<String> {
    let mut bytes = text.as_bytes().to_vec();
    if text == "-" {
        bytes.clear();
        let room = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        io::stdin().take(room).read_to_end(&mut bytes).context("read standard input")?;
    }
    if bytes.len() > most {
        return fail(
            Exit::Error,
            format!("{what} is limited to {most} bytes; put the rest into a file and name it"),
        );
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return fail(Exit::Error, format!("{what} must be UTF-8"));
    };
    let text = text.trim();
    if text.is_empty() {
        return fail(Exit::Error, format!("{what} must not be empty"));
    }
    Ok(text.to_owned())
}

/// Answers the question of a task and sets the task to pending. Without an answer, shows the question.
///
/// # Errors
/// An unknown task; a task that does not need input; an answer inside an attempt.
pub fn answer(invocation: &Invocation, id: &str, text: Option<&str>) -> Result<Exit> {
    let mut editor = TaskEditor::open(invocation)?;
    if text.is_some() {
        editor.refuse_inside("answer")?;
    }
    let (id, number) = find(&editor.file, id)?;
    let past = editor.store.history().of(&id);
    let asked = past.last.as_ref().is_some_and(|last| last.verdict == Verdict::NeedsInput);
    let answered = past.answers.iter().rev().find(|it| !it.question.is_empty());
    let is_answered = asked && !past.asks && answered.is_some();
    let live = live_attempt(&editor.workspace, &editor.store, &id)?;
    let status = editor.status(number);
    let is_late = status != Status::NeedsInput && (live.is_some() || !asked);
    if let (Some(late), true) = (answered, is_late) {
        let why = format!(
            "an attempt has started with the answer `{}`; `ralph note {id} \"…\"` tells the \
             next one more",
            visible(&late.answer)
        );
        return fail(Exit::Error, why);
    }
    if let Some(attempt) = live {
        return fail(
            Exit::Error,
            format!("attempt {attempt} at `{id}` is still running; answer when it has ended"),
        );
    }
    let is_correction = status == Status::Pending && is_answered;
    if status != Status::NeedsInput && !is_correction {
        let other =
            editor.workspace.place.name().is_none() && editor.workspace.loops()?.contains(&id);
        let hint = if other {
            format!("; use `--name {id}` for the loop of that name")
        } else {
            String::new()
        };
        return fail(
            Exit::Error,
            format!("`{id}` is {status}; only a task that needs input can be answered{hint}"),
        );
    }
    let question = editor.store.history().of(&id).question();
    let Some(text) = text else {
        let question = question.unwrap_or_else(|| format!("`{id}` has no question on record"));
        let lines: Vec<_> = question.lines().map(visible).collect();
        return success(&(lines.join("\n") + "\n"));
    };
    let answer = given(text, ANSWER, "an answer")?;
    let answered =
        RequestEvent::Answered(Answer { question: question.unwrap_or_default(), answer });
    // Before the status: a run may start the next attempt as soon as the task is pending.
    editor.store.emit(None, Some(&id), answered)?;
    if is_correction {
        return success(&format!(
            "{id}: the answer is corrected; its next attempt gets this one\n"
        ));
    }
    let old = editor.write(&id, Write::Plain(Status::Pending), None)?;
    success(&format!("{id}: {old} -> pending; its next attempt gets the answer\n"))
}

/// Leaves a note of a person for the next attempts at a task.
///
/// # Errors
/// A task that is unknown, over, or needs input; inside an attempt.
pub fn note(invocation: &Invocation, id: &str, text: &str) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "note TASK")?;
    let (id, number) = find(&editor.file, id)?;
    if editor.status(number) == Status::NeedsInput {
        return fail(Exit::Error, format!("`{id}` needs input; {}", how_to_answer(id.as_str())));
    }
    if editor.status(number).is_over() {
        let status = editor.status(number);
        return fail(Exit::Error, format!("`{id}` is {status}; no attempt would read the note"));
    }
    let answer = Answer::note(given(text, ANSWER, "a note")?);
    editor.store.emit(None, Some(&id), RequestEvent::Answered(answer))?;
    success(&format!("{id}: its next attempt gets the note\n"))
}
