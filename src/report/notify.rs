//! The reporter that sends notifications. Each command has a thread of its own: a slow one delays
//! neither the loop nor the others.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    adapters::{
        agent_output,
        journal::Journal,
        process::{self, GuardianProgram, GuardianSpec, ProcessSpec},
        state::StateFolder,
    },
    core::{
        event::{Begun, Event, RunEvent, record::Record},
        notification_kind::NotificationKind,
        redact::Redactor,
        select::View,
        verdict::Outcome,
    },
    project::{
        config::{Config, Notifier},
        event_store::EventStore,
        failure_output::FailureOutputReader,
        workspace::Workspace,
    },
    runner::Reporter,
    view::{
        lines::{Line, Verbosity, lines, plain},
        message::{self, MessageSender, ProgramMessage},
        run_report::RunReport,
        state::TaskCounts,
    },
};

/// The time limit of a command, and the time that the end of a run waits for commands.
const LIMIT: Duration = Duration::from_secs(10);
/// The most messages of a notifier that are sent after the run has ended, the newest ones.
const FEW: usize = 4;
/// The time that a run waits, after its limit, for the processes of commands to end.
const LAST: Duration = Duration::from_secs(1);
/// The time between asking a command to end and killing it.
const GRACE: Duration = Duration::from_secs(1);

/// A reporter that sends the configured notifications.
pub struct NotifyReporter {
    sender: MessageSender,
    outputs: FailureOutputReader,
    context: Arc<NotifierContext>,
    /// The notifiers of the current settings, each with the queue of its thread.
    notifiers: Vec<(Notifier, Sender<Arc<ProgramMessage>>)>,
    /// The number of notifiers so far.
    opened: usize,
    /// The time until which the ended run waits for notifications.
    until: Option<Instant>,
}

/// The shared state of the threads.
struct NotifierContext {
    state: StateFolder,
    journal: PathBuf,
    secrets: Redactor,
    run_id: Mutex<String>,
    root: PathBuf,
    /// The number of messages that are not sent yet.
    unsent: AtomicUsize,
    /// Whether the run has ended: only the newest messages of each queue still matter.
    has_ended: AtomicBool,
    /// Whether there is no time left to send.
    is_cut: AtomicBool,
}

impl NotifyReporter {
    /// Returns a reporter for a run in this repository.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(workspace: &Workspace) -> io::Result<NotifyReporter> {
        let sender = MessageSender::of(workspace);
        let context = NotifierContext {
            state: workspace.state.clone(),
            journal: workspace.root().join(workspace.place.journal()),
            secrets: sender.secrets.clone(),
            run_id: Mutex::default(),
            root: workspace.root().to_owned(),
            unsent: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
        };
        let mut notify = NotifyReporter {
            sender,
            outputs: FailureOutputReader::new(workspace),
            context: Arc::new(context),
            notifiers: Vec::new(),
            opened: 0,
            until: None,
        };
        notify.open(&workspace.config)?;
        Ok(notify)
    }

    /// Applies changed settings. Unchanged notifiers keep their queues; the threads of others end when
    /// theirs are empty.
    fn open(&mut self, config: &Config) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.notifiers);
        for notifier in &config.notify {
            let known = before.iter().position(|(known, _)| known == notifier);
            let queue = match known {
                Some(at) => before.remove(at).1,
                None => self.start(notifier)?,
            };
            self.notifiers.push((notifier.clone(), queue));
        }
        Ok(())
    }

    fn start(&mut self, notifier: &Notifier) -> io::Result<Sender<Arc<ProgramMessage>>> {
        let (queue, waiting) = mpsc::channel();
        let (context, notifier) = (Arc::clone(&self.context), notifier.clone());
        let name = self.opened.to_string();
        self.opened += 1;
        let work = move || context.work(&notifier, &name, &waiting);
        thread::Builder::new().name("notify".to_owned()).spawn(work)?;
        Ok(queue)
    }
}

impl NotifierContext {
    /// Sends the messages of one notifier until its queue is closed.
    fn work(&self, notifier: &Notifier, name: &str, waiting: &Receiver<Arc<ProgramMessage>>) {
        let command = NotifierCommand {
            command: &notifier.command,
            folder: self.state.dir().join("notify"),
            name,
            root: self.root.clone(),
        };
        let mut has_complained = false;
        let mut last: VecDeque<Arc<ProgramMessage>> = VecDeque::new();
        while let Some(message) = last.pop_front().or_else(|| waiting.recv().ok()) {
            if let Err(why) = command.run(&message, || self.is_cut.load(SeqCst))
                && !std::mem::replace(&mut has_complained, true)
            {
                self.complain(notifier, &message, &why);
            }
            let mut done = 1;
            if self.has_ended.load(SeqCst) {
                last.extend(waiting.try_iter());
                done += last.drain(..last.len().saturating_sub(FEW)).count();
            }
            self.unsent.fetch_sub(done, SeqCst);
        }
    }

    /// Records that a notification failed; the run reports that when it reads the record.
    fn complain(&self, notifier: &Notifier, message: &ProgramMessage, why: &str) {
        let run_id = self.run_id.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let journal = Journal::new(self.journal.clone());
        let store = EventStore::open(journal, self.state.clone(), run_id, self.secrets.clone());
        let moment = &message.event;
        let text = format!("`{moment}` not sent: {notifier}: {why} (reported once per notifier)");
        // If the journal is not writable, the run ends for that reason.
        let _ = store.and_then(|mut store| store.emit(None, None, RunEvent::Noticed { text }));
    }
}

