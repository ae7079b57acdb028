//! Checks of an agent: whether it starts, its version and its login.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Error;

use super::{
    Finding, FindingLevel,
    bench::{Probe, ProbeAnswer, ProbeFolder, VERSION},
};
use crate::{
    adapters::process,
    core::{
        agents::{
            agent_command::AgentCommand,
            agent_preset::{self, AgentPreset, Login},
        },
        duration,
    },
    project::workspace::Workspace,
    runner,
};

/// All checks of one agent. `hint` is an alternative if it does not start.
pub(super) fn all(
    workspace: &Workspace,
    bench: &ProbeFolder,
    call: &AgentCommand,
    hint: &str,
) -> Vec<Finding> {
    let mut found = vec![found(workspace, call, hint)];
    if found[0].mark == FindingLevel::Ok {
        found.extend([version(workspace, bench, call), login(call)]);
    }
    found
}

/// Says once which agents act without asking for permission; none if every one asks.
pub(super) fn permissions(calls: &[&AgentCommand]) -> Option<Finding> {
    let mut unasked: Vec<String> = Vec::new();
    for call in calls {
        let text = call.unasked().map(|word| format!("`{} {word}`", call.name));
        unasked.extend(text.filter(|text| !unasked.contains(text)));
    }
    let asks = if unasked.len() == 1 { "asks" } else { "ask" };
    let found = format!(
        "{} {asks} for no permission: the agent can do anything that your user can do",
        unasked.join(", ")
    );
    (!unasked.is_empty()).then(|| Finding::ok("permissions", found))
}

/// Checks that the agent's command exists, as a run does.
fn found(workspace: &Workspace, call: &AgentCommand, hint: &str) -> Finding {
    match runner::check_agent(call, workspace, hint) {
        Ok(()) => Finding::ok("agent", call.argv.join(" ")),
        Err(error) => Finding::of_error("agent", &error, ""),
    }
}

/// Checks that the agent prints its version.
fn version(workspace: &Workspace, bench: &ProbeFolder, call: &AgentCommand) -> Finding {
    const ABOUT: &str = "version";
    let Some((first, rest)) = call.version_check.split_first() else {
        return Finding::ok(ABOUT, "not checked: `agent` has no `version_check`");
    };
    let asked = call.version_check.join(" ");
    let cure = format!("run `{asked}` by hand");
    // Check the program that a run calls, not another one on PATH.
    let program = Some(&call.argv[0]).filter(|program| base(program) == base(first));
    let answer = process::resolve(program.unwrap_or(first), workspace.root()).map_err(Error::msg);
    let answer = answer.and_then(|program| {
        let argv = [&[program.display().to_string()], rest].concat();
        let env = call.env.clone().into_iter().collect();
        let removed = agent_preset::find(&call.name).map_or(&[][..], |preset| preset.env_remove);
        let env_remove = removed.iter().map(|name| (*name).to_owned()).collect();
        bench.ask(Probe { argv, dir: None, env, env_remove }, VERSION)
    });
    match answer {
        Ok(ProbeAnswer::Yes(lines)) => Finding::ok(ABOUT, lines.join(" / ")),
        Ok(ProbeAnswer::No(why)) => {
            Finding::warning(ABOUT, format!("`{asked}` failed: {why}"), cure)
        }
        Ok(ProbeAnswer::Late(limit)) => {
            let limit = duration::short(limit);
            Finding::warning(ABOUT, format!("`{asked}` did not finish within {limit}"), cure)
        }
        Err(error) => Finding::warning(ABOUT, format!("`{asked}` failed: {error:#}"), cure),
    }
}

/// Checks for a sign of a login: the name of a variable or a file. Reads no values, sends nothing.
fn login(call: &AgentCommand) -> Finding {
    let set = |name: &str| {
        call.env.contains_key(name) || env::var_os(name).is_some_and(|value| !value.is_empty())
    };
    match agent_preset::find(&call.name).and_then(|preset| preset.login) {
        None => Finding::ok("login", "unknown for this agent"),
        Some(login) => judge(&call.name, login, set, |file| place(file).is_file()),
    }
}

/// The sign that the agent is logged in: a variable or a file.
pub(in crate::commands) fn login_sign(preset: &AgentPreset) -> Option<String> {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    sign(&preset.login?, set, |file| place(file).is_file())
}

fn sign(
    login: &Login,
    set: impl Fn(&str) -> bool,
    is_there: impl Fn(&str) -> bool,
) -> Option<String> {
    let variable = login.variables.iter().find(|name| set(name));
    let file = || login.files.iter().find(|file| is_there(file));
    variable
        .map(|name| format!("`{name}` is set"))
        .or_else(|| file().map(|file| format!("`{file}` exists")))
}

fn judge(
    agent: &str,
    login: Login,
    set: impl Fn(&str) -> bool,
    is_there: impl Fn(&str) -> bool,
) -> Finding {
    if let Some(found) = sign(&login, set, is_there) {
        return Finding::ok("login", found);
    }
    let found = format!(
        "no sign that `{agent}` is logged in (keychains and helper programs are not checked)"
    );
    Finding::warning("login", found, login.how)
}

/// The path of `~/x` or `$NAME/x`; empty if the variable is not set.
fn place(file: &str) -> PathBuf {
    let (first, rest) = file.split_once('/').unwrap_or((file, ""));
    let name = if first == "~" { "HOME" } else { first.trim_start_matches('$') };
    env::var_os(name).map(|folder| Path::new(&folder).join(rest)).unwrap_or_default()
}

/// The name of a program without its folders.
fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_or_a_file_is_a_login_and_no_value_is_shown() {
        let login = agent_preset::find("codex").unwrap().login.unwrap();
        let is = |set: &str, there: &str| {
            let finding = judge("codex", login, |name| name == set, |file| file == there);
            (finding.mark, finding.found)
        };
        assert_eq!(
            is("CODEX_API_KEY", ""),
            (FindingLevel::Ok, "`CODEX_API_KEY` is set".to_owned())
        );
        let there = (FindingLevel::Ok, "`~/.codex/auth.json` exists".to_owned());
        assert_eq!(is("", "~/.codex/auth.json"), there);
        assert_eq!(is("HOME", "~/.bashrc").0, FindingLevel::Warning);
        assert_eq!(place("$NO_SUCH_VARIABLE/auth.json"), Path::new(""));
    }
}
