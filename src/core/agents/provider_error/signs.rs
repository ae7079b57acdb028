//! The signs of each provider error in the output of agents: codes, HTTP statuses, texts.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::ProviderErrorKind;

const USAGE: ProviderErrorKind = ProviderErrorKind::UsageLimit { resets_at: None, window: None };
const RATE: ProviderErrorKind = ProviderErrorKind::RateLimit { retry_at: None };

/// The error names of agents that are unambiguous. Claude Code has them in the `error` of its last
/// message and in `api_error`, `subtype`, `terminal_reason` and `stop_reason` of its result. For
/// opencode it is the name of the error, for copilot its `errorType`.
const SURE_CODES: &[(ProviderErrorKind, &str)] = &[
    (USAGE, "usage_limit_reached"),
    (
        ProviderErrorKind::Authentication,
        "authentication authentication_failed oauth_org_not_allowed account_on_hold \
         verification_required cloud_credential_error AuthenticationError PermissionDeniedError \
         ProviderAuthError FatalAuthenticationError",
    ),
    (ProviderErrorKind::Credit, "billing_error"),
    (
        ProviderErrorKind::Model,
        "model_not_found ModelNotFoundError ProviderModelNotFoundError NotFoundError",
    ),
    (ProviderErrorKind::Network, "connection_failed APIConnectionError"),
    (
        ProviderErrorKind::TooLong,
        "prompt_too_long max_output_tokens ContextOverflowError ContextWindowExceededError \
         MessageOutputLengthError",
    ),
    (ProviderErrorKind::TurnLimit, "error_max_turns max_turns FatalTurnLimitedError"),
    (ProviderErrorKind::Budget, "error_max_budget_usd budget_exhausted BudgetExceededError"),
    (ProviderErrorKind::Refused, "refusal ContentPolicyViolationError"),
];

