//! A call of the agent of a draft, behind a guardian.

use std::{
    convert::Infallible,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{Local, Utc};

use super::{DraftSignals, slot::DraftSlot, stopped};
use crate::{
    adapters::{
        agent_output::{self, Follow},
        process::{self, GuardPost, GuardianPool, ProcessSpec},
        state::Lock,
        terminal,
    },
    core::{
        agents::{
            agent_command::AgentCommand,
            provider_error::{Advice, AttemptOutput, ProviderErrorKind, classify},
            transcript::{AgentTranscript, Format},
        },
        duration,
        event::DraftCall,
        exit::{Exit, Failure},
        failure_line,
        graph::drafted::fenced_graph,
        outcome::Outcome,
    },
    project::{
        executors,
        placement::{self, ProcessFacts},
        workspace::Workspace,
    },
    regular_file,
    runner::draft_agent,
    view::lines::moment,
};

/// How much of the output of an agent without a format is searched for a draft, in bytes.
const SEARCHED: u64 = 4 << 20;
/// How much of the standard error is searched for the reason of a failure, in bytes.
const STDERR: u64 = 8 << 10;

/// The agent of a draft.
#[derive(Clone, Copy)]
pub(super) struct DraftAgent<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) call: &'a AgentCommand,
    pub(super) slot: &'a DraftSlot,
    pub(super) lock: &'a Lock,
}

/// A call that has ended.
pub(super) struct EndedCall {
    /// What the journal records of it.
    pub(super) record: DraftCall,
    transcript: AgentTranscript,
    /// The signal that ended it.
    signal: Option<i32>,
    folder: PathBuf,
}

/// Why a draft cannot go on with the agent of a call.
pub(super) struct CallFault {
    pub(super) error: anyhow::Error,
    /// Whether the agent cannot be started or its provider refuses, so that another may do.
    pub(super) is_refusal: bool,
}

/// Why `ralph` ends an agent.
enum DraftEnd {
    Signal(i32),
    Timeout,
    Lingered,
}

