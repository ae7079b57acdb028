//! The loop: the only owner of what changes while a run goes on.
//!
//! One thread takes every message (an agent ended, a signal came, time passed) from one channel;
//! `decide` says what is next; every fact goes through `emit`. Policy is not made here.

mod isolated;
mod children;
mod close;
mod edits;
mod harm;
mod hooks;
mod merge;
mod plain;
pub mod hook_run;
pub mod reporter;
mod requests;
mod start;
mod verify;
mod watch;

use std::{
    collections::VecDeque,
    mem,
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use crate::{
    adapters::{
        clock,
        git::Landing,
        process::{self, ProcessNews},
        signal,
        state::Lock,
        tmux,
    },
    core::{
        agents::agent_command::AgentCommand,
        duration,
        event::{Event, PlainLoop, StopReason, record::Record},
        exit::{Exit, Failure},
        graph::{
            filter::Filter,
            task::{Status, TaskId},
        },
        select::{Active, Decision, Policy, View, Wait},
    },
    crash,
    project::{
        event_store::EventStore,
        fatal,
        graph_file::{GraphFile, rfc3339},
        workspace::{LockHolder, Workspace},
        worktree_pool::PreparedWorktree,
    },
    runner::reporter::{AT_WORK, Reporter},
};

use isolated::RunWorktrees;
use merge::{BuiltTrial, LandingQueue};
pub use start::{agents, check_agent};
use verify::ProcessStage;
use watch::RunningAttempt;

/// How long a graph file that cannot be read is given to become whole: an editor may be saving.
const HALF_SAVED: Duration = Duration::from_secs(3);

/// What a run is besides the repository and its settings.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Which tasks.
    pub filter: Filter,
    /// Agents that stand above what settings and tasks name.
    pub agents: Option<Vec<AgentCommand>>,
    /// Stop after the first attempt.
    pub once: bool,
    /// When nothing can start, wait for tasks that are in progress elsewhere, and for answers.
    pub wait: bool,
    /// The attempts of the paused run that this one goes on with.
    pub before: u32,
    /// Whether each agent has a terminal of its own.
    pub tmux: bool,
    /// What makes it a plain loop, if it is one.
    pub plain: Option<PlainLoop>,
}

impl RunOptions {
    /// The rules of such a run.
    pub fn policy(&self, workspace: &Workspace) -> Policy {
        let settings = workspace.policy();
        Policy {
            filter: self.filter.clone(),
            once: self.once,
            wait: self.wait,
            agents_given: self.agents.is_some(),
            agents: self.agents.clone().unwrap_or(settings.agents),
            // A plain loop has limits of its own.
            max_attempts: self.plain.as_ref().map_or(settings.max_attempts, |_| u32::MAX),
            start_limit: self.plain.as_ref().map_or(settings.start_limit, |_| 0),
            jobs: self.plain.as_ref().map_or(settings.jobs, |_| 1),
            plain: self.plain.clone(),
            ..settings
        }
    }
}

/// What arrives while a run goes on.
enum RunnerMessage {
    /// The attempt with this name has news of its agent.
    News(String, ProcessNews),
    /// The work tree of the attempt with this name is prepared, or cannot be.
    Prepared(String, Result<PreparedWorktree>),
    /// The merge queue has put things together.
    Built(Result<BuiltTrial>),
    /// It has moved the target branch, or could not.
    Landed(Result<Landing>),
    /// A signal came.
    Signal(i32),
}

