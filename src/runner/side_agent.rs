//! Active reviewers. Each has its own thread and slot, whose content is discarded.

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

use super::{
    Runner, RunnerMessage, attempts,
    context::RunContext,
    process_spec::{self, ProcessKind},
    processes,
    side_command::SideProcesses,
};
use crate::{
    adapters::{
        agent_output::Follow,
        git::{Repo, SlotSettings},
        process::{self, ProcessSpec},
    },
    core::{
        agents::{
            agent_command::AgentCommand, agent_preset, provider_error::ProviderErrorKind,
            transcript::Usage,
        },
        commit_id::CommitId,
        graph::TaskGraph,
        reviewer::REVIEWS,
        run::{
            command::{AttemptId, PendingResult},
            landing::free_number,
        },
        verdict::{Merge, Outcome},
    },
    project::{
        attempt::{AttemptRecord, SlotAssignment},
        slot_pool::SlotPool,
        workspace::Workspace,
    },
};

/// The environment entry of an agent that looks at an attempt.
pub(super) const REVIEWER: (&str, &str) = (REVIEWS, "1");

/// An agent at work.
pub(super) struct SideAgent {
    pub(super) id: AttemptId,
    /// The number of its slot.
    number: usize,
    /// The record of the attempt as this agent has it.
    pub(super) record: AttemptRecord,
    /// The commit that it reviews.
    pub(super) head: CommitId,
    /// The result of the attempt, which waits for the review.
    pub(super) end: Box<PendingResult>,
    /// Its cost limit.
    pub(super) budget: Option<f64>,
}

/// A report of an agent's thread.
pub(super) enum SideNews {
    /// Its slot was prepared; the conflict of the work with its branch, if there is one.
    Prepared(Result<Option<Merge>>),
    /// It has ended, after this time.
    Ended(Outcome, Duration),
}

/// An agent that has ended, or could not start.
pub(super) struct EndedAgent {
    pub(super) agent: SideAgent,
    pub(super) took: Duration,
    pub(super) answer: SideAnswer,
}

/// The end and the answer of a side agent.
pub(super) struct SideAnswer {
    /// How its process ended.
    pub(super) outcome: Outcome,
    pub(super) usage: Usage,
    /// Its last message, or why there is none.
    pub(super) words: Result<String, String>,
    /// Its provider's refusal, if any.
    pub(super) error: Option<ProviderErrorKind>,
}

/// Work whose required review waits for the provider of its reviewer.
pub(super) struct WaitingReview {
    pub(super) record: AttemptRecord,
    /// The reviewer.
    pub(super) call: AgentCommand,
    pub(super) end: Box<PendingResult>,
}

/// The agents of a run that look at attempts.
#[derive(Default)]
pub(super) struct SideAgents {
    active: Vec<SideAgent>,
    /// The work whose required review waits for the provider of its reviewer.
    pub(super) waiting: Vec<WaitingReview>,
    stopped: Arc<AtomicBool>,
}

impl SideAgents {
    /// Ends all of them.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether they were ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the record of an attempt as such an agent has it: with a slot and a folder of its own, of
    /// this name, so that nothing it reports counts for the attempt.
    pub(super) fn record_of(
        &self,
        cx: &RunContext,
        (record, call): (&AttemptRecord, AgentCommand),
        (pool, name): (&SlotPool, &str),
    ) -> Result<(usize, AttemptRecord)> {
        let number = free_number(self.active.iter().map(|agent| agent.number));
        let log = format!("{}/{name}", record.log);
        let folder = cx.workspace.root().join(&log);
        fs::create_dir_all(&folder).with_context(|| format!("create `{log}`"))?;
        let target = record.slot.as_ref().map(|slot| slot.target.clone()).unwrap_or_default();
        let slot = SlotAssignment { path: pool.review(number), target, landing: None };
        let (folder, slot, call) = (Some(log.clone()), Some(slot), Some(call));
        Ok((number, AttemptRecord { log, folder, slot, call, terminal: false, ..record.clone() }))
    }

