//! `ralph __guard`: the process between runner and agent; it outlives neither.
//!
//! The guardian is a child subreaper and detached from the terminal: every process that the agent
//! leaves behind, by whatever means, becomes its child and ends before the guardian does. It
//! depends on no other process: when the runner dies, it ends the tree at once.

use std::{
    fs,
    io::{self, BufRead},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::setsid;
use serde::{Deserialize, Serialize};

use super::{
    Closed, ProcessNews, StartFault,
    carried::{self, GuardedEnd},
    group::Process,
    protocol::{
        Encoded, GuardianCommand, GuardianNotice, GuardianSpec, OutputName, OutputRoute, listen,
        tell, tell_news, tell_not_started,
    },
    secrets, sign, sign_of_life,
    stream::{ByteSink, KeptOutput, Streams},
    tree,
};
use crate::{core::verdict::Outcome, crash};

/// How an agent ended, as the guardian writes it to a file for the next run.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentExit {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the run died or a person stopped it before the agent and everything it started had
    /// ended.
    pub cut_off: bool,
}

enum GuardianMessage {
    Order(GuardianCommand),
    /// The runner is gone.
    Alone,
    Ended(Outcome),
}

/// The signs of life of a tree: output and processor time.
struct Pulse {
    /// Bytes of output so far.
    printed: Arc<AtomicU64>,
    /// The process group whose processor time is no sign of life.
    restless: Option<u32>,
    seen: (u64, u64),
    last: Instant,
    told: bool,
}

impl Pulse {
    fn new() -> Pulse {
        let printed = Arc::default();
        Pulse { printed, restless: None, seen: (0, 0), last: Instant::now(), told: false }
    }

    fn beat(&mut self) {
        (self.last, self.told) = (Instant::now(), false);
    }

    /// Checks the signs, and returns true once when there has been none for `limit`.
    fn is_gone(&mut self, limit: Duration) -> bool {
        /// Timers of an idle interpreter use a little time as well: a few hundredths of a second in
        /// five seconds do not count.
        const RESTLESS: u64 = 5;
        let shown = self.printed.load(Ordering::Relaxed);
        let ticks = tree::ticks_of_tree(std::process::id(), self.restless);
        let (before, used) = self.seen;
        if shown != before || ticks.abs_diff(used) > RESTLESS {
            self.beat();
        }
        self.seen = (shown, ticks);
        let gone = !self.told && self.last.elapsed() >= limit;
        self.told |= gone;
        gone
    }
}

/// The interval between two checks of the agent's leftovers while it still runs.
const TICK: Duration = Duration::from_secs(5);

/// The time for processes of an ended agent to end by themselves before they are reported.
const ENDING: Duration = Duration::from_millis(200);

/// The interval between two checks for processes that an ended agent left running.
const POLL: Duration = Duration::from_secs(1);

/// Guards one agent, from its orders on standard input to its end.
///
/// # Errors
/// Invalid orders; I/O errors on writing how an agent ended.
pub fn run() -> io::Result<()> {
    // Then signals of the terminal do not reach the guardian, and the agent has no terminal.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut brief = String::new();
    if io::stdin().lock().read_line(&mut brief)? == 0 {
        return Ok(());
    }
    let brief: GuardianSpec = serde_json::from_str(&brief)?;
    crash::point("guard.briefed");
    let end = match &brief.carrier {
        None => guard_here(&brief)?,
        Some(carrier) => carried::guard(&brief, carrier)?,
    };
    let Some(GuardedEnd { closed, cut_off }) = end else {
        return Ok(());
    };
    if closed.immortal == 0 {
        sign_of_life::remove(brief.sign.as_deref());
    }
    if let (Some(path), Some(outcome)) = (&brief.exit, closed.outcome.clone()) {
        leave(path, &AgentExit { outcome, cut_off })?;
        crash::point("guard.left");
    }
    tell_news(ProcessNews::Closed(closed))?;
    crash::point("guard.closed");
    Ok(())
}

