//! What an import would add to a graph: ids, dependencies and fields of each task.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    BacklogFormat, LostField, STANDARD_INPUT, SourceBacklog, SourceTask,
    fields::clipped,
    identity::{KnownSourceTask, identify},
    ids,
};
use crate::{
    diagnostic::Diagnostic,
    graph::{
        Cyclic, TaskGraph,
        task::{Status, Task, TaskId},
    },
};

/// A text that was read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its name in `source:`, relative to the repository.
    pub name: String,
    /// Its tasks.
    pub backlog: SourceBacklog,
}

/// The tasks that the graph has.
#[derive(Clone, Debug, Default)]
pub struct ExistingTasks {
    /// Their ids.
    pub ids: HashSet<String>,
    /// The ids of those that were imported, by `source`.
    pub by_source: HashMap<String, String>,
    /// The tasks of each source file when it was read last, by the name of the file.
    pub known: HashMap<String, Vec<KnownSourceTask>>,
}

impl ExistingTasks {
    /// Gives the tasks of a source file the keys that they had at its last reading.
    pub fn identify(&self, name: &str, backlog: &mut SourceBacklog) {
        if let Some(known) = self.known.get(name) {
            identify(backlog, known, name != STANDARD_INPUT);
        }
    }
}

/// What the command line sets for all tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportOptions {
    /// The story of tasks that have none.
    pub story: Option<String>,
    /// The milestone of tasks that have none.
    pub milestone: Option<String>,
    /// Labels to add.
    pub tags: Vec<String>,
    /// Whether a task that contains others waits for them.
    pub nested: bool,
    /// The format; none if it is known by the content.
    pub format: Option<BacklogFormat>,
}

/// A task of a source with its place in the graph.
#[derive(Clone, Debug)]
pub struct ImportedTask {
    /// The id in the graph.
    pub id: String,
    /// The name in the source.
    pub key: String,
    /// The value of `source:`.
    pub source: String,
    /// The number of the file.
    pub file: usize,
    /// Whether the graph lacks it.
    pub is_new: bool,
    /// Whether the id differs from the name.
    pub is_renamed: bool,
    /// All fields but `id`, in the order of the graph.
    pub fields: Vec<(String, Value)>,
}

impl ImportedTask {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The ids that it waits for.
    pub fn dependencies(&self) -> Vec<&str> {
        let list = self.get("depends_on").and_then(Value::as_array);
        list.map(|ids| ids.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }

    /// The status.
    pub fn status(&self) -> Status {
        let word = self.get("status").and_then(Value::as_str);
        word.and_then(Status::parse).unwrap_or(Status::Pending)
    }
}

/// What an import does.
#[derive(Clone, Debug, Default)]
pub struct ImportPlan {
    /// All tasks of the sources, also those that the graph has.
    pub tasks: Vec<ImportedTask>,
    /// What is not kept as it is, with the number of its file.
    pub lost: Vec<(usize, LostField)>,
    /// The fields of the backlogs, for the top of a new graph.
    pub top: Vec<(String, Value)>,
    /// The number of tasks that contain others.
    pub parents: usize,
    /// The tasks of each file as they were read, by the name of the file.
    pub read: Vec<(String, Vec<KnownSourceTask>)>,
}

impl ImportPlan {
    /// The tasks that the graph lacks.
    pub fn new_tasks(&self) -> Vec<&ImportedTask> {
        self.tasks.iter().filter(|task| task.is_new).collect()
    }

