//! The record of an attempt that has no end yet: on disk before its process starts, and until its
//! end is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Local, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    adapters::{
        agent_output,
        git::Repo,
        process::{self, Identity},
        terminal, tmux,
    },
    core::{
        agents::{
            agent_command::AgentCommand,
            provider_error::{self, AttemptOutput, ProviderErrorKind},
            transcript::{AgentTranscript, Format},
        },
        commit_id::CommitId,
        graph::task::{CommitRule, Task, TaskId},
        verdict::Outcome,
    },
    project::workspace::Workspace,
};

/// How long a guardian has to clean up behind a dead runner before it is done for it.
const GUARDIAN: Duration = Duration::from_secs(30);

/// What an attempt is judged by, as the task said it when it began: an agent may edit the graph, and
/// must not choose its own judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcceptanceCriteria {
    verify: Vec<String>,
    commit: CommitRule,
    output: Option<Value>,
}

impl AcceptanceCriteria {
    /// Those of a task as it is now.
    pub fn of(workspace: &Workspace, task: &Task) -> AcceptanceCriteria {
        let output = task.extra.get("output").cloned();
        AcceptanceCriteria { verify: workspace.verify_of(task), commit: task.commit, output }
    }

    /// The commands that must succeed.
    pub fn verify(&self) -> &[String] {
        &self.verify
    }

    /// The task with these terms.
    pub fn applied(&self, task: &Task) -> Task {
        let mut task = task.clone();
        (task.verify, task.commit) = (Some(self.verify.clone()), self.commit);
        match self.output.clone() {
            Some(output) => task.extra.insert("output".to_owned(), output),
            None => task.extra.remove("output"),
        };
        task
    }
}

/// Where an attempt works that has a work tree to itself, and where its work is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeAssignment {
    /// The work tree.
    pub tree: PathBuf,
    /// The branch into which its work is merged.
    pub target: String,
    /// The last commit of its work as it is about to be there: whoever finds the record sees from
    /// it whether it is.
    #[serde(default)]
    pub landing: Option<CommitId>,
}

/// An attempt that has no end yet, as it is kept on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// The task.
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// Its number in the run.
    pub iteration: u32,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The commit it started from.
    pub base: Option<CommitId>,
    /// The branch it started on.
    pub branch: Option<String>,
    /// What was changed and not committed before it began: path -> fingerprint.
    pub dirty: BTreeMap<String, String>,
    /// Those of `dirty` that an earlier attempt at the task left: not a person's, but its own.
    #[serde(default)]
    pub inherited: BTreeSet<String>,
    /// Its place apart; none where it works in the checkout of people.
    #[serde(default, alias = "apart")]
    pub worktree: Option<WorktreeAssignment>,
    /// Its folder, relative to the repository.
    pub log: String,
    /// What it is judged by.
    #[serde(default)]
    pub terms: Option<AcceptanceCriteria>,
    /// How its agent is called.
    #[serde(default)]
    pub call: Option<AgentCommand>,
    /// The agent's process, once it has one.
    pub agent: Option<Identity>,
    /// The process that guards it.
    #[serde(default)]
    pub guardian: Option<Identity>,
    /// The folder of the terminal that its agent has, if it has one.
    #[serde(default)]
    pub pane: Option<PathBuf>,
    /// Git's lock files that were there before it began: somebody else's.
    #[serde(default)]
    pub locks: Vec<PathBuf>,
    /// Git's hooks and settings before it began, with fingerprints.
    #[serde(default)]
    pub controls: Option<BTreeMap<String, String>>,
}

impl AttemptRecord {
    /// The same in a place apart, with nothing there that is not in its base.
    #[must_use]
    pub fn moved(self, worktree: WorktreeAssignment, base: CommitId) -> AttemptRecord {
        AttemptRecord {
            base: Some(base),
            branch: Some(super::branch_of(&self.task_id)),
            dirty: BTreeMap::new(),
            inherited: BTreeSet::new(),
            worktree: Some(worktree),
            // Those of the work tree, once there is one.
            locks: Vec::new(),
            controls: None,
            ..self
        }
    }

    /// The name of its record.
    pub fn name(&self) -> String {
        format!("{}.{}", self.task_id, self.attempt)
    }

    /// As it is put on disk: without the secrets with which its agent is called.
    #[must_use]
    pub fn redacted(&self, workspace: &Workspace) -> AttemptRecord {
        let mut record = self.clone();
        if let Some(secrets) = workspace.secrets() {
            record.call = record.call.map(|call| call.redacted(&secrets));
        }
        record
    }

