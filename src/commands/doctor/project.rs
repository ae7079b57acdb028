//! Checks of the project: graph, prompts, logs, earlier runs, its git, and its notifications.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use chrono::Utc;
use serde_json::{Map, json};

use super::{NAMED, few, of_error};
use crate::{
    adapters::process,
    commands::{check, check_jobs, init, status::last_beat},
    core::{
        agents::agent_preset,
        diagnostic::nearest_or,
        duration,
        event::StopReason,
        exit,
        finding::{Finding, FindingKind, FindingLevel},
        graph::{lint::LintFinding, task::Task},
        history::History,
        loop_paths,
        select::{Decision, Policy},
        setup::{self, FoundCheck},
    },
    project::{
        agent_faults,
        attempt::{self, AttemptPlace},
        config_layers,
        event_store::EventStore,
        fatal,
        graph_file::GraphFile,
        workspace::{self, Workspace, policy_for, view},
    },
    report::notify::NotifierCommand,
    runner,
    view::{
        lines::{self, counted},
        message::MessageSender,
        run::Standing,
    },
};

/// A run without a heartbeat for this long hangs; a healthy one beats every ten seconds.
const SILENT: Duration = Duration::from_secs(60);

/// Checks that the graph is valid and that a task can start.
pub(super) fn graph(
    workspace: &Workspace,
    graph: &Result<GraphFile>,
    past: &Result<(EventStore, bool)>,
) -> Finding {
    let file = match graph {
        Ok(file) => file,
        Err(error) if workspace.graph_path().exists() => {
            return of_error(FindingKind::BadGraph, error);
        }
        Err(error) => return of_error(FindingKind::NoGraph, error),
    };
    let (tasks, over) = (file.graph().tasks(), unfinished(file).count());
    let found = format!("{}, {over} unfinished", counted(tasks.len(), "task"));
    let odd = file.warnings().len();
    if odd > 0 {
        return FindingKind::GraphWarnings.with(&[&found, &counted(odd, "warning")]);
    }
    let (idle, now) = (past.as_ref().ok().filter(|(_, live)| !live && over > 0), Utc::now());
    let policy_of = |history| policy_for(workspace, workspace.policy(), file.graph(), history);
    let policy = idle.map_or_else(|| Ok(workspace.policy()), |(it, _)| policy_of(it.history()));
    let policy = match policy {
        Ok(policy) => policy,
        Err(error) => return of_error(FindingKind::NoGraph, &error),
    };
    let view = idle.map(|(store, _)| view(file, store.history(), &policy));
    if let Some(view) = view.filter(|view| view.ready(now).is_empty()) {
        let finding = FindingKind::NothingReady.with(&[&found]);
        return match view.decide(now) {
            Decision::Stop(why @ (StopReason::Blocked(_) | StopReason::NeedsInput(_))) => {
                Finding { level: FindingLevel::Fault(why.exit()), ..finding }
            }
            // Some may be tried again, or a limit of the last run is in the way of this question.
            _ => finding,
        };
    }
    Finding::ok("graph", found)
}

/// Checks that `limits` names existing agents and tags.
pub(super) fn limits(policy: &Policy, tasks: &[Task]) -> Option<Finding> {
    if policy.limits.is_empty() {
        return None;
    }
    let general = policy.roster.resolve(&policy.agents);
    let calls = tasks.iter().flat_map(|task| policy.agents_of(task, 0, 0)).chain(general);
    let tags = tasks.iter().flat_map(|task| &task.tags).map(String::as_str);
    let known: BTreeSet<&str> = calls.map(|call| call.name.as_str()).chain(tags).collect();
    let is_known = |name: &str| known.contains(name) || agent_preset::find(name).is_some();
    let odd = policy.limits.keys().find(|name| !is_known(name));
    Some(odd.map_or_else(
        || Finding::ok("limits", counted(policy.limits.len(), "name")),
        |name| {
            let known = known.iter().copied();
            let cure = nearest_or(name, known, "use the name of an agent or a tag");
            FindingKind::UnknownLimit.with(&[name, &cure])
        },
    ))
}

fn unfinished(file: &GraphFile) -> impl Iterator<Item = (usize, &Task)> {
    file.graph().tasks().iter().enumerate().filter(|(_, task)| !task.status.is_over())
}

