//! Authentication of requests: the signature, its age, and whether the request was seen before.
//!
//! The signature itself is in `core::hmac`. Pure, except that it holds the secret.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::core::hmac::{holds, sign};

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
pub(super) enum AuthError {
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
    pub(super) fn answer(self) -> (u16, &'static str) {
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

/// What of a request is signed, and its signature.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SignedRequest<'a> {
    pub(super) timestamp: Option<&'a str>,
    pub(super) signature: Option<&'a str>,
    pub(super) body: &'a [u8],
}

/// The verifier of requests.
pub(super) struct RequestAuth {
    secret: Vec<u8>,
    /// The wall clock time at which it was created.
    since: i64,
    /// The times of the newest valid requests, the oldest first.
    believed: VecDeque<Instant>,
    /// The signatures of accepted requests, the oldest first.
    seen: VecDeque<String>,
}

impl RequestAuth {
    pub(super) fn new(secret: &[u8], now: i64) -> RequestAuth {
        let secret = secret.to_vec();
        RequestAuth { secret, since: now, believed: VecDeque::new(), seen: VecDeque::new() }
    }

    /// The signature of a request if the request is valid; `now` is the wall clock, `instant` a
    /// clock that is never set.
    pub(super) fn judge(
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
        while self.believed.front().is_some_and(|at| instant.duration_since(*at) >= SPAN) {
            self.believed.pop_front();
        }
        if self.believed.len() >= RATE {
            return Err(AuthError::Many);
        }
        self.believed.push_back(instant);
        Ok(signature)
    }

    /// Remembers an accepted request, so that it is not accepted again.
    pub(super) fn remember(&mut self, signature: String) {
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
        let begun = Instant::now();
        let mut warden = RequestAuth::new(b"secret", NOW - 1000);
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
            let judged = warden.judge(request.parts(), NOW, begun);
            assert_eq!(judged, Err(answer), "{timestamp}.{body}");
        }
        let unsigned = warden.judge(SignedRequest::default(), NOW, begun);
        assert_eq!(unsigned, Err(AuthError::Unsigned));
        for at in [NOW - WINDOW, NOW, NOW + AHEAD] {
            assert!(warden.judge(signed(at, "x").parts(), NOW, begun).is_ok());
        }
        let mut fresh = RequestAuth::new(b"secret", NOW);
        assert_eq!(
            fresh.judge(signed(NOW - 1, "x").parts(), NOW, begun),
            Err(AuthError::Stale),
            "of the one before"
        );
    }

    #[test]
    fn an_accepted_request_is_not_accepted_again() {
        let begun = Instant::now();
        let mut warden = RequestAuth::new(b"secret", NOW);
        let first = warden.judge(signed(NOW, "x").parts(), NOW, begun).unwrap();
        assert!(
            warden.judge(signed(NOW, "x").parts(), NOW, begun).is_ok(),
            "there was no room for it"
        );
        warden.remember(first);
        assert_eq!(warden.judge(signed(NOW, "x").parts(), NOW, begun), Err(AuthError::Again));
        let shouted = sign(b"secret", &format!("{NOW}.x")).to_uppercase().replace("SHA", "sha");
        let shouted = request(&NOW.to_string(), &shouted, "x");
        assert_eq!(
            warden.judge(shouted.parts(), NOW, begun),
            Err(AuthError::Again),
            "in other digits"
        );
        assert!(warden.judge(signed(NOW, "y").parts(), NOW, begun).is_ok());
        for number in 0..2 * REMEMBERED {
            warden.remember(number.to_string());
        }
        assert_eq!(warden.seen.len(), REMEMBERED);
    }

    #[test]
    fn requests_are_rate_limited() {
        let begun = Instant::now();
        let mut warden = RequestAuth::new(b"secret", NOW);
        let mut judge = |number: u64, seconds| {
            let request = signed(NOW, &number.to_string());
            warden.judge(request.parts(), NOW, begun + Duration::from_secs(seconds)).map(drop)
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
