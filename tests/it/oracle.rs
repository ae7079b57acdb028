//! What must hold after disturbed runs, once the graph is complete. The same checks apply to every
//! kind of fault.
//!
//! The tasks are `t0`, `t1`, … (see [`graph`]), and the agent is `chaos`, which records its
//! attempts and commits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use crate::support::{SETTINGS, TestProject, each};

/// A repository with this many tasks, and enough attempts for any number of kills.
pub fn stage(tasks: usize) -> TestProject {
    TestProject::new().graph(&graph(tasks, "pending")).chaos("")
}

/// The verify command of [`clashing`]: the work of all landed tasks is present.
pub const CHECK: &str = "[ ! -e work/clash ] || [ -e work/t0.txt ] || [ -e work/t1.txt ]";

/// The same for three attempts at a time, of which those at `t0` and `t1` conflict.
pub fn clashing(trial: TestProject) -> TestProject {
    let settings = format!("{SETTINGS}jobs: 3\nverify: ['{CHECK}']\n");
    let trial = trial.file(".ralph/config.yaml", &settings).env("CLASH", "1");
    trial.hook("post-commit", "git rev-parse HEAD >> \"$TRIAL_DIR/made\"");
    trial
}

fn graph(tasks: usize, status: &str) -> String {
    let task = |n| format!("  - id: t{n} # mine\n    max_attempts: 50\n    status: {status}\n");
    format!("tasks:\n{}", (0..tasks).map(task).collect::<String>())
}

/// Returns every violation, and the number of incomplete journal lines.
pub fn faults(trial: &TestProject, tasks: usize) -> (Vec<String>, usize) {
    faults_of(trial, tasks, &graph(tasks, "complete"))
}

/// The same for tasks of another graph; `complete` is its text at the end, without times.
pub fn faults_of(trial: &TestProject, tasks: usize, complete: &str) -> (Vec<String>, usize) {
    let mut faults = Vec::new();
    let bytes = fs::read(trial.root().join("logs/ralph.jsonl")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let record = |line| serde_json::from_str(line).ok().filter(Value::is_object);
    let lines: Vec<Value> = text.lines().filter_map(record).collect();
    history(&lines, tasks, &mut faults);
    if !text.ends_with('\n') {
        faults.push("the journal's last line has no end".to_owned());
    }
    work(trial, tasks, complete, &mut faults);
    debris(trial, &mut faults);
    (faults, text.lines().count() - lines.len())
}

/// Checks that lines are in order, every attempt ends once or is withdrawn before its agent starts, and
/// every task completes once.
fn history(lines: &[Value], tasks: usize, faults: &mut Vec<String>) {
    for pair in lines.windows(2) {
        let next = pair[0]["seq"].as_u64().map(|seq| seq + 1);
        if pair[1]["seq"].as_u64() != next {
            faults.push(format!("a gap before {}", pair[1]));
        }
    }
    let mut ends: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut with_agent: BTreeSet<String> = BTreeSet::new();
    let mut completed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let key = format!("{} {}", line["task_id"], line["attempt"]);
        match line["action"].as_str() {
            Some("started") => ends.entry(key).or_default().0 += 1,
            Some("completed" | "failed" | "interrupted") => ends.entry(key).or_default().1 += 1,
            // The start is taken back, and the next one has its number: no agent may have run.
            Some("withdrawn") => match ends.get_mut(&key) {
                Some((1, 0)) if !with_agent.contains(&key) => _ = ends.remove(&key),
                _ => faults.push(format!("withdrawn after its start or its end: {line}")),
            },
            Some("agent_started") => _ = with_agent.insert(key),
            _ => {}
        }
        if line["outcome"] == "timed_out" {
            faults.push(format!("nothing here takes so long: {line}"));
        }
        if line["action"] == "completed" {
            *completed.entry(line["task_id"].as_str().unwrap_or_default()).or_default() += 1;
        }
    }
    for (attempt, (began, ended)) in &ends {
        // An attempt that was recorded but not started has an end, too.
        if *began > 1 || *ended != 1 {
            faults.push(format!("{attempt}: {began} begun, {ended} ended"));
        }
    }
    for n in 0..tasks {
        if completed.get(&*format!("t{n}")) != Some(&1) {
            faults.push(format!("t{n}: completed {completed:?}"));
        }
    }
    if lines.last().is_none_or(|line| line["action"] != "finished" || line["exit_code"] != 0) {
        faults.push(format!("the last line is {:?}", lines.last()));
    }
}

