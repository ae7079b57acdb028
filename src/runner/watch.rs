//! What runs: its limits, its signs of life, and how it is ended.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::{Runner, children::ChildrenWait, verify::ProcessStage};
use crate::{
    adapters::{
        agent_output::Follow,
        process::{self, AgentProcess, Closed},
        terminal,
    },
    core::{duration, event::Event, verdict::Outcome},
    project::attempt::{self, AttemptRecord},
};

/// An attempt that goes on: its agent runs, or one of its verify commands.
pub(super) struct RunningAttempt {
    pub(super) record: AttemptRecord,
    pub(super) stage: ProcessStage,
    pub(super) agent: AgentProcess,
    pub(super) started: Instant,
    pub(super) limit: Duration,
    pub(super) idle: Option<Duration>,
    /// When it is ended because the run was asked to stop.
    pub(super) cancel_at: Option<Instant>,
    /// What its process prints.
    pub(super) output: Follow,
    /// What it was last said to do.
    pub(super) doing: Option<String>,
    /// When it is ended because it gave its final result, and whether tasks of its own still ran.
    pub(super) exit_by: Option<(Instant, bool)>,
    /// HEAD and what was changed when it was last looked at for signs of life.
    pub(super) seen: (Option<String>, BTreeMap<String, String>),
    /// Why we are ending it, and when it will be killed.
    pub(super) ending: Option<(Outcome, Instant)>,
    /// What it reported its task done and left running.
    pub(super) children: Option<ChildrenWait>,
}

impl RunningAttempt {
    /// How long until something has to be done about it.
    pub(super) fn patience(&self) -> Duration {
        let until = |at: Instant| at.saturating_duration_since(Instant::now());
        if let Some((_, kill_at)) = self.ending {
            return until(kill_at);
        }
        let limit = self.limit.saturating_sub(self.started.elapsed());
        let exit_by = self.exit_by.map(|(at, _)| at);
        let children = self.children.as_ref().and_then(ChildrenWait::due);
        let others = self.cancel_at.into_iter().chain(exit_by).chain(children);
        others.fold(limit, |limit, at| limit.min(until(at)))
    }

    /// Puts every limit off: it stood still for so long.
    pub(super) fn postpone(&mut self, length: Duration) {
        self.started += length;
        if let Some(children) = &mut self.children {
            children.postpone(length);
        }
        let exit_by = self.exit_by.as_mut().map(|(at, _)| at);
        let ending = self.ending.as_mut().map(|(_, at)| at);
        for at in self.cancel_at.iter_mut().chain(exit_by).chain(ending) {
            *at += length;
        }
    }

    /// Reads on what it prints: what it does now, if that is news, and whether it should exit.
    pub(super) fn follow(&mut self, exit_grace: Duration) -> Option<&str> {
        /// For as long Claude Code waits for tasks of its own that it left in the background; it
        /// ends them itself after ten minutes.
        const BACKGROUND: Duration = Duration::from_secs(5 * 60);
        let told = self.output.look();
        self.exit_by = told.filter(|told| told.is_over).map(|told| {
            let busy = told.background > 0;
            let grace = if busy { BACKGROUND.max(exit_grace) } else { exit_grace };
            let same = self.exit_by.filter(|(_, before)| *before == busy);
            same.unwrap_or((Instant::now() + grace, busy))
        });
        let mut doing = self.output.doing();
        if self.record.pane.is_some() {
            doing = doing.map(|doing| terminal::plain(&doing).into_owned());
        }
        if self.doing == doing {
            return None;
        }
        self.doing = doing;
        self.doing.as_deref()
    }

    pub(super) fn end(&mut self, outcome: Outcome, grace: Duration) {
        self.agent.terminate();
        self.ending = Some((outcome, Instant::now() + grace));
    }
}

impl Runner {
    /// Ends what a guardian that was killed could not: the names, and how many would not die.
    pub(super) fn end_unguarded(&self, record: &AttemptRecord) -> (Vec<String>, usize) {
        let mut ended = record.end_all(&self.workspace);
        let others = !self.running.is_empty() || !self.trees.preparing.is_empty();
        if others || self.queue.is_trying() || self.spared {
            return (ended, 0);
        }
        // All that it guarded are children of ours now, marked or not, and no git of ours runs here.
        let (swept, immortal) = process::sweep(None);
        ended.extend(swept.into_iter().map(|member| member.name));
        (ended, immortal)
    }

