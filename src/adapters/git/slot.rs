//! Slots: clones that borrow the objects of the repository, for attempts to work in.
//!
//! A slot shares nothing with the repository that an attempt can break: it has its own refs,
//! settings, hooks, stash and index. Objects are read from the repository and written to the slot;
//! what must be kept is [brought home](Slots::bring_home). Everything in the git directory of a
//! slot except its index and the clones of submodules is written again before each attempt, and
//! everything that git reads as a setting is written again after it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Seek},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    Repo, Slot, Slots,
    bounded::CallStreams,
    control_tree::CONTROLLED,
    head::QUIET,
    lossy, program,
    slot_settings::{FOLDERS, SlotSettings, remove_all, replace, split_at, tried_pushes},
};
use crate::{core::commit_id::CommitId, crash, regular_file};

/// The file in the git directory of a slot that marks it. The first line is the commit at which
/// `ralph` left the slot, which is kept; the rest is the top of the repository.
const MARK: &str = "ralph-slot";

/// The file in the git directory of a slot that records the inputs of its setup.
const SET_UP: &str = "ralph-setup";

/// The ending of the name of a slot that is not complete yet.
const MAKING: &str = ".making";

/// The file of a slot with the objects that are brought home.
const PACK: &str = "ralph-pack";

/// HEAD of a slot whose git directory is being written again.
const BEGUN: &str = "ralph-begun";

/// Files kept in the git directory when a slot starts other work.
const STAYS: &[&str] = &["index", "modules", MARK, SET_UP];

/// Git's settings, and entries that an attempt may have added.
const CONTROLS: &[&str] =
    &["commondir", "config.worktree", "info", "gitdir", "objects/info", "shallow"];

/// The first part of the branches of attempts, which only slots have.
const OWN_BRANCHES: &str = "refs/heads/ralph";

