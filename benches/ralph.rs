//! What `ralph` costs, beside what one would use instead: `cargo bench`, or `cargo bench -- NAME`
//! for one part, or `cargo bench -- --full` for the largest inputs too. `--before PROGRAM` measures
//! an earlier `ralph` in the same rounds.
//!
//! Shown and never asserted: a shared machine may miss any of these for a while. Ratios are what to
//! trust; both sides of one run in turn. Needs git, make and xargs; what else is missing is said and
//! left out. Odd on purpose: `cargo bench` builds no examples, so this does.

mod inputs;
mod jobs;
mod measure;
mod page;
mod scale;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use inputs::{Place, Shape};
use measure::{Times, Usage, in_turn, time, wrapper};
use ralph::{adapters::git::Repo, report::heartbeat::HeartbeatReporter, runner::Reporter};

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");
/// Rounds of what takes well under a second; more than that gets fewer.
const ROUNDS: usize = 9;
const FEW: usize = 3;
/// The exit code of a run that stops at its limit of iterations.
const LIMIT: i32 = 2;

/// Variables whose values are removed from what an agent prints.
const SECRETS: [(&str, &str); 3] = [
    ("BENCH_API_KEY", "the value of a key to remove"),
    ("BENCH_TOKEN", "the value of a token to remove"),
    ("BENCH_PASSWORD", "the value of a password to remove"),
];

type Part = fn(&Bench);

/// The parts, by the name that asks for one.
const PARTS: [(&str, Part); 22] = [
    ("start-up", start_up),
    ("choose", choose),
    ("shapes", shapes),
    ("loop", iterations),
    ("large-loop", large_loop),
    ("wait", wait),
    ("flood", flood),
    ("policy", jobs::policy),
    ("jobs-2", |bench| jobs::makespan(bench, 2)),
    ("jobs-4", |bench| jobs::makespan(bench, 4)),
    ("jobs-8", |bench| jobs::makespan(bench, 8)),
    ("jobs-16", |bench| jobs::makespan(bench, 16)),
    ("slot", jobs::slot),
    ("queue", jobs::queue),
    ("journal", journal),
    ("git", git),
    ("heartbeat", heartbeat),
    ("growth", growth),
    ("import", import),
    ("image", image),
    ("page", page::page),
    ("scale", scale::scale),
];

fn main() -> ExitCode {
    let mut words = env::args().skip(1).peekable();
    if words.next_if(|word| word == measure::CHILD).is_some() {
        return measure::child(words);
    }
    let mut words: Vec<String> = words.collect();
    if let Some(at) = words.iter().position(|word| word == "--before") {
        let end = words.len().min(at + 2);
        let program = words.drain(at..end).nth(1).expect("`--before` names a program");
        measure::set_before(Path::new(&program).canonicalize().expect("the program is there"));
    }
    if !words.iter().any(|word| word == "--bench") {
        println!("measures under `cargo bench` only");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let folder = tempfile::tempdir().expect("make a temporary folder");
    let bench = Bench {
        root: folder.path().canonicalize().expect("the folder has a path"),
        full: words.iter().any(|word| word == "--full"),
        drain: example("drain"),
        parse_only: example("parse_only"),
    };
    let (before, line) = if measure::has_before() { (" before |", "-----:|") } else { ("", "") };
    println!("| # | what |{before} ralph | reference | ratio | target |");
    println!("|--:|------|{line}------:|----------:|------:|--------|");
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            part(&bench);
        }
    }
    ExitCode::SUCCESS
}

/// Builds an example and says where it is.
fn example(name: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--example", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::null())
        .status()
        .expect("start cargo");
    assert!(status.success(), "the example `{name}` cannot be built");
    Path::new(RALPH).with_file_name("examples").join(name)
}

/// What every part needs.
struct Bench {
    root: PathBuf,
    full: bool,
    drain: PathBuf,
    parse_only: PathBuf,
}

impl Bench {
    /// A run of `ralph` that makes `count` attempts with the small agent and these words for it.
    fn run(&self, place: &Place, count: usize, words: &[&str]) -> Command {
        let mut command = ralph(&place.dir, &["run", "--max-iterations", &count.to_string(), "--"]);
        command.arg(&self.drain).args(words);
        command
    }

