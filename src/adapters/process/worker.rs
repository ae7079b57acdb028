//! `ralph __worker`: starts the processes of an attempt on a machine that a carrier reaches.
//!
//! A worker is to its guardian what the runner is to the local one: it starts `ralph __guard`, passes
//! on orders and notices, and sweeps up after a guardian that was killed. Its standard input and
//! output are the line to the guardian that started the carrier. When the line ends, or the worker
//! dies in any way, the guardian here ends everything.

use std::{
    fs::{self, File},
    io::{self, BufReader, Write},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    AgentProcess, Closed, GuardianProgram, NotStarted, ProcessNews, StartFault, adopt_orphans,
    connection::{GitChannel, lock},
    line::{self, LineWriter},
    own_file,
    protocol::{
        FromWorker, GuardianCommand, GuardianNotice, GuardianSpec, LONGEST_LINE, OutputRoute,
        PROTOCOL, PULSE, TaskFile, ToWorker, VERSION, WorkerHello,
    },
    sign_of_life,
    task_files::TaskFolder,
    there, tree,
};
pub use super::{
    kept_end::KeptEnd,
    protocol::{ArrivedOutput, WorkerBegin, WorkerFiles},
};
use crate::core::executor::ExecutorFault;

/// The messages that wait to be handled: a worker that unpacks slowly must not store more.
const WAITING: usize = 32;

/// The interval between two looks at the files of the task.
const LOOK: Duration = Duration::from_millis(500);

/// The number of pulses without a word of the guardian after which the line counts as cut: its
/// machine may have vanished without closing it.
const SILENT_PULSES: u32 = 60;

/// The time for the guardian here to end everything after an order to kill.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time to tell the guardian why nothing can be done.
const LAST_WORD: Duration = Duration::from_secs(10);

/// The file in the folder of a worker that its processes have open.
const RECORD: &str = "record";

/// A message to a worker.
enum WorkerMessage {
    /// A message of the guardian that started the carrier.
    Heard(ToWorker),
    /// The line to that guardian has ended.
    Cut,
    /// Git here has ended; with the reason if it failed.
    Served(Result<(), String>),
    /// How the process here ended.
    Over(Closed),
}

/// Where a worker starts the process.
#[derive(Debug)]
pub struct WorkerPlace<'a> {
    /// The slot with the files that were sent; none if the files are the same under the same paths.
    pub slot: Option<&'a Path>,
    /// A folder of the worker's own, which exists.
    pub folder: &'a Path,
    /// The lock of the slot, which the guardian holds until everything has ended.
    pub lock: &'a File,
    /// Where the end of an agent is kept, in case that the guardian is lost before it has the work.
    pub end: Option<&'a KeptEnd>,
}

/// A worker with the line to the guardian that started its carrier.
#[derive(Debug)]
pub struct Worker {
    line: LineWriter,
    inbox: Receiver<WorkerMessage>,
    outbox: SyncSender<WorkerMessage>,
    /// The sign of life of the process.
    sign: Option<PathBuf>,
}

impl Worker {
    /// Reads the first line of the guardian and answers who this is.
    ///
    /// # Errors
    /// I/O errors; a first line of another kind.
    pub fn accept() -> io::Result<(Worker, WorkerBegin)> {
        adopt_orphans();
        let line = LineWriter::start(io::stdout())?;
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut input = BufReader::with_capacity(64 * 1024, stdin);
        let mut first = Vec::new();
        line::read_line(&mut input, LONGEST_LINE, &mut first)?;
        let Ok(ToWorker::Begin(begin)) = serde_json::from_slice(&first) else {
            let why = "only `ralph` starts this command, at an executor";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        // Ends a line that something else may have printed.
        line.send(&"");
        line.send(&FromWorker::Hello(WorkerHello {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            host: fs::read_to_string("/proc/sys/kernel/hostname")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            program: own_file().unwrap_or_default().display().to_string(),
        }));
        let (outbox, inbox) = mpsc::sync_channel(WAITING);
        let (listener, cut, pulse) = (outbox.clone(), line.clone(), line.clone());
        thread::Builder::new().name("orders".to_owned()).spawn(move || {
            let mut text = Vec::new();
            while let Ok(true) = line::read_line(&mut input, LONGEST_LINE, &mut text) {
                let Ok(message) = serde_json::from_slice(&text) else {
                    break;
                };
                if listener.send(WorkerMessage::Heard(message)).is_err() {
                    return;
                }
            }
            cut.cut();
            let _ = listener.send(WorkerMessage::Cut);
        })?;
        thread::Builder::new().name("pulse".to_owned()).spawn(move || {
            thread::sleep(PULSE);
            while pulse.send_if_idle(&FromWorker::Pulse {}) {
                thread::sleep(PULSE);
            }
        })?;
        Ok((Worker { line, inbox, outbox, sign: begin.sign.clone() }, begin))
    }

    /// Returns a callback that ends everything this worker started, like the end of its line. A
    /// cluster that ends a job first terminates all its processes: the guardian here dies of it,
    /// and only the worker can still end children that do not.
    pub fn ender(&self) -> impl Fn() + Send + 'static {
        let (line, outbox) = (self.line.clone(), self.outbox.clone());
        move || {
            // Nothing that it says now is how the agent ended.
            line.cut();
            let _ = outbox.send(WorkerMessage::Cut);
        }
    }

