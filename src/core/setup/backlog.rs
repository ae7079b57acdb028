//! Files that look like a backlog: listed by `ralph init`, imported only by `ralph import`.

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
const DOCUMENTS: &[&str] = &[
    "implementation_plan.md",
    "prd.md",
    "prd.json",
    "specs/",
    "todo.md",
    "fix_plan.md",
    "plan.md",
    "backlog.md",
    "roadmap.md",
    "tasks.md",
    "tasks.json",
    ".taskmaster/tasks/tasks.json",
];

/// Finds the backlogs among the paths of a project. `has_tasks` returns whether `ralph import` finds
/// tasks in a document.
pub fn backlog(paths: &[String], has_tasks: impl Fn(&str) -> bool) -> Vec<Backlog> {
    let rank = |path: &String| DOCUMENTS.iter().position(|name| *name == path.to_lowercase());
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
}
