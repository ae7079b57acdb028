//! One connection to a worker: the command that carries it, what it is told, and what arrives.

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

use serde::Deserialize;

use super::{
    Carrier, NESTED, ProcessSpec,
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

/// What a carried guardian reacts to.
#[derive(Debug)]
pub(super) enum CarriedMessage {
    /// An order of the runner.
    Order(GuardianCommand),
    /// The runner is gone.
    Alone,
    /// Something arrived on the connection with this number.
    Heard(u32, CarrierNews),
}

/// What arrives on a connection.
#[derive(Debug)]
pub(super) enum CarrierNews {
    /// A message of the worker that is neither output, nor a file, nor a pack.
    Message(FromWorker),
    /// A pack of the worker was brought into the slot, or could not be, for this reason.
    Unpacked(Result<(), String>),
    /// What was to be sent to the worker cannot be read, for this reason.
    Unsendable(String),
    /// The line has ended, with the reason if the worker sent something wrong.
    Ended(Option<String>),
    /// The carrier has exited.
    Exited(Outcome),
}

/// What receives the bulk that arrives: output, files and packs.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// None once nothing is accepted any more.
    pub(super) output: Option<(PipeWriter, PipeWriter)>,
    pub(super) folder: Option<TaskFolder>,
    /// The command that reads a pack.
    pub(super) unpack: Vec<String>,
    pub(super) unpacking: Option<Unpacking>,
    /// What has arrived of the output.
    pub(super) arrived: ArrivedOutput,
    /// Counts what has arrived, as a sign of life.
    pub(super) count: Arc<AtomicU64>,
    /// When something arrived last.
    pub(super) heard_at: Instant,
    /// Whether a whole pack could not be brought into the slot.
    pub(super) is_refused: bool,
}

impl Arrivals {
    /// Adds a line to what the agent has printed on its standard error.
    pub(super) fn say(&mut self, line: &str) {
        if let Some((_, stderr)) = &mut self.output {
            // The journal has the end of the attempt in any case.
            let _ = writeln!(stderr, "{line}");
        }
    }
}

/// A pack on its way into the slot.
#[derive(Debug)]
pub(super) struct Unpacking {
    handle: duct::Handle,
    input: PipeWriter,
}

/// What the command that reads a pack prints.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UnpackResult {
    arrival: String,
    kept: Option<String>,
    why: Option<String>,
    left_out: Vec<String>,
}

impl Unpacking {
    fn start(argv: &[String]) -> io::Result<Unpacking> {
        let (reader, input) = io::pipe()?;
        let (program, arguments) = split(argv)?;
        let handle = duct::cmd(program, arguments)
            .stdin_file(reader)
            .stdout_capture()
            .stderr_capture()
            .unchecked()
            .start()?;
        Ok(Unpacking { handle, input })
    }

    /// Ends the pack. Returns what a person must know about it.
    fn end(self) -> Result<Vec<String>, String> {
        drop(self.input);
        end_of(&self.handle)?;
        let output = self.handle.wait().map_err(|error| error.to_string())?;
        let result: UnpackResult = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let kept = result.kept.unwrap_or_default();
        let mut notes: Vec<String> =
            result.left_out.iter().map(|path| format!("not sent: {path}")).collect();
        match result.arrival.as_str() {
            "blocked" => {
                let why = result.why.unwrap_or_default();
                return Err(format!("{why}; it is kept in `{kept}`"));
            }
            "strayed" => notes.push(format!(
                "the work does not descend from the commit it started from; it is kept in `{kept}`"
            )),
            _ => {}
        }
        Ok(notes)
    }
}

/// The result of a command whose standard error is captured.
fn end_of(handle: &duct::Handle) -> Result<(), String> {
    let output = handle.wait().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = last_line(&output.stderr);
    Err(if said.is_empty() { output.status.to_string() } else { said })
}

