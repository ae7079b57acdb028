//! The HTTP trigger: signed requests that start a run. The body of a request is not interpreted; a
//! request only counts as valid or not.

use std::{
    collections::VecDeque,
    env, fs,
    net::{SocketAddr, TcpListener},
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use crate::{
    adapters::http_server::{HttpCaller, HttpMethod, HttpReply, HttpRequest, Site},
    core::exit::{Exit, Failure},
    core::hmac::{SIGNATURE, TIMESTAMP, holds, sign},
    project::config::{Secret, TriggerConfig},
};

/// The path of the requests.
pub(super) const PATH: &str = "/wake";
/// The maximum size of a body.
const BODY: usize = 64 * 1024;
/// The minimum length of a secret.
const SHORTEST: usize = 16;

/// Starts listening. Calls `ask` for each valid request; it returns whether the request is queued.
/// Paths of the settings are relative to `root`.
///
/// # Errors
/// A missing or exposed secret; an address that cannot be used.
pub(super) fn open(
    trigger: &TriggerConfig,
    root: &Path,
    ask: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let secret = secret(&trigger.secret, root)?;
    let listen = || -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind(trigger.listen)?;
        let address = listener.local_addr()?;
        let auth = Mutex::new(RequestAuth::new(&secret, Utc::now().timestamp()));
        // Connections are closed after one request: their number is bounded, and senders are many.
        let site = Site::new(BODY, false, |_| Ok(HttpCaller::Unknown))
            .route(HttpMethod::Post, PATH, move |request| wake(&auth, &ask, request))
            .otherwise("the only path is /wake", "the only method is POST");
        site.serve(listener)?;
        Ok(address)
    };
    listen()
        .with_context(|| format!("listen on `{}` for the trigger of `schedule`", trigger.listen))
}

fn wake(auth: &Mutex<RequestAuth>, ask: &impl Fn() -> bool, request: &HttpRequest) -> HttpReply {
    let signed = SignedRequest {
        timestamp: request.header(TIMESTAMP),
        signature: request.header(SIGNATURE),
        body: request.body(),
    };
    // Held until the request is remembered: the same one may arrive twice at once.
    let mut auth = auth.lock().unwrap_or_else(PoisonError::into_inner);
    match auth.judge(signed, Utc::now().timestamp(), Instant::now()) {
        Ok(signature) if ask() => {
            auth.remember(signature);
            HttpReply::text(202, "a run will start")
        }
        Ok(_) => HttpReply::text(409, "a run is already requested and has not started"),
        Err(error) => {
            let (status, text) = error.answer();
            let reply = HttpReply::text(status, text);
            if error == AuthError::Many { reply.with("retry-after", "60") } else { reply }
        }
    }
}

fn secret(kept: &Secret, root: &Path) -> Result<Vec<u8>> {
    let invalid = |message: String| Failure::new(Exit::Invalid, message);
    let (secret, name) = match kept {
        Secret::Variable(name) => {
            let missing = || invalid(format!("`{name}` is not set (`secret_env` of `trigger`)"));
            (env::var_os(name).ok_or_else(missing)?.into_vec(), format!("`{name}`"))
        }
        Secret::File(path) => {
            let path = root.join(path);
            let name = format!("`{}`", path.display());
            let found = fs::metadata(&path)
                .with_context(|| format!("check {name} (`secret_file` of `trigger`)"))?;
            if found.mode() & 0o077 != 0 {
                let message = format!("other users can read {name}; run `chmod 600` on it");
                return Err(invalid(message).into());
            }
            let bytes = fs::read(&path).with_context(|| format!("read {name}"))?;
            (bytes.trim_ascii_end().to_owned(), name)
        }
    };
    if secret.len() < SHORTEST {
        let message = format!(
            "the secret in {name} is too short; use at least {SHORTEST} characters, for example from \
             `openssl rand -hex 32`"
        );
        return Err(invalid(message).into());
    }
    Ok(secret)
}

/// The maximum age of a request, in seconds,
const WINDOW: i64 = 300;
/// and how far the signer's clock may be ahead.
const AHEAD: i64 = 60;
/// The number of valid requests
const RATE: usize = 10;
/// within this time.
const SPAN: Duration = Duration::from_secs(60);
/// The number of signatures that are remembered: more than an hour's worth at that rate.
const REMEMBERED: usize = 1000;

