//! Which controls a change needs, and what their results show.

use std::collections::{BTreeMap, BTreeSet};

use trees::{
    broken, broken_old, changed_tests, changes_tests, functions, has_code_change,
    has_lost_functions, old_checks, old_tests, test_text, unreadable, wired, without_source,
};

use super::{
    ControlKind, ControlResult, ControlText, ProofPolicy, ProofReason,
    halves::{Half, HalvesRule},
    source_code::{
        SourceCode,
        lexer::{Language, file_name},
    },
    tripwire::Tripwire,
};
use crate::verdict::Outcome;

mod trees;

/// The most groups of new functions that are emptied, each in a control.
const GROUPS: usize = 4;

/// The most controls with a statement that throws: a function may hide another.
const WIRES: usize = 3;

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
    /// The verify commands.
    pub commands: &'a [String],
    /// The tasks whose landed work it takes back.
    pub takes_back: &'a [String],
    /// The branch on which it has landed as it is.
    pub branch: Option<&'a str>,
}

/// A function that work adds or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FunctionSite {
    path: String,
    name: String,
    /// Its place among the functions of its file.
    place: usize,
    /// Whether the base has no function of its name.
    is_new: bool,
}

/// What the controls of a change are.
#[derive(Clone, Debug)]
pub struct ProofPlan {
    policy: ProofPolicy,
    branch: Option<String>,
    source: Vec<ChangedFile>,
    commands: Vec<String>,
    /// The functions that are asked.
    sites: Vec<FunctionSite>,
    /// Those that are emptied at once.
    groups: Vec<Vec<FunctionSite>>,
    /// Whether code changed, and not only tests and settings of checks.
    has_code: bool,
    /// Whether a test changed.
    has_tests: bool,
    without_source: ControlTree,
    old_tests: ControlTree,
    /// All code is broken; nothing if neither settings of checks nor existing tests changed.
    broken: ControlTree,
    broken_old: ControlTree,
    /// The changed code of languages whose functions are not known.
    unreadable: ControlTree,
    tripwire: Tripwire,
    /// The tests of the work.
    test_text: String,
    /// The changed lines of tests, with the headers of the blocks around them.
    own_tests: String,
    /// Whether a function went, whose tests may go with it.
    has_lost_functions: bool,
    /// The existing tests and settings of checks that changed.
    check_files: Vec<String>,
    /// The settings of checks among them, as they were.
    old_checks: ControlTree,
    /// What changed besides code.
    what: &'static str,
}

/// A control that is to run: its tree and the functions that it asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its kind.
    pub kind: ControlKind,
    /// The functions.
    pub functions: Vec<String>,
    /// The files that differ from the work.
    pub tree: ControlTree,
}

impl ProofPlan {
    /// The controls of a change, or the outcome without any. `all_code` reads all code of the project in
    /// the work, by path.
    ///
    /// # Errors
    /// The outcome, if no control is needed; that of `all_code`.
    pub fn of(
        subject: ProofSubject<'_>,
        all_code: impl FnOnce() -> Result<Vec<(String, String)>, ProofReason>,
    ) -> Result<ProofPlan, ProofReason> {
        let ProofSubject { files, rule, policy, tripwire, commands, takes_back, branch } = subject;
        if commands.is_empty() {
            return Err(ProofReason::Unchecked);
        }
        if !takes_back.is_empty() {
            return Err(ProofReason::TakesBack { tasks: takes_back.to_vec() });
        }
        let of = |half: Half| -> Vec<&ChangedFile> {
            files.iter().filter(|file| rule.half(&file.path) == half).collect()
        };
        let (source, tests, checks) = (of(Half::Source), of(Half::Test), of(Half::Check));
        let code: Vec<_> = source.iter().copied().filter(|it| has_code_change(it)).collect();
        let (old_tests, old_checks) = (old_tests(&tests, &source), old_checks(&checks));
        let has_tests = !tests.is_empty() || source.iter().any(|it| changes_tests(it));
        let what = match (has_tests, checks.is_empty()) {
            (true, true) => "tests",
            (true, false) => "tests and settings of checks",
            (false, false) => "settings and scripts of checks",
            (false, true) if !source.is_empty() => "comments of source files",
            (false, true) => "documentation and other files",
        };
        if code.is_empty() && !has_tests && old_checks.is_empty() {
            let why = ProofReason::NoCode { what: what.to_owned() };
            let wants = policy == ProofPolicy::Tests;
            return Err(if wants {
                ProofReason::OnlyExercised { why: why.to_string() }
            } else {
                why
            });
        }
        let decides = |it: &&&ChangedFile| !it.was_there && rule.decides_checks(&it.path);
        let new_checks: Vec<&String> = tests.iter().filter(decides).map(|it| &it.path).collect();
        let weighs = old_tests.len() + old_checks.len() + new_checks.len() > 0 || code.is_empty();
        let broken = if weighs { broken(&all_code()?, tripwire) } else { ControlTree::new() };
        if code.is_empty() && !has_tests && broken.is_empty() {
            return Err(ProofReason::NoCode { what: what.to_owned() });
        }
        let check_files = old_tests.keys().chain(old_checks.keys()).chain(new_checks);
        let check_files = check_files.cloned().collect();
        let sites = functions(&code);
        Ok(ProofPlan {
            policy,
            branch: branch.map(str::to_owned),
            commands: commands.to_vec(),
            groups: groups(&sites),
            sites,
            has_code: !code.is_empty(),
            has_tests,
            without_source: without_source(&source),
            broken_old: broken_old(&broken, &tests, &source, &old_checks, tripwire),
            broken,
            old_tests,
            unreadable: unreadable(&code),
            tripwire,
            test_text: test_text(&tests, &source),
            own_tests: changed_tests(&tests, &source),
            has_lost_functions: has_lost_functions(&source),
            check_files,
            old_checks,
            what,
            source: code.into_iter().cloned().collect(),
        })
    }

