//! Commands that run concurrently with attempts, in an unused slot, in threads of their own and
//! where the verify commands of an attempt run: those of proofs, and those that regenerate files.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use super::{context::RunContext, process_spec, processes};
use crate::{
    adapters::{
        agent_output,
        git::{self, Repo},
        process::{self, GuardianProgram, GuardianSpec, ProcessSpec},
        terminal,
    },
    core::{
        duration,
        graph::TaskGraph,
        test_output,
        verdict::{CheckResult, Outcome, ResolvedConflict},
    },
    project::{attempt::AttemptRecord, merge_attributes::REGENERATED},
    regular_file,
};

/// The placeholder for other commands.
const ANY: &str = "true";
/// How much of an output is read.
const OUTPUT: u64 = 1 << 20;

/// How commands run in one slot.
pub(super) struct SideCommands {
    /// A command as its executor starts it.
    template: ProcessSpec,
    side: SideProcesses,
}

/// The setup of side processes.
pub(super) struct SideProcesses {
    /// The file by which they are recognized.
    pub(super) sign: PathBuf,
    guardians: GuardianProgram,
    grace: Duration,
}

impl SideProcesses {
    /// Returns how processes run that are recognized by this file, which no other one has open.
    pub(super) fn of(cx: &RunContext, sign: PathBuf) -> SideProcesses {
        let (guardians, config) = (cx.guardians.clone(), &cx.workspace.config);
        SideProcesses { sign, guardians, grace: config.grace }
    }

    /// Runs a process to its end, while `goes_on` is true.
    pub(super) fn run(
        &self,
        spec: ProcessSpec,
        idle: Option<Duration>,
        limit: Duration,
        goes_on: impl FnMut() -> bool,
    ) -> Outcome {
        if let Err(error) = regular_file::write(&self.sign, b"") {
            return Outcome::NotStarted { error: error.to_string() };
        }
        let guard = GuardianSpec::new(spec, self.sign.clone());
        let guard = GuardianSpec { idle, ..guard };
        process::run_guarded(&self.guardians, &guard, (limit, self.grace), goes_on)
    }

    /// Removes the sign, and the temporary folder that a sandbox leaves there.
    pub(super) fn end(&self) {
        let _ = fs::remove_file(&self.sign);
        let _ = fs::remove_dir_all(self.sign.with_extension("tmpdir"));
    }
}

impl SideCommands {
    /// Returns how commands run in the slot `dir`, as those of an attempt do, with additional
    /// variables. `name` is the name of the sign, which no other process has open.
    ///
    /// # Errors
    /// They do not run on this machine.
    pub(super) fn of(
        cx: &RunContext,
        graph: &TaskGraph,
        record: &AttemptRecord,
        (dir, name): (&Path, &str),
        env: &[(&str, &str)],
    ) -> Result<SideCommands, String> {
        let call = record.call.as_ref().ok_or("the attempt has no agent")?;
        let agent = process_spec::agent(&cx.workspace, record, call);
        let mut spec = process_spec::check(agent, ANY, dir, Path::new("/dev/null"));
        spec.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let executor = processes::executor_of(cx, record)?;
        if !executor.is_here() {
            return Err(format!("its checks run on `{}`", executor.name));
        }
        // The record of the attempt, and the sandbox's files next to it, may be gone by then.
        let sign = cx.workspace.root().join(format!("{}/{name}", record.log));
        let (side, limit) = (SideProcesses::of(cx, sign), cx.workspace.config.verify_timeout);
        let placed = processes::placed(cx, graph, record, &executor, (&spec, &side.sign), limit);
        let template = placed.map_err(|fault| fault.to_string())?.spec;
        if template.argv.last().map(String::as_str) != Some(ANY) {
            return Err(format!("`{}` cannot run controls", executor.name));
        }
        Ok(SideCommands { template, side })
    }

    /// Runs a command to its end, with its output in a file, while `goes_on` is true.
    pub(super) fn run(
        &self,
        command: &str,
        output: &Path,
        limit: Duration,
        goes_on: impl Fn() -> bool,
    ) -> Outcome {
        let _ = fs::remove_file(output);
        let mut spec =
            ProcessSpec { stdout: output.into(), stderr: output.into(), ..self.template.clone() };
        if let Some(last) = spec.argv.last_mut() {
            command.clone_into(last);
        }
        self.side.run(spec, None, limit, goes_on)
    }

