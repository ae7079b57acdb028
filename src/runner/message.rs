//! The messages to a run, from its processes and from the threads that work for it.

use anyhow::Result;

use super::{
    engine::EngineWord, hooks::HookOutcome, processes::ClosedProcess, side_agent::SideNews,
};
use crate::{
    adapters::process::ProcessNews,
    core::{
        executor::{Executor, ExecutorFault, JobState},
        proof::Proof,
        run::{
            command::{AttemptId, PendingResult},
            input::{BuiltTrial, LandOutcome},
        },
        verdict::{Autocommit, Outcome},
    },
    project::{follower::Followed, slot_pool::PreparedSlot, suspect_slots::SuspectSlot},
};

/// A message to the run.
pub(super) enum RunnerMessage {
    /// The process of an attempt reported something.
    News(AttemptId, ProcessNews),
    /// The slot of an attempt was prepared, or preparing it failed.
    Prepared(AttemptId, Result<PreparedSlot>),
    /// The executor of an attempt does not answer, for this reason.
    Missed(AttemptId, ExecutorFault),
    /// The state of an attempt's job, from the cluster.
    Job(AttemptId, JobState),
    /// The executor of an attempt can be asked for its work, or cannot, for this reason.
    MayFetch(AttemptId, Result<Executor, String>),
    /// The executor of an attempt is not asked for its work any more.
    NotAsked(AttemptId),
    /// An executor's engine reported the fate of a process.
    Engine(AttemptId, Box<ClosedProcess>, EngineWord),
    /// Why a process of an earlier attempt may still work in a slot; none once it is proven that none
    /// does.
    Suspicion(SuspectSlot, Option<String>),
    /// The merge queue built a trial, or failed to.
    Built(AttemptId, Result<BuiltTrial>),
    /// The tip was moved, or moving it failed; and the state of the branch then.
    Landed(Result<LandOutcome>, Option<Result<Followed>>),
    /// The branch was to follow its tip.
    Followed(Result<Followed>),
    /// The proof of an attempt is there.
    Proved(AttemptId, Box<Proof>),
    /// An agent that looks at an attempt got on.
    SideAgent(AttemptId, SideNews),
    /// The hook at work ended.
    HookEnded(Result<HookOutcome>),
    /// A command that verifies the whole ended.
    WholeChecked(Outcome),
    /// The leftovers of an attempt were committed, or git refused; with the result that waits for it.
    Committed(AttemptId, Box<PendingResult>, Result<Option<Autocommit>>),
    /// A signal arrived.
    Signal(i32),
}
