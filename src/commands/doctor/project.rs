//! Checks of the project: graph, prompts, logs, earlier runs, its git, and its notifications.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    time::Duration,
};

use anyhow::Result;
use chrono::Utc;

use super::{Finding, NAMED, few, parts};
use crate::{
    adapters::process,
    commands::{run::check_jobs, status::last_beat},
    core::{
        agents::agent_preset,
        diagnostic::nearest,
        duration,
        event::StopReason,
        exit::{self, Exit},
        graph::{task::Task, task_paths},
        history::History,
        loop_paths,
        select::{Decision, Policy},
    },
    project::{
        attempt,
        config::NotifierTarget,
        event_store::EventStore,
        fatal,
        graph_file::GraphFile,
        workspace::{Workspace, view},
    },
    report::notify::desktop_is_here,
    runner,
    view::{lines::counted, run::Standing},
};

/// A run without a heartbeat for this long hangs; a healthy one beats every ten seconds.
const SILENT: Duration = Duration::from_secs(60);

/// Checks that the graph is valid and that a task can start.
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
                "correct it; `ralph check` shows every error with its location"
            } else {
                "create it, or name another file with `--graph`"
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
    let (idle, now) = (past.as_ref().ok().filter(|(_, live)| !live && over > 0), Utc::now());
    let view = idle.map(|(store, _)| view(file, store.history(), &policy));
    if let Some(view) = view.filter(|view| view.ready(now).is_empty()) {
        let found = format!("{found}, none ready");
        let cure = "`ralph dag-status` shows what they are waiting on";
        return match view.decide(now) {
            Decision::Stop(why @ (StopReason::Blocked(_) | StopReason::NeedsInput(_))) => {
                Finding::fault(ABOUT, why.exit(), found, cure)
            }
            // Some may be tried again, or a limit of the last run is in the way of this question.
            _ => Finding::warning(ABOUT, found, cure),
        };
    }
    Finding::ok(ABOUT, found)
}

/// Checks that `limits` names existing agents and tags.
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
                None => "use the name of an agent or a tag".to_owned(),
            };
            Finding::warning(ABOUT, format!("`{name}` is not an agent or a tag"), cure)
        },
    ))
}

fn unfinished(file: &GraphFile) -> impl Iterator<Item = (usize, &Task)> {
    file.graph().tasks().iter().enumerate().filter(|(_, task)| !task.status.is_over())
}

/// Checks that a run with these settings has a folder for each attempt.
pub(super) fn jobs(workspace: &Workspace) -> Option<Finding> {
    let error = check_jobs(workspace).err()?;
    Some(Finding::of_error("jobs", &error, ""))
}

/// Checks that no merge, rebase or similar operation is unfinished.
pub(super) fn halves(workspace: &Workspace) -> Option<Finding> {
    let what = workspace.repo.unfinished()?;
    let effect = if workspace.config.is_isolated() {
        "no work lands until it is finished"
    } else {
        "the first attempt would start in the middle of it"
    };
    let found = format!("{what} is in progress; {effect}");
    Some(Finding::warning("checkout", found, "finish or abort it, see `git status`"))
}

/// Checks that the logs are in the repository.
pub(super) fn logs(workspace: &Workspace) -> Finding {
    match workspace.check_logs() {
        Ok(()) => Finding::ok("logs", "in the repository"),
        Err(error) => Finding::of_error("logs", &error, ""),
    }
}

/// Checks that no other run is active.
pub(super) fn runs(workspace: &Workspace, past: &Result<(EventStore, bool)>) -> Finding {
    const ABOUT: &str = "runs";
    let (history, live) = match past {
        Ok((store, live)) => (store.history(), *live),
        Err(error) => {
            return Finding::of_error(ABOUT, error, "check `logs/ralph.jsonl`");
        }
    };
    let held = workspace.state.is_locked().unwrap_or(false);
    let dead = workspace.holder().is_some_and(|holder| !process::may_live(&holder.process));
    let standing = Standing::of(history, live);
    if held && dead {
        let found = "the guardian of a run that died is still cleaning up";
        return Finding::warning(ABOUT, found, "none needed: a run waits for it");
    }
    if held {
        let silent = last_beat(workspace).filter(|beat| live && *beat > SILENT);
        let beat = silent.map_or(String::new(), |beat| {
            format!(", without a heartbeat for {}", duration::short(beat))
        });
        let found = format!("{}{beat}", runner::held(workspace));
        return Finding::fault(ABOUT, Exit::Running, found, "`ralph stop` stops it");
    }
    if history.paused {
        let sentence = standing.sentence_of(history);
        let cure = "`ralph resume` lifts the pause";
        return Finding::fault(ABOUT, Exit::Waiting, sentence, cure);
    }
    if standing == Standing::Crashed {
        let open: Vec<String> = history
            .active
            .attempts
            .iter()
            .map(|open| format!("{}.{}", open.task_id, open.attempt))
            .collect();
        let open = if open.is_empty() { "none".to_owned() } else { few(open, NAMED) };
        let found = format!("the last run crashed; open attempts: {open}");
        return Finding::warning(ABOUT, found, "none needed: `ralph run` recovers them");
    }
    Finding::ok(ABOUT, standing.sentence_of(history))
}

