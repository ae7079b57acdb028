//! `ralph __worker`: runs the processes of an attempt on the machine of an executor.

use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    adapters::{
        git::{BrokenSlot, GitService, SlotInUse, WorkerSlot, WorkerStore},
        process::worker::{self, KeptEnd, Worker, WorkerBegin, WorkerFiles, WorkerPlace},
        signal,
    },
    core::exit::Exit,
};

/// The folder for repositories, from the home folder.
const REPOSITORIES: &str = ".cache/ralph";

/// The time for an earlier worker of the same attempt to end what it guarded.
const IN_USE: Duration = Duration::from_secs(20);

/// Serves the guardian that started the carrier of this worker, to its end.
pub fn run() -> Result<Exit> {
    let (worker, begin) = Worker::accept().context("serve as a worker")?;
    let end = worker.ender();
    let heard = signal::listen(move |signal| {
        if signal != signal::SUSPEND {
            end();
        }
    });
    heard.context("listen for signals")?;
    let served = match &begin.work {
        None => with_shared_files(&worker),
        Some(files) => with_sent_files(&worker, files, &begin),
    };
    match served {
        Ok(()) => worker.done(),
        Err(error) => worker.refuse(&format!("{error:#}"), error.is::<BrokenSlot>()),
    }
    worker.finish();
    Ok(Exit::Success)
}

/// Runs the process with the files that are here.
fn with_shared_files(worker: &Worker) -> Result<()> {
    let folder = worker::private_folder().context("create a folder for temporary files")?;
    let guard = || -> Result<()> {
        let lock = fs::File::open(&folder)?;
        Ok(worker.guard(&WorkerPlace { slot: None, folder: &folder, lock: &lock, end: None })?)
    };
    let guarded = guard();
    let _ = fs::remove_dir_all(&folder);
    guarded
}

/// Runs the process with files that are sent here and back; or only sends back what a lost worker
/// did not send, and tells how its agent ended.
fn with_sent_files(worker: &Worker, files: &WorkerFiles, begin: &WorkerBegin) -> Result<()> {
    let dir = repositories(files.dir.as_deref())?;
    let store = WorkerStore::open(&dir, &files.repository, files.is_sha256)?;
    let mut slot = free_slot(&store, files)?;
    // It has the name of the slot, so that the next worker finds what a killed one left running.
    let folder = dir.join(&files.repository).join("processes").join(slot.name());
    fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
    worker::end_orphans(&folder);
    let end = KeptEnd::of(&folder, &files.token);
    if begin.fetch {
        if slot.is_empty() {
            return Ok(());
        }
        if begin.end {
            worker.tell_kept(&end, &begin.arrived)?;
        }
    } else {
        worker.receive_work(&store.command(GitService::Receive)?)?;
        slot.take_arrived()?;
        worker.guard(&WorkerPlace {
            slot: Some(slot.dir()),
            folder: &folder,
            lock: slot.lock(),
            end: Some(&end),
        })?;
    }
    slot.offer()?;
    worker.send_work(&store.command(GitService::Upload)?)?;
    slot.note_fetched()
}

/// The folder for repositories.
fn repositories(dir: Option<&str>) -> Result<PathBuf> {
    let dir = dir.unwrap_or(REPOSITORIES);
    let dir = Path::new(dir.strip_prefix("~/").unwrap_or(dir));
    if dir.is_absolute() {
        return Ok(dir.to_owned());
    }
    match env::home_dir().filter(|home| home.is_absolute()) {
        Some(home) => Ok(home.join(dir)),
        None => bail!("there is no home folder for `{}`; set `dir` of the executor", dir.display()),
    }
}

/// Takes a slot. The worker of the previous process of the attempt may just be ending.
fn free_slot(store: &WorkerStore, files: &WorkerFiles) -> Result<WorkerSlot> {
    let began = Instant::now();
    loop {
        match store.slot(&files.slot, &files.token) {
            Err(error) if error.is::<SlotInUse>() && began.elapsed() < IN_USE => {
                thread::sleep(Duration::from_millis(20));
            }
            slot => return slot,
        }
    }
}
