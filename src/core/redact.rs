//! Redaction: removes known secrets from a stream, in every spelling that programs print, and
//! anything that looks like a key.
//!
//! There are two stages: known values, which the caller supplies, and forms of secrets. Each carries
//! its state over chunk boundaries, so the result does not depend on how the stream is split. A stage
//! holds back only bytes that may start a secret. All other bytes pass unchanged, and JSON stays
//! valid. Names and forms are the same for a sandbox, a log, and work that must not land.
//!
//! Limitations: secrets that are split over several events, wrapped over lines, encrypted or
//! compressed are not found.

mod names;
mod needles;
mod shapes;

use std::{ffi::OsString, fmt};

pub use names::{is_secret_name, names_secret_place};
use needles::Needles;
use shapes::Shapes;

/// The replacement for a secret.
pub const MARK: &str = "[redacted]";

/// The length of the shortest value to search for. Shorter values occur by chance.
const SHORTEST: usize = 8;

/// Placeholder values, set where a secret is required but not used. Programs print these words for
/// other reasons.
const NO_SECRETS: &[&str] =
    &["anonymous", "disabled", "inherited", "optional", "password", "required", "undefined"];

/// Whether a variable holds a secret: by the form of its value; or by its name, unless the value is a
/// switch, a number, a path or a local address.
pub fn is_secret_variable(name: &str, value: &[u8]) -> bool {
    is_secret_name(name) && !is_plain(name, value)
        || shapes::is_bare_key(value)
        || shapes::holds_secret(value)
}

/// Whether a value cannot be a secret. A number can be a password.
fn is_plain(name: &str, value: &[u8]) -> bool {
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    let is_switch =
        "true false yes no on off none null default auto".split(' ').any(|it| it == value);
    let is_path = value.starts_with(['/', '~', '.']) && !value.contains(['+', '=', ' '])
        || value.starts_with("unix:");
    let local = ["://localhost", "://127.0.0.1"];
    let is_local = local.iter().any(|it| value.contains(it)) && !value.contains('@');
    let digits = value.trim_end_matches(char::is_alphabetic);
    let is_number = (1..=6).contains(&digits.len())
        && digits.bytes().all(|it| it.is_ascii_digit())
        && value.len() <= digits.len() + 2;
    let name = name.to_ascii_uppercase();
    let is_password = name.contains("PASS") || name.ends_with("PIN");
    is_switch || is_path || is_local || is_number && !is_password
}

/// The names of files that hold secrets. Only names that mean nothing else: a file that is left out
/// although it is work lets its task fail.
const FILES: &str =
    ".env .git-credentials .netrc .pgpass .pypirc id_dsa id_ecdsa id_ed25519 id_rsa";

/// The ends of the names of files with keys and certificates. Those of tests and samples are made up.
const STORES: &[&str] = &[".jks", ".kdbx", ".keystore", ".p12", ".pfx"];

/// The beginning of the names of variants, such as `.env.local`.
const VARIANT: &str = ".env.";

/// The ends of the names of variants that are made to be committed.
const SAMPLES: &[&str] = &["default", "defaults", "dist", "example", "sample", "template", "test"];

/// Whether a file holds secrets by its name; `ralph` does not commit it by itself.
pub fn is_secret_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_variant = name
        .strip_prefix(VARIANT)
        .is_some_and(|kind| !SAMPLES.contains(&kind.rsplit('.').next().unwrap_or(kind)));
    let is_store = STORES.iter().any(|end| name.to_lowercase().ends_with(end));
    let is_named = FILES.split(' ').any(|it| it == name);
    is_variant || is_named || is_store && !is_sample(path)
}

/// The words that stand for a password in examples.
const NO_PASSWORDS: &str = "admin changeme change-me dev example mysql pass passwd password postgres \
    pw pwd redis root secret test user xxx your-password";

