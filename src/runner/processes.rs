//! The processes of the open attempts: their output, and the orders to their guardians.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    adapters::{agent_output::Follow, git::Repo, process::AgentProcess, state::Stamp, terminal},
    core::{
        commit_id::CommitId,
        executor::Placement,
        run::{command::AttemptId, process_watch::ProcessLimits, verified_batch::HeadSpan},
    },
};

/// A running process of an attempt.
pub(super) struct ProcessHandle {
    pub(super) process: AgentProcess,
    /// The output of the process.
    pub(super) output: Follow,
    /// Whether the process has its own terminal.
    pub(super) in_pane: bool,
    /// The last reported activity.
    pub(super) doing: Option<String>,
    /// The last reported final result; `None` before there is one.
    pub(super) result: Option<bool>,
    /// The log of a command other than the agent, relative to the repository.
    pub(super) log: Option<String>,
    /// The tree in which it verifies isolated work, and HEAD of that tree before it started.
    pub(super) verifies: Option<(PathBuf, Option<CommitId>)>,
    /// Whether the agent has reported completion.
    pub(super) reported: bool,
    /// The graph in the worktree of an isolated attempt when it was last read.
    pub(super) graph: Option<Stamp>,
    /// What is to be known once it has got to its executor; none if it has, or runs here.
    pub(super) on_its_way: Option<ProcessOnItsWay>,
    /// Whether it only fetches the end and the work of an agent whose guardian was lost.
    pub(super) fetches: bool,
    /// HEAD and the uncommitted changes at the last check for signs of life.
    pub(super) seen: (Option<CommitId>, BTreeMap<String, String>),
}

impl ProcessHandle {
    /// HEAD of the tree in which it verified isolated work, before and after.
    pub(super) fn head(&self) -> HeadSpan {
        let Some((tree, before)) = &self.verifies else {
            return HeadSpan::default();
        };
        HeadSpan { before: before.clone(), after: head_of(tree) }
    }
}

/// HEAD of the worktree at this path, if there is one.
pub(super) fn head_of(tree: &Path) -> Option<CommitId> {
    let repo = Repo::discover(tree).ok()?;
    // Without its own git directory, the folder belongs to the repository around it.
    repo.is_top(tree).then(|| repo.head().ok()?.commit)?
}

/// A process that has not got to its executor.
pub(super) struct ProcessOnItsWay {
    /// Where it will be.
    pub(super) placement: Option<Placement>,
    /// Its limits, which count from its arrival.
    pub(super) limits: ProcessLimits,
    /// When its executor was last asked about it.
    pub(super) asked: Instant,
    /// What the executor said.
    pub(super) awaits: Option<String>,
}

impl ProcessOnItsWay {
    pub(super) fn new(placement: Option<Placement>, limits: ProcessLimits) -> ProcessOnItsWay {
        ProcessOnItsWay { placement, limits, asked: Instant::now(), awaits: None }
    }
}

/// The progress of a process since the last look.
pub(super) struct Progress {
    pub(super) id: AttemptId,
    /// Whether background tasks still run after the final result; `None` before the final result.
    pub(super) result: Option<bool>,
    /// Whether the final result has changed.
    pub(super) is_result_new: bool,
    /// The current activity, if it has changed.
    pub(super) doing: Option<String>,
    /// Whether the format of its output tells activity from other text.
    pub(super) typed: bool,
}

/// The running processes.
#[derive(Default)]
pub(super) struct Processes {
    running: BTreeMap<AttemptId, ProcessHandle>,
    /// Whether a process that an agent left behind was spared.
    spared: bool,
}

impl Processes {
    pub(super) fn insert(&mut self, id: AttemptId, handle: ProcessHandle) {
        self.running.insert(id, handle);
    }

    pub(super) fn remove(&mut self, id: &AttemptId) -> Option<ProcessHandle> {
        self.running.remove(id)
    }

    pub(super) fn get(&self, id: &AttemptId) -> Option<&ProcessHandle> {
        self.running.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut ProcessHandle> {
        self.running.get_mut(id)
    }

    /// The agents that have not reported completion.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&AttemptId, &ProcessHandle)> {
        self.running.iter().filter(|(_, handle)| handle.log.is_none() && !handle.reported)
    }

    /// The processes that have not got to their executors.
    pub(super) fn on_their_way(
        &mut self,
    ) -> impl Iterator<Item = (&AttemptId, &mut ProcessOnItsWay)> {
        self.running.iter_mut().filter_map(|(id, handle)| Some((id, handle.on_its_way.as_mut()?)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether a process that an agent left behind was spared.
    pub(super) fn has_spared(&self) -> bool {
        self.spared
    }

    /// Gives an order to the guardian of the process of an attempt.
    pub(super) fn order(&self, id: &AttemptId, order: impl FnOnce(&AgentProcess)) {
        if let Some(handle) = self.running.get(id) {
            order(&handle.process);
        }
    }

    /// Gives an order to every guardian.
    pub(super) fn order_all(&self, order: impl Fn(&AgentProcess)) {
        self.running.values().for_each(|handle| order(&handle.process));
    }

    /// Spares the processes that an agent left behind.
    pub(super) fn spare(&mut self, id: &AttemptId) {
        self.spared = true;
        self.order(id, AgentProcess::spare);
    }

    /// Reads the new output of every process.
    pub(super) fn follow(&mut self) -> Vec<Progress> {
        let look = |(id, handle): (&AttemptId, &mut ProcessHandle)| {
            handle.process.wake();
            let seen = handle.output.look();
            let typed = seen.is_some();
            let result = seen.filter(|seen| seen.is_over).map(|seen| seen.background > 0);
            let mut doing = handle.output.doing();
            if handle.in_pane {
                doing = doing.map(|doing| terminal::plain(&doing).into_owned());
            }
            let is_result_new = std::mem::replace(&mut handle.result, result) != result;
            let is_news = handle.doing != doing;
            if is_news {
                handle.doing.clone_from(&doing);
            }
            Progress {
                id: id.clone(),
                result,
                is_result_new,
                doing: doing.filter(|_| is_news),
                typed,
            }
        };
        self.running.iter_mut().map(look).collect()
    }
}
