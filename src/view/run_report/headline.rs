//! The headline of a report: in one line, what is true now.

use serde::Serialize;

use super::{Attention, AttentionKind, ReportSource, RunReport};
use crate::{
    core::{exit::Exit, graph::task::Status, spend::dollars, verdict::Verdict},
    view::{
        run::Standing,
        state::{StateKind, StateMark},
    },
};

/// What is true of the run and the graph now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Headline {
    /// How the run stands, in a word or two.
    pub word: String,
    /// The tone.
    pub tone: Tone,
    /// The parts of the line, in order.
    pub parts: Vec<HeadlinePart>,
    /// The parts in one line.
    pub text: String,
    /// The number of things that need a person besides a review.
    pub needs: usize,
    /// The number of tasks with which a run could go on; 0 while one does.
    pub can_run: usize,
    /// The number of complete tasks whose landed work nobody has reviewed.
    pub to_review: usize,
    /// The command with which a run goes on with these.
    pub command: Option<String>,
}

/// The tone of a headline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Nothing happens.
    #[default]
    Calm,
    /// A run goes on.
    Run,
    /// It ended as it should, and completed something.
    Good,
    /// A person should look.
    Warn,
    /// It failed.
    Bad,
}

/// A part of a headline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeadlinePart {
    /// What it says.
    pub kind: HeadlineKind,
    /// In words.
    pub text: String,
}

/// What a part of a headline says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadlineKind {
    /// How many tasks are done.
    Done,
    /// How many attempts work.
    Running,
    /// How many tasks are queued to land.
    Queued,
    /// How many things need a person.
    Needs,
    /// How many tasks a run could go on with.
    CanRun,
    /// How many landed tasks wait for a review.
    Review,
    /// What the run cost.
    Cost,
    /// What to do next.
    Next,
}

