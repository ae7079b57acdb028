//! Reads plans in Markdown: headings such as `### Task 3`, checkboxes, numbered lists. The only user
//! of pulldown-cmark.

#[expect(clippy::wildcard_enum_match_arm, reason = "it matches on Markdown events only")]
mod parts;
mod references;
pub(super) mod written;

use std::{collections::HashMap, ops::Range};

use super::{
    SourceLink, StatusMark,
    builder::TaskBuilder,
    fields::{Reading, tidy},
    ids::slug,
};
use crate::graph::task::Status;
use parts::{PlanItem, PlanPart};

/// A task of a plan, before its fields are read.
pub(super) struct PlannedItem {
    pub(super) key: String,
    /// Whether the key was made from the title, or is a number that changes with the plan.
    is_key_made: bool,
    title: String,
    /// The bytes of its first line.
    at: Range<usize>,
    /// The text below the title.
    text: String,
    /// The bytes between the brackets of its checkboxes: its own, or those of its section.
    pub(super) boxes: Vec<Range<usize>>,
    parent: Option<usize>,
    story: Option<String>,
    milestone: Option<String>,
    tags: Vec<String>,
}

/// The tasks of a plan, and what is in none of them.
pub(super) struct PlanText {
    pub(super) items: Vec<PlannedItem>,
    outside: Vec<(Range<usize>, &'static str)>,
}

/// Finds the tasks of a plan.
pub(super) fn plan(text: &str) -> PlanText {
    let parts = parts::parts(text);
    let sections: Vec<Range<usize>> = sections(text, &parts);
    let mut found = PlanText { items: Vec::new(), outside: Vec::new() };
    // The sections are in order and do not overlap.
    let section_at = |at: usize| {
        let after = sections.partition_point(|section| section.start <= at);
        after.checked_sub(1).map(|number| &sections[number]).filter(|section| at < section.end)
    };
    let in_section = |at: usize| section_at(at).is_some();
    let items = || {
        parts
            .iter()
            .filter_map(|part| if let PlanPart::Item(item) = part { Some(item) } else { None })
    };
    let marks: Vec<Range<usize>> = items().filter_map(|item| item.mark.clone()).collect();
    let has_boxes = items().any(|item| item.mark.is_some() && !in_section(item.at.start));
    let has_numbers = items().any(|item| item.depth == 0 && item.is_numbered);
    let is_task = |item: &PlanItem| {
        if in_section(item.at.start) {
            false
        } else if has_boxes {
            item.mark.is_some()
        } else if !sections.is_empty() {
            false
        } else {
            item.depth == 0 && (item.is_numbered || !has_numbers)
        }
    };
    let mut headings: Vec<(u8, String)> = Vec::new();
    // Numbers of parts that are tasks, with those of their items.
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        match part {
            PlanPart::Heading { level, at } => {
                headings.retain(|(other, _)| other < level);
                let title = parts::heading(&text[at.clone()]);
                let section = section_at(at.start).filter(|section| section.start == at.start);
                if let Some(section) = section {
                    let first = marks.partition_point(|mark| mark.start < section.start);
                    let last = marks.partition_point(|mark| mark.start < section.end);
                    let boxes = marks[first..last].to_vec();
                    found.items.push(section_task(text, at, section, &title, boxes, &headings));
                } else if !in_section(at.start) {
                    headings.push((*level, title));
                }
            }
            PlanPart::Item(item) if is_task(item) => {
                let parent = item.parent.and_then(|parent| numbers.get(&parent).copied());
                numbers.insert(number, found.items.len());
                let children: Vec<Range<usize>> = parts[number + 1..]
                    .iter()
                    .filter_map(
                        |part| if let PlanPart::Item(item) = part { Some(item) } else { None },
                    )
                    .take_while(|child| child.at.start < item.at.end)
                    .filter(|child| is_task(child))
                    .map(|child| child.at.clone())
                    .collect();
                let task = item_task(text, item, parent, &children, &headings);
                found.items.push(task);
            }
            PlanPart::Item(item) if item.depth == 0 && !in_section(item.at.start) => {
                let why = if has_boxes { "it has no checkbox" } else { "it is not numbered" };
                // An item around tasks is only their heading.
                let end = first_line_end(text, item.at.start);
                found.outside.push((item.at.start..end, why));
            }
            PlanPart::Prose(at) if !in_section(at.start) => {
                let end = first_line_end(text, at.start);
                found.outside.push((at.start..end, "it is in no task"));
            }
            PlanPart::Item(_) | PlanPart::Prose(_) => {}
        }
    }
    name_alike(&mut found.items);
    found
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

fn first_line_end(text: &str, start: usize) -> usize {
    text[start..].find('\n').map_or(text.len(), |at| start + at)
}

/// The bytes of the headings that are tasks, each with all below it.
fn sections(text: &str, parts: &[PlanPart]) -> Vec<Range<usize>> {
    let headings: Vec<(u8, &Range<usize>)> = parts
        .iter()
        .filter_map(|part| {
            if let PlanPart::Heading { level, at } = part { Some((*level, at)) } else { None }
        })
        .collect();
    let is_task =
        |at: &Range<usize>| parts::task_heading(&parts::heading(&text[at.clone()])).is_some();
    let mut found: Vec<Range<usize>> = Vec::new();
    for (number, (level, at)) in headings.iter().enumerate() {
        if !is_task(at) {
            continue;
        }
        let next = headings[number + 1..].iter().find(|(other, at)| other <= level || is_task(at));
        found.push(at.start..next.map_or(text.len(), |(_, at)| at.start));
    }
    found
}

fn section_task(
    text: &str,
    heading: &Range<usize>,
    section: &Range<usize>,
    title: &str,
    boxes: Vec<Range<usize>>,
    headings: &[(u8, String)],
) -> PlannedItem {
    let (key, rest) = parts::task_heading(title).unwrap_or_else(|| (slug(title), title.to_owned()));
    let (story, milestone) = groups(headings);
    let mut boxes = boxes;
    // A heading may have a box of its own.
    if let Some(mark) = parts::box_in(text, heading) {
        boxes = vec![mark];
    }
    PlannedItem {
        // `Task 3` is another task once the plan is numbered again.
        is_key_made: !key.starts_with(|c: char| c.is_ascii_uppercase()),
        key,
        title: if rest.is_empty() { title.to_owned() } else { rest },
        at: heading.start..first_line_end(text, heading.start),
        text: text[heading.end..section.end].to_owned(),
        boxes,
        parent: None,
        story,
        milestone,
        tags: Vec::new(),
    }
}

fn item_task(
    text: &str,
    item: &PlanItem,
    parent: Option<usize>,
    children: &[Range<usize>],
    headings: &[(u8, String)],
) -> PlannedItem {
    let mut own = String::new();
    let mut at = item.text;
    for child in children {
        if child.start > at {
            own += &text[at..child.start];
        }
        at = at.max(child.end);
    }
    own += &text[at.min(item.at.end)..item.at.end];
    let (story, milestone) = groups(headings);
    let at = item.at.start..first_line_end(text, item.at.start);
    let boxes = item.mark.clone().into_iter().collect();
    if let Some((key, title, text)) = written::id_and_title(own.trim_start()) {
        let (is_key_made, tags) = (false, Vec::new());
        return PlannedItem {
            key,
            is_key_made,
            title,
            at,
            text,
            boxes,
            parent,
            story,
            milestone,
            tags,
        };
    }
    let (title, rest) = parts::title_and_text(&own);
    let named = parts::leading_id(&title);
    let is_key_made = named.as_ref().is_none_or(|(key, _)| !key.contains(char::is_alphabetic));
    let (key, title) = named.unwrap_or_else(|| (slug(&title), title));
    let (title, labels) = parts::labels(&title);
    let is_story =
        |label: &String| label.starts_with("US") && label[2..].bytes().all(|b| b.is_ascii_digit());
    let own_story = labels.iter().find(|label| is_story(label)).cloned();
    PlannedItem {
        key,
        is_key_made,
        title,
        at,
        text: rest,
        boxes,
        parent,
        story: own_story.or(story),
        milestone,
        tags: labels.into_iter().filter(|label| !is_story(label)).collect(),
    }
}

/// The story and the milestone that the headings above a task name.
fn groups(headings: &[(u8, String)]) -> (Option<String>, Option<String>) {
    const MILESTONES: [&str; 6] = ["phase", "milestone", "sprint", "iteration", "release", "stage"];
    let is_milestone = |title: &str| {
        let first = title.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        MILESTONES.iter().any(|word| first.trim_matches(|c: char| !c.is_alphabetic()) == *word)
    };
    // The first heading is the title of the plan.
    let below: Vec<&(u8, String)> = headings.iter().filter(|(level, _)| *level > 1).collect();
    let story = below.iter().rev().find(|(_, title)| !is_milestone(title));
    let milestone = headings.iter().rev().find(|(_, title)| is_milestone(title));
    (story.map(|(_, title)| title.clone()), milestone.map(|(_, title)| title.clone()))
}

/// The status that the characters in checkboxes mean.
pub(super) fn status_of(text: &str, boxes: &[Range<usize>]) -> Option<Status> {
    let statuses: Vec<Status> = boxes.iter().map(|at| box_status(&text[at.clone()])).collect();
    match statuses.as_slice() {
        [] => None,
        [one] => Some(*one),
        all if all.iter().all(|status| status.is_over()) => Some(Status::Complete),
        all if all.contains(&Status::InProgress) => Some(Status::InProgress),
        _ => Some(Status::Pending),
    }
}

fn box_status(mark: &str) -> Status {
    match mark {
        "x" | "X" | "✓" | "✔" | "✅" | "*" => Status::Complete,
        "~" | "/" | ">" => Status::InProgress,
        "-" => Status::Cancelled,
        "!" => Status::Blocked,
        "?" => Status::NeedsInput,
        _ => Status::Pending,
    }
}

pub(super) fn read(text: &str) -> Reading {
    let found = plan(text);
    let mut reading = Reading::default();
    let keys: Vec<&str> = found.items.iter().map(|item| item.key.as_str()).collect();
    let resolver = references::PlanKeys::new(&keys);
    for item in &found.items {
        let mut builder = TaskBuilder::new(item.at.clone());
        builder.task.key.clone_from(&item.key);
        builder.task.is_key_made = item.is_key_made;
        builder.set_title(&item.title);
        let listed = written::dependencies(&item.text);
        let prose = listed.as_ref().map_or(item.text.as_str(), |(_, prose)| prose);
        builder.describe(&written::unescaped(&dedent(prose)));
        let boxes = item.boxes.iter().map(|at| (StatusMark::Box, at.clone()));
        builder.task.status_at.extend(boxes);
        let status = status_of(text, &item.boxes).or_else(|| written_status(&item.text));
        if let Some(status) = status {
            builder.set_status(status);
        }
        for (name, value) in [("story", &item.story), ("milestone", &item.milestone)] {
            if let Some(value) = value {
                builder.set(name, serde_json::json!(value));
            }
        }
        builder.tag(item.tags.clone());
        if let Some(parent) = item.parent {
            let key = found.items[parent].key.clone();
            builder.task.parent = Some(SourceLink { key, at: item.at.clone() });
        }
        let (links, unknown) = match listed {
            Some((ids, _)) => (ids, Vec::new()),
            None => resolver.references(&format!("{}\n{}", item.title, item.text)),
        };
        for key in links.into_iter().filter(|key| *key != item.key) {
            builder.task.depends_on.push(SourceLink { key, at: item.at.clone() });
        }
        for name in unknown {
            let why = format!("`{}` is no task of this plan", super::fields::clipped(&name));
            builder.lose("dependency", &why, true, item.at.clone());
        }
        builder.finish(&mut reading);
    }
    for (at, why) in found.outside {
        reading.lose(None, "text", why, at);
    }
    reading
}

/// The status in a line such as `**Status:** done`.
fn written_status(text: &str) -> Option<Status> {
    text.lines().find_map(|line| {
        let bare: String = line.chars().filter(|c| !"*_`-".contains(*c)).collect();
        let word = bare.trim().strip_prefix("Status:").map(str::trim)?.to_owned();
        super::words::status(&word).map(|(status, _)| status)
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
        assert_eq!(backlog.lost.len(), 3, "{:?}", backlog.lost);
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
