//! What a run does when no task can start: why it stops when tasks are left, and what a plain loop
//! decides otherwise than a run over a graph.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashSet},
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, MAX_ITERATIONS, TaskState, View, Wait, backoff, key::unfinished};
use crate::{
    event::{Blocker, StopReason},
    graph::task::Status,
    history::{TaskHistory, UnreachableExecutor},
};

/// What a run does when no task can start: it waits, or stops, and why.
pub(super) struct Standstill<'v>(pub(super) &'v View<'v>);

impl Standstill<'_> {
    /// The reason to stop when no task can start: questions only, or other reasons too.
    pub(super) fn stuck(&self, now: DateTime<Utc>) -> StopReason {
        let blockers = self.0.blockers(now);
        let asks = |blocker: &Blocker| {
            let number = self.0.graph.number(&blocker.task_id);
            number.is_some_and(|number| self.0.state(number, now) == TaskState::NeedsInput)
        };
        let only_asks = blockers.iter().all(asks);
        if only_asks { StopReason::NeedsInput(blockers) } else { StopReason::Blocked(blockers) }
    }

    /// Returns the limit of the run that is reached, if one is.
    pub(super) fn limit(&self, now: DateTime<Utc>) -> Option<StopReason> {
        let run = &self.0.history.run;
        if self.0.policy.once && run.iterations > 0 {
            let once = StopReason::Once { completed: run.last_completed };
            return Some(self.0.denied_last().unwrap_or(once));
        }
        if run.promised {
            return Some(StopReason::Promised);
        }
        if let Some(why) = &run.baseline_broken {
            return Some(StopReason::BaselineBroken(why.clone()));
        }
        if let Some(why) = &run.bad_base {
            return Some(StopReason::BadBase(why.clone()));
        }
        if (1..=run.failures_in_a_row).contains(&self.max_failures()) {
            return Some(match &self.0.policy.plain {
                Some(_) => StopReason::Failures(run.failures_in_a_row),
                None => StopReason::FailedTasks(run.failed_tasks.clone()),
            });
        }
        if (1..=run.starts_failed).contains(&self.0.policy.start_limit) {
            return Some(StopReason::StartLimit(run.starts_failed));
        }
        let spend = self.0.history.spend();
        if let Some(reached) = self.0.policy.budget.reached(&spend, run.started_at, now) {
            return Some(StopReason::Limit(reached.to_string()));
        }
        if let Some(max) = iteration_limit_reached(self.0) {
            let limit = format!("{max} iteration{}", if max == 1 { "" } else { "s" });
            return Some(StopReason::Limit(limit));
        }
        self.restarts()
    }

    /// The request of a person to stop or pause the run. It is checked last: a run that has ended
    /// for another reason reports that reason.
    pub(super) fn requested(&self) -> Option<StopReason> {
        let name = || self.0.policy.plain.as_ref().map(|plain| plain.name.clone());
        let paused = self.0.history.paused.then(|| StopReason::Paused(name()));
        self.0.history.run.stop.as_ref().map(|_| StopReason::Stopped).or(paused)
    }

    /// The reason for a pause before the next attempt.
    pub(super) fn pausing(&self) -> &'static str {
        if self.0.policy.plain.is_some() && self.0.history.run.failures_in_a_row == 0 {
            "the next iteration"
        } else {
            "retrying after a failure"
        }
    }

    /// The reason to stop when all tasks are complete.
    pub(super) fn complete(&self) -> StopReason {
        if self.0.policy.plain.is_none() {
            return if self.0.policy.filter.selects_all() {
                StopReason::Complete
            } else {
                StopReason::SelectionComplete
            };
        }
        let run = &self.0.history.run;
        let task = self.0.graph.tasks().first().map(|task| self.0.history.of(&task.id));
        let last = task.and_then(|past| past.last.as_ref()).filter(|_| run.last_completed);
        let report = last.and_then(|last| last.ended.evidence.report);
        StopReason::Done { iterations: run.iterations, report }
    }

    /// The number of failures in a row that stops the run: of different tasks, or of iterations of a
    /// plain loop. 0 for no limit.
    pub(super) fn max_failures(&self) -> u32 {
        self.0.policy.plain.as_ref().map_or(self.0.policy.max_failures, |plain| plain.max_failures)
    }

    /// Returns the limit on restarts if it is reached.
    pub(super) fn restarts(&self) -> Option<StopReason> {
        let max = self.0.policy.plain.as_ref()?.max_restarts?;
        let limit = format!("{max} restart{}", if max == 1 { "" } else { "s" });
        (self.0.history.run.iterations > max).then_some(StopReason::Limit(limit))
    }

    /// Decides whether to wait for executors that are out. `other` is when a task on another
    /// executor can start, and whether a provider keeps it.
    pub(super) fn wait_for_executors(
        &self,
        away: &BTreeSet<&str>,
        other: Option<(DateTime<Utc>, bool)>,
    ) -> Decision {
        let other = other.map(|(until, _)| until);
        let longest = TimeDelta::from_std(self.0.policy.max_wait).unwrap_or(TimeDelta::MAX);
        let known = || {
            let known = |name: &&str| self.0.history.unreachable.get_key_value(*name);
            away.iter().filter_map(known)
        };
        let is_over =
            |known: &UnreachableExecutor| known.lasts || known.next_try - known.since > longest;
        // One that may come back is named first.
        let last = known().max_by_key(|(_, known)| (!known.lasts, known.since));
        if let Some((run_on, executor)) = last
            && other.is_none()
            && known().all(|(_, known)| is_over(known))
        {
            let others = known().filter(|(name, _)| *name != run_on);
            return Decision::Stop(StopReason::Unreachable {
                run_on: run_on.clone(),
                since: executor.since,
                why: executor.why.clone(),
                max_wait: (!executor.lasts).then_some(self.0.policy.max_wait),
                others: others.map(|(name, known)| (name.clone(), known.why.clone())).collect(),
            });
        }
        let texts = known().map(|(name, known)| known.text(name)).collect::<Vec<_>>();
        let until = self.0.first_try(away).into_iter().chain(other).min();
        Decision::Wait(Wait { until, why: texts.join("; ") })
    }
}

