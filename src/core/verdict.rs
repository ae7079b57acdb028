//! How an attempt went: the outcome of its process, the evidence in git, the judgement on both.
//!
//! Three types, because "exit 0", "made a commit" and "the task is done" are three facts, and a
//! runner that blurs them loops for ever or stops too soon. All pure.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

pub use crate::core::outcome::Outcome;
use crate::core::{
    agents::provider_error::{Advice, ProviderError},
    commit_id::CommitId,
    graph::task::CommitRule,
};

/// How the agent said that it is done. An exit code is never such a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// `ralph task-complete ID`.
    Command,
    /// The file `DONE` in the task's folder.
    DoneFile,
    /// The graph file's own `status: complete`.
    Graph,
    /// The text of a promise in the final result; in a plain loop only.
    Promise,
    /// What the done pattern matches in the final result; in a plain loop only.
    Pattern,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Report::Command | Report::DoneFile | Report::Graph => "reported done",
            Report::Promise => "promised that all is done",
            Report::Pattern => "done pattern matched",
        })
    }
}

/// The exit code by which an agent says that it waits for a person and must not be started again.
pub const WAITS: i32 = 42;

/// One commit of the agent's.
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

/// How much changed between two commits.
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

/// One verify command, as `ralph` ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command, for a shell.
    pub command: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// The last line of its output that is not blank, cut to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// Where its output lies, relative to the repository.
    pub log: String,
}

impl CheckResult {
    /// Whether it succeeded.
    pub fn is_green(&self) -> bool {
        self.outcome == Outcome::Exited { exit_code: 0 }
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.command, self.outcome)
    }
}

/// What became of an attempt's leftovers when `ralph` went to commit them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Autocommit {
    /// They are in the commit with this id.
    Committed(String),
    /// Git or a hook refused; the reason.
    Refused(String),
    /// It is not for `ralph` to commit them, and they were left beside the agent's own commits.
    Off,
}

/// What became of the branch of an attempt that had a work tree to itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Merge {
    /// Its work is in the target branch.
    Landed {
        /// The target branch.
        branch: String,
        /// The last commit of its work there.
        commit: String,
    },
    /// It does not fit to what is in the target branch by now.
    Conflict {
        /// The target branch.
        branch: String,
        /// Where it was.
        onto: String,
        /// The files in conflict.
        paths: Vec<String>,
    },
    /// Together with what is in the target branch by now, a verify command does not succeed.
    Red {
        /// The target branch.
        branch: String,
        /// Where it was.
        onto: String,
    },
    /// Git refused.
    Refused {
        /// The target branch.
        branch: String,
        /// In git's words.
        why: String,
    },
}

/// What the repository and the graph show after an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How completion was reported, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// New commits that descend from the base, oldest first.
    #[serde(default)]
    pub commits: Vec<Commit>,
    /// What they changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
    /// Paths that are changed and not committed, and were not so before the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// What happened to the branch, when it is not where a descendant of the base would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strayed: Option<String>,
    /// The verify commands that were run, up to the first that did not succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<CheckResult>,
    /// What the agent asks a person and waits for; empty where it waits without a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Whether `ralph` committed what was left, where it tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autocommit: Option<Autocommit>,
    /// What of the task's `output` is not there, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Git's hooks and settings that changed while the attempt ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tampered: Vec<String>,
    /// Paths that were there before and that the task's `verify` commands name, changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify_inputs_changed: Vec<String>,
    /// Whether its commits change nothing but what is there to run the tasks: the graph, notes.
    #[serde(default, skip_serializing_if = "is_off")]
    pub metadata_only: bool,
    /// The command of `setup` that did not succeed, after which no agent was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<CheckResult>,
    /// What became of its branch, where it had one of its own and was good by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
    /// What kept the agent from working, if it was not its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<ProviderError>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_off(flag: &bool) -> bool {
    !*flag
}

impl Evidence {
    /// The verify command that did not succeed, if one was run that did not.
    pub fn red(&self) -> Option<&CheckResult> {
        self.verify.iter().find(|check| !check.is_green())
    }

