//! The waits of a run: for a time, the merge queue, and executors that do not answer.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::words::{counted, ids, moment, named};
use crate::{
    adapters::terminal::visible,
    core::{
        agents::provider_error::ProviderError,
        event::{AgentChange, Batch, Held, ReviewWait, WaitingWork},
        executor::{fault_words, shell_word},
        graph::task::{Status, TaskId},
        history::{ActiveAttempts, History, UnreachableExecutor, Waiting},
        select::View,
        verdict::Verdict,
    },
};

/// The limits of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitsView {
    /// The wall-clock limit of one attempt.
    pub timeout_seconds: Option<f64>,
    /// The idle limit; 0 for none.
    pub idle_seconds: Option<f64>,
    /// Attempts in the run.
    pub max_iterations: u32,
    /// Attempts per task; none for a plain loop.
    pub max_attempts: Option<u32>,
}

impl LimitsView {
    /// The limits of the newest run.
    pub fn of(history: &History, max_attempts: Option<u32>) -> LimitsView {
        let run = &history.run;
        LimitsView {
            timeout_seconds: run.begun.timeout_seconds,
            idle_seconds: run.begun.idle_seconds,
            max_iterations: run.shown_limit(),
            max_attempts,
        }
    }
}

/// A required review that waits for a provider, and until when.
pub fn review_wait(wait: &ReviewWait, now: DateTime<Utc>) -> String {
    let ReviewWait { by, obstacle: error, .. } = wait;
    let until = error.until.map_or_else(String::new, |at| format!(" until {}", moment(at, now)));
    format!("its review by `{by}` waits{until}: {}", error.obstacle)
}

/// A change of agents, with the reason.
pub fn changed_agent(change: &AgentChange, now: DateTime<Utc>) -> String {
    let AgentChange { agent, from, obstacle } = change;
    match obstacle {
        None => format!("{agent} is available again and replaces {from}"),
        Some(ProviderError { obstacle, until: None }) => {
            format!("{agent} takes over from {from}: {obstacle}")
        }
        Some(ProviderError { obstacle, until: Some(until) }) => {
            format!("{agent} takes over from {from} until {}: {obstacle}", moment(*until, now))
        }
    }
}

/// The wait of the newest run at this time, if it is not over.
pub fn waiting(history: &History, now: DateTime<Utc>) -> Option<Waiting> {
    history.run.waiting.clone().filter(|waiting| waiting.until > now)
}

/// The reason of a wait and the time, in words.
pub fn waiting_text(waiting: &Waiting, now: DateTime<Utc>) -> String {
    format!("until {}: {}", moment(waiting.until, now), waiting.why)
}

/// The merge queue: the work queued to land, and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// The tasks queued to land, in order; those that are landing included.
    pub waiting: Vec<TaskId>,
    /// The batch that is landing.
    pub landing: Option<Batch>,
    /// Why nothing can land.
    pub blocked: Option<BlockedLanding>,
    /// The landed work that waits for the checkout.
    pub landed: Option<WaitingWorkView>,
}

/// Why nothing can land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedLanding {
    /// The target branch.
    pub branch: String,
    /// The reason.
    pub why: String,
    /// The first task in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<TaskId>,
    /// The stuck work, and why.
    pub text: String,
}

/// Work that landed and waits for the checkout of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingWorkView {
    /// The branch that does not have it yet.
    pub branch: String,
    /// The checkout that has the branch.
    pub checkout: String,
    /// The tasks.
    pub tasks: Vec<TaskId>,
    /// The files there that would be overwritten.
    pub paths: Vec<String>,
    /// The reason, where it is not files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The trials of the merge queue as one, if there are any.
fn landing(trials: &[Batch]) -> Option<Batch> {
    let tasks = trials.iter().flat_map(|trial| trial.tasks.clone()).collect();
    Some(Batch { tasks, ..trials.first()?.clone() })
}

