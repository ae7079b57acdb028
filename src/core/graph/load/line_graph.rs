//! Reads a graph in the usual layout straight from its lines, many times faster than the full
//! readers.
//!
//! `None` is the answer to everything that is not certain: a layout that `lines` does not know, and
//! any error or warning. The full readers then read the text and report it. Otherwise the graph is
//! exactly theirs. Fields that are rare or whose values have a syntax of their own are read by
//! `TaskReader`, as for them.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Map, Value};

use super::{
    GraphShape, TaskFields,
    fields::{self, FIELDS, FieldKind, TaskField},
    lines::{LineValue, Lines, MappingLine, Scalar},
    place::FaultPlace,
    reader::{TaskReader, is_a_boolean_to_some},
};
use crate::graph::{
    TaskGraph,
    edit::Document,
    task::{Priority, Status, Task, TaskId},
    yaml::MAX_BYTES,
};

/// Reads a text, if it is a valid graph in the usual layout without anything to report. Returns also
/// the start of the first line of each task, and the end of the last task.
pub(super) fn read(text: &str) -> Option<(TaskGraph, Vec<usize>)> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut defaults = None;
    // Defaults below the tasks are found on the first way through the text.
    loop {
        match LineGraph::read(text, defaults.take())? {
            Ok(read) => return Some(read),
            Err(found) => defaults = Some(found),
        }
    }
}

/// A document without nodes, because the readers here give no locations.
fn no_places() -> (Document, GraphShape) {
    let document = Document::parse("").expect("an empty text is YAML");
    (document, GraphShape { tasks: Vec::new(), edges: Vec::new() })
}

/// What was read so far.
struct LineGraph<'r, 't> {
    reader: TaskReader<'r>,
    defaults: DefaultFields,
    tasks: Vec<Task>,
    /// The start of the first line of each task, and the end of the last task.
    starts: Vec<usize>,
    /// The dependent of each dependency, and the name of the task that it depends on.
    depends_on: Vec<(usize, Cow<'t, str>)>,
    /// The ends of each edge.
    edges: Vec<[Cow<'t, str>; 2]>,
    project: Map<String, Value>,
}

impl<'t> LineGraph<'_, 't> {
    /// Reads a text whose defaults are these, or not known yet. The error is the defaults.
    fn read(
        text: &'t str,
        known: Option<TaskFields>,
    ) -> Option<Result<(TaskGraph, Vec<usize>), TaskFields>> {
        let (document, shape) = no_places();
        let mut reader = TaskReader::new(&document, &shape);
        let is_known = known.is_some();
        let mut graph = LineGraph {
            defaults: DefaultFields::read(&mut reader, known.unwrap_or_default())?,
            reader,
            tasks: Vec::new(),
            starts: Vec::new(),
            depends_on: Vec::new(),
            edges: Vec::new(),
            project: Map::new(),
        };
        let mut lines = Lines::new(text)?;
        let mut seen: Vec<&str> = Vec::new();
        while let MappingLine::Entry(key, rest) = lines.entry(0)? {
            let name = if key == "nodes" { "tasks" } else { key };
            if seen.contains(&name) {
                return None;
            }
            seen.push(name);
            if name == "tasks" {
                lines.value_below(rest)?;
                graph.read_tasks(&mut lines)?;
                continue;
            }
            let value = lines.value(0, rest, 0)?;
            match name {
                "edges" => graph.read_edges(value)?,
                "defaults" if is_known => {}
                "defaults" => {
                    let fields = default_fields(value)?;
                    if !graph.tasks.is_empty() {
                        return Some(Err(fields));
                    }
                    graph.defaults = DefaultFields::read(&mut graph.reader, fields)?;
                }
                _ => {
                    graph.project.insert(name.to_owned(), value.value());
                }
            }
        }
        graph.finish().map(Ok)
    }

    fn finish(mut self) -> Option<(TaskGraph, Vec<usize>)> {
        if self.tasks.is_empty() || !self.reader.faults.is_empty() {
            return None;
        }
        let mut numbers: HashMap<TaskId, usize> = HashMap::with_capacity(self.tasks.len());
        for (number, task) in self.tasks.iter().enumerate() {
            if numbers.insert(task.id.clone(), number).is_some() {
                return None;
            }
        }
        let number = |name: &str| numbers.get(name).copied();
        let mut edges = Vec::with_capacity(self.depends_on.len() + self.edges.len());
        for (to, from) in &self.depends_on {
            edges.push((number(from)?, *to));
        }
        for [from, to] in &self.edges {
            edges.push((number(from)?, number(to)?));
        }
        if edges.iter().any(|(from, to)| from == to) {
            return None;
        }
        let mut graph = TaskGraph::with_numbers(self.tasks, numbers, edges).ok()?;
        graph.spelling = std::mem::take(&mut self.reader.spelling);
        graph.project = self.project;
        Some((graph, self.starts))
    }

    fn read_edges(&mut self, value: LineValue<'t>) -> Option<()> {
        let LineValue::List(edges) = value else { return None };
        for edge in edges {
            let LineValue::Mapping(entries) = edge else { return None };
            let (mut from, mut to) = (None, None);
            for (key, value) in entries {
                match key {
                    "from" => from = Some(value.into_text()?),
                    "to" => to = Some(value.into_text()?),
                    _ => {}
                }
            }
            self.edges.push([from?, to?]);
        }
        Some(())
    }

    /// Reads the items of the list at the current line.
    fn read_tasks(&mut self, lines: &mut Lines<'t>) -> Option<()> {
        let indent = lines.current()?.indent;
        while lines.is_item(indent) {
            self.starts.push(lines.start());
            let line = lines.enter_item()?;
            if line.body.starts_with('{') {
                let LineValue::Mapping(entries) = lines.value(indent, line.body, 1)? else {
                    return None;
                };
                let mut task = LineTask::new(self);
                for (key, value) in entries {
                    task.set(key, value)?;
                }
                task.finish()?;
                continue;
            }
            let mut task = LineTask::new(self);
            while let MappingLine::Entry(key, rest) = lines.entry(line.indent)? {
                let value = lines.value(line.indent, rest, 1)?;
                task.set(key, value)?;
            }
            task.finish()?;
        }
        self.starts.push(lines.start());
        lines.ends(indent).then_some(())
    }
}

/// What `defaults` gives to each task.
struct DefaultFields {
    /// A task that sets nothing itself.
    task: Task,
    has_estimate: bool,
    /// The fields of the table, by their places in it.
    known: Vec<(usize, Value)>,
    unknown: Map<String, Value>,
}

impl DefaultFields {
    fn read(reader: &mut TaskReader<'_>, fields: TaskFields) -> Option<DefaultFields> {
        // As the full reader does it, which looks at all fields here.
        reader.task(None, &fields);
        let TaskFields { mut known, unknown } = fields;
        known.retain(|(field, _)| FIELDS[*field].has_default);
        let has_estimate = known.iter().any(|(field, value)| {
            matches!(FIELDS[*field].kind, FieldKind::Estimate(_)) && !value.is_null()
        });
        let fields = TaskFields { known, unknown };
        let (task, _) = reader.task(None, &fields);
        let TaskFields { known, unknown } = fields;
        reader.faults.is_empty().then_some(DefaultFields { task, has_estimate, known, unknown })
    }

