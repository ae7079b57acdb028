//! A commit of given paths and nothing else, as a person would make it: with hooks and signing.
//!
//! The commit is only prepared here: hooks are programs that may hang, and another module runs
//! programs with a time limit.

use std::{collections::BTreeMap, env, ffi::OsStr};

use anyhow::{Context, Result, anyhow};

use super::{
    CommitMaker, bounded, lossy,
    pin::IDENTITY,
    program::{self, NewCommit},
    reader::Entries,
    slot_settings::split_at,
};
use crate::{core::commit_id::CommitId, crash};

/// A prepared commit.
#[derive(Clone, Debug)]
pub struct CommitDraft {
    /// The command line.
    pub argv: Vec<String>,
    /// The standard input: the paths.
    pub input: Vec<u8>,
    /// The variables to set; they turn prompts off.
    pub env: Vec<(String, String)>,
    /// The variables to remove.
    pub env_remove: Vec<String>,
    /// The paths that were untracked.
    new: Vec<Vec<u8>>,
}

impl CommitDraft {
    fn with(mut self, settings: &[&str]) -> CommitDraft {
        let words = settings.iter().flat_map(|setting| ["-c", setting]).map(str::to_owned);
        self.argv.splice(1..1, words);
        self
    }

    /// The same commit without a signature, for a place without keys.
    #[must_use]
    pub fn unsigned(self) -> CommitDraft {
        self.with(&["commit.gpgSign=false"])
    }

    /// The commit that adds the signature to HEAD. It runs no hook.
    #[must_use]
    pub fn signing(self) -> CommitDraft {
        let mut argv = git(&[]);
        let amend = ["commit", "--quiet", "--amend", "--no-edit", "--only", "--allow-empty"];
        argv.extend(amend.map(str::to_owned));
        CommitDraft { argv, input: Vec::new(), ..self }.with(&["core.hooksPath=/dev/null"])
    }
}

/// A path, and the mode and id that a tree is to have there.
type TreeEdit<'a> = (&'a str, Option<&'a str>);

