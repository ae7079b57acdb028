//! Which controls a change needs, and what their results show.

use std::collections::{BTreeMap, BTreeSet};

use trees::{
    broken, broken_old_tests, changes_tests, has_code_change, is_conftest, is_in_functions,
    loses_lines, of_its_time, old_checks, old_tests, skips_more, weakened, wired, without_source,
};

use super::{
    ControlKind, ControlResult, ControlText, ProofOutcome,
    halves::{Half, HalvesRule},
    policy::ProofPolicy,
    source_code::{
        SourceCode,
        lexer::{Language, file_name},
    },
    tripwire::Tripwire,
};
use crate::verdict::CheckResult;

mod trees;

/// A changed file.
#[derive(Clone, Debug, Default)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Its text in the base; none if it is not there or is no text.
    pub base: Option<String>,
    /// Its text in the work; none if it is not there or is no text.
    pub head: Option<String>,
    /// Whether the base has it.
    pub was_there: bool,
    /// The lines of the work that changed, counted from 0.
    pub lines: BTreeSet<usize>,
    /// Whether lines of the base are not in the work.
    pub has_lost: bool,
}

impl ChangedFile {
    fn name(&self) -> &str {
        file_name(&self.path)
    }

    /// Its text without comments, if its language is known.
    fn code_of(&self, text: Option<&String>) -> Option<String> {
        match (self.language(), text) {
            (Some(language), Some(text)) => Some(SourceCode::new(language, text).code()),
            (_, text) => text.cloned(),
        }
    }

    fn language(&self) -> Option<Language> {
        Language::of(&self.path)
    }
}

/// The files of a control that differ from the work.
pub type ControlTree = BTreeMap<String, ControlText>;

/// What a proof is about.
#[derive(Clone, Copy, Debug)]
pub struct ProofSubject<'a> {
    /// The files that changed.
    pub files: &'a [ChangedFile],
    /// The halves of the change.
    pub rule: &'a HalvesRule,
    /// What the proof must show.
    pub policy: ProofPolicy,
    /// The statement that throws.
    pub tripwire: Tripwire,
    /// The verify commands that ran no test.
    pub idle: &'a [String],
    /// The number of all verify commands.
    pub commands: usize,
}

/// The tree of the work itself.
static UNCHANGED: ControlTree = ControlTree::new();

/// What the controls of a change are.
#[derive(Clone, Debug)]
pub struct ProofPlan {
    policy: ProofPolicy,
    source: Vec<String>,
    /// Whether a test or a setting of checks changed.
    checks_changed: bool,
    without_source: ControlTree,
    old_tests: ControlTree,
    old_checks: ControlTree,
    /// All that changed as it was.
    base: ControlTree,
    wires: [ControlTree; 2],
    /// The changed functions return at once; nothing if more changed than functions.
    stub: ControlTree,
    /// All code is broken; nothing if neither settings of checks nor existing tests changed.
    broken: ControlTree,
    broken_old_checks: ControlTree,
    /// Nothing if code changed and no existing test.
    broken_old_tests: ControlTree,
    /// Whether a `conftest.py` changed.
    has_conftest: bool,
    /// The existing files of tests of which lines went.
    lost: Vec<String>,
    tripwire: Tripwire,
    /// The commands that ran no test.
    idle: Vec<String>,
    /// The files of tests in which more tests are left out than before.
    skipped: Vec<String>,
    /// The existing files of tests that are gone.
    gone: Vec<String>,
    /// The files that `old_checks` is about.
    check_files: Vec<String>,
    /// The files that `old_tests` is about.
    test_files: Vec<String>,
    /// Whether all of them belong to tests.
    is_of_tests: bool,
    /// What a change without code shows, if the existing tests pass as they were.
    otherwise: Option<ProofOutcome>,
}

/// The last result of a control that is red each time, and the command that failed.
fn red_of(done: &[ControlResult], kind: ControlKind) -> Option<(&ControlResult, &CheckResult)> {
    let mut all = done.iter().filter(|it| it.control == kind);
    let is_red = all.clone().all(|it| it.red.is_some());
    let last = all.next_back().filter(|_| is_red)?;
    Some((last, last.red.as_ref()?))
}

