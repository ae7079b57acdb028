//! A repository that `ralph` works in: its settings, graph file, journal and attempts.

pub mod fatal;
pub mod config;
pub mod config_layers;
pub mod schema;
pub mod event_store;
pub mod failure_output;
pub mod graph_change;
pub mod graph_file;
pub mod import;
pub mod merge_attributes;
pub mod workspace;
pub mod executors;
pub mod shell_faults;
pub mod placement;
pub mod agent_faults;
pub mod attempt;
pub mod follower;
pub mod landed_work;
pub mod take_back;
pub mod slot_environment;
pub mod slot_files;
pub mod slot_pool;
pub mod suspect_slots;