impl DraftAgent<'_> {
    /// Runs the setup commands of the settings in the slot. The agent can do without them.
    ///
    /// # Errors
    /// A signal; errors of the disk.
    pub(super) fn set_up(&self, log: &str, signals: &DraftSignals) -> Result<()> {
        let DraftAgent { workspace, call, slot, .. } = *self;
        let (folder, config) = (workspace.root().join(log), &workspace.config);
        for (at, command) in config.setup.0.iter().enumerate() {
            fs::create_dir_all(&folder).with_context(|| format!("create `{log}`"))?;
            super::say(&format!("setup: `{command}`"));
            let name = format!("setup-{}.log", at + 1);
            let agent = draft_agent(workspace, call, &slot.root, &folder, &slot.answer_file());
            let spec = ProcessSpec {
                argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
                stdin: "/dev/null".into(),
                stdout: folder.join(&name),
                stderr: folder.join(&name),
                ..agent
            };
            let (spec, post) = self.placed(spec, self.post(None)?)?;
            let limits = (config.setup_timeout, config.grace);
            let Ok(outcome) = process::run_guarded(&spec, &post, limits, |process| {
                if signals.count() > 1 {
                    process.kill();
                }
                Ok::<_, Infallible>(signals.number().is_none())
            });
            if let Some(number) = signals.number() {
                return Err(stopped(number, None));
            }
            if outcome != (Outcome::Exited { exit_code: 0 }) {
                super::say(&format!(
                    "`{command}` (setup) {outcome}; the agent goes on without it; its output is in \
                     {log}/{name}"
                ));
                return Ok(());
            }
        }
        Ok(())
    }

    /// What the guardian of a process gets.
    fn post(&self, idle: Option<Duration>) -> Result<GuardPost> {
        let record = self.workspace.state.draft().join("record");
        fs::write(&record, "").context("write the record of the draft")?;
        let guardians = GuardianPool::new(process::own_program(), self.lock.folder());
        Ok(GuardPost {
            guardians: guardians.context("hold the lock for the agent")?,
            record,
            exit: None,
            idle,
            redact: self.workspace.redacts(),
            screen: None,
            carrier: None,
        })
    }

    /// Returns a process as the executor of the settings starts it. A draft reads and writes files of
    /// this machine.
    fn placed(&self, spec: ProcessSpec, post: GuardPost) -> Result<(ProcessSpec, GuardPost)> {
        let DraftAgent { workspace, call, slot, .. } = *self;
        let executor = executors::find(&workspace.config, Some(&workspace.config.run_on))?;
        if !executor.is_here() {
            let message = format!(
                "a draft is made on this machine, and `run_on` is `{}`; `RALPH_RUN_ON=sandbox ralph \
                 draft …` makes it in a sandbox, and `local` without one",
                executor.name
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let facts = ProcessFacts {
            mark: "draft".to_owned(),
            slot: slot.root.clone(),
            base: None,
            task_dir: slot.answer_file().parent().map(PathBuf::from).unwrap_or_default(),
            record: post.record.clone(),
            agent: call.preset_name(),
            limit: None,
            resources: None,
        };
        let placed = placement::placed(workspace, &executor, &facts, spec);
        let placed = placed.map_err(|fault| Failure::new(Exit::Agent, fault.to_string()))?;
        Ok((placed.spec, GuardPost { carrier: placed.carrier, ..post }))
    }

    /// Calls the agent. Nothing that it started runs on return.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn call(
        &self,
        number: u32,
        log: &str,
        prompt: &str,
        signals: &DraftSignals,
    ) -> Result<EndedCall> {
        let DraftAgent { workspace, call, slot, .. } = *self;
        let folder = workspace.root().join(log);
        fs::create_dir_all(&folder).with_context(|| format!("create `{log}`"))?;
        let clean = workspace.secrets().map(|secrets| secrets.without_shapes().text(prompt));
        regular_file::write(
            &folder.join("prompt.md"),
            clean.as_deref().unwrap_or(prompt).as_bytes(),
        )
        .with_context(|| format!("write `{log}/prompt.md`"))?;
        let spec = draft_agent(workspace, call, &slot.root, &folder, &slot.answer_file());
        let post = self.post(Some(workspace.config.idle).filter(|idle| !idle.is_zero()))?;
        let (spec, post) = self.placed(spec, post)?;
        let began = Instant::now();
        let mut watch = DraftWatch {
            workspace,
            signals,
            began,
            follow: Follow::new(spec.stdout.clone(), call.output),
            over_since: None,
            ending: None,
            shown: None,
        };
        // The watch has its own limit: an agent that is asked to stop may still tell its cost.
        let limits = (Duration::MAX, workspace.config.grace);
        let Ok(outcome) = process::run_guarded(&spec, &post, limits, |agent| {
            Ok::<_, Infallible>(watch.turn(agent))
        });
        watch.clear();
        let limit_seconds = |limit: Duration| limit.as_secs();
        let (outcome, signal) = match watch.ending {
            Some((DraftEnd::Signal(number), _)) => (Outcome::Cancelled, Some(number)),
            Some((DraftEnd::Timeout, _)) => {
                let limit_seconds = limit_seconds(workspace.config.timeout);
                (Outcome::TimedOut { limit_seconds }, None)
            }
            Some((DraftEnd::Lingered, _)) => {
                let limit_seconds = limit_seconds(workspace.config.exit_grace);
                (Outcome::Lingered { limit_seconds }, None)
            }
            None => (outcome, None),
        };
        let transcript = agent_output::told(&spec.stdout, call.output);
        let record = DraftCall {
            call: number,
            agent: call.name.clone(),
            outcome,
            duration_seconds: duration::seconds(began.elapsed()),
            usage: transcript.usage.clone(),
            tasks: None,
            log: log.to_owned(),
        };
        Ok(EndedCall { record, transcript, signal, folder })
    }

    /// The draft: the file that the agent wrote, or the YAML in its last message.
    pub(super) fn answer(&self, ended: &EndedCall, last: Option<&str>) -> Option<String> {
        let in_message = || {
            let end = ended.transcript.end.as_ref().map(|end| end.text.as_str());
            [end, ended.transcript.message.as_deref()]
                .into_iter()
                .flatten()
                .find_map(fenced_graph)
                .or_else(|| {
                    let is_text = matches!(self.call.output, Format::Text | Format::Aider);
                    let printed = || agent_output::end(&ended.folder.join("stdout"), SEARCHED);
                    is_text.then(printed).as_deref().and_then(fenced_graph)
                })
        };
        match self.slot.answer() {
            Some(text) if Some(text.as_str()) == last => in_message().or(Some(text)),
            Some(text) => Some(text),
            None => in_message(),
        }
    }

    /// Why the draft cannot go on after this call, if it cannot: a signal, a limit, the provider, or
    /// an agent that failed without a draft.
    pub(super) fn fault(&self, ended: &EndedCall, has_answer: bool) -> Option<CallFault> {
        let EndedCall { record, transcript, folder, .. } = ended;
        let log = &record.log;
        if let Some(number) = ended.signal {
            return Some(CallFault { error: stopped(number, Some(log)), is_refusal: false });
        }
        let unchanged = format!("the graph is unchanged; prompt and output are in {log}");
        let failure = |exit, why: String| Failure::new(exit, format!("{why}; {unchanged}")).into();
        let fail = |exit, why| Some(CallFault { error: failure(exit, why), is_refusal: false });
        let refuse = |exit, why| Some(CallFault { error: failure(exit, why), is_refusal: true });
        let name = &self.call.name;
        if let Outcome::NotStarted { error } = &record.outcome {
            return refuse(Exit::Agent, format!("the agent cannot be started: {error}"));
        }
        let stderr = agent_output::end(&folder.join("stderr"), STDERR);
        let output = AttemptOutput {
            format: self.call.output,
            streams: self.call.streams(),
            transcript,
            outcome: &record.outcome,
            stderr: &stderr,
        };
        let error = classify(&output, &Local::now());
        let now = Utc::now();
        match error.map(|error| (error, error.advice(0, now))) {
            Some((error, Advice::Stop(exit))) => {
                let remedy = error.remedy(self.call);
                let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
                return refuse(exit, format!("`{name}`: {error}{remedy}"));
            }
            Some((error, Advice::Wait { until })) if error != ProviderErrorKind::NoAnswer => {
                let until = moment(until, now);
                return refuse(
                    Exit::Limit,
                    format!("`{name}`: {error}; run it again after {until}"),
                );
            }
            Some((error, _)) if !has_answer && is_own_end(&record.outcome) => {
                return fail(Exit::Error, format!("`{name}`: {error}"));
            }
            _ => {}
        }
        match &record.outcome {
            Outcome::Idle { .. } => {
                let limit = duration::short(self.workspace.config.idle);
                fail(
                    Exit::Limit,
                    format!("limit reached: `{name}` did nothing for {limit} (`idle`)"),
                )
            }
            Outcome::TimedOut { .. } => {
                let limit = duration::short(self.workspace.config.timeout);
                fail(Exit::Limit, format!("limit reached: `{name}` took longer than {limit}"))
            }
            Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. } => None,
            _ if has_answer => None,
            outcome => {
                let lines = [agent_output::failure(&folder.join("stdout")), stderr];
                let line =
                    lines.iter().rev().find_map(|text| failure_line::of(&terminal::plain(text)));
                let line = line.map_or_else(String::new, |line| format!(": {line}"));
                fail(Exit::Error, format!("`{name}` {outcome}{line}"))
            }
        }
    }
}