    /// Does the same below `root`, with the output in the file `log`. Returns the result, and the output as
    /// plain text.
    pub(super) fn check(
        &self,
        command: &str,
        (root, log): (&Path, String),
        limit: Duration,
        goes_on: impl Fn() -> bool,
    ) -> (CheckResult, String) {
        let (path, began) = (root.join(&log), Instant::now());
        let outcome = self.run(command, &path, limit, goes_on);
        let output = terminal::plain(&agent_output::end(&path, OUTPUT)).into_owned();
        let check = CheckResult {
            command: command.to_owned(),
            outcome,
            duration_seconds: duration::seconds(began.elapsed()),
            last_line: agent_output::last_line(&path),
            no_test: test_output::ran_none(&output),
            log,
        };
        (check, output)
    }

    /// Removes their sign and temporary folder.
    pub(super) fn end(&self) {
        self.side.end();
    }
}

/// The regeneration of conflicting files, in a slot of the merge queue.
pub(super) struct Regeneration {
    pub(super) runs: Result<SideCommands, String>,
    pub(super) output: PathBuf,
    pub(super) limit: Duration,
}

impl Regeneration {
    /// Makes the files again that have the number of a command, in their folders, and puts that command
    /// in its place.
    ///
    /// # Errors
    /// A command failed or ran into its limit.
    pub(super) fn run(&self, tree: &Repo, files: &mut [ResolvedConflict]) -> Result<()> {
        let runs = self.runs.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let mut done = Vec::new();
        for ResolvedConflict { path, command } in files {
            let Some(number) = command.take() else { continue };
            let Some((_, given)) = number.parse().ok().and_then(|at: usize| REGENERATED.get(at))
            else {
                bail!("no command makes `{path}` again");
            };
            *command = Some((*given).to_owned());
            let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
            if done.contains(&(number.clone(), folder.clone())) {
                continue;
            }
            let whole = tree.root().join(&folder).display().to_string();
            let in_folder = format!("cd '{}' && {{ {given}\n}}", whole.replace('\'', "'\\''"));
            let outcome = runs.run(&in_folder, &self.output, self.limit, || !git::is_stopped());
            runs.end();
            if outcome != (Outcome::Exited { exit_code: 0 }) {
                let said = agent_output::last_line(&self.output);
                let said = said.map_or_else(String::new, |line| format!(": {line}"));
                bail!("`{given}`, which makes `{path}` again, {outcome}{said}");
            }
            done.push((number, folder));
        }
        Ok(())
    }
}

// The turns of proofs: few at once while the run works, more at its end, and none during verify
// commands that run alone.

/// The shared state of proof turns.
#[derive(Debug, Default)]
pub(super) struct ProofTurn {
    running: Mutex<usize>,
    /// How many may run at once beyond the first.
    more: AtomicUsize,
    waits: AtomicBool,
    stops: AtomicBool,
}

/// The turn of a proof, until it is dropped.
#[derive(Debug)]
pub(super) struct ProofPermit<'a>(&'a ProofTurn);

impl ProofTurn {
    /// Whether all proofs were ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Ends all proofs.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Sets whether verify commands run that exclude new proofs.
    pub(super) fn wait(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Lets so many proofs run at once, at least one.
    pub(super) fn allow(&self, at_once: usize) {
        self.more.store(at_once.saturating_sub(1), Ordering::Relaxed);
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a proof may begin.
    pub(super) fn take(&self) -> ProofPermit<'_> {
        loop {
            let mut running = self.running();
            let is_free = *running <= self.more.load(Ordering::Relaxed);
            if self.is_stopped() || (is_free && !self.waits.load(Ordering::Relaxed)) {
                *running += 1;
                return ProofPermit(self);
            }
            drop(running);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for ProofPermit<'_> {
    fn drop(&mut self) {
        *self.0.running() -= 1;
    }
}
