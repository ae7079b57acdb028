//! `ralph import`: adds the tasks of a backlog to the graph.

mod report;

use anyhow::Result;

use report::ImportReport;

use super::{Invocation, inside::SurroundingAttempt, success};
use crate::{
    adapters::terminal,
    cli::ImportArgs,
    core::{
        exit::{Exit, Failure},
        import::plan::{ImportOptions, changed_fields},
        setup,
    },
    project::{
        graph_file::GraphFile,
        import::{self, SourceText},
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
    let directory = invocation.directory()?;
    let mut texts: Vec<SourceText> = Vec::new();
    let mut skipped = Vec::new();
    let name = workspace.graph_name();
    for source in &options.sources {
        let path = if source.as_os_str() == "-" { source.clone() } else { directory.join(source) };
        let (found, others) = import::gather(workspace.root(), &path, options.format)?;
        if found.iter().any(|text| text.name == name) {
            let message =
                format!("`{name}` is the graph that the tasks would be added to; name other files");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let is_new = |text: &SourceText| texts.iter().all(|known| known.name != text.name);
        let found: Vec<SourceText> = found.into_iter().filter(is_new).collect();
        texts.extend(found);
        skipped.extend(others);
    }
    let file = import::graph(&workspace)?;
    let wishes = wishes(options);
    let is_example = |file: &&GraphFile| setup::is_example(file.text());
    let base = file.as_ref().filter(|file| !is_example(file));
    let plan = import::plan(&texts, &import::existing(base), &wishes)?;
    let mut report = ImportReport::new(&name, options.dry_run);
    if let Some(examples) = file.as_ref().filter(is_example)
        && !plan.new_tasks().is_empty()
    {
        report.replaces(examples.graph().tasks().len());
    }
    report.add(&texts, &skipped, &plan, base.is_none());
    if let Some(base) = base {
        report.changed = changed_fields(&plan, base.graph());
    }
    if !options.dry_run {
        import::add(&workspace, file, &plan)?;
    }
    let text = if options.json { terminal::json(&report) } else { report.text() };
    success(&text)
}

/// What the command line sets for all tasks.
fn wishes(options: &ImportArgs) -> ImportOptions {
    ImportOptions {
        story: options.story.clone(),
        milestone: options.milestone.clone(),
        tags: options.tags.clone(),
        nested: options.nested,
    }
}
