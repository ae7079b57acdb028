//! The output of agents, live or recorded, for `ralph logs --output` and `ralph logs --raw`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    JournalReader, LOOK, RecordFilter, draw,
    parts::{Out, OutputSide, PieceReader},
};
use crate::{
    adapters::{
        agent_output::OutputTail,
        signal,
        terminal::{self, Visible},
    },
    core::{
        agents::transcript::Format,
        event::{AttemptEvent, Event, RunEvent, record::Record},
        exit::{Exit, fail},
        graph::task::TaskId,
        history::History,
    },
    project::workspace::Workspace,
    view::log::JournalLog,
};

/// The interval for checking that the run is alive.
const LIVES: Duration = Duration::from_secs(1);

/// The options of `listen`.
pub(super) struct ListenOptions {
    /// The task and the attempt; by default the newest attempt.
    pub(super) about: RecordFilter,
    pub(super) form: OutputForm,
    /// The number of earlier lines to show.
    pub(super) lines: Option<usize>,
    /// Whether to follow new output. In readable form, of the run until its end or a detach.
    pub(super) follow: bool,
}

impl ListenOptions {
    /// Whether a person is attached to the run.
    fn is_attached(&self) -> bool {
        self.follow && self.form == OutputForm::Readable
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    /// The messages and tool calls of the agent, with the lines of the journal.
    Readable,
    /// Every byte.
    Raw,
}

/// Shows the output of agents.
///
/// # Errors
/// There is no output; errors of the disk.
pub(super) fn listen(workspace: &Workspace, wanted: ListenOptions) -> Result<Exit> {
    let mut listener = Listener::new(workspace, wanted);
    listener.begin()?;
    if !listener.wanted.follow {
        listener.end_attempts(|_| true)?;
        return Ok(Exit::Success);
    }
    let leaving = listener.wanted.is_attached().then(signal::receive).transpose()?;
    let mut looked = Instant::now();
    loop {
        match &leaving {
            None => std::thread::sleep(LOOK),
            Some(leaving) => match leaving.recv_timeout(LOOK) {
                Ok(signal::SUSPEND) => signal::suspend(),
                Ok(_) => {
                    listener.end_attempts(|_| true)?;
                    let flag = workspace.place.flag();
                    terminal::say(&format!(
                        "detached; the run continues (`ralph stop{flag}` stops it)"
                    ));
                    return Ok(Exit::Success);
                }
                Err(_) => {}
            },
        }
        if listener.look()? {
            return Ok(Exit::Success);
        }
        if listener.wanted.is_attached() && looked.elapsed() > LIVES {
            looked = Instant::now();
            if let Some(exit) = listener.is_over()? {
                return Ok(exit);
            }
        }
    }
}

struct Listener<'a> {
    workspace: &'a Workspace,
    wanted: ListenOptions,
    reading: JournalReader,
    history: History,
    log: JournalLog,
    out: Out,
    /// The attempts whose output is shown: one, or all that run.
    shown: Vec<Shown>,
    /// The start records of the wanted attempts that are still running, oldest first.
    open: Vec<Record>,
}

