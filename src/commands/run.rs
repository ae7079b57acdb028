//! `ralph run` and `ralph loop`: configure and start a run, or repeat an agent on a prompt file, which is a
//! run over a graph of one task.

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;

use super::{
    Invocation,
    background::{self, BackgroundReporter},
    check, check_filter, filter, serve,
};
use crate::{
    adapters::{bounded_log::BoundedLog, process, state, terminal},
    cli::{self, AgentArgs, BackgroundArgs, LimitArgs, RunArgs, ServeArgs},
    core::{
        agents::agent_command::AgentCommand,
        duration,
        event::{Begun, PlainLoop, SourceRefreshed},
        executor::shell_word,
        exit::{Exit, Failure, fail},
        graph::{
            filter::Filter,
            task::{Status, TaskId},
        },
        isolation::Isolation,
        loop_paths::LoopPaths,
        redact::MARK,
        select::MAX_ITERATIONS,
    },
    project::{
        attempt::{self, prompt_file},
        config::{self, ConfigLayer, NotifierTarget},
        executors,
        failure_output::FailureOutputReader,
        graph_file::GraphFile,
        import, placement,
        workspace::{Workspace, landing_branch},
    },
    report::{
        awake::AwakeReporter,
        fancy::FancyReporter,
        heartbeat::HeartbeatReporter,
        notify::{NotifyReporter, desktop_is_here},
        plain::PlainReporter,
    },
    runner::{self, Reporter, RunOptions, Runner},
    view::lines::{Verbosity, counted, first_paths, ids},
};

/// Runs the graph.
///
/// # Errors
/// Errors of [`Runner::new`] and [`Runner::run`].
pub fn run(invocation: &Invocation, options: RunArgs) -> Result<Exit> {
    if options.background.detach {
        return background::start(&LoopPaths::default());
    }
    let output = RunOutput::of(options.quiet, options.verbose, &options.background);
    let mut workspace = invocation.workspace()?;
    let mut flags = limits(options.max_iterations, options.idle, &options.limits);
    flags.extend(options.max_failures.map(|count| ("max_failures".to_owned(), json!(count))));
    flags.extend(options.jobs.map(|jobs| ("jobs".to_owned(), json!(jobs))));
    flags.extend(options.in_place.then(|| ("isolation".to_owned(), json!("checkout"))));
    flags.extend(options.onto.map(|branch| ("onto".to_owned(), json!(branch))));
    let jobs = workspace.config.jobs;
    let is_reduced = options.in_place && options.jobs.is_none() && jobs > 1;
    flags.extend(is_reduced.then(|| ("jobs".to_owned(), json!(1))));
    workspace.set_flags(flags)?;
    check_jobs(&workspace)?;
    if is_reduced {
        terminal::say(&format!(
            "`--in-place` runs one job instead of {jobs} (`jobs` in the settings): two attempts \
             cannot share the checkout"
        ));
    }
    let run = RunOptions {
        filter: filter(options.which),
        agents: given_agent(invocation, options.agent)?,
        once: options.once,
        wait: options.wait,
        before: 0,
        tmux: options.tmux,
        run_on: options.run_on,
        refreshed: Vec::new(),
        plain: None,
    };
    let refreshed = import::refresh_all(&workspace);
    let runner = prepared(workspace, RunOptions { refreshed: refreshed.clone(), ..run }, output)
        .inspect_err(|_| say_refreshed(&refreshed))?;
    let page = options.serve.map(|port| serve::start(invocation, &ServeArgs::on(port)));
    if let Some(link) = page.transpose()? {
        terminal::say(&format!("the page: {link}"));
    }
    let exit = runner.run()?.exit();
    // A script waits for the end; a person looks at it.
    if options.serve.is_some() && terminal::is_interactive() && !matches!(exit, Exit::Signal(_)) {
        serve::stay()?;
    }
    Ok(exit)
}

/// Checks that the attempts of a run do not share a folder.
///
/// # Errors
/// There are several jobs without slots.
pub(super) fn check_jobs(workspace: &Workspace) -> Result<()> {
    let config = &workspace.config;
    if config.jobs > 1 && !config.is_isolated() {
        return fail(
            Exit::Usage,
            format!(
                "{} jobs need slots, since two attempts cannot share the checkout; remove `isolation: \
             checkout` or run one job",
                config.jobs
            ),
        );
    }
    Ok(())
}

