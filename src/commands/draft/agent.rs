//! The agent of a draft: its slot, and a call of it behind a guardian.

use std::{
    convert::Infallible,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{Local, Utc};

use super::{DraftSignals, stopped};
use crate::{
    adapters::{
        agent_output::{self, Follow},
        process::{
            self, AgentProcess, GuardianCommand, GuardianProgram, GuardianSpec, ProcessSpec,
        },
        state::Lock,
        terminal,
    },
    commands::temporary_slot::{SlotUse, TemporarySlot, remove_folder},
    core::{
        agents::{
            agent_command::AgentCommand,
            provider_error::{Advice, AttemptOutput, ProviderErrorKind, classify},
            transcript::{AgentTranscript, Format},
        },
        duration,
        event::DraftCall,
        exit::{Exit, Failure, fail},
        failure_line,
        graph::drafted::fenced_graph,
        loop_paths::LoopPaths,
        outcome::Outcome,
    },
    project::{
        executors,
        placement::{self, ProcessFacts},
        slot_pool::SlotPool,
        workspace::Workspace,
    },
    regular_file,
    runner::draft_agent,
    view::lines::moment,
};

/// The folder of the draft in the slot, at its top: agents may write nowhere else, and some only
/// where git ignores nothing.
const FOLDER: &str = "ralph-draft";
/// The branch that is checked out in the slot.
const BRANCH: &str = "ralph/draft";

/// How much of the output of an agent without a format is searched for a draft, in bytes.
const SEARCHED: u64 = 4 << 20;
/// How much of the standard error is searched for the reason of a failure, in bytes.
const STDERR: u64 = 8 << 10;

/// The slot of a draft: of what happens in it, only the draft is used.
pub(super) struct DraftSlot {
    slot: TemporarySlot,
    /// The files of its commit.
    pub(super) files: Vec<String>,
}

impl DraftSlot {
    /// Makes the slot. The caller holds the lock of drafts.
    ///
    /// # Errors
    /// Those of [`TemporarySlot::prepare`].
    pub(super) fn prepare(workspace: &Workspace) -> Result<DraftSlot> {
        let wanted = SlotUse {
            root: SlotPool::of(workspace).draft(),
            branch: BRANCH,
            base_ref: LoopPaths::draft_ref().to_owned(),
            mark: FOLDER,
        };
        let slot = TemporarySlot::prepare(workspace, wanted)?;
        Ok(DraftSlot { files: workspace.repo.files_at(&slot.base)?, slot })
    }

    /// Its top.
    pub(super) fn root(&self) -> &Path {
        &self.slot.root
    }

    fn folder(&self) -> PathBuf {
        self.root().join(FOLDER)
    }

    /// The file that the agent writes.
    pub(super) fn answer_file(&self) -> PathBuf {
        self.folder().join("draft.yaml")
    }

    /// The file with the whole text, if it is too long for the prompt.
    pub(super) fn spec_file(&self) -> PathBuf {
        self.folder().join("spec.md")
    }

    /// Prepares the folder for a call: with the whole text, if the prompt has only its beginning, and
    /// with the last draft, if there is one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn begin(&self, whole: Option<&str>, last: Option<&str>) -> Result<()> {
        let begin = || -> io::Result<()> {
            // The agent may have put anything in its place.
            match fs::symlink_metadata(self.folder()) {
                Ok(found) if found.is_dir() => remove_folder(&self.folder())?,
                Ok(_) => fs::remove_file(self.folder())?,
                Err(_) => {}
            }
            fs::create_dir_all(self.folder())?;
            if let Some(text) = whole {
                regular_file::write(&self.spec_file(), text.as_bytes())?;
            }
            match last.filter(|last| !last.is_empty()) {
                Some(last) => regular_file::write(&self.answer_file(), last.as_bytes()),
                None => Ok(()),
            }
        };
        begin().with_context(|| format!("prepare `{}`", self.folder().display()))
    }

    /// The draft that the agent wrote, or left as it was.
    pub(super) fn answer(&self) -> Option<String> {
        let path = self.answer_file();
        // What a link leads to is not what the agent wrote.
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| !it.is_symlink());
        let bytes =
            (is_own(&self.folder()) && is_own(&path)).then(|| regular_file::read(&path).ok());
        let text = String::from_utf8_lossy(&bytes??).into_owned();
        Some(text).filter(|text| !text.trim().is_empty())
    }
}

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

