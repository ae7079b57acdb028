//! The night foreseen: what a run that starts now, or goes on, will have done in the morning, when and
//! why it ends, and what it costs.

use std::{collections::BTreeMap, mem};

use chrono::{DateTime, Days, Local, NaiveTime, Utc};
use serde::Serialize;

use super::{
    VERSION,
    words::{counted, few, minute},
};
use crate::core::{
    duration,
    event::{Blocker, StopReason},
    exit::Exit,
    night::{self, AttemptLaw, PlayedNight},
    select::{Policy, View, default_iterations},
    spend::dollars,
};

/// A night foreseen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NightView {
    /// The version of this shape.
    pub schema: u32,
    /// The time from which it is foreseen.
    pub from: DateTime<Utc>,
    /// Whether it is the rest of a run that goes on; if not, a run that starts then.
    pub goes_on: bool,
    /// How many ways were played in which it may go.
    pub played: usize,
    /// How many ended attempts it is learned from.
    pub learned_from: usize,
    /// The number of tasks that are open.
    pub open: usize,
    /// The time until the run ends, in seconds: in half of the cases less.
    pub seconds: f64,
    /// When the run ends.
    pub ends_at: RangeView<DateTime<Utc>>,
    /// The morning, or the end of the run if that is certain to be before.
    pub morning: DateTime<Utc>,
    /// How many tasks it has completed by then in nine of ten cases.
    pub done: usize,
    /// How many more in half of the cases.
    pub likely: usize,
    /// Why it ends, the most frequent first.
    pub reasons: Vec<NightEnd>,
    /// What the run costs, in US dollars; none if no attempt has told its cost.
    pub cost_usd: Option<RangeView<f64>>,
    /// The limit on that, if there is one.
    pub max_cost_usd: Option<f64>,
}

/// What lies between two values in eight of ten cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RangeView<T> {
    /// Less in one of ten cases.
    pub low: T,
    /// Less in half of the cases.
    pub middle: T,
    /// More in one of ten cases.
    pub high: T,
}

/// A way in which the run ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NightEnd {
    /// In what part of the cases, from 0 to 1.
    pub share: f64,
    /// Why it ends.
    pub why: String,
    /// The exit code; none if it goes on for too long to be foreseen.
    pub exit_code: Option<u8>,
    /// What can be done about it now.
    pub remedy: Option<String>,
}

/// From so many ended attempts on, a time is named, and not only a range.
const SURE: usize = 10;

/// An end that is rarer is not named.
const RARE: f64 = 0.1;

impl<T: Copy> RangeView<T> {
    /// The range of these values; none if there are none.
    fn of(
        mut values: Vec<T>,
        order: impl Fn(&T, &T) -> std::cmp::Ordering,
    ) -> Option<RangeView<T>> {
        values.sort_by(order);
        let at = |tenths: usize| values.get(values.len() * tenths / 10).copied();
        Some(RangeView { low: at(1)?, middle: at(5)?, high: at(9)? })
    }

