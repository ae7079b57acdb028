//! What needs a person.

use serde::Serialize;

use super::ReportSource;
use crate::{
    adapters::terminal::visible,
    core::{
        agents::{agent_command::AgentCommand, provider_error::Advice},
        commit_id::CommitId,
        event::{Blocker, StopReason},
        executor::shell_word,
        graph::task::TaskId,
        history::TaskHistory,
        select::{Decision, TaskState, View, parked_after},
        verdict::Verdict,
    },
    view::{
        lines::how_to_retry,
        task::{TaskStanding, standing},
        waits::{BlockedLanding, ElsewhereView, WaitingWorkView, if_already_there},
    },
};

/// How many lines of a question are kept.
const ASKED: usize = 12;
/// How many files a command names.
const FILES: usize = 8;

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// What it is.
    pub kind: AttentionKind,
    /// The task.
    pub task_id: Option<TaskId>,
    /// The title of the task.
    pub title: Option<String>,
    /// Why it needs a person.
    pub why: String,
    /// The lines that say more: the question, the part of the output of the command that failed
    /// (of the agent, if none did) that says why, with `…` for lines left out, or the files in the way.
    pub detail: Vec<String>,
    /// The number of unfinished tasks that can go on once this and everything before it in the list
    /// are resolved, including the task itself.
    pub unblocks: usize,
    /// The command that shows more.
    pub show: Option<String>,
    /// The command that resolves it, or what to do if that is not a command; none for an earlier
    /// run.
    #[serde(rename = "next")]
    pub remedy: Option<String>,
}

/// What needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// An agent is denied access to its provider.
    Login,
    /// Nothing can land.
    LandingBlocked,
    /// What landed waits for the checkout of a person.
    CheckoutWaits,
    /// A verify command failed before an attempt.
    Baseline,
    /// An agent asked a question.
    Question,
    /// A task is out of attempts.
    Parked,
    /// A task reached its cost limit.
    Spent,
    /// A person blocked a task.
    Blocked,
    /// Tasks are complete on another branch.
    OnBranch,
    /// A task is in progress, but not by this run.
    Claimed,
    /// A task is cancelled, but others depend on it.
    Cancelled,
    /// A task is not selected, but others depend on it.
    Excluded,
    /// Landed work has no proof.
    Unproved,
    /// A person has reverted landed work, and its task is complete.
    Reverted,
}

/// What needs a person at the time of the report.
pub(super) fn now(
    view: &View<'_>,
    source: &ReportSource<'_>,
    decision: &Decision,
) -> Vec<Attention> {
    let is_stuck =
        matches!(decision, Decision::Stop(StopReason::Blocked(_) | StopReason::NeedsInput(_)));
    let blockers = view.blockers(source.now).into_iter();
    let of_tasks = blockers.filter_map(|blocker| of_blocker(blocker, view, source, is_stuck));
    let mut all = denied(view);
    all.extend(landing(source, true));
    all.extend(baseline(source, true));
    all.extend(on_branches(view));
    all.extend(of_tasks);
    let unproved = view.history.unproved(view.graph, &view.policy.filter).into_iter();
    all.extend(unproved.filter_map(|id| {
        let why = view.history.of(id).proof.as_ref()?.to_string();
        let blocker = Blocker { task_id: id.clone(), why, frees: 0 };
        let remedy = Some(accept_unproved(id.as_str()));
        Some(Attention { remedy, ..of_task(AttentionKind::Unproved, blocker, source) })
    }));
    all
}

/// What accepts the work of a task without a proof.
pub(super) fn accept_unproved(id: &str) -> String {
    format!("`ralph review {id} --accept` keeps the work without a proof")
}

impl Attention {
    /// Something of this kind, without a task, detail or remedy.
    fn of(kind: AttentionKind, why: String) -> Attention {
        let (task_id, title, show, remedy) = (None, None, None, None);
        Attention { kind, task_id, title, why, detail: Vec::new(), unblocks: 0, show, remedy }
    }

    /// A task that is complete, and whose work the commit `by` reverts.
    pub fn reverted(id: &TaskId, by: &CommitId) -> Attention {
        let why = format!("complete, but commit {} reverts its work", by.short());
        Attention {
            task_id: Some(id.clone()),
            show: Some(format!("`git show {}`", by.short())),
            remedy: Some(format!("`ralph take-back {id}` opens it again")),
            ..Attention::of(AttentionKind::Reverted, why)
        }
    }
}

/// What needed a person when an earlier run ended. The states of tasks that it did not touch are not
/// known, except of those that blocked everything else.
pub(super) fn then(source: &ReportSource<'_>) -> Vec<Attention> {
    let run = &source.history.run;
    let plain = run.begun.plain.as_ref();
    let mut all = landing(source, false);
    all.extend(baseline(source, false));
    let known = run.blockers.iter().map(|blocker| blocker.task_id.clone());
    let known: Vec<TaskId> = known.collect();
    for blocker in &run.blockers {
        let past = source.history.of(&blocker.task_id);
        let kind = kind_then(past, source).unwrap_or(AttentionKind::Blocked);
        all.push(of_task(kind, blocker.clone(), source));
    }
    for (id, past) in source.history.tasks() {
        let kind = kind_then(past, source).filter(|_| !known.contains(id));
        let Some(kind) = kind.filter(|kind| plain.is_none() || *kind == AttentionKind::Question)
        else {
            continue;
        };
        let why = if kind == AttentionKind::Question {
            "needs input".to_owned()
        } else {
            parked_after(past.counted)
        };
        all.push(of_task(kind, Blocker { task_id: id.clone(), why, frees: 1 }, source));
    }
    all
}

