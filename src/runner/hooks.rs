//! Hooks: commands from the settings that run before and after runs and attempts, and when `ralph
//! schedule` wakes.
//!
//! Hooks run one after the other. While one does, no attempt starts and nothing lands; attempts that
//! run already go on, with their limits. Each has its own guardian, so that no process that it started
//! outlives it.

use std::{
    collections::VecDeque,
    fs::{self, File},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{RunnerMessage, context::RunContext};
use crate::{
    adapters::{
        agent_output,
        process::{self, GuardianProgram, GuardianSpec, ProcessSpec},
    },
    core::{
        duration,
        event::{Event, Hook, HookFailed, RunEvent, StopReason, record::Record},
        graph::{TaskGraph, task::TaskId},
        history::History,
        select::{SelectionKey, View},
        verdict::{CheckResult, Outcome},
    },
    fixed_limit,
    project::workspace::Workspace,
    regular_file,
    view::{
        lines::{self, Line, Verbosity},
        message::{self, MessageSender, ProgramMessage},
    },
};

/// The commands of one hook, ready to run.
#[derive(Debug)]
pub struct HookRun {
    hook: Hook,
    commands: Vec<String>,
    /// The folder for output, relative to the repository.
    folder: String,
    root: PathBuf,
    message: ProgramMessage,
    limits: (Duration, Duration),
    /// They hold a lock until the last process has ended.
    guardians: GuardianProgram,
}

/// The result of a hook.
#[derive(Clone, Debug, PartialEq)]
pub enum HookOutcome {
    /// All commands succeeded.
    Passed,
    /// A command failed; later commands did not run.
    Failed(HookFailed),
    /// A command was ended on request.
    Cancelled,
}

impl HookRun {
    /// Returns the commands that the settings have for this hook, if any. Output goes to `folder`,
    /// relative to the repository. The guardians keep `lock` open as a sign that a process still
    /// runs.
    pub fn new(
        workspace: &Workspace,
        hook: Hook,
        folder: &str,
        message: impl FnOnce() -> ProgramMessage,
        lock: &File,
    ) -> Result<Option<HookRun>> {
        let commands = workspace.config.hooks.of(hook);
        if commands.is_empty() {
            return Ok(None);
        }
        Ok(Some(HookRun {
            hook,
            commands: commands.to_vec(),
            folder: folder.to_owned(),
            root: workspace.root().to_owned(),
            message: message(),
            limits: (fixed_limit::hook(), workspace.config.grace),
            guardians: GuardianProgram::new(lock).context("hold the lock for a hook")?,
        }))
    }

    /// Runs the commands in order and stops at the first that fails. `goes_on` says
    /// whether the command may continue.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn run(self, mut goes_on: impl FnMut() -> bool) -> Result<HookOutcome> {
        let message_file = self.root.join(&self.folder).join(format!("{}.json", self.hook));
        regular_file::write(&message_file, format!("{}\n", self.message.json).as_bytes())
            .with_context(|| format!("write `{}`", message_file.display()))?;
        for (at, command) in self.commands.iter().enumerate() {
            let log = format!("{}/{}-{}.log", self.folder, self.hook, at + 1);
            let output = self.root.join(&log);
            // Remove the log of an earlier hook run.
            let _ = fs::remove_file(&output);
            let spec = ProcessSpec {
                argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
                dir: self.root.clone(),
                env: self.message.variables.clone(),
                env_remove: message::inherited(),
                stdin: message_file.clone(),
                stdout: output.clone(),
                stderr: output.clone(),
            };
            let spec = GuardianSpec::new(spec, message_file.clone());
            let began = Instant::now();
            let outcome = process::run_guarded(&self.guardians, &spec, self.limits, &mut goes_on);
            if outcome == Outcome::Cancelled {
                return Ok(HookOutcome::Cancelled);
            }
            let check = CheckResult {
                command: command.clone(),
                outcome,
                duration_seconds: duration::seconds(began.elapsed()),
                last_line: agent_output::last_line(&output),
                no_test: false,
                log,
            };
            if !check.is_green() {
                return Ok(HookOutcome::Failed(HookFailed { hook: self.hook, check }));
            }
        }
        Ok(HookOutcome::Passed)
    }
}

/// A due hook and its input.
pub(super) struct DueHook {
    pub(super) hook: Hook,
    /// The folder for its output.
    folder: String,
    /// The facts that the hook receives.
    facts: Map<String, Value>,
    /// The facts as text.
    lines: Vec<Line>,
    /// The task and the iteration.
    pub(super) task: Option<(TaskId, u32)>,
}

impl DueHook {
    /// Returns its commands, if the settings have any. The guardians keep `lock` open.
    pub(super) fn commands(self, workspace: &Workspace, lock: &File) -> Result<Option<HookRun>> {
        let DueHook { hook, folder, facts, lines, task: _ } = self;
        let message = || MessageSender::of(workspace).message(hook.word(), facts, &lines);
        HookRun::new(workspace, hook, &folder, message, lock)
    }
}

/// The hook at work.
struct ActiveHook {
    hook: Hook,
    task: Option<(TaskId, u32)>,
    /// Whether it is to end.
    stop: Arc<AtomicBool>,
    /// Whether it began after the order to end at once.
    is_last: bool,
}

