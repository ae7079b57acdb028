//! Checks of the machine: disk space, file locks, and the `ralph` on PATH.

use std::{env, fs};

use super::{
    Finding,
    bench::{Probe, ProbeAnswer, ProbeFolder, VERSION},
};
use crate::{
    adapters::{
        disk::{self, Room},
        process,
    },
    core::exit::Exit,
    project::workspace::Workspace,
};

/// Free bytes below which the logs of a long run may not fit.
const LITTLE: u64 = 1_000_000_000;
/// Free bytes below which a run cannot work.
const NONE: u64 = 100_000_000;
/// The same limits in number of files.
const LITTLE_FILES: u64 = 10_000;
const NO_FILES: u64 = 1_000;

/// Checks the space on the disks of the slot and of git's folder.
pub(super) fn room(workspace: &Workspace) -> Finding {
    let places = [workspace.root(), workspace.repo.common_dir()];
    let rooms: Result<Vec<Room>, _> = places.into_iter().map(disk::room).collect();
    match rooms {
        Ok(rooms) => judge(Room {
            bytes: rooms.iter().map(|room| room.bytes).min().unwrap_or(0),
            files: rooms.iter().filter_map(|room| room.files).min(),
        }),
        Err(error) => Finding::ok("disk", format!("unknown: {error}")),
    }
}

fn judge(room: Room) -> Finding {
    let files = room.files.unwrap_or(u64::MAX);
    let found = match room.files {
        Some(files) if files < LITTLE_FILES => format!("room for {files} more files"),
        _ => format!("{} MB free", room.bytes / 1_000_000),
    };
    let cure = "free space; a run stops when the disk is full";
    if room.bytes < NONE || files < NO_FILES {
        Finding::fault("disk", Exit::Disk, found, cure)
    } else if room.bytes < LITTLE || files < LITTLE_FILES {
        Finding::warning("disk", found, cure)
    } else {
        Finding::ok("disk", found)
    }
}

/// Checks that file locks prevent concurrent runs.
pub(super) fn locks(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "locks";
    let cure = "keep the repository on a local disk";
    match workspace.state.locks_hold() {
        Ok(true) => Finding::ok(ABOUT, "concurrent runs are prevented"),
        Ok(false) => {
            let found =
                "file locks do not work on this file system; two runs could work at the same time";
            Finding::warning(ABOUT, found, cure)
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context("take a lock");
            Finding::of_error(ABOUT, &error, cure)
        }
    }
}

/// Checks that `ralph` on PATH is this program.
pub(super) fn earlier(workspace: &Workspace, bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "ralph";
    const VERSION_LINE: &str = concat!("ralph ", env!("CARGO_PKG_VERSION"));
    let Ok(first) = process::resolve("ralph", workspace.root()) else {
        return Finding::ok(
            ABOUT,
            format!("{VERSION_LINE}; not on PATH, so prompts name its path"),
        );
    };
    let own = env::current_exe().and_then(fs::canonicalize).ok();
    if own.is_some() && fs::canonicalize(&first).ok() == own {
        return Finding::ok(ABOUT, VERSION_LINE);
    }
    let shown = first.display().to_string();
    let argv = vec![shown.clone(), "--version".to_owned()];
    let what = match bench.ask(Probe { argv, ..Probe::default() }, VERSION) {
        Ok(ProbeAnswer::Yes(lines)) => match lines.last() {
            Some(line) if line == VERSION_LINE => "another file of the same version".to_owned(),
            Some(line) => format!("another program, `{line}`"),
            None => "another program".to_owned(),
        },
        _ => "another program of unknown version".to_owned(),
    };
    let cure = format!("put the folder of this program first on PATH, or remove `{shown}`");
    Finding::warning(ABOUT, format!("`{shown}` on PATH is {what}; this is {VERSION_LINE}"), cure)
}

#[cfg(test)]
mod tests {
    use super::{super::FindingLevel, *};

    #[test]
    fn low_disk_space_is_a_warning_and_none_a_fault() {
        let mark = |bytes, files| judge(Room { bytes, files }).mark;
        assert_eq!(mark(2_000_000_000, None), FindingLevel::Ok);
        assert_eq!(mark(2_000_000_000, Some(10_000)), FindingLevel::Ok);
        assert_eq!(mark(999_999_999, None), FindingLevel::Warning);
        assert_eq!(mark(2_000_000_000, Some(9_999)), FindingLevel::Warning);
        assert_eq!(mark(99_999_999, None), FindingLevel::Fault(Exit::Disk));
        assert_eq!(mark(2_000_000_000, Some(3)), FindingLevel::Fault(Exit::Disk));
        let few = judge(Room { bytes: 2_000_000_000, files: Some(3) });
        assert_eq!(few.found, "room for 3 more files");
    }
}
