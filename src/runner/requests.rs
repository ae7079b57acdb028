//! What is asked of a run while it goes on: by signals, and through the journal by
//! `ralph pause`, `resume` and `stop`. What follows from it is decided where everything is.

use std::{
    path::Path,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Runner, RunnerMessage};
use crate::{
    adapters::{
        clock::{self, Gap},
        signal,
    },
    core::{
        event::{Begun, Event, SCHEMA, StopRequest},
        exit::{Exit, Failure},
        verdict::Outcome,
    },
};

/// How often the journal is looked at for requests: one look at its length.
const LOOK: Duration = Duration::from_secs(1);

impl Runner {
    /// What is put on record of the run, so that `ralph resume` can begin another such.
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

    /// The next message; none when `pause` is over or another process has written to the journal.
    pub(super) fn listen(&mut self, pause: Duration) -> Option<RunnerMessage> {
        if let Some(message) = self.later.pop_front() {
            return Some(message);
        }
        let began = Instant::now();
        loop {
            let left = pause.saturating_sub(began.elapsed());
            match self.inbox.recv_timeout(left.min(LOOK)) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) if left <= LOOK || self.chronicle.has_news() => {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the runner holds a sender"),
            }
        }
    }

    /// Ends the attempts if somebody asked for that.
    pub(super) fn obey(&mut self) {
        if !self.chronicle.history().run.stop.as_ref().is_some_and(|stop| stop.now) {
            return;
        }
        for running in &mut self.running {
            if running.ending.is_none() {
                running.end(Outcome::Cancelled, self.workspace.config.grace);
            }
        }
    }

    /// The first signal stops: Ctrl-C and a hangup end the attempt, TERM gives it time to end by
    /// itself. The second kills it. The third leaves what will not die to the guardian, and the
    /// attempt to the next run.
    pub(super) fn signalled(&mut self, number: i32) -> Result<()> {
        if number == signal::SUSPEND {
            return self.suspend();
        }
        self.signals += 1;
        match self.signals {
            1 => self.stop_by(number),
            2 => {
                for running in &mut self.running {
                    // Not yet being ended after a TERM: it must not be taken for a failure.
                    running.ending.get_or_insert((Outcome::Cancelled, Instant::now() + LOOK));
                    running.agent.kill();
                }
                Ok(())
            }
            _ => {
                let why = "left in a hurry; the next run sees to the attempt";
                Err(Failure::new(Exit::Signal(number), why).into())
            }
        }
    }

    fn stop_by(&mut self, number: i32) -> Result<()> {
        let name = signal::name(number);
        self.policy.stop = Some((number, name));
        let now = number != signal::TERM;
        if !now {
            let at = Instant::now() + self.workspace.config.term_grace;
            for running in &mut self.running {
                running.cancel_at = Some(at);
            }
        }
        self.emit(None, Event::StopRequested(StopRequest { signal: Some(name.to_owned()), now }))
    }

    /// Stands still, with the attempts, until somebody continues this process.
    fn suspend(&mut self) -> Result<()> {
        self.emit(None, Event::Suspended {})?;
        for running in &self.running {
            running.agent.freeze();
        }
        let began = Instant::now();
        signal::suspend();
        let stood = began.elapsed();
        for running in &mut self.running {
            running.postpone(stood);
            running.agent.thaw();
        }
        self.clocks = clock::read();
        self.emit(None, Event::Continued { seconds: stood.as_secs(), slept: false })
    }

    /// Notices that the machine slept or that the wall clock was set.
    pub(super) fn look_at_clocks(&mut self) -> Result<()> {
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
