//! The groups in which the help pages and the README list the commands.

use std::fmt::Write as _;

use clap::{Command, CommandFactory, builder::Styles};

use super::Cli;

/// A group of commands on a help page.
struct CommandGroup {
    /// The heading.
    title: &'static str,
    /// Whether `ralph --help` lists it; `ralph help agents` lists the others.
    is_main: bool,
    /// The names, in the order of the page.
    commands: &'static [&'static str],
}

/// Every command that is not hidden, once.
const GROUPS: &[CommandGroup] = &[
    CommandGroup {
        title: "Work",
        is_main: true,
        commands: &["run", "loop", "plan", "prompt", "pause", "resume", "stop"],
    },
    CommandGroup {
        title: "See",
        is_main: true,
        commands: &[
            "status",
            "report",
            "dag-status",
            "graph",
            "serve",
            "ls",
            "attempts",
            "show",
            "logs",
            "attach",
            "costs",
        ],
    },
    CommandGroup {
        title: "Tasks",
        is_main: true,
        commands: &[
            "check",
            "task-add",
            "task-edit",
            "task-show",
            "task-move",
            "task-remove",
            "task-complete",
            "task-reset",
            "task-block",
            "answer",
            "undo",
        ],
    },
    CommandGroup { title: "Backlog", is_main: true, commands: &["import", "export", "draft"] },
    CommandGroup { title: "Recover", is_main: true, commands: &["restore", "slots"] },
    CommandGroup {
        title: "Set up",
        is_main: true,
        commands: &["init", "doctor", "config", "schedule", "notify", "heartbeat", "demo"],
    },
    CommandGroup {
        title: "Agents",
        is_main: false,
        commands: &["ask", "note", "spawn", "verify"],
    },
    CommandGroup {
        title: "Scripts",
        is_main: false,
        commands: &["template", "schema", "merge-driver", "completions", "man"],
    },
];

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
        .max_term_width(100)
        .about("Commands that agents and scripts call")
        .after_help(
            "An agent reports that its task is done with `ralph task-complete ID`. `ask`, `note` \
             and `spawn` work only inside an attempt. `ralph help COMMAND` shows flags and \
             examples.",
        )
        .help_template(format!("{{about-with-newline}}\n{list}{{after-help}}"))
}

/// The groups: the title, and for each command its name and its description.
pub(super) fn all() -> Vec<(&'static str, Vec<(String, String)>)> {
    let command = Cli::command();
    let described = |name: &&str| ((*name).to_owned(), about(&command, name));
    GROUPS
        .iter()
        .map(|group| (group.title, group.commands.iter().map(described).collect()))
        .collect()
}

fn about(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

fn heading(title: &str) -> String {
    let style = Styles::default().get_header().to_owned();
    format!("{style}{title}:{style:#}")
}

/// The groups of one page. clap aligns and wraps the rows; the headings go between them.
fn list(command: &Command, is_main: bool) -> String {
    let groups = || GROUPS.iter().filter(|group| group.is_main == is_main);
    let names = groups().flat_map(|group| group.commands).enumerate();
    let rows =
        names.map(|(at, name)| Command::new(*name).about(about(command, name)).display_order(at));
    let rendered = Command::new("ralph")
        .max_term_width(100)
        .disable_help_subcommand(true)
        .help_template("{subcommands}")
        .subcommands(rows)
        .render_help();
    let mut titles = groups().flat_map(|group| {
        let first = std::iter::once(Some(group.title));
        first.chain(std::iter::repeat(None)).take(group.commands.len())
    });
    let mut text = String::new();
    for (line, plain) in rendered.ansi().to_string().lines().zip(rendered.to_string().lines()) {
        let is_row = plain.starts_with("  ") && !plain.starts_with("   ");
        if let Some(title) = is_row.then(|| titles.next().flatten()).flatten() {
            let blank = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{blank}{}", heading(title));
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(listed.len(), shown.len(), "a command in two groups: {listed:?}");
    }

    #[test]
    fn a_description_is_one_short_line() {
        for (name, about) in all().into_iter().flat_map(|(_, commands)| commands) {
            assert!((1..=60).contains(&about.chars().count()), "{name}: {about}");
            assert!(about.starts_with(char::is_uppercase) && !about.ends_with('.'), "{name}");
        }
    }
}