impl CommitMaker<'_> {
    /// Prepares a commit of the changed paths of these names, as returned by `RepoReader::dirty`. Other
    /// staged paths stay staged and are not part of it. None if nothing can be committed: a nested
    /// repository cannot, and a file that was removed from the index and still exists is left
    /// alone.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn draft(&self, names: &[String], message: &str) -> Result<Option<CommitDraft>> {
        let mut changed = self.changed(names)?;
        changed.retain(|path, code| {
            // A new file below or instead of it replaces it.
            let is_removed = code.starts_with('D') || code == ".D";
            let taken_out = is_removed && self.file(path).exists();
            !path.ends_with(b"/") && !taken_out
        });
        if changed.is_empty() {
            return Ok(None);
        }
        let new = changed.iter().filter(|(_, code)| *code == "??");
        let new: Vec<Vec<u8>> = new.map(|(path, _)| path.clone()).collect();
        if !new.is_empty() {
            // A commit of given paths needs paths that the index knows.
            let add = ["add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"];
            program::run_with_input(&self.root, &add, &[], &literal_pathspecs(new.iter()))
                .context("cannot add the new files to the index")?;
        }
        let mut argv = git(&[]);
        argv.extend(["commit", "--quiet", "--only", "--cleanup=whitespace"].map(str::to_owned));
        argv.extend(["--pathspec-from-file=-", "--pathspec-file-nul"].map(str::to_owned));
        argv.push(format!("--message={message}"));
        let (mut env, env_remove) = environment();
        let text = |value: &OsStr| value.to_string_lossy().into_owned();
        env.extend(self.identity().into_iter().map(|(name, value)| (name.to_owned(), text(value))));
        Ok(Some(CommitDraft {
            argv,
            input: literal_pathspecs(changed.keys()),
            env,
            env_remove,
            new,
        }))
    }

    /// Checks that git knows who commits.
    ///
    /// # Errors
    /// Those of [`CommitMaker::committer`].
    pub fn check_committer(&self) -> Result<()> {
        let is_name = |value: Vec<u8>| value.iter().any(u8::is_ascii_alphanumeric);
        let has = |name: &str| self.slots().setting(name).ok().flatten().is_some_and(is_name);
        let of_variables = IDENTITY.iter().any(|(name, _)| env::var_os(name).is_some());
        if !of_variables && has("user.name") && has("user.email") {
            return Ok(());
        }
        self.committer().map(drop)
    }

    /// The identity of the committer, as `name <address>`.
    ///
    /// # Errors
    /// When git has no name and address and would guess them.
    pub fn committer(&self) -> Result<String> {
        let mut ident = Vec::new();
        for who in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            // Without this setting git guesses an address from the name of the machine.
            ident = program::run(&self.root, &["-c", "user.useConfigOnly=true", "var", who])
                .map_err(|_| {
                    anyhow!(
                        "git does not know who commits; run `git config --global user.name NAME` and \
                         `git config --global user.email ADDRESS`"
                    )
                })?;
        }
        // Time and zone follow.
        let ident = lossy(&ident);
        Ok(ident.split_inclusive('>').next().unwrap_or_default().to_owned())
    }

    /// Prepares an empty commit, for a trial of hooks and signing.
    pub fn trial_commit(&self) -> CommitDraft {
        let mut argv = git(&[]);
        argv.extend(["commit", "--quiet", "--allow-empty", "--message=Trial"].map(str::to_owned));
        let (env, env_remove) = environment();
        CommitDraft { argv, input: Vec::new(), env, env_remove, new: Vec::new() }
    }

    /// Undoes the preparation of a commit that was not made.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn drop_draft(&self, draft: &CommitDraft) -> Result<()> {
        let forget = ["update-index", "--force-remove", "-z", "--stdin"];
        program::run_with_input(&self.root, &forget, &[], &draft.new.join(&0)).map(drop)
    }

    /// Commits this content of the file `path` on top of `parent`, where the file exists. No hook
    /// is run.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn commit_file(
        &self,
        parent: &str,
        path: &str,
        content: &str,
        message: &str,
    ) -> Result<CommitId> {
        let commit = || -> Result<CommitId> {
            let blob = self.write_blob(content)?;
            let entry = self.entry(parent, path)?.context("the file is not there")?;
            let mode = entry.split(' ').next().unwrap_or_default();
            let tree = self.with_entries(parent, &[path], &vec![Some(format!("{mode} {blob}"))])?;
            self.commit_tree(&[parent], &tree, message)
        };
        commit().with_context(|| format!("cannot commit `{path}`"))
    }

    /// Commits this content of the file `path` on top of HEAD, and moves HEAD's branch. The file in
    /// the worktree is unchanged. Returns none, and does nothing, if the index has another version
    /// of the file than HEAD: a person has staged it.
    ///
    /// # Errors
    /// The error of `git`, for example when HEAD moves at that moment.
    pub fn commit_file_on_head(
        &self,
        path: &str,
        content: &str,
        message: &str,
    ) -> Result<Option<CommitId>> {
        let _alone = self.landings().alone();
        let head = self.head()?.commit.context("HEAD is at no commit")?;
        if !self.finish_file_commit(path)? {
            return Ok(None);
        }
        let commit = self.commit_file(&head, path, content, message)?;
        self.move_head(&head, &commit, "ralph: complete")?;
        crash::point("file.committed");
        let entry = self.entry(&commit, path)?.unwrap_or_default();
        self.stage(&entry, path)?;
        Ok(Some(commit))
    }

    /// Makes a commit of a tree on top of these parents, signed if the repository signs commits.
    pub(super) fn commit_tree(
        &self,
        parents: &[&str],
        tree: &str,
        message: &str,
    ) -> Result<CommitId> {
        let (env, is_signed) = (&self.identity()[..], self.signs_commits()?);
        let new = NewCommit { tree, parents, message, env, is_signed };
        program::commit_tree(&self.root, &new)
    }

    /// Commits these files on top of HEAD as they are in the commit `from`, which may not have some
    /// of them, and moves HEAD's branch. The index follows; the files in the worktree stay as they
    /// are.
    ///
    /// # Errors
    /// The error of `git`, for example when HEAD moves at that moment.
    pub fn restore_on_head(&self, from: &str, paths: &[&str], message: &str) -> Result<CommitId> {
        let _alone = self.landings().alone();
        let head = self.head()?.commit.context("HEAD is at no commit")?;
        let entries = self.entries(from, paths)?;
        let tree = self.with_entries(&head, paths, &entries)?;
        let commit = self.commit_tree(&[&head], &tree, message)?;
        self.move_head(&head, &commit, "ralph: restore")?;
        for (path, entry) in paths.iter().zip(&entries) {
            match entry {
                Some(entry) => self.stage(entry, path)?,
                None => {
                    program::run(&self.root, &["update-index", "--force-remove", "--", path])?;
                }
            }
        }
        Ok(commit)
    }

    /// Moves HEAD's branch, or HEAD itself if it is on none, from the commit `old` to another.
    fn move_head(&self, old: &str, new: &str, why: &str) -> Result<()> {
        program::run(&self.root, &["update-ref", "-m", why, "HEAD", new, old]).map(drop)
    }

    /// Updates the index if a process was killed between the two last steps of
    /// [`CommitMaker::commit_file_on_head`]: the next commit would undo the last one. Returns whether the
    /// index has the version of HEAD.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn finish_file_commit(&self, path: &str) -> Result<bool> {
        let commit = |name| self.commit_of(name)?.context("no such commit");
        let now = self.entry(&commit("HEAD")?, path)?;
        if self.index_entry(path)? == now {
            return Ok(true);
        }
        let changed = ["diff-tree", "--name-only", "--no-commit-id", "-r", "-z", "HEAD"];
        if lossy(&program::run(&self.root, &changed)?) != format!("{path}\0") {
            return Ok(false);
        }
        let staged = lossy(&program::run(&self.root, &["ls-files", "--stage", "--", path])?);
        let was = self.entry(&commit("HEAD^")?, path)?;
        match (was, now) {
            (Some(was), Some(now)) if staged.starts_with(&format!("{was} 0\t")) => {
                self.stage(&now, path)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The variables for the identity of the committer: none if git knows one, else `ralph`.
    pub(super) fn identity(&self) -> Vec<(&'static str, &'static OsStr)> {
        if self.check_committer().is_ok() {
            return Vec::new();
        }
        IDENTITY.map(|(name, value)| (name, OsStr::new(value))).to_vec()
    }

    /// Returns the text of a file in the index; none if it is the version of the commit, or not in
    /// the index at all.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn staged_text(&self, commit: &str, path: &str) -> Result<Option<String>> {
        let staged = self.index_entry(path).context("cannot read the index")?;
        let Some(staged) = staged else { return Ok(None) };
        if self.entry(commit, path)?.as_ref() == Some(&staged) {
            return Ok(None);
        }
        let id = staged.rsplit(' ').next().unwrap_or_default();
        let text = program::run(&self.root, &["cat-file", "blob", id])?;
        Ok(Some(lossy(&text)))
    }

    /// Stages a text as the version of a file; the file itself is unchanged.
    ///
    /// # Errors
    /// The error of `git`, for example when another process holds the index.
    pub fn stage_text(&self, path: &str, text: &str) -> Result<()> {
        let blob = self.write_blob(text)?;
        let entry =
            self.index_entry(path)?.with_context(|| format!("`{path}` is not in the index"))?;
        let mode = entry.split(' ').next().unwrap_or_default();
        self.stage(&format!("{mode} {blob}"), path)
    }

    /// Gives a file the version of a commit, in the index and in the worktree, with the line ends
    /// and filters that the repository has for it.
    ///
    /// # Errors
    /// The error of `git`, for example when another process holds the index.
    pub fn reset_file(&self, commit: &str, path: &str) -> Result<()> {
        let entry = self.entry(commit, path)?.context("the file is not in the commit")?;
        self.stage(&entry, path)?;
        let check_out = ["checkout-index", "--force", "--index", "--", path];
        program::run(&self.root, &check_out).map(drop)
    }

    /// Gives files their version of a commit in the index only. A hook that formats and adds files
    /// while they are committed alone changes another index.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn restage(&self, commit: &str, paths: &[String]) -> Result<()> {
        for path in paths {
            if let Some(entry) = self.entry(commit, path)?
                && self.index_entry(path)?.is_some_and(|staged| staged != entry)
            {
                self.stage(&entry, path)?;
            }
        }
        Ok(())
    }

    /// Whether git sees no difference between a file and its version in the index.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_as_staged(&self, path: &str) -> Result<bool> {
        // `diff-files` would find a difference in a file that has only been written again.
        let refreshing = ["-c", "diff.autoRefreshIndex=true", "diff", "--quiet", "--no-ext-diff"];
        program::test(&self.root, &[&refreshing[..], &["--", path]].concat())
    }

    /// Writes a text as an object, and returns its id. Git waits until its objects are on the disk, which
    /// libgit2 does not.
    pub(super) fn write_blob(&self, text: &str) -> Result<String> {
        program::made(&self.root, &["hash-object", "-w", "--stdin"], text.as_bytes())
    }

    /// Stages an entry, its mode and id, as the version of a file.
    pub(super) fn stage(&self, entry: &str, path: &str) -> Result<()> {
        let info = format!("{},{path}", entry.replace(' ', ","));
        program::run(&self.root, &["update-index", "--add", "--cacheinfo", &info]).map(drop)
    }

    /// Whether commits are signed here.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn signs_commits(&self) -> Result<bool> {
        const NAME: &str = "commit.gpgsign";
        let list = self.slots().config_list()?;
        let mut names =
            list.split(|byte| *byte == 0).filter_map(|it| it.split(|byte| *byte == b'\n').next());
        if !names.any(|name| name == NAME.as_bytes()) {
            return Ok(false);
        }
        let answer = program::answer(&self.root, &["config", "--type=bool", NAME])?;
        Ok(answer.as_deref() == Some("true"))
    }

    /// Does work that makes commits; again, without signatures, if signing fails: work does not
    /// wait for a key, whose passphrase may have been forgotten in the middle of the night.
    pub(super) fn signed_if_possible<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        if program::unsigned().is_some() || !self.signs_commits()? {
            return work();
        }
        let done = bounded::signing(&mut work);
        if done.is_ok() {
            return done;
        }
        // Or something else than a signature takes longer than that may.
        self.cannot_sign();
        work()
    }

    /// Whether a commit has failed for want of a signature. No later commit of this process has one then.
    pub fn cannot_sign(&self) -> bool {
        let fault = if program::unsigned().is_none() { self.signing_fault() } else { None };
        fault.map(program::leave_unsigned).is_some()
    }

    /// Why the commits of `ralph` cannot be signed, if they should be.
    pub fn signing_fault(&self) -> Option<String> {
        let fault = || -> Result<()> {
            if self.signs_commits()? {
                let (tree, env) = (&program::empty_tree(&self.root)?, &self.identity()[..]);
                let message = "A signature on trial\n";
                let new = NewCommit { tree, parents: &[], message, env, is_signed: true };
                program::try_commit_tree(&self.root, &new, true)?;
            }
            Ok(())
        };
        fault().err().map(|error| format!("{error:#}"))
    }

    /// The tree of a commit with other entries at the paths.
    pub(super) fn with_entries(
        &self,
        commit: &str,
        own: &[&str],
        entries: &Entries,
    ) -> Result<String> {
        let tree = self.tree_of(commit)?;
        if self.entries(commit, own)? == *entries {
            return Ok(tree);
        }
        let edits: Vec<TreeEdit<'_>> =
            own.iter().zip(entries).map(|(path, entry)| (*path, entry.as_deref())).collect();
        self.edited_tree(Some(&tree), &edits)?.map_or_else(|| program::empty_tree(&self.root), Ok)
    }

    /// A tree with other entries; none if it has none any more.
    fn edited_tree(&self, tree: Option<&str>, edits: &[TreeEdit<'_>]) -> Result<Option<String>> {
        let text = match tree {
            Some(tree) => program::run(&self.root, &["ls-tree", "-z", tree])?,
            None => Vec::new(),
        };
        let lines = text.split(|byte| *byte == 0).filter_map(|line| split_at(line, b'\t'));
        let mut list: BTreeMap<&[u8], String> =
            lines.map(|(entry, name)| (name, lossy(entry))).collect();
        let mut below: BTreeMap<&str, Vec<TreeEdit<'_>>> = BTreeMap::new();
        for (path, entry) in edits {
            match (path.split_once('/'), entry) {
                (Some((folder, rest)), _) => below.entry(folder).or_default().push((rest, *entry)),
                (None, Some(entry)) => {
                    let (mode, id) = entry.split_once(' ').unwrap_or_default();
                    let kind = if mode == "160000" { "commit" } else { "blob" };
                    list.insert(path.as_bytes(), format!("{mode} {kind} {id}"));
                }
                (None, None) => drop(list.remove(path.as_bytes())),
            }
        }
        for (folder, edits) in below {
            let old = list.get(folder.as_bytes());
            let old = old.and_then(|entry| entry.strip_prefix("040000 tree ")).map(str::to_owned);
            if old.is_none() && edits.iter().all(|(_, entry)| entry.is_none()) {
                continue;
            }
            match self.edited_tree(old.as_deref(), &edits)? {
                Some(id) => list.insert(folder.as_bytes(), format!("040000 tree {id}")),
                None => list.remove(folder.as_bytes()),
            };
        }
        if list.is_empty() {
            return Ok(None);
        }
        let line =
            |(name, entry): (&&[u8], &String)| [entry.as_bytes(), b"\t", name, b"\0"].concat();
        let input: Vec<u8> = list.iter().flat_map(line).collect();
        program::made(&self.root, &["mktree", "-z", "--missing"], &input).map(Some)
    }
}

