//! Hooks: the commands of the settings that are run before and after runs and attempts, and when
//! `ralph schedule` wakes.
//!
//! Each is run to its end before anything goes on, behind a guardian of its own, so that nothing it
//! started outlives it. What a failure means is the caller's affair.

use std::{
    fs::{self, File},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    adapters::{
        agent_output,
        process::{self, AgentProcess, GuardPost, ProcessSpec},
    },
    core::{
        duration,
        event::{Hook, HookFailed},
        verdict::{CheckResult, Outcome},
    },
    project::workspace::Workspace,
    view::message::{self, ProgramMessage},
};

/// The commands of one place, ready to be run.
#[derive(Debug)]
pub struct HookRun {
    hook: Hook,
    commands: Vec<String>,
    /// Where output is kept, relative to the repository.
    folder: String,
    root: PathBuf,
    message: ProgramMessage,
    limits: (Duration, Duration),
    redact: bool,
    /// Held until the last process is gone.
    lock: File,
}

/// What became of them.
#[derive(Clone, Debug, PartialEq)]
pub enum HookOutcome {
    /// All succeeded.
    Passed,
    /// One did not; those after it were not run.
    Failed(HookFailed),
    /// One was ended because somebody asked for it.
    Cancelled,
}

impl HookRun {
    /// What the settings have for this place, if anything. Output goes to `folder`, relative to the
    /// repository; `lock` is kept open by the guardians, as a sign that something still runs.
    pub fn new(
        workspace: &Workspace,
        hook: Hook,
        folder: &str,
        message: impl FnOnce() -> ProgramMessage,
        lock: &File,
    ) -> Result<Option<HookRun>> {
        let commands = workspace.config.hooks.of(hook);
        if commands.is_empty() {
            return Ok(None);
        }
        Ok(Some(HookRun {
            hook,
            commands: commands.to_vec(),
            folder: folder.to_owned(),
            root: workspace.root().to_owned(),
            message: message(),
            limits: (workspace.config.hook_timeout, workspace.config.grace),
            redact: workspace.redacts(),
            lock: lock.try_clone().context("hold the lock for a hook")?,
        }))
    }

    /// Runs them in order, up to the first that does not succeed. Meanwhile `turn` is called again
    /// and again, and says whether the command may go on.
    ///
    /// # Errors
    /// As the disk gives them, and those of `turn`.
    pub fn run(self, mut turn: impl FnMut(&AgentProcess) -> Result<bool>) -> Result<HookOutcome> {
        let folder = self.root.join(&self.folder);
        fs::create_dir_all(&folder).with_context(|| format!("make `{}`", self.folder))?;
        let told = folder.join(format!("{}.json", self.hook));
        fs::write(&told, format!("{}\n", self.message.json))
            .with_context(|| format!("write `{}`", told.display()))?;
        for (at, command) in self.commands.iter().enumerate() {
            let log = format!("{}/{}-{}.log", self.folder, self.hook, at + 1);
            let output = self.root.join(&log);
            // That of an earlier time.
            let _ = fs::remove_file(&output);
            let spec = ProcessSpec {
                argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
                dir: self.root.clone(),
                env: self.message.variables.clone(),
                env_remove: message::inherited(),
                stdin: told.clone(),
                stdout: output.clone(),
                stderr: output.clone(),
            };
            let post = GuardPost {
                program: process::own_program(),
                record: told.clone(),
                exit: None,
                lock: &self.lock,
                idle: None,
                screen: None,
                redact: self.redact,
            };
            let began = Instant::now();
            let outcome = process::run_guarded(&spec, &post, self.limits, &mut turn)?;
            if outcome == Outcome::Cancelled {
                return Ok(HookOutcome::Cancelled);
            }
            let check = CheckResult {
                command: command.clone(),
                outcome,
                duration_seconds: duration::seconds(began.elapsed()),
                last_line: agent_output::last_line(&output),
                log,
            };
            if !check.is_green() {
                return Ok(HookOutcome::Failed(HookFailed { hook: self.hook, check }));
            }
        }
        Ok(HookOutcome::Passed)
    }
}
