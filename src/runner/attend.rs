//! What a run does at any time: it handles signals, suspends itself, notices that time was lost, and
//! runs commands of its own, during which it still handles all that.

use std::{
    mem,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Error, Result};
use chrono::Utc;

use super::{
    Runner, RunnerMessage,
    context::Facts,
    core::RunCore,
    hooks::{DueHook, HookOutcome},
    sources,
};
use crate::{
    adapters::{
        git::Repo,
        machine::{self, Gap},
        process::{self, AgentProcess, GuardianCommand},
        signal,
    },
    core::{
        event::{RunEvent, ScheduleEvent},
        executor::shell_word,
        exit::{Exit, Failure},
        run::input::Input,
    },
    project::workspace::check_rights,
    regular_file,
};

/// The interval between two ticks of the reporters while a command of the run itself runs.
const TICK: Duration = Duration::from_secs(1);

/// Waits while git cannot read the repository, because a person is at work on its settings or rights. What
/// an attempt has damaged does not mend itself, so the wait is short.
pub(super) fn await_repository(runner: &mut Runner) -> Result<()> {
    /// The time between two looks.
    const LOOK: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(30);
    let (began, mut is_said) = (Instant::now(), false);
    let look = |root: &Path| Repo::discover(root)?.head();
    while let Err(error) = look(runner.core.cx.workspace.root()) {
        runner.core.journal.check_repository()?;
        let (until, why) =
            (Utc::now() + LONGEST, format!("git cannot read the repository: {error:#}"));
        if !mem::replace(&mut is_said, true) {
            runner.core.emit(None, RunEvent::Waiting { until, why })?;
        }
        while let Ok(message) = runner.inbox.receiver.try_recv() {
            match message {
                RunnerMessage::Signal(number) => runner.signalled(number)?,
                message => runner.inbox.later.push_back(message),
            }
        }
        let policy = &runner.core.cx.policy;
        if policy.stop.is_some()
            || began.elapsed() > policy.max_wait.min(LONGEST)
            || runner.core.is_ended_now()
        {
            break;
        }
        thread::sleep(LOOK);
        runner.core.journal.tick();
        runner.core.check_time_limit()?;
        runner.core.catch_up()?;
    }
    Ok(())
}

/// Returns what a person has done to the repository and explains that a run cannot go on, with the remedy;
/// otherwise the error.
pub(super) fn explained(core: &RunCore, error: Error) -> Error {
    if let Err(moved) = core.journal.check_repository() {
        return moved;
    }
    let workspace = &core.cx.workspace;
    if let Err(locked) = check_rights(workspace) {
        return locked;
    }
    let head = workspace.repo.git_dir().join("HEAD");
    match Repo::discover(workspace.root()).and_then(|found| found.head()) {
        Err(why) if !is_a_head(&head) => {
            let branch = core.cx.home.as_ref().or(core.cx.target.as_ref());
            let branch = branch.map_or("BRANCH", String::as_str);
            let file = shell_word(&head.display().to_string());
            let line = shell_word(&format!("ref: refs/heads/{branch}"));
            let mend = format!("`echo {line} > {file}` mends HEAD, and `ralph run` continues");
            Failure::new(Exit::Error, format!("{why:#}; {mend}")).into()
        }
        Err(_) | Ok(_) => error,
    }
}

