//! A guardian whose agent is elsewhere: it starts the carrier, and passes on the runner's orders
//! and the worker's notices.
//!
//! The worker ends everything when the line ends, so a guardian that dies, is killed or gives up
//! leaves nothing running. It does not believe that the agent is gone before the worker says so: if
//! the line ends first, the outcome is [`Outcome::Lost`].

mod ending;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Carrier, Closed, ProcessNews, SignsOfLife, StartFault,
    connection::{
        Arrivals, CarriedMessage, CarrierNews, Connection, SharedArrivals, connect, lock,
        send_prompt,
    },
    line::LineWriter,
    protocol::{
        ArrivedOutput, FromWorker, GuardianCommand, GuardianNotice, GuardianSpec, PROTOCOL, PULSE,
        ToWorker, VERSION, WorkerBegin, WorkerHello, listen, sent_sign, tell, tell_news,
        tell_not_started,
    },
    secrets, sign_of_life,
    stream::Streams,
    task_files::TaskFolder,
    there::TASK_DIR,
    tree,
};
use crate::core::{duration, verdict::Outcome};

/// The number of pulses without a word of the worker after which it counts as lost.
const SILENT_PULSES: u32 = 24;

/// The time for a worker to end everything it was ordered to kill. Less than the time after which
/// the runner kills a guardian that does not answer.
const KILL_PATIENCE: Duration = Duration::from_secs(15);

/// How an agent and everything it started ended.
#[derive(Debug)]
pub(super) struct GuardedEnd {
    pub(super) closed: Closed,
    /// Whether the runner died or a person stopped the run before that.
    pub(super) cut_off: bool,
}

/// A connection's purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPurpose {
    /// The agent runs behind it.
    Run,
    /// It only fetches the work that the one of the agent, which was lost, did not bring back.
    Fetch,
    /// It only fetches the end and the work of an agent whose guardian was lost.
    Recover,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CarriedStage {
    /// The worker has not answered.
    Reaching,
    /// It gets the agent's files.
    Sending,
    /// The agent runs.
    Running,
    /// All its processes have ended; its work is on the way.
    Fetching,
}

impl CarriedStage {
    /// The interrupted step.
    fn lost(self) -> &'static str {
        match self {
            CarriedStage::Reaching => "the worker did not answer",
            CarriedStage::Sending => "the connection ended before the agent started",
            CarriedStage::Running => "the connection ended while the agent ran",
            CarriedStage::Fetching => "the connection ended before its work was fetched",
        }
    }
}

/// Why a connection is over.
#[derive(Debug)]
enum CarriedEnd {
    /// The worker reported everything.
    Done,
    /// The agent cannot run there, for this reason, and the fault that stops others as well.
    Impossible(String, Option<StartFault>),
    /// The connection was lost, for this reason.
    Lost(String),
    /// It was ended before the agent ran, or because the runner is gone.
    Stopped(Outcome),
}

/// Guards an agent behind a carrier. Reports a carrier that does not start, and returns none.
///
/// # Errors
/// I/O errors.
pub(super) fn guard(brief: &GuardianSpec, carrier: &Carrier) -> io::Result<Option<GuardedEnd>> {
    let (outbox, inbox) = mpsc::channel();
    let mut guard = match CarriedGuard::start(brief, carrier, &outbox, inbox) {
        Ok(started) => started,
        Err(error) => {
            tell_not_started(&error, StartFault::Executor)?;
            return Ok(None);
        }
    };
    tell(&GuardianNotice::Started { identity: guard.connection.process.identity().clone() })?;
    listen(move |order| {
        let message = order.map_or(CarriedMessage::Alone, CarriedMessage::Order);
        let _ = outbox.send(message);
    });
    let mut end = guard.watch()?;
    if guard.may_fetch(&end) && guard.fetch()? && (guard.closed.is_some() || guard.recovers()) {
        // All processes had ended there, and their work is here.
        end = CarriedEnd::Done;
    }
    let end = guard.ended(end);
    // Processes left here only carried, and may hold up the rest.
    let (_, immortal) = tree::sweep();
    lock(&guard.arrivals).close();
    guard.streams.drain();
    let closed = Closed { immortal: end.closed.immortal + immortal, ..end.closed };
    Ok(Some(GuardedEnd { closed, ..end }))
}

