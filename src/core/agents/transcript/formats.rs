//! The readers of each agent's output. Those of JSON lines share one state, [`EventReader`].

use std::{collections::HashSet, time::Duration};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    AgentTranscript, AgentWait, FinalResult, Format, LimitWindow, MESSAGE, PHRASE, TextEnd, Tokens,
    code, count, cut, dollars, http_status, short, target,
};

/// The state between the events of one attempt.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    claude: ClaudeState,
    /// The items of codex that have started.
    open: HashSet<String>,
    /// The message of gemini that is arriving in parts.
    message: String,
    /// The cost of the steps of opencode so far.
    cost: f64,
    /// The error of codex or copilot since its last message.
    error: Option<FinalResult>,
}

impl EventReader {
    pub fn event(&mut self, format: Format, transcript: &mut AgentTranscript, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        match format {
            Format::ClaudeJson => self.claude.event(kind, transcript, event),
            Format::CodexJson => self.codex(kind, transcript, event),
            Format::GeminiJson => self.gemini(kind, transcript, event),
            Format::OpencodeJson => self.opencode(kind, transcript, event),
            Format::CopilotJson => self.copilot(kind, transcript, event),
            Format::Text | Format::Aider => {}
        }
    }

    /// Takes the error that an agent printed last as its result if it ended without one.
    pub fn finish(self, transcript: &mut AgentTranscript) {
        let Some(error) = self.error.or_else(|| self.claude.unfinished(transcript)) else {
            return;
        };
        if transcript.end.is_none() || !transcript.is_over {
            transcript.ends(error);
        }
    }

    /// `codex exec --json`. Its end is `turn.completed` or `turn.failed`. An `error` event also
    /// announces each retry, and an item of type `error` may be only a warning; neither is an end.
    fn codex(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        /// The limit on open items, above the number that can be open at once.
        const OPEN: usize = 1000;
        let item = &event["item"];
        let id = || cut(item["id"].as_str().unwrap_or_default(), PHRASE);
        match kind {
            "thread.started" => transcript.set_conversation(&event["thread_id"]),
            "turn.started" => transcript.begin_turn(),
            "item.started" => {
                self.error = None;
                if self.open.len() < OPEN {
                    self.open.insert(id());
                }
                (transcript.tools_running, transcript.awaits_provider) = (self.open.len(), false);
                codex_item(transcript, item);
            }
            "item.completed" => {
                transcript.reopen();
                if !self.open.remove(&id()) {
                    codex_item(transcript, item);
                }
                transcript.tools_running = self.open.len();
                transcript.thinks();
                if item["type"] == "agent_message" {
                    transcript.says(&item["text"]);
                }
            }
            "error" => {
                let message = event["message"].as_str().unwrap_or("error");
                transcript.set_activity(message);
                if message.contains("waiting for network") {
                    transcript.set_wait(AgentWait::Network);
                }
                self.error = Some(FinalResult::failure(&event["message"]));
            }
            "turn.completed" => {
                self.error = None;
                let usage = &event["usage"];
                let cached = count(&usage["cached_input_tokens"]);
                transcript.add_tokens(Tokens {
                    input: count(&usage["input_tokens"]).saturating_sub(cached),
                    output: count(&usage["output_tokens"]),
                    cache_read: cached,
                    cache_write: count(&usage["cache_write_input_tokens"]),
                });
                transcript.succeeds();
            }
            "turn.failed" => {
                self.error = None;
                transcript.ends(FinalResult::failure(&event["error"]["message"]));
            }
            _ => {}
        }
    }

