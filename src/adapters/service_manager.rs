//! The service manager that started and watches this process: systemd, with its notify protocol.
//!
//! Messages are datagrams to the socket in `NOTIFY_SOCKET`. Without that variable nothing is sent.
//! Errors are ignored: a manager that gets no message acts as it is configured to.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt, net::UnixDatagram},
};

/// The variables that the manager sets for the process it started. Child processes must not inherit
/// them.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// The service is ready and alive.
pub const READY: &str = "READY=1";
/// The service is still alive.
pub const ALIVE: &str = "WATCHDOG=1";
/// The service is about to end.
pub const STOPPING: &str = "STOPPING=1";

/// The connection to the service manager, if there is one.
#[derive(Debug)]
pub struct Manager {
    socket: Option<(UnixDatagram, OsString)>,
}

impl Manager {
    /// Connects to the socket that the environment names.
    pub fn of_environment() -> Manager {
        Manager::at(env::var_os("NOTIFY_SOCKET"))
    }

    fn at(address: Option<OsString>) -> Manager {
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        Manager { socket }
    }

    /// Sends a message: assignments such as [`READY`], one per line.
    pub fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = send(socket, address, state);
        }
    }
}

fn send(socket: &UnixDatagram, address: &OsStr, state: &str) -> io::Result<usize> {
    // A manager that does not read must not block this process.
    socket.set_nonblocking(true)?;
    match address.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
            let address = SocketAddr::from_abstract_name(name)?;
            socket.send_to_addr(state.as_bytes(), &address)
        }
        _ => socket.send_to(state.as_bytes(), address),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn a_socket_with_a_path_gets_the_message() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify me");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::at(Some(path.into()));
        manager.tell(READY);
        manager.tell(ALIVE);
        assert_eq!([heard(&socket), heard(&socket)], ["READY=1", "WATCHDOG=1"]);
        drop((socket, dir));
        manager.tell(STOPPING);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_socket_gets_the_message() {
        use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
        let name = format!("ralph-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap());
        Manager::at(Some(format!("@{name}").into())).tell(READY);
        assert_eq!(heard(&socket.unwrap()), "READY=1");
    }

    #[test]
    fn a_missing_or_unreachable_socket_is_no_failure() {
        assert!(Manager::at(None).socket.is_none());
        for address in ["/no/such/socket", ""] {
            let manager = Manager::at(Some(address.into()));
            let (socket, address) = manager.socket.as_ref().unwrap();
            assert!(send(socket, address, READY).is_err(), "{address:?}");
            manager.tell(READY);
        }
    }
}
