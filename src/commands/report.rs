//! `ralph report`: the report of a run, in full, as text, Markdown, JSON or a page for the browser.

mod html;

use std::path::Path;

use anyhow::{Context, Result};
use chrono::Utc;

use super::{Invocation, status};
use crate::{
    adapters::{state, terminal},
    cli::ReportArgs,
    core::exit::{Exit, Failure},
    view::run_report::{Fold, RunReport},
};

/// A format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportFormat {
    Text,
    Markdown,
    Json,
    Html,
}

impl ReportFormat {
    /// The format that the flags ask for, or the name of the file.
    fn of(options: &ReportArgs) -> Result<ReportFormat> {
        if options.json {
            return Ok(ReportFormat::Json);
        }
        if options.html {
            return Ok(ReportFormat::Html);
        }
        if options.markdown {
            return Ok(ReportFormat::Markdown);
        }
        let Some(file) = &options.file else {
            return Ok(ReportFormat::Text);
        };
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("md" | "markdown") => Ok(ReportFormat::Markdown),
            Some("html" | "htm") => Ok(ReportFormat::Html),
            Some("json") => Ok(ReportFormat::Json),
            Some("txt" | "log") | None => Ok(ReportFormat::Text),
            Some(other) => {
                let message = format!(
                    "no report has the format `{}`; name a file that ends in `.html`, `.md`, \
                     `.json` or `.txt`",
                    other.escape_debug()
                );
                Err(Failure::new(Exit::Usage, message).into())
            }
        }
    }
}

/// Prints or writes the report of a run.
///
/// # Errors
/// No repository, no such run, another format; as the disk gives them.
pub fn run(invocation: &Invocation, options: &ReportArgs) -> Result<Exit> {
    let format = ReportFormat::of(options)?;
    let workspace = invocation.workspace()?;
    let now = Utc::now();
    let number = options.run.unwrap_or(1) as usize;
    let report = || match options.run {
        Some(_) => status::read_report(invocation, number, now),
        None => status::read_newest(invocation, now),
    };
    // A report leaves the machine, so it has no secrets even if the logs may.
    let clean = |text: String| workspace.all_secrets().text(&text);
    let text = match format {
        ReportFormat::Text => clean(page(&report()?, options.file.as_deref(), now)),
        ReportFormat::Markdown => clean(report()?.markdown()),
        ReportFormat::Json => clean(terminal::json(&report()?)),
        // The data of the page has none already; its scripts are the same for all.
        ReportFormat::Html => html::html(invocation, number, now)?,
    };
    match &options.file {
        None => terminal::print(&text)?,
        Some(file) => {
            let path = invocation.file(file)?;
            state::replace(&path, text.as_bytes(), workspace.durable())
                .with_context(|| format!("write `{}`", path.display()))?;
            terminal::say(&format!("report written to `{}`", path.display()));
        }
    }
    Ok(Exit::Success)
}

fn page(report: &RunReport, file: Option<&Path>, now: chrono::DateTime<Utc>) -> String {
    if file.is_some() {
        let lines = report.page(None, Fold::ALL, now);
        return lines.into_iter().map(|line| line.text + "\n").collect();
    }
    status::drawn(&report.page(terminal::stdout_width(), Fold::ALL, now))
}