/// A run.
pub struct Runner {
    workspace: Workspace,
    file: GraphFile,
    chronicle: EventStore,
    options: RunOptions,
    policy: Policy,
    reporters: Vec<Box<dyn Reporter>>,
    inbox: Receiver<RunnerMessage>,
    outbox: Sender<RunnerMessage>,
    running: Vec<RunningAttempt>,
    trees: RunWorktrees,
    queue: LandingQueue,
    /// What came while a hook ran.
    later: VecDeque<RunnerMessage>,
    /// When to decide again, while nothing can start.
    wake: Option<DateTime<Utc>>,
    began: Instant,
    lock: Lock,
    /// The graph before the attempt that runs now.
    before: Option<harm::GraphBefore>,
    /// Whether it is told already that the graph file cannot be read.
    told: bool,
    /// The clocks when they were last looked at.
    clocks: clock::ClockReading,
    /// How many signals asked it to stop.
    signals: u32,
    /// The task and the number of the attempt before which the hook has been run.
    prepared: Option<(TaskId, u32)>,
    /// Whether something that an attempt left behind was let live.
    spared: bool,
}

impl Runner {
    /// Takes the lock, reads the past, and makes sure that the agent can be started at all.
    ///
    /// # Errors
    /// With an exit code of their own: another run, a missing agent.
    pub fn new(
        workspace: Workspace,
        file: GraphFile,
        options: RunOptions,
        reporters: Vec<Box<dyn Reporter>>,
    ) -> Result<Runner> {
        let policy = options.policy(&workspace);
        start::check_agents(&policy, file.graph(), &workspace)?;
        if options.tmux {
            tmux::check().map_err(|why| Failure::new(Exit::Agent, why))?;
        }
        workspace.check_logs()?;
        let lock = workspace.lock()?;
        let Some(lock) = lock else {
            return Err(Failure::new(Exit::Running, held(&workspace)).into());
        };
        crash::point("run.locked");
        let trees = RunWorktrees::of(&workspace, &policy)?;
        let chronicle = workspace.chronicle()?;
        if chronicle.history().paused {
            let paused = StopReason::Paused(workspace.place.name().cloned());
            return Err(Failure::new(Exit::Waiting, paused.to_string()).into());
        }
        process::adopt_orphans();
        workspace
            .state
            .remove_drafts(workspace.graph_path())
            .context("remove what a killed run left unfinished")?;
        crash::point("run.swept");
        workspace.ignore_own_files()?;
        let (outbox, inbox) = mpsc::channel();
        let signals = outbox.clone();
        signal::listen(move |number| drop(signals.send(RunnerMessage::Signal(number))))
            .context("listen for signals")?;
        Ok(Runner {
            chronicle,
            workspace,
            file,
            options,
            policy,
            reporters,
            inbox,
            outbox,
            running: Vec::new(),
            trees,
            queue: LandingQueue::default(),
            later: VecDeque::new(),
            wake: None,
            began: Instant::now(),
            lock,
            before: None,
            told: false,
            clocks: clock::read(),
            signals: 0,
            prepared: None,
            spared: false,
        })
    }

    /// Works until there is a reason to stop.
    ///
    /// # Errors
    /// What makes it impossible to go on; a run that could still be recorded is recorded as ended.
    pub fn run(mut self) -> Result<StopReason> {
        // Whoever sees the run in the journal must see that it lives.
        self.hold(None)?;
        self.emit(None, Event::LoopStarted(self.begun()))?;
        crash::point("run.begun");
        self.announce_graph()?;
        let result = self.begin();
        if result.is_err() {
            // Nothing may outlive the run that watches it.
            for running in &self.running {
                running.agent.kill();
            }
        }
        let (why, exit) = match &result {
            Ok(reason) => (reason.to_string(), reason.exit()),
            Err(error) => (fatal::summary(error), crate::core::exit::of_error(error)),
        };
        if let Ok(StopReason::Blocked(holders) | StopReason::NeedsInput(holders)) = &result {
            self.emit(None, Event::Blocked { holders: holders.clone() })?;
        }
        let run = &self.chronicle.history().run;
        let finished = Event::Finished {
            why,
            exit_code: exit.code(),
            iterations: run.iterations - run.begun.before,
            completed: run.completed,
            remaining: self.remaining(),
            duration_seconds: duration::seconds(self.began.elapsed()),
        };
        crash::point("run.over");
        let recorded = self.put_on_record(None, finished);
        crash::point("run.finished");
        let recorded = recorded.and_then(|finished| {
            self.after_run(&finished)?;
            self.drain()
        });
        self.chronicle.save();
        let reason = result?;
        recorded?;
        Ok(reason)
    }

