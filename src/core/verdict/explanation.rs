//! Verdicts in words, for people and for the next prompt.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{Autocommit, Evidence, Merge, OtherBranch, Outcome, Report, Verdict};
use crate::task_id::TaskId;

/// What work lacks that a reviewer sent back.
pub const FINDINGS: &str = "findings of a reviewer";

impl Verdict {
    /// What another prompt in the conversation of its agent may bring, in a few words; none if nothing.
    pub fn lack(self) -> Option<&'static str> {
        match self {
            Verdict::Incomplete => Some("no report"),
            Verdict::VerifyFailed => Some("verify failed"),
            Verdict::Unverified => Some("no proof of work"),
            Verdict::Uncommitted => Some("uncommitted changes"),
            Verdict::Rejected => Some(FINDINGS),
            Verdict::Complete
            | Verdict::OffBranch
            | Verdict::Failed
            | Verdict::TimedOut
            | Verdict::NeedsInput
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::BaselineBroken
            | Verdict::SetupFailed
            | Verdict::Conflict
            | Verdict::MergeFailed
            | Verdict::Again => None,
        }
    }

    /// Explains the verdict, for people and for the next prompt.
    pub fn explain(self, outcome: &Outcome, evidence: &Evidence) -> String {
        let mut why = self.explain_alone(outcome, evidence);
        // A person's commits say nothing about work that passed, or that a limit cut off.
        let may_be_work = matches!(self, Verdict::Unverified | Verdict::Incomplete);
        let apart = evidence.apart.iter().filter(|it| it.checkout.is_none() || may_be_work);
        for OtherBranch { branch, commit, commits, checkout } in apart {
            let short = commit.short();
            let _ = match (branch.as_str(), checkout, commits) {
                (_, Some(folder), count) => write!(
                    why,
                    "; {count} commit{} made meanwhile on `{branch}` in `{folder}`, which is not its \
                     slot: if that is its work, `git merge {short}` in the slot takes it",
                    if *count == 1 { " was" } else { "s were" }
                ),
                ("stash", None, _) => {
                    write!(why, "; a stash is kept, `git stash apply {short}` takes it")
                }
                (_, None, 1) => write!(
                    why,
                    "; a commit on its branch `{branch}` is kept, `git merge {short}` takes it"
                ),
                (_, None, count) => write!(
                    why,
                    "; {count} commits on its branch `{branch}` are kept, `git merge {short}` takes \
                     them"
                ),
            };
        }
        if may_be_work && !evidence.touched.is_empty() {
            let files = first_names(&evidence.touched);
            let _ = write!(
                why,
                "; meanwhile {files} changed, outside its slot: only work in the slot, where its agent \
                 starts, counts"
            );
        }
        if let Some(said) = &evidence.not_resumed {
            let _ = write!(why, "; its conversation could not be resumed: {said}");
        }
        why
    }

    fn explain_alone(self, outcome: &Outcome, evidence: &Evidence) -> String {
        let left = evidence.leftovers.len();
        match self {
            Verdict::Complete => evidence.proof(),
            Verdict::VerifyFailed => {
                let report = evidence.report.unwrap_or(Report::DoneFile);
                let red = evidence.red().map(ToString::to_string);
                let red = red.unwrap_or_else(|| "a verify command failed".to_owned());
                let place = evidence.merge.as_ref().map_or_else(String::new, Merge::red);
                format!("{report}, but {red}{place}")
            }
            Verdict::BaselineBroken => evidence.baseline(),
            Verdict::SetupFailed => evidence
                .setup
                .as_ref()
                .map_or_else(String::new, |check| format!("setup command {check}")),
            Verdict::Conflict | Verdict::MergeFailed => match &evidence.merge {
                Some(Merge::Conflict { branch, paths, .. }) => {
                    let red = evidence
                        .red()
                        .map_or_else(String::new, |red| format!("; with that resolved, {red}"));
                    let paths = paths.join(", ");
                    format!("reported done, but it conflicts with `{branch}`: {paths}{red}")
                }
                Some(Merge::Refused { branch, why }) => {
                    format!("reported done, but it cannot land on `{branch}`: {why}")
                }
                _ => "reported done, but it did not land".to_owned(),
            },
            Verdict::Incomplete => match &evidence.done_folder {
                Some(folder) => format!(
                    "ended without a report: `{folder}` is a folder, and only a file of that name \
                     is one; remove the folder, and report with `ralph task-complete`"
                ),
                None => evidence.unreported(),
            },
            Verdict::Unverified => format!("reported done, but {}", evidence.gap()),
            Verdict::Uncommitted => {
                let plural = if left == 1 { "" } else { "s" };
                let refused = match &evidence.autocommit {
                    Some(Autocommit::Refused(why)) => format!(" (commit failed: {why})"),
                    _ => String::new(),
                };
                format!("reported done, but left {left} changed file{plural} uncommitted{refused}")
            }
            Verdict::OffBranch => format!(
                "reported done, but {}",
                evidence.strayed.as_deref().unwrap_or("HEAD left the branch")
            ),
            Verdict::Rejected => {
                let review = evidence.review.as_ref().map(ToString::to_string);
                format!("reported done, but {}", review.unwrap_or_default())
            }
            Verdict::NeedsInput => "needs input".to_owned(),
            Verdict::Cancelled | Verdict::Interrupted if evidence.report.is_some() => {
                match evidence.red() {
                    Some(red) if matches!(red.outcome, Outcome::Lost { .. }) => {
                        format!("reported done, but {red}")
                    }
                    _ => format!("reported done, but {}", cut_off(outcome)),
                }
            }
            Verdict::Failed
            | Verdict::TimedOut
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::Again => match (&evidence.obstacle, outcome) {
                // The outcome has the reason.
                (Some(error), Outcome::NotStarted { error: why }) => {
                    format!("{}: {why}", error.obstacle)
                }
                (Some(error), _) => error.obstacle.to_string(),
                (None, _) => outcome.to_string(),
            },
        }
    }
}

