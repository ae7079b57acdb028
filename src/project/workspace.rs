//! A repository that `ralph` works in: its paths, and how its files are opened.

mod graph;
mod lock;

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use anyhow::{Context, Result};
use chrono::Utc;

use crate::{
    adapters::{
        git::{self, Repo},
        journal::{Journal, JournalPosition},
        process::{self, OutputReaders},
        state::{self, StateFolder},
    },
    core::{
        diagnostic::{nearest_or, visible},
        executor::{Executor, shell_word},
        exit::{Exit, Failure, fail},
        graph::task::{Task, TaskId},
        history::{
            History,
            attempt_log::{AttemptLog, LogDetail},
        },
        loop_paths::{self, LoopPaths},
        prompt,
        redact::Redactor,
        select::{Policy, View},
        setup::MANIFESTS,
    },
    project::{
        config::{Config, ConfigLayer},
        config_layers::ConfigLayers,
        event_store::{EventStore, new_run_id},
        fatal,
        graph_file::{GraphFile, Rejected},
    },
    regular_file,
};

pub use crate::core::loop_paths::GRAPH;
pub use graph::{GraphCommits, checkout_graph, empty_graph};
pub use graph::{landed_elsewhere, landed_tip, landing_branch, policy_for};
pub use lock::{LockHolder, LockUse};
pub use lock::{LogFolder, check_rights};

/// A repository with its settings.
pub struct Workspace {
    /// The git repository, in the main checkout.
    pub repo: Rc<Repo>,
    /// The state folder, in the git directory.
    pub state: StateFolder,
    /// The settings.
    pub config: Config,
    /// The sources of the settings.
    pub layers: ConfigLayers,
    /// The paths of the selected loop.
    pub place: LoopPaths,
    graph: PathBuf,
    /// The top of the worktree that it was opened from.
    standpoint: PathBuf,
    /// The files that receive the output of this run, relative to the repository.
    outputs: BTreeSet<String>,
    readers: OutputReaders,
    /// The secrets, once they were searched for with the current settings.
    secrets: OnceCell<Redactor>,
}

impl Workspace {
    /// Opens the repository around `dir` for the loop at `place`. `graph` and `config` replace the
    /// graph file and the settings file of the project.
    ///
    /// # Errors
    /// No repository, or invalid settings.
    pub fn open(
        dir: &Path,
        place: LoopPaths,
        graph: Option<&Path>,
        config: Option<&Path>,
    ) -> Result<Workspace> {
        let found = discover(dir)?;
        let layers = ConfigLayers::of(found.0.root(), config)?;
        let workspace = Workspace::with(found, place, layers, graph.map(|path| dir.join(path)))?;
        git::limit_signing(workspace.config.commit_timeout);
        let names = [Some(workspace.config.run_on.clone()), workspace.state.noted_sandbox()];
        let find = |name: &String| Executor::find(name, &workspace.config.executors).ok();
        if let Some(sandbox) = names.iter().flatten().filter_map(find).find(Executor::is_sandbox) {
            confine_git(&workspace, &sandbox);
        }
        Ok(workspace)
    }

    /// Opens it for a report of an agent, which must not be lost because the settings are invalid.
    ///
    /// # Errors
    /// No repository.
    pub fn heard(dir: &Path, place: LoopPaths) -> Result<Workspace> {
        Workspace::open(dir, place.clone(), None, None).or_else(|_| Workspace::unset(dir, place))
    }

    /// Opens it with default settings.
    ///
    /// # Errors
    /// No repository.
    pub fn unset(dir: &Path, place: LoopPaths) -> Result<Workspace> {
        let workspace = Workspace::with(discover(dir)?, place, ConfigLayers::default(), None)?;
        git::limit_signing(workspace.config.commit_timeout);
        Ok(workspace)
    }

