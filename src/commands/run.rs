//! `ralph run` and `ralph loop`: configure and start a run, or repeat an agent on a prompt file, which is a
//! run over a graph of one task.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::Utc;
use serde_json::json;

use super::{
    Invocation,
    background::{self, BackgroundReporter},
    check_filter, check_jobs,
    doctor::check_notice,
    filter, given_agent, merge_driver,
    outlook::{many, notes, say_uncommitted},
    serve,
};
use crate::{
    adapters::{bounded_log::BoundedLog, process, state, terminal},
    cli::{self, BackgroundArgs, LimitArgs, RunArgs, RunWorkArgs, ServeArgs},
    core::{
        attempt::Isolation,
        duration,
        event::{Begun, PlainLoop},
        exit::{Exit, fail},
        graph::{
            TaskGraph,
            filter::Filter,
            task::{Status, TaskId},
        },
        history::History,
        loop_paths::LoopPaths,
        redact::MARK,
        select::View,
    },
    project::{
        attempt::{self, read_prompt},
        config::ConfigLayer,
        failure_output::FailureOutputReader,
        graph_file::GraphFile,
        workspace::{Workspace, landing_branch},
    },
    report::{
        fancy::FancyReporter,
        heartbeat::{AwakeReporter, HeartbeatReporter},
        notify::NotifyReporter,
        plain::PlainReporter,
        window::WindowReporter,
    },
    runner::{self, Reporter, RunOptions, Runner},
    view::{lines::Verbosity, night::NightView},
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
    let port = options.serve;
    let (workspace, run) = configured(invocation, options.work)?;
    let (wait, tmux) = (options.wait, options.tmux);
    let run = RunOptions { wait, tmux, ..run };
    let runner = prepared(workspace, run, output, options.unproved)?;
    let page = port.map(|port| serve::start(invocation, &ServeArgs::on(port)));
    if let Some(link) = page.transpose()? {
        terminal::say(&format!("the page: {link}"));
    }
    let exit = runner.run(say_uncommitted)?.exit();
    // A script waits for the end; a person looks at it.
    if port.is_some() && terminal::is_interactive() && !matches!(exit, Exit::Signal(_)) {
        serve::stay()?;
    }
    Ok(exit)
}

/// Opens the repository with the settings and the options of a run that these flags ask for.
///
/// # Errors
/// No repository, invalid settings or flags.
pub(super) fn configured(
    invocation: &Invocation,
    options: RunWorkArgs,
) -> Result<(Workspace, RunOptions)> {
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
        run_on: options.run_on,
        ..RunOptions::default()
    };
    Ok((workspace, run))
}

/// Returns the runner of the graph, after the notes before its start.
fn prepared(
    mut workspace: Workspace,
    run: RunOptions,
    output: RunOutput,
    unproved: bool,
) -> Result<Runner> {
    // Output printed to a file here is no change that attempts lack.
    workspace.ignore_outputs()?;
    let file = attempt::graph(&workspace)?;
    check_filter(&file, &run.filter)?;
    let mut notes = notes(&workspace, &file, &run, false);
    if !unproved {
        // Obstacles to a start cost no trial.
        runner::check_start(&run.policy(&workspace), &file, &workspace, &run)?;
        notes.extend(check_notice(&workspace, &file, &run)?);
    }
    if let (Some(_), Some(graph)) = (&workspace.config.onto, workspace.graph_in_git()) {
        // The graph changes on both branches, and a person will merge them.
        let text = || format!("git merges `{graph}` by task in this clone from now on");
        notes.extend(merge_driver::set_up(&workspace, &graph)?.then(text));
    }
    let is_foreseen = output.verbosity != Verbosity::Quiet && !run.once;
    let runner = runner(workspace, file, run, output)?;
    let foresee = |view: &View<'_>| NightView::of(view, false, Utc::now());
    let foreseen = if is_foreseen { runner.with_view(foresee) } else { None };
    // Runs that end at once say why.
    let foreseen = foreseen.filter(|it| it.ends_at.high > it.from);
    for text in notes.into_iter().chain(foreseen.iter().flat_map(NightView::lines)) {
        terminal::say_wrapped(&terminal::visible(&text));
    }
    Ok(runner)
}

