//! Conflicts between a task and the active attempts: the same files, or a reached limit.
//!
//! Only active attempts cause conflicts. Once all of them have ended, any task can start, so no
//! task waits without end.

use std::num::NonZeroU32;

use chrono::{DateTime, Utc};

use super::{Active, SelectionKey, Turn, View};
use crate::{agents::agent_command::AgentCommand, graph::task::Task};

/// The reason why a task cannot start alongside the active attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskConflict<'a> {
    /// The task of this number changes the same files.
    Touches(usize),
    /// This number of attempts with this agent or tag, or at this executor, are
    /// working, which is the limit.
    Limit(&'a str, NonZeroU32),
}

impl<'a> View<'a> {
    /// Returns the conflict of a task with the active attempts, if there is one.
    pub fn conflict(&self, number: usize, now: DateTime<Utc>) -> Option<TaskConflict<'a>> {
        match self.agent(number, now) {
            Turn::Busy(conflict) => Some(conflict),
            Turn::Now(_) | Turn::Later(_) | Turn::Never => {
                self.conflict_for_any_agent(number).or_else(|| {
                    let (name, limit) = self.policy.limits.get_key_value(self.place(number))?;
                    let is_full = self.host(number, now) == Ok(None);
                    is_full.then_some(TaskConflict::Limit(name, *limit))
                })
            }
        }
    }

    /// Describes a conflict, as a phrase to follow the name of the task.
    pub fn explain(&self, conflict: TaskConflict<'_>) -> String {
        match conflict {
            TaskConflict::Touches(other) => {
                format!("changes the same files as `{}`", self.graph.task(other).id)
            }
            TaskConflict::Limit(name, limit) => {
                format!("limit of {limit} for `{name}` reached")
            }
        }
    }

    /// Returns the conflict of a task that applies to all of its agents.
    pub(super) fn conflict_for_any_agent(&self, number: usize) -> Option<TaskConflict<'a>> {
        self.tag(number).or_else(|| self.clash(number).map(TaskConflict::Touches))
    }

    /// Returns the limit of an agent if it is reached.
    pub(super) fn busy(&self, call: &AgentCommand) -> Option<TaskConflict<'a>> {
        self.full(&call.name, |active| active.agent == Some(&call.name))
    }

    /// Returns the limit of one of its tags if it is reached.
    fn tag(&self, number: usize) -> Option<TaskConflict<'a>> {
        self.graph.task(number).tags.iter().find_map(|tag| {
            self.full(tag, |active| {
                active.number.is_some_and(|number| self.graph.task(number).tags.contains(tag))
            })
        })
    }

    fn full(&self, name: &str, counts: impl Fn(&Active<'_>) -> bool) -> Option<TaskConflict<'a>> {
        let (name, limit) = self.policy.limits.get_key_value(name)?;
        let at_work = self.active.iter().filter(|active| active.works && counts(active)).count();
        (at_work >= limit.get() as usize).then_some(TaskConflict::Limit(name, *limit))
    }

    /// Returns the active task that changes the same files. A task that is queued to land counts
    /// too.
    pub(super) fn clash(&self, number: usize) -> Option<usize> {
        let task = self.graph.task(number);
        let mut others = self.active.iter().filter_map(|active| active.number);
        let collided = self.collided(number);
        if task.touches.is_empty() && collided.is_empty() {
            return None;
        }
        others.find(|other| {
            let their = self.graph.task(*other);
            let touches =
                |task: &Task, path: &str| task.touches.iter().any(|glob| glob.may_reach(path));
            let theirs = self.collided(*other);
            overlap(task, their)
                || theirs.iter().any(|path| collided.contains(path) || touches(task, path))
                || collided.iter().any(|path| touches(their, path))
        })
    }

    /// Returns the files of conflicts between attempts at a task and landed work. Two tasks that
    /// conflicted in the same file would do so again if they ran together.
    pub(super) fn collided(&self, number: usize) -> &'a [String] {
        &self.history.of(&self.graph.task(number).id).collided
    }

    /// Whether a task yields to a more urgent task that waits for files and needs the same files.
    /// Otherwise a series of small tasks could delay an urgent large task until the end. Among
    /// tasks of the same urgency, any task that can start does so.
    pub(super) fn gives_way(
        &self,
        key: SelectionKey,
        conflicting: impl IntoIterator<Item = SelectionKey>,
    ) -> bool {
        let task = self.graph.task(key.number);
        conflicting.into_iter().any(|other| {
            (other.round, other.priority) < (key.round, key.priority)
                && overlap(task, self.graph.task(other.number))
        })
    }

    /// Returns the first of the `ready` tasks that yields neither to a `conflicting` task nor to a
    /// task that itself yields.
    pub(super) fn first(
        &self,
        ready: Vec<SelectionKey>,
        mut conflicting: Vec<SelectionKey>,
    ) -> Option<SelectionKey> {
        ready.into_iter().find(|key| {
            let gives_way = self.gives_way(*key, conflicting.iter().copied());
            conflicting.extend(gives_way.then_some(*key));
            !gives_way
        })
    }
}

