//! Reads GitHub issues, as `gh issue list --json …` or the API prints them.

use serde_json::json;

use super::{
    SourceLink,
    builder::{Reading, TaskBuilder},
    fields::{self, FieldRole, clipped, fold, names, tidy},
    value::SourceValue,
};
use crate::{diagnostic::Diagnostic, graph::task::Status};

/// The reason for fields that only describe the issue on GitHub.
const ON_GITHUB: &str = "only about the page on GitHub; `source` leads there";

/// The fields that are read here.
const READ_HERE: &str = "number labels user author assignees assignee pullrequest comments \
                         statereason closed parent subissues blockedby blocking url htmlurl";

/// The fields that are not kept, in addition to all addresses.
const DROPPED: &str = "id nodeid reactiongroups reactions ispinned locked activelockreason \
                       authorassociation performedviagithubapp timelineurl projectcards \
                       projectitems closedby closedbypullrequestsreferences score draft typename \
                       repository subissuessummary issuedependenciessummary issuefieldvalues \
                       pinnedcomment";

/// The fields that mean the same as elsewhere.
const USUAL: &str = "body title state milestone closedat";

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let mut values = SourceValue::of_json_lines(text)?;
    if let [whole] = values.as_slice()
        && let Some(list) = list_in(whole)
    {
        values = list.items().to_vec();
    }
    // `gh api --paginate --slurp` makes a list of pages.
    if values.iter().any(SourceValue::is_list) {
        values = values.into_iter().flat_map(SourceValue::into_items).collect();
    }
    let mut reading = Reading::default();
    reading.is_empty = values.is_empty();
    let mut children: Vec<(String, SourceLink)> = Vec::new();
    for item in &values {
        issue(&mut reading, item, &mut children);
    }
    reading.adopt(&children);
    Ok(reading)
}

/// The list of issues in the answer of a search or of GraphQL.
pub(super) fn list_in(whole: &SourceValue) -> Option<&SourceValue> {
    let mut at = whole;
    for _ in 0..6 {
        if let Some(list) = ["items", "issues", "nodes"].iter().find_map(|name| at.list(name)) {
            return Some(list);
        }
        at = ["data", "repository", "issues", "search", "organization"]
            .iter()
            .find_map(|name| at.get(name))?;
    }
    None
}

fn issue(reading: &mut Reading, item: &SourceValue, children: &mut Vec<(String, SourceLink)>) {
    let Some(own) = item.get("number").and_then(SourceValue::link) else {
        return reading.lose("issue", "it has no `number`", item.at.start..item.at.start + 1);
    };
    if item.get("pull_request").is_some_and(|value| !value.is_empty()) {
        return reading.lose_of(&own.key, "issue", "it is a pull request", own.at);
    }
    let Some(mut builder) = TaskBuilder::of(reading, item, "issue", role) else { return };
    let url = item.word_of(&["html_url", "url"]).filter(|url| url.contains("/issues/"));
    builder.task.source =
        url.map(|url| url.replace("https://api.github.com/repos/", "https://github.com/"));
    builder.task.key.clone_from(&own.key);
    builder.task.at = own.at.clone();
    for label in item.get("labels").map(names).unwrap_or_default() {
        match priority_label(&label) {
            Some(priority) if builder.task.get("priority").is_none() => {
                builder.set("priority", json!(priority));
            }
            _ => builder.tag(vec![label]),
        }
    }
    let logins = |name: &str| -> Vec<String> {
        let login = |one: &SourceValue| one.word_of(&["login"]);
        let people = item.get(name).map(|people| {
            if people.is_list() { people.items() } else { std::slice::from_ref(people) }
        });
        people.unwrap_or_default().iter().filter_map(login).collect()
    };
    if let Some(author) = logins("author").into_iter().chain(logins("user")).next() {
        builder.set("author", json!(author));
    }
    let assignees = logins("assignees");
    if !assignees.is_empty() {
        builder.set("assignees", json!(assignees));
    }
    comments(&mut builder, item);
    let reason = item.word_of(&["stateReason", "state_reason"]).unwrap_or_default();
    if ["notplanned", "duplicate"].contains(&fold(&reason).as_str()) {
        builder.set_status(Status::Cancelled);
    }
    relations(&mut builder, item, &own, children);
    builder.finish(reading);
}

