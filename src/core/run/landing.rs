//! Landing: the merge queue of a run, which verifies work where it will land.
//!
//! Queued work is tried in trials, each on top of the one before and the first on the tip of the
//! target branch, many at once. They land in order. One that fails leaves the queue, and those that
//! were on top of it are tried again without it; why it failed is a question, answered beside the
//! queue. Where verify commands run one at a time, a trial combines several pieces of work, and is
//! split if it fails.

mod question;
mod trial;
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use super::{
    Situation,
    command::{AttemptId, LandingCommand, RunCommand, TrialRun},
    input::{BuiltBatch, LandOutcome},
    verified_batch::{CheckedCommand, Unproven, VerifiedBatch, VerifyRun},
};
use crate::{
    commit_id::CommitId,
    event::{CheckEvent, Held, LandingEvent},
    isolation::free_number,
    verdict::{CheckResult, Merge},
    whole::ProvenTip,
};
use question::{Known, Question};
pub(super) use trial::{EndedLanding, LandingNext, QueuedWork, TrialChecks};
use trial::{QueueTrial, TrialStage, batch_of, emit, ended, landings, required};

/// The most pieces of work in one trial.
const BATCH: usize = 16;

/// The pause before another step after one that failed.
const RETRY: Duration = Duration::from_secs(10);

/// The merge queue of a run.
#[derive(Clone, Debug, Default)]
pub struct LandingQueue {
    /// In order: each is on top of the one before it.
    trials: Vec<QueueTrial>,
    waiting: VecDeque<QueuedWork>,
    /// The number of entries at the front of `waiting` that fail together on the current tip, and the
    /// command that fails with them.
    suspects: Option<(usize, String)>,
    /// The trials whose result no longer counts, until their command has ended.
    ending: Vec<QueueTrial>,
    /// The work whose verify command failed, until it is known why.
    questions: Vec<Question>,
    /// What is known of commits.
    known: Known,
    /// The tip of the last trial, if its commands did not run on the batch.
    strayed: Option<CommitId>,
    /// What blocked landing at the last step.
    held: Option<Held>,
    /// The last such reason that was journalled, until something lands.
    told: Option<Held>,
    /// Whether only queued work was left at the last step, and is since then.
    is_last_step: bool,
    /// When the next step is due.
    again: Option<Instant>,
    /// What passed on the commit that landed last.
    proven: Option<ProvenTip>,
}

/// How trials are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// How many trials are verified at once.
    pub width: usize,
    /// Whether a trial combines several pieces of work.
    pub batches: bool,
}

impl LandingQueue {
    fn all(&self) -> impl Iterator<Item = &QueuedWork> {
        let tried = self.trials.iter().chain(&self.ending).flat_map(|trial| &trial.members);
        tried.chain(self.questions.iter().map(|question| &question.work)).chain(&self.waiting)
    }

    /// The attempts that are queued, in order.
    pub fn queued(&self) -> impl Iterator<Item = &AttemptId> {
        self.all().map(|work| &work.id)
    }

    /// Gives the work for a branch that was renamed its new name. Nothing is being tried.
    pub(super) fn rename_branch(&mut self, from: &str, to: &str) {
        self.dissolve(0);
        let asked = self.questions.iter_mut().map(|question| &mut question.work);
        let targets = self.waiting.iter_mut().chain(asked).map(|work| &mut work.target);
        targets.filter(|target| *target == from).for_each(|target| to.clone_into(target));
    }

    /// Whether anything of it runs: a command, or a step of git.
    pub fn is_trying(&self) -> bool {
        let has_passed = |trial: &QueueTrial| matches!(trial.stage, TrialStage::Passed(_));
        !self.trials.iter().all(has_passed)
            || !self.ending.is_empty()
            || self.questions.iter().any(Question::is_running)
    }

    /// Whether it is not known if anything passes on the branch: nothing has in this run, or a command
    /// runs there without the work that it failed on.
    pub fn is_unsure(&self) -> bool {
        self.known.is_empty() || self.questions.iter().any(Question::is_on_base)
    }

    /// The slots in use, each with the attempt whose commands run there.
    fn slots(&self) -> impl Iterator<Item = (&AttemptId, usize)> {
        let trials = self.trials.iter().chain(&self.ending).map(|it| (&it.leader().id, it.slot));
        trials.chain(self.questions.iter().map(|it| (&it.work.id, it.slot)))
    }

    /// The number of the slot in which the work of an attempt is tried.
    pub fn slot_of(&self, id: &AttemptId) -> usize {
        self.slots().find(|(of, _)| *of == id).map_or(0, |(_, slot)| slot)
    }

