//! The flags of `ralph schedule`.

use clap::{Args, Subcommand};

use crate::core::time_zone::{self, Zone};

/// `ralph schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// A subcommand; without one, wait for the next time.
    #[command(subcommand)]
    pub units: Option<Units>,
    /// Start a run at these times: minute hour day month weekday (may be repeated)
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
    /// Start a run if a time has passed since the last check, then exit; for a crontab
    #[arg(long, conflicts_with = "once")]
    pub due: bool,
    /// Flags for `ralph run`
    #[arg(last = true, value_name = "FLAGS")]
    pub run: Vec<String>,
}

/// The commands for a service of the system.
#[derive(Debug, Subcommand)]
pub enum Units {
    /// Install a service that runs `ralph schedule` for this repository
    Install(InstallArgs),
    /// Remove the installed service of this repository
    Uninstall,
}

/// The kind of service.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Keeper {
    /// Use a systemd service
    #[arg(long)]
    pub systemd: bool,
    /// Use a launchd agent or daemon
    #[arg(long)]
    pub launchd: bool,
    /// Use a crontab entry that checks the schedule every minute
    #[arg(long)]
    pub cron: bool,
}

/// `ralph schedule install`.
#[derive(Debug, Args)]
#[command(override_usage = "ralph schedule install [OPTIONS]\n       \
                            <--systemd|--launchd|--cron>")]
pub struct InstallArgs {
    /// The kind of service.
    #[command(flatten)]
    pub keeper: Keeper,
    /// Install for this user only, not for the machine, which needs root
    #[arg(long)]
    pub user: bool,
    /// Print the files instead of writing them
    #[arg(long)]
    pub print: bool,
}
