//! A host that `ssh` reaches: the real `sshd` of this machine on a loopback port, with its own keys,
//! home folder and settings.

use std::{
    fs::{self, File},
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ralph::core::executor::SshSettings;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{is_root, marked, program, send, status, tree, unavailable};
use crate::support::until;

/// The name of the host in the settings of `ssh`.
pub const ALIAS: &str = "elsewhere";

/// A connection, and the `sshd` that serves it.
struct Served {
    line: TcpStream,
    daemon: Child,
}

/// A host; gone when dropped, with its processes.
pub struct SshHost {
    dir: TempDir,
    port: u16,
    served: Arc<Mutex<Vec<Served>>>,
    refuses: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    accepts: Option<JoinHandle<()>>,
}

impl SshHost {
    /// A host; `None` without an OpenSSH server.
    pub fn start() -> Option<SshHost> {
        let (Some(sshd), Some(keygen), Some(_)) =
            (program("sshd"), program("ssh-keygen"), program("ssh"))
        else {
            unavailable("there is no OpenSSH server here");
            return None;
        };
        // The server of a system makes it when it starts.
        if is_root() && fs::create_dir_all("/run/sshd").is_err() {
            unavailable("sshd has no folder /run/sshd");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("ssh-host-").tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        write_settings(dir.path(), port, &keygen);
        let host = SshHost {
            dir,
            port,
            served: Arc::default(),
            refuses: Arc::default(),
            ends: Arc::default(),
            accepts: None,
        };
        let config = host.path("sshd_config");
        let checked = Command::new(&sshd).arg("-t").arg("-f").arg(&config).output().unwrap();
        if !checked.status.success() {
            unavailable(&format!("sshd: {}", String::from_utf8_lossy(&checked.stderr)));
            return None;
        }
        Some(host.accepting(listener, sshd))
    }

    /// Serves each connection with an `sshd` of its own, as inetd does: no port can be taken by
    /// another process, and a connection can be cut without ending the host.
    fn accepting(mut self, listener: TcpListener, sshd: PathBuf) -> SshHost {
        let (config, log) = (self.path("sshd_config"), self.path("sshd.log"));
        let (served, refuses, ends) =
            (Arc::clone(&self.served), Arc::clone(&self.refuses), Arc::clone(&self.ends));
        self.accepts = Some(thread::spawn(move || {
            for line in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(line) = line else { continue };
                if refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let end = |line: &TcpStream| Stdio::from(OwnedFd::from(line.try_clone().unwrap()));
                let daemon = Command::new(&sshd)
                    .arg("-i")
                    .arg("-f")
                    .arg(&config)
                    .arg("-E")
                    .arg(&log)
                    .stdin(end(&line))
                    .stdout(end(&line))
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                served.lock().unwrap().push(Served { line, daemon });
            }
        }));
        self
    }

    /// The settings of an executor that reaches it.
    pub fn settings(&self) -> SshSettings {
        let config = self.path("ssh_config").display().to_string();
        SshSettings {
            host: ALIAS.to_owned(),
            args: vec!["-F".to_owned(), config],
            dir: None,
            env: Vec::new(),
            ralph: None,
            send_binary: false,
        }
    }

    /// The folder with everything of the host.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The home folder of the user there.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("sshd.log")).unwrap_or_default()
    }

    /// The number of connections that were ever made.
    pub fn connections(&self) -> usize {
        self.served.lock().unwrap().len()
    }

    /// Cuts every connection, as a network that fails does.
    pub fn cut(&self) {
        for served in self.served.lock().unwrap().iter() {
            let _ = served.line.shutdown(Shutdown::Both);
        }
    }

    /// Stops serving without closing a connection, as a network that loses packets does, until
    /// [`go_on`](SshHost::go_on).
    pub fn stop(&self) {
        self.send_to_daemons(Signal::STOP);
    }

    /// Continues after [`stop`](SshHost::stop).
    pub fn go_on(&self) {
        self.send_to_daemons(Signal::CONT);
    }

    /// Closes new connections at once, or serves them again.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Expects that no process of any connection is left.
    #[track_caller]
    pub fn nothing_is_left(&self) {
        until("no process of the host is left", || {
            self.reap();
            marked(self.dir.path()).is_empty()
        });
    }

    /// Collects the servers that have ended.
    pub fn reap(&self) {
        for served in self.served.lock().unwrap().iter_mut() {
            let _ = served.daemon.try_wait();
        }
    }

    /// Signals the servers, but not what they have started.
    fn send_to_daemons(&self, signal: Signal) {
        for served in self.served.lock().unwrap().iter() {
            for pid in tree(served.daemon.id()) {
                if status(pid, "Name:").is_some_and(|name| name.starts_with("sshd")) {
                    send(pid, signal);
                }
            }
        }
    }
}

impl Drop for SshHost {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
        let mut served = self.served.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for served in served.iter_mut() {
            for pid in tree(served.daemon.id()) {
                send(pid, Signal::KILL);
            }
            let _ = served.daemon.wait();
        }
        for pid in marked(self.dir.path()) {
            send(pid, Signal::KILL);
        }
        // A process that dies may still write into the folder.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Writes the keys and the settings of both sides.
fn write_settings(dir: &Path, port: u16, keygen: &Path) {
    for key in ["host_key", "user_key"] {
        let made = Command::new(keygen)
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
            .arg(dir.join(key))
            .status();
        assert!(made.unwrap().success());
    }
    let public = |key: &str| fs::read_to_string(dir.join(key).with_extension("pub")).unwrap();
    private(&dir.join("authorized_keys"), &public("user_key")).unwrap();
    private(&dir.join("known_hosts"), &format!("[127.0.0.1]:{port} {}", public("host_key")))
        .unwrap();
    let home = dir.join("home");
    fs::create_dir(&home).unwrap();
    let (dir, home) = (dir.display(), home.display());
    let server = format!(
        "HostKey {dir}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n\
         AuthorizedKeysFile {dir}/authorized_keys\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin yes\nPrintMotd no\n\
         SetEnv HOME={home}\n"
    );
    let client = format!(
        "Host {ALIAS}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {dir}/user_key\n  \
         IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {dir}/known_hosts\n  \
         GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
    );
    private(Path::new(&format!("{dir}/sshd_config")), &server).unwrap();
    private(Path::new(&format!("{dir}/ssh_config")), &client).unwrap();
}

/// Writes a file that only the user can read.
fn private(path: &Path, text: &str) -> io::Result<()> {
    File::create(path)?.set_permissions(fs::Permissions::from_mode(0o600))?;
    fs::write(path, text)
}
