//! The messages of runner, guardian and worker: lines of JSON.
//!
//! The runner sends its guardian a [`GuardianSpec`] and [`GuardianCommand`]s, and gets
//! [`GuardianNotice`]s. A guardian whose agent is elsewhere passes both on: as [`ToWorker`] to the
//! worker there, and from it as [`FromWorker`].

use std::{
    fmt,
    io::{self, BufRead},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use super::{Carrier, Identity, ProcessNews, ProcessSpec, StartFault, program::NoProgram, send};

/// The number of this protocol between a guardian and a worker.
pub const PROTOCOL: u32 = 8;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most bytes of a prompt or of git in one line.
pub(super) const CHUNK: usize = 48 * 1024;

/// The most bytes of a file in the folder of a task that are sent.
pub(super) const LARGEST_FILE: u64 = 1 << 20;

/// The longest line that is read: a task file in its message.
pub(super) const LONGEST_LINE: usize = 4 << 20;

/// The interval at which both sides show that they are there.
pub(super) const PULSE: Duration = Duration::from_secs(5);

/// The setup of a guardian: the agent, and how it is guarded. The first line on its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardianSpec {
    /// The agent.
    pub spec: ProcessSpec,
    /// The attempt's record, which stays open in the whole tree to identify its processes.
    pub record: PathBuf,
    /// The file for how the agent ended, if that must be known after a crash.
    pub exit: Option<PathBuf>,
    /// The time without a sign of life after which the runner is notified.
    pub idle: Option<Duration>,
    /// Whether the processor time of the agent's own process group is no sign of life.
    #[serde(default)]
    pub is_restless: bool,
    /// Whether the agent prints on a terminal of its own.
    #[serde(default)]
    pub terminal: bool,
    /// The way to the agent, if it runs elsewhere.
    pub carrier: Option<Carrier>,
    /// The route of the output.
    pub output: OutputRoute,
    /// The file to remove once everything has ended.
    pub sign: Option<PathBuf>,
}

impl GuardianSpec {
    /// A process here without kept files, such as a hook. No other process has `record` open.
    pub fn new(spec: ProcessSpec, record: PathBuf) -> GuardianSpec {
        GuardianSpec {
            spec,
            record,
            exit: None,
            idle: None,
            is_restless: false,
            terminal: false,
            carrier: None,
            output: OutputRoute::Files,
            sign: None,
        }
    }
}

/// The file that shows that a guardian has sent an agent to its worker, which may have started it: next
/// to the file for how the agent ended.
pub fn sent_sign(exit: &Path) -> PathBuf {
    exit.with_extension("sent")
}

/// The route of the output of a guardian's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputRoute {
    /// It is written to the files of the agent.
    Files,
    /// It becomes notices.
    Notices {
        /// The folder for a copy of it, if one is kept.
        kept: Option<PathBuf>,
    },
}

/// A further line on the guardian's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardianCommand {
    /// Send INT to the agent's group.
    Interrupt,
    /// Send TERM to the agent's group.
    Terminate,
    /// End the agent and everything it started.
    Kill,
    /// Stop the agent and everything it started, until [`GuardianCommand::Thaw`].
    Freeze,
    /// Continue the tree.
    Thaw,
    /// Reset the idle timer: the runner has seen files change.
    Awake,
    /// Leave the remaining processes running, unguarded.
    Spare,
    /// Note that a person stopped the run, for an exit that only the next run sees. The order to end
    /// the agent follows.
    Cancel,
}

/// A line on the guardian's standard error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardianNotice {
    /// The agent runs, or the command that carries it to where it will.
    Started {
        /// Its process.
        identity: Identity,
    },
    /// The agent could not be started; the guardian ends.
    NotStarted {
        /// The reason.
        error: String,
        /// The fault that stops any such agent.
        fault: Option<StartFault>,
    },
    /// A part of the output.
    Output {
        /// The stream.
        stream: OutputName,
        /// The bytes.
        bytes: Encoded,
    },
    /// A notice about the running agent.
    News(ProcessNews),
}

/// The name of an output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputName {
    /// The standard output, with the standard error if both go to the same file.
    Stdout,
    /// The standard error.
    Stderr,
}

impl OutputName {
    /// The name of the file of a kept copy.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            OutputName::Stdout => "stdout",
            OutputName::Stderr => "stderr",
        }
    }
}

/// The bytes of output that have arrived from a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivedOutput {
    /// On the standard output.
    pub stdout: u64,
    /// On the standard error.
    pub stderr: u64,
}

impl ArrivedOutput {
    /// Those of a stream.
    pub(super) fn of(self, stream: OutputName) -> u64 {
        match stream {
            OutputName::Stdout => self.stdout,
            OutputName::Stderr => self.stderr,
        }
    }

    /// Adds bytes of a stream.
    pub(super) fn add(&mut self, stream: OutputName, bytes: usize) {
        match stream {
            OutputName::Stdout => self.stdout += bytes as u64,
            OutputName::Stderr => self.stderr += bytes as u64,
        }
    }
}

/// Bytes as base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoded(String);

impl Encoded {
    /// Encodes bytes.
    pub fn of(bytes: &[u8]) -> Encoded {
        Encoded(STANDARD.encode(bytes))
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// It is not base64.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        STANDARD.decode(&self.0).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} characters", self.0.len())
    }
}