impl QueueView {
    /// The merge queue of the history.
    pub fn of(active: &ActiveAttempts) -> QueueView {
        QueueView {
            waiting: active.queue.clone(),
            landing: landing(&active.trials),
            blocked: BlockedLanding::now(active),
            landed: active.waiting.as_ref().map(WaitingWorkView::of),
        }
    }

    /// The queued work and its progress, in words; none where nothing is queued.
    pub fn text(&self) -> Option<String> {
        let names =
            |tasks: &[TaskId]| tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ");
        let waiting = (!self.waiting.is_empty()).then(|| names(&self.waiting))?;
        let more = match (&self.landing, &self.blocked) {
            (Some(batch), _) => format!("; landing {} on {}", names(&batch.tasks), batch.branch),
            (None, Some(blocked)) => format!("; {}", blocked.text),
            (None, None) => String::new(),
        };
        Some(format!("{waiting}{more}"))
    }

    /// The landed work that waits for the checkout, for the end of a sentence; empty without any.
    pub fn end(&self) -> String {
        let landed = self.landed.as_ref();
        landed.map_or_else(String::new, |it| format!("; {}: `ralph land`", it.what()))
    }
}

impl BlockedLanding {
    /// The blocked landing of an event.
    pub fn of(held: &Held) -> BlockedLanding {
        BlockedLanding::with(held, None)
    }

    /// Why nothing can land now, if that is so.
    pub fn now(active: &ActiveAttempts) -> Option<BlockedLanding> {
        let first = active.queue.first();
        active.held.as_ref().map(|held| BlockedLanding::with(held, first))
    }

    fn with(held: &Held, first: Option<&TaskId>) -> BlockedLanding {
        let Held { branch, why } = held.clone();
        let what = first.map_or("nothing can".to_owned(), |id| format!("`{id}` cannot"));
        let text = format!("{what} land on `{branch}`: {}", visible(&why));
        BlockedLanding { branch, why, first: first.cloned(), text }
    }
}

impl WaitingWorkView {
    /// The work of an event.
    pub fn of(waiting: &WaitingWork) -> WaitingWorkView {
        let WaitingWork { branch, checkout, tasks, paths, why } = waiting.clone();
        WaitingWorkView { branch, checkout, tasks, paths, why }
    }

    /// How much waits.
    fn what(&self) -> String {
        let what = match self.tasks.len() {
            0 => "what landed waits".to_owned(),
            1 => "1 landed task waits".to_owned(),
            count => format!("{count} landed tasks wait"),
        };
        format!("{what} for your checkout")
    }

    /// How much waits, and why.
    pub fn text(&self) -> String {
        let why = match (&self.why, &*self.paths) {
            (Some(why), _) => why.clone(),
            (None, []) => "nothing is in the way any more".to_owned(),
            (None, [path]) => format!("{path} has uncommitted changes"),
            (None, paths) => format!("{} have uncommitted changes", named(paths)),
        };
        format!("{}: {}", self.what(), visible(&why))
    }

    /// The remedy for a person.
    pub fn cure(&self) -> &'static str {
        match (&self.why, &*self.paths) {
            (None, [_, ..]) => {
                "commit or stash them, and it follows; `ralph land` tries it at once"
            }
            (Some(_), _) | (None, []) => "`ralph land` tries it at once",
        }
    }
}

/// The tasks that are complete on another branch.
pub struct ElsewhereView {
    /// The branch.
    branch: String,
    /// The tasks.
    pub tasks: Vec<TaskId>,
}

impl ElsewhereView {
    /// The selected tasks that are complete on other branches, by branch.
    pub fn all(view: &View<'_>) -> Vec<ElsewhereView> {
        let elsewhere = &view.policy.elsewhere;
        // A person may have merged them since.
        let open = view.admitted().map(|number| view.graph.task(number));
        let open = open.filter(|task| task.status == Status::Pending);
        let mut all: BTreeMap<&String, Vec<TaskId>> = BTreeMap::new();
        for (task, branch) in open.filter_map(|task| Some((task, elsewhere.get(&task.id)?))) {
            all.entry(branch).or_default().push(task.id.clone());
        }
        let of = |(branch, tasks): (&String, Vec<TaskId>)| ElsewhereView {
            branch: branch.clone(),
            tasks,
        };
        all.into_iter().map(of).collect()
    }