    fn with(
        (repo, standpoint): (Repo, PathBuf),
        place: LoopPaths,
        mut layers: ConfigLayers,
        graph: Option<PathBuf>,
    ) -> Result<Workspace> {
        let config = layers.read()?;
        let common = repo.common_dir();
        let state = StateFolder::open(place.state(common));
        let graph = graph.unwrap_or_else(|| place.graph(repo.root(), common));
        let outputs = BTreeSet::new();
        Ok(Workspace {
            repo: Rc::new(repo),
            state,
            config,
            layers,
            place,
            graph,
            standpoint,
            outputs,
            readers: OutputReaders::default(),
            secrets: OnceCell::new(),
        })
    }

    /// Overrides settings by flags.
    ///
    /// # Errors
    /// As [`ConfigLayers::set_flags`].
    pub fn set_flags(&mut self, flags: ConfigLayer) -> Result<()> {
        let config = self.layers.set_flags(flags)?;
        self.configure(config);
        Ok(())
    }

    /// Takes over other settings.
    pub fn configure(&mut self, config: Config) {
        git::limit_signing(config.commit_timeout);
        self.config = config;
        self.secrets = OnceCell::new();
    }

    /// Returns a function that opens it with the same settings in another thread.
    pub fn opener(&self) -> impl FnOnce() -> Result<Workspace> + Send + use<> {
        let (root, place, graph) =
            (self.standpoint.clone(), self.place.clone(), self.graph.clone());
        let (config, layers) = (self.config.clone(), self.layers.clone());
        move || {
            let layer = ConfigLayers::default();
            let workspace = Workspace::with(discover(&root)?, place, layer, Some(graph))?;
            Ok(Workspace { config, layers, ..workspace })
        }
    }

    /// The top of the worktree.
    pub fn root(&self) -> &Path {
        self.repo.root()
    }

    /// The top of the worktree that it was opened from: that of an attempt, or
    /// [`Workspace::root`].
    pub fn standpoint(&self) -> &Path {
        &self.standpoint
    }

    /// Finds the secrets in the environment of this process and in the variables that the settings
    /// give to agents.
    pub fn secrets(&self) -> Redactor {
        let find = || {
            let config = &self.config;
            let named = config.agents.values().chain(config.agent_for.values());
            let own = [&config.agent].into_iter().chain(&config.escalate);
            let reviewer = config.review.iter().flat_map(|review| &review.by);
            let all = named.chain(own).chain(reviewer);
            let agents = all.flat_map(|agents| &agents.calls);
            let given =
                agents.flat_map(|call| &call.env).map(|(name, value)| (name.into(), value.into()));
            Redactor::of_variables(env::vars_os().chain(given))
        };
        self.secrets.get_or_init(find).clone()
    }

    /// The graph file.
    pub fn graph_path(&self) -> &Path {
        &self.graph
    }

    /// The graph file, if it is not the usual one of this loop.
    pub fn other_graph(&self) -> Option<&Path> {
        let own = self.place.graph(self.root(), self.repo.common_dir());
        (self.graph != own).then_some(self.graph.as_path())
    }

    /// The name of the graph file in messages: relative to the repository if it is inside.
    pub fn graph_name(&self) -> String {
        self.graph.strip_prefix(self.root()).unwrap_or(&self.graph).display().to_string()
    }

    /// The graph file as git names it, relative to the repository; none if git cannot track it: it
    /// is outside of the repository, or that of a plain loop.
    pub fn graph_in_git(&self) -> Option<String> {
        let inside = self.graph.strip_prefix(self.root()).ok()?;
        let is_state = self.graph.starts_with(self.repo.common_dir());
        (!is_state).then(|| inside.display().to_string())
    }

    /// The journal.
    pub fn journal(&self) -> Journal {
        Journal::new(self.root().join(self.place.journal()))
    }

