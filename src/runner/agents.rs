//! Checks, before a task is claimed, that the agents of a run can be started.

use std::env;

use anyhow::Result;

use super::{
    context::{RunContext, RunOptions},
    reviewer,
    slots::target_of,
};
use crate::{
    adapters::{process, tmux},
    core::{
        agents::{agent_command::AgentCommand, agent_preset},
        executor::{Executor, LOCAL},
        exit::{Exit, Failure},
        graph::{TaskGraph, task::Task},
        reviewer::ReviewWhen,
        select::Policy,
    },
    project::{
        agent_faults, executors,
        graph_file::GraphFile,
        placement, shell_faults,
        workspace::{self, Workspace, note_sandbox},
    },
};

/// Checks a run's requirements: its agents, its commands, tmux, and a branch with a commit.
///
/// # Errors
/// One of these is missing.
pub fn check_start(
    policy: &Policy,
    file: &GraphFile,
    workspace: &Workspace,
    options: &RunOptions,
) -> Result<()> {
    let of_tasks = || agent_faults::rejected(file, agent_faults::of_agents(file, Some(workspace)));
    if let Some(rejected) = (!policy.agents_given).then(of_tasks).flatten() {
        return Err(workspace::refused(&rejected));
    }
    check_agents(policy, file.graph(), workspace, options)?;
    check_commands(policy, file.graph(), workspace)?;
    if options.tmux {
        tmux::check().map_err(|why| Failure::new(Exit::Agent, why))?;
    }
    if policy.is_isolated() { target_of(workspace).map(drop) } else { Ok(()) }
}

/// Checks that all agents of a run can be started, and that its executors are known. Other machines
/// cannot be checked.
fn check_agents(
    policy: &Policy,
    graph: &TaskGraph,
    workspace: &Workspace,
    options: &RunOptions,
) -> Result<()> {
    let run_on = options.run_on.as_deref();
    let needed = executors::needed(workspace, open(policy, graph.tasks()).into_iter(), run_on)?;
    let elsewhere = needed.iter().find(|executor| executor.name != LOCAL);
    if let Some(Executor { name, .. }) = elsewhere.filter(|_| options.tmux) {
        let message = format!(
            "a tmux window shows only agents on this machine as it is, and `run_on` is `{name}`; \
             remove `--tmux`, or `ralph logs -f --output` shows what they print"
        );
        return Err(Failure::new(Exit::Usage, message).into());
    }
    for executor in &needed {
        placement::check(workspace, executor).map_err(|why| Failure::new(Exit::Agent, why))?;
        note_sandbox(workspace, executor);
    }
    let agents = agents(policy, graph.tasks(), workspace, run_on);
    for (executor, (call, _)) in
        needed.iter().flat_map(|executor| agents.iter().map(move |agent| (executor, agent)))
    {
        placement::check_agent(executor, call.preset_name().as_deref())
            .map_err(|why| Failure::new(Exit::Agent, why))?;
    }
    check_proofs(policy, graph, workspace)?;
    if let Some(gap) = review_gap(policy, graph.tasks(), workspace, run_on)
        && let Some(exit) = gap.exit
    {
        return Err(Failure::new(exit, gap.text).into());
    }
    let reviewers = workspace.config.review.iter().filter(|it| it.when != ReviewWhen::Never);
    for call in reviewers.filter_map(|review| review.by.as_ref()?.calls.first()) {
        check_agent(call, workspace, "change `by` of `review` in `.ralph/config.yaml`")?;
    }
    agents.iter().try_for_each(|(call, hint)| check_agent(call, workspace, hint))
}

/// A gap in the reviews of a run.
pub struct ReviewGap {
    /// The gap in words.
    pub text: String,
    /// The exit code of a run that it ends: its reviews are required, and cannot be made.
    pub exit: Option<Exit>,
}

