//! The loop: the only owner of what changes while a run goes on.
//!
//! One thread takes every message (an agent ended, a signal came, time passed) from one channel;
//! `decide` says what is next; every fact goes through `emit`. Policy is not made here.

use std::{
    env,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{DateTime, SecondsFormat, Utc};

use crate::{
    agent::{self, Agent, Spec},
    attempt::{self, Open},
    chronicle::Chronicle,
    duration,
    event::{Cause, Ended, Event, SCHEMA, StopReason},
    exit::{Exit, Failure},
    graphfile::{Foreign, GraphFile, Rejected, Write},
    output,
    plan::{Decision, Key, Policy, View, Wait},
    record::Record,
    report::Reporter,
    signal,
    state::{Holder, Lock},
    task::{Status, TaskId},
    verdict::{Outcome, Verdict},
    workspace::{self, Workspace},
};

/// How long a graph file that cannot be read is given to become whole: an editor may be saving.
const HALF_SAVED: Duration = Duration::from_secs(3);

/// What a run is made of besides the repository.
pub struct Options {
    /// The rules.
    pub policy: Policy,
    /// The agent's command line; the prompt comes on its standard input.
    pub agent: Vec<String>,
    /// The wall-clock limit of one attempt; a task may say otherwise.
    pub timeout: Duration,
    /// Between asking an agent to end and killing it.
    pub grace: Duration,
}

/// What arrives while a run goes on.
enum Message {
    /// The agent of the attempt with this name ended.
    Ended(String, Outcome),
    /// A signal came.
    Signal(i32),
}

/// An attempt whose agent runs.
struct Running {
    number: usize,
    record: Open,
    agent: Agent,
    started: Instant,
    limit: Duration,
    /// Why we are ending it, and when it will be killed.
    ending: Option<(Outcome, Instant)>,
}

/// A run.
pub struct Runner {
    workspace: Workspace,
    file: GraphFile,
    chronicle: Chronicle,
    options: Options,
    reporters: Vec<Box<dyn Reporter>>,
    inbox: Receiver<Message>,
    outbox: Sender<Message>,
    running: Vec<Running>,
    /// When to decide again, while nothing can start.
    wake: Option<DateTime<Utc>>,
    began: Instant,
    _lock: Lock,
}

impl Runner {
    /// Takes the lock, reads graph and past, and makes sure that the agent can be started at all.
    ///
    /// # Errors
    /// With an exit code of their own: another run, an invalid graph, a missing agent.
    pub fn new(
        workspace: Workspace,
        options: Options,
        reporters: Vec<Box<dyn Reporter>>,
    ) -> Result<Runner> {
        let file = workspace.graph()?;
        check_agent(&options.agent, &workspace)?;
        let lock = workspace.state.try_lock().context("take the lock")?;
        let Some(lock) = lock else {
            return Err(Failure::new(Exit::Running, held(&workspace)).into());
        };
        workspace.ignore_own_files()?;
        let (outbox, inbox) = mpsc::channel();
        let signals = outbox.clone();
        signal::listen(move |number| drop(signals.send(Message::Signal(number))))
            .context("listen for signals")?;
        Ok(Runner {
            chronicle: workspace.chronicle()?,
            workspace,
            file,
            options,
            reporters,
            inbox,
            outbox,
            running: Vec::new(),
            wake: None,
            began: Instant::now(),
            _lock: lock,
        })
    }

    /// Works until there is a reason to stop.
    ///
    /// # Errors
    /// What makes it impossible to go on; a run that could still be recorded is recorded as ended.
    pub fn run(mut self) -> Result<StopReason> {
        self.emit(
            None,
            Event::LoopStarted {
                schema: SCHEMA,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                agent: self.options.agent.clone(),
                max_iterations: self.options.policy.max_iterations,
                filter: self.options.policy.filter.words(),
            },
        )?;
        self.hold(None)?;
        self.announce_graph()?;
        let result = self.recover().and_then(|()| self.turn());
        if result.is_err() {
            // Nothing may outlive the run that watches it.
            for running in &self.running {
                running.agent.kill();
            }
        }
        let (why, exit) = match &result {
            Ok(reason) => (reason.to_string(), reason.exit()),
            Err(error) => {
                let text = format!("{error:#}");
                (text.lines().next().unwrap_or_default().to_owned(), crate::exit::of_error(error))
            }
        };
        if let Ok(StopReason::Blocked(holders)) = &result {
            self.emit(None, Event::Blocked { holders: holders.clone() })?;
        }
        let run = &self.chronicle.history().run;
        let finished = Event::Finished {
            why,
            exit_code: exit.code(),
            iterations: run.iterations,
            completed: run.completed,
            remaining: self.remaining(),
            duration_seconds: seconds(self.began),
        };
        let recorded = self.emit(None, finished);
        self.chronicle.save();
        let reason = result?;
        recorded?;
        Ok(reason)
    }

    fn turn(&mut self) -> Result<StopReason> {
        loop {
            self.refresh()?;
            let numbers = self.numbers();
            match self.view(&numbers).decide(Utc::now()) {
                Decision::Start(key) => self.start(key)?,
                Decision::Wait(wait) => self.wait(wait)?,
                Decision::Stop(reason) => return Ok(reason),
            }
        }
    }

    fn numbers(&self) -> Vec<usize> {
        self.running.iter().map(|running| running.number).collect()
    }

    fn view<'a>(&'a self, running: &'a [usize]) -> View<'a> {
        View {
            graph: self.file.graph(),
            keys: self.file.keys(),
            history: self.chronicle.history(),
            policy: &self.options.policy,
            running,
        }
    }

    fn remaining(&self) -> usize {
        let view = self.view(&[]);
        view.admitted()
            .filter(|n| !matches!(view.graph.task(*n).status, Status::Complete | Status::Cancelled))
            .count()
    }

    /// The one way in which a fact enters the world: journal, then history, then reporters.
    fn emit(&mut self, about: Option<(&TaskId, u32)>, event: Event) -> Result<()> {
        let (task_id, iteration) = about.unzip();
        let records = self.chronicle.emit(iteration, task_id, event)?;
        self.tell(&records);
        Ok(())
    }

    fn tell(&mut self, records: &[Record]) {
        let numbers = self.numbers();
        let mut reporters = std::mem::take(&mut self.reporters);
        let view = self.view(&numbers);
        for record in records {
            for reporter in &mut reporters {
                reporter.record(record, &view);
            }
        }
        self.reporters = reporters;
    }

    /// Says who holds the lock.
    fn hold(&self, task_id: Option<&TaskId>) -> Result<()> {
        let holder = Holder {
            pid: std::process::id(),
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

    /// Takes in what others did to the graph file.
    fn refresh(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut told = false;
        loop {
            match self.file.refresh() {
                Ok(None) => return Ok(()),
                Ok(Some(foreign)) => {
                    self.announce_graph()?;
                    return self.note(foreign);
                }
                Err(rejected) if began.elapsed() > HALF_SAVED => {
                    return Err(workspace::refused(&rejected));
                }
                Err(rejected) => {
                    if !told {
                        self.emit(None, Event::GraphRejected { error: rejected.summary() })?;
                        told = true;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn note(&mut self, foreign: Vec<Foreign>) -> Result<()> {
        for Foreign { task_id, old, new } in foreign {
            let cause =
                if self.running.is_empty() { Cause::Edited } else { Cause::EditedDuringAttempt };
            let event = Event::StatusChanged { old, new, cause, reason: None };
            let records = self.chronicle.emit(None, Some(&task_id), event)?;
            self.tell(&records);
        }
        Ok(())
    }

    /// Writes a status and says so.
    fn set(&mut self, about: (&TaskId, u32), write: Write<'_>, cause: Cause) -> Result<()> {
        let (id, _) = about;
        let status = |file: &GraphFile| {
            file.graph().number(id).map(|number| file.graph().task(number).status)
        };
        let old = status(&self.file);
        let foreign =
            self.file.write(&self.workspace.state, id, write).map_err(|error| {
                match error.downcast::<Rejected>() {
                    Ok(rejected) => workspace::refused(&rejected),
                    Err(error) => error,
                }
            })?;
        self.note(foreign)?;
        let new = Some(write.status());
        if old == new {
            return Ok(());
        }
        self.emit(Some(about), Event::StatusChanged { old, new, cause, reason: None })
    }

    /// Begins an attempt: intent first, on disk and in the graph, then the agent.
    fn start(&mut self, key: Key) -> Result<()> {
        let number = key.number;
        let id = self.file.graph().task(number).id.clone();
        let history = self.chronicle.history();
        let (number_of_attempt, iteration) =
            (history.of(&id).attempts + 1, history.run.iterations + 1);
        let max_attempts = self.view(&[]).max_attempts(number);
        let prompt =
            attempt::render(&self.workspace, self.file.graph(), history, number, max_attempts)?;
        let run_id = self.chronicle.run_id().to_owned();
        let record = attempt::begin(&self.workspace, &run_id, iteration, &id, number_of_attempt)?;
        let mut record = attempt::open(&self.workspace, record, &prompt)?;
        self.hold(Some(&id))?;
        let about = (&id, iteration);
        let at = rfc3339(record.started_at);
        let by = format!("ralph {run_id}");
        self.set(about, Write::Claim { at: &at, by: &by }, Cause::Claimed)?;
        let started = Event::Started {
            attempt: record.attempt,
            base: record.base.clone(),
            branch: record.branch.clone(),
            log: record.log.clone(),
            why: key.to_string(),
        };
        self.emit(Some(about), started)?;
        self.wake = None;
        let spec = self.spec(&record);
        let (outbox, name) = (self.outbox.clone(), record.name());
        let began = Instant::now();
        match Agent::spawn(&spec, move |outcome| drop(outbox.send(Message::Ended(name, outcome)))) {
            Ok(agent) => {
                record.agent = Some(agent.identity().clone());
                self.workspace
                    .state
                    .write_attempt(&record.name(), &record)
                    .context("record the agent's process")?;
                let task = self.file.graph().task(number);
                let limit = task.timeout.unwrap_or(self.options.timeout);
                self.running.push(Running {
                    number,
                    record,
                    agent,
                    started: began,
                    limit,
                    ending: None,
                });
                Ok(())
            }
            Err(error) => {
                let outcome = Outcome::NotStarted { error: error.to_string() };
                self.close(&record, outcome, began.elapsed()).map(drop)
            }
        }
    }

    fn spec(&self, record: &Open) -> Spec {
        let root = self.workspace.root();
        let task_dir = root.join(Workspace::task_dir(&record.task_id)).display().to_string();
        let mut env = vec![
            ("RALPH_TASK_ID".to_owned(), record.task_id.to_string()),
            ("RALPH_ATTEMPT".to_owned(), record.attempt.to_string()),
            ("RALPH_RUN_ID".to_owned(), record.run_id.clone()),
            ("RALPH_TASK_DIR".to_owned(), task_dir.clone()),
            ("TASK_FOLDER".to_owned(), task_dir),
        ];
        env.extend(without_gc());
        Spec {
            argv: self.options.agent.clone(),
            dir: root.to_owned(),
            env,
            // Claude Code takes these as the sign that it runs inside another Claude Code.
            env_remove: ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"].map(str::to_owned).to_vec(),
            stdin: record.file(&self.workspace, "prompt.md"),
            stdout: record.file(&self.workspace, "stdout"),
            stderr: record.file(&self.workspace, "stderr"),
        }
    }

    /// Waits for the next message, limit, beat or wake-up, and deals with it.
    fn wait(&mut self, wait: Wait) -> Result<()> {
        let now = Utc::now();
        if self.running.is_empty()
            && let Some(until) = wait.until
            && self.wake.is_none_or(|wake| wake <= now)
        {
            self.wake = Some(until);
            self.emit(None, Event::Waiting { until, why: wait.why })?;
        }
        let pause =
            self.wake.map_or(Duration::MAX, |wake| (wake - now).to_std().unwrap_or_default());
        let beat = self.reporters.iter().map(|reporter| reporter.interval()).min();
        let limit = self.running.iter().map(Running::patience).min();
        let pause = [Some(pause), beat, limit].into_iter().flatten().min().unwrap_or(pause);
        match self.inbox.recv_timeout(pause) {
            Ok(Message::Ended(name, outcome)) => self.ended(&name, outcome)?,
            Ok(Message::Signal(number)) => self.signalled(number)?,
            Err(RecvTimeoutError::Timeout) => self.enforce()?,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the runner holds a sender"),
        }
        let records = self.chronicle.catch_up()?;
        self.tell(&records);
        for reporter in &mut self.reporters {
            reporter.tick();
        }
        Ok(())
    }

    fn ended(&mut self, name: &str, outcome: Outcome) -> Result<()> {
        let Some(at) = self.running.iter().position(|running| running.record.name() == name) else {
            return Ok(());
        };
        let running = self.running.remove(at);
        // What we did to it says more than how it died of it.
        let outcome = running.ending.map_or(outcome, |(ours, _)| ours);
        self.close(&running.record, outcome, running.started.elapsed()).map(drop)
    }

    /// Ends what is past its limit, kills what is past its grace.
    fn enforce(&mut self) -> Result<()> {
        let mut reached = Vec::new();
        for running in &mut self.running {
            match &running.ending {
                Some((_, kill_at)) if Instant::now() >= *kill_at => {
                    running.agent.kill();
                    running.ending.as_mut().expect("just matched").1 += Duration::from_secs(1);
                }
                None if running.started.elapsed() >= running.limit => {
                    let limit_seconds = running.limit.as_secs();
                    running.end(Outcome::TimedOut { limit_seconds }, self.options.grace);
                    reached.push((running.record.clone(), running.limit));
                }
                _ => {}
            }
        }
        for (record, limit) in reached {
            let why = format!("its limit of {} is reached", duration::short(limit));
            let event = Event::Terminating { attempt: record.attempt, why };
            self.emit(Some((&record.task_id, record.iteration)), event)?;
        }
        Ok(())
    }

    /// The first signal ends the attempt and stops; any further one kills.
    fn signalled(&mut self, number: i32) -> Result<()> {
        if self.options.policy.stop.is_some() {
            for running in &self.running {
                running.agent.kill();
            }
            return Ok(());
        }
        self.options.policy.stop = Some((number, signal::name(number)));
        for running in &mut self.running {
            if running.ending.is_none() {
                running.end(Outcome::Cancelled, self.options.grace);
            }
        }
        self.emit(None, Event::StopRequested { signal: signal::name(number).to_owned() })
    }

    /// Judges an attempt and puts the judgement on record. The order makes it safe to be killed
    /// anywhere: the graph, the journal, and only then is the record of the attempt removed.
    fn close(&mut self, record: &Open, outcome: Outcome, took: Duration) -> Result<Verdict> {
        let id = &record.task_id;
        let about = (id, record.iteration);
        let records = self.chronicle.catch_up()?;
        self.tell(&records);
        self.take_agents_edits(id)?;
        let task = self.file.graph().number(id).map(|number| self.file.graph().task(number));
        let (status, rule) = task.map_or((None, crate::task::CommitRule::Required), |task| {
            (Some(task.status), task.commit)
        });
        let by_command = self.chronicle.history().of(id).reported;
        let evidence = attempt::evidence(&self.workspace, record, by_command, status)?;
        let verdict = Verdict::of(&outcome, &evidence, rule);
        let gone = task.is_none();
        let spent = self.chronicle.history().of(id).counted + u32::from(verdict.counts());
        let max = self.file.graph().number(id).map_or(u32::MAX, |n| self.view(&[]).max_attempts(n));
        let parks = verdict.counts() && spent >= max;
        let at = rfc3339(Utc::now());
        match verdict {
            _ if gone => {}
            Verdict::Complete => self.set(about, Write::Complete { at: &at }, Cause::Completed)?,
            _ if parks => self.set(about, Write::Plain(Status::InProgress), Cause::Released)?,
            // A person who blocks or cancels a task while it is worked on has the last word.
            _ if matches!(
                status,
                Some(Status::InProgress | Status::Complete | Status::Pending)
            ) =>
            {
                self.set(about, Write::Plain(Status::Pending), Cause::Released)?;
            }
            _ => {}
        }
        let why = verdict.explain(&outcome, &evidence);
        let ended = Ended {
            attempt: record.attempt,
            verdict,
            why: if gone { format!("{why}; the task is no longer in the graph") } else { why },
            outcome,
            duration_seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            evidence,
            last_line: output::last_line(&record.file(&self.workspace, "stdout")).ok().flatten(),
            log: record.log.clone(),
        };
        let event = match verdict {
            Verdict::Complete => Event::Completed(ended),
            _ if verdict.counts() => Event::Failed(ended),
            _ => Event::Interrupted(ended),
        };
        self.emit(Some(about), event)?;
        if parks {
            self.emit(Some(about), Event::Parked { attempts: spent })?;
        }
        self.workspace.state.remove_attempt(&record.name()).context("close the attempt")?;
        self.hold(None)?;
        Ok(verdict)
    }

    /// Reads the graph after an attempt. The agent's own task is left out of what is reported as
    /// changed: its verdict says that.
    fn take_agents_edits(&mut self, id: &TaskId) -> Result<()> {
        match self.file.refresh() {
            Ok(None) => Ok(()),
            Ok(Some(foreign)) => {
                for change in foreign.into_iter().filter(|change| change.task_id != *id) {
                    let Foreign { task_id, old, new } = change;
                    let cause = Cause::EditedDuringAttempt;
                    let event = Event::StatusChanged { old, new, cause, reason: None };
                    let records = self.chronicle.emit(None, Some(&task_id), event)?;
                    self.tell(&records);
                }
                Ok(())
            }
            // The record stays open: once the file can be read again, the next start judges it.
            Err(_) => self.refresh(),
        }
    }

    /// Closes every attempt that an earlier run left open, as if it had ended just now.
    fn recover(&mut self) -> Result<()> {
        let (open, damaged) =
            self.workspace.state.attempts::<Open>().context("read open attempts")?;
        for path in damaged {
            let why =
                format!("an attempt's record could not be read; it is kept as {}", path.display());
            self.emit(None, Event::GraphRejected { error: why })?;
        }
        for record in open {
            if let Some(identity) = &record.agent {
                agent::kill_group_of(identity, &format!("RALPH_RUN_ID={}", record.run_id));
            }
            let past = self.chronicle.history().of(&record.task_id);
            let closed =
                past.last.as_ref().is_some_and(|last| last.ended.attempt >= record.attempt);
            if closed {
                self.workspace.state.remove_attempt(&record.name()).context("close the attempt")?;
                continue;
            }
            let recovered =
                Event::Recovered { attempt: record.attempt, from_run: record.run_id.clone() };
            self.emit(Some((&record.task_id, record.iteration)), recovered)?;
            let took = (Utc::now() - record.started_at).to_std().unwrap_or_default();
            self.close(&record, Outcome::Interrupted, took)?;
        }
        Ok(())
    }
}

impl Running {
    /// How long until something has to be done about it.
    fn patience(&self) -> Duration {
        match &self.ending {
            Some((_, kill_at)) => kill_at.saturating_duration_since(Instant::now()),
            None => self.limit.saturating_sub(self.started.elapsed()),
        }
    }

    fn end(&mut self, outcome: Outcome, grace: Duration) {
        self.agent.terminate();
        self.ending = Some((outcome, Instant::now() + grace));
    }
}

/// Git's background maintenance calls `setsid` and outlives the attempt that caused it.
fn without_gc() -> Vec<(String, String)> {
    let count: usize =
        env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let off = [("gc.auto", "0"), ("maintenance.auto", "false")];
    let mut env = vec![("GIT_CONFIG_COUNT".to_owned(), (count + off.len()).to_string())];
    for (at, (key, value)) in (count..).zip(off) {
        env.push((format!("GIT_CONFIG_KEY_{at}"), key.to_owned()));
        env.push((format!("GIT_CONFIG_VALUE_{at}"), value.to_owned()));
    }
    env
}

/// Finds out before any task is claimed whether the agent can be started.
fn check_agent(argv: &[String], workspace: &Workspace) -> Result<()> {
    let refuse = |message: String| Err(Failure::new(Exit::Agent, message).into());
    let Some(program) = argv.first() else {
        return refuse("no agent command; name one after `--`".to_owned());
    };
    if let Err(reason) = agent::resolve(program, workspace.root()) {
        return refuse(format!(
            "the agent cannot be started: {reason}; name another after `--`, or set `agent` in \
             `.ralph/config.yaml`"
        ));
    }
    let claude = program.rsplit('/').next() == Some("claude");
    let asks = argv.iter().any(|word| word == "--dangerously-skip-permissions");
    if claude && asks && agent::is_root() && env::var_os("IS_SANDBOX").is_none() {
        return refuse(
            "`claude` refuses `--dangerously-skip-permissions` as root; run as another user, or \
             set `IS_SANDBOX=1` if this machine is a sandbox"
                .to_owned(),
        );
    }
    Ok(())
}

/// Who runs here already.
fn held(workspace: &Workspace) -> String {
    let Some(holder) = workspace.state.holder() else {
        return "another ralph runs in this repository".to_owned();
    };
    let task = holder.task_id.map_or(String::new(), |id| format!(", working on `{id}`"));
    format!(
        "another ralph runs in this repository: process {}, run {}{task}, since {}",
        holder.pid, holder.run_id, holder.since
    )
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}
