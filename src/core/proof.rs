//! The proof that the checks of a task notice its work: a check that would also pass without the work,
//! or that never runs it, shows nothing.
//!
//! The verify commands passed on a tree. Controls are other trees on which they run again: without the
//! source half of the change, with a changed function emptied, with the tests as they were. What a
//! control shows is the names of the tests that fail.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    default_value::is_default,
    glob::Glob,
    variants,
    verdict::{CheckResult, first_names},
};

pub mod halves;
pub mod plan;
pub mod source_code;
pub mod tripwire;

/// When the proof of work is asked for, and what it must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofPolicy {
    /// After the work has landed; only reported.
    #[default]
    Report,
    /// Before the work lands; without it, the attempt fails.
    Require,
    /// Tests must fail without the work; to be exercised is not enough.
    Tests,
    /// The tests as they were must pass and run it: for work that keeps all behavior.
    Exercised,
    /// Never.
    None,
}

/// The settings of proofs, written as a policy or with more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct ProofSettings {
    /// The policy.
    pub policy: ProofPolicy,
    /// Whether work lands only with its proof, also where the task says what the proof must show.
    pub is_required: bool,
    /// Files that are tests, where the guess is wrong.
    pub tests: Vec<Glob>,
    /// Files that are source, where the guess is wrong.
    pub source: Vec<Glob>,
}

impl ProofSettings {
    /// The settings with a policy of a task, unless it has none.
    #[must_use]
    pub fn with(&self, policy: Option<ProofPolicy>) -> ProofSettings {
        let policy = policy.unwrap_or(self.policy);
        let asks = matches!(policy, ProofPolicy::Tests | ProofPolicy::Exercised);
        let is_required =
            policy == ProofPolicy::Require || (asks && self.policy == ProofPolicy::Require);
        ProofSettings { policy, is_required, ..self.clone() }
    }
}

/// The settings of proofs as they are written in full.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenProof {
    policy: ProofPolicy,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tests: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source: Vec<Glob>,
}

impl TryFrom<Value> for ProofSettings {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> serde_json::Result<ProofSettings> {
        if value.is_string() {
            return Ok(ProofSettings { policy: serde_json::from_value(value)?, ..Self::default() });
        }
        let WrittenProof { policy, tests, source } = serde_json::from_value(value)?;
        Ok(ProofSettings { policy, tests, source, ..ProofSettings::default() })
    }
}

impl From<ProofSettings> for Value {
    fn from(settings: ProofSettings) -> Value {
        let ProofSettings { policy, tests, source, .. } = settings;
        let is_plain = tests.is_empty() && source.is_empty();
        let written = WrittenProof { policy, tests, source };
        let value = serde_json::to_value(&written).unwrap_or_default();
        if is_plain { value.get("policy").cloned().unwrap_or_default() } else { value }
    }
}

/// A tree on which the verify commands run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    /// The work with a statement in each changed function that does nothing: tests that fail on it
    /// fail now and then, or read the text of the source.
    #[default]
    Inert,
    /// The work itself, where a test fails on the inert tree.
    Landed,
    /// The work without its source half.
    WithoutSource,
    /// The work with changed functions that return at once, with a plausible value.
    Stub,
    /// The work with a statement in changed functions that throws and prints the number of its function.
    Tripwire,
    /// The work with all functions of the project emptied, or throwing in Rust.
    Broken,
    /// The same, with the tests and the settings of checks as they were.
    BrokenOld,
    /// The work with the existing tests as they were.
    OldTests,
}

impl ControlKind {
    /// The name in the names of log files.
    pub fn log_name(self) -> String {
        variants::names::<ControlKind>()[self as usize].replace('_', "-")
    }
}

/// What a control has at a path instead of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlText {
    /// What the base has, also if that is nothing.
    Base,
    /// This text.
    Text(String),
}

/// The result of a control.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlResult {
    /// The tree.
    pub control: ControlKind,
    /// The changed functions that it asks about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The command that failed, with a failed test if any has one; none if all passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<CheckResult>,
    /// The tests that failed, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Whether a runner counts failed tests that it does not name, or a file of tests does not load.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_cut: bool,
    /// The number of tests that ran in all commands, if the runners say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<u64>,
    /// Whether a test ran.
    #[serde(default, skip_serializing_if = "is_default")]
    pub has_tests: bool,
    /// The functions that ran; only of a tripwire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// Wall time.
    pub duration_seconds: f64,
}

impl ControlResult {
    /// Whether the same was asked.
    pub fn is_of(&self, other: &ControlResult) -> bool {
        self.control == other.control && self.functions == other.functions
    }