    /// What proves that a task is complete, in words.
    fn proof(&self) -> String {
        let proof = match self.autocommit {
            Some(_) => "; ralph committed what was left",
            None if self.proves() => ", and committed",
            None => "; no commit is required",
        };
        let report = self.report.unwrap_or(Report::Command);
        let mut why = format!("{report}{proof}");
        if let count @ 1.. = self.verify.len() {
            let plural = if count == 1 { "" } else { "s" };
            let _ = write!(why, "; {count} verify command{plural} succeeded");
        }
        if let Some(Merge::Landed { branch, .. }) = &self.merge {
            let _ = write!(why, "; merged into `{branch}`");
        }
        why
    }

    /// Whether something was committed. Commits that change nothing between them are no proof.
    fn proves(&self) -> bool {
        let changes = self.diff.is_none_or(|diff| diff.files > 0) && !self.metadata_only;
        !self.commits.is_empty() && changes
    }
}

/// What an attempt is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An attempt at a task of the graph: a report, and a commit as the task says.
    Task(CommitRule),
    /// An iteration of a plain loop: nothing. One that reports is the last, and any other is
    /// followed by the next.
    Loop,
}

/// The judgement on an attempt.
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
    /// Reported, but the branch was left or its history rewritten.
    OffBranch,
    /// The process failed.
    Failed,
    /// It reached its limit.
    TimedOut,
    /// It waits for a person's answer.
    NeedsInput,
    /// The run was stopped.
    Cancelled,
    /// The runner died.
    Interrupted,
    /// The provider gave no service for now.
    RateLimited,
    /// The provider or the agent refused for good: no key, no credit, no such model.
    Denied,
    /// A verify command did not succeed before the agent was started, which it then was not.
    BaselineBroken,
    /// A command that prepares the work tree did not succeed, so that no agent was started in it.
    SetupFailed,
    /// Reported and proven in its own work tree, but it cannot be merged.
    MergeFailed,
    /// An iteration of a plain loop that ended as iterations do: the next follows.
    Again,
}

