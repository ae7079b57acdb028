//! The way in of a program that is built with one.

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

/// Shorter secrets can be guessed.
const SHORTEST: usize = 16;

/// Opens it: whenever a request is to be believed, `ask` is called, and says whether there is room
/// for it. A path of the settings is from `root`.
///
/// # Errors
/// There is no secret, or others can read it; the address cannot be listened on.
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
            let missing =
                || invalid(format!("`{name}`, which `secret_env` names, is not set; set it"));
            (env::var_os(name).ok_or_else(missing)?.into_vec(), format!("`{name}`"))
        }
        Secret::File(path) => {
            let path = root.join(path);
            let name = format!("`{}`", path.display());
            let found = fs::metadata(&path)
                .with_context(|| format!("look at {name}, which `secret_file` names"))?;
            if found.mode() & 0o077 != 0 {
                let message = format!("others can read {name}; `chmod 600` it");
                return Err(invalid(message).into());
            }
            let bytes = fs::read(&path).with_context(|| format!("read {name}"))?;
            (bytes.trim_ascii_end().to_owned(), name)
        }
    };
    if secret.len() < SHORTEST {
        let message = format!(
            "the secret in {name} is too short; take {SHORTEST} characters or more, such as what \
             `openssl rand -hex 32` prints"
        );
        return Err(invalid(message).into());
    }
    Ok(secret)
}
