//! Lint: problems in a valid graph that would waste a run.
//!
//! Each rule looks at the tasks that are still to be done, and reports where, why it matters and
//! the fix. A task turns a rule off with `allow`. What a rule must know of the machine is passed in
//! as [`LintFacts`]; nothing here reads the disk.

mod missing;
pub mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use self::words::vague_words;
use super::{
    Ancestors, STEPS, TaskGraph, load,
    yaml::{Document, Node},
};
use crate::{
    diagnostic::{Diagnostic, nearest, visible},
    finding::{Finding, FindingKind},
    task_paths::named_paths,
};

/// What the rules know of the repository and its settings.
pub struct LintFacts<'a> {
    /// The verify commands of the settings.
    pub verify: &'a [String],
    /// Whether a program can be started.
    pub has_program: &'a dyn Fn(&str) -> bool,
    /// Whether a path exists in the repository.
    pub has_path: &'a dyn Fn(&str) -> bool,
    /// The number of attempts at a time.
    pub jobs: usize,
}

/// A remark and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    /// The rule.
    pub rule: FindingKind,
    /// The remark.
    pub found: Finding,
    /// The number of the task.
    pub task: usize,
    /// The field that it is about; the id where the task lacks it.
    pub field: &'static str,
    /// Another task that has a part in it.
    pub other: Option<(usize, &'static str)>,
}

/// The most words of a text that an agent can do in one attempt: about five pages.
const LONG: usize = 1_500;
/// The fewest words that say what to do.
const SHORT: usize = 6;
/// The fewest tasks for which a chain is worth a remark.
const CHAIN: usize = 4;

/// Returns the findings in the order of the file, without those that their tasks allow.
pub fn lint(graph: &TaskGraph, facts: &LintFacts<'_>) -> Vec<LintFinding> {
    let linter = Linter { graph, facts, ancestors: Ancestors::of(graph) };
    let open: Vec<usize> = (0..graph.tasks().len()).filter(|it| linter.is_open(*it)).collect();
    let mut found: Vec<LintFinding> = Vec::new();
    for number in open.iter().copied() {
        found.extend(linter.no_check(number));
        found.extend(linter.verify(number));
        found.extend(linter.replaced_checks(number));
        found.extend(linter.length(number));
        found.extend(linter.vague(number));
        found.extend(linter.priority_order(number));
        found.extend(linter.unknown_rules(number));
    }
    found.extend(linter.missing(&open));
    found.extend(linter.implied(&open));
    found.extend(linter.same_files(&open));
    found.extend(linter.single_chain(&open));
    let is_allowed =
        |it: &LintFinding| graph.task(it.task).allow.iter().any(|name| name == it.found.subject);
    found.retain(|it| !is_allowed(it));
    found.sort_by_key(|it| (it.task, it.rule));
    found
}

/// Returns the location of a field of a task, by its number; that of the id where the task lacks it.
pub fn places(document: &Document) -> impl Fn(usize, &str) -> Range<usize> {
    let nodes: Vec<Node<'_>> = load::task_nodes(document).collect();
    move |task, field| {
        let Some(node) = nodes.get(task) else { return 0..0 };
        node.get(field).or_else(|| node.get("id")).unwrap_or(*node).first_line()
    }
}

/// Converts findings to warnings with their locations.
pub fn diagnostics(document: &Document, found: &[LintFinding]) -> Vec<Diagnostic> {
    let place = places(document);
    let diagnostic = |one: &LintFinding| {
        let Finding { subject, message, why, remedy, .. } = &one.found;
        let message = format!("{message} ({subject})");
        let warning = Diagnostic::warning(message, place(one.task, one.field));
        let warning = warning.label(why.clone()).help(remedy.clone());
        match one.other {
            Some((other, field)) => warning.related(place(other, field), "the other one"),
            None => warning,
        }
    };
    let mut warnings: Vec<Diagnostic> = found.iter().map(diagnostic).collect();
    warnings.sort_by_key(|warning| warning.at.start);
    warnings
}

/// A finding of a rule with the values of its texts.
fn finding(rule: FindingKind, task: usize, field: &'static str, values: &[&str]) -> LintFinding {
    LintFinding { rule, found: rule.with(values), task, field, other: None }
}

struct Linter<'a> {
    graph: &'a TaskGraph,
    facts: &'a LintFacts<'a>,
    ancestors: Ancestors<'a>,
}

