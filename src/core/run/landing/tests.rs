//! Tests of the merge queue with work that fails alone, that fails together and that conflicts.

#![cfg(test)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use proptest::prelude::*;

use super::*;
use crate::{
    dice::Dice,
    event::Orphans,
    graph::{TaskGraph, task::TaskId},
    history::History,
    run::{
        process_watch::GracePeriods,
        verified_work::{BuiltCommit, HeadSpan},
    },
    select::{self, Policy, View},
    verdict::{Outcome, ResolvedConflict},
};

/// The work on a commit: the numbers of the entries.
type Works = BTreeSet<usize>;

/// A queue with its world: which work fails, and the commits.
struct QueueWorld {
    dice: Dice,
    width: usize,
    bad: BTreeSet<usize>,
    pairs: BTreeSet<(usize, usize)>,
    conflicts: BTreeSet<(usize, usize)>,
    /// The work in whose files conflicts are resolved.
    resolved: BTreeSet<usize>,
    /// In how many percent of all cases a command fails for no reason.
    flaky: u64,
    commits: BTreeMap<CommitId, Works>,
    tip: CommitId,
    landed: Vec<usize>,
    back: Vec<(usize, Merge)>,
    runs: usize,
    widest: usize,
}

/// The next step.
enum DueStep {
    /// With the work of the attempt, or without it.
    Build(CommitId, AttemptId, bool),
    Check(AttemptId, Vec<String>, CommitId),
    Land(VerifiedWork),
}

impl QueueWorld {
    fn new(seed: u64, width: usize) -> QueueWorld {
        let root = CommitId::from("root");
        QueueWorld {
            dice: Dice(seed),
            width,
            bad: BTreeSet::new(),
            pairs: BTreeSet::new(),
            conflicts: BTreeSet::new(),
            resolved: BTreeSet::new(),
            flaky: 0,
            commits: BTreeMap::from([(root.clone(), Works::new())]),
            tip: root,
            landed: Vec::new(),
            back: Vec::new(),
            runs: 0,
            widest: 0,
        }
    }

    fn is_green(&self, works: &Works) -> bool {
        works.is_disjoint(&self.bad)
            && self.pairs.iter().all(|(a, b)| !(works.contains(a) && works.contains(b)))
    }

    fn conflicts(&self, number: usize, works: &Works) -> bool {
        let with = |(a, b): &(usize, usize)| {
            (*a == number && works.contains(b)) || (*b == number && works.contains(a))
        };
        self.conflicts.iter().any(with)
    }

    /// Processes a queue of this many entries to its end, in a random order of events.
    fn process(&mut self, count: usize) {
        let (graph, history, policy) = (
            TaskGraph::new(Vec::new(), Vec::new()).unwrap(),
            History::default(),
            Policy::default(),
        );
        let keys = select::keys(&graph);
        let second = std::time::Duration::from_secs(1);
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        let graces = GracePeriods {
            kill: second,
            term: second,
            exit: second,
            children: second,
            on_orphans: Orphans::Kill,
        };
        let sit = Situation {
            view,
            now: Instant::now(),
            graces,
            autocommit: true,
            trusts_promises: false,
            done_file: false,
            one_check: false,
            proves: false,
            queue_width: self.width,
        };
        let mut queue = LandingQueue::default();
        let (mut due, mut pushed): (Vec<DueStep>, usize) = (Vec::new(), 0);
        for _ in 0..10_000 {
            let next = if pushed < count && (due.is_empty() || self.dice.chance(30)) {
                queue.push(work(pushed));
                pushed += 1;
                LandingNext::default()
            } else if queue.due(false, &sit).is_some() {
                queue.step(Some(&self.tip.clone()), false, &sit)
            } else if due.is_empty() {
                assert_eq!((pushed, queue.queued().count()), (count, 0), "the queue stands still");
                return;
            } else {
                let at = self.dice.below(due.len());
                self.happen(due.swap_remove(at), &mut queue, &sit)
            };
            self.take(next, &mut due, &mut queue);
            let checks = due.iter().filter(|it| matches!(it, DueStep::Check(..))).count();
            self.widest = self.widest.max(checks);
        }
        panic!("no end");
    }

