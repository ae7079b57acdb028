//! The newest run of the graph or of a plain loop, and the runs before it.

use std::{path::Path, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    VERSION,
    attempt::AttemptView,
    lines::schedule,
    spend::SpendView,
    waits::{LimitsView, QueueView, UnreachableView, waiting},
    words::{counted, moment},
};
use crate::core::{
    event::PlainLoop,
    graph::task::TaskId,
    history::{History, PastRun, ScheduleState, Waiting},
    loop_paths::LoopPaths,
    select::View,
    variants,
};

/// The newest run of the graph or of a plain loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunView {
    /// The version of this shape.
    pub schema: u32,
    /// The plain loop; none for the run over the graph.
    pub name: Option<TaskId>,
    /// How it stands.
    pub status: Standing,
    /// Whether nothing starts until `ralph resume`.
    pub paused: bool,
    /// Why it ended.
    pub why: Option<String>,
    /// The exit code that it ended with.
    pub exit_code: Option<u8>,
    /// Its id; none before the first run.
    pub run_id: Option<String>,
    /// Its process; none before the first run.
    pub pid: Option<u32>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When the first of the runs began that are reported with it: those since a person looked last.
    pub since: Option<DateTime<Utc>>,
    /// How many runs are reported, with it.
    pub runs: u32,
    /// How many of the earlier ones crashed.
    pub crashed: u32,
    /// How many attempts it has begun, including those of the paused run that it continues.
    pub iteration: u32,
    /// The attempts that have not ended, the oldest first.
    pub attempts: Vec<AttemptView>,
    /// The merge queue.
    pub merge_queue: QueueView,
    /// Failed attempts since the last one that did not fail.
    pub failures_in_a_row: u32,
    /// Failed attempts of the reported runs.
    pub failures: u32,
    /// What it waits for while no attempt can start.
    pub waiting: Option<Waiting>,
    /// The executors that do not answer.
    pub unreachable: Vec<UnreachableView>,
    /// Tasks that the reported runs completed.
    pub completed: u32,
    /// What the attempts of the reported runs used.
    pub spend: SpendView,
    /// Its limits.
    pub limits: LimitsView,
    /// The branch that its work lands on; none if attempts work in the checkout.
    pub branch: Option<String>,
    /// The branch that `--onto` named.
    #[serde(skip)]
    pub onto: Option<String>,
    /// The command line of its first agent.
    pub agent: Vec<String>,
    /// What makes it a plain loop.
    #[serde(rename = "loop")]
    pub plain: Option<LoopView>,
    /// The pattern that ends it.
    pub done_pattern: Option<String>,
    /// The schedule by which runs start, if a process follows one.
    pub schedule: Option<ScheduleView>,
    /// The start that the schedule missed because its process has gone.
    pub missed_start: Option<DateTime<Utc>>,
    /// The runs before it, the newest first; only the last few.
    pub earlier_runs: Vec<PastRunView>,
    /// How long ago it beat last; none where it does not run.
    pub last_beat_seconds: Option<u64>,
    /// The plain loops of the repository.
    #[serde(skip)]
    pub loops: Vec<TaskId>,
    /// Whether a person has looked at its end.
    #[serde(skip)]
    pub seen: bool,
    /// Whether a person stopped it.
    #[serde(skip)]
    pub was_stopped: bool,
}

/// How late a schedule may be: cron asks every minute.
const OVERDUE: TimeDelta = TimeDelta::minutes(2);

/// A plain loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopView {
    /// Its name.
    pub name: TaskId,
    /// The file that is read before each iteration.
    pub prompt_file: std::path::PathBuf,
    /// The pause between an iteration and the next.
    pub restart_delay_seconds: f64,
    /// How many iterations may follow the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
    /// The limit of failures in a row; 0 for no such limit.
    pub max_failures: u32,
    /// Whether its agents work in slots.
    pub isolated: bool,
    /// The ref of its work, if it is isolated and the work has not landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_landed: Option<String>,
}

/// A schedule by which runs start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleView {
    /// Whether it has started a run that has not ended.
    pub awake: bool,
    /// When it starts the next run; none while one goes on, or where it waits for requests.
    pub next_wake: Option<DateTime<Utc>>,
    /// Its cron expressions.
    pub cron: Vec<String>,
    /// The time zone of these; none for that of the machine.
    pub time_zone: Option<String>,
    /// Its process; none where cron starts one each time.
    pub pid: Option<u32>,
}

