//! Reads plans in Markdown: headings such as `### Task 3`, checkboxes, numbered lists. The only user
//! of pulldown-cmark.

pub(super) mod words;

use std::{collections::HashMap, ops::Range};

use super::{
    SourceLink, StatusMark,
    builder::{Reading, TaskBuilder},
    fields::{self, clipped, slug, tidy},
};
use crate::graph::task::Status;
use words::{PlanItem, PlanPart};

/// A task of a plan, before its fields are read.
#[derive(Default)]
struct PlannedItem {
    key: String,
    /// Whether the key was made from the title, or is a number that changes with the plan.
    is_key_made: bool,
    title: String,
    /// The bytes of its first line.
    at: Range<usize>,
    /// The text below the title.
    text: String,
    /// The bytes between the brackets of its checkboxes: its own, or those of its section.
    boxes: Vec<Range<usize>>,
    parent: Option<usize>,
    story: Option<String>,
    milestone: Option<String>,
    column: Option<Column>,
    tags: Vec<String>,
}

/// A heading that is a status, as on a board: `Done`.
struct Column {
    title: String,
    status: Status,
    /// Whether it is one in any plan: `Testing` is one only beside others.
    is_sure: bool,
}

impl Column {
    fn of(title: &str) -> Option<Column> {
        // `Done (3)`, `✓ Done:`
        let word = title.split(['(', '[']).next().unwrap_or_default();
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let (status, is_own) = fields::status(word)?;
        Some(Column { title: title.to_owned(), status, is_sure: is_own || status.is_over() })
    }
}

/// The tasks of a plan, and what is in none of them.
#[derive(Default)]
struct PlanText {
    items: Vec<PlannedItem>,
    outside: Vec<(Range<usize>, &'static str)>,
}

/// Finds the tasks of a plan.
fn plan(text: &str) -> PlanText {
    let parts = words::parts(text);
    let sections: Vec<Range<usize>> = sections(text, &parts);
    let mut found = PlanText::default();
    // The sections are in order and do not overlap.
    let section_at = |at: usize| {
        let after = sections.partition_point(|section| section.start <= at);
        after.checked_sub(1).map(|number| &sections[number]).filter(|section| at < section.end)
    };
    let in_section = |at: usize| section_at(at).is_some();
    let items = || parts.iter().filter_map(PlanPart::item);
    let marks: Vec<Range<usize>> = items().filter_map(|item| item.mark.clone()).collect();
    let has_boxes = items().any(|item| item.mark.is_some() && !in_section(item.at.start));
    let has_numbers = items().any(|item| item.depth == 0 && item.is_numbered);
    let is_task = |item: &PlanItem| {
        let is_alone = || item.depth == 0 && (item.is_numbered || !has_numbers);
        !in_section(item.at.start)
            && if has_boxes { item.mark.is_some() } else { sections.is_empty() && is_alone() }
    };
    let mut headings: Vec<(u8, String)> = Vec::new();
    // Numbers of parts that are tasks, with those of their items.
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        match part {
            PlanPart::Heading { level, at } => {
                headings.retain(|(other, _)| other < level);
                let title = words::heading(&text[at.clone()]);
                let section = section_at(at.start).filter(|section| section.start == at.start);
                if let Some(section) = section {
                    let first = marks.partition_point(|mark| mark.start < section.start);
                    let last = marks.partition_point(|mark| mark.start < section.end);
                    let boxes = marks[first..last].to_vec();
                    let task = section_task(text, at, section, &title, boxes);
                    found.items.push(task.below(&headings));
                } else if !in_section(at.start) {
                    headings.push((*level, title));
                }
            }
            PlanPart::Item(item) if is_task(item) => {
                let children = parts[number + 1..].iter().filter_map(PlanPart::item);
                let children = children.take_while(|child| child.at.start < item.at.end);
                let children: Vec<&Range<usize>> =
                    children.filter(|child| is_task(child)).map(|child| &child.at).collect();
                let task = item_task(text, item, &children);
                let parent = item.parent.and_then(|parent| numbers.get(&parent).copied());
                numbers.insert(number, found.items.len());
                found.items.push(PlannedItem { parent, ..task }.below(&headings));
            }
            PlanPart::Item(item) if item.depth == 0 && !in_section(item.at.start) => {
                let why = if has_boxes { "it has no checkbox" } else { "it is not numbered" };
                // An item around tasks is only their heading.
                found.outside.push((first_line(text, item.at.start), why));
            }
            PlanPart::Prose(at) if !in_section(at.start) => {
                found.outside.push((first_line(text, at.start), "it is in no task"));
            }
            PlanPart::Item(_) | PlanPart::Prose(_) => {}
        }
    }
    join_steps(&mut found.items);
    name_alike(&mut found.items);
    found
}

