//! The effects of the events of `event::attempt`.

use crate::{
    attempt::AttemptState,
    event::{AttemptEvent, CheckEvent, record::Record},
    history::{Effect, History},
    notification_kind::NotificationKind,
    spend::Spend,
};

impl Effect for AttemptEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        match self {
            AttemptEvent::Started { .. } => history.start(record, self),
            AttemptEvent::AgentChanged(change) => history.run.agent_change = Some(change.clone()),
            AttemptEvent::AgentStarted { placement, .. } => {
                history.active.with(record.task_id.as_ref(), |active| {
                    active.state = AttemptState::Running;
                    active.has_agent = true;
                    active.placement.clone_from(placement);
                });
            }
            AttemptEvent::AgentContinued { lack, .. } => {
                history.active.go_on(record.task_id.as_ref(), lack);
            }
            AttemptEvent::AgentEnded(end) => {
                let spend = Spend::of(&end.usage, &end.outcome, end.duration_seconds);
                history.active.with(record.task_id.as_ref(), |active| {
                    active.spent = Some((record.timestamp, spend));
                    // An earlier run had queued it; now it is judged again.
                    if active.state.is_queued() {
                        active.state = AttemptState::Verifying;
                    }
                });
            }
            AttemptEvent::WaitingForChildren(_) => {
                history.active.set_state(record.task_id.as_ref(), AttemptState::WaitingForChildren);
            }
            AttemptEvent::ChildrenEnded { .. } | AttemptEvent::ChildrenOverdue { .. } => {
                history.active.set_state(record.task_id.as_ref(), AttemptState::Running);
            }
            AttemptEvent::Promised { kept, .. } => history.run.promised |= kept,
            AttemptEvent::Recovered { .. }
            | AttemptEvent::WorkRestored { .. }
            | AttemptEvent::Terminating { .. }
            | AttemptEvent::Parked { .. }
            | AttemptEvent::CheckoutRestored(_)
            | AttemptEvent::SlotKept { .. } => {}
        }
    }

    fn notification(&self) -> Option<NotificationKind> {
        if let AttemptEvent::Parked { .. } = self {
            return Some(NotificationKind::Parked);
        }
        matches!(self, AttemptEvent::Recovered { .. }).then_some(NotificationKind::Recovered)
    }
}

impl Effect for CheckEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let at = record.timestamp;
        match self {
            CheckEvent::Proved { proof, .. } => history.with(record.task_id.as_ref(), |past| {
                (past.proof, past.awaits_proof) = (Some(Box::new(proof.clone())), None);
            }),
            CheckEvent::WorkReviewed(end) => {
                history.add_call(record, &end.spend());
                history.apply_review_error(at, end);
            }
            CheckEvent::Verified(_)
            | CheckEvent::VerifyFailed(_)
            | CheckEvent::Flaky(_)
            | CheckEvent::SettingUp { .. }
            | CheckEvent::Verifying { .. }
            | CheckEvent::VerifyPostponed { .. }
            | CheckEvent::Reviewing { .. }
            | CheckEvent::ReviewWaits(_) => {}
        }
        history.active.with(record.task_id.as_ref(), |active| {
            active.review_wait = None;
            let state = match self {
                CheckEvent::SettingUp { command, .. } => {
                    active.command = Some(command.clone());
                    AttemptState::SettingUp
                }
                CheckEvent::Verifying { command, .. } => {
                    (active.no_contact_since, active.command) = (None, Some(command.clone()));
                    AttemptState::Verifying
                }
                CheckEvent::Reviewing { slot, .. } => {
                    active.review_slot.clone_from(slot);
                    AttemptState::Reviewing
                }
                CheckEvent::ReviewWaits(wait) => {
                    active.review_wait = Some(wait.clone());
                    AttemptState::Reviewing
                }
                CheckEvent::WorkReviewed(end) => {
                    active.review_slot = None;
                    active.review = Some(Box::new(end.review.clone()));
                    AttemptState::Verifying
                }
                CheckEvent::Verified(_)
                | CheckEvent::VerifyFailed(_)
                | CheckEvent::Flaky(_)
                | CheckEvent::VerifyPostponed { .. }
                | CheckEvent::Proved { .. } => return,
            };
            // The journal records the checks of a trial under the first task of the batch.
            active.state = if active.state.is_queued() { AttemptState::Landing } else { state };
        });
    }
}
