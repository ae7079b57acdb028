//! The names and words of other tools: which field of the graph a field becomes, and which status
//! and which priority a word means.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{SourceBacklog, SourceLink, value::SourceValue};
use crate::{
    graph::task::{Priority, Status, TaskId},
    task_id::MAX_ID,
};

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
    (FieldRole::Id, "id key identifier taskid issuekey ticketid nr nummer kennung"),
    (FieldRole::Title, "title name summary subject headline titel betreff aufgabe bezeichnung"),
    (FieldRole::Description, "description body desc content beschreibung"),
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
    (FieldRole::Priority, "priority prio urgency priorität prioritaet dringlichkeit"),
    (
        FieldRole::DependsOn,
        "dependson dependencies deps blockedby requires prerequisites needs after \
         blockedbydependencies inwardissuelinkblocks depends dependency dependenton predecessors \
         predecessor waitson waitingon blockers prerequisite abhängigkeiten abhängigkeit abhängigvon \
         vorgänger voraussetzungen blockiertvon",
    ),
    (FieldRole::Blocks, "blocks before outwardissuelinkblocks"),
    (FieldRole::Relations, "relations"),
    (FieldRole::InverseRelations, "inverserelations"),
    (FieldRole::Alias, "issueid"),
    (FieldRole::Tags, "tags labels label tag keywords schlagworte schlagwörter"),
    (FieldRole::Story, "story userstory"),
    (FieldRole::Milestone, "milestone meilenstein"),
    (FieldRole::Parent, "parent parentid epic epicid parentissue parenttask epiclink"),
    (FieldRole::Notes, "notes notizen"),
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
         failing failed false no pinned notdone incomplete reopened opened offen neu geplant",
    ),
    (
        Status::InProgress,
        "review inreview codereview testing qa inqa active working hooked underway indevelopment \
         assigned claimed inprocess running inarbeit inbearbeitung begonnen",
    ),
    (
        Status::Complete,
        "resolved fixed merged shipped released passed passing passes finished verified \
         implemented true yes ja erledigt fertig abgeschlossen",
    ),
    (Status::Blocked, "waiting stuck paused impeded blockiert"),
    (Status::NeedsInput, "question needsinfo awaitinginput needsdecision"),
    (
        Status::Cancelled,
        "tombstone deleted archived abandoned duplicate invalid notplanned wontdo obsolete \
         declined removed verworfen abgebrochen",
    ),
];

/// Priorities by folded word, in addition to those of the graph.
const PRIORITIES: &[(Priority, &str)] = &[
    (Priority(0), "highest blocker immediate showstopper sev0 kritisch"),
    (Priority(1), "major important must musthave sev1 hoch"),
    (Priority(2), "moderate default should shouldhave sev2 mittel normal"),
    (Priority(3), "minor could couldhave sev3 niedrig gering"),
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
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
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

// The names of tasks: ids for the names of other tools, and which task of a plan is which of its last
// reading.

/// The length of an id that is made from a title.
const LONGEST: usize = 48;

/// An id in the place of each name, in the same order, with whether it differs from the name.
///
/// A valid name that is free is kept. All others depend only on the name and on the ids that are
/// taken, so that the same source always gets the same ids.
pub(super) fn map_ids<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    taken: &HashSet<String>,
) -> Vec<(String, bool)> {
    let kept = names.clone().filter(|name| TaskId::new(name).is_ok() && !taken.contains(*name));
    let mut used: HashSet<String> = kept.map(str::to_owned).collect();
    let mut given: HashSet<&str> = HashSet::new();
    let mut next = |name: &'a str| {
        let is_kept = used.contains(name) && given.insert(name) && TaskId::new(name).is_ok();
        if is_kept {
            return (name.to_owned(), false);
        }
        let mut id = cleaned(name);
        if taken.contains(&id) || used.contains(&id) {
            id = with_suffix(&id, &hash(name));
        }
        let mut count = 2;
        while taken.contains(&id) || used.contains(&id) {
            id = with_suffix(&cleaned(name), &format!("{}-{count}", hash(name)));
            count += 1;
        }
        used.insert(id.clone());
        (id, true)
    };
    names.map(&mut next).collect()
}

