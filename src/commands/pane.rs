//! `ralph __pane`: runs the agent of an attempt in a tmux window.
//!
//! The guardian starts `__pane` in place of the agent; it exits with the result of the agent. It starts
//! a tmux server below the guardian, and `ralph __in-pane` in its window, which starts the agent and
//! waits for it. The two talk through a socket; each takes its closing for the death of the other.
//!
//! A `cat` that tmux starts copies the output of the window to the standard output of `__pane`, so that
//! remaining processes of the agent can still print after `__pane` has exited.

use std::{
    fs::{DirBuilder, File},
    io::{self, BufRead, BufReader, Write},
    os::unix::{
        fs::{DirBuilderExt, FileExt},
        net::{UnixListener, UnixStream},
        process::parent_id,
    },
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        process::{self, Foreground, ForegroundGroup},
        signal, tmux,
    },
    cli::PaneArgs,
    core::{exit::Exit, verdict::Outcome},
    regular_file,
};

/// The time limit for tmux to open its window.
const OPENING: Duration = Duration::from_secs(30);

/// How long tmux may take to end once its window is empty; on a busy machine seconds, because tmux
/// first copies what was printed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The agent to start: the first line that `__in-pane` reads.
#[derive(Debug, Serialize, Deserialize)]
struct PaneSpec {
    argv: Vec<String>,
    dir: PathBuf,
    /// The file for standard input.
    prompt: PathBuf,
    /// The attempt's record, which stays open in all processes of the agent.
    record: PathBuf,
}

/// The line that tells `__in-pane` to terminate the agent.
const TERMINATE: &str = "terminate";

/// The line that `__in-pane` writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PaneReport {
    /// The agent did not start.
    NotStarted(String),
    /// The agent ended.
    Ended {
        /// Its outcome.
        outcome: Outcome,
        /// Whether processes that it started are still running.
        left: bool,
    },
}

enum PaneMessage {
    Signal,
    Report(PaneReport),
}

/// Runs an agent in a window and returns its result.
///
/// # Errors
/// Errors of the disk and of tmux. No process is left running.
pub fn run(options: &PaneArgs) -> Result<Exit> {
    process::adopt_orphans();
    let (outbox, inbox) = mpsc::channel();
    let signals = outbox.clone();
    signal::listen(move |number| {
        if number != signal::SUSPEND {
            let _ = signals.send(PaneMessage::Signal);
        }
    })
    .context("listen for signals")?;
    DirBuilder::new()
        .mode(0o700)
        .create(&options.folder)
        .with_context(|| format!("make `{}`", options.folder.display()))?;
    let server = tmux::Server::of(&options.folder);
    let result = show(options, &server, outbox, &inbox);
    if let Ok(PaneReport::Ended { left: true, .. }) = result {
        // The window stays open for the remaining processes, which the guardian handles.
    } else if result.is_err() || !process::outlast_children(PATIENCE) {
        server.end();
        process::outlast_children(PATIENCE);
    }
    match result? {
        PaneReport::NotStarted(why) => bail!("cannot start the agent: {why}"),
        PaneReport::Ended { outcome: Outcome::Signaled { signal }, .. } => {
            signal::end_by(signal);
            Ok(Exit::Signal(signal))
        }
        PaneReport::Ended { outcome: Outcome::Exited { exit_code }, .. } => {
            Ok(Exit::Child(u8::try_from(exit_code).unwrap_or(1)))
        }
        PaneReport::Ended { outcome, .. } => bail!("unexpected outcome of the agent: {outcome}"),
    }
}

/// Opens the window, starts the agent in it and waits for its end.
fn show(
    options: &PaneArgs,
    server: &tmux::Server,
    outbox: Sender<PaneMessage>,
    inbox: &Receiver<PaneMessage>,
) -> Result<PaneReport> {
    const KILL: i32 = 9;
    let listener = UnixListener::bind(tmux::control(&options.folder)).context("create a socket")?;
    // This path stays valid when the file of the program is replaced.
    let own = format!("/proc/{}/exe", std::process::id());
    let folder = options.folder.display().to_string();
    server.start(&options.title, &[own, "__in-pane".to_owned(), folder])?;
    let stream = accept(&listener)?;
    server.copy_to(&format!("/proc/{}/fd/1", std::process::id()))?;
    let mut orders = stream.try_clone()?;
    let spec = PaneSpec {
        argv: options.argv.clone(),
        dir: std::env::current_dir().context("the working directory is gone")?,
        prompt: options.prompt.clone(),
        record: options.record.clone(),
    };
    writeln!(orders, "{}", serde_json::to_string(&spec)?)?;
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stream).read_line(&mut line);
        let word = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        // Without a line, `__in-pane` died.
        let killed = PaneReport::Ended { outcome: Outcome::Signaled { signal: KILL }, left: false };
        let _ = outbox.send(PaneMessage::Report(word.unwrap_or(killed)));
    });
    let mut screen = Screen::new(&options.folder)?;
    loop {
        match inbox.recv_timeout(options.look.unwrap_or(Duration::MAX)) {
            Ok(PaneMessage::Signal) => drop(writeln!(orders, "{TERMINATE}")),
            Ok(PaneMessage::Report(word)) => return Ok(word),
            Err(RecvTimeoutError::Timeout) => screen.look(server)?,
            Err(RecvTimeoutError::Disconnected) => bail!("all senders are gone"),
        }
    }
}

