//! `ralph schedule`: starts runs at set times, or on signed requests.

mod http_trigger;
mod install;
mod watch;

use std::{
    ffi::OsString,
    fmt::Write as _,
    io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::{DateTime, Local, TimeZone, Utc};

use super::{Invocation, inside::SurroundingAttempt, success};
use crate::{
    adapters::{
        process::{self, Foreground, ForegroundGroup},
        service_manager,
    },
    cli::{self, Units},
    core::{
        duration,
        exit::{Exit, Failure, fail},
        time_zone::Zone,
        timetable::{Alarm, AlarmState, Timetable},
        verdict::Outcome,
    },
    project::{
        config::{Config, Secret, TriggerConfig},
        config_layers,
        workspace::Workspace,
    },
    report::heartbeat,
};
use watch::{Mode, ScheduleDaemon};

/// Waits for the next time, shows times, or manages the service.
///
/// # Errors
/// No repository; missing or invalid times; another waiting schedule; errors of the disk.
pub fn run(invocation: &Invocation, options: &cli::ScheduleArgs) -> Result<Exit> {
    if options.next.is_none() {
        SurroundingAttempt::refuse_steering(&invocation.workspace()?, "schedule")?;
    }
    if let Some(Units::Install(install)) = options.units {
        return install::install(invocation, install);
    }
    let workspace = invocation.workspace()?;
    let plan = SchedulePlan::of(options, &workspace.config)?;
    if let Some(count) = options.next {
        return success(&plan.coming(count.into(), Utc::now()));
    }
    let mode = match (options.once, options.due) {
        (true, _) => Mode::Once,
        (false, true) => Mode::Due,
        (false, false) => Mode::Forever,
    };
    match ScheduleDaemon::begin(workspace, plan, options, mode)? {
        Some(watch) => watch.run(),
        None => Ok(Exit::Success),
    }
}

/// The times and the flags of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SchedulePlan {
    times: Timetable,
    zone: Option<Zone>,
    run: Vec<String>,
    trigger: Option<TriggerConfig>,
}

impl SchedulePlan {
    /// The plan from the flags, or from the settings.
    ///
    /// # Errors
    /// Missing or invalid times.
    fn of(flags: &cli::ScheduleArgs, config: &Config) -> Result<SchedulePlan> {
        let settings = config.schedule.as_ref();
        let times = if flags.cron.is_empty() {
            settings.map(|settings| settings.times.clone()).unwrap_or_default()
        } else {
            let usage = |why| Failure::new(Exit::Usage, format!("`--cron`: {why}"));
            Timetable::new(&flags.cron).map_err(usage)?
        };
        let run = match settings {
            Some(settings) if flags.run.is_empty() => {
                check_settings(&settings.run)?;
                settings.run.clone()
            }
            _ => {
                check(&flags.run).map_err(|why| {
                    Failure::new(Exit::Usage, format!("flags of `ralph run`: {why}"))
                })?;
                flags.run.clone()
            }
        };
        let trigger = settings.and_then(|settings| settings.trigger.clone());
        if times.expressions().is_empty() && trigger.is_none() {
            return fail(
                Exit::Usage,
                format!(
                    "no schedule; pass `--cron \"0 */4 * * *\"`, or add `schedule: \"0 */4 * * *\"` to \
                 `{}`",
                    config_layers::PATH
                ),
            );
        }
        let zone = flags.time_zone.clone();
        let zone = zone.or(settings.and_then(|settings| settings.zone.clone()));
        Ok(SchedulePlan { times, zone, run, trigger })
    }

    /// Checks the clock.
    fn look(&self, alarm: &mut Alarm, now: DateTime<Utc>) -> AlarmState {
        match &self.zone {
            Some(zone) => alarm.look(&self.times, &now.with_timezone(zone)),
            None => alarm.look(&self.times, &now.with_timezone(&Local)),
        }
    }

