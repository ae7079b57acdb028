//! Verdicts: the judgement on an attempt, from the outcome of its process and the evidence in git.
//!
//! Outcome, evidence and verdict are three types, because "exit 0", "made a commit" and "the task
//! is done" are three facts, and a runner that mixes them up never ends or stops too early.

mod explanation;
mod merge;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use explanation::{FINDINGS, first_names};
pub use merge::{Merge, ResolvedConflict};

pub use crate::outcome::{Outcome, Report, WAITS};
use crate::{
    agents::provider_error::{Advice, ProviderError},
    attempt::Isolation,
    commit_id::CommitId,
    default_value::is_default,
    executor::LOCAL,
    reviewer::WorkReview,
    task_id::TaskId,
};

/// Whether a task needs a commit to be complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitRule {
    /// A commit is needed.
    #[default]
    Required,
    /// A report is enough, as for research.
    Optional,
}

/// A commit made by the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The full id.
    pub id: CommitId,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// The first seven digits of the id.
    pub fn short(&self) -> &str {
        self.id.short()
    }
}

/// A branch with commits of an attempt that its own branch does not have, or that may be of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherBranch {
    /// Its name; `stash` for what was stashed last.
    pub branch: String,
    /// The newest of these commits.
    pub commit: CommitId,
    /// Their number.
    pub commits: usize,
    /// The checkout that is on the branch, if they were made there while the attempt had none in its
    /// slot. A person may have made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<String>,
}

/// The size of the changes between two commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// Files touched.
    pub files: usize,
    /// Lines added.
    pub insertions: usize,
    /// Lines removed.
    pub deletions: usize,
}

impl fmt::Display for DiffStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.files == 1 { "" } else { "s" };
        write!(f, "{} file{plural}, +{} -{}", self.files, self.insertions, self.deletions)
    }
}

/// The result of one verify command that `ralph` ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command, for a shell.
    pub command: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// The last non-blank line of its output, cut to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The log of its output, relative to the repository.
    pub log: String,
    /// Whether a test runner in it said that it ran no test.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_test: bool,
}

impl CheckResult {
    /// Whether it succeeded.
    pub fn is_green(&self) -> bool {
        self.outcome == Outcome::Exited { exit_code: 0 }
    }

    /// Whether its output says that a port is in use.
    pub fn meets_used_port(&self) -> bool {
        let last = self.last_line.as_deref().unwrap_or_default().to_lowercase();
        ["address already in use", "eaddrinuse", "port is already allocated"]
            .iter()
            .any(|sign| last.contains(sign))
    }

    /// The wall time.
    pub fn took(&self) -> Duration {
        Duration::try_from_secs_f64(self.duration_seconds).unwrap_or_default()
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.command, self.outcome)
    }
}

/// The result of committing the leftovers of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Autocommit {
    /// `ralph` committed them; the commit id.
    Committed(CommitId),
    /// Git or a hook refused; the reason.
    Refused(String),
    /// `ralph` may not commit them, and the agent left them in addition to its own commits.
    Off,
}

