//! The commands, one file each.

pub mod attach;
pub mod attempts;
pub mod check;
pub mod completions;
pub mod config;
pub mod costs;
pub mod dag_status;
pub mod demo;
pub mod demo_agent;
pub mod doctor;
pub mod heartbeat;
pub mod init;
mod inside;
mod listen;
pub mod logs;
mod pane;
pub mod notify;
pub mod plan;
pub mod prompt;
pub mod replay;
pub mod requests;
pub mod run;
pub mod schema;
pub mod spawn;
pub mod status;
pub mod talk;
pub mod task;
pub mod template;
pub mod verify;

use std::{env, path::PathBuf};

use anyhow::{Context, Result};

use crate::{
    cli::{Cli, Command, Which},
    event::Begun,
    exit::Exit,
    filter::Filter,
    place::Place,
    workspace::Workspace,
};

/// Does what the command line says.
///
/// # Errors
/// As the command gives them.
pub fn execute(cli: Cli) -> Result<Exit> {
    let here = Here { directory: cli.directory, graph: cli.graph, config: cli.config };
    match cli.command {
        Command::Init(options) => init::run(&here, &options),
        Command::Template(options) => template::run(options.name.into()),
        Command::Run(options) => run::run(&here, *options),
        Command::Prompt(options) => prompt::run(&here, &options),
        Command::Plan(options) => plan::run(&here, options),
        Command::DagStatus(options) => dag_status::run(&here, options),
        Command::TaskReset(options) => task::reset(&here, &options.ids),
        Command::TaskComplete(options) => task::complete(&here, &options.id),
        Command::TaskBlock(options) => task::block(&here, &options.id, &options.reason),
        Command::Ask(options) => talk::ask(&options.text),
        Command::Answer(options) => talk::answer(&here, &options.id, options.text.as_deref()),
        Command::Note(options) => talk::note(&options),
        Command::Verify(options) => verify::run(&here, &options.id),
        Command::Costs(options) => costs::run(&here, &options),
        Command::Check(options) => check::run(&here, &options),
        Command::Config(options) => config::run(&here, &options),
        Command::Schema(options) => schema::run(options.of),
        Command::Doctor(options) => doctor::run(&here, options),
        Command::Notify(options) => notify::run(&here, &options),
        Command::Status(options) => status::run(&here, options.json),
        Command::Pause => requests::pause(&here),
        Command::Resume(options) => requests::resume(&here, options.now),
        Command::Stop(options) => requests::stop(&here, options.now),
        Command::Heartbeat(options) => heartbeat::run(&here, options.max_age),
        Command::Logs(options) => logs::run(&here, &options),
        Command::Attach(options) => attach::run(&here, &options),
        Command::Attempts(options) => attempts::list(&here, &options),
        Command::Show(options) => attempts::show(&here, &options),
        Command::Restore(options) => attempts::restore(&here, &options),
        Command::Spawn(options) => spawn::run(&here, &options.argv),
        Command::Demo(options) => demo::run(options.to.as_deref()),
        Command::Replay(options) => replay::run(&here, &options),
        Command::Completions(options) => completions::completions(&options.shell),
        Command::Man(options) => completions::man(options.to.as_deref()),
        Command::DemoAgent => demo_agent::run(),
        Command::Pane(options) => pane::run(&options),
        Command::InPane { folder } => pane::inside(&folder),
        Command::Guard => {
            crate::agent::guard::run().context("guard the agent")?;
            Ok(Exit::Success)
        }
    }
}

/// Where a command works.
pub struct Here {
    directory: Option<PathBuf>,
    graph: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Here {
    /// The same place, with the files that a run named where this command names none.
    #[must_use]
    pub fn or(&self, begun: &Begun) -> Here {
        Here {
            directory: self.directory.clone(),
            graph: self.graph.clone().or_else(|| begun.graph.clone()),
            config: self.config.clone().or_else(|| begun.config.clone()),
        }
    }

    /// The folder, absolute.
    ///
    /// # Errors
    /// The working directory is gone.
    pub fn directory(&self) -> Result<PathBuf> {
        let current = env::current_dir().context("the working directory is gone")?;
        Ok(self.directory.as_ref().map_or_else(|| current.clone(), |dir| current.join(dir)))
    }

    /// The repository around it.
    ///
    /// # Errors
    /// As [`Workspace::open`].
    pub fn workspace(&self) -> Result<Workspace> {
        // Files are named from where the command was typed.
        let current = env::current_dir().context("the working directory is gone")?;
        let named = |path: &Option<PathBuf>| path.as_ref().map(|path| current.join(path));
        let (graph, config) = (named(&self.graph), named(&self.config));
        Workspace::open(&self.directory()?, Place::default(), graph.as_deref(), config.as_deref())
    }
}

/// The filter that flags make.
pub fn filter(which: Which) -> Filter {
    let Which { tasks, stories, milestones, tags } = which;
    Filter { tasks, stories, milestones, tags }
}
