//! The first line of packed work: what the pack contains, as JSON.

use std::{
    fmt,
    io::{BufRead, BufReader, Read, Write},
};

use anyhow::{Context, Result, bail, ensure};
use git2::Reference;
use serde::{Deserialize, Serialize};

use super::state::WorkState;
use crate::{adapters::git::is_commit, core::commit_id::CommitId};

/// The version of the format.
const FORMAT: u32 = 1;

/// The length of the longest line, in bytes.
const LONGEST: u64 = 256 << 10;

/// The largest number of names of each kind.
const MOST: usize = 200;

/// The length of the longest text about a path that is left out, in characters.
const LONGEST_PATH: usize = 400;

/// The length of the longest list of ignored files, in bytes.
const LONGEST_IGNORE: usize = 64 << 10;

/// The identity of the person for whom commits are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkAuthor {
    pub(super) name: String,
    pub(super) email: String,
}

/// What packed work contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackHeader {
    /// The version of the format.
    ralph_pack: u32,
    /// What the attempt is recognized by.
    pub(super) token: String,
    pub(super) head: CommitId,
    /// The branch without `refs/heads/`; none when HEAD is detached.
    pub(super) branch: Option<String>,
    /// A commit on top of HEAD with the uncommitted changes; none without changes.
    pub(super) changes: Option<CommitId>,
    /// Commits that HEAD does not reach, such as stashes and other branches.
    #[serde(default)]
    pub(super) strays: Vec<CommitId>,
    /// The commits that the pack builds on and does not contain.
    pub(super) base: Vec<CommitId>,
    /// Where the history of a shallow clone ends.
    #[serde(default)]
    pub(super) shallow: Vec<CommitId>,
    /// What is not in the pack, and why.
    #[serde(default)]
    pub(super) left_out: Vec<String>,
    /// The files that git ignores although no `.gitignore` names them, as in that file.
    #[serde(default)]
    pub(super) ignore: String,
    #[serde(default)]
    pub(super) author: Option<WorkAuthor>,
}

/// The commits on which packed work builds and which this repository does not have: the other side
/// must pack all of its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LackingCommits(pub Vec<CommitId>);

impl fmt::Display for LackingCommits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: Vec<&str> = self.0.iter().take(3).map(CommitId::short).collect();
        write!(
            f,
            "the packed work builds on commits that this repository does not have ({}); pack it \
             without them",
            short.join(", ")
        )
    }
}

impl std::error::Error for LackingCommits {}

impl PackHeader {
    /// The header of this work, without settings of the sender.
    pub(super) fn new(token: &str, work: &WorkState) -> PackHeader {
        let mut left_out = work.left_out.clone();
        if left_out.len() > MOST {
            let more = left_out.len() - MOST + 1;
            left_out.truncate(MOST - 1);
            left_out.push(format!("{more} more"));
        }
        for text in &mut left_out {
            *text = text.chars().take(LONGEST_PATH).collect();
        }
        PackHeader {
            ralph_pack: FORMAT,
            token: token.to_owned(),
            head: work.head.clone(),
            branch: work.branch.clone(),
            changes: work.changes.clone(),
            strays: work.strays.clone(),
            base: Vec::new(),
            shallow: Vec::new(),
            left_out,
            ignore: String::new(),
            author: None,
        }
    }

    /// The work that it announces.
    pub(super) fn work(&self) -> WorkState {
        WorkState {
            head: self.head.clone(),
            branch: self.branch.clone(),
            changes: self.changes.clone(),
            is_clean: self.changes.is_none(),
            strays: self.strays.clone(),
            left_out: self.left_out.clone(),
        }
    }

    /// Writes the line.
    ///
    /// # Errors
    /// A line that is too long to be read; I/O errors.
    pub(super) fn write(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.ignore.len() > LONGEST_IGNORE {
            self.ignore.clear();
        }
        ensure!(
            self.shallow.len() <= MOST,
            "the history of this shallow clone ends at {} commits, over {MOST}; run `git fetch \
             --unshallow`",
            self.shallow.len()
        );
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        ensure!(line.len() as u64 <= LONGEST, "the header of the pack has {} bytes", line.len());
        out.write_all(&line).context("write the header of the pack")
    }

    /// Reads and checks the line. Returns it with the pack that follows.
    ///
    /// # Errors
    /// A line that is too long or not valid; I/O errors.
    pub(super) fn read<R: Read>(pack: R) -> Result<(PackHeader, BufReader<R>)> {
        let mut pack = BufReader::with_capacity(64 << 10, pack);
        let mut line = Vec::new();
        Read::by_ref(&mut pack)
            .take(LONGEST)
            .read_until(b'\n', &mut line)
            .context("read the header of the pack")?;
        ensure!(!line.is_empty(), "there is no pack: the other side sent nothing");
        ensure!(line.ends_with(b"\n"), "the header of the pack is cut off or too long");
        let mut header: PackHeader =
            serde_json::from_slice(&line).context("the header of the pack is not valid")?;
        header.check().context("the header of the pack is not valid")?;
        for text in &mut header.left_out {
            // It is shown to people.
            let clean = text.chars().take(LONGEST_PATH);
            *text = clean.map(|c| if c.is_control() { '?' } else { c }).collect();
        }
        Ok((header, pack))
    }

    fn check(&self) -> Result<()> {
        ensure!(
            self.ralph_pack == FORMAT,
            "its format is {}, and this ralph reads {FORMAT}; install the same version on both sides",
            self.ralph_pack
        );
        check_name("token", &self.token)?;
        let lists = [&self.base, &self.shallow, &self.strays];
        let ids = [Some(&self.head), self.changes.as_ref()].into_iter().flatten();
        for id in ids.chain(lists.into_iter().flatten()) {
            ensure!(
                is_commit(id) && id.len() == self.head.len(),
                "`{}` is not a commit id of the repository",
                id.escape_debug()
            );
        }
        ensure!(lists.iter().all(|list| list.len() <= MOST), "it names too many commits");
        ensure!(self.left_out.len() <= MOST, "it names too many paths");
        if let Some(branch) = &self.branch {
            let is_valid = !branch.starts_with('-')
                && !branch.contains('\0')
                && branch.len() <= LONGEST_PATH
                && Reference::is_valid_name(&format!("refs/heads/{branch}"));
            ensure!(is_valid, "`{}` is not the name of a branch", branch.escape_debug());
        }
        Ok(())
    }
}

/// Checks a name that becomes part of a path and of a ref.
///
/// # Errors
/// The name is not valid.
pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-+=".contains(c);
    let is_valid = name.len() <= 150
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_part)
        && !name.contains("..")
        && ![".", ".lock", ".making"].iter().any(|end| name.ends_with(end));
    if !is_valid {
        bail!("`{}` is not a valid {what}", name.escape_debug());
    }
    Ok(())
}
