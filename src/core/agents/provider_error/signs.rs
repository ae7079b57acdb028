//! The signs of each provider error in the output of agents: codes, HTTP statuses, texts.

use super::ProviderErrorKind;

const USAGE: ProviderErrorKind = ProviderErrorKind::UsageLimit { resets_at: None, window: None };
const RATE: ProviderErrorKind = ProviderErrorKind::RateLimit { retry_at: None };

/// The error names of agents that are unambiguous. Claude Code has them in the `error` of its last
/// message and in `api_error`, `subtype`, `terminal_reason` and `stop_reason` of its result. For
/// opencode it is the name of the error, for copilot its `errorType`, for aider the exception.
const SURE_CODES: &[(ProviderErrorKind, &str)] = &[
    (USAGE, "usage_limit_reached"),
    (
        ProviderErrorKind::Authentication,
        "authentication authentication_failed oauth_org_not_allowed account_on_hold \
         verification_required cloud_credential_error AuthenticationError PermissionDeniedError",
    ),
    (ProviderErrorKind::Credit, "billing_error"),
    (ProviderErrorKind::Model, "model_not_found ModelNotFoundError NotFoundError"),
    (ProviderErrorKind::Network, "connection_failed APIConnectionError"),
    (
        ProviderErrorKind::TooLong,
        "prompt_too_long max_output_tokens ContextOverflowError ContextWindowExceededError",
    ),
    (ProviderErrorKind::TurnLimit, "error_max_turns max_turns"),
    (ProviderErrorKind::Budget, "error_max_budget_usd budget_exhausted BudgetExceededError"),
    (ProviderErrorKind::Refused, "refusal ContentPolicyViolationError"),
];

/// The error names that a status may override.
const CODES: &[(ProviderErrorKind, &str)] = &[
    (RATE, "rate_limit rate_limit_error RateLimitError"),
    (ProviderErrorKind::Overloaded, "overloaded overloaded_error"),
    (
        ProviderErrorKind::ServerError,
        "server_error InternalServerError ServiceUnavailableError Timeout",
    ),
];

fn named(table: &[(ProviderErrorKind, &str)], code: &str) -> Option<ProviderErrorKind> {
    let found = table.iter().find(|(_, names)| names.split(' ').any(|name| name == code));
    found.map(|(kind, _)| *kind)
}

/// Maps an agent's error name that is unambiguous.
pub(super) fn of_sure_code(code: &str) -> Option<ProviderErrorKind> {
    named(SURE_CODES, code)
}

/// Maps an error name that a status may override.
pub(super) fn of_code(code: &str) -> Option<ProviderErrorKind> {
    named(CODES, code)
}

/// Maps the HTTP status of the provider's answer. 400 is too general.
pub(super) fn of_status(status: u16) -> Option<ProviderErrorKind> {
    Some(match status {
        401 | 403 => ProviderErrorKind::Authentication,
        402 => ProviderErrorKind::Credit,
        404 => ProviderErrorKind::Model,
        413 => ProviderErrorKind::TooLong,
        429 => RATE,
        503 | 529 => ProviderErrorKind::Overloaded,
        500..=599 => ProviderErrorKind::ServerError,
        _ => return None,
    })
}