    /// The range in words.
    fn text(&self, word: impl Fn(T) -> String) -> String {
        let (low, high) = (word(self.low), word(self.high));
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// How many nights of so many steps are played; none of those that take too long. A step takes about
/// 100 ns.
fn count_of_nights(steps: usize) -> usize {
    Some(2_000_000 / steps.max(1)).filter(|count| *count >= 3).unwrap_or(0).min(60)
}

impl NightView {
    /// Foresees the rest of the run that goes on, or one that starts now. None if nothing is open, or
    /// if so many tasks are that this takes too long.
    pub fn of(view: &View<'_>, goes_on: bool, now: DateTime<Utc>) -> Option<NightView> {
        let is_open = |number: &usize| !view.graph.task(*number).status.is_over();
        let open = view.admitted().filter(is_open).count();
        let count = count_of_nights(open * view.frontier().count().max(4));
        if open == 0 || count == 0 {
            return None;
        }
        let history = night::begun(view, goes_on, now);
        let freed = view.graph.without_void_claims().filter(|_| !goes_on);
        // What a person does meanwhile cannot be foreseen.
        let policy = Policy { wait: false, ..view.policy.clone() };
        let graph = freed.as_ref().unwrap_or(view.graph);
        let view = &View { graph, history: &history, policy: &policy, ..*view };
        let law = AttemptLaw::of(view);
        let nights = law.nights(view, now, count);
        let ends_at = RangeView::of(nights.iter().map(|it| it.ends_at).collect(), Ord::cmp)?;
        let morning = next_morning(now).min(ends_at.high);
        let mut times = BTreeMap::new();
        for (number, at) in nights.iter().flat_map(|it| &it.done) {
            *times.entry(*number).or_insert(0) += usize::from(*at <= morning);
        }
        let in_part =
            |tenths: usize| times.values().filter(|it| **it * 10 >= count * tenths).count();
        let knows_cost = nights.iter().any(|it| it.spend.cost_usd > 0.0);
        let costs = nights.iter().map(|it| it.spend.assumed_cost()).collect();
        Some(NightView {
            schema: VERSION,
            from: now,
            goes_on,
            played: count,
            learned_from: law.known(),
            open,
            seconds: (ends_at.middle - now).as_seconds_f64(),
            ends_at,
            morning,
            done: in_part(9),
            likely: in_part(5) - in_part(9),
            reasons: reasons(view, &nights, now),
            cost_usd: RangeView::of(costs, f64::total_cmp).filter(|_| knows_cost),
            max_cost_usd: view.policy.budget.cost,
        })
    }

    /// The most frequent reason.
    fn end(&self) -> &NightEnd {
        &self.reasons[0]
    }

    /// Whether it ends with everything done.
    pub fn is_whole(&self) -> bool {
        self.end().exit_code == Some(Exit::Success.code())
    }

    /// What it costs, if that is known.
    pub fn cost_range(&self) -> Option<String> {
        self.cost_usd.map(|it| it.text(dollars))
    }

    /// How much longer the tasks take that are planned from `begin` to `end`: the last of them ends when
    /// the run does, if it does all.
    pub fn stretch(&self, begin: DateTime<Utc>, end: DateTime<Utc>) -> f64 {
        let planned = (end - begin).as_seconds_f64().max(1.0);
        let takes = (self.ends_at.middle - begin).as_seconds_f64().max(0.0);
        if self.is_whole() { takes / planned } else { 1.0 }
    }

    /// When and why it ends.
    fn ending(&self) -> String {
        let why = &self.end().why;
        if !self.is_known() {
            return format!("at a time that is not known before an attempt has ended here: {why}");
        }
        let RangeView { low, middle, high } = self.ends_at;
        let [low, middle, high] = [low, middle, high].map(|time| minute(time, self.from));
        if self.learned_from < SURE {
            return format!("between {low} and {high}: {why}");
        }
        format!("about {middle} ({low} to {high}): {why}")
    }

    /// When it ends, in a few words; none if that is not known, or over.
    pub fn end_in_short(&self, now: DateTime<Utc>) -> Option<String> {
        let verb = if self.is_whole() { "done" } else { "ends" };
        let end = match self.learned_from {
            0 => return None,
            known if known < SURE => self.ends_at.text(|at| minute(at, self.from)),
            _ => minute(self.ends_at.middle, self.from),
        };
        if now < self.ends_at.high {
            return Some(format!("{verb} ≈ {end}"));
        }
        let late = (now - self.ends_at.high).to_std().unwrap_or_default();
        Some(format!("{} longer than expected", duration::short(late)))
    }

    /// What a run now would come to, in one line; none if nothing is known of that.
    pub fn outlook(&self) -> Option<String> {
        self.says_something().then(|| format!("a run now would end {}", self.ending()))
    }

    fn says_something(&self) -> bool {
        self.is_known() || !self.is_whole()
    }

    /// Whether times are more than an assumption about all tasks.
    pub fn is_known(&self) -> bool {
        self.learned_from > 0
    }

    /// It in lines for a person, with what can be done about it.
    pub fn lines(&self) -> Vec<String> {
        let at = |time: DateTime<Utc>| minute(time, self.from);
        let more =
            if self.likely > 0 { format!(", {} more likely", self.likely) } else { String::new() };
        let (done, open, morning) = (self.done, counted(self.open, "open task"), at(self.morning));

        let few = (self.learned_from < SURE).then(|| counted(self.learned_from, "attempt"));
        let learned = few.map_or(String::new(), |few| format!(" (learned from {few} only)"));
        let what = format!("the run will do {done} of {open} by {morning}{more}{learned}");
        let mut lines = Vec::new();
        if self.says_something() {
            lines.push(format!("the run ends {}", self.ending()));
        }
        if self.is_known() {
            lines.insert(0, what);
        }
        lines.extend(self.end().remedy.clone().map(|remedy| format!("  {remedy}")));
        for NightEnd { share, why, remedy, .. } in &self.reasons[1..] {
            let cases = (share * 10.0).round().max(1.0);
            let remedy = remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
            lines.push(format!("in {cases} of 10 cases: {why}{remedy}"));
        }
        if let Some(cost) = self.cost_range() {
            let limit = self.max_cost_usd;
            let limit =
                limit.map_or(String::new(), |limit| format!(" (`max_cost`: {})", dollars(limit)));
            lines.push(format!("the run costs {cost}{limit}"));
        }
        lines
    }
}

/// The time when a person looks: seven o'clock.
fn next_morning(now: DateTime<Utc>) -> DateTime<Utc> {
    let seven = NaiveTime::from_hms_opt(7, 0, 0).expect("a time of day");
    let here = now.with_timezone(&Local);
    let at = |days: u64| {
        let day = here.date_naive().checked_add_days(Days::new(days))?;
        day.and_time(seven).and_local_timezone(Local).earliest()
    };
    let times = [at(0), at(1)].into_iter().flatten().map(|time| time.with_timezone(&Utc));
    times.filter(|time| *time > now).min().unwrap_or(now)
}

/// The ways in which these nights end.
fn reasons(view: &View<'_>, nights: &[PlayedNight], now: DateTime<Utc>) -> Vec<NightEnd> {
    let kind = |night: &PlayedNight| night.why.as_ref().map(mem::discriminant);
    let mut groups: Vec<Vec<&PlayedNight>> = Vec::new();
    for night in nights {
        match groups.iter_mut().find(|group| kind(group[0]) == kind(night)) {
            Some(group) => group.push(night),
            None => groups.push(vec![night]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let end = |group: &Vec<&PlayedNight>| {
        let (why, remedy) = words(view, group[0].why.as_ref(), now);
        NightEnd {
            share: group.len() as f64 / nights.len() as f64,
            why,
            exit_code: group[0].why.as_ref().map(|why| why.exit().code()),
            remedy,
        }
    };
    let mut ends: Vec<NightEnd> = groups.iter().map(end).collect();
    let first = ends.first().map(|end| end.share);
    ends.retain(|end| end.share >= RARE || Some(end.share) == first);
    ends
}

/// Why a night ends, and what can be done about it now, in words.
type EndWords = (String, Option<String>);

/// Why a night ends, and what can be done about it now.
fn words(view: &View<'_>, why: Option<&StopReason>, now: DateTime<Utc>) -> EndWords {
    let Some(why) = why else {
        return ("it goes on for more than two weeks".to_owned(), None);
    };
    match why {
        StopReason::Limit(limit) => {
            let all = default_iterations(view);
            let is_count = view.policy.max_iterations.is_some() && limit.contains("iteration");
            let remedy = is_count.then(|| {
                format!("leave `max_iterations` out, or `--max-iterations {all}`, to reach the end")
            });
            (why.to_string(), remedy)
        }
        StopReason::Blocked(blockers) => {
            let remedy = Some("`max_attempts` in the settings allows more");
            let foreseen = "a task that used up its attempts holds what is left";
            blocked(&view.blockers(now), blockers, foreseen, remedy)
        }
        StopReason::NeedsInput(blockers) => {
            let foreseen = "a question that an agent may ask holds what is left";
            blocked(&view.blockers(now), blockers, foreseen, None)
        }
        StopReason::FailedTasks(tasks) => {
            (format!("{} different tasks failed in a row", tasks.len()), None)
        }
        // A forecast does not call anything complete.
        StopReason::Complete | StopReason::SelectionComplete => ("all is done".to_owned(), None),
        StopReason::Red(_)
        | StopReason::NotProved(_)
        | StopReason::Done { .. }
        | StopReason::Provider { .. }
        | StopReason::Unreachable { .. }
        | StopReason::MergeHeld(_)
        | StopReason::Failures(_)
        | StopReason::StartLimit(_)
        | StopReason::Promised
        | StopReason::Denied(..)
        | StopReason::HookFailed(_)
        | StopReason::BaselineBroken(_)
        | StopReason::BadBase(_)
        | StopReason::Once { .. }
        | StopReason::Paused(_)
        | StopReason::Stopped
        | StopReason::Signal(..) => (why.to_string(), None),
    }
}

/// Which tasks block the rest and need a person now; `foreseen` if some only may, by then.
fn blocked(now: &[Blocker], then: &[Blocker], foreseen: &str, remedy: Option<&str>) -> EndWords {
    let is_then = |it: &&Blocker| then.iter().any(|other| other.task_id == it.task_id);
    let now: Vec<&Blocker> = now.iter().filter(is_then).collect();
    if now.is_empty() {
        return (foreseen.to_owned(), remedy.map(str::to_owned));
    }
    let frees: usize = now.iter().map(|it| it.frees).sum();
    let named = few(now.iter().map(|it| format!("{} ({})", it.task_id, it.why)), 3);
    let verb = if now.len() == 1 { "holds" } else { "hold" };
    let held = counted(frees, "task");
    (format!("{named} {verb} {held}"), Some("`ralph dag-status` says what each needs".to_owned()))
}
