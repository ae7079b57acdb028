//! Which names of variables, settings and fields hold secrets: a rule about their words.

use std::sync::LazyLock;

use regex::Regex;

/// Words that name a secret.
const STRONG: &str = "TOKEN SECRET PASSWORD PASSWORDS PASSWD PASSPHRASE APIKEY AUTHKEY AUTHTOKEN \
    ACCESSTOKEN CLIENTSECRET CREDENTIAL CREDENTIALS CREDS MNEMONIC PSK PEM PFX P12 AUTHORIZATION \
    BEARER NETRC SSHPASS";

/// Words that name a secret only at the end of a name.
const WEAK: &str = "KEY KEYS AUTH OAUTH SESSION PASS PIN PW PAT DSN SALT PEPPER COOKIE JWT LICENSE \
    KEYSTORE TOKENS WEBHOOK SECRETS PWD";

/// Words that have other meanings too.
const COMMON: &str = "TOKEN TOKENS KEY KEYS AUTH SESSION SALT PIN LICENSE COOKIE";

/// Words that make a name ordinary, wherever they follow.
const AFTER: &str = "FILE FILES PATH DIR DIRECTORY FOLDER HOME URL URI ENDPOINT HOST PORT SERVER \
    DOMAIN REALM SOCK SOCKET NAME NAMES TYPE METHOD MODE MECHANISM ALGORITHM ALG PROVIDER BACKEND \
    DRIVER STORE MANAGER HELPER COMMAND CMD ISSUER AUDIENCE SCOPE SCOPES ARN REGION BUCKET TTL \
    TIMEOUT LIFETIME EXPIRY EXPIRATION EXPIRES MAX MIN LENGTH LIMIT SIZE COUNT ENABLED DISABLED \
    REQUIRED CHECKING HEADER PREFIX SUFFIX HASHERS LAYOUT REPEAT SECURE SAMESITE TRUST ID UID \
    VERSION CLASS DESKTOP PID MASTER CONTROL KEYSCAN TELEMETRY GENERATE RING MAP POLICY RELATIVE \
    USER USERNAME LOGIN EMAIL PUBLIC TENANT ENV STAGE DURATION CLAIM CLAIMS TAGS FORMAT REDACTION";

/// Words that make a name ordinary, right before a word that may name a secret.
const BEFORE: &str = "PUBLIC PUB PUBLISHABLE SITE CACHE PARTITION SORT PRIMARY FOREIGN STEP GROUP \
    HOT MAX MIN NUM MAP THINKING HISTORY OUTPUT DESKTOP REJECT KEYSCAN FALLBACK NO RANDOM EMPTY \
    INTEGRITY IMPLICIT USE GENERATE ASK DICT KMS PROJECT REQUEST ALLOW";

/// Words at the end of a name that say how a secret is written.
const FORMS: &str =
    "BASE64 B64 DATA CONTENT CONTENTS JSON PEM STRING VALUE RAW HEX V1 V2 PLAIN TEXT CONFIG";

/// Ordinary names with a word for secrets, and names of secrets without one.
struct Exceptions {
    ordinary: Regex,
    secret: Regex,
    /// One word that ends in another, as in `PGPASSWORD`.
    joined: Regex,
}

static EXCEPTIONS: LazyLock<Exceptions> = LazyLock::new(|| {
    let regex = |pattern: &str| Regex::new(&format!("(?x-u) ^(?:{pattern})$")).expect("is valid");
    Exceptions {
        ordinary: regex(
            r"PWD | OLDPWD | SSH_AUTH_SOCK | SESSION_MANAGER | DESKTOP_SESSION | XDG_SESSION_\w+
            | \w*SESSION_?(?:ID|UID|TYPE|VERSION|BUS_ADDRESS) | KDE_FULL_SESSION | ATUIN_SESSION
            | STARSHIP_SESSION_KEY | AWS_ROLE_SESSION_NAME | GIT_CONFIG_KEY_\d+ | GPG_KEY
            | \w*ASKPASS(?:_\w+)? | (?:HUDSON|JENKINS)_\w*COOKIE | PASSENGER_\w+ | \w*COMPASS
            | \w*BYPASS | DOCKER_CONTENT_TRUST | SSLKEYLOGFILE",
        ),
        secret: regex(
            r"\w*_ACCESS_KEY_ID | BUNDLE_\w+__\w+ | NPM_CONFIG__AUTH\w* | OP_SESSION_\w+
            | TF_TOKEN_\w+ | \w*CONNECTION_?STRINGS? | \w*(?:SEED|RECOVERY)_PHRASE | \w*WEBHOOK_URL
            | \w*(?:KUBE_?CONFIG|SERVICE_ACCOUNT|SIGN(?:ING)?_CERT|CERTIFICATE|KEYSTORE)_?
              (?:DATA|BASE64|B64|JSON|CONTENTS?)?
            | \w*JITCONFIG | UNITY_SERIAL | VAULT_SECRET_ID | TWILIO_AUTH_SID",
        ),
        joined: regex(r"[A-Z0-9]{2,}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|SECRET|TOKEN|APIKEY|PW)"),
    }
});

fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

/// Whether a variable of this name holds a secret, or a list of them.
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if EXCEPTIONS.ordinary.is_match(&upper) {
        return false;
    }
    let words = words(name);
    EXCEPTIONS.secret.is_match(&upper) || (0..words.len()).any(|at| is_secret_at(&words, at))
}

/// Whether a variable of this name leads to a file or folder with secrets: it names one, a person's
/// settings for a program, or a command history.
pub fn names_secret_place(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let bare = PLACES.place.replace(&upper, "");
    is_secret_name(&bare) || PLACES.settings.is_match(&bare) && !PLACES.other.is_match(&bare)
}

/// Parts of names of variables that lead to files.
struct Places {
    /// The word for the place itself.
    place: Regex,
    settings: Regex,
    /// Settings that builds need.
    other: Regex,
}

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let regex = |pattern: &str| Regex::new(pattern).expect("is valid");
    Places {
        place: regex(r"(?:_?(?:FILE|PATH|DIR|FOLDER|OVERRIDE))+$"),
        settings: regex(r"(?:CONFIG|HIST|HISTORY|_RC|NETRC|WGETRC|CONDARC|PGPASS|PGSERVICE)$"),
        other: regex(r"^(?:PKG|MAVEN|GIT|EM|LLVM|FONT|BUNDLE_APP)_?CONFIG$"),
    }
});

/// Whether the value of a name is a secret.
pub(super) enum SecretName {
    Yes,
    /// If the value looks like one.
    Maybe,
    No,
}

/// The same for names in texts: `pwd` is a password there, and one common word is weak evidence.
pub(super) fn secret_name(name: &str) -> SecretName {
    let is_one = || matches!(&words(name)[..], [word] if is_in(COMMON, word));
    match is_secret_name(name) || name.eq_ignore_ascii_case("pwd") {
        true if is_one() => SecretName::Maybe,
        true => SecretName::Yes,
        false => SecretName::No,
    }
}

/// Whether the word at a place makes a name that of a secret.
fn is_secret_at(words: &[String], at: usize) -> bool {
    let (word, rest) = (words[at].as_str(), &words[at + 1..]);
    let is_weak = is_in(WEAK, word);
    let is_joined = || EXCEPTIONS.joined.is_match(word) && !EXCEPTIONS.ordinary.is_match(word);
    if !is_weak && !is_in(STRONG, word) && !is_joined()
        || rest.iter().any(|word| is_in(AFTER, word))
    {
        return false;
    }
    let is_other = at > 0 && is_in(BEFORE, &words[at - 1]);
    let names_more = |word: &String| is_in(STRONG, word) || is_in(WEAK, word) || word == "SIGNING";
    !(is_other && (is_weak || word == "TOKEN" || word == "PASSWORD"))
        && (!is_weak || rest.iter().all(names_more))
}

/// The words of a name, in capitals, without those at its end that say how a secret is written.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut before, mut letters) = (' ', name.chars().peekable());
    while let Some(letter) = letters.next() {
        let is_capital_after = |letter: char| !letter.is_ascii_uppercase();
        let starts = !before.is_ascii_alphanumeric()
            || letter.is_ascii_uppercase()
                && (is_capital_after(before) && !before.is_ascii_digit()
                    || letters.peek().is_some_and(char::is_ascii_lowercase));
        if letter.is_ascii_alphanumeric() {
            if starts {
                words.push(String::new());
            }
            words.last_mut().expect("one was started").push(letter.to_ascii_uppercase());
        }
        before = letter;
    }
    let is_form = |word: &String| is_in(FORMS, word) || word.bytes().all(|it| it.is_ascii_digit());
    while words.len() > 1 && words.last().is_some_and(is_form) {
        words.pop();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_recognized() {
        for name in "ANTHROPIC_API_KEY GH_TOKEN token Db_Password X-SECRET KEY DB_PASS SENTRY_DSN \
            SLACK_WEBHOOK_URL STRIPE_KEY GPG_PASSPHRASE PGPASSWORD GITHUB_PAT MYSQL_PWD API_KEYS \
            AWS_CREDENTIALS signingKey KUBE_TOKEN_BASE64 DB_PASSWORD_2 TF_VAR_db_password APP_JWT \
            AZURE_STORAGE_CONNECTION_STRING npm_config__auth AWS_ACCESS_KEY_ID SMTP_PASS"
            .split_whitespace()
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in "COMPASS PASSAGE BYPASS WEBHOOK_PORT MONKEY TOKENIZER PATH KEYBOARD_LAYOUT PWD \
            OLDPWD S SSH_AUTH_SOCK TOKEN_FILE MAX_TOKENS cache_key PRIMARY_KEY SESSION_ID \
            SUDO_ASKPASS AUTH_HEADER STRIPE_PUBLISHABLE_KEY APP_KEY_ROTATION"
            .split_whitespace()
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
