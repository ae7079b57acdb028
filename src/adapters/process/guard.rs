//! `ralph __guard`: the process between runner and agent; it outlives neither.
//!
//! The guardian is a child subreaper and detached from the terminal: every process that the agent
//! leaves behind, by whatever means, becomes its child and ends before the guardian does. It
//! depends on no other process: when the runner dies, it ends the tree at once.

use std::{
    fs,
    io::{self, BufRead},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{getpid, setsid};
use serde::{Deserialize, Serialize};

use super::{
    Identity, Member, PANE, ProcessSpec, group::Process, program::NoProgram, relay, secrets, send,
    sign, stream::Streams, tree,
};
use crate::{core::verdict::Outcome, crash};

/// The orders of the guardian; the first line on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub struct GuardianSpec {
    /// The agent.
    pub spec: ProcessSpec,
    /// The attempt's record.
    pub record: PathBuf,
    /// The file for how the agent ended.
    pub exit: Option<PathBuf>,
    /// The time without a sign of life after which the runner is notified.
    pub idle: Option<Duration>,
    /// Whether secrets are removed from the output. Their values are in the agent's environment.
    pub redact: bool,
    /// The file with the fingerprint of the screen, if the agent has a terminal of its own.
    pub screen: Option<PathBuf>,
}

/// A further line on its standard input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardianCommand {
    /// Send INT to the agent's group.
    Interrupt,
    /// Send TERM to the agent's group.
    Terminate,
    /// End everything.
    Kill,
    /// Stop the whole tree.
    Freeze,
    /// Continue the tree.
    Thaw,
    /// Reset the idle timer: the runner has seen files change.
    Awake,
    /// Do not end what the agent left behind.
    Spare,
    /// Note that a person stopped the run. The order to end the agent follows.
    Cancel,
}

/// A line on the guardian's standard error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardianNotice {
    /// The agent runs.
    Started {
        /// Its process.
        identity: Identity,
    },
    /// The agent could not be started; the guardian ends.
    NotStarted {
        /// The reason.
        error: String,
        /// Whether its program is missing or cannot be executed.
        missing: bool,
    },
    /// Nothing in the tree has printed or used the processor for the configured time.
    Idle {},
    /// The agent ended by itself, and these of its processes have not; sent again when the list
    /// changes. They are waited for until an order says otherwise.
    Left {
        /// The processes that are left.
        members: Vec<Member>,
    },
    /// The agent and everything it started is gone, or was spared; the guardian ends.
    Closed {
        /// How the agent ended.
        outcome: Outcome,
        /// The processes that were killed after it.
        swept: Vec<String>,
        /// The number of those that did not die.
        immortal: usize,
    },
}

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

/// The signs of life of a tree: output and processor time; of a tree with a terminal, only the
/// screen.
struct Pulse {
    /// Bytes of output so far.
    printed: Arc<AtomicU64>,
    screen: Option<PathBuf>,
    seen: (u64, u64),
    last: Instant,
    told: bool,
}

impl Pulse {
    fn new(screen: Option<PathBuf>) -> Pulse {
        let printed = Arc::default();
        Pulse { printed, screen, seen: (0, 0), last: Instant::now(), told: false }
    }

    fn beat(&mut self) {
        (self.last, self.told) = (Instant::now(), false);
    }