fn paths(files: &[&ChangedFile], of: fn(&ChangedFile) -> bool) -> Vec<String> {
    files.iter().filter(|it| of(it)).map(|it| it.path.clone()).collect()
}

fn skipped(why: &str) -> ProofOutcome {
    ProofOutcome::Skipped { why: why.to_owned() }
}

impl ProofPlan {
    /// The controls of a change, or the outcome without any. `all_code` reads all code of the project in
    /// the work, by path.
    ///
    /// # Errors
    /// The outcome, if no control is needed; that of `all_code`.
    pub fn of(
        subject: ProofSubject<'_>,
        all_code: impl FnOnce() -> Result<Vec<(String, String)>, ProofOutcome>,
    ) -> Result<ProofPlan, ProofOutcome> {
        let ProofSubject { files, rule, policy, tripwire, idle, .. } = subject;
        let of = |half: Half| -> Vec<&ChangedFile> {
            files.iter().filter(|file| rule.half(&file.path) == half).collect()
        };
        let (source, tests, checks) = (of(Half::Source), of(Half::Test), of(Half::Check));
        let code: Vec<_> = source.iter().copied().filter(|it| has_code_change(it)).collect();
        let mut old_tests = old_tests(&tests, &source);
        let mut old_checks = old_checks(&checks);
        let mut check_files: Vec<String> = old_checks.keys().cloned().collect();
        let is_of_tests = check_files.is_empty();
        check_files.extend(paths(&tests, is_conftest));
        let has_conftest = check_files.len() > old_checks.len();
        if has_conftest {
            old_checks.extend(tests.iter().filter_map(|it| of_its_time(it)));
        }
        let checks_tests = !tests.is_empty() || source.iter().any(|it| changes_tests(it));
        let mut otherwise = None;
        if code.is_empty() {
            let files = weakened(&tests, &source);
            if !files.is_empty() {
                return Err(ProofOutcome::TestsRemoved { files });
            }
            let outcome = Self::without_code(&tests, &checks, &source);
            if old_tests.is_empty() && old_checks.is_empty() && !checks_tests {
                return Err(outcome);
            }
            otherwise = Some(outcome);
        } else {
            if !idle.is_empty() && idle.len() == subject.commands {
                let command = idle.first().cloned().unwrap_or_default();
                return Err(ProofOutcome::NoTest { command });
            }
            old_tests.retain(|path, _| !check_files.contains(path));
        }
        let checks_changed = checks_tests || !old_checks.is_empty();
        let edits_tests = !old_tests.is_empty();
        let weighs_tests = edits_tests || (otherwise.is_some() && checks_tests);
        let wires = [tripwire, tripwire.inert()].map(|wire| wired(&code, wire));
        let stubbed = if code.iter().all(|it| is_in_functions(it)) { &code[..] } else { &[] };
        let is_weighed = weighs_tests || !old_checks.is_empty();
        let broken = if is_weighed { broken(&all_code()?, tripwire) } else { ControlTree::new() };
        let weighed = if weighs_tests { &broken } else { &UNCHANGED };
        let others = of(Half::Other).into_iter().filter(|it| match otherwise {
            // Data and its test may change together.
            Some(_) => edits_tests,
            None => it.was_there && !checks_changed,
        });
        Ok(ProofPlan {
            policy,
            source: paths(&code, |_| true),
            checks_changed,
            without_source: without_source(&source),
            test_files: old_tests.keys().cloned().collect(),
            // What a test compares with may be a file of any kind.
            old_tests: others
                .map(|it| (it.path.clone(), ControlText::Base))
                .chain(old_tests)
                .collect(),
            broken_old_tests: broken_old_tests(weighed, &tests, &source, tripwire),
            broken_old_checks: broken.clone().into_iter().chain(old_checks.clone()).collect(),
            broken,
            has_conftest,
            lost: paths(&tests, loses_lines),
            old_checks,
            base: files.iter().map(|it| (it.path.clone(), ControlText::Base)).collect(),
            wires,
            stub: wired(stubbed, tripwire.stub()),
            tripwire,
            idle: idle.to_vec(),
            skipped: paths(&tests, skips_more),
            gone: paths(&tests, |it| it.was_there && it.head.is_none()),
            check_files,
            is_of_tests,
            otherwise,
        })
    }

