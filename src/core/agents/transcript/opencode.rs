//! `opencode run --format json`. It reports no result: a step that ends for a reason other than
//! tool calls is the end. It can recover from an `error` by compacting the conversation, so an
//! error is the result only if the process exits after it.

use serde_json::Value;

use super::{
    AgentTranscript, FinalResult, MESSAGE, Tokens, code, count, cut, dollars, http_status, target,
};

/// The cost of the steps so far.
#[derive(Debug, Default)]
pub(super) struct OpencodeReader {
    cost: f64,
}

impl OpencodeReader {
    pub fn event(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        transcript.set_conversation(&event["sessionID"]);
        let part = &event["part"];
        match event["type"].as_str().unwrap_or_default() {
            "step_start" => {
                transcript.begin_turn();
                transcript.set_activity("thinking");
            }
            "text" => {
                transcript.reopen();
                transcript.record_message(part["text"].as_str().unwrap_or_default());
            }
            "tool_use" => {
                transcript.reopen();
                transcript.record_tool(
                    part["tool"].as_str().unwrap_or("tool"),
                    target(&part["state"]["input"]),
                );
            }
            "step_finish" => self.step(transcript, part),
            "error" => {
                let data = &event["error"]["data"];
                let text = cut(data["message"].as_str().unwrap_or_default(), MESSAGE);
                transcript.finish_with(FinalResult {
                    text,
                    is_error: true,
                    status: http_status(&data["statusCode"]),
                    codes: code(&event["error"]["name"]).into_iter().collect(),
                    resets_at: None,
                    window: None,
                });
                transcript.reopen();
            }
            _ => {}
        }
    }

    fn step(&mut self, transcript: &mut AgentTranscript, part: &Value) {
        let (tokens, cache) = (&part["tokens"], &part["tokens"]["cache"]);
        transcript.add_tokens(Tokens {
            input: count(&tokens["input"]),
            output: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
            cache_read: count(&cache["read"]),
            cache_write: count(&cache["write"]),
        });
        self.cost += dollars(&part["cost"]).unwrap_or(0.0);
        // opencode reports a cost of zero for models with an unknown price.
        transcript.usage.cost_usd = (self.cost > 0.0 && self.cost.is_finite()).then_some(self.cost);
        if part["reason"].as_str().is_some_and(|reason| reason != "tool-calls") {
            let text = transcript.message.clone().unwrap_or_default();
            transcript.finish_with(FinalResult { text, ..FinalResult::default() });
        } else {
            transcript.set_activity("thinking");
        }
    }
}