    /// Checks the signs, and returns true once when there has been none for `limit`.
    fn is_gone(&mut self, limit: Duration) -> bool {
        /// Timers of an idle interpreter use a little time as well: a few hundredths of a second in
        /// five seconds do not count.
        const RESTLESS: u64 = 5;
        let (shown, ticks) = match &self.screen {
            None => {
                let printed = self.printed.load(Ordering::Relaxed);
                (printed, tree::ticks_of_tree(std::process::id()))
            }
            Some(screen) => {
                let text = fs::read_to_string(screen).unwrap_or_default();
                (text.trim().parse().unwrap_or(0), 0)
            }
        };
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

/// The interval between two checks of what the agent has left behind while it still runs.
const TICK: Duration = Duration::from_secs(5);

/// The interval between two checks of what an agent that is over has left running.
const POLL: Duration = Duration::from_secs(1);

/// Guards one agent, from its orders on standard input to its end.
///
/// # Errors
/// Invalid orders; I/O errors on writing how the agent ended.
pub fn run() -> io::Result<()> {
    // Then signals of the terminal do not reach the guardian, and the agent has no terminal.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let mut brief = String::new();
    io::stdin().lock().read_line(&mut brief)?;
    let brief: GuardianSpec = serde_json::from_str(&brief)?;
    crash::point("guard.briefed");
    let (outbox, inbox) = mpsc::channel();
    let pulse = Pulse::new(brief.screen.clone());
    let started = relay::listen(&brief.spec)
        .and_then(|relay| Ok((start(&brief, outbox.clone(), &pulse.printed)?, relay)));
    let ((agent, streams), relay) = match started {
        Ok(started) => started,
        Err(error) => {
            let missing = NoProgram::is(&error);
            return tell(&GuardianNotice::NotStarted { error: error.to_string(), missing });
        }
    };
    crash::point("guard.spawned");
    tell(&GuardianNotice::Started { identity: agent.identity().clone() })?;
    crash::point("guard.told");
    thread::spawn(move || listen(&outbox));
    let pane = brief.spec.env.iter().find(|(name, _)| name == PANE);
    let pane = pane.map(|(name, value)| format!("{name}={value}"));
    let mut guard = Guard {
        agent,
        inbox,
        pulse,
        idle: brief.idle,
        pane,
        frozen: false,
        cancelled: false,
        fate: None,
    };
    let outcome = guard.watch()?;
    crash::point("guard.ended");
    // What it has left running is judged by its report, which may be its last output.
    streams.settle();
    guard.outlast()?;
    let cut_off = guard.cancelled || guard.fate == Some(GuardianFate::Abandoned);
    let spared = guard.fate == Some(GuardianFate::Spared);
    if !spared {
        guard.agent.kill();
    }
    guard.agent.reap();
    let (swept, immortal) =
        if spared { (Vec::new(), 0) } else { tree::sweep(guard.pane.as_deref()) };
    crash::point("guard.swept");
    if spared {
        streams.cut();
    } else {
        streams.drain();
    }
    drop(relay);
    if let Some(path) = &brief.exit {
        leave(path, &AgentExit { outcome: outcome.clone(), cut_off })?;
        crash::point("guard.left");
    }
    let swept = swept.into_iter().map(|member| member.name).collect();
    tell(&GuardianNotice::Closed { outcome, swept, immortal })?;
    crash::point("guard.closed");
    Ok(())
}

/// What is done with the tree; a later value replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GuardianFate {
    /// It was asked to end.
    Asked,
    /// What the agent left behind is spared.
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
    /// The environment entry of the processes that only provide the agent's terminal.
    pane: Option<String>,
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
                        tell(&GuardianNotice::Idle {})?;
                    }
                }
            }
        }
    }

    /// Waits until the processes that the agent left behind are over too. The runner decides how
    /// long and whether at all, because it knows what was reported.
    fn outlast(&mut self) -> io::Result<()> {
        if self.fate.is_some() || tree::is_childless() {
            return Ok(());
        }
        let mut told = Vec::new();
        while self.fate.is_none_or(|fate| fate == GuardianFate::Asked) {
            let mut left = tree::descendants(std::process::id());
            if left.is_empty() {
                return Ok(());
            }
            // That ends by itself once the agent is gone.
            if let Some(pane) = &self.pane {
                left.retain(|member| !tree::has_entry(member.pid, pane));
            }
            if !left.is_empty() && left != told {
                tell(&GuardianNotice::Left { members: left.clone() })?;
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
    let secrets = brief.redact.then(|| secrets(&brief.spec));
    let (streams, stdout, stderr) = Streams::open(&brief.spec, secrets.as_ref(), printed)?;
    let sign = sign(&brief.record)?;
    let agent = Process::spawn(&brief.spec, stdout, stderr, move |outcome| {
        let _ = outbox.send(GuardianMessage::Ended(outcome));
    })?;
    drop(sign);
    Ok((agent, streams))
}

fn listen(outbox: &Sender<GuardianMessage>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if let Ok(order) = serde_json::from_str(&line) {
            let _ = outbox.send(GuardianMessage::Order(order));
        }
    }
    let _ = outbox.send(GuardianMessage::Alone);
}

/// Sends a notice; a runner that is gone is no reason to fail.
fn tell(notice: &GuardianNotice) -> io::Result<()> {
    match send(&mut io::stderr().lock(), notice) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Written atomically.
fn leave(path: &Path, exit: &AgentExit) -> io::Result<()> {
    let draft = path.with_extension("tmp");
    fs::write(&draft, serde_json::to_vec(exit)?)?;
    crash::point("guard.drafted");
    fs::rename(&draft, path)
}
