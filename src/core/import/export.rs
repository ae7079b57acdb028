//! Backlogs that are written: the statuses in the text of one, where all other bytes stay as they are,
//! and the tasks of a graph as a new one.

use std::{collections::BTreeMap, fmt::Write as _, ops::Range};

use serde_json::{Value, json};

use super::{
    BacklogFormat, SourceTask, StatusMark, fields, markdown::words, read, table, yaml_backlog,
};
use crate::{
    diagnostic::Diagnostic,
    graph::{
        TaskGraph,
        edit::{EntryPlace, TextEdit, flow},
        load,
        task::{Priority, Spelling, Status},
        yaml::{Document, Node, NodeId},
    },
};

/// A backlog with other statuses.
#[derive(Clone, Debug)]
pub struct UpdatedBacklog {
    /// The text.
    pub text: String,
    /// The tasks whose status was written, by key.
    pub written: Vec<String>,
    /// The tasks whose status the source has no place for.
    pub unwritten: Vec<String>,
}

/// Writes the statuses of tasks, by key. A status that the source has already, in its own words,
/// stays.
///
/// # Errors
/// The text cannot be read, or would have another meaning than wanted.
pub fn with_statuses(
    format: BacklogFormat,
    name: &str,
    text: &str,
    statuses: &BTreeMap<String, Status>,
) -> Result<UpdatedBacklog, Vec<Diagnostic>> {
    let backlog = read(format, name, text)?;
    let spelling = spelling(text, &backlog.tasks);
    let mut updated =
        UpdatedBacklog { text: text.to_owned(), written: Vec::new(), unwritten: Vec::new() };
    let mut splices: Vec<(Range<usize>, String)> = Vec::new();
    let mut missing: Vec<(usize, &str, Status)> = Vec::new();
    for (number, task) in backlog.tasks.iter().enumerate() {
        let Some(wanted) = statuses.get(&task.key).copied() else {
            continue;
        };
        if same(format, task, task.status(), wanted) {
            continue;
        }
        let mut found = splices_of(format, text, task, wanted, &spelling);
        let is_yaml = matches!(format, BacklogFormat::Tickets | BacklogFormat::Graph);
        if found.is_empty() && is_yaml {
            missing.push((number, &task.key, wanted));
        } else if found.is_empty() {
            updated.unwritten.push(task.key.clone());
            continue;
        }
        splices.append(&mut found);
        updated.written.push(task.key.clone());
    }
    splices.sort_by_key(|(at, _)| at.start);
    for (at, with) in splices.into_iter().rev() {
        updated.text.replace_range(at, &with);
    }
    for (number, key, status) in missing {
        match insert(format, &updated.text, number, &spelling.write(status)) {
            Some(text) => updated.text = text,
            None => updated.unwritten.push(key.to_owned()),
        }
    }
    updated.written.retain(|key| !updated.unwritten.contains(key));
    check((format, name), &backlog.tasks, statuses, &updated)?;
    Ok(updated)
}

/// Whether the source can say no more than it says.
fn same(format: BacklogFormat, task: &SourceTask, is: Status, wanted: Status) -> bool {
    let has_flags =
        format == BacklogFormat::Prd || format == BacklogFormat::Csv && !task.status_at.is_empty();
    let only_done = has_flags && task.status_at.iter().all(|(mark, _)| *mark == StatusMark::Flag);
    is == wanted || only_done && (is == Status::Complete) == (wanted == Status::Complete)
}

/// The most frequent words of the source.
fn spelling(text: &str, tasks: &[SourceTask]) -> Spelling {
    let mut spelling = Spelling::default();
    for task in tasks {
        for (_, at) in task.status_at.iter().filter(|(mark, _)| *mark == StatusMark::Word) {
            let word = text[at.clone()].trim_matches(['"', '\'', ' ']);
            if let Some((status, _)) = fields::status(word) {
                spelling.note(status, word);
            }
        }
    }
    let words = || tasks.iter().flat_map(|task| &task.status_at).map(|(_, at)| &text[at.clone()]);
    let is_known = words().any(|word| fields::status(word).is_some_and(|it| it.0.is_over()));
    if let Some(word) = words().find(|word| fields::fold(word) == "todo" && !is_known) {
        // Its opposite in every tool.
        let is_lower = |word: &str| !word.contains(|c: char| c.is_ascii_uppercase());
        let is_upper = !word.contains(|c: char| c.is_ascii_lowercase());
        let done = if is_upper {
            "DONE"
        } else if is_lower(word) {
            "done"
        } else {
            "Done"
        };
        spelling.note(Status::Complete, done);
    }
    spelling
}

