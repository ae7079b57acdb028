//! The end of an attempt: what its results are, and what of them is kept and removed.

use std::{
    fs,
    io::{self, Read},
    mem,
    path::Path,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    RunCore, attempts, checkout,
    context::{RunContext, task_of},
    graph_guard::GraphChanges,
    slots::RunSlots,
};
use crate::{
    adapters::{
        agent_output,
        git::{AttemptStart, HeadPlace, Repo},
        process, terminal,
    },
    core::{
        agents::{
            provider_error::{ProviderError, ProviderErrorKind},
            transcript::Format,
        },
        commit_id::CommitId,
        event::PlainLoop,
        exit::{Exit, Failure},
        failure_line,
        graph::{TaskGraph, task::CommitRule},
        history::History,
        loop_paths::{self, STALE_WORK},
        notes,
        run::command::{PendingResult, ProcessEnd},
        test_output,
        verdict::{Autocommit, Evidence, Merge, Outcome, Report, Rule, Verdict},
    },
    project::{
        attempt::{self, AttemptRecord, leftovers, scrutiny},
        workspace::Workspace,
    },
    regular_file,
};

/// Returns the new notes of an attempt, each with its number.
pub(super) fn new_notes(cx: &RunContext, record: &AttemptRecord) -> Vec<(usize, String)> {
    let root = cx.workspace.root();
    let path = root.join(record.folder(&cx.workspace)).join(loop_paths::NOTES);
    let file = regular_file::open_within(root, &path);
    let text = file.and_then(|file| io::read_to_string(file.take(regular_file::LARGEST)));
    let all = notes::of_attempt(&text.unwrap_or_default(), &record.name());
    all.into_iter().enumerate().skip(record.noted).collect()
}

/// Puts a slot whose attempt an earlier run had begun to verify back to where its agent left it:
/// what verify commands commit or check out is no work of the attempt. It is kept as stale.
fn return_slot(workspace: &Workspace, record: &AttemptRecord, tree: &Repo) -> Result<()> {
    let (Some(end), Some(left), Some(_)) = (&record.end_head, &record.left, &record.slot) else {
        return Ok(());
    };
    let head = tree.head()?.commit;
    if let Some(head) = head.filter(|head| head != end) {
        let name = format!("{STALE_WORK}/{}", record.mark());
        workspace.repo.slots().bring_home(tree, &head, &name)?;
    }
    let place = HeadPlace { branch: record.branch.as_deref(), commit: Some(end) };
    tree.checkout_head().take_back_with_files(place, left)
}

/// Puts a slot in which controls ran back to the work of its attempt.
pub(super) fn return_from_controls(
    workspace: &Workspace,
    record: &AttemptRecord,
    commit: Option<&CommitId>,
) -> Result<()> {
    let Some(commit) = commit else { return Ok(()) };
    let tree = record.tree(workspace)?;
    tree.integration().clean_up()?;
    tree.slot().move_to(commit)?;
    let place = HeadPlace { branch: record.branch.as_deref(), commit: Some(commit) };
    tree.checkout_head().take_back(place)
}

/// Ends the processes that a killed guardian could not. Returns their names, and how many could
/// not be killed. `is_alone` says whether the run has nothing else running.
pub(super) fn end_unguarded(
    cx: &RunContext,
    record: &AttemptRecord,
    is_alone: bool,
) -> (Vec<String>, usize) {
    let mut ended = record.end_all(&cx.workspace);
    if !is_alone {
        return (ended, 0);
    }
    // All processes that it guarded are now our children, marked or not, and no git of ours
    // runs here.
    let (swept, immortal) = process::sweep();
    ended.extend(swept.into_iter().map(|member| member.name));
    (ended, immortal)
}

/// Returns the last line of what an agent said. If the agent failed, returns the line that says
/// why: its standard error has the reason if it states an error, or if the agent said nothing.
fn last_line(
    workspace: &Workspace,
    record: &AttemptRecord,
    said: &str,
    outcome: &Outcome,
) -> Option<String> {
    let said = terminal::plain(said);
    if !outcome.is_own_failure() {
        return failure_line::last(&said);
    }
    let errors = agent_output::failure(&record.file(workspace, "stderr"));
    let errors = terminal::plain(&errors);
    failure_line::stated(&errors)
        .or_else(|| failure_line::of(&said))
        .or_else(|| failure_line::of(&errors))
}

