//! `ralph ask` and `answer`: what agents ask people, and people tell agents.

use std::io::{self, Read};

use anyhow::{Context, Result};

use super::{
    Here,
    inside::Inside,
    task::{self, live_attempt},
};
use crate::{
    attempt,
    chronicle::Chronicle,
    event::{Answer, Event},
    exit::{Exit, Failure},
    graphfile::Write,
    task::Status,
    terminal::{self, visible},
    workspace::{Workspace, find},
};

/// The longest answer, in bytes.
const ANSWER: usize = 8 * 1024;

/// An attempt that goes on, and where its words are written down.
struct Desk {
    inside: Inside,
    workspace: Workspace,
    chronicle: Chronicle,
}

impl Desk {
    fn of_agent(command: &str) -> Result<Desk> {
        let inside = Inside::of_environment(command, "")?;
        let workspace = inside.workspace()?;
        let chronicle = workspace.chronicle()?;
        let Inside { task_id, attempt, .. } = &inside;
        if live_attempt(&workspace, &chronicle, task_id)? != Some(*attempt) {
            return refuse(format!("attempt {attempt} at `{task_id}` is over"));
        }
        Ok(Desk { inside, workspace, chronicle })
    }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Failure::new(Exit::Error, message).into())
}

/// What was typed, or what standard input has for `-`.
fn given(text: &str, most: usize, what: &str) -> Result<String> {
    let mut bytes = text.as_bytes().to_vec();
    if text == "-" {
        bytes.clear();
        let room = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        io::stdin().take(room).read_to_end(&mut bytes).context("read standard input")?;
    }
    if bytes.len() > most {
        return refuse(format!(
            "{what} may have {most} bytes; put the rest into a file and name it"
        ));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return refuse(format!("{what} has to be UTF-8"));
    };
    let text = text.trim();
    if text.is_empty() {
        return refuse(format!("{what} has to say something"));
    }
    Ok(text.to_owned())
}

/// Asks a person: the task needs input when the attempt ends.
///
/// # Errors
/// Outside of an attempt; as the disk gives them.
pub fn ask(text: &str) -> Result<Exit> {
    let mut desk = Desk::of_agent("ask")?;
    let id = &desk.inside.task_id;
    let question = given(text, ANSWER, "a question")?;
    attempt::ask(&desk.workspace, id, &question)?;
    let asked = Event::Asked { attempt: desk.inside.attempt, question };
    desk.chronicle.emit(None, Some(id), asked)?;
    terminal::print(&format!(
        "asked; commit what is good and end: `{id}` waits for the answer, and its next attempt is \
         told it\n"
    ))?;
    Ok(Exit::Success)
}

/// Answers what a task asks and gives it back, with all its attempts; without an answer, shows the
/// question.
///
/// # Errors
/// An unknown task; one that does not need input.
pub fn answer(here: &Here, id: &str, text: Option<&str>) -> Result<Exit> {
    let mut desk = task::Desk::open(here)?;
    let (id, number) = find(&desk.file, id)?;
    if let Some(attempt) = live_attempt(&desk.workspace, &desk.chronicle, &id)? {
        return refuse(format!(
            "attempt {attempt} still works on `{id}`; answer what it asks when it has ended"
        ));
    }
    let status = desk.status(number);
    if status != Status::NeedsInput {
        return refuse(format!("`{id}` is {status}; only a task that needs input is answered"));
    }
    let question = desk.chronicle.history().of(&id).question().map(str::to_owned);
    let Some(text) = text else {
        let question = question.unwrap_or_else(|| format!("`{id}` left no question"));
        let lines: Vec<_> = question.lines().map(visible).collect();
        terminal::print(&(lines.join("\n") + "\n"))?;
        return Ok(Exit::Success);
    };
    let answer = given(text, ANSWER, "an answer")?;
    let answered = Event::Answered(Answer { question: question.unwrap_or_default(), answer });
    // Before the status: a run may begin the next attempt as soon as that is written.
    desk.chronicle.emit(None, Some(&id), answered)?;
    let old = desk.write(&id, Write::Plain(Status::Pending), None)?;
    terminal::print(&format!("{id}: {old} -> pending; its next attempt is told the answer\n"))?;
    Ok(Exit::Success)
}
