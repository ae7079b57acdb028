//! The loop of a run over the owners of its state.
//!
//! One thread receives every message from one channel: a process ended, a signal arrived, time
//! passed. `core::run` decides what to do and returns commands. The loop hands each command to the
//! owner that carries it out, and turns the answer into the next input. Owners never call each
//! other: input from another is an argument, and findings are `Facts`, which the loop journals.
//! Owners make no policy decisions, but for the reasons to stop at a refused review or a failed
//! hook.

mod agents;
mod attempts;
mod attend;
mod away;
mod checkout;
mod checkout_graph;
mod close;
mod context;
mod core;
mod dispatch;
mod end;
mod engine;
mod follow_ups;
mod graph;
mod graph_copy;
mod graph_guard;
mod hooks;
mod journal;
mod kept_proof;
mod landing;
mod message;
mod process_spec;
mod processes;
mod proof;
mod proof_order;
mod reviewer;
mod side_agent;
mod side_command;
mod slots;
mod steps;
mod target;
mod trial_order;
mod whole;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use crate::{
    adapters::{
        git, machine,
        process::{self, GuardianCommand, GuardianProgram},
    },
    core::{
        duration,
        event::{RunEvent, StopReason},
        exit::{Exit, Failure},
        graph::TaskGraph,
        run::{Run, RunDecision, Situation, command::RunCommand},
        select::{Decision, View, Wait},
    },
    crash, fixed_limit,
    project::{
        config_layers,
        follower::{BUSY, LAST_BUSY},
        graph_file::GraphFile,
        take_back,
        workspace::{Workspace, policy_for},
    },
};

use self::core::RunCore;
pub use agents::{agents, agents_at, check_agent, check_commands, check_start, open, review_gap};
use attempts::RunAttempts;
use attend::Inbox;
use attend::{await_repository, explained};
use away::RunAway;
pub use context::RunOptions;
use context::{Facts, RunContext};
use graph::RunGraph;
use hooks::RunHooks;
pub use hooks::{HookOutcome, HookRun};
use journal::RunJournal;
pub use journal::{AT_WORK, Reporter, held};
use landing::{RunLanding, drop_trials};
use message::RunnerMessage;
use processes::Processes;
use proof::RunProofs;
use side_agent::SideAgents;
use slots::RunSlots;
use target::follow_rename;
pub use target::open_reset;
use whole::RunWhole;

/// The pause between two looks at a graph file that cannot be read.
const REREAD: Duration = Duration::from_secs(1);

/// The pause between two looks at the output of all processes while messages arrive.
const FOLLOW: Duration = Duration::from_millis(100);

/// A run: its decisions, and the owners of everything else.
pub struct Runner {
    core: RunCore,
    attempts: RunAttempts,
    processes: Processes,
    slots: RunSlots,
    landing: RunLanding,
    whole: RunWhole,
    away: RunAway,
    hooks: RunHooks,
    proofs: RunProofs,
    side_agents: SideAgents,
    inbox: Inbox,
    /// The time of the next decision while nothing can start.
    wake: Option<DateTime<Utc>>,
    /// When the output of the processes was last read.
    followed: Instant,
}

