//! Diagnoses of tasks that ran out of attempts, by another agent: its prompt, and the changes that follow
//! from its answer. It can add tasks before its own and choose another agent for it, and nothing else.

use std::fs;

use anyhow::{Context, Result, anyhow, ensure};
use chrono::Utc;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    RunCore, Runner, attempts,
    checkout_graph::commit_graph,
    context::{Facts, RunContext},
    graph::{cause_of_edits, note},
    graph_copy::{adopted_status, marked},
    side_agent::{self, EndedAgent, SideAgent, SideAim, SideAnswer},
};
use crate::{
    adapters::state,
    core::{
        agents::{agent_command::AgentCommand, transcript::Usage},
        diagnosis::{Diagnosis, DiagnosisAnswer, MOST_TASKS, Remedy},
        duration,
        event::{AttemptEvent, Cause, DiagnosisEnd},
        graph::{
            drafted::{DraftAim, DraftRefusal, drafted},
            task::{Status, TaskId},
            task_edit::set_fields_of,
        },
        history::attempt_log::{AttemptEntry, LogDetail},
        isolation::AgentTasks,
        outcome::Outcome,
        reviewer::ReviewFinding,
        run::command::AttemptId,
        select::TaskState,
    },
    project::{
        attempt::{self, AttemptPlace, AttemptRecord},
        follower::BUSY,
        graph_file::{GraphFile, Write},
        workspace::Workspace,
    },
    regular_file,
};

/// The file in the state folder with a diagnosis whose change of the graph is about to be made.
const INTENT: &str = "diagnosis.json";
/// How many attempts the prompt has.
const ATTEMPTS: usize = 8;

/// A diagnosis whose change of the graph is about to be made.
#[derive(Debug, Serialize, Deserialize)]
struct DiagnosisIntent {
    task_id: TaskId,
    iteration: u32,
    end: DiagnosisEnd,
}

/// Begins the diagnosis of the task of an attempt, if the run has money for it.
pub(super) fn begin(runner: &mut Runner, id: &AttemptId) -> Result<()> {
    let Some(record) = runner.attempts.get(id).cloned() else { return Ok(()) };
    let (workspace, given) = (&runner.core.cx.workspace, &runner.core.cx.workspace.config);
    let budget = given.diagnose_cost;
    let left = attempts::run_cost_left(&runner.core.cx, runner.core.journal.history());
    let budget = left.map_or(budget, |left| left.min(budget));
    if budget <= 0.0 {
        return Ok(());
    }
    let given = given.diagnose_by.as_ref().and_then(|agents| agents.calls.first());
    let call = side_agent::other_than_author(workspace, record.call.as_ref(), given);
    let (by, log) = (call.name.clone(), format!("{}/diagnosis", record.log));
    let about = Some((&id.task_id, record.iteration));
    // Before anything is paid, so that a run after this one does not pay again.
    let beginning = AttemptEvent::Diagnosing { attempt: id.attempt, by: by.clone(), log };
    runner.core.emit(about, beginning)?;
    if let Err(error) = start(runner, &record, call, budget) {
        let diagnosis = Diagnosis::failed(&by, format!("{error:#}"));
        let end = DiagnosisEnd {
            attempt: id.attempt,
            outcome: Outcome::NotStarted { error: format!("{error:#}") },
            diagnosis,
            duration_seconds: 0.0,
            usage: Usage { cost_usd: Some(0.0), ..Usage::default() },
        };
        runner.core.emit(about, AttemptEvent::Diagnosed(end))?;
    }
    Ok(())
}

/// Writes the prompt, and prepares the slot of the agent.
fn start(
    runner: &mut Runner,
    record: &AttemptRecord,
    call: AgentCommand,
    budget: f64,
) -> Result<()> {
    let (core, agents, pool) = (&runner.core, &mut runner.side_agents, &runner.slots.pool);
    let cx = &core.cx;
    let branch = cx.target.as_deref().context("attempts work in the checkout")?;
    let tip = cx.workspace.repo.landings().tip(branch)?.context("the branch has no commit")?;
    let settings = runner.slots.settings(&cx.workspace)?;
    let own = agents.record_of(cx, (record, call), (pool, "diagnosis"))?;
    write_prompt(core, &own.1, (record, budget))?;
    let aim = (SideAim::Diagnosis, Some(budget));
    agents.start(cx, own, aim, (pool, settings, tip.commit), |_| Ok(None));
    Ok(())
}

