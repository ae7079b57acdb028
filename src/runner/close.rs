//! The end of an attempt, before our eyes or found after a crash: one judgement for both.

use std::{
    mem, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result};
use chrono::Utc;

use super::{Runner, merge};
use crate::{
    adapters::{agent_output, process, terminal},
    core::{
        agents::{promise::Worth, provider_error::ProviderError, transcript::AgentTranscript},
        duration,
        event::{AttemptResult, Cause, Event},
        graph::task::{CommitRule, Status},
        verdict::{Autocommit, Evidence, Merge, Outcome, Rule, Verdict},
    },
    crash,
    project::{
        attempt::{self, AttemptRecord, LEFTOVERS, leftovers, scrutiny},
        graph_file::{Write, rfc3339},
    },
};

/// What is known of an attempt whose agent is gone.
#[derive(Default)]
pub(super) struct PendingResult {
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
    pub(super) swept: Vec<String>,
    pub(super) unlocked: Vec<String>,
    pub(super) evidence: Evidence,
    pub(super) told: AgentTranscript,
}

impl PendingResult {
    /// The end of an attempt that was stopped before its agent began.
    pub(super) fn cut_off(outcome: Outcome, took: Duration) -> PendingResult {
        PendingResult { outcome, took, ..PendingResult::default() }
    }

    /// The end of an attempt that could not begin.
    pub(super) fn not_started(error: &Error) -> PendingResult {
        PendingResult {
            outcome: Outcome::NotStarted { error: format!("{error:#}") },
            ..PendingResult::default()
        }
    }
}

impl Runner {
    /// Looks at what an agent has left, in the graph and in git, once all of it is dead.
    pub(super) fn look(
        &mut self,
        record: &AttemptRecord,
        outcome: Outcome,
        took: Duration,
        swept: Vec<String>,
    ) -> Result<PendingResult> {
        let id = &record.task_id;
        crash::point("close.begun");
        let tree = record.tree(&self.workspace);
        let unlocked = tree.as_ref().map(|tree| record.unlock(tree)).unwrap_or_default();
        crash::point("close.unlocked");
        let records = self.chronicle.catch_up()?;
        self.tell(&records);
        self.close_children(Some(record))?;
        self.settle_graph(record)?;
        // What the agent wrote of its own task holds, also where the rest is undone.
        let said = self.file.graph().number(id).map(|n| self.file.graph().task(n).status);
        let said = self.take_over(record)?.or(said);
        self.guard_graph(record)?;
        crash::point("close.settled");
        let report = self.report(record, said);
        let mut evidence = match tree {
            Ok(tree) => attempt::evidence(&self.workspace, &tree, record, report)?,
            Err(_) => attempt::evidence_of_nothing(record, report),
        };
        let (told, obstacle) = record.told(&self.workspace, &outcome);
        evidence.obstacle = obstacle.map(|obstacle| {
            let name = record.call.as_ref().map_or("", |call| call.name.as_str());
            let earlier = self.chronicle.history().obstacles_before(name, id);
            ProviderError::new(obstacle, earlier, Utc::now())
        });
        Ok(PendingResult { outcome, took, swept, unlocked, evidence, told })
    }

    /// Judges an attempt: one that is good by itself and has something to merge goes on to that.
    pub(super) fn close(&mut self, record: &AttemptRecord, mut end: PendingResult) -> Result<()> {
        let verdict = self.judge(record, &end.outcome, &mut end.evidence)?;
        match merge::target_of(record, &end, verdict) {
            Some(target) => self.enqueue(record, end, target),
            None => self.conclude(record, end),
        }
    }

    /// Lets the git end that a dead run left at work for an attempt, and removes the locks of one that
    /// was killed.
    fn settle_git(&self, record: &AttemptRecord) {
        const PATIENCE: Duration = Duration::from_secs(30);
        let Some(apart) = &record.apart else {
            return;
        };
        let began = Instant::now();
        while process::works_in("git", &apart.tree) && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        record.unlock(&self.workspace.repo);
    }

