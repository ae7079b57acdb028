//! An open attempt: the data for its next step, and the start of that step.

use std::time::Duration;

use super::{
    Situation,
    command::{
        AttemptId, CheckPurpose, PendingResult, ProcessEnd, ProcessOrder, RunCommand, SlotCommand,
        StatusWrite,
    },
    process_watch::{EndSignal, ProcessWatch},
    verified_batch::CheckedCommand,
};
use crate::{
    commit_id::CommitId,
    duration,
    event::{Cause, ChildrenLeft, Event},
    graph::task::Status,
    verdict::{CheckResult, Evidence, Outcome, Rule, Verdict},
};

/// How often in a row a verify command is started again whose guardian or executor was lost. After
/// that its attempt is lost.
const MAX_LOST_CHECKS: u32 = 3;

/// An attempt that has not ended.
///
/// This is the data for its next step. Its state is in the history.
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
    /// The verify commands to run before its agent starts.
    pub baseline: Vec<String>,
    /// The verify commands to run after its agent ended.
    pub verify: Vec<String>,
    /// The rule for completion.
    pub rule: Rule,
    /// Its process, while it has one.
    pub process: Option<AttemptProcess>,
    /// Its result so far, once its agent has ended.
    pub end: Option<PendingResult>,
    /// Its verdict, once its evidence no longer changes.
    pub verdict: Option<Verdict>,
}