/// Waits for the connection from `__in-pane`.
fn accept(listener: &UnixListener) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    let began = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if began.elapsed() > OPENING {
                    bail!("tmux did not open a window");
                }
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error).context("wait for the window"),
        }
    }
}

/// The fingerprint of the screen, in a file for the guardian.
struct Screen {
    file: File,
    shown: u64,
}

impl Screen {
    fn new(folder: &Path) -> Result<Screen> {
        let file = File::create(tmux::screen(folder)).context("create the screen file")?;
        Ok(Screen { file, shown: 0 })
    }

    fn look(&mut self, server: &tmux::Server) -> io::Result<()> {
        // The window may have just closed.
        let Ok(screen) = server.screen() else {
            return Ok(());
        };
        let shown = tmux::fingerprint(&screen);
        if shown == self.shown {
            return Ok(());
        }
        self.shown = shown;
        // In place and with a fixed length, so that a reader never sees a part.
        self.file.write_all_at(format!("{shown:020}\n").as_bytes(), 0)
    }
}

/// `ralph __in-pane`: starts the agent in the window and waits until all its processes have ended.
///
/// # Errors
/// No connection to `__pane`.
pub fn inside(folder: &Path) -> Result<Exit> {
    process::adopt_orphans();
    let stream = UnixStream::connect(tmux::control(folder)).context("connect to `__pane`")?;
    let mut words = stream.try_clone()?;
    let mut orders = BufReader::new(stream);
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let spec: PaneSpec = serde_json::from_str(&line).context("read the command to start")?;
    let running = Arc::new(OnceLock::<Foreground>::new());
    let signalled = Arc::clone(&running);
    // The agent gets typed signals itself; only this process learns that the window was closed.
    signal::listen(move |number| {
        if number == signal::HANGUP {
            signalled.wait().signal(number);
        }
    })
    .context("listen for signals")?;
    let started = match start(&spec) {
        Ok(started) => started,
        Err(error) => {
            say(&mut words, &PaneReport::NotStarted(format!("{error:#}")))?;
            return Ok(Exit::Agent);
        }
    };
    let running = running.get_or_init(|| started);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    thread::spawn(move || {
        for order in orders.lines().map_while(Result::ok) {
            if order == TERMINATE {
                process::terminate_own_group();
            }
        }
        if !over.load(Ordering::SeqCst) {
            process::kill_own_group();
        }
    });
    let outcome = running.wait().context("wait for the agent")?;
    is_over.store(true, Ordering::SeqCst);
    say(&mut words, &PaneReport::Ended { outcome, left: !process::is_childless() })?;
    process::outlast_children(Duration::MAX);
    close_terminal();
    Ok(Exit::Success)
}

/// Closes the terminal and waits until tmux has read it to its end. When a process exits, tmux closes
/// its window at once and drops what the kernel has not handed over by then; the end of the terminal,
/// in contrast, comes after everything that was printed.
fn close_terminal() {
    let tmux = parent_id();
    if process::close_stdio().is_err() {
        return;
    }
    let began = Instant::now();
    // Another process adopts this one when tmux ends.
    while parent_id() == tmux && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}

fn start(spec: &PaneSpec) -> Result<Foreground> {
    let (program, arguments) = spec.argv.split_first().context("the command is empty")?;
    let program = process::resolve(program, &spec.dir).map_err(anyhow::Error::msg)?;
    let prompt = regular_file::open_input(&spec.prompt)
        .with_context(|| format!("open `{}`", spec.prompt.display()))?;
    let sign = process::sign(&spec.record).context("open the record of the attempt")?;
    let started = Foreground::start(
        &program,
        arguments,
        &spec.dir,
        &[],
        Some(prompt),
        ForegroundGroup::Shared,
    )?;
    drop(sign);
    Ok(started)
}

fn say(words: &mut UnixStream, word: &PaneReport) -> Result<()> {
    writeln!(words, "{}", serde_json::to_string(word)?).context("report to `__pane`")
}
