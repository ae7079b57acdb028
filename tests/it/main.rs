//! The tests of the whole program: the real binary, real repositories, real agents. One test
//! binary, because each would link libgit2.

#![expect(clippy::format_collect, reason = "graphs are short, and read better made so")]

mod agents;
mod apart;
mod asking;
mod bugs;
#[cfg(target_os = "linux")]
mod carrier;
mod check;
mod checkout;
mod children;
mod config;
#[cfg(target_os = "linux")]
mod containment;
mod crash;
mod demo;
mod doctor;
mod draft;
mod door;
mod edits;
#[cfg(target_os = "linux")]
mod engines;
mod evidence;
mod executors;
mod faults;
#[cfg(target_os = "linux")]
mod fetched;
mod follow_ups;
mod guardians;
mod help;
mod import;
mod in_place;
mod init;
mod isolation;
mod json;
mod landing;
mod limits;
mod logs;
mod loops;
#[cfg(target_os = "linux")]
mod matrix;
mod mcp;
mod merge;
mod notes;
mod notify;
mod onto;
mod oracle;
mod others;
#[cfg(target_os = "linux")]
mod outputs;
mod page;
#[cfg(all(target_os = "linux", debug_assertions))]
mod points;
mod picture;
mod plan;
mod planning;
mod programs;
mod prompt;
mod proof;
mod reach;
mod real;
mod report;
mod requests;
mod review;
mod reviewer;
mod run;
#[cfg(target_os = "linux")]
mod sandbox;
mod schedule;
mod secrets;
mod serve;
mod settings;
mod signals;
mod slot_changes;
mod slots;
mod status;
mod support;
mod tasks;
mod terminal;
mod tidy;
#[cfg(target_os = "linux")]
mod tmux;
#[cfg(target_os = "linux")]
mod torture;
mod transcripts;
mod transfer;
mod units;
mod usage;
mod verdicts;
mod verify;
#[cfg(target_os = "linux")]
mod waits;
#[cfg(target_os = "linux")]
mod whole;
mod workflows;
mod workload;