    /// The control that follows these and the `last` of them; none if they are enough.
    pub fn next(&self, done: &[ControlResult], last: Option<Control>) -> Option<Control> {
        let has = |kind| done.iter().any(|it| it.control == kind);
        let with = |kind, tree: &ControlTree| {
            Some(Control { kind, functions: Vec::new(), tree: tree.clone() })
        };
        if !has(ControlKind::Inert) {
            let sites: Vec<&FunctionSite> = self.sites.iter().collect();
            return with(ControlKind::Inert, &self.wired(&sites, self.tripwire.inert()));
        }
        let results = ProofResults { plan: self, done };
        if results.red().is_some() {
            return None;
        }
        if results.may_be_red() {
            return with(ControlKind::Landed, &ControlTree::new());
        }
        if results.is_doubtful() {
            return last;
        }
        if self.has_code && !has(ControlKind::WithoutSource) {
            return with(ControlKind::WithoutSource, &self.without_source);
        }
        let asks_functions = self.has_code && results.has_functions();
        if asks_functions && (results.asks_stubs() || results.lacks_tests()) {
            // Where tests notice each new function, the changed ones add nothing.
            let is_due = |group: &&Vec<FunctionSite>| {
                let mut stubs = results.all(ControlKind::Stub);
                !stubs.any(|it| it.functions == names(group))
                    && (group.iter().any(|it| it.is_new)
                        || !results.unnoticed().is_empty()
                        || results.seen().is_empty())
            };
            if let Some(group) = self.groups.iter().find(is_due) {
                let sites: Vec<&FunctionSite> = group.iter().collect();
                let tree = self.wired(&sites, self.tripwire.stub());
                return Some(Control { kind: ControlKind::Stub, functions: names(group), tree });
            }
        }
        if results.lacks_tests() {
            return None;
        }
        if asks_functions && let Some(sites) = results.unreached() {
            let tree = self.wired(&sites, self.tripwire);
            let functions = sites.iter().map(|it| it.name.clone()).collect();
            return Some(Control { kind: ControlKind::Tripwire, functions, tree });
        }
        let is_unread = self.sites.is_empty() && !self.unreadable.is_empty();
        if is_unread && results.is_green_without_source() && !has(ControlKind::Tripwire) {
            return with(ControlKind::Tripwire, &self.unreadable);
        }
        let asks_old = !self.has_code
            || self.policy == ProofPolicy::Exercised
            || (self.sites.iter().any(|it| !it.is_new)
                && !results.failed_in(ControlKind::WithoutSource).is_empty());
        if asks_old && !self.old_tests.is_empty() && !has(ControlKind::OldTests) {
            return with(ControlKind::OldTests, &self.old_tests);
        }
        // Where a function is not noticed, only what must not land is weighed.
        let is_doubted = || asks_functions && results.function_doubt().is_some();
        if self.broken.is_empty() || (self.old_checks.is_empty() && is_doubted()) {
            return None;
        }
        if !has(ControlKind::Broken) {
            return with(ControlKind::Broken, &self.broken);
        }
        let is_due = self.broken_old != self.broken
            && !has(ControlKind::BrokenOld)
            && !(self.check_files.is_empty() && results.has_gained());
        if is_due { with(ControlKind::BrokenOld, &self.broken_old) } else { None }
    }

    fn wired(&self, sites: &[&FunctionSite], wire: Tripwire) -> ControlTree {
        let source: Vec<&ChangedFile> = self.source.iter().collect();
        wired(&source, sites, wire)
    }

    /// Whether a test failed that passed with the work.
    pub fn is_noticed(&self, done: &[ControlResult], result: &ControlResult) -> bool {
        let inert = done.first().map_or(&[][..], |it| &it.failed);
        result.failed.iter().any(|name| !inert.contains(name))
    }

    /// The functions of a control whose statements ran, by their numbers in an output.
    pub fn reached(&self, control: &Control, output: &str) -> Vec<String> {
        let numbered = (0_u32..).zip(&control.functions);
        let ran = numbered.filter(|(more, _)| output.contains(&self.tripwire.marker(*more)));
        ran.map(|(_, name)| name.clone()).collect()
    }

    /// What the controls show.
    pub fn reason(&self, done: &[ControlResult]) -> ProofReason {
        let results = ProofResults { plan: self, done };
        let reason = results.reason();
        let is_enough = self.policy != ProofPolicy::Tests || !reason.is_good();
        let is_proved = matches!(reason, ProofReason::Noticed { .. });
        if is_enough || is_proved {
            return reason;
        }
        ProofReason::OnlyExercised { why: reason.to_string() }
    }
}

fn names(group: &[FunctionSite]) -> Vec<String> {
    group.iter().map(|it| it.name.clone()).collect()
}

