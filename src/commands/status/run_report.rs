//! Reads the report of a run, for `ralph status` and `ralph report`.

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};

use super::{last_beat, look, max_attempts, of_history};
use crate::{
    adapters::journal::JournalPosition,
    commands::{Invocation, inside::attempts_around, turn_to, with_view},
    core::{
        event::{Event, RequestEvent, RunEvent, record::Record},
        executor::shell_word,
        exit::{Exit, fail},
        graph::{TaskGraph, filter::Filter},
        history::{History, ReportedRuns},
        select::{Policy, View},
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
        run::{RunFacts, RunView, Standing},
        run_report::{Attention, ReportSource, RunReport},
        waits::{ElsewhereView, QueueView},
    },
};

/// Reads the report of the run of this number, counted back from the newest run, which is 1; without one,
/// of the runs since a person looked last.
///
/// # Errors
/// No repository, no such run; errors of the disk.
pub(in crate::commands) fn read_chosen(
    invocation: &Invocation,
    number: Option<u32>,
    now: DateTime<Utc>,
) -> Result<RunReport> {
    let mut workspace = invocation.watched()?;
    match number {
        Some(number) if number > 1 => earlier(&workspace, number as usize),
        number => newest(&mut workspace, number.is_some(), now),
    }
}

/// Does the same for a person, who then has looked at the end of the newest run unless it is live.
///
/// # Errors
/// Errors of [`read_chosen`].
pub(in crate::commands) fn read_for_person(
    invocation: &Invocation,
    number: Option<u32>,
    now: DateTime<Utc>,
) -> Result<RunReport> {
    let report = read_chosen(invocation, number, now)?;
    let run = &report.run;
    if number.is_none() && !run.goes_on() && !run.seen && run.plain.is_none() {
        // A journal that cannot be written is no reason to fail.
        let _ = note_look(invocation);
    }
    Ok(report)
}

fn note_look(invocation: &Invocation) -> Result<()> {
    let workspace = invocation.watched()?;
    let (mut store, live) = look(&workspace)?;
    if !live && !store.history().run.id.is_empty() && attempts_around(&workspace)?.is_empty() {
        store.emit(None, None, RequestEvent::Looked {})?;
    }
    Ok(())
}

fn newest(workspace: &mut Workspace, is_alone: bool, now: DateTime<Utc>) -> Result<RunReport> {
    let (store, live) = look(workspace)?;
    let mut alone = None;
    let mut history = store.history();
    if is_alone {
        let own: &mut History = alone.insert(history.clone());
        own.run.before = ReportedRuns::default();
        history = own;
    }
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

/// Reads an earlier run from the journal, as it stood when it ended.
fn read_earlier(workspace: &Workspace, number: usize) -> Result<History> {
    let each = |see: &mut dyn FnMut(&Record)| {
        let take = |record: Option<&Record>| record.into_iter().for_each(&mut *see);
        workspace.journal().read(&mut JournalPosition::default(), take)
    };
    // Each run with the place of its last record. Later actions of people are not part of it.
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
    let (mut history, mut at, mut begun) = (History::default(), 0, 0);
    each(&mut |record| {
        let is_over = begun > meant && history.run.finished.is_some();
        at += 1;
        begun += usize::from(matches!(record.event, Event::Run(RunEvent::LoopStarted(_))));
        // `ralph stop` ends a paused run.
        let ends_pause =
            matches!(record.event, Event::Request(RequestEvent::StopRequested(_))) && is_over;
        if begun <= meant || begun == meant + 1 && (at <= last && !is_over || ends_pause) {
            history.apply(record);
        }
    })?;
    history.run.before = ReportedRuns::default();
    history.paused = false;
    let end = history.run.end_as_past();
    history.run.finished = end;
    Ok(history)
}

/// Reads the report of an earlier run.
fn earlier(workspace: &Workspace, number: usize) -> Result<RunReport> {
    let history = read_earlier(workspace, number)?;
    let now = history.run.last_at.unwrap_or_default();
    let facts = RunFacts {
        name: workspace.place.name().cloned(),
        standing: Standing::of(&history, false),
        max_attempts: max_attempts(&history, workspace),
        scheduled: Some(false),
        ..RunFacts::default()
    };
    let mut run = RunView { missed_start: None, ..RunView::of(&history, facts, now) };
    if run.status == Standing::Crashed {
        run.why = Some("it exited unexpectedly, and another run followed".to_owned());
    }
    // A later run has ended the attempts that it left open.
    run.merge_queue = QueueView::default();
    for earlier in &mut run.earlier_runs {
        earlier.number += number - 1;
    }
    let outputs: FailureOutputs = FailureOutputReader::new(workspace).read(&history);
    let file: Option<GraphFile> = workspace.graph().ok().filter(|_| run.name.is_none());
    let graph = file.as_ref().map(GraphFile::graph);
    let source =
        ReportSource { history: &history, graph, view: None, outputs: &outputs, beat: None, now };
    let mut report = RunReport::of(run, &source);
    report.unknown.extend(report.run.name.is_none().then(|| {
        "the states of other tasks and the plan, since the journal has no copy of the graph; \
         titles are those of now"
            .to_owned()
    }));
    Ok(RunReport { number, ..report })
}
