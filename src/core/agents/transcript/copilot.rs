//! `copilot --output-format json`: events with their fields under `data`, and a last line of type
//! `result`.

use serde_json::Value;

use super::{AgentTranscript, FinalResult, MESSAGE, code, cut, http_status, target};

/// The error since the last message.
#[derive(Debug, Default)]
pub(super) struct CopilotReader {
    error: Option<FinalResult>,
}

impl CopilotReader {
    pub fn event(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        let data = &event["data"];
        match event["type"].as_str().unwrap_or_default() {
            "assistant.turn_start" => {
                transcript.begin_turn();
                transcript.set_activity("thinking");
            }
            "assistant.turn_retry" => {
                let why = data["reason"].as_str().unwrap_or("error");
                transcript.record_wait(why);
            }
            "assistant.message" => {
                self.error = None;
                transcript.reopen();
                transcript.set_model(data["model"].as_str());
                transcript.record_message(data["content"].as_str().unwrap_or_default());
            }
            "tool.execution_start" => {
                transcript.reopen();
                transcript.record_tool(
                    data["toolName"].as_str().unwrap_or("tool"),
                    target(&data["arguments"]),
                );
            }
            "tool.execution_complete" => transcript.set_activity("thinking"),
            "model.call_failure" => transcript.set_model(data["model"].as_str()),
            "session.error" => {
                self.error = Some(FinalResult {
                    text: cut(data["message"].as_str().unwrap_or_default(), MESSAGE),
                    is_error: true,
                    status: http_status(&data["statusCode"]),
                    codes: code(&data["errorType"]).into_iter().collect(),
                    resets_at: None,
                    window: None,
                });
            }
            "result" => {
                transcript.set_conversation(&event["sessionId"]);
                let is_error = event["exitCode"] != 0;
                let answer = transcript.message.clone().unwrap_or_default();
                transcript.finish_with(match self.error.take() {
                    Some(error) if is_error => error,
                    _ if is_error => FinalResult { is_error, ..FinalResult::default() },
                    _ => FinalResult { text: answer, ..FinalResult::default() },
                });
            }
            _ => {}
        }
    }
}
