//! The page's data, as JSON: the same values that the commands print with `--json`. The server
//! answers requests with them, and the report contains them.

use std::{cell::OnceCell, collections::BTreeMap, io, path::Path};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Invocation, attempts, costs, graph, logs, review, show, status};
use crate::{
    adapters::{agent_output::Follow, journal::JournalPosition},
    cli::By,
    core::{
        event::record::Record,
        exit::{Exit, Failure},
        graph::filter::Filter,
        history::attempt_log::{AttemptEntry, AttemptLog, LogDetail},
    },
    project::{attempt::AttemptRecord, workspace::Workspace},
    view::{lines::counted, log::JournalLog, timeline::TimelineFold, transcript::ShownPaths},
};

/// The most bytes of a patch.
const PATCH: usize = 256 * 1024;
/// The bytes of the journal in one page.
const JOURNAL: u64 = 96 * 1024;

/// The reader of the page's data.
pub(super) struct PageData {
    invocation: Invocation,
    workspace: Workspace,
    now: DateTime<Utc>,
    /// Read once, at its first use: a report asks for every attempt.
    log: OnceCell<AttemptLog>,
}

/// The drawn subgraph.
#[derive(Default)]
pub(super) struct DrawnGraph<'a> {
    /// Whether tasks that are over are left out.
    pub(super) hides_complete: bool,
    /// Only tasks near this one.
    pub(super) around: Option<&'a str>,
    /// How many levels up and down are near.
    pub(super) levels: usize,
}

impl PageData {
    /// Reads the repository of `invocation`.
    ///
    /// # Errors
    /// There is no repository; invalid settings.
    pub(super) fn open(invocation: &Invocation) -> Result<PageData> {
        let workspace = invocation.workspace()?;
        let (invocation, now) = (invocation.clone(), Utc::now());
        Ok(PageData { invocation, workspace, now, log: OnceCell::new() })
    }

    /// The text of a value, without secrets.
    pub(super) fn text(&self, value: &Value) -> String {
        // As in the journal: the JSON is searched.
        self.workspace.secrets().text(&value.to_string())
    }

    /// The folder of the repository.
    pub(super) fn root(&self) -> String {
        self.workspace.root().display().to_string()
    }

    /// The report of the run of this number, counted back from the newest, which is 1; of that one with
    /// the runs since a person looked last.
    ///
    /// # Errors
    /// There is no such run; errors of the disk.
    pub(super) fn now(&self, number: usize) -> Result<Value> {
        let number = u32::try_from(number).ok().filter(|number| *number > 1);
        value(&status::read_chosen(&self.invocation, number, self.now)?)
    }

    /// The graph as a picture, with a layout if it is drawn; lists need none.
    ///
    /// # Errors
    /// An unknown task; an invalid graph; errors of the disk.
    pub(super) fn graph(&self, drawn: Option<DrawnGraph<'_>>) -> Result<Value> {
        let picture = graph::picture(&self.workspace, Filter::default(), self.now)?;
        let Some(drawn) = drawn else { return value(&picture) };
        let part = match drawn.around {
            Some(id) => {
                let part = picture.around(id, drawn.levels);
                part.ok_or_else(|| missing(format!("the graph has no task `{id}`")))?
            }
            None if drawn.hides_complete => picture.folded().0,
            None => picture,
        };
        value(&part.with_layout())
    }

    /// Items awaiting review.
    ///
    /// # Errors
    /// An invalid graph; errors of git and of the disk.
    pub(super) fn review(&self) -> Result<Value> {
        value(&review::read(&self.invocation)?)
    }

    /// The activity and usage of each attempt whose agent runs, by its name; `follows` are the
    /// outputs as far as they were read before.
    pub(super) fn activity(&self, follows: &mut BTreeMap<String, Follow>) -> Value {
        let records: Vec<AttemptRecord> = self.workspace.state.peek();
        let named: BTreeMap<String, &AttemptRecord> =
            records.iter().map(|it| (format!("{}.{}", it.task_id, it.attempt), it)).collect();
        follows.retain(|name, _| named.contains_key(name));
        let mut all = serde_json::Map::new();
        for (name, record) in named {
            let path = self.workspace.log_folder().path(&format!("{}/stdout", record.log));
            let (Some(path), Some(call)) = (path, &record.call) else { continue };
            let follow =
                follows.entry(name.clone()).or_insert_with(|| Follow::new(path, call.output));
            let usage = follow.look().map(|seen| seen.usage.clone()).unwrap_or_default();
            let paths = self.paths(record.slot.as_ref().map(|slot| slot.path.as_path()));
            let doing = follow.doing().map(|doing| paths.text(&doing));
            let tokens = usage.tokens;
            let seen = json!({ "doing": doing, "tokens": tokens, "cost_usd": usage.cost_usd });
            all.insert(name, seen);
        }
        Value::Object(all)
    }

