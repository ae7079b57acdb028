//! Finds secrets by their form, whatever their owner: keys, and what is assigned to a secret name.
//!
//! Each kind starts with a fixed text. A regular expression then takes the rest of the line, and a
//! test decides whether that looks like a secret. Text is held back only from such a start on.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::Regex;

use super::{
    MARK,
    names::{SecretName, secret_name},
};

/// A kind of secret.
struct SecretShape {
    /// What it starts with, separated by `|`.
    starts: &'static str,
    /// Whether it may start in capitals and small letters alike.
    any_case: bool,
    /// What follows the start: groups are the secret, without any all of it with the start. `{name}`
    /// and the like stand for [`CLASSES`].
    rest: &'static str,
    /// The length of the shortest secret.
    least: usize,
    is_secret: fn(&Candidate) -> bool,
}

/// The text at the start of a possible secret.
struct Candidate<'a> {
    /// The text before the start, up to [`CONTEXT`] bytes.
    before: &'a [u8],
    /// The start and all that fits after it.
    whole: &'a [u8],
    /// What may be secret of it.
    body: &'a [u8],
    /// What stands between the start and that.
    between: &'a [u8],
    least: usize,
}

/// A key that begins with this.
const fn key(starts: &'static str, rest: &'static str, least: usize) -> SecretShape {
    let is_secret = |it: &Candidate| starts_word(it) && is_key(it);
    SecretShape { starts, any_case: false, rest, least, is_secret }
}

/// A value after this.
const fn value(
    starts: &'static str,
    rest: &'static str,
    least: usize,
    is_secret: fn(&Candidate) -> bool,
) -> SecretShape {
    SecretShape { starts, any_case: true, rest, least, is_secret }
}

/// The kinds of secrets. A private key is first; see [`PrivateKey`].
const SHAPES: &[SecretShape] = &[
    SecretShape { any_case: false, ..value(PEM, r"[A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*", 0, |_| true) },
    key(
        "sk-|sgp_|sgamp_|glpat-|glcbt-|glrt-|gldt-|glft-|glptt-|glsoat-|glagent-|gloas-|glimt-|\
         GOCSPX-|dckr_pat_|dckr_oat_|sb_secret_|github_pat_|tskey-|pul-|gsk_|xai-|re_|lin_api_|\
         ntn_|figd_|pplx-|r8_|lsv2_pt_|lsv2_sk_|sq0csp-|sq0atp-",
        "{name}+",
        20,
    ),
    key("ghp_|gho_|ghu_|ghs_|ghr_|hf_|sbp_", "{word}+", 30),
    key("sk_live_|sk_test_|rk_live_|rk_test_|whsec_", "{word}+", 16),
    key("xoxa-|xoxb-|xoxe-|xoxo-|xoxp-|xoxr-|xoxs-|xapp-", "{name}+", 10),
    key("npm_|dop_v1_|doo_v1_|dor_v1_|rubygems_|AIza|CLOJARS_", "{name}+", 35),
    key("shpat_|shpca_|shppa_|shpss_|dapi|key-|ATBB|NRAK-", "{word}+", 27),
    key("ya29.|hvs.|hvb.|dp.pt.|dp.st.|dp.ct.|glsa_|glc_", "{token}+", 20),
    key(
        "pypi-|SG.|ABSK|fm1_|fm2_|fm1r_|fm1a_|sntrys_|sntryu_|ops_eyJ|ATATT3|dt0c01.|PMAK-|HRKU-|\
         AGE-SECRET-KEY-1|AKCp",
        "{token}+",
        40,
    ),
    SecretShape {
        is_secret: |it| {
            let is_one = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
            starts_word(it) && it.whole.len() == it.least && it.whole.iter().all(is_one)
        },
        ..key("AKIA|ASIA|ABIA|ACCA", "{name}+", 20)
    },
    // Twilio.
    SecretShape {
        is_secret: |it| {
            let is_hex = it.whole[2..].iter().all(u8::is_ascii_hexdigit);
            starts_word(it) && it.whole.len() == it.least && is_hex
        },
        ..key("SK", "{name}+", 34)
    },
    SecretShape {
        is_secret: starts_word,
        ..key("eyJ", r"{name}{7,}\.eyJ{name}{7,}(?:\.{name}+)*", 0)
    },
    // Azure: the portal shows what is before this as a hint. Telegram: the number of a bot is public.
    SecretShape { is_secret: |it| follows_digit(it) && is_key(it), ..key("Q~", "{token}+", 31) },
    SecretShape { is_secret: |it| follows_digit(it) && is_key(it), ..key(":AA", "{name}+", 33) },
    value("sig=", "({parameter}+)", 40, |it| starts_word(it) && is_key(it)),
    value(
        "hooks.slack.com/services/|discord.com/api/webhooks/|discordapp.com/api/webhooks/",
        "((?:{name}|/)+)",
        40,
        is_key,
    ),
    value(
        "authorization|x-api-key",
        r#"[\\"' \t]{0,8}[:=][\\"' :=\t]{0,8}(?:[A-Za-z]{3,12} )?({token}+)"#,
        8,
        |it| {
            let has_scheme = it.between.ends_with(b" ") && it.between.len() > 5;
            is_key(it) && it.body.len() >= 16
                || has_scheme && it.body.len() >= it.least && is_no_word(it.body)
        },
    ),
    // Discord has bots.
    value("bearer |bot ", "({token}+)", 16, |it| starts_word(it) && is_key(it)),
    value("cookie:", r#"[^\n"']{0,200}?session{name}*=({token}+)"#, 16, is_key),
    // The password of a URL, or a token in its place; not a variable.
    value("://", "(?:{login}*:((?:{login}|:)+)|({name}{20,}))@", 0, |it| {
        !b"${*%[".contains(&it.body[0]) && (it.between.ends_with(b":") || is_random(it.body))
    }),
    value("-u |--user |--user=|sshpass -p ", r#"["']?(?:\w+:)?([^\s"':/\\]{4,})"#, 4, |it| {
        let is_login =
            it.before.last().is_none_or(|byte| *byte == b' ') && it.between.ends_with(b":");
        (is_login || it.whole.starts_with(b"sshpass")) && is_no_word(it.body)
    }),
    value(
        "seed phrase|recovery phrase|mnemonic",
        r#"[\\"' :=]{1,8}((?:[a-z]{3,8} ){11,23}[a-z]{3,8})"#,
        0,
        |_| true,
    ),
    value(
        "passw|passphrase|secret|token|key|pwd|pass|auth|cred|jwt|dsn|_pw|dpw|session|accountkey",
        r#"[\w.-]*\\*["'\]]{0,2}(?:[ \t]*(?:=>|:=|=|:)[ \t]*|[ \t]+value=|>)(?:\\*["'](?:base64:)?([^\s"'\\]{8,})|(?:base64:)?([^\s"'<>;&,(){}\\]{8,}))"#,
        8,
        is_assigned,
    ),
];

