//! The way in for requests: open only where the settings say so, and this program is built for it.

#[cfg(feature = "webhook")]
mod built;
#[cfg(feature = "webhook")]
pub(super) use built::{PATH, open};

#[cfg(not(feature = "webhook"))]
pub(super) use missing::{PATH, open};

/// What there is of it in a program that is built without.
#[cfg(not(feature = "webhook"))]
mod missing {
    use std::{net::SocketAddr, path::Path};

    use anyhow::Result;

    use crate::{
        core::exit::{Exit, Failure},
        project::config::TriggerConfig,
    };

    pub(in crate::commands::schedule) const PATH: &str = "";

    /// Refuses it, always.
    pub(in crate::commands::schedule) fn open(
        _trigger: &TriggerConfig,
        _root: &Path,
        _ask: impl FnMut() -> bool + Send + 'static,
    ) -> Result<SocketAddr> {
        let message = "`trigger` of `schedule` needs a `ralph` that is built for it; in a clone of \
                       its repository: `cargo install --path . --features webhook`";
        Err(Failure::new(Exit::Invalid, message).into())
    }
}
