//! The differences between a plain loop and a run over a graph: its prompt is a file, its agent's
//! report is trusted, and a file `DONE` ends it also between iterations.

use std::fs;

use anyhow::{Context, Result};

use super::Runner;
use crate::{
    core::{
        agents::{
            agent_command::AgentCommand,
            promise::{Promise, Worth},
        },
        event::PlainLoop,
        exit::{Exit, Failure},
        graph::task::{CommitRule, Status, Task},
        verdict::{Report, Rule},
    },
    project::attempt::{self, AttemptRecord, prompt_file},
    regular_file,
};

impl Runner {
    /// Returns the plain loop, if this run is one.
    pub(super) fn plain(&self) -> Option<&PlainLoop> {
        self.policy.plain.as_ref()
    }

    /// Returns the rule by which an attempt at a task is judged.
    pub(super) fn rule(&self, task: Option<&Task>) -> Rule {
        match (self.plain(), task) {
            (Some(_), _) => Rule::Loop(self.policy.isolation),
            (None, Some(task)) => Rule::Task(task.commit),
            (None, None) => Rule::Task(CommitRule::Required),
        }
    }

    /// Returns the prompt of the next attempt at a task with this agent.
    pub(super) fn prompt(&self, number: usize, call: Option<&AgentCommand>) -> Result<String> {
        let (workspace, graph) = (&self.workspace, self.graph.file.graph());
        let history = self.store.history();
        let Some(plain) = self.plain() else {
            let max_attempts = self.view(&[]).max_attempts(number);
            return attempt::render(
                workspace,
                graph,
                history,
                number,
                max_attempts,
                call,
                self.options.run_on.as_deref(),
            );
        };
        prompt_file::prompt(workspace, &plain.prompt_file, history.of(&plain.name))
    }

    /// Returns how the attempt reported its task done, if it did. `status` is the current status of
    /// the task in the graph file.
    pub(super) fn report(&self, record: &AttemptRecord, status: Option<Status>) -> Option<Report> {
        let active = self.store.history().active.of(&record.task_id);
        let by_command = active.is_some_and(|active| active.reported);
        let report = attempt::report(&self.workspace, record, by_command, status);
        let Some(plain) = self.plain().filter(|_| report.is_none()) else {
            return report;
        };
        let own = self.workspace.config.promise();
        let text = if own.worth == Worth::Off { String::new() } else { own.text };
        let promise = Promise { worth: Worth::Trust, text, pattern: own.pattern };
        let mut words = record.last_words(&self.workspace);
        let mut errors = record.last_errors(&self.workspace);
        // An agent that only repeats its prompt makes no promise.
        for prompt in [&record.file(&self.workspace, "prompt.md"), &plain.prompt_file] {
            let prompt = regular_file::read_to_string(prompt).unwrap_or_default();
            if promise.is_made(&prompt) {
                words = words.replace(prompt.trim(), "");
                errors = errors.replace(prompt.trim(), "");
            }
        }
        let by_pattern = Promise { text: String::new(), ..promise.clone() };
        promise.report(&words).or_else(|| by_pattern.report(&errors))
    }

    /// Whether the folder of the plain loop contains a file `DONE`.
    ///
    /// # Errors
    /// `DONE` is a folder.
    pub(super) fn done_file(&self) -> Result<bool> {
        let Some(PlainLoop { name, .. }) =
            self.plain().filter(|_| !self.run.attempts().any_process())
        else {
            return Ok(false);
        };
        let done = attempt::done_file(&self.workspace, name);
        if done.is_dir() {
            let shown = done.strip_prefix(self.workspace.root()).unwrap_or(&done).display();
            let why = format!(
                "`{shown}` is a folder; remove it, because a file of that name ends the loop"
            );
            return Err(Failure::new(Exit::Error, why).into());
        }
        Ok(done.is_file())
    }

    /// Removes the `DONE` file of an attempt that was judged, so that it is not the report of another
    /// attempt. The accepted one of a plain loop stays: it also keeps the loop from starting again.
    pub(super) fn remove_judged_done(&self, record: &AttemptRecord, believed: bool) -> Result<()> {
        let done = attempt::done_file(&self.workspace, &record.task_id);
        if believed && self.plain().is_some() {
            return match &record.slot {
                // The checkout is where the next loop looks for it.
                Some(_) if record.has_done_file(&self.workspace) && !done.exists() => {
                    fs::write(&done, "").with_context(|| format!("write `{}`", done.display()))
                }
                _ => Ok(()),
            };
        }
        if !done.is_file() {
            return Ok(());
        }
        fs::remove_file(&done).with_context(|| format!("remove `{}`", done.display()))
    }
}
