//! Reviews of work by another agent before it lands, each in a thread and in a slot of its own: what the
//! reviewer changes there is kept nowhere.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result, ensure};
use serde_json::json;

use super::{
    Runner, RunnerMessage, attempts,
    context::{RunContext, task_of},
    process_spec::{self, ProcessKind},
    processes,
    side_command::SideProcesses,
};
use crate::{
    adapters::{
        git::{Repo, SlotSettings},
        process::{self, ProcessSpec},
    },
    core::{
        agents::{
            agent_command::AgentCommand, agent_preset, provider_error::ProviderErrorKind,
            transcript::Usage,
        },
        commit_id::CommitId,
        duration,
        event::{CheckEvent, ReviewEnd},
        graph::{TaskGraph, task_paths},
        history::History,
        reviewer::{REVIEWS, ReviewFinding, ReviewWhen, WorkReview},
        risk::WorkFacts,
        run::{
            command::{AttemptId, PendingResult},
            input::Input,
        },
        verdict::{Evidence, FINDINGS, Outcome, Verdict},
    },
    project::{
        attempt::{self, AttemptPlace, AttemptRecord, SlotAssignment},
        slot_pool::SlotPool,
        workspace::Workspace,
    },
};

/// The most of the work that the prompt has, in bytes.
const DIFF: usize = 60_000;

/// A review that is made.
struct ActiveReview {
    id: AttemptId,
    /// The number of its slot.
    number: usize,
    /// The record of the attempt as its reviewer has it.
    record: AttemptRecord,
    head: CommitId,
    /// The result of the attempt, which waits for it.
    end: Box<PendingResult>,
}

/// What a thread tells of a review.
pub(super) enum ReviewNews {
    /// Its slot was prepared.
    Prepared(Result<()>),
    /// Its agent has ended, after this time.
    Ended(Outcome, Duration),
}

/// The reviews of a run.
#[derive(Default)]
pub(super) struct RunReviews {
    active: Vec<ActiveReview>,
    stopped: Arc<AtomicBool>,
}

/// How a review is told of: the event, and the result of the attempt with the review.
struct EndedReview {
    event: CheckEvent,
    iteration: u32,
    end: Box<PendingResult>,
}

impl RunReviews {
    /// Ends all reviews.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether they were ended.
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Starts the review of the work of an attempt, whose result waits for it. Returns the event of
    /// its beginning.
    ///
    /// # Errors
    /// It cannot be made: the result, with the reason.
    fn start(
        &mut self,
        cx: &RunContext,
        (graph, history): (&TaskGraph, &History),
        record: &AttemptRecord,
        (pool, settings): (&SlotPool, Result<SlotSettings>),
        mut end: Box<PendingResult>,
    ) -> Result<CheckEvent, Box<PendingResult>> {
        let call = reviewer_of(&cx.workspace, record.call.as_ref());
        let by = call.name.clone();
        let taken: Vec<usize> = self.active.iter().map(|review| review.number).collect();
        let number = (0..=taken.len()).find(|number| !taken.contains(number)).unwrap_or_default();
        let order = settings.and_then(|settings| {
            let evidence = &end.evidence;
            let head = evidence.commits.last().context("it has no commit")?.id.clone();
            let record = record_of(cx, (record, call), pool, number)?;
            let work = (cx.workspace.repo.as_ref(), evidence, &head);
            write_prompt(&cx.workspace, (graph, history), &record, work)?;
            Ok((settings, head, record))
        });
        let (settings, head, record) = match order {
            Ok(order) => order,
            Err(error) => {
                let mut review = WorkReview::failed(&by, format!("{error:#}"));
                end.evidence.missing.extend(decide(cx, &mut review, 0));
                end.evidence.review = Some(Box::new(review));
                return Err(end);
            }
        };
        let (id, attempt) = (record.id(), record.attempt);
        let (commit, log) = (head.clone(), record.log.clone());
        self.active.push(ActiveReview { id: id.clone(), number, record, head, end });
        let (outbox, pool) = (cx.outbox.clone(), pool.clone());
        thread::spawn(move || {
            let prepared = pool.check_out(&pool.review(number), &settings, &commit).map(drop);
            drop(outbox.send(RunnerMessage::Reviewer(id, ReviewNews::Prepared(prepared))));
        });
        Ok(CheckEvent::Reviewing { attempt, by, log })
    }

    /// Starts the agent of a review, whose slot is prepared.
    fn launch(
        &self,
        cx: &RunContext,
        (graph, history): (&TaskGraph, &History),
        id: &AttemptId,
    ) -> Result<()> {
        let Some(review) = self.active.iter().find(|review| review.id == *id) else {
            return Ok(());
        };
        let left = attempts::cost_left(cx, history, graph, id);
        let process = ReviewProcess::of(cx, graph, &review.record, left)?;
        let stopped = Arc::clone(&self.stopped);
        let (id, outbox) = (id.clone(), cx.outbox.clone());
        thread::spawn(move || {
            let (outcome, took) = process.run(|| !stopped.load(Ordering::Relaxed));
            let ended = ReviewNews::Ended(outcome, took);
            drop(outbox.send(RunnerMessage::Reviewer(id, ended)));
        });
        Ok(())
    }