impl Runner {
    /// Takes the lock, reads the history and checks that the agents can be started.
    ///
    /// # Errors
    /// Another run is active, or an agent is missing; each has its own exit code.
    pub fn new(
        mut workspace: Workspace,
        file: GraphFile,
        options: RunOptions,
        reporters: Vec<Box<dyn Reporter>>,
    ) -> Result<Runner> {
        config_layers::check_own(workspace.repo.as_ref(), &workspace.layers)?;
        let policy = options.policy(&workspace);
        agents::check_start(&policy, &file, &workspace, &options)?;
        workspace.check_logs()?;
        let lock = workspace.lock()?;
        let Some(lock) = lock else {
            return Err(Failure::new(Exit::Running, held(&workspace)).into());
        };
        crash::point("run.locked");
        let home = workspace.repo.head()?.branch;
        let (slots, target) = RunSlots::of(&workspace, &policy)?;
        let graph = RunGraph::new(&workspace, file, target.as_deref())?;
        let mut store = workspace.event_store()?;
        take_back::settle(&workspace, &mut store)?;
        if store.history().paused {
            let message = attend::paused(&workspace, &store.history().run);
            return Err(Failure::new(Exit::Waiting, message).into());
        }
        let policy = policy_for(&workspace, policy, graph.file.graph(), store.history())?;
        let landing = RunLanding::of(store.history());
        process::adopt_orphans();
        workspace
            .state
            .remove_drafts(workspace.graph_path())
            .context("remove the unfinished files of a killed run")?;
        crash::point("run.swept");
        workspace.ignore_own_files()?;
        workspace.ignore_outputs()?;
        attend::bound_git(&workspace, &store);
        let inbox = Inbox::listening()?;
        let guardians =
            GuardianProgram::new(lock.folder()).context("hold the lock for the agents")?;
        let outbox = inbox.sender();
        Ok(Runner {
            core: RunCore {
                proves: false,
                cx: RunContext { workspace, options, policy, guardians, target, home, outbox },
                run: Run::default(),
                journal: RunJournal::new(store, reporters, lock),
                graph,
                clocks: machine::clocks(),
            },
            attempts: RunAttempts::default(),
            processes: Processes::default(),
            slots,
            landing,
            whole: RunWhole::default(),
            away: RunAway::default(),
            hooks: RunHooks::default(),
            proofs: RunProofs::default(),
            side_agents: SideAgents::default(),
            inbox,
            wake: None,
            followed: Instant::now(),
        })
    }

    /// Calls `see` with the view of the run before it starts.
    pub fn with_view<T>(&self, see: impl FnOnce(&View<'_>) -> T) -> T {
        self.core.with_view(see)
    }

    /// Runs until there is a reason to stop. Calls `told` at the start, when a request to stop ends
    /// its git commands.
    ///
    /// # Errors
    /// Any error that prevents the run from continuing. The end of the run is recorded if possible.
    pub fn run(mut self, told: impl FnOnce(&Workspace, &TaskGraph)) -> Result<StopReason> {
        // A reader that finds the run in the journal must also see that it is alive.
        self.core.journal.write_lock_holder(&self.core.cx, None)?;
        let begun = attend::begun(&self.core.cx, &self.core.view(&[]));
        away::cancel_left(&self.core.cx, &self.core.journal.history().run.id, false);
        self.core.emit(None, RunEvent::LoopStarted(begun))?;
        crash::point("run.begun");
        self.core.emit(None, self.core.graph.loaded())?;
        told(&self.core.cx.workspace, self.core.graph.file.graph());
        let result = match self.begin() {
            // A request to stop ended a git command.
            Err(error) if error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>) => {
                self.processes.order_all(GuardianCommand::Kill);
                let signal = self.core.cx.policy.stop.or_else(|| self.inbox.stop_signal());
                Ok(signal.map_or(StopReason::Stopped, |(it, name)| StopReason::Signal(it, name)))
            }
            result => result,
        };
        let result = result.map_err(|error| explained(&self.core, error));
        if result.is_err() {
            // No process may outlive the run that supervises it.
            self.processes.order_all(GuardianCommand::Kill);
            self.hooks.stop(false);
        }
        if let Ok(StopReason::Blocked(holders) | StopReason::NeedsInput(holders)) = &result {
            self.core.emit(None, RunEvent::Blocked { holders: holders.clone() })?;
        }
        let result = result.and_then(|reason| self.await_hooks().map(|()| reason));
        let result = result.and_then(|reason| self.await_proofs().map(|()| reason));
        let result = result.map(|reason| match (reason, self.whole.red.take()) {
            (StopReason::Complete | StopReason::SelectionComplete, Some(command)) => {
                StopReason::Red(command)
            }
            (reason, _) => reason,
        });
        let result = result.and_then(|reason| {
            drop_trials(&self.core.cx.workspace)?;
            self.landing.mark_standing(&mut self.core)?;
            let is_stopped = matches!(reason, StopReason::Signal(..));
            let longest = fixed_limit::lock().min(LAST_BUSY);
            let busy = if is_stopped { BUSY } else { longest };
            self.landing.follow(&mut self.core, busy)?;
            Ok(reason)
        });
        let result = result.map(|reason| self.core.with_proofs(reason));
        let run = &self.core.journal.history().run;
        let view = self.core.view(&[]);
        let (why, exit) = self.core.end_of(&result);
        let open = view.admitted().filter(|it| !view.graph.task(*it).status.is_over());
        let finished = RunEvent::Finished {
            why,
            exit_code: exit.code(),
            iterations: run.iterations - run.begun.before,
            completed: run.completed,
            remaining: open.count(),
            duration_seconds: duration::seconds(self.core.journal.elapsed()),
        };
        crash::point("run.over");
        let recorded = self.core.emit(None, finished);
        crash::point("run.finished");
        let recorded = recorded.and_then(|finished| {
            self.add_hook(RunHooks::after_run(&self.core.cx, &finished))?;
            self.await_hooks()?;
            // Unsent notifications are waited for, up to a limit or until a signal.
            while self.core.journal.is_any_reporter_busy() && !self.inbox.is_signalled() {}
            self.core.catch_up()
        });
        self.core.journal.save();
        away::cancel_left(&self.core.cx, self.core.journal.run_id(), true);
        let reason = result?;
        recorded?;
        Ok(reason)
    }

