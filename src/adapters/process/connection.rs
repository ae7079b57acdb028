//! One connection to a worker: the command that carries it, and the messages both ways.

use std::{
    fs::File,
    io::{self, BufReader, PipeReader, PipeWriter, Read, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Carrier, NESTED, ProcessSpec, WorkTransfer,
    group::Process,
    line::{self, LineWriter},
    protocol::{
        ArrivedOutput, CHUNK, Encoded, FromWorker, GuardianCommand, GuardianNotice, GuardianSpec,
        LONGEST_LINE, OutputName, ToWorker,
    },
    sign,
    task_files::TaskFolder,
};
use crate::core::verdict::Outcome;

/// The variable that identifies the processes of an attempt.
const MARK: &str = "RALPH_ATTEMPT_ID";

/// The bytes of other text that are skipped before the worker answers: shells and login programs
/// print greetings.
const GREETING: usize = 64 * 1024;

/// The bytes at the end of the carrier's standard error that are kept.
const ERRORS: usize = 4 * 1024;

/// The longest wait for the end of the carrier's standard error. A process that the carrier leaves
/// behind, as the master of shared ssh connections, keeps it open.
const ERRORS_PATIENCE: Duration = Duration::from_secs(1);

/// A message to a carried guardian.
#[derive(Debug)]
pub(super) enum CarriedMessage {
    /// An order of the runner.
    Order(GuardianCommand),
    /// The runner is gone.
    Alone,
    /// Something arrived on the connection with this number.
    Heard(u32, CarrierNews),
}

/// A message of a connection.
#[derive(Debug)]
pub(super) enum CarrierNews {
    /// A message of the worker that is neither output, nor a file, nor of git.
    Message(FromWorker),
    /// The work in the slot has been sent, or could not be, for this reason.
    Sent(Result<(), String>),
    /// The work of the worker was brought into the slot, or could not be, for this reason.
    Fetched(Result<(), String>),
    /// The line has ended, with the reason if the worker sent something wrong.
    Ended(Option<String>),
    /// The carrier has exited.
    Exited(Outcome),
}

/// The receiver of bulk data: output, files and git's data.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// None once nothing is accepted any more.
    pub(super) output: Option<(PipeWriter, PipeWriter)>,
    pub(super) folder: Option<TaskFolder>,
    /// The commands that send and fetch the work.
    pub(super) transfer: Option<WorkTransfer>,
    /// The channel to git at the worker.
    pub(super) channel: Option<GitChannel>,
    /// The received output.
    pub(super) arrived: ArrivedOutput,
    /// Counts arrivals, as a sign of life.
    pub(super) count: Arc<AtomicU64>,
    /// When something arrived last.
    pub(super) heard_at: Instant,
    /// Whether work that has arrived could not be brought into the slot.
    pub(super) is_refused: bool,
}

impl Arrivals {
    /// Adds a line to the agent's standard error.
    pub(super) fn say(&mut self, line: &str) {
        if let Some((_, stderr)) = &mut self.output {
            // The journal has the end of the attempt in any case.
            let _ = writeln!(stderr, "ralph: {line}");
        }
    }
}

/// The last line of a text that is not blank.
fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

pub(super) type SharedArrivals = Arc<Mutex<Arrivals>>;

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arrivals {
    /// Takes a message, and returns the guardian's part of it.
    fn take(&mut self, message: FromWorker, replies: &Replies) -> Option<CarrierNews> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.heard_at = Instant::now();
        match message {
            FromWorker::Notice(GuardianNotice::Output { stream, bytes }) => {
                if let (Some((stdout, stderr)), Ok(bytes)) = (&mut self.output, bytes.bytes()) {
                    self.arrived.add(stream, bytes.len());
                    // The stream of a file that cannot be written is dropped.
                    let _ = match stream {
                        OutputName::Stdout => stdout.write_all(&bytes),
                        OutputName::Stderr => stderr.write_all(&bytes),
                    };
                }
                None
            }
            FromWorker::File(file) => {
                let stored = self.folder.as_mut().map_or(Ok(()), |folder| folder.store(&file));
                stored.err().map(|error| CarrierNews::Ended(Some(error.to_string())))
            }
            FromWorker::Takes {} => self.open_channel(
                replies,
                |transfer| &transfer.send,
                |sent| CarrierNews::Sent(sent.map(drop)),
            ),
            FromWorker::Offers {} => {
                let own = replies.clone();
                self.open_channel(
                    replies,
                    |transfer| &transfer.fetch,
                    move |fetched| {
                        let mut arrivals = lock(&own.arrivals);
                        // Without the channel, the line has ended.
                        let is_whole = arrivals.channel.is_some() && !own.line.is_cut();
                        arrivals.is_refused |= fetched.is_err() && is_whole;
                        fetched.iter().flatten().for_each(|note| arrivals.say(note));
                        CarrierNews::Fetched(fetched.map(drop))
                    },
                )
            }
            FromWorker::Git(bytes) => {
                if let Some(channel) = &mut self.channel {
                    channel.take(&bytes);
                }
                None
            }
            FromWorker::GitEnd {} => {
                if let Some(channel) = &mut self.channel {
                    channel.end_input();
                }
                None
            }
            message => Some(CarrierNews::Message(message)),
        }
    }

    /// Starts a command that talks with git at the worker. Its end becomes news.
    fn open_channel(
        &mut self,
        replies: &Replies,
        argv: impl Fn(&WorkTransfer) -> &Vec<String>,
        news: impl FnOnce(Result<Vec<String>, String>) -> CarrierNews + Send + 'static,
    ) -> Option<CarrierNews> {
        let transfer = self.transfer.as_ref()?;
        let (line, replies) = (replies.line.clone(), replies.clone());
        let started = GitChannel::start(
            argv(transfer),
            move |bytes| line.send_bulk(&ToWorker::Git(bytes)),
            move |ended| {
                if ended.is_ok() {
                    replies.line.send(&ToWorker::GitEnd {});
                }
                replies.tell(news(ended));
            },
        );
        match started {
            Ok(channel) => self.channel = Some(channel),
            Err(error) => return Some(CarrierNews::Ended(Some(error.to_string()))),
        }
        None
    }

    /// Accepts no more output.
    pub(super) fn close(&mut self) {
        self.output = None;
    }
}

