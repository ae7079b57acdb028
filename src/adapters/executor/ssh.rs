//! Hosts that `ssh` reaches: brings this program there.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::core::executor::{
    ExecutorFault, HostAnswer, ProgramBuild, SshSettings, ssh_command, ssh_trial,
};
use crate::core::hmac::sign;

/// The time for the host to answer, and for the program to be sent.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// The time for a host to be reached.
const REACH: Duration = Duration::from_secs(60);
/// The time for the output of an ended `ssh` to arrive.
const DRAIN: Duration = Duration::from_secs(2);
/// The exit code of `ssh` without a connection.
const NOT_CONNECTED: i32 = 255;
/// The number of lines that a host may print before its answer.
const GREETING: usize = 1000;

/// Checks that `ssh` reaches the host and may log in.
///
/// # Errors
/// `ssh`'s message.
pub fn reach(settings: &SshSettings) -> Result<(), String> {
    let host = &settings.host;
    let answer = super::ask(&ssh_command(settings, "exit 0")?, REACH);
    match answer.map_err(|error| format!("ssh: {error}"))? {
        answer if answer.is_good() => Ok(()),
        answer => Err(format!(
            "`{host}` is not reached: {}; `{}` must work",
            answer.why(),
            ssh_trial(settings)
        )),
    }
}

/// Brings this program to a host that does not have it, over one connection, and returns its path
/// there.
///
/// # Errors
/// The message names the failure and its side.
pub fn send_program(settings: &SshSettings, program: &Path) -> Result<String, ExecutorFault> {
    let host = &settings.host;
    send(settings, program).map_err(|fault| ExecutorFault {
        why: format!("cannot send ralph to `{host}`: {}", fault.why),
        ..fault
    })
}

fn send(settings: &SshSettings, program: &Path) -> Result<String, ExecutorFault> {
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    // The digest alone, without the name of its kind.
    let hash = sign(b"program", &version, &bytes).split_off("sha256=".len());
    let build = ProgramBuild {
        version,
        system: own_system()?,
        hash: hash[..16].to_owned(),
        size: bytes.len() as u64,
    };
    let argv = ssh_command(settings, &build.script(settings.dir.as_deref())?)?;
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ssh: {error}"))?;
    let errors = super::collect(child.stderr.take().expect("it is a pipe"));
    let output = child.stdout.take().expect("it is a pipe");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // The host may let the reads and the write wait as long as it likes: they have a thread.
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let answer = read_answer(&build, &mut lines);
        if matches!(answer, Ok(Some(HostAnswer::Wants(_)))) {
            let _ = stdin.write_all(&bytes);
        }
        drop(stdin);
        let _ = lines.read_to_end(&mut Vec::new());
        let _ = tell.send(answer);
    });
    let code = super::end(&mut child, Instant::now() + LIMIT)
        .map_err(|error| ExecutorFault::passing(error.to_string()))?;
    let said = errors.recv_timeout(DRAIN).unwrap_or_default();
    match told.recv_timeout(DRAIN).unwrap_or(Ok(None))? {
        Some(HostAnswer::Has(path) | HostAnswer::Wants(path)) if code == Some(0) => Ok(path),
        _ => {
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            // The host's own fault report.
            let why = last.unwrap_or("the connection ended early").to_owned();
            let is_its = last.is_some() && code.is_some_and(|code| code != NOT_CONNECTED);
            let lasts = is_its && !why.contains("No space left");
            Err(ExecutorFault { why, lasts })
        }
    }
}

/// Reads lines until the host has answered; none if it ends before that.
fn read_answer(
    build: &ProgramBuild,
    lines: &mut impl BufRead,
) -> Result<Option<HostAnswer>, String> {
    let mut text = String::new();
    for _ in 0..GREETING {
        let mut line = Vec::new();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => text += &String::from_utf8_lossy(&line),
        }
        if let Some(answer) = build.answer(&text)? {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

/// The system and processor of this machine, as `uname -sm` prints them.
fn own_system() -> Result<String, String> {
    let answer = super::ask(&super::words(["uname", "-sm"]), super::LIMIT);
    let answer = answer.map_err(|error| format!("uname: {error}"))?;
    Ok(answer.output.trim().to_owned())
}