    /// Takes the result of a step.
    fn take(&mut self, next: LandingNext, due: &mut Vec<DueStep>, queue: &mut LandingQueue) {
        let landing = next.commands.into_iter().filter_map(|command| {
            if let RunCommand::Landing(command) = command { Some(command) } else { None }
        });
        for command in landing {
            match command {
                LandingCommand::Build { onto, id, .. } => {
                    due.push(DueStep::Build(onto, id, true));
                }
                LandingCommand::CheckOut { id, onto, .. } => {
                    due.push(DueStep::Build(onto, id, false));
                }
                LandingCommand::Land { verified, .. } => {
                    assert!(self.is_green(&self.commits[verified.tip()]), "red work lands");
                    due.push(DueStep::Land(verified));
                }
                LandingCommand::Record(..) | LandingCommand::KeepLog { .. } => {}
            }
        }
        for id in next.cancel {
            due.retain(|it| !matches!(it, DueStep::Check(of, ..) if *of == id));
            assert!(queue.has_ended(&id), "{id} was not tried");
        }
        for EndedLanding { id, landing } in next.ended {
            let merge = landing.merge;
            if let Merge::Landed { .. } = merge {
                self.landed.push(number(&id));
            } else {
                self.back.push((number(&id), merge));
            }
        }
        if let Some(TrialChecks { id, commands, .. }) = next.verify {
            let mut trials = queue.trials.iter();
            let trial = trials.find(|trial| trial.work.id == id);
            let asked = || queue.questions.iter().find(|question| question.work.id == id);
            let tree = match trial {
                Some(trial) => trial.tip().cloned(),
                None => asked().map(|question| self.tree_of(question)),
            };
            due.push(DueStep::Check(id, commands, tree.expect("it is tried")));
        }
    }

    /// The commit on which the command of a question runs.
    fn tree_of(&self, question: &Question) -> CommitId {
        if question.is_on_base() {
            return question.onto.clone();
        }
        let mut works = self.commits[&question.onto].clone();
        works.insert(number(&question.work.id));
        let mut all = self.commits.iter();
        all.find(|(_, it)| **it == works).map(|(id, _)| id.clone()).expect("it was built")
    }

    fn happen(
        &mut self,
        due: DueStep,
        queue: &mut LandingQueue,
        sit: &Situation<'_>,
    ) -> LandingNext {
        match due {
            DueStep::Build(onto, id, has_work) => {
                let mut trial = BuiltTrial { is_set_up: true, ..BuiltTrial::default() };
                let mut works = self.commits[&onto].clone();
                if has_work && self.conflicts(number(&id), &works) {
                    trial.conflict = Some(vec!["file".to_owned()]);
                } else if has_work {
                    works.insert(number(&id));
                    let commit = CommitId::from(format!("c{}", self.commits.len()));
                    self.commits.insert(commit.clone(), works);
                    let file = || ResolvedConflict { path: "list".to_owned(), command: None };
                    let resolved = self.resolved.contains(&number(&id)).then(file);
                    let resolved = resolved.into_iter().collect();
                    trial.built = Some(BuiltCommit { commit, rebuilt: None, resolved });
                }
                queue.built(&id, Ok(trial), true, sit)
            }
            DueStep::Check(id, commands, tree) => {
                self.runs += 1;
                let is_green = self.is_green(&self.commits[&tree]) && !self.dice.chance(self.flaky);
                let head = HeadSpan { before: Some(tree.clone()), after: Some(tree) };
                let ran = commands.into_iter().map(|command| {
                    let result = CheckResult {
                        command,
                        outcome: Outcome::Exited { exit_code: i32::from(!is_green) },
                        duration_seconds: 1.0,
                        last_line: None,
                        no_test: false,
                        log: String::new(),
                    };
                    CheckedCommand { result, head: head.clone() }
                });
                queue.verified(&id, Some(ran.collect()), false, sit)
            }
            DueStep::Land(verified) => {
                assert_eq!(self.tip, *verified.onto(), "work lands on another commit");
                self.tip = verified.tip().clone();
                queue.landed(Ok(LandOutcome::Landed { waits: false }), sit)
            }
        }
    }

