//! `ralph logs`: the journal in plain words, or as it is. What an agent printed is `listen`'s affair.

use std::{collections::VecDeque, io, thread, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, Local, NaiveDate, Utc};

use super::{
    Here,
    listen::{self, Voice, Wanted},
};
use crate::{
    cli::Logs,
    diagnostic::nearest,
    event::{Cause, Event},
    exit::{Exit, Failure},
    journal::{Journal, Mark},
    record::{Record, Unread},
    report::{log::Log, words},
    task::TaskId,
    terminal::{self, Paint, Style},
    workspace::Workspace,
};

/// Between two looks at what is new.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// Shows what was asked for.
///
/// # Errors
/// Nothing about that task or attempt; as the disk gives them.
pub fn run(here: &Here, options: &Logs) -> Result<Exit> {
    let workspace = here.workspace()?;
    let about = About::new(options.task.as_deref(), options.attempt)?;
    let shown = match (options.output, options.raw) {
        (false, false) => journal(&workspace, options, about),
        (output, _) => listen::listen(
            &workspace,
            Wanted {
                about,
                voice: if output { Voice::Readable } else { Voice::Raw },
                lines: options.lines,
                follow: options.follow,
                attached: false,
            },
        ),
    };
    without_reader(shown)
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

/// What facts are wanted: all, those about a task, those about an attempt at it.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) task: Option<TaskId>,
    pub(super) attempt: Option<u32>,
    /// The attempt at the task that the journal is at.
    current: u32,
    /// Whether that is over.
    is_over: bool,
}

impl About {
    /// By what was typed.
    ///
    /// # Errors
    /// What cannot be an id.
    pub(super) fn new(task: Option<&str>, attempt: Option<u32>) -> Result<About> {
        let read = |id: &str| {
            TaskId::new(id).map_err(|rule| Failure::new(Exit::Usage, format!("the id {rule}")))
        };
        Ok(About { task: task.map(read).transpose()?, attempt, ..About::default() })
    }

    /// Whether the next fact is wanted.
    pub(super) fn admits(&mut self, record: &Record) -> bool {
        let Some(task) = &self.task else {
            return true;
        };
        if record.task_id.as_ref() != Some(task) {
            return false;
        }
        match record.event {
            Event::Started { attempt, .. } => (self.current, self.is_over) = (attempt, false),
            // By an attempt that is about to start.
            Event::StatusChanged { cause: Cause::Claimed, .. } => {
                (self.current, self.is_over) = (self.current + 1, false);
            }
            _ => {}
        }
        let follows = matches!(record.event, Event::Promised { .. } | Event::Parked { .. });
        let is_its = !self.is_over || follows;
        self.is_over |= record.event.ended().is_some();
        self.attempt.is_none_or(|attempt| attempt == self.current && is_its)
    }

    /// Nothing is, in all of the journal.
    pub(super) fn nothing(&self, workspace: &Workspace) -> Result<anyhow::Error> {
        let Some(task) = &self.task else {
            let message = "no attempt yet; `ralph run` makes some";
            return Ok(Failure::new(Exit::Error, message).into());
        };
        let attempt = self.attempt.map_or(String::new(), |n| format!("attempt {n} at "));
        let ledger = workspace.ledger()?;
        let ids = ledger.of(None).map(|entry| entry.task_id.as_str());
        let hint = match nearest(task.as_str(), ids) {
            Some(near) if near != task.as_str() => format!("did you mean `{near}`?"),
            _ => "`ralph attempts` lists what there was".to_owned(),
        };
        let message = format!("the journal has nothing about {attempt}`{task}`; {hint}");
        Ok(Failure::new(Exit::Error, message).into())
    }
}

/// The journal, read on from where the last look ended.
pub(super) struct Reading {
    journal: Journal,
    mark: Mark,
    newest: Option<DateTime<Utc>>,
}

impl Reading {
    pub(super) fn new(workspace: &Workspace) -> Reading {
        Reading { journal: workspace.journal(), mark: Mark::default(), newest: None }
    }

