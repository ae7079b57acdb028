//! The summary of a run: why it ended, what it completed, by which commits, what is left and why.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    VERSION,
    left::TasksLeft,
    lines::{COMMITS, Line, counted, how_to_answer, length, line},
    past_attempt::CommitSchema,
    spend::SpendView,
};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Blocker, Event, StopReason, record::Record},
        graph::task::TaskId,
        history::LastAttempt,
        select::{Decision, TaskState, View},
        spend::Spend,
        verdict::Commit,
    },
};

/// How many tasks each part of the summary names.
const TASKS: usize = 40;

/// The summary of a run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryView {
    /// The version of this shape.
    pub schema: u32,
    /// The name of the plain loop; none for a run over the graph.
    #[schemars(with = "Option<String>")]
    pub name: Option<TaskId>,
    /// The ref of the work of an isolated plain loop, if it has not landed.
    pub not_landed: Option<String>,
    /// The id of the run.
    pub run_id: String,
    /// When it ended.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub ended_at: DateTime<Utc>,
    /// Why it ended.
    pub why: String,
    /// The exit code.
    pub exit_code: u8,
    /// The number of attempts in the run.
    pub attempts: u32,
    /// The number of failed attempts.
    pub failures: u32,
    /// The number of tasks completed in the run.
    pub completed: u32,
    /// The tasks whose last attempt completed them in this run, in the order of completion.
    pub completed_tasks: Vec<CompletedTask>,
    /// The number of tasks neither complete nor cancelled.
    pub remaining: usize,
    /// The tasks that are left, by state.
    #[serde(flatten)]
    pub left: TasksLeft,
    /// The tasks that need a person; if the run ended because of them, all that hold back the rest.
    pub blockers: Vec<BlockerView>,
    /// The tasks whose newest attempt failed in this run, in the order of failure.
    pub failed_tasks: Vec<FailedTask>,
    /// What a person can do next, with the commands.
    pub next: Vec<String>,
    /// The usage of the attempts.
    #[schemars(with = "SpendView")]
    pub spend: Spend,
    /// Wall time.
    pub duration_seconds: f64,
}

/// A task that a run completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompletedTask {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// The commits that completed it, oldest first.
    #[schemars(with = "Vec<CommitSchema>")]
    pub commits: Vec<Commit>,
}

/// A task whose newest attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedTask {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// Why it failed.
    pub why: String,
}

/// A task that holds others back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockerView {
    /// The task.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Why it holds others back.
    pub why: String,
    /// The number of unfinished tasks that can go on once this blocker and those before it in the
    /// list are resolved, including the task itself.
    pub frees: usize,
    /// What a person can do next, with the command.
    pub next: String,
}

impl SummaryView {
    /// Returns the summary for the event that ends a run; none for any other event.
    pub fn of(record: &Record, view: &View<'_>) -> Option<SummaryView> {
        let Event::Finished { why, exit_code, iterations, completed, remaining, duration_seconds } =
            &record.event
        else {
            return None;
        };
        let now = record.timestamp;
        let decision = view.decide(now);
        let blockers =
            if let Decision::Stop(StopReason::Blocked(holders) | StopReason::NeedsInput(holders)) =
                &decision
            {
                holders.clone()
            } else if *exit_code == 0 || view.policy.plain.is_some() {
                Vec::new()
            } else {
                needing_a_person(view, now)
            };
        let blockers: Vec<BlockerView> =
            blockers.into_iter().map(|it| BlockerView::of(it, view, now)).collect();
        let next = next(&decision, &blockers, *exit_code, view);
        Some(SummaryView {
            schema: VERSION,
            name: view.policy.plain.as_ref().map(|plain| plain.name.clone()),
            not_landed: super::run::work_not_landed(view.history),
            run_id: record.run_id.clone(),
            ended_at: now,
            why: why.clone(),
            exit_code: *exit_code,
            attempts: *iterations,
            failures: view.history.run.failures,
            completed: *completed,
            completed_tasks: completed_in_run(view),
            remaining: *remaining,
            left: TasksLeft::of(view, now),
            blockers,
            failed_tasks: failed_in_run(view),
            next,
            spend: view.history.run.spend,
            duration_seconds: *duration_seconds,
        })
    }

