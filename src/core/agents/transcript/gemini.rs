//! `gemini --output-format stream-json`. Its errors have no class: it is in their text, and in the
//! exit status.

use serde_json::Value;

use super::{AgentTranscript, FinalResult, MESSAGE, Tokens, code, count, cut, target};

/// The message that is being told in parts.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    message: String,
}

impl GeminiReader {
    pub fn event(&mut self, told: &mut AgentTranscript, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind != "message" {
            self.message.clear();
        }
        match kind {
            "init" => {
                told.converses(&event["session_id"]);
                told.runs_on(event["model"].as_str());
                told.does("thinking");
            }
            "message" if event["role"] == "assistant" => {
                told.goes_on();
                if event["delta"] != true {
                    self.message.clear();
                }
                let part = event["content"].as_str().unwrap_or_default();
                if self.message.len() < MESSAGE {
                    self.message.push_str(part);
                }
                told.says(&self.message);
            }
            "tool_use" => {
                told.goes_on();
                let name = event["tool_name"].as_str().unwrap_or("tool");
                told.uses(name, target(&event["parameters"]));
            }
            "tool_result" => told.does("thinking"),
            "result" => result(told, event),
            _ => {}
        }
    }
}

fn result(told: &mut AgentTranscript, event: &Value) {
    let stats = &event["stats"];
    if stats.is_object() {
        let (all, cached) = (count(&stats["input_tokens"]), count(&stats["cached"]));
        told.spends(Tokens {
            input: all.saturating_sub(cached),
            output: count(&stats["output_tokens"]),
            cache_read: cached,
            cache_write: 0,
        });
    }
    let is_error = event["status"] == "error";
    let text = match &event["error"]["message"] {
        Value::String(text) => cut(text, MESSAGE),
        _ if is_error => String::new(),
        _ => told.message.clone().unwrap_or_default(),
    };
    told.ends(FinalResult {
        text,
        is_error,
        codes: code(&event["error"]["type"]).into_iter().collect(),
        ..FinalResult::default()
    });
}
