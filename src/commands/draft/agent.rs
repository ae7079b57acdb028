//! The agent of a draft: an ordinary run of one attempt, as an isolated loop of a copy of the
//! repository that is removed afterwards. Of all that happens there, only the draft is used.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Local;
use serde_json::{Value, json};

use super::stopped;
use crate::{
    adapters::{agent_output, git::Repo, terminal},
    commands::{
        run::loop_graph,
        slots::{SlotUse, TemporarySlot, remove_folder},
    },
    core::{
        agents::{agent_command::AgentCommand, transcript::Format},
        event::{AttemptResult, DraftCall, PlainLoop, RequestEvent, StopReason, record::Record},
        exit::{Exit, Failure},
        graph::{drafted::fenced_graph, task::TaskId},
        history::attempt_log::{AttemptEntry, AttemptLog, LogDetail},
        loop_paths::LoopPaths,
        outcome::Outcome,
        select::View,
    },
    project::{
        config::ConfigLayer, config_layers::Origin, slot_pool::SlotPool, workspace::Workspace,
    },
    regular_file,
    runner::{Reporter, RunOptions, Runner},
};

/// The folder of the draft in the copy: that of the task of its loop.
const FOLDER: &str = ".ralph/loops/draft";
/// The branch that is checked out in the copy.
const BRANCH: &str = "ralph/draft";
/// The name of the loop in the copy.
const LOOP: &str = "draft";
/// How much of the output of an agent without a format is searched for a draft, in bytes.
const SEARCHED: u64 = 4 << 20;

/// The copy of the repository for a draft.
pub(super) struct DraftSlot {
    slot: TemporarySlot,
    /// The files of its commit.
    pub(super) files: Vec<String>,
}

impl DraftSlot {
    /// Makes the copy. The caller holds the lock of drafts.
    ///
    /// # Errors
    /// Those of [`TemporarySlot::prepare`].
    pub(super) fn prepare(workspace: &Workspace) -> Result<DraftSlot> {
        let wanted = SlotUse {
            root: SlotPool::of(workspace).draft(),
            commit: None,
            branch: BRANCH,
            base_ref: LoopPaths::draft_ref().to_owned(),
            mark: FOLDER,
        };
        let slot = TemporarySlot::prepare(workspace, wanted)?;
        let files = workspace.repo.files_at(&slot.base)?;
        let slot = DraftSlot { slot, files };
        // A killed command left it.
        slot.remove_slots();
        fs::create_dir_all(slot.folder()).context("create the folder of the draft")?;
        Repo::discover(slot.root())?.slot().detach().context("detach the copy")?;
        Ok(slot)
    }

