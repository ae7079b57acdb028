//! One repository as `ralph` works in it: where things lie, and how they are opened.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        git::Repo,
        journal::{Journal, JournalPosition},
        process::{self, Identity},
        state::{Lock, StateFolder},
    },
    core::{
        diagnostic::nearest,
        exit::{Exit, Failure},
        graph::task::{Task, TaskId},
        history::{History, attempt_log::AttemptLog},
        loop_paths::{self, LoopPaths},
        redact::Redactor,
        select::{Policy, View},
    },
    project::{
        config::{Config, ConfigLayer, Select},
        config_layers::ConfigLayers,
        event_store::{EventStore, new_run_id},
        fatal,
        graph_file::{GraphFile, Rejected},
    },
};

pub use crate::core::loop_paths::GRAPH;

/// Who holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The runner.
    pub process: Identity,
    /// Its run.
    pub run_id: String,
    /// Since when (RFC 3339).
    pub since: String,
    /// What it works on.
    pub task_id: Option<String>,
}

/// How long a guardian may take to clean up behind a dead runner.
const CLEANING: Duration = Duration::from_secs(30);

/// A repository with its settings.
pub struct Workspace {
    /// Git, in the checkout that people work in.
    pub repo: Rc<Repo>,
    /// The folder out of reach.
    pub state: StateFolder,
    /// The settings.
    pub config: Config,
    /// Where they come from.
    pub layers: ConfigLayers,
    /// Where the things of the loop lie that is meant.
    pub place: LoopPaths,
    graph: PathBuf,
    /// The top of the work tree that it was opened from.
    standpoint: PathBuf,
}

impl Workspace {
    /// Opens the repository around `dir` for the loop at `place`; `graph` and `config` stand in for
    /// the graph file and for the project's settings.
    ///
    /// # Errors
    /// No repository, or settings that cannot be read.
    pub fn open(
        dir: &Path,
        place: LoopPaths,
        graph: Option<&Path>,
        config: Option<&Path>,
    ) -> Result<Workspace> {
        let found = discover(dir)?;
        let layers = ConfigLayers::of(found.0.root(), config)?;
        Workspace::with(found, place, layers, graph.map(|path| dir.join(path)))
    }

    /// Opens it for what an agent says: that must not be lost because the settings are invalid.
    ///
    /// # Errors
    /// No repository.
    pub fn heard(dir: &Path, place: LoopPaths) -> Result<Workspace> {
        Workspace::open(dir, place.clone(), None, None).or_else(|_| Workspace::unset(dir, place))
    }

    /// Opens it with nobody's settings.
    ///
    /// # Errors
    /// No repository.
    pub fn unset(dir: &Path, place: LoopPaths) -> Result<Workspace> {
        Workspace::with(discover(dir)?, place, ConfigLayers::default(), None)
    }

    fn with(
        (repo, standpoint): (Repo, PathBuf),
        place: LoopPaths,
        mut layers: ConfigLayers,
        graph: Option<PathBuf>,
    ) -> Result<Workspace> {
        let config = layers.read()?;
        let common = repo.common_dir();
        let state = StateFolder::open(place.state(common), config.fsync);
        let graph = graph.unwrap_or_else(|| place.graph(repo.root(), common));
        Ok(Workspace { repo: Rc::new(repo), state, config, layers, place, graph, standpoint })
    }

    /// Puts flags above the settings.
    ///
    /// # Errors
    /// As [`ConfigLayers::set_flags`].
    pub fn set_flags(&mut self, flags: ConfigLayer) -> Result<()> {
        self.config = self.layers.set_flags(flags)?;
        Ok(())
    }

    /// The top of the work tree.
    pub fn root(&self) -> &Path {
        self.repo.root()
    }

    /// The top of the work tree that it was opened from: that of an attempt, or the same as
    /// [`Workspace::root`].
    pub fn standpoint(&self) -> &Path {
        &self.standpoint
    }

    /// Whether state must survive a power cut.
    pub fn durable(&self) -> bool {
        self.config.fsync
    }

    /// Whether secrets are kept out of what is written.
    pub fn redacts(&self) -> bool {
        self.config.redact
    }

    /// Finds the secrets of this process's environment and of those that the settings give to
    /// agents; none where they are not looked for.
    pub fn secrets(&self) -> Option<Redactor> {
        self.redacts().then(|| self.all_secrets())
    }

    /// Finds them in what leaves the machine, also where they are not kept out of what is written.
    pub fn all_secrets(&self) -> Redactor {
        let agents = self.config.agent.calls.iter();
        let given =
            agents.flat_map(|call| &call.env).map(|(name, value)| (name.into(), value.into()));
        Redactor::of_variables(env::vars_os().chain(given))
    }

    /// The graph file.
    pub fn graph_path(&self) -> &Path {
        &self.graph
    }

