//! The way back to the sources of tasks (setting `write_back`): files have landed tasks as done, and
//! GitHub issues are closed.

use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};

use super::context::{Facts, RunContext};
use crate::{
    adapters::{
        agent_output, git,
        process::{GuardianSpec, ProcessSpec},
    },
    core::{
        event::{SourceEvent, SourceFailed, SourceUpdated},
        graph::task::{Status, TaskId},
        history::History,
        verdict::{Outcome, Verdict},
    },
    project::{
        fatal,
        graph_file::{GraphFile, graph_of},
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

/// A command that closes an issue, with the limit of hooks.
pub(super) struct IssueClosing {
    address: String,
    id: TaskId,
    pub(super) spec: GuardianSpec,
    pub(super) limits: (Duration, Duration),
    output: PathBuf,
}

impl RunSources {
    /// Tells the files of landed tasks that these are done, as far as they do not know. Returns the done
    /// tasks. A failure is reported, and the next run tries again.
    pub(super) fn mark_in_files(
        &mut self,
        cx: &RunContext,
        graph: &GraphFile,
        facts: &mut Facts,
    ) -> Result<DoneTasks> {
        if !cx.workspace.config.write_back || cx.plain().is_some() {
            return Ok(DoneTasks::new());
        }
        let done = done_tasks(cx, graph)?;
        let record = ImportRecord::read(&cx.workspace);
        let existing = existing(Some(graph), &record);
        for name in files(&cx.workspace, &done) {
            match mark_done(&cx.workspace, &name, &done, &existing) {
                Ok(None) => {}
                Ok(Some(updated)) => facts.of_run(SourceEvent::SourceUpdated(updated)),
                Err(error) if is_stop(&error) => return Err(error),
                Err(error) => self.failed(&name, fatal::summary(&error), facts),
            }
        }
        Ok(done)
    }

    /// Handles the end of a command that closes an issue. Returns whether the next one may run: it
    /// would fail in the same way, or wait as long, if the program or the network is missing.
    pub(super) fn closed(
        &mut self,
        cx: &RunContext,
        IssueClosing { address, id, output, .. }: IssueClosing,
        outcome: &Outcome,
        facts: &mut Facts,
    ) -> Result<bool> {
        Ok(match outcome {
            Outcome::Exited { exit_code: 0 } => {
                ClosedIssues::read(&cx.workspace).add(&cx.workspace, &address)?;
                let (source, tasks) = (address, vec![id]);
                let updated = SourceUpdated { source, tasks, commit: None, uncommitted: None };
                facts.of_run(SourceEvent::SourceUpdated(updated));
                true
            }
            Outcome::Cancelled => false,
            outcome => {
                let said = agent_output::last_line(&output);
                let said = said.map_or(String::new(), |line| format!("; its last line: {line}"));
                self.failed(&address, format!("`gh issue close` {outcome}{said}"), facts);
                matches!(outcome, Outcome::Exited { .. })
            }
        })
    }

    /// Reports that a source was not told, once.
    fn failed(&mut self, source: &str, why: String, facts: &mut Facts) {
        if self.failures.insert((source.to_owned(), why.clone())) {
            facts
                .of_run(SourceEvent::SourceFailed(SourceFailed { source: source.to_owned(), why }));
        }
    }
}

/// Whether an error is that a request to stop the run ended a git command.
pub(super) fn is_stop(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>)
}

/// Returns the tasks with a source whose work has landed on the branch that is checked out: they
/// are complete in the graph file, and in the newest commit if git tracks that file.
fn done_tasks(cx: &RunContext, graph: &GraphFile) -> Result<DoneTasks> {
    let head = cx.workspace.repo.head()?;
    if cx.target.is_some() && cx.target != head.branch {
        return Ok(DoneTasks::new());
    }
    let text = head.commit.map(|head| cx.workspace.committed_text(&head)).transpose()?.flatten();
    let there = text.map(|text| graph_of(text.as_bytes()));
    let has_landed = |id: &TaskId| match &there {
        None => true,
        Some(graph) => {
            graph.as_ref().is_some_and(|graph| graph.status_of(id) == Some(Status::Complete))
        }
    };
    let tasks = graph.graph().tasks().iter();
    let done = tasks.filter(|task| task.status == Status::Complete && has_landed(&task.id));
    Ok(done
        .filter_map(|task| {
            let source = task.extra.get("source")?.as_str()?;
            Some((source.to_owned(), task.id.clone()))
        })
        .collect())
}

/// Returns the commands that close the issues of the tasks that an attempt has completed here. An
/// issue that was closed once is left to people.
pub(super) fn closings(
    cx: &RunContext,
    history: &History,
    done: &DoneTasks,
) -> Result<Vec<IssueClosing>> {
    let closed = ClosedIssues::read(&cx.workspace);
    let mut closings = Vec::new();
    for (address, id) in done {
        let Some(issue) = Issue::of(address).filter(|_| !closed.has(address)) else { continue };
        let past = history.of(id);
        let last = past.last.as_ref().map(|last| &last.ended);
        let Some(ended) = last.filter(|ended| ended.verdict == Verdict::Complete) else {
            continue;
        };
        let command = issue.closing(&comment(ended, &past.commits));
        closings.push(closing(cx, address, id, command)?);
    }
    Ok(closings)
}

fn closing(cx: &RunContext, address: &str, id: &TaskId, argv: Vec<String>) -> Result<IssueClosing> {
    let (workspace, folder) = (&cx.workspace, cx.workspace.place.hooks().to_owned());
    let whole = workspace.root().join(&folder);
    let (input, output) = (whole.join("close-issue.in"), whole.join("close-issue.log"));
    regular_file::write(&input, b"").with_context(|| format!("write `{}`", input.display()))?;
    let env = [("GH_PROMPT_DISABLED", "1"), ("GH_NO_UPDATE_NOTIFIER", "1")];
    let spec = ProcessSpec {
        argv,
        dir: workspace.root().to_owned(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        env_remove: message::inherited(),
        stdin: input.clone(),
        stdout: output.clone(),
        stderr: output.clone(),
    };
    let spec = GuardianSpec::new(spec, input, workspace.config.redact);
    let limits = (workspace.config.hook_timeout, workspace.config.grace);
    Ok(IssueClosing { address: address.to_owned(), id: id.clone(), spec, limits, output })
}

impl IssueClosing {
    /// Removes the output about an earlier issue.
    pub(super) fn begin(&self) {
        let _ = fs::remove_file(&self.output);
    }
}
