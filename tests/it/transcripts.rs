//! Agent output, read at once and in pieces: fixtures of every format and class, and random input.

use std::{fs, path::Path, time::Duration};

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use proptest::prelude::*;
use ralph::core::{
    agents::{
        provider_error::{AttemptOutput, ProviderErrorKind, classify},
        reset::LimitWindow,
        transcript::{AgentTranscript, AgentWait, Format, NEXT_PROCESS, Tokens, TranscriptReader},
    },
    verdict::Outcome,
};
use serde_json::{Value, json};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");

/// The time at which all of them were recorded.
fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 11, 20, 20, 56, 0).unwrap()
}

/// A usage limit of no named period.
fn limit(day: u32, hour: u32, minute: u32) -> ProviderErrorKind {
    limit_of(None, day, hour, minute)
}

fn limit_of(window: Option<LimitWindow>, day: u32, hour: u32, minute: u32) -> ProviderErrorKind {
    let at = Utc.with_ymd_and_hms(2026, 11, day, hour, minute, 0).unwrap();
    ProviderErrorKind::UsageLimit { resets_at: Some(at), window }
}

const FIVE_HOUR: Option<LimitWindow> = Some(LimitWindow::FiveHour);
const WEEKLY: Option<LimitWindow> = Some(LimitWindow::Weekly);

fn read(format: Format, parts: &[&[u8]]) -> AgentTranscript {
    let mut transcript = TranscriptReader::new(format);
    for part in parts {
        transcript.push(part);
    }
    transcript.finish()
}

/// The format, by the first word of the name.
fn format_of(name: &str) -> Format {
    match name.split('-').next().unwrap() {
        "claude" => Format::ClaudeJson,
        "codex" => Format::CodexJson,
        "gemini" => Format::GeminiJson,
        "opencode" => Format::OpencodeJson,
        "copilot" => Format::CopilotJson,
        _ => Format::Text,
    }
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(FIXTURES).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn told(name: &str) -> AgentTranscript {
    read(format_of(name), &[&fixture(name)])
}

fn lines(format: Format, events: &[Value]) -> AgentTranscript {
    let text: String = events.iter().map(|event| format!("{event}\n")).collect();
    read(format, &[text.as_bytes()])
}

/// The events of its documentation and of its types.
#[test]
fn pi_is_read_and_its_last_message_is_its_result() {
    let message = |text: &str, stop: &str| {
        json!({"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": text}],
            "provider": "anthropic", "model": "claude-sonnet-4-5", "stopReason": stop, "errorMessage": text,
            "usage": {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 1, "totalTokens": 18,
                "cost": {"input": 0.1, "output": 0.1, "cacheRead": 0.0, "cacheWrite": 0.05, "total": 0.25}}}})
    };
    let begin = [
        json!({"type": "session", "version": 3, "id": "5d94-1", "timestamp": "2026-03-15T10:00:00.000Z", "cwd": "/w"}),
        json!({"type": "agent_start"}),
        json!({"type": "turn_start"}),
    ];
    let tool = [
        message("I look.", "toolUse"),
        json!({"type": "tool_execution_start", "toolCallId": "t", "toolName": "bash", "args": {"command": "ls"}}),
        json!({"type": "tool_execution_end", "toolCallId": "t", "toolName": "bash", "result": {"content": []}, "isError": false}),
        json!({"type": "turn_start"}),
    ];
    let end = json!({"type": "agent_end", "messages": []});
    let good = lines(
        Format::PiJson,
        &[&begin[..], &tool, &[message("Done.", "stop"), end.clone()]].concat(),
    );
    assert_eq!(good.conversation.as_deref(), Some("5d94-1"));
    assert_eq!((good.usage.cost_usd, good.usage.turns), (Some(0.5), Some(2)));
    let tokens = Tokens { input: 20, output: 4, cache_read: 10, cache_write: 2 };
    assert_eq!((good.usage.tokens, good.tools["bash"]), (Some(tokens), 1));
    let result = good.end.unwrap();
    assert!((result.text.as_str(), result.is_error, good.is_over) == ("Done.", false, true));

    let limit = "429 rate_limit_error: This request would exceed your rate limit";
    let failed = [&begin[..], &[message(limit, "error"), end]].concat();
    let told = lines(Format::PiJson, &failed);
    assert!(told.end.as_ref().unwrap().is_error);
    let found = judge(Format::PiJson, &told, 0, "");
    assert!(matches!(found, Some(ProviderErrorKind::RateLimit { .. })), "{found:?}");
    let retry = json!({"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": limit});
    let waits = lines(Format::PiJson, &[&failed[..], &[retry]].concat());
    assert!(!waits.is_over);
    assert_eq!(waits.wait, Some(AgentWait::For(Duration::from_secs(2))));
}

