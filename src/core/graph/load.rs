//! Reads the text of `task-graph.yaml` into a valid graph, or reports all its errors at once.
//!
//! One walk over the span tree, which has already refused hostile input: first the lists of tasks
//! and edges, then each task, then the dependencies between them. Each error is at the node that
//! it is about. Nothing here reads the disk.

pub mod fields;
#[expect(clippy::wildcard_enum_match_arm, reason = "it matches on JSON values only")]
mod reader;

use std::{collections::HashMap, ops::Range};

use self::reader::{TaskReader, found};
use crate::{
    diagnostic::{Diagnostic, Severity, nearest},
    graph::{
        Cyclic, TaskGraph,
        task::TaskId,
        yaml::{Document, Fault, Node},
    },
};

/// A valid graph and the warnings about its file.
#[derive(Debug)]
pub struct Loaded {
    /// The graph.
    pub graph: TaskGraph,
    /// The warnings.
    pub warnings: Vec<Diagnostic>,
}

/// After this many errors and warnings, warnings are dropped; a generated file can have one per
/// line.
pub const MAX_FAULTS: usize = 100;

/// The keys at the top of the file that are not for templates.
const STRUCTURE: [&str; 4] = ["tasks", "nodes", "edges", "defaults"];

/// Parses and reads the text of a graph.
///
/// # Errors
/// All errors and warnings, in the order of the file.
pub fn read(text: &str) -> Result<(Document, Loaded), Vec<Diagnostic>> {
    let document = Document::parse(text).map_err(|fault| vec![diagnostic(fault)])?;
    let loaded = load(&document)?;
    Ok((document, loaded))
}

/// Reads a graph that was parsed.
///
/// # Errors
/// All errors and warnings, in the order of the file.
pub fn load(document: &Document) -> Result<Loaded, Vec<Diagnostic>> {
    let lists = GraphLists::of(document)?;
    let mut reader = TaskReader::default();
    let graph = reader.graph(&lists);
    let mut faults = reader.faults;
    faults.sort_by_key(|fault| (fault.at.start, fault.severity));
    match graph {
        Some(mut graph) if faults.iter().all(|fault| fault.severity == Severity::Warning) => {
            graph.spelling = reader.spelling;
            Ok(Loaded { graph, warnings: faults })
        }
        _ => Err(faults),
    }
}

/// The nodes of all tasks.
pub fn task_nodes(document: &Document) -> impl Iterator<Item = Node<'_>> {
    let list = document.root().and_then(task_list).map(|(_, list)| list);
    list.into_iter().flat_map(Node::items)
}

/// Returns the node of task `number`. It counts from the first: for many tasks, use [`task_nodes`].
pub fn task_node(document: &Document, number: usize) -> Option<Node<'_>> {
    task_nodes(document).nth(number)
}

/// Converts an error of the span tree to a diagnostic.
pub fn diagnostic(fault: Fault) -> Diagnostic {
    let found = Diagnostic::error(fault.message, fault.at);
    match fault.help {
        Some(help) => found.help(help),
        None => found,
    }
}

fn task_list(root: Node<'_>) -> Option<(Node<'_>, Node<'_>)> {
    root.entry("tasks").or_else(|| root.entry("nodes"))
}

/// The file, and the mappings in its two lists.
struct GraphLists<'a> {
    root: Node<'a>,
    tasks: Vec<Node<'a>>,
    edges: Vec<Node<'a>>,
}

