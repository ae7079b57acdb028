//! Authentication of requests: the signature, its age, and whether the request was seen before.
//!
//! The signature itself is in `core::signature`. Pure, except that it holds the secret.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{HttpResponse, request::HttpRequest};
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

const UNSIGNED: HttpResponse =
    HttpResponse::unauthorized("X-Ralph-Timestamp and X-Ralph-Signature are required exactly once");
const NO_TIME: HttpResponse =
    HttpResponse::bad("X-Ralph-Timestamp is not a number of seconds since 1970");
const STALE: HttpResponse = HttpResponse::unauthorized(
    "the timestamp is too old, in the future, or from before the server started",
);
const WRONG: HttpResponse = HttpResponse::unauthorized("the signature is wrong");
const AGAIN: HttpResponse = HttpResponse::unauthorized("this request was already accepted");
const MANY: HttpResponse = HttpResponse {
    header: "Retry-After: 60\r\n",
    ..HttpResponse::new("429 Too Many Requests", "more than ten requests in a minute")
};

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
        request: &HttpRequest,
        now: i64,
        instant: Instant,
    ) -> Result<String, HttpResponse> {
        let (timestamp, signature) = request.signed().ok_or(UNSIGNED)?;
        let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let time: i64 = timestamp.parse().ok().filter(|_| digits).ok_or(NO_TIME)?;
        // An earlier process may have seen older requests.
        if time < now.saturating_sub(WINDOW).max(self.since) || time > now.saturating_add(AHEAD) {
            return Err(STALE);
        }
        // Takes the same time, whatever is wrong.
        if !holds(&self.secret, timestamp, request.body(), signature) {
            return Err(WRONG);
        }
        // Compares the decoded bytes: the same digits can be written in several ways.
        let signature = sign(&self.secret, timestamp, request.body());
        if self.seen.contains(&signature) {
            return Err(AGAIN);
        }
        while self.believed.front().is_some_and(|at| instant.duration_since(*at) >= SPAN) {
            self.believed.pop_front();
        }
        if self.believed.len() >= RATE {
            return Err(MANY);
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

    fn request(timestamp: &str, signature: &str, body: &str) -> HttpRequest {
        let mut request = HttpRequest::default();
        let length = body.len();
        let text = format!(
            "POST /wake HTTP/1.1\r\nX-Ralph-Timestamp: {timestamp}\r\nX-Ralph-Signature: \
             {signature}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        request.take(text.as_bytes());
        request
    }

    fn sign(secret: &[u8], text: &str) -> String {
        let (timestamp, body) = text.split_once('.').unwrap();
        crate::core::hmac::sign(secret, timestamp, body.as_bytes())
    }

    fn signed(at: i64, body: &str) -> HttpRequest {
        request(&at.to_string(), &sign(b"secret", &format!("{at}.{body}")), body)
    }

    #[test]
    fn only_fresh_signed_requests_are_valid() {
        let begun = Instant::now();
        let mut warden = RequestAuth::new(b"secret", NOW - 1000);
        let right = sign(b"secret", &format!("{NOW}.x"));
        let now = NOW.to_string();
        for (request, answer) in [
            (request(&now, &sign(b"Secret", &format!("{NOW}.x")), "x"), WRONG),
            (request(&now, &right, "y"), WRONG),
            (request(&now, &right, ""), WRONG),
            (request(&(NOW + 1).to_string(), &right, "x"), WRONG),
            (request(&now, &right[7..], "x"), WRONG),
            (request(&now, &right[..right.len() - 1], "x"), WRONG),
            (request(&now, &format!("{right}00"), "x"), WRONG),
            (request(&now, "sha256=\u{e9}", "x"), WRONG),
            (request(&now, "", "x"), WRONG),
            (request("soon", &right, "x"), NO_TIME),
            (request("+1800000000", &right, "x"), NO_TIME),
            (request("99999999999999999999", &right, "x"), NO_TIME),
            (request("", &right, "x"), NO_TIME),
            (signed(NOW - WINDOW - 1, "x"), STALE),
            (signed(NOW + AHEAD + 1, "x"), STALE),
            (signed(i64::MAX, "x"), STALE),
            (HttpRequest::default(), UNSIGNED),
        ] {
            assert_eq!(warden.judge(&request, NOW, begun), Err(answer), "{request:?}");
        }
        for at in [NOW - WINDOW, NOW, NOW + AHEAD] {
            assert!(warden.judge(&signed(at, "x"), NOW, begun).is_ok());
        }
        let mut fresh = RequestAuth::new(b"secret", NOW);
        assert_eq!(fresh.judge(&signed(NOW - 1, "x"), NOW, begun), Err(STALE), "of the one before");
    }

    #[test]
    fn an_accepted_request_is_not_accepted_again() {
        let begun = Instant::now();
        let mut warden = RequestAuth::new(b"secret", NOW);
        let first = warden.judge(&signed(NOW, "x"), NOW, begun).unwrap();
        assert!(warden.judge(&signed(NOW, "x"), NOW, begun).is_ok(), "there was no room for it");
        warden.remember(first);
        assert_eq!(warden.judge(&signed(NOW, "x"), NOW, begun), Err(AGAIN));
        let shouted = sign(b"secret", &format!("{NOW}.x")).to_uppercase().replace("SHA", "sha");
        let shouted = request(&NOW.to_string(), &shouted, "x");
        assert_eq!(warden.judge(&shouted, NOW, begun), Err(AGAIN), "in other digits");
        assert!(warden.judge(&signed(NOW, "y"), NOW, begun).is_ok());
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
            warden.judge(&request, NOW, begun + Duration::from_secs(seconds)).map(drop)
        };
        for number in 0..10 {
            assert_eq!(judge(number, number), Ok(()));
        }
        assert_eq!(judge(10, 59), Err(MANY));
        assert_eq!(judge(11, 60), Ok(()));
        assert_eq!(judge(12, 60), Err(MANY));
        assert_eq!(judge(13, 61), Ok(()));
    }
}