    /// Leaves out new tasks, and the dependencies on them.
    pub fn leave_out(&mut self, is_out: impl Fn(&ImportedTask) -> bool) {
        let is_out = |task: &ImportedTask| task.is_new && is_out(task);
        let out: HashSet<String> =
            self.tasks.iter().filter(|task| is_out(task)).map(|task| task.id.clone()).collect();
        if out.is_empty() {
            return;
        }
        self.tasks.retain(|task| !is_out(task));
        for (name, value) in self.tasks.iter_mut().flat_map(|task| &mut task.fields) {
            if let Value::Array(ids) = value
                && name == "depends_on"
            {
                ids.retain(|id| id.as_str().is_none_or(|id| !out.contains(id)));
            }
        }
    }
}

/// The order of fields in the graph. Others follow, before the text.
const FIRST: [&str; 8] =
    ["title", "status", "priority", "depends_on", "story", "milestone", "tags", "completed_at"];
/// The fields at the end.
const LAST: [&str; 3] = ["source", "description", "notes"];

/// Makes the plan of an import.
///
/// # Errors
/// Cycles of the dependencies, with the number of the file.
pub fn plan(
    files: &[SourceFile],
    existing: &ExistingTasks,
    options: &ImportOptions,
) -> Result<ImportPlan, Vec<(usize, Diagnostic)>> {
    let all: Vec<(usize, &SourceTask)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, source)| source.backlog.tasks.iter().map(move |task| (file, task)))
        .collect();
    let names = SourceNames::new(files, existing, &all);
    let mut plan = ImportPlan::default();
    for (file, source) in files.iter().enumerate() {
        let tasks = source.backlog.tasks.iter().map(KnownSourceTask::of_source).collect();
        plan.read.push((source.name.clone(), tasks));
        plan.lost.extend(source.backlog.lost.iter().map(|lost| (file, lost.clone())));
        for (name, value) in &source.backlog.top {
            if plan.top.iter().all(|(known, _)| known != name) {
                plan.top.push((name.clone(), value.clone()));
            }
        }
    }
    let mut edges = SourceEdges { waits: vec![Vec::new(); all.len()], ids: Vec::new() };
    edges.ids = names.link(&all, existing, &mut plan.lost, &mut edges.waits);
    let parents = names.parents(&all, options.nested, &mut edges, &mut plan.lost);
    plan.parents = parents.iter().flatten().collect::<HashSet<_>>().len();
    acyclic(&all, &names, &edges.waits)?;
    for (number, (file, task)) in all.iter().enumerate() {
        let mut fields = task.fields.clone();
        let own = &edges.ids[number];
        if !own.is_empty() {
            fields.push(("depends_on".to_owned(), json!(own)));
        }
        let parent = parents[number].map(|parent| names.ids[parent].0.clone());
        complete(&mut fields, options, parent);
        fields.push(("source".to_owned(), json!(names.sources[number])));
        fields.sort_by_key(|(name, _)| rank(name));
        let (id, is_renamed) = names.ids[number].clone();
        plan.tasks.push(ImportedTask {
            id,
            key: task.key.clone(),
            source: names.sources[number].clone(),
            file: *file,
            is_new: !existing.by_source.contains_key(&names.sources[number]),
            is_renamed,
            fields,
        });
    }
    Ok(plan)
}

fn rank(name: &str) -> usize {
    let last = LAST.iter().position(|known| *known == name).map(|at| 100 + at);
    FIRST.iter().position(|known| *known == name).or(last).unwrap_or(50)
}

/// Adds what the command line and the nesting say.
fn complete(fields: &mut Vec<(String, Value)>, options: &ImportOptions, parent: Option<String>) {
    let mut default = |name: &str, value: Option<Value>| {
        if let Some(value) = value
            && fields.iter().all(|(known, _)| known != name)
        {
            fields.push((name.to_owned(), value));
        }
    };
    default("x-parent", parent.as_ref().map(|parent| json!(parent)));
    default("story", options.story.as_ref().map(|story| json!(story)));
    default("story", parent.map(|parent| json!(parent)));
    default("milestone", options.milestone.as_ref().map(|milestone| json!(milestone)));
    if !options.tags.is_empty() {
        default("tags", Some(json!([])));
        let tags = fields.iter_mut().find(|(name, _)| name == "tags");
        if let Some((_, Value::Array(tags))) = tags {
            for tag in &options.tags {
                if !tags.contains(&json!(tag)) {
                    tags.push(json!(tag));
                }
            }
        }
    }
}

/// What each task waits for: numbers of tasks of the sources, and all ids.
struct SourceEdges {
    waits: Vec<Vec<usize>>,
    ids: Vec<Vec<String>>,
}

/// The names of all tasks of the sources.
struct SourceNames<'a> {
    /// The tasks of each file by key.
    by_key: HashMap<(usize, &'a str), usize>,
    /// The tasks of all files by key; none if several have it.
    anywhere: HashMap<&'a str, Option<usize>>,
    /// The tasks of each file by title, in lower case; none if several have it.
    by_title: HashMap<(usize, String), Option<usize>>,
    sources: Vec<String>,
    ids: Vec<(String, bool)>,
}

