//! The forecast of a run: its rest is played many times in virtual time, with the real decisions.
//! The results of attempts are drawn from the newest ones of this repository.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    agents::transcript::Usage,
    dice::Dice,
    event::{AttemptEvent, AttemptResult, Begun, Event, RunEvent, StopReason, record::Record},
    graph::{TaskGraph, task::Status},
    history::{AttemptSample, History},
    outcome::Outcome,
    select::{Active, Decision, Policy, Turn, View, default_iterations},
    spend::{Budget, Spend},
    verdict::Verdict,
};

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnAttempt {
    /// From its start until its work is queued to land, or until it ends without.
    pub work: TimeDelta,
    /// From then until it ends.
    pub queue: TimeDelta,
    /// How it ends.
    pub verdict: Verdict,
    /// Its usage.
    pub usage: Usage,
}

/// Draws the next attempt at a task, by its number and the name of its agent.
type Draw<'a> = dyn FnMut(usize, Option<&str>) -> DrawnAttempt + 'a;

/// A possible course of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedNight {
    /// When it ends.
    pub ends_at: DateTime<Utc>,
    /// Why it ends; none if it lasts longer than [`HORIZON`].
    pub why: Option<StopReason>,
    /// The tasks that it completes, with the times.
    pub done: Vec<(usize, DateTime<Utc>)>,
    /// The usage of its attempts, with those that have ended already.
    pub spend: Spend,
}

/// A task in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedTask {
    /// The task.
    pub number: usize,
    /// When it starts.
    pub starts_at: DateTime<Utc>,
    /// When it ends.
    pub ends_at: DateTime<Utc>,
}

/// The longest forecast of a run.
pub const HORIZON: TimeDelta = TimeDelta::days(14);

/// An attempt that is open while a night is played.
struct PlayedAttempt {
    number: usize,
    agent: Option<String>,
    attempt: u32,
    queued_at: DateTime<Utc>,
    ends_at: DateTime<Utc>,
    drawn: DrawnAttempt,
}

/// A night while it is played.
struct Play<'a> {
    view: View<'a>,
    graph: TaskGraph,
    history: History,
    now: DateTime<Utc>,
    open: Vec<PlayedAttempt>,
    started: Vec<OrderedTask>,
    done: Vec<(usize, DateTime<Utc>)>,
}

/// Returns the history once a run has started now; unchanged if one is in progress.
pub fn begun(view: &View<'_>, goes_on: bool, now: DateTime<Utc>) -> History {
    let mut history = view.history.clone();
    if !goes_on {
        let max_iterations = view.policy.max_iterations.unwrap_or(default_iterations(view));
        history.apply(&Record {
            timestamp: now,
            run_id: "foreseen".to_owned(),
            seq: 0,
            iteration: None,
            task_id: None,
            event: RunEvent::LoopStarted(Begun { max_iterations, ..Begun::default() }).into(),
        });
    }
    history
}

/// Returns the tasks that have not started, at most `most`, in the order a run takes them if every
/// attempt succeeds and no limit ends it. `length` returns the length of the attempt at a task.
pub fn order(
    view: &View<'_>,
    goes_on: bool,
    now: DateTime<Utc>,
    most: usize,
    length: &dyn Fn(usize) -> TimeDelta,
) -> Vec<OrderedTask> {
    let policy = Policy {
        wait: false,
        once: false,
        stop: None,
        max_iterations: None,
        budget: Budget::default(),
        ..view.policy.clone()
    };
    let view = View { policy: &policy, ..*view };
    let mut history = begun(&view, goes_on, now);
    history.run.begun.max_iterations = u32::MAX;
    history.paused = false;
    let draw: &mut Draw<'_> = &mut |number, _| DrawnAttempt {
        work: length(number),
        queue: TimeDelta::zero(),
        verdict: Verdict::Complete,
        usage: Usage::default(),
    };
    let mut play = Play::of(&View { history: &history, ..view }, now, draw);
    play.go_on(DateTime::<Utc>::MAX_UTC, most, draw);
    play.started
}

/// Returns the longest chain of open tasks that a run is to do, by their estimates.
pub fn longest_chain(view: &View<'_>) -> Vec<usize> {
    let is_open = |number: &usize| !view.graph.task(*number).status.is_over();
    let longest = |numbers: &mut dyn Iterator<Item = usize>| {
        numbers.filter(is_open).min_by_key(|number| (view.keys[*number].chain, *number))
    };
    let mut chain: Vec<usize> = longest(&mut view.admitted()).into_iter().collect();
    while let Some(last) = chain.last()
        && let Some(next) = longest(&mut view.graph.dependents(*last))
    {
        chain.push(next);
    }
    chain
}