/// The beginning of a command line that commits, with more settings.
pub(super) fn git(more: &[&str]) -> Vec<String> {
    let settings = [
        "user.useConfigOnly=true",
        "core.fsmonitor=false",
        "gc.auto=0",
        "maintenance.auto=false",
        "protocol.ext.allow=never",
    ];
    let settings = settings.iter().chain(more);
    let mut argv = vec!["git".to_owned(), "--no-pager".to_owned()];
    argv.extend(settings.flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
    argv
}

/// The variables to set and to remove for a commit; they turn prompts off.
pub(super) fn environment() -> (Vec<(String, String)>, Vec<String>) {
    let quiet = [("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true"), ("LC_ALL", "C.UTF-8")];
    let confined = program::confined_variables().into_iter();
    let confined = confined.map(|(name, value)| (name, value.to_string_lossy().into_owned()));
    let quiet = quiet.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (
        quiet.into_iter().chain(confined).collect(),
        program::FOREIGN.iter().map(|name| (*name).to_owned()).collect(),
    )
}

/// A list of pathspecs that match exactly these paths from the top.
fn literal_pathspecs<'a>(paths: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut list = Vec::new();
    for path in paths {
        list.extend_from_slice(b":(top,literal)");
        list.extend_from_slice(path);
        list.push(0);
    }
    list
}

