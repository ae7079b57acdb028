//! Tool uses and their results, in the detail that agents print: commands, edits, lists of work.
//!
//! Agents name their tools and fields differently; the field names identify the action.

use serde_json::Value;

use super::{PHRASE, cut};
use crate::test_output::TestRun;

/// The limit on the size of a text of a tool use or a result, in bytes.
const DETAIL: usize = 16 << 10;
/// The limit on the number of edits, entries or files of a tool use.
const ENTRIES: usize = 100;

/// A tool use.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The agent's id of it, which its result has too.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The tool and its target in one short line.
    pub line: String,
    /// The requested action.
    pub input: ToolInput,
}

/// The action requested of a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput {
    /// To run a command.
    Command(String),
    /// To change a file.
    Edits(Vec<FileEdit>),
    /// To apply a patch, in the agent's own format.
    Patch(String),
    /// To show a to-do list.
    Todo(Vec<TodoItem>),
    /// Anything else: its input as JSON; empty if there is none.
    Other(String),
}

/// A change of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: String,
    /// The text before; empty for a new file.
    pub old: String,
    /// The text afterwards.
    pub new: String,
}

/// An entry of an agent's own to-do list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoItem {
    /// The entry.
    pub text: String,
    /// Its state, as the agent names it: `pending`, `in_progress`, `completed`.
    pub state: String,
}

/// The result of a tool use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the tool use.
    pub id: String,
    /// The output of the tool.
    pub text: String,
    /// Whether it failed, or shows a failed test.
    pub is_error: bool,
}

impl ToolUse {
    pub(super) fn new(tool: &str, line: String, input: &Value, id: &Value) -> ToolUse {
        let id = cut(id.as_str().unwrap_or_default(), PHRASE);
        ToolUse { id, tool: cut(tool, PHRASE), line, input: ToolInput::of(input) }
    }
}

impl ToolInput {
    fn of(input: &Value) -> ToolInput {
        let patch = [input, &input["input"], &input["patch"], &input["patchText"]];
        if let Some(text) = patch.iter().find_map(|it| it.as_str()) {
            let is_patch = text.contains("*** Begin Patch") || text.contains("\n@@");
            let text = cut(text, DETAIL);
            return if is_patch { ToolInput::Patch(text) } else { ToolInput::Command(text) };
        }
        let todos = ["todos", "items"].iter().find_map(|name| input[*name].as_array());
        if let Some(todos) = todos {
            return ToolInput::Todo(todos.iter().take(ENTRIES).map(TodoItem::of).collect());
        }
        let edits = FileEdit::all(input);
        if !edits.is_empty() {
            return ToolInput::Edits(edits);
        }
        if let Some(command) = input["command"].as_str() {
            return ToolInput::Command(cut(command, DETAIL));
        }
        if let Some(changes) = input["changes"].as_array() {
            let line =
                |change: &Value| format!("{} {}\n", word(change, "kind"), word(change, "path"));
            let lines: String = changes.iter().take(ENTRIES).map(line).collect();
            return ToolInput::Other(cut(&lines, DETAIL));
        }
        let is_empty = input.as_object().is_none_or(serde_json::Map::is_empty);
        let text = if is_empty { String::new() } else { format!("{input:#}") };
        ToolInput::Other(cut(&text, DETAIL))
    }
}

impl FileEdit {
    /// The changes in an input: several, one, or a whole file.
    fn all(input: &Value) -> Vec<FileEdit> {
        let text = |value: &Value, names: &[&str]| {
            names.iter().find_map(|name| Some(cut(value[*name].as_str()?, DETAIL)))
        };
        let path = text(input, &["file_path", "filePath", "path", "notebook_path"]);
        let edit = |value: &Value| {
            let old = text(value, &["old_string", "oldString", "old_str"]);
            let new = text(value, &["new_string", "newString", "new_str", "new_source"])?;
            let path = path.clone().unwrap_or_default();
            Some(FileEdit { path, old: old.unwrap_or_default(), new })
        };
        if let Some(edits) = input["edits"].as_array() {
            return edits.iter().take(ENTRIES).filter_map(edit).collect();
        }
        let whole = || {
            let new = text(input, &["content", "file_text"])?;
            Some(FileEdit { path: path.clone()?, old: String::new(), new })
        };
        edit(input).or_else(whole).into_iter().collect()
    }
}

