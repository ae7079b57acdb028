//! A slot at a worker: it takes on arriving work, and offers the result of an attempt.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{FILLING, SLOTS, WorkerStore};
use crate::{
    adapters::git::{
        Repo, SlotSettings, Transfers, lossy, program,
        transfer::{ARRIVED, MOST, OUT, STALE, TravelingWork, WorkNote, state::WorkState},
    },
    crash,
};

/// The branch of a slot while its git directory is written.
const BEGUN: &str = "ralph/begun";

/// A slot that git cannot read any more: the one in this folder.
#[derive(Debug)]
pub struct BrokenSlot(pub PathBuf);

impl fmt::Display for BrokenSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no slot any more; its agent has broken it", self.0.display())
    }
}

impl std::error::Error for BrokenSlot {}

/// A slot at a worker. It is locked as long as this value exists.
#[derive(Debug)]
pub struct WorkerSlot {
    store: WorkerStore,
    name: String,
    token: String,
    dir: PathBuf,
    lock: File,
    /// The work in it that the other side has; none before any has arrived for this token.
    known: Option<TravelingWork>,
    /// The work to fetch.
    pub(in crate::adapters::git::transfer) out: Option<WorkState>,
    /// The stale work that is fetched with it: the names of the folders of refs.
    stale: Vec<String>,
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        // A child that this process is just starting shares the lock.
        let _ = self.lock.unlock();
    }
}

impl WorkerSlot {
    fn of(store: &WorkerStore, name: &str, token: &str, lock: File) -> WorkerSlot {
        let (name, token, dir) = (name.to_owned(), token.to_owned(), store.dir_of(name));
        let (store, stale) = (store.clone(), Vec::new());
        WorkerSlot { store, name, token, dir, lock, known: None, out: None, stale }
    }

    /// Opens the slot of this token.
    pub(super) fn open(
        store: &WorkerStore,
        name: &str,
        token: &str,
        lock: File,
    ) -> Result<WorkerSlot> {
        let mut slot = WorkerSlot::of(store, name, token, lock);
        let (repo, folder) = (store.repo()?, format!("{SLOTS}/{name}"));
        slot.known = repo.transfers().works(&folder)?.remove(token);
        if slot.known.is_none() {
            // Of a worker that was killed while it prepared the slot.
            repo.transfers().update_refs(&repo.transfers().deletions(&folder)?)?;
        }
        Ok(slot)
    }