/// The default limit on the attempts of a run that starts now.
pub fn default_iterations(view: &View<'_>) -> u32 {
    attempts_of_tasks(view, None).max(MAX_ITERATIONS)
}

/// The attempts that the selected tasks may take: the open ones, and those that were completed
/// since then.
fn attempts_of_tasks(view: &View<'_>, since: Option<DateTime<Utc>>) -> u32 {
    let counts = |number: &usize| {
        let task = view.graph.task(*number);
        let last = || view.history.of(&task.id).last.as_ref();
        match task.status {
            Status::Cancelled => false,
            Status::Complete => {
                since.is_some_and(|since| last().is_some_and(|last| last.at >= since))
            }
            Status::Pending | Status::InProgress | Status::NeedsInput | Status::Blocked => true,
        }
    };
    let attempts = view.admitted().filter(counts).map(|number| view.max_attempts(number));
    attempts.fold(0, u32::saturating_add)
}

/// Returns the limit on attempts, if it is reached. By default it grows with the graph.
pub fn iteration_limit_reached(view: &View<'_>) -> Option<u32> {
    let run = &view.history.run;
    let grown = || attempts_of_tasks(view, run.started_at).saturating_add(run.begun.before);
    let max = view.policy.max_iterations.unwrap_or_else(|| {
        let first = run.begun.max_iterations.max(MAX_ITERATIONS);
        if run.used() < first { first } else { grown().max(first) }
    });
    (run.used() >= max).then_some(max)
}

impl View<'_> {
    /// Returns the pause after the newest attempt at a task.
    pub fn pause_after(&self, past: &TaskHistory) -> TimeDelta {
        let run = &self.history.run;
        match &self.policy.plain {
            None => backoff(past.counted.max(past.lost)),
            // The result of an earlier loop of this name does not delay this one.
            Some(_) if run.iterations == run.begun.before => TimeDelta::zero(),
            Some(plain) => {
                let delay = TimeDelta::from_std(plain.restart_delay()).unwrap_or(TimeDelta::MAX);
                if plain.fixed_delay { delay } else { delay.max(backoff(run.failures_in_a_row)) }
            }
        }
    }
}

// The blockers: the smallest set of tasks whose reset or completion frees all others.