fn role(name: &str) -> Option<FieldRole> {
    let name = fold(name);
    let is_one_of = |names: &str| names.split(' ').any(|known| known == name);
    if is_one_of(USUAL) {
        return None;
    }
    Some(if is_one_of(READ_HERE) {
        FieldRole::Skipped
    } else if is_one_of(DROPPED) || name.ends_with("url") {
        FieldRole::Dropped(ON_GITHUB)
    } else {
        FieldRole::Other
    })
}

fn comments(builder: &mut TaskBuilder, item: &SourceValue) {
    let Some(comments) = item.get("comments") else {
        return;
    };
    if comments.is_list() {
        for comment in comments.items() {
            let Some(body) = comment.word_of(&["body"]) else {
                continue;
            };
            let author = comment.get("author").or_else(|| comment.get("user"));
            let author = author.and_then(|one| one.word_of(&["login"]));
            let author = author.unwrap_or_else(|| "someone".to_owned());
            builder.describe(&format!("Comment by {author}:\n{}", tidy(&body)));
        }
    } else if comments.word().is_some_and(|count| count != "0") {
        let why =
            "the source has only their number: `gh issue list --json comments,…` has the text";
        builder.lose("comments", why, comments.at.clone());
    }
}

/// The priority that a label such as `priority: high` or `P1` means.
pub(super) fn priority_label(label: &str) -> Option<i64> {
    let lower = label.trim().to_ascii_lowercase();
    let bare = ["priority", "prio", "severity", "urgency", "p"].iter().find_map(|prefix| {
        let rest = lower.strip_prefix(prefix)?;
        let rest = rest.trim_start();
        rest.strip_prefix([':', '/', '-', '=', '_']).map(|rest| rest.trim_matches([':', ' ']))
    });
    let word = bare.unwrap_or(&lower);
    let is_level =
        word.len() == 2 && word.starts_with('p') && word[1..].bytes().all(|b| b.is_ascii_digit());
    let is_alone = ["critical", "urgent", "blocker"].contains(&word)
        || ["high", "medium", "low"].iter().any(|level| {
            *word == format!("{level} priority") || *word == format!("{level}-priority")
        });
    if bare.is_none() && !is_level && !is_alone {
        return None;
    }
    let word = word.trim_end_matches(" priority").trim_end_matches("-priority");
    fields::priority(word).map(|priority| priority.0)
}

/// Reads what the issue waits for, and its sub-issues.
fn relations(
    builder: &mut TaskBuilder,
    item: &SourceValue,
    own: &SourceLink,
    children: &mut Vec<(String, SourceLink)>,
) {
    let listed = |names: &[&str]| -> Vec<SourceLink> {
        let found = names.iter().find_map(|name| item.get(name));
        let list = found.map(|value| value.get("nodes").unwrap_or(value));
        let numbered = |one: &SourceValue| {
            let key = one.word_of(&["number"]).or_else(|| one.word())?;
            Some(SourceLink::new(key, &one.at))
        };
        list.map(|list| list.items().iter().filter_map(numbered).collect()).unwrap_or_default()
    };
    builder.task.depends_on.extend(listed(&["blockedBy", "blocked_by"]));
    let parts = listed(&["subIssues", "sub_issues"]);
    children.extend(parts.into_iter().map(|link| (link.key, own.clone())));
    if let Some(parent) = item.get("parent")
        && let Some(key) = parent.word_of(&["number"])
    {
        builder.task.parent = Some(SourceLink::new(key, &parent.at));
    }
    let Some(body) = item.get("body") else {
        return;
    };
    let first = body.at.start..body.at.start + 1;
    let home = item.word_of(&["html_url", "url"]).unwrap_or_default();
    let found = references(&body.text().unwrap_or_default(), &home);
    if found.blocked_by.contains(&own.key) {
        builder.lose("body", "it names the issue itself", first.clone());
    }
    let others = found.blocked_by.into_iter().filter(|key| *key != own.key);
    builder.task.depends_on.extend(others.map(|key| SourceLink::new(key, &body.at)));
    children.extend(found.children.into_iter().map(|key| (key, own.clone())));
    for name in found.elsewhere {
        let why = format!("`{}` is in another repository", clipped(&name));
        builder.lose("body", why, first.clone());
    }
}

/// The issues that a text names.
#[derive(Default)]
struct IssueReferences {
    blocked_by: Vec<String>,
    children: Vec<String>,
    elsewhere: Vec<String>,
}

