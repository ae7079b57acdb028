//! Git's controls apart from commits: hooks and configuration; and the contents of commits.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use git2::{MergeFileInput, MergeFileOptions, ObjectType, Oid, Repository};

use super::{
    LocalRules, Repo, lossy,
    program::{self, HOOKS},
    reader::{Walk, WalkedCommit},
};
use crate::{core::commit_id::CommitId, regular_file};

/// The hooks that git runs for a commit (githooks(5)).
const COMMIT_HOOKS: &[&str] =
    &["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction"];

/// A commit of some work and its changes.
#[derive(Debug)]
pub struct CommitStep {
    /// The commit.
    pub id: CommitId,
    /// Its parents.
    pub parents: Vec<CommitId>,
    /// Its message.
    pub message: String,
    /// The paths that it adds.
    pub added: BTreeSet<String>,
    /// The paths that it adds or changes.
    pub written: BTreeSet<String>,
}

impl Repo {
    /// The mode and id of a file in the index; none if the index does not have it, or has it in
    /// conflict.
    pub(super) fn index_entry(&self, path: &str) -> Result<Option<String>> {
        let library = |repo: &Repository| {
            if regular_file::is_special(&repo.path().join("index")) {
                return Err(git2::Error::from_str("it would be waited for without end"));
            }
            let mut index = repo.index()?;
            index.read(false)?;
            let entry = index.get_path(Path::new(path), 0);
            Ok(entry.map(|entry| format!("{:06o} {}", entry.mode, entry.id)))
        };
        let literal = format!(":(top,literal){path}");
        let program = |root: &Path| {
            let list = program::run(root, &["ls-files", "--stage", "-z", "--", &literal])?;
            let list = lossy(&list);
            let entry = list.split('\0').find_map(|line| line.split_once(" 0\t"));
            Ok(entry.map(|(entry, _)| entry.to_owned()))
        };
        self.ask(library, program)
    }
}

