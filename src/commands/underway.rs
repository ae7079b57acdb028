//! What goes on, as commands show it: where each attempt is that has no end, and the merge queue.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    core::{
        attempt::AttemptState,
        graph::task::TaskId,
        history::{ActiveAttempt, ActiveAttempts, History},
    },
    project::{attempt::AttemptRecord, workspace::Workspace},
    view::lines,
};

/// An attempt that has no end.
pub(super) struct AttemptCourse {
    pub(super) going: ActiveAttempt,
    /// The work tree that it has to itself, if it has one.
    pub(super) tree: Option<PathBuf>,
    /// The branch that it is on.
    pub(super) branch: Option<String>,
    /// The same place, seen from the top of the repository.
    place: Option<String>,
}

impl AttemptCourse {
    /// All of them, the oldest first.
    pub(super) fn all(workspace: &Workspace, history: &History) -> Vec<AttemptCourse> {
        let records: Vec<AttemptRecord> = workspace.state.peek();
        let of = |going: &ActiveAttempt| {
            let same =
                |one: &&AttemptRecord| one.task_id == going.task_id && one.attempt == going.attempt;
            // The record is right where the work tree that was meant at first could not be had.
            let record = records.iter().find(same);
            let noted = record.and_then(|open| Some(open.apart.as_ref()?.tree.clone()));
            let tree = noted.or_else(|| going.worktree.as_ref().map(PathBuf::from));
            AttemptCourse {
                place: tree.as_deref().map(|tree| seen(workspace, tree)),
                branch: record.and_then(|open| open.branch.clone()).or(going.branch.clone()),
                tree,
                going: going.clone(),
            }
        };
        history.active.attempts.iter().map(of).collect()
    }

    /// Whether it is done by itself, so that also the next run may merge it.
    pub(super) fn waits(&self) -> bool {
        self.going.state.has_passed()
    }

    /// Where it is on its way, and where it works, if that is not the checkout that people work in.
    pub(super) fn text(&self) -> Option<String> {
        let stage = match self.going.state {
            AttemptState::Running => "",
            AttemptState::Preparing => "its work tree is being prepared",
            AttemptState::WaitingForChildren => "waiting for what its agent left running",
            AttemptState::SettingUp => "setting up",
            AttemptState::Baseline => "verifying before it begins",
            AttemptState::Verifying => "verifying",
            AttemptState::Queued => "waits to be merged",
            AttemptState::Landing => "tried by the merge queue",
        };
        match (&self.place, &self.branch) {
            (None, _) if stage.is_empty() => None,
            (None, _) => Some(stage.to_owned()),
            (Some(place), branch) => {
                let branch = branch.as_ref().map_or(String::new(), |branch| format!(" ({branch})"));
                let sep = if stage.is_empty() { "" } else { ", " };
                Some(format!("{stage}{sep}in {place}{branch}"))
            }
        }
    }

    /// The same for programs.
    pub(super) fn fields(&self) -> [(String, Value); 3] {
        [
            ("stage", json!(self.going.state.word().replace(' ', "_"))),
            ("worktree", json!(self.tree)),
            ("branch", json!(self.branch)),
        ]
        .map(|(key, value)| (key.to_owned(), value))
    }
}

/// A work tree as it is typed at the top of the repository.
pub(super) fn seen(workspace: &Workspace, tree: &Path) -> String {
    let beside = workspace.root().parent().and_then(|parent| tree.strip_prefix(parent).ok());
    match (tree.strip_prefix(workspace.root()), beside) {
        (Ok(inside), _) if inside.as_os_str().is_empty() => ".".to_owned(),
        (Ok(inside), _) => inside.display().to_string(),
        (_, Some(beside)) => format!("../{}", beside.display()),
        _ => tree.display().to_string(),
    }
}

/// What the merge queue does, if anybody waits.
pub(super) fn queue(underway: &ActiveAttempts) -> Option<String> {
    let names = |tasks: &[TaskId]| tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ");
    let waiting = (!underway.queue.is_empty()).then(|| names(&underway.queue))?;
    let does = match (&underway.trial, &underway.held) {
        (Some(trial), _) => format!("; trying {} on {}", names(&trial.tasks), trial.branch),
        (None, Some(held)) => {
            let clear = match held.why {
                None => format!("; commit or stash them in {}", held.checkout),
                Some(_) => String::new(),
            };
            format!("; `{}` is not moved for now: {}{clear}", held.branch, lines::hindrance(held))
        }
        (None, None) => String::new(),
    };
    Some(format!("{waiting}{does}"))
}

/// The same for programs.
pub(super) fn queue_value(underway: &ActiveAttempts) -> Value {
    json!({ "waiting": underway.queue, "trying": underway.trial, "held": underway.held })
}
