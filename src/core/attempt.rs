//! The state of an attempt on its way to the target branch: one enum, changed by one function.
//!
//! Only events change the state, so the runner, a status command and the next run
//! after a crash read the same state from the same journal.

use serde::{Deserialize, Serialize};

use crate::event::Event;

/// The state of an attempt that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It is recorded and claimed; its slot is being prepared or its first process is starting.
    Preparing,
    /// The commands of `setup` run in its slot.
    SettingUp,
    /// The verify commands run before its agent starts.
    Baseline,
    /// Its agent runs.
    Running,
    /// Its agent reported and exited; its remaining child processes may finish.
    WaitingForChildren,
    /// The verify commands run after its agent ended.
    Verifying,
    /// Its work passed and is queued to land.
    Queued,
    /// The merge queue verifies its work on top of the target branch, or moves the branch.
    Landing,
}

impl AttemptState {
    /// Every state, in the order in which an attempt passes through them.
    pub const ALL: [AttemptState; 8] = [
        AttemptState::Preparing,
        AttemptState::SettingUp,
        AttemptState::Baseline,
        AttemptState::Running,
        AttemptState::WaitingForChildren,
        AttemptState::Verifying,
        AttemptState::Queued,
        AttemptState::Landing,
    ];

    /// The state as a word for people.
    pub fn word(self) -> &'static str {
        match self {
            AttemptState::Preparing => "preparing",
            AttemptState::SettingUp => "setting up",
            AttemptState::Running => "running",
            AttemptState::WaitingForChildren => "waiting for children",
            AttemptState::Baseline | AttemptState::Verifying => "verifying",
            AttemptState::Queued => "queued",
            AttemptState::Landing => "landing",
        }
    }

    /// Whether its work has passed and only landing is left.
    pub fn has_passed(self) -> bool {
        match self {
            AttemptState::Queued | AttemptState::Landing => true,
            AttemptState::Preparing
            | AttemptState::SettingUp
            | AttemptState::Baseline
            | AttemptState::Running
            | AttemptState::WaitingForChildren
            | AttemptState::Verifying => false,
        }
    }

    /// Whether the merge queue is trying it.
    pub fn is_landing(self) -> bool {
        self == AttemptState::Landing
    }

    /// The state without a trial of the merge queue.
    fn out_of_trial(self) -> AttemptState {
        if self.is_landing() { AttemptState::Queued } else { self }
    }

    /// The state after an event that concerns the attempt; none when the event ends it.
    ///
    /// An event that ends a trial concerns every attempt, [`Event::Merging`] those in its batch,
    /// and every other event the attempt at its task.
    #[must_use]
    pub fn after(self, event: &Event) -> Option<AttemptState> {
        Some(match event {
            Event::Started { .. } => AttemptState::Preparing,
            Event::SettingUp { .. } if !self.is_landing() => AttemptState::SettingUp,
            Event::AgentStarted { .. }
            | Event::ChildrenEnded { .. }
            | Event::ChildrenOverdue { .. } => AttemptState::Running,
            Event::WaitingForChildren(_) => AttemptState::WaitingForChildren,
            // The journal records the checks of a trial under the first task of the batch.
            Event::Verifying { baseline, .. } if !self.is_landing() => verifying(*baseline),
            Event::Queued { .. } => AttemptState::Queued,
            Event::Merging(_) => AttemptState::Landing,
            Event::Split(_)
            | Event::MergeHeld(_)
            | Event::LoopStarted(_)
            | Event::Finished { .. } => self.out_of_trial(),
            Event::Completed(_)
            | Event::Failed(_)
            | Event::Interrupted(_)
            | Event::NeedsInput(_)
            | Event::RateLimited(_)
            | Event::Denied(_)
            | Event::Iterated(_)
            | Event::Withdrawn { .. } => return None,
            Event::AwaitingExecutor { .. }
            | Event::ExecutorUnreachable { .. }
            | Event::ExecutorReachable { .. }
            | Event::ContactLost { .. }
            | Event::ContactRegained { .. }
            | Event::GraphLoaded { .. }
            | Event::GraphRejected { .. }
            | Event::UncommittedFound { .. }
            | Event::SettingsLoaded { .. }
            | Event::SettingsRejected { .. }
            | Event::SourceRefreshed(_)
            | Event::SourceUpdated(_)
            | Event::SourceFailed(_)
            | Event::RecordDamaged { .. }
            | Event::GraphGuarded { .. }
            | Event::DoneRemoved { .. }
            | Event::AgentChanged(_)
            | Event::CheckoutRestored(_)
            | Event::SlotKept { .. }
            | Event::WorkRestored { .. }
            | Event::SettingUp { .. }
            | Event::Reported { .. }
            | Event::Asked { .. }
            | Event::Answered(_)
            | Event::Noted { .. }
            | Event::Verifying { .. }
            | Event::Verified(_)
            | Event::VerifyFailed(_)
            | Event::VerifyPostponed { .. }
            | Event::ChildStarted(_)
            | Event::ChildStopRequested(_)
            | Event::ChildEnded(_)
            | Event::Terminating { .. }
            | Event::Promised { .. }
            | Event::Parked { .. }
            | Event::Recovered { .. }
            | Event::StatusChanged { .. }
            | Event::TaskEdited { .. }
            | Event::Drafted(_)
            | Event::Reset {}
            | Event::Waiting { .. }
            | Event::Blocked { .. }
            | Event::PauseRequested {}
            | Event::ResumeRequested { .. }
            | Event::StopRequested(_)
            | Event::Suspended {}
            | Event::Continued { .. }
            | Event::ClockSet { .. }
            | Event::HookFailed(_)
            | Event::NotifyFailed(_)
            | Event::Slept(_)
            | Event::Woken(_)
            | Event::WakeSkipped(_)
            | Event::ScheduleEnded { .. } => self,
        })
    }
}

/// The state while verify commands run, before or after the agent.
fn verifying(is_baseline: bool) -> AttemptState {
    if is_baseline { AttemptState::Baseline } else { AttemptState::Verifying }
}
