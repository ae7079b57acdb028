//! A `git` process with a limit.
//!
//! Git starts programs of the repository's owner: filters, merge drivers, signing programs. Any of
//! them may hang, as git-lfs does without a network. A call that reaches its limit, or that
//! continues after the run was asked to stop, is ended with its whole process group. The limit and
//! the request are the same for all threads of this process.

use std::{
    cell::Cell,
    io::{self, Read, Write},
    mem,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use crate::fixed_limit;

/// When the run was asked to stop.
static STOPPED: Mutex<Option<Instant>> = Mutex::new(None);

/// Whether a call had to be ended after that; the next one is likely to hang as well.
static HANGS: AtomicBool = AtomicBool::new(false);

/// Returns whether the run was asked to stop in a way that only the disk shows.
static ASK: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// The environment entry of the calls of a run, with which a later run finds them.
static MARK: OnceLock<(String, String)> = OnceLock::new();

/// The process groups of the running calls.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The limit of a call that makes a signature, in milliseconds, unless the usual one is shorter; 0 if it has
/// no other.
static SIGNING: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the calls of this thread make signatures.
    static SIGNS: Cell<bool> = const { Cell::new(false) };
}

/// The time for a call to end by itself after the run was asked to stop.
const STOPPING: Duration = Duration::from_secs(2);

/// The same once a call had to be ended.
const HANGING: Duration = Duration::from_millis(200);

/// The time between SIGTERM, on which git removes its lock files, and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// The number of bytes that pass at once.
const PIECE: usize = 16 * 1024;

/// The longest time between two looks at the limit.
const LOOK: Duration = Duration::from_millis(100);

/// A call that was ended because the run was asked to stop.
#[derive(Debug)]
pub struct CallStopped {
    name: String,
}

impl std::fmt::Display for CallStopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`git {}` was ended because the run was asked to stop", self.name)
    }
}

impl std::error::Error for CallStopped {}

/// Ends every call of `git` that does not end soon, now and from now on.
pub fn stop_calls() {
    let mut stopped = STOPPED.lock().unwrap_or_else(PoisonError::into_inner);
    stopped.get_or_insert_with(Instant::now);
}

/// Whether the run was asked to stop.
pub fn is_stopped() -> bool {
    STOPPED.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Ends every running call, for a process that is about to end: no call starts or returns after
/// that.
pub fn end_calls() {
    let running = running();
    let tell = |signal| {
        for group in running.iter() {
            // Fails only if the whole group is gone.
            let _ = kill_process_group(*group, signal);
        }
    };
    tell(Signal::TERM);
    tell(Signal::CONT);
    let began = Instant::now();
    while began.elapsed() < GRACE && !running.iter().all(|group| is_dead(*group).unwrap_or(true)) {
        thread::sleep(LOOK / 10);
    }
    tell(Signal::KILL);
    mem::forget(running);
}

fn running() -> MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a child of this process is dead. It is not reaped, so that its number stays its own.
fn is_dead(pid: Pid) -> io::Result<bool> {
    let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(pid), dead) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Calls `ask` while a call takes long; if it returns true, the run was asked to stop. Only the
/// first function counts.
pub fn ask_while_waiting(ask: impl Fn() -> bool + Send + Sync + 'static) {
    drop(ASK.set(Box::new(ask)));
}

/// Gives every later call this environment variable. Only the first one counts.
pub fn mark_calls(name: &str, value: &str) {
    drop(MARK.set((name.to_owned(), value.to_owned())));
}

/// Limits every later call that makes a signature.
pub fn limit_signing(limit: Duration) {
    SIGNING.store(u64::try_from(limit.as_millis()).unwrap_or(0), Ordering::Relaxed);
}

/// Does work whose calls make signatures, which may prompt an absent person.
pub(super) fn signing<T>(work: impl FnOnce() -> T) -> T {
    let before = SIGNS.replace(true);
    let done = work();
    SIGNS.set(before);
    done
}

/// The limit of a call of this thread.
fn limit() -> Duration {
    let signing = Duration::from_millis(SIGNING.load(Ordering::Relaxed));
    let is_signing = SIGNS.get() && !signing.is_zero();
    if is_signing { signing.min(fixed_limit::git()) } else { fixed_limit::git() }
}

/// A duplicate of a file that stays open in the calls of git.
///
/// # Errors
/// System errors.
pub(super) fn inherited(file: impl AsFd) -> io::Result<OwnedFd> {
    // The system closes no plain duplicate when another program is executed.
    Ok(rustix::io::dup(file)?)
}

/// Why a call is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallEnd {
    Limit(Duration),
    Stop,
}