impl<'a> SourceNames<'a> {
    fn new(
        files: &[SourceFile],
        existing: &ExistingTasks,
        all: &[(usize, &'a SourceTask)],
    ) -> SourceNames<'a> {
        let mut by_key = HashMap::with_capacity(all.len());
        let mut by_title: HashMap<(usize, String), Option<usize>> = HashMap::new();
        let mut anywhere: HashMap<&str, Option<usize>> = HashMap::with_capacity(all.len());
        for (number, (file, task)) in all.iter().enumerate() {
            by_key.insert((*file, task.key.as_str()), number);
            if let Some(title) = task.get("title").and_then(Value::as_str) {
                let entry = by_title.entry((*file, title.to_lowercase()));
                entry.and_modify(|known| *known = None).or_insert(Some(number));
            }
            anywhere.entry(&task.key).and_modify(|known| *known = None).or_insert(Some(number));
        }
        let source = |(file, task): &(usize, &SourceTask)| {
            task.source.clone().unwrap_or_else(|| format!("{}#{}", files[*file].name, task.key))
        };
        let sources: Vec<String> = all.iter().map(source).collect();
        let is_new = |number: &usize| !existing.by_source.contains_key(&sources[*number]);
        let new: Vec<usize> = (0..all.len()).filter(is_new).collect();
        let mapped = ids::map(new.iter().map(|number| all[*number].1.key.as_str()), &existing.ids);
        let mut mapped = mapped.into_iter();
        let ids = sources.iter().zip(all).map(|(source, (_, task))| {
            match existing.by_source.get(source) {
                Some(id) => (id.clone(), *id != task.key),
                None => mapped.next().expect("each new task has an id"),
            }
        });
        let ids = ids.collect();
        SourceNames { by_key, anywhere, by_title, sources, ids }
    }

    fn find(&self, file: usize, key: &str) -> Option<usize> {
        let own = self.by_key.get(&(file, key)).copied();
        let titled = || self.by_title.get(&(file, key.to_lowercase())).copied().flatten();
        own.or_else(|| self.anywhere.get(key).copied().flatten()).or_else(titled)
    }

    /// Resolves the dependencies: the numbers of tasks into `waits`, and the ids.
    fn link(
        &self,
        all: &[(usize, &SourceTask)],
        existing: &ExistingTasks,
        lost: &mut Vec<(usize, LostField)>,
        waits: &mut [Vec<usize>],
    ) -> Vec<Vec<String>> {
        let mut ids = vec![Vec::new(); all.len()];
        for (number, (file, task)) in all.iter().enumerate() {
            for link in &task.depends_on {
                let found = self.find(*file, &link.key);
                let id = match found {
                    Some(other) => self.ids[other].0.clone(),
                    None if existing.ids.contains(&link.key) => link.key.clone(),
                    None => {
                        let why =
                            format!("no task `{}` in the source or the graph", clipped(&link.key));
                        let field = "dependency".to_owned();
                        let (task, at) = (Some(task.key.clone()), link.at.clone());
                        lost.push((*file, LostField { task, field, why, is_kept: false, at }));
                        continue;
                    }
                };
                waits[number].extend(found);
                if !ids[number].contains(&id) {
                    ids[number].push(id);
                }
            }
        }
        ids
    }

    /// Resolves the tasks that contain others. With `nested`, they wait for these.
    fn parents(
        &self,
        all: &[(usize, &SourceTask)],
        nested: bool,
        edges: &mut SourceEdges,
        lost: &mut Vec<(usize, LostField)>,
    ) -> Vec<Option<usize>> {
        let mut parents = vec![None; all.len()];
        for (number, (file, task)) in all.iter().enumerate() {
            let Some(link) = &task.parent else {
                continue;
            };
            parents[number] = self.find(*file, &link.key).filter(|parent| *parent != number);
            let Some(parent) = parents[number] else {
                let why = format!("no task `{}` in the source", clipped(&link.key));
                let (task, at) = (Some(task.key.clone()), link.at.clone());
                let field = "parent".to_owned();
                lost.push((*file, LostField { task, field, why, is_kept: false, at }));
                continue;
            };
            // A part that waits for the whole says more than the nesting.
            if nested && !edges.waits[number].contains(&parent) {
                let id = self.ids[number].0.clone();
                if !edges.ids[parent].contains(&id) {
                    edges.ids[parent].push(id);
                }
                edges.waits[parent].push(number);
            }
        }
        parents
    }
}

/// Checks that no task waits for itself.
fn acyclic(
    all: &[(usize, &SourceTask)],
    names: &SourceNames<'_>,
    waits: &[Vec<usize>],
) -> Result<(), Vec<(usize, Diagnostic)>> {
    /// The number of tasks of a cycle that are shown.
    const SHOWN: usize = 8;
    let task = |(id, _): &(String, bool)| TaskId::new(id).map(Task::new);
    let Ok(tasks) = names.ids.iter().map(task).collect::<Result<Vec<Task>, _>>() else {
        return Ok(());
    };
    let edges = waits
        .iter()
        .enumerate()
        .flat_map(|(number, waits)| waits.iter().map(move |other| (*other, number)));
    let Err(Cyclic { cycles, .. }) = TaskGraph::new(tasks, edges.collect()) else {
        return Ok(());
    };
    let faults = cycles.iter().map(|cycle| {
        let name = |number: &usize| format!("`{}`", clipped(&all[*number].1.key));
        let mut shown: Vec<String> = cycle.iter().take(SHOWN).map(name).collect();
        if cycle.len() > SHOWN {
            shown.push(format!("… {} more …", cycle.len() - SHOWN));
        }
        shown.push(name(&cycle[0]));
        let (file, first) = all[cycle[0]];
        let last = &all[cycle[cycle.len() - 1]].1.key;
        let link = first.depends_on.iter().find(|link| link.key == *last);
        let at = link.map_or_else(|| first.at.clone(), |link| link.at.clone());
        let message = format!("the tasks form a cycle: {}", shown.join(" -> "));
        let help = "remove one of these dependencies in the source; nothing was changed";
        (file, Diagnostic::error(message, at).help(help))
    });
    Err(faults.collect())
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn file(name: &str, format: BacklogFormat, text: &str) -> SourceFile {
        SourceFile { name: name.to_owned(), backlog: read(format, "x", text).unwrap() }
    }

    const STORIES: &str = r#"{"project": "P", "userStories": [
        {"id": "a/1", "title": "A", "passes": true},
        {"id": "b", "title": "B", "dependsOn": ["a/1", "gone"], "dependson": 1}]}"#;

    #[test]
    fn ids_are_mapped_and_dependencies_follow() {
        let files = [file("prd.json", BacklogFormat::Prd, STORIES)];
        let options = ImportOptions { tags: vec!["new".to_owned()], ..ImportOptions::default() };
        let plan = plan(&files, &ExistingTasks::default(), &options).unwrap();
        let [a, b] = plan.tasks.as_slice() else { panic!("{plan:?}") };
        assert_eq!((a.id.as_str(), a.is_renamed, a.status()), ("a-1", true, Status::Complete));
        assert_eq!(b.dependencies(), ["a-1"]);
        assert_eq!(b.source, "prd.json#b");
        assert_eq!(b.get("tags"), Some(&json!(["new"])));
        assert!(plan.lost.iter().any(|(_, lost)| lost.why.contains("`gone`")), "{:?}", plan.lost);
        assert_eq!(plan.top, [("project".to_owned(), json!("P"))]);
    }

    #[test]
    fn what_the_graph_has_keeps_its_id() {
        let files = [file("prd.json", BacklogFormat::Prd, STORIES)];
        let known = ExistingTasks {
            ids: ["mine", "b"].map(str::to_owned).into(),
            by_source: [("prd.json#a/1".to_owned(), "mine".to_owned())].into(),
            ..ExistingTasks::default()
        };
        let plan = plan(&files, &known, &ImportOptions::default()).unwrap();
        assert_eq!((plan.tasks[0].id.as_str(), plan.tasks[0].is_new), ("mine", false));
        assert!(plan.tasks[1].is_new && plan.tasks[1].id.starts_with("b-"), "{plan:?}");
        assert_eq!(plan.tasks[1].dependencies(), ["mine"]);
    }

    #[test]
    fn a_cycle_is_an_error_with_its_place() {
        let text = r#"[{"id": "a", "title": "A", "dependsOn": ["b"]}, {"id": "b", "title": "B", "dependsOn": ["a"]}]"#;
        let files = [file("x", BacklogFormat::Prd, text)];
        let faults =
            plan(&files, &ExistingTasks::default(), &ImportOptions::default()).unwrap_err();
        assert!(faults[0].1.message.contains("`a` -> `b` -> `a`"), "{faults:?}");
        assert_eq!(&text[faults[0].1.at.clone()], "\"b\"");
    }

    #[test]
    fn nesting_is_a_dependency_only_if_told() {
        let text = "- [ ] whole\n  - [ ] part\n";
        let files = [file("x", BacklogFormat::Markdown, text)];
        for nested in [false, true] {
            let options = ImportOptions { nested, ..ImportOptions::default() };
            let plan = plan(&files, &ExistingTasks::default(), &options).unwrap();
            let want: &[&str] = if nested { &["part"] } else { &[] };
            assert_eq!(plan.tasks[0].dependencies(), want);
            assert_eq!(plan.tasks[1].get("story"), Some(&json!("whole")));
        }
    }
}
