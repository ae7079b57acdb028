//! Why a verify command failed on queued work: it runs again on the same tree, and then without the
//! work, outside the queue.

use std::collections::{BTreeSet, VecDeque};

use super::{LandingNext, LandingQueue, QueueTrial, QueuedWork, TrialChecks, emit, ended};
use crate::{
    commit_id::CommitId,
    event::{CheckEvent, Held},
    graph::task::TaskId,
    run::{
        Situation,
        command::{AttemptId, LandingCommand, TrialRun},
        input::BuiltTrial,
        verified_work::CheckedCommand,
    },
    verdict::{CheckResult, Merge, Outcome},
};

/// How often in a row a command may fail on the same work and then pass: after that it counts.
const MOST_FLAKY: u32 = 3;

/// The most commits with known passes.
const KNOWN: usize = 256;

/// Work whose verify command failed, until it is known why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) work: QueuedWork,
    pub(super) slot: usize,
    /// The commit below the work when it failed.
    pub(super) onto: CommitId,
    /// The first failure.
    check: CheckResult,
    /// The files whose conflicts were resolved.
    resolved: Vec<String>,
    /// Whether the command passed the last time that it ran on the same tree.
    flaky: bool,
    stage: QuestionStage,
}

/// The step of a question.
#[derive(Clone, Debug, PartialEq)]
enum QuestionStage {
    /// The command runs once more on the same tree.
    Again,
    /// It failed again, and its result without the work is not known.
    Base,
    /// The commit without the work is being checked out.
    Building,
    /// The command runs there. The number of times that it has failed there.
    OnBase(u32),
}

impl Question {
    pub(super) fn is_building(&self) -> bool {
        self.stage == QuestionStage::Building
    }

    /// Whether the command is being tried without the work.
    pub(super) fn is_on_base(&self) -> bool {
        matches!(self.stage, QuestionStage::Building | QuestionStage::OnBase(_))
    }

    /// Whether it has a running step.
    pub(super) fn is_running(&self) -> bool {
        self.stage != QuestionStage::Base
    }
}

/// The known results on commits of the target branch and of trials.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The commands that passed on commits, oldest first.
    green: VecDeque<(CommitId, Vec<String>)>,
    /// The failures on commits of the branch, each with the first attempt that raised the question.
    red: Vec<(CommitId, CheckResult, AttemptId)>,
    /// The later failures with work on top of commits where the command passed.
    blamed: Vec<(CommitId, CheckResult, TaskId)>,
    /// The commands that failed among others, and then alone as well: others do not disturb them.
    undisturbed: BTreeSet<String>,
}

/// Whether two commands fail in the same way.
fn fails_alike(one: &CheckResult, other: &CheckResult) -> bool {
    // Numbers are times and addresses.
    let words = |check: &CheckResult| {
        let line = check.last_line.as_deref().unwrap_or_default();
        line.replace(|letter: char| letter.is_ascii_digit(), "")
    };
    one.command == other.command && one.outcome == other.outcome && words(one) == words(other)
}

impl Known {
    /// Whether nothing has passed anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.green.is_empty()
    }

    /// Notes that these commands passed on a commit.
    pub(super) fn passed(&mut self, commit: &CommitId, commands: &[String]) {
        self.green.push_back((commit.clone(), commands.to_vec()));
        if self.green.len() > KNOWN {
            self.green.pop_front();
        }
    }

    /// Whether anything passed on a commit.
    fn has(&self, commit: &CommitId) -> bool {
        self.green.iter().any(|(at, _)| at == commit)
    }

    /// Whether a command passes on a commit.
    fn passes(&self, commit: &CommitId, command: &String) -> bool {
        let mut green = self.green.iter();
        green.any(|(at, commands)| at == commit && commands.contains(command))
    }

    /// Forgets that a command passes on a commit if two tasks fail there in the same way: the machine may
    /// have changed since.
    fn doubt(&mut self, commit: &CommitId, check: &CheckResult, id: &TaskId) {
        let mut here = self.blamed.iter().filter(|(at, ..)| at == commit);
        if here.any(|(_, red, other)| other != id && fails_alike(red, check)) {
            self.blamed.retain(|(at, red, _)| at != commit || red.command != check.command);
            let green = self.green.iter_mut().filter(|(at, _)| at == commit);
            green.for_each(|(_, commands)| commands.retain(|command| *command != check.command));
        }
    }

    /// How a command fails on a commit, and the first attempt that was asked about it.
    fn fails(
        &self,
        commit: &CommitId,
        command: &String,
    ) -> Option<&(CommitId, CheckResult, AttemptId)> {
        self.red.iter().find(|(at, red, _)| at == commit && red.command == *command)
    }

    /// Whether the result of a command on a commit is known.
    fn knows(&self, commit: &CommitId, command: &String) -> bool {
        self.passes(commit, command) || self.fails(commit, command).is_some()
    }
}