fn splices_of(
    format: BacklogFormat,
    text: &str,
    task: &SourceTask,
    wanted: Status,
    spelling: &Spelling,
) -> Vec<(Range<usize>, String)> {
    // An issue is closed on GitHub, and not in a copy of it.
    if format == BacklogFormat::Github {
        return Vec::new();
    }
    let own_word = || word(format, wanted).map_or_else(|| spelling.write(wanted), str::to_owned);
    if task.status_at.is_empty() {
        let field = if format == BacklogFormat::Prd {
            format!("\"passes\": {}", wanted == Status::Complete)
        } else if word(format, wanted).is_some() {
            format!("\"status\": \"{}\"", own_word())
        } else {
            return Vec::new();
        };
        return task.fields_end.map(|end| (end..end, format!(", {field}"))).into_iter().collect();
    }
    let written = |(mark, at): &(StatusMark, Range<usize>)| {
        let old = &text[at.clone()];
        let bare = old.trim_matches(['"', '\'', ' ']);
        let new = match mark {
            StatusMark::Word => own_word(),
            StatusMark::Flag => flag(bare, wanted == Status::Complete),
            StatusMark::Box => box_mark(bare, old, wanted)?,
        };
        let with = if bare.is_empty() { new } else { old.replacen(bare, &new, 1) };
        Some((at.clone(), with))
    };
    task.status_at.iter().filter_map(written).collect()
}

/// A status in the words of a tool; none if the tool has no words of its own.
fn word(format: BacklogFormat, status: Status) -> Option<&'static str> {
    let words = if format == BacklogFormat::Beads {
        ["open", "in_progress", "closed", "closed", "blocked"]
    } else if format == BacklogFormat::TaskMaster {
        ["pending", "in-progress", "done", "cancelled", "blocked"]
    } else {
        return None;
    };
    Some(match status {
        Status::Pending => words[0],
        Status::InProgress => words[1],
        Status::Complete => words[2],
        Status::Cancelled => words[3],
        Status::Blocked | Status::NeedsInput => words[4],
    })
}

/// True or false in the words of a source.
fn flag(old: &str, is_done: bool) -> String {
    const PAIRS: [(&str, &str); 7] = [
        ("true", "false"),
        ("True", "False"),
        ("TRUE", "FALSE"),
        ("yes", "no"),
        ("Yes", "No"),
        ("x", ""),
        ("1", "0"),
    ];
    let pair = PAIRS.iter().find(|(yes, no)| *yes == old || *no == old).unwrap_or(&PAIRS[0]);
    (if is_done { pair.0 } else { pair.1 }).to_owned()
}

/// The character in a checkbox; none if it stays. `old` has blanks around it.
fn box_mark(bare: &str, old: &str, status: Status) -> Option<String> {
    let mark = match status {
        Status::Complete => "x",
        Status::Cancelled => "-",
        Status::Pending => " ",
        // A box can only be open or not in most tools.
        Status::InProgress | Status::Blocked | Status::NeedsInput => {
            return (bare == "x" || bare == "X").then(|| " ".to_owned());
        }
    };
    (mark != old).then(|| mark.to_owned())
}