/// The events of its documentation and of its types.
#[test]
fn qwen_speaks_as_claude_and_counts_cached_tokens_twice() {
    let usage = json!({"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 40, "total_tokens": 107});
    let begin = [
        json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": "qwen3-coder-plus"}),
        json!({"type": "assistant", "session_id": "s-1", "parent_tool_use_id": null, "message": {"id": "m", "type": "message",
            "role": "assistant", "model": "qwen3-coder-plus", "content": [{"type": "text", "text": "Done."}], "usage": usage}}),
    ];
    let good = json!({"type": "result", "subtype": "success", "session_id": "s-1", "is_error": false, "num_turns": 1,
        "result": "Done.", "usage": usage});
    let told = lines(Format::ClaudeJson, &[&begin[..], &[good]].concat());
    let tokens = Tokens { input: 60, output: 7, cache_read: 40, cache_write: 0 };
    assert_eq!((told.usage.tokens, told.usage.cost_usd), (Some(tokens), None));
    assert_eq!(told.conversation.as_deref(), Some("s-1"));
    let error = "[API Error: 429 You exceeded your current quota, please check your plan and billing details.]";
    let failed = json!({"type": "result", "subtype": "error_during_execution", "session_id": "s-1", "is_error": true,
        "num_turns": 1, "usage": {"input_tokens": 0, "output_tokens": 0}, "error": {"message": error}});
    let told = lines(Format::ClaudeJson, &[failed]);
    assert_eq!(told.end.as_ref().unwrap().text, error);
    assert!(judge(Format::ClaudeJson, &told, 1, "").is_some());
    let failed = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "error": {"message": "[API Error: 401 Incorrect API key provided.]"}});
    let told = lines(Format::ClaudeJson, &[failed]);
    assert_eq!(judge(Format::ClaudeJson, &told, 1, ""), Some(ProviderErrorKind::Authentication));
}

fn judge(
    format: Format,
    told: &AgentTranscript,
    exit_code: i32,
    stderr: &str,
) -> Option<ProviderErrorKind> {
    let outcome = Outcome::Exited { exit_code };
    classify(
        &AttemptOutput { format, streams: true, transcript: told, outcome: &outcome, stderr },
        &now(),
    )
}

/// Fixture, exit code, provider error.
fn fixtures() -> Vec<(&'static str, i32, Option<ProviderErrorKind>)> {
    use ProviderErrorKind as O;
    vec![
        ("claude-success.jsonl", 0, None),
        ("claude-success.jsonl", 1, None),
        ("claude-quotes-limits.jsonl", 0, None),
        ("claude-quotes-limits.jsonl", 1, None),
        ("claude-background.jsonl", 0, None),
        ("claude-background-then-more.jsonl", 0, None),
        ("claude-cut.jsonl", 143, None),
        ("claude-usage-limit.jsonl", 1, Some(limit_of(WEEKLY, 23, 20, 0))),
        ("claude-usage-limit-alone.jsonl", 1, Some(limit_of(FIVE_HOUR, 20, 22, 0))),
        ("claude-usage-limit-event.jsonl", 1, Some(limit_of(FIVE_HOUR, 20, 22, 0))),
        ("claude-usage-warning.jsonl", 0, None),
        ("claude-rate-limit.jsonl", 1, Some(O::RateLimit { retry_at: None })),
        ("claude-overloaded.jsonl", 1, Some(O::Overloaded)),
        ("claude-overloaded.jsonl", 0, Some(O::Overloaded)),
        ("claude-overloaded-old.jsonl", 1, Some(O::Overloaded)),
        ("claude-server-error.jsonl", 1, Some(O::ServerError)),
        ("claude-no-answer.jsonl", 1, Some(O::NoAnswer)),
        ("claude-network.jsonl", 1, Some(O::Network)),
        ("claude-authentication.jsonl", 1, Some(O::Authentication)),
        ("claude-credit.jsonl", 1, Some(O::Credit)),
        ("claude-model.jsonl", 1, Some(O::Model)),
        ("claude-too-long.jsonl", 1, Some(O::TooLong)),
        ("claude-refused.jsonl", 1, Some(O::Refused)),
        ("claude-max-turns-old.jsonl", 0, Some(O::TurnLimit)),
        ("claude-max-turns-alone.jsonl", 1, Some(O::TurnLimit)),
        ("claude-budget.jsonl", 1, Some(O::Budget)),
        ("claude-failed-with-words.jsonl", 1, None),
        ("codex-success.jsonl", 0, None),
        ("codex-usage-limit.jsonl", 1, Some(limit(24, 15, 5))),
        ("codex-rate-limit.jsonl", 1, Some(O::RateLimit { retry_at: None })),
        ("codex-authentication.jsonl", 1, Some(O::Authentication)),
        ("codex-overloaded.jsonl", 1, Some(O::Overloaded)),
        ("codex-high-demand.jsonl", 1, Some(O::Overloaded)),
        ("codex-credit.jsonl", 1, Some(O::Credit)),
        ("codex-network.jsonl", 1, Some(O::Network)),
        ("gemini-success.jsonl", 0, None),
        ("gemini-rate-limit.jsonl", 173, Some(O::RateLimit { retry_at: None })),
        ("gemini-rate-limit.jsonl", 1, None),
        ("gemini-authentication.jsonl", 145, Some(O::Authentication)),
        ("gemini-model.jsonl", 148, Some(O::Model)),
        ("gemini-model.jsonl", 1, Some(O::Model)),
        ("opencode-success.jsonl", 0, None),
        ("opencode-rate-limit.jsonl", 1, Some(O::RateLimit { retry_at: None })),
        ("opencode-too-long.jsonl", 1, Some(O::TooLong)),
        ("opencode-recovers.jsonl", 0, None),
        ("copilot-success.jsonl", 0, None),
        ("copilot-rate-limit.jsonl", 1, Some(O::RateLimit { retry_at: None })),
        ("copilot-authentication.jsonl", 1, Some(O::Authentication)),
    ]
}