impl<'a> GraphLists<'a> {
    /// Checks the nesting.
    fn of(document: &'a Document) -> Result<GraphLists<'a>, Vec<Diagnostic>> {
        let nothing = |what: &str, at| {
            vec![
                Diagnostic::error(format!("{what} has no `tasks`"), at)
                    .help("write `tasks:` and under it a list of tasks, each with an `id`"),
            ]
        };
        let Some(root) = document.root() else {
            return Err(nothing("the file is empty: it", 0..0));
        };
        if !root.is_mapping() {
            return Err(nothing("the file is not a mapping and", root.range()));
        }
        let Some((key, list)) = task_list(root) else {
            let key = root.entries().find_map(|(key, _)| {
                nearest(&key.text()?, ["tasks", "nodes"]).map(|near| (key.range(), near))
            });
            let (at, near) = key.unzip();
            let faults = nothing("the file", at.unwrap_or(0..0));
            return Err(faults.into_iter().map(|fault| fault.did_you_mean(near)).collect());
        };
        let mut faults = Vec::new();
        if let (Some((first, _)), Some((second, _))) = (root.entry("tasks"), root.entry("nodes")) {
            faults.push(
                Diagnostic::error("both `tasks` and `nodes` are given", second.range())
                    .related(first.range(), "the other list")
                    .help("put all tasks into one of the two"),
            );
        }
        let name = format!("`{}`", key.text().unwrap_or_default());
        let tasks = mappings(list, &name, "a task", &mut faults);
        for &task in tasks.iter().filter(|task| !task.is_alias()) {
            task_keys(document.text(), task, true, &mut faults);
        }
        task_keys(document.text(), root, false, &mut faults);
        let edges = root.get("edges");
        let edges = edges.map(|list| mappings(list, "`edges`", "an edge", &mut faults));
        let edges = edges.unwrap_or_default();
        if faults.is_empty() && !document.tree().is_simple() {
            let inner = tasks.iter().chain(&edges).copied();
            let outer = root.entries().map(|entry| entry.1).filter(|node| !node.is_list());
            inner.chain(outer).for_each(|node| unreadable(node, &mut faults));
            let lists = root.entries().filter(|(key, value)| {
                value.is_list() && key.text().is_none_or(|key| !STRUCTURE.contains(&key.as_ref()))
            });
            lists.for_each(|(_, node)| unreadable(node, &mut faults));
        }
        if faults.is_empty() { Ok(GraphLists { root, tasks, edges }) } else { Err(faults) }
    }
}

/// Returns the items of a list that must all be mappings.
fn mappings<'a>(
    list: Node<'a>,
    list_name: &str,
    item_name: &str,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Node<'a>> {
    let what = |node: Node<'_>| match found(node) {
        _ if node.is_alias() => "an alias",
        "nothing" if !node.range().is_empty() => "a single value",
        "a list" => "a list",
        "a mapping" => "a mapping",
        "nothing" => "nothing",
        _ => "a single value",
    };
    if !list.is_list() || list.is_alias() {
        faults.push(
            Diagnostic::error(format!("{list_name} is not a list"), list.first_line())
                .label(format!("{}, not a list", what(list)))
                .help("write each item on a line of its own that starts with `- `"),
        );
        return Vec::new();
    }
    let items: Vec<Node<'a>> = list.items().collect();
    for item in &items {
        if (!item.is_mapping() || item.is_alias()) && faults.len() < MAX_FAULTS {
            faults.push(
                Diagnostic::error(format!("{item_name} must be a mapping"), item.first_line())
                    .label(what(*item)),
            );
        }
    }
    items
}

/// Refuses keys that other readers read in another way, or next to which no status can be written.
fn task_keys(text: &str, mapping: Node<'_>, is_task: bool, faults: &mut Vec<Diagnostic>) {
    for (key, _) in mapping.entries() {
        let at = key.range();
        if is_task && key.text().is_some_and(|key| key == "<<") {
            faults.push(
                Diagnostic::error("merge keys (`<<`) are not supported", at.clone())
                    .help("write the fields out, or put what all tasks share under `defaults`"),
            );
        }
        let is_explicit = text[..at.start].trim_end_matches([' ', '\t']).ends_with('?');
        if is_explicit && faults.len() < MAX_FAULTS {
            faults.push(
                Diagnostic::error("keys after `?` are not supported", at)
                    .help("write `key: value`, without the `?`"),
            );
        }
    }
}

/// Refuses tags that say nothing to a reader of JSON, and keys that are not scalars, in a value.
fn unreadable(node: Node<'_>, faults: &mut Vec<Diagnostic>) {
    if node.is_alias() {
        return;
    }
    if let Some(tag) = node.tag().filter(|tag| tag.starts_with('!')) {
        faults.push(
            Diagnostic::error(format!("the tag `{tag}` is not supported"), node.first_line())
                .help("remove it, or quote the value if it is text"),
        );
    } else if !node.fits_tag() {
        let message = format!("`{}` does not fit its tag", node.source().escape_debug());
        faults.push(Diagnostic::error(message, node.first_line()).help("remove the tag"));
    }
    for (key, value) in node.entries() {
        if key.text().is_none() {
            let fault = Diagnostic::error("a key must be text", key.first_line());
            faults.push(fault.label(found(key)));
        }
        unreadable(value, faults);
    }
    node.items().for_each(|item| unreadable(item, faults));
}