    /// Runs the hook before the run, recovers open attempts and enters the loop.
    fn begin(&mut self) -> Result<StopReason> {
        self.add_hook(RunHooks::before_run(&self.core.cx, self.core.journal.run_id()))?;
        self.await_hooks()?;
        if let Some(reason) = self.hooks.refused.take() {
            return Ok(reason);
        }
        agents::check_executors(&self.core.cx, self.core.graph.file.graph())?;
        let mut facts = Facts::default();
        engine::watch_suspects(&self.core.cx, &mut facts);
        self.core.tell(facts)?;
        self.recover()?;
        self.proofs.resume(&mut self.core, &self.slots, self.attempts.records());
        self.proofs.record_unmade(&mut self.core)?;
        self.core.open_reset()?;
        self.landing.follow(&mut self.core, BUSY)?;
        self.refresh()?;
        self.follow_history()?;
        loop {
            if let Some(reason) = self.turn()? {
                return Ok(reason);
            }
        }
    }

    /// Takes one turn. Returns why the run ends, if it does.
    fn turn(&mut self) -> Result<Option<StopReason>> {
        if let Some(reason) = self.hooks.refused.take() {
            return Ok(Some(reason));
        }
        self.refresh()?;
        self.reload_settings()?;
        if let Some(why) = git::unsigned().filter(|_| !self.core.journal.history().run.is_unsigned)
        {
            self.core.emit(None, RunEvent::CommitsUnsigned { why: why.to_owned() })?;
        }
        if !self.core.run.attempts().open().is_empty() {
            self.core.check_time_limit()?;
        }
        if let Some(reason) = reviewer::follow_waiting(self)? {
            return Ok(Some(reason));
        }
        let is_one_at_a_time = self.core.cx.workspace.config.verify_exclusive;
        self.proofs.turn.wait(is_one_at_a_time && self.core.run.attempts().any_check());
        let done_file = !self.core.run.attempts().any_process() && close::done_file(&self.core.cx)?;
        let now = Utc::now();
        let decide =
            |run: &mut Run, sit: &Situation<'_>| run.decide(&Situation { done_file, ..*sit }, now);
        match self.core.with_run(decide) {
            RunDecision::Act(commands) => self.carry_out(commands)?,
            RunDecision::Land(_) | RunDecision::Select(Decision::Start(_) | Decision::Stop(_))
                if self.hooks.is_busy() =>
            {
                self.wait(Wait::default())?;
            }
            RunDecision::Land(branch) => {
                let tip = self.landing.base_of_trial(&self.core.cx.workspace, &branch)?;
                if tip.is_none() && follow_rename(self, &branch)? {
                    return Ok(None);
                }
                let commands = self.core.with_run(|run, sit| run.land(tip.as_ref(), sit));
                self.carry_out(commands)?;
            }
            RunDecision::Select(Decision::Start(_)) if attend::holds_starts(self) => {
                self.wait(Wait::default())?;
            }
            RunDecision::Select(Decision::Start(key)) => {
                if let Some(target) = self.core.cx.target.clone()
                    && self.core.cx.workspace.repo.branch(&target)?.is_none()
                {
                    if self.core.run.landing().is_trying() {
                        self.wait(Wait::default())?;
                        return Ok(None);
                    }
                    if follow_rename(self, &target)? {
                        return Ok(None);
                    }
                }
                let seen = (self.core.graph.file.graph(), self.core.journal.history());
                let due =
                    self.hooks.before_attempt(&self.core.cx, seen, self.core.journal.run_id(), key);
                let Some(due) = due else {
                    self.carry_out(vec![RunCommand::Record(key)])?;
                    return Ok(None);
                };
                // The hook may change which task is next, so the run decides again then.
                self.add_hook(due)?;
            }
            RunDecision::Select(Decision::Wait(wait)) => self.wait(wait)?,
            RunDecision::Select(Decision::Stop(reason)) => {
                let goes_on = whole::precedes(&reason) && whole::verify(self)?;
                let is_last_word = matches!(reason.exit(), Exit::Success | Exit::Blocked);
                let goes_on = goes_on || (is_last_word && attend::awaits_graph(self)?);
                return Ok(Some(reason).filter(|_| !goes_on));
            }
        }
        Ok(None)
    }

