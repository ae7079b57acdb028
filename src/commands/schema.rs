//! `ralph schema`: the JSON Schemas of the graph and the settings, for editors.

use anyhow::Result;

use crate::{adapters::terminal, cli::Schemas, core::exit::Exit, project::schema};

/// Prints a schema.
///
/// # Errors
/// Errors of standard output.
pub fn run(of: Schemas) -> Result<Exit> {
    terminal::print(&match of {
        Schemas::Graph => schema::graph(),
        Schemas::Config => schema::config(),
    })?;
    Ok(Exit::Success)
}