/// Plays the rest of the run that the history has, from `now` on.
pub fn play(view: &View<'_>, now: DateTime<Utc>, draw: &mut Draw<'_>) -> PlayedNight {
    let mut play = Play::of(view, now, draw);
    let why = play.go_on(now + HORIZON, usize::MAX, draw);
    let spend = play.history.run.spend;
    let Play { now: ends_at, done, .. } = play;
    PlayedNight { ends_at, why, done, spend }
}

impl<'a> Play<'a> {
    fn of(view: &View<'a>, now: DateTime<Utc>, draw: &mut Draw<'_>) -> Play<'a> {
        let (graph, history) = (view.graph.clone(), view.history.clone());
        let mut play = Play {
            view: *view,
            graph,
            history,
            now,
            open: Vec::new(),
            started: Vec::new(),
            done: Vec::new(),
        };
        play.take_over(draw);
        play
    }

    /// Plays until `until`, or until `most` attempts have started, and returns why the run has
    /// ended, if it has.
    fn go_on(
        &mut self,
        until: DateTime<Utc>,
        most: usize,
        draw: &mut Draw<'_>,
    ) -> Option<StopReason> {
        /// More steps per task than any run takes.
        const STEPS: usize = 200;
        for _ in 0..STEPS * (self.graph.tasks().len() + 1) {
            if self.now >= until || self.started.len() >= most {
                break;
            }
            match self.decide() {
                Decision::Stop(why) => return Some(why),
                Decision::Start(key) => self.start(key.number, draw),
                Decision::Wait(wait) if self.wait(wait.until) => {}
                Decision::Wait(_) => return None,
            }
        }
        None
    }

    fn decide(&self) -> Decision {
        self.with_view(|view| view.decide(self.now))
    }

    /// The number of queued attempts beyond `jobs`, which keep others from starting, is at work as in
    /// [`crate::run::Run::open_work`].
    fn with_view<T>(&self, read: impl FnOnce(&View<'_>) -> T) -> T {
        let mut waiting = 0;
        let active: Vec<Active<'_>> = self
            .open
            .iter()
            .map(|open| {
                let queued = open.queued_at <= self.now && open.queued_at < open.ends_at;
                waiting += usize::from(queued);
                Active {
                    number: Some(open.number),
                    agent: open.agent.as_deref(),
                    works: !queued || waiting >= self.view.policy.jobs,
                }
            })
            .collect();
        let (graph, history) = (&self.graph, &self.history);
        read(&View { graph, history, active: &active, ..self.view })
    }

    /// The attempts open at the start. Their drawn lengths exceed the time they have taken.
    fn take_over(&mut self, draw: &mut Draw<'_>) {
        /// How often an attempt is drawn that would have ended already.
        const DRAWS: usize = 20;
        for active in self.view.active {
            let Some(number) = active.number else { continue };
            let id = &self.graph.task(number).id;
            let attempt = self.history.of(id).attempts;
            let open = self.history.active.of(id);
            let since = open.map_or(self.now, |open| open.since);
            let queued_at = open.and_then(|open| open.queued_at);
            let from = queued_at.unwrap_or(since);
            let ran = self.now - from;
            let length = |drawn: &DrawnAttempt| {
                if queued_at.is_some() { drawn.queue } else { drawn.work }
            };
            let mut drawn = draw(number, active.agent);
            for _ in 0..DRAWS {
                if length(&drawn) > ran {
                    break;
                }
                drawn = draw(number, active.agent);
            }
            let left = (length(&drawn) - ran).max(ran / 4);
            let (works_on, ends_at) = match queued_at {
                Some(at) => (at, self.now + left),
                None => (self.now + left, self.now + left + drawn.queue),
            };
            let agent = active.agent.map(str::to_owned);
            let open =
                PlayedAttempt { number, agent, attempt, queued_at: works_on, ends_at, drawn };
            self.open.push(open);
        }
    }

    /// Starts an attempt.
    fn start(&mut self, number: usize, draw: &mut Draw<'_>) {
        let agent = self.with_view(|view| match view.agent(number, self.now) {
            Turn::Now(Some(call)) => Some(call.name.clone()),
            Turn::Now(None) | Turn::Busy(_) | Turn::Later(_) | Turn::Never => None,
        });
        let attempt = self.history.of(&self.graph.task(number).id).attempts + 1;
        self.apply(number, AttemptEvent::started(attempt).into());
        let drawn = draw(number, agent.as_deref());
        let queued_at = self.now + drawn.work;
        let ends_at = queued_at + drawn.queue;
        self.started.push(OrderedTask { number, starts_at: self.now, ends_at });
        self.open.push(PlayedAttempt { number, agent, attempt, queued_at, ends_at, drawn });
    }

    /// Waits for the next change, at most until then. Returns false if nothing will change.
    fn wait(&mut self, until: Option<DateTime<Utc>>) -> bool {
        let steps = self.open.iter().flat_map(|open| [open.queued_at, open.ends_at]);
        let end = self.view.policy.budget.ends_at(self.history.run.started_at);
        let next = steps.chain(until).chain(end).filter(|at| *at > self.now).min();
        // A step that takes no time has been made.
        let ends_now = self.open.iter().any(|open| open.ends_at <= self.now);
        let Some(next) = next.filter(|_| !ends_now).or(ends_now.then_some(self.now)) else {
            return false;
        };
        self.now = next;
        let is_cut = end.is_some_and(|end| end <= next);
        self.open.sort_by_key(|open| (open.ends_at, open.number));
        // A run handles ended attempts one by one; its own end cuts off all that work.
        let over = self.open.iter().filter(|open| open.ends_at <= next).count().min(1);
        let over = if is_cut { self.open.len() } else { over };
        for mut open in self.open.drain(..over).collect::<Vec<_>>() {
            if open.ends_at > next {
                open.drawn.verdict = Verdict::Interrupted;
            }
            self.end(open);
        }
        true
    }

    fn end(&mut self, open: PlayedAttempt) {
        let PlayedAttempt { number, agent, attempt, drawn, .. } = open;
        if drawn.verdict == Verdict::Complete {
            self.graph.set_status(number, Status::Complete);
            self.done.push((number, self.now));
        }
        let outcome = Outcome::Exited { exit_code: 0 };
        let result = AttemptResult {
            duration_seconds: (drawn.work + drawn.queue).as_seconds_f64(),
            usage: drawn.usage,
            agent,
            ..AttemptResult::new(attempt, drawn.verdict, outcome)
        };
        self.apply(number, Event::Ended(result));
    }

    fn apply(&mut self, number: usize, event: Event) {
        let run = &self.history.run;
        self.history.apply(&Record {
            timestamp: self.now,
            run_id: run.id.clone(),
            seq: 0,
            iteration: Some(run.next_iteration()),
            task_id: Some(self.graph.task(number).id.clone()),
            event,
        });
    }
}

