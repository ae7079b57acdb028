//! `ralph plan`: in which order, with how many agents at once, until when.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{Invocation, filter};
use crate::{
    adapters::terminal::{self, visible},
    cli,
    core::{
        duration,
        exit::Exit,
        history::attempt_log::AttemptLog,
        select::{Forecast, Policy, View},
        verdict::Verdict,
    },
    project::{
        graph_file::rfc3339,
        workspace::{find, view},
    },
    view::lines::{counted, moment},
};

/// How many at once are looked at where nobody says.
const JOBS: [usize; 5] = [1, 2, 4, 8, 16];
/// How many tasks must have been completed before their lengths say something.
const ENOUGH: usize = 3;
/// How many tasks of the order are shown unless all are asked for.
const SHOWN: usize = 30;

/// Shows what would happen if every attempt succeeded. Touches nothing.
///
/// # Errors
/// No repository, an invalid graph, an unknown task.
pub fn run(here: &Invocation, options: cli::PlanArgs) -> Result<Exit> {
    let workspace = here.workspace()?;
    let file = workspace.graph()?;
    let policy = Policy { filter: filter(options.which), ..workspace.policy() };
    for id in &policy.filter.tasks {
        find(&file, id.as_str())?;
    }
    let chronicle = workspace.chronicle()?;
    let view = view(&file, chronicle.history(), &policy);
    let pace = Pace::of(&view, &workspace.attempt_log()?);
    let now = Utc::now();
    let length = |number: usize| pace.seconds(view.graph.task(number).minutes);
    let path = view.critical_path(&length, now);
    let most = widest(&view, &length, now);
    let jobs = match options.jobs {
        asked if asked.is_empty() => {
            JOBS.into_iter().filter(|jobs| *jobs < most).chain([most]).collect()
        }
        asked => asked,
    };
    let forecasts: Vec<(usize, Forecast)> =
        jobs.into_iter().map(|jobs| (jobs, view.forecast(jobs, &length, now))).collect();
    let plan = PlanPage { view, pace: &pace, now, path, most, forecasts, length: &length };
    terminal::print(&if options.json {
        terminal::json(&plan.as_value())
    } else {
        plan.page(if options.all { usize::MAX } else { SHOWN })
    })?;
    Ok(Exit::Success)
}

/// How long tasks take, beside what was estimated.
struct Pace {
    /// So many times as long.
    factor: f64,
    /// As the median of so many completed tasks; with too few, the estimates stand.
    tasks: usize,
}

impl Pace {
    fn of(view: &View<'_>, log: &AttemptLog) -> Pace {
        let mut took = vec![Duration::ZERO; view.graph.tasks().len()];
        let mut complete = vec![false; took.len()];
        for entry in log.of(None) {
            if let (Some(number), Some((_, ended))) =
                (view.graph.number(&entry.task_id), &entry.ended)
            {
                took[number] += ended.duration();
                complete[number] |= ended.verdict == Verdict::Complete;
            }
        }
        let mut factors: Vec<f64> = (0..took.len())
            .filter(|number| complete[*number])
            .map(|n| took[n].as_secs_f64() / (f64::from(view.graph.task(n).minutes) * 60.0))
            .collect();
        factors.sort_by(f64::total_cmp);
        let tasks = factors.len();
        let factor = if tasks < ENOUGH { 1.0 } else { factors[tasks / 2] };
        Pace { factor, tasks }
    }

    fn seconds(&self, minutes: u32) -> u64 {
        let seconds = f64::from(minutes) * 60.0 * self.factor;
        #[expect(clippy::cast_sign_loss, reason = "both factors are positive")]
        let seconds = seconds.round() as u64;
        seconds.max(1)
    }
}

