//! The slots of attempts: a pool in a folder next to the repository. Each isolated attempt has its
//! own slot while it runs, and the merge queue has one.
//!
//! A slot is made when all others are in use. Otherwise an existing one moves on to other work,
//! which is several times faster on a large repository. A slot moves on only when all its contents
//! are kept in the repository. Nothing is forced: a slot that cannot move on without loss stays as
//! it is.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Error, Result, bail};

use crate::{
    adapters::git::{self, Repo, RestoredWork, SlotSettings},
    core::{
        commit_id::CommitId,
        exit::{self, Exit},
        graph::merge::{self, Texts},
        loop_paths::LoopPaths,
        setup,
    },
    crash,
    project::{graph_file::read_graph, slot_files, workspace::Workspace},
};

/// The name of the slots of the merge queue.
const MERGE: &str = "merge";
/// The name of the slots of reviewers.
const REVIEW: &str = "review";

/// The slots of one loop in a repository.
#[derive(Clone, Debug)]
pub struct SlotPool {
    main: PathBuf,
    folder: PathBuf,
    /// Whether the folder is for slots alone, because no setting names it.
    is_own: bool,
    place: LoopPaths,
}

impl SlotPool {
    /// Returns the pool of the selected loop, as configured.
    pub fn of(workspace: &Workspace) -> SlotPool {
        let root = workspace.root();
        let mut name = root.file_name().unwrap_or_default().to_owned();
        name.push(".slots");
        let wanted = workspace.config.slot_dir.as_ref();
        let folder = wanted.map_or_else(|| root.with_file_name(name), |folder| root.join(folder));
        // Git reports canonical paths.
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        let (main, place) = (root.to_owned(), workspace.place.clone());
        SlotPool { main, folder, is_own: wanted.is_none(), place }
    }

    /// Returns the pool of another loop.
    #[must_use]
    pub fn of_loop(&self, place: LoopPaths) -> SlotPool {
        SlotPool { place, ..self.clone() }
    }

    /// Returns the folder of the slots, which all loops share.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a slot of the merge queue, in which no agent works.
    pub fn merge(&self, number: usize) -> PathBuf {
        self.side(MERGE, number)
    }

    /// Returns a slot of a reviewer.
    pub fn review(&self, number: usize) -> PathBuf {
        self.side(REVIEW, number)
    }

    fn side(&self, kind: &str, number: usize) -> PathBuf {
        let name = if number == 0 { kind.to_owned() } else { format!("{kind}-{}", number + 1) };
        self.slot(&name)
    }

    /// Returns the slot of this name, which is that of its folder. The slot has the name of the repository:
    /// tools name what they make after it.
    pub fn slot(&self, name: &str) -> PathBuf {
        self.folder.join(self.place.slot(name)).join(self.main.file_name().unwrap_or_default())
    }

