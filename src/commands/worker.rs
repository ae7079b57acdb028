//! `ralph __worker`: runs the processes of an attempt on the machine of an executor.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{
    adapters::process::worker::{self, Worker, WorkerPlace},
    core::exit::Exit,
};

/// Serves the guardian that started the carrier of this worker, to its end.
pub fn run() -> Result<Exit> {
    let (worker, begin) = Worker::accept().context("serve as a worker")?;
    if !Worker::is_understood(&begin) {
        // The guardian says so.
        worker.finish();
        return Ok(Exit::Success);
    }
    let served = match &begin.work {
        None => with_shared_files(&worker),
        Some(_) => bail!("this worker takes no files"),
    };
    match served {
        Ok(()) => worker.done(),
        Err(error) => worker.refuse(&format!("{error:#}")),
    }
    worker.finish();
    Ok(Exit::Success)
}

/// Starts the process with the files that are here.
fn with_shared_files(worker: &Worker) -> Result<()> {
    let folder = worker::private_folder().context("create a folder for temporary files")?;
    let guarded = guard_in(worker, &folder);
    let _ = fs::remove_dir_all(&folder);
    guarded
}

fn guard_in(worker: &Worker, folder: &Path) -> Result<()> {
    let lock = fs::File::open(folder)?;
    worker.guard(&WorkerPlace { slot: None, folder, lock: &lock })?;
    Ok(())
}
