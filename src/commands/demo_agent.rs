//! The agent of `ralph demo`: reads its prompt, writes files, commits and reports. It fails once, to
//! show a retry.

use std::{env, fs, io::Read, path::Path, process::Command, thread, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use super::demo::git;
use crate::core::exit::Exit;

/// The time for each step, long enough to follow on a terminal.
const WORK: Duration = Duration::from_millis(400);

/// Works on the task of the prompt.
///
/// # Errors
/// A prompt that is not from the demo; errors of the disk and of git.
pub fn run() -> Result<Exit> {
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
