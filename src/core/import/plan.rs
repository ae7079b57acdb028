//! The plan of an import: ids, dependencies and fields of each task to add to a graph.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Loss, SourceBacklog, SourceTask, field, fields::clipped};
use crate::graph::{
    Cyclic, TaskGraph,
    task::{Spelling, Status, Task, TaskId, id_of_title},
    task_edit::NewTask,
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
    pub ids: HashSet<TaskId>,
    /// The ids of those that were imported, by `source`.
    pub by_source: HashMap<String, TaskId>,
}

/// A task of a source with its place in the graph.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedTask {
    /// The id in the graph.
    pub id: TaskId,
    /// The value of `source:`.
    pub source: String,
    /// Whether the graph lacks it.
    pub is_new: bool,
    /// The status.
    pub status: Status,
    /// All fields but `id`; their names as JSON.
    #[serde(serialize_with = "names_of")]
    pub fields: Vec<(String, Value)>,
}

fn names_of<S: Serializer>(fields: &[(String, Value)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(fields.iter().map(|(name, _)| name))
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

    /// The task as a file with this spelling of statuses has it.
    pub fn written(&self, spelling: &Spelling) -> NewTask {
        let mut fields = self.fields.clone();
        fields.retain(|(name, value)| name != "depends_on" && !value.is_null());
        if let Some((_, status)) = fields.iter_mut().find(|(name, _)| name == "status") {
            *status = spelling.write(self.status).into();
        }
        let waits = self.dependencies().into_iter();
        let depends_on = waits.filter_map(|id| TaskId::new(id).ok()).collect();
        NewTask { id: self.id.clone(), fields, depends_on }
    }
}

/// A field that the source has in another form than the graph, which keeps its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedField {
    /// The task.
    pub id: TaskId,
    /// The field.
    pub field: &'static str,
    /// Its value in the source; none if it has none.
    pub value: Option<Value>,
}

/// Returns the fields of tasks that the graph has and the source has changed. A status is one only
/// if it is over in the source and not in the graph: the source may not know work done here.
pub fn changed_fields(plan: &ImportPlan, graph: &TaskGraph) -> Vec<ChangedField> {
    let mut found = Vec::new();
    for task in plan.tasks.iter().filter(|task| !task.is_new) {
        let Some(number) = graph.number(&task.id) else { continue };
        let known = graph.task(number);
        let waits: BTreeSet<&str> =
            graph.dependencies(number).map(|other| graph.task(other).id.as_str()).collect();
        let text = |name| task.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_over = task.status.is_over() && task.status != known.status;
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

/// The status in the fields of a task.
fn status(fields: &[(String, Value)]) -> Status {
    let word = field(fields, "status").and_then(Value::as_str);
    word.and_then(Status::parse).unwrap_or(Status::Pending)
}

/// The plan of an import.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ImportPlan {
    /// All tasks of the sources, also those that the graph has.
    pub tasks: Vec<ImportedTask>,
    /// The losses.
    pub lost: Vec<Loss>,
}

/// Makes the plan of an import.
///
/// # Errors
/// A cycle among tasks that are open.
pub fn plan(
    files: &[SourceFile],
    existing: &ExistingTasks,
    tags: &[String],
) -> Result<ImportPlan, String> {
    let mut plan = ImportPlan::default();
    for source in files {
        plan.lost.extend(source.backlog.lost.iter().map(|lost| lost.clone().in_file(&source.name)));
    }
    let names = SourceNames::new(files, existing);
    let mut links = names.links(existing, &mut plan.lost);
    names.untie(&mut links, &mut plan.lost)?;
    for (number, ((_, task), links)) in names.tasks.iter().zip(links).enumerate() {
        let mut fields = task.fields.clone();
        let waits = links.waits.iter().map(|edge| &names.ids[edge.on]);
        let mut ids: Vec<&TaskId> = waits.chain(&links.elsewhere).collect();
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(*id));
        if !ids.is_empty() {
            fields.push(("depends_on".to_owned(), json!(ids)));
        }
        complete(&mut fields, tags, links.parent.map(|parent| names.ids[parent].as_str()));
        let source = names.sources[number].clone();
        fields.push(("source".to_owned(), json!(source)));
        plan.tasks.push(ImportedTask {
            id: names.ids[number].clone(),
            is_new: !existing.by_source.contains_key(&source),
            source,
            status: status(&fields),
            fields,
        });
    }
    Ok(plan)
}