/// A name with only the characters of an id.
fn cleaned(name: &str) -> String {
    let mut id = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let repeats = id.ends_with(c) && "-.".contains(c);
        if !(repeats || id.is_empty() && !c.is_ascii_alphanumeric()) {
            id.push(c);
        }
    }
    id.truncate(MAX_ID);
    let id = id.trim_end_matches(['-', '.']);
    if id.is_empty() { format!("task-{}", hash(name)) } else { id.to_owned() }
}

fn with_suffix(id: &str, suffix: &str) -> String {
    let length = id.len().min(MAX_ID - suffix.len() - 1);
    format!("{}-{suffix}", id[..length].trim_end_matches(['-', '.']))
}

/// A short id made from a title: `Add a login page` becomes `add-a-login-page`.
pub(super) fn slug(title: &str) -> String {
    let mut id = String::new();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        if !id.is_empty() && id.len() + word.len() >= LONGEST {
            break;
        }
        if !id.is_empty() {
            id.push('-');
        }
        id.extend(word.chars().take(LONGEST).map(|c| c.to_ascii_lowercase()));
    }
    if id.is_empty() && !title.trim().is_empty() {
        return format!("task-{}", hash(title));
    }
    id
}

/// Six letters that differ for different texts (FNV-1a).
pub(super) fn hash(text: &str) -> String {
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:06x}", (sum ^ (sum >> 24)) & 0x00ff_ffff)
}