    /// Prepares a slot for the work of this token: saves its content in the store, and cleans it.
    ///
    /// # Errors
    /// Something in it cannot be kept; the error of `git`; I/O errors.
    pub(super) fn clear(
        store: &WorkerStore,
        name: &str,
        token: &str,
        lock: File,
    ) -> Result<WorkerSlot> {
        let new = WorkerSlot::of(store, name, token, lock);
        let repo = store.repo()?;
        repo.slots().remove_incomplete(&new.dir)?;
        let known = repo.transfers().works(&format!("{SLOTS}/{name}"))?.into_values().next();
        let note = known.as_ref().map(|known| known.note.clone()).unwrap_or_default();
        let filling = repo.transfers().deletions(&format!("{FILLING}/{name}"))?;
        let changes = repo.transfers().deletions(&format!("{SLOTS}/{name}"))? + &filling;
        let Some(slot) = new.open_in(&repo, &note.settings(&repo)?)? else {
            repo.transfers().update_refs(&changes)?;
            return Ok(new);
        };
        let token_before = known.as_ref().map_or("", |known| &known.note.token);
        let work = repo.transfers().work_in(&slot, token_before)?;
        if filling.is_empty() && !is_known(known.as_ref(), &work) {
            let token = if known.is_some() { note.token } else { format!("unknown-{name}") };
            repo.transfers().keep_work(&slot, STALE, &token, &work)?;
        }
        repo.slots().bring_home(&slot, work.tip(), &new.ref_of(FILLING))?;
        // From here on, it is the slot of this token.
        repo.transfers().update_refs(&changes)?;
        crash::point("transfer.cleared");
        ensure!(slot.slot().settle_on(work.tip())?, "not all of its contents can be kept");
        slot.slot().note(work.tip())?;
        Ok(new)
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

    /// Whether nothing of its attempt has arrived.
    pub fn is_empty(&self) -> bool {
        self.known.is_none()
    }

    /// Brings the slot into the state of the work that has arrived for its token. Unfetched work in
    /// the slot becomes stale.
    ///
    /// # Errors
    /// Nothing has arrived; the error of `git`; I/O errors.
    pub fn take_arrived(&mut self) -> Result<()> {
        let take = || -> Result<TravelingWork> {
            let store = self.store.repo()?;
            self.store.deepen(&store)?;
            let mut arrived = store
                .transfers()
                .works(ARRIVED)?
                .remove(&self.token)
                .context("nothing has arrived")?;
            crash::point("transfer.received");
            if self.known.is_none() {
                let filling = format!("update {} {}\n", self.ref_of(FILLING), arrived.work.tip());
                store.transfers().update_refs(&filling)?;
            }
            self.fill(&store, &arrived)?;
            crash::point("transfer.taken");
            let strays = self.known.iter().flat_map(|known| known.work.strays.clone());
            arrived.work.strays.extend(strays);
            let mut changes = store.transfers().deletions(&self.ref_of(FILLING))?;
            changes += &store.transfers().deletions(&format!("{ARRIVED}/{}", self.token))?;
            changes += &self.noting(&store, &mut arrived)?;
            store.transfers().update_refs(&changes)?;
            Ok(arrived)
        };
        let arrived = take();
        let arrived =
            arrived.with_context(|| format!("cannot bring work into `{}`", self.dir.display()))?;
        self.known = Some(arrived);
        Ok(())
    }

    /// The ref change that notes the other side's state of this slot.
    fn noting(&self, store: &Repo, known: &mut TravelingWork) -> Result<String> {
        known.work.strays.sort();
        known.work.strays.dedup();
        known.work.strays.truncate(MOST - 1);
        known.note.head = known.work.head.to_string();
        let id = store.transfers().sealed(&known.work, &known.note)?;
        Ok(format!("update {} {id}\n", self.ref_of(SLOTS)))
    }

    fn fill(&self, store: &Repo, arrived: &TravelingWork) -> Result<()> {
        let to = &arrived.work;
        let settings = arrived.note.settings(store)?;
        store.slots().remove_incomplete(&self.dir)?;
        let (slot, now) = match self.open_in(store, &settings)? {
            None => {
                let slot = store.slots().make(&self.dir, &settings, &to.head)?;
                (slot, WorkState::clean(&to.head))
            }
            Some(slot) if self.known.is_none() => {
                // It is clean since `clear`, unless a worker was killed here.
                let left = slot.transfers().work_state()?;
                if left.changes.is_some() {
                    slot.slot().settle_on(left.tip())?;
                }
                let slot = store.slots().start(&slot, &settings, &to.head, BEGUN)?;
                (slot, WorkState::clean(&to.head))
            }
            Some(slot) => {
                let now = store.transfers().work_in(&slot, &self.token)?;
                if !is_known(self.known.as_ref(), &now) && now.tip() != to.tip() {
                    store.transfers().keep_work(&slot, STALE, &self.token, &now)?;
                }
                (slot, now)
            }
        };
        slot.transfers().take_on(&now, to)
    }

    /// Names the work in the slot in the store, and all stale work, for the other side to fetch.
    ///
    /// # Errors
    /// [`BrokenSlot`]; the error of `git`; I/O errors.
    pub fn offer(&mut self) -> Result<()> {
        let offer = || -> Result<(WorkState, Vec<String>)> {
            let known = self.known.as_ref().context("nothing has arrived in it")?;
            let store = self.store.repo()?;
            let slot = self.open_in(&store, &known.note.settings(&store)?)?;
            let slot = slot.ok_or_else(|| BrokenSlot(self.dir.clone()))?;
            let mut work = store.transfers().work_in(&slot, &self.token)?;
            work.strays.retain(|stray| !known.work.strays.contains(stray));
            store.transfers().keep_work(&slot, OUT, &self.token, &work)?;
            Ok((work, store.transfers().works(STALE)?.into_keys().collect()))
        };
        let offered =
            offer().with_context(|| format!("cannot send the work in `{}`", self.dir.display()))?;
        (self.out, self.stale) = (Some(offered.0), offered.1);
        Ok(())
    }

    /// Notes that the other side has the offered work. Without it, the work becomes stale when the
    /// slot gets other work.
    ///
    /// # Errors
    /// Nothing was offered; the error of `git`.
    pub fn note_fetched(&mut self) -> Result<()> {
        let out = self.out.take().context("nothing was offered")?;
        let mut known = self.known.take().context("nothing has arrived")?;
        let strays = [known.work.strays, out.strays.clone()].concat();
        known.work = WorkState { strays, ..out };
        let store = self.store.repo()?;
        let noting = self.noting(&store, &mut known)?;
        store.transfers().update_refs(
            &(store.transfers().deletions(&format!("{OUT}/{}", self.token))? + &noting),
        )?;
        for stale in self.stale.drain(..) {
            // Another worker may have sent it at the same time.
            let _ = store
                .transfers()
                .update_refs(&store.transfers().deletions(&format!("{STALE}/{stale}"))?);
        }
        self.known = Some(known);
        Ok(())
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

    fn ref_of(&self, folder: &str) -> String {
        format!("{folder}/{}/{}", self.name, self.token)
    }
}

/// Whether the other side has this state of a slot.
fn is_known(known: Option<&TravelingWork>, work: &WorkState) -> bool {
    known.is_some_and(|known| {
        known.work.tip() == work.tip()
            && work.strays.iter().all(|stray| known.work.strays.contains(stray))
    })
}

impl Transfers<'_> {
    /// The work in a slot of this store, which had this token. Commits that were offered and not fetched
    /// are a part of it.
    fn work_in(&self, slot: &Repo, token: &str) -> Result<WorkState> {
        if !token.is_empty() {
            self.update_refs(&self.deletions(&format!("{OUT}/{token}"))?)?;
        }
        slot.transfers().work_of_agent()
    }

    /// Keeps the work in a slot of this store, under a ref in this folder.
    fn keep_work(&self, slot: &Repo, folder: &str, token: &str, work: &WorkState) -> Result<()> {
        let id = slot.transfers().sealed(work, &WorkNote::new(token, work))?;
        let name = if folder == OUT { token.to_owned() } else { id.to_string() };
        self.slots().bring_home(slot, &id, &format!("{folder}/{name}"))
    }

    /// The deletion of a ref, or of all refs in a folder, for [`Transfers::update_refs`].
    fn deletions(&self, folder: &str) -> Result<String> {
        let list = ["for-each-ref", "--format=delete %(refname) %(objectname)", folder];
        Ok(lossy(&program::run(&self.root, &list)?))
    }
}
