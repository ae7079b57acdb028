//! The record of an open attempt: on disk before its process starts, and until its end is recorded.

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

use super::AcceptanceCriteria;
use crate::{
    adapters::{
        agent_output,
        git::{self, Repo},
        process::{self, AgentProcess, Identity},
        terminal,
    },
    core::{
        agents::{
            agent_command::AgentCommand,
            provider_error::{self, AttemptOutput, ProviderErrorKind},
            transcript::{AgentTranscript, Format},
        },
        commit_id::CommitId,
        graph::task::TaskId,
        loop_paths::LoopPaths,
        run::command::AttemptId,
        verdict::{Evidence, Merge, Outcome},
    },
    project::{attempt::leftovers::pin_name, workspace::Workspace},
    regular_file,
};

/// The time that the guardian of a dead run has to clean up before this process does it.
const GUARDIAN: Duration = Duration::from_secs(30);

/// The files with the output of an agent.
const OUTPUT: [&str; 2] = ["stdout", "stderr"];

/// The slot of an isolated attempt, and the branch that its work lands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotAssignment {
    /// The slot.
    pub path: PathBuf,
    /// The branch that its work lands on.
    pub target: String,
    /// The commit that its work is about to land as. After a crash, it shows whether the work has
    /// landed.
    pub landing: Option<CommitId>,
}

/// An open attempt as stored on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// The task.
    pub task_id: TaskId,
    /// The number of the attempt, per task.
    pub attempt: u32,
    /// The number of the attempt in the run.
    pub iteration: u32,
    /// The time of its start.
    pub started_at: DateTime<Utc>,
    /// The commit that its own commits are on: the one it started from, or those of others that it pulled
    /// besides.
    pub base: Option<CommitId>,
    /// The commit it started from, if its own commits are on another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_from: Option<CommitId>,
    /// The branch it started on.
    pub branch: Option<String>,
    /// The uncommitted changes before its start: path -> fingerprint.
    pub dirty: BTreeMap<String, String>,
    /// The uncommitted paths when its agent had ended, before any verify command; `None` until then.
    pub left: Option<Vec<String>>,
    /// HEAD of its slot when its agent had ended, before any verify command, if it was on its branch.
    pub end_head: Option<CommitId>,
    /// The number of times that its executor was asked for its end and its work.
    #[serde(default)]
    pub asks: u32,
    /// The paths of `dirty` that an earlier attempt at the task left. They count as the attempt's
    /// own.
    #[serde(default)]
    pub inherited: BTreeSet<String>,
    /// The files that have both sides of a conflict of earlier work with the branch, marked.
    #[serde(default)]
    pub marked: Vec<String>,
    /// The slot of an isolated attempt; `None` if it works in the checkout.
    #[serde(default, alias = "apart")]
    pub slot: Option<SlotAssignment>,
    /// The name of its executor; none if local.
    pub run_on: Option<String>,
    /// The attempt's folder, relative to the repository.
    pub log: String,
    /// The folder for its reports, relative to the repository; none for the folder of its task.
    pub folder: Option<String>,
    /// The acceptance criteria.
    pub terms: Option<AcceptanceCriteria>,
    /// The command of its agent.
    pub call: Option<AgentCommand>,
    /// The agent's process, once it has started.
    pub agent: Option<Identity>,
    /// The guardian of its process.
    pub guardian: Option<Identity>,
    /// Whether its agent prints on a terminal.
    #[serde(default)]
    pub terminal: bool,
    /// The number of its notes that the run has journalled, because the attempt could not.
    #[serde(default)]
    pub noted: usize,
    /// The status of the task before it was claimed, as the graph file spells it; empty for a task
    /// without one.
    pub status_word: Option<String>,
    /// Git's lock files that existed before its start; they belong to others.
    #[serde(default)]
    pub locks: Vec<PathBuf>,
    /// Git's hooks and settings before its start, with fingerprints.
    pub controls: Option<BTreeMap<String, String>>,
    /// Why it was refused before its agent got another prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The evidence about its work, once about to land.
    pub found: Option<Box<Evidence>>,
}

impl AttemptRecord {
    /// The attempt.
    pub fn id(&self) -> AttemptId {
        AttemptId { task_id: self.task_id.clone(), attempt: self.attempt }
    }

    /// The ref that keeps its work.
    pub fn pin(&self, place: &LoopPaths) -> String {
        pin_name(place, &self.task_id, self.attempt)
    }

