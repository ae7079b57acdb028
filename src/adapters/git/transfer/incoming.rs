//! A pack that arrives. Its objects are in a folder of their own until they are checked.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{header::PackHeader, state::WorkState};
use crate::{
    adapters::git::{
        Repo,
        bounded::CallStreams,
        lossy, program,
        slot_settings::{quoted, remove_all},
    },
    core::commit_id::CommitId,
};

/// How much the other side is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackSource {
    /// The repository of a person, which may contain old commits that git would not write today.
    Owner,
    /// A worker, where an agent may have written anything.
    Worker,
}

/// The beginning of the names of folders for packs that arrive. Git removes those of this name when
/// they are old, but not in slots and stores, where it removes nothing.
const FOLDER: &str = "tmp_objdir-ralph-";

/// The age of a folder that a killed process has left.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// The faults in old commits, tags and trees that do no harm.
const OLD_FAULTS: &[&str] = &[
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "multipleAuthors",
    "nulInCommit",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
];

/// From this number of objects on, a pack from a worker is stored as one, as git does it
/// (`transfer.unpackLimit` in git-config(1)). libgit2 can read a slot that has only single objects.
const MANY_OBJECTS: u32 = 100;

/// The length of the header of a pack in bytes: its signature, its version and the number of objects
/// (gitformat-pack(5)).
const PACK_START: u64 = 12;

/// Whether the header of a pack announces few objects.
fn has_few_objects(start: &[u8]) -> bool {
    let count = start.get(8..).and_then(|count| <[u8; 4]>::try_from(count).ok());
    count.is_some_and(|count| u32::from_be_bytes(count) < MANY_OBJECTS)
}

/// The objects of a pack, which the repository does not have yet.
pub(super) struct IncomingPack<'a> {
    repo: &'a Repo,
    folder: PathBuf,
    /// The folder of objects of the repository, as git reads it in a variable.
    objects: OsString,
    /// The file that says where the history ends; none if that is known in the repository.
    shallow: Option<PathBuf>,
}