impl Verdict {
    /// Judges. The report decides first, the proof second; the exit code only names what went
    /// wrong, since real agents exit 0 after errors and 1 after good work.
    pub fn of(outcome: &Outcome, evidence: &Evidence, rule: Rule) -> Verdict {
        if evidence.report.is_none() {
            // A question that was asked stands, however the process ended afterwards.
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
                Outcome::NotStarted { .. } if evidence.red().is_some() => Verdict::BaselineBroken,
                Outcome::Exited { exit_code: WAITS } => Verdict::NeedsInput,
                Outcome::Exited { exit_code: 0 }
                | Outcome::Lingered { .. }
                | Outcome::Idle { .. }
                    if rule == Rule::Loop =>
                {
                    Verdict::Again
                }
                Outcome::Exited { exit_code: 0 } | Outcome::Lingered { .. } => Verdict::Incomplete,
                Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::NotStarted { .. } => {
                    Verdict::Failed
                }
                Outcome::TimedOut { .. } | Outcome::Idle { .. } => Verdict::TimedOut,
                Outcome::Cancelled => Verdict::Cancelled,
                Outcome::Interrupted => Verdict::Interrupted,
            };
        }
        let is_task = rule != Rule::Loop;
        if is_task && evidence.strayed.is_some() {
            return Verdict::OffBranch;
        }
        if is_task && !evidence.leftovers.is_empty() {
            // Cut short in the middle of its last changes: the report came too early.
            match outcome {
                Outcome::TimedOut { .. } | Outcome::Idle { .. } => return Verdict::TimedOut,
                Outcome::Cancelled => return Verdict::Cancelled,
                Outcome::Interrupted => return Verdict::Interrupted,
                Outcome::Exited { .. }
                | Outcome::Signaled { .. }
                | Outcome::Lingered { .. }
                | Outcome::NotStarted { .. } => {}
            }
        }
        match evidence.red() {
            None => {}
            Some(CheckResult { outcome: Outcome::Cancelled, .. }) => return Verdict::Cancelled,
            Some(CheckResult { outcome: Outcome::Interrupted, .. }) => return Verdict::Interrupted,
            Some(_) => return Verdict::VerifyFailed,
        }
        if let Some(Merge::Conflict { .. } | Merge::Refused { .. }) = &evidence.merge {
            return Verdict::MergeFailed;
        }
        if matches!(evidence.autocommit, Some(Autocommit::Refused(_) | Autocommit::Off)) {
            return Verdict::Uncommitted;
        }
        let required = rule == Rule::Task(CommitRule::Required);
        match (required && !evidence.proves(), evidence.leftovers.is_empty()) {
            (false, _) if !evidence.missing.is_empty() => Verdict::Unverified,
            (false, _) => Verdict::Complete,
            (true, false) => Verdict::Uncommitted,
            (true, true) => Verdict::Unverified,
        }
    }

    /// Whether the attempt uses up one of the task's.
    pub fn counts(self) -> bool {
        matches!(
            self,
            Verdict::Incomplete
                | Verdict::Unverified
                | Verdict::VerifyFailed
                | Verdict::Uncommitted
                | Verdict::OffBranch
                | Verdict::Failed
                | Verdict::TimedOut
                | Verdict::SetupFailed
                | Verdict::MergeFailed
        )
    }

    /// The judgement in words, for people and for the next prompt.
    pub fn explain(self, outcome: &Outcome, evidence: &Evidence) -> String {
        let left = evidence.leftovers.len();
        match self {
            Verdict::Complete => evidence.proof(),
            Verdict::VerifyFailed => {
                let report = evidence.report.unwrap_or(Report::Command);
                let red = evidence.red().map_or_else(String::new, ToString::to_string);
                let merged = match &evidence.merge {
                    Some(Merge::Red { branch, .. }) => format!("merged with `{branch}` "),
                    _ => String::new(),
                };
                format!("{report}, but {merged}{red}")
            }
            Verdict::BaselineBroken => format!(
                "{} before the attempt",
                evidence.red().map_or_else(String::new, ToString::to_string)
            ),
            Verdict::SetupFailed => evidence.setup.as_ref().map_or_else(String::new, |check| {
                format!("{check}, which was to prepare its work tree")
            }),
            Verdict::MergeFailed => match &evidence.merge {
                Some(Merge::Conflict { branch, paths, .. }) => format!(
                    "reported done, but it conflicts with what is on `{branch}` by now: {}",
                    paths.join(", ")
                ),
                Some(Merge::Refused { branch, why }) => {
                    format!("reported done, but it cannot be merged into `{branch}`: {why}")
                }
                _ => "reported done, but not merged".to_owned(),
            },
            Verdict::Incomplete => "ended without reporting that the task is done".to_owned(),
            Verdict::Unverified if !evidence.missing.is_empty() => {
                format!("reported done, but {}", evidence.missing.join(", "))
            }
            Verdict::Unverified if evidence.metadata_only => {
                "reported done, but its commits change only the graph or notes".to_owned()
            }
            Verdict::Unverified if !evidence.commits.is_empty() => {
                "reported done, but its commits change no file".to_owned()
            }
            Verdict::Unverified => "reported done, but nothing changed in git".to_owned(),
            Verdict::Uncommitted => {
                let plural = if left == 1 { "" } else { "s" };
                let refused = match &evidence.autocommit {
                    Some(Autocommit::Refused(why)) => format!(", which could not be: {why}"),
                    _ => String::new(),
                };
                format!("reported done, but left {left} changed file{plural} uncommitted{refused}")
            }
            Verdict::OffBranch => format!(
                "reported done, but {}",
                evidence.strayed.as_deref().unwrap_or("the branch was left")
            ),
            Verdict::NeedsInput => "waits for a person".to_owned(),
            Verdict::Failed
            | Verdict::TimedOut
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::Again => match &evidence.obstacle {
                Some(met) => met.obstacle.to_string(),
                None => outcome.to_string(),
            },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Complete => "complete",
            Verdict::Incomplete => "incomplete",
            Verdict::Unverified => "unverified",
            Verdict::VerifyFailed => "verify-failed",
            Verdict::Uncommitted => "uncommitted",
            Verdict::OffBranch => "off-branch",
            Verdict::Failed => "failed",
            Verdict::TimedOut => "timed-out",
            Verdict::NeedsInput => "needs-input",
            Verdict::Cancelled => "cancelled",
            Verdict::Interrupted => "interrupted",
            Verdict::RateLimited => "rate-limited",
            Verdict::Denied => "denied",
            Verdict::BaselineBroken => "baseline-broken",
            Verdict::SetupFailed => "setup-failed",
            Verdict::MergeFailed => "merge-failed",
            Verdict::Again => "again",
        })
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::core::agents::provider_error::ProviderErrorKind;

    fn proof(report: bool, commits: usize, leftovers: usize, strayed: bool) -> Evidence {
        Evidence {
            report: report.then_some(Report::Command),
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
    fn an_iteration_of_a_plain_loop_is_held_to_nothing() {
        use Outcome::{Cancelled, Exited, Idle, Interrupted, Signaled, TimedOut};
        let (ok, bad) = (Exited { exit_code: 0 }, Exited { exit_code: 1 });
        let late = TimedOut { limit_seconds: 1 };
        let with = |report| Evidence { report: Some(report), ..proof(false, 0, 0, false) };
        let red = CheckResult {
            command: "make test".to_owned(),
            outcome: bad.clone(),
            duration_seconds: 1.0,
            last_line: None,
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
            let verdict = Verdict::of(&outcome, &evidence, Rule::Loop);
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
        let table = [
            (ok.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (bad.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (late.clone(), proof(true, 1, 0, false), req, Verdict::Complete),
            (Interrupted, proof(true, 1, 0, false), req, Verdict::Complete),
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
    fn a_verify_command_has_the_last_word() {
        use Outcome::{Cancelled, Exited, Interrupted, NotStarted, TimedOut};
        let req = CommitRule::Required;
        let checked = |report, outcomes: &[Outcome]| {
            let check = |outcome: &Outcome| CheckResult {
                command: "make test".to_owned(),
                outcome: outcome.clone(),
                duration_seconds: 1.0,
                last_line: None,
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
                    ..checked(true, std::slice::from_ref(&red))
                },
                req,
                Verdict::VerifyFailed,
            ),
            (unready, checked(false, &[red]), req, Verdict::BaselineBroken),
        ]);
    }

    #[test]
    fn a_question_waits_unless_the_task_is_reported() {
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
    fn outputs_must_be_there_and_hooks_must_agree() {
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
    fn an_obstacle_is_not_the_tasks_failure() {
        use Outcome::{Exited, Lingered};
        let req = CommitRule::Required;
        let met = |report, obstacle, until| Evidence {
            obstacle: Some(ProviderError { obstacle, until }),
            ..proof(report, usize::from(report), 0, false)
        };
        let (bad, later) = (Exited { exit_code: 1 }, Some(DateTime::UNIX_EPOCH));
        let limit = ProviderErrorKind::UsageLimit { resets_at: later };
        judge([
            (bad.clone(), met(false, limit, later), req, Verdict::RateLimited),
            (bad.clone(), met(false, ProviderErrorKind::Network, later), req, Verdict::RateLimited),
            (
                bad.clone(),
                met(false, ProviderErrorKind::Authentication, None),
                req,
                Verdict::Denied,
            ),
            (bad.clone(), met(false, ProviderErrorKind::Model, None), req, Verdict::Denied),
            (bad.clone(), met(false, ProviderErrorKind::TooLong, None), req, Verdict::Failed),
            (bad, met(true, limit, later), req, Verdict::Complete),
            (Lingered { limit_seconds: 30 }, proof(true, 1, 1, false), req, Verdict::Complete),
            (Lingered { limit_seconds: 30 }, proof(false, 1, 0, false), req, Verdict::Incomplete),
        ]);
        let counted = [Verdict::RateLimited, Verdict::Denied].map(Verdict::counts);
        assert_eq!(counted, [false, false]);
    }
}
