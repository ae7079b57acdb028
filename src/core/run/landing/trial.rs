//! The work in the merge queue, its trials, and what follows a step.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    commit_id::CommitId,
    event::{Batch, Event},
    run::{
        command::{AttemptId, RunCommand, TrialRun},
        verified_batch::{BuiltCommit, VerifiedBatch, WorkLanding},
    },
    verdict::{CheckResult, Merge, ResolvedConflict},
};

/// Work that is queued to land.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) struct QueuedWork {
    pub(in crate::run) id: AttemptId,
    pub(in crate::run) iteration: u32,
    pub(in crate::run) target: String,
    /// The commands that prepare a slot.
    pub(in crate::run) setup: Vec<String>,
    /// The commands that verify it.
    pub(in crate::run) verify: Vec<String>,
    /// Those among them that its task adds for its own work: they say nothing where that is missing.
    pub(in crate::run) own: Vec<String>,
    /// How often in a row a command failed on it and then passed on the same tree.
    pub(in crate::run) flaky: u32,
    /// The work that it conflicts with and that may not land: it is tried again without it.
    pub(in crate::run) after: Vec<AttemptId>,
}

/// Work in a trial, on top of the trial before it or of the tip.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) struct QueueTrial {
    /// At least one piece of work. The commands run as those of the first attempt.
    pub(super) members: Vec<QueuedWork>,
    pub(super) onto: CommitId,
    /// The number of the slot in which it is tried.
    pub(super) slot: usize,
    pub(super) began: Instant,
    pub(super) stage: TrialStage,
}

/// The step of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) enum TrialStage {
    /// The work of the members is being combined.
    Building,
    /// The commands that verify it run.
    Verifying {
        /// The work of each member on top of the members before it.
        commits: Vec<BuiltCommit>,
        /// The files that differed from the last commit before the first command.
        changed: Vec<String>,
        /// The commands that must pass.
        required: Vec<String>,
    },
    /// It passed, and lands when it is the first.
    Passed(VerifiedBatch),
    /// The tip is being moved.
    Landing(VerifiedBatch),
}

impl QueueTrial {
    pub(super) fn leader(&self) -> &QueuedWork {
        &self.members[0]
    }

    pub(super) fn is_building(&self) -> bool {
        self.stage == TrialStage::Building
    }

    /// The files whose conflicts were resolved for its last work.
    pub(super) fn resolved(&self) -> Vec<String> {
        let TrialStage::Verifying { commits, .. } = &self.stage else { return Vec::new() };
        commits.last().map_or_else(Vec::new, |built| ResolvedConflict::paths(&built.resolved))
    }

    /// Its last commit, once it is built.
    pub(super) fn tip(&self) -> Option<&CommitId> {
        match &self.stage {
            TrialStage::Building => None,
            TrialStage::Verifying { commits, .. } => commits.last().map(|built| &built.commit),
            TrialStage::Passed(batch) | TrialStage::Landing(batch) => Some(batch.tip()),
        }
    }
}

/// The end of the landing of an attempt.
#[derive(Debug, PartialEq)]
pub(in crate::run) struct EndedLanding {
    pub(in crate::run) id: AttemptId,
    pub(in crate::run) landing: WorkLanding,
}

/// The landings of the work in a batch.
pub(super) fn landings(
    members: &[QueuedWork],
    batch: &VerifiedBatch,
    waits: bool,
) -> Vec<EndedLanding> {
    let ended = members.iter().zip(batch.commits()).map(|(work, built)| {
        let (branch, commit) = (batch.branch().to_owned(), built.commit.clone());
        let merge = Merge::Landed { branch, commit, waits, resolved: built.resolved.clone() };
        let checks = batch.results().iter();
        let checks = checks.filter(|check| work.verify.contains(&check.command)).cloned();
        let landing = WorkLanding { merge, checks: checks.collect(), built: Some(built.clone()) };
        EndedLanding { id: work.id.clone(), landing }
    });
    ended.collect()
}

/// Commands to run as those of an attempt.
#[derive(Debug)]
pub(in crate::run) struct TrialChecks {
    pub(in crate::run) id: AttemptId,
    pub(in crate::run) run: TrialRun,
    pub(in crate::run) commands: Vec<String>,
    /// Whether they run while no others do.
    pub(in crate::run) alone: bool,
}

impl From<TrialChecks> for LandingNext {
    fn from(checks: TrialChecks) -> LandingNext {
        LandingNext { verify: Some(checks), ..LandingNext::default() }
    }
}

/// What follows a step of the merge queue.
#[derive(Debug, Default)]
pub(in crate::run) struct LandingNext {
    /// The commands to execute first.
    pub(in crate::run) commands: Vec<RunCommand>,
    /// The attempts to conclude.
    pub(in crate::run) ended: Vec<EndedLanding>,
    /// The commands to run as those of an attempt.
    pub(in crate::run) verify: Option<TrialChecks>,
    /// The attempts whose command is to be ended.
    pub(in crate::run) cancel: Vec<AttemptId>,
}

impl From<Vec<RunCommand>> for LandingNext {
    fn from(commands: Vec<RunCommand>) -> LandingNext {
        LandingNext { commands, ..LandingNext::default() }
    }
}

impl LandingNext {
    pub(super) fn and(mut self, other: LandingNext) -> LandingNext {
        self.commands.extend(other.commands);
        self.ended.extend(other.ended);
        self.verify = self.verify.or(other.verify);
        self.cancel.extend(other.cancel);
        self
    }
}

/// Returns the command that journals an event about an attempt.
pub(super) fn emit(work: &QueuedWork, event: impl Into<Event>) -> RunCommand {
    let about = (work.id.task_id.clone(), work.iteration);
    RunCommand::Emit(Some(about), Box::new(event.into()))
}

/// The commands that must pass for this work: the setup, unless the slot is set up, and the verify
/// commands of all.
pub(super) fn required(members: &[QueuedWork], is_set_up: bool) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let verify = members.iter().flat_map(|work| work.verify.iter());
    let verify: Vec<&String> = verify.filter(|command| seen.insert(*command)).collect();
    let setup = members.first().filter(|_| !verify.is_empty() && !is_set_up);
    let setup = setup.into_iter().flat_map(|work| work.setup.iter());
    setup.chain(verify).cloned().collect()
}

/// A trial as the journal has it.
pub(super) fn batch_of(members: &[QueuedWork], onto: &CommitId) -> Batch {
    let branch = members.first().map_or_else(String::new, |work| work.target.clone());
    let tasks = members.iter().map(|work| work.id.task_id.clone()).collect();
    Batch { branch, onto: onto.clone(), tasks }
}

/// The end of work that cannot land.
pub(super) fn ended(work: QueuedWork, merge: Merge, checks: Vec<CheckResult>) -> LandingNext {
    let landing = WorkLanding { merge, checks, built: None };
    let ended = vec![EndedLanding { id: work.id, landing }];
    LandingNext { ended, ..LandingNext::default() }
}