impl View<'_> {
    /// Returns the smallest set of tasks whose reset or completion frees all selected tasks. Each
    /// is held up for its own reason. Questions are first, then the one that frees the most tasks.
    pub fn blockers(&self, now: DateTime<Utc>) -> Vec<Blocker> {
        let blocking = Blocking { view: self, now };
        let mut blocked: HashSet<usize> = HashSet::new();
        let mut roots: Vec<(usize, String)> = Vec::new();
        let mut stack: Vec<usize> = self.admitted().collect();
        // From the selected tasks down to their blockers, which the filter may exclude.
        while let Some(number) = stack.pop() {
            if !blocked.insert(number) {
                continue;
            }
            match blocking.own_reason(number) {
                Some(why) => roots.push((number, why)),
                None => stack.extend(self.waits_for(number)),
            }
        }
        blocking.rank(roots)
    }
}

/// Says that a task is parked, and after how many failed attempts: after none where the first one needs a
/// person.
pub fn parked_after(failed: u32) -> String {
    match failed {
        0 => "parked".to_owned(),
        1 => "parked after 1 attempt".to_owned(),
        count => format!("parked after {count} attempts"),
    }
}

/// What keeps tasks from being complete, at a time.
struct Blocking<'v> {
    view: &'v View<'v>,
    now: DateTime<Utc>,
}

