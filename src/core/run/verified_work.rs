//! Work that may land, and the proof for it: its verify commands passed in a tree whose HEAD was at
//! its last commit.
//!
//! [`VerifiedWork::new`] is the only way to make one, and nothing else can land.

use crate::{
    commit_id::CommitId,
    verdict::{CheckResult, Commit, DiffStat, Evidence, Merge, ResolvedConflict},
};

/// HEAD of the worktree of a command; `None` where it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadSpan {
    /// The commit right before the command started.
    pub before: Option<CommitId>,
    /// The commit after all its processes had ended.
    pub after: Option<CommitId>,
}

impl HeadSpan {
    /// Whether HEAD was at this commit before and after the command.
    fn is_at(&self, commit: &CommitId) -> bool {
        [&self.before, &self.after].iter().all(|head| head.as_ref() == Some(commit))
    }
}

/// The work of one attempt on top of the target branch.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltCommit {
    /// Its last commit.
    pub commit: CommitId,
    /// Its commits and their size, if they are not the commits of the attempt itself.
    pub rebuilt: Option<(Vec<Commit>, DiffStat)>,
    /// The files whose conflicts with other work were resolved.
    pub resolved: Vec<ResolvedConflict>,
}

/// The landing of the work of an attempt, or why it did not land.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkLanding {
    /// Where it landed.
    pub merge: Merge,
    /// The results of its verify commands.
    pub checks: Vec<CheckResult>,
    /// The work on the target branch.
    pub built: Option<BuiltCommit>,
}

impl WorkLanding {
    /// The commit that lands.
    pub fn commit(&self) -> Option<&CommitId> {
        self.built.as_ref().map(|built| &built.commit)
    }

    /// Adds the landing to the evidence of the work.
    pub fn complete(self, evidence: &mut Evidence) {
        if let Some((commits, diff)) = self.built.and_then(|built| built.rebuilt) {
            (evidence.commits, evidence.diff) = (commits, Some(diff));
        }
        evidence.merge = Some(self.merge);
        if !self.checks.is_empty() {
            evidence.verify = self.checks;
        }
    }
}

/// A command that ran in a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedCommand {
    /// Its result.
    pub result: CheckResult,
    /// HEAD of the tree.
    pub head: HeadSpan,
}

/// Verify commands that ran in one tree, up to the first failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyRun {
    /// The files that differed from HEAD before the first command.
    pub changed: Vec<String>,
    /// The commands, in order.
    pub commands: Vec<CheckedCommand>,
}

impl VerifyRun {
    /// The reason why the commands did not run on this commit, if they did not.
    fn strayed(&self, commit: &CommitId) -> Option<String> {
        let list = |names: Vec<&str>| names.join("`, `");
        if !self.changed.is_empty() {
            let paths = self.changed.iter().map(String::as_str).take(5).collect();
            return Some(format!("files differ from the commit to verify: `{}`", list(paths)));
        }
        let strayed: Vec<_> = self.commands.iter().filter(|it| !it.head.is_at(commit)).collect();
        let moved = strayed.iter().filter(|it| it.head.before != it.head.after);
        let moved: Vec<&str> = moved.map(|it| &*it.result.command).collect();
        if !moved.is_empty() {
            return Some(format!("verify commands moved HEAD: `{}`", list(moved)));
        }
        let first = strayed.first()?;
        let head = first.head.before.as_ref().map_or("no commit", CommitId::short);
        let expected = commit.short();
        Some(format!("HEAD was at {head}, not at {expected}, for `{}`", first.result.command))
    }
}

/// Why work must not land.
#[derive(Clone, Debug, PartialEq)]
pub enum Unproven {
    /// This command failed on it.
    Red(Box<CheckResult>),
    /// The commands did not run on its last commit, for this reason: they prove nothing.
    Strayed(String),
}

/// Work whose verify commands passed on its last commit.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedWork {
    branch: String,
    onto: CommitId,
    built: BuiltCommit,
    required: Vec<String>,
    results: Vec<CheckResult>,
}

