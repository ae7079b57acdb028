//! The proof that the checks of a task notice its work: a check that would also pass without the work,
//! or that never runs it, shows nothing.
//!
//! The verify commands passed on a tree. Controls are other trees on which they run again: without the
//! source half of the change, with the tests and the settings of checks as they were, and with a
//! statement that throws in every changed function.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use policy::ProofPolicy;

use crate::{default_value::is_default, glob::Glob, variants, verdict::CheckResult};

pub mod halves;
pub mod plan;
pub mod policy;
pub mod source_code;
pub mod tripwire;

/// The settings of proofs, written as a policy or with more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct ProofSettings {
    /// The policy.
    pub policy: ProofPolicy,
    /// The policy of tasks with a tag; of a task with several, the first one by name.
    pub tags: BTreeMap<String, ProofPolicy>,
    /// Files that are tests, where the guess is wrong.
    pub tests: Vec<Glob>,
    /// Files that are source, where the guess is wrong.
    pub source: Vec<Glob>,
    /// The commands that run again, if not the verify commands.
    pub commands: Vec<String>,
}

/// The settings of proofs as they are written in full.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenProof {
    policy: ProofPolicy,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, ProofPolicy>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tests: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source: Vec<Glob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
}

impl TryFrom<Value> for ProofSettings {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> serde_json::Result<ProofSettings> {
        if value.is_string() {
            return Ok(ProofSettings { policy: serde_json::from_value(value)?, ..Self::default() });
        }
        let WrittenProof { policy, tags, tests, source, commands } = serde_json::from_value(value)?;
        Ok(ProofSettings { policy, tags, tests, source, commands })
    }
}

impl From<ProofSettings> for Value {
    fn from(settings: ProofSettings) -> Value {
        let ProofSettings { policy, tags, tests, source, commands } = settings;
        let lists = tests.is_empty() && source.is_empty() && commands.is_empty();
        let is_plain = tags.is_empty() && lists;
        let written = WrittenProof { policy, tags, tests, source, commands };
        let value = serde_json::to_value(&written).unwrap_or_default();
        if is_plain { value.get("policy").cloned().unwrap_or_default() } else { value }
    }
}

/// A tree on which the verify commands run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    /// The work without its source half.
    WithoutSource,
    /// The work with the tests that existed as they were.
    OldTests,
    /// The work with the settings and scripts of checks as they were.
    OldChecks,
    /// The work with a statement that throws in every changed function.
    Tripwire,
    /// The work with the same statement, which does not throw.
    Inert,
    /// The base itself.
    Base,
    /// The work itself once more: it shows whether a red control can be believed.
    Again,
    /// The work whose changed functions return at once, with nothing.
    Stub,
    /// The work with the statement that throws in every function of the project.
    Broken,
    /// The same, with the settings and scripts of checks as they were.
    BrokenOldChecks,
    /// The same, with the tests as they were, and none of the new ones.
    BrokenOldTests,
}

impl ControlKind {
    /// The name in the names of log files.
    pub fn log_name(self) -> String {
        variants::names::<ControlKind>()[self as usize].replace('_', "-")
    }

    /// Whether all commands run on the tree, also after one that failed.
    pub fn runs_all(self) -> bool {
        self == ControlKind::OldChecks || (self.breaks_code() && self != ControlKind::Stub)
    }

