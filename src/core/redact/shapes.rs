//! Searches for strings that look like keys, whatever their owner.
//!
//! First a known prefix of keys is found, then the text after it is checked for enough letters and
//! digits that do not look like words.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{
    MARK,
    swallow::{
        LinePrefix, Marked, Swallow, is_base64, is_in_pem, is_login, is_name, is_parameter,
        is_part_known, is_token, mark_at,
    },
};

/// The shape of the text after a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretShape {
    /// A key of at least `least` characters; `dashes` allows `-` and `_`.
    Key { least: usize, dashes: bool },
    /// Exactly this many capitals and digits.
    Capitals(usize),
    /// `eyJ….eyJ….…`.
    Jwt,
    /// `-----BEGIN … PRIVATE KEY-----` and its lines.
    Pem,
    /// The value of an HTTP header, after its scheme if there is one: `Authorization: Bearer …`.
    Header,
    /// The value after a scheme without a header.
    Bearer,
    /// A key with full stops of at least this many characters.
    Dotted(usize),
    /// The value of a parameter, of at least this many characters.
    Value(usize),
    /// The password of a URL with a login.
    UrlPassword,
    /// A client secret of Azure, after its hint: three characters and a digit.
    ClientSecret,
}

const fn key(least: usize) -> SecretShape {
    SecretShape::Key { least, dashes: true }
}

const fn word(least: usize) -> SecretShape {
    SecretShape::Key { least, dashes: false }
}

/// The known prefixes of keys, and what follows them.
const BEGINNINGS: &[(&str, SecretShape)] = &[
    // Anthropic, OpenAI and compatible services.
    ("sk-", key(20)),
    ("sk_live_", word(16)),
    ("sk_test_", word(16)),
    ("rk_live_", word(16)),
    // GitHub and GitLab.
    ("ghp_", word(30)),
    ("gho_", word(30)),
    ("ghu_", word(30)),
    ("ghs_", word(30)),
    ("ghr_", word(30)),
    ("github_pat_", key(22)),
    ("glpat-", key(20)),
    // Amazon.
    ("AKIA", SecretShape::Capitals(16)),
    ("ASIA", SecretShape::Capitals(16)),
    // Google.
    ("AIza", key(35)),
    ("ya29.", key(20)),
    // Slack.
    ("xoxa-", key(10)),
    ("xoxb-", key(10)),
    ("xoxp-", key(10)),
    ("xoxr-", key(10)),
    ("xoxs-", key(10)),
    ("xapp-", key(10)),
    // Sourcegraph, Groq, xAI, Hugging Face, npm, PyPI.
    ("sgp_", key(20)),
    ("sgamp_", key(20)),
    ("gsk_", word(20)),
    ("xai-", word(20)),
    ("hf_", word(30)),
    ("npm_", word(36)),
    ("pypi-", key(40)),
    ("eyJ", SecretShape::Jwt),
    ("-----BEGIN ", SecretShape::Pem),
    ("Authorization", SecretShape::Header),
    ("authorization", SecretShape::Header),
    ("AUTHORIZATION", SecretShape::Header),
    ("x-api-key", SecretShape::Header),
    ("X-Api-Key", SecretShape::Header),
    ("X-API-Key", SecretShape::Header),
    // SendGrid, Azure.
    ("SG.", SecretShape::Dotted(60)),
    ("AccountKey=", SecretShape::Value(40)),
    ("SharedAccessKey=", SecretShape::Value(40)),
    ("sig=", SecretShape::Value(40)),
    ("://", SecretShape::UrlPassword),
    ("Bearer ", SecretShape::Bearer),
    ("bearer ", SecretShape::Bearer),
    // Azure. The shortest, and searched for alone.
    ("Q~", SecretShape::ClientSecret),
];

/// Finds the known prefixes: all but the last one, and that. Building it takes longer than a search. One
/// prefix of two characters makes the search for all of them three to four times slower.
static SEARCHES: LazyLock<[(usize, AhoCorasick); 2]> = LazyLock::new(|| {
    let last = BEGINNINGS.len() - 1;
    [0..last, last..BEGINNINGS.len()].map(|numbers| {
        let beginnings = BEGINNINGS[numbers.clone()].iter().map(|(beginning, _)| beginning);
        let search =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(beginnings);
        (numbers.start, search.expect("the prefixes are few and short"))
    })
});

/// What each search has found last: where, and which prefix; none if there is no more.
type Found = [Option<Option<(usize, usize)>>; 2];

