//! Files that look like work to do: named, never imported.

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Where it is, from the top of the project.
    pub path: String,
    /// What can be done about it.
    pub advice: String,
    /// The path for a task that makes tasks of it, where an agent can read it so.
    pub document: Option<String>,
}

/// Documents that people keep plans in.
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

/// Those among the paths of a project.
pub fn backlog(paths: &[String]) -> Vec<Backlog> {
    let rank = |path: &String| DOCUMENTS.iter().position(|name| *name == path.to_lowercase());
    let mut plans: Vec<(usize, &String)> =
        paths.iter().filter_map(|path| Some((rank(path)?, path))).collect();
    plans.sort_unstable();
    let graphs = paths.iter().filter(|path| is_graph(path)).map(|path| Backlog {
        path: path.clone(),
        advice: format!("a task graph: `ralph --graph {path} check` reads it where it is"),
        document: None,
    });
    let beads = paths.iter().filter(|path| *path == ".beads/").map(|path| Backlog {
        path: path.clone(),
        advice: "`bd list` shows what is open; write those down as tasks".to_owned(),
        document: None,
    });
    let plans = plans.into_iter().map(|(_, path)| Backlog {
        path: path.clone(),
        advice: "a task can name it in `path`, and its agent reads it first".to_owned(),
        document: Some(path.clone()),
    });
    graphs.chain(plans).chain(beads).collect()
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
    fn plans_are_known_by_their_names() {
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
        let found = backlog(&paths.map(str::to_owned));
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
    }
}