/// Returns the runner of the graph, after warnings about it.
fn prepared(workspace: Workspace, run: RunOptions, output: RunOutput) -> Result<Runner> {
    let file = attempt::graph(&workspace)?;
    check_filter(&file, &run.filter)?;
    let odd = file.warnings().len();
    if odd > 0 {
        let odd = counted(odd, "warning");
        terminal::say(&format!("{odd} in `{}`; `ralph check` shows them", file.name()));
    }
    let says_remarks = workspace.config.remarks && output.verbosity != Verbosity::Quiet;
    let remarks = if says_remarks { check::remarks(&workspace, file.graph()).len() } else { 0 };
    workspace.config.max_iterations.into_iter().for_each(warn_of_many);
    // Another branch than that of the checkout gets such a task with its work.
    let unknown = match &workspace.config.onto {
        Some(_) => Vec::new(),
        None => workspace.uncommitted_tasks(file.graph()).unwrap_or_default(),
    };
    let name = file.name().to_owned();
    let gaps = sandbox_warning(&workspace, &file, &run);
    let runner = runner(workspace, file, run, output)?;
    if let Some(gaps) = gaps {
        terminal::say(&format!("warning: {gaps}; `ralph doctor` lists all"));
    }
    if let Err(error) = runner.workspace().repo.commits().check_committer() {
        let more = "an agent that has no name of its own cannot commit";
        terminal::say(&terminal::visible(&format!("warning: {error:#}; {more}")));
    }
    if !unknown.is_empty() {
        let (count, ids) = (counted(unknown.len(), "task"), ids(&unknown));
        terminal::say(&format!(
            "warning: {count} not committed, so no commit will say that they are complete: {ids}; \
             commit `{name}`"
        ));
    }
    if remarks > 0 {
        let remarks = counted(remarks, "remark");
        terminal::say(&format!("{remarks} about the tasks; `ralph check --strict` shows them"));
    }
    if runner.workspace().config.is_isolated() {
        warn_of_uncommitted(runner.workspace());
    }
    if let Some(branch) = &runner.workspace().config.onto {
        say_branch(runner.workspace(), branch)?;
    }
    Ok(runner)
}

/// What a sandbox of the run does not hold.
fn sandbox_warning(workspace: &Workspace, file: &GraphFile, run: &RunOptions) -> Option<String> {
    let policy = run.policy(workspace);
    let open = runner::open(&policy, file.graph().tasks());
    // The runner reports what is wrong with them.
    let needed = executors::needed(workspace, open.into_iter(), run.run_on.as_deref()).ok()?;
    needed.iter().find_map(|executor| placement::sandbox_support(executor)?.warning())
}

/// Says that work does not land on the branch of the checkout.
fn say_branch(workspace: &Workspace, branch: &str) -> Result<()> {
    let repo = &workspace.repo;
    if repo.head()?.branch.as_deref() == Some(branch) {
        return Ok(());
    }
    let mut text =
        format!("lands on `{branch}`; your branch, checkout and graph file stay as they are");
    if let (Some(head), Some(tip)) = (repo.head()?.commit, repo.landings().tip(branch)?)
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
    terminal::say(&terminal::visible(&text));
    Ok(())
}

/// Says what happened to the sources if no run records it.
fn say_refreshed(refreshed: &[SourceRefreshed]) {
    for SourceRefreshed { source, what } in refreshed {
        terminal::say(&terminal::visible(&format!("source `{source}`: {what}")));
    }
}

/// Warns that attempts do not see what is not committed.
fn warn_of_uncommitted(workspace: &Workspace) {
    let (paths, more) = attempt::first_changed(workspace).unwrap_or_default();
    if paths.is_empty() {
        return;
    }
    let text = format!("not committed, so attempts do not have it: {}", first_paths(&paths, more));
    terminal::say(&terminal::visible(&text));
}

/// What a run prints, and where.
#[derive(Clone, Copy)]
pub(super) struct RunOutput {
    pub(super) verbosity: Verbosity,
    /// Whether only the log of the run gets it.
    pub(super) detached: bool,
}

impl RunOutput {
    /// The output for the flags. A run in the background leaves the terminal here.
    pub(super) fn of(quiet: bool, verbose: bool, background: &BackgroundArgs) -> RunOutput {
        if background.detached {
            process::leave_terminal();
        }
        let verbosity = match (quiet, verbose) {
            (true, _) => Verbosity::Quiet,
            (false, false) => Verbosity::Normal,
            (false, true) => Verbosity::Verbose,
        };
        RunOutput { verbosity, detached: background.detached }
    }
}

