//! Further prompts for an agent in its conversation: how many an attempt may have, the command line
//! for each, and the reset before it.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
};

use anyhow::{Context, Result};

use super::{
    attempts::{self, RunAttempts},
    context::{RunContext, task_of},
    graph_copy,
    process_spec::{self, ProcessKind},
    processes,
};
use crate::{
    adapters::process::ProcessSpec,
    core::{
        agents::{agent_command::AgentCommand, transcript},
        graph::TaskGraph,
        run::{
            command::{AttemptId, FollowUp, FollowUps, ProcessEnd},
            input::Input,
        },
        verdict::Outcome,
    },
    crash,
    project::{
        attempt::{self, AttemptRecord},
        graph_file::GraphFile,
    },
    regular_file,
};

/// Returns the further prompts that the agent of an attempt may get. Its conversation is on this machine,
/// and its output in a terminal does not name it.
pub(super) fn most(cx: &RunContext, graph: &TaskGraph, record: &AttemptRecord) -> FollowUps {
    let can = record.call.as_ref().is_some_and(AgentCommand::can_resume)
        && !record.terminal
        && processes::executor_of(cx, record).is_ok_and(|executor| executor.is_here());
    let task = task_of(graph, record);
    let limits = attempts::limits_of(cx, task.as_ref(), &ProcessKind::Agent(None));
    FollowUps::new(if can { cx.workspace.config.follow_ups } else { 0 }, limits.limit)
}

/// Returns the agent of an attempt with its command line for a process of this kind, and that process.
/// `left` is the cost that is left for the attempt.
pub(super) fn agent(
    cx: &RunContext,
    record: &AttemptRecord,
    kind: &ProcessKind,
    left: Option<f64>,
) -> Result<(AgentCommand, ProcessSpec)> {
    let call = record.call.clone().context("an attempt without an agent")?;
    let ProcessKind::Agent(Some(next)) = kind else {
        let call = AgentCommand { argv: call.argv_within(left), ..call };
        let spec = process_spec::agent(&cx.workspace, record, &call);
        return Ok((call, spec));
    };
    let left = left.map(|left| left - next.cost_usd.unwrap_or_default());
    let call = AgentCommand { argv: call.argv_within(left), ..call }.resumed(&next.conversation);
    let stdin = record.file(&cx.workspace, &attempt::follow_up_prompt(next.number));
    let spec = process_spec::agent(&cx.workspace, record, &call);
    Ok((call, ProcessSpec { stdin, ..spec }))
}

/// Prepares an attempt for another prompt. Returns the failure of that.
pub(super) fn prepare(
    cx: &RunContext,
    graph: &GraphFile,
    attempts: &mut RunAttempts,
    id: &AttemptId,
    next: &FollowUp,
) -> Option<Input> {
    let record = attempts.get_mut(id)?;
    crash::point("followup.told");
    let failed = put_back(cx, graph, record, next).err().map(|error| {
        let outcome = Some(Outcome::NotStarted { error: format!("{error:#}") });
        let end = ProcessEnd { outcome, took: next.took, ..ProcessEnd::default() };
        Input::ProcessEnded(id.clone(), Box::new(end))
    });
    crash::point("followup.prepared");
    failed
}

/// Withdraws the record of the agent's end, and writes its next prompt.
fn put_back(
    cx: &RunContext,
    graph: &GraphFile,
    record: &mut AttemptRecord,
    next: &FollowUp,
) -> Result<()> {
    let workspace = &cx.workspace;
    let tree = record.tree(workspace)?;
    if let Some(left) = record.left.take() {
        // Verify commands left the other changes.
        let others = attempt::changed(workspace, &tree)?.into_iter();
        record.dirty.extend(others.filter(|(path, _)| !left.contains(path)));
    }
    (record.end_head, record.refused) = (None, Some(next.why.clone()));
    if let (Some(_), Some(base)) = (&record.slot, &record.base) {
        graph_copy::write(workspace, &tree, base, graph.text())?;
    }
    record.withdraw_report(workspace)?;
    attempt::write_follow_up(workspace, record, next)?;
    // After a crash, it is not known how the agent ended.
    let exit = workspace.state.exit(&record.name());
    if exit.exists() {
        fs::remove_file(&exit).with_context(|| format!("remove `{}`", exit.display()))?;
    }
    record.write(workspace)?;
    let output = record.file(workspace, "stdout");
    let mut output = regular_file::open_with(&output, OpenOptions::new().append(true))?;
    writeln!(output, "\n{}", transcript::NEXT_PROCESS).context("write the output of the agent")
}
