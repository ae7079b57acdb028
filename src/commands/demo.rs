//! `ralph demo`: runs the real loop in a temporary repository with a small agent, a shell script.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::run::{RunOutput, runner};
use crate::{
    adapters::terminal,
    cli::DemoArgs,
    core::{
        agents::agent_command::AgentCommand,
        exit::{Exit, fail},
        loop_paths::LoopPaths,
    },
    project::workspace::{self, GRAPH, Workspace},
    runner::RunOptions,
    view::lines::Verbosity,
};

/// The verify command of two tasks.
const CHECK: &str = "check-links.sh";

/// Creates a repository, runs its graph and shows the result.
///
/// # Errors
/// Errors of the disk and of git.
pub fn run(options: &DemoArgs) -> Result<Exit> {
    let dir = make_folder(options.to.as_deref())?;
    fs::write(dir.join(GRAPH), include_str!("demo.yaml")).context("write the graph")?;
    git(&dir, &["init", "--quiet", "--initial-branch=main"])?;
    git(&dir, &["config", "user.name", "Demo Agent"])?;
    git(&dir, &["config", "user.email", "demo-agent@example.invalid"])?;
    git(&dir, &["config", "commit.gpgsign", "false"])?;
    fs::write(dir.join(CHECK), include_str!("demo-check.sh")).context("write the check")?;
    git(&dir, &["add", GRAPH, CHECK])?;
    git(&dir, &["commit", "--quiet", "-m", "Plan the field guide"])?;
    terminal::say(&format!(
        "Created a repository with eight tasks in {}.\nEach attempt is a real process that reads its \
         prompt, writes files, commits and reports.\n",
        dir.display()
    ));
    let own = env::current_exe().context("find this program")?;
    let script = dir.join(".git/demo-agent.sh");
    fs::write(&script, include_str!("demo-agent.sh")).context("write the agent")?;
    let argv = [Path::new("sh"), &script, &own].map(|word| word.display().to_string());
    let agent = AgentCommand { name: "demo".to_owned(), ..AgentCommand::command(argv.to_vec()) };
    let mut workspace = Workspace::unset(&dir, LoopPaths::default())?;
    let short = json!({"timeout": "1m", "idle": "0s", "child_wait_timeout": "0s", "grace": "2s"});
    let mut flags = short.as_object().cloned().unwrap_or_default();
    flags.extend(options.jobs.map(|jobs| ("jobs".to_owned(), json!(jobs))));
    workspace.set_flags(flags)?;
    let options = RunOptions { agents: Some(vec![agent]), ..RunOptions::default() };
    let file = workspace.graph()?;
    let output = RunOutput { verbosity: Verbosity::Normal, detached: false };
    let exit = runner(workspace, file, options, output)?.run(|_, _| {})?.exit();
    let log = git(&dir, &["log", "--graph", "--format=%h %s"])?;
    let command = workspace::shown_command();
    let place = dir.display();
    terminal::print(&format!(
        "\nThe commits:\n\n{log}\nOne attempt said that it was done, and a check caught it:\n\n  cd \
         {place}\n  {command} show index.1     # what it said, and what the check said\n  {command} \
         status\n  {command} serve --open     # the same in the browser\n\nIn your own \
         repository:\n\n  {command} init\n"
    ))?;
    Ok(exit)
}

fn make_folder(to: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = to {
        if dir.exists() {
            return fail(
                Exit::Error,
                format!("`{}` already exists; name a folder that does not exist", dir.display()),
            );
        }
        fs::create_dir_all(dir).with_context(|| format!("create `{}`", dir.display()))?;
        return dir.canonicalize().with_context(|| format!("find `{}`", dir.display()));
    }
    let dir =
        tempfile::Builder::new().prefix("ralph-demo-").tempdir().context("create a folder")?;
    Ok(dir.keep())
}

/// Runs git and returns its output.
fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .current_dir(dir)
        .args(words)
        .output()
        .context("run `git`; it must be installed")?;
    if !output.status.success() {
        bail!("`git {}`: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
