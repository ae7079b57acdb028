//! A temporary repository in which a commit can be tried as it would be made here.
//!
//! It has the same settings, hooks, branch, commits and files, and its own place for everything
//! that is written: the repository itself is not changed. Commands are only prepared here.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Repo, commit, lossy, program};

/// The hooks that git runs for a commit (githooks(5)).
const HOOKS: &[&str] =
    &["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction"];

/// The temporary repository.
#[derive(Clone, Debug)]
pub struct TrialRepository {
    /// The top of its worktree.
    pub dir: PathBuf,
    /// The variables to set for its commands.
    pub env: Vec<(String, String)>,
    /// The variables to remove.
    pub env_remove: Vec<String>,
    hooks: PathBuf,
}

impl Repo {
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

    /// Creates a temporary repository in an empty folder. Its worktree is empty until
    /// [`checkout`](TrialRepository::checkout).
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn trial(&self, dir: &Path) -> Result<TrialRepository> {
        let format = program::run(&self.root, &["rev-parse", "--show-object-format"])?;
        let format = format!("--object-format={}", lossy(&format).trim());
        program::run(dir, &["init", "--quiet", "--template=", &format])?;
        let git_dir = dir.join(".git");
        let write = || {
            fs::create_dir_all(git_dir.join("objects/info"))?;
            let objects = self.common_dir.join("objects").display().to_string() + "\n";
            fs::write(git_dir.join("objects/info/alternates"), objects)?;
            let config = fs::read_to_string(git_dir.join("config"))?;
            fs::write(git_dir.join("config"), config + &self.includes()?)?;
            anyhow::Ok(())
        };
        write().context("cannot write the temporary repository")?;
        let head = self.head()?;
        if let Some(branch) = &head.branch {
            program::run(dir, &["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
        }
        if let Some(id) = &head.commit {
            let bare = ["update-ref", "--no-deref", "HEAD", id];
            let update: &[&str] =
                if head.branch.is_some() { &["update-ref", "HEAD", id] } else { &bare };
            program::run(dir, update)?;
        }
        let (mut env, env_remove) = commit::environment();
        // Files on a server are not downloaded.
        let local = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_LFS_SKIP_SMUDGE", "1")];
        env.extend(local.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(TrialRepository { dir: dir.to_owned(), env, env_remove, hooks: self.hooks_dir() })
    }

    /// The files of all settings that apply here, as settings that include them; this covers files
    /// that are included because of the location of the repository.
    fn includes(&self) -> Result<String> {
        let list = program::run(&self.root, &["config", "--list", "--show-origin", "-z"])?;
        let list = lossy(&list);
        let mut files: Vec<&str> =
            list.split('\0').step_by(2).filter_map(|origin| origin.strip_prefix("file:")).collect();
        files.dedup();
        let mut text = String::new();
        for file in files {
            let file = self.root.join(file).display().to_string();
            let quoted = file.replace('\\', r"\\").replace('"', "\\\"");
            let _ = writeln!(text, "[include]\n\tpath = \"{quoted}\"");
        }
        Ok(text)
    }
}

impl TrialRepository {
    /// The command that writes the files of HEAD to the worktree. Runs no hook.
    pub fn checkout(&self) -> Vec<String> {
        let quiet = ["core.hooksPath=/dev/null", "submodule.recurse=false"];
        let mut argv = commit::git(&quiet);
        argv.extend(["read-tree", "-u", "--reset", "HEAD"].map(str::to_owned));
        argv
    }

    /// The command that makes a signed commit. Runs no hook.
    pub fn signed_commit(&self) -> Vec<String> {
        commit(&["core.hooksPath=/dev/null", "commit.gpgSign=true"])
    }

    /// The command that makes a commit with the hooks of the repository. Signs nothing.
    pub fn hooked_commit(&self) -> Vec<String> {
        let hooks = format!("core.hooksPath={}", self.hooks.display());
        commit(&[&hooks, "commit.gpgSign=false"])
    }
}

fn commit(settings: &[&str]) -> Vec<String> {
    let mut argv = commit::git(settings);
    argv.extend(["commit", "--quiet", "--allow-empty", "--message=Trial"].map(str::to_owned));
    argv
}
