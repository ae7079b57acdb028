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
        reviewer::WorkReview,
        run::command::{AttemptId, PendingResult},
        verdict::Verdict,
    },
    project::attempt::{AttemptRecord, leftovers},
    runner::{
        Runner, RunnerMessage, close,
        context::{Facts, RunContext, task_of},
        end, graph_copy, reviewer,
    },
};

/// The result of an attempt that waits for its candidates.
pub(super) struct HeldResult {
    pub(super) id: AttemptId,
    end: Box<PendingResult>,
    /// What is compared, while it is reviewed.
    compared: Option<Comparison>,
}

/// What the candidates of an attempt brought, and the proofs that were made.
struct Comparison {
    results: Vec<CandidateResult>,
    proofs: Vec<(u32, Proof)>,
}

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
        review: None,
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
    runner.candidates.held.push(HeldResult { id: id.clone(), end: Box::new(end), compared: None });
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
    let held = candidates.held(id).map(|held| &held.end);
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
        return review_next(runner, id, Comparison { results, proofs: Vec::new() });
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
    proofs: Vec<(u32, Proof)>,
) -> Result<()> {
    for (number, proof) in &proofs {
        let result = results.iter_mut().find(|it| it.number == *number);
        if let Some(it) = result {
            it.proof = Some(proof.outcome.clone());
        }
    }
    let held = runner.candidates.held(id);
    if let (Some(record), Some(held)) = (runner.attempts.get(id), held) {
        let place = held.end.evidence.commits.last().map(|commit| &commit.id);
        close::return_from_controls(&runner.core.cx.workspace, record, place)?;
    }
    review_next(runner, id, Comparison { results, proofs })
}

/// Has the next of the works reviewed that are proved as well as each other, if all of them are to be
/// reviewed before they land; then takes the best.
fn review_next(runner: &mut Runner, id: &AttemptId, compared: Comparison) -> Result<()> {
    let Comparison { results, .. } = &compared;
    let equals = CandidateChoice::equals(results);
    let (core, candidates) = (&runner.core, &runner.candidates);
    let work = |number: u32| match candidates.get(id, number) {
        Some(it) => Some((&it.record, &it.work.evidence)),
        None => Some((runner.attempts.get(id)?, &candidates.held(id)?.end.evidence)),
    };
    let is_due = |number: &u32| {
        work(*number).is_some_and(|(record, evidence)| {
            reviewer::is_due(&core.cx, core.graph.file.graph(), record, evidence)
        })
    };
    let mut reviews = results.iter().filter_map(|it| it.review.as_ref());
    let may_go_on = reviews.all(|it| it.failed.is_none()) && !core.is_ended_now();
    let is_open = |it: &&CandidateResult| it.review.is_none() && equals.contains(&it.number);
    let next = results.iter().find(is_open).map(|it| it.number);
    let next = next.filter(|_| may_go_on && equals.iter().all(is_due));
    let next = next.and_then(|number| {
        work(number).map(|(record, evidence)| (number, record.clone(), evidence.clone()))
    });
    if let Some((number, record, evidence)) = next
        && reviewer::begin_candidate(runner, (&record, number), &evidence)?
    {
        let held = runner.candidates.held.iter_mut().find(|held| held.id == *id);
        if let Some(held) = held {
            held.compared = Some(compared);
        }
        return Ok(());
    }
    let Comparison { results, mut proofs } = compared;
    let choice = CandidateChoice::of(results);
    let at = proofs.iter().position(|(number, _)| Some(*number) == choice.chosen);
    let proof = at.map(|at| proofs.swap_remove(at).1);
    take(runner, id, choice, proof)
}

/// Goes on once the work of a candidate was reviewed.
pub(in crate::runner) fn reviewed(
    runner: &mut Runner,
    id: &AttemptId,
    number: u32,
    review: WorkReview,
) -> Result<()> {
    let mut held = runner.candidates.held.iter_mut().filter(|held| held.id == *id);
    let Some(mut compared) = held.find_map(|held| held.compared.take()) else { return Ok(()) };
    if let Some(result) = compared.results.iter_mut().find(|it| it.number == number) {
        result.review = Some(Box::new(review));
    }
    review_next(runner, id, compared)
}

/// Goes on with the chosen work as that of the attempt, whose slot has it then.
fn take(
    runner: &mut Runner,
    id: &AttemptId,
    mut choice: CandidateChoice,
    proof: Option<Proof>,
) -> Result<()> {
    let Some(at) = runner.candidates.held.iter().position(|held| held.id == *id) else {
        return Ok(());
    };
    let mut end = runner.candidates.held.remove(at).end;
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
    let taken = choice.of.iter().find(|it| Some(it.number) == choice.chosen);
    let review = taken.and_then(|it| it.review.clone()).filter(|it| it.failed.is_none());
    if let Some(review) = review.filter(|_| !runner.core.is_ended_now()) {
        reviewer::add(&runner.core, id, *review, &mut end.evidence);
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
