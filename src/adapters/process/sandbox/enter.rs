//! `ralph __confine`: the last step into a sandbox, which becomes the agent.

use std::{env, fs, io, os::unix::process::CommandExt, process::Command};

use super::{EntrySpec, landlock};
use crate::{
    adapters::process::{program, sign},
    regular_file,
};

/// Takes the orders of `confined`, and runs the command in this process. Returns only if that fails.
///
/// The handlers of signals of this process are gone then, and so is that a signal was ignored.
///
/// # Errors
/// The command is missing; Landlock cannot be set up.
pub fn enter(orders: &str, argv: &[String]) -> Result<(), String> {
    let entry: EntrySpec =
        serde_json::from_str(orders).map_err(|error| format!("the orders are invalid: {error}"))?;
    let (name, arguments) = argv.split_first().ok_or("the command is empty")?;
    close_inherited().map_err(|error| format!("close what was inherited: {error}"))?;
    let open = |error: io::Error| format!("open `{}`: {error}", entry.stdin.display());
    let stdin = regular_file::open_input(&entry.stdin);
    rustix::stdio::dup2_stdin(&stdin.map_err(open)?).map_err(|error| open(error.into()))?;
    // Stays open in the agent and in all that it starts.
    let record =
        sign(&entry.record).map_err(|error| format!("open the record of the attempt: {error}"))?;
    let dir = env::current_dir().map_err(|error| format!("the working directory: {error}"))?;
    let search = env::var_os("PATH");
    let program = program::find(name, &dir, search.as_deref())
        .map_err(|why| format!("cannot start in the sandbox: {why}"))?;
    landlock::restrict(entry.rules.as_ref(), entry.scopes)?;
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    drop(record);
    Err(format!("cannot start `{}` in the sandbox: {error}", program.display()))
}

/// Closes what this process inherited, except standard input, output and error: all that stays open
/// when it becomes another program.
#[cfg(target_os = "linux")]
fn close_inherited() -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let open = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in open.filter(|number| *number > 2 && is_inherited(*number)).collect::<Vec<_>>() {
        nix::unistd::close(number)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_inherited(number: i32) -> bool {
    const CLOSES: u32 = rustix::fs::OFlags::CLOEXEC.bits();
    let Ok(text) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else {
        return false;
    };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & CLOSES == 0)
}

#[cfg(not(target_os = "linux"))]
fn close_inherited() -> io::Result<()> {
    Ok(())
}