    /// Reports why nothing can be done, whether an agent has broken the slot, and whether no later
    /// worker can help.
    pub fn refuse(&self, error: &str, is_broken: bool, lasts: bool) {
        self.line.send(&FromWorker::Refused { error: error.to_owned(), is_broken, lasts });
    }

    /// Waits until all is sent or the line is cut.
    pub fn finish(self) {
        self.line.finish();
        self.line.flush(LAST_WORD);
    }

    /// Lets git here talk with git at the other end, to its end: `argv` receives the work to start from.
    ///
    /// # Errors
    /// The reason why git failed; the line was cut.
    pub fn receive_work(&self, argv: &[String]) -> io::Result<()> {
        self.line.send(&FromWorker::Takes {});
        self.serve(argv, false)
    }

    /// Lets git here talk with git at the other end, until that has the work: `argv` sends it.
    ///
    /// # Errors
    /// As for [`Worker::receive_work`].
    pub fn send_work(&self, argv: &[String]) -> io::Result<()> {
        self.line.send(&FromWorker::Offers {});
        self.serve(argv, true)
    }

    fn serve(&self, argv: &[String], is_fetched: bool) -> io::Result<()> {
        let (line, ended, over) = (self.line.clone(), self.line.clone(), self.outbox.clone());
        let mut channel = GitChannel::start(
            argv,
            move |bytes| line.send_bulk(&FromWorker::Git(bytes)),
            move |end| {
                ended.send(&FromWorker::GitEnd {});
                let _ = over.send(WorkerMessage::Served(end.map(drop)));
            },
        )?;
        loop {
            match self.next_message()? {
                WorkerMessage::Heard(ToWorker::Git(bytes)) => channel.take(&bytes),
                WorkerMessage::Heard(ToWorker::GitEnd {}) => channel.end_input(),
                WorkerMessage::Heard(ToWorker::Received {}) => return Ok(()),
                WorkerMessage::Served(Err(why)) => return Err(io::Error::other(why)),
                WorkerMessage::Served(Ok(())) if !is_fetched => return Ok(()),
                WorkerMessage::Served(Ok(())) | WorkerMessage::Heard(_) => {}
                WorkerMessage::Cut | WorkerMessage::Over(_) => return Err(cut()),
            }
        }
    }

    /// Sends the end of an agent whose guardian was lost, if it had ended by itself.
    ///
    /// # Errors
    /// I/O errors; the line was cut.
    pub fn tell_kept(&self, end: &KeptEnd, arrived: &ArrivedOutput) -> io::Result<()> {
        end.tell(&self.line, arrived)
    }

    /// Reports that it is done.
    pub fn done(&self) {
        self.line.send(&FromWorker::Done {});
    }

    fn next_message(&self) -> io::Result<WorkerMessage> {
        match self.inbox.try_recv() {
            // The message that says so may have been taken already.
            Err(TryRecvError::Empty) if self.line.is_cut() => Err(cut()),
            Err(TryRecvError::Empty) => self.inbox.recv().map_err(|_| cut()),
            message => message.map_err(|_| cut()),
        }
    }

