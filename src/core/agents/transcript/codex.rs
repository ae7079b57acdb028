//! `codex exec --json`. Its end is `turn.completed` or `turn.failed`. An `error` event also
//! announces each retry, and an item of type `error` may be only a warning; neither is an end.

use std::collections::HashSet;

use serde_json::Value;

use super::{AgentTranscript, FinalResult, MESSAGE, PHRASE, Tokens, count, cut, target};

/// The limit on open items, above the number that can be open at once.
const OPEN: usize = 1000;

/// The items that have started.
#[derive(Debug, Default)]
pub(super) struct CodexReader {
    open: HashSet<String>,
}

impl CodexReader {
    pub fn event(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "thread.started" => transcript.set_conversation(&event["thread_id"]),
            "turn.started" => {
                transcript.begin_turn();
                transcript.set_activity("thinking");
            }
            "item.started" => {
                transcript.reopen();
                if self.open.len() < OPEN {
                    self.open.insert(id(&event["item"]));
                }
                record_item(transcript, &event["item"]);
            }
            "item.completed" => {
                transcript.reopen();
                let item = &event["item"];
                if self.open.remove(&id(item)) {
                    transcript.set_activity("thinking");
                } else {
                    record_item(transcript, item);
                }
                if item["type"] == "agent_message" {
                    transcript.record_message(item["text"].as_str().unwrap_or_default());
                }
            }
            "error" => transcript.set_activity(event["message"].as_str().unwrap_or("error")),
            "turn.completed" => {
                let usage = &event["usage"];
                let (all, cached) =
                    (count(&usage["input_tokens"]), count(&usage["cached_input_tokens"]));
                transcript.add_tokens(Tokens {
                    input: all.saturating_sub(cached),
                    output: count(&usage["output_tokens"]),
                    cache_read: cached,
                    cache_write: count(&usage["cache_write_input_tokens"]),
                });
                let text = transcript.message.clone().unwrap_or_default();
                transcript.finish_with(FinalResult { text, ..FinalResult::default() });
            }
            "turn.failed" => {
                let text = event["error"]["message"].as_str().unwrap_or_default();
                let text = cut(text, MESSAGE);
                transcript.finish_with(FinalResult {
                    text,
                    is_error: true,
                    ..FinalResult::default()
                });
            }
            _ => {}
        }
    }
}

fn id(item: &Value) -> String {
    cut(item["id"].as_str().unwrap_or_default(), PHRASE)
}

fn record_item(transcript: &mut AgentTranscript, item: &Value) {
    let kind = item["type"].as_str().unwrap_or_default();
    match kind {
        "command_execution" | "file_change" | "web_search" => {
            let path = item["changes"][0]["path"].as_str();
            transcript.record_tool(kind, target(item).or(path));
        }
        "mcp_tool_call" => transcript.record_tool(item["tool"].as_str().unwrap_or(kind), None),
        _ => {}
    }
}
