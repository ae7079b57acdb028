//! Checks of the machine: the agents and their logins, disk space, file locks, the `ralph` on PATH, and
//! the slots.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Error, Result};

use super::{
    Finding, FindingLevel, NAMED, few,
    trial::{Probe, ProbeAnswer, ProbeFolder, VERSION},
};
use crate::{
    adapters::{
        machine::{self, Room},
        process,
    },
    commands::slots::{ListedSlot, SlotState},
    core::{
        agents::{
            agent_command::AgentCommand,
            agent_preset::{self, AgentPreset, Login},
        },
        duration,
        exit::Exit,
        history::History,
    },
    project::{
        slot_pool::{INCLUDE, SlotPool},
        workspace::Workspace,
    },
    regular_file, runner,
    view::lines::counted,
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
    let cure = "free space; a run stops when the disk is full";
    if room.bytes < NONE || files < NO_FILES {
        Finding::fault("disk", Exit::Disk, found, cure)
    } else if room.bytes < LITTLE || files < LITTLE_FILES {
        Finding::warning("disk", found, cure)
    } else {
        Finding::ok("disk", found)
    }
}

/// Checks that file locks prevent concurrent runs.
pub(super) fn locks(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "locks";
    let cure = "keep the repository on a local disk";
    match workspace.state.locks_hold() {
        Ok(true) => Finding::ok(ABOUT, "concurrent runs are prevented"),
        Ok(false) => {
            let found =
                "file locks do not work on this file system; two runs could work at the same time";
            Finding::warning(ABOUT, found, cure)
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context("take a lock");
            Finding::of_error(ABOUT, &error, cure)
        }
    }
}

/// Checks that `ralph` on PATH is this program.
pub(super) fn earlier(workspace: &Workspace, bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "ralph";
    const VERSION_LINE: &str = concat!("ralph ", env!("CARGO_PKG_VERSION"));
    let Ok(first) = process::resolve("ralph", workspace.root()) else {
        return Finding::ok(
            ABOUT,
            format!("{VERSION_LINE}; not on PATH, so prompts name its path"),
        );
    };
    let own = env::current_exe().and_then(fs::canonicalize).ok();
    if own.is_some() && fs::canonicalize(&first).ok() == own {
        return Finding::ok(ABOUT, VERSION_LINE);
    }
    let shown = first.display().to_string();
    let argv = vec![shown.clone(), "--version".to_owned()];
    let what = match bench.ask(Probe { argv, ..Probe::default() }, VERSION) {
        Ok(ProbeAnswer::Yes(lines)) => match lines.last() {
            Some(line) if line == VERSION_LINE => "another file of the same version".to_owned(),
            Some(line) => format!("another program, `{line}`"),
            None => "another program".to_owned(),
        },
        _ => "another program of unknown version".to_owned(),
    };
    let cure = format!("put the folder of this program first on PATH, or remove `{shown}`");
    Finding::warning(ABOUT, format!("`{shown}` on PATH is {what}; this is {VERSION_LINE}"), cure)
}

