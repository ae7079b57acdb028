//! The HTTP trigger of a program built with webhooks.

use std::{
    env, fs,
    net::SocketAddr,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::Path,
};

use anyhow::{Context, Result};

pub(in crate::commands::schedule) use crate::adapters::http_trigger::PATH;
use crate::{
    adapters::http_trigger,
    core::exit::{Exit, Failure},
    project::config::{Secret, TriggerConfig},
};

/// The minimum length of a secret.
const SHORTEST: usize = 16;

/// Starts listening. Calls `ask` for each valid request; it returns whether the request is queued.
/// Paths of the settings are relative to `root`.
///
/// # Errors
/// A missing or exposed secret; an address that cannot be used.
pub(in crate::commands::schedule) fn open(
    trigger: &TriggerConfig,
    root: &Path,
    ask: impl FnMut() -> bool + Send + 'static,
) -> Result<SocketAddr> {
    let secret = secret(&trigger.secret, root)?;
    http_trigger::listen(trigger.listen, &secret, ask)
        .with_context(|| format!("listen on `{}` for the trigger of `schedule`", trigger.listen))
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