/// A run's output and target.
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

/// Refuses to continue the last run on its branch with a detached HEAD, as a new run is refused: git may be
/// in the middle of a rebase of that branch.
///
/// # Errors
/// HEAD is detached, and the run was not given its branch; errors of git.
pub(super) fn check_branch(workspace: &Workspace, history: &History) -> Result<()> {
    let (last, begun) = (&history.run, &history.run.begun);
    let is_given = begun.flags.contains_key("onto");
    let Some(branch) = begun.branch.as_deref().filter(|_| !is_given) else { return Ok(()) };
    let continues = last.was_cut_short() || last.ended_at_limit();
    if !continues || landing_branch(workspace)?.is_some() || workspace.is_live(history)? {
        return Ok(());
    }
    let branch = terminal::visible(branch);
    let message = format!(
        "attempts start from a branch: HEAD is detached, and the work of this run lands on `{branch}`; \
         `git switch {branch}` first"
    );
    fail(Exit::Error, message)
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
    let file = match &begun.plain {
        Some(plain) => loop_graph(&workspace, &plain.name),
        None => attempt::graph(&workspace),
    }?;
    let run = RunOptions {
        filter: Filter::of_words(&begun.filter),
        agents: (!begun.agents.is_empty()).then(|| begun.agents.clone()),
        once: begun.once,
        wait: begun.wait,
        before,
        tmux: begun.tmux,
        run_on: begun.run_on.clone(),
        plain: begun.plain.clone(),
    };
    Ok(runner(workspace, file, run, output)?.run(say_uncommitted)?.exit())
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
    let keep_awake = workspace.config.keep_awake;
    let notify = NotifyReporter::new(&workspace).context("start the notifiers")?;
    let windows = options.tmux.then(|| WindowReporter::new(&workspace));
    let windows = windows.map(|windows| Box::new(windows) as Box<dyn Reporter>);
    let reporters: [Box<dyn Reporter>; 5] = [
        Box::new(PlainReporter::dated(log, outputs)),
        Box::new(HeartbeatReporter::new(heartbeat)),
        Box::new(notify),
        Box::new(AwakeReporter::new(keep_awake, verbosity == Verbosity::Quiet)),
        view,
    ];
    let reporters = reporters.into_iter().chain(windows).collect();
    let flag = workspace.place.flag();
    let runner = Runner::new(workspace, file, options, reporters)?;
    if terminal::stderr_is_terminal() && !detached && verbosity != Verbosity::Quiet {
        let text = format!("closing the terminal does not stop the run; `ralph stop{flag}` does");
        terminal::say_wrapped(&text);
    }
    Ok(runner)
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
    read_prompt(&prompt_file, &options.prompt_file)?;
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
    if let Some(warning) = many(options.max_iterations) {
        terminal::say(&warning);
    }
    let file = loop_graph(&workspace, &plain.name)?;
    let (tmux, run_on) = (options.tmux, options.run_on);
    let run = RunOptions { agents, tmux, run_on, plain: Some(plain), ..RunOptions::default() };
    workspace.ignore_outputs()?;
    let told = if options.isolated { say_uncommitted } else { |_: &Workspace, _: &TaskGraph| {} };
    Ok(runner(workspace, file, run, output)?.run(told)?.exit())
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
         title: \"Work of the loop {name}\"\n    status: {status}\n    commit: optional\n"
    );
    state::replace(workspace.graph_path(), text.as_bytes())
        .with_context(|| format!("write `{}`", workspace.graph_path().display()))?;
    workspace.graph()
}
