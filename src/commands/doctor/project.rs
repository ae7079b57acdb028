//! The project: its graph, its prompts, its logs, and the runs there were.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;
use chrono::Utc;

use super::{Finding, few};
use crate::{
    adapters::process,
    commands::status::last_beat,
    core::{
        agents::agent_preset,
        diagnostic::nearest,
        duration,
        exit::{self, Exit},
        graph::{task::Task, task_paths},
        history::History,
        loop_paths,
        select::Policy,
    },
    project::{
        attempt,
        event_store::EventStore,
        fatal,
        graph_file::GraphFile,
        workspace::{Workspace, view},
    },
    runner,
    view::lines::counted,
    view::run::Standing,
};

/// A loop that turns beats every ten seconds; this long without a beat, it hangs.
const SILENT: Duration = Duration::from_secs(60);

/// The graph can be read, and something in it can start.
pub(super) fn graph(
    workspace: &Workspace,
    graph: &Result<GraphFile>,
    past: &Result<(EventStore, bool)>,
) -> Finding {
    const ABOUT: &str = "graph";
    let file = match graph {
        Ok(file) => file,
        Err(error) => {
            let cure = if workspace.graph_path().exists() {
                "correct it; `ralph check` shows every fault with its place"
            } else {
                "write it, or name another file with `--graph`"
            };
            return Finding::of_error(ABOUT, error, cure);
        }
    };
    let (tasks, over) = (file.graph().tasks(), unfinished(file).count());
    let found = format!("{}, {over} unfinished", counted(tasks.len(), "task"));
    let odd = file.warnings().len();
    if odd > 0 {
        let found = format!("{found}, {}", counted(odd, "warning"));
        return Finding::warning(ABOUT, found, "`ralph check` shows them");
    }
    let policy = workspace.policy();
    let stuck = past.as_ref().is_ok_and(|(chronicle, live)| {
        !live && over > 0 && view(file, chronicle.history(), &policy).ready(Utc::now()).is_empty()
    });
    if stuck {
        let found = format!("{found}, none ready");
        return Finding::warning(ABOUT, found, "`ralph dag-status` says what they wait for");
    }
    Finding::ok(ABOUT, found)
}

/// What `limits` name is there: a misspelt name is no limit.
pub(super) fn limits(policy: &Policy, tasks: &[Task]) -> Option<Finding> {
    const ABOUT: &str = "limits";
    if policy.limits.is_empty() {
        return None;
    }
    let calls = tasks.iter().flat_map(|task| &task.agents).chain(&policy.agents);
    let tags = tasks.iter().flat_map(|task| &task.tags).map(String::as_str);
    let known: BTreeSet<&str> = calls.map(|call| call.name.as_str()).chain(tags).collect();
    let is_known = |name: &str| known.contains(name) || agent_preset::find(name).is_some();
    let odd = policy.limits.keys().find(|name| !is_known(name));
    Some(odd.map_or_else(
        || Finding::ok(ABOUT, counted(policy.limits.len(), "name")),
        |name| {
            let cure = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name an agent or a tag".to_owned(),
            };
            Finding::warning(ABOUT, format!("`{name}` is no agent and no tag"), cure)
        },
    ))
}

fn unfinished(file: &GraphFile) -> impl Iterator<Item = (usize, &Task)> {
    file.graph().tasks().iter().enumerate().filter(|(_, task)| !task.status.is_over())
}

/// Nobody is in the middle of something.
pub(super) fn halves(workspace: &Workspace) -> Option<Finding> {
    let what = workspace.repo.unfinished()?;
    let found =
        format!("{what} is left half-way; the first attempt would begin in the middle of it");
    Some(Finding::warning("work tree", found, "finish it or abort it, as `git status` says"))
}

/// The logs are written where they seem to be.
pub(super) fn logs(workspace: &Workspace) -> Finding {
    match workspace.check_logs() {
        Ok(()) => Finding::ok("logs", "in the repository"),
        Err(error) => Finding::of_error("logs", &error, ""),
    }
}