impl TodoItem {
    fn of(entry: &Value) -> TodoItem {
        let names = ["content", "description", "text", "title"];
        let text = names.iter().find_map(|name| entry[*name].as_str());
        let text = text.or(entry.as_str()).unwrap_or_default();
        let is_done = entry["completed"] == true;
        let state = if is_done { "completed".to_owned() } else { word(entry, "status") };
        TodoItem { text: cut(text, PHRASE), state }
    }
}

impl ToolResult {
    /// A result; `content` is a text, or a list of parts with texts.
    pub(super) fn new(id: &Value, content: &Value, is_error: bool) -> ToolResult {
        let id = cut(id.as_str().unwrap_or_default(), PHRASE);
        let text = match content {
            Value::String(text) => end(text),
            Value::Array(parts) => {
                let parts = parts.iter().filter_map(|part| part["text"].as_str());
                end(&parts.collect::<Vec<_>>().join("\n"))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        };
        // Whatever the exit code is: `pytest | tail` succeeds.
        let failed = TestRun::read(&text).is_some_and(|run| run.is_cut || !run.failed.is_empty());
        ToolResult { id, text, is_error: is_error || failed }
    }
}

/// The beginning and the end of a text: the last words of a command count most.
fn end(text: &str) -> String {
    if text.len() <= DETAIL {
        return text.to_owned();
    }
    let mut from = text.len() - DETAIL / 2;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let head = cut(text, DETAIL / 2);
    format!("{head}\n… ({} bytes left out)\n{}", from - head.len(), &text[from..])
}

fn word(value: &Value, name: &str) -> String {
    cut(value[name].as_str().unwrap_or_default(), PHRASE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edit(path: &str, old: &str, new: &str) -> FileEdit {
        FileEdit { path: path.into(), old: old.into(), new: new.into() }
    }

    #[test]
    fn the_fields_of_each_agent_say_what_is_meant() {
        let cases = [
            (json!({"command": "make", "description": "d"}), ToolInput::Command("make".into())),
            (json!("ls"), ToolInput::Command("ls".into())),
            (
                json!({"file_path": "a", "old_string": "b", "new_string": "c"}),
                ToolInput::Edits(vec![edit("a", "b", "c")]),
            ),
            (
                json!({"filePath": "a", "oldString": "b", "newString": "c"}),
                ToolInput::Edits(vec![edit("a", "b", "c")]),
            ),
            (
                json!({"command": "create", "path": "a", "file_text": "c"}),
                ToolInput::Edits(vec![edit("a", "", "c")]),
            ),
            (
                json!({"file_path": "a", "edits": [{"old_string": "b", "new_string": ""}, {}]}),
                ToolInput::Edits(vec![edit("a", "b", "")]),
            ),
            (
                json!({"input": "*** Begin Patch\n*** End Patch"}),
                ToolInput::Patch("*** Begin Patch\n*** End Patch".into()),
            ),
            (
                json!({"changes": [{"path": "a", "kind": "add"}]}),
                ToolInput::Other("add a\n".into()),
            ),
            (json!({"path": "a"}), ToolInput::Other("{\n  \"path\": \"a\"\n}".into())),
            (json!(null), ToolInput::Other(String::new())),
        ];
        for (input, want) in cases {
            assert_eq!(ToolInput::of(&input), want, "{input}");
        }
        let todo = |list: Value| {
            let ToolInput::Todo(items) = ToolInput::of(&list) else { panic!("{list}") };
            items
        };
        let item = |text: &str, state: &str| TodoItem { text: text.into(), state: state.into() };
        let claude = todo(json!({"todos": [{"content": "a", "status": "in_progress"}]}));
        assert_eq!(claude, [item("a", "in_progress")]);
        let codex = todo(json!({"items": [{"text": "a", "completed": true}, {"text": "b"}]}));
        assert_eq!(codex, [item("a", "completed"), item("b", "")]);
    }

    #[test]
    fn of_a_long_result_the_beginning_and_the_end_are_kept() {
        let text = format!("first{}é{}14 passed", "é".repeat(20_000), "x".repeat(DETAIL));
        let result = ToolResult::new(&json!("i"), &json!([{"text": text}]), true);
        assert!(result.text.starts_with("first") && result.text.ends_with("14 passed"));
        assert!(result.text.len() < DETAIL + 100 && result.text.contains("bytes left out"));
        assert_eq!(ToolResult::new(&json!(7), &json!({}), false).text, "");
    }
}
