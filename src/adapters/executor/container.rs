//! Engines that run containers: which one there is, and the end of a container that is left.

use std::{
    collections::BTreeMap,
    env, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use super::{LIMIT, ask, words};
use crate::core::executor::{
    ContainerEngine, ContainerFault, ContainerSettings, ContainerUser, container_name,
};

/// The pauses between the tries to remove a container.
const REMOVAL_PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

/// Returns the engine of these settings, or an installed one.
///
/// # Errors
/// There is none, or it cannot be used.
pub fn find(settings: &ContainerSettings) -> Result<ContainerEngine, ContainerFault> {
    if let Some(name) = &settings.engine {
        return engine(name);
    }
    let found = ["podman", "docker"].into_iter().find(|name| is_installed(name));
    found.map_or(Err(ContainerFault::NoEngine(None)), engine)
}

fn is_installed(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder: PathBuf| folder.join(name).is_file())
}

/// Returns an engine, which is asked once: every process of an attempt is a container.
fn engine(name: &str) -> Result<ContainerEngine, ContainerFault> {
    static KNOWN: Mutex<BTreeMap<String, ContainerEngine>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = known.get(name) {
        return Ok(engine.clone());
    }
    let engine = asked(name)?;
    known.insert(name.to_owned(), engine.clone());
    Ok(engine)
}

/// Finds out which user an engine's containers have. A program of another name may be a podman.
fn asked(name: &str) -> Result<ContainerEngine, ContainerFault> {
    let is_podman = say(name, ["--version"])?.to_lowercase().starts_with("podman");
    let user = if is_podman {
        let rootless = say(name, ["info", "--format={{.Host.Security.Rootless}}"])?;
        if rootless.trim() == "true" { ContainerUser::KeepId } else { ContainerUser::Root }
    } else {
        let options = say(name, ["info", "--format={{.SecurityOptions}}"])?;
        if options.contains("name=rootless") { ContainerUser::Root } else { own_ids() }
    };
    Ok(ContainerEngine { program: name.to_owned(), user })
}

/// The ids of this process.
fn own_ids() -> ContainerUser {
    match Path::new("/proc/self").metadata() {
        Ok(own) if own.uid() == 0 => ContainerUser::Root,
        Ok(own) => ContainerUser::Ids { user: own.uid(), group: own.gid() },
        Err(_) => ContainerUser::Root,
    }
}

/// Returns an engine's output.
fn say<const N: usize>(name: &str, arguments: [&str; N]) -> Result<String, ContainerFault> {
    let argv = [vec![name.to_owned()], words(arguments)].concat();
    let answer = ask(&argv, LIMIT).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ContainerFault::NoEngine(Some(name.to_owned())),
        io::ErrorKind::TimedOut => ContainerFault::NoDaemon,
        _ => ContainerFault::Other(error.to_string()),
    })?;
    if answer.is_good() {
        return Ok(answer.output);
    }
    // Only `run` has these exit codes of its own; the words are the same.
    let fault = ContainerFault::of(Some(125), &answer.errors);
    Err(fault.unwrap_or_else(|| ContainerFault::Other(answer.why())))
}

/// Kills and removes the remains of an attempt's container. Returns whether there was one.
///
/// A container whose `run` or monitor was killed a moment ago may be refused at first: the engine
/// still holds it, or has not noticed its end. It is asked again for a few seconds.
///
/// # Errors
/// It is not certain that the container is gone.
pub fn remove(engine: &ContainerEngine, mark: &str) -> Result<bool, ContainerFault> {
    if !is_there(engine, mark)? {
        return Ok(false);
    }
    let name = container_name(mark);
    for pause in REMOVAL_PAUSES {
        // Without the kill, `rm` waits for a container that ignores TERM.
        let _ = say(&engine.program, ["kill", &name]);
        let _ = say(&engine.program, ["rm", "--force", &name]);
        if !is_there(engine, mark)? {
            return Ok(true);
        }
        thread::sleep(pause);
    }
    let removed = say(&engine.program, ["rm", "--force", &name]);
    if is_there(engine, mark)? {
        Err(removed.err().unwrap_or(ContainerFault::NameTaken))
    } else {
        Ok(true)
    }
}

/// Whether an attempt has a container, running or not.
///
/// # Errors
/// It does not answer.
pub fn is_there(engine: &ContainerEngine, mark: &str) -> Result<bool, ContainerFault> {
    let filter = format!("--filter=label=ralph={mark}");
    let listed = say(&engine.program, ["ps", "--all", "--quiet", &filter])?;
    Ok(!listed.trim().is_empty())
}