fn split(argv: &[String]) -> io::Result<(&String, &[String])> {
    let empty = || io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
    argv.split_first().ok_or_else(empty)
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
    /// Takes what arrived, and returns what the guardian must know.
    fn take(&mut self, message: FromWorker) -> Option<CarrierNews> {
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
            FromWorker::Pack(bytes) => {
                if self.unpacking.is_none() {
                    match Unpacking::start(&self.unpack) {
                        Ok(started) => self.unpacking = Some(started),
                        Err(error) => return Some(CarrierNews::Ended(Some(error.to_string()))),
                    }
                }
                if let (Some(unpacking), Ok(bytes)) = (&mut self.unpacking, bytes.bytes()) {
                    // How it ends tells why it reads no more.
                    let _ = unpacking.input.write_all(&bytes);
                }
                None
            }
            FromWorker::PackEnd {} => {
                let ended = self.unpacking.take()?.end();
                self.is_refused |= ended.is_err();
                Some(CarrierNews::Unpacked(ended.map(|notes| self.print(&notes))))
            }
            message => Some(CarrierNews::Message(message)),
        }
    }

    /// Adds notes to the standard error of the agent.
    fn print(&mut self, notes: &[String]) {
        if let Some((_, stderr)) = &mut self.output {
            for note in notes {
                let _ = writeln!(stderr, "ralph: {note}");
            }
        }
    }

    /// Drops what is incomplete, and accepts no more output.
    pub(super) fn close(&mut self) {
        self.output = None;
        self.unpacking = None;
    }
}

/// A started carrier.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) process: Process,
    pub(super) line: LineWriter,
    errors: Arc<Mutex<Vec<u8>>>,
    /// Disconnected once all of `errors` has been read: the exit of the carrier may be known before
    /// what it said.
    errors_end: Receiver<()>,
}

impl Connection {
    /// Starts the carrier in the folder of `spec`, with its environment, and threads that tell what
    /// arrives, with this number.
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
        let (kept, tell, arrivals) = (Arc::clone(&errors), tell.clone(), Arc::clone(arrivals));
        let (errors_ended, errors_end) = mpsc::channel();
        thread::spawn(move || {
            keep_errors(errors_reader, &kept);
            drop(errors_ended);
        });
        thread::spawn(move || {
            let heard = |heard| {
                let _ = tell.send(CarriedMessage::Heard(number, heard));
            };
            let fault = hear(answers, &arrivals, heard).err().map(|error| error.to_string());
            // A part of a pack is of no use.
            lock(&arrivals).unpacking = None;
            let _ = tell.send(CarriedMessage::Heard(number, CarrierNews::Ended(fault)));
        });
        Ok(Connection { process, line, errors, errors_end })
    }

    /// The end of what the carrier printed on its standard error. Waits a moment for what is on the
    /// way.
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

/// Reads what the worker says, to the end.
fn hear(
    answers: PipeReader,
    arrivals: &SharedArrivals,
    tell: impl Fn(CarrierNews),
) -> io::Result<()> {
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
                let heard = lock(arrivals).take(message);
                if let Some(heard) = heard {
                    tell(heard);
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

/// Sends what `pack` writes, which reads the ids `have`.
///
/// # Errors
/// The reason why there is no pack; a line that ended is none.
pub(super) fn send_pack(line: &LineWriter, pack: &[String], have: &[String]) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let ids: String = have.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
    let (mut reader, writer) = io::pipe().map_err(text)?;
    let (program, arguments) = split(pack).map_err(text)?;
    let handle = duct::cmd(program, arguments)
        .stdin_bytes(ids)
        .stdout_file(writer)
        .stderr_capture()
        .unchecked()
        .start()
        .map_err(text)?;
    if send_all(line, &mut reader, ToWorker::Pack).is_err() {
        drop(reader);
        let _ = handle.wait();
        return Ok(());
    }
    end_of(&handle)?;
    line.send(&ToWorker::PackEnd {});
    Ok(())
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
