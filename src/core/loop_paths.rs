//! The paths of a loop: of the run over the graph, and of each plain loop by name.
//!
//! No two loops write the same file, so they can run at the same time in one repository.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::task_id::TaskId;

/// The graph file, relative to the repository.
pub const GRAPH: &str = "task-graph.yaml";

/// The file in the folder of a task that reports it done.
pub const DONE: &str = "DONE";

/// The file in the folder of a task that asks for input.
pub const WAIT: &str = "WAIT_WITHOUT_RESTART";

/// The file in the folder of a task with the notes of its agents.
pub const NOTES: &str = "notes.md";
/// The file with the learnings of agents, relative to the repository.
pub const LEARNINGS: &str = "docs/knowledge/learnings.md";

/// The files in the folder of a task with which an agent reports.
pub const REPORTS: [&str; 3] = [DONE, WAIT, NOTES];

/// The folder for state, within git's common folder.
const STATE: &str = "ralph";

/// The paths of one loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPaths {
    name: Option<TaskId>,
    journal: String,
    heartbeat: String,
    run_log: String,
    attempts: String,
    hooks: String,
}

/// The files and folders that `ralph` writes, for any loop, relative to the repository. Folders end
/// with a slash.
pub const OWN: [&str; 10] = [
    "logs/ralph.jsonl",
    "logs/ralph.heartbeat",
    "logs/run.log",
    "logs/run.log.1",
    "logs/attempts/",
    "logs/hooks/",
    "logs/draft/",
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
    /// The paths of the plain loop with this name.
    pub fn of_loop(name: TaskId) -> LoopPaths {
        LoopPaths::new(&format!("logs/loops/{name}"), Some(name))
    }

    fn new(logs: &str, name: Option<TaskId>) -> LoopPaths {
        LoopPaths {
            name,
            journal: format!("{logs}/ralph.jsonl"),
            heartbeat: format!("{logs}/ralph.heartbeat"),
            run_log: format!("{logs}/run.log"),
            attempts: format!("{logs}/attempts"),
            hooks: format!("{logs}/hooks"),
        }
    }

    /// The name of the plain loop; none for the run over the graph.
    pub fn name(&self) -> Option<&TaskId> {
        self.name.as_ref()
    }

    /// The flag that selects this loop, with a leading space; empty for the run over the graph.
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

    /// The log of the output of runs, relative to the repository.
    pub fn run_log(&self) -> &str {
        &self.run_log
    }

    /// The folder of prompts and outputs, relative to the repository.
    pub fn attempts(&self) -> &str {
        &self.attempts
    }

    /// The folder of the output of run hooks, relative to the repository.
    pub fn hooks(&self) -> &str {
        &self.hooks
    }

    /// The folder of the prompt and output of one attempt, relative to the repository.
    pub fn attempt(&self, id: &TaskId, number: u32) -> String {
        match self.name {
            Some(_) => format!("{}/{number}", self.attempts),
            None => format!("{}/{id}/{number}", self.attempts),
        }
    }

    /// The folder of a task, relative to the repository.
    pub fn folder(&self, id: &TaskId) -> String {
        let kind = if self.name.is_some() { "loops" } else { "tasks" };
        format!(".ralph/{kind}/{id}")
    }

    /// The folder for state, in git's common folder: lock, open attempts, snapshot.
    pub fn state(&self, common_dir: &Path) -> PathBuf {
        let main = common_dir.join(STATE);
        match &self.name {
            Some(name) => loops(common_dir).join(name.as_str()),
            None => main,
        }
    }

    /// The graph file: at the top of the repository, or generated for a plain loop.
    pub fn graph(&self, root: &Path, common_dir: &Path) -> PathBuf {
        match self.name {
            Some(_) => self.state(common_dir).join(GRAPH),
            None => root.join(GRAPH),
        }
    }

    /// The prefix of the refs of all attempts at a task.
    pub fn pins(&self, id: &TaskId) -> String {
        ref_of(self.kind(), id)
    }

    /// The ref that keeps the base of an open attempt at a task.
    pub fn base_ref(&self, id: &TaskId, attempt: u32) -> String {
        format!("{}/{attempt}", ref_of(&format!("base+{}", self.kind()), id))
    }

    /// The ref that keeps the result of the current trial in a slot of the merge queue.
    pub fn trial_ref(&self, slot: usize) -> String {
        let first = match &self.name {
            Some(name) => ref_of("trial+", name),
            None => TRIALS.to_owned(),
        };
        if slot == 0 { first } else { format!("{first}+{slot}") }
    }

    /// The ref that keeps the commit at which a draft is made.
    pub fn draft_ref() -> &'static str {
        "refs/ralph/draft+"
    }

    /// The name of a slot: its number or its purpose, after the name of the loop.
    pub fn slot(&self, which: &str) -> String {
        self.name.as_ref().map_or_else(|| which.to_owned(), |name| format!("loop-{name}-{which}"))
    }

    /// The mark of a plain loop in the names of refs.
    fn kind(&self) -> &'static str {
        if self.name.is_some() { "loop+" } else { "" }
    }
}