    /// Whether a command that fails on the tree, as it should, says nothing of commands that fail now
    /// and then.
    fn breaks_code(self) -> bool {
        match self {
            ControlKind::Stub
            | ControlKind::Broken
            | ControlKind::BrokenOldChecks
            | ControlKind::BrokenOldTests => true,
            ControlKind::WithoutSource
            | ControlKind::OldTests
            | ControlKind::OldChecks
            | ControlKind::Tripwire
            | ControlKind::Inert
            | ControlKind::Base
            | ControlKind::Again => false,
        }
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResult {
    /// The tree.
    pub control: ControlKind,
    /// The command that failed; none if all passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<CheckResult>,
    /// Whether the output has the marker of the tripwire.
    #[serde(default, skip_serializing_if = "is_default")]
    pub marked: bool,
    /// The number of tests that failed, if the runner says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_tests: Option<u64>,
    /// The number of tests that ran in all commands, if the runner says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<u64>,
    /// Whether tests failed only because a name is not there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub misses_names: bool,
    /// Of a tree on which all commands run, those that passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
    /// Wall time.
    pub duration_seconds: f64,
}

impl ControlResult {
    /// The number of tests that failed; none if it is not known.
    fn failures(&self) -> Option<u64> {
        match self.red {
            Some(_) => self.failed_tests,
            None => self.tests.map(|_| 0),
        }
    }
}

/// What the controls show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ProofOutcome {
    /// The checks fail without the work and run it.
    Proved {
        /// The source files without which they fail.
        files: usize,
        /// The command that fails without them.
        command: String,
        /// The number of tests that fail then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tests: Option<u64>,
        /// How many files of existing tests no longer pass as they were.
        #[serde(default, skip_serializing_if = "is_default")]
        tests_changed: usize,
    },
    /// The checks failed before the work, with the same tests, and pass with it.
    Repaired,
    /// All behavior is kept: the tests as they were pass, and run the changed code.
    Kept,
    /// The checks pass without the change.
    NotNoticed {
        /// Whether they are known to run it.
        runs: bool,
    },
    /// The checks call the new functions, and pass if these return nothing.
    OnlyCalled,
    /// The checks never run the changed code.
    NeverRun,
    /// No test ran.
    NoTest {
        /// The command.
        command: String,
    },
    /// With the settings of checks as they were, a command fails.
    ChecksChanged {
        /// The changed files.
        files: Vec<String>,
        /// The command.
        command: String,
    },
    /// With the new settings of checks, a command passes although all code is broken.
    ChecksDisarmed {
        /// The changed files.
        files: Vec<String>,
        /// The command.
        command: String,
    },
    /// With the new settings of checks, fewer tests run.
    ChecksNarrowed {
        /// The changed files.
        files: Vec<String>,
        /// The number of tests that run with the old ones.
        before: u64,
        /// The number of tests that run now.
        tests: u64,
    },
    /// With the new tests, fewer fail if all code is broken.
    TestsWeakened {
        /// The changed files.
        files: Vec<String>,
        /// The number of tests that fail of the old ones.
        before: u64,
        /// The number of tests that fail now.
        tests: u64,
    },
    /// Only tests changed, and none of the new ones fails if all code is broken.
    TestsNoticeNothing,
    /// Existing tests were removed or are skipped, and no source changed with them.
    TestsRemoved {
        /// The files.
        files: Vec<String>,
    },
    /// Work that was to keep all behavior does not: tests fail as they were.
    NotKept {
        /// The command that fails.
        command: String,
    },
    /// Only comments of source files changed.
    NoCode,
    /// Nothing changed that a check could notice.
    NotNeeded {
        /// What changed, such as `documentation`.
        what: String,
    },
    /// The controls did not run, or could not be read.
    Skipped {
        /// Why.
        why: String,
    },
}

/// Why the controls of a proof did not run that its run had begun.
const CUT_OFF: &str = "the run ended before";

impl ProofOutcome {
    /// The controls did not run before the end of the run; the next run has them run.
    pub fn cut_off() -> ProofOutcome {
        ProofOutcome::Skipped { why: CUT_OFF.to_owned() }
    }

    /// Whether it is [`cut_off`](ProofOutcome::cut_off).
    pub fn is_cut_off(&self) -> bool {
        matches!(self, ProofOutcome::Skipped { why } if why == CUT_OFF)
    }

    /// Whether the checks notice less since the work changed their settings.
    pub fn weakens(&self) -> bool {
        matches!(self, ProofOutcome::ChecksDisarmed { .. } | ProofOutcome::ChecksNarrowed { .. })
    }

