//! Which controls a change needs, the trees of the controls, and what their results show.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ControlKind, ControlResult, ControlText, ProofOutcome,
    halves::{Half, HalvesRule, as_it_was},
    policy::ProofPolicy,
    source_code::{SourceCode, lexer::Language},
    tripwire::{Reach, Tripwire},
};

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
}

/// Words with which tests are left out.
const SKIPS: &[&str] = &[
    "skip",
    "xfail",
    "xit(",
    "xdescribe",
    ".only",
    ".todo",
    "[ignore",
    "|| true",
    "deselect",
    "collect_ignore",
    "importorskip",
    "t.Skip",
];

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
        let old_tests = old_tests(&tests, &source);
        if code.is_empty() {
            return Err(Self::without_code(
                !source.is_empty(),
                &tests,
                &checks,
                &source,
                &old_tests,
            ));
        }
        if !idle.is_empty() && idle.len() == commands {
            let command = idle.first().cloned().unwrap_or_default();
            return Err(ProofOutcome::NoTest { command });
        }
        let old_checks: ControlTree = checks
            .iter()
            .filter_map(|file| {
                let old = as_it_was(&file.path, file.base.as_deref(), file.head.as_deref())?;
                Some((file.path.clone(), old))
            })
            .collect();
        let in_file = |file: &&&ChangedFile| {
            let has = |text: &Option<String>| {
                text.as_deref().map(|text| test_half(file, text)).unwrap_or_default()
            };
            has(&file.base) != has(&file.head)
        };
        let checks_changed =
            !tests.is_empty() || !old_checks.is_empty() || code.iter().any(|it| in_file(&it));
        let wires = [tripwire, tripwire.inert()].map(|wire| wired(&code, wire));
        let others = of(Half::Other).into_iter().filter(|it| it.was_there && !checks_changed);
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
        })
    }

    /// The outcome of a change without code.
    fn without_code(
        has_source: bool,
        tests: &[&ChangedFile],
        checks: &[&ChangedFile],
        source: &[&ChangedFile],
        old_tests: &ControlTree,
    ) -> ProofOutcome {
        let in_source = |path: &String| source.iter().any(|file| file.path == *path);
        if !old_tests.is_empty() {
            return ProofOutcome::TestsRemoved { files: old_tests.keys().cloned().collect() };
        }
        let changes_tests = |file: &&ChangedFile| {
            let half = |text: &Option<String>| text.as_deref().map(|text| test_half(file, text));
            half(&file.base).unwrap_or_default() != half(&file.head).unwrap_or_default()
        };
        let tests_in_source = source.iter().any(changes_tests);
        debug_assert!(!old_tests.keys().any(in_source), "such tests have a control");
        if has_source && !tests_in_source {
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
        if self.policy != ProofPolicy::Keep && is_due(ControlKind::WithoutSource) {
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
        let with_tests = self.checks_changed || is_base_green;
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
        if let Some((_, red)) = red(ControlKind::OldChecks) {
            let files = self.old_checks.keys().cloned().collect();
            return ProofOutcome::ChecksChanged { files, command: red.command.clone() };
        }
        let old_tests = red(ControlKind::OldTests);
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

/// The tests in a file of source.
fn test_half(file: &ChangedFile, text: &str) -> String {
    let Some(language) = file.language() else { return String::new() };
    split(&SourceCode::new(language, text), true)
}

/// Whether the source half of a file has another code than before.
fn has_code_change(file: &ChangedFile) -> bool {
    let Some(language) = file.language() else { return true };
    let (Some(base), Some(head)) = (&file.base, &file.head) else {
        // A new file may be tests alone.
        let text = file.head.as_ref().or(file.base.as_ref());
        return text.is_none_or(|text| {
            let code = split(&SourceCode::new(language, text), false);
            !SourceCode::new(language, &code).code().trim().is_empty()
        });
    };
    let code = |text: &str| {
        let code = split(&SourceCode::new(language, text), false);
        SourceCode::new(language, &code).code()
    };
    code(base) != code(head)
}

/// The tests at the top level of a file, or all else.
fn split(code: &SourceCode<'_>, of_tests: bool) -> String {
    let tests = code.tests();
    let lines = code.text().split_inclusive('\n').enumerate();
    let is_test = |at: usize| tests.iter().any(|range| range.contains(&at));
    lines.filter(|(at, _)| is_test(*at) == of_tests).map(|(_, line)| line).collect()
}

/// The tree without the source half of a change.
fn without_source(source: &[&ChangedFile]) -> ControlTree {
    let modules = kept_modules(source);
    let tree = source.iter().map(|file| {
        let tests = file.head.as_deref().map(|text| test_half(file, text)).unwrap_or_default();
        let declared = modules.get(&file.path).cloned().unwrap_or_default();
        let is_kept = !tests.is_empty() || !declared.is_empty();
        let text = match (file.language(), is_kept) {
            (Some(language), true) => {
                let base = file.base.as_deref().unwrap_or_default();
                let base = split(&SourceCode::new(language, base), false);
                let end = if base.is_empty() || base.ends_with('\n') { "" } else { "\n" };
                ControlText::Text(format!("{base}{end}{declared}{tests}"))
            }
            (Some(language), false)
                if file.base.as_deref().is_some_and(|base| {
                    // The tests that the work removed are a matter of another control.
                    !SourceCode::new(language, base).tests().is_empty()
                }) =>
            {
                let base = file.base.as_deref().unwrap_or_default();
                ControlText::Text(split(&SourceCode::new(language, base), false))
            }
            _ => ControlText::Base,
        };
        (file.path.clone(), text)
    });
    tree.collect()
}

/// The new declarations of modules of Rust that have tests, by the file that has them: without their
/// declarations, the tests would not be compiled.
fn kept_modules(source: &[&ChangedFile]) -> BTreeMap<String, String> {
    let rust = source.iter().filter(|it| it.language() == Some(Language::Rust));
    let rust: Vec<&&ChangedFile> = rust.filter(|it| it.head.is_some()).collect();
    let head = |file: &ChangedFile| file.head.clone().unwrap_or_default();
    let mut kept: BTreeSet<String> = rust
        .iter()
        .filter(|file| !file.was_there && !test_half(file, &head(file)).is_empty())
        .map(|file| file.path.clone())
        .collect();
    let mut declared: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let before = declared.clone();
        for file in &rust {
            let text = head(file);
            let base = file.base.as_deref().unwrap_or_default();
            let lines = text.lines().filter(|line| !base.lines().any(|old| old == *line));
            let modules = lines.filter(|line| {
                let name = line.trim().strip_suffix(';').and_then(|it| it.rsplit_once("mod "));
                name.is_some_and(|(_, name)| {
                    children(&file.path, name.trim()).iter().any(|it| kept.contains(it))
                })
            });
            let modules: String = modules
                .flat_map(|line| {
                    [
                        line, "
",
                    ]
                })
                .collect();
            if !modules.is_empty() {
                declared.insert(file.path.clone(), modules);
                if !file.was_there {
                    kept.insert(file.path.clone());
                }
            }
        }
        if declared == before {
            return declared;
        }
    }
}

/// The files that a module of a file of Rust may be in.
fn children(path: &str, name: &str) -> [String; 2] {
    let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let folder = match stem {
        "lib" | "main" | "mod" => folder.to_owned(),
        _ if folder.is_empty() => stem.to_owned(),
        _ => format!("{folder}/{stem}"),
    };
    let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    [format!("{start}{name}.rs"), format!("{start}{name}/mod.rs")]
}

/// Whether words came into a file with which tests are left out.
fn skips_more(file: &ChangedFile) -> bool {
    let skips = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        SKIPS.iter().map(|word| text.matches(word).count()).sum::<usize>()
    };
    skips(&file.head) > skips(&file.base)
}

/// The tree with the existing tests as they were: those of which lines went, or in which words came
/// with which tests are left out.
fn old_tests(tests: &[&ChangedFile], source: &[&ChangedFile]) -> ControlTree {
    let skips = |text: &str| SKIPS.iter().map(|word| text.matches(word).count()).sum::<usize>();
    let is_code = |file: &ChangedFile, line: &str| match file.language() {
        Some(language) => SourceCode::new(language, line).has_code(0),
        None => !line.trim().is_empty(),
    };
    let mut tree = ControlTree::new();
    for file in tests {
        let went = file.removed.iter().any(|line| is_code(file, line));
        if (file.was_there && (went || file.head.is_none())) || skips_more(file) {
            tree.insert(file.path.clone(), ControlText::Base);
        }
    }
    for file in source {
        let (Some(Language::Rust), Some(base)) = (file.language(), &file.base) else { continue };
        let head = file.head.clone().unwrap_or_default();
        let (old, new) = (test_half(file, base), test_half(file, &head));
        let new_lines: BTreeSet<&str> = new.lines().collect();
        let went = old.lines().any(|line| is_code(file, line) && !new_lines.contains(line));
        if went || skips(&new) > skips(&old) {
            let code = split(&SourceCode::new(Language::Rust, &head), false);
            tree.insert(file.path.clone(), ControlText::Text(format!("{code}\n{old}")));
        }
    }
    tree
}

/// The tree with a statement in each changed function.
fn wired(source: &[&ChangedFile], wire: Tripwire) -> ControlTree {
    let planted = source.iter().filter_map(|file| {
        let text = file.head.as_deref()?;
        let planted = wire.plant(&file.path, text, Reach::Lines(&file.lines))?;
        Some((file.path.clone(), ControlText::Text(planted)))
    });
    planted.collect()
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
        let removed = vec!["assert a() == 1".to_owned()];
        let weaker = ChangedFile { was_there: true, removed, ..test };
        let files = vec!["tests/a.py".to_owned()];
        assert_eq!(plan(&[weaker]).err(), Some(ProofOutcome::TestsRemoved { files }));
    }

    #[test]
    fn a_red_control_is_questioned_and_a_flaky_one_proves_nothing() {
        let plan = plan(&[
            file("src/a.py", Some("x = 1\n"), "x = 2\n"),
            file("tests/a.py", None, "def test_a(): pass\n"),
        ]);
        let plan = plan.expect("code changed");
        let result = |control: ControlKind, is_red: bool| ControlResult {
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
        };
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