/// Checks that a run with these settings has a folder for each attempt.
pub(super) fn jobs(workspace: &Workspace) -> Option<Finding> {
    let error = check_jobs(workspace).err()?;
    Some(of_error(FindingKind::Jobs, &error))
}

/// Checks that the settings of the last commit are there.
pub(super) fn settings(workspace: &Workspace) -> Option<Finding> {
    let error = config_layers::check_own(&workspace.repo, &workspace.layers).err()?;
    Some(of_error(FindingKind::Settings, &error))
}

/// Checks that no merge, rebase or similar operation is unfinished.
pub(super) fn halves(workspace: &Workspace) -> Option<Finding> {
    let what = workspace.repo.unfinished()?;
    let effect = if workspace.config.is_isolated() {
        "no work lands until it is finished"
    } else {
        "the first attempt would start in the middle of it"
    };
    Some(FindingKind::Unfinished.with(&[what, effect]))
}

/// Checks that the logs are in the repository.
pub(super) fn logs(workspace: &Workspace) -> Finding {
    match workspace.check_logs() {
        Ok(()) => Finding::ok("logs", "in the repository"),
        Err(error) => of_error(FindingKind::Logs, &error),
    }
}

/// Checks that no other run is active.
pub(super) fn runs(workspace: &Workspace, past: &Result<(EventStore, bool)>) -> Finding {
    let (history, live) = match past {
        Ok((store, live)) => (store.history(), *live),
        Err(error) => return of_error(FindingKind::Journal, error),
    };
    let held = workspace.state.is_locked().unwrap_or(false);
    let dead = workspace.holder().is_some_and(|holder| !process::may_live(&holder.process));
    let standing = Standing::of(history, live);
    if held && dead {
        return FindingKind::CleaningUp.with(&[]);
    }
    if held {
        let silent = last_beat(workspace).filter(|beat| live && *beat > SILENT);
        let beat = silent.map_or(String::new(), |beat| {
            format!(", without a heartbeat for {}", duration::short(beat))
        });
        return FindingKind::Active.with(&[&runner::held(workspace), &beat]);
    }
    if history.paused {
        return FindingKind::Paused.with(&[&standing.sentence_of(history)]);
    }
    if standing == Standing::Crashed {
        let open: Vec<String> = history
            .active
            .attempts
            .iter()
            .map(|open| format!("{}.{}", open.task_id, open.attempt))
            .collect();
        let open = if open.is_empty() { "none".to_owned() } else { few(open, NAMED) };
        return FindingKind::Crashed.with(&[&open]);
    }
    Finding::ok("runs", standing.sentence_of(history))
}

/// Checks that the prompts of all unfinished tasks render.
pub(super) fn prompts(workspace: &Workspace, file: &GraphFile, history: &History) -> Finding {
    let policy = workspace.policy();
    let view = view(file, history, &policy);
    let (mut good, mut bad) = (0, Vec::new());
    for (number, task) in unfinished(file) {
        let (max, agent) = (view.max_attempts(number), view.agents(number).first().copied());
        let place = AttemptPlace::default();
        match attempt::render(workspace, file.graph(), history, number, max, agent, place) {
            Ok(_) => good += 1,
            Err(error) => bad.push((task.id.to_string(), error)),
        }
    }
    let Some((first, error)) = bad.first() else {
        return Finding::ok("prompts", format!("{good} rendered"));
    };
    let also = match bad.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let finding = FindingKind::BadPrompt.with(&[&fatal::summary(error), first, &also, first]);
    Finding { level: FindingLevel::Fault(exit::of_error(error)), ..finding }
}

/// Checks that the agents of tasks are known, and that the shell accepts the commands of a run.
pub(super) fn commands(
    workspace: &Workspace,
    file: &GraphFile,
    policy: &Policy,
) -> Option<Finding> {
    let faults = agent_faults::of_agents(file, Some(workspace));
    let of_tasks = agent_faults::rejected(file, faults).map(|it| workspace::refused(&it));
    let error =
        of_tasks.or_else(|| runner::check_commands(policy, file.graph(), workspace).err())?;
    Some(of_error(FindingKind::BadCommand, &error))
}

/// The verify commands of tasks whose program is missing. Those of the settings are tried in a slot.
pub(super) fn programs(workspace: &Workspace, file: &GraphFile) -> Vec<Finding> {
    let missing = check::remarks(workspace, file.graph()).into_iter();
    let missing = missing.filter(|one| one.rule == FindingKind::MissingProgram).take(NAMED);
    let finding = |one: LintFinding| {
        let id = &file.graph().task(one.task).id;
        FindingKind::NoVerifyProgram.with(&[&format!("{} (for `{id}`)", one.found.message)])
    };
    missing.map(finding).collect()
}