impl<'a> IncomingPack<'a> {
    /// Receives a pack and checks its objects: each is valid, and all that they name is there.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub(super) fn receive(
        repo: &'a Repo,
        header: &PackHeader,
        pack: &mut dyn Read,
        source: PackSource,
    ) -> Result<IncomingPack<'a>> {
        let mut incoming = IncomingPack::begin(repo).context("make a folder for the pack")?;
        if source == PackSource::Owner {
            let ends = header.shallow.iter().map(CommitId::as_str);
            let lines: Vec<&str> = ends.flat_map(|id| [id, "\n"]).collect();
            let file = incoming.folder.join("shallow");
            fs::write(&file, lines.concat()).context("write where the history ends")?;
            incoming.shallow = Some(file);
        }
        let is_partial = program::is_partial_clone(&repo.root)?;
        let check = match source {
            PackSource::Owner => format!("--strict={}=ignore", OLD_FAULTS.join("=ignore,")),
            // What is missing in a partial clone is with its server.
            PackSource::Worker if is_partial => "--fsck-objects".to_owned(),
            PackSource::Worker => "--strict".to_owned(),
        };
        let mut start = Vec::new();
        (&mut *pack).take(PACK_START).read_to_end(&mut start).context("read the pack")?;
        let store: &[&str] = match source {
            PackSource::Worker if !is_partial && has_few_objects(&start) => {
                &["unpack-objects", "-q"]
            }
            PackSource::Worker | PackSource::Owner => &["index-pack", "--stdin", "--fix-thin"],
        };
        let mut pack = start.chain(pack);
        let streams = CallStreams { input: &mut pack, output: &mut io::sink() };
        let arguments = [&["-c", "core.bigFileThreshold=64m"], store, &[&check]].concat();
        program::run_streaming(&repo.root, &arguments, &incoming.env(), streams)
            .context("the pack is not accepted")?;
        let work = header.work();
        incoming.check_tips(&work).context("the pack is not accepted")?;
        if source == PackSource::Worker {
            incoming.check_history(&work, is_partial).context("the pack is not complete")?;
        }
        Ok(incoming)
    }

    fn begin(repo: &'a Repo) -> io::Result<IncomingPack<'a>> {
        let objects = repo.common_dir.join("objects");
        fs::create_dir_all(objects.join("pack"))?;
        remove_old(&objects)?;
        let mut number = 0;
        let folder = loop {
            let folder = objects.join(format!("{FOLDER}{}-{number}", process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        let objects = OsString::from_vec(quoted(objects.as_os_str().as_bytes()));
        let incoming = IncomingPack { repo, folder, objects, shallow: None };
        fs::create_dir(incoming.folder.join("pack"))?;
        Ok(incoming)
    }

    fn env(&self) -> Vec<(&'static str, &OsStr)> {
        let mut env = vec![
            ("GIT_OBJECT_DIRECTORY", self.folder.as_os_str()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &*self.objects),
        ];
        env.extend(self.shallow.iter().map(|file| ("GIT_SHALLOW_FILE", file.as_os_str())));
        env
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<Vec<u8>> {
        program::run_with_input(&self.repo.root, arguments, &self.env(), input.as_bytes())
    }

    /// Checks that the header names commits, and that the one with the changes is on top of HEAD.
    fn check_tips(&self, work: &WorkState) -> Result<()> {
        let tips: Vec<&str> = work.tips().map(CommitId::as_str).collect();
        let kinds = self.run(&["cat-file", "--batch-check=%(objecttype)"], &tips.join("\n"))?;
        let kinds = lossy(&kinds);
        let mut kinds = kinds.lines();
        for commit in tips {
            ensure!(kinds.next() == Some("commit"), "`{commit}` is not a commit");
        }
        let Some(changes) = &work.changes else { return Ok(()) };
        let parents = ["rev-list", "--parents", "--max-count=1", changes, "--"];
        let parents = self.run(&parents, "")?;
        ensure!(
            lossy(&parents).trim() == format!("{changes} {}", work.head),
            "the commit with the uncommitted changes is not on top of HEAD"
        );
        Ok(())
    }

    /// Checks that everything which the repository does not have yet is in the pack.
    fn check_history(&self, work: &WorkState, is_partial: bool) -> Result<()> {
        let mut list = vec!["rev-list", "--objects", "--quiet"];
        if is_partial {
            list.push("--exclude-promisor-objects");
        }
        list.extend(work.tips().map(CommitId::as_str));
        list.extend(["--not", "--all", "--"]);
        self.run(&list, "").map(drop)
    }

    /// Gives the objects to the repository.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn accept(self) -> Result<()> {
        let accept = || -> io::Result<()> {
            let to = self.repo.common_dir.join("objects");
            for folder in entries(&self.folder)?.into_iter().filter(|it| it.is_dir()) {
                let to = to.join(folder.file_name().unwrap_or_default());
                fs::create_dir_all(&to)?;
                let mut files = entries(&folder)?;
                // Git looks for a pack by its index, which is therefore the last.
                files.sort_by_key(|file| file.extension() == Some(OsStr::new("idx")));
                for file in files {
                    let to = to.join(file.file_name().unwrap_or_default());
                    if !to.exists() {
                        fs::rename(&file, to)?;
                    }
                }
            }
            match &self.shallow {
                Some(file) => self.write_shallow(file),
                None => Ok(()),
            }
        };
        accept().context("accept the objects of the pack")
    }

    /// Makes the repository end its history where that of the sender ends.
    fn write_shallow(&self, file: &Path) -> io::Result<()> {
        let own = self.repo.common_dir.join("shallow");
        if fs::metadata(file)?.len() == 0 { remove_all(&own) } else { fs::rename(file, own) }
    }
}

impl Drop for IncomingPack<'_> {
    fn drop(&mut self) {
        // It is removed later otherwise.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Removes what killed processes have left in a folder of objects.
fn remove_old(objects: &Path) -> io::Result<()> {
    for entry in fs::read_dir(objects)? {
        let entry = entry?;
        let is_ours = entry.file_name().as_bytes().starts_with(FOLDER.as_bytes());
        if is_ours && entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age > OLD) {
            remove_all(&entry.path())?;
        }
    }
    Ok(())
}

impl Repo {
    /// Where the history of a shallow clone ends.
    pub(super) fn shallow_ends(&self) -> Vec<CommitId> {
        let text = crate::regular_file::read_to_string(&self.common_dir.join("shallow"));
        text.unwrap_or_default().lines().map(CommitId::from).collect()
    }
}
