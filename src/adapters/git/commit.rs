//! A commit of given paths and nothing else, as a person would make it: with hooks and signing.
//!
//! The commit is only prepared here: hooks are programs that may hang, and another module runs
//! programs with a time limit.

use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt};

use anyhow::{Context, Result, anyhow};

use super::{Repo, lossy, program};

/// The hooks that git runs for a commit (githooks(5)).
const HOOKS: &[&str] =
    &["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction"];

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

impl Repo {
    /// Prepares a commit of the changed paths of these names, as returned by [`Repo::dirty`]. Other
    /// staged paths stay staged and are not part of it. None if nothing can be committed: a nested
    /// repository cannot, and a file that was removed from the index and still exists is left
    /// alone.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn draft(&self, names: &[String], message: &str) -> Result<Option<CommitDraft>> {
        let mut changed = self.changed(names)?;
        changed.retain(|path, code| {
            let taken_out = code.starts_with('D') && self.file(path).exists();
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
    /// Those of [`Repo::committer`].
    pub fn check_committer(&self) -> Result<()> {
        if !self.knows_committer.get() {
            self.committer()?;
            self.knows_committer.set(true);
        }
        Ok(())
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
                        "git does not know who commits; set `git config user.name` and `git \
                         config user.email`"
                    )
                })?;
        }
        // Time and zone follow.
        let ident = lossy(&ident);
        Ok(ident.split_inclusive('>').next().unwrap_or_default().to_owned())
    }

    /// The hooks that would run for a commit.
    pub fn commit_hooks(&self) -> Vec<&'static str> {
        let dir = self.hooks_dir();
        let runs = |name: &&&str| {
            let found = fs::metadata(dir.join(name));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        HOOKS.iter().filter(runs).copied().collect()
    }

    /// Whether commits are signed here.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn signs_commits(&self) -> Result<bool> {
        let answer = program::answer(&self.root, &["config", "--type=bool", "commit.gpgSign"])?;
        Ok(answer.as_deref() == Some("true"))
    }

    /// Prepares an empty commit with these settings, for a trial of hooks and signing.
    pub fn trial_commit(&self, settings: &[&str]) -> CommitDraft {
        let mut argv = git(settings);
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
    (
        quiet.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
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
