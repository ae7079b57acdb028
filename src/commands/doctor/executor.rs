//! A trial of an executor: a process starts there, writes, commits, and is killed.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};

use super::{
    Finding,
    bench::{Probe, ProbeAnswer, ProbeFolder},
};
use crate::{
    core::{
        agents::agent_command::AgentCommand,
        commit_id::CommitId,
        duration,
        executor::{Executor, Placement},
        exit::Exit,
        graph::task::TaskId,
    },
    project::{
        placement::{self, PlacedProcess, ProcessFacts},
        slot_pool::{self, PreparedSlot, SlotOrder, SlotPool},
        workspace::{Workspace, shell_word},
    },
};

const ABOUT: &str = "executor";

/// The time for a process to get to its executor, start there and commit; a queue may take longer.
const START: Duration = Duration::from_secs(120);
/// The time after which a process that does not end is killed.
const KILL: Duration = Duration::from_secs(3);
/// What a process says of a program that it looked for.
const FOUND: &str = "found";
const MISSED: &str = "missed";
/// The file that the process writes.
const FILE: &str = "ralph-probe.txt";

/// Tries an executor with these agents, unless a run is active, and says what it does not hold.
pub(super) fn findings(
    workspace: &Workspace,
    bench: &ProbeFolder,
    executor: &Executor,
    agents: &[&AgentCommand],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        tried(workspace, bench, executor, agents).into_iter().collect();
    for agent in agents {
        if let Err(why) = placement::check_agent(executor, agent.preset_name().as_deref()) {
            let (found, cure) = super::parts(&why, "");
            findings.push(Finding::fault(ABOUT, Exit::Agent, found, cure));
        }
    }
    let support = placement::sandbox_support(executor);
    for gap in support.iter().flat_map(|support| &support.gaps) {
        findings.push(Finding::warning(ABOUT, format!("{}: {gap}", executor.name), ""));
    }
    findings
}

/// Tries an executor, unless a run is active.
fn tried(
    workspace: &Workspace,
    bench: &ProbeFolder,
    executor: &Executor,
    agents: &[&AgentCommand],
) -> Option<Finding> {
    let head = workspace.repo.head().ok()?;
    // Another check reports this.
    let base = head.branch.and(head.commit)?;
    let Ok(Some(_lock)) = workspace.lock() else {
        return Some(Finding::ok(ABOUT, format!("{}: not tried: a run is active", executor.name)));
    };
    let name = &executor.name;
    let seen = placement::check(workspace, executor);
    if let Err(why) = seen.and_then(|()| placement::answers(executor)) {
        let why = why.strip_prefix(&format!("executor `{name}`: ")).unwrap_or(&why);
        let (found, cure) = super::parts(why, "a run that needs it would not start");
        return Some(Finding::fault(ABOUT, Exit::Agent, format!("{name}: {found}"), cure));
    }
    Some(match trial(workspace, bench, executor, agents, &base) {
        Ok(Ok(placement)) => {
            let at = placement.map_or_else(|| name.clone(), |placement| placement.to_string());
            let what = "a process wrote, committed, found the agent and was killed there";
            Finding::ok(ABOUT, format!("{at}: {what}"))
        }
        Ok(Err(why)) => {
            let (found, cure) =
                super::parts(&why, "tasks there would wait for it; `--on local` runs here");
            Finding::fault(ABOUT, Exit::Agent, format!("{name}: {found}"), cure)
        }
        Err(error) => Finding::of_error(ABOUT, &error, "attempts there need a slot"),
    })
}

/// What the processes of the trial are recognized by.
fn mark() -> String {
    format!("doctor.{}", std::process::id())
}

/// The result of a trial: where it ran, or why that failed.
type TrialResult = Result<Result<Option<Placement>, String>>;

