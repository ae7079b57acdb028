//! Reads GitHub issues, as `gh issue list --json …` or the API prints them.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::{Value, json};

use super::fields::{RecordReader, clipped, fold, names, text, word_of};
use crate::graph::task::{Priority, Status};

/// The fields of an issue that a task has under the same meaning.
const KEPT: [&str; 8] =
    ["title", "body", "state", "closedAt", "closed_at", "createdAt", "created_at", "assignees"];

/// Reads an issue. A pull request is none.
pub(super) fn issue(value: &Value) -> Result<RecordReader, &'static str> {
    if value.get("pull_request").is_some_and(|value| !value.is_null()) {
        return Err("it is a pull request");
    }
    let mut record = RecordReader::new(value)?;
    let key = record.take("number").and_then(|number| text(&number)).ok_or("it has no `number`")?;
    let home = word_of(value, &["html_url", "url"]).unwrap_or_default();
    let home = home.replace("https://api.github.com/repos/", "https://github.com/");
    record.task.source = Some(home.clone()).filter(|home| home.contains("/issues/"));
    for label in record.take("labels").map(|labels| label_names(&labels)).unwrap_or_default() {
        match priority(&label) {
            Some(priority) if record.task.get("priority").is_none() => {
                record.task.set("priority", json!(priority.0));
            }
            _ => record.tag(vec![label]),
        }
    }
    let login = |person: &Value| word_of(person, &["login"]);
    for author in [record.take("author"), record.take("user")].into_iter().flatten() {
        record.task.set("author", json!(login(&author)));
    }
    if let Some(Value::Array(people)) = record.take("assignees") {
        record.task.set("assignees", people.iter().filter_map(login).collect());
    }
    if let Some(milestone) = record.take("milestone") {
        record.task.set("milestone", json!(word_of(&milestone, &["title"])));
    }
    if let Some(parent) = record.take("parent") {
        record.task.parent = word_of(&parent, &["number"]);
    }
    let reason = [record.take("stateReason"), record.take("state_reason")].into_iter().flatten();
    if reason
        .filter_map(|reason| text(&reason))
        .any(|reason| ["notplanned", "duplicate"].contains(&fold(&reason).as_str()))
    {
        record.task.set_status(Status::Cancelled);
    }
    comments(&mut record);
    if let Some(waits) = record.take("blockedBy") {
        let list = waits.get("nodes").unwrap_or(&waits);
        let numbers = list.as_array().into_iter().flatten();
        let numbers = numbers.filter_map(|issue| word_of(issue, &["number"]));
        record.task.depends_on.extend(numbers.map(Into::into));
    }
    for name in references(&word_of(value, &["body"]).unwrap_or_default()) {
        match number_here(&name, &home) {
            Some(number) => record.task.depends_on.push(number.into()),
            None => {
                record.lose("body", format!("`{}` is in another repository", clipped(&name)));
            }
        }
    }
    let others = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let others = others.filter(|name| !KEPT.contains(name) && record.take(name).is_some());
    let others: Vec<&str> = others.collect();
    if !others.is_empty() {
        record.lose(&others.join(", "), "only on GitHub; `source` leads there");
    }
    record.task.key = key;
    Ok(record)
}

fn label_names(labels: &Value) -> Vec<String> {
    let name = |label: &Value| text(label).or_else(|| word_of(label, &["name"]));
    labels.as_array().map_or_else(|| names(labels), |list| list.iter().filter_map(name).collect())
}

/// The priority that a label such as `priority: high` or `P1` means.
fn priority(label: &str) -> Option<Priority> {
    let lower = label.trim().to_ascii_lowercase();
    let bare = lower.strip_prefix("priority").map(|rest| rest.trim_matches([':', '/', '-', ' ']));
    let is_level = lower.len() == 2 && lower.starts_with('p');
    bare.or(is_level.then_some(lower.as_str())).and_then(Priority::parse)
}

fn comments(record: &mut RecordReader) {
    match record.take("comments") {
        Some(Value::Array(comments)) => {
            for comment in &comments {
                let person = comment.get("author").or_else(|| comment.get("user"));
                let person = person.and_then(|person| word_of(person, &["login"]));
                let person = person.unwrap_or_else(|| "someone".to_owned());
                if let Some(body) = word_of(comment, &["body"]) {
                    record.describe(&format!("Comment by {person}:\n{body}"));
                }
            }
        }
        Some(Value::Number(count)) if count.as_u64() != Some(0) => record.lose(
            "comments",
            "the source has only their number: `gh issue list --json comments,…` has the text",
        ),
        _ => {}
    }
}

/// `Depends on #12, #13` or `Blocked by: https://github.com/o/r/issues/4`.
static PHRASE: LazyLock<Regex> = LazyLock::new(|| {
    let name = r"(?:https://github\.com/)?[\w./-]*(?:#|/issues/)\d+";
    let phrase = format!(
        r"(?i)(\w*n't|not|no longer)?\s*\b(?:depends on|blocked by):?\s+({name}(?:(?:,| and|, and)\s*{name})*)"
    );
    Regex::new(&phrase).expect("the expression is valid")
});

/// The issues that a text depends on, as it names them: not in code, in quotes and in comments.
fn references(body: &str) -> Vec<String> {
    let comment =
        Regex::new(r"(?s)<!--.*?-->|```.*?```|`[^`\n]*`|(?m:^>.*$)").expect("it is valid");
    let body = comment.replace_all(body, "");
    let denied = |found: &regex_lite::Captures<'_>| found.get(1).is_some();
    let lists = PHRASE.captures_iter(&body).filter(|found| !denied(found));
    let names = lists.flat_map(|found| {
        let list = found.get(2).map_or("", |list| list.as_str());
        list.split([',', ' '])
            .filter(|name| name.contains(char::is_numeric))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    names.collect()
}

/// The number of an issue of the same repository.
fn number_here(name: &str, home: &str) -> Option<String> {
    let (repository, number) = name.rsplit_once('#').or_else(|| name.rsplit_once("/issues/"))?;
    let repository = repository.trim_start_matches("https://github.com/");
    let is_here = repository.is_empty() || home.contains(&format!("github.com/{repository}/"));
    is_here.then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_the_text() {
        let body = "Blocked by #12, #13 and o/r#14.\nSee #99. Depends on: \
                    https://github.com/o/r/issues/20\n```\nblocked by #50\n```\n\
                    depends on x/y#60\n<!-- blocked by #70\ndepends on #71 -->\n\
                    > blocked by #72\nIt is not blocked by #74.\nWrite `blocked by #75` here.\n";
        let home = "https://github.com/o/r/issues/1";
        let found = references(body);
        let here: Vec<String> = found.iter().filter_map(|name| number_here(name, home)).collect();
        assert_eq!(here, ["12", "13", "14", "20"], "{found:?}");
        assert_eq!(found.last().map(String::as_str), Some("x/y#60"));
    }

    #[test]
    fn labels_can_be_priorities() {
        for (label, want) in [
            ("priority: high", Some(1)),
            ("Priority/Critical", Some(0)),
            ("P1", Some(1)),
            ("high", None),
            ("performance", None),
        ] {
            assert_eq!(priority(label).map(|priority| priority.0), want, "{label}");
        }
    }
}
