//! Reviews of work by another agent before it lands.

use std::{mem, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use super::{
    RunCore, Runner, attempts,
    context::{RunContext, task_of},
    side_agent::{self, EndedAgent, SideAgent, SideAnswer, WaitingReview},
};
use crate::{
    adapters::git::{BranchWork, Integrated, IntegrationMethod, Repo, SlotSettings},
    core::{
        agents::{
            agent_command::AgentCommand,
            provider_error::{Advice, ProviderError, ProviderErrorKind},
        },
        commit_id::CommitId,
        duration,
        event::{CheckEvent, ReviewEnd, ReviewWait, StopReason},
        graph::{TaskGraph, task::Task},
        history::{AgentCooldown, History},
        loop_paths,
        reviewer::{ReviewFinding, ReviewWhen, WorkReview},
        risk::WorkFacts,
        run::{
            command::{AttemptId, PendingResult},
            input::Input,
        },
        verdict::{Evidence, FINDINGS, Merge, Outcome, Verdict},
    },
    project::{
        attempt::{self, AttemptPlace, AttemptRecord, CONFLICT},
        merge_attributes::attributes,
        workspace::Workspace,
    },
    regular_file,
};

/// The most of the work that the prompt has, in bytes.
const DIFF: usize = 60_000;

/// A review that can begin.
struct ReviewOrder {
    settings: SlotSettings,
    head: CommitId,
    own: (usize, AttemptRecord),
    merge: Option<MergeCheck>,
}

impl ReviewOrder {
    /// Prepares the review of this work, and writes its prompt.
    fn of(
        runner: &mut Runner,
        record: &AttemptRecord,
        call: AgentCommand,
        evidence: &Evidence,
    ) -> Result<ReviewOrder> {
        let merge = merge_check(runner, record, evidence);
        let (core, pool) = (&runner.core, &runner.slots.pool);
        let workspace = &core.cx.workspace;
        let settings = runner.slots.settings(workspace)?;
        let head = evidence.commits.last().context("it has no commit")?.id.clone();
        let own = runner.side_agents.record_of(&core.cx, (record, call), (pool, "review"))?;
        let facts = (core.graph.file.graph(), core.journal.history());
        write_prompt(workspace, facts, &own.1, (&workspace.repo, evidence, &head))?;
        Ok(ReviewOrder { settings, head, own, merge: merge? })
    }

    /// Starts it, and journals that.
    fn start(self, runner: &mut Runner, end: Box<PendingResult>) -> Result<()> {
        let ReviewOrder { settings, head, own, merge } = self;
        let (core, pool) = (&runner.core, &runner.slots.pool);
        let record = own.1.clone();
        let (graph, history) = (core.graph.file.graph(), core.journal.history());
        let left = attempts::cost_left(&core.cx, history, graph, &record.id());
        let check = move |tree: &Repo| merge.map_or(Ok(None), |merge| merge.conflict(tree));
        runner.side_agents.start(&core.cx, own, (end, left), (pool, settings, head), check);
        let by = record.call.map(|call| call.name).unwrap_or_default();
        let slot = record.slot.map(|slot| slot.path.display().to_string());
        let (attempt, log) = (record.attempt, record.log);
        let event = CheckEvent::Reviewing { attempt, by, log, slot };
        runner.core.emit(Some((&record.task_id, record.iteration)), event).map(drop)
    }
}

/// How work is merged with work landed since its attempt began, to see a conflict before it is
/// reviewed.
struct MergeCheck {
    branch: String,
    onto: CommitId,
    base: CommitId,
    head: CommitId,
    how: IntegrationMethod,
    own: Vec<String>,
    attributes: PathBuf,
    /// The file for the diff of a conflict.
    diff: PathBuf,
}

impl MergeCheck {
    /// The conflict of the work with its branch, if there is one. The merge queue reports the rest.
    fn conflict(self, tree: &Repo) -> Result<Option<Merge>> {
        let MergeCheck { branch, onto, base, head, how, own, attributes, diff: file } = self;
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let work = BranchWork { head: &head, base: &base, message: "" };
        let merged = tree.integration().integrate(&onto, &work, how, &own, Some(&attributes));
        let Ok(Integrated::Conflict { paths, diff }) = merged else { return Ok(None) };
        regular_file::write(&file, diff.as_bytes()).context("write the diff of the conflict")?;
        Ok(Some(Merge::Conflict { branch, onto, paths }))
    }
}

/// Returns how work is merged with the tip of its branch; none if it is on top of that.
fn merge_check(
    runner: &mut Runner,
    record: &AttemptRecord,
    evidence: &Evidence,
) -> Result<Option<MergeCheck>> {
    let (Some(slot), Some(base), Some(head)) =
        (&record.slot, &record.base, evidence.commits.last())
    else {
        return Ok(None);
    };
    let workspace = &runner.core.cx.workspace;
    let tip = runner.landing.base_of_trial(workspace, &slot.target)?;
    let Some(onto) = tip.filter(|tip| tip != base) else { return Ok(None) };
    let changed = workspace.repo.differing(Some(base), &head.id)?.into_iter();
    let own = changed.filter(|path| loop_paths::is_own_or_above(path));
    Ok(Some(MergeCheck {
        branch: slot.target.clone(),
        onto,
        base: base.clone(),
        head: head.id.clone(),
        how: workspace.config.merge,
        own: workspace.graph_in_git().into_iter().chain(own).collect(),
        attributes: attributes(workspace)?.file,
        diff: record.file(workspace, CONFLICT),
    }))
}

/// Adds the review of an attempt's work to its evidence, with the consequences.
pub(super) fn add(core: &RunCore, id: &AttemptId, mut review: WorkReview, evidence: &mut Evidence) {
    let history = core.journal.history();
    let continued = history.active.of(&id.task_id).map(|active| &active.continued);
    let here = continued.map_or(0, |all| all.iter().filter(|lack| *lack == FINDINGS).count());
    let before = history.of(&id.task_id).rejected + u32::try_from(here).unwrap_or(u32::MAX);
    let settings = core.cx.workspace.config.review.as_ref();
    evidence.missing.extend(settings.and_then(|it| review.decide(it.rule(), before)));
    evidence.review = Some(Box::new(review));
}

/// Begins the review of work that is to land, if one is due; its judgement follows.
pub(super) fn begin(
    runner: &mut Runner,
    record: &AttemptRecord,
    end: Box<PendingResult>,
) -> Result<Option<Input>> {
    let (cx, graph) = (&runner.core.cx, runner.core.graph.file.graph());
    let rule = cx.rule(task_of(graph, record).as_ref());
    let is_complete = Verdict::of(&end.outcome, &end.evidence, rule) == Verdict::Complete;
    if !is_complete || !is_due(cx, graph, record, &end.evidence) {
        return Ok(Some(Input::Judged(record.id(), end)));
    }
    let call = reviewer_of(&cx.workspace, record.call.as_ref());
    if let Some(error) = runner.core.journal.history().review_error(&call.name, Utc::now()) {
        let record = record.clone();
        return refused(runner, WaitingReview { record, call, end }, error);
    }
    begin_by(runner, record, call, end)
}

/// Begins the review of work by this reviewer.
fn begin_by(
    runner: &mut Runner,
    record: &AttemptRecord,
    call: AgentCommand,
    mut end: Box<PendingResult>,
) -> Result<Option<Input>> {
    let by = call.name.clone();
    match ReviewOrder::of(runner, record, call, &end.evidence) {
        Ok(order) => {
            order.start(runner, end)?;
            Ok(None)
        }
        Err(error) => {
            let review = WorkReview::failed(&by, format!("{error:#}"));
            add(&runner.core, &record.id(), review, &mut end.evidence);
            Ok(Some(Input::Judged(record.id(), end)))
        }
    }
}

/// Lets work wait for a reviewer whose provider refuses it, if its review is required.
fn refused(
    runner: &mut Runner,
    mut waiting: WaitingReview,
    obstacle: ProviderError,
) -> Result<Option<Input>> {
    let (cx, id, by) = (&runner.core.cx, waiting.record.id(), waiting.call.name.clone());
    if !is_required(cx) {
        let review = WorkReview::failed(&by, obstacle.obstacle.to_string());
        add(&runner.core, &id, review, &mut waiting.end.evidence);
        return Ok(Some(Input::Judged(id, waiting.end)));
    }
    let event = ReviewWait { attempt: id.attempt, by, obstacle };
    let about = (&id.task_id, waiting.record.iteration);
    runner.core.emit(Some(about), CheckEvent::ReviewWaits(event))?;
    runner.side_agents.waiting.push(waiting);
    Ok(None)
}

fn is_required(cx: &RunContext) -> bool {
    cx.workspace.config.review.as_ref().is_some_and(|review| review.required)
}

/// Begins the reviews that waited and can be made now. Returns why the run ends, if the others have
/// to wait for too long and nothing else runs: the next run makes them.
pub(super) fn follow_waiting(runner: &mut Runner) -> Result<Option<StopReason>> {
    if runner.side_agents.waiting.is_empty() {
        return Ok(None);
    }
    let (core, now) = (&runner.core, Utc::now());
    let is_ending =
        runner.side_agents.is_stopped() || core.cx.is_asked_to_end(core.journal.history());
    let history = core.journal.history();
    let blocked = |it: &WaitingReview| history.review_error(&it.call.name, now).is_some();
    let waiting = mem::take(&mut runner.side_agents.waiting);
    let (blocked, free): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|it| is_ending || blocked(it));
    runner.side_agents.waiting = blocked;
    for WaitingReview { record, call, end } in free {
        let next = begin_by(runner, &record, call, end)?;
        next.map_or(Ok(()), |next| runner.handle(next))?;
    }
    let reason = out_of_reach(runner);
    let run = &runner.core.run;
    let is_waiting = |id: &AttemptId| {
        let held = run.landing().held().is_some() && run.landing().queued().any(|it| it == id);
        held || runner.side_agents.waiting.iter().any(|it| it.record.id() == *id)
    };
    let is_idle = run.attempts().open().iter().all(|open| is_waiting(&open.id));
    if is_ending || (reason.is_some() && is_idle) {
        for WaitingReview { record, .. } in mem::take(&mut runner.side_agents.waiting) {
            runner.handle(Input::Postponed(record.id()))?;
        }
        return Ok(reason.filter(|_| !is_ending));
    }
    Ok(None)
}