/// The evidence that the repository and the graph show after an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The report of completion, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// New commits that descend from the base, oldest first.
    #[serde(default)]
    pub commits: Vec<Commit>,
    /// A commit of an earlier attempt at the task that the base contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<CommitId>,
    /// The size of their changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
    /// Paths with uncommitted changes that were clean before the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// Its commits on other branches, and what it stashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<OtherBranch>,
    /// The files of the checkout that changed meanwhile, if an isolated attempt changed nothing. A person
    /// may have done it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<String>,
    /// A description of the branch, if it does not descend from the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strayed: Option<String>,
    /// The results of the verify commands, up to the first failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<CheckResult>,
    /// The question of the agent, if it needs input; empty if it gave no question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The result of committing the leftovers, if `ralph` tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocommit: Option<Autocommit>,
    /// The files of that commit, if the agent has made commits of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_besides: Vec<String>,
    /// Messages about outputs of the task that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Git hooks and settings that changed during the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tampered: Vec<String>,
    /// What its agent tried although only commits leave a slot: pushes, tags, branches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<String>,
    /// The commits of others that it pulled and that its own are on, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pulled: Vec<Commit>,
    /// Changed files of before that decide what is checked: settings, and what `verify` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify_inputs_changed: Vec<String>,
    /// Changed tests that existed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests_changed: Vec<String>,
    /// The tasks whose landed work its commits take back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_back: Vec<TaskId>,
    /// What another agent found in its work before it was to land.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Box<WorkReview>>,
    /// New files that are large or binary, each with its size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<String>,
    /// Whether its work has a proof to come: it changes code or tests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub to_prove: bool,
    /// Whether it changes the settings of checks, also in new files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings_changed: bool,
    /// Whether its commits change only files that manage the tasks: the graph, notes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata_only: bool,
    /// The folder in place of the file `DONE`, if there is no report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_folder: Option<String>,
    /// Other tasks whose status the attempt set. It was not taken over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<TaskId>,
    /// Tasks that its attempts added to the graph, if the graph is an output of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<TaskId>,
    /// The number of tasks that it added, if the graph is no output of the task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub added_besides: usize,
    /// The first error of the graph that it left, if `ralph check` refuses that graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_fault: Option<String>,
    /// The reason why its base cannot be checked out, after which no agent was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_base: Option<String>,
    /// The failed `setup` command, after which no agent was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<CheckResult>,
    /// The result of landing, if the attempt was isolated and its work was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
    /// Why its conversation could not be resumed for another prompt, if that failed. The other evidence
    /// and the verdict are those before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_resumed: Option<String>,
    /// Why it was refused before its agent got another prompt, if it did not report again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The provider error that stopped the agent, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<ProviderError>,
}

impl Evidence {
    /// The failed verify command, if any.
    pub fn red(&self) -> Option<&CheckResult> {
        self.verify.iter().find(|check| !check.is_green())
    }

    /// Whether its work is in the target branch.
    pub fn has_landed(&self) -> bool {
        matches!(self.merge, Some(Merge::Landed { .. }))
    }

    /// Whether the attempt shows work: committed changes, or new tasks where these are the work.
    fn proves(&self) -> bool {
        self.commits_changes() || !self.added.is_empty()
    }

    /// The newest commit of the attempt, if its commits are work: those without any change, or with
    /// changes of nothing but the graph or notes, are none.
    pub fn work(&self) -> Option<&Commit> {
        let changes = self.diff.is_none_or(|diff| diff.files > 0) && !self.metadata_only;
        self.commits.last().filter(|_| changes)
    }

    /// Whether the attempt, or an earlier one, committed changes.
    fn commits_changes(&self) -> bool {
        self.work().is_some()
            || self.earlier.is_some()
            || (self.report.is_some() && crate::known_bug::is_on("believe-the-report"))
    }
}

/// The rule for judging an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An attempt at a task of the graph: a report, and a commit as the task says.
    Task(CommitRule),
    /// An iteration of a plain loop, which ends with the first one that reports. In the checkout it
    /// needs no proof; what an isolated one reports is judged as a task that needs no commit.
    Loop(Isolation),
}

/// The verdict on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Reported and proven.
    Complete,
    /// Ended without a report.
    Incomplete,
    /// Reported, but nothing changed in git, or an output of the task is missing.
    Unverified,
    /// Reported, but a verify command did not succeed.
    VerifyFailed,
    /// Reported, but the work is not committed.
    Uncommitted,
    /// Reported, but HEAD left the branch or its history was rewritten.
    OffBranch,
    /// The process failed.
    Failed,
    /// The process reached its time limit.
    TimedOut,
    /// The task needs input from a person.
    NeedsInput,
    /// The run was stopped.
    Cancelled,
    /// `ralph` exited unexpectedly.
    Interrupted,
    /// The provider refused service for now.
    RateLimited,
    /// The provider or the agent refused permanently: no key, no credit, unknown model.
    Denied,
    /// A verify command fails without the work of the attempt as well, or its base cannot be checked
    /// out.
    BaselineBroken,
    /// A command that prepares the slot failed, so no agent was started.
    SetupFailed,
    /// Reported and committed, but in conflict with what has landed since.
    Conflict,
    /// Reported and committed, but git refuses to land the work.
    MergeFailed,
    /// Reported and verified, but a reviewer sent it back.
    Rejected,
    /// An iteration of a plain loop ended normally; the next one follows.
    Again,
}