impl Reporter for NotifyReporter {
    fn record(&mut self, record: &Record, view: &View<'_>) {
        if let Event::Run(RunEvent::LoopStarted(_)) = record.event {
            let mut run_id = self.context.run_id.lock().unwrap_or_else(PoisonError::into_inner);
            run_id.clone_from(&record.run_id);
        }
        let Some(moment) = record.event.effect().notification() else {
            return;
        };
        if !self.notifiers.iter().any(|(notifier, _)| notifier.on.contains(&moment)) {
            return;
        }
        let message = Arc::new(self.message(moment, record, view));
        for (_, queue) in self.notifiers.iter().filter(|(one, _)| one.on.contains(&moment)) {
            self.context.unsent.fetch_add(1, SeqCst);
            if queue.send(Arc::clone(&message)).is_err() {
                self.context.unsent.fetch_sub(1, SeqCst);
            }
        }
    }

    fn settle(&mut self, config: &Config) {
        // If a thread cannot be started, the other notifiers still work.
        let _ = self.open(config);
    }

    fn is_busy(&mut self) -> bool {
        self.context.has_ended.store(true, SeqCst);
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + LIMIT);
        if now >= until {
            self.context.is_cut.store(true, SeqCst);
        }
        now < until + LAST && self.context.unsent.load(SeqCst) > 0
    }
}

impl NotifyReporter {
    /// The message of a record.
    fn message(
        &self,
        moment: NotificationKind,
        record: &Record,
        view: &View<'_>,
    ) -> ProgramMessage {
        let is_stop = matches!(
            record.event,
            Event::Run(RunEvent::Finished { .. } | RunEvent::Blocked { .. })
        );
        let report = is_stop.then(|| {
            let outputs = self.outputs.read(view.history);
            RunReport::live(view, &outputs, record.timestamp)
        });
        let text = notice(record, view, report.as_ref());
        let mut facts = record.fields();
        facts.extend(report.iter().flat_map(RunReport::facts));
        self.sender.message(moment.word(), facts, &text)
    }
}

impl Drop for NotifyReporter {
    /// Ends the threads. The guardian of a command ends its processes when this process exits at
    /// the latest.
    fn drop(&mut self) {
        self.context.is_cut.store(true, SeqCst);
    }
}

/// A command that receives events.
pub struct NotifierCommand<'a> {
    /// The shell command.
    pub command: &'a str,
    /// The folder for its files while it runs.
    pub folder: PathBuf,
    /// The name of these files.
    pub name: &'a str,
    /// The repository; the command runs there.
    pub root: PathBuf,
}

impl NotifierCommand<'_> {
    /// Runs the command with a message, until `is_cut` says that there is no time left, and ends all
    /// that it started.
    ///
    /// # Errors
    /// It could not be started, failed, or took too long; for people.
    pub fn run(&self, message: &ProgramMessage, is_cut: impl Fn() -> bool) -> Result<(), String> {
        if is_cut() {
            return Err("the run ended before it could be sent".to_owned());
        }
        let file = |kind: &str| self.folder.join(format!("{}.{kind}", self.name));
        let (input, output) = (file("json"), file("log"));
        let write = || {
            fs::create_dir_all(&self.folder)?;
            fs::write(&input, format!("{}\n", message.json))?;
            fs::write(&output, "")?;
            File::open(&self.folder)
        };
        let lock = write().map_err(|error| format!("`{}`: {error}", self.folder.display()))?;
        let spec = ProcessSpec {
            argv: ["sh", "-c", self.command].map(str::to_owned).to_vec(),
            dir: self.root.clone(),
            env: message.variables.clone(),
            env_remove: message::inherited(),
            stdin: input.clone(),
            stdout: output.clone(),
            stderr: output.clone(),
        };
        let guardians = GuardianProgram::new(&lock).map_err(|error| error.to_string())?;
        let spec = GuardianSpec::new(spec, input.clone());
        let outcome = process::run_guarded(&guardians, &spec, (LIMIT, GRACE), || !is_cut());
        let last = agent_output::last_line(&output);
        for path in [input, output] {
            let _ = fs::remove_file(path);
        }
        match (outcome, last) {
            (Outcome::Exited { exit_code: 0 }, _) => Ok(()),
            (outcome, None) => Err(outcome.to_string()),
            (outcome, Some(last)) => Err(format!("{outcome}: {last}")),
        }
    }
}

/// Returns the text of a notification: the lines of the record, and a short text for an event that
/// only the summary covers; `report` is that of an event that says how the run stands.
fn notice(record: &Record, view: &View<'_>, report: Option<&RunReport>) -> Vec<Line> {
    if let Event::Run(RunEvent::LoopStarted(Begun { plain: Some(looped), .. })) = &record.event {
        vec![plain(&format!("the loop {} began", looped.name))]
    } else if let Event::Run(RunEvent::LoopStarted(begun)) = &record.event {
        let progress = TaskCounts::of(view, record.timestamp).progress();
        let agent = begun.agent.first().map_or("none", String::as_str);
        vec![plain(&format!("a run began: {progress}; agent {agent}"))]
    } else if let Some(report) = report {
        if let Event::Run(RunEvent::Blocked { .. }) = record.event {
            report.people_lines("nothing left can start")
        } else {
            report.lines()
        }
    } else {
        lines(record, view, Verbosity::Normal)
    }
}
