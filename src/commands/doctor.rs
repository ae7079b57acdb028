//! `ralph doctor`: finds obstacles to a run.
//!
//! Each check is a function that returns a finding, whose texts are in `core/finding`. A fault
//! would end a run, with its exit code; a warning might not. Trial attempt findings are checked
//! nowhere else. The repository is not changed.

mod machine;
mod planted;
mod project;
mod report;
mod trial;

pub(super) use planted::check_notice;

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Invocation, few, probe::ProbeFolder, status};
use crate::{
    adapters::terminal::{self, Paint, Style, columns, visible, wrap},
    cli::DoctorArgs,
    core::{
        agents::agent_command::AgentCommand,
        executor::{Executor, LOCAL},
        exit::{self, Exit},
        finding::{Finding, FindingKind, FindingLevel},
        graph::task::Task,
        select::Policy,
    },
    project::{
        attempt, executors, fatal,
        workspace::{Workspace, note_sandbox},
    },
    runner::{self, RunOptions},
    view::lines::counted,
};
use trial::TrialPlan;

/// How many names are in a finding.
const NAMED: usize = 5;

/// Runs all checks.
///
/// # Errors
/// An invalid agent; errors of standard output. Findings are printed and set the exit code.
pub fn run(invocation: &Invocation, options: DoctorArgs) -> Result<Exit> {
    let given = super::given_agent(invocation, options.agent)?;
    let findings = findings(invocation, given, options.run_on.as_deref(), options.quick);
    let would_end = findings.iter().find_map(fault);
    let is_wrong = findings.iter().any(|finding| finding.level == FindingLevel::Error);
    let exit = would_end.unwrap_or(if is_wrong { Exit::Error } else { Exit::Success });
    if let Some(path) = &options.report {
        report::write(invocation, &findings, path)?;
    }
    terminal::print(&if options.json {
        let list: Vec<Value> = findings.iter().map(as_value).collect();
        terminal::json(&json!({
            "would_start": would_end.is_none(),
            "exit_code": exit.code(),
            "findings": list,
        }))
    } else {
        let kinds = [FindingKind::VerifyFails, FindingKind::OnlyInCheckout].map(Some);
        let red = findings.iter().any(|it| kinds.contains(&it.kind));
        text(&findings, would_end, red, options.quiet)
    })?;
    Ok(exit)
}

/// The exit code of a run that a finding would end.
fn fault(finding: &Finding) -> Option<Exit> {
    match finding.level {
        FindingLevel::Fault(exit) => Some(exit),
        FindingLevel::Ok | FindingLevel::Remark | FindingLevel::Warning | FindingLevel::Error => {
            None
        }
    }
}

/// The word and the style of a finding.
fn mark(finding: &Finding) -> (&'static str, Style) {
    match finding.level {
        FindingLevel::Ok => ("ok", Style::Good),
        FindingLevel::Remark | FindingLevel::Warning => ("warning", Style::Warn),
        FindingLevel::Error => ("error", Style::Bad),
        FindingLevel::Fault(_) => ("fault", Style::Bad),
    }
}

fn as_value(finding: &Finding) -> Value {
    json!({
        "about": finding.subject,
        "mark": mark(finding).0,
        "exit_code": fault(finding).map(Exit::code),
        "found": finding.message,
        "cure": (!finding.remedy.is_empty()).then_some(&finding.remedy),
    })
}

/// The finding for an error.
fn of_error(kind: FindingKind, error: &anyhow::Error) -> Finding {
    kind.of_error(&fatal::summary(error), exit::of_error(error))
}

