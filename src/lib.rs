//! `ralph` drives coding agents through a graph of tasks, unattended, until all of it is done or
//! it can say why not.
//!
//! The modules stand in reading order, which is also the import order: a module imports only
//! modules above it. `tests/it/tidy.rs` checks that, and that the core stays pure.

// Core: no disk, clock, process, git or printing.
pub mod diagnostic;
pub mod duration;
pub mod edit;
pub mod event;
pub mod exit;
pub mod graph;
pub mod history;
pub mod plan;
pub mod prompt;
pub mod yaml;

// Adapters: each owns one outside thing; none imports another.
pub mod agent;
pub mod excerpt;
pub mod journal;
pub mod load;
pub mod output;
pub mod record;
pub mod repo;
pub mod signal;
pub mod state;
pub mod terminal;

// Shell.
pub mod attempt;
pub mod chronicle;
pub mod cli;
pub mod command;
pub mod complaint;
pub mod config;
pub mod graphfile;
pub mod report;
pub mod runner;
pub mod task;
pub mod verdict;
pub mod workspace;