    /// Returns the slots of all loops, and what else is in their folder.
    pub fn entries(&self) -> Vec<PathBuf> {
        let folders = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
        };
        let own = self.main.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_slot = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let in_folder = |folder: PathBuf| {
            let slots: Vec<PathBuf> = folders(&folder).into_iter().filter(is_slot).collect();
            if slots.is_empty() || folder.join(".git").exists() { vec![folder] } else { slots }
        };
        folders(&self.folder).into_iter().flat_map(in_folder).collect()
    }

    /// Whether a slot is one beside those of attempts: in it is no work that is not kept elsewhere.
    pub fn is_side(&self, slot: &Path) -> bool {
        self.kind(slot).is_some()
    }

    /// What a slot beside those of attempts is for: `merge` or `review`.
    pub fn kind(&self, slot: &Path) -> Option<&'static str> {
        let number = side_number(slot);
        [MERGE, REVIEW].into_iter().find(|kind| slot == self.side(kind, number))
    }

    /// Returns the first slot that is not in `taken`.
    pub fn next(&self, taken: &[PathBuf]) -> PathBuf {
        let mut all = (1_u32..).map(|number| self.numbered(number));
        all.find(|slot| !taken.contains(slot)).expect("a number is free")
    }

    fn numbered(&self, number: u32) -> PathBuf {
        self.slot(&number.to_string())
    }

    /// Returns the number of a slot of an attempt of this loop.
    pub fn number(&self, slot: &Path) -> Option<u32> {
        let number = number_in(slot)?;
        (self.numbered(number) == slot).then_some(number)
    }

    /// Whether a folder is for slots of this loop.
    pub fn is_its(&self, slot: &Path) -> bool {
        self.is_side(slot) || self.number(slot).is_some()
    }

    /// Removes the slot of a former version in whose place the folder of a slot is to be; renames it if it
    /// has work of its own.
    fn clear_former(&self, main: &Repo, slot: &Path) -> Result<()> {
        let Some(former) = slot.parent().and_then(|above| main.slots().open(above)) else {
            return Ok(());
        };
        match unkept(main, &former) {
            Ok(None) => former.slot().remove(),
            _ if self.put_aside(former.root()) => Ok(()),
            _ => bail!("`{}` is in the way; move it, or set `slot_dir`", former.root().display()),
        }
    }

    /// Renames what is in the place of a slot, in the folder that has slots alone: a slot whose git
    /// directory was removed, or that another path of the repository has made.
    fn put_aside(&self, slot: &Path) -> bool {
        let named = |number: u32| {
            let mut name = slot.file_name().unwrap_or_default().to_owned();
            name.push(format!(".old-{number}"));
            slot.with_file_name(name)
        };
        let free = (1..=u32::MAX).map(named).find(|path| fs::symlink_metadata(path).is_err());
        self.is_own && free.is_some_and(|free| fs::rename(slot, free).is_ok())
    }

    /// Opens a slot in which no work of its own is, and puts a commit into it.
    ///
    /// # Errors
    /// Those of [`SlotPool::open`]; errors of git.
    pub fn check_out(
        &self,
        slot: &Path,
        settings: &SlotSettings,
        commit: &CommitId,
    ) -> Result<Repo> {
        let tree = self.open(slot, settings, commit)?;
        tree.integration().check_out(commit)?;
        tree.slot().update_submodules(&Repo::discover(&self.main)?)?;
        Ok(tree)
    }

    /// Prepares a slot as that of an attempt: at a commit, on this branch, without anything of before. Returns it, and whether these commands have run in it.
    ///
    /// # Errors
    /// Errors of git.
    pub fn check_out_branch(
        &self,
        slot: &Path,
        settings: &SlotSettings,
        (base, branch): (&CommitId, &str),
        setup: &[String],
    ) -> Result<(Repo, bool)> {
        let main = Repo::discover(&self.main)?;
        let tree = self.check_out(slot, settings, base)?;
        let tree = main.slots().start(&tree, settings, base, branch)?;
        slot_files::bring(&main, &tree)?;
        let is_set_up = is_set_up(&tree, setup)?;
        Ok((tree, is_set_up))
    }

    /// Opens a slot, with the settings and refs that the repository has now. Makes it at `base` if
    /// it does not exist.
    ///
    /// # Errors
    /// Errors of git; the folder exists and is not a slot of this repository.
    pub fn open(&self, slot: &Path, settings: &SlotSettings, base: &str) -> Result<Repo> {
        let main = Repo::discover(&self.main)?;
        self.clear_former(&main, slot)?;
        if let Some(slot) = find(&main, slot)? {
            if !main.slots().is_abandoned(&slot)? {
                return main.slots().refresh(&slot, settings);
            }
            // What is opened and not prepared has no work of its own in it.
            slot.slot().remove()?;
        }
        if is_used(slot) && !self.put_aside(slot) {
            bail!(
                "`{}` is not a slot of this repository; move it, or set `slot_dir`",
                slot.display()
            );
        }
        let slot = main.slots().make(slot, settings, base)?;
        slot_files::bring(&main, &slot)?;
        crash::point("slot.included");
        Ok(slot)
    }
}

/// The number of a slot in which no attempt works, from 0.
fn side_number(slot: &Path) -> usize {
    number_in::<usize>(slot).and_then(|number| number.checked_sub(1)).unwrap_or_default()
}

/// The number at the end of the name of a slot.
fn number_in<T: FromStr>(slot: &Path) -> Option<T> {
    name(slot).rsplit('-').next()?.parse().ok()
}