    /// Returns the summary as text. The first two lines are its head: why the run ended, and its
    /// totals.
    pub fn lines(&self) -> Vec<Line> {
        let style = if self.exit_code == 0 { Style::Good } else { Style::Warn };
        let mut lines = vec![
            line(style, format!("{} (exit code {})", self.why, self.exit_code)),
            line(None, self.totals()),
        ];
        if let Some(name) = &self.name {
            let kept = self.not_landed.as_ref().map(|kept| {
                let text = format!(
                    "  its work has not landed: start it again to continue; `ralph restore --name \
                     {name} {}` makes a branch of it",
                    kept.rsplit('/').next().unwrap_or(kept)
                );
                line(Style::Warn, text)
            });
            lines.extend(kept);
            lines.extend(self.next_lines());
            return lines;
        }
        lines.extend(self.completed_tasks.iter().take(TASKS).flat_map(CompletedTask::lines));
        lines.extend(more(self.completed_tasks.len()));
        if self.exit_code != 0 {
            lines.extend(self.failed_tasks.iter().take(TASKS).map(FailedTask::line));
            lines.extend(more(self.failed_tasks.len()));
        }
        if self.remaining > 0 {
            lines.push(line(None, "left:"));
            lines.extend(self.what_is_left());
        }
        lines.extend(self.next_lines());
        lines
    }

    fn totals(&self) -> String {
        let time = length(self.duration_seconds);
        let known = self.spend.unknown_cost < self.spend.attempts;
        let cost = if known { format!("; {}", self.spend.cost()) } else { String::new() };
        let attempts = self.attempts as usize;
        if self.name.is_some() {
            let made = counted(attempts, "iteration");
            return format!("{made}, {} failed, {time}{cost}", self.failures);
        }
        format!(
            "{} completed in {}, {time}{cost}; {}",
            self.completed,
            counted(attempts, "attempt"),
            self.left.counts.progress(),
        )
    }

    fn what_is_left(&self) -> Vec<Line> {
        let freed: usize = self.blockers.iter().map(|blocker| blocker.frees).sum();
        let texts = self.left.texts().into_iter().filter(|_| freed < self.remaining);
        let mut lines: Vec<Line> = texts.map(|text| line(None, format!("  {text}"))).collect();
        lines.extend(self.blockers.iter().take(TASKS).map(BlockerView::line));
        lines.extend(more(self.blockers.len()));
        lines
    }

    fn next_lines(&self) -> impl Iterator<Item = Line> {
        self.next.iter().map(|next| line(Style::Faint, format!("  next: {next}")))
    }
}

impl CompletedTask {
    fn lines(&self) -> Vec<Line> {
        let CompletedTask { id, commits } = self;
        let text = |commit: &Commit| format!("{} {}", commit.short(), commit.subject);
        let proof = commits.first().map_or("no commit".to_owned(), text);
        let mut lines = vec![line(Style::Good, format!("  + {id}: {proof}"))];
        let others = commits.iter().take(COMMITS).skip(1);
        lines.extend(others.map(|commit| line(None, format!("    {}", text(commit)))));
        if commits.len() > COMMITS {
            lines.push(line(None, format!("    and {} more", commits.len() - COMMITS)));
        }
        lines
    }
}

impl FailedTask {
    fn line(&self) -> Line {
        let FailedTask { id, attempt, why } = self;
        line(Style::Bad, format!("  ! {id}: {why}; `ralph show {id}.{attempt}`"))
    }
}

impl BlockerView {
    fn of(blocker: Blocker, view: &View<'_>, now: DateTime<Utc>) -> BlockerView {
        let Blocker { task_id, why, frees } = blocker;
        let next = match &view.policy.plain {
            Some(plain) => {
                let name = plain.name.as_str();
                format!("{}, then `ralph resume --name {name}`", how_to_answer(name))
            }
            None => advice(&task_id, view, now),
        };
        BlockerView { task_id, why, frees, next }
    }

    fn line(&self) -> Line {
        let frees = match self.frees {
            0 | 1 => String::new(),
            2 => "; 1 other waits on it".to_owned(),
            count => format!("; {} others wait on it", count - 1),
        };
        line(Style::Warn, format!("  - {}: {}{frees}", self.task_id, self.why))
    }
}

/// The tasks that the newest run completed, in the order in which it did, with their commits.
fn completed_in_run(view: &View<'_>) -> Vec<CompletedTask> {
    let done = view.history.completed_in_run().into_iter();
    let done = done.filter(|(id, _)| view.graph.number(id).is_some());
    let task = |(id, last): (&TaskId, &LastAttempt)| CompletedTask {
        id: id.clone(),
        commits: last.ended.evidence.commits.clone(),
    };
    done.map(task).collect()
}

/// The tasks whose newest attempt failed in this run.
fn failed_in_run(view: &View<'_>) -> Vec<FailedTask> {
    let failed = view.history.failed_in_run().into_iter();
    let failed = failed.filter(|(id, _)| view.graph.number(id).is_some());
    let task = |(id, last): (&TaskId, &LastAttempt)| FailedTask {
        id: id.clone(),
        attempt: last.ended.attempt,
        why: format!("{}: {}", last.ended.verdict, last.ended.why),
    };
    failed.map(task).collect()
}