/// The smallest number of attempts at once after which more does not help.
fn widest(view: &View<'_>, length: &dyn Fn(usize) -> u64, now: DateTime<Utc>) -> usize {
    let best = view.forecast(usize::MAX, length, now);
    let (mut low, mut high) = (1, best.slots.len().max(1));
    while low < high {
        let middle = low.midpoint(high);
        if view.forecast(middle, length, now).end <= best.end {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

struct PlanPage<'a> {
    view: View<'a>,
    pace: &'a Pace,
    now: DateTime<Utc>,
    path: Vec<usize>,
    most: usize,
    forecasts: Vec<(usize, Forecast)>,
    length: &'a dyn Fn(usize) -> u64,
}

impl PlanPage<'_> {
    fn ends_at(&self, forecast: &Forecast) -> DateTime<Utc> {
        let seconds = i64::try_from(forecast.end).unwrap_or(i64::MAX);
        let longest = TimeDelta::days(36_500);
        self.now + TimeDelta::try_seconds(seconds).unwrap_or(longest).min(longest)
    }

    fn id(&self, number: usize) -> &str {
        self.view.graph.task(number).id.as_str()
    }

    /// How long the path takes, and what follows what on it.
    fn path(&self) -> (u64, Vec<&str>) {
        let length = self.path.iter().map(|number| (self.length)(*number)).sum();
        (length, self.path.iter().map(|number| self.id(*number)).collect())
    }

    fn page(&self, shown: usize) -> String {
        let Some((_, first)) = self.forecasts.first().filter(|(_, found)| !found.slots.is_empty())
        else {
            return "nothing is left that can be done\n".to_owned();
        };
        let work = first.slots.iter().map(|slot| slot.end - slot.start).sum();
        let (longest, path) = self.path();
        let tasks = first.slots.len();
        let mut page = format!(
            "{} to do, {} of work; {}\nnothing makes it shorter than {}: {}\n\n",
            counted(tasks, "task"),
            short(work),
            self.pace_in_words(),
            short(longest),
            path.join(" -> "),
        );
        let _ = writeln!(page, "jobs  takes    done at");
        for (jobs, forecast) in &self.forecasts {
            let help = if *jobs == self.most { "  more does not help" } else { "" };
            let at = moment(self.ends_at(forecast), self.now);
            let _ = writeln!(page, "{jobs:>4}  {:<7}  {at}{help}", short(forecast.end));
        }
        let _ = writeln!(page, "\nin order, one at a time:");
        let one = self.view.forecast(1, self.length, self.now);
        let screen = terminal::stdout_width().unwrap_or(usize::MAX);
        let width = one.slots.iter().take(shown).map(|slot| self.id(slot.key.number).len()).max();
        for slot in one.slots.iter().take(shown) {
            let title = visible(&self.view.graph.task(slot.key.number).title);
            let id = self.id(slot.key.number);
            let width = width.unwrap_or(0);
            let line = format!("{:>8}  {id:<width$}  {title}", short(slot.end - slot.start));
            let _ = writeln!(page, "{}", terminal::fit(&line, screen));
        }
        if one.slots.len() > shown {
            let _ = writeln!(page, "{:>8}  and {} more; `--all` shows them", "", tasks - shown);
        }
        page
    }

    fn pace_in_words(&self) -> String {
        if self.pace.tasks < ENOUGH {
            return "lengths as estimated".to_owned();
        }
        let (factor, tasks) = (self.pace.factor, self.pace.tasks);
        format!("tasks take {factor:.2} times their estimate (median of {tasks})")
    }

    fn as_value(&self) -> Value {
        let (longest, path) = self.path();
        let forecast = |(jobs, forecast): &(usize, Forecast)| {
            let slot = |slot: &crate::core::select::Slot| {
                json!({
                    "id": self.id(slot.key.number),
                    "start_seconds": slot.start,
                    "end_seconds": slot.end,
                })
            };
            json!({
                "jobs": jobs,
                "seconds": forecast.end,
                "done_at": rfc3339(self.ends_at(forecast)),
                "tasks": forecast.slots.iter().map(slot).collect::<Vec<_>>(),
            })
        };
        json!({
            "critical_path": { "ids": path, "seconds": longest },
            "pace": { "factor": self.pace.factor, "tasks": self.pace.tasks },
            "enough_jobs": self.most,
            "forecasts": self.forecasts.iter().map(forecast).collect::<Vec<_>>(),
        })
    }
}

fn short(seconds: u64) -> String {
    duration::short(Duration::from_secs(seconds))
}
