//! Bubblewrap: the program `bwrap`, which makes namespaces.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    SandboxSupport,
    access::{AccessRules, PathAccess},
    landlock,
};
use crate::{adapters::process::program, core::executor::SandboxEngine};

/// The namespaces, and no privileges.
const BASE: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
];

/// The root of the file system, and the parts replaced in it.
const ROOT: &[&str] = &["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];

/// The parts of `/proc` with which root changes the machine. Bubblewrap covers some of them itself.
const PARTS_OF_PROC: &str =
    "acpi bus driver dynamic_debug fs irq mtrr pressure scsi sys sysrq-trigger tty";

/// From version 0.8.
const NO_NAMESPACES: &str = "--disable-userns";

/// The time for a busy machine to make a sandbox.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tries it.
///
/// # Errors
/// It is missing, or the system forbids user namespaces.
pub(super) fn probe() -> Result<SandboxSupport, String> {
    let search = env::var_os("PATH");
    let program = program::find("bwrap", Path::new("/"), search.as_deref())
        .map_err(|_| "`bwrap` is not on PATH; install the package `bubblewrap`".to_owned())?;
    let version = call(&program, &["--version"])?;
    let version = version.trim().trim_start_matches("bubblewrap ").to_owned();
    let attempt =
        |more: &[&str]| call(&program, &[BASE, more, ROOT, &["--", "/bin/sh", "-c", ":"]].concat());
    let closes_namespaces = attempt(&[NO_NAMESPACES]).is_ok();
    if !closes_namespaces {
        attempt(&[])
            .map_err(|why| format!("bubblewrap {version} does not work here: {why}{}", hint()))?;
    }
    let has_scopes = landlock::abi() >= landlock::SCOPES;
    let mut gaps = Vec::new();
    if !has_scopes {
        gaps.push(
            "abstract sockets of other programs are reachable while the network is on: the kernel \
             has no Landlock with scopes (Linux 6.12)"
                .to_owned(),
        );
    }
    if !closes_namespaces {
        gaps.push(format!(
            "further user namespaces can be made inside: bubblewrap {version} is older than 0.8"
        ));
    }
    Ok(SandboxSupport {
        engine: SandboxEngine::Bubblewrap,
        version,
        gaps,
        program,
        closes_namespaces,
        has_scopes,
    })
}

fn call(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let said = |error: std::io::Error| format!("`{}`: {error}", program.display());
    let command = duct::cmd(program, arguments).stdin_null().stdout_capture().stderr_capture();
    let handle = command.unchecked().start().map_err(said)?;
    if handle.wait_timeout(PATIENCE).map_err(said)?.is_none() {
        let _ = handle.kill();
        return Err(format!("`{}` does not end", program.display()));
    }
    let output = handle.wait().map_err(said)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().next().unwrap_or("it failed").trim_start_matches("bwrap: ");
    Err(first.to_owned())
}

/// The obstacle to user namespaces, and the remedy.
fn hint() -> &'static str {
    let is = |name: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/{name}")).is_ok_and(|text| text.trim() == value)
    };
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        "; this is a container, which must be started so that user namespaces are allowed in it \
         (`--security-opt seccomp=unconfined --security-opt systempaths=unconfined`)"
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "; `kernel.apparmor_restrict_unprivileged_userns` is 1: install an AppArmor profile for \
         `bwrap`, or set it to 0"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "; `kernel.unprivileged_userns_clone` is 0: set it to 1"
    } else if is("user/max_user_namespaces", "0") {
        "; `user.max_user_namespaces` is 0: set it to a larger number"
    } else {
        "; the system must allow user namespaces"
    }
}

/// Returns the command line that is put before that of a process; `copies` take the places of their
/// originals, and `masks`, an empty file and one with an empty object, those of hidden files.
pub(super) fn command_line(
    support: &SandboxSupport,
    rules: &AccessRules,
    copies: &[(PathBuf, PathBuf)],
    masks: &[String; 2],
    dir: &Path,
    without_network: bool,
) -> Vec<String> {
    let mut line = vec![support.program.display().to_string()];
    line.extend(BASE.iter().map(|word| (*word).to_owned()));
    if support.closes_namespaces {
        line.push(NO_NAMESPACES.to_owned());
    }
    if without_network {
        line.push("--unshare-net".to_owned());
    }
    line.extend(ROOT.iter().map(|word| (*word).to_owned()));
    for part in PARTS_OF_PROC.split(' ').map(|name| format!("/proc/{name}")) {
        if Path::new(&part).exists() {
            line.extend(["--ro-bind".to_owned(), part.clone(), part]);
        }
    }
    let mut emptied: Vec<PathBuf> = Vec::new();
    for (path, access) in rules.steps() {
        let shown = path.display().to_string();
        let words: Vec<&str> = match access {
            PathAccess::Hidden if path.is_dir() => {
                emptied.push(path.to_owned());
                vec!["--perms", "0555", "--tmpfs", &shown]
            }
            PathAccess::Hidden => {
                let is_json = path.extension().is_some_and(|it| it == "json");
                vec!["--ro-bind", &masks[usize::from(is_json)], &shown]
            }
            PathAccess::Private => vec!["--perms", "1777", "--tmpfs", &shown],
            PathAccess::ReadOnly => vec!["--ro-bind", &shown, &shown],
            PathAccess::Writable | PathAccess::Anchored if path.starts_with("/dev") => {
                vec!["--dev-bind", &shown, &shown]
            }
            PathAccess::Writable | PathAccess::Anchored => vec!["--bind", &shown, &shown],
        };
        line.extend(words.into_iter().map(str::to_owned));
    }
    for (copy, original) in copies {
        let words =
            ["--bind".to_owned(), copy.display().to_string(), original.display().to_string()];
        line.extend(words);
    }
    // After everything that is mounted in them.
    for folder in emptied {
        line.extend(["--remount-ro".to_owned(), folder.display().to_string()]);
    }
    line.extend(["--chdir".to_owned(), dir.display().to_string(), "--".to_owned()]);
    line
}

/// Returns the command line so that bubblewrap itself does not end by the signals that ask the agent
/// to end, which would kill everything in the sandbox at once. The agent gets them as usual.
pub(super) fn outlasting_signals(line: Vec<String>) -> Vec<String> {
    let script = "trap '' HUP INT TERM; exec \"$@\"";
    let shell = ["sh", "-c", script, "ralph-sandbox"].map(str::to_owned);
    shell.into_iter().chain(line).collect()
}