    pub(super) fn ended(&mut self, name: &str, closed: Closed) -> Result<()> {
        let Some(at) = self.running.iter().position(|running| running.record.name() == name) else {
            return Ok(());
        };
        let running = self.running.remove(at);
        self.note_end_of_children(&running, &closed)?;
        let mut closed = closed;
        if closed.outcome.is_none() {
            (closed.swept, closed.immortal) = self.end_unguarded(&running.record);
        }
        // What we did to it says more than how it died of it.
        let outcome = running.ending.map(|(ours, _)| ours).or(closed.outcome);
        let outcome = outcome.unwrap_or(Outcome::Interrupted);
        let (record, took) = (running.record, running.started.elapsed());
        // Nothing begins beside what is left of the last one.
        ensure!(
            closed.immortal == 0,
            "processes of attempt {} at `{}` would not die ({}); look at them with `ps`, then run again",
            record.attempt,
            record.task_id,
            closed.immortal,
        );
        self.passed(record, running.stage, outcome, took, closed.swept)
    }

    /// Its guardian sees no sign of life. A file that has changed since the last look is one.
    pub(super) fn idle(&mut self, name: &str) -> Result<()> {
        let named = |running: &RunningAttempt| running.record.name() == name;
        let Some(at) = self.running.iter().position(named) else {
            return Ok(());
        };
        let Some(limit) = self.running[at].idle else {
            return Ok(());
        };
        let seen = match self.running[at].record.tree(&self.workspace) {
            Ok(tree) => {
                (tree.head()?.commit.map(String::from), attempt::changed(&self.workspace, &tree)?)
            }
            // Without a work tree there are no signs of life in it.
            Err(_) => self.running[at].seen.clone(),
        };
        let running = &mut self.running[at];
        if running.ending.is_some() {
            return Ok(());
        }
        if running.seen != seen {
            running.seen = seen;
            running.agent.awake();
            return Ok(());
        }
        running.end(Outcome::Idle { limit_seconds: limit.as_secs() }, self.workspace.config.grace);
        let record = running.record.clone();
        let why = format!("it did nothing for {}", duration::short(limit));
        let event = Event::Terminating { attempt: record.attempt, why };
        self.emit(Some((&record.task_id, record.iteration)), event)
    }

    /// Ends what is past its limit, kills what is past its grace.
    pub(super) fn enforce(&mut self) -> Result<()> {
        let mut reached = Vec::new();
        for running in &mut self.running {
            match &running.ending {
                Some((_, kill_at)) if Instant::now() >= *kill_at => {
                    running.agent.kill();
                    running.ending.as_mut().expect("just matched").1 += Duration::from_secs(1);
                }
                None if running.started.elapsed() >= running.limit => {
                    let limit_seconds = running.limit.as_secs();
                    running.end(Outcome::TimedOut { limit_seconds }, self.workspace.config.grace);
                    let limit = duration::short(running.limit);
                    reached
                        .push((running.record.clone(), format!("its limit of {limit} is reached")));
                }
                None if running.exit_by.is_some_and(|(at, _)| Instant::now() >= at) => {
                    let limit_seconds = self.workspace.config.exit_grace.as_secs();
                    running.end(Outcome::Lingered { limit_seconds }, self.workspace.config.grace);
                    let why = "it gave its final result and did not exit".to_owned();
                    reached.push((running.record.clone(), why));
                }
                None if running.cancel_at.is_some_and(|at| Instant::now() >= at) => {
                    running.end(Outcome::Cancelled, self.workspace.config.grace);
                    let grace = duration::short(self.workspace.config.term_grace);
                    reached.push((running.record.clone(), format!("its grace of {grace} is over")));
                }
                _ => {}
            }
        }
        for (record, why) in reached {
            let event = Event::Terminating { attempt: record.attempt, why };
            self.emit(Some((&record.task_id, record.iteration)), event)?;
        }
        self.enforce_wait()
    }
}