/// What a task needed, as far as its history tells.
fn kind_then(past: &TaskHistory, source: &ReportSource<'_>) -> Option<AttentionKind> {
    let max = source.history.run.begun.max_attempts;
    if past.asks {
        Some(AttentionKind::Question)
    } else if past.stuck || (max > 0 && past.counted >= max) {
        Some(AttentionKind::Parked)
    } else {
        None
    }
}

fn of_blocker(
    blocker: Blocker,
    view: &View<'_>,
    source: &ReportSource<'_>,
    is_stuck: bool,
) -> Option<Attention> {
    let id = blocker.task_id.clone();
    let number = view.graph.number(&id)?;
    let state = view.state(number, source.now);
    if let Some(plain) = &view.policy.plain {
        let name = &plain.name;
        let answer = format!("`ralph answer {name} \"…\"`, then `ralph resume --name {name}`");
        let asked = of_task(AttentionKind::Question, blocker, source);
        return (state == TaskState::NeedsInput)
            .then_some(Attention { remedy: Some(answer), ..asked });
    }
    let is_stale = || {
        let standing = standing(view, number, (false, &[]), source.now);
        matches!(standing, TaskStanding::InProgress { stale: true, .. })
    };
    let (kind, remedy) = match state {
        TaskState::NeedsInput => (AttentionKind::Question, format!("`ralph answer {id} \"…\"`")),
        TaskState::Parked(_) => {
            let there = if_already_there(id.as_str(), view);
            (AttentionKind::Parked, how_to_retry(id.as_str()) + &there)
        }
        TaskState::Spent => {
            let spent = view.history.of(&id).spend.assumed_cost();
            let more = (spent * 2.0).ceil();
            (AttentionKind::Spent, format!("`max_cost: {more}` for it in the graph file"))
        }
        TaskState::Blocked => (AttentionKind::Blocked, format!("`ralph task-reset {id}`")),
        // The next run continues an attempt that was cut off.
        TaskState::Claimed if view.history.active.of(&id).is_some() => return None,
        TaskState::Claimed | TaskState::Unclaimed
            if state == TaskState::Unclaimed || is_stuck || is_stale() =>
        {
            let remedy = format!("if nothing works on it, `ralph task-reset {id}`");
            (AttentionKind::Claimed, remedy)
        }
        TaskState::Cancelled => {
            let remedy = format!(
                "`ralph task-reset {id}`, or remove it from the `depends_on` of the tasks that \
                 wait on it"
            );
            (AttentionKind::Cancelled, remedy)
        }
        TaskState::Ready if is_stuck => (
            AttentionKind::Excluded,
            format!("run again with `--task {id}`, or without the restriction"),
        ),
        TaskState::Claimed
        | TaskState::Unclaimed
        | TaskState::Ready
        | TaskState::Complete
        | TaskState::Running
        | TaskState::Conflicting
        | TaskState::Retrying(_)
        | TaskState::RateLimited(_)
        | TaskState::Unreachable(_)
        | TaskState::Denied
        // One line has all tasks of a branch.
        | TaskState::OnBranch
        | TaskState::Waiting => return None,
    };
    Some(Attention { remedy: Some(remedy), ..of_task(kind, blocker, source) })
}

/// A task that needs a person, with the lines that say more.
fn of_task(kind: AttentionKind, blocker: Blocker, source: &ReportSource<'_>) -> Attention {
    let Blocker { task_id: id, why, frees } = blocker;
    let past = source.history.of(&id);
    let last = past.last.as_deref();
    let (mut why, mut detail, mut show) = (why, Vec::new(), None);
    match kind {
        AttentionKind::Question => {
            let question = past.question().unwrap_or_default();
            detail = question.lines().take(ASKED).map(|text| visible(text).into_owned()).collect();
            if !detail.is_empty() {
                "needs input".clone_into(&mut why);
            }
        }
        AttentionKind::Parked | AttentionKind::Spent => {
            if let Some(last) = last {
                // Where every attempt failed in the same way, that says it.
                if past.repeated == 0 {
                    why = format!("{why}: {}: {}", last.ended.verdict, last.ended.why);
                }
                show = Some(format!("`ralph show {id}.{}`", last.ended.attempt));
            }
            let said = last.and_then(|last| last.ended.last_line.as_deref());
            let said = said.map(|text| visible(text).into_owned());
            let output = source.outputs.get(&id).filter(|lines| !lines.is_empty());
            detail = output.cloned().unwrap_or_else(|| said.into_iter().collect());
        }
        AttentionKind::Unproved => {
            show = last.map(|last| format!("`ralph show {id}.{}`", last.ended.attempt));
        }
        AttentionKind::Login
        | AttentionKind::LandingBlocked
        | AttentionKind::CheckoutWaits
        | AttentionKind::Baseline
        | AttentionKind::Blocked
        | AttentionKind::OnBranch
        | AttentionKind::Claimed
        | AttentionKind::Cancelled
        | AttentionKind::Reverted
        | AttentionKind::Excluded => {}
    }
    let title = source.title(&id);
    Attention { kind, task_id: Some(id), title, why, detail, unblocks: frees, show, remedy: None }
}