/// Why a request is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthError {
    /// A header is missing or sent twice.
    Unsigned,
    /// The time is not a number.
    NoTime,
    /// The time is too old, in the future, or before the server started.
    Stale,
    /// The signature is wrong.
    Wrong,
    /// The request was accepted before.
    Again,
    /// There were too many requests.
    Many,
}

impl AuthError {
    /// The status code and the text for the sender.
    fn answer(self) -> (u16, &'static str) {
        match self {
            AuthError::Unsigned => {
                (401, "X-Ralph-Timestamp and X-Ralph-Signature are required exactly once")
            }
            AuthError::NoTime => (400, "X-Ralph-Timestamp is not a number of seconds since 1970"),
            AuthError::Stale => {
                (401, "the timestamp is too old, in the future, or from before the server started")
            }
            AuthError::Wrong => (401, "the signature is wrong"),
            AuthError::Again => (401, "this request was already accepted"),
            AuthError::Many => (429, "more than ten requests in a minute"),
        }
    }
}

/// A request's signed part, and its signature.
#[derive(Clone, Copy, Debug, Default)]
struct SignedRequest<'a> {
    timestamp: Option<&'a str>,
    signature: Option<&'a str>,
    body: &'a [u8],
}

/// The verifier of requests.
struct RequestAuth {
    secret: Vec<u8>,
    /// The wall clock time at which it was created.
    since: i64,
    /// The times of the newest valid requests, the oldest first.
    recent: VecDeque<Instant>,
    /// The signatures of accepted requests, the oldest first.
    seen: VecDeque<String>,
}

impl RequestAuth {
    fn new(secret: &[u8], now: i64) -> RequestAuth {
        let secret = secret.to_vec();
        RequestAuth { secret, since: now, recent: VecDeque::new(), seen: VecDeque::new() }
    }

    /// The signature of a request if the request is valid; `now` is the wall clock, `instant` a
    /// clock that is never set.
    fn judge(
        &mut self,
        request: SignedRequest<'_>,
        now: i64,
        instant: Instant,
    ) -> Result<String, AuthError> {
        let SignedRequest { timestamp: Some(timestamp), signature: Some(signature), body } =
            request
        else {
            return Err(AuthError::Unsigned);
        };
        let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let time: i64 = timestamp.parse().ok().filter(|_| digits).ok_or(AuthError::NoTime)?;
        // An earlier process may have seen older requests.
        if time < now.saturating_sub(WINDOW).max(self.since) || time > now.saturating_add(AHEAD) {
            return Err(AuthError::Stale);
        }
        // Takes the same time, whatever is wrong.
        if !holds(&self.secret, timestamp, body, signature) {
            return Err(AuthError::Wrong);
        }
        // Compares the decoded bytes: the same digits can be written in several ways.
        let signature = sign(&self.secret, timestamp, body);
        if self.seen.contains(&signature) {
            return Err(AuthError::Again);
        }
        while self.recent.front().is_some_and(|at| instant.duration_since(*at) >= SPAN) {
            self.recent.pop_front();
        }
        if self.recent.len() >= RATE {
            return Err(AuthError::Many);
        }
        self.recent.push_back(instant);
        Ok(signature)
    }

    /// Remembers an accepted request, so that it is not accepted again.
    fn remember(&mut self, signature: String) {
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(signature);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    struct TestRequest {
        timestamp: String,
        signature: String,
        body: String,
    }

    impl TestRequest {
        fn parts(&self) -> SignedRequest<'_> {
            SignedRequest {
                timestamp: Some(&self.timestamp),
                signature: Some(&self.signature),
                body: self.body.as_bytes(),
            }
        }
    }

    fn request(timestamp: &str, signature: &str, body: &str) -> TestRequest {
        let [timestamp, signature, body] = [timestamp, signature, body].map(str::to_owned);
        TestRequest { timestamp, signature, body }
    }

    fn sign(secret: &[u8], text: &str) -> String {
        let (timestamp, body) = text.split_once('.').unwrap();
        crate::core::hmac::sign(secret, timestamp, body.as_bytes())
    }

