//! Which controls a change needs, and what their results show.

use std::collections::{BTreeMap, BTreeSet};

use trees::{
    changes_tests, has_code_change, is_conftest, of_its_time, old_tests, skips_more, weakened,
    wired, without_source,
};

use super::{
    ControlKind, ControlResult, ControlText, ProofOutcome,
    halves::{Half, HalvesRule, as_it_was},
    policy::ProofPolicy,
    source_code::lexer::Language,
    tripwire::Tripwire,
};

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
    /// The lines of the base that are not in the work.
    pub removed: Vec<String>,
}

impl ChangedFile {
    fn language(&self) -> Option<Language> {
        Language::of(&self.path)
    }
}

/// The files of a control that differ from the work.
pub type ControlTree = BTreeMap<String, ControlText>;

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
    /// The work itself.
    again: ControlTree,
    wires: [ControlTree; 2],
    tripwire: Tripwire,
    /// The commands that ran no test.
    idle: Vec<String>,
    /// The existing files of tests in which more tests are left out than before.
    skipped: Vec<String>,
    /// The files that `old_checks` is about, or without code, `old_tests`.
    check_files: Vec<String>,
    /// Whether all of them belong to tests.
    is_of_tests: bool,
    /// What a change without code shows, if the existing tests pass as they were.
    otherwise: Option<ProofOutcome>,
}

