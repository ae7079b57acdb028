//! The work in a slot on its way to another machine and back: HEAD, its branch, and the uncommitted
//! changes.
//!
//! It travels by git's own transport over a line that carries bytes in both directions: `git push`
//! to `git receive-pack` there, and `git fetch` from `git upload-pack` there. A piece of work is
//! one commit on top of all others, with a [`WorkNote`] as its message. Nothing else arrives:
//! settings, hooks, attributes and other refs stay where they are, as do ignored files. The other
//! side is not trusted: its objects are checked in a quarantine before the slot has them, work that
//! does not descend from its base is kept and not taken on, and a slot's content is kept before its
//! files change.

use std::{
    collections::BTreeMap,
    env, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::PathBuf,
};

use anyhow::{Context, Result, bail, ensure};
use git2::Reference;
use serde::{Deserialize, Serialize};

use super::{PushRule, Repo, SlotSettings, Transfers, bounded, is_commit, lossy, program};
use crate::{
    core::{commit_id::CommitId, loop_paths::STALE_WORK},
    crash, regular_file,
};

mod state;
mod tests;
mod worker;

use state::WorkState;
use worker::Quarantine;
pub use worker::{BrokenSlot, GitService, SlotInUse, WorkerSlot, WorkerStore};

/// The file in the git directory of a slot that records the sent work.
const SENT: &str = "ralph-sent";

/// The folder of refs in a slot with commits of an agent that its HEAD does not reach.
const STRAYS: &str = "refs/strays";

/// The folder of refs in a store with work that has arrived there; below it, the token.
const ARRIVED: &str = "refs/arrived";

/// The folder of refs in a store with work to be fetched; below it, the token.
const OUT: &str = "refs/out";

/// The folder of refs in a store with work of earlier attempts that was never fetched; below it, the
/// id of its tip.
const STALE: &str = "refs/stale";

/// The folder of fetched refs in a quarantine, and the name of the wanted work in it.
const FETCHED: (&str, &str) = ("refs/fetched", "wanted");

/// The largest number of strays, of paths that are left out, and of stale work.
const MOST: usize = 200;

/// The length of the longest note, in bytes.
const LONGEST: usize = 256 << 10;

/// The length of the longest text about a path that is left out, in characters.
const LONGEST_PATH: usize = 400;

/// The length of the longest list of ignored files, in bytes.
const LONGEST_IGNORE: usize = 64 << 10;

/// The settings of calls that use a line: none of a person's that makes the other side refuse.
const ON_A_LINE: &[&str] = &[
    "-c",
    "protocol.fd.allow=always",
    "-c",
    "push.pushOption=",
    "-c",
    "push.negotiate=false",
    "-c",
    "push.followTags=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "pack.threads=2",
    "-c",
    "core.bigFileThreshold=64m",
];

/// A line that carries the bytes of git in both directions.
#[derive(Debug)]
pub struct GitLine {
    from: OwnedFd,
    to: OwnedFd,
}

impl GitLine {
    /// A line on which the other side is read from one file and written to another.
    ///
    /// # Errors
    /// System errors.
    pub fn of(from: impl AsFd, to: impl AsFd) -> io::Result<GitLine> {
        Ok(GitLine { from: bounded::inherited(from)?, to: bounded::inherited(to)? })
    }

    /// The address of the other side for git (git-remote-fd(1)).
    fn address(&self) -> String {
        format!("fd::{},{}", self.from.as_raw_fd(), self.to.as_raw_fd())
    }
}

/// The identity of the person for whom commits are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct WorkAuthor {
    name: String,
    email: String,
}

/// The note on a commit with all work, besides its parents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct WorkNote {
    /// The identity of the attempt.
    token: String,
    /// HEAD.
    head: String,
    /// The branch without `refs/heads/`; none when HEAD is detached.
    branch: Option<String>,
    /// The paths left out, and why.
    #[serde(default)]
    left_out: Vec<String>,
    /// The files that git ignores although no `.gitignore` names them, as in that file.
    #[serde(default)]
    ignore: String,
    author: Option<WorkAuthor>,
}

