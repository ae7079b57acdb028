//! Following: moves a branch forward to work that landed, with the files of the checkout that has it.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{
    BranchLandings, Repo, Worktree, head::QUIET, lossy, pin::KeptPaths, program,
    submodule::follow_submodules,
};
use crate::{
    core::{commit_id::CommitId, executor::shell_word},
    regular_file,
};

/// The reflog message.
const LANDED: &str = "ralph: landed";

/// The note of the commit to which git is moving the files of a checkout, in the git directory. It stays
/// where git has written files and not moved the branch.
const BEGUN: &str = "ralph-begun";

/// The time that another run has to move a branch.
const ALONE: Duration = Duration::from_secs(3);
/// The time between two looks whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// The result of moving a branch forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Following {
    /// The branch contains the commit, now or before.
    Done,
    /// The branch has moved and does not contain the commit.
    Moved,
    /// The branch has not moved, because of a person's work in a checkout.
    InTheWay {
        /// The top of that checkout.
        checkout: PathBuf,
        /// The files that would have been overwritten; none if there is another reason.
        paths: Vec<String>,
        /// The reason in one line.
        why: String,
    },
    /// Another git process holds a lock: it can be retried at once.
    Busy {
        /// The message of git.
        why: String,
    },
}

impl BranchLandings<'_> {
    /// Moves a branch from `old` to `new`, which descends from it. If a checkout has the branch,
    /// all of its files follow; if a person's changes or ignored files would be overwritten,
    /// nothing is moved. No hook is run. May be called again after a kill.
    ///
    /// # Errors
    /// The error of `git`; when `new` does not descend from `old`.
    pub fn follow(&self, branch: &str, old: &str, new: &str) -> Result<Following> {
        ensure!(self.is_ancestor(old, new)?, "{new} does not descend from {old}");
        let _alone = self.alone();
        if let Some(landing) = self.landing_state(branch, old, new)? {
            return Ok(landing);
        }
        let Some(tree) = self.worktrees()?.into_iter().find(|tree| tree.holds(branch)) else {
            let name = format!("refs/heads/{branch}");
            let update = ["update-ref", "-m", LANDED, &name, new, old];
            let output = program::run_raw(&self.root, &update, &[])?;
            if output.status.success() {
                return Ok(Following::Done);
            }
            let failed = program::failed(&update, &output);
            return match (self.landing_state(branch, old, new)?, lock_error(&lossy(&output.stderr)))
            {
                (Some(landing), _) => Ok(landing),
                (None, Some(why)) => Ok(Following::Busy { why }),
                (None, None) => Err(failed),
            };
        };
        let in_the_way = |why: &str| Following::InTheWay {
            checkout: tree.path.clone(),
            paths: Vec::new(),
            why: why.to_owned(),
        };
        if tree.missing {
            return Ok(in_the_way("its folder is missing, and it is locked"));
        }
        if !tree.is_on(branch) {
            return Ok(in_the_way("a rebase or a bisection of the branch is not finished"));
        }
        let landing = self.land_in_checkout(&tree, branch, old, new)?;
        if landing == Following::Done {
            follow_submodules(&tree.path, old, new);
        }
        Ok(landing)
    }

    /// The commit on the way from `old` to `new` whose files git has begun to write: the checkout moves
    /// to it first.
    pub fn begun(&self, old: &str, new: &str) -> Option<CommitId> {
        let begun = fs::read_to_string(self.git_dir.join(BEGUN)).ok()?;
        let is_ancestor = |one: &str, other: &str| self.is_ancestor(one, other).unwrap_or(false);
        let is_between = begun != old && is_ancestor(old, &begun) && is_ancestor(&begun, new);
        is_between.then(|| begun.as_str().into())
    }

    /// Waits until no other run moves a branch with its checkout, and keeps them from it while the
    /// result is held. Git reads the index before it locks it: of two that move a branch at once,
    /// the later one writes back the files that it had read. No run holds the lock for longer than
    /// [`ALONE`].
    pub(super) fn alone(&self) -> Option<File> {
        let folder = File::open(&self.common_dir).ok()?;
        let began = Instant::now();
        while began.elapsed() < ALONE {
            match folder.try_lock() {
                Ok(()) => return Some(folder),
                Err(TryLockError::WouldBlock) => thread::sleep(LOOK),
                Err(TryLockError::Error(_)) => break,
            }
        }
        None
    }

    /// Returns which of these files a person has changed or made in the checkout of a branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn in_the_way(&self, branch: &str, paths: Vec<String>) -> Result<Vec<String>> {
        let Some(tree) = self.worktrees()?.into_iter().find(|tree| tree.is_on(branch)) else {
            return Ok(Vec::new());
        };
        let opened = Repo::discover(&tree.path)?;
        let changed: HashSet<String> =
            opened.changed(&paths)?.into_keys().map(|path| lossy(&path)).collect();
        let mut kept = Vec::new();
        for path in paths {
            let is_changed = changed.contains(&path);
            // An ignored file is not among the changes.
            let is_there = || fs::symlink_metadata(opened.root.join(&path)).is_ok();
            if is_changed || (is_there() && opened.entry(branch, &path)?.is_none()) {
                kept.push(path);
            }
        }
        Ok(kept)
    }

    /// Whether a sparse checkout leaves this file out.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn leaves_out(&self, path: &str) -> Result<bool> {
        Ok(program::run(&self.root, &["ls-files", "-v", "--", path])?.starts_with(b"S"))
    }

    /// The reason if a person has set git to ignore their changes of some of these files:
    /// `git status` does not show them, and `git stash` does not save them.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn hidden(&self, paths: &[String]) -> Result<Option<String>> {
        if paths.is_empty() {
            return Ok(None);
        }
        let list = program::run(&self.root, &["ls-files", "-v", "-z"])?;
        let mut entries = list.split(|byte| *byte == 0).filter_map(|entry| {
            let flag = match entry.first()? {
                b'S' => "skip-worktree",
                tag if tag.is_ascii_lowercase() => "assume-unchanged",
                _ => return None,
            };
            let path = lossy(entry.get(2..)?);
            // A sparse checkout does not have it at all.
            let is_there = || fs::symlink_metadata(self.root.join(&path)).is_ok();
            (paths.contains(&path) && is_there()).then_some((flag, path))
        });
        Ok(entries.next().map(|(flag, path)| {
            format!(
                "{path} is marked `{flag}`, which hides that it has changed; \
                 `git update-index --no-{flag} {}` shows it, then commit or stash it",
                shell_word(&path)
            )
        }))
    }

    /// The result if there is nothing to move; none if the branch is at `old`.
    fn landing_state(&self, branch: &str, old: &str, new: &str) -> Result<Option<Following>> {
        let tip = self.branch(branch)?;
        let Some(tip) = tip else { return Ok(Some(Following::Moved)) };
        if self.is_ancestor(new, &tip)? {
            return Ok(Some(Following::Done));
        }
        Ok((tip != *old).then_some(Following::Moved))
    }

    /// Moves the branch in the checkout that has it.
    fn land_in_checkout(
        &self,
        tree: &Worktree,
        branch: &str,
        old: &str,
        new: &str,
    ) -> Result<Following> {
        // This note separates a killed git's partial writes from a person's files.
        let note = self.git_dir.join(BEGUN);
        let was_cut = fs::read_to_string(&note).is_ok_and(|begun| begun == new);
        fs::write(&note, new).with_context(|| format!("write `{}`", note.display()))?;
        let forwarded = fast_forward(&tree.path, new)?;
        let is_refused = |said: &str| !was_cut && !said.is_empty() && !has_written(said);
        if forwarded.as_ref().map_or_else(|(said, _)| is_refused(said), |()| true) {
            let _ = fs::remove_file(&note);
        }
        if let Some(landing) = self.landing_state(branch, old, new)? {
            return Ok(landing);
        }
        let Err((refused, failed)) = forwarded else {
            // The checkout was switched to another branch at that moment.
            return Ok(Following::Moved);
        };
        if let Some(why) = lock_error(&refused) {
            return Ok(Following::Busy { why });
        }
        let checkout = tree.path.clone();
        let paths = paths_in(&refused);
        let opened = Repo::discover(&checkout)?;
        if !paths.is_empty() {
            if opened.landings().has_already(new, &paths, was_cut)? {
                match fast_forward(&checkout, new)? {
                    Ok(()) => {
                        let _ = fs::remove_file(&note);
                        return Ok(self
                            .landing_state(branch, old, new)?
                            .unwrap_or(Following::Moved));
                    }
                    Err((said, _)) => {
                        if let Some(why) = lock_error(&said) {
                            return Ok(Following::Busy { why });
                        }
                    }
                }
            }
            if let Some(why) = opened.landings().hidden(&paths)? {
                return Ok(Following::InTheWay { checkout, paths: Vec::new(), why });
            }
            let why = "changed or untracked files there would be overwritten".to_owned();
            return Ok(Following::InTheWay { checkout, paths, why });
        }
        let is_conflicted = |(path, code): (&Vec<u8>, &String)| (code == "UU").then(|| lossy(path));
        let paths: Vec<String> = opened.codes()?.iter().filter_map(is_conflicted).collect();
        match opened.unfinished() {
            Some(what) => {
                let why = format!("{what} is not finished");
                Ok(Following::InTheWay { checkout, paths, why })
            }
            None if !paths.is_empty() => {
                let why = "conflicts are not resolved".to_owned();
                Ok(Following::InTheWay { checkout, paths, why })
            }
            None => Err(failed),
        }
    }

    /// Whether all these files already have the contents of the commit, because a killed git wrote
    /// them. Then the index is updated, so that git sees it as well. `was_cut` says whether git may have
    /// written only a part of the last one.
    fn has_already(&self, new: &str, paths: &[String], was_cut: bool) -> Result<bool> {
        let bytes: Vec<Vec<u8>> = paths.iter().map(|path| path.clone().into_bytes()).collect();
        let scratch = self.git_dir.join("ralph-index");
        // Only a file can be added to an index; anything else differs from the commit.
        let files = KeptPaths::of_files(&bytes);
        let Ok(tree) = self.pins().tree(Some(new), &files, &scratch) else { return Ok(false) };
        match &*self.differing(Some(new), &tree)? {
            [] => {}
            // Git writes one file after the other; if it has written some, this one was the last.
            [last] if was_cut && self.is_begun(new, last)? => {
                fs::remove_file(self.root.join(last))
                    .with_context(|| format!("cannot remove the partly written `{last}`"))?;
            }
            _ => return Ok(false),
        }
        let add = ["update-index", "--add", "--remove", "-z", "--stdin"];
        Ok(program::run_with_input(&self.root, &add, &[], &bytes.join(&0)).is_ok())
    }

    /// Whether a file is the beginning of the version in the commit.
    fn is_begun(&self, new: &str, path: &str) -> Result<bool> {
        let file = self.root.join(path);
        if !fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
            return Ok(false);
        }
        let has = regular_file::read(&file).with_context(|| format!("cannot read `{path}`"))?;
        Ok(self.file_at(new, path)?.is_some_and(|whole| whole.starts_with(&has)))
    }
}