    /// The timeline of the run of this number, counted back from the newest, which is 1.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn timeline(&self, number: usize) -> Result<Value> {
        let mut fold = TimelineFold::default();
        self.workspace
            .journal()
            .read(&mut JournalPosition::default(), |record| {
                if let Some(record) = record {
                    fold.apply(record);
                }
            })
            .context("read the journal")?;
        if number > fold.runs().max(1) {
            let text = format!("no run {number}; the journal has {}", counted(fold.runs(), "run"));
            return Err(missing(text));
        }
        let beat = status::last_beat(&self.workspace).map(|age| self.now - age);
        value(&fold.timeline(number, beat))
    }

    /// A task with its attempts.
    ///
    /// # Errors
    /// An unknown task; an invalid graph; errors of the disk.
    pub(super) fn task(&self, id: &str) -> Result<Value> {
        value(&show::task(&self.workspace, self.log()?, id, self.now)?)
    }

    /// An attempt, named like `a.2`.
    ///
    /// # Errors
    /// An unknown attempt; errors of the disk.
    pub(super) fn attempt(&self, name: &str) -> Result<Value> {
        value(&show::attempt(&self.workspace, self.log()?, name)?)
    }

    /// The transcript of an attempt from a byte of its output on, by default its last part.
    ///
    /// # Errors
    /// An unknown attempt; errors of the disk.
    pub(super) fn transcript(&self, name: &str, from: Option<u64>) -> Result<Value> {
        self.with_attempt(name, |entry| {
            let path = self.workspace.log_folder().path(&format!("{}/stdout", entry.log));
            let path = path.ok_or_else(|| missing(format!("attempt `{name}` has no output")))?;
            let paths = self.paths(entry.slot.as_ref().map(Path::new));
            value(&logs::transcript(&path, entry.format, from, &paths))
        })
    }

    /// The paths as they are shown of an attempt in this slot.
    fn paths(&self, slot: Option<&Path>) -> ShownPaths {
        let slot = slot.map(|slot| self.workspace.root().join(slot).display().to_string());
        ShownPaths::below(slot.into_iter().chain([self.root()]))
    }

    /// A file of an attempt's folder from a byte on, by default its last part.
    ///
    /// # Errors
    /// An unknown attempt or file; errors of the disk.
    pub(super) fn file(&self, name: &str, file: &str, from: Option<u64>) -> Result<Value> {
        self.with_attempt(name, |entry| {
            let is_known = show::files(&self.workspace, entry).iter().any(|(it, _)| it == file);
            let path = self.workspace.log_folder().path(&format!("{}/{file}", entry.log));
            let Some(path) = path.filter(|_| is_known) else {
                return Err(missing(format!("attempt `{name}` has no file `{file}`")));
            };
            logs::file_part(&path, from).with_context(|| format!("read `{file}`"))
        })
    }

    /// A commit's changes.
    ///
    /// # Errors
    /// An unknown commit; errors of git.
    pub(super) fn patch(&self, commit: &str) -> Result<Value> {
        let is_id =
            (7..=64).contains(&commit.len()) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id || self.workspace.repo.commit_of(commit)?.is_none() {
            return Err(missing(format!("there is no commit `{commit}`")));
        }
        let patch = self.workspace.repo.patch(commit, PATCH)?;
        Ok(json!({ "commit": commit, "text": patch.text, "is_cut": patch.is_cut }))
    }

    /// The attempt costs.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn costs(&self, by: By) -> Result<Value> {
        value(&costs::sums(&self.workspace, self.log()?, by)?)
    }

    /// The newest lines of the journal, the oldest first, or those before an offset; only those about a
    /// task, if one is named. `before` is where the page before this one ends; 0 at the beginning.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn journal(&self, before: Option<u64>, task: Option<&str>) -> Result<Value> {
        let page = self.workspace.journal().page_before(before, JOURNAL);
        let page = page.context("read the journal")?;
        let mut log = JournalLog::default();
        let rows = page.records.iter().map(|record| journal_row(record, &mut log));
        let rows = rows.filter(|row| task.is_none_or(|task| row["task_id"] == task));
        Ok(json!({ "rows": rows.collect::<Vec<_>>(), "before": page.start }))
    }

    fn with_attempt<T>(
        &self,
        name: &str,
        see: impl FnOnce(&AttemptEntry) -> Result<T>,
    ) -> Result<T> {
        see(attempts::find(&self.workspace, self.log()?, name)?)
    }

    fn log(&self) -> Result<&AttemptLog> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        let log = self.workspace.attempt_log(LogDetail::All)?;
        Ok(self.log.get_or_init(|| log))
    }
}

/// A line of the journal, also in words where other lines do not say as much.
fn journal_row(record: &Record, log: &mut JournalLog) -> Value {
    let fields = record.fields();
    json!({
        "seq": record.seq,
        "at": record.timestamp,
        "run_id": record.run_id,
        "task_id": record.task_id,
        "action": fields.get("action"),
        "text": log.line(record).map(|line| line.text),
        "record": fields,
    })
}

fn value(view: &impl Serialize) -> Result<Value> {
    serde_json::to_value(view).map_err(|error| io::Error::other(error).into())
}

fn missing(message: String) -> anyhow::Error {
    Failure::new(Exit::Error, message).into()
}
