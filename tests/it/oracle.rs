//! What must hold of a repository in which runs were disturbed, once its graph is complete. One
//! judgement for every way of disturbing them.
//!
//! The tasks are `t0`, `t1`, … as [`graph`] has them, and the agent is `chaos`, which writes down
//! what it began and what it committed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use crate::support::Workspace;

/// A repository with so many tasks, each with attempts enough for any number of kills.
pub fn stage(tasks: usize) -> Workspace {
    Workspace::new().graph(&graph(tasks, "pending")).chaos("")
}

fn graph(tasks: usize, status: &str) -> String {
    let task = |n| format!("  - id: t{n} # mine\n    max_attempts: 50\n    status: {status}\n");
    format!("tasks:\n{}", (0..tasks).map(task).collect::<String>())
}

/// Everything that does not hold, in words, and how many lines of the journal were torn.
pub fn faults(trial: &Workspace, tasks: usize) -> (Vec<String>, usize) {
    let mut faults = Vec::new();
    let bytes = fs::read(trial.root().join("logs/ralph.jsonl")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let record = |line| serde_json::from_str(line).ok().filter(Value::is_object);
    let lines: Vec<Value> = text.lines().filter_map(record).collect();
    history(&lines, tasks, &mut faults);
    if !text.ends_with('\n') {
        faults.push("the journal's last line has no end".to_owned());
    }
    work(trial, tasks, &mut faults);
    debris(trial, &mut faults);
    (faults, text.lines().count() - lines.len())
}

/// One order, one end of every attempt, one completion of every task.
fn history(lines: &[Value], tasks: usize, faults: &mut Vec<String>) {
    for pair in lines.windows(2) {
        let next = pair[0]["seq"].as_u64().map(|seq| seq + 1);
        if pair[1]["seq"].as_u64() != next {
            faults.push(format!("a gap before {}", pair[1]));
        }
    }
    let mut ends: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut completed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let key = format!("{} {}", line["task_id"], line["attempt"]);
        match line["action"].as_str() {
            Some("started") => ends.entry(key).or_default().0 += 1,
            Some("completed" | "failed" | "interrupted") => ends.entry(key).or_default().1 += 1,
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
        // One that was on record and not yet begun has an end all the same.
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

/// No attempt ran twice, no commit is lost, every task is complete and has one, and the graph is
/// what an undisturbed run would have made of it.
fn work(trial: &Workspace, tasks: usize, faults: &mut Vec<String>) {
    let begun = fs::read_to_string(trial.sign("begun")).unwrap_or_default();
    let distinct: BTreeSet<_> = begun.lines().collect();
    if distinct.len() != begun.lines().count() {
        faults.push(format!("an attempt ran twice: {begun}"));
    }
    let reachable = trial.git(&["rev-list", "--all", "HEAD"]);
    let committed = fs::read_to_string(trial.sign("committed")).unwrap_or_default();
    for line in committed.lines().filter(|line| !reachable.contains(&line[..40])) {
        faults.push(format!("lost: {line}"));
    }
    let said = trial.git(&["log", "--format=%B"]);
    for n in 0..tasks {
        // By the agent, or for it.
        let own = [format!("Work on t{n}"), format!("Ralph-Task: t{n}")];
        if !said.lines().any(|line| own.iter().any(|own| own == line)) {
            faults.push(format!("t{n} has no commit"));
        }
    }
    let text = trial.graph_text();
    let times = |line: &&str| !line.trim_start().starts_with("completed_at: ");
    let rest: String = text.split_inclusive('\n').filter(times).collect();
    if rest != graph(tasks, "complete") {
        faults.push(format!("the graph has become\n{text}"));
    }
}

/// No draft, no open record, no lock of git.
fn debris(trial: &Workspace, faults: &mut Vec<String>) {
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
