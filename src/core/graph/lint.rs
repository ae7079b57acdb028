//! Lint: problems in a valid graph that would waste a run.
//!
//! Each rule looks at the open tasks, and reports the place, why it matters and the fix. A task
//! turns a rule off with `allow`. Facts about the machine are passed in as [`LintFacts`]; this
//! module does not read the disk.

mod missing;

use std::{collections::BTreeMap, ops::Range};

use super::{
    Ancestors, TaskGraph, load,
    yaml::{Document, Node},
};
use crate::{
    diagnostic::Diagnostic,
    finding::{Finding, FindingKind},
};

/// The facts of the repository and its settings.
pub struct LintFacts<'a> {
    /// The verify commands of the settings.
    pub verify: &'a [String],
    /// Whether a program can be started.
    pub has_program: &'a dyn Fn(&str) -> bool,
    /// Whether a path exists in the repository.
    pub has_path: &'a dyn Fn(&str) -> bool,
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
    pub other: Option<usize>,
}

/// Words by which a text says when the work is done.
const CRITERIA: &[&str] = &[
    "acceptance",
    "assert",
    "criteria",
    "criterion",
    "definition of done",
    "done when",
    "exit code",
    "expected",
    "expects",
    "fails with",
    "must",
    "passes",
    "prints",
    "returns",
    "so that",
    "test",
    "tests",
    "verify",
];
/// Beginnings of the names of fields that say when the work is done.
const FIELDS: &[&str] = &["acceptance", "criteria", "definition_of_done", "done_when", "success"];
/// Endings of a shell command that hide its failure.
const HIDDEN: &[&str] = &["|| true", "|| :", "|| exit 0", "; true", "; :", "; exit 0"];
/// The most characters of a command in a message.
const SHOWN: usize = 40;

/// Returns the findings in the order of the file, without those that their tasks allow.
pub fn lint(graph: &TaskGraph, facts: &LintFacts<'_>) -> Vec<LintFinding> {
    let linter = Linter { graph, facts, ancestors: Ancestors::of(graph) };
    let is_open = |number: &usize| !graph.task(*number).status.is_over();
    let open: Vec<usize> = (0..graph.tasks().len()).filter(is_open).collect();
    let mut found: Vec<LintFinding> = Vec::new();
    for number in open.iter().copied() {
        found.extend(linter.no_check(number));
        found.extend(linter.verify(number));
        found.extend(linter.replaced_checks(number));
    }
    found.extend(linter.missing(&open));
    found.extend(linter.similar_ids(&open));
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
            Some(other) => warning.related(place(other, "id"), "the other one"),
            None => warning,
        }
    };
    let mut warnings: Vec<Diagnostic> = found.iter().map(diagnostic).collect();
    warnings.sort_by_key(|warning| warning.at.start);
    warnings
}

/// Whether a shell command succeeds whatever the state of the work.
pub fn cannot_fail(command: &str) -> bool {
    let command = command.trim().trim_end_matches(';').trim_end();
    let is_chain = ["&&", "||", ";", "|", "$("].iter().any(|part| command.contains(part));
    let first = command.split_whitespace().next().unwrap_or_default();
    let is_constant = matches!(command, "" | "true" | ":" | "exit 0" | "/bin/true")
        || (!is_chain && matches!(first, "echo" | "printf" | "sleep"));
    is_constant || HIDDEN.iter().any(|end| command.ends_with(end))
}

/// A finding of a rule with the values of its texts.
fn finding(rule: FindingKind, task: usize, field: &'static str, values: &[&str]) -> LintFinding {
    LintFinding { rule, found: rule.with(values), task, field, other: None }
}

/// Whether a text says when the work is done.
fn has_criteria(text: &str) -> bool {
    let boxes = ["- [ ]", "* [ ]"].iter().any(|it| text.contains(it));
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.fold(" ".to_owned(), |plain, word| plain + &word.to_lowercase() + " ");
    boxes || CRITERIA.iter().any(|word| plain.contains(&format!(" {word} ")))
}

/// Whether a field of this name says when the work is done.
fn is_criteria(field: &str) -> bool {
    let field = field.to_lowercase().replace('-', "_");
    FIELDS.iter().any(|name| field.starts_with(name))
}

/// Returns a command in one short line.
fn shortened(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    if line.chars().count() <= SHOWN && line == command {
        return line.to_owned();
    }
    line.chars().take(SHOWN).chain(['…']).collect()
}

struct Linter<'a> {
    graph: &'a TaskGraph,
    facts: &'a LintFacts<'a>,
    ancestors: Ancestors<'a>,
}

