//! One HTTP request, parsed as its bytes arrive, in bounded memory.

use super::{HttpResponse, PATH};
use crate::core::hmac::{SIGNATURE, TIMESTAMP};

/// The maximum size of a body.
const BODY: usize = 64 * 1024;
/// The maximum size of the request line and the headers.
const HEAD: usize = 8 * 1024;
/// The maximum number of headers.
const HEADERS: usize = 64;

const GARBLED: HttpResponse = HttpResponse::bad("this is not an HTTP request");
const LONG: HttpResponse = HttpResponse::bad("the headers are too long");
const CHUNKED: HttpResponse =
    HttpResponse::bad("the body needs exactly one Content-Length and no Transfer-Encoding");
const ELSEWHERE: HttpResponse = HttpResponse::new("404 Not Found", "the only path is /wake");
const METHOD: HttpResponse = HttpResponse {
    header: "Allow: POST\r\n",
    ..HttpResponse::new("405 Method Not Allowed", "the only method is POST")
};
const LARGE: HttpResponse =
    HttpResponse::new("413 Content Too Large", "the body has more than 64 KiB");

/// A request as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct HttpRequest {
    bytes: Vec<u8>,
    head: Option<RequestHead>,
}

#[derive(Debug)]
struct RequestHead {
    /// The start and the length of the body.
    body: usize,
    length: usize,
    timestamp: Option<String>,
    signature: Option<String>,
}

/// The state of a request after more bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadProgress {
    /// The request is incomplete.
    More,
    /// The request is incomplete, and the sender waits for `100 Continue`.
    Continue,
    /// The request is rejected; the rest is not read.
    Refused(HttpResponse),
    /// The request is complete.
    Whole,
}

impl HttpRequest {
    /// Adds more bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> ReadProgress {
        self.bytes.extend(bytes);
        let mut waits = false;
        if self.head.is_none() {
            match read_head(&self.bytes) {
                Ok(None) if self.bytes.len() > HEAD => return ReadProgress::Refused(LONG),
                Ok(None) => return ReadProgress::More,
                Ok(Some((head, expects))) => {
                    waits = expects;
                    self.head = Some(head);
                }
                Err(answer) => return ReadProgress::Refused(answer),
            }
        }
        match &self.head {
            Some(head) if self.bytes.len() >= head.body + head.length => ReadProgress::Whole,
            _ if waits => ReadProgress::Continue,
            _ => ReadProgress::More,
        }
    }

    /// The headers with the time of the signature and the signature.
    pub(super) fn signed(&self) -> Option<(&str, &str)> {
        let head = self.head.as_ref()?;
        Some((head.timestamp.as_deref()?, head.signature.as_deref()?))
    }

    /// The body as it arrived.
    pub(super) fn body(&self) -> &[u8] {
        let part = self.head.as_ref().map_or(0..0, |head| head.body..head.body + head.length);
        self.bytes.get(part).unwrap_or_default()
    }
}