fn references(body: &str, home: &str) -> IssueReferences {
    const PHRASES: [&str; 5] =
        ["blocked by", "depends on", "dependent on", "waiting on", "requires"];
    let mut found = IssueReferences::default();
    let (mut is_code, mut is_listing) = (false, false);
    let body = without_comments(body);
    for line in body.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with('>') {
            continue;
        }
        // The parts between backticks are code.
        let line: String = line.split('`').step_by(2).collect();
        let line = line.trim();
        let lower = line.to_ascii_lowercase();
        if let Some(item) = line.strip_prefix(['-', '*', '+']).map(str::trim_start) {
            let boxed = ["[ ]", "[x]", "[X]"].iter().find_map(|mark| item.strip_prefix(mark));
            if is_listing || boxed.is_some() {
                let (numbers, others) = issues(boxed.unwrap_or(item), home);
                let list = if is_listing { &mut found.blocked_by } else { &mut found.children };
                list.extend(numbers);
                found.elsewhere.extend(others);
            }
            if is_listing {
                continue;
            }
        } else if !line.is_empty() {
            is_listing = false;
        }
        for phrase in PHRASES {
            for (at, _) in lower.match_indices(phrase) {
                if is_negated(&lower[..at]) {
                    continue;
                }
                let rest = &line[at + phrase.len()..];
                let (numbers, others) = issues(rest, home);
                is_listing |= numbers.is_empty() && rest.trim_matches([':', '*', ' ']).is_empty();
                found.blocked_by.extend(numbers);
                found.elsewhere.extend(others);
            }
        }
    }
    found
}

/// A text without HTML comments, such as those of issue templates.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once("-->").map_or("", |(_, rest)| rest));
    }
    plain
}

/// Whether the words before a phrase deny it.
fn is_negated(before: &str) -> bool {
    let last = before.split_whitespace().rev().take(2);
    last.into_iter()
        .any(|word| ["not", "no", "never", "longer"].contains(&word) || word.ends_with("n't"))
}

/// The issues at the start of a text, as `#12, #13 and #14`: those of this repository, and others.
fn issues(text: &str, home: &str) -> (Vec<String>, Vec<String>) {
    let (mut numbers, mut others) = (Vec::new(), Vec::new());
    for word in text.split(|c: char| c.is_whitespace() || ",;&".contains(c)) {
        let word = word.trim_matches(|c: char| ":*.()[]<>\"'`_".contains(c));
        if word.is_empty()
            || ["and", "or", "issue", "issues", "on"].contains(&word.to_ascii_lowercase().as_str())
        {
            continue;
        }
        let digits = |text: &str| -> Option<String> {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            (!digits.is_empty()).then_some(digits)
        };
        let own = word.strip_prefix('#').map(|number| (true, number));
        let by_address = || {
            let (before, number) = word.split_once("/issues/")?;
            let repository = before.trim_start_matches("https://");
            Some((home.is_empty() || home.contains(repository), number))
        };
        let by_name = || {
            let (name, number) = word.split_once('#').filter(|(name, _)| name.contains('/'))?;
            Some((home.contains(&format!("/{name}/")), number))
        };
        let found = own.or_else(by_address).or_else(by_name);
        match found.and_then(|(is_here, number)| Some((is_here, digits(number)?))) {
            Some((true, number)) => numbers.push(number),
            Some((false, _)) => others.push(word.to_owned()),
            None => break,
        }
    }
    (numbers, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_in_prose_and_lists() {
        let body = "Blocked by #12, #13 and o/r#14.\nSee #99.\n\nDepends on:\n- #20\n- [ ] #21\n\n\
                    ## Parts\n- [ ] #30\n- [x] https://github.com/o/r/issues/31\n- [ ] text #40\n\
                    ```\nblocked by #50\n```\nrequires x/y#60\n<!-- blocked by #70\ndepends on #71 -->\n\
                    > blocked by #72\nThis no longer depends on #73, and is not blocked by #74.\n\
                    Write `blocked by #75` here.\n";
        let found = references(body, "https://github.com/o/r/issues/1");
        assert_eq!(found.blocked_by, ["12", "13", "14", "20", "21"]);
        assert_eq!(found.children, ["30", "31"]);
        assert_eq!(found.elsewhere, ["x/y#60"]);
    }

    #[test]
    fn labels_can_be_priorities() {
        for (label, want) in [
            ("priority: high", Some(1)),
            ("Priority/Critical", Some(0)),
            ("P1", Some(1)),
            ("p:2", Some(2)),
            ("high priority", Some(1)),
            ("urgent", Some(0)),
            ("high", None),
            ("bug", None),
            ("performance", None),
        ] {
            assert_eq!(priority_label(label), want, "{label}");
        }
    }
}