/// Whether an agent ended by itself.
fn is_own_end(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. })
}

/// What ends an agent, and what is shown of it meanwhile.
struct DraftWatch<'a> {
    workspace: &'a Workspace,
    signals: &'a DraftSignals,
    began: Instant,
    follow: Follow,
    /// When its last result came.
    over_since: Option<Instant>,
    /// Why and since when it is ended.
    ending: Option<(DraftEnd, Instant)>,
    /// When its activity was shown last.
    shown: Option<Instant>,
}

impl DraftWatch<'_> {
    /// Returns whether the agent may continue.
    fn turn(&mut self, agent: &process::AgentProcess) -> bool {
        let config = &self.workspace.config;
        let is_over = self.follow.look().is_some_and(|it| it.is_over && it.background == 0);
        self.over_since = if is_over { self.over_since.or(Some(Instant::now())) } else { None };
        if self.signals.count() > 1 {
            agent.kill();
        }
        if let Some((_, since)) = &self.ending {
            return since.elapsed() < config.grace;
        }
        let lingers = self.over_since.is_some_and(|since| since.elapsed() >= config.exit_grace);
        let end = match self.signals.number() {
            Some(number) => {
                self.clear();
                terminal::say("ending the agent; press Ctrl-C again to kill it at once");
                DraftEnd::Signal(number)
            }
            None if self.began.elapsed() >= config.timeout => DraftEnd::Timeout,
            None if lingers => DraftEnd::Lingered,
            None => {
                self.show();
                return true;
            }
        };
        // Some agents print their result when they are interrupted.
        agent.interrupt();
        self.ending = Some((end, Instant::now()));
        true
    }

    /// Shows what the agent does, on one line of a terminal.
    fn show(&mut self) {
        const OFTEN: Duration = Duration::from_secs(1);
        if !terminal::stderr_is_live() || self.shown.is_some_and(|at| at.elapsed() < OFTEN) {
            return;
        }
        self.shown = Some(Instant::now());
        let doing = self.follow.doing().unwrap_or_default();
        let text = format!("{}  {}", duration::short(self.began.elapsed()), doing);
        let text = terminal::visible(&text);
        let width = terminal::stderr_width().unwrap_or(80).saturating_sub(1);
        let line = format!("\r\u{1b}[2K{}", terminal::fit(&text, width));
        let _ = terminal::put_error(line.as_bytes());
    }

    fn clear(&self) {
        if self.shown.is_some() {
            let _ = terminal::put_error(b"\r\x1b[2K");
        }
    }
}