/// Returns the last line of the output of a command, or the one that says why it failed; and whether a
/// test runner says in it that it ran no test.
pub(super) fn said(output: &Path, is_green: bool) -> (Option<String>, bool) {
    /// How many bytes at the end of an output are searched for the summaries of test runners.
    const TEST_OUTPUT: u64 = 1 << 20;
    if !is_green {
        return (failure_line::of(&terminal::plain(&agent_output::failure(output))), false);
    }
    let no_test = test_output::ran_none(&terminal::plain(&agent_output::end(output, TEST_OUTPUT)));
    (agent_output::last_line(output), no_test)
}

/// Adds what the attempt changed in the graph to its evidence. New tasks are its work if the graph
/// is an output of the task.
pub(super) fn add_graph_changes(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    record: &AttemptRecord,
    changes: GraphChanges,
    evidence: &mut Evidence,
) {
    let GraphChanges { others, added, fault, status: _ } = changes;
    (evidence.others, evidence.graph_fault) = (others, fault);
    let task = task_of(graph, record);
    if !task.is_some_and(|task| scrutiny::makes_tasks(workspace, &task)) {
        evidence.added_besides = added.len();
        return;
    }
    let earlier = history.of(&record.task_id).added.iter();
    // New tasks of this attempt are in the graph once its work lands.
    let earlier = earlier.filter(|id| graph.number(id).is_some());
    evidence.added = earlier.chain(&added).cloned().collect();
    evidence.added.sort_unstable();
    evidence.added.dedup();
}

/// The slot of an attempt whose agent has ended, and what the agent did to it.
pub(super) struct EndedSlot {
    tree: Result<Rc<Repo>>,
    tampered: Vec<String>,
    /// The lock files of git that were left behind and removed.
    pub(super) unlocked: Vec<String>,
}

impl EndedSlot {
    /// Opens it once all processes in it have ended.
    pub(super) fn open(
        workspace: &Workspace,
        slots: &RunSlots,
        record: &mut AttemptRecord,
        title: &str,
    ) -> EndedSlot {
        let before = record.tree(workspace);
        // Settings such as `core.bare` keep git from opening it at all.
        let unread = || vec!["settings with which git did not open the slot".to_owned()];
        let tampered = before.as_ref().map(|tree| scrutiny::tampered(record, tree));
        let tampered = tampered.unwrap_or_else(|_| unread());
        let before = before.or_else(|error| slots.restored(workspace, record)?.ok_or(error));
        let tree = before.and_then(|tree| slots.secured(workspace, record, tree));
        let unlocked = tree.as_ref().map(|tree| record.unlock(tree)).unwrap_or_default();
        let tree = tree.and_then(|tree| {
            return_slot(workspace, record, &tree)?;
            tree.take_in_worktrees(record.started_at.into())?;
            match settle_own(workspace, record, &tree, title) {
                Err(error) if record.slot.is_some() => Err(error),
                _ => Ok(tree),
            }
        });
        EndedSlot { tree, tampered, unlocked }
    }

    /// What the work in it shows. An attempt may have damaged it, which must not end the run.
    pub(super) fn evidence(
        self,
        workspace: &Workspace,
        record: &AttemptRecord,
        report: Option<Report>,
    ) -> Result<Evidence> {
        let found = self.tree.and_then(|it| attempt::evidence(workspace, &it, record, report));
        let found = match found {
            Err(error) if record.slot.is_some() => {
                attempt::evidence_of_nothing(workspace, record, report, &error)?
            }
            found => found?,
        };
        Ok(Evidence { tampered: self.tampered, ..found })
    }
}

