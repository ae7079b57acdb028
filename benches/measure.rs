//! Timing side by side, and what the system says of a process that has ended.
//!
//! Alternatives run in turn, A B A B …, and a ratio is taken within each round, so that a machine
//! whose speed drifts does not decide. It must not know what is measured.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};

/// The word that makes this program run another one and say what that took.
pub const CHILD: &str = "--measure-child";

/// The earlier program that `--before` names.
static BEFORE: OnceLock<PathBuf> = OnceLock::new();
/// Whether it is its turn.
static IS_ITS_TURN: AtomicBool = AtomicBool::new(false);
/// How often a program under test was started.
static STARTS: AtomicUsize = AtomicUsize::new(0);

/// Measures this earlier program as well.
pub fn set_before(program: PathBuf) {
    BEFORE.set(program).expect("set once");
}

/// Whether an earlier program is measured.
pub fn has_before() -> bool {
    BEFORE.get().is_some()
}

/// The program under test: `own`, or the earlier one when it is its turn.
pub fn program(own: &str) -> PathBuf {
    STARTS.fetch_add(1, Ordering::Relaxed);
    match BEFORE.get() {
        Some(before) if IS_ITS_TURN.load(Ordering::Relaxed) => before.clone(),
        _ => own.into(),
    }
}

/// The times of several alternatives, by alternative and round.
pub struct Times {
    now: Vec<Vec<Duration>>,
    /// Those of the earlier program; empty for an alternative that does not start it.
    before: Vec<Vec<Duration>>,
}

/// Runs every alternative once to warm up, then all of them `rounds` times in turn. An alternative
/// that starts the program under test runs right after that with the earlier one, if there is one.
pub fn in_turn(rounds: usize, alternatives: &mut [&mut dyn FnMut() -> Duration]) -> Times {
    let mut now = vec![Vec::new(); alternatives.len()];
    let mut before = now.clone();
    for round in 0..=rounds {
        for (at, run) in alternatives.iter_mut().enumerate() {
            let starts = STARTS.load(Ordering::Relaxed);
            let took = run();
            let is_ours = STARTS.load(Ordering::Relaxed) > starts;
            let earlier = (is_ours && has_before()).then(|| {
                IS_ITS_TURN.store(true, Ordering::Relaxed);
                let took = run();
                IS_ITS_TURN.store(false, Ordering::Relaxed);
                took
            });
            if round > 0 {
                now[at].push(took);
                before[at].extend(earlier);
            }
        }
    }
    Times { now, before }
}

impl Times {
    /// The median of one alternative.
    pub fn of(&self, alternative: usize) -> Duration {
        median(self.now[alternative].clone())
    }

    /// The median of one alternative with the earlier program; none without one.
    pub fn before(&self, alternative: usize) -> Option<Duration> {
        let times = &self.before[alternative];
        (!times.is_empty()).then(|| median(times.clone()))
    }

    /// The median over the rounds of one alternative's time as a multiple of another's.
    pub fn ratio(&self, one: usize, other: usize) -> f64 {
        let rounds = self.now[one].iter().zip(&self.now[other]);
        let mut ratios: Vec<f64> = rounds.map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }

    /// The median over the rounds of how much longer one took than another, in milliseconds.
    pub fn difference(&self, one: usize, other: usize) -> f64 {
        let rounds = self.now[one].iter().zip(&self.now[other]);
        let mut ms: Vec<f64> =
            rounds.map(|(a, b)| (a.as_secs_f64() - b.as_secs_f64()) * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        ms[ms.len() / 2]
    }
}

/// The middle one.
pub fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// How long a process takes from start to end, its output thrown away.
///
/// # Panics
/// When it fails with a code that is not in `fine`.
pub fn time(command: &mut Command, fine: &[i32]) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let took = began.elapsed();
    assert!(status.code().is_some_and(|code| fine.contains(&code)), "{command:?}: {status}");
    took
}

/// What a process and the processes it waited for took.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time in microseconds.
    pub cpu: i64,
    /// The largest resident size of any one of them, in KiB.
    pub peak: i64,
}

impl Usage {
    /// Of a whole run of `command`.
    pub fn of(command: &Command) -> Usage {
        let wrapped = &mut wrapper(command);
        wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let output = wrapped.output().expect("start this program again");
        Usage::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// What the wrapper wrote.
    pub fn parse(text: &str) -> Usage {
        let numbers: Vec<i64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [cpu, peak] = numbers[..] else { panic!("the wrapper said {text:?}") };
        Usage { cpu, peak }
    }
}

/// The command that runs `command` through a small process of its own. The system adds up what
/// children took, but only over all that a process has ever waited for.
pub fn wrapper(command: &Command) -> Command {
    let mut wrapper = Command::new(env::current_exe().expect("this program has a path"));
    wrapper.arg(CHILD).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        wrapper.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    wrapper
}

/// The other side of [`wrapper`]: prints processor time and peak memory, into the file that
/// `RALPH_BENCH_REPORT` names or on standard output.
pub fn child(mut words: impl Iterator<Item = String>) -> ExitCode {
    let program = words.next().expect("a program to run");
    let report = env::var_os("RALPH_BENCH_REPORT");
    let mut command = Command::new(&program);
    command.args(words);
    if report.is_none() {
        command.stdout(Stdio::null());
    }
    let status = command.status().unwrap_or_else(|error| panic!("{program}: {error}"));
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of children");
    let cpu = usage.user_time() + usage.system_time();
    let text = format!("{} {}\n", cpu.num_microseconds(), usage.max_rss());
    match report {
        Some(path) => fs::write(Path::new(&path), text).expect("write the report"),
        None => print!("{text}"),
    }
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
