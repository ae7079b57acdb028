//! Programs and paths that tasks name and that are neither there nor made by an earlier task.

use std::collections::HashMap;

use super::{LintFinding, Linter, finding};
use crate::{
    finding::FindingKind,
    graph::{STEPS, task::Task},
    task_paths::{self, is_path_part},
};

/// A program or path that a task needs and that is not there.
struct AbsentPath {
    task: usize,
    rule: FindingKind,
    path: String,
}

/// The tasks that make or name missing paths.
struct Makers {
    /// The tasks of each path, in ascending order.
    by_path: HashMap<String, Vec<usize>>,
    /// The paths with characters that end a word in a text.
    odd: Vec<String>,
}

impl Linter<'_> {
    /// What is missing, unless a task makes it, as far as it says.
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
        let wanted = files.iter().map(|file| (plain(&file.path).to_owned(), Vec::new()));
        let by_path: HashMap<String, Vec<usize>> = wanted.collect();
        let is_odd = |path: &&String| !path.chars().all(is_path_part);
        let mut makers = Makers { odd: by_path.keys().filter(is_odd).cloned().collect(), by_path };
        let in_folders = makers.by_folder();
        for (number, task) in tasks.iter().enumerate() {
            for made in task.extra.get("output").map(task_paths::of_output).unwrap_or_default() {
                for path in in_folders.get(plain(&made)).into_iter().flatten() {
                    makers.add(path, number);
                }
            }
            makers.add_named(&task.title, number);
            makers.add_named(task.description.as_deref().unwrap_or_default(), number);
            for glob in &task.touches {
                makers.add_named(glob.as_str(), number);
            }
        }
        makers
    }

    fn of_path(&self, path: &str) -> &[usize] {
        self.by_path.get(plain(path)).map_or(&[], Vec::as_slice)
    }

    /// The wanted paths by each folder that they are in, and by themselves.
    fn by_folder(&self) -> HashMap<String, Vec<String>> {
        let mut found: HashMap<String, Vec<String>> = HashMap::new();
        for path in self.by_path.keys() {
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            for end in ends {
                found.entry(path[..end].to_owned()).or_default().push(path.clone());
            }
        }
        found
    }

    fn add(&mut self, path: &str, number: usize) {
        if let Some(makers) = self.by_path.get_mut(path)
            && makers.last() != Some(&number)
        {
            makers.push(number);
        }
    }

    /// Adds the paths that a text names: words, or whole parts of a path.
    fn add_named(&mut self, text: &str, number: usize) {
        /// The most parts of a path that are looked at.
        const PARTS: usize = 16;
        let named: Vec<String> =
            self.odd.iter().filter(|path| text.contains(path.as_str())).cloned().collect();
        for path in &named {
            self.add(path, number);
        }
        for word in text.split(|c| !is_path_part(c)) {
            let word = plain(word.trim_end_matches('.'));
            let starts = std::iter::once(0).chain(word.match_indices('/').map(|(at, _)| at + 1));
            for start in starts.take(PARTS) {
                let rest = &word[start..];
                let ends = rest.match_indices('/').map(|(at, _)| at).chain([rest.len()]);
                for end in ends.take(PARTS) {
                    self.add(&rest[..end], number);
                }
            }
        }
    }
}

/// A path without `./` in front and `/` at the end.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}
