//! The proofs that a run could not make before it ended: they are kept, and the next run makes each in
//! a slot that is set up for it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Error, Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    context::RunContext,
    side_command::{ProofTurn, SideCommands},
    slots::RunSlots,
};
use crate::{
    adapters::git::SlotSettings,
    core::{commit_id::CommitId, graph::TaskGraph, run::command::AttemptId},
    project::{
        attempt::{self, AttemptRecord},
        executors,
        slot_pool::SlotPool,
        workspace::Workspace,
    },
};

/// Their file in the state folder.
const FILE: &str = "proofs.json";

/// Landed work to prove.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptProof {
    /// Its attempt.
    pub(super) record: AttemptRecord,
    /// Its last commit, as its agent left it.
    pub(super) head: CommitId,
}

impl KeptProof {
    /// Those that are kept.
    pub(super) fn all(workspace: &Workspace) -> Vec<KeptProof> {
        workspace.state.kept(FILE).unwrap_or_default()
    }

    /// Keeps it, until its proof is there. Without a disk to write on, the proof is not made again.
    pub(super) fn keep(self, workspace: &Workspace) {
        let mut all = KeptProof::all(workspace);
        all.retain(|kept| kept.record.task_id != self.record.task_id);
        all.push(KeptProof { record: self.record.redacted(workspace), ..self });
        let _ = workspace.state.keep(FILE, &all);
    }

    /// Forgets that of an attempt.
    pub(super) fn forget(workspace: &Workspace, id: &AttemptId) {
        let mut all = KeptProof::all(workspace);
        let before = all.len();
        all.retain(|kept| kept.record.id() != *id);
        if all.len() < before {
            let _ = workspace.state.keep(FILE, &all);
        }
    }
}

/// A slot that is made for a proof.
pub(super) struct ProofSlot {
    pool: SlotPool,
    path: PathBuf,
    settings: SlotSettings,
    head: CommitId,
    branch: String,
    setup: Vec<String>,
    runs: SideCommands,
    /// The limit on each command of the setup.
    limit: Duration,
    /// The output of the setup, in the repository.
    log: String,
}

impl ProofSlot {
    /// How the slot of the attempt is made, with its work.
    ///
    /// # Errors
    /// The commands of its setup cannot run.
    pub(super) fn of(
        cx: &RunContext,
        graph: &TaskGraph,
        slots: &RunSlots,
        KeptProof { record, head }: &KeptProof,
    ) -> Result<ProofSlot> {
        let config = &cx.workspace.config;
        let path = record.slot.as_ref().map(|slot| slot.path.clone()).context("it has no slot")?;
        let place = (path.as_path(), "proof-setup");
        let runs = SideCommands::of(cx, graph, record, place, &[]).map_err(Error::msg)?;
        Ok(ProofSlot {
            pool: slots.pool.clone(),
            settings: slots.settings(&cx.workspace)?,
            head: head.clone(),
            branch: attempt::branch_of(&record.task_id),
            setup: executors::setup(config, record.run_on.as_deref()),
            runs,
            limit: config.setup_timeout,
            log: format!("{}/proof-setup.log", record.log),
            path,
        })
    }

    /// Makes it and sets it up.
    ///
    /// # Errors
    /// It cannot be made, or a command of the setup failed.
    pub(super) fn make(&self, main: &Path, turn: &ProofTurn) -> Result<()> {
        let at = (&self.head, self.branch.as_str());
        let made = self.pool.check_out_branch(&self.path, &self.settings, at, &self.setup);
        let (_, is_set_up) = made.context("make its slot again")?;
        for command in self.setup.iter().filter(|_| !is_set_up) {
            let place = (main, self.log.clone());
            let (check, _) = self.runs.check(command, place, self.limit, || !turn.is_stopped());
            self.runs.end();
            if !check.is_green() {
                bail!("setup: `{command}` {}", check.outcome);
            }
        }
        Ok(())
    }
}
