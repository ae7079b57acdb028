//! What people and programs are shown, as plain values made from graph, history and locks.
//!
//! A text formats one of these values, and `--json` prints the same value.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod attempt;
pub mod lines;
pub mod log;
pub mod message;
pub mod picture;
pub mod night;
pub mod page;
pub mod plan;
pub mod review;
pub mod run;
pub mod run_report;
pub mod spend;
pub mod state;
pub mod task;
pub mod timeline;
pub mod transcript;
pub mod waits;
mod words;

/// The version of the values, printed as `schema` in each. Fields are added within a version, and
/// never renamed.
pub const VERSION: u32 = 1;
