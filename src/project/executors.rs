//! Which executor the attempts at a task run on.

use anyhow::Result;

use crate::{
    core::{
        executor::{Executor, FileTravel, LOCAL, pool_of},
        exit::{Exit, Failure},
        graph::task::Task,
    },
    project::{config::Config, workspace::Workspace},
};

/// The name of a task's executor: from `--on`, the task or the settings.
pub fn name_of<'a>(config: &'a Config, task: &'a Task, given: Option<&'a str>) -> &'a str {
    given.or(task.run_on.as_deref()).unwrap_or(&config.run_on)
}

/// Returns the executor of this name; the local one without a name.
///
/// # Errors
/// There is none of this name.
pub fn find(config: &Config, name: Option<&str>) -> Result<Executor> {
    let found = Executor::find(name.unwrap_or(LOCAL), &config.executors);
    found.map_err(|why| Failure::new(Exit::Invalid, why).into())
}

/// Returns the commands that set up a slot for this executor, and where that is: their output is
/// nowhere else if files are sent there.
pub fn setup(config: &Config, run_on: Option<&str>) -> Vec<String> {
    let is_sent = |it: &Executor| it.files() == Some(FileTravel::Sent);
    let at = find(config, run_on).ok().filter(|it| is_sent(it) && !config.setup.0.is_empty());
    let at = at.map(|executor| format!("at {}", executor.name));
    config.setup.0.iter().cloned().chain(at).collect()
}

/// Returns the executors that these tasks need, each once.
///
/// # Errors
/// A task, or `given`, names an unknown one; attempts that work in the checkout cannot run
/// elsewhere.
pub fn needed<'a>(
    workspace: &Workspace,
    tasks: impl Iterator<Item = &'a Task>,
    given: Option<&str>,
) -> Result<Vec<Executor>> {
    let config = &workspace.config;
    let mut needed: Vec<Executor> = Vec::new();
    let of_tasks = tasks.map(|task| (name_of(config, task, given), Some(task)));
    for (name, task) in given.map(|given| (given, None)).into_iter().chain(of_tasks) {
        if needed.iter().any(|known| known.name == name || pool_of(&known.name) == name) {
            continue;
        }
        let executors = Executor::all(name, &config.executors).map_err(|why| {
            let own = task.filter(|task| task.run_on.as_deref() == Some(name));
            let by =
                own.map_or_else(String::new, |task| format!("`run_on` of task `{}`: ", task.id));
            Failure::new(Exit::Invalid, format!("{by}{why}"))
        })?;
        if !executors.iter().all(Executor::is_here) && !config.is_isolated() {
            let message = format!(
                "attempts that work in the checkout run on this machine, and `run_on` is `{name}`; \
                 leave out `--in-place` or `isolation: checkout`, or add `--on {LOCAL}`"
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        needed.extend(executors);
    }
    Ok(needed)
}

/// Returns those of these tasks that run at this executor.
pub fn at<'a>(
    workspace: &Workspace,
    executor: &Executor,
    tasks: Vec<&'a Task>,
    given: Option<&str>,
) -> Vec<&'a Task> {
    let is_there = |task: &&Task| {
        let name = name_of(&workspace.config, task, given);
        name == executor.name || name == pool_of(&executor.name)
    };
    tasks.into_iter().filter(is_there).collect()
}

/// Returns those of these tasks that run on this machine; none if there are some and all run
/// elsewhere, where this machine's programs do not matter.
pub fn here<'a>(
    workspace: &Workspace,
    tasks: &[&'a Task],
    given: Option<&str>,
) -> Option<Vec<&'a Task>> {
    let config = &workspace.config;
    let is_here = |task: &&&Task| {
        let found = Executor::find(name_of(config, task, given), &config.executors);
        found.is_ok_and(|executor| executor.is_here())
    };
    let here: Vec<&Task> = tasks.iter().filter(is_here).copied().collect();
    (tasks.is_empty() || !here.is_empty()).then_some(here)
}