/// Adds a status to the task of this number, which has none, in YAML.
fn insert(format: BacklogFormat, text: &str, number: usize, word: &str) -> Option<String> {
    let changed = |text: &str, mapping: &dyn Fn(&Document) -> Option<NodeId>| {
        let document = Document::parse(text).ok()?;
        let mut edit = TextEdit::new(&document);
        let change = [("status", Some(Value::from(word)))];
        edit.set(mapping(&document)?, &change, EntryPlace::AfterStatus).ok()?;
        Some(edit.finish().ok()?.into_text())
    };
    if format == BacklogFormat::Graph {
        return changed(text, &|document| load::task_node(document, number).map(Node::id));
    }
    let mut tickets =
        yaml_backlog::parts(text).ok()?.into_iter().filter(|part| part.tree.is_some());
    let at = tickets.nth(number)?.at;
    let ticket = changed(&text[at.clone()], &|document| document.tree().root())?;
    Some(format!("{}{ticket}{}", &text[..at.start], &text[at.end..]))
}

/// Checks that the text reads as before, but for the statuses.
fn check(
    (format, name): (BacklogFormat, &str),
    before: &[SourceTask],
    statuses: &BTreeMap<String, Status>,
    updated: &UpdatedBacklog,
) -> Result<(), Vec<Diagnostic>> {
    let after = read(format, name, &updated.text)?;
    let is_same = after.tasks.len() == before.len()
        && before.iter().zip(&after.tasks).all(|(old, new)| {
            let wanted = statuses.get(&old.key).copied().unwrap_or_else(|| old.status());
            let is_written = updated.written.contains(&old.key);
            let is_wanted = same(format, new, new.status(), wanted)
                || new.status() == old.status() && !is_written
                || matches!(
                    format,
                    BacklogFormat::Beads | BacklogFormat::Markdown | BacklogFormat::TaskMaster
                );
            old.key == new.key && is_wanted && old.depends_on.len() == new.depends_on.len()
        });
    if is_same {
        return Ok(());
    }
    let fault = Diagnostic::error("the statuses cannot be written into this text", 0..0);
    Err(vec![fault.help("its layout is uncommon; nothing was changed")])
}

/// The text of a backlog with all tasks of a graph, whose own text is `text`.
pub fn fresh(format: BacklogFormat, graph: &TaskGraph, text: &str) -> String {
    let writer = BacklogWriter::new(format, graph);
    let tasks = 0..graph.tasks().len();
    let list = |indent: &str| {
        let line = |number| format!("{indent}{{{}}}", writer.json(number).join(", "));
        tasks.clone().map(line).collect::<Vec<_>>().join(",\n")
    };
    match format {
        BacklogFormat::Prd => {
            let story = |number| {
                let fields = writer.json(number).join(",\n      ");
                format!("    {{\n      {fields}\n    }}")
            };
            let stories = tasks.map(story).collect::<Vec<_>>().join(",\n");
            let project = graph.project.get("project").or_else(|| graph.project.get("name"));
            let head = project.map(|name| format!("  \"project\": {name},\n")).unwrap_or_default();
            format!("{{\n{head}  \"userStories\": [\n{stories}\n  ]\n}}\n")
        }
        BacklogFormat::Beads => tasks.fold(String::new(), |text, number| {
            text + "{" + &writer.json(number).join(", ") + "}\n"
        }),
        BacklogFormat::TaskMaster => {
            let tasks = list("      ");
            format!("{{\n  \"master\": {{\n    \"tasks\": [\n{tasks}\n    ]\n  }}\n}}\n")
        }
        BacklogFormat::Markdown => tasks.fold("# Tasks\n\n".to_owned(), |text, number| {
            let task = graph.task(number);
            let mark = match task.status {
                Status::Complete => 'x',
                Status::Cancelled => '-',
                Status::InProgress => '~',
                Status::Blocked => '!',
                Status::NeedsInput => '?',
                Status::Pending => ' ',
            };
            let (id, description) = (task.id.as_str(), task.description.as_deref());
            text + &words::item(mark, id, &task.title, description, &writer.ids(number))
        }),
        BacklogFormat::Tickets => tasks.map(|number| ticket(graph, number)).collect(),
        BacklogFormat::Csv => {
            let cell = |(_, _, value): &WrittenField| {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let list = value.as_array();
                let list = list.map(|items| items.iter().filter_map(text).collect::<Vec<_>>());
                let list = list.map(|items| items.join("; "));
                list.or_else(|| text(value)).unwrap_or_else(|| value.to_string())
            };
            let row = |number| writer.fields(number).iter().map(cell).collect();
            let header = TABLE.map(str::to_owned).to_vec();
            table::written(&std::iter::once(header).chain(tasks.map(row)).collect::<Vec<_>>())
        }
        BacklogFormat::Graph | BacklogFormat::Github => text.to_owned(),
    }
}

