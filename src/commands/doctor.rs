//! `ralph doctor`: finds what would stop a run.
//!
//! Each check is a function that returns a finding. A fault would end a run, with its exit code; a
//! warning might not. Trials run in a temporary folder; the repository is not changed.

mod machine;
mod project;
mod trial;

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Invocation, few, status};
use crate::{
    adapters::terminal::{self, Paint, Style, columns, visible, wrap},
    cli::DoctorArgs,
    core::{
        agents::agent_command::AgentCommand,
        executor::LOCAL,
        exit::{self, Exit},
        graph::task::Task,
        select::Policy,
    },
    project::{attempt, executors, fatal, workspace::Workspace},
    runner::{self, RunOptions},
    view::lines::counted,
};
pub(super) use machine::login_sign;
use trial::{ProbeFolder, TrialPlan};

/// How many names are in a finding.
const NAMED: usize = 5;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FindingLevel {
    /// No problem.
    Ok,
    /// A run would start and might fail later.
    Warning,
    /// A run would end with this exit code.
    Fault(Exit),
}

impl FindingLevel {
    fn word(self) -> &'static str {
        match self {
            FindingLevel::Ok => "ok",
            FindingLevel::Warning => "warning",
            FindingLevel::Fault(_) => "fault",
        }
    }

    fn style(self) -> Style {
        match self {
            FindingLevel::Ok => Style::Good,
            FindingLevel::Warning => Style::Warn,
            FindingLevel::Fault(_) => Style::Bad,
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The subject of the check.
    about: &'static str,
    mark: FindingLevel,
    /// The observation.
    found: String,
    /// The remedy; empty if none is needed.
    cure: String,
}

impl Finding {
    fn ok(about: &'static str, found: impl Into<String>) -> Finding {
        Finding { about, mark: FindingLevel::Ok, found: found.into(), cure: String::new() }
    }

    fn warning(about: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Finding {
        Finding { about, mark: FindingLevel::Warning, found: found.into(), cure: cure.into() }
    }

    fn fault(
        about: &'static str,
        exit: Exit,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        Finding { about, mark: FindingLevel::Fault(exit), found: found.into(), cure: cure.into() }
    }

    /// A fault for an error that would end a run. The remedy is the text after the first semicolon, or
    /// `cure`.
    fn of_error(about: &'static str, error: &anyhow::Error, cure: &str) -> Finding {
        let summary = fatal::summary(error);
        let (found, cure) = parts(&summary, cure);
        Finding::fault(about, exit::of_error(error), found, cure)
    }

    fn as_value(&self) -> Value {
        let code = match self.mark {
            FindingLevel::Fault(exit) => Some(exit.code()),
            FindingLevel::Ok | FindingLevel::Warning => None,
        };
        json!({
            "about": self.about,
            "mark": self.mark.word(),
            "exit_code": code,
            "found": self.found,
            "cure": (!self.cure.is_empty()).then_some(&self.cure),
        })
    }
}

/// Runs all checks.
///
/// # Errors
/// An invalid agent; errors of standard output. Findings are printed and set the exit code.
pub fn run(invocation: &Invocation, options: DoctorArgs) -> Result<Exit> {
    let given = super::run::given_agent(invocation, options.agent)?;
    let findings = findings(invocation, given, options.run_on.as_deref(), options.quick);
    let exit = findings.iter().find_map(|finding| match finding.mark {
        FindingLevel::Fault(exit) => Some(exit),
        FindingLevel::Ok | FindingLevel::Warning => None,
    });
    let exit = exit.unwrap_or(Exit::Success);
    terminal::print(&if options.json {
        let list: Vec<Value> = findings.iter().map(Finding::as_value).collect();
        terminal::json(&json!({
            "would_start": exit == Exit::Success,
            "exit_code": exit.code(),
            "findings": list,
        }))
    } else {
        text(&findings, exit, options.quiet)
    })?;
    Ok(exit)
}

/// All findings, in the order in which a run would hit them: the first fault sets its exit code.
fn findings(
    invocation: &Invocation,
    given: Option<Vec<AgentCommand>>,
    run_on: Option<&str>,
    is_quick: bool,
) -> Vec<Finding> {
    let workspace = match invocation.workspace() {
        Ok(workspace) => workspace,
        Err(error) => {
            let cure = "no other check can run until this is fixed";
            let about = match exit::of_error(&error) {
                Exit::Invalid => "settings",
                _ => "repository",
            };
            return vec![Finding::of_error(about, &error, cure)];
        }
    };
    let workspace = &workspace;
    let bench = match ProbeFolder::new(&workspace.config) {
        Ok(bench) => bench,
        Err(error) => {
            let cure = "free space there, or set `TMPDIR` to another folder";
            return vec![Finding::of_error("temporary folder", &error, cure)];
        }
    };
    let past = status::look(workspace);
    let graph = attempt::graph(workspace);
    let policy = RunOptions { agents: given, ..RunOptions::default() }.policy(workspace);
    let mut findings = vec![
        Finding::ok("repository", workspace.root().display().to_string()),
        project::graph(workspace, &graph, &past),
    ];
    findings.extend(project::jobs(workspace).into_iter().chain(project::halves(workspace)));
    let tasks = graph.as_ref().map_or(&[][..], |file| file.graph().tasks());
    let mut seen: Vec<&AgentCommand> = Vec::new();
    for (call, hint) in runner::agents(&policy, tasks, workspace, run_on) {
        if !seen.contains(&call) {
            seen.push(call);
            findings.extend(machine::agent(workspace, &bench, call, &hint));
        }
    }
    findings.extend(machine::permissions(&seen));
    if let Ok(file) = &graph {
        findings.extend(project::limits(&policy, tasks));
        findings.extend(project::commands(workspace, file, &policy));
    }
    findings.extend([project::logs(workspace), project::runs(workspace, &past)]);
    if let (Ok(file), Ok((store, _))) = (&graph, &past) {
        findings.push(project::prompts(workspace, file, store.history()));
        findings.push(project::verify(workspace, file));
    }
    findings.extend(project::notifiers(workspace));
    if let Ok((store, _)) = &past {
        findings.extend(machine::slots(workspace, &bench, store.history()));
    }
    findings.extend(tried(workspace, &bench, (&policy, tasks), run_on, is_quick));
    findings.extend([
        project::committer(workspace),
        project::head(workspace),
        project::work_tree(workspace),
        project::own_files(workspace),
        machine::earlier(workspace, &bench),
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
    let (mut findings, mut executors) = (Vec::new(), Vec::new());
    let runs_commands = workspace.config.is_isolated() && !is_quick;
    if runs_commands {
        let open = runner::open(policy, tasks).into_iter();
        match executors::needed(workspace, open, run_on) {
            Ok(needed) => executors = needed,
            Err(error) => {
                findings.push(Finding::of_error("executor", &error, "correct `run_on`"));
            }
        }
    }
    let with_agents = executors.into_iter().filter(|it| it.name != LOCAL).map(|executor| {
        let agents = runner::agents_at(policy, tasks, workspace, run_on, &executor);
        (executor, agents)
    });
    let plan = TrialPlan { runs_commands, executors: with_agents.collect() };
    findings.extend(trial::findings(workspace, bench, &plan));
    findings
}

fn text(findings: &[Finding], exit: Exit, quiet: bool) -> String {
    let paint = Paint::for_stream(&std::io::stdout());
    let width = findings.iter().map(|finding| columns(finding.about)).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { about, mark, found, cure } in findings {
        if quiet && *mark == FindingLevel::Ok {
            continue;
        }
        let word = paint.text(mark.style(), format!("{:<7}", mark.word()));
        let indent = width + 11;
        let screen = terminal::stdout_width().unwrap_or(usize::MAX);
        let room = screen.saturating_sub(indent).max(20);
        let broken = |text: &str| wrap(&visible(text), room).join(&format!("\n{:indent$}", ""));
        let _ = writeln!(text, "{word}  {about:<width$}  {}", broken(found));
        if !cure.is_empty() {
            let _ = writeln!(text, "{:indent$}{}", "", broken(&format!("-> {cure}")));
        }
    }
    let warnings = findings.iter().filter(|finding| finding.mark == FindingLevel::Warning).count();
    let warnings = match warnings {
        0 => String::new(),
        count => format!(", with {}", counted(count, "warning")),
    };
    if exit != Exit::Success {
        let _ = writeln!(text, "a run would end with exit code {}", exit.code());
    } else if !quiet || !warnings.is_empty() {
        let _ = writeln!(text, "a run would start{warnings}");
    }
    text
}

/// The observation and the remedy of an error text; `cure` if it has no remedy.
fn parts<'a>(text: &'a str, cure: &'a str) -> (&'a str, &'a str) {
    text.split_once("; ").unwrap_or((text, cure))
}