/// Gives tasks that are named by a number, as in `Task 3`, the keys that the tasks with their titles
/// had at the last reading, since numbers change with a plan. `known` has titles by key.
///
/// All other tasks are known by their ids, or by their titles, from which their keys are made.
pub(super) fn identify(backlog: &mut SourceBacklog, known: &HashMap<String, String>) {
    let mut taken: HashSet<String> = known.keys().cloned().collect();
    taken.extend(backlog.tasks.iter().map(|task| task.key.clone()));
    let mut numbered = Vec::new();
    let mut is_same: HashSet<String> = HashSet::new();
    for (number, task) in backlog.tasks.iter().enumerate().filter(|(_, task)| task.is_key_made) {
        let title = task.get("title").and_then(Value::as_str).unwrap_or_default();
        if known.get(&task.key).is_some_and(|known| known == title) {
            is_same.insert(task.key.clone());
        } else if !task.key.starts_with(&slug(title)) {
            numbered.push((number, title.to_owned()));
        }
    }
    let free = known.iter().filter(|(key, _)| !is_same.contains(*key));
    let mut by_title: HashMap<&str, &str> =
        free.map(|(key, title)| (title.as_str(), key.as_str())).collect();
    let mut changed: HashMap<String, String> = HashMap::new();
    for (number, title) in numbered {
        let old = &backlog.tasks[number].key;
        let mut names = (2..).map(|count| format!("{old}-{count}"));
        let key = match by_title.remove(title.as_str()) {
            Some(key) => key.to_owned(),
            None if known.contains_key(old) => {
                names.find(|name| !taken.contains(name)).expect("numbers do not end")
            }
            None => continue,
        };
        taken.insert(key.clone());
        changed.insert(old.clone(), key);
    }
    for task in &mut backlog.tasks {
        let links = task.depends_on.iter_mut().chain(&mut task.parent).map(|link| &mut link.key);
        for key in links.chain([&mut task.key]) {
            if let Some(new) = changed.get(key) {
                key.clone_from(new);
            }
        }
    }
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

#[cfg(test)]
mod ids_tests {
    use proptest::prelude::*;

    use super::super::{BacklogFormat, read};

    use super::*;

    #[test]
    fn valid_names_are_kept_and_others_mapped() {
        let taken = HashSet::from(["taken".to_owned()]);
        let names = ["a/b", "a-b", "taken", "T-1", "\u{1b}[31m", "a..b", "../../etc", "日本"];
        let ids = map_ids(names.iter().copied(), &taken);
        let of = |at: usize| ids[at].0.as_str();
        assert_eq!((of(1), of(3)), ("a-b", "T-1"));
        assert!(of(0).starts_with("a-b-") && of(2).starts_with("taken-"), "{ids:?}");
        assert_eq!((of(5), of(6)), ("a.b", "etc"));
        assert!(of(7).starts_with("task-"));
        assert_eq!(ids, map_ids(names.iter().copied(), &taken));
        assert_eq!(slug("Add a *login* page"), "add-a-login-page");
    }

    /// The keys of the tasks of a changed plan.
    fn keys(before: &str, after: &str) -> Vec<String> {
        let tasks = |text: &str| read(BacklogFormat::Markdown, "x", text).unwrap();
        let title = |value: Option<&Value>| value.unwrap().as_str().unwrap().to_owned();
        let known = tasks(before).tasks;
        let known = known.iter().map(|task| (task.key.clone(), title(task.get("title"))));
        let mut backlog = tasks(after);
        identify(&mut backlog, &known.collect());
        backlog.tasks.into_iter().map(|task| task.key).collect()
    }

    #[test]
    fn a_task_is_known_by_its_id_or_its_title() {
        for (what, before, after, want) in [
            ("the same", "- [ ] a\n- [ ] a\n", "- [ ] a\n- [ ] a\n", &["a", "a-2"][..]),
            ("another place", "- [ ] a\n- [ ] b\n", "# B\n\n- [x] b\n- [ ] a\n", &["b", "a"]),
            ("another title", "- [ ] add login\n", "- [ ] add login page\n", &["add-login-page"]),
            (
                "other numbers",
                "### Task 1: A\n\n- [x] s\n\n### Task 2: B\n\n- [ ] s\n",
                "### Task 1: New\n\n- [ ] s\n\n### Task 2: A\n\n- [x] s\n\n### Task 3: B\n\n- [ ] s\n",
                &["task-1-2", "task-1", "task-2"],
            ),
            (
                "a number with the title of another task",
                "- [ ] 1.1 A\n- [ ] 1.2 B\n",
                "- [ ] 1.1 A\n- [ ] 1.2 A\n- [ ] 1.3 B\n",
                &["1.1", "1.2-2", "1.2"],
            ),
            ("its own id", "- [ ] T001 a\n- [ ] T002 b\n", "- [ ] T002 a\n", &["T002"]),
        ] {
            assert_eq!(keys(before, after), want, "{what}");
        }
    }

    #[test]
    fn dependencies_follow_the_keys() {
        let before = "### Task 1: A\n\ntext\n";
        let after = "### Task 1: B\n\nDepends on: Task 2\n\n### Task 2: A\n\ntext\n";
        let mut backlog = read(BacklogFormat::Markdown, "x", after).unwrap();
        identify(&mut backlog, &HashMap::from([("task-1".to_owned(), "A".to_owned())]));
        assert_eq!(backlog.tasks[0].depends_on[0].key, "task-1");
        assert_eq!(keys(before, after), ["task-1-2", "task-1"]);
    }

    proptest! {
        #[test]
        fn mapped_ids_are_valid_and_unique(
            names in prop::collection::vec(".{0,80}", 0..40),
            taken in prop::collection::hash_set("[a-c]{1,2}", 0..9),
        ) {
            let ids = map_ids(names.iter().map(String::as_str), &taken);
            let unique: HashSet<&String> = ids.iter().map(|(id, _)| id).collect();
            prop_assert_eq!(unique.len(), names.len());
            for ((id, is_mapped), name) in ids.iter().zip(&names) {
                prop_assert!(TaskId::new(id).is_ok(), "{:?}", id);
                prop_assert!(!taken.contains(id));
                prop_assert_eq!(*is_mapped, id != name);
            }
        }
    }
}