/// Whether a heading names a phase of a plan.
fn is_phase(title: &str) -> bool {
    title.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("phase"))
}

/// Joins an item of a checklist with the section that describes the same step.
fn join_steps(items: &mut Vec<PlannedItem>) {
    let names: Vec<Option<String>> =
        { items.iter() }.map(|item| words::task_heading(&item.title).map(|(key, _)| key)).collect();
    let mut joined = vec![false; items.len()];
    for number in 0..items.len() {
        let Some(name) = names[number].as_ref().filter(|_| !items[number].boxes.is_empty()) else {
            continue;
        };
        let is_it = |other: &usize| *other != number && items[*other].key == *name;
        let section = (0..items.len()).find(is_it);
        if let Some(section) = section.filter(|section| items[*section].boxes.is_empty()) {
            items[section].boxes = std::mem::take(&mut items[number].boxes);
            joined[number] = items.iter().all(|item| item.parent.is_none());
        }
    }
    let mut joined = joined.into_iter();
    items.retain(|_| !joined.next().unwrap_or(false));
}

/// Gives tasks of the same name numbers.
fn name_alike(items: &mut [PlannedItem]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in items {
        let count = seen.entry(item.key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            item.is_key_made = true;
            item.key = format!("{}-{count}", item.key);
        }
    }
}

/// The bytes of a line from here.
fn first_line(text: &str, start: usize) -> Range<usize> {
    start..text[start..].find('\n').map_or(text.len(), |at| start + at)
}

/// The bytes of the headings that are tasks, each with all below it.
fn sections(text: &str, parts: &[PlanPart]) -> Vec<Range<usize>> {
    let of = |part: &PlanPart| match part {
        PlanPart::Heading { level, at } => {
            let title = words::heading(&text[at.clone()]);
            Some((*level, at.start, words::task_heading(&title).is_some()))
        }
        PlanPart::Item(_) | PlanPart::Prose(_) => None,
    };
    let headings: Vec<(u8, usize, bool)> = parts.iter().filter_map(of).collect();
    let tasks = headings.iter().enumerate().filter(|(_, (_, _, is_task))| *is_task);
    let section = |(number, (level, start, _)): (usize, &(u8, usize, bool))| {
        let is_next = |(other, _, is_task): &&(u8, usize, bool)| other <= level || *is_task;
        let next = headings[number + 1..].iter().find(is_next);
        *start..next.map_or(text.len(), |(_, at, _)| *at)
    };
    tasks.map(section).collect()
}

fn section_task(
    text: &str,
    heading: &Range<usize>,
    section: &Range<usize>,
    title: &str,
    boxes: Vec<Range<usize>>,
) -> PlannedItem {
    let (key, rest) = words::task_heading(title).unwrap_or_else(|| (slug(title), title.to_owned()));
    PlannedItem {
        // `Task 3` is another task once the plan is numbered again.
        is_key_made: !key.starts_with(|c: char| c.is_ascii_uppercase()),
        key,
        title: if rest.is_empty() { title.to_owned() } else { rest },
        at: first_line(text, heading.start),
        text: text[heading.end..section.end].to_owned(),
        // A heading may have a box of its own.
        boxes: words::box_in(text, heading).map_or(boxes, |mark| vec![mark]),
        ..PlannedItem::default()
    }
}

