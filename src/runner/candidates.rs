//! Candidates: agents beside that of an attempt, each in a slot of its own, from the same base and with the
//! same prompt. The result of the attempt waits for them, and the best work goes on as that of the attempt.

mod choice;

use std::{
    fs, mem,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result};

use super::{
    RunCore, Runner, RunnerMessage, attempts,
    close::{self, EndedSlot},
    context::RunContext,
    graph_copy,
    process_spec::ProcessKind,
    side_agent::SideProcess,
    side_command::SideCommands,
};
use crate::{
    core::{
        candidate::{CANDIDATE, CandidateResult},
        duration,
        event::{AttemptEvent, CandidateEnd},
        graph::{TaskGraph, task::Task},
        isolation::{CandidateRule, free_number},
        run::{
            command::{AttemptId, CheckPurpose, PendingResult, ProcessEnd},
            input::Input,
        },
        verdict::{CheckResult, Outcome},
    },
    project::{
        attempt::{self, AttemptRecord, SlotAssignment, leftovers},
        slot_pool,
    },
    regular_file,
};

use choice::{HeldResult, choose, result_of};
pub(super) use choice::{compared, hold, reviewed};

/// The number of the agent of the attempt itself.
const OWN: u32 = 1;

/// What the thread of a candidate reports.
pub(super) enum CandidateNews {
    /// Its slot was prepared; whether the commands of `setup` have run in it.
    Prepared(Result<bool>),
    /// The commands of `setup` have ended.
    SetUp(Result<(), String>),
    /// Its agent has ended, after this time.
    Ended(Outcome, Duration),
    /// The verify commands have ended.
    Checked(Vec<CheckResult>),
}

/// A candidate beside the agent of an attempt, until the result of the attempt goes on.
struct Candidate {
    id: AttemptId,
    number: u32,
    /// The number of its slot.
    slot: usize,
    /// The record of the attempt as this candidate has it.
    record: AttemptRecord,
    /// What it may cost.
    budget: Option<f64>,
    stopped: Arc<AtomicBool>,
    began: Instant,
    /// Its work, once its agent has ended.
    work: Box<PendingResult>,
    /// What it brought, once it has ended.
    result: Option<CandidateResult>,
}