    /// The outcome of a change without code.
    fn without_code(
        tests: &[&ChangedFile],
        checks: &[&ChangedFile],
        source: &[&ChangedFile],
    ) -> ProofOutcome {
        let tests_in_source = source.iter().any(|it| changes_tests(it));
        let what = match (tests.is_empty() && !tests_in_source, checks.is_empty()) {
            (true, true) if !source.is_empty() => return ProofOutcome::NoCode,
            (true, true) => "documentation and other files",
            (true, false) => "settings and scripts of checks",
            (false, true) => "tests",
            (false, false) => "tests and settings of checks",
        };
        ProofOutcome::NotNeeded { what: what.to_owned() }
    }

    /// The control that follows these; none if they are enough.
    pub fn next(&self, done: &[ControlResult]) -> Option<ControlKind> {
        let of = |kind| done.iter().filter(move |it| it.control == kind);
        if of(ControlKind::Again).any(|it| it.red.is_some()) {
            return None;
        }
        // The work itself is asked after the first red control, and after the last: in between, those
        // that are red are asked twice. Checks that fail now and then would prove anything.
        let is_doubtful =
            |it: &ControlResult| it.red.is_some() && !it.marked && !it.control.breaks_code();
        let is_red = done.iter().any(is_doubtful);
        if is_red && of(ControlKind::Again).next().is_none() {
            return Some(ControlKind::Again);
        }
        // Those that are questioned again if they are red.
        let is_due = |kind| match of(kind).count() {
            0 => true,
            count => count < 2 && of(kind).all(|it| it.red.is_some()),
        };
        let asks_source = self.policy != ProofPolicy::Keep && self.otherwise.is_none();
        if asks_source && is_due(ControlKind::WithoutSource) {
            return Some(ControlKind::WithoutSource);
        }
        if !self.wires[0].is_empty() {
            match of(ControlKind::Tripwire).next() {
                None => return Some(ControlKind::Tripwire),
                Some(wire)
                    if wire.red.is_some()
                        && !wire.marked
                        && of(ControlKind::Inert).next().is_none() =>
                {
                    return Some(ControlKind::Inert);
                }
                Some(_) => {}
            }
        }
        let misses_names = red_of(done, ControlKind::WithoutSource).is_some()
            && of(ControlKind::WithoutSource).all(|it| it.misses_names);
        if misses_names && !self.stub.is_empty() && of(ControlKind::Stub).next().is_none() {
            return Some(ControlKind::Stub);
        }
        let needs_source = of(ControlKind::WithoutSource).any(|it| it.red.is_some());
        let needs_base = needs_source && !self.checks_changed && self.base != self.without_source;
        if needs_base && is_due(ControlKind::Base) {
            return Some(ControlKind::Base);
        }
        // If no test changed, what they read may have.
        let is_base_green = of(ControlKind::Base).any(|it| it.red.is_none());
        let with_tests = self.checks_changed || self.otherwise.is_some() || is_base_green;
        if with_tests && !self.old_tests.is_empty() && is_due(ControlKind::OldTests) {
            return Some(ControlKind::OldTests);
        }
        if !self.old_checks.is_empty() && is_due(ControlKind::OldChecks) {
            return Some(ControlKind::OldChecks);
        }
        if let Some(kind) = self.next_of_settings(done) {
            return Some(kind);
        }
        let last = done.iter().rfind(|it| !it.control.breaks_code());
        let is_last = last.is_some_and(|it| it.control == ControlKind::Again);
        (is_red && !is_last).then_some(ControlKind::Again)
    }

    /// Whether the numbers of tests that run with the old settings and the new can be compared.
    fn counts_tests(&self) -> bool {
        !self.has_conftest || self.lost.is_empty()
    }