/// The agents that are denied access.
fn denied(view: &View<'_>) -> Vec<Attention> {
    let of_tasks = (0..view.graph.tasks().len()).flat_map(|number| view.agents(number));
    let mut seen: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    if view.history.cooldowns.is_empty() {
        return all;
    }
    for call in view.policy.roster.resolve(&view.policy.agents).into_iter().chain(of_tasks) {
        if !seen.contains(&call.name.as_str()) {
            seen.push(&call.name);
            all.extend(refusal(call, view));
        }
    }
    all
}

fn refusal(call: &AgentCommand, view: &View<'_>) -> Option<Attention> {
    let error = view.history.cooldowns.get(&call.name)?.error;
    let Advice::Stop(_) = error.advice() else {
        return None;
    };
    let why = format!("`{}`: {}", call.name, error.obstacle);
    Some(Attention {
        show: Some("`ralph doctor`".to_owned()),
        remedy: error.obstacle.remedy(call),
        ..Attention::of(AttentionKind::Login, why)
    })
}

/// The tasks that are complete on other branches, by branch.
fn on_branches(view: &View<'_>) -> Vec<Attention> {
    let on = |elsewhere: ElsewhereView| Attention {
        unblocks: elsewhere.tasks.len(),
        remedy: Some(elsewhere.cure()),
        ..Attention::of(AttentionKind::OnBranch, elsewhere.text())
    };
    ElsewhereView::all(view).into_iter().map(on).collect()
}

/// Why nothing can land, and what landed and waits for the checkout.
fn landing(source: &ReportSource<'_>, is_now: bool) -> Vec<Attention> {
    let active = &source.history.active;
    let held = BlockedLanding::now(active).map(|blocked| Attention {
        title: blocked.first.as_ref().and_then(|id| source.title(id)),
        task_id: blocked.first,
        unblocks: active.queue.len(),
        ..Attention::of(AttentionKind::LandingBlocked, blocked.text)
    });
    let waiting = active.waiting.as_ref().map(|waiting| {
        let waiting = WaitingWorkView::of(waiting);
        Attention {
            task_id: waiting.tasks.first().cloned(),
            title: waiting.tasks.first().and_then(|id| source.title(id)),
            detail: waiting.paths.iter().map(|path| visible(path).into_owned()).collect(),
            remedy: is_now.then(|| clearing(&waiting)),
            ..Attention::of(AttentionKind::CheckoutWaits, waiting.text())
        }
    });
    held.into_iter().chain(waiting).collect()
}

/// The command that makes room for what landed.
fn clearing(waiting: &WaitingWorkView) -> String {
    let is_visible = |word: &String| !word.contains(char::is_control) && visible(word) == *word;
    let mut all = waiting.paths.iter().chain([&waiting.checkout]);
    if waiting.paths.is_empty() || waiting.paths.len() > FILES || !all.all(is_visible) {
        return waiting.cure().to_owned();
    }
    let files = waiting.paths.iter().map(|path| shell_word(path)).collect::<Vec<_>>().join(" ");
    let checkout = shell_word(&waiting.checkout);
    format!("commit them, or `git -C {checkout} stash push --all -- {files}`")
}

/// The verify command that failed before an attempt, or the base from which none can start.
fn baseline(source: &ReportSource<'_>, is_now: bool) -> Option<Attention> {
    let run = &source.history.run;
    let broken = run
        .baseline_broken
        .as_ref()
        .map(|why| format!("no work of an attempt makes it fail: {why}"));
    let why = run.bad_base.clone().or(broken).filter(|_| run.finished.is_some())?;
    let tasks = source.history.tasks().into_iter();
    let broken = tasks.filter_map(|(id, past)| Some((id, past.last.as_deref()?)));
    let newest = broken
        .filter(|(_, last)| last.verdict == Verdict::BaselineBroken)
        .max_by_key(|(_, last)| last.at);
    let output = newest.and_then(|(id, _)| source.outputs.get(id));
    let id = newest.map(|(id, _)| id.clone());
    Some(Attention {
        title: id.as_ref().and_then(|id| source.title(id)),
        detail: output.cloned().unwrap_or_default(),
        show: newest.map(|(id, last)| format!("`ralph show {id}.{}`", last.ended.attempt)),
        remedy: is_now.then(|| "fix it and commit, then `ralph run`".to_owned()),
        task_id: id,
        ..Attention::of(AttentionKind::Baseline, why)
    })
}
