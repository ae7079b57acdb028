//! The service manager that started this process and watches it: systemd, by its notify protocol.
//!
//! Datagrams to the socket that `NOTIFY_SOCKET` names; without one nobody listens and nothing is
//! said. What cannot be said is no failure: a manager that hears nothing does what it is there for.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt, net::UnixDatagram},
};

/// The variables by which the manager makes itself known to the process that it started. They are
/// not for the children of that.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Ready, and alive.
pub const READY: &str = "READY=1";
/// Still alive.
pub const ALIVE: &str = "WATCHDOG=1";
/// About to end.
pub const STOPPING: &str = "STOPPING=1";

/// Whoever listens, if anybody does.
#[derive(Debug)]
pub struct Manager {
    socket: Option<(UnixDatagram, OsString)>,
}

impl Manager {
    /// The one that the environment names.
    pub fn of_environment() -> Manager {
        Manager::at(env::var_os("NOTIFY_SOCKET"))
    }

    fn at(address: Option<OsString>) -> Manager {
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        Manager { socket }
    }

    /// Says it: assignments such as [`READY`], one a line.
    pub fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = send(socket, address, state);
        }
    }
}

fn send(socket: &UnixDatagram, address: &OsStr, state: &str) -> io::Result<usize> {
    // A manager that does not read must not make us wait.
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
    fn it_is_said_to_a_socket_with_a_path() {
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
    fn it_is_said_to_a_socket_without_one() {
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