#[test]
fn every_class_is_told_apart() {
    for (name, exit_code, want) in fixtures() {
        let told = told(name);
        assert_eq!(judge(format_of(name), &told, exit_code, ""), want, "{name} {:?}", told.end);
    }
    for entry in fs::read_dir(FIXTURES).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(fixtures().iter().any(|(known, ..)| *known == name), "{name} is not tried");
    }
}

#[test]
fn what_ralph_itself_did_comes_before_what_the_agent_says() {
    let told = told("claude-rate-limit.jsonl");
    let format = Format::ClaudeJson;
    for outcome in [
        Outcome::TimedOut { limit_seconds: 1 },
        Outcome::Idle { limit_seconds: 1 },
        Outcome::Cancelled,
        Outcome::Interrupted,
    ] {
        let remains = AttemptOutput {
            format,
            streams: true,
            transcript: &told,
            outcome: &outcome,
            stderr: "",
        };
        assert_eq!(classify(&remains, &now()), None, "{outcome}");
    }
}

#[test]
fn todays_words_are_told_apart() {
    use ProviderErrorKind as O;
    let error = |error: Value| json!({"type": "turn.failed", "error": {"message": error}});
    let opencode = |words: &str| {
        let data = json!({"message": words, "isRetryable": true});
        json!({"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": data}})
    };
    let copilot = |words: &str| json!({"type": "session.error", "data": {"errorType": "query", "message": words}});
    let gemini = |words: &str| {
        let error = json!({"type": "unknown", "message": format!("[API Error: {words}]")});
        json!({"type": "result", "status": "error", "error": error, "stats": {"total_tokens": 0}})
    };
    let google = "You exceeded your current quota, please check your plan and billing details. For \
                  more information on this error, head to: \
                  https://ai.google.dev/gemini-api/docs/rate-limits.";
    let soon = Some(now().with_timezone(&Utc) + TimeDelta::seconds(16));
    let late = Some(now().with_timezone(&Utc) + TimeDelta::hours(23));
    let cut = "stream disconnected before completion: ";
    for (format, line, want) in [
        (Format::OpencodeJson, opencode("Cannot connect to API: Unable to connect."), O::Network),
        (
            Format::OpencodeJson,
            opencode("Cannot connect to API: The socket connection was closed unexpectedly."),
            O::Network,
        ),
        (Format::CopilotJson, copilot("Could not connect to local model provider"), O::Network),
        (
            Format::CopilotJson,
            copilot(
                "Failed native model HTTP request: error decoding response body: unexpected EOF",
            ),
            O::Network,
        ),
        (
            Format::CodexJson,
            error(json!("The model `x` does not exist or you do not have access to it.")),
            O::Model,
        ),
        (
            Format::CodexJson,
            error(json!(format!("{cut}Incomplete response returned, reason: content_filter"))),
            O::Refused,
        ),
        (
            Format::CodexJson,
            error(json!(format!("{cut}Incomplete response returned, reason: max_output_tokens"))),
            O::TooLong,
        ),
        (Format::CodexJson, error(json!(format!("{cut}idle timeout waiting for SSE"))), O::Network),
        (
            Format::GeminiJson,
            gemini("exception TypeError: fetch failed sending request"),
            O::Network,
        ),
        (
            Format::GeminiJson,
            gemini(&format!("{google} Please retry in 15.002899939s.")),
            O::RateLimit { retry_at: soon },
        ),
        (
            Format::GeminiJson,
            gemini(&format!("{google} Please retry in 23h.")),
            O::UsageLimit { resets_at: late, window: None },
        ),
        (
            Format::CodexJson,
            error(json!(
                "You exceeded your current quota, please check your plan and billing details."
            )),
            O::Credit,
        ),
    ] {
        let told = read(format, &[line.to_string().as_bytes()]);
        assert_eq!(judge(format, &told, 1, ""), Some(want), "{line}");
    }
}