    /// Hands over what came since. In a journal that was rotated or edited, what is older than what
    /// was handed over already is left out.
    ///
    /// # Errors
    /// As the disk and `each` give them.
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

/// Shows the journal.
fn journal(workspace: &Workspace, options: &Logs, mut about: About) -> Result<Exit> {
    let mut reading = Reading::new(workspace);
    let whole = options.all || about.task.is_some();
    let mut page = Page::new(options.json, options.lines, whole);
    let asked = about.clone();
    let mut take = |page: &mut Page, reading: &mut Reading| {
        reading.next(|line, read| match read {
            Ok(record) => {
                let wanted = about.admits(&record);
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
    page.go_live()?;
    if page.damaged > 0 {
        let lines = words::counted(page.damaged, "line");
        terminal::say(&format!("{lines} of the journal could not be read, and were left out"));
    }
    if !options.follow {
        if page.is_blank && asked.task.is_some() {
            return Err(asked.nothing(workspace)?);
        }
        if page.is_blank {
            terminal::say("no run yet; `ralph run` starts one");
        }
        return Ok(Exit::Success);
    }
    if page.is_blank && asked.task.is_none() {
        terminal::say("no run yet; waiting for one");
    }
    loop {
        thread::sleep(LOOK);
        take(&mut page, &mut reading)?;
    }
}

/// The lines that are shown: held back until it is known which are the last, and then as they come.
struct Page {
    log: Log,
    paint: Paint,
    width: Option<usize>,
    as_json: bool,
    /// Whether a new run does not push out the one before it.
    whole: bool,
    /// The lines that are held back, each with its day.
    held: Option<VecDeque<(Option<NaiveDate>, String)>>,
    most: usize,
    day: Option<NaiveDate>,
    is_blank: bool,
    damaged: usize,
}

impl Page {
    fn new(as_json: bool, lines: Option<usize>, whole: bool) -> Page {
        Page {
            log: Log::default(),
            paint: Paint::for_stream(&io::stdout()),
            width: terminal::stdout_width(),
            as_json,
            whole,
            held: (!whole || lines.is_some()).then(VecDeque::new),
            most: lines.unwrap_or(usize::MAX),
            day: None,
            is_blank: true,
            damaged: 0,
        }
    }

    fn record(&mut self, line: &[u8], record: &Record, wanted: bool) -> Result<()> {
        let told = self.log.line(record);
        if let (Event::LoopStarted(_), false, Some(held)) =
            (&record.event, self.whole, &mut self.held)
        {
            held.clear();
        }
        if !wanted {
            return Ok(());
        }
        if self.as_json {
            return self.stranger(line);
        }
        let day = record.timestamp.with_timezone(&Local).date_naive();
        told.map_or(Ok(()), |told| {
            self.show(Some(day), draw(&told, record.timestamp, self.paint, self.width))
        })
    }

    /// A line of the journal as it is.
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
        match &mut self.held {
            Some(held) => {
                if held.len() >= self.most {
                    held.pop_front();
                }
                if self.most > 0 {
                    held.push_back((day, text));
                }
                Ok(())
            }
            None => self.print(day, &text),
        }
    }

    /// Shows what was held back, and from now on every line as it comes.
    fn go_live(&mut self) -> Result<()> {
        for (day, text) in self.held.take().unwrap_or_default() {
            self.print(day, &text)?;
        }
        Ok(())
    }

    fn print(&mut self, day: Option<NaiveDate>, text: &str) -> Result<()> {
        let mut head = String::new();
        if let Some(day) = day.filter(|day| self.day != Some(*day)) {
            self.day = Some(day);
            head = self.paint.text(Style::Strong, day.to_string()).into_owned() + "\n";
        }
        Ok(terminal::put((head + text).as_bytes())?)
    }
}

/// A fact with its time of day, wrapped where it is shown on a terminal.
pub(super) fn draw(
    told: &words::Line,
    at: DateTime<Utc>,
    paint: Paint,
    width: Option<usize>,
) -> String {
    const TIME: usize = "00:00:00  ".len();
    let time = words::clock(at);
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