impl VerifiedWork {
    /// Makes one of the work on top of `onto`, a commit of `branch`, if every one of `required` passed
    /// on its last commit.
    ///
    /// # Errors
    /// A command failed or did not run on that commit.
    pub fn new(
        branch: &str,
        onto: &CommitId,
        built: &BuiltCommit,
        required: &[String],
        run: &VerifyRun,
    ) -> Result<VerifiedWork, Unproven> {
        let strayed = |why: &str| Err(Unproven::Strayed(why.to_owned()));
        if !required.is_empty()
            && !crate::known_bug::is_on("believe-checks-of-another-commit")
            && let Some(why) = run.strayed(&built.commit)
        {
            return Err(Unproven::Strayed(why));
        }
        if let Some(red) = run.commands.iter().find(|it| !it.result.is_green()) {
            return Err(Unproven::Red(Box::new(red.result.clone())));
        }
        let ran = run.commands.iter().map(|it| &it.result.command);
        if !required.iter().eq(ran) {
            return strayed("not every verify command ran");
        }
        Ok(VerifiedWork {
            branch: branch.to_owned(),
            onto: onto.clone(),
            built: built.clone(),
            required: required.to_vec(),
            results: run.commands.iter().map(|it| it.result.clone()).collect(),
        })
    }

    /// The branch that moves.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The commit of the branch that the work was built on.
    pub fn onto(&self) -> &CommitId {
        &self.onto
    }

    /// The new commit of the branch.
    pub fn tip(&self) -> &CommitId {
        &self.built.commit
    }

    /// The commands that passed on it.
    pub fn required(&self) -> &[String] {
        &self.required
    }

    /// Their results.
    pub fn results(&self) -> &[CheckResult] {
        &self.results
    }

    /// The work on the target branch.
    pub fn built(&self) -> &BuiltCommit {
        &self.built
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    fn ran(command: &str, exit_code: i32, before: &str, after: &str) -> CheckedCommand {
        let head = HeadSpan { before: Some(before.into()), after: Some(after.into()) };
        let result = CheckResult {
            command: command.to_owned(),
            outcome: Outcome::Exited { exit_code },
            duration_seconds: 1.0,
            last_line: None,
            no_test: false,
            log: String::new(),
        };
        CheckedCommand { result, head }
    }

    /// Why work with the last commit `b` may not land, if it may not.
    fn refused(changed: &[&str], commands: Vec<CheckedCommand>) -> Option<String> {
        let built = BuiltCommit { commit: "b".into(), rebuilt: None, resolved: Vec::new() };
        let required = ["one", "two"].map(str::to_owned);
        let changed = changed.iter().map(|path| (*path).to_owned()).collect();
        let run = VerifyRun { changed, commands };
        match VerifiedWork::new("main", &"0".into(), &built, &required, &run) {
            Ok(verified) => {
                assert_eq!((verified.tip(), verified.built()), (&"b".into(), &built));
                None
            }
            Err(Unproven::Red(check)) => Some(format!("{} is red", check.command)),
            Err(Unproven::Strayed(why)) => Some(why),
        }
    }

    #[test]
    fn only_commands_that_passed_on_the_last_commit_are_a_proof() {
        let (one, two) = (ran("one", 0, "b", "b"), ran("two", 0, "b", "b"));
        let both = || vec![one.clone(), two.clone()];
        assert_eq!(refused(&[], both()), None);
        for (commands, why) in [
            (vec![one.clone(), ran("two", 1, "b", "b")], "two is red"),
            (vec![ran("one", 1, "a", "a")], "HEAD was at a, not at b, for `one`"),
            (vec![ran("one", 0, "a", "b"), two.clone()], "verify commands moved HEAD: `one`"),
            (vec![one.clone(), ran("two", 1, "b", "a")], "verify commands moved HEAD: `two`"),
            (vec![one.clone()], "not every verify command ran"),
            (vec![two.clone(), one.clone()], "not every verify command ran"),
            (Vec::new(), "not every verify command ran"),
        ] {
            assert_eq!(refused(&[], commands).as_deref(), Some(why));
        }
        let changed = refused(&["x", "y"], both());
        assert_eq!(changed.unwrap(), "files differ from the commit to verify: `x`, `y`");
        let mut unknown = both();
        unknown[0].head.before = None;
        assert!(refused(&[], unknown).is_some(), "HEAD could not be read");
    }
}