/// The head if it is complete, and whether the sender waits before it sends the body.
fn read_head(bytes: &[u8]) -> Result<Option<(RequestHead, bool)>, HttpResponse> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let body = match request.parse(bytes) {
        Ok(httparse::Status::Complete(body)) => body,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(LONG),
        Err(_) => return Err(GARBLED),
    };
    if body > HEAD {
        return Err(LONG);
    }
    if request.path.and_then(|path| path.split('?').next()) != Some(PATH) {
        return Err(ELSEWHERE);
    }
    if request.method != Some("POST") {
        return Err(METHOD);
    }
    let all = |name: &str| {
        let named = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        let found: Vec<&str> = request
            .headers
            .iter()
            .filter(named)
            .map(|header| std::str::from_utf8(header.value).unwrap_or_default().trim())
            .collect();
        found
    };
    let one = |name: &str| match all(name).as_slice() {
        [value] => Some((*value).to_owned()),
        _ => None,
    };
    let length = match all("content-length").as_slice() {
        [] => 0,
        [digits] if digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() => {
            digits.parse().unwrap_or(usize::MAX)
        }
        _ => return Err(CHUNKED),
    };
    if !all("transfer-encoding").is_empty() {
        return Err(CHUNKED);
    }
    if length > BODY {
        return Err(LARGE);
    }
    let expects = all("expect").iter().any(|value| value.eq_ignore_ascii_case("100-continue"));
    let (timestamp, signature) = (one(TIMESTAMP), one(SIGNATURE));
    Ok(Some((RequestHead { body, length, timestamp, signature }, expects)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (HttpRequest, ReadProgress) {
        let mut request = HttpRequest::default();
        let progress = request.take(text.as_bytes());
        (request, progress)
    }

    #[test]
    fn a_request_may_arrive_in_pieces_of_any_size() {
        let text = "POST /wake?x=1 HTTP/1.1\r\nHost: a\r\nX-Ralph-Timestamp: 12\r\n\
                    x-ralph-signature:  sha256=ab \r\nContent-Length: 5\r\n\r\nhello";
        for cut in 1..text.len() {
            let (mut request, progress) = read(&text[..cut]);
            assert_eq!(progress, ReadProgress::More, "cut at {cut}");
            assert_eq!(request.take(&text.as_bytes()[cut..]), ReadProgress::Whole, "cut at {cut}");
            assert_eq!(request.signed(), Some(("12", "sha256=ab")));
            assert_eq!(request.body(), b"hello");
        }
        let (request, progress) = read("POST /wake HTTP/1.0\r\n\r\n");
        assert_eq!(
            (progress, request.body(), request.signed()),
            (ReadProgress::Whole, &b""[..], None)
        );
    }

    #[test]
    fn a_waiting_sender_gets_one_continue() {
        let head = "POST /wake HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
        let (mut request, progress) = read(head);
        assert_eq!(progress, ReadProgress::Continue);
        assert_eq!(request.take(b"a"), ReadProgress::More);
        assert_eq!(request.take(b"b"), ReadProgress::Whole);
        assert_eq!(read(&format!("{head}ab")).1, ReadProgress::Whole);
    }

    #[test]
    fn invalid_requests_are_rejected_before_the_body() {
        let post = |headers: &str| format!("POST /wake HTTP/1.1\r\n{headers}\r\n");
        for (text, answer) in [
            ("\u{1}\u{2}\r\n".to_owned(), GARBLED),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), ELSEWHERE),
            ("POST /wake/x HTTP/1.1\r\n\r\n".to_owned(), ELSEWHERE),
            ("GET /wake HTTP/1.1\r\n\r\n".to_owned(), METHOD),
            (post("Content-Length: 65537\r\n"), LARGE),
            (post("Content-Length: 99999999999999999999999\r\n"), LARGE),
            (post("Content-Length: -1\r\n"), CHUNKED),
            (post("Content-Length: \r\n"), CHUNKED),
            (post("Content-Length: 1\r\nContent-Length: 2\r\n"), CHUNKED),
            (post("Transfer-Encoding: chunked\r\n"), CHUNKED),
            (post(&"A: b\r\n".repeat(HEADERS + 1)), LONG),
            (format!("POST /wake HTTP/1.1\r\nA: {}", "x".repeat(HEAD)), LONG),
            (post(&format!("A: {}\r\n", "x".repeat(HEAD))), LONG),
        ] {
            assert_eq!(read(&text).1, ReadProgress::Refused(answer), "{text}");
        }
        assert!(String::from_utf8(METHOD.bytes()).unwrap().contains("\r\nAllow: POST\r\n"));
        let largest = format!("Content-Length: 65536\r\n\r\n{}", "x".repeat(65536));
        assert_eq!(read(&format!("POST /wake HTTP/1.1\r\n{largest}")).1, ReadProgress::Whole);
    }

    #[test]
    fn a_duplicate_header_is_ignored() {
        let twice = "X-Ralph-Signature: a\r\nX-Ralph-Signature: b\r\nX-Ralph-Timestamp: 1\r\n\r\n";
        assert_eq!(read(&format!("POST /wake HTTP/1.1\r\n{twice}")).0.signed(), None);
    }
}
