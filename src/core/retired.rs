//! Names that earlier versions had, each with its replacement.

/// Whether a name was a command, a flag, a setting or a field of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetiredKind {
    /// A command.
    Command,
    /// A flag, as `command --flag`.
    Flag,
    /// A setting, also as a variable.
    Setting,
    /// A field of a task.
    TaskField,
}

use RetiredKind::{Command, Flag, Setting, TaskField};

/// The names, each with a sentence about the replacement.
const RETIRED: &[(RetiredKind, &str, &str)] = &[
    (Command, "export", "`ralph dag-status --json` prints the graph for `jq` and other tools"),
    (
        Command,
        "undo",
        "`git checkout task-graph.yaml`, or edit the file; `ralph check` validates it",
    ),
    (Command, "task-edit", "edit `task-graph.yaml`; `ralph check` validates it"),
    (Command, "task-move", "edit `task-graph.yaml`; `ralph check` validates it"),
    (Command, "task-remove", "edit `task-graph.yaml`; `ralph check` validates it"),
    (Command, "task-show", "`ralph show TASK` shows a task and its attempts"),
    (Command, "ls", "`ralph status` lists the run and the loops of this repository"),
    (Command, "spawn", "start child processes directly; a run waits for them and ends them"),
    (Command, "notify", "`ralph doctor` tries the commands of the setting `notify`"),
    (Flag, "pr --per", "`ralph pr` opens one for all that landed; `git cherry-pick` divides it"),
    (Flag, "pr --json", "`ralph report --json` has what landed"),
    (Flag, "review --calibrate", "nothing replaces it; `ralph review` shows what landed"),
    (Flag, "diff --tool", "`ralph show ID` names the commits for `git difftool`"),
    (Flag, "graph --fold", "`--story`, `--milestone` and `--tag` draw a part of the graph"),
    (Flag, "draft --extend", "`ralph draft` adds to the tasks of the graph"),
    (Flag, "draft --keep", "`cp` takes a draft of `logs/draft/` over; `ralph check` validates it"),
    (Flag, "draft --max-cost", "the setting `max_cost` limits each call"),
    (Flag, "draft --split", "say in the text which task to split"),
    (Flag, "draft --timeout", "the setting `timeout` limits each call"),
    (Flag, "init --agents-md", "`ralph template agents >> AGENTS.md` adds the section"),
    (Flag, "init --merge-driver", "`ralph merge-driver --install` sets the driver up"),
    (Flag, "init --skill", "`ralph template skill > .claude/skills/ralph/SKILL.md` writes it"),
    (
        Flag,
        "import --nested",
        "`x-parent` names the task around a part; add dependencies to the graph",
    ),
    (Flag, "import --format", "the format follows from the name of the file and its content"),
    (Flag, "import --milestone", "`--tag` labels the imported tasks"),
    (Flag, "import --story", "`--tag` labels the imported tasks"),
    (Flag, "stop --child", "`ralph stop --now` ends the attempt with all its processes"),
    (Flag, "import --refresh", "`ralph import` again adds what is new and names what changed"),
    (Setting, "agent_tasks", "tasks that attempts add run like others; `review` names them"),
    (Setting, "candidates", "`escalate` gives the next attempt to a stronger agent"),
    (Setting, "diagnose_by", "`ralph status` shows parked tasks; an agent may add tasks itself"),
    (Setting, "diagnose_cost", "`ralph status` shows parked tasks; an agent may add tasks itself"),
    (Setting, "on_parked", "a parked task waits for a person; an agent may add tasks itself"),
    (Setting, "on_red_base", "a run stops if checks fail without any work; mending them is a task"),
    (Setting, "verify_all_every", "the end of a run verifies the whole"),
    (
        Setting,
        "write_back",
        "`hooks: {after_attempt: …}` runs any command, such as `gh issue close`",
    ),
    (Setting, "sources", "`ralph import FILE` again adds what is new and names what changed"),
    (Setting, "pull_request", "`ralph pr` opens one; `hooks: {after_run: …}` can call it"),
    (Setting, "max_cost_per_day", "`max_cost` limits each run"),
    (Setting, "remarks", "`ralph check --strict` lists them"),
    (Setting, "fsync", "records are always written through to the disk"),
    (Setting, "lock_timeout", "a lock is waited for two minutes"),
    (Setting, "git_timeout", "a `git` command has ten minutes"),
    (Setting, "learnings", "the learnings are in `docs/knowledge/learnings.md`"),
    (Setting, "hook_timeout", "a hook has one minute"),
    (Setting, "select", "the order is `priority`, then the longest remaining chain"),
    (Setting, "verify_on", "work is verified where its attempt ran"),
    (Setting, "verify_baseline", "a red check is tried on the base when it matters"),
    (Setting, "verify_jobs", "as much work is verified at once as `jobs` allows"),
    (Setting, "proof_timeout", "a proof has 30 minutes"),
    (Setting, "notify_timeout", "a command of `notify` has ten seconds"),
    (Setting, "notify_wait", "the end of a run waits ten seconds for notifications"),
    (
        Setting,
        "queue",
        "work is verified in parallel; `verify_exclusive: true` runs one check at a time",
    ),
    (Setting, "merge_strict", "lines that both sides added are both kept, and the checks decide"),
    (
        Setting,
        "merge_union",
        "`*.md merge=union` in `.gitattributes` keeps the lines of both sides",
    ),
    (Setting, "regenerate", "the usual lock files are made again; others need a task"),
    (Setting, "redact", "secrets never reach `logs/`"),
    (TaskField, "candidates", "`escalate` gives the next attempt to a stronger agent"),
    (TaskField, "stale_after", "the setting `stale_after` is for all tasks"),
    (TaskField, "verify_baseline", "a red check is tried on the base when it matters"),
];

/// Returns the replacement of a name, as a sentence without a capital and a full stop.
pub fn replacement(kind: RetiredKind, name: &str) -> Option<&'static str> {
    let found = RETIRED.iter().find(|(of, known, _)| *of == kind && *known == name);
    found.map(|(_, _, instead)| *instead)
}

/// Returns the names of one kind.
pub fn names(kind: RetiredKind) -> impl Iterator<Item = &'static str> {
    RETIRED.iter().filter(move |(of, ..)| *of == kind).map(|(_, name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed_once_with_one_line() {
        for (at, (kind, name, instead)) in RETIRED.iter().enumerate() {
            let twice = RETIRED[..at].iter().any(|(of, known, _)| of == kind && known == name);
            assert!(!twice, "{name} is listed twice");
            assert!(!instead.is_empty() && instead.len() < 160, "{name}: {instead}");
            assert!(!instead.ends_with('.') && !instead.contains('\n'), "{name}: {instead}");
            assert_eq!(*kind == Flag, name.contains(" --"), "{name}");
        }
        assert_eq!(replacement(Command, "no-such-command"), None);
        assert!(
            [Command, Setting, TaskField]
                .iter()
                .all(|kind| names(*kind).all(|name| !name.is_empty()))
        );
    }
}
