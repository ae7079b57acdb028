//! `ralph tonight`: foresees a run, and says what would end it early or spoil it.

use anyhow::Result;
use chrono::Utc;

use super::{Invocation, check_filter, outlook::notes, run, success, with_view};
use crate::{
    adapters::{
        machine::{self, AwakeHold},
        terminal::{self, visible},
    },
    cli::TonightArgs,
    core::{
        exit::Exit,
        graph::filter::Filter,
        select::{Policy, View},
    },
    project::{attempt, fatal, workspace::policy_for},
    runner::check_start,
    view::night::{NightView, Patience},
};

/// Foresees the run that would start now with these flags, or the rest of the one that goes on. Changes
/// nothing.
///
/// # Errors
/// No repository, an invalid graph, an unknown task or agent.
pub fn run(invocation: &Invocation, options: TonightArgs) -> Result<Exit> {
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
    let foreseen = with_view(&workspace, graph, store.history(), &policy, |view: &View<'_>| {
        NightView::of(view, goes_on, Utc::now(), Patience::Long)
    })?;
    if options.json {
        return success(&terminal::json(&foreseen));
    }
    let Some(foreseen) = foreseen else {
        return success("nothing is left that can be done\n");
    };
    let mut lines = foreseen.lines();
    if !goes_on {
        if let Err(error) = check_start(&policy, &file, &workspace, &run) {
            lines.insert(0, format!("a run would not start: {}", fatal::summary(&error)));
        }
        lines.extend(notes(&workspace, &file, &run, true));
        lines.extend(sleep(workspace.config.keep_awake));
    }
    let width = terminal::stdout_width().unwrap_or(usize::MAX);
    let lines = lines.iter().flat_map(|line| terminal::wrap(&visible(line), width));
    success(&lines.map(|line| line + "\n").collect::<String>())
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