/// Guards an agent on this machine. Returns none, and reports it, if not started.
fn guard_here(brief: &GuardianSpec) -> io::Result<Option<GuardedEnd>> {
    let (outbox, inbox) = mpsc::channel();
    let mut pulse = Pulse::new();
    let (agent, streams) = match start(brief, outbox.clone(), &pulse.printed) {
        Ok(started) => started,
        Err(error) => {
            tell_not_started(&error, StartFault::Program)?;
            return Ok(None);
        }
    };
    crash::point("guard.spawned");
    pulse.restless = brief.is_restless.then_some(agent.identity().pid);
    tell(&GuardianNotice::Started { identity: agent.identity().clone() })?;
    crash::point("guard.told");
    listen(move |order| {
        let message = order.map_or(GuardianMessage::Alone, GuardianMessage::Order);
        let _ = outbox.send(message);
    });
    let mut guard = Guard {
        agent,
        inbox,
        pulse,
        idle: brief.idle,
        frozen: false,
        cancelled: false,
        fate: None,
    };
    let outcome = guard.watch()?;
    if crate::core::known_bug::is_on("wait-for-the-end-of-output") {
        while guard.fate < Some(GuardianFate::Condemned) && !streams.ends_within(TICK / 100) {
            guard.inbox.try_iter().collect::<Vec<_>>().iter().for_each(|it| guard.obey(it));
        }
    }
    crash::point("guard.ended");
    // Leftover processes are judged by its report, which may be its last output.
    streams.settle();
    guard.outlast()?;
    let cut_off = guard.cancelled || guard.fate == Some(GuardianFate::Abandoned);
    let spared = guard.fate == Some(GuardianFate::Spared);
    if !spared {
        guard.agent.kill();
    }
    guard.agent.reap();
    let (swept, immortal) = if spared || crate::core::known_bug::is_on("kill-only-the-group") {
        (Vec::new(), 0)
    } else {
        tree::sweep()
    };
    crash::point("guard.swept");
    if spared {
        streams.cut();
    } else {
        streams.drain();
    }
    let swept = swept.into_iter().map(|member| member.name).collect();
    let closed = Closed { outcome: Some(outcome), swept, immortal, fault: None };
    Ok(Some(GuardedEnd { closed, cut_off }))
}

/// The fate of the tree; a later value replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GuardianFate {
    /// It was asked to end.
    Asked,
    /// The agent's leftovers are spared.
    Spared,
    /// It is being ended.
    Condemned,
    /// It is being ended, because the runner is gone.
    Abandoned,
}

/// An agent under guard.
struct Guard {
    agent: Process,
    inbox: Receiver<GuardianMessage>,
    pulse: Pulse,
    /// The time without a sign of life after which the runner is notified.
    idle: Option<Duration>,
    frozen: bool,
    /// Whether a person stopped the run.
    cancelled: bool,
    /// None while nothing was ordered.
    fate: Option<GuardianFate>,
}

impl Guard {
    /// Waits until the agent itself is over.
    fn watch(&mut self) -> io::Result<Outcome> {
        let tick = self.idle.map_or(TICK, |idle| TICK.min(idle / 4));
        loop {
            match self.inbox.recv_timeout(tick) {
                Ok(GuardianMessage::Ended(outcome)) => return Ok(outcome),
                Ok(message) => self.obey(&message),
                Err(_) => {
                    tree::reap_orphans(self.agent.identity().pid);
                    if !self.frozen && self.idle.is_some_and(|limit| self.pulse.is_gone(limit)) {
                        tell_news(ProcessNews::Idle)?;
                    }
                }
            }
        }
    }

