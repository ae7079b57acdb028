//! The readers of each agent's output. Those of JSON lines share one state, [`EventReader`].

use std::{collections::HashSet, time::Duration};

use serde_json::Value;

use super::{
    AgentTranscript, AgentWait, FinalResult, Format, MESSAGE, PHRASE, Tokens, claude::ClaudeState,
    code, count, cut, dollars, http_status, target,
};

/// The state between the events of one attempt.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    claude: ClaudeState,
    /// The items of codex that have started.
    open: HashSet<String>,
    /// The message of gemini that is arriving in parts.
    message: String,
    /// The cost of the steps of opencode, or of the messages of pi, so far.
    cost: f64,
    /// The usage of codex in the earlier processes.
    earlier: Option<Tokens>,
    /// The error of codex, copilot or pi since its last message.
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
            Format::PiJson => self.pi(kind, transcript, event),
            Format::Text => {}
        }
    }

    /// Begins the output of the agent's next process. Everything open in the previous one is over.
    pub fn next_process(&mut self, transcript: &mut AgentTranscript) {
        transcript.reopen();
        (transcript.end, transcript.message) = (None, None);
        (transcript.background, transcript.tools_running) = (0, 0);
        (self.error, self.message) = (None, String::new());
        self.open.clear();
        self.earlier = transcript.usage.tokens;
        self.claude.next_process(transcript);
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
            "item.updated" => codex_item(transcript, item),
            "item.completed" => {
                transcript.reopen();
                if !self.open.remove(&id()) {
                    codex_item(transcript, item);
                }
                codex_result(transcript, item);
                transcript.tools_running = self.open.len();
                transcript.thinks();
                match item["type"].as_str() {
                    Some("agent_message") => transcript.says(&item["text"]),
                    Some("reasoning") => transcript.thinks_aloud(&item["text"]),
                    _ => {}
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
                let used = Tokens {
                    input: count(&usage["input_tokens"]).saturating_sub(cached),
                    output: count(&usage["output_tokens"]),
                    cache_read: cached,
                    cache_write: count(&usage["cache_write_input_tokens"]),
                };
                // In a conversation that it resumes, it counts from the beginning.
                let earlier = self.earlier.take().filter(|it| it.minus(used) == Tokens::default());
                transcript.add_tokens(used.minus(earlier.unwrap_or_default()));
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
            "tool_use" => {
                transcript.uses(&event["tool_name"], &event["parameters"], &event["tool_id"]);
            }
            "tool_result" => {
                let is_error = event["status"] == "error";
                let (output, error) = (&event["output"], &event["error"]["message"]);
                let text = if is_error && error.is_string() { error } else { output };
                transcript.result(&event["tool_id"], text, is_error);
            }
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
            "reasoning" => transcript.thinks_aloud(&part["text"]),
            // It is printed when the tool has ended.
            "tool_use" => {
                let state = &part["state"];
                let (start, end) = (&state["time"]["start"], &state["time"]["end"]);
                let is_timed = start.is_number() && end.is_number();
                if is_timed {
                    transcript.note_time(start);
                }
                transcript.uses(&part["tool"], &state["input"], &part["callID"]);
                if is_timed {
                    transcript.note_time(end);
                }
                let is_error = state["status"] == "error" || count(&state["metadata"]["exit"]) > 0;
                let text = if state["error"].is_string() { "error" } else { "output" };
                transcript.shows_result(&part["callID"], &state[text], is_error);
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
                self.add_cost(transcript, &part["cost"]);
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

    /// Adds the cost of a step. It is zero for models with an unknown price.
    fn add_cost(&mut self, transcript: &mut AgentTranscript, cost: &Value) {
        self.cost += dollars(cost).unwrap_or(0.0);
        let is_known = self.cost > 0.0 && self.cost.is_finite();
        transcript.usage.cost_usd = is_known.then_some(self.cost);
    }

    /// `pi --mode json`. It exits with code 0 also after errors: the last message of its model says why it
    /// stopped. After an error it may ask again, or compact the conversation, and says so after its end.
    fn pi(&mut self, kind: &str, transcript: &mut AgentTranscript, event: &Value) {
        let message = &event["message"];
        match kind {
            "session" => transcript.set_conversation(&event["id"]),
            "turn_start" => transcript.begin_turn(),
            "message_end" if message["role"] == "assistant" => {
                let usage = &message["usage"];
                transcript.set_model(message["model"].as_str());
                transcript.add_tokens(Tokens {
                    input: count(&usage["input"]),
                    output: count(&usage["output"]),
                    cache_read: count(&usage["cacheRead"]),
                    cache_write: count(&usage["cacheWrite"]),
                });
                self.add_cost(transcript, &usage["cost"]["total"]);
                for part in message["content"].as_array().into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("text") => transcript.says(&part["text"]),
                        Some("thinking") => transcript.thinks_aloud(&part["thinking"]),
                        _ => {}
                    }
                }
                let has_failed =
                    matches!(message["stopReason"].as_str(), Some("error" | "aborted"));
                self.error = has_failed.then(|| FinalResult::failure(&message["errorMessage"]));
            }
            "tool_execution_start" => {
                transcript.uses(&event["toolName"], &event["args"], &event["toolCallId"]);
            }
            "tool_execution_end" => {
                let is_error = event["isError"] == true;
                transcript.result(&event["toolCallId"], &event["result"]["content"], is_error);
            }
            "auto_compaction_start" => transcript.reopen(),
            "auto_retry_start" => {
                transcript.reopen();
                let why = event["errorMessage"].as_str().unwrap_or("error");
                let (attempt, most) = (count(&event["attempt"]), count(&event["maxAttempts"]));
                transcript.record_wait(&format!("{why}, retry {attempt} of {most}"));
                let delay = Duration::from_millis(count(&event["delayMs"]));
                transcript.set_wait(AgentWait::For(delay));
            }
            "agent_end" => match self.error.take() {
                Some(error) => transcript.ends(error),
                None => transcript.succeeds(),
            },
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
            "assistant.reasoning" => transcript.thinks_aloud(&data["content"]),
            "tool.execution_start" => {
                transcript.uses(&data["toolName"], &data["arguments"], &data["toolCallId"]);
            }
            "tool.execution_complete" => {
                let exit = count(&data["shellExecution"]["exitCode"]);
                let is_error = data["success"] == false || exit > 0;
                let (result, error) = (&data["result"]["content"], &data["error"]["message"]);
                let text = if error.is_string() { error } else { result };
                transcript.result(&data["toolCallId"], text, is_error);
            }
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
            transcript.record_tool(kind, target(item).or(path), item, &item["id"]);
        }
        "mcp_tool_call" => {
            let tool = item["tool"].as_str().unwrap_or(kind);
            transcript.record_tool(tool, None, &item["arguments"], &item["id"]);
        }
        // It is not a tool that runs.
        "todo_list" => transcript.shows(kind, "list of work", item, &item["id"]),
        _ => {}
    }
}

/// The result of an item that is a tool.
fn codex_result(transcript: &mut AgentTranscript, item: &Value) {
    let is_error = item["status"] == "failed" || count(&item["exit_code"]) > 0;
    let text = match item["type"].as_str() {
        Some("command_execution") => &item["aggregated_output"],
        Some("mcp_tool_call") if is_error => &item["error"]["message"],
        Some("mcp_tool_call") => &item["result"]["content"],
        Some("file_change" | "web_search") => &Value::Null,
        _ => return,
    };
    transcript.shows_result(&item["id"], text, is_error);
}