/// Errors as providers word them, each as the message of codex and, after `ERROR: `, as its text.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn words_of_providers_have_their_kind() {
    use ProviderErrorKind as O;
    let now = now().with_timezone(&Utc);
    let (rate, usage) =
        (O::RateLimit { retry_at: None }, O::UsageLimit { resets_at: None, window: None });
    let after = |seconds| Some(now + TimeDelta::seconds(seconds));
    let retry = |seconds| O::RateLimit { retry_at: after(seconds) };
    let until = |seconds| O::UsageLimit { resets_at: after(seconds), window: None };
    for (words, want) in [
        // Too much for now.
        (
            "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000. Please try again in 2.5s.",
            retry(3),
        ),
        (
            "stream disconnected before completion: Rate limit reached for gpt-5. Please try again in 1s.",
            retry(1),
        ),
        (
            "429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}",
            rate,
        ),
        ("exceeded retry limit, last status: 429 Too Many Requests, request id: x", rate),
        ("Error code: 429 - {'error': {'message': 'slow down'}}", rate),
        (
            "{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"details\":[{\"retryDelay\":\"15s\"}]}}",
            retry(15),
        ),
        (
            "{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"details\":[{\"retryDelay\":\"82800s\"}]}}",
            until(82_800),
        ),
        (
            "Requests to the endpoint have exceeded the rate limit. Too Many Requests. Please retry after 20 seconds.",
            retry(20),
        ),
        ("ThrottlingException: Too many tokens, please wait before trying again.", rate),
        ("x/y:free is temporarily rate-limited upstream. Please retry shortly", rate),
        (
            "You have exhausted your capacity on this model. Your quota will reset after 0h0m40s.",
            retry(40),
        ),
        (
            "You have exhausted your capacity on this model. Your quota will reset after 5h30m0s.",
            until(19_800),
        ),
        // Used up until a reset.
        ("You have exhausted your daily quota on this model.", usage),
        ("Quota exceeded for quota metric 'Requests' and limit 'Requests per day per user'", usage),
        ("{\"error\":{\"type\":\"usage_limit_reached\",\"resets_in_seconds\":7200}}", until(7200)),
        (
            "You've hit your usage limit. Upgrade to Pro or try again in 3 days 4 hours 9 minutes.",
            until(274_140),
        ),
        // Used up for good.
        (
            "{\"error\":{\"message\":\"x\",\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}",
            O::Credit,
        ),
        ("You exceeded your current quota, please check your plan and billing details.", O::Credit),
        ("Quota exceeded. Check your plan and billing details.", O::Credit),
        ("Your credit balance is too low to access the Anthropic API.", O::Credit),
        ("402 Insufficient Balance", O::Credit),
        ("Insufficient credits. Add more using https://x.example/credits", O::Credit),
        ("This request requires more credits, or fewer max_tokens.", O::Credit),
        ("402 You have no quota (Request ID: 1)", O::Credit),
        (
            "Your account is not active, please check your billing details on our website.",
            O::Credit,
        ),
        // No key.
        ("Incorrect API key provided: sk-x.", O::Authentication),
        (
            "401 {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key\"}}",
            O::Authentication,
        ),
        ("API key not valid. Please pass a valid API key.", O::Authentication),
        ("unexpected status 401 Unauthorized: Missing bearer", O::Authentication),
        ("unexpected status 403 Forbidden: x", O::Authentication),
        ("No auth credentials found", O::Authentication),
        ("Your login has expired", O::Authentication),
        (
            "Your access token could not be refreshed because your refresh token was already used. Please log out and sign in again.",
            O::Authentication,
        ),
        (
            "Your authentication token has been invalidated. Please try signing in again.",
            O::Authentication,
        ),
        ("The security token included in the request is expired", O::Authentication),
        ("Could not load the default credentials.", O::Authentication),
        ("No authentication information found.", O::Authentication),
        // No model.
        ("The model `gpt-9` does not exist", O::Model),
        (
            "stream disconnected before completion: The model `gpt-9` does not exist or you do not have access to it.",
            O::Model,
        ),
        ("The 'gpt-9' model is not supported when using Codex with a ChatGPT account.", O::Model),
        ("models/gemini-9 is not found for API version v1beta, or is not supported", O::Model),
        (
            "Publisher Model `projects/p/models/x` was not found or your project does not have access to it.",
            O::Model,
        ),
        ("No endpoints found for x/y.", O::Model),
        ("model 'llama9' not found, try pulling it first", O::Model),
        ("x/y is not a valid model ID", O::Model),
        ("unexpected status 404 Not Found: x", O::Model),
        // Too much to do.
        ("503 Service Unavailable", O::Overloaded),
        ("Selected model is at capacity. Please try a different model.", O::Overloaded),
        ("No capacity available for model gemini-3-pro on the server", O::Overloaded),
        (
            "{\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":\"UNAVAILABLE\"}}",
            O::Overloaded,
        ),
        (
            "We\u{2019}re currently experiencing high demand, which may cause temporary errors.",
            O::Overloaded,
        ),
        ("HTTP 529", O::Overloaded),
        // Broken.
        ("unexpected status 502 Bad Gateway: <html>", O::ServerError),
        ("504 Gateway Time-out", O::ServerError),
        (
            "The server had an error while processing your request. Sorry about that!",
            O::ServerError,
        ),
        ("Provider returned error", O::ServerError),
        ("An internal error has occurred. Please retry", O::ServerError),
        // Out of reach.
        (
            "stream disconnected before completion: error sending request for url (https://x.example)",
            O::Network,
        ),
        ("getaddrinfo EAI_AGAIN api.example.com", O::Network),
        ("Connection error.", O::Network),
        ("TypeError: fetch failed (UND_ERR_CONNECT_TIMEOUT)", O::Network),
        ("dns error: failed to lookup address information: Name or service not known", O::Network),
        ("Connection reset by peer (os error 104)", O::Network),
        ("Cannot connect to API: The socket connection was closed unexpectedly.", O::Network),
        ("read tcp: operation timed out", O::Network),
        // The task's.
        ("This model's maximum context length is 128000 tokens.", O::TooLong),
        ("Your input exceeds the context window of this model.", O::TooLong),
        (
            "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
            O::TooLong,
        ),
        ("{\"error\":{\"code\":\"context_length_exceeded\"}}", O::TooLong),
        (
            "Request too large for gpt-5 on tokens per min (TPM): Limit 10000, Requested 12000.",
            O::TooLong,
        ),
        (
            "The response was filtered due to the prompt triggering Azure's content management policy.",
            O::Refused,
        ),
        (
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
            O::Refused,
        ),
        ("Response was blocked: PROHIBITED_CONTENT", O::Refused),
    ] {
        let line = json!({"type": "turn.failed", "error": {"message": words}}).to_string();
        let told = read(Format::CodexJson, &[line.as_bytes()]);
        assert_eq!(judge(Format::CodexJson, &told, 1, ""), Some(want), "{words}");
        let text = format!("working\nERROR: {words}\n\nTip: use another model\n");
        let told = read(Format::Text, &[text.as_bytes()]);
        assert_eq!(judge(Format::Text, &told, 1, ""), Some(want), "{text}");
        // An agent that has not failed quotes it.
        assert_eq!(judge(Format::Text, &told, 0, ""), None, "{text}");
    }
    for words in [
        "error: 12 of 429 tests failed",
        "error[E0425]: cannot find value `quota`",
        "error: test failed",
    ] {
        let told = read(Format::Text, &[words.as_bytes()]);
        assert_eq!(judge(Format::Text, &told, 1, ""), None, "{words}");
    }
}

