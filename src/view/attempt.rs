//! The attempts that have not ended.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::words::{clock, short};
use crate::core::{
    attempt::AttemptState,
    executor::runs_on,
    graph::task::TaskId,
    history::{ActiveAttempt, OpenChild},
};

/// An attempt that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AttemptView {
    /// The task.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// When it started.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: DateTime<Utc>,
    /// How long ago that is.
    pub seconds: u64,
    /// The child agents of its task that are alive.
    pub children: Vec<ChildView>,
    /// Where it stands and where it works.
    #[serde(flatten)]
    pub position: AttemptPosition,
}

/// Where an attempt stands and where it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttemptPosition {
    /// The state of the attempt.
    #[serde(rename = "stage", serialize_with = "as_stage")]
    #[schemars(with = "String", extend("enum" = stages()))]
    pub state: AttemptState,
    /// The slot of an isolated attempt.
    pub slot: Option<PathBuf>,
    /// The branch that it is on.
    pub branch: Option<String>,
    /// Where it runs, if that is not this machine as it is: as it was asked for, until its agent has
    /// started.
    pub runs_on: Option<String>,
    /// What it waits for there, such as a place in the queue of a cluster.
    pub awaits: Option<String>,
    /// When its process was last heard, if there is no contact with it; whether it runs is not known
    /// then.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub no_contact_since: Option<DateTime<Utc>>,
    /// The slot as it is typed at the top of the repository.
    #[serde(skip)]
    pub place: Option<String>,
}

/// A child agent that has no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChildView {
    /// Its run.
    pub run_id: String,
    /// The run that started it.
    pub parent_run_id: String,
    /// Its command line without the folder of the program, cut to 60 characters.
    pub name: String,
    /// Its command line.
    pub argv: Vec<String>,
    /// Its process.
    pub pid: u32,
    /// When it started.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: DateTime<Utc>,
    /// How long ago that is.
    pub seconds: u64,
}

/// A state as `--json` prints it.
fn stage(state: AttemptState) -> String {
    state.word().replace(' ', "_")
}

fn stages() -> Vec<String> {
    let mut all: Vec<String> = AttemptState::ALL.into_iter().map(stage).collect();
    all.dedup();
    all.sort();
    all.dedup();
    all
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn as_stage<S: Serializer>(state: &AttemptState, to: S) -> Result<S::Ok, S::Error> {
    stage(*state).serialize(to)
}

/// Whole seconds since then; none before it.
pub(super) fn seconds_since(at: DateTime<Utc>, now: DateTime<Utc>) -> u64 {
    (now - at).num_seconds().max(0).unsigned_abs()
}

/// A folder as it is typed at `root`, the top of the repository.
pub fn typed_path(root: &Path, folder: &Path) -> String {
    let near = root.parent().and_then(|parent| folder.strip_prefix(parent).ok());
    match (folder.strip_prefix(root), near) {
        (Ok(inside), _) if inside.as_os_str().is_empty() => ".".to_owned(),
        (Ok(inside), _) => inside.display().to_string(),
        (_, Some(near)) => format!("../{}", near.display()),
        _ => folder.display().to_string(),
    }
}

impl AttemptView {
    /// An attempt of the history, with its record's slot and branch where there is a record,
    /// in the repository at `root`; of `children` those of its task.
    pub fn of(
        active: &ActiveAttempt,
        recorded: (Option<PathBuf>, Option<String>),
        children: &[&OpenChild],
        root: &Path,
        now: DateTime<Utc>,
    ) -> AttemptView {
        // The record is right where the slot that was meant at first could not be made.
        let slot = recorded.0.or_else(|| active.slot.as_ref().map(PathBuf::from));
        let own = children.iter().filter(|open| open.task_id == active.task_id);
        AttemptView {
            task_id: active.task_id.clone(),
            attempt: active.attempt,
            since: active.since,
            seconds: seconds_since(active.since, now),
            children: own.map(|open| ChildView::of(open, now)).collect(),
            position: AttemptPosition {
                state: active.state,
                place: slot.as_deref().map(|folder| typed_path(root, folder)),
                slot,
                branch: recorded.1.or_else(|| active.branch.clone()),
                awaits: active.awaits.clone(),
                no_contact_since: active.no_contact_since,
                runs_on: runs_on(active.run_on.as_deref(), active.placement.as_ref()),
            },
        }
    }
}

impl AttemptView {
    /// How long it has run; `goes_on` is whether its run does.
    pub fn age(&self, goes_on: bool) -> String {
        if goes_on || self.position.state.has_passed() {
            format!("for {}", short(self.seconds))
        } else {
            "cut off".to_owned()
        }
    }
}

impl AttemptPosition {
    /// The state where it is not simply running, and the slot, in words.
    pub fn text(&self) -> Option<String> {
        let silent = self.no_contact_since.map(|at| format!("no contact since {}", clock(at)));
        let stage = match self.state {
            AttemptState::Running => "",
            AttemptState::Preparing => "preparing",
            AttemptState::WaitingForChildren => "waiting for processes that its agent left running",
            AttemptState::SettingUp => "setting up",
            AttemptState::Baseline => "verifying before its agent starts",
            AttemptState::Verifying => "verifying",
            AttemptState::Queued => "queued to land",
            AttemptState::Landing => "landing",
        };
        let slot = self.place.as_ref().map(|place| {
            let branch =
                self.branch.as_ref().map_or(String::new(), |branch| format!(" ({branch})"));
            format!("in {place}{branch}")
        });
        let runs_on = self.runs_on.as_ref().map(|name| format!("on {name}"));
        let stage = Some(stage.to_owned()).filter(|stage| !stage.is_empty());
        let parts: Vec<String> =
            [silent, stage, slot, runs_on, self.awaits.clone()].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl ChildView {
    /// Its name, run, process and age.
    pub fn text(&self) -> String {
        let ChildView { name, run_id, pid, seconds, .. } = self;
        format!("{name}, run {run_id}, process {pid}, for {}", short(*seconds))
    }

    /// A child agent of the history.
    pub fn of(open: &OpenChild, now: DateTime<Utc>) -> ChildView {
        ChildView {
            run_id: open.child.child_run_id.clone(),
            parent_run_id: open.child.parent_run_id.clone(),
            name: open.child.name(),
            argv: open.child.argv.clone(),
            pid: open.child.process.pid,
            since: open.since,
            seconds: seconds_since(open.since, now),
        }
    }
}