    /// The next message of the guardian.
    fn next(&self) -> io::Result<ToWorker> {
        loop {
            match self.next_message()? {
                WorkerMessage::Heard(message) => return Ok(message),
                WorkerMessage::Served(_) => {}
                WorkerMessage::Cut | WorkerMessage::Over(_) => return Err(cut()),
            }
        }
    }

    /// Starts the process that the guardian asks for, and guards it to its end.
    ///
    /// # Errors
    /// I/O errors; the line was cut, and everything that ran has ended.
    pub fn guard(&self, place: &WorkerPlace<'_>) -> io::Result<()> {
        let prompt = place.folder.join("prompt.md");
        let (task, files) = self.await_agent(&prompt).inspect_err(|_| {
            // It was not started.
            sign_of_life::remove(self.sign.as_deref());
        })?;
        let slot = place.slot.unwrap_or(&task.spec.dir);
        let reports = there::task_folder(&task.spec, slot);
        let folder = reports.as_deref().map(TaskFolder::new);
        let folder = Arc::new(Mutex::new(folder));
        if let Some(folder) = lock(&folder).as_mut() {
            folder.replace(&files);
        }
        let programs = own_program_in(place.folder)?;
        let record = place.folder.join(RECORD);
        let end = place.end.filter(|_| task.exit.is_some());
        if let Some(end) = end {
            end.begin(reports.as_deref())?;
        }
        let spec = GuardianSpec {
            spec: there::process(task.spec, place.slot, prompt.clone(), &programs),
            record: record.clone(),
            exit: end.map(KeptEnd::exit),
            terminal: false,
            output: OutputRoute::Notices { kept: end.map(|end| end.dir().to_owned()) },
            ..task
        };
        File::create(&record)?;
        let (line, reports, over) = (self.line.clone(), Arc::clone(&folder), self.outbox.clone());
        let tell = move |notice| match notice {
            GuardianNotice::Output { .. } => {
                // Output that the line takes no more is dropped.
                let _ = line.send_bulk(&FromWorker::Notice(notice));
            }
            GuardianNotice::News(ProcessNews::Closed(closed)) => {
                let _ = over.send(WorkerMessage::Over(closed));
            }
            notice => {
                // Leftover processes are judged by its reports.
                report(&line, &reports);
                line.send(&FromWorker::Notice(notice));
            }
        };
        let guardians = GuardianProgram::new(place.lock)?;
        let agent = match AgentProcess::with_output(&guardians, &spec, tell) {
            Ok(agent) => agent,
            Err(reason) => {
                self.tell_not_started(reason, &record);
                sign_of_life::remove(self.sign.as_deref());
                return Ok(());
            }
        };
        // The agent has opened it.
        let _ = fs::remove_file(prompt);
        if place.slot.is_none() {
            // No later worker looks for them, and this one may be killed.
            let _ = fs::remove_dir_all(place.folder);
        }
        self.tell(GuardianNotice::Started { identity: agent.identity().clone() });
        let (mut closed, is_cut) = self.watch(&agent, &folder)?;
        if closed.outcome.is_none() {
            // Ends a killed guardian's processes.
            let mut killed = tree::kill_marked(None, &record);
            let (swept, immortal) = tree::sweep();
            killed.extend(swept);
            closed.swept = killed.into_iter().map(|member| member.name).collect();
            closed.immortal = immortal;
            if immortal == 0 {
                sign_of_life::remove(self.sign.as_deref());
            }
        }
        // No process to end has it open.
        let _ = fs::remove_file(record);
        report(&self.line, &folder);
        self.tell(GuardianNotice::News(ProcessNews::Closed(closed)));
        if is_cut { Err(cut()) } else { Ok(()) }
    }

    /// Waits for the process to start, and writes its prompt.
    fn await_agent(&self, prompt: &Path) -> io::Result<(GuardianSpec, Vec<TaskFile>)> {
        self.line.send(&FromWorker::Ready {});
        let mut text =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(prompt)?;
        let mut files = Vec::new();
        loop {
            match self.next()? {
                ToWorker::File(file) => files.push(file),
                ToWorker::Prompt(part) => text.write_all(&part.bytes()?)?,
                ToWorker::Start(spec) => return Ok((*spec, files)),
                ToWorker::Begin(_)
                | ToWorker::Git(_)
                | ToWorker::GitEnd {}
                | ToWorker::Order(_)
                | ToWorker::Received {}
                | ToWorker::Pulse {} => {}
            }
        }
    }

