//! Reads Markdown: checklists, and tickets with a `status` in YAML front matter.

use std::{collections::HashSet, sync::LazyLock};

use regex_lite::Regex;
use serde_json::{Value, json};

use super::{
    Loss, Mark, Refusal, SourceBacklog, SourceTask,
    fields::{RecordReader, clipped, one_line, tidy},
    key_of_title, refuse_foreign,
};
use crate::graph::task::Status;

/// A checkbox: its indentation, its mark, `*` for an optional step of Kiro, and its title.
static BOX: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^(\s*)(?:[-*+]|\d+[.)])\s+\[([^\]\s]| )\](\*?)\s+(.*)$"));
/// An item of a list or a heading.
static ITEM: LazyLock<Regex> = LazyLock::new(|| expression(r"^\s*(?:[-*+]|\d+[.)])\s+\S"));
/// An id at the start of a title.
static ID: LazyLock<Regex> = LazyLock::new(|| {
    expression(
        r"^(?:`([A-Za-z0-9][\w.-]*)`:?|\**(T\d+|[A-Z][A-Z]+-\d+|\d+(?:\.\d+)+|\d+(?:\.\d+)*\.)\**:?)\s+(\S.*)$",
    )
});
/// The ids after `depends on`.
static DEPENDS: LazyLock<Regex> = LazyLock::new(|| {
    let id = "`?[A-Za-z0-9][A-Za-z0-9_.-]*`?";
    expression(&format!(r"(?i)\bdepends on:?\**:?\s+({id}(?:(?:,| and|, and)\s*{id})*)"))
});
/// A heading that is a task of a plan in prose.
static TASK_HEADING: LazyLock<Regex> =
    LazyLock::new(|| expression(r"(?i)^#+\s+(?:task|step|story|epic)\s+#?\d"));

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("the expression is valid")
}

/// Reads a text in Markdown.
pub(super) fn read(name: &str, text: &str) -> Result<SourceBacklog, Refusal> {
    let (front, body) = front_matter(text);
    let fields = super::yaml(front.unwrap_or_default())?;
    if fields.get("status").is_some() {
        return Ok(ticket(name, &fields, body));
    }
    refuse_foreign(
        |mark| matches!(mark, Mark::Text(part) if text.contains(part) || name.contains(part)),
    )?;
    let first = text[..text.len() - body.len()].lines().count() + 1;
    let checklist = Checklist::new(body, first);
    if checklist.has_steps {
        return Err(Refusal::Foreign("a plan whose headings are tasks".to_owned()));
    }
    if checklist.items.is_empty() {
        return Err(Refusal::Foreign("a text without checkboxes".to_owned()));
    }
    Ok(checklist.backlog())
}

/// Splits the front matter of a text from the rest.
fn front_matter(text: &str) -> (Option<&str>, &str) {
    let inner = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let found = inner.and_then(|inner| {
        let mut end = 0;
        for line in inner.split_inclusive('\n') {
            if line.trim_end() == "---" {
                return Some((Some(&inner[..end]), &inner[end + line.len()..]));
            }
            end += line.len();
        }
        None
    });
    found.unwrap_or((None, text))
}

/// Reads a ticket. Without an id, its file names it; without a title, its first heading.
fn ticket(name: &str, fields: &Value, body: &str) -> SourceBacklog {
    let mut backlog = SourceBacklog { format: "tickets", ..SourceBacklog::default() };
    let mut folders = name.split('/').rev();
    let file = folders.next().unwrap_or_default();
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let Ok(mut record) = RecordReader::new(fields) else { return backlog };
    let mut body = tidy(body);
    if fields.get("id").is_none() {
        stem.clone_into(&mut record.task.key);
    }
    if fields.get("title").is_none() && fields.get("name").is_none() {
        let first = body.lines().next().unwrap_or_default().to_owned();
        let heading = first.trim_start_matches('#').trim();
        let is_heading = first.starts_with('#') && !heading.is_empty();
        record.rename(if is_heading { heading } else { stem });
        if is_heading {
            body = body[first.len()..].to_owned();
        }
    }
    record.describe(&body);
    if folders.any(|folder| folder == "completed") {
        record.task.set_status(Status::Complete);
    }
    record.finish(&mut backlog, 1);
    backlog
}

/// An item with a checkbox.
#[derive(Default)]
struct ListItem {
    key: String,
    title: String,
    text: Vec<String>,
    mark: char,
    indent: usize,
    /// The number of the item that contains it.
    parent: Option<usize>,
    story: Option<String>,
    milestone: Option<String>,
    tags: Vec<String>,
}