    /// `gemini --output-format stream-json`. Its errors have no code, only a text and an exit status.
    fn gemini(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        if kind != "message" {
            self.message.clear();
        }
        match kind {
            "init" => {
                transcript.set_conversation(&event["session_id"]);
                transcript.set_model(event["model"].as_str());
                transcript.thinks();
            }
            "message" if event["role"] == "assistant" => {
                if event["delta"] != true {
                    self.message.clear();
                }
                if self.message.len() < MESSAGE {
                    self.message.push_str(event["content"].as_str().unwrap_or_default());
                }
                transcript.reopen();
                transcript.record_message(&self.message);
            }
            "tool_use" => transcript.uses(&event["tool_name"], &event["parameters"]),
            "tool_result" => transcript.tools_ended(1),
            "result" => {
                let stats = &event["stats"];
                if stats.is_object() {
                    let cached = count(&stats["cached"]);
                    transcript.add_tokens(Tokens {
                        input: count(&stats["input_tokens"]).saturating_sub(cached),
                        output: count(&stats["output_tokens"]),
                        cache_read: cached,
                        cache_write: 0,
                    });
                }
                let (error, is_error) = (&event["error"], event["status"] == "error");
                let mut end = FinalResult::failure(&error["message"]);
                if !is_error && !error["message"].is_string() {
                    end.text = transcript.message.clone().unwrap_or_default();
                }
                let codes = code(&error["type"]).into_iter().collect();
                transcript.ends(FinalResult { is_error, codes, ..end });
            }
            _ => {}
        }
    }

    /// `opencode run --format json`. It reports no result: a step that ends for a reason other than
    /// tool calls is the end. It can recover from an `error` by compacting the conversation, so an
    /// error is the result only if the process exits after it.
    fn opencode(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        transcript.set_conversation(&event["sessionID"]);
        let part = &event["part"];
        match kind {
            "step_start" => transcript.begin_turn(),
            "text" => transcript.says(&part["text"]),
            // It is printed when the tool has ended.
            "tool_use" => {
                transcript.uses(&part["tool"], &part["state"]["input"]);
                transcript.tools_running = 0;
                transcript.awaits_provider = true;
            }
            "step_finish" => {
                let (tokens, cache) = (&part["tokens"], &part["tokens"]["cache"]);
                transcript.add_tokens(Tokens {
                    input: count(&tokens["input"]),
                    output: count(&tokens["output"]).saturating_add(count(&tokens["reasoning"])),
                    cache_read: count(&cache["read"]),
                    cache_write: count(&cache["write"]),
                });
                self.cost += dollars(&part["cost"]).unwrap_or(0.0);
                // opencode reports a cost of zero for models with an unknown price.
                let is_known = self.cost > 0.0 && self.cost.is_finite();
                transcript.usage.cost_usd = is_known.then_some(self.cost);
                if part["reason"].as_str().is_some_and(|reason| reason != "tool-calls") {
                    transcript.succeeds();
                } else {
                    transcript.thinks();
                }
            }
            "error" => {
                let data = &event["error"]["data"];
                transcript.ends(FinalResult {
                    status: http_status(&data["statusCode"]),
                    codes: code(&event["error"]["name"]).into_iter().collect(),
                    ..FinalResult::failure(&data["message"])
                });
                transcript.reopen();
            }
            _ => {}
        }
    }

    /// `copilot --output-format json`: events with their fields under `data`, and a last line of type
    /// `result`.
    fn copilot(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        let data = &event["data"];
        match kind {
            "assistant.turn_start" => transcript.begin_turn(),
            "assistant.turn_retry" => {
                transcript.record_wait(data["reason"].as_str().unwrap_or("error"));
            }
            "assistant.message" => {
                self.error = None;
                transcript.set_model(data["model"].as_str());
                transcript.says(&data["content"]);
            }
            "tool.execution_start" => transcript.uses(&data["toolName"], &data["arguments"]),
            "tool.execution_complete" => transcript.tools_ended(1),
            "model.call_failure" => transcript.set_model(data["model"].as_str()),
            "session.error" => {
                self.error = Some(FinalResult {
                    status: http_status(&data["statusCode"]),
                    codes: code(&data["errorType"]).into_iter().collect(),
                    ..FinalResult::failure(&data["message"])
                });
            }
            "result" => {
                transcript.set_conversation(&event["sessionId"]);
                let error = self.error.take();
                if event["exitCode"] == 0 {
                    transcript.succeeds();
                } else {
                    transcript.ends(error.unwrap_or_else(|| FinalResult::failure(&Value::Null)));
                }
            }
            _ => {}
        }
    }
}

