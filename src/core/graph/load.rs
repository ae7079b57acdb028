//! Reads the text of `task-graph.yaml` into a valid graph, or reports all its errors at once.
//!
//! The only user of `serde_yaml` (in its maintained form, `yaml_serde`). There are three steps. The
//! span tree, which has already refused hostile input, is checked for its shape. The typed reader
//! reads the values; a field may have any value, so that a wrong type is one error among others.
//! Then the values become tasks, and each error gets its location from the span tree. Nothing here
//! reads the disk.

pub mod fields;
mod line_graph;
mod lines;
mod links;
mod place;
#[expect(clippy::wildcard_enum_match_arm, reason = "it matches on JSON values only")]
mod reader;
mod runs;

use std::{fmt, ops::Range};

use serde::{Deserialize, de};
use serde_json::{Map, Value};

use self::fields::FIELDS;
use crate::{
    diagnostic::{Diagnostic, Severity, nearest},
    graph::{
        TaskGraph,
        edit::Document,
        yaml::{Fault, NodeId, NodeKind},
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

/// Reads the text of a graph, and makes it a document whose nodes are found when they are needed.
///
/// # Errors
/// All errors and warnings, in the order of the file.
pub fn read(text: &str) -> Result<(Document, Loaded), Vec<Diagnostic>> {
    if let Some((graph, starts)) = line_graph::read(text) {
        return Ok((Document::later(text, starts), Loaded { graph, warnings: Vec::new() }));
    }
    let document = Document::parse(text).map_err(|fault| vec![diagnostic(fault)])?;
    let loaded = load(&document)?;
    Ok((document, loaded))
}

/// Reads a graph whose nodes are known.
///
/// # Errors
/// All errors and warnings, in the order of the file.
pub fn load(document: &Document) -> Result<Loaded, Vec<Diagnostic>> {
    let shape = GraphShape::check(document)?;
    let file = match runs::read(document, &shape) {
        Some(file) => file,
        None => typed(document.text())?,
    };
    let (graph, mut faults) = reader::read(document, &shape, file);
    faults.sort_by_key(|fault| (fault.at.start, fault.severity));
    match graph {
        Some(graph) if faults.iter().all(|fault| fault.severity == Severity::Warning) => {
            Ok(Loaded { graph, warnings: faults })
        }
        _ => Err(faults),
    }
}

/// The nodes of all tasks in the current document, since edits renumber the nodes.
pub fn nodes(document: &Document) -> impl Iterator<Item = NodeId> {
    let list = task_list(document).map(|(_, list)| list);
    list.into_iter().flat_map(|list| document.tree().items(list))
}

/// Returns the node of task `number` in the current document. It counts from the first: for many
/// tasks, use [`nodes`].
pub fn node_of(document: &Document, number: usize) -> Option<NodeId> {
    nodes(document).nth(number)
}

/// Reads any other small YAML file into a type.
///
/// # Errors
/// The first error.
pub fn settings<T: de::DeserializeOwned>(document: &Document) -> Result<T, Vec<Diagnostic>> {
    typed(document.text())
}

/// Converts an error of the span tree to a diagnostic.
pub fn diagnostic(fault: Fault) -> Diagnostic {
    let found = Diagnostic::error(fault.message, fault.at);
    match fault.help {
        Some(help) => found.help(help),
        None => found,
    }
}

fn typed<T: de::DeserializeOwned>(text: &str) -> Result<T, Vec<Diagnostic>> {
    // libyaml takes a byte order mark before a mapping for a separate document.
    let bare = text.trim_start_matches('\u{feff}');
    serde_yaml::from_str(bare).map_err(|error| {
        let skipped = text.len() - bare.len();
        let at = error.location().map_or(0, |place| (place.index() + skipped).min(text.len()));
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let message = error.to_string();
        // The diagnostic shows the location, so the message must not repeat it.
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        vec![Diagnostic::error(message, at..at)]
    })
}

fn task_list(document: &Document) -> Option<(NodeId, NodeId)> {
    let (tree, text) = (document.tree(), document.text());
    let root = tree.root()?;
    tree.entry(text, root, "tasks").or_else(|| tree.entry(text, root, "nodes"))
}

/// The nodes of tasks and edges, after their nesting was checked.
struct GraphShape {
    tasks: Vec<NodeId>,
    edges: Vec<NodeId>,
}

impl GraphShape {
    fn check(document: &Document) -> Result<GraphShape, Vec<Diagnostic>> {
        let (tree, text) = (document.tree(), document.text());
        let nothing = |what: &str, at: Range<usize>| {
            vec![
                Diagnostic::error(format!("{what} has no `tasks`"), at)
                    .help("write `tasks:` and under it a list of tasks, each with an `id`"),
            ]
        };
        let Some(root) = tree.root() else {
            return Err(nothing("the file is empty: it", 0..0));
        };
        if !matches!(tree.kind(root), NodeKind::Mapping { .. }) {
            return Err(nothing("the file is not a mapping and", tree.range(root)));
        }
        let Some((key, list)) = task_list(document) else {
            let key = tree.entries(root).find_map(|(key, _)| {
                let name = tree.scalar(text, key)?;
                nearest(&name, ["tasks", "nodes"]).map(|near| (tree.range(key), near))
            });
            let (at, near) = key.unzip();
            let faults = nothing("the file", at.unwrap_or(0..0));
            return Err(faults.into_iter().map(|fault| fault.did_you_mean(near)).collect());
        };
        let mut faults = Vec::new();
        if let (Some((first, _)), Some((second, _))) =
            (tree.entry(text, root, "tasks"), tree.entry(text, root, "nodes"))
        {
            faults.push(
                Diagnostic::error("both `tasks` and `nodes` are given", tree.range(second))
                    .related(tree.range(first), "the other list")
                    .help("put all tasks into one of the two"),
            );
        }
        let name = tree.scalar(text, key).unwrap_or_default();
        let tasks = mappings(document, list, &format!("`{name}`"), "a task", &mut faults);
        for &task in &tasks {
            merge_keys(document, task, &mut faults);
        }
        for mapping in tasks.iter().copied().chain([root]) {
            complex_keys(document, mapping, &mut faults);
        }
        let edges = match tree.entry(text, root, "edges") {
            Some((_, list)) => mappings(document, list, "`edges`", "an edge", &mut faults),
            None => Vec::new(),
        };
        if faults.is_empty() { Ok(GraphShape { tasks, edges }) } else { Err(faults) }
    }
}

/// Returns the items of a list that must all be mappings.
fn mappings(
    document: &Document,
    list: NodeId,
    list_name: &str,
    item_name: &str,
    faults: &mut Vec<Diagnostic>,
) -> Vec<NodeId> {
    let tree = document.tree();
    if !matches!(tree.kind(list), NodeKind::Sequence { .. }) {
        faults.push(
            Diagnostic::error(format!("{list_name} is not a list"), first_line(document, list))
                .label(format!("{}, not a list", what(document, list)))
                .help("write each item on a line of its own that starts with `- `"),
        );
        return Vec::new();
    }
    let items: Vec<NodeId> = tree.items(list).collect();
    for &item in &items {
        if !matches!(tree.kind(item), NodeKind::Mapping { .. }) && faults.len() < MAX_FAULTS {
            faults.push(
                Diagnostic::error(
                    format!("{item_name} must be a mapping"),
                    first_line(document, item),
                )
                .label(what(document, item)),
            );
        }
    }
    items
}

fn merge_keys(document: &Document, task: NodeId, faults: &mut Vec<Diagnostic>) {
    if let Some((key, _)) = document.tree().entry(document.text(), task, "<<") {
        faults.push(
            Diagnostic::error("merge keys (`<<`) are not supported", document.tree().range(key))
                .help("write the fields out, or put what all tasks share under `defaults`"),
        );
    }
}

/// Refuses keys after a question mark, next to which `ralph` could write no status.
fn complex_keys(document: &Document, mapping: NodeId, faults: &mut Vec<Diagnostic>) {
    let (tree, text) = (document.tree(), document.text());
    for (key, _) in tree.entries(mapping) {
        let at = tree.range(key);
        if faults.len() < MAX_FAULTS
            && text[..at.start].trim_end_matches([' ', '\t']).ends_with('?')
        {
            faults.push(
                Diagnostic::error("keys after `?` are not supported", at)
                    .help("write `key: value`, without the `?`"),
            );
        }
    }
}

fn what(document: &Document, node: NodeId) -> &'static str {
    match document.tree().kind(node) {
        NodeKind::Sequence { .. } => "a list",
        NodeKind::Mapping { .. } => "a mapping",
        NodeKind::Alias => "an alias",
        _ if document.tree().range(node).is_empty() => "nothing",
        NodeKind::Plain
        | NodeKind::SingleQuoted
        | NodeKind::DoubleQuoted
        | NodeKind::Literal
        | NodeKind::Folded => "a single value",
    }
}

/// Returns the first line of a node, so that an error in a long list does not underline all of it.
fn first_line(document: &Document, node: NodeId) -> Range<usize> {
    let at = document.tree().range(node);
    let line = document.text()[at.clone()].lines().next().map_or(0, str::len);
    at.start..at.start + line
}

/// The file as the typed reader reads it.
#[derive(Default)]
#[cfg_attr(test, derive(Debug, PartialEq))]
struct GraphText {
    tasks: Vec<TaskFields>,
    edges: Vec<Edge>,
    defaults: TaskFields,
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Top {
    Tasks,
    Nodes,
    Edges,
    Defaults,
    #[serde(untagged)]
    Other(String),
}

impl<'de> Deserialize<'de> for GraphText {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<GraphText, D::Error> {
        struct GraphTextVisitor;
        impl<'de> de::Visitor<'de> for GraphTextVisitor {
            type Value = GraphText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task graph")
            }

            fn visit_map<M: de::MapAccess<'de>>(self, mut map: M) -> Result<GraphText, M::Error> {
                let mut file = GraphText::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Top::Tasks | Top::Nodes => file.tasks = map.next_value()?,
                        Top::Edges => file.edges = map.next_value()?,
                        Top::Defaults => file.defaults = map.next_value()?,
                        Top::Other(name) => {
                            file.rest.insert(name, map.next_value()?);
                        }
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(GraphTextVisitor)
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(Debug, PartialEq))]
struct Edge {
    #[serde(default)]
    from: Value,
    #[serde(default)]
    to: Value,
}

/// One task, or `defaults`, with any value in any field.
#[derive(Default)]
#[cfg_attr(test, derive(Debug, PartialEq))]
struct TaskFields {
    /// The fields of the table that are set, by their places in it.
    known: Vec<(usize, Value)>,
    /// All others.
    unknown: Map<String, Value>,
}

/// The name of a field, looked up in the table.
enum FieldKey {
    Known(usize),
    Unknown(String),
}

impl<'de> Deserialize<'de> for FieldKey {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<FieldKey, D::Error> {
        struct FieldKeyVisitor;
        impl de::Visitor<'_> for FieldKeyVisitor {
            type Value = FieldKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("field identifier")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<FieldKey, E> {
                let known = fields::position(name).map(FieldKey::Known);
                Ok(known.unwrap_or_else(|| FieldKey::Unknown(name.to_owned())))
            }
        }
        deserializer.deserialize_identifier(FieldKeyVisitor)
    }
}

impl<'de> Deserialize<'de> for TaskFields {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<TaskFields, D::Error> {
        struct FieldsVisitor;
        impl<'de> de::Visitor<'de> for FieldsVisitor {
            type Value = TaskFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task")
            }

            fn visit_map<M: de::MapAccess<'de>>(self, mut map: M) -> Result<TaskFields, M::Error> {
                let mut fields = TaskFields::default();
                while let Some(key) = map.next_key()? {
                    let value = map.next_value()?;
                    match key {
                        FieldKey::Known(field) => fields.set(field, value),
                        FieldKey::Unknown(name) => {
                            fields.unknown.insert(name, value);
                        }
                    }
                }
                Ok(fields)
            }

            fn visit_unit<E: de::Error>(self) -> Result<TaskFields, E> {
                Ok(TaskFields::default())
            }
        }
        deserializer.deserialize_any(FieldsVisitor)
    }
}