    /// The result of a control in which no test has failed.
    pub fn of(control: ControlKind) -> ControlResult {
        ControlResult { control, ..ControlResult::default() }
    }
}

/// What a proof comes to, from the best. Only [`NotProved`](ProofOutcome::NotProved) needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofOutcome {
    /// Tests that fail without the work pass with it.
    Proved,
    /// The existing tests run what changed and still pass.
    Exercised,
    /// The checks do not notice the work, never run it, or notice less.
    NotProved,
    /// Documents, comments, settings that no check reads.
    NothingToProve,
}

impl ProofOutcome {
    /// Its words.
    pub fn text(self) -> &'static str {
        match self {
            ProofOutcome::Proved => "proved",
            ProofOutcome::Exercised => "exercised",
            ProofOutcome::NotProved => "not proved",
            ProofOutcome::NothingToProve => "nothing to prove",
        }
    }
}

/// Why a proof comes to its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum ProofReason {
    /// Tests fail without the work, and if what it adds is emptied.
    Noticed {
        /// These tests.
        tests: Vec<String>,
        /// The command that runs them.
        command: String,
    },
    /// Tests run all that changed, and pass as they did.
    Run,
    /// Only tests or settings of checks changed, and notice as much as before.
    ChecksOnly {
        /// What changed.
        what: String,
    },
    /// Without the work a command fails, and names no failed test.
    Unnamed {
        /// The command.
        command: String,
    },
    /// The tests pass without the change, or run these functions and pass if they are emptied.
    NotNoticed {
        /// The functions; none for the whole change.
        functions: Vec<String>,
    },
    /// No test runs it.
    NeverRun {
        /// The functions; none for the whole change.
        functions: Vec<String>,
    },
    /// Tests fail each time where the work is.
    Red {
        /// These tests.
        tests: Vec<String>,
        /// The command that runs them.
        command: String,
        /// The branch on which it has landed; none before.
        branch: Option<String>,
    },
    /// There is no verify command.
    Unchecked,
    /// No test ran.
    NoTest {
        /// The command.
        command: String,
    },
    /// With the new tests and settings of checks, fewer tests run or fail if all code is broken.
    NoticesLess {
        /// The changed files.
        files: Vec<String>,
        /// The tests that notice it no more.
        tests: Vec<String>,
    },
    /// The new tests pass even if all code is broken.
    NoticesNothing,
    /// Existing tests fail as they were.
    NotKept {
        /// These tests.
        tests: Vec<String>,
    },
    /// It takes back landed work of other tasks.
    TakesBack {
        /// These tasks.
        tasks: Vec<String>,
    },
    /// The task asks for tests that fail without the work.
    OnlyExercised {
        /// What was shown.
        why: String,
    },
    /// The controls did not run, or could not be read.
    NotMade {
        /// Why.
        why: String,
    },
    /// Nothing changed that a check could notice.
    NoCode {
        /// What changed, such as `documentation`.
        what: String,
    },
}

/// Why the controls of a proof did not run that its run had begun.
const CUT_OFF: &str = "the run ended before";

impl ProofReason {
    /// The controls did not run before the end of the run; the next run has them run.
    pub fn cut_off() -> ProofReason {
        ProofReason::NotMade { why: CUT_OFF.to_owned() }
    }

    /// Whether it is [`cut_off`](ProofReason::cut_off).
    pub fn is_cut_off(&self) -> bool {
        matches!(self, ProofReason::NotMade { why } if why == CUT_OFF)
    }

    /// The outcome.
    pub fn outcome(&self) -> ProofOutcome {
        match self {
            ProofReason::Noticed { .. } => ProofOutcome::Proved,
            ProofReason::Run | ProofReason::ChecksOnly { .. } | ProofReason::Unnamed { .. } => {
                ProofOutcome::Exercised
            }
            ProofReason::NotNoticed { .. }
            | ProofReason::NeverRun { .. }
            | ProofReason::Red { .. }
            | ProofReason::Unchecked
            | ProofReason::NoTest { .. }
            | ProofReason::NoticesLess { .. }
            | ProofReason::NoticesNothing
            | ProofReason::NotKept { .. }
            | ProofReason::TakesBack { .. }
            | ProofReason::OnlyExercised { .. }
            | ProofReason::NotMade { .. } => ProofOutcome::NotProved,
            ProofReason::NoCode { .. } => ProofOutcome::NothingToProve,
        }
    }

    /// Whether the work may be called complete without a person.
    pub fn is_good(&self) -> bool {
        self.outcome() != ProofOutcome::NotProved
    }
}