impl Linter<'_> {
    fn is_open(&self, number: usize) -> bool {
        !self.graph.task(number).status.is_over()
    }

    fn id(&self, number: usize) -> &str {
        self.graph.task(number).id.as_str()
    }

    fn no_check(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        let is_named = |name: &str| task.extra.contains_key(name);
        let has_criteria = is_named("output")
            || task.prompt.is_some()
            || task.extra.keys().any(|name| words::is_criteria(name))
            || words::has_criteria(&task.title)
            || words::has_criteria(task.description.as_deref().unwrap_or_default());
        if !task.checks(self.facts.verify, None).is_empty() || has_criteria {
            return None;
        }
        Some(finding(FindingKind::NoCheck, number, "id", &[task.id.as_str()]))
    }

    fn verify(&self, number: usize) -> impl Iterator<Item = LintFinding> {
        // Those of the settings are the same for every task, and `doctor` runs them.
        let task = self.graph.task(number);
        let commands = task.verify.iter().chain(task.verify_only.iter().flatten());
        commands.filter(|command| words::cannot_fail(command)).map(move |command| {
            finding(FindingKind::AlwaysPasses, number, "verify", &[&words::shortened(command)])
        })
    }

    fn replaced_checks(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        let only = task.verify_only.as_ref()?;
        let runs = |command: &&String| !only.contains(command) && !task.verify.contains(command);
        let left = self.facts.verify.iter().filter(runs);
        let named: Vec<String> = left.map(|command| words::shortened(command)).collect();
        let values = [task.id.as_str(), &named.join("`, `")];
        let found = || finding(FindingKind::ReplacedChecks, number, "verify_only", &values);
        (!named.is_empty()).then(found)
    }

    fn length(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        let text = task.description.as_deref().unwrap_or_default();
        let in_title = if task.title == task.id.as_str() { "" } else { &task.title };
        let count = words::count(text);
        let all = count + words::count(in_title);
        // A path says where, not what.
        let is_elsewhere = task.prompt.is_some()
            || task.extra.contains_key("notes")
            || task.extra.keys().any(|name| words::is_criteria(name));
        if all < SHORT && !is_elsewhere {
            let values = [task.id.as_str(), &words::counted(all)];
            return Some(finding(FindingKind::ShortText, number, "description", &values));
        }
        let values = [task.id.as_str(), &count.to_string()];
        (count > LONG).then(|| finding(FindingKind::LongText, number, "description", &values))
    }

    fn vague(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        // A command decides what the words mean.
        if !task.verify.is_empty() {
            return None;
        }
        let text = task.description.as_deref().unwrap_or_default();
        let in_title = vague_words(&task.title);
        let field = if in_title.is_empty() { "description" } else { "title" };
        let vague: BTreeSet<&str> = in_title.into_iter().chain(vague_words(text)).collect();
        let list: Vec<String> = vague.iter().map(|word| format!("`{word}`")).collect();
        let values = [task.id.as_str(), &list.join(", ")];
        (!list.is_empty()).then(|| finding(FindingKind::VagueText, number, field, &values))
    }

    fn priority_order(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        let is_later = |before: &usize| {
            self.is_open(*before) && self.graph.task(*before).priority > task.priority
        };
        let before = self.graph.dependencies(number).find(is_later)?;
        let own = task.priority.to_string();
        let (id, other) = (self.id(before), self.graph.task(before).priority.to_string());
        let values = [task.id.as_str(), &own, id, &other, id, &own];
        let found = finding(FindingKind::PriorityOrder, number, "priority", &values);
        Some(LintFinding { other: Some((before, "priority")), ..found })
    }

    fn unknown_rules(&self, number: usize) -> Vec<LintFinding> {
        let known = FindingKind::rules();
        let allow = self.graph.task(number).allow.iter();
        let unknown = allow.filter(|name| known.clone().all(|rule| rule != name.as_str()));
        let unknown_rule = |name: &String| {
            let fix = match nearest(name, known.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the rules are {}", known.clone().collect::<Vec<_>>().join(", ")),
            };
            finding(FindingKind::UnknownRule, number, "allow", &[&visible(name), &fix])
        };
        unknown.map(unknown_rule).collect()
    }

    /// Dependencies that another dependency of the same task implies.
    fn implied(&self, open: &[usize]) -> Vec<LintFinding> {
        let mut found = Vec::new();
        let mut steps = STEPS;
        for number in open.iter().copied() {
            let before: Vec<usize> = self.graph.dependencies(number).collect();
            for one in before.iter().copied() {
                let Some(via) = self.ancestors.implying(one, &before, &mut steps) else { continue };
                let (id, one, via) = (self.id(number), self.id(one), self.id(via));
                let (rule, values) = (FindingKind::ImpliedDependency, [id, one, via, one, id]);
                found.push(finding(rule, number, "depends_on", &values));
            }
        }
        found
    }

    /// Pairs of tasks that name the same file and could run at the same time.
    fn same_files(&self, open: &[usize]) -> Vec<LintFinding> {
        let mut by_path: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for number in open.iter().copied() {
            let task = self.graph.task(number);
            let text =
                format!("{} {}", task.title, task.description.as_deref().unwrap_or_default());
            for path in named_paths(&text) {
                by_path.entry(path).or_default().push(number);
            }
        }
        let mut steps = STEPS;
        let mut pairs: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for (path, tasks) in by_path {
            for pair in tasks.windows(2) {
                let (one, other) = (pair[0], pair[1]);
                let is_apart = !self.graph.task(one).touches.is_empty()
                    && !self.graph.task(other).touches.is_empty();
                let is_ordered = is_apart
                    || self.ancestors.waits_on(one, other, &mut steps)
                    || self.ancestors.waits_on(other, one, &mut steps);
                if !is_ordered {
                    pairs.entry((one, other)).or_default().push(path.clone());
                }
            }
        }
        let same_file = |((one, other), paths): ((usize, usize), Vec<String>)| {
            let list: Vec<String> = paths.iter().take(3).map(|path| format!("`{path}`")).collect();
            let (first, second) = (self.id(one), self.id(other));
            let path = paths.first().map_or("", String::as_str);
            let values = [first, second, &list.join(", "), second, first, path];
            let found = finding(FindingKind::SameFile, other, "id", &values);
            LintFinding { other: Some((one, "id")), ..found }
        };
        pairs.into_iter().map(same_file).collect()
    }

    fn single_chain(&self, open: &[usize]) -> Option<LintFinding> {
        let first = *open.first()?;
        if self.facts.jobs < 2 || open.len() < CHAIN || self.open_chain() < open.len() {
            return None;
        }
        let count = open.len().to_string();
        Some(finding(FindingKind::SingleChain, first, "id", &[&count]))
    }

    /// The length of the longest chain of open tasks.
    fn open_chain(&self) -> usize {
        let mut length = vec![0; self.graph.tasks().len()];
        for number in self.graph.topological().iter().copied() {
            let before = self.graph.dependencies(number).map(|it| length[it]).max();
            length[number] = before.unwrap_or(0) + usize::from(self.is_open(number));
        }
        length.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::yaml::Document;

    fn found_in(text: &str, verify: &[&str], jobs: usize) -> Vec<String> {
        let document = Document::parse(text).unwrap();
        let graph = load::load(&document).unwrap().graph;
        let verify: Vec<String> = verify.iter().map(|it| (*it).to_owned()).collect();
        let facts = LintFacts {
            verify: &verify,
            has_program: &|program| ["cargo", "sh"].contains(&program),
            has_path: &|path| path == "src/lib.rs",
            jobs,
        };
        let found = lint(&graph, &facts);
        let lines = diagnostics(&document, &found);
        assert_eq!(lines.len(), found.len());
        let position = crate::diagnostic::positions(text);
        let line = |fault: &Diagnostic| position(fault.at.start).0;
        lines.iter().map(|fault| format!("{}: {}", line(fault), fault.message)).collect()
    }

    #[test]
    fn each_rule_names_the_line_of_its_field() {
        let text = "tasks:
  - id: a
    title: Write the parser for the new format
    priority: 3
  - id: b
    title: Improve it
    priority: 0
    depends_on: [a]
    verify: ['true', pytset, './made.sh']
    path: src/none.rs
  - id: c
    title: Change src/app.rs to print all of the names, etc
    depends_on: [b, a]
  - id: d
    title: Read the names in src/app.rs from a file, which must exist
    allow: [vague-txt]
";
        insta::assert_snapshot!(found_in(text, &[], 1).join("\n"), @r"
        2: nothing tells when `a` is done (no-check)
        5: `b` says what to do in 2 words (short-text)
        7: `b` (P0) waits on `a` (P3) (priority-order)
        9: there is no program `pytset` (missing-program)
        9: there is no program `./made.sh` (missing-program)
        9: `true` cannot fail (always-passes)
        10: `src/none.rs` does not exist (missing-path)
        11: nothing tells when `c` is done (no-check)
        11: `c` (P2) waits on `a` (P3) (priority-order)
        12: `c` is vague: `etc` (vague-text)
        13: `c` waits on `a` anyway, through `b` (implied-dependency)
        14: `c` and `d` both name `src/app.rs` (same-file)
        16: there is no rule `vague-txt` (unknown-rule)
        ");
    }

    #[test]
    fn what_says_when_it_is_done_is_enough() {
        for more in [
            "verify: cargo test",
            "output: docs/a.md",
            "acceptance_criteria: [it runs]",
            "description: 'The tests pass, and `--help` prints it.'",
            "description: '- [ ] it builds'",
            "prompt: review.md",
            "status: complete",
            "allow: no-check",
        ] {
            let text = format!(
                "tasks:\n- id: a\n  title: Write the parser for the new format\n  {more}\n"
            );
            assert_eq!(found_in(&text, &[], 1), [""; 0], "{more}");
        }
        let text = "tasks:\n- id: a\n  title: Write the parser for the new format\n";
        assert_eq!(found_in(text, &["cargo test"], 1), [""; 0]);
        assert_eq!(found_in(text, &[], 1).len(), 1);
    }

    #[test]
    fn what_an_earlier_task_makes_is_not_missing() {
        let text = "tasks:
- {id: a, title: Write a script that checks all of it, output: check.sh}
- {id: b, title: Use the script for the one file, depends_on: [a], verify: ./check.sh, path: check.sh}
- {id: c, title: Use the script for the other file, verify: ./check.sh, path: check.sh}
";
        let found = found_in(text, &[], 1);
        assert_eq!(
            found,
            [
                "4: there is no program `./check.sh` (missing-program)",
                "4: `check.sh` does not exist (missing-path)"
            ]
        );
    }

    #[test]
    fn a_path_is_made_by_what_names_it_as_a_whole() {
        let needs = |text: &str| {
            let text = format!(
                "tasks:\n- {{id: a, title: Do as it says in the text, verify: cargo test, {text}}}\n\
                 - {{id: b, title: Go on with what there is then, verify: cargo test, depends_on: [a], \
                 path: [x/gen/out.json, 'x/(a)/p.ts']}}\n"
            );
            found_in(&text, &[], 1).len()
        };
        assert_eq!(needs("description: Write gen/output.json and p.ts"), 2);
        assert_eq!(needs("description: 'Write `./x/gen/out.json`, and x/(a)/p.ts.'"), 0);
        assert_eq!(needs("description: 'In repo/x/gen/out.json.'"), 1);
        assert_eq!(needs("output: x/gen"), 1);
        assert_eq!(needs("touches: ['x/gen/out.json', 'x/(a)/p.ts']"), 0);
    }

    #[test]
    fn a_path_and_characters_are_not_words() {
        let text =
            |more: &str| found_in(&format!("tasks:\n- {{id: a, {more}}}\n"), &["cargo test"], 1);
        let short = ["2: `a` says what to do in 2 words (short-text)"];
        assert_eq!(text("title: Do it, path: src/lib.rs"), short);
        assert_eq!(text("title: Do it, notes: Only in the parser"), [""; 0]);
        assert_eq!(text("title: 新しい形式のパーサーを書く"), [""; 0]);
        assert_eq!(text("title: 改善"), ["2: `a` says what to do in 1 word (short-text)"]);
    }

    #[test]
    fn tasks_that_wait_on_one_another_or_declare_files_may_name_the_same() {
        let two = |more: &str| {
            format!(
                "tasks:\n- {{id: a, title: Write all the names to src/app.rs, verify: cargo test{more}}}\n\
                 - {{id: b, title: Read all the names from src/app.rs, verify: cargo test{more}}}\n"
            )
        };
        assert_eq!(found_in(&two(""), &[], 1).len(), 1);
        assert_eq!(found_in(&two(", touches: src/app.rs"), &[], 1), [""; 0]);
        let ordered = format!("{}edges: [{{from: a, to: b}}]\n", two(""));
        assert_eq!(found_in(&ordered, &[], 1), [""; 0]);
    }

    #[test]
    fn a_chain_is_remarked_on_with_several_jobs() {
        let task = |n: usize| {
            let before = if n == 0 { String::new() } else { format!(", depends_on: [t{}]", n - 1) };
            format!(
                "- {{id: t{n}, title: Do the next one of all steps, verify: cargo test{before}}}\n"
            )
        };
        let text = format!("tasks:\n{}", (0..5).map(task).collect::<String>());
        assert_eq!(found_in(&text, &[], 1), [""; 0]);
        let found = found_in(&text, &[], 4);
        assert_eq!(
            found,
            ["2: all 5 tasks wait on one another, one after the other (single-chain)"]
        );
    }

    #[test]
    fn a_large_graph_is_read_in_bounded_steps() {
        // Each task waits on all of the 300 before it.
        let task = |n: usize| {
            let before: Vec<String> =
                (n.saturating_sub(300)..n).map(|before| format!("t{before}")).collect();
            format!("- {{id: t{n}, depends_on: [{}]}}\n", before.join(", "))
        };
        let text = format!("tasks:\n{}", (0..1_000).map(task).collect::<String>());
        assert!(!found_in(&text, &["cargo test"], 1).is_empty());
    }
}