impl LocalRules<'_> {
    /// The hooks and settings of this repository, each with a fingerprint of its contents, by path
    /// (relative to the top if it lies below) or by the name of the setting. In a slot, the addresses
    /// of submodules do not count: git copies them there when it clones the submodules, and every
    /// new attempt starts without them.
    pub fn controls(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let hooks_path = self.hooks_path().ok().flatten();
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
        self.hooks_in(self.hooks_path().ok().flatten().as_deref())
    }

    /// Whether a hook may write messages of commits.
    pub fn writes_messages(&self) -> bool {
        let hooks = self.hooks_dir();
        ["prepare-commit-msg", "commit-msg"].iter().any(|name| hooks.join(name).is_file())
    }

    fn hooks_in(&self, configured: Option<&str>) -> PathBuf {
        // Hooks run at the top of the worktree.
        configured.map_or_else(|| self.common_dir.join("hooks"), |path| self.root.join(path))
    }

    /// Whether the ignore rules match `path`, relative to the root; a directory that does not exist
    /// yet ends in a slash. Tracked paths are not treated differently.
    pub fn is_ignored(&self, path: &str) -> Result<bool> {
        Ok(self.unignored(&[path])?.is_empty())
    }

    /// Returns those of the paths that no ignore rule matches, as [`LocalRules::is_ignored`] says.
    pub fn unignored<'p>(&self, paths: &[&'p str]) -> Result<Vec<&'p str>> {
        let check = ["check-ignore", "--no-index", "--verbose", "--non-matching", "-z", "--stdin"];
        let output = program::run_raw_with_input(&self.root, &check, paths.join("\0").as_bytes())?;
        // Exits with 1 where no path matches.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(program::failed(&check, &output)).with_context(|| {
                format!("cannot check whether `{}` is ignored", paths.join("`, `"))
            });
        }
        // Four fields for each path: the file with the rule, the line, the rule, the path.
        let text = lossy(&output.stdout);
        let fields: Vec<&str> = text.split('\0').collect();
        let rules = fields.chunks_exact(4).map(|found| found[2]);
        let is_free = |rule: &str| rule.is_empty() || rule.starts_with('!');
        let free = rules.zip(paths).filter(|(rule, _)| is_free(rule));
        Ok(free.map(|(_, path)| *path).collect())
    }

    /// The commits after `base`, each with its changes: a later one may revert some, and the
    /// history keeps it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn steps_after(&self, base: &str, head: &str) -> Result<Vec<CommitStep>> {
        let mut steps = Vec::new();
        for commit in self.walk(Walk { head, hidden: &[base], most: usize::MAX }, |_| true)? {
            let WalkedCommit { id, parents, message } = commit;
            let (added, written) = Default::default();
            let mut step = CommitStep { id, parents, message, added, written };
            let parents = step.parents.iter().map(|parent| Some(parent.as_str()));
            for parent in parents.chain(step.parents.is_empty().then_some(None)) {
                for (path, [was, now]) in self.changed_entries(parent, &step.id)? {
                    step.added.extend((was == 0).then(|| path.clone()));
                    step.written.extend((now != 0).then_some(path));
                }
            }
            steps.push(step);
        }
        Ok(steps)
    }

    /// The files of the index that the rules of git ignore.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn ignored_in_index(&self) -> Result<Vec<String>> {
        let list = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"];
        let list = lossy(&program::run(&self.root, &list)?);
        Ok(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    /// The untracked files that the rules of git ignore; wholly ignored folders end in a slash and
    /// stand for their contents.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn ignored_places(&self) -> Result<Vec<String>> {
        let others = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];
        let list = program::run(&self.root, &[&others[..], &["--directory"]].concat())?;
        let places = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(places.map(lossy).collect())
    }

    /// Adds this path, relative to the root, to the repository's exclude file.
    pub fn exclude_path(&self, path: &str) -> Result<()> {
        self.exclude(&[&pattern(path)])
    }

    /// Adds the missing `patterns` to the repository's exclude file, which is not committed and is
    /// shared by all its worktrees. Existing lines are kept as they are.
    pub fn exclude(&self, patterns: &[&str]) -> Result<()> {
        exclude(&self.common_dir, patterns)
    }

    /// Removes these lines from the repository's exclude file.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn include_again(&self, patterns: &[String]) -> Result<()> {
        let file = self.common_dir.join("info/exclude");
        let failed = || format!("cannot change `{}`", file.display());
        let text = match regular_file::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.with_context(failed)?,
        };
        let is_other = |line: &&str| !patterns.iter().any(|pattern| pattern == line.trim_end());
        let left: String = text.split_inclusive('\n').filter(is_other).collect();
        if left == text {
            return Ok(());
        }
        regular_file::write(&file, left.as_bytes()).with_context(failed)
    }

    /// The files that git ignores and that also match the patterns in the file `list`, relative to
    /// the root.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn ignored_by(&self, list: &Path) -> Result<Vec<PathBuf>> {
        let others = ["ls-files", "-z", "--others", "--ignored"];
        let named = program::run(
            &self.root,
            &[&others[..], &[&format!("--exclude-from={}", list.display())]].concat(),
        )?;
        let ignored = program::run(&self.root, &[&others[..], &["--exclude-standard"]].concat())?;
        let ignored: HashSet<&[u8]> = ignored.split(|byte| *byte == 0).collect();
        let both = named.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(both.filter(|path| ignored.contains(path)).map(|path| lossy(path).into()).collect())
    }

    /// The attributes file of the repository: not committed, shared by its worktrees.
    pub fn attributes(&self) -> PathBuf {
        self.common_dir.join("info/attributes")
    }

    /// Adds a merge driver to the configuration of this repository. Returns whether that changed
    /// anything.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn set_driver(&self, name: &str, about: &str, command: &str) -> Result<bool> {
        let mut is_news = false;
        for (key, value) in [("name", about), ("driver", command)] {
            let key = format!("merge.{name}.{key}");
            let old = program::answer(&self.root, &["config", "--local", "--get", &key])?;
            if old.as_deref() != Some(value) {
                program::run(&self.root, &["config", "--local", "--replace-all", &key, value])?;
                is_news = true;
            }
        }
        Ok(is_news)
    }

    /// Removes a merge driver from the configuration. Returns whether it was there.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn unset_driver(&self, name: &str) -> Result<bool> {
        let section = format!("merge.{name}");
        let keys = format!("^merge\\.{name}\\.");
        let known = ["config", "--local", "--name-only", "--get-regexp", &keys];
        if program::answer(&self.root, &known)?.is_none() {
            return Ok(false);
        }
        program::run(&self.root, &["config", "--local", "--remove-section", &section])?;
        Ok(true)
    }

    /// The merge driver of a path: `unspecified` if no attribute sets it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn merged_with(&self, path: &str) -> Result<String> {
        let answer = program::run(&self.root, &["check-attr", "-z", "merge", "--", path])?;
        Ok(lossy(answer.split(|byte| *byte == 0).nth(2).unwrap_or_default()))
    }

    /// The hooks that would run for a commit.
    pub fn commit_hooks(&self) -> Vec<&'static str> {
        let dir = self.hooks_dir();
        let runs = |name: &&&str| {
            let found = fs::metadata(dir.join(name));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        COMMIT_HOOKS.iter().filter(runs).copied().collect()
    }
}

