//! The help: examples below the flags of a command, the pages of commands, and what an unknown
//! command or flag may mean.

use std::ffi::OsString;

use clap::{
    ArgMatches, Args, Command, CommandFactory, Error, FromArgMatches,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{Cli, commands};
use crate::core::{
    agents::agent_preset,
    diagnostic::nearest,
    exit::{Exit, Failure},
    retired::{RetiredKind, replacement},
};

/// The examples of all commands, as the help shows them.
const EXAMPLES: &str = include_str!("examples.txt");
const GLOBAL_OPTIONS: &str = "Global options: see `ralph --help`";
/// The widest page.
const WIDEST: usize = 100;

/// The flags of `run` that its help shows first, by their ids.
const RUN_FLAGS: [&str; 8] =
    ["once", "tasks", "jobs", "agent_name", "max_iterations", "max_cost", "max_duration", "detach"];

/// The flags of a command, with its examples below them. The description of the command comes from
/// its place in the list of commands, not from the doc comment of `A`.
#[derive(Debug)]
pub struct Flags<A>(pub A);

impl<A: Args> Args for Flags<A> {
    fn augment_args(command: Command) -> Command {
        let about = Resettable::from(command.get_about().cloned());
        let long_about = Resettable::from(command.get_long_about().cloned());
        // clap has copied the global options by now.
        let command =
            command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
        let mut command = A::augment_args(command).about(about).long_about(long_about);
        if command.get_name() == "run" {
            let is_usual = |id: &str| RUN_FLAGS.contains(&id);
            command = command.mut_args(|arg| match arg.get_id().as_str() {
                id if is_usual(id) || arg.is_last_set() => arg,
                _ => arg.help_heading("More options"),
            });
        }
        let Some(examples) = examples(command.get_name()) else {
            return command;
        };
        let own = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        command
            .after_help(format!("{own}{examples}\n\n{GLOBAL_OPTIONS}"))
            .mut_subcommands(|command| command.after_help(GLOBAL_OPTIONS))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: Args> FromArgMatches for Flags<A> {
    fn from_arg_matches(found: &ArgMatches) -> Result<Flags<A>, Error> {
        A::from_arg_matches(found).map(Flags)
    }

    fn from_arg_matches_mut(found: &mut ArgMatches) -> Result<Flags<A>, Error> {
        A::from_arg_matches_mut(found).map(Flags)
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(found)
    }
}

/// The text with the examples of a command.
fn examples(command: &str) -> Option<String> {
    let of_command = |part: &&str| part.lines().next() == Some(command);
    let part = EXAMPLES.split("\n## ").find(of_command)?;
    let lines = part.trim_end().split_once('\n')?.1;
    Some(format!("Examples:\n{lines}"))
}

/// The commands that a night needs, which `ralph --help` lists.
const FIRST: [&str; 12] = [
    "init",
    "run",
    "status",
    "review",
    "answer",
    "note",
    "task-add",
    "task-reset",
    "take-back",
    "plan",
    "serve",
    "stop",
];
/// What agents and scripts call, which `ralph help agents` lists.
const FOR_AGENTS: [&str; 5] = ["ask", "note", "verify", "task-complete", "heartbeat"];
/// The headings of `ralph help all`, each with its first command: the order is that of [`Cli`].
const GROUPS: [(&str, &str); 7] = [
    ("Work", "run"),
    ("See", "status"),
    ("Review", "review"),
    ("Tasks", "check"),
    ("Backlog", "import"),
    ("Recover", "restore"),
    ("Set up", "init"),
];

/// Whether people, agents or scripts call a command, and not only `ralph` itself.
pub(super) fn is_public(command: &Command) -> bool {
    !command.get_name().starts_with("__") && command.get_name() != "help"
}

/// The command line whose help lists the first commands only.
pub(super) fn first_page() -> Command {
    Cli::command().mut_subcommands(|command| {
        match FIRST.iter().position(|name| *name == command.get_name()) {
            Some(place) => command.display_order(place),
            None => command.hide(true),
        }
    })
}

/// The page `ralph help all`: every command that is not hidden, a part for each group.
pub(super) fn all_pages() -> Vec<Command> {
    let mut groups: Vec<(&str, Vec<Command>)> = Vec::new();
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let group = GROUPS.iter().find(|(_, first)| *first == command.get_name());
        groups.extend(group.map(|(title, _)| (*title, Vec::new())));
        if let Some((_, commands)) = groups.last_mut() {
            commands.push(command.clone());
        }
    }
    let last = groups.len() - 1;
    let part = |(number, (title, commands)): (usize, (&'static str, Vec<Command>))| {
        let page = page(title, commands);
        if number < last {
            return page;
        }
        page.after_help(
            "`ralph help COMMAND` shows flags and examples, `ralph help agents` the commands that agents \
             and scripts call.",
        )
    };
    groups.into_iter().enumerate().map(part).collect()
}

/// The page `ralph help agents`.
pub(super) fn agents_page() -> Command {
    let whole = Cli::command();
    let commands = FOR_AGENTS.iter().filter_map(|name| whole.find_subcommand(name)).cloned();
    page("Commands that agents and scripts call", commands.collect()).after_help(
        "Inside an attempt, an agent reports its task as done with `ralph task-complete ID`, asks a \
         person with `ralph ask \"…\"`, and leaves `ralph note \"…\"` for later agents. A person's \
         `ralph note TASK \"…\"` is for the next attempts at a task.\n\n\
         For shells and tools: `ralph template`, `schema`, `completions`, `man`, `merge-driver`.",
    )
}

/// A list of commands below a heading.
fn page(title: &'static str, commands: Vec<Command>) -> Command {
    let in_order = commands.into_iter().enumerate();
    let shown = in_order.map(|(place, command)| command.hide(false).display_order(place));
    Command::new("ralph")
        .max_term_width(WIDEST)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .subcommand_help_heading(title)
        .subcommands(shown)
        .help_template("{all-args}{after-help}")
}

/// Words that people and other tools use, with the commands that they probably mean.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["begin", "exec", "execute", "go", "launch", "start", "work"], &["run"]),
    (&["once"], &["run --once"]),
    (&["next"], &["prompt", "plan"]),
    (&["claim", "peek", "preview"], &["prompt"]),
    (&["dry-run", "eta", "forecast", "order"], &["plan"]),
    (&["wait"], &["pause"]),
    (&["continue", "unpause"], &["resume"]),
    (&["abort", "cancel", "end", "halt", "kill", "quit"], &["stop"]),
    (&["dashboard", "info", "ps", "state", "stats"], &["status"]),
    (&["board", "list", "list-tasks", "ls-tasks", "task-list", "tasks", "todo"], &["dag-status"]),
    (&["dot", "draw", "mermaid", "picture", "tree"], &["graph"]),
    (&["loops"], &["status"]),
    (&["digest", "overview", "summary"], &["report"]),
    (&["history", "iterations", "runs"], &["attempts"]),
    (&["attempt", "describe", "inspect", "view"], &["show"]),
    (&["events", "journal", "log", "output", "tail"], &["logs"]),
    (&["follow", "monitor", "watch"], &["logs --follow"]),
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
    (&["alive", "ping"], &["heartbeat"]),
    (&["add", "new-task"], &["task-add"]),
    (&["revert", "rollback", "takeback"], &["take-back", "restore"]),
    (&["changes", "patch"], &["diff"]),
    (&["deinit", "uninstall"], &["uninit"]),
    (&["merge-request", "mr", "pull-request"], &["pr"]),
    (&["example", "examples", "tutorial"], &["demo"]),
    (&["question"], &["ask"]),
    (&["comment", "hint", "learn", "remark", "remember", "tell"], &["note"]),
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
    if let Some(instead) = replacement(RetiredKind::Command, word) {
        let message = format!("command `{word}` is gone: {instead}");
        return Some(Failure::new(Exit::Usage, message).into());
    }
    let next = words.iter().skip_while(|other| *other != word.as_str()).nth(1);
    let hint = match &suggestions(word, next.and_then(|next| next.to_str()))[..] {
        [] => "`ralph help all` lists the commands".to_owned(),
        meant => {
            let meant: Vec<String> = meant.iter().map(|line| format!("`ralph {line}`")).collect();
            format!("did you mean {}?", meant.join(" or "))
        }
    };
    let message = format!("no command `{}`; {hint}", word.escape_debug());
    Some(Failure::new(Exit::Usage, message).into())
}

/// Flags that people and other tools use.
struct GuessedFlags {
    /// The commands that the flags are given to.
    commands: &'static [&'static str],
    flags: &'static [&'static str],
    /// What does it.
    instead: &'static str,
}

