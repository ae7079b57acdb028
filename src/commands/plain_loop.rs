//! `ralph loop`: repeats an agent on a prompt file, as a graph of one task.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{
    Invocation, loop_graph,
    run::{given_agent, limits, runner, verbosity, warn_of_many, warn_of_uncommitted},
};
use crate::{
    cli,
    core::{event::PlainLoop, exit::Exit, isolation::Isolation, loop_paths::LoopPaths},
    project::attempt::prompt_file,
    runner::RunOptions,
};

/// The pause between two iterations, unless one is given.
const DELAY: Duration = Duration::from_secs(1);

/// Runs the loop until the agent reports completion or something stops it.
///
/// # Errors
/// A missing prompt file; errors of [`crate::runner::Runner::new`] and [`crate::runner::Runner::run`].
pub fn run(invocation: &Invocation, options: cli::LoopArgs) -> Result<Exit> {
    let verbosity = verbosity(options.quiet, options.verbose);
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
    let file = loop_graph::graph(&workspace, &plain.name)?;
    let (tmux, run_on) = (options.tmux, options.run_on);
    let run = RunOptions { agents, tmux, run_on, plain: Some(plain), ..RunOptions::default() };
    let runner = runner(workspace, file, run, verbosity)?;
    if options.isolated {
        warn_of_uncommitted(runner.workspace());
    }
    Ok(runner.run()?.exit())
}
