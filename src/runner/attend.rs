//! What a run does at any time: it receives messages, handles signals, and suspends itself.

use std::{
    collections::VecDeque,
    mem,
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result};
use chrono::Utc;

use super::{
    Runner, RunnerMessage, attempts,
    context::RunContext,
    core::RunCore,
    hooks::{DueHook, HookOutcome},
    reviewer,
};
use crate::{
    adapters::{
        git::{self, Repo},
        machine,
        process::{self, GuardianCommand},
        signal,
    },
    core::{
        event::{Begun, RunEvent, SCHEMA, ScheduleEvent, StopReason},
        executor::shell_word,
        exit::{Exit, Failure},
        history::RunHistory,
        run::{command::AttemptId, input::Input},
        select::{View, Wait, default_iterations},
    },
    project::{
        event_store::EventStore,
        workspace::{self, Workspace, check_rights},
    },
    regular_file,
};

/// Waits while git cannot read the repository, because a person is at work on its settings or
/// rights. Damage by an attempt does not mend itself, so the wait is short.
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

/// Returns the change by a person to the repository that explains why a run cannot go on, with the
/// remedy; otherwise the error.
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

/// Whether a file is a valid HEAD for git.
fn is_a_head(file: &Path) -> bool {
    let text = regular_file::read_to_string(file).unwrap_or_default();
    let text = text.trim();
    text.starts_with("ref: refs/")
        || (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether no task can start: the graph file cannot be read, so that nothing could be claimed in it, or no
/// work could be reviewed.
pub(super) fn holds_starts(runner: &Runner) -> bool {
    let graph = &runner.core.graph;
    (graph.unreadable.is_some() && !graph.is_read_only())
        || reviewer::out_of_reach(runner).is_some()
}

/// Whether the graph file may be in the middle of being saved, or can be read again; waits a little. A run
/// cannot tell from an unreadable file whether all is done.
pub(super) fn awaits_graph(runner: &mut Runner) -> Result<bool> {
    if runner.core.graph.unreadable.is_none() {
        return Ok(false);
    }
    if runner.core.graph.is_half_saved() {
        runner.wait(Wait::default())?;
        return Ok(true);
    }
    match runner.core.graph.refresh(&runner.core.cx.workspace)? {
        Ok(_) => Ok(true),
        Err(rejected) => Err(workspace::refused(&rejected)),
    }
}

/// Ends an agent at work whose cost so far has reached the limit of its task.
pub(super) fn follow_cost(runner: &mut Runner, id: &AttemptId, cost: Option<f64>) -> Result<()> {
    let history = runner.core.journal.history();
    let left = attempts::task_cost_left(history, runner.core.graph.file.graph(), &id.task_id);
    if left.zip(cost).is_some_and(|(left, cost)| cost >= left) {
        let why = "`max_cost` of its task is reached".to_owned();
        runner.handle(Input::EndAgent(id.clone(), why))?;
    }
    Ok(())
}

impl Runner {
    /// Handles a signal: Ctrl-Z suspends the run; any other signal asks it to stop.
    pub(super) fn signalled(&mut self, number: i32) -> Result<()> {
        if number != signal::SUSPEND {
            let name = signal::name(number);
            self.core.cx.policy.stop.get_or_insert((number, name));
            self.stop_jobs(false);
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
        self.core.clocks = machine::clocks();
        self.core
            .emit(None, RunEvent::Continued { seconds: stood.as_secs(), slept: false })
            .map(drop)
    }

    /// Ends the jobs that a stop ends; `at_end` says that only the end of the run asks for it.
    pub(super) fn stop_jobs(&mut self, at_end: bool) {
        self.proofs.stop();
        self.side_agents.stop();
        self.hooks.stop(at_end);
        self.whole.stop();
    }

    /// Adds a hook, which begins once those before it have ended.
    pub(super) fn add_hook(&mut self, due: DueHook) -> Result<()> {
        self.hooks.due.push_back(due);
        self.begin_hook()
    }

    fn begin_hook(&mut self) -> Result<()> {
        let (lock, is_last) = (self.core.journal.lock().folder(), self.core.is_ended_now());
        self.hooks.begin(&self.core.cx, lock, is_last)
    }

    /// Handles the end of a hook. Records a failure.
    pub(super) fn hook_ended(&mut self, ran: Result<HookOutcome>) -> Result<()> {
        let ran = ran?;
        let task = self.hooks.take_end(&ran);
        if let HookOutcome::Failed(failed) = ran {
            let about = task.as_ref().map(|(id, iteration)| (id, *iteration));
            self.core.emit(about, ScheduleEvent::HookFailed(failed))?;
        }
        self.begin_hook()
    }

    /// Waits until no hook is at work or due.
    pub(super) fn await_hooks(&mut self) -> Result<()> {
        while self.hooks.is_busy() {
            self.wait(Wait::default())?;
        }
        Ok(())
    }
}

// The inputs of a running run: messages of its threads, signals, and records that `ralph pause`,
// `resume` and `stop` write to the journal. `core::run` decides the reaction.

/// The interval for checking the length of the journal for requests, and the files for reports.
const LOOK: Duration = Duration::from_secs(1);

/// The messages to a run.
pub(super) struct Inbox {
    pub(super) receiver: Receiver<RunnerMessage>,
    sender: Sender<RunnerMessage>,
    /// Messages that arrived while the repository could not be read.
    pub(super) later: VecDeque<RunnerMessage>,
}

impl Inbox {
    /// Returns an inbox that receives the signals to this process. A closed terminal ends no run.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(super) fn listening() -> Result<Inbox> {
        let (sender, receiver) = mpsc::channel();
        let inbox = Inbox { receiver, sender, later: VecDeque::new() };
        let signals = inbox.sender();
        signal::listen(move |number| {
            if number == signal::HANGUP {
                return;
            }
            if number != signal::SUSPEND {
                // The loop itself may wait for git.
                git::stop_calls();
            }
            drop(signals.send(RunnerMessage::Signal(number)));
        })
        .context("listen for signals")?;
        Ok(inbox)
    }

    /// Returns the signal that asks the run to stop among the messages that are not handled yet.
    pub(super) fn stop_signal(&mut self) -> Option<(i32, &'static str)> {
        self.later.extend(self.receiver.try_iter());
        let stops = |message: &RunnerMessage| match message {
            RunnerMessage::Signal(number) if *number != signal::SUSPEND => Some(*number),
            _ => None,
        };
        self.later.iter().find_map(stops).map(|number| (number, signal::name(number)))
    }

    /// Returns the next message, or `None` when `pause` is over, `has_news` says that
    /// another process has written to the journal, or that an agent may have reported.
    pub(super) fn listen(
        &mut self,
        pause: Duration,
        has_news: impl Fn() -> bool,
    ) -> Option<RunnerMessage> {
        if let Some(message) = self.later.pop_front() {
            return Some(message);
        }
        let began = Instant::now();
        loop {
            let left = pause.saturating_sub(began.elapsed());
            match self.receiver.recv_timeout(left.min(LOOK)) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) if left <= LOOK || has_news() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the inbox holds a sender"),
            }
        }
    }

    /// Whether a signal arrives within a moment.
    pub(super) fn is_signalled(&self) -> bool {
        let message = self.receiver.recv_timeout(Duration::from_millis(20));
        matches!(message, Ok(RunnerMessage::Signal(_)))
    }

    /// Returns a sender for a thread or a callback.
    pub(super) fn sender(&self) -> Sender<RunnerMessage> {
        self.sender.clone()
    }
}

