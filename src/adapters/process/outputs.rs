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

/// The programs that write the output of this process into files. They are found once and then
/// asked again, because looking at the files of all processes takes milliseconds.
#[derive(Debug, Default)]
pub struct OutputReaders {
    /// The processes that read its pipes, and theirs in turn.
    piped: Vec<u32>,
    /// The ancestors that record its terminal.
    recorders: Option<Vec<u32>>,
}

impl OutputReaders {
    /// The files that receive the output of this process. Empty where the system has no `/proc`.
    pub fn files(&mut self) -> BTreeSet<PathBuf> {
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
            files.extend(self.piped(own, &pipes));
        }
        let recorders = self.recorders.get_or_insert_with(|| recorders(own));
        let opened = recorders.iter().map(|pid| open_files(*pid)).filter(|open| records(open));
        files.extend(opened.flatten().filter_map(OpenFile::written));
        files
    }

    /// The files that the readers of these pipes write.
    fn piped(&mut self, own: u32, pipes: &HashSet<PathBuf>) -> Vec<PathBuf> {
        let (files, found) = readers(pipes.clone(), &self.piped);
        // A shell holds the pipes of a program that it has not started yet.
        if !found.is_empty() && found.len() == self.piped.len() {
            return files;
        }
        let mut others = tree::processes();
        others.retain(|pid| *pid != own);
        let (files, found) = readers(pipes.clone(), &others);
        self.piped = found;
        files
    }
}

/// The files that the readers of these pipes write, and the readers of their pipes in turn, with
/// these readers, of all these processes.
fn readers(mut pipes: HashSet<PathBuf>, processes: &[u32]) -> (Vec<PathBuf>, Vec<u32>) {
    let mut others: Vec<(u32, Vec<OpenFile>)> =
        processes.iter().map(|pid| (*pid, open_files(*pid))).collect();
    let (mut files, mut found) = (Vec::new(), Vec::new());
    loop {
        let reads = |(_, open): &mut (u32, Vec<OpenFile>)| {
            open.iter().any(|open| open.reads && pipes.contains(&open.target))
        };
        let readers: Vec<(u32, Vec<OpenFile>)> = others.extract_if(.., reads).collect();
        if readers.is_empty() {
            return (files, found);
        }
        pipes.clear();
        for (pid, open) in readers {
            found.push(pid);
            for open in open {
                if open.writes && open.is_pipe() {
                    pipes.insert(open.target);
                } else {
                    files.extend(open.written());
                }
            }
        }
    }
}

/// The ancestors of this process which record its terminal.
fn recorders(own: u32) -> Vec<u32> {
    let mut ancestors = tree::ancestors(own);
    ancestors.retain(|pid| records(&open_files(*pid)));
    ancestors
}

fn records(open: &[OpenFile]) -> bool {
    open.iter().any(OpenFile::is_terminal_master)
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
