//! The beginning of an attempt: intent on disk and in the graph, then the agent.

use std::{
    env,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{Runner, RunnerMessage, verify::ProcessStage, watch::RunningAttempt};
use crate::{
    adapters::{
        agent_output::Follow,
        process::{self, AgentProcess, GuardPost, NESTED, NotStarted, PANE, ProcessSpec},
        service_manager, tmux,
    },
    core::{
        agents::{agent_command::AgentCommand, agent_preset, transcript::Format},
        event::{Cause, Event},
        exit::{Exit, Failure},
        graph::{TaskGraph, task::Task},
        select::{Policy, SelectionKey, Turn},
        verdict::Outcome,
    },
    crash,
    project::{
        attempt::{self, AcceptanceCriteria, AttemptRecord},
        graph_file::{Write, rfc3339},
        workspace::Workspace,
    },
};

impl Runner {
    /// Begins an attempt: intent first, on disk and in the graph, then the agent.
    pub(super) fn start(&mut self, key: SelectionKey) -> Result<()> {
        let number = key.number;
        let id = self.file.graph().task(number).id.clone();
        let history = self.chronicle.history();
        let (number_of_attempt, iteration) =
            (history.of(&id).attempts + 1, history.run.iterations + 1);
        let prompt = self.prompt(number)?;
        let run_id = self.chronicle.run_id().to_owned();
        let active = self.active();
        let view = self.view(&active);
        let call = match view.agent(number, Utc::now()) {
            Turn::Now(call) => call.cloned(),
            // The clock was set back since it was chosen.
            Turn::Busy(_) | Turn::Later(_) | Turn::Never => view.agents(number).first().cloned(),
        };
        let apart = self.place_apart()?;
        let record = attempt::begin(&self.workspace, &run_id, iteration, &id, number_of_attempt)?;
        let record = match apart {
            None => record,
            Some((apart, base)) => record.moved(apart, base),
        };
        let terms = AcceptanceCriteria::of(&self.workspace, self.file.graph().task(number));
        let pane = self.options.tmux.then(tmux::folder);
        let record = AttemptRecord { call, terms: Some(terms), pane, ..record };
        let record = attempt::open(&self.workspace, record, &prompt)?;
        crash::point("start.recorded");
        self.hold(Some(&id))?;
        let about = (&id, iteration);
        let at = rfc3339(record.started_at);
        let by = format!("ralph {run_id}");
        self.set(about, Write::Claim { at: &at, by: &by }, Cause::Claimed)?;
        crash::point("start.claimed");
        self.remember_graph()?;
        crash::point("start.kept");
        let started = Event::Started {
            attempt: record.attempt,
            base: record.base.clone(),
            branch: record.branch.clone(),
            log: record.log.clone(),
            why: key.to_string(),
            format: record.call.as_ref().map(|call| call.output).unwrap_or_default(),
            worktree: record.apart.as_ref().map(|apart| apart.tree.display().to_string()),
        };
        self.emit(Some(about), started)?;
        crash::point("start.told");
        self.wake = None;
        if record.apart.is_some() {
            return self.prepare(record);
        }
        self.launch_first(record)
    }

    /// Starts the process of a stage.
    pub(super) fn launch(&mut self, mut record: AttemptRecord, stage: ProcessStage) -> Result<()> {
        self.announce(&record, &stage)?;
        let call = record.call.clone().context("an attempt without an agent")?;
        let mut spec = self.instead(&record, &stage, self.spec(&record, &call));
        let (outbox, name) = (self.outbox.clone(), record.name());
        let began = Instant::now();
        let is_agent = matches!(stage, ProcessStage::Agent);
        let idle = self.idle_limit(&record, &stage);
        let sign = self.workspace.state.attempt(&record.name());
        let pane = record.pane.as_deref().filter(|_| is_agent);
        if let Some(folder) = pane {
            spec = in_pane(spec, folder, &record, &sign, idle);
        }
        let post = GuardPost {
            program: process::own_program(),
            record: sign,
            exit: is_agent.then(|| self.workspace.state.exit(&record.name())),
            lock: self.lock.folder(),
            idle,
            redact: self.workspace.redacts(),
            screen: pane.map(tmux::screen),
        };
        let tell = move |news| drop(outbox.send(RunnerMessage::News(name.clone(), news)));
        match AgentProcess::spawn(&spec, &post, tell) {
            Ok(agent) => {
                crash::point("start.spawned");
                record.agent = Some(agent.identity().clone());
                record.guardian = Some(agent.guardian().clone());
                self.workspace
                    .state
                    .update_attempt(&record.name(), &record.redacted(&self.workspace))
                    .context("record the agent's process")?;
                crash::point("start.identified");
                let format = if is_agent { call.output } else { Format::Text };
                let (id, iteration, attempt) =
                    (record.task_id.clone(), record.iteration, record.attempt);
                self.running.push(RunningAttempt {
                    output: Follow::new(spec.stdout, format),
                    doing: None,
                    exit_by: None,
                    seen: (record.base.clone(), record.dirty.clone()),
                    limit: self.limit(&record, &stage),
                    idle: post.idle,
                    record,
                    stage,
                    agent,
                    started: began,
                    cancel_at: None,
                    ending: None,
                    children: None,
                });
                if is_agent {
                    self.emit(Some((&id, iteration)), Event::AgentStarted { attempt })?;
                    crash::point("start.told_agent");
                }
                Ok(())
            }
            Err(reason) => {
                let outcome = match reason {
                    NotStarted::Refused(error) => Outcome::NotStarted { error },
                    NotStarted::Unguarded => Outcome::Interrupted,
                };
                // A guardian that was killed before it could say so may have started it.
                let (swept, _) = self.end_unguarded(&record);
                self.passed(record, stage, outcome, began.elapsed(), swept)
            }
        }
    }

    fn spec(&self, record: &AttemptRecord, call: &AgentCommand) -> ProcessSpec {
        let root = self.workspace.root();
        let task_dir = root.join(self.workspace.task_dir(&record.task_id)).display().to_string();
        let mut env = vec![
            ("RALPH_TASK_ID".to_owned(), record.task_id.to_string()),
            ("RALPH_ATTEMPT".to_owned(), record.attempt.to_string()),
            ("RALPH_RUN_ID".to_owned(), record.run_id.clone()),
            ("RALPH_ATTEMPT_ID".to_owned(), record.mark()),
            ("RALPH_TASK_DIR".to_owned(), task_dir.clone()),
            ("TASK_FOLDER".to_owned(), task_dir),
        ];
        // The agent's own `ralph` must mean the same file, and the same loop.
        if let Some(graph) = self.workspace.other_graph() {
            env.push(("RALPH_GRAPH".to_owned(), graph.display().to_string()));
        }
        if let Some(apart) = &record.apart {
            env.push(("RALPH_WORKTREE".to_owned(), apart.tree.display().to_string()));
        }
        if let Some(name) = self.workspace.place.name() {
            env.push(("RALPH_LOOP".to_owned(), name.to_string()));
        }
        if let Some(config) = self.workspace.layers.named() {
            env.push(("RALPH_CONFIG".to_owned(), config.display().to_string()));
        }
        env.extend(without_gc());
        env.extend(call.env.clone());
        ProcessSpec {
            argv: call.argv.clone(),
            dir: record.apart.as_ref().map_or(root, |apart| &apart.tree).to_owned(),
            env,
            // The last ones are of an attempt that this run may itself be part of.
            env_remove: NESTED
                .into_iter()
                .chain(service_manager::VARIABLES)
                .chain(["RALPH_PARENT_RUN_ID", "RALPH_LOOP", "RALPH_WORKTREE"])
                .map(str::to_owned)
                .collect(),
            stdin: record.file(&self.workspace, "prompt.md"),
            stdout: record.file(&self.workspace, "stdout"),
            stderr: record.file(&self.workspace, "stderr"),
        }
    }
}

/// What gives the agent of `spec` a terminal and ends as it does.
fn in_pane(
    spec: ProcessSpec,
    folder: &Path,
    record: &AttemptRecord,
    sign: &Path,
    idle: Option<Duration>,
) -> ProcessSpec {
    /// Between two looks at the screen; where the limit is short, no more often than that.
    const LOOK: Duration = Duration::from_secs(2);
    const OFTEN: Duration = Duration::from_millis(100);
    let shown = |path: &Path| path.display().to_string();
    let mut argv = vec![
        shown(&process::own_program()),
        "__pane".to_owned(),
        shown(folder),
        format!("--title={} attempt {}", record.task_id, record.attempt),
        format!("--prompt={}", shown(&spec.stdin)),
        format!("--record={}", shown(sign)),
    ];
    let look = idle.map(|idle| (idle / 4).clamp(OFTEN, LOOK));
    argv.extend(look.map(|look| format!("--look={}ms", look.as_millis())));
    argv.push("--".to_owned());
    argv.extend(spec.argv);
    let mut env = spec.env;
    env.push((PANE.to_owned(), record.mark()));
    let mut env_remove = spec.env_remove;
    // Of the terminal that this run may itself be in.
    env_remove.extend(["TMUX", "TMUX_PANE"].map(str::to_owned));
    ProcessSpec { argv, env, env_remove, ..spec }
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

/// Finds out before any task is claimed whether the agents can be started.
pub(super) fn check_agents(
    policy: &Policy,
    graph: &TaskGraph,
    workspace: &Workspace,
) -> Result<()> {
    let agents = agents(policy, graph.tasks());
    agents.iter().try_for_each(|(call, hint)| check_agent(call, workspace, hint))
}

/// The agents that the open ones of these tasks need, each with how to name another.
pub fn agents<'a>(policy: &'a Policy, tasks: &'a [Task]) -> Vec<(&'a AgentCommand, String)> {
    let open = |task: &&Task| !task.status.is_over() && policy.filter.admits(task);
    let (own, others): (Vec<&Task>, Vec<&Task>) =
        tasks.iter().filter(open).partition(|task| !policy.agents_given && !task.agents.is_empty());
    let mut found = Vec::new();
    if own.is_empty() || !others.is_empty() {
        let hint = "name another after `--`, or set `agent` in `.ralph/config.yaml`";
        found.extend(policy.agents.iter().map(|call| (call, hint.to_owned())));
    }
    for task in own {
        let hint = format!("change `agent` of `{}`, or name one for all after `--`", task.id);
        found.extend(task.agents.iter().map(|call| (call, hint.clone())));
    }
    found
}

/// Finds out whether an agent can be started; `hint` is what else can be done.
///
/// # Errors
/// When it cannot.
pub fn check_agent(call: &AgentCommand, workspace: &Workspace, hint: &str) -> Result<()> {
    let refuse = |message: String| Err(Failure::new(Exit::Agent, message).into());
    let Some(program) = call.argv.first() else {
        return refuse(format!("no agent command; {hint}"));
    };
    if let Err(reason) = process::resolve(program, workspace.root()) {
        return refuse(format!("the agent cannot be started: {reason}; {hint}"));
    }
    let asks = call.argv.iter().any(|word| word == "--dangerously-skip-permissions");
    let variables = agent_preset::find(&call.name).map_or(&[][..], |preset| preset.as_root);
    let is_set = |name: &str| env::var_os(name).is_some() || call.env.contains_key(name);
    match variables.iter().find(|(name, _)| !is_set(name)) {
        Some((name, value)) if asks && process::is_root() => refuse(format!(
            "`{}` refuses `--dangerously-skip-permissions` as root; run as another user, or set \
             `{name}={value}` if this machine is a sandbox",
            call.name
        )),
        _ => Ok(()),
    }
}