    /// What comes before the first decision, and then the rest.
    fn begin(&mut self) -> Result<StopReason> {
        if let Some(reason) = self.before_run()? {
            return Ok(reason);
        }
        self.recover()?;
        self.turn()
    }

    fn turn(&mut self) -> Result<StopReason> {
        loop {
            self.obey();
            self.refresh()?;
            self.resettle()?;
            self.look_for_done()?;
            self.merge()?;
            if let Some(reason) = self.stuck_in_merge() {
                return Ok(reason);
            }
            let active = self.active();
            match self.view(&active).decide(Utc::now()) {
                Decision::Start(key) if self.is_prepared(key) => self.start(key)?,
                Decision::Start(key) => {
                    if let Some(reason) = self.before_attempt(key)? {
                        return Ok(reason);
                    }
                }
                Decision::Wait(wait) => self.wait(wait)?,
                Decision::Stop(reason) => return Ok(reason),
            }
        }
    }

    fn active(&self) -> Vec<Active<'_>> {
        let running = self.running.iter().filter(|running| !running.stage.is_trial());
        let at_work = running.map(|running| &running.record).chain(&self.trees.preparing);
        // When the run is being stopped, what waits is left to the next one.
        let waits = !self.is_ending() || self.queue.is_trying();
        let waiting = self.queue.records().filter(|_| waits).enumerate();
        // Each has its work tree until it is merged: nobody runs far ahead of the queue.
        let waiting = waiting.map(|(at, record)| (record, at >= self.policy.jobs));
        let open = at_work.map(|record| (record, true));
        open.chain(waiting)
            .filter_map(|(record, works)| {
                // By id: an edit of the file may have moved the task.
                let number = self.file.graph().number(&record.task_id)?;
                let agent = record.call.as_ref().map(|call| call.name.as_str());
                Some(Active { number, agent, works })
            })
            .collect()
    }

    fn view<'a>(&'a self, active: &'a [Active<'a>]) -> View<'a> {
        View {
            graph: self.file.graph(),
            keys: self.file.keys(),
            history: self.chronicle.history(),
            policy: &self.policy,
            active,
        }
    }

    fn remaining(&self) -> usize {
        let view = self.view(&[]);
        view.admitted().filter(|number| !view.graph.task(*number).status.is_over()).count()
    }

    /// The one way in which a fact enters the world: journal, then history, then reporters.
    fn emit(&mut self, about: Option<(&TaskId, u32)>, event: Event) -> Result<()> {
        self.put_on_record(about, event).map(drop)
    }

    /// The same, and the record of it.
    fn put_on_record(&mut self, about: Option<(&TaskId, u32)>, event: Event) -> Result<Record> {
        let (task_id, iteration) = about.unzip();
        let kind = mem::discriminant(&event);
        let records = self.chronicle.emit(iteration, task_id, event)?;
        self.tell(&records);
        // Others may have written before and after it.
        let run_id = self.chronicle.run_id();
        let ours = |it: &Record| it.run_id == run_id && mem::discriminant(&it.event) == kind;
        records.into_iter().rfind(ours).context("what was put on record is not")
    }

    fn tell(&mut self, records: &[Record]) {
        if let Some(before) = &mut self.before {
            for record in records {
                before.note(record);
            }
        }
        let mut reporters = std::mem::take(&mut self.reporters);
        let active = self.active();
        let view = self.view(&active);
        for record in records {
            for reporter in &mut reporters {
                reporter.record(record, &view);
            }
        }
        self.reporters = reporters;
    }

    /// Says who holds the lock, as long as it is one.
    fn hold(&self, task_id: Option<&TaskId>) -> Result<()> {
        let folder = self.workspace.state.dir();
        if !self.lock.is_on(folder) {
            let folder = folder.strip_prefix(self.workspace.root()).unwrap_or(folder).display();
            let message = format!(
                "`{folder}` was removed while this run held its lock, so that another could have \
                 begun beside it; run again"
            );
            return Err(Failure::new(Exit::Disk, message).into());
        }
        let holder = LockHolder {
            process: process::own_identity(),
            run_id: self.chronicle.run_id().to_owned(),
            since: rfc3339(Utc::now()),
            task_id: task_id.map(ToString::to_string),
        };
        self.workspace.state.write_holder(&holder).context("say who holds the lock")
    }

    fn announce_graph(&mut self) -> Result<()> {
        let tasks = self.file.graph().tasks();
        let complete = tasks.iter().filter(|task| task.status == Status::Complete).count();
        let event = Event::GraphLoaded { tasks: tasks.len(), complete };
        self.emit(None, event)
    }

    /// Waits for the next message, limit, beat or wake-up, and deals with it.
    fn wait(&mut self, wait: Wait) -> Result<()> {
        let now = Utc::now();
        if self.active().is_empty()
            && let Some(until) = wait.until
            && self.wake.is_none_or(|wake| wake <= now)
        {
            self.wake = Some(until);
            self.emit(None, Event::Waiting { until, why: wait.why })?;
        }
        let wake = self.wake.into_iter().chain(wait.until).min();
        let pause = wake.map_or(Duration::MAX, |wake| (wake - now).to_std().unwrap_or_default());
        let beat = self.reporters.iter().map(|reporter| reporter.interval()).min();
        let limit = self.running.iter().map(RunningAttempt::patience).min();
        let pause = [Some(pause), beat, limit, self.queue.patience()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(pause);
        match self.listen(pause) {
            Some(RunnerMessage::News(name, ProcessNews::Closed(closed))) => {
                self.ended(&name, closed)?;
            }
            Some(RunnerMessage::News(name, ProcessNews::Idle)) => self.idle(&name)?,
            Some(RunnerMessage::News(name, ProcessNews::Left(members))) => {
                self.left_behind(&name, members)?;
            }
            Some(RunnerMessage::Prepared(name, prepared)) => self.prepared(&name, prepared)?,
            Some(RunnerMessage::Built(built)) => self.built(built)?,
            Some(RunnerMessage::Landed(landed)) => self.landed(landed)?,
            Some(RunnerMessage::Signal(number)) => self.signalled(number)?,
            None => self.enforce()?,
        }
        self.look_at_clocks()?;
        let records = self.chronicle.catch_up()?;
        self.tell(&records);
        for running in &mut self.running {
            let id = running.record.task_id.clone();
            let silent = matches!(running.stage, ProcessStage::Agent) && running.doing.is_none();
            let doing = running.follow(self.workspace.config.exit_grace);
            let Some(doing) = doing.or(silent.then_some(AT_WORK)) else {
                continue;
            };
            for reporter in &mut self.reporters {
                reporter.doing(&id, doing);
            }
        }
        self.tick();
        Ok(())
    }

    /// The loop turns.
    fn tick(&mut self) {
        for reporter in &mut self.reporters {
            reporter.tick();
        }
    }
}

/// Who runs here already.
pub fn held(workspace: &Workspace) -> String {
    let name = workspace.place.name();
    let who = match name {
        None => "another ralph runs in this repository".to_owned(),
        Some(name) => format!("the loop `{name}` runs already; `--name` starts another one"),
    };
    let Some(holder) = workspace.holder() else {
        return who;
    };
    let task = holder.task_id.filter(|_| name.is_none());
    let task = task.map_or(String::new(), |id| format!(", working on `{id}`"));
    format!(
        "{who}: process {}, run {}{task}, since {}",
        holder.process.pid, holder.run_id, holder.since
    )
}