/// The newest attempts of a repository, relative to the estimates of their tasks.
#[derive(Clone, Debug)]
pub struct AttemptLaw<'a> {
    /// Each with the estimate of its task, in seconds.
    samples: Vec<(&'a AttemptSample, f64)>,
}

/// How many attempts there were, and how many of them completed their tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Odds {
    all: f64,
    good: f64,
}

impl Odds {
    fn add(&mut self, is_good: bool) {
        self.all += 1.0;
        self.good += if is_good { 1.0 } else { 0.0 };
    }

    /// The share of the next attempts that complete their tasks. `assumed` counts as `weight`
    /// attempts.
    fn part(self, assumed: f64, weight: f64) -> f64 {
        (assumed * weight + self.good) / (weight + self.all)
    }
}

/// The odds of the next attempts: those of all agents are assumed of each agent, and those of an agent of
/// each of its tasks. The attempts of a night count like those before it, so nights differ as much as so few
/// attempts can mislead, and a task that failed is likely to fail again.
#[derive(Clone, Debug, Default)]
struct AttemptOdds {
    all: Odds,
    of_agents: Vec<(Option<String>, Odds)>,
    /// By the number of a task and the place of an agent above.
    of_tries: HashMap<(usize, usize), Odds>,
}

impl AttemptOdds {
    fn place(&mut self, agent: Option<&str>) -> usize {
        let known = self.of_agents.iter().position(|(name, _)| name.as_deref() == agent);
        known.unwrap_or_else(|| {
            self.of_agents.push((agent.map(str::to_owned), Odds::default()));
            self.of_agents.len() - 1
        })
    }

    fn part(&mut self, number: usize, agent: Option<&str>) -> f64 {
        let place = self.place(agent);
        let all = self.all.part(ASSUMED, 1.0);
        let of_agent = self.of_agents[place].1.part(all, OF_AGENT);
        let tries = self.of_tries.get(&(number, place)).copied().unwrap_or_default();
        tries.part(of_agent, OF_TASK)
    }