/// Puts the base of an attempt to the commit that its own commits are on, which it may have pulled.
fn settle_own(
    workspace: &Workspace,
    record: &mut AttemptRecord,
    tree: &Repo,
    title: &str,
) -> Result<()> {
    // Once it has landed, its commits are those of the branch.
    let from = record.base.clone().filter(|_| record.landing().is_none());
    let Some(from) = from else { return Ok(()) };
    let mut others = Vec::new();
    if let Some(slot) = &record.slot {
        let tip = workspace.repo.landings().tip(&slot.target)?;
        others.extend(tip.into_iter().flat_map(|tip| [tip.commit, tip.branch]));
    }
    let (branch, began) = (record.branch.as_deref(), record.started_at.timestamp());
    let start = AttemptStart { base: &from, branch, began };
    let base = tree.settle_own(start, &others, &leftovers::message(record, title))?;
    if base == from {
        return Ok(());
    }
    if record.slot.is_some() {
        workspace.repo.slots().bring_home(tree, &base, &record.pin(&workspace.place))?;
    }
    (record.base, record.started_from) = (Some(base), record.started_from.take().or(Some(from)));
    record.write(workspace)
}

/// Returns the result of an agent that has ended with this evidence.
pub(super) fn result_of(
    cx: &RunContext,
    history: &History,
    (graph, record): (&TaskGraph, &AttemptRecord),
    end: ProcessEnd,
    mut evidence: Evidence,
) -> PendingResult {
    let workspace = &cx.workspace;
    let outcome = end.outcome.unwrap_or(Outcome::Interrupted);
    let (transcript, mut error_kind) = record.transcript(workspace, &outcome);
    // At a limit of the run or of the task, which it was told, it has not failed.
    let left = attempts::cost_left(cx, history, graph, &record.id());
    let is_spent = left.is_some_and(|left| transcript.usage.cost_usd.unwrap_or_default() >= left);
    let is_at_limit = is_spent && error_kind == Some(ProviderErrorKind::Budget);
    let outcome = if is_at_limit { Outcome::OverCost } else { outcome };
    error_kind = error_kind.filter(|_| !is_at_limit);
    let name = record.call.as_ref().map_or("", |call| call.name.as_str());
    let has_worked = || history.has_worked(name);
    let missing = match end.no_program {
        true if has_worked() => Some(ProviderErrorKind::Vanished),
        true => Some(ProviderErrorKind::Missing),
        false => None,
    };
    evidence.obstacle = missing.or(error_kind).map(|error_kind| {
        let earlier = history.errors_before(name, &record.task_id);
        ProviderError::new(error_kind, earlier, Utc::now())
    });
    let word = transcript.end.as_ref().map(|end| end.text.clone());
    let word = word.filter(|text| !text.trim().is_empty());
    let promise = workspace.config.promise();
    // The result of plain output is its last line, which [`AgentTranscript::last_line`] cuts.
    let is_text = record.call.as_ref().is_none_or(|call| call.output == Format::Text);
    let spoken = transcript.message.as_deref().filter(|_| is_text);
    let spoken = spoken.and_then(|text| text.rsplit(['\n', '\r']).next());
    let promised = word.as_deref().or(spoken).or(transcript.last_line());
    let promised = promised.is_some_and(|result| promise.is_made(result));
    let has_failed = word.is_some() && transcript.end.as_ref().is_some_and(|end| end.is_error);
    let last = transcript.last_line().map(str::to_owned);
    let said = word.or(transcript.message).or(last).unwrap_or_default();
    let last_line = if has_failed {
        failure_line::of(&terminal::plain(&said))
    } else {
        last_line(workspace, record, &said, &outcome)
    };
    PendingResult {
        conversation: transcript.conversation.filter(|id| is_plain(id) && !is_spent),
        outcome,
        took: end.took,
        swept: end.swept,
        unlocked: Vec::new(),
        evidence,
        usage: transcript.usage,
        tools: transcript.tools,
        last_line,
        // In a plain loop the promise counts as a report.
        promised: promised && cx.plain().is_none(),
    }
}

/// Whether the id of a conversation is a word that no command line takes for a flag.
fn is_plain(id: &str) -> bool {
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(is_of_id)
}

/// How many files of such a commit are kept by name.
const NAMED: usize = 20;

/// A commit of leftovers.
pub(super) struct DueCommit {
    /// Their paths.
    pub(super) left: Vec<String>,
    /// The title of the task.
    pub(super) title: String,
}

