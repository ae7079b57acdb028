//! Backlogs and plans among the files of a project, and its files in few lines.

use std::collections::BTreeMap;

/// A file that looks like a backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The path from the top of the project.
    pub path: String,
    /// Advice on how to use it.
    pub advice: String,
    /// The path to give a task that creates tasks from it, if an agent can read it.
    pub document: Option<String>,
    /// Whether `ralph import` finds tasks in it.
    pub is_importable: bool,
}

/// Names of documents with plans.
const DOCUMENTS: &str = "implementation_plan.md prd.md prd.json specs/ todo.md fix_plan.md plan.md backlog.md \
    roadmap.md tasks.md tasks.json .taskmaster/tasks/tasks.json";

/// Finds the backlogs among the paths of a project. `has_tasks` returns whether `ralph import` finds
/// tasks in a document.
pub fn backlog(paths: &[String], has_tasks: impl Fn(&str) -> bool) -> Vec<Backlog> {
    let rank = |path: &String| DOCUMENTS.split(' ').position(|name| name == path.to_lowercase());
    let mut plans: Vec<(usize, &String)> =
        paths.iter().filter_map(|path| Some((rank(path)?, path))).collect();
    plans.sort_unstable();
    let graphs = paths.iter().filter(|path| is_graph(path)).map(|path| Backlog {
        path: path.clone(),
        advice: format!("a task graph: check it with `ralph --graph {path} check`"),
        document: None,
        is_importable: false,
    });
    let beads = paths.iter().filter(|path| *path == ".beads/").map(|path| Backlog {
        path: path.clone(),
        advice: "import it with `ralph import .beads`".to_owned(),
        document: None,
        is_importable: false,
    });
    let plans = plans.into_iter().map(|(_, path)| {
        let is_importable = !path.ends_with('/') && has_tasks(path);
        let advice = if is_importable && is_text(path) {
            format!(
                "`ralph import {path}` adds its tasks, `ralph draft {path}` has the agent write them"
            )
        } else if path.to_lowercase().ends_with(".json") {
            format!("import it with `ralph import {path}`")
        } else if is_text(path) {
            format!("`ralph draft {path}` has the agent write tasks from it")
        } else {
            "name it as `path` in a task, whose agent then reads it first".to_owned()
        };
        Backlog { path: path.clone(), advice, document: Some(path.clone()), is_importable }
    });
    graphs.chain(plans).chain(beads).collect()
}

/// Whether a plan is a text that tasks can be drafted from.
fn is_text(path: &str) -> bool {
    path.to_lowercase().ends_with(".md")
}

/// Returns the first plan that tasks can be drafted from.
pub fn draftable(found: &[Backlog]) -> Option<&str> {
    found.iter().filter_map(|one| one.document.as_deref()).find(|path| is_text(path))
}

/// Returns the first plan that `ralph import` finds tasks in.
pub fn importable(found: &[Backlog]) -> Option<&str> {
    found.iter().find(|one| one.is_importable).map(|one| one.path.as_str())
}

fn is_graph(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_named = ["task-graph.yaml", "task-graph.yml"].iter().any(|end| name.ends_with(end));
    is_named && (!folder.is_empty() || name != "task-graph.yaml")
}

/// Returns at most `most` lines that name files: single files as far as there is room, and for deeper
/// folders only how many files they have.
pub fn layout(paths: &[String], most: usize) -> Vec<String> {
    if paths.len() <= most {
        return paths.to_vec();
    }
    let mut best = Vec::new();
    for depth in 1.. {
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for path in paths {
            let end = path.match_indices('/').nth(depth - 1).map(|(at, _)| at + 1);
            *lines.entry(end.map_or(path, |end| &path[..end])).or_default() += 1;
        }
        let is_whole = lines.keys().all(|name| !name.ends_with('/'));
        let line = |(name, count): (&str, usize)| match count {
            count if name.ends_with('/') => format!("{name} ({count} files)"),
            _ => name.to_owned(),
        };
        let is_fit = lines.len() <= most;
        if is_fit || best.is_empty() {
            best = lines.into_iter().map(line).collect();
        }
        if !is_fit || is_whole {
            break;
        }
    }
    if best.len() > most {
        let more = best.len() + 1 - most;
        best.truncate(most.saturating_sub(1));
        best.push(format!("… and {more} more"));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_by_name() {
        let paths = [
            ".beads/",
            "README.md",
            "TODO.md",
            "PRD.md",
            "task-graph.yaml",
            "docs/task-graph.yaml",
            "data/sim.task-graph.yaml",
            "specs/",
            "todo.md.bak",
        ];
        let found = backlog(&paths.map(str::to_owned), |path| path == "PRD.md");
        let names: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(
            names,
            [
                "docs/task-graph.yaml",
                "data/sim.task-graph.yaml",
                "PRD.md",
                "specs/",
                "TODO.md",
                ".beads/"
            ]
        );
        assert_eq!(found[2].document.as_deref(), Some("PRD.md"));
        assert_eq!(importable(&found), Some("PRD.md"));
    }

    #[test]
    fn folders_stand_for_files_where_there_are_too_many() {
        let paths = ["README.md", "src/a.rs", "src/deep/b.rs", "src/deep/c.rs", "x.rs"];
        let paths = paths.map(str::to_owned);
        assert_eq!(layout(&paths, 5), paths);
        assert_eq!(layout(&paths, 4), ["README.md", "src/a.rs", "src/deep/ (2 files)", "x.rs"]);
        assert_eq!(layout(&paths, 3), ["README.md", "src/ (3 files)", "x.rs"]);
        assert_eq!(layout(&paths, 2), ["README.md", "… and 2 more"]);
        assert_eq!(layout(&[], 2), [""; 0]);
        let many: Vec<String> = (0..100_000).map(|n| format!("a/b/{n}")).collect();
        assert_eq!(layout(&many, 300), ["a/b/ (100000 files)"]);
    }
}