impl Slots<'_> {
    /// Makes a slot in a folder that does not exist, with the files of `base` and HEAD detached
    /// there. After a kill the folder does not exist either.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn make(&self, path: &Path, settings: &SlotSettings, base: &str) -> Result<Repo> {
        let mut making = path.as_os_str().to_owned();
        making.push(MAKING);
        let making = PathBuf::from(making);
        let made = || -> Result<()> {
            // A killed run left it. No attempt has worked in it.
            remove_all(&making)?;
            let git_dir = making.join(".git");
            fs::create_dir_all(&git_dir)?;
            settings.write(&git_dir)?;
            self.write_refs(&git_dir, base)?;
            crash::point("slot.begun");
            let fill = ["read-tree", "-u", "--reset", "HEAD"];
            let env = settings.objects.as_ref().map(|it| ("GIT_OBJECT_DIRECTORY", it.as_os_str()));
            let arguments = [QUIET, &fill].concat();
            let output = program::run_raw(&making, &arguments, env.as_slice())?;
            ensure!(output.status.success(), program::failed(&arguments, &output));
            write_mark(&git_dir, settings, base)?;
            // An empty folder counts as missing.
            let _ = fs::remove_dir(path);
            fs::rename(&making, path)?;
            Ok(())
        };
        made().with_context(|| format!("cannot make the slot `{}`", path.display()))?;
        crash::point("slot.made");
        self.discover(path)
    }

    /// Opens the repository in the folder of a current or earlier attempt.
    ///
    /// # Errors
    /// Errors of [`Repo::discover`].
    pub fn discover(&self, path: &Path) -> Result<Repo> {
        discover_slot(path, &self.common_dir)
    }

    /// Opens the slot of this repository in a folder; none if the folder contains anything else.
    pub fn open(&self, path: &Path) -> Option<Repo> {
        let slot = path.join(".git").exists().then(|| self.discover(path).ok())??;
        (slot.is_top(path) && slot.slot_of().is_some_and(|main| main == self.root)).then_some(slot)
    }

    /// Opens a slot of this repository that an agent has had to itself, with these settings; none
    /// if the folder or its git directory was replaced.
    ///
    /// # Errors
    /// I/O errors; git cannot read the slot.
    pub fn reopen(&self, path: &Path, settings: &SlotSettings) -> Result<Option<Repo>> {
        let git_dir = path.join(".git");
        // A link or a file may lead to the slot of another attempt.
        let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        if !is_folder(path) || !is_folder(&git_dir) {
            return Ok(None);
        }
        let secure = || -> io::Result<()> {
            remove_special_files(path)?;
            // Before git reads them.
            write_controls(&git_dir, settings)
        };
        secure().with_context(|| format!("cannot restore the slot `{}`", path.display()))?;
        let Some(slot) = self.open(path) else { return Ok(None) };
        Ok(Some(slot.slot().secure(settings)?.unwrap_or(slot)))
    }

    /// Whether a folder is a slot that a killed run was creating, whose git directory it was
    /// rewriting, or where controls ran. Its contents are kept elsewhere.
    pub fn is_incomplete(&self, path: &Path) -> bool {
        let git_dir = path.join(".git");
        path.to_string_lossy().ends_with(MAKING)
            || read_mark(&git_dir).is_some_and(|(_, main)| main == self.root)
                && (git_dir.join(CONTROLLED).exists()
                    || !git_dir.join("HEAD").exists() && git_dir.join(BEGUN).exists())
    }

    /// Removes an [incomplete slot](Slots::is_incomplete). Returns whether it is one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove_incomplete(&self, path: &Path) -> Result<bool> {
        let is_incomplete = self.is_incomplete(path);
        if is_incomplete {
            remove_all(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
        Ok(is_incomplete)
    }

    /// Whether a slot was made for a repository that was here before, such as the clone that this one
    /// replaced: the history of its commit is gone.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_abandoned(&self, slot: &Repo) -> Result<bool> {
        let Some(head) = slot.head()?.commit else { return Ok(false) };
        if self.commit_of(&head)?.is_some() {
            return Ok(false);
        }
        // A commit that only the slot has is no sign of it: it may have landed as another one.
        let own = self.head()?.commit.map(|commit| format!("^{commit}"));
        let walk: Vec<&str> =
            ["rev-list", "--quiet", &head].into_iter().chain(own.as_deref()).collect();
        Ok(!program::run_raw(&slot.root, &walk, &[])?.status.success())
    }

    /// Starts other work in a slot: writes its git directory again, with the refs of this
    /// repository, and checks out `base` on a new branch. The slot must be clean, and its commit
    /// must be kept; neither index nor files are read if HEAD is at `base` already.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn start(
        &self,
        slot: &Repo,
        settings: &SlotSettings,
        base: &str,
        branch: &str,
    ) -> Result<Repo> {
        slot.slot().must_be_slot()?;
        let head = slot.head()?.commit.context("the slot has no commit")?;
        let start = || -> Result<Repo> {
            let git_dir = &slot.git_dir;
            // With HEAD under this name, the directory is recognized as incomplete. An attempt that
            // only removes HEAD does not make it so.
            fs::rename(git_dir.join("HEAD"), git_dir.join(BEGUN))?;
            // The commit from which the checkout moves on may be in the slot alone by now.
            let is_borrowed = self.commit_of(&head)?.is_some();
            for entry in fs::read_dir(git_dir)? {
                let entry = entry?;
                let name = entry.file_name();
                let stays = STAYS.iter().any(|it| name == *it)
                    || name == BEGUN
                    || (name == "objects" && !is_borrowed);
                if !stays {
                    remove_all(&entry.path())?;
                }
            }
            crash::point("slot.cleared");
            settings.write(git_dir)?;
            self.write_refs(git_dir, &head)?;
            remove_all(&git_dir.join(BEGUN))?;
            crash::point("slot.written");
            let slot = discover_slot(&slot.root, &settings.common_dir)?;
            if *head != *base {
                slot.slot().detach_at(base)?;
            }
            slot.slot().name_branch(branch, base)?;
            write_mark(git_dir, settings, base)?;
            Ok(slot)
        };
        start().with_context(|| format!("cannot prepare the slot `{}`", slot.root.display()))
    }

    /// Writes the settings and the refs of a slot again; HEAD stays.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn refresh(&self, slot: &Repo, settings: &SlotSettings) -> Result<Repo> {
        slot.slot().must_be_slot()?;
        let head = slot.head()?.commit.context("the slot has no commit")?;
        for name in ["refs", "packed-refs", "logs"] {
            remove_all(&slot.git_dir.join(name))?;
        }
        self.write_refs(&slot.git_dir, &head)?;
        let refresh = || -> Result<Repo> {
            let slot = slot.slot().with_controls(settings)?;
            slot.slot().show_changes(settings)?;
            Ok(slot)
        };
        refresh().with_context(|| format!("cannot restore the slot `{}`", slot.root.display()))
    }

    /// Writes the refs of this repository and a detached HEAD to a new git directory.
    fn write_refs(&self, git_dir: &Path, head: &str) -> Result<()> {
        let refs = self.refs(&["refs/heads", "refs/tags", "refs/remotes", "refs/ralph"])?;
        let mut packed = b"# pack-refs with: sorted \n".to_vec();
        for line in refs.split_inclusive(|byte| *byte == b'\n') {
            let is_own = split_at(line, b' ').is_some_and(|(_, name)| {
                let rest = name.strip_prefix(OWN_BRANCHES.as_bytes());
                // A trial may be over a moment later, and its commits would then be only in the slot.
                name.starts_with(crate::core::loop_paths::TRIALS.as_bytes())
                    || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'\n')))
            });
            if !is_own {
                packed.extend_from_slice(line);
            }
        }
        fs::create_dir_all(git_dir.join("refs/heads"))?;
        fs::write(git_dir.join("packed-refs"), packed)?;
        fs::write(git_dir.join("HEAD"), format!("{head}\n"))?;
        Ok(())
    }

    /// Keeps a commit of a slot in this repository, under the ref `name`. Its objects are checked,
    /// and nothing that the slot's settings name is run.
    ///
    /// # Errors
    /// The error of `git`, for example for objects that are not valid.
    pub fn bring_home(&self, slot: &Repo, commit: &str, name: &str) -> Result<()> {
        slot.slot().must_be_slot()?;
        self.bring_submodules_home(slot)?;
        if self.commit_of(name)?.as_deref() == Some(commit) {
            return Ok(());
        }
        let bring = || -> Result<()> {
            let pack = slot.git_dir.join(PACK);
            self.copy_objects(slot, commit, &pack)?;
            remove_all(&pack)?;
            crash::point("home.copied");
            self.keep(name, commit)
        };
        let from = slot.root.display();
        bring().with_context(|| format!("cannot bring the work in `{from}` home"))
    }

    /// Copies the objects that a commit of a slot needs and no ref of this repository has, through the
    /// file `pack`. Git checks them first.
    fn copy_objects(&self, slot: &Repo, commit: &str, pack: &Path) -> Result<()> {
        /// The number of objects up to which each becomes a file: every reader opens every pack.
        const LOOSE: u32 = 1_000;
        // libgit2 panics at a mode that it does not know.
        const STRICT: &str = "--strict=badFilemode=error";
        let revisions = format!("{commit}\n{}", self.exclusions(None, &["refs"])?);
        remove_all(pack)?;
        let mut file = File::create_new(pack)?;
        let streams = CallStreams { input: &mut revisions.as_bytes(), output: &mut file };
        let list = ["pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"];
        program::run_streaming(&slot.root, &list, &[], streams)?;
        let mut header = [0; 12];
        let mut file = File::open(pack)?;
        file.read_exact(&mut header).context("`git pack-objects` wrote no pack")?;
        file.rewind()?;
        let [.., a, b, c, d] = header;
        let store: &[&str] = if u32::from_be_bytes([a, b, c, d]) > LOOSE {
            &["index-pack", "--stdin", STRICT]
        } else {
            &["unpack-objects", "-q", STRICT]
        };
        let streams = CallStreams { input: &mut file, output: &mut io::sink() };
        program::run_streaming(&self.root, store, &[], streams)
    }
}

