//! Where a plain loop differs from a run over a graph: its prompt is a file, its agent is taken at
//! its word, and a file `DONE` ends it between iterations too.

use std::fs;

use anyhow::{Context, Result};

use super::Runner;
use crate::{
    core::{
        agents::promise::{Promise, Worth},
        event::PlainLoop,
        exit::{Exit, Failure},
        graph::task::{CommitRule, Status, Task},
        verdict::{Report, Rule},
    },
    project::attempt::{self, AttemptRecord, prompt_file},
};

impl Runner {
    /// What makes this a plain loop, if it is one.
    pub(super) fn plain(&self) -> Option<&PlainLoop> {
        self.policy.plain.as_ref()
    }

    /// What an attempt at a task is held to.
    pub(super) fn rule(&self, task: Option<&Task>) -> Rule {
        match (self.plain(), task) {
            (Some(_), _) => Rule::Loop,
            (None, Some(task)) => Rule::Task(task.commit),
            (None, None) => Rule::Task(CommitRule::Required),
        }
    }

    /// The prompt of the next attempt at a task.
    pub(super) fn prompt(&self, number: usize) -> Result<String> {
        let (workspace, graph) = (&self.workspace, self.graph.file.graph());
        let history = self.store.history();
        let Some(plain) = self.plain() else {
            let max_attempts = self.view(&[]).max_attempts(number);
            return attempt::render(workspace, graph, history, number, max_attempts);
        };
        prompt_file::prompt(workspace, &plain.prompt_file, history.of(&plain.name))
    }

    /// How the attempt said that it is done, if it did. `status` is what the graph file says of its
    /// task now.
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
        // An agent that shows its prompt promises nothing.
        for prompt in [&record.file(&self.workspace, "prompt.md"), &plain.prompt_file] {
            let prompt = fs::read_to_string(prompt).unwrap_or_default();
            if promise.is_made(&prompt) {
                words = words.replace(prompt.trim(), "");
            }
        }
        promise.report(&words)
    }

    /// Whether the file `DONE` lies in the folder of the loop, if this is one.
    ///
    /// # Errors
    /// A folder of that name.
    pub(super) fn done_file(&self) -> Result<bool> {
        let Some(PlainLoop { name, .. }) =
            self.plain().filter(|_| !self.run.attempts().any_process())
        else {
            return Ok(false);
        };
        let done = attempt::done_file(&self.workspace, name);
        if done.is_dir() {
            let shown = done.strip_prefix(self.workspace.root()).unwrap_or(&done).display();
            let why = format!("`{shown}` is a folder; remove it: a file of that name says done");
            return Err(Failure::new(Exit::Error, why).into());
        }
        Ok(done.is_file())
    }

    /// Takes back a `DONE` that was judged and did not hold: it must not end the loop after all.
    pub(super) fn take_back_done(&self, record: &AttemptRecord) -> Result<()> {
        if self.plain().is_none() {
            return Ok(());
        }
        let done = attempt::done_file(&self.workspace, &record.task_id);
        if !done.is_file() {
            return Ok(());
        }
        fs::remove_file(&done).with_context(|| format!("remove `{}`", done.display()))
    }
}