/// Phrases that are specific to one error, more specific ones first. In lower case.
const WORDS: &[(&str, ProviderErrorKind)] = &[
    // Codex words every end of a stream alike.
    ("reason: content_filter", ProviderErrorKind::Refused),
    ("reason: max_output_tokens", ProviderErrorKind::TooLong),
    // Google words a limit for a minute as OpenAI does an account without credit.
    ("per_day", USAGE),
    ("perday", USAGE),
    ("gemini-api/docs/rate-limits", RATE),
    ("quota exceeded for metric", RATE),
    ("quota exceeded for quota metric", RATE),
    ("(not your usage limit)", RATE),
    ("rate limit reached", RATE),
    // These have no reset time: only the owner of the account can act.
    ("your org is out of usage", ProviderErrorKind::Credit),
    ("your seat type doesn't include", ProviderErrorKind::Credit),
    ("has been disabled by your admin", ProviderErrorKind::Credit),
    ("usage limit is set to $0", ProviderErrorKind::Credit),
    ("requires usage credits", ProviderErrorKind::Credit),
    ("credit balance is too low", ProviderErrorKind::Credit),
    ("quota exceeded", ProviderErrorKind::Credit),
    ("exceeded your current quota", ProviderErrorKind::Credit),
    ("out of extra usage", USAGE),
    ("out of usage credits", USAGE),
    ("spending cap reached", USAGE),
    ("usage limit", USAGE),
    ("limit reached", USAGE),
    ("prompt is too long", ProviderErrorKind::TooLong),
    ("context window", ProviderErrorKind::TooLong),
    ("output token maximum", ProviderErrorKind::TooLong),
    ("safeguards flagged", ProviderErrorKind::Refused),
    ("reached max turns", ProviderErrorKind::TurnLimit),
    ("maximum number of turns", ProviderErrorKind::TurnLimit),
    ("exceeded usd budget", ProviderErrorKind::Budget),
    ("not logged in", ProviderErrorKind::Authentication),
    ("please run /login", ProviderErrorKind::Authentication),
    ("invalid api key", ProviderErrorKind::Authentication),
    ("failed to authenticate", ProviderErrorKind::Authentication),
    ("authenticationerror", ProviderErrorKind::Authentication),
    ("login has expired", ProviderErrorKind::Authentication),
    ("session has expired", ProviderErrorKind::Authentication),
    ("token has expired", ProviderErrorKind::Authentication),
    ("token expired", ProviderErrorKind::Authentication),
    ("please log in again", ProviderErrorKind::Authentication),
    ("issue with the selected model", ProviderErrorKind::Model),
    ("is not found for api version", ProviderErrorKind::Model),
    ("does not exist or you do not have access", ProviderErrorKind::Model),
    ("model does not exist", ProviderErrorKind::Model),
    ("model not found", ProviderErrorKind::Model),
    ("model is not supported", ProviderErrorKind::Model),
    ("requested entity was not found", ProviderErrorKind::Model),
    ("ratelimiterror", RATE),
    ("too many requests", RATE),
    ("temporarily limiting", RATE),
    ("account's rate limit", RATE),
    ("resource_exhausted", RATE),
    ("overloaded", ProviderErrorKind::Overloaded),
    ("experiencing high demand", ProviderErrorKind::Overloaded),
    ("internal server error", ProviderErrorKind::ServerError),
    ("request timed out", ProviderErrorKind::NoAnswer),
    ("econnreset", ProviderErrorKind::Network),
    ("econnrefused", ProviderErrorKind::Network),
    ("enotfound", ProviderErrorKind::Network),
    ("connection refused", ProviderErrorKind::Network),
    ("connection dropped", ProviderErrorKind::Network),
    ("can't reach the api server", ProviderErrorKind::Network),
    ("stream disconnected", ProviderErrorKind::Network),
    ("cannot connect to api", ProviderErrorKind::Network),
    ("unable to connect", ProviderErrorKind::Network),
    ("could not connect to ", ProviderErrorKind::Network),
    ("connection was closed", ProviderErrorKind::Network),
    ("connection error", ProviderErrorKind::Network),
    ("error sending request", ProviderErrorKind::Network),
    ("error reading a body", ProviderErrorKind::Network),
    ("error decoding response body", ProviderErrorKind::Network),
    ("unexpected eof", ProviderErrorKind::Network),
    ("fetch failed", ProviderErrorKind::Network),
    ("socket hang up", ProviderErrorKind::Network),
    ("eai_again", ProviderErrorKind::Network),
    ("etimedout", ProviderErrorKind::Network),
    ("ehostunreach", ProviderErrorKind::Network),
    ("enetunreach", ProviderErrorKind::Network),
    ("network is unreachable", ProviderErrorKind::Network),
    ("temporary failure in name resolution", ProviderErrorKind::Network),
];

