//! `ralph mcp`: views as resources and commands of a person as tools, for an agent that speaks the
//! Model Context Protocol. Each is a command of this program in a process of its own, so that it is
//! checked, recorded and refused in the same way.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::Invocation;
use crate::{
    adapters::{
        mcp::{McpAnswer, McpResource, McpServer, McpTool},
        process::OwnCall,
        terminal::{self, plain},
    },
    cli::{CommandCall, McpArgs, ToolCommand},
    core::exit::Exit,
};

/// A tool's effect on the project.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    /// Nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It replaces or ends something.
    Replaces,
    /// It starts agents.
    Starts,
}

/// The commands that are tools.
const TOOLS: [(&str, ToolEffect); 11] = [
    ("status", ToolEffect::Reads),
    ("dag-status", ToolEffect::Reads),
    ("show", ToolEffect::Reads),
    ("diff", ToolEffect::Reads),
    ("plan", ToolEffect::Reads),
    ("check", ToolEffect::Reads),
    ("task-add", ToolEffect::Adds),
    ("answer", ToolEffect::Adds),
    ("note", ToolEffect::Adds),
    ("task-reset", ToolEffect::Replaces),
    ("task-block", ToolEffect::Adds),
];
/// The commands that are tools with `--allow-run`.
const RUN_TOOLS: [(&str, ToolEffect); 4] = [
    ("run", ToolEffect::Starts),
    ("stop", ToolEffect::Replaces),
    ("pause", ToolEffect::Adds),
    ("resume", ToolEffect::Starts),
];
/// The commands that are resources, and the argument of each.
const RESOURCES: [(&str, &str); 7] = [
    ("status", ""),
    ("report", ""),
    ("dag-status", ""),
    ("attempts", ""),
    ("review", ""),
    ("costs", ""),
    ("show", "/{id}"),
];
/// The tool whose findings are its result.
const FINDER: &str = "check";
/// The prefix of the command in the address of a resource.
const SCHEME: &str = "ralph://";
/// An agent's instructions for the tools.
const INSTRUCTIONS: &str = "ralph runs coding agents, one per task, through the task graph of this \
    repository, unattended. Each agent sees only its task: give a task a description that stands alone, \
    the tasks it needs in `after`, and `verify` commands that fail without it; then call `check` with \
    `strict`. `status` says how the run stands, who is needed and what to do next; `show` says why \
    one task is parked or waits, and what its attempts did.";

/// The time limit of a command: longer than it waits for a lock.
const LIMIT: Duration = Duration::from_secs(150);
/// The longest text of an answer, in bytes.
const LONGEST: usize = 256 << 10;

/// Answers a client on standard input and output until it closes them.
///
/// # Errors
/// The client does not begin as the protocol demands.
pub fn run(invocation: &Invocation, options: McpArgs) -> Result<Exit> {
    if terminal::can_ask() {
        terminal::say(
            "this waits for a client of the Model Context Protocol; `claude mcp add ralph -- ralph \
             mcp` adds it to Claude Code",
        );
    }
    let more: &[_] = if options.allow_run { &RUN_TOOLS } else { &[] };
    let offered: Vec<(&str, ToolEffect)> = TOOLS.iter().chain(more).copied().collect();
    let commands = ToolCommand::all(offered.iter().map(|(name, _)| *name));
    let tool = |(command, (_, effect)): (&ToolCommand, &(&str, ToolEffect))| McpTool {
        name: command.name().to_owned(),
        description: command.about(),
        schema: command.schema(),
        is_read_only: *effect == ToolEffect::Reads,
        is_destructive: *effect == ToolEffect::Replaces,
        is_open: *effect == ToolEffect::Starts,
    };
    let tools = commands.iter().zip(&offered).map(tool).collect();
    let (here, at) = (invocation.clone(), invocation.clone());
    let server = McpServer {
        instructions: INSTRUCTIONS.to_owned(),
        tools,
        resources: resources(),
        call: Box::new(move |name, given| call(&here, &commands, name, given)),
        read: Box::new(move |uri| Some(answer(at.call_own(&resource(uri)?, LIMIT), false))),
    };
    server.serve().context("serve a client on standard input")?;
    Ok(Exit::Success)
}

