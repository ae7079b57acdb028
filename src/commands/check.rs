//! `ralph check`: validates the graph and summarizes it; and the remarks about its tasks, with the facts of
//! this machine.

use std::path::Path;

use anyhow::{Context, Result};
use chrono::Utc;
use serde_json::json;

use super::Invocation;
use crate::{
    adapters::{
        excerpt, process,
        terminal::{self, Paint},
    },
    cli::CheckArgs,
    core::{
        diagnostic::{Diagnostic, Severity, positions, visible},
        exit::Exit,
        graph::{
            TaskGraph,
            lint::{LintFacts, LintFinding, diagnostics, lint, places},
        },
        history::History,
        select::Policy,
    },
    project::{
        agent_faults,
        graph_file::{GraphFile, Rejected},
        shell_faults::{self, ShellFault},
        workspace::{Workspace, view},
    },
    view::lines::counted,
};

/// Validates a file, or the graph of the repository.
///
/// # Errors
/// Errors of the disk. An invalid graph is reported here, with exit code 65.
pub fn run(invocation: &Invocation, options: &CheckArgs) -> Result<Exit> {
    let read = |path: &Path, name: &str| GraphFile::read(path, name);
    let mut found = Vec::new();
    let (file, history, policy) = if let Some(path) = &options.file {
        let whole = std::env::current_dir().context("the working directory is gone")?.join(path);
        let file = read(&whole, &path.display().to_string());
        if let (Ok(file), true) = (&file, options.strict) {
            // Its paths start in its folder, and the settings around it apply.
            let folder = whole.parent().unwrap_or(&whole);
            let around = invocation.workspace().ok().filter(|it| whole.starts_with(it.root()));
            let verify = around.map_or_else(Vec::new, |around| around.config.verify.0);
            found = in_folder(folder, file.graph(), &verify);
        }
        (file.and_then(|file| judged(file, None)), History::default(), Policy::default())
    } else {
        let workspace = invocation.workspace()?;
        let file = read(workspace.graph_path(), &workspace.graph_name());
        let file = file.and_then(|file| judged(file, Some(&workspace)));
        if let (Ok(file), true) = (&file, options.strict) {
            found = remarks(&workspace, file.graph());
        }
        (file, past(&workspace)?, workspace.policy())
    };
    match file {
        Ok(file) => {
            let mut faults = file.warnings().to_vec();
            faults.extend(diagnostics(file.document(), &found));
            valid(&file, &faults, &history, &policy, options.json)?;
            Ok(if found.is_empty() { Exit::Success } else { Exit::Error })
        }
        Err(rejected) => invalid(&rejected, options.json),
    }
}

/// Refuses agents and executors that do not exist, and verify commands that are no valid shell.
fn judged(file: GraphFile, workspace: Option<&Workspace>) -> Result<GraphFile, Box<Rejected>> {
    let executors = workspace.map(|workspace| agent_faults::of_executors(&file, workspace));
    let named = [agent_faults::of_agents(&file, workspace), executors.unwrap_or_default()].concat();
    if let Some(rejected) = agent_faults::rejected(&file, named) {
        return Err(rejected);
    }
    let faults = shell_faults::of_tasks(file.graph(), workspace);
    let place = places(file.document());
    let error = |(number, fault): (&usize, &ShellFault)| {
        let command = format!("`{}` is not a valid shell command", visible(&fault.command));
        Diagnostic::error(command, place(*number, "verify"))
            .label(fault.why.clone())
            .help("correct `verify`: every attempt would fail its verification")
    };
    let rejected = agent_faults::rejected(&file, faults.iter().map(error).collect());
    drop(place);
    rejected.map_or(Ok(file), Err)
}

fn past(workspace: &Workspace) -> Result<History> {
    Ok(workspace.event_store()?.history().clone())
}

fn valid(
    file: &GraphFile,
    faults: &[Diagnostic],
    history: &History,
    policy: &Policy,
    as_json: bool,
) -> Result<()> {
    let graph = file.graph();
    let (tasks, edges, chain) = (graph.tasks().len(), graph.edge_count(), graph.longest_chain());
    let ready = view(file, history, policy).ready(Utc::now()).len();
    if as_json {
        terminal::print(&terminal::json(&json!({
            "valid": true,
            "file": file.name(),
            "tasks": tasks,
            "edges": edges,
            "longest_chain": chain,
            "ready": ready,
            "diagnostics": listed(file.name(), file.text(), faults),
        })))?;
        return Ok(());
    }
    draw(file.name(), file.text(), faults);
    let dependencies = if edges == 1 { "dependency" } else { "dependencies" };
    terminal::print(&format!(
        "{}: {}, {edges} {dependencies}, longest chain {chain}, {ready} ready now\n",
        file.name(),
        counted(tasks, "task"),
    ))?;
    Ok(())
}

fn invalid(rejected: &Rejected, as_json: bool) -> Result<Exit> {
    let Rejected { name, text, faults } = rejected;
    if as_json {
        let faults = listed(name, text, faults);
        let report = json!({ "valid": false, "file": name, "diagnostics": faults });
        terminal::print(&terminal::json(&report))?;
        return Ok(Exit::Invalid);
    }
    draw(name, text, faults);
    let errors = faults.iter().filter(|fault| fault.severity == Severity::Error).count();
    terminal::say(&format!("\n{name}: {}", counted(errors, "error")));
    Ok(Exit::Invalid)
}

fn draw(name: &str, text: &str, faults: &[Diagnostic]) {
    if !faults.is_empty() {
        let color = Paint::for_stream(&std::io::stderr()).is_on();
        terminal::say(&excerpt::render(name, text, faults, color));
    }
}

fn listed(name: &str, text: &str, faults: &[Diagnostic]) -> Vec<serde_json::Value> {
    let position = positions(text);
    faults
        .iter()
        .map(|fault| {
            let (line, column) = position(fault.at.start);
            json!({
                "severity": fault.severity,
                "message": fault.message,
                "file": name,
                "line": line,
                "column": column,
                "help": fault.help,
                "replacement": fault.replacement,
            })
        })
        .collect()
}

/// Returns the findings about the graph of a repository.
pub(super) fn remarks(workspace: &Workspace, graph: &TaskGraph) -> Vec<LintFinding> {
    in_folder(workspace.root(), graph, &workspace.config.verify.0)
}

fn in_folder(folder: &Path, graph: &TaskGraph, verify: &[String]) -> Vec<LintFinding> {
    let has_program = |program: &str| process::resolve(program, folder).is_ok();
    let has_path = |path: &str| folder.join(path).symlink_metadata().is_ok();
    lint(graph, &LintFacts { verify, has_program: &has_program, has_path: &has_path })
}