    /// The control that shows whether the checks notice less with their new settings.
    fn next_of_settings(&self, done: &[ControlResult]) -> Option<ControlKind> {
        let first = |kind| done.iter().find(|it| it.control == kind);
        let counted = first(ControlKind::OldChecks).is_some_and(|it| it.tests.is_some());
        if self.counts_tests() && counted && first(ControlKind::Again).is_none() {
            return Some(ControlKind::Again);
        }
        // Tests that pass as they were, and of which nothing went, are as good as before.
        let are_red = red_of(done, ControlKind::OldTests).is_some();
        let may_be_less = self.otherwise.is_some() || are_red || !self.lost.is_empty();
        let weighs_tests = !self.broken_old_tests.is_empty() && may_be_less;
        if self.broken.is_empty() || (self.old_checks.is_empty() && !weighs_tests) {
            return None;
        }
        let Some(broken) = first(ControlKind::Broken) else { return Some(ControlKind::Broken) };
        let settings = !self.old_checks.is_empty() && !broken.passed.is_empty();
        let tests = weighs_tests && broken.failures().is_some();
        let kinds =
            [(settings, ControlKind::BrokenOldChecks), (tests, ControlKind::BrokenOldTests)];
        let due = kinds.into_iter().find(|(is_due, kind)| *is_due && first(*kind).is_none());
        due.map(|(_, kind)| kind)
    }

    /// What the checks notice no more with their new settings and tests.
    fn weakened(&self, done: &[ControlResult]) -> Option<ProofOutcome> {
        let first = |kind| done.iter().find(|it| it.control == kind);
        let files = self.check_files.clone();
        let tests = |kind| first(kind).and_then(|it: &ControlResult| it.tests);
        let counts = tests(ControlKind::OldChecks).zip(tests(ControlKind::Again));
        if let Some((before, tests)) = counts.filter(|(old, new)| self.counts_tests() && old > new)
        {
            return Some(ProofOutcome::ChecksNarrowed { files, before, tests });
        }
        let new = first(ControlKind::Broken)?;
        let red = first(ControlKind::BrokenOldChecks).and_then(|old| old.red.as_ref());
        if let Some(red) = red.filter(|red| new.passed.contains(&red.command)) {
            return Some(ProofOutcome::ChecksDisarmed { files, command: red.command.clone() });
        }
        let old = first(ControlKind::BrokenOldTests)?;
        let (before, tests) = old.failures().zip(new.failures())?;
        if tests < before {
            let files = self.test_files.clone();
            return Some(ProofOutcome::TestsWeakened { files, before, tests });
        }
        let is_more = self.otherwise.is_some() && new.tests > old.tests;
        (is_more && tests == before).then_some(ProofOutcome::TestsNoticeNothing)
    }

    /// The tree of a control.
    pub fn tree(&self, kind: ControlKind) -> &ControlTree {
        match kind {
            ControlKind::WithoutSource => &self.without_source,
            ControlKind::OldTests => &self.old_tests,
            ControlKind::OldChecks => &self.old_checks,
            ControlKind::Tripwire => &self.wires[0],
            ControlKind::Inert => &self.wires[1],
            ControlKind::Base => &self.base,
            ControlKind::Again => &UNCHANGED,
            ControlKind::Stub => &self.stub,
            ControlKind::Broken => &self.broken,
            ControlKind::BrokenOldChecks => &self.broken_old_checks,
            ControlKind::BrokenOldTests => &self.broken_old_tests,
        }
    }

    /// The text that shows in an output that a changed function ran.
    pub fn marker(&self) -> String {
        self.tripwire.marker()
    }

