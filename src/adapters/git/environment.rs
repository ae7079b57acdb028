//! The variables with which git points its own child processes to one repository: an alias, a hook
//! or a merge driver has them.
//!
//! `ralph` and its agents work in several repositories. With these variables, the git of an agent
//! in a slot would commit to the repository of a person.

use std::{env, io, os::unix::process::CommandExt, process::Command};

/// Those of `git rev-parse --local-env-vars` (git 2.47) that name a place. Settings that a person
/// gives for one command (`git -c`) stay.
const PLACES: [&str; 9] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Starts this program again without these variables, if any is set.
///
/// # Errors
/// The program cannot be started.
pub fn leave_repository() -> io::Result<()> {
    if PLACES.iter().all(|name| env::var_os(name).is_none()) {
        return Ok(());
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut again = Command::new(env::current_exe()?);
    again.arg0(name).args(arguments);
    for name in PLACES {
        again.env_remove(name);
    }
    Err(again.exec())
}
