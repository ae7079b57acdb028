//! Landing: the merge queue of a run, which verifies work where it will land.
//!
//! Queued work is tried in trials, each on top of the one before and the first on the tip of the
//! target branch, many at once. They land in order. A failed trial leaves the queue, and those that
//! were on top of it are tried again without it; why it failed is a question, answered outside the
//! queue.

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
    input::{BuiltTrial, LandOutcome},
    verified_work::{CheckedCommand, Unproven, VerifiedWork, VerifyRun},
};
use crate::{
    commit_id::CommitId,
    event::{Batch, CheckEvent, Held, LandingEvent},
    verdict::{CheckResult, Merge},
    whole::ProvenTip,
};
use question::{Known, Question};
pub(super) use trial::{EndedLanding, LandingNext, QueuedWork, TrialChecks};
use trial::{QueueTrial, TrialStage, emit, ended, landing, required};

/// The pause after a failed step.
const RETRY: Duration = Duration::from_secs(10);

/// The merge queue of a run.
#[derive(Clone, Debug, Default)]
pub struct LandingQueue {
    /// In order: each is on top of the one before it.
    trials: Vec<QueueTrial>,
    waiting: VecDeque<QueuedWork>,
    /// The trials whose result no longer counts, until their command has ended.
    ending: Vec<QueueTrial>,
    /// The work whose verify command failed, until it is known why.
    questions: Vec<Question>,
    /// The known results on commits.
    known: Known,
    /// The tip of the last trial, if its commands did not run on its work.
    strayed: Option<CommitId>,
    /// The reason that blocked landing at the last step.
    held: Option<Held>,
    /// The last reason that was journalled, until work lands.
    told: Option<Held>,
    /// Whether only queued work was left at the last step, and is since then.
    is_last_step: bool,
    /// When the next step is due.
    again: Option<Instant>,
    /// The commands that passed on the commit that landed last.
    proven: Option<ProvenTip>,
}

/// The lowest number of a slot that is not taken.
pub fn free_number(taken: impl IntoIterator<Item = usize>) -> usize {
    let taken: BTreeSet<usize> = taken.into_iter().collect();
    (0..=taken.len()).find(|number| !taken.contains(number)).unwrap_or_default()
}

impl LandingQueue {
    fn all(&self) -> impl Iterator<Item = &QueuedWork> {
        let tried = self.trials.iter().chain(&self.ending).map(|trial| &trial.work);
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
        let trials = self.trials.iter().chain(&self.ending).map(|it| (&it.work.id, it.slot));
        trials.chain(self.questions.iter().map(|it| (&it.work.id, it.slot)))
    }

    /// The number of the trial slot of an attempt.
    pub fn slot_of(&self, id: &AttemptId) -> usize {
        self.slots().find(|(of, _)| *of == id).map_or(0, |(_, slot)| slot)
    }

    /// The target branch of the next step, if a step is due. `is_alone` says whether only queued
    /// work is left.
    pub(super) fn due(&mut self, is_alone: bool, sit: &Situation<'_>) -> Option<&str> {
        self.is_last_step &= is_alone;
        // The reason that blocked landing may be gone, and the run is about to stop because of it.
        let is_stale = is_alone && self.held().is_some() && !self.is_last_step;
        if !is_stale && self.again.is_some_and(|at| at > sit.now) {
            return None;
        }
        let is_due = match self.trials.first().map(|trial| &trial.stage) {
            Some(TrialStage::Landing(_)) => false,
            Some(TrialStage::Passed(_)) => true,
            Some(TrialStage::Building | TrialStage::Verifying { .. }) | None => {
                self.answerable().is_some() || self.next(sit.queue_width).is_some()
            }
        };
        self.all().next().filter(|_| is_due).map(|work| work.target.as_str())
    }