    /// The same from a clean start, timed.
    fn timed_run(&self, place: &Place, count: usize, words: &[&str]) -> Duration {
        place.reset();
        time(&mut self.run(place, count, words), &[0, LIMIT])
    }
}

fn ralph(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(measure::program(RALPH));
    command.args(words).current_dir(dir);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RALPH"))
    {
        command.env_remove(name);
    }
    command
}

/// Starts through a shell, which is how people start programs; beside `true` it matters.
fn typed(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        shell.current_dir(dir);
    }
    shell
}

fn nothing() -> Command {
    typed(&Command::new("true"))
}

fn shell(dir: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(dir);
    command
}

fn there_is(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("|  | no `{program}` here: its rows are left out | | | | |");
    }
    found
}

fn row(target: &str, what: &str, ours: &str, beside: &str, ratio: &str, wanted: &str) {
    row_with_before(target, what, None, ours, beside, ratio, wanted);
}

fn row_with_before(
    target: &str,
    what: &str,
    before: Option<Duration>,
    ours: &str,
    beside: &str,
    ratio: &str,
    wanted: &str,
) {
    let before = match before {
        Some(before) => format!(" {} |", ms(before)),
        None if measure::has_before() => " |".to_owned(),
        None => String::new(),
    };
    println!("| {target} | {what} |{before} {ours} | {beside} | {ratio} | {wanted} |");
}

