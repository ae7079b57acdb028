//! The coding agents: how they are called, what they print, what keeps them from working.

pub mod agent_command;
pub mod agent_preset;
pub mod promise;
pub mod provider_error;
pub mod transcript;
