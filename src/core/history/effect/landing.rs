//! The effects of the events of `event::landing`.

use crate::{
    event::{ExecutorEvent, LandingEvent, record::Record},
    history::{Effect, History},
    notification_kind::NotificationKind,
};

impl Effect for LandingEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let active = &mut history.active;
        match self {
            LandingEvent::Queued { .. } => {
                active.queue(record.task_id.as_ref(), record.timestamp);
            }
            LandingEvent::Merging(batch) => active.start_trial(batch),
            LandingEvent::MergeHeld(held) => {
                active.held = Some(held.clone());
                active.end_all_trials();
            }
            LandingEvent::CheckoutWaits(waiting) => active.waiting = Some(waiting.clone()),
            LandingEvent::CheckoutFollowed { .. } => active.waiting = None,
            LandingEvent::TipRed(red) => {
                history.with(record.task_id.as_ref(), |past| past.reopen(red));
            }
            LandingEvent::TakenBack(taken) => {
                let id = record.task_id.as_ref();
                history.with(id, |past| past.take_back(taken));
                history.run.landed.retain(|work| Some(&work.task_id) != id);
                if let Some(waiting) = &mut history.active.waiting {
                    waiting.tasks.retain(|waits| Some(waits) != id);
                }
            }
            LandingEvent::BranchRenamed { to, .. } => {
                history.run.begun.branch = Some(to.clone());
            }
            LandingEvent::WholeVerified { .. } => {}
        }
    }

    fn notification(&self) -> Option<NotificationKind> {
        let is_held = matches!(self, LandingEvent::MergeHeld(_) | LandingEvent::CheckoutWaits(_));
        is_held.then_some(NotificationKind::MergeHeld)
    }

    fn is_durable(&self) -> bool {
        matches!(self, LandingEvent::TipRed(_) | LandingEvent::TakenBack(_))
    }
}

impl Effect for ExecutorEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let id = record.task_id.as_ref();
        match self {
            ExecutorEvent::AwaitingExecutor { why, .. } => {
                history.active.with(id, |active| active.awaits = Some(why.clone()));
            }
            ExecutorEvent::Withdrawn { attempt, .. } => history.withdraw(record, *attempt),
            ExecutorEvent::ExecutorUnreachable { .. } => history.lose_executor(record, self),
            ExecutorEvent::ExecutorReachable { run_on } => {
                history.unreachable.remove(run_on);
            }
            ExecutorEvent::Contact { lost_since, .. } => {
                history.active.with(id, |active| active.no_contact_since = *lost_since);
            }
        }
    }
}
