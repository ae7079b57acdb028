//! The reader of Claude Code's output.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    AgentTranscript, AgentWait, FinalResult, LimitWindow, MESSAGE, PHRASE, Tokens, code, count,
    cut, dollars, http_status,
};

/// Claude Code's `stream-json`, and its `json`, which consists of the last event of the former.
///
/// - One process may report several results if background tasks end after the first. The last one
///   counts: its `total_cost_usd` covers the whole process, its `usage` and `num_turns` only its
///   part.
/// - `subtype` is `success` for most errors; `is_error` marks them. At a turn limit, older versions
///   set only `subtype`.
/// - `rate_limit_event` is a heartbeat. It means a limit only if its status is `rejected` and the
///   run fails; `allowed_warning` means that a limit is near.
/// - A provider error arrives as a message of the model `<synthetic>` with its name.
///
/// - A process that resumes a conversation counts `total_cost_usd` and `modelUsage` from the
///   conversation's beginning in 2.1.332, but only its own part in 2.1.221.
///
/// This is the state since the last result, with the totals before it.
#[derive(Debug, Default)]
pub(super) struct ClaudeState {
    /// The processes before.
    before: EarlierProcesses,
    /// The tokens of each model in the last result, together.
    models: u64,
    /// The tokens of all results.
    settled: Tokens,
    turns: u64,
    /// The tokens of the messages since then, except the last one.
    open: Tokens,
    open_turns: u64,
    /// The id of the last message and its tokens, which each part of the message repeats.
    message: String,
    last: Tokens,
    /// The error name of the last message.
    error: Option<String>,
    /// The error for which it asks its provider again, since the last answer.
    retried: Option<FinalResult>,
    /// The reset time of a limit that was hit, and its period.
    rejected_until: Option<DateTime<Utc>>,
    rejected_window: Option<LimitWindow>,
}

/// The usage of a conversation's processes before the current one.
#[derive(Debug, Default)]
struct EarlierProcesses {
    cost: f64,
    tokens: Tokens,
    models: u64,
}

impl ClaudeState {
    pub fn event(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        transcript.set_conversation(&event["session_id"]);
        match kind {
            "system" => self.system(transcript, event),
            "assistant" => self.assistant(transcript, event),
            "user" if event["message"]["content"][0]["type"] == "tool_result" => {
                let parts = event["message"]["content"].as_array().into_iter().flatten();
                for part in parts {
                    let is_error = part["is_error"] == true;
                    transcript.result(&part["tool_use_id"], &part["content"], is_error);
                }
            }
            "rate_limit_event" => {
                let limit = &event["rate_limit_info"];
                let is_hit = limit["status"] == "rejected";
                self.rejected_until = instant(&limit["resetsAt"]).filter(|_| is_hit);
                self.rejected_window = window(limit).filter(|_| is_hit);
                if let Some(at) = self.rejected_until {
                    transcript.set_wait(AgentWait::Until(at));
                }
            }
            "result" => self.result(transcript, event),
            _ => {}
        }
    }

    /// Begins the output of the next process.
    pub fn next_process(&mut self, transcript: &AgentTranscript) {
        let settled = self.settled.plus(self.open).plus(self.last);
        let cost = transcript.usage.cost_usd.unwrap_or_default();
        *self = ClaudeState {
            before: EarlierProcesses { cost, tokens: settled, models: self.models },
            settled,
            turns: self.turns.saturating_add(self.open_turns),
            ..ClaudeState::default()
        };
    }

    /// The failure of a process that ended without a result, from the signs in its stream.
    pub fn unfinished(self, transcript: &AgentTranscript) -> Option<FinalResult> {
        let resets_at = self.rejected_until;
        if self.error.is_none() && resets_at.is_none() {
            return self.retried;
        }
        Some(FinalResult {
            text: transcript.message.clone().unwrap_or_default(),
            is_error: true,
            codes: self.error.into_iter().collect(),
            status: self.retried.and_then(|retried| retried.status),
            resets_at,
            window: self.rejected_window,
        })
    }

    fn assistant(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        let wait = transcript.wait;
        transcript.reopen();
        let message = &event["message"];
        let is_own = event["parent_tool_use_id"].is_null();
        transcript.set_model(message["model"].as_str());
        self.error = code(&event["error"]);
        let _ = self.retried.take_if(|_| self.error.is_none());
        transcript.usage.tokens = Some(self.settled.plus(self.spend(message)));
        transcript.usage.turns = Some(self.turns.saturating_add(self.open_turns));
        for part in message["content"].as_array().into_iter().flatten() {
            match part["type"].as_str().unwrap_or_default() {
                "text" if is_own => transcript.says(&part["text"]),
                "tool_use" => transcript.uses(&part["name"], &part["input"], &part["id"]),
                "thinking" => transcript.thinks_aloud(&part["thinking"]),
                _ => {}
            }
        }
        // It has the reason for the wait, too.
        transcript.wait = wait.filter(|_| self.error.is_some());
    }

