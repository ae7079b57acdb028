//! The limits of a process of an attempt. This module reads no clock: time is an argument.

use std::time::{Duration, Instant};

use crate::{duration, event::Orphans, verdict::Outcome};

/// The limits of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// When it started.
    pub started: Instant,
    /// Its longest wall time.
    pub limit: Duration,
    /// The idle limit, if there is one.
    pub idle: Option<Duration>,
}

/// The grace periods of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriods {
    /// Between asking a process to end and killing it.
    pub kill: Duration,
    /// After SIGTERM, for an attempt to end by itself.
    pub term: Duration,
    /// After its final result or its report, for an agent to exit.
    pub exit: Duration,
    /// For processes that an agent left running after its report.
    pub children: Duration,
    /// Whether those that do not end in time are killed or left running.
    pub on_orphans: Orphans,
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// It has not ended after an interrupt, so it must be terminated.
    Interrupt,
    /// Its grace period is over, so it must be killed.
    Grace,
    /// It was to be killed, and its guardian does not answer, so the guardian must be killed.
    Unanswered,
    /// It must end, beginning with this signal, for this reason.
    End(EndSignal, String),
    /// The wait for the remaining child processes is over.
    Children,
}

/// The first signal to a process that must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGINT, on which some agents print their result, with their cost.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl EndSignal {
    /// Returns the first signal for a process that is ended with this outcome. An agent at rest after
    /// its result would print another one on SIGINT, and shell commands print none.
    fn of(outcome: &Outcome, is_agent: bool, has_result: bool) -> EndSignal {
        match outcome {
            Outcome::TimedOut { .. }
            | Outcome::Idle { .. }
            | Outcome::Cancelled
            | Outcome::OverCost
                if is_agent =>
            {
                EndSignal::Interrupt
            }
            Outcome::Lingered { .. } if is_agent && !has_result => EndSignal::Interrupt,
            Outcome::TimedOut { .. }
            | Outcome::Idle { .. }
            | Outcome::Cancelled
            | Outcome::OverCost
            | Outcome::Lingered { .. }
            | Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::Interrupted
            | Outcome::Lost { .. }
            | Outcome::Exceeded { .. }
            | Outcome::NotStarted { .. } => EndSignal::Terminate,
        }
    }
}

/// A process that is being ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ending {
    outcome: Outcome,
    /// When SIGTERM follows an interrupt.
    terminate_at: Option<Instant>,
    kill_at: Instant,
}

/// The time for a guardian to report the end of a process after a request to kill it. It takes ten
/// seconds to give up on a process that does not die, and five on a stream that does not end.
pub const UNANSWERED: Duration = Duration::from_secs(20);

/// The time for the report of its exit to arrive once contact is restored.
const NEWS: Duration = Duration::from_secs(10);

/// A process of an attempt with its limits and deadlines.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessWatch {
    limits: ProcessLimits,
    is_agent: bool,
    /// The deadline after a request to stop the run.
    cancel_at: Option<Instant>,
    /// The deadline after its final result, and whether its background tasks still run.
    exit_by: Option<(Instant, bool)>,
    /// The deadline after its report, whatever it does after that.
    report_by: Option<Instant>,
    /// Whether it has exited, and only its work is on the way here.
    has_exited: bool,
    /// Whether there is no contact with it: it may have exited.
    is_silent: bool,
    /// When there was contact again.
    heard_at: Option<Instant>,
    /// Why it is being ended, and when the next signals follow.
    ending: Option<Ending>,
    /// When it was first to be killed.
    killed_at: Option<Instant>,
    children: ChildWait,
}

/// The wait for the remaining child processes of an agent that has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildWait {
    /// It has not begun.
    No,
    /// It ends at this time.
    By(Instant),
    /// Its end was reached, or is too far away for the clock.
    Over,
}

impl ProcessWatch {
    /// Watches a process with these limits.
    pub fn new(limits: ProcessLimits, is_agent: bool) -> ProcessWatch {
        ProcessWatch {
            limits,
            is_agent,
            cancel_at: None,
            exit_by: None,
            report_by: None,
            has_exited: false,
            is_silent: false,
            heard_at: None,
            ending: None,
            killed_at: None,
            children: ChildWait::No,
        }
    }

    /// The limits.
    pub fn limits(&self) -> &ProcessLimits {
        &self.limits
    }

