//! `ralph template`: the built-in templates, for a pipe or a file.

use anyhow::Result;

use crate::{
    adapters::terminal,
    core::{exit::Exit, prompt::template::Template},
};

/// Prints one.
///
/// # Errors
/// As the output gives them.
pub fn run(template: Template) -> Result<Exit> {
    terminal::print(&template.text())?;
    Ok(Exit::Success)
}