/// Everything that a person can do next, the most useful first.
fn next(
    decision: &Decision,
    blockers: &[BlockerView],
    exit_code: u8,
    view: &View<'_>,
) -> Vec<String> {
    if exit_code == 0 {
        return Vec::new();
    }
    let name = view.policy.plain.as_ref().map(|plain| plain.name.as_str());
    let goes_on = name.map_or("`ralph run` continues".to_owned(), |name| {
        format!("`ralph resume --name {name}` continues")
    });
    let again = name.map_or("`ralph run` continues".to_owned(), |_| {
        "`ralph loop` with the same flags starts it again".to_owned()
    });
    let flag = name.map_or(String::new(), |name| format!(" --name {name}"));
    let doctor = "`ralph doctor` checks the agent and the setup".to_owned();
    let mut next: Vec<String> = Vec::new();
    for blocker in blockers {
        if !next.contains(&blocker.next) {
            next.push(blocker.next.clone());
        }
    }
    next.truncate(TASKS);
    next.extend(match decision {
        Decision::Stop(StopReason::Blocked(_) | StopReason::NeedsInput(_)) => {
            name.is_none().then(|| format!("afterwards, {goes_on}")).into_iter().collect()
        }
        Decision::Stop(
            StopReason::Failures(_) | StopReason::FailedTasks(_) | StopReason::StartLimit(_),
        ) => vec![doctor, again],
        Decision::Stop(StopReason::Denied(..)) => {
            vec!["log in to the provider, or set its key".to_owned(), doctor, again]
        }
        Decision::Stop(StopReason::Paused(_)) => {
            vec![format!("`ralph resume{flag}` continues, `ralph stop{flag}` ends it")]
        }
        Decision::Stop(StopReason::Stopped | StopReason::Signal(..)) => vec![goes_on],
        Decision::Stop(
            StopReason::Limit(_)
            | StopReason::Provider { .. }
            | StopReason::Once { .. }
            | StopReason::BaselineBroken(_)
            | StopReason::HookFailed(_)
            | StopReason::MergeHeld(_)
            | StopReason::Complete
            | StopReason::SelectionComplete
            | StopReason::Done { .. }
            | StopReason::Promised,
        )
        | Decision::Start(_)
        | Decision::Wait(_) => vec![again],
    });
    next
}

/// The tasks on which nothing goes on without a person.
fn needing_a_person(view: &View<'_>, now: DateTime<Utc>) -> Vec<Blocker> {
    let needs = |it: &Blocker| {
        let state = view.graph.number(&it.task_id).map(|number| view.state(number, now));
        matches!(state, Some(TaskState::Parked(_) | TaskState::Spent | TaskState::NeedsInput))
    };
    view.blockers(now).into_iter().filter(needs).collect()
}

/// What a person can do about a task that holds others back.
fn advice(id: &TaskId, view: &View<'_>, now: DateTime<Utc>) -> String {
    let look = "look at it with `ralph dag-status`, then";
    let Some(number) = view.graph.number(id) else {
        return "look with `ralph dag-status`".to_owned();
    };
    match view.state(number, now) {
        TaskState::Parked(_) => format!("{look} `ralph task-reset {id}`"),
        TaskState::Claimed => format!("if nothing works on it, `ralph task-reset {id}`"),
        TaskState::Spent => format!("give `{id}` a higher `max_cost`, or `ralph task-reset {id}`"),
        TaskState::NeedsInput => how_to_answer(id.as_str()),
        TaskState::Blocked => {
            format!("to unblock `{id}`, set its `status` to `pending` in the graph file")
        }
        TaskState::Cancelled => format!(
            "remove `{id}` from the `depends_on` of the tasks that wait on it, or cancel them too"
        ),
        TaskState::Ready
        | TaskState::Conflicting
        | TaskState::Retrying(_)
        | TaskState::RateLimited(_)
        | TaskState::Denied
        | TaskState::Waiting => {
            format!("run again with `--task {id}`, or without the restriction")
        }
        TaskState::Complete | TaskState::Running => "run again".to_owned(),
    }
}

