//! `ralph take-back`: takes landed work back with a commit on top of the branch, once that passes the
//! verify commands.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::Result;
use serde::Serialize;

use super::{
    Invocation, land,
    probe::{Probe, ProbeFolder, ProbePlace},
    slots::{SlotUse, TemporarySlot},
    talk::{ANSWER, given},
    task_editor::TaskEditor,
};
use crate::{
    adapters::{
        state::Lock,
        terminal::{self, questions::Questions, visible},
    },
    cli::TakeBackArgs,
    core::{
        commit_id::CommitId,
        executor::shell_word,
        exit::{Exit, Failure, fail},
        graph::task::{Status, TaskId},
        history::attempt_log::{AttemptLog, LogDetail},
    },
    project::{
        executors, failure_output,
        graph_file::{GraphFile, Write},
        take_back::{LaterChanges, TakeBack, settle},
        workspace::{Workspace, find, landed_tip, landing_branch},
    },
    view::lines::{counted, few},
};

/// The branch of the slot that verifies the commit.
const BRANCH: &str = "ralph/take-back";
/// The lines of the output of a failed command that are shown.
const LINES: usize = 12;

/// The `--json` output.
#[derive(Serialize)]
struct TakenBackAnswer<'a> {
    branch: &'a str,
    commit: &'a CommitId,
    tasks: &'a [TaskId],
    /// The commits whose changes are gone, newest first.
    reverted: Vec<&'a CommitId>,
    /// Whether the branch and its checkout have the commit.
    followed: bool,
}

/// Takes the landed work of tasks back.
///
/// # Errors
/// A task without landed work; tasks that depend on it and are not named; later changes of the same
/// lines; a verify command that fails without the work; a run that works here; inside an attempt.
pub fn run(invocation: &Invocation, options: &TakeBackArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_review(invocation, "take-back")?;
    let note = options.note.as_deref().map(|text| given(text, ANSWER, "a note")).transpose()?;
    let branch = landing_branch(&editor.workspace)?;
    let Some(branch) = branch else {
        return fail(Exit::Error, "HEAD is on no branch; check out the one with the work");
    };
    let lock = locked(&editor.workspace)?;
    settle(&editor.workspace, &mut editor.store)?;
    let onto = landed_tip(&editor.workspace, &branch)?;
    let (graph, log) =
        (editor.workspace.graph()?, editor.workspace.attempt_log(LogDetail::Results)?);
    let named: Vec<TaskId> =
        options.ids.iter().map(|id| Ok(find(&graph, id)?.0)).collect::<Result<_>>()?;
    let mut tasks = named.clone();
    add_dependents(&mut tasks, &graph, &log, options.with_dependents)?;
    let back = TakeBack::of(&editor.workspace, &log, (&branch, &onto), tasks)?;
    let back = TakeBack { named, note, ..back };
    refuse_without_work(&back, &graph, &log)?;
    let commit = match back.build(&editor.workspace, graph.graph())? {
        Ok(commit) => commit,
        Err(later) => return Err(conflict(&branch, &later)),
    };
    if !options.unverified {
        verify(&editor.workspace, &graph, &commit, &back.later_tasks(&log, graph.graph()))?;
    }
    if !back.land(&editor.workspace, &mut editor.store, &commit)? {
        let why = format!("`{branch}` has moved meanwhile, and nothing was changed; try again");
        return fail(Exit::Error, why);
    }
    drop(lock);
    open_in_file(&mut editor, &back.tasks)?;
    let followed = land::land(&editor.workspace, &branch, false)?;
    tell(&back, &commit, followed, options.json)?;
    let here = editor.workspace.repo.head()?.branch;
    if let Some(here) = here.filter(|here| *here != branch) {
        let (branch, here) = (shell_word(&branch), visible(&here));
        terminal::say(&format!("`git merge {branch}` brings that to `{here}`, where you are"));
    }
    Ok(Exit::Success)
}

/// Takes the lock that keeps runs away.
fn locked(workspace: &Workspace) -> Result<Lock> {
    workspace.lock()?.ok_or_else(|| {
        let why = "a run is at work here: what it lands next may need this work; `ralph stop` ends it \
                   after its attempts";
        Failure::new(Exit::Running, why.to_owned()).into()
    })
}

/// Adds the complete tasks that depend on these, or that their attempts added, if that is wanted.
fn add_dependents(
    tasks: &mut Vec<TaskId>,
    file: &GraphFile,
    log: &AttemptLog,
    is_wanted: bool,
) -> Result<()> {
    let graph = file.graph();
    let mut all: BTreeSet<TaskId> = tasks.iter().cloned().collect();
    let mut open: Vec<TaskId> = tasks.clone();
    while let Some(id) = open.pop() {
        let added = log.of(Some(&id)).filter_map(|entry| entry.ended.as_ref());
        let mut next: Vec<TaskId> =
            added.flat_map(|(_, ended)| ended.evidence.added.iter().cloned()).collect();
        if let Some(number) = graph.number(&id) {
            next.extend(graph.dependents(number).map(|at| graph.task(at).id.clone()));
        }
        next.retain(|id| graph.status_of(id) == Some(Status::Complete));
        open.extend(next.into_iter().filter(|id| all.insert(id.clone())));
    }
    let others: Vec<TaskId> = all.into_iter().filter(|id| !tasks.contains(id)).collect();
    if !others.is_empty() && !is_wanted {
        let names = few(others.iter().map(|id| format!("`{id}`")), usize::MAX);
        let need = if others.len() == 1 { "needs" } else { "need" };
        let question = format!("{names} {need} this work, and landed. Take back as well?");
        if !terminal::can_ask() || !Questions::new().is_wanted(&visible(&question), true)? {
            let why = format!(
                "{names} {need} this work, and landed; `--with-dependents` takes back all of it"
            );
            return fail(Exit::Error, why);
        }
    }
    tasks.extend(others);
    Ok(())
}

