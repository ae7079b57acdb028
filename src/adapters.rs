//! Adapters: each owns one part of the outside world and the crate for it. None imports another.

pub mod terminal;
pub mod agent_output;
pub mod bounded_log;
pub mod machine;
pub mod signal;
pub mod service_manager;
pub mod http_server;
pub mod mcp;
pub mod excerpt;
pub mod state;
pub mod journal;
pub mod git;
pub mod process;
pub mod executor;
pub mod tmux;