impl Headline {
    /// The headline of a report; `to_review` is how many tasks have work that nobody has reviewed.
    pub(super) fn of(report: &RunReport, to_review: usize) -> Headline {
        let (run, goes_on) = (&report.run, report.run.goes_on() && !report.run.is_blank());
        // What is not proved waits for a review.
        let people = || report.attention.iter().filter(|it| it.kind != AttentionKind::Unproved);
        let needs = people().count();
        let can_run = if goes_on { 0 } else { can_run(report) };
        let next = people().next().map(Attention::step);
        let again = if run.is_blank() { "can run" } else { "can run again" };
        let of =
            |kind, count: usize, text: String| (count > 0).then_some(HeadlinePart { kind, text });
        let queued = report.left.as_ref().map_or(0, |left| left.queued);
        let works = run.attempts.iter().filter(|it| !it.position.state.is_queued()).count();
        let works = if goes_on { works } else { 0 };
        let cost = run.spend.cost_usd.filter(|cost| *cost > 0.0).map(dollars);
        let is_held = run.merge_queue.landing.is_none() && run.merge_queue.blocked.is_some();
        let held = if is_held { "held" } else { "queued to land" };
        let need = if needs == 1 { "needs you" } else { "need you" };
        let parts: Vec<HeadlinePart> = [
            report
                .left
                .as_ref()
                .map(|left| HeadlinePart { kind: HeadlineKind::Done, text: left.done_of_total() }),
            of(HeadlineKind::Running, works, format!("{works} running")),
            of(HeadlineKind::Queued, queued, format!("{queued} {held}")),
            of(HeadlineKind::Needs, needs, format!("{needs} {need}")),
            of(HeadlineKind::CanRun, can_run, format!("{can_run} {again}")),
            cost.map(|text| HeadlinePart { kind: HeadlineKind::Cost, text }),
            of(HeadlineKind::Review, to_review, format!("{to_review} to review")),
            next.map(|step| HeadlinePart {
                kind: HeadlineKind::Next,
                text: format!("next: {step}"),
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        let command = if run.paused { "ralph resume" } else { "ralph run" };
        let command = (can_run > 0).then(|| command.to_owned());
        Headline {
            word: report.word(can_run).to_owned(),
            tone: report.tone(can_run),
            text: parts.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(" · "),
            parts,
            needs,
            can_run,
            to_review,
            command,
        }
    }
}

/// How many tasks a run could work on or land at once.
fn can_run(report: &RunReport) -> usize {
    let Some(left) = &report.left else { return 0 };
    let ready = left.states.iter().filter(|(kind, _)| kind.mark() == StateMark::Ready);
    let ready: usize = ready.map(|(_, count)| count).sum();
    // Open attempts, unless their tasks are ready again.
    ready + report.run.attempts.len().min(left.states[StateKind::InProgress])
}

/// How many complete tasks have work that nobody has reviewed.
pub(super) fn to_review(source: &ReportSource<'_>) -> usize {
    let Some(graph) = source.graph else { return 0 };
    let tasks = source.history.tasks().into_iter();
    let is_new = |past: &crate::core::history::TaskHistory| {
        let last = past.last.as_deref().filter(|last| last.ended.verdict == Verdict::Complete);
        let is_open = last.is_some_and(|last| past.reviewed < last.ended.attempt);
        is_open && past.taken_back.is_none() && !past.commits.is_empty()
    };
    let new =
        tasks.filter(|(id, past)| is_new(past) && graph.status_of(id) == Some(Status::Complete));
    new.count()
}

impl RunReport {
    /// The report with this, too, needing a person.
    #[must_use]
    pub fn with_attention(mut self, more: Vec<Attention>) -> RunReport {
        self.attention.extend(more);
        self.headline = Headline::of(&self, self.headline.to_review);
        self
    }

    /// How the run stands, in a word or two.
    fn word(&self, can_run: usize) -> &'static str {
        let run = &self.run;
        let needs = self.attention.iter().any(|it| it.kind != AttentionKind::Unproved);
        match run.status {
            Standing::None => "no run yet",
            Standing::Starting => "starting",
            Standing::Running if run.waiting.is_some() => "waiting",
            Standing::Running => "running",
            Standing::Suspended => "suspended",
            Standing::Pausing => "pausing",
            Standing::Stopping => "stopping",
            Standing::Paused => "paused",
            Standing::Crashed => "interrupted",
            Standing::Elsewhere => "running in another worktree",
            Standing::Finished => match run.exit_code {
                Some(0) if run.completed == 0 && run.plain.is_none() => "nothing was completed",
                Some(0) => "finished",
                Some(code) if code == Exit::NotProved.code() => "finished",
                Some(code) if code == Exit::Limit.code() => "limit reached",
                _ if run.was_stopped => "stopped",
                Some(code) if code > 128 => "stopped",
                Some(code) if [Exit::Blocked.code(), Exit::Waiting.code()].contains(&code) => {
                    match (needs, can_run) {
                        (true, _) => "needs you",
                        (false, 0) => "ended",
                        (false, _) => "can run again",
                    }
                }
                _ => "failed",
            },
        }
    }

    fn tone(&self, can_run: usize) -> Tone {
        match self.run.status {
            Standing::None | Standing::Elsewhere => Tone::Calm,
            Standing::Starting => Tone::Run,
            Standing::Running if self.run.waiting.is_none() => Tone::Run,
            Standing::Running
            | Standing::Suspended
            | Standing::Pausing
            | Standing::Stopping
            | Standing::Paused => Tone::Warn,
            Standing::Crashed => Tone::Bad,
            Standing::Finished => match self.word(can_run) {
                "finished" if !self.attention.is_empty() => Tone::Warn,
                "finished" if self.is_good() => Tone::Good,
                "nothing was completed" | "finished" | "can run again" | "ended" => Tone::Calm,
                "failed" => Tone::Bad,
                _ => Tone::Warn,
            },
        }
    }
}

impl Attention {
    /// What to do about it, in few words.
    fn step(&self) -> String {
        let id = self.task_id.as_ref().map_or("", |id| id.as_str());
        let (verb, thing) = match self.kind {
            AttentionKind::Login => ("log in the agent", ""),
            AttentionKind::LandingBlocked => ("let the work land", ""),
            AttentionKind::CheckoutWaits => ("commit or stash your changes", ""),
            AttentionKind::Baseline => ("fix what was broken before", id),
            AttentionKind::Question => ("answer", id),
            AttentionKind::Parked | AttentionKind::Unproved => ("look at", id),
            AttentionKind::Spent => ("raise the cost limit of", id),
            AttentionKind::Blocked => ("unblock", id),
            AttentionKind::OnBranch => ("merge the other branch", ""),
            AttentionKind::Claimed => ("see who works on", id),
            AttentionKind::Cancelled => ("decide about", id),
            AttentionKind::Excluded => ("run with", id),
            AttentionKind::Reverted => ("take back", id),
        };
        format!("{verb} {thing}").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::select::Policy,
        view::run_report::tests::{finished, report_of, tasks},
    };

    #[test]
    fn a_headline_says_what_is_true_now() {
        let policy = Policy { max_attempts: 1, rounds: 1, start_limit: 0, ..Policy::default() };
        let report = report_of(tasks(), 4, &policy, &finished(3, 1, 3));
        let Headline { text, word, tone, needs, can_run, to_review, command, .. } = report.headline;
        assert_eq!(
            text,
            "1 of 4 done · 1 needs you · 1 can run again · $1.50 · 1 to review · next: look at parked"
        );
        assert_eq!((word.as_str(), tone), ("needs you", Tone::Warn));
        assert_eq!(command.as_deref(), Some("ralph run"));
        assert_eq!((needs, can_run, to_review), (1, 1, 1));
        // Once nobody is needed, what is next is another run.
        let report = report_of(tasks(), 0, &Policy::default(), &finished(4, 1, 3));
        let Headline { text, word, tone, command, .. } = report.headline;
        assert_eq!(text, "1 of 4 done · 2 can run again · $1.50");
        assert_eq!((word.as_str(), tone), ("can run again", Tone::Calm));
        assert_eq!(command.as_deref(), Some("ralph run"));
    }

    #[test]
    fn a_run_that_a_person_stopped_waits_for_nobody() {
        let mut report = report_of(tasks(), 0, &Policy::default(), &finished(4, 1, 3));
        report.run.was_stopped = true;
        let headline = report.with_attention(Vec::new()).headline;
        assert_eq!((headline.word.as_str(), headline.needs), ("stopped", 0));
    }
}
