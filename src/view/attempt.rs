//! The attempts: those that have not ended, those of the journal, and the slots that they work in.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{
    VERSION,
    review::ProofView,
    spend::SpendView,
    waits::review_wait,
    words::{clock, full, short},
};
use crate::core::{
    attempt::AttemptState,
    event::{AttemptResult, Event, LandingEvent, RequestEvent, record::Record},
    executor::runs_on,
    graph::task::TaskId,
    history::{ActiveAttempt, ActiveAttempts, attempt_log::AttemptEntry},
};

/// An attempt that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptView {
    /// The task.
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// When it started.
    pub since: DateTime<Utc>,
    /// How long ago that is.
    pub seconds: u64,
    /// The usage of its agent, once that has ended.
    pub spend: Option<SpendView>,
    /// Its state and its place.
    #[serde(flatten)]
    pub position: AttemptPosition,
}

/// The state and the place of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptPosition {
    /// The state of the attempt.
    #[serde(rename = "stage", serialize_with = "as_stage")]
    pub state: AttemptState,
    /// The slot of an isolated attempt.
    pub slot: Option<PathBuf>,
    /// The branch that it is on.
    pub branch: Option<String>,
    /// Where it runs, unless local; the requested executor until its agent has started.
    pub runs_on: Option<String>,
    /// The command that sets it up or verifies it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The reason for its wait there, such as the queue of a cluster.
    pub waiting_for: Option<String>,
    /// The time of the last contact with its process, while contact is lost; it may still run.
    pub no_contact_since: Option<DateTime<Utc>>,
    /// The slot, as typed at the top of the repository.
    #[serde(skip)]
    pub place: Option<String>,
    /// Why no process works on it, if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still: Option<StillState>,
}

/// Why no process works on an open attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StillState {
    /// It is queued to land.
    Queued,
    /// It is queued, and nothing can land.
    Held,
    /// Its run has ended; the next one continues it.
    Interrupted,
}

impl StillState {
    /// The state of an attempt, of those that are active; `live` is whether a run is in progress.
    pub fn of(state: AttemptState, active: &ActiveAttempts, live: bool) -> Option<StillState> {
        if !state.is_queued() {
            return (!live).then_some(StillState::Interrupted);
        }
        let is_held = active.held.is_some();
        let queued = if is_held { StillState::Held } else { StillState::Queued };
        Some(queued).filter(|_| is_held || !live || state != AttemptState::Landing)
    }
}

/// A state as `--json` prints it.
fn stage(state: AttemptState) -> String {
    state.word().replace(' ', "_")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn as_stage<S: Serializer>(state: &AttemptState, to: S) -> Result<S::Ok, S::Error> {
    stage(*state).serialize(to)
}

/// Whole seconds since then; none before it.
pub(super) fn seconds_since(at: DateTime<Utc>, now: DateTime<Utc>) -> u64 {
    (now - at).num_seconds().max(0).unsigned_abs()
}

/// A folder as typed at `root`, the top of the repository.
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
    /// An attempt of the history, with the slot and branch of its record, if any, in the repository
    /// at `root`.
    pub fn of(
        active: &ActiveAttempt,
        recorded: (Option<PathBuf>, Option<String>),
        root: &Path,
        now: DateTime<Utc>,
    ) -> AttemptView {
        // The record is right where the slot that was meant at first could not be made.
        let slot = recorded.0.or_else(|| active.slot.as_ref().map(PathBuf::from));
        AttemptView {
            task_id: active.task_id.clone(),
            attempt: active.attempt,
            since: active.since,
            seconds: seconds_since(active.since, now),
            spend: active.spent.as_ref().map(|(_, spend)| SpendView::of(spend)),
            position: AttemptPosition {
                state: active.state,
                still: None,
                place: slot.as_deref().map(|folder| typed_path(root, folder)),
                slot,
                branch: recorded.1.or_else(|| active.branch.clone()),
                command: active.command.clone().filter(|_| active.state.is_checked()),
                waiting_for: active
                    .awaits
                    .clone()
                    .or_else(|| active.review_wait.as_ref().map(|wait| review_wait(wait, now))),
                no_contact_since: active.no_contact_since,
                runs_on: runs_on(active.run_on.as_deref(), active.placement.as_ref()),
            },
        }
    }
}

impl AttemptView {
    /// How long it has run; `goes_on` is whether its run does.
    pub fn age(&self, goes_on: bool) -> String {
        if goes_on || self.position.state.is_queued() {
            format!("for {}", short(self.seconds))
        } else {
            "cut off".to_owned()
        }
    }
}

impl AttemptPosition {
    /// Notes why no process works on it, if none does.
    pub fn note_still(&mut self, active: &ActiveAttempts, live: bool) {
        self.still = StillState::of(self.state, active, live);
    }