    /// Whether it is being ended.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Why it was ended, if `ralph` did so.
    pub fn ending(&self) -> Option<&Outcome> {
        self.ending.as_ref().map(|ending| &ending.outcome)
    }

    /// The time until a limit of the process is reached.
    pub fn patience(&self, now: Instant) -> Duration {
        let until = |at: Instant| at.saturating_duration_since(now);
        if let Some(ending) = &self.ending {
            return until(ending.terminate_at.unwrap_or(ending.kill_at));
        }
        let running = now.saturating_duration_since(self.limits.started);
        let limit = self.limits.limit.saturating_sub(running);
        let others = self.cancel_at.into_iter().chain(self.exit_deadline());
        let children = if let ChildWait::By(at) = self.children { Some(at) } else { None };
        let others = others.chain(children);
        others.fold(limit, |limit, at| limit.min(until(at)))
    }

    /// Extends every limit by the time for which the process was suspended.
    pub fn postpone(&mut self, length: Duration) {
        self.limits.started += length;
        let exit_by = self.exit_by.as_mut().map(|(at, _)| at);
        let ending = self.ending.iter_mut();
        let ending = ending.flat_map(|it| it.terminate_at.iter_mut().chain([&mut it.kill_at]));
        let children = if let ChildWait::By(at) = &mut self.children { Some(at) } else { None };
        let own = self.cancel_at.iter_mut().chain(&mut self.report_by).chain(&mut self.killed_at);
        for at in own.chain(exit_by).chain(ending).chain(children) {
            *at += length;
        }
    }

    /// Notes that there is no contact with the process, or again. Meanwhile it may have exited.
    pub fn contact(&mut self, is_lost: bool, now: Instant) {
        self.is_silent = is_lost;
        self.heard_at = Some(now).filter(|_| !is_lost);
    }

    /// Extends every limit by the time that the work of a process needs to get here, which has exited.
    pub fn extend(&mut self, length: Duration) {
        self.has_exited = true;
        let started = self.limits.started;
        self.postpone(length);
        self.limits.started = started;
        self.limits.limit = self.limits.limit.saturating_add(length);
    }

    /// Records that it is being ended with this outcome, and returns the first signal for it. SIGKILL
    /// follows after the grace period.
    pub fn end(&mut self, outcome: Outcome, now: Instant, graces: &GracePeriods) -> EndSignal {
        /// The longest time between SIGINT and SIGTERM. Claude Code prints its result at once.
        const INTERRUPT: Duration = Duration::from_secs(2);
        let signal = EndSignal::of(&outcome, self.is_agent, self.exit_by.is_some());
        let terminate_at = match signal {
            EndSignal::Interrupt => Some(now + INTERRUPT.min(graces.kill / 2)),
            EndSignal::Terminate => None,
        };
        self.ending = Some(Ending { outcome, terminate_at, kill_at: now + graces.kill });
        signal
    }

    /// Records that it is killed because the run was asked to stop twice.
    pub fn killed(&mut self, now: Instant) {
        // After a first TERM it is not being ended yet; without this its end would count as a
        // failure.
        let kill_at = now + Duration::from_secs(1);
        let ending = Ending { outcome: Outcome::Cancelled, terminate_at: None, kill_at };
        self.ending.get_or_insert(ending).terminate_at = None;
        self.killed_at.get_or_insert(now);
    }

    /// Sets the deadline for it to end by itself.
    pub fn cancel_at(&mut self, at: Instant) {
        self.cancel_at = Some(at);
    }

    /// Records whether it has given its final result, and whether its background tasks still run.
    pub fn final_result(&mut self, busy: Option<bool>, now: Instant, grace: Duration) {
        /// The grace period while background tasks run. Claude Code waits for its background tasks
        /// and ends them itself after ten minutes.
        const BACKGROUND: Duration = Duration::from_secs(5 * 60);
        self.exit_by = busy.map(|busy| {
            let grace = if busy { BACKGROUND.max(grace) } else { grace };
            let same = self.exit_by.filter(|(_, before)| *before == busy);
            same.unwrap_or((now + grace, busy))
        });
    }

    /// Records that it has reported.
    pub fn reported(&mut self, now: Instant, grace: Duration) {
        self.report_by = self.report_by.or_else(|| now.checked_add(grace));
    }