impl<'a> Listener<'a> {
    fn new(workspace: &'a Workspace, wanted: ListenOptions) -> Listener<'a> {
        Listener {
            workspace,
            out: Out::new(wanted.lines),
            wanted,
            reading: JournalReader::new(workspace),
            history: History::default(),
            log: JournalLog::default(),
            shown: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Finds the attempt in the journal and shows its output so far.
    fn begin(&mut self) -> Result<()> {
        let mut found: Option<(Record, Option<Record>)> = None;
        let (about, history, log) = (&self.wanted.about, &mut self.history, &mut self.log);
        let open = &mut self.open;
        let mut start = None;
        self.reading.next(|_, read| {
            let Ok(record) = read else {
                return Ok(());
            };
            let is_wanted = about.admits(&record, history);
            history.apply(&record);
            if let Event::Run(RunEvent::LoopStarted(_)) = record.event {
                start = Some(record.clone());
            }
            note_open(open, &record, is_wanted);
            if !is_wanted {
                return Ok(());
            }
            match (&record.event, &mut found) {
                (Event::Attempt(AttemptEvent::Started { .. }), _) => found = Some((record, None)),
                (event, Some((started, end @ None)))
                    if event.ended().is_some() && started.task_id == record.task_id =>
                {
                    *end = Some(record);
                }
                _ => {}
            }
            Ok(())
        })?;
        if let Some(start) = start {
            log.line(&start);
        }
        // Prefer the newest attempt that is still running.
        let found = self.open.last().map(|started| (started.clone(), None)).or(found);
        // Do not attach to a finished attempt.
        let found = found.filter(|(_, end)| !self.wanted.is_attached() || end.is_none());
        match found {
            Some((started, end)) => {
                let others = self.open.clone().into_iter();
                let others = others.filter(|it| it.task_id != started.task_id && self.shows_all());
                for other in others.collect::<Vec<_>>() {
                    self.begin_attempt(&other)?;
                }
                self.begin_attempt(&started)?;
                self.poll()?;
                if let Some(end) = end {
                    self.end_attempts(|_| true)?;
                    self.print_record(&end)?;
                }
                self.out.go_live()
            }
            None if self.wanted.is_attached() => {
                self.out.go_live()?;
                terminal::say("no attempt is running; waiting for the next one");
                Ok(())
            }
            None if self.wanted.follow => self.out.go_live(),
            None => Err(self.wanted.about.nothing(self.workspace)?),
        }
    }

    /// Shows new output. Returns whether everything has been shown.
    fn look(&mut self) -> Result<bool> {
        self.poll()?;
        let mut records = Vec::new();
        self.reading.next(|_, read| {
            records.extend(read);
            Ok(())
        })?;
        for record in records {
            let is_wanted = self.wanted.about.admits(&record, &self.history);
            self.history.apply(&record);
            note_open(&mut self.open, &record, is_wanted);
            let is_of_run = record.task_id.is_none();
            let is_end = record.event.ended().is_some()
                && self.shown.iter().any(|shown| shown.is_of(&record));
            if is_end {
                self.poll()?;
                self.end_attempts(|shown| shown.is_of(&record))?;
            }
            match record.event {
                Event::Attempt(AttemptEvent::Started { .. })
                    if is_wanted && (self.shown.is_empty() || self.shows_all()) =>
                {
                    self.begin_attempt(&record)?;
                }
                Event::Run(RunEvent::LoopStarted(_)) => {
                    self.end_attempts(|_| true)?;
                    self.print_record(&record)?;
                }
                _ if is_wanted || is_of_run => self.print_record(&record)?,
                _ => {}
            }
            if is_end && self.wanted.about.attempt.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the exit code if the run has ended.
    fn is_over(&mut self) -> Result<Option<Exit>> {
        if self.history.run.finished.is_some() {
            return Ok(Some(Exit::Success));
        }
        if self.workspace.is_live(&self.history)? {
            return Ok(None);
        }
        // The end may have been recorded in the meantime.
        self.look()?;
        if self.history.run.finished.is_some() {
            return Ok(Some(Exit::Success));
        }
        self.end_attempts(|_| true)?;
        fail(Exit::Error, "the run exited unexpectedly; `ralph status` shows its last state")
    }

    fn begin_attempt(&mut self, started: &Record) -> Result<()> {
        self.print_record(started)?;
        self.show_attempt(started);
        Ok(())
    }

    fn show_attempt(&mut self, started: &Record) {
        if let Event::Attempt(AttemptEvent::Started { log, format, .. }) = &started.event {
            let folder = self.workspace.root().join(log);
            let shown = Shown::new(started, &folder, *format, self.wanted.form);
            self.shown.push(shown);
        }
    }

    fn poll(&mut self) -> Result<()> {
        let shows_all = self.shows_all();
        for shown in &mut self.shown {
            self.out.speaker = shown.speaker(shows_all);
            shown.poll(&mut self.out)?;
        }
        Ok(())
    }

    /// Shows the held-back output of these attempts, and unfollows them.
    fn end_attempts(&mut self, is_over: impl Fn(&Shown) -> bool) -> Result<()> {
        let shows_all = self.shows_all();
        for mut shown in self.shown.extract_if(.., |shown| is_over(shown)) {
            self.out.speaker = shown.speaker(shows_all);
            shown.finish(&mut self.out)?;
        }
        Ok(())
    }

    /// Whether the output of all running attempts is shown, each line with its task.
    fn shows_all(&self) -> bool {
        let is_loop = self.workspace.place.name().is_some();
        self.wanted.is_attached() && self.wanted.about.task.is_none() && !is_loop
    }

    /// Prints the journal line of a record, unless the output is raw.
    fn print_record(&mut self, record: &Record) -> Result<()> {
        let Some(line) = self.log.line(record).filter(|_| self.wanted.form == OutputForm::Readable)
        else {
            return Ok(());
        };
        self.out.begin_line()?;
        self.out.speaker.clear();
        let text = draw(&line, record.timestamp, self.out.paint, self.out.width);
        self.out.put(OutputSide::Out, text.as_bytes())
    }
}

/// Updates the list of running attempts.
fn note_open(open: &mut Vec<Record>, record: &Record, is_wanted: bool) {
    match record.event {
        Event::Run(RunEvent::LoopStarted(_)) => open.clear(),
        Event::Attempt(AttemptEvent::Started { .. }) if is_wanted => open.push(record.clone()),
        _ if record.event.ended().is_some() => open.retain(|it| it.task_id != record.task_id),
        _ => {}
    }
}

/// Returns the task and the number of an attempt, from its start record.
fn named(started: &Record) -> (&str, u32) {
    let id = started.task_id.as_ref().map_or("", TaskId::as_str);
    let attempt = match started.event {
        Event::Attempt(AttemptEvent::Started { attempt, .. }) => attempt,
        _ => 0,
    };
    (id, attempt)
}

/// An attempt whose output is shown.
struct Shown {
    started: Record,
    stdout: OutputTail,
    stderr: OutputTail,
    out: OutputReader,
    err: OutputReader,
}

/// The reader of one output stream.
enum OutputReader {
    Pieces(PieceReader),
    /// Unchanged bytes, with control sequences escaped on a terminal.
    Raw(OutputSide, Option<Visible>),
}

impl Shown {
    fn new(started: &Record, folder: &Path, format: Format, form: OutputForm) -> Shown {
        let shown = |is_terminal: bool| is_terminal.then(Visible::default);
        let (out, err) = match form {
            OutputForm::Raw => (
                OutputReader::Raw(OutputSide::Out, shown(terminal::stdout_is_terminal())),
                OutputReader::Raw(OutputSide::Err, shown(terminal::stderr_is_terminal())),
            ),
            OutputForm::Readable => (
                OutputReader::Pieces(PieceReader::new(format)),
                OutputReader::Pieces(PieceReader::new(Format::Text)),
            ),
        };
        let (stdout, stderr) = (folder.join("stdout"), folder.join("stderr"));
        let (stdout, stderr) = (OutputTail::new(stdout), OutputTail::new(stderr));
        Shown { started: started.clone(), stdout, stderr, out, err }
    }

    fn is_of(&self, record: &Record) -> bool {
        self.started.task_id == record.task_id
    }

    /// The prefix of its lines.
    fn speaker(&self, is_named: bool) -> String {
        if is_named { format!("{} | ", named(&self.started).0) } else { String::new() }
    }

    fn poll(&mut self, out: &mut Out) -> Result<()> {
        // Standard error first: the last text on standard output is the answer.
        let mut result = Ok(());
        for (tail, reader) in [(&mut self.stderr, &mut self.err), (&mut self.stdout, &mut self.out)]
        {
            tail.read(|bytes| {
                if result.is_ok() {
                    result = reader.take(bytes, out);
                }
            });
        }
        result
    }

    fn finish(&mut self, out: &mut Out) -> Result<()> {
        self.err.finish(out)?;
        self.out.finish(out)
    }
}

impl OutputReader {
    fn take(&mut self, bytes: &[u8], out: &mut Out) -> Result<()> {
        match self {
            OutputReader::Pieces(reader) => {
                reader.push(bytes).iter().try_for_each(|piece| out.print_piece(&piece.piece))
            }
            OutputReader::Raw(stream, None) => out.put(*stream, bytes),
            OutputReader::Raw(stream, Some(visible)) => {
                out.put(*stream, visible.push(bytes).as_bytes())
            }
        }
    }

    /// Prints the held back text.
    fn finish(&mut self, out: &mut Out) -> Result<()> {
        match self {
            OutputReader::Pieces(reader) => {
                reader.finish().iter().try_for_each(|piece| out.print_piece(&piece.piece))?;
                out.begin_line()
            }
            OutputReader::Raw(stream, Some(visible)) => {
                out.put(*stream, visible.finish().as_bytes())
            }
            OutputReader::Raw(_, None) => Ok(()),
        }
    }
}
