//! The slot of a draft: a copy of the newest commit, of which only the draft is used. It is removed
//! at the end without a look at what the agent did to it.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::spec::DraftSpec;
use crate::{
    core::{
        exit::{Exit, Failure},
        loop_paths::LoopPaths,
    },
    project::{
        slot_pool::{self, PreparedSlot, SlotOrder, SlotPool},
        workspace::Workspace,
    },
    regular_file,
};

/// The folder of the draft in the slot, at its top: agents may write nowhere else, and some only
/// where git ignores nothing.
const FOLDER: &str = "ralph-draft";
/// The branch that is checked out in the slot.
const BRANCH: &str = "ralph/draft";

/// A slot, removed when dropped.
pub(super) struct DraftSlot {
    /// Its top.
    pub(super) root: PathBuf,
    /// The files of its commit.
    pub(super) files: Vec<String>,
    pool: PathBuf,
    folder: PathBuf,
}

impl DraftSlot {
    /// Makes the slot. The caller holds the lock of drafts.
    ///
    /// # Errors
    /// No commit; another folder in its place; errors of git and of the disk.
    pub(super) fn prepare(workspace: &Workspace) -> Result<DraftSlot> {
        let repo = &workspace.repo;
        let Some(base) = repo.head()?.commit else {
            let message = "the repository has no commit, so there is nothing to copy for the \
                           agent; make the first commit (`git commit --allow-empty`)";
            return Err(Failure::new(Exit::Error, message).into());
        };
        let folder = SlotPool::of(workspace).folder().to_owned();
        fs::create_dir_all(&folder).with_context(|| {
            format!("create `{}`; `slot_dir` sets another folder", folder.display())
        })?;
        let pool = SlotPool::of(workspace);
        let root = pool.draft();
        // A killed draft left it. Git is asked last: the agent may have changed what it reads.
        if root.join(FOLDER).exists()
            || repo.is_incomplete_slot(&root)
            || repo.open_slot(&root).is_some()
        {
            remove_folder(&root).with_context(|| format!("remove `{}`", root.display()))?;
        }
        let slot = DraftSlot {
            files: repo.files_at(&base)?,
            pool: pool.folder().to_owned(),
            folder: root.join(FOLDER),
            root,
        };
        let order = SlotOrder {
            slot: slot.root.clone(),
            settings: repo.slot_settings()?,
            branch: BRANCH.to_owned(),
            base,
            base_ref: LoopPaths::draft_ref().to_owned(),
            left: None,
            graph: None,
            setup: Vec::new(),
            pool,
        };
        let prepared = slot_pool::prepare(&order)?;
        repo.drop_ref(LoopPaths::draft_ref())?;
        if let PreparedSlot::Kept(why) = prepared {
            let shown = slot.root.display().to_string();
            std::mem::forget(slot);
            bail!("cannot use `{shown}` for the draft: {why}; move it away");
        }
        Ok(slot)
    }

    /// The file that the agent writes.
    pub(super) fn answer_file(&self) -> PathBuf {
        self.folder.join("draft.yaml")
    }

    /// The file with the whole text, if it is too long for the prompt.
    pub(super) fn spec_file(&self) -> PathBuf {
        self.folder.join("spec.md")
    }

    /// Prepares the folder for a call: with the last draft, if there is one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn begin(&self, spec: &DraftSpec, last: Option<&str>) -> Result<()> {
        let begin = || -> io::Result<()> {
            // The agent may have put anything in its place.
            match fs::symlink_metadata(&self.folder) {
                Ok(found) if found.is_dir() => remove_folder(&self.folder)?,
                Ok(_) => fs::remove_file(&self.folder)?,
                Err(_) => {}
            }
            fs::create_dir_all(&self.folder)?;
            if spec.is_cut() {
                regular_file::write(&self.spec_file(), spec.text.as_bytes())?;
            }
            match last.filter(|last| !last.is_empty()) {
                Some(last) => regular_file::write(&self.answer_file(), last.as_bytes()),
                None => Ok(()),
            }
        };
        begin().with_context(|| format!("prepare `{}`", self.folder.display()))
    }

    /// The draft that the agent wrote, or left as it was.
    pub(super) fn answer(&self) -> Option<String> {
        let path = self.answer_file();
        // What a link leads to is not what the agent wrote.
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| !it.is_symlink());
        let bytes = (is_own(&self.folder) && is_own(&path)).then(|| regular_file::read(&path).ok());
        let text = String::from_utf8_lossy(&bytes??).into_owned();
        Some(text).filter(|text| !text.trim().is_empty())
    }
}

/// Removes a folder with everything in it, also what was made read-only, as package managers do.
fn remove_folder(path: &Path) -> io::Result<()> {
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        if !fs::symlink_metadata(&folder)?.is_dir() {
            continue;
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            folders.push(entry?.path());
        }
    }
    fs::remove_dir_all(path)
}

impl Drop for DraftSlot {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.root)
            && self.root.exists()
        {
            let slot = self.root.display();
            super::say(&format!("cannot remove the slot `{slot}`: {error}; remove it by hand"));
        }
        // Fails if attempts have slots there.
        let _ = fs::remove_dir(&self.pool);
    }
}