impl Evidence {
    /// That there is no report; after a follow-up, a command may have failed before.
    fn unreported(&self) -> String {
        match (self.red(), &self.refused) {
            (Some(red), _) => format!("{red}, and it was not reported done again"),
            (None, Some(why)) => format!("{why}; it was not reported done again"),
            (None, None) => "ended without reporting that the task is done".to_owned(),
        }
    }

    /// What fails without the work of the attempt as well.
    fn baseline(&self) -> String {
        let red = || self.red().map_or_else(String::new, ToString::to_string);
        match (&self.bad_base, &self.merge) {
            (Some(why), _) => why.clone(),
            (None, Some(Merge::RedBase { branch, onto })) => {
                let onto = onto.short();
                format!("{}, with the work of several tasks and on `{branch}` at {onto}", red())
            }
            (None, _) => red(),
        }
    }

    /// A description of the proof that the task is complete.
    fn proof(&self) -> String {
        let proof = match (&self.autocommit, self.added.len()) {
            (Some(_), _) => "; ralph committed what was left".to_owned(),
            (None, _) if self.commits.is_empty() && self.earlier.is_some() => {
                ", and an earlier attempt committed it".to_owned()
            }
            (None, _) if self.commits_changes() => ", and committed".to_owned(),
            (None, count @ 1..) => {
                let plural = if count == 1 { "" } else { "s" };
                format!(", and added {count} task{plural}")
            }
            (None, 0) => "; no commit is required".to_owned(),
        };
        let report = self.report.unwrap_or(Report::DoneFile);
        let mut why = format!("{report}{proof}");
        if let count @ 1.. = self.verify.len() {
            let plural = if count == 1 { "" } else { "s" };
            let _ = write!(why, "; {count} verify command{plural} succeeded");
            let idle: BTreeSet<&str> = { self.verify.iter().filter(|check| check.no_test) }
                .map(|check| check.command.as_str())
                .collect();
            for command in idle {
                let _ = write!(why, ", but no test ran in `{command}`");
            }
        }
        why.push_str(&self.merge.as_ref().map(Merge::landed).unwrap_or_default());
        for remark in self.remarks() {
            let _ = write!(why, "; it {remark}");
        }
        if let Some(review) = &self.review {
            let _ = write!(why, "; {review}");
        }
        why
    }

