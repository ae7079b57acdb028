//! `ralph __work`: packs the work in a slot for another machine, and unpacks what comes back.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use crate::{
    adapters::{
        git::{LackingCommits, Repo},
        terminal,
    },
    cli::WorkStep,
    core::exit::{Exit, Failure},
    regular_file,
};

/// The length of the longest list of commits on standard input, in bytes.
const LONGEST: u64 = 1 << 20;

/// Which work is packed or unpacked.
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

/// Packs the work to standard output; standard input has the ids of the commits of the other side,
/// one per line. Or unpacks the work on standard input and prints the result as JSON.
///
/// # Errors
/// Errors of git and of the disk. Exit code 65 if the work builds on commits that are not here.
pub fn run(step: WorkStep, spec: &Path) -> Result<Exit> {
    let text = regular_file::read(spec).with_context(|| format!("read `{}`", spec.display()))?;
    let spec: WorkSpec = serde_json::from_slice(&text)
        .with_context(|| format!("`{}` does not describe work", spec.display()))?;
    let main = Repo::discover(&spec.main)?;
    let slot = main
        .slots()
        .open(&spec.slot)
        .with_context(|| format!("`{}` is not a slot of this repository", spec.slot.display()))?;
    match step {
        WorkStep::Pack => {
            let mut ids = String::new();
            io::stdin().take(LONGEST).read_to_string(&mut ids).context("read the commits")?;
            let have: Vec<String> = ids.lines().map(str::to_owned).collect();
            slot.pack_work(&have, &spec.token, &mut io::stdout().lock())?;
        }
        WorkStep::Unpack => {
            let base = spec.expected_base.as_deref();
            let unpacked = slot.unpack_work(&main, base, &spec.token, &mut io::stdin().lock());
            if let Err(error) = &unpacked
                && let Some(LackingCommits(commits)) = error.downcast_ref()
            {
                let lacking = json!({"arrival": "lacking", "commits": commits});
                terminal::print(&format!("{lacking}\n"))?;
                return Err(Failure::new(Exit::Invalid, format!("{error:#}")).into());
            }
            terminal::print(&format!("{}\n", serde_json::to_string(&unpacked?)?))?;
        }
    }
    Ok(Exit::Success)
}