/// The error names that a status may override.
const CODES: &[(ProviderErrorKind, &str)] = &[
    (RATE, "rate_limit rate_limit_error RateLimitError"),
    (ProviderErrorKind::Overloaded, "overloaded overloaded_error"),
    (ProviderErrorKind::Credit, "quota quota_exceeded"),
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

/// Phrases that are specific to one error, more specific ones first; `*` stands for any text. In lower
/// case.
const WORDS: &[(&str, ProviderErrorKind)] = &[
    // Codex words every end of a stream alike.
    ("content_filter", ProviderErrorKind::Refused),
    ("content filter", ProviderErrorKind::Refused),
    ("content management policy", ProviderErrorKind::Refused),
    ("content policy", ProviderErrorKind::Refused),
    ("prohibited_content", ProviderErrorKind::Refused),
    ("usage polic*violat", ProviderErrorKind::Refused),
    ("violat*usage polic", ProviderErrorKind::Refused),
    ("limited access to this content for safety", ProviderErrorKind::Refused),
    ("safeguards flagged", ProviderErrorKind::Refused),
    ("reason: max_output_tokens", ProviderErrorKind::TooLong),
    ("prompt is too long", ProviderErrorKind::TooLong),
    ("input is too long", ProviderErrorKind::TooLong),
    ("request too large", ProviderErrorKind::TooLong),
    ("context window", ProviderErrorKind::TooLong),
    ("context length", ProviderErrorKind::TooLong),
    ("context_length_exceeded", ProviderErrorKind::TooLong),
    ("exceeds the maximum number of tokens", ProviderErrorKind::TooLong),
    ("output token maximum", ProviderErrorKind::TooLong),
    ("token*exceeds the limit", ProviderErrorKind::TooLong),
    ("token*exceeds the maximum", ProviderErrorKind::TooLong),
    ("range of input length", ProviderErrorKind::TooLong),
    ("unsupported_country", ProviderErrorKind::Region),
    ("country, region, or territory not supported", ProviderErrorKind::Region),
    ("location is not supported", ProviderErrorKind::Region),
    // Google words a limit for a minute as OpenAI does an account without credit.
    ("model_capacity_exhausted", ProviderErrorKind::Overloaded),
    ("capacity is unavailable", ProviderErrorKind::Overloaded),
    ("no capacity available", ProviderErrorKind::Overloaded),
    ("per_minute", RATE),
    ("perminute", RATE),
    ("per minute", RATE),
    ("per_day", USAGE),
    ("perday", USAGE),
    ("requests per day", USAGE),
    ("daily quota", USAGE),
    ("daily limit", USAGE),
    ("gemini-api/docs/rate-limits", RATE),
    ("quota exceeded for metric", RATE),
    ("quota exceeded for quota metric", RATE),
    ("exhausted your capacity on this model", RATE),
    ("(not your usage limit)", RATE),
    ("rate limit reached", RATE),
    ("rate_limit_exceeded", RATE),
    // These have no reset time: only the owner of the account can act.
    ("free quota has been exhausted", ProviderErrorKind::Credit),
    ("organization has been disabled", ProviderErrorKind::Credit),
    ("requires billing", ProviderErrorKind::Credit),
    ("account is in good standing", ProviderErrorKind::Credit),
    ("key limit exceeded", ProviderErrorKind::Credit),
    ("your org is out of usage", ProviderErrorKind::Credit),
    ("your seat type doesn't include", ProviderErrorKind::Credit),
    ("has been disabled by your admin", ProviderErrorKind::Credit),
    ("usage limit is set to $0", ProviderErrorKind::Credit),
    ("requires usage credits", ProviderErrorKind::Credit),
    ("credit balance is too low", ProviderErrorKind::Credit),
    ("insufficient_quota", ProviderErrorKind::Credit),
    ("insufficient credits", ProviderErrorKind::Credit),
    ("insufficient balance", ProviderErrorKind::Credit),
    ("insufficient funds", ProviderErrorKind::Credit),
    ("requires more credits", ProviderErrorKind::Credit),
    ("used all available credits", ProviderErrorKind::Credit),
    ("monthly spending limit", ProviderErrorKind::Credit),
    ("out of credits", ProviderErrorKind::Credit),
    ("you have no quota", ProviderErrorKind::Credit),
    ("billing_not_active", ProviderErrorKind::Credit),
    ("billing hard limit", ProviderErrorKind::Credit),
    ("account is not active", ProviderErrorKind::Credit),
    ("payment required", ProviderErrorKind::Credit),
    ("allocated quota exceeded", USAGE),
    ("quota exceeded", ProviderErrorKind::Credit),
    ("exceeded your current quota", ProviderErrorKind::Credit),
    ("out of extra usage", USAGE),
    ("out of usage credits", USAGE),
    ("spending cap reached", USAGE),
    ("usage_limit_reached", USAGE),
    ("usage limit", USAGE),
    ("limit reached", USAGE),
    ("exceeded your premium request", USAGE),
    ("premium request allowance", USAGE),
    ("exceeded your*quota", USAGE),
    ("reached max turns", ProviderErrorKind::TurnLimit),
    ("maximum number of turns", ProviderErrorKind::TurnLimit),
    ("max session turns", ProviderErrorKind::TurnLimit),
    ("exceeded usd budget", ProviderErrorKind::Budget),
    ("not logged in", ProviderErrorKind::Authentication),
    ("not licensed", ProviderErrorKind::Authentication),
    ("denied by policy", ProviderErrorKind::Authentication),
    ("set an auth method", ProviderErrorKind::Authentication),
    ("no auth type is selected", ProviderErrorKind::Authentication),
    ("no api key found", ProviderErrorKind::Authentication),
    ("please run /login", ProviderErrorKind::Authentication),
    ("run*login*to authenticate", ProviderErrorKind::Authentication),
    ("invalid api key", ProviderErrorKind::Authentication),
    ("incorrect api key", ProviderErrorKind::Authentication),
    ("api key not valid", ProviderErrorKind::Authentication),
    ("api key expired", ProviderErrorKind::Authentication),
    ("api_key_invalid", ProviderErrorKind::Authentication),
    ("invalid_api_key", ProviderErrorKind::Authentication),
    ("invalid x-api-key", ProviderErrorKind::Authentication),
    ("authentication_error", ProviderErrorKind::Authentication),
    ("authenticationerror", ProviderErrorKind::Authentication),
    ("missing authentication", ProviderErrorKind::Authentication),
    ("no auth credentials", ProviderErrorKind::Authentication),
    ("no authentication information", ProviderErrorKind::Authentication),
    ("bad credentials", ProviderErrorKind::Authentication),
    ("failed to authenticate", ProviderErrorKind::Authentication),
    ("authentication failed", ProviderErrorKind::Authentication),
    ("authentication required", ProviderErrorKind::Authentication),
    ("login has expired", ProviderErrorKind::Authentication),
    ("login expired", ProviderErrorKind::Authentication),
    ("session has expired", ProviderErrorKind::Authentication),
    ("session expired", ProviderErrorKind::Authentication),
    ("token has expired", ProviderErrorKind::Authentication),
    ("token is expired", ProviderErrorKind::Authentication),
    ("token expired", ProviderErrorKind::Authentication),
    ("token*has been invalidated", ProviderErrorKind::Authentication),
    ("credentials have expired", ProviderErrorKind::Authentication),
    ("security token*expired", ProviderErrorKind::Authentication),
    ("oauth token revoked", ProviderErrorKind::Authentication),
    ("refresh token", ProviderErrorKind::Authentication),
    ("invalid_grant", ProviderErrorKind::Authentication),
    ("please log in again", ProviderErrorKind::Authentication),
    ("please sign in", ProviderErrorKind::Authentication),
    ("sign in again", ProviderErrorKind::Authentication),
    ("must be logged in", ProviderErrorKind::Authentication),
    ("could not load*credentials", ProviderErrorKind::Authentication),
    ("reauthentication", ProviderErrorKind::Authentication),
    ("issue with the selected model", ProviderErrorKind::Model),
    ("model*is not found", ProviderErrorKind::Model),
    ("model*not found", ProviderErrorKind::Model),
    ("model*was not found", ProviderErrorKind::Model),
    ("model*does not exist", ProviderErrorKind::Model),
    ("model*is not supported", ProviderErrorKind::Model),
    ("model*is not available", ProviderErrorKind::Model),
    ("unknown model", ProviderErrorKind::Model),
    ("invalid model", ProviderErrorKind::Model),
    ("no such model", ProviderErrorKind::Model),
    ("is not a valid model", ProviderErrorKind::Model),
    ("no endpoints found for", ProviderErrorKind::Model),
    ("requested entity was not found", ProviderErrorKind::Model),
    ("ratelimiterror", RATE),
    ("too many requests", RATE),
    ("rate-limited", RATE),
    ("hit a rate limit", RATE),
    ("too many tokens, please wait", RATE),
    ("throttlingexception", RATE),
    ("temporarily limiting", RATE),
    ("account's rate limit", RATE),
    ("rate limit exceeded", RATE),
    ("rate-limited upstream", RATE),
    ("resource_exhausted", RATE),
    ("resource has been exhausted", RATE),
    ("overloaded", ProviderErrorKind::Overloaded),
    ("high demand", ProviderErrorKind::Overloaded),
    ("at capacity", ProviderErrorKind::Overloaded),
    ("service unavailable", ProviderErrorKind::Overloaded),
    ("temporarily unavailable", ProviderErrorKind::Overloaded),
    ("\"unavailable\"", ProviderErrorKind::Overloaded),
    ("internal server error", ProviderErrorKind::ServerError),
    ("internal error", ProviderErrorKind::ServerError),
    ("bad gateway", ProviderErrorKind::ServerError),
    ("gateway time", ProviderErrorKind::ServerError),
    ("the server had an error", ProviderErrorKind::ServerError),
    ("an error occurred while processing your request", ProviderErrorKind::ServerError),
    ("provider returned error", ProviderErrorKind::ServerError),
    ("upstream connect error", ProviderErrorKind::ServerError),
    ("request timed out", ProviderErrorKind::NoAnswer),
    ("request timeout", ProviderErrorKind::NoAnswer),
    ("deadline exceeded", ProviderErrorKind::NoAnswer),
    ("econnreset", ProviderErrorKind::Network),
    ("econnrefused", ProviderErrorKind::Network),
    ("econnaborted", ProviderErrorKind::Network),
    ("enotfound", ProviderErrorKind::Network),
    ("eai_again", ProviderErrorKind::Network),
    ("etimedout", ProviderErrorKind::Network),
    ("ehostunreach", ProviderErrorKind::Network),
    ("enetunreach", ProviderErrorKind::Network),
    ("epipe", ProviderErrorKind::Network),
    ("err_network", ProviderErrorKind::Network),
    ("err_internet", ProviderErrorKind::Network),
    ("und_err", ProviderErrorKind::Network),
    ("connection refused", ProviderErrorKind::Network),
    ("connection dropped", ProviderErrorKind::Network),
    ("connection reset", ProviderErrorKind::Network),
    ("connection was closed", ProviderErrorKind::Network),
    ("connection closed", ProviderErrorKind::Network),
    ("connection error", ProviderErrorKind::Network),
    ("connection timed out", ProviderErrorKind::Network),
    ("operation timed out", ProviderErrorKind::Network),
    ("connect timeout", ProviderErrorKind::Network),
    ("can't reach the api server", ProviderErrorKind::Network),
    ("stream disconnected", ProviderErrorKind::Network),
    ("cannot connect to api", ProviderErrorKind::Network),
    ("unable to connect", ProviderErrorKind::Network),
    ("could not connect to ", ProviderErrorKind::Network),
    ("error sending request", ProviderErrorKind::Network),
    ("error reading a body", ProviderErrorKind::Network),
    ("error decoding response body", ProviderErrorKind::Network),
    ("unexpected eof", ProviderErrorKind::Network),
    ("error: terminated", ProviderErrorKind::Network),
    ("premature close", ProviderErrorKind::Network),
    ("other side closed", ProviderErrorKind::Network),
    ("fetch failed", ProviderErrorKind::Network),
    ("socket hang up", ProviderErrorKind::Network),
    ("network is unreachable", ProviderErrorKind::Network),
    ("network error", ProviderErrorKind::Network),
    ("waiting for network", ProviderErrorKind::Network),
    ("dns error", ProviderErrorKind::Network),
    ("failed to lookup address", ProviderErrorKind::Network),
    ("could not resolve host", ProviderErrorKind::Network),
    ("name or service not known", ProviderErrorKind::Network),
    ("temporary failure in name resolution", ProviderErrorKind::Network),
    ("tls handshake", ProviderErrorKind::Network),
];

/// Whether a text contains the parts of a phrase in their order.
fn has(text: &str, phrase: &str) -> bool {
    let mut rest = Some(text);
    for part in phrase.split('*') {
        rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
    }
    rest.is_some()
}

/// Classifies the text of an error. For a text that may not be an error, call [`is_error`] first.
pub(super) fn of_text(text: &str) -> Option<ProviderErrorKind> {
    let text = plain(text);
    let reached = ["hit your ", "reached your "]
        .iter()
        .any(|start| text.split_once(start).is_some_and(|(_, rest)| rest.contains("limit")));
    let by_word = WORDS.iter().find(|(words, _)| has(&text, words)).map(|(_, found)| *found);
    match by_word {
        None | Some(ProviderErrorKind::UsageLimit { .. }) if reached => Some(USAGE),
        None => status_in(&text).and_then(of_status),
        found => found,
    }
}

/// An HTTP status in a text, in the forms that agents print.
static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    let before = [
        "^",
        r"\[",
        r"api error:? (?:request rejected \()?",
        r"(?:last |unexpected |http )?status(?: code)?:? ",
        r"http(?:/[0-9.]+)?:? (?:error )?",
        "error(?: code)?:? ",
        r#""(?:code|status|statuscode|status_code|error_status)": ?"?"#,
    ];
    let whole = format!(r"(?:{})([45]\d\d)\b", before.join("|"));
    Regex::new(&whole).expect("the expression is valid")
});

/// Finds an HTTP status in a text. In lower case.
fn status_in(text: &str) -> Option<u16> {
    STATUS.captures_iter(text).find_map(|found| found[1].parse().ok().filter(|it| *it != 400))
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
    "apierror",
    "ai_apicallerror",
    "providermodelnotfounderror",
    "rate limit",
    "too many requests",
    "insufficient ",
    "incorrect api key",
    "unable to connect",
    "connection error",
    "network error",
    "authentication ",
    "no auth",
    "please log in",
    "please sign in",
    "you have exceeded ",
    "you exceeded ",
    "you have exhausted ",
    "you have no quota",
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
