//! Runner, guardian and agent are killed at random, alone or together, until the graph is complete;
//! then the oracle checks the result, and that of every position of the target branch.
//!
//! `RALPH_TORTURE_SEED` repeats a test, `RALPH_TORTURE_KILLS` sets the number of kills.

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    oracle,
    support::{RALPH, SOON, TestProject, agent},
    workload::{self, Shape, Workload},
};
use ralph::core::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};

const TASKS: usize = 6;

/// The kills in one repository, after which the graph is completed undisturbed.
const KILLS: usize = 8;

/// Pseudo-random numbers from a seed.
pub struct SeededNumbers(Dice);

impl SeededNumbers {
    /// Numbers of this seed.
    pub fn new(seed: u64) -> SeededNumbers {
        SeededNumbers(Dice(seed))
    }

    /// A number below this one.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0.roll() % below
    }
}

/// The counts over all repositories.
#[derive(Default)]
struct Tally {
    kills: usize,
    torn: usize,
    survivors: usize,
    violations: Vec<String>,
    recovery: Vec<Duration>,
}

impl Tally {
    /// Counts the processes that are left of a repository, and ends them.
    fn end_survivors(&mut self, trial: &TestProject) {
        let left = survivors(trial);
        self.survivors += left.len();
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn number(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

/// Processes below `ancestor`: its children first, then theirs.
fn below(ancestor: u32) -> Vec<(Pid, u32)> {
    let mut parents = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let pid = process.file_name().to_str().and_then(number);
        let parent: Option<u32> =
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        if let (Some(pid), Some(parent)) = (pid, parent) {
            parents.push((pid, parent));
        }
    }
    let children =
        |of: u32| parents.iter().filter(move |(_, parent)| *parent == of).map(|(pid, _)| *pid);
    let mut found: Vec<(Pid, u32)> = children(ancestor).map(|pid| (pid, 1)).collect();
    let mut at = 0;
    while let Some((pid, depth)) = found.get(at).copied() {
        found.extend(
            children(pid.as_raw_nonzero().get().unsigned_abs()).map(|pid| (pid, depth + 1)),
        );
        at += 1;
    }
    found
}

fn start(trial: &TestProject, agent_name: &str) -> Child {
    let mut command = trial.process(RALPH);
    command.args(["run", "--"]).arg(agent(agent_name));
    command.stdout(Stdio::null()).stderr(fs::File::create(trial.sign("said")).unwrap());
    command.spawn().unwrap()
}

/// Kills the runner, its processes or both at the same moment, by stopping all of them first.
/// Returns what was killed, drawn at random, or `None` if there was no such process.
fn strike(run: &Child, dice: &mut SeededNumbers) -> Option<&'static str> {
    let own = number(&run.id().to_string())?;
    let family = below(run.id());
    let at =
        |wanted: u32| family.iter().filter(move |(_, depth)| *depth == wanted).map(|(pid, _)| *pid);
    let (what, targets): (_, Vec<Pid>) = match dice.roll(5) {
        0 => ("runner", vec![own]),
        1 => ("guardian", at(1).collect()),
        2 => ("agent", at(2).collect()),
        3 => ("runner and guardian", [own].into_iter().chain(at(1)).collect()),
        _ => ("all", [own].into_iter().chain(family.iter().map(|(pid, _)| *pid)).collect()),
    };
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in &targets {
            let _ = kill_process(*pid, signal);
        }
    }
    (!targets.is_empty()).then_some(what)
}

/// What is done to one repository.
struct Torment {
    agent: &'static str,
    kills: usize,
    /// The longest time between two kills.
    pause: Duration,
    /// How often a run may stop because of failures that are part of the work.
    stops: usize,
}

