//! The choice between the work of an attempt and that of its candidates, and how the chosen one goes on.

use anyhow::{Context, Result};

use super::{Candidate, OWN, stop_others};
use crate::{
    core::{
        candidate::{CandidateChoice, CandidateResult},
        duration,
        event::{AgentEnd, AttemptEvent, CheckEvent},
        graph::TaskGraph,
        proof::{Proof, ProofOutcome, policy::ProofPolicy},
        run::command::{AttemptId, PendingResult},
        verdict::Verdict,
    },
    project::attempt::{AttemptRecord, leftovers},
    runner::{
        Runner, RunnerMessage, close,
        context::{Facts, RunContext, task_of},
        end, graph_copy,
    },
};

/// What the work of a candidate, or of the agent of the attempt itself, is worth in its slot.
pub(super) fn result_of(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    work: &PendingResult,
) -> CandidateResult {
    let (outcome, evidence) = (&work.outcome, &work.evidence);
    let verdict = Verdict::of(outcome, evidence, cx.rule(task_of(graph, record).as_ref()));
    CandidateResult {
        number: record.candidate.unwrap_or(OWN),
        by: record.call.as_ref().map(|call| call.name.clone()).unwrap_or_default(),
        verdict,
        why: verdict.explain(outcome, evidence),
        proof: None,
        diff: evidence.diff,
        cost_usd: work.usage.cost_usd,
        pinned: evidence.commits.last().map(|_| record.pin(&cx.workspace.place)),
        log: record.log.clone(),
    }
}

/// Holds the result of an attempt until its candidates have ended.
pub(in crate::runner) fn hold(
    runner: &mut Runner,
    id: &AttemptId,
    end: PendingResult,
) -> Result<()> {
    let (cx, graph) = (&runner.core.cx, runner.core.graph.file.graph());
    let record = runner.attempts.get(id);
    let is_good = record.is_some_and(|it| result_of(cx, graph, it, &end).is_good());
    runner.candidates.held.push((id.clone(), Box::new(end)));
    if is_good && runner.candidates.is_first(id) {
        stop_others(runner, id, OWN)?;
    }
    choose(runner, id)
}

/// Chooses the best work of an attempt, once it and its candidates have ended. Where several are good,
/// their proofs are made first.
pub(super) fn choose(runner: &mut Runner, id: &AttemptId) -> Result<()> {
    let candidates = &runner.candidates;
    let all: Vec<&Candidate> = candidates.all.iter().filter(|it| it.id == *id).collect();
    let held = candidates.held.iter().find(|(held, _)| held == id).map(|(_, end)| end);
    let (Some(end), Some(record)) = (held, runner.attempts.get(id)) else { return Ok(()) };
    let results: Option<Vec<CandidateResult>> = all.iter().map(|it| it.result.clone()).collect();
    let Some(mut results) = results else { return Ok(()) };
    let (cx, graph) = (&runner.core.cx, runner.core.graph.file.graph());
    results.push(result_of(cx, graph, record, end));
    let good = results.iter().filter(|it| it.is_good()).map(|it| it.number).collect::<Vec<_>>();
    let is_compared = good.len() > 1
        && end.evidence.to_prove
        && runner.core.proof_policy(record) != ProofPolicy::None
        && !runner.core.is_ended_now();
    if !is_compared {
        return take(runner, id, CandidateChoice::of(results), None);
    }
    let works = all.iter().map(|it| (it.number, &it.record, &it.work.evidence.verify[..]));
    let works = works.chain([(OWN, record, &end.evidence.verify[..])]);
    let works = works.filter(|(number, ..)| good.contains(number));
    let (outbox, id) = (cx.outbox.clone(), id.clone());
    runner.proofs.compare(&runner.core, works, move |proofs| {
        drop(outbox.send(RunnerMessage::Compared(id, results, proofs)));
    });
    Ok(())
}

/// Chooses by proofs, too.
pub(in crate::runner) fn compared(
    runner: &mut Runner,
    id: &AttemptId,
    mut results: Vec<CandidateResult>,
    mut proofs: Vec<(u32, Proof)>,
) -> Result<()> {
    for (number, proof) in &proofs {
        let result = results.iter_mut().find(|it| it.number == *number);
        if let Some(it) = result {
            it.proof = Some(proof.outcome.clone());
        }
    }
    let choice = CandidateChoice::of(results);
    let at = proofs.iter().position(|(number, _)| Some(*number) == choice.chosen);
    let proof = at.map(|at| proofs.swap_remove(at).1);
    let held = runner.candidates.held.iter().find(|(held, _)| held == id);
    if let (Some(record), Some((_, end))) = (runner.attempts.get(id), held) {
        let place = end.evidence.commits.last().map(|commit| &commit.id);
        close::return_from_controls(&runner.core.cx.workspace, record, place)?;
    }
    take(runner, id, choice, proof)
}