/// Whether two tasks declare that they change the same files.
fn overlap(a: &Task, b: &Task) -> bool {
    a.touches.iter().any(|own| b.touches.iter().any(|theirs| own.may_overlap(theirs)))
}

#[cfg(test)]
mod tests {
    use crate::samples::{end, record, started, task};
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        agents::provider_error::{ProviderError, ProviderErrorKind},
        event::{AttemptResult, Begun, Event, RunEvent, StopReason},
        glob::Glob,
        graph::{TaskGraph, task::Status},
        history::History,
        night,
        select::{
            Decision, MAX_FAILURES, Policy, TaskState, keys,
            tests::{any_graph, at, brute_force},
        },
        verdict::{Evidence, Merge, Verdict},
    };

    fn calls(names: &[&str]) -> Vec<AgentCommand> {
        names.iter().map(|name| AgentCommand::command(vec![(*name).to_owned()])).collect()
    }

    fn limits(of: &[(&str, u32)]) -> BTreeMap<String, NonZeroU32> {
        let limit = |(name, n): &(&str, u32)| Some(((*name).to_owned(), NonZeroU32::new(*n)?));
        of.iter().filter_map(limit).collect()
    }

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| Glob::new(text).unwrap()).collect()
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Builds a graph of tasks `t0`… from their files, tags and agents.
    fn graph(tasks: &[(&str, &[&str], &[&str])]) -> TaskGraph {
        let tasks = tasks.iter().enumerate().map(|(n, (touches, tags, agents))| Task {
            touches: globs(&touches.split_whitespace().collect::<Vec<_>>()),
            tags: strings(tags),
            agents: calls(agents),
            ..task(&format!("t{n}"))
        });
        TaskGraph::new(tasks.collect(), Vec::new()).unwrap()
    }

    fn active(number: usize, agent: Option<&str>, works: bool) -> Active<'_> {
        Active { number: Some(number), agent, works }
    }

    /// Checks a graph with these active attempts and ten jobs.
    fn alongside(
        graph: &TaskGraph,
        limits: BTreeMap<String, NonZeroU32>,
        active: &[Active<'_>],
        check: impl Fn(View<'_>),
    ) {
        let policy = Policy { jobs: 10, limits, ..Policy::default() };
        let (keys, history) = (keys(graph), History::default());
        check(View { graph, keys: &keys, history: &history, policy: &policy, active });
    }

    #[test]
    fn tasks_that_change_the_same_files_conflict_until_one_lands() {
        let graph = graph(&[("src/*", &[], &[]), ("src/a docs", &[], &[]), ("docs/x", &[], &[])]);
        for works in [true, false] {
            alongside(&graph, BTreeMap::new(), &[active(0, None, works)], |view| {
                assert_eq!(view.state(0, at(0)), TaskState::Running);
                assert_eq!(view.state(1, at(0)), TaskState::Conflicting);
                assert_eq!(view.conflict(1, at(0)), Some(TaskConflict::Touches(0)));
                assert_eq!(
                    view.explain(TaskConflict::Touches(0)),
                    "changes the same files as `t0`"
                );
                assert_eq!(view.decide(at(0)), Decision::Start(view.keys[2]));
            });
        }
        alongside(&graph, BTreeMap::new(), &[], |view| {
            assert_eq!(view.decide(at(0)), Decision::Start(view.keys[0]));
        });
        alongside(
            &graph,
            BTreeMap::new(),
            &[active(0, None, true), active(2, None, true)],
            |view| {
                assert!(matches!(view.decide(at(0)), Decision::Wait(_)));
            },
        );
    }

    #[test]
    fn a_task_that_collided_waits_only_for_tasks_of_the_same_files() {
        let graph = graph(&[("", &[], &[]), ("", &[], &[]), ("src", &[], &[]), ("", &[], &[])]);
        let mut history = History::default();
        for id in ["t0", "t1"] {
            let mut ended = end(1, Verdict::Conflict);
            let (branch, onto) = ("main".to_owned(), crate::commit_id::CommitId::from("0"));
            ended.evidence.merge =
                Some(Merge::Conflict { branch, onto, paths: strings(&["src/list"]) });
            history.apply(&record(id, 0, Event::Ended(ended)));
        }
        // Its next attempt failed in another way.
        history.apply(&record("t1", 1, Event::Ended(end(2, Verdict::Unverified))));
        let (keys, policy) = (keys(&graph), Policy { jobs: 4, ..Policy::default() });
        let of = |number: usize, other: usize| {
            let active = [active(other, None, true)];
            let view = View {
                graph: &graph,
                keys: &keys,
                history: &history,
                policy: &policy,
                active: &active,
            };
            view.state(number, at(9))
        };
        for (number, other) in [(0, 1), (0, 2), (2, 0)] {
            assert_eq!(of(number, other), TaskState::Conflicting, "{number} while {other} runs");
        }
        for (number, other) in [(0, 3), (3, 0), (3, 1), (2, 3)] {
            assert_eq!(of(number, other), TaskState::Ready, "{number} while {other} runs");
        }
        let policy = Policy { jobs: 4, ..policy };
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        let foreseen = night::order(&view, false, at(9), usize::MAX, &|_| secs(10));
        let starts: Vec<_> = foreseen.iter().map(|it| (it.number, it.starts_at)).collect();
        assert_eq!(starts, [(0, at(9)), (3, at(9)), (1, at(19)), (2, at(29))]);
    }

    #[test]
    fn limits_apply_to_the_agents_and_tags_of_working_attempts() {
        let (p, q) = (Some("p"), Some("q"));
        let graph = graph(&[
            ("", &["db"], &["p", "q"]),
            ("", &[], &["p", "q"]),
            ("", &["db"], &["q"]),
            ("", &[], &["p"]),
            ("", &[], &["p", "q"]),
        ]);
        let all = || limits(&[("p", 1), ("q", 2), ("db", 1), ("unknown", 1)]);
        let name = |turn: Turn<'_>| match turn {
            Turn::Now(call) => call.unwrap().name.clone(),
            Turn::Busy(_) | Turn::Later(_) | Turn::Never => format!("{turn:?}"),
        };
        alongside(&graph, all(), &[active(0, p, true)], |view| {
            assert_eq!(name(view.agent(1, at(0))), "q", "the next agent of the list is used");
            assert_eq!(view.decide(at(0)), Decision::Start(view.keys[1]));
            assert_eq!(view.state(2, at(0)), TaskState::Conflicting);
            let conflict = view.conflict(2, at(0)).unwrap();
            assert_eq!(view.explain(conflict), "limit of 1 for `db` reached");
            let conflict = view.conflict(3, at(0)).unwrap();
            assert_eq!(view.explain(conflict), "limit of 1 for `p` reached");
        });
        alongside(&graph, all(), &[active(0, p, false)], |view| {
            assert_eq!(
                name(view.agent(3, at(0))),
                "p",
                "the other attempt is queued and does not count"
            );
            assert_eq!(view.state(2, at(0)), TaskState::Ready);
        });
        let busy = [active(0, p, true), active(1, q, true), active(2, q, true)];
        alongside(&graph, all(), &busy, |view| {
            assert_eq!(
                (view.state(3, at(0)), view.state(4, at(0))),
                (TaskState::Conflicting, TaskState::Conflicting)
            );
            assert!(matches!(view.decide(at(0)), Decision::Wait(_)));
        });
    }

    #[test]
    fn small_tasks_do_not_delay_an_urgent_large_task() {
        let mut tasks = graph(&[
            ("src/a", &[], &[]),
            ("src", &[], &[]),
            ("src/b x", &[], &[]),
            ("x", &[], &[]),
            ("y", &[], &[]),
        ])
        .tasks()
        .to_vec();
        for (task, priority) in tasks.iter_mut().zip([3, 1, 2, 3, 4]) {
            task.priority.0 = priority;
        }
        let graph = TaskGraph::new(tasks.clone(), Vec::new()).unwrap();
        alongside(&graph, BTreeMap::new(), &[active(0, None, true)], |view| {
            // `t2` needs files that `t1` needs too, and `t3` needs files that `t2` needs.
            assert_eq!(view.decide(at(0)), Decision::Start(view.keys[4]));
        });
        for task in &mut tasks {
            task.priority.0 = 2;
        }
        let graph = TaskGraph::new(tasks, Vec::new()).unwrap();
        alongside(&graph, BTreeMap::new(), &[active(0, None, true)], |view| {
            assert_eq!(view.decide(at(0)), Decision::Start(view.keys[2]));
        });
    }

    fn rate_limited(agent: &str, error: ProviderError) -> Event {
        let evidence = Evidence { obstacle: Some(error), ..Evidence::default() };
        Event::Ended(AttemptResult {
            agent: Some(agent.to_owned()),
            evidence: Box::new(evidence),
            ..end(1, Verdict::RateLimited)
        })
    }

    #[test]
    fn a_rate_limit_of_one_attempt_pauses_its_agent_for_all_tasks() {
        let agents: [&[&str]; 6] = [&["p"], &["p"], &["p"], &["p"], &["q"], &["p", "q"]];
        let graph = graph(&agents.map(|agents| ("", &[][..], agents)));
        let mut history = History::default();
        for (id, start) in [("t0", 0), ("t1", 0), ("t2", 1)] {
            history.apply(&record(id, start, started(1)));
        }
        let (keys, policy) = (keys(&graph), Policy { jobs: 4, ..Policy::default() });
        let state = |history: &History, active: &[Active<'_>], now| {
            let view = View { graph: &graph, keys: &keys, history, policy: &policy, active };
            let states: Vec<TaskState> = (3..6).map(|number| view.state(number, at(now))).collect();
            (states, view.decide(at(now)))
        };
        let p = Some("p");
        let mut end_of = |id: &str, now: i64| {
            let earlier = history.errors_before("p", &graph.task(id_number(id)).id);
            let error = ProviderError::new(
                ProviderErrorKind::RateLimit { retry_at: None },
                earlier,
                at(now),
            );
            history.apply(&record(id, now, rate_limited("p", error)));
            history.clone()
        };
        // Two attempts continue. `p` does not start for a minute; the other agents do.
        let after = end_of("t0", 10);
        let (states, decision) = state(&after, &[active(1, p, true), active(2, p, true)], 11);
        assert_eq!(states, [TaskState::RateLimited(at(70)), TaskState::Ready, TaskState::Ready]);
        assert_eq!(decision, Decision::Start(keys[4]));
        // They get the same limit: one step, which starts at the last of them.
        end_of("t1", 12);
        let after = end_of("t2", 20);
        assert_eq!((after.cooldowns["p"].count, after.cooldowns["p"].since), (1, at(10)));
        assert_eq!(state(&after, &[], 21).0[0], TaskState::RateLimited(at(80)));
        // The success of a parallel attempt does not end the cooldown.
        let mut later = after.clone();
        later.apply(&record("t3", 0, started(1)));
        assert_eq!(later.errors_before("p", &graph.task(3).id), 1);
        // The next attempt started after the limit, so it is the second step.
        history.apply(&record("t0", 81, started(2)));
        history.apply(&record("t1", 82, started(2)));
        let until = |history: &History, id: &str, now| {
            let earlier = history.errors_before("p", &graph.task(id_number(id)).id);
            ProviderError::new(ProviderErrorKind::RateLimit { retry_at: None }, earlier, at(now))
                .until
                .unwrap()
        };
        assert_eq!(until(&history, "t0", 90), at(90 + 120));
        let limit = ProviderError::new(ProviderErrorKind::RateLimit { retry_at: None }, 1, at(90));
        history.apply(&record("t0", 90, rate_limited("p", limit)));
        assert_eq!(until(&history, "t1", 91), at(91 + 120));
        let well = || AttemptResult { agent: Some("p".to_owned()), ..end(2, Verdict::Complete) };
        history.apply(&record("t1", 92, Event::Ended(well())));
        assert_eq!(history.cooldowns["p"].count, 2);
        history.apply(&record("t1", 300, started(3)));
        history.apply(&record("t1", 310, Event::Ended(well())));
        assert!(history.cooldowns.is_empty());
    }

    #[test]
    fn a_task_that_stalls_alone_goes_after_the_others_and_then_counts() {
        let graph = graph(&[("", &[][..], &["p"][..]), ("", &[][..], &["p"][..])]);
        let (keys, policy) = (keys(&graph), Policy::default());
        let mut history = History::default();
        let stall = |history: &History, now| {
            let earlier = history.errors_before("p", &graph.task(0).id);
            ProviderError::new(ProviderErrorKind::Stalled, earlier, at(now))
        };
        history.apply(&record("t0", 0, started(1)));
        let first = stall(&history, 10);
        assert_eq!(first.until, Some(at(70)));
        history.apply(&record("t0", 10, rate_limited("p", first)));
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        assert_eq!(view.decide(at(71)), Decision::Start(keys[1]));
        // The provider answers for another task, so it is not the provider.
        history.apply(&record("t1", 71, started(1)));
        let well = AttemptResult { agent: Some("p".to_owned()), ..end(1, Verdict::Complete) };
        history.apply(&record("t1", 80, Event::Ended(well)));
        history.apply(&record("t0", 81, started(2)));
        assert_eq!(stall(&history, 90).until, None);
    }

    fn id_number(id: &str) -> usize {
        id[1..].parse().unwrap()
    }

    /// Patterns, each with a bit mask of the paths that it matches.
    const FILES: [(&str, u8); 5] = [
        ("a/**", 0b00011),
        ("b/**", 0b01100),
        ("[ab]/x", 0b00101),
        ("b/y", 0b01000),
        ("**", 0b11111),
    ];
    const AGENTS: [&[&str]; 4] = [&[], &["p"], &["q"], &["p", "q"]];
    const TAGS: [&[&str]; 4] = [&[], &[], &["t"], &["t", "u"]];

    /// An open attempt.
    #[derive(Clone, Debug)]
    struct OpenTrial {
        number: usize,
        agent: &'static str,
        /// When its work ends.
        worked: i64,
        /// When it lands.
        merged: i64,
        /// 0 is a failure, 1 a rate limit; all others are successes.
        fate: u8,
    }

    /// A simulated run with several jobs.
    #[derive(Debug)]
    struct JobsTrial {
        graph: TaskGraph,
        policy: Policy,
        /// The bit mask of the paths of each task.
        files: Vec<u8>,
        history: History,
        now: i64,
        open: Vec<OpenTrial>,
        begun: Vec<(SelectionKey, u64)>,
    }

    impl JobsTrial {
        /// Runs from the first decision to the end. The work time, queue time and result of each
        /// attempt come from `fates` in turn, or from the task if `fates` is empty.
        fn run(&mut self, fates: &[(i64, i64, u8)]) -> Result<StopReason, TestCaseError> {
            let mut fates = fates.iter().cycle();
            let keys = keys(&self.graph);
            for _ in 0..2000 {
                let (decision, agent) = self.decide(&keys);
                match decision {
                    Decision::Start(key) => {
                        prop_assert_eq!(Some(key.number), self.expected());
                        let agent = agent.expect("a started task has an agent");
                        self.may_begin(key.number, agent)?;
                        let length = i64::from(self.graph.task(key.number).minutes);
                        let (work, merge, fate) = *fates.next().unwrap_or(&(length, 0, 9));
                        let worked = self.now + work;
                        let (number, merged) = (key.number, worked + merge);
                        self.open.push(OpenTrial { number, agent, worked, merged, fate });
                        self.begun.push((key, u64::try_from(self.now).unwrap()));
                        let id = self.graph.task(number).id.to_string();
                        self.graph.set_status(number, Status::InProgress);
                        self.history.apply(&record(&id, self.now, started(1)));
                    }
                    Decision::Wait(wait) => {
                        let until = wait.until.map(|until| until.timestamp());
                        self.wait(until)?;
                    }
                    Decision::Stop(reason) => {
                        prop_assert!(self.open.is_empty(), "no attempt is left open");
                        let done = |task: &Task| task.status == Status::Complete;
                        let all = self.graph.tasks().iter().all(done);
                        prop_assert_eq!(all, reason == StopReason::Complete);
                        return Ok(reason);
                    }
                }
            }
            Err(TestCaseError::fail("the run does not end"))
        }

        fn decide(&self, keys: &[SelectionKey]) -> (Decision, Option<&'static str>) {
            let of = |open: &OpenTrial| active(open.number, Some(open.agent), self.works(open));
            let active: Vec<Active<'_>> = self.open.iter().map(of).collect();
            let view = View {
                graph: &self.graph,
                keys,
                history: &self.history,
                policy: &self.policy,
                active: &active,
            };
            let decision = view.decide(at(self.now));
            let turn = |key: SelectionKey| view.agent(key.number, at(self.now));
            let agent = if let Decision::Start(key) = decision
                && let Turn::Now(Some(call)) = turn(key)
            {
                ["p", "q"].into_iter().find(|name| call.name == *name)
            } else {
                None
            };
            (decision, agent)
        }

        fn at_work(&self) -> impl Iterator<Item = &OpenTrial> {
            self.open.iter().filter(|open| self.works(open))
        }

        /// An attempt without queue time works until its end is handled.
        fn works(&self, open: &OpenTrial) -> bool {
            open.worked > self.now || open.worked == open.merged
        }

        fn agents(&self, number: usize) -> Vec<String> {
            let own = &self.graph.task(number).agents;
            let calls = if own.is_empty() { &self.policy.agents } else { own };
            calls.iter().map(|call| call.name.clone()).collect()
        }

        fn is_full(&self, name: &str, counts: impl Fn(&OpenTrial) -> bool) -> bool {
            let limit = self.policy.limits.get(name).map_or(99, |limit| limit.get() as usize);
            self.at_work().filter(|open| counts(open)).count() >= limit
        }

        fn is_cooling_down(&self, agent: &str) -> bool {
            let until = self.history.cooldowns.get(agent).and_then(|cooldown| cooldown.error.until);
            until.is_some_and(|until| until > at(self.now))
        }

        /// Returns the task to select, computed directly from the rules; none if no task can start.
        fn expected(&self) -> Option<usize> {
            let mut conflicting: Vec<usize> = Vec::new();
            let mut order = brute_force(&self.graph);
            let urgency = |number: usize| {
                let task = self.graph.task(number);
                let counted = self.history.of(&task.id).counted;
                (counted / self.policy.max_attempts, task.priority)
            };
            order.sort_by_key(|number| {
                (urgency(*number), self.history.has_failed(&self.graph.task(*number).id))
            });
            order.into_iter().find(|number| {
                let task = self.graph.task(*number);
                let past = self.history.of(&task.id);
                let pause = [0, 1, 2, 4, 8, 16, 32, 64][past.counted as usize];
                let is_retrying =
                    past.last.as_ref().is_some_and(|last| at(self.now) < last.at + secs(pause));
                let agents = self.agents(*number);
                let available: Vec<&String> =
                    agents.iter().filter(|name| !self.is_cooling_down(name)).collect();
                let is_open = |d: usize| self.graph.task(d).status != Status::Complete;
                let holds = self.graph.dependents(*number).any(is_open);
                let rounds = if holds { self.policy.rounds } else { 1 };
                let is_parked = past.counted >= self.policy.max_attempts * rounds;
                if is_parked || is_retrying || available.is_empty() {
                    return false;
                }
                if task.tags.iter().any(|tag| {
                    self.is_full(tag, |open| self.graph.task(open.number).tags.contains(tag))
                }) || available
                    .iter()
                    .all(|name| self.is_full(name, |open| open.agent == **name))
                {
                    return false;
                }
                let shares = |other: usize| self.files[*number] & self.files[other] != 0;
                let conflicts = self.open.iter().any(|open| shares(open.number));
                let yields = conflicting
                    .iter()
                    .any(|other| shares(*other) && urgency(*other) < urgency(*number));
                if conflicts || yields {
                    conflicting.push(*number);
                }
                !conflicts && !yields
            })
        }

        /// Checks the start of an attempt against the rules.
        fn may_begin(&self, number: usize, agent: &str) -> Result<(), TestCaseError> {
            prop_assert!(self.at_work().count() < self.policy.jobs);
            prop_assert!(
                !self.is_cooling_down(agent) && self.agents(number).iter().any(|a| a == agent)
            );
            prop_assert!(!self.is_full(agent, |open| open.agent == agent));
            let task = self.graph.task(number);
            for tag in &task.tags {
                let has = |open: &OpenTrial| self.graph.task(open.number).tags.contains(tag);
                prop_assert!(!self.is_full(tag, has));
            }
            for open in &self.open {
                prop_assert!(open.number != number);
                prop_assert_eq!(self.files[open.number] & self.files[number], 0);
            }
            let is_done = |d| self.graph.task(d).status == Status::Complete;
            prop_assert!(self.graph.dependencies(number).all(is_done));
            Ok(())
        }

        /// Advances to the next event, one at a time.
        fn wait(&mut self, until: Option<i64>) -> Result<(), TestCaseError> {
            // No task that can start is skipped.
            let can_more = self.at_work().count() < self.policy.jobs;
            if can_more && self.history.run.failures_in_a_row < MAX_FAILURES {
                prop_assert_eq!(self.expected(), None);
            }
            let times = self.open.iter().flat_map(|open| [open.worked, open.merged]);
            let next = times.filter(|time| *time > self.now).chain(until).min();
            let over = self.open.iter().filter(|open| open.merged <= self.now);
            let Some(open) = over.min_by_key(|open| (open.merged, open.number)).cloned() else {
                let next = next.filter(|next| *next > self.now);
                prop_assert!(next.is_some(), "the wait has no end");
                self.now = next.unwrap_or(self.now);
                return Ok(());
            };
            self.open.retain(|other| other.number != open.number);
            let id = self.graph.task(open.number).id.clone();
            let agent = Some(open.agent.to_owned());
            let (status, event) = match open.fate {
                0 => (
                    Status::Pending,
                    Event::Ended(AttemptResult { agent, ..end(1, Verdict::Failed) }),
                ),
                1 => {
                    let earlier = self.history.errors_before(open.agent, &id);
                    let error = ProviderError::new(
                        ProviderErrorKind::RateLimit { retry_at: None },
                        earlier,
                        at(self.now),
                    );
                    (Status::Pending, rate_limited(open.agent, error))
                }
                _ => {
                    let ended = AttemptResult { agent, ..end(1, Verdict::Complete) };
                    (Status::Complete, Event::Ended(ended))
                }
            };
            self.graph.set_status(open.number, status);
            self.history.apply(&record(id.as_str(), self.now, event));
            Ok(())
        }
    }

    fn secs(seconds: i64) -> chrono::TimeDelta {
        chrono::TimeDelta::seconds(seconds)
    }

    fn trial() -> impl Strategy<Value = JobsTrial> {
        let fields = (
            prop::sample::subsequence((0..FILES.len()).collect::<Vec<_>>(), 0..=2),
            0..4usize,
            0..4usize,
            any::<bool>(),
        );
        let fields = proptest::collection::vec(fields, 10);
        let limit = || 0u32..4;
        let policy = (1..=5usize, limit(), limit(), limit(), any::<bool>(), 1..=3u32);
        (any_graph(&[Status::Pending]), fields, policy).prop_map(|(graph, fields, policy)| {
            let (jobs, p, t, q, both, attempts) = policy;
            let mut files = Vec::new();
            let mut tasks = graph.tasks().to_vec();
            for (task, (places, agents, tags, free)) in tasks.iter_mut().zip(&fields) {
                let places: Vec<usize> = places.iter().copied().filter(|_| !free).collect();
                files.push(places.iter().fold(0, |all, place| all | FILES[*place].1));
                task.touches = globs(&places.iter().map(|at| FILES[*at].0).collect::<Vec<_>>());
                (task.agents, task.tags) = (calls(AGENTS[*agents]), strings(TAGS[*tags]));
            }
            let edges =
                (0..tasks.len()).flat_map(|n| graph.dependencies(n).map(move |d| (d, n))).collect();
            let policy = Policy {
                jobs,
                limits: limits(&[("p", p), ("q", q), ("t", t), ("u", t)]),
                agents: calls(if both { &["q", "p"] } else { &["p"] }),
                start_limit: 0,
                max_attempts: attempts,
                max_iterations: Some(1000),
                ..Policy::default()
            };
            let mut history = History::default();
            history.apply(&record("t0", 0, RunEvent::LoopStarted(Begun::default())));
            let graph = TaskGraph::new(tasks, edges).unwrap();
            JobsTrial { graph, policy, files, history, now: 0, open: Vec::new(), begun: Vec::new() }
        })
    }

    proptest! {
        #[test]
        fn parallel_runs_keep_every_rule_and_end(
            mut trial in trial(),
            fates in proptest::collection::vec((1i64..20, 0i64..9, 0u8..9), 1..40),
        ) {
            trial.run(&fates)?;
        }

        #[test]
        fn a_run_without_failures_takes_the_tasks_in_the_order_that_is_foreseen(mut trial in trial()) {
            let keys = keys(&trial.graph);
            let view = View {
                graph: &trial.graph,
                keys: &keys,
                history: &trial.history,
                policy: &trial.policy,
                active: &[],
            };
            let length = |number: usize| secs(view.graph.task(number).minutes.into());
            let foreseen = night::order(&view, true, at(0), usize::MAX, &length);
            // Starts at the same time are in any order.
            let sorted = |mut starts: Vec<(u64, usize)>| {
                starts.sort_unstable();
                starts
            };
            let foreseen =
                foreseen.iter().map(|it| (it.starts_at.timestamp().cast_unsigned(), it.number)).collect();
            prop_assert_eq!(trial.run(&[])?, StopReason::Complete);
            let begun = trial.begun.iter().map(|(key, at)| (*at, key.number)).collect();
            prop_assert_eq!(sorted(begun), sorted(foreseen));
        }
    }
}
