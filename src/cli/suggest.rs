//! What to suggest for an unknown command.

use std::ffi::OsString;

use clap::{
    CommandFactory, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{Cli, commands};
use crate::core::{
    diagnostic::nearest,
    exit::{Exit, Failure},
};

/// Words that people and other tools use, with the commands that they probably mean.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["begin", "exec", "execute", "go", "launch", "start", "work"], &["run"]),
    (&["once"], &["run --once"]),
    (&["dry-run"], &["run --dry-run"]),
    (&["next"], &["prompt", "plan"]),
    (&["claim", "peek", "preview"], &["prompt"]),
    (&["eta", "forecast", "order"], &["plan"]),
    (&["wait"], &["pause"]),
    (&["continue", "unpause"], &["resume"]),
    (&["abort", "cancel", "end", "halt", "kill", "quit"], &["stop"]),
    (&["dashboard", "info", "ps", "state", "stats"], &["status"]),
    (&["board", "list", "list-tasks", "ls-tasks", "task-list", "tasks", "todo"], &["dag-status"]),
    (&["dot", "draw", "mermaid", "picture", "tree"], &["graph"]),
    (&["loops"], &["ls"]),
    (&["digest", "overview", "summary"], &["report"]),
    (&["history", "iterations", "runs"], &["attempts"]),
    (&["attempt", "describe", "inspect", "view"], &["show"]),
    (&["events", "journal", "log", "output", "tail"], &["logs"]),
    (&["follow", "monitor", "watch"], &["attach", "logs --follow"]),
    (&["budget", "cost", "spend", "tokens", "usage"], &["costs"]),
    (&["lint", "validate"], &["check"]),
    (&["close", "complete", "done", "finish"], &["task-complete"]),
    (&["redo", "reopen", "reset", "restart", "retry", "unblock"], &["task-reset"]),
    (&["block", "hold", "skip"], &["task-block"]),
    (&["reply", "respond"], &["answer"]),
    (&["recover"], &["restore"]),
    (&["clean", "gc", "prune", "slot", "worktree", "worktrees", "wt"], &["slots"]),
    (&["setup"], &["init"]),
    (&["create", "new"], &["task-add", "init"]),
    (&["diagnose", "health"], &["doctor"]),
    (&["configure", "get", "set", "settings"], &["config"]),
    (&["cron", "daemon", "service", "timer"], &["schedule"]),
    (&["alert", "alerts", "notifications"], &["notify"]),
    (&["alive", "ping"], &["heartbeat"]),
    (&["add", "new-task"], &["task-add"]),
    (&["change", "edit", "modify"], &["task-edit"]),
    (&["mv", "reorder"], &["task-move"]),
    (&["delete", "drop", "rm", "task-delete", "task-rm"], &["task-remove"]),
    (&["revert", "rollback"], &["undo", "restore"]),
    (&["example", "examples", "tutorial"], &["demo"]),
    (&["question"], &["ask"]),
    (&["learn", "remember"], &["note"]),
    (&["child", "fork", "subagent"], &["spawn"]),
    (&["test"], &["verify"]),
    (&["doc", "docs", "documentation", "manual"], &["man", "help"]),
    (&["agent", "agents"], &["help agents"]),
    (&["version"], &["--version"]),
];

/// The error for an unknown command. `None` for every other error.
pub(super) fn unknown_command(error: &Error, words: &[OsString]) -> Option<anyhow::Error> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    // `ralph slots lst` is left to clap, which names the usage of `ralph slots`.
    let usage = ContextValue::StyledStr(Cli::command().render_usage());
    if error.get(ContextKind::Usage).is_some_and(|found| found.to_string() != usage.to_string()) {
        return None;
    }
    let next = words.iter().skip_while(|other| *other != word.as_str()).nth(1);
    let hint = match &suggestions(word, next.and_then(|next| next.to_str()))[..] {
        [] => "`ralph --help` lists the commands".to_owned(),
        meant => {
            let meant: Vec<String> = meant.iter().map(|line| format!("`ralph {line}`")).collect();
            format!("did you mean {}?", meant.join(" or "))
        }
    };
    let message = format!("no command `{}`; {hint}", word.escape_debug());
    Some(Failure::new(Exit::Usage, message).into())
}

