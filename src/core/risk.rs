//! Why landed work deserves the look of a person, and which work deserves it first.

use serde::Serialize;

use crate::{
    graph::{lint::cannot_fail, task::TaskId},
    proof::Proof,
    redact::is_secret_file,
    setup::MANIFESTS,
    verdict::{DiffStat, Evidence, first_names},
};

/// The lines of a large change, and its files.
const LARGE: (usize, usize) = (400, 20);

/// The kinds of reasons, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskKind {
    /// The checks do not notice the work.
    Unproved,
    /// No verify command ran that can fail.
    Unverified,
    /// Hooks or settings of git changed during the attempt.
    Tampered,
    /// A reviewer found something in it, or could not review it.
    Reviewed,
    /// It has files that hold secrets by their names.
    Secrets,
    /// It changed files that decide what is checked.
    ChecksChanged,
    /// It undid the landed work of other tasks.
    TakesBack,
    /// It changed tests that existed.
    TestsChanged,
    /// It has files that git ignores.
    Ignored,
    /// It changed files outside of the task's `path`.
    Outside,
    /// It has files that the agent left besides its own commits.
    LeftBesides,
    /// It added files that are large or binary.
    Bulk,
    /// It changed what the project depends on.
    Dependencies,
    /// An agent added the task.
    ByAgent,
    /// Much changed.
    Large,
}

impl RiskKind {
    /// How grave it is, compared with the others.
    fn weight(self) -> usize {
        match self {
            RiskKind::Unproved | RiskKind::Unverified => 10,
            RiskKind::Tampered | RiskKind::Reviewed | RiskKind::Secrets => 9,
            RiskKind::ChecksChanged | RiskKind::TakesBack => 8,
            RiskKind::TestsChanged | RiskKind::Ignored => 5,
            RiskKind::Outside | RiskKind::LeftBesides | RiskKind::Bulk => 4,
            RiskKind::Dependencies | RiskKind::ByAgent => 3,
            RiskKind::Large => 2,
        }
    }
}

/// A reason why work deserves a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Risk {
    /// The kind.
    pub kind: RiskKind,
    /// The reason in words.
    pub why: String,
}

/// What is known of landed work.
#[derive(Clone, Copy, Debug)]
pub struct WorkFacts<'a> {
    /// The evidence of its attempt.
    pub evidence: &'a Evidence,
    /// The proof of it, if one was made.
    pub proof: Option<&'a Proof>,
    /// The files that it changed.
    pub files: &'a [String],
    /// Those that git ignores.
    pub ignored: &'a [String],
    /// The paths in which the task is to work; none if it has none.
    pub paths: &'a [String],
    /// The task whose agent added this one.
    pub added_by: Option<&'a str>,
}

