//! Claude Code's `stream-json`, and its `json`, which is the last event of the other.
//!
//! - One process may give several results, when background tasks end after the first: the last one
//!   counts, its `total_cost_usd` is of the whole process, its `usage` and `num_turns` of its part.
//! - `subtype` is `success` in most errors: `is_error` says whether it is one. At a limit of turns
//!   older versions say so in `subtype` alone.
//! - `rate_limit_event` is a heartbeat; it tells of a limit only when its status is `rejected` and
//!   the run fails.
//! - An error of the provider comes as a message of the model `<synthetic>` with its name.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    AgentTranscript, FinalResult, MESSAGE, PHRASE, Tokens, code, count, cut, dollars, http_status,
    target,
};

/// What was told since the last result, and before it.
#[derive(Debug, Default)]
pub(super) struct ClaudeReader {
    /// Of all results.
    settled: Tokens,
    turns: u64,
    /// Of the messages since, but the last.
    open: Tokens,
    open_turns: u64,
    /// The last message and its tokens: each of its parts repeats them.
    message: String,
    last: Tokens,
    /// The name of the error that the last message was.
    error: Option<String>,
    /// When the limit is lifted that it has met.
    rejected_until: Option<DateTime<Utc>>,
}

impl ClaudeReader {
    pub fn event(&mut self, told: &mut AgentTranscript, event: &Value) {
        told.converses(&event["session_id"]);
        match event["type"].as_str().unwrap_or_default() {
            "system" => system(told, event),
            "assistant" => self.assistant(told, event),
            "user" if event["message"]["content"][0]["type"] == "tool_result" => {
                told.does("thinking");
            }
            "rate_limit_event" => {
                let limit = &event["rate_limit_info"];
                let resets_at = instant(&limit["resetsAt"]);
                self.rejected_until = resets_at.filter(|_| limit["status"] == "rejected");
            }
            "result" => self.result(told, event),
            _ => {}
        }
    }

    fn assistant(&mut self, told: &mut AgentTranscript, event: &Value) {
        told.goes_on();
        let message = &event["message"];
        let is_own = event["parent_tool_use_id"].is_null();
        told.runs_on(message["model"].as_str());
        self.error = code(&event["error"]);
        told.usage.tokens = Some(self.settled.plus(self.spend(message)));
        told.usage.turns = Some(self.turns.saturating_add(self.open_turns));
        for part in message["content"].as_array().into_iter().flatten() {
            match part["type"].as_str().unwrap_or_default() {
                "text" if is_own => told.says(part["text"].as_str().unwrap_or_default()),
                "tool_use" => {
                    told.uses(part["name"].as_str().unwrap_or("tool"), target(&part["input"]));
                }
                "thinking" => told.does("thinking"),
                _ => {}
            }
        }
    }

    /// The tokens of all messages since the last result, this one included.
    fn spend(&mut self, message: &Value) -> Tokens {
        let id = cut(message["id"].as_str().unwrap_or_default(), PHRASE);
        let tokens = tokens(&message["usage"]);
        if self.message.is_empty() || self.message != id {
            self.open = self.open.plus(self.last);
            self.open_turns = self.open_turns.saturating_add(1);
        }
        (self.message, self.last) = (id, tokens);
        self.open.plus(self.last)
    }

    fn result(&mut self, told: &mut AgentTranscript, event: &Value) {
        self.settled = self.settled.plus(tokens(&event["usage"]));
        self.turns = self.turns.saturating_add(count(&event["num_turns"]));
        (self.open, self.open_turns) = (Tokens::default(), 0);
        (self.message, self.last) = (String::new(), Tokens::default());
        told.usage.tokens = Some(self.settled);
        told.usage.turns = Some(self.turns);
        told.usage.cost_usd = dollars(&event["total_cost_usd"]).or(told.usage.cost_usd);
        if let Some(models) = event["modelUsage"].as_object().filter(|models| models.len() == 1) {
            told.runs_on(models.keys().next().map(String::as_str));
        }

        let subtype = event["subtype"].as_str().unwrap_or_default();
        let is_error = event["is_error"] == true || subtype.starts_with("error");
        let errors = || -> Vec<&str> {
            event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let text = event["result"].as_str().map_or_else(|| errors().join("; "), str::to_owned);
        let mut end = FinalResult { text: cut(&text, MESSAGE), is_error, ..FinalResult::default() };
        if is_error {
            let said = [
                &event["api_error"],
                &event["subtype"],
                &event["terminal_reason"],
                &event["stop_reason"],
                &event["api_error_type"],
            ];
            end.codes =
                self.error.take().into_iter().chain(said.into_iter().filter_map(code)).collect();
            end.status = http_status(&event["api_error_status"]);
            let limit = &event["api_error_params"]["rate_limit_info"];
            let heard = self.rejected_until.take();
            end.resets_at = instant(&limit["resetsAt"]).or(heard);
        } else {
            told.says(&text);
        }
        told.ends(end);
    }
}

fn system(told: &mut AgentTranscript, event: &Value) {
    match event["subtype"].as_str().unwrap_or_default() {
        "init" => {
            told.goes_on();
            told.runs_on(event["model"].as_str());
            told.does("thinking");
        }
        "api_retry" => told.waits(&format!(
            "{}, retry {} of {}",
            event["error"].as_str().unwrap_or("error"),
            count(&event["attempt"]),
            count(&event["max_retries"]),
        )),
        "background_tasks_changed" => {
            told.background = event["tasks"].as_array().map_or(0, Vec::len);
        }
        _ => {}
    }
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        input: count(&usage["input_tokens"]),
        output: count(&usage["output_tokens"]),
        cache_read: count(&usage["cache_read_input_tokens"]),
        cache_write: count(&usage["cache_creation_input_tokens"]),
    }
}

/// Seconds since 1970, up to the year 9999.
fn instant(value: &Value) -> Option<DateTime<Utc>> {
    let seconds = value.as_i64().filter(|seconds| (1..253_402_300_800).contains(seconds))?;
    DateTime::from_timestamp(seconds, 0)
}