/// The items of a text, and the lines that are in none of them.
#[derive(Default)]
struct Checklist {
    items: Vec<ListItem>,
    outside: Vec<Loss>,
    /// Whether items are below a heading such as `### Task 3`.
    has_steps: bool,
    is_kiro: bool,
}

impl Checklist {
    /// Finds the items. `first` is the number of the first line.
    fn new(text: &str, first: usize) -> Checklist {
        let is_kiro = text
            .lines()
            .any(|line| line.trim() == "# Implementation Plan" || line.contains("_Requirements: "));
        let mut list = Checklist { is_kiro, ..Checklist::default() };
        let (mut headings, mut is_step) = (Vec::<(usize, String)>::new(), false);
        let (mut is_code, mut is_comment, mut is_inside) = (false, false, false);
        for (number, line) in text.lines().enumerate() {
            let bare = line.trim();
            let indent = line.len() - line.trim_start().len();
            let is_fence = bare.starts_with("```") || bare.starts_with("~~~");
            is_comment |= bare.starts_with("<!--");
            let is_text = is_code || is_fence || is_comment;
            is_code ^= is_fence;
            is_comment &= !bare.contains("-->");
            if !is_text && line.starts_with('#') {
                let level = line.len() - line.trim_start_matches('#').len();
                headings.retain(|(other, _)| *other < level);
                headings.push((level, bare.trim_matches('#').trim().to_owned()));
                is_inside = false;
                is_step = TASK_HEADING.is_match(line) || is_step && level > 2;
            } else if let Some(found) = BOX.captures(line).filter(|_| !is_text) {
                list.has_steps |= is_step;
                list.add(&found, &headings);
                is_inside = true;
            } else if bare.is_empty() {
                list.item_at(is_inside, |item| item.text.push(String::new()));
            } else if let Some(item) = list.around(indent).filter(|_| is_inside) {
                item.text.push(line.to_owned());
            } else if is_inside && !ITEM.is_match(line) && !list.is_after_blank() {
                // A continuation line without indentation.
                list.item_at(true, |item| item.text.push(line.to_owned()));
            } else {
                is_inside = false;
                let why =
                    if ITEM.is_match(line) { "it has no checkbox" } else { "it is in no task" };
                list.outside.push(Loss::new(&format!("line {}", first + number), "text", why));
            }
        }
        list
    }

    fn item_at(&mut self, is_inside: bool, change: impl FnOnce(&mut ListItem)) {
        if let Some(item) = self.items.last_mut().filter(|_| is_inside) {
            change(item);
        }
    }

    /// The item that a line with this indentation belongs to.
    fn around(&mut self, indent: usize) -> Option<&mut ListItem> {
        self.items.iter_mut().rev().find(|item| item.indent < indent)
    }

    fn is_after_blank(&self) -> bool {
        self.items.last().and_then(|item| item.text.last()).is_some_and(String::is_empty)
    }

    fn add(&mut self, found: &regex_lite::Captures<'_>, headings: &[(usize, String)]) {
        let part = |number: usize| found.get(number).map_or("", |part| part.as_str());
        let indent = part(1).len();
        let outer = |item: &&ListItem| item.indent < indent;
        let last = self.items.iter().rposition(|item| outer(&item));
        // Only the items since the last one at the top may contain it.
        let top = self.items.iter().rposition(|item| item.indent == 0);
        let parent = last.filter(|last| indent > 0 && top.is_none_or(|top| *last >= top));
        let is_milestone = |title: &str| {
            let first = title.split([' ', ':']).next().unwrap_or_default().to_ascii_lowercase();
            ["phase", "milestone", "sprint", "release"].contains(&first.as_str())
        };
        let mut above = headings.iter().rev();
        let milestone = above.find(|(_, title)| is_milestone(title));
        let mut stories = headings.iter().rev();
        let story = stories.find(|(level, title)| *level > 1 && !is_milestone(title));
        let mut item = ListItem {
            title: part(4).trim().to_owned(),
            mark: part(2).chars().next().unwrap_or(' '),
            indent,
            parent,
            story: story.map(|(_, title)| title.clone()),
            milestone: milestone.map(|(_, title)| title.clone()),
            ..ListItem::default()
        };
        if part(3) == "*" {
            item.tags.push("optional".to_owned());
        }
        self.items.push(item);
    }

