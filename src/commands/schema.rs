//! `ralph schema`: what editors need to check and complete the files that people write.

use anyhow::Result;

use crate::{adapters::terminal, cli::Schemas, core::exit::Exit, project::schema};

/// Prints one.
///
/// # Errors
/// As the output gives them.
pub fn run(of: Schemas) -> Result<Exit> {
    terminal::print(&match of {
        Schemas::Graph => schema::graph(),
        Schemas::Config => schema::config(),
    })?;
    Ok(Exit::Success)
}
