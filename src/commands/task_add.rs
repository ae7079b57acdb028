//! `ralph task-add`: adds a task to the graph.

use std::{cell::RefCell, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    Invocation,
    task_editor::{TaskEditor, read_text, shown, unsupported, usage},
};
use crate::{
    adapters::terminal,
    cli::{FieldArgs, TaskAddArgs},
    core::{
        diagnostic::visible,
        exit::Exit,
        graph::{
            task::{Priority, TaskId, id_of_title},
            task_edit::{NewTask, depend, insert},
        },
        setup,
    },
    project::{graph_file::GraphFile, shell_faults::ShellFault},
    view::task::TaskStanding,
};

/// The longest description, in bytes.
const DESCRIPTION: u64 = 16 << 20;

/// Adds a task.
///
/// # Errors
/// An invalid field, an id in use, an unknown task, a cycle; inside an attempt.
pub fn run(invocation: &Invocation, options: &TaskAddArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_first(invocation, "task-add")?;
    let mut fields = vec![("title".to_owned(), Value::from(line(&options.title, "the title")?))];
    let others = fields_of(invocation, &options.fields)?;
    if others.iter().any(|(name, _)| name == "title") {
        return usage("`title` is set twice");
    }
    fields.extend(others);
    let wanted = options.id.as_deref().map(|id| {
        TaskId::new(id).or_else(|rule| usage(format!("the id `{}` {rule}", visible(id))))
    });
    let wanted = wanted.transpose()?;
    let after = editor.find_all(&options.fields.after)?;
    let before = editor.find_all(&options.fields.before)?;
    let name = editor.file.name().to_owned();
    let used = editor.store.history().used_ids();
    let added = RefCell::new(None);
    // If a person has tasks, the examples of `init` are unwanted.
    let is_first = after.is_empty() && before.is_empty();
    let had_examples = is_first && setup::is_example(editor.file.text());
    let edit = |file: &GraphFile| {
        let is_there = |id: &TaskId| file.graph().number(id).is_some();
        let free = |words: &str| {
            let is_taken = |id: &TaskId| is_there(id) || used.contains(id);
            id_of_title(words, |id| TaskId::new(id).is_ok_and(|id| is_taken(&id)))
        };
        let id = match &wanted {
            Some(id) if is_there(id) => {
                return usage(format!("`{name}` already has a task `{id}`; edit it in the file"));
            }
            Some(id) if used.contains(id) => {
                return usage(format!(
                    "a removed task was called `{id}`, and its history would count for the new \
                     one; `{}` is free",
                    free(id.as_str())
                ));
            }
            Some(id) => id.clone(),
            None => free(&options.title),
        };
        let task = NewTask { id: id.clone(), fields: fields.clone(), depends_on: unique(&after) };
        added.replace(Some(id.clone()));
        let refuse = unsupported(&name);
        let bare = setup::without_examples(file.text()).filter(|_| is_first);
        let text = bare.as_deref().unwrap_or(file.text());
        let text = insert(text, &[task]).map_err(&refuse)?;
        depend(&text, &unique(&before), &id).map(Some).map_err(&refuse)
    };
    editor.change(edit)?;
    let id = added.into_inner().context("no task was added")?;
    let task = editor.view_of(&id)?;
    let standing = match &task.standing {
        TaskStanding::Waiting { waiting_on } => {
            let on: Vec<&str> = waiting_on.iter().map(|task| task.id.as_str()).collect();
            format!("waiting on {}", on.join(", "))
        }
        _ => task.kind().word().to_owned(),
    };
    let place = editor.file.line_of(editor.number(&id)?);
    let instead = if had_examples { ", instead of the examples of `ralph init`" } else { "" };
    let text = format!("{id}: added at {name}:{place}, {standing}{instead}");
    editor.print(&id, options.json, &text)?;
    Ok(Exit::Success)
}

/// The ids without repetitions.
fn unique(ids: &[TaskId]) -> Vec<TaskId> {
    let mut found: Vec<TaskId> = Vec::with_capacity(ids.len());
    for id in ids {
        if !found.contains(id) {
            found.push(id.clone());
        }
    }
    found
}