#[cfg(test)]
mod file_commit_tests {
    use crate::adapters::git::tests::{TestSlots, without_library};

    #[test]
    fn one_file_is_committed_without_a_checkout() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let base = trees.place.commit("deep/graph", "1\n", "Graph");
            let main = trees.main();
            trees.place.write("a", "mine\n");
            let status = trees.place.git(&["status", "--porcelain"]);
            for repo in [&main, &without_library(&main)] {
                let commit = repo
                    .commits()
                    .commit_file(&base, "deep/graph", "2\n", "Done\n\nX: y\n")
                    .unwrap();
                let git = |arguments: &[&str]| trees.place.git(arguments);
                assert_eq!(git(&["show", &format!("{commit}:deep/graph")]), "2");
                assert_eq!(git(&["diff", "--name-only", &base, &commit]), "deep/graph");
                assert_eq!(git(&["log", "-1", "--format=%s %P", &commit]), format!("Done {base}"));
                assert_eq!(git(&["log", "-1", "--format=%(trailers)", &commit]), "X: y");
                assert_eq!(git(&["status", "--porcelain"]), status);
            }
            main.commits().commit_file_on_head("deep/graph", "2\n", "Done").unwrap().unwrap();
            assert!(main.commits().move_head(&base, &base, "moved").is_err(), "HEAD is not there");
            let log = ["reflog", "-2", "--format=%gs"];
            let (head, branch) =
                (trees.place.git(&log), trees.place.git(&[&log[..], &["main"]].concat()));
            assert!(head.starts_with("ralph: complete\n") && branch == head, "{head} {branch}");
            trees.place.write("deep/graph", "2\n");
            assert_eq!(trees.place.git(&["status", "--porcelain"]), status);
            // Killed before it updated the index.
            trees.place.git(&["reset", "-q", "HEAD^", "--", "deep/graph"]);
            assert!(main.commits().finish_file_commit("deep/graph").unwrap());
            assert_eq!(trees.place.git(&["status", "--porcelain"]), status);
            trees.place.write("deep/graph", "3\n");
            trees.place.git(&["add", "deep/graph"]);
            assert_eq!(
                main.commits().commit_file_on_head("deep/graph", "4\n", "Done").unwrap(),
                None
            );
            assert!(!main.commits().finish_file_commit("deep/graph").unwrap());
        }
    }
}