    /// Puts the judgement on record when nothing of the attempt is left to be done. The order makes it
    /// safe to be killed anywhere: the graph, the journal, and only then is the record removed.
    pub(super) fn conclude(&mut self, record: &AttemptRecord, end: PendingResult) -> Result<()> {
        let id = &record.task_id;
        let about = (id, record.iteration);
        let PendingResult { outcome, took, swept, unlocked, mut evidence, told } = end;
        let task = self.file.graph().number(id).map(|number| self.file.graph().task(number));
        let status = task.map(|task| task.status);
        let verdict = Verdict::of(&outcome, &evidence, self.rule(self.task_of(record).as_ref()));
        let (pinned, unpinned) = self.keep(record, verdict, &evidence)?;
        let gone = task.is_none();
        let spent = self.chronicle.history().of(id).counted + u32::from(verdict.counts());
        let max = self.file.graph().number(id).map_or(u32::MAX, |n| self.view(&[]).max_attempts(n));
        let parks = verdict == Verdict::SetupFailed || (verdict.counts() && spent >= max);
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
        let word = told.end.map(|end| end.text).filter(|text| !text.trim().is_empty());
        let promised = word
            .as_deref()
            .or(told.last_line.as_deref())
            .is_some_and(|result| self.workspace.config.promise().is_made(result));
        // In a plain loop it is a report.
        let promised = promised && self.plain().is_none();
        let last_line =
            word.or(told.message).and_then(|text| last_said(record, &text)).or(told.last_line);
        evidence.leftovers.truncate(LEFTOVERS);
        let believed = verdict == Verdict::Complete || evidence.report.is_none();
        let ended = AttemptResult {
            attempt: record.attempt,
            verdict,
            why: if gone { format!("{why}; the task is no longer in the graph") } else { why },
            outcome,
            duration_seconds: duration::seconds(took),
            evidence,
            agent: record.call.as_ref().map(|call| call.name.clone()),
            usage: told.usage,
            tools: told.tools,
            last_line,
            swept,
            unlocked,
            pinned,
            unpinned,
            log: record.log.clone(),
        };
        let judged = self.put_on_record(Some(about), Event::of_end(ended))?;
        crash::point("close.told");
        if promised {
            let trusted = self.workspace.config.promise == Worth::Trust;
            let kept = trusted || self.remaining() == 0;
            self.emit(Some(about), Event::Promised { attempt: record.attempt, kept })?;
        }
        if parks {
            self.emit(Some(about), Event::Parked { attempts: spent })?;
        }
        self.let_go(record, verdict, believed)?;
        crash::point("close.removed");
        self.hold(None).and_then(|()| self.after_attempt(&judged, &record.log))
    }

    /// Keeps what an attempt left: the ref, and what could not be kept. Of one that is complete and had
    /// a work tree to itself that is what is not in the target branch as it is: commits that were
    /// rebased or squashed, and what verify commands left.
    fn keep(
        &self,
        record: &AttemptRecord,
        verdict: Verdict,
        evidence: &Evidence,
    ) -> Result<(Option<String>, Vec<String>)> {
        let nothing = (None, Vec::new());
        let is_complete = verdict == Verdict::Complete;
        let without_agent = matches!(verdict, Verdict::BaselineBroken | Verdict::SetupFailed);
        if record.apart.is_none() && (is_complete || without_agent) {
            return Ok(nothing);
        }
        let tree = match record.tree(&self.workspace) {
            Ok(tree) => tree,
            Err(_) if is_complete => return Ok(nothing),
            Err(error) => return Ok((None, vec![format!("{error:#}")])),
        };
        if !is_complete || !tree.dirty()?.is_empty() {
            return Ok(leftovers::pin(&self.workspace, &tree, record));
        }
        let Some(Merge::Landed { branch, .. }) = &evidence.merge else {
            return Ok(nothing);
        };
        let (Some(head), Some(tip)) = (tree.head()?.commit, self.tip(branch)?) else {
            return Ok(nothing);
        };
        if self.workspace.repo.is_ancestor(&head, &tip)? {
            return Ok(nothing);
        }
        let place = &self.workspace.place;
        let name = leftovers::pin_name(place, &record.task_id, record.attempt);
        self.workspace.repo.keep(&name, &head)?;
        Ok((Some(name), Vec::new()))
    }