    /// Prepares the slot of an agent with this commit; its process follows, unless `check` finds a
    /// conflict.
    pub(super) fn start(
        &mut self,
        cx: &RunContext,
        (number, record): (usize, AttemptRecord),
        (end, budget): (Box<PendingResult>, Option<f64>),
        (pool, settings, commit): (&SlotPool, SlotSettings, CommitId),
        check: impl FnOnce(&Repo) -> Result<Option<Merge>> + Send + 'static,
    ) {
        let id = record.id();
        self.active.push(SideAgent {
            id: id.clone(),
            number,
            record,
            head: commit.clone(),
            end,
            budget,
        });
        let (outbox, pool) = (cx.outbox.clone(), pool.clone());
        thread::spawn(move || {
            let check_out = || pool.check_out(&pool.review(number), &settings, &commit);
            let checked = check_out().and_then(|tree| check(&tree));
            // This drops the merge for the check.
            let prepared = match checked {
                Ok(None) => check_out().map(|_| None),
                checked => checked,
            };
            drop(outbox.send(RunnerMessage::SideAgent(id, SideNews::Prepared(prepared))));
        });
    }

    /// Starts the process of an agent whose slot is prepared.
    fn launch(&self, cx: &RunContext, graph: &TaskGraph, id: &AttemptId) -> Result<()> {
        let Some(agent) = self.active.iter().find(|agent| agent.id == *id) else {
            return Ok(());
        };
        let process = SideProcess::of(cx, graph, &agent.record, (REVIEWER, agent.budget))?;
        let stopped = Arc::clone(&self.stopped);
        let (id, outbox) = (id.clone(), cx.outbox.clone());
        thread::spawn(move || {
            let (outcome, took) = process.run(|| !stopped.load(Ordering::Relaxed));
            let ended = SideNews::Ended(outcome, took);
            drop(outbox.send(RunnerMessage::SideAgent(id, ended)));
        });
        Ok(())
    }
}

/// Handles an agent's update. Returns the agent once ended.
pub(super) fn go_on(runner: &mut Runner, id: &AttemptId, news: SideNews) -> Option<EndedAgent> {
    let (agents, cx) = (&mut runner.side_agents, &runner.core.cx);
    let (ended, took) = match news {
        SideNews::Prepared(Ok(Some(conflict))) => {
            let agent = agents.active.iter_mut().find(|agent| agent.id == *id)?;
            agent.end.evidence.merge = Some(conflict);
            (Err(Error::msg("the work conflicts with its branch")), Duration::ZERO)
        }
        SideNews::Prepared(Ok(None)) => match agents.launch(cx, runner.core.graph.file.graph(), id)
        {
            Ok(()) => return None,
            Err(error) => (Err(error), Duration::ZERO),
        },
        SideNews::Prepared(Err(error)) => (Err(error), Duration::ZERO),
        SideNews::Ended(outcome, took) => (Ok(outcome), took),
    };
    let at = agents.active.iter().position(|agent| agent.id == *id)?;
    let agent = agents.active.remove(at);
    let mut answer = answer_of(&cx.workspace, &agent.record, ended);
    let is_spent = |budget: f64| answer.usage.cost_usd.is_some_and(|cost| cost > budget);
    let is_cut = answer.outcome == Outcome::Cancelled && !agents.is_stopped();
    if is_cut && agent.budget.is_some_and(is_spent) {
        answer.words = Err("the limit on its cost was reached".to_owned());
    }
    Some(EndedAgent { agent, took, answer })
}

/// Returns the answer of an agent that has ended like this.
pub(super) fn answer_of(
    workspace: &Workspace,
    record: &AttemptRecord,
    ended: Result<Outcome>,
) -> SideAnswer {
    let outcome = ended.as_ref().map_or(Outcome::Interrupted, Clone::clone);
    let (transcript, error) = record.transcript(workspace, &outcome);
    let words = match (ended, &error) {
        (Err(error), _) => Err(format!("{error:#}")),
        (Ok(_), Some(error)) => Err(ProviderErrorKind::to_string(error)),
        (Ok(Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. }), None) => {
            Ok(record.last_words(workspace))
        }
        (Ok(outcome), None) => Err(outcome.to_string()),
    };
    SideAnswer { outcome, usage: transcript.usage, words, error }
}

