//! The files that receive the output of this process: as its standard output or error, or written
//! by the programs that read it, as in `ralph run | tee ralph.log`.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::tree;

/// An open file of a process, as `/proc` shows it.
struct OpenFile {
    /// The target: a path, or a name such as `pipe:[4711]`.
    target: PathBuf,
    reads: bool,
    writes: bool,
}

impl OpenFile {
    fn is_pipe(&self) -> bool {
        self.target.to_str().is_some_and(|target| target.starts_with("pipe:["))
    }

    /// Whether it is the side of a terminal that a recorder such as `script` reads.
    fn is_terminal_master(&self) -> bool {
        self.target.ends_with("ptmx")
    }

    /// The path, if it is a file that can be written and still has its name.
    fn written(self) -> Option<PathBuf> {
        let is_file = || fs::metadata(&self.target).is_ok_and(|found| found.is_file());
        (self.writes && self.target.is_absolute() && is_file()).then_some(self.target)
    }
}

/// The files that receive the output of this process. Empty where the system has no `/proc`.
pub fn outputs() -> BTreeSet<PathBuf> {
    let own = std::process::id();
    let mut files = BTreeSet::new();
    let mut pipes: HashSet<PathBuf> = HashSet::new();
    for name in ["1", "2"] {
        let Some(open) = open_file(&PathBuf::from(format!("/proc/{own}/fd/{name}"))) else {
            continue;
        };
        if open.is_pipe() {
            pipes.insert(open.target);
        } else {
            files.extend(open.written());
        }
    }
    if !pipes.is_empty() {
        files.extend(piped(own, pipes));
    }
    files.extend(recorded(own));
    files
}

/// The files that the readers of these pipes write, and the readers of their pipes in turn.
fn piped(own: u32, mut pipes: HashSet<PathBuf>) -> Vec<PathBuf> {
    let others = tree::processes().into_iter().filter(|pid| *pid != own);
    let mut others: Vec<Vec<OpenFile>> = others.map(open_files).collect();
    let mut files = Vec::new();
    loop {
        let reads = |open: &mut Vec<OpenFile>| {
            open.iter().any(|open| open.reads && pipes.contains(&open.target))
        };
        let readers: Vec<OpenFile> = others.extract_if(.., reads).flatten().collect();
        if readers.is_empty() {
            return files;
        }
        pipes.clear();
        for open in readers {
            if open.writes && open.is_pipe() {
                pipes.insert(open.target);
            } else {
                files.extend(open.written());
            }
        }
    }
}

/// The files that ancestors of this process write which record its terminal.
fn recorded(own: u32) -> Vec<PathBuf> {
    let ancestors = tree::ancestors(own).into_iter().map(open_files);
    let recorders = ancestors.filter(|open| open.iter().any(OpenFile::is_terminal_master));
    recorders.flatten().filter_map(OpenFile::written).collect()
}

fn open_files(pid: u32) -> Vec<OpenFile> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| open_file(&entry.path())).collect()
}

fn open_file(link: &Path) -> Option<OpenFile> {
    let mode = fs::symlink_metadata(link).ok()?.permissions().mode();
    let target = fs::read_link(link).ok()?;
    Some(OpenFile { target, reads: mode & 0o400 != 0, writes: mode & 0o200 != 0 })
}
