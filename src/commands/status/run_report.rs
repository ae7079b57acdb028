//! Reads the report of a run, for `ralph status` and `ralph report`.

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};

use super::{last_beat, look, max_attempts, of_history, open_attempts};
use crate::{
    adapters::journal::JournalPosition,
    commands::{Invocation, turn_to, with_view},
    core::{
        event::{AttemptResult, Event, RequestEvent, RunEvent, record::Record},
        executor::shell_word,
        exit::{Exit, fail},
        graph::{TaskGraph, filter::Filter, task::TaskId},
        history::History,
        select::{Policy, View},
        verdict::Verdict,
    },
    project::{
        failure_output::{FailureOutputReader, FailureOutputs},
        graph_file::GraphFile,
        landed_work,
        workspace::{
            Workspace, checkout_graph, landed_elsewhere, landing_branch, policy_for, view,
        },
    },
    view::{
        lines::counted,
        run::PastRunView,
        run::{RunFacts, RunView, Standing},
        run_report::{Attention, ReportSource, RunReport},
        waits::{ElsewhereView, QueueView},
    },
};

/// Reads the report of the run of this number; without one, of the newest run that had something to
/// do, with the runs after it.
///
/// # Errors
/// No repository, no such run; errors of the disk.
pub(in crate::commands) fn read_chosen(
    invocation: &Invocation,
    number: Option<u32>,
    now: DateTime<Utc>,
) -> Result<RunReport> {
    if let Some(number) = number {
        return read_report(invocation, number as usize, now);
    }
    let mut workspace = invocation.watched()?;
    let newest = newest(&mut workspace, now)?;
    let had_work = |run: &&PastRunView| run.attempts > 0;
    let Some(number) = newest.run.earlier_runs.iter().find(had_work).map(|run| run.number) else {
        return Ok(newest);
    };
    if !newest.run.had_nothing_to_do() {
        return Ok(newest);
    }
    // The journal may not go back so far.
    let Ok(report) = earlier(&workspace, number) else { return Ok(newest) };
    let mut newer_runs = vec![newest.run.as_past()];
    newer_runs.extend(newest.run.earlier_runs.into_iter().filter(|run| run.number < number));
    let run = RunView { loops: newest.run.loops, ..report.run };
    let report = RunReport {
        run,
        newer_runs,
        headline: newest.headline,
        attention: newest.attention,
        upcoming: newest.upcoming,
        forecast: newest.forecast,
        left: newest.left,
        remaining: newest.remaining,
        next: newest.next,
        unknown: [report.unknown, newest.unknown].concat(),
        ..report
    };
    Ok(report.with_attention(Vec::new()))
}

/// Reads the report of a run by its number, counted back from the newest run, which is 1.
///
/// # Errors
/// No repository, no such run; errors of the disk.
pub(in crate::commands) fn read_report(
    invocation: &Invocation,
    number: usize,
    now: DateTime<Utc>,
) -> Result<RunReport> {
    let mut workspace = invocation.watched()?;
    if number > 1 { earlier(&workspace, number) } else { newest(&mut workspace, now) }
}

fn newest(workspace: &mut Workspace, now: DateTime<Utc>) -> Result<RunReport> {
    let (store, live) = look(workspace)?;
    let history = store.history();
    let run = of_history(workspace, history, live, now)?;
    // Of a run with other flags, the states of tasks depend on these.
    let _ = workspace.set_flags(history.run.begun.flags.clone());
    // A person may have switched to another branch since.
    let other = turn_to(workspace, history.run.begun.branch.clone())?;
    let outputs = FailureOutputReader::new(workspace).read(history);
    let beat = last_beat(workspace).and_then(|age| TimeDelta::from_std(age).ok());
    let kept = workspace.kept_graph().filter(|_| run.name.is_none());
    let source = ReportSource {
        history,
        graph: kept.as_ref().map(GraphFile::graph),
        view: None,
        outputs: &outputs,
        beat: beat.map(|age| now - age),
        now,
    };
    if run.name.is_some() {
        return Ok(RunReport::of(run, &source));
    }
    let filter = Filter::of_words(&history.run.begun.filter);
    let Ok(file) = workspace.graph() else {
        return Ok(without_graph(RunReport::of(run, &source), workspace));
    };
    let policy = Policy { filter, ..workspace.policy() };
    let policy = policy_for(workspace, policy, file.graph(), history)?;
    let mut report = with_view(workspace, &file, history, &policy, |view: &View<'_>| {
        RunReport::of(run, &ReportSource { graph: Some(view.graph), view: Some(*view), ..source })
    })?;
    report = report.with_attention(reverted(workspace, history, file.graph())?);
    if let Some(branch) = other {
        report.next.push(format!(
            "this is about `{branch}`, where the run lands; `git switch {}` brings your checkout there",
            shell_word(&branch)
        ));
    } else if !live && workspace.config.onto.is_some() {
        report.next.extend(not_merged(workspace, history)?);
    }
    Ok(report)
}

/// The complete tasks whose work a later commit reverts.
fn reverted(workspace: &Workspace, history: &History, graph: &TaskGraph) -> Result<Vec<Attention>> {
    let Some(branch) = landing_branch(workspace)? else { return Ok(Vec::new()) };
    let found = landed_work::reverted(&workspace.repo, &branch, history, graph)?;
    Ok(found.iter().map(|(id, by)| Attention::reverted(id, by)).collect())
}

