//! The pure core: facts, decisions and texts, without disk, clock, process, git or printing.

// A new variant of an event, state or verdict must not be forgotten silently.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod exit;
pub mod finding;
pub mod retired;
pub mod variants;
pub mod known_bug;
pub mod samples;
pub mod default_value;
pub mod duration;
pub mod dice;
pub mod diagnostic;
pub mod test_output;
pub mod time_zone;
pub mod timetable;
pub mod task_id;
pub mod glob;
pub mod task_paths;
pub mod executor;
pub mod outcome;
pub mod failure_line;
pub mod agents;
pub mod redact;
pub mod loop_paths;
pub mod commit_id;
pub mod reviewer;
pub mod verdict;
pub mod whole;
pub mod environment;
pub mod event;
pub mod attempt;
pub mod spend;
pub mod waste;
pub mod notification_kind;
pub mod hmac;
pub mod history;
pub mod notes;
pub mod graph;
pub mod import;
pub mod sandbox;
pub mod select;
pub mod night;
pub mod run;
pub mod prompt;
pub mod proof;
pub mod risk;
pub mod setup;
pub mod layout;