/// Refuses tasks none of whose work is on the branch.
fn refuse_without_work(back: &TakeBack, file: &GraphFile, log: &AttemptLog) -> Result<()> {
    /// As many commits as an attempt's evidence lists.
    const MOST: usize = crate::adapters::git::LISTED;
    if let Some(work) = back.work.iter().find(|work| work.commits.len() >= MOST) {
        let id = &work.task_id;
        let why = format!("`{id}` has more than {MOST} commits; `git revert` takes them back");
        return fail(Exit::Error, why);
    }
    let is_without = |id: &&TaskId| !back.work.iter().any(|work| work.task_id == **id);
    if let Some(id) = back.named.iter().find(is_without) {
        let is_complete = file.graph().status_of(id) == Some(Status::Complete);
        let branch = &back.branch;
        let why = if log.of(Some(id)).any(|entry| entry.is_taken_back) {
            format!("the work of `{id}` was taken back from `{branch}` before")
        } else if is_complete {
            format!(
                "`{id}` is complete without a commit of an attempt on `{branch}`; `ralph task-reset \
                 {id}` opens it again"
            )
        } else {
            format!("no work of `{id}` is on `{branch}`")
        };
        return fail(Exit::Error, why);
    }
    Ok(())
}

fn conflict(branch: &str, later: &LaterChanges) -> anyhow::Error {
    let LaterChanges { task_id, paths, commits } = later;
    let mut text = format!(
        "cannot take back `{task_id}`: later commits on `{branch}` changed the same lines of {}:",
        few(paths.iter().map(|path| format!("`{path}`")), 3)
    );
    for commit in commits {
        let _ = write!(text, "\n  {}", visible(commit));
    }
    text += "\ntake the tasks of these commits back with it, or take it back by hand (`git revert`) and \
             open it again with `ralph task-reset`; nothing was changed";
    Failure::new(Exit::Error, text).into()
}

/// Verifies a commit in a slot: the commands of the project, and those of the tasks that landed later.
fn verify(
    workspace: &Workspace,
    graph: &GraphFile,
    commit: &CommitId,
    later: &BTreeSet<TaskId>,
) -> Result<()> {
    let config = &workspace.config;
    let mut commands = config.verify.0.clone();
    for number in later.iter().filter_map(|id| graph.graph().number(id)) {
        commands.extend(workspace.verify_of(graph.graph().task(number)));
    }
    let mut seen = BTreeSet::new();
    commands.retain(|command| seen.insert(command.clone()));
    if commands.is_empty() {
        return Ok(());
    }
    let executor = executors::find(config, Some(&config.run_on))?;
    let slot = TemporarySlot::prepare(
        workspace,
        SlotUse {
            name: "probe",
            commit: Some(commit.clone()),
            branch: BRANCH,
            base_ref: workspace.place.trial_ref(0),
            mark: BRANCH,
        },
    )?;
    let bench = ProbeFolder::new(config)?;
    let place = ProbePlace {
        workspace,
        executor: &executor,
        folder: slot.root.clone(),
        base: Some(slot.base.clone()),
        is_set_up: false,
    };
    let setup = config.setup.0.iter().map(|command| ("`setup`", command, config.setup_timeout));
    let checks = commands.iter().map(|command| ("verify command", command, config.verify_timeout));
    for (what, command, limit) in setup.chain(checks) {
        terminal::say(&format!("without the work: {}", visible(command)));
        let failure = || -> Result<Option<String>> {
            let (answer, _) = bench.ask_in(&place, Probe::shell(command, &slot.root), limit)?;
            Ok(answer.failure())
        };
        if failure()?.is_none() {
            continue;
        }
        // The merge queue asks again too: a pass on the same files is no failure of the work.
        let Some(why) = failure()? else {
            let command = visible(command);
            terminal::say(&format!("`{command}` failed and then passed on the same files"));
            continue;
        };
        for line in failure_output::last_words(&bench.output(), LINES) {
            terminal::say(&format!("  {line}"));
        }
        let why = why.lines().next().unwrap_or_default().to_owned();
        let text = format!(
            "the {what} `{command}` {why}; nothing was changed. `--unverified` takes the work back all \
             the same"
        );
        return fail(Exit::Error, text);
    }
    Ok(())
}

/// Opens the tasks again in the file of the checkout, if no commit does that.
fn open_in_file(editor: &mut TaskEditor, tasks: &[TaskId]) -> Result<()> {
    if editor.workspace.graph_in_git().is_some() {
        return Ok(());
    }
    for id in tasks {
        editor.write(id, Write::Plain(Status::Pending), None)?;
    }
    Ok(())
}

fn tell(back: &TakeBack, commit: &CommitId, followed: bool, as_json: bool) -> Result<()> {
    let TakeBack { branch, tasks, named, work, note, .. } = back;
    let reverted: Vec<&CommitId> = work.iter().flat_map(|work| &work.commits).collect();
    if as_json {
        let answer = TakenBackAnswer { branch, commit, tasks, reverted, followed };
        terminal::print(&terminal::json(&answer))?;
        return Ok(());
    }
    for id in tasks {
        let own = work.iter().filter(|work| work.task_id == *id);
        let commits = counted(own.map(|work| work.commits.len()).sum(), "commit");
        let is_told = note.is_some() && named.contains(id);
        let hears = if is_told { ", and its next attempt reads your note" } else { "" };
        let waits = if followed { "" } else { "; the branch waits for your checkout" };
        terminal::print(&format!(
            "{id}: taken back from {branch} ({commits}); it is pending{hears}{waits}\n"
        ))?;
    }
    Ok(())
}
