//! The work in the merge queue, its trials, and the result of a step.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    commit_id::CommitId,
    event::Event,
    run::{
        command::{AttemptId, RunCommand, TrialRun},
        verified_work::{BuiltCommit, VerifiedWork, WorkLanding},
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
    /// Whether a command of the setup failed for it in a slot as it was: it was tried in a new one.
    pub(in crate::run) is_fresh: bool,
    /// How often in a row a command failed on it and then passed on the same tree.
    pub(in crate::run) flaky: u32,
    /// The work that it conflicts with and that may not land: it is tried again without it.
    pub(in crate::run) after: Vec<AttemptId>,
}

/// Work in a trial, on top of the trial before it or of the tip.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) struct QueueTrial {
    pub(super) work: QueuedWork,
    pub(super) onto: CommitId,
    /// The number of its slot.
    pub(super) slot: usize,
    pub(super) began: Instant,
    pub(super) stage: TrialStage,
}

/// The step of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) enum TrialStage {
    /// The work is being combined with its base.
    Building,
    /// The commands that verify it run.
    Verifying {
        /// The work on top of that.
        built: BuiltCommit,
        /// The files that differed from the last commit before the first command.
        changed: Vec<String>,
        /// The commands that must pass.
        required: Vec<String>,
    },
    /// It passed, and lands when it is the first.
    Passed(VerifiedWork),
    /// The tip is being moved.
    Landing(VerifiedWork),
}

impl QueueTrial {
    pub(super) fn is_building(&self) -> bool {
        self.stage == TrialStage::Building
    }

    /// The files whose conflicts were resolved for its work.
    pub(super) fn resolved(&self) -> Vec<String> {
        let TrialStage::Verifying { built, .. } = &self.stage else { return Vec::new() };
        ResolvedConflict::paths(&built.resolved)
    }

    /// Its last commit, once it is built.
    pub(super) fn tip(&self) -> Option<&CommitId> {
        match &self.stage {
            TrialStage::Building => None,
            TrialStage::Verifying { built, .. } => Some(&built.commit),
            TrialStage::Passed(verified) | TrialStage::Landing(verified) => Some(verified.tip()),
        }
    }
}

/// The end of the landing of an attempt.
#[derive(Debug, PartialEq)]
pub(in crate::run) struct EndedLanding {
    pub(in crate::run) id: AttemptId,
    pub(in crate::run) landing: WorkLanding,
}

/// The landing of verified work.
pub(super) fn landing(work: &QueuedWork, verified: &VerifiedWork, waits: bool) -> EndedLanding {
    let (branch, built) = (verified.branch().to_owned(), verified.built().clone());
    let (commit, resolved) = (built.commit.clone(), built.resolved.clone());
    let merge = Merge::Landed { branch, commit, waits, resolved };
    let checks = verified.results().iter();
    let checks = checks.filter(|check| work.verify.contains(&check.command)).cloned().collect();
    let landing = WorkLanding { merge, checks, built: Some(built) };
    EndedLanding { id: work.id.clone(), landing }
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

/// The result of a step of the merge queue.
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

/// The commands that must pass for this work: the setup, unless the slot is set up, and its verify
/// commands, each once.
pub(super) fn required(work: &QueuedWork, is_set_up: bool) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let verify = work.verify.iter().filter(|command| seen.insert(*command));
    let verify: Vec<&String> = verify.collect();
    let is_due = !verify.is_empty() && !is_set_up;
    let setup = work.setup.iter().filter(|_| is_due);
    setup.chain(verify).cloned().collect()
}

/// The end of work that cannot land.
pub(super) fn ended(work: QueuedWork, merge: Merge, checks: Vec<CheckResult>) -> LandingNext {
    let landing = WorkLanding { merge, checks, built: None };
    let ended = vec![EndedLanding { id: work.id, landing }];
    LandingNext { ended, ..LandingNext::default() }
}
