//! Reviews outside of a run: landed work, with or without a planted defect, is given to the reviewer as
//! work of a run is, in a slot of its own.

use std::{path::PathBuf, sync::mpsc, time::Duration};

use anyhow::{Context, Result};

use super::{
    RunOptions,
    context::RunContext,
    reviewer,
    side_agent::{self, REVIEWER, SideAnswer, SideProcess},
};
use crate::{
    adapters::{git::Repo, process::GuardianProgram, state::Lock},
    core::{
        agents::{
            agent_command::AgentCommand, provider_error::ProviderErrorKind, transcript::Usage,
        },
        commit_id::CommitId,
        graph::{TaskGraph, task::TaskId},
        history::History,
        outcome::Outcome,
        reviewer::WorkReview,
        verdict::Evidence,
    },
    project::{
        attempt::{self, SlotAssignment},
        workspace::Workspace,
    },
};

/// What reviews landed work.
pub struct ReviewBench {
    cx: RunContext,
    call: AgentCommand,
    run_id: String,
}

/// Landed work that is reviewed again.
pub struct BenchWork<'a> {
    /// The task.
    pub task_id: &'a TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// Where the attempt ran, if not here.
    pub run_on: Option<&'a str>,
    /// The evidence of the attempt.
    pub evidence: Evidence,
    /// The branch that it landed on.
    pub branch: String,
    /// The commit below it.
    pub base: CommitId,
    /// Its last commit, as it landed.
    pub last: CommitId,
    /// The slot, which has it checked out as one commit.
    pub slot: PathBuf,
    /// The folder for the prompt and the output, relative to the repository.
    pub log: String,
}

/// What a reviewer answered.
pub struct BenchAnswer {
    /// The review.
    pub review: WorkReview,
    /// How its process ended.
    pub outcome: Outcome,
    /// The reported usage.
    pub usage: Usage,
    /// What its provider refused it for.
    pub error: Option<ProviderErrorKind>,
    /// Its wall time.
    pub took: Duration,
}

impl ReviewBench {
    /// Opens the bench with the reviewer of the settings; its processes end with the holder of the lock.
    ///
    /// # Errors
    /// The reviewer cannot be started.
    pub fn open(workspace: Workspace, lock: &Lock, run_id: String) -> Result<ReviewBench> {
        let author = workspace.config.agent.calls.first().cloned();
        let call = reviewer::reviewer_of(&workspace, author.as_ref());
        let hint = "change `by` of `review` in `.ralph/config.yaml`";
        super::check_agent(&call, &workspace, hint)?;
        let guardians =
            GuardianProgram::new(lock.folder()).context("hold the lock for the reviewer")?;
        let (options, policy) = (RunOptions::default(), workspace.policy());
        // No run takes its news.
        let (outbox, _) = mpsc::channel();
        let (target, home) = (None, None);
        let cx = RunContext { workspace, options, policy, guardians, target, home, outbox };
        Ok(ReviewBench { cx, call, run_id })
    }

    /// The name of the reviewer.
    pub fn reviewer(&self) -> &str {
        &self.call.name
    }

    /// The repository.
    pub fn workspace(&self) -> &Workspace {
        &self.cx.workspace
    }

    /// Has work reviewed that is checked out in its slot, while `goes_on` is true and what it reports to
    /// have cost is not more than what is `left`.
    ///
    /// # Errors
    /// The prompt cannot be rendered; errors of git and of the disk.
    pub fn review(
        &self,
        facts: (&TaskGraph, &History),
        work: BenchWork<'_>,
        left: Option<f64>,
        goes_on: impl Fn() -> bool,
    ) -> Result<BenchAnswer> {
        let workspace = &self.cx.workspace;
        let repo = Repo::discover(&work.slot)?;
        let head = repo.head()?.commit.context("the slot has no commit")?;
        let (log, attempt) = (work.log, work.attempt);
        std::fs::create_dir_all(workspace.root().join(&log))
            .with_context(|| format!("create `{log}`"))?;
        let begun = attempt::begin(workspace, &self.run_id, 0, work.task_id, attempt, log.clone());
        let slot = SlotAssignment { path: work.slot, target: work.branch, landing: None };
        let record = begun.in_slot(slot, work.base);
        let (run_on, call) = (work.run_on.map(str::to_owned), Some(self.call.clone()));
        let record = attempt::AttemptRecord { run_on, log, call, ..record };
        let mut evidence = work.evidence;
        // In the slot, its commits are one.
        evidence.commits.drain(..evidence.commits.len().saturating_sub(1));
        if let Some(commit) = evidence.commits.last_mut() {
            commit.id = head.clone();
        }
        reviewer::write_prompt(workspace, facts, &record, (&repo, &evidence, &head))?;
        let process = SideProcess::of(&self.cx, facts.0, &record, (REVIEWER, left));
        let ended = process.map(|process| process.run(goes_on));
        let took = ended.as_ref().map(|(_, took)| *took).unwrap_or_default();
        let answer = side_agent::answer_of(workspace, &record, ended.map(|(outcome, _)| outcome));
        let review = reviewer::review_of(workspace, &record, &work.last, &answer);
        let SideAnswer { outcome, usage, error, .. } = answer;
        Ok(BenchAnswer { review, outcome, usage, error, took })
    }
}
