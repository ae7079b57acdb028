//! What the system tells: its clocks, the free space of its disks, and random numbers.
//!
//! Limits are measured with `Instant`, which stops while the machine sleeps and never jumps. The
//! clocks only detect that the wall clock jumped.

use std::{fmt::Write as _, io, path::Path, time::Duration};

use chrono::{DateTime, Utc};

/// Smaller differences are clock adjustments and are not reported.
const NOTICEABLE: Duration = Duration::from_secs(30);

/// All clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    wall: DateTime<Utc>,
    /// Time since boot without the time the machine slept.
    awake: Duration,
    /// Time since boot including sleep.
    since_boot: Duration,
}

/// What happened to the clocks between two readings apart from time passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The machine slept for this long.
    Slept(Duration),
    /// The wall clock was set forward by this many seconds; negative means backward.
    Set(i64),
}

/// Reads the clocks.
pub fn clocks() -> ClockReading {
    let (awake, since_boot) = uptimes();
    ClockReading { wall: Utc::now(), awake, since_boot }
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

/// On systems without a second clock that counts sleep, sleep looks like a change of the wall
/// clock.
#[cfg(not(target_os = "linux"))]
fn uptimes() -> (Duration, Duration) {
    use std::{sync::OnceLock, time::Instant};
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed();
    (since, since)
}

impl ClockReading {
    /// What happened to the clocks between this reading and a later one; none if nothing worth
    /// reporting.
    pub fn gap(&self, later: &ClockReading) -> Option<Gap> {
        let ran = later.since_boot.saturating_sub(self.since_boot);
        let slept = ran.saturating_sub(later.awake.saturating_sub(self.awake));
        if slept >= NOTICEABLE {
            return Some(Gap::Slept(slept));
        }
        let wall = (later.wall - self.wall).num_seconds();
        let set = wall - i64::try_from(ran.as_secs()).unwrap_or(i64::MAX);
        (set.unsigned_abs() >= NOTICEABLE.as_secs()).then_some(Gap::Set(set))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, awake: u64, since_boot: u64) -> ClockReading {
        ClockReading {
            wall: DateTime::from_timestamp(1_800_000_000 + wall, 0).unwrap(),
            awake: Duration::from_secs(awake),
            since_boot: Duration::from_secs(since_boot),
        }
    }

    #[test]
    fn sleep_and_a_set_clock_differ() {
        let before = at(0, 100, 100);
        assert_eq!(before.gap(&at(3600, 3700, 3700)), None, "an hour of work");
        let slept = Some(Gap::Slept(Duration::from_secs(3590)));
        assert_eq!(before.gap(&at(3600, 110, 3700)), slept);
        assert_eq!(before.gap(&at(3610, 110, 110)), Some(Gap::Set(3600)));
        assert_eq!(before.gap(&at(-3590, 110, 110)), Some(Gap::Set(-3600)));
        assert_eq!(before.gap(&at(12, 110, 110)), None, "a small correction");
    }

    #[test]
    fn two_readings_in_a_row_show_no_jump() {
        let before = clocks();
        assert_eq!(before.gap(&clocks()), None);
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