/// One repository: kills at random moments, then a run to the end. Returns its exit code.
fn torment(
    trial: &TestProject,
    order: &Torment,
    dice: &mut SeededNumbers,
    tally: &mut Tally,
) -> i32 {
    let Torment { agent, kills, mut stops, .. } = *order;
    let pause = u64::try_from(order.pause.as_micros()).unwrap();
    let mut run = start(trial, agent);
    let (mut struck, mut hit, mut died) = (0, false, None::<Instant>);
    let deadline = Instant::now() + SOON * 4;
    loop {
        if Instant::now() > deadline {
            println!("the run does not end");
            run.kill().unwrap();
            return run.wait().unwrap().code().unwrap_or(-1);
        }
        // Not a wait for something: each kill comes at another moment.
        thread::sleep(Duration::from_micros(dice.roll(pause)));
        if struck < kills && run.try_wait().unwrap().is_none() && strike(&run, dice).is_some() {
            (struck, hit) = (struck + 1, true);
            tally.kills += 1;
        }
        if let Some(began) = died
            && said(trial)
        {
            tally.recovery.push(began.elapsed());
            died = None;
        }
        if let Some(status) = run.try_wait().unwrap() {
            match status.code() {
                None => died = Some(Instant::now()),
                // The guardian of the previous run is still active.
                Some(5) => thread::sleep(Duration::from_millis(1)),
                // A run may stop because too many of its processes were killed, for no other
                // reason.
                Some(code) if (!hit && stops == 0) || code == 0 => return code,
                Some(_) if !hit => stops -= 1,
                Some(_) => {}
            }
            (run, hit) = (start(trial, agent), false);
            if let Some(began) = died.filter(|_| struck >= kills) {
                await_recovery(trial, agent, &mut run, began, tally);
                died = None;
            }
        }
    }
}

/// Whether the run has started its own attempts.
fn said(trial: &TestProject) -> bool {
    let said = fs::read_to_string(trial.sign("said")).unwrap_or_default();
    said.contains(" started") || said.contains("complete (")
}