    /// What the controls show of the checks and tests that changed; none if nothing stands against them,
    /// and code changed.
    fn of_checks(&self, done: &[ControlResult]) -> Option<ProofOutcome> {
        if let Some(weakened) = self.weakened(done) {
            return Some(weakened);
        }
        let old_tests = red_of(done, ControlKind::OldTests);
        // Where the tests fail as they were anyway, what belongs to them says no more.
        let old_checks = red_of(done, ControlKind::OldChecks)
            .filter(|(_, red)| !(red.no_test || self.is_of_tests && old_tests.is_some()))
            // What the settings of before make of new tests alone says nothing.
            .filter(|_| self.otherwise.is_none());
        if let Some((_, red)) = old_checks {
            let (files, command) = (self.check_files.clone(), red.command.clone());
            return Some(ProofOutcome::ChecksChanged { files, command });
        }
        // What tested code that is gone went with it.
        let is_kept = old_tests.is_some_and(|(it, _)| !it.misses_names && !self.gone.is_empty());
        let weaker = match &self.otherwise {
            Some(_) => &self.test_files,
            None if is_kept => &self.gone,
            None => &self.skipped,
        };
        let red = old_tests.filter(|_| !weaker.is_empty()).map(|(_, red)| {
            let (files, command) = (weaker.clone(), red.command.clone());
            ProofOutcome::ChecksChanged { files, command }
        });
        red.or_else(|| self.otherwise.clone())
    }

