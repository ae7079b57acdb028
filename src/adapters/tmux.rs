//! The tmux program: windows that show agents' output. Nothing depends on them.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

/// Checks that tmux is installed.
///
/// # Errors
/// The reason as a message for a person.
pub fn check() -> Result<(), String> {
    let found = Command::new("tmux").arg("-V").stdin(Stdio::null()).output();
    found.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "`--tmux` needs tmux, and it is not on PATH; install it, or leave out `--tmux`"
                .to_owned()
        }
        _ => format!("`--tmux` needs tmux: {error}"),
    })
}

/// Opens a window that runs a command in `dir`: next to the tmux window of this process, else in the
/// background, under the name `group`. The window closes when the command ends.
///
/// # Errors
/// The error of tmux.
pub fn open_window(group: &str, title: &str, dir: &Path, command: &[String]) -> io::Result<()> {
    let open = |words: &[&str]| -> io::Result<bool> {
        let mut tmux = Command::new("tmux");
        tmux.args(words).args(["-d", "-n", title, "-c"]).arg(dir).args(command);
        tmux.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(tmux.status()?.success())
    };
    let is_open = if std::env::var_os("TMUX").is_some_and(|socket| !socket.is_empty()) {
        open(&["new-window"])?
    } else {
        open(&["new-window", "-t", &format!("={group}:")])?
            || open(&["new", "-x", "200", "-y", "50", "-s", group])?
    };
    if is_open { Ok(()) } else { Err(io::Error::other("tmux opened no window")) }
}