/// The flags of the commands that run agents or foresee it.
const fn to_run(flags: &'static [&'static str], instead: &'static str) -> GuessedFlags {
    GuessedFlags { commands: &["run", "plan", "tonight", "loop", "resume"], flags, instead }
}

/// The flags of the commands that add or change a task.
const fn to_task(flags: &'static [&'static str], instead: &'static str) -> GuessedFlags {
    GuessedFlags { commands: &["task-add"], flags, instead }
}

/// The guesses, each flag once for a command.
const GUESSED_FLAGS: &[GuessedFlags] = &[
    to_run(
        &["--model", "-m"],
        "`agent: {preset: claude, model: opus}` in `.ralph/config.yaml` names it, and so does the \
         command of an agent: `-- claude -p --model opus`",
    ),
    to_run(
        &["--dry-run", "--preview", "--simulate", "--estimate"],
        "`ralph plan` foresees a run and changes nothing",
    ),
    to_run(
        &["--parallel", "--concurrency", "--workers", "--max-parallel", "--threads", "--agents"],
        "`--jobs N` makes up to N attempts at a time",
    ),
    to_run(
        &["-n", "--iterations", "--max-attempts", "--limit"],
        "`--max-iterations N` bounds the number of attempts, `--jobs N` makes N at a time",
    ),
    to_run(
        &["--budget", "--max-budget", "--max-budget-usd", "--max-spend", "--cost", "--usd"],
        "`--max-cost USD` limits spending",
    ),
    to_run(
        &["--until", "--for", "--time-limit", "--max-time", "--deadline", "--hours"],
        "`--max-duration 8h` limits the time",
    ),
    to_run(
        &["--background", "--daemon", "-d", "--bg", "--daemonize"],
        "`--detach` runs in the background",
    ),
    to_run(&["--branch", "-b", "--target", "--into"], "`--onto BRANCH` lands on another branch"),
    to_run(&["--id", "--only", "--tasks", "-t"], "`--task ID` chooses a task, and may be repeated"),
    to_run(&["--retries", "--max-retries"], "`max_attempts: 3` in `.ralph/config.yaml` sets it"),
    to_run(&["--continue", "--resume"], "`ralph run` goes on where the last run ended"),
    to_run(
        &["--prompt", "--prompt-file", "-p"],
        "`ralph loop --prompt-file FILE` repeats an agent on a prompt",
    ),
    to_run(&["--sandbox", "--container", "--docker"], "`--on sandbox` chooses an executor"),
    to_run(&["--worktree", "--worktrees", "--isolated"], "each attempt already has a copy"),
    to_run(
        &["--yes", "-y", "--yolo", "--force", "--dangerously-skip-permissions"],
        "a run asks nothing; `ralph doctor` shows what the agent may do without permission",
    ),
    to_task(&["--depends", "--deps", "--blocked-by", "--needs"], "`--after ID` names dependencies"),
    to_task(&["--label", "--labels", "--tags"], "`--tag TAG` adds a label"),
    to_task(&["--body", "--desc", "-d", "--prompt"], "`--description TEXT`, `@FILE` or `-`"),
    to_task(&["--title"], "the title has no flag: `ralph task-add \"Write the parser\"`"),
    to_task(&["--test", "--check", "--command"], "`--verify CMD` is the command that must succeed"),
    GuessedFlags {
        commands: &["logs"],
        flags: &["--tail"],
        instead: "`--lines N` starts with the last N, `--follow` goes on",
    },
    GuessedFlags {
        commands: &["note", "answer"],
        flags: &["-m", "--message", "--text"],
        instead: "the text has no flag: `ralph note TASK \"…\"`, `ralph answer TASK \"…\"`",
    },
];

