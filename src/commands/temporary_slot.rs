//! A slot that one command uses: a copy of the newest commit, removed at the end without a look at
//! what happened in it.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    adapters::terminal,
    core::{
        commit_id::CommitId,
        exit::{Exit, fail},
    },
    project::{
        slot_pool::{self, PreparedSlot, SlotOrder, SlotPool},
        workspace::Workspace,
    },
};

/// A slot, removed when dropped.
pub(super) struct TemporarySlot {
    /// Its top.
    pub(super) root: PathBuf,
    /// The commit in it.
    pub(super) base: CommitId,
    pool: PathBuf,
}

/// What tells the temporary slots of the commands apart.
pub(super) struct SlotUse<'a> {
    /// Its top.
    pub(super) root: PathBuf,
    /// The branch that is checked out in it.
    pub(super) branch: &'a str,
    /// The ref in the repository that keeps the commit while the slot is made.
    pub(super) base_ref: String,
    /// A name at its top that only this command creates. A slot with it is removed even if git
    /// cannot read it any more.
    pub(super) mark: &'a str,
}

impl TemporarySlot {
    /// Makes the slot. The caller holds a lock, so that no other process uses the same one.
    ///
    /// # Errors
    /// No commit; another folder in its place; errors of git and of the disk.
    pub(super) fn prepare(workspace: &Workspace, wanted: SlotUse<'_>) -> Result<TemporarySlot> {
        let (repo, SlotUse { root, branch, base_ref, mark }) = (&workspace.repo, wanted);
        let Some(base) = repo.head()?.commit else {
            return fail(
                Exit::Error,
                "the repository has no commit, so there is nothing to copy for the \
                           agent; make the first commit (`git commit --allow-empty`)",
            );
        };
        let pool = SlotPool::of(workspace);
        fs::create_dir_all(pool.folder()).with_context(|| {
            format!("create `{}`; `slot_dir` sets another folder", pool.folder().display())
        })?;
        // The path of the folder is canonical once it exists.
        let pool = SlotPool::of(workspace);
        let root = pool.folder().join(root.file_name().unwrap_or_default());
        // A killed command left it. Git is asked last: an agent may have changed what it reads.
        if root.join(mark).exists()
            || repo.slots().is_incomplete(&root)
            || repo.slots().open(&root).is_some()
        {
            remove_folder(&root).with_context(|| format!("remove `{}`", root.display()))?;
        }
        let folder = pool.folder().to_owned();
        let slot = TemporarySlot { root, base, pool: folder };
        let order = SlotOrder {
            slot: slot.root.clone(),
            settings: repo.slots().settings()?,
            branch: branch.to_owned(),
            base: slot.base.clone(),
            base_ref: base_ref.clone(),
            left: None,
            graph: None,
            setup: Vec::new(),
            pool,
        };
        let prepared = slot_pool::prepare(&order)?;
        repo.drop_ref(&base_ref)?;
        if let PreparedSlot::Kept(why) = prepared {
            let shown = slot.root.display().to_string();
            std::mem::forget(slot);
            bail!("cannot use `{shown}`: {why}; move it away");
        }
        Ok(slot)
    }
}

/// Removes a folder with everything in it, also what was made read-only, as package managers do.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
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

impl Drop for TemporarySlot {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.root)
            && self.root.exists()
        {
            let slot = self.root.display();
            let text = format!("cannot remove the slot `{slot}`: {error}; remove it by hand");
            terminal::say(&terminal::visible(&text));
        }
        // Fails if attempts have slots there.
        let _ = fs::remove_dir(&self.pool);
    }
}
