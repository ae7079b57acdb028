//! `ralph run`: the loop, from flags and settings.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use chrono::Utc;
use serde_json::json;

use super::{Here, filter};
use crate::{
    attempt,
    call::Call,
    cli::Run,
    event::Begun,
    exit::{Exit, Failure},
    filter::Filter,
    graphfile::GraphFile,
    plan::{MAX_ITERATIONS, Policy},
    promise::{Pattern, Promise},
    redact::MARK,
    report::{
        Reporter, Verbosity, fancy::Fancy, heartbeat::Heartbeat, plain::Plain, words::counted,
    },
    runner::{Options, Runner},
    spend::Budget,
    terminal,
    workspace::{HEARTBEAT, Workspace, find, view},
};

/// The limit of one attempt, where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// The limit of doing nothing, where nothing else is said.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How long what an agent left running after its report is waited for, where nothing else is said.
const CHILD_WAIT: Duration = Duration::from_secs(5 * 60);
/// Between asking an agent to end and killing it, where nothing else is said.
const GRACE: Duration = Duration::from_secs(5);
/// How long an attempt may go on after SIGTERM, where nothing else is said.
const TERM_GRACE: Duration = Duration::from_secs(30);
/// How long an agent may take to exit after its final result, where nothing else is said.
const EXIT_GRACE: Duration = Duration::from_secs(30);

/// Works off the graph.
///
/// # Errors
/// As [`Runner::new`] and [`Runner::run`].
pub fn run(here: &Here, options: Run) -> Result<Exit> {
    let workspace = here.workspace()?;
    let settings = workspace.policy();
    let policy = Policy {
        max_iterations: options.max_iterations.unwrap_or(settings.max_iterations),
        max_wait: options.max_wait.unwrap_or(settings.max_wait),
        budget: Budget {
            cost: options.max_cost.or(settings.budget.cost),
            tokens: options.max_tokens.or(settings.budget.tokens),
            duration: options.max_duration.or(settings.budget.duration),
            ..settings.budget
        },
        once: options.once,
        wait: options.wait,
        filter: filter(options.which),
        ..settings
    };
    if options.dry_run {
        return dry_run(&workspace, &policy);
    }
    let file = attempt::graph(&workspace)?;
    for id in &policy.filter.tasks {
        find(&file, id.as_str())?;
    }
    warn(file.name(), file.warnings().len(), policy.max_iterations);
    let given = given_agent(options.agent, options.agent_name.as_deref())?;
    let policy = with_agents(policy, given);
    let verbosity = match (options.quiet, options.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, false) => Verbosity::Normal,
        (false, true) => Verbosity::Verbose,
    };
    let options = Options {
        policy,
        timeout: options.timeout.or(workspace.config.timeout).unwrap_or(TIMEOUT),
        idle: idle(options.idle.or(workspace.config.idle).unwrap_or(IDLE)),
        promise: promise(&workspace, options.done_pattern),
        exit_grace: options.exit_grace.or(workspace.config.exit_grace).unwrap_or(EXIT_GRACE),
        child_wait: workspace.config.child_wait_timeout.unwrap_or(CHILD_WAIT),
        on_orphans: workspace.config.on_orphans.unwrap_or_default(),
        grace: workspace.config.grace.unwrap_or(GRACE),
        term_grace: workspace.config.term_grace.unwrap_or(TERM_GRACE),
        before: 0,
    };
    work(workspace, file, options, verbosity)
}

/// Begins a run like an earlier one, of whose attempts `before` have been made.
///
/// # Errors
/// As [`run`].
pub fn again(workspace: Workspace, begun: &Begun, before: u32) -> Result<Exit> {
    let words = begun.agents.iter().flat_map(|call| call.argv.iter().chain(call.env.values()));
    if words.into_iter().any(|word| word.contains(MARK)) {
        let message = "the command of the run that was paused had a secret in it, which is not on \
                       record; go on with `ralph run -- AGENT`";
        return Err(Failure::new(Exit::Agent, message).into());
    }
    let file = attempt::graph(&workspace)?;
    let length = |seconds: Option<f64>| seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    let settings = workspace.policy();
    let policy = Policy {
        budget: Budget {
            cost: begun.max_cost.or(settings.budget.cost),
            tokens: begun.max_tokens.or(settings.budget.tokens),
            duration: length(begun.max_duration_seconds).or(settings.budget.duration),
            ..settings.budget
        },
        max_iterations: begun.max_iterations,
        once: begun.once,
        wait: begun.wait,
        filter: Filter::of_words(&begun.filter),
        ..settings
    };
    let options = Options {
        policy: with_agents(policy, (!begun.agents.is_empty()).then(|| begun.agents.clone())),
        timeout: length(begun.timeout_seconds).unwrap_or(TIMEOUT),
        idle: idle(length(begun.idle_seconds).unwrap_or(IDLE)),
        promise: promise(
            &workspace,
            begun.done_pattern.as_deref().and_then(|text| Pattern::new(text).ok()),
        ),
        exit_grace: workspace.config.exit_grace.unwrap_or(EXIT_GRACE),
        child_wait: workspace.config.child_wait_timeout.unwrap_or(CHILD_WAIT),
        on_orphans: workspace.config.on_orphans.unwrap_or_default(),
        grace: workspace.config.grace.unwrap_or(GRACE),
        term_grace: workspace.config.term_grace.unwrap_or(TERM_GRACE),
        before,
    };
    work(workspace, file, options, Verbosity::Normal)
}

