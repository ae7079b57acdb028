//! The names and words of other tools: which field of the graph a field becomes, and which status
//! and which priority a word means.

use super::{SourceLink, value::SourceValue};
use crate::graph::task::{Priority, Status};

/// What a field of a source means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldRole {
    Id,
    Title,
    Description,
    /// A part of the description with this heading.
    Section(&'static str),
    Status,
    /// Whether it is done.
    Done,
    Priority,
    DependsOn,
    /// What waits for it.
    Blocks,
    /// Its relations, as Linear writes them: some are what waits for it.
    Relations,
    /// Those of others to it.
    InverseRelations,
    /// Another name of it.
    Alias,
    Tags,
    Story,
    Milestone,
    Parent,
    Notes,
    CompletedAt,
    /// Kept, under a name that means nothing else.
    Other,
    /// Not kept, for this reason.
    Dropped(&'static str),
    /// Read elsewhere.
    Skipped,
}

/// Roles by folded name. The first present name of a role wins; the others are kept.
const ROLES: &[(FieldRole, &str)] = &[
    (FieldRole::Id, "id key identifier taskid issuekey ticketid"),
    (FieldRole::Title, "title name summary subject headline"),
    (FieldRole::Description, "description body desc content"),
    (FieldRole::Section("Details"), "details"),
    (FieldRole::Section("Design"), "design"),
    (
        FieldRole::Section("Acceptance criteria"),
        "acceptancecriteria acceptance criteria definitionofdone dod",
    ),
    (FieldRole::Section("Steps"), "steps"),
    (FieldRole::Section("Technical notes"), "technicalnotes implementationnotes"),
    (FieldRole::Section("Test strategy"), "teststrategy"),
    (FieldRole::Status, "status state"),
    (FieldRole::Done, "passes done completed complete isdone iscomplete"),
    (FieldRole::Priority, "priority prio urgency"),
    (
        FieldRole::DependsOn,
        "dependson dependencies deps blockedby requires prerequisites needs after \
         blockedbydependencies inwardissuelinkblocks depends dependency dependenton predecessors \
         predecessor waitson waitingon blockers prerequisite",
    ),
    (FieldRole::Blocks, "blocks before outwardissuelinkblocks"),
    (FieldRole::Relations, "relations"),
    (FieldRole::InverseRelations, "inverserelations"),
    (FieldRole::Alias, "issueid"),
    (FieldRole::Tags, "tags labels label tag keywords"),
    (FieldRole::Story, "story userstory"),
    (FieldRole::Milestone, "milestone"),
    (FieldRole::Parent, "parent parentid epic epicid parentissue parenttask epiclink"),
    (FieldRole::Notes, "notes"),
    (FieldRole::CompletedAt, "completedat closedat finishedat doneat resolvedat resolved"),
];

/// Names, folded, under which other tools have a status or an order that is not read here.
const TELLING: &str = "column columnname boardcolumn list listname lane swimlane section sectionname \
                       sectioncolumn bucket bucketname stage workflowstate progress percentcomplete \
                       percentdone resolution phase order sortorder rank sequence position wave \
                       successors successor";

/// Statuses by folded word, in addition to those of the graph.
const STATUSES: &[(Status, &str)] = &[
    (
        Status::Pending,
        "new triage planned draft proposed queued unstarted idea icebox selectedfordevelopment \
         failing failed false no pinned notdone incomplete reopened opened",
    ),
    (
        Status::InProgress,
        "review inreview codereview testing qa inqa active working hooked underway indevelopment \
         assigned claimed inprocess running",
    ),
    (
        Status::Complete,
        "resolved fixed merged shipped released passed passing passes finished verified \
         implemented true yes",
    ),
    (Status::Blocked, "waiting stuck paused impeded"),
    (Status::NeedsInput, "question needsinfo awaitinginput needsdecision"),
    (
        Status::Cancelled,
        "tombstone deleted archived abandoned duplicate invalid notplanned wontdo obsolete \
         declined removed",
    ),
];

/// Priorities by folded word, in addition to those of the graph.
const PRIORITIES: &[(Priority, &str)] = &[
    (Priority(0), "highest blocker immediate showstopper sev0"),
    (Priority(1), "major important must musthave sev1"),
    (Priority(2), "moderate default should shouldhave sev2"),
    (Priority(3), "minor could couldhave sev3"),
    (Priority(4), "lowest trivial someday nicetohave sev4"),
];

/// What a word stands for in a table.
fn meaning<T: Copy>(table: &[(T, &str)], word: &str) -> Option<T> {
    let folded = fold(word);
    let found = table.iter().find(|(_, words)| words.split(' ').any(|known| known == folded));
    found.map(|(meaning, _)| *meaning)
}

/// The role of a field by its name.
pub(super) fn role(name: &str) -> FieldRole {
    meaning(ROLES, name).unwrap_or(FieldRole::Other)
}

/// Whether other tools have a status or an order under this name.
pub(super) fn is_telling(name: &str) -> bool {
    let folded = fold(name);
    TELLING.split_whitespace().any(|known| known == folded)
}

/// Reads a status in the words of any tool. The second value is whether `ralph` has the same word.
pub(super) fn status(word: &str) -> Option<(Status, bool)> {
    if let Some(status) = Status::parse(word.trim()) {
        // In other tools it means later, not never.
        return Some((status, fold(word) != "deferred"));
    }
    meaning(STATUSES, word).map(|status| (status, false))
}

/// Reads a priority in the words of any tool.
pub(super) fn priority(word: &str) -> Option<Priority> {
    Priority::parse(word).or_else(|| meaning(PRIORITIES, word))
}

/// A name without separators and case: `depends_on` and `dependsOn` are the same.
pub(super) fn fold(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// A text of a source in a message.
pub(super) fn clipped(text: &str) -> String {
    const LONGEST: usize = 60;
    let escaped = text.escape_debug().to_string();
    if escaped.chars().count() <= LONGEST {
        return escaped;
    }
    escaped.chars().take(LONGEST).chain(['…']).collect()
}

/// A long text as the graph keeps it: `\n` line breaks, no blanks at the end of lines, no blank
/// lines around it.
pub(super) fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let start = lines.iter().take_while(|line| line.is_empty()).count();
    lines[start..].join("\n").trim_end_matches('\n').to_owned()
}

/// One line of a text: its line breaks and repeated blanks are single blanks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text of several lines: a text, or a list of texts as a list.
pub(super) fn long_text(value: &SourceValue) -> Option<String> {
    if !value.is_list() {
        return value.text().map(|text| tidy(&text));
    }
    let item = |item: &SourceValue| {
        let text = item.text().map(String::from);
        let text =
            text.or_else(|| item.word_of(&["text", "title", "description", "criterion", "name"]))?;
        Some(format!("- {}", tidy(&text).replace('\n', "\n  ")))
    };
    let items: Option<Vec<String>> = value.items().iter().map(item).collect();
    items.map(|items| items.join("\n"))
}

/// The names in a list of tasks: items, objects with an id, or one text with separators.
pub(super) fn links(value: &SourceValue) -> Vec<SourceLink> {
    const NAMES: [&str; 9] = [
        "identifier",
        "id",
        "key",
        "number",
        "depends_on_id",
        "dependsOn",
        "issue",
        "task",
        "title",
    ];
    if value.is_list() {
        return value.items().iter().flat_map(links).collect();
    }
    if value.is_map() {
        let found = NAMES.iter().find_map(|name| value.get(name));
        return found.and_then(SourceValue::link).into_iter().collect();
    }
    let text = value.text().unwrap_or_default();
    let names = text.split([',', ';', '\n']).map(|name| name.trim().trim_start_matches('#'));
    let is_name = |name: &&str| {
        !name.is_empty() && !["none", "n/a", "-"].contains(&name.to_ascii_lowercase().as_str())
    };
    names.filter(is_name).map(|name| SourceLink::new(name, &value.at)).collect()
}

/// The names in a list of labels.
pub(super) fn names(value: &SourceValue) -> Vec<String> {
    if value.is_list() {
        return value.items().iter().flat_map(names).collect();
    }
    if value.is_map() {
        return value.word_of(&["name", "title", "label", "id"]).into_iter().collect();
    }
    let text = value.text().unwrap_or_default();
    text.split([',', ';']).map(one_line).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_other_tools_are_known() {
        for (word, want) in [
            ("In Review", Status::InProgress),
            ("tombstone", Status::Cancelled),
            ("won't do", Status::Cancelled),
            ("To Do", Status::Pending),
            ("RESOLVED", Status::Complete),
            ("in_progress", Status::InProgress),
            ("not_planned", Status::Cancelled),
        ] {
            assert_eq!(status(word).map(|found| found.0), Some(want), "{word}");
        }
        assert_eq!(status("Deferred"), Some((Status::Cancelled, false)));
        assert_eq!(status("cancelled"), Some((Status::Cancelled, true)));
        assert_eq!(status("someday maybe"), None);
        assert_eq!(status(""), None);
        assert_eq!(priority("Highest"), Some(Priority(0)));
        assert_eq!(priority("P3"), Some(Priority(3)));
        assert_eq!(priority("blue"), None);
        assert_eq!(role("Depends on"), FieldRole::DependsOn);
    }
}
