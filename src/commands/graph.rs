//! `ralph graph`: draws the graph.

use anyhow::Result;
use chrono::{DateTime, Utc};

use super::{Invocation, check_filter, few, filter, success, with_view};
use crate::{
    adapters::terminal::{self, Paint, Style, visible},
    cli::{GraphArgs, PictureFormat},
    core::{
        exit::{Exit, fail},
        graph::filter::Filter,
        select::Policy,
    },
    project::workspace::Workspace,
    view::{
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
    let has_boxes = matches!(options.format, PictureFormat::Json | PictureFormat::Svg);
    if options.fold.is_some() && !has_boxes {
        return fail(Exit::Usage, "`--fold` needs `--format svg` or `json`");
    }
    let workspace = invocation.workspace()?;
    let picture = picture(&workspace, filter(options.which), Utc::now())?;
    let folding = options.fold.clone().unwrap_or_default();
    success(&match options.format {
        PictureFormat::Text => text(&picture, options.all),
        PictureFormat::Dot => picture.dot(),
        PictureFormat::Mermaid => picture.mermaid(),
        PictureFormat::Json if options.fold.is_none() => terminal::json(&picture),
        PictureFormat::Json => terminal::json(&picture.with_layout(&folding)),
        PictureFormat::Svg => picture.svg(&folding),
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
    check_filter(&file, &policy.filter)?;
    with_view(workspace, &file, store.history(), &policy, |view| {
        GraphPicture::of(view, file.name(), now)
    })
}

/// The tree as wide as the terminal or `$COLUMNS`, or as wide as it needs to be.
pub(super) fn text(picture: &GraphPicture, all: bool) -> String {
    // Piped to a pager, the tree is for people too.
    let width = terminal::stdout_width().or_else(terminal::columns_set);
    let paint = Paint::for_stream(&std::io::stdout());
    let mut text = String::new();
    let mut write = |style: Option<Style>, line: &str| {
        let line = width.map_or(line.into(), |width| terminal::fit(line, width));
        text += &match style {
            Some(style) => paint.text(style, line),
            None => line,
        };
        text.push('\n');
    };
    write(Some(Style::Strong), &format!("{}: {}", picture.file, picture.counts.summary()));
    let (folded, over) = picture.folded();
    let shown = if all { picture } else { &folded };
    if over > 0 && !all {
        write(Some(Style::Faint), &format!("✓ {over} done (--all draws them)"));
    }
    let lines = shown.tree();
    let left = |line: &TreeLine| {
        format!(
            "{}{} {}",
            line.branches,
            shown.nodes[line.node].state.mark().look().sign,
            shown.nodes[line.node].id
        )
    };
    let widest = lines.iter().map(|line| terminal::columns(&left(line))).max().unwrap_or(0);
    let ids = widest.min(width.map_or(IDS, |width| width / 2).min(IDS));
    for line in &lines {
        let node = &shown.nodes[line.node];
        let left = left(line);
        let pad = " ".repeat(ids.saturating_sub(terminal::columns(&left)));
        let remark = note(node, line);
        let room = if remark.is_empty() { 0 } else { terminal::columns(&remark) + 2 };
        let used = terminal::columns(&left).max(ids) + 2 + room;
        let title = if node.title == node.id.as_str() { "".into() } else { visible(&node.title) };
        let title = match width {
            Some(width) => terminal::fit(&title, width.saturating_sub(used).max(8)).into_owned(),
            None => title.into_owned(),
        };
        let mut whole = format!("{left}{pad}");
        for part in [&title, &remark] {
            if !part.is_empty() {
                whole += "  ";
                whole += part;
            }
        }
        write(Some(node.state.style()), whole.trim_end());
    }
    text
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
