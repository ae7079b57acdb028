//! Hooks: commands from the settings that run before and after runs and attempts, and when `ralph
//! schedule` wakes.
//!
//! A hook runs to its end before the run continues. It has its own guardian, so that no process it
//! started outlives it. The caller decides what a failure means.

use std::{
    fs::{self, File},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    adapters::{
        agent_output,
        process::{self, AgentProcess, GuardPost, GuardianPool, ProcessSpec},
    },
    core::{
        duration,
        event::{Hook, HookFailed},
        verdict::{CheckResult, Outcome},
    },
    project::workspace::Workspace,
    regular_file,
    view::message::{self, ProgramMessage},
};

/// The commands of one hook, ready to run.
#[derive(Debug)]
pub struct HookRun {
    hook: Hook,
    commands: Vec<String>,
    /// The folder for output, relative to the repository.
    folder: String,
    root: PathBuf,
    message: ProgramMessage,
    limits: (Duration, Duration),
    redact: bool,
    /// They hold a lock until the last process has ended.
    guardians: GuardianPool,
}

/// The result of a hook.
#[derive(Clone, Debug, PartialEq)]
pub enum HookOutcome {
    /// All commands succeeded.
    Passed,
    /// A command failed; later commands did not run.
    Failed(HookFailed),
    /// A command was ended on request.
    Cancelled,
}

impl HookRun {
    /// Returns the commands that the settings have for this hook, if any. Output goes to `folder`,
    /// relative to the repository. The guardians keep `lock` open as a sign that a process still
    /// runs.
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
            guardians: GuardianPool::new(process::own_program(), lock)
                .context("hold the lock for a hook")?,
        }))
    }

    /// Runs the commands in order and stops at the first that fails. Calls `turn` repeatedly
    /// meanwhile; it returns whether the command may continue.
    ///
    /// # Errors
    /// Errors of the disk and of `turn`.
    pub fn run(self, mut turn: impl FnMut(&AgentProcess) -> Result<bool>) -> Result<HookOutcome> {
        let folder = self.root.join(&self.folder);
        fs::create_dir_all(&folder).with_context(|| format!("create `{}`", self.folder))?;
        let message_file = folder.join(format!("{}.json", self.hook));
        regular_file::write(&message_file, format!("{}\n", self.message.json).as_bytes())
            .with_context(|| format!("write `{}`", message_file.display()))?;
        for (at, command) in self.commands.iter().enumerate() {
            let log = format!("{}/{}-{}.log", self.folder, self.hook, at + 1);
            let output = self.root.join(&log);
            // Remove the log of an earlier hook run.
            let _ = fs::remove_file(&output);
            let spec = ProcessSpec {
                argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
                dir: self.root.clone(),
                env: self.message.variables.clone(),
                env_remove: message::inherited(),
                stdin: message_file.clone(),
                stdout: output.clone(),
                stderr: output.clone(),
            };
            let guardians = self.guardians.clone();
            let post = GuardPost::of_command(guardians, message_file.clone(), self.redact);
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
