//! `ralph loop`: an agent on a prompt file, again and again, as a graph of one task.

use anyhow::{Context, Result};

use super::{
    Here,
    run::{given_agent, limits, verbosity, warn_of_many, work},
};
use crate::{
    attempt::prompt_file,
    cli,
    event::Plain,
    exit::{Exit, Failure},
    graphfile::GraphFile,
    place::Place,
    runner::{self, Options},
    state,
    task::{Status, TaskId},
    workspace::Workspace,
};

/// Loops until the agent says that all is done, or something stops it.
///
/// # Errors
/// No prompt file; as [`runner::Runner::new`] and [`runner::Runner::run`].
pub fn run(here: &Here, options: cli::Loop) -> Result<Exit> {
    let verbosity = verbosity(options.quiet, options.verbose);
    let prompt_file = here.file(&options.prompt_file)?;
    let mut workspace = here.open(Place::of_loop(options.name.clone()))?;
    prompt_file::read(&prompt_file, &options.prompt_file)?;
    let iterations = Some(options.max_iterations);
    workspace.set_flags(limits(iterations, options.inactivity_timeout, &options.limits))?;
    let plain = Plain {
        name: options.name,
        prompt_file,
        restart_delay_seconds: options.restart_delay.as_secs_f64(),
        max_restarts: options.max_restarts,
        max_failures: options.max_failures,
    };
    let agents = given_agent(options.agent, options.agent_name.as_deref())?;
    warn_of_many(options.max_iterations);
    let file = graph(&workspace, &plain.name)?;
    let tmux = options.tmux;
    let run = Options { agents, tmux, plain: Some(plain), ..Options::default() };
    work(workspace, file, run, verbosity)
}

/// Makes the graph that is the loop. Its task is anew what it was to begin with, but for a question
/// that waits for its answer.
///
/// # Errors
/// With an exit code of its own: the loop runs already. As the disk gives them.
pub(super) fn graph(workspace: &Workspace, name: &TaskId) -> Result<GraphFile> {
    // Not under the feet of a loop of this name; the run takes the lock again.
    let Some(_lock) = workspace.lock()? else {
        return Err(Failure::new(Exit::Running, runner::held(workspace)).into());
    };
    let asks = workspace
        .graph()
        .is_ok_and(|file| file.graph().tasks().iter().any(|it| it.status == Status::NeedsInput));
    let status = if asks { Status::NeedsInput } else { Status::Pending };
    let text = format!(
        "# Made by `ralph loop`, and made anew when it starts.\ntasks:\n  - id: \"{name}\"\n    \
         status: {status}\n    commit: optional\n    verify_baseline: false\n"
    );
    state::replace(workspace.graph_path(), text.as_bytes(), workspace.durable())
        .with_context(|| format!("write `{}`", workspace.graph_path().display()))?;
    workspace.graph()
}
