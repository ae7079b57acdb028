//! Reporters: what happens, told to people and to cron.

mod board;
pub mod fancy;
pub mod heartbeat;
pub mod notify;
pub mod plain;