    /// Reads the history. Events added to it belong to a new run.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn event_store(&self) -> Result<EventStore> {
        self.event_store_of(new_run_id(Utc::now()))
    }

    /// Opens the journal with its history for events of this run.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn event_store_of(&self, run_id: String) -> Result<EventStore> {
        EventStore::open(self.journal(), self.state.clone(), run_id, self.secrets())
    }

    /// Reads the attempts in the journal.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn attempt_log(&self, detail: LogDetail) -> Result<AttemptLog> {
        let name = self.place.journal();
        let mut log = AttemptLog::with(detail);
        self.journal()
            .read(&mut JournalPosition::default(), |record| {
                if let Some(record) = record {
                    log.apply(record);
                }
            })
            .with_context(|| format!("read `{name}`"))?;
        Ok(log)
    }

    /// The policy that the settings make.
    pub fn policy(&self) -> Policy {
        Policy { run_on: Some(self.config.run_on.clone()), ..self.config.policy() }
    }

    /// The commands that must succeed before a task is complete.
    pub fn verify_of(&self, task: &Task) -> Vec<String> {
        let folder = task.folder(|path| {
            let folder = self.root().join(path);
            MANIFESTS.iter().any(|name| folder.join(name).is_file())
        });
        task.checks(&self.config.verify.0, folder.as_deref().map(shell_word).as_deref())
    }

    /// The names of all plain loops so far, sorted.
    ///
    /// # Errors
    /// Errors of the disk.
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

    /// Whether `ralph` itself writes this file of the repository, for any loop, or the shell writes
    /// its output there.
    pub fn is_own(&self, path: &str) -> bool {
        path == self.graph_name() || loop_paths::is_own(path) || self.outputs.contains(path)
    }

    /// Hides the files of `ralph` from `git status`, unless the project already ignores them. The
    /// rules go to the exclude file of the clone, so that no tracked file changes. Returns their number.
    ///
    /// # Errors
    /// Errors of git or of the disk.
    pub fn ignore_own_files(&self) -> Result<usize> {
        let line = |path: &str| format!("{}{path}", if path == state::DRAFTS { "" } else { "/" });
        let lines: Vec<String> = self.unignored()?.into_iter().map(line).collect();
        if !lines.is_empty() {
            self.repo.local().exclude(&lines.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(lines.len())
    }

    /// Hides the files that receive the output of this run, as in `ralph run > ralph.log` and
    /// `ralph run | tee ralph.log`, from `git status`: they are nobody's work.
    ///
    /// # Errors
    /// Errors of git or of the disk.
    pub fn ignore_outputs(&mut self) -> Result<()> {
        let Ok(root) = self.root().canonicalize() else {
            return Ok(());
        };
        for file in self.readers.files() {
            let inside = file.strip_prefix(&root).ok().and_then(Path::to_str);
            let is_usual = |path: &&str| !path.contains('\n') && !path.starts_with(".git/");
            let Some(path) = inside.filter(is_usual) else {
                continue;
            };
            if self.is_own(path) || self.repo.local().is_ignored(path)? {
                continue;
            }
            self.outputs.insert(path.to_owned());
            self.repo.local().exclude_path(path)?;
        }
        Ok(())
    }

    /// Returns the files and folders of `ralph` that no rule ignores.
    ///
    /// # Errors
    /// Errors of git.
    pub fn unignored(&self) -> Result<Vec<&'static str>> {
        // The graph file is written as a whole: for a moment its next version is in the same folder.
        let own = [&loop_paths::OWN[..], &[state::DRAFTS]].concat();
        let inside = |path: &&str| format!("{path}{}", if path.ends_with('/') { "x" } else { "" });
        let files: Vec<String> = own.iter().map(inside).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let free = self.repo.local().unignored(&files)?;
        let own = own.into_iter().zip(&files);
        Ok(own.filter(|(_, file)| free.contains(file)).map(|(path, _)| path).collect())
    }
}

