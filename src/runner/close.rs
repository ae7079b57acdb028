//! The end of an attempt, before our eyes or found after a crash: one judgement for both.

use std::time::Duration;

use anyhow::{Context, Result};
use chrono::Utc;

use super::{Runner, seconds};
use crate::{
    attempt::{self, Open},
    crash,
    event::{Cause, Ended, Event},
    graphfile::{Write, rfc3339},
    output,
    task::{CommitRule, Status},
    verdict::{Evidence, Outcome, Verdict},
};

/// What is known of an attempt whose agent is gone.
#[derive(Default)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
    pub(super) swept: Vec<String>,
    pub(super) unlocked: Vec<String>,
    pub(super) evidence: Evidence,
}

impl Runner {
    /// Looks at what an agent has left, in the graph and in git, once all of it is dead.
    pub(super) fn look(
        &mut self,
        record: &Open,
        outcome: Outcome,
        took: Duration,
        swept: Vec<String>,
    ) -> Result<End> {
        let id = &record.task_id;
        crash::point("close.begun");
        let unlocked = record.unlock(&self.workspace);
        crash::point("close.unlocked");
        let records = self.chronicle.catch_up()?;
        self.tell(&records);
        self.settle_graph(record)?;
        // What the agent wrote of its own task holds, also where the rest is undone.
        let said = self.file.graph().number(id).map(|n| self.file.graph().task(n).status);
        self.guard_graph(record)?;
        crash::point("close.settled");
        let by_command = self.chronicle.history().of(id).reported;
        let evidence = attempt::evidence(&self.workspace, record, by_command, said)?;
        Ok(End { outcome, took, swept, unlocked, evidence })
    }

    /// Judges an attempt and puts the judgement on record. The order makes it safe to be killed
    /// anywhere: the graph, the journal, and only then is the record of the attempt removed.
    pub(super) fn close(&mut self, record: &Open, end: End) -> Result<()> {
        let id = &record.task_id;
        let about = (id, record.iteration);
        let End { outcome, took, swept, unlocked, evidence } = end;
        let task = self.file.graph().number(id).map(|number| self.file.graph().task(number));
        let (status, rule) =
            task.map_or((None, CommitRule::Required), |task| (Some(task.status), task.commit));
        let verdict = Verdict::of(&outcome, &evidence, rule);
        let gone = task.is_none();
        let spent = self.chronicle.history().of(id).counted + u32::from(verdict.counts());
        let max = self.file.graph().number(id).map_or(u32::MAX, |n| self.view(&[]).max_attempts(n));
        let parks = verdict.counts() && spent >= max;
        let at = rfc3339(Utc::now());
        crash::point("close.judged");
        match verdict {
            _ if gone => {}
            Verdict::Complete => self.set(about, Write::Complete { at: &at }, Cause::Completed)?,
            _ if parks => self.set(about, Write::Plain(Status::InProgress), Cause::Released)?,
            // A person who blocks or cancels a task while it is worked on has the last word.
            _ if !matches!(
                status,
                Some(Status::InProgress | Status::Complete | Status::Pending)
            ) => {}
            Verdict::NeedsInput => {
                self.set(about, Write::Plain(Status::NeedsInput), Cause::Asked)?;
            }
            _ => self.set(about, Write::Plain(Status::Pending), Cause::Released)?,
        }
        crash::point("close.written");
        let why = verdict.explain(&outcome, &evidence);
        let ended = Ended {
            attempt: record.attempt,
            verdict,
            why: if gone { format!("{why}; the task is no longer in the graph") } else { why },
            outcome,
            duration_seconds: seconds(took),
            evidence,
            last_line: output::last_line(&record.file(&self.workspace, "stdout")).ok().flatten(),
            swept,
            unlocked,
            log: record.log.clone(),
        };
        let event = match verdict {
            Verdict::Complete => Event::Completed(ended),
            Verdict::NeedsInput => Event::NeedsInput(ended),
            _ if verdict.counts() => Event::Failed(ended),
            _ => Event::Interrupted(ended),
        };
        self.emit(Some(about), event)?;
        crash::point("close.told");
        if parks {
            self.emit(Some(about), Event::Parked { attempts: spent })?;
        }
        self.workspace.state.remove_attempt(&record.name()).context("close the attempt")?;
        crash::point("close.removed");
        self.hold(None)
    }

    /// Closes every attempt that an earlier run left open, as if it had ended just now.
    pub(super) fn recover(&mut self) -> Result<()> {
        let (open, damaged) =
            self.workspace.state.attempts::<Open>().context("read open attempts")?;
        for path in damaged {
            let why =
                format!("an attempt's record could not be read; it is kept as {}", path.display());
            self.emit(None, Event::GraphRejected { error: why })?;
        }
        for record in open {
            let swept = record.end_all(&self.workspace);
            crash::point("recover.ended");
            let past = self.chronicle.history().of(&record.task_id);
            let closed =
                past.last.as_ref().is_some_and(|last| last.ended.attempt >= record.attempt);
            if closed {
                crash::point("recover.known");
                self.workspace.state.remove_attempt(&record.name()).context("close the attempt")?;
                continue;
            }
            let recovered =
                Event::Recovered { attempt: record.attempt, from_run: record.run_id.clone() };
            self.emit(Some((&record.task_id, record.iteration)), recovered)?;
            crash::point("recover.told");
            let took = (Utc::now() - record.started_at).to_std().unwrap_or_default();
            let outcome = record.outcome_left(&self.workspace).unwrap_or(Outcome::Interrupted);
            let end = self.look(&record, outcome, took, swept)?;
            self.verify(record, end)?;
        }
        Ok(())
    }
}