    /// Returns the evidence about the attempt's work, with its landing, if it is in the target
    /// branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_landed(&self, workspace: &Workspace) -> Result<Option<Box<Evidence>>> {
        let Some(SlotAssignment { target, landing: Some(commit), .. }) = self.slot.clone() else {
            return Ok(None);
        };
        let Some(tip) = workspace.repo.landings().tip(&target)? else { return Ok(None) };
        if !workspace.repo.is_ancestor(&commit, &tip.commit)? {
            return Ok(None);
        }
        let mut found = self.found.clone().unwrap_or_default();
        let resolved = match found.merge.take() {
            Some(Merge::Landed { resolved, .. }) => resolved,
            _ => Vec::new(),
        };
        let waits = !workspace.repo.is_ancestor(&commit, &tip.branch)?;
        found.merge = Some(Merge::Landed { branch: target, commit, waits, resolved });
        Ok(Some(found))
    }

    /// Adds a process of the attempt, and writes the record.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn add_process(&mut self, workspace: &Workspace, process: &AgentProcess) -> Result<()> {
        self.agent = Some(process.identity().clone());
        self.guardian = Some(process.guardian().clone());
        self.note_process(workspace)
    }

    /// The commit with which its work is about to land, or has landed.
    pub fn landing(&self) -> Option<&CommitId> {
        self.slot.as_ref()?.landing.as_ref()
    }

    /// Returns the record of an attempt that works in a slot which contains only its base. Facts
    /// from git are filled in once the slot exists.
    #[must_use]
    pub fn in_slot(self, slot: SlotAssignment, base: CommitId) -> AttemptRecord {
        let branch = Some(super::branch_of(&self.task_id));
        AttemptRecord { base: Some(base), branch, slot: Some(slot), ..self }
    }

    /// Returns the name of the record.
    pub fn name(&self) -> String {
        format!("{}.{}", self.task_id, self.attempt)
    }

    /// Returns the record as written to disk: without the secrets in its agent's command.
    #[must_use]
    pub fn redacted(&self, workspace: &Workspace) -> AttemptRecord {
        let mut record = self.clone();
        record.call = record.call.map(|call| call.redacted(&workspace.secrets()));
        record
    }

    /// Writes which process works for the attempt, or that none does any more.
    ///
    /// # Errors
    /// I/O errors.
    pub fn note_process(&self, workspace: &Workspace) -> Result<()> {
        let noted = workspace.state.update_attempt(&self.name(), &self.redacted(workspace));
        noted.context("record the agent's process")
    }

    /// Returns the repository where the attempt works.
    ///
    /// # Errors
    /// The slot no longer exists.
    pub fn tree(&self, workspace: &Workspace) -> Result<Rc<Repo>> {
        match &self.slot {
            None => Ok(Rc::clone(&workspace.repo)),
            Some(slot) => {
                ensure!(slot.path.exists(), "`{}` is gone", slot.path.display());
                git::remove_special_files(&slot.path)
                    .with_context(|| format!("cannot clean the slot `{}`", slot.path.display()))?;
                // Git searches the parent folders if a folder is no repository. Reject that match.
                let tree = workspace.repo.slots().discover(&slot.path).ok();
                let tree = tree.filter(|tree| tree.is_top(&slot.path));
                tree.map(Rc::new).with_context(|| {
                    format!(
                        "`{}` is no longer a slot; take the files that you want, and remove it",
                        slot.path.display()
                    )
                })
            }
        }
    }

    /// Writes the record to disk.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write(&self, workspace: &Workspace) -> Result<()> {
        let kept = self.redacted(workspace);
        workspace.state.write_attempt(&self.name(), &kept).context("record the attempt")
    }

    /// Returns the value of `RALPH_ATTEMPT_ID` in the environment of every process of the attempt.
    pub fn mark(&self) -> String {
        format!("{}.{}", self.run_id, self.name())
    }

    /// Waits for the guardian to end the process tree, as it does when its run is gone, and ends
    /// the remaining processes. Returns their names.
    pub fn end_all(&self, workspace: &Workspace) -> Vec<String> {
        let began = Instant::now();
        while self.guardian.as_ref().is_some_and(process::is_alive) && began.elapsed() < GUARDIAN {
            thread::sleep(Duration::from_millis(2));
        }
        let record = workspace.state.attempt(&self.name());
        let entry = format!("RALPH_ATTEMPT_ID={}", self.mark());
        process::kill_marked(Some(&entry), &record).into_iter().map(|member| member.name).collect()
    }

    /// Returns how the agent ended, if its guardian recorded that, and the agent and everything it
    /// started had ended before its run did.
    pub fn outcome_left(&self, workspace: &Workspace) -> Option<Outcome> {
        let text = regular_file::read(&workspace.state.exit(&self.name())).ok()?;
        let exit: process::guard::AgentExit = serde_json::from_slice(&text).ok()?;
        (!exit.cut_off).then_some(exit.outcome)
    }

    /// Whether its agent was sent to a worker, which may have started it.
    pub fn was_sent(&self, workspace: &Workspace) -> bool {
        process::sent_sign(&workspace.state.exit(&self.name())).exists()
    }

    /// Returns the files for the output of the agent when it is fetched as a whole.
    pub fn fetched_output(&self, workspace: &Workspace) -> [PathBuf; 2] {
        OUTPUT.map(|name| self.file(workspace, &format!("{name}.fetched")))
    }

    /// Removes these files.
    pub fn remove_fetched_output(&self, workspace: &Workspace) {
        for file in self.fetched_output(workspace) {
            let _ = fs::remove_file(file);
        }
    }

    /// Replaces the output of the agent by the output that was fetched with its end, if it was. A part
    /// that is missing here was on its way when the guardian was lost.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn take_fetched_output(&self, workspace: &Workspace) -> Result<()> {
        match self.outcome_left(workspace) {
            None
            | Some(Outcome::Interrupted | Outcome::Lost { .. } | Outcome::NotStarted { .. }) => {
                return Ok(());
            }
            Some(_) => {}
        }
        for (name, fetched) in OUTPUT.into_iter().zip(self.fetched_output(workspace)) {
            let own = self.file(workspace, name);
            let length = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
            if length(&fetched) >= length(&own) && fetched.exists() {
                fs::rename(&fetched, &own)
                    .with_context(|| format!("replace `{}`", own.display()))?;
            }
        }
        Ok(())
    }

    /// Returns when the processes of an attempt that an earlier run left last showed a sign of life:
    /// their end, or else their last output.
    pub fn last_sign(&self, workspace: &Workspace) -> DateTime<Utc> {
        let changed = |path: PathBuf| path.metadata().and_then(|found| found.modified()).ok();
        let output = ["stdout", "stderr"].map(|name| changed(self.file(workspace, name)));
        let end = changed(workspace.state.exit(&self.name()));
        let last = end.or(output.into_iter().flatten().max());
        last.map_or_else(Utc::now, DateTime::from)
    }

    /// Returns the transcript of the agent, and the provider error that stopped it, if any.
    pub fn transcript(
        &self,
        workspace: &Workspace,
        outcome: &Outcome,
    ) -> (AgentTranscript, Option<ProviderErrorKind>) {
        /// The number of bytes to read from the end of standard error.
        const ERRORS: u64 = 4 * 1024;
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        let transcript = agent_output::transcript(&self.file(workspace, "stdout"), format);
        let stderr = agent_output::end(&self.file(workspace, "stderr"), ERRORS);
        let streams = self.call.as_ref().is_some_and(AgentCommand::streams);
        let remains =
            AttemptOutput { format, streams, transcript: &transcript, outcome, stderr: &stderr };
        let error_kind = provider_error::classify(&remains, &Local::now());
        (transcript, error_kind)
    }

    /// Returns the last message of the agent: its result, or its last output.
    pub fn last_words(&self, workspace: &Workspace) -> String {
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        let transcript = agent_output::transcript(&self.file(workspace, "stdout"), format);
        let is_blank = |text: &String| text.trim().is_empty();
        let last = transcript.last_line().map(str::to_owned);
        let result = transcript.end.map(|end| end.text).filter(|text| !is_blank(text));
        // Intermediate messages of typed output are not a result.
        let words = transcript.message.filter(|_| format == Format::Text);
        let text = result.or(words).or(last).unwrap_or_default();
        if self.terminal { terminal::plain(&text).into_owned() } else { text }
    }

    /// Returns the end of the agent's standard error, if its output is plain text. The result of an
    /// agent with typed output is on standard output.
    pub fn last_errors(&self, workspace: &Workspace) -> String {
        let format = self.call.as_ref().map(|call| call.output).unwrap_or_default();
        if format != Format::Text {
            return String::new();
        }
        terminal::plain(&agent_output::failure(&self.file(workspace, "stderr"))).into_owned()
    }

    /// Removes the lock files that killed git processes of the attempt left, and returns their
    /// names. The whole attempt must be dead: newer lock files are then its own, unless another git
    /// process works here.
    pub fn unlock(&self, tree: &Repo) -> Vec<String> {
        let began = self.started_at.timestamp();
        let is_ours = |path: &PathBuf| {
            let modified = fs::symlink_metadata(path).map(|found| found.mtime());
            // Compare whole seconds, because some file systems store no fractions.
            (!self.locks.contains(path) || crate::core::known_bug::is_on("remove-a-persons-lock"))
                && modified.is_ok_and(|modified| modified >= began)
        };
        let mut locks: Vec<PathBuf> = tree.locks().into_iter().filter(is_ours).collect();
        if self.slot.is_some() {
            // Other lock files may belong to an attempt that is still running.
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

    /// Removes the record of a closed attempt.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn forget(&self, workspace: &Workspace) -> Result<()> {
        workspace.state.remove_attempt(&self.name()).context("close the attempt")
    }

    /// Returns the path of a file in the attempt's folder.
    pub fn file(&self, workspace: &Workspace, name: &str) -> PathBuf {
        workspace.root().join(&self.log).join(name)
    }
}
