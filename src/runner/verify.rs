//! The stages of an attempt and what follows from the end of each: the verify commands before its
//! agent, where that is asked for, the agent, the verify commands after it, the judgement.
//!
//! A verify command runs like an agent: behind a guardian, with a limit, ended by the same signals.

use std::{fs, time::Duration};

use anyhow::Result;

use super::{Runner, close::PendingResult};
use crate::{
    adapters::{agent_output, process::ProcessSpec},
    core::{
        duration,
        event::Event,
        graph::task::Task,
        verdict::{CheckResult, Evidence, Outcome, Verdict},
    },
    crash,
    project::attempt::{self, AttemptRecord},
};

/// What of an attempt runs.
pub(super) enum ProcessStage {
    /// The commands that prepare its work tree.
    Setup(Checks),
    /// The verify commands, to see whether they succeed without it.
    Baseline(Checks),
    /// Its agent.
    Agent,
    /// The verify commands, when its agent has reported and proven the task done.
    Verify(Checks, Box<PendingResult>),
    /// The verify commands of it and others, when the merge queue has put them together.
    Trial(Checks),
}

/// Verify commands, run in order up to the first that does not succeed.
pub(super) struct Checks {
    commands: Vec<String>,
    done: Vec<CheckResult>,
}

impl Checks {
    pub(super) fn new(commands: Vec<String>) -> Checks {
        Checks { commands, done: Vec::new() }
    }

    /// The command that is to run, or runs.
    fn current(&self) -> &str {
        &self.commands[self.done.len()]
    }

    /// Whether nothing is left to run.
    fn is_over(&self) -> bool {
        self.done.len() == self.commands.len() || self.done.iter().any(|check| !check.is_green())
    }
}

impl ProcessStage {
    /// That of the commands of `setup`.
    pub(super) fn setup(commands: Vec<String>) -> ProcessStage {
        ProcessStage::Setup(Checks::new(commands))
    }

    /// Whether it is about the merge queue, and not about the attempt alone.
    pub(super) fn is_trial(&self) -> bool {
        matches!(self, ProcessStage::Trial(_))
    }

    /// The verify commands that it runs, and what their logs are called.
    fn checks(&self) -> Option<(&Checks, &'static str)> {
        match self {
            ProcessStage::Agent => None,
            ProcessStage::Setup(checks) => Some((checks, "setup")),
            ProcessStage::Trial(checks) => Some((checks, "merge")),
            ProcessStage::Baseline(checks) => Some((checks, "baseline")),
            ProcessStage::Verify(checks, _) => Some((checks, "verify")),
        }
    }

    /// Where the output of its command lies, relative to the repository; none for the agent's.
    pub(super) fn log(&self, record: &AttemptRecord) -> Option<String> {
        let (checks, name) = self.checks()?;
        Some(format!("{}/{name}-{}.log", record.log, checks.done.len() + 1))
    }
}

impl Runner {
    /// The stage with which an attempt begins.
    pub(super) fn first_stage(&self, record: &AttemptRecord) -> ProcessStage {
        let graph = self.file.graph();
        let Some(task) = graph.number(&record.task_id).map(|number| graph.task(number)) else {
            return ProcessStage::Agent;
        };
        let commands = self.workspace.verify_of(task);
        // What an attempt before this one left broken is for this one to mend.
        let due = self.workspace.verifies_baseline(task)
            && (record.apart.is_some() || !self.chronicle.history().unproven);
        if due && !commands.is_empty() {
            ProcessStage::Baseline(Checks::new(commands))
        } else {
            ProcessStage::Agent
        }
    }

    /// The limit of a stage.
    pub(super) fn limit(&self, record: &AttemptRecord, stage: &ProcessStage) -> Duration {
        match stage {
            ProcessStage::Agent => {}
            ProcessStage::Setup(_) => return self.workspace.config.setup_timeout,
            ProcessStage::Baseline(_) | ProcessStage::Verify(..) | ProcessStage::Trial(_) => {
                return self.workspace.config.verify_timeout;
            }
        }
        let graph = self.file.graph();
        let own = graph.number(&record.task_id).and_then(|number| graph.task(number).timeout);
        own.unwrap_or(self.workspace.config.timeout)
    }

