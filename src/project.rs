//! One repository as `ralph` works in it: its settings, its graph file, its journal and its attempts.

pub mod fatal;
pub mod config;
pub mod config_layers;
pub mod schema;
pub mod event_store;
pub mod graph_file;
pub mod workspace;
pub mod attempt;
pub mod worktree_pool;