/// Goes on with the chosen work as that of the attempt, whose slot has it then.
fn take(
    runner: &mut Runner,
    id: &AttemptId,
    mut choice: CandidateChoice,
    proof: Option<Proof>,
) -> Result<()> {
    let Some(at) = runner.candidates.held.iter().position(|(held, _)| held == id) else {
        return Ok(());
    };
    let mut end = runner.candidates.held.remove(at).1;
    let candidates = &mut runner.candidates.all;
    let chosen = candidates.iter().position(|it| Some(it.number) == choice.chosen && it.id == *id);
    let chosen = chosen.filter(|_| !runner.core.is_ended_now()).map(|at| candidates.remove(at));
    candidates.retain(|it| it.id != *id);
    let about = runner.attempts.get(id).map(|record| (id.task_id.clone(), record.iteration));
    if let Some(mut candidate) = chosen {
        let kept = put(runner, id, &mut candidate)?;
        let own = choice.of.iter_mut().find(|it| it.number == OWN);
        if let Some(own) = own {
            own.pinned.clone_from(&kept);
        }
        let PendingResult { outcome, took, usage, .. } = *end.clone();
        let duration_seconds = duration::seconds(took);
        let event = AgentEnd { attempt: id.attempt, outcome, duration_seconds, usage };
        runner
            .core
            .emit(about.as_ref().map(|(id, n)| (id, *n)), AttemptEvent::AgentEnded(event))?;
        let work = *candidate.work;
        *end = PendingResult {
            outcome: work.outcome,
            evidence: work.evidence,
            last_line: work.last_line,
            took: end.took.max(work.took),
            conversation: None,
            promised: false,
            ..*end
        };
    }
    end.candidates = Some(Box::new(choice));
    if let Some(proof) = proof.filter(|it| !matches!(it.outcome, ProofOutcome::Skipped { .. })) {
        let event = CheckEvent::Proved { attempt: id.attempt, proof: proof.clone() };
        runner.core.emit(about.as_ref().map(|(id, n)| (id, *n)), event)?;
        let record = runner.attempts.get(id);
        let policy = record.map_or(ProofPolicy::None, |it| runner.core.proof_policy(it));
        end::weigh(&mut end.evidence, &proof.outcome, policy == ProofPolicy::Require);
    }
    let next = runner.judge(id, *end)?;
    next.map_or(Ok(()), |next| runner.handle(next))
}

/// Puts the work of a candidate into the slot of its attempt, or into another one if that is damaged.
/// Returns the ref that keeps what was there.
fn put(runner: &mut Runner, id: &AttemptId, candidate: &mut Candidate) -> Result<Option<String>> {
    let Some(record) = runner.attempts.get(id).cloned() else { return Ok(None) };
    let tree = runner.slots.secured_tree(&runner.core.cx.workspace, &candidate.record).ok();
    let (mut facts, file) = (Facts::default(), &runner.core.graph.file);
    let (workspace, own) = (&runner.core.cx.workspace, &candidate.record);
    let (change, _) = graph_copy::examine(workspace, file, own, tree.as_deref(), &mut facts)?;
    runner.core.tell(facts)?;
    runner.landing.changes.insert(id.clone(), change);
    let evidence = &mut candidate.work.evidence;
    let place = evidence.commits.last().map(|commit| commit.id.clone());
    let place = place.or_else(|| record.base.clone()).context("it has no base")?;
    let cx = &runner.core.cx;
    runner.slots.let_change();
    let own = AttemptRecord { candidate: Some(OWN), ..record.clone() };
    let kept = runner.slots.secured_tree(&cx.workspace, &record).map(|tree| {
        let (kept, left) = leftovers::pin(&cx.workspace, &tree, &own, &[]);
        (kept, left.is_empty())
    });
    runner.slots.let_change();
    let (kept, may_move) = kept.unwrap_or_default();
    let moved = may_move.then(|| close::return_from_controls(&cx.workspace, &record, Some(&place)));
    if !matches!(moved, Some(Ok(()))) {
        let setup = &cx.workspace.config.setup.0;
        let branch = record.branch.as_deref().context("it has no branch")?;
        let settings = runner.slots.settings(&cx.workspace)?;
        let path = runner.slots.free_slot(runner.attempts.records(), runner.proofs.slots());
        let at = (&place, branch);
        let (_, is_set_up) = runner.slots.pool.check_out_branch(&path, &settings, at, setup)?;
        // Its commands cannot run there.
        evidence.to_prove &= setup.is_empty() || is_set_up;
        runner.attempts.reassign(cx, id, path)?;
    }
    if let Some(record) = runner.attempts.get_mut(id) {
        (record.left, record.end_head) = (Some(Vec::new()), Some(place));
        record.write(&runner.core.cx.workspace)?;
    }
    Ok(kept)
}
