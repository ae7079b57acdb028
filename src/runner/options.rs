//! The options of a run.

use crate::{
    core::{
        agents::agent_command::AgentCommand,
        event::{PlainLoop, SourceRefreshed},
        graph::filter::Filter,
        select::Policy,
    },
    project::workspace::Workspace,
};

/// The options of a run, apart from the repository and its settings.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The tasks to work on.
    pub filter: Filter,
    /// Agents that override those of the settings and tasks.
    pub agents: Option<Vec<AgentCommand>>,
    /// Whether to stop after the first attempt.
    pub once: bool,
    /// Whether to wait for tasks in progress elsewhere and for answers when nothing can start.
    pub wait: bool,
    /// The number of attempts of the paused run that this run resumes.
    pub before: u32,
    /// Whether each agent gets its own terminal.
    pub tmux: bool,
    /// Where attempts run, whatever tasks and settings say.
    pub run_on: Option<String>,
    /// What the sources of the settings brought in before the run.
    pub refreshed: Vec<SourceRefreshed>,
    /// The plain loop, unless the run works on a graph.
    pub plain: Option<PlainLoop>,
}

impl RunOptions {
    /// Returns the policy of a run with these options.
    pub fn policy(&self, workspace: &Workspace) -> Policy {
        let settings = workspace.policy();
        Policy {
            filter: self.filter.clone(),
            once: self.once,
            wait: self.wait,
            agents_given: self.agents.is_some(),
            agents: self.agents.clone().unwrap_or(settings.agents),
            // A plain loop has its own limits.
            max_attempts: self.plain.as_ref().map_or(settings.max_attempts, |_| u32::MAX),
            start_limit: self.plain.as_ref().map_or(settings.start_limit, |_| 0),
            jobs: self.plain.as_ref().map_or(settings.jobs, |_| 1),
            plain: self.plain.clone(),
            run_on_given: self.run_on.is_some(),
            run_on: self.run_on.clone().or(settings.run_on),
            ..settings
        }
    }
}
