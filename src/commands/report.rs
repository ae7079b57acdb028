//! `ralph report`: the report of a run, in full, as text, Markdown, JSON, or a page for the browser: that
//! of `ralph serve` in one file, with its data.

use std::path::Path;

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{
    Invocation,
    page_data::{DrawnGraph, PageData},
    status,
};
use crate::{
    adapters::{state, terminal},
    cli::{By, ReportArgs},
    core::exit::{Exit, fail},
    report::page,
    view::{page::Fold, run_report::RunReport, state::for_scripts},
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
        let ending = options.file.as_ref().and_then(|file| file.extension()?.to_str());
        match ending {
            _ if options.json => Ok(ReportFormat::Json),
            _ if options.html => Ok(ReportFormat::Html),
            _ if options.markdown => Ok(ReportFormat::Markdown),
            Some("md" | "markdown") => Ok(ReportFormat::Markdown),
            Some("html" | "htm") => Ok(ReportFormat::Html),
            Some("json") => Ok(ReportFormat::Json),
            Some("txt" | "log") | None => Ok(ReportFormat::Text),
            Some(other) => fail(
                Exit::Usage,
                format!(
                    "no report has the format `{}`; name a file that ends in `.html`, `.md`, \
                     `.json` or `.txt`",
                    other.escape_debug()
                ),
            ),
        }
    }
}