    /// The state where it is not simply running, and the slot, in words.
    pub fn text(&self) -> Option<String> {
        let silent = self.no_contact_since.map(|at| format!("no contact since {}", clock(at)));
        let stage = match self.state {
            AttemptState::Running => "",
            AttemptState::Preparing => "preparing",
            AttemptState::WaitingForChildren => "waiting for processes that its agent left running",
            AttemptState::SettingUp => "setting up",
            AttemptState::Verifying => "verifying",
            AttemptState::Reviewing => "reviewing",
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
        let parts: Vec<String> = [silent, stage, slot, runs_on, self.waiting_for.clone()]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// An attempt of the journal, ended or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PastAttemptView {
    /// The version of this shape.
    pub schema: u32,
    /// The task.
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// The run that it belongs to.
    pub run_id: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The commit that it began with.
    pub base: Option<String>,
    /// The folder of its prompt and output, relative to the repository.
    pub log: String,
    /// Where it runs, unless local; the requested executor until its agent has started.
    pub runs_on: Option<String>,
    /// When it ended; none while it runs, or if that was not recorded.
    pub ended_at: Option<DateTime<Utc>>,
    /// Whether the verify commands notice its work; none if that was not examined.
    pub proof: Option<ProofView>,
    /// How it ended.
    #[serde(flatten, serialize_with = "as_end")]
    pub end: Option<AttemptResult>,
}

/// An attempt of the journal, with details from its folder and the journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PastAttemptDetails {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: PastAttemptView,
    /// The journal's lines about its task and the graph file while it ran.
    #[serde(serialize_with = "as_lines")]
    pub changes: Vec<Record>,
    /// The messages about its task since the attempt before, and until the next one.
    pub messages: Vec<MessageView>,
    /// The files of its folder: name and size in bytes.
    pub files: Vec<(String, u64)>,
    /// The last lines of its standard error.
    pub errors: Vec<String>,
    /// The last lines of its output, as `ralph logs --output` shows them.
    pub output: Vec<String>,
    /// The last lines of the output of the verify command that failed.
    pub verify_output: Vec<String>,
}

/// A message of a person or an agent about a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageView {
    /// When.
    pub at: DateTime<Utc>,
    /// `question`, `answer`, `note`, `reset`, `review` or `take_back`.
    pub kind: &'static str,
    /// The attempt whose agent said it; none for a person.
    pub attempt: Option<u32>,
    /// The words; none of a reset, or of a review without any.
    pub text: Option<String>,
}

impl MessageView {
    /// The message in a record of the journal, if it has one.
    pub fn of(record: &Record) -> Option<MessageView> {
        let ended = record.event.ended().and_then(|ended| Some((ended.attempt, ended.question()?)));
        let (kind, attempt, text) = if let Some((attempt, question)) = ended {
            ("question", Some(attempt), Some(question))
        } else if let Event::Landing(LandingEvent::TakenBack(taken)) = &record.event {
            ("take_back", None, taken.note.as_deref())
        } else if let Event::Request(event) = &record.event {
            match event {
                RequestEvent::Noted { attempt, note } => ("note", Some(*attempt), Some(&**note)),
                RequestEvent::Answered(one) => {
                    let kind = if one.question.is_empty() { "note" } else { "answer" };
                    (kind, None, Some(&*one.answer))
                }
                RequestEvent::Reviewed { note, .. } => ("review", None, note.as_deref()),
                RequestEvent::Reset {} => ("reset", None, None),
                RequestEvent::Looked {}
                | RequestEvent::PauseRequested {}
                | RequestEvent::ResumeRequested { .. }
                | RequestEvent::StopRequested(_) => return None,
            }
        } else {
            return None;
        };
        Some(MessageView { at: record.timestamp, kind, attempt, text: text.map(str::to_owned) })
    }

    /// The time, the author and the text, in one line.
    pub fn line(&self) -> String {
        let who = self.attempt.map_or_else(|| "a person".to_owned(), |it| format!("attempt {it}"));
        let did = match self.kind {
            "question" => "asked",
            "answer" => "answered",
            "note" => "noted",
            "review" => "reviewed it",
            "reset" => "reset it",
            _ => "took it back",
        };
        let words = self.text.iter().flat_map(|text| text.split_whitespace());
        let text = words.collect::<Vec<_>>().join(" ");
        let text = if text.is_empty() { text } else { format!(": {text}") };
        format!("{} {who} {did}{text}", full(self.at))
    }
}

impl PastAttemptView {
    /// An attempt of the log.
    pub fn of(entry: &AttemptEntry) -> PastAttemptView {
        PastAttemptView {
            schema: VERSION,
            task_id: entry.task_id.clone(),
            attempt: entry.attempt,
            run_id: entry.run_id.clone(),
            started_at: entry.started_at,
            base: entry.base.clone().map(String::from),
            log: entry.log.clone(),
            runs_on: runs_on(entry.run_on.as_deref(), entry.placement.as_ref()),
            ended_at: entry.ended.as_ref().map(|(at, _)| *at),
            proof: entry.proof.as_deref().map(ProofView::of),
            end: entry.ended.as_ref().map(|(_, ended)| ended.read().into_owned()),
        }
    }

    /// Its name on a command line: `a.2`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.task_id, self.attempt)
    }
}

/// The fields of the end, without those that the attempt has too.
#[expect(clippy::ref_option, reason = "serde requires this reference")]
fn as_end<S: Serializer>(end: &Option<AttemptResult>, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = match end.as_ref().map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    };
    fields.remove("attempt");
    fields.remove("log");
    fields.serialize(to)
}

/// Lines of the journal, verbatim.
fn as_lines<S: Serializer>(records: &[Record], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(records.iter().map(Record::fields))
}

/// A slot of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotView {
    /// The version of this shape.
    pub schema: u32,
    /// Its folder.
    pub path: PathBuf,
    /// The plain loop that it belongs to; none for the run over the graph.
    pub name: Option<TaskId>,
    /// Its purpose: `attempt` or `merge_queue`.
    pub kind: String,
    /// The task of the attempt in it.
    pub task_id: Option<String>,
    /// Whether it can be removed: `free`, or the word for the reason to keep it: `in_use`,
    /// `cut_off`, `kept`, `strange`.
    pub state: String,
    /// The reason to keep it, in words.
    pub why: Option<String>,
    /// The attempt in it.
    pub attempt: Option<String>,
    /// The state of that attempt.
    pub stage: Option<String>,
    /// The folder, as typed at the top of the repository.
    #[serde(skip)]
    pub place: String,
    /// The state in words.
    #[serde(skip)]
    pub text: String,
}