/// A line of a file without the passwords of URLs that are only examples: those of URLs that lead to
/// this machine or nowhere, or that are no passwords.
pub fn without_examples(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        text += before;
        let end = after.find(|c: char| c.is_whitespace() || "/\"'`?".contains(c));
        let place = &after[..end.unwrap_or(after.len())];
        if let Some((login, host)) = place.rsplit_once('@')
            && let Some((user, password)) = login.split_once(':')
        {
            let host = host.split(':').next().unwrap_or(host);
            let is_here =
                !host.contains('.') || host.starts_with("127.") || host.contains("example");
            let is_none = NO_PASSWORDS.split(' ').any(|it| password.eq_ignore_ascii_case(it));
            if is_here || is_none || user == password || password.is_empty() {
                text += " ";
                rest = &after[place.len()..];
                continue;
            }
        }
        text += "://";
        rest = after;
    }
    text + rest
}

/// Whether a file is a test or a sample, in which passwords and tokens are made up.
fn is_sample(path: &str) -> bool {
    let samples = "example examples sample template test tests spec specs fixture fixtures";
    let path = path.to_lowercase();
    let mut words = path.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| samples.split(' ').any(|it| it == word))
}

/// The secrets in the value of a variable: all of it and, if it is a list, its parts.
fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_between = |byte: &u8| matches!(byte, b',' | b';') || byte.is_ascii_whitespace();
    std::iter::once(value).chain(value.split(is_between))
}

/// The password in a URL such as `postgres://user:password@host`, if it has one.
fn url_password(value: &[u8]) -> Option<&[u8]> {
    let start = value.windows(3).position(|three| three == b"://")? + 3;
    let rest = &value[start..];
    let rest = &rest[..rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len())];
    let login = &rest[..rest.iter().rposition(|byte| *byte == b'@')?];
    Some(&login[login.iter().position(|byte| *byte == b':')? + 1..])
}

/// Removes secrets from one stream.
#[derive(Clone)]
pub struct Redactor {
    needles: Needles,
    /// None if only values are searched.
    shapes: Option<Shapes>,
    between: Vec<u8>,
}

impl Redactor {
    /// Searches for these values, if they have 8 bytes or more after trimming white space, and for
    /// strings that look like keys. Clone it for each stream.
    pub fn new<T: AsRef<[u8]>>(values: impl IntoIterator<Item = T>) -> Redactor {
        let values: Vec<T> = values.into_iter().collect();
        let values = values.iter().map(|value| value.as_ref().trim_ascii());
        Redactor {
            needles: Needles::new(values.filter(|value| value.len() >= SHORTEST)),
            shapes: Some(Shapes::default()),
            between: Vec::new(),
        }
    }

    /// Searches for the values of environment variables whose names mark them as secret, and for
    /// strings that look like keys.
    pub fn of_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Redactor {
        let mut secrets: Vec<Vec<u8>> = Vec::new();
        for (name, value) in variables {
            let is_none = NO_SECRETS.iter().any(|it| value == *it);
            let (name, value) = (name.to_string_lossy(), value.into_encoded_bytes());
            if is_secret_name(&name) && !is_plain(&name, &value) && !is_none {
                secrets.extend(parts(&value).map(<[u8]>::to_vec));
            }
            // A word such as `postgres` occurs elsewhere too.
            let is_no_word = |value: &&[u8]| !value.iter().all(u8::is_ascii_lowercase);
            secrets.extend(url_password(&value).filter(is_no_word).map(<[u8]>::to_vec));
        }
        Redactor::new(secrets)
    }

    /// Searches for the values only, for texts that may contain key-like strings on purpose.
    #[must_use]
    pub fn without_shapes(self) -> Redactor {
        Redactor { shapes: None, ..self }
    }

    /// Searches a file of the work: one that is a test or a sample for values and keys only.
    #[must_use]
    pub fn for_file(mut self, path: &str) -> Redactor {
        if let Some(shapes) = &mut self.shapes {
            shapes.only_keys = is_sample(path);
        }
        self
    }