    /// Takes the end of a review. None if there is none of this attempt.
    fn ended(
        &mut self,
        cx: &RunContext,
        history: &History,
        id: &AttemptId,
        (ended, took): (Result<Outcome>, Duration),
    ) -> Option<EndedReview> {
        let at = self.active.iter().position(|review| review.id == *id)?;
        let ActiveReview { record, head, mut end, .. } = self.active.remove(at);
        let ReviewAnswer { outcome, usage, mut review, .. } = answer_of(cx, &record, &head, ended);
        let continued = history.active.of(&id.task_id).map(|active| &active.continued);
        let here = continued.map_or(0, |all| all.iter().filter(|lack| *lack == FINDINGS).count());
        let before = history.of(&id.task_id).rejected + u32::try_from(here).unwrap_or(u32::MAX);
        end.evidence.missing.extend(decide(cx, &mut review, before));
        end.evidence.review = Some(Box::new(review.clone()));
        let duration_seconds = duration::seconds(took);
        let event = ReviewEnd { attempt: id.attempt, outcome, review, duration_seconds, usage };
        let (event, iteration) = (CheckEvent::WorkReviewed(event), record.iteration);
        Some(EndedReview { event, iteration, end })
    }
}

/// How the agent of a review ended, and what it answered.
pub(super) struct ReviewAnswer {
    pub(super) outcome: Outcome,
    pub(super) usage: Usage,
    pub(super) review: WorkReview,
    /// What its provider refused it for.
    pub(super) error: Option<ProviderErrorKind>,
}

/// Returns the answer of a reviewer of the work up to `head`, which has ended like this.
pub(super) fn answer_of(
    cx: &RunContext,
    record: &AttemptRecord,
    head: &CommitId,
    ended: Result<Outcome>,
) -> ReviewAnswer {
    let by = record.call.as_ref().map_or("", |call| call.name.as_str());
    let outcome = ended.as_ref().map_or(Outcome::Interrupted, Clone::clone);
    let (transcript, error) = record.transcript(&cx.workspace, &outcome);
    let is_there = |path: &str| {
        let in_base = || record.base.as_ref().map(|base| cx.workspace.repo.file_at(base, path));
        let at = |found: Result<Option<Vec<u8>>>| matches!(found, Ok(Some(_)));
        at(cx.workspace.repo.file_at(head, path)) || in_base().is_some_and(at)
    };
    let review = match (ended, &error) {
        (Err(error), _) => Err(format!("{error:#}")),
        (Ok(_), Some(error)) => Err(ProviderErrorKind::to_string(error)),
        (Ok(outcome @ (Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. })), None) => {
            let words = record.last_words(&cx.workspace);
            let slot = record.slot.as_ref().map(|slot| slot.path.display().to_string());
            let root = slot.unwrap_or_default();
            WorkReview::read((by, &root), &words, is_there)
                .map_err(|why| format!("{why} ({outcome})"))
        }
        (Ok(outcome), None) => Err(outcome.to_string()),
    };
    let review = review.unwrap_or_else(|why| WorkReview::failed(by, why));
    ReviewAnswer { outcome, usage: transcript.usage, review, error }
}

/// Decides what follows a review of work that was sent back this often before. Returns what is missing
/// for it to land.
fn decide(cx: &RunContext, review: &mut WorkReview, before: u32) -> Option<String> {
    let settings = cx.workspace.config.review.as_ref()?;
    review.decide(settings.rule(), before)
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
    let facts = (graph, runner.core.journal.history());
    let place = (&runner.slots.pool, runner.slots.settings(&cx.workspace));
    match runner.reviews.start(cx, facts, record, place, end) {
        Ok(event) => {
            runner.core.emit(Some((&record.task_id, record.iteration)), event)?;
            Ok(None)
        }
        Err(end) => Ok(Some(Input::Judged(record.id(), end))),
    }
}

/// Handles the news of a review: goes on with it, or journals it and judges the work with that.
pub(super) fn go_on(runner: &mut Runner, id: &AttemptId, news: ReviewNews) -> Result<()> {
    let facts = (runner.core.graph.file.graph(), runner.core.journal.history());
    let launch = || runner.reviews.launch(&runner.core.cx, facts, id);
    let ended = match news {
        ReviewNews::Prepared(Ok(())) => match launch() {
            Ok(()) => return Ok(()),
            Err(error) => (Err(error), Duration::ZERO),
        },
        ReviewNews::Prepared(Err(error)) => (Err(error), Duration::ZERO),
        ReviewNews::Ended(outcome, took) => (Ok(outcome), took),
    };
    let history = runner.core.journal.history();
    let Some(ended) = runner.reviews.ended(&runner.core.cx, history, id, ended) else {
        return Ok(());
    };
    let EndedReview { event, iteration, end } = ended;
    runner.core.emit(Some((&id.task_id, iteration)), event)?;
    if runner.reviews.is_stopped() {
        runner.handle(Input::Postponed(id.clone()))
    } else {
        runner.handle(Input::Judged(id.clone(), end))
    }
}

