//! `copilot --output-format json`: events with their fields under `data`, and a last line `result`.

use serde_json::Value;

use super::{AgentTranscript, FinalResult, MESSAGE, code, cut, http_status, target};

/// The error since the last message.
#[derive(Debug, Default)]
pub(super) struct CopilotReader {
    error: Option<FinalResult>,
}

impl CopilotReader {
    pub fn event(&mut self, told: &mut AgentTranscript, event: &Value) {
        let data = &event["data"];
        match event["type"].as_str().unwrap_or_default() {
            "assistant.turn_start" => {
                told.turn();
                told.does("thinking");
            }
            "assistant.turn_retry" => {
                let why = data["reason"].as_str().unwrap_or("error");
                told.waits(why);
            }
            "assistant.message" => {
                self.error = None;
                told.goes_on();
                told.runs_on(data["model"].as_str());
                told.says(data["content"].as_str().unwrap_or_default());
            }
            "tool.execution_start" => {
                told.goes_on();
                told.uses(data["toolName"].as_str().unwrap_or("tool"), target(&data["arguments"]));
            }
            "tool.execution_complete" => told.does("thinking"),
            "model.call_failure" => told.runs_on(data["model"].as_str()),
            "session.error" => {
                self.error = Some(FinalResult {
                    text: cut(data["message"].as_str().unwrap_or_default(), MESSAGE),
                    is_error: true,
                    status: http_status(&data["statusCode"]),
                    codes: code(&data["errorType"]).into_iter().collect(),
                    resets_at: None,
                });
            }
            "result" => {
                told.converses(&event["sessionId"]);
                let is_error = event["exitCode"] != 0;
                let answer = told.message.clone().unwrap_or_default();
                told.ends(match self.error.take() {
                    Some(error) if is_error => error,
                    _ if is_error => FinalResult { is_error, ..FinalResult::default() },
                    _ => FinalResult { text: answer, ..FinalResult::default() },
                });
            }
            _ => {}
        }
    }
}
