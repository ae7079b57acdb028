//! The git commands of a run: how they end when the run is asked to stop, and after a crash.

use anyhow::{Error, Result};

use super::Runner;
use crate::{
    adapters::{
        git,
        process::{self, AgentProcess},
    },
    core::event::StopReason,
    project::{event_store::EventStore, workspace::Workspace},
};

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

impl Runner {
    /// The repository of the run. Git calls in it end when the run is asked to stop.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Returns why the run ends if the error is that a request to stop ended a git command.
    pub(super) fn stop_of(&mut self, error: Error) -> Result<StopReason> {
        if !error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>) {
            return Err(error);
        }
        self.processes.order_all(AgentProcess::kill);
        let signal = self.policy.stop.or_else(|| self.inbox.stop_signal());
        Ok(signal.map_or(StopReason::Stopped, |(number, name)| StopReason::Signal(number, name)))
    }
}
