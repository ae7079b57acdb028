//! What people and programs are shown, as plain values made from graph, history and locks.

pub mod lines;
pub mod log;
pub mod message;
pub mod summary;