/// A guardian behind whose carrier an agent runs.
#[expect(clippy::struct_excessive_bools, reason = "these are facts")]
struct CarriedGuard<'a> {
    brief: &'a GuardianSpec,
    carrier: &'a Carrier,
    outbox: Sender<CarriedMessage>,
    inbox: Receiver<CarriedMessage>,
    streams: Streams,
    arrivals: SharedArrivals,
    /// Counts arrivals.
    count: Arc<AtomicU64>,
    connection: Connection,
    /// The sign of life of the agent, where it needs one.
    sign: Option<PathBuf>,
    /// The number of the connection; messages of earlier ones are ignored.
    number: u32,
    stage: CarriedStage,
    /// The name of the machine of the worker.
    host: String,
    purpose: ConnectionPurpose,
    began: Instant,
    /// When the first worker answered.
    greeted_at: Option<Instant>,
    /// How the agent ended, once reported.
    closed: Option<Closed>,
    /// How the carrier exited.
    exited: Option<Outcome>,
    /// Whether the runner knows that there is no contact.
    is_silent: bool,
    is_frozen: bool,
    cancelled: bool,
    /// Whether the runner is gone.
    abandoned: bool,
    killed_at: Option<Instant>,
}

impl<'a> CarriedGuard<'a> {
    fn start(
        brief: &'a GuardianSpec,
        carrier: &'a Carrier,
        outbox: &Sender<CarriedMessage>,
        inbox: Receiver<CarriedMessage>,
    ) -> io::Result<CarriedGuard<'a>> {
        let secrets = secrets(&brief.spec);
        let count: Arc<AtomicU64> = Arc::default();
        let (streams, stdout, stderr) =
            Streams::open(&brief.spec, brief.terminal, &secrets, &Arc::default())?;
        let folder = brief.spec.env.iter().find(|(name, _)| name == TASK_DIR);
        let arrivals = Arc::new(Mutex::new(Arrivals {
            output: Some((stdout, stderr)),
            folder: folder.map(|(_, dir)| TaskFolder::new(Path::new(dir))),
            transfer: carrier.transfer.clone(),
            channel: None,
            arrived: ArrivedOutput::default(),
            count: Arc::clone(&count),
            heard_at: Instant::now(),
            is_refused: false,
        }));
        let connection = connect(brief, carrier, 0, &arrivals, outbox)?;
        let guard = CarriedGuard {
            brief,
            carrier,
            outbox: outbox.clone(),
            inbox,
            streams,
            arrivals,
            count,
            connection,
            sign: carrier.signs.as_ref().map(SignsOfLife::another),
            number: 0,
            stage: CarriedStage::Reaching,
            host: String::new(),
            purpose: if carrier.recovers {
                ConnectionPurpose::Recover
            } else {
                ConnectionPurpose::Run
            },
            began: Instant::now(),
            greeted_at: None,
            closed: None,
            exited: None,
            is_silent: false,
            is_frozen: false,
            cancelled: false,
            abandoned: false,
            killed_at: None,
        };
        guard.begin();
        Ok(guard)
    }

    /// Follows the connection until it is over.
    fn watch(&mut self) -> io::Result<CarriedEnd> {
        let (mut silent, mut count) = (0, 0);
        let mut due = Instant::now() + PULSE;
        loop {
            let end = match self.inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(CarriedMessage::Order(order)) => self.obey(order),
                Ok(CarriedMessage::Alone) => {
                    self.abandoned = true;
                    Some(CarriedEnd::Stopped(Outcome::Interrupted))
                }
                Ok(CarriedMessage::Heard(number, heard)) if number == self.number => {
                    self.hear(heard)?
                }
                Ok(CarriedMessage::Heard(..)) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    Some(CarriedEnd::Stopped(Outcome::Interrupted))
                }
                Err(RecvTimeoutError::Timeout) => {
                    due = Instant::now() + PULSE;
                    self.connection.line.send(&ToWorker::Pulse {});
                    let arrived = self.count.load(Ordering::Relaxed);
                    // Counted and not measured, so that a guardian that was stopped for a while
                    // does not blame the worker.
                    silent = if arrived == count { silent + 1 } else { 0 };
                    count = arrived;
                    self.tell_contact(silent)?;
                    self.doubt(silent)
                }
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Returns why a worker that has said nothing for this number of pulses counts as lost.
    fn doubt(&self, silent: u32) -> Option<CarriedEnd> {
        let is_unanswered = self.killed_at.is_some_and(|at| at.elapsed() >= KILL_PATIENCE);
        if is_unanswered && self.closed.is_none() {
            return Some(CarriedEnd::Lost("the worker did not obey the order to kill".to_owned()));
        }
        if self.exited.is_some() && silent > 0 {
            return Some(CarriedEnd::Lost(self.loss(None)));
        }
        if self.recovers() && self.has_asked_enough() {
            return Some(CarriedEnd::Lost(self.loss(None)));
        }
        // Before it has answered, it may be in a queue.
        let answers = self.stage > CarriedStage::Reaching && silent >= SILENT_PULSES;
        answers.then(|| {
            let silence = duration::short(PULSE * silent);
            CarriedEnd::Lost(format!("the worker has been silent for {silence}"))
        })
    }

    fn obey(&mut self, order: GuardianCommand) -> Option<CarriedEnd> {
        let signal = match order {
            GuardianCommand::Interrupt => Some(2),
            GuardianCommand::Terminate => Some(15),
            GuardianCommand::Kill => {
                self.killed_at.get_or_insert_with(Instant::now);
                Some(9)
            }
            GuardianCommand::Cancel => {
                self.cancelled = true;
                None
            }
            GuardianCommand::Freeze | GuardianCommand::Thaw => {
                self.is_frozen = order == GuardianCommand::Freeze;
                None
            }
            GuardianCommand::Awake | GuardianCommand::Spare => None,
        };
        let is_running = self.stage >= CarriedStage::Running;
        match self.purpose {
            ConnectionPurpose::Run if is_running => {
                self.connection.line.send(&ToWorker::Order(order));
                return None;
            }
            // Only a running process is ended.
            ConnectionPurpose::Fetch if order != GuardianCommand::Kill => return None,
            ConnectionPurpose::Run | ConnectionPurpose::Fetch | ConnectionPurpose::Recover => {}
        }
        signal.map(|signal| CarriedEnd::Stopped(Outcome::Signaled { signal }))
    }

    fn hear(&mut self, heard: CarrierNews) -> io::Result<Option<CarriedEnd>> {
        Ok(match heard {
            CarrierNews::Message(message) => self.hear_message(message)?,
            CarrierNews::Sent(sent) => {
                sent.err().map(|why| CarriedEnd::Impossible(why, self.missed()))
            }
            CarrierNews::Fetched(Ok(())) => {
                self.connection.line.send(&ToWorker::Received {});
                None
            }
            CarrierNews::Fetched(Err(why)) => {
                Some(CarriedEnd::Lost(format!("its work could not be brought back: {why}")))
            }
            CarrierNews::Ended(_) if self.closed.is_some() && self.carrier.transfer.is_none() => {
                Some(CarriedEnd::Done)
            }
            CarrierNews::Ended(fault) => {
                self.await_exit(Duration::from_secs(1));
                let why = self.loss(fault.as_deref());
                Some(match self.impossible(&why) {
                    Some((why, fault)) => CarriedEnd::Impossible(why, fault),
                    None => CarriedEnd::Lost(why),
                })
            }
            CarrierNews::Exited(outcome) => {
                self.exited = Some(outcome);
                None
            }
        })
    }

    fn hear_message(&mut self, message: FromWorker) -> io::Result<Option<CarriedEnd>> {
        match message {
            FromWorker::Hello(hello) => return Ok(self.greet(&hello)),
            FromWorker::Refused { error, is_broken: _, lasts: true } => {
                return Ok(Some(CarriedEnd::Impossible(error, Some(StartFault::Executor))));
            }
            FromWorker::Refused { error, is_broken, lasts: false } => {
                return Ok(Some(self.refused(error, is_broken)));
            }
            FromWorker::Ready {} => self.start_agent(),
            FromWorker::Notice(GuardianNotice::Started { .. }) => {
                self.stage = CarriedStage::Running;
                tell_news(ProcessNews::Arrived(self.host.clone()))?;
                if self.is_frozen {
                    self.connection.line.send(&ToWorker::Order(GuardianCommand::Freeze));
                }
            }
            FromWorker::Notice(GuardianNotice::NotStarted { error, fault }) => {
                sign_of_life::remove(self.sign.as_deref());
                return Ok(Some(CarriedEnd::Impossible(error, fault.or(self.missed()))));
            }
            FromWorker::Notice(GuardianNotice::News(news)) => match news {
                ProcessNews::Closed(closed) => self.close(closed)?,
                ProcessNews::Idle | ProcessNews::Left(_) => {
                    // Leftover processes are judged by its report, which may be its last output.
                    self.streams.settle();
                    tell_news(news)?;
                }
                ProcessNews::Arrived(_) | ProcessNews::Fetching | ProcessNews::Contact(_) => {}
            },
            FromWorker::Done {} => return Ok(Some(CarriedEnd::Done)),
            FromWorker::Takes {}
            | FromWorker::Offers {}
            | FromWorker::Git(_)
            | FromWorker::GitEnd {}
            | FromWorker::Pulse {}
            | FromWorker::Notice(GuardianNotice::Output { .. })
            | FromWorker::File(_) => {}
        }
        Ok(None)
    }

    /// Checks that the worker is of the same version.
    fn greet(&mut self, hello: &WorkerHello) -> Option<CarriedEnd> {
        let WorkerHello { protocol, version, host, program } = hello;
        if (*protocol, version.as_str()) != (PROTOCOL, VERSION) {
            let name = |protocol: u32, version: &str| format!("{version} (protocol {protocol})");
            let why = format!(
                "`{}` at `{}` is ralph {}, and this is ralph {}; install the same version there",
                program.escape_debug(),
                host.escape_debug(),
                name(*protocol, &version.escape_debug().to_string()),
                name(PROTOCOL, VERSION),
            );
            return Some(CarriedEnd::Impossible(why, Some(StartFault::Executor)));
        }
        self.host.clone_from(host);
        self.greeted_at.get_or_insert_with(Instant::now);
        self.stage = self.stage.max(CarriedStage::Sending);
        None
    }

    fn lost(&self, why: String) -> Outcome {
        Outcome::Lost { executor: self.carrier.executor.clone(), why }
    }

    /// Notes that all processes there have ended.
    fn close(&mut self, mut closed: Closed) -> io::Result<()> {
        self.stage = CarriedStage::Fetching;
        if closed.immortal == 0 {
            sign_of_life::remove(self.sign.as_deref());
        }
        if closed.outcome.is_none() {
            closed.outcome = Some(self.lost("the guardian there was killed".to_owned()));
        }
        self.closed = Some(closed);
        if self.carrier.transfer.is_some() { tell_news(ProcessNews::Fetching) } else { Ok(()) }
    }

    /// Sends the worker its purpose.
    fn begin(&self) {
        self.connection.line.send(&ToWorker::Begin(WorkerBegin {
            work: self.carrier.transfer.as_ref().map(|transfer| transfer.files.clone()),
            fetch: self.purpose != ConnectionPurpose::Run,
            end: self.brief.exit.is_some(),
            arrived: lock(&self.arrivals).arrived,
            sign: self.sign.clone(),
        }));
    }

    /// Sends the agent's files from a thread of its own, while orders are handled, and starts it.
    fn start_agent(&self) {
        let files = lock(&self.arrivals).folder.as_mut().map(TaskFolder::news);
        for file in files.unwrap_or_default() {
            self.connection.line.send(&ToWorker::File(file));
        }
        let spec = GuardianSpec { carrier: None, sign: self.sign.clone(), ..self.brief.clone() };
        let (line, outbox, number) =
            (self.connection.line.clone(), self.outbox.clone(), self.number);
        thread::spawn(move || {
            if let Err(why) = send_agent(&line, spec) {
                let _ = outbox.send(CarriedMessage::Heard(number, CarrierNews::Sent(Err(why))));
            }
        });
    }
}

/// Sends the prompt of an agent and the agent, and notes before that it may have been started.
fn send_agent(line: &LineWriter, spec: GuardianSpec) -> Result<(), String> {
    send_prompt(line, &spec.spec)?;
    let noted = |error: io::Error| format!("note the start: {error}");
    if let Some(exit) = &spec.exit {
        File::create(sent_sign(exit)).map_err(noted)?;
    }
    if let Some(sign) = &spec.sign {
        sign_of_life::make(sign).map_err(noted)?;
    }
    line.send(&ToWorker::Start(Box::new(spec)));
    Ok(())
}