#[test]
fn what_an_agent_waits_for_by_itself_is_known_until_it_goes_on() {
    use ProviderErrorKind as O;
    let limited = json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected",
        "resetsAt": 1_795_212_000, "rateLimitType": "five_hour"}});
    let retry = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
        "retry_delay_ms": 3_599_074, "error_status": 529, "error": "overloaded"});
    let says = json!({"type": "assistant", "message": {"id": "m",
        "content": [{"type": "text", "text": "Going on"}]}});
    let network = json!({"type": "error", "message": "Reconnecting... waiting for network"});
    let reset = AgentWait::Until(now() + TimeDelta::minutes(64));
    for (format, lines, wait, at_limit, alone) in [
        (Format::ClaudeJson, vec![&says, &limited], Some(reset), Some(limit(20, 22, 0)), None),
        (Format::ClaudeJson, vec![&limited, &retry], Some(reset), Some(limit(20, 22, 0)), None),
        (Format::ClaudeJson, vec![&limited, &says], None, None, None),
        (
            Format::ClaudeJson,
            vec![&says, &retry],
            Some(AgentWait::For(Duration::from_millis(3_599_074))),
            Some(O::NoAnswer),
            Some(O::Overloaded),
        ),
        (
            Format::CodexJson,
            vec![&network],
            Some(AgentWait::Network),
            Some(O::NoAnswer),
            Some(O::Network),
        ),
    ] {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut reader = TranscriptReader::new(format);
        reader.push(text.as_bytes());
        assert_eq!(reader.transcript().wait, wait, "{text}");
        let told = reader.finish();
        let outcome = Outcome::TimedOut { limit_seconds: 1 };
        let (streams, transcript) = (true, &told);
        let ended = AttemptOutput { format, streams, transcript, outcome: &outcome, stderr: "" };
        let judged = classify(&ended, &now());
        let is_limit = matches!(judged, Some(O::UsageLimit { .. }));
        assert_eq!(
            (is_limit, judged.is_some()),
            (matches!(wait, Some(AgentWait::Until(_))), at_limit.is_some()),
            "{text}"
        );
        if alone.is_some() {
            assert_eq!(judge(format, &told, 1, ""), alone, "{text}");
        }
    }
}