/// No other run is in the way.
pub(super) fn runs(workspace: &Workspace, past: &Result<(EventStore, bool)>) -> Finding {
    const ABOUT: &str = "runs";
    let (history, live) = match past {
        Ok((chronicle, live)) => (chronicle.history(), *live),
        Err(error) => {
            return Finding::of_error(ABOUT, error, "see what `logs/ralph.jsonl` is");
        }
    };
    let held = workspace.state.is_locked().unwrap_or(false);
    let dead = workspace.holder().is_some_and(|holder| !process::is_alive(&holder.process));
    let standing = Standing::of(history, live);
    if held && dead {
        let found = "the guardian of a run that died still cleans up behind it";
        return Finding::warning(ABOUT, found, "nothing: a run waits until it has ended");
    }
    if held {
        let silent = last_beat(workspace).filter(|beat| live && *beat > SILENT);
        let beat = silent.map_or(String::new(), |beat| {
            format!(", without a beat for {}", duration::short(beat))
        });
        let found = format!("{}{beat}", runner::held(workspace));
        return Finding::fault(ABOUT, Exit::Running, found, "`ralph stop` ends it");
    }
    if history.paused {
        let sentence = standing.sentence_of(history);
        let cure = "`ralph resume` takes the pause away";
        return Finding::fault(ABOUT, Exit::Waiting, sentence, cure);
    }
    if standing == Standing::Crashed {
        let open: Vec<String> = history
            .active
            .attempts
            .iter()
            .map(|open| format!("{}.{}", open.task_id, open.attempt))
            .collect();
        let open = if open.is_empty() { "none".to_owned() } else { few(&open) };
        let found = format!("the newest run crashed; attempts left open: {open}");
        return Finding::warning(ABOUT, found, "nothing: `ralph run` picks them up");
    }
    Finding::ok(ABOUT, standing.sentence_of(history))
}

/// Every prompt that is still to come can be rendered.
pub(super) fn prompts(workspace: &Workspace, file: &GraphFile, history: &History) -> Finding {
    const ABOUT: &str = "prompts";
    let policy = workspace.policy();
    let view = view(file, history, &policy);
    let (mut good, mut bad) = (0, Vec::new());
    for (number, task) in unfinished(file) {
        let max = view.max_attempts(number);
        match attempt::render(workspace, file.graph(), history, number, max) {
            Ok(_) => good += 1,
            Err(error) => bad.push((task.id.to_string(), error)),
        }
    }
    let Some((first, error)) = bad.first() else {
        return Finding::ok(ABOUT, format!("{good} rendered"));
    };
    let also = match bad.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let found = format!("{} (for `{first}`{also})", fatal::summary(error));
    let cure = format!("correct the template; `ralph prompt {first}` shows the place");
    Finding::fault(ABOUT, exit::of_error(error), found, cure)
}

/// What the verify commands begin with is there.
pub(super) fn verify(workspace: &Workspace, file: &GraphFile) -> Finding {
    const ABOUT: &str = "verify";
    let mut commands: BTreeMap<String, &Task> = BTreeMap::new();
    for (_, task) in unfinished(file) {
        for command in workspace.verify_of(task) {
            commands.entry(command).or_insert(task);
        }
    }
    if commands.is_empty() {
        return Finding::ok(ABOUT, "no commands");
    }
    let missing: Vec<String> = commands
        .iter()
        .filter_map(|(command, task)| {
            let why = process::resolve(task_paths::program_of(command)?, workspace.root()).err()?;
            Some(format!("{why} (for `{}`)", task.id))
        })
        .collect();
    if missing.is_empty() {
        return Finding::ok(
            ABOUT,
            format!("{}, programs found", counted(commands.len(), "command")),
        );
    }
    let cure = "install it, or correct `verify`; no task is complete without";
    Finding::warning(ABOUT, few(&missing), cure)
}

/// Git shows none of the files that `ralph` writes.
pub(super) fn own_files(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "own files";
    let look = || -> Result<(Vec<String>, Vec<String>)> {
        let there = |path: &str| workspace.root().join(path).exists();
        let unignored = workspace.unignored()?;
        let shown = unignored.into_iter().filter(|path| there(path));
        let shown = shown.map(|path| format!("/{path}")).collect();
        let mut tracked = Vec::new();
        if let Some(head) = workspace.repo.head()?.commit {
            for path in loop_paths::OWN.map(|path| path.trim_end_matches('/')) {
                if workspace.repo.has_text_at(&head, path)?.is_some() {
                    tracked.push(path.to_owned());
                }
            }
        }
        Ok((tracked, shown))
    };
    match look() {
        Err(error) => Finding::of_error(ABOUT, &error, "see what `git status` says"),
        Ok((tracked, _)) if !tracked.is_empty() => {
            let found = format!("committed: {}", few(&tracked));
            let cure = format!("`git rm -r --cached {}`, and commit", tracked.join(" "));
            Finding::warning(ABOUT, found, cure)
        }
        Ok((_, shown)) if !shown.is_empty() => {
            let found = format!("git shows what no rule ignores: {}", few(&shown));
            Finding::warning(ABOUT, found, "add these lines to `.gitignore`")
        }
        Ok(_) => Finding::ok(ABOUT, "git shows none"),
    }
}
