//! `ralph plan`: foresees a run: what it will do, in which order, when and why it ends, what it costs, and
//! what would end it early or spoil it.

use std::fmt::Write as _;

use anyhow::Result;
use chrono::Utc;

use super::{Invocation, check_filter, outlook::notes, run, success, with_view};
use crate::{
    adapters::{
        machine::{self, AwakeHold},
        terminal::{self, visible},
    },
    cli::PlanArgs,
    core::{
        exit::Exit,
        graph::{filter::Filter, task::TaskId},
        select::{Policy, View},
    },
    project::{attempt, fatal, workspace::policy_for},
    runner::check_start,
    view::{
        lines::{counted, short},
        night::NightView,
        plan::{PaceView, PlanView},
        waits::ElsewhereView,
    },
};

/// How many tasks of the order are shown unless all are asked for.
const PLANNED: usize = 30;

/// Foresees the run that would start now with these flags, or the rest of the one that goes on. Changes
/// nothing.
///
/// # Errors
/// No repository, an invalid graph, an unknown task or agent.
pub fn run(invocation: &Invocation, options: PlanArgs) -> Result<Exit> {
    let jobs = options.work.jobs.map(|jobs| jobs as usize);
    let (mut workspace, run) = run::configured(invocation, options.work)?;
    let store = workspace.event_store()?;
    let goes_on = workspace.is_live(store.history())?;
    if goes_on {
        workspace.set_flags(store.history().run.begun.flags.clone())?;
    }
    let file = attempt::graph(&workspace)?;
    check_filter(&file, &run.filter)?;
    let policy = if goes_on {
        Policy { filter: Filter::of_words(&store.history().run.begun.filter), ..workspace.policy() }
    } else {
        run.policy(&workspace)
    };
    // With what has landed and waits for the checkout, or on the branch that the settings name.
    let landed = workspace.graph().ok();
    let graph = landed.as_ref().unwrap_or(&file);
    let policy = policy_for(&workspace, policy, graph.graph(), store.history())?;
    let shown = if options.all { usize::MAX } else { PLANNED };
    let (plan, text) =
        with_view(&workspace, graph, store.history(), &policy, |view: &View<'_>| {
            let freed = view.graph.without_void_claims().filter(|_| !goes_on);
            let view = View { graph: freed.as_ref().unwrap_or(view.graph), ..*view };
            let plan = PlanView::of(&view, jobs, (goes_on, Utc::now()));
            let text = head(&plan, &view);
            (plan, text)
        })?;
    if options.json {
        return success(&terminal::json(&plan));
    }
    let mut lines = plan.night.as_ref().map_or_else(Vec::new, NightView::lines);
    if !goes_on && plan.night.is_some() {
        if let Err(error) = check_start(&policy, &file, &workspace, &run) {
            lines.insert(0, format!("a run would not start: {}", fatal::summary(&error)));
        }
        lines.extend(notes(&workspace, &file, &run, true));
        lines.extend(sleep(workspace.config.keep_awake));
    }
    let width = terminal::stdout_width().unwrap_or(usize::MAX);
    let lines = lines.iter().flat_map(|line| terminal::wrap(&visible(line), width));
    let lines: String = lines.map(|line| line + "\n").collect();
    success(&(text + &lines + &order(&plan, shown)))
}

/// The first lines: how much there is to do, and what has landed elsewhere.
fn head(plan: &PlanView, view: &View<'_>) -> String {
    let mut page = String::new();
    if plan.order.is_empty() {
        let is_open = |number| !view.graph.task(number).status.is_over();
        let more = if view.admitted().any(is_open) {
            "; `ralph dag-status` says what each task needs"
        } else {
            ""
        };
        let _ = writeln!(page, "nothing is left that can be done{more}");
    } else {
        let work = plan.order.iter().map(|task| task.seconds).sum();
        let path: Vec<&str> = plan.critical_path.ids.iter().map(TaskId::as_str).collect();
        let _ = writeln!(
            page,
            "{} to do, {} of work; {}\ncritical path: {}, {}",
            counted(plan.order.len(), "task"),
            short(work),
            pace(&plan.pace),
            short(plan.critical_path.seconds),
            path.join(" -> "),
        );
    }
    for elsewhere in ElsewhereView::all(view) {
        let _ = writeln!(page, "{}; {}", visible(&elsewhere.text()), elsewhere.cure());
    }
    page
}

/// The run by number of jobs, and the order of the tasks.
fn order(plan: &PlanView, shown: usize) -> String {
    if plan.order.is_empty() {
        return String::new();
    }
    let nights = plan.forecasts.iter().any(|forecast| forecast.night.is_some());
    let [costs, done] = if nights { ["costs", "done"] } else { ["", ""] };
    let rows = plan.forecasts.iter().map(|forecast| {
        let night = forecast.night.as_ref();
        [
            format!("{:>4}", forecast.jobs),
            short(forecast.seconds),
            night.and_then(NightView::cost_range).unwrap_or_default(),
            night.map(NightView::end_range).unwrap_or_default(),
        ]
    });
    let mut page = format!("\n{}", terminal::table(["jobs", "takes", costs, done], rows));
    let _ = writeln!(page, "more than {} does not help", counted(plan.enough_jobs, "job"));
    let _ = writeln!(page, "\nin order, one at a time:");
    let screen = terminal::stdout_width().unwrap_or(usize::MAX);
    let width = plan.order.iter().take(shown).map(|task| task.id.as_str().len()).max();
    let width = width.unwrap_or(0);
    for task in plan.order.iter().take(shown) {
        let (id, title) = (task.id.as_str(), visible(&task.title));
        let line = format!("{:>8}  {id:<width$}  {title}", short(task.seconds));
        let _ = writeln!(page, "{}", terminal::fit(&line, screen));
    }
    if plan.order.len() > shown {
        let more = plan.order.len() - shown;
        let _ = writeln!(page, "{:>8}  and {more} more; `--all` shows them", "");
    }
    page
}

fn pace(pace: &PaceView) -> String {
    if !pace.is_known() {
        return "lengths as estimated".to_owned();
    }
    let PaceView { factor, tasks } = pace;
    let share = match *factor {
        small if small < 0.1 => format!("1/{:.0} of", 1.0 / small.max(0.001)),
        factor => format!("{factor:.2} times"),
    };
    format!("tasks take {share} their estimate (median of {tasks})")
}

/// Whether the machine may sleep in the night.
fn sleep(wanted: Option<bool>) -> Option<String> {
    if !machine::may_sleep() && wanted != Some(true) {
        return None;
    }
    let remedy = "keep it plugged in, and switch off sleep in its settings";
    match (wanted, AwakeHold::take()) {
        (Some(false), _) => Some(format!("the machine may sleep: `keep_awake: false`; {remedy}")),
        (_, Err(why)) => Some(format!("the machine may sleep: {why}; {remedy}")),
        (_, Ok(hold)) if hold.with_lid => None,
        (_, Ok(_)) => Some("the machine stays awake with its lid open only".to_owned()),
    }
}
