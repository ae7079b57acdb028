//! The points at which a run executes hooks, and the handling of messages meanwhile.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Runner, RunnerMessage};
use crate::{
    adapters::{process::AgentProcess, signal},
    core::{
        event::{Event, Hook, StopReason, record::Record},
        graph::task::TaskId,
        select::SelectionKey,
    },
    runner::hook_run::{HookOutcome, HookRun},
    view::lines::Verbosity,
    view::{
        lines::{self, Line},
        message::{MessageSender, facts},
    },
};

/// The interval between two ticks of the reporters.
const TICK: Duration = Duration::from_secs(1);

/// The context of a hook.
struct HookContext {
    /// The folder for its output.
    folder: String,
    /// The facts that the hook receives.
    facts: Map<String, Value>,
    /// The facts as text.
    lines: Vec<Line>,
    /// The task and the iteration.
    task: Option<(TaskId, u32)>,
}

/// The state that the hooks of a run share.
#[derive(Default)]
pub(super) struct RunHooks {
    /// The task and the number of the attempt whose `before_attempt` hook has run.
    passed: Option<(TaskId, u32)>,
    /// The end record of the attempt that is being released.
    pub(super) ended: Option<Record>,
}

impl Runner {
    /// Runs the hook before a run. Returns why the run must not start, if so.
    pub(super) fn before_run(&mut self) -> Result<Option<StopReason>> {
        let (facts, lines) = (self.facts_of_run(), vec![lines::plain("a run is about to begin")]);
        let folder = self.workspace.place.hooks().to_owned();
        let about = HookContext { folder, facts, lines, task: None };
        Ok(stop_of(self.hook(Hook::BeforeRun, about)?))
    }

    /// Runs the hook after a run; `finished` is the last record of the run.
    pub(super) fn after_run(&mut self, finished: &Record) -> Result<()> {
        let folder = self.workspace.place.hooks().to_owned();
        let lines = match &finished.event {
            Event::Finished { why, exit_code, .. } => format!("{why} (exit code {exit_code})"),
            _ => String::new(),
        };
        let lines = vec![lines::plain(&lines)];
        let about = HookContext { folder, facts: facts(finished), lines, task: None };
        self.hook(Hook::AfterRun, about).map(drop)
    }

    /// Runs the hook before an attempt. Returns why the run ends instead of starting the attempt,
    /// if so. The hook may have changed which task is next, so the caller decides again.
    pub(super) fn before_attempt(&mut self, key: SelectionKey) -> Result<Option<StopReason>> {
        let id = self.graph.file.graph().task(key.number).id.clone();
        let history = self.store.history();
        let (attempt, iteration) = (history.of(&id).attempts + 1, history.run.next_iteration());
        let mut facts = self.facts_of_run();
        facts.insert("task_id".to_owned(), json!(id));
        facts.insert("attempt".to_owned(), json!(attempt));
        facts.insert("iteration".to_owned(), json!(iteration));
        let folder = self.workspace.place.attempt(&id, attempt);
        let lines = vec![lines::plain(&format!("attempt {attempt} at {id} is about to begin"))];
        let about = HookContext { folder, facts, lines, task: Some((id.clone(), iteration)) };
        let ran = self.hook(Hook::BeforeAttempt, about)?;
        if ran == HookOutcome::Passed {
            self.hooks.passed = Some((id, attempt));
        }
        Ok(stop_of(ran))
    }

    /// Whether the hook before this attempt has run or does not exist.
    pub(super) fn is_prepared(&self, key: SelectionKey) -> bool {
        let id = &self.graph.file.graph().task(key.number).id;
        let attempt = self.store.history().of(id).attempts + 1;
        self.workspace.config.hooks.of(Hook::BeforeAttempt).is_empty()
            || self
                .hooks
                .passed
                .as_ref()
                .is_some_and(|(task, number)| task == id && *number == attempt)
    }