/// How the names of the refs begin that keep the result of a trial until it is decided.
pub const TRIALS: &str = "refs/ralph/trial+";

/// The folder of refs with work that came back from another machine too late, or that is not the
/// work of the attempt which fetched it.
pub const STALE_WORK: &str = "refs/ralph/stale";

/// A ref about a task. A task id contains no `+`. Git reserves names that end in `.lock`.
fn ref_of(kind: &str, id: &TaskId) -> String {
    let is_reserved = Path::new(id.as_str()).extension() == Some(OsStr::new("lock"));
    let name = format!("refs/ralph/{kind}{id}");
    if is_reserved || name == STALE_WORK { name + "+" } else { name }
}

/// The folder in git's common folder with one folder per plain loop.
pub fn loops(common_dir: &Path) -> PathBuf {
    common_dir.join(STATE).join("loops")
}

/// Whether `ralph` itself writes this file of the repository.
pub fn is_own(path: &str) -> bool {
    let is_in = |own: &str| if own.ends_with('/') { path.starts_with(own) } else { path == own };
    path == GRAPH || OWN.iter().any(|own| is_in(own))
}

/// Whether `ralph` writes a file of this name, or files in a folder of this name.
pub fn is_own_or_above(path: &str) -> bool {
    let is_above = |own: &str| own.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    path != GRAPH && (is_own(path) || OWN.iter().any(|own| is_above(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_share_no_path() {
        let id = |text: &str| TaskId::new(text).unwrap();
        let all = |paths: &LoopPaths, task: &TaskId| {
            let (root, git) = (Path::new("/r"), Path::new("/r/.git"));
            let shown = |path: PathBuf| path.display().to_string();
            [
                paths.journal().to_owned(),
                paths.heartbeat().to_owned(),
                paths.run_log().to_owned(),
                paths.hooks().to_owned(),
                paths.attempt(task, 1),
                paths.folder(task),
                paths.pins(task),
                paths.base_ref(task, 1),
                paths.trial_ref(0),
                paths.slot("1"),
                shown(paths.state(git)),
                shown(paths.graph(root, git)),
            ]
        };
        let docs = id("docs");
        assert_eq!(
            all(&LoopPaths::default(), &docs),
            [
                "logs/ralph.jsonl",
                "logs/ralph.heartbeat",
                "logs/run.log",
                "logs/hooks",
                "logs/attempts/docs/1",
                ".ralph/tasks/docs",
                "refs/ralph/docs",
                "refs/ralph/base+docs/1",
                "refs/ralph/trial+",
                "1",
                "/r/.git/ralph",
                "/r/task-graph.yaml",
            ]
        );
        assert_eq!(
            all(&LoopPaths::of_loop(docs.clone()), &docs),
            [
                "logs/loops/docs/ralph.jsonl",
                "logs/loops/docs/ralph.heartbeat",
                "logs/loops/docs/run.log",
                "logs/loops/docs/hooks",
                "logs/loops/docs/attempts/1",
                ".ralph/loops/docs",
                "refs/ralph/loop+docs",
                "refs/ralph/base+loop+docs/1",
                "refs/ralph/trial+docs",
                "loop-docs-1",
                "/r/.git/ralph/loops/docs",
                "/r/.git/ralph/loops/docs/task-graph.yaml",
            ]
        );
        assert_eq!(LoopPaths::default().pins(&id("a.b-")), "refs/ralph/a.b-");
        assert_eq!(LoopPaths::default().pins(&id("x.lock")), "refs/ralph/x.lock+");
        assert_eq!(LoopPaths::default().pins(&id("stale")), "refs/ralph/stale+");
    }

    #[test]
    fn files_of_every_loop_are_own() {
        for path in [
            "task-graph.yaml",
            "logs/ralph.jsonl",
            "logs/run.log",
            "logs/run.log.1",
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
