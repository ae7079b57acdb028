//! `ralph completions` and `ralph man`: what a shell and a reader of manuals need.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};

use crate::{adapters::terminal, cli, core::exit::Exit};

/// Prints what a shell has to be told once, so that it asks this program from then on.
///
/// # Errors
/// As the output gives them.
pub fn completions(shell: &str) -> Result<Exit> {
    let program = env::current_exe().context("find this program")?;
    terminal::print(&cli::registration(shell, &program))?;
    Ok(Exit::Success)
}

/// Prints the manual page of `ralph`, or writes those of all commands into a folder.
///
/// # Errors
/// As the output or the disk gives them.
pub fn man(to: Option<&Path>) -> Result<Exit> {
    let pages = cli::man_pages().context("write the manual")?;
    let Some(folder) = to else {
        let (_, first) = pages.into_iter().next().context("no manual page")?;
        terminal::print(&first)?;
        return Ok(Exit::Success);
    };
    fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
    let count = pages.len();
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
    }
    terminal::print(&format!("{count} pages in {}\n", folder.display()))?;
    Ok(Exit::Success)
}