impl Linter<'_> {
    fn no_check(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        let is_told = task.extra.contains_key("output")
            || task.prompt.is_some()
            || task.extra.keys().any(|name| is_criteria(name))
            || has_criteria(&task.title)
            || has_criteria(task.description.as_deref().unwrap_or_default());
        if !task.checks(self.facts.verify, None).is_empty() || is_told {
            return None;
        }
        Some(finding(FindingKind::NoCheck, number, "id", &[task.id.as_str()]))
    }

    fn verify(&self, number: usize) -> impl Iterator<Item = LintFinding> {
        // Those of the settings are the same for every task, and `doctor` runs them.
        let task = self.graph.task(number);
        let commands = task.verify.iter().chain(task.verify_only.iter().flatten());
        commands.filter(|command| cannot_fail(command)).map(move |command| {
            finding(FindingKind::AlwaysPasses, number, "verify", &[&shortened(command)])
        })
    }

    fn replaced_checks(&self, number: usize) -> Option<LintFinding> {
        let task = self.graph.task(number);
        let only = task.verify_only.as_ref()?;
        let runs = |command: &&String| !only.contains(command) && !task.verify.contains(command);
        let left = self.facts.verify.iter().filter(runs);
        let named: Vec<String> = left.map(|command| shortened(command)).collect();
        let values = [task.id.as_str(), &named.join("`, `")];
        let found = || finding(FindingKind::ReplacedChecks, number, "verify_only", &values);
        (!named.is_empty()).then(found)
    }

    /// Tasks whose ids differ only in case and in `.`, `_` and `-`: a dependency on one may mean the
    /// other, and some file systems have one folder for both.
    fn similar_ids(&self, open: &[usize]) -> Vec<LintFinding> {
        let letters = |number: usize| -> String {
            let id = self.graph.task(number).id.as_str().chars();
            id.filter(|c| !"._-".contains(*c)).flat_map(char::to_lowercase).collect()
        };
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        let mut found = Vec::new();
        for number in open.iter().copied() {
            let other = *first.entry(letters(number)).or_insert(number);
            if other != number {
                let ids = [number, other].map(|number| self.graph.task(number).id.as_str());
                let similar = finding(FindingKind::SimilarIds, number, "id", &ids);
                found.push(LintFinding { other: Some(other), ..similar });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::yaml::Document;

    fn found_in(text: &str, verify: &[&str]) -> Vec<String> {
        let document = Document::parse(text).unwrap();
        let graph = load::load(&document).unwrap().graph;
        let verify: Vec<String> = verify.iter().map(|it| (*it).to_owned()).collect();
        let facts = LintFacts {
            verify: &verify,
            has_program: &|program| ["cargo", "sh"].contains(&program),
            has_path: &|path| path == "src/lib.rs",
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
  - id: b
    title: Improve it
    depends_on: [a]
    verify: ['true', pytset, './made.sh']
    path: src/none.rs
  - id: c
    title: Change src/app.rs to print all of the names
    verify_only: cargo test a
";
        insta::assert_snapshot!(found_in(text, &["cargo test"]).join("\n"), @r"
        7: there is no program `pytset` (missing-program)
        7: there is no program `./made.sh` (missing-program)
        7: `true` cannot fail (always-passes)
        8: `src/none.rs` does not exist (missing-path)
        11: `c` does not run `cargo test` (replaced-checks)
        ");
        assert_eq!(
            found_in("tasks:\n  - {id: a, title: Write it}\n", &[]),
            ["2: nothing tells when `a` is done (no-check)"]
        );
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
            assert_eq!(found_in(&text, &[]), [""; 0], "{more}");
        }
        let text = "tasks:\n- id: a\n  title: Write the parser for the new format\n";
        assert_eq!(found_in(text, &["cargo test"]), [""; 0]);
        assert_eq!(found_in(text, &[]).len(), 1);
    }

    #[test]
    fn what_an_earlier_task_makes_is_not_missing() {
        let text = "tasks:
- {id: a, title: Write a script that checks all of it, output: check.sh}
- {id: b, title: Use the script for the one file, depends_on: [a], verify: ./check.sh, path: check.sh}
- {id: c, title: Use the script for the other file, verify: ./check.sh, path: check.sh}
";
        let found = found_in(text, &[]);
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
            found_in(&text, &[]).len()
        };
        assert_eq!(needs("description: Write gen/output.json and p.ts"), 2);
        assert_eq!(needs("description: 'Write `./x/gen/out.json`, and x/(a)/p.ts.'"), 0);
        assert_eq!(needs("description: 'In repo/x/gen/out.json.'"), 1);
        assert_eq!(needs("output: x/gen"), 1);
        assert_eq!(needs("touches: ['x/gen/out.json', 'x/(a)/p.ts']"), 0);
    }

    #[test]
    fn ids_that_differ_only_in_case_and_hyphens_are_named() {
        let text = "tasks:
- {id: t-1, title: One, verify: cargo test}
- {id: t-11, title: Two, verify: cargo test}
- {id: T1, title: Three, verify: cargo test}
- {id: t_1, title: Four, verify: cargo test, status: complete}
";
        assert_eq!(
            found_in(text, &[]),
            ["4: the ids `T1` and `t-1` are easily confused (similar-ids)"]
        );
    }

    #[test]
    fn commands_that_cannot_fail_are_known() {
        for command in ["true", " : ", "exit 0", "echo ok", "cargo test || true", "make; true;"] {
            assert!(cannot_fail(command), "{command}");
        }
        for command in ["cargo test", "echo x | grep y", "true && make", "test -f x || exit 1"] {
            assert!(!cannot_fail(command), "{command}");
        }
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
        assert!(!found_in(&text, &[]).is_empty());
    }
}