/// Prints or writes the report of a run.
///
/// # Errors
/// No repository, no such run, another format; errors of the disk.
pub fn run(invocation: &Invocation, options: &ReportArgs) -> Result<Exit> {
    let format = ReportFormat::of(options)?;
    let workspace = invocation.workspace()?;
    let now = Utc::now();
    let number = options.run.unwrap_or(1) as usize;
    let is_json = format == ReportFormat::Json;
    let read = if is_json { status::read_chosen } else { status::read_for_person };
    let report = || read(invocation, options.run, now);
    let clean = |text: String| workspace.secrets().text(&text);
    let text = match format {
        ReportFormat::Text => clean(page(&report()?, options.file.as_deref(), now)),
        ReportFormat::Markdown => clean(report()?.markdown(now)),
        ReportFormat::Json => clean(terminal::json(&report()?)),
        // The data of the page has none already; its scripts are the same for all.
        ReportFormat::Html => html(invocation, number, now)?,
    };
    match &options.file {
        None => terminal::print(&text)?,
        Some(file) => {
            let path = invocation.file(file)?;
            state::replace(&path, text.as_bytes())
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
    status::drawn(&report.page(terminal::stdout_width(), Fold::ALL, now), None)
}

/// The size in bytes that a page should not exceed, so that mail and chats take it; the page about a
/// large graph may.
const PAGE: usize = 300_000;
/// The bytes of data of the first try of a page; they are packed to an eighth or less.
const ROOM: usize = 1_500_000;
/// The bytes of data at which no more is left out.
const LEAST: usize = 100_000;
/// The bytes of a patch, and of the end of an output.
const PART: usize = 8 * 1024;
/// The bytes of the end of a transcript, which has the results of tools.
const TRANSCRIPT: usize = 24 * 1024;
/// The number of journal lines.
const LINES: usize = 400;

/// How many of the first answers the page is about nothing without: about the page, the report, the
/// timeline and the graph.
const NEEDED: usize = 4;

/// The answers of the page with their addresses, the most important first.
type PageAnswers = Vec<(String, Value)>;

/// The answers by address, as far as there is room.
fn within(answers: &PageAnswers, room: usize) -> Value {
    let mut size = 0;
    let fits = |(at, (_, answer)): &(usize, &(String, Value))| {
        let own = answer.to_string().len();
        let is_kept = *at < NEEDED || size + own <= room;
        size += if is_kept { own } else { 0 };
        is_kept
    };
    let kept = answers.iter().enumerate().filter(fits);
    Value::Object(kept.map(|(_, (address, answer))| (address.clone(), answer.clone())).collect())
}

/// Returns the page about a run, counted back from the newest, which is 1. The most important part
/// comes first: tasks and attempts of the run, then patches and outputs, then the journal.
///
/// # Errors
/// There is no such run; errors of the disk.
pub(super) fn html(invocation: &Invocation, number: usize, now: DateTime<Utc>) -> Result<String> {
    let data = PageData::open(invocation)?;
    let answers = answers(&data, number, now)?;
    let mut room = ROOM;
    loop {
        let text = page::in_one_file(&data.text(&within(&answers, room)))?;
        if text.len() <= PAGE || room <= LEAST {
            return Ok(text);
        }
        room /= 2;
    }
}

/// The answers about a run.
fn answers(data: &PageData, number: usize, now: DateTime<Utc>) -> Result<PageAnswers> {
    let about = json!({
        "acts": false,
        "root": data.root(),
        "version": env!("CARGO_PKG_VERSION"),
        "made_at": now,
        "table": for_scripts(),
    });
    let report = data.now(number)?;
    let timeline = data.timeline(number)?;
    let tasks = tasks_of(&report, &timeline);
    let attempts: Vec<String> = rows(&timeline, "bars")
        .map(|bar| format!("{}.{}", bar["task_id"].as_str().unwrap_or_default(), bar["attempt"]))
        .collect();
    let mut answers: PageAnswers = vec![
        ("page".to_owned(), about),
        ("now".to_owned(), report),
        ("timeline".to_owned(), timeline),
    ];
    // A task that is gone, or a file that was removed, is missing in the report too.
    let mut offer = |address: String, answer: Result<Value>| {
        answers.extend(answer.ok().map(|answer| (address, answer)));
    };
    offer("review".to_owned(), data.review());
    offer("graph".to_owned(), data.graph(Some(DrawnGraph::default())));
    for (by, name) in
        [(By::Task, "task"), (By::Day, "day"), (By::Agent, "agent"), (By::Story, "story")]
    {
        offer(format!("costs?by={name}"), data.costs(by));
    }
    for id in &tasks {
        offer(format!("tasks/{id}"), data.task(id));
    }
    let mut commits = Vec::new();
    for name in &attempts {
        let attempt = data.attempt(name).map(without_changes);
        if let Ok(attempt) = &attempt {
            let ids = rows(attempt, "commits").filter_map(|commit| commit["id"].as_str());
            commits.extend(ids.map(str::to_owned));
        }
        offer(format!("attempts/{name}"), attempt);
    }
    for id in commits {
        offer(format!("commits/{id}"), data.patch(&id).map(|patch| cut(patch, "text")));
    }
    for name in &attempts {
        let transcript = data.transcript(name, None).map(last_pieces);
        offer(format!("attempts/{name}/transcript"), transcript);
    }
    offer("journal".to_owned(), data.journal(None, None).map(newest_lines));
    Ok(answers)
}

/// An attempt without its lines of the journal, which the page shows with the others.
fn without_changes(mut attempt: Value) -> Value {
    if let Some(fields) = attempt.as_object_mut() {
        fields.remove("changes");
    }
    attempt
}

fn rows<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// The tasks that a run is about: those that it worked on, and those that it names.
fn tasks_of(report: &Value, timeline: &Value) -> Vec<String> {
    let mut tasks: Vec<String> = Vec::new();
    let worked = rows(timeline, "bars").map(|bar| &bar["task_id"]);
    let needed = rows(report, "attention").map(|item| &item["task_id"]);
    let next = rows(report, "upcoming").map(|item| &item["id"]);
    for id in worked.chain(needed).chain(next).filter_map(Value::as_str) {
        if !tasks.iter().any(|known| known == id) {
            tasks.push(id.to_owned());
        }
    }
    tasks
}

/// The beginning of a text in an answer.
fn cut(mut answer: Value, name: &str) -> Value {
    let text = answer[name].as_str().unwrap_or_default();
    if text.len() > PART {
        let end = (0..=PART).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        answer[name] = json!(text[..end]);
        answer["is_cut"] = json!(true);
    }
    answer
}

/// The end of a transcript.
fn last_pieces(mut transcript: Value) -> Value {
    let mut size = 0;
    let Some(pieces) = transcript["pieces"].as_array_mut() else {
        return transcript;
    };
    let fits = |piece: &&Value| {
        size += piece.to_string().len();
        size <= TRANSCRIPT
    };
    let kept = pieces.iter().rev().take_while(fits).count();
    pieces.drain(..pieces.len() - kept);
    transcript
}

/// The newest lines of the journal, in words only.
fn newest_lines(mut journal: Value) -> Value {
    if let Some(rows) = journal["rows"].as_array_mut() {
        rows.drain(..rows.len().saturating_sub(LINES));
        for row in rows {
            row["record"] = Value::Null;
        }
    }
    journal["before"] = json!(0);
    journal
}
