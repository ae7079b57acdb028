//! `ralph logs`: the journal in plain words, or as it is. `listen` shows what an agent printed.

use std::{collections::VecDeque, io, thread};

use anyhow::Result;
use chrono::{Local, NaiveDate};

use super::{
    Invocation,
    journal_reader::{JournalReader, LOOK, RecordFilter, draw},
    listen::{self, ListenOptions, Voice},
};
use crate::{
    adapters::terminal::{self, Paint, Style},
    cli::LogsArgs,
    core::{
        event::{
            Event,
            record::{Record, Unread},
        },
        exit::Exit,
    },
    project::workspace::Workspace,
    view::lines,
    view::log::JournalLog,
};

/// Shows what was asked for.
///
/// # Errors
/// Nothing about that task or attempt; as the disk gives them.
pub fn run(invocation: &Invocation, options: &LogsArgs) -> Result<Exit> {
    let workspace = invocation.watched()?;
    let about = RecordFilter::new(options.task.as_deref(), options.attempt)?;
    let shown = match (options.output, options.raw) {
        (false, false) => journal(&workspace, options, &about),
        (output, _) => listen::listen(
            &workspace,
            ListenOptions {
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
    page.go_live()?;
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

/// The lines that are shown: held back until it is known which are the last, and then as they come.
struct LogsPage {
    log: JournalLog,
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

impl LogsPage {
    fn new(as_json: bool, lines: Option<usize>, whole: bool) -> LogsPage {
        LogsPage {
            log: JournalLog::default(),
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
