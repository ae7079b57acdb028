//! `ralph __pane`: the agent of an attempt in a window of tmux, with a real terminal.
//!
//! The guardian starts it in place of the agent, and it ends as the agent ends. It starts a tmux
//! server, which stays below the guardian, and in its window `ralph __in-pane`, which starts the
//! agent and waits for it. The two talk through a socket; the end of that is the death of the other.
//!
//! All that is printed in the window goes to the standard output of the first, by way of a `cat` that
//! tmux starts, so that what the agent has left running can print on when the first has ended.

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
};

/// How long tmux may take to open its window; on a busy machine seconds.
const OPENING: Duration = Duration::from_secs(30);

/// How long tmux may take to end once its window is empty; on a busy machine seconds, because tmux
/// first copies what was printed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the one in the window is to start; the first line that it hears.
#[derive(Debug, Serialize, Deserialize)]
struct PaneSpec {
    argv: Vec<String>,
    dir: PathBuf,
    /// Its standard input.
    prompt: PathBuf,
    /// The attempt's record, which is to be open in all that it starts.
    record: PathBuf,
}

/// A further line that it hears: the agent is to end.
const TERMINATE: &str = "terminate";

/// The one line that it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PaneReport {
    /// The agent cannot be started.
    NotStarted(String),
    /// The agent is over.
    Ended {
        /// How.
        outcome: Outcome,
        /// Whether something that it started is not.
        left: bool,
    },
}

enum PaneMessage {
    Signal,
    Word(PaneReport),
    /// The one in the window is dead.
    Gone,
}

/// Runs an agent in a window and ends as it did.
///
/// # Errors
/// As the disk and tmux give them; nothing runs then.
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
        // The window stays open for what is left, and the guardian sees to that.
    } else if result.is_err() || !process::outlast_children(PATIENCE) {
        server.end();
        process::outlast_children(PATIENCE);
    }
    match result? {
        PaneReport::NotStarted(why) => bail!("the agent cannot be started: {why}"),
        PaneReport::Ended { outcome: Outcome::Signaled { signal }, .. } => {
            signal::end_by(signal);
            Ok(Exit::Signal(signal))
        }
        PaneReport::Ended { outcome: Outcome::Exited { exit_code }, .. } => {
            Ok(Exit::Child(u8::try_from(exit_code).unwrap_or(1)))
        }
        PaneReport::Ended { outcome, .. } => bail!("the agent ended in an odd way: {outcome}"),
    }
}

/// Opens the window, has the agent started in it, and comes back when it is over.
fn show(
    options: &PaneArgs,
    server: &tmux::Server,
    outbox: Sender<PaneMessage>,
    inbox: &Receiver<PaneMessage>,
) -> Result<PaneReport> {
    const KILL: i32 = 9;
    let listener = UnixListener::bind(tmux::control(&options.folder)).context("make a socket")?;
    // The name of this very program, whoever starts it and whatever becomes of the file.
    let own = format!("/proc/{}/exe", std::process::id());
    let folder = options.folder.display().to_string();
    server.start(&options.title, &[own, "__in-pane".to_owned(), folder])?;
    let stream = accept(&listener)?;
    server.copy_to(&format!("/proc/{}/fd/1", std::process::id()))?;
    let mut orders = stream.try_clone()?;
    let brief = PaneSpec {
        argv: options.argv.clone(),
        dir: std::env::current_dir().context("the working directory is gone")?,
        prompt: options.prompt.clone(),
        record: options.record.clone(),
    };
    writeln!(orders, "{}", serde_json::to_string(&brief)?)?;
    thread::spawn(move || {
        let mut line = String::new();
        let heard = BufReader::new(stream).read_line(&mut line);
        let word = heard.ok().and_then(|_| serde_json::from_str(&line).ok());
        let _ = outbox.send(word.map_or(PaneMessage::Gone, PaneMessage::Word));
    });
    let mut screen = Screen::new(&options.folder)?;
    loop {
        match inbox.recv_timeout(options.look.unwrap_or(Duration::MAX)) {
            Ok(PaneMessage::Signal) => drop(writeln!(orders, "{TERMINATE}")),
            Ok(PaneMessage::Word(word)) => return Ok(word),
            Ok(PaneMessage::Gone) => {
                return Ok(PaneReport::Ended {
                    outcome: Outcome::Signaled { signal: KILL },
                    left: false,
                });
            }
            Err(RecvTimeoutError::Timeout) => screen.look(server)?,
            Err(RecvTimeoutError::Disconnected) => bail!("nobody is left to hear from"),
        }
    }
}

/// The one in the window calls as soon as it is there.
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

/// What is on the screen, for the guardian: a number in a file.
struct Screen {
    file: File,
    shown: u64,
}

impl Screen {
    fn new(folder: &Path) -> Result<Screen> {
        let file = File::create(tmux::screen(folder)).context("make a file for the screen")?;
        Ok(Screen { file, shown: 0 })
    }

    fn look(&mut self, server: &tmux::Server) -> io::Result<()> {
        // A window that has just closed shows nothing.
        let Ok(screen) = server.screen() else {
            return Ok(());
        };
        let shown = tmux::fingerprint(&screen);
        if shown == self.shown {
            return Ok(());
        }
        self.shown = shown;
        // In place and always as long, so that whoever reads it reads a whole one.
        self.file.write_all_at(format!("{shown:020}\n").as_bytes(), 0)
    }
}

/// `ralph __in-pane`: starts the agent in the window and stays until all that it started is over.
///
/// # Errors
/// Nobody who would say what to start.
pub fn inside(folder: &Path) -> Result<Exit> {
    process::adopt_orphans();
    let stream = UnixStream::connect(tmux::control(folder)).context("call the one outside")?;
    let mut words = stream.try_clone()?;
    let mut orders = BufReader::new(stream);
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let brief: PaneSpec = serde_json::from_str(&line).context("read what to start")?;
    let running = Arc::new(OnceLock::<Foreground>::new());
    let signalled = Arc::clone(&running);
    // What is typed reaches the agent by itself; that the window was closed is told here alone.
    signal::listen(move |number| {
        if number == signal::HANGUP {
            signalled.wait().signal(number);
        }
    })
    .context("listen for signals")?;
    let started = match start(&brief) {
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

fn start(brief: &PaneSpec) -> Result<Foreground> {
    let (program, arguments) = brief.argv.split_first().context("the command is empty")?;
    let program = process::resolve(program, &brief.dir).map_err(anyhow::Error::msg)?;
    let prompt =
        File::open(&brief.prompt).with_context(|| format!("open `{}`", brief.prompt.display()))?;
    let sign = process::sign(&brief.record).context("open the record of the attempt")?;
    let started = Foreground::start(
        &program,
        arguments,
        &brief.dir,
        &[],
        Some(prompt),
        ForegroundGroup::Shared,
    )?;
    drop(sign);
    Ok(started)
}

fn say(words: &mut UnixStream, word: &PaneReport) -> Result<()> {
    writeln!(words, "{}", serde_json::to_string(word)?).context("tell the one outside")
}
