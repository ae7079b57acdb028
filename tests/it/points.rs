//! Kills at every crash point: the runner, guardian or command dies there, further runs follow
//! until the graph is complete, and the oracle checks the result.
//!
//! A first run records which points a scenario passes and how often. The process is killed at the
//! first and the last passing of each, in the checkout at the last; with `RALPH_CRASH_ALL=1`, at
//! every passing. The points of a transfer have a test of their own in
//! `transfer.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    process::Stdio,
    time::Instant,
};

use ralph::crash::POINTS;

use crate::{
    oracle,
    support::{RALPH, SETTINGS, SOON, TestProject, agent, each},
};

const TASKS: usize = 3;

/// What happens in addition to the kill. Every point is passed in one of the scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scenario {
    /// Nothing.
    Plain,
    /// An earlier run was killed while its first agent worked.
    Recovered,
    /// An earlier run was killed between the end of an attempt and the removal of its record, and
    /// git converts the line ends of the graph.
    Known,
    /// The first attempt truncates the graph.
    Wrecked,
    /// There is an unreadable record of an attempt.
    Damaged,
    /// The first attempt reports work that it has not committed; tasks are verified.
    Reported,
    /// The first attempt fails and has leftovers.
    Failed,
    /// All attempts run at once, and two of them conflict.
    Clash,
}

const SCENARIOS: [Scenario; 8] = {
    use Scenario::{Clash, Damaged, Failed, Known, Plain, Recovered, Reported, Wrecked};
    [Plain, Recovered, Known, Wrecked, Damaged, Reported, Failed, Clash]
};

/// A scenario, and whether attempts work in slots or in the checkout.
type Stage = (Scenario, bool);

/// All scenarios in slots, then those that exist in the checkout.
fn stages() -> Vec<Stage> {
    let slots = SCENARIOS.map(|scenario| (scenario, true));
    let checkout = SCENARIOS.map(|scenario| (scenario, false));
    slots.into_iter().chain(checkout.into_iter().filter(|it| it.0 != Scenario::Clash)).collect()
}

impl Scenario {
    /// The points at which a run is always killed.
    fn deadly(self) -> &'static [&'static str] {
        match self {
            Scenario::Recovered => &["start.identified:1"],
            Scenario::Known => &["close.told:1"],
            _ => &[],
        }
    }

    fn stage(self) -> TestProject {
        let trial = oracle::stage(TASKS);
        match self {
            Scenario::Wrecked => trial.chaos("work,report,c3:cut"),
            Scenario::Damaged => {
                fs::create_dir_all(trial.state().join("attempts")).unwrap();
                fs::write(trial.state().join("attempts/t0.1.json"), "{\"run_id\":").unwrap();
                trial
            }
            Scenario::Reported => {
                let settings = format!("{SETTINGS}verify: ['true']\n");
                trial.file(".ralph/config.yaml", &settings).chaos("leave,report,exit")
            }
            Scenario::Failed => trial.chaos("leave,fail"),
            // Even if the death of its run is noticed late, the agent has not finished by then.
            Scenario::Recovered => trial.chaos("orphan"),
            Scenario::Clash => oracle::clashing(trial),
            Scenario::Known => {
                let trial = trial.file(".gitattributes", "task-graph.yaml text eol=crlf\n");
                fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
                trial.git(&["checkout", "--", "task-graph.yaml"]);
                trial
            }
            Scenario::Plain => trial,
        }
    }

    /// Whether a point is tested in this scenario although an earlier one passes it.
    fn again(self, point: &str) -> bool {
        let others = ["start.told", "close.judged", "close.told", "recover.told", "verify.ended"];
        self == Scenario::Clash
            && (env::var_os("RALPH_CRASH_ALL").is_some() || others.contains(&point))
    }
}

/// The number of kills in one trial: a later one meets what the recovery of an earlier one left.
const AT_ONCE: usize = 12;

/// The result of one killed run and those that recover it.
struct KilledRun {
    /// Every point in the order in which it was passed.
    passed: Vec<String>,
    /// `start.told:1` and so on.
    kills: Vec<String>,
    faults: Vec<String>,
}

/// Runs until the graph is complete, with kills at these points.
fn run((scenario, is_isolated): Stage, deadly: &[String]) -> KilledRun {
    let points: Vec<&str> =
        scenario.deadly().iter().copied().chain(deadly.iter().map(String::as_str)).collect();
    let trial = scenario.stage();
    let trial = if is_isolated { trial } else { trial.in_place() };
    let record = trial.sign("passed");
    let trial = trial
        .env("RALPH_CRASH_RECORD", record.to_str().unwrap())
        .env("RALPH_CRASH_POINT", &points.join(","));
    let began = Instant::now();
    let code = loop {
        assert!(began.elapsed() < SOON * 4, "{scenario:?} {is_isolated} {points:?} does not end");
        let mut run = trial.process(RALPH);
        run.args(["run", "-q", "--"]).arg(agent("chaos"));
        match run.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code() {
            // Killed, or refused because the guardian of a killed run still holds the lock.
            None | Some(5) => {}
            Some(code) => break code,
        }
    };
    let (mut faults, torn) = oracle::faults(&trial, TASKS);
    faults.extend(if is_isolated {
        oracle::merged(&trial, oracle::CHECK, &[])
    } else {
        oracle::committed(&trial, &[])
    });
    if code != 0 {
        faults.push(format!("exit code {code}"));
    }
    if torn > 0 {
        faults.push(format!("{torn} torn lines"));
    }
    if !faults.is_empty() {
        faults.push(trial.read("logs/ralph.jsonl"));
    }
    trial.no_process_is_left();
    let text = fs::read_to_string(record).unwrap();
    let (kills, passed): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with("killed at "));
    KilledRun {
        passed: passed.into_iter().map(str::to_owned).collect(),
        kills: kills.iter().map(|line| line["killed at ".len()..].to_owned()).collect(),
        faults,
    }
}