/// Work as it travels: a commit whose first parent is HEAD with the uncommitted changes, and whose other
/// parents are commits that HEAD does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TravelingWork {
    work: WorkState,
    note: WorkNote,
}

/// Notes for a person about fetched work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedWork {
    /// The unsent paths, with the reasons.
    pub left_out: Vec<String>,
    /// The ref of the main repository that keeps the work, if that does not descend from its base; the
    /// slot has not taken it on then.
    pub strayed: Option<String>,
}

impl WorkNote {
    /// The note on this work, without settings of the sender.
    fn new(token: &str, work: &WorkState) -> WorkNote {
        let mut left_out = work.left_out.clone();
        if left_out.len() > MOST {
            let more = left_out.len() - MOST + 1;
            left_out.truncate(MOST - 1);
            left_out.push(format!("{more} more"));
        }
        for text in &mut left_out {
            *text = text.chars().take(LONGEST_PATH).collect();
        }
        let (token, head, branch) = (token.to_owned(), work.head.to_string(), work.branch.clone());
        WorkNote { token, head, branch, left_out, ..WorkNote::default() }
    }

    /// Reads and checks a note.
    ///
    /// # Errors
    /// It is not valid.
    fn read(text: &[u8]) -> Result<WorkNote> {
        let mut note: WorkNote = serde_json::from_slice(text)?;
        check_name("token", &note.token)?;
        ensure!(is_commit(&note.head), "`{}` is not a commit id", note.head.escape_debug());
        ensure!(note.left_out.len() <= MOST, "it names too many paths");
        if let Some(branch) = &note.branch {
            let is_valid = !branch.starts_with('-')
                && !branch.contains('\0')
                && branch.len() <= LONGEST_PATH
                && Reference::is_valid_name(&format!("refs/heads/{branch}"));
            ensure!(is_valid, "`{}` is not the name of a branch", branch.escape_debug());
        }
        for text in &mut note.left_out {
            // It is shown to people.
            let clean = text.chars().take(LONGEST_PATH);
            *text = clean.map(|c| if c.is_control() { '?' } else { c }).collect();
        }
        Ok(note)
    }

    /// The settings of a slot of a store with this note.
    fn settings(&self, store: &Repo) -> Result<SlotSettings> {
        let mut settings = store.slots().settings(PushRule::Refuse)?;
        settings.ignore(&[&self.ignore]);
        if let Some(WorkAuthor { name, email }) = &self.author {
            settings.commit_as(name, email);
        }
        Ok(settings)
    }
}

