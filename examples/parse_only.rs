//! Reads a graph file with the YAML crate that `ralph` uses into the fields that `ralph` keeps, and
//! does nothing else.
//!
//! `benches/ralph.rs` runs it beside `ralph`: what `ralph` takes on top is the price of spans,
//! checks and the graph. It must know nothing of `ralph`, or the comparison would be with itself.

use std::{env, error::Error, fs, hint::black_box};

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[expect(dead_code, reason = "read for the sake of reading")]
struct File {
    #[serde(default)]
    version: Value,
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read for the sake of reading")]
struct Task {
    id: String,
    title: Option<String>,
    description: Option<String>,
    #[serde(default)]
    priority: Value,
    #[serde(default)]
    depends_on: Vec<String>,
    status: Option<String>,
    story: Option<String>,
    milestone: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    complexity: Option<String>,
    estimate: Option<String>,
    prompt: Option<String>,
    commit: Option<String>,
    timeout: Option<String>,
    max_attempts: Option<u32>,
    claimed_at: Option<String>,
    claimed_by: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).unwrap_or_else(|| "task-graph.yaml".to_owned());
    let file: File = serde_yaml::from_str(&fs::read_to_string(path)?)?;
    println!("{}", black_box(&file).tasks.len());
    Ok(())
}