/// Checks that the prompts of all unfinished tasks render.
pub(super) fn prompts(workspace: &Workspace, file: &GraphFile, history: &History) -> Finding {
    const ABOUT: &str = "prompts";
    let policy = workspace.policy();
    let view = view(file, history, &policy);
    let (mut good, mut bad) = (0, Vec::new());
    for (number, task) in unfinished(file) {
        let (max, agent) = (view.max_attempts(number), view.agents(number).first());
        match attempt::render(workspace, file.graph(), history, number, max, agent, None) {
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
    let cure = format!("correct the template; `ralph prompt {first}` shows the location");
    Finding::fault(ABOUT, exit::of_error(error), found, cure)
}

/// Checks that the shell accepts the commands of a run.
pub(super) fn commands(
    workspace: &Workspace,
    file: &GraphFile,
    policy: &Policy,
) -> Option<Finding> {
    let error = runner::check_commands(policy, file.graph(), workspace).err()?;
    Some(Finding::of_error("verify", &error, ""))
}

/// Checks that the programs of the verify commands exist.
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
    let cure = "install it, or correct `verify`; tasks cannot complete without it";
    Finding::warning(ABOUT, few(missing, NAMED), cure)
}

/// Checks that git ignores the files that `ralph` writes.
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
        Err(error) => Finding::of_error(ABOUT, &error, "see `git status`"),
        Ok((tracked, _)) if !tracked.is_empty() => {
            let found = format!("committed: {}", few(tracked.iter().cloned(), NAMED));
            let cure = format!("run `git rm -r --cached {}` and commit", tracked.join(" "));
            Finding::warning(ABOUT, found, cure)
        }
        Ok((_, shown)) if !shown.is_empty() => {
            let found = format!("not ignored by git: {}", few(shown, NAMED));
            Finding::warning(ABOUT, found, "add these lines to `.gitignore`")
        }
        Ok(_) => Finding::ok(ABOUT, "ignored by git"),
    }
}

/// Checks that git has an identity for commits.
pub(super) fn committer(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "identity";
    match workspace.repo.commits().committer() {
        Ok(who) => Finding::ok(ABOUT, who),
        Err(error) => {
            let text = error.to_string();
            let (found, cure) = parts(&text, "");
            Finding::warning(ABOUT, found, cure)
        }
    }
}

/// Checks that HEAD is on a branch with a commit.
pub(super) fn head(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "branch";
    match workspace.repo.head() {
        Err(error) => Finding::of_error(ABOUT, &error, "see `git status`"),
        Ok(head) => match (head.branch, head.commit) {
            (Some(branch), Some(_)) => Finding::ok(ABOUT, branch),
            (branch, _) if workspace.config.is_isolated() => {
                let (found, cure) = match branch {
                    Some(branch) => {
                        (format!("`{branch}` has no commit yet"), "make the first commit")
                    }
                    None => ("HEAD is detached".to_owned(), "switch to a branch with `git switch`"),
                };
                let found = format!("{found}, and attempts start from a branch with a commit");
                let cure = format!("{cure}, or use `--in-place`");
                Finding::fault(ABOUT, Exit::Error, found, cure)
            }
            (Some(branch), None) => Finding::warning(
                ABOUT,
                format!("`{branch}` has no commit yet"),
                "commit the existing files, to tell them from the work of agents",
            ),
            (None, _) => Finding::warning(
                ABOUT,
                "HEAD is detached; commits would be on no branch",
                "switch to a branch with `git switch`",
            ),
        },
    }
}

/// Checks that there are no uncommitted changes that an agent could commit.
pub(super) fn work_tree(workspace: &Workspace) -> Finding {
    const ABOUT: &str = "checkout";
    match attempt::changed(workspace, &workspace.repo) {
        Err(error) => Finding::of_error(ABOUT, &error, "see `git status`"),
        Ok(changed) if changed.is_empty() => Finding::ok(ABOUT, "clean"),
        Ok(changed) => {
            let names: Vec<String> = changed.into_keys().collect();
            let found =
                format!("{} not committed: {}", counted(names.len(), "path"), few(names, NAMED));
            let cure = if workspace.config.is_isolated() {
                "commit or stash; work on the same files lands only then"
            } else {
                "commit or stash; `git add -A` by an agent would include them"
            };
            Finding::warning(ABOUT, found, cure)
        }
    }
}

/// Checks that no target lacks a requirement. `None` without targets.
pub(super) fn notifiers(workspace: &Workspace) -> Option<Finding> {
    const ABOUT: &str = "notify";
    let notifiers = &workspace.config.notify;
    if notifiers.is_empty() {
        return None;
    }
    let unset = |name: &str| env::var_os(name).is_none_or(|value| value.is_empty());
    let missing = notifiers.iter().find_map(|notifier| match &notifier.way {
        NotifierTarget::Run(_) => None,
        NotifierTarget::Desktop => {
            desktop_is_here(workspace.root()).err().map(|why| format!("desktop: {why}"))
        }
        way @ NotifierTarget::Webhook { url, secret_env } => {
            let names = url.strip_prefix('$').into_iter().chain(secret_env.as_deref());
            let name = names.into_iter().find(|name| unset(name))?;
            Some(format!("{way}: `{name}` is not set"))
        }
    });
    if let Some(why) = missing {
        return Some(Finding::warning(ABOUT, why, "`ralph notify --test` tests all targets"));
    }
    let names: Vec<String> = notifiers.iter().map(|one| one.way.to_string()).collect();
    Some(Finding::ok(ABOUT, format!("{}; `ralph notify --test` tests them", names.join(", "))))
}
