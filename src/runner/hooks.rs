//! The places at which a run runs the hooks of the settings, and how it lives on meanwhile.

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

/// Between two ticks of the reporters.
const TICK: Duration = Duration::from_secs(1);

/// What a hook is about.
struct HookContext {
    /// Where its output goes.
    folder: String,
    /// What it is told.
    facts: Map<String, Value>,
    /// That in words.
    lines: Vec<Line>,
    /// Its task and iteration.
    task: Option<(TaskId, u32)>,
}

/// What the hooks of a run need to know of each other.
#[derive(Default)]
pub(super) struct RunHooks {
    /// The task and the number of the attempt before which the hook has been run.
    passed: Option<(TaskId, u32)>,
    /// The end of the attempt that is being released.
    pub(super) ended: Option<Record>,
}

impl Runner {
    /// The hook before a run: why that does not begin, if so.
    pub(super) fn before_run(&mut self) -> Result<Option<StopReason>> {
        let (facts, lines) = (self.facts_of_run(), vec![lines::plain("a run is about to begin")]);
        let folder = self.workspace.place.hooks().to_owned();
        let about = HookContext { folder, facts, lines, task: None };
        Ok(stop_of(self.hook(Hook::BeforeRun, about)?))
    }

    /// The hook after a run, of which this is the last line.
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

    /// The hook before an attempt: whether that may begin, or why the run ends instead. It may have
    /// changed what is to be done next, so that this is decided again after it.
    pub(super) fn before_attempt(&mut self, key: SelectionKey) -> Result<Option<StopReason>> {
        let id = self.graph.file.graph().task(key.number).id.clone();
        let history = self.store.history();
        let (attempt, iteration) = (history.of(&id).attempts + 1, history.run.iterations + 1);
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

    /// Whether the hook before this attempt has been run, or there is none.
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

    /// The hook after an attempt, whose end was journalled just now.
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

    /// Runs a hook, while signals, requests and the heartbeat go on. A failure is put on record.
    fn hook(&mut self, hook: Hook, about: HookContext) -> Result<HookOutcome> {
        let HookContext { folder, facts, lines, task } = about;
        let message = || MessageSender::of(&self.workspace).message(hook.word(), facts, &lines);
        let lock = self.lock.folder();
        let Some(errand) = HookRun::new(&self.workspace, hook, &folder, message, lock)? else {
            return Ok(HookOutcome::Passed);
        };
        let stopping = self.is_ended_now();
        let mut ticked = Instant::now();
        let ran = errand.run(|agent| {
            let goes_on = self.attend(agent)?;
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
            }
            Ok(goes_on && (stopping || !self.is_ended_now()))
        })?;
        if let HookOutcome::Failed(failed) = &ran {
            let about = task.as_ref().map(|(id, iteration)| (id, *iteration));
            self.emit(about, Event::HookFailed(failed.clone()))?;
        }
        Ok(ran)
    }

    /// Deals with what has come while a hook runs: whether that may go on.
    fn attend(&mut self, agent: &AgentProcess) -> Result<bool> {
        let mut goes_on = true;
        while let Ok(message) = self.inbox.receiver.try_recv() {
            match message {
                RunnerMessage::Signal(signal::SUSPEND) => {
                    agent.freeze();
                    self.signalled(signal::SUSPEND)?;
                    agent.thaw();
                }
                RunnerMessage::Signal(number) => {
                    goes_on = false;
                    self.signalled(number)?;
                    if self.run.signals() > 1 {
                        agent.kill();
                    }
                }
                message => self.inbox.later.push_back(message),
            }
        }
        self.look_at_clocks()?;
        if self.store.has_news() {
            let records = self.store.catch_up()?;
            self.tell(&records);
        }
        Ok(goes_on)
    }

    /// Whether the run was asked to end at once.
    pub(super) fn is_ended_now(&self) -> bool {
        self.store.history().run.stop.as_ref().is_some_and(|stop| stop.now)
    }

    /// Waits for those who are to be told and have not been yet: for a while, or until a signal.
    pub(super) fn drain(&mut self) -> Result<()> {
        while self.reporters.iter_mut().any(|reporter| reporter.is_busy()) {
            if let Ok(RunnerMessage::Signal(_)) =
                self.inbox.receiver.recv_timeout(Duration::from_millis(20))
            {
                break;
            }
        }
        let records = self.store.catch_up()?;
        self.tell(&records);
        Ok(())
    }
}

/// Why a run ends after a hook that came before something.
fn stop_of(ran: HookOutcome) -> Option<StopReason> {
    match ran {
        HookOutcome::Failed(failed) => {
            let why = format!("{failed}; mend it, or take it out of `hooks`");
            Some(StopReason::HookFailed(why))
        }
        HookOutcome::Passed | HookOutcome::Cancelled => None,
    }
}