    /// Only the first attempt of an agent at a task counts for its other tasks.
    fn add(&mut self, number: usize, agent: Option<&str>, is_good: bool) {
        let place = self.place(agent);
        let tries = self.of_tries.entry((number, place)).or_default();
        if tries.all == 0.0 {
            self.all.add(is_good);
            self.of_agents[place].1.add(is_good);
        }
        tries.add(is_good);
    }
}

/// One guess at the causes behind the attempts of a repository.
struct GuessedLaw<'a> {
    /// As many attempts as there are, drawn with repetition.
    samples: Vec<(&'a AttemptSample, f64)>,
    odds: AttemptOdds,
    /// How long attempts take relative to the estimate, where none has ended.
    pace: f64,
}

/// The part of attempts that is assumed to succeed; that weighs one attempt.
const ASSUMED: f64 = 0.8;
/// How many attempts of an agent weigh as much as the odds of all agents.
const OF_AGENT: f64 = 2.0;
/// How many attempts at a task weigh as much as the odds of their agent.
const OF_TASK: f64 = 4.0;

impl<'a> AttemptLaw<'a> {
    /// The law from the history of the graph's tasks.
    pub fn of(view: &View<'a>) -> AttemptLaw<'a> {
        let tells = |it: &&AttemptSample| {
            it.verdict == Verdict::Complete
                || it.verdict == Verdict::NeedsInput
                || it.verdict.counts() && it.verdict != Verdict::SetupFailed
        };
        let estimated = |it: &'a AttemptSample| {
            let task = view.graph.number(&it.task_id).map(|number| view.graph.task(number))?;
            Some((it, f64::from(task.minutes) * 60.0))
        };
        AttemptLaw {
            samples: view.history.samples.iter().filter(tells).filter_map(estimated).collect(),
        }
    }

    /// The number of attempts that it is based on.
    pub fn known(&self) -> usize {
        self.samples.len()
    }

    /// How long attempts that complete their tasks take relative to the estimates, in the middle; none if
    /// there are none.
    pub fn pace(&self) -> Option<f64> {
        let done = self.samples.iter().filter(|(it, _)| it.verdict == Verdict::Complete);
        let mut paces: Vec<f64> =
            done.map(|(it, its)| (it.work_seconds + it.queue_seconds) / its).collect();
        paces.sort_by(f64::total_cmp);
        paces.get(paces.len() / 2).copied()
    }

    /// Plays the rest of a run `count` times.
    pub fn nights(&self, view: &View<'_>, now: DateTime<Utc>, count: usize) -> Vec<PlayedNight> {
        let mut dice = Dice(view.history.run.iterations.into());
        let odds = self.odds(view);
        let mut night = || {
            let mut law = self.guess(odds.clone(), &mut dice);
            play(view, now, &mut |number, agent| {
                let estimate = f64::from(view.graph.task(number).minutes) * 60.0;
                law.draw((number, agent), estimate, &mut dice)
            })
        };
        (0..count).map(|_| night()).collect()
    }

    /// The odds by the attempts that have ended. Those at a task before its last reset say nothing more
    /// about it.
    fn odds(&self, view: &View<'_>) -> AttemptOdds {
        let mut odds = AttemptOdds::default();
        for (sample, _) in &self.samples {
            let Some(number) = view.graph.number(&sample.task_id) else { continue };
            odds.add(number, sample.agent.as_deref(), sample.verdict == Verdict::Complete);
        }
        let has_failed = |number: usize| view.history.of(&view.graph.task(number).id).counted > 0;
        odds.of_tries.retain(|(number, _), _| has_failed(*number));
        odds
    }

    fn guess(&self, odds: AttemptOdds, dice: &mut Dice) -> GuessedLaw<'a> {
        let count = self.samples.len();
        let samples = (0..count).map(|_| self.samples[dice.below(count)]).collect();
        // Between a tenth of the estimate and all of it.
        GuessedLaw { samples, odds, pace: 10_f64.powf(-dice.part()) }
    }
}

impl<'a> GuessedLaw<'a> {
    fn draw(
        &mut self,
        (number, agent): (usize, Option<&str>),
        estimate: f64,
        dice: &mut Dice,
    ) -> DrawnAttempt {
        let length = |seconds: f64| TimeDelta::milliseconds((seconds * 1000.0) as i64);
        let is_good = dice.part() < self.odds.part(number, agent);
        let Some((sample, its)) = self.like(agent, is_good, dice) else {
            let spread = 0.5 + dice.part();
            return DrawnAttempt {
                work: length(estimate * self.pace * spread),
                queue: TimeDelta::zero(),
                verdict: Verdict::Complete,
                usage: Usage::default(),
            };
        };
        self.odds.add(number, agent, is_good);
        let verdict = match is_good {
            true => Verdict::Complete,
            false if sample.verdict == Verdict::Complete => Verdict::Incomplete,
            false => sample.verdict,
        };
        // Another agent has other prices.
        let (cost_usd, tokens) =
            if is_by(sample, agent) { (sample.cost_usd, sample.tokens) } else { (None, None) };
        DrawnAttempt {
            work: length(sample.work_seconds / its * estimate),
            queue: length(sample.queue_seconds),
            verdict,
            usage: Usage { cost_usd, tokens, ..Usage::default() },
        }
    }

