//! The HTTP trigger, if the settings enable it and this program is built with it.

#[cfg(feature = "webhook")]
mod built;
#[cfg(feature = "webhook")]
pub(super) use built::{PATH, open};

#[cfg(not(feature = "webhook"))]
pub(super) use missing::{PATH, open};

/// The stub for a program built without the trigger.
#[cfg(not(feature = "webhook"))]
mod missing {
    use std::{net::SocketAddr, path::Path};

    use anyhow::Result;

    use crate::{
        core::exit::{Exit, Failure},
        project::config::TriggerConfig,
    };

    pub(in crate::commands::schedule) const PATH: &str = "";

    /// Always fails.
    pub(in crate::commands::schedule) fn open(
        _trigger: &TriggerConfig,
        _root: &Path,
        _ask: impl FnMut() -> bool + Send + 'static,
    ) -> Result<SocketAddr> {
        let message = "`trigger` of `schedule` needs a `ralph` built with webhooks; in a clone of its \
                       repository run `cargo install --path . --features webhook`";
        Err(Failure::new(Exit::Invalid, message).into())
    }
}
