//! A farm of a thousand machines, simulated: the real choices and the real history, with attempts
//! that only take virtual time. Some fail, and some are lost with their machine.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use nix::sys::resource::{UsageWho, getrusage};
use ralph::{
    core::{
        event::{AttemptResult, Event, record::Record},
        graph::{TaskGraph, task::Status},
        history::History,
        select::{Active, Decision, Policy, View, keys},
        verdict::{Outcome, Verdict},
    },
    project::graph_file::graph_of,
};

use crate::{
    Bench,
    inputs::{self, Random, Shape},
    mb, ms, row,
};

/// The number of machines, each with one attempt at a time.
const MACHINES: usize = 1_000;
/// The number of decisions that are timed; `--full` makes all of them.
const DECISIONS: usize = 5_000;

/// What a simulation came to.
#[derive(Default)]
struct Farm {
    decisions: usize,
    attempts: usize,
    complete: usize,
    took: Duration,
    slowest: Duration,
    virtual_time: TimeDelta,
}

/// An attempt on its machine: when it ends, which task, and how.
type Running = Reverse<(DateTime<Utc>, usize, FarmEnd)>;

/// How an attempt ends: the order makes ties deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FarmEnd {
    Complete,
    Failed,
    Lost,
}

/// A farm at work.
struct Work {
    graph: TaskGraph,
    history: History,
    random: Random,
    now: DateTime<Utc>,
    seq: u64,
    running: BinaryHeap<Running>,
    attempts_of: Vec<u32>,
    farm: Farm,
}

impl Work {
    fn tell(&mut self, at: DateTime<Utc>, number: usize, event: Event) {
        self.seq += 1;
        self.history.apply(&Record {
            timestamp: at,
            run_id: "r1".to_owned(),
            seq: self.seq,
            iteration: None,
            task_id: Some(self.graph.task(number).id.clone()),
            event,
        });
    }

    fn start(&mut self, number: usize) {
        self.attempts_of[number] += 1;
        self.farm.attempts += 1;
        let started = inputs::started(&mut self.random, self.attempts_of[number], String::new());
        self.tell(self.now, number, started);
        let end = match self.random.pick(0..100) {
            0..90 => FarmEnd::Complete,
            90..95 => FarmEnd::Failed,
            _ => FarmEnd::Lost,
        };
        let minutes = i64::try_from(self.random.pick(10..60)).expect("a small number");
        self.graph.set_status(number, Status::InProgress);
        self.running.push(Reverse((self.now + TimeDelta::minutes(minutes), number, end)));
    }

    /// Goes on to this time, or to the next end of an attempt.
    fn advance(&mut self, until: Option<DateTime<Utc>>) {
        let next = self.running.peek().map(|Reverse((at, ..))| *at);
        self.now = next.into_iter().chain(until).min().expect("something to wait for");
        while let Some(Reverse((at, number, end))) =
            self.running.peek().copied().filter(|Reverse((at, ..))| *at <= self.now)
        {
            self.running.pop();
            let attempt = self.attempts_of[number];
            let ended = inputs::ended(&mut self.random, attempt, String::new());
            let (status, event) = match end {
                FarmEnd::Complete => {
                    self.farm.complete += 1;
                    let verdict = Verdict::Complete;
                    (Status::Complete, Event::Ended(AttemptResult { verdict, ..ended }))
                }
                FarmEnd::Failed => {
                    let verdict = Verdict::Failed;
                    (Status::Pending, Event::Ended(AttemptResult { verdict, ..ended }))
                }
                FarmEnd::Lost => {
                    let (verdict, outcome) = (Verdict::Interrupted, Outcome::Interrupted);
                    let ended = AttemptResult { verdict, outcome, ..ended };
                    (Status::Pending, Event::Ended(ended))
                }
            };
            self.tell(at, number, event);
            self.graph.set_status(number, status);
        }
    }
}

fn simulate(tasks: usize, most: usize) -> Farm {
    let text = inputs::graph(Shape::Layered, tasks, 0);
    let graph = graph_of(text.as_bytes()).expect("a graph");
    drop(text);
    let keys = keys(&graph);
    let policy = Policy {
        jobs: MACHINES,
        max_iterations: Some(u32::MAX),
        max_failures: 0,
        ..Policy::default()
    };
    let began = DateTime::from_timestamp(1_760_000_000, 0).expect("a time");
    let mut work = Work {
        graph,
        history: History::default(),
        random: Random::new(3),
        now: began,
        seq: 0,
        running: BinaryHeap::new(),
        attempts_of: vec![0; tasks],
        farm: Farm::default(),
    };
    while work.farm.decisions < most {
        let active = |Reverse((_, number, _)): &Running| Active {
            number: Some(*number),
            agent: None,
            works: true,
        };
        let active: Vec<Active<'_>> = work.running.iter().map(active).collect();
        let view = View {
            graph: &work.graph,
            keys: &keys,
            history: &work.history,
            policy: &policy,
            active: &active,
        };
        let start = Instant::now();
        let decision = view.decide(work.now);
        let took = start.elapsed();
        work.farm.decisions += 1;
        work.farm.took += took;
        work.farm.slowest = work.farm.slowest.max(took);
        match decision {
            Decision::Start(key) => work.start(key.number),
            Decision::Wait(wait) => work.advance(wait.until),
            Decision::Stop(_) => break,
        }
    }
    work.farm.virtual_time = work.now - began;
    work.farm
}

pub fn scale(bench: &Bench) {
    for tasks in [10_000, 100_000] {
        let most = if bench.full { usize::MAX } else { DECISIONS };
        let farm = simulate(tasks, most);
        let what = format!("{MACHINES} machines, {tasks} tasks: a decision");
        let rate = farm.decisions as f64 / farm.took.as_secs_f64();
        let each = farm.took / u32::try_from(farm.decisions).expect("few decisions");
        row("22", &what, &ms(each), &format!("{rate:.0} a second"), "", "");
        row("22", "… the slowest", &ms(farm.slowest), "", "", "");
        // On average, an attempt takes 35 minutes.
        let needed = MACHINES as f64 / (35.0 * 60.0);
        let beside = format!("{needed:.2} a second keep all machines busy");
        row("22", "… headroom", &format!("{:.0}x", rate / needed / 2.0), &beside, "", "> 1x");
        let hours = farm.virtual_time.num_minutes() as f64 / 60.0;
        let done = format!("{} complete after {hours:.1} h", farm.complete);
        row("22", "… attempts", &farm.attempts.to_string(), &done, "", "");
    }
    let peak = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.max_rss()).unwrap_or_default();
    row("22", "… peak memory", &mb(peak), "", "", "");
}