    /// After how long without a sign of life the stage is ended, if it ever is.
    pub(super) fn idle_limit(
        &self,
        record: &AttemptRecord,
        stage: &ProcessStage,
    ) -> Option<Duration> {
        let graph = self.file.graph();
        let own = graph.number(&record.task_id).and_then(|number| graph.task(number).idle);
        let limit =
            Some(own.unwrap_or(self.workspace.config.idle)).filter(|limit| !limit.is_zero());
        limit.filter(|_| stage.checks().is_none())
    }

    /// Changes what an agent would be started with into what the stage's command is.
    pub(super) fn instead(
        &self,
        record: &AttemptRecord,
        stage: &ProcessStage,
        agent: ProcessSpec,
    ) -> ProcessSpec {
        let (Some((checks, _)), Some(log)) = (stage.checks(), stage.log(record)) else {
            return agent;
        };
        let log = self.workspace.root().join(log);
        // Left by a run that was killed in the middle of it.
        let _ = fs::remove_file(&log);
        ProcessSpec {
            argv: ["sh", "-c", checks.current()].map(str::to_owned).to_vec(),
            stdin: "/dev/null".into(),
            stdout: log.clone(),
            stderr: log,
            dir: if stage.is_trial() { self.trees.pool.merge() } else { agent.dir },
            ..agent
        }
    }

    /// Says that a verify command begins.
    pub(super) fn announce(&mut self, record: &AttemptRecord, stage: &ProcessStage) -> Result<()> {
        let (Some((checks, _)), Some(log)) = (stage.checks(), stage.log(record)) else {
            return Ok(());
        };
        let command = checks.current().to_owned();
        if let ProcessStage::Setup(_) = stage {
            let event = Event::SettingUp { attempt: record.attempt, command, log };
            return self.emit(Some((&record.task_id, record.iteration)), event);
        }
        let event = Event::Verifying {
            attempt: record.attempt,
            command,
            baseline: matches!(stage, ProcessStage::Baseline(_)),
            log,
        };
        self.emit(Some((&record.task_id, record.iteration)), event)?;
        crash::point("verify.told");
        Ok(())
    }

    /// Goes on when the process of a stage is gone, with everything it had started.
    pub(super) fn passed(
        &mut self,
        mut record: AttemptRecord,
        stage: ProcessStage,
        outcome: Outcome,
        took: Duration,
        swept: Vec<String>,
    ) -> Result<()> {
        let log = stage.log(&record);
        let cut_off = matches!(outcome, Outcome::Cancelled | Outcome::Interrupted);
        match stage {
            ProcessStage::Agent => {
                let end = self.look(&record, outcome, took, swept)?;
                self.verify(record, end)
            }
            ProcessStage::Setup(mut checks) => {
                if cut_off {
                    return self.close(&record, PendingResult::cut_off(outcome, took));
                }
                checks.done.push(self.check(&checks, outcome, took, log));
                if !checks.is_over() {
                    return self.launch(record, ProcessStage::Setup(checks));
                }
                let red = checks.done.into_iter().find(|check| !check.is_green());
                if red.is_none() {
                    return match self.take_as_given(&mut record) {
                        Ok(()) => self.launch_first(record),
                        Err(error) => self.close(&record, PendingResult::not_started(&error)),
                    };
                }
                let outcome = Outcome::NotStarted { error: "setup failed".to_owned() };
                let evidence = Evidence { setup: red, ..Evidence::default() };
                let end = PendingResult { evidence, ..PendingResult::cut_off(outcome, took) };
                self.close(&record, end)
            }
            ProcessStage::Trial(mut checks) => {
                if cut_off {
                    self.drop_trial();
                    return Ok(());
                }
                self.note_check(&record, &mut checks, outcome, took, log)?;
                if !checks.is_over() {
                    return self.launch(record, ProcessStage::Trial(checks));
                }
                self.tried(&checks.done)
            }
            ProcessStage::Baseline(mut checks) => {
                if cut_off {
                    return self.close(&record, PendingResult::cut_off(outcome, took));
                }
                self.note_check(&record, &mut checks, outcome, took, log)?;
                if !checks.is_over() {
                    return self.launch(record, ProcessStage::Baseline(checks));
                }
                if checks.done.iter().all(CheckResult::is_green) {
                    return match self.take_as_given(&mut record) {
                        Ok(()) => self.launch(record, ProcessStage::Agent),
                        Err(error) => self.close(&record, PendingResult::not_started(&error)),
                    };
                }
                let evidence = Evidence { verify: checks.done, ..Evidence::default() };
                let outcome = Outcome::NotStarted { error: "baseline broken".to_owned() };
                let end = PendingResult { evidence, ..PendingResult::cut_off(outcome, took) };
                self.close(&record, end)
            }
            ProcessStage::Verify(mut checks, mut end) => {
                if outcome == Outcome::Cancelled && self.is_stopping() {
                    let event = Event::VerifyPostponed { attempt: record.attempt };
                    return self.emit(Some((&record.task_id, record.iteration)), event);
                }
                end.took += took;
                self.note_check(&record, &mut checks, outcome, took, log)?;
                if !checks.is_over() {
                    return self.launch(record, ProcessStage::Verify(checks, end));
                }
                end.evidence.verify = checks.done;
                self.close(&record, *end)
            }
        }
    }

