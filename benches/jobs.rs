//! Several attempts at once: how near the whole comes to what is possible, what a slot costs,
//! and how fast the merge queue is.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use chrono::{TimeDelta, Utc};
use ralph::{
    adapters::git::{PushRule, Repo},
    core::{
        graph::task::TaskId,
        history::History,
        loop_paths, night,
        select::{Policy, View, keys},
    },
    project::{
        graph_file::graph_of,
        slot_pool::{self, PreparedSlot, SlotOrder, SlotPool},
        workspace::Workspace,
    },
};

use crate::{
    Bench, FEW, ROUNDS, compared,
    inputs::{self, Nap, Place, git_command},
    measure::{Times, in_turn, time},
    ms, ralph, ratio, row, row_with_before, shell, there_is,
};

const TASKS: usize = 200;

/// What the order that `ralph` takes comes to if nothing but the agents takes time, and what it
/// would come to in waves: each layer only when the one before is done.
struct Simulation {
    ordered: Duration,
    waves: Duration,
}

fn simulate(naps: &[Nap], levels: usize, jobs: usize) -> Simulation {
    let text = inputs::graph_of_naps(naps, levels);
    let graph = graph_of(text.as_bytes()).expect("a graph");
    let keys = keys(&graph);
    let (history, policy) = (History::default(), Policy { jobs, ..Policy::default() });
    let view = View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
    // A millisecond is estimated as a minute.
    let length = |number: usize| TimeDelta::milliseconds(graph.task(number).minutes.into());
    let now = Utc::now();
    let order = night::order(&view, false, now, usize::MAX, &length);
    assert_eq!(order.len(), naps.len(), "all of it can be done");
    let end = order.iter().map(|task| task.ends_at).max().unwrap_or(now);

    let mut layers = vec![0; naps.len()];
    for (number, nap) in naps.iter().enumerate() {
        layers[number] = nap.after.iter().map(|before| layers[*before] + 1).max().unwrap_or(0);
    }
    let mut by_layer: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, layer) in layers.iter().enumerate() {
        by_layer.entry(*layer).or_default().push(number);
    }
    let wave = |mut wave: Vec<usize>| {
        wave.sort_by_key(|number| keys[*number]);
        let mut free = vec![0; jobs];
        for number in wave {
            *free.iter_mut().min().expect("a job") += naps[number].ms;
        }
        free.into_iter().max().unwrap_or(0)
    };
    let waves = by_layer.into_values().map(wave).sum();
    Simulation { ordered: (end - now).to_std().unwrap_or_default(), waves: millis(waves) }
}

fn millis(count: usize) -> Duration {
    Duration::from_millis(count as u64)
}

/// What no order can be faster than.
fn bound(naps: &[Nap], jobs: usize) -> Duration {
    let mut ends = vec![0; naps.len()];
    for (number, nap) in naps.iter().enumerate() {
        ends[number] = nap.ms + nap.after.iter().map(|before| ends[*before]).max().unwrap_or(0);
    }
    let all: usize = naps.iter().map(|nap| nap.ms).sum();
    millis(ends.into_iter().max().unwrap_or(0)).max(millis(all).div_f64(jobs as f64))
}

