//! `ralph __work`: sends the work in a slot to another machine, and fetches what became of it.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    adapters::{
        git::{GitLine, Repo},
        terminal,
    },
    cli::WorkStep,
    core::exit::Exit,
    regular_file,
};

/// Which work is sent or fetched.
#[derive(Debug, Deserialize)]
struct WorkSpec {
    /// The slot.
    slot: PathBuf,
    /// The top of the repository of the slot.
    main: PathBuf,
    /// What the work of the attempt is recognized by.
    token: String,
    /// The commit from which the work must descend.
    expected_base: Option<String>,
}

/// Sends the work to git at the other end of standard input and output, or fetches it from there. What
/// a person must know about it becomes lines on standard error.
///
/// # Errors
/// Errors of git and of the disk; work that the slot cannot take on.
pub fn run(step: WorkStep, spec: &Path) -> Result<Exit> {
    let text = regular_file::read(spec).with_context(|| format!("read `{}`", spec.display()))?;
    let spec: WorkSpec = serde_json::from_slice(&text)
        .with_context(|| format!("`{}` does not describe work", spec.display()))?;
    let main = Repo::discover(&spec.main)?;
    let slot = main
        .slots()
        .open(&spec.slot)
        .with_context(|| format!("`{}` is not a slot of this repository", spec.slot.display()))?;
    let line = GitLine::of(io::stdin(), io::stdout()).context("open the line")?;
    match step {
        WorkStep::Send => slot.transfers().send_work(&spec.token, &line)?,
        WorkStep::Fetch => {
            let base = spec.expected_base.as_deref();
            let fetched = slot.transfers().fetch_work(&main, base, &spec.token, &line)?;
            for path in &fetched.left_out {
                terminal::say(&format!("not sent: {path}"));
            }
            if let Some(kept) = fetched.strayed {
                terminal::say(&format!(
                    "the work does not descend from the commit it started from; it is kept in `{kept}`"
                ));
            }
        }
    }
    Ok(Exit::Success)
}
