//! What is next: the tasks with their times, and what a person can do.

use chrono::{DateTime, Utc};

use super::attention::Attention;
use crate::{
    core::{
        event::StopReason,
        executor::shell_word,
        exit::Exit,
        select::{Decision, Policy, View},
    },
    view::{
        night::NightView,
        plan::{Order, UpcomingTask},
        run::{RunView, Standing},
        state::StateKind,
    },
};

/// How many tasks are listed.
const TASKS: usize = 20;

/// The first tasks that have not started, and the forecast for all of them.
pub(super) fn upcoming(
    view: &View<'_>,
    run: &RunView,
    now: DateTime<Utc>,
) -> (Vec<UpcomingTask>, Option<NightView>) {
    let wake = run.schedule.as_ref().and_then(|schedule| schedule.next_wake);
    let from = wake.filter(|wake| *wake > now && !run.goes_on()).unwrap_or(now);
    // Nothing starts before what the run waits for.
    let begin = run.waiting.as_ref().map_or(from, |waiting| from.max(waiting.until));
    // What follows a run that made only one attempt, or was stopped, is another run.
    let policy = Policy { once: false, stop: None, ..view.policy.clone() };
    let rest = View { policy: &policy, ..*view };
    let goes_on = run.goes_on() && ![Standing::None, Standing::Starting].contains(&run.status);
    let night = NightView::of(&rest, goes_on, from);
    let tasks = Order::of(view, night.as_ref(), begin, TASKS).upcoming(view, now, TASKS);
    let is_any = tasks.iter().any(|task| task.state != StateKind::Waiting);
    (tasks, night.filter(|_| is_any))
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
        Decision::Stop(_) if run.exit_code == Some(Exit::NotProved.code()) => {
            vec!["`ralph review` shows what is not proved, and accepts it".to_owned()]
        }
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
            | StopReason::NotProved(_)
            | StopReason::Red(_)
            | StopReason::Done { .. }
            | StopReason::Promised,
        )
        | Decision::Start(_)
        | Decision::Wait(_) => vec![again],
    }
}
