//! The known prefixes of keys, and the search for them.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// The shape of the text after a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretShape {
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
pub(super) const BEGINNINGS: &[(&str, SecretShape)] = &[
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
pub(super) type Found = [Option<Option<(usize, usize)>>; 2];

/// Returns the next prefix from a position on.
pub(super) fn next_beginning(
    text: &[u8],
    from: usize,
    found: &mut Found,
) -> Option<(usize, usize)> {
    for ((first, search), found) in SEARCHES.iter().zip(&mut *found) {
        let is_behind = |found: &Option<(usize, usize)>| found.is_some_and(|(at, _)| at < from);
        if found.as_ref().is_none_or(is_behind) {
            let next = search.find(&text[from..]);
            *found = Some(next.map(|it| (from + it.start(), first + it.pattern().as_usize())));
        }
    }
    found.iter().copied().flatten().flatten().min()
}
