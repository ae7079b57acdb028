//! The reporter that sends notifications. Each notifier has its own thread and queue: a slow one
//! delays neither the loop nor the others.

mod way;

use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    adapters::{journal::Journal, state::StateFolder},
    core::{
        event::{Begun, Event, NotifyFailed, RunEvent, ScheduleEvent, record::Record},
        notification_kind::NotificationKind,
        redact::Redactor,
        select::View,
    },
    project::{
        config::{Config, Notifier, NotifierTarget},
        event_store::EventStore,
        failure_output::FailureOutputReader,
        workspace::Workspace,
    },
};
use crate::{
    runner::Reporter,
    view::{
        lines::{Line, Verbosity, lines, plain},
        message::{MessageSender, ProgramMessage},
        run_report::RunReport,
        state::TaskCounts,
    },
};
pub use way::{Messenger, desktop_is_here};

/// The time that a run waits, after its limit, for the notifications that are being sent.
const LAST: Duration = Duration::from_secs(1);

/// A reporter that sends the configured notifications.
pub struct NotifyReporter {
    sender: MessageSender,
    outputs: FailureOutputReader,
    context: Arc<NotifierContext>,
    /// The notifiers of the current settings.
    lines: Vec<NotifierLine>,
    /// The notifiers that were removed from the settings and still have messages to send.
    leaving: Vec<NotifierLine>,
    /// The number of notifiers so far.
    opened: usize,
    timeout: Duration,
    wait: Duration,
    /// The time until which the ended run waits for notifications.
    until: Option<Instant>,
}

/// A notifier with its queue.
struct NotifierLine {
    notifier: Notifier,
    queue: Arc<MessageQueue>,
}

/// The parts of the repository that the threads need.
struct NotifierContext {
    state: StateFolder,
    journal: PathBuf,
    durable: bool,
    secrets: Option<Redactor>,
    run_id: Mutex<String>,
    root: PathBuf,
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
            durable: workspace.config.fsync,
            secrets: workspace.config.redact.then(|| sender.secrets.clone()),
            run_id: Mutex::default(),
            root: workspace.root().to_owned(),
        };
        let mut notify = NotifyReporter {
            sender,
            outputs: FailureOutputReader::new(workspace),
            context: Arc::new(context),
            lines: Vec::new(),
            leaving: Vec::new(),
            opened: 0,
            timeout: Duration::ZERO,
            wait: Duration::ZERO,
            until: None,
        };
        notify.open(&workspace.config)?;
        Ok(notify)
    }

    /// Applies changed settings. Unchanged notifiers keep their queues.
    fn open(&mut self, config: &Config) -> io::Result<()> {
        let same_limit = self.timeout == config.notify_timeout;
        (self.timeout, self.wait) = (config.notify_timeout, config.notify_wait);
        let mut before = std::mem::take(&mut self.lines);
        // Skip desktop notifiers silently if this machine has no desktop.
        let root = self.context.root.clone();
        let is_here =
            |it: &&Notifier| it.way != NotifierTarget::Desktop || desktop_is_here(&root).is_ok();
        for notifier in config.notify.iter().filter(is_here) {
            let known = before.iter().position(|line| same_limit && line.notifier == *notifier);
            let line = match known {
                Some(at) => before.remove(at),
                None => self.line(notifier)?,
            };
            self.lines.push(line);
        }
        for line in &before {
            line.queue.close();
        }
        self.leaving.retain(|line| line.queue.is_busy());
        self.leaving.extend(before);
        Ok(())
    }

    fn line(&mut self, notifier: &Notifier) -> io::Result<NotifierLine> {
        let messenger = Messenger::new(
            notifier.way.clone(),
            self.timeout,
            self.context.state.dir().join("notify"),
            self.opened.to_string(),
            self.context.root.clone(),
        );
        self.opened += 1;
        let queue = Arc::new(MessageQueue::default());
        let (inner, context) = (Arc::clone(&queue), Arc::clone(&self.context));
        thread::Builder::new()
            .name("notify".to_owned())
            .spawn(move || work(&messenger, &inner, &context))?;
        Ok(NotifierLine { notifier: notifier.clone(), queue })
    }
}

/// Sends the messages in the queue of one notifier until the queue is closed.
fn work(messenger: &Messenger, queue: &MessageQueue, context: &NotifierContext) {
    let mut complained = false;
    while let Some((message, lost)) = queue.next() {
        let result = match lost {
            0 => messenger.tell(&message, &|| queue.is_cut()),
            _ => Err(format!("too many notifications at once; {lost} dropped")),
        };
        if let Err(why) = result
            && !std::mem::replace(&mut complained, true)
        {
            context.complain(&messenger.way, &message, why);
        }
        queue.done();
    }
}