    /// Whether the work may be called complete.
    pub fn is_good(&self) -> bool {
        match self {
            ProofOutcome::Proved { .. }
            | ProofOutcome::Repaired
            | ProofOutcome::Kept
            | ProofOutcome::NotNeeded { .. } => true,
            ProofOutcome::NotNoticed { .. }
            | ProofOutcome::OnlyCalled
            | ProofOutcome::NeverRun
            | ProofOutcome::NoTest { .. }
            | ProofOutcome::ChecksChanged { .. }
            | ProofOutcome::ChecksDisarmed { .. }
            | ProofOutcome::ChecksNarrowed { .. }
            | ProofOutcome::TestsWeakened { .. }
            | ProofOutcome::TestsNoticeNothing
            | ProofOutcome::TestsRemoved { .. }
            | ProofOutcome::NotKept { .. }
            | ProofOutcome::NoCode
            | ProofOutcome::Skipped { .. } => false,
        }
    }
}

/// How a proof begins, by the number of files of existing tests that fail as they were.
fn tests_as_they_were(changed: usize) -> String {
    let files = match changed {
        0 => return "proved: ".to_owned(),
        1 => "1 file of existing tests no longer passes as it was".to_owned(),
        count => format!("{count} files of existing tests no longer pass as they were"),
    };
    format!("proved, tests changed: {files}; ")
}

impl fmt::Display for ProofOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some =
            |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let named = |files: &[String]| files.join("`, `");
        match self {
            ProofOutcome::Proved { files, command, tests, tests_changed } => {
                f.write_str(&tests_as_they_were(*tests_changed))?;
                let them = if *files == 1 { "it" } else { "them" };
                let files = some(*files as u64, "source file");
                let tests = tests.filter(|count| *count > 0);
                let tests = tests.map(|count| format!(" ({})", some(count, "test")));
                let tests = tests.unwrap_or_default();
                write!(f, "without its {files} `{command}` fails{tests}, and passes with {them}")
            }
            ProofOutcome::Repaired => f.write_str("repaired: red before, green now"),
            ProofOutcome::Kept => {
                f.write_str("proved: the tests pass as they were, and run the changed code")
            }
            ProofOutcome::NotNoticed { runs: true } => {
                f.write_str("not noticed: the checks pass without this change; they do run it")
            }
            ProofOutcome::NotNoticed { runs: false } => {
                f.write_str("not noticed: the checks pass without this change")
            }
            ProofOutcome::OnlyCalled => f.write_str(
                "not noticed: the checks call it, and pass even if it does nothing and returns nothing",
            ),
            ProofOutcome::NeverRun => f.write_str("unproved: the checks never run it"),
            ProofOutcome::NoTest { command } => {
                write!(f, "unproved: no test ran in `{command}`")
            }
            ProofOutcome::ChecksChanged { files, command } => {
                let files = named(files);
                write!(f, "checks changed: with the old `{files}` `{command}` fails")
            }
            ProofOutcome::ChecksDisarmed { files, command } => {
                let files = named(files);
                write!(
                    f,
                    "checks changed: with the new `{files}` `{command}` passes even if all code is broken"
                )
            }
            ProofOutcome::ChecksNarrowed { files, before, tests } => {
                let (files, tests) = (named(files), some(*tests, "test"));
                write!(f, "checks changed: with the new `{files}` only {tests} of {before} run")
            }
            ProofOutcome::TestsWeakened { files, before, tests } => {
                let fail = if *tests == 1 { "fails" } else { "fail" };
                let (files, tests) = (named(files), some(*tests, "test") + " " + fail);
                write!(
                    f,
                    "checks changed: if all code is broken, {tests}; with the old `{files}`, {before}"
                )
            }
            ProofOutcome::TestsNoticeNothing => {
                f.write_str("not noticed: the new tests pass even if all code is broken")
            }
            ProofOutcome::TestsRemoved { files } => {
                let files = named(files);
                write!(
                    f,
                    "checks changed: tests were removed or are skipped in `{files}`, and no source changed"
                )
            }
            ProofOutcome::NotKept { command } => {
                write!(f, "not kept: with the tests as they were `{command}` fails")
            }
            ProofOutcome::NoCode => {
                f.write_str("nothing to prove: only comments of source files changed")
            }
            ProofOutcome::NotNeeded { what } => write!(f, "no proof needed: only {what} changed"),
            ProofOutcome::Skipped { why } => write!(f, "not examined: {why}"),
        }
    }
}

/// The proof of the work of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What the controls show.
    #[serde(flatten)]
    pub outcome: ProofOutcome,
    /// The controls that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlResult>,
    /// Wall time.
    pub duration_seconds: f64,
}

impl Proof {
    /// What the controls that should have failed and passed say, for the next attempt.
    pub fn green(&self) -> Vec<&'static str> {
        let words = |it: &ControlResult| match it.control {
            ControlKind::WithoutSource => Some("without the source half of the work"),
            ControlKind::Tripwire if it.marked => Some(
                "with a statement that throws in every function that the work changed: they run it, \
                 and do not fail",
            ),
            ControlKind::Tripwire => Some(
                "with a statement that throws in every function that the work changed: they run none",
            ),
            ControlKind::Stub => {
                Some("with functions that return nothing in place of those that the work changed")
            }
            ControlKind::Broken => Some("with the code of the project broken, all of it"),
            ControlKind::OldTests
            | ControlKind::OldChecks
            | ControlKind::Inert
            | ControlKind::Base
            | ControlKind::BrokenOldChecks
            | ControlKind::BrokenOldTests
            | ControlKind::Again => None,
        };
        let green = self.controls.iter().filter(|it| it.red.is_none());
        let mut green: Vec<_> = green.filter_map(words).collect();
        green.dedup();
        green
    }

    /// A proof without controls.
    pub fn at_once(outcome: ProofOutcome) -> Proof {
        Proof { outcome, controls: Vec::new(), duration_seconds: 0.0 }
    }
}