/// Returns the name of a slot, such as `1` or `merge`.
pub fn name(slot: &Path) -> String {
    let folder = slot.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

/// Returns what the setup of a slot depends on: the commands and the files that they read.
fn setup_key(slot: &Repo, commands: &[String]) -> Result<String> {
    let mut files = slot.files_named(&[setup::MANIFESTS, &[slot_files::INCLUDE]].concat())?;
    if builds(slot, commands)? {
        files.extend(slot.top_entries()?.into_iter().filter(|(path, _)| !setup::is_apart(path)));
    }
    let files = files.iter().map(|(path, id)| format!("{id} {path}\n"));
    Ok(commands.iter().map(|command| format!("{command}\n")).chain(files).collect())
}

/// Whether these commands, the setup of a slot, read its code.
///
/// # Errors
/// Errors of git.
pub fn builds(slot: &Repo, commands: &[String]) -> Result<bool> {
    let package = slot.file_at("HEAD", "package.json")?.unwrap_or_default();
    Ok(setup::reads_code(commands, &String::from_utf8_lossy(&package)))
}

/// Whether these commands have run in a slot, and what they read is unchanged.
///
/// # Errors
/// Errors of git.
pub fn is_set_up(slot: &Repo, commands: &[String]) -> Result<bool> {
    Ok(match slot.slot().setup_note() {
        Some(noted) if !commands.is_empty() => noted == setup_key(slot, commands)?,
        _ => false,
    })
}

/// Notes that these commands have run in a slot.
///
/// # Errors
/// Errors of git and of the disk.
pub fn note_setup(slot: &Repo, commands: &[String]) -> Result<()> {
    if commands.is_empty() {
        return Ok(());
    }
    slot.slot().note_setup(Some(&setup_key(slot, commands)?))
}

/// Returns the slot in a folder, unless a killed run left it incomplete.
fn find(main: &Repo, slot: &Path) -> Result<Option<Repo>> {
    if main.slots().remove_incomplete(slot)? {
        return Ok(None);
    }
    Ok(main.slots().open(slot))
}

/// Whether a folder contains anything. An empty folder counts as missing.
fn is_used(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(folder.exists(), |mut entries| entries.next().is_some())
}

/// The work of an earlier attempt that another one continues.
#[derive(Clone, Debug)]
pub struct LeftWork {
    /// The commit that keeps it.
    pub commit: CommitId,
    /// The attributes file with which it is brought onto the branch (gitattributes(5)).
    pub attributes: PathBuf,
    /// Whether the attempt resolves conflicts with the branch, which its files have marked; else it
    /// starts over.
    pub marks: bool,
}

/// An order to prepare a slot.
#[derive(Clone, Debug)]
pub struct SlotOrder {
    /// The pool.
    pub pool: SlotPool,
    /// The slot.
    pub slot: PathBuf,
    /// What git reads as settings in it.
    pub settings: SlotSettings,
    /// The branch.
    pub branch: String,
    /// The commit to start from.
    pub base: CommitId,
    /// The ref in the repository that keeps it while the attempt is open.
    pub base_ref: String,
    /// The work of an earlier attempt, to continue from.
    pub left: Option<LeftWork>,
    /// The graph file, relative to the repository, if it is in it.
    pub graph: Option<String>,
    /// The commands that prepare it.
    pub setup: Vec<String>,
}

/// The result of preparing a slot.
pub enum PreparedSlot {
    /// The slot is ready.
    Ready {
        /// The slot, opened before any process works in it.
        slot: Box<Repo>,
        /// Whether it has the work of the earlier attempt, if there was any.
        restored: Option<RestoredWork>,
        /// Whether it is set up.
        is_set_up: bool,
    },
    /// The slot cannot be used, for this reason: it has contents that are kept nowhere else.
    Kept(String),
    /// No slot can start from the base, for this reason: its submodules cannot be checked out.
    BadBase(String),
}

/// Prepares a slot for an attempt: on a new branch, with only its base and ignored files.
///
/// # Errors
/// Errors of git.
pub fn prepare(order: &SlotOrder) -> Result<PreparedSlot> {
    let SlotOrder { pool, slot: path, settings, branch, base, base_ref, left, graph, setup } =
        order;
    let main = Repo::discover(&pool.main)?;
    // The branch may be rewritten while the attempt works, and its old commits removed.
    main.keep(base_ref, base)?;
    let mut found = find(&main, path)?;
    if let Some(slot) = &found
        && main.slots().is_abandoned(slot)?
        && is_as_left(slot)?
    {
        slot.slot().remove()?;
        found = None;
    }
    if found.is_none() && is_used(path) {
        return Ok(PreparedSlot::Kept("it is not a slot of this repository".to_owned()));
    }
    let why = found.as_ref().map_or(Ok(None), |slot| unkept(&main, slot));
    // Git may be unable to read a slot that an attempt damaged.
    if let Some(why) = why.unwrap_or_else(|error| Some(format!("{error:#}"))) {
        return Ok(PreparedSlot::Kept(why));
    }
    let is_reused = found.is_some();
    let slot = match found {
        Some(slot) => slot,
        None => pool.open(path, settings, base)?,
    };
    let slot = main.slots().start(&slot, settings, base, branch)?;
    crash::point("slot.started");
    match slot.slot().update_submodules(&main) {
        Err(error) if is_of_the_commit(&error) => {
            return Ok(PreparedSlot::BadBase(format!("{error:#}")));
        }
        other => other?,
    }
    let restored = match left {
        Some(LeftWork { commit: left, attributes, marks }) => {
            let (own, work): (Vec<&str>, _) =
                (graph.iter().map(String::as_str).collect(), slot.integration());
            let restored = work.restore(left, base, branch, &own, Some(attributes), *marks);
            let mut restored = match restored {
                // No other slot or executor fares better, and a ref keeps the work.
                Err(error) if exit::of_error(&error) != Exit::Disk => {
                    work.start_over(base, branch)?;
                    RestoredWork::Unreadable(format!("{error:#}"))
                }
                restored => restored?,
            };
            if let RestoredWork::Marked(paths) = &restored
                && !setup.is_empty()
                && !is_set_up(&slot, setup)?
            {
                // The commands of `setup` cannot read such files.
                work.start_over(base, branch)?;
                restored = RestoredWork::Conflict(paths.clone());
            }
            if let (RestoredWork::Done | RestoredWork::Marked(_), Some(graph)) = (&restored, graph)
            {
                restore_graph(&slot, left, base, graph)?;
            }
            crash::point("slot.restored");
            slot.slot().update_submodules(&main)?;
            Some(restored)
        }
        None => None,
    };
    if let Err(error) = slot_files::bring(&main, &slot) {
        // What an attempt left in this slot is in the way, and another slot can have them.
        let is_of_slot = is_reused && exit::of_error(&error) != Exit::Disk;
        if is_of_slot && slot_files::can_be_read(&main) {
            return Ok(PreparedSlot::Kept(format!("{error:#}")));
        }
        return Err(error);
    }
    let is_set_up = is_set_up(&slot, setup)?;
    Ok(PreparedSlot::Ready { slot: Box::new(slot), restored, is_set_up })
}

/// Whether submodules cannot be checked out because of the commit that names them, and not because
/// of the disk or a request to stop.
pub fn is_of_the_commit(error: &Error) -> bool {
    exit::of_error(error) != Exit::Disk
        && !error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>)
}