/// Works off a graph before the eyes of whoever sits here.
///
/// # Errors
/// As [`Runner::new`] and [`Runner::run`].
pub fn work(
    workspace: Workspace,
    file: GraphFile,
    options: Options,
    verbosity: Verbosity,
) -> Result<Exit> {
    let root = workspace.root().to_owned();
    let view: Box<dyn Reporter> = if terminal::stderr_is_live() {
        Box::new(Fancy::new(verbosity))
    } else {
        Box::new(Plain::new(std::io::stderr(), verbosity))
    };
    let reporters = vec![view, Box::new(Heartbeat::new(root.join(HEARTBEAT)))];
    Ok(Runner::new(workspace, file, options, reporters)?.run()?.exit())
}

/// The agent that the flags name, if they do.
///
/// # Errors
/// A name that is none.
pub(super) fn given_agent(words: Vec<String>, name: Option<&str>) -> Result<Option<Vec<Call>>> {
    if !words.is_empty() {
        return Ok(Some(vec![Call::command(words)]));
    }
    let read = |name: &str| Call::read(&json!(name)).map_err(|why| Failure::new(Exit::Usage, why));
    Ok(name.map(read).transpose()?)
}

/// The policy with agents that stand above those of settings and tasks, if there are such.
pub(super) fn with_agents(policy: Policy, given: Option<Vec<Call>>) -> Policy {
    match given {
        Some(agents) => Policy { agents, agents_given: true, ..policy },
        None => policy,
    }
}

/// What says that all is done, by the settings and a pattern that stands above theirs.
fn promise(workspace: &Workspace, pattern: Option<Pattern>) -> Promise {
    let own = workspace.promise();
    Promise { pattern: pattern.or(own.pattern), ..own }
}

/// `0s` is no limit.
fn idle(limit: Duration) -> Option<Duration> {
    (!limit.is_zero()).then_some(limit)
}

fn warn(name: &str, odd: usize, max_iterations: u32) {
    if odd > 0 {
        terminal::say(&format!(
            "{} in `{name}`; `ralph check` shows them",
            counted(odd, "warning")
        ));
    }
    if max_iterations > MAX_ITERATIONS {
        terminal::say(&format!(
            "warning: up to {max_iterations} iterations (over {MAX_ITERATIONS}) may consume \
             significant resources"
        ));
    }
}

/// The order a run would take if every attempt succeeded, and what it could not reach.
fn dry_run(workspace: &Workspace, policy: &Policy) -> Result<Exit> {
    let file = workspace.graph()?;
    for id in &policy.filter.tasks {
        find(&file, id.as_str())?;
    }
    let chronicle = workspace.chronicle()?;
    let view = view(&file, chronicle.history(), policy);
    let now = Utc::now();
    let order = view.order(now);
    let mut text = String::new();
    let width = order.iter().map(|key| view.graph.task(key.number).id.as_str().len()).max();
    for (at, key) in order.iter().enumerate() {
        let task = view.graph.task(key.number);
        let title = terminal::visible(&task.title);
        let (at, width) = (at + 1, width.unwrap_or(0));
        let _ = writeln!(text, "{at:>4}  {:<width$}  {title}  ({key})", task.id);
    }
    let limit = policy.max_iterations as usize;
    if order.len() > limit {
        let _ = writeln!(text, "stops after {limit} of these, at the limit of iterations");
    }
    for holder in view.holders(now) {
        let _ = writeln!(
            text,
            "not reached: {} and what waits for it ({})",
            holder.task_id, holder.why
        );
    }
    if text.is_empty() {
        "nothing is left to do\n".clone_into(&mut text);
    }
    terminal::print(&text)?;
    Ok(Exit::Success)
}
