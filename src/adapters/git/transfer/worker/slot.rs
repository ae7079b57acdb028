//! A slot at a worker: it takes on the state that arrives, and packs what an attempt made of it.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    BrokenSlot, StaleWork, WorkerStore,
    note::{WorkerNote, read_json, replace},
};
use crate::{
    adapters::git::{
        Repo, SlotSettings,
        transfer::{
            header::PackHeader,
            incoming::{IncomingPack, PackSource},
            state::WorkState,
        },
    },
    crash,
};

/// The branch of a slot while its git directory is written.
const BEGUN: &str = "ralph/begun";

/// A slot at a worker. It is locked as long as this value exists.
#[derive(Debug)]
pub struct WorkerSlot {
    store: WorkerStore,
    name: String,
    token: String,
    dir: PathBuf,
    lock: File,
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        // A child that this process is just starting shares the lock.
        let _ = self.lock.unlock();
    }
}

impl WorkerSlot {
    pub(super) fn new(store: WorkerStore, name: &str, token: &str, lock: File) -> WorkerSlot {
        let dir = store.folder.join("slots").join(name);
        WorkerSlot { store, name: name.to_owned(), token: token.to_owned(), dir, lock }
    }

    /// The folder of its files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its lock. A process that has this file open keeps the slot locked when this one is killed.
    pub fn lock(&self) -> &File {
        &self.lock
    }

    /// Its name, which differs from the wanted one if that slot was in use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Work of earlier attempts that was never fetched, one at a time: the next one is returned after
    /// [`StaleWork::note_fetched`].
    pub fn stale(&self) -> Option<StaleWork> {
        self.store.stale()
    }

    /// The commit on which the work for this token builds, which the other side has sent.
    pub fn sent(&self) -> Vec<String> {
        self.note().arrived_head.map(String::from).into_iter().collect()
    }

    /// Brings the slot into the state of a pack. What it contains, and was not fetched, becomes
    /// [stale](WorkerSlot::stale).
    ///
    /// # Errors
    /// `LackingCommits`; a pack of another attempt, or one that is not
    /// valid; the error of `git`; I/O errors.
    pub fn apply(&self, pack: &mut impl Read) -> Result<()> {
        let apply = || -> Result<()> {
            let (header, mut pack) = PackHeader::read(pack)?;
            ensure!(header.token == self.token, "the pack has the token of another attempt");
            let store = self.store.repo_for(&header.head)?;
            store.must_have(&header.base)?;
            let arrived = IncomingPack::receive(&store, &header, &mut pack, PackSource::Owner)?;
            arrived.accept()?;
            let to = header.work();
            store.keep(&self.ref_of("head"), &to.head)?;
            store.keep(&self.ref_of("tip"), to.tip())?;
            crash::point("transfer.received");
            self.fill(&store, &header, &to)?;
            Ok(())
        };
        apply().with_context(|| format!("cannot bring work into `{}`", self.dir.display()))
    }

    /// Takes on the state of a pack that has arrived in the store.
    fn fill(&self, store: &Repo, header: &PackHeader, to: &WorkState) -> Result<()> {
        let old = self.note();
        let note = WorkerNote {
            token: self.token.clone(),
            arrived: Some(to.tip().clone()),
            arrived_head: Some(to.head.clone()),
            packed: None,
            fetched: None,
            packed_strays: Vec::new(),
            fetched_strays: old.fetched_strays.clone(),
            ignore: header.ignore.clone(),
            author: header.author.clone(),
        };
        let settings = note.settings(store)?;
        store.slots().remove_incomplete(&self.dir)?;
        let (slot, now) = match self.open_in(store, &settings)? {
            None => {
                let slot = store.slots().make(&self.dir, &settings, &to.head)?;
                (slot, WorkState::clean(&to.head))
            }
            Some(slot) if old.arrived.is_none() => {
                // It is clean since `clear`, unless a worker was killed here.
                let left = slot.work_state()?;
                if left.changes.is_some() {
                    slot.slot().settle_on(left.tip())?;
                }
                let slot = store.slots().start(&slot, &settings, &to.head, BEGUN)?;
                (slot, WorkState::clean(&to.head))
            }
            Some(slot) => {
                let now = slot.work_of_agent()?;
                if !old.is_fetched(&now) && now.tip() != to.tip() {
                    self.store.keep(store, &slot, &old, &now)?;
                }
                (slot, now)
            }
        };
        slot.take_on(&now, to)?;
        crash::point("transfer.taken");
        self.write_note(&note)
    }

