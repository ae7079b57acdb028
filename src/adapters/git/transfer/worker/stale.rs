//! Work at a worker that was never fetched. It is kept in the store, and its slot gets other work.

use std::{
    fs,
    io::{ErrorKind, Write},
    path::PathBuf,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{
    WorkerStore,
    note::{WorkerNote, read_all, replace},
};
use crate::{
    adapters::git::{
        Repo,
        transfer::{header::PackHeader, state::WorkState},
    },
    core::commit_id::CommitId,
};

/// Work of an earlier attempt that was never fetched.
#[derive(Debug)]
pub struct StaleWork {
    store: WorkerStore,
    record: StaleRecord,
}

/// Stale work in the store.
#[derive(Debug, Serialize, Deserialize)]
struct StaleRecord {
    token: String,
    base: Option<CommitId>,
    work: WorkState,
}

impl WorkerStore {
    /// The oldest stale work in this store.
    pub(super) fn stale(&self) -> Option<StaleWork> {
        let mut all: Vec<(String, StaleRecord)> = read_all(&self.folder.join("stale"));
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let (_, record) = all.into_iter().next()?;
        Some(StaleWork { store: self.clone(), record })
    }

    /// Keeps the work in a slot as stale.
    pub(super) fn keep(
        &self,
        store: &Repo,
        slot: &Repo,
        note: &WorkerNote,
        work: &WorkState,
    ) -> Result<()> {
        let name = stale_ref(&note.token, work.tip());
        let file = self.stale_file(&note.token, work.tip());
        if file.exists() && store.commit_of(&name)?.is_some() {
            // Of a worker that was killed before it noted what the slot is used for now.
            return Ok(());
        }
        for commit in work.tips() {
            store.slots().bring_home(slot, commit, &stale_ref(&note.token, commit))?;
        }
        let record = StaleRecord {
            token: note.token.clone(),
            base: note.arrived_head.clone(),
            work: work.clone(),
        };
        replace(&file, &serde_json::to_vec(&record)?).context("note stale work")
    }

    fn stale_file(&self, token: &str, tip: &CommitId) -> PathBuf {
        self.folder.join("stale").join(format!("{token}.{}", tip.short()))
    }
}

impl StaleWork {
    /// What the attempt is recognized by.
    pub fn token(&self) -> &str {
        &self.record.token
    }

    /// Writes the work, as `WorkerSlot::pack` does.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn pack(&self, have: &[String], out: &mut impl Write) -> Result<()> {
        let record = &self.record;
        let store = self.store.repo()?.context("the store is gone")?;
        let mut header = PackHeader::new(&record.token, &record.work);
        store
            .write_pack(&mut header, have, out)
            .with_context(|| format!("cannot pack the stale work of `{}`", record.token))
    }

    /// The commit on which the work builds, which the other side has sent.
    pub fn sent(&self) -> Vec<String> {
        self.record.base.iter().cloned().map(String::from).collect()
    }

    /// Notes that the other side has the work, which is then no longer stale.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn note_fetched(self) -> Result<()> {
        let StaleRecord { token, work, .. } = &self.record;
        match fs::remove_file(self.store.stale_file(token, work.tip())) {
            // Another worker has sent it at the same time.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.context("note that stale work is fetched")?,
        }
        if let Some(store) = self.store.repo()? {
            for commit in work.tips() {
                store.drop_ref(&stale_ref(token, commit))?;
            }
        }
        Ok(())
    }
}

/// The ref of the store with stale work.
fn stale_ref(token: &str, tip: &CommitId) -> String {
    format!("refs/stale/{token}/{tip}")
}
