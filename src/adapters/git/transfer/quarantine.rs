//! Where fetched work is until it is checked.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{FETCHED, GitLine, ON_A_LINE, OUT, STALE};
use crate::adapters::git::{
    Repo, program,
    slot_settings::{quoted, remove_all},
};

/// The folder in the git directory of a slot for objects that are not checked yet.
pub(super) const QUARANTINE: &str = "ralph-incoming";

/// A repository for one fetch. It borrows the objects of a slot, and has its own until they are checked.
/// It is gone when dropped; the next one removes that of a killed process.
pub(super) struct Quarantine<'a> {
    slot: &'a Repo,
    pub(super) repo: Repo,
}

impl<'a> Quarantine<'a> {
    pub(super) fn begin(slot: &'a Repo) -> Result<Quarantine<'a>> {
        let folder = slot.git_dir.join(QUARANTINE);
        let make = || -> Result<()> {
            remove_all(&folder)?;
            fs::create_dir_all(folder.join("objects/info"))?;
            fs::create_dir_all(folder.join("refs"))?;
            for file in ["config", "shallow"] {
                match fs::copy(slot.git_dir.join(file), folder.join(file)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    copied => drop(copied?),
                }
            }
            let mut objects = quoted(slot.common_dir.join("objects").as_os_str().as_bytes());
            objects.push(b'\n');
            fs::write(folder.join("objects/info/alternates"), objects)?;
            if let Some(tip) = slot.transfers().sent_tip()
                && slot.commit_of(&tip)?.is_some()
            {
                // No ref names it, and the other side has it.
                fs::write(folder.join("packed-refs"), format!("{tip} refs/sent\n"))?;
            }
            Ok(fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?)
        };
        make().with_context(|| format!("make `{}`", folder.display()))?;
        Ok(Quarantine { slot, repo: Repo::bare(&folder)? })
    }

    /// Fetches the work with this token and that of earlier attempts. Git checks each object, and that
    /// all they name is there or in the slot.
    pub(super) fn fetch(&self, token: &str, line: &GitLine) -> Result<()> {
        let (into, wanted) = FETCHED;
        let refs = [format!("+{OUT}/{token}:{into}/{wanted}"), format!("+{STALE}/*:{into}/*")];
        let mut words = ON_A_LINE.to_vec();
        words.extend(["-c", "fetch.fsckObjects=true"]);
        if program::is_partial_clone(&self.slot.root)? {
            // What is missing here is with the server, where only `git unpack-objects` looks.
            words.extend(["-c", "fetch.unpackLimit=100000000"]);
        }
        words.extend(["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--refmap="]);
        words.extend(["--no-recurse-submodules", "--no-auto-maintenance", "--"]);
        let from = line.address();
        words.push(&from);
        words.extend(refs.iter().map(String::as_str));
        program::run_on_line(&self.repo.root, &words)
    }

    /// Gives the objects to the slot.
    pub(super) fn accept(&self) -> Result<()> {
        let accept = || -> io::Result<()> {
            let to = self.slot.common_dir.join("objects");
            for folder in entries(&self.repo.root.join("objects"))? {
                let name = folder.file_name().unwrap_or_default();
                if name == "info" || !folder.is_dir() {
                    continue;
                }
                let to = to.join(name);
                fs::create_dir_all(&to)?;
                let mut files = entries(&folder)?;
                // Git looks for a pack by its index, which is therefore the last.
                files.sort_by_key(|file| file.extension() == Some(OsStr::new("idx")));
                for file in files {
                    let to = to.join(file.file_name().unwrap_or_default());
                    if !to.exists() {
                        fs::rename(&file, to)?;
                    }
                }
            }
            Ok(())
        };
        accept().context("accept the objects")
    }
}

impl Drop for Quarantine<'_> {
    fn drop(&mut self) {
        // The next one removes it otherwise.
        let _ = remove_all(&self.repo.root);
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}
