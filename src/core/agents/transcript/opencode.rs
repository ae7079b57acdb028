//! `opencode run --format json`. It has no result: a step that ends for another reason than to use
//! tools is its end. It may recover from an `error`, by making the conversation shorter, so that an
//! error is its last word only when it exits.

use serde_json::Value;

use super::{
    AgentTranscript, FinalResult, MESSAGE, Tokens, code, count, cut, dollars, http_status, target,
};

/// What the steps cost.
#[derive(Debug, Default)]
pub(super) struct OpencodeReader {
    cost: f64,
}

impl OpencodeReader {
    pub fn event(&mut self, told: &mut AgentTranscript, event: &Value) {
        told.converses(&event["sessionID"]);
        let part = &event["part"];
        match event["type"].as_str().unwrap_or_default() {
            "step_start" => {
                told.turn();
                told.does("thinking");
            }
            "text" => {
                told.goes_on();
                told.says(part["text"].as_str().unwrap_or_default());
            }
            "tool_use" => {
                told.goes_on();
                told.uses(part["tool"].as_str().unwrap_or("tool"), target(&part["state"]["input"]));
            }
            "step_finish" => self.step(told, part),
            "error" => {
                let data = &event["error"]["data"];
                let text = cut(data["message"].as_str().unwrap_or_default(), MESSAGE);
                told.ends(FinalResult {
                    text,
                    is_error: true,
                    status: http_status(&data["statusCode"]),
                    codes: code(&event["error"]["name"]).into_iter().collect(),
                    resets_at: None,
                });
                told.goes_on();
            }
            _ => {}
        }
    }

    fn step(&mut self, told: &mut AgentTranscript, part: &Value) {
        let (tokens, cache) = (&part["tokens"], &part["tokens"]["cache"]);
        told.spends(Tokens {
            input: count(&tokens["input"]),
            output: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
            cache_read: count(&cache["read"]),
            cache_write: count(&cache["write"]),
        });
        self.cost += dollars(&part["cost"]).unwrap_or(0.0);
        // Models whose price it does not know cost it nothing.
        told.usage.cost_usd = (self.cost > 0.0 && self.cost.is_finite()).then_some(self.cost);
        if part["reason"].as_str().is_some_and(|reason| reason != "tool-calls") {
            let text = told.message.clone().unwrap_or_default();
            told.ends(FinalResult { text, ..FinalResult::default() });
        } else {
            told.does("thinking");
        }
    }
}