/// Returns the gap in a run's reviews: work without one, or with one by its author.
pub fn review_gap(
    policy: &Policy,
    tasks: &[Task],
    workspace: &Workspace,
    run_on: Option<&str>,
) -> Option<ReviewGap> {
    let review = workspace.config.review.as_ref()?;
    if review.when == ReviewWhen::Never || policy.plain.is_some() {
        return None;
    }
    let needed = executors::needed(workspace, open(policy, tasks).into_iter(), run_on);
    let needed = needed.unwrap_or_default();
    let elsewhere = needed.iter().find(|executor| !executor.is_here());
    let place = if workspace.config.is_isolated() {
        elsewhere.map(|executor| format!("on `{}`", executor.name))
    } else {
        Some("in the checkout (`--in-place`, `isolation: checkout`)".to_owned())
    };
    if let Some(place) = place {
        let (why, exit) = if review.required {
            ("`review` has `required`; leave that out, or work in slots here", Some(Exit::Usage))
        } else {
            ("it lands as not reviewed", None)
        };
        return Some(ReviewGap { text: format!("work {place} is not reviewed: {why}"), exit });
    }
    let authors = agents(policy, tasks, workspace, run_on).into_iter();
    let is_own = |author: &AgentCommand| {
        let reviewer = reviewer::reviewer_of(workspace, Some(author));
        reviewer.name == author.name || reviewer.argv == author.argv
    };
    let name = &authors.map(|(author, _)| author).find(|author| is_own(author))?.name;
    let text = format!("`{name}` reviews its own work; `by` of `review` names another agent");
    Some(ReviewGap { text, exit: None })
}

/// Checks that attempts have slots for proofs, where these are required.
fn check_proofs(policy: &Policy, graph: &TaskGraph, workspace: &Workspace) -> Result<()> {
    let proof = &workspace.config.proof;
    let needs = |task: &&Task| {
        task.proof_settings(proof).is_required && !workspace.verify_of(task).is_empty()
    };
    let task = open(policy, graph.tasks()).into_iter().find(needs);
    let Some(task) = task.filter(|_| !workspace.config.is_isolated()) else { return Ok(()) };
    let message = format!(
        "task `{}` has `proof: require`, and its work can be proved only in a slot; leave out \
         `--in-place` or `isolation: checkout`, or set `proof: report`",
        task.id
    );
    Err(Failure::new(Exit::Usage, message).into())
}

/// Checks that the shell accepts the commands of the settings and of the tasks of a run.
///
/// # Errors
/// A rejected command.
pub fn check_commands(policy: &Policy, graph: &TaskGraph, workspace: &Workspace) -> Result<()> {
    let admits = |number: &usize| policy.filter.admits(graph.task(*number));
    let of_task = || {
        let faults = shell_faults::of_tasks(graph, Some(workspace));
        let (number, fault) = faults.into_iter().find(|(number, _)| admits(number))?;
        Some(fault.text(&format!("`verify` of `{}`", graph.task(number).id)))
    };
    let fault = shell_faults::of_settings(workspace).or_else(of_task);
    fault.map_or(Ok(()), |fault| {
        let message = format!("{fault}; correct it: every attempt would fail with it");
        Err(Failure::new(Exit::Invalid, message).into())
    })
}

/// Checks that an executor answers that some task needs. Tasks whose executor does not answer
/// wait for it while others go on.
pub(super) fn check_executors(cx: &RunContext, graph: &TaskGraph) -> Result<()> {
    let given = cx.options.run_on.as_deref();
    let open = open(&cx.policy, graph.tasks());
    let needed = executors::needed(&cx.workspace, open.into_iter(), given)?;
    let mut faults = Vec::new();
    for executor in &needed {
        match placement::answers(executor) {
            Ok(()) => return Ok(()),
            Err(why) => faults.push(why),
        }
    }
    match faults.into_iter().next() {
        Some(why) => Err(Failure::new(Exit::Agent, why).into()),
        None => Ok(()),
    }
}

