//! An open attempt: its phase, with the data for its next step, and the start of that step.

use std::{mem, time::Duration};

use super::{
    Situation,
    command::{
        AttemptId, CheckPurpose, FollowUps, PendingResult, ProcessEnd, ProcessOrder, RunCommand,
        SlotCommand, TrialRun,
    },
    process_watch::{EndSignal, ProcessWatch},
    verified_work::CheckedCommand,
};
use crate::{
    attempt::AttemptState,
    commit_id::CommitId,
    duration,
    event::{AttemptEvent, CheckEvent, ChildrenLeft, Event, ExecutorEvent},
    verdict::{CheckResult, Evidence, Outcome, Rule, Verdict},
};

/// How often in a row a verify command is started again whose guardian or executor was lost. The next
/// loss counts: here, the command itself seems to kill its guardian.
const MAX_LOST_CHECKS: u32 = 2;

/// The phase of an open attempt, with the data for its next step.
///
/// The history has the word for it, [`AttemptState`], which others read; [`AttemptPhase::fits`] says
/// how the two belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AttemptPhase {
    /// Its slot is being prepared.
    #[default]
    Preparing,
    /// Its agent runs, or a command before the agent.
    Working(AttemptProcess),
    /// Its processes have ended, and the evidence is being collected. After a crash, its work may have
    /// landed before, with this evidence.
    Collecting(Option<Box<Evidence>>),
    /// The commands that verify its work run.
    Verifying(AttemptProcess, Box<PendingResult>),
    /// Its evidence is being judged.
    Judging,
    /// Its work is queued to be verified and to land. If it leads a trial, a command of that runs.
    Queued(Option<AttemptProcess>, Box<PendingResult>),
    /// Its evidence no longer changes, and its work is being saved.
    Keeping(Verdict, Box<PendingResult>),
}

impl AttemptPhase {
    /// Its process, while it has one.
    pub fn process(&self) -> Option<&AttemptProcess> {
        match self {
            AttemptPhase::Working(process) | AttemptPhase::Verifying(process, _) => Some(process),
            AttemptPhase::Queued(process, _) => process.as_ref(),
            AttemptPhase::Preparing
            | AttemptPhase::Collecting(_)
            | AttemptPhase::Judging
            | AttemptPhase::Keeping(..) => None,
        }
    }

    pub(super) fn process_mut(&mut self) -> Option<&mut AttemptProcess> {
        match self {
            AttemptPhase::Working(process) | AttemptPhase::Verifying(process, _) => Some(process),
            AttemptPhase::Queued(process, _) => process.as_mut(),
            AttemptPhase::Preparing
            | AttemptPhase::Collecting(_)
            | AttemptPhase::Judging
            | AttemptPhase::Keeping(..) => None,
        }
    }

    /// Its result so far, once its agent has ended and the evidence is there.
    pub fn result(&self) -> Option<&PendingResult> {
        match self {
            AttemptPhase::Verifying(_, end)
            | AttemptPhase::Queued(_, end)
            | AttemptPhase::Keeping(_, end) => Some(end),
            AttemptPhase::Preparing
            | AttemptPhase::Working(_)
            | AttemptPhase::Collecting(_)
            | AttemptPhase::Judging => None,
        }
    }

    /// Whether the history may say that an attempt in this phase is in this state. Between two events
    /// of an attempt, its phase may be ahead of the history.
    pub fn fits(&self, state: AttemptState) -> bool {
        let is_before_agent = matches!(state, AttemptState::Preparing | AttemptState::SettingUp);
        let is_running = matches!(state, AttemptState::Running | AttemptState::WaitingForChildren);
        match self {
            AttemptPhase::Preparing => state == AttemptState::Preparing,
            AttemptPhase::Working(process) => match process.purpose {
                Some(CheckPurpose::Setup) => state == AttemptState::SettingUp,
                Some(CheckPurpose::Verify | CheckPurpose::Trial(_)) => false,
                // An earlier run may have got further.
                None => is_before_agent || is_running || process.recovers,
            },
            AttemptPhase::Verifying(process, _) => {
                process.waits || state == AttemptState::Verifying
            }
            AttemptPhase::Queued(..) => state.is_queued(),
            AttemptPhase::Collecting(_) | AttemptPhase::Judging | AttemptPhase::Keeping(..) => true,
        }
    }
}