/// The agent that reviews work of this author: the given one, an installed preset other than the
/// author's, or the author's.
pub(super) fn other_than_author(
    workspace: &Workspace,
    author: Option<&AgentCommand>,
    given: Option<&AgentCommand>,
) -> AgentCommand {
    let preset = author.and_then(AgentCommand::preset_name);
    let others = agent_preset::ALL.iter().filter(|it| Some(it.name) != preset.as_deref());
    let mut others = others.filter_map(|preset| AgentCommand::preset(preset.name));
    let is_here = |call: &AgentCommand| is_installed(workspace, call);
    let found = given.cloned().or_else(|| others.find(is_here)).or_else(|| author.cloned());
    found.unwrap_or_else(|| AgentCommand::command(Vec::new()))
}

/// Whether the program of an agent is on this machine.
pub(super) fn is_installed(workspace: &Workspace, call: &AgentCommand) -> bool {
    call.argv.first().is_some_and(|it| process::resolve(it, workspace.root()).is_ok())
}

/// Returns the process of an agent, as the executor of the attempt starts it in the slot that is
/// there, with its cost limit.
fn placed(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    (side, limit): (&SideProcesses, Duration),
    ((name, value), budget): ((&str, &str), Option<f64>),
) -> Result<ProcessSpec> {
    let workspace = &cx.workspace;
    let call = record.call.as_ref().context("no agent is there for it; name one in `review`")?;
    let spec = process_spec::agent(workspace, record, call);
    let mut spec = ProcessSpec { argv: call.argv_within(budget), ..spec };
    spec.env.push((name.to_owned(), value.to_owned()));
    let executor = processes::executor_of(cx, record).map_err(Error::msg)?;
    ensure!(executor.is_here(), "its agent runs on `{}`, and this one only here", executor.name);
    let placed = processes::placed(cx, graph, record, &executor, (&spec, &side.sign), limit);
    Ok(placed.map_err(|fault| Error::msg(fault.to_string()))?.spec)
}

/// The process of such an agent.
pub(super) struct SideProcess {
    side: SideProcesses,
    spec: ProcessSpec,
    limit: Duration,
    idle: Option<Duration>,
    output: Follow,
    budget: Option<f64>,
}

impl SideProcess {
    /// Returns the process of an agent in the slot that is there, with the variable of its role and
    /// its cost limit.
    ///
    /// # Errors
    /// Its executor is not here, or cannot start it.
    pub(super) fn of(
        cx: &RunContext,
        graph: &TaskGraph,
        record: &AttemptRecord,
        (role, budget): ((&str, &str), Option<f64>),
    ) -> Result<SideProcess> {
        let side = SideProcesses::of(cx, record.file(&cx.workspace, "sign"));
        let limits = attempts::limits_of(cx, None, &ProcessKind::Agent(None));
        let format = record.call.as_ref().map(|call| call.output).unwrap_or_default();
        Ok(SideProcess {
            spec: placed(cx, graph, record, (&side, limits.limit), (role, budget))?,
            side,
            limit: limits.limit,
            idle: limits.idle,
            output: Follow::new(record.file(&cx.workspace, "stdout"), format),
            budget,
        })
    }

    /// Runs it to its end, while `goes_on` is true and its reported cost is within the limit.
    /// Returns how it ended and its wall time.
    pub(super) fn run(self, mut goes_on: impl FnMut() -> bool) -> (Outcome, Duration) {
        /// How often its output is read.
        const LOOK: Duration = Duration::from_millis(500);
        let SideProcess { side, spec, limit, idle, mut output, budget } = self;
        let (began, mut looked) = (Instant::now(), Instant::now());
        let goes_on = || {
            if let Some(budget) = budget.filter(|_| looked.elapsed() >= LOOK) {
                looked = Instant::now();
                let cost = output.look().and_then(|transcript| transcript.usage.cost_usd);
                if cost.is_some_and(|cost| cost > budget) {
                    return false;
                }
            }
            goes_on()
        };
        let outcome = side.run(spec, idle, limit, goes_on);
        side.end();
        (outcome, began.elapsed())
    }
}