/// The commits that refs keep, in the repository and in slots whose contents could not be kept
/// there: that was recorded, and no attempt works in them.
fn reachable(trial: &TestProject) -> String {
    let mut all = trial.git(&["rev-list", "--all", "HEAD"]);
    let journal = fs::read(trial.root().join("logs/ralph.jsonl")).unwrap_or_default();
    let journal = String::from_utf8_lossy(&journal);
    let records = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for record in records.filter(|record| record["action"] == "slot_kept") {
        let slot = record["slot"].as_str().unwrap_or_default().to_owned();
        let mut list = trial.process("git");
        // It may have been deleted since.
        let list = list.args(["-C", &slot, "rev-list", "--all", "HEAD"]).output().unwrap().stdout;
        all += &String::from_utf8_lossy(&list);
    }
    all
}

/// Checks that no attempt ran twice, no commit is lost, every task is complete and has a commit,
/// and the graph is the same as after an undisturbed run.
fn work(trial: &TestProject, tasks: usize, complete: &str, faults: &mut Vec<String>) {
    let begun = fs::read_to_string(trial.sign("begun")).unwrap_or_default();
    let distinct: BTreeSet<_> = begun.lines().collect();
    if distinct.len() != begun.lines().count() {
        faults.push(format!("an attempt ran twice: {begun}"));
    }
    let reachable = reachable(trial);
    let committed = fs::read_to_string(trial.sign("committed")).unwrap_or_default();
    for line in committed.lines().filter(|line| !reachable.contains(&line[..40])) {
        faults.push(format!("lost: {line}"));
    }
    let said = trial.git(&["log", "--format=%B"]);
    for n in 0..tasks {
        // Committed by the agent, or by `ralph` for it.
        let own = [format!("Work on t{n}"), format!("Ralph-Task: t{n}")];
        if !said.lines().any(|line| own.iter().any(|own| own == line)) {
            faults.push(format!("t{n} has no commit"));
        }
    }
    // A stage may have git convert the line ends.
    let text = trial.graph_text().replace('\r', "");
    let times = |line: &&str| !line.trim_start().starts_with("completed_at: ");
    let rest: String = text.split_inclusive('\n').filter(times).collect();
    if rest != complete {
        faults.push(format!("the graph has become\n{text}"));
    }
}

/// Checks that no draft, open record or git lock is left.
fn debris(trial: &TestProject, faults: &mut Vec<String>) {
    for folder in [trial.root().to_owned(), trial.state(), trial.state().join("attempts")] {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let open = [".tmp", ".exit"].iter().any(|end| name.ends_with(end))
                || folder.ends_with("attempts");
            if open {
                faults.push(format!("left behind: {name}"));
            }
        }
    }
    for name in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        if trial.root().join(".git").join(name).exists() {
            faults.push(format!("left behind: {name}"));
        }
    }
}

/// Returns every violation of what must hold after isolated attempts, when no run is active.
/// `verify` is the command that must pass at every position of the target branch `main`; `dirt` are
/// the uncommitted changes of a person.
pub fn merged(trial: &TestProject, verify: &str, dirt: &[&str]) -> Vec<String> {
    let mut faults = red_positions(trial, verify);
    moves(trial, &mut faults);
    let all = reachable(trial);
    let made = fs::read_to_string(trial.sign("made")).unwrap_or_default();
    let lost = made.lines().filter(|commit| !all.contains(commit));
    faults.extend(lost.map(|commit| format!("lost: {commit}")));
    once(trial, &mut faults);
    faults.extend(committed(trial, dirt));
    let worktrees = trial.git(&["worktree", "list", "--porcelain"]);
    if worktrees.contains("/repo.slots/") {
        faults.push(format!("a slot is a worktree: {worktrees}"));
    }
    faults
}

/// Returns every violation of what must hold in git after attempts that were isolated or not, when
/// no run is active: the state of completed tasks is committed, and nothing is left behind.
pub fn committed(trial: &TestProject, dirt: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let status = trial.git(&["status", "--porcelain", "--untracked-files=all"]);
    if status.lines().ne(dirt.iter().copied()) {
        let diff = trial.git(&["diff", "HEAD"]);
        faults.push(format!("the checkout has {status:?}\n{diff}"));
    }
    graph_commits(trial, &mut faults);
    let refs = trial.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    faults.extend(refs.lines().filter(|name| name.contains('+')).map(|it| format!("a ref: {it}")));
    let mut find = trial.process("find");
    find.args([".git", "-name", "ralph", "-prune", "-o", "-name", "*.lock", "-print"]);
    let debris = find.output().unwrap().stdout;
    if !debris.is_empty() {
        faults.push(format!("left behind: {}", String::from_utf8_lossy(&debris)));
    }
    let open = fs::read_dir(trial.state().join("attempts")).into_iter().flatten().flatten();
    faults.extend(open.map(|entry| format!("left behind: {}", entry.path().display())));
    faults
}

