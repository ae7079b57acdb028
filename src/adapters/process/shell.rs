//! What the shell says about a command without running it.

use std::time::Duration;

/// The time in which a busy machine reads a command.
const PATIENCE: Duration = Duration::from_secs(20);

/// Words with which a command that starts right may still lack its end.
const RESERVED: &[&str] = &[
    "!", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while", "{", "}",
];

/// Returns why the shell does not accept a command; none if it does, or if there is no shell to ask.
pub fn shell_fault(command: &str) -> Option<String> {
    if is_plain(command) {
        return None;
    }
    let asked = duct::cmd("sh", ["-n", "-c", command])
        .stdin_null()
        .stdout_null()
        .stderr_capture()
        .unchecked();
    let handle = asked.start().ok()?;
    if handle.wait_timeout(PATIENCE).ok()?.is_none() {
        let _ = handle.kill();
        return None;
    }
    let output = handle.wait().ok()?;
    if output.status.success() {
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = errors.lines().next().unwrap_or("it is refused");
    // `sh: 1: Syntax error: …`, `sh: -c: line 1: syntax error …`.
    let said = line.to_lowercase().find("syntax error").map_or(line, |at| &line[at..]);
    Some(said.replacen("Syntax", "syntax", 1))
}

/// Whether a command is only words without a meaning to the shell, which it always accepts.
fn is_plain(command: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./=:,@%+- ".contains(c);
    command.chars().all(is_plain) && !command.split(' ').any(|word| RESERVED.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_shell_would_refuse_is_found() {
        for good in
            ["cargo test --all", "test -f a && echo 'b'", "if true; then :; fi", "exit 3", ""]
        {
            assert_eq!(shell_fault(good), None, "{good}");
        }
        for bad in ["if true", "echo 'open", "echo (", "cargo test &&& true", "for x in a do"] {
            assert!(shell_fault(bad).is_some(), "{bad}");
        }
    }
}
