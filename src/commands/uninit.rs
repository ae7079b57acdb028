//! `ralph uninit`: removes `ralph`'s files about a repository, after it has shown them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{
    Invocation,
    inside::SurroundingAttempt,
    merge_driver,
    slots::{self, remove_folder},
};
use crate::{
    adapters::{
        state::DRAFTS,
        terminal::{self, questions::Questions, visible},
    },
    cli::UninitArgs,
    core::{
        exit::{Exit, fail},
        loop_paths,
        prompt::template::{self, Template},
        setup,
    },
    crash,
    project::{config_layers, slot_pool::SlotPool, workspace::Workspace},
    regular_file,
    view::{attempt::typed_path, lines::counted},
};

/// The folders that are removed when nothing else is in them.
const FOLDERS: [&str; 3] = ["logs", "prompts", ".ralph"];

/// Items to remove.
struct RepositoryTraces {
    /// Files and folders.
    paths: Vec<PathBuf>,
    /// The slots of all loops.
    slots: Vec<PathBuf>,
    /// Refs, also those with the work of incomplete attempts.
    refs: Vec<String>,
}

/// Shows `ralph`'s files in a repository, and removes them if the person says so. Commits stay.
///
/// # Errors
/// A run that works here; inside an attempt; errors of git and of the disk.
pub fn run(invocation: &Invocation, options: &UninitArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    SurroundingAttempt::refuse_steering(&workspace, "uninit")?;
    let loops = invocation.all_loops()?;
    let traces = RepositoryTraces::of(&workspace, &loops, options.all)?;
    if traces.paths.is_empty() && traces.slots.is_empty() && traces.refs.is_empty() {
        terminal::say("there is nothing of ralph here");
        return Ok(Exit::Success);
    }
    for line in traces.lines(workspace.root()) {
        terminal::print(&format!("{}\n", visible(&line)))?;
    }
    let question = "Remove all of this?";
    let is_wanted =
        options.yes || terminal::can_ask() && Questions::new().is_wanted(question, false)?;
    if !is_wanted {
        terminal::say("nothing was removed; `ralph uninit --yes` does it without a question");
        return Ok(Exit::Waiting);
    }
    if !traces.slots.is_empty() && slots::remove(invocation, &loops, &[])? != Exit::Success {
        return fail(Exit::Error, "a slot stays, and so does all the rest");
    }
    let locks = loops.iter().map(Workspace::lock).collect::<Result<Vec<_>>>()?;
    if locks.iter().any(Option::is_none) {
        return fail(
            Exit::Running,
            "a run is at work here; `ralph stop` ends it after its attempts",
        );
    }
    traces.remove(&workspace)?;
    drop(locks);
    // Leftovers of a kill are found again.
    let gone = away(&workspace);
    remove(&gone)?;
    fs::rename(workspace.state.dir(), &gone).context("rename the state folder")?;
    crash::point("uninit.away");
    remove(&gone)?;
    let folders = FOLDERS.map(|name| workspace.root().join(name));
    for folder in folders.iter().map(PathBuf::as_path).chain([SlotPool::of(&workspace).folder()]) {
        // Fails if others have files there.
        let _ = fs::remove_dir(folder);
    }
    terminal::say("removed; the commits of landed work stay");
    Ok(Exit::Success)
}

impl RepositoryTraces {
    fn of(
        workspace: &Workspace,
        loops: &[Workspace],
        with_settings: bool,
    ) -> Result<RepositoryTraces> {
        let root = workspace.root();
        let mut paths = vec![workspace.state.dir().to_owned(), away(workspace)];
        paths.extend(loop_paths::OWN.iter().map(|name| root.join(name.trim_end_matches('/'))));
        let mut made = Vec::new();
        if with_settings {
            paths.push(workspace.graph_path().to_owned());
            paths.push(root.join(config_layers::PATH));
            made.extend([
                (".ralph/.gitignore", template::IGNORE.to_owned()),
                ("prompts/task.md", Template::Task.text()),
                ("justfile", setup::new_justfile()),
            ]);
        }
        // Files changed by a person since stay.
        made.retain(|(name, text)| {
            regular_file::read_to_string(&root.join(name)).is_ok_and(|found| found == *text)
        });
        paths.extend(made.iter().map(|(name, _)| root.join(name)));
        paths.retain(|path| fs::symlink_metadata(path).is_ok());
        let slots = loops.iter().map(slots::slots_of).collect::<Result<Vec<_>>>()?;
        let slots = slots.into_iter().flatten().map(|slot| slot.path).collect();
        Ok(RepositoryTraces { paths, slots, refs: workspace.repo.pins().all_refs()? })
    }

    fn lines(&self, root: &Path) -> Vec<String> {
        let all = self.paths.iter().chain(&self.slots);
        let mut lines: Vec<String> = all.map(|path| typed_path(root, path)).collect();
        if !self.refs.is_empty() {
            let refs = counted(self.refs.len(), "ref");
            lines.push(format!(
                "{refs} below refs/ralph, which keep the work of incomplete attempts"
            ));
        }
        lines.push(
            "lines about ralph in .git/info and the settings of git, if there are any".to_owned(),
        );
        lines
    }

    /// Removes all but the state, which has the lock.
    fn remove(&self, workspace: &Workspace) -> Result<()> {
        let own = [workspace.state.dir().to_owned(), away(workspace)];
        for path in self.paths.iter().filter(|path| !own.contains(path)) {
            remove(path)?;
        }
        for name in &self.refs {
            workspace.repo.drop_ref(name)?;
        }
        let own = loop_paths::OWN.iter().map(|path| format!("/{path}"));
        let own: Vec<String> = own.chain([DRAFTS.to_owned()]).collect();
        workspace.repo.local().include_again(&own)?;
        merge_driver::remove(&workspace.repo).map(drop)
    }
}

/// Where the state folder is while it is removed.
fn away(workspace: &Workspace) -> PathBuf {
    workspace.state.dir().with_extension("removed")
}

fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_folder(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.with_context(|| format!("remove `{}`", path.display()))
}
