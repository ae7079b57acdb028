//! What an import would add to a graph: ids, dependencies and fields of each task.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    LostField, SourceBacklog, SourceLink, SourceTask, field,
    fields::{clipped, identify, map_ids},
    status_of,
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
    /// The titles that the sources had for these at the last import, by `source`.
    pub titles: HashMap<String, String>,
}

impl ExistingTasks {
    /// Gives the tasks of a source file the keys that they had at its last reading, if these are
    /// numbers.
    pub fn identify(&self, name: &str, backlog: &mut SourceBacklog) {
        let key = |source: &'_ str| Some(source.strip_prefix(name)?.strip_prefix('#')?.to_owned());
        let known = self.titles.iter();
        let known = known.filter_map(|(source, title)| Some((key(source)?, title.clone())));
        identify(backlog, &known.collect());
    }
}

/// What the command line sets for all tasks.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The story of tasks that have none.
    pub story: Option<String>,
    /// The milestone of tasks that have none.
    pub milestone: Option<String>,
    /// Labels to add.
    pub tags: Vec<String>,
    /// Whether a task that contains others waits for them.
    pub nested: bool,
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
        field(&self.fields, name)
    }

    /// The ids that it waits for.
    pub fn dependencies(&self) -> Vec<&str> {
        let list = self.get("depends_on").and_then(Value::as_array);
        list.map(|ids| ids.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }

    /// The status.
    pub fn status(&self) -> Status {
        status_of(&self.fields)
    }
}

/// A field that the source has in another form than the graph, which keeps its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedField {
    /// The task.
    pub id: String,
    /// The field.
    pub field: &'static str,
    /// Its value in the source; none if it has none.
    pub value: Option<Value>,
}

