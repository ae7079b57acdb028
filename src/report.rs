//! Reporters: what happens, told to people and to cron.

#![deny(clippy::wildcard_enum_match_arm)]

mod board;
pub mod fancy;
pub mod heartbeat;
pub mod notify;
pub mod page;
pub mod plain;
pub mod window;