    /// Starts the process with which an attempt begins.
    pub(super) fn launch_first(&mut self, record: AttemptRecord) -> Result<()> {
        let stage = self.first_stage(&record);
        self.launch(record, stage)
    }

    /// What the commands left that ran before the agent is not the attempt's.
    fn take_as_given(&self, record: &mut AttemptRecord) -> Result<()> {
        let tree = record.tree(&self.workspace)?;
        record.dirty = attempt::changed(&self.workspace, &tree)?;
        Ok(())
    }

    /// Runs the verify commands of an attempt whose agent is gone, if its task is done as far as
    /// can be seen without them.
    pub(super) fn verify(&mut self, record: AttemptRecord, end: PendingResult) -> Result<()> {
        let task = self.task_of(&record);
        let rule = self.rule(task.as_ref());
        let commands = task.map_or_else(Vec::new, |task| self.workspace.verify_of(&task));
        let verdict = Verdict::of(&end.outcome, &end.evidence, rule);
        let done = verdict == Verdict::Complete || self.may_commit(verdict);
        if !done || commands.is_empty() {
            return self.close(&record, end);
        }
        self.launch(record, ProcessStage::Verify(Checks::new(commands), Box::new(end)))
    }

    /// The task of an attempt, with the terms that it began with.
    pub(super) fn task_of(&self, record: &AttemptRecord) -> Option<Task> {
        let graph = self.file.graph();
        let task = graph.task(graph.number(&record.task_id)?);
        Some(record.terms.as_ref().map_or_else(|| task.clone(), |terms| terms.applied(task)))
    }

    fn note_check(
        &mut self,
        record: &AttemptRecord,
        checks: &mut Checks,
        outcome: Outcome,
        took: Duration,
        log: Option<String>,
    ) -> Result<()> {
        let check = self.check(checks, outcome, took, log);
        crash::point("verify.ended");
        checks.done.push(check.clone());
        let event =
            if check.is_green() { Event::Verified(check) } else { Event::VerifyFailed(check) };
        self.emit(Some((&record.task_id, record.iteration)), event)
    }

    fn check(
        &self,
        checks: &Checks,
        outcome: Outcome,
        took: Duration,
        log: Option<String>,
    ) -> CheckResult {
        let log = log.unwrap_or_default();
        CheckResult {
            command: checks.current().to_owned(),
            outcome,
            duration_seconds: duration::seconds(took),
            last_line: agent_output::last_line(&self.workspace.root().join(&log)),
            log,
        }
    }

    /// Whether the run is to be over soon, and nothing that takes time is to begin.
    pub(super) fn is_ending(&self) -> bool {
        self.policy.stop.is_some() || self.is_ended_now()
    }

    fn is_stopping(&self) -> bool {
        self.policy.stop.is_some() || self.chronicle.history().run.stop.is_some()
    }
}
