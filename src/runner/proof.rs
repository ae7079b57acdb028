//! Proofs of landed work, each in a thread: controls run in the slot of its agent, while other
//! attempts continue in other slots.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use anyhow::Result;

use super::{
    RunCore, RunnerMessage,
    attempts::Records,
    kept_proof::{KeptProof, ProofSlot},
    proof_order::ProofOrder,
    side_command::ProofTurn,
    slots::RunSlots,
};
use crate::{
    adapters::git::Repo,
    core::{
        commit_id::CommitId,
        event::{CheckEvent, record::Record},
        graph::task::{Status, TaskId},
        proof::{Proof, ProofReason},
        run::{
            command::{AttemptId, PendingResult},
            input::Input,
        },
        verdict::{Evidence, Verdict},
    },
    project::{attempt::AttemptRecord, config::Config, workspace::Workspace},
};

/// How many proofs may wait for another one.
const WAITING: usize = 8;

/// A proof that is made.
struct ActiveProof {
    task_id: TaskId,
    iteration: u32,
    slot: PathBuf,
    /// The result of an attempt that lands only with its proof.
    end: Option<Box<PendingResult>>,
}

/// The proofs of a run.
#[derive(Default)]
pub(super) struct RunProofs {
    active: Vec<ActiveProof>,
    pub(super) turn: Arc<ProofTurn>,
}

impl RunProofs {
    /// The slots of the active proofs.
    pub(super) fn slots(&self) -> impl Iterator<Item = &PathBuf> {
        self.active.iter().map(|proof| &proof.slot)
    }

    /// Whether any is being made.
    pub(super) fn any(&self) -> bool {
        !self.active.is_empty()
    }

    /// The tasks whose proof is not there yet.
    pub(super) fn tasks(&self) -> Vec<TaskId> {
        self.active.iter().map(|proof| proof.task_id.clone()).collect()
    }

    /// Lets as many proofs run at once as work is verified at once, at the end of a run; before, half
    /// as many.
    pub(super) fn allow(&self, config: &Config, jobs: usize, is_end: bool) {
        let width = config.queue_width(jobs);
        self.turn.allow(if is_end { width } else { width / 2 });
    }