impl ProofPlan {
    /// The controls of a change, or what can be said without any. `idle` are the verify commands that
    /// ran no test, `commands` is the number of all.
    ///
    /// # Errors
    /// The outcome, if no control is needed.
    pub fn of(
        files: &[ChangedFile],
        rule: &HalvesRule,
        (policy, tripwire): (ProofPolicy, Tripwire),
        (idle, commands): (Vec<String>, usize),
    ) -> Result<ProofPlan, ProofOutcome> {
        let of = |half: Half| -> Vec<&ChangedFile> {
            files.iter().filter(|file| rule.half(&file.path) == half).collect()
        };
        let (source, tests, checks) = (of(Half::Source), of(Half::Test), of(Half::Check));
        let code: Vec<&ChangedFile> =
            source.iter().copied().filter(|it| has_code_change(it)).collect();
        let mut old_tests = old_tests(&tests, &source);
        let mut otherwise = None;
        if code.is_empty() {
            let files = weakened(&tests, &source);
            if !files.is_empty() {
                return Err(ProofOutcome::TestsRemoved { files });
            }
            let outcome = Self::without_code(&tests, &checks, &source);
            if old_tests.is_empty() {
                return Err(outcome);
            }
            otherwise = Some(outcome);
        }
        if otherwise.is_none() && !idle.is_empty() && idle.len() == commands {
            let command = idle.first().cloned().unwrap_or_default();
            return Err(ProofOutcome::NoTest { command });
        }
        let checks = checks.iter().filter(|_| otherwise.is_none());
        let mut old_checks: ControlTree = checks
            .filter_map(|file| {
                let old = as_it_was(&file.path, file.base.as_deref(), file.head.as_deref())?;
                Some((file.path.clone(), old))
            })
            .collect();
        let mut check_files: Vec<String> = old_checks.keys().cloned().collect();
        let is_of_tests = check_files.is_empty();
        let conftests = tests.iter().filter(|it| otherwise.is_none() && is_conftest(it));
        check_files.extend(conftests.map(|it| it.path.clone()));
        old_tests.retain(|path, _| !check_files.contains(path));
        if check_files.len() > old_checks.len() {
            old_checks.extend(tests.iter().filter_map(|it| of_its_time(it)));
        }
        let checks_changed =
            !tests.is_empty() || !old_checks.is_empty() || code.iter().any(|it| changes_tests(it));
        let wires = [tripwire, tripwire.inert()].map(|wire| wired(&code, wire));
        let others = of(Half::Other).into_iter().filter(|it| match otherwise {
            // Data and its test may change together.
            Some(_) => true,
            None => it.was_there && !checks_changed,
        });
        if otherwise.is_some() {
            check_files = old_tests.keys().cloned().collect();
        }
        Ok(ProofPlan {
            policy,
            source: code.iter().map(|file| file.path.clone()).collect(),
            checks_changed,
            without_source: without_source(&source),
            // What a test compares with may be a file of any kind.
            old_tests: others
                .map(|it| (it.path.clone(), ControlText::Base))
                .chain(old_tests)
                .collect(),
            old_checks,
            base: files.iter().map(|it| (it.path.clone(), ControlText::Base)).collect(),
            again: ControlTree::new(),
            wires,
            tripwire,
            idle,
            skipped: tests.iter().filter(|it| skips_more(it)).map(|it| it.path.clone()).collect(),
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
        if !source.is_empty() && !tests_in_source {
            return ProofOutcome::NoCode;
        }
        let what = match (tests.is_empty() && !tests_in_source, checks.is_empty()) {
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
        let is_red = done.iter().any(|it| it.red.is_some() && !it.marked);
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
        let is_last = done.last().is_some_and(|it| it.control == ControlKind::Again);
        (is_red && !is_last).then_some(ControlKind::Again)
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
            ControlKind::Again => &self.again,
        }
    }

    /// The text that shows in an output that a changed function ran.
    pub fn marker(&self) -> String {
        self.tripwire.marker()
    }

    /// What the controls show.
    pub fn outcome(&self, done: &[ControlResult]) -> ProofOutcome {
        let all = |kind| done.iter().filter(move |it| it.control == kind);
        let red = |kind| {
            let is_red = all(kind).next().is_some() && all(kind).all(|it| it.red.is_some());
            all(kind)
                .next_back()
                .filter(|_| is_red)
                .and_then(|it| it.red.as_ref().map(|red| (it, red)))
        };
        let is_flaky = |kind| all(kind).any(|it| it.red.is_some()) && red(kind).is_none();
        let wire = all(ControlKind::Tripwire).next();
        let inert_is_red = all(ControlKind::Inert).any(|it| it.red.is_some());
        // None: no function of a known language changed.
        let runs = wire.map(|wire| wire.marked || (wire.red.is_some() && !inert_is_red));
        let is_unclear = inert_is_red && wire.is_some_and(|wire| !wire.marked);
        let skipped = |why: &str| ProofOutcome::Skipped { why: why.to_owned() };
        if all(ControlKind::Again).any(|it| it.red.is_some()) {
            return skipped("the checks fail now and then with the same work");
        }
        let old_tests = red(ControlKind::OldTests);
        // Where the tests fail as they were anyway, what belongs to them says no more.
        let old_checks = red(ControlKind::OldChecks)
            .filter(|(_, red)| !(red.no_test || self.is_of_tests && old_tests.is_some()));
        if let Some((_, red)) = old_checks {
            let (files, command) = (self.check_files.clone(), red.command.clone());
            return ProofOutcome::ChecksChanged { files, command };
        }
        if let Some(outcome) = &self.otherwise {
            return match old_tests {
                Some((_, red)) => ProofOutcome::ChecksChanged {
                    files: self.check_files.clone(),
                    command: red.command.clone(),
                },
                None => outcome.clone(),
            };
        }
        if let (Some((_, red)), false) = (old_tests, self.skipped.is_empty()) {
            let (files, command) = (self.skipped.clone(), red.command.clone());
            return ProofOutcome::ChecksChanged { files, command };
        }
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
            return match (runs, self.idle.first()) {
                (Some(false), _) => ProofOutcome::NeverRun,
                (runs, _) => ProofOutcome::NotNoticed { runs: runs == Some(true) },
            };
        };
        if self.idle.contains(&red.command) {
            return ProofOutcome::NoTest { command: red.command.clone() };
        }
        if is_unclear {
            return skipped("the checks notice the text of the source itself");
        }
        if is_flaky(ControlKind::Base) {
            return skipped("the checks fail now and then before the work");
        }
        if !self.checks_changed && is_base_red {
            return ProofOutcome::Repaired;
        }
        if runs == Some(false) {
            return ProofOutcome::NeverRun;
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
            removed: Vec::new(),
        }
    }

    fn plan(files: &[ChangedFile]) -> Result<ProofPlan, ProofOutcome> {
        let asked = (ProofPolicy::Report, Tripwire::new(1));
        ProofPlan::of(files, &HalvesRule::default(), asked, (Vec::new(), 1))
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
        assert_eq!(plan(std::slice::from_ref(&test)).err(), Some(ProofOutcome::NotNeeded { what }));
        let files = vec!["tests/a.py".to_owned()];
        let edit = |head: &str| {
            let base = "def test_a():\n    assert a() == 2\n    assert b()\n";
            let removed = base.lines().map(str::to_owned).collect();
            ChangedFile { removed, ..file("tests/a.py", Some(base), head) }
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
        let done = [result(ControlKind::OldTests, false)];
        assert_eq!(edit.next(&done), None);
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