/// Checks that the committed graph changes only in the commits that complete a task, one for each,
/// or that mark tasks as waiting for a person, in which nothing else changes, and that no commit
/// contains a claim.
fn graph_commits(trial: &TestProject, faults: &mut Vec<String>) {
    let list = ["log", "--format=%H %s", "--no-merges", "main", "--", "task-graph.yaml"];
    let commits = trial.git(&list);
    let others = |line: &&str| !line.ends_with(" Set the stage");
    for line in commits.lines().filter(others) {
        let (commit, subject) = line.split_once(' ').unwrap();
        let id = subject.strip_prefix("Complete ").and_then(|rest| rest.split(':').next());
        let said = trial.git(&["log", "-1", "--format=%B", commit]);
        let is_mark = subject.starts_with("Mark as waiting for a person: ");
        if !is_mark
            && !id.is_some_and(|id| said.contains(&format!("\nRalph-Task: {id}\nRalph-Attempt: ")))
        {
            faults.push(format!("`{subject}` changes the graph"));
        }
        let changed = trial.git(&["show", "--format=", "--name-only", commit]);
        if changed != "task-graph.yaml\n" {
            faults.push(format!("`{subject}` also changes {changed}"));
        }
        if trial.git(&["show", &format!("{commit}:task-graph.yaml")]).contains("claimed_") {
            faults.push(format!("`{subject}` commits a claim"));
        }
    }
    let completed: BTreeSet<String> = trial.tasks("completed").into_iter().collect();
    for id in completed {
        let end = format!(" Complete {id}:");
        let count = commits.lines().filter(|line| line.contains(&end)).count();
        if count != 1 {
            faults.push(format!("{id} is completed in {count} commits"));
        }
    }
}

/// Every position that the branch `main` has had, each value of the ref once, oldest first.
pub fn positions(trial: &TestProject) -> Vec<String> {
    let moves = trial.git(&["reflog", "show", "--format=%H", "main", "--"]);
    let tip = trial.git(&["rev-parse", "main"]);
    let mut positions: Vec<String> = Vec::new();
    for position in moves.lines().rev().chain(tip.lines()) {
        if !positions.iter().any(|earlier| earlier == position) {
            positions.push(position.to_owned());
        }
    }
    positions
}

/// Returns the positions of `main` at which `verify` fails in a clean checkout.
pub fn red_positions(trial: &TestProject, verify: &str) -> Vec<String> {
    let check = |commit: &String| {
        let script = format!(
            "fresh=$(mktemp -d -p '{}') && git archive {commit} | tar -x -C \"$fresh\" && \
             cd \"$fresh\" && \
             {{ {verify}; }}",
            trial.dir().display()
        );
        let ran = trial.process("sh").args(["-c", &script]).output().unwrap();
        let said = [&ran.stdout[..], &ran.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (!ran.status.success()).then(|| format!("red: {commit}: {said}"))
    };
    each(2, &positions(trial), check).into_iter().flatten().collect()
}

/// Checks that `main` only moved forward, and that it contains all work that has landed.
fn moves(trial: &TestProject, faults: &mut Vec<String>) {
    let positions = positions(trial);
    let contains = |later: &str, earlier: &str| {
        let arguments = ["merge-base", "--is-ancestor", earlier, later];
        trial.process("git").args(arguments).status().unwrap().success()
    };
    for pair in positions.windows(2).filter(|pair| !contains(&pair[1], &pair[0])) {
        faults.push(format!("`main` moved from {} to {}", pair[0], pair[1]));
    }
    let tip = positions.last().unwrap();
    for line in trial.lines("completed") {
        let landed = line["merge"]["commit"].as_str();
        if let Some(commit) = landed.filter(|commit| !contains(tip, commit)) {
            faults.push(format!("{commit} has landed and is not in `main`"));
        }
    }
}

/// Checks that every complete task was completed once, no change is in `main` twice, and there is
/// no branch of an attempt.
fn once(trial: &TestProject, faults: &mut Vec<String>) {
    let mut completed: BTreeMap<String, Value> = BTreeMap::new();
    for line in trial.lines("completed") {
        let id = line["task_id"].as_str().unwrap_or_default().to_owned();
        if completed.insert(id.clone(), line).is_some() {
            faults.push(format!("{id} was completed twice"));
        }
    }
    let script = "git log -p --no-merges main | git patch-id --stable | sort | uniq -w 40 -d";
    let twice = trial.process("sh").args(["-c", script]).output().unwrap().stdout;
    for line in String::from_utf8(twice).unwrap().lines() {
        let what = trial.git(&["log", "-1", "--format=%s", &line[41..]]);
        faults.push(format!("a change has landed twice: {}", what.trim()));
    }
    let branches = trial.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    for (id, line) in completed {
        if trial.status(&id) != "complete" {
            faults.push(format!("{id} is completed and {}", trial.status(&id)));
        }
        let commits = line["commits"].as_array().is_some_and(|all| !all.is_empty());
        if commits && line["merge"]["result"] != "landed" {
            faults.push(format!("{id} is complete and not merged"));
        }
    }
    if branches.contains("ralph/") {
        faults.push(format!("there are branches of attempts: {branches}"));
    }
}