/// The pattern of a path, relative to the root, in an exclude file.
pub fn pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for c in path.chars() {
        if "*?[\\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    // Git ignores blanks at the end.
    if pattern.ends_with(' ') {
        pattern.insert(pattern.len() - 1, '\\');
    }
    pattern
}

/// Adds the missing `patterns` to the exclude file of a git directory.
pub(super) fn exclude(git_dir: &Path, patterns: &[&str]) -> Result<()> {
    let file = git_dir.join("info/exclude");
    let failed = || format!("cannot add to `{}`", file.display());
    let text = match regular_file::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other.with_context(failed)?,
    };
    let mut has: Vec<&[u8]> = text
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    let mut added = String::new();
    for pattern in patterns {
        if !has.contains(&pattern.as_bytes()) {
            has.push(pattern.as_bytes());
            added.push_str(pattern);
            added.push('\n');
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    if text.last().is_some_and(|byte| *byte != b'\n') {
        added.insert(0, '\n');
    }
    fs::create_dir_all(git_dir.join("info")).with_context(failed)?;
    let mut open = OpenOptions::new();
    open.create(true).append(true);
    regular_file::open_with(&file, &mut open)
        .and_then(|mut opened| opened.write_all(added.as_bytes()))
        .with_context(failed)
}

/// Settings without the additions of `git submodule update --init`. Those in another form stay.
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

/// A text merged by lines.
#[derive(Clone, Debug)]
pub struct MergedLines {
    /// The text, with conflicts between markers.
    pub text: Vec<u8>,
    /// Whether there are no conflicts.
    pub is_clean: bool,
}

/// Merges three texts by lines, as git does without a driver.
///
/// # Errors
/// The error of libgit2.
pub fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<MergedLines> {
    // This initializes libgit2, which the merge call alone does not do.
    let _set_up = git2::Config::new();
    let input = |content| {
        let mut input = MergeFileInput::new();
        input.content(content);
        input
    };
    let mut options = MergeFileOptions::new();
    options.ancestor_label("base").our_label("ours").their_label("theirs");
    let (base, ours, theirs) = (input(base), input(ours), input(theirs));
    let merged = git2::merge_file(&base, &ours, &theirs, Some(&mut options))
        .context("cannot merge by lines")?;
    Ok(MergedLines { text: merged.content().to_vec(), is_clean: merged.is_automergeable() })
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
            let before = slot.local().controls();
            trees.place.git_in(slot.root(), &["config", key, "!true"]);
            before == slot.local().controls()
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
            let found = main.changed_entries(base, head).unwrap();
            assert_eq!(found, program.changed_entries(base, head).unwrap());
        }
        assert_eq!(main.differing(Some(&base), &head).unwrap(), ["gone", "kind", "new"]);
        assert!(main.differing(Some("nothing"), &head).is_err());
    }
}