    /// What a person should look at in work that passed, as predicates: it changed what checks it, or
    /// takes back other work.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let count @ 1.. = self.pulled.len() {
            let subjects: Vec<&str> = self.pulled.iter().map(|it| &*it.subject).collect();
            let plural = if count == 1 { "" } else { "s" };
            let what = first_names(&subjects);
            remarks.push(format!(
                "pulled {count} commit{plural} of others, on which its work is: {what}"
            ));
        }
        if !self.verify_inputs_changed.is_empty() {
            let files = first_names(&self.verify_inputs_changed);
            remarks.push(format!("changed files that decide what is checked: {files}"));
        }
        if let count @ 1.. = self.tests_changed.len() {
            let plural = if count == 1 { "" } else { "s" };
            remarks.push(format!("changed {count} existing test file{plural}"));
        }
        if !self.takes_back.is_empty() {
            let tasks: Vec<&str> = self.takes_back.iter().map(TaskId::as_str).collect();
            remarks.push(format!("takes back the landed work of {}", first_names(&tasks)));
        }
        if !self.left_besides.is_empty() {
            let files = first_names(&self.left_besides);
            remarks.push(format!("left files besides its commits, which ralph committed: {files}"));
        }
        if !self.bulk.is_empty() {
            remarks.push(format!("has new large or binary files: {}", self.bulk.join(", ")));
        }
        remarks
    }

    /// Whether it was reported done although nothing changed in git, and nothing else is amiss: its work
    /// may be there already.
    pub fn changed_nothing(&self) -> bool {
        self.report.is_some()
            && self.commits.is_empty()
            && self.missing.is_empty()
            && self.graph_fault.is_none()
            && self.added_besides == 0
    }

    /// Whether its checks pass besides: then its work is there already, as far as they can see.
    pub fn passes_unchanged(&self) -> bool {
        self.changed_nothing() && !self.verify.is_empty() && self.red().is_none()
    }

    /// Explains what is missing for the proof that the task is complete.
    fn gap(&self) -> String {
        if let Some(fault) = &self.graph_fault {
            format!("it left a graph that `ralph check` refuses: {fault}")
        } else if !self.missing.is_empty() {
            self.missing.join(", ")
        } else if self.added_besides > 0 {
            "it only added tasks; the `output` of a task that is done by new tasks names the graph \
             file"
                .to_owned()
        } else if self.metadata_only {
            "its commits change only the graph or notes".to_owned()
        } else if self.passes_unchanged() {
            "nothing changed in git, and its checks pass without a change".to_owned()
        } else if self.commits.is_empty() {
            "nothing changed in git".to_owned()
        } else {
            "its commits change no file".to_owned()
        }
    }
}

/// The first names, quoted, and the number of the others.
pub fn first_names<T: AsRef<str>>(all: &[T]) -> String {
    /// The names that are shown.
    const FEW: usize = 3;
    let shown: Vec<String> =
        all.iter().take(FEW).map(|name| format!("`{}`", name.as_ref())).collect();
    let more = all.len().saturating_sub(FEW);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Explains why an attempt that reported is not judged.
fn cut_off(outcome: &Outcome) -> String {
    if *outcome == Outcome::Cancelled {
        "the run was stopped before its processes ended".to_owned()
    } else if *outcome == Outcome::Interrupted {
        "ralph exited before its processes ended".to_owned()
    } else if outcome.is_cut_off() {
        outcome.to_string()
    } else {
        "it was not verified before the run ended".to_owned()
    }
}
