//! The way back to the sources of tasks (setting `write_back`): files have landed tasks as done, and
//! GitHub issues are closed.

use std::{collections::BTreeSet, fs, time::Instant};

use anyhow::{Context, Result};

use super::Runner;
use crate::{
    adapters::{
        agent_output, git,
        process::{self, GuardPost, ProcessSpec},
    },
    core::{
        event::{Event, SourceFailed, SourceUpdated},
        graph::task::{Status, TaskId},
        verdict::{Outcome, Verdict},
    },
    project::{
        fatal,
        graph_file::graph_of,
        import::{
            ImportRecord, existing,
            write_back::{ClosedIssues, DoneTasks, Issue, comment, files, mark_done},
        },
    },
    regular_file,
    view::message,
};

/// What a run has said about the sources of its tasks.
#[derive(Default)]
pub(super) struct RunSources {
    /// The failures, each of which is said once.
    failures: BTreeSet<(String, String)>,
}

/// What became of an issue.
enum IssueClosed {
    Done,
    /// The run is asked to stop.
    Stopped,
    Failed {
        why: String,
        /// Whether the next issue would fail in the same way, or wait as long.
        is_general: bool,
    },
}

impl Runner {
    /// Tells the sources of landed tasks that these are done, as far as the sources do not know. A
    /// failure is recorded, and the next run tries again.
    pub(super) fn write_back(&mut self) -> Result<()> {
        if !self.workspace.config.write_back || self.plain().is_some() {
            return Ok(());
        }
        let found = self.done_tasks().and_then(|done| {
            self.mark_in_files(&done)?;
            self.close_issues(&done)
        });
        match found {
            // The run is asked to stop; the next one makes up for this.
            Err(error) if error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>) => {
                Ok(())
            }
            found => found,
        }
    }

    /// Returns the tasks with a source whose work has landed on the branch that is checked out: they
    /// are complete in the graph file, and in the newest commit if git tracks that file.
    fn done_tasks(&self) -> Result<DoneTasks> {
        let head = self.workspace.repo.head()?;
        if self.slots.target().is_some_and(|target| head.branch.as_deref() != Some(target)) {
            return Ok(DoneTasks::new());
        }
        let committed = head.commit.map(|head| self.committed(&head)).transpose()?.flatten();
        let committed = committed.map(|text| graph_of(&text));
        let has_landed = |id: &TaskId| match &committed {
            None => true,
            Some(graph) => graph.as_ref().is_some_and(|graph| {
                let number = graph.number(id);
                number.is_some_and(|number| graph.task(number).status == Status::Complete)
            }),
        };
        let tasks = self.graph.file.graph().tasks().iter();
        let done = tasks.filter(|task| task.status == Status::Complete && has_landed(&task.id));
        Ok(done
            .filter_map(|task| {
                let source = task.extra.get("source")?.as_str()?;
                Some((source.to_owned(), task.id.clone()))
            })
            .collect())
    }

    fn mark_in_files(&mut self, done: &DoneTasks) -> Result<()> {
        let record = ImportRecord::read(&self.workspace);
        let existing = existing(Some(&self.graph.file), &record);
        for name in files(&self.workspace, done) {
            match mark_done(&self.workspace, &name, done, &existing) {
                Ok(None) => {}
                Ok(Some(updated)) => self.emit(None, Event::SourceUpdated(updated))?,
                Err(error)
                    if error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>) =>
                {
                    return Err(error);
                }
                Err(error) => self.source_failed(&name, fatal::summary(&error))?,
            }
        }
        Ok(())
    }

    /// Closes the issues of the tasks that an attempt has completed here. An issue that was closed
    /// once is left to people.
    fn close_issues(&mut self, done: &DoneTasks) -> Result<()> {
        let mut closed = ClosedIssues::read(&self.workspace);
        for (address, id) in done {
            let Some(issue) = Issue::of(address).filter(|_| !closed.has(address)) else { continue };
            let past = self.store.history().of(id);
            let last = past.last.as_ref().map(|last| &last.ended);
            let Some(ended) = last.filter(|ended| ended.verdict == Verdict::Complete) else {
                continue;
            };
            let command = issue.closing(&comment(ended, &past.commits));
            match self.close_issue(command)? {
                IssueClosed::Done => {
                    closed.add(&self.workspace, address)?;
                    let (source, tasks) = (address.clone(), vec![id.clone()]);
                    let updated = SourceUpdated { source, tasks, commit: None, uncommitted: None };
                    self.emit(None, Event::SourceUpdated(updated))?;
                }
                IssueClosed::Stopped => return Ok(()),
                IssueClosed::Failed { why, is_general } => {
                    self.source_failed(address, why)?;
                    if is_general {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs the command that closes an issue, with the limit of hooks.
    fn close_issue(&mut self, argv: Vec<String>) -> Result<IssueClosed> {
        if self.is_ended_now() || self.policy.stop.is_some() {
            return Ok(IssueClosed::Stopped);
        }
        let folder = self.workspace.place.hooks().to_owned();
        let whole = self.workspace.root().join(&folder);
        fs::create_dir_all(&whole).with_context(|| format!("create `{folder}`"))?;
        let (input, output) = (whole.join("close-issue.in"), whole.join("close-issue.log"));
        regular_file::write(&input, b"").with_context(|| format!("write `{}`", input.display()))?;
        // Remove the output about an earlier issue.
        let _ = fs::remove_file(&output);
        let config = &self.workspace.config;
        let limits = (config.hook_timeout, config.grace);
        let env = [("GH_PROMPT_DISABLED", "1"), ("GH_NO_UPDATE_NOTIFIER", "1")];
        let spec = ProcessSpec {
            argv,
            dir: self.workspace.root().to_owned(),
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            env_remove: message::inherited(),
            stdin: input.clone(),
            stdout: output.clone(),
            stderr: output.clone(),
        };
        let guardians = self.guardians.clone();
        let post = GuardPost::of_command(guardians, input, self.workspace.redacts());
        let mut ticked = Instant::now();
        let outcome = process::run_guarded(&spec, &post, limits, |agent| {
            Ok::<_, anyhow::Error>(
                self.attend_and_tick(agent, &mut ticked)? && !self.is_ended_now(),
            )
        })?;
        Ok(match outcome {
            Outcome::Exited { exit_code: 0 } => IssueClosed::Done,
            Outcome::Cancelled => IssueClosed::Stopped,
            outcome => {
                let is_general = !matches!(outcome, Outcome::Exited { .. });
                let said = agent_output::last_line(&output);
                let said = said.map_or(String::new(), |line| format!("; its last line: {line}"));
                IssueClosed::Failed { why: format!("`gh issue close` {outcome}{said}"), is_general }
            }
        })
    }

    /// Records that a source was not told, once.
    fn source_failed(&mut self, source: &str, why: String) -> Result<()> {
        if !self.sources.failures.insert((source.to_owned(), why.clone())) {
            return Ok(());
        }
        self.emit(None, Event::SourceFailed(SourceFailed { source: source.to_owned(), why }))
    }
}