/// Returns the commit of the leftovers of work that was reported done, if one is due.
pub(super) fn due_commit(
    core: &RunCore,
    slots: &RunSlots,
    record: &AttemptRecord,
    outcome: &Outcome,
    evidence: &mut Evidence,
) -> Option<DueCommit> {
    let (cx, task) = (&core.cx, task_of(core.graph.file.graph(), record));
    let rule = cx.rule(task.as_ref());
    let verdict = Verdict::of(outcome, evidence, rule);
    let (task, tree) = (task?, slots.secured_tree(&cx.workspace, record).ok()?);
    let may_commit = core.with_situation(&[], |sit| sit.may_commit(verdict));
    if may_commit && !evidence.leftovers.is_empty() {
        let mut left = evidence.leftovers.clone();
        leftovers::take_new_secrets(&tree, &mut left);
        if !evidence.commits.is_empty() {
            evidence.left_besides = left.iter().take(NAMED).cloned().collect();
        }
        return Some(DueCommit { left, title: task.title });
    }
    if lacks_commit(verdict, rule, evidence) {
        evidence.autocommit = Some(Autocommit::Off);
    }
    None
}

/// Looks at a slot again after the commit of its leftovers: the hooks of git may run files of the attempt,
/// and change what was read of the slot before.
pub(super) fn look_after_commit(
    cx: &RunContext,
    slots: &RunSlots,
    record: &AttemptRecord,
    evidence: &mut Evidence,
) -> Result<()> {
    let before = mem::take(&mut evidence.leftovers);
    let tree = slots.secured_tree(&cx.workspace, record)?;
    let damage = checkout::take_back_damaged(cx, record)?;
    let Evidence { commits, diff, mut leftovers, strayed, .. } =
        attempt::evidence(&cx.workspace, &tree, record, evidence.report)?;
    // Changes made by a verify command do not belong to the attempt.
    leftovers.retain(|path| before.binary_search(path).is_ok());
    (evidence.commits, evidence.diff) = (commits, diff);
    (evidence.leftovers, evidence.strayed) = (leftovers, damage.or(strayed));
    Ok(())
}

/// Examines the outputs of the task of an attempt. Returns its slot, and whether the work is complete so
/// far.
pub(super) fn examine(
    core: &RunCore,
    slots: &RunSlots,
    record: &AttemptRecord,
    outcome: &Outcome,
    evidence: &mut Evidence,
) -> Result<(Result<Rc<Repo>>, bool)> {
    let (cx, workspace) = (&core.cx, &core.cx.workspace);
    let task = task_of(core.graph.file.graph(), record);
    let rule = cx.rule(task.as_ref());
    let tree = slots.secured_tree(workspace, record);
    // Not again after its verify commands ran here.
    if let (Some(task), Ok(tree)) = (task, &tree)
        && (evidence.verify.is_empty() || record.slot.is_none())
    {
        scrutiny::check_evidence(workspace, tree, record, &task, evidence)?;
    }
    Ok((tree, Verdict::of(outcome, evidence, rule) == Verdict::Complete))
}

/// Whether work with this verdict fails because its leftovers must not be committed.
fn lacks_commit(verdict: Verdict, rule: Rule, evidence: &Evidence) -> bool {
    verdict == Verdict::Complete
        && rule == Rule::Task(CommitRule::Required)
        && !evidence.leftovers.is_empty()
}

/// Fetches the work of a complete isolated attempt into the repository.
pub(super) fn bring_home(
    workspace: &Workspace,
    tree: Option<&Repo>,
    record: &AttemptRecord,
    evidence: &mut Evidence,
) {
    if let (None, Some(slot)) = (&evidence.merge, &record.slot)
        && let (Some(head), Some(tree)) = (evidence.commits.last(), tree)
    {
        let name = record.pin(&workspace.place);
        if let Err(error) = workspace.repo.slots().bring_home(tree, &head.id, &name) {
            let (branch, why) = (slot.target.clone(), format!("{error:#}"));
            evidence.merge = Some(Merge::Refused { branch, why });
        }
        crate::crash::point("close.home");
    }
}

