//! `ralph graph`: draws the graph.

use anyhow::Result;
use chrono::{DateTime, Utc};

use super::{
    Invocation, check_filter, few, filter,
    status::{drawn, row},
    success, with_view,
};
use crate::{
    adapters::terminal::{self, Style},
    cli::{GraphArgs, PictureFormat},
    core::{exit::Exit, graph::filter::Filter, select::Policy},
    project::workspace::{Workspace, policy_for},
    view::{
        lines::Line,
        picture::{GraphPicture, PictureNode, TreeLine},
        state::StateKind,
    },
};

/// The widest column of branches and ids.
const IDS: usize = 40;

/// Draws the graph.
///
/// # Errors
/// No repository; an invalid graph; a filter that matches nothing.
pub fn run(invocation: &Invocation, options: GraphArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let picture = picture(&workspace, filter(options.which), Utc::now())?;
    success(&match options.format {
        PictureFormat::Text => text(&picture, options.all),
        PictureFormat::Dot => picture.dot(),
        PictureFormat::Mermaid => picture.mermaid(),
        PictureFormat::Json => terminal::json(&picture),
    })
}

/// The picture of the tasks that a filter selects.
///
/// # Errors
/// An invalid graph; a filter that matches nothing; errors of the disk.
pub(super) fn picture(
    workspace: &Workspace,
    filter: Filter,
    now: DateTime<Utc>,
) -> Result<GraphPicture> {
    let file = workspace.graph()?;
    let store = workspace.event_store()?;
    let policy = Policy { filter, ..workspace.policy() };
    let policy = policy_for(workspace, policy, file.graph(), store.history())?;
    check_filter(&file, &policy.filter)?;
    let live = workspace.is_live(store.history())?;
    with_view(workspace, &file, store.history(), &policy, |view| {
        let mut picture = GraphPicture::of(view, file.name(), now);
        picture.note_still(&store.history().active, live);
        picture
    })
}

/// The tree as wide as the terminal or `$COLUMNS`, or as wide as it needs to be.
pub(super) fn text(picture: &GraphPicture, all: bool) -> String {
    // Piped to a pager, the tree is for people too.
    let width = terminal::stdout_width().or_else(terminal::columns_set);
    let line = |style, text| Line { style: Some(style), text };
    let summary = picture.counts.summary();
    let mut lines = vec![line(Style::Strong, format!("{}: {summary}", picture.file))];
    let (folded, over) = picture.folded();
    let shown = if all { picture } else { &folded };
    if over > 0 && !all {
        lines.push(line(Style::Faint, format!("✓ {over} done (--all draws them)")));
    }
    let tree = shown.tree();
    let name = |line: &TreeLine| {
        let node = &shown.nodes[line.node];
        format!("{}{} {}", line.branches, node.state.mark().look().sign, node.id)
    };
    let widest = tree.iter().map(|line| terminal::columns(&name(line))).max().unwrap_or(0);
    let ids = widest.min(width.map_or(IDS, |width| width / 2).min(IDS));
    lines.extend(tree.iter().map(|at| {
        let node = &shown.nodes[at.node];
        let text = row((&name(at), ids), (&node.id, &node.title), &note(node, at), width);
        line(node.state.style(), text)
    }));
    drawn(&lines, width)
}

/// The state, where the shape does not say it, and the other tasks that it waits on.
fn note(node: &PictureNode, line: &TreeLine) -> String {
    const NAMED: usize = 3;
    let is_plain =
        node.state.is_over() || [StateKind::Ready, StateKind::Waiting].contains(&node.state);
    let state = (!is_plain).then(|| node.state.word().to_owned());
    let also = || format!("also waits on {}", few(line.also.iter().cloned(), NAMED));
    let also = (!line.also.is_empty()).then(also);
    state.into_iter().chain(also).collect::<Vec<_>>().join(", ")
}