    /// The work tree that it works in.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn tree(&self, workspace: &Workspace) -> Result<Rc<Repo>> {
        match &self.worktree {
            None => Ok(Rc::clone(&workspace.repo)),
            Some(worktree) => {
                ensure!(worktree.tree.exists(), "`{}` is gone", worktree.tree.display());
                let tree = Repo::discover(&worktree.tree)?;
                // Git looks further up where a folder has nothing of its own: never there.
                let is_own = fs::canonicalize(&worktree.tree).is_ok_and(|top| top == tree.root());
                ensure!(is_own, "`{}` is no work tree any more", worktree.tree.display());
                Ok(Rc::new(tree))
            }
        }
    }

    /// Puts it on disk, as it is now.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn write(&self, workspace: &Workspace) -> Result<()> {
        let kept = self.redacted(workspace);
        workspace.state.write_attempt(&self.name(), &kept).context("record the attempt")
    }

    /// What every process of the attempt has in its environment as `RALPH_ATTEMPT_ID`.
    pub fn mark(&self) -> String {
        format!("{}.{}", self.run_id, self.name())
    }

    /// Waits for the guardian to end the tree, as it does when its runner is gone, and ends what it
    /// could not. Returns the names of those.
    pub fn end_all(&self, workspace: &Workspace) -> Vec<String> {
        let began = Instant::now();
        while self.guardian.as_ref().is_some_and(process::is_alive) && began.elapsed() < GUARDIAN {
            thread::sleep(Duration::from_millis(2));
        }
        let record = workspace.state.attempt(&self.name());
        let entry = format!("RALPH_ATTEMPT_ID={}", self.mark());
        process::kill_marked(Some(&entry), &record).into_iter().map(|member| member.name).collect()
    }

    /// How the agent ended, if its guardian lived to say so and the end was the agent's own.
    pub fn outcome_left(&self, workspace: &Workspace) -> Option<Outcome> {
        let text = fs::read(workspace.state.exit(&self.name())).ok()?;
        let exit: process::guard::AgentExit = serde_json::from_slice(&text).ok()?;
        (!exit.alone).then_some(exit.outcome)
    }

    /// What its agent told, and what kept it from working.
    pub fn told(
        &self,
        workspace: &Workspace,
        outcome: &Outcome,
    ) -> (AgentTranscript, Option<ProviderErrorKind>) {
        /// How much of the end of its errors is looked at, in bytes.
        const ERRORS: u64 = 4 * 1024;
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        let told = agent_output::told(&self.file(workspace, "stdout"), format);
        let stderr = agent_output::end(&self.file(workspace, "stderr"), ERRORS);
        let remains = AttemptOutput { format, transcript: &told, outcome, stderr: &stderr };
        let obstacle = provider_error::classify(&remains, &Local::now());
        (told, obstacle)
    }

    /// What its agent said last: its result, or the end of its words.
    pub fn last_words(&self, workspace: &Workspace) -> String {
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        let told = agent_output::told(&self.file(workspace, "stdout"), format);
        let is_blank = |text: &String| text.trim().is_empty();
        let result = told.end.map(|end| end.text).filter(|text| !is_blank(text));
        // What is said on the way of typed output is no result.
        let words = told.message.filter(|_| matches!(format, Format::Text | Format::Aider));
        let said = result.or(words).or(told.last_line).unwrap_or_default();
        if self.pane.is_some() { terminal::plain(&said).into_owned() } else { said }
    }

    /// Removes the lock files that a git of the attempt left when it was killed, and names them
    /// for people. To be called when the whole attempt is dead: what came after its beginning is
    /// then its own, unless another git is at work here.
    pub fn unlock(&self, tree: &Repo) -> Vec<String> {
        let began = self.started_at.timestamp();
        let is_ours = |path: &PathBuf| {
            let modified = fs::symlink_metadata(path).map(|found| found.mtime());
            // Whole seconds: some disks know no others.
            !self.locks.contains(path) && modified.is_ok_and(|modified| modified >= began)
        };
        let mut locks: Vec<PathBuf> = tree.locks().into_iter().filter(is_ours).collect();
        if self.worktree.is_some() {
            // The others may belong to another attempt, which lives.
            locks.retain(|path| path.starts_with(tree.git_dir()));
        }
        if locks.is_empty() || process::works_in("git", tree.root()) {
            return Vec::new();
        }
        let removed = locks.into_iter().filter(|path| fs::remove_file(path).is_ok());
        let shown =
            |path: PathBuf| path.strip_prefix(tree.root()).unwrap_or(&path).display().to_string();
        removed.map(shown).collect()
    }

    /// Removes what is kept of it until it is closed.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn forget(&self, workspace: &Workspace) -> Result<()> {
        if let Some(folder) = &self.pane {
            tmux::remove(folder);
        }
        workspace.state.remove_attempt(&self.name()).context("close the attempt")
    }

    /// A file in its task's folder, by which its agent says something.
    pub(super) fn said(&self, workspace: &Workspace, name: &str) -> PathBuf {
        workspace.root().join(workspace.task_dir(&self.task_id)).join(name)
    }

    /// A file in its folder.
    pub fn file(&self, workspace: &Workspace, name: &str) -> PathBuf {
        workspace.root().join(&self.log).join(name)
    }
}