    /// Waits for the next message, limit, heartbeat or wake-up, and handles it.
    fn wait(&mut self, wait: Wait) -> Result<()> {
        let now = Utc::now();
        let is_idle = self.core.with_view(|view| view.active.is_empty());
        if is_idle
            && let Some(until) = wait.until
            && self.wake.is_none_or(|wake| wake <= now)
        {
            self.wake = Some(until);
            self.core.emit(None, RunEvent::Waiting { until, why: wait.why })?;
        }
        let run = &self.core.journal.history().run;
        let end = self.core.cx.policy.budget.ends_at(run.started_at).filter(|end| *end > now);
        let review = reviewer::next_time(self);
        let wake = self.wake.into_iter().chain(wait.until).chain(end).chain(review).min();
        let pause = wake.map_or(Duration::MAX, |wake| (wake - now).to_std().unwrap_or_default());
        let beat = self.core.journal.interval();
        let limit = self.core.run.patience(Instant::now(), self.core.may_land());
        let reread = self.core.graph.unreadable.map(|_| REREAD);
        let look = self.landing.patience(Instant::now());
        let pause = [beat, limit, reread, look].into_iter().flatten().fold(pause, Duration::min);
        let (journal, processes, graph) =
            (&self.core.journal, &self.processes, &self.core.graph.file);
        let message = self.inbox.listen(pause, || {
            journal.has_news()
                || journal.check_repository().is_err()
                || processes.has_news(&self.core.cx, self.attempts.records(), graph)
        });
        let is_quiet = message.is_none();
        self.core.journal.check_repository()?;
        await_repository(self)?;
        // A request to end now also ends what `receive` ends.
        self.core.catch_up()?;
        self.receive(message)?;
        self.landing.look(&self.core.cx);
        self.core.check_clocks()?;
        self.refresh()?;
        if is_quiet || self.followed.elapsed() >= FOLLOW {
            self.follow()?;
            self.followed = Instant::now();
        }
        self.core.journal.tick();
        Ok(())
    }
}