#[test]
fn the_processes_of_one_conversation_are_added_up() {
    let process = |cost: f64, models: u64| {
        let init = json!({"type": "system", "subtype": "init", "session_id": "s"});
        let usage = json!({"input_tokens": 10, "output_tokens": 1});
        let models = json!({"m": {"inputTokens": models, "outputTokens": 1}});
        let end = json!({"type": "result", "subtype": "success", "result": "ok", "num_turns": 1,
            "total_cost_usd": cost, "usage": usage, "modelUsage": models});
        format!("{init}\n{end}\n")
    };
    // What it counts in a resumed conversation differs between the versions of Claude Code.
    for (second, third) in [((0.25, 10), (0.25, 10)), ((0.75, 20), (1.0, 31))] {
        let mut reader = TranscriptReader::new(Format::ClaudeJson);
        reader.push(process(0.5, 10).as_bytes());
        assert!(reader.transcript().is_over);
        for (cost, models) in [second, third] {
            reader.push(format!("\n{NEXT_PROCESS}\n").as_bytes());
            assert!(!reader.transcript().is_over && reader.transcript().end.is_none());
            reader.push(process(cost, models).as_bytes());
        }
        let told = reader.finish();
        assert_eq!((told.usage.cost_usd, told.usage.turns), (Some(1.0), Some(3)));
        assert_eq!(told.usage.tokens.unwrap().input, 30);
        assert_eq!(told.conversation.as_deref(), Some("s"));
    }
}

#[test]
fn an_agent_that_ends_without_a_result_is_judged_by_its_stream() {
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": "s"}),
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected",
            "resetsAt": 1_795_212_000, "rateLimitType": "five_hour"}}),
        json!({"type": "assistant", "error": "rate_limit", "message": {"id": "m",
            "content": [{"type": "text", "text": "You've hit your 5-hour limit"}]}}),
    ];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    let told = read(Format::ClaudeJson, &[lines.as_bytes()]);
    let judged = judge(Format::ClaudeJson, &told, 1, "");
    assert_eq!(judged, Some(limit_of(FIVE_HOUR, 20, 22, 0)));
}

#[test]
fn an_agent_that_stopped_is_told_from_a_provider_that_did() {
    use ProviderErrorKind as O;
    let message = |part: Value| {
        let content = json!([part]);
        json!({"type": "assistant", "message": {"id": "m", "content": content}}).to_string()
    };
    let tool =
        |id: &str| message(json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}}));
    let done = |id: &str| {
        let content = json!([{"type": "tool_result", "tool_use_id": id}]);
        json!({"type": "user", "message": {"content": content}}).to_string()
    };
    let says = message(json!({"type": "text", "text": "Starting"}));
    let failed = json!({"type": "result", "subtype": "error_during_execution", "is_error": true});
    let idle = |lines: &[String]| {
        let told = read(Format::ClaudeJson, &[lines.join("\n").as_bytes()]);
        let outcome = Outcome::Idle { limit_seconds: 1 };
        let (format, streams, transcript) = (Format::ClaudeJson, true, &told);
        classify(
            &AttemptOutput { format, streams, transcript, outcome: &outcome, stderr: "" },
            &now(),
        )
    };
    assert_eq!(idle(&[says.clone(), failed.to_string()]), Some(O::Stalled));
    assert_eq!(idle(&[says.clone(), tool("a"), done("a")]), Some(O::Stalled));
    assert_eq!(idle(&[says.clone(), tool("a")]), None);
    assert_eq!(idle(&[says, tool("a"), tool("b"), done("a"), failed.to_string()]), None);
    assert_eq!(idle(&[]), Some(O::NoAnswer));
    assert_eq!(idle(&["Do you trust the files in this folder? [y/N]".to_owned()]), Some(O::Asked));
    assert_eq!(idle(&["Loading".to_owned()]), Some(O::NoAnswer));
}