/// Says that no run starts in a pause, and the remedy.
pub(super) fn paused(workspace: &Workspace, newest: &RunHistory) -> String {
    let name = workspace.place.name().cloned();
    let starts = if name.is_some() { "ralph loop" } else { "ralph run" };
    if newest.was_cut_short() {
        return StopReason::Paused(name).to_string();
    }
    let flag = workspace.place.flag();
    format!("paused; `ralph resume{flag}` lifts the pause, then `{starts}` starts a run")
}

/// Returns the options of the run as they are recorded, so that `ralph resume` can start an
/// equal run.
pub(super) fn begun(cx: &RunContext, view: &View<'_>) -> Begun {
    let (policy, workspace) = (&cx.policy, &cx.workspace);
    Begun {
        graph: workspace.other_graph().map(Path::to_owned),
        config: workspace.layers.named().map(Path::to_owned),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        agent: policy.agents.first().map(|call| call.argv.clone()).unwrap_or_default(),
        agents: cx.options.agents.clone().unwrap_or_default(),
        branch: cx.target.clone(),
        max_iterations: policy
            .max_iterations
            .unwrap_or_else(|| cx.options.before.saturating_add(default_iterations(view))),
        before: cx.options.before,
        tmux: cx.options.tmux,
        run_on: cx.options.run_on.clone(),
        max_attempts: if policy.plain.is_some() { 0 } else { policy.max_attempts },
        timeout_seconds: Some(workspace.config.timeout.as_secs_f64()),
        idle_seconds: Some(workspace.config.idle.as_secs_f64()),
        flags: workspace.layers.flags().clone(),
        once: policy.once,
        wait: policy.wait,
        filter: policy.filter.words(),
        plain: policy.plain.clone(),
    }
}

/// Limits the git commands of a run: a request to stop ends them, also while the loop waits for one.
/// Those that a killed run left running are ended.
pub(super) fn bound_git(workspace: &Workspace, store: &EventStore) {
    /// The variable that names the folder of the run that git works for.
    const GIT_OF: &str = "RALPH_GIT_OF";
    let folder = workspace.state.dir();
    let last = &store.history().run;
    if !last.id.is_empty() && last.finished.is_none() {
        let entry = format!("{GIT_OF}={}", folder.display());
        process::kill_marked(Some(&entry), &folder.join(GIT_OF));
    }
    git::mark_calls(GIT_OF, &folder.display().to_string());
    git::ask_while_waiting(store.stop_request());
}
