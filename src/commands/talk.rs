//! `ralph ask`, `answer` and `note`: questions to people, their answers, and notes for later agents.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    Invocation,
    inside::{AttemptContext, refuse_beside},
    success,
    task_editor::{TaskEditor, live_attempt},
};
use crate::{
    adapters::{state, terminal::visible},
    cli,
    core::{
        event::{Answer, RequestEvent},
        exit::{Exit, fail},
        graph::task::Status,
        loop_paths,
        notes::{self, Note},
        verdict::Verdict,
    },
    project::{
        attempt::{self, AttemptRecord},
        event_store::EventStore,
        graph_file::Write,
        workspace::{self, Workspace, find},
    },
    regular_file,
    view::lines::how_to_answer,
};

/// The longest question or answer, in bytes.
pub(super) const ANSWER: usize = 8 * 1024;
/// The heading for notes without a tag.
pub(super) const UNTAGGED: &str = "General";

/// The attempt around this process, with its journal.
struct AgentAttempt {
    inside: AttemptContext,
    record: AttemptRecord,
    workspace: Workspace,
    store: EventStore,
}

impl AgentAttempt {
    fn of_agent(command: &str) -> Result<AgentAttempt> {
        refuse_beside(command)?;
        let inside = AttemptContext::of_environment(command)?;
        let workspace = inside.workspace()?;
        let store = workspace.event_store()?;
        let AttemptContext { task_id, attempt, .. } = &inside;
        let ended = || fail(Exit::Error, format!("attempt {attempt} at `{task_id}` has ended"));
        if live_attempt(&workspace, &store, task_id)? != Some(*attempt) {
            return ended();
        }
        let records = workspace.state.peek::<AttemptRecord>();
        let own = |record: &AttemptRecord| record.task_id == *task_id && record.attempt == *attempt;
        let Some(record) = records.into_iter().find(own) else { return ended() };
        Ok(AgentAttempt { inside, record, workspace, store })
    }
}

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

/// Asks a person a question. The task needs input when the attempt ends.
///
/// # Errors
/// Outside an attempt; errors of the disk.
pub fn ask(text: &str) -> Result<Exit> {
    let mut editor = AgentAttempt::of_agent("ask")?;
    let id = &editor.inside.task_id;
    let question = given(text, ANSWER, "a question")?;
    attempt::ask(&editor.workspace, &editor.record, &question)?;
    let asked = RequestEvent::Asked { attempt: editor.inside.attempt, question };
    editor.store.emit(None, Some(id), asked)?;
    success(&format!(
        "asked; commit finished work and exit: `{id}` needs input, and its next attempt gets the \
         answer\n"
    ))
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
fn note_to(invocation: &Invocation, id: &str, text: &str) -> Result<Exit> {
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

/// Leaves a note for dependent tasks, or for every agent; a person's is for the next attempts at a
/// task.
///
/// # Errors
/// Outside an attempt; an unknown task; errors of the disk.
pub fn note(invocation: &Invocation, options: &cli::NoteArgs) -> Result<Exit> {
    if let Some(id) = options.task() {
        return note_to(invocation, id, options.text());
    }
    let mut editor = AgentAttempt::of_agent("note")?;
    let AttemptContext { task_id: id, attempt, .. } = &editor.inside;
    let text = given(options.text(), notes::LONGEST, "a note")?;
    // The note may be committed.
    let text = editor.workspace.secrets().text(&text);
    let main = editor.workspace.root();
    let (root, name, heading) = if options.for_all {
        let tag = options.tag.as_deref().unwrap_or(UNTAGGED);
        // The file is committed with the work, in the slot of the attempt.
        let root = editor.inside.tree.as_deref().unwrap_or(main);
        (root, loop_paths::LEARNINGS.to_owned(), Some(tag))
    } else {
        (main, format!("{}/{}", editor.record.folder(&editor.workspace), loop_paths::NOTES), None)
    };
    let author = format!("{id}.{attempt}");
    let note = Note { text: &text, heading, attempt: &author, at: Utc::now() };
    if !add(&editor.workspace, root, &name, &note)? {
        return success(&format!("`{name}` already has this note\n"));
    }
    let noted = RequestEvent::Noted {
        attempt: *attempt,
        note: text,
        for_all: options.for_all,
        tag: options.tag.clone(),
    };
    editor.store.emit(None, Some(id), noted)?;
    let hint = if options.for_all { "; commit this file with your work" } else { "" };
    success(&format!("noted in `{name}`{hint}\n"))
}

/// Adds a note to a file of the repository. Returns whether the note is new.
fn add(workspace: &Workspace, root: &Path, name: &str, note: &Note<'_>) -> Result<bool> {
    let path = root.join(name);
    let _turn = workspace::lock_notes(workspace).context("lock the notes")?;
    let old = match regular_file::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("read `{name}`"))?,
    };
    let Some(new) = notes::add(&old, note, notes::ROOM) else {
        return Ok(false);
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create the folder of `{name}`"))?;
    }
    state::replace(&path, new.as_bytes()).with_context(|| format!("write `{name}`"))?;
    Ok(true)
}