    /// Writes the work in the slot as far as the other side does not have it: `have` are commits
    /// there, such as [those it has sent](WorkerSlot::sent).
    ///
    /// # Errors
    /// The error of `git`; a slot that git cannot read; I/O errors.
    pub fn pack(&self, have: &[String], out: &mut impl Write) -> Result<()> {
        let mut pack = || -> Result<()> {
            let (store, slot) = self.opened()?.context("nothing has arrived in it")?;
            let mut work = slot.work_of_agent()?;
            // The next pack that arrives builds on it. Without it, that pack contains more.
            let _ = store.slots().bring_home(&slot, work.tip(), &self.ref_of("packed"));
            let note = self.note();
            self.write_note(&WorkerNote {
                packed: Some(work.tip().clone()),
                packed_strays: work.strays.clone(),
                ..note.clone()
            })?;
            work.strays.retain(|stray| !note.fetched_strays.contains(stray));
            let mut header = PackHeader::new(&self.token, &work);
            slot.write_pack(&mut header, have, out)
        };
        pack().with_context(|| format!("cannot pack the work in `{}`", self.dir.display()))
    }

    /// Notes that the other side has what was packed. Without it, the work becomes stale when the
    /// slot gets other work.
    ///
    /// # Errors
    /// I/O errors.
    pub fn note_fetched(&self) -> Result<()> {
        let note = self.note();
        let (fetched, fetched_strays) = (note.packed.clone(), note.packed_strays.clone());
        self.write_note(&WorkerNote { fetched, fetched_strays, ..note })
    }

    /// Prepares the slot for other work: what it contains is in the store then, and it is clean.
    ///
    /// # Errors
    /// Something in it cannot be kept; the error of `git`; I/O errors.
    pub(super) fn clear(&self) -> Result<()> {
        self.settle()?;
        self.write_note(&WorkerNote { token: self.token.clone(), ..WorkerNote::default() })
    }

    fn settle(&self) -> Result<()> {
        let Some(store) = self.store.repo()? else {
            ensure!(!self.dir.exists(), "the folder exists and its store does not");
            return Ok(());
        };
        store.slots().remove_incomplete(&self.dir)?;
        let Some((store, slot)) = self.opened()? else { return Ok(()) };
        let mut note = self.note();
        if note.token.is_empty() {
            note.token = format!("unknown-{}", self.name);
        }
        let work = slot.work_of_agent()?;
        if !note.is_fetched(&work) {
            self.store.keep(&store, &slot, &note, &work)?;
        }
        store.slots().bring_home(&slot, work.tip(), &self.ref_of("tip"))?;
        crash::point("transfer.cleared");
        ensure!(slot.slot().settle_on(work.tip())?, "not all of its contents can be kept");
        slot.slot().note(work.tip())
    }

    /// The store and this slot, without the settings that an agent left in it; none before anything
    /// arrived.
    fn opened(&self) -> Result<Option<(Repo, Repo)>> {
        let Some(store) = self.store.repo()? else { return Ok(None) };
        let settings = self.note().settings(&store)?;
        let slot = self.open_in(&store, &settings)?;
        Ok(slot.map(|slot| (store, slot)))
    }

    fn open_in(&self, store: &Repo, settings: &SlotSettings) -> Result<Option<Repo>> {
        match fs::symlink_metadata(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("read the slot"),
            Ok(_) => {}
        }
        let slot = store.slots().reopen(&self.dir, settings)?;
        let slot = slot.ok_or_else(|| BrokenSlot(self.dir.clone()))?;
        // Of an agent or a worker that was killed.
        slot.slot().drop_locks()?;
        Ok(Some(slot))
    }

    fn ref_of(&self, what: &str) -> String {
        format!("refs/slots/{}/{what}", self.name)
    }

    fn note_file(&self) -> PathBuf {
        self.store.folder.join("notes").join(&self.name)
    }

    fn note(&self) -> WorkerNote {
        read_json(&self.note_file()).unwrap_or_default()
    }

    fn write_note(&self, note: &WorkerNote) -> Result<()> {
        replace(&self.note_file(), &serde_json::to_vec(note)?).context("note the state of the slot")
    }
}
