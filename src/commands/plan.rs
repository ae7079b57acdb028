//! `ralph plan`: predicts a run: its tasks, their order, its end and reason, its cost, and problems
//! that would end it early or spoil it.

use std::fmt::Write as _;

use anyhow::Result;
use chrono::Utc;

use super::{
    Invocation, check_filter,
    outlook::{notes, uncommitted},
    run, success, with_view,
};
use crate::{
    adapters::{
        machine::{self, AwakeHold},
        terminal::{self, visible},
    },
    cli::PlanArgs,
    core::{
        exit::Exit,
        graph::filter::Filter,
        select::{Policy, View},
        spend::dollars,
    },
    project::{attempt, fatal, workspace::policy_for},
    runner::check_start,
    view::{
        lines::{counted, minute},
        night::NightView,
        plan::PlanView,
        waits::ElsewhereView,
    },
};

/// How many tasks of the order are shown unless all are asked for.
const PLANNED: usize = 30;

/// Predicts the run that would start now with these flags, or the rest of the live one. Changes
/// nothing.
///
/// # Errors
/// No repository, an invalid graph, an unknown task or agent.
pub fn run(invocation: &Invocation, options: PlanArgs) -> Result<Exit> {
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
    // With landed work that waits for the checkout, or on the branch of the settings.
    let landed = workspace.graph().ok();
    let graph = landed.as_ref().unwrap_or(&file);
    let policy = policy_for(&workspace, policy, graph.graph(), store.history())?;
    let shown = if options.all { usize::MAX } else { PLANNED };
    let (mut plan, text) =
        with_view(&workspace, graph, store.history(), &policy, |view: &View<'_>| {
            let freed = view.graph.without_void_claims().filter(|_| !goes_on);
            let view = View { graph: freed.as_ref().unwrap_or(view.graph), ..*view };
            let plan = PlanView::of(&view, goes_on, Utc::now(), shown);
            let text = head(&plan, &view);
            (plan, text)
        })?;
    if !goes_on && !plan.order.is_empty() {
        let start = check_start(&policy, &file, &workspace, &run);
        plan.refused = start.err().map(|error| fatal::summary(&error));
    }
    if plan.refused.is_some() {
        plan.night = None;
    }
    if options.json {
        return success(&terminal::json(&plan));
    }
    let refused = plan.refused.iter().map(|why| format!("a run would not start: {why}"));
    let mut lines: Vec<String> = refused.collect();
    lines.extend(plan.night.iter().flat_map(NightView::lines));
    if !goes_on && !plan.order.is_empty() {
        lines.extend(notes(&workspace, &file, &run, true));
        lines.extend(uncommitted(&workspace, file.graph()));
        lines.extend(sleep(workspace.config.keep_awake));
    }
    let width = terminal::stdout_width().unwrap_or(usize::MAX);
    let lines = lines.iter().flat_map(|line| terminal::wrap(&visible(line), width));
    let lines: String = lines.map(|line| line + "\n").collect();
    success(&(text + &lines + &order(&plan)))
}

/// The first lines: the amount of work, the limits, and work landed elsewhere.
fn head(plan: &PlanView, view: &View<'_>) -> String {
    let is_open = |number: &usize| !view.graph.task(*number).status.is_over();
    let (all, open) = (view.admitted().count(), view.admitted().filter(is_open).count());
    let mut page = String::new();
    if plan.order.is_empty() {
        let more = if open > 0 { "; `ralph dag-status` says what each task needs" } else { "" };
        let _ = writeln!(page, "nothing is left that can be done{more}");
    } else {
        let mut parts = vec![
            format!("{}, {open} open, longest chain {}", counted(all, "task"), plan.chain.len()),
            counted(plan.jobs, "job"),
        ];
        parts.extend(view.policy.budget.cost.map(|most| format!("at most {}", dollars(most))));
        let _ = writeln!(page, "{}", parts.join(" · "));
    }
    for elsewhere in ElsewhereView::all(view) {
        let _ = writeln!(page, "{}; {}", visible(&elsewhere.text()), elsewhere.cure());
    }
    page
}

/// The first tasks in their order, each with its time.
fn order(plan: &PlanView) -> String {
    if plan.order.is_empty() {
        return String::new();
    }
    let mut page = "\nin order:\n".to_owned();
    let screen = terminal::stdout_width().unwrap_or(usize::MAX);
    let width = plan.order.iter().map(|task| task.id.as_str().len()).max().unwrap_or(0);
    let now = Utc::now();
    for task in &plan.order {
        let at = task.starts_at.map_or_else(String::new, |at| minute(at, now) + "  ");
        let why = task.why.as_ref().map_or_else(String::new, |why| format!("  ({why})"));
        let line = format!("  {at}{:<width$}  {}{why}", task.id.as_str(), task.title);
        let _ = writeln!(page, "{}", terminal::fit(&visible(&line), screen));
    }
    if let Some(more) = plan.count.and_then(|all| all.checked_sub(plan.order.len()))
        && more > 0
    {
        let _ = writeln!(page, "  and {more} more; `--all` shows them");
    }
    page
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
