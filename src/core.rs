//! What `ralph` knows and decides: no disk, clock, process, git or printing.

pub mod exit;
pub mod duration;
pub mod diagnostic;
pub mod time_zone;
pub mod timetable;
pub mod outcome;
pub mod agents;
pub mod redact;
pub mod loop_paths;
pub mod commit_id;
pub mod verdict;
pub mod event;
pub mod spend;
pub mod notification_kind;
#[cfg(feature = "webhook")]
pub mod hmac;
pub mod history;
pub mod notes;
pub mod graph;
pub mod merge_queue;
pub mod select;
pub mod prompt;
pub mod setup;
