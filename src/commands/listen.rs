//! What agents print, shown to people while it comes or afterwards: by `ralph logs --output`,
//! `ralph logs --raw` and `ralph attach`.

mod out;

use std::{
    io,
    path::Path,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use anyhow::Result;

use super::journal_reader::{JournalReader, LOOK, RecordFilter, draw};
use crate::{
    adapters::{
        agent_output::OutputTail,
        signal,
        terminal::{self, Visible, plain, visible},
    },
    core::{
        agents::transcript::{Format, TranscriptReader},
        event::{Event, record::Record},
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::History,
    },
    project::workspace::Workspace,
    view::log::JournalLog,
};
use out::{Out, OutputSide};

/// Between two looks at whether the run goes on.
const LIVES: Duration = Duration::from_secs(1);

/// What to show, and how.
pub(super) struct ListenOptions {
    /// The task and attempt; the newest attempt where none is given.
    pub(super) about: RecordFilter,
    pub(super) voice: Voice,
    /// How many earlier lines are shown.
    pub(super) lines: Option<usize>,
    /// Whether to follow new output.
    pub(super) follow: bool,
    /// Whether to follow only while the run goes on, and to say so when the person leaves.
    pub(super) attached: bool,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// What the agent says and which tools it uses, with what the journal tells.
    Readable,
    /// Every byte of it.
    Raw,
}

/// Shows what agents print.
///
/// # Errors
/// There is no such attempt; as the disk gives them.
pub(super) fn listen(workspace: &Workspace, wanted: ListenOptions) -> Result<Exit> {
    let mut listener = Listener::new(workspace, wanted);
    listener.begin()?;
    if !listener.wanted.follow {
        listener.end_attempt()?;
        return Ok(Exit::Success);
    }
    let leaving = listener.wanted.attached.then(leaving).transpose()?;
    let mut looked = Instant::now();
    loop {
        match &leaving {
            None => std::thread::sleep(LOOK),
            Some(leaving) => match leaving.recv_timeout(LOOK) {
                Ok(signal::SUSPEND) => signal::suspend(),
                Ok(_) => {
                    listener.end_attempt()?;
                    let flag = workspace.place.flag();
                    terminal::say(&format!(
                        "detached; the run goes on, and `ralph stop{flag}` would end it"
                    ));
                    return Ok(Exit::Success);
                }
                Err(_) => {}
            },
        }
        if listener.look()? {
            return Ok(Exit::Success);
        }
        if listener.wanted.attached && looked.elapsed() > LIVES {
            looked = Instant::now();
            if let Some(exit) = listener.is_over()? {
                return Ok(exit);
            }
        }
    }
}

/// The signals by which a person leaves.
fn leaving() -> io::Result<Receiver<i32>> {
    let (tell, told) = mpsc::channel();
    signal::listen(move |number| {
        let _ = tell.send(number);
    })?;
    Ok(told)
}

struct Listener<'a> {
    workspace: &'a Workspace,
    wanted: ListenOptions,
    reading: JournalReader,
    history: History,
    log: JournalLog,
    out: Out,
    shown: Option<Shown>,
    /// The starts of the attempts that are wanted and have no end, the oldest first.
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
            shown: None,
            open: Vec::new(),
        }
    }

    /// Finds the attempt in what has happened, and shows what it has printed up to now.
    fn begin(&mut self) -> Result<()> {
        let mut found: Option<(Record, Option<Record>)> = None;
        let (about, history, log) = (&self.wanted.about, &mut self.history, &mut self.log);
        let open = &mut self.open;
        let mut begun = None;
        self.reading.next(|_, read| {
            let Ok(record) = read else {
                return Ok(());
            };
            let is_wanted = about.admits(&record, history);
            history.apply(&record);
            if let Event::LoopStarted(_) = record.event {
                begun = Some(record.clone());
            }
            note_open(open, &record, is_wanted);
            if !is_wanted {
                return Ok(());
            }
            match (&record.event, &mut found) {
                (Event::Started { .. }, _) => found = Some((record, None)),
                (event, Some((started, end @ None)))
                    if event.ended().is_some() && started.task_id == record.task_id =>
                {
                    *end = Some(record);
                }
                _ => {}
            }
            Ok(())
        })?;
        if let Some(begun) = begun {
            log.line(&begun);
        }
        // While others go on, the newest of those.
        let found = self.open.last().map(|started| (started.clone(), None)).or(found);
        // Do not attach to a finished attempt.
        let found = found.filter(|(_, end)| !self.wanted.attached || end.is_none());
        match found {
            Some((started, end)) => {
                self.begin_attempt(&started)?;
                if self.wanted.follow {
                    self.name_others();
                }
                self.poll()?;
                if let Some(end) = end {
                    self.end_attempt()?;
                    self.tell(&end)?;
                }
                self.out.go_live()
            }
            None if self.wanted.attached => {
                self.out.go_live()?;
                terminal::say("no attempt runs just now; waiting for the next one");
                Ok(())
            }
            None if self.wanted.follow => self.out.go_live(),
            None => Err(self.wanted.about.nothing(self.workspace)?),
        }
    }

    /// Shows what is new; true at the end.
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
                && self.shown.as_ref().is_some_and(|shown| shown.is_of(&record));
            if is_end {
                self.poll()?;
                self.end_attempt()?;
            }
            match record.event {
                Event::Started { .. } if is_wanted && self.shown.is_none() => {
                    self.begin_attempt(&record)?;
                }
                Event::LoopStarted(_) => {
                    self.end_attempt()?;
                    self.tell(&record)?;
                }
                _ if is_wanted || is_of_run => self.tell(&record)?,
                _ => {}
            }
            if is_end && self.wanted.about.attempt.is_some() {
                return Ok(true);
            }
            if is_end && let Some(other) = self.open.first().cloned() {
                self.show_attempt(&other);
                let (id, attempt) = named(&other);
                terminal::say(&format!("going on with {id}, attempt {attempt}"));
                self.name_others();
            }
        }
        Ok(false)
    }

    /// Whether the run has ended, and how this ends then.
    fn is_over(&mut self) -> Result<Option<Exit>> {
        if self.history.run.finished.is_some() {
            return Ok(Some(Exit::Success));
        }
        if self.workspace.is_live(&self.history)? {
            return Ok(None);
        }
        // It may have said so meanwhile.
        self.look()?;
        if self.history.run.finished.is_some() {
            return Ok(Some(Exit::Success));
        }
        self.end_attempt()?;
        let message = "the run is gone and has not said why; `ralph status` shows how it stood";
        Err(Failure::new(Exit::Error, message).into())
    }

    fn begin_attempt(&mut self, started: &Record) -> Result<()> {
        self.tell(started)?;
        self.show_attempt(started);
        Ok(())
    }

    fn show_attempt(&mut self, started: &Record) {
        if let Event::Started { log, format, .. } = &started.event {
            let folder = self.workspace.root().join(log);
            self.shown = Some(Shown::new(started, &folder, *format, self.wanted.voice));
        }
    }

    /// Says which other attempts go on, whose output is not shown.
    fn name_others(&self) {
        let is_other =
            |record: &&Record| self.shown.as_ref().is_some_and(|shown| !shown.is_of(record));
        let others: Vec<&str> =
            self.open.iter().filter(is_other).map(|record| named(record).0).collect();
        let Some(first) = others.first() else {
            return;
        };
        let how = if self.wanted.attached { "ralph attach" } else { "--task" };
        terminal::say(&format!(
            "also at work, and not shown: {} (`{how} {first}`)",
            others.join(", ")
        ));
    }

    fn poll(&mut self) -> Result<()> {
        self.shown.as_mut().map_or(Ok(()), |shown| shown.poll(&mut self.out))
    }

    fn end_attempt(&mut self) -> Result<()> {
        self.shown.take().map_or(Ok(()), |mut shown| shown.finish(&mut self.out))
    }

    /// Says what the journal tells, where that does not get between bytes.
    fn tell(&mut self, record: &Record) -> Result<()> {
        let Some(line) = self.log.line(record).filter(|_| self.wanted.voice == Voice::Readable)
        else {
            return Ok(());
        };
        self.out.begin_line()?;
        let text = draw(&line, record.timestamp, self.out.paint, self.out.width);
        self.out.put(OutputSide::Out, text.as_bytes())
    }
}