    /// The target branch of the next step, if a step is due. `is_alone` says whether only queued
    /// work is left.
    pub(super) fn due(&mut self, is_alone: bool, sit: &Situation<'_>) -> Option<&str> {
        self.is_last_step &= is_alone;
        // What blocked landing before may be gone, and the run is about to stop because of it.
        let is_stale = is_alone && self.held().is_some() && !self.is_last_step;
        if !is_stale && self.again.is_some_and(|at| at > sit.now) {
            return None;
        }
        let is_due = match self.trials.first().map(|trial| &trial.stage) {
            Some(TrialStage::Landing(_)) => false,
            Some(TrialStage::Passed(_)) => true,
            Some(TrialStage::Building | TrialStage::Verifying { .. }) | None => {
                self.answerable().is_some() || self.next(sit.queue).is_some()
            }
        };
        self.all().next().filter(|_| is_due).map(|work| work.target.as_str())
    }

    /// The time until the next step is due.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.again.map(|at| at.saturating_duration_since(now))
    }

    /// What blocks all landing, while work is queued and none is being tried.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref().filter(|_| !self.is_trying() && !self.waiting.is_empty())
    }

    /// What passed on the commit that landed last in this run.
    pub fn proven(&self) -> Option<&ProvenTip> {
        self.proven.as_ref()
    }

    /// Queues work at the end; returns how many are queued.
    pub(super) fn push(&mut self, work: QueuedWork) -> usize {
        self.waiting.push_back(work);
        self.all().count()
    }

    /// Puts work back to the front, in its order.
    fn put_back(&mut self, members: Vec<QueuedWork>) {
        members.into_iter().rev().for_each(|work| self.waiting.push_front(work));
    }

    /// Whether work is being combined somewhere.
    fn is_building(&self) -> bool {
        let mut trials = self.trials.iter().chain(&self.ending);
        trials.any(QueueTrial::is_building) || self.questions.iter().any(Question::is_building)
    }

    /// The first entry of `waiting` to try next and how many from there, if a trial may begin.
    fn next(&self, limits: QueueLimits) -> Option<(usize, usize)> {
        let is_verifying =
            |trial: &&QueueTrial| matches!(trial.stage, TrialStage::Verifying { .. });
        let is_full = if limits.batches {
            !self.trials.is_empty()
        } else {
            self.trials.iter().filter(is_verifying).count() >= limits.width
        };
        if is_full || self.is_building() {
            return None;
        }
        let ahead: BTreeSet<&AttemptId> =
            self.trials.iter().flat_map(|trial| &trial.members).map(|work| &work.id).collect();
        let branch = self.trials.first().map(|trial| &trial.leader().target);
        let may = |work: &QueuedWork| {
            branch.is_none_or(|branch| *branch == work.target)
                && work.after.iter().all(|id| !ahead.contains(id))
        };
        let first = self.waiting.iter().position(may)?;
        let most = match &self.suspects {
            _ if !limits.batches => 1,
            None => BATCH,
            Some((suspects, _)) => (suspects / 2).max(1),
        };
        let target = &self.waiting[first].target;
        let rest = self.waiting.range(first..).take(most);
        Some((first, rest.take_while(|work| work.target == *target && may(work)).count()))
    }

    /// Takes the next step, with the work on top of `tip`; `is_alone` as in
    /// [`due`](LandingQueue::due).
    pub(super) fn step(
        &mut self,
        tip: Option<&CommitId>,
        is_alone: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        (self.again, self.held, self.is_last_step) = (None, None, is_alone);
        let Some(branch) = self.all().next().map(|work| work.target.clone()) else {
            return LandingNext::default();
        };
        let Some(tip) = tip else { return self.hold(Held::gone(&branch), sit).into() };
        let mut next = LandingNext::default();
        if self.trials.first().is_some_and(|trial| trial.onto != *tip) {
            // Others have moved the branch: what failed may pass now.
            next.cancel = self.dissolve(0);
            self.suspects = None;
        }
        if matches!(self.trials.first(), Some(QueueTrial { stage: TrialStage::Passed(_), .. })) {
            return next.and(self.land().into());
        }
        if let Some(at) = self.answerable() {
            return next.and(self.answer(at, tip));
        }
        if let Some((first, count)) = self.next(sit.queue) {
            next.commands.extend(self.build(first, count, tip, sit));
        }
        next
    }

    /// Ends the trials from this one on, whose results no longer count. Returns the attempts whose
    /// command is to be ended.
    fn dissolve(&mut self, from: usize) -> Vec<AttemptId> {
        let (mut back, mut cancel) = (Vec::new(), Vec::new());
        for trial in self.trials.drain(from..) {
            match &trial.stage {
                TrialStage::Building => self.ending.push(trial),
                TrialStage::Verifying { .. } => {
                    cancel.push(trial.leader().id.clone());
                    self.ending.push(trial);
                }
                TrialStage::Passed(_) | TrialStage::Landing(_) => back.extend(trial.members),
            }
        }
        self.put_back(back);
        cancel
    }

    /// Notes that what a trial did has ended whose result no longer counts. Whether this was one.
    pub(super) fn has_ended(&mut self, leader: &AttemptId) -> bool {
        let at = self.ending.iter().position(|trial| trial.leader().id == *leader);
        let ended = at.map(|at| self.ending.remove(at));
        let is_one = ended.is_some();
        self.put_back(ended.map_or_else(Vec::new, |trial| trial.members));
        is_one
    }

    /// Returns the commands that build a trial of waiting entries on the last trial or the tip.
    fn build(
        &mut self,
        first: usize,
        count: usize,
        tip: &CommitId,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let onto = self.trials.last().and_then(QueueTrial::tip).unwrap_or(tip).clone();
        let slot = free_number(self.slots().map(|(_, slot)| slot));
        let members: Vec<QueuedWork> = self.waiting.drain(first..first + count).collect();
        let merging = emit(&members[0], LandingEvent::Merging(batch_of(&members, &onto)));
        let ids = members.iter().map(|work| work.id.clone()).collect();
        let (stage, began) = (TrialStage::Building, sit.now);
        self.trials.push(QueueTrial { members, onto: onto.clone(), slot, began, stage });
        vec![merging, LandingCommand::Build { onto, members: ids, slot }.into()]
    }

    /// Handles what was built for the trial of an attempt. `lands` says whether it can still land.
    pub(super) fn built(
        &mut self,
        leader: &AttemptId,
        built: Result<BuiltBatch, String>,
        lands: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        if self.has_ended(leader) {
            return LandingNext::default();
        }
        let Some(at) = self.trials.iter().position(|it| it.leader().id == *leader) else {
            return self.built_base(leader, built, lands, sit);
        };
        let branch = self.trials[at].leader().target.clone();
        let built = match built {
            Ok(built) => built,
            Err(why) => {
                let next = self.back(at);
                return next.and(self.hold(Held { branch, why }, sit).into());
            }
        };
        let BuiltBatch { commits, conflict, refused, changed, is_set_up } = built;
        let trial = &mut self.trials[at];
        let rest = trial.members.split_off(commits.len().max(1));
        if commits.is_empty() {
            let QueueTrial { mut members, onto, .. } = self.trials.remove(at);
            self.put_back(rest);
            let Some(mut work) = members.pop() else { return LandingNext::default() };
            if at > 0 {
                // What is ahead may not land.
                let ahead = self.trials.iter().flat_map(|trial| &trial.members);
                work.after = ahead.map(|work| work.id.clone()).collect();
                self.put_back(vec![work]);
                return LandingNext::default();
            }
            self.suspects = None;
            let merge = match refused {
                Some(why) => Merge::Refused { branch, why },
                None => Merge::Conflict { branch, onto, paths: conflict.unwrap_or_default() },
            };
            return ended(work, merge, Vec::new());
        }
        let mut required = required(&trial.members, is_set_up);
        if let Some((_, command)) = self.suspects.iter().find(|(_, it)| !required.contains(it)) {
            required.push(command.clone());
        }
        trial.stage = TrialStage::Verifying { commits, changed, required: required.clone() };
        self.put_back(rest);
        if required.is_empty() {
            return self.verified(leader, Some(Vec::new()), false, sit);
        }
        if !lands {
            return self.back(at);
        }
        let id = leader.clone();
        TrialChecks { id, run: TrialRun::First, commands: required, alone: false }.into()
    }

    /// Handles the results of verify commands that ran as those of an attempt, beside others if it
    /// `crowded`. None means that they were interrupted.
    pub(super) fn verified(
        &mut self,
        leader: &AttemptId,
        commands: Option<Vec<CheckedCommand>>,
        crowded: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        if self.has_ended(leader) {
            return LandingNext::default();
        }
        let Some(at) = self.trials.iter().position(|it| it.leader().id == *leader) else {
            return self.questioned(leader, commands);
        };
        let QueueTrial { onto, began, stage, .. } = self.trials[at].clone();
        let branch = self.trials[at].leader().target.clone();
        let (Some(commands), TrialStage::Verifying { commits, changed, required }) =
            (commands, stage)
        else {
            return self.back(at);
        };
        let run = VerifyRun { changed, commands };
        match VerifiedBatch::new(&branch, &onto, &commits, &required, &run) {
            Ok(batch) => {
                self.known.passed(batch.tip(), batch.required());
                self.trials[at].stage = TrialStage::Passed(batch);
                LandingNext::default()
            }
            Err(Unproven::Red(check)) => self.red(at, *check, crowded),
            // It is no verdict on the work. The next trial starts from a clean worktree.
            Err(Unproven::Strayed(why)) => {
                let mut next = self.back(at);
                if self.strayed.replace(onto.clone()) != Some(onto) {
                    return next;
                }
                next.commands.extend(self.hold(Held { branch, why }, sit));
                // Verify commands can take long.
                self.again = self.again.max(Some(sit.now + (sit.now - began)));
                next
            }
        }
    }

    /// Ends a trial without a result, and those on top of it: all are tried again.
    fn back(&mut self, at: usize) -> LandingNext {
        let cancel = self.dissolve(at + 1);
        let members = self.trials.remove(at).members;
        self.put_back(members);
        LandingNext { cancel, ..LandingNext::default() }
    }

    /// Handles a trial that fails. Those on top of it are tried again without it.
    fn red(&mut self, at: usize, mut check: CheckResult, crowded: bool) -> LandingNext {
        // The next trial under the same attempt writes to the same file.
        let from = check.log.clone();
        check.log = check.log.replace("/merge-", "/red-merge-");
        let mut commands = vec![LandingCommand::KeepLog { from, to: check.log.clone() }.into()];
        let cancel = self.dissolve(at + 1);
        let trial = self.trials.remove(at);
        commands.push(emit(trial.leader(), CheckEvent::VerifyFailed(check.clone())));
        (self.strayed, self.suspects) = (None, None);
        if let count @ 2.. = trial.members.len() {
            let split = LandingEvent::Split(batch_of(&trial.members, &trial.onto));
            commands.push(emit(trial.leader(), split));
            self.suspects = Some((count, check.command));
            self.put_back(trial.members);
            return LandingNext { commands, cancel, ..LandingNext::default() };
        }
        let next = LandingNext { commands, cancel, ..LandingNext::default() };
        next.and(self.ask(trial, check, crowded))
    }

    /// Moves the tip to the first trial, after the records contain the commits that are about to land.
    fn land(&mut self) -> Vec<RunCommand> {
        self.strayed = None;
        let Some(QueueTrial { members, stage, slot, .. }) = self.trials.first_mut() else {
            return Vec::new();
        };
        let TrialStage::Passed(batch) = stage.clone() else { return Vec::new() };
        *stage = TrialStage::Landing(batch.clone());
        let landings = landings(members, &batch, false).into_iter();
        let record = landings.map(|EndedLanding { id, landing }| {
            LandingCommand::Record(id, Box::new(landing)).into()
        });
        let mut commands: Vec<RunCommand> = record.collect();
        commands.push(LandingCommand::Land { batch, slot: *slot }.into());
        commands
    }

    /// Handles the result of moving the tip.
    pub(super) fn landed(
        &mut self,
        landed: Result<LandOutcome, String>,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let Some(QueueTrial { stage: TrialStage::Landing(batch), .. }) = self.trials.first() else {
            return LandingNext::default();
        };
        let batch = batch.clone();
        match landed {
            Ok(LandOutcome::Landed { waits }) => self.has_landed(&batch, waits),
            Ok(LandOutcome::Moved) => {
                self.suspects = None;
                LandingNext { cancel: self.dissolve(0), ..LandingNext::default() }
            }
            Err(why) => {
                let cancel = self.dissolve(0);
                let held = Held { branch: batch.branch().to_owned(), why };
                LandingNext { cancel, ..self.hold(held, sit).into() }
            }
        }
    }

    fn has_landed(&mut self, batch: &VerifiedBatch, waits: bool) -> LandingNext {
        self.told = None;
        let members = self.trials.remove(0).members;
        // The remaining suspects fail on the new tip too: together it is the same batch.
        let suspects = self.suspects.take();
        let left = suspects.map(|(count, it)| (count.saturating_sub(members.len()), it));
        self.suspects = left.filter(|(count, _)| *count > 0);
        self.proven = members.first().map(|leader| ProvenTip {
            commit: batch.tip().clone(),
            task_id: leader.id.task_id.clone(),
            commands: batch.required().to_vec(),
        });
        let ended = landings(&members, batch, waits);
        LandingNext { ended, ..LandingNext::default() }
    }

    /// Pauses landing, and journals each new reason once.
    fn hold(&mut self, held: Held, sit: &Situation<'_>) -> Vec<RunCommand> {
        self.again = Some(sit.now + RETRY);
        self.held = Some(held.clone());
        if self.told.replace(held.clone()).as_ref() == Some(&held) {
            return Vec::new();
        }
        vec![RunCommand::Emit(None, Box::new(LandingEvent::MergeHeld(held).into()))]
    }
}
