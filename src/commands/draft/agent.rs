//! The agent of a draft: an ordinary run of one attempt, as an isolated loop of a copy of the
//! repository that is removed afterwards. Of all that happens there, only the graph is used.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use chrono::Local;
use serde_json::{Value, json};

use crate::{
    adapters::git::Repo,
    commands::{
        run::loop_graph,
        slots::{SlotUse, TemporarySlot, remove_folder},
    },
    core::{
        agents::agent_command::AgentCommand,
        event::{DraftCall, PlainLoop, RequestEvent, StopReason},
        exit::{Exit, Failure},
        graph::task::TaskId,
        history::attempt_log::LogDetail,
        loop_paths::LoopPaths,
        outcome::Outcome,
    },
    project::{config::ConfigLayer, config_layers::Origin, workspace::Workspace},
    regular_file,
    runner::{RunOptions, Runner},
};

/// SIGINT, for a terminal that gives no other reason.
pub(super) const INTERRUPT: i32 = 2;
/// The folder of the draft in the copy: that of the task of its loop.
const FOLDER: &str = ".ralph/loops/draft";
/// The branch that is checked out in the copy.
const BRANCH: &str = "ralph/draft";
/// The name of the loop in the copy.
const LOOP: &str = "draft";

/// The copy of the repository for a draft.
pub(super) struct DraftSlot {
    slot: TemporarySlot,
    /// The files of its commit.
    pub(super) files: Vec<String>,
}

/// A call that has ended.
pub(super) struct EndedCall {
    /// Its record in the journal.
    pub(super) record: DraftCall,
    /// Why the draft cannot go on, if it cannot.
    pub(super) fault: Option<anyhow::Error>,
}

impl DraftSlot {
    /// Makes the copy. The caller holds the lock of drafts.
    ///
    /// # Errors
    /// Those of [`TemporarySlot::prepare`].
    pub(super) fn prepare(workspace: &Workspace) -> Result<DraftSlot> {
        let wanted = SlotUse {
            name: "draft",
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
        let mut slots = self.root().as_os_str().to_owned();
        slots.push(".slots");
        let _ = remove_folder(Path::new(&slots));
    }

    /// Its top.
    pub(super) fn root(&self) -> &Path {
        &self.slot.root
    }

    fn folder(&self) -> PathBuf {
        self.root().join(FOLDER)
    }

    /// The graph that the agent edits.
    pub(super) fn graph_file(&self) -> PathBuf {
        self.folder().join("task-graph.yaml")
    }

    /// The file with the text that tasks are drafted from.
    pub(super) fn spec_file(&self) -> PathBuf {
        self.folder().join("spec.md")
    }

    /// Prepares the folder for a call, without the reports of an earlier one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn begin(&self, graph: &str, spec: &str) -> Result<()> {
        let begin = || -> io::Result<()> {
            // The agent may have put anything in its place.
            match fs::symlink_metadata(self.folder()) {
                Ok(found) if found.is_dir() => remove_folder(&self.folder())?,
                Ok(_) => fs::remove_file(self.folder())?,
                Err(_) => {}
            }
            fs::create_dir_all(self.folder())?;
            regular_file::write(&self.spec_file(), spec.as_bytes())?;
            regular_file::write(&self.graph_file(), graph.as_bytes())
        };
        begin().with_context(|| format!("prepare `{}`", self.folder().display()))
    }

    /// The graph as the agent left it.
    pub(super) fn graph(&self) -> Option<String> {
        let path = self.graph_file();
        // The target of a link is not the agent's text.
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| !it.is_symlink());
        let bytes = (is_own(&self.folder()) && is_own(&path)).then(|| regular_file::read(&path))?;
        Some(String::from_utf8_lossy(&bytes.ok()?).into_owned())
    }

    /// Runs an agent once. `log` is the folder for its output, relative to the repository.
    ///
    /// # Errors
    /// No attempt was made; errors of the run.
    pub(super) fn call(
        &self,
        workspace: &Workspace,
        agents: &[AgentCommand],
        prompt: &str,
        log: &str,
    ) -> Result<EndedCall> {
        let prompt_file = self.root().join(".git/ralph-draft.md");
        regular_file::write(&prompt_file, prompt.as_bytes()).context("write the prompt")?;
        let reason = self.run(workspace, agents, &prompt_file)?;
        let place = LoopPaths::of_loop(TaskId::new(LOOP).expect("a valid id"));
        let attempts = Workspace::unset(self.root(), place)?.attempt_log(LogDetail::Results)?;
        let newest = attempts.of(None).last();
        let newest = newest.and_then(|entry| Some((entry, &entry.ended.as_ref()?.1)));
        let Some((entry, result)) = newest else {
            let why = format!("{}; the graph is unchanged", reason.text(&Local));
            return Err(Failure::new(reason.exit(), why).into());
        };
        copy_files(&self.root().join(&entry.log), &workspace.root().join(log))
            .with_context(|| format!("keep the output of the agent in `{log}`"))?;
        let record = DraftCall {
            call: entry.attempt,
            agent: result.agent.clone().unwrap_or_default(),
            outcome: result.outcome.clone(),
            duration_seconds: result.duration_seconds,
            usage: result.usage.clone(),
            tasks: None,
            log: log.to_owned(),
        };
        let agent = &record.agent;
        let of_agent = |outcome: &Outcome| format!("`{agent}` {outcome}");
        let fault = match (&reason, &result.outcome) {
            (StopReason::Signal(..) | StopReason::Denied(..) | StopReason::Provider { .. }, _) => {
                Some((reason.exit(), reason.text(&Local)))
            }
            (_, Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. }) => None,
            (_, outcome @ (Outcome::Idle { .. } | Outcome::TimedOut { .. })) => {
                Some((Exit::Limit, of_agent(outcome)))
            }
            (_, outcome @ Outcome::NotStarted { .. }) => Some((Exit::Agent, of_agent(outcome))),
            (_, outcome) => Some((Exit::Error, of_agent(outcome))),
        };
        let fault = fault.map(|(exit, why)| {
            Failure::new(exit, format!("{why}; the graph is unchanged, the output is in {log}"))
                .into()
        });
        Ok(EndedCall { record, fault })
    }

    /// Runs the loop of the copy for one attempt. Returns why it ended.
    fn run(
        &self,
        workspace: &Workspace,
        agents: &[AgentCommand],
        prompt_file: &Path,
    ) -> Result<StopReason> {
        let name = TaskId::new(LOOP).expect("a valid id");
        let mut copy = Workspace::unset(self.root(), LoopPaths::of_loop(name.clone()))?;
        copy.set_flags(settings(workspace))?;
        // The end of an earlier attempt says nothing about this one.
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
        Runner::new(copy, file, options, Vec::new())?.run(|_, _| {})
    }
}

/// The settings of the run in the slot: those of the repository, but for its branch and its tasks.
fn settings(workspace: &Workspace) -> ConfigLayer {
    const OTHERS: [&str; 6] = ["agent", "done_pattern", "hooks", "notify", "schedule", "slot_dir"];
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

impl Drop for DraftSlot {
    fn drop(&mut self) {
        self.remove_slots();
    }
}
