//! The help: examples below the flags of a command, the groups of commands, and what an unknown
//! command may mean.

use std::{ffi::OsString, fmt::Write as _};

use clap::{
    ArgMatches, Args, Command, CommandFactory, Error, FromArgMatches,
    builder::{Resettable, Styles},
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{Cli, commands};
use crate::{
    adapters::terminal,
    core::{
        diagnostic::nearest,
        exit::{Exit, Failure},
        retired::{RetiredKind, replacement},
    },
};

/// The examples of all commands, as the help shows them.
const EXAMPLES: &str = include_str!("examples.txt");
const GLOBAL_OPTIONS: &str = "Global options: see `ralph --help`";
/// The widest page.
const WIDEST: usize = 100;

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
        let command = A::augment_args(command).about(about).long_about(long_about);
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

/// A group of commands on a help page: in the order of [`Cli`], from its first one up to the next
/// group.
struct CommandGroup {
    /// The heading.
    title: &'static str,
    /// Whether `ralph --help` lists it; `ralph help agents` lists the others.
    is_main: bool,
    /// The first command.
    first: &'static str,
}

/// The groups, in the order of the pages.
const GROUPS: &[CommandGroup] = &[
    CommandGroup { title: "Work", is_main: true, first: "run" },
    CommandGroup { title: "See", is_main: true, first: "status" },
    CommandGroup { title: "Review", is_main: true, first: "review" },
    CommandGroup { title: "Tasks", is_main: true, first: "check" },
    CommandGroup { title: "Backlog", is_main: true, first: "import" },
    CommandGroup { title: "Recover", is_main: true, first: "restore" },
    CommandGroup { title: "Set up", is_main: true, first: "init" },
    CommandGroup { title: "Agents", is_main: false, first: "ask" },
    CommandGroup { title: "Scripts", is_main: false, first: "template" },
];

/// The commands of each group that are not hidden, with their descriptions.
fn grouped(command: &Command) -> Vec<(&'static CommandGroup, Vec<(String, String)>)> {
    let mut found: Vec<(&CommandGroup, Vec<(String, String)>)> = Vec::new();
    for one in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = one.get_name();
        found.extend(GROUPS.iter().find(|group| group.first == name).map(|it| (it, Vec::new())));
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        if let Some((_, commands)) = found.last_mut() {
            commands.push((name.to_owned(), about));
        }
    }
    found
}

/// The command line with the grouped list of commands in its help.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let list = list(&command, true);
    let options = heading("Global options");
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\n{options}\n{{options}}\
         {{after-help}}"
    ))
}

/// The page `ralph help agents`.
pub(super) fn agents_page() -> Command {
    let list = list(&Cli::command(), false);
    let list = list.trim_end();
    Command::new("ralph")
        .max_term_width(WIDEST)
        .about("Commands that agents and scripts call")
        .after_help(
            "An agent reports that its task is done with `ralph task-complete ID`. `ask` and \
             `note` work only inside an attempt. `ralph help COMMAND` shows flags and examples.",
        )
        .help_template(format!("{{about-with-newline}}\n{list}{{after-help}}"))
}

/// The groups: the title, and for each command its name and its description.
pub(super) fn all() -> Vec<(&'static str, Vec<(String, String)>)> {
    let groups = grouped(&Cli::command());
    groups.into_iter().map(|(group, commands)| (group.title, commands)).collect()
}

fn heading(title: &str) -> String {
    let style = Styles::default().get_header().to_owned();
    format!("{style}{title}:{style:#}")
}

