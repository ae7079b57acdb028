//! Checks of the machine: the agents and their logins, disk space, file locks, the `ralph` on PATH,
//! and leftovers in slots.

use std::{env, fs};

use anyhow::{Error, Result};

use super::{NAMED, few, of_error, trial::VERSION};
use crate::{
    adapters::{
        machine::{self, Room},
        process,
    },
    commands::{
        probe::{Probe, ProbeAnswer, ProbeFolder, login_sign},
        slots::{ListedSlot, SlotState},
    },
    core::{
        agents::{agent_command::AgentCommand, agent_preset},
        executor::{Executor, ExecutorKind},
        finding::{Finding, FindingKind},
        history::History,
    },
    project::{slot_pool::SlotPool, workspace::Workspace},
    runner,
};

/// Free bytes below which the logs of a long run may not fit.
const LITTLE: u64 = 1_000_000_000;
/// Free bytes below which a run cannot work.
const NONE: u64 = 100_000_000;
/// The same limits in number of files.
const LITTLE_FILES: u64 = 10_000;
const NO_FILES: u64 = 1_000;

/// Checks the space on the disks of the repository, of git's folder and of the slots.
pub(super) fn room(workspace: &Workspace) -> Finding {
    let pool = SlotPool::of(workspace);
    let slots = pool.folder().ancestors().find(|path| path.is_dir());
    let places = [workspace.root(), workspace.repo.common_dir()].into_iter().chain(slots);
    let rooms: Result<Vec<Room>, _> = places.map(machine::room).collect();
    match rooms {
        Ok(rooms) => judge(Room {
            bytes: rooms.iter().map(|room| room.bytes).min().unwrap_or(0),
            files: rooms.iter().filter_map(|room| room.files).min(),
        }),
        Err(error) => Finding::ok("disk", format!("unknown: {error}")),
    }
}

fn judge(room: Room) -> Finding {
    let files = room.files.unwrap_or(u64::MAX);
    let found = match room.files {
        Some(files) if files < LITTLE_FILES => format!("room for {files} more files"),
        _ => format!("{} MB free", room.bytes / 1_000_000),
    };
    if room.bytes < NONE || files < NO_FILES {
        FindingKind::NoRoom.with(&[&found])
    } else if room.bytes < LITTLE || files < LITTLE_FILES {
        FindingKind::LittleRoom.with(&[&found])
    } else {
        Finding::ok("disk", found)
    }
}

/// Checks that file locks prevent concurrent runs.
pub(super) fn locks(workspace: &Workspace) -> Finding {
    match workspace.state.locks_hold() {
        Ok(true) => Finding::ok("locks", "concurrent runs are prevented"),
        Ok(false) => FindingKind::NoLocks.with(&[]),
        Err(error) => of_error(FindingKind::BadLocks, &Error::new(error).context("take a lock")),
    }
}

/// Checks that `ralph` on PATH is this program.
pub(super) fn earlier(workspace: &Workspace) -> Finding {
    const OWN: &str = concat!("ralph ", env!("CARGO_PKG_VERSION"));
    let Ok(first) = process::resolve("ralph", workspace.root()) else {
        return Finding::ok("ralph", format!("{OWN}; not on PATH, so prompts name its path"));
    };
    let own = env::current_exe().and_then(fs::canonicalize).ok();
    if own.is_some() && fs::canonicalize(&first).ok() == own {
        return Finding::ok("ralph", OWN);
    }
    let shown = first.display().to_string();
    FindingKind::OtherRalph.with(&[&shown, OWN, &shown])
}

/// All checks of one agent. `hint` is an alternative if it does not start.
pub(super) fn agent(
    workspace: &Workspace,
    bench: &ProbeFolder,
    call: &AgentCommand,
    hint: &str,
) -> Vec<Finding> {
    match runner::check_agent(call, workspace, hint) {
        Ok(()) => vec![
            Finding::ok("agent", call.argv.join(" ")),
            version(workspace, bench, call),
            login(call),
        ],
        Err(error) => vec![of_error(FindingKind::Agent, &error)],
    }
}