impl LandingQueue {
    /// Asks why the work of a trial fails.
    pub(super) fn ask(
        &mut self,
        trial: QueueTrial,
        check: CheckResult,
        crowded: bool,
    ) -> LandingNext {
        let resolved = trial.resolved();
        let QueueTrial { work, onto, slot, .. } = trial;
        if matches!(check.outcome, Outcome::Lost { .. }) {
            // It was started again several times already.
            let branch = work.target.clone();
            return ended(
                work,
                Merge::Red { branch, onto, already: false, flaky: false },
                vec![check],
            );
        }
        let is_alone = crowded && !self.known.undisturbed.contains(&check.command);
        let (id, commands) = (work.id.clone(), vec![check.command.clone()]);
        let stage = QuestionStage::Again;
        self.questions.push(Question { work, slot, onto, check, resolved, flaky: false, stage });
        TrialChecks { id, run: TrialRun::Again, commands, alone: is_alone }.into()
    }

    /// Drops a question, whose work is tried again.
    fn drop_question(&mut self, at: usize) {
        let work = self.questions.remove(at).work;
        self.waiting.push_front(work);
    }

    /// Handles the result of a command that ran for a question. None means that it was interrupted.
    pub(super) fn questioned(
        &mut self,
        id: &AttemptId,
        commands: Option<Vec<CheckedCommand>>,
    ) -> LandingNext {
        let Some(at) = self.questions.iter().position(|it| it.work.id == *id) else {
            return LandingNext::default();
        };
        let last = commands.and_then(|mut commands| commands.pop());
        let question = &mut self.questions[at];
        let command = &question.check.command;
        let Some(last) = last else {
            self.drop_question(at);
            return LandingNext::default();
        };
        if last.result.command != *command {
            // The setup fails where the work is missing, so that the command cannot run there.
            self.known.passed(&question.onto, std::slice::from_ref(command));
            question.stage = QuestionStage::Base;
            return LandingNext::default();
        }
        match (question.stage.clone(), last.result.is_green()) {
            (QuestionStage::Again, true) if question.work.flaky + 1 < MOST_FLAKY => {
                question.work.flaky += 1;
                let flaky = emit(&question.work, CheckEvent::Flaky(question.check.clone()));
                self.drop_question(at);
                vec![flaky].into()
            }
            (QuestionStage::Again, is_green) => {
                question.flaky = is_green;
                if !is_green {
                    self.known.undisturbed.insert(command.clone());
                }
                question.stage = QuestionStage::Base;
                LandingNext::default()
            }
            (QuestionStage::OnBase(_), true) => {
                self.known.passed(&question.onto, std::slice::from_ref(command));
                question.stage = QuestionStage::Base;
                LandingNext::default()
            }
            (QuestionStage::OnBase(0), false) => {
                question.stage = QuestionStage::OnBase(1);
                let commands = vec![command.clone()];
                TrialChecks { id: id.clone(), run: TrialRun::Base, commands, alone: false }.into()
            }
            (QuestionStage::OnBase(_), false) => {
                let first = question.work.id.clone();
                self.known.red.push((question.onto.clone(), last.result, first));
                question.stage = QuestionStage::Base;
                LandingNext::default()
            }
            (QuestionStage::Base | QuestionStage::Building, _) => LandingNext::default(),
        }
    }

    /// The first question that can be answered, or whose next command can start.
    pub(super) fn answerable(&self) -> Option<usize> {
        let is_open = |onto: &CommitId| self.trials.iter().any(|it| it.tip() == Some(onto));
        // Whether the branch is red is decided by a second task, and only then is the first one's job free
        // for another start.
        let is_awaited = |question: &Question| {
            let (onto, command) = (&question.onto, &question.check.command);
            let red = self.known.fails(onto, command);
            red.is_some_and(|(_, _, first)| *first == question.work.id)
                && self.questions.iter().any(|other| {
                    other.work.id != question.work.id
                        && (&other.onto, &other.check.command) == (onto, command)
                })
        };
        self.questions.iter().position(|question| {
            question.stage == QuestionStage::Base
                && !is_awaited(question)
                && (self.known.knows(&question.onto, &question.check.command)
                    || (!is_open(&question.onto) && !self.is_building()))
        })
    }

