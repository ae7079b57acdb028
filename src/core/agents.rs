//! Coding agents: their command lines, their output, their provider errors.

pub mod agent_command;
pub mod agent_preset;
pub mod promise;
pub mod provider_error;
pub mod reset;
pub mod transcript;