/// The error for an unknown flag that is retired or that people guess, and for a word after `run`.
/// `None` for every other error.
pub(super) fn unknown_flag(error: &Error, words: &[OsString]) -> Option<anyhow::Error> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let names = commands();
    let command = words
        .iter()
        .skip(1)
        .filter_map(|word| word.to_str())
        .find(|word| names.iter().any(|name| name == word))?;
    let flag = given.split('=').next().unwrap_or(given);
    let message = match replacement(RetiredKind::Flag, &format!("{command} {flag}")) {
        Some(instead) => format!("flag `{flag}` is gone: {instead}"),
        None => guessed(command, flag)?,
    };
    Some(Failure::new(Exit::Usage, message).into())
}

/// What an unknown flag of a command, or a word after it, may mean.
fn guessed(command: &str, flag: &str) -> Option<String> {
    if !flag.starts_with('-') {
        let chooses = if agent_preset::find(flag).is_some() { "agent" } else { "task" };
        let shown = flag.escape_debug();
        return ["run", "plan", "tonight"].contains(&command).then(|| {
            format!(
                "unexpected `{shown}`; `ralph {command} --{chooses} {shown}` chooses the {chooses}"
            )
        });
    }
    let is_meant = |it: &&GuessedFlags| it.commands.contains(&command) && it.flags.contains(&flag);
    let found = GUESSED_FLAGS.iter().find(is_meant)?;
    Some(format!("no flag `{flag}`: {}", found.instead))
}

