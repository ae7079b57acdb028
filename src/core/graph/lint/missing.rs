//! Programs and paths that tasks name but that neither exist nor are made by an earlier task.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use aho_corasick::AhoCorasick;

use super::{LintFinding, Linter, finding};
use crate::{
    finding::FindingKind,
    glob::Glob,
    graph::{STEPS, task::Task},
    task_paths::{self, is_path_part},
};

/// A program or path that a task needs and that is not there.
struct AbsentPath {
    task: usize,
    rule: FindingKind,
    path: String,
}

/// The tasks that make or name each missing path, in ascending order.
struct Makers(BTreeMap<String, Vec<usize>>);

impl Linter<'_> {
    /// The missing files and programs that no task is known to make.
    pub(super) fn missing(&self, open: &[usize]) -> Vec<LintFinding> {
        let files = self.missing_files(open);
        if files.is_empty() {
            return Vec::new();
        }
        let makers = Makers::of(self.graph.tasks(), &files);
        let mut steps = STEPS;
        let mut is_made = |file: &AbsentPath| {
            let makers = makers.of_path(&file.path);
            // A task does not make the path that it starts from.
            let by_itself = file.rule == FindingKind::MissingProgram
                && makers.binary_search(&file.task).is_ok();
            by_itself || self.ancestors.waits_on_any(file.task, makers, &mut steps)
        };
        files.into_iter().filter(|file| !is_made(file)).map(AbsentPath::finding).collect()
    }

    fn missing_files(&self, open: &[usize]) -> Vec<AbsentPath> {
        let mut programs: HashMap<&str, bool> = HashMap::new();
        let mut found = Vec::new();
        for number in open.iter().copied() {
            let task = self.graph.task(number);
            let paths = task.extra.get("path").map(task_paths::of_output).unwrap_or_default();
            let paths = paths.into_iter().filter(|path| !(self.facts.has_path)(path));
            found.extend(paths.map(|path| AbsentPath {
                task: number,
                rule: FindingKind::MissingPath,
                path,
            }));
            // Those of the settings are the same for every task, and `doctor` runs them.
            for command in task.verify.iter().chain(task.verify_only.iter().flatten()) {
                let Some(program) = task_paths::program_of(command) else { continue };
                let has_program = || (self.facts.has_program)(program);
                if !*programs.entry(program).or_insert_with(has_program) {
                    let path = program.to_owned();
                    found.push(AbsentPath {
                        task: number,
                        rule: FindingKind::MissingProgram,
                        path,
                    });
                }
            }
        }
        found
    }
}

impl AbsentPath {
    fn finding(self) -> LintFinding {
        let field = if self.rule == FindingKind::MissingProgram { "verify" } else { "path" };
        finding(self.rule, self.task, field, &[&self.path])
    }
}

impl Makers {
    /// Reads each text once, however many paths are missing.
    fn of(tasks: &[Task], files: &[AbsentPath]) -> Makers {
        let names: BTreeSet<&str> = files.iter().map(|file| plain(&file.path)).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let search =
            AhoCorasick::new(&names).expect("the paths of a graph are far below the limit");
        let made = names.iter().map(|name| ((*name).to_owned(), Vec::new()));
        let mut makers = Makers(made.collect());
        for (number, task) in tasks.iter().enumerate() {
            let globs = task.touches.iter().map(Glob::as_str);
            let texts = [task.title.as_str(), task.description.as_deref().unwrap_or_default()];
            for text in texts.into_iter().chain(globs) {
                for found in search.find_overlapping_iter(text) {
                    if is_whole(text, found.range()) {
                        makers.add(names[found.pattern()], number);
                    }
                }
            }
            for made in task.extra.get("output").map(task_paths::of_output).unwrap_or_default() {
                let made = plain(&made);
                let below = |name: &&&str| {
                    name.strip_prefix(made)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                for name in names.iter().filter(below) {
                    makers.add(name, number);
                }
            }
        }
        makers
    }

    fn of_path(&self, path: &str) -> &[usize] {
        self.0.get(plain(path)).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, path: &str, number: usize) {
        if let Some(makers) = self.0.get_mut(path)
            && makers.last() != Some(&number)
        {
            makers.push(number);
        }
    }
}

/// Whether a place in a text is a word, or whole parts of a path.
fn is_whole(text: &str, place: Range<usize>) -> bool {
    let before = text[..place.start].chars().next_back();
    let after = text[place.end..].trim_start_matches('.').chars().next();
    let is_end = |c: Option<char>| c.is_none_or(|c| c == '/' || !is_path_part(c));
    is_end(before) && is_end(after)
}

/// A path without `./` in front and `/` at the end.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}