/// Says once which agents act without asking for permission; none if every one asks.
/// `executors` are those of the tasks.
pub(super) fn permissions(calls: &[&AgentCommand], executors: &[Executor]) -> Option<Finding> {
    let mut unasked: Vec<String> = Vec::new();
    for call in calls {
        let text = call.unasked().map(|word| format!("`{} {word}`", call.name));
        unasked.extend(text.filter(|text| !unasked.contains(text)));
    }
    let asks = if unasked.len() == 1 { "asks" } else { "ask" };
    let who = format!("{} {asks}", unasked.join(", "));
    let is_open = |one: &Executor| matches!(one.kind, ExecutorKind::Local);
    let names: Vec<String> = executors.iter().map(|one| format!("`{}`", one.name)).collect();
    let may = match &names[..] {
        [] => "your user can do".to_owned(),
        _ if executors.iter().any(is_open) => "your user can do".to_owned(),
        [one] => format!("{one} allows"),
        names => format!("{} allow", names.join(", ")),
    };
    (!unasked.is_empty()).then(|| FindingKind::Unasked.with(&[&who, &may]))
}

/// Checks that the agent prints its version.
fn version(workspace: &Workspace, bench: &ProbeFolder, call: &AgentCommand) -> Finding {
    let Some((first, rest)) = call.version_check.split_first() else {
        return Finding::ok("version", "not checked: `agent` has no `version_check`");
    };
    let asked = call.version_check.join(" ");
    // Check the program that a run calls, not another one on PATH.
    let program = Some(&call.argv[0]).filter(|program| base(program) == base(first));
    let answer = process::resolve(program.unwrap_or(first), workspace.root()).map_err(Error::msg);
    let answer = answer.and_then(|program| {
        let argv = [&[program.display().to_string()], rest].concat();
        let env = call.env.clone().into_iter().collect();
        let removed = agent_preset::find(&call.name).map_or(&[][..], |preset| preset.env_remove);
        let env_remove = removed.iter().map(|name| (*name).to_owned()).collect();
        bench.ask(Probe { argv, env, env_remove, ..Probe::default() }, VERSION)
    });
    let why = match answer {
        Ok(ProbeAnswer::Yes(lines)) => return Finding::ok("version", lines.join(" / ")),
        Ok(answer) => answer.failure().unwrap_or_default(),
        Err(error) => format!("failed: {error:#}"),
    };
    FindingKind::VersionFails.with(&[&asked, &why, &asked])
}

/// Checks for a sign of a login.
fn login(call: &AgentCommand) -> Finding {
    let preset = agent_preset::find(&call.name);
    let Some((preset, login)) = preset.and_then(|preset| Some((preset, preset.login?))) else {
        return Finding::ok("login", format!("unknown for `{}`", call.name));
    };
    match login_sign(preset, |name| call.env.contains_key(name)) {
        Some(sign) => Finding::ok("login", sign),
        None => FindingKind::NoLogin.with(&[&call.name, login.how]),
    }
}

/// The name of a program without its folders.
fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Finds unsaved work in the slots of earlier attempts.
pub(super) fn leftovers(workspace: &Workspace, history: &History) -> Option<Finding> {
    let all = match ListedSlot::all(workspace, history) {
        Ok(all) => all,
        Err(error) => return Some(of_error(FindingKind::UnreadableSlots, &error)),
    };
    let is_odd = |one: &&ListedSlot| {
        matches!(one.state, SlotState::Kept(_) | SlotState::Suspect(_) | SlotState::Strange)
    };
    let odd: Vec<String> =
        all.iter().filter(is_odd).map(|one| format!("{} ({})", one.seen, one.text())).collect();
    (!odd.is_empty()).then(|| FindingKind::Leftovers.with(&[&few(odd, NAMED)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{exit::Exit, finding::FindingLevel};

    #[test]
    fn low_disk_space_is_a_warning_and_none_a_fault() {
        let mark = |bytes, files| judge(Room { bytes, files }).level;
        assert_eq!(mark(2_000_000_000, None), FindingLevel::Ok);
        assert_eq!(mark(2_000_000_000, Some(10_000)), FindingLevel::Ok);
        assert_eq!(mark(999_999_999, None), FindingLevel::Warning);
        assert_eq!(mark(2_000_000_000, Some(9_999)), FindingLevel::Warning);
        assert_eq!(mark(99_999_999, None), FindingLevel::Fault(Exit::Disk));
        assert_eq!(mark(2_000_000_000, Some(3)), FindingLevel::Fault(Exit::Disk));
        let few = judge(Room { bytes: 2_000_000_000, files: Some(3) });
        assert_eq!(few.message, "room for 3 more files");
    }
}