    /// Waits until the processes that the agent left behind are over too. The runner decides how
    /// long and whether at all, because it knows the reports.
    fn outlast(&mut self) -> io::Result<()> {
        if self.fate.is_some() || tree::is_childless() {
            return Ok(());
        }
        // A process that is just ending is not left behind, such as those that make a sandbox.
        let began = Instant::now();
        while began.elapsed() < ENDING && !tree::descendants(std::process::id()).is_empty() {
            thread::sleep(ENDING / 10);
            tree::reap_orphans(self.agent.identity().pid);
        }
        let mut told = Vec::new();
        while self.fate.is_none_or(|fate| fate == GuardianFate::Asked) {
            let left = tree::descendants(std::process::id());
            if left.is_empty() {
                return Ok(());
            }
            if left != told {
                tell_news(ProcessNews::Left(left.clone()))?;
                told = left;
            }
            match self.inbox.recv_timeout(POLL) {
                Ok(message) => self.obey(&message),
                Err(_) => tree::reap_orphans(self.agent.identity().pid),
            }
        }
        Ok(())
    }

    fn obey(&mut self, message: &GuardianMessage) {
        let fate = match message {
            GuardianMessage::Order(GuardianCommand::Interrupt) => {
                self.agent.interrupt();
                GuardianFate::Asked
            }
            GuardianMessage::Order(GuardianCommand::Terminate) => {
                self.agent.terminate();
                GuardianFate::Asked
            }
            GuardianMessage::Order(GuardianCommand::Kill) => {
                self.agent.kill();
                GuardianFate::Condemned
            }
            GuardianMessage::Alone => {
                self.agent.kill();
                GuardianFate::Abandoned
            }
            GuardianMessage::Order(GuardianCommand::Spare) => GuardianFate::Spared,
            GuardianMessage::Order(GuardianCommand::Cancel) => {
                self.cancelled = true;
                return;
            }
            GuardianMessage::Order(GuardianCommand::Freeze) => {
                self.frozen = true;
                return tree::freeze();
            }
            GuardianMessage::Order(GuardianCommand::Thaw) => {
                self.frozen = false;
                tree::thaw();
                return self.pulse.beat();
            }
            GuardianMessage::Order(GuardianCommand::Awake) => return self.pulse.beat(),
            GuardianMessage::Ended(_) => return,
        };
        self.fate = self.fate.max(Some(fate));
    }
}

fn start(
    brief: &GuardianSpec,
    outbox: Sender<GuardianMessage>,
    printed: &Arc<AtomicU64>,
) -> io::Result<(Process, Streams)> {
    let secrets = &secrets(&brief.spec);
    let (streams, stdout, stderr) = match &brief.output {
        OutputRoute::Files => Streams::open(&brief.spec, brief.terminal, secrets, printed),
        OutputRoute::Notices { kept } => {
            Streams::open_into(&brief.spec, brief.terminal, secrets, printed, |path| {
                let is_stdout = path == brief.spec.stdout;
                let name = if is_stdout { OutputName::Stdout } else { OutputName::Stderr };
                let copy = kept.as_ref().map(|dir| KeptOutput::create(&dir.join(name.file_name())));
                Ok(Box::new(OutputNotices { name, copy: copy.transpose()? }))
            })
        }
    }?;
    let sign = sign(&brief.record)?;
    let agent = Process::spawn(&brief.spec, stdout, stderr, move |outcome| {
        let _ = outbox.send(GuardianMessage::Ended(outcome));
    })?;
    drop(sign);
    Ok((agent, streams))
}

/// Output that becomes notices.
#[derive(Debug)]
struct OutputNotices {
    name: OutputName,
    copy: Option<KeptOutput>,
}

impl ByteSink for OutputNotices {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(copy) = &mut self.copy {
            // A copy that cannot be written is incomplete; the notice is still sent.
            let _ = copy.take(bytes);
        }
        tell(&GuardianNotice::Output { stream: self.name, bytes: Encoded::of(bytes) })
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.copy.map_or(Ok(()), |copy| Box::new(copy).close())
    }
}

/// Written atomically.
fn leave(path: &Path, exit: &AgentExit) -> io::Result<()> {
    let draft = path.with_extension("tmp");
    fs::write(&draft, serde_json::to_vec(exit)?)?;
    crash::point("guard.drafted");
    fs::rename(&draft, path)
}
