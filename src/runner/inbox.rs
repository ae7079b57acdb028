//! What a running run receives: messages of its threads, signals, and records that `ralph pause`,
//! `resume` and `stop` write to the journal. `core::run` decides what follows.

use std::{
    collections::VecDeque,
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{RunnerMessage, context::RunContext};
use crate::{
    adapters::{git, process, signal},
    core::{
        event::{Begun, SCHEMA, StopReason},
        history::RunHistory,
        select::{View, default_iterations},
    },
    project::{event_store::EventStore, workspace::Workspace},
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
    /// Returns an inbox that receives the signals to this process. A closed terminal ends no run.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(super) fn listening() -> Result<Inbox> {
        let (sender, receiver) = mpsc::channel();
        let inbox = Inbox { receiver, sender, later: VecDeque::new() };
        let signals = inbox.sender();
        signal::listen(move |number| {
            if number == signal::HANGUP {
                return;
            }
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

    /// Returns the next message, or `None` when `pause` is over, `has_news` says that
    /// another process has written to the journal, or that an agent may have reported.
    pub(super) fn listen(
        &mut self,
        pause: Duration,
        has_news: impl Fn() -> bool,
    ) -> Option<RunnerMessage> {
        if let Some(message) = self.later.pop_front() {
            return Some(message);
        }
        let began = Instant::now();
        loop {
            let left = pause.saturating_sub(began.elapsed());
            match self.receiver.recv_timeout(left.min(LOOK)) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) if left <= LOOK || has_news() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the inbox holds a sender"),
            }
        }
    }

    /// Whether a signal arrives within a moment.
    pub(super) fn is_signalled(&self) -> bool {
        let message = self.receiver.recv_timeout(Duration::from_millis(20));
        matches!(message, Ok(RunnerMessage::Signal(_)))
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

/// Returns the options of the run as they are recorded, so that `ralph resume` can start an
/// equal run.
pub(super) fn begun(cx: &RunContext, view: &View<'_>) -> Begun {
    let (policy, workspace) = (&cx.policy, &cx.workspace);
    Begun {
        graph: workspace.other_graph().map(Path::to_owned),
        config: workspace.layers.named().map(Path::to_owned),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        agent: policy.agents.first().map(|call| call.argv.clone()).unwrap_or_default(),
        agents: cx.options.agents.clone().unwrap_or_default(),
        branch: cx.target.clone(),
        max_iterations: policy
            .max_iterations
            .unwrap_or_else(|| cx.options.before.saturating_add(default_iterations(view))),
        before: cx.options.before,
        tmux: cx.options.tmux,
        run_on: cx.options.run_on.clone(),
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

/// Limits the git commands of a run: a request to stop ends them, also while the loop waits for one.
/// Those that a killed run left running are ended.
pub(super) fn bound_git(workspace: &Workspace, store: &EventStore) {
    /// The variable that names the folder of the run that git works for.
    const GIT_OF: &str = "RALPH_GIT_OF";
    let folder = workspace.state.dir();
    let last = &store.history().run;
    if !last.id.is_empty() && last.finished.is_none() {
        let entry = format!("{GIT_OF}={}", folder.display());
        process::kill_marked(Some(&entry), &folder.join(GIT_OF));
    }
    git::mark_calls(GIT_OF, &folder.display().to_string());
    git::ask_while_waiting(store.stop_request());
}