impl WorkFacts<'_> {
    /// The reasons to look at it, the gravest first.
    pub fn risks(&self) -> Vec<Risk> {
        let evidence = self.evidence;
        let mut found = Vec::new();
        let mut add = |kind, why: String| found.push(Risk { kind, why });
        if let Some(proof) = self.proof.filter(|proof| !proof.is_good()) {
            add(RiskKind::Unproved, proof.to_string());
        }
        if evidence.verify.is_empty() {
            add(RiskKind::Unverified, "no verify command ran".to_owned());
        } else if evidence.verify.iter().all(|check| cannot_fail(&check.command)) {
            let commands: Vec<&str> =
                evidence.verify.iter().map(|check| check.command.as_str()).collect();
            add(RiskKind::Unverified, format!("{} cannot fail", first_names(&commands)));
        }
        let review = evidence.review.as_ref();
        match review {
            Some(review) if review.findings.len() > 1 => {
                review.findings.iter().for_each(|it| add(RiskKind::Reviewed, it.line()));
            }
            Some(review) if !review.is_good() => add(RiskKind::Reviewed, review.to_string()),
            Some(_) | None => {}
        }
        let mut named = |kind, what: &str, files: Vec<&str>| {
            if !files.is_empty() {
                add(kind, format!("{what}: {}", first_names(&files)));
            }
        };
        named(RiskKind::Tampered, "hooks or settings of git changed", strings(&evidence.tampered));
        let secrets = self.files.iter().map(String::as_str).filter(|path| is_secret_file(path));
        named(RiskKind::Secrets, "files that hold secrets by their names", secrets.collect());
        let checks = strings(&evidence.verify_inputs_changed);
        named(RiskKind::ChecksChanged, "files that decide what is checked changed", checks);
        let undone = evidence.takes_back.iter().map(TaskId::as_str).collect();
        named(RiskKind::TakesBack, "undoes landed work of", undone);
        named(RiskKind::TestsChanged, "existing tests changed", strings(&evidence.tests_changed));
        named(RiskKind::Ignored, "files that git ignores", strings(self.ignored));
        let outside = self.files.iter().map(String::as_str).filter(|path| self.is_outside(path));
        named(RiskKind::Outside, "files outside of its `path`", outside.collect());
        let left = strings(&evidence.left_besides);
        named(RiskKind::LeftBesides, "left besides its commits, and committed by `ralph`", left);
        named(RiskKind::Bulk, "large or binary files", strings(&evidence.bulk));
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let files = self.files.iter().map(String::as_str);
        let needs = files.filter(|path| MANIFESTS.contains(&name(path).as_str()));
        named(RiskKind::Dependencies, "dependencies changed", needs.collect());
        if let Some(by) = self.added_by {
            add(RiskKind::ByAgent, format!("the agent of `{by}` added this task"));
        }
        let DiffStat { files, insertions, deletions } = evidence.diff.unwrap_or_default();
        if insertions + deletions > LARGE.0 || files > LARGE.1 {
            add(RiskKind::Large, format!("{files} files, +{insertions} -{deletions}"));
        }
        found
    }

    fn is_outside(&self, path: &str) -> bool {
        let is_in = |folder: &String| {
            let folder = folder.trim_start_matches("./").trim_end_matches('/');
            let rest = path.strip_prefix(folder);
            folder == "."
                || folder.is_empty()
                || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.paths.is_empty() && !self.paths.iter().any(is_in)
    }
}

/// How much work with these reasons and this size deserves a look, compared with other work.
pub fn weight(risks: &[Risk], size: DiffStat) -> (usize, usize) {
    let weight = risks.iter().map(|risk| risk.kind.weight()).sum();
    (weight, size.insertions + size.deletions)
}

fn strings(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        RiskKind::{Dependencies, Large, Outside, Secrets, TestsChanged, Unverified},
        *,
    };
    use crate::verdict::CheckResult;

    #[test]
    fn the_gravest_reason_comes_first_and_decides_the_order() {
        let green: CheckResult = serde_json::from_str(
            r#"{"command":"make","outcome":"exited","exit_code":0,"duration_seconds":1.0,"log":"x"}"#,
        )
        .unwrap();
        let evidence = Evidence {
            verify: vec![green],
            tests_changed: vec!["tests/a.py".to_owned()],
            diff: Some(DiffStat { files: 2, insertions: 500, deletions: 0 }),
            ..Evidence::default()
        };
        let files = ["src/a.py", "web/package.json", ".env", "api/x"].map(str::to_owned);
        let paths = ["./src/".to_owned(), "web".to_owned()];
        let facts = WorkFacts {
            evidence: &evidence,
            proof: None,
            files: &files,
            ignored: &[],
            paths: &paths,
            added_by: None,
        };
        let risks = facts.risks();
        let kinds: Vec<RiskKind> = risks.iter().map(|risk| risk.kind).collect();
        assert_eq!(kinds, [Secrets, TestsChanged, Outside, Dependencies, Large]);
        assert_eq!(risks[2].why, "files outside of its `path`: `.env`, `api/x`");
        let quiet = Evidence { diff: evidence.diff, ..Evidence::default() };
        let unverified = WorkFacts { evidence: &quiet, files: &[], ..facts }.risks();
        assert_eq!(unverified[0].kind, Unverified);
        let size = DiffStat::default();
        assert!(weight(&risks, size) > weight(&unverified, size));
        assert!(weight(&unverified, size) > weight(&[], DiffStat { insertions: 9999, ..size }));
        assert!(kinds.windows(2).all(|two| two[0].weight() >= two[1].weight()));
    }
}
