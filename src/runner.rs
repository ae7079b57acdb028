//! The loop of a run, the only owner of its mutable state.
//!
//! One thread receives every message from one channel: a process ended, a signal arrived, time
//! passed. `core::run` decides what to do and returns commands. This module carries them out and
//! makes no policy decisions.

mod agents;
mod apply;
mod close;
mod edits;
mod fetch;
mod git_calls;
mod graph_copy;
mod harm;
pub mod hook_run;
mod hooks;
mod isolated;
mod landing;
mod options;
mod placement;
mod plain;
mod process_spec;
mod processes;
mod reach;
pub mod reporter;
mod requests;
mod start;
mod watch;
mod write_back;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{DateTime, Local, Utc};

use crate::{
    adapters::{
        clock,
        process::{self, AgentProcess, GuardianPool, ProcessNews},
        state::Lock,
        tmux,
    },
    core::{
        agents::promise::Worth,
        duration,
        event::{Event, StopReason, record::Record},
        executor::{Executor, ExecutorFault, JobState},
        exit::{Exit, Failure},
        graph::task::{Status, TaskId},
        run::{
            OpenWork, Run, RunDecision, Situation,
            command::{AttemptId, RunCommand},
            input::{BuiltBatch, LandOutcome},
            process_watch::GracePeriods,
        },
        select::{Active, Decision, Policy, View, Wait},
    },
    crash,
    project::{
        attempt::AttemptRecord,
        event_store::EventStore,
        fatal,
        graph_file::{GraphFile, rfc3339},
        slot_pool::PreparedSlot,
        suspect_slots::SuspectSlot,
        task_commits::TaskCommits,
        workspace::{LockHolder, Workspace},
    },
    runner::reporter::Reporter,
};

pub use agents::{agents, agents_at, check_agent, check_commands, open};
use edits::RunGraph;
use hooks::RunHooks;
use isolated::RunSlots;
pub use options::RunOptions;
pub use process_spec::draft_agent;
use processes::Processes;
use reach::{ClosedProcess, EngineWord};
use requests::Inbox;
use write_back::RunSources;

/// The time that an unreadable graph file has to become valid: an editor may be saving it.
const HALF_SAVED: Duration = Duration::from_secs(3);

/// The pause between two looks at a graph file that cannot be read.
const REREAD: Duration = Duration::from_secs(1);

/// The pause between two looks at the output of all processes while messages arrive.
const FOLLOW: Duration = Duration::from_millis(100);

/// A message to the run.
enum RunnerMessage {
    /// The process of an attempt reported something.
    News(AttemptId, ProcessNews),
    /// The slot of an attempt was prepared, or preparing it failed.
    Prepared(AttemptId, Result<PreparedSlot>),
    /// The executor of an attempt does not answer, for this reason.
    Missed(AttemptId, ExecutorFault),
    /// The cluster told where the job of an attempt stands.
    Job(AttemptId, JobState),
    /// The executor of an attempt can be asked for its work, or cannot, for this reason.
    MayFetch(AttemptId, Result<Executor, String>),
    /// The executor of an attempt is not asked for its work any more.
    NotAsked(AttemptId),
    /// The engine of an executor told what became of a process.
    Engine(AttemptId, Box<ClosedProcess>, EngineWord),
    /// Why a process of an earlier attempt may still work in a slot; none once it is proven that none
    /// does.
    Suspicion(SuspectSlot, Option<String>),
    /// The merge queue built a batch, or failed to.
    Built(Result<BuiltBatch>),
    /// The target branch was moved, or moving it failed.
    Landed(Result<LandOutcome>),
    /// A signal arrived.
    Signal(i32),
}

