//! Writes the tasks of a graph as a backlog of another tool.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{BacklogFormat, markdown::written, render::flow, table};
use crate::graph::{
    TaskGraph,
    task::{Priority, Status, Task},
};

/// The text of a backlog with all tasks of a graph, whose own text is `text`.
pub fn fresh(format: BacklogFormat, graph: &TaskGraph, text: &str) -> String {
    match format {
        BacklogFormat::Prd => prd(graph),
        BacklogFormat::Beads => beads(graph),
        BacklogFormat::TaskMaster => task_master(graph),
        BacklogFormat::Github => github(graph),
        BacklogFormat::Markdown => markdown(graph),
        BacklogFormat::Tickets => tickets(graph),
        BacklogFormat::Csv => csv(graph),
        BacklogFormat::Graph => text.to_owned(),
    }
}

/// The fields of a JSON object, without those that have no value.
fn fields(fields: &[(&str, Value)]) -> Vec<String> {
    let is_empty = |value: &Value| {
        value.is_null() || *value == json!("") || value.as_array().is_some_and(Vec::is_empty)
    };
    let fields = fields.iter().filter(|(_, value)| !is_empty(value));
    fields.map(|(name, value)| format!("\"{name}\": {value}")).collect()
}

/// A JSON object on one line.
fn object(all: &[(&str, Value)]) -> String {
    format!("{{{}}}", fields(all).join(", "))
}

fn ids(graph: &TaskGraph, number: usize) -> Vec<&str> {
    graph.dependencies(number).map(|other| graph.task(other).id.as_str()).collect()
}

/// All objects as a JSON list in a field.
fn list(objects: &[String], indent: &str) -> String {
    let lines: Vec<String> = objects.iter().map(|object| format!("{indent}{object}")).collect();
    format!("[\n{}\n", lines.join(",\n"))
}

fn prd(graph: &TaskGraph) -> String {
    let story = |(number, task): (usize, &Task)| {
        let fields = fields(&[
            ("id", json!(task.id)),
            ("title", json!(task.title)),
            ("description", json!(task.description)),
            ("priority", json!(task.priority)),
            ("passes", json!(task.status == Status::Complete)),
            ("labels", json!(task.tags)),
            ("dependsOn", json!(ids(graph, number))),
            ("notes", task.extra.get("notes").cloned().unwrap_or_default()),
        ]);
        format!("{{\n      {}\n    }}", fields.join(",\n      "))
    };
    let stories: Vec<String> = graph.tasks().iter().enumerate().map(story).collect();
    let project = graph.project.get("project").or_else(|| graph.project.get("name"));
    let head = project.map(|name| format!("  \"project\": {name},\n")).unwrap_or_default();
    format!("{{\n{head}  \"userStories\": {}  ]\n}}\n", list(&stories, "    "))
}

fn beads(graph: &TaskGraph) -> String {
    let mut text = String::new();
    for (number, task) in graph.tasks().iter().enumerate() {
        let blocks = |id: &str| json!({"issue_id": task.id, "depends_on_id": id, "type": "blocks"});
        let dependencies: Vec<Value> = ids(graph, number).into_iter().map(blocks).collect();
        let status = match task.status {
            Status::Pending => "open",
            Status::InProgress => "in_progress",
            Status::Complete => "closed",
            Status::Cancelled => "tombstone",
            Status::Blocked | Status::NeedsInput => "blocked",
        };
        let kind = task.extra.get("issue_type").cloned().unwrap_or_else(|| json!("task"));
        let fields = [
            ("id", json!(task.id)),
            ("title", json!(task.title)),
            ("description", json!(task.description)),
            ("status", json!(status)),
            ("priority", json!(task.priority.0.clamp(0, 4))),
            ("issue_type", kind),
            ("labels", json!(task.tags)),
            ("dependencies", json!(dependencies)),
        ];
        let _ = writeln!(text, "{}", object(&fields));
    }
    text
}

/// A number for each task: its id if all ids are numbers.
fn numbers(graph: &TaskGraph) -> Vec<u64> {
    let own: Option<Vec<u64>> =
        graph.tasks().iter().map(|task| task.id.as_str().parse().ok()).collect();
    own.unwrap_or_else(|| (1..=graph.tasks().len() as u64).collect())
}

fn task_master(graph: &TaskGraph) -> String {
    let numbers = numbers(graph);
    let mut objects = Vec::new();
    for (number, task) in graph.tasks().iter().enumerate() {
        let waits: Vec<u64> = graph.dependencies(number).map(|other| numbers[other]).collect();
        let status = match task.status {
            Status::Pending => "pending",
            Status::InProgress => "in-progress",
            Status::Complete => "done",
            Status::Cancelled => "cancelled",
            Status::Blocked | Status::NeedsInput => "blocked",
        };
        let fields = [
            ("id", json!(numbers[number])),
            ("title", json!(task.title)),
            ("description", json!(task.description)),
            ("status", json!(status)),
            ("priority", json!(level(task.priority))),
            ("dependencies", json!(waits)),
        ];
        objects.push(object(&fields));
    }
    format!("{{\n  \"master\": {{\n    \"tasks\": {}    ]\n  }}\n}}\n", list(&objects, "      "))
}