/// The tests that the project has and that no verify command runs.
pub(super) fn unrun(workspace: &Workspace, tasks: &[Task]) -> Vec<Finding> {
    let of_tasks = tasks.iter().flat_map(|task| &task.verify);
    let commands: Vec<String> = workspace.config.verify.0.iter().chain(of_tasks).cloned().collect();
    let (found, _) = init::tools(workspace.root());
    let finding =
        |check: &FoundCheck| FindingKind::UnrunTests.with(&[&check.command, &check.source]);
    setup::unrun(&found, &commands).into_iter().map(finding).collect()
}

/// Checks that work is reviewed as the settings say, and not by its author.
pub(super) fn reviews(
    workspace: &Workspace,
    (policy, tasks): (&Policy, &[Task]),
    run_on: Option<&str>,
) -> Option<Finding> {
    let gap = runner::review_gap(policy, tasks, workspace, run_on)?;
    let kind = FindingKind::Reviewer;
    Some(match gap.exit {
        Some(exit) => kind.of_error(&gap.text, exit),
        None => kind.of_text(&gap.text),
    })
}

/// Checks that git ignores the files that `ralph` writes.
pub(super) fn own_files(workspace: &Workspace) -> Finding {
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
        Err(error) => of_error(FindingKind::Unreadable, &error),
        Ok((tracked, _)) if !tracked.is_empty() => {
            let named = few(tracked.iter().cloned(), NAMED);
            FindingKind::OwnFilesCommitted.with(&[&named, &tracked.join(" ")])
        }
        Ok((_, shown)) if !shown.is_empty() => {
            FindingKind::OwnFilesShown.with(&[&few(shown, NAMED)])
        }
        Ok(_) => Finding::ok("own files", "ignored by git"),
    }
}

/// Checks that HEAD is on a branch with a commit.
pub(super) fn head(workspace: &Workspace) -> Finding {
    let is_isolated = workspace.config.is_isolated();
    match workspace.repo.head().map(|head| (head.branch, head.commit)) {
        Err(error) => of_error(FindingKind::Unreadable, &error),
        Ok((Some(branch), Some(_))) => Finding::ok("branch", branch),
        Ok((Some(branch), None)) if is_isolated => FindingKind::NoCommit.with(&[&branch]),
        Ok((Some(branch), None)) => FindingKind::NoCommitInPlace.with(&[&branch]),
        Ok((None, _)) if is_isolated => FindingKind::Detached.with(&[]),
        Ok((None, _)) => FindingKind::DetachedInPlace.with(&[]),
    }
}

/// Checks that there are no uncommitted changes that an agent could commit.
pub(super) fn work_tree(workspace: &Workspace) -> Finding {
    match attempt::changed(workspace, &workspace.repo) {
        Err(error) => of_error(FindingKind::Unreadable, &error),
        Ok(changed) if changed.is_empty() => Finding::ok("checkout", "clean"),
        Ok(changed) => {
            let values = [&counted(changed.len(), "path"), &few(changed.into_keys(), NAMED)];
            let values = values.map(String::as_str);
            if workspace.config.is_isolated() {
                FindingKind::Uncommitted.with(&values)
            } else {
                FindingKind::UncommittedInPlace.with(&values)
            }
        }
    }
}

/// Tries each command of `notify` with a test event.
pub(super) fn notifiers(workspace: &Workspace) -> Vec<Finding> {
    let facts = Map::from_iter([("why".to_owned(), json!("`ralph doctor` tries it"))]);
    let text = lines::plain("this is a test notification of `ralph doctor`");
    let message = MessageSender::of(workspace).message("test", facts, &[text]);
    let tried = workspace.config.notify.iter().map(|notifier| {
        let command = NotifierCommand {
            command: &notifier.command,
            folder: workspace.state.dir().join("notify"),
            name: &format!("doctor-{}", std::process::id()),
            root: workspace.root().to_owned(),
        };
        match command.run(&message, || false) {
            Ok(()) => Finding::ok("notify", format!("{notifier} took a test event")),
            Err(why) => FindingKind::Notifier.with(&[&format!("{notifier}: {why}")]),
        }
    });
    tried.collect()
}