impl TaskFields {
    /// The value of a field; null if it is not set.
    fn get(&self, name: &str) -> &Value {
        let found = self.known.iter().find(|(field, _)| FIELDS[*field].name == name);
        found.map_or(&Value::Null, |(_, value)| value)
    }

    fn set(&mut self, field: usize, value: Value) {
        match self.known.binary_search_by_key(&field, |(other, _)| *other) {
            Ok(at) => self.known[at].1 = value,
            Err(at) => self.known.insert(at, (field, value)),
        }
    }

    /// Takes from `defaults` what the task itself does not set. A null in the task counts as set
    /// only in a field that templates see as it is written.
    fn fill(&mut self, defaults: &TaskFields) {
        for (field, default) in &defaults.known {
            if !FIELDS[*field].has_default {
                continue;
            }
            match self.known.binary_search_by_key(field, |(other, _)| *other) {
                Err(at) => self.known.insert(at, (*field, default.clone())),
                Ok(at) => {
                    let own = &mut self.known[at].1;
                    if own.is_null() && !FIELDS[*field].in_templates.is_written() {
                        own.clone_from(default);
                    }
                }
            }
        }
        for (name, value) in &defaults.unknown {
            self.unknown.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// The fields that stay in [`Task::extra`](super::task::Task::extra).
    fn into_extra(self) -> Map<String, Value> {
        let mut extra = self.unknown;
        for (field, value) in self.known {
            if FIELDS[field].in_templates.is_written() {
                extra.insert(FIELDS[field].name.to_owned(), value);
            }
        }
        extra
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