    /// Whether all proofs were ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.turn.is_stopped()
    }

    /// Ends all proofs.
    pub(super) fn stop(&self) {
        self.turn.stop();
    }

    /// Takes the end of a proof. Returns the iteration of its attempt, and its result if it waits for it.
    pub(super) fn ended(
        &mut self,
        workspace: &Workspace,
        id: &AttemptId,
        proof: &Proof,
    ) -> (u32, Option<Box<PendingResult>>) {
        if !proof.reason.is_cut_off() {
            KeptProof::forget(workspace, id);
        }
        let at = self.active.iter().position(|proof| proof.task_id == id.task_id);
        at.map(|at| self.active.remove(at)).map_or((0, None), |it| (it.iteration, it.end))
    }

    /// Begins the proofs that the run before has not made, of work that is still there. They stay kept while
    /// attempts work in the checkout.
    pub(super) fn resume(&mut self, core: &mut RunCore, slots: &RunSlots, records: &Records) {
        let workspace = &core.cx.workspace;
        let mut kept = if core.cx.is_isolated() { KeptProof::all(workspace) } else { Vec::new() };
        // Recovery may have begun that of an attempt that it found landed.
        kept.retain(|it| self.active.iter().all(|proof| proof.task_id != it.record.task_id));
        for mut kept in kept {
            let (id, history) = (kept.record.id(), core.journal.history());
            let past = history.of(&id.task_id);
            let last = past.last.as_ref().filter(|last| last.verdict == Verdict::Complete);
            let ended = last.map(|last| last.ended.read()).filter(|it| it.attempt == id.attempt);
            let is_open = past.awaits_proof == Some(id.attempt)
                || past.proof.as_ref().is_some_and(|proof| proof.reason.is_cut_off());
            let status = core.graph.file.graph().status_of(&id.task_id);
            let (true, Some(ended), Some(Status::Complete), Some(slot)) =
                (is_open, ended, status, &mut kept.record.slot)
            else {
                KeptProof::forget(&core.cx.workspace, &id);
                continue;
            };
            slot.path = slots.free_slot(records, self.slots());
            let graph = core.graph.file.graph();
            let made = ProofSlot::of(&core.cx, graph, slots, &kept);
            let evidence = ended.evidence.clone();
            // The obstacle may pass until the next run.
            drop(made.map(|slot| self.start(core, &kept.record, &evidence, None, Some(slot))));
        }
    }

    /// Journals that landed work whose proof is not made any more was not examined.
    pub(super) fn record_unmade(&self, core: &mut RunCore) -> Result<()> {
        let is_made =
            |id: &TaskId| !self.is_stopped() && self.active.iter().any(|it| it.task_id == *id);
        let due = core.journal.history().unexamined().filter(|(id, _)| !is_made(id));
        let due: Vec<_> = due.map(|(id, attempt)| (id.clone(), attempt)).collect();
        for (id, attempt) in due {
            let proof = Proof::at_once(ProofReason::cut_off());
            core.emit(Some((&id, 0)), CheckEvent::Proved { attempt, proof })?;
        }
        Ok(())
    }

    /// Begins the proof of an attempt that has landed and whose slot is released, if `newest`, the
    /// newest end, is its own. Journals it if it is there at once.
    pub(super) fn begin(
        &mut self,
        core: &mut RunCore,
        record: &AttemptRecord,
        newest: Option<&Record>,
        is_kept: bool,
    ) -> Result<()> {
        let newest = newest.filter(|it| it.task_id.as_ref() == Some(&record.task_id));
        let ended = newest.and_then(|it| it.event.ended());
        let Some(ended) = ended.filter(|ended| {
            let is_due = ended.verdict == Verdict::Complete && ended.evidence.to_prove;
            is_due && ended.attempt == record.attempt
        }) else {
            return Ok(());
        };
        let why = if is_kept {
            "processes may still work in its slot".to_owned()
        } else if self.active.len() >= WAITING {
            "other proofs are behind".to_owned()
        } else {
            match self.start(core, record, &ended.evidence, None, None) {
                Ok(()) => {
                    let slot = record.slot.as_ref().map(|slot| slot.path.as_path());
                    let head = slot.and_then(|slot| head_of(&core.cx.workspace.repo, slot));
                    if let Some(head) = head {
                        KeptProof { record: record.clone(), head }.keep(&core.cx.workspace);
                    }
                    return Ok(());
                }
                Err((why, _)) => why,
            }
        };
        let proof = Proof::at_once(ProofReason::NotMade { why });
        let event = CheckEvent::Proved { attempt: record.attempt, proof };
        core.emit(Some((&record.task_id, record.iteration)), event).map(drop)
    }

    /// Begins the proof of work that lands only with it, or not if it weakens the checks; its judgement
    /// follows.
    pub(super) fn start_first(
        &mut self,
        core: &mut RunCore,
        record: &AttemptRecord,
        end: PendingResult,
    ) -> Option<Input> {
        let evidence = end.evidence.clone();
        let (why, end) = self.start(core, record, &evidence, Some(Box::new(end)), None).err()?;
        let mut end = end?;
        if core.proof_settings(record).is_required {
            end.evidence.missing.push(format!("its proof is missing: {why}"));
        }
        Some(Input::Judged(record.id(), end))
    }

    /// Starts the proof of an attempt, whose result `end` waits for it, in a slot that is made first if it
    /// is `fresh`.
    ///
    /// # Errors
    /// It cannot be made: the reason and the result.
    fn start(
        &mut self,
        core: &mut RunCore,
        record: &AttemptRecord,
        evidence: &Evidence,
        end: Option<Box<PendingResult>>,
        fresh: Option<ProofSlot>,
    ) -> Result<(), (String, Option<Box<PendingResult>>)> {
        let (cx, graph) = (&core.cx, core.graph.file.graph());
        let order = match ProofOrder::of(cx, graph, record, evidence) {
            Ok(order) => order,
            Err(why) => return Err((why, end)),
        };
        let order = order.in_turn(&self.turn, end.is_some(), fresh);
        let (task_id, iteration) = (record.task_id.clone(), record.iteration);
        self.active.push(ActiveProof { task_id, iteration, slot: order.slot.clone(), end });
        let (outbox, id) = (cx.outbox.clone(), record.id());
        self.allow(&cx.workspace.config, cx.policy.jobs, false);
        // Until the run has looked.
        self.turn.wait(cx.workspace.config.verify_exclusive);
        thread::spawn(move || {
            let proof = Box::new(order.carry_out());
            drop(outbox.send(RunnerMessage::Proved(id, proof)));
        });
        core.proves = true;
        Ok(())
    }
}

/// The commit of a slot.
fn head_of(main: &Repo, slot: &Path) -> Option<CommitId> {
    main.slots().open(slot)?.head().ok()?.commit
}