/// Why a review that waits is not made in this run, if so: its reviewer is denied access, or limited for
/// longer than `max_wait`. No task starts then, since its work could not land.
pub(super) fn out_of_reach(runner: &Runner) -> Option<StopReason> {
    let (history, max_wait) = (runner.core.journal.history(), runner.core.cx.policy.max_wait);
    runner.side_agents.waiting.iter().find_map(|WaitingReview { call, .. }| {
        let AgentCooldown { error, since, .. } = *history.cooldowns.get(&call.name)?;
        let obstacle = error.obstacle;
        match error.advice() {
            Advice::Stop(code) => {
                let remedy =
                    obstacle.remedy(call).map(|remedy| format!("; {remedy}, then run again"));
                let (name, remedy) = (&call.name, remedy.unwrap_or_default());
                let why = format!("`{name}`, whose review is required: {obstacle}{remedy}");
                Some(StopReason::Denied(why, code))
            }
            Advice::Wait { until } => {
                let longest = TimeDelta::from_std(max_wait).unwrap_or(TimeDelta::MAX);
                let (reviewer, obstacle) = (Some(call.name.clone()), Some(obstacle));
                (until - since > longest).then_some(StopReason::Provider {
                    reviewer,
                    obstacle,
                    since,
                    until,
                    max_wait,
                })
            }
            Advice::Count => None,
        }
    })
}