/// The commands that `word`, followed by `next`, may stand for.
fn suggestions(word: &str, next: Option<&str>) -> Vec<String> {
    let word = word.to_lowercase().replace('_', "-");
    let names: Vec<String> = commands().into_iter().map(|(name, _)| name).collect();
    let joined = next.map(|next| format!("{word}-{next}"));
    let exact = joined.iter().chain([&word]).find(|name| names.contains(name));
    if let Some(name) = exact {
        return vec![name.clone()];
    }
    if let Some(meant) = joined.as_deref().and_then(synonym).or_else(|| synonym(&word)) {
        return meant;
    }
    let shortened = |name: &&String| {
        word.len() > 1 && (name.starts_with(&word) || name.split('-').any(|part| part == word))
    };
    let longer: Vec<String> = names.iter().filter(shortened).cloned().collect();
    if !longer.is_empty() {
        return longer;
    }
    let synonyms = SYNONYMS.iter().flat_map(|(words, _)| *words).copied();
    let near = nearest(&word, names.iter().map(String::as_str).chain(synonyms));
    near.map(|near| synonym(near).unwrap_or_else(|| vec![near.to_owned()])).unwrap_or_default()
}

fn synonym(word: &str) -> Option<Vec<String>> {
    let (_, meant) = SYNONYMS.iter().find(|(words, _)| words.contains(&word))?;
    Some(meant.iter().map(|line| (*line).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_synonym_is_unique_and_names_a_command() {
        let names: BTreeSet<String> = commands().into_iter().map(|(name, _)| name).collect();
        let mut seen = BTreeSet::new();
        for (words, meant) in SYNONYMS {
            for word in *words {
                assert!(seen.insert(*word), "{word} stands twice");
                assert!(!names.contains(*word), "{word} is a command now");
            }
            for line in *meant {
                let name = line.split(' ').next().unwrap_or_default();
                assert!(names.contains(name) || ["help", "--version"].contains(&name), "{line}");
            }
        }
    }

    #[test]
    fn an_unknown_word_names_the_commands_it_may_mean() {
        let meant = |line: &str| {
            let mut words = line.split(' ');
            suggestions(words.next().unwrap_or_default(), words.next()).join(", ")
        };
        for (line, want) in [
            ("reset parser", "task-reset"),
            ("complete", "task-complete"),
            ("done", "task-complete"),
            ("block", "task-block"),
            ("tasks", "dag-status"),
            ("list", "dag-status"),
            ("ls-tasks", "dag-status"),
            ("next", "prompt, plan"),
            ("start", "run"),
            ("work", "run"),
            ("kill", "stop"),
            ("abort", "stop"),
            ("log", "logs"),
            ("history", "attempts"),
            ("cost", "costs"),
            ("validate", "check"),
            ("lint", "check"),
            ("worktrees", "slots"),
            ("docs", "man, help"),
            // Two words for a name with a hyphen, and other spellings.
            ("task reset", "task-reset"),
            ("dag status", "dag-status"),
            ("dag_status", "dag-status"),
            ("Run", "run"),
            // Shortened.
            ("sched", "schedule"),
            ("dag", "dag-status"),
            ("at", "attempts, attach"),
            (
                "task",
                "task-add, task-edit, task-show, task-move, task-remove, task-complete, task-reset, \
                 task-block",
            ),
            ("add", "task-add"),
            ("task rm", "task-remove"),
            ("rm", "task-remove"),
            // Misspelt, a synonym too.
            ("rnu", "run"),
            ("dag-stauts", "dag-status"),
            ("histroy", "attempts"),
            ("xylophone", ""),
        ] {
            assert_eq!(meant(line), want, "{line}");
        }
    }
}
