//! The variables with which git points its own child processes to one repository: an alias, a hook
//! or a merge driver has them.
//!
//! `ralph` and its agents work in several repositories. With these variables, the git of an agent
//! in a slot would commit to the repository of a person.

use std::{env, io, os::unix::process::CommandExt, process::Command};

use super::program::FOREIGN;

/// Starts this program again without these variables, if any is set.
///
/// # Errors
/// The program cannot be started.
pub fn leave_repository() -> io::Result<()> {
    if FOREIGN.iter().all(|name| env::var_os(name).is_none()) {
        return Ok(());
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut again = Command::new(env::current_exe()?);
    again.arg0(name).args(arguments);
    for name in FOREIGN {
        again.env_remove(name);
    }
    Err(again.exec())
}