    /// Passes orders on until the process is over. Returns how it ended, and whether the line was cut.
    fn watch(
        &self,
        agent: &AgentProcess,
        folder: &Mutex<Option<TaskFolder>>,
    ) -> io::Result<(Closed, bool)> {
        let (mut silent, mut due) = (0, Instant::now() + PULSE);
        let mut cut_at: Option<Instant> = None;
        loop {
            match self.inbox.recv_timeout(LOOK) {
                Ok(WorkerMessage::Heard(ToWorker::Order(order))) => agent.order(order),
                Ok(WorkerMessage::Heard(_)) => silent = 0,
                Ok(WorkerMessage::Served(_)) => {}
                Ok(WorkerMessage::Over(closed)) => return Ok((closed, cut_at.is_some())),
                Ok(WorkerMessage::Cut) | Err(RecvTimeoutError::Disconnected) => {
                    cut_at = cut_at.or_else(|| Some(Instant::now()));
                    cut_off(agent);
                }
                Err(RecvTimeoutError::Timeout) => {
                    agent.wake();
                    report(&self.line, folder);
                }
            }
            if Instant::now() >= due {
                // Counted and not measured: a worker that was stopped for a while reads first.
                (silent, due) = (silent + 1, Instant::now() + PULSE);
            }
            if silent >= SILENT_PULSES && cut_at.is_none() {
                self.line.cut();
                cut_at = Some(Instant::now());
                cut_off(agent);
            }
            if cut_at.is_some_and(|at| at.elapsed() >= PATIENCE) {
                agent.kill_guardian();
            }
        }
    }

    fn tell(&self, notice: GuardianNotice) {
        self.line.send(&FromWorker::Notice(notice));
    }

    fn tell_not_started(&self, reason: NotStarted, record: &Path) {
        let (error, fault) = match reason {
            NotStarted::Missing(error) => (error, Some(StartFault::Program)),
            NotStarted::Executor(ExecutorFault { why: error, .. }) | NotStarted::Refused(error) => {
                (error, None)
            }
            NotStarted::Unguarded => {
                tree::kill_marked(None, record);
                tree::sweep();
                ("its guardian was killed".to_owned(), None)
            }
        };
        self.tell(GuardianNotice::NotStarted { error, fault });
    }
}

/// Ends an agent whose line was cut: it is noted that it did not end by itself.
fn cut_off(agent: &AgentProcess) {
    agent.order(GuardianCommand::Cancel);
    agent.order(GuardianCommand::Kill);
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the line was cut")
}

/// Sends the files of the task that have changed.
fn report(line: &LineWriter, folder: &Mutex<Option<TaskFolder>>) {
    if let Some(folder) = lock(folder).as_mut() {
        folder.news().into_iter().for_each(|file| line.send(&FromWorker::File(file)));
    }
}

/// Ends the leftover processes of a killed worker and its killed guardian, in their own folder,
/// which no other worker uses.
pub fn end_orphans(folder: &Path) {
    let record = folder.join(RECORD);
    if record.exists() {
        tree::kill_marked(None, &record);
        let _ = fs::remove_file(record);
    }
}

/// Makes this program known as `ralph` in a folder of `folder`, and returns that: agents call it, and
/// may find another version, or none.
fn own_program_in(folder: &Path) -> io::Result<PathBuf> {
    let programs = folder.join("bin");
    fs::create_dir_all(&programs)?;
    let link = programs.join("ralph");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(std::env::current_exe()?, &link)?;
    Ok(programs)
}

/// Creates a folder that only this user can read, for a worker whose files are not sent.
///
/// # Errors
/// I/O errors.
pub fn private_folder() -> io::Result<PathBuf> {
    let own = tree::identity_of(std::process::id());
    let name = format!("ralph-worker-{}-{}", own.pid, own.start_time);
    let path = std::env::temp_dir().join(name);
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
