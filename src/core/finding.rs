//! Findings: the remarks of `ralph check --strict` on tasks, and those of `ralph doctor` and
//! `ralph init` on a setup. One table has all their texts; a command shows its own findings.

use crate::exit::Exit;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingLevel {
    /// No problem.
    Ok,
    /// A valid task that would waste a run: a rule of `ralph check --strict`.
    Remark,
    /// A run would start and might fail later.
    Warning,
    /// A run would start, but its completions would mean nothing.
    Error,
    /// A run would end with this exit code.
    Fault(Exit),
}

/// The texts of a kind of finding. A `{}` is a place for a name or a number.
#[derive(Debug)]
struct FindingTexts {
    /// The subject; for a remark the name of the rule.
    subject: &'static str,
    level: FindingLevel,
    message: &'static str,
    /// Why it matters.
    why: &'static str,
    remedy: &'static str,
}

/// Makes [`FindingKind`] and its table.
macro_rules! findings {
    ($($kind:ident $level:expr, $subject:literal: $message:literal $(because $why:literal)?
        => $remedy:literal;)*) => {
        /// A kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FindingKind {
            $(#[doc = $message] $kind,)*
        }

        impl FindingKind {
            fn texts(self) -> &'static FindingTexts {
                match self {
                    $(FindingKind::$kind => &FindingTexts {
                        subject: $subject,
                        level: $level,
                        message: $message,
                        why: concat!($($why)?),
                        remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

use FindingLevel::{Error, Fault, Ok as Fine, Remark, Warning};

findings! {
    // Remarks on tasks, in their order within one task.
    NoCheck Remark, "no-check": "nothing tells when `{}` is done"
        because "it has no `verify`, no `output` and no criteria"
        => "add `verify:` with a command that fails until it is done, or say in the description what \
            must be true then";
    MissingProgram Remark, "missing-program": "there is no program `{}`"
        because "every attempt would fail its verification"
        => "install it, correct the name, or let an earlier task make it";
    AlwaysPasses Remark, "always-passes": "`{}` cannot fail"
        because "unfinished work would count as done"
        => "use a command that fails while the work is not done, or drop it";
    ReplacedChecks Remark, "replaced-checks": "`{}` does not run `{}`"
        because "work that breaks the rest would count as done"
        => "use `verify`, which adds to the checks of the project";
    MissingPath Remark, "missing-path": "`{}` does not exist"
        because "no task before this one makes it"
        => "correct the path, or depend on the task that makes it";
    SimilarIds Remark, "similar-ids": "the ids `{}` and `{}` are easily confused"
        because "a dependency on one may mean the other, and some disks have one folder for both"
        => "rename one";

    // The setup, in the order a run would meet the problems.
    Settings Fault(Exit::Invalid), "settings": "{}"
        => "no other check can run until this is fixed";
    NoRepository Fault(Exit::Error), "repository": "{}"
        => "no other check can run until this is fixed";
    NoTemporaryFolder Fault(Exit::Error), "temporary folder": "{}"
        => "free space there, or set `TMPDIR` to another folder";
    NoGraph Fault(Exit::Invalid), "graph": "{}"
        => "create it, or name another file with `--graph`";
    BadGraph Fault(Exit::Invalid), "graph": "{}"
        => "correct it; `ralph check` shows every error with its location";
    GraphWarnings Warning, "graph": "{}, {}" => "`ralph check` shows them";
    NothingReady Warning, "graph": "{}, none ready"
        => "`ralph dag-status` shows what they are waiting on";
    Jobs Fault(Exit::Usage), "jobs": "{}" => "";
    Unfinished Warning, "checkout": "{} is in progress; {}"
        => "finish or abort it, see `git status`";
    Agent Fault(Exit::Agent), "agent": "{}" => "";
    NoAgent Warning, "agent": "none of {} is on PATH" => "install one, or set `agent` in .ralph/config.yaml";
    VersionFails Warning, "version": "`{}` {}" => "run `{}` by hand";
    NoLogin Warning, "login":
        "no sign that `{}` is logged in (keychains and helper programs are not checked)" => "{}";
    Unasked Fine, "permissions":
        "{} for no permission: the agent can do anything that {}" => "";
    UnknownLimit Warning, "limits": "`{}` is not an agent or a tag" => "{}";
    BadCommand Fault(Exit::Invalid), "verify": "{}" => "";
    Logs Fault(Exit::Disk), "logs": "{}" => "";
    Journal Fault(Exit::Error), "runs": "{}" => "check `logs/ralph.jsonl`";
    CleaningUp Warning, "runs": "the guardian of a run that died is still cleaning up"
        => "none needed: a run waits for it";
    Active Fault(Exit::Running), "runs": "{}{}" => "`ralph stop` stops it";
    Paused Fault(Exit::Waiting), "runs": "{}" => "`ralph resume` lifts the pause";
    Crashed Warning, "runs": "the last run crashed; open attempts: {}"
        => "none needed: `ralph run` recovers them";
    BadPrompt Fault(Exit::Invalid), "prompts": "{} (for `{}`{})"
        => "correct the template; `ralph prompt {}` shows the location";
    NoVerifyProgram Warning, "verify": "{}"
        => "install it, or correct `verify`; the task cannot complete without it";
    Notifier Warning, "notify": "{}" => "correct `notify` in the settings";
    Leftovers Warning, "leftovers": "{}"
        => "save what you want from there and remove the folder; until then other slots are used";
    UnreadableSlots Fault(Exit::Error), "leftovers": "{}" => "see `ralph slots`";
    NoSlot Fault(Exit::Error), "slot": "{}"
        => "attempts need a slot; `--in-place` works without one";
    SetupFails Warning, "slot": "`{}` (setup) fails on {}: {}"
        => "correct `setup` in .ralph/config.yaml, or no attempt can start";
    VerifyFails Warning, "slot": "`{}` (verify) fails on {}: {}"
        => "if it passes in your checkout, the copy lacks something: list ignored files in \
            `.worktreeinclude`, and commands that install what is needed in `setup`";
    OnlyInCheckout Error, "slot": "`{}` (verify) passes in your checkout and fails on {}: {}"
        => "the copy lacks something: list ignored files in `.worktreeinclude`, and in `setup` the \
            commands that install what is needed or trust the folder (`mise trust`, `direnv allow`)";
    TestsCheckout Error, "slot":
        "your tests pass although the code is broken: `{}` tests `{}`, not the slot ({})"
        => "let it lead to the slot: a relative path, or what `setup` installs in the slot";
    TestsOther Error, "slot":
        "your checks pass although the code is broken: `{}` does not run the code of the slot"
        => "see what it tests: something built or installed before, or another folder; let `setup` or \
            `verify` build and install what is in the slot";
    ChecksNothing Error, "slot": "`{}` passes although the code is broken: it checks nothing of it"
        => "set `verify` to the command that tests the project";
    RunsNone Warning, "slot": "`{}` passes although the code is broken: it runs none of it"
        => "add a test, and its command to `verify`: nothing tells good work from bad";
    NoVerify Warning, "slot": "there is no verify command"
        => "add the command of your tests to `verify`: nothing tells good work from bad";
    SetupLeaves Warning, "slot": "`setup` makes `{}`, which git does not ignore"
        => "add it to `.gitignore`: it is hidden from agents and does not land";
    NotTried Warning, "slot": "not tested: {}" => "";
    Committer Warning, "commit": "{}" => "";
    CommitFails Warning, "commit": "{} {}"
        => "make hooks pass, and hooks and keys work without a terminal; rejected work stays \
            uncommitted";
    Executor Fault(Exit::Agent), "executor": "{}"
        => "tasks there would wait for it; `--on local` runs here";
    UnknownExecutor Fault(Exit::Usage), "executor": "{}" => "correct `run_on`";
    SandboxGap Warning, "executor": "{}: {}" => "";
    NoCommit Fault(Exit::Error), "branch":
        "`{}` has no commit yet, and attempts start from a branch with a commit"
        => "make the first commit, or use `--in-place`";
    Detached Fault(Exit::Error), "branch":
        "HEAD is detached, and attempts start from a branch with a commit"
        => "switch to a branch with `git switch`, or use `--in-place`";
    NoCommitInPlace Warning, "branch": "`{}` has no commit yet"
        => "commit the existing files, to tell them from the work of agents";
    DetachedInPlace Warning, "branch": "HEAD is detached; commits would be on no branch"
        => "switch to a branch with `git switch`";
    Unreadable Fault(Exit::Error), "checkout": "{}" => "see `git status`";
    Uncommitted Warning, "checkout": "{} not committed: {}"
        => "commit or stash; work on the same files lands only then";
    UncommittedInPlace Warning, "checkout": "{} not committed: {}"
        => "commit or stash; `git add -A` by an agent would include them";
    OwnFilesCommitted Warning, "own files": "committed: {}"
        => "run `git rm -r --cached {}` and commit";
    OwnFilesShown Warning, "own files": "not ignored by git: {}"
        => "add these lines to `.gitignore`";
    OtherRalph Warning, "ralph": "`{}` on PATH is another program; this is {}"
        => "put the folder of this program first on PATH, or remove `{}`";
    LittleRoom Warning, "disk": "{}" => "free space; a run stops when the disk is full";
    NoRoom Fault(Exit::Disk), "disk": "{}" => "free space; a run stops when the disk is full";
    NoLocks Warning, "locks":
        "file locks do not work on this file system; two runs could work at the same time"
        => "keep the repository on a local disk";
    BadLocks Fault(Exit::Error), "locks": "{}" => "keep the repository on a local disk";
    NoTests Warning, "tests": "none found" => "set `verify` in .ralph/config.yaml";
    Reviewer Warning, "reviewer": "{}" => "";
    UnrunTests Warning, "tests": "`{}`, from {}, is in no verify command"
        => "add it to `verify`, or to that of the tasks that it is about";
}

/// Fills the places of a text with the next values.
fn fill<'a>(text: &str, values: &mut impl Iterator<Item = &'a str>) -> String {
    let mut parts = text.split("{}");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + values.next().unwrap_or_default() + part)
}

impl FindingKind {
    /// A finding with these values in the places of its message, and then of its remedy.
    #[must_use]
    pub fn with(self, values: &[&str]) -> Finding {
        let texts = self.texts();
        let mut values = values.iter().copied();
        Finding {
            kind: Some(self),
            subject: texts.subject,
            level: texts.level,
            message: fill(texts.message, &mut values),
            why: texts.why.to_owned(),
            remedy: fill(texts.remedy, &mut values),
        }
    }

    /// A finding with the text of an error. The remedy is the part after the first semicolon, if there
    /// is one.
    #[must_use]
    pub fn of_text(self, text: &str) -> Finding {
        match text.split_once("; ") {
            Some((message, remedy)) => {
                Finding { remedy: remedy.to_owned(), ..self.with(&[message]) }
            }
            None => self.with(&[text]),
        }
    }

    /// A fault with the text of an error.
    #[must_use]
    pub fn of_error(self, text: &str, exit: Exit) -> Finding {
        Finding { level: Fault(exit), ..self.of_text(text) }
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind; none if all is well.
    pub kind: Option<FindingKind>,
    /// Its subject.
    pub subject: &'static str,
    /// How bad it is.
    pub level: FindingLevel,
    /// The observation: a lower-case fragment with names in backticks.
    pub message: String,
    /// Why it matters.
    pub why: String,
    /// The remedy; empty if none is needed.
    pub remedy: String,
}

impl Finding {
    /// No problem.
    pub fn ok(subject: &'static str, message: impl Into<String>) -> Finding {
        let (kind, level, message) = (None, Fine, message.into());
        Finding { kind, subject, level, message, why: String::new(), remedy: String::new() }
    }

    /// The finding on one line.
    pub fn line(&self) -> String {
        let Finding { subject, message, remedy, .. } = self;
        let gap = if remedy.is_empty() { "" } else { "; " };
        format!("{subject}: {message}{gap}{remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_the_message_and_then_the_remedy() {
        let found = FindingKind::VersionFails.with(&["a {}", "fails", "a"]);
        assert_eq!((&*found.message, &*found.remedy), ("`a {}` fails", "run `a` by hand"));
        let found = FindingKind::Executor.of_error("x: no; go on", Exit::Agent);
        assert_eq!((found.message.as_str(), found.remedy.as_str()), ("x: no", "go on"));
    }
}
