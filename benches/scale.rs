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
        graph::task::Status,
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

fn simulate(tasks: usize, most: usize) -> Farm {
    let text = inputs::graph(Shape::Layered, tasks, 0);
    let mut graph = graph_of(text.as_bytes()).expect("a graph");
    drop(text);
    let keys = keys(&graph, false);
    let policy =
        Policy { jobs: MACHINES, max_iterations: u32::MAX, max_failures: 0, ..Policy::default() };
    let mut history = History::default();
    let mut random = Random::new(3);
    let began = DateTime::from_timestamp(1_760_000_000, 0).expect("a time");
    let (mut now, mut seq) = (began, 0);
    let mut running: BinaryHeap<Running> = BinaryHeap::new();
    let mut attempts_of = vec![0_u32; tasks];
    let mut farm = Farm {
        decisions: 0,
        attempts: 0,
        complete: 0,
        took: Duration::ZERO,
        slowest: Duration::ZERO,
        virtual_time: TimeDelta::zero(),
    };
    let mut tell = |history: &mut History, at, id, event| {
        seq += 1;
        let run_id = "r1".to_owned();
        history.apply(&Record {
            timestamp: at,
            run_id,
            seq,
            iteration: None,
            task_id: Some(id),
            event,
        });
    };
    while farm.decisions < most {
        let active: Vec<Active<'_>> = running
            .iter()
            .map(|Reverse((_, number, _))| Active {
                number: Some(*number),
                agent: None,
                works: true,
            })
            .collect();
        let view = View {
            graph: &graph,
            keys: &keys,
            history: &history,
            policy: &policy,
            active: &active,
        };
        let start = Instant::now();
        let decision = view.decide(now);
        let took = start.elapsed();
        farm.decisions += 1;
        farm.took += took;
        farm.slowest = farm.slowest.max(took);
        match decision {
            Decision::Start(key) => {
                let number = key.number;
                let id = graph.task(number).id.clone();
                attempts_of[number] += 1;
                farm.attempts += 1;
                tell(
                    &mut history,
                    now,
                    id,
                    inputs::started(&mut random, attempts_of[number], String::new()),
                );
                let end = match random.pick(0..100) {
                    0..90 => FarmEnd::Complete,
                    90..95 => FarmEnd::Failed,
                    _ => FarmEnd::Lost,
                };
                let minutes = i64::try_from(random.pick(10..60)).expect("a small number");
                graph.set_status(number, Status::InProgress);
                running.push(Reverse((now + TimeDelta::minutes(minutes), number, end)));
            }
            Decision::Wait(wait) => {
                let next = running.peek().map(|Reverse((at, ..))| *at);
                now = next.into_iter().chain(wait.until).min().expect("something to wait for");
                while running.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
                    let Reverse((at, number, end)) = running.pop().expect("an attempt");
                    let id = graph.task(number).id.clone();
                    let ended = inputs::ended(&mut random, attempts_of[number], String::new());
                    let (status, event) = match end {
                        FarmEnd::Complete => {
                            farm.complete += 1;
                            let verdict = Verdict::Complete;
                            (Status::Complete, Event::Completed(AttemptResult { verdict, ..ended }))
                        }
                        FarmEnd::Failed => {
                            let verdict = Verdict::Failed;
                            (Status::Pending, Event::Failed(AttemptResult { verdict, ..ended }))
                        }
                        FarmEnd::Lost => {
                            let (verdict, outcome) = (Verdict::Interrupted, Outcome::Interrupted);
                            let ended = AttemptResult { verdict, outcome, ..ended };
                            (Status::Pending, Event::Interrupted(ended))
                        }
                    };
                    tell(&mut history, at, id, event);
                    graph.set_status(number, status);
                }
            }
            Decision::Stop(_) => break,
        }
    }
    farm.virtual_time = now - began;
    farm
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