impl Repo {
    /// The top of the repository of this slot; none if it is not a slot.
    pub fn slot_of(&self) -> Option<PathBuf> {
        self.slot_of.get_or_init(|| Some(read_mark(&self.git_dir)?.1)).clone()
    }
}

impl Slot<'_> {
    /// Makes the slot a repository of its own, which still borrows objects.
    ///
    /// # Errors
    /// I/O errors.
    pub fn detach(&self) -> io::Result<()> {
        fs::remove_file(self.git_dir.join(MARK))
    }

    /// Whether the files of a slot are those of its index. Reads no commit.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_only_its_files(&self) -> Result<bool> {
        let list = ["ls-files", "--modified", "--deleted", "--others", "--exclude-standard"];
        Ok(program::run(&self.root, &list)?.is_empty())
    }

    /// Removes a slot with all that is in it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove(&self) -> Result<()> {
        self.must_be_slot()?;
        let remove = || -> io::Result<()> {
            remove_all(&put_away(&self.root)?)?;
            remove_parent(&self.root);
            Ok(())
        };
        remove().with_context(|| format!("cannot remove `{}`", self.root.display()))
    }

    /// Rewrites git's settings in a slot, after an attempt that may have changed them. Returns the
    /// slot opened again, or none if nothing had changed since before it was opened: call it when
    /// no process can work in the slot any more, on a slot that was opened after that.
    ///
    /// # Errors
    /// I/O errors; git cannot read the slot.
    pub fn secure(&self, settings: &SlotSettings) -> Result<Option<Repo>> {
        self.must_be_slot()?;
        let secure = || -> Result<Option<Repo>> {
            let places = [CONTROLS, &FOLDERS].concat();
            let is_same = settings.are_all_in(&self.git_dir, &places);
            let again = (!is_same).then(|| self.with_controls(settings)).transpose()?;
            let slot = again.as_ref().unwrap_or(self);
            slot.slot().show_changes(settings)?;
            Ok(again)
        };
        secure().with_context(|| format!("cannot restore the slot `{}`", self.root.display()))
    }

    /// Writes git's settings in a slot, and opens it again.
    fn with_controls(&self, settings: &SlotSettings) -> Result<Repo> {
        write_controls(&self.git_dir, settings)?;
        discover_slot(&self.root, &settings.common_dir)
    }

    /// Rewrites the index of a slot if an attempt made git ignore changes of some files, or damaged
    /// it.
    fn show_changes(&self, settings: &SlotSettings) -> Result<()> {
        self.head()?;
        let list = program::run(&self.root, &["ls-files", "-v", "-z"]);
        let entries = || list.iter().flat_map(|list| list.split(|byte| *byte == 0));
        let is_hidden = |tag: u8| tag.is_ascii_lowercase() || (tag == b'S' && !settings.is_sparse);
        if list.is_ok() && !entries().any(|it| it.first().is_some_and(|tag| is_hidden(*tag))) {
            return Ok(());
        }
        // Files that a sparse checkout of its own has removed are not deleted.
        let is_absent = |path: &&[u8]| fs::symlink_metadata(self.file(path)).is_err();
        let absent = entries().filter_map(|entry| entry.strip_prefix(b"S ")).filter(is_absent);
        let absent: Vec<&[u8]> = absent.filter(|_| !settings.is_sparse).collect();
        remove_all(&self.git_dir.join("index"))?;
        self.run_quietly(&["read-tree", "HEAD"])?;
        if !absent.is_empty() {
            let check_out = ["checkout-index", "--quiet", "-z", "--stdin"];
            let _ = program::run_with_input(&self.root, &check_out, &[], &absent.join(&0));
        }
        Ok(())
    }

    /// Puts HEAD on a new branch at the current commit.
    pub(super) fn name_branch(&self, branch: &str, commit: &str) -> Result<()> {
        let name = format!("refs/heads/{branch}");
        let path = self.git_dir.join(&name);
        fs::create_dir_all(path.parent().unwrap_or(&self.git_dir))?;
        fs::write(path, format!("{commit}\n"))?;
        fs::write(self.git_dir.join("HEAD"), format!("ref: {name}\n"))?;
        Ok(())
    }

    /// Notes that the slot is left at a commit which is kept.
    ///
    /// # Errors
    /// I/O errors.
    pub fn note(&self, commit: &str) -> Result<()> {
        let main = self.slot_of().context("not a slot")?;
        fs::write(self.git_dir.join(MARK), mark(&main, commit)).context("note the slot")
    }

    /// Notes the inputs of the slot's setup, or that it is not set up.
    ///
    /// # Errors
    /// I/O errors.
    pub fn note_setup(&self, key: Option<&str>) -> Result<()> {
        self.must_be_slot()?;
        let file = self.git_dir.join(SET_UP);
        match key {
            Some(key) => replace(&file, key.as_bytes()),
            None => remove_all(&file),
        }
        .context("note the setup of the slot")
    }

    /// The refs that its agent tried to push since it was started.
    pub fn tried_pushes(&self) -> Vec<String> {
        tried_pushes(&self.git_dir)
    }

    /// The inputs of the slot's setup; none if it is not set up.
    pub fn setup_note(&self) -> Option<String> {
        regular_file::read_to_string(&self.git_dir.join(SET_UP)).ok()
    }

    /// Whether this is the commit at which `ralph` left the slot.
    pub fn is_noted(&self, commit: &str) -> bool {
        read_mark(&self.git_dir).is_some_and(|(noted, _)| noted == *commit)
    }

    /// # Errors
    /// In a repository that is not a slot: it belongs to a person.
    pub(super) fn must_be_slot(&self) -> Result<()> {
        ensure!(
            self.slot_of().is_some(),
            "`{}` is not a slot, so `ralph` does not move its HEAD",
            self.root.display()
        );
        Ok(())
    }
}