/// The groups of one page.
fn list(command: &Command, is_main: bool) -> String {
    let mut groups = grouped(command);
    groups.retain(|(group, _)| group.is_main == is_main);
    let names = groups.iter().flat_map(|(_, commands)| commands);
    let width = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    let screen = terminal::stdout_width().or_else(terminal::columns_set).unwrap_or(WIDEST);
    let room = screen.min(WIDEST).saturating_sub(width + 4);
    let literal = Styles::default().get_literal().to_owned();
    let mut text = String::new();
    for (group, commands) in groups {
        let blank = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{blank}{}", heading(group.title));
        for (name, about) in commands {
            let about = terminal::wrap(&about, room);
            let about: Vec<&str> = about.iter().map(|line| line.trim_start()).collect();
            let about = about.join(&format!("\n{:1$}", "", width + 4));
            let gap = width + 2 - name.len();
            let _ = writeln!(text, "  {literal}{name}{literal:#}{:gap$}{about}", "");
        }
    }
    text
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
    (&["alive", "ping"], &["heartbeat"]),
    (&["add", "new-task"], &["task-add"]),
    (&["revert", "rollback", "takeback"], &["take-back", "restore"]),
    (&["changes", "patch"], &["diff"]),
    (&["deinit", "uninstall"], &["uninit"]),
    (&["merge-request", "mr", "pull-request"], &["pr"]),
    (&["example", "examples", "tutorial"], &["demo"]),
    (&["question"], &["ask"]),
    (&["learn", "remember"], &["note"]),
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
        [] => "`ralph --help` lists the commands".to_owned(),
        meant => {
            let meant: Vec<String> = meant.iter().map(|line| format!("`ralph {line}`")).collect();
            format!("did you mean {}?", meant.join(" or "))
        }
    };
    let message = format!("no command `{}`; {hint}", word.escape_debug());
    Some(Failure::new(Exit::Usage, message).into())
}

/// Flags that people and other tools use, each with its command (`*` for any) and with what does it.
const FLAG_SYNONYMS: &[(&str, &[&str], &str)] = &[
    ("run", &["--model"], "name the model with the agent: `--agent 'claude --model opus'`"),
    ("run", &["--dry-run", "--preview"], "`ralph plan` foresees a run and changes nothing"),
    (
        "run",
        &["--parallel", "--concurrency", "--workers", "-n", "--max-parallel"],
        "`--jobs N` (`-j N`) makes N attempts at a time; `--max-iterations N` bounds their number",
    ),
    ("run", &["--budget", "--max-budget", "--max-budget-usd"], "`--max-cost USD` limits spending"),
    ("run", &["--until", "--for", "--time-limit"], "`--max-duration 8h` limits the time"),
    ("run", &["--background", "--daemon", "-d", "--bg"], "`--detach` runs in the background"),
    ("run", &["--branch", "-b", "--target"], "`--onto BRANCH` lands on another branch"),
    ("run", &["--id", "--only"], "`--task ID` chooses tasks"),
];

/// The error for an unknown flag that is retired, or that people guess. `None` for every other error.
pub(super) fn unknown_flag(error: &Error, words: &[OsString]) -> Option<anyhow::Error> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let names: Vec<String> =
        Cli::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let command = words
        .iter()
        .skip(1)
        .filter_map(|word| word.to_str())
        .find(|word| names.iter().any(|name| name == word))?;
    let flag = flag.split('=').next().unwrap_or(flag);
    let message = match replacement(RetiredKind::Flag, &format!("{command} {flag}")) {
        Some(instead) => format!("flag `{flag}` is gone: {instead}"),
        None => {
            let guessed = |(of, flags, _): &&(&str, &[&str], &str)| {
                [command, "*"].contains(of) && flags.contains(&flag)
            };
            let (_, _, instead) = FLAG_SYNONYMS.iter().find(guessed)?;
            format!("no flag `{flag}`: {instead}")
        }
    };
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
    fn every_command_is_in_a_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let groups = grouped(&command);
        assert_eq!(groups.len(), GROUPS.len());
        assert_eq!(groups.iter().map(|(_, commands)| commands.len()).sum::<usize>(), shown.count());
    }

    #[test]
    fn a_description_is_one_short_line() {
        for (name, about) in all().into_iter().flat_map(|(_, commands)| commands) {
            assert!((1..=60).contains(&about.chars().count()), "{name}: {about}");
            assert!(about.starts_with(char::is_uppercase) && !about.ends_with('.'), "{name}");
        }
    }

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
            ("task", "task-add, task-show, task-complete, task-reset, task-block"),
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
        for (name, _) in commands() {
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
