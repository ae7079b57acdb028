//! `ralph import`: adds the tasks of a backlog to the graph.

mod report;

use anyhow::{Context, Result};

use super::{Invocation, inside::SurroundingAttempt};
use crate::{
    adapters::terminal,
    cli::ImportArgs,
    core::{
        exit::Exit,
        import::plan::{ImportOptions, ImportPlan},
    },
    project::{
        graph_file::GraphFile,
        import::{self, SourceText},
        workspace::Workspace,
    },
};

/// Reads backlogs and adds their tasks, or shows what would be added.
///
/// # Errors
/// A source that cannot be read, an invalid graph, errors of the disk; inside an attempt.
pub fn run(invocation: &Invocation, options: &ImportArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    if !options.dry_run
        && let Some(around) = SurroundingAttempt::of(&workspace)
    {
        return Err(around.refuse("import"));
    }
    let mut texts: Vec<SourceText> = Vec::new();
    let mut others = Vec::new();
    let directory = invocation.directory()?;
    for source in &options.sources {
        let is_input = source.as_os_str() == "-";
        let path = if is_input { source.clone() } else { directory.join(source) };
        let (found, skipped) = import::gather(workspace.root(), &path, options.format)?;
        let is_new = |text: &SourceText| texts.iter().all(|known| known.name != text.name);
        let found: Vec<SourceText> = found.into_iter().filter(is_new).collect();
        texts.extend(found);
        others.extend(skipped);
    }
    let file = graph(&workspace)?;
    let wishes = ImportOptions {
        story: options.story.clone(),
        milestone: options.milestone.clone(),
        tags: options.tags.clone(),
        nested: options.nested,
    };
    let plan = import::plan(&texts, &import::existing(file.as_ref()), &wishes)?;
    let name = workspace.graph_name();
    let is_fresh = file.is_none();
    let mut text = report::sources(&texts, &plan, options.dry_run);
    text += &report::losses(&texts, &plan, is_fresh, &name);
    text += &report::others(&others);
    if options.dry_run {
        text += &report::result(&plan, &name, true);
        terminal::print(&text)?;
        return Ok(Exit::Success);
    }
    add(&workspace, file, &plan)?;
    text += &report::result(&plan, &name, false);
    terminal::print(&text)?;
    Ok(Exit::Success)
}

/// Reads the graph; none if there is none yet.
fn graph(workspace: &Workspace) -> Result<Option<GraphFile>> {
    if import::exists(workspace.graph_path()) { workspace.graph().map(Some) } else { Ok(None) }
}

fn add(workspace: &Workspace, file: Option<GraphFile>, plan: &ImportPlan) -> Result<()> {
    import::add(workspace, file, plan).context("import")
}