#[cfg(test)]
mod index_file_tests {
    use std::fs;

    use crate::adapters::git::tests::{TestSlots, without_library};

    #[test]
    fn a_staged_version_is_read_and_replaced() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let base = trees.place.commit("deep/graph", "1\n", "Graph");
            let main = trees.main();
            for repo in [&main, &without_library(&main)] {
                let staged = || repo.commits().staged_text(&base, "deep/graph").unwrap();
                assert_eq!(staged(), None);
                repo.commits().stage_text("deep/graph", "2\n").unwrap();
                assert_eq!(staged().as_deref(), Some("2\n"));
                assert!(!repo.commits().is_as_staged("deep/graph").unwrap());
                assert_eq!(trees.place.git(&["show", ":deep/graph"]), "2");
                repo.commits().reset_file(&base, "deep/graph").unwrap();
                assert_eq!(staged(), None);
                assert!(repo.commits().is_as_staged("deep/graph").unwrap());
                trees.place.write("deep/graph", "other\n");
                assert!(!repo.commits().is_as_staged("deep/graph").unwrap());
                trees.place.write("deep/graph", "1\n");
                assert!(repo.commits().is_as_staged("deep/graph").unwrap());
                assert_eq!(trees.place.git(&["status", "--porcelain"]), "");
                assert_eq!(repo.commits().staged_text(&base, "none").unwrap(), None);
            }
        }
    }

    #[test]
    fn a_file_is_written_as_git_writes_it() {
        let trees = TestSlots::new();
        trees.place.write(".gitattributes", "g text eol=crlf\n");
        trees.place.git(&["add", ".gitattributes"]);
        let base = trees.place.commit("g", "1\n2\n", "Graph");
        let main = trees.main();
        trees.place.write("g", "mine\n");
        main.commits().reset_file(&base, "g").unwrap();
        assert_eq!(fs::read_to_string(main.root().join("g")).unwrap(), "1\r\n2\r\n");
        assert_eq!(trees.place.git(&["status", "--porcelain"]), "");
    }
}
