//! `gemini --output-format stream-json`. Its errors have no code, only a text and an exit status.

use serde_json::Value;

use super::{AgentTranscript, FinalResult, MESSAGE, Tokens, code, count, cut, target};

/// The message that is arriving in parts.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    message: String,
}

impl GeminiReader {
    pub fn event(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind != "message" {
            self.message.clear();
        }
        match kind {
            "init" => {
                transcript.set_conversation(&event["session_id"]);
                transcript.set_model(event["model"].as_str());
                transcript.set_activity("thinking");
            }
            "message" if event["role"] == "assistant" => {
                transcript.reopen();
                if event["delta"] != true {
                    self.message.clear();
                }
                let part = event["content"].as_str().unwrap_or_default();
                if self.message.len() < MESSAGE {
                    self.message.push_str(part);
                }
                transcript.record_message(&self.message);
            }
            "tool_use" => {
                transcript.reopen();
                let name = event["tool_name"].as_str().unwrap_or("tool");
                transcript.record_tool(name, target(&event["parameters"]));
            }
            "tool_result" => transcript.set_activity("thinking"),
            "result" => result(transcript, event),
            _ => {}
        }
    }
}

fn result(transcript: &mut AgentTranscript, event: &Value) {
    let stats = &event["stats"];
    if stats.is_object() {
        let (all, cached) = (count(&stats["input_tokens"]), count(&stats["cached"]));
        transcript.add_tokens(Tokens {
            input: all.saturating_sub(cached),
            output: count(&stats["output_tokens"]),
            cache_read: cached,
            cache_write: 0,
        });
    }
    let is_error = event["status"] == "error";
    let text = match event["error"]["message"].as_str() {
        Some(text) => cut(text, MESSAGE),
        None if is_error => String::new(),
        None => transcript.message.clone().unwrap_or_default(),
    };
    transcript.finish_with(FinalResult {
        text,
        is_error,
        codes: code(&event["error"]["type"]).into_iter().collect(),
        ..FinalResult::default()
    });
}
