//! Updates the submodules of a slot to its commit.
//!
//! Each slot has its own clones. Submodules that the main checkout has cloned are cloned from
//! there, so that commits on the disk need no server.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

use anyhow::{Context, Result, ensure};

use super::{
    Repo, Slot, Slots, confined,
    head::QUIET,
    lossy, program,
    slot_settings::{
        quoted, refuses_pushes, remove_all, replace, setting_line, split_at, write_pre_push,
    },
};
use crate::regular_file;

/// Allows clones from the local disk, which are safe here; git refuses them for submodules by
/// default, because the path could come from a stranger.
const FROM_DISK: &[&str] = &["-c", "protocol.file.allow=always"];

const ORIGIN: &str = "remote.origin.url";

/// The refs of commits of submodules that no server has.
const KEPT: &str = "refs/ralph/";

impl Slot<'_> {
    /// Fetches and checks out the submodules, recursively. Does nothing without submodules. Call it
    /// after the slot moved to another commit. Those that `main` has cloned come from there.
    ///
    /// # Errors
    /// The error of `git`, for example when a server cannot be reached or when changed files in a
    /// submodule would be overwritten; outside of a slot.
    pub fn update_submodules(&self, main: &Repo) -> Result<()> {
        self.must_be_slot()?;
        self.confine_modules()?;
        let (clones, own) = (main.common_dir.join("modules"), self.git_dir.join("modules"));
        let mut open = vec![(self.root.clone(), clones, own)];
        // Level by level and not with `--recursive`: nested submodules are known only after the
        // checkout.
        while let Some((top, clones, own)) = open.pop() {
            let modules = modules_of(&top)?;
            for (name, path) in &modules {
                self.must_be_module(&top.join(path))?;
                clone_from_disk(&top, name, path, &clones.join(name))?;
                fetch_kept(&top.join(path), &clones.join(name))?;
            }
            if !modules.is_empty() {
                let update = ["submodule", "update", "--quiet", "--init"];
                program::run(&top, &[QUIET, &update].concat()).with_context(|| {
                    format!("cannot update the submodules of `{}`", top.display())
                })?;
            }
            for (name, path) in &modules {
                let own = own.join(name);
                if refuses_pushes(&self.git_dir) && own.join("HEAD").exists() {
                    write_pre_push(&own).context("refuse pushes in a submodule")?;
                }
                let below =
                    (top.join(path), clones.join(name).join("modules"), own.join("modules"));
                open.push(below);
            }
        }
        Ok(())
    }

    /// Where attempts work in a sandbox: leaves only the [settings](KEPT_SETTINGS) in the clones of
    /// submodules that name no program. Git works in them with these.
    fn confine_modules(&self) -> Result<()> {
        let mut open = vec![self.git_dir.join("modules")];
        while let Some(folder) = open.pop().filter(|_| confined::is_on()) {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let entry = entry?;
                let (path, kind, name) = (entry.path(), entry.file_type()?, entry.file_name());
                let name = name.to_string_lossy();
                match &*name {
                    "config" if kind.is_file() => self.confine_settings(&path)?,
                    "config" | "config.worktree" | "commondir" => remove_all(&path)?,
                    "objects" | "refs" | "logs" => {}
                    _ if kind.is_dir() => open.push(path),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn confine_settings(&self, file: &Path) -> Result<()> {
        let name = file.to_str().context("its path is not UTF-8")?;
        let list = program::run(&self.root, &["config", "--file", name, "--list", "-z"])?;
        let mut text = Vec::new();
        for entry in list.split(|byte| *byte == 0) {
            let Some((key, value)) = split_at(entry, b'\n') else { continue };
            let key = lossy(key);
            let parts = (key.split('.').next(), key.rsplit('.').next());
            let is_kept = KEPT_SETTINGS.iter().any(|it| (Some(it.0), Some(it.1)) == parts);
            let folder = file.with_file_name(OsStr::from_bytes(value));
            let is_ours = || folder.canonicalize().is_ok_and(|it| it.starts_with(&self.root));
            if is_kept && (parts.1 != Some("worktree") || is_ours()) {
                text.extend(setting_line(&key, Some(&quoted(value))));
            }
        }
        replace(file, &text).with_context(|| format!("write `{name}`"))
    }

    /// Refuses a folder in the place of a submodule whose repository is not a clone of the slot.
    fn must_be_module(&self, folder: &Path) -> Result<()> {
        let git = folder.join(".git");
        if !confined::is_on() || fs::symlink_metadata(&git).is_err() {
            return Ok(());
        }
        let text = regular_file::read(&git).unwrap_or_default();
        let target = text.strip_prefix(b"gitdir: ").map(|it| OsStr::from_bytes(it.trim_ascii()));
        let target = target.and_then(|target| folder.join(target).canonicalize().ok());
        let is_own = target.is_some_and(|it| it.starts_with(self.git_dir.join("modules")));
        ensure!(is_own, "`{}` is not the submodule that a commit names", folder.display());
        Ok(())
    }
}

/// The settings of a clone that stay where attempts work in a sandbox: the section, and the name.
const KEPT_SETTINGS: &[(&str, &str)] = &[
    ("branch", "merge"),
    ("branch", "remote"),
    ("core", "bare"),
    ("core", "filemode"),
    ("core", "ignorecase"),
    ("core", "logallrefupdates"),
    ("core", "precomposeunicode"),
    ("core", "repositoryformatversion"),
    ("core", "worktree"),
    ("extensions", "objectformat"),
    ("extensions", "refstorage"),
    ("remote", "fetch"),
    ("remote", "url"),
    ("submodule", "active"),
    ("submodule", "url"),
    ("user", "email"),
    ("user", "name"),
];

impl Slots<'_> {
    /// Keeps the current commits of the submodules of a slot in the clones of this repository, under
    /// `refs/ralph/`: no server has them yet, and a commit that lands may name them.
    ///
    /// # Errors
    /// The error of `git`.
    pub(super) fn bring_submodules_home(&self, slot: &Repo) -> Result<()> {
        slot.slot().confine_modules()?;
        let mut open = vec![(slot.root.clone(), self.common_dir.join("modules"))];
        while let Some((top, clones)) = open.pop() {
            for (name, path) in modules_of(&top)? {
                let (folder, clone) = (top.join(&path), clones.join(&name));
                if slot.slot().must_be_module(&folder).is_err() {
                    continue;
                }
                if !folder.join(".git").exists() || !clone.join("HEAD").exists() {
                    continue;
                }
                if let Some(head) = program::commit(&folder, "HEAD")?
                    && program::commit(&clone, &head)?.is_none()
                {
                    let from = folder.to_str().context("its path is not UTF-8")?;
                    let spec = format!("HEAD:{KEPT}{head}");
                    let fetch = ["-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags"];
                    let more = ["--no-write-fetch-head", "--no-recurse-submodules", "--"];
                    program::run(&clone, &[FROM_DISK, &fetch, &more, &[from, &spec]].concat())
                        .with_context(|| format!("cannot keep the commit of submodule `{path}`"))?;
                }
                open.push((folder, clone.join("modules")));
            }
        }
        Ok(())
    }
}

/// Checks out the submodules that a landing moved, in the checkout that followed it, as
/// `git submodule update` does: those that are at the commit before. Git moves none itself, and a
/// person's next `commit --all` would move them back. Those that need force or a server stay, as
/// `git status` says.
pub(super) fn follow_submodules(top: &Path, old: &str, new: &str) {
    for (_, path) in modules_of(top).unwrap_or_default() {
        let folder = top.join(&path);
        let link = |commit: &str| {
            let name = format!("{commit}:{path}");
            program::answer(top, &["rev-parse", "-q", "--verify", &name]).ok().flatten()
        };
        let (Some(before), Some(after)) = (link(old), link(new)) else { continue };
        let is_there = before != after && folder.join(".git").exists();
        let head = || program::commit(&folder, "HEAD").ok().flatten();
        if is_there && head().as_deref() == Some(before.as_str()) {
            let checkout = ["checkout", "--quiet", "--detach", &after];
            let _ = program::run(&folder, &[QUIET, &checkout].concat());
        }
    }
}

/// Fetches the commits of a submodule that only the clone of the main checkout keeps.
fn fetch_kept(folder: &Path, clone: &Path) -> Result<()> {
    let Some(disk) = clone.to_str().filter(|_| clone.join(KEPT).exists()) else {
        return Ok(());
    };
    if !folder.join(".git").exists() {
        return Ok(());
    }
    let spec = format!("{KEPT}*:{KEPT}*");
    let fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", disk, &spec];
    program::run(folder, &[FROM_DISK, &fetch].concat()).map(drop)
}

/// Clones one submodule from a clone on the disk, unless it exists, and sets the origin that it
/// would have otherwise.
fn clone_from_disk(top: &Path, name: &str, path: &str, clone: &Path) -> Result<()> {
    let Some(disk) = clone.to_str().filter(|_| clone.join("HEAD").exists()) else {
        return Ok(());
    };
    let folder = top.join(path);
    if !folder.join(".git").exists() {
        // A setting of this call alone; otherwise it would change for all worktrees.
        let from = format!("submodule.{name}.url={disk}");
        let update = ["-c", &from, "submodule", "update", "--quiet", "--init", "--", path];
        // Fails if the clone does not have the commit, which is fetched later, and if the commit
        // has no such submodule.
        if program::run(top, &[QUIET, FROM_DISK, &update].concat()).is_err()
            && !folder.join(".git").exists()
        {
            return Ok(());
        }
    }
    let get = ["config", "--get", ORIGIN];
    if program::answer(&folder, &get)?.as_deref() == Some(disk)
        && let Some(address) = program::answer(clone, &get)?
    {
        program::run(&folder, &["config", ORIGIN, &address])?;
    }
    Ok(())
}

/// The submodules of a worktree, by name and path.
fn modules_of(top: &Path) -> Result<Vec<(String, String)>> {
    if !top.join(".gitmodules").exists() {
        return Ok(Vec::new());
    }
    read_modules(top, ["--file", ".gitmodules"])
}

pub(super) fn read_modules(dir: &Path, source: [&str; 2]) -> Result<Vec<(String, String)>> {
    let get = ["-z", "--get-regexp", r"^submodule\..*\.path$"];
    let list = [&["config"], &source[..], &get].concat();
    let Some(text) = program::answer(dir, &list)? else { return Ok(Vec::new()) };
    let modules = text.split('\0').filter_map(|entry| {
        let (key, path) = entry.split_once('\n')?;
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
        // The same check as in git, which uses them as paths as well.
        let is_below = |path: &str| {
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        };
        (is_below(name) && is_below(path)).then(|| (name.to_owned(), path.to_owned()))
    });
    Ok(modules.collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::adapters::git::tests::{TestRepository, TestSlots, said};

    /// `top` has `lib`, which has `deep/inner`; the main checkout has them all. Returns the
    /// repositories that they come from.
    fn nested(trees: &TestSlots) -> [PathBuf; 2] {
        let [lib, inner] = ["from/lib", "from/inner"].map(|name| {
            let path = trees.path(name);
            fs::create_dir_all(&path).unwrap();
            trees.place.git_in(&path, &["init", "-q", "-b", "main"]);
            commit(&trees.place, &path, "1\n");
            path
        });
        for (top, from, name, path) in
            [(&lib, &inner, "inner", "deep/inner"), (&trees.place.top, &lib, "the lib", "lib")]
        {
            let from = from.to_str().unwrap();
            trees.place.git_in(top, &["submodule", "--quiet", "add", "--name", name, from, path]);
            trees.place.git_in(top, &["commit", "-q", "-m", "Submodule"]);
        }
        trees.place.git(&["submodule", "--quiet", "update", "--init", "--recursive"]);
        [lib, inner]
    }

    fn commit(place: &TestRepository, top: &Path, text: &str) {
        fs::write(top.join("file"), text).unwrap();
        place.git_in(top, &["add", "-A"]);
        place.git_in(top, &["commit", "-q", "-m", "File"]);
    }

    #[test]
    fn commits_in_submodules_of_a_slot_come_home() {
        let trees = TestSlots::new();
        nested(&trees);
        let main = trees.main();
        let slot = trees.add("1");
        let base = trees.place.git(&["rev-parse", "main"]);
        slot.slot().move_to(&base).unwrap();
        slot.slot().update_submodules(&main).unwrap();
        let inner = slot.root().join("lib/deep/inner");
        for top in [&inner, &slot.root().join("lib"), &slot.root().to_owned()] {
            commit(&trees.place, top, "2\n");
        }
        let head = slot.head().unwrap().commit.unwrap();
        main.slots().bring_home(&slot, &head, "refs/ralph/x/1").unwrap();
        // Another slot and the main checkout can move there, without the first slot.
        fs::remove_dir_all(slot.root()).unwrap();
        let second = trees.add("2");
        second.slot().move_to(&base).unwrap();
        second.slot().update_submodules(&main).unwrap();
        second.slot().move_to(&head).unwrap();
        second.slot().update_submodules(&main).unwrap();
        trees.place.git(&["merge", "-q", "--ff-only", "refs/ralph/x/1"]);
        trees.place.git(&["submodule", "--quiet", "update", "--recursive"]);
        for top in [second.root(), main.root()] {
            for path in ["lib/file", "lib/deep/inner/file"] {
                assert_eq!(fs::read_to_string(top.join(path)).unwrap(), "2\n", "{path}");
            }
        }
    }

    #[test]
    fn submodules_come_from_the_disk() {
        let trees = TestSlots::new();
        let from = nested(&trees);
        let main = trees.main();
        let base = trees.place.git(&["rev-parse", "HEAD"]);
        let config = fs::read_to_string(trees.place.top.join(".git/config")).unwrap();
        // The origins cannot be reached.
        let away = from.clone().map(|path| path.with_extension("away"));
        for (from, away) in from.iter().zip(&away) {
            fs::rename(from, away).unwrap();
        }
        let slot = trees.add("1");
        slot.slot().update_submodules(&main).unwrap();
        slot.slot().detach_at(&base).unwrap();
        slot.slot().update_submodules(&main).unwrap();
        assert_eq!(slot.dirty().unwrap().len(), 0);
        for (path, from) in [("lib", &from[0]), ("lib/deep/inner", &from[1])] {
            let top = slot.root().join(path);
            assert_eq!(fs::read_to_string(top.join("file")).unwrap(), "1\n");
            let origin = trees.place.git_in(&top, &["config", "remote.origin.url"]);
            assert_eq!(Path::new(&origin), from);
            let head = trees.place.git_in(&top, &["rev-parse", "HEAD"]);
            assert_eq!(
                head,
                trees.place.git_in(&trees.place.top.join(path), &["rev-parse", "HEAD"])
            );
        }
        assert_eq!(fs::read_to_string(trees.place.top.join(".git/config")).unwrap(), config);
        slot.slot().update_submodules(&main).unwrap();
        let refused = said(main.slot().update_submodules(&main));
        assert!(refused.contains("is not a slot"), "{refused}");

        // A commit that neither the main checkout nor the disk has comes from its origin.
        commit(&trees.place, &away[0], "2\n");
        let new = trees.place.git_in(&away[0], &["rev-parse", "HEAD"]);
        trees.place.git_in(slot.root(), &["update-index", "--cacheinfo", "160000", &new, "lib"]);
        trees.place.git_in(slot.root(), &["commit", "-q", "-m", "Newer"]);
        let refused = said(slot.slot().update_submodules(&main));
        assert!(refused.starts_with("cannot update the submodules of "), "{refused}");
        fs::rename(&away[0], &from[0]).unwrap();
        let lib = slot.root().join("lib");
        // In the test, this is a server.
        trees.place.git_in(&lib, &["config", "protocol.file.allow", "always"]);
        slot.slot().update_submodules(&main).unwrap();
        assert_eq!(fs::read_to_string(lib.join("file")).unwrap(), "2\n");
        // Back again, and to a commit without submodules.
        slot.slot().detach_at(&base).unwrap();
        slot.slot().update_submodules(&main).unwrap();
        assert_eq!(fs::read_to_string(lib.join("file")).unwrap(), "1\n");
        trees.add("3").slot().update_submodules(&main).unwrap();
    }
}