    /// What the controls show.
    pub fn outcome(&self, done: &[ControlResult]) -> ProofOutcome {
        let all = |kind| done.iter().filter(move |it| it.control == kind);
        let red = |kind| red_of(done, kind);
        let is_flaky = |kind| all(kind).any(|it| it.red.is_some()) && red(kind).is_none();
        let wire = all(ControlKind::Tripwire).next();
        let inert_is_red = all(ControlKind::Inert).any(|it| it.red.is_some());
        // None: no function of a known language changed.
        let runs = wire.map(|wire| wire.marked || (wire.red.is_some() && !inert_is_red));
        let is_unclear = inert_is_red && wire.is_some_and(|wire| !wire.marked);
        if all(ControlKind::Again).any(|it| it.red.is_some()) {
            return skipped("the checks fail now and then with the same work");
        }
        if let Some(outcome) = self.of_checks(done) {
            return outcome;
        }
        let old_tests = red(ControlKind::OldTests);
        if self.policy == ProofPolicy::Keep {
            return match (old_tests, runs) {
                (Some((_, red)), _) => ProofOutcome::NotKept { command: red.command.clone() },
                (None, Some(true) | None) => ProofOutcome::Kept,
                (None, Some(false)) => ProofOutcome::NeverRun,
            };
        }
        let is_base_red = self.base == self.without_source || red(ControlKind::Base).is_some();
        let Some((control, red)) = red(ControlKind::WithoutSource) else {
            if is_flaky(ControlKind::WithoutSource) {
                return skipped("the checks fail now and then without the change");
            }
            return match runs {
                Some(false) => ProofOutcome::NeverRun,
                _ => ProofOutcome::NotNoticed { runs: runs == Some(true) },
            };
        };
        if self.idle.contains(&red.command) {
            return ProofOutcome::NoTest { command: red.command.clone() };
        }
        if is_unclear {
            return skipped("the checks notice the text of the source itself");
        } else if is_flaky(ControlKind::Base) {
            return skipped("the checks fail now and then before the work");
        }
        if !self.checks_changed && is_base_red {
            return ProofOutcome::Repaired;
        }
        if runs == Some(false) {
            return ProofOutcome::NeverRun;
        } else if all(ControlKind::Stub).any(|it| it.red.is_none()) {
            return ProofOutcome::OnlyCalled;
        }
        ProofOutcome::Proved {
            files: self.source.len(),
            command: red.command.clone(),
            tests: control.failed_tests,
            tests_changed: if old_tests.is_some() { self.old_tests.len() } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, base: Option<&str>, head: &str) -> ChangedFile {
        ChangedFile {
            path: path.to_owned(),
            was_there: base.is_some(),
            base: base.map(str::to_owned),
            head: Some(head.to_owned()),
            lines: (0..head.lines().count()).collect(),
            has_lost: false,
        }
    }

    fn plan(files: &[ChangedFile]) -> Result<ProofPlan, ProofOutcome> {
        let subject = ProofSubject {
            files,
            rule: &HalvesRule::default(),
            policy: ProofPolicy::Report,
            tripwire: Tripwire::new(1),
            idle: &[],
            commands: 1,
        };
        let code = ("src/b.py".to_owned(), "def b():\n    return 1\n".to_owned());
        ProofPlan::of(subject, || Ok(vec![code]))
    }

    fn text(text: &str) -> ControlText {
        ControlText::Text(text.to_owned())
    }

    fn result(control: ControlKind, is_red: bool) -> ControlResult {
        ControlResult {
            control,
            red: is_red.then(|| crate::verdict::CheckResult {
                command: "t".to_owned(),
                outcome: crate::verdict::Outcome::Exited { exit_code: 1 },
                duration_seconds: 1.0,
                last_line: None,
                log: String::new(),
                no_test: false,
            }),
            marked: false,
            failed_tests: None,
            tests: None,
            misses_names: false,
            passed: if is_red { Vec::new() } else { vec!["t".to_owned()] },
            duration_seconds: 1.0,
        }
    }

    #[test]
    fn tests_in_files_of_rust_stay_without_the_source() {
        const TEST: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n";
        let changed = file("src/lib.rs", Some("fn a() {}\n"), "mod deep;\nfn a() {}\nfn b() {}\n");
        let deep = file("src/deep.rs", None, "pub mod c;\n");
        let child = file("src/deep/c.rs", None, &format!("fn c() {{}}\n{TEST}"));
        let untested = file("src/plain.rs", None, "fn d() {}\n");
        let plan = plan(&[changed, deep, child, untested]).expect("code changed");
        let tree = plan.tree(ControlKind::WithoutSource);
        assert_eq!(tree["src/lib.rs"], text("fn a() {}\nmod deep;\n"));
        assert_eq!(tree["src/deep.rs"], text("pub mod c;\n"));
        assert_eq!(tree["src/deep/c.rs"], text(TEST));
        assert_eq!(tree["src/plain.rs"], ControlText::Base);
    }

    #[test]
    fn what_no_check_could_notice_needs_no_control() {
        let comment = file("src/a.py", Some("x = 1\n"), "# why\nx = 1\n");
        assert_eq!(plan(&[comment]).err(), Some(ProofOutcome::NoCode));
        let what = "tests".to_owned();
        let test = file("tests/a.py", None, "def test_a(): pass\n");
        let new = plan(std::slice::from_ref(&test)).expect("controls");
        let done = [result(ControlKind::Broken, true)];
        assert_eq!((new.next(&[]), new.next(&done)), (Some(ControlKind::Broken), None));
        assert_eq!(new.outcome(&done), ProofOutcome::NotNeeded { what });
        let files = vec!["tests/a.py".to_owned()];
        let edit = |head: &str| {
            let base = "def test_a():\n    assert a() == 2\n    assert b()\n";
            ChangedFile { has_lost: true, ..file("tests/a.py", Some(base), head) }
        };
        for weaker in
            ["def test_a():\n    assert b()\n", "# def test_a():\nassert a() == 2\nassert b()\n"]
        {
            let files = files.clone();
            assert_eq!(plan(&[edit(weaker)]).err(), Some(ProofOutcome::TestsRemoved { files }));
        }
        // An edit shows nothing, if the tests still pass as they were.
        let edit =
            plan(&[edit("def test_a():\n    assert a() == TWO  # 2\n    assert b() is True\n")]);
        let edit = edit.expect("a control");
        assert_eq!(edit.next(&[]), Some(ControlKind::OldTests));
        let what = "tests".to_owned();
        let done = [result(ControlKind::OldTests, false), result(ControlKind::Broken, true)];
        assert_eq!((edit.next(&done[..1]), edit.next(&done)), (Some(ControlKind::Broken), None));
        assert_eq!(edit.outcome(&done), ProofOutcome::NotNeeded { what });
        let done = [result(ControlKind::OldTests, true)];
        let command = "t".to_owned();
        assert_eq!(edit.outcome(&done), ProofOutcome::ChecksChanged { files, command });
    }

    #[test]
    fn an_old_conftest_meets_the_tests_of_its_time() {
        let old = "def test_sub():\n    assert sub()\n";
        let plan = plan(&[
            file("src/a.py", Some("x = 1\n"), "x = 2\n"),
            file("tests/conftest.py", None, "def two(): return 2\n"),
            file("tests/helper.py", None, "TWO = 2\n"),
            file("tests/test_a.py", Some(old), &format!("{old}def test_mul(two): pass\n")),
            file("tests/test_b.py", None, "import new\ndef test_b(two): pass\n"),
        ]);
        let plan = plan.expect("code changed");
        let tree = plan.tree(ControlKind::OldChecks);
        assert_eq!(tree.len(), 3);
        assert_eq!(tree["tests/conftest.py"], ControlText::Base);
        assert_eq!(tree["tests/test_a.py"], text(&format!("{old}\ndef test_mul(): pass\n")));
        assert_eq!(tree["tests/test_b.py"], text("\ndef test_b(): pass\n"));
        let without = ControlKind::WithoutSource;
        let (command, files) = ("t".to_owned(), vec!["tests/conftest.py".to_owned()]);
        let mut done = vec![result(without, true), result(ControlKind::OldChecks, true)];
        assert_eq!(plan.outcome(&done), ProofOutcome::ChecksChanged { files, command });
        done.push(result(ControlKind::OldTests, true));
        assert!(matches!(plan.outcome(&done), ProofOutcome::Proved { .. }));
        if let Some(red) = done.get_mut(1).and_then(|it| it.red.as_mut()) {
            red.no_test = true;
        }
        done.pop();
        assert!(matches!(plan.outcome(&done), ProofOutcome::Proved { .. }));
    }

    #[test]
    fn settings_with_which_checks_notice_less_are_named() {
        let settings = file("pytest.ini", Some("[pytest]\n"), "[pytest]\naddopts = -k one\n");
        let plan = plan(&[settings]).expect("controls");
        let kinds = [ControlKind::OldChecks, ControlKind::Broken, ControlKind::BrokenOldChecks];
        let ask = |reds: &[bool], counts: [Option<u64>; 2]| {
            let mut done = Vec::new();
            while let Some(kind) = plan.next(&done) {
                let at = kinds.iter().position(|it| *it == kind);
                let mut result = result(kind, at.is_some_and(|at| reds[at]));
                result.tests = if kind == ControlKind::Again { counts[1] } else { counts[0] };
                done.push(result);
            }
            plan.outcome(&done)
        };
        let needed = ProofOutcome::NotNeeded { what: "settings and scripts of checks".to_owned() };
        let files = vec!["pytest.ini".to_owned()];
        assert_eq!(ask(&[false, true, true], [Some(3), Some(3)]), needed);
        assert_eq!(ask(&[false, false, false], [None, None]), needed);
        let narrowed = ProofOutcome::ChecksNarrowed { files: files.clone(), before: 3, tests: 1 };
        assert_eq!(ask(&[false, true, true], [Some(3), Some(1)]), narrowed);
        let disarmed = ProofOutcome::ChecksDisarmed { files, command: "t".to_owned() };
        assert_eq!(ask(&[false, false, true], [None, None]), disarmed);
    }

    #[test]
    fn tests_that_notice_less_than_before_are_named() {
        let base = "def test_a():\n    assert a() == 2\n\ndef test_b():\n    assert b()\n";
        let head = base.replace("    assert b()", "    if False:\n        assert b()");
        let edited = ChangedFile { has_lost: true, ..file("tests/a.py", Some(base), &head) };
        let added = file("tests/c.py", None, "def test_c(): pass\n");
        let source = file("src/a.py", Some("x = 1\n"), "x = 2\n");
        // The number of tests that run and fail with broken code, now and before.
        let ask = |files: &[ChangedFile], now: [u64; 2], before: [u64; 2], is_old_red: bool| {
            let plan = plan(files).expect("controls");
            let mut done = Vec::new();
            while let Some(kind) = plan.next(&done) {
                let [tests, failed] = if kind == ControlKind::Broken { now } else { before };
                let old = kind == ControlKind::OldTests && is_old_red;
                let is_red = if kind.breaks_code() { failed > 0 } else { old };
                let failed_tests = is_red.then_some(failed);
                let tests = Some(tests);
                done.push(ControlResult { failed_tests, tests, ..result(kind, is_red) });
            }
            plan.outcome(&done)
        };
        let what = "tests".to_owned();
        let needed = ProofOutcome::NotNeeded { what };
        let files = vec!["tests/a.py".to_owned()];
        let weaker = ProofOutcome::TestsWeakened { files, before: 2, tests: 1 };
        let edited = std::slice::from_ref(&edited);
        assert_eq!(ask(edited, [2, 2], [2, 2], false), needed);
        assert_eq!(ask(edited, [2, 1], [2, 2], false), weaker);
        let added = std::slice::from_ref(&added);
        assert_eq!(ask(added, [3, 3], [2, 2], false), needed);
        assert_eq!(ask(added, [3, 2], [2, 2], false), ProofOutcome::TestsNoticeNothing);
        // With source, if tests fail as they were, or lines of them went.
        let both = [source, edited[0].clone()];
        assert_eq!(ask(&both, [2, 1], [2, 2], true), weaker);
        assert_eq!(ask(&both, [2, 1], [2, 2], false), weaker);
        let not_noticed = ProofOutcome::NotNoticed { runs: false };
        assert_eq!(ask(&both, [2, 2], [2, 2], false), not_noticed);
        let kept = both.map(|file| ChangedFile { has_lost: false, ..file });
        assert_eq!(ask(&kept, [2, 1], [2, 2], false), not_noticed);
    }

    #[test]
    fn a_function_that_is_only_called_is_not_proved() {
        let new = file("src/a.py", None, "from b import c\n\ndef mul(a, b):\n    return a * b\n");
        let test = file("tests/a.py", None, "def test_a(): mul(2, 3)\n");
        let plan = plan(&[new, test]).expect("code changed");
        let ask = |is_stub_red: bool| {
            let mut done = Vec::new();
            while let Some(kind) = plan.next(&done) {
                let reds = [ControlKind::WithoutSource, ControlKind::Tripwire];
                let is_red = reds.contains(&kind) || (kind == ControlKind::Stub && is_stub_red);
                let marked = kind == ControlKind::Tripwire;
                done.push(ControlResult { misses_names: true, marked, ..result(kind, is_red) });
            }
            plan.outcome(&done)
        };
        assert_eq!(ask(false), ProofOutcome::OnlyCalled);
        assert!(matches!(ask(true), ProofOutcome::Proved { .. }));
    }

    #[test]
    fn a_red_control_is_questioned_and_a_flaky_one_proves_nothing() {
        let plan = plan(&[
            file("src/a.py", Some("x = 1\n"), "x = 2\n"),
            file("tests/a.py", None, "def test_a(): pass\n"),
        ]);
        let plan = plan.expect("code changed");
        // Asks for controls that are red in this order, and returns what they were and show.
        let ask = |reds: &[bool]| {
            let mut done = Vec::new();
            for is_red in reds {
                done.push(result(plan.next(&done).expect("another control"), *is_red));
            }
            assert_eq!(plan.next(&done), None);
            let kinds: Vec<_> = done.iter().map(|it| it.control).collect();
            (kinds, plan.outcome(&done))
        };
        let (without, again) = (ControlKind::WithoutSource, ControlKind::Again);
        let (kinds, outcome) = ask(&[true, false, true, false]);
        assert_eq!(kinds, [without, again, without, again]);
        assert!(matches!(outcome, ProofOutcome::Proved { files: 1, .. }));
        let flaky: [&[bool]; 3] =
            [&[true, true], &[true, false, true, true], &[true, false, false, false]];
        for reds in flaky {
            assert!(matches!(ask(reds).1, ProofOutcome::Skipped { .. }), "{reds:?}");
        }
        assert_eq!(ask(&[false]).1, ProofOutcome::NotNoticed { runs: false });
    }
}