    /// The time until the next step is due.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.again.map(|at| at.saturating_duration_since(now))
    }

    /// The reason that blocks all landing, while work is queued and none is being tried.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref().filter(|_| !self.is_trying() && !self.waiting.is_empty())
    }

    /// The commands that passed on the commit that landed last in this run.
    pub fn proven(&self) -> Option<&ProvenTip> {
        self.proven.as_ref()
    }

    /// Queues work at the end; returns how many are queued.
    pub(super) fn push(&mut self, work: QueuedWork) -> usize {
        self.waiting.push_back(work);
        self.all().count()
    }

    /// Whether work is being combined somewhere.
    fn is_building(&self) -> bool {
        let mut trials = self.trials.iter().chain(&self.ending);
        trials.any(QueueTrial::is_building) || self.questions.iter().any(Question::is_building)
    }

    /// The entry of `waiting` to try next, if a trial may begin; at most `width` are verified at once.
    fn next(&self, width: usize) -> Option<usize> {
        let is_verifying =
            |trial: &&QueueTrial| matches!(trial.stage, TrialStage::Verifying { .. });
        if self.trials.iter().filter(is_verifying).count() >= width || self.is_building() {
            return None;
        }
        let ahead: BTreeSet<&AttemptId> = self.trials.iter().map(|trial| &trial.work.id).collect();
        let branch = self.trials.first().map(|trial| &trial.work.target);
        self.waiting.iter().position(|work| {
            branch.is_none_or(|branch| *branch == work.target)
                && work.after.iter().all(|id| !ahead.contains(id))
        })
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
            // Others have moved the branch: a failed command may pass now.
            next.cancel = self.dissolve(0);
        }
        if matches!(self.trials.first(), Some(QueueTrial { stage: TrialStage::Passed(_), .. })) {
            return next.and(self.land().into());
        }
        if let Some(at) = self.answerable() {
            return next.and(self.answer(at, tip));
        }
        if let Some(work) = self.next(sit.queue_width).and_then(|at| self.waiting.remove(at)) {
            next.commands.extend(self.build(work, tip, sit));
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
                    cancel.push(trial.work.id.clone());
                    self.ending.push(trial);
                }
                TrialStage::Passed(_) | TrialStage::Landing(_) => back.push(trial.work),
            }
        }
        back.into_iter().rev().for_each(|work| self.waiting.push_front(work));
        cancel
    }

    /// Notes the end of a trial whose result no longer counts. Whether this was one.
    pub(super) fn has_ended(&mut self, id: &AttemptId) -> bool {
        let at = self.ending.iter().position(|trial| trial.work.id == *id);
        let ended = at.map(|at| self.ending.remove(at));
        let is_one = ended.is_some();
        if let Some(trial) = ended {
            self.waiting.push_front(trial.work);
        }
        is_one
    }

    /// Returns the commands that build a trial of this work on the last trial or the tip.
    fn build(&mut self, work: QueuedWork, tip: &CommitId, sit: &Situation<'_>) -> Vec<RunCommand> {
        let onto = self.trials.last().and_then(QueueTrial::tip).unwrap_or(tip).clone();
        let slot = free_number(self.slots().map(|(_, slot)| slot));
        let (branch, tasks) = (work.target.clone(), vec![work.id.task_id.clone()]);
        let merging = LandingEvent::Merging(Batch { branch, onto: onto.clone(), tasks });
        let merging = emit(&work, merging);
        let (id, stage, began) = (work.id.clone(), TrialStage::Building, sit.now);
        self.trials.push(QueueTrial { work, onto: onto.clone(), slot, began, stage });
        vec![merging, LandingCommand::Build { onto, id, slot }.into()]
    }

    /// Handles the built trial of an attempt. `lands` says whether it can still land.
    pub(super) fn built(
        &mut self,
        id: &AttemptId,
        built: Result<BuiltTrial, String>,
        lands: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        if self.has_ended(id) {
            return LandingNext::default();
        }
        let Some(at) = self.trials.iter().position(|it| it.work.id == *id) else {
            return self.built_base(id, built, lands, sit);
        };
        let branch = self.trials[at].work.target.clone();
        let built = match built {
            Ok(built) => built,
            Err(why) => {
                let next = self.back(at);
                return next.and(self.hold(Held { branch, why }, sit).into());
            }
        };
        let BuiltTrial { built, conflict, refused, changed, is_set_up } = built;
        let Some(built) = built else {
            let QueueTrial { mut work, onto, .. } = self.trials.remove(at);
            if at > 0 {
                // The work ahead may not land.
                work.after = self.trials.iter().map(|trial| trial.work.id.clone()).collect();
                self.waiting.push_front(work);
                return LandingNext::default();
            }
            let merge = match refused {
                Some(why) => Merge::Refused { branch, why },
                None => Merge::Conflict { branch, onto, paths: conflict.unwrap_or_default() },
            };
            return ended(work, merge, Vec::new());
        };
        let trial = &mut self.trials[at];
        let required = required(&trial.work, is_set_up);
        trial.stage = TrialStage::Verifying { built, changed, required: required.clone() };
        if required.is_empty() {
            return self.verified(id, Some(Vec::new()), false, sit);
        }
        if !lands {
            return self.back(at);
        }
        let id = id.clone();
        TrialChecks { id, run: TrialRun::First, commands: required, alone: false }.into()
    }

    /// Handles the results of verify commands that ran as those of an attempt, at the same time as
    /// others if `crowded`. None means that they were interrupted.
    pub(super) fn verified(
        &mut self,
        id: &AttemptId,
        commands: Option<Vec<CheckedCommand>>,
        crowded: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        if self.has_ended(id) {
            return LandingNext::default();
        }
        let Some(at) = self.trials.iter().position(|it| it.work.id == *id) else {
            return self.questioned(id, commands);
        };
        let QueueTrial { work, onto, began, stage, .. } = self.trials[at].clone();
        let branch = work.target;
        let (Some(commands), TrialStage::Verifying { built, changed, required }) =
            (commands, stage)
        else {
            return self.back(at);
        };
        let run = VerifyRun { changed, commands };
        match VerifiedWork::new(&branch, &onto, &built, &required, &run) {
            Ok(verified) => {
                self.known.passed(verified.tip(), verified.required());
                self.trials[at].stage = TrialStage::Passed(verified);
                LandingNext::default()
            }
            Err(Unproven::Red(check)) => {
                let work = &mut self.trials[at].work;
                let is_setup = |it: &String| *it == check.command && !work.verify.contains(it);
                if !work.is_fresh && work.setup.iter().any(is_setup) {
                    work.is_fresh = true;
                    return self.back(at);
                }
                self.red(at, *check, crowded)
            }
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
        let work = self.trials.remove(at).work;
        self.waiting.push_front(work);
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
        commands.push(emit(&trial.work, CheckEvent::VerifyFailed(check.clone())));
        self.strayed = None;
        let next = LandingNext { commands, cancel, ..LandingNext::default() };
        next.and(self.ask(trial, check, crowded))
    }

    /// Moves the tip to the first trial, after the records contain the commits that are about to land.
    fn land(&mut self) -> Vec<RunCommand> {
        self.strayed = None;
        let Some(QueueTrial { work, stage, slot, .. }) = self.trials.first_mut() else {
            return Vec::new();
        };
        let TrialStage::Passed(verified) = stage.clone() else { return Vec::new() };
        *stage = TrialStage::Landing(verified.clone());
        let EndedLanding { id, landing } = landing(work, &verified, false);
        let record = LandingCommand::Record(id, Box::new(landing));
        vec![record.into(), LandingCommand::Land { verified, slot: *slot }.into()]
    }

    /// Handles the result of moving the tip.
    pub(super) fn landed(
        &mut self,
        landed: Result<LandOutcome, String>,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let Some(QueueTrial { stage: TrialStage::Landing(verified), .. }) = self.trials.first()
        else {
            return LandingNext::default();
        };
        let verified = verified.clone();
        match landed {
            Ok(LandOutcome::Landed { waits }) => self.has_landed(&verified, waits),
            Ok(LandOutcome::Moved) => {
                LandingNext { cancel: self.dissolve(0), ..LandingNext::default() }
            }
            Err(why) => {
                let cancel = self.dissolve(0);
                let held = Held { branch: verified.branch().to_owned(), why };
                LandingNext { cancel, ..self.hold(held, sit).into() }
            }
        }
    }

    fn has_landed(&mut self, verified: &VerifiedWork, waits: bool) -> LandingNext {
        self.told = None;
        let work = self.trials.remove(0).work;
        self.proven = Some(ProvenTip {
            commit: verified.tip().clone(),
            task_id: work.id.task_id.clone(),
            commands: verified.required().to_vec(),
        });
        let ended = vec![landing(&work, verified, waits)];
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