/// The settings from flags.
pub(super) fn limits(
    iterations: Option<u32>,
    idle: Option<Duration>,
    more: &LimitArgs,
) -> ConfigLayer {
    // Without `..`, so that a new flag cannot be left out below.
    let LimitArgs {
        timeout,
        exit_grace,
        max_cost,
        max_tokens,
        max_duration,
        done_pattern,
        max_wait,
    } = more;
    let length = |length: Option<Duration>| length.map(|length| json!(duration::text(length)));
    let named = [
        ("max_iterations", iterations.map(|count| json!(count))),
        ("timeout", length(*timeout)),
        ("idle", length(idle)),
        ("exit_grace", length(*exit_grace)),
        ("max_cost", max_cost.map(|sum| json!(sum))),
        ("max_tokens", max_tokens.map(|count| json!(count))),
        ("max_duration", length(*max_duration)),
        ("max_wait", length(*max_wait)),
        ("done_pattern", done_pattern.as_ref().map(|pattern| json!(pattern))),
    ];
    let given = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    given.collect()
}

/// Starts a run like an earlier one, which has made `before` attempts.
///
/// # Errors
/// Errors of [`run`].
pub(super) fn again(
    mut workspace: Workspace,
    begun: &Begun,
    before: u32,
    output: RunOutput,
) -> Result<Exit> {
    let words = begun.agents.iter().flat_map(|call| call.argv.iter().chain(call.env.values()));
    if words.into_iter().any(|word| word.contains(MARK)) {
        let again = if begun.plain.is_some() { "ralph loop …" } else { "ralph run" };
        return fail(
            Exit::Agent,
            format!(
                "the agent command of the last run contained a secret, which is not recorded; continue \
             with `{again} -- AGENT`"
            ),
        );
    }
    let mut flags = begun.flags.clone();
    // A person may have switched to another branch since.
    if let Some(branch) = &begun.branch
        && landing_branch(&workspace)?.as_ref() != Some(branch)
    {
        flags.insert("onto".to_owned(), json!(branch));
    }
    workspace.set_flags(flags)?;
    let refreshed = match &begun.plain {
        Some(_) => Vec::new(),
        None => import::refresh_all(&workspace),
    };
    let file = match &begun.plain {
        Some(plain) => loop_graph(&workspace, &plain.name),
        None => attempt::graph(&workspace),
    };
    let file = file.inspect_err(|_| say_refreshed(&refreshed))?;
    let run = RunOptions {
        filter: Filter::of_words(&begun.filter),
        agents: (!begun.agents.is_empty()).then(|| begun.agents.clone()),
        once: begun.once,
        wait: begun.wait,
        before,
        tmux: begun.tmux,
        run_on: begun.run_on.clone(),
        refreshed: refreshed.clone(),
        plain: begun.plain.clone(),
    };
    let runner = runner(workspace, file, run, output).inspect_err(|_| say_refreshed(&refreshed))?;
    Ok(runner.run()?.exit())
}

/// Returns the runner of a graph with the reporters for the terminal.
///
/// # Errors
/// Errors of [`Runner::new`].
pub(super) fn runner(
    workspace: Workspace,
    file: GraphFile,
    options: RunOptions,
    output: RunOutput,
) -> Result<Runner> {
    let RunOutput { verbosity, detached } = output;
    let heartbeat = workspace.root().join(workspace.place.heartbeat());
    let run_log = workspace.root().join(workspace.place.run_log());
    let outputs = FailureOutputReader::new(&workspace);
    let log = BoundedLog::new(run_log.clone());
    // Last, so that the log has the start of the run when it is reported.
    let view: Box<dyn Reporter> = if detached {
        Box::new(BackgroundReporter { log: run_log })
    } else if terminal::stderr_is_live() {
        Box::new(FancyReporter::new(verbosity, outputs.clone()))
    } else {
        Box::new(PlainReporter::new(std::io::stderr(), verbosity, outputs.clone()))
    };
    let desktop = workspace.config.notify.iter().any(|one| one.way == NotifierTarget::Desktop);
    if verbosity == Verbosity::Verbose
        && desktop
        && let Err(why) = desktop_is_here(workspace.root())
    {
        terminal::say(&format!("desktop notifications are unavailable: {why}"));
    }
    let keep_awake = workspace.config.keep_awake;
    let notify = NotifyReporter::new(&workspace).context("start the notifiers")?;
    let reporters: Vec<Box<dyn Reporter>> = vec![
        Box::new(PlainReporter::dated(log, outputs)),
        Box::new(HeartbeatReporter::new(heartbeat)),
        Box::new(notify),
        Box::new(AwakeReporter::new(keep_awake, verbosity == Verbosity::Quiet)),
        view,
    ];
    let flag = workspace.place.flag();
    let runner = Runner::new(workspace, file, options, reporters)?;
    if terminal::stderr_is_terminal() && !detached && verbosity != Verbosity::Quiet {
        let text = format!("closing the terminal does not stop the run; `ralph stop{flag}` does");
        terminal::say_wrapped(&text);
    }
    Ok(runner)
}