    /// Reads the items into tasks.
    fn backlog(mut self) -> SourceBacklog {
        let mut backlog = SourceBacklog { format: "markdown", ..SourceBacklog::default() };
        self.items.iter_mut().for_each(ListItem::name);
        let keys: HashSet<String> = self.items.iter().map(|item| item.key.clone()).collect();
        for item in &self.items {
            let parent = item.parent.map(|parent| self.items[parent].key.clone());
            let mut task = SourceTask { key: item.key.clone(), parent, ..SourceTask::default() };
            task.set("title", json!(item.title));
            let status = status(item.mark, self.is_kiro);
            task.set_status(status);
            if ![' ', 'x', 'X'].contains(&item.mark) {
                let why = format!("`[{}]` is read as {status}", item.mark);
                backlog.lost.push(Loss::new(&item.key, "checkbox", why));
            }
            task.set("story", json!(item.story));
            task.set("milestone", json!(item.milestone));
            task.set("tags", json!(item.tags));
            let text = dedent(&item.text);
            for found in DEPENDS.captures_iter(&format!("{}\n{text}", item.title)) {
                let list = found.get(1).map_or("", |list| list.as_str()).replace(" and", ",");
                let names = list.split(',').map(|name| name.trim().trim_matches(['`', '.']));
                for name in names.filter(|name| !name.is_empty() && *name != item.key) {
                    if keys.contains(name) {
                        task.depends_on.push(name.to_owned().into());
                    } else {
                        let why = format!("`{}` is no task of this list", clipped(name));
                        backlog.lost.push(Loss::new(&item.key, "dependency", why));
                    }
                }
            }
            task.set("description", json!(text));
            backlog.tasks.push(task);
        }
        let phases: HashSet<&String> =
            self.items.iter().filter_map(|item| item.milestone.as_ref()).collect();
        if phases.len() > 1 {
            let why =
                "a later phase does not wait for an earlier one; add dependencies where it must";
            backlog.lost.push(Loss::new("", "order of phases", why));
        }
        backlog.lost.append(&mut self.outside);
        backlog
    }
}

impl ListItem {
    /// Reads the id, the labels and the whole title.
    fn name(&mut self) {
        let more = self.text.iter().take_while(|line| !line.is_empty() && !ITEM.is_match(line));
        let more: Vec<String> = more.map(|line| line.trim().to_owned()).collect();
        let is_prose = more.first().is_some_and(|line| line.starts_with(char::is_lowercase));
        let mut title = self.title.clone();
        if is_prose {
            self.text.drain(..more.len());
            title = format!("{title} {}", more.join(" "));
        }
        if let Some(found) = ID.captures(&title) {
            let key = found.get(1).or_else(|| found.get(2)).map_or("", |key| key.as_str());
            key.trim_end_matches('.').clone_into(&mut self.key);
            title = found.get(3).map_or("", |title| title.as_str()).to_owned();
        }
        // The labels of spec-kit: `[P]` and `[US1]`.
        while let Some((label, rest)) =
            title.strip_prefix('[').and_then(|text| text.split_once(']'))
        {
            let is_label = label.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
            if !is_label || label.is_empty() || rest.trim().is_empty() || rest.starts_with('(') {
                break;
            }
            if label.starts_with("US") {
                self.story = Some(label.to_owned());
            } else {
                self.tags.push(label.to_owned());
            }
            title = rest.trim().to_owned();
        }
        self.title = one_line(&title.replace("**", ""));
        if self.key.is_empty() {
            self.key = key_of_title(&self.title);
        }
    }
}

/// The status that the character in a checkbox means. Kiro, whose plans name requirements below each
/// step, writes `[-]` for a step in progress, others for a dropped one.
fn status(mark: char, is_kiro: bool) -> Status {
    match mark {
        'x' | 'X' => Status::Complete,
        '-' if is_kiro => Status::InProgress,
        '-' => Status::Cancelled,
        '~' | '/' | '>' => Status::InProgress,
        '!' => Status::Blocked,
        '?' => Status::NeedsInput,
        _ => Status::Pending,
    }
}

/// The lines of a text without the indentation that all of them share.
fn dedent(lines: &[String]) -> String {
    let lead = |line: &String| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.trim().is_empty()).map(lead).min().unwrap_or(0);
    let cut = |line: &String| line.get(least..).unwrap_or_default().to_owned();
    tidy(&lines.iter().map(cut).collect::<Vec<_>>().join("\n"))
}
