//! `ralph logs`: the journal in plain words or raw, and the output of agents. `ralph attach` is
//! `ralph logs --follow --output`.

mod listen;
mod parts;

use std::{io, thread, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, Local, NaiveDate, Utc};

use super::{Invocation, status::look};
use crate::{
    adapters::{
        journal::{Journal, JournalPosition},
        terminal::{self, Paint},
    },
    cli::LogsArgs,
    core::{
        diagnostic::nearest,
        event::{
            AttemptEvent, Cause, Event, GraphEvent, RunEvent,
            record::{Record, Unread},
        },
        exit::{Exit, Failure, fail},
        graph::task::TaskId,
        history::{History, attempt_log::LogDetail},
    },
    project::workspace::Workspace,
    view::{lines, log::JournalLog, run::Standing},
};
use listen::{ListenOptions, OutputForm};
use parts::Out;
pub(super) use parts::{file_part, last_lines, transcript};

/// Shows the journal or an output.
///
/// # Errors
/// Nothing about that task or attempt; errors of the disk.
pub fn run(invocation: &Invocation, options: &LogsArgs) -> Result<Exit> {
    let workspace = invocation.watched()?;
    let task = options.id.as_deref().or(options.task.as_deref());
    if options.attempt.is_some() && task.is_none() {
        return fail(Exit::Usage, "`--attempt` needs the task: `ralph logs ID --attempt N`");
    }
    let about = RecordFilter::new(task, options.attempt)?;
    if !options.output && !options.raw {
        return without_reader(journal(&workspace, options, &about));
    }
    let form = if options.output { OutputForm::Readable } else { OutputForm::Raw };
    let (follow, mut lines) = (options.follow, options.lines);
    if options.output && follow {
        lines = lines.or(Some(RECENT));
        check_running(&workspace, &about)?;
    }
    without_reader(listen::listen(&workspace, ListenOptions { about, form, lines, follow }))
}