/// Classifies the text of an error. For a text that may not be an error, call [`is_error`] first.
pub(super) fn of_text(text: &str) -> Option<ProviderErrorKind> {
    let text = plain(text);
    let reached = ["hit your ", "reached your "]
        .iter()
        .any(|start| text.split_once(start).is_some_and(|(_, rest)| rest.contains("limit")));
    let by_word = WORDS.iter().find(|(words, _)| text.contains(words)).map(|(_, found)| *found);
    match by_word {
        None | Some(ProviderErrorKind::UsageLimit { .. }) if reached => Some(USAGE),
        None => status_in(&text).and_then(of_status),
        found => found,
    }
}

/// Finds an HTTP status in a text, in the forms that agents print. In lower case.
fn status_in(text: &str) -> Option<u16> {
    const BEFORE: &[&str] = &[
        "api error: request rejected (",
        "api error: ",
        "unexpected status ",
        "last status: ",
        "\"code\":",
    ];
    BEFORE.iter().find_map(|before| {
        let (_, rest) = text.split_once(before)?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest[..digits].parse().ok().filter(|_| digits == 3)
    })
}

/// The beginnings of lines that are errors of agents. In lower case.
const OPENINGS: &[&str] = &[
    "api error",
    "[api error",
    "error:",
    "failed to authenticate",
    "request timed out",
    "not logged in",
    "your login has expired",
    "login has expired",
    "your session has expired",
    "invalid api key",
    "credit balance is too low",
    "prompt is too long",
    "there's an issue with the selected model",
    "you've hit your ",
    "you've reached your ",
    "you're out of ",
    "your org is out of usage",
    "your seat type doesn't include",
    "your usage allocation has been disabled",
    "your group's usage limit",
    "claude ai usage limit reached",
    "claude usage limit reached",
    "session limit reached",
    "weekly limit reached",
    "5-hour limit reached",
    "opus limit reached",
    "spending cap reached",
    "exceeded retry limit",
    "unexpected status ",
    "quota exceeded",
    "we're currently experiencing high demand",
    "stream disconnected before completion",
    "codex ran out of room",
    "litellm.",
];

/// Whether a line is an error message of an agent, not part of its answer.
pub(super) fn is_error(line: &str) -> bool {
    let line = plain(line);
    let line = line.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '[');
    OPENINGS.iter().any(|opening| line.starts_with(opening))
}

/// Whether a line is a notice of a program about itself, which it may print after an error.
pub(super) fn is_notice(line: &str) -> bool {
    const WORDS: &[&str] = &[
        "update available",
        "new version",
        "newer version",
        "new release",
        "upgrade",
        "npm i -g ",
        "npm install -g ",
        "brew upgrade",
        "to resume this session",
        "resume this session",
        "to continue this session",
        "session id",
        "full report available",
        "debug log",
        "log file",
        "logs are in",
        "tip:",
        "deprecat",
        "(use `node --trace",
    ];
    let line = plain(line);
    let line = line.trim();
    line.starts_with("at ")
        || line.starts_with("node:")
        || WORDS.iter().any(|it| line.contains(it))
        || !line.chars().any(char::is_alphanumeric)
}

/// Whether a line that an agent stopped at asks a person something.
pub(super) fn is_question(line: &str) -> bool {
    const WORDS: &[&str] = &[
        "[y/n]",
        "(y/n)",
        "(yes/no)",
        "[yes/no]",
        "press enter",
        "press any key",
        "paste the code",
        "paste code",
        "enter your ",
        "waiting for login",
        "open this url",
        "open the following",
    ];
    let line = plain(line);
    line.trim_end().ends_with('?') || WORDS.iter().any(|words| line.contains(words))
}

/// Whether a line of standard error says that the agent rejected its command line.
pub(super) fn is_setup(line: &str) -> bool {
    const WORDS: &[&str] = &[
        "error: unknown option",
        "error: unexpected argument",
        "cannot be used with root/sudo privileges",
        "requires --verbose",
        "input must be provided either through stdin",
        "input contained only whitespace",
        "piped stdin input exceeds",
        "can't read the keyboard here",
        "no prompt provided via stdin",
    ];
    let line = plain(line);
    WORDS.iter().any(|words| line.contains(words))
}

/// Converts to lower case, removes colors and unifies apostrophes.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => drop(chars.by_ref().find(char::is_ascii_alphabetic)),
            '\u{2019}' => plain.push('\''),
            c => plain.extend(c.to_lowercase()),
        }
    }
    plain
}
