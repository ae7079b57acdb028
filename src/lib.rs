//! `ralph` drives coding agents through a graph of tasks, unattended, until all of it is done or
//! it can say why not.
//!
//! The modules stand in reading order, which is also the import order: a module imports only
//! modules above it. `tests/it/tidy.rs` checks that, and that the core stays pure.

// Core: no disk, clock, process, git or printing.
pub mod exit;
pub mod duration;
pub mod diagnostic;
pub mod zone;
pub mod timetable;
pub mod outcome;
pub mod transcript;
pub mod obstacle;
pub mod preset;
pub mod redact;
pub mod call;
pub mod glob;
pub mod task;
pub mod place;
pub mod verdict;
pub mod promise;
pub mod event;
pub mod spend;
pub mod record;
pub mod moment;
#[cfg(feature = "webhook")]
pub mod signature;
pub mod history;
pub mod ledger;
pub mod notes;
pub mod graph;
pub mod filter;
pub mod queue;
pub mod plan;
pub mod prompt;
pub mod template;
pub mod setup;
pub mod paths;
pub mod yaml;
pub mod edit;
pub mod merge;

// Bench: where a test can kill this process; nothing in a release.
pub mod crash;

// Adapters: each owns one outside thing; none imports another.
pub mod terminal;
pub mod output;
pub mod clock;
pub mod signal;
pub mod service;
#[cfg(feature = "webhook")]
pub mod door;
pub mod excerpt;
pub mod load;
pub mod state;
pub mod disk;
pub mod journal;
pub mod repo;
pub mod agent;
pub mod tmux;
#[cfg(feature = "webhook")]
pub mod webhook;

// Shell.
pub mod complaint;
pub mod config;
pub mod layers;
pub mod schema;
pub mod chronicle;
pub mod graphfile;
pub mod workspace;
pub mod attempt;
pub mod worktrees;
pub mod report;
pub mod hooks;
pub mod runner;
pub mod cli;
pub mod command;
