//! `ralph __filter`: git starts it in place of a filter or a merge driver, whose program an attempt may
//! have written, and it runs that program in a sandbox.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};

use super::Invocation;
use crate::{
    adapters::process::{self, Foreground, ForegroundGroup, ProcessSpec, sandbox::INHERITED},
    core::{
        environment::AWAY,
        exit::{Exit, Failure},
        verdict::Outcome,
    },
    project::{
        executors,
        placement::{self, ProcessFacts},
    },
};

/// Runs a shell command of git, in the sandbox of this name unless this process is in one.
///
/// # Errors
/// There is no such sandbox; it does not work.
pub fn run(
    invocation: &Invocation,
    name: &str,
    command: &str,
    arguments: &[String],
) -> Result<Exit> {
    let dir = env::current_dir().context("the working directory is gone")?;
    let words = ["sh", "-c", command, "sh"].map(str::to_owned);
    let mut spec = ProcessSpec {
        argv: words.iter().chain(arguments).cloned().collect(),
        dir: dir.clone(),
        env: Vec::new(),
        env_remove: Vec::new(),
        stdin: INHERITED.into(),
        stdout: "/dev/null".into(),
        stderr: "/dev/null".into(),
    };
    let mut left = None;
    if env::var_os(AWAY).is_none() {
        let workspace = invocation.workspace()?;
        let executor = executors::find(&workspace.config, Some(name))?;
        let mark = format!("filter.{}", std::process::id());
        let record = workspace.state.scratch(&mark).context("create a temporary file")?;
        fs::write(&record, "").context("create a temporary file")?;
        left = Some(record.clone());
        let facts = ProcessFacts {
            slot: dir.clone(),
            base: None,
            task_dir: workspace.root().join(".ralph/tasks").join(&mark),
            record,
            agent: None,
            resources: None,
            limit: None,
            mark,
        };
        let placed = placement::placed(&workspace, &executor, &facts, spec);
        spec = placed.map_err(|fault| Failure::new(Exit::Agent, fault.to_string()))?.spec;
    }
    let set = spec.env.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
    let removed = spec.env_remove.iter().map(|name| (name.as_str(), None));
    let env: Vec<(&str, Option<&str>)> = removed.chain(set).collect();
    let program = process::resolve(&spec.argv[0], Path::new("/"));
    let program = program.map_err(|why| Failure::new(Exit::Agent, why))?;
    let started =
        Foreground::start(&program, &spec.argv[1..], &dir, &env, None, ForegroundGroup::Shared);
    let outcome = started.and_then(|process| process.wait()).context("start `sh`")?;
    if let Some(record) = left {
        let _ = fs::remove_dir_all(record.with_extension("tmpdir"));
        let _ = fs::remove_file(record);
    }
    Ok(match outcome {
        Outcome::Exited { exit_code } => Exit::Child(u8::try_from(exit_code).unwrap_or(1)),
        _ => Exit::Error,
    })
}
