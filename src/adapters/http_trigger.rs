//! A server of signed HTTP requests that trigger an action. The request body is not interpreted
//! here; a request only counts as valid or not.
//!
//! One thread and one `poll` serve all connections. The number of open connections is limited: a
//! new connection replaces the oldest one, so that idle clients cannot block others. A connection
//! has a time limit, one request and one answer. With its submodules, the only user of `httparse`.

mod request;
mod request_auth;

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use chrono::Utc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use request::{HttpRequest, ReadProgress};
use request_auth::RequestAuth;

/// The path of the requests.
pub const PATH: &str = "/wake";

/// The number of connections that may be open at a time.
const CONNECTIONS: usize = 64;
/// The time limit of a connection for its request, and again for reading the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of connections that are accepted before the open ones get their turn.
const ACCEPTED: usize = 128;
/// The number of reads from one connection before the others get their turn.
const READS: usize = 32;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    status: &'static str,
    /// A header of this answer alone, with its line end.
    header: &'static str,
    text: &'static str,
}

impl HttpResponse {
    const ACCEPTED: HttpResponse = HttpResponse::new("202 Accepted", "a run will start");
    const QUEUED: HttpResponse =
        HttpResponse::new("409 Conflict", "a run is already requested and has not started");

    const fn new(status: &'static str, text: &'static str) -> HttpResponse {
        HttpResponse { status, header: "", text }
    }

    const fn unauthorized(text: &'static str) -> HttpResponse {
        HttpResponse::new("401 Unauthorized", text)
    }

    const fn bad(text: &'static str) -> HttpResponse {
        HttpResponse::new("400 Bad Request", text)
    }

    fn bytes(self) -> Vec<u8> {
        let HttpResponse { status, header, text } = self;
        let length = text.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             {header}Connection: close\r\n\r\n{text}\n"
        )
        .into_bytes()
    }
}

/// Listens for requests signed with `secret`, on a thread that lives as long as the process, and
/// calls `ask` for each valid request; `ask` returns whether there is room for it. Returns the
/// address of the listener.
///
/// # Errors
/// The address is in use, or is not an address of this machine.
pub fn listen(
    address: SocketAddr,
    secret: &[u8],
    ask: impl FnMut() -> bool + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let warden = RequestAuth::new(secret, Utc::now().timestamp());
    let door = Door { listener, warden, ask, patience: PATIENCE, open: Vec::new() };
    thread::Builder::new().name("door".to_owned()).spawn(move || door.serve())?;
    Ok(address)
}

struct Door<F> {
    listener: TcpListener,
    warden: RequestAuth,
    ask: F,
    patience: Duration,
    /// The oldest first.
    open: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    request: HttpRequest,
    /// The bytes that are still to be sent.
    out: Vec<u8>,
    /// Whether the answer has been given. The rest of the input is read and dropped, because
    /// closing a connection with unread bytes discards the answer.
    answered: bool,
    due: Instant,
}

impl<F: FnMut() -> bool> Door<F> {
    fn serve(mut self) {
        loop {
            if self.wait().is_err() {
                // Temporarily out of memory or file handles.
                thread::sleep(Duration::from_secs(1));
            }
            self.accept();
            let mut at = 0;
            while at < self.open.len() {
                if self.step(at) && Instant::now() < self.open[at].due {
                    at += 1;
                } else {
                    self.open.remove(at);
                }
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut wanted = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for connection in &self.open {
            let flags = if connection.out.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            wanted.push(PollFd::new(&connection.stream, flags));
        }
        let next = self.open.iter().map(|connection| connection.due).min();
        let limit = next.map(|due| due.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut wanted, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.open.len() == CONNECTIONS {
                        self.open.remove(0);
                    }
                    self.open.push(Connection {
                        stream,
                        request: HttpRequest::default(),
                        out: Vec::new(),
                        answered: false,
                        due: Instant::now() + self.patience,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // Out of file handles: an open connection has to end first.
                    thread::sleep(Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    /// Continues a connection as far as possible without blocking. Returns whether it stays open.
    fn step(&mut self, at: usize) -> bool {
        let connection = &mut self.open[at];
        for _ in 0..READS {
            if let Some(goes_on) = connection.send() {
                return goes_on;
            }
            let mut bytes = [0; 4096];
            let length = match connection.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            if connection.answered {
                continue;
            }
            let answer = match connection.request.take(&bytes[..length]) {
                ReadProgress::More => continue,
                ReadProgress::Continue => {
                    connection.out.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
                    continue;
                }
                ReadProgress::Refused(answer) => answer,
                ReadProgress::Whole => {
                    let (now, request) = (Utc::now().timestamp(), &connection.request);
                    match self.warden.judge(request, now, Instant::now()) {
                        Err(answer) => answer,
                        Ok(signature) if (self.ask)() => {
                            self.warden.remember(signature);
                            HttpResponse::ACCEPTED
                        }
                        Ok(_) => HttpResponse::QUEUED,
                    }
                }
            };
            connection.request = HttpRequest::default();
            connection.out.extend(answer.bytes());
            connection.answered = true;
            connection.due = Instant::now() + self.patience;
        }
        true
    }
}

impl Connection {
    /// Sends as much as possible. None when all is sent, else whether the connection stays open.
    fn send(&mut self) -> Option<bool> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Some(false),
                Ok(length) => drop(self.out.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Some(error.kind() == ErrorKind::WouldBlock),
            }
            if self.out.is_empty() && self.answered {
                let _ = self.stream.shutdown(Shutdown::Write);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with a short time limit, and its address.
    fn hasty() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (warden, patience) = (RequestAuth::new(b"secret", 0), Duration::from_millis(200));
        let door = Door { listener, warden, ask: || true, patience, open: Vec::new() };
        thread::spawn(move || door.serve());
        address
    }

    #[test]
    fn slow_clients_do_not_block_others() {
        let address = hasty();
        for part in ["", "POST /wa", "POST /wake HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(part.as_bytes()).unwrap();
            let mut said = String::new();
            assert_eq!(stream.read_to_string(&mut said).unwrap(), 0, "{said}");
        }
        // A client that gets its answer and never closes is not waited for either.
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 404 Not Found\r\n"), "{said}");
        let gone = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(20));
            stream.write_all(b"x").is_err()
        });
        assert!(gone, "it still listens");
    }
}