/// The text of one task as a ticket.
pub fn ticket(graph: &TaskGraph, number: usize) -> String {
    let mut text = "---\n".to_owned();
    for (name, _, value) in BacklogWriter::new(BacklogFormat::Tickets, graph).fields(number) {
        if name != "description" && !is_empty(&value) {
            let _ = writeln!(text, "{name}: {}", flow(&value));
        }
    }
    text.push_str("---\n");
    if let Some(description) = &graph.task(number).description {
        let _ = write!(text, "\n{description}\n\n");
    }
    text
}

/// The fields of a task that a format has a place for; none if it has one for each.
pub fn columns(format: BacklogFormat, graph: &TaskGraph) -> Option<Vec<&'static str>> {
    let has_all = format == BacklogFormat::Graph || graph.tasks().is_empty();
    (!has_all).then(|| {
        let fields = BacklogWriter::new(format, graph).fields(0);
        fields.into_iter().map(|(name, _, _)| name).collect()
    })
}

/// The columns of a table, and the fields of a ticket.
const TABLE: [&str; 9] = [
    "id",
    "title",
    "status",
    "priority",
    "depends_on",
    "story",
    "milestone",
    "tags",
    "description",
];

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
}

/// A field: the name in the graph, the name in the format, and the value there.
type WrittenField = (&'static str, &'static str, Value);

/// The tasks of a graph in the terms of another tool.
struct BacklogWriter<'a> {
    format: BacklogFormat,
    graph: &'a TaskGraph,
    /// A number for each task: its id if all ids are numbers.
    numbers: Vec<u64>,
}

impl BacklogWriter<'_> {
    fn new(format: BacklogFormat, graph: &TaskGraph) -> BacklogWriter<'_> {
        let own = graph.tasks().iter().map(|task| task.id.as_str().parse().ok());
        let own: Option<Vec<u64>> = own.collect();
        let numbers = own.unwrap_or_else(|| (1..=graph.tasks().len() as u64).collect());
        BacklogWriter { format, graph, numbers }
    }

    /// The ids of the tasks that a task waits for.
    fn ids(&self, number: usize) -> Vec<&str> {
        let waits = self.graph.dependencies(number);
        waits.map(|other| self.graph.task(other).id.as_str()).collect()
    }

    /// The fields of a task.
    fn fields(&self, number: usize) -> Vec<WrittenField> {
        let task = self.graph.task(number);
        let text = |text: &Option<String>| json!(text.as_deref().unwrap_or_default());
        let (id, title, ids) = (json!(task.id), json!(task.title), json!(self.ids(number)));
        let (tags, description) = (json!(task.tags), text(&task.description));
        let extra = |name: &str| task.extra.get(name).cloned().unwrap_or_default();
        let status = json!(word(self.format, task.status));
        let waits = self.graph.dependencies(number).map(|other| self.numbers[other]);
        match self.format {
            BacklogFormat::Prd => vec![
                ("id", "id", id),
                ("title", "title", title),
                ("description", "description", description),
                ("priority", "priority", json!(task.priority)),
                ("status", "passes", json!(task.status == Status::Complete)),
                ("tags", "labels", tags),
                ("depends_on", "dependsOn", ids),
                ("notes", "notes", extra("notes")),
            ],
            BacklogFormat::Beads => {
                let is_cancelled = task.status == Status::Cancelled;
                let kind = Some(extra("issue_type")).filter(|kind| !kind.is_null());
                let blocks = |other: &str| json!({"issue_id": task.id, "depends_on_id": other, "type": "blocks"});
                let blocks: Value = self.ids(number).into_iter().map(blocks).collect();
                vec![
                    ("id", "id", id),
                    ("title", "title", title),
                    ("description", "description", description),
                    ("status", "status", if is_cancelled { json!("tombstone") } else { status }),
                    ("priority", "priority", json!(task.priority.0.clamp(0, 4))),
                    ("issue_type", "issue_type", kind.unwrap_or_else(|| json!("task"))),
                    ("tags", "labels", tags),
                    ("depends_on", "dependencies", blocks),
                ]
            }
            BacklogFormat::TaskMaster => vec![
                ("", "id", json!(self.numbers[number])),
                ("title", "title", title),
                ("description", "description", description),
                ("status", "status", status),
                ("priority", "priority", json!(level(task.priority))),
                ("depends_on", "dependencies", waits.collect()),
            ],
            BacklogFormat::Markdown
            | BacklogFormat::Github
            | BacklogFormat::Tickets
            | BacklogFormat::Csv
            | BacklogFormat::Graph => {
                let status = json!(task.status.word());
                let (story, milestone) = (text(&task.story), text(&task.milestone));
                let priority = json!(task.priority.0);
                let values =
                    [id, title, status, priority, ids, story, milestone, tags, description];
                let is_in = |name: &str| {
                    let rest = ["priority", "story", "milestone", "tags"];
                    self.format != BacklogFormat::Markdown || !rest.contains(&name)
                };
                let all = TABLE.into_iter().zip(values).map(|(name, value)| (name, name, value));
                all.filter(|(name, _, _)| is_in(name)).collect()
            }
        }
    }

    /// The fields of a task that have a value, as entries of a JSON object.
    fn json(&self, number: usize) -> Vec<String> {
        let fields = self.fields(number).into_iter().filter(|(_, _, value)| !is_empty(value));
        fields.map(|(_, name, value)| format!("\"{name}\": {value}")).collect()
    }
}

