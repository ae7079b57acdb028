//! A branch and its checkout follow landed work, unless a person's work is in the way.
//!
//! The graph file is the one file that a person edits while tasks are completed in it. Where both
//! have changed it, it is merged by task: the file gets the merged text at once, and the landed
//! version is staged, so that git leaves the file alone. A kill in between leaves a file that reads
//! the same with the old commit and with the new one.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    adapters::{
        git::{BranchTip, Following, Repo, TipStanding},
        state::{self, StateFolder},
    },
    core::{
        commit_id::CommitId,
        event::WaitingWork,
        graph::{merge, task::TaskId},
    },
    crash,
    project::workspace::Workspace,
    regular_file,
};

/// The wait for the lock of another git process during a run.
pub const BUSY: Duration = Duration::from_secs(2);
/// The same at the end of a run, after which nothing tries again.
pub const LAST_BUSY: Duration = Duration::from_secs(30);

/// A branch that follows its landed work.
#[derive(Clone, Debug)]
pub struct Follower {
    root: PathBuf,
    state: StateFolder,
    /// The graph file, relative to the repository, if git can track it.
    graph: Option<String>,
    branch: String,
}

/// The state of a branch that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It has all that landed.
    Level,
    /// Something of a person's is in the way.
    Waits(WaitingWork),
}

/// The response to a branch that a person had moved back or rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedWork {
    /// The ref that keeps the work as it landed before.
    pub kept: String,
    /// Whether the work is on top of the branch now; if not, it conflicts with it.
    pub is_there: bool,
}

impl CarriedWork {
    /// A summary sentence.
    pub fn text(&self, branch: &str) -> String {
        let kept = &self.kept;
        let now = if self.is_there {
            format!(": what landed before is on top of it now, and as it was under {kept}")
        } else {
            format!(
                ", and conflicts with what landed before, which is kept as {kept}; `git merge \
                 {kept}` brings it"
            )
        };
        format!("`{branch}` was moved back or rewritten{now}")
    }
}

/// Why a branch does not follow.
struct Obstacle {
    checkout: String,
    paths: Vec<String>,
    why: Option<String>,
}

impl Follower {
    /// A branch of this repository.
    pub fn of(workspace: &Workspace, branch: &str) -> Follower {
        Follower {
            root: workspace.root().to_owned(),
            state: workspace.state.clone(),
            graph: workspace.graph_in_git(),
            branch: branch.to_owned(),
        }
    }

    /// Moves the branch and its checkout to landed work, if nothing is in the way. Waits at most
    /// this long for the lock of another git process.
    ///
    /// # Errors
    /// Errors of git and of the disk.
    pub fn follow(&self, busy: Duration) -> Result<Followed> {
        let repo = Repo::discover(&self.root)?;
        let began = Instant::now();
        loop {
            let Some(tip) = repo.landings().tip(&self.branch)? else { return Ok(Followed::Level) };
            let obstacle = match tip.standing {
                TipStanding::Level => {
                    repo.landings().forget_tip(&self.branch, &tip)?;
                    return Ok(Followed::Level);
                }
                TipStanding::Behind => match self.forward(&repo, &next_of(&repo, &tip))? {
                    Following::Done | Following::Moved => {
                        crash::point("follow.moved");
                        continue;
                    }
                    Following::Busy { .. } if began.elapsed() < busy => {
                        // Each try is several processes of git.
                        let pause = began.elapsed() / 4;
                        let (least, most) = (Duration::from_millis(50), Duration::from_secs(1));
                        thread::sleep(pause.clamp(least, most));
                        continue;
                    }
                    Following::Busy { why } => self.obstacle(why),
                    Following::InTheWay { checkout, paths, why } => {
                        let why = paths.is_empty().then_some(why);
                        Obstacle { checkout: checkout.display().to_string(), paths, why }
                    }
                },
                TipStanding::Diverged | TipStanding::Rewritten => self.diverged(&repo, &tip)?,
            };
            return Ok(Followed::Waits(self.waiting_work(&repo, &tip, obstacle)?));
        }
    }

    /// Returns the branch's waiting work, without a change; none if it has all that landed.
    ///
    /// # Errors
    /// Errors of git.
    pub fn waiting(&self) -> Result<Option<WaitingWork>> {
        let repo = Repo::discover(&self.root)?;
        let Some(tip) = repo.landings().tip(&self.branch)? else { return Ok(None) };
        let obstacle = match tip.standing {
            TipStanding::Level => return Ok(None),
            TipStanding::Behind => {
                let mut paths = repo.differing(Some(&tip.branch), &tip.commit)?;
                paths.retain(|path| self.graph.as_ref() != Some(path));
                let hidden = repo.landings().hidden(&paths)?;
                let paths = repo.landings().in_the_way(&self.branch, paths)?;
                match hidden {
                    Some(why) => self.obstacle(why),
                    None => Obstacle { paths, why: None, ..self.obstacle(String::new()) },
                }
            }
            TipStanding::Diverged | TipStanding::Rewritten => self.diverged(&repo, &tip)?,
        };
        self.waiting_work(&repo, &tip, obstacle).map(Some)
    }