    /// Checks the end: each entry landed, or was sent back for a reason that holds on the tip.
    fn check(&self, count: usize) {
        let mut all: Vec<usize> = self.landed.clone();
        all.extend(self.back.iter().map(|(number, _)| *number));
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>());
        for (number, merge) in &self.back {
            let (Merge::Red { onto, .. } | Merge::Conflict { onto, .. }) = merge else {
                panic!("{number} is sent back with {merge:?}");
            };
            let works = &self.commits[onto];
            assert!(self.is_green(works), "{number} was tried on top of red work");
            let with = works.iter().chain([number]).copied().collect();
            let is_conflict = self.conflicts(*number, works);
            let is_resolved = self.resolved.contains(number);
            assert_eq!(matches!(merge, Merge::Conflict { .. }), is_conflict || is_resolved);
            assert!(is_conflict || self.flaky > 0 || !self.is_green(&with), "{number} is green");
        }
    }
}

fn work(number: usize) -> QueuedWork {
    queued(&format!("t{number}"))
}

/// The work of the first attempt at a task.
pub(super) fn queued(name: &str) -> QueuedWork {
    let id = AttemptId { task_id: TaskId::new(name).unwrap(), attempt: 1 };
    let verify = vec!["check".to_owned()];
    let (setup, own, after) = (Vec::new(), Vec::new(), Vec::new());
    QueuedWork {
        id,
        iteration: 1,
        target: "main".to_owned(),
        setup,
        verify,
        own,
        is_fresh: false,
        flaky: 0,
        after,
    }
}

fn number(id: &AttemptId) -> usize {
    id.task_id.as_str()[1..].parse().unwrap()
}

#[test]
fn work_is_verified_once_and_many_at_once() {
    let mut world = QueueWorld::new(1, 4);
    world.process(12);
    assert_eq!((world.landed.len(), world.runs), (12, 12));
    assert!((2..=4).contains(&world.widest), "{} at once", world.widest);
}

#[test]
fn of_a_pair_that_fails_together_one_is_sent_back_and_all_others_land() {
    let mut world = QueueWorld::new(3, 4);
    world.pairs = BTreeSet::from([(1, 3)]);
    world.process(6);
    assert_eq!(world.back.len(), 1, "{:?}", world.back);
    world.check(6);
}

proptest! {
    #[test]
    fn each_entry_lands_once_or_is_sent_back_for_a_reason(
        seed in any::<u64>(),
        count in 0..12_usize,
        width in 1..5_usize,
        flaky in prop_oneof![Just(0_u64), Just(10)],
        bad in proptest::collection::btree_set(0..12_usize, 0..3),
        pairs in proptest::collection::btree_set((0..12_usize, 0..12_usize), 0..4),
        conflicts in proptest::collection::btree_set((0..12_usize, 0..12_usize), 0..4),
        resolved in proptest::collection::btree_set(0..12_usize, 0..6),
    ) {
        let mut world = QueueWorld::new(seed, width);
        let pairs_of = |all: BTreeSet<(usize, usize)>| all.into_iter().filter(|(a, b)| a < b);
        (world.bad, world.flaky, world.resolved) = (bad, flaky, resolved);
        (world.pairs, world.conflicts) = (pairs_of(pairs).collect(), pairs_of(conflicts).collect());
        world.process(count);
        let works = &world.commits[&world.tip];
        prop_assert!(world.is_green(works), "the tip is red");
        prop_assert_eq!(works.len(), world.landed.len());
        // Where commands fail for no reason, the base may seem to fail too.
        if flaky == 0 {
            world.check(count);
        }
    }
}