/// An attempt that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAttempt {
    /// The task and number of the attempt.
    pub id: AttemptId,
    /// Its number in the run.
    pub iteration: u32,
    /// The branch that its work lands on, if it is isolated.
    pub target: Option<String>,
    /// The commit it started from.
    pub base: Option<CommitId>,
    /// The name of its agent.
    pub agent: Option<String>,
    /// Its folder, relative to the repository.
    pub log: String,
    /// The commands that prepare its slot.
    pub setup: Vec<String>,
    /// The verify commands that its task adds for its own work: they should fail without it.
    pub own_checks: Vec<String>,
    /// The verify commands to run after its agent ended.
    pub verify: Vec<String>,
    /// The rule for completion.
    pub rule: Rule,
    /// The further prompts that its agent may get.
    pub follow_ups: FollowUps,
    /// Its phase.
    pub phase: AttemptPhase,
}

/// The process of an attempt.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "these are independent facts")]
pub struct AttemptProcess {
    /// The purpose of the command; none for the agent.
    pub purpose: Option<CheckPurpose>,
    /// The commands of this purpose.
    pub(super) commands: Vec<String>,
    /// Those that have run.
    pub(super) done: Vec<CheckedCommand>,
    /// The number of times in a row that the next one was lost with its guardian or executor.
    lost: u32,
    /// Its limits, once it runs.
    pub watch: Option<ProcessWatch>,
    /// The processes that its agent left running, while the run waits for them.
    pub(super) left: Option<ChildrenLeft>,
    /// Whether its next command has not begun, because it waits for its turn.
    pub(super) waits: bool,
    /// Whether other verify commands ran during it.
    pub(super) crowded: bool,
    /// Whether it runs once more, alone, because it failed while others ran.
    pub(super) alone: bool,
    /// Whether it starts nothing: it asks an executor for the end of an agent of an earlier run.
    pub recovers: bool,
}

impl AttemptProcess {
    /// A process that has not started, with this purpose and these commands.
    pub(super) fn new(purpose: Option<CheckPurpose>, commands: Vec<String>) -> AttemptProcess {
        AttemptProcess {
            purpose,
            commands,
            done: Vec::new(),
            lost: 0,
            watch: None,
            left: None,
            waits: false,
            crowded: false,
            alone: false,
            recovers: false,
        }
    }

    /// Whether its command may be started again after it was lost.
    pub(super) fn may_repeat(&self) -> bool {
        self.lost < MAX_LOST_CHECKS
    }
}

/// The step after the end of a process or after a verdict.
#[derive(Debug)]
pub(super) enum Next {
    /// Execute these commands.
    Commands(Vec<RunCommand>),
    /// Queue the work of the attempt to land on this branch.
    Queue(AttemptId, String),
    /// Handle the results of the commands of the merge queue that ran as those of an attempt; none if
    /// they were interrupted.
    Tried {
        /// The attempt.
        id: AttemptId,
        /// The commands to execute first.
        commands: Vec<RunCommand>,
        /// The results.
        done: Option<Vec<CheckedCommand>>,
        /// Whether others ran at the same time.
        crowded: bool,
    },
}

impl EndSignal {
    /// Returns the command that sends it to the process of an attempt.
    pub(super) fn command(self, id: &AttemptId) -> RunCommand {
        match self {
            EndSignal::Interrupt => RunCommand::Process(id.clone(), ProcessOrder::Interrupt),
            EndSignal::Terminate => RunCommand::Process(id.clone(), ProcessOrder::Terminate),
        }
    }
}

impl From<Vec<RunCommand>> for Next {
    fn from(commands: Vec<RunCommand>) -> Next {
        Next::Commands(commands)
    }
}

impl OpenAttempt {
    /// Returns the command that journals an event about it.
    pub(super) fn emit(&self, event: impl Into<Event>) -> RunCommand {
        let about = (self.id.task_id.clone(), self.iteration);
        RunCommand::Emit(Some(about), Box::new(event.into()))
    }

    pub(super) fn process_mut(&mut self) -> Option<&mut AttemptProcess> {
        self.phase.process_mut()
    }

    /// The limits of its process, once that runs.
    pub(super) fn watch_mut(&mut self) -> Option<&mut ProcessWatch> {
        self.process_mut()?.watch.as_mut()
    }

    pub(super) fn start_agent(&mut self) -> Vec<RunCommand> {
        self.phase = AttemptPhase::Working(AttemptProcess::new(None, Vec::new()));
        vec![RunCommand::StartAgent(self.id.clone())]
    }