fn more(count: usize) -> Option<Line> {
    (count > TASKS).then(|| line(None, format!("  … and {} more", count - TASKS)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::core::{
        event::PlainLoop,
        graph::{
            TaskGraph,
            task::{Status, Task},
            tests::task,
        },
        history::{
            History,
            tests::{end, record, started},
        },
        select::{Policy, keys},
        verdict::Verdict,
    };

    fn finished(exit_code: u8, completed: u32, remaining: usize) -> Record {
        let why = "the end".to_owned();
        let event = Event::Finished {
            why,
            exit_code,
            iterations: 2,
            completed,
            remaining,
            duration_seconds: 61.0,
        };
        Record { task_id: None, ..record("run", 60, event) }
    }

    /// Returns the summary of a run that completed `done` with this many commits and failed at
    /// `parked`. The value that is read back from its JSON is the same.
    fn summary_of(
        tasks: Vec<Task>,
        commits: usize,
        policy: &Policy,
        finished: &Record,
    ) -> SummaryView {
        let graph = TaskGraph::new(tasks, vec![(1, 2)]).unwrap();
        let mut history = History::default();
        history.run.started_at = DateTime::from_timestamp(0, 0);
        let mut complete = end(1, Verdict::Complete);
        complete.usage.cost_usd = Some(1.5);
        complete.evidence.commits = (0..commits)
            .map(|number| Commit {
                id: format!("{number}bcdef0123").into(),
                subject: format!("Part {number}"),
            })
            .collect();
        history.apply(&record("done", 1, started(1)));
        history.apply(&record("done", 2, Event::Completed(complete)));
        history.apply(&record("parked", 3, started(1)));
        history.apply(&record("parked", 4, Event::Failed(end(1, Verdict::Failed))));
        let keys = keys(&graph, false);
        let view = View { graph: &graph, keys: &keys, history: &history, policy, active: &[] };
        let summary = SummaryView::of(finished, &view).unwrap();
        let json = serde_json::to_value(&summary).unwrap();
        let schema = schemars::schema_for!(SummaryView).to_value();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&schema["properties"]), keys(&json));
        let reread: SummaryView = serde_json::from_value(json).unwrap();
        assert_eq!(reread, summary);
        summary
    }

    fn tasks() -> Vec<Task> {
        let done = Task { status: Status::Complete, ..task("done") };
        vec![done, task("parked"), task("after"), task("other")]
    }

    #[test]
    fn a_blocked_run_names_its_blockers_with_the_next_commands() {
        let policy = Policy { max_attempts: 1, ..Policy::default() };
        let mut tasks = tasks();
        tasks[3].status = Status::Blocked;
        let summary = summary_of(tasks, 4, &policy, &finished(1, 1, 3));
        let done = &summary.completed_tasks[0];
        assert_eq!((done.id.as_str(), done.commits.len()), ("done", 4));
        assert_eq!(summary.blockers.len(), 2);
        let BlockerView { task_id, frees, next, .. } = &summary.blockers[0];
        assert_eq!((task_id.as_str(), *frees), ("parked", 2));
        assert!(next.ends_with("`ralph task-reset parked`"), "{next}");
        assert!(summary.blockers[1].next.contains("`other`"));
        assert_eq!(summary.next.len(), 3, "{:?}", summary.next);
        assert!(summary.next[1].contains("`other`") && summary.next[2].contains("ralph run"));
        let failed = &summary.failed_tasks[0];
        assert_eq!((failed.id.as_str(), failed.attempt), ("parked", 1));
        assert_eq!((summary.left.counts.parked, summary.left.counts.held), (1, 1));
        assert_eq!(summary.left.ready, []);
    }

    #[test]
    fn a_run_that_stops_early_names_the_ready_tasks() {
        let policy = Policy { once: true, ..Policy::default() };
        let summary = summary_of(tasks(), 0, &policy, &finished(0, 1, 3));
        assert_eq!(summary.blockers, []);
        assert_eq!(summary.completed_tasks[0].commits, []);
        let ready: Vec<&str> = summary.left.ready.iter().map(TaskId::as_str).collect();
        assert_eq!(ready, ["other", "parked"]);
        assert_eq!(summary.left.counts.left(), 3);
        assert_eq!((summary.attempts, summary.failures, summary.exit_code), (2, 1, 0));
        assert_eq!((summary.spend.cost_usd, summary.spend.unknown_cost), (1.5, 1));
    }

    #[test]
    fn a_plain_loop_that_asks_says_how_to_go_on() {
        let name = TaskId::new("parked").unwrap();
        let plain = PlainLoop {
            name: name.clone(),
            prompt_file: "PROMPT.md".into(),
            restart_delay_seconds: 0.0,
            fixed_delay: false,
            max_restarts: None,
            max_failures: 0,
        };
        let policy = Policy { plain: Some(plain), ..Policy::default() };
        let mut tasks = tasks();
        tasks[1].status = Status::NeedsInput;
        let summary = summary_of(tasks, 1, &policy, &finished(1, 0, 1));
        assert_eq!(summary.name, Some(name));
        assert_eq!(summary.blockers.len(), 1);
        assert!(summary.blockers[0].next.ends_with("`ralph resume --name parked`"));
        assert_eq!(summary.lines().len(), 3);
    }
}
