//! The commands, one file each.

mod attempts;
mod agent_reports;
mod background;
mod check;
mod costs;
mod dag_status;
mod demo;
mod diff;
mod doctor;
mod draft;
mod filter;
mod graph;
mod import;
mod init;
mod inside;
mod land;
mod logs;
mod mcp;
mod merge_driver;
mod outlook;
mod page_data;
mod plan;
mod printed;
mod probe;
mod prompt;
mod pull_request;
mod report;
mod requests;
mod review;
mod run;
mod schedule;
mod serve;
mod show;
mod slots;
mod status;
mod take_back;
mod talk;
mod task;
mod task_add;
mod task_editor;
mod uninit;
mod worker;

use std::{
    env, fs, iter,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::json;

use self::agent_reports::{ReportingAttempt, refuse_away};
use crate::{
    adapters::{git, process, signal, terminal},
    cli::{
        AgentArgs, AttachArgs, Cli, Command, CommandCall, DraftArgs, Flags, InitArgs, LandArgs,
        LogsArgs, Named, Which,
    },
    core::{
        agents::agent_command::AgentCommand,
        diagnostic::nearest_or,
        event::Begun,
        exit::{self, Exit, Failure, fail},
        graph::{TaskGraph, filter::Filter, task::TaskId},
        history::History,
        loop_paths::LoopPaths,
        select::{Active, Policy, View},
    },
    project::{
        attempt::AttemptRecord,
        config,
        graph_file::GraphFile,
        workspace::{Workspace, landing_branch, view},
    },
    view::lines::few,
};

/// Whether a command handles signals itself from its start on.
fn handles_signals(command: &Command) -> bool {
    matches!(
        command,
        Command::Schedule(_)
            | Command::Serve(_)
            | Command::Attach(_)
            | Command::Logs(Flags(LogsArgs { follow: true, output: true, .. }))
            | Command::Init(_)
            | Command::Draft(_)
            | Command::Demo(_)
            | Command::Guard
            | Command::Worker
    )
}

/// Ends the `git` commands of this process, which have groups of their own, and then the process.
fn end_with_git(number: i32) {
    if number == signal::SUSPEND {
        return signal::suspend();
    }
    git::end_calls();
    signal::end_by(number);
}

/// Sets a project up, and has its first tasks drafted if that is wanted.
fn set_up(at: &Invocation, options: &InitArgs) -> Result<Exit> {
    match init::run(at, options)? {
        init::SetupEnd::Done(exit) => Ok(exit),
        init::SetupEnd::Draft(plan) => {
            draft::run(at, DraftArgs { spec: plan.display().to_string(), ..DraftArgs::default() })
        }
    }
}

/// Runs the command of a parsed command line.
///
/// # Errors
/// Errors of the command.
pub fn execute(cli: Cli) -> Result<Exit> {
    refuse_away(&cli.command)?;
    let at =
        Invocation { directory: cli.directory, graph: cli.graph, config: cli.config, name: None };
    if !handles_signals(&cli.command) {
        signal::listen(end_with_git).context("listen for signals")?;
    }
    dispatch(&at, cli.command)
}

fn dispatch(at: &Invocation, command: Command) -> Result<Exit> {
    match command {
        Command::Init(Flags(options)) => set_up(at, &options),
        Command::Template(Flags(options)) => printed::template(options.name),
        Command::Run(Flags(options)) => run::run(at, *options),
        Command::Loop(Flags(options)) => run::plain_loop(at, *options),
        Command::Prompt(Flags(options)) => prompt::run(at, &options),
        Command::Plan(Flags(options)) => plan::run(at, *options),
        Command::DagStatus(Flags(options)) => dag_status::run(at, options),
        Command::Graph(Flags(options)) => graph::run(at, options),
        Command::Draft(Flags(options)) => draft::run(at, *options),
        Command::TaskAdd(Flags(options)) => task_add::run(at, &options),
        Command::TaskReset(Flags(options)) => {
            let at = at.of_task(options.called.name, &options.ids)?;
            task::reset(&at, &options.ids, options.note.as_deref())
        }
        Command::TaskComplete(Flags(options)) => task::complete(at, options),
        Command::TaskBlock(Flags(options)) => task::block(at, &options.id, &options.reason),
        Command::Ask(Flags(options)) => ReportingAttempt::around("ask")?.ask(&options.text),
        Command::Answer(Flags(options)) => {
            let at = at.of_task(options.called.name, std::slice::from_ref(&options.id))?;
            talk::answer(&at, &options.id, options.text.as_deref())
        }
        Command::Note(Flags(options)) => match options.task() {
            Some(id) => talk::note(at, id, options.text()),
            None => ReportingAttempt::around("note")?.note(&options),
        },
        Command::Verify(Flags(options)) => task::verify(at, &options.id),
        Command::Costs(Flags(options)) => costs::costs(&at.named(&options.named), &options),
        Command::Check(Flags(options)) => check::run(at, &options),
        Command::Import(Flags(options)) => import::run(at, &options),
        Command::Config(Flags(options)) => printed::config(at, &options),
        Command::Schema(Flags(options)) => printed::schema(options.of),
        Command::MergeDriver(Flags(options)) => merge_driver::run(at, &options),
        Command::Slots(Flags(options)) => slots::run(at, &options),
        Command::Uninit(Flags(options)) => uninit::run(at, &options),
        Command::Doctor(Flags(options)) => doctor::run(at, options),
        Command::Status(Flags(options)) => status::run(&at.named(&options.named), &options),
        Command::Report(Flags(options)) => report::run(&at.named(&options.named), &options),
        Command::Pause(Flags(named)) => requests::pause(&at.named(&named)),
        Command::Resume(Flags(options)) => requests::resume(&at.named(&options.named), &options),
        Command::Stop(Flags(options)) => requests::stop(&at.named(&options.named), &options),
        Command::Land(Flags(LandArgs {})) => land::run(at),
        Command::Review(Flags(options)) => review::run(at, &options),
        Command::Diff(Flags(options)) => diff::run(at, &options),
        Command::Pr(Flags(options)) => pull_request::run(at, &options),
        Command::TakeBack(Flags(options)) => take_back::run(at, &options),
        Command::Serve(Flags(options)) => serve::run(at, &options),
        Command::Mcp(Flags(options)) => mcp::run(at, options),
        Command::Schedule(Flags(options)) => schedule::run(at, &options),
        Command::Heartbeat(Flags(beat)) => status::heartbeat(&at.named(&beat.named), beat.max_age),
        Command::Logs(Flags(options)) => logs::run(&at.named(&options.named), &options),
        Command::Attach(Flags(AttachArgs { id, lines, named })) => {
            let live = LogsArgs { id, lines, follow: true, output: true, ..LogsArgs::default() };
            logs::run(&at.named(&named), &live)
        }
        Command::Attempts(Flags(options)) => attempts::list(&at.named(&options.named), &options),
        Command::Show(Flags(options)) => show::run(&at.named(&options.named), &options),
        Command::Restore(Flags(options)) => attempts::restore(&at.named(&options.named), &options),
        Command::Demo(Flags(options)) => demo::run(&options),
        Command::Completions(Flags(options)) => printed::completions(&options.shell),
        Command::Man(Flags(options)) => printed::man(options.to.as_deref()),
        Command::Help { .. } => Ok(Exit::Success),
        Command::Guard => guard(),
        Command::Work { step, spec } => worker::work(step, &spec),
        Command::Confine { orders, argv } => confine(&orders, &argv),
        Command::Filter { executor, command, arguments } => {
            filter::run(at, &executor, &command, &arguments)
        }
        Command::Worker => worker::run(),
    }
}

/// Becomes a command in a sandbox.
fn confine(orders: &str, argv: &[String]) -> Result<Exit> {
    process::sandbox::enter(orders, argv).map_err(|why| Failure::new(Exit::Agent, why))?;
    Ok(Exit::Success)
}

/// Guards the processes of an agent.
fn guard() -> Result<Exit> {
    process::guard::run().context("guard the agent")?;
    Ok(Exit::Success)
}

/// Turns to the branch of a run, whatever the checkout is on, unless it is merged there. Returns the
/// branch if it is another one.
fn turn_to(workspace: &mut Workspace, of_run: Option<String>) -> Result<Option<String>> {
    let is_other = of_run.is_some() && of_run != landing_branch(workspace)?;
    let Some(branch) = of_run.filter(|_| is_other) else { return Ok(None) };
    let Some(tip) = workspace.repo.landings().tip(&branch)? else { return Ok(None) };
    if let Some(head) = workspace.repo.head()?.commit
        && workspace.repo.is_ancestor(&tip.commit, &head)?
    {
        return Ok(None);
    }
    let onto = ("onto".to_owned(), branch.clone().into());
    workspace.set_flags([onto].into_iter().collect())?;
    Ok(Some(branch))
}

/// The directory and the files that a command works on.
#[derive(Clone)]
pub struct Invocation {
    directory: Option<PathBuf>,
    graph: Option<PathBuf>,
    config: Option<PathBuf>,
    /// The named loop, if the command acts on one.
    name: Option<TaskId>,
}

impl Invocation {
    /// Returns the same invocation, with the files of an earlier run where this command names none.
    #[must_use]
    pub fn or(&self, begun: &Begun) -> Invocation {
        Invocation {
            graph: self.graph.clone().or_else(|| begun.graph.clone()),
            config: self.config.clone().or_else(|| begun.config.clone()),
            ..self.clone()
        }
    }

    /// Returns the same invocation for the named loop, if there is one.
    #[must_use]
    pub fn named(&self, named: &Named) -> Invocation {
        Invocation { name: named.name.clone(), ..self.clone() }
    }

    /// Returns the same invocation for the named loop. Without a name, a single id means the loop
    /// of that name if the command runs inside that loop, or if the graph has no such task.
    ///
    /// # Errors
    /// There is no repository; errors of the disk.
    pub fn of_task(&self, name: Option<TaskId>, ids: &[String]) -> Result<Invocation> {
        let meant = match ids {
            [id] if name.is_none() => self.loop_of(id)?,
            _ => None,
        };
        Ok(Invocation { name: name.or(meant), ..self.clone() })
    }

    /// Opens the repository for a review of landed work: on the branch of the newest run.
    ///
    /// # Errors
    /// Errors of [`Invocation::workspace`] and of git.
    fn reviewed(&self) -> Result<Workspace> {
        let mut workspace = self.workspace()?;
        let of_run = workspace.event_store()?.history().run.begun.branch.clone();
        turn_to(&mut workspace, of_run)?;
        Ok(workspace)
    }

    /// Opens the repository for the run over the graph, then for each plain loop by name.
    ///
    /// # Errors
    /// There is no repository; errors of the disk.
    pub fn all_loops(&self) -> Result<Vec<Workspace>> {
        let graph = Invocation { name: None, ..self.clone() }.workspace()?;
        let names = graph.loops().context("list the loops")?;
        let loops = names.into_iter().map(|name| self.open(LoopPaths::of_loop(name)));
        iter::once(Ok(graph)).chain(loops).collect()
    }

    fn loop_of(&self, id: &str) -> Result<Option<TaskId>> {
        let Ok(id) = TaskId::new(id) else {
            return Ok(None);
        };
        if env::var("RALPH_LOOP").is_ok_and(|name| name == id.as_str()) {
            return Ok(Some(id));
        }
        // Without a repository around it, the command says so, or an attempt knows its own.
        let Ok(workspace) = self.heard() else {
            return Ok(None);
        };
        if !workspace.loops().context("list the loops")?.contains(&id) {
            return Ok(None);
        }
        let graph = self.workspace()?.graph();
        let known = graph.is_ok_and(|file| file.graph().number(&id).is_some());
        Ok((!known).then_some(id))
    }

    /// Returns the flags of a command line that mean the same files, in the same directory.
    ///
    /// # Errors
    /// The working directory no longer exists.
    pub fn flags(&self) -> Result<Vec<String>> {
        let mut flags = Vec::new();
        for (flag, path) in [("--graph", &self.graph), ("--config", &self.config)] {
            if let Some(path) = path {
                flags.extend([flag.to_owned(), self.file(path)?.display().to_string()]);
            }
        }
        Ok(flags)
    }

    /// Runs a command of this program on the same files, in a process of its own.
    fn call_own(&self, call: &CommandCall, limit: Duration) -> Result<process::OwnCall> {
        if call.arguments.iter().chain([&call.input]).any(|text| text.contains('\0')) {
            return fail(Exit::Usage, "a text must not contain the character NUL");
        }
        let arguments: Vec<String> =
            self.flags()?.into_iter().chain(call.arguments.iter().cloned()).collect();
        process::call_own(&arguments, &self.directory()?, &call.input, limit)
            .context("start `ralph`")
    }

    /// Returns the absolute path of the directory.
    ///
    /// # Errors
    /// The working directory no longer exists.
    pub fn directory(&self) -> Result<PathBuf> {
        let current = env::current_dir().context("the working directory is gone")?;
        Ok(self.directory.as_ref().map_or_else(|| current.clone(), |dir| current.join(dir)))
    }

    /// Returns the absolute path of a file named on the command line.
    ///
    /// # Errors
    /// The working directory no longer exists.
    pub fn file(&self, path: &Path) -> Result<PathBuf> {
        let whole = env::current_dir().context("the working directory is gone")?.join(path);
        // The start of its path decides whether the file is in the repository.
        let leads_up = whole.components().any(|part| part == Component::ParentDir);
        let folder = whole.parent().filter(|_| leads_up).and_then(|it| fs::canonicalize(it).ok());
        let found = folder.and_then(|folder| Some(folder.join(whole.file_name()?)));
        Ok(found.unwrap_or(whole))
    }

    /// Opens the repository like [`workspace`](Self::workspace), for reports of agents, which must
    /// not fail on invalid files.
    ///
    /// # Errors
    /// There is no repository.
    pub fn heard(&self) -> Result<Workspace> {
        let place = self.name.clone().map_or_else(LoopPaths::default, LoopPaths::of_loop);
        Workspace::heard(&self.directory()?, place)
    }

    /// Opens the repository around the directory, for its graph run or the named loop.
    ///
    /// # Errors
    /// Errors of [`Workspace::open`]; there is no loop of that name.
    pub fn workspace(&self) -> Result<Workspace> {
        let Some(name) = &self.name else {
            return self.open(LoopPaths::default());
        };
        let workspace = self.open(LoopPaths::of_loop(name.clone()))?;
        if workspace.state.dir().is_dir() {
            return Ok(workspace);
        }
        let names = workspace.loops().context("list the loops")?;
        let names = names.iter().map(TaskId::as_str);
        let hint = nearest_or(name.as_str(), names, "`ralph status` lists the loops");
        fail(Exit::Error, format!("there is no loop `{name}`; {hint}"))
    }

    /// Does the same for commands that watch or end a run. It keeps its last valid settings while they
    /// are invalid; here the defaults are used then, with a warning.
    ///
    /// # Errors
    /// As [`workspace`](Self::workspace), except for invalid settings.
    pub fn watched(&self) -> Result<Workspace> {
        self.workspace().or_else(|error| {
            if exit::of_error(&error) != Exit::Invalid {
                return Err(error);
            }
            let place = self.name.clone().map_or_else(LoopPaths::default, LoopPaths::of_loop);
            let workspace = Workspace::unset(&self.directory()?, place)?;
            terminal::say(
                "warning: the settings are invalid, so this uses the defaults; `ralph check` shows why",
            );
            Ok(workspace)
        })
    }

    /// Opens the repository for the loop at `place`, which need not exist yet.
    ///
    /// # Errors
    /// Errors of [`Workspace::open`].
    pub fn open(&self, place: LoopPaths) -> Result<Workspace> {
        let file = |path: &Option<PathBuf>| path.as_deref().map(|path| self.file(path)).transpose();
        // A named loop has its own graph.
        let graph = if place.name().is_some() { None } else { file(&self.graph)? };
        let config = file(&self.config)?;
        Workspace::open(&self.directory()?, place, graph.as_deref(), config.as_deref())
    }
}

/// Prints the result of a command that succeeded.
fn success(text: &str) -> Result<Exit> {
    terminal::print(text)?;
    Ok(Exit::Success)
}

/// Checks that the graph has a filter's names.
///
/// # Errors
/// A name that no task has, with the nearest one; a filter that selects nothing.
fn check_filter(file: &GraphFile, filter: &Filter) -> Result<()> {
    match filter.mistake(file.graph().tasks(), file.name()) {
        Some(mistake) => fail(Exit::Usage, mistake),
        None => Ok(()),
    }
}

/// Returns the filter for the given flags.
pub fn filter(which: Which) -> Filter {
    let Which { tasks, stories, milestones, tags } = which;
    Filter { tasks, stories, milestones, tags }
}

/// Returns the records of the running attempts.
fn open_attempts(workspace: &Workspace, history: &History) -> Result<Vec<AttemptRecord>> {
    let is_live = workspace.is_live(history)?;
    Ok(if is_live { workspace.state.peek() } else { Vec::new() })
}

/// Calls `see` with the graph as it stands, including the running attempts.
fn with_view<T>(
    workspace: &Workspace,
    file: &GraphFile,
    history: &History,
    policy: &Policy,
    see: impl FnOnce(&View<'_>) -> T,
) -> Result<T> {
    let open = open_attempts(workspace, history)?;
    let active = active(&open, file.graph(), history);
    Ok(see(&View { active: &active, ..view(file, history, policy) }))
}

/// Returns the running attempts in the form that task selection takes.
fn active<'a>(open: &'a [AttemptRecord], graph: &TaskGraph, history: &History) -> Vec<Active<'a>> {
    let active = |record: &'a AttemptRecord| {
        let number = graph.number(&record.task_id)?;
        let agent = record.call.as_ref().map(|call| call.name.as_str());
        let works = !history.active.is_queued(&record.task_id);
        Some(Active { number: Some(number), agent, works })
    };
    open.iter().filter_map(active).collect()
}

/// The agent from the flags. A relative path starts from the working directory.
///
/// # Errors
/// An unknown name; the working directory no longer exists.
fn given_agent(invocation: &Invocation, agent: AgentArgs) -> Result<Option<Vec<AgentCommand>>> {
    let read = |name: String| {
        AgentCommand::read(&json!(name)).map_err(|why| Failure::new(Exit::Usage, why))
    };
    let given = if agent.command.is_empty() {
        agent.name.map(read).transpose()?
    } else {
        Some(vec![AgentCommand::command(agent.command)])
    };
    let Some(calls) = given else {
        return Ok(None);
    };
    let dir = invocation.file(Path::new(""))?;
    Ok(Some(calls.into_iter().map(|call| config::anchored(call, &dir)).collect()))
}

/// Checks that the attempts of a run do not share a folder.
///
/// # Errors
/// There are several jobs without slots.
fn check_jobs(workspace: &Workspace) -> Result<()> {
    let config = &workspace.config;
    if config.jobs > 1 && !config.is_isolated() {
        return fail(
            Exit::Usage,
            format!(
                "{} jobs need slots, since two attempts cannot share the checkout; remove `isolation: \
             checkout` or run one job",
                config.jobs
            ),
        );
    }
    Ok(())
}