/// Renames a slot that is about to be removed. After a kill, it counts as incomplete. Returns its
/// new path.
///
/// # Errors
/// I/O errors.
pub fn put_away(slot: &Path) -> io::Result<PathBuf> {
    if slot.to_string_lossy().ends_with(MAKING) {
        return Ok(slot.to_owned());
    }
    let mut away = slot.as_os_str().to_owned();
    away.push(MAKING);
    let away = PathBuf::from(away);
    remove_all(&away)?;
    fs::rename(slot, &away)?;
    crash::point("back.away");
    Ok(away)
}

/// Removes the folder of a slot that is gone, unless there is anything else in it.
pub fn remove_parent(slot: &Path) {
    let _ = slot.parent().map(fs::remove_dir);
}

/// Opens the repository in a folder that an attempt had to itself, and that borrows the objects of the
/// repository with this git directory.
fn discover_slot(path: &Path, main: &Path) -> Result<Repo> {
    let mut slot = Repo::discover(path)?;
    slot.reader.read_objects_of(main);
    Ok(slot)
}

/// Rewrites git's settings in a slot.
fn write_controls(git_dir: &Path, settings: &SlotSettings) -> io::Result<()> {
    for name in CONTROLS.iter().chain(&FOLDERS) {
        remove_all(&git_dir.join(name))?;
    }
    settings.write(git_dir)
}