    /// Takes the next bytes, and appends to `out` the bytes that are known not to be secret.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.pass(bytes, false, out);
    }

    /// Ends the stream and appends the rest.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.pass(&[], true, out);
    }

    fn pass(&mut self, bytes: &[u8], is_end: bool, out: &mut Vec<u8>) {
        let Some(shapes) = &mut self.shapes else {
            return self.needles.push(bytes, is_end, out);
        };
        self.between.clear();
        self.needles.push(bytes, is_end, &mut self.between);
        shapes.push(&self.between, is_end, out);
    }

    /// Redacts a whole text.
    pub fn text(mut self, text: &str) -> String {
        let mut out = Vec::with_capacity(text.len());
        self.push(text.as_bytes(), &mut out);
        self.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl fmt::Debug for Redactor {
    /// Omits the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::prelude::*;

    use super::*;
    use crate::dice::Dice;

    /// The dice of the core, which also make words.
    struct WordDice(Dice);

    impl WordDice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0.below(sides)
        }

        fn word(&mut self, of: &[u8], length: usize) -> String {
            (0..length).map(|_| char::from(of[self.roll(of.len())])).collect()
        }

        /// A random word shorter than `below`.
        fn some(&mut self, of: &[u8], below: usize) -> String {
            let length = self.roll(below);
            self.word(of, length)
        }
    }

    const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const ODD: &[u8] = b"abcXYZ019 \"\\/+&%='\n\t{}$!";

    fn whole(redactor: &Redactor, text: &[u8]) -> Vec<u8> {
        let (mut redactor, mut out) = (redactor.clone(), Vec::new());
        redactor.push(text, &mut out);
        redactor.finish(&mut out);
        out
    }

    fn in_parts(redactor: &Redactor, text: &[u8], mut part: impl FnMut() -> usize) -> Vec<u8> {
        let (mut redactor, mut out) = (redactor.clone(), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(part().clamp(1, rest.len()));
            redactor.push(now, &mut out);
            rest = later;
        }
        redactor.finish(&mut out);
        out
    }

    /// Generates a key-like string, so that this file contains none.
    fn shaped(dice: &mut WordDice) -> String {
        // At least one letter of each case and one digit.
        let mut word = |length: usize| format!("aB3{}", dice.word(ALNUM, length));
        let (short, long, line) = (word(33), word(61), word(61));
        match dice.roll(9) {
            0 => format!("sk-ant-{}-{long}", "api03"),
            1 => format!("ghp_{short}"),
            2 => format!("github_pat_{short}_{long}"),
            3 => format!("AKIA{}", dice.word(b"ABCDEFGHIJ234567", 16)),
            4 => format!("eyJ{short}.eyJ{long}.{}-_{short}", "x".repeat(dice.roll(1500))),
            5 => format!("AIza{}", &long[..35]),
            6 => format!("xoxb-{}-{short}", dice.word(b"0123456789", 12)),
            7 => format!("sk-{}", "x1".repeat(450 + dice.roll(450))),
            _ => {
                let label = "PRIVATE KEY-----";
                format!("-----BEGIN RSA {label}\n{long}\n{line}\n{short}=\n-----END RSA {label}")
            }
        }
    }

    fn hex(value: &str) -> String {
        value.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"))
    }

    #[test]
    fn examples_of_secrets_are_none() {
        let url = |host: &str| format!("DATABASE_URL=postgres://app:hunter2x@{host}/db");
        let token = "T = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x'".to_owned();
        let assigned = "DB_PASSWORD = 'Tr0ub4dor&3x'".to_owned();
        for (path, line, is_kept) in [
            ("a.py", url("db.company.com"), true),
            ("a.py", url("localhost:5432"), false),
            ("compose.yaml", url("db"), false),
            ("a.py", "x = 'postgres://user:password@db.company.com/db'".to_owned(), false),
            (".env.example", url("db.company.com"), false),
            ("tests/test_token.py", token.clone(), false),
            ("src/token.py", token, true),
            ("settings.py", assigned.clone(), true),
            ("tests/settings.py", assigned, false),
            ("settings.py", "DB_PASSWORD = os.environ['DB_PASSWORD_2']".to_owned(), false),
            ("a.md", "see https://example.com/a and b@c.de".to_owned(), false),
        ] {
            let line = without_examples(&line);
            let redactor = Redactor::new([""; 0]).for_file(path);
            assert_eq!(redactor.text(&line) != line, is_kept, "{path}: {line}");
        }
    }

    #[test]
    fn each_of_5000_secrets_is_removed() {
        let mut dice = WordDice(Dice(7));
        let values: Vec<String> = (0..40)
            .map(|at| match at % 2 {
                0 => dice.word(ALNUM, 8 + at),
                _ => format!("x{}é{}y", dice.word(ODD, 9 + at), dice.word(ODD, 3)),
            })
            .collect();
        let redactor = Redactor::new(&values);
        let (mut text, mut want) = (String::new(), String::new());
        for _ in 0..5000 {
            let space = [" ", "\n", "\": \"", "(", "; task: x = '"][dice.roll(5)];
            let filler = format!("{}{space}", dice.some(b"abc de-f_.\n", 60));
            let value = &values[dice.roll(values.len())];
            let json = serde_json::to_string(value).unwrap();
            let secret = match dice.roll(5) {
                0 => value.clone(),
                1 => json.trim_matches('"').to_owned(),
                2 => {
                    serde_json::to_string(json.trim_matches('"')).unwrap().trim_matches('"').into()
                }
                3 => {
                    let keep = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
                    value
                        .chars()
                        .map(|c| if keep(c) { c.to_string() } else { hex(&c.to_string()) })
                        .collect()
                }
                _ => shaped(&mut dice),
            };
            text.extend([&filler, secret.as_str(), space]);
            want.extend([&filler, MARK, space]);
        }
        let got = in_parts(&redactor, text.as_bytes(), || dice.roll(400));
        let got = String::from_utf8(got).unwrap();
        for (got, want) in got.split(MARK).zip(want.split(MARK)) {
            assert_eq!(got, want);
        }
        assert_eq!(got.matches(MARK).count(), 5000);
    }

    #[test]
    fn base64_is_found_at_any_offset() {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let encode = |text: &str| -> String {
            let bits = |at: usize| text.as_bytes().get(at).map_or(0, |byte| u32::from(*byte));
            (0..text.len().div_ceil(3) * 4)
                .map(|at| {
                    let group = at / 4 * 3;
                    let three = bits(group) << 16 | bits(group + 1) << 8 | bits(group + 2);
                    char::from(DIGITS[(three >> (18 - at % 4 * 6) & 63) as usize])
                })
                .collect()
        };
        assert_eq!(encode("Man!"), "TWFuIQAA");
        let mut dice = WordDice(Dice(3));
        for _ in 0..60 {
            let value = dice.word(ALNUM, 8) + &dice.some(ALNUM, 9);
            let (before, after) = (dice.some(ALNUM, 7), dice.some(ALNUM, 7));
            let text = encode(&format!("{before}{value}{after}"));
            let got = Redactor::new([&value]).text(&text);
            // The two characters at each end also encode bits of the neighbors.
            let kept: usize = got.split(MARK).map(str::len).sum();
            assert!(got.contains(MARK), "{text}");
            assert!(kept <= (before.len() + after.len()) * 4 / 3 + 7, "{text} {got}");
        }
    }

    #[test]
    fn other_text_passes_unchanged() {
        let redactor = Redactor::new(["correct horse battery", "s3cr3t-value"]);
        let mut folders = vec![Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let is_other =
                    ["target", ".git", "logs", "redact.rs"].iter().any(|it| name == **it);
                match entry.file_type().unwrap() {
                    _ if is_other => {}
                    kind if kind.is_dir() => folders.push(path),
                    kind if kind.is_file() => {
                        let bytes = fs::read(&path).unwrap();
                        let redactor = redactor.clone().for_file(&path.to_string_lossy());
                        assert!(whole(&redactor, &bytes) == bytes, "{}", path.display());
                        files += 1;
                    }
                    _ => {}
                }
            }
        }
        assert!(files > 100);
        for text in [
            "task-graph-with-A-very-long-name-1234567890 is a task-ant-api03-thing, sk-fading-circle-wrapper",
            "Authorization: Bearer <token>, Authorization: required for everything",
            "Authorization: Basic authentication is meant. the bearer of this letter 12345678901234567",
            "a -----BEGIN PUBLIC KEY----- is public, -----BEGIN RSA PRIVATE KEY----- begins one that is not",
            "ghp_ is a beginning, eyJ another, AKIA a third, and AKIASIAANDMORETHANTHAT no key",
            "hf_hub_download(repo_id), npm_config_registry, xoxb-, s3cr3t-valu, correct horse batter",
        ] {
            assert_eq!(redactor.clone().text(text), text);
        }
    }

    #[test]
    fn context_is_kept_and_json_stays_valid() {
        let mut dice = WordDice(Dice(1));
        let word = format!("aB3{}", dice.word(ALNUM, 61));
        let redactor = Redactor::new(["p4ss\"word\\x"]);
        let clean = |text: &str| redactor.clone().text(text);
        assert_eq!(clean("KEY=p4ss\"word\\x;"), "KEY=[redacted];");
        for start in ["Authorization: Bearer ", "authorization\\\": \\\"Basic ", "x-api-key: "] {
            assert_eq!(
                clean(&format!("-H '{start}{word}' x")),
                format!("-H '{start}[redacted]' x")
            );
        }
        assert_eq!(
            clean(&format!("\u{1b}[31mghp_{word}\u{1b}[0m")),
            "\u{1b}[31m[redacted]\u{1b}[0m"
        );
        // Known or key-like, whole or truncated, within JSON.
        let pem = format!("-----BEGIN EC PRIVATE {}-----\n{word}\n   2\t{word}", "KEY");
        for secret in [
            format!("say \"{pem}\" now"),
            format!("{pem}\n-----END EC PRIVATE KEY-----\nend"),
            format!("{pem}\\\""),
            "p4ss\"word\\x".to_owned(),
            format!("a\nsk-{word}\n"),
        ] {
            let line =
                serde_json::json!({"type": "user", "content": [{"text": secret}]}).to_string();
            for line in [line.clone(), serde_json::json!({"inner": line}).to_string()] {
                let got = clean(&line);
                assert!(got.contains(MARK) && !got.contains(&word), "{got}");
                assert!(serde_json::from_str::<serde_json::Value>(&got).is_ok(), "{got}");
            }
        }
        assert!(clean(&format!("{pem}\n-----END EC PRIVATE KEY-----\nend")).ends_with("]\nend"));
        assert!(!format!("{redactor:?}").contains("p4ss"));
    }

    #[test]
    fn overlapping_values_are_removed_entirely() {
        let redactor = Redactor::new(["abcdefgh", "efghijkl", "abcdefghijklmnop", "short"]);
        for (text, want) in [
            ("-abcdefghijkl-", "-[redacted]-"),
            ("-abcdefghijklmnop-", "-[redacted]-"),
            ("-abcdefghijklmno-", "-[redacted]mno-"),
            ("-abcdefghabcdefgh-", "-[redacted][redacted]-"),
            ("-abcdefg short", "-abcdefg short"),
        ] {
            assert_eq!(redactor.clone().text(text), want);
            assert_eq!(in_parts(&redactor, text.as_bytes(), || 1), want.as_bytes());
        }
    }

    #[test]
    fn only_the_possible_start_of_a_secret_is_held_back() {
        let mut redactor = Redactor::new(["s3cr3t-value"]);
        let mut out = Vec::new();
        redactor.push(b"all of this comes at once\n", &mut out);
        assert_eq!(out, b"all of this comes at once\n");
        redactor.push(b"but not this: s3cr", &mut out);
        assert!(out.ends_with(b"this: "));
        redactor.finish(&mut out);
        assert!(out.ends_with(b"s3cr"));
    }

    #[test]
    fn what_is_assigned_to_a_secret_name_is_removed() {
        let clean = |text: &str| Redactor::new([""; 0]).text(text);
        for (text, left) in [
            ("DB_PASSWORD = 'Tr0ub4dor&3x'", "DB_PASSWORD = '[redacted]'"),
            (r#"{"client_secret":"aB3-xyz-9"}"#, r#"{"client_secret":"[redacted]"}"#),
            (
                r#"{"text":"{\"api_key\": \"aB3xyz9q\"}"}"#,
                r#"{"text":"{\"api_key\": \"[redacted]\"}"}"#,
            ),
            ("x?user=a&password=hunter7xQz&next=/", "x?user=a&password=[redacted]&next=/"),
            ("<password>hunter7xQz9</password>", "<password>[redacted]</password>"),
            ("curl -u deploy:hunter7xQz9 x", "curl -u deploy:[redacted] x"),
            ("mysqldump --password=hunter7xQz9 d", "mysqldump --password=[redacted] d"),
        ] {
            assert_eq!(clean(text), left);
        }
        for same in [
            "DB_PASSWORD=${DB_PASSWORD_2}",
            "const token = await getToken2(user);",
            "api_key: <your-api-key-1>",
            r#"{"max_tokens": 12345678, "session_id": "e8c1abcc-71de-436d-a34f-9840baf2374a"}"#,
            r#"{"type":"tool_use","id":"toolu_01EapRsppzEqySPHqhQOnWV9","signature":"aB3aB3aB3aB3aB3a"}"#,
            "cache_key = 'aB3aB3aB3aB3aB3aB3aB3'",
            "key = line[0:12] + other_line[12]",
        ] {
            assert_eq!(clean(same), same);
        }
    }

    #[test]
    fn secret_variables_of_an_environment_are_removed() {
        let variables = [
            ("API_KEY", "s3cr3t-value"),
            ("GIT_PASSWORD", "disabled"),
            ("SOME_TOKEN", "true"),
            ("EDITOR", "my-favourite-one"),
        ];
        let redactor = Redactor::of_variables(variables.map(|(n, v)| (n.into(), v.into())));
        let shape = format!("ghp_aB3{}", "x9".repeat(20));
        let text = format!("s3cr3t-value disabled true my-favourite-one {shape}");
        let left = "[redacted] disabled true my-favourite-one";
        assert_eq!(redactor.clone().text(&text), format!("{left} [redacted]"));
        assert_eq!(redactor.without_shapes().text(&text), format!("{left} {shape}"));
    }

    #[test]
    fn parts_of_lists_and_passwords_of_urls_are_secrets() {
        let variables = [
            ("API_KEYS", "first-one-1, second-one-2"),
            ("DATABASE_URL", "postgres://me:hunter2hunter@db.example/x"),
        ];
        let redactor = Redactor::of_variables(variables.map(|(n, v)| (n.into(), v.into())));
        let text = "first-one-1 second-one-2 hunter2hunter me db.example";
        assert_eq!(redactor.text(text), "[redacted] [redacted] [redacted] me db.example");
    }

    #[test]
    fn a_value_is_found_in_every_spelling_of_json_and_urls() {
        let clean = |value: &str, text: &str| Redactor::new([value]).text(text);
        let value = "caf\u{e9}/<key>=9";
        for text in [
            r"caf\u00e9/<key>=9",
            r"caf\u00E9/<key>=9",
            r"caf\\u00e9/<key>=9",
            "caf\u{e9}/\\u003ckey\\u003e=9",
            "caf\u{e9}\\/<key>=9",
            "caf%C3%A9/%3Ckey%3E%3D9",
            "caf%C3%A9%2F%3Ckey%3E%3D9",
            "caf%C3%A9/%3Ckey%3E=9",
        ] {
            assert_eq!(clean(value, text), MARK, "{text}");
        }
        assert_eq!(clean("pass!(word)*", "pass!(word)*"), MARK);
        assert_eq!(clean("pass word!(x)", "pass%20word!(x)"), MARK);
    }

    #[test]
    fn a_key_with_a_prefix_on_every_line_is_removed() {
        let mut dice = WordDice(Dice(5));
        let body: Vec<String> =
            (0..4).map(|at| format!("aB{at}{}", dice.word(ALNUM, 61))).collect();
        let label = "RSA PRIVATE KEY-----";
        let mut key = vec![format!("-----BEGIN {label}")];
        key.extend(body.iter().cloned());
        key.extend(["aB3x==".to_owned(), format!("-----END {label}")]);
        let clean = |text: &str| Redactor::new([""; 0]).text(text);
        for (begin, end) in [
            ("web_1  | ", ""),
            ("config/my_key.pem:", ""),
            ("> ", ""),
            ("  \"", "\\n\""),
            ("  '", "\\n' +"),
            ("\t\"", "\","),
            ("\u{1b}[36mweb_1 |\u{1b}[0m ", ""),
        ] {
            let lines = |key: &[String]| -> String {
                let lines: Vec<String> =
                    key.iter().map(|line| [begin, line, end, "\n"].concat()).collect();
                lines.concat()
            };
            let text = format!("{}after (it)\n", lines(&key));
            assert_eq!(clean(&text), format!("{begin}[redacted]{end}\nafter (it)\n"));
            let redactor = Redactor::new([""; 0]);
            let parts = in_parts(&redactor, text.as_bytes(), || 1);
            assert_eq!(String::from_utf8(parts).unwrap(), clean(&text), "{begin}");
            // The same in JSON, and truncated.
            for text in [text, lines(&key[..4])] {
                let json = serde_json::json!({"text": text}).to_string();
                let got = clean(&json);
                assert!(serde_json::from_str::<serde_json::Value>(&got).is_ok(), "{got}");
                assert!(body.iter().all(|line| !got.contains(&line[..40])), "{got}");
            }
        }
        let numbered: Vec<String> =
            (9..).zip(&key).map(|(at, line)| format!("{at:>4}_| {line}\n")).collect();
        assert_eq!(clean(&numbered.concat()), "   9_| [redacted]\n");
    }

    #[test]
    fn a_known_value_within_a_key_does_not_save_the_rest_of_it() {
        let mut dice = WordDice(Dice(9));
        let (start, end) = (dice.word(ALNUM, 20), dice.word(ALNUM, 30));
        let redactor = Redactor::new(["known-value"]);
        let clean = |text: &str| redactor.clone().text(text);
        assert_eq!(clean(&format!("(sk-{start}known-value{end})")), "([redacted])");
        assert_eq!(clean("(sk-known-value)"), "(sk-[redacted])");
        let label = "PRIVATE KEY-----";
        let pem = format!("-----BEGIN {label}\n{start}known-value{end}{end}\n{end}\n");
        assert_eq!(clean(&format!("{pem}-----END {label}\nx")), "[redacted]\nx");
    }

    #[test]
    fn passwords_of_urls_and_more_keys_are_removed() {
        let mut dice = WordDice(Dice(2));
        let mut word = |length: usize| format!("aB3{}", dice.word(ALNUM, length - 3));
        let clean = |text: &str| Redactor::new([""; 0]).text(text);
        let url = clean("psql postgres://me:hunter2@db.example:5432/x?a=b");
        assert_eq!(url, "psql postgres://me:[redacted]@db.example:5432/x?a=b");
        for same in [
            "http://host:8080/a@b",
            "ssh://git@host:22/x",
            "redis://:@host",
            "postgres://me:$PASSWORD@host",
            "https://user:{password}@host",
            "see https://example.com: me@example.com",
        ] {
            assert_eq!(clean(same), same);
        }
        let sendgrid = format!("SG.{}.{}", word(22), word(43));
        assert_eq!(clean(&format!("'{sendgrid}'")), "'[redacted]'");
        let azure = format!("AccountName=me;AccountKey={}==;EndpointSuffix=x", word(86));
        assert_eq!(clean(&azure), "AccountName=me;AccountKey=[redacted];EndpointSuffix=x");
        // The portal shows the first characters of a client secret as a hint.
        let client = format!("ARM_X: 'aB38Q~{}~{}'", word(20), word(13));
        assert_eq!(clean(&client), "ARM_X: 'aB38[redacted]'");
        for same in ["FAQ~aB3", "x Q~", "see 8Q~the-quick-brown-fox-jumps-over-the-lazy-dog"] {
            assert_eq!(clean(same), same);
        }
        let supabase = format!("SUPABASE sbp_{}", word(40));
        assert_eq!(clean(&supabase), "SUPABASE [redacted]");
        let twilio = format!("SK{}", "0a1b2c3d".repeat(4));
        assert_eq!(
            clean(&format!("('{twilio}', {twilio}ee)")),
            format!("('[redacted]', {twilio}ee)")
        );
        let discord = format!("'Bot {}.{}.{}'", word(24), word(6), word(38));
        assert_eq!(clean(&discord), "'Bot [redacted]'");
        let shared = format!("https://x.example/y?se=1&sig={}%3D&sp=r", word(43));
        assert_eq!(clean(&shared), "https://x.example/y?se=1&sig=[redacted]&sp=r");
    }

    #[test]
    fn a_variable_is_secret_by_its_name_or_the_form_of_its_value() {
        for (name, value, is_one) in [
            ("REDIS_URL", "redis://:pw@host", true),
            ("REDIS_URL", "postgres://me:pw@host/x", true),
            ("REDIS_URL", "redis://host", false),
            ("REDIS_URL", "https://me@host", false),
            ("REDIS_URL", "", false),
            ("ODBC", "Server=x;Pwd=Zq9v-4body;", true),
            ("GRADLE_OPTS", "-Xmx1g -Dpw=Zq9v-4body", true),
            ("CURL_OPTS", "-u me:Zq9v-4body", true),
            ("HUGGINGFACEHUB", "Zq9vSECRETbody31-and-more", true),
            ("INVOCATION_ID", "e8c1abcc71de436da34f9840baf2374a", false),
            ("API_TOKEN", "", true),
            ("API_TOKEN", "300s", false),
            ("API_TOKEN", "~/.token", false),
            ("DB_PASSWORD", "1234", true),
        ] {
            assert_eq!(is_secret_variable(name, value.as_bytes()), is_one, "{name}={value}");
        }
    }

    #[test]
    fn only_names_of_secrets_are_found() {
        let stores = ["android/release.keystore", "certs/Server.P12", "app.jks"];
        let files = [".env", "web/.env", ".env.local", ".env.production", "keys/id_rsa", ".netrc"];
        for path in files.iter().chain(&stores) {
            assert!(is_secret_file(path), "{path}");
        }
        for path in [
            ".env.example",
            ".env.local.example",
            ".env.test",
            ".envrc",
            "env",
            "src/.env/main.rs",
            "id_rsa.pub",
            "environment.yml",
            "src/keystore.rs",
            "tests/data/server.p12",
        ] {
            assert!(!is_secret_file(path), "{path}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn chunk_boundaries_do_not_matter(seed in any::<u64>(), parts in 1usize..20) {
            let mut dice = WordDice(Dice(seed));
            let values = ["abcabcabd", "bcabcabx", "-----BEGIN RSA", "[redacted]", "q\"\\q\nqqqq"];
            let redactor = Redactor::new(values);
            let mut text = Vec::new();
            for _ in 0..parts {
                let piece = match dice.roll(6) {
                    0 => values[dice.roll(values.len())].to_owned(),
                    1 | 2 => shaped(&mut dice),
                    3 => ["Authorization", ": Bearer ", "-----", "\\n", "\\", "eyJ", "\""][dice.roll(7)].into(),
                    4 => dice.word(b"abcx\\n-\" ", 12),
                    _ => dice.some(ALNUM, 30),
                };
                let piece = piece.as_bytes();
                let (from, to) = (dice.roll(4) / 3 * dice.roll(piece.len() + 1), piece.len());
                text.extend_from_slice(&piece[from..to]);
                if dice.roll(3) == 0 {
                    text.push(dice.roll(256) as u8);
                }
            }
            let most = 1 + dice.roll(60);
            let got = in_parts(&redactor, &text, || dice.roll(most));
            prop_assert_eq!(String::from_utf8_lossy(&got).into_owned(),
                String::from_utf8_lossy(&whole(&redactor, &text)).into_owned());
        }
    }
}