/// A run is killed after it has written that a task is complete, and before it commits that. The
/// next one commits what the file has.
#[test]
#[ignore = "slow"]
fn a_completion_is_committed_as_it_was_written() {
    let trial = oracle::stage(1).in_place();
    let record = trial.sign("passed");
    let trial = trial
        .env("RALPH_CRASH_RECORD", record.to_str().unwrap())
        // The first is the claim.
        .env("RALPH_CRASH_POINT", "graph.written:2");
    trial.run(["run"]).code(-1);
    trial.no_process_is_left();
    let text = trial.graph_text();
    assert!(text.contains("status: complete"), "{text}");
    let line = text.lines().find(|line| line.contains("completed_at: ")).unwrap();
    trial
        .save("task-graph.yaml", &text.replace(line, "    completed_at: \"2026-11-20T22:44:03Z\""));
    trial.run(["run"]).graph_complete();
    assert_eq!(oracle::committed(&trial, &[]), Vec::<String>::new());
    assert!(trial.graph_text().contains("2026-11-20T22:44:03Z"));
}

/// The passings of a point at which to kill.
fn chosen(count: usize, is_isolated: bool) -> BTreeSet<usize> {
    if env::var_os("RALPH_CRASH_ALL").is_some() {
        return (1..=count).collect();
    }
    let first = if is_isolated { 1 } else { count };
    [first, count].into()
}

#[test]
#[ignore = "slow"]
fn a_kill_at_any_point_costs_nothing() {
    let began = Instant::now();
    let recorded = each(4, &stages(), |stage| (*stage, run(*stage, &[])));
    let mut violations: Vec<String> = recorded
        .iter()
        .flat_map(|(it, found)| found.faults.iter().map(move |fault| format!("{it:?}: {fault}")))
        .collect();
    // Every point in the first scenario that passes it, both in slots and in the checkout, and in
    // those that repeat it.
    let mut counts: BTreeMap<(&str, Stage), usize> = BTreeMap::new();
    for (stage, found) in &recorded {
        let (scenario, is_isolated) = *stage;
        for point in POINTS {
            let count = found.passed.iter().filter(|name| name == point).count();
            let is_earlier = |other: Stage| other.1 == is_isolated && other.0 < scenario;
            let mut others = recorded.iter().filter(|(other, _)| is_earlier(*other));
            let known = others.any(|(_, found)| found.passed.iter().any(|name| name == point));
            if count > 0 && (!known || scenario.again(point)) {
                counts.insert((point, *stage), count);
            }
        }
    }
    // Those of transfers, take-backs, follow-ups and `uninit` have tests of their own.
    let is_of_run = |point: &&&str| {
        !["transfer.", "back.", "followup.", "uninit."].iter().any(|of| point.starts_with(of))
    };
    let of_runs = POINTS.iter().filter(is_of_run);
    let never: Vec<_> =
        of_runs.filter(|point| !counts.keys().any(|(known, _)| known == *point)).collect();
    assert!(never.is_empty(), "passed in no scenario: {never:?}");

    let mut deadly: BTreeMap<Stage, Vec<String>> = BTreeMap::new();
    for ((point, stage), count) in &counts {
        let chosen = chosen(*count, stage.1).into_iter().map(|nth| format!("{point}:{nth}"));
        deadly.entry(*stage).or_default().extend(chosen);
    }
    let trials: Vec<(Stage, Vec<String>)> = deadly
        .iter()
        .flat_map(|(stage, points)| points.chunks(AT_ONCE).map(|some| (*stage, some.to_vec())))
        .collect();
    let mut kills = 0;
    let mut judge = |results: Vec<((Stage, Vec<String>), KilledRun)>| {
        let mut missed = Vec::new();
        for ((stage, deadly), found) in results {
            // How often the others are passed depends on timing.
            let firsts = deadly.iter().filter(|point| point.ends_with(":1"));
            let firsts = firsts.filter(|point| !found.kills.contains(point));
            missed.extend(firsts.map(|point| (stage, vec![point.clone()])));
            kills += found.kills.len();
            violations
                .extend(found.faults.iter().map(|fault| format!("{stage:?} {deadly:?}: {fault}")));
        }
        missed
    };
    let tried =
        |trials: &[(Stage, Vec<String>)]| each(4, trials, |it| (it.clone(), run(it.0, &it.1)));
    let alone = judge(tried(&trials));
    // Another kill may have led the run past a point.
    let never = judge(tried(&alone));
    violations.extend(never.iter().map(|it| format!("nothing was killed at {it:?}")));
    println!(
        "crash points {}, kills survived {kills}, violations {}; {:?}",
        POINTS.len(),
        violations.len(),
        began.elapsed()
    );
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