/// The functions that are emptied at once: each new one alone, unless there are many, and the changed ones
/// together.
fn groups(sites: &[FunctionSite]) -> Vec<Vec<FunctionSite>> {
    let (new, changed): (Vec<FunctionSite>, Vec<_>) =
        sites.iter().cloned().partition(|it| it.is_new);
    let size = new.len().div_ceil(GROUPS).max(1);
    let mut groups: Vec<Vec<FunctionSite>> = new.chunks(size).map(<[_]>::to_vec).collect();
    groups.extend((!changed.is_empty()).then_some(changed));
    groups
}

/// What the name of a test is in any file: without the place of the test and the values of its parameters.
fn base_name(name: &str) -> &str {
    if let Some((_, title)) = name.rsplit_once(" > ") {
        return title;
    }
    let bare = name.split('[').next().unwrap_or(name);
    let name = match bare.rsplit_once("::") {
        Some((_, name)) => name,
        // A test of Go has its package before it.
        None => name.split_once(' ').filter(|it| it.0.contains(['/', '.'])).map_or(name, |it| it.1),
    };
    if name.contains(' ') { name } else { name.rsplit('.').next().unwrap_or(name) }
}

/// Whether a text names a test: in quotes, or after a word such as `def` or `fn`, which a call has not.
fn names_test(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let mut before = text[..at].chars().rev();
        let is_named = match before.next() {
            Some('"' | '\'' | '`') => true,
            Some(' ') => before.next().is_some_and(is_part),
            _ => false,
        };
        is_named && !text[at + name.len()..].starts_with(is_part)
    })
}

/// Whether the command that failed did not end.
fn is_late(result: &ControlResult) -> bool {
    result.red.as_ref().is_some_and(|red| matches!(red.outcome, Outcome::TimedOut { .. }))
}

/// How many tests of each base name are in a list.
fn counts(tests: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for name in tests {
        *counts.entry(base_name(name)).or_insert(0) += 1;
    }
    counts
}

/// The results of controls, as far as they are there.
struct ProofResults<'a> {
    plan: &'a ProofPlan,
    done: &'a [ControlResult],
}

