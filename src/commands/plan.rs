//! `ralph plan`: in which order, with how many agents at once, until when.

use std::fmt::Write as _;

use anyhow::Result;
use chrono::{DateTime, Utc};

use super::{Invocation, check_filter, filter};
use crate::{
    adapters::terminal::{self, visible},
    cli,
    core::{exit::Exit, graph::task::TaskId, select::Policy},
    project::workspace::view,
    view::{
        lines::{counted, moment, short},
        plan::{PaceView, PlanView},
    },
};

/// How many tasks of the order are shown unless all are asked for.
const SHOWN: usize = 30;

/// Shows what would happen if every attempt succeeded. Changes nothing.
///
/// # Errors
/// No repository, an invalid graph, an unknown task.
pub fn run(invocation: &Invocation, options: cli::PlanArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let file = workspace.graph()?;
    let policy = Policy { filter: filter(options.which), ..workspace.policy() };
    check_filter(&file, &policy.filter)?;
    let store = workspace.event_store()?;
    let view = view(&file, store.history(), &policy);
    let now = Utc::now();
    let plan = PlanView::of(&view, options.jobs, now);
    terminal::print(&if options.json {
        terminal::json(&plan)
    } else {
        page(&plan, if options.all { usize::MAX } else { SHOWN }, now)
    })?;
    Ok(Exit::Success)
}

fn page(plan: &PlanView, shown: usize, now: DateTime<Utc>) -> String {
    if plan.order.is_empty() {
        return "nothing is left that can be done\n".to_owned();
    }
    let work = plan.order.iter().map(|task| task.seconds).sum();
    let path: Vec<&str> = plan.critical_path.ids.iter().map(TaskId::as_str).collect();
    let mut page = format!(
        "{} to do, {} of work; {}\nnothing makes it shorter than {}: {}\n\n",
        counted(plan.order.len(), "task"),
        short(work),
        pace(&plan.pace),
        short(plan.critical_path.seconds),
        path.join(" -> "),
    );
    let _ = writeln!(page, "jobs  takes    done at");
    for forecast in &plan.forecasts {
        let jobs = forecast.jobs;
        let help = if jobs == plan.enough_jobs { "  more does not help" } else { "" };
        let at = moment(forecast.done_at, now);
        let _ = writeln!(page, "{jobs:>4}  {:<7}  {at}{help}", short(forecast.seconds));
    }
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
    format!("tasks take {factor:.2} times their estimate (median of {tasks})")
}