    /// Starts the first of the commands that prepare its slot.
    pub(super) fn start_setup(&mut self) -> Vec<RunCommand> {
        let process = AttemptProcess::new(Some(CheckPurpose::Setup), self.setup.clone());
        self.phase = AttemptPhase::Working(process);
        self.start_check()
    }

    /// Starts the first command that verifies its work.
    pub(super) fn start_verify(&mut self, end: PendingResult) -> Vec<RunCommand> {
        let process = AttemptProcess::new(Some(CheckPurpose::Verify), self.verify.clone());
        self.phase = AttemptPhase::Verifying(process, Box::new(end));
        self.start_check()
    }

    /// Starts the first of the commands of the merge queue that run as its own, alone if so.
    pub(super) fn start_trial(
        &mut self,
        run: TrialRun,
        commands: Vec<String>,
        alone: bool,
    ) -> Vec<RunCommand> {
        let AttemptPhase::Queued(process, _) = &mut self.phase else { return Vec::new() };
        let started = AttemptProcess::new(Some(CheckPurpose::Trial(run)), commands);
        *process = Some(AttemptProcess { alone, ..started });
        self.start_check()
    }

    /// Ends its command of the merge queue, whose result no longer counts. Whether it had not begun.
    pub(super) fn end_trial(&mut self, sit: &Situation<'_>) -> (bool, Option<RunCommand>) {
        if let AttemptPhase::Queued(process, _) = &mut self.phase
            && process.take_if(|process| process.waits).is_some()
        {
            return (true, None);
        }
        (false, self.end_process(Outcome::Cancelled, sit))
    }

    /// Asks its executor for the end of its agent, which worked for this long.
    pub(super) fn ask_for_end(&mut self, run_on: String, took: Duration) -> Vec<RunCommand> {
        let process = AttemptProcess::new(None, Vec::new());
        self.phase = AttemptPhase::Working(AttemptProcess { recovers: true, ..process });
        let why = "asked for the work of an attempt that was left open".to_owned();
        let awaiting = ExecutorEvent::AwaitingExecutor { attempt: self.id.attempt, run_on, why };
        vec![self.emit(awaiting), RunCommand::FetchWork(self.id.clone(), took)]
    }

    /// Starts the step after the commands that have run, once their changes are taken as given.
    pub(super) fn go_on(&mut self) -> Vec<RunCommand> {
        match self.phase.process().and_then(|process| process.purpose) {
            Some(CheckPurpose::Setup) => self.start_agent(),
            Some(CheckPurpose::Verify | CheckPurpose::Trial(_)) | None => Vec::new(),
        }
    }

    /// Starts the next of its commands.
    pub(super) fn start_check(&mut self) -> Vec<RunCommand> {
        let Some(AttemptProcess { purpose: Some(purpose), commands, done, .. }) =
            self.phase.process()
        else {
            return Vec::new();
        };
        let (purpose, number, attempt) = (*purpose, done.len() + 1, self.id.attempt);
        let command = commands[done.len()].clone();
        let log = format!("{}/{}-{number}.log", self.log, purpose.log_name());
        let event = match purpose {
            CheckPurpose::Setup => CheckEvent::SettingUp { attempt, command: command.clone(), log },
            CheckPurpose::Verify | CheckPurpose::Trial(_) => {
                CheckEvent::Verifying { attempt, command: command.clone(), log }
            }
        };
        let start = RunCommand::StartCheck(self.id.clone(), purpose, number, command);
        vec![self.emit(event), start]
    }

    /// Restarts a lost command; the loss is no evidence about the work.
    pub(super) fn repeat_check(
        &mut self,
        process: AttemptProcess,
        end: Box<PendingResult>,
    ) -> Vec<RunCommand> {
        let process = AttemptProcess { lost: process.lost + 1, ..process };
        self.phase = match process.purpose {
            Some(CheckPurpose::Trial(_)) => AttemptPhase::Queued(Some(process), end),
            Some(CheckPurpose::Setup | CheckPurpose::Verify) | None => {
                AttemptPhase::Verifying(process, end)
            }
        };
        self.start_check()
    }

    /// Ends its process, if any, with this outcome, unless it is being ended already.
    pub(super) fn end_process(
        &mut self,
        outcome: Outcome,
        sit: &Situation<'_>,
    ) -> Option<RunCommand> {
        let watch = self.phase.process_mut()?.watch.as_mut();
        let watch = watch.filter(|watch| !watch.is_ending())?;
        Some(watch.end(outcome, sit.now, &sit.graces).command(&self.id))
    }