/// Writes the prompt of the agent, without secret values.
fn write_prompt(
    core: &RunCore,
    own: &AttemptRecord,
    (record, budget): (&AttemptRecord, f64),
) -> Result<()> {
    let (cx, graph, history) = (&core.cx, core.graph.file.graph(), core.journal.history());
    let workspace = &cx.workspace;
    let number = graph.number(&own.task_id).context("its task is no longer in the graph")?;
    let place = AttemptPlace { run_on: own.run_on.as_deref(), ..AttemptPlace::default() };
    let mut context =
        attempt::context(workspace, graph, history, number, 1, own.call.as_ref(), place)?;
    let log = workspace.attempt_log(LogDetail::Results)?;
    let all: Vec<_> = log.of(Some(&own.task_id)).filter_map(described).collect();
    context["diagnosis"] = json!({
        "attempts": all[all.len().saturating_sub(ATTEMPTS)..],
        "agents": others(cx, record),
        "cost": format!("{budget:.2}"),
        "most": MOST_TASKS,
    });
    let text = attempt::rendered(workspace, "diagnose.md", &context)?;
    attempt::write_prompt(workspace, own, "prompt.md", &text)
}

/// An ended attempt as the prompt has it.
fn described(entry: &AttemptEntry) -> Option<serde_json::Value> {
    let (_, result) = entry.ended.as_ref()?;
    let evidence = &result.evidence;
    let findings = evidence.review.iter().flat_map(|review| &review.findings);
    Some(json!({
        "number": entry.attempt,
        "agent": result.agent,
        "verdict": result.verdict,
        "why": result.why,
        "last_line": result.last_line,
        "check": evidence.red().map(ToString::to_string),
        "findings": findings.map(ReviewFinding::line).collect::<Vec<_>>(),
        "log": entry.log,
    }))
}

/// The agents that a task can be given to whose last attempt this was.
fn others(cx: &RunContext, record: &AttemptRecord) -> Vec<String> {
    let author = record.call.as_ref().map(|call| call.name.as_str());
    let is_here = |name: &str| {
        let written = AgentCommand::read(&json!(name)).unwrap_or_default();
        let found = cx.policy.roster.resolve(&written);
        found.iter().all(|call| side_agent::is_installed(&cx.workspace, call))
    };
    let names = cx.policy.names_of_agents().into_iter();
    names.filter(|name| Some(*name) != author && is_here(name)).map(str::to_owned).collect()
}

/// Does what an agent that has ended says, and journals that.
pub(super) fn ended(runner: &mut Runner, ended: EndedAgent) -> Result<()> {
    let EndedAgent { agent: SideAgent { id, record, .. }, took, answer } = ended;
    let SideAnswer { outcome, usage, words, .. } = answer;
    let by = record.call.as_ref().map_or("", |call| call.name.as_str());
    let answer = if runner.side_agents.is_stopped() {
        Err(ENDED_BEFORE.to_owned())
    } else {
        words.and_then(|words| {
            DiagnosisAnswer::read(&words).map_err(|why| format!("{why} ({outcome})"))
        })
    };
    let end = |remedy| DiagnosisEnd {
        attempt: id.attempt,
        outcome: outcome.clone(),
        diagnosis: Diagnosis { by: by.to_owned(), remedy },
        duration_seconds: duration::seconds(took),
        usage: usage.clone(),
    };
    let about = (&id.task_id, record.iteration);
    let edited = answer.and_then(|answer| edit_of(runner, &record, answer));
    let remedy = match edited {
        Ok(GraphRemedy { remedy, edit: None }) => remedy,
        Ok(GraphRemedy { remedy, edit: Some(edit) }) => {
            let (task_id, iteration) = (id.task_id.clone(), record.iteration);
            let intent = DiagnosisIntent { task_id, iteration, end: end(remedy.clone()) };
            let path = runner.core.cx.workspace.state.dir().join(INTENT);
            state::replace(&path, &serde_json::to_vec(&intent)?, true)
                .context("note the diagnosis")?;
            match change(runner, &id.task_id, &remedy, &edit) {
                Ok(()) => remedy,
                Err(error) => Remedy::Failed { why: format!("{error:#}") },
            }
        }
        Err(why) => Remedy::Failed { why },
    };
    let status = match &remedy {
        remedy if remedy.mends() => Some((Status::Pending, Cause::Released)),
        Remedy::Asked { .. } => Some((Status::NeedsInput, Cause::Asked)),
        _ => None,
    };
    runner.core.emit(Some(about), AttemptEvent::Diagnosed(end(remedy)))?;
    let _ = fs::remove_file(runner.core.cx.workspace.state.dir().join(INTENT));
    // Where the run only reads the file, the history has it.
    if let Some((status, cause)) = status.filter(|_| !runner.core.graph.is_read_only()) {
        runner.set(about, Write::Plain(status), cause)?;
    }
    runner.refresh()
}

