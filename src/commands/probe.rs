//! Programs that a command tries or runs for a person, under a guardian as in an attempt, and at the
//! executor of an attempt.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{
    adapters::{
        agent_output, git,
        process::{self, GuardianProgram, GuardianSpec, ProcessSpec},
    },
    core::{
        agents::agent_preset::AgentPreset,
        commit_id::CommitId,
        duration,
        executor::{Executor, LOCAL, Placement},
        graph::task::TaskId,
        verdict::Outcome,
    },
    project::{
        config::Config,
        placement::{self, PlacedProcess, ProcessFacts},
        workspace::Workspace,
    },
};

/// The time limit for a trial commit, unless `commit_timeout` is shorter.
const COMMIT: Duration = Duration::from_secs(20);
/// The time for a process to get to its executor and start there; a queue may take longer.
pub(super) const START: Duration = Duration::from_secs(120);
/// The number of output lines to keep.
const LINES: usize = 3;

/// The sign that an agent is logged in: a variable, of the environment or that `is_set`, or a file.
/// Reads no values, sends nothing.
pub(super) fn login_sign(preset: &AgentPreset, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let login = preset.login?;
    let in_environment = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let variable = login.variables.iter().find(|name| is_set(name) || in_environment(name));
    let file = || login.files.iter().find(|file| login_file(file).is_file());
    variable
        .map(|name| format!("`{name}` is set"))
        .or_else(|| file().map(|file| format!("`{file}` exists")))
}

/// The path of `~/x` or `$NAME/x`; empty if the variable is not set.
fn login_file(file: &str) -> PathBuf {
    let (first, rest) = file.split_once('/').unwrap_or((file, ""));
    let name = if first == "~" { "HOME" } else { first.trim_start_matches('$') };
    env::var_os(name).map(|folder| Path::new(&folder).join(rest)).unwrap_or_default()
}

/// A temporary folder for trials.
pub(super) struct ProbeFolder {
    folder: TempDir,
    /// The time limit for a trial commit.
    pub(super) commit: Duration,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeAnswer {
    /// The program succeeded, with these last lines of output.
    Yes(Vec<String>),
    /// The program failed, for this reason.
    No(String),
    /// The program was killed after this long.
    Late(Duration),
}

impl ProbeAnswer {
    /// Why the program failed, if it did, as the predicate of a sentence.
    pub(super) fn failure(self) -> Option<String> {
        match self {
            ProbeAnswer::Yes(_) => None,
            ProbeAnswer::No(why) => Some(format!("failed: {why}")),
            ProbeAnswer::Late(limit) => {
                Some(format!("did not finish within {}", duration::short(limit)))
            }
        }
    }
}

/// A program to run.
#[derive(Default)]
pub(super) struct Probe {
    /// The command line.
    pub(super) argv: Vec<String>,
    /// The working directory; by default the temporary folder.
    pub(super) dir: Option<PathBuf>,
    /// Variables to set.
    pub(super) env: Vec<(String, String)>,
    /// Variables to remove.
    pub(super) env_remove: Vec<String>,
    /// Whether its output is also printed.
    pub(super) is_shown: bool,
}

impl Probe {
    /// A shell command in a folder.
    pub(super) fn shell(command: &str, dir: &Path) -> Probe {
        let argv = ["sh", "-c", command].map(str::to_owned).to_vec();
        Probe { argv, dir: Some(dir.to_owned()), ..Probe::default() }
    }
}

/// A folder with the files of the repository, and the executor of the programs in it.
pub(super) struct ProbePlace<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) executor: &'a Executor,
    pub(super) folder: PathBuf,
    /// The commit in the folder.
    pub(super) base: Option<CommitId>,
    /// Whether the setup of an earlier process must still be there.
    pub(super) is_set_up: bool,
}