/// The destination of replies.
#[derive(Clone, Debug)]
struct Replies {
    number: u32,
    line: LineWriter,
    outbox: Sender<CarriedMessage>,
    arrivals: SharedArrivals,
}

impl Replies {
    fn tell(&self, news: CarrierNews) {
        let _ = self.outbox.send(CarriedMessage::Heard(self.number, news));
    }
}

/// A started carrier.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) process: Process,
    pub(super) line: LineWriter,
    errors: Arc<Mutex<Vec<u8>>>,
    /// Disconnected once all of `errors` has been read: the exit of the carrier may be known before
    /// its messages.
    errors_end: Receiver<()>,
}

impl Connection {
    /// Starts the carrier in the folder of `spec`, with its environment, and threads that report
    /// messages, with this number.
    ///
    /// # Errors
    /// As for [`Process::spawn`].
    pub(super) fn open(
        carrier: &Carrier,
        spec: &ProcessSpec,
        number: u32,
        arrivals: &SharedArrivals,
        tell: &Sender<CarriedMessage>,
    ) -> io::Result<Connection> {
        let (stdin, orders) = io::pipe()?;
        let (answers, stdout) = io::pipe()?;
        let (errors_reader, stderr) = io::pipe()?;
        let line = LineWriter::start(orders)?;
        let spec = ProcessSpec { argv: carrier.argv.clone(), ..spec.clone() };
        let ended = tell.clone();
        let exited = move |outcome| {
            let _ = ended.send(CarriedMessage::Heard(number, CarrierNews::Exited(outcome)));
        };
        let stdin = || Ok(stdin.into());
        let process = Process::spawn_reading(&spec, stdin, stdout, stderr, exited)?;
        let errors: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (kept, arrivals) = (Arc::clone(&errors), Arc::clone(arrivals));
        let replies = Replies { number, line: line.clone(), outbox: tell.clone(), arrivals };
        let (errors_ended, errors_end) = mpsc::channel();
        thread::spawn(move || {
            keep_errors(errors_reader, &kept);
            drop(errors_ended);
        });
        thread::spawn(move || {
            let fault = hear(answers, &replies).err().map(|error| error.to_string());
            let channel = lock(&replies.arrivals).channel.take();
            replies.tell(CarrierNews::Ended(fault));
            drop(channel);
        });
        Ok(Connection { process, line, errors, errors_end })
    }

    /// The end of the carrier's standard error. Waits a moment for pending bytes.
    pub(super) fn errors(&self) -> String {
        let _ = self.errors_end.recv_timeout(ERRORS_PATIENCE);
        String::from_utf8_lossy(&lock(&self.errors)).into_owned()
    }

    /// The last line of [`Connection::errors`]; empty if there is none.
    pub(super) fn last_error(&self) -> String {
        last_line(self.errors().as_bytes())
    }
}

/// Starts a carrier. It is marked as a process of the attempt, and gets no other variable of the
/// agent.
pub(super) fn connect(
    brief: &GuardianSpec,
    carrier: &Carrier,
    number: u32,
    arrivals: &SharedArrivals,
    outbox: &Sender<CarriedMessage>,
) -> io::Result<Connection> {
    let is_mark = |(name, _): &&(String, String)| name == MARK;
    let spec = ProcessSpec {
        env: brief.spec.env.iter().filter(is_mark).cloned().collect(),
        env_remove: NESTED.map(str::to_owned).to_vec(),
        ..brief.spec.clone()
    };
    let _sign = sign(&brief.record)?;
    Connection::open(carrier, &spec, number, arrivals, outbox)
}

