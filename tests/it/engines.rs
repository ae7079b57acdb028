//! Real engines for the tests of executors: an ssh server, a Slurm cluster and containers, each
//! started by the test that needs it and ended with it. Nothing of this machine's own settings is
//! used, and where an engine cannot be had, the test says so, and fails in CI.

mod carried;
mod container;
mod container_engine;
mod measured;
mod runs;
mod runs_lost;
mod runs_killed;
mod slurm;
mod slurm_cluster;
mod ssh;
mod ssh_host;
pub mod station;

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Output},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::unavailable;

/// Finds a program on `PATH` or in the folders for programs of root.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder: PathBuf| folder.join(name)).find(|file| file.is_file())
}

/// Whether this process is root's.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A process and everything below it, by `/proc`.
fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, status(pid, "PPid:")?.parse().ok()?))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|it| it.1 == parent).map(|it| it.0));
        at += 1;
    }
    found
}

/// A line of a process's status.
fn status(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}

/// Whether a process is there and is no zombie.
fn is_alive(pid: u32) -> bool {
    status(pid, "State:").is_some_and(|state| !state.starts_with('Z'))
}

/// The processes that have this folder in their command line or environment: what a test with its
/// own folder has started, wherever it runs.
fn marked(folder: &Path) -> Vec<u32> {
    let needle = folder.as_os_str().as_encoded_bytes();
    let has = |file: String| {
        fs::read(file).is_ok_and(|text| text.windows(needle.len()).any(|part| part == needle))
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && is_alive(*pid))
        .filter(|pid| has(format!("/proc/{pid}/cmdline")) || has(format!("/proc/{pid}/environ")))
        .collect()
}

/// Sends a signal to a process that may be gone.
fn send(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
}

/// Sends a process more than any buffer on its way has room for. Returns that, and what the process
/// printed until its end.
fn exchange(mut child: Child) -> (Vec<u8>, Output) {
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            stdin.write_all(&sent).unwrap();
            drop(stdin);
        });
        child.wait_with_output().unwrap()
    });
    (sent, output)
}
