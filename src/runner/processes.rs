//! The processes of the open attempts: what each prints, and the orders to its guardian.

use std::collections::BTreeMap;

use crate::core::commit_id::CommitId;
use crate::{
    adapters::{agent_output::Follow, process::AgentProcess, terminal},
    core::run::command::AttemptId,
};

/// A process of an attempt that runs.
pub(super) struct ProcessHandle {
    pub(super) process: AgentProcess,
    /// What it prints.
    pub(super) output: Follow,
    /// Whether it is shown on a terminal of its own.
    pub(super) in_pane: bool,
    /// What it was last said to do.
    pub(super) doing: Option<String>,
    /// The log of a command that is not an agent, relative to the repository.
    pub(super) log: Option<String>,
    /// HEAD and what was changed when it was last looked at for signs of life.
    pub(super) seen: (Option<CommitId>, BTreeMap<String, String>),
}

/// What a process printed since the last look.
pub(super) struct Progress {
    pub(super) id: AttemptId,
    /// Whether tasks of its own still run after its final result; none before that.
    pub(super) result: Option<bool>,
    /// What it does now, if that is news.
    pub(super) doing: Option<String>,
}

/// The processes that run.
#[derive(Default)]
pub(super) struct Processes {
    running: BTreeMap<AttemptId, ProcessHandle>,
    /// Whether something that an agent left behind was let live.
    spared: bool,
}

impl Processes {
    pub(super) fn insert(&mut self, id: AttemptId, handle: ProcessHandle) {
        self.running.insert(id, handle);
    }

    pub(super) fn remove(&mut self, id: &AttemptId) -> Option<ProcessHandle> {
        self.running.remove(id)
    }

    pub(super) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut ProcessHandle> {
        self.running.get_mut(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether something that an agent left behind was let live.
    pub(super) fn has_spared(&self) -> bool {
        self.spared
    }

    /// Gives an order to the guardian of an attempt's process.
    pub(super) fn order(&self, id: &AttemptId, order: impl FnOnce(&AgentProcess)) {
        if let Some(handle) = self.running.get(id) {
            order(&handle.process);
        }
    }

    /// Gives an order to every guardian.
    pub(super) fn order_all(&self, order: impl Fn(&AgentProcess)) {
        self.running.values().for_each(|handle| order(&handle.process));
    }

    /// Lets what an agent left behind live.
    pub(super) fn spare(&mut self, id: &AttemptId) {
        self.spared = true;
        self.order(id, AgentProcess::spare);
    }

    /// Reads on what every process prints.
    pub(super) fn follow(&mut self) -> Vec<Progress> {
        let look = |(id, handle): (&AttemptId, &mut ProcessHandle)| {
            let seen = handle.output.look();
            let result = seen.filter(|seen| seen.is_over).map(|seen| seen.background > 0);
            let mut doing = handle.output.doing();
            if handle.in_pane {
                doing = doing.map(|doing| terminal::plain(&doing).into_owned());
            }
            let is_news = handle.doing != doing;
            if is_news {
                handle.doing.clone_from(&doing);
            }
            Progress { id: id.clone(), result, doing: doing.filter(|_| is_news) }
        };
        self.running.iter_mut().map(look).collect()
    }
}
