//! What is next: the tasks with their times, and what a person can do.

use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::attention::Attention;
use crate::{
    core::{
        event::StopReason,
        executor::shell_word,
        exit::Exit,
        graph::task::TaskId,
        select::{Decision, Policy, TaskState, View},
    },
    view::{
        night::{NightView, Patience},
        plan::PaceView,
        run::{RunView, Standing},
        state::{StateKind, StateMark},
        task::TaskView,
    },
};

/// How many tasks are listed.
const TASKS: usize = 20;

/// A task that has not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpcomingTask {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its state now.
    pub state: StateKind,
    /// When it would start if every attempt succeeds; none if that is not known.
    pub starts_at: Option<DateTime<Utc>>,
    /// When it would end.
    pub ends_at: Option<DateTime<Utc>>,
    /// The task whose agent added it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// Why it cannot start now; none if its dependencies are planned before it.
    pub why: Option<String>,
}

/// The first tasks that have not started, and the forecast for all of them.
pub(super) fn upcoming(
    view: &View<'_>,
    run: &RunView,
    now: DateTime<Utc>,
) -> (Vec<UpcomingTask>, Option<NightView>) {
    let jobs = view.policy.jobs.max(1);
    let pace = PaceView::of(view);
    let length = |number: usize| pace.seconds(view.graph.task(number).minutes);
    let wake = run.schedule.as_ref().and_then(|schedule| schedule.next_wake);
    let from = wake.filter(|wake| *wake > now && !run.goes_on()).unwrap_or(now);
    let slots = view.forecast(jobs, &length, now);
    // Nothing starts before what the run waits for.
    let begin = run.waiting.as_ref().map_or(from, |waiting| from.max(waiting.until));
    // What follows a run that made only one attempt, or was stopped, is another run.
    let policy = Policy { once: false, stop: None, ..view.policy.clone() };
    let rest = View { policy: &policy, ..*view };
    let forecast = NightView::of(&rest, run.goes_on(), from, Patience::Short)
        .filter(|_| !slots.slots.is_empty());
    let is_foreseeable = forecast.as_ref().map_or(pace.is_known(), NightView::is_known);
    // All that is planned ends when the run does.
    let planned_end = slots.slots.iter().map(|slot| slot.end).max().unwrap_or(0);
    let pace = forecast.as_ref().map_or(1.0, |it| it.stretch(begin, planned_end));
    let after = |seconds: u64| {
        if !is_foreseeable {
            return None;
        }
        let length = TimeDelta::try_milliseconds((seconds as f64 * pace * 1000.0).round() as i64);
        begin.checked_add_signed(length?)
    };
    let mut is_planned = vec![false; view.graph.tasks().len()];
    for slot in &slots.slots {
        is_planned[slot.key.number] = true;
    }
    let task = |number: usize| UpcomingTask {
        id: view.graph.task(number).id.clone(),
        title: view.graph.task(number).title_line().to_owned(),
        state: StateKind::of(view.state(number, now)),
        starts_at: None,
        ends_at: None,
        added_by: view.graph.task(number).added_by.clone(),
        why: why(view, number, now),
    };
    let planned = slots.slots.iter().map(|slot| {
        let waits = view.state(slot.key.number, now) == TaskState::Waiting;
        let task = task(slot.key.number);
        UpcomingTask {
            starts_at: after(slot.start),
            ends_at: after(slot.end),
            why: task.why.filter(|_| !waits),
            ..task
        }
    });
    let mut tasks: Vec<UpcomingTask> = planned.take(TASKS).collect();
    let waiting = view
        .admitted()
        .filter(|number| !is_planned[*number] && view.state(*number, now) == TaskState::Waiting);
    let room = TASKS - tasks.len();
    tasks.extend(waiting.take(room).map(task));
    (tasks, forecast)
}

/// Why a task cannot start now.
fn why(view: &View<'_>, number: usize, now: DateTime<Utc>) -> Option<String> {
    let state = view.state(number, now);
    if state == TaskState::Denied {
        return Some("its agent is denied access".to_owned());
    }
    let waits = [StateMark::Ready, StateMark::Waiting].contains(&StateKind::of(state).mark());
    let waits = waits && state != TaskState::Ready;
    waits.then(|| TaskView::at(view, number, (false, &[]), now).standing_note(now))
}

/// What a person can do next besides what [`Attention`] says, the most useful first.
pub(super) fn steps(decision: &Decision, run: &RunView, attention: &[Attention]) -> Vec<String> {
    if run.goes_on() || run.exit_code == Some(0) {
        return Vec::new();
    }
    let name = run.plain.as_ref().map(|plain| plain.name.as_str());
    let onto = run.onto.as_ref().map(|branch| format!(" --onto {}", shell_word(branch)));
    let run_on = format!("`ralph run{}` continues", onto.unwrap_or_default());
    let goes_on =
        name.map_or(run_on.clone(), |name| format!("`ralph resume --name {name}` continues"));
    let again =
        name.map_or(run_on, |_| "`ralph loop` with the same flags starts it again".to_owned());
    let flag = name.map_or(String::new(), |name| format!(" --name {name}"));
    let doctor = "`ralph doctor` checks the agent and the setup".to_owned();
    let is_paused = matches!(decision, Decision::Stop(StopReason::Paused(_)));
    if run.status == Standing::Crashed && !is_paused {
        return vec![goes_on];
    }
    if run.exit_code == Some(Exit::Invalid.code()) {
        let check = "`ralph check` names every error of the graph and the settings";
        return vec![check.to_owned(), format!("afterwards, {again}")];
    }
    match decision {
        Decision::Stop(StopReason::Blocked(_) | StopReason::NeedsInput(_)) => {
            let has_remedy = attention.iter().any(|it| it.remedy.is_some());
            let afterwards = if has_remedy { "afterwards, " } else { "" };
            name.is_none().then(|| format!("{afterwards}{goes_on}")).into_iter().collect()
        }
        Decision::Stop(
            StopReason::Failures(_)
            | StopReason::FailedTasks(_)
            | StopReason::StartLimit(_)
            | StopReason::Denied(..),
        ) => vec![doctor, again],
        Decision::Stop(StopReason::Paused(_)) => {
            vec![format!("`ralph resume{flag}` continues, `ralph stop{flag}` ends it")]
        }
        Decision::Stop(StopReason::Stopped | StopReason::Signal(..)) => vec![goes_on],
        Decision::Stop(StopReason::Limit(_)) if name.is_some() => {
            vec![format!("`ralph resume{flag}` with a higher limit continues")]
        }
        Decision::Stop(
            StopReason::Limit(_)
            | StopReason::Provider { .. }
            | StopReason::Unreachable { .. }
            | StopReason::Once { .. }
            | StopReason::BaselineBroken(_)
            | StopReason::BadBase(_)
            | StopReason::HookFailed(_)
            | StopReason::MergeHeld(_)
            | StopReason::Complete
            | StopReason::SelectionComplete
            | StopReason::Red(_)
            | StopReason::NotProved(_)
            | StopReason::Done { .. }
            | StopReason::Promised,
        )
        | Decision::Start(_)
        | Decision::Wait(_) => vec![again],
    }
}
