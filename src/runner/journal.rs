//! The journal of a run: events go to the journal first, then to the history, then to the reporters.
//! It also holds the lock, and says in it who works on what.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::context::{Fact, RunContext};
use crate::{
    adapters::{process, state::Lock},
    core::{
        event::{AttemptEvent, CheckEvent, Event, LandingEvent, record::Record},
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::History,
        select::View,
    },
    crash,
    project::{
        config::Config,
        event_store::{Emitted, EventStore},
        graph_file::rfc3339,
        workspace::{LockHolder, LockUse, Workspace},
    },
};

/// The status of an agent that has not printed anything yet.
pub const AT_WORK: &str = "the agent is at work";

/// A consumer of the records of a run.
///
/// A reporter only consumes records. The loop does not know which reporters exist. All reporters
/// receive the same records in the same order, so none can disagree with another. A reporter that
/// fails to write its output does not fail the run.
pub trait Reporter {
    /// Receives a record and the view that includes it.
    fn record(&mut self, record: &Record, view: &View<'_>);

    /// Receives the current activity of the process of an attempt. The text comes from the process
    /// and is not sanitized.
    fn doing(&mut self, _id: &TaskId, _doing: &str) {}

    /// Receives a turn of the loop.
    fn tick(&mut self) {}

    /// Receives changed settings.
    fn settle(&mut self, _config: &Config) {}

    /// Returns whether the reporter still has work that the ended run should wait for.
    fn is_busy(&mut self) -> bool {
        false
    }

    /// Returns the interval at which the reporter needs `tick`.
    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }
}

/// The journal of a run, with its history, its reporters and its lock.
pub(super) struct RunJournal {
    store: EventStore,
    pub(super) reporters: Vec<Box<dyn Reporter>>,
    lock: Lock,
    began: Instant,
}

impl RunJournal {
    pub(super) fn new(
        store: EventStore,
        reporters: Vec<Box<dyn Reporter>>,
        lock: Lock,
    ) -> RunJournal {
        RunJournal { store, reporters, lock, began: Instant::now() }
    }

    pub(super) fn history(&self) -> &History {
        self.store.history()
    }

    pub(super) fn run_id(&self) -> &str {
        self.store.run_id()
    }

    pub(super) fn lock(&self) -> &Lock {
        &self.lock
    }

    /// The time since the run began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether other processes have written to the journal.
    pub(super) fn has_news(&self) -> bool {
        self.store.has_news()
    }

    /// Writes a fact. Returns all new records, to be published, and the record of the fact among them.
    ///
    /// # Errors
    /// The repository was moved or removed: nothing may be made again in its place.
    pub(super) fn write(&mut self, fact: Fact) -> Result<(Vec<Record>, Record)> {
        self.check_repository()?;
        let Fact { task_id, iteration, event } = fact;
        let Emitted { records, own } = self.store.emit(iteration, task_id.as_ref(), event)?;
        Ok((records, own))
    }

    /// Reads what other processes have written. Returns the records, to be published.
    pub(super) fn catch_up(&mut self) -> Result<Vec<Record>> {
        self.store.catch_up()
    }

    /// Whether a reporter still has work that the ended run should wait for.
    pub(super) fn is_any_reporter_busy(&mut self) -> bool {
        self.reporters.iter_mut().any(|reporter| reporter.is_busy())
    }

    /// Reports one turn of the loop to the reporters.
    pub(super) fn tick(&mut self) {
        self.reporters.iter_mut().for_each(|reporter| reporter.tick());
    }

    /// The shortest interval at which a reporter needs a turn.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.reporters.iter().map(|reporter| reporter.interval()).min()
    }

    /// Whether the lock of the run is still where other runs look for it.
    fn is_in_place(&self) -> bool {
        self.lock.is_on(self.store.state_dir())
    }

    /// Checks that the repository is where it was. Where only the state folder is gone, the ends of its
    /// attempts are still journaled.
    pub(super) fn check_repository(&self) -> Result<()> {
        let is_there = self.store.state_dir().parent().is_some_and(Path::is_dir);
        if is_there { Ok(()) } else { self.check_place() }
    }

    /// Checks that the repository is where it was, with the lock.
    fn check_place(&self) -> Result<()> {
        if self.is_in_place() {
            return Ok(());
        }
        let folder = self.store.state_dir().display();
        let message = format!(
            "`{folder}` was moved or removed while this run held its lock, so another run may have \
             started; run again where the repository is now"
        );
        Err(Failure::new(Exit::Disk, message).into())
    }

    /// Writes the holder of the lock, after checking that the lock is still valid.
    pub(super) fn write_lock_holder(
        &self,
        cx: &RunContext,
        task_id: Option<&TaskId>,
    ) -> Result<()> {
        self.check_place()?;
        let holder = LockHolder {
            process: process::own_identity(),
            holds_for: LockUse::Run,
            run_id: self.run_id().to_owned(),
            since: rfc3339(Utc::now() - self.began.elapsed()),
            task_id: task_id.map(ToString::to_string),
            onto: cx.target.clone().filter(|_| cx.workspace.config.onto.is_some()),
        };
        cx.workspace.state.write_holder(&holder).context("record the holder of the lock")
    }

    /// Saves a snapshot of the history.
    pub(super) fn save(&mut self) {
        if self.is_in_place() {
            self.store.save();
        }
    }
}

/// Passes the crash point before the event of a step.
pub(super) fn pass_before(event: &Event) {
    if let Event::Check(CheckEvent::Verified(_) | CheckEvent::VerifyFailed(_)) = event {
        crash::point("verify.ended");
    }
}

/// Passes the crash point after the event of a step.
pub(super) fn pass_after(event: &Event) {
    match event {
        Event::Attempt(AttemptEvent::Recovered { .. }) => crash::point("recover.told"),
        Event::Attempt(AttemptEvent::Started { .. }) => crash::point("start.told"),
        Event::Attempt(AttemptEvent::AgentStarted { .. }) => crash::point("start.told_agent"),
        Event::Check(CheckEvent::Verifying { .. }) => crash::point("verify.told"),
        Event::Landing(LandingEvent::Queued { .. }) => crash::point("merge.queued"),
        Event::Landing(LandingEvent::Merging(_)) => crash::point("merge.told"),
        event if event.ended().is_some() => crash::point("close.told"),
        _ => {}
    }
}

/// Returns the message that another run holds the lock.
pub fn held(workspace: &Workspace) -> String {
    let name = workspace.place.name();
    let who = match name {
        None => "another ralph runs in this repository".to_owned(),
        Some(name) => format!("the loop `{name}` is already running; `--name` starts another one"),
    };
    let Some(holder) = workspace.holder() else {
        return who;
    };
    let own = match holder.holds_for {
        LockUse::Run => format!("run {}", holder.run_id),
        LockUse::Start => "starting a run".to_owned(),
        LockUse::Doctor => "`ralph doctor`".to_owned(),
    };
    let task = holder.task_id.filter(|_| name.is_none());
    let task = task.map_or(String::new(), |id| format!(", working on `{id}`"));
    let place =
        if process::is_elsewhere(&holder.process) { " of another pid namespace" } else { "" };
    format!("{who}: process {}{place}, {own}{task}, since {}", holder.process.pid, holder.since)
}