    /// Answers a question, or starts the command that does; `tip` is that of the target branch.
    pub(super) fn answer(&mut self, at: usize, tip: &CommitId) -> LandingNext {
        let Question { work, onto, check, .. } = &self.questions[at];
        let (onto, branch) = (onto.clone(), work.target.clone());
        // A command that the task adds has no meaning without its work.
        let is_own = work.own.contains(&check.command);
        if !is_own {
            self.known.doubt(&onto, check, &work.id.task_id);
        }
        let is_good = is_own && (onto == *tip || self.known.has(&onto));
        if !is_good && !self.known.knows(&onto, &check.command) {
            if onto != *tip {
                // It failed on top of work that did not land.
                self.drop_question(at);
                return LandingNext::default();
            }
            if self.is_building() {
                // The doubt removed the known result that answered it.
                return LandingNext::default();
            }
            let question = &mut self.questions[at];
            question.stage = QuestionStage::Building;
            let (slot, id) = (question.slot, question.work.id.clone());
            return vec![LandingCommand::CheckOut { id, onto, slot }.into()].into();
        }
        let Question { work, check, resolved, flaky, .. } = self.questions.remove(at);
        let red = self.known.fails(&onto, &check.command);
        let red = red.filter(|(_, red, _)| !is_own && fails_alike(red, &check));
        let already = red.is_some();
        // A task may be meant to fix it. If several fail in this way, none is.
        let is_other = red.as_ref().is_some_and(|(_, _, first)| first.task_id != work.id.task_id);
        let merge = if is_other {
            Merge::RedBase { branch, onto }
        } else if !already && !resolved.is_empty() {
            // It would have been a conflict.
            Merge::Conflict { branch, onto, paths: resolved }
        } else {
            if !already && !is_own {
                self.known.blamed.push((onto.clone(), check.clone(), work.id.task_id.clone()));
            }
            Merge::Red { branch, onto, already, flaky }
        };
        ended(work, merge, vec![check])
    }

    /// Handles that the commit without the work of a question was checked out.
    pub(super) fn built_base(
        &mut self,
        id: &AttemptId,
        built: Result<BuiltTrial, String>,
        lands: bool,
        sit: &Situation<'_>,
    ) -> LandingNext {
        let at = self.questions.iter().position(|it| it.work.id == *id && it.is_building());
        let Some(at) = at else { return LandingNext::default() };
        let question = &mut self.questions[at];
        let branch = question.work.target.clone();
        let built = match built {
            Ok(built) if lands => built,
            Ok(_) => {
                self.drop_question(at);
                return LandingNext::default();
            }
            Err(why) => {
                self.drop_question(at);
                return self.hold(Held { branch, why }, sit).into();
            }
        };
        question.stage = QuestionStage::OnBase(0);
        let command = &question.check.command;
        let setup = question.work.setup.iter().filter(|_| !built.is_set_up);
        // It may be one of the setup.
        let mut commands: Vec<String> = setup.take_while(|it| *it != command).cloned().collect();
        commands.push(command.clone());
        TrialChecks { id: id.clone(), run: TrialRun::Base, commands, alone: false }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::queued, *};

    /// A question about work on the tip, which failed twice.
    fn question(name: &str) -> Question {
        let work = queued(name);
        let stage = QuestionStage::Base;
        let onto = CommitId::from("tip");
        Question { work, slot: 0, onto, check: red(), resolved: Vec::new(), flaky: false, stage }
    }

    fn red() -> CheckResult {
        CheckResult {
            command: "check".to_owned(),
            outcome: Outcome::Exited { exit_code: 1 },
            duration_seconds: 1.0,
            last_line: None,
            log: String::new(),
            no_test: false,
        }
    }

    #[test]
    fn what_fails_alike_with_two_tasks_is_run_again_without_either() {
        let mut queue = LandingQueue::default();
        let tip = CommitId::from("tip");
        let passed = |queue: &mut LandingQueue| queue.known.passed(&tip, &["check".to_owned()]);
        passed(&mut queue);
        let answer = |queue: &mut LandingQueue, name: &str, line: &str| {
            let last_line = Some(line.to_owned());
            let check = CheckResult { last_line, ..red() };
            queue.questions = vec![Question { check, ..question(name) }];
            let next = queue.answer(0, &tip);
            next.ended.into_iter().next().map(|end| end.landing.merge)
        };
        let blamed = Merge::Red {
            branch: "main".to_owned(),
            onto: tip.clone(),
            already: false,
            flaky: false,
        };
        // Another attempt at the same task, or another failure, is no sign of the machine.
        for (name, line) in [("first", "no service"), ("first", "no service"), ("second", "2 of 3")]
        {
            assert_eq!(answer(&mut queue, name, line), Some(blamed.clone()), "{name}");
        }
        assert_eq!(answer(&mut queue, "third", "no service"), None);
        passed(&mut queue);
        assert_eq!(answer(&mut queue, "third", "no service"), Some(blamed));
        assert_eq!(answer(&mut queue, "fourth", "no service"), None);
    }

    #[test]
    fn a_second_task_says_whether_the_branch_is_red_before_the_first_one_frees_its_job() {
        let mut queue = LandingQueue::default();
        let (first, second) = (question("first"), question("second"));
        queue.known.red.push((first.onto.clone(), red(), first.work.id.clone()));
        queue.questions = vec![first, second];
        let tip = CommitId::from("tip");
        let mut ends = Vec::new();
        while let Some(at) = queue.answerable() {
            ends.extend(queue.answer(at, &tip).ended.into_iter().map(|end| end.landing.merge));
        }
        let branch = "main".to_owned();
        assert_eq!(ends.remove(0), Merge::RedBase { branch: branch.clone(), onto: tip.clone() });
        assert_eq!(ends, [Merge::Red { branch, onto: tip, already: true, flaky: false }]);
    }
}