/// All findings, in the order a run would hit them: the first fault sets its exit code.
fn findings(
    invocation: &Invocation,
    given: Option<Vec<AgentCommand>>,
    run_on: Option<&str>,
    is_quick: bool,
) -> Vec<Finding> {
    let workspace = match invocation.workspace() {
        Ok(workspace) => workspace,
        Err(error) => {
            let kind = match exit::of_error(&error) {
                Exit::Invalid => FindingKind::Settings,
                _ => FindingKind::NoRepository,
            };
            return vec![of_error(kind, &error)];
        }
    };
    let workspace = &workspace;
    let bench = match ProbeFolder::new(&workspace.config) {
        Ok(bench) => bench,
        Err(error) => return vec![of_error(FindingKind::NoTemporaryFolder, &error)],
    };
    let past = status::look(workspace);
    let graph = attempt::graph(workspace);
    let policy = RunOptions { agents: given, ..RunOptions::default() }.policy(workspace);
    let mut findings = vec![
        Finding::ok("repository", workspace.root().display().to_string()),
        project::graph(workspace, &graph, &past),
    ];
    let first = [project::settings, project::jobs, project::halves];
    findings.extend(first.into_iter().filter_map(|check| check(workspace)));
    let tasks = graph.as_ref().map_or(&[][..], |file| file.graph().tasks());
    let mut seen: Vec<&AgentCommand> = Vec::new();
    for (call, hint) in runner::agents(&policy, tasks, workspace, run_on) {
        if !seen.contains(&call) {
            seen.push(call);
            findings.extend(machine::agent(workspace, &bench, call, &hint));
        }
    }
    let open = runner::open(&policy, tasks).into_iter();
    let needed = executors::needed(workspace, open, run_on).unwrap_or_default();
    findings.extend(machine::permissions(&seen, &needed));
    if let Ok(file) = &graph {
        findings.extend(project::limits(&policy, tasks));
        findings.extend(project::commands(workspace, file, &policy));
    }
    findings.extend(project::reviews(workspace, (&policy, tasks), run_on));
    findings.extend(project::unrun(workspace, tasks));
    findings.extend([project::logs(workspace), project::runs(workspace, &past)]);
    if let (Ok(file), Ok((store, _))) = (&graph, &past) {
        findings.push(project::prompts(workspace, file, store.history()));
        findings.extend(project::programs(workspace, file));
    }
    if !is_quick {
        findings.extend(project::notifiers(workspace));
    }
    if let Ok((store, _)) = &past {
        findings.extend(machine::leftovers(workspace, store.history()));
    }
    findings.extend(tried(workspace, &bench, (&policy, tasks), run_on, is_quick));
    findings.extend([
        project::head(workspace),
        project::work_tree(workspace),
        project::own_files(workspace),
        machine::earlier(workspace),
        machine::room(workspace),
        machine::locks(workspace),
    ]);
    findings
}

/// Makes a trial attempt, also at the executors that the unfinished tasks need.
fn tried(
    workspace: &Workspace,
    bench: &ProbeFolder,
    (policy, tasks): (&Policy, &[Task]),
    run_on: Option<&str>,
    is_quick: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut executors, mut verifiers): (Vec<Executor>, Vec<Executor>) = (Vec::new(), Vec::new());
    if workspace.config.is_isolated() && !is_quick {
        let open = runner::open(policy, tasks).into_iter();
        let found = executors::needed(workspace, open, run_on).and_then(|needed| {
            executors = needed;
            let usual = run_on.unwrap_or(&workspace.config.run_on);
            let usual =
                executors.is_empty().then(|| executors::find(&workspace.config, Some(usual)));
            for executor in executors.iter().cloned().map(Ok).chain(usual) {
                let executor = executor?;
                note_sandbox(workspace, &executor);
                if !verifiers.iter().any(|known| known.name == executor.name) {
                    verifiers.push(executor);
                }
            }
            Ok(())
        });
        if let Err(error) = found {
            findings.push(of_error(FindingKind::UnknownExecutor, &error));
        }
    }
    let with_agents = executors.into_iter().filter(|it| it.name != LOCAL).map(|executor| {
        let agents = runner::agents_at(policy, tasks, workspace, run_on, &executor);
        (executor, agents)
    });
    let plan = TrialPlan { verifiers, executors: with_agents.collect() };
    findings.extend(trial::findings(workspace, bench, &plan));
    findings
}

/// The page for people; `red` is whether a verify command fails without any work.
fn text(findings: &[Finding], would_end: Option<Exit>, red: bool, quiet: bool) -> String {
    let paint = Paint::for_stream(&std::io::stdout());
    let width = findings.iter().map(|finding| columns(finding.subject)).max().unwrap_or(0);
    let (mut text, mut warnings) = (String::new(), 0);
    for finding in findings {
        let Finding { subject, level, message, remedy, .. } = finding;
        if quiet && *level == FindingLevel::Ok {
            continue;
        }
        warnings += usize::from(*level == FindingLevel::Warning);
        let (word, style) = mark(finding);
        let word = paint.text(style, format!("{word:<7}"));
        let indent = width + 11;
        let screen = terminal::stdout_width().unwrap_or(usize::MAX);
        let room = screen.saturating_sub(indent).max(20);
        let broken = |text: &str| wrap(&visible(text), room).join(&format!("\n{:indent$}", ""));
        let _ = writeln!(text, "{word}  {subject:<width$}  {}", broken(message));
        if !remedy.is_empty() {
            let _ = writeln!(text, "{:indent$}{}", "", broken(&format!("-> {remedy}")));
        }
    }
    let warnings = match warnings {
        0 => String::new(),
        count => format!(", with {}", counted(count, "warning")),
    };
    let is_wrong = findings.iter().any(|finding| finding.level == FindingLevel::Error);
    if let Some(exit) = would_end {
        let _ = writeln!(text, "a run would end with exit code {}", exit.code());
    } else if is_wrong {
        let _ = writeln!(text, "a run would start{warnings}, and complete whatever the work is");
    } else if !quiet || !warnings.is_empty() {
        let red =
            if red { ", and end because a verify command fails without any work" } else { "" };
        let _ = writeln!(text, "a run would start{warnings}{red}");
    }
    text
}