/// A run and its resources.
pub struct Runner {
    workspace: Workspace,
    options: RunOptions,
    policy: Policy,
    guardians: GuardianPool,
    lock: Lock,
    store: EventStore,
    reporters: Vec<Box<dyn Reporter>>,
    /// The decisions of the run.
    run: Run,
    /// The records of the open attempts, as stored on disk.
    records: BTreeMap<AttemptId, AttemptRecord>,
    graph: RunGraph,
    processes: Processes,
    slots: RunSlots,
    hooks: RunHooks,
    sources: RunSources,
    task_commits: TaskCommits,
    inbox: Inbox,
    /// The attempts whose executors are about to be asked for their work.
    asked: BTreeSet<AttemptId>,
    /// The number of engines that are being asked about processes.
    asked_engines: usize,
    began: Instant,
    /// The last clock reading.
    clocks: clock::ClockReading,
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
        let policy = options.policy(&workspace);
        agents::check_agents(&policy, file.graph(), &workspace, &options)?;
        agents::check_commands(&policy, file.graph(), &workspace)?;
        if options.tmux {
            tmux::check().map_err(|why| Failure::new(Exit::Agent, why))?;
        }
        workspace.check_logs()?;
        let lock = workspace.lock()?;
        let Some(lock) = lock else {
            return Err(Failure::new(Exit::Running, held(&workspace)).into());
        };
        crash::point("run.locked");
        let slots = RunSlots::of(&workspace, &policy)?;
        let store = workspace.event_store()?;
        if store.history().paused {
            let message = requests::paused(&workspace, &store.history().run);
            return Err(Failure::new(Exit::Waiting, message).into());
        }
        process::adopt_orphans();
        workspace
            .state
            .remove_drafts(workspace.graph_path())
            .context("remove the unfinished files of a killed run")?;
        crash::point("run.swept");
        workspace.ignore_own_files()?;
        workspace.ignore_outputs()?;
        git_calls::bound_git(&workspace, &store);
        let inbox = Inbox::listening()?;
        let guardians = GuardianPool::new(process::own_program(), lock.folder());
        Ok(Runner {
            store,
            workspace,
            graph: RunGraph::new(file),
            options,
            policy,
            guardians: guardians.context("hold the lock for the agents")?,
            lock,
            reporters,
            run: Run::default(),
            records: BTreeMap::new(),
            processes: Processes::default(),
            slots,
            hooks: RunHooks::default(),
            sources: RunSources::default(),
            task_commits: TaskCommits::default(),
            inbox,
            asked: BTreeSet::new(),
            asked_engines: 0,
            began: Instant::now(),
            clocks: clock::read(),
            wake: None,
            followed: Instant::now(),
        })
    }

    /// Runs until there is a reason to stop.
    ///
    /// # Errors
    /// Any error that prevents the run from continuing. The end of the run is recorded if possible.
    pub fn run(mut self) -> Result<StopReason> {
        // A reader that finds the run in the journal must also see that it is alive.
        self.write_lock_holder(None)?;
        self.emit(None, Event::LoopStarted(self.begun()))?;
        crash::point("run.begun");
        for refreshed in mem::take(&mut self.options.refreshed) {
            self.emit(None, Event::SourceRefreshed(refreshed))?;
        }
        self.announce_graph()?;
        let result = self.begin().or_else(|error| self.stop_of(error));
        if result.is_err() {
            // No process may outlive the run that supervises it.
            self.processes.order_all(AgentProcess::kill);
        }
        let (why, exit) = match &result {
            Ok(reason) => (reason.text(&Local), reason.exit()),
            Err(error) => (fatal::summary(error), crate::core::exit::of_error(error)),
        };
        if let Ok(StopReason::Blocked(holders) | StopReason::NeedsInput(holders)) = &result {
            self.emit(None, Event::Blocked { holders: holders.clone() })?;
        }
        if result.is_ok() {
            self.write_back()?;
        }
        let run = &self.store.history().run;
        let finished = Event::Finished {
            why,
            exit_code: exit.code(),
            iterations: run.iterations - run.begun.before,
            completed: run.completed,
            remaining: self.remaining(),
            duration_seconds: duration::seconds(self.began.elapsed()),
        };
        crash::point("run.over");
        let recorded = self.emit_record(None, finished);
        crash::point("run.finished");
        let recorded = recorded.and_then(|finished| {
            self.after_run(&finished)?;
            self.drain()?;
            self.reopen_other_branches()
        });
        self.store.save();
        let reason = result?;
        recorded?;
        Ok(reason)
    }

    /// Runs the hook before the run, recovers open attempts and enters the loop.
    fn begin(&mut self) -> Result<StopReason> {
        if let Some(reason) = self.before_run()? {
            return Ok(reason);
        }
        self.write_back()?;
        self.check_executors()?;
        self.watch_suspects()?;
        self.recover()?;
        self.reopen_other_branches()?;
        self.follow_history()?;
        self.name_uncommitted()?;
        self.turn()
    }

    fn turn(&mut self) -> Result<StopReason> {
        loop {
            self.refresh()?;
            self.reload_settings()?;
            let done_file = self.done_file()?;
            let now = Utc::now();
            let decide = |run: &mut Run, sit: &Situation<'_>| {
                run.decide(&Situation { done_file, ..*sit }, now)
            };
            match self.with_run(decide) {
                RunDecision::Act(commands) => self.carry_out(commands)?,
                RunDecision::Land(branch) => {
                    let tip = self.tip(&branch)?;
                    let in_the_way = self.in_the_way(&branch)?;
                    let commands =
                        self.with_run(|run, sit| run.land(tip.as_ref(), &in_the_way, sit));
                    self.carry_out(commands)?;
                }
                // Nothing could be claimed. Without an open attempt, the file is waited for instead.
                RunDecision::Select(Decision::Start(_)) if self.graph.unreadable.is_some() => {
                    self.wait(Wait::default())?;
                }
                RunDecision::Select(Decision::Start(key)) if self.is_prepared(key) => {
                    self.carry_out(vec![RunCommand::Record(key)])?;
                }
                RunDecision::Select(Decision::Start(key)) => {
                    if let Some(reason) = self.before_attempt(key)? {
                        return Ok(reason);
                    }
                }
                RunDecision::Select(Decision::Wait(wait)) => self.wait(wait)?,
                RunDecision::Select(Decision::Stop(reason)) => return Ok(reason),
            }
        }
    }

    /// Whether queued work may land.
    fn may_land(&self) -> bool {
        let is_ending = self.policy.stop.is_some();
        !self.is_ended_now() && (!is_ending || self.run.lands_last(Instant::now()))
    }

    fn open_work(&self) -> Vec<OpenWork> {
        self.run.open_work(self.may_land(), self.policy.jobs)
    }

    /// Calls `see` with the view that task selection uses.
    fn with_view<T>(&self, see: impl FnOnce(&View<'_>) -> T) -> T {
        let open = self.open_work();
        see(&self.view(&OpenWork::active(&open, self.graph.file.graph())))
    }

    fn view<'a>(&'a self, active: &'a [Active<'a>]) -> View<'a> {
        View {
            graph: self.graph.file.graph(),
            keys: self.graph.file.keys(),
            history: self.store.history(),
            policy: &self.policy,
            active,
        }
    }

    /// Calls `see` with the situation that accompanies every input.
    fn with_situation<T>(&self, open: &[OpenWork], see: impl FnOnce(&Situation<'_>) -> T) -> T {
        let config = &self.workspace.config;
        let active = OpenWork::active(open, self.graph.file.graph());
        see(&Situation {
            view: self.view(&active),
            now: Instant::now(),
            graces: GracePeriods {
                kill: config.grace,
                term: config.term_grace,
                exit: config.exit_grace,
                children: config.child_wait_timeout,
                on_orphans: config.on_orphans,
            },
            autocommit: config.autocommit,
            trusts_promises: config.promise == Worth::Trust,
            done_file: false,
        })
    }

    /// Calls `decide` with the run and the situation.
    fn with_run<T>(&mut self, decide: impl FnOnce(&mut Run, &Situation<'_>) -> T) -> T {
        let open = self.open_work();
        let mut run = mem::take(&mut self.run);
        let result = self.with_situation(&open, |sit| decide(&mut run, sit));
        self.run = run;
        result
    }

    fn remaining(&self) -> usize {
        let view = self.view(&[]);
        view.admitted().filter(|number| !view.graph.task(*number).status.is_over()).count()
    }

    /// Emits an event: to the journal, then to the history, then to the reporters. All events take
    /// this path.
    fn emit(&mut self, about: Option<(&TaskId, u32)>, event: Event) -> Result<()> {
        self.emit_record(about, event).map(drop)
    }

    /// Emits an event and returns its record.
    fn emit_record(&mut self, about: Option<(&TaskId, u32)>, event: Event) -> Result<Record> {
        let (task_id, iteration) = about.unzip();
        let kind = mem::discriminant(&event);
        let records = self.store.emit(iteration, task_id, event)?;
        self.publish(&records);
        // Other processes may have written records before and after ours.
        let run_id = self.store.run_id();
        let ours = |it: &Record| it.run_id == run_id && mem::discriminant(&it.event) == kind;
        records.into_iter().rfind(ours).context("the emitted event is missing from the journal")
    }

    fn publish(&mut self, records: &[Record]) {
        let mut reporters = mem::take(&mut self.reporters);
        self.with_view(|view| {
            for record in records {
                for reporter in &mut reporters {
                    reporter.record(record, view);
                }
            }
        });
        self.reporters = reporters;
    }

    /// Writes the holder of the lock, after checking that the lock is still valid.
    fn write_lock_holder(&self, task_id: Option<&TaskId>) -> Result<()> {
        let folder = self.workspace.state.dir();
        if !self.lock.is_on(folder) {
            let folder = folder.strip_prefix(self.workspace.root()).unwrap_or(folder).display();
            let message = format!(
                "`{folder}` was removed while this run held its lock, so another run may \
                 have started; run again"
            );
            return Err(Failure::new(Exit::Disk, message).into());
        }
        let holder = LockHolder {
            process: process::own_identity(),
            run_id: self.store.run_id().to_owned(),
            since: rfc3339(Utc::now() - self.began.elapsed()),
            task_id: task_id.map(ToString::to_string),
        };
        self.workspace.state.write_holder(&holder).context("record the holder of the lock")
    }

    fn announce_graph(&mut self) -> Result<()> {
        let tasks = self.graph.file.graph().tasks();
        let complete = tasks.iter().filter(|task| task.status == Status::Complete).count();
        self.emit(None, Event::GraphLoaded { tasks: tasks.len(), complete })
    }

    /// Waits for the next message, limit, heartbeat or wake-up, and handles it.
    fn wait(&mut self, wait: Wait) -> Result<()> {
        let now = Utc::now();
        let is_idle = self.with_view(|view| view.active.is_empty());
        if is_idle
            && let Some(until) = wait.until
            && self.wake.is_none_or(|wake| wake <= now)
        {
            self.wake = Some(until);
            self.emit(None, Event::Waiting { until, why: wait.why })?;
        }
        let wake = self.wake.into_iter().chain(wait.until).min();
        let pause = wake.map_or(Duration::MAX, |wake| (wake - now).to_std().unwrap_or_default());
        let beat = self.reporters.iter().map(|reporter| reporter.interval()).min();
        let limit = self.run.patience(Instant::now(), self.may_land());
        let reread = self.graph.unreadable.map(|_| REREAD);
        let pause = [beat, limit, reread].into_iter().flatten().fold(pause, Duration::min);
        let message = self.listen(pause);
        let is_quiet = message.is_none();
        self.receive(message)?;
        self.check_clocks()?;
        let records = self.store.catch_up()?;
        self.publish(&records);
        self.refresh()?;
        if is_quiet || self.followed.elapsed() >= FOLLOW {
            self.follow()?;
            self.followed = Instant::now();
        }
        self.tick();
        Ok(())
    }

    /// Reports one turn of the loop to the reporters.
    fn tick(&mut self) {
        for reporter in &mut self.reporters {
            reporter.tick();
        }
    }
}

/// Returns the message that another run holds the lock.
pub fn held(workspace: &Workspace) -> String {
    let name = workspace.place.name();
    let who = match name {
        None => "another ralph runs in this repository".to_owned(),
        Some(name) => format!("the loop `{name}` is already running; `--name` starts another one"),
    };
    let Some(holder) = workspace.holder() else {
        return who;
    };
    let task = holder.task_id.filter(|_| name.is_none());
    let task = task.map_or(String::new(), |id| format!(", working on `{id}`"));
    let place =
        if process::is_elsewhere(&holder.process) { " of another pid namespace" } else { "" };
    format!(
        "{who}: process {}{place}, run {}{task}, since {}",
        holder.process.pid, holder.run_id, holder.since
    )
}