/// The characters of secrets, also where a known value was replaced within one.
const CLASSES: &[(&str, &str)] = &[
    ("{name}", r"(?:[A-Za-z0-9_-]|\[redacted\])"),
    ("{word}", r"(?:[A-Za-z0-9]|\[redacted\])"),
    ("{token}", r"(?:[A-Za-z0-9_.~+/=-]|\[redacted\])"),
    ("{parameter}", r"(?:[A-Za-z0-9_.~+/=%-]|\[redacted\])"),
    ("{login}", r#"[!-~&&[^/@:"'<>`\\,;()]]"#),
];

/// How the first line of a private key starts.
const PEM: &str = "-----BEGIN ";
/// The last line of a private key.
const END: &str = r"-----END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----";
/// A line of a private key, after an escape of JSON that must stay whole.
const KEY_LINE: &str = r"(?:\\+[nrt])?((?:[A-Za-z0-9+/=]|\\+/|\[redacted\]){32,})";
/// The end of a string of JSON, and not of a line of a program.
const STRING_END: &str = r#"[^\\]"[ ]*[,:}\]][ ]*[^\s]"#;

/// The number of bytes kept of what is written.
const CONTEXT: usize = 64;
/// The longest secret, and the most that is held back.
const LONGEST: usize = 16 << 10;

struct Patterns {
    /// Finds the starts.
    starts: AhoCorasick,
    /// Each start, with the number of its kind.
    kinds: Vec<(usize, &'static str)>,
    longest: usize,
    rests: Vec<Regex>,
    end: Regex,
    key_line: Regex,
    string_end: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let regex = |pattern: &str| Regex::new(&format!("(?-u){pattern}")).expect("a valid pattern");
    let in_full = |pattern: String, (class, full): &(&str, &str)| pattern.replace(class, full);
    let kinds = SHAPES.iter().enumerate();
    let kinds: Vec<(usize, &str)> =
        kinds.flat_map(|(kind, it)| it.starts.split('|').map(move |start| (kind, start))).collect();
    let starts = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .build(kinds.iter().map(|(_, start)| start));
    let rests = SHAPES.iter().map(|it| CLASSES.iter().fold(format!("^(?:{})", it.rest), in_full));
    Patterns {
        starts: starts.expect("the starts are few and short"),
        longest: kinds.iter().map(|(_, start)| start.len()).max().unwrap_or(0),
        kinds,
        rests: rests.map(|pattern| regex(&pattern)).collect(),
        end: regex(END),
        key_line: regex(KEY_LINE),
        string_end: regex(STRING_END),
    }
});

/// Whether a text holds a secret.
pub(super) fn holds_secret(text: &[u8]) -> bool {
    let mut out = Vec::new();
    Shapes::default().push(text, true, &mut out);
    out != text
}

/// Replaces secrets with [`MARK`].
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes {
    /// The end of what was received.
    held: Vec<u8>,
    /// The number of bytes of it that are written: the last ones before the rest.
    written: usize,
    /// Whether only keys count, and not what is assigned, as in a test with a password.
    pub only_keys: bool,
}

impl Shapes {
    pub fn push(&mut self, bytes: &[u8], is_end: bool, out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let text = std::mem::take(&mut self.held);
        let mut at = self.written;
        let mut open = None;
        while let Some(found) = PATTERNS.starts.find(&text[at..]) {
            let (from, after) = (at + found.start(), at + found.end());
            at = from + 1;
            if !is_end && is_part_of_start(&text[from..]) {
                open = Some(from);
                break;
            }
            let (kind, start) = PATTERNS.kinds[found.pattern().as_usize()];
            if !SHAPES[kind].any_case && &text[from..after] != start.as_bytes()
                || (SHAPES[kind].any_case || start == "eyJ") && self.only_keys
            {
                continue;
            }
            let Some(secrets) = secrets_at(&text, from, after, kind, is_end) else {
                open = Some(from);
                break;
            };
            for (from, to) in secrets {
                out.extend_from_slice(&text[self.written..from]);
                out.extend_from_slice(MARK.as_bytes());
                (at, self.written) = (to, to);
            }
        }
        let open = open.unwrap_or_else(|| if is_end { text.len() } else { open_start(&text, at) });
        let open = open.max(self.written);
        out.extend_from_slice(&text[self.written..open]);
        let kept = open.saturating_sub(CONTEXT);
        self.held = text;
        self.held.drain(..kept);
        self.written = open - kept;
    }
}

/// Whether this is the incomplete text of a start.
fn is_part_of_start(rest: &[u8]) -> bool {
    rest.len() < PATTERNS.longest
        && PATTERNS.kinds.iter().any(|(_, start)| {
            let start = start.as_bytes();
            start.len() > rest.len() && start[..rest.len()].eq_ignore_ascii_case(rest)
        })
}

/// The first position from `at` on where a start may be incomplete.
fn open_start(text: &[u8], at: usize) -> usize {
    let first = at.max(text.len().saturating_sub(PATTERNS.longest));
    (first..text.len()).find(|at| is_part_of_start(&text[*at..])).unwrap_or(text.len())
}

/// The places of the secrets whose start is there; none if more bytes are needed.
fn secrets_at(
    text: &[u8],
    from: usize,
    after: usize,
    kind: usize,
    is_end: bool,
) -> Option<Vec<(usize, usize)>> {
    let last = text.len().min(from + LONGEST);
    let line = text[after..last].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    let is_known = is_end || last < text.len() || last == from + LONGEST;
    if line.is_none() && !is_known {
        return None;
    }
    let rest = &text[after..line.map_or(last, |at| after + at)];
    let Some(found) = PATTERNS.rests[kind].captures(rest) else {
        return Some(Vec::new());
    };
    let whole = found.get(0).map_or(0, |it| it.end());
    if kind == 0 {
        let lines = &text[after + whole..last];
        let end = PATTERNS.end.find(lines);
        return (end.is_some() || is_known).then(|| private_key(lines, from, after + whole));
    }
    let body = found.iter().skip(1).flatten().next().map(|it| it.range());
    let secret = body.clone().map_or(from..after + whole, |it| after + it.start..after + it.end);
    let candidate = Candidate {
        before: &text[from.saturating_sub(CONTEXT)..from],
        whole: &text[from..after + whole],
        body: body.clone().map_or(&rest[..whole], |it| &rest[it]),
        between: &rest[..body.map_or(0, |it| it.start)],
        least: SHAPES[kind].least,
    };
    let is_secret = (SHAPES[kind].is_secret)(&candidate);
    Some(if is_secret { vec![(secret.start, secret.end)] } else { Vec::new() })
}

/// The place of a private key whose first line is from `begin` to `first`, with whatever a program
/// puts before its lines; or, where its last line is missing or in another string of JSON, the places
/// of its lines.
fn private_key(rest: &[u8], begin: usize, first: usize) -> Vec<(usize, usize)> {
    if let Some(end) = PATTERNS.end.find(rest) {
        let lines = &rest[..end.start()];
        if PATTERNS.key_line.is_match(lines) && !PATTERNS.string_end.is_match(lines) {
            return vec![(begin, first + end.end())];
        }
    }
    let lines = PATTERNS.key_line.captures_iter(rest).filter_map(|it| it.get(1));
    lines.map(|line| (first + line.start(), first + line.end())).collect()
}

/// Whether a word may start here: also after a JSON escape such as `\n`, or after a color such
/// as `ESC[31m`.
fn starts_word(it: &Candidate) -> bool {
    match it.before {
        [.., b'\\', b'n' | b'r' | b't'] | [.., b'[' | b'0'..=b'9', b'm' | b'K'] => true,
        before => !before.last().is_some_and(|it| is_name(*it)),
    }
}

fn follows_digit(it: &Candidate) -> bool {
    it.before.last().is_some_and(u8::is_ascii_digit)
}

/// Whether it is long enough and looks random, or has a known value as a part.
fn is_key(it: &Candidate) -> bool {
    is_part_known(it.body) || it.body.len() >= it.least && is_random(it.body)
}

/// Whether a secret is assigned to a name of secrets: not read from elsewhere, and no example.
fn is_assigned(it: &Candidate) -> bool {
    let value = String::from_utf8_lossy(it.body);
    let is_name = |byte: &u8| is_name(*byte) || *byte == b'.';
    let left = it.before.iter().rev().take_while(|byte| is_name(byte)).count();
    let whole = &it.whole[..it.whole.len() - it.body.len()];
    let right = whole.iter().take_while(|byte| is_name(byte)).count();
    let name = [&it.before[it.before.len() - left..], &whole[..right]].concat();
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_start_matches("-D").trim_start_matches('-');
    let is_example = value.starts_with(|it| "$<{%*[/#~`@:=".contains(it))
        || EXAMPLES.split(' ').any(|word| {
            value.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        });
    match secret_name(name) {
        _ if is_example => return false,
        SecretName::No => return false,
        // As in `key = …`, which is often another kind of key.
        SecretName::Maybe => return value.len() >= 16 && is_random(it.body),
        SecretName::Yes => {}
    }
    let is_quoted = whole.ends_with(b"\"") || whole.ends_with(b"'") || whole.ends_with(b"base64:");
    let has_digit = value.contains(|it: char| it.is_ascii_digit());
    let is_expression = value.contains("::")
        || value.contains(['[', ']', '?'])
        || value.split('.').skip(1).any(|it| it.starts_with(|it: char| it.is_alphabetic()));
    let is_encoded = value.contains(['+', '/', '=']);
    (is_quoted || has_digit && (is_encoded || !is_expression))
        && (is_no_word(it.body)
            || value.contains(|it: char| !it.is_alphanumeric() && !"_.-/:".contains(it)))
}

/// How values begin that are read from elsewhere, or stand for one.
const EXAMPLES: &str = "os. process env await string number null none true false your xxx changeme \
    example test dummy fake placeholder sha256 sha384 sha512 pk_ http:// https:// file: secrets. ENC";

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Whether a known value was replaced in a part of this text.
fn is_part_known(body: &[u8]) -> bool {
    let mark = MARK.as_bytes();
    body != mark && body.windows(mark.len()).any(|part| part == mark)
}

/// Whether a whole value looks like a key: long, random and without what separates words.
pub(super) fn is_bare_key(value: &[u8]) -> bool {
    value.len() >= 24
        && value.iter().all(|byte| is_name(*byte) || b".+=".contains(byte))
        && [u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit]
            .iter()
            .all(|class| value.iter().any(class))
        && !value.starts_with(b"-")
}

/// Whether a text does not look like words: capitals, small letters and digits, or many letters and
/// digits in a row, or a long row of capitals and small letters.
fn is_random(body: &[u8]) -> bool {
    let has = |part: &[u8], class: fn(&u8) -> bool| part.iter().any(class);
    let (upper, lower, digit) =
        (u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit);
    let in_row = || body.split(|byte| !byte.is_ascii_alphanumeric());
    (has(body, upper) && has(body, lower) && has(body, digit))
        || in_row()
            .any(|row| row.len() >= 16 && has(row, digit) && has(row, u8::is_ascii_alphabetic))
        || in_row().any(|row| row.len() >= 30 && has(row, upper) && has(row, lower))
}

/// Whether a text has a digit, a capital after a small letter, or base64 padding.
fn is_no_word(body: &[u8]) -> bool {
    body.ends_with(b"=")
        || body.iter().any(u8::is_ascii_digit)
        || body.windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase())
}