    /// Removes what there is of an attempt that is on record as closed, and a report of it that was
    /// not believed.
    fn let_go(&mut self, record: &AttemptRecord, verdict: Verdict, believed: bool) -> Result<()> {
        self.release(record, verdict)?;
        if !believed {
            self.take_back_done(record)?;
        }
        record.forget(&self.workspace)
    }

    /// What the attempt comes to. Work that was reported done, verified and is not committed is
    /// committed first.
    fn judge(
        &self,
        record: &AttemptRecord,
        outcome: &Outcome,
        evidence: &mut Evidence,
    ) -> Result<Verdict> {
        let workspace = &self.workspace;
        let task = self.task_of(record);
        let rule = self.rule(task.as_ref());
        let verdict = Verdict::of(outcome, evidence, rule);
        let Some(task) = task else {
            return Ok(verdict);
        };
        let Ok(tree) = record.tree(workspace) else {
            return Ok(verdict);
        };
        if self.may_commit(verdict) && !evidence.leftovers.is_empty() {
            let limit = workspace.config.commit_timeout;
            let left = mem::take(&mut evidence.leftovers);
            let autocommit =
                leftovers::commit(workspace, &tree, record, &left, &task.title, limit)?;
            let mut now = attempt::evidence(workspace, &tree, record, evidence.report)?;
            // What a verify command has left since is not the attempt's.
            now.leftovers.retain(|path| left.binary_search(path).is_ok());
            let verify = mem::take(&mut evidence.verify);
            *evidence = Evidence { autocommit, verify, obstacle: evidence.obstacle, ..now };
        } else if verdict == Verdict::Complete
            && rule == Rule::Task(CommitRule::Required)
            && !evidence.leftovers.is_empty()
        {
            evidence.autocommit = Some(Autocommit::Off);
        }
        scrutiny::look_closer(workspace, &tree, record, &task, evidence)?;
        Ok(Verdict::of(outcome, evidence, rule))
    }

    /// Whether what is left of an attempt that is judged so is committed for it.
    pub(super) fn may_commit(&self, verdict: Verdict) -> bool {
        let is_done = matches!(verdict, Verdict::Complete | Verdict::Uncommitted);
        is_done && self.workspace.config.autocommit && self.plain().is_none()
    }

    /// Closes every attempt that an earlier run left open, as if it had ended just now.
    pub(super) fn recover(&mut self) -> Result<()> {
        let (open, damaged) =
            self.workspace.state.attempts::<AttemptRecord>().context("read open attempts")?;
        for path in damaged {
            self.emit(None, Event::RecordDamaged { kept: path.display().to_string() })?;
        }
        let mut ended = Vec::new();
        for record in open {
            let swept = record.end_all(&self.workspace);
            crash::point("recover.ended");
            ended.push((record, swept));
        }
        // Before anything of git is looked at, and when nothing of ours is at work with it.
        for (record, _) in &ended {
            self.settle_git(record);
        }
        for (record, swept) in ended {
            let past = self.chronicle.history().of(&record.task_id);
            let last = past.last.as_ref().filter(|last| last.ended.attempt >= record.attempt);
            if let Some(last) = last {
                let AttemptResult { verdict, evidence, .. } = &last.ended;
                let believed = *verdict == Verdict::Complete || evidence.report.is_none();
                crash::point("recover.known");
                let verdict = *verdict;
                self.let_go(&record, verdict, believed)?;
                continue;
            }
            let recovered =
                Event::Recovered { attempt: record.attempt, from_run: record.run_id.clone() };
            self.emit(Some((&record.task_id, record.iteration)), recovered)?;
            crash::point("recover.told");
            let took = (Utc::now() - record.started_at).to_std().unwrap_or_default();
            let outcome = record.outcome_left(&self.workspace).unwrap_or(Outcome::Interrupted);
            let merge = self.has_landed(&record)?;
            let mut end = self.look(&record, outcome, took, swept)?;
            if merge.is_some() {
                end.evidence.merge = merge;
                self.conclude(&record, end)?;
                continue;
            }
            self.verify(record, end)?;
        }
        self.close_children(None)
    }
}

/// The last line of what an agent said. On a terminal, what paints it is no part of it.
fn last_said(record: &AttemptRecord, text: &str) -> Option<String> {
    agent_output::last_of(&if record.pane.is_some() { terminal::plain(text) } else { text.into() })
}
