//! What a running run receives: messages of its threads, signals, and records that `ralph pause`,
//! `resume` and `stop` write to the journal. `core::run` decides what follows.

use std::{
    collections::VecDeque,
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{Runner, RunnerMessage};
use crate::{
    adapters::{
        clock::{self, Gap},
        git,
        process::ProcessNews,
        signal,
    },
    core::{
        event::{Begun, Event, SCHEMA, StopReason},
        history::RunHistory,
        run::input::Input,
    },
    crash,
    project::workspace::Workspace,
};

/// The interval for checking the length of the journal for requests, and the files for reports.
const LOOK: Duration = Duration::from_secs(1);

/// The messages to a run.
pub(super) struct Inbox {
    pub(super) receiver: Receiver<RunnerMessage>,
    sender: Sender<RunnerMessage>,
    /// Messages that arrived while a hook ran.
    pub(super) later: VecDeque<RunnerMessage>,
}

impl Inbox {
    /// Returns an inbox that receives the signals to this process.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(super) fn listening() -> Result<Inbox> {
        let (sender, receiver) = mpsc::channel();
        let inbox = Inbox { receiver, sender, later: VecDeque::new() };
        let signals = inbox.sender();
        signal::listen(move |number| {
            if number != signal::SUSPEND {
                // The loop itself may wait for git.
                git::stop_calls();
            }
            drop(signals.send(RunnerMessage::Signal(number)));
        })
        .context("listen for signals")?;
        Ok(inbox)
    }

    /// Returns the signal that asks the run to stop among the messages that are not handled yet.
    pub(super) fn stop_signal(&mut self) -> Option<(i32, &'static str)> {
        self.later.extend(self.receiver.try_iter());
        let stops = |message: &RunnerMessage| match message {
            RunnerMessage::Signal(number) if *number != signal::SUSPEND => Some(*number),
            _ => None,
        };
        self.later.iter().find_map(stops).map(|number| (number, signal::name(number)))
    }

    /// Returns a sender for a thread or a callback.
    pub(super) fn sender(&self) -> Sender<RunnerMessage> {
        self.sender.clone()
    }
}

/// Says that no run starts in a pause, and what to do.
pub(super) fn paused(workspace: &Workspace, newest: &RunHistory) -> String {
    let name = workspace.place.name().cloned();
    let starts = if name.is_some() { "ralph loop" } else { "ralph run" };
    if newest.is_resumable() {
        return StopReason::Paused(name).to_string();
    }
    let flag = workspace.place.flag();
    format!("paused; `ralph resume{flag}` lifts the pause, then `{starts}` starts a run")
}

impl Runner {
    /// Returns the options of the run as they are recorded, so that `ralph resume` can start an
    /// equal run.
    pub(super) fn begun(&self) -> Begun {
        let (policy, workspace) = (&self.policy, &self.workspace);
        Begun {
            graph: workspace.other_graph().map(Path::to_owned),
            config: workspace.layers.named().map(Path::to_owned),
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            agent: policy.agents.first().map(|call| call.argv.clone()).unwrap_or_default(),
            agents: self.options.agents.clone().unwrap_or_default(),
            max_iterations: policy.max_iterations,
            before: self.options.before,
            tmux: self.options.tmux,
            run_on: self.options.run_on.clone(),
            max_attempts: if policy.plain.is_some() { 0 } else { policy.max_attempts },
            timeout_seconds: Some(workspace.config.timeout.as_secs_f64()),
            idle_seconds: Some(workspace.config.idle.as_secs_f64()),
            flags: workspace.layers.flags().clone(),
            once: policy.once,
            wait: policy.wait,
            filter: policy.filter.words(),
            plain: policy.plain.clone(),
        }
    }