/// Whether a file has what git needs in HEAD.
fn is_a_head(file: &Path) -> bool {
    let text = regular_file::read_to_string(file).unwrap_or_default();
    let text = text.trim();
    text.starts_with("ref: refs/")
        || (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Runner {
    /// Handles a signal: Ctrl-Z suspends the run; any other signal asks it to stop.
    pub(super) fn signalled(&mut self, number: i32) -> Result<()> {
        if number != signal::SUSPEND {
            let name = signal::name(number);
            self.core.cx.policy.stop.get_or_insert((number, name));
            self.proofs.stop();
            self.reviews.stop();
            return self.handle(Input::Signal(number, name));
        }
        // Suspends the run and its attempts until this process is continued.
        self.core.emit(None, RunEvent::Suspended {})?;
        self.processes.order_all(GuardianCommand::Freeze);
        let began = Instant::now();
        signal::suspend();
        let stood = began.elapsed();
        self.handle(Input::StoodStill(stood))?;
        self.processes.order_all(GuardianCommand::Thaw);
        self.clocks = machine::clocks();
        self.core
            .emit(None, RunEvent::Continued { seconds: stood.as_secs(), slept: false })
            .map(drop)
    }

    /// Detects that the machine slept or that the wall clock was set.
    pub(super) fn check_clocks(&mut self) -> Result<()> {
        let now = machine::clocks();
        let event = match mem::replace(&mut self.clocks, now).gap(&now) {
            None => return Ok(()),
            Some(Gap::Slept(length)) => {
                RunEvent::Continued { seconds: length.as_secs(), slept: true }
            }
            Some(Gap::Set(seconds)) => RunEvent::ClockSet { seconds },
        };
        self.core.emit(None, event).map(drop)
    }

    /// Runs a hook while still handling signals, requests and the heartbeat. Records a failure.
    pub(super) fn hook(&mut self, due: DueHook) -> Result<HookOutcome> {
        let task = due.task.clone();
        let hook_run = due.commands(&self.core.cx.workspace, self.core.journal.lock().folder())?;
        let Some(hook_run) = hook_run else { return Ok(HookOutcome::Passed) };
        let stopping = self.core.is_ended_now();
        let mut ticked = Instant::now();
        let ran = hook_run.run(|agent| {
            let may_continue = self.attend(agent, &mut ticked)?;
            Ok(may_continue && (stopping || !self.core.is_ended_now()))
        })?;
        if let HookOutcome::Failed(failed) = &ran {
            let about = task.as_ref().map(|(id, iteration)| (id, *iteration));
            self.core.emit(about, ScheduleEvent::HookFailed(failed.clone()))?;
        }
        Ok(ran)
    }

    /// Handles messages while a command of the run itself runs, and reports each second. Returns
    /// whether it may continue.
    pub(super) fn attend(&mut self, agent: &AgentProcess, ticked: &mut Instant) -> Result<bool> {
        let mut may_continue = true;
        while let Ok(message) = self.inbox.receiver.try_recv() {
            match message {
                RunnerMessage::Signal(signal::SUSPEND) => {
                    agent.order(GuardianCommand::Freeze);
                    self.signalled(signal::SUSPEND)?;
                    agent.order(GuardianCommand::Thaw);
                }
                RunnerMessage::Signal(number) => {
                    may_continue = false;
                    self.signalled(number)?;
                    if self.core.run.signals() > 1 {
                        agent.order(GuardianCommand::Kill);
                    }
                }
                message => self.inbox.later.push_back(message),
            }
        }
        self.check_clocks()?;
        self.core.check_time_limit()?;
        if self.core.journal.has_news() {
            self.core.catch_up()?;
        }
        if ticked.elapsed() >= TICK {
            *ticked = Instant::now();
            self.core.journal.tick();
        }
        Ok(may_continue)
    }

    /// Tells the sources of landed tasks that these are done. If the run is asked to stop, the next one
    /// makes up for this.
    pub(super) fn write_back(&mut self) -> Result<()> {
        let mut facts = Facts::default();
        let done = self.sources.mark_in_files(&self.core.cx, &self.core.graph.file, &mut facts);
        self.core.tell(facts)?;
        let done = match done {
            Err(error) if sources::is_stop(&error) => return Ok(()),
            done => done?,
        };
        for closing in sources::closings(&self.core.cx, self.core.journal.history(), &done)? {
            if self.core.is_ended_now() || self.core.cx.policy.stop.is_some() {
                return Ok(());
            }
            closing.begin();
            let (guardians, mut ticked) = (self.core.cx.guardians.clone(), Instant::now());
            let outcome =
                process::run_guarded(&guardians, &closing.spec, closing.limits, |agent| {
                    Ok::<_, Error>(self.attend(agent, &mut ticked)? && !self.core.is_ended_now())
                })?;
            let mut facts = Facts::default();
            let goes_on = self.sources.closed(&self.core.cx, closing, &outcome, &mut facts);
            self.core.tell(facts)?;
            if !goes_on? {
                break;
            }
        }
        Ok(())
    }
}