/// Whether work is reviewed before it lands.
pub(super) fn is_due(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    evidence: &Evidence,
) -> bool {
    let (true, None, Some(base), Some(head)) =
        (record.slot.is_some(), &evidence.review, &record.base, evidence.commits.last())
    else {
        return false;
    };
    match cx.workspace.config.review.as_ref().map(|review| review.when) {
        None | Some(ReviewWhen::Never) => false,
        Some(ReviewWhen::Always) => true,
        Some(ReviewWhen::Risky) => {
            let files = cx.workspace.repo.differing(Some(base), &head.id).unwrap_or_default();
            let task = task_of(graph, record);
            let facts = WorkFacts {
                evidence,
                proof: None,
                files: &files,
                ignored: &[],
                paths: &task.as_ref().map(task_paths::of_task).unwrap_or_default(),
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
    let given = given.and_then(|agents| agents.calls.first());
    let preset = author.and_then(AgentCommand::preset_name);
    let others = agent_preset::ALL.iter().filter(|it| Some(it.name) != preset.as_deref());
    let mut others = others.filter_map(|preset| AgentCommand::preset(preset.name));
    let is_here = |call: &AgentCommand| {
        call.argv.first().is_some_and(|it| process::resolve(it, workspace.root()).is_ok())
    };
    let found = given.cloned().or_else(|| others.find(is_here)).or_else(|| author.cloned());
    found.unwrap_or_else(|| AgentCommand::command(Vec::new()))
}

/// Returns the record of an attempt as its reviewer has it: with a slot and folders of its own, so that
/// nothing it reports counts for the attempt.
fn record_of(
    cx: &RunContext,
    (record, call): (&AttemptRecord, AgentCommand),
    pool: &SlotPool,
    number: usize,
) -> Result<AttemptRecord> {
    let log = format!("{}/review", record.log);
    let folder = cx.workspace.root().join(&log);
    fs::create_dir_all(&folder).with_context(|| format!("create `{log}`"))?;
    let target = record.slot.as_ref().map(|slot| slot.target.clone()).unwrap_or_default();
    let slot = SlotAssignment { path: pool.review(number), target, landing: None };
    let (folder, slot, call) = (Some(log.clone()), Some(slot), Some(call));
    Ok(AttemptRecord { log, folder, slot, call, pane: None, ..record.clone() })
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

/// Returns the process of a reviewer, as the executor of the attempt starts it in the slot that is
/// there, with what is left to spend.
fn placed(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    (side, limit, left): (&SideProcesses, Duration, Option<f64>),
) -> Result<ProcessSpec> {
    let workspace = &cx.workspace;
    let call = record.call.as_ref().context("no agent is there for it; name one in `review`")?;
    let spec = process_spec::agent(workspace, record, call);
    let mut spec = ProcessSpec { argv: call.argv_within(left), ..spec };
    spec.env.push((REVIEWS.to_owned(), "1".to_owned()));
    let executor = processes::executor_of(cx, record, None).map_err(Error::msg)?;
    ensure!(executor.is_here(), "its agent runs on `{}`, and a reviewer only here", executor.name);
    let placed = processes::placed(cx, graph, record, &executor, (&spec, &side.sign), limit);
    Ok(placed.map_err(|fault| Error::msg(fault.to_string()))?.spec)
}

/// The agent of a review.
pub(super) struct ReviewProcess {
    side: SideProcesses,
    spec: ProcessSpec,
    limit: Duration,
    idle: Option<Duration>,
}

impl ReviewProcess {
    /// Returns the agent of a review, in the slot that is there, with what is left to spend.
    ///
    /// # Errors
    /// Its executor is not here, or cannot start it.
    pub(super) fn of(
        cx: &RunContext,
        graph: &TaskGraph,
        record: &AttemptRecord,
        left: Option<f64>,
    ) -> Result<ReviewProcess> {
        let side = SideProcesses::of(cx, record.file(&cx.workspace, "sign"));
        let limits = attempts::limits_of(cx, None, &ProcessKind::Agent(None));
        let (limit, idle) = (limits.limit, limits.idle);
        let spec = placed(cx, graph, record, (&side, limit, left))?;
        Ok(ReviewProcess { side, spec, limit, idle })
    }

    /// Runs it to its end while `goes_on` is true. Returns how it ended and its wall time.
    pub(super) fn run(self, goes_on: impl FnMut() -> bool) -> (Outcome, Duration) {
        let began = Instant::now();
        let outcome = self.side.run(self.spec, self.idle, self.limit, goes_on);
        self.side.end();
        (outcome, began.elapsed())
    }
}
