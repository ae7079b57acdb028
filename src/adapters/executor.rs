//! Questions to executors outside of an attempt: what became of a job, which containers are left,
//! whether a host has this program.
//!
//! Every question has a limit. One that is not answered says nothing about what runs there.

pub mod container;
mod query;
pub mod slurm;
pub mod ssh;
