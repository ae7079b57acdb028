//! The relay: commands of `ralph` inside a sandbox or at a worker, run outside of it.
//!
//! The guardian listens on a socket next to the record of the attempt. A `ralph` inside sends its
//! arguments there, and the guardian runs `ralph __relayed` with them, which decides what it does.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::{
        fd::AsRawFd,
        unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    ProcessSpec,
    calls::{OwnCall, captured},
    own_program,
    tree::relayed,
};

/// The variable with the path of the socket.
pub const VARIABLE: &str = "RALPH_RELAY";

/// The variable with the top of the main checkout, in which relayed commands run.
pub const MAIN: &str = "RALPH_RELAY_MAIN";

/// The variable that tells a command that it is relayed.
pub const RELAYED: &str = "RALPH_RELAYED";

/// Whether this process runs a command for an agent in a sandbox.
pub fn is_relayed() -> bool {
    env::var_os(RELAYED).is_some()
}

/// The longest request: arguments and standard input.
const REQUEST: u64 = 1 << 20;

/// The longest answer on each stream.
const ANSWER: usize = 16 << 20;

/// The number of commands at a time.
const AT_ONCE: usize = 4;

/// The time that a client has to send its request.
const SENDING: Duration = Duration::from_secs(10);

/// The time that a command has: longer than it waits for a lock.
const LIMIT: Duration = Duration::from_secs(150);

/// The longest path of a socket.
const LONGEST: usize = 107;

/// A command to run outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayRequest {
    /// The arguments, without the program.
    pub arguments: Vec<String>,
    /// The standard input; empty if the command does not read it.
    pub input: String,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayAnswer {
    /// The exit code.
    pub code: i32,
    /// The standard output.
    pub output: String,
    /// The standard error.
    pub errors: String,
}

impl RelayAnswer {
    fn refusal(why: &str) -> RelayAnswer {
        RelayAnswer { code: 1, output: String::new(), errors: format!("ralph: error: {why}\n") }
    }
}

/// A socket with a path of any length.
struct SocketAddress {
    path: PathBuf,
    /// Open while the path leads through it.
    _folder: Option<fs::File>,
}

impl SocketAddress {
    fn of(path: &Path) -> io::Result<SocketAddress> {
        if path.as_os_str().len() <= LONGEST {
            return Ok(SocketAddress { path: path.to_owned(), _folder: None });
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = fs::File::open(above)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(SocketAddress { path, _folder: Some(folder) })
    }
}

/// The socket of an attempt; removed when dropped.
#[derive(Debug)]
pub(super) struct RelaySocket {
    path: PathBuf,
}

impl Drop for RelaySocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens for the commands of a process, if it has the variable of a relay.
///
/// # Errors
/// I/O errors.
pub(super) fn listen(spec: &ProcessSpec) -> io::Result<Option<RelaySocket>> {
    let value = |name: &str| {
        spec.env.iter().find(|(found, _)| found == name).map(|(_, value)| PathBuf::from(value))
    };
    let (Some(path), Some(main)) = (value(VARIABLE), value(MAIN)) else {
        return Ok(None);
    };
    // A guardian that was killed left it.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&SocketAddress::of(&path)?.path)?;
    let socket = RelaySocket { path };
    fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
    let server = Arc::new(RelayServer { env: environment(spec, &main), main });
    thread::Builder::new().name("relay".to_owned()).spawn(move || server.run_all(&listener))?;
    Ok(Some(socket))
}

/// The environment of relayed commands: that of the attempt. The repository is found from its main
/// checkout, and from no folder in which an attempt could have made one.
fn environment(spec: &ProcessSpec, main: &Path) -> Vec<(String, String)> {
    let own = |name: &str| [VARIABLE, MAIN, "TMPDIR"].contains(&name);
    let mut env: Vec<_> = spec.env.iter().filter(|(name, _)| !own(name)).cloned().collect();
    let main = main.display().to_string();
    env.push((RELAYED.to_owned(), "1".to_owned()));
    env.extend(["RALPH_TASK_DIR", "TASK_FOLDER"].map(|name| (name.to_owned(), main.clone())));
    env
}

struct RelayServer {
    env: Vec<(String, String)>,
    main: PathBuf,
}

impl RelayServer {
    /// Serves every client in a thread of its own; further ones wait.
    fn run_all(self: &Arc<RelayServer>, listener: &UnixListener) {
        let (give_back, turns) = mpsc::channel();
        for _ in 0..AT_ONCE {
            let _ = give_back.send(());
        }
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Too many open files: later there may be fewer.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let _ = turns.recv();
            let (own, done) = (Arc::clone(self), give_back.clone());
            let started = thread::Builder::new().name("relayed".to_owned()).spawn(move || {
                let given = own.serve(&stream).unwrap_or_else(|why| RelayAnswer::refusal(&why));
                answer(stream, &given);
                let _ = done.send(());
            });
            if started.is_err() {
                let _ = give_back.send(());
            }
        }
    }

    fn serve(&self, stream: &UnixStream) -> Result<RelayAnswer, String> {
        let said = |error: io::Error| format!("the relay: {error}");
        stream.set_read_timeout(Some(SENDING)).map_err(said)?;
        let mut line = Vec::new();
        let mut reader = BufReader::new(stream.take(REQUEST + 1));
        reader.read_until(b'\n', &mut line).map_err(said)?;
        if line.len() as u64 > REQUEST {
            return Err(format!("a relayed command is limited to {REQUEST} bytes"));
        }
        let request: RelayRequest = serde_json::from_slice(&line)
            .map_err(|error| format!("an invalid request: {error}"))?;
        self.run(&request).map_err(said)
    }

    fn run(&self, request: &RelayRequest) -> io::Result<RelayAnswer> {
        let words = ["__relayed".to_owned(), "--".to_owned()].into_iter();
        let words: Vec<String> = words.chain(request.arguments.iter().cloned()).collect();
        let command = duct::cmd(own_program(), words).dir(&self.main).env("PWD", &self.main);
        let command =
            self.env.iter().fold(command, |command, (name, value)| command.env(name, value));
        let mut own = relayed();
        let mut number = None;
        let ended = captured(&command, &request.input, LIMIT, |pid| {
            number = pid;
            own.extend(pid);
            drop(own);
        });
        relayed().retain(|running| Some(*running) != number);
        let OwnCall { code, mut output, mut errors } = ended?;
        let Some(code) = code else {
            let limit = LIMIT.as_secs();
            let why = format!("it was killed, or took longer than {limit} s, outside the sandbox");
            return Ok(RelayAnswer::refusal(&why));
        };
        for text in [&mut output, &mut errors] {
            let end = (0..=ANSWER.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
        }
        Ok(RelayAnswer { code, output, errors })
    }
}

/// Sends the answer; a client that is gone does not want it.
fn answer(mut stream: UnixStream, answer: &RelayAnswer) {
    let _ = stream.set_write_timeout(Some(SENDING));
    let _ = super::send(&mut stream, answer);
    let _ = stream.shutdown(Shutdown::Both);
}

/// Has a command run outside.
///
/// # Errors
/// I/O errors; the guardian is gone.
pub fn call(socket: &Path, request: &RelayRequest) -> io::Result<RelayAnswer> {
    let mut stream = UnixStream::connect(&SocketAddress::of(socket)?.path)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    // A server that refuses does not read all of it.
    let sent = stream.write_all(&line);
    let mut text = String::new();
    BufReader::new(&stream).read_line(&mut text)?;
    match serde_json::from_str(&text) {
        Ok(answer) => Ok(answer),
        Err(error) => Err(sent.err().unwrap_or_else(|| error.into())),
    }
}