impl Candidate {
    fn is_it(&self, id: &AttemptId, number: u32) -> bool {
        self.id == *id && self.number == number
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The candidates of a run.
#[derive(Default)]
pub(super) struct RunCandidates {
    all: Vec<Candidate>,
    /// The results of attempts that wait for their candidates.
    held: Vec<HeldResult>,
}

impl RunCandidates {
    /// Ends all of them.
    pub(super) fn stop(&self) {
        self.all.iter().for_each(Candidate::stop);
    }

    /// Ends those of an attempt that is closed.
    pub(super) fn release(&mut self, id: &AttemptId) {
        self.all.iter().filter(|it| it.id == *id).for_each(Candidate::stop);
        self.all.retain(|it| it.id != *id || it.result.is_none());
        self.held.retain(|held| held.id != *id);
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether any has not ended.
    pub(super) fn any_at_work(&self) -> bool {
        self.all.iter().any(|it| it.result.is_none())
    }

    /// Whether an attempt has any.
    pub(super) fn has(&self, id: &AttemptId) -> bool {
        self.all.iter().any(|it| it.id == *id)
    }

    /// Whether the first good work of an attempt is enough.
    fn is_first(&self, id: &AttemptId) -> bool {
        let is_first = |it: &&Candidate| it.record.candidates.is_some_and(|rule| rule.first);
        self.all.iter().filter(|it| it.id == *id).any(|it| is_first(&it))
    }

    fn held(&self, id: &AttemptId) -> Option<&HeldResult> {
        self.held.iter().find(|held| held.id == *id)
    }

    fn get(&self, id: &AttemptId, number: u32) -> Option<&Candidate> {
        self.all.iter().find(|it| it.is_it(id, number))
    }

    fn get_mut(&mut self, id: &AttemptId, number: u32) -> Option<&mut Candidate> {
        self.all.iter_mut().find(|it| it.is_it(id, number))
    }
}

/// Returns how many agents make an attempt at a task at the same time, if there are several; `is_last` is
/// whether it is the last one before the task is parked.
pub(super) fn rule_of(cx: &RunContext, task: &Task, is_last: bool) -> Option<CandidateRule> {
    let rule = task.candidates.or(cx.workspace.config.candidates)?;
    let rule = CandidateRule { count: rule.count_at(is_last), ..rule };
    Some(rule).filter(|rule| rule.count > 1 && cx.plain().is_none())
}

/// Starts the agent of an attempt, and its candidates.
pub(super) fn start_agents(runner: &mut Runner, id: &AttemptId) -> Result<Option<Input>> {
    let started = runner.start_process(id, &ProcessKind::Agent(None))?;
    if matches!(started, Some(Input::ProcessStarted(..))) {
        begin(runner, id)?;
    }
    Ok(started)
}

/// Begins the candidates of an attempt whose agent has just started.
fn begin(runner: &mut Runner, id: &AttemptId) -> Result<()> {
    let Some(record) = runner.attempts.get(id).cloned() else { return Ok(()) };
    let Some(CandidateRule { count, .. }) = record.candidates else { return Ok(()) };
    let core = &runner.core;
    let history = core.journal.history();
    let left = attempts::cost_left(&core.cx, history, core.graph.file.graph(), id);
    let budget = left.map(|left| left / f64::from(count));
    for number in 2..=count {
        if let Err(error) = start(runner, (&record, number), budget) {
            let why = format!("{error:#}");
            let (own, why) = (own_record(&record, number), Outcome::NotStarted { error: why });
            record_cut_off(&mut runner.core, &own, why, Duration::ZERO)?;
        }
    }
    Ok(())
}

/// The record of an attempt as a candidate has it.
fn own_record(record: &AttemptRecord, number: u32) -> AttemptRecord {
    let log = format!("{}/candidate-{number}", record.log);
    AttemptRecord {
        folder: Some(log.clone()),
        log,
        candidate: Some(number),
        agent: None,
        guardian: None,
        terminal: false,
        ..record.clone()
    }
}

/// Whether the agent of a candidate has started.
fn has_agent(cx: &RunContext, record: &AttemptRecord) -> bool {
    record.file(&cx.workspace, "stdout").exists()
}

/// Journals the candidates that an earlier run left open, so that what they used counts.
pub(super) fn recover(core: &mut RunCore, record: &AttemptRecord) -> Result<()> {
    let open = core.journal.history().active.of(&record.task_id);
    let open = open.filter(|it| it.attempt == record.attempt).into_iter();
    let numbers: Vec<u32> = open.flat_map(|it| it.candidates.iter().map(|it| it.0)).collect();
    for number in numbers {
        let own = own_record(record, number);
        let outcome = if has_agent(&core.cx, &own) {
            Outcome::Interrupted
        } else {
            Outcome::NotStarted { error: "`ralph` was killed".to_owned() }
        };
        let took = (own.last_sign(&core.cx.workspace) - own.started_at).to_std();
        record_cut_off(core, &own, outcome, took.unwrap_or_default())?;
    }
    Ok(())
}

/// Writes the prompt of a candidate, and prepares its slot.
fn start(
    runner: &mut Runner,
    (record, number): (&AttemptRecord, u32),
    budget: Option<f64>,
) -> Result<()> {
    let (core, pool) = (&mut runner.core, &runner.slots.pool);
    let (cx, workspace) = (&core.cx, &core.cx.workspace);
    let slot = record.slot.as_ref().context("its attempt works in the checkout")?;
    let base = record.base.clone().context("its attempt has no base")?;
    let branch = record.branch.clone().context("its attempt has no branch")?;
    let place = free_number(runner.candidates.all.iter().map(|it| it.slot));
    let (path, target) = (pool.candidate(place), slot.target.clone());
    let slot = Some(SlotAssignment { path: path.clone(), target, landing: None });
    let own = AttemptRecord { slot, ..own_record(record, number) };
    let log = own.log.clone();
    fs::create_dir_all(workspace.root().join(&log)).with_context(|| format!("create `{log}`"))?;
    let prompt = regular_file::read_to_string(&record.file(workspace, "prompt.md"))?;
    let prompt = prompt.replace(&record.folder(workspace), &log);
    attempt::write_prompt(workspace, &own, "prompt.md", &prompt)?;
    let settings = runner.slots.settings(workspace)?;
    let setup = workspace.config.setup.0.clone();
    let by = own.call.as_ref().map(|call| call.name.clone()).unwrap_or_default();
    let (id, outbox, pool) = (record.id(), cx.outbox.clone(), pool.clone());
    let slot = path.display().to_string();
    let started = AttemptEvent::CandidateStarted { attempt: id.attempt, number, by, log, slot };
    core.emit(Some((&id.task_id, record.iteration)), started)?;
    runner.candidates.all.push(Candidate {
        id: id.clone(),
        number,
        slot: place,
        record: own,
        budget,
        stopped: Arc::default(),
        began: Instant::now(),
        work: Box::default(),
        result: None,
    });
    thread::spawn(move || {
        let prepared = pool.check_out_branch(&path, &settings, (&base, &branch), &setup);
        let news = CandidateNews::Prepared(prepared.map(|(_, is_set_up)| is_set_up));
        drop(outbox.send(RunnerMessage::Candidate(id, number, news)));
    });
    Ok(())
}

/// Handles the news of a candidate.
pub(super) fn go_on(
    runner: &mut Runner,
    id: &AttemptId,
    number: u32,
    news: CandidateNews,
) -> Result<()> {
    let stepped = match news {
        CandidateNews::Prepared(Err(error)) => Err(error),
        CandidateNews::Prepared(Ok(is_set_up)) => prepared(runner, id, number, is_set_up),
        CandidateNews::SetUp(Err(why)) => Err(Error::msg(why)),
        CandidateNews::SetUp(Ok(())) => launch(runner, id, number).map(|()| false),
        CandidateNews::Ended(outcome, took) => ended(runner, id, number, (outcome, took)),
        CandidateNews::Checked(checks) => {
            if let Some(candidate) = runner.candidates.get_mut(id, number) {
                candidate.work.evidence.verify = checks;
            }
            Ok(true)
        }
    };
    // What a candidate did to its slot must not end the run.
    let is_over = stepped.unwrap_or_else(|error| {
        if let Some(candidate) = runner.candidates.get_mut(id, number) {
            let (work, error) = (&mut candidate.work, format!("{error:#}"));
            if has_agent(&runner.core.cx, &candidate.record) {
                work.evidence.strayed = Some(error);
            } else {
                work.outcome = Outcome::NotStarted { error };
            }
        }
        true
    });
    if is_over { finish(runner, id, number) } else { Ok(()) }
}

/// Runs the commands of `setup` in the slot of a candidate that is prepared, or starts its agent. Whether it
/// is over.
fn prepared(runner: &mut Runner, id: &AttemptId, number: u32, is_set_up: bool) -> Result<bool> {
    let core = &runner.core;
    let (cx, graph) = (&core.cx, core.graph.file.graph());
    let Some(candidate) = runner.candidates.get_mut(id, number) else { return Ok(false) };
    let record = &mut candidate.record;
    let tree = record.tree(&cx.workspace)?;
    (record.locks, record.controls) = (tree.locks(), Some(tree.local().controls()));
    let base = record.base.clone().context("it has no base")?;
    graph_copy::write(&cx.workspace, &tree, &base, core.graph.file.text())?;
    let commands = cx.workspace.config.setup.0.clone();
    if commands.is_empty() || is_set_up {
        return launch(runner, id, number).map(|()| false);
    }
    let limit = cx.workspace.config.setup_timeout;
    check_beside(cx, graph, candidate, (CheckPurpose::Setup, commands, limit), |checks| {
        let red = checks.into_iter().find(|check| !check.is_green());
        CandidateNews::SetUp(red.map_or(Ok(()), |red| Err(format!("setup failed: {red}"))))
    })?;
    Ok(false)
}

/// Runs commands with this purpose in the slot of a candidate, in a thread that reports their results.
fn check_beside(
    cx: &RunContext,
    graph: &TaskGraph,
    candidate: &Candidate,
    (purpose, commands, limit): (CheckPurpose, Vec<String>, Duration),
    news: fn(Vec<CheckResult>) -> CandidateNews,
) -> Result<()> {
    let Candidate { id, number, record, stopped, .. } = candidate;
    let path = record.slot.as_ref().map(|slot| slot.path.clone()).unwrap_or_default();
    let runs = SideCommands::of(cx, graph, record, (&path, purpose, "sign"), &[]);
    let runs = runs.map_err(Error::msg)?;
    let (root, log) = (cx.workspace.root().to_owned(), record.log.clone());
    let (id, number, stopped) = (id.clone(), *number, Arc::clone(stopped));
    let outbox = cx.outbox.clone();
    thread::spawn(move || {
        let place = (root.as_path(), log.as_str(), purpose.log_name());
        let checks = check_all(&runs, &commands, place, limit, &stopped);
        drop(outbox.send(RunnerMessage::Candidate(id, number, news(checks))));
    });
    Ok(())
}

/// Runs commands one after the other, up to the first failure.
fn check_all(
    runs: &SideCommands,
    commands: &[String],
    (root, log, name): (&Path, &str, &str),
    limit: Duration,
    stopped: &AtomicBool,
) -> Vec<CheckResult> {
    let mut checks: Vec<CheckResult> = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let log = format!("{log}/{name}-{}.log", at + 1);
        let goes_on = || !stopped.load(Ordering::Relaxed);
        checks.push(runs.check(command, (root, log), limit, goes_on).0);
        if checks.last().is_some_and(|check| !check.is_green()) {
            break;
        }
    }
    runs.end();
    checks
}

/// Starts the agent of a candidate whose slot is set up.
fn launch(runner: &mut Runner, id: &AttemptId, number: u32) -> Result<()> {
    let (cx, graph) = (&runner.core.cx, runner.core.graph.file.graph());
    let Some(candidate) = runner.candidates.get_mut(id, number) else { return Ok(()) };
    let tree = candidate.record.tree(&cx.workspace)?;
    slot_pool::note_setup(&tree, &cx.workspace.config.setup.0)?;
    candidate.record.dirty = attempt::changed(&cx.workspace, &tree)?;
    let role = (CANDIDATE, &*number.to_string());
    let process = SideProcess::of(cx, graph, &candidate.record, (role, candidate.budget))?;
    let (stopped, outbox, id) =
        (Arc::clone(&candidate.stopped), cx.outbox.clone(), candidate.id.clone());
    thread::spawn(move || {
        let (outcome, took) = process.run(|| !stopped.load(Ordering::Relaxed));
        let ended = CandidateNews::Ended(outcome, took);
        drop(outbox.send(RunnerMessage::Candidate(id, number, ended)));
    });
    Ok(())
}

/// Examines the work of a candidate whose agent has ended, and verifies it if that is all that is missing.
/// Whether it is over.
fn ended(
    runner: &mut Runner,
    id: &AttemptId,
    number: u32,
    (outcome, took): (Outcome, Duration),
) -> Result<bool> {
    let Some(candidate) = runner.candidates.get(id, number) else { return Ok(false) };
    let record = candidate.record.clone();
    let core = &runner.core;
    let (cx, graph, history) = (&core.cx, core.graph.file.graph(), core.journal.history());
    let workspace = &cx.workspace;
    runner.slots.let_change();
    let mut slot = EndedSlot::open(workspace, &runner.slots, &record);
    let unlocked = mem::take(&mut slot.unlocked);
    let report =
        attempt::report(workspace, &record, false, graph_copy::own_status(workspace, &record));
    let evidence = slot.evidence(workspace, &record, report)?;
    let end = ProcessEnd { outcome: Some(outcome), took, ..ProcessEnd::default() };
    let mut work = close::result_of(cx, history, (graph, &record), end, evidence);
    work.unlocked = unlocked;
    let examined = close::examine(core, &runner.slots, &record, &work.outcome, &mut work.evidence);
    runner.slots.let_change();
    let verify = core.run.attempts().get(id).map(|open| open.verify.clone());
    let Some(candidate) = runner.candidates.get_mut(id, number) else { return Ok(false) };
    *candidate.work = work;
    let (_, is_complete) = examined?;
    let verify = verify.filter(|verify| is_complete && !verify.is_empty());
    let Some(verify) = verify else { return Ok(true) };
    let order = (CheckPurpose::Verify, verify, workspace.config.verify_timeout);
    check_beside(cx, graph, candidate, order, CandidateNews::Checked)?;
    Ok(false)
}

/// Journals the end of a candidate, with what its agent used, whatever became of it.
fn record_end(
    core: &mut RunCore,
    (record, outcome): (&AttemptRecord, Outcome),
    candidate: CandidateResult,
    took: Duration,
) -> Result<CandidateResult> {
    let usage = record.transcript(&core.cx.workspace, &outcome).0.usage;
    let candidate = CandidateResult { cost_usd: usage.cost_usd, ..candidate };
    let (attempt, duration_seconds) = (record.attempt, duration::seconds(took));
    let end =
        CandidateEnd { attempt, outcome, candidate: candidate.clone(), duration_seconds, usage };
    let about = Some((&record.task_id, record.iteration));
    core.emit(about, AttemptEvent::CandidateEnded(end))?;
    Ok(candidate)
}

/// Does the same for one that did not start, or whose run was killed.
fn record_cut_off(
    core: &mut RunCore,
    record: &AttemptRecord,
    outcome: Outcome,
    took: Duration,
) -> Result<()> {
    let work = PendingResult::cut_off(outcome, took);
    let result = result_of(&core.cx, core.graph.file.graph(), record, &work);
    record_end(core, (record, work.outcome), result, took).map(drop)
}

/// Journals what a candidate brought. The first one with good work may end the others.
fn finish(runner: &mut Runner, id: &AttemptId, number: u32) -> Result<()> {
    let (cx, graph) = (&runner.core.cx, runner.core.graph.file.graph());
    let Some(candidate) = runner.candidates.get(id, number) else { return Ok(()) };
    let (record, work) = (&candidate.record, &candidate.work);
    let result = result_of(cx, graph, record, work);
    let mut pinned = result.pinned.clone().filter(|_| result.is_good());
    if let Ok(tree) = runner.slots.secured_tree(&cx.workspace, record)
        && pinned.is_none()
    {
        let (kept, left) = leftovers::pin(&cx.workspace, &tree, record, &work.evidence.leftovers);
        pinned = kept;
        if left.is_empty() {
            let _ = tree.integration().clean_up();
        }
    }
    runner.slots.let_change();
    let result = CandidateResult { pinned, ..result };
    let (is_good, took) = (result.is_good(), candidate.began.elapsed());
    let end = (record, work.outcome.clone());
    let result = record_end(&mut runner.core, end, result, took)?;
    if let Some(candidate) = runner.candidates.get_mut(id, number) {
        candidate.result = Some(result);
    }
    if runner.attempts.get(id).is_none() {
        // It was closed meanwhile.
        runner.candidates.all.retain(|it| !it.is_it(id, number));
        return Ok(());
    }
    if is_good && runner.candidates.is_first(id) {
        stop_others(runner, id, number)?;
    }
    choose(runner, id)
}

/// Ends the other candidates of an attempt, and its agent, since one has good work.
fn stop_others(runner: &mut Runner, id: &AttemptId, number: u32) -> Result<()> {
    let others = runner.candidates.all.iter().filter(|it| it.id == *id && it.number != number);
    others.for_each(Candidate::stop);
    if number == OWN {
        return Ok(());
    }
    let why = format!("candidate {number} has work whose checks pass (`first: true`)");
    runner.handle(Input::EndAgent(id.clone(), why))
}