    /// An attempt of the same agent with the same end, or the nearest match.
    fn like(
        &self,
        agent: Option<&str>,
        is_good: bool,
        dice: &mut Dice,
    ) -> Option<(&'a AttemptSample, f64)> {
        let kinds = [(true, true), (true, false), (false, true), (false, false)];
        kinds.into_iter().find_map(|(of_agent, of_end)| {
            let is_like = |(it, _): &&(&AttemptSample, f64)| {
                (!of_agent || is_by(it, agent))
                    && (!of_end || is_good == (it.verdict == Verdict::Complete))
            };
            let found = || self.samples.iter().filter(is_like);
            found().nth(dice.below(found().count())).copied()
        })
    }
}

/// Whether an attempt may be one of this agent.
fn is_by(sample: &AttemptSample, agent: Option<&str>) -> bool {
    agent.is_none() || sample.agent.is_none() || sample.agent.as_deref() == agent
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use std::{env, mem, time::Duration};

    use super::*;
    use crate::{
        agents::agent_command::AgentCommand,
        event::{Begun, RunEvent},
        graph::task::{Task, TaskId},
        samples::{record, task},
        select::{Policy, keys, roster::Roster},
        spend::Budget,
    };

    /// The laws of a repository, which a forecast has to find out: how long attempts take and how much
    /// they differ, how many succeed, and what they cost.
    struct TrueLaw {
        pace: f64,
        spread: f64,
        succeeds: u64,
        queue: f64,
        cost: f64,
        /// Whether half of the tasks are hard, and the others easy.
        is_uneven: bool,
    }

    impl TrueLaw {
        fn any(dice: &mut Dice) -> TrueLaw {
            TrueLaw {
                pace: 0.1 + dice.part() * 0.5,
                spread: 0.2 + dice.part() * 0.4,
                succeeds: 75 + dice.roll() % 25,
                queue: dice.part() * 120.0,
                cost: 0.2 + dice.part(),
                is_uneven: dice.chance(50),
            }
        }

        fn draw(&self, number: usize, minutes: u32, dice: &mut Dice) -> DrawnAttempt {
            let succeeds = match self.is_uneven {
                true if number.is_multiple_of(2) => 100,
                true => 2 * self.succeeds - 100,
                false => self.succeeds,
            };
            let normal = (0..12).map(|_| dice.part()).sum::<f64>() - 6.0;
            let length = f64::from(minutes) * 60.0 * self.pace * (normal * self.spread).exp();
            let seconds = |seconds: f64| TimeDelta::milliseconds((seconds * 1000.0) as i64);
            let is_complete = dice.chance(succeeds);
            DrawnAttempt {
                work: seconds(length),
                queue: seconds(self.queue * dice.part()),
                verdict: if is_complete { Verdict::Complete } else { Verdict::VerifyFailed },
                usage: Usage {
                    cost_usd: Some(self.cost * (0.5 + dice.part())),
                    ..Usage::default()
                },
            }
        }
    }

    /// A repository before a night: its graph, the policy, and the history of an earlier night with
    /// other tasks.
    fn any_repository(law: &TrueLaw, dice: &mut Dice) -> (TaskGraph, Policy, History) {
        let count = 24 + dice.below(73);
        let mut tasks: Vec<Task> = (0..2 * count).map(|n| task(&format!("t{n}"))).collect();
        for task in &mut tasks {
            task.minutes = [30, 60, 120][dice.below(3)];
        }
        let mut edges = Vec::new();
        for to in 1..count {
            edges.extend(dice.chance(60).then(|| (dice.below(to), to)));
        }
        let mut history = History::default();
        history.apply(&record("t0", -100_000, RunEvent::LoopStarted(Begun::default())));
        let earlier = 40 + dice.below(count - 20);
        for (at, task) in tasks[count..][..earlier.min(count)].iter_mut().enumerate() {
            let (number, at) = (at, i64::try_from(at).unwrap() * 1000 - 100_000);
            attempted(&mut history, (number, &task.id), task.minutes, at, law, dice);
            task.status = Status::Complete;
        }
        for task in &mut tasks[count..] {
            task.status = Status::Complete;
        }
        let attempts = count as f64 / (law.succeeds as f64 / 100.0);
        let some = |dice: &mut Dice| 0.3 + 1.2 * dice.part();
        #[expect(clippy::cast_sign_loss, reason = "the number is positive")]
        let whole = |number: f64| number as u32 + 1;
        let policy = Policy {
            jobs: 1 + dice.below(6),
            max_iterations: dice.chance(30).then(|| whole(attempts * some(dice))),
            budget: Budget {
                cost: dice.chance(30).then(|| attempts * law.cost * some(dice)),
                ..Budget::default()
            },
            ..Policy::default()
        };
        (TaskGraph::new(tasks, edges).unwrap(), policy, history)
    }

    /// Journals attempts at a task until one completes it.
    fn attempted(
        history: &mut History,
        (number, id): (usize, &TaskId),
        minutes: u32,
        at: i64,
        law: &TrueLaw,
        dice: &mut Dice,
    ) {
        for attempt in 1.. {
            let drawn = law.draw(number, minutes, dice);
            history.apply(&record(id.as_str(), at, crate::samples::started(attempt)));
            history.active.with(Some(id), |open| open.has_agent = true);
            let queued = at + drawn.work.num_seconds();
            history.active.with(Some(id), |open| {
                open.queued_at = DateTime::from_timestamp(queued, 0);
            });
            let result = AttemptResult {
                usage: drawn.usage,
                ..AttemptResult::new(attempt, drawn.verdict, Outcome::Exited { exit_code: 0 })
            };
            let end = queued + drawn.queue.num_seconds();
            history.apply(&record(id.as_str(), end, Event::Ended(result)));
            if drawn.verdict == Verdict::Complete {
                return;
            }
        }
    }

    /// How forecasts of nights came true, in parts of all nights.
    #[derive(Debug, Default)]
    struct Truth {
        nights: usize,
        /// The most likely reason was the reason.
        right: usize,
        /// The reason was one of those with a share of a tenth.
        said: usize,
        /// The middle of the forecast was within 15 % of the time that it took.
        near: usize,
        /// The time was within the range of eight in ten.
        within: usize,
        /// After a quarter of the night, the middle was within 20 % of the time that was left.
        near_later: usize,
    }

    fn compare(truth: &mut Truth, nights: &[PlayedNight], night: &PlayedNight, now: DateTime<Utc>) {
        let kind = |night: &PlayedNight| night.why.as_ref().map(mem::discriminant);
        let share = |one: &PlayedNight| nights.iter().filter(|it| kind(it) == kind(one)).count();
        let most = nights.iter().max_by_key(|one| share(one)).unwrap();
        let mut lengths: Vec<f64> =
            nights.iter().map(|it| (it.ends_at - now).as_seconds_f64()).collect();
        lengths.sort_by(f64::total_cmp);
        let took = (night.ends_at - now).as_seconds_f64();
        truth.nights += 1;
        truth.right += usize::from(kind(most) == kind(night));
        truth.said += usize::from(share(night) * 10 >= nights.len());
        truth.near += usize::from((lengths[lengths.len() / 2] / took - 1.0).abs() <= 0.15);
        let (low, high) = (lengths.len() / 10, lengths.len() * 9 / 10);
        truth.within += usize::from((lengths[low]..=lengths[high]).contains(&took));
    }

    /// Foresees the rest of a night once a quarter of it is over.
    fn is_near_after_a_quarter(
        view: &View<'_>,
        law: &TrueLaw,
        now: DateTime<Utc>,
        seed: u64,
    ) -> bool {
        let took = |until: DateTime<Utc>| {
            let mut dice = Dice(seed + 1);
            let mut draw = |number: usize, _: Option<&str>| {
                law.draw(number, view.graph.task(number).minutes, &mut dice)
            };
            let mut play = Play::of(view, now, &mut draw);
            play.go_on(until, usize::MAX, &mut draw);
            play
        };
        let end = took(now + HORIZON).now;
        let play = took(now + (end - now) / 4);
        let mut history = play.history.clone();
        for open in &play.open {
            let id = &view.graph.task(open.number).id;
            let queued = Some(open.queued_at).filter(|at| *at <= play.now);
            history.active.with(Some(id), |active| active.queued_at = queued);
        }
        let active: Vec<Active<'_>> = play
            .open
            .iter()
            .map(|open| Active {
                number: Some(open.number),
                agent: None,
                works: open.queued_at > play.now,
            })
            .collect();
        let view = View { graph: &play.graph, history: &history, active: &active, ..*view };
        let mut left: Vec<f64> = AttemptLaw::of(&view)
            .nights(&view, play.now, 60)
            .iter()
            .map(|it| (it.ends_at - play.now).as_seconds_f64())
            .collect();
        left.sort_by(f64::total_cmp);
        let came = (end - play.now).as_seconds_f64();
        (left[left.len() / 2] / came - 1.0).abs() <= 0.2
    }

    #[test]
    fn the_time_limit_of_a_run_ends_its_attempts() {
        let tasks = ["a", "b", "c"].map(task).to_vec();
        let graph = TaskGraph::new(tasks, Vec::new()).unwrap();
        let mut history = History::default();
        history.apply(&record("a", 0, RunEvent::LoopStarted(Begun::default())));
        let hour = |hours: u64| Duration::from_secs(3600 * hours);
        let drawn = DrawnAttempt {
            work: TimeDelta::hours(2),
            queue: TimeDelta::zero(),
            verdict: Verdict::Complete,
            usage: Usage::default(),
        };
        // Of attempts of two hours: the limit, when the run ends, and how many tasks are done.
        for (limit, ends_at, done) in [(None, 6, 3), (Some(3), 3, 1), (Some(7), 6, 3)] {
            let budget = Budget { duration: limit.map(hour), ..Budget::default() };
            let policy = Policy { budget, ..Policy::default() };
            let (keys, now) = (keys(&graph), DateTime::UNIX_EPOCH);
            let view = View {
                graph: &graph,
                keys: &keys,
                history: &history,
                policy: &policy,
                active: &[],
            };
            let night = play(&view, now, &mut |_, _| drawn.clone());
            assert_eq!(night.ends_at, now + TimeDelta::hours(ends_at), "{limit:?}");
            assert_eq!(night.done.len(), done, "{limit:?}");
            let is_limit = matches!(night.why, Some(StopReason::Limit(_)));
            assert_eq!(is_limit, done < 3, "{:?}", night.why);
        }
    }

    /// The forecast of tasks of one hour after these attempts: the numbers of their tasks, their agents
    /// and whether they completed them.
    fn after(
        count: usize,
        (policy, attempts): (&Policy, &[(usize, &str, bool)]),
        check: impl Fn(&View<'_>, &[PlayedNight]),
    ) {
        let mut tasks: Vec<Task> = (0..count).map(|n| task(&format!("t{n}"))).collect();
        let mut history = History::default();
        history.apply(&record("t0", 0, RunEvent::LoopStarted(Begun::default())));
        for (at, (number, agent, is_good)) in (1..).zip(attempts) {
            let id = tasks[*number].id.clone();
            let verdict = if *is_good { Verdict::Complete } else { Verdict::Incomplete };
            let attempt = history.of(&id).attempts + 1;
            let cost = if *agent == "strong" { 5.0 } else { 0.5 };
            history.apply(&record(id.as_str(), at * 60, crate::samples::started(attempt)));
            history.active.with(Some(&id), |open| open.has_agent = true);
            let result = AttemptResult {
                agent: Some((*agent).to_owned()),
                usage: Usage { cost_usd: Some(cost), ..Usage::default() },
                ..AttemptResult::new(attempt, verdict, Outcome::Exited { exit_code: 0 })
            };
            history.apply(&record(id.as_str(), at * 60 + 50, Event::Ended(result)));
            if *is_good {
                tasks[*number].status = Status::Complete;
            }
        }
        let begun = Begun { max_iterations: 500, ..Begun::default() };
        history.apply(&record("t0", 10_000, RunEvent::LoopStarted(begun)));
        let graph = TaskGraph::new(tasks, Vec::new()).unwrap();
        let keys = keys(&graph);
        let view = View { graph: &graph, keys: &keys, history: &history, policy, active: &[] };
        let now = DateTime::from_timestamp(10_000, 0).unwrap();
        check(&view, &AttemptLaw::of(&view).nights(&view, now, 100));
    }

    fn complete(nights: &[PlayedNight]) -> usize {
        nights.iter().filter(|it| it.why == Some(StopReason::Complete)).count()
    }

    #[test]
    fn what_always_failed_is_not_expected_to_be_done() {
        let policy = Policy { max_failures: 5, ..Policy::default() };
        let all = |is_good| (0..5).map(|number| (number, "fast", is_good)).collect::<Vec<_>>();
        after(10, (&policy, &all(false)), |_, nights| {
            assert!(complete(nights) < 20, "{}", complete(nights));
        });
        after(10, (&policy, &all(true)), |_, nights| {
            assert!(complete(nights) > 80, "{}", complete(nights));
        });
        // One hard task is weak evidence about the others.
        let hard = [(0, "fast", false), (0, "fast", false)];
        let mut attempts = all(true);
        attempts.extend([(5, "fast", false), (5, "fast", false)]);
        after(10, (&policy, &attempts), |view, _| {
            let mut odds = AttemptLaw::of(view).odds(view);
            let (again, other) = (odds.part(5, Some("fast")), odds.part(6, Some("fast")));
            assert!(again < 0.6 && other > 0.75, "{again} {other}");
        });
        after(2, (&policy, &hard), |view, _| {
            let mut odds = AttemptLaw::of(view).odds(view);
            assert!(odds.part(0, Some("fast")) < odds.part(1, Some("fast")));
        });
    }

    #[test]
    fn each_agent_of_a_ladder_has_its_own_odds_and_prices() {
        let named = ["fast", "strong"].map(|name| AgentCommand {
            name: name.to_owned(),
            ..AgentCommand::command(vec![name.to_owned()])
        });
        let roster = Roster::new(BTreeMap::new(), BTreeMap::new(), named.to_vec());
        let policy = Policy { roster, max_failures: 0, ..Policy::default() };
        let mut attempts = Vec::new();
        for number in 0..20 {
            let is_easy = number % 2 == 0;
            attempts.push((number, "fast", is_easy));
            attempts.extend((!is_easy).then_some((number, "strong", true)));
        }
        after(40, (&policy, &attempts), |_, nights| {
            // All begin with the first rung, and about half of them need another, at ten times the
            // price.
            let all = nights.iter().fold(Spend::default(), |sum, it| sum.plus(&it.spend));
            let (first, strong) = (20 * 100, all.attempts - 20 * 100);
            let cost = f64::from(first) * 0.5 + f64::from(strong) * 5.0;
            assert!((all.cost_usd - cost).abs() < 0.001, "{all:?}");
            assert!((600..1500).contains(&strong), "{strong}");
        });
    }

    #[test]
    fn more_jobs_are_faster_down_to_the_longest_chain() {
        let minutes = [10, 20, 30, 5, 5];
        let named = |n: usize| Task { minutes: minutes[n], ..task(&format!("t{n}")) };
        let graph = TaskGraph::new((0..5).map(named).collect(), vec![(0, 1), (1, 2)]).unwrap();
        let (keys, history) = (keys(&graph), History::default());
        let length = |number: usize| TimeDelta::minutes(minutes[number].into());
        let now = DateTime::from_timestamp(0, 0).unwrap();
        for (jobs, most, end, count) in
            [(1, usize::MAX, 70, 5), (2, usize::MAX, 60, 5), (9, usize::MAX, 60, 5), (1, 2, 30, 2)]
        {
            let policy = Policy { jobs, ..Policy::default() };
            let view = View {
                graph: &graph,
                keys: &keys,
                history: &history,
                policy: &policy,
                active: &[],
            };
            let order = order(&view, false, now, most, &length);
            let last = order.iter().map(|task| task.ends_at).max().unwrap();
            assert_eq!(((last - now).num_minutes(), order.len()), (end, count), "{jobs}");
            assert_eq!(longest_chain(&view), [0, 1, 2]);
        }
    }

    /// `RALPH_NIGHTS=1000 cargo test --release --lib night -- --nocapture` measures more nights.
    #[test]
    fn forecasts_come_true() {
        let count = env::var("RALPH_NIGHTS").map_or(12, |count| count.parse().unwrap());
        let mut truth = Truth::default();
        for seed in 0..count {
            let mut dice = Dice(seed);
            let law = TrueLaw::any(&mut dice);
            let (graph, policy, mut history) = any_repository(&law, &mut dice);
            let begun = Begun { max_iterations: 500, ..Begun::default() };
            history.apply(&record("t0", 0, RunEvent::LoopStarted(begun)));
            let (keys, now) = (keys(&graph), DateTime::UNIX_EPOCH);
            let view = View {
                graph: &graph,
                keys: &keys,
                history: &history,
                policy: &policy,
                active: &[],
            };
            let nights = AttemptLaw::of(&view).nights(&view, now, 60);
            let night = play(&view, now, &mut |number, _| {
                law.draw(number, graph.task(number).minutes, &mut dice)
            });
            compare(&mut truth, &nights, &night, now);
            truth.near_later += usize::from(is_near_after_a_quarter(&view, &law, now, seed));
        }
        println!("{truth:?}");
        let of = |part: usize| part * 100 / truth.nights;
        assert!(of(truth.said) >= 90 && of(truth.near) >= 60, "{truth:?}");
    }
}