fn item_task(text: &str, item: &PlanItem, children: &[&Range<usize>]) -> PlannedItem {
    let mut own = String::new();
    let mut start = item.text;
    for child in children {
        own += text.get(start..child.start).unwrap_or_default();
        start = start.max(child.end);
    }
    own += &text[start.min(item.at.end)..item.at.end];
    let at = first_line(text, item.at.start);
    let boxes = item.mark.clone().into_iter().collect();
    if let Some((key, title, text)) = words::id_and_title(own.trim_start()) {
        return PlannedItem { key, title, at, text, boxes, ..PlannedItem::default() };
    }
    let (title, text) = words::title_and_text(&own);
    let named = words::leading_id(&title);
    let is_key_made = named.as_ref().is_none_or(|(key, _)| !key.contains(char::is_alphabetic));
    let (key, title) = named.unwrap_or_else(|| (slug(&title), title));
    let (title, mut tags) = words::labels(&title);
    let is_story =
        |label: &str| label.starts_with("US") && label[2..].bytes().all(|b| b.is_ascii_digit());
    let story = tags.iter().find(|label| is_story(label)).cloned();
    tags.retain(|label| !is_story(label));
    PlannedItem { key, is_key_made, title, at, text, boxes, story, tags, ..PlannedItem::default() }
}

impl PlannedItem {
    /// The task with the story and the milestone that the headings above it name.
    fn below(mut self, headings: &[(u8, String)]) -> PlannedItem {
        const MILESTONES: [&str; 6] =
            ["phase", "milestone", "sprint", "iteration", "release", "stage"];
        let is_milestone = |title: &str| {
            let first = title.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            MILESTONES.contains(&first.trim_matches(|c: char| !c.is_alphabetic()))
        };
        let mut above = headings.iter().rev();
        self.milestone =
            above.find(|(_, title)| is_milestone(title)).map(|(_, title)| title.clone());
        let columns = || headings.iter().rev().filter_map(|(_, title)| Column::of(title));
        // A part of what is done may have any name.
        let over = columns().find(|column| column.status.is_over());
        self.column = over.or_else(|| columns().next());
        let column = self.column.as_ref().filter(|column| column.is_sure);
        let is_column = |title: &str| column.is_some_and(|column| column.title == title);
        // The first heading is the title of the plan.
        let mut stories = headings
            .iter()
            .rev()
            .filter(|(level, title)| *level > 1 && !is_milestone(title) && !is_column(title));
        self.story = self.story.or_else(|| stories.next().map(|(_, title)| title.clone()));
        self
    }

    /// Reads the status: of its checkboxes, of its text, or else of the heading above it.
    fn read_status(
        &self,
        builder: &mut TaskBuilder,
        text: &str,
        (is_kiro, is_board): (bool, bool),
    ) {
        builder.task.status_at =
            self.boxes.iter().map(|at| (StatusMark::Box, at.clone())).collect();
        for at in &self.boxes {
            let mark = &text[at.clone()];
            if ![" ", "x", "X"].contains(&mark) {
                let status = status_of_mark(mark, is_kiro);
                builder.note("checkbox", format!("`[{mark}]` is read as {status}"), at.clone());
            }
        }
        let own = status_of(text, &self.boxes, is_kiro).or_else(|| written_status(&self.text));
        builder.set_status(own.unwrap_or(Status::Pending));
        let column = self.column.as_ref().filter(|column| column.is_sure || is_board);
        let Some(column) = column.filter(|column| column.status != Status::Pending) else {
            return;
        };
        let (title, status) = (clipped(&column.title), column.status);
        if own.is_none() {
            builder.set_status(status);
            builder.note("heading", format!("`{title}` is read as {status}"), self.at.clone());
        } else if own == Some(Status::Pending) {
            let why = format!("it is below `{title}`, but says itself that it is pending");
            builder.lose("status", why, self.at.clone());
        }
    }
}

/// The status that the character in a checkbox means. Kiro, whose plans name requirements below each
/// step, writes `[-]` for a step in progress, others for one that was dropped.
fn status_of_mark(mark: &str, is_kiro: bool) -> Status {
    match mark {
        "x" | "X" | "✓" | "✔" | "✅" | "*" => Status::Complete,
        "~" | "/" | ">" | "." | "o" | "O" => Status::InProgress,
        "-" if is_kiro => Status::InProgress,
        "-" => Status::Cancelled,
        "!" => Status::Blocked,
        "?" => Status::NeedsInput,
        _ => Status::Pending,
    }
}

/// Whether a plan is one of Kiro.
fn is_of_kiro(text: &str) -> bool {
    text.lines().any(|line| {
        line.trim() == "# Implementation Plan" || line.trim_start().contains("_Requirements: ")
    })
}