/// Moves a checkout to a commit that descends from its HEAD; else the message of git.
fn fast_forward(checkout: &Path, new: &str) -> Result<Result<(), (String, anyhow::Error)>> {
    // A person's changes are not stashed for it either.
    let own = ["-c", "merge.autoStash=false", "merge", "--ff-only", "--no-overwrite-ignore"];
    let rest = ["--no-stat", "--quiet", "--no-verify-signatures", new];
    let arguments = [QUIET, &own, &rest].concat();
    let env = [("GIT_REFLOG_ACTION", OsStr::new(LANDED))];
    let output = program::run_raw(checkout, &arguments, &env)?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    Ok(Err((lossy(&output.stderr), program::failed(&["merge"], &output))))
}

/// Git's error line about an existing lock file.
fn lock_error(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains(".lock': File exists"));
    line.map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned())
}

/// Whether git failed to move the branch after it had written the files.
fn has_written(said: &str) -> bool {
    said.contains("cannot lock ref") || said.contains("update_ref failed")
}

/// The files that git lists, each on a line of its own after a tab.
fn paths_in(said: &str) -> Vec<String> {
    said.lines().filter_map(|line| line.strip_prefix('\t')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::adapters::git::tests::{TestSlots, said};

    /// `new` is a commit on top of `main` that changes `a` and adds `b`.
    struct LandPlace {
        trees: TestSlots,
        main: Repo,
        slot: Repo,
        old: CommitId,
        new: CommitId,
    }

    impl LandPlace {
        fn of(trees: TestSlots) -> LandPlace {
            trees.place.write(".gitignore", "*.env\n");
            let old = trees.place.commit("same", "1\n", "Second");
            let slot = trees.add("1");
            trees.git(&slot, &["checkout", "-q", "--detach", &old]);
            fs::write(slot.root().join("a"), "new\n").unwrap();
            let new = trees.commit(&slot, "b", "new\n");
            trees.bring(&slot, &new);
            LandPlace { main: trees.main(), trees, slot, old, new }
        }

        fn new() -> LandPlace {
            LandPlace::of(TestSlots::new())
        }

        fn git(&self, arguments: &[&str]) -> String {
            self.trees.place.git(arguments)
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.main.root().join(path)).unwrap()
        }

        fn tip(&self) -> CommitId {
            self.git(&["rev-parse", "main"]).into()
        }

        fn land(&self) -> Following {
            self.main.landings().follow("main", &self.old, &self.new).unwrap()
        }

        /// Checks that nothing was moved; returns the files and the reason.
        fn in_the_way(&self) -> (Vec<String>, String) {
            let status = self.git(&["status", "--porcelain=v2"]);
            let Following::InTheWay { checkout, paths, why } = self.land() else {
                panic!("it landed");
            };
            assert_eq!(checkout, self.main.root());
            assert_eq!(self.tip(), self.old);
            assert_eq!(self.git(&["status", "--porcelain=v2"]), status);
            (paths, why)
        }
    }

    #[test]
    fn a_checkout_follows_and_keeps_unrelated_changes() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let place = LandPlace::of(trees);
            place.trees.place.write("same", "mine\n");
            place.trees.place.write("new", "mine\n");
            assert_eq!(place.land(), Following::Done);
            assert_eq!((place.tip(), place.read("b")), (place.new.clone(), "new\n".to_owned()));
            assert_eq!(place.git(&["status", "--porcelain"]), "M same\n?? new");
            assert_eq!(place.land(), Following::Done, "again");
            place.trees.place.write("new", "mine\n");
            let later = place.trees.place.commit("more", "1\n", "A person's, on top");
            assert_eq!(place.land(), Following::Done);
            assert_eq!(place.tip(), later);
        }
    }

    #[test]
    fn what_a_person_has_put_in_the_way_stays_as_it_is() {
        let shell = |place: &LandPlace, script: &str| {
            let mut shell = Command::new("sh");
            let run = shell.args(["-ec", script]).current_dir(place.main.root()).output().unwrap();
            String::from_utf8(run.stdout).unwrap()
        };
        for (script, path) in [
            ("rm a; mkdir -p a/sub; echo mine > a/x.env; echo mine > a/sub/y", "a"),
            (
                "touch -r a ../then; size=$(wc -c < a); head -c $size /dev/zero | tr '\\0' m > a; \
              touch -r ../then a",
                "a",
            ),
            ("mkdir b; echo mine > b/x.env", "b"),
            ("mkfifo b", "b"),
            ("ln -s ../outside b", "b"),
            ("rm a; mkfifo a", "a"),
        ] {
            let place = LandPlace::new();
            shell(&place, script);
            let look = || shell(&place, "ls -lR; cat a/sub/y b/x.env same; test -p a || cat a");
            let before = look();
            let (paths, _) = place.in_the_way();
            assert!(paths.iter().all(|it| it.starts_with(path)), "{script}: {paths:?}");
            assert_eq!(look(), before, "{script}");
        }
    }

    /// Git writes the files before it moves the branch.
    #[test]
    fn a_branch_that_is_locked_follows_later_also_to_later_work() {
        for is_later in [false, true] {
            let mut place = LandPlace::new();
            let lock = place.main.git_dir().join("refs/heads/main.lock");
            fs::write(&lock, "").unwrap();
            for _ in 0..2 {
                assert!(matches!(place.land(), Following::Busy { .. }));
            }
            assert_eq!((place.tip(), place.read("a")), (place.old.clone(), "new\n".to_owned()));
            if is_later {
                fs::write(place.slot.root().join("a"), "newer\n").unwrap();
                place.new = place.trees.commit(&place.slot, "c", "new\n");
                place.trees.bring(&place.slot, &place.new);
            }
            fs::remove_file(&lock).unwrap();
            let first = place.main.landings().begun(&place.old, &place.new).unwrap();
            assert_eq!(first == place.new, !is_later);
            let follow =
                |old: &str, new: &str| place.main.landings().follow("main", old, new).unwrap();
            assert_eq!(follow(&place.old, &first), Following::Done);
            assert_eq!(follow(&first, &place.new), Following::Done);
            assert_eq!(place.tip(), place.new);
            assert_eq!(place.git(&["status", "--porcelain"]), "");
            assert!(!place.main.git_dir().join(BEGUN).exists());
        }
    }

    #[test]
    fn a_checkout_with_its_git_directory_elsewhere_follows() {
        let mut place = LandPlace::new();
        let elsewhere = place.trees.path("elsewhere");
        place.git(&["init", "-q", "--separate-git-dir", elsewhere.to_str().unwrap()]);
        place.main = Repo::discover(place.main.root()).unwrap();
        assert_eq!(place.land(), Following::Done);
        assert_eq!((place.tip(), place.read("a")), (place.new.clone(), "new\n".to_owned()));
        assert_eq!(place.git(&["status", "--porcelain"]), "");
    }

    #[test]
    fn a_branch_without_a_checkout_is_moved() {
        let place = LandPlace::new();
        place.git(&["checkout", "-q", "-b", "person"]);
        assert_eq!(place.land(), Following::Done);
        assert_eq!((place.tip(), place.read("a")), (place.new.clone(), "1\n".to_owned()));
        assert_eq!(place.git(&["status", "--porcelain"]), "");
        let other = place.trees.place.commit("other", "1\n", "Other");
        place.git(&["branch", "-f", "main", &other]);
        assert_eq!(place.land(), Following::Moved);
        let refused = said(place.main.landings().follow("main", &other, &place.new));
        assert!(refused.contains("does not descend"), "{refused}");
        place.git(&["branch", "-q", "-D", "main"]);
        assert_eq!(place.land(), Following::Moved);
    }

    #[test]
    fn a_commit_made_meanwhile_is_detected() {
        let place = LandPlace::new();
        let own = place.trees.place.commit("own", "1\n", "A person's");
        assert_eq!(place.land(), Following::Moved);
        assert_eq!(place.tip(), own);
    }

    #[test]
    fn two_runs_do_not_land_at_the_same_time() {
        let place = LandPlace::new();
        let (trees, other) = (&place.trees, place.trees.main());
        let alone = other.landings().alone().unwrap();
        let (root, old, new) = (place.main.root().to_owned(), place.old.clone(), place.new.clone());
        let landing = thread::spawn(move || {
            let main = Repo::discover(&root).unwrap();
            main.landings().follow("main", &old, &new).unwrap()
        });
        thread::sleep(Duration::from_millis(300));
        let tip = trees.place.commit("own", "1\n", "Of the other run");
        drop(alone);
        assert_eq!(landing.join().unwrap(), Following::Moved, "it waited");
        assert_eq!((place.tip(), place.git(&["status", "--porcelain"])), (tip, String::new()));
        let held = File::open(&other.common_dir).unwrap();
        held.lock().unwrap();
        assert!(other.landings().alone().is_none(), "what holds it for long is no run");
    }

    #[test]
    fn a_persons_files_are_never_overwritten() {
        let place = LandPlace::new();
        let files = |paths: &[&str]| {
            let (found, why) = place.in_the_way();
            assert_eq!(found, paths);
            assert!(why.contains("would be overwritten"), "{why}");
        };
        place.git(&["config", "merge.autoStash", "true"]);
        place.trees.place.write("a", "mine\n");
        files(&["a"]);
        place.trees.place.write("b", "mine\n");
        files(&["a", "b"]);
        place.git(&["add", "a"]);
        place.git(&["checkout", "-q", "HEAD", "--", "a"]);
        files(&["b"]);
        fs::remove_file(place.main.root().join("b")).unwrap();
        place.trees.place.write("b/in it", "mine\n");
        assert_eq!(place.in_the_way().0, ["b"]);
        fs::remove_dir_all(place.main.root().join("b")).unwrap();
        // An ignored file still belongs to a person: git overwrites it by default.
        place.trees.git(&place.slot, &["checkout", "-q", "--detach", &place.old]);
        fs::write(place.slot.root().join("x.env"), "theirs\n").unwrap();
        place.trees.git(&place.slot, &["add", "-f", "x.env"]);
        let secret = place.trees.commit(&place.slot, "c", "1\n");
        place.trees.bring(&place.slot, &secret);
        place.trees.place.write("x.env", "mine\n");
        let landing = place.main.landings().follow("main", &place.old, &secret).unwrap();
        assert!(matches!(&landing, Following::InTheWay { paths, .. } if paths == &["x.env"]));
        assert_eq!(place.read("x.env"), "mine\n");
        assert_eq!(place.land(), Following::Done);
    }

    #[test]
    fn an_operation_in_progress_blocks_landing() {
        let place = LandPlace::new();
        place.git(&["checkout", "-q", "-b", "other", "HEAD~"]);
        place.trees.place.commit("same", "other\n", "Other");
        place.git(&["checkout", "-q", "main"]);
        place.trees.place.try_git(place.main.root(), &["merge", "-q", "other"]);
        let (paths, why) = place.in_the_way();
        assert_eq!((&*paths, &*why), (&["same".to_owned()][..], "a merge is not finished"));
        place.git(&["merge", "--quit"]);
        let (paths, why) = place.in_the_way();
        assert_eq!((&*paths, &*why), (&["same".to_owned()][..], "conflicts are not resolved"));
        place.git(&["checkout", "-q", "-f", "main"]);
        place.trees.place.try_git(place.main.root(), &["rebase", "-q", "other"]);
        let (_, why) = place.in_the_way();
        assert!(why.contains("a rebase or a bisection"), "{why}");
        place.git(&["rebase", "--abort"]);
        place.git(&["bisect", "start"]);
        place.git(&["bisect", "bad"]);
        place.git(&["bisect", "good", "HEAD~"]);
        place.git(&["checkout", "-q", "--detach"]);
        let (_, why) = place.in_the_way();
        assert!(why.contains("a rebase or a bisection"), "{why}");
        place.git(&["bisect", "reset"]);
        assert_eq!(place.land(), Following::Done);
    }

    #[test]
    fn a_lock_of_another_process_is_reported_as_busy() {
        let place = LandPlace::new();
        for lock in ["index.lock", "refs/heads/main.lock"] {
            let lock = place.main.root().join(".git").join(lock);
            fs::write(&lock, "").unwrap();
            let landing = place.land();
            let Following::Busy { why } = landing else {
                panic!("{}: {landing:?}", lock.display())
            };
            assert!(why.contains(&*lock.to_string_lossy()), "{why}");
            assert_eq!(place.tip(), place.old);
            fs::remove_file(&lock).unwrap();
        }
        assert_eq!(place.land(), Following::Done);
        assert_eq!(place.git(&["status", "--porcelain"]), "");
        place.git(&["checkout", "-q", "-b", "person", &place.old]);
        place.git(&["branch", "-f", "main", &place.old]);
        let lock = place.main.root().join(".git/refs/heads/main.lock");
        fs::write(&lock, "").unwrap();
        assert!(matches!(place.land(), Following::Busy { .. }));
    }

    #[test]
    fn landing_continues_after_a_killed_git() {
        let place = LandPlace::new();
        place.trees.place.write("a", "new\n");
        place.trees.place.write("b", "new\n");
        assert_eq!(place.land(), Following::Done);
        assert_eq!(place.git(&["status", "--porcelain"]), "");
        place.git(&["reset", "-q", "--hard", &place.old]);
        // All files were written, but the branch was not moved.
        place.git(&["read-tree", "-u", "-m", &place.new]);
        assert_eq!(place.land(), Following::Done);
        assert_eq!(place.git(&["status", "--porcelain"]), "");
        // In the middle of a file.
        place.git(&["reset", "-q", "--hard", &place.old]);
        place.trees.place.write("a", "new\n");
        place.trees.place.write("b", "ne");
        assert_eq!(place.in_the_way().0, ["a", "b"], "it may be a person's");
        fs::write(place.main.root().join(".git").join(BEGUN), &*place.new).unwrap();
        assert_eq!(place.land(), Following::Done);
        assert_eq!(
            (place.read("b"), place.git(&["status", "--porcelain"])),
            ("new\n".to_owned(), String::new())
        );
        place.git(&["reset", "-q", "--hard", &place.old]);
        place.trees.place.write("b", "ne");
        assert_eq!(place.in_the_way().0, ["b"], "it may be a person's");
        place.trees.place.write("a", "new\n");
        place.trees.place.write("b", "a person's\n");
        assert_eq!(place.in_the_way().0, ["a", "b"]);
    }

    #[test]
    fn a_missing_checkout_blocks_only_while_locked() {
        let place = LandPlace::new();
        place.git(&["checkout", "-q", "-b", "person"]);
        let second = place.trees.worktree("2");
        place.trees.git(&second, &["checkout", "-q", "main"]);
        let path = second.root().to_str().unwrap();
        place.git(&["worktree", "lock", "--reason", "on a stick", path]);
        fs::remove_dir_all(second.root()).unwrap();
        let landing = place.land();
        assert!(matches!(&landing, Following::InTheWay { why, .. } if why.contains("locked")));
        place.git(&["worktree", "unlock", path]);
        assert_eq!(place.land(), Following::Done);
    }
}