    /// Removes the slots of the copy.
    fn remove_slots(&self) {
        let _ = remove_folder(&self.root().with_extension("slots"));
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

    /// Prepares the folder for a call, without the reports of an earlier one: with the whole text, if
    /// the prompt has only its beginning, and with the last draft, if there is one.
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

/// A call that has ended.
pub(super) struct EndedCall {
    /// What the journal records of its attempts: one of each agent that was refused, and the last.
    pub(super) records: Vec<DraftCall>,
    /// The draft: the file that the agent wrote, or the YAML in its last message.
    pub(super) answer: Option<String>,
    /// Why the draft cannot go on, if it cannot: a signal, a limit, the provider, or an agent that
    /// failed without a draft.
    pub(super) fault: Option<anyhow::Error>,
}

impl DraftSlot {
    /// Runs an agent once: the first that its provider does not refuse. `earlier` attempts were made
    /// before; `log` is the folder for what they write, relative to the repository, and `last` the
    /// draft that the agent starts from.
    ///
    /// # Errors
    /// No attempt was made; errors of the run.
    pub(super) fn call(
        &self,
        workspace: &Workspace,
        agents: &[AgentCommand],
        prompt: &str,
        (earlier, log): (u32, &str),
        last: Option<&str>,
    ) -> Result<EndedCall> {
        let prompt_file = self.root().join(".git/ralph-draft.md");
        regular_file::write(&prompt_file, prompt.as_bytes()).context("write the prompt")?;
        let mut first = 0;
        let (reason, attempts) = loop {
            let (reason, attempts) = self.run(workspace, &agents[first..], &prompt_file)?;
            first += 1;
            if !is_refusal(&reason) || first == agents.len() {
                break (reason, attempts);
            }
            let why = reason.text(&Local);
            super::say(&format!("{why}; calling `{}` instead", agents[first].name));
        };
        let mut records = Vec::new();
        let new = attempts.of(None).skip(earlier as usize);
        for (number, entry) in (earlier + 1..).zip(new) {
            let Some((_, result)) = &entry.ended else { continue };
            let log = format!("{log}/{number}");
            copy_files(&self.root().join(&entry.log), &workspace.root().join(&log))
                .with_context(|| format!("keep the output of the agent in `{log}`"))?;
            records.push(DraftCall {
                call: number,
                agent: result.agent.clone().unwrap_or_default(),
                outcome: result.outcome.clone(),
                duration_seconds: result.duration_seconds,
                usage: result.usage.clone(),
                tasks: None,
                log,
            });
        }
        let newest = attempts.of(None).last();
        let newest = newest.and_then(|entry| Some((entry, &entry.ended.as_ref()?.1)));
        let (Some((entry, result)), Some(record)) = (newest, records.last()) else {
            return Err(match reason {
                StopReason::Signal(number, _) => stopped(number, None),
                reason => Failure::new(reason.exit(), reason.text(&Local)).into(),
            });
        };
        let answer = self.answer_of(entry, last);
        let fault = fault(&reason, result, answer.is_some(), &record.log);
        Ok(EndedCall { records, answer, fault })
    }

    /// Runs the loop of the copy for one attempt. Returns why it ended, and all attempts so far.
    fn run(
        &self,
        workspace: &Workspace,
        agents: &[AgentCommand],
        prompt_file: &Path,
    ) -> Result<(StopReason, AttemptLog)> {
        let name = TaskId::new(LOOP).expect("a valid id");
        let place = LoopPaths::of_loop(name.clone());
        let mut copy = Workspace::unset(self.root(), place.clone())?;
        copy.set_flags(settings(workspace))?;
        // What became of an earlier attempt says nothing about this one.
        copy.event_store()?.emit(None, Some(&name), RequestEvent::Reset {})?;
        let file = loop_graph(&copy, &name)?;
        let plain = PlainLoop {
            name,
            prompt_file: prompt_file.to_owned(),
            restart_delay_seconds: 0.0,
            fixed_delay: true,
            max_restarts: None,
            max_failures: 0,
        };
        let agents = Some(agents.to_vec());
        let options =
            RunOptions { agents, once: true, plain: Some(plain), ..RunOptions::default() };
        let line: Box<dyn Reporter> = Box::new(ActivityLine::default());
        let reason = Runner::new(copy, file, options, vec![line])?.run()?;
        let copy = Workspace::unset(self.root(), place)?;
        Ok((reason, copy.attempt_log(LogDetail::Results)?))
    }

    /// The draft of an attempt.
    fn answer_of(&self, entry: &AttemptEntry, last: Option<&str>) -> Option<String> {
        let stdout = self.root().join(&entry.log).join("stdout");
        let in_message = || {
            let transcript = agent_output::transcript(&stdout, entry.format);
            let end = transcript.end.as_ref().map(|end| end.text.as_str());
            let said = [end, transcript.message.as_deref()];
            said.into_iter().flatten().find_map(fenced_graph).or_else(|| {
                let is_text = matches!(entry.format, Format::Text | Format::Aider);
                let printed = || agent_output::end(&stdout, SEARCHED);
                is_text.then(printed).as_deref().and_then(fenced_graph)
            })
        };
        match self.answer() {
            Some(text) if Some(text.as_str()) == last => in_message().or(Some(text)),
            Some(text) => Some(text),
            None => in_message(),
        }
    }
}

/// Whether a provider refused the agent.
fn is_refusal(reason: &StopReason) -> bool {
    matches!(reason, StopReason::Denied(..) | StopReason::Provider { .. })
}

/// Why the draft cannot go on after an attempt, if it cannot.
fn fault(
    reason: &StopReason,
    result: &AttemptResult,
    has_answer: bool,
    log: &str,
) -> Option<anyhow::Error> {
    if let StopReason::Signal(number, _) = reason {
        return Some(stopped(*number, Some(log)));
    }
    let agent = result.agent.as_deref().unwrap_or_default();
    let outcome = &result.outcome;
    let (exit, why) = match outcome {
        _ if is_refusal(reason) => (reason.exit(), reason.text(&Local)),
        Outcome::NotStarted { error } => {
            (Exit::Agent, format!("the agent cannot be started: {error}"))
        }
        Outcome::Idle { .. } | Outcome::TimedOut { .. } => {
            (Exit::Limit, format!("limit reached: `{agent}` {outcome}"))
        }
        Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. } => return None,
        _ if has_answer => return None,
        _ => {
            let line = result.last_line.as_ref().map(|line| format!(": {line}"));
            (Exit::Error, format!("`{agent}` {outcome}{}", line.unwrap_or_default()))
        }
    };
    let kept = "the graph is unchanged; prompt and output are in";
    Some(Failure::new(exit, format!("{why}; {kept} {log}")).into())
}

/// The settings of the run in the slot: those of the repository, but for what concerns its branch and
/// its tasks.
fn settings(workspace: &Workspace) -> ConfigLayer {
    const OTHERS: [&str; 8] =
        ["agent", "done_pattern", "hooks", "max_cost", "notify", "schedule", "slot_dir", "sources"];
    let all = workspace.layers.all().into_iter();
    let set = all
        .filter(|(key, _, origin)| *origin != Origin::Default && !OTHERS.contains(&key.as_str()));
    let mut settings: ConfigLayer = set.map(|(key, value, _)| (key, value)).collect();
    let own: [(&str, Value); 6] = [
        ("isolation", json!("slot")),
        ("retry", json!("fresh")),
        ("jobs", json!(1)),
        ("max_wait", json!("0s")),
        ("promise", json!("off")),
        ("verify", json!([])),
    ];
    settings.extend(own.map(|(key, value)| (key.to_owned(), value)));
    settings
}

/// Copies the files of a folder.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The line of a terminal that says what the agent does.
#[derive(Default)]
struct ActivityLine {
    /// When it was written last.
    shown: Option<Instant>,
}

impl Reporter for ActivityLine {
    fn record(&mut self, _record: &Record, _view: &View<'_>) {}

    fn doing(&mut self, _id: &TaskId, doing: &str) {
        const OFTEN: Duration = Duration::from_secs(1);
        if !terminal::stderr_is_live() || self.shown.is_some_and(|at| at.elapsed() < OFTEN) {
            return;
        }
        self.shown = Some(Instant::now());
        let width = terminal::stderr_width().unwrap_or(80).saturating_sub(1);
        let line = format!("\r\u{1b}[2K{}", terminal::fit(&terminal::visible(doing), width));
        let _ = terminal::put_error(line.as_bytes());
    }
}

impl Drop for ActivityLine {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = terminal::put_error(b"\r\x1b[2K");
        }
    }
}

impl Drop for DraftSlot {
    fn drop(&mut self) {
        self.remove_slots();
    }
}
