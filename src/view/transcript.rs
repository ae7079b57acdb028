//! The transcript of an attempt, in parts of its output.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::{
    adapters::terminal::{plain, visible, visible_lines},
    core::agents::transcript::{OutputPiece, TimedPiece, ToolInput},
};

/// A part of an agent's transcript.
#[derive(Debug, Serialize)]
pub struct TranscriptPart {
    /// The offset of the part, in bytes of the output.
    pub from: u64,
    /// The offset of the next part.
    pub next: u64,
    /// The size of the output.
    pub size: u64,
    /// The messages and actions of the agent, in order.
    pub pieces: Vec<TranscriptPiece>,
}

/// A message or action of an agent.
#[derive(Debug, Serialize)]
pub struct TranscriptPiece {
    /// When, if the agent prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<DateTime<Utc>>,
    #[serde(flatten)]
    kind: PieceKind,
}

/// The kind of a piece.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum PieceKind {
    /// A message.
    Says { text: String },
    /// The continuation of the message before it.
    GoesOn { text: String },
    /// A line that is not an event.
    Line { text: String },
    /// A thought of the model.
    Thinks { text: String },
    /// A wait.
    Waits { text: String },
    /// A use of a tool.
    Uses { id: String, tool: String, text: String, input: InputView },
    /// The result of a tool use.
    Result { id: String, text: String, is_error: bool },
    /// An error.
    Fails { text: String },
}

/// The action requested of a tool; one of the fields is set.
#[derive(Debug, Default, Serialize)]
struct InputView {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edits: Option<Vec<[String; 3]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<Vec<[String; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<String>,
}

/// The folders whose names are left out of texts: paths are relative to them.
pub struct ShownPaths(Vec<String>);

impl ShownPaths {
    /// The paths below these folders, an inner one before an outer one.
    pub fn below(folders: impl IntoIterator<Item = String>) -> ShownPaths {
        let folders = folders.into_iter().map(|it| it.trim_end_matches('/').to_owned());
        // A folder as short as `/` is in every path.
        let mut folders: Vec<String> = folders.filter(|it| it.len() > 1).collect();
        folders.sort_by_key(|it| std::cmp::Reverse(it.len()));
        ShownPaths(folders)
    }