/// Returns the next prefix from a position on.
fn next_beginning(text: &[u8], from: usize, found: &mut Found) -> Option<(usize, usize)> {
    for ((first, search), found) in SEARCHES.iter().zip(&mut *found) {
        let is_behind = |found: &Option<(usize, usize)>| found.is_some_and(|(at, _)| at < from);
        if found.as_ref().is_none_or(is_behind) {
            let next = search.find(&text[from..]);
            *found = Some(next.map(|it| (from + it.start(), first + it.pattern().as_usize())));
        }
    }
    found.iter().copied().flatten().flatten().min()
}

/// The number of bytes after a prefix that decide whether it is a secret.
const WINDOW: usize = 1024;

/// The result of checking a prefix and the text after it.
#[derive(Clone, Copy, Debug)]
enum ShapeMatch {
    /// More bytes are needed.
    Open,
    /// Not a secret.
    Innocent,
    /// A secret in these bytes, and possibly more bytes after them.
    Secret { from: usize, to: usize, more: Option<Swallow> },
}

/// Replaces key-like strings with [`MARK`].
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    /// The received bytes that are not decided yet.
    held: Vec<u8>,
    /// The last two bytes before `held`.
    before: [u8; 2],
    swallow: Option<Swallow>,
}

impl Shapes {
    pub fn new() -> Shapes {
        Shapes { held: Vec::new(), before: [b'\n'; 2], swallow: None }
    }

    pub fn push(&mut self, bytes: &[u8], is_end: bool, out: &mut Vec<u8>) {
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            if let Some(swallow) = self.swallow.take() {
                let (length, more) = swallow.over(&held[at..], is_end);
                at += length;
                if more.is_some() && !is_end {
                    self.swallow = more;
                    break;
                }
            }
            let (from, secret) = self.next(&held, at, is_end);
            self.pass(&held[at..from], out);
            at = from;
            let Some((to, more)) = secret else {
                break;
            };
            self.pass(MARK.as_bytes(), out);
            (at, self.swallow) = (to, more);
        }
        held.drain(..at);
        self.held = held;
    }

    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
        match bytes {
            [.., a, b] => self.before = [*a, *b],
            [b] => self.before = [self.before[1], *b],
            [] => {}
        }
    }

    /// Returns the position up to which the text is not secret; and, if a secret starts there, its
    /// end and the bytes to drop after it.
    fn next(
        &self,
        text: &[u8],
        start: usize,
        is_end: bool,
    ) -> (usize, Option<(usize, Option<Swallow>)>) {
        let (mut next, mut found) = (start, Found::default());
        while let Some((at, number)) = next_beginning(text, next, &mut found) {
            next = at + 1;
            let before = match at - start {
                0 => self.before,
                1 => [self.before[1], text[at - 1]],
                _ => [text[at - 2], text[at - 1]],
            };
            let (beginning, shape) = BEGINNINGS[number];
            if !may_begin(before, shape) {
                continue;
            }
            match (Ahead { text: &text[at..], is_end }).look(beginning.len(), shape) {
                ShapeMatch::Innocent => {}
                ShapeMatch::Open => return (at, None),
                ShapeMatch::Secret { from, to, more } => return (at + from, Some((at + to, more))),
            }
        }
        (if is_end { text.len() } else { open(text, next) }, None)
    }
}

/// The first position from `start` at which an incomplete prefix may start.
fn open(text: &[u8], start: usize) -> usize {
    const LONGEST: usize = 16;
    let is_part = |rest: &[u8]| {
        BEGINNINGS.iter().any(|(it, _)| it.len() > rest.len() && it.as_bytes().starts_with(rest))
    };
    (start.max(text.len().saturating_sub(LONGEST))..text.len())
        .find(|at| is_part(&text[*at..]))
        .unwrap_or(text.len())
}

/// Whether a key may start here: at the start of a word, after a JSON escape such as `\n`, or after
/// a color such as `ESC[31m`.
fn may_begin(before: [u8; 2], shape: SecretShape) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    matches!(shape, SecretShape::Pem | SecretShape::Header | SecretShape::UrlPassword)
        || match before {
            [one, last] if shape == SecretShape::ClientSecret => {
                is_token(one) && last.is_ascii_digit()
            }
            [b'\\', b'n' | b'r' | b't'] | [b'[' | b'0'..=b'9', b'm' | b'K'] => true,
            [_, last] => !is_word(last),
        }
}

/// The text from a prefix on.
#[derive(Clone, Copy)]
struct Ahead<'a> {
    text: &'a [u8],
    /// Whether the stream ends after it.
    is_end: bool,
}

