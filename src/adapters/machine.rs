//! System facts: clocks, free disk space, and random numbers.
//!
//! Limits are measured with `Instant`, which stops while the machine sleeps and never jumps. The
//! clocks only detect sleep.

use std::{
    fmt::Write as _,
    fs,
    io::{self, BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Shorter sleep is not reported.
const NOTICEABLE: Duration = Duration::from_secs(30);

/// All clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Time since boot without the time the machine slept.
    awake: Duration,
    /// Time since boot including sleep.
    since_boot: Duration,
}

/// Reads the clocks.
pub fn clocks() -> ClockReading {
    let (awake, since_boot) = uptimes();
    ClockReading { awake, since_boot }
}

#[cfg(target_os = "linux")]
fn uptimes() -> (Duration, Duration) {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        )
    };
    (read(ClockId::Monotonic), read(ClockId::Boottime))
}

/// On systems without a second clock that counts sleep, sleep is not seen.
#[cfg(not(target_os = "linux"))]
fn uptimes() -> (Duration, Duration) {
    use std::{sync::OnceLock, time::Instant};
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed();
    (since, since)
}

impl ClockReading {
    /// How long the machine slept between this reading and a later one; none if that is not worth
    /// reporting.
    pub fn slept_until(&self, later: &ClockReading) -> Option<Duration> {
        let ran = later.since_boot.saturating_sub(self.since_boot);
        let slept = ran.saturating_sub(later.awake.saturating_sub(self.awake));
        (slept >= NOTICEABLE).then_some(slept)
    }
}

/// The free space on the disk of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes available to this user.
    pub bytes: u64,
    /// Files that this user can still create; none where the file system has no limit.
    pub files: Option<u64>,
}

/// The free space of the disk that holds `path`.
///
/// # Errors
/// System errors.
pub fn room(path: &Path) -> io::Result<Room> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Room {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        files: (found.f_files > 0).then_some(found.f_favail),
    })
}

/// Whether this user may write to a file or folder, should it exist.
pub fn may_write(path: &Path) -> bool {
    let access = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
    !matches!(access, Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS))
}

/// Returns 256 random bits as hexadecimal digits, from the kernel.
///
/// # Errors
/// The kernel has none to give, which Linux and macOS rule out after the machine has started.
pub fn token() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

// Keeps the machine awake: a program of the system holds it for as long as this process lives.

/// How long the program may take to say that it holds.
const PATIENCE: Duration = Duration::from_secs(3);

/// The program's command: it reports the hold, and ends with its standard input, whose other end
/// only this process has.
const HOLD: &str = "echo held; exec cat > /dev/null";

/// A hold on the machine; dropping it lets the machine sleep.
#[derive(Debug)]
pub struct AwakeHold {
    child: Child,
    /// Whether the machine also stays awake with its lid closed.
    pub with_lid: bool,
}

impl AwakeHold {
    /// Keeps the machine awake, if it can with its lid closed.
    ///
    /// # Errors
    /// Why it cannot, for a person.
    pub fn take() -> Result<AwakeHold, String> {
        if cfg!(target_os = "macos") {
            let own = std::process::id().to_string();
            let child =
                start(Command::new("caffeinate").args(["-i", "-s", "-w", &own]), "caffeinate")?;
            return Ok(AwakeHold { child, with_lid: false });
        }
        inhibited("idle:sleep:handle-lid-switch", true).or_else(|_| inhibited("idle:sleep", false))
    }
}

fn inhibited(what: &str, with_lid: bool) -> Result<AwakeHold, String> {
    const PROGRAM: &str = "systemd-inhibit";
    let mut command = Command::new(PROGRAM);
    command.arg(format!("--what={what}")).args(["--mode=block", "--who=ralph", "--why=a run"]);
    let mut child = start(command.args(["sh", "-c", HOLD]), PROGRAM)?;
    let (sender, receiver) = mpsc::channel();
    let out = child.stdout.take();
    thread::spawn(move || {
        let mut line = String::new();
        let read = out.map(|out| BufReader::new(out).read_line(&mut line));
        let _ = sender.send(read.is_some() && line == "held\n");
    });
    let hold = AwakeHold { child, with_lid };
    match receiver.recv_timeout(PATIENCE) {
        Ok(true) => Ok(hold),
        Ok(false) | Err(_) => Err(format!("`{PROGRAM}` does not work here")),
    }
}

/// Starts the program in a group of its own, where Ctrl-C does not reach it.
fn start(command: &mut Command, program: &str) -> Result<Child, String> {
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map_err(|_| format!("there is no `{program}` here"))
}

impl Drop for AwakeHold {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends with its input, or hangs.
        for _ in 0..20 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the machine has a battery or a lid, and so may sleep while it is used.
pub fn may_sleep() -> bool {
    if cfg!(target_os = "macos") {
        let asked = Command::new("pmset").args(["-g", "batt"]).stdin(Stdio::null()).output();
        return asked.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("Battery"));
    }
    has_battery(Path::new("/sys/class/power_supply")) || has_lid(Path::new("/proc/acpi/button/lid"))
}

/// Whether a power supply in this folder is a battery of the machine, and not of a mouse.
fn has_battery(folder: &Path) -> bool {
    let says = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    let is_battery = |path: &Path| {
        says(path, "type").trim() == "Battery" && says(path, "scope").trim() != "Device"
    };
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| is_battery(&entry.path()))
}

fn has_lid(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut lids| lids.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(awake: u64, since_boot: u64) -> ClockReading {
        ClockReading {
            awake: Duration::from_secs(awake),
            since_boot: Duration::from_secs(since_boot),
        }
    }

    #[test]
    fn sleep_is_not_work() {
        let before = at(100, 100);
        assert_eq!(before.slept_until(&at(3700, 3700)), None, "an hour of work");
        assert_eq!(before.slept_until(&at(110, 3700)), Some(Duration::from_secs(3590)));
    }

    #[test]
    fn two_readings_in_a_row_show_no_jump() {
        let before = clocks();
        assert_eq!(before.slept_until(&clocks()), None);
    }

    #[test]
    fn free_space_is_read_and_a_missing_folder_is_an_error() {
        let here = room(Path::new(".")).unwrap();
        assert!(here.bytes > 0 && here.files != Some(0));
        assert_eq!(room(Path::new("/proc")).unwrap().bytes, 0);
        assert!(room(Path::new("/no/such/folder")).is_err());
    }

    #[test]
    fn tokens_are_long_and_different() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}

#[cfg(test)]
mod awake_tests {
    use super::*;

    #[test]
    fn a_battery_of_a_mouse_is_none_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let supply = |name: &str, kind: &str, scope: Option<&str>| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("type"), format!("{kind}\n")).unwrap();
            if let Some(scope) = scope {
                fs::write(path.join("scope"), format!("{scope}\n")).unwrap();
            }
        };
        assert!(!has_battery(&folder.path().join("none")) && !has_lid(folder.path()));
        supply("AC", "Mains", None);
        supply("hid-mouse", "Battery", Some("Device"));
        assert!(!has_battery(folder.path()));
        supply("BAT0", "Battery", None);
        assert!(has_battery(folder.path()) && has_lid(folder.path()));
    }
}