    /// The graph file, where it is not the one that lies at this place.
    pub fn other_graph(&self) -> Option<&Path> {
        let own = self.place.graph(self.root(), self.repo.common_dir());
        (self.graph != own).then_some(self.graph.as_path())
    }

    /// The graph file as it is shown: relative to the repository where it lies in it.
    pub fn graph_name(&self) -> String {
        self.graph.strip_prefix(self.root()).unwrap_or(&self.graph).display().to_string()
    }

    /// Reads the graph.
    ///
    /// # Errors
    /// What is wrong with it, drawn, with its exit code.
    pub fn graph(&self) -> Result<GraphFile> {
        let inherit = self.config.select == Select::Inherit;
        GraphFile::read(&self.graph, &self.graph_name(), self.durable(), inherit)
            .map_err(|rejected| refused(&rejected))
    }

    /// The graph that an attempt began with, as if the file still had it. None without such a copy.
    pub fn kept_graph(&self) -> Option<GraphFile> {
        let inherit = self.config.select == Select::Inherit;
        let text = fs::read_to_string(self.state.graph()).ok()?;
        GraphFile::assume(&self.graph, &self.graph_name(), self.durable(), inherit, &text).ok()
    }

    /// The journal.
    pub fn journal(&self) -> Journal {
        Journal::new(self.root().join(self.place.journal()), self.durable())
    }