/// Keeps the starts of the attempts that have no end.
fn note_open(open: &mut Vec<Record>, record: &Record, is_wanted: bool) {
    match record.event {
        Event::LoopStarted(_) => open.clear(),
        Event::Started { .. } if is_wanted => open.push(record.clone()),
        _ if record.event.ended().is_some() => open.retain(|it| it.task_id != record.task_id),
        _ => {}
    }
}

/// The task and the number of an attempt, by its start.
fn named(started: &Record) -> (&str, u32) {
    let id = started.task_id.as_ref().map_or("", TaskId::as_str);
    let attempt = match started.event {
        Event::Started { attempt, .. } => attempt,
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

/// How one stream is read.
enum OutputReader {
    Typed(Box<TranscriptReader>),
    /// Words for people, without what paints them. Holds back the line that is not whole.
    Words(Vec<u8>),
    /// As it is, but for what is harmful on a terminal.
    Raw(OutputSide, Option<Visible>),
}

impl Shown {
    fn new(started: &Record, folder: &Path, format: Format, voice: Voice) -> Shown {
        let words = || OutputReader::Words(Vec::new());
        let shown = |is_terminal: bool| is_terminal.then(Visible::default);
        let (out, err) = match (voice, format) {
            (Voice::Raw, _) => (
                OutputReader::Raw(OutputSide::Out, shown(terminal::stdout_is_terminal())),
                OutputReader::Raw(OutputSide::Err, shown(terminal::stderr_is_terminal())),
            ),
            (Voice::Readable, Format::Text | Format::Aider) => (words(), words()),
            (Voice::Readable, format) => {
                (OutputReader::Typed(Box::new(TranscriptReader::new(format).aloud())), words())
            }
        };
        let (stdout, stderr) = (folder.join("stdout"), folder.join("stderr"));
        let (stdout, stderr) = (OutputTail::new(stdout), OutputTail::new(stderr));
        Shown { started: started.clone(), stdout, stderr, out, err }
    }

    fn is_of(&self, record: &Record) -> bool {
        self.started.task_id == record.task_id
    }

    fn poll(&mut self, out: &mut Out) -> Result<()> {
        // Errors first: what agents say last is their answer, on standard output.
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
            OutputReader::Typed(transcript) => {
                transcript.push(bytes);
                transcript.heard().into_iter().try_for_each(|heard| out.hear(&heard))
            }
            OutputReader::Words(held) => {
                held.extend_from_slice(bytes);
                let Some(end) = held.iter().rposition(|byte| *byte == b'\n') else {
                    return Ok(());
                };
                let rest = held.split_off(end + 1);
                let text = words(held);
                *held = rest;
                out.put(OutputSide::Out, text.as_bytes())
            }
            OutputReader::Raw(stream, None) => out.put(*stream, bytes),
            OutputReader::Raw(stream, Some(visible)) => {
                out.put(*stream, visible.push(bytes).as_bytes())
            }
        }
    }

    /// Shows what was held back.
    fn finish(&mut self, out: &mut Out) -> Result<()> {
        match self {
            OutputReader::Typed(_) => out.begin_line(),
            OutputReader::Words(held) if held.is_empty() => Ok(()),
            OutputReader::Words(held) => {
                let text = words(held) + "\n";
                held.clear();
                out.put(OutputSide::Out, text.as_bytes())
            }
            OutputReader::Raw(stream, Some(visible)) => {
                out.put(*stream, visible.finish().as_bytes())
            }
            OutputReader::Raw(_, None) => Ok(()),
        }
    }
}

/// Lines for people: of one that a progress bar wrote over, what was to be seen last.
fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = plain(&text);
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let line = line.trim_end_matches('\r');
        visible(line.rsplit('\r').next().unwrap_or(line)).into_owned() + end
    };
    text.split_inclusive('\n').map(line).collect()
}