    fn system(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        match event["subtype"].as_str().unwrap_or_default() {
            "init" => {
                transcript.reopen();
                transcript.set_model(event["model"].as_str());
                transcript.thinks();
            }
            "api_retry" => {
                let error = event["error"].as_str().unwrap_or("error");
                transcript.record_wait(&format!(
                    "{error}, retry {} of {}",
                    count(&event["attempt"]),
                    count(&event["max_retries"]),
                ));
                let delay = Duration::from_millis(count(&event["retry_delay_ms"]));
                let until = self.rejected_until.map(AgentWait::Until);
                transcript.set_wait(until.unwrap_or(AgentWait::For(delay)));
                self.retried = Some(FinalResult {
                    status: http_status(&event["error_status"]),
                    codes: code(&event["error"]).into_iter().collect(),
                    ..FinalResult::failure(&Value::Null)
                });
            }
            // Qwen Code.
            "retry" => {
                let data = &event["data"];
                let (attempt, most) = (count(&data["attempt"]), count(&data["maxRetries"]));
                transcript.record_wait(&format!("retry {attempt} of {most}"));
                let delay = Duration::from_millis(count(&data["delayMs"]));
                transcript.set_wait(AgentWait::For(delay));
            }
            "background_tasks_changed" => {
                transcript.background = event["tasks"].as_array().map_or(0, Vec::len);
            }
            _ => {}
        }
    }

    /// Adds a message and returns the tokens of all messages since the last result.
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

    fn result(&mut self, transcript: &mut AgentTranscript, event: &Value) {
        // A program that speaks as Claude does may leave the sum to the reader.
        let has_sum = event["usage"].is_object();
        let sum = if has_sum { tokens(&event["usage"]) } else { self.open.plus(self.last) };
        let turns = if has_sum { count(&event["num_turns"]) } else { self.open_turns };
        self.settled = self.settled.plus(sum);
        self.turns = self.turns.saturating_add(turns);
        (self.open, self.open_turns) = (Tokens::default(), 0);
        (self.message, self.last) = (String::new(), Tokens::default());
        transcript.usage.turns = Some(self.turns);
        let all = models(&event["modelUsage"]);
        self.models = total(all);
        let EarlierProcesses { cost: before, tokens, models } = self.before;
        let own = total(self.settled.minus(tokens));
        let counts_all = models > 0 && self.models.saturating_sub(own) >= models;
        // `usage` is without the subagents. What those of a resumed conversation count, differs.
        if models == 0 && total(all) > total(self.settled) {
            self.settled = all;
        }
        transcript.usage.tokens = Some(self.settled);
        let before = if counts_all { 0.0 } else { before };
        let cost = dollars(&event["total_cost_usd"]).map(|cost| before + cost);
        transcript.usage.cost_usd = cost.or(transcript.usage.cost_usd);
        if let Some(models) = event["modelUsage"].as_object().filter(|models| models.len() == 1) {
            transcript.set_model(models.keys().next().map(String::as_str));
        }

        self.retried = None;
        let subtype = event["subtype"].as_str().unwrap_or_default();
        let is_error = event["is_error"] == true || subtype.starts_with("error");
        let errors = || -> Vec<&str> {
            let all = event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
            // That of Qwen Code.
            all.chain(event["error"]["message"].as_str()).collect()
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
            end.window = window(limit).or(self.rejected_window.take());
        } else {
            transcript.record_message(&text);
        }
        transcript.ends(end);
    }
}

fn window(limit: &Value) -> Option<LimitWindow> {
    limit["rateLimitType"].as_str().and_then(LimitWindow::of_code)
}

/// The tokens of all models together.
fn models(usage: &Value) -> Tokens {
    let all = usage.as_object().into_iter().flatten().map(|(_, model)| Tokens {
        input: count(&model["inputTokens"]),
        output: count(&model["outputTokens"]),
        cache_read: count(&model["cacheReadInputTokens"]),
        cache_write: count(&model["cacheCreationInputTokens"]),
    });
    all.fold(Tokens::default(), Tokens::plus)
}

fn total(Tokens { input, output, cache_read, cache_write }: Tokens) -> u64 {
    [output, cache_read, cache_write].into_iter().fold(input, u64::saturating_add)
}

fn tokens(usage: &Value) -> Tokens {
    let cache_read = count(&usage["cache_read_input_tokens"]);
    // Qwen Code, which gives a total, counts those from the cache in both.
    let again = if usage["total_tokens"].is_number() { cache_read } else { 0 };
    Tokens {
        input: count(&usage["input_tokens"]).saturating_sub(again),
        output: count(&usage["output_tokens"]),
        cache_read,
        cache_write: count(&usage["cache_creation_input_tokens"]),
    }
}

/// Seconds since 1970, up to the year 9999.
fn instant(value: &Value) -> Option<DateTime<Utc>> {
    let seconds = value.as_i64().filter(|seconds| (1..253_402_300_800).contains(seconds))?;
    DateTime::from_timestamp(seconds, 0)
}