impl Blocking<'_> {
    /// The reason why a task cannot start, if it is not a dependency.
    fn own_reason(&self, number: usize) -> Option<String> {
        match self.view.state(number, self.now) {
            TaskState::Claimed => Some("in progress outside of this run".to_owned()),
            TaskState::Unclaimed => Some(
                "in progress, but nobody claimed it: parked elsewhere, or set by hand".to_owned(),
            ),
            TaskState::Parked(attempts) => {
                let past = self.view.history.of(&self.view.graph.task(number).id);
                if let Some(reopened) = past.reopening().filter(|_| past.stuck) {
                    let (times, red) = (reopened.times, &reopened.red);
                    return Some(format!("parked, opened again {times} times: {red}"));
                }
                let last = past.last.as_ref().filter(|_| past.repeated > 0);
                let red = last.and_then(|last| last.ended.evidence.red());
                let same = red.map_or_else(String::new, |red| {
                    format!(", `{}` failed {} times in the same way", red.command, past.same)
                });
                Some(format!("{}{same}", parked_after(attempts)))
            }
            TaskState::NeedsInput => {
                let task = self.view.graph.task(number);
                let question = self.view.history.of(&task.id).question();
                let first = question.as_deref().and_then(|text| text.lines().next());
                Some(first.map_or("needs input".to_owned(), |text| format!("needs input: {text}")))
            }
            TaskState::Spent => {
                let spent = self.view.history.of(&self.view.graph.task(number).id).spend.cost();
                Some(format!("cost limit reached: {spent} spent"))
            }
            TaskState::Blocked => {
                let reason = &self.view.history.of(&self.view.graph.task(number).id).reason;
                let more = reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
                Some(format!("blocked by a person{more}"))
            }
            TaskState::OnBranch => {
                let branch = self.view.policy.elsewhere.get(&self.view.graph.task(number).id);
                branch.map(|branch| format!("complete on `{branch}`, not on this branch"))
            }
            TaskState::Cancelled => self
                .view
                .graph
                .dependents(number)
                .any(|d| unfinished(self.view.graph.task(d)))
                .then(|| "cancelled, but other tasks depend on it".to_owned()),
            TaskState::Ready if !self.view.policy.filter.admits(self.view.graph.task(number)) => {
                Some("ready, but excluded by the filters of this run".to_owned())
            }
            TaskState::Complete
            | TaskState::Running
            | TaskState::Ready
            | TaskState::Conflicting
            | TaskState::Retrying(_)
            | TaskState::RateLimited(_)
            | TaskState::Unreachable(_)
            | TaskState::Denied
            | TaskState::Waiting => None,
        }
    }

    /// Orders the roots, questions first, by the number of tasks that each frees once those before it are
    /// resolved.
    fn rank(&self, mut roots: Vec<(usize, String)>) -> Vec<Blocker> {
        /// The number of roots to rank. The others keep the order of the file, because each rank
        /// costs a pass.
        const RANKED: usize = 20;
        roots.sort_unstable();
        let asks = |root: usize| self.view.state(root, self.now) == TaskState::NeedsInput;
        let mut resolved: HashSet<usize> = HashSet::new();
        let mut blockers = Vec::new();
        while !roots.is_empty() && blockers.len() < RANKED {
            let (at, freed) = roots
                .iter()
                .enumerate()
                .map(|(at, (root, _))| (at, self.freed_by(*root, &resolved)))
                .max_by_key(|(at, freed)| (asks(roots[*at].0), freed.len(), Reverse(*at)))
                .expect("there is a root");
            let (root, why) = roots.remove(at);
            blockers.push(Blocker {
                task_id: self.view.graph.task(root).id.clone(),
                why,
                frees: freed.len(),
            });
            resolved.extend(freed);
        }
        blockers.extend(roots.into_iter().map(|(root, why)| Blocker {
            task_id: self.view.graph.task(root).id.clone(),
            why,
            frees: 1,
        }));
        blockers
    }

    /// Returns the unfinished tasks that can be completed once `root` is resolved, including
    /// `root`, assuming that those in `resolved` can.
    fn freed_by(&self, root: usize, resolved: &HashSet<usize>) -> Vec<usize> {
        let mut freed = vec![root];
        let mut done: HashSet<usize> = HashSet::from([root]);
        let mut at = 0;
        while let Some(&number) = freed.get(at) {
            at += 1;
            for dependent in self.view.graph.dependents(number) {
                let can = |d: usize| {
                    self.view.graph.task(d).status == Status::Complete
                        || done.contains(&d)
                        || resolved.contains(&d)
                };
                if self.view.graph.task(dependent).status == Status::Pending
                    && !done.contains(&dependent)
                    && !resolved.contains(&dependent)
                    && self.view.graph.dependencies(dependent).all(can)
                {
                    done.insert(dependent);
                    freed.push(dependent);
                }
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{end, record, started, task};
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::{
        event::{Begun, Event, PlainLoop, RunEvent},
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::History,
        select::{Decision, MAX_FAILURES, Policy, keys},
        verdict::Verdict,
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// Returns the decision two seconds after the last of these iterations. The first `before` of
    /// them belong to a loop that was paused.
    fn decided(plain: &PlainLoop, status: Status, before: u32, verdicts: &[Verdict]) -> Decision {
        let graph =
            TaskGraph::new(vec![crate::graph::task::Task { status, ..task("l") }], Vec::new())
                .unwrap();
        let mut history = History::default();
        let plain_loop = Some(plain.clone());
        let begun = Begun { before, plain: plain_loop, ..Begun::default() };
        history.apply(&record("", 0, RunEvent::LoopStarted(begun)));
        for (attempt, verdict) in (1..).zip(verdicts.iter().skip(before as usize)) {
            history.apply(&record("l", 0, started(attempt)));
            let ended = end(attempt, *verdict);
            let ended = Event::Ended(ended);
            history.apply(&record("l", 0, ended));
        }
        let policy = Policy {
            max_iterations: Some(20),
            max_attempts: u32::MAX,
            start_limit: 0,
            plain: Some(plain.clone()),
            ..Policy::default()
        };
        let keys = keys(&graph);
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        view.decide(at(2))
    }

    fn plain() -> PlainLoop {
        PlainLoop {
            name: TaskId::new("l").unwrap(),
            prompt_file: "PROMPT.md".into(),
            restart_delay_seconds: 1.0,
            fixed_delay: false,
            max_restarts: None,
            max_failures: MAX_FAILURES,
        }
    }

    /// Returns the end of the wait in seconds, or 0 for a start.
    fn wait(decision: &Decision) -> i64 {
        match decision {
            Decision::Start(_) => 0,
            Decision::Wait(wait) => wait.until.unwrap().timestamp(),
            Decision::Stop(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn failures_in_a_row_double_the_pause_and_the_fifth_stops_the_loop() {
        use Verdict::{Again, Failed, TimedOut};
        let ends = |verdicts: &[Verdict]| decided(&plain(), Status::Pending, 0, verdicts);
        for (verdicts, want) in [
            (&[][..], 0),
            (&[Again], 0),
            (&[Failed], 0),
            (&[Failed, Failed, Failed], 4),
            (&[Failed, TimedOut, Failed, Failed], 8),
            (&[Failed, Failed, Failed, Again], 0),
            (&[Failed, Failed, Failed, Failed, Again, Failed, Failed, Failed], 4),
        ] {
            assert_eq!(wait(&ends(verdicts)), want, "{verdicts:?}");
        }
        assert_eq!(ends(&[Failed; 5]), Decision::Stop(StopReason::Failures(5)));
        let never = PlainLoop { max_failures: 0, ..plain() };
        assert_eq!(wait(&decided(&never, Status::Pending, 0, &[Failed; 9])), 256);
        assert_eq!(wait(&decided(&never, Status::Pending, 0, &[Failed; 12])), 300);
        assert_eq!(wait(&decided(&plain(), Status::Pending, 4, &[Failed; 4])), 0);
    }

    #[test]
    fn the_restart_delay_is_the_shortest_pause() {
        let slow = PlainLoop { restart_delay_seconds: 6.0, ..plain() };
        let ends = |verdicts: &[Verdict]| wait(&decided(&slow, Status::Pending, 0, verdicts));
        assert_eq!(ends(&[]), 0, "the first iteration is not a restart");
        assert_eq!(ends(&[Verdict::Again]), 6);
        assert_eq!(ends(&[Verdict::Failed; 4]), 8);
        let fixed = PlainLoop { fixed_delay: true, ..slow.clone() };
        let after = decided(&fixed, Status::Pending, 0, &[Verdict::Failed; 4]);
        assert_eq!(wait(&after), 6, "a delay that was given is not extended");
        let endless = PlainLoop { restart_delay_seconds: 1e18, ..plain() };
        assert!(wait(&decided(&endless, Status::Pending, 0, &[Verdict::Again])) > 1_000_000);
    }

    #[test]
    fn completion_takes_precedence_over_a_question_and_a_question_over_a_limit() {
        use Verdict::{Again, Complete};
        let last = PlainLoop { max_restarts: Some(1), ..plain() };
        let stop = |status, verdicts: &[Verdict]| match decided(&last, status, 0, verdicts) {
            Decision::Stop(reason) => reason.to_string(),
            other @ (Decision::Start(_) | Decision::Wait(_)) => panic!("{other:?}"),
        };
        assert_eq!(stop(Status::Pending, &[Again; 2]), "limit reached: 1 restart");
        assert!(stop(Status::NeedsInput, &[Again; 2]).starts_with("waiting for a person: `l`"));
        assert_eq!(stop(Status::Complete, &[Again, Complete]), "loop complete after 2 iterations");
        assert_eq!(stop(Status::Complete, &[]), "loop complete after 0 iterations");
        assert_eq!(wait(&decided(&last, Status::Pending, 0, &[Again])), 0);
    }
}

#[cfg(test)]
mod blockers_tests {
    use super::*;
    use crate::{graph::TaskGraph, history::History, samples::task, select::Policy};

    #[test]
    fn the_first_twenty_blockers_are_ranked_by_what_they_free() {
        let roots = 25;
        let mut tasks: Vec<_> = (0..roots).map(|root| task(&format!("r{root}"))).collect();
        for root in &mut tasks {
            root.status = Status::Blocked;
        }
        let mut edges = Vec::new();
        for root in 0..roots {
            for dependent in 0..root {
                edges.push((root, tasks.len()));
                tasks.push(task(&format!("d{root}-{dependent}")));
            }
        }
        let graph = TaskGraph::new(tasks, edges).unwrap();
        let (history, policy) = (History::default(), Policy::default());
        let view =
            View { graph: &graph, keys: &[], history: &history, policy: &policy, active: &[] };
        let blockers = view.blockers(DateTime::UNIX_EPOCH);
        let found: Vec<(&str, usize)> =
            blockers.iter().map(|it| (it.task_id.as_str(), it.frees)).collect();
        let names: Vec<String> = (0..roots).map(|root| format!("r{root}")).collect();
        let ranked = (5..roots).rev().map(|root| (names[root].as_str(), root + 1));
        let others = (0..5).map(|root| (names[root].as_str(), 1));
        assert_eq!(found, ranked.chain(others).collect::<Vec<_>>());
    }
}