    fn has(&self, field: usize) -> bool {
        self.known.iter().any(|(other, _)| *other == field)
    }
}

/// The fields of `defaults`. A number where text is wanted would need its location, to be taken as it
/// is written.
fn default_fields(value: LineValue<'_>) -> Option<TaskFields> {
    let LineValue::Mapping(entries) = value else { return None };
    let mut fields = TaskFields::default();
    for (key, value) in entries {
        let Some(field) = fields::position(key) else {
            fields.unknown.insert(key.to_owned(), value.value());
            continue;
        };
        let value = value.value();
        let is_other = |value: &Value| !(value.is_string() || value.is_null());
        let has_other =
            value.as_array().map_or(is_other(&value), |items| items.iter().any(is_other));
        if has_other && takes_text(&FIELDS[field]) {
            return None;
        }
        fields.set(field, value);
    }
    Some(fields)
}

/// Whether a number in this field is read as it is written.
fn takes_text(field: &TaskField) -> bool {
    matches!(
        field.kind,
        FieldKind::Text(_)
            | FieldKind::Word(_)
            | FieldKind::Texts(_)
            | FieldKind::Commands(_)
            | FieldKind::Patterns(_)
    )
}

/// A task while its fields are read.
struct LineTask<'g, 'r, 't> {
    graph: &'g mut LineGraph<'r, 't>,
    task: Task,
    id: Option<TaskId>,
    /// The fields of the table that the task sets, as bits.
    seen: u64,
    has_title: bool,
    has_estimate: bool,
}

impl<'g, 'r, 't> LineTask<'g, 'r, 't> {
    fn new(graph: &'g mut LineGraph<'r, 't>) -> Self {
        let (task, has_estimate) = (graph.defaults.task.clone(), graph.defaults.has_estimate);
        LineTask { graph, task, id: None, seen: 0, has_title: false, has_estimate }
    }

