//! The work in a slot on its way to another machine and back: HEAD, its branch, and the uncommitted
//! changes.
//!
//! It travels as one stream: a line of JSON ([`PackHeader`]), then a pack of git. Nothing else
//! arrives: settings, hooks, attributes and other refs stay where they are, as do ignored files.
//! The other side is not trusted: its objects are checked before the repository has them, work that
//! is not the expected work is kept and not taken on, and what a slot contains is kept before its
//! files change.

use std::{
    env,
    io::{Read, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Repo, bounded::CallStreams, is_commit, lossy, program};
use crate::{
    core::{commit_id::CommitId, loop_paths::STALE_WORK},
    crash, regular_file,
};

mod header;
mod incoming;
mod state;
mod tests;
mod worker;

pub use header::LackingCommits;
use header::{PackHeader, WorkAuthor, check_name};
use incoming::{IncomingPack, PackSource};
pub use worker::{BrokenSlot, SlotInUse, StaleWork, WorkerSlot, WorkerStore};

/// The file in the git directory of a slot that says what was sent from it.
const SENT: &str = "ralph-sent";

/// The folder of refs in a slot with commits of an agent that its HEAD does not reach.
const STRAYS: &str = "refs/strays";

/// The largest number of commits of the other side that a pack builds on.
const MOST_BASES: usize = 100;

/// What unpacked work did to the slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// The commit of HEAD in the pack.
    pub head: CommitId,
    /// Whether the slot took on the work.
    #[serde(flatten)]
    pub arrival: Arrival,
    /// The ref in the main repository with what the slot contained before, if that was not sent.
    pub replaced: Option<String>,
    /// What the other side did not send, with the reasons.
    pub left_out: Vec<String>,
}

/// Whether a slot took on the work of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "arrival", rename_all = "snake_case")]
pub enum Arrival {
    /// The slot has the work.
    Moved,
    /// The slot had the work already.
    Unchanged,
    /// The work has the token of another attempt. It is kept under this ref of the main repository.
    OtherToken {
        /// The ref.
        kept: String,
    },
    /// The work does not descend from the expected base. It is kept under this ref.
    Strayed {
        /// The ref.
        kept: String,
    },
    /// The slot contains something that was not sent and cannot be replaced. The work is kept under
    /// this ref.
    Blocked {
        /// The ref.
        kept: String,
        /// The error of git.
        why: String,
    },
}

/// What was last sent from a slot, or has come back to it.
#[derive(Serialize, Deserialize)]
struct SentNote {
    token: String,
    tip: CommitId,
}

impl Repo {
    /// Writes the work in this slot, as far as the other side does not have it: `have` are commits
    /// there. Work is recognized by its token.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot; I/O errors.
    pub fn pack_work(&self, have: &[String], token: &str, out: &mut impl Write) -> Result<()> {
        self.slot().must_be_slot()?;
        check_name("token", token)?;
        let mut pack = || -> Result<()> {
            let work = self.work_state()?;
            let mut header = PackHeader::new(token, &work);
            header.shallow = self.shallow_ends();
            header.ignore = self.ignored_elsewhere();
            header.author = self.author();
            self.note_sent(token, work.tip())?;
            crash::point("transfer.noted");
            self.write_pack(&mut header, have, out)
        };
        pack().with_context(|| format!("cannot pack the work in `{}`", self.root.display()))
    }

    /// Brings the work of a pack into this slot of `main`. The work must descend from
    /// `expected_base`, if there is one, and have this token; other work is kept in `main` under
    /// `refs/ralph/stale/`, as is what the slot contains and was not sent.
    ///
    /// # Errors
    /// [`LackingCommits`]; a pack that is not valid; the error of `git`; outside of a slot.
    pub fn unpack_work(
        &self,
        main: &Repo,
        expected_base: Option<&str>,
        token: &str,
        pack: &mut impl Read,
    ) -> Result<Unpacked> {
        ensure!(
            self.slot_of().as_deref() == Some(main.root()),
            "`{}` is not a slot of `{}`",
            self.root.display(),
            main.root.display()
        );
        let unpack = || -> Result<Unpacked> {
            let (header, mut pack) = PackHeader::read(pack)?;
            // Of a call that was killed.
            self.slot().drop_locks()?;
            self.must_have(&header.base)?;
            IncomingPack::receive(self, &header, &mut pack, PackSource::Worker)?.accept()?;
            crash::point("transfer.arrived");
            let mut to = header.work();
            // Without its branch the work arrives all the same, and is off its branch.
            to.branch = to.branch.filter(|branch| self.check_branch(branch, &to.head).is_ok());
            let kept = main.keep_stale(self, &header.token, to.tip())?;
            crash::point("transfer.kept");
            let mut replaced = None;
            let is_other = header.token != token;
            let has_strayed = expected_base.is_some_and(|base| !self.descends(&to.head, base));
            let arrival = if is_other || has_strayed {
                for stray in &to.strays {
                    main.keep_stale(self, &header.token, stray)?;
                }
                if is_other { Arrival::OtherToken { kept } } else { Arrival::Strayed { kept } }
            } else {
                for stray in &to.strays {
                    // They are kept with the slot.
                    self.keep(&format!("{STRAYS}/{stray}"), stray)?;
                }
                let now = self.work_state()?;
                let is_there = now.tip() == to.tip() && now.branch == to.branch;
                if now.tip() != to.tip() && self.sent_tip().as_ref() != Some(now.tip()) {
                    replaced = Some(main.keep_stale(self, &format!("{token}.here"), now.tip())?);
                }
                match self.take_on(&now, &to) {
                    Ok(()) => {
                        // Line ends may differ here.
                        self.note_sent(token, self.work_state()?.tip())?;
                        crash::point("transfer.moved");
                        main.drop_ref(&kept)?;
                        if is_there { Arrival::Unchanged } else { Arrival::Moved }
                    }
                    Err(error) => Arrival::Blocked { kept, why: format!("{error:#}") },
                }
            };
            Ok(Unpacked { head: to.head, arrival, replaced, left_out: to.left_out })
        };
        unpack().with_context(|| format!("cannot unpack work into `{}`", self.root.display()))
    }