/// How a run stands, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// There was no run.
    #[default]
    None,
    /// It has not begun: a trial shows whether the checks notice broken code.
    Starting,
    /// It runs.
    Running,
    /// Ctrl-Z stopped its processes.
    Suspended,
    /// It runs, and pauses after the attempt.
    Pausing,
    /// It runs, and stops after the attempt.
    Stopping,
    /// It ended, and nothing starts until `ralph resume`.
    Paused,
    /// It ended.
    Finished,
    /// It exited unexpectedly.
    Crashed,
    /// It runs in another worktree of the repository.
    Elsewhere,
}

/// What the disk tells about a run besides its journal.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// The plain loop; none for the run over the graph.
    pub name: Option<TaskId>,
    /// How it stands, by its lock.
    pub standing: Standing,
    /// How long ago it beat last.
    pub last_beat: Option<Duration>,
    /// Attempts per task.
    pub max_attempts: u32,
    /// The pattern of the settings that ends it.
    pub done_pattern: Option<String>,
    /// The plain loops of the repository.
    pub loops: Vec<TaskId>,
    /// The attempts that have not ended.
    pub attempts: Vec<AttemptView>,
    /// Whether the process of the schedule is alive; none where it has no process.
    pub scheduled: Option<bool>,
}

impl RunView {
    /// The command that shows the run of this number in its place.
    pub fn command_of(&self, number: usize) -> String {
        let name = self.name.as_ref().map_or(String::new(), |name| format!(" --name {name}"));
        format!("`ralph status --run {number}{name}`")
    }

    /// The newest run of a history.
    pub fn of(history: &History, mut facts: RunFacts, now: DateTime<Utc>) -> RunView {
        let live = facts.standing.goes_on();
        facts.attempts.iter_mut().for_each(|it| it.position.note_still(&history.active, live));
        let run = &history.run;
        let begun = &run.begun;
        let flag = begun.flags.get("done_pattern").and_then(Value::as_str).map(str::to_owned);
        let schedule = history.schedule.as_ref();
        let reported = history.reported();
        // The end of the run before is not that of the one that starts.
        let end = run.finished.as_ref().filter(|_| facts.standing != Standing::Starting);
        RunView {
            schema: VERSION,
            status: facts.standing,
            paused: history.paused,
            why: end.map(|(why, _)| why.clone()),
            exit_code: end.map(|(_, code)| *code),
            run_id: (!run.id.is_empty()).then(|| run.id.clone()),
            pid: Some(begun.pid).filter(|pid| *pid > 0),
            started_at: run.started_at,
            since: reported.since,
            runs: reported.runs,
            crashed: run.reported_before().map_or(0, |before| before.crashed),
            iteration: run.iterations,
            attempts: facts.attempts,
            merge_queue: QueueView::of(&history.active),
            failures_in_a_row: run.failures_in_a_row,
            failures: reported.failures,
            waiting: waiting(history, now).filter(|_| facts.standing.is_live()),
            unreachable: UnreachableView::all(history, facts.standing.is_live()),
            completed: reported.completed,
            spend: SpendView::of(&reported.spend),
            limits: LimitsView::of(history, facts.name.is_none().then_some(facts.max_attempts)),
            branch: begun.branch.clone(),
            onto: begun.flags.get("onto").and_then(|it| Some(it.as_str()?.to_owned())),
            agent: begun.agent.clone(),
            plain: begun.plain.as_ref().map(|plain| LoopView::of(plain, history)),
            done_pattern: flag.or(facts.done_pattern),
            schedule: schedule.and_then(|it| ScheduleView::of(it, facts.scheduled, now)),
            missed_start: schedule.and_then(|it| ScheduleView::missed(it, facts.scheduled, now)),
            earlier_runs: PastRunView::all(history),
            last_beat_seconds: facts.last_beat.map(|beat| beat.as_secs()),
            loops: facts.loops,
            seen: run.seen,
            was_stopped: run.stop.is_some(),
            name: facts.name,
        }
    }