    /// Puts the work that landed on top of a branch that a person has moved back or rewritten.
    ///
    /// # Errors
    /// Errors of git.
    pub fn carry_over(&self, repo: &Repo) -> Result<Option<CarriedWork>> {
        let tip = repo.landings().tip(&self.branch)?;
        let Some(tip) = tip.filter(|tip| tip.standing == TipStanding::Rewritten) else {
            return Ok(None);
        };
        let (kept, is_there) = repo.landings().carry_over(&self.branch, &tip)?;
        Ok(Some(CarriedWork { kept, is_there }))
    }

    fn obstacle(&self, why: String) -> Obstacle {
        let checkout = self.root.display().to_string();
        Obstacle { checkout, paths: Vec::new(), why: Some(why) }
    }

    fn diverged(&self, repo: &Repo, tip: &BranchTip) -> Result<Obstacle> {
        let branch = &self.branch;
        Ok(self.obstacle(if tip.standing == TipStanding::Rewritten {
            format!("`{branch}` was moved back or rewritten")
        } else if repo.landings().can_join(tip)? {
            format!(
                "`{branch}` has commits of yours that are not verified with it; the next landing \
                 takes them in"
            )
        } else {
            format!(
                "your commits on `{branch}` conflict with it; `git merge refs/ralph/tip/{branch}` \
                 merges them by hand"
            )
        }))
    }

    fn waiting_work(
        &self,
        repo: &Repo,
        tip: &BranchTip,
        obstacle: Obstacle,
    ) -> Result<WaitingWork> {
        const TASK: &str = "Ralph-Task: ";
        let found = repo.messages_with(&tip.commit, Some(&tip.branch), TASK)?;
        let mut tasks: Vec<TaskId> = Vec::new();
        let named = found.iter().rev().flat_map(|(_, message)| message.lines());
        for id in named.filter_map(|line| TaskId::new(line.strip_prefix(TASK)?.trim()).ok()) {
            if !tasks.contains(&id) {
                tasks.push(id);
            }
        }
        let Obstacle { checkout, paths, why } = obstacle;
        Ok(WaitingWork { branch: self.branch.clone(), checkout, tasks, paths, why })
    }

    /// Moves the branch to a commit on its way to the tip, with the graph file of the checkout.
    fn forward(&self, repo: &Repo, (old, new): &(CommitId, CommitId)) -> Result<Following> {
        let follow = || repo.landings().follow(&self.branch, old, new);
        let Some(name) = &self.graph else { return follow() };
        let is_here = repo.head()?.branch.as_ref() == Some(&self.branch);
        if !is_here || repo.has_same_file(old, new, name)? {
            return follow();
        }
        let text = |commit: &str| -> Result<Option<String>> {
            Ok(repo.file_at(commit, name)?.and_then(|text| String::from_utf8(text).ok()))
        };
        let (Some(was), Some(landed)) = (text(old)?, text(new)?) else { return follow() };
        let path = repo.root().join(name);
        let _turn = self.state.lock_graph().context("lock the graph file")?;
        let Ok(mine) = regular_file::read_to_string(&path) else { return follow() };
        let staged = repo.commits().staged_text(old, name)?;
        if mine != was && staged.is_none() && repo.commits().is_as_staged(name)? {
            // Git converts the line ends.
            return follow();
        }
        let merged = |ours: &str| merge::with_landed(&was, ours, &landed);
        let (Some(text), Some(index)) = (merged(&mine), merged(staged.as_ref().unwrap_or(&was)))
        else {
            let why = format!("your changes of `{name}` do not fit with what landed");
            let checkout = repo.root().to_owned();
            return Ok(Following::InTheWay { checkout, paths: Vec::new(), why });
        };
        if !replace(&path, &mine, &text)? {
            // A person has saved the file at this moment.
            return Ok(Following::Busy { why: format!("`{name}` changed at this moment") });
        }
        crash::point("follow.written");
        let stage = |text: &str| repo.commits().stage_text(name, text);
        let following = match stage(&landed) {
            Ok(()) => {
                crash::point("follow.staged");
                follow()
            }
            Err(error) => {
                let why = format!("{error:#}");
                let checkout = repo.root().to_owned();
                // Another git process holds the index, or git cannot write it.
                Ok(if why.contains(".lock'") {
                    Following::Busy { why }
                } else {
                    Following::InTheWay { checkout, paths: Vec::new(), why }
                })
            }
        };
        let is_done = matches!(following, Ok(Following::Done));
        if !is_done {
            // The file keeps its statuses only together with the work.
            replace(&path, &text, &mine)?;
        }
        let left = if is_done { index } else { staged.unwrap_or_else(|| was.clone()) };
        if !is_done || left != landed {
            // Where another git process holds the index, the edit is still in the file.
            let _ = stage(&left);
        }
        following
    }
}

/// Replaces a text of the graph file, unless a person has saved another one.
fn replace(path: &Path, old: &str, new: &str) -> Result<bool> {
    if regular_file::read_to_string(path).ok().as_deref() != Some(old) {
        return Ok(false);
    }
    if old != new {
        state::replace(path, new.as_bytes())
            .with_context(|| format!("write `{}`", path.display()))?;
    }
    Ok(true)
}

/// The next move of a branch that is behind: from where to where.
fn next_of(repo: &Repo, tip: &BranchTip) -> (CommitId, CommitId) {
    let begun = repo.landings().begun(&tip.branch, &tip.commit);
    (tip.branch.clone(), begun.unwrap_or_else(|| tip.commit.clone()))
}