/// Writes the new tasks of an earlier attempt to the graph in a slot. Work lands without the graph,
/// so it is not among the commits.
fn restore_graph(slot: &Repo, left: &str, base: &str, graph: &str) -> Result<()> {
    let text = |commit: &str| -> Result<Option<String>> {
        let text = slot.file_at(commit, graph)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    };
    let (Some(ours), Some(theirs)) = (text(base)?, text(left)?) else { return Ok(()) };
    let texts = Texts { base: &ours, ours: &ours, theirs: &theirs };
    // What does not fit any more, or was invalid, is in the kept commit.
    if let Ok(Some(adopted)) = merge::adopt(texts)
        && read_graph(graph, &adopted).is_ok()
    {
        fs::write(slot.root().join(graph), adopted)
            .with_context(|| format!("write `{graph}` in the slot"))?;
    }
    Ok(())
}

/// Returns the first content of a slot that is kept nowhere else, if any.
///
/// # Errors
/// Errors of git.
pub fn unkept(main: &Repo, slot: &Repo) -> Result<Option<String>> {
    if let Some(what) = slot.unfinished() {
        return Ok(Some(format!("{what} is unfinished")));
    }
    if let Some(path) = slot.dirty()?.into_keys().next() {
        return Ok(Some(format!("`{path}` has uncommitted changes")));
    }
    match slot.head()?.commit {
        Some(commit) if slot.slot().is_noted(&commit) => Ok(None),
        Some(commit) if !main.keeps(&commit)? => Ok(Some(only_here(&commit))),
        Some(_) if slot.pins().has_own_strays()? => {
            Ok(Some("it has commits that HEAD does not reach, such as a stash".to_owned()))
        }
        Some(_) => Ok(None),
        None => Ok(Some("it has no commit".to_owned())),
    }
}