    /// Ends its agent at the cost limit of its task: it has not failed.
    pub(super) fn end_agent(&mut self, why: String, sit: &Situation<'_>) -> Vec<RunCommand> {
        let Some(end) = self.end_process(Outcome::OverCost, sit) else { return Vec::new() };
        vec![end, self.emit(AttemptEvent::Terminating { attempt: self.id.attempt, why })]
    }

    /// Returns the command that journals the result of a command.
    fn tell_check(&self, purpose: CheckPurpose, check: CheckResult) -> Vec<RunCommand> {
        let is_green = check.is_green();
        match purpose {
            CheckPurpose::Setup => Vec::new(),
            // The merge queue decides where its output stays.
            CheckPurpose::Trial(TrialRun::First) if !is_green => Vec::new(),
            CheckPurpose::Verify | CheckPurpose::Trial(_) => {
                let event = if is_green {
                    CheckEvent::Verified(check)
                } else {
                    CheckEvent::VerifyFailed(check)
                };
                vec![self.emit(event)]
            }
        }
    }

    /// Handles the result of a command of its process, whose phase it has left. Starts the next
    /// command, or the step after the last one.
    pub(super) fn check_ended(
        &mut self,
        (mut process, purpose): (AttemptProcess, CheckPurpose),
        result: Option<Box<PendingResult>>,
        outcome: Outcome,
        end: ProcessEnd,
    ) -> Next {
        let took = end.took;
        let check = CheckResult {
            command: process.commands[process.done.len()].clone(),
            outcome,
            duration_seconds: duration::seconds(took),
            last_line: end.last_line,
            no_test: end.no_test,
            log: end.log,
        };
        let is_green = check.is_green();
        let crowded = mem::take(&mut process.crowded);
        if crowded && !is_green && !matches!(purpose, CheckPurpose::Trial(_)) {
            return self.check_again((process, purpose), result).into();
        }
        process.alone = false;
        process.lost = 0;
        process.done.push(CheckedCommand { result: check.clone(), head: end.head });
        let goes_on = is_green && process.done.len() < process.commands.len();
        let mut commands = self.tell_check(purpose, check);
        let mut result = result.unwrap_or_default();
        match purpose {
            CheckPurpose::Setup if is_green => {
                self.phase = AttemptPhase::Working(process);
                if !goes_on {
                    // The process decides the next step once that is done.
                    let given = RunCommand::Slot(self.id.clone(), SlotCommand::TakeAsGiven);
                    commands.push(given);
                }
            }
            CheckPurpose::Setup => {
                let setup = process.done.pop().map(|command| command.result);
                let evidence = Evidence { setup, ..Evidence::default() };
                let end = PendingResult::not_started("setup failed".to_owned());
                commands.extend(self.close(PendingResult { took, evidence, ..end }));
            }
            CheckPurpose::Verify => {
                result.took += took;
                if goes_on {
                    self.phase = AttemptPhase::Verifying(process, result);
                } else {
                    let results = process.done.iter().map(|command| command.result.clone());
                    result.evidence.verify = results.collect();
                    commands.extend(self.close(*result));
                }
            }
            CheckPurpose::Trial(_) if goes_on => {
                self.phase = AttemptPhase::Queued(Some(process), result);
            }
            CheckPurpose::Trial(_) => {
                self.phase = AttemptPhase::Queued(None, result);
                let (id, done) = (self.id.clone(), Some(process.done));
                return Next::Tried { id, commands, done, crowded };
            }
        }
        if goes_on {
            commands.extend(self.start_check());
        }
        commands.into()
    }

    /// Returns the command that judges it.
    pub(super) fn close(&mut self, end: PendingResult) -> Vec<RunCommand> {
        self.phase = AttemptPhase::Judging;
        vec![RunCommand::Judge(self.id.clone(), Box::new(end))]
    }

    /// Returns the command that saves its work. Its end is journalled after that.
    pub(super) fn conclude(&mut self, end: PendingResult) -> Vec<RunCommand> {
        let verdict = Verdict::of(&end.outcome, &end.evidence, self.rule);
        let evidence = Box::new(end.evidence.clone());
        self.phase = AttemptPhase::Keeping(verdict, Box::new(end));
        vec![RunCommand::Keep(self.id.clone(), verdict, evidence)]
    }
}
