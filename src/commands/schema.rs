//! `ralph schema`: the JSON Schemas of the files that people write, and of what `--json` prints.

use anyhow::Result;

use crate::{adapters::terminal, cli::Schemas, core::exit::Exit, project::schema, view};

/// Prints a schema.
///
/// # Errors
/// Errors of standard output.
pub fn run(of: Schemas) -> Result<Exit> {
    terminal::print(&match of {
        Schemas::Graph => schema::graph(),
        Schemas::Config => schema::config(),
        Schemas::Views => terminal::json(&view::schema::views()),
    })?;
    Ok(Exit::Success)
}