fn level(priority: Priority) -> &'static str {
    match priority.0 {
        ..=0 => "critical",
        1 => "high",
        2 => "medium",
        3.. => "low",
    }
}

fn github(graph: &TaskGraph) -> String {
    let numbers = numbers(graph);
    let mut objects = Vec::new();
    for (number, task) in graph.tasks().iter().enumerate() {
        let waits: Vec<String> =
            graph.dependencies(number).map(|other| format!("#{}", numbers[other])).collect();
        let mut body = task.description.clone().unwrap_or_default();
        if !waits.is_empty() {
            let gap = if body.is_empty() { "" } else { "\n\n" };
            let _ = write!(body, "{gap}Blocked by {}", waits.join(", "));
        }
        let mut labels: Vec<Value> = task.tags.iter().map(|tag| json!({"name": tag})).collect();
        labels.push(json!({"name": format!("priority: {}", level(task.priority))}));
        let state = if task.status.is_over() { "CLOSED" } else { "OPEN" };
        let reason = if task.status == Status::Cancelled { "NOT_PLANNED" } else { "" };
        let milestone = task.milestone.as_ref().map(|title| json!({"title": title}));
        let fields = [
            ("number", json!(numbers[number])),
            ("title", json!(task.title)),
            ("body", json!(body)),
            ("state", json!(state)),
            ("stateReason", json!(reason)),
            ("labels", json!(labels)),
            ("milestone", json!(milestone)),
        ];
        objects.push(object(&fields));
    }
    format!("{}]\n", list(&objects, "  "))
}

fn markdown(graph: &TaskGraph) -> String {
    let mut text = "# Tasks\n\n".to_owned();
    for (number, task) in graph.tasks().iter().enumerate() {
        let mark = match task.status {
            Status::Complete => 'x',
            Status::Cancelled => '-',
            Status::InProgress => '~',
            Status::Blocked => '!',
            Status::NeedsInput => '?',
            Status::Pending => ' ',
        };
        let waits = ids(graph, number);
        let description = task.description.as_deref();
        text += &written::item(mark, task.id.as_str(), &task.title, description, &waits);
    }
    text
}

fn csv(graph: &TaskGraph) -> String {
    let header = [
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
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (number, task) in graph.tasks().iter().enumerate() {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        rows.push(vec![
            task.id.to_string(),
            task.title.clone(),
            task.status.to_string(),
            task.priority.0.to_string(),
            ids(graph, number).join("; "),
            text(&task.story),
            text(&task.milestone),
            task.tags.join("; "),
            text(&task.description),
        ]);
    }
    table::written(&rows)
}

/// The fields of a task as lines of YAML.
fn lines(graph: &TaskGraph, number: usize, task: &Task) -> Vec<String> {
    let mut lines = vec![
        format!("id: {}", flow(&json!(task.id))),
        format!("title: {}", flow(&json!(task.title))),
        format!("status: {}", task.status),
        format!("priority: {}", task.priority.0),
    ];
    let lists = [("depends_on", json!(ids(graph, number))), ("tags", json!(task.tags))];
    for (name, value) in lists.iter().filter(|(_, value)| *value != json!([])) {
        lines.push(format!("{name}: {}", flow(value)));
    }
    for (name, value) in [("story", &task.story), ("milestone", &task.milestone)] {
        lines.extend(value.as_ref().map(|value| format!("{name}: {}", flow(&json!(value)))));
    }
    lines
}

fn tickets(graph: &TaskGraph) -> String {
    (0..graph.tasks().len()).map(|number| ticket(graph, number)).collect()
}

/// The text of one task as a ticket.
pub fn ticket(graph: &TaskGraph, number: usize) -> String {
    let task = graph.task(number);
    let mut text = format!("---\n{}\n---\n", lines(graph, number, task).join("\n"));
    if let Some(description) = &task.description {
        let _ = write!(text, "\n{description}\n\n");
    }
    text
}

/// The fields of a task that a format has a place for; none if it has one for each.
pub fn columns(format: BacklogFormat) -> Option<&'static [&'static str]> {
    Some(match format {
        BacklogFormat::Prd => {
            &["id", "title", "description", "status", "priority", "tags", "depends_on", "notes"]
        }
        BacklogFormat::Beads => &[
            "id",
            "title",
            "description",
            "status",
            "priority",
            "tags",
            "depends_on",
            "issue_type",
        ],
        BacklogFormat::TaskMaster => &["title", "description", "status", "priority", "depends_on"],
        BacklogFormat::Github => {
            &["title", "description", "status", "priority", "depends_on", "tags", "milestone"]
        }
        BacklogFormat::Markdown => &["id", "title", "description", "status", "depends_on"],
        BacklogFormat::Tickets | BacklogFormat::Csv => &[
            "id",
            "title",
            "description",
            "status",
            "priority",
            "depends_on",
            "tags",
            "story",
            "milestone",
        ],
        BacklogFormat::Graph => return None,
    })
}