/// Returns the tasks that a run with this policy may work on.
pub fn open<'a>(policy: &Policy, tasks: &'a [Task]) -> Vec<&'a Task> {
    tasks.iter().filter(|task| !task.status.is_over() && policy.filter.admits(task)).collect()
}

/// Returns the agents that the unfinished tasks need on this machine, each with a hint on how to
/// choose another.
pub fn agents<'a>(
    policy: &'a Policy,
    tasks: &'a [Task],
    workspace: &Workspace,
    run_on: Option<&str>,
) -> Vec<(&'a AgentCommand, String)> {
    let here = executors::here(workspace, &open(policy, tasks), run_on);
    here.map_or_else(Vec::new, |here| agents_of(policy, here))
}

/// Returns the agents that the unfinished tasks need at an executor.
pub fn agents_at<'a>(
    policy: &'a Policy,
    tasks: &'a [Task],
    workspace: &Workspace,
    run_on: Option<&str>,
    executor: &Executor,
) -> Vec<&'a AgentCommand> {
    let there = executors::at(workspace, executor, open(policy, tasks), run_on);
    let mut found: Vec<&AgentCommand> = Vec::new();
    for (call, _) in agents_of(policy, there) {
        if !found.contains(&call) {
            found.push(call);
        }
    }
    found
}

/// Returns the agents of these tasks, or of any task if there are none, each with a hint on how to
/// choose another.
fn agents_of<'a>(policy: &'a Policy, tasks: Vec<&'a Task>) -> Vec<(&'a AgentCommand, String)> {
    let has_own = |task: &&Task| !task.agents.is_empty() || !task.escalate.is_empty();
    let (own, others): (Vec<&Task>, Vec<&Task>) =
        tasks.into_iter().partition(|task| !policy.agents_given && has_own(task));
    let mut found: Vec<(&AgentCommand, String)> = Vec::new();
    let hint = "name another after `--`, or set `agent` in `.ralph/config.yaml`";
    let general = policy.roster.resolve(&policy.agents).into_iter();
    let mut add = |call, hint: &str| {
        if !found.iter().any(|(known, _)| *known == call) {
            found.push((call, hint.to_owned()));
        }
    };
    if own.is_empty() && others.is_empty() {
        general.for_each(|call| add(call, hint));
    }
    for task in others {
        policy.agents_of(task, 0, 0).into_iter().for_each(|call| add(call, hint));
    }
    for task in own {
        let hint = format!("change `agent` of `{}`, or name one for all after `--`", task.id);
        policy.agents_of(task, 0, 0).into_iter().for_each(|call| add(call, &hint));
    }
    found
}

/// Checks that an agent can be started; `hint` names the alternative.
///
/// # Errors
/// The agent cannot be started.
pub fn check_agent(call: &AgentCommand, workspace: &Workspace, hint: &str) -> Result<()> {
    let refuse = |message: String| Err(Failure::new(Exit::Agent, message).into());
    let Some(program) = call.argv.first() else {
        return refuse(format!("no agent command; {hint}"));
    };
    if let Err(reason) = process::resolve(program, workspace.root()) {
        let install = agent_preset::of_command(&call.name, program)
            .filter(|_| !program.contains('/'))
            .map_or_else(String::new, |preset| format!("{}, ", preset.installation()));
        return refuse(format!("the agent cannot be started: {reason}; {install}{hint}"));
    }
    let asks = call.argv.iter().any(|word| word == "--dangerously-skip-permissions");
    let variables = agent_preset::find(&call.name).map_or(&[][..], |preset| preset.as_root);
    let is_set = |name: &str| env::var_os(name).is_some() || call.env.contains_key(name);
    match variables.iter().find(|(name, _)| !is_set(name)) {
        Some((name, value)) if asks && process::is_root() => refuse(format!(
            "`{}` refuses `--dangerously-skip-permissions` as root; run as another user, or set \
             `{name}={value}` if this machine is a sandbox",
            call.name
        )),
        _ => Ok(()),
    }
}
