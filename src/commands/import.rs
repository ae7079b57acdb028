//! `ralph import`: adds the tasks of a backlog to the graph.

mod report;

use anyhow::Result;

use report::{ImportReport, ReadSource};

use super::{Invocation, inside::SurroundingAttempt, success};
use crate::{
    adapters::terminal,
    cli::ImportArgs,
    core::{
        exit::{Exit, Failure},
        import::plan::{SourceFile, changed_fields},
        setup,
    },
    project::{graph_file::GraphFile, import},
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
    let directory = invocation.directory()?;
    let (mut files, mut skipped) = (Vec::<SourceFile>::new(), Vec::new());
    let name = workspace.graph_name();
    for source in &options.sources {
        let path = if source.as_os_str() == "-" { source.clone() } else { directory.join(source) };
        let found = import::gather(workspace.root(), &path)?;
        if found.files.iter().any(|file| file.name == name) {
            let message =
                format!("`{name}` is the graph that the tasks would be added to; name other files");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        for file in found.files {
            if files.iter().all(|known| known.name != file.name) {
                files.push(file);
            }
        }
        skipped.extend(found.skipped);
    }
    let file = import::graph(&workspace)?;
    let is_example = |file: &&GraphFile| setup::is_example(file.text());
    let base = file.as_ref().filter(|file| !is_example(file));
    let plan = import::plan(&files, &import::existing(base), &options.tags)?;
    let examples = file.as_ref().filter(is_example).filter(|_| !plan.new_tasks().is_empty());
    let replaced_examples = examples.map_or(0, |file| file.graph().tasks().len());
    let changed = base.map_or_else(Vec::new, |base| changed_fields(&plan, base.graph()));
    let is_new_graph = base.is_none();
    if !options.dry_run {
        import::add(&workspace, file, &plan)?;
    }
    let report = ImportReport {
        graph: name,
        dry_run: options.dry_run,
        replaced_examples,
        sources: files.iter().map(ReadSource::of).collect(),
        skipped,
        plan,
        changed,
        is_new_graph,
    };
    let text = if options.json { terminal::json(&report) } else { report.text() };
    success(&text)
}