    /// Runs the hook after an attempt whose end was just recorded.
    pub(super) fn after_attempt(&mut self) -> Result<()> {
        let Some(ended) = self.hooks.ended.take() else {
            return Ok(());
        };
        let task = ended.task_id.clone().zip(ended.iteration);
        let lines = lines::lines(&ended, &self.view(&[]), Verbosity::Normal);
        let folder = ended.event.ended().map(|ended| ended.log.clone()).unwrap_or_default();
        let about = HookContext { folder, facts: facts(&ended), lines, task };
        self.hook(Hook::AfterAttempt, about).map(drop)
    }

    fn facts_of_run(&self) -> Map<String, Value> {
        Map::from_iter([("run_id".to_owned(), json!(self.store.run_id()))])
    }

    /// Runs a hook while still handling signals, requests and the heartbeat. Records a failure.
    fn hook(&mut self, hook: Hook, about: HookContext) -> Result<HookOutcome> {
        let HookContext { folder, facts, lines, task } = about;
        let message = || MessageSender::of(&self.workspace).message(hook.word(), facts, &lines);
        let lock = self.lock.folder();
        let Some(hook_run) = HookRun::new(&self.workspace, hook, &folder, message, lock)? else {
            return Ok(HookOutcome::Passed);
        };
        let stopping = self.is_ended_now();
        let mut ticked = Instant::now();
        let ran = hook_run.run(|agent| {
            let may_continue = self.attend_and_tick(agent, &mut ticked)?;
            Ok(may_continue && (stopping || !self.is_ended_now()))
        })?;
        if let HookOutcome::Failed(failed) = &ran {
            let about = task.as_ref().map(|(id, iteration)| (id, *iteration));
            self.emit(about, Event::HookFailed(failed.clone()))?;
        }
        Ok(ran)
    }

    /// Handles messages while a command of the run itself runs, and reports each second. Returns
    /// whether it may continue.
    pub(super) fn attend_and_tick(
        &mut self,
        agent: &AgentProcess,
        ticked: &mut Instant,
    ) -> Result<bool> {
        let may_continue = self.attend(agent)?;
        if ticked.elapsed() >= TICK {
            *ticked = Instant::now();
            self.tick();
        }
        Ok(may_continue)
    }

    /// Handles messages that arrive while a hook runs. Returns whether the hook may continue.
    fn attend(&mut self, agent: &AgentProcess) -> Result<bool> {
        let mut may_continue = true;
        while let Ok(message) = self.inbox.receiver.try_recv() {
            match message {
                RunnerMessage::Signal(signal::SUSPEND) => {
                    agent.freeze();
                    self.signalled(signal::SUSPEND)?;
                    agent.thaw();
                }
                RunnerMessage::Signal(number) => {
                    may_continue = false;
                    self.signalled(number)?;
                    if self.run.signals() > 1 {
                        agent.kill();
                    }
                }
                message => self.inbox.later.push_back(message),
            }
        }
        self.check_clocks()?;
        if self.store.has_news() {
            let records = self.store.catch_up()?;
            self.publish(&records);
        }
        Ok(may_continue)
    }

    /// Whether an immediate stop was requested.
    pub(super) fn is_ended_now(&self) -> bool {
        self.store.history().run.stop.as_ref().is_some_and(|stop| stop.now)
    }

    /// Waits for unsent notifications, up to a limit or until a signal.
    pub(super) fn drain(&mut self) -> Result<()> {
        while self.reporters.iter_mut().any(|reporter| reporter.is_busy()) {
            if let Ok(RunnerMessage::Signal(_)) =
                self.inbox.receiver.recv_timeout(Duration::from_millis(20))
            {
                break;
            }
        }
        let records = self.store.catch_up()?;
        self.publish(&records);
        Ok(())
    }
}

/// Returns why a run ends after a hook that precedes a run or an attempt.
fn stop_of(ran: HookOutcome) -> Option<StopReason> {
    match ran {
        HookOutcome::Failed(failed) => {
            let why = format!("{failed}; fix it, or remove it from `hooks`");
            Some(StopReason::HookFailed(why))
        }
        HookOutcome::Passed | HookOutcome::Cancelled => None,
    }
}
