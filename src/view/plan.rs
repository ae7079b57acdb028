//! What would happen if every attempt succeeded.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::VERSION;
use crate::core::{
    graph::task::{Task, TaskId},
    select::{Forecast, Slot, View},
    verdict::Verdict,
};

/// The numbers of attempts at once that are compared where none is given.
const JOBS: [usize; 5] = [1, 2, 4, 8, 16];
/// How many tasks must have been completed before their lengths count.
const ENOUGH: usize = 3;

/// What would happen if every attempt succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanView {
    /// The version of this shape.
    pub schema: u32,
    /// The chain of tasks that bounds the time from below.
    pub critical_path: PathView,
    /// How long tasks take, relative to their estimates.
    pub pace: PaceView,
    /// The number of attempts at once after which more does not help.
    pub enough_jobs: usize,
    /// A forecast for each number of attempts at once.
    pub forecasts: Vec<ForecastView>,
    /// The tasks in the order in which one attempt at a time takes them.
    #[serde(skip)]
    pub order: Vec<PlannedTask>,
}

/// The chain of tasks that bounds the time from below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathView {
    /// The tasks, in order.
    #[schemars(with = "Vec<String>")]
    pub ids: Vec<TaskId>,
    /// How long they take together.
    pub seconds: u64,
}

/// How long tasks take, relative to their estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PaceView {
    /// The median of time over estimate; 1 where too few tasks are complete.
    pub factor: f64,
    /// How many complete tasks there are to learn from.
    pub tasks: usize,
}

/// A forecast for one number of attempts at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ForecastView {
    /// Attempts at once.
    pub jobs: usize,
    /// How long all of it takes.
    pub seconds: u64,
    /// When all of it is complete.
    #[serde(serialize_with = "as_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub done_at: DateTime<Utc>,
    /// The tasks, in the order in which they begin.
    pub tasks: Vec<ForecastTaskView>,
}

/// A task of a forecast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ForecastTaskView {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// When it begins, from now.
    pub start_seconds: u64,
    /// When it ends, from now.
    pub end_seconds: u64,
}

/// A task in the order of one attempt at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How long it takes.
    pub seconds: u64,
}

fn as_time<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    at.to_rfc3339_opts(SecondsFormat::Secs, true).serialize(to)
}

impl PlanView {
    /// A plan for these numbers of attempts at once, or for the usual ones where there is none.
    pub fn of(view: &View<'_>, jobs: Vec<usize>, now: DateTime<Utc>) -> PlanView {
        let pace = PaceView::of(view);
        let length = |number: usize| pace.seconds(view.graph.task(number).minutes);
        let path = view.critical_path(&length, now);
        let most = widest(view, &length, now);
        let jobs: Vec<usize> = if jobs.is_empty() {
            JOBS.into_iter().filter(|jobs| *jobs < most).chain([most]).collect()
        } else {
            jobs
        };
        let forecast =
            |jobs: usize| ForecastView::of(view, jobs, &view.forecast(jobs, &length, now), now);
        let planned = |slot: &Slot| {
            let task = view.graph.task(slot.key.number);
            let (id, title) = (task.id.clone(), task.title_line().to_owned());
            PlannedTask { id, title, seconds: slot.end - slot.start }
        };
        PlanView {
            schema: VERSION,
            critical_path: PathView {
                ids: path.iter().map(|number| view.graph.task(*number).id.clone()).collect(),
                seconds: path.iter().map(|number| length(*number)).sum(),
            },
            pace,
            enough_jobs: most,
            forecasts: jobs.into_iter().map(forecast).collect(),
            order: view.forecast(1, &length, now).slots.iter().map(planned).collect(),
        }
    }
}

impl ForecastView {
    /// A forecast of the selection for this number of attempts at once, from this time on.
    pub fn of(
        view: &View<'_>,
        jobs: usize,
        forecast: &Forecast,
        now: DateTime<Utc>,
    ) -> ForecastView {
        let seconds = i64::try_from(forecast.end).unwrap_or(i64::MAX);
        let longest = TimeDelta::days(36_500);
        let task = |slot: &Slot| ForecastTaskView {
            id: view.graph.task(slot.key.number).id.clone(),
            start_seconds: slot.start,
            end_seconds: slot.end,
        };
        ForecastView {
            jobs,
            seconds: forecast.end,
            done_at: now + TimeDelta::try_seconds(seconds).unwrap_or(longest).min(longest),
            tasks: forecast.slots.iter().map(task).collect(),
        }
    }
}

impl PaceView {
    /// Compares the attempts at the complete tasks with their estimates.
    pub fn of(view: &View<'_>) -> PaceView {
        let factor = |task: &Task| {
            let past = view.history.of(&task.id);
            let is_complete =
                past.last.as_ref().is_some_and(|last| last.verdict == Verdict::Complete);
            let estimate = f64::from(task.minutes) * 60.0;
            is_complete.then(|| past.spend.duration_seconds / estimate)
        };
        let mut factors: Vec<f64> = view.graph.tasks().iter().filter_map(factor).collect();
        factors.sort_by(f64::total_cmp);
        let tasks = factors.len();
        let factor = if tasks < ENOUGH { 1.0 } else { factors[tasks / 2] };
        PaceView { factor, tasks }
    }

    /// Whether enough tasks are complete for the factor to mean something.
    pub fn is_known(&self) -> bool {
        self.tasks >= ENOUGH
    }

    /// The length to expect of a task with this estimate.
    pub fn seconds(&self, minutes: u32) -> u64 {
        let seconds = f64::from(minutes) * 60.0 * self.factor;
        #[expect(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "both factors are positive"
        )]
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