/// Returns the fields of tasks that the graph has and the source has changed. A status is one only
/// if it is over in the source and not in the graph: what was done here, the source may not know.
pub fn changed_fields(plan: &ImportPlan, graph: &TaskGraph) -> Vec<ChangedField> {
    let mut found = Vec::new();
    for task in plan.tasks.iter().filter(|task| !task.is_new) {
        let number = TaskId::new(&task.id).ok().and_then(|id| graph.number(&id));
        let Some(number) = number else { continue };
        let known = graph.task(number);
        let waits: BTreeSet<&str> =
            graph.dependencies(number).map(|other| graph.task(other).id.as_str()).collect();
        let text = |name| task.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_over = task.status().is_over() && task.status() != known.status;
        for (field, is_changed) in [
            ("title", text("title") != known.title),
            ("status", is_over),
            ("depends_on", waits != task.dependencies().into_iter().collect()),
            (
                "description",
                text("description").trim_end()
                    != known.description.as_deref().unwrap_or_default().trim_end(),
            ),
        ] {
            if is_changed {
                let value = task.get(field).cloned();
                found.push(ChangedField { id: task.id.clone(), field, value });
            }
        }
    }
    found
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
    let mut plan = ImportPlan::default();
    for (file, source) in files.iter().enumerate() {
        plan.lost.extend(source.backlog.lost.iter().map(|lost| (file, lost.clone())));
        for (name, value) in &source.backlog.top {
            if field(&plan.top, name).is_none() {
                plan.top.push((name.clone(), value.clone()));
            }
        }
    }
    let names = SourceNames::new(files, existing);
    let links = names.links(existing, options.nested, &mut plan.lost);
    names.check_cycles(&links)?;
    for (number, ((file, task), links)) in names.tasks.iter().zip(links).enumerate() {
        let mut fields = task.fields.clone();
        if !links.ids.is_empty() {
            fields.push(("depends_on".to_owned(), json!(links.ids)));
        }
        let parent = links.parent.map(|parent| names.ids[parent].0.as_str());
        complete(&mut fields, options, parent);
        let source = &names.sources[number];
        fields.push(("source".to_owned(), json!(source)));
        fields.sort_by_key(|(name, _)| rank(name));
        let (id, is_renamed) = names.ids[number].clone();
        plan.tasks.push(ImportedTask {
            id,
            key: task.key.clone(),
            source: source.clone(),
            file: *file,
            is_new: !existing.by_source.contains_key(source),
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
fn complete(fields: &mut Vec<(String, Value)>, options: &ImportOptions, parent: Option<&str>) {
    let defaults = [
        ("x-parent", parent),
        ("story", options.story.as_deref()),
        ("story", parent),
        ("milestone", options.milestone.as_deref()),
    ];
    for (name, value) in defaults {
        if let Some(value) = value
            && field(fields, name).is_none()
        {
            fields.push((name.to_owned(), json!(value)));
        }
    }
    if !options.tags.is_empty() {
        let mut tags = field(fields, "tags").cloned().unwrap_or_else(|| json!([]));
        if let Value::Array(tags) = &mut tags {
            for tag in options.tags.iter().map(|tag| json!(tag)) {
                if !tags.contains(&tag) {
                    tags.push(tag);
                }
            }
        }
        fields.retain(|(name, _)| name != "tags");
        fields.push(("tags".to_owned(), tags));
    }
}

/// What a task waits for, and what contains it.
#[derive(Clone, Default)]
struct TaskLinks {
    /// The numbers of tasks of the sources.
    waits: Vec<usize>,
    /// All ids.
    ids: Vec<String>,
    parent: Option<usize>,
}

/// All tasks of the sources with their names.
struct SourceNames<'a> {
    /// The tasks, with the numbers of their files.
    tasks: Vec<(usize, &'a SourceTask)>,
    by_key: HashMap<(usize, &'a str), Option<usize>>,
    /// By key in any file.
    anywhere: HashMap<&'a str, Option<usize>>,
    /// By title, key or another name, in lower case.
    by_name: HashMap<(usize, String), Option<usize>>,
    /// By key in any file, in lower case.
    by_any_case: HashMap<String, Option<usize>>,
    sources: Vec<String>,
    /// The ids in the graph, with whether they differ from the keys.
    ids: Vec<(String, bool)>,
}

/// The number of each name; none if several have it.
fn numbers<K: Eq + Hash>(names: impl Iterator<Item = K>) -> HashMap<K, Option<usize>> {
    let mut found = HashMap::new();
    for (number, name) in names.enumerate() {
        found.entry(name).and_modify(|known| *known = None).or_insert(Some(number));
    }
    found
}

impl<'a> SourceNames<'a> {
    fn new(files: &'a [SourceFile], existing: &ExistingTasks) -> SourceNames<'a> {
        let tasks: Vec<(usize, &SourceTask)> = { files.iter().enumerate() }
            .flat_map(|(file, source)| source.backlog.tasks.iter().map(move |task| (file, task)))
            .collect();
        let title = |task: &SourceTask| {
            task.get("title").and_then(Value::as_str).unwrap_or_default().to_lowercase()
        };
        let source = |(file, task): &(usize, &SourceTask)| {
            task.source.clone().unwrap_or_else(|| format!("{}#{}", files[*file].name, task.key))
        };
        let sources: Vec<String> = tasks.iter().map(source).collect();
        let known = |number: usize| existing.by_source.get(&sources[number]);
        let keys = (0..tasks.len()).filter(|number| known(*number).is_none());
        let mut mapped =
            map_ids(keys.map(|number| tasks[number].1.key.as_str()), &existing.ids).into_iter();
        let id = |(number, (_, task)): (usize, &(usize, &SourceTask))| match known(number) {
            Some(id) => (id.clone(), *id != task.key),
            None => mapped.next().expect("each new task has an id"),
        };
        let ids = tasks.iter().enumerate().map(id).collect();
        let mut by_name = HashMap::new();
        for (number, (file, task)) in tasks.iter().enumerate() {
            let others = task.aliases.iter().chain([&task.key]).map(|name| name.to_lowercase());
            for name in others.chain([title(task)]) {
                let known = by_name.entry((*file, name)).or_insert(Some(number));
                *known = known.filter(|known| *known == number);
            }
        }
        SourceNames {
            by_key: numbers(tasks.iter().map(|(file, task)| (*file, task.key.as_str()))),
            anywhere: numbers(tasks.iter().map(|(_, task)| task.key.as_str())),
            by_name,
            by_any_case: numbers(tasks.iter().map(|(_, task)| task.key.to_lowercase())),
            tasks,
            sources,
            ids,
        }
    }

    fn find(&self, file: usize, key: &str) -> Option<usize> {
        let own = self.by_key.get(&(file, key)).copied().flatten();
        let anywhere = || self.anywhere.get(key).copied().flatten();
        let lower = key.to_lowercase();
        let found = own.or_else(anywhere).or_else(|| self.by_any_case.get(&lower).copied()?);
        found.or_else(|| self.by_name.get(&(file, lower)).copied().flatten())
    }

    /// Resolves the links of all tasks. With `nested`, tasks wait for those that they contain.
    fn links(
        &self,
        existing: &ExistingTasks,
        nested: bool,
        lost: &mut Vec<(usize, LostField)>,
    ) -> Vec<TaskLinks> {
        let mut all = vec![TaskLinks::default(); self.tasks.len()];
        let mut is_lost =
            |file: usize, task: &SourceTask, field: &str, link: &SourceLink, place| {
                let why = format!("no task `{}` in {place}", clipped(&link.key));
                lost.push((file, LostField::new(field, why, link.at.clone()).of(&task.key)));
            };
        for (links, (file, task)) in all.iter_mut().zip(&self.tasks) {
            for link in &task.depends_on {
                let found = self.find(*file, &link.key);
                let id = match found {
                    Some(other) => &self.ids[other].0,
                    None if existing.ids.contains(&link.key) => &link.key,
                    None => {
                        is_lost(*file, task, "dependency", link, "the source or the graph");
                        continue;
                    }
                };
                links.waits.extend(found);
                if !links.ids.contains(id) {
                    links.ids.push(id.clone());
                }
            }
        }
        for (number, (file, task)) in self.tasks.iter().enumerate() {
            let Some(link) = &task.parent else { continue };
            let parent = self.find(*file, &link.key).filter(|parent| *parent != number);
            let Some(parent) = parent else {
                is_lost(*file, task, "parent", link, "the source");
                continue;
            };
            all[number].parent = Some(parent);
            // A part that waits for the whole says more than the nesting.
            if nested && !all[number].waits.contains(&parent) {
                let (id, whole) = (&self.ids[number].0, &mut all[parent]);
                if !whole.ids.contains(id) {
                    whole.ids.push(id.clone());
                }
                whole.waits.push(number);
            }
        }
        all
    }

    /// Checks that no task waits for itself.
    fn check_cycles(&self, links: &[TaskLinks]) -> Result<(), Vec<(usize, Diagnostic)>> {
        /// The number of tasks of a cycle that are shown.
        const SHOWN: usize = 8;
        let task = |(id, _): &(String, bool)| TaskId::new(id).map(Task::new);
        let Ok(tasks) = self.ids.iter().map(task).collect::<Result<Vec<Task>, _>>() else {
            return Ok(());
        };
        let edges = { links.iter().enumerate() }
            .flat_map(|(number, links)| links.waits.iter().map(move |other| (*other, number)));
        let Err(Cyclic { cycles, .. }) = TaskGraph::new(tasks, edges.collect()) else {
            return Ok(());
        };
        let fault = |cycle: &Vec<usize>| {
            let name = |number: &usize| format!("`{}`", clipped(&self.tasks[*number].1.key));
            let mut shown: Vec<String> = cycle.iter().take(SHOWN).map(name).collect();
            if cycle.len() > SHOWN {
                shown.push(format!("… {} more …", cycle.len() - SHOWN));
            }
            shown.push(name(&cycle[0]));
            let (file, first) = self.tasks[cycle[0]];
            let last = &self.tasks[cycle[cycle.len() - 1]].1.key;
            let link = first.depends_on.iter().find(|link| link.key == *last);
            let at = link.map_or_else(|| first.at.clone(), |link| link.at.clone());
            let message = format!("the tasks form a cycle: {}", shown.join(" -> "));
            let help = "remove one of these dependencies in the source; nothing was changed";
            (file, Diagnostic::error(message, at).help(help))
        };
        Err(cycles.iter().map(fault).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BacklogFormat, read};
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