fn times(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// The order alone, with four levels of priority: nothing is run.
pub fn policy(_: &Bench) {
    let naps = inputs::naps(TASKS);
    for jobs in [2, 4, 8, 16] {
        let Simulation { ordered, waves } = simulate(&naps, 4, jobs);
        let bound = bound(&naps, jobs);
        let what = format!("the order for {TASKS} naps, {jobs} at once, 4 priorities");
        let beside = format!("{} lower bound", ms(bound));
        row("13", &what, &ms(ordered), &beside, &ratio(times(ordered, bound)), "<= 1.07x");
        let wanted = if jobs == 8 { "<= 0.75x" } else { "" };
        let beside = format!("{} in waves", ms(waves));
        row("13", "…", &ms(ordered), &beside, &ratio(times(ordered, waves)), wanted);
    }
}

/// Tasks that only take time, on so many at once.
pub fn makespan(bench: &Bench, jobs: usize) {
    let naps = inputs::naps(TASKS);
    let place = |levels: usize| {
        let dir = bench.root.join(format!("naps-{jobs}-{levels}")).join("project");
        Place::new(dir, &inputs::graph_of_naps(&naps, levels))
    };
    let (equal, levels) = (place(1), place(4));
    // The first run makes the slots; it is the one that warms up.
    let ours = |place: &Place| {
        place.reset();
        let words = ["run", "--jobs", &jobs.to_string(), "--max-iterations", "1000", "--"];
        time(ralph(&place.dir, &words).arg(&bench.drain).arg("nap"), &[0])
    };
    let beside = bench.root.join(format!("naps-{jobs}"));
    fs::create_dir_all(&beside).expect("make a folder");
    let drain = bench.drain.display();
    let rules = inputs::rules_of_naps(&naps, |to, after, seconds| {
        format!("build {to}: nap {after}\n  seconds = {seconds}\n")
    });
    let rule = format!("rule nap\n  command = {drain} sleep $seconds && : > $out\n");
    fs::write(beside.join("build.ninja"), rule + &rules).expect("write");
    let rules = inputs::rules_of_naps(&naps, |to, after, seconds| {
        format!("all: {to}\n{to}: {after}\n\t@{drain} sleep {seconds} && : > $@\n")
    });
    fs::write(beside.join("Makefile"), format!(".DEFAULT_GOAL = all\n{rules}")).expect("write");
    let tool = |script: &str| {
        for left in ["out", ".ninja_log", ".ninja_deps"].map(|name| beside.join(name)) {
            let _ = fs::remove_dir_all(&left);
            let _ = fs::remove_file(&left);
        }
        fs::create_dir_all(beside.join("out")).expect("make a folder");
        time(&mut shell(&beside, &format!("exec {script} -j{jobs}")), &[0])
    };
    let has_ninja = there_is("ninja");
    let times = in_turn(
        FEW,
        &mut [
            &mut || ours(&equal),
            &mut || ours(&levels),
            &mut || tool("make -s -rR"),
            &mut || if has_ninja { tool("ninja --quiet") } else { Duration::from_nanos(1) },
        ],
    );
    rows(&naps, jobs, &times, has_ninja);
}

fn rows(naps: &[Nap], jobs: usize, took: &Times, has_ninja: bool) {
    let bound = bound(naps, jobs);
    let what = format!("{TASKS} naps, {jobs} at once");
    for (at, levels, what) in [(0, 1, &*what), (1, 4, "… with 4 priorities")] {
        let simulated = simulate(naps, levels, jobs).ordered;
        let ours = took.of(at);
        let beside = format!("{} simulated", ms(simulated));
        let ratio = ratio(times(ours, simulated));
        row_with_before("12", what, took.before(at), &ms(ours), &beside, &ratio, "<= 1.03x");
    }
    let ours = took.of(0);
    let beside = format!("{} lower bound", ms(bound));
    row("12", &what, &ms(ours), &beside, &ratio(times(ours, bound)), "");
    let tools = [(3, "`ninja`", "< 1x"), (2, "`make`", "")];
    for (at, name, wanted) in tools.into_iter().filter(|(at, ..)| *at != 3 || has_ninja) {
        let beside = format!("{} {name}", ms(took.of(at)));
        row("12", &what, &ms(ours), &beside, &ratio(took.ratio(0, at)), wanted);
        let bare = ratio(times(took.of(at), bound));
        let beside = format!("{} lower bound", ms(bound));
        row("12", &format!("… {name} itself"), "", &beside, &bare, "");
    }
}

/// A slot, from the end of one attempt until it is ready for the next, when ten commits of three
/// files have landed meanwhile.
pub fn slot(bench: &Bench) {
    const FILES: usize = 20_000;
    let dir = bench.root.join("wide").join("project");
    inputs::history(&dir, FILES, 12);
    let commit = |back: usize| {
        let found = Repo::discover(&dir).expect("open the repository").recent(back + 1);
        found.expect("list commits").pop().expect("a commit").id.to_string()
    };
    let ends = [commit(10), commit(0)];
    let workspace = Workspace::unset(&dir, loop_paths::LoopPaths::default()).expect("open it");
    let pool = SlotPool::of(&workspace);
    let slot = pool.next(&[]);
    let turn = Cell::new(0);
    let pooled = || {
        let at = turn.replace(turn.get() + 1);
        let id = TaskId::new(&format!("task-{at}")).expect("an id");
        let settings =
            workspace.repo.slots().settings(PushRule::default()).expect("read the settings");
        let order = SlotOrder {
            pool: pool.clone(),
            slot: slot.clone(),
            settings: settings.clone(),
            branch: format!("ralph/{id}"),
            base: ends[at % 2].as_str().into(),
            base_ref: workspace.place.base_ref(&id, 1),
            left: None,
            graph: workspace.graph_in_git(),
            setup: Vec::new(),
        };
        let began = Instant::now();
        if at > 0 {
            let slot = Repo::discover(&slot).expect("open the slot");
            let again = slot.slot().secure(&settings).expect("write its settings");
            let slot = again.unwrap_or(slot);
            let released = slot_pool::release(&workspace.repo, &slot, None, &[]);
            assert_eq!(released.expect("release it"), None);
        }
        let prepared = slot_pool::prepare(&order).expect("prepare it");
        assert!(matches!(prepared, PreparedSlot::Ready { .. }), "the slot is ready");
        began.elapsed()
    };
    let fresh = dir.with_file_name("fresh");
    let added = || {
        let words = ["worktree", "add", "--quiet", "--detach"];
        let took = time(git_command(&dir).args(words).arg(&fresh).arg(&ends[1]), &[0]);
        let remove = ["worktree", "remove", "--force"];
        time(git_command(&dir).args(remove).arg(&fresh), &[0]);
        took
    };
    let times = in_turn(ROUNDS, &mut [&mut || pooled(), &mut || added()]);
    let what = format!("a slot for the next attempt, {FILES} files");
    compared("14", &what, &times, "`git worktree add`", "<= 0.2x");
}

/// Small commits, each of a file of its own, beside a shell that brings each in by itself.
pub fn queue(bench: &Bench) {
    const COUNT: usize = 60;
    const AGENT: &str = "cat > /dev/null; echo \"$RALPH_TASK_ID\" > \"$RALPH_TASK_ID\"\n\
        git add \"$RALPH_TASK_ID\"; git commit -q -m \"$RALPH_TASK_ID\"; : > \"$RALPH_TASK_DIR/DONE\"\n";
    let tasks: Vec<String> = (0..COUNT).map(|number| format!("  - id: t{number}\n")).collect();
    let graph = format!("version: 1\ntasks:\n{}", tasks.concat());
    let agent = bench.root.join("commit-one");
    fs::write(&agent, AGENT).expect("write the agent");
    let turn = Cell::new(0);
    let fresh = || {
        let dir = bench.root.join(format!("queue-{}", turn.replace(turn.get() + 1)));
        let place = Place::new(dir.join("project"), &graph);
        inputs::git(&place.dir, &["config", "user.name", "Bench"]);
        inputs::git(&place.dir, &["config", "user.email", "bench@example.invalid"]);
        place.dir
    };
    let landed = |dir: &Path, commits: usize| {
        let count = ["rev-list", "--count", "main"];
        let output = git_command(dir).args(count).output().expect("start git");
        let count = String::from_utf8_lossy(&output.stdout);
        assert_eq!(count.trim(), (commits + 1).to_string(), "each of them is there once");
    };
    let ours = || {
        let dir = fresh();
        let words = ["run", "--jobs", "4", "--max-iterations", "1000", "--", "sh"];
        let took = time(ralph(&dir, &words).arg(&agent), &[0]);
        // Another commit completes each task.
        landed(&dir, 2 * COUNT);
        took
    };
    let by_hand = format!(
        "set -e\n\
         git worktree add -q --detach ../work; git worktree add -q --detach ../merge\n\
         for task in $(seq {COUNT}); do\n\
         cd ../work; git checkout -q -b \"t$task\" main; echo \"$task\" > \"t$task\"\n\
         git add \"t$task\"; git commit -q -m \"t$task\"\n\
         cd ../merge; git checkout -q --detach main; git cherry-pick \"t$task\" > /dev/null\n\
         cd ../project; git merge -q --ff-only \"$(git -C ../merge rev-parse HEAD)\"\n\
         done"
    );
    let beside = || {
        let dir = fresh();
        let took = time(&mut shell(&dir, &by_hand), &[0]);
        landed(&dir, COUNT);
        took
    };
    let times = in_turn(FEW, &mut [&mut || ours(), &mut || beside()]);
    let rate = |at: usize| format!("{:.1} a second", COUNT as f64 / times.of(at).as_secs_f64());
    let beside = format!("{} one by one in a shell", rate(1));
    // More is better here.
    let more = ratio(1.0 / times.ratio(0, 1));
    let what = format!("{COUNT} commits of one file landed, 4 at once");
    row("", &what, &rate(0), &beside, &more, ">= 2x");
}
