//! Points at which a test can kill this process: `crash::point("start.claimed")`.
//!
//! A point follows every change of state, so that "killed at any moment" is a list of cases. Points
//! exist in builds with debug assertions only, which is what tests run; in a release build a point
//! does nothing.
//!
//! A test sets `RALPH_CRASH_RECORD`, a file to which every process appends the names of the points
//! it passes, and `RALPH_CRASH_POINT`, such as `start.claimed:1,guard.swept:3`. The process that
//! passes a point for the n-th time, counted over all processes in that file, kills itself there.

/// All points in the order of an attempt.
pub const POINTS: &[&str] = &[
    "run.locked",
    "run.swept",
    "run.begun",
    "recover.ended",
    "recover.told",
    "recover.found",
    "start.prepared",
    "start.recorded",
    "start.claimed",
    "start.kept",
    "start.told",
    "slot.begun",
    "slot.made",
    "slot.included",
    "slot.cleared",
    "slot.written",
    "slot.started",
    "slot.restored",
    "agent.guarded",
    "guard.briefed",
    "guard.spawned",
    "guard.told",
    "start.spawned",
    "start.identified",
    "start.told_agent",
    "guard.ended",
    "guard.swept",
    "guard.drafted",
    "guard.left",
    "guard.closed",
    "close.begun",
    "close.unlocked",
    "close.settled",
    "verify.told",
    "verify.ended",
    "followup.told",
    "followup.prepared",
    "left.drafted",
    "left.committed",
    "home.copied",
    "close.home",
    "merge.queued",
    "merge.told",
    "merge.built",
    "merge.intended",
    "land.moved",
    "follow.written",
    "follow.staged",
    "follow.moved",
    "merge.landed",
    "left.kept",
    "close.judged",
    "close.written",
    "file.committed",
    "close.committed",
    "close.told",
    "slot.settled",
    "close.removed",
    "run.over",
    "run.finished",
    "back.intended",
    "back.landed",
    "back.told",
    "back.away",
    "uninit.away",
    "draft.created",
    "draft.written",
    "draft.placed",
    "graph.locked",
    "graph.edited",
    "graph.written",
    "graph.kept",
    "graph.restored",
    "holder.written",
    "journal.locked",
    "journal.written",
    "record.removing",
    "record.damaged",
    "transfer.noted",
    "transfer.arrived",
    "transfer.filled",
    "transfer.moved",
    "transfer.received",
    "transfer.taken",
    "transfer.cleared",
];

/// A point at which a test may kill this process.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    armed::pass(name);
}

/// A point that does nothing in builds without debug assertions.
#[cfg(not(debug_assertions))]
pub fn point(_: &'static str) {}

#[cfg(debug_assertions)]
mod armed {
    use std::{
        env,
        ffi::OsString,
        fs::OpenOptions,
        io::{Read, Seek, Write},
        sync::LazyLock,
    };

    use rustix::process::{Signal, getpid, kill_process};

    /// The record file, and the points at which to die.
    static BENCH: LazyLock<Option<(OsString, String)>> = LazyLock::new(|| {
        let record = env::var_os("RALPH_CRASH_RECORD")?;
        Some((record, env::var("RALPH_CRASH_POINT").unwrap_or_default()))
    });

    pub(super) fn pass(name: &str) {
        let Some((record, deadly)) = BENCH.as_ref() else {
            return;
        };
        let mut open = OpenOptions::new();
        let mut file =
            open.read(true).append(true).create(true).open(record).expect("the test's own file");
        file.write_all(format!("{name}\n").as_bytes()).expect("room for a line");
        // After an append, the position is the end of this line, whatever other processes write.
        let end = file.stream_position().expect("a position");
        let mut before = String::new();
        file.rewind().expect("a file");
        file.take(end).read_to_string(&mut before).expect("names");
        let nth = before.lines().filter(|line| *line == name).count();
        if deadly.split(',').any(|one| one == format!("{name}:{nth}")) {
            let mut file = open.open(record).expect("the test's own file");
            file.write_all(format!("killed at {name}:{nth}\n").as_bytes()).expect("room");
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}