/// All checks of one agent. `hint` is an alternative if it does not start.
pub(super) fn agent(
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
        Some(login) => judge_login(&call.name, login, set, |file| place(file).is_file()),
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

fn judge_login(
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

/// The oldest supported version of git.
const OLDEST: (u32, u32) = (2, 36);

/// All checks, if attempts use slots or have used them.
pub(super) fn slots(workspace: &Workspace, bench: &ProbeFolder, history: &History) -> Vec<Finding> {
    let pool = SlotPool::of(workspace);
    if !workspace.config.is_isolated() && !pool.folder().exists() {
        return Vec::new();
    }
    let mut findings = vec![git(bench)];
    findings.extend(left(workspace, history));
    findings.extend(copied(workspace, bench));
    findings.extend(submodules(workspace));
    findings
}

/// Checks the version of git.
fn git(bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "git";
    let (major, minor) = OLDEST;
    let cure = format!("install git {major}.{minor} or newer, for slots");
    let argv = ["git", "--version"].map(str::to_owned).to_vec();
    let said = match bench.ask(Probe { argv, ..Probe::default() }, VERSION) {
        Ok(ProbeAnswer::Yes(lines)) => lines.join(" "),
        Ok(ProbeAnswer::No(why)) => return Finding::warning(ABOUT, why, cure),
        Ok(ProbeAnswer::Late(_)) => {
            return Finding::warning(ABOUT, "`git --version` did not finish", cure);
        }
        Err(error) => return Finding::warning(ABOUT, format!("{error:#}"), cure),
    };
    match git_version(&said) {
        Some(found) if found < OLDEST => Finding::warning(ABOUT, said, cure),
        _ => Finding::ok(ABOUT, said),
    }
}

fn git_version(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.strip_prefix("git version ")?.split(['.', ' ']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Finds unsaved work in the slots of earlier attempts.
fn left(workspace: &Workspace, history: &History) -> Option<Finding> {
    const ABOUT: &str = "leftovers";
    let all = match ListedSlot::all(workspace, history) {
        Ok(all) => all,
        Err(error) => return Some(Finding::of_error(ABOUT, &error, "see `ralph slots`")),
    };
    let is_odd = |one: &&ListedSlot| {
        matches!(one.state, SlotState::Kept(_) | SlotState::Suspect(_) | SlotState::Strange)
    };
    let odd: Vec<String> =
        all.iter().filter(is_odd).map(|one| format!("{} ({})", one.seen, one.text())).collect();
    (!odd.is_empty()).then(|| {
        let cure = "save what you want from there and remove the folder; until then other slots \
                    are used";
        Finding::warning(ABOUT, few(odd, NAMED), cure)
    })
}

/// Checks that every pattern of files to copy into slots matches a file.
fn copied(workspace: &Workspace, bench: &ProbeFolder) -> Option<Finding> {
    const ABOUT: &str = "copied files";
    let text = regular_file::read_to_string(&workspace.root().join(INCLUDE)).ok()?;
    let is_pattern = |line: &&str| !line.is_empty() && !line.starts_with(['#', '!']);
    let patterns: Vec<&str> = text.lines().map(str::trim_end).filter(is_pattern).collect();
    let look = || -> Result<(usize, Vec<String>)> {
        let file = bench.folder("include")?.join("pattern");
        let (mut files, mut blank) = (0, Vec::new());
        for pattern in &patterns {
            fs::write(&file, format!("{pattern}\n")).context("write a pattern")?;
            match workspace.repo.local().ignored_by(&file)?.len() {
                0 => blank.push(format!("`{pattern}`")),
                count => files += count,
            }
        }
        Ok((files, blank))
    };
    Some(match look() {
        Err(error) => Finding::of_error(ABOUT, &error, "correct the file"),
        Ok((files, blank)) if blank.is_empty() => {
            let found = format!("{} from `{INCLUDE}`", counted(files, "file"));
            Finding::ok(ABOUT, found)
        }
        Ok((_, blank)) => {
            let found = format!(
                "patterns in `{INCLUDE}` that match no ignored file: {}",
                few(blank, NAMED)
            );
            Finding::warning(
                ABOUT,
                found,
                "correct them; only matching files are copied into slots",
            )
        }
    })
}

/// Checks that submodules are cloned, so that slots need no network.
fn submodules(workspace: &Workspace) -> Option<Finding> {
    const ABOUT: &str = "submodules";
    let text = regular_file::read_to_string(&workspace.root().join(".gitmodules")).ok()?;
    let name = |line: &str| -> Option<String> {
        let name = line.trim().strip_prefix("[submodule \"")?.strip_suffix("\"]")?;
        Some(name.to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(name).collect();
    let modules = workspace.repo.common_dir().join("modules");
    let absent: Vec<String> =
        names.iter().filter(|name| !modules.join(name).is_dir()).cloned().collect();
    if absent.is_empty() {
        let found = format!("{}, cloned", counted(names.len(), "submodule"));
        return Some(Finding::ok(ABOUT, found));
    }
    let found = format!("not cloned: {}", few(absent, NAMED));
    let cure = "run `git submodule update --init`, or every slot fetches them again";
    Some(Finding::warning(ABOUT, found, cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_disk_space_is_a_warning_and_none_a_fault() {
        let mark = |bytes, files| judge(Room { bytes, files }).mark;
        assert_eq!(mark(2_000_000_000, None), FindingLevel::Ok);
        assert_eq!(mark(2_000_000_000, Some(10_000)), FindingLevel::Ok);
        assert_eq!(mark(999_999_999, None), FindingLevel::Warning);
        assert_eq!(mark(2_000_000_000, Some(9_999)), FindingLevel::Warning);
        assert_eq!(mark(99_999_999, None), FindingLevel::Fault(Exit::Disk));
        assert_eq!(mark(2_000_000_000, Some(3)), FindingLevel::Fault(Exit::Disk));
        let few = judge(Room { bytes: 2_000_000_000, files: Some(3) });
        assert_eq!(few.found, "room for 3 more files");
    }

    #[test]
    fn a_variable_or_a_file_is_a_login_and_no_value_is_shown() {
        let login = agent_preset::find("codex").unwrap().login.unwrap();
        let is = |set: &str, there: &str| {
            let finding = judge_login("codex", login, |name| name == set, |file| file == there);
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

    #[test]
    fn git_versions_are_parsed_and_compared() {
        for (said, found) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.35.1.windows.2", Some((2, 35))),
            ("git version 3.0.0 (Apple Git-155)", Some((3, 0))),
            ("hub version 2.14", None),
        ] {
            assert_eq!(git_version(said), found, "{said}");
        }
        assert!(git_version("git version 2.35.9") < Some(OLDEST));
    }
}
