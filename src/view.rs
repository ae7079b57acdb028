//! What people and programs are shown, as plain values made from graph, history and locks.
//!
//! A text formats one of these values, and `--json` prints the same value.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod attempt;
pub mod graph;
pub mod lines;
pub mod log;
pub mod message;
pub mod past_attempt;
pub mod past_run;
pub mod picture;
pub mod plan;
pub mod queue;
pub mod reach;
pub mod run;
pub mod run_report;
pub mod schema;
pub mod spend;
pub mod state;
pub mod task;
pub mod timeline;
mod words;
pub mod slot;

/// The version of the values, printed as `schema` in each. Fields are added within a version, and
/// never renamed.
pub const VERSION: u32 = 1;