    /// The time at which it must have exited. Once it has, its children have a limit of their own.
    fn exit_deadline(&self) -> Option<Instant> {
        let exit_by = self.exit_by.map(|(at, _)| at).into_iter().chain(self.report_by).min();
        let exit_by = exit_by.map(|at| self.heard_at.map_or(at, |heard| at.max(heard + NEWS)));
        exit_by.filter(|_| self.children == ChildWait::No && !self.has_exited && !self.is_silent)
    }

    /// Whether the run waits for its remaining child processes.
    pub fn waits_for_children(&self) -> bool {
        self.children != ChildWait::No
    }

    /// Whether its remaining child processes have ended in time, since it has.
    pub fn children_ended(&self) -> bool {
        matches!(self.children, ChildWait::By(_)) && self.ending.is_none()
    }

    /// Starts the wait for its remaining child processes.
    pub fn wait_for_children(&mut self, now: Instant, length: Duration) {
        self.children = now.checked_add(length).map_or(ChildWait::Over, ChildWait::By);
    }

    /// Returns the limit that is reached now, if one is.
    pub fn reached(&mut self, now: Instant, graces: &GracePeriods) -> Option<LimitReached> {
        if let Some(Ending { terminate_at, kill_at, .. }) = &mut self.ending {
            if now < *kill_at {
                return terminate_at.take_if(|at| now >= *at).map(|_| LimitReached::Interrupt);
            }
            *kill_at += Duration::from_secs(1);
            let killed_at = *self.killed_at.get_or_insert(now);
            let waited = now.saturating_duration_since(killed_at);
            return Some(if waited < UNANSWERED {
                LimitReached::Grace
            } else {
                LimitReached::Unanswered
            });
        }
        let ProcessLimits { started, limit, .. } = self.limits;
        let reached = |at: Instant| now >= at;
        let (outcome, why) = if now.saturating_duration_since(started) >= limit {
            let limit_seconds = limit.as_secs();
            let why = format!("time limit of {} reached", duration::short(limit));
            (Outcome::TimedOut { limit_seconds }, why)
        } else if self.exit_deadline().is_some_and(reached) {
            let limit_seconds = graces.exit.as_secs();
            let after = if self.report_by.is_some() { "report" } else { "final result" };
            let why = format!("it did not exit after its {after}");
            (Outcome::Lingered { limit_seconds }, why)
        } else if self.cancel_at.is_some_and(reached) {
            let why = format!("grace period of {} ended", duration::short(graces.term));
            (Outcome::Cancelled, why)
        } else {
            let ChildWait::By(at) = self.children else { return None };
            if now < at {
                return None;
            }
            self.children = ChildWait::Over;
            return Some(LimitReached::Children);
        };
        Some(LimitReached::End(self.end(outcome, now, graces), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACES: GracePeriods = GracePeriods {
        kill: Duration::from_secs(1),
        term: Duration::from_secs(1),
        exit: Duration::from_secs(1),
        children: Duration::from_secs(1),
        on_orphans: Orphans::Kill,
    };

    #[test]
    fn an_agent_that_has_exited_does_not_linger_while_its_work_is_on_the_way() {
        let (second, now) = (GRACES.kill, Instant::now());
        let limits = ProcessLimits { started: now, limit: 60 * second, idle: None };
        let mut watch = ProcessWatch::new(limits, true);
        watch.reported(now, second);
        assert!(watch.clone().reached(now + 2 * second, &GRACES).is_some());
        watch.extend(60 * second);
        // Its report may arrive after the notice of its end.
        watch.reported(now, second);
        assert_eq!(watch.reached(now + 100 * second, &GRACES), None);
        assert!(watch.reached(now + 120 * second, &GRACES).is_some());
    }

    #[test]
    fn an_agent_without_contact_does_not_linger() {
        let (second, now) = (GRACES.kill, Instant::now());
        let limits = ProcessLimits { started: now, limit: 600 * second, idle: None };
        let mut watch = ProcessWatch::new(limits, true);
        watch.reported(now, 30 * second);
        watch.contact(true, now + 20 * second);
        assert_eq!(watch.reached(now + 100 * second, &GRACES), None);
        watch.contact(false, now + 100 * second);
        assert_eq!(watch.clone().reached(now + 105 * second, &GRACES), None);
        assert!(watch.reached(now + 111 * second, &GRACES).is_some());
    }
}