/// The hooks of a run.
#[derive(Default)]
pub(super) struct RunHooks {
    /// The hooks that are due, after the one at work.
    pub(super) due: VecDeque<DueHook>,
    active: Option<ActiveHook>,
    /// Why the run ends, since a hook before it or before an attempt failed.
    pub(super) refused: Option<StopReason>,
    /// The task and the iteration of the attempt whose `before_attempt` hook has run.
    passed: Option<(TaskId, u32)>,
    /// The end record of the attempt that is being released.
    pub(super) ended: Option<Record>,
}

impl RunHooks {
    /// Whether a hook is at work or due.
    pub(super) fn is_busy(&self) -> bool {
        self.active.is_some() || !self.due.is_empty()
    }

    /// Begins the next hook unless one is at work; `is_last` says whether the run is to end at once.
    pub(super) fn begin(&mut self, cx: &RunContext, lock: &File, is_last: bool) -> Result<()> {
        while self.active.is_none()
            && let Some(due) = self.due.pop_front()
        {
            let (hook, task) = (due.hook, due.task.clone());
            let Some(run) = due.commands(&cx.workspace, lock)? else {
                self.ended(&HookOutcome::Passed, hook, task.as_ref());
                continue;
            };
            let (stop, outbox) = (Arc::<AtomicBool>::default(), cx.outbox.clone());
            let asked = Arc::clone(&stop);
            thread::spawn(move || {
                let ran = run.run(|| !asked.load(Ordering::Relaxed));
                drop(outbox.send(RunnerMessage::HookEnded(ran)));
            });
            self.active = Some(ActiveHook { hook, task, stop, is_last });
        }
        Ok(())
    }

    /// Takes the end of the hook at work. Returns its task and iteration.
    pub(super) fn take_end(&mut self, ran: &HookOutcome) -> Option<(TaskId, u32)> {
        let ActiveHook { hook, task, .. } = self.active.take()?;
        self.ended(ran, hook, task.as_ref());
        task
    }

    fn ended(&mut self, ran: &HookOutcome, hook: Hook, task: Option<&(TaskId, u32)>) {
        match (ran, hook) {
            (HookOutcome::Failed(failed), Hook::BeforeRun | Hook::BeforeAttempt) => {
                let why = format!("{failed}; fix it, or remove it from `hooks`");
                self.refused = Some(StopReason::HookFailed(why));
            }
            (HookOutcome::Passed, Hook::BeforeAttempt) => {
                self.passed = task.map(|(id, iteration)| (id.clone(), *iteration));
            }
            _ => {}
        }
    }

    /// Has the hook at work end; `at_end` says that only the end of the run asks for it, which it may have
    /// begun in.
    pub(super) fn stop(&self, at_end: bool) {
        if let Some(active) = self.active.as_ref().filter(|active| !(at_end && active.is_last)) {
            active.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the hook before a run.
    pub(super) fn before_run(cx: &RunContext, run_id: &str) -> DueHook {
        let folder = cx.workspace.place.hooks().to_owned();
        let (facts, lines) = (facts_of_run(run_id), vec![lines::plain("a run is about to begin")]);
        DueHook { hook: Hook::BeforeRun, folder, facts, lines, task: None }
    }

    /// Returns the hook after a run; `finished` is the last record of the run.
    pub(super) fn after_run(cx: &RunContext, finished: &Record) -> DueHook {
        let folder = cx.workspace.place.hooks().to_owned();
        let lines = match &finished.event {
            Event::Run(RunEvent::Finished { why, exit_code, .. }) => {
                format!("{why} (exit code {exit_code})")
            }
            _ => String::new(),
        };
        let lines = vec![lines::plain(&lines)];
        DueHook { hook: Hook::AfterRun, folder, facts: finished.fields(), lines, task: None }
    }

    /// Returns the hook before the next attempt at a task; none if it has run or does not exist. If it
    /// passes, the attempt may start.
    pub(super) fn before_attempt(
        &self,
        cx: &RunContext,
        (graph, history): (&TaskGraph, &History),
        run_id: &str,
        key: SelectionKey,
    ) -> Option<DueHook> {
        let id = graph.task(key.number).id.clone();
        let (attempt, iteration) = (history.of(&id).attempts + 1, history.run.next_iteration());
        if cx.workspace.config.hooks.of(Hook::BeforeAttempt).is_empty()
            || self.passed.as_ref() == Some(&(id.clone(), iteration))
        {
            return None;
        }
        let mut facts = facts_of_run(run_id);
        facts.insert("task_id".to_owned(), json!(id));
        facts.insert("attempt".to_owned(), json!(attempt));
        facts.insert("iteration".to_owned(), json!(iteration));
        let folder = cx.workspace.place.attempt(&id, attempt);
        let lines = vec![lines::plain(&format!("attempt {attempt} at {id} is about to begin"))];
        let (hook, task) = (Hook::BeforeAttempt, Some((id, iteration)));
        Some(DueHook { hook, folder, facts, lines, task })
    }

    /// Returns the hook after the attempt whose end was just recorded.
    pub(super) fn after_attempt(&mut self, view: &View<'_>) -> Option<DueHook> {
        let ended = self.ended.take()?;
        let task = ended.task_id.clone().zip(ended.iteration);
        let lines = lines::lines(&ended, view, Verbosity::Normal);
        let folder = ended.event.ended().map(|ended| ended.log.clone()).unwrap_or_default();
        Some(DueHook { hook: Hook::AfterAttempt, folder, facts: ended.fields(), lines, task })
    }
}

fn facts_of_run(run_id: &str) -> Map<String, Value> {
    Map::from_iter([("run_id".to_owned(), json!(run_id))])
}