/// Returns the template `name` of this project, or the built-in one.
pub fn template(root: &Path, name: &str) -> Option<String> {
    let inside = !name.contains("..") && !name.starts_with('/');
    let own = inside
        .then(|| regular_file::read_to_string(&root.join("prompts").join(name)).ok())
        .flatten();
    let built_in = match name {
        "task.md" => Some(prompt::DEFAULT_TEMPLATE),
        "follow-up.md" => Some(prompt::FOLLOW_UP_TEMPLATE),
        "draft.md" => Some(prompt::DRAFT_TEMPLATE),
        "review.md" => Some(prompt::REVIEW_TEMPLATE),
        _ => None,
    };
    own.or_else(|| built_in.map(str::to_owned))
}

/// Returns the shell command that runs this program.
pub fn own_command() -> String {
    let Ok(exe) = process::own_file() else {
        return "ralph".to_owned();
    };
    shell_word(&exe.display().to_string())
}

/// Returns the shell command that a person types to run this program: `ralph` if the PATH leads to
/// it.
pub fn shown_command() -> String {
    let found = env::current_dir().ok().and_then(|dir| process::resolve("ralph", &dir).ok());
    let is_this = |found: PathBuf| {
        let same = found.canonicalize().ok()? == process::own_file().ok()?.canonicalize().ok()?;
        same.then(|| "ralph".to_owned())
    };
    found.and_then(is_this).unwrap_or_else(own_command)
}

/// Returns a path as it can be typed in the working directory.
pub fn typed(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let inside = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    inside.unwrap_or(path).display().to_string()
}

/// Keeps git from starting what an attempt in a sandbox may have written: in this process it starts
/// filters and the like inside.
fn confine_git(workspace: &Workspace, sandbox: &Executor) {
    let Ok(own) = process::own_file() else { return };
    let text = |path: &Path| path.display().to_string();
    let mut words = vec![text(&own), "-C".to_owned(), text(workspace.root())];
    let config = workspace.layers.named();
    words.extend(config.into_iter().flat_map(|path| ["--config".to_owned(), text(path)]));
    words.extend(["__filter".to_owned(), sandbox.name.clone()]);
    git::confine(workspace.root(), &words);
}

/// Notes that attempts may work in this executor, if it is a sandbox: later commands confine git.
pub fn note_sandbox(workspace: &Workspace, executor: &Executor) {
    if executor.is_sandbox() {
        workspace.state.note_sandbox(&executor.name);
        confine_git(workspace, executor);
    }
}

/// Opens the repository around `dir`, and returns it with the top of the current worktree. In the
/// slot of an attempt, the repository is the main checkout, which has the graph and the journal.
fn discover(dir: &Path) -> Result<(Repo, PathBuf)> {
    let repo = Repo::discover(dir)?;
    if [repo.root(), repo.common_dir()].into_iter().any(|path| path.to_str().is_none()) {
        let message = format!(
            "the path of the repository is not UTF-8: `{}`; rename its folder",
            repo.root().display()
        );
        return Err(Failure::new(Exit::Error, message).into());
    }
    let standpoint = repo.root().to_owned();
    let repo = repo.in_slot_of().map_or(Ok(repo), |main| Repo::discover(&main))?;
    Ok((repo, standpoint))
}

/// Returns the view of a graph and its history outside of a run.
pub fn view<'a>(file: &'a GraphFile, history: &'a History, policy: &'a Policy) -> View<'a> {
    View { graph: file.graph(), keys: file.keys(), history, policy, active: &[] }
}

/// Turns an invalid graph into the error that ends the program.
pub fn refused(rejected: &Rejected) -> anyhow::Error {
    fatal::invalid(&rejected.name, &rejected.text, &rejected.faults)
}

/// Finds a task by an id that was typed.
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
    let hint = nearest_or(typed, ids, "`ralph dag-status` lists the tasks");
    fail(Exit::Error, format!("no task `{}` in `{}`; {hint}", visible(typed), file.name()))
}