impl<'a> Ahead<'a> {
    fn look(self, begin: usize, shape: SecretShape) -> ShapeMatch {
        match shape {
            SecretShape::Key { least, dashes: true } => self.key(begin, least, is_name),
            SecretShape::Key { least, dashes: false } => {
                self.key(begin, least, |byte| byte.is_ascii_alphanumeric())
            }
            SecretShape::Capitals(length) => {
                let is_one = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
                let is_key = |body: &[u8]| body.len() == length && body.iter().all(is_one);
                self.body(0, begin, is_name, is_key)
            }
            SecretShape::Jwt => self.jwt(),
            SecretShape::Pem => self.pem(begin),
            SecretShape::Header => self.header(begin),
            SecretShape::Dotted(least) => {
                self.key(begin, least, |byte| is_name(byte) || byte == b'.')
            }
            SecretShape::Value(least) => {
                let is_value = |body: &[u8]| body.len() >= least && is_random(body);
                self.body(begin, begin, is_parameter, is_value)
            }
            SecretShape::UrlPassword => self.url_password(begin),
            SecretShape::ClientSecret => self.key(begin, 31, is_token),
            SecretShape::Bearer => self.body(begin, begin, is_token, |body| is_key(body, 16)),
        }
    }

    /// The bytes of a class from `begin`, with those before it from `from`, if they are a secret.
    fn body(
        self,
        from: usize,
        begin: usize,
        class: fn(u8) -> bool,
        is_secret: impl Fn(&[u8]) -> bool,
    ) -> ShapeMatch {
        match self.run(begin, class) {
            None => ShapeMatch::Open,
            Some(body) if is_secret(body) => secret(from, begin, body.len(), class),
            Some(_) => ShapeMatch::Innocent,
        }
    }