/// The bytes of the id of a task, or its first line.
fn id_range(task: Node<'_>) -> Range<usize> {
    task.get("id").map_or_else(|| task.first_line(), Node::range)
}

/// A dependency, and where it is written.
struct DependencyLink<'a> {
    edge: (usize, usize),
    at: Node<'a>,
}

impl TaskReader {
    /// Reads the graph. It is built even after errors, to report cycles too.
    fn graph(&mut self, lists: &GraphLists<'_>) -> Option<TaskGraph> {
        let defaults = self.defaults(lists.root);
        let mut tasks = Vec::with_capacity(lists.tasks.len());
        let mut numbers: HashMap<TaskId, usize> = HashMap::with_capacity(lists.tasks.len());
        let mut waits = Vec::with_capacity(2 * lists.tasks.len());
        for (number, &node) in lists.tasks.iter().enumerate() {
            let (task, depends_on) = self.task(number, node, defaults);
            if let Some(first) = numbers.insert(task.id.clone(), number) {
                let message = format!("two tasks have the id `{}`", task.id);
                self.push(
                    Diagnostic::error(message, id_range(node))
                        .related(id_range(lists.tasks[first]), "first used here")
                        .help("ids name tasks in the journal and in `depends_on`: rename one"),
                );
            }
            tasks.push(task);
            waits.extend(depends_on.into_iter().map(|(name, at)| (number, name, at)));
        }
        let mut links = Vec::with_capacity(waits.len());
        for (number, name, at) in waits {
            if let Some(&from) = numbers.get(name.as_ref()) {
                links.push(DependencyLink { edge: (from, number), at });
            } else {
                let fault = self.unknown_task(&numbers, &name, at);
                self.push(fault.related(id_range(lists.tasks[number]), "in this task"));
            }
        }
        for &edge in &lists.edges {
            let ends = ["from", "to"].map(|end| {
                let Some(at) = edge.get(end).filter(|end| !end.is_null()) else {
                    let at = edge.get(end).map_or(edge.first_line(), Node::first_line);
                    self.push(Diagnostic::error(format!("the edge has no `{end}`"), at));
                    return None;
                };
                let name = self.text(at, end)?;
                let number = numbers.get(name.as_ref()).copied();
                if number.is_none() {
                    let fault = self.unknown_task(&numbers, &name, at);
                    self.push(fault);
                }
                Some((number?, at))
            });
            if let [Some((from, at)), Some((to, _))] = ends {
                links.push(DependencyLink { edge: (from, to), at });
            }
        }
        links.retain(|link| {
            let itself = link.edge.0 == link.edge.1;
            if itself {
                let fault = Diagnostic::error("a task depends on itself", link.at.range());
                self.faults.push(fault.help("remove it: a task cannot wait for its own end"));
            }
            !itself
        });
        let edges = links.iter().map(|link| link.edge).collect();
        match TaskGraph::with_numbers(tasks, numbers, edges) {
            Ok(mut graph) => {
                let top = lists.root.entries().filter_map(|(key, value)| {
                    let name = key.text()?.into_owned();
                    (!STRUCTURE.contains(&name.as_str())).then(|| (name, value.json()))
                });
                graph.project = top.collect();
                Some(graph)
            }
            Err(cyclic) => {
                self.cycles(&cyclic, &links, &lists.tasks);
                None
            }
        }
    }

    fn unknown_task(
        &self,
        numbers: &HashMap<TaskId, usize>,
        name: &str,
        at: Node<'_>,
    ) -> Diagnostic {
        // A suggestion compares all ids, so only the first errors get one.
        const SUGGESTIONS: usize = 20;
        let near = || {
            // In the order of the file, so that the same file always gets the same suggestion.
            let mut ids: Vec<(&TaskId, &usize)> = numbers.iter().collect();
            ids.sort_unstable_by_key(|(_, number)| **number);
            nearest(name, ids.into_iter().map(|(id, _)| id.as_str()))
        };
        let near = if self.faults.len() < SUGGESTIONS { near() } else { None };
        Diagnostic::error(format!("unknown dependency `{}`", name.escape_debug()), at.range())
            .label("no task has this id")
            .did_you_mean(near)
    }