/// Whether a slot is as a run has left it.
fn is_as_left(slot: &Repo) -> Result<bool> {
    let head = slot.head()?.commit;
    Ok(head.is_some_and(|head| slot.slot().is_noted(&head)) && slot.slot().has_only_its_files()?)
}

fn only_here(commit: &CommitId) -> String {
    format!("commit {} is only in this slot", commit.short())
}

/// Releases the slot of a closed attempt whose leftovers are in the commit `kept` of the repository
/// `main`. Returns the reason if the slot cannot be released; it then stays as it is.
///
/// # Errors
/// Errors of git.
pub fn release(
    main: &Repo,
    slot: &Repo,
    kept: Option<&str>,
    setup: &[String],
) -> Result<Option<String>> {
    let Some(at) = kept.map(CommitId::from).or(slot.head()?.commit) else {
        return Ok(Some("it has no commit".to_owned()));
    };
    let settled = slot.slot().settle_on(&at).or_else(|_| {
        // A git process of a killed run may still be taking locks, or may have died with them.
        slot.slot().drop_locks()?;
        slot.slot().settle_on(&at)
    });
    if !settled? {
        return Ok(Some("not all of its contents could be kept".to_owned()));
    }
    if kept.is_none() && !slot.slot().is_noted(&at) && !main.keeps(&at)? {
        return Ok(Some(only_here(&at)));
    }
    crash::point("slot.settled");
    slot.slot().note(&at)?;
    if !is_set_up(slot, setup)? {
        // The attempt changed what the setup is made from, and may have run it again.
        slot.slot().note_setup(None)?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::{PushRule, git_in};

    #[test]
    fn a_slot_is_released_when_all_of_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().canonicalize().unwrap().join("main");
        Repo::init(&main).unwrap();
        let git = |arguments: &[&str]| {
            assert!(git_in(&main).args(arguments).status().unwrap().success(), "{arguments:?}");
        };
        git(&["commit", "-q", "--allow-empty", "-m", "First"]);
        let repo = Repo::discover(&main).unwrap();
        let base = repo.head().unwrap().commit.unwrap();
        let place = LoopPaths::default();
        let pool = SlotPool {
            folder: main.with_file_name("slots"),
            main: main.clone(),
            is_own: true,
            place,
        };
        let settings = repo.slots().settings(PushRule::Refuse).unwrap();
        let slot = pool.open(&pool.next(&[]), &settings, &base).unwrap();
        for lock in ["index.lock", "HEAD.lock"] {
            fs::write(slot.git_dir().join(lock), "").unwrap();
            fs::write(slot.root().join("new"), "").unwrap();
            assert!(release(&repo, &slot, None, &[]).unwrap().is_some(), "the file is not kept");
            fs::remove_file(slot.root().join("new")).unwrap();
        }
        fs::write(slot.git_dir().join("HEAD.lock"), "").unwrap();
        assert_eq!(release(&repo, &slot, None, &[]).unwrap(), None);
        // A commit that could not be brought home.
        fs::write(slot.root().join("new"), "").unwrap();
        let git = |arguments: &[&str]| {
            let ran = git_in(slot.root()).args(arguments).status();
            assert!(ran.unwrap().success(), "{arguments:?}");
        };
        git(&["add", "new"]);
        git(&["commit", "-q", "-m", "New"]);
        for _ in 0..2 {
            let why = release(&repo, &slot, None, &[]).unwrap().unwrap();
            assert!(why.ends_with("is only in this slot"), "{why}");
            assert_eq!(unkept(&repo, &slot).unwrap(), Some(why));
        }
    }
}