/// A line from a guardian to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    /// The first line.
    Begin(WorkerBegin),
    /// Data from git here to git there.
    Git(Encoded),
    /// Git here says no more.
    GitEnd {},
    /// A file in the folder of the task.
    File(TaskFile),
    /// A part of the prompt.
    Prompt(Encoded),
    /// The process to start. Its files have the names that they have here, and only show whether
    /// they differ; its folder is used if no files are sent; its end is kept if that is kept here.
    Start(Box<GuardianSpec>),
    /// An order of the runner.
    Order(GuardianCommand),
    /// The work that the worker has offered is here.
    Received {},
    /// The guardian is there.
    Pulse {},
}

/// The first facts for a worker. Fields of other versions are ignored, so that every worker can say
/// which version it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerBegin {
    /// The worker's input to bring its files into the state of those here; none if it has the same
    /// files.
    pub work: Option<WorkerFiles>,
    /// Whether only work is fetched that a lost worker did not send.
    pub fetch: bool,
    /// Whether to report the end of the agent too, if it ended by itself: not when the lost process
    /// is another one of its attempt.
    pub end: bool,
    /// The received part of that agent's output.
    pub arrived: ArrivedOutput,
    /// The sign of life of the process, to be removed if it is not started.
    pub sign: Option<PathBuf>,
}

/// Which files a worker uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFiles {
    /// The name of the repository among those that the worker has.
    pub repository: String,
    /// The name of the slot there.
    pub slot: String,
    /// The folder for repositories there: by default `.cache/ralph`; a path from the home folder if
    /// it is not absolute.
    pub dir: Option<String>,
    /// The identity of this attempt's work: a worker that comes back with the work of another
    /// attempt has another one.
    pub token: String,
    /// Whether the ids of its commits are those of SHA-256.
    pub is_sha256: bool,
    /// Whether an earlier worker of this attempt has run its setup: its result must be there.
    pub is_set_up: bool,
}

/// A line from a worker to a guardian.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromWorker {
    /// The first line.
    Hello(WorkerHello),
    /// The worker cannot carry out its order, for this reason; it ends.
    Refused {
        /// The reason.
        error: String,
        /// Whether the reason is a slot that the agent has broken.
        #[serde(default)]
        is_broken: bool,
        /// Whether no later worker there can do it either.
        lasts: bool,
    },
    /// Git there waits for the work to start from.
    Takes {},
    /// Git there waits for its work to be fetched.
    Offers {},
    /// Data from git there to git here.
    Git(Encoded),
    /// Git there says no more.
    GitEnd {},
    /// It waits for the process to start.
    Ready {},
    /// A notice of its guardian.
    Notice(GuardianNotice),
    /// A file in the folder of the task has changed.
    File(TaskFile),
    /// Nothing follows.
    Done {},
    /// The worker is there.
    Pulse {},
}

/// Who a worker is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkerHello {
    /// Its protocol.
    pub(super) protocol: u32,
    /// Its version.
    pub(super) version: String,
    /// The name of its machine.
    #[serde(default)]
    pub(super) host: String,
    /// The path of its program.
    #[serde(default)]
    pub(super) program: String,
}

/// A file in the folder of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskFile {
    /// Its name.
    pub(super) name: String,
    /// Its content.
    pub(super) content: TaskFileContent,
}

/// The content of a file in a task's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskFileContent {
    /// It does not exist.
    Absent,
    /// A folder has its name.
    Folder,
    /// This text.
    Text(Encoded),
}

/// Starts a thread that calls `hear` for each order, and without one when the runner is gone.
pub(super) fn listen(hear: impl Fn(Option<GuardianCommand>) + Send + 'static) {
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(order) = serde_json::from_str(&line) {
                hear(Some(order));
            }
        }
        hear(None);
    });
}

/// Sends a notice; a runner that is gone is no reason to fail.
///
/// # Errors
/// I/O errors.
pub(super) fn tell(notice: &GuardianNotice) -> io::Result<()> {
    match send(&mut io::stderr().lock(), notice) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Sends a notice about the running agent.
///
/// # Errors
/// I/O errors.
pub(super) fn tell_news(news: ProcessNews) -> io::Result<()> {
    tell(&GuardianNotice::News(news))
}

/// Sends the notice that the agent did not start because of `error`. If a program is missing, that is
/// a fault of this kind.
///
/// # Errors
/// I/O errors.
pub(super) fn tell_not_started(error: &io::Error, kind: StartFault) -> io::Result<()> {
    let fault = NoProgram::is(error).then_some(kind);
    tell(&GuardianNotice::NotStarted { error: error.to_string(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_travel_unchanged() {
        let all: Vec<u8> = (0..=255).collect();
        let encoded = Encoded::of(&all);
        let text = serde_json::to_string(&encoded).unwrap();
        let back: Encoded = serde_json::from_str(&text).unwrap();
        assert_eq!(back.bytes().unwrap(), all);
        assert!(serde_json::from_str::<Encoded>("\"%\"").unwrap().bytes().is_err());
    }

    #[test]
    fn a_later_version_can_be_told_apart() {
        let later = r#"{"hello":{"protocol":9,"version":"9.9.9","moon":"full"}}"#;
        let FromWorker::Hello(hello) = serde_json::from_str(later).unwrap() else {
            panic!("it is an answer");
        };
        assert_eq!((hello.protocol, hello.host.as_str()), (9, ""));
    }
}