/// The row of a comparison of the first alternative with the second.
fn compared(target: &str, what: &str, times: &Times, beside: &str, wanted: &str) {
    let beside = format!("{} {beside}", ms(times.of(1)));
    let (before, ratio) = (times.before(0), ratio(times.ratio(0, 1)));
    row_with_before(target, what, before, &ms(times.of(0)), &beside, &ratio, wanted);
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 20.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

fn mb(peak: i64) -> String {
    format!("{:.1} MB", peak as f64 / 1024.0)
}

fn ratio(value: f64) -> String {
    format!("{value:.2}x")
}

fn start_up(bench: &Bench) {
    let version = || ralph(&bench.root, &["--version"]);
    let times = in_turn(
        3 * ROUNDS,
        &mut [&mut || time(&mut typed(&version()), &[0]), &mut || time(&mut nothing(), &[0])],
    );
    compared("1", "`ralph --version`", &times, "`true`", "<= 1.4x");
    row("1", "… peak memory", &mb(Usage::of(&version()).peak), "", "", "<= 5 MB");
    let place = Place::layered(&bench.root, 24);
    let times = in_turn(
        3 * ROUNDS,
        &mut [&mut || time(&mut typed(&ralph(&place.dir, &["prompt"])), &[0]), &mut || {
            time(&mut nothing(), &[0])
        }],
    );
    compared("1", "`ralph prompt`, 24 tasks", &times, "`true`", "<= 2.5x");
}

/// The next task, with the graph unchanged since its last read and for the first time, compared with `make`.
fn measured_with_make(place: &Place, tasks: usize, rounds: usize, targets: [&str; 2]) {
    fs::write(place.dir.join("tasks.mk"), inputs::rules(tasks)).expect("write the rules");
    let make = || time(&mut shell(&place.dir, "make -n -rR -f tasks.mk all"), &[0]);
    let again = || time(&mut ralph(&place.dir, &["prompt", "--why"]), &[0]);
    let first = || {
        let _ = fs::remove_dir_all(place.dir.join(".git/ralph"));
        again()
    };
    let thousands = tasks / 1_000;
    let what = format!("`ralph prompt --why`, {thousands},000 tasks, unchanged");
    let times = in_turn(rounds, &mut [&mut || again(), &mut || make()]);
    compared("2", &what, &times, "`make -n`", targets[0]);
    let times = in_turn(rounds, &mut [&mut || first(), &mut || make()]);
    compared("2", "… for the first time", &times, "`make -n`", targets[1]);
}

fn choose(bench: &Bench) {
    let place = Place::layered(&bench.root, 10_000);
    let parse = || time(Command::new(&bench.parse_only).current_dir(&place.dir), &[0]);
    for words in [&["prompt", "--why"][..], &["dag-status"], &["run", "--dry-run"]] {
        let times = in_turn(
            ROUNDS,
            &mut [&mut || time(&mut ralph(&place.dir, words), &[0]), &mut || parse()],
        );
        let what = format!("`ralph {}`, 10,000 tasks", words.join(" "));
        compared("2", &what, &times, "reading only", "<= 1.3x");
    }
    if there_is("make") {
        measured_with_make(&place, 10_000, ROUNDS, ["<= 0.25x", ""]);
    }
    let peak = |command: &mut Command| mb(Usage::of(command.current_dir(&place.dir)).peak);
    let ours = peak(&mut ralph(&place.dir, &["prompt", "--why"]));
    let beside = format!("{} reading only", peak(&mut Command::new(&bench.parse_only)));
    row("2", "… peak memory", &ours, &beside, "", "");

    let place = Place::layered(&bench.root, 1_000);
    let times = in_turn(
        2 * ROUNDS,
        &mut [
            &mut || time(&mut typed(&ralph(&place.dir, &["prompt", "--why"])), &[0]),
            &mut || time(&mut nothing(), &[0]),
        ],
    );
    compared("5", "`ralph prompt --why`, 1,000 tasks", &times, "`true`", "<= 4x");
}

/// A dry run of an import reads the file, maps ids and dependencies, and writes nothing.
fn import(bench: &Bench) {
    let place = Place::new(bench.root.join("import"), "tasks: [{id: first}]\n");
    fs::write(place.dir.join("issues.json"), inputs::issues(10_000)).expect("write the issues");
    let words = ["import", "issues.json", "--dry-run"];
    let beside = ["jq", "python3"].into_iter().find(|program| there_is(program));
    let Some(program) = beside else {
        let ours = in_turn(ROUNDS, &mut [&mut || time(&mut ralph(&place.dir, &words), &[0])]);
        return row("19", "import of 10,000 issues", &ms(ours.of(0)), "", "", "<= 3x");
    };
    let script = match program {
        "jq" => "jq length issues.json",
        _ => "python3 -c 'import json; print(len(json.load(open(\"issues.json\"))))'",
    };
    let parse = || time(&mut shell(&place.dir, script), &[0]);
    let dry = || time(&mut ralph(&place.dir, &words), &[0]);
    let times = in_turn(ROUNDS, &mut [&mut || dry(), &mut || parse()]);
    let what = "`ralph import --dry-run`, 10,000 issues";
    compared("19", what, &times, &format!("`{program}`"), "<= 3x");
    let whole = || {
        place.reset();
        time(&mut ralph(&place.dir, &["import", "issues.json"]), &[0])
    };
    let times = in_turn(ROUNDS, &mut [&mut || whole(), &mut || parse()]);
    compared("19", "… into a graph", &times, &format!("`{program}`"), "<= 3x");
}

/// The image of a graph, compared with that of Graphviz, which does not finish 10,000 tasks in minutes.
fn image(bench: &Bench) {
    let place = |count| Place::layered(&bench.root.join("image"), count);
    let (small, large) = (place(200), place(10_000));
    let drawn = |place: &Place| {
        time(ralph(&place.dir, &["graph", "--format", "svg"]).stdout(Stdio::null()), &[0])
    };
    let ours = in_turn(ROUNDS, &mut [&mut || drawn(&large), &mut || drawn(&small)]);
    compared("20", "image of 10,000 tasks", &ours, "200 tasks", "<= 1000 ms");
    if !there_is("dot") {
        return;
    }
    let text =
        ralph(&small.dir, &["graph", "--format", "dot"]).output().expect("start ralph").stdout;
    fs::write(small.dir.join("graph.dot"), text).expect("write the graph");
    let dot = || time(&mut shell(&small.dir, "dot -Tsvg graph.dot > graph.svg"), &[0]);
    let times = in_turn(FEW, &mut [&mut || drawn(&small), &mut || dot()]);
    compared("20", "image of 200 tasks", &times, "`dot -Tsvg`", "");
}

fn shapes(bench: &Bench) {
    let place = |shape, name: &str, count| {
        let graph = inputs::graph(shape, count, count * 2 / 5);
        Place::new(bench.root.join(format!("shape-{name}-{count}")), &graph)
    };
    let layered = place(Shape::Layered, "layered", 10_000);
    let why = |place: &Place| time(&mut ralph(&place.dir, &["prompt", "--why"]), &[0]);
    for (shape, name) in [(Shape::Chain, "chain"), (Shape::FanOut, "fan-out")] {
        let odd = place(shape, name, 10_000);
        let times = in_turn(ROUNDS, &mut [&mut || why(&odd), &mut || why(&layered)]);
        let what = format!("`ralph prompt --why`, {name} of 10,000");
        compared("6", &what, &times, "layered", "<= 1.3x");
    }
    if bench.full {
        let large = place(Shape::Layered, "layered", 100_000);
        let times = in_turn(FEW, &mut [&mut || why(&large), &mut || why(&layered)]);
        compared("6", "`ralph prompt --why`, 100,000 tasks", &times, "10,000 tasks", "<= 11x");
        let peak = Usage::of(&ralph(&large.dir, &["prompt", "--why"])).peak;
        row("6", "… peak memory", &mb(peak), "", "", "");
        if there_is("make") {
            measured_with_make(&large, 100_000, FEW, ["<= 0.15x", "<= 1x"]);
        }
        let chain = place(Shape::Chain, "chain", 100_000);
        let times = in_turn(FEW, &mut [&mut || why(&chain), &mut || why(&large)]);
        compared("6", "… chain of 100,000", &times, "layered", "works");
    }
}

/// The loop with the small agent, beside programs that run the same one as often.
fn iterations(bench: &Bench) {
    const COUNT: usize = 100;
    let graph = || inputs::graph(Shape::Layered, 200, 0);
    let place = Place::new(bench.root.join("loop"), &graph());
    let beside = bench.root.join("beside");
    fs::create_dir_all(&beside).expect("make a folder");
    let numbers: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
    fs::write(beside.join("numbers"), numbers.join("\n") + "\n").expect("write");
    let drain = &bench.drain;
    let name = drain.display();
    let rules: String = numbers
        .iter()
        .map(|n| format!("out/{n}:\n\t@{name} {n} && : > $@\n"))
        .chain([format!("all: out/{}\n", numbers.join(" out/"))])
        .collect();
    fs::write(beside.join("Makefile"), format!(".DEFAULT_GOAL = all\n{rules}")).expect("write");
    let alone = |script: &str| {
        let out = beside.join("out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).expect("make a folder");
        time(shell(&beside, script).env("RALPH_TASK_DIR", &beside), &[0])
    };
    let xargs = format!("exec xargs -n1 {name} < numbers");
    let times = in_turn(
        7,
        &mut [
            &mut || bench.timed_run(&place, COUNT, &[]),
            &mut || alone(&xargs),
            &mut || alone("exec make -s -j1 -rR all"),
            &mut || {
                place.reset();
                // An earlier program need not have the flag.
                let mut run = Command::new(RALPH);
                run.args(["run", "--in-place", "--max-iterations", &COUNT.to_string(), "--"]);
                time(run.arg(drain).current_dir(&place.dir), &[0, LIMIT])
            },
        ],
    );
    let each = |at: usize| ms(times.of(at) / u32::try_from(COUNT).expect("a hundred"));
    let before = times.before(0).map(|took| took / u32::try_from(COUNT).expect("a hundred"));
    let places = [(0, before, "an isolated iteration of the loop"), (3, None, "… in the checkout")];
    for (ours, before, what) in places {
        for (at, name, wanted) in [(1, "`xargs -n1`", ""), (2, "`make -j1`", "<= 1.5x")] {
            let (beside, ratio) = (format!("{} {name}", each(at)), ratio(times.ratio(ours, at)));
            row_with_before("7", what, before, &each(ours), &beside, &ratio, wanted);
        }
    }
}

/// What one more iteration takes, start and end left out.
fn large_loop(bench: &Bench) {
    let graph = |count| inputs::graph(Shape::Layered, count, 0);
    let small = Place::new(bench.root.join("small"), &graph(200));
    let large = Place::new(bench.root.join("large"), &graph(10_000));
    let marginal = |place: &Place| {
        let few = bench.timed_run(place, 5, &[]);
        bench.timed_run(place, 85, &[]).saturating_sub(few) / 80
    };
    let times = in_turn(5, &mut [&mut || marginal(&large), &mut || marginal(&small)]);
    compared("8", "one more iteration, 10,000 tasks", &times, "200 tasks", "<= 1.2x");
}

fn wait(bench: &Bench) {
    const LONG: f64 = 14.0;
    const SHORT: f64 = 2.0;
    let place = Place::new(bench.root.join("wait"), &inputs::graph(Shape::Layered, 200, 0));
    let alone = |seconds: &str| time(Command::new(&bench.drain).args(["sleep", seconds]), &[0]);
    let times = in_turn(
        ROUNDS,
        &mut [
            &mut || bench.timed_run(&place, 1, &["sleep", "0.2"]),
            &mut || bench.timed_run(&place, 1, &["sleep", "0"]),
            &mut || alone("0.2"),
            &mut || alone("0"),
        ],
    );
    let late = times.difference(0, 1) - times.difference(2, 3);
    let late = format!("{late:.2} ms");
    row("10", "an agent's end is noticed after", &late, "", "", "<= 2 ms");

    let cpu = |words: &[&str]| {
        place.reset();
        Usage::of(&bench.run(&place, 1, words)).cpu
    };
    // What a run does once is in both.
    let a_second = |cpu: &dyn Fn(&[&str]) -> i64| {
        let least = |seconds: f64| (0..3).map(|_| cpu(&["sleep", &seconds.to_string()])).min();
        let idle = least(LONG).unwrap_or(0) - least(SHORT).unwrap_or(0);
        format!("{:.2} ms", idle as f64 / 1e3 / (LONG - SHORT))
    };
    row("10", "processor time a second while it works", &a_second(&cpu), "", "", "<= 1 ms");

    let on_terminal = |run: &Command| {
        place.reset();
        let report = bench.root.join("report");
        let mut command = wrapper(run);
        command.env("RALPH_BENCH_REPORT", &report).env("TERM", "xterm-256color");
        let mut session = rexpect::session::spawn_command(command, Some(60_000)).expect("a pty");
        session.exp_eof().expect("the run ends");
        Usage::parse(&fs::read_to_string(report).expect("the report")).cpu
    };
    let single = |words: &[&str]| on_terminal(&bench.run(&place, 1, words));
    let sixteen = |words: &[&str]| {
        let flags = ["run", "--jobs", "16", "--max-iterations", "16", "--"];
        on_terminal(ralph(&place.dir, &flags).arg(&bench.drain).args(words))
    };
    row("10", "… on a terminal, with the spinner", &a_second(&single), "", "", "<= 1 ms");
    row("10", "… 16 attempts at once on a terminal", &a_second(&sixteen), "", "", "<= 2 ms");
}

fn flood(bench: &Bench) {
    let place = Place::new(bench.root.join("flood"), &inputs::graph(Shape::Layered, 200, 0));
    let sizes: &[(&str, usize)] =
        if bench.full { &[("50", 5), ("500", FEW)] } else { &[("50", 5)] };
    for &(size, rounds) in sizes {
        let words = ["flood", size];
        let script = format!("{} flood {size} | cat > out", bench.drain.display());
        let times = in_turn(
            rounds,
            &mut [&mut || bench.timed_run(&place, 1, &words), &mut || {
                time(&mut shell(&bench.root, &script), &[0])
            }],
        );
        let what = format!("an agent that prints {size} MB");
        compared("11", &what, &times, "through `cat`", "<= 1.2x");
        place.reset();
        let peak = mb(Usage::of(&bench.run(&place, 1, &words)).peak);
        row("11", "… peak memory", &peak, "", "", "<= 10 MB");
        let with_secrets = || {
            let mut run = bench.run(&place, 1, &words);
            run.envs(SECRETS);
            run
        };
        let times = in_turn(
            rounds,
            &mut [
                &mut || {
                    place.reset();
                    time(&mut with_secrets(), &[0, LIMIT])
                },
                &mut || time(&mut shell(&bench.root, &script), &[0]),
            ],
        );
        let what = format!("… {size} MB with secrets in the environment");
        compared("11", &what, &times, "through `cat`", "<= 1.2x");
        place.reset();
        let peak = mb(Usage::of(&with_secrets()).peak);
        row("11", "… peak memory", &peak, "", "", "<= 10 MB");
    }
}

fn journal(bench: &Bench) {
    const LINES: u64 = 1_000_000;
    let place = Place::layered(&bench.root.join("journal"), 1_000);
    let empty = Place::layered(&bench.root.join("no-journal"), 1_000);
    let path = place.dir.join("logs/ralph.jsonl");
    inputs::journal(&path, LINES, 1_000);
    let status = |place: &Place| time(&mut ralph(&place.dir, &["dag-status"]), &[0]);
    let snapshot = place.dir.join(".git/ralph/history.json");
    let cold = || {
        let _ = fs::remove_file(&snapshot);
        status(&place)
    };
    let what = "`ralph dag-status`, first read of a million lines";
    if there_is("jq") {
        let jq = || time(Command::new("jq").args(["-c", "select(.exit_code!=0)"]).arg(&path), &[0]);
        let times = in_turn(1, &mut [&mut || cold(), &mut || jq()]);
        compared("15", what, &times, "`jq`", "<= 0.08x");
    } else {
        row("15", what, &ms(in_turn(FEW, &mut [&mut || cold()]).of(0)), "", "", "");
    }
    let _ = fs::remove_file(&snapshot);
    let peak = mb(Usage::of(&ralph(&place.dir, &["dag-status"])).peak);
    row("15", "… peak memory", &peak, "", "", "<= 10 MB");
    let times = in_turn(ROUNDS, &mut [&mut || status(&place), &mut || status(&empty)]);
    let later = format!("+{:.2} ms", times.difference(0, 1));
    let beside = format!("{} no journal", ms(times.of(1)));
    row("15", "… every later read", &ms(times.of(0)), &beside, &later, "<= 2 ms more");
    fs::remove_dir_all(&place.dir).expect("make room");
}

/// How long one call takes, the middle of many.
fn call<T>(times: usize, mut what: impl FnMut() -> T) -> Duration {
    let took = (0..times).map(|_| {
        let began = Instant::now();
        std::hint::black_box(what());
        began.elapsed()
    });
    measure::median(took.collect())
}

fn git(bench: &Bench) {
    let dir = bench.root.join("history");
    inputs::history(&dir, 20_000, 2_000);
    let repo = Repo::discover(&dir).expect("open the repository");
    let head = repo.head().expect("read HEAD").commit;
    let old = repo.recent(11).expect("list commits").pop().map(|commit| commit.id);
    let fine = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let rows = [
        ("nothing was committed", &head, "<= 0.1 ms"),
        ("10 commits were made, with their diff", &old, "<= 0.5 ms"),
    ];
    for (what, base, wanted) in rows {
        let took = call(301, || repo.since(base.as_deref()).expect("list commits"));
        let range = format!("{}..HEAD", base.as_deref().unwrap_or_default());
        let git = || {
            let words = ["-C", &dir.display().to_string(), "rev-list", "--count", &range];
            time(Command::new("git").args(words), &[0])
        };
        let beside = format!("{} `git rev-list`", ms(in_turn(ROUNDS, &mut [&mut || git()]).of(0)));
        row("16", what, &fine(took), &beside, "", wanted);
    }
}

fn heartbeat(bench: &Bench) {
    let mut heartbeat = HeartbeatReporter::new(bench.root.join("heartbeat"));
    let took = format!("{:.4} ms", call(2_001, || heartbeat.tick()).as_secs_f64() * 1e3);
    row("17", "a heartbeat is written", &took, "", "", "<= 0.3 ms");
}

/// The most memory of a long run, compared with a short one in the same graph.
fn growth(bench: &Bench) {
    const SHORT: usize = 100;
    const LONG: usize = 2_000;
    let graph = inputs::graph(Shape::Layered, LONG + 100, 0);
    let place = Place::new(bench.root.join("growth"), &graph);
    let peak = |count| {
        place.reset();
        Usage::of(&bench.run(&place, count, &[])).peak
    };
    let (first, last) = (peak(SHORT), peak(LONG));
    let beside = format!("{} after {SHORT}", mb(first));
    let more = format!("{:+.1} MB", (last as f64 - first as f64) / 1024.0);
    row("18", "peak memory of 2,000 iterations", &mb(last), &beside, &more, "<= 8 MB, no growth");
}
