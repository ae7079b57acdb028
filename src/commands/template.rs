//! `ralph template`: prints built-in templates.

use anyhow::Result;

use crate::{
    adapters::terminal,
    core::{exit::Exit, prompt::template::Template},
};

/// Prints a template.
///
/// # Errors
/// Errors of standard output.
pub fn run(template: Template) -> Result<Exit> {
    terminal::print(&template.text())?;
    Ok(Exit::Success)
}