/// The commands that `word`, followed by `next`, may stand for.
fn suggestions(word: &str, next: Option<&str>) -> Vec<String> {
    let word = word.to_lowercase().replace('_', "-");
    let names = commands();
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
    fn pages_name_commands_that_there_are() {
        let names = commands();
        for name in FIRST.iter().chain(&FOR_AGENTS).chain(GROUPS.iter().map(|(_, first)| first)) {
            assert!(names.iter().any(|it| it == name), "{name}");
        }
        let shown: usize = all_pages().iter().map(|it| it.get_subcommands().count()).sum();
        assert_eq!(all_pages().len(), GROUPS.len());
        assert!(shown < names.len());
        for command in Cli::command().get_subcommands().filter(|it| is_public(it)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            assert!((1..=60).contains(&about.chars().count()), "{name}: {about}");
            assert!(about.starts_with(char::is_uppercase) && !about.ends_with('.'), "{name}");
            let is_listed = !command.is_hide_set() || FOR_AGENTS.contains(&name);
            let is_named = agents_page().get_after_help().unwrap().to_string().contains(name);
            assert!(is_listed || is_named || name == "attach", "{name} is on no page");
        }
    }

    #[test]
    fn a_synonym_is_unique_and_names_a_command() {
        let names: BTreeSet<String> = commands().into_iter().collect();
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
    fn a_guessed_flag_is_unknown_and_unique() {
        let whole = Cli::command();
        let mut seen = BTreeSet::new();
        for guess in GUESSED_FLAGS {
            for (command, flag) in
                guess.commands.iter().flat_map(|it| guess.flags.iter().map(move |flag| (it, flag)))
            {
                assert!(seen.insert((command, flag)), "{command} {flag} stands twice");
                // A command may be an alias, or know the flag itself.
                let Some(command) = whole.find_subcommand(command) else { continue };
                let error = || guessed(command.get_name(), flag).unwrap();
                assert!(error().starts_with(&format!("no flag `{flag}`: ")), "{}", error());
            }
        }
    }

    #[test]
    fn guesses_are_answered_and_typos_left_to_the_parser() {
        let answer = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            unknown_flag(&error, &words).map_or_else(|| error.to_string(), |it| it.to_string())
        };
        for (line, part) in [
            ("ralph run --model opus", "--model opus"),
            ("ralph run --dry-run", "`ralph plan`"),
            ("ralph run --parallel=4", "`--jobs N`"),
            ("ralph run -n 4", "`--max-iterations N`"),
            ("ralph run --budget 5", "`--max-cost USD`"),
            ("ralph run --until 7:00", "`--max-duration 8h`"),
            ("ralph run --background", "`--detach`"),
            ("ralph run --branch x", "`--onto BRANCH`"),
            ("ralph run parser", "`ralph run --task parser` chooses the task"),
            ("ralph run codex", "`ralph run --agent codex` chooses the agent"),
            ("ralph -C . task-add x --label y", "`--tag TAG`"),
            ("ralph note a -m b", "`ralph note TASK"),
            ("ralph run --max-iteration 3", "'--max-iterations'"),
            ("ralph status --jsn", "'--json'"),
            ("ralph status parser", "unexpected argument 'parser'"),
        ] {
            assert!(answer(line).contains(part), "{line}: {}", answer(line));
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
            ("attem", "attempts"),
            ("task", "task-add, task-complete, task-reset, task-block"),
            ("add", "task-add"),
            // Misspelt, a synonym too.
            ("rnu", "run"),
            ("dag-stauts", "dag-status"),
            ("histroy", "attempts"),
            ("xylophone", ""),
        ] {
            assert_eq!(meant(line), want, "{line}");
        }
    }

    #[test]
    fn examples_fit_the_widest_help() {
        assert!(EXAMPLES.lines().all(|line| line.len() <= WIDEST));
    }

    #[test]
    fn every_command_has_an_example_that_can_be_typed() {
        for name in commands() {
            let examples = examples(&name).unwrap_or_else(|| panic!("no example for {name}"));
            for line in examples.lines().skip(1) {
                let at = line.find("ralph ").expect("it calls ralph");
                let line = line[at..].split("  ").next().unwrap_or_default();
                let line = line.split([')', '|', '>', '<']).next().unwrap_or_default();
                let words = line.split_whitespace().scan(None, |quoted: &mut Option<()>, word| {
                    // A quoted text is one word.
                    let inside = quoted.is_some();
                    if word.matches('"').count() % 2 == 1 {
                        *quoted = if inside { None } else { Some(()) };
                    }
                    Some((!inside).then(|| OsString::from(word)))
                });
                let parsed = Cli::command().try_get_matches_from(words.flatten());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
        let sections = EXAMPLES.matches("\n## ").count();
        assert_eq!(sections, commands().len(), "an example for no command");
    }
}
