//! `ralph doctor`: what would keep a run from working, found before the night and not after it.
//!
//! Every check is a function that gives one finding. A fault is what a run would end with, with
//! its exit code; what may still go well is a warning. Writes nothing into the repository: what has
//! to be tried is tried in a temporary folder.

mod isolated;
mod bench;
mod commits;
mod machine;
mod program;
mod project;
mod notifiers;

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Invocation, status};
use crate::{
    adapters::terminal::{self, Paint, Style, columns, visible, wrap},
    cli::DoctorArgs,
    core::{
        agents::agent_command::AgentCommand,
        exit::{self, Exit},
    },
    project::{attempt, fatal},
    runner::{self, RunOptions},
    view::lines::counted,
};
use bench::ProbeFolder;
pub(super) use program::login_sign;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FindingLevel {
    /// All right.
    Ok,
    /// A run would start, and may fail by it.
    Warning,
    /// A run would end with this code.
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

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// What was looked at.
    about: &'static str,
    mark: FindingLevel,
    /// What is so.
    found: String,
    /// What to do about it; empty where nothing has to be done.
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

    /// An error that would end a run. What to do stands behind a semicolon in it; where nothing
    /// does, it is `cure`.
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

/// Looks at everything a run depends on.
///
/// # Errors
/// An agent that is none; standard output that cannot be written to. What is wrong is said, and is
/// the exit code.
pub fn run(here: &Invocation, options: DoctorArgs) -> Result<Exit> {
    let given = super::run::given_agent(options.agent, options.agent_name.as_deref())?;
    let findings = findings(here, given);
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

/// All findings, those first that a run meets first: its exit code is that of the first fault.
fn findings(here: &Invocation, given: Option<Vec<AgentCommand>>) -> Vec<Finding> {
    let workspace = match here.workspace() {
        Ok(workspace) => workspace,
        Err(error) => {
            let cure = "until then nothing else can be looked at";
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
            let cure = "make room there, or name another folder in `TMPDIR`";
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
    findings.extend(project::halves(workspace));
    let tasks = graph.as_ref().map_or(&[][..], |file| file.graph().tasks());
    let mut seen: Vec<&AgentCommand> = Vec::new();
    for (call, hint) in runner::agents(&policy, tasks) {
        if !seen.contains(&call) {
            seen.push(call);
            findings.extend(program::all(workspace, &bench, call, &hint));
        }
    }
    if graph.is_ok() {
        findings.extend(project::limits(&policy, tasks));
    }
    findings.extend([project::logs(workspace), project::runs(workspace, &past)]);
    if let (Ok(file), Ok((chronicle, _))) = (&graph, &past) {
        findings.push(project::prompts(workspace, file, chronicle.history()));
        findings.push(project::verify(workspace, file));
    }
    findings.extend(notifiers::all(workspace));
    if let Ok((chronicle, _)) = &past {
        findings.extend(isolated::all(workspace, &bench, graph.as_ref().ok(), chronicle.history()));
    }
    findings.extend([
        commits::committer(workspace),
        commits::head(workspace),
        commits::work_tree(workspace),
        project::own_files(workspace),
        commits::signing(workspace, &bench),
        commits::hooks(workspace, &bench),
        machine::earlier(workspace, &bench),
        machine::room(workspace),
        machine::locks(workspace),
    ]);
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

/// What an error says and what it says to do; `cure`, where it says nothing.
fn parts<'a>(text: &'a str, cure: &'a str) -> (&'a str, &'a str) {
    text.split_once("; ").unwrap_or((text, cure))
}

/// The first few of many, and how many more there are.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
