//! A trial of what every attempt needs: a slot at the tip of the branch, in which the setup and the
//! verify commands run.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{
    Finding,
    bench::{Probe, ProbeAnswer, ProbeFolder},
};
use crate::{
    core::{commit_id::CommitId, duration},
    project::{
        slot_pool::{self, PreparedSlot, SlotOrder, SlotPool},
        workspace::Workspace,
    },
    view::{attempt::typed_path, lines::counted},
};

const ABOUT: &str = "slot";

/// Makes a slot and runs the commands in it, unless a run is active.
pub(super) fn tried(workspace: &Workspace, bench: &ProbeFolder) -> Option<Finding> {
    let head = workspace.repo.head().ok()?;
    let (Some(branch), Some(base)) = (head.branch, head.commit) else {
        // Another check reports this.
        return None;
    };
    let Ok(Some(_lock)) = workspace.lock() else {
        return Some(Finding::ok(ABOUT, "not tried: a run is active"));
    };
    Some(match trial(workspace, bench, &branch, &base) {
        Ok(finding) => finding,
        Err(error) => {
            let cure = "attempts need a slot; `--in-place` works without one";
            Finding::of_error(ABOUT, &error, cure)
        }
    })
}

fn trial(
    workspace: &Workspace,
    bench: &ProbeFolder,
    branch: &str,
    base: &CommitId,
) -> Result<Finding> {
    let (config, repo) = (&workspace.config, &workspace.repo);
    let pool = SlotPool::of(workspace);
    std::fs::create_dir_all(pool.folder()).with_context(|| {
        format!("create `{}`; `slot_dir` sets another", pool.folder().display())
    })?;
    let pool = SlotPool::of(workspace);
    let path = pool.next(&[]);
    let setup = &config.setup.0;
    let trial = workspace.place.trial_ref();
    let order = SlotOrder {
        slot: path.clone(),
        settings: repo.slot_settings()?,
        branch: "ralph/doctor".to_owned(),
        base: base.clone(),
        base_ref: trial.clone(),
        left: None,
        graph: workspace.graph_in_git(),
        setup: setup.clone(),
        pool,
    };
    let prepared = slot_pool::prepare(&order)?;
    repo.drop_ref(&trial)?;
    let seen = typed_path(workspace.root(), &path);
    let PreparedSlot::Ready { is_set_up, .. } = prepared else {
        return Ok(Finding::ok(
            ABOUT,
            format!("not tried: {seen} has work that is kept nowhere else"),
        ));
    };
    let opened = || repo.open_slot(&path).context("the slot is gone");
    let run = |command: &String, limit: Duration| -> Result<Option<String>> {
        let argv = ["sh", "-c", command].map(str::to_owned).to_vec();
        let probe = Probe { argv, dir: Some(path.clone()), ..Probe::default() };
        Ok(match bench.ask(probe, limit)? {
            ProbeAnswer::Yes(_) => None,
            ProbeAnswer::No(why) => Some(why),
            ProbeAnswer::Late(limit) => Some(format!("not finished in {}", duration::short(limit))),
        })
    };
    if !is_set_up {
        for command in setup {
            if let Some(why) = run(command, config.setup_timeout)? {
                let found = format!("`{command}` (setup) fails in {seen}: {why}");
                let cure = "correct `setup` in .ralph/config.yaml, or no attempt can start";
                return Ok(Finding::warning(ABOUT, found, cure));
            }
        }
        slot_pool::note_setup(&opened()?, setup)?;
    }
    for command in &config.verify.0 {
        if let Some(why) = run(command, config.verify_timeout)? {
            let found = format!("`{command}` (verify) fails on {branch} in {seen}: {why}");
            let cure = "if it passes in your checkout, the copy lacks something: list ignored files in \
                        `.worktreeinclude`, and commands that install what is needed in `setup`";
            return Ok(Finding::warning(ABOUT, found, cure));
        }
    }
    // What the commands left there is not work of an attempt.
    if slot_pool::release(repo, &opened()?, None, setup)?.is_some() {
        std::fs::remove_dir_all(&path).context("remove the slot")?;
    }
    let verify = counted(config.verify.0.len(), "verify command");
    let ran = match (setup.len(), config.verify.0.len()) {
        (0, 0) => "no setup and no verify command".to_owned(),
        (0, _) => format!("{verify} passed"),
        (_, 0) => "setup passed".to_owned(),
        _ => format!("setup and {verify} passed"),
    };
    Ok(Finding::ok(ABOUT, format!("{seen}: {ran} at the tip of {branch}")))
}
