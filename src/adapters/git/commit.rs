//! A commit of given paths and nothing else, as a person would make it: hooks and signing run.
//!
//! Only prepared here: hooks are programs that may hang, and who runs programs with a limit is
//! another module.

use anyhow::{Context, Result, anyhow};

use super::{Repo, lossy, program};

/// A commit that has only to be run.
#[derive(Clone, Debug)]
pub struct CommitDraft {
    /// The command line.
    pub argv: Vec<String>,
    /// What its standard input has to be: the paths.
    pub input: Vec<u8>,
    /// Set in its environment: nobody is there to be asked.
    pub env: Vec<(String, String)>,
    /// Taken out of its environment.
    pub env_remove: Vec<String>,
    /// The paths that git did not know before.
    new: Vec<Vec<u8>>,
}

impl Repo {
    /// Prepares a commit of the changed paths of these names, as [`Repo::dirty`] has them. What is
    /// staged of other paths stays so and is not part of it. None if there is nothing that can be
    /// committed: a repository within this one cannot, and what was taken out of the index while
    /// the file stays is left as it is.
    ///
    /// # Errors
    /// When git has no name and address for the commit; in git's own words.
    pub fn draft(&self, names: &[String], message: &str) -> Result<Option<CommitDraft>> {
        let mut changed = self.changed(names)?;
        changed.retain(|path, code| {
            let taken_out = code.starts_with('D') && self.file(path).exists();
            !path.ends_with(b"/") && !taken_out
        });
        if changed.is_empty() {
            return Ok(None);
        }
        self.committer()?;
        let new = changed.iter().filter(|(_, code)| *code == "??");
        let new: Vec<Vec<u8>> = new.map(|(path, _)| path.clone()).collect();
        if !new.is_empty() {
            // A commit of given paths is one of paths that the index knows.
            let add = ["add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"];
            program::feed(&self.root, &add, &[], &literal(new.iter()))
                .context("make the new files known to git")?;
        }
        let mut argv = git(&[]);
        argv.extend(["commit", "--quiet", "--only", "--cleanup=whitespace"].map(str::to_owned));
        argv.extend(["--pathspec-from-file=-", "--pathspec-file-nul"].map(str::to_owned));
        argv.push(format!("--message={message}"));
        let (env, env_remove) = environment();
        Ok(Some(CommitDraft { argv, input: literal(changed.keys()), env, env_remove, new }))
    }

    /// Who commits here, as `name <address>`.
    ///
    /// # Errors
    /// When git has no name and address and would make them up.
    pub fn committer(&self) -> Result<String> {
        let mut ident = Vec::new();
        for who in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            // Else git makes an address up from the name of the machine.
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

    /// Takes back what preparing a commit did that was not made.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn drop_draft(&self, draft: &CommitDraft) -> Result<()> {
        let forget = ["update-index", "--force-remove", "-z", "--stdin"];
        program::feed(&self.root, &forget, &[], &draft.new.join(&0)).map(drop)
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

/// What is set and what is taken out of the environment of a commit: nobody is there to be asked.
pub(super) fn environment() -> (Vec<(String, String)>, Vec<String>) {
    let quiet = [("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true"), ("LC_ALL", "C.UTF-8")];
    (
        quiet.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        program::FOREIGN.iter().map(|name| (*name).to_owned()).collect(),
    )
}

/// Paths as a list of pathspecs that mean these very paths from the top on.
fn literal<'a>(paths: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut list = Vec::new();
    for path in paths {
        list.extend_from_slice(b":(top,literal)");
        list.extend_from_slice(path);
        list.push(0);
    }
    list
}