fn trial(
    workspace: &Workspace,
    bench: &ProbeFolder,
    executor: &Executor,
    agents: &[&AgentCommand],
    base: &CommitId,
) -> TrialResult {
    let repo = &workspace.repo;
    let pool = SlotPool::of(workspace);
    std::fs::create_dir_all(pool.folder()).with_context(|| {
        format!("create `{}`; `slot_dir` sets another", pool.folder().display())
    })?;
    let pool = SlotPool::of(workspace);
    let path = pool.probe();
    let probe_ref = workspace.place.trial_ref();
    let order = SlotOrder {
        slot: path.clone(),
        settings: repo.slot_settings()?,
        branch: "ralph/doctor".to_owned(),
        base: base.clone(),
        base_ref: probe_ref.clone(),
        left: None,
        graph: workspace.graph_in_git(),
        setup: Vec::new(),
        pool,
    };
    let prepared = slot_pool::prepare(&order)?;
    repo.drop_ref(&probe_ref)?;
    if !matches!(prepared, PreparedSlot::Ready { .. }) {
        return Ok(Err(format!("`{}` has work that is kept nowhere else", path.display())));
    }
    let result = probes(workspace, bench, executor, agents, (base, &path));
    placement::clean_up(workspace, executor, &mark());
    // The commit of the probe is no work.
    std::fs::remove_dir_all(&path).with_context(|| format!("remove `{}`", path.display()))?;
    result
}

fn probes(
    workspace: &Workspace,
    bench: &ProbeFolder,
    executor: &Executor,
    agents: &[&AgentCommand],
    (base, slot): (&CommitId, &Path),
) -> TrialResult {
    let task_dir = workspace.task_dir(&TaskId::new("doctor").expect("a valid id"));
    let facts = ProcessFacts {
        mark: mark(),
        slot: slot.to_owned(),
        base: Some(base.clone()),
        task_dir: workspace.root().join(task_dir),
        record: bench.record(),
        agent: None,
        limit: Some(START),
        resources: None,
    };
    std::fs::create_dir_all(&facts.task_dir).context("create the folder of a task")?;
    let mut seen = None;
    let mut ask = |script: &str, limit: Duration| {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let probe = Probe { argv, dir: Some(slot.to_owned()), ..Probe::default() };
        bench.ask_at(probe, limit, |spec| -> Result<PlacedProcess, String> {
            let placed = placement::placed(workspace, executor, &facts, spec);
            let placed = placed.map_err(|fault| fault.to_string())?;
            seen.clone_from(&placed.placement);
            Ok(placed)
        })
    };
    let commit = format!(
        "echo probe > {FILE} && git add {FILE} && git -c user.name=ralph -c \
         user.email=ralph@localhost commit --quiet --no-verify -m probe"
    );
    match ask(&commit, START)? {
        ProbeAnswer::Yes(_) => {}
        ProbeAnswer::No(why) => return Ok(Err(why)),
        ProbeAnswer::Late(limit) => {
            return Ok(Err(format!("not finished in {}", duration::short(limit))));
        }
    }
    let tree = workspace.repo.open_slot(slot).context("the slot is gone")?;
    let head = tree.head()?.commit;
    let is_back = head.as_ref().is_some_and(|head| head != base) && slot.join(FILE).is_file();
    if !is_back {
        return Ok(Err("a commit that was made there did not arrive here".to_owned()));
    }
    for agent in agents {
        let program = agent.argv.first().map_or("", String::as_str);
        // One of the repository is that of the slot there.
        let own = Path::new(program).strip_prefix(workspace.root());
        let program = own.map_or_else(|_| program.to_owned(), |own| format!("./{}", own.display()));
        let word = shell_word(&program);
        let look = format!("command -v {word} > /dev/null && echo {FOUND} || echo {MISSED}");
        let said = match ask(&look, START)? {
            ProbeAnswer::Yes(lines) => lines.last().cloned().unwrap_or_default(),
            ProbeAnswer::No(why) => return Ok(Err(why)),
            ProbeAnswer::Late(_) => String::new(),
        };
        if said != FOUND {
            let cure = "install it there, or name its path there in `agent`";
            return Ok(Err(format!("there is no program `{program}` there; {cure}")));
        }
    }
    let killed = ask("sleep 600 & exec sleep 600", KILL)?;
    Ok(match killed {
        ProbeAnswer::Late(_) => Ok(seen),
        ProbeAnswer::Yes(_) => Err("a process that was to be killed ended by itself".to_owned()),
        ProbeAnswer::No(why) => Err(format!("a process could not be killed there: {why}")),
    })
}