    /// Returns the next message, or `None` when `pause` is over, another process has written to the
    /// journal, or an agent may have reported.
    pub(super) fn listen(&mut self, pause: Duration) -> Option<RunnerMessage> {
        if let Some(message) = self.inbox.later.pop_front() {
            return Some(message);
        }
        let began = Instant::now();
        loop {
            let left = pause.saturating_sub(began.elapsed());
            match self.inbox.receiver.recv_timeout(left.min(LOOK)) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout)
                    if left <= LOOK || self.store.has_news() || self.has_report_news() =>
                {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the inbox holds a sender"),
            }
        }
    }

    /// Handles a message. Without a message, a limit may have been reached.
    pub(super) fn receive(&mut self, message: Option<RunnerMessage>) -> Result<()> {
        let input = match message {
            Some(RunnerMessage::News(id, ProcessNews::Closed(closed))) => {
                self.process_closed(&id, closed)?
            }
            Some(RunnerMessage::News(id, ProcessNews::Idle)) => self.process_idle(&id),
            Some(RunnerMessage::News(id, ProcessNews::Left(members))) => {
                self.process_left(&id, &members)?
            }
            Some(RunnerMessage::News(id, ProcessNews::Arrived(host))) => {
                self.process_arrived(&id, host)
            }
            Some(RunnerMessage::News(id, ProcessNews::Fetching)) => {
                Some(Input::ProcessFetching(id))
            }
            Some(RunnerMessage::News(id, ProcessNews::Contact(silence))) => {
                self.contact(id, silence)
            }
            Some(RunnerMessage::Missed(id, fault)) => self.missed(id, fault),
            Some(RunnerMessage::MayFetch(id, reached)) => self.start_fetch(&id, reached),
            Some(RunnerMessage::NotAsked(id)) => Some(Input::ProcessEnded(id, Box::default())),
            Some(RunnerMessage::Job(id, state)) => self.job_seen(id, &state),
            Some(RunnerMessage::Engine(id, closed, word)) => {
                Some(self.engine_told(&id, *closed, &word)?)
            }
            Some(RunnerMessage::Prepared(id, prepared)) => self.slot_prepared(&id, prepared)?,
            Some(RunnerMessage::Built(built)) => {
                crash::point("merge.built");
                Some(Input::Built(built.map_err(|error| format!("{error:#}"))))
            }
            Some(RunnerMessage::Landed(landed)) => {
                crash::point("merge.landed");
                Some(Input::Landed(landed.map_err(|error| format!("{error:#}"))))
            }
            Some(RunnerMessage::Suspicion(slot, why)) => return self.suspicion(slot, why),
            Some(RunnerMessage::Signal(number)) => return self.signalled(number),
            None => Some(Input::Tick),
        };
        input.map_or(Ok(()), |input| self.handle(input))
    }

    /// Handles a signal: Ctrl-Z suspends the run; any other signal asks it to stop.
    pub(super) fn signalled(&mut self, number: i32) -> Result<()> {
        if number == signal::SUSPEND {
            return self.suspend();
        }
        let name = signal::name(number);
        self.policy.stop.get_or_insert((number, name));
        self.handle(Input::Signal(number, name))
    }

    /// Suspends the run and its attempts until this process is continued.
    fn suspend(&mut self) -> Result<()> {
        self.emit(None, Event::Suspended {})?;
        self.freeze(true);
        let began = Instant::now();
        signal::suspend();
        let stood = began.elapsed();
        self.handle(Input::StoodStill(stood))?;
        self.freeze(false);
        self.clocks = clock::read();
        self.emit(None, Event::Continued { seconds: stood.as_secs(), slept: false })
    }

    /// Detects that the machine slept or that the wall clock was set.
    pub(super) fn check_clocks(&mut self) -> Result<()> {
        let now = clock::read();
        let gap = std::mem::replace(&mut self.clocks, now).gap(&now);
        match gap {
            None => Ok(()),
            Some(Gap::Slept(length)) => {
                self.emit(None, Event::Continued { seconds: length.as_secs(), slept: true })
            }
            Some(Gap::Set(seconds)) => self.emit(None, Event::ClockSet { seconds }),
        }
    }
}