/// The process of an attempt.
#[derive(Clone, Debug, PartialEq)]
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
    /// Handle the results of the merge queue's trial that this attempt leads; none if the trial was
    /// interrupted.
    Tried(Option<Vec<CheckedCommand>>),
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
    pub(super) fn emit(&self, event: Event) -> RunCommand {
        let about = (self.id.task_id.clone(), self.iteration);
        RunCommand::Emit(Some(about), Box::new(event))
    }

    pub(super) fn start_agent(&mut self) -> Vec<RunCommand> {
        self.process = Some(AttemptProcess::new(None, Vec::new()));
        vec![RunCommand::StartAgent(self.id.clone())]
    }

    /// Starts the first process after the setup.
    pub(super) fn start_first(&mut self) -> Vec<RunCommand> {
        if self.baseline.is_empty() {
            return self.start_agent();
        }
        let commands = self.baseline.clone();
        self.start_checks(CheckPurpose::Baseline, commands)
    }

    /// Asks its executor for the end of its agent, which worked for this long.
    pub(super) fn ask_for_end(&mut self, run_on: String, took: Duration) -> Vec<RunCommand> {
        let process = AttemptProcess::new(None, Vec::new());
        self.process = Some(AttemptProcess { recovers: true, ..process });
        let why = "asked for the work of an attempt that was left open".to_owned();
        let awaiting = Event::AwaitingExecutor { attempt: self.id.attempt, run_on, why };
        vec![self.emit(awaiting), RunCommand::FetchWork(self.id.clone(), took)]
    }

    /// Starts what follows the commands that have run, once what they changed is taken as given.
    pub(super) fn go_on(&mut self) -> Vec<RunCommand> {
        match self.process.take().and_then(|process| process.purpose) {
            Some(CheckPurpose::Setup) => self.start_first(),
            Some(CheckPurpose::Baseline) => self.start_agent(),
            Some(CheckPurpose::Verify | CheckPurpose::Trial) | None => Vec::new(),
        }
    }

    /// Starts the first of these commands.
    pub(super) fn start_checks(
        &mut self,
        purpose: CheckPurpose,
        commands: Vec<String>,
    ) -> Vec<RunCommand> {
        self.process = Some(AttemptProcess::new(Some(purpose), commands));
        self.start_check()
    }

    /// Starts the next of its commands.
    fn start_check(&mut self) -> Vec<RunCommand> {
        let Some(AttemptProcess { purpose: Some(purpose), commands, done, .. }) = &self.process
        else {
            return Vec::new();
        };
        let (purpose, number, attempt) = (*purpose, done.len() + 1, self.id.attempt);
        let command = commands[done.len()].clone();
        let log = format!("{}/{}-{number}.log", self.log, purpose.log_name());
        let event = match purpose {
            CheckPurpose::Setup => Event::SettingUp { attempt, command: command.clone(), log },
            CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial => {
                let baseline = purpose == CheckPurpose::Baseline;
                Event::Verifying { attempt, command: command.clone(), baseline, log }
            }
        };
        let start = RunCommand::StartCheck(self.id.clone(), purpose, number, command);
        vec![self.emit(event), start]
    }

    /// Starts a command again that was lost, which says nothing about the work.
    pub(super) fn repeat_check(&mut self, process: AttemptProcess) -> Vec<RunCommand> {
        self.process = Some(AttemptProcess { lost: process.lost + 1, ..process });
        self.start_check()
    }

    /// Ends its process with this outcome, if it has one that is not being ended.
    pub(super) fn end_process(
        &mut self,
        outcome: Outcome,
        sit: &Situation<'_>,
    ) -> Option<RunCommand> {
        let watch = self.process.as_mut()?.watch.as_mut().filter(|watch| !watch.is_ending())?;
        Some(watch.end(outcome, sit.now, &sit.graces).command(&self.id))
    }

    /// Handles the result of a command. Starts the next command, or the step after the last one.
    pub(super) fn check_ended(
        &mut self,
        mut process: AttemptProcess,
        purpose: CheckPurpose,
        outcome: Outcome,
        end: ProcessEnd,
    ) -> Next {
        let took = end.took;
        let check = CheckResult {
            command: process.commands[process.done.len()].clone(),
            outcome,
            duration_seconds: duration::seconds(took),
            last_line: end.last_line,
            log: end.log,
        };
        let is_green = check.is_green();
        process.lost = 0;
        process.done.push(CheckedCommand { result: check.clone(), head: end.head });
        let mut commands = match purpose {
            CheckPurpose::Setup => Vec::new(),
            CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial => {
                let event =
                    if is_green { Event::Verified(check) } else { Event::VerifyFailed(check) };
                vec![self.emit(event)]
            }
        };
        if let (CheckPurpose::Verify, Some(end)) = (purpose, &mut self.end) {
            end.took += took;
        }
        if is_green && process.done.len() < process.commands.len() {
            self.process = Some(process);
            commands.extend(self.start_check());
            return commands.into();
        }
        match purpose {
            CheckPurpose::Trial => return Next::Tried(Some(process.done)),
            CheckPurpose::Setup | CheckPurpose::Baseline if is_green => {
                // Says what follows once that is done.
                self.process = Some(process);
                commands.push(RunCommand::Slot(self.id.clone(), SlotCommand::TakeAsGiven));
            }
            CheckPurpose::Setup => {
                let setup = process.done.pop().map(|command| command.result);
                let evidence = Evidence { setup, ..Evidence::default() };
                let end = PendingResult::not_started("setup failed".to_owned());
                commands.extend(self.close(PendingResult { took, evidence, ..end }));
            }
            CheckPurpose::Baseline => {
                let verify = process.done.into_iter().map(|command| command.result).collect();
                let evidence = Evidence { verify, ..Evidence::default() };
                let end = PendingResult::not_started("baseline broken".to_owned());
                commands.extend(self.close(PendingResult { took, evidence, ..end }));
            }
            CheckPurpose::Verify => {
                let mut end = self.end.take().unwrap_or_default();
                let results = process.done.iter().map(|command| command.result.clone());
                end.evidence.verify = results.collect();
                end.verified.commands = process.done;
                commands.extend(self.close(end));
            }
        }
        commands.into()
    }

    /// Returns the command that judges it.
    pub(super) fn close(&mut self, end: PendingResult) -> Vec<RunCommand> {
        vec![RunCommand::Judge(self.id.clone(), Box::new(end))]
    }

    /// Returns the command that saves its work. Its end is journalled after that.
    pub(super) fn conclude(&mut self, end: PendingResult) -> Vec<RunCommand> {
        let verdict = Verdict::of(&end.outcome, &end.evidence, self.rule);
        let evidence = Box::new(end.evidence.clone());
        (self.end, self.verdict) = (Some(end), Some(verdict));
        vec![RunCommand::Keep(self.id.clone(), verdict, evidence)]
    }
}

/// Returns the status to write at the end of an attempt with this verdict, if it changes.
pub(super) fn status_after(
    verdict: Verdict,
    parks: bool,
    was: Status,
) -> Option<(StatusWrite, Cause)> {
    match verdict {
        Verdict::Complete => Some((StatusWrite::Complete, Cause::Completed)),
        _ if parks => Some((StatusWrite::Plain(Status::InProgress), Cause::Released)),
        // A person blocked or cancelled the task during the attempt, which takes precedence.
        _ if !matches!(was, Status::InProgress | Status::Complete | Status::Pending) => None,
        Verdict::NeedsInput => Some((StatusWrite::Plain(Status::NeedsInput), Cause::Asked)),
        Verdict::Incomplete
        | Verdict::Unverified
        | Verdict::VerifyFailed
        | Verdict::Uncommitted
        | Verdict::OffBranch
        | Verdict::Failed
        | Verdict::TimedOut
        | Verdict::Cancelled
        | Verdict::Interrupted
        | Verdict::RateLimited
        | Verdict::Denied
        | Verdict::BaselineBroken
        | Verdict::SetupFailed
        | Verdict::MergeFailed
        | Verdict::Again => Some((StatusWrite::Plain(Status::Pending), Cause::Released)),
    }
}