    /// The run that this process makes, without what only the disk tells.
    pub fn live(view: &View<'_>, now: DateTime<Utc>) -> RunView {
        let history = view.history;
        let open = history.active.attempts.iter();
        let attempt = |active| AttemptView::of(active, (None, None), Path::new(""), now);
        let facts = RunFacts {
            name: view.policy.plain.as_ref().map(|plain| plain.name.clone()),
            standing: Standing::of(history, true),
            max_attempts: view.policy.max_attempts,
            attempts: open.map(attempt).collect(),
            ..RunFacts::default()
        };
        RunView::of(history, facts, now)
    }

    /// Whether there was no run.
    pub fn is_blank(&self) -> bool {
        self.status == Standing::None
    }

    /// How many attempts the reported runs have begun.
    pub fn attempts_made(&self) -> usize {
        self.spend.attempts as usize + self.attempts.len()
    }

    /// The runs that are reported with it, in words; none if it is reported alone.
    pub fn since_text(&self, now: DateTime<Utc>) -> Option<String> {
        let since = self.since.filter(|_| self.runs > 1)?;
        let crashed = Some(self.crashed).filter(|count| *count > 0);
        let crashed = crashed.map_or(String::new(), |count| format!("; {count} crashed"));
        Some(format!("Since {}: {} runs{crashed}", moment(since, now), self.runs))
    }

    /// How it stands, and what to do next.
    pub fn sentence(&self) -> String {
        let name = self.plain.as_ref().map(|plain| &plain.name);
        self.status.sentence(name, self.paused, self.why.as_deref())
    }

    /// Whether an open attempt goes on; if not, the run ended before it did.
    pub fn goes_on(&self) -> bool {
        self.status.goes_on()
    }
}

/// Returns the ref of the work of an isolated plain loop, if it has not landed.
pub(super) fn work_not_landed(history: &History) -> Option<String> {
    let begun = &history.run.begun;
    let plain = begun.plain.as_ref().filter(|_| begun.is_isolated_loop())?;
    history.of(&plain.name).left.clone()
}

impl LoopView {
    fn of(plain: &PlainLoop, history: &History) -> LoopView {
        LoopView {
            name: plain.name.clone(),
            prompt_file: plain.prompt_file.clone(),
            restart_delay_seconds: plain.restart_delay_seconds,
            max_restarts: plain.max_restarts,
            max_failures: plain.max_failures,
            isolated: history.run.begun.is_isolated_loop(),
            not_landed: work_not_landed(history),
        }
    }
}

impl ScheduleView {
    /// The schedule of a history, if its process is alive or cron asked not long ago.
    fn of(
        schedule: &ScheduleState,
        alive: Option<bool>,
        now: DateTime<Utc>,
    ) -> Option<ScheduleView> {
        let slept = &schedule.slept;
        let recent = || slept.until.is_some_and(|until| until + OVERDUE > now);
        alive.unwrap_or_else(recent).then(|| ScheduleView {
            awake: schedule.awake,
            next_wake: slept.until.filter(|_| !schedule.awake),
            cron: slept.cron.clone(),
            time_zone: slept.time_zone.clone(),
            pid: slept.process.as_ref().map(|process| process.pid),
        })
    }

    /// The start that a schedule missed; none if that is not certain.
    fn missed(
        schedule: &ScheduleState,
        alive: Option<bool>,
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let slept = &schedule.slept;
        let is_gone = match (alive, &slept.process) {
            (Some(alive), _) => !alive,
            (None, Some(_)) => false,
            // Cron starts a process each time.
            (None, None) => true,
        };
        let until = slept.until.filter(|_| is_gone && !schedule.awake);
        until.filter(|until| *until + OVERDUE < now)
    }

    /// What it waits for, in words.
    pub fn text(&self, now: DateTime<Utc>) -> String {
        match self.next_wake {
            _ if self.awake => "woken; its run has not ended".to_owned(),
            None => schedule::waits_for_requests().to_owned(),
            Some(until) => format!("next wake {}", moment(until, now)),
        }
    }
}

impl Standing {
    /// Whether an open attempt goes on.
    fn goes_on(self) -> bool {
        match self {
            Standing::Crashed | Standing::Finished | Standing::Paused => false,
            Standing::None
            | Standing::Starting
            | Standing::Running
            | Standing::Suspended
            | Standing::Pausing
            | Standing::Stopping
            | Standing::Elsewhere => true,
        }
    }