fn await_recovery(
    trial: &TestProject,
    agent: &str,
    run: &mut Child,
    began: Instant,
    tally: &mut Tally,
) {
    while began.elapsed() < SOON {
        if said(trial) {
            tally.recovery.push(began.elapsed());
            return;
        }
        if run.try_wait().unwrap().is_some_and(|status| status.code() == Some(5)) {
            *run = start(trial, agent);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The number in a variable.
pub fn given(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().expect(name))
}

/// The seed of a test, which it prints.
pub fn seed() -> u64 {
    let seed = given("RALPH_TORTURE_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    println!("RALPH_TORTURE_SEED={seed}");
    seed
}

/// The processes with this project's folder in their command lines.
fn survivors(trial: &TestProject) -> Vec<Pid> {
    let sign = trial.sign("never").display().to_string();
    let lives = |path: std::path::PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == sign.as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter(|process| lives(process.path()));
    all.filter_map(|process| number(process.file_name().to_str()?)).collect()
}

#[test]
#[ignore = "slow"]
fn no_kill_at_any_moment_costs_anything() {
    let wanted = given("RALPH_TORTURE_KILLS").unwrap_or(25);
    let limit = Duration::from_secs(given("RALPH_TORTURE_SECONDS").unwrap_or(u64::MAX));
    let seed = seed();
    let began = Instant::now();
    let mut dice = SeededNumbers::new(seed);
    let mut tally = Tally::default();
    while (tally.kills as u64) < wanted && began.elapsed() < limit {
        let kills = KILLS.min(usize::try_from(wanted).unwrap() - tally.kills);
        let trial = oracle::stage(TASKS).chaos("b6:kept");
        // Three attempts in slots, then one at a time in a slot, then one in the checkout; the seed
        // decides which is first.
        let stage = (tally.kills / KILLS + seed as usize) % 3;
        let trial = match stage {
            0 => oracle::clashing(trial),
            1 => trial,
            _ => trial.in_place(),
        };
        let pause = Duration::from_millis(120);
        let order = Torment { agent: "chaos", kills, pause, stops: 0 };
        let code = torment(&trial, &order, &mut dice, &mut tally);
        tally.end_survivors(&trial);
        let (mut faults, torn) = oracle::faults(&trial, TASKS);
        tally.torn += torn;
        faults.extend(if stage == 2 {
            oracle::committed(&trial, &[])
        } else {
            oracle::merged(&trial, oracle::CHECK, &[])
        });
        if code != 0 {
            faults.push(format!("exit code {code}"));
        }
        if !faults.is_empty() {
            println!("{}\n{}", faults.join("\n"), trial.read("logs/ralph.jsonl"));
        }
        tally.violations.extend(faults);
    }
    tally.recovery.sort_unstable();
    let percentile = |part: usize| {
        let last = tally.recovery.len().saturating_sub(1);
        tally.recovery.get(last * part / 100).map_or(0, Duration::as_millis)
    };
    println!(
        "kills_survived={} violations={} survivors={} recovery_ms_p50={} recovery_ms_p99={} torn={}",
        tally.kills,
        tally.violations.len(),
        tally.survivors,
        percentile(50),
        percentile(99),
        tally.torn,
    );
    assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
    assert_eq!(tally.survivors, 0, "seed {seed}");
}

/// Tasks collide while their work lands and processes are killed. Every commit that the target
/// branch ever was at passes the verify command.
#[test]
#[ignore = "slow"]
fn no_position_of_the_target_branch_is_red() {
    const FORMS: [&str; 2] = ["rebase", "merge"];
    let seed = seed();
    let mut dice = SeededNumbers::new(seed);
    // By default one small graph.
    let long = given("RALPH_TORTURE_KILLS").map(|kills| usize::try_from(kills).unwrap());
    let (wanted, kills, most) = long.map_or((4, 4, 8), |wanted| (wanted, 25, 40));
    let (mut tally, mut positions, mut red) = (Tally::default(), 0, 0);
    for round in seed as usize.. {
        if tally.kills >= wanted {
            break;
        }
        let shape = Shape::ALL[round / FORMS.len() % Shape::ALL.len()];
        let form = FORMS[round % FORMS.len()];
        let tasks = most - usize::try_from(dice.roll(most as u64 / 2)).unwrap();
        let Workload { trial, complete, .. } =
            Workload::new(shape, tasks, form, &mut |below| dice.roll(below));
        let kills = kills.min(wanted - tally.kills);
        let order =
            Torment { agent: "collide", kills, pause: Duration::from_millis(300), stops: tasks };
        let code = torment(&trial, &order, &mut dice, &mut tally);
        tally.end_survivors(&trial);
        let (mut faults, _) = oracle::faults_of(&trial, tasks, &complete);
        faults.extend(oracle::merged(&trial, workload::CHECK, &[]));
        if code != 0 {
            faults.push(format!("exit code {code}"));
        }
        let count = oracle::positions(&trial).len();
        (positions, red) = (positions + count, red + red_among(&faults));
        println!("{tasks} tasks, {shape:?}, {form}: {count} positions, {}", collisions(&trial));
        if !faults.is_empty() {
            println!("{}\n{}", faults.join("\n"), trial.read("logs/ralph.jsonl"));
        }
        tally.violations.extend(faults);
    }
    println!("kills={} positions={positions} red_positions={red}", tally.kills);
    assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
    assert_eq!(tally.survivors, 0, "seed {seed}");
}

/// The collisions of a repository, in words.
fn collisions(trial: &TestProject) -> String {
    let failed = trial.lines("failed");
    let sent_back = |result| failed.iter().filter(|line| line["merge"]["result"] == result).count();
    let (conflicts, red) = (sent_back("conflict"), sent_back("red"));
    format!("sent back: {conflicts} in conflict, {red} red")
}

fn red_among(faults: &[String]) -> usize {
    faults.iter().filter(|fault| fault.starts_with("red: ")).count()
}
