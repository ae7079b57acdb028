//! Writes statuses into the text of a backlog. All other bytes stay as they are.

use std::{collections::BTreeMap, ops::Range};

use serde_json::Value;

use super::{BacklogFormat, SourceTask, StatusMark, read, tickets, words};
use crate::{
    diagnostic::Diagnostic,
    graph::{
        edit::{Change, Document},
        load,
        task::{Spelling, Status},
        yaml::Tree,
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
        if same(format, task, status_of(task), wanted) {
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

fn status_of(task: &SourceTask) -> Status {
    let word = task.get("status").and_then(Value::as_str);
    word.and_then(Status::parse).unwrap_or(Status::Pending)
}

/// Whether the source can say no more than it says.
fn same(format: BacklogFormat, task: &SourceTask, is: Status, wanted: Status) -> bool {
    let only_done = match format {
        BacklogFormat::Github => true,
        BacklogFormat::Prd => task.status_at.iter().all(|(mark, _)| *mark == StatusMark::Flag),
        BacklogFormat::Csv => {
            !task.status_at.is_empty()
                && task.status_at.iter().all(|(mark, _)| *mark == StatusMark::Flag)
        }
        BacklogFormat::Beads
        | BacklogFormat::TaskMaster
        | BacklogFormat::Markdown
        | BacklogFormat::Tickets
        | BacklogFormat::Graph => false,
    };
    // An issue that will not be done is closed too.
    let is_over = |status: Status| {
        status == Status::Complete || format == BacklogFormat::Github && status.is_over()
    };
    is == wanted || only_done && is_over(is) == is_over(wanted)
}

/// The most frequent words of the source.
fn spelling(text: &str, tasks: &[SourceTask]) -> Spelling {
    let mut spelling = Spelling::default();
    for task in tasks {
        for (_, at) in task.status_at.iter().filter(|(mark, _)| *mark == StatusMark::Word) {
            let word = text[at.clone()].trim_matches(['"', '\'', ' ']);
            if let Some((status, _)) = words::status(word) {
                spelling.note(status, word);
            }
        }
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
    let is_json = matches!(
        format,
        BacklogFormat::Prd
            | BacklogFormat::Beads
            | BacklogFormat::TaskMaster
            | BacklogFormat::Github
    );
    // An issue without its state came from a query that left it out.
    if task.status_at.is_empty() && format == BacklogFormat::Github {
        return Vec::new();
    }
    if task.status_at.is_empty() && is_json {
        let field = if format == BacklogFormat::Prd {
            format!("\"passes\": {}", wanted == Status::Complete)
        } else {
            format!("\"status\": \"{}\"", word(format, "", wanted, spelling))
        };
        return task.fields_end.map(|end| (end..end, format!(", {field}"))).into_iter().collect();
    }
    let written = |(mark, at): &(StatusMark, Range<usize>)| {
        let old = &text[at.clone()];
        let bare = old.trim_matches(['"', '\'', ' ']);
        let new = match mark {
            StatusMark::Word => word(format, bare, wanted, spelling),
            StatusMark::Flag => flag(bare, wanted == Status::Complete),
            StatusMark::Box => box_mark(bare, old, wanted)?,
        };
        let with = if bare.is_empty() { new } else { old.replacen(bare, &new, 1) };
        Some((at.clone(), with))
    };
    task.status_at.iter().filter_map(written).collect()
}

/// A status in the words of a tool.
fn word(format: BacklogFormat, old: &str, status: Status, spelling: &Spelling) -> String {
    let word = match format {
        BacklogFormat::Beads => match status {
            Status::Pending => "open",
            Status::InProgress => "in_progress",
            Status::Complete | Status::Cancelled => "closed",
            Status::Blocked | Status::NeedsInput => "blocked",
        },
        BacklogFormat::TaskMaster => match status {
            Status::Pending => "pending",
            Status::InProgress => "in-progress",
            Status::Complete => "done",
            Status::Cancelled => "cancelled",
            Status::Blocked | Status::NeedsInput => "blocked",
        },
        BacklogFormat::Github => {
            let word = if status.is_over() { "closed" } else { "open" };
            let is_upper = !old.is_empty() && old.chars().all(|c| c.is_ascii_uppercase());
            return if is_upper { word.to_ascii_uppercase() } else { word.to_owned() };
        }
        BacklogFormat::Prd
        | BacklogFormat::Markdown
        | BacklogFormat::Tickets
        | BacklogFormat::Csv
        | BacklogFormat::Graph => return spelling.write(status),
    };
    word.to_owned()
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
    let change = [Change::Set { key: "status", value: word }];
    if format == BacklogFormat::Graph {
        let mut document = Document::parse(text).ok()?;
        let node = load::node_of(&document, number)?;
        document.edit(node, &change).ok()?;
        return Some(document.text().to_owned());
    }
    let tickets = tickets::parts(text).ok()?.into_iter().filter(|part| part.tree.is_some());
    let part = { tickets }.nth(number)?;
    let mut document = Document::parse(&text[part.at.clone()]).ok()?;
    document.edit(part.tree.as_ref().and_then(Tree::root)?, &change).ok()?;
    Some(format!("{}{}{}", &text[..part.at.start], document.text(), &text[part.at.end..]))
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
            let wanted = statuses.get(&old.key).copied().unwrap_or_else(|| status_of(old));
            let is_written = updated.written.contains(&old.key);
            let is_wanted = same(format, new, status_of(new), wanted)
                || status_of(new) == status_of(old) && !is_written
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
        let issue = "[{\"number\":1,\"title\":\"t\",\"state\":\"OPEN\",\"closed\":false}]";
        assert_eq!(
            updated(BacklogFormat::Github, issue, &[("1", Status::Complete)]),
            issue.replace("OPEN", "CLOSED")
        );
        assert_eq!(updated(BacklogFormat::Github, issue, &[("1", Status::InProgress)]), issue);
    }
}