/// The next time at which a review that waits can be made.
pub(super) fn next_time(runner: &Runner) -> Option<DateTime<Utc>> {
    let (history, now) = (runner.core.journal.history(), Utc::now());
    let waiting = runner.side_agents.waiting.iter();
    waiting.filter_map(|it| history.review_error(&it.call.name, now)?.until).min()
}

/// The end of a review.
fn end_of(core: &RunCore, agent: &SideAgent, answer: SideAnswer, took: Duration) -> ReviewEnd {
    let SideAgent { id, record, head, .. } = agent;
    let review = review_of(&core.cx.workspace, record, head, &answer);
    let cooldowns = &core.journal.history().cooldowns;
    let earlier = cooldowns.get(&review.by).map_or(0, |cooldown| cooldown.count);
    // A reviewer that never asked its model says nothing of the work.
    let has_crashed = matches!(answer.outcome, Outcome::Exited { exit_code } if exit_code != 0)
        && answer.usage.tokens.is_none()
        && is_required(&core.cx);
    let error = answer.error.or(has_crashed.then_some(ProviderErrorKind::Unexplained));
    ReviewEnd {
        attempt: id.attempt,
        obstacle: error.map(|error| ProviderError::new(error, earlier, Utc::now())),
        outcome: answer.outcome,
        review,
        duration_seconds: duration::seconds(took),
        usage: answer.usage,
        waits: false,
    }
}

