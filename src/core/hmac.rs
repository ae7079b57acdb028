//! Webhook signatures, sent and received: HMAC-SHA256 over `TIMESTAMP.BODY`; and the comparison of
//! secrets. The only user of hmac and sha2.
//!
//! The timestamp is part of the signature, so that a receiver can reject a replayed request.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The header with the time of sending, in seconds since 1970.
pub const TIMESTAMP: &str = "X-Ralph-Timestamp";
/// The header with the signature.
pub const SIGNATURE: &str = "X-Ralph-Signature";
/// The prefix of a signature.
const SCHEME: &str = "sha256=";

/// Returns the signature in the form of its header.
pub fn sign(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    let bytes = mac(secret, timestamp, body).finalize().into_bytes();
    bytes.iter().fold(SCHEME.to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a signature is valid. Runs in constant time.
pub fn holds(secret: &[u8], timestamp: &str, body: &[u8], signature: &str) -> bool {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let hex = signature.strip_prefix(SCHEME).unwrap_or_default().as_bytes();
    let bytes: Option<Vec<u8>> = hex.chunks(2).map(digits).collect();
    bytes.is_some_and(|bytes| mac(secret, timestamp, body).verify_slice(&bytes).is_ok())
}

/// Whether two texts are equal, in a time that does not reveal where they differ.
pub fn same(one: &str, other: &str) -> bool {
    // Two digests with one key: their comparison by `verify_slice` runs in constant time.
    let digest = mac(one.as_bytes(), "", one.as_bytes()).finalize().into_bytes();
    mac(one.as_bytes(), "", other.as_bytes()).verify_slice(&digest).is_ok()
}

fn mac(secret: &[u8], timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(secret).expect("HMAC accepts a key of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_match_those_of_openssl() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        let given = "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
        assert_eq!(sign(b"key", "1700000000", b"{\"a\":1}"), given);
        assert!(holds(b"key", "1700000000", b"{\"a\":1}", given));
    }

    #[test]
    fn wrong_signatures_are_rejected() {
        let given = sign(b"key", "1", b"body");
        assert!(!holds(b"kex", "1", b"body", &given));
        assert!(!holds(b"key", "2", b"body", &given));
        assert!(!holds(b"key", "1", b"bodz", &given));
        for wrong in ["", "sha256=", "sha256=0", "sha256=zz", "sha1=00", "\u{e4}", &given[7..]] {
            assert!(!holds(b"key", "1", b"body", wrong), "{wrong}");
        }
        assert!(!holds(b"key", "1", b"body", &given[..given.len() - 2]));
    }
}