/// Returns why a call that began at this time must end now, if it must.
fn due(began: Instant, limit: Duration) -> Option<CallEnd> {
    if began.elapsed() >= limit {
        return Some(CallEnd::Limit(limit));
    }
    let stopped = *STOPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let patience = if HANGS.load(Ordering::Relaxed) { HANGING } else { STOPPING };
    stopped.filter(|at| began.max(*at).elapsed() >= patience).map(|_| CallEnd::Stop)
}

/// The input and output of a call.
pub(super) struct CallStreams<'a> {
    pub(super) input: &'a mut dyn Read,
    pub(super) output: &'a mut dyn Write,
}

/// A running call.
struct GitCall {
    child: Child,
    group: Option<Pid>,
    stderr: Vec<u8>,
    /// The start of the limit.
    began: Instant,
    /// Whether the limit starts again when bytes have passed: the other end of a stream may be slow.
    is_stream: bool,
    /// Why it is being ended, and since when.
    ending: Option<(CallEnd, Instant)>,
    asked: Instant,
}

/// Runs a command, which must lead a process group of its own, with `input` as its standard input.
/// `name` is the git command for messages.
///
/// # Errors
/// When it cannot be started, reaches the limit, or is ended because the run was asked to stop.
pub(super) fn output(mut command: Command, mut input: &[u8], name: &str) -> Result<Output> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut stdout = Vec::new();
    let streams = CallStreams { input: &mut input, output: &mut stdout };
    let (status, stderr) = call(command, streams, name, false)?;
    Ok(Output { status, stdout, stderr })
}

/// Runs a command as [`output`] does, while its input is read and its output is written in pieces.
/// The limit applies to time without data. Returns the end and the standard error.
///
/// # Errors
/// Errors of [`output`] and of the streams.
pub(super) fn stream(
    mut command: Command,
    streams: CallStreams<'_>,
    name: &str,
) -> Result<(ExitStatus, Vec<u8>)> {
    command.stdin(Stdio::piped());
    call(command, streams, name, true)
}

fn call(
    mut command: Command,
    streams: CallStreams<'_>,
    name: &str,
    is_stream: bool,
) -> Result<(ExitStatus, Vec<u8>)> {
    if let Some((name, value)) = MARK.get() {
        command.env(name, value);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running_calls = running();
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("`git` is not on PATH; install it"),
        _ => anyhow!("cannot start `git`: {error}"),
    })?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    running_calls.extend(group);
    drop(running_calls);
    let now = Instant::now();
    let (stderr, ending) = (Vec::new(), None);
    let mut call = GitCall { child, group, stderr, began: now, is_stream, ending, asked: now };
    let ended = call.run(streams, limit());
    // The rest of its group ends with it, before the group id is free again.
    call.signal(Signal::KILL);
    if let Some(pid) = group {
        // Not reaped yet: the lock is not held while it dies.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
    let mut running_calls = running();
    let status = call.child.wait();
    running_calls.retain(|running| Some(*running) != group);
    drop(running_calls);
    let status = ended.and(status).with_context(|| format!("cannot run `git {name}`"))?;
    // It may have ended by itself just before.
    match call.ending.filter(|_| !status.success()) {
        None => Ok((status, call.stderr)),
        Some((CallEnd::Limit(limit), _)) => Err(anyhow!(
            "`git {name}` exceeded its limit of {}; a filter, a merge driver or a \
             signing program may hang",
            crate::core::duration::short(limit)
        )),
        Some((CallEnd::Stop, _)) => Err(CallStopped { name: name.to_owned() }.into()),
    }
}