/// Journals a review that has ended, and judges the work with that.
pub(super) fn ended(runner: &mut Runner, ended: EndedAgent) -> Result<()> {
    let EndedAgent { mut agent, took, answer } = ended;
    let mut end = mem::take(&mut agent.end);
    if end.evidence.merge.is_some() && !runner.side_agents.is_stopped() {
        return runner.handle(Input::Judged(agent.id, end));
    }
    let event = end_of(&runner.core, &agent, answer, took);
    let SideAgent { id, record, .. } = agent;
    let is_waiting = |it: &ProviderError| it.advice() != Advice::Count;
    let waits = event.obstacle.filter(|it| is_waiting(it) && is_required(&runner.core.cx));
    let waiting = waits.map(|error| (error, end.clone()));
    add(&runner.core, &id, event.review, &mut end.evidence);
    let review = end.evidence.review.as_deref().cloned().unwrap_or_default();
    let event = ReviewEnd { review, waits: waiting.is_some(), ..event };
    runner.core.emit(Some((&id.task_id, record.iteration)), CheckEvent::WorkReviewed(event))?;
    if runner.side_agents.is_stopped() {
        runner.handle(Input::Postponed(id))
    } else if let Some((error, end)) = waiting
        && let Some(call) = record.call.clone()
        && let Some(record) = runner.attempts.get(&id).cloned()
    {
        let next = refused(runner, WaitingReview { record, call, end }, error)?;
        next.map_or(Ok(()), |next| runner.handle(next))
    } else {
        runner.handle(Input::Judged(id, end))
    }
}

/// Notes that work in the checkout is not reviewed, if it should be.
pub(super) fn note_gap(core: &RunCore, record: &AttemptRecord, evidence: &mut Evidence) {
    let (cx, graph) = (&core.cx, core.graph.file.graph());
    if record.slot.is_none() && cx.plain().is_none() && is_meant(cx, graph, record, evidence) {
        let by = reviewer_of(&cx.workspace, record.call.as_ref()).name;
        let review = WorkReview::failed(&by, "it was done in the checkout".to_owned());
        add(core, &record.id(), review, evidence);
    }
}

/// Whether work is reviewed before it lands.
pub(super) fn is_due(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    evidence: &Evidence,
) -> bool {
    record.slot.is_some() && is_meant(cx, graph, record, evidence)
}

