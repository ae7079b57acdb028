//! The HTTP trigger: signed requests that start a run. The body of a request is not interpreted; a
//! request only counts as valid or not.

mod request_auth;

use std::{
    env, fs,
    net::{SocketAddr, TcpListener},
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context, Result};
use chrono::Utc;

use crate::{
    adapters::http_server::{HttpCaller, HttpMethod, HttpReply, HttpRequest, Site},
    core::exit::{Exit, Failure},
    core::hmac::{SIGNATURE, TIMESTAMP},
    project::config::{Secret, TriggerConfig},
};
use request_auth::{AuthError, RequestAuth, SignedRequest};

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