impl GitCall {
    /// Passes on the input and the output until the process is dead, and does not reap it.
    fn run(&mut self, streams: CallStreams<'_>, limit: Duration) -> io::Result<()> {
        let CallStreams { input, output } = streams;
        let mut piece = InputPiece::new(input);
        let (mut stdin, mut stdout) = (self.child.stdin.take(), self.child.stdout.take());
        let mut stderr = self.child.stderr.take();
        let fds = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for fd in fds.into_iter().flatten() {
            ioctl_fionbio(fd, true)?;
        }
        let mut pause = Duration::from_micros(100);
        loop {
            if stdin.is_some() || stdout.is_some() || stderr.is_some() {
                let mut fds = Vec::with_capacity(3);
                fds.extend(stdin.as_ref().map(|it| PollFd::new(it, PollFlags::OUT)));
                fds.extend(stdout.as_ref().map(|it| PollFd::new(it, PollFlags::IN)));
                fds.extend(stderr.as_ref().map(|it| PollFd::new(it, PollFlags::IN)));
                let look = Timespec::try_from(LOOK.min(limit)).ok();
                let ready = match poll(&mut fds, look.as_ref()) {
                    Ok(ready) => ready,
                    Err(Errno::INTR) => 0,
                    Err(error) => return Err(error.into()),
                };
                if let Some(pipe) = &mut stdin
                    && piece.write_some(pipe)?
                {
                    stdin = None;
                }
                if let Some(pipe) = &mut stdout
                    && read_some(pipe, output)?
                {
                    stdout = None;
                }
                if let Some(pipe) = &mut stderr
                    && read_some(pipe, &mut self.stderr)?
                {
                    stderr = None;
                }
                if self.is_stream && ready > 0 {
                    self.began = Instant::now();
                }
                if ready == 0 && self.group.is_some_and(|pid| is_dead(pid).unwrap_or(false)) {
                    // The rest of its group waits for the other end of a line.
                    self.signal(Signal::KILL);
                }
            } else {
                if self.group.is_none_or(|pid| is_dead(pid).unwrap_or(true)) {
                    return Ok(());
                }
                thread::sleep(pause);
                pause = (pause * 2).min(LOOK / 5);
            }
            if self.enforce(limit) {
                return Ok(());
            }
        }
    }

    /// Ends the call when it must end. Returns whether to stop waiting for its output: a process
    /// outside of its group holds the pipes.
    fn enforce(&mut self, limit: Duration) -> bool {
        if self.asked.elapsed() >= Duration::from_secs(1) {
            self.asked = Instant::now();
            if ASK.get().is_some_and(|ask| ask()) {
                stop_calls();
            }
        }
        match self.ending {
            None => {
                self.ending = due(self.began, limit).map(|why| (why, Instant::now()));
                if let Some((why, _)) = self.ending {
                    HANGS.fetch_or(why == CallEnd::Stop, Ordering::Relaxed);
                    self.signal(Signal::TERM);
                    self.signal(Signal::CONT);
                }
                false
            }
            Some((_, since)) if since.elapsed() < GRACE => false,
            Some(_) => {
                self.signal(Signal::KILL);
                true
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Fails only if the whole group is gone.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Passes on ready bytes; returns whether the pipe is at its end.
fn read_some(pipe: &mut impl Read, into: &mut (impl Write + ?Sized)) -> io::Result<bool> {
    let mut bytes = [0; PIECE];
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return Ok(true),
            Ok(count) => into.write_all(&bytes[..count])?,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(false),
                io::ErrorKind::Interrupted => {}
                _ => return Ok(true),
            },
        }
    }
}

/// The piece of the input that is being written.
struct InputPiece<'a> {
    input: &'a mut dyn Read,
    bytes: Box<[u8; PIECE]>,
    /// The part of the bytes that is not written yet.
    rest: Range<usize>,
}

impl<'a> InputPiece<'a> {
    fn new(input: &'a mut dyn Read) -> InputPiece<'a> {
        InputPiece { input, bytes: Box::new([0; PIECE]), rest: 0..0 }
    }

    /// Writes a part; returns whether everything is written. A `git` that fails early does not read
    /// all input; its error message gives the reason.
    fn write_some(&mut self, pipe: &mut impl Write) -> io::Result<bool> {
        loop {
            if self.rest.is_empty() {
                match self.input.read(&mut self.bytes[..]) {
                    Ok(0) => return Ok(true),
                    Ok(count) => self.rest = 0..count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
            }
            match pipe.write(&self.bytes[self.rest.clone()]) {
                Ok(0) => return Ok(true),
                Ok(count) => self.rest.start += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => {}
                    _ => return Ok(true),
                },
            }
        }
    }
}