impl<'a> ProofResults<'a> {
    fn all(&self, kind: ControlKind) -> impl Iterator<Item = &'a ControlResult> {
        self.done.iter().filter(move |it| it.control == kind)
    }

    fn first(&self, kind: ControlKind) -> Option<&'a ControlResult> {
        self.all(kind).next()
    }

    /// The tests that fail each time in a control and passed with the work.
    fn failed(&self, result: &'a ControlResult) -> Vec<String> {
        let inert = self.first(ControlKind::Inert).map_or(&[][..], |it| &it.failed);
        let fails = |name: &&String| {
            let mut again = self.done.iter().filter(|it| it.is_of(result));
            !inert.contains(name) && again.all(|it| it.failed.contains(name))
        };
        result.failed.iter().filter(fails).cloned().collect()
    }

    /// Whether a control is red, and not only by tests that fail now and then.
    fn is_red(&self, result: &'a ControlResult) -> bool {
        let is_unnamed = result.failed.is_empty() || result.is_cut;
        result.red.is_some() && (is_unnamed || !self.failed(result).is_empty())
    }

    /// Whether tests that the work has not written decide the newest control, or tests accuse the work: one
    /// that fails now and then would decide. It runs once more.
    fn is_doubtful(&self) -> bool {
        let Some(last) = self.done.last() else { return false };
        let failed = self.failed(last);
        let is_doubtful = match last.control {
            ControlKind::Inert | ControlKind::Landed => false,
            ControlKind::OldTests => self.not_kept().is_some(),
            ControlKind::BrokenOld => self.weakened().is_some(),
            ControlKind::Tripwire if !last.functions.is_empty() => false,
            ControlKind::Broken if self.plan.has_code || !self.plan.has_tests => false,
            ControlKind::WithoutSource
            | ControlKind::Stub
            | ControlKind::Tripwire
            | ControlKind::Broken => !last.is_cut && !failed.iter().any(|name| self.is_own(name)),
        };
        let is_first = self.done.iter().filter(|it| it.is_of(last)).count() == 1;
        is_doubtful && is_first && !failed.is_empty() && !is_late(last)
    }

    fn failed_in(&self, kind: ControlKind) -> Vec<String> {
        self.first(kind).map(|it| self.failed(it)).unwrap_or_default()
    }

    /// Whether no test runs with the work, and none fails without it: some are named only if they fail.
    fn lacks_tests(&self) -> bool {
        let is_green = self.first(ControlKind::Inert).is_some_and(|it| it.red.is_none());
        is_green && !self.done.iter().any(|it| it.has_tests)
    }

    /// Whether the work itself must show if it is red, or only its inert tree: twice, to tell a test that
    /// fails now and then.
    fn may_be_red(&self) -> bool {
        let runs: Vec<&ControlResult> = self.all(ControlKind::Landed).collect();
        let is_red = |it: &&ControlResult| !it.failed.is_empty();
        self.first(ControlKind::Inert).iter().all(is_red)
            && runs.len() < 2
            && runs.iter().all(is_red)
    }

    /// What shows that the work is red where it stands: tests that failed there each time.
    fn red(&self) -> Option<ProofReason> {
        let runs: Vec<&ControlResult> = self.all(ControlKind::Landed).collect();
        let [first, second] = runs[..] else { return None };
        let tests: Vec<String> =
            first.failed.iter().filter(|it| second.failed.contains(it)).cloned().collect();
        let command = second.red.as_ref().map(|red| red.command.clone()).unwrap_or_default();
        let branch = self.plan.branch.clone();
        (!tests.is_empty()).then_some(ProofReason::Red { tests, command, branch })
    }

    /// Whether statements can be planted in the changed functions.
    fn has_functions(&self) -> bool {
        let inert = self.first(ControlKind::Inert);
        inert.is_some_and(|it| it.has_tests || it.red.is_none()) && !self.plan.sites.is_empty()
    }

    fn is_green_without_source(&self) -> bool {
        self.first(ControlKind::WithoutSource).is_some_and(|it| !self.is_red(it))
    }

    /// Whether the changed functions are to be emptied: a test may notice them.
    fn asks_stubs(&self) -> bool {
        self.plan.has_tests
            && self.plan.policy != ProofPolicy::Exercised
            && self.first(ControlKind::WithoutSource).is_some_and(|it| self.is_red(it))
    }

    /// The new functions that are emptied without a failing test. One that cannot be emptied is none.
    fn unnoticed(&self) -> Vec<&'a FunctionSite> {
        let is_noticed = |site: &&FunctionSite| {
            let asked = self.all(ControlKind::Stub).find(|it| it.functions.contains(&site.name));
            let is_unread = |it: &ControlResult| it.red.is_some() && (!it.has_tests || it.is_cut);
            asked.is_none_or(|it| !self.failed(it).is_empty() || is_unread(it))
        };
        self.plan.sites.iter().filter(|it| it.is_new && !is_noticed(it)).collect()
    }

    /// The functions of which it matters whether a test runs them.
    fn doubtful(&self) -> Vec<&'a FunctionSite> {
        let is_noticed = !self.failed_in(ControlKind::WithoutSource).is_empty();
        match self.plan.has_tests && self.plan.policy != ProofPolicy::Exercised {
            true if self.asks_stubs() => self.unnoticed(),
            _ if is_noticed => Vec::new(),
            _ => self.plan.sites.iter().collect(),
        }
    }

    fn is_reached(&self, site: &FunctionSite) -> bool {
        self.all(ControlKind::Tripwire).any(|it| it.reached.contains(&site.name))
    }

    /// The doubtful functions that no control has shown to run, if another control may.
    fn unreached(&self) -> Option<Vec<&'a FunctionSite>> {
        let mut unreached = self.doubtful();
        unreached.retain(|it| !self.is_reached(it));
        let wires: Vec<_> = self.all(ControlKind::Tripwire).collect();
        let may_hide = wires.last().is_none_or(|it| !it.reached.is_empty());
        (!unreached.is_empty() && may_hide && wires.len() < WIRES).then_some(unreached)
    }

    /// What the controls show against the doubtful functions.
    fn function_doubt(&self) -> Option<ProofReason> {
        let doubtful = self.doubtful();
        let (reached, never): (Vec<_>, Vec<_>) =
            doubtful.into_iter().partition(|site| self.is_reached(site));
        let named =
            |sites: Vec<&FunctionSite>| sites.into_iter().map(|it| it.name.clone()).collect();
        if !never.is_empty() {
            return Some(ProofReason::NeverRun { functions: named(never) });
        }
        let is_unnoticed = self.asks_stubs() && !reached.is_empty();
        is_unnoticed.then(|| ProofReason::NotNoticed { functions: named(reached) })
    }

    /// The tests among those that failed as they were, `old`, that are not among the `new` ones, unless they
    /// were renamed, or went with what they tested.
    fn lost<'n>(&self, old: &'n [String], new: &'n [String]) -> Vec<String> {
        let (before, now) = (counts(old), counts(new));
        let more = |one: &BTreeMap<&'n str, usize>, other: &BTreeMap<&'n str, usize>| {
            let names = one.iter().map(|(name, count)| {
                (*name, count.saturating_sub(other.get(name).copied().unwrap_or(0)))
            });
            names.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        let (lost, mut gained) = (more(&before, &now), more(&now, &before));
        // A test of a new function is no other test with a new name.
        let is_new = |it: &str| self.plan.sites.iter().any(|site| site.is_new && site.name == it);
        let of_new =
            self.all(ControlKind::Stub).filter(|it| it.functions.iter().all(|it| is_new(it)));
        let of_new: BTreeSet<&str> =
            of_new.flat_map(|it| &it.failed).map(|name| base_name(name)).collect();
        gained.retain(|(name, _)| !of_new.contains(name));
        let sum = |of: &[(&str, usize)]| of.iter().map(|it| it.1).sum::<usize>();
        // What is no longer in the text was renamed, or went with what it tested.
        let may_go = sum(&gained) >= sum(&lost) || self.plan.has_lost_functions;
        let is_taken = |name: &str| !may_go || names_test(&self.plan.test_text, name);
        let lost = lost.into_iter().map(|it| it.0).filter(|name| is_taken(name));
        lost.map(str::to_owned).collect()
    }

    /// The tests that notice less, with the new tests and settings of checks.
    fn weakened(&self) -> Option<ProofReason> {
        let (new, old) = (self.first(ControlKind::Broken)?, self.first(ControlKind::BrokenOld)?);
        if is_late(old) || is_late(new) || self.plan.check_files.is_empty() {
            return None;
        }
        let tests = self.lost(&self.failed(old), &self.failed(new));
        let is_less =
            old.ran.zip(new.ran).is_some_and(|(old, new)| new < old) && !self.plan.has_tests;
        let files = self.plan.check_files.clone();
        (is_less || !tests.is_empty()).then_some(ProofReason::NoticesLess { files, tests })
    }

    /// The tests that fail without the work, and with a function of it emptied.
    fn seen(&self) -> BTreeSet<String> {
        let without = self.first(ControlKind::WithoutSource);
        let tests = without.map(|it| self.failed(it)).unwrap_or_default();
        let is_cut = without.is_some_and(|it| it.is_cut || is_late(it));
        let noticed = |result: &'a ControlResult| {
            // Without names, or in a control without an end, any test counts; one of the work also if its
            // file may not have loaded, or nothing ended without the work.
            let is_any = tests.is_empty() || is_late(result);
            let mut failed = self.failed(result);
            failed.retain(|it| is_any || tests.contains(it) || (is_cut && self.is_own(it)));
            failed
        };
        self.all(ControlKind::Stub).flat_map(noticed).collect()
    }

    /// Whether a test that the work has written fails if all code is broken.
    fn has_gained(&self) -> bool {
        self.failed_in(ControlKind::Broken).iter().any(|name| self.is_own(name))
    }

    fn is_own(&self, name: &str) -> bool {
        names_test(&self.plan.own_tests, base_name(name))
    }

    /// The existing tests that fail as they were.
    fn not_kept(&self) -> Option<ProofReason> {
        let mut tests = self.failed_in(ControlKind::OldTests);
        if self.plan.has_code && self.plan.policy != ProofPolicy::Exercised {
            // What notices the work may have been changed with it.
            tests = self.lost(&tests, &self.failed_in(ControlKind::WithoutSource));
        }
        (!tests.is_empty()).then_some(ProofReason::NotKept { tests })
    }

    /// What the controls show.
    fn reason(&self) -> ProofReason {
        let plan = self.plan;
        let command = || plan.commands.first().cloned().unwrap_or_default();
        if self.lacks_tests() {
            return ProofReason::NoTest { command: command() };
        }
        if let Some(red) = self.red() {
            return red;
        }
        if let Some(weakened) = self.weakened() {
            return weakened;
        }
        if let Some(not_kept) = self.not_kept() {
            return not_kept;
        }
        if !plan.has_code {
            return self.without_code();
        }
        let Some(without) = self.first(ControlKind::WithoutSource) else {
            return ProofReason::NotMade { why: "its controls did not run".to_owned() };
        };
        let tests = self.failed(without);
        let Some(red) = without.red.as_ref().filter(|_| self.is_red(without)) else {
            return self.unnoticed_change();
        };
        if let Some(reason) = self.function_doubt() {
            return reason;
        }
        let stubs: Vec<&ControlResult> = self.all(ControlKind::Stub).collect();
        let (command, seen) = (red.command.clone(), self.seen());
        let is_asked = stubs.iter().any(|it| it.has_tests || !it.failed.is_empty());
        match (tests.is_empty(), is_asked) {
            // Tests that only call what changed fail without it, and pass if it is emptied.
            (false, true) if seen.is_empty() => ProofReason::NotNoticed {
                functions: plan.sites.iter().map(|it| it.name.clone()).collect(),
            },
            (false, true) => ProofReason::Noticed { tests: seen.into_iter().collect(), command },
            (false, false) if stubs.is_empty() && plan.unreadable.is_empty() => {
                ProofReason::Noticed { tests, command }
            }
            (false, false) => ProofReason::Run,
            (true, true) if !seen.is_empty() && plan.sites.iter().any(|it| it.is_new) => {
                ProofReason::Noticed { tests: seen.into_iter().collect(), command }
            }
            (true, _) => ProofReason::Unnamed { command },
        }
    }

    /// What shows a change of code without which all tests pass.
    fn unnoticed_change(&self) -> ProofReason {
        // What went may have taken its tests with it.
        let only_loses = self.plan.sites.is_empty() && self.plan.has_lost_functions;
        if self.plan.has_tests && !only_loses && self.plan.policy != ProofPolicy::Exercised {
            let never =
                self.function_doubt().filter(|it| matches!(it, ProofReason::NeverRun { .. }));
            return never.unwrap_or(ProofReason::NotNoticed { functions: Vec::new() });
        }
        if self.has_functions() {
            return self.function_doubt().unwrap_or(ProofReason::Run);
        }
        match self.first(ControlKind::Tripwire) {
            Some(wire) if !self.is_red(wire) => ProofReason::NeverRun { functions: Vec::new() },
            Some(_) => ProofReason::Run,
            // Code went, or is in no function.
            None if self.plan.source.iter().all(|it| it.language().is_some()) => ProofReason::Run,
            None => ProofReason::NotNoticed { functions: Vec::new() },
        }
    }

    /// What shows a change of tests and settings of checks alone.
    fn without_code(&self) -> ProofReason {
        let plan = self.plan;
        let broken = self.first(ControlKind::Broken);
        let inert = self.first(ControlKind::Inert);
        let old = self.first(ControlKind::BrokenOld);
        let failed = |it| self.failed(it).len();
        let gained = self.has_gained()
            || broken.zip(old).is_some_and(|(new, old)| failed(new) > failed(old));
        let is_more = broken.zip(old).is_some_and(|(new, old)| new.ran > old.ran);
        if broken.is_some_and(|it| !self.is_red(it)) && inert.is_some_and(|it| it.has_tests)
            || (plan.has_tests && is_more && !gained)
        {
            return ProofReason::NoticesNothing;
        }
        ProofReason::ChecksOnly { what: plan.what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::CheckResult;

    const CODE: &str = "def half(n):\n    return n // 2\n";
    const MUL: &str = "def mul(a, b):\n    return a * b\n";
    const TEST: &str = "def test_half():\n    assert half(7) == 3\n";

    fn file(path: &str, base: Option<&str>, head: &str) -> ChangedFile {
        ChangedFile {
            path: path.to_owned(),
            was_there: base.is_some(),
            base: base.map(str::to_owned),
            head: Some(head.to_owned()),
            lines: (0..head.lines().count()).collect(),
        }
    }

    fn plan_as(files: &[ChangedFile], policy: ProofPolicy) -> Result<ProofPlan, ProofReason> {
        let subject = ProofSubject {
            files,
            rule: &HalvesRule::default(),
            policy,
            tripwire: Tripwire::new(1),
            commands: &["t".to_owned()],
            takes_back: &[],
            branch: Some("main"),
        };
        ProofPlan::of(subject, || Ok(vec![("src/a.py".to_owned(), CODE.to_owned())]))
    }

    fn plan(files: &[ChangedFile]) -> Result<ProofPlan, ProofReason> {
        plan_as(files, ProofPolicy::Report)
    }

    fn text(text: &str) -> ControlText {
        ControlText::Text(text.to_owned())
    }

    /// Asks for the controls of a plan, in which these tests fail: a control by its kind, and its first
    /// function. `!` is a command that fails without a failed test, `+` a function that is reached, and `?`
    /// a test that fails the first time.
    fn ask(plan: &ProofPlan, red: &[(&str, &str)]) -> (Vec<String>, ProofReason) {
        let (mut done, mut asked) = (Vec::new(), Vec::new());
        let mut last = None;
        while let Some(control) = plan.next(&done, last.take()) {
            last = Some(control.clone());
            let name = [&[control.kind.log_name()][..], &control.functions].concat().join(" ");
            let shown = red.iter().find(|(kind, _)| *kind == name).map_or("", |it| it.1);
            let is_again = asked.contains(&name);
            let words = shown.split_whitespace().filter(|it| !(is_again && it.ends_with('?')));
            let words: Vec<String> = words.map(|it| it.trim_end_matches('?').to_owned()).collect();
            let (reached, failed): (Vec<_>, Vec<_>) =
                words.into_iter().partition(|it| it.starts_with('+'));
            done.push(ControlResult {
                control: control.kind,
                functions: control.functions,
                red: (!failed.is_empty()).then(|| CheckResult {
                    command: "t".to_owned(),
                    outcome: Outcome::Exited { exit_code: 1 },
                    duration_seconds: 1.0,
                    last_line: None,
                    log: String::new(),
                    no_test: false,
                }),
                has_tests: failed != ["!"],
                failed: failed.into_iter().filter(|it| it != "!").collect(),
                is_cut: false,
                ran: None,
                reached: reached.iter().map(|it| it[1..].to_owned()).collect(),
                duration_seconds: 1.0,
            });
            asked.push(name);
        }
        (asked, plan.reason(&done))
    }

    fn noticed(tests: &[&str]) -> ProofReason {
        let tests = tests.iter().map(|&it| it.to_owned()).collect();
        ProofReason::Noticed { tests, command: "t".to_owned() }
    }

    fn functions(names: &[&str]) -> Vec<String> {
        names.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn tests_in_files_of_rust_stay_without_the_source() {
        const TEST: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n";
        let changed = file("src/lib.rs", Some("fn a() {}\n"), "mod deep;\nfn a() {}\nfn b() {}\n");
        let deep = file("src/deep.rs", None, "pub mod c;\n");
        let child = file("src/deep/c.rs", None, &format!("fn c() {{}}\n{TEST}"));
        let untested = file("src/plain.rs", None, "fn d() {}\n");
        let plan = plan(&[changed, deep, child, untested]).expect("code changed");
        let tree = &plan.without_source;
        assert_eq!(tree["src/lib.rs"], text("fn a() {}\nmod deep;\n"));
        assert_eq!(tree["src/deep.rs"], text("pub mod c;\n"));
        assert_eq!(tree["src/deep/c.rs"], text(TEST));
        assert_eq!(tree["src/plain.rs"], ControlText::Base);
    }

    #[test]
    fn each_new_function_must_be_noticed() {
        let code =
            format!("{CODE}def mul(a, b):\n    return a * b\ndef div(a, b):\n    return a * b\n");
        let files = [
            file("src/a.py", Some(CODE), &code),
            file("tests/test_b.py", None, "def test_mul():\n    assert mul(2, 3) == 6\n"),
        ];
        let plan = plan(&files).expect("code changed");
        let both = [
            ("without-source", "test_mul test_div"),
            ("stub mul", "test_mul"),
            ("stub div", "test_div"),
            ("stub half", "test_half"),
        ];
        let (asked, reason) = ask(&plan, &both);
        // The changed function can add nothing.
        assert_eq!(asked, ["inert", "without-source", "stub mul", "stub div", "stub div"]);
        // A function that only the work has.
        let more = file("src/a.py", Some(CODE), &(CODE.to_owned() + MUL));
        let files = [ChangedFile { lines: (2..4).collect(), ..more }, files[1].clone()];
        let adds = super::tests::plan(&files).expect("code changed");
        let asked = functions(&["inert", "without-source", "stub mul"]);
        assert_eq!(ask(&adds, &both[..2]), (asked, noticed(&["test_mul"])));
        assert_eq!(reason, noticed(&["test_div", "test_mul"]));
        let (asked, reason) = ask(&plan, &both[..2]);
        assert_eq!(asked.last().map(String::as_str), Some("tripwire div"));
        assert_eq!(reason, ProofReason::NeverRun { functions: functions(&["div"]) });
        let reached = [both[0], both[1], ("tripwire div", "+div test_div")];
        let reason = ProofReason::NotNoticed { functions: functions(&["div"]) };
        assert_eq!(ask(&plan, &reached).1, reason);
        // Where nothing can be loaded without the names, the emptied functions decide.
        let compiled = [("without-source", "!"), both[1], both[2]];
        assert_eq!(ask(&plan, &compiled).1, noticed(&["test_div", "test_mul"]));
        // A test that fails after any edit is none.
        let textual = [("inert", "test_div"), both[0], both[1], both[2]];
        assert!(matches!(ask(&plan, &textual).1, ProofReason::NeverRun { .. }));
        let red = [("inert", "test_text"), ("without-source", "test_text")];
        assert!(matches!(
            ask(&plan, &red).1,
            ProofReason::NotMade { .. } | ProofReason::NeverRun { .. }
        ));
    }

    #[test]
    fn tests_that_only_call_a_changed_function_prove_nothing() {
        let files = [
            file("src/a.py", Some(CODE), "def half(n, up=False):\n    return (n + up) // 2\n"),
            file("tests/test_b.py", None, "def test_up():\n    half(7, up=True)\n"),
        ];
        let plan = plan(&files).expect("code changed");
        let called = [("without-source", "test_up"), ("stub half", "test_half")];
        let reason = ProofReason::NotNoticed { functions: functions(&["half"]) };
        assert_eq!(ask(&plan, &called).1, reason);
        let tested = [called[0], ("stub half", "test_half test_up")];
        assert_eq!(ask(&plan, &tested).1, noticed(&["test_up"]));
        assert_eq!(ask(&plan, &[]).1, ProofReason::NeverRun { functions: functions(&["half"]) });
        let (_, reason) = ask(&plan, &[("tripwire half", "+half test_half")]);
        assert_eq!(reason, ProofReason::NotNoticed { functions: Vec::new() });
    }

    #[test]
    fn work_that_is_red_where_it_stands_is_named_so() {
        let files = [
            file("src/a.py", Some(CODE), &CODE.replace("// 2", "// 3")),
            file("tests/test_b.py", None, TEST),
        ];
        let plan = plan(&files).expect("code changed");
        let (asked, reason) = ask(&plan, &[("inert", "test_half"), ("landed", "test_half")]);
        assert_eq!(asked, ["inert", "landed", "landed"]);
        let text = "not proved: red on `main`: `t` fails (`test_half`)";
        assert_eq!(reason.to_string(), text);
        // It reads the text of the source.
        let (asked, _) = ask(&plan, &[("inert", "test_half"), ("without-source", "test_half")]);
        assert_eq!(asked[..3], ["inert", "landed", "without-source"]);
    }

    #[test]
    fn work_without_tests_is_exercised_if_they_run_all_that_changed() {
        let code = "def half(n):\n    return third(n)\ndef third(n):\n    return n // 2\n";
        let files = [file("src/a.py", Some(CODE), code)];
        let new = plan(&files).expect("code changed");
        // A function may hide another.
        let reached =
            [("tripwire half third", "+half test_half"), ("tripwire third", "+third test_half")];
        assert_eq!(ask(&new, &reached).1, ProofReason::Run);
        let reason = ProofReason::NeverRun { functions: functions(&["third"]) };
        assert_eq!(ask(&new, &reached[..1]).1, reason);
        assert_eq!(ask(&new, &[("without-source", "test_half")]).1, noticed(&["test_half"]));
        let wants = plan_as(&files, ProofPolicy::Tests).expect("code changed");
        assert!(matches!(ask(&wants, &reached).1, ProofReason::OnlyExercised { .. }));
        let kotlin = [
            file("src/A.kt", Some("class A {}"), "class A { int a; }"),
            file("tests/ATest.kt", None, "class ATest {}"),
        ];
        let kotlin = plan(&kotlin).expect("code changed");
        assert_eq!(ask(&kotlin, &[("without-source", "a")]).1, ProofReason::Run);
        let unnamed = ProofReason::Unnamed { command: "t".to_owned() };
        assert_eq!(ask(&kotlin, &[("without-source", "!")]).1, unnamed);
    }

    #[test]
    fn tests_that_notice_less_than_before_are_named() {
        let added = format!("{TEST}def test_more():\n    assert half(2) == 1\n");
        let tests = [file("tests/test_a.py", Some(TEST), &added)];
        let new = plan(&tests).expect("tests changed");
        let more = [("broken", "test_half test_more"), ("broken-old", "test_half")];
        let only = ProofReason::ChecksOnly { what: "tests".to_owned() };
        assert_eq!(ask(&new, &more), (functions(&["inert", "broken"]), only.clone()));
        let less = [("broken", "test_more"), more[1]];
        assert_eq!(ask(&new, &[]).1, ProofReason::NoticesNothing);
        let kept = ProofReason::NotKept { tests: functions(&["test_half"]) };
        let edited = [file("tests/test_a.py", Some(TEST), &TEST.replace("== 3", "> 1"))];
        let edited = plan(&edited).expect("tests changed");
        let shown = [("old-tests", "test_half"), ("broken", "test_half"), more[1]];
        assert_eq!(ask(&edited, &shown).1, kept);
        let files = functions(&["tests/test_a.py"]);
        let lost = ProofReason::NoticesLess { files, tests: functions(&["test_half"]) };
        assert_eq!(ask(&edited, &less).1, lost);
        // A test with another name, or in another file.
        let renamed = [file("tests/test_a.py", Some(TEST), &TEST.replace("half()", "halves()"))];
        let renamed = plan(&renamed).expect("tests changed");
        let halves = [("broken", "a::test_halves"), ("broken-old", "b::test_half")];
        assert_eq!(ask(&renamed, &halves).1, only);
        assert!(matches!(ask(&renamed, &halves[1..]).1, ProofReason::NoticesLess { .. }));
        // A test that was loosened passes with and without the work, which it failed as it was.
        let work = file("src/a.py", Some(CODE), &CODE.replace("// 2", "// 3"));
        let loose = file("tests/test_a.py", Some(TEST), &TEST.replace("== 3", "< 4"));
        let both = plan(&[work, loose]).expect("code changed");
        let beside =
            [("without-source", "test_b"), ("stub half", "test_b"), ("old-tests", "test_half")];
        assert_eq!(ask(&both, &beside).1, kept);
        let pinned = [("without-source", "test_half"), ("stub half", "test_half"), beside[2]];
        assert_eq!(ask(&both, &pinned).1, noticed(&["test_half"]));
        // A new file that decides which tests run.
        let conftest = file("tests/conftest.py", None, "collect_ignore = [\"test_a.py\"]\n");
        let work = file("src/a.py", Some(CODE), &CODE.replace("// 2", "// 3"));
        let hides = plan(&[work, conftest]).expect("code changed");
        let (asked, _) = ask(&hides, &pinned[..2]);
        assert_eq!(asked[5..], ["broken", "broken-old"]);
        assert!(names_test("test('add', () => add(1))", "add"));
        assert!(names_test("    async def test_add(n):", "test_add"));
        assert!(!names_test("test('adds', () => { add(1); c.add(2); def add2(); })", "add"));
        assert_eq!(base_name("tests/a.py::T::test_a[1-b::c]"), "test_a");
        assert_eq!(base_name("example.com/a TestA/b"), "TestA/b");
        assert_eq!(base_name("numbers > adds 1.5"), "adds 1.5");
    }

    #[test]
    fn a_test_that_fails_now_and_then_decides_nothing() {
        let own = file("tests/test_b.py", None, "def test_mul():\n    mul(2, 3)\n");
        let adds = ChangedFile {
            lines: (2..4).collect(),
            ..file("src/a.py", Some(CODE), &(CODE.to_owned() + MUL))
        };
        let files = [adds, own];
        let both = plan(&files).expect("code changed");
        // The file of its test does not load without it.
        let shown =
            [("without-source", "!"), ("stub mul", "test_net?"), ("tripwire mul", "+mul x")];
        let (asked, reason) = ask(&both, &shown);
        let want = ["inert", "without-source", "stub mul", "stub mul", "tripwire mul"];
        assert_eq!(asked, want);
        assert_eq!(reason, ProofReason::NotNoticed { functions: functions(&["mul"]) });
        let shown = [("without-source", "test_net? test_mul"), ("stub mul", "test_mul test_net?")];
        assert_eq!(ask(&both, &shown).1, noticed(&["test_mul", "test_net"]));
        let keeps = [file("src/a.py", Some(CODE), &CODE.replace("// 2", "// (1 + 1)"))];
        let keeps = plan(&keeps).expect("code changed");
        let shown = [("without-source", "test_net?"), ("tripwire half", "+half test_half")];
        assert_eq!(ask(&keeps, &shown).1, ProofReason::Run);
        let tests = [file("tests/test_a.py", Some(TEST), &TEST.replace("== 3", "> 1"))];
        let tests = plan(&tests).expect("tests changed");
        let only = ProofReason::ChecksOnly { what: "tests".to_owned() };
        let shown = [
            ("old-tests", "test_half?"),
            ("broken", "test_half"),
            ("broken-old", "test_half test_net?"),
        ];
        let (_, reason) = ask(&tests, &shown);
        assert_eq!(reason, only);
    }

    #[test]
    fn what_no_check_could_notice_needs_no_control() {
        let comment = [file("src/a.py", Some("x = 1\n"), "# why\nx = 1\n")];
        let what = "comments of source files".to_owned();
        assert_eq!(plan(&comment).err(), Some(ProofReason::NoCode { what }));
        let wants = plan_as(&comment, ProofPolicy::Tests).err();
        assert!(matches!(wants, Some(ProofReason::OnlyExercised { .. })));
        // A line that decides whether a file is built is code.
        let tagged = [file("a_test.go", Some("package a\n"), "//go:build never\n\npackage a\n")];
        assert!(!plan(&tagged).expect("tests changed").old_tests.is_empty());
    }

    #[test]
    fn a_proof_of_an_earlier_version_is_read() {
        let old = r#"{"outcome": "repaired", "controls": [{"control": "base"}], "duration_seconds": 1.0}"#;
        let proof: crate::proof::Proof = serde_json::from_str(old).expect("a proof");
        assert_eq!((proof.reason, proof.controls.len()), (ProofReason::Run, 0));
        let new = crate::proof::Proof::at_once(noticed(&["a"]));
        let text = serde_json::to_string(&new).expect("JSON");
        assert!(
            text.starts_with(r#"{"outcome":"proved","reason":"noticed","tests":["a"]"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<crate::proof::Proof>(&text).expect("a proof"), new);
    }
}