/// The fields that the flags set, except dependencies.
fn fields_of(invocation: &Invocation, flags: &FieldArgs) -> Result<Vec<(String, Value)>> {
    let mut fields: Vec<(String, Value)> = Vec::new();
    let mut add = |name: &str, value: Value| fields.push((name.to_owned(), value));
    if let Some(given) = &flags.description {
        add("description", Value::from(description(invocation, given)?));
    }
    if let Some(text) = &flags.priority {
        if Priority::parse(text).is_none() {
            return usage(format!(
                "`{}` is not a priority: a whole number, `P0` to `P4`, or critical, high, medium, \
                 low",
                visible(text)
            ));
        }
        add(
            "priority",
            text.parse::<i64>().map_or_else(|_| Value::from(text.as_str()), Value::from),
        );
    }
    for (name, value) in [("story", &flags.story), ("milestone", &flags.milestone)] {
        if let Some(text) = value {
            add(name, Value::from(line(text, &format!("`{name}`"))?));
        }
    }
    if !flags.tags.is_empty() {
        let tags = flags.tags.iter().map(|tag| line(tag.trim(), "a tag"));
        add("tags", Value::from(tags.collect::<Result<Vec<_>>>()?));
    }
    if !flags.verify.is_empty() {
        let commands = flags.verify.iter().map(|command| lines(command, "a verify command"));
        let commands = commands.collect::<Result<Vec<_>>>()?;
        if let Some(fault) = ShellFault::first(&commands) {
            let fault = fault.text("warning: `verify`");
            terminal::say(&format!("{}; no run starts with it", visible(&fault)));
        }
        add("verify", Value::from(commands));
    }
    for pair in &flags.set {
        let Some((name, value)) = pair.split_once('=') else {
            return usage(format!("`--set {}` has no `=`", visible(pair)));
        };
        check_name(name)?;
        if fields.iter().any(|(other, _)| other == name) {
            return usage(format!("`{name}` is set twice"));
        }
        fields.push((name.to_owned(), value_of(name, value)?));
    }
    Ok(fields)
}

/// Checks the name of a field that `--set` may set.
fn check_name(name: &str) -> Result<()> {
    let reserved = match name {
        "id" => "the id names the task in the journal; it stays",
        "status" => "use `ralph task-complete`, `task-reset` or `task-block`",
        "depends_on" => "use `--after`",
        "claimed_at" | "claimed_by" | "completed_at" => "`ralph` writes it",
        _ if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            "a field is one word"
        }
        _ => return Ok(()),
    };
    usage(format!("the field `{}` cannot be set: {reserved}", visible(name)))
}

/// The value of `--set`: a JSON list, mapping, number or boolean, or a text.
fn value_of(name: &str, text: &str) -> Result<Value> {
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) if !value.is_null() => value,
        _ => Value::from(text),
    };
    check_value(name, &value)?;
    Ok(value)
}

fn check_value(name: &str, value: &Value) -> Result<()> {
    match value {
        Value::String(text) => lines(text, &format!("`{name}`")).map(|_| ()),
        Value::Array(items) => items.iter().try_for_each(|item| check_value(name, item)),
        Value::Object(entries) => entries.iter().try_for_each(|(key, value)| {
            lines(key, &format!("a key of `{name}`"))?;
            check_value(name, value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// A text of one line without control characters.
fn line(text: &str, what: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return usage(format!("{what} is empty"));
    }
    match text.chars().find(|c| c.is_control()) {
        None => Ok(text.to_owned()),
        Some('\n' | '\r') => {
            usage(format!("{what} has more than one line; `--description` takes longer texts"))
        }
        Some(c) => usage(format!("{what} contains the control character `{}`", c.escape_debug())),
    }
}

/// A text without control characters, except line breaks and tabs.
fn lines(text: &str, what: &str) -> Result<String> {
    let text = text.replace("\r\n", "\n");
    if text.trim().is_empty() {
        return usage(format!("{what} is empty"));
    }
    match text.chars().find(|c| c.is_control() && !['\n', '\t'].contains(c)) {
        None => Ok(text),
        Some(c) => usage(format!("{what} contains the control character `{}`", c.escape_debug())),
    }
}

/// The description of a flag: a text, the content of `@FILE`, or standard input for `-`.
fn description(invocation: &Invocation, given: &str) -> Result<String> {
    let file = given.strip_prefix('@').or((given == "-").then_some(given));
    let Some(file) = file else {
        return Ok(lines(given, "the description")?.trim_end().to_owned());
    };
    let text = read_text(invocation, Path::new(file), DESCRIPTION).or_else(|error| {
        usage(format!("{error}; `--description` takes a text, `@FILE` or `-` for standard input"))
    })?;
    Ok(lines(&text, &format!("`{}`", shown(Path::new(file))))?.trim_end().to_owned())
}