fn mark(main: &Path, commit: &str) -> Vec<u8> {
    [commit.as_bytes(), b"\n", main.as_os_str().as_bytes()].concat()
}

fn write_mark(git_dir: &Path, settings: &SlotSettings, commit: &str) -> io::Result<()> {
    replace(&git_dir.join(MARK), &mark(&settings.main, commit))
}

/// Removes an attempt's entries in the git directory of its slot that are neither file nor folder:
/// opening a FIFO blocks, and a link leads elsewhere.
///
/// # Errors
/// I/O errors.
pub fn remove_special_files(slot: &Path) -> io::Result<()> {
    for name in [".gitattributes", ".gitignore", ".gitmodules"] {
        let file = slot.join(name);
        let kind = fs::symlink_metadata(&file).map(|found| found.file_type());
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_symlink()) {
            fs::remove_file(file)?;
        }
    }
    let mut folders = vec![slot.join(".git")];
    while let Some(folder) = folders.pop() {
        if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                // git-annex keeps links there.
                folders.extend(Some(entry.path()).filter(|path| !path.ends_with("annex")));
            } else if !kind.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

pub(super) fn read_mark(git_dir: &Path) -> Option<(CommitId, PathBuf)> {
    let text = regular_file::read(&git_dir.join(MARK)).ok()?;
    let (commit, main) = split_at(&text, b'\n')?;
    Some((lossy(commit).into(), PathBuf::from(OsStr::from_bytes(main))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        adapters::git::{
            PushRule,
            tests::{TestSlots, on, said},
        },
        core::loop_paths::LoopPaths,
    };

    impl TestSlots {
        fn settings(&self) -> SlotSettings {
            self.main().slots().settings(PushRule::Refuse).unwrap()
        }

        /// Everything that an attempt could break in the repository.
        fn state(&self) -> Vec<String> {
            let list: [&[&str]; 5] = [
                &["for-each-ref"],
                &["config", "--local", "--list"],
                &["stash", "list"],
                &["status", "--porcelain", "--branch"],
                &["fsck", "--no-dangling"],
            ];
            list.map(|arguments| self.place.git(arguments)).to_vec()
        }
    }

    #[test]
    fn nothing_in_the_repository_breaks_with_a_slot() {
        let trees = TestSlots::new();
        trees.place.git(&["branch", "feature"]);
        trees.place.git(&["tag", "v1"]);
        trees.place.write("a", "stashed\n");
        trees.place.git(&["stash", "-q"]);
        let before = trees.state();
        let slot = trees.add("1");
        let root = slot.root();
        for arguments in [
            &["stash", "pop"][..],
            &["stash", "clear"],
            &["branch", "-D", "feature"],
            &["tag", "-d", "v1"],
            &["update-ref", "-d", "refs/heads/main"],
            &["reflog", "expire", "--expire=now", "--all"],
            &["gc", "-q", "--prune=now"],
            &["config", "user.name", "Agent"],
            &["config", "core.hooksPath", "hooks"],
            &["worktree", "prune"],
            &["checkout", "-q", "--orphan", "fresh"],
        ] {
            trees.place.try_git(root, arguments);
        }
        fs::remove_dir_all(root.join(".git")).unwrap();
        assert_eq!(trees.state(), before);
        assert!(trees.main().slots().open(root).is_none());
        assert!(said(trees.main().slots().refresh(&slot, &trees.settings())).contains("HEAD"));
    }

    #[test]
    fn a_slot_has_the_refs_and_settings_of_the_repository() {
        let trees = TestSlots::new();
        trees.place.git(&["branch", "feature/x"]);
        trees.place.git(&["branch", "ralph/old"]);
        trees.place.git(&["tag", "v1"]);
        trees.place.git(&["update-ref", "refs/remotes/origin/main", &trees.first]);
        trees.place.git(&["remote", "add", "origin", "../there.git"]);
        trees.place.git(&["config", "ralph.test", "a \"quoted\" \\ value"]);
        trees.place.git(&["config", "core.fsmonitor", "true"]);
        trees.place.write(".git/info/exclude", "*.log\n");
        let slot = trees.add("1");
        let git = |arguments: &[&str]| trees.git(&slot, arguments);
        assert_eq!(
            git(&["for-each-ref", "--format=%(refname)"]),
            "refs/heads/feature/x\nrefs/heads/main\nrefs/remotes/origin/main\nrefs/tags/v1"
        );
        assert_eq!(git(&["config", "ralph.test"]), "a \"quoted\" \\ value");
        assert_eq!(git(&["config", "core.fsmonitor"]), "false");
        let there = trees.place.top.join("../there.git").display().to_string();
        assert_eq!(git(&["remote", "get-url", "origin"]), there);
        fs::write(slot.root().join("x.log"), "").unwrap();
        assert_eq!(git(&["status", "--porcelain"]), "");
        assert_eq!(slot.slot_of().as_deref(), Some(trees.main().root()));
        assert_eq!(trees.main().slot_of(), None);
    }

    #[test]
    fn a_slot_refuses_pushes_and_knows_them() {
        let trees = TestSlots::new();
        let there = trees.place.top.join("../there.git").display().to_string();
        trees.place.git(&["init", "-q", "--bare", &there]);
        trees.place.git(&["remote", "add", "origin", &there]);
        trees.place.git(&["config", "remote.origin.pushurl", &there]);
        trees.place.git(&["push", "-q", "origin", "main"]);
        let slot = trees.add("1");
        trees.commit(&slot, "b", "1\n");
        fs::create_dir_all(slot.root().join("below")).unwrap();
        let own = format!("remote.origin.pushurl={there}");
        let instead = format!("url.{there}.pushInsteadOf=x:");
        for (folder, arguments) in [
            (".", &["push", "origin", "HEAD:refs/heads/main"][..]),
            (".", &["push", "-q", "--force", "-u", "origin", "HEAD:refs/heads/mine"]),
            ("below", &["push", "origin", "HEAD:refs/heads/main"]),
            (".", &["push", &there, "HEAD:main"]),
            // The address is what the agent has set, or its hooks are.
            (".", &["-c", "core.hooksPath=none", "push", "origin", "HEAD:refs/heads/hookless"]),
            (".", &["-c", &own, "push", "origin", "HEAD:refs/heads/own"]),
            (".", &["-c", &instead, "push", "x:", "HEAD:refs/heads/instead"]),
        ] {
            let said = trees.place.try_git(&slot.root().join(folder), arguments);
            assert!(!said.status.success(), "{arguments:?}");
        }
        let tried = ["hookless", "instead", "main", "mine", "own"];
        assert_eq!(slot.slot().tried_pushes(), tried.map(|name| format!("refs/heads/{name}")));
        trees.git(&slot, &["fetch", "-q", "origin"]);
        let heads = trees.place.git(&["ls-remote", &there]);
        assert_eq!(heads.lines().filter(|line| !line.ends_with("HEAD")).count(), 1, "{heads}");
        assert!(heads.contains(&*trees.first), "{heads}");

        let main = trees.main();
        let settings = main.slots().settings(PushRule::Allow).unwrap();
        let slot =
            main.slots().make(&trees.place.top.join("../2"), &settings, &trees.first).unwrap();
        trees.git(&slot, &["push", "-q", "origin", "HEAD:refs/heads/other"]);
        assert!(slot.slot().tried_pushes().is_empty());
        assert!(trees.place.git(&["ls-remote", &there]).contains("refs/heads/other"));
    }

    #[test]
    fn work_goes_on_in_a_slot_and_comes_home() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let (main, settings) = (trees.main(), trees.settings());
            let slot = trees.add("1");
            let head = trees.commit(&slot, "b", "1\n");
            assert_eq!(main.commit_of("refs/ralph/x/1").unwrap(), None);
            main.slots().bring_home(&slot, &head, "refs/ralph/x/1").unwrap();
            main.slots().bring_home(&slot, &head, "refs/ralph/x/1").unwrap();
            assert_eq!(trees.place.git(&["show", "refs/ralph/x/1:b"]), "1");
            // A setting, a hook, a stash and another branch of this attempt are gone for the next.
            trees.git(&slot, &["config", "user.name", "Agent"]);
            trees.git(&slot, &["branch", "mine"]);
            fs::create_dir_all(slot.git_dir.join("hooks")).unwrap();
            fs::write(slot.git_dir.join("hooks/pre-commit"), "exit 1").unwrap();
            let second = trees.place.commit("c", "2\n", "Second");
            main.keep(&LoopPaths::default().trial_ref(0), &head).unwrap();
            let slot = main.slots().start(&slot, &settings, &second, "ralph/y").unwrap();
            let at = slot.head().unwrap();
            assert_eq!((at.commit, at.branch), on(&second, Some("ralph/y")));
            assert!(slot.root().join("c").exists() && !slot.root().join("b").exists());
            assert!(slot.dirty().unwrap().is_empty() && slot.slot().is_noted(&second));
            let refs = trees.git(&slot, &["for-each-ref", "--format=%(refname)"]);
            assert_eq!(refs, "refs/heads/main\nrefs/heads/ralph/y\nrefs/ralph/x/1");
            assert!(!slot.git_dir.join("hooks/pre-commit").exists());
            let name = trees.place.try_git(slot.root(), &["config", "user.name"]);
            assert_ne!(lossy(&name.stdout).trim(), "Agent");
        }
    }

    #[test]
    fn settings_of_an_attempt_are_removed() {
        let trees = TestSlots::new();
        let slot = trees.add("1");
        let ran = trees.path("ran");
        let filter = format!("touch {}; cat", ran.display());
        trees.git(&slot, &["config", "filter.x.clean", &filter]);
        fs::write(slot.git_dir.join("info/attributes"), "* filter=x\n").unwrap();
        fs::write(slot.root().join("a"), "changed\n").unwrap();
        let slot = slot.slot().secure(&trees.settings()).unwrap().unwrap();
        assert_eq!(slot.dirty().unwrap().len(), 1);
        let left = super::super::PinSource {
            base: None,
            branch: None,
            began: None,
            changed: &["a".to_owned()],
        };
        slot.pins().pin("refs/ralph/x/1", "Left\n", left, &trees.path("scratch")).unwrap();
        assert!(!ran.exists());
    }

    #[test]
    fn changes_cannot_be_hidden() {
        for options in [&[][..], &["--object-format=sha256"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let slot = trees.add("1");
            for flag in ["--assume-unchanged", "--skip-worktree"] {
                trees.git(&slot, &["update-index", flag, "a"]);
                fs::write(slot.root().join("a"), "hidden\n").unwrap();
                assert_eq!(trees.git(&slot, &["status", "--porcelain"]), "");
                assert!(slot.slot().secure(&trees.settings()).unwrap().is_none());
                assert_eq!(slot.dirty().unwrap().len(), 1, "{flag}");
            }
        }
    }

    #[test]
    fn only_settings_that_an_attempt_changed_are_written_again() {
        let trees = TestSlots::new();
        let (main, settings) = (trees.main(), trees.settings());
        let root = trees.add("1").root().to_owned();
        let is_changed = || {
            let slot = main.slots().open(&root).unwrap();
            slot.slot().secure(&settings).unwrap().is_some()
        };
        assert!(!is_changed());
        let git_dir = root.join(".git");
        let at = |name: &str| git_dir.join(name);
        let add = |name: &str, text: &str| {
            let old = fs::read_to_string(at(name)).unwrap_or_default();
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), old + text).unwrap();
            assert!(is_changed() && !is_changed(), "{name}");
            assert!(!fs::read_to_string(at(name)).is_ok_and(|now| now.contains(text)), "{name}");
        };
        add("config", "[core]\n\thooksPath = hooks\n");
        add("config.worktree", "[core]\n\thooksPath = hooks\n");
        add("info/attributes", "* filter=x\n");
        add("info/exclude", "hidden\n");
        add("info/deep/er", "x");
        add("objects/info/alternates", "/elsewhere\n");
        add("objects/info/http-alternates", "/elsewhere\n");
        add("hooks/pre-commit", "#!/bin/sh\n");
        add("gitdir", "/elsewhere\n");
        for name in ["hooks/mine", "info/deep", "gitdir"] {
            fs::create_dir(at(name)).unwrap();
            assert!(is_changed() && !at(name).exists(), "{name}");
        }
        fs::remove_file(at("objects/info/alternates")).unwrap();
        assert!(is_changed() && at("objects/info/alternates").exists());
        let outside = trees.path("config");
        fs::hard_link(at("config"), &outside).unwrap();
        assert!(is_changed(), "it can be changed from outside");
        fs::remove_file(at("config")).unwrap();
        std::os::unix::fs::symlink(&outside, at("config")).unwrap();
        assert!(is_changed() && !is_changed(), "a link");
    }

    #[test]
    fn what_an_agent_changes_in_its_slot_is_seen() {
        let trees = TestSlots::new();
        let main = trees.main();
        let root = trees.add("1").root().to_owned();
        let slot = main.slots().open(&root).unwrap();
        let before = slot.local().controls();
        assert!(slot.dirty().unwrap().is_empty() && before.len() == 2, "{before:?}");
        trees.place.git_in(&root, &["config", "core.hooksPath", "mine"]);
        trees.place.git_in(&root, &["config", "core.fileMode", "false"]);
        fs::write(root.join("a"), "changed\n").unwrap();
        trees.place.git_in(&root, &["add", "a"]);
        assert_ne!(slot.local().controls(), before);
        assert_eq!(slot.local().controls().get("core.hooksPath").map(String::as_str), Some("mine"));
        assert_eq!(slot.dirty().unwrap().len(), 1);
        let secured = slot.slot().secure(&trees.settings()).unwrap().unwrap();
        assert_eq!(
            secured.local().controls(),
            main.slots().open(&root).unwrap().local().controls()
        );
        assert!(!secured.local().controls().contains_key("core.hooksPath"));
    }

    #[test]
    fn a_killed_git_leaves_no_half_slot() {
        let trees = TestSlots::new();
        let (main, settings) = (trees.main(), trees.settings());
        let path = trees.path("1");
        let making = trees.path("1.making");
        fs::create_dir_all(making.join(".git")).unwrap();
        fs::write(making.join(".git/index.lock"), "").unwrap();
        fs::create_dir_all(&path).unwrap();
        let slot = main.slots().make(&path, &settings, &trees.first).unwrap();
        assert!(!making.exists() && slot.dirty().unwrap().is_empty());
        fs::rename(slot.git_dir.join("HEAD"), slot.git_dir.join(BEGUN)).unwrap();
        assert!(main.slots().remove_incomplete(&path).unwrap() && !path.exists());
        fs::create_dir_all(path.join("mine")).unwrap();
        assert!(!main.slots().remove_incomplete(&path).unwrap() && path.exists());
    }

    #[test]
    fn special_repositories_have_slots() {
        let trees = TestSlots::new();
        for name in ["x/a", "y/a"] {
            fs::create_dir_all(trees.place.top.join(name).parent().unwrap()).unwrap();
            trees.place.commit(name, "1\n", name);
        }
        // A sparse checkout.
        trees.place.git(&["sparse-checkout", "set", "--cone", "x"]);
        let (main, base) = (trees.main(), trees.place.git(&["rev-parse", "HEAD"]));
        let slot = main.slots().make(&trees.path("1"), &trees.settings(), &base).unwrap();
        assert!(slot.root().join("x/a").exists() && !slot.root().join("y").exists());
        assert_eq!(slot.dirty().unwrap().len(), 0);
        let head = trees.commit(&slot, "x/b", "1\n");
        assert_eq!(trees.git(&slot, &["diff", "--name-only", &base, &head]), "x/b");
        // A worktree, in a folder whose name git would quote.
        let odd = trees.worktree("\"od\\d #1");
        let slot = odd
            .slots()
            .make(&trees.path("2"), &odd.slots().settings(PushRule::Refuse).unwrap(), &base)
            .unwrap();
        assert_eq!(slot.slot_of().as_deref(), Some(odd.root()));
        // A shallow and a partial clone.
        let from = format!("file://{}", trees.place.top.display());
        trees.place.git(&["config", "uploadpack.allowFilter", "true"]);
        for (name, how) in [("shallow", "--depth=1"), ("partial", "--filter=blob:none")] {
            let path = trees.path(name);
            trees.place.git(&["clone", "-q", how, &from, path.to_str().unwrap()]);
            let main = Repo::discover(&path).unwrap();
            let settings = main.slots().settings(PushRule::Refuse).unwrap();
            let slot = main.slots().make(&trees.path("slot"), &settings, &base).unwrap();
            assert!(slot.dirty().unwrap().is_empty(), "{name}");
            let head = trees.commit(&slot, "x/b", "1\n");
            main.slots().bring_home(&slot, &head, "refs/ralph/x/1").unwrap();
            assert_eq!(trees.place.git_in(&path, &["show", "refs/ralph/x/1:x/b"]), "1");
            let slot = main.slots().start(&slot, &settings, &base, "ralph/x").unwrap();
            assert!(slot.dirty().unwrap().is_empty(), "{name}");
            fs::remove_dir_all(slot.root()).unwrap();
        }
    }

    #[test]
    fn objects_that_git_refuses_do_not_come_home() {
        let trees = TestSlots::new();
        let slot = trees.add("1");
        let blob = trees.git(&slot, &["rev-parse", "HEAD:a"]);
        let entry = format!("100644 blob {blob}\t.git\n");
        let tree =
            program::run_with_input(slot.root(), &["mktree"], &[], entry.as_bytes()).unwrap();
        let tree = lossy(&tree).trim().to_owned();
        let commit = trees.git(&slot, &["commit-tree", "-m", "bad", &tree]);
        let refused = said(trees.main().slots().bring_home(&slot, &commit, "refs/ralph/x/1"));
        assert!(refused.contains("hasDotgit"), "{refused}");
        assert_eq!(trees.main().commit_of("refs/ralph/x/1").unwrap(), None);
    }
}
