//! `ralph __worker`: runs the processes of an attempt on the machine of an executor; and `ralph
//! __work`: sends the work in a slot to another machine, and fetches the result.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    adapters::{
        git::{BrokenSlot, GitLine, GitService, Repo, SlotInUse, WorkerSlot, WorkerStore},
        process::worker::{self, KeptEnd, Worker, WorkerBegin, WorkerFiles, WorkerPlace},
        signal, terminal,
    },
    cli::WorkStep,
    core::exit::Exit,
    regular_file,
};

/// The folder for repositories, from the home folder.
const REPOSITORIES: &str = ".cache/ralph";

/// The time for an earlier worker of the same attempt to end its processes.
const IN_USE: Duration = Duration::from_secs(20);

/// The files of an earlier worker of the same attempt are gone.
#[derive(Debug)]
struct NothingStays;

impl fmt::Display for NothingStays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no file stays there from one start to the next, so what `setup` made is gone; let `dir` \
             be a folder that stays, or have the image prepared and leave `setup` out",
        )
    }
}

impl std::error::Error for NothingStays {}

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
        Err(error) => {
            let (is_broken, lasts) = (error.is::<BrokenSlot>(), error.is::<NothingStays>());
            worker.refuse(&format!("{error:#}"), is_broken, lasts);
        }
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

/// Runs the process with files that are sent here and back; or only returns the unsent work of a
/// lost worker, and how its agent ended.
fn with_sent_files(worker: &Worker, files: &WorkerFiles, begin: &WorkerBegin) -> Result<()> {
    let dir = repositories(files.dir.as_deref())?;
    let processes = dir.join(&files.repository).join("processes");
    if files.is_set_up && !processes.is_dir() {
        return Err(NothingStays.into());
    }
    let store = WorkerStore::open(&dir, &files.repository, files.is_sha256)?;
    let mut slot = free_slot(&store, files)?;
    // It has the name of the slot, so that the next worker finds the processes of a killed one.
    let folder = processes.join(slot.name());
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

/// Which work is sent or fetched.
#[derive(Debug, Deserialize)]
struct WorkSpec {
    /// The slot.
    slot: PathBuf,
    /// The top of the repository of the slot.
    main: PathBuf,
    /// The mark of the attempt's work.
    token: String,
    /// The commit from which the work must descend.
    expected_base: Option<String>,
}

/// Sends the work to git at the other end of standard input and output, or fetches it from there.
/// Notes for a person about it go to standard error.
///
/// # Errors
/// Errors of git and of the disk; work that the slot cannot take on.
pub fn work(step: WorkStep, spec: &Path) -> Result<Exit> {
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