impl Verdict {
    /// Judges an attempt. The report decides first, the proof second. The exit code only tells what
    /// went wrong, because real agents exit with 0 after errors and with 1 after good work.
    pub fn of(outcome: &Outcome, evidence: &Evidence, rule: Rule) -> Verdict {
        if evidence.report.is_none() {
            // A question stands, however the process ended.
            if evidence.question.is_some() {
                return Verdict::NeedsInput;
            }
            match evidence.obstacle.as_ref().map(ProviderError::advice) {
                Some(Advice::Wait { .. }) => return Verdict::RateLimited,
                Some(Advice::Stop(_)) => return Verdict::Denied,
                Some(Advice::Count) => return Verdict::Failed,
                None => {}
            }
            return match outcome {
                Outcome::NotStarted { .. } if evidence.setup.is_some() => Verdict::SetupFailed,
                Outcome::NotStarted { .. } if evidence.bad_base.is_some() => {
                    Verdict::BaselineBroken
                }
                Outcome::Exited { exit_code: WAITS } => Verdict::NeedsInput,
                Outcome::Exited { exit_code: 0 }
                | Outcome::Lingered { .. }
                | Outcome::Idle { .. }
                    if matches!(rule, Rule::Loop(_)) =>
                {
                    Verdict::Again
                }
                Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. } => {
                    Verdict::unreported()
                }
                Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::NotStarted { .. } => {
                    Verdict::Failed
                }
                Outcome::TimedOut { .. } | Outcome::Idle { .. } | Outcome::Exceeded { .. } => {
                    Verdict::TimedOut
                }
                Outcome::Cancelled | Outcome::OverCost => Verdict::Cancelled,
                Outcome::Interrupted | Outcome::Lost { .. } => Verdict::Interrupted,
            };
        }
        let is_proven = rule != Rule::Loop(Isolation::Checkout);
        if is_proven && !evidence.has_landed() {
            // Processes of the attempt were still running, so it had not finished.
            if let Some(verdict) = Verdict::of_cut_off(outcome) {
                return verdict;
            }
        }
        if is_proven && evidence.strayed.is_some() {
            return Verdict::OffBranch;
        }
        if is_proven && evidence.graph_fault.is_some() {
            return Verdict::Unverified;
        }
        if is_proven && !evidence.leftovers.is_empty() && outcome.is_at_limit() {
            // The agent was cut off during its last changes, so the report came too early.
            return Verdict::TimedOut;
        }
        if let Some(verdict) = Verdict::of_steps(evidence) {
            return verdict;
        }
        if evidence.review.as_ref().is_some_and(|review| review.sent_back) {
            return Verdict::Rejected;
        }
        let required = rule == Rule::Task(CommitRule::Required);
        match (required && !evidence.proves(), evidence.leftovers.is_empty()) {
            (false, _) if !evidence.missing.is_empty() => Verdict::Unverified,
            (false, _) => Verdict::Complete,
            (true, false) => Verdict::Uncommitted,
            (true, true) => Verdict::Unverified,
        }
    }

    /// The verdict on a reported attempt of which a step after the agent did not succeed: a verify
    /// command, landing, or the commit of its leftovers.
    fn of_steps(evidence: &Evidence) -> Option<Verdict> {
        // The merge queue takes a loss for red once it has started the command several times.
        let is_red = matches!(evidence.merge, Some(Merge::Red { .. }));
        let is_lost_here = |outcome: &Outcome| matches!(outcome, Outcome::Lost { executor, .. } if is_red && executor == LOCAL);
        let check = evidence.red().map(|check| {
            let cut_off = Verdict::of_cut_off(&check.outcome);
            cut_off.filter(|_| !is_lost_here(&check.outcome)).unwrap_or(Verdict::VerifyFailed)
        });
        let merge = match &evidence.merge {
            Some(Merge::Red { .. }) => Some(Verdict::VerifyFailed),
            Some(Merge::RedBase { .. }) => return Some(Verdict::BaselineBroken),
            // A command may have failed on the lines of both sides.
            Some(Merge::Conflict { .. }) => return Some(Verdict::Conflict),
            Some(Merge::Refused { .. }) => Some(Verdict::MergeFailed),
            Some(Merge::Landed { .. }) | None => None,
        };
        let commit = match &evidence.autocommit {
            Some(Autocommit::Refused(_) | Autocommit::Off) => Some(Verdict::Uncommitted),
            Some(Autocommit::Committed(_)) | None => None,
        };
        check.or(merge).or(commit)
    }

    /// The verdict on an attempt whose processes were still running when something else ended them.
    fn of_cut_off(outcome: &Outcome) -> Option<Verdict> {
        let is_lost = matches!(outcome, Outcome::Interrupted | Outcome::Lost { .. });
        let verdict = if is_lost { Verdict::Interrupted } else { Verdict::Cancelled };
        outcome.is_cut_off().then_some(verdict)
    }

    /// The verdict on an agent that ended well and did not report.
    fn unreported() -> Verdict {
        let believes = crate::known_bug::is_on("believe-the-exit-code");
        if believes { Verdict::Complete } else { Verdict::Incomplete }
    }

    /// Whether the attempt counts towards `max_attempts` of its task.
    pub fn counts(self) -> bool {
        self.limits().0
    }

    /// Whether it counts towards `max_iterations` of its run: not if refused or interrupted.
    pub fn uses_iteration(self) -> bool {
        self.limits().1
    }

    /// Whether it counts for its task, and for its run.
    fn limits(self) -> (bool, bool) {
        match self {
            Verdict::Incomplete
            | Verdict::Unverified
            | Verdict::VerifyFailed
            | Verdict::Uncommitted
            | Verdict::OffBranch
            | Verdict::Failed
            | Verdict::TimedOut
            | Verdict::SetupFailed
            | Verdict::MergeFailed => (true, true),
            Verdict::Interrupted => (crate::known_bug::is_on("count-interrupted-attempts"), false),
            Verdict::Complete
            | Verdict::NeedsInput
            | Verdict::Conflict
            | Verdict::Rejected
            | Verdict::Again => (false, true),
            Verdict::Cancelled
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::BaselineBroken => (false, false),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The same word as in JSON.
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::agents::provider_error::ProviderErrorKind;

    fn proof(report: bool, commits: usize, leftovers: usize, strayed: bool) -> Evidence {
        Evidence {
            report: report.then_some(Report::DoneFile),
            commits: vec![Commit { id: "a".into(), subject: String::new() }; commits],
            leftovers: vec!["f".to_owned(); leftovers],
            strayed: strayed.then(|| "HEAD was detached".to_owned()),
            ..Evidence::default()
        }
    }

    fn judge(table: impl IntoIterator<Item = (Outcome, Evidence, CommitRule, Verdict)>) {
        for (outcome, evidence, rule, want) in table {
            let verdict = Verdict::of(&outcome, &evidence, Rule::Task(rule));
            assert_eq!(verdict, want, "{outcome:?} {evidence:?}");
        }
    }

    #[test]
    fn an_iteration_of_a_plain_loop_needs_no_proof() {
        use Outcome::{Cancelled, Exited, Idle, Interrupted, Signaled, TimedOut};
        let (ok, bad) = (Exited { exit_code: 0 }, Exited { exit_code: 1 });
        let late = TimedOut { limit_seconds: 1 };
        let with = |report| Evidence { report: Some(report), ..proof(false, 0, 0, false) };
        let red = CheckResult {
            command: "make test".to_owned(),
            outcome: bad.clone(),
            duration_seconds: 1.0,
            last_line: None,
            no_test: false,
            log: String::new(),
        };
        for (outcome, evidence, want) in [
            (ok.clone(), proof(false, 0, 0, false), Verdict::Again),
            (ok.clone(), proof(false, 1, 1, true), Verdict::Again),
            (Idle { limit_seconds: 60 }, proof(false, 0, 1, false), Verdict::Again),
            (bad.clone(), proof(false, 1, 0, false), Verdict::Failed),
            (Signaled { signal: 9 }, proof(false, 0, 0, false), Verdict::Failed),
            (late.clone(), proof(false, 0, 0, false), Verdict::TimedOut),
            (Cancelled, proof(false, 0, 0, false), Verdict::Cancelled),
            (Interrupted, proof(false, 0, 0, false), Verdict::Interrupted),
            (Exited { exit_code: WAITS }, proof(false, 0, 0, false), Verdict::NeedsInput),
            (ok.clone(), proof(true, 0, 0, false), Verdict::Complete),
            (bad.clone(), proof(true, 0, 3, true), Verdict::Complete),
            (late, proof(true, 0, 3, false), Verdict::Complete),
            (Cancelled, with(Report::DoneFile), Verdict::Complete),
            (Exited { exit_code: WAITS }, with(Report::Promise), Verdict::Complete),
            (bad, with(Report::Pattern), Verdict::Complete),
            (ok, Evidence { verify: vec![red], ..with(Report::Pattern) }, Verdict::VerifyFailed),
        ] {
            let verdict = Verdict::of(&outcome, &evidence, Rule::Loop(Isolation::Checkout));
            assert_eq!(verdict, want, "{outcome:?} {evidence:?}");
        }
        assert!(!Verdict::Again.counts());
    }

    #[test]
    fn verdicts_follow_report_then_proof() {
        use Outcome::{Cancelled, Exited, Interrupted, NotStarted, Signaled, TimedOut};
        let (ok, bad) = (Exited { exit_code: 0 }, Exited { exit_code: 1 });
        let late = TimedOut { limit_seconds: 1 };
        let (req, opt) = (CommitRule::Required, CommitRule::Optional);
        let landed = |evidence| {
            let merge = Merge::Landed {
                branch: "main".to_owned(),
                commit: "c".into(),
                waits: false,
                resolved: Vec::new(),
            };
            Evidence { merge: Some(merge), ..evidence }
        };
        let table = vec![
            (ok.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (bad.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (late.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (Interrupted, proof(true, 1, 0, false), req, Verdict::Interrupted),
            (Interrupted, proof(true, 1, 0, true), req, Verdict::Interrupted),
            (Interrupted, landed(proof(true, 1, 0, false)), req, Verdict::Complete),
            (Cancelled, proof(true, 1, 0, false), req, Verdict::Cancelled),
            (ok.clone(), proof(true, 1, 1, false), req, Verdict::Complete),
            (ok.clone(), proof(true, 0, 0, false), opt, Verdict::Complete),
            (ok.clone(), proof(true, 0, 0, false), req, Verdict::Unverified),
            (ok.clone(), proof(true, 0, 2, false), req, Verdict::Uncommitted),
            (ok.clone(), proof(true, 1, 0, true), req, Verdict::OffBranch),
            (late.clone(), proof(true, 1, 1, false), req, Verdict::TimedOut),
            (Cancelled, proof(true, 1, 1, false), req, Verdict::Cancelled),
            (Interrupted, proof(true, 0, 1, false), req, Verdict::Interrupted),
            (ok, proof(false, 1, 0, false), req, Verdict::Incomplete),
            (bad, proof(false, 1, 0, false), req, Verdict::Failed),
            (Signaled { signal: 9 }, proof(false, 0, 0, false), req, Verdict::Failed),
            (NotStarted { error: "x".to_owned() }, proof(false, 0, 0, false), req, Verdict::Failed),
            (late, proof(false, 1, 0, false), req, Verdict::TimedOut),
            (Cancelled, proof(false, 0, 0, false), req, Verdict::Cancelled),
            (Interrupted, proof(false, 0, 0, false), req, Verdict::Interrupted),
        ];
        let hollow = |leftovers| {
            let diff = Some(DiffStat::default());
            Evidence { diff, ..proof(true, 1, leftovers, false) }
        };
        let empty = [
            (Exited { exit_code: 0 }, hollow(0), req, Verdict::Unverified),
            (Exited { exit_code: 0 }, hollow(1), req, Verdict::Uncommitted),
            (Exited { exit_code: 0 }, hollow(0), opt, Verdict::Complete),
        ];
        judge(table.into_iter().chain(empty));
    }

    #[test]
    fn a_failed_verify_command_decides() {
        use Outcome::{Cancelled, Exited, Interrupted, NotStarted, TimedOut};
        let req = CommitRule::Required;
        let checked = |report, outcomes: &[Outcome]| {
            let check = |outcome: &Outcome| CheckResult {
                command: "make test".to_owned(),
                outcome: outcome.clone(),
                duration_seconds: 1.0,
                last_line: None,
                no_test: false,
                log: String::new(),
            };
            Evidence { verify: outcomes.iter().map(check).collect(), ..proof(report, 1, 0, false) }
        };
        let (green, red) = (Exited { exit_code: 0 }, Exited { exit_code: 1 });
        let unready = NotStarted { error: "baseline broken".to_owned() };
        judge([
            (green.clone(), checked(true, &[green.clone(), green.clone()]), req, Verdict::Complete),
            (
                green.clone(),
                checked(true, &[green.clone(), red.clone()]),
                req,
                Verdict::VerifyFailed,
            ),
            (
                green.clone(),
                checked(true, &[TimedOut { limit_seconds: 1 }]),
                req,
                Verdict::VerifyFailed,
            ),
            (green.clone(), checked(true, &[Cancelled]), req, Verdict::Cancelled),
            (green.clone(), checked(true, &[Interrupted]), req, Verdict::Interrupted),
            (
                green,
                Evidence {
                    commits: Vec::new(),
                    leftovers: vec!["f".to_owned()],
                    ..checked(true, &[red])
                },
                req,
                Verdict::VerifyFailed,
            ),
            (
                unready,
                Evidence { bad_base: Some("no submodule".to_owned()), ..Evidence::default() },
                req,
                Verdict::BaselineBroken,
            ),
        ]);
    }

    #[test]
    fn a_question_needs_input_unless_the_task_is_reported() {
        use Outcome::{Exited, Interrupted, TimedOut};
        let req = CommitRule::Required;
        let asks = |report| Evidence {
            question: Some("which one?".to_owned()),
            ..proof(report, usize::from(report), 0, false)
        };
        let (waits, late) = (Exited { exit_code: WAITS }, TimedOut { limit_seconds: 1 });
        judge([
            (waits.clone(), proof(false, 1, 1, false), req, Verdict::NeedsInput),
            (waits.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (waits.clone(), proof(true, 0, 0, false), req, Verdict::Unverified),
            (waits, asks(true), req, Verdict::Complete),
            (Exited { exit_code: 0 }, asks(false), req, Verdict::NeedsInput),
            (late, asks(false), req, Verdict::NeedsInput),
            (Interrupted, asks(false), req, Verdict::NeedsInput),
        ]);
    }

    #[test]
    fn a_refusal_before_the_last_prompt_stays_the_reason() {
        let refused = Some("reported done, but it adds `.env`".to_owned());
        let evidence = Evidence { refused, ..proof(false, 1, 0, false) };
        let why = Verdict::Incomplete.explain(&Outcome::Exited { exit_code: 0 }, &evidence);
        assert_eq!(why, "reported done, but it adds `.env`; it was not reported done again");
    }

    #[test]
    fn a_command_that_kills_its_guardian_each_time_is_red_here_and_lost_elsewhere() {
        let red = |merge, executor| {
            let lost = Outcome::lost(executor, "its guardian was killed");
            let check = CheckResult {
                command: "make test".to_owned(),
                outcome: lost,
                duration_seconds: 1.0,
                last_line: None,
                no_test: false,
                log: String::new(),
            };
            let evidence = Evidence { verify: vec![check], merge, ..proof(true, 1, 0, false) };
            let exited = Outcome::Exited { exit_code: 0 };
            Verdict::of(&exited, &evidence, Rule::Task(CommitRule::Required))
        };
        let (branch, onto) = ("main".to_owned(), CommitId::from("0"));
        let queued = Merge::Red { branch, onto, already: false, flaky: false };
        assert_eq!(red(Some(queued.clone()), None), Verdict::VerifyFailed);
        assert_eq!(red(Some(queued), Some("host")), Verdict::Interrupted);
        assert_eq!(red(None, None), Verdict::Interrupted);
    }

    #[test]
    fn work_that_did_not_land_is_not_complete_whatever_its_checks_say() {
        let (branch, onto) = ("main".to_owned(), CommitId::from("0"));
        let merges = [
            (
                Merge::Red {
                    branch: branch.clone(),
                    onto: onto.clone(),
                    already: false,
                    flaky: false,
                },
                Verdict::VerifyFailed,
            ),
            (
                Merge::Conflict { branch: branch.clone(), onto: onto.clone(), paths: Vec::new() },
                Verdict::Conflict,
            ),
            (Merge::Refused { branch: branch.clone(), why: String::new() }, Verdict::MergeFailed),
            (
                Merge::Landed { branch, commit: onto, waits: false, resolved: Vec::new() },
                Verdict::Complete,
            ),
        ];
        for (merge, verdict) in merges {
            let evidence = Evidence { merge: Some(merge), ..proof(true, 1, 0, false) };
            let exited = Outcome::Exited { exit_code: 0 };
            assert_eq!(Verdict::of(&exited, &evidence, Rule::Task(CommitRule::Required)), verdict);
        }
    }

    #[test]
    fn missing_outputs_and_refused_commits_fail() {
        use Outcome::Exited;
        let (req, opt) = (CommitRule::Required, CommitRule::Optional);
        let lacks = |leftovers, commits| Evidence {
            missing: vec!["there is no `x`".to_owned()],
            ..proof(true, commits, leftovers, false)
        };
        let refused = |report, commits| Evidence {
            autocommit: Some(Autocommit::Refused("no".to_owned())),
            ..proof(report, commits, 1, false)
        };
        judge([
            (Exited { exit_code: 0 }, lacks(0, 1), req, Verdict::Unverified),
            (Exited { exit_code: 0 }, lacks(0, 0), opt, Verdict::Unverified),
            (Exited { exit_code: 0 }, lacks(1, 0), req, Verdict::Uncommitted),
            (Exited { exit_code: 0 }, refused(true, 1), req, Verdict::Uncommitted),
            (Exited { exit_code: 0 }, refused(true, 0), opt, Verdict::Uncommitted),
        ]);
    }

    #[test]
    fn a_provider_error_is_not_the_failure_of_the_task() {
        use Outcome::{Exited, Lingered};
        let req = CommitRule::Required;
        let refused = |report, obstacle, until| Evidence {
            obstacle: Some(ProviderError { obstacle, until }),
            ..proof(report, usize::from(report), 0, false)
        };
        let (bad, later) = (Exited { exit_code: 1 }, Some(DateTime::UNIX_EPOCH));
        let limit = ProviderErrorKind::UsageLimit { resets_at: later, window: None };
        judge([
            (bad.clone(), refused(false, limit, later), req, Verdict::RateLimited),
            (
                bad.clone(),
                refused(false, ProviderErrorKind::Network, later),
                req,
                Verdict::RateLimited,
            ),
            (
                bad.clone(),
                refused(false, ProviderErrorKind::Authentication, None),
                req,
                Verdict::Denied,
            ),
            (bad.clone(), refused(false, ProviderErrorKind::Model, None), req, Verdict::Denied),
            (bad.clone(), refused(false, ProviderErrorKind::TooLong, None), req, Verdict::Failed),
            (bad, refused(true, limit, later), req, Verdict::Complete),
            (Lingered { limit_seconds: 30 }, proof(true, 1, 1, false), req, Verdict::Complete),
            (Lingered { limit_seconds: 30 }, proof(false, 1, 0, false), req, Verdict::Incomplete),
        ]);
        let counted = [Verdict::RateLimited, Verdict::Denied].map(Verdict::counts);
        assert_eq!(counted, [false, false]);
    }
}