    /// A time in the zone of the plan.
    fn shown(&self, at: DateTime<Utc>) -> String {
        match &self.zone {
            Some(zone) => at.with_timezone(zone).format("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
            None => at.with_timezone(&Local).format("%a %Y-%m-%d %H:%M:%S %:z").to_string(),
        }
    }

    /// The next times, one per line.
    fn coming(&self, count: usize, now: DateTime<Utc>) -> String {
        match &self.zone {
            Some(zone) => self.lines(count, &now.with_timezone(zone), zone.name()),
            None => self.lines(count, &now.with_timezone(&Local), "(this machine)"),
        }
    }

    fn lines<Z: TimeZone>(&self, count: usize, now: &DateTime<Z>, zone: &str) -> String {
        let mut text = String::new();
        let times = std::iter::successors(self.times.next(now), |at| self.times.next(at));
        for at in times.take(count) {
            let left = (at.clone() - now.clone()).to_std().unwrap_or_default();
            let left = duration::short(left.max(Duration::from_secs(1)));
            let day = at.naive_local().format("%a");
            // The time comes first, in a machine-readable form.
            let time = at.fixed_offset().to_rfc3339();
            let _ = writeln!(text, "{time} {zone}  {day}, in {left}");
        }
        text
    }
}

/// The non-default files, each with its flag.
fn named(workspace: &Workspace) -> impl Iterator<Item = (&'static str, &Path)> {
    let all = [("--graph", workspace.other_graph()), ("--config", workspace.layers.named())];
    all.into_iter().filter_map(|(flag, path)| Some((flag, path?)))
}

/// Checks the flags for `ralph run` in the settings.
fn check_settings(words: &[String]) -> Result<(), Failure> {
    let invalid = |why| Failure::new(Exit::Invalid, format!("`run` of `schedule`: {why}"));
    check(words).map_err(invalid)
}

/// Checks flags for `ralph run`, before the first scheduled run.
fn check(words: &[String]) -> Result<(), String> {
    let line = ["ralph", "run"].into_iter().map(str::to_owned).chain(words.iter().cloned());
    match cli::parse(line.map(OsString::from)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("they print help or the version instead of starting a run".to_owned()),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
    }
}

/// A run counts as hanging after this long without a heartbeat, plus the time for commits, during which
/// it does not beat.
const PATIENCE: Duration = Duration::from_secs(300);

/// A scheduled run: a `ralph run` of its own, which recovers earlier runs.
struct ScheduledRun {
    child: Arc<Foreground>,
    began: Instant,
    /// The last heartbeat, and when it was first seen.
    beat: (Option<DateTime<Utc>>, Instant),
}

impl ScheduledRun {
    /// Starts a run, and a thread that calls `ended` at its end.
    ///
    /// # Errors
    /// A process or thread that does not start.
    fn start(
        workspace: &Workspace,
        plan: &SchedulePlan,
        ended: impl FnOnce(io::Result<Outcome>) + Send + 'static,
    ) -> Result<ScheduledRun> {
        let words = |(flag, path): (&str, &Path)| [flag.to_owned(), path.display().to_string()];
        let mut arguments: Vec<String> = named(workspace).flat_map(words).collect();
        arguments.push("run".to_owned());
        arguments.extend(plan.run.iter().cloned());
        // Neither the run nor its agents may notify the service manager or sign requests.
        let secret = match plan.trigger.as_ref().map(|trigger| &trigger.secret) {
            Some(Secret::Variable(name)) => Some(name.as_str()),
            Some(Secret::File(_)) | None => None,
        };
        let env: Vec<_> =
            service_manager::VARIABLES.into_iter().chain(secret).map(|name| (name, None)).collect();
        let root = workspace.root();
        let program = process::own_program();
        let child = Foreground::start(&program, &arguments, root, &env, None, ForegroundGroup::Own)
            .context("start `ralph run`")?;
        let child = Arc::new(child);
        let watched = Arc::clone(&child);
        thread::Builder::new()
            .name("run".to_owned())
            .spawn(move || ended(watched.wait()))
            .context("watch `ralph run`")?;
        let now = Instant::now();
        Ok(ScheduledRun { child, began: now, beat: (None, now) })
    }

    /// Whether the heartbeat is current.
    fn is_well(&mut self, workspace: &Workspace) -> bool {
        let path = workspace.root().join(workspace.place.heartbeat());
        let beat = heartbeat::read(&path).ok().map(|(at, _)| at);
        if beat != self.beat.0 {
            self.beat = (beat, Instant::now());
        }
        self.beat.1.elapsed() < PATIENCE + 2 * workspace.config.commit_timeout
    }
}