/// The status that the checkboxes of a task mean.
fn status_of(text: &str, boxes: &[Range<usize>], is_kiro: bool) -> Option<Status> {
    let statuses: Vec<Status> =
        boxes.iter().map(|at| status_of_mark(&text[at.clone()], is_kiro)).collect();
    match statuses.as_slice() {
        [] => None,
        [one] => Some(*one),
        all if all.iter().all(|status| status.is_over()) => Some(Status::Complete),
        all if all.contains(&Status::InProgress) => Some(Status::InProgress),
        _ => Some(Status::Pending),
    }
}

/// Whether a text has tasks.
pub(super) fn is_plan(text: &str) -> bool {
    !plan(text).items.is_empty()
}

pub(super) fn read(text: &str) -> Reading {
    let found = plan(text);
    let mut reading = Reading::default();
    let keys: Vec<&str> = found.items.iter().map(|item| item.key.as_str()).collect();
    let keys = words::PlanKeys::new(&keys);
    let is_kiro = is_of_kiro(text);
    let mut columns = found.items.iter().filter_map(|item| item.column.as_ref());
    let is_board = columns.any(|column| column.is_sure);
    for item in &found.items {
        let mut builder = TaskBuilder::new(item.at.clone());
        builder.task.key.clone_from(&item.key);
        builder.task.is_key_made = item.is_key_made;
        builder.set_title(&item.title);
        let listed = words::dependencies(&item.text);
        let prose = listed.as_ref().map_or(item.text.as_str(), |(_, prose)| prose);
        builder.describe(&dedent(prose));
        item.read_status(&mut builder, text, (is_kiro, is_board));
        for (name, value) in [("story", &item.story), ("milestone", &item.milestone)] {
            if let Some(value) = value {
                builder.set(name, serde_json::json!(value));
            }
        }
        builder.tag(item.tags.clone());
        let parent = item.parent.map(|parent| found.items[parent].key.as_str());
        builder.task.parent = parent.map(|key| SourceLink::new(key, &item.at));
        let (links, unknown) = match listed {
            Some((ids, _)) => (ids, Vec::new()),
            None => keys.references(&format!("{}\n{}", item.title, item.text)),
        };
        let others = links.into_iter().filter(|key| *key != item.key);
        builder.task.depends_on = others.map(|key| SourceLink::new(key, &item.at)).collect();
        for name in unknown {
            let why = format!("`{}` is no task of this plan", clipped(&name));
            builder.note("dependency", why, item.at.clone());
        }
        builder.finish(&mut reading);
    }
    let phases: Vec<&PlannedItem> = { found.items.iter() }
        .filter(|item| item.milestone.as_ref().is_some_and(|name| is_phase(name)))
        .collect();
    if let Some(later) = phases.iter().find(|item| item.milestone != phases[0].milestone) {
        let why =
            "a later phase does not wait for an earlier one; write dependencies where it must";
        reading.lose("order of phases", why, later.at.clone());
    }
    for (at, why) in found.outside {
        reading.lose("text", why, at);
    }
    reading
}

/// The status in a line such as `**Status:** done`.
fn written_status(text: &str) -> Option<Status> {
    text.lines().find_map(|line| {
        let bare: String = line.chars().filter(|c| !"*_`-".contains(*c)).collect();
        let word = bare.trim().strip_prefix("Status:").map(str::trim)?;
        fields::status(word).map(|(status, _)| status)
    })
}