impl fmt::Display for ProofReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.outcome().text())?;
        let named = |functions: &[String]| match functions {
            [] => "the change".to_owned(),
            some => first_names(some),
        };
        match self {
            ProofReason::Noticed { tests, command } => {
                let tests = first_names(tests);
                write!(f, "without the work {tests} would fail in `{command}`")
            }
            ProofReason::Run => f.write_str("tests run all that changed, and pass as before"),
            ProofReason::ChecksOnly { what } => {
                write!(f, "only {what} changed, and they notice as much as before")
            }
            ProofReason::Unnamed { command } => {
                write!(f, "without the work `{command}` fails, but names no failed test")
            }
            ProofReason::NotNoticed { functions } if functions.is_empty() => {
                f.write_str("the tests pass without this change")
            }
            ProofReason::NotNoticed { functions } => {
                write!(f, "tests run {}, and pass if it returns another value", named(functions))
            }
            ProofReason::NeverRun { functions } => write!(f, "no test runs {}", named(functions)),
            ProofReason::Red { tests, command, branch } => {
                let at = branch.as_ref().map_or_else(String::new, |it| format!(" on `{it}`"));
                write!(f, "red{at}: `{command}` fails ({})", first_names(tests))
            }
            ProofReason::Unchecked => f.write_str("no verify command checks it"),
            ProofReason::NoTest { command } => write!(
                f,
                "no test ran in `{command}`, or it names none; TAP would: `1..2`, and `ok 1 - name` \
                 or `not ok 2 - name` for each"
            ),
            ProofReason::NoticesLess { files, tests } => {
                let files = first_names(files);
                write!(f, "if all code is broken, with the new {files} ")?;
                match &tests[..] {
                    [] => f.write_str("fewer tests run"),
                    some => write!(f, "it is noticed no more by {}", first_names(some)),
                }
            }
            ProofReason::NoticesNothing => {
                f.write_str("the changed tests pass even if all code is broken")
            }
            ProofReason::NotKept { tests } => {
                write!(f, "as they were, {} would fail", first_names(tests))
            }
            ProofReason::TakesBack { tasks } => {
                write!(f, "it takes back the landed work of {}", first_names(tasks))
            }
            ProofReason::OnlyExercised { why } => {
                write!(f, "no test fails without the work, and the task asks for one ({why})")
            }
            ProofReason::NotMade { why } => f.write_str(why),
            ProofReason::NoCode { what } => write!(f, "only {what} changed"),
        }
    }
}

/// The proof of the work of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenProofResult")]
pub struct Proof {
    outcome: ProofOutcome,
    /// Why it comes to its outcome.
    #[serde(flatten)]
    pub reason: ProofReason,
    /// The controls that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlResult>,
    /// Wall time.
    pub duration_seconds: f64,
}

/// A proof as a journal has it, which may be older than its reasons.
#[derive(Deserialize)]
struct WrittenProofResult {
    outcome: String,
    #[serde(flatten)]
    reason: Option<ProofReason>,
    #[serde(default)]
    controls: Vec<Value>,
    duration_seconds: f64,
}

impl From<WrittenProofResult> for Proof {
    fn from(written: WrittenProofResult) -> Proof {
        let before = || match written.outcome.as_str() {
            "proved" | "repaired" | "kept" => ProofReason::Run,
            "not_needed" | "no_code" => ProofReason::NoCode { what: "no code".to_owned() },
            other => ProofReason::NotMade { why: other.replace('_', " ") },
        };
        let reason = written.reason.unwrap_or_else(before);
        let controls =
            written.controls.into_iter().filter_map(|it| serde_json::from_value(it).ok());
        Proof::new(reason, controls.collect(), written.duration_seconds)
    }
}

impl Proof {
    /// A proof with its controls.
    pub fn new(reason: ProofReason, controls: Vec<ControlResult>, duration_seconds: f64) -> Proof {
        Proof { outcome: reason.outcome(), reason, controls, duration_seconds }
    }

    /// A proof without controls.
    pub fn at_once(reason: ProofReason) -> Proof {
        Proof::new(reason, Vec::new(), 0.0)
    }

    /// What it comes to.
    pub fn outcome(&self) -> ProofOutcome {
        self.outcome
    }

    /// Whether the work may be called complete without a person.
    pub fn is_good(&self) -> bool {
        self.reason.is_good()
    }

    /// The tests that failed in a control and passed in its repetition.
    fn flaky(&self) -> Vec<String> {
        let flaky = self.controls.iter().flat_map(|one| {
            let others = || self.controls.iter().filter(|it| it.is_of(one));
            one.failed.iter().filter(move |name| others().any(|it| !it.failed.contains(name)))
        });
        flaky.cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match &self.flaky()[..] {
            [] => Ok(()),
            some => write!(f, "; {} failed once and passed with the same code", first_names(some)),
        }
    }
}
