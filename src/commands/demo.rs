//! `ralph demo`: runs the real loop in a temporary repository with a small built-in agent. The agent fails
//! once, to show a retry.

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::run::runner;
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
    git(&dir, &["add", GRAPH])?;
    git(&dir, &["commit", "--quiet", "-m", "Plan the field guide"])?;
    terminal::say(&format!(
        "Created a repository with eight tasks in {}.\nEach attempt is a real process that reads its \
         prompt, writes files, commits and reports.\n",
        dir.display()
    ));
    let own = env::current_exe().context("find this program")?;
    let agent = AgentCommand::command(vec![own.display().to_string(), "__demo-agent".to_owned()]);
    let mut workspace = Workspace::unset(&dir, LoopPaths::default())?;
    let short = json!({"timeout": "1m", "idle": "0s", "child_wait_timeout": "0s", "grace": "2s"});
    let mut flags = short.as_object().cloned().unwrap_or_default();
    flags.extend(options.jobs.map(|jobs| ("jobs".to_owned(), json!(jobs))));
    workspace.set_flags(flags)?;
    let options = RunOptions { agents: Some(vec![agent]), ..RunOptions::default() };
    let file = workspace.graph()?;
    let exit = runner(workspace, file, options, Verbosity::Normal)?.run()?.exit();
    let log = git(&dir, &["log", "--graph", "--format=%h %s"])?;
    let command = workspace::shown_command();
    let place = dir.display();
    terminal::print(&format!(
        "\nThe commits:\n\n{log}\nLook around:\n\n  cd {place}\n  {command} dag-status\n  \
         git log --oneline             # the work, each with the commit that completes its task\n  cat \
         logs/ralph.jsonl | jq -c '[.action, .task_id, .verdict]'\n  cat \
         logs/attempts/proofread/2/prompt.md   # the prompt of the second attempt\n"
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

/// The time for each step, long enough to follow on a terminal.
const WORK: Duration = Duration::from_millis(400);

/// Works on the task of the prompt.
///
/// # Errors
/// A prompt that is not from the demo; errors of the disk and of git.
pub fn agent() -> Result<Exit> {
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("read the prompt")?;
    let task = env::var("RALPH_TASK_ID").context("this command is the agent of `ralph demo`")?;
    ensure!(prompt.starts_with(&format!("# Task {task}\n")), "the prompt is for another task");
    println!("reading the prompt ({} lines)", prompt.lines().count());
    thread::sleep(WORK);
    let first_time = !prompt.contains("### The attempt before this one");
    let (path, text, message) = page(&task)?;
    println!("writing {path}");
    let dir = env::current_dir()?;
    if let Some(folder) = Path::new(path).parent() {
        fs::create_dir_all(dir.join(folder))?;
    }
    fs::write(dir.join(path), text)?;
    thread::sleep(WORK);
    if task == "proofread" && first_time {
        println!("a link to birds/stork.md leads nowhere, giving up");
        return Ok(Exit::Error);
    }
    git(&dir, &["add", "--", path])?;
    git(&dir, &["commit", "--quiet", "-m", message])?;
    println!("committed: {message}");
    report(&task)?;
    Ok(Exit::Success)
}

/// Reports completion: half of the tasks with a `DONE` file, half with `ralph task-complete`.
fn report(task: &str) -> Result<()> {
    if task.len().is_multiple_of(2) {
        let done = Path::new(&env::var("RALPH_TASK_DIR")?).join("DONE");
        return fs::write(&done, "done\n").with_context(|| format!("write `{}`", done.display()));
    }
    let status = Command::new(env::current_exe()?).args(["task-complete", task]).status()?;
    ensure!(status.success(), "`ralph task-complete {task}` failed");
    Ok(())
}

/// The result of a task: a path, its text, and the commit message.
fn page(task: &str) -> Result<(&'static str, &'static str, &'static str)> {
    Ok(match task {
        "outline" => (
            "README.md",
            "# A field guide to three birds\n\nSee [the index](INDEX.md).\n",
            "Write the outline",
        ),
        "robin" => (
            "birds/robin.md",
            "# Robin\n\nRed breast, round body, sings all winter.\n",
            "Describe the robin",
        ),
        "heron" => (
            "birds/heron.md",
            "# Heron\n\nGrey, tall, stands in the water and waits.\n",
            "Describe the heron",
        ),
        "swift" => (
            "birds/swift.md",
            "# Swift\n\nEats, drinks and sleeps on the wing.\n",
            "Describe the swift",
        ),
        "index" => (
            "INDEX.md",
            "# Index\n\n- [Heron](birds/heron.md)\n- [Robin](birds/robin.md)\n- [Swift](birds/swift.md)\n",
            "Make an index of the birds",
        ),
        "style" => (
            "STYLE.md",
            "# House style\n\nOne line a bird, no exclamation marks.\n",
            "Write down the house style",
        ),
        "proofread" => (
            "PROOF.md",
            "# Proof\n\nEvery link of the index leads somewhere.\n",
            "Check every link of the index",
        ),
        "release" => (
            "RELEASE.md",
            "# First edition\n\nThree birds, proofread.\n",
            "Write the release notes",
        ),
        other => bail!("`{other}` is not a task of the demo"),
    })
}