    fn cycles(&mut self, cyclic: &Cyclic, links: &[DependencyLink<'_>], tasks: &[Node<'_>]) {
        /// The most tasks of a cycle that are shown.
        const SHOWN: usize = 8;
        for cycle in &cyclic.cycles {
            let (first, last) = (cycle[0], cycle[cycle.len() - 1]);
            let name = |number: &usize| format!("`{}`", cyclic.tasks[*number].id);
            let mut names: Vec<String> = cycle.iter().take(SHOWN).map(name).collect();
            if cycle.len() > SHOWN {
                names.push(format!("… {} more …", cycle.len() - SHOWN));
            }
            names.push(name(&first));
            let link = links.iter().find(|link| link.edge == (last, first));
            let at = link.map_or_else(|| id_range(tasks[first]), |link| link.at.range());
            self.push(
                Diagnostic::error(format!("the tasks form a cycle: {}", names.join(" -> ")), at)
                    .label(format!("this makes {} wait for itself", name(&first)))
                    .help("remove one of these dependencies"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: [&str; 2] = [
        "version: 1\ntasks:\n  - id: a1\n    title: \"A\" # c\n    priority: P1\n  - id: b1\n    \
         depends_on:\n      - a1\n    description: |\n      two\n\n      lines\n  - {id: c1, \
         status: done, depends_on: [a1, b1]}\n",
        "nodes: [{id: a1}, {id: b1, timeout: 2h}, {id: c1, max_attempts: 2}]\nedges:\n  - {from: \
         a1, to: b1}\n  - from: b1\n    to: c1\ndefaults: {priority: low, tags: [x]}\n",
    ];

    fn read(text: &str) -> Option<Vec<String>> {
        let document = Document::parse(text).ok()?;
        match load(&document) {
            Ok(loaded) => Some(loaded.graph.tasks().iter().map(|t| t.id.to_string()).collect()),
            Err(faults) => {
                assert!(faults.iter().any(|fault| fault.severity == Severity::Error), "{text:?}");
                assert!(faults.len() <= MAX_FAULTS + 1, "{text:?}");
                for fault in faults {
                    assert!(text.get(fault.at.clone()).is_some(), "{:?} in {text:?}", fault.at);
                }
                None
            }
        }
    }

    #[test]
    fn a_truncated_text_is_refused_or_has_the_first_tasks() {
        for whole in WHOLE {
            assert_eq!(read(whole).unwrap(), ["a1", "b1", "c1"]);
            for cut in 0..whole.len() {
                let Some(ids) = read(&whole[..cut]) else { continue };
                assert!(!ids.is_empty(), "empty at {cut} of {whole:?}");
                // The last id may be truncated.
                let names = ids.iter().zip(["a1", "b1", "c1"]);
                let (last, before) = (ids.len() - 1, names.clone().take(ids.len() - 1));
                assert!(before.clone().all(|(id, name)| id == name), "{ids:?} at {cut}");
                assert!(["a1", "b1", "c1"][last].starts_with(&ids[last]), "{ids:?} at {cut}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn no_mutation_panics(
            which in 0..WHOLE.len(),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..12usize,
                prop::sample::select(vec![
                    "", "", "\n", "  ", "- ", "a1", "id: ", "id: a1", "null", "~", "[", "{", "}", "]",
                    ":", ": ", "&x ", "*x", "<<: ", "\"", "'", "|", "depends_on: ", "tasks:", "1e9",
                    "!!int ", "\u{0}", "\u{feff}", "\u{e9}", "---\n", "priority: ", "status: ", "# ",
                ])), 1..6),
        ) {
            let mut text: Vec<char> = WHOLE[which].chars().collect();
            for (place, length, with) in cuts {
                let from = place.index(text.len() + 1);
                let to = (from + length).min(text.len());
                text.splice(from..to, with.chars());
            }
            let _ = read(&text.into_iter().collect::<String>());
        }
    }
}