    fn set(&mut self, key: &'t str, value: LineValue<'t>) -> Option<()> {
        let Some(at) = fields::position(key) else {
            self.graph.reader.unknown_field(None, key);
            let before = self.task.extra.insert(key.to_owned(), value.value());
            return before.is_none().then_some(());
        };
        if self.seen & (1 << at) != 0 {
            return None;
        }
        self.seen |= 1 << at;
        let field = &FIELDS[at];
        let is_written = field.in_templates.is_written();
        if value.is_null() {
            if is_written {
                self.task.extra.insert(field.name.to_owned(), Value::Null);
            }
            // The full readers know whether it then has a default.
            return (!self.graph.defaults.has(at)).then_some(());
        }
        if is_written {
            self.task.extra.insert(field.name.to_owned(), value.value());
        }
        self.known(field, value)
    }

    /// Reads a field that is not null.
    fn known(&mut self, field: &'static TaskField, value: LineValue<'t>) -> Option<()> {
        let task = &mut self.task;
        match field.kind {
            FieldKind::Id => self.id = Some(id(value)?),
            FieldKind::Dependencies => {
                let number = self.graph.tasks.len();
                let names = value.into_texts()?.into_iter().map(|name| (number, name));
                self.graph.depends_on.extend(names);
            }
            FieldKind::Text(set) | FieldKind::Word(set) => {
                self.has_title |= field.name == "title";
                set(task, value.into_text()?.into_owned());
            }
            FieldKind::Texts(set) | FieldKind::Commands(set) => {
                set(task, value.into_texts()?.into_iter().map(Cow::into_owned).collect());
            }
            FieldKind::Patterns(_) => {
                let texts = value.into_texts()?.into_iter().map(|text| text.into_owned().into());
                self.graph.reader.field(task, None, field, &Value::Array(texts.collect()));
            }
            FieldKind::Priority(set) => set(task, priority(&value)?),
            FieldKind::Status(set) => {
                let LineValue::Scalar(Scalar::Plain(_) | Scalar::Quoted(_)) = value else {
                    return None;
                };
                let text = value.into_text()?;
                let status = Status::parse(&text)?;
                self.graph.reader.spelling.note(status, &text);
                set(task, status);
            }
            FieldKind::Estimate(set) => {
                let place = FaultPlace::Default(field.name);
                set(task, self.graph.reader.estimate(&value.value(), place)?);
                self.has_estimate = true;
            }
            FieldKind::Size(_) if self.has_estimate => {}
            FieldKind::Commit(_)
            | FieldKind::Length(_)
            | FieldKind::Count(_)
            | FieldKind::Money(_)
            | FieldKind::Flag(_)
            | FieldKind::Agents(_)
            | FieldKind::Size(_) => {
                self.graph.reader.field(task, None, field, &value.value());
            }
            FieldKind::Paths | FieldKind::Time | FieldKind::Anything => {}
        }
        self.graph.reader.faults.is_empty().then_some(())
    }

    /// Adds the task to the graph.
    fn finish(self) -> Option<()> {
        let LineTask { graph, mut task, id, seen, has_title, .. } = self;
        task.id = id?;
        if !has_title {
            task.title = task.id.to_string();
        }
        for (at, value) in &graph.defaults.known {
            let field = &FIELDS[*at];
            if seen & (1 << at) == 0 && field.in_templates.is_written() {
                task.extra.insert(field.name.to_owned(), value.clone());
            }
        }
        for (name, value) in &graph.defaults.unknown {
            task.extra.entry(name.clone()).or_insert_with(|| value.clone());
        }
        graph.tasks.push(task);
        graph.reader.faults.is_empty().then_some(())
    }
}

fn id(value: LineValue<'_>) -> Option<TaskId> {
    let LineValue::Scalar(scalar) = value else { return None };
    match scalar {
        Scalar::Null => None,
        Scalar::Other(text, value) => {
            // As a number is written again, or it is not an id.
            (value.is_number() && format!("{value}") == text).then(|| TaskId::new(text).ok())?
        }
        Scalar::Plain(text) => (!is_a_boolean_to_some(text)).then(|| TaskId::new(text).ok())?,
        Scalar::Quoted(text) => TaskId::new(&text).ok(),
    }
}

fn priority(value: &LineValue<'_>) -> Option<Priority> {
    let LineValue::Scalar(scalar) = value else { return None };
    match scalar {
        Scalar::Null => None,
        Scalar::Other(_, value) => value.as_i64().map(Priority),
        Scalar::Plain(text) => Priority::parse(text),
        Scalar::Quoted(text) => Priority::parse(text),
    }
}

#[cfg(test)]
mod tests;