impl Transfers<'_> {
    /// Sends the work in this slot to the store at the other end of a line. Work is recognized by its
    /// token.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot; I/O errors.
    pub fn send_work(&self, token: &str, line: &GitLine) -> Result<()> {
        self.slot().must_be_slot()?;
        check_name("token", token)?;
        let send = || -> Result<()> {
            let work = self.work_state()?;
            let mut note = WorkNote::new(token, &work);
            note.ignore = self.ignored_elsewhere();
            note.author = self.author();
            self.note_sent(work.tip())?;
            crash::point("transfer.noted");
            let id = self.sealed(&work, &note)?;
            let (to, ref_there) = (line.address(), format!("+{id}:{ARRIVED}/{token}"));
            let push = ["push", "--progress", "--no-signed", "--no-verify", "--thin"];
            let more = ["--recurse-submodules=no", "--", &to, &ref_there];
            // The settings of a slot send pushes elsewhere; the longest address decides.
            let itself = ["-c", &format!("url.{to}.pushInsteadOf={to}")];
            program::run_on_line(&self.root, &[ON_A_LINE, &itself, &push, &more].concat())
        };
        send().with_context(|| format!("cannot send the work in `{}`", self.root.display()))
    }

    /// Fetches the work with this token from the store at the other end of a line, and brings it
    /// into this slot of `main`. It must descend from `expected_base`, if there is one; other work,
    /// that of earlier attempts above all, is kept in `main` under `refs/ralph/stale/`, as is
    /// unsent work in the slot.
    ///
    /// # Errors
    /// Work that is not valid; the error of `git`, for example where the slot contains something that was
    /// not sent and cannot be replaced; outside of a slot.
    pub fn fetch_work(
        &self,
        main: &Repo,
        expected_base: Option<&str>,
        token: &str,
        line: &GitLine,
    ) -> Result<FetchedWork> {
        ensure!(
            self.slot_of().as_deref() == Some(main.root()),
            "`{}` is not a slot of `{}`",
            self.root.display(),
            main.root.display()
        );
        check_name("token", token)?;
        let fetch = || -> Result<FetchedWork> {
            // Of a call that was killed.
            self.slot().drop_locks()?;
            let quarantine = Quarantine::begin(self)?;
            quarantine.fetch(token, line)?;
            let mut all = quarantine.repo.transfers().works(FETCHED.0)?;
            let wanted = all.remove(FETCHED.1).context("nothing was fetched")?;
            ensure!(wanted.note.token == token, "it is the work of another attempt");
            ensure!(all.len() <= MOST, "there is too much work of earlier attempts");
            quarantine.accept()?;
            crash::point("transfer.arrived");
            for TravelingWork { work, note } in all.values() {
                for commit in work.tips() {
                    main.transfers().keep_stale(self, &note.token, commit)?;
                }
            }
            self.take_fetched(main, expected_base, wanted)
        };
        fetch().with_context(|| format!("cannot fetch work into `{}`", self.root.display()))
    }

    /// Takes on work whose objects this slot has.
    fn take_fetched(
        &self,
        main: &Repo,
        expected_base: Option<&str>,
        fetched: TravelingWork,
    ) -> Result<FetchedWork> {
        let TravelingWork { work: mut to, note: WorkNote { token, left_out, .. } } = fetched;
        if expected_base.is_some_and(|base| !self.descends(&to.head, base)) {
            let strayed = Some(main.transfers().keep_stale(self, &token, to.tip())?);
            for stray in &to.strays {
                main.transfers().keep_stale(self, &token, stray)?;
            }
            return Ok(FetchedWork { left_out, strayed });
        }
        for stray in &to.strays {
            // They are kept with the slot.
            self.keep(&format!("{STRAYS}/{stray}"), stray)?;
        }
        // Without its branch the work arrives all the same, and is off its branch.
        to.branch = to.branch.take().filter(|branch| self.check_branch(branch, &to.head).is_ok());
        let now = self.work_state()?;
        if now.tip() != to.tip() && self.sent_tip().as_ref() != Some(now.tip()) {
            main.transfers().keep_stale(self, &format!("{token}.here"), now.tip())?;
        }
        if let Err(error) = self.take_on(&now, &to) {
            let kept = main.transfers().keep_stale(self, &token, to.tip())?;
            bail!("{error:#}; it is kept in `{kept}`");
        }
        // Line ends may differ here.
        self.note_sent(self.work_state()?.tip())?;
        crash::point("transfer.moved");
        Ok(FetchedWork { left_out, strayed: None })
    }

    /// Whether `head` is `base` or descends from it. False if git fails.
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

    /// The commit with all of this work, which no ref names yet.
    fn sealed(&self, work: &WorkState, note: &WorkNote) -> Result<CommitId> {
        let mut text = serde_json::to_string(note)?;
        if text.len() > LONGEST {
            let left_out = note.left_out.iter().take(1).cloned().collect();
            text = serde_json::to_string(&WorkNote { left_out, ..note.clone() })?;
        }
        let parents: Vec<&str> = work.tips().map(CommitId::as_str).collect();
        self.work_commit(&format!("{}^{{tree}}", work.tip()), &parents, &text)
    }

    /// The work that the refs in a folder name, by the rest of their names.
    ///
    /// # Errors
    /// Work that is not valid; the error of `git`.
    fn works(&self, folder: &str) -> Result<BTreeMap<String, TravelingWork>> {
        let format = "--format=%(objecttype) %(objectsize) %(objectname) %(refname)";
        let list = lossy(&program::run(&self.root, &["for-each-ref", format, folder])?);
        let mut works = BTreeMap::new();
        for line in list.lines() {
            let [kind, size, id, name] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
            let name = name.strip_prefix(folder).and_then(|name| name.strip_prefix('/'));
            let is_valid =
                kind == "commit" && size.parse::<usize>().is_ok_and(|it| it <= 2 * LONGEST);
            ensure!(is_valid, "the work `{id}` is no commit, or too long");
            let work = self.opened(id).with_context(|| format!("the work `{id}` is not valid"))?;
            works.insert(name.unwrap_or_default().to_owned(), work);
        }
        Ok(works)
    }

    /// The work of a [sealed](Transfers::sealed) commit.
    fn opened(&self, id: &str) -> Result<TravelingWork> {
        let text = lossy(&program::run(&self.root, &["cat-file", "commit", id])?);
        let (header, message) = text.split_once("\n\n").context("it has no note")?;
        let parents = header.lines().filter_map(|line| line.strip_prefix("parent "));
        let mut strays: Vec<CommitId> = parents.map(CommitId::from).collect();
        ensure!((1..=MOST).contains(&strays.len()), "it has {} parents", strays.len());
        let (tip, note) = (strays.remove(0), WorkNote::read(message.as_bytes())?);
        let head = CommitId::from(&*note.head);
        if tip != head {
            let list = ["rev-list", "--parents", "--max-count=1", &tip, "--"];
            ensure!(
                lossy(&program::run(&self.root, &list)?).trim() == format!("{tip} {head}"),
                "the commit with the uncommitted changes is not on top of HEAD"
            );
        }
        let work = WorkState {
            is_clean: tip == head,
            changes: (tip != head).then_some(tip),
            head,
            branch: note.branch.clone(),
            strays,
            left_out: note.left_out.clone(),
        };
        Ok(TravelingWork { work, note })
    }

    /// Changes refs in one transaction, in the words of git-update-ref(1).
    fn update_refs(&self, changes: &str) -> Result<()> {
        let update = ["update-ref", "--no-deref", "--stdin"];
        program::run_with_input(&self.root, &update, &[], changes.as_bytes()).map(drop)
    }

    /// Notes the commit with all that was last sent from this slot, or has come back to it.
    fn note_sent(&self, tip: &CommitId) -> Result<()> {
        regular_file::write(&self.git_dir.join(SENT), tip.as_bytes()).context("note what is sent")
    }

    fn sent_tip(&self) -> Option<CommitId> {
        let text = regular_file::read_to_string(&self.git_dir.join(SENT)).ok()?;
        is_commit(&text).then(|| CommitId::from(&*text))
    }

    /// The files that git ignores here although no `.gitignore` names them, as in that file; nothing
    /// if they are too many.
    fn ignored_elsewhere(&self) -> String {
        let named = program::answer(&self.root, &["config", "--type=path", "core.excludesFile"]);
        let folder = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".config")));
        let default = folder.map(|folder| folder.join("git/ignore"));
        let named = named.ok().flatten().map(PathBuf::from).or(default);
        let files = named.into_iter().chain([self.git_dir.join("info/exclude")]);
        let texts = files.filter_map(|file| regular_file::read(&file).ok());
        let all: String = texts.map(|text| lossy(&text) + "\n").collect();
        if all.len() > LONGEST_IGNORE { String::new() } else { all }
    }

    /// The identity with which git commits here; none if there is none.
    fn author(&self) -> Option<WorkAuthor> {
        let who = self.commits().committer().ok()?;
        let (name, email) = who.strip_suffix('>')?.rsplit_once(" <")?;
        Some(WorkAuthor { name: name.to_owned(), email: email.to_owned() })
    }
}

/// Checks a name that becomes part of a path and of a ref.
///
/// # Errors
/// The name is not valid.
fn check_name(what: &str, name: &str) -> Result<()> {
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