/// Why a diagnosis that was cut off is none.
const ENDED_BEFORE: &str = "the run ended before";

/// What is done about a task, and how the graph changes for it.
struct GraphRemedy {
    remedy: Remedy,
    edit: Option<GraphEdit>,
}

/// A change of the text of the graph.
type GraphEdit = Box<dyn Fn(&str) -> Result<String>>;

/// Returns what an answer changes.
///
/// # Errors
/// It does not fit the graph or the settings, or the task has changed: the reason.
fn edit_of(
    runner: &Runner,
    record: &AttemptRecord,
    answer: DiagnosisAnswer,
) -> Result<GraphRemedy, String> {
    let (core, id) = (&runner.core, record.task_id.clone());
    let graph = core.graph.file.graph();
    let number = graph.number(&id).ok_or("its task is no longer in the graph")?;
    let state = core.with_view(|view| view.state(number, Utc::now()));
    if !matches!(state, TaskState::Parked(_)) {
        return Err("the task is not parked any more".to_owned());
    }
    if let DiagnosisAnswer::Agent { agent, .. } = &answer {
        let last = core.journal.history().of(&id).last.as_ref();
        let last = last.and_then(|last| last.ended.agent.as_deref());
        let is_known = core.cx.policy.names_of_agents().contains(&agent.as_str());
        if !is_known || last == Some(agent) {
            return Err(format!("`{agent}` is no other agent of the settings"));
        }
        let fields = vec![("agent".to_owned(), Some(json!(agent))), ("escalate".to_owned(), None)];
        let change = [(id, fields)];
        let edit =
            move |text: &str| set_fields_of(text, &change).map_err(|why| anyhow!("{}", why.reason));
        return Ok(GraphRemedy { remedy: answer.remedy(Vec::new()), edit: Some(Box::new(edit)) });
    }
    let Some(draft) = answer.draft() else {
        return Ok(GraphRemedy { remedy: answer.remedy(Vec::new()), edit: None });
    };
    let mut used = core.journal.history().used_ids();
    used.extend(graph.tasks().iter().map(|task| task.id.clone()));
    let asks = core.cx.workspace.config.agent_tasks == AgentTasks::Ask;
    let (aim, of) = (DraftAim::Before(id.clone()), id);
    let add = move |text: &str| {
        let drafted = drafted(&draft, Some(text), &aim, &used).map_err(refusal)?;
        let status = adopted_status(Status::Pending, asks);
        let new: Vec<_> = drafted.ids.iter().map(|id| (id.clone(), status)).collect();
        Ok((marked(drafted.text, &of, &new)?, drafted.ids))
    };
    let (_, added) = add(core.graph.file.text()).map_err(|why| format!("{why:#}"))?;
    let edit = move |text: &str| add(text).map(|(text, _)| text);
    Ok(GraphRemedy { remedy: answer.remedy(added), edit: Some(Box::new(edit)) })
}