    /// Reads the past; facts added to it belong to a new run.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn chronicle(&self) -> Result<EventStore> {
        EventStore::open(self.journal(), self.state.clone(), new_run_id(Utc::now()), self.secrets())
    }

    /// Reads every attempt there was, as far back as the journal goes.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn ledger(&self) -> Result<AttemptLog> {
        let name = self.place.journal();
        let mut ledger = AttemptLog::default();
        self.journal()
            .read(&mut JournalPosition::default(), |record| {
                if let Some(record) = record {
                    ledger.apply(&record);
                }
            })
            .with_context(|| format!("read `{name}`"))?;
        Ok(ledger)
    }

    /// Takes the lock; none if another run has it. A guardian that still cleans up behind a dead
    /// runner has it too, for some milliseconds: that is waited for.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn lock(&self) -> Result<Option<Lock>> {
        let began = Instant::now();
        loop {
            if let Some(lock) = self.state.try_lock().context("take the lock")? {
                return Ok(Some(lock));
            }
            let lives = self.holder().is_none_or(|holder| process::is_alive(&holder.process));
            // A lock without a living runner is let go of soon; so is one that a command looks at.
            let patience = if lives { Duration::from_millis(100) } else { CLEANING };
            if began.elapsed() > patience {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether the newest run of this past goes on.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn is_live(&self, history: &History) -> Result<bool> {
        // The lock is shared by all worktrees, the journal is not; and a guardian that cleans up
        // behind a dead runner has the lock too.
        let ours = |holder: LockHolder| {
            holder.run_id == history.run.id && process::is_alive(&holder.process)
        };
        Ok(self.state.is_locked().context("look at the lock")? && self.holder().is_none_or(ours))
    }

    /// Whether any run goes on in this repository, in whichever of its worktrees.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn is_busy(&self) -> Result<bool> {
        let lives = |holder: LockHolder| process::is_alive(&holder.process);
        Ok(self.state.is_locked().context("look at the lock")? && self.holder().is_none_or(lives))
    }

    /// Who holds the lock, or held it last.
    pub fn holder(&self) -> Option<LockHolder> {
        self.state.holder()
    }

    /// The policy that the settings make.
    pub fn policy(&self) -> Policy {
        self.config.policy()
    }

    /// Whether attempts at tasks have work trees to themselves, as the settings say.
    pub fn is_apart(&self) -> bool {
        self.place.name().is_none() && self.policy().is_apart(self.config.worktree)
    }

    /// The commands that must succeed before a task is complete.
    pub fn verify_of(&self, task: &Task) -> Vec<String> {
        task.verify.clone().unwrap_or_else(|| self.config.verify.0.clone())
    }

    /// Whether they are tried before an attempt at it too.
    pub fn verifies_baseline(&self, task: &Task) -> bool {
        task.verify_baseline.unwrap_or(self.config.verify_baseline)
    }

    /// The names of the plain loops that there were, sorted.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn loops(&self) -> io::Result<Vec<TaskId>> {
        let entries = match fs::read_dir(loop_paths::loops(self.repo.common_dir())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        let mut names: Vec<TaskId> =
            names.iter().filter_map(|name| TaskId::new(name.to_str()?).ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The folder of a task, relative to the repository.
    pub fn task_dir(&self, id: &TaskId) -> String {
        self.place.folder(id)
    }

    /// Waits for the right to change files of notes, which all loops share.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn lock_notes(&self) -> io::Result<File> {
        let shared = LoopPaths::default().state(self.repo.common_dir());
        StateFolder::open(shared, self.durable()).lock_notes()
    }

    /// Whether `ralph` writes this file of the repository itself, for whichever loop.
    pub fn is_own(&self, path: &str) -> bool {
        path == self.graph_name() || loop_paths::is_own(path)
    }

    /// The learnings file, relative to the repository.
    pub fn learnings(&self) -> &str {
        &self.config.learnings
    }

    /// Keeps `ralph`'s own files out of `git status`, where the project does not do so itself. The
    /// lines go into the clone's own exclude file, so that no tracked file changes.
    ///
    /// # Errors
    /// As git or the disk gives them.
    pub fn ignore_own_files(&self) -> Result<()> {
        let lines: Vec<String> =
            self.unignored()?.into_iter().map(|path| format!("/{path}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        if lines.is_empty() { Ok(()) } else { self.repo.exclude(&lines) }
    }

    /// Those of `ralph`'s own files and folders that no rule ignores.
    ///
    /// # Errors
    /// As git gives them.
    pub fn unignored(&self) -> Result<Vec<&'static str>> {
        let mut found = Vec::new();
        for path in loop_paths::OWN {
            let file = if path.ends_with('/') { format!("{path}x") } else { path.to_owned() };
            if !self.repo.is_ignored(&file)? {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Refuses logs that would be written elsewhere: a link may have come with the repository.
    ///
    /// # Errors
    /// `logs` as a link that leaves the repository.
    pub fn check_logs(&self) -> Result<()> {
        let place = &self.place;
        let folder = Path::new(place.journal()).parent().into_iter().flat_map(Path::ancestors);
        let files =
            [place.journal(), place.heartbeat(), place.attempts(), place.hooks()].map(Path::new);
        for name in folder.filter(|path| !path.as_os_str().is_empty()).chain(files) {
            let path = self.root().join(name);
            let Ok(target) = fs::read_link(&path) else {
                continue;
            };
            if path.canonicalize().is_ok_and(|real| real.starts_with(self.root())) {
                continue;
            }
            let message = format!(
                "`{}` is a link to `{}`, which is not in the repository; remove the link, and \
                 `ralph` will write a file or folder of its own",
                name.display(),
                target.display()
            );
            return Err(Failure::new(Exit::Disk, message).into());
        }
        Ok(())
    }

    /// The template `name` of this project, or the built-in one.
    pub fn template(root: &Path, name: &str) -> Option<String> {
        let inside = !name.contains("..") && !name.starts_with('/');
        let own =
            inside.then(|| fs::read_to_string(root.join("prompts").join(name)).ok()).flatten();
        own.or_else(|| {
            (name == "task.md").then(|| crate::core::prompt::DEFAULT_TEMPLATE.to_owned())
        })
    }

    /// The command by which a shell here runs this very program.
    pub fn own_command() -> String {
        let Ok(exe) = process::own_file() else {
            return "ralph".to_owned();
        };
        let found = env::var_os("PATH").and_then(|path| {
            env::split_paths(&path).map(|dir| dir.join("ralph")).find(|file| file.is_file())
        });
        if found.and_then(|file| file.canonicalize().ok()) == exe.canonicalize().ok() {
            return "ralph".to_owned();
        }
        let text = exe.display().to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
    }
}

/// The repository around `dir`; whoever stands in a work tree of an attempt means the checkout that
/// people work in, where graph and journal are. And where they stand.
fn discover(dir: &Path) -> Result<(Repo, PathBuf)> {
    let repo = Repo::discover(dir)?;
    let standpoint = repo.root().to_owned();
    let main = if repo.is_own() { repo.main_root()? } else { None };
    let repo = main.map_or(Ok(repo), |main| Repo::discover(&main))?;
    Ok((repo, standpoint))
}

/// The view of a graph and its past outside of a run.
pub fn view<'a>(file: &'a GraphFile, history: &'a History, policy: &'a Policy) -> View<'a> {
    View { graph: file.graph(), keys: file.keys(), history, policy, active: &[] }
}

/// An invalid graph as the error that ends the program.
pub fn refused(rejected: &Rejected) -> anyhow::Error {
    fatal::invalid(&rejected.name, &rejected.text, &rejected.faults)
}

/// Finds a task by what was typed.
///
/// # Errors
/// An unknown id, with the nearest one.
pub fn find(file: &GraphFile, typed: &str) -> Result<(TaskId, usize)> {
    if let Some(found) =
        TaskId::new(typed).ok().and_then(|id| file.graph().number(&id).map(|number| (id, number)))
    {
        return Ok(found);
    }
    let ids = file.graph().tasks().iter().map(|task| task.id.as_str());
    let hint = match nearest(typed, ids) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`ralph dag-status` lists the tasks".to_owned(),
    };
    let message = format!("no task `{}` in `{}`; {hint}", typed.escape_debug(), file.name());
    Err(Failure::new(Exit::Error, message).into())
}