fn level(priority: Priority) -> &'static str {
    match priority.0 {
        ..=0 => "critical",
        1 => "high",
        2 => "medium",
        3.. => "low",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(format: BacklogFormat, text: &str, statuses: &[(&str, Status)]) -> String {
        let statuses = statuses.iter().map(|(key, status)| ((*key).to_owned(), *status)).collect();
        with_statuses(format, "x", text, &statuses).unwrap().text
    }

    #[test]
    fn only_statuses_change() {
        let done = [("a", Status::Complete)];
        for (format, text, want) in [
            (
                BacklogFormat::Prd,
                "{\"userStories\": [\n  {\"id\": \"a\", \"passes\" : false, \"x\": 1.50}]}\r\n",
                "{\"userStories\": [\n  {\"id\": \"a\", \"passes\" : true, \"x\": 1.50}]}\r\n",
            ),
            (
                BacklogFormat::Prd,
                "[{\"id\": \"a\", \"title\": \"A\"}]",
                "[{\"id\": \"a\", \"title\": \"A\", \"passes\": true}]",
            ),
            (
                BacklogFormat::Beads,
                "{\"id\":\"a\",\"status\":\"open\",\"t\":\"\\u0026\"}\n",
                "{\"id\":\"a\",\"status\":\"closed\",\"t\":\"\\u0026\"}\n",
            ),
            (BacklogFormat::Markdown, "* [ ] `a`: b\n\ntext", "* [x] `a`: b\n\ntext"),
            (
                BacklogFormat::Tickets,
                "---\nid: a\nstatus: 'open' # c\n---\ntext\n",
                "---\nid: a\nstatus: 'complete' # c\n---\ntext\n",
            ),
            (BacklogFormat::Tickets, "---\nid: a\n---\n", "---\nid: a\nstatus: complete\n---\n"),
            (
                BacklogFormat::Csv,
                "id,status\r\na,\"To Do\"\r\nb,Done\r\n",
                "id,status\r\na,\"Done\"\r\nb,Done\r\n",
            ),
            (BacklogFormat::Csv, "id,done\na,no\n", "id,done\na,yes\n"),
            (
                BacklogFormat::Graph,
                "nodes:\n- {id: a} # c\n",
                "nodes:\n- {id: a, status: complete} # c\n",
            ),
        ] {
            assert_eq!(updated(format, text, &done), want);
            assert_eq!(updated(format, want, &done), want);
        }
    }
}