/// Reads the worker's lines to the end.
fn hear(answers: PipeReader, replies: &Replies) -> io::Result<()> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut answers = BufReader::with_capacity(64 * 1024, answers);
    let (mut line, mut skipped, mut has_answered) = (Vec::new(), 0, false);
    loop {
        let limit = if has_answered { LONGEST_LINE } else { GREETING };
        if !line::read_line(&mut answers, limit, &mut line)? {
            return Ok(());
        }
        match serde_json::from_slice::<FromWorker>(&line) {
            Ok(message) if has_answered || matches!(message, FromWorker::Hello(_)) => {
                has_answered = true;
                let news = lock(&replies.arrivals).take(message, replies);
                if let Some(news) = news {
                    replies.tell(news);
                }
            }
            _ if has_answered => {
                return Err(invalid(format!("the worker sent `{}`", excerpt(&line))));
            }
            _ => {
                skipped += line.len();
                if skipped >= GREETING {
                    let shown = excerpt(&line);
                    return Err(invalid(format!("there is no worker, but text such as `{shown}`")));
                }
            }
        }
    }
}

fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(80)]);
    text.trim().escape_debug().to_string()
}

/// Keeps the end of the carrier's standard error.
fn keep_errors(mut reader: PipeReader, kept: &Mutex<Vec<u8>>) {
    let mut block = [0; 4096];
    while let Ok(length @ 1..) = reader.read(&mut block) {
        let mut kept = lock(kept);
        kept.extend_from_slice(&block[..length]);
        let surplus = kept.len().saturating_sub(ERRORS);
        kept.drain(..surplus);
    }
}

/// Sends the prompt of a process.
///
/// # Errors
/// The reason why it cannot be read; a line that ended is none.
pub(super) fn send_prompt(line: &LineWriter, spec: &ProcessSpec) -> Result<(), String> {
    let path = spec.stdin.display();
    let mut file = File::open(&spec.stdin).map_err(|error| format!("open `{path}`: {error}"))?;
    match send_all(line, &mut file, ToWorker::Prompt) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("read `{path}`: {error}"))
        }
        _ => Ok(()),
    }
}

/// Sends everything that `from` has, in parts.
fn send_all(
    line: &LineWriter,
    from: &mut impl Read,
    message: impl Fn(Encoded) -> ToWorker,
) -> io::Result<()> {
    let mut block = vec![0; CHUNK];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(length) => line.send_bulk(&message(Encoded::of(&block[..length])))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

// A program whose standard input and output are at the other end of a line: git and its caller.

/// The time for a program to end once its line is closed.
const ENDING: Duration = Duration::from_secs(10);

/// A program that talks over a line. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct GitChannel {
    handle: Arc<duct::Handle>,
    input: Option<PipeWriter>,
}

impl GitChannel {
    /// Starts a command. A thread passes its output to `send`, and its end to `ended`: its standard
    /// error, or why it failed.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(
        argv: &[String],
        send: impl Fn(Encoded) -> io::Result<()> + Send + 'static,
        ended: impl FnOnce(Result<Vec<String>, String>) + Send + 'static,
    ) -> io::Result<GitChannel> {
        let empty = || io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
        let (program, arguments) = argv.split_first().ok_or_else(empty)?;
        let ((stdin, input), (mut output, stdout)) = (io::pipe()?, io::pipe()?);
        let command = duct::cmd(program, arguments).stdin_file(stdin).stdout_file(stdout);
        let handle = Arc::new(command.stderr_capture().unchecked().start()?);
        let own = Arc::clone(&handle);
        thread::Builder::new().name("git".to_owned()).spawn(move || {
            let mut block = vec![0; CHUNK];
            while let Ok(length @ 1..) = output.read(&mut block) {
                if send(Encoded::of(&block[..length])).is_err() {
                    break;
                }
            }
            drop(output);
            ended(end_of(&own));
        })?;
        Ok(GitChannel { handle, input: Some(input) })
    }

    /// Passes on the other end's bytes. The program's exit explains why it stops reading.
    pub(super) fn take(&mut self, bytes: &Encoded) {
        if let (Some(input), Ok(bytes)) = (&mut self.input, bytes.bytes()) {
            let _ = input.write_all(&bytes);
        }
    }

    /// Notes that the other end says no more.
    pub(super) fn end_input(&mut self) {
        self.input = None;
    }
}

impl Drop for GitChannel {
    /// Closes its input: git then ends and removes incomplete data.
    fn drop(&mut self) {
        self.input = None;
        if !matches!(self.handle.wait_timeout(ENDING), Ok(Some(_))) {
            let _ = self.handle.kill();
        }
    }
}

/// The captured standard error of a program.
fn end_of(handle: &duct::Handle) -> Result<Vec<String>, String> {
    let output = handle.wait().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
    let mut said: Vec<String> = said.collect();
    if output.status.success() {
        return Ok(said);
    }
    Err(said.pop().unwrap_or_else(|| output.status.to_string()))
}