/// Whether the settings want a review of work, which has none.
fn is_meant(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    evidence: &Evidence,
) -> bool {
    let (None, Some(base), Some(head)) = (&evidence.review, &record.base, evidence.commits.last())
    else {
        return false;
    };
    match cx.workspace.config.review.as_ref().map(|review| review.when) {
        None | Some(ReviewWhen::Never) => false,
        Some(ReviewWhen::Always) => true,
        Some(ReviewWhen::Risky) => {
            let Ok(files) = cx.workspace.repo.differing(Some(base), &head.id) else { return true };
            let task = task_of(graph, record);
            let facts = WorkFacts {
                evidence,
                proof: None,
                files: &files,
                ignored: &[],
                paths: &task.as_ref().map(Task::paths).unwrap_or_default(),
                added_by: task.as_ref().and_then(|task| task.added_by.as_deref()),
            };
            !facts.risks().is_empty()
        }
    }
}

/// The reviewer of work of this author: that of the settings, or another installed preset than that of
/// the author, or the author's.
pub(super) fn reviewer_of(workspace: &Workspace, author: Option<&AgentCommand>) -> AgentCommand {
    let given = workspace.config.review.as_ref().and_then(|review| review.by.as_ref());
    side_agent::other_than_author(workspace, author, given.and_then(|it| it.calls.first()))
}

/// Returns the review in the answer of a reviewer of the work up to `head`.
pub(super) fn review_of(
    workspace: &Workspace,
    record: &AttemptRecord,
    head: &CommitId,
    answer: &SideAnswer,
) -> WorkReview {
    let by = record.call.as_ref().map_or("", |call| call.name.as_str());
    let is_there = |path: &str| {
        let in_base = || record.base.as_ref().map(|base| workspace.repo.file_at(base, path));
        let at = |found: Result<Option<Vec<u8>>>| matches!(found, Ok(Some(_)));
        at(workspace.repo.file_at(head, path)) || in_base().is_some_and(at)
    };
    let review = answer.words.as_ref().map_err(Clone::clone).and_then(|words| {
        let slot = record.slot.as_ref().map(|slot| slot.path.display().to_string());
        let root = slot.unwrap_or_default();
        let read = WorkReview::read((by, &root), words, is_there);
        read.map_err(|why| format!("{why} ({})", answer.outcome))
    });
    review.unwrap_or_else(|why| WorkReview::failed(by, why))
}

/// Writes the prompt of a reviewer, without secret values; `repo` has the commits.
pub(super) fn write_prompt(
    workspace: &Workspace,
    (graph, history): (&TaskGraph, &History),
    record: &AttemptRecord,
    (repo, evidence, head): (&Repo, &Evidence, &CommitId),
) -> Result<()> {
    let number = graph.number(&record.task_id).context("its task is no longer in the graph")?;
    let base = record.base.as_ref().context("it has no base")?;
    let place = AttemptPlace { run_on: record.run_on.as_deref(), ..AttemptPlace::default() };
    let mut context =
        attempt::context(workspace, graph, history, number, 1, record.call.as_ref(), place)?;
    let patch = repo.patch_between(base, head, DIFF)?;
    let open = history.active.of(&record.task_id).and_then(|active| active.review.as_ref());
    let last = history.of(&record.task_id).last.as_ref();
    let last = last.and_then(|last| last.ended.evidence.review.as_ref());
    let before = open.or(last).filter(|review| review.sent_back).map(|review| &review.findings);
    context["branch"] = json!(record.slot.as_ref().map(|slot| &slot.target));
    context["review"] = json!({
        "base": base,
        "commits": evidence.commits,
        "diff": patch.text,
        "is_cut": patch.is_cut,
        "checks": evidence.verify.iter().map(|check| &check.command).collect::<Vec<_>>(),
        "before": before.map(|all| all.iter().map(ReviewFinding::line).collect::<Vec<_>>()),
    });
    let text = attempt::rendered(workspace, "review.md", &context)?;
    attempt::write_prompt(workspace, record, "prompt.md", &text)
}