    /// The bytes of a class from `begin`, at most [`WINDOW`]; none if more may follow.
    fn run(self, begin: usize, class: fn(u8) -> bool) -> Option<&'a [u8]> {
        let rest = self.text.get(begin..).unwrap_or_default();
        let rest = &rest[..rest.len().min(WINDOW)];
        let mut length = 0;
        while let Some(byte) = rest.get(length) {
            match mark_at(&rest[length..]) {
                // A known value is part of what looks like a key.
                Marked::Here => length += MARK.len(),
                Marked::Maybe if !self.is_end && rest.len() < WINDOW => return None,
                Marked::Maybe | Marked::No if class(*byte) => length += 1,
                Marked::Maybe | Marked::No => break,
            }
        }
        let is_known = length < rest.len() || length == WINDOW || self.is_end;
        is_known.then_some(&rest[..length])
    }

    /// The password of a URL whose login begins at `begin`.
    fn url_password(self, begin: usize) -> ShapeMatch {
        let Some(user) = self.run(begin, is_login) else {
            return ShapeMatch::Open;
        };
        let from = begin + user.len() + 1;
        if self.text.get(from - 1) != Some(&b':') {
            return ShapeMatch::Innocent;
        }
        let Some(password) = self.run(from, |byte| is_login(byte) || byte == b':') else {
            return ShapeMatch::Open;
        };
        let is_variable = password.first().is_none_or(|first| b"${*%[".contains(first));
        let to = from + password.len();
        if is_variable || self.text.get(to) != Some(&b'@') {
            return ShapeMatch::Innocent;
        }
        ShapeMatch::Secret { from, to, more: None }
    }

    fn key(self, begin: usize, least: usize, class: fn(u8) -> bool) -> ShapeMatch {
        self.body(0, begin, class, |body| is_key(body, least))
    }

    fn jwt(self) -> ShapeMatch {
        let class = |byte| is_name(byte) || byte == b'.';
        let Some(body) = self.run(0, class) else {
            return ShapeMatch::Open;
        };
        let mut parts = body.split(|byte| *byte == b'.');
        let is_object = |part: Option<&[u8]>| {
            part.is_some_and(|part| part.len() >= 10 && part.starts_with(b"eyJ"))
        };
        if is_object(parts.next()) && is_object(parts.next()) {
            // Excludes the full stop of a sentence.
            let end = body.iter().rposition(|byte| *byte != b'.').map_or(0, |at| at + 1);
            let body = if body.len() == WINDOW { body } else { &body[..end] };
            secret(0, 0, body.len(), class)
        } else {
            ShapeMatch::Innocent
        }
    }

    fn pem(self, begin: usize) -> ShapeMatch {
        /// The number of bytes after the first line within which a line of the key must start.
        const NEAR: usize = 512;
        /// The minimum length of a line of the key.
        const LINE: usize = 40;
        /// The number of bytes that are in no key, but in the prefixes of its lines.
        const ODD: usize = 48;
        let Some(label) = self
            .run(begin, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ')
        else {
            return ShapeMatch::Open;
        };
        if !label.windows(11).any(|words| words == b"PRIVATE KEY") {
            return ShapeMatch::Innocent;
        }
        let first = begin + label.len();
        let rest = &self.text[first..];
        let rest = &rest[..rest.len().min(NEAR)];
        let (mut in_row, mut dashes, mut odd, mut at) = (0, 0, 0, 0);
        let (mut is_escaped, mut is_line_start) = (false, false);
        while let Some(byte) = rest.get(at) {
            let length = match mark_at(&rest[at..]) {
                Marked::Here => MARK.len(),
                Marked::Maybe if !self.is_end && rest.len() < NEAR => return ShapeMatch::Open,
                Marked::Maybe | Marked::No => 1,
            };
            (in_row, dashes) = match byte {
                _ if length > 1 => (in_row + length, 0),
                b'-' => (0, dashes + 1),
                byte if is_base64(*byte) => (in_row + 1, 0),
                _ => (0, 0),
            };
            at += length;
            if in_row >= LINE {
                let prefix = LinePrefix::of(&rest[..at], in_row);
                let more = Some(Swallow::Pem { dashes: 0, ends: false, prefix });
                return ShapeMatch::Secret { from: 0, to: first + at, more };
            }
            let rest = &rest[at - length..];
            match (*byte == b'"' && !is_escaped && !is_line_start).then(|| ends_line(rest)) {
                Some(None) if !self.is_end => return ShapeMatch::Open,
                Some(None | Some(false)) => return ShapeMatch::Innocent,
                None | Some(Some(true)) => {}
            }
            is_escaped = *byte == b'\\' && !is_escaped;
            is_line_start = *byte == b'\n' || (is_line_start && b" \t\"".contains(byte));
            odd += usize::from(length == 1 && *byte != b'\\' && !is_in_pem(*byte));
            // The first five dashes follow the label; the next ones start the last line.
            if (dashes == 5 && at > 5) || odd > ODD {
                return ShapeMatch::Innocent;
            }
        }
        if self.is_end || self.text.len() >= first + NEAR {
            ShapeMatch::Innocent
        } else {
            ShapeMatch::Open
        }
    }

    fn header(self, begin: usize) -> ShapeMatch {
        let between = |byte: u8| b"\\\"' :=\t".contains(&byte);
        let Some(gap) = self.run(begin, between) else {
            return if self.text.len() - begin > 16 {
                ShapeMatch::Innocent
            } else {
                ShapeMatch::Open
            };
        };
        if gap.len() > 16 || !gap.iter().any(|byte| b":=".contains(byte)) {
            return ShapeMatch::Innocent;
        }
        let begin = begin + gap.len();
        let Some(first) = self.run(begin, is_token) else {
            return ShapeMatch::Open;
        };
        let is_scheme = (3..=12).contains(&first.len())
            && first.iter().all(u8::is_ascii_alphabetic)
            && self.text.get(begin + first.len()) == Some(&b' ');
        if !is_scheme {
            let is_value = |body: &[u8]| body.len() >= 16 && is_random(body);
            return self.body(begin, begin, is_token, is_value);
        }
        let begin = begin + first.len() + 1;
        let is_value = |body: &[u8]| is_part_known(body) || (body.len() >= 8 && is_no_word(body));
        self.body(begin, begin, is_token, is_value)
    }
}

/// Whether a line ends soon after this quote, as in the source of a program; none if more bytes are
/// needed. A quote elsewhere ends a string of JSON, which contains no whole key.
fn ends_line(text: &[u8]) -> Option<bool> {
    /// The longest end of a line.
    const END: usize = 8;
    let end = text.iter().take(END).skip(1).find(|byte| !b"\"+,; \\\r".contains(byte));
    match end {
        Some(byte) => Some(*byte == b'\n'),
        None if text.len() >= END => Some(false),
        None => None,
    }
}

/// A secret from `from` to the end of a run that starts at `begin`, with the bytes to drop after it
/// if the run fills the window.
fn secret(from: usize, begin: usize, length: usize, class: fn(u8) -> bool) -> ShapeMatch {
    let more = (length == WINDOW).then_some(Swallow::Class(class));
    ShapeMatch::Secret { from, to: begin + length, more }
}

/// Whether a text is a key of at least so many characters, or has a known value as a part.
fn is_key(body: &[u8], least: usize) -> bool {
    is_part_known(body) || (body.len() >= least && is_random(body))
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
