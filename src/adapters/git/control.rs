//! What controls git apart from commits: hooks and configuration; and the contents of commits.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use git2::{ObjectType, Oid};

use super::{
    Repo, lossy,
    program::{self, HOOKS},
};
use crate::regular_file;

impl Repo {
    /// The hooks and settings of this repository, each with a fingerprint of its contents, by path
    /// (relative to the top if it lies below) or by the name of the setting. In a slot, the addresses
    /// of submodules do not count: git copies them there when it clones the submodules, and every
    /// new attempt starts without them.
    pub fn controls(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let hooks_path = self.hooks_path();
        let hooks = self.hooks_in(hooks_path.as_deref());
        let is_slot = self.slot_of().is_some();
        found.extend(hooks_path.map(|path| (HOOKS.to_owned(), path)));
        let samples = |path: &Path| path.extension().is_some_and(|end| end == "sample");
        let entries = fs::read_dir(hooks).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| !samples(path));
        let settings = [
            self.common_dir.join("config"),
            self.git_dir.join("config.worktree"),
            self.common_dir.join("info/attributes"),
        ];
        for path in files.chain(settings) {
            let Ok(text) = regular_file::read(&path) else {
                continue;
            };
            let text = if is_slot { without_modules(&text) } else { text };
            let mode = fs::metadata(&path).map_or(0, |found| found.permissions().mode() & 0o111);
            let hash = Oid::hash_object(ObjectType::Blob, &text);
            let hash = hash.map_or_else(|_| text.len().to_string(), |hash| hash.to_string());
            let name = path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
            found.insert(name, format!("{hash} {mode:o}"));
        }
        found
    }

    /// The folder of the hooks.
    pub(super) fn hooks_dir(&self) -> PathBuf {
        self.hooks_in(self.hooks_path().as_deref())
    }

    fn hooks_in(&self, configured: Option<&str>) -> PathBuf {
        // Hooks run at the top of the worktree.
        configured.map_or_else(|| self.common_dir.join("hooks"), |path| self.root.join(path))
    }

    fn hooks_path(&self) -> Option<String> {
        self.library.hooks_path().ok().flatten()
    }

    /// The paths that differ between two commits, or that a first commit adds, in no particular
    /// order.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn differing(&self, base: Option<&str>, head: &str) -> Result<Vec<String>> {
        let entries = self
            .library
            .changed_entries(base, head)
            .with_context(|| format!("cannot list the changes of commit {head}"))?;
        Ok(entries.into_iter().map(|(path, _)| path).collect())
    }

    /// Returns a repository inside this one that the commits after `base` record as a link, and that
    /// is not a submodule: no one else has its commits.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn nested_repository(&self, base: &str, head: &str) -> Result<Option<String>> {
        /// The mode of a link to a commit (gitformat-index(5)).
        const LINK: u32 = 0o160_000;
        if base == head {
            return Ok(None);
        }
        let entries = self.library.changed_entries(Some(base), head)?;
        let mut links = entries.into_iter().filter(|(_, mode)| *mode == LINK).peekable();
        if links.peek().is_none() {
            return Ok(None);
        }
        // A file that git cannot read declares none.
        let modules = self.modules_at(head).unwrap_or_default();
        let is_submodule = |path: &str| modules.iter().any(|(_, known)| known == path);
        Ok(links.find(|(path, _)| !is_submodule(path)).map(|(path, _)| path))
    }

    /// Returns the files and folders that git ignores here; a folder stands for all it contains.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn ignored(&self) -> Result<Vec<String>> {
        let list = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
        let text = lossy(&program::run(&self.root, &list)?);
        Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    /// Whether a commit has text at `path`: none without such a path, false for a file of blanks
    /// only, true for any other file and for a folder.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_text_at(&self, commit: &str, path: &str) -> Result<Option<bool>> {
        let path = path.trim_end_matches('/');
        match program::kind(&self.root, commit, path)?.as_deref() {
            None => Ok(None),
            Some("blob") => {
                let text = self.file_at(commit, path)?;
                Ok(text.map(|text| !text.trim_ascii().is_empty()))
            }
            Some(_) => Ok(Some(true)),
        }
    }
}

/// Settings without what `git submodule update --init` adds to them. What is not written as git
/// writes it stays.
fn without_modules(settings: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(settings.len());
    // The header of a section about a submodule, until a line of the section is kept.
    let mut header: &[u8] = b"";
    let mut is_module = false;
    for line in settings.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        if text.starts_with(b"[") {
            is_module = text.starts_with(b"[submodule \"") && text.ends_with(b"\"]");
            header = if is_module { line } else { b"" };
        }
        let is_added = text.starts_with(b"active = ") || text.starts_with(b"url = ");
        let goes_on = text.ends_with(b"\\");
        if is_module && (text.starts_with(b"[") || (is_added && !goes_on)) {
            continue;
        }
        kept.extend_from_slice(std::mem::take(&mut header));
        kept.extend_from_slice(line);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::adapters::git::tests::{TestSlots, without_library};

    #[test]
    fn addresses_of_submodules_are_no_settings_of_a_slot() {
        let own = "[core]\n\tbare = false\n";
        let added = "[submodule \"a b\"]\n\tactive = true\n\turl = /x\n";
        let left = |text: &str| String::from_utf8(without_modules(text.as_bytes())).unwrap();
        assert_eq!(left(&format!("{own}{added}{own}{added}")), format!("{own}{own}"));
        for kept in [
            "[submodule \"a\"]\n\tupdate = !rm\n",
            "[submodule \"a\"] update = !rm\n",
            "[submodule \"a\"]\n\turl = x\\\n\tupdate = !rm\n",
            "[submodule]\n\turl = x\n",
            "[remote \"a\"]\n\turl = x\n",
        ] {
            assert_eq!(left(&format!("{own}{kept}")), format!("{own}{kept}"));
        }
        let update = "[submodule \"a\"]\n\tupdate = !rm\n";
        let mixed = update.replace("\tupdate", "\turl = /x\n\tupdate");
        assert_eq!(left(&format!("{mixed}{added}{own}")), format!("{update}{own}"));

        let trees = TestSlots::new();
        let slot = trees.add("1");
        let set = |key: &str| {
            let before = slot.controls();
            trees.place.git_in(slot.root(), &["config", key, "!true"]);
            before == slot.controls()
        };
        assert!(set("submodule.lib.url"));
        assert!(!set("submodule.lib.update"));
    }

    #[test]
    fn changes_are_listed_alike_by_library_and_program() {
        let trees = TestSlots::new();
        trees.place.write("gone", "1\n");
        let base = trees.place.commit("kind", "1\n", "Base");
        fs::remove_file(trees.place.top.join("gone")).unwrap();
        fs::remove_file(trees.place.top.join("kind")).unwrap();
        symlink("a", trees.place.top.join("kind")).unwrap();
        let head = trees.place.commit("new", "1\n", "Head");
        let tree = trees.place.git(&["rev-parse", "HEAD^{tree}"]);
        let main = trees.main();
        let program = without_library(&main);
        for (base, head) in [(Some(&*base), &*head), (Some(&*base), &*tree), (None, &*head)] {
            let found = main.library.changed_entries(base, head).unwrap();
            assert_eq!(found, program.library.changed_entries(base, head).unwrap());
        }
        assert_eq!(main.differing(Some(&base), &head).unwrap(), ["gone", "kind", "new"]);
        assert!(main.differing(Some("nothing"), &head).is_err());
    }
}