/// All resources.
fn resources() -> Vec<McpResource> {
    let commands = ToolCommand::all(RESOURCES.iter().map(|(name, _)| *name));
    let resource = |(command, (name, id)): (&ToolCommand, &(&str, &str))| McpResource {
        uri: format!("{SCHEME}{name}{id}"),
        description: command.about(),
    };
    commands.iter().zip(&RESOURCES).map(resource).collect()
}

/// The command that prints the resource at this address; none if there is none.
fn resource(uri: &str) -> Option<CommandCall> {
    let path = uri.strip_prefix(SCHEME)?.trim_end_matches('/');
    let (name, id) = path.split_once('/').map_or((path, None), |(name, id)| (name, Some(id)));
    RESOURCES.iter().find(|(known, part)| *known == name && part.is_empty() == id.is_none())?;
    let words = id.into_iter().flat_map(|id| ["--", id]);
    let arguments = [name, "--json"].into_iter().chain(words).map(str::to_owned).collect();
    Some(CommandCall { arguments, input: String::new() })
}

fn call(
    invocation: &Invocation,
    commands: &[ToolCommand],
    name: &str,
    given: &Map<String, Value>,
) -> McpAnswer {
    let command = commands.iter().find(|command| command.name() == name);
    let called = command.ok_or_else(|| {
        let is_run = RUN_TOOLS.iter().any(|(known, _)| *known == name);
        let hint = if is_run { "; `ralph mcp --allow-run` offers it" } else { "" };
        format!("no tool `{}`{hint}", name.escape_debug())
    });
    match called.and_then(|command| command.call(given)) {
        Ok(call) => answer(invocation.call_own(&call, LIMIT), name == FINDER),
        Err(why) => McpAnswer { texts: vec![why], is_error: true },
    }
}

/// The answer with a command's output, which `finds` something if it exits with 1 after a result.
fn answer(called: Result<OwnCall>, finds: bool) -> McpAnswer {
    let OwnCall { code, output, errors } = match called {
        Ok(called) => called,
        Err(error) => return McpAnswer { texts: vec![format!("{error:#}")], is_error: true },
    };
    let has_found = finds && code == Some(1) && !output.trim().is_empty();
    let end = match code {
        Some(0) => String::new(),
        Some(_) if has_found => String::new(),
        Some(code) => format!("exit code {code}"),
        None => format!("it was killed, or took longer than {} s", LIMIT.as_secs()),
    };
    let remarks = format!("{}\n{end}", errors.trim());
    let texts = [output.trim(), remarks.trim()].into_iter().filter(|text| !text.is_empty());
    let texts = texts.map(|text| cut(plain(text).into_owned())).collect();
    McpAnswer { texts, is_error: code != Some(0) && !has_found }
}

/// The text, up to the limit.
fn cut(mut text: String) -> String {
    let whole = text.len();
    if whole > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        let _ = write!(
            text,
            "\n… cut: these are the first {LONGEST} of {whole} bytes; ask for less, such as one \
             task, or run the command in a terminal"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_resources_are_commands() {
        let words = |uri: &str| resource(uri).map(|call| call.arguments.join(" "));
        assert_eq!(words("ralph://status").as_deref(), Some("status --json"));
        assert_eq!(words("ralph://status/").as_deref(), Some("status --json"));
        assert_eq!(words("ralph://show/--help").as_deref(), Some("show --json -- --help"));
        for none in ["", "status", "ralph://", "ralph://run", "ralph://show", "ralph://status/a"] {
            assert_eq!(words(none), None, "{none}");
        }
    }

    #[test]
    fn long_output_is_cut_with_a_sentence() {
        assert_eq!(cut("é".to_owned()), "é");
        let long = cut("é".repeat(LONGEST));
        assert!(
            long.contains("cut: these are the first 262144 of 524288 bytes"),
            "{}",
            &long[LONGEST..]
        );
    }

    #[test]
    fn every_command_is_there() {
        let names = TOOLS.iter().chain(&RUN_TOOLS).map(|(name, _)| *name);
        assert_eq!(ToolCommand::all(names).len(), TOOLS.len() + RUN_TOOLS.len());
        assert_eq!(resources().len(), RESOURCES.len());
    }
}