    fn signed(at: i64, body: &str) -> TestRequest {
        request(&at.to_string(), &sign(b"secret", &format!("{at}.{body}")), body)
    }

    #[test]
    fn only_fresh_signed_requests_are_valid() {
        let start = Instant::now();
        let mut auth = RequestAuth::new(b"secret", NOW - 1000);
        let right = sign(b"secret", &format!("{NOW}.x"));
        let now = NOW.to_string();
        for (request, answer) in [
            (request(&now, &sign(b"Secret", &format!("{NOW}.x")), "x"), AuthError::Wrong),
            (request(&now, &right, "y"), AuthError::Wrong),
            (request(&now, &right, ""), AuthError::Wrong),
            (request(&(NOW + 1).to_string(), &right, "x"), AuthError::Wrong),
            (request(&now, &right[7..], "x"), AuthError::Wrong),
            (request(&now, &right[..right.len() - 1], "x"), AuthError::Wrong),
            (request(&now, &format!("{right}00"), "x"), AuthError::Wrong),
            (request(&now, "sha256=\u{e9}", "x"), AuthError::Wrong),
            (request(&now, "", "x"), AuthError::Wrong),
            (request("soon", &right, "x"), AuthError::NoTime),
            (request("+1800000000", &right, "x"), AuthError::NoTime),
            (request("99999999999999999999", &right, "x"), AuthError::NoTime),
            (request("", &right, "x"), AuthError::NoTime),
            (signed(NOW - WINDOW - 1, "x"), AuthError::Stale),
            (signed(NOW + AHEAD + 1, "x"), AuthError::Stale),
            (signed(i64::MAX, "x"), AuthError::Stale),
        ] {
            let TestRequest { timestamp, body, .. } = &request;
            let judged = auth.judge(request.parts(), NOW, start);
            assert_eq!(judged, Err(answer), "{timestamp}.{body}");
        }
        let unsigned = auth.judge(SignedRequest::default(), NOW, start);
        assert_eq!(unsigned, Err(AuthError::Unsigned));
        for at in [NOW - WINDOW, NOW, NOW + AHEAD] {
            assert!(auth.judge(signed(at, "x").parts(), NOW, start).is_ok());
        }
        let mut fresh = RequestAuth::new(b"secret", NOW);
        assert_eq!(
            fresh.judge(signed(NOW - 1, "x").parts(), NOW, start),
            Err(AuthError::Stale),
            "of the one before"
        );
    }

    #[test]
    fn an_accepted_request_is_not_accepted_again() {
        let start = Instant::now();
        let mut auth = RequestAuth::new(b"secret", NOW);
        let first = auth.judge(signed(NOW, "x").parts(), NOW, start).unwrap();
        assert!(
            auth.judge(signed(NOW, "x").parts(), NOW, start).is_ok(),
            "there was no room for it"
        );
        auth.remember(first);
        assert_eq!(auth.judge(signed(NOW, "x").parts(), NOW, start), Err(AuthError::Again));
        let shouted = sign(b"secret", &format!("{NOW}.x")).to_uppercase().replace("SHA", "sha");
        let shouted = request(&NOW.to_string(), &shouted, "x");
        assert_eq!(
            auth.judge(shouted.parts(), NOW, start),
            Err(AuthError::Again),
            "in other digits"
        );
        assert!(auth.judge(signed(NOW, "y").parts(), NOW, start).is_ok());
        for number in 0..2 * REMEMBERED {
            auth.remember(number.to_string());
        }
        assert_eq!(auth.seen.len(), REMEMBERED);
    }

    #[test]
    fn requests_are_rate_limited() {
        let start = Instant::now();
        let mut auth = RequestAuth::new(b"secret", NOW);
        let mut judge = |number: u64, seconds| {
            let request = signed(NOW, &number.to_string());
            auth.judge(request.parts(), NOW, start + Duration::from_secs(seconds)).map(drop)
        };
        for number in 0..10 {
            assert_eq!(judge(number, number), Ok(()));
        }
        assert_eq!(judge(10, 59), Err(AuthError::Many));
        assert_eq!(judge(11, 60), Ok(()));
        assert_eq!(judge(12, 60), Err(AuthError::Many));
        assert_eq!(judge(13, 61), Ok(()));
    }
}
