//! The read-only inputs of the owners of a run: the repository, its settings and the options of the
//! run; and the facts that they answer with.

use std::{path::Path, sync::mpsc::Sender};

use anyhow::Result;

use super::RunnerMessage;
use crate::{
    adapters::{
        git::Repo,
        process::{GuardianProgram, GuardianSpec, ProcessNews, ProcessSpec},
    },
    core::{
        agents::agent_command::AgentCommand,
        commit_id::CommitId,
        event::{Event, GraphEvent, Harm, PlainLoop},
        graph::{
            TaskGraph,
            filter::Filter,
            task::{CommitRule, Task, TaskId},
        },
        history::History,
        run::command::AttemptId,
        select::Policy,
        verdict::Rule,
    },
    project::{attempt::AttemptRecord, workspace::Workspace},
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

/// The context of a run. Only the loop changes it, when it reloads the settings.
pub(super) struct RunContext {
    pub(super) workspace: Workspace,
    pub(super) options: RunOptions,
    pub(super) policy: Policy,
    pub(super) guardians: GuardianProgram,
    /// The branch that all work lands on; none if attempts work in the checkout.
    pub(super) target: Option<String>,
    /// The branch that was checked out when the run started. The settings in the checkout of another
    /// branch are not those of the run.
    pub(super) home: Option<String>,
    /// Where threads and callbacks send their messages.
    pub(super) outbox: Sender<RunnerMessage>,
}

impl RunContext {
    /// Whether the settings in the checkout are not those of the run: a person looks at another branch,
    /// or git is about to show it and has removed the file.
    pub(super) fn has_other_settings(&self) -> Result<bool> {
        let own = self.workspace.layers.own_text();
        let is_gone = own.is_some_and(|(path, text)| {
            text.is_some() && !self.workspace.root().join(path).exists()
        });
        Ok(is_gone || self.workspace.repo.head()?.branch != self.home)
    }

    /// Whether attempts are isolated.
    pub(super) fn is_isolated(&self) -> bool {
        self.target.is_some()
    }

    /// Returns the plain loop, if this run is one.
    pub(super) fn plain(&self) -> Option<&PlainLoop> {
        self.policy.plain.as_ref()
    }

    /// Whether a person asked the run to stop or to pause.
    pub(super) fn is_asked_to_end(&self, history: &History) -> bool {
        self.policy.stop.is_some() || history.paused || history.run.stop.is_some()
    }

    /// Returns the rule for judging an attempt at a task.
    pub(super) fn rule(&self, task: Option<&Task>) -> Rule {
        match (self.plain(), task) {
            (Some(_), _) => Rule::Loop(self.policy.isolation),
            (None, Some(task)) => Rule::Task(task.commit),
            (None, None) => Rule::Task(CommitRule::Required),
        }
    }

    /// Returns a sender of process updates of an attempt to the loop.
    pub(super) fn news_of(&self, id: &AttemptId) -> impl Fn(ProcessNews) + Send + use<> {
        let (outbox, id) = (self.outbox.clone(), id.clone());
        move |news| drop(outbox.send(RunnerMessage::News(id.clone(), news)))
    }

    /// Returns the guardian's setup for a process of an attempt.
    pub(super) fn guarded(
        &self,
        spec: ProcessSpec,
        record: &AttemptRecord,
        is_agent: bool,
    ) -> GuardianSpec {
        let state = &self.workspace.state;
        let guard = GuardianSpec::new(spec, state.attempt(&record.name()));
        GuardianSpec { exit: is_agent.then(|| state.exit(&record.name())), ..guard }
    }
}

/// Returns the task of an attempt, with the acceptance criteria of its start.
pub(super) fn task_of(graph: &TaskGraph, record: &AttemptRecord) -> Option<Task> {
    let task = graph.task(graph.number(&record.task_id)?);
    Some(record.terms.as_ref().map_or_else(|| task.clone(), |terms| terms.applied(task)))
}

/// HEAD of the worktree at this path, if there is one.
pub(super) fn head_of(tree: &Path) -> Option<CommitId> {
    let repo = Repo::discover(tree).ok()?;
    // Without its own git directory, the folder belongs to the repository around it.
    repo.is_top(tree).then(|| repo.head().ok()?.commit)?
}

/// A fact for the journal.
pub(super) struct Fact {
    pub(super) task_id: Option<TaskId>,
    pub(super) iteration: Option<u32>,
    pub(super) event: Event,
}

/// An owner's actions and findings, in order, for the journal.
#[derive(Default)]
pub(super) struct Facts(Vec<Fact>);

impl Facts {
    /// Adds a fact about the run.
    pub(super) fn of_run(&mut self, event: impl Into<Event>) {
        self.0.push(Fact { task_id: None, iteration: None, event: event.into() });
    }

    /// Adds a fact about a task.
    pub(super) fn of_task(&mut self, id: &TaskId, iteration: Option<u32>, event: impl Into<Event>) {
        self.0.push(Fact { task_id: Some(id.clone()), iteration, event: event.into() });
    }

    /// Adds a fact about an attempt.
    pub(super) fn of_attempt(&mut self, record: &AttemptRecord, event: impl Into<Event>) {
        self.of_task(&record.task_id, Some(record.iteration), event);
    }

    /// Adds the response to a change of the graph by an attempt.
    pub(super) fn guarded(
        &mut self,
        record: &AttemptRecord,
        what: Harm,
        tasks: Vec<TaskId>,
        undone: bool,
        kept: Option<String>,
    ) {
        self.of_attempt(record, GraphEvent::GraphGuarded { what, tasks, undone, kept });
    }
}

impl IntoIterator for Facts {
    type Item = Fact;
    type IntoIter = std::vec::IntoIter<Fact>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