#[test]
fn words_count_only_in_the_last_line_of_a_failure() {
    use ProviderErrorKind as O;
    // Standard output, standard error, exit code.
    let cases = [
        (
            "work\nYou've hit your 5-hour limit · resets 10pm (UTC)\n",
            "",
            1,
            Some(limit_of(FIVE_HOUR, 20, 22, 0)),
        ),
        ("You've hit your limit · resets 9:56pm (Europe/Berlin)", "", 1, Some(limit(20, 20, 56))),
        ("Weekly limit reached ∙ resets Nov 23, 9pm", "", 1, Some(limit_of(WEEKLY, 23, 21, 0))),
        ("5-hour limit reached ∙ resets 2am", "", 1, Some(limit_of(FIVE_HOUR, 21, 2, 0))),
        ("Claude AI usage limit reached|1795212000\n", "", 1, Some(limit(20, 22, 0))),
        (
            "Claude AI usage limit reached|0",
            "",
            1,
            Some(O::UsageLimit { resets_at: None, window: None }),
        ),
        ("You've hit your 5-hour limit · resets 10pm (UTC)\n", "", 0, None),
        ("You've hit your 5-hour limit · resets 10pm (UTC)\nand then it worked\n", "", 1, None),
        (
            "You've hit your 5-hour limit · resets 10pm (UTC)\n\nUpdate available! Run: npm i -g x\n",
            "",
            1,
            Some(limit_of(FIVE_HOUR, 20, 22, 0)),
        ),
        (
            "",
            "Your login has expired. Please run /login\n    at f (x.js:1:2)\n",
            1,
            Some(O::Authentication),
        ),
        ("I wrote down how a usage limit reached is told\n", "", 1, None),
        (
            "API Error: Server is temporarily limiting requests (not your usage limit) · x",
            "",
            1,
            Some(O::RateLimit { retry_at: None }),
        ),
        ("API Error: Repeated 529 Overloaded errors", "", 1, Some(O::Overloaded)),
        ("API Error: Rate limit reached", "", 1, Some(O::RateLimit { retry_at: None })),
        ("API Error: Connection refused — x (ECONNREFUSED)", "", 1, Some(O::Network)),
        ("Not logged in · Please run /login\n", "", 1, Some(O::Authentication)),
        ("Failed to authenticate: OAuth token revoked.", "", 1, Some(O::Authentication)),
        ("Your seat type doesn't include this", "", 1, Some(O::Credit)),
        ("Error: Reached max turns (2)", "", 1, Some(O::TurnLimit)),
        ("Error: Exceeded USD budget (0.5)", "", 1, Some(O::Budget)),
        ("", "error: unknown option '--bogus'\n", 1, Some(O::Setup)),
        (
            "",
            "x\n--dangerously-skip-permissions cannot be used with root/sudo privileges\n",
            1,
            Some(O::Setup),
        ),
        ("hello", "error: unknown option '--bogus'\nmore\n", 1, None),
        (
            "",
            "\u{1b}[31mERROR: You’ve hit your usage limit. Try again at Nov 24th, 2026 3:05 PM.\u{1b}[0m\n",
            1,
            Some(limit(24, 15, 5)),
        ),
        ("", "", 1, None),
    ];
    for (stdout, stderr, exit_code, want) in cases {
        for format in [Format::Text, Format::ClaudeJson, Format::CodexJson] {
            let told = read(format, &[stdout.as_bytes()]);
            assert_eq!(judge(format, &told, exit_code, stderr), want, "{format}: {stdout}{stderr}");
        }
    }
}

#[test]
fn what_it_did_said_and_used_is_added_up() {
    let done = told("claude-success.jsonl");
    let end = done.end.as_ref().unwrap();
    assert_eq!((end.text.as_str(), end.is_error, done.is_over), ("The sun shines.", false, true));
    assert_eq!(done.message.as_deref(), Some("The sun shines."));
    assert_eq!(
        done.tools.iter().map(|(k, v)| (k.as_str(), *v)).collect::<Vec<_>>(),
        [("Bash", 1), ("Edit", 1)]
    );
    let tokens = Tokens { input: 150, output: 15, cache_read: 7, cache_write: 3 };
    assert_eq!(done.usage.tokens, Some(tokens));
    assert_eq!((done.usage.cost_usd, done.usage.turns), (Some(0.5), Some(3)));
    assert_eq!(done.usage.model.as_deref(), Some("big-1"));
    assert_eq!(done.conversation.as_deref(), Some("conv-7"));

    // The cost of a truncated stream is unknown; the tokens are those reported.
    let cut = told("claude-cut.jsonl");
    assert_eq!((cut.end.clone(), cut.is_over, cut.usage.cost_usd), (None, false, None));
    assert_eq!(cut.usage.tokens.unwrap().input, 100);
    assert_eq!(cut.usage.turns, Some(1));

    // It reports the cost of the whole process, and the tokens of each result.
    let more = told("claude-background-then-more.jsonl");
    assert_eq!(more.end.unwrap().text, "It is over.");
    assert_eq!((more.background, more.usage.cost_usd, more.usage.turns), (0, Some(0.3), Some(3)));
    assert_eq!(more.usage.tokens.unwrap().input, 140);

    let codex = told("codex-success.jsonl");
    let tokens = Tokens { input: 60, output: 9, cache_read: 40, cache_write: 0 };
    assert_eq!((codex.usage.tokens, codex.usage.cost_usd), (Some(tokens), None));
    assert_eq!(codex.tools.values().sum::<u64>(), 2);

    let gemini = told("gemini-success.jsonl");
    assert_eq!(gemini.message.as_deref(), Some("The sun shines."));
    assert_eq!(gemini.usage.tokens.unwrap().input, 46);

    let opencode = told("opencode-success.jsonl");
    assert_eq!((opencode.usage.cost_usd, opencode.usage.turns), (Some(0.5), Some(2)));
    assert_eq!(told("opencode-recovers.jsonl").usage.cost_usd, None);

    let copilot = told("copilot-success.jsonl");
    assert_eq!((copilot.usage.turns, copilot.usage.model.as_deref()), (Some(2), Some("m-4")));
    assert_eq!(
        read(Format::Text, &[b"words"]).usage,
        ralph::core::agents::transcript::Usage::default()
    );
}

