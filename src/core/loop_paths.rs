//! Where the things of one loop lie: of the run over the graph, and of each plain loop by its name.
//!
//! Two loops share no file that either writes, so that they can go on at once in one repository.
//! Paths only: who reads and writes there is others' affair.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::core::graph::task::TaskId;

/// The graph file, relative to the repository.
pub const GRAPH: &str = "task-graph.yaml";

/// The folder out of reach, in git's common folder.
const STATE: &str = "ralph";

/// The place of one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPaths {
    name: Option<TaskId>,
    journal: String,
    heartbeat: String,
    attempts: String,
    hooks: String,
}

/// The files and folders that `ralph` writes, whichever loop they belong to, relative to the
/// repository; folders end with a slash.
pub const OWN: [&str; 7] = [
    "logs/ralph.jsonl",
    "logs/ralph.heartbeat",
    "logs/attempts/",
    "logs/hooks/",
    "logs/loops/",
    ".ralph/tasks/",
    ".ralph/loops/",
];

impl Default for LoopPaths {
    fn default() -> LoopPaths {
        LoopPaths::new("logs", None)
    }
}

impl LoopPaths {
    /// The place of the plain loop of this name.
    pub fn of_loop(name: TaskId) -> LoopPaths {
        LoopPaths::new(&format!("logs/loops/{name}"), Some(name))
    }

    fn new(logs: &str, name: Option<TaskId>) -> LoopPaths {
        LoopPaths {
            name,
            journal: format!("{logs}/ralph.jsonl"),
            heartbeat: format!("{logs}/ralph.heartbeat"),
            attempts: format!("{logs}/attempts"),
            hooks: format!("{logs}/hooks"),
        }
    }

    /// The name of the plain loop; none of the run over the graph.
    pub fn name(&self) -> Option<&TaskId> {
        self.name.as_ref()
    }

    /// What a command needs behind it to mean this very loop.
    pub fn flag(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" --name {name}"))
    }

    /// The journal, relative to the repository.
    pub fn journal(&self) -> &str {
        &self.journal
    }

    /// The heartbeat, relative to the repository.
    pub fn heartbeat(&self) -> &str {
        &self.heartbeat
    }

    /// The folder of prompts and outputs, relative to the repository.
    pub fn attempts(&self) -> &str {
        &self.attempts
    }

    /// The folder of what hooks of whole runs print, relative to the repository.
    pub fn hooks(&self) -> &str {
        &self.hooks
    }

    /// That of one attempt.
    pub fn attempt(&self, id: &TaskId, number: u32) -> String {
        match self.name {
            Some(_) => format!("{}/{number}", self.attempts),
            None => format!("{}/{id}/{number}", self.attempts),
        }
    }

    /// A task's own folder, relative to the repository.
    pub fn folder(&self, id: &TaskId) -> String {
        let kind = if self.name.is_some() { "loops" } else { "tasks" };
        format!(".ralph/{kind}/{id}")
    }

    /// The folder out of reach, in git's common folder: lock, open attempts, snapshot.
    pub fn state(&self, common_dir: &Path) -> PathBuf {
        let main = common_dir.join(STATE);
        match &self.name {
            Some(name) => loops(common_dir).join(name.as_str()),
            None => main,
        }
    }

    /// The graph file: at the top of the repository; a plain loop has one that was made for it.
    pub fn graph(&self, root: &Path, common_dir: &Path) -> PathBuf {
        match self.name {
            Some(_) => self.state(common_dir).join(GRAPH),
            None => root.join(GRAPH),
        }
    }

    /// What the refs of all attempts at a task begin with.
    pub fn pins(&self, id: &TaskId) -> String {
        // No id has a `+` in it. Git keeps names that end in `.lock` for itself.
        let kind = if self.name.is_some() { "loop+" } else { "" };
        let escape =
            if Path::new(id.as_str()).extension() == Some(OsStr::new("lock")) { "+" } else { "" };
        format!("refs/ralph/{kind}{id}{escape}")
    }
}

/// The folder in git's common folder with one for each plain loop, by its name.
pub fn loops(common_dir: &Path) -> PathBuf {
    common_dir.join(STATE).join("loops")
}

/// Whether `ralph` writes this file of the repository itself.
pub fn is_own(path: &str) -> bool {
    let is_in = |own: &str| if own.ends_with('/') { path.starts_with(own) } else { path == own };
    path == GRAPH || OWN.iter().any(|own| is_in(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_nothing_in_common() {
        let id = |text: &str| TaskId::new(text).unwrap();
        let all = |place: &LoopPaths, task: &TaskId| {
            let (root, git) = (Path::new("/r"), Path::new("/r/.git"));
            let shown = |path: PathBuf| path.display().to_string();
            [
                place.journal().to_owned(),
                place.heartbeat().to_owned(),
                place.hooks().to_owned(),
                place.attempt(task, 1),
                place.folder(task),
                place.pins(task),
                shown(place.state(git)),
                shown(place.graph(root, git)),
            ]
        };
        let docs = id("docs");
        assert_eq!(
            all(&LoopPaths::default(), &docs),
            [
                "logs/ralph.jsonl",
                "logs/ralph.heartbeat",
                "logs/hooks",
                "logs/attempts/docs/1",
                ".ralph/tasks/docs",
                "refs/ralph/docs",
                "/r/.git/ralph",
                "/r/task-graph.yaml",
            ]
        );
        assert_eq!(
            all(&LoopPaths::of_loop(docs.clone()), &docs),
            [
                "logs/loops/docs/ralph.jsonl",
                "logs/loops/docs/ralph.heartbeat",
                "logs/loops/docs/hooks",
                "logs/loops/docs/attempts/1",
                ".ralph/loops/docs",
                "refs/ralph/loop+docs",
                "/r/.git/ralph/loops/docs",
                "/r/.git/ralph/loops/docs/task-graph.yaml",
            ]
        );
        assert_eq!(LoopPaths::default().pins(&id("a.b-")), "refs/ralph/a.b-");
        assert_eq!(LoopPaths::default().pins(&id("x.lock")), "refs/ralph/x.lock+");
    }

    #[test]
    fn own_files_are_those_of_every_place() {
        for path in [
            "task-graph.yaml",
            "logs/ralph.jsonl",
            "logs/attempts/a/1/prompt.md",
            "logs/loops/a/ralph.jsonl",
            ".ralph/loops/a/DONE",
        ] {
            assert!(is_own(path), "{path}");
        }
        for path in ["logs/other", "logs/attempts.txt", ".ralph/config.yaml", "src/logs/loops/a"] {
            assert!(!is_own(path), "{path}");
        }
    }
}