/// Keeps the work that an attempt left in the repository `tree`. Returns the ref, and what could not be
/// kept. For a complete isolated attempt, keeps only what is not in the target branch as is: commits that
/// were rebased or squashed, and files that verify commands left. The ref is not returned if all that
/// it has did land.
pub(super) fn keep_work(
    workspace: &Workspace,
    slots: &RunSlots,
    record: &AttemptRecord,
    verdict: Verdict,
    evidence: &Evidence,
) -> Result<(Option<String>, Vec<String>)> {
    let nothing = (None, Vec::new());
    let is_complete = verdict == Verdict::Complete;
    let without_agent = matches!(verdict, Verdict::BaselineBroken | Verdict::SetupFailed);
    if record.slot.is_none() && (is_complete || without_agent) {
        return Ok(nothing);
    }
    let tree = match slots.secured_tree(workspace, record) {
        Ok(tree) => tree,
        Err(_) if is_complete => return Ok(nothing),
        Err(error) => return Ok((None, vec![format!("{error:#}")])),
    };
    let pin = || {
        let kept = leftovers::pin(workspace, &tree, record, &evidence.leftovers);
        // The repository's filters may run files of the attempt.
        slots.let_change();
        kept
    };
    // Git may not be able to read the tree of an attempt that is not complete.
    if !is_complete {
        return Ok(pin());
    }
    let (dirty, strays) = (tree.dirty()?, tree.pins().has_own_strays()?);
    if !dirty.is_empty() || strays {
        let (name, unpinned) = pin();
        // Beside complete work, what only verify commands left is worth no word.
        let is_own = dirty.keys().any(|path| evidence.leftovers.contains(path));
        let resolved =
            matches!(&evidence.merge, Some(Merge::Landed { resolved, .. }) if !resolved.is_empty());
        let is_work = is_own || strays || resolved;
        return Ok((name.filter(|_| is_work), unpinned));
    }
    let Some(Merge::Landed { branch, resolved, .. }) = &evidence.merge else {
        return Ok(nothing);
    };
    let place = &workspace.place;
    let name = record.pin(place);
    let repo = &workspace.repo;
    if let Some(head) = tree.head()?.commit
        && repo.commit_of(&name)?.is_some_and(|home| home != head)
    {
        // A verify command has made a commit.
        repo.slots().bring_home(&tree, &head, &name)?;
    }
    let (Some(head), Some(tip)) = (repo.commit_of(&name)?, workspace.repo.landings().tip(branch)?)
    else {
        return Ok(nothing);
    };
    if repo.is_ancestor(&head, &tip.commit)? {
        repo.drop_ref(&name)?;
        return Ok(nothing);
    }
    // The commits as they were stay under the ref; only lines that both sides added are worth a word.
    Ok((Some(name).filter(|_| !resolved.is_empty()), Vec::new()))
}

/// Waits for git processes of an isolated attempt that a dead run left running, and removes the
/// lock files of killed ones.
pub(super) fn wait_for_git(workspace: &Workspace, record: &AttemptRecord) {
    const PATIENCE: Duration = Duration::from_secs(30);
    let Some(slot) = &record.slot else {
        return;
    };
    let began = Instant::now();
    while process::works_in("git", &slot.path) && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    record.unlock(&workspace.repo);
}

/// Whether the folder of the plain loop contains a file `DONE`.
///
/// # Errors
/// `DONE` is a folder.
pub(super) fn done_file(cx: &RunContext) -> Result<bool> {
    let Some(PlainLoop { name, .. }) = cx.plain() else { return Ok(false) };
    let done = attempt::done_file(&cx.workspace, name);
    if done.is_dir() {
        let shown = done.strip_prefix(cx.workspace.root()).unwrap_or(&done).display();
        let why =
            format!("`{shown}` is a folder; remove it, because a file of that name ends the loop");
        return Err(Failure::new(Exit::Error, why).into());
    }
    Ok(done.is_file())
}

/// Returns the files of an attempt that was judged to the folder of its task, without its `DONE`, so
/// that it is not the report of another attempt. The accepted one of a plain loop stays: it also keeps
/// the loop from starting again.
pub(super) fn return_files(cx: &RunContext, record: &AttemptRecord, believed: bool) -> Result<()> {
    if cx.plain().is_none() {
        return record.return_files(&cx.workspace);
    }
    let done = attempt::done_file(&cx.workspace, &record.task_id);
    if !believed && done.is_file() {
        return fs::remove_file(&done).with_context(|| format!("remove `{}`", done.display()));
    }
    // The checkout is where the next loop looks for it.
    let is_in_slot = record.slot.is_some() && record.has_done_file(&cx.workspace);
    if believed && is_in_slot && !done.exists() {
        fs::write(&done, "").with_context(|| format!("write `{}`", done.display()))?;
    }
    Ok(())
}