    /// How many tasks, and which.
    pub fn text(&self) -> String {
        let (count, is) = (self.tasks.len(), if self.tasks.len() == 1 { "is" } else { "are" });
        let (tasks, branch) = (counted(count, "task"), &self.branch);
        format!("{tasks} landed on `{branch}` and {is} not on this branch: {}", ids(&self.tasks))
    }

    /// The remedy for a branch that is meant to be merged.
    pub fn merging(&self) -> String {
        let (count, it) = (counted(self.tasks.len(), "task"), shell_word(&self.branch));
        format!("`git merge {it}` brings {count} from there to the branch of the checkout")
    }

    /// The remedy for a person.
    pub fn cure(&self) -> String {
        let word = shell_word(&self.branch);
        format!("`git merge {word}`, or run with `--onto {word}`")
    }
}

/// An executor that is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreachableView {
    /// Its name.
    pub executor: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// The newest reason.
    pub why: String,
    /// The number of tries since it took work last.
    pub tries: u32,
    /// Whether only a person can fix it: the run does not wait for that.
    pub permanent: bool,
    /// When it is tried again; none during a try, and without a run in progress.
    pub next_try: Option<DateTime<Utc>>,
}

impl UnreachableView {
    /// The executors that are out for the newest run, by name. Only a run in progress tries them
    /// again.
    pub(super) fn all(history: &History, goes_on: bool) -> Vec<UnreachableView> {
        let known = history.unreachable.iter();
        let view = |(name, known): (&String, &UnreachableExecutor)| {
            let next_try = Some(known.next_try).filter(|_| known.trying.is_none() && goes_on);
            UnreachableView {
                executor: name.clone(),
                since: known.since,
                why: known.why.clone(),
                tries: known.tries,
                permanent: known.lasts,
                next_try,
            }
        };
        known.map(view).collect()
    }

    /// The executor that is out, since when and why; during a run, also the next try.
    pub fn text(&self, goes_on: bool, now: DateTime<Utc>) -> String {
        let tries = match self.tries {
            0 => String::new(),
            tries => format!(" ({})", counted(tries as usize, "failed start")),
        };
        let next = match self.next_try {
            _ if !goes_on || self.tries == 0 => String::new(),
            Some(at) => format!("; next try at {}", moment(at, now)),
            None => "; tried again now".to_owned(),
        };
        let Self { executor, since, why, permanent, .. } = self;
        format!(
            "{executor} {} since {}{tries}: {why}{next}",
            fault_words(*permanent),
            moment(*since, now)
        )
    }
}

/// The state of this faulty executor and its next try, in words.
pub fn until_text(
    executor: &str,
    permanent: bool,
    until: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> String {
    let next = match until {
        Some(until) => format!(", next try at {}", moment(until, now)),
        None => ", tried again now".to_owned(),
    };
    format!("{executor} {}{next}", fault_words(permanent))
}

/// Returns the command that completes a parked task whose work may exist already, after the command
/// that retries it; empty if an attempt changed anything.
pub fn if_already_there(id: &str, view: &View<'_>) -> String {
    let last = view.history.of(id).last.as_ref().filter(|last| last.verdict == Verdict::Unverified);
    last.filter(|last| last.ended.evidence.changed_nothing()).map_or_else(String::new, |last| {
        let is_there = last.ended.evidence.passes_unchanged();
        let condition = if is_there {
            "if the work is there already"
        } else {
            "if its checks pass without a change"
        };
        format!("; {condition}, `ralph task-complete {id}` completes it")
    })
}
