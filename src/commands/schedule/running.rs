//! A scheduled run: a separate `ralph run` process, which recovers what earlier runs left.

use std::{
    io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use super::{SchedulePlan, named};
use crate::{
    adapters::{
        process::{self, Foreground, ForegroundGroup},
        service_manager, signal,
    },
    core::verdict::Outcome,
    project::{config::Secret, workspace::Workspace},
    report::heartbeat,
};

/// A run counts as hanging after this long without a heartbeat, plus the time for commits, during which
/// it does not beat.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running scheduled run.
pub(super) struct ScheduledRun {
    child: Arc<Foreground>,
    began: Instant,
    /// The last heartbeat, and when it was first seen.
    beat: (Option<DateTime<Utc>>, Instant),
}

impl ScheduledRun {
    /// Starts a run, and a thread that calls `ended` at its end.
    ///
    /// # Errors
    /// A process or thread that does not start.
    pub(super) fn start(
        workspace: &Workspace,
        plan: &SchedulePlan,
        ended: impl FnOnce(io::Result<Outcome>) + Send + 'static,
    ) -> Result<ScheduledRun> {
        let words = |(flag, path): (&str, &Path)| [flag.to_owned(), path.display().to_string()];
        let mut arguments: Vec<String> = named(workspace).flat_map(words).collect();
        arguments.push("run".to_owned());
        arguments.extend(plan.run.iter().cloned());
        // Neither the run nor its agents may notify the service manager or sign requests.
        let secret = match plan.trigger.as_ref().map(|trigger| &trigger.secret) {
            Some(Secret::Variable(name)) => Some(name.as_str()),
            Some(Secret::File(_)) | None => None,
        };
        let env: Vec<_> =
            service_manager::VARIABLES.into_iter().chain(secret).map(|name| (name, None)).collect();
        let root = workspace.root();
        let program = process::own_program();
        let child = Foreground::start(&program, &arguments, root, &env, None, ForegroundGroup::Own)
            .context("start `ralph run`")?;
        let child = Arc::new(child);
        let watched = Arc::clone(&child);
        thread::Builder::new()
            .name("run".to_owned())
            .spawn(move || ended(watched.wait()))
            .context("watch `ralph run`")?;
        let now = Instant::now();
        Ok(ScheduledRun { child, began: now, beat: (None, now) })
    }

    /// Forwards a signal to the run.
    pub(super) fn signal(&self, number: i32) {
        self.child.signal(number);
    }

    /// Continues the run after a suspend.
    pub(super) fn go_on(&self) {
        self.child.signal(signal::CONTINUE);
    }

    /// The time since the start.
    pub(super) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether the heartbeat is current.
    pub(super) fn is_well(&mut self, workspace: &Workspace) -> bool {
        let path = workspace.root().join(workspace.place.heartbeat());
        let beat = heartbeat::read(&path).ok().map(|(at, _)| at);
        if beat != self.beat.0 {
            self.beat = (beat, Instant::now());
        }
        self.beat.1.elapsed() < PATIENCE + 2 * workspace.config.commit_timeout
    }
}
