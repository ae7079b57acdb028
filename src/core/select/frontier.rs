//! The tasks that can start, and what the others of the frontier wait for.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::{SelectionKey, TaskConflict, TaskState, View};

/// What a decision needs to know of the frontier.
#[derive(Default)]
pub(super) struct FrontierScan<'a> {
    /// The first task that can start.
    pub(super) best: Option<SelectionKey>,
    /// When the first of the others can start, and whether a provider keeps it.
    pub(super) wake: Option<(DateTime<Utc>, bool)>,
    /// The tasks that wait for files.
    pub(super) conflicting: Vec<SelectionKey>,
    /// The executors that are out and that tasks need.
    pub(super) away: BTreeSet<&'a str>,
    /// A task whose agents are all denied access.
    pub(super) denied: Option<usize>,
    /// Whether a task is in progress elsewhere or needs input.
    pub(super) elsewhere: bool,
}

impl<'a> FrontierScan<'a> {
    /// Looks through the frontier. With `only_better`, tasks that come after one that can start are
    /// left out: a night of thousands of ready tasks takes as many decisions.
    pub(super) fn of(view: &View<'a>, now: DateTime<Utc>, only_better: bool) -> FrontierScan<'a> {
        let mut scan = FrontierScan::default();
        for number in view.frontier() {
            // What happens to a task only moves its key back.
            if only_better && scan.best.is_some_and(|best| view.keys[number] >= best) {
                continue;
            }
            match view.state(number, now) {
                TaskState::Ready => {
                    let key = view.key(number);
                    scan.best = Some(scan.best.map_or(key, |best| best.min(key)));
                }
                state @ (TaskState::Retrying(until) | TaskState::RateLimited(until)) => {
                    let this = (until, matches!(state, TaskState::RateLimited(_)));
                    scan.wake = Some(scan.wake.map_or(this, |wake| wake.min(this)));
                }
                TaskState::Conflicting => {
                    let conflict = view.conflict(number, now);
                    let waits_for_files = matches!(conflict, Some(TaskConflict::Touches(_)));
                    scan.conflicting.extend(waits_for_files.then(|| view.key(number)));
                }
                TaskState::Unreachable(_) => {
                    scan.away.extend(view.policy.places(view.place(number)));
                }
                TaskState::Denied => scan.denied = Some(number),
                TaskState::Claimed | TaskState::Unclaimed | TaskState::NeedsInput => {
                    scan.elsewhere = true;
                }
                TaskState::Complete
                | TaskState::Cancelled
                | TaskState::Running
                | TaskState::Parked(_)
                | TaskState::Spent
                | TaskState::Blocked
                | TaskState::OnBranch
                | TaskState::Waiting => {}
            }
        }
        scan
    }
}