    /// Whether `head` is `base` or descends from it. Not if git cannot tell.
    fn descends(&self, head: &str, base: &str) -> bool {
        is_commit(base) && self.has_ancestor(head, base).unwrap_or(false)
    }

    /// Keeps a commit of a slot in this repository as stale work with this token. Returns the ref.
    fn keep_stale(&self, slot: &Repo, token: &str, commit: &str) -> Result<String> {
        let mut name = format!("{STALE_WORK}/{token}");
        let mut number = 1;
        while self.commit_of(&name)?.is_some_and(|other| *other != *commit) {
            number += 1;
            name = format!("{STALE_WORK}/{token}.{number}");
        }
        self.slots().bring_home(slot, commit, &name)?;
        Ok(name)
    }

    /// Fails if this repository lacks any of the commits on which a pack builds.
    fn must_have(&self, base: &[CommitId]) -> Result<()> {
        let has = self.known_commits(base.iter().map(CommitId::as_str))?;
        let lacking: Vec<CommitId> =
            base.iter().filter(|commit| !has.contains(commit)).cloned().collect();
        ensure!(lacking.is_empty(), LackingCommits(lacking));
        Ok(())
    }

    /// The commits of a list that this repository has.
    fn known_commits<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Result<Vec<CommitId>> {
        let ids: Vec<&str> = ids.filter(|id| is_commit(id)).take(MOST_BASES).collect();
        program::known_commits(&self.root, &ids)
    }

    /// Writes the header and the pack of its work.
    fn write_pack(
        &self,
        header: &mut PackHeader,
        have: &[String],
        out: &mut dyn Write,
    ) -> Result<()> {
        if header.shallow.is_empty() {
            header.base = self.known_commits(have.iter().map(String::as_str))?;
        }
        header.write(out)?;
        let work = header.work();
        let mut revisions = String::new();
        for commit in work.tips() {
            revisions.extend([commit, "\n"]);
        }
        for base in &header.base {
            revisions.extend(["^", base, "\n"]);
        }
        let mut pack = vec!["-c", "pack.threads=2", "pack-objects", "--revs", "--stdout", "-q"];
        pack.extend(["--thin", "--delta-base-offset"]);
        let streams = CallStreams { input: &mut revisions.as_bytes(), output: out };
        program::run_streaming(&self.root, &pack, &[], streams)?;
        out.flush().context("write the pack")
    }

    fn note_sent(&self, token: &str, tip: &CommitId) -> Result<()> {
        let note = SentNote { token: token.to_owned(), tip: tip.clone() };
        regular_file::write(&self.git_dir.join(SENT), &serde_json::to_vec(&note)?)
            .context("note what is sent")
    }

    fn sent_tip(&self) -> Option<CommitId> {
        let text = regular_file::read(&self.git_dir.join(SENT)).ok()?;
        serde_json::from_slice::<SentNote>(&text).ok().map(|note| note.tip)
    }

    /// The files that git ignores here although no `.gitignore` names them, as in that file.
    fn ignored_elsewhere(&self) -> String {
        let named = program::answer(&self.root, &["config", "--type=path", "core.excludesFile"]);
        let folder = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".config")));
        let default = folder.map(|folder| folder.join("git/ignore"));
        let named = named.ok().flatten().map(PathBuf::from).or(default);
        let files = named.into_iter().chain([self.git_dir.join("info/exclude")]);
        let texts = files.filter_map(|file| regular_file::read(&file).ok());
        texts.map(|text| lossy(&text) + "\n").collect()
    }

    /// The identity with which git commits here; none if there is none.
    fn author(&self) -> Option<WorkAuthor> {
        let who = self.commits().committer().ok()?;
        let (name, email) = who.strip_suffix('>')?.rsplit_once(" <")?;
        Some(WorkAuthor { name: name.to_owned(), email: email.to_owned() })
    }
}