fn codex_item(transcript: &mut AgentTranscript, item: &Value) {
    transcript.reopen();
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

/// Claude Code's `stream-json`, and its `json`, which consists of the last event of the former.
///
/// - One process may report several results if background tasks end after the first. The last one
///   counts: its `total_cost_usd` covers the whole process, its `usage` and `num_turns` only its
///   part.
/// - `subtype` is `success` for most errors; `is_error` tells. At a turn limit, older versions set
///   only `subtype`.
/// - `rate_limit_event` is a heartbeat. It means a limit only if its status is `rejected` and the
///   run fails.
/// - A provider error arrives as a message of the model `<synthetic>` with its name.
///
/// This is the state since the last result, with the totals before it.
#[derive(Debug, Default)]
struct ClaudeState {
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

impl ClaudeState {
    fn event(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        transcript.set_conversation(&event["session_id"]);
        match kind {
            "system" => self.system(transcript, event),
            "assistant" => self.assistant(transcript, event),
            "user" if event["message"]["content"][0]["type"] == "tool_result" => {
                let parts = event["message"]["content"].as_array().map_or(0, Vec::len);
                transcript.tools_ended(parts);
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

    /// The failure of a process that ended without a result, from the signs in its stream.
    fn unfinished(self, transcript: &AgentTranscript) -> Option<FinalResult> {
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
                "tool_use" => transcript.uses(&part["name"], &part["input"]),
                "thinking" => transcript.thinks(),
                _ => {}
            }
        }
        // It says why it waits, too.
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
        self.settled = self.settled.plus(tokens(&event["usage"]));
        self.turns = self.turns.saturating_add(count(&event["num_turns"]));
        (self.open, self.open_turns) = (Tokens::default(), 0);
        (self.message, self.last) = (String::new(), Tokens::default());
        transcript.usage.tokens = Some(self.settled);
        transcript.usage.turns = Some(self.turns);
        transcript.usage.cost_usd = dollars(&event["total_cost_usd"]).or(transcript.usage.cost_usd);
        if let Some(models) = event["modelUsage"].as_object().filter(|models| models.len() == 1) {
            transcript.set_model(models.keys().next().map(String::as_str));
        }

        self.retried = None;
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

/// aider prints text only, and exits with code 0 even after provider errors. Its error lines start
/// with `litellm.`, and a successful turn ends with `Tokens:`, so these lines are its result. An
/// answer that quotes such an error is followed by a `Tokens:` line.
///
/// This is the error since the last successful turn.
#[derive(Debug, Default)]
pub(super) struct AiderReader {
    error: Option<String>,
}

impl AiderReader {
    pub fn line(&mut self, transcript: &mut AgentTranscript, text: &mut TextEnd, line: &[u8]) {
        text.take(transcript, line);
        text.take(transcript, b"\n");
        let line = String::from_utf8_lossy(line);
        if let Some(rest) = line.strip_prefix("litellm.") {
            let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            if name.ends_with("Error") || name.ends_with("Exception") || name == "Timeout" {
                self.error = Some(short(&line));
            }
        } else if let Some(tokens) = aider_tokens(&line) {
            self.error = None;
            transcript.add_tokens(tokens);
            transcript.count_turn();
        }
    }

    pub fn finish(&mut self, transcript: &mut AgentTranscript) {
        if let Some(text) = self.error.take() {
            let name = text["litellm.".len()..].split([':', ' ']).next().unwrap_or_default();
            let codes = vec![name.to_owned()];
            let (is_error, rest) = (true, FinalResult::default());
            transcript.ends(FinalResult { text, is_error, codes, ..rest });
        }
    }
}

/// `Tokens: 1.2k sent, 9 received.`
fn aider_tokens(line: &str) -> Option<Tokens> {
    let number = |word: &str| -> Option<u64> {
        let (digits, unit) = match word.strip_suffix('k') {
            Some(digits) => (digits, 1000.0),
            None => (word, 1.0),
        };
        let number = digits.parse::<f64>().ok().filter(|number| (0.0..1e12).contains(number))?;
        #[expect(clippy::cast_sign_loss, reason = "checked above to be non-negative")]
        Some((number * unit) as u64)
    };
    let rest = line.strip_prefix("Tokens: ")?;
    let (sent, rest) = rest.split_once(" sent, ")?;
    // With a cache: `3k sent, 2k cache write, 1k cache hit, 300 received.`
    let received = rest.split(", ").find_map(|part| part.split_once(" received"))?.0;
    Some(Tokens { input: number(sent)?, output: number(received)?, ..Tokens::default() })
}