impl DraftAgent<'_> {
    /// Runs the setup commands of the settings in the slot. The agent can do without them.
    ///
    /// # Errors
    /// A signal; errors of the disk.
    pub(super) fn set_up(&self, log: &str, signals: &DraftSignals) -> Result<()> {
        let (folder, config) = (self.workspace.root().join(log), &self.workspace.config);
        for (at, command) in config.setup.0.iter().enumerate() {
            fs::create_dir_all(&folder).with_context(|| format!("create `{log}`"))?;
            super::say(&format!("setup: `{command}`"));
            let name = format!("setup-{}.log", at + 1);
            let spec = ProcessSpec {
                argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
                stdin: "/dev/null".into(),
                stdout: folder.join(&name),
                stderr: folder.join(&name),
                ..self.spec(&folder)
            };
            let outcome = self.run(spec, None, config.setup_timeout, |process| {
                if signals.count() > 1 {
                    process.order(GuardianCommand::Kill);
                }
                signals.number().is_none()
            })?;
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

    /// The process of the agent, with its files in `folder`.
    fn spec(&self, folder: &Path) -> ProcessSpec {
        let DraftAgent { workspace, call, slot, .. } = *self;
        draft_agent(workspace, call, slot.root(), folder, &slot.answer_file())
    }

    /// Runs a process to its end, where the settings say. A draft reads and writes files of this
    /// machine.
    fn run(
        &self,
        spec: ProcessSpec,
        idle: Option<Duration>,
        limit: Duration,
        mut turn: impl FnMut(&AgentProcess) -> bool,
    ) -> Result<Outcome> {
        let DraftAgent { workspace, call, slot, lock } = *self;
        let executor = executors::find(&workspace.config, Some(&workspace.config.run_on))?;
        if !executor.is_here() {
            return fail(
                Exit::Usage,
                format!(
                    "a draft is made on this machine, and `run_on` is `{}`; `RALPH_RUN_ON=sandbox ralph \
                 draft …` makes it in a sandbox, and `local` without one",
                    executor.name
                ),
            );
        }
        let record = workspace.state.draft().join("record");
        fs::write(&record, "").context("write the record of the draft")?;
        let facts = ProcessFacts {
            mark: "draft".to_owned(),
            slot: slot.root().to_owned(),
            base: None,
            task_dir: slot.folder(),
            record: record.clone(),
            agent: call.preset_name(),
            limit: None,
            resources: None,
        };
        let placed = placement::placed(workspace, &executor, &facts, spec);
        let placed = placed.map_err(|fault| Failure::new(Exit::Agent, fault.to_string()))?;
        let guardians =
            GuardianProgram::new(lock.folder()).context("hold the lock for the agent")?;
        let spec = GuardianSpec::new(placed.spec, record, workspace.redacts());
        let spec = GuardianSpec { idle, carrier: placed.carrier, ..spec };
        let limits = (limit, workspace.config.grace);
        let Ok(outcome) = process::run_guarded(&guardians, &spec, limits, |agent| {
            Ok::<_, Infallible>(turn(agent))
        });
        Ok(outcome)
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
        let DraftAgent { workspace, call, .. } = *self;
        let (folder, config) = (workspace.root().join(log), &workspace.config);
        fs::create_dir_all(&folder).with_context(|| format!("create `{log}`"))?;
        let clean = workspace.secrets().map(|secrets| secrets.without_shapes().text(prompt));
        let clean = clean.as_deref().unwrap_or(prompt);
        regular_file::write(&folder.join("prompt.md"), clean.as_bytes())
            .with_context(|| format!("write `{log}/prompt.md`"))?;
        let spec = self.spec(&folder);
        let (stdout, began) = (spec.stdout.clone(), Instant::now());
        let mut follow = Follow::new(stdout.clone(), call.output);
        let mut activity = ActivityLine { began, shown: None };
        // Since when its last result is there.
        let mut over_since: Option<Instant> = None;
        let mut is_ending = false;
        let idle = Some(config.idle).filter(|idle| !idle.is_zero());
        let outcome = self.run(spec, idle, config.timeout, |agent| {
            if signals.count() > 1 {
                agent.order(GuardianCommand::Kill);
            }
            let is_over = follow.look().is_some_and(|it| it.is_over && it.background == 0);
            over_since = if is_over { over_since.or(Some(Instant::now())) } else { None };
            if signals.number().is_none() {
                activity.show(&mut follow);
            } else if !is_ending {
                is_ending = true;
                activity.clear();
                terminal::say("ending the agent; press Ctrl-C again to kill it at once");
            }
            signals.number().is_none()
                && over_since.is_none_or(|since| since.elapsed() < config.exit_grace)
        })?;
        activity.clear();
        let outcome = match outcome {
            Outcome::Cancelled if signals.number().is_none() => {
                Outcome::Lingered { limit_seconds: config.exit_grace.as_secs() }
            }
            outcome => outcome,
        };
        let transcript = agent_output::transcript(&stdout, call.output);
        let record = DraftCall {
            call: number,
            agent: call.name.clone(),
            outcome,
            duration_seconds: duration::seconds(began.elapsed()),
            usage: transcript.usage.clone(),
            tasks: None,
            log: log.to_owned(),
        };
        Ok(EndedCall { record, transcript, signal: signals.number(), folder })
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

/// The line of a terminal that says what the agent does.
struct ActivityLine {
    began: Instant,
    /// When it was written last.
    shown: Option<Instant>,
}

impl ActivityLine {
    fn show(&mut self, follow: &mut Follow) {
        const OFTEN: Duration = Duration::from_secs(1);
        if !terminal::stderr_is_live() || self.shown.is_some_and(|at| at.elapsed() < OFTEN) {
            return;
        }
        self.shown = Some(Instant::now());
        let doing = follow.doing().unwrap_or_default();
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