/// Says which tasks landed on another branch than that of the checkout, which does not have them.
fn not_merged(workspace: &Workspace, history: &History) -> Result<Vec<String>> {
    let Ok(file) = checkout_graph(workspace) else { return Ok(Vec::new()) };
    let here = workspace.repo.head()?.branch;
    let elsewhere = landed_elsewhere(workspace, file.graph(), history, here.as_deref())?;
    let policy = Policy { elsewhere, ..workspace.policy() };
    let all = ElsewhereView::all(&view(&file, history, &policy));
    Ok(all.iter().map(ElsewhereView::merging).collect())
}

fn without_graph(mut report: RunReport, workspace: &Workspace) -> RunReport {
    let name = workspace.graph_name();
    let why = if workspace.root().join(&name).exists() {
        format!("`{name}` cannot be read; `ralph check` says why")
    } else if report.run.loops.is_empty() {
        format!("there is no `{name}`; `ralph init` writes one")
    } else {
        return report;
    };
    report.unknown.push(format!("the states of the tasks, since {why}"));
    report
}

/// An earlier run, read from the journal.
struct EarlierRun {
    /// The history at the end of the run.
    history: History,
    /// The ends of the attempts that it left open: each with its task and the time.
    closed_later: Vec<(TaskId, AttemptResult, DateTime<Utc>)>,
}

/// Reads an earlier run from the journal, as it stood when it ended. What later runs made of the
/// attempts that it left open is known, too, and what became of its work.
fn read_earlier(workspace: &Workspace, number: usize) -> Result<EarlierRun> {
    let each = |see: &mut dyn FnMut(&Record)| {
        let take = |record: Option<&Record>| record.into_iter().for_each(&mut *see);
        workspace.journal().read(&mut JournalPosition::default(), take)
    };
    // Each run with the place of its last record. What people did after that is not part of it.
    let (mut runs, mut at): (Vec<(String, usize)>, usize) = (Vec::new(), 0);
    each(&mut |record| {
        at += 1;
        if matches!(record.event, Event::Run(RunEvent::LoopStarted(_))) {
            runs.push((record.run_id.clone(), at));
        } else if let Some((_, last)) = runs.last_mut().filter(|(run, _)| *run == record.run_id) {
            *last = at;
        }
    })?;
    let Some(meant) = runs.len().checked_sub(number) else {
        return fail(
            Exit::Usage,
            format!("no run {number}; the journal has {}", counted(runs.len(), "run")),
        );
    };
    let last = runs[meant].1;
    let (mut history, mut closed_later) = (History::default(), Vec::new());
    let (mut at, mut begun) = (0, 0);
    each(&mut |record| {
        let is_over = begun > meant && history.run.finished.is_some();
        at += 1;
        begun += usize::from(matches!(record.event, Event::Run(RunEvent::LoopStarted(_))));
        // `ralph stop` ends a paused run.
        let ends_pause =
            matches!(record.event, Event::Request(RequestEvent::StopRequested(_))) && is_over;
        if begun <= meant || begun == meant + 1 && (at <= last && !is_over || ends_pause) {
            history.apply(record);
            return;
        }
        history.apply_to_landed(record);
        if let (Some(id), Some(ended)) = (&record.task_id, record.event.ended())
            && history.active.of(id).is_some_and(|open| open.attempt == ended.attempt)
        {
            closed_later.push((id.clone(), ended.clone(), record.timestamp));
        }
    })?;
    history.paused = false;
    let end = history.run.end_as_past();
    history.run.finished = end;
    Ok(EarlierRun { history, closed_later })
}

/// Reads the report of an earlier run.
fn earlier(workspace: &Workspace, number: usize) -> Result<RunReport> {
    let EarlierRun { history, closed_later } = read_earlier(workspace, number)?;
    let now = history.run.last_at.unwrap_or_default();
    let is_closed = |id: &TaskId| closed_later.iter().any(|(closed, ..)| closed == id);
    let mut attempts = open_attempts(workspace, &history, now);
    attempts.retain(|open| !is_closed(&open.task_id));
    let facts = RunFacts {
        name: workspace.place.name().cloned(),
        standing: Standing::of(&history, false),
        max_attempts: max_attempts(&history, workspace),
        attempts,
        scheduled: Some(false),
        ..RunFacts::default()
    };
    let mut run = RunView { missed_start: None, ..RunView::of(&history, facts, now) };
    if run.status == Standing::Crashed {
        run.why = Some("it exited unexpectedly, and another run followed".to_owned());
    }
    run.merge_queue.waiting.retain(|id| !is_closed(id));
    if run.merge_queue.waiting.is_empty() {
        run.merge_queue = QueueView::default();
    }
    for earlier in &mut run.earlier_runs {
        earlier.number += number - 1;
    }
    let outputs: FailureOutputs = FailureOutputReader::new(workspace).read(&history);
    let file: Option<GraphFile> = workspace.graph().ok().filter(|_| run.name.is_none());
    let graph = file.as_ref().map(GraphFile::graph);
    let source =
        ReportSource { history: &history, graph, view: None, outputs: &outputs, beat: None, now };
    let mut report = RunReport::of(run, &source);
    let is_graph = report.run.name.is_none();
    if is_graph {
        let failed = closed_later.iter().filter(|(_, ended, _)| ended.verdict != Verdict::Complete);
        report.failed.extend(failed.map(|(id, ended, at)| source.failed_task(id, ended, *at)));
    }
    report.unknown.extend(is_graph.then(|| {
        "the states of other tasks and the plan, since the journal has no copy of the graph; \
         titles are those of now"
            .to_owned()
    }));
    Ok(RunReport { number, ..report })
}
