//! The flags of the commands that set a project up, serve it or schedule its runs.

use std::{net::IpAddr, path::PathBuf};

use clap::{
    Args, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

use crate::core::{
    prompt::template::Template,
    time_zone::{self, Zone},
};

/// `ralph init`.
#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct InitArgs {
    /// Accept all defaults without asking, as without a terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Write no user settings
    #[arg(long)]
    pub project: bool,
    /// Write only the user settings, `~/.ralph/config.yaml`
    #[arg(long, conflicts_with = "project")]
    pub global: bool,
    /// Overwrite the settings, with a backup in `config.yaml.bak`
    #[arg(long)]
    pub reset: bool,
    /// Overwrite existing files, with `.bak` backups
    #[arg(long)]
    pub force: bool,
    /// Write only `PROMPT.md`, for a loop without a graph
    #[arg(long, conflicts_with_all = ["project", "global", "reset", "dry_run"])]
    pub prompt: bool,
    /// Show what `--yes` would write; write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `ralph template`.
#[derive(Debug, Args)]
pub struct PrintTemplateArgs {
    /// The template
    #[arg(value_name = "NAME", default_value = "task", value_parser = template())]
    pub name: Template,
}

fn template() -> impl TypedValueParser<Value = Template> {
    let names = Template::ALL.iter().map(|(name, what, _)| PossibleValue::new(*name).help(*what));
    let known = |given: &String| Template::ALL.iter().find(|(name, ..)| name == given);
    PossibleValuesParser::new(names)
        .try_map(move |given| known(&given).map(|it| it.2).ok_or("no template has this name"))
}

/// `ralph merge-driver`.
#[derive(Debug, Args)]
#[command(override_usage = "ralph merge-driver BASE OURS THEIRS [PATH]\n       \
    ralph merge-driver --install | --uninstall")]
pub struct MergeDriverArgs {
    /// The common ancestor (`%O`)
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub base: Option<PathBuf>,
    /// Our version, overwritten with the result (`%A`)
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub ours: Option<PathBuf>,
    /// Their version (`%B`)
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub theirs: Option<PathBuf>,
    /// The path for messages (`%P`)
    pub path: Option<PathBuf>,
    /// Install the driver in this clone
    #[arg(long, conflicts_with_all = ["base", "uninstall"])]
    pub install: bool,
    /// Remove the installed driver
    #[arg(long, conflicts_with = "base")]
    pub uninstall: bool,
}

/// `ralph schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// A subcommand; without one, wait for the next time.
    #[command(subcommand)]
    pub units: Option<Units>,
    /// Start a run at these times: minute hour day month weekday; may be repeated
    #[arg(long, value_name = "EXPR")]
    pub cron: Vec<String>,
    /// Interpret times in this zone, such as Europe/Berlin [default: local]
    #[arg(long, value_name = "ZONE", value_parser = time_zone::named)]
    pub time_zone: Option<Zone>,
    /// Show the next N times; start nothing
    #[arg(long, value_name = "N", conflicts_with_all = ["once", "due"], value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub next: Option<u16>,
    /// Wait for the next time, and exit with the code of that run
    #[arg(long)]
    pub once: bool,
    /// Start a run if a time has passed since the last check; for a crontab
    #[arg(long, conflicts_with = "once")]
    pub due: bool,
    /// Flags for `ralph run`
    #[arg(last = true, value_name = "FLAGS")]
    pub run: Vec<String>,
}

/// The command for a service of the system.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Units {
    /// Print a service that runs `ralph schedule` for this repository, and how to install it
    Install(InstallArgs),
}

/// The kind of service.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Keeper {
    /// Print a systemd unit
    #[arg(long)]
    pub systemd: bool,
    /// Print a launchd agent or daemon
    #[arg(long)]
    pub launchd: bool,
    /// Print a crontab entry that checks the schedule every minute
    #[arg(long)]
    pub cron: bool,
}

/// `ralph schedule install`.
#[derive(Clone, Copy, Debug, Args)]
#[command(override_usage = "ralph schedule install [OPTIONS]\n       \
                            <--systemd|--launchd|--cron>")]
pub struct InstallArgs {
    /// The kind of service.
    #[command(flatten)]
    pub keeper: Keeper,
    /// For this user, not for the machine, which needs root
    #[arg(long)]
    pub user: bool,
}

/// `ralph serve`, and the page of `ralph run --serve`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The page is for this machine only. The link that is printed lets one browser in; \
    after it was used, a new link is printed. The page reads what is on disk, so that it also shows \
    runs that have ended and goes on while runs come and go."
)]
pub struct ServeArgs {
    /// The port; 0 for a free one
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// Listen on this address instead of the loopback address, without encryption
    #[arg(long, value_name = "ADDRESS", requires = "hosts")]
    pub allow_remote: Option<IpAddr>,
    /// A name by which browsers reach the page, as `HOST` or `HOST:PORT`; may be repeated. The page
    /// then only shows
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Let the page act, although other machines can reach it
    #[arg(long, requires = "hosts")]
    pub allow_actions: bool,
}

/// `ralph mcp`.
#[derive(Clone, Copy, Debug, Args)]
#[command(
    after_help = "The Model Context Protocol on standard input and output. `claude mcp add ralph -- \
    ralph mcp` adds it to Claude Code; other agents start `ralph mcp` in the repository. Each tool is \
    the command of the same name: it does, records and refuses the same."
)]
pub struct McpArgs {
    /// Also offer `run`, `stop`, `pause` and `resume`; runs go on in the background
    #[arg(long)]
    pub allow_run: bool,
}

/// The port of the page where none is given: fixed, so that a bookmark stays right.
pub const DEFAULT_PORT: u16 = 7325;
/// The same as text.
pub(super) const DEFAULT_PORT_TEXT: &str = "7325";

impl ServeArgs {
    /// A page on this port of this machine.
    pub fn on(port: u16) -> ServeArgs {
        let hosts = Vec::new();
        ServeArgs { port, open: false, allow_remote: None, hosts, allow_actions: false }
    }
}

/// `ralph slots`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SlotsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The subcommand; without one, the slots are listed.
    #[command(subcommand)]
    pub command: Option<SlotsCommand>,
}

/// The commands on slots.
#[derive(Debug, Subcommand)]
pub enum SlotsCommand {
    /// Remove slots that have no unsaved work; runs make new ones
    Remove {
        /// The name of a slot, such as `3`, or its path [default: all]
        #[arg(value_name = "NAME-OR-PATH")]
        slots: Vec<PathBuf>,
    },
}

/// `ralph uninit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Commits stay, and so do the graph and the settings unless `--all` is given. Work of \
    incomplete attempts that is kept under refs is removed."
)]
pub struct UninitArgs {
    /// Remove the graph and the settings as well
    #[arg(long)]
    pub all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}
