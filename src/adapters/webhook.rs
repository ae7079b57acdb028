//! Sends one request to a webhook. The only user of ureq.
//!
//! Error messages never contain the address, which may be as secret as a password.

use std::time::Duration;

use ureq::{Agent, Error};

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason as text.
    pub why: String,
    /// Whether a retry may succeed.
    pub again: bool,
}

/// Sends JSON to an address. Redirects are not followed, because the signature is for this address.
///
/// # Errors
/// When it cannot be sent in time, or is rejected.
pub fn post(
    url: &str,
    headers: &[(&str, String)],
    body: &str,
    limit: Duration,
) -> Result<(), Refused> {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("ralph/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut request = agent.post(url).header("Content-Type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let status = match request.send(body) {
        Ok(response) => response.status().as_u16(),
        Err(error) => return Err(refused(&error)),
    };
    match status {
        200..=299 => Ok(()),
        300..=399 => Err(Refused {
            why: format!("it answered {status}, and redirects are not followed"),
            again: false,
        }),
        _ => Err(Refused { why: format!("it answered {status}"), again: status >= 500 }),
    }
}

fn refused(error: &Error) -> Refused {
    let (why, again) = match error {
        Error::Io(error) => (error.to_string(), true),
        Error::Timeout(_) => ("it took too long".to_owned(), true),
        Error::HostNotFound => ("its host is unknown".to_owned(), true),
        Error::ConnectionFailed => ("it cannot be reached".to_owned(), true),
        Error::Protocol(_) => ("its answer is not HTTP".to_owned(), true),
        Error::Rustls(error) => (format!("TLS: {error}"), false),
        Error::Tls(why) => (format!("TLS: {why}"), false),
        Error::BadUri(_) | Error::Http(_) => ("its address is invalid".to_owned(), false),
        _ => ("the request could not be sent".to_owned(), false),
    };
    Refused { why, again }
}