#[test]
fn the_live_line_follows_it() {
    let bytes = fixture("claude-background-then-more.jsonl");
    let mut transcript = TranscriptReader::new(Format::ClaudeJson);
    let mut seen = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        transcript.push(line);
        let told = transcript.transcript();
        seen.push((told.doing.clone().unwrap_or_default(), told.is_over, told.background));
    }
    let seen: Vec<(&str, bool, usize)> =
        seen.iter().map(|(a, b, c)| (a.as_str(), *b, *c)).collect();
    assert_eq!(
        seen,
        [
            ("thinking", false, 0),
            ("Bash serve", false, 0),
            ("Bash serve", false, 1),
            ("thinking", false, 1),
            ("It runs.", false, 1),
            ("", true, 1),
            ("", true, 0),
            ("thinking", false, 0),
            ("It is over.", false, 0),
            ("", true, 0),
        ]
    );
    let mut transcript = TranscriptReader::new(Format::Text);
    transcript.push(b"one\r\n\rtwo of  three");
    assert_eq!(transcript.transcript().doing.as_deref(), Some("two of three"));
}

#[test]
fn a_flood_takes_bounded_memory_and_hides_nothing_after_it() {
    for format in Format::ALL.iter().map(|(_, format)| *format) {
        let mut transcript = TranscriptReader::new(format);
        for _ in 0..40 {
            transcript.push(&vec![b'['; 1 << 20]);
        }
        transcript.push(b"\n{\"type\":\"result\",\"is_error\":false,\"result\":\"yes\"}\n");
        let told = transcript.finish();
        assert_eq!(told.skipped, u64::from(format != Format::Text), "{format}");
        if format == Format::ClaudeJson {
            assert_eq!(told.end.unwrap().text, "yes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn borders_do_not_matter(
        which in 0..fixtures().len(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
        end in any::<prop::sample::Index>(),
    ) {
        let (name, ..) = fixtures()[which];
        let bytes = fixture(name);
        let bytes = &bytes[..=end.index(bytes.len())];
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let format = format_of(name);
        prop_assert_eq!(read(format, &parts), read(format, &[bytes]));
    }

    #[test]
    fn anything_at_all_is_read(
        which in 0..fixtures().len(),
        noise in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        odd in proptest::sample::select(vec![
            "null", "[]", "{}", "-1", "1e999", "18446744073709551615", "\"\u{1F600}\"", "[[[{",
        ]),
        exit_code in any::<u8>(),
    ) {
        let (name, ..) = fixtures()[which];
        let mut bytes = fixture(name);
        for (at, byte) in &noise {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // Each value in turn has a wrong type.
        let mangled = text.replace(":\"", &format!(":{odd},\"x\":\"")).replace(":1", &format!(":{odd}"));
        for (_, format) in Format::ALL {
            for bytes in [&bytes[..], mangled.as_bytes()] {
                let told = read(*format, &[bytes]);
                judge(*format, &told, i32::from(exit_code), &text);
            }
        }
    }
}

#[test]
fn an_error_of_the_provider_is_none_of_the_task() {
    use ProviderErrorKind as O;
    let read = |format, text: &str| {
        let mut reader = TranscriptReader::new(format);
        reader.push(text.as_bytes());
        reader.finish()
    };
    let said = |message: &str| {
        let error = json!({"type": "result", "subtype": "error_during_execution",
            "is_error": true, "error": {"message": message}});
        judge(Format::ClaudeJson, &read(Format::ClaudeJson, &format!("{error}\n")), 1, "")
    };
    for (text, want) in [
        ("[API Error: 403 The free quota has been exhausted.]", O::Credit),
        ("[API Error: 403 Key limit exceeded (total limit).]", O::Credit),
        ("[API Error: terminated]", O::Network),
        ("API Error: Policy-restricted capacity is unavailable.", O::Overloaded),
        ("Error: No auth type is selected.", O::Authentication),
    ] {
        assert_eq!(said(text), Some(want), "{text}");
    }
    // How to log in takes many lines of standard error.
    let login = "No API key found for the selected model.\n\nUse /login. See:\n  /usr/lib/x.md\n";
    assert_eq!(judge(Format::PiJson, &read(Format::PiJson, ""), 1, login), Some(O::Authentication));
    // The connection of pi is lost in an answer.
    let cut = json!({"type": "message_end", "message": {"role": "assistant",
        "content": [{"type": "text", "text": "I will"}], "stopReason": "error",
        "errorMessage": "terminated"}});
    let cut = format!("{cut}\n{}\n", json!({"type": "agent_end"}));
    assert_eq!(judge(Format::PiJson, &read(Format::PiJson, &cut), 0, ""), Some(O::ServerError));
    // Qwen Code waits by itself.
    let retry = json!({"type": "system", "subtype": "retry",
        "data": {"attempt": 1, "maxRetries": 10, "delayMs": 60000}});
    let told = read(Format::ClaudeJson, &format!("{retry}\n"));
    assert_eq!(told.wait, Some(AgentWait::For(Duration::from_mins(1))));
    // The tokens of subagents are in `modelUsage` only.
    let result = json!({"type": "result", "subtype": "success", "result": "ok", "num_turns": 1,
        "usage": {"input_tokens": 200, "output_tokens": 40},
        "modelUsage": {"m": {"inputTokens": 90200, "outputTokens": 9040}}});
    let told = read(Format::ClaudeJson, &format!("{result}\n"));
    assert_eq!(told.usage.tokens.unwrap().input, 90200);
}