/// A reader that has seen enough is no error.
pub(super) fn without_reader(shown: Result<Exit>) -> Result<Exit> {
    let is_gone = |error: &anyhow::Error| {
        let io = error.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    match shown {
        Err(error) if is_gone(&error) => Ok(Exit::Success),
        shown => shown,
    }
}

/// Shows the journal.
fn journal(workspace: &Workspace, options: &LogsArgs, about: &RecordFilter) -> Result<Exit> {
    let mut reading = JournalReader::new(workspace);
    let whole = options.all || about.task.is_some();
    let mut page = LogsPage::new(options.json, options.lines, whole);
    let take = |page: &mut LogsPage, reading: &mut JournalReader| {
        reading.next(|line, read| match read {
            Ok(record) => {
                let wanted = about.admits(&record, page.log.history());
                page.record(line, &record, wanted)
            }
            // Of a newer version, perhaps; it is for programs to say.
            Err(Unread::Unknown) if about.task.is_none() => page.stranger(line),
            Err(Unread::Unknown) => Ok(()),
            Err(Unread::Damaged) => {
                page.damaged += 1;
                Ok(())
            }
        })
    };
    take(&mut page, &mut reading)?;
    page.out.go_live()?;
    if page.damaged > 0 {
        let lines = lines::counted(page.damaged, "line");
        terminal::say(&format!("{lines} of the journal could not be read, and were left out"));
    }
    if !options.follow {
        if page.is_blank && about.task.is_some() {
            return Err(about.nothing(workspace)?);
        }
        if page.is_blank {
            terminal::say("no run yet; `ralph run` starts one");
        }
        return Ok(Exit::Success);
    }
    if page.is_blank && about.task.is_none() {
        terminal::say("no run yet; waiting for one");
    }
    loop {
        thread::sleep(LOOK);
        take(&mut page, &mut reading)?;
    }
}

/// The page of the journal.
struct LogsPage {
    log: JournalLog,
    out: Out,
    as_json: bool,
    /// Whether a new run does not push out the one before it.
    whole: bool,
    is_blank: bool,
    damaged: usize,
}

impl LogsPage {
    fn new(as_json: bool, lines: Option<usize>, whole: bool) -> LogsPage {
        LogsPage {
            log: JournalLog::default(),
            out: Out::new(lines.or((!whole).then_some(usize::MAX))),
            as_json,
            whole,
            is_blank: true,
            damaged: 0,
        }
    }

    fn record(&mut self, line: &[u8], record: &Record, wanted: bool) -> Result<()> {
        let entry = self.log.line(record);
        if matches!(record.event, Event::Run(RunEvent::LoopStarted(_))) && !self.whole {
            self.out.clear();
        }
        if !wanted {
            return Ok(());
        }
        if self.as_json {
            return self.stranger(line);
        }
        let day = record.timestamp.with_timezone(&Local).date_naive();
        entry.map_or(Ok(()), |entry| {
            self.show(Some(day), draw(&entry, record.timestamp, self.out.paint, self.out.width))
        })
    }

    /// A raw line of the journal.
    fn stranger(&mut self, line: &[u8]) -> Result<()> {
        if !self.as_json {
            return Ok(());
        }
        let text = String::from_utf8_lossy(line);
        let text = if terminal::stdout_is_terminal() {
            terminal::visible_lines(&text)
        } else {
            text.into_owned()
        };
        self.show(None, text)
    }

    fn show(&mut self, day: Option<NaiveDate>, text: String) -> Result<()> {
        self.is_blank = false;
        self.out.put_entry(day, text)
    }
}

/// The number of earlier lines that are shown before those of a running attempt.
const RECENT: usize = 20;

/// Checks that the wanted attempt runs.
///
/// # Errors
/// No attempt is running, or none at that task; errors of the disk.
fn check_running(workspace: &Workspace, about: &RecordFilter) -> Result<()> {
    let (store, live) = look(workspace)?;
    let history = store.history();
    if !live {
        let how = match Standing::of(history, live) {
            Standing::None => "`ralph run` starts a run".to_owned(),
            standing => format!(
                "the last run is {}; `ralph logs{} --output` shows its output",
                standing.word(),
                workspace.place.flag()
            ),
        };
        return fail(Exit::Error, format!("no run is active: {how}"));
    }
    let open = &history.active.attempts;
    let names: Vec<String> = open.iter().map(|open| format!("`{}`", open.task_id)).collect();
    let names = names.join(", ");
    if let Some(id) = &about.task
        && !open.iter().any(|open| open.task_id == *id)
    {
        let message = match open.len() {
            0 => format!("no attempt at `{id}` or any other task is running"),
            1 => format!("no attempt at `{id}` is running; `ralph attach` shows {names}"),
            _ => format!(
                "no attempt at `{id}` is running; choose one of {names} with `ralph attach ID`"
            ),
        };
        return fail(Exit::Error, message);
    }
    Ok(())
}

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
        let log = workspace.attempt_log(LogDetail::Results)?;
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
    if let Event::Attempt(AttemptEvent::Started { attempt, .. }) = record.event {
        Some(attempt)
    } else if let Event::Graph(GraphEvent::StatusChanged { cause: Cause::Claimed, .. }) =
        record.event
    {
        // The attempt starts next.
        Some(newest + 1)
    } else if matches!(
        record.event,
        Event::Attempt(AttemptEvent::Promised { .. } | AttemptEvent::Parked { .. })
    ) {
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
    entry: &lines::Line,
    at: DateTime<Utc>,
    paint: Paint,
    width: Option<usize>,
) -> String {
    const TIME: usize = "00:00:00  ".len();
    let time = lines::clock(at);
    let width = width.map(|width| width.saturating_sub(TIME).max(TIME));
    let mut text = String::new();
    for (at, row) in paint.rows(entry.style, &entry.text, width).into_iter().enumerate() {
        let time = if at == 0 { time.as_str() } else { "" };
        text += format!("{time:<8}  {row}").trim_end();
        text.push('\n');
    }
    text
}
