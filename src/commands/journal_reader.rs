//! The journal reader of `ralph logs` and `ralph attach`: filters records, follows new ones and draws
//! lines.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use crate::{
    adapters::{
        journal::{Journal, JournalPosition},
        terminal::{self, Paint},
    },
    core::{
        diagnostic::nearest,
        event::{
            Cause, Event,
            record::{Record, Unread},
        },
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::History,
    },
    project::workspace::Workspace,
    view::lines,
};

/// The interval for polling the journal.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// The facts that are wanted: all, those about a task, or those about an attempt at it.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordFilter {
    pub(super) task: Option<TaskId>,
    pub(super) attempt: Option<u32>,
}

impl RecordFilter {
    /// A filter from command line arguments.
    ///
    /// # Errors
    /// An invalid id.
    pub(super) fn new(task: Option<&str>, attempt: Option<u32>) -> Result<RecordFilter> {
        let read = |id: &str| {
            TaskId::new(id).map_err(|rule| Failure::new(Exit::Usage, format!("the id {rule}")))
        };
        Ok(RecordFilter { task: task.map(read).transpose()?, attempt })
    }

    /// Whether a fact is wanted; `before` is the history before it.
    pub(super) fn admits(&self, record: &Record, before: &History) -> bool {
        let Some(task) = &self.task else {
            return true;
        };
        let is_its = record.task_id.as_ref() == Some(task);
        is_its && self.attempt.is_none_or(|wanted| attempt_of(record, task, before) == Some(wanted))
    }

    /// The error that the journal has nothing that is wanted.
    pub(super) fn nothing(&self, workspace: &Workspace) -> Result<anyhow::Error> {
        let Some(task) = &self.task else {
            let message = "no attempts yet; `ralph run` starts one";
            return Ok(Failure::new(Exit::Error, message).into());
        };
        let attempt = self.attempt.map_or(String::new(), |n| format!("attempt {n} at "));
        let log = workspace.attempt_log()?;
        let ids = log.of(None).map(|entry| entry.task_id.as_str());
        let hint = match nearest(task.as_str(), ids) {
            Some(near) if near != task.as_str() => format!("did you mean `{near}`?"),
            _ => "`ralph attempts` lists all attempts".to_owned(),
        };
        let message = format!("the journal has no entries about {attempt}`{task}`; {hint}");
        Ok(Failure::new(Exit::Error, message).into())
    }
}

/// The attempt at the task that a fact is about.
fn attempt_of(record: &Record, task: &TaskId, before: &History) -> Option<u32> {
    let newest = before.of(task).attempts;
    if let Event::Started { attempt, .. } = record.event {
        Some(attempt)
    } else if let Event::StatusChanged { cause: Cause::Claimed, .. } = record.event {
        // The attempt starts next.
        Some(newest + 1)
    } else if matches!(record.event, Event::Promised { .. } | Event::Parked { .. }) {
        // These follow the end of the attempt.
        Some(newest)
    } else {
        before.active.of(task).map(|active| active.attempt)
    }
}

/// The journal, read on from where the last look ended.
pub(super) struct JournalReader {
    journal: Journal,
    mark: JournalPosition,
    newest: Option<DateTime<Utc>>,
}

impl JournalReader {
    pub(super) fn new(workspace: &Workspace) -> JournalReader {
        JournalReader {
            journal: workspace.journal(),
            mark: JournalPosition::default(),
            newest: None,
        }
    }

    /// Passes new records to `each`. After a rotation or an edit of the journal, skips records that are
    /// not newer than those already passed.
    ///
    /// # Errors
    /// Errors of the disk and of `each`.
    pub(super) fn next(
        &mut self,
        mut each: impl FnMut(&[u8], Result<Record, Unread>) -> Result<()>,
    ) -> Result<()> {
        if !self.journal.has_more(&self.mark) {
            return Ok(());
        }
        let (mut known_until, mut result) = (None, Ok(()));
        let newest = &mut self.newest;
        self.journal
            .read_lines(&mut self.mark, |line| {
                let Some((line, read)) = line else {
                    known_until = *newest;
                    return;
                };
                if let Ok(record) = &read {
                    if known_until.is_some_and(|known| record.timestamp <= known) {
                        return;
                    }
                    *newest = (*newest).max(Some(record.timestamp));
                }
                if result.is_ok() {
                    result = each(line, read);
                }
            })
            .with_context(|| format!("read `{}`", self.journal.path().display()))?;
        result
    }
}

/// A journal line with its time of day, wrapped to `width`.
pub(super) fn draw(
    told: &lines::Line,
    at: DateTime<Utc>,
    paint: Paint,
    width: Option<usize>,
) -> String {
    const TIME: usize = "00:00:00  ".len();
    let time = lines::clock(at);
    let lines = match width {
        Some(width) => terminal::wrap(&told.text, width.saturating_sub(TIME).max(TIME)),
        None => vec![told.text.clone()],
    };
    let mut text = String::new();
    for (at, line) in lines.into_iter().enumerate() {
        let painted =
            told.style.map_or_else(|| line.clone().into(), |s| paint.text(s, line.clone()));
        let time = if at == 0 { time.as_str() } else { "" };
        text += format!("{time:<8}  {painted}").trim_end();
        text.push('\n');
    }
    text
}