/// Adds the labels of the command line and the parent of the nesting.
fn complete(fields: &mut Vec<(String, Value)>, labels: &[String], parent: Option<&str>) {
    for name in ["x-parent", "story"] {
        if let Some(parent) = parent
            && field(fields, name).is_none()
        {
            fields.push((name.to_owned(), json!(parent)));
        }
    }
    if !labels.is_empty() {
        let mut tags = field(fields, "tags").and_then(Value::as_array).cloned().unwrap_or_default();
        for tag in labels.iter().map(|tag| json!(tag)) {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        fields.retain(|(name, _)| name != "tags");
        fields.push(("tags".to_owned(), Value::Array(tags)));
    }
}

/// A task that another one waits for, by its number.
#[derive(Clone, Debug)]
struct SourceEdge {
    on: usize,
    /// The task that is meant if the first one makes a cycle.
    otherwise: Option<usize>,
}

/// The dependencies of a task, and its parent.
#[derive(Clone, Default)]
struct TaskLinks {
    waits: Vec<SourceEdge>,
    /// The ids of tasks that only the graph has.
    elsewhere: Vec<TaskId>,
    parent: Option<usize>,
}

/// All tasks of the sources with their names.
struct SourceNames<'a> {
    files: &'a [SourceFile],
    /// The tasks, with the numbers of their files.
    tasks: Vec<(usize, &'a SourceTask)>,
    by_key: HashMap<(usize, &'a str), Option<usize>>,
    /// By key in any file, in lower case.
    by_any_case: HashMap<String, Option<usize>>,
    sources: Vec<String>,
    /// The ids in the graph.
    ids: Vec<TaskId>,
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
        let source = |(file, task): &(usize, &SourceTask)| {
            task.source.clone().unwrap_or_else(|| format!("{}#{}", files[*file].name, task.key))
        };
        let sources: Vec<String> = tasks.iter().map(source).collect();
        // Names that differ only in case are one file on some systems.
        let lower = |id: &str| id.to_ascii_lowercase();
        let mut used: HashSet<String> = existing.ids.iter().map(|id| lower(id.as_str())).collect();
        let mut id = |(number, (_, task)): (usize, &(usize, &SourceTask))| {
            if let Some(id) = existing.by_source.get(&sources[number]) {
                return id.clone();
            }
            let own = TaskId::new(&task.key).ok().filter(|id| !used.contains(&lower(id.as_str())));
            let id = own.unwrap_or_else(|| id_of_title(&task.key, |id| used.contains(id)));
            used.insert(lower(id.as_str()));
            id
        };
        let ids = tasks.iter().enumerate().map(&mut id).collect();
        SourceNames {
            files,
            by_key: numbers(tasks.iter().map(|(file, task)| (*file, task.key.as_str()))),
            by_any_case: numbers(tasks.iter().map(|(_, task)| task.key.to_lowercase())),
            tasks,
            sources,
            ids,
        }
    }

    fn find(&self, file: usize, key: &str) -> Option<usize> {
        let own = self.by_key.get(&(file, key)).copied().flatten();
        own.or_else(|| self.by_any_case.get(&key.to_lowercase()).copied()?)
    }

    /// Resolves the links of all tasks.
    fn links(&self, existing: &ExistingTasks, lost: &mut Vec<Loss>) -> Vec<TaskLinks> {
        let mut all = vec![TaskLinks::default(); self.tasks.len()];
        let mut report = |number: usize, field: &str, key: &str| {
            let (file, task) = self.tasks[number];
            let why = format!("no task `{}` in the source or the graph", clipped(key));
            lost.push(Loss::new(&task.key, field, why).in_file(&self.files[file].name));
        };
        for (number, (file, task)) in self.tasks.iter().enumerate() {
            for link in &task.depends_on {
                let otherwise = link.otherwise.as_ref().and_then(|key| self.find(*file, key));
                match self.find(*file, &link.key) {
                    Some(on) => all[number].waits.push(SourceEdge { on, otherwise }),
                    None => match existing.ids.get(link.key.as_str()) {
                        Some(id) => all[number].elsewhere.push(id.clone()),
                        None => report(number, "dependency", &link.key),
                    },
                }
            }
            let Some(key) = &task.parent else { continue };
            let Some(parent) = self.find(*file, key).filter(|parent| *parent != number) else {
                report(number, "parent", key);
                continue;
            };
            all[number].parent = Some(parent);
        }
        all
    }

    /// Removes cycles: a name that means another task means that one, and a dependency that is done
    /// already is lost.
    fn untie(&self, links: &mut [TaskLinks], lost: &mut Vec<Loss>) -> Result<(), String> {
        let mut tasks: Vec<Task> = self.ids.iter().cloned().map(Task::new).collect();
        loop {
            let edges = { links.iter().enumerate() }
                .flat_map(|(number, links)| links.waits.iter().map(move |edge| (edge.on, number)));
            let Err(cyclic) = TaskGraph::new(tasks, edges.collect()) else { return Ok(()) };
            let Cyclic { cycles, tasks: same } = cyclic;
            tasks = same;
            for cycle in &cycles {
                lost.extend(self.untie_cycle(cycle, links)?);
            }
        }
    }

    /// Removes one dependency of a cycle, where each task is a dependency of the next. Returns the
    /// loss, if it is one.
    fn untie_cycle(
        &self,
        cycle: &[usize],
        links: &mut [TaskLinks],
    ) -> Result<Option<Loss>, String> {
        /// The number of tasks of a cycle that are shown.
        const SHOWN: usize = 8;
        let next = cycle.iter().cycle().skip(1);
        let mut pairs: Vec<(usize, usize)> = cycle.iter().copied().zip(next.copied()).collect();
        // A task seldom means a later one.
        pairs.sort_by_key(|(on, dependent)| on < dependent);
        let place = |links: &[TaskLinks], (on, dependent): (usize, usize)| {
            links[dependent].waits.iter().position(|edge| edge.on == on)
        };
        for pair in &pairs {
            let Some(at) = place(links, *pair) else { continue };
            if let Some(other) = links[pair.1].waits[at].otherwise.filter(|other| *other != pair.1)
            {
                links[pair.1].waits[at] = SourceEdge { on: other, otherwise: None };
                return Ok(None);
            }
        }
        let status = |number: usize| status(&self.tasks[number].1.fields);
        let name = |number: usize| format!("`{}`", clipped(&self.tasks[number].1.key));
        let is_done = |(on, dependent): &&(usize, usize)| {
            status(*on) == Status::Complete || status(*dependent).is_over()
        };
        if let Some((on, dependent)) = pairs.iter().find(is_done)
            && let Some(at) = place(links, (*on, *dependent))
        {
            links[*dependent].waits.remove(at);
            let (file, task) = self.tasks[*dependent];
            let why = format!("{} waits for this task too; the dependency is done", name(*on));
            let loss = Loss::new(&task.key, "dependency", why);
            return Ok(Some(loss.in_file(&self.files[file].name)));
        }
        let mut shown: Vec<String> = cycle.iter().take(SHOWN).map(|number| name(*number)).collect();
        shown.push(if cycle.len() > SHOWN { "…".to_owned() } else { name(cycle[0]) });
        Err(format!("the tasks form a cycle: {}", shown.join(" -> ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn planned(name: &str, text: &str, known: &ExistingTasks) -> ImportPlan {
        let backlog = read(name, text).unwrap();
        let files = [SourceFile { name: name.to_owned(), backlog }];
        plan(&files, known, &["new".to_owned()]).unwrap()
    }

    const STORIES: &str = r#"{"project": "P", "userStories": [
        {"id": "a/1", "title": "A", "passes": true},
        {"id": "b", "title": "B", "dependsOn": ["a/1", "gone"]}]}"#;

    #[test]
    fn ids_are_mapped_and_dependencies_follow() {
        let plan = planned("prd.json", STORIES, &ExistingTasks::default());
        let [a, b] = plan.tasks.as_slice() else { panic!("{plan:?}") };
        assert_eq!((a.id.as_str(), a.status), ("a-1", Status::Complete));
        assert_eq!((b.dependencies(), b.source.as_str()), (vec!["a-1"], "prd.json#b"));
        assert_eq!(b.get("tags"), Some(&json!(["new"])));
        assert!(plan.lost.iter().any(|lost| lost.why.contains("`gone`")), "{:?}", plan.lost);
        assert!(plan.lost.iter().any(|lost| lost.field == "`project`"), "{:?}", plan.lost);
    }

    #[test]
    fn what_the_graph_has_keeps_its_id() {
        let id = |text| TaskId::new(text).unwrap();
        let known = ExistingTasks {
            ids: [id("mine"), id("b")].into(),
            by_source: [("prd.json#a/1".to_owned(), id("mine"))].into(),
        };
        let plan = planned("prd.json", STORIES, &known);
        assert_eq!((plan.tasks[0].id.as_str(), plan.tasks[0].is_new), ("mine", false));
        assert!(plan.tasks[1].is_new && plan.tasks[1].id.as_str() == "b-2", "{plan:?}");
        assert_eq!(plan.tasks[1].dependencies(), ["mine"]);
    }

    #[test]
    fn a_cycle_is_untied_where_it_is_done_and_refused_where_it_is_open() {
        let text = |status: &str| {
            format!(
                "tasks:
- {{id: a, status: {status}, depends_on: [b]}}
- {{id: b, status:                  {status}, depends_on: [a]}}
- {{id: c, depends_on: [a]}}
"
            )
        };
        let plan = planned("g.yaml", &text("done"), &ExistingTasks::default());
        assert_eq!(plan.tasks[2].dependencies(), ["a"]);
        assert_eq!(plan.lost.len(), 1, "{:?}", plan.lost);
        let backlog = read("g.yaml", &text("open")).unwrap();
        let files = [SourceFile { name: "g.yaml".to_owned(), backlog }];
        let found = super::plan(&files, &ExistingTasks::default(), &[]).unwrap_err();
        assert!(found.contains("`a` -> `b` -> `a`") || found.contains("`b` -> `a` -> `b`"));
    }

    #[test]
    fn a_bare_number_is_a_sibling_unless_that_makes_a_cycle() {
        let text = r#"{"tasks": [{"id": 1, "title": "One", "dependencies": []}, {"id": 2, "title": "Two",
            "dependencies": [1], "subtasks": [{"id": 1, "title": "A", "dependencies": [2]},
            {"id": 2, "title": "B", "dependencies": [1]}, {"id": 3, "title": "C", "dependencies": [2]}]}]}"#;
        let plan = planned("tasks.json", text, &ExistingTasks::default());
        let waits: Vec<Vec<&str>> = plan.tasks.iter().map(ImportedTask::dependencies).collect();
        assert_eq!(waits, [vec![], vec!["1"], vec!["2"], vec!["2.1"], vec!["2.2"]]);
    }
}
