//! The flags of what goes by the clock.

use clap::{Args, Subcommand};

use crate::core::time_zone::{self, Zone};

/// `ralph schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// What to do besides waiting.
    #[command(subcommand)]
    pub units: Option<Units>,
    /// Start a run at these times (may be repeated): minute, hour, day, month, day of the week
    #[arg(long, value_name = "EXPR")]
    pub cron: Vec<String>,
    /// The zone in which they are meant, such as Europe/Berlin [default: that of this machine]
    #[arg(long, value_name = "ZONE", value_parser = time_zone::named)]
    pub time_zone: Option<Zone>,
    /// Show the next N times, and touch nothing
    #[arg(long, value_name = "N", conflicts_with_all = ["once", "due"], value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub next: Option<u16>,
    /// Wait for one wake, and end as its run does
    #[arg(long)]
    pub once: bool,
    /// Do not wait: start a run if a time has come since this was asked last; for a crontab
    #[arg(long, conflicts_with = "once")]
    pub due: bool,
    /// The flags of `ralph run`
    #[arg(last = true, value_name = "FLAGS")]
    pub run: Vec<String>,
}

/// Having it started by the system.
#[derive(Debug, Subcommand)]
pub enum Units {
    /// Have the system start `ralph schedule` for this repository, by its settings
    Install(InstallArgs),
    /// Take away what `install` wrote for this repository
    Uninstall,
}

/// Who starts it.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Keeper {
    /// A service of systemd
    #[arg(long)]
    pub systemd: bool,
    /// An agent or a daemon of launchd
    #[arg(long)]
    pub launchd: bool,
    /// A line in your crontab, by which it is asked every minute whether a time has come
    #[arg(long)]
    pub cron: bool,
}

/// `ralph schedule install`.
#[derive(Debug, Args)]
#[command(override_usage = "ralph schedule install [OPTIONS]\n       \
                            <--systemd|--launchd|--cron>")]
pub struct InstallArgs {
    /// By whom.
    #[command(flatten)]
    pub keeper: Keeper,
    /// For this user alone; without it, for the machine, which takes root
    #[arg(long)]
    pub user: bool,
    /// Print what would be written, and touch nothing
    #[arg(long)]
    pub print: bool,
}