    /// A text without them.
    pub fn text(&self, text: &str) -> String {
        let text = plain(text).into_owned();
        let text = self.0.iter().fold(text, |text, folder| without(&text, folder));
        visible_lines(&text)
    }
}

/// The text with paths below a folder relative to it.
fn without(text: &str, folder: &str) -> String {
    let is_name = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(folder) {
        out += &rest[..at];
        let is_inside = out.ends_with(is_name);
        rest = &rest[at + folder.len()..];
        match rest.strip_prefix('/') {
            Some(below) if !is_inside => rest = below,
            None if !is_inside && !rest.starts_with(is_name) => out.push('.'),
            _ => out += folder,
        }
    }
    out + rest
}

impl TranscriptPiece {
    /// A piece of the output.
    pub fn of(timed: TimedPiece, paths: &ShownPaths) -> TranscriptPiece {
        let kind = match timed.piece {
            OutputPiece::Message(text) => PieceKind::Says { text: paths.text(text.trim_start()) },
            OutputPiece::Continuation(text) => PieceKind::GoesOn { text: paths.text(&text) },
            OutputPiece::Line(text) => PieceKind::Line { text: paths.text(&text) },
            OutputPiece::Thought(text) => PieceKind::Thinks { text: paths.text(text.trim()) },
            OutputPiece::Action(text) => PieceKind::Waits { text: paths.text(&text) },
            OutputPiece::Use(used) => {
                let target = used.line.strip_prefix(&used.tool).unwrap_or(&used.line);
                PieceKind::Uses {
                    text: paths.text(target.trim()),
                    tool: visible(&used.tool).into_owned(),
                    input: InputView::of(used.input, paths),
                    id: used.id,
                }
            }
            OutputPiece::Result(result) => PieceKind::Result {
                text: paths.text(result.text.trim_end()),
                is_error: result.is_error,
                id: result.id,
            },
            OutputPiece::Failure(text) => PieceKind::Fails { text: paths.text(&text) },
        };
        TranscriptPiece { at: timed.at, kind }
    }
}

impl InputView {
    fn of(input: ToolInput, paths: &ShownPaths) -> InputView {
        let (mut view, text) = (InputView::default(), |text: &str| paths.text(text));
        match input {
            ToolInput::Command(command) => view.command = Some(text(&command)),
            ToolInput::Patch(patch) => view.patch = Some(text(&patch)),
            ToolInput::Edits(edits) => {
                let edits = edits.iter().map(|it| [text(&it.path), text(&it.old), text(&it.new)]);
                view.edits = Some(edits.collect());
            }
            ToolInput::Todo(items) => {
                let items = items.into_iter().map(|it| [it.state, text(&it.text)]);
                view.todo = Some(items.collect());
            }
            ToolInput::Other(json) => view.other = Some(text(&json)).filter(|it| !it.is_empty()),
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::agents::transcript::{Format, TranscriptReader};
    use serde_json::json;

    /// The pieces of a stream as JSON.
    fn pieces(format: Format, events: &[serde_json::Value]) -> serde_json::Value {
        let mut reader = TranscriptReader::new(format).with_pieces();
        for event in events {
            reader.push(format!("{event}\n").as_bytes());
        }
        let paths = ShownPaths::below(["/r/.slots/1".to_owned(), "/r".to_owned(), "/".to_owned()]);
        let pieces = reader.take_pieces().into_iter().map(|it| TranscriptPiece::of(it, &paths));
        json!(pieces.collect::<Vec<_>>())
    }

    #[test]
    fn a_tool_that_fails_stands_above_what_the_agent_claims() {
        let says = |part| json!({"type": "assistant", "timestamp": "2026-11-20T20:55:14.069Z", "message": {"content": [part]}});
        let events = [
            says(json!({"type": "thinking", "thinking": "hm"})),
            says(
                json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "cd /r/.slots/1 && make /r/a"}}),
            ),
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "\u{1b}[31m1 failed", "is_error": true}]}}),
            says(json!({"type": "text", "text": "14 passed"})),
        ];
        let at = "2026-11-20T20:55:14.069Z";
        assert_eq!(
            pieces(Format::ClaudeJson, &events),
            json!([
                {"at": at, "kind": "thinks", "text": "hm"},
                {"at": at, "kind": "uses", "id": "t", "tool": "Bash", "text": "cd . && make a", "input": {"command": "cd . && make a"}},
                {"kind": "result", "id": "t", "text": "1 failed", "is_error": true},
                {"at": at, "kind": "says", "text": "14 passed"},
            ])
        );
    }

    #[test]
    fn only_whole_names_of_folders_are_left_out() {
        for (text, want) in [
            ("/r/a /r", "a ."),
            ("'/r' /r2/a /x/r/a", "'.' /r2/a /x/r/a"),
            ("/r/", ""),
            ("none", "none"),
        ] {
            assert_eq!(without(text, "/r"), want);
        }
    }

    #[test]
    fn the_steps_of_every_agent_have_their_results() {
        let cases = [
            (
                Format::CodexJson,
                vec![
                    json!({"type": "item.started", "item": {"id": "i", "type": "command_execution", "command": "make"}}),
                    json!({"type": "item.completed", "item": {"id": "i", "type": "command_execution", "command": "make", "aggregated_output": "no", "exit_code": 2}}),
                ],
            ),
            (
                Format::GeminiJson,
                vec![
                    json!({"type": "tool_use", "tool_name": "sh", "tool_id": "i", "parameters": {"command": "make"}}),
                    json!({"type": "tool_result", "tool_id": "i", "status": "error", "output": "no"}),
                ],
            ),
            (
                Format::OpencodeJson,
                vec![json!({"type": "tool_use", "part": {"tool": "bash", "callID": "i", "state": {
                    "status": "completed", "input": {"command": "make"}, "output": "no", "metadata": {"exit": 1}}}})],
            ),
            (
                Format::PiJson,
                vec![
                    json!({"type": "tool_execution_start", "toolCallId": "i", "toolName": "bash", "args": {"command": "make"}}),
                    json!({"type": "tool_execution_end", "toolCallId": "i", "toolName": "bash",
                        "result": {"content": [{"type": "text", "text": "no"}]}, "isError": true}),
                ],
            ),
            (
                Format::CopilotJson,
                vec![
                    json!({"type": "tool.execution_start", "data": {"toolCallId": "i", "toolName": "bash", "arguments": {"command": "make"}}}),
                    json!({"type": "tool.execution_complete", "data": {"toolCallId": "i", "success": false, "error": {"message": "no"}}}),
                ],
            ),
        ];
        for (format, events) in cases {
            let pieces = pieces(format, &events);
            assert_eq!(pieces[0]["input"], json!({"command": "make"}), "{pieces}");
            let result = json!({"kind": "result", "id": "i", "text": "no", "is_error": true});
            assert_eq!((&pieces[1], pieces.as_array().unwrap().len()), (&result, 2), "{format}");
        }
    }
}