/// The agent from the flags. A relative path starts from the working directory.
///
/// # Errors
/// An unknown name; the working directory no longer exists.
pub(super) fn given_agent(
    invocation: &Invocation,
    agent: AgentArgs,
) -> Result<Option<Vec<AgentCommand>>> {
    let read = |name: String| {
        AgentCommand::read(&json!(name)).map_err(|why| Failure::new(Exit::Usage, why))
    };
    let given = if agent.command.is_empty() {
        agent.name.map(read).transpose()?
    } else {
        Some(vec![AgentCommand::command(agent.command)])
    };
    let Some(calls) = given else {
        return Ok(None);
    };
    let dir = invocation.file(Path::new(""))?;
    Ok(Some(calls.into_iter().map(|call| config::anchored(call, &dir)).collect()))
}

/// Warns of a high iteration limit.
fn warn_of_many(max_iterations: u32) {
    if max_iterations > MAX_ITERATIONS {
        terminal::say(&format!(
            "warning: up to {max_iterations} iterations (over {MAX_ITERATIONS}) may consume \
             significant resources"
        ));
    }
}

/// The pause between two iterations, unless one is given.
const DELAY: Duration = Duration::from_secs(1);

/// Runs the loop until the agent reports completion or something stops it.
///
/// # Errors
/// A missing prompt file; errors of [`Runner::new`] and [`Runner::run`].
pub fn plain_loop(invocation: &Invocation, options: cli::LoopArgs) -> Result<Exit> {
    if options.background.detach {
        return background::start(&LoopPaths::of_loop(options.name));
    }
    let output = RunOutput::of(options.quiet, options.verbose, &options.background);
    let prompt_file = invocation.file(&options.prompt_file)?;
    let mut workspace = invocation.open(LoopPaths::of_loop(options.name.clone()))?;
    prompt_file::read(&prompt_file, &options.prompt_file)?;
    let iterations = Some(options.max_iterations);
    let mut flags = limits(iterations, options.inactivity_timeout, &options.limits);
    let isolation = if options.isolated { Isolation::Slot } else { Isolation::Checkout };
    flags.insert("isolation".to_owned(), json!(isolation));
    workspace.set_flags(flags)?;
    let plain = PlainLoop {
        name: options.name,
        prompt_file,
        restart_delay_seconds: options.restart_delay.unwrap_or(DELAY).as_secs_f64(),
        fixed_delay: options.restart_delay.is_some(),
        max_restarts: options.max_restarts,
        max_failures: options.max_failures,
    };
    let agents = given_agent(invocation, options.agent)?;
    warn_of_many(options.max_iterations);
    let file = loop_graph(&workspace, &plain.name)?;
    let (tmux, run_on) = (options.tmux, options.run_on);
    let run = RunOptions { agents, tmux, run_on, plain: Some(plain), ..RunOptions::default() };
    let runner = runner(workspace, file, run, output)?;
    if options.isolated {
        warn_of_uncommitted(runner.workspace());
    }
    Ok(runner.run()?.exit())
}

/// Writes the graph of the loop. Its task is pending again, unless it needs input.
///
/// # Errors
/// The loop is already running, with its own exit code; errors of the disk.
pub(super) fn loop_graph(workspace: &Workspace, name: &TaskId) -> Result<GraphFile> {
    // Do not change the graph of a running loop. The run takes the lock again.
    let Some(_lock) = workspace.lock()? else {
        return fail(Exit::Running, runner::held(workspace));
    };
    let asks = workspace
        .graph()
        .is_ok_and(|file| file.graph().tasks().iter().any(|it| it.status == Status::NeedsInput));
    let status = if asks { Status::NeedsInput } else { Status::Pending };
    let text = format!(
        "# Written by `ralph loop` whenever it starts.\ntasks:\n  - id: \"{name}\"\n    \
         title: \"Work of the loop {name}\"\n    status: {status}\n    commit: optional\n    verify_baseline: false\n"
    );
    state::replace(workspace.graph_path(), text.as_bytes(), workspace.config.fsync)
        .with_context(|| format!("write `{}`", workspace.graph_path().display()))?;
    workspace.graph()
}
