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
    /// Whether it is standard output or standard error.
    is_output: bool,
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
    /// All processes when they were found. What none of them reads, only a newer one can read.
    seen: Vec<u32>,
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
        let known = Readers::of(pipes, &self.piped);
        let mut others = tree::processes();
        others.retain(|pid| *pid != own);
        let is_new = |pid: &u32| !self.seen.contains(pid);
        let new: Vec<u32> = others.iter().copied().filter(is_new).collect();
        // A shell holds the pipes of a program that it has not started yet.
        let is_same = known.processes.len() == self.piped.len();
        if is_same && (known.is_whole() || Readers::of(&known.pipes, &new).processes.is_empty()) {
            return known.files;
        }
        let found = Readers::of(pipes, &others);
        (self.piped, self.seen) = (found.processes, others);
        found.files
    }
}

/// The processes that read some pipes, and those that read their pipes in turn.
struct Readers {
    processes: Vec<u32>,
    /// The files that they write.
    files: Vec<PathBuf>,
    /// The pipes that they read, and all to be read: those asked for, and those that they write.
    read: HashSet<PathBuf>,
    pipes: HashSet<PathBuf>,
    /// Those among them that must have a reader: others may be inherited from anywhere.
    outputs: HashSet<PathBuf>,
}

impl Readers {
    /// The readers of these pipes among these processes.
    fn of(pipes: &HashSet<PathBuf>, processes: &[u32]) -> Self {
        let mut others: Vec<(u32, Vec<OpenFile>)> =
            processes.iter().map(|pid| (*pid, open_files(*pid))).collect();
        let mut found = Self {
            processes: Vec::new(),
            files: Vec::new(),
            read: HashSet::new(),
            pipes: pipes.clone(),
            outputs: pipes.clone(),
        };
        loop {
            let reads = |(_, open): &mut (u32, Vec<OpenFile>)| {
                open.iter().any(|open| open.reads && found.pipes.contains(&open.target))
            };
            let readers: Vec<(u32, Vec<OpenFile>)> = others.extract_if(.., reads).collect();
            if readers.is_empty() {
                return found;
            }
            for (pid, open) in readers {
                found.processes.push(pid);
                for open in open {
                    found.add(open);
                }
            }
        }
    }

    fn add(&mut self, open: OpenFile) {
        if !open.is_pipe() {
            self.files.extend(open.written());
            return;
        }
        if open.reads {
            self.read.insert(open.target.clone());
        }
        if open.writes && open.is_output {
            self.outputs.insert(open.target.clone());
        }
        if open.writes {
            self.pipes.insert(open.target);
        }
    }

    /// Whether each output has a reader. A reader started during the listing is in no list yet.
    fn is_whole(&self) -> bool {
        self.outputs.is_subset(&self.read)
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
    let is_output = link.ends_with("1") || link.ends_with("2");
    Some(OpenFile { target, reads: mode & 0o400 != 0, writes: mode & 0o200 != 0, is_output })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_pipeline_is_whole_only_with_its_last_program() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("ralph.log");
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut cat = cat.spawn().unwrap();
        let pipe = open_file(Path::new(&format!("/proc/{}/fd/0", cat.id()))).unwrap().target;
        let pipes = HashSet::from([pipe]);
        let found = Readers::of(&pipes, &[cat.id()]);
        assert_eq!((found.processes.clone(), found.is_whole()), (vec![cat.id()], false));

        let end = cat.stdout.take().unwrap();
        let mut tee = Command::new("tee");
        tee.arg(&log).stdin(end).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tee = tee.spawn().unwrap();
        while !log.exists() {
            std::thread::yield_now();
        }
        let found = Readers::of(&pipes, &[tee.id(), cat.id()]);
        assert_eq!(found.processes, [cat.id(), tee.id()]);
        assert!(found.is_whole() && found.files.contains(&log.canonicalize().unwrap()));

        drop(cat.stdin.take());
        assert!(cat.wait().unwrap().success() && tee.wait().unwrap().success());
    }
}
