//! What a person does on the page: each action is a call of the command of the same name, so that
//! it is checked, recorded and refused in the same way.

use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;

use crate::{
    adapters::{
        http_server::{HttpReply, HttpRequest},
        process::{self, OwnCall},
        terminal::plain,
    },
    commands::Invocation,
};

/// The time limit of an action.
const LIMIT: Duration = Duration::from_secs(25);

/// An action of a person.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum PageAction {
    /// Answers a question.
    Answer { id: String, text: String },
    /// Leaves a note for the next attempt at a task.
    Note { id: String, text: String },
    /// Sets a task to pending.
    Reset { id: String },
    /// Marks a task complete.
    Complete { id: String },
    /// Blocks a task.
    Block { id: String, reason: String },
    /// Lets no attempt start.
    Pause {},
    /// Lifts the pause.
    Resume {},
    /// Ends the run, after its attempts or now.
    Stop {
        #[serde(default)]
        now: bool,
    },
    /// Adds a task.
    AddTask {
        title: String,
        #[serde(default)]
        description: String,
        #[serde(default)]
        after: Vec<String>,
        #[serde(default)]
        priority: Option<u8>,
        #[serde(default)]
        verify: Vec<String>,
    },
}

/// A command of this program.
#[derive(Debug, Default, PartialEq, Eq)]
struct ActionCall {
    arguments: Vec<String>,
    input: String,
}

/// Does what a request asks for.
pub(super) fn act(invocation: &Invocation, request: &HttpRequest) -> HttpReply {
    let action: PageAction = match serde_json::from_slice(request.body()) {
        Ok(action) => action,
        Err(error) => return said(400, false, &format!("this is not an action: {error}")),
    };
    let call = action.call();
    if call.arguments.iter().chain([&call.input]).any(|text| text.contains('\0')) {
        return said(400, false, "a text must not contain the character NUL");
    }
    let called = || -> Result<OwnCall> {
        let arguments: Vec<String> =
            invocation.flags()?.into_iter().chain(call.arguments).collect();
        let directory = invocation.directory()?;
        Ok(process::call_own(&arguments, &directory, &call.input, LIMIT)?)
    };
    match called() {
        Ok(called) => {
            let text = if called.code == Some(0) && !called.output.trim().is_empty() {
                called.output
            } else {
                called.errors
            };
            let status = if called.code == Some(0) { 200 } else { 409 };
            let text = plain(text.trim()).replace("ralph: error: ", "");
            said(status, status == 200, &text)
        }
        Err(error) => said(500, false, &format!("`ralph` cannot be started: {error}")),
    }
}

fn said(status: u16, done: bool, text: &str) -> HttpReply {
    let body = json!({ "done": done, "text": text }).to_string();
    HttpReply::of(status, "application/json", body)
}

impl PageAction {
    /// The command that does it. What a person typed is never read as a flag.
    fn call(self) -> ActionCall {
        let words = |name: &str, words: &[String]| {
            let fixed = [name.to_owned(), "--".to_owned()];
            let arguments = fixed.into_iter().chain(words.iter().cloned()).collect();
            ActionCall { arguments, input: String::new() }
        };
        match self {
            PageAction::Answer { id, text } => {
                ActionCall { input: text, ..words("answer", &[id, "-".to_owned()]) }
            }
            PageAction::Note { id, text } => {
                let arguments = ["note".to_owned(), format!("--task={id}"), "-".to_owned()];
                ActionCall { arguments: arguments.into(), input: text }
            }
            PageAction::Reset { id } => words("task-reset", &[id]),
            PageAction::Complete { id } => words("task-complete", &[id]),
            PageAction::Block { id, reason } => {
                let arguments = ["task-block".to_owned(), format!("--reason={reason}")];
                let rest = ["--".to_owned(), id];
                ActionCall {
                    arguments: arguments.into_iter().chain(rest).collect(),
                    input: String::new(),
                }
            }
            PageAction::Pause {} => words("pause", &[]),
            // Without the flag, `ralph resume` may become the run.
            PageAction::Resume {} => {
                let arguments = vec!["resume".to_owned(), "--lift".to_owned()];
                ActionCall { arguments, input: String::new() }
            }
            PageAction::Stop { now } => {
                let flag = now.then(|| "--now".to_owned());
                let arguments = std::iter::once("stop".to_owned()).chain(flag).collect();
                ActionCall { arguments, input: String::new() }
            }
            PageAction::AddTask { title, description, after, priority, verify } => {
                let mut arguments = vec!["task-add".to_owned()];
                if !description.trim().is_empty() {
                    arguments.push("--description=-".to_owned());
                }
                arguments.extend(after.iter().map(|id| format!("--after={id}")));
                arguments.extend(priority.map(|priority| format!("--priority={priority}")));
                arguments.extend(verify.iter().map(|command| format!("--verify={command}")));
                arguments.extend(["--".to_owned(), title]);
                ActionCall { arguments, input: description }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(json: &str) -> ActionCall {
        serde_json::from_str::<PageAction>(json).unwrap().call()
    }

    #[test]
    fn what_is_typed_is_never_a_flag() {
        let reset = call(r#"{"action": "reset", "id": "--all"}"#);
        assert_eq!(reset.arguments, ["task-reset", "--", "--all"]);
        let answer = call(r#"{"action": "answer", "id": "a", "text": "--help"}"#);
        assert_eq!(answer.arguments, ["answer", "--", "a", "-"]);
        assert_eq!(answer.input, "--help");
        let block = call(r#"{"action": "block", "id": "-x", "reason": "--now"}"#);
        assert_eq!(block.arguments, ["task-block", "--reason=--now", "--", "-x"]);
        let add = call(r#"{"action": "add_task", "title": "--id=x", "verify": ["--a"]}"#);
        assert_eq!(add.arguments, ["task-add", "--verify=--a", "--", "--id=x"]);
    }

    #[test]
    fn unknown_actions_are_refused() {
        for json in ["{}", r#"{"action": "run"}"#, r#"{"action": "pause", "x": 1}"#, "[]"] {
            assert!(serde_json::from_str::<PageAction>(json).is_err(), "{json}");
        }
    }
}