/// Why tasks do not fit into the graph.
fn refusal(why: DraftRefusal) -> anyhow::Error {
    match why {
        DraftRefusal::Unfit { faults, .. } => {
            let faults: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
            anyhow!("{}", faults.join("; "))
        }
        DraftRefusal::Layout(why) => anyhow!("{}", why.reason),
    }
}

/// Changes the graph: on the tip of the branch, or in its file if git does not track it.
fn change(runner: &mut Runner, id: &TaskId, remedy: &Remedy, edit: &GraphEdit) -> Result<()> {
    let core = &mut runner.core;
    let Some(branch) = core.cx.target.clone().filter(|_| core.graph.is_read_only()) else {
        let workspace = &core.cx.workspace;
        let change = |file: &GraphFile| edit(file.text()).map(Some);
        let edited = core.graph.file.edit_text(&workspace.state, change)?;
        let mut facts = Facts::default();
        let cause = cause_of_edits(&core.run);
        let changed = [edited.foreign, edited.own.unwrap_or_default()].concat();
        note(core.graph.file.graph(), changed, cause, &mut facts);
        return core.tell(facts);
    };
    let workspace = &core.cx.workspace;
    let title = if let Remedy::Agent { agent, .. } = remedy {
        format!("Give {id} to {agent}")
    } else {
        let names: Vec<&str> = remedy.added().iter().map(TaskId::as_str).collect();
        format!("Add before {id}: {}", names.join(", "))
    };
    // A person may commit at the same moment.
    let has_changed = (0..3).try_fold(false, |is_done, _| {
        if is_done { Ok(true) } else { commit(workspace, (&branch, &title), edit) }
    })?;
    ensure!(has_changed, "`{branch}` moves");
    runner.landing.follow(&mut runner.core, BUSY)
}

/// Commits a change of the graph on the tip of a branch. Returns whether the tip has it.
fn commit(workspace: &Workspace, (branch, title): (&str, &str), edit: &GraphEdit) -> Result<bool> {
    let mut failed = None;
    let change = |landed: &str| edit(landed).map_err(|error| failed = Some(error)).ok();
    let has_landed = commit_graph(workspace, branch, change, title)?;
    failed.map_or(Ok(has_landed), Err)
}

/// Closes the diagnoses that an earlier run left open: what it did to the graph stays, and nothing is
/// paid again.
pub(super) fn settle(runner: &mut Runner) -> Result<()> {
    let path = runner.core.cx.workspace.state.dir().join(INTENT);
    let noted = regular_file::read(&path).ok();
    let noted = noted.and_then(|text| serde_json::from_slice::<DiagnosisIntent>(&text).ok());
    for (task_id, open) in runner.core.journal.history().diagnosing.clone() {
        let noted = noted.as_ref().filter(|it| it.task_id == task_id);
        let why = ENDED_BEFORE.to_owned();
        let failed = Diagnosis::failed(&open.by, why);
        let end = match noted {
            Some(noted) if is_done(runner, noted) => noted.end.clone(),
            Some(noted) => DiagnosisEnd { diagnosis: failed, ..noted.end.clone() },
            None => DiagnosisEnd {
                attempt: open.attempt,
                outcome: Outcome::Interrupted,
                diagnosis: failed,
                duration_seconds: 0.0,
                usage: Usage::default(),
            },
        };
        let iteration = noted.map_or(0, |noted| noted.iteration);
        runner.core.emit(Some((&task_id, iteration)), AttemptEvent::Diagnosed(end))?;
    }
    if noted.is_some() {
        fs::remove_file(&path).context("remove the note of a diagnosis")?;
    }
    Ok(())
}

/// Whether the graph has the change of a diagnosis.
fn is_done(runner: &Runner, noted: &DiagnosisIntent) -> bool {
    let graph = runner.core.graph.file.graph();
    let task = graph.number(&noted.task_id).map(|number| graph.task(number));
    match &noted.end.diagnosis.remedy {
        Remedy::Agent { agent, .. } => {
            task.is_some_and(|task| task.agents.iter().any(|call| call.name == *agent))
        }
        remedy => remedy.added().iter().all(|id| graph.number(id).is_some()),
    }
}