impl NotifierContext {
    /// Records that a notification failed; the run reports that when it reads the record.
    fn complain(&self, way: &NotifierTarget, message: &ProgramMessage, why: String) {
        let run_id = self.run_id.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let journal = Journal::new(self.journal.clone(), self.durable);
        let store = EventStore::open(journal, self.state.clone(), run_id, self.secrets.clone());
        let moment = message.event.clone();
        let failed = NotifyFailed { notifier: way.to_string(), moment, why };
        // If the journal is not writable, the run ends for that reason.
        let _ =
            store.and_then(|mut store| store.emit(None, None, ScheduleEvent::NotifyFailed(failed)));
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
        let mut lines = self.lines.iter().filter(|line| line.notifier.on.contains(&moment));
        let Some(first) = lines.next() else {
            return;
        };
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
        let message = Arc::new(self.sender.message(moment.word(), facts, &text));
        // The end of the run is the most important message.
        let urgent = moment == NotificationKind::Finished;
        for line in [first].into_iter().chain(lines) {
            line.queue.put(Arc::clone(&message), urgent);
        }
    }

    fn settle(&mut self, config: &Config) {
        // If a thread cannot be started, the other notifiers still work.
        let _ = self.open(config);
    }

    fn is_busy(&mut self) -> bool {
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.wait);
        let queues: Vec<&Arc<MessageQueue>> =
            self.lines.iter().chain(&self.leaving).map(|line| &line.queue).collect();
        if Instant::now() >= until {
            for queue in &queues {
                queue.cut();
            }
        }
        Instant::now() < until + LAST && queues.iter().any(|queue| queue.is_busy())
    }
}

impl Drop for NotifyReporter {
    /// Ends the threads. The guardian of a command ends its processes when this process exits at
    /// the latest.
    fn drop(&mut self) {
        for line in self.lines.iter().chain(&self.leaving) {
            line.queue.cut();
            line.queue.close();
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

/// The largest number of waiting messages of a notifier.
const LENGTH: usize = 32;
/// The number of waiting messages above which an urgent one goes first.
const FEW: usize = 3;

/// The unsent messages of a notifier, between the loop and one thread: a bounded queue that drops the
/// oldest.
#[derive(Default)]
struct MessageQueue {
    inside: Mutex<QueueState>,
    news: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Arc<ProgramMessage>>,
    /// The number of dropped messages that are not reported yet.
    lost: usize,
    /// Whether a message is being sent.
    working: bool,
    /// Whether the queue is closed.
    closed: bool,
    /// Whether there is no time left to send.
    cut: bool,
}

impl MessageQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message; an urgent one goes first if many are waiting.
    fn put(&self, message: Arc<ProgramMessage>, urgent: bool) {
        let mut inside = self.lock();
        if inside.waiting.len() == LENGTH {
            inside.waiting.pop_front();
            inside.lost += 1;
        }
        if urgent && inside.waiting.len() > FEW {
            inside.waiting.push_front(message);
        } else {
            inside.waiting.push_back(message);
        }
        self.news.notify_one();
    }

    /// Waits for the next message. Returns `None` when the queue is closed and empty. Dropped
    /// messages are reported by number, with the message after them, which stays queued.
    fn next(&self) -> Option<(Arc<ProgramMessage>, usize)> {
        let mut inside = self.lock();
        loop {
            if inside.lost > 0
                && let Some(first) = inside.waiting.front().cloned()
            {
                inside.working = true;
                return Some((first, std::mem::take(&mut inside.lost)));
            }
            if let Some(message) = inside.waiting.pop_front() {
                inside.working = true;
                return Some((message, 0));
            }
            if inside.closed {
                return None;
            }
            inside = self.news.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks what `next` returned as sent.
    fn done(&self) {
        self.lock().working = false;
    }

    /// Whether a message is unsent.
    fn is_busy(&self) -> bool {
        let inside = self.lock();
        inside.working || !inside.waiting.is_empty()
    }

    /// Closes the queue: no more messages come.
    fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Gives up sending: waiting messages are dropped.
    fn cut(&self) {
        self.lock().cut = true;
    }

    /// Whether there is no time left.
    fn is_cut(&self) -> bool {
        self.lock().cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize) -> Arc<ProgramMessage> {
        Arc::new(ProgramMessage {
            event: number.to_string(),
            title: String::new(),
            text: String::new(),
            json: String::new(),
            variables: Vec::new(),
        })
    }

    #[test]
    fn the_oldest_are_dropped_and_an_urgent_one_goes_first() {
        let queue = MessageQueue::default();
        for number in 0..LENGTH + 3 {
            queue.put(message(number), false);
        }
        queue.put(message(99), true);
        queue.close();
        let mut sent = Vec::new();
        while let Some((message, lost)) = queue.next() {
            if lost > 0 {
                assert_eq!((lost, message.event.as_str()), (4, "99"));
            } else {
                sent.push(message.event.clone());
            }
            queue.done();
        }
        assert_eq!((sent.len(), sent[0].as_str(), sent[1].as_str()), (LENGTH, "99", "4"));
        assert!(!queue.is_busy());
    }
}