/// A text without the indentation that all its lines share.
fn dedent(text: &str) -> String {
    let text = tidy(text);
    let lead = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let rest = || text.lines().skip(usize::from(!text.starts_with(' ')));
    let least = rest().filter(|line| !line.is_empty()).map(lead).min().unwrap_or(0);
    let cut = |line: &str| line[least.min(lead(line))..].to_owned();
    text.lines().map(cut).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(text: &str) -> Vec<(String, String)> {
        let backlog = read(text).finish(text).unwrap();
        let title = |task: &super::super::SourceTask| {
            task.get("title").unwrap().as_str().unwrap().to_owned()
        };
        backlog.tasks.iter().map(|task| (task.key.clone(), title(task))).collect()
    }

    #[test]
    fn checkboxes_are_tasks_with_their_nesting() {
        let text = "# Plan\n\nSome prose.\n\n## Phase 1\n\n- [x] **T001** Set up\n  more\n- [ ] \
                    Build it (depends on T001)\n  - [~] A part\n  - a remark\n- no box\n\n```\n- [ ] code\n```\n";
        let backlog = read(text).finish(text).unwrap();
        let keys: Vec<&str> = backlog.tasks.iter().map(|task| task.key.as_str()).collect();
        assert_eq!(keys, ["T001", "build-it-depends-on-t001", "a-part"]);
        assert_eq!(backlog.tasks[0].get("status").unwrap(), "complete");
        assert_eq!(backlog.tasks[1].depends_on[0].key, "T001");
        assert_eq!(backlog.tasks[1].get("description").unwrap(), "- a remark");
        assert_eq!(backlog.tasks[2].get("status").unwrap(), "in-progress");
        assert_eq!(backlog.tasks[2].parent.as_ref().unwrap().key, keys[1]);
        assert_eq!(backlog.tasks[2].get("milestone").unwrap(), "Phase 1");
        assert_eq!(backlog.lost.len(), 4, "{:?}", backlog.lost);
    }

    #[test]
    fn headings_of_a_board_are_statuses() {
        let text = "# TODO\n\n## To do\n\n- a\n\n## In progress\n\n- b\n\n## Testing\n\n- c\n\n\
                    ## ✅ Shipped (2)\n\n- d\n\n### Parser\n\n- e\n\n## Erledigt\n\n- f\n";
        let backlog = read(text).finish(text).unwrap();
        let of = |name: &str| -> Vec<String> {
            let values = backlog.tasks.iter().map(|task| task.get(name).and_then(|it| it.as_str()));
            values.map(|value| value.unwrap_or_default().to_owned()).collect()
        };
        let statuses = of("status");
        assert_eq!(statuses[..3], ["pending", "in-progress", "in-progress"]);
        assert_eq!(statuses[3..], ["complete"; 3]);
        assert_eq!(of("story"), ["", "", "Testing", "", "Parser", ""]);
        let said: Vec<&str> = backlog.lost.iter().map(|lost| lost.why.as_str()).collect();
        assert_eq!(said[0], "`In progress` is read as in-progress");
        assert!(said.len() == 5 && backlog.lost.iter().all(|lost| lost.is_kept), "{said:?}");

        // A box counts, and a part of a plan may have the name of a status.
        let text = "## Done\n\n- [x] a\n- [ ] b\n";
        let backlog = read(text).finish(text).unwrap();
        assert_eq!(backlog.tasks[1].status(), Status::Pending);
        assert_eq!(backlog.lost.len(), 1, "{:?}", backlog.lost);
        assert!(backlog.lost[0].task.as_deref() == Some("b") && !backlog.lost[0].is_kept);
        let text = "## Parser\n\n- a\n\n## Testing\n\n- b\n";
        let backlog = read(text).finish(text).unwrap();
        assert!(backlog.tasks[1].status() == Status::Pending && backlog.lost.is_empty());
    }

    #[test]
    fn headings_can_be_tasks() {
        let text = "# Plan\n\n## Tasks\n\n### Task 1: Parser\n\nRead it.\n\n- [x] step\n- [x] step 2\n\n\
                    ### Task 2: Printer\n\n**Depends on:** Task 1\n\n- [ ] step\n\n## Notes\n\nText.\n";
        let backlog = read(text).finish(text).unwrap();
        assert_eq!(backlog.tasks.len(), 2);
        assert_eq!(backlog.tasks[0].key, "task-1");
        assert_eq!(backlog.tasks[0].get("title").unwrap(), "Parser");
        assert_eq!(backlog.tasks[0].get("status").unwrap(), "complete");
        assert_eq!(backlog.tasks[1].get("status").unwrap(), "pending");
        assert_eq!(backlog.tasks[1].depends_on[0].key, "task-1");
    }

    #[test]
    fn lists_without_boxes_are_tasks_too() {
        let pair = |key: &str, title: &str| (key.to_owned(), title.to_owned());
        assert_eq!(
            tasks("1. First thing\n2. Second thing\n   - detail\n\n- other\n"),
            [pair("first-thing", "First thing"), pair("second-thing", "Second thing")]
        );
        assert_eq!(tasks("- a\n- a\n"), [pair("a", "a"), pair("a-2", "a")]);
        assert_eq!(tasks("- [ ] 1.2 Do it\n"), [pair("1.2", "Do it")]);
        assert_eq!(tasks("### US-001: As a user\n\ntext\n"), [pair("US-001", "As a user")]);
    }
}
