//! The tmux program: one server per attempt, with a single window, in a folder of its own.
//!
//! The server shares nothing with a person's own tmux: it has another socket and reads no settings
//! file. Its commands are used by their short names.

use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The oldest version that distributions still ship. Since 2.6 a window is closed only after its
/// output has gone through the pipe.
const OLDEST: (u32, u32) = (3, 0);
/// The number of lines at the end of the screen that count.
const LINES: usize = 20;
/// The files in the folder.
const FILES: [&str; 4] = ["tmux", "tmux.lock", "control", "screen"];

/// Checks that tmux is installed and new enough.
///
/// # Errors
/// The reason as a message for a person.
pub fn check() -> Result<(), String> {
    const HINT: &str = "or leave out `--tmux`";
    if !cfg!(target_os = "linux") {
        return Err("`--tmux` works on Linux only; leave it out".to_owned());
    }
    let (major, minor) = OLDEST;
    let output = Command::new("tmux").arg("-V").stdin(Stdio::null()).output().map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "it is not on PATH".to_owned(),
            _ => error.to_string(),
        };
        format!("`--tmux` needs tmux {major}.{minor} or newer, and {why}; install it, {HINT}")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if is_old(&text) {
        return Err(format!(
            "`--tmux` needs tmux {major}.{minor} or newer, and this is {}; install a newer one, \
             {HINT}",
            text.trim()
        ));
    }
    Ok(())
}

/// Whether the output of `tmux -V` names a version that is too old, as `tmux 2.9a` does. A version
/// without a number (`tmux master`) is newer than all others.
fn is_old(text: &str) -> bool {
    let number = |text: &str| -> Option<u32> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let version = text.trim().strip_prefix("tmux ").and_then(|version| {
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        Some((number(major)?, number(minor).unwrap_or(0)))
    });
    version.is_some_and(|version| version < OLDEST)
}

/// A path for a new folder: short, because the path of a socket must be, and of plain letters,
/// because tmux and a shell parse it.
pub fn folder() -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let place = env::temp_dir();
    let fits = place.to_str().is_some_and(|text| text.len() < 60 && text.chars().all(is_plain));
    let place = if fits { place } else { PathBuf::from("/tmp") };
    place.join(format!("ralph-{:016x}", RandomState::new().hash_one(std::process::id())))
}

/// Removes such a folder and its files.
pub fn remove(folder: &Path) {
    for name in FILES {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

/// The file with the fingerprint of the screen.
pub fn screen(folder: &Path) -> PathBuf {
    folder.join(FILES[3])
}

/// The socket between `ralph __pane` and `ralph __in-pane`.
pub fn control(folder: &Path) -> PathBuf {
    folder.join(FILES[2])
}

/// The fingerprint of the end of a screen. Blank lines at the end are ignored.
pub fn fingerprint(screen: &str) -> u64 {
    let lines: Vec<&str> = screen.trim_end().lines().map(str::trim_end).collect();
    let mut hasher = DefaultHasher::new();
    lines[lines.len().saturating_sub(LINES)..].hash(&mut hasher);
    hasher.finish()
}

/// The tmux server of one attempt.
#[derive(Debug)]
pub struct Server {
    socket: PathBuf,
}

impl Server {
    /// The server of this folder, running or not.
    pub fn of(folder: &Path) -> Server {
        Server { socket: folder.join(FILES[0]) }
    }

    /// Starts the server, detached from this process, with one window that runs the command. Both
    /// inherit the environment of this process.
    ///
    /// # Errors
    /// The error of tmux.
    pub fn start(&self, title: &str, command: &[String]) -> io::Result<()> {
        let status = format!(" ralph: {title}   (C-b d leaves) ");
        let settings = [
            ["history-limit", "50000"],
            ["default-terminal", "screen-256color"],
            ["automatic-rename", "off"],
            ["allow-rename", "off"],
            ["set-titles", "on"],
            ["set-titles-string", "ralph: #W"],
            ["status-left-length", "120"],
            ["status-left", &status],
            ["status-right", ""],
            ["window-status-format", ""],
            ["window-status-current-format", ""],
        ];
        let mut all = self.command("start");
        for [name, value] in settings {
            all.args([";", "set", "-g", name, value]);
        }
        all.args([";", "new", "-d", "-x", "200", "-y", "50", "-n", title]).args(command);
        run(all).map(drop)
    }

    /// Copies everything that is printed from now on to a file.
    ///
    /// # Errors
    /// The error of tmux.
    pub fn copy_to(&self, file: &str) -> io::Result<()> {
        let mut command = self.command("pipe-pane");
        command.args(["-O", &format!("exec cat >{file}")]);
        run(command).map(drop)
    }

    /// The text on the screen, without colors.
    ///
    /// # Errors
    /// The error of tmux.
    pub fn screen(&self) -> io::Result<String> {
        let mut command = self.command("capture-pane");
        command.arg("-p");
        Ok(String::from_utf8_lossy(&run(command)?.stdout).into_owned())
    }

    /// Ends the server and its window.
    pub fn end(&self) {
        let _ = run(self.command("kill-server"));
    }

    /// Whether the server is running.
    pub fn runs(&self) -> bool {
        run(self.command("has")).is_ok()
    }

    /// Replaces this process by a view of the window, with keyboard, on the terminal of this
    /// process.
    ///
    /// # Errors
    /// Returns only on an error.
    pub fn attach(&self) -> io::Error {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).arg("attach");
        command.env_remove("TMUX").env_remove("TMUX_PANE").exec()
    }

    /// A tmux command: in UTF-8 whatever the locale of this process, and without settings files.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).args(["-f", "/dev/null", name]);
        command.env_remove("TMUX").env_remove("TMUX_PANE").stdin(Stdio::null());
        command
    }
}

fn run(mut command: Command) -> io::Result<Output> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = if said.trim().is_empty() { output.status.to_string() } else { said.into_owned() };
    Err(io::Error::other(format!("tmux: {}", said.trim())))
}

/// Whether this process runs in a tmux window.
pub fn is_around() -> bool {
    env::var_os("TMUX").is_some_and(|socket| !socket.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_tmux_is_detected_by_its_version() {
        for old in ["tmux 1.8\n", "tmux 2.9a", "tmux 2"] {
            assert!(is_old(old), "{old}");
        }
        for new in ["tmux 3.0", "tmux 3.3a\n", "tmux 10.1", "tmux master", "tmux next-3.8", ""] {
            assert!(!is_old(new), "{new}");
        }
    }

    #[test]
    fn the_end_of_a_screen_is_what_counts() {
        let screen = |first: &str, last: &str| {
            let middle = "x\n".repeat(LINES - 1);
            fingerprint(&format!("{first}\n{middle}{last}  \n\n\n"))
        };
        assert_eq!(screen("a", "z"), screen("b", "z"));
        assert_ne!(screen("a", "z"), screen("a", "y"));
        assert_ne!(fingerprint(""), fingerprint("z"));
        assert_eq!(fingerprint("z\n\n"), fingerprint("z"));
    }
}
