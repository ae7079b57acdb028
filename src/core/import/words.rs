//! The words that other tools use for statuses and priorities.

use crate::graph::task::{Priority, Status};

const STATUSES: [(Status, &[&str]); 6] = [
    (
        Status::Pending,
        &[
            "new",
            "triage",
            "planned",
            "draft",
            "proposed",
            "queued",
            "unstarted",
            "idea",
            "icebox",
            "selectedfordevelopment",
            "failing",
            "failed",
            "false",
            "no",
            "pinned",
            "notdone",
            "incomplete",
            "reopened",
            "opened",
        ],
    ),
    (
        Status::InProgress,
        &[
            "review",
            "inreview",
            "codereview",
            "testing",
            "qa",
            "inqa",
            "active",
            "working",
            "hooked",
            "underway",
            "indevelopment",
            "assigned",
            "claimed",
            "inprocess",
            "running",
        ],
    ),
    (
        Status::Complete,
        &[
            "resolved",
            "fixed",
            "merged",
            "shipped",
            "released",
            "passed",
            "passing",
            "passes",
            "finished",
            "verified",
            "implemented",
            "true",
            "yes",
        ],
    ),
    (Status::Blocked, &["waiting", "stuck", "paused", "impeded"]),
    (Status::NeedsInput, &["question", "needsinfo", "awaitinginput", "needsdecision"]),
    (
        Status::Cancelled,
        &[
            "tombstone",
            "deleted",
            "archived",
            "abandoned",
            "duplicate",
            "invalid",
            "notplanned",
            "wontdo",
            "obsolete",
            "declined",
            "removed",
        ],
    ),
];

/// Reads a status in the words of any tool. The second value is whether `ralph` has the same word.
pub(super) fn status(word: &str) -> Option<(Status, bool)> {
    if let Some(status) = Status::parse(word.trim()) {
        // In other tools it means later, not never.
        return Some((status, fold(word) != "deferred"));
    }
    let folded = fold(word);
    let found = STATUSES.iter().find(|(_, words)| words.contains(&folded.as_str()));
    found.map(|(status, _)| (*status, false))
}

/// Reads a priority in the words of any tool.
pub(super) fn priority(word: &str) -> Option<Priority> {
    if let Some(priority) = Priority::parse(word) {
        return Some(priority);
    }
    let value = match fold(word).as_str() {
        "highest" | "blocker" | "immediate" | "showstopper" | "sev0" => 0,
        "major" | "important" | "must" | "musthave" | "sev1" => 1,
        "moderate" | "default" | "should" | "shouldhave" | "sev2" => 2,
        "minor" | "could" | "couldhave" | "sev3" => 3,
        "lowest" | "trivial" | "someday" | "nicetohave" | "sev4" => 4,
        _ => return None,
    };
    Some(Priority(value))
}

/// A name without separators and case: `depends_on` and `dependsOn` are the same.
pub(super) fn fold(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
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
        assert_eq!(priority("Highest"), Some(Priority(0)));
        assert_eq!(priority("P3"), Some(Priority(3)));
        assert_eq!(priority("blue"), None);
    }
}