impl ProbeFolder {
    /// Creates the folder.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn new(config: &Config) -> Result<ProbeFolder> {
        let folder = tempfile::Builder::new().prefix("ralph-probe-").tempdir();
        let folder = folder.context("create a temporary folder")?;
        let commit = config.commit_timeout.min(COMMIT);
        Ok(ProbeFolder { folder, commit })
    }

    /// The record of the processes that are tried.
    pub(super) fn record(&self) -> PathBuf {
        self.folder.path().join("record")
    }

    /// The output of the program that ran last.
    pub(super) fn output(&self) -> PathBuf {
        self.folder.path().join("said")
    }

    /// Runs a program without input or terminal, under a guardian like an agent: its processes end with
    /// it, at the limit, or when this process dies.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn ask(&self, question: Probe, limit: Duration) -> Result<ProbeAnswer> {
        let ran = self.run_at(question, limit, |spec| Ok(PlacedProcess::here(spec)))?;
        Ok(self.answer(ran, limit))
    }

    /// Runs a program at an executor, as in an attempt. Returns also where it ran.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn ask_in(
        &self,
        place: &ProbePlace<'_>,
        question: Probe,
        limit: Duration,
    ) -> Result<(ProbeAnswer, Option<Placement>)> {
        let (ran, placement) = self.run_in(place, question, limit)?;
        Ok((self.answer(ran, limit), placement))
    }

    /// Runs a program at an executor. Returns how it ended, and where it ran.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn run_in(
        &self,
        place: &ProbePlace<'_>,
        question: Probe,
        limit: Duration,
    ) -> Result<(Outcome, Option<Placement>)> {
        let ProbePlace { workspace, executor, folder, base, is_set_up } = place;
        let mark = format!("probe.{}", std::process::id());
        let task_dir = workspace.task_dir(&TaskId::new("probe").expect("a valid id"));
        let facts = ProcessFacts {
            mark: mark.clone(),
            slot: folder.clone(),
            base: base.clone(),
            task_dir: workspace.root().join(task_dir),
            record: self.record(),
            agent: None,
            limit: Some(limit.max(START)),
            resources: None,
        };
        if executor.name != LOCAL {
            fs::create_dir_all(&facts.task_dir).context("create the folder of a task")?;
        }
        let mut seen = None;
        let ran = self.run_at(question, limit, |spec| {
            let placed = placement::placed(workspace, executor, &facts, spec);
            let placed = placed.map_err(|fault| fault.to_string())?;
            seen.clone_from(&placed.placement);
            Ok(placed.after_setup(Some(&executor.name), *is_set_up))
        })?;
        placement::clean_up(workspace, executor, &mark);
        git::remove_redirect(folder);
        // Fails if it is not empty.
        let _ = fs::remove_dir(&facts.task_dir);
        Ok((ran, seen))
    }

    /// Runs a program where `place` brings it.
    ///
    /// # Errors
    /// Errors of the disk.
    fn run_at(
        &self,
        question: Probe,
        limit: Duration,
        place: impl FnOnce(ProcessSpec) -> Result<PlacedProcess, String>,
    ) -> Result<Outcome> {
        let dir = question.dir.unwrap_or_else(|| self.folder.path().to_owned());
        let said = self.output();
        fs::write(&said, "").context("write to a temporary folder")?;
        let record = self.record();
        fs::write(&record, "").context("write to a temporary folder")?;
        let spec = ProcessSpec {
            argv: question.argv,
            dir,
            env: question.env,
            env_remove: question.env_remove,
            stdin: Path::new("/dev/null").to_owned(),
            stdout: said.clone(),
            stderr: said.clone(),
        };
        let PlacedProcess { spec, carrier, .. } = match place(spec) {
            Ok(placed) => placed,
            Err(error) => return Ok(Outcome::NotStarted { error }),
        };
        let lock = File::open(self.folder.path()).context("open a temporary folder")?;
        let guardians = GuardianProgram::new(&lock).context("duplicate a file")?;
        let spec = GuardianSpec { carrier, ..GuardianSpec::new(spec, record) };
        // A probe needs no grace period.
        let limits = (limit, Duration::ZERO);
        let mut shown = question.is_shown.then(|| File::open(&said)).transpose()?;
        let mut show = || drop(shown.as_mut().map(|said| io::copy(said, &mut io::stdout())));
        let outcome = process::run_guarded(&guardians, &spec, limits, || {
            show();
            true
        });
        show();
        Ok(outcome)
    }

    fn answer(&self, outcome: Outcome, limit: Duration) -> ProbeAnswer {
        let lines = agent_output::last_lines(&self.output(), LINES).unwrap_or_default();
        match outcome {
            Outcome::Exited { exit_code: 0 } => ProbeAnswer::Yes(lines),
            Outcome::TimedOut { .. } => ProbeAnswer::Late(limit),
            Outcome::NotStarted { error } => ProbeAnswer::No(error),
            Outcome::Interrupted => ProbeAnswer::No("its guardian died".to_owned()),
            Outcome::Lost { why, .. } if lines.is_empty() => ProbeAnswer::No(why),
            outcome if lines.is_empty() => ProbeAnswer::No(outcome.to_string()),
            _ => ProbeAnswer::No(lines.join(" / ")),
        }
    }
}
