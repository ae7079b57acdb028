//! Requests over HTTP, each signed, that ask for something to be done. What that is, is no affair of
//! this module; nothing of a request gets any further than to whether it is to be believed.
//!
//! One thread and one `poll` for all connections, of which so many are open at a time and no more:
//! a newer one takes the place of the oldest, so that those who connect and say nothing keep nobody
//! out. A connection has so many seconds, one request and one answer. The only user of rustix's
//! events and, with its submodules, of `httparse`.

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

/// Where requests are taken.
pub const PATH: &str = "/wake";

/// So many connections are open at a time.
const CONNECTIONS: usize = 64;
/// So long one may take for its request, and again for taking in the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many are accepted before the others are looked at.
const ACCEPTED: usize = 128;
/// So many times one is read from before the others are looked at.
const READS: usize = 32;

/// What a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    status: &'static str,
    /// A header that only this one has, with the end of its line.
    header: &'static str,
    text: &'static str,
}

impl HttpResponse {
    const ACCEPTED: HttpResponse = HttpResponse::new("202 Accepted", "a run will start");
    const QUEUED: HttpResponse =
        HttpResponse::new("409 Conflict", "a run is asked for already, and has not begun");

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

/// Listens for requests signed with `secret` on a thread that lives as long as the process, and
/// calls `ask` for each that is to be believed; it says whether there is room for that. Comes back
/// with the address that is listened on.
///
/// # Errors
/// The address is taken, or is none of this machine.
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
    /// What is still to be sent.
    out: Vec<u8>,
    /// Whether the answer is given; the rest of what comes is read and dropped, because a connection
    /// that is closed over unread bytes takes the answer with it.
    answered: bool,
    due: Instant,
}

impl<F: FnMut() -> bool> Door<F> {
    fn serve(mut self) {
        loop {
            if self.wait().is_err() {
                // Out of memory or handles for now.
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
                    // Out of handles: what is open has to end first.
                    thread::sleep(Duration::from_millis(100));
                    return;
                }
            }
        }
    }

    /// Goes on with a connection as far as that does not wait. Whether there is more to it.
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
    /// Sends what there is to send. None when all of it is sent, else whether there is more to do.
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

    /// A door that waits for a moment only, and its address.
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
    fn whoever_is_slow_is_not_waited_for() {
        let address = hasty();
        for part in ["", "POST /wa", "POST /wake HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(part.as_bytes()).unwrap();
            let mut said = String::new();
            assert_eq!(stream.read_to_string(&mut said).unwrap(), 0, "{said}");
        }
        // Whoever is answered, and never closes, neither.
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
