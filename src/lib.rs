//! `ralph` runs coding agents through a task graph, unattended, until it is complete or `ralph` can
//! say why it cannot be.
//!
//! The folders are the layers. A module imports only from its own layer and from the layers above it
//! in this list; `tests/it/tidy.rs` checks that, and that the core stays pure.

pub use ralph_core as core;
pub mod crash;
pub mod fixed_limit;
pub mod regular_file;
pub mod adapters;
pub mod project;
pub mod view;
pub mod runner;
pub mod report;
pub mod cli;
pub mod commands;
