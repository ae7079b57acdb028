//! `ralph dag-status`: complete, in-progress, ready and waiting tasks, with reasons.

use std::{cell::RefCell, collections::BTreeMap};

use anyhow::Result;
use chrono::{DateTime, Utc};

use super::{
    Invocation, check_filter, filter,
    page_data::PageData,
    status::{self, drawn, row},
    success, with_view,
};
use crate::{
    adapters::{
        agent_output::Follow,
        terminal::{self, Style, visible},
    },
    cli::DagStatusArgs,
    core::{exit::Exit, graph::filter::Filter, select::Policy},
    project::workspace::policy_for,
    view::{
        lines::{Line, counted, plain},
        plan::{GraphFacts, GraphView},
        task::TaskView,
        waits::waiting_text,
    },
};

/// How many tasks of each part are shown without `--all`.
const SHOWN: usize = 15;

/// Shows how the graph stands.
///
/// # Errors
/// No repository; an invalid graph; `--watch` without a terminal.
pub fn run(invocation: &Invocation, options: DagStatusArgs) -> Result<Exit> {
    let shown = if options.all { usize::MAX } else { SHOWN };
    let (json, watches) = (options.json, options.watch);
    let filter = filter(options.which);
    let now = Utc::now();
    if watches {
        let follows = RefCell::default();
        let current = |now| {
            let (graph, damaged) = read(invocation, &filter, now)?;
            let doing = doing(invocation, &mut follows.borrow_mut())?;
            Ok(page(&graph, damaged, (shown, &doing), now))
        };
        return status::watch(current, "the graph cannot be read: `ralph check`");
    }
    let (graph, damaged) = read(invocation, &filter, now)?;
    let doing = BTreeMap::new();
    let text =
        if json { terminal::json(&graph) } else { page(&graph, damaged, (shown, &doing), now) };
    success(&text)
}

/// Reads the graph, and the number of journal lines that could not be read.
fn read(invocation: &Invocation, filter: &Filter, now: DateTime<Utc>) -> Result<(GraphView, u64)> {
    let workspace = invocation.workspace()?;
    let file = workspace.graph()?;
    let mut store = workspace.event_store()?;
    status::look_at_checkout(&workspace, &mut store)?;
    let history = store.history();
    let policy = Policy { filter: filter.clone(), ..workspace.policy() };
    let policy = policy_for(&workspace, policy, file.graph(), history)?;
    check_filter(&file, &policy.filter)?;
    let facts = GraphFacts {
        file: file.name().to_owned(),
        live: workspace.is_live(history)?,
        attempts: status::open_attempts(&workspace, history, now),
    };
    let graph =
        with_view(&workspace, &file, history, &policy, |view| GraphView::of(view, facts, now))?;
    Ok((graph, store.skipped().damaged))
}

/// The agents' activities, by task; `follows` are their outputs as far as they were read before.
fn doing(
    invocation: &Invocation,
    follows: &mut BTreeMap<String, Follow>,
) -> Result<BTreeMap<String, String>> {
    let activity = PageData::open(invocation)?.activity(follows);
    let all = activity.as_object().into_iter().flatten();
    let doing = all.filter_map(|(name, seen)| {
        let (id, _) = name.rsplit_once('.')?;
        Some((id.to_owned(), seen["doing"].as_str()?.to_owned()))
    });
    Ok(doing.collect())
}

/// The rows of some tasks. On a terminal their notes are below each other, if there is room; below
/// a row is its agent's work.
fn rows(
    tasks: &[TaskView],
    doing: &BTreeMap<String, String>,
    width: Option<usize>,
    now: DateTime<Utc>,
) -> Vec<Line> {
    let all = tasks.iter().map(|task| (task, visible(&task.note(now)).into_owned()));
    let all: Vec<(&TaskView, String)> = all.collect();
    let longest = |columns: &dyn Fn(&(&TaskView, String)) -> usize| all.iter().map(columns).max();
    let ids = longest(&|(task, _)| task.id.as_str().len()).unwrap_or(0) + 2;
    let has_title = |task: &TaskView| task.title != task.id.as_str();
    let titles = longest(&|(task, _)| {
        if has_title(task) { terminal::columns(&visible(&task.title)) } else { 0 }
    });
    let notes = longest(&|(_, note)| terminal::columns(note)).unwrap_or(0);
    let room = width.map_or(0, |width| width.saturating_sub(ids + notes + 4));
    let titles = titles.unwrap_or(0).min(room);
    let mut lines = Vec::new();
    for (task, note) in &all {
        let name = format!("  {}", task.id);
        let text = if titles < 8 || note.is_empty() {
            row((&name, ids), (&task.id, &task.title), note, width)
        } else {
            let title = if has_title(task) { visible(&task.title) } else { "".into() };
            let title = terminal::fit(&title, titles);
            let blank = " ".repeat(titles.saturating_sub(terminal::columns(&title)));
            format!("{name:<ids$}  {title}{blank}  {note}")
        };
        lines.push(Line { style: None, text });
        if let Some(doing) = doing.get(task.id.as_str()).filter(|doing| !doing.is_empty()) {
            lines.push(Line {
                style: Some(Style::Faint),
                text: format!("      {}", visible(doing)),
            });
        }
    }
    lines
}

/// The page for people: as wide as the terminal, or as wide as it needs to be.
fn page(
    graph: &GraphView,
    damaged: u64,
    (shown, doing): (usize, &BTreeMap<String, String>),
    now: DateTime<Utc>,
) -> String {
    let width = terminal::stdout_width();
    let warn = |text: String| {
        let text = visible(&text).into_owned();
        Line { style: Some(Style::Warn), text }
    };
    let first = format!("{}: {}", graph.file, graph.counts.summary());
    let mut lines = vec![Line { style: Some(Style::Strong), text: first }];
    lines.extend(graph.waiting.iter().map(|it| warn(format!("waiting {}", waiting_text(it, now)))));
    let far = graph.unreachable.iter();
    lines.extend(far.map(|it| warn(format!("executor {}", it.text(graph.live, now)))));
    lines.extend(graph.landing_blocked.iter().map(|it| warn(it.text.clone())));
    let landed = graph.landed.iter();
    lines.extend(landed.map(|it| warn(format!("{}; {}", it.text(), it.cure()))));
    for (kind, tasks) in graph.tasks.iter().filter(|(_, tasks)| !tasks.is_empty()) {
        lines.push(plain(""));
        lines.push(Line { style: Some(kind.style()), text: kind.heading().to_owned() });
        let named = &tasks[..tasks.len().min(shown)];
        lines.extend(rows(named, doing, width, now));
        if tasks.len() > named.len() {
            let text = format!("  … and {} more (--all)", tasks.len() - named.len());
            lines.push(Line { style: Some(Style::Faint), text });
        }
    }
    if damaged > 0 {
        let damaged = counted(usize::try_from(damaged).unwrap_or(usize::MAX), "line");
        lines.push(plain(""));
        lines.push(plain(&format!("{damaged} of the journal could not be read; skipped")));
    }
    drawn(&lines, width)
}
