//! `ralph completions` and `ralph man`: shell completions and manual pages.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};

use crate::{adapters::terminal, cli, core::exit::Exit};

/// Prints the script that registers this program for completions.
///
/// # Errors
/// Errors of standard output.
pub fn completions(shell: &str) -> Result<Exit> {
    let program = env::current_exe().context("find this program")?;
    terminal::print(&cli::registration(shell, &program))?;
    Ok(Exit::Success)
}

/// Prints the manual page of `ralph`, or writes the pages of all commands to a folder.
///
/// # Errors
/// Errors of standard output and of the disk.
pub fn man(to: Option<&Path>) -> Result<Exit> {
    let pages = cli::man_pages().context("write the manual")?;
    let Some(folder) = to else {
        let (_, first) = pages.into_iter().next().context("no manual page")?;
        terminal::print(&first)?;
        return Ok(Exit::Success);
    };
    fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    let count = pages.len();
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
    }
    terminal::print(&format!("{count} pages in {}\n", folder.display()))?;
    Ok(Exit::Success)
}
