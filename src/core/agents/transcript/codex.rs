//! `codex exec --json`. Its end is `turn.completed` or `turn.failed`. An `error` is also told for
//! every retry, and an item of type `error` may be a mere warning: neither is an end.

use std::collections::HashSet;

use serde_json::Value;

use super::{AgentTranscript, FinalResult, MESSAGE, PHRASE, Tokens, count, cut, target};

/// More than can be under way at once.
const OPEN: usize = 1000;

/// The items that have begun.
#[derive(Debug, Default)]
pub(super) struct CodexReader {
    open: HashSet<String>,
}

impl CodexReader {
    pub fn event(&mut self, told: &mut AgentTranscript, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "thread.started" => told.converses(&event["thread_id"]),
            "turn.started" => {
                told.turn();
                told.does("thinking");
            }
            "item.started" => {
                told.goes_on();
                if self.open.len() < OPEN {
                    self.open.insert(id(&event["item"]));
                }
                uses(told, &event["item"]);
            }
            "item.completed" => {
                told.goes_on();
                let item = &event["item"];
                if self.open.remove(&id(item)) {
                    told.does("thinking");
                } else {
                    uses(told, item);
                }
                if item["type"] == "agent_message" {
                    told.says(item["text"].as_str().unwrap_or_default());
                }
            }
            "error" => told.does(event["message"].as_str().unwrap_or("error")),
            "turn.completed" => {
                let usage = &event["usage"];
                let (all, cached) =
                    (count(&usage["input_tokens"]), count(&usage["cached_input_tokens"]));
                told.spends(Tokens {
                    input: all.saturating_sub(cached),
                    output: count(&usage["output_tokens"]),
                    cache_read: cached,
                    cache_write: count(&usage["cache_write_input_tokens"]),
                });
                let text = told.message.clone().unwrap_or_default();
                told.ends(FinalResult { text, ..FinalResult::default() });
            }
            "turn.failed" => {
                let text = event["error"]["message"].as_str().unwrap_or_default();
                let text = cut(text, MESSAGE);
                told.ends(FinalResult { text, is_error: true, ..FinalResult::default() });
            }
            _ => {}
        }
    }
}

fn id(item: &Value) -> String {
    cut(item["id"].as_str().unwrap_or_default(), PHRASE)
}

fn uses(told: &mut AgentTranscript, item: &Value) {
    let kind = item["type"].as_str().unwrap_or_default();
    match kind {
        "command_execution" | "file_change" | "web_search" => {
            let path = item["changes"][0]["path"].as_str();
            told.uses(kind, target(item).or(path));
        }
        "mcp_tool_call" => told.uses(item["tool"].as_str().unwrap_or(kind), None),
        _ => {}
    }
}