    /// Whether the run goes on and may start attempts.
    fn is_live(self) -> bool {
        match self {
            Standing::Running | Standing::Suspended => true,
            Standing::None
            | Standing::Starting
            | Standing::Pausing
            | Standing::Stopping
            | Standing::Paused
            | Standing::Finished
            | Standing::Crashed
            | Standing::Elsewhere => false,
        }
    }

    /// How the newest run stands; `live` where a process holds its lock.
    pub fn of(history: &History, live: bool) -> Standing {
        let run = &history.run;
        match (live, &run.finished) {
            (true, None) if run.suspended => Standing::Suspended,
            (true, None) if run.stop.is_some() => Standing::Stopping,
            (true, None) if history.paused => Standing::Pausing,
            (true, None) => Standing::Running,
            (_, None) if !run.id.is_empty() => Standing::Crashed,
            _ if history.paused => Standing::Paused,
            (_, None) => Standing::None,
            (_, Some(_)) => Standing::Finished,
        }
    }

    /// The standing as people and programs read it.
    pub fn word(self) -> &'static str {
        variants::names::<Standing>()[self as usize]
    }

    /// How the newest run of a history stands, and what to do next.
    pub fn sentence_of(self, history: &History) -> String {
        let run = &history.run;
        let name = run.begun.plain.as_ref().map(|plain| &plain.name);
        self.sentence(name, history.paused, run.finished.as_ref().map(|(why, _)| why.as_str()))
    }

    fn sentence(self, name: Option<&TaskId>, paused: bool, why: Option<&str>) -> String {
        let flag = name.map_or(String::new(), |name| LoopPaths::of_loop(name.clone()).flag());
        if let (Standing::Crashed, Some(why)) = (self, why) {
            return format!("{}: {why}", self.word());
        }
        let crashed = "the last run exited unexpectedly";
        let more = match self {
            Standing::None => "no run yet; `ralph run` starts one",
            Standing::Starting => "a run tries whether the checks notice broken code",
            Standing::Elsewhere => "in another worktree of this repository",
            Standing::Running => return "running".to_owned(),
            Standing::Suspended => "stopped by Ctrl-Z; `fg` in its terminal continues it",
            Standing::Pausing => {
                &format!("no other attempt starts; `ralph resume{flag}` continues")
            }
            Standing::Stopping => "no other attempt starts",
            Standing::Paused => &format!("no attempt starts before `ralph resume{flag}`"),
            Standing::Finished => why.unwrap_or_default(),
            Standing::Crashed if paused => {
                &format!("{crashed}; it is also paused, and `ralph resume{flag}` continues")
            }
            Standing::Crashed if !flag.is_empty() => {
                &format!("{crashed}; `ralph resume{flag}` continues it")
            }
            Standing::Crashed => &format!("{crashed}; `ralph run` continues it"),
        };
        format!("{}: {more}", self.word())
    }
}

/// A run before the newest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastRunView {
    /// Its number, counted back from the newest run, which is 1.
    pub number: usize,
    /// Its id.
    pub run_id: String,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// The number of attempts.
    pub attempts: u32,
    /// The number of tasks that it completed.
    pub completed: u32,
    /// Why it ended; none if it exited unexpectedly.
    pub why: Option<String>,
    /// The exit code that it ended with.
    pub exit_code: Option<u8>,
}

impl PastRunView {
    /// The runs of a history before the newest one, the newest first.
    pub(super) fn all(history: &History) -> Vec<PastRunView> {
        let earlier = history.earlier.iter().rev().zip(2..);
        let view = |(run, number): (&PastRun, usize)| PastRunView {
            number,
            run_id: run.id.clone(),
            started_at: run.started_at,
            attempts: run.iterations,
            completed: run.completed,
            why: run.finished.as_ref().map(|(why, _)| why.clone()),
            exit_code: run.finished.as_ref().map(|(_, code)| *code),
        };
        earlier.map(view).collect()
    }

    /// What it did and how it ended.
    pub fn text(&self) -> String {
        let attempts = counted(self.attempts as usize, "attempt");
        let why = self.why.as_deref().unwrap_or("exited unexpectedly");
        format!("{} completed in {attempts}; {why}", self.completed)
    }
}
