//! What a person should know before a run, since it would spoil it.

use std::{
    fmt::Write as _,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::Result;

use super::check;
use crate::{
    adapters::terminal,
    core::{
        agents::transcript::Format,
        executor::shell_word,
        glob::Glob,
        graph::{TaskGraph, task::Task},
        select::MAX_ITERATIONS,
    },
    fixed_limit,
    project::{attempt, executors, graph_file::GraphFile, placement, workspace::Workspace},
    runner::{self, RunOptions},
    view::lines::{counted, few},
};

/// What a person should know before a run starts, with what can be done about it.
pub(super) fn notes(
    workspace: &Workspace,
    file: &GraphFile,
    run: &RunOptions,
    remarks: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let odd = file.warnings().len();
    if odd > 0 {
        let odd = counted(odd, "warning");
        notes.push(format!("{odd} in `{}`; `ralph check` shows them", file.name()));
    }
    notes.extend(workspace.config.max_iterations.and_then(many));
    if let Some(gaps) = sandbox_warning(workspace, file, run) {
        notes.push(format!("warning: {gaps}; `ralph doctor` lists all"));
    }
    let (policy, tasks) = (run.policy(workspace), file.graph().tasks());
    let gap = runner::review_gap(&policy, tasks, workspace, run.run_on.as_deref());
    notes.extend(gap.map(|gap| format!("warning: {}", gap.text)));
    let limits = tasks.iter().any(|task| !task.status.is_over() && task.max_cost.is_some())
        || workspace.config.max_cost.is_some();
    let agents = runner::agents(&policy, tasks, workspace, run.run_on.as_deref()).into_iter();
    let silent = agents.map(|(call, _)| call).find(|call| limits && !call.reports_cost());
    notes.extend(silent.map(|call| {
        let instead = if call.output == Format::Text { "max_duration" } else { "max_tokens" };
        format!(
            "warning: `{}` reports no cost, so `max_cost` does not end it; `{instead}` does",
            call.name
        )
    }));
    if let Err(error) = workspace.repo.commits().check_committer() {
        let more = "an agent that has no name of its own cannot commit";
        notes.push(format!("warning: {error:#}; {more}"));
    }
    if let Some(why) = workspace.repo.commits().signing_fault() {
        notes.push(format!("warning: the commits of `ralph` will not be signed: {why}"));
    }
    let remarks = if remarks { check::remarks(workspace, file.graph()).len() } else { 0 };
    if remarks > 0 {
        let remarks = counted(remarks, "remark");
        notes.push(format!("{remarks} about the tasks; `ralph check --strict` shows them"));
    }
    let branch = workspace.config.onto.as_ref();
    notes.extend(branch.and_then(|branch| other_branch(workspace, branch).ok()?));
    notes
}

/// What a sandbox of the run does not hold.
fn sandbox_warning(workspace: &Workspace, file: &GraphFile, run: &RunOptions) -> Option<String> {
    let policy = run.policy(workspace);
    let open = runner::open(&policy, file.graph().tasks());
    // The runner reports what is wrong with them.
    let needed = executors::needed(workspace, open.into_iter(), run.run_on.as_deref()).ok()?;
    needed.iter().find_map(|executor| placement::sandbox_support(executor)?.warning())
}

/// That work does not land on the branch of the checkout.
fn other_branch(workspace: &Workspace, branch: &str) -> Result<Option<String>> {
    let repo = &workspace.repo;
    let head = repo.head()?;
    if head.branch.as_deref() == Some(branch) {
        return Ok(None);
    }
    let mut text =
        format!("lands on `{branch}`; your branch, checkout and graph file stay as they are");
    if let (Some(head), Some(tip)) = (head.commit, repo.landings().tip(branch)?)
        && !repo.is_ancestor(&head, &tip.commit)?
    {
        let cure = if repo.is_ancestor(&tip.commit, &head)? {
            format!("; `git branch -f {} HEAD` brings it forward", shell_word(branch))
        } else {
            String::new()
        };
        let _ =
            write!(text, ". Attempts start from its newest commit, without those of HEAD{cure}");
    }
    Ok(Some(text))
}

/// What is said while git looks for changes for long.
const SLOW: &str = "git still looks for changes in the checkout; a filter of it may hang, and \
                    `git status` shows whether it does; Ctrl-C ends the run";

/// What is not committed: attempts in slots do not have it and it can hold back what lands; to
/// attempts in the checkout it is open. A filter of git can make this last, so that a run asks once
/// it can be stopped.
pub(super) fn uncommitted(workspace: &Workspace, graph: &TaskGraph) -> Option<String> {
    // What works is dropped with the sender, and nothing is said.
    let (working, ended) = mpsc::channel::<()>();
    let patience = (fixed_limit::git() / 60).max(Duration::from_secs(1));
    thread::spawn(move || {
        if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            terminal::say(SLOW);
        }
    });
    let changed = attempt::changed(workspace, &workspace.repo).unwrap_or_default();
    drop(working);
    if changed.is_empty() {
        return None;
    }
    let paths = few(changed.keys().map(|path| format!("`{path}`")), 3);
    if !workspace.config.is_isolated() {
        return Some(format!("not committed, and open to attempts in the checkout: {paths}"));
    }
    let touches = |task: &&Task| {
        let in_way = |glob: &Glob| changed.keys().any(|path| glob.matches(path));
        !task.status.is_over() && task.touches.iter().any(in_way)
    };
    let known = match graph.tasks().iter().filter(touches).count() {
        0 => String::new(),
        1 => ", as 1 task says it will".to_owned(),
        count => format!(", as {count} tasks say they will"),
    };
    Some(format!(
        "not committed, so attempts do not have it: {paths}; commit or stash it, or all that lands \
         waits for your checkout once work changes it{known}"
    ))
}

/// Says what is not committed.
pub(super) fn say_uncommitted(workspace: &Workspace, graph: &TaskGraph) {
    if let Some(text) = uncommitted(workspace, graph) {
        terminal::say_wrapped(&terminal::visible(&text));
    }
}

/// A warning of a high iteration limit.
pub(super) fn many(max_iterations: u32) -> Option<String> {
    (max_iterations > MAX_ITERATIONS).then(|| {
        format!(
            "warning: up to {max_iterations} iterations (over {MAX_ITERATIONS}) may consume \
             significant resources"
        )
    })
}
