//! The trial attempt: one temporary slot at the tip of the branch, in which happens what happens in
//! every attempt. The setup and the verify commands run, commits are made with the signature and
//! the hooks of the repository, and at each executor a process commits, finds its agent and is
//! killed.

use std::{
    cell::RefCell,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use chrono::Utc;

use super::planted::{self, GreenCheck, Notice};
use crate::{
    adapters::{git::CommitDraft, process, state::Lock},
    commands::{
        probe::{Probe, ProbeAnswer, ProbeFolder, ProbePlace, START},
        slots::{SlotUse, TemporarySlot},
    },
    core::{
        agents::agent_command::AgentCommand,
        executor::{Executor, LOCAL, Placement, shell_word},
        exit::Exit,
        finding::{Finding, FindingKind},
        sandbox::is_shown,
    },
    project::{
        graph_file::rfc3339,
        placement, slot_pool,
        workspace::{LockHolder, LockUse, Workspace},
    },
    view::lines::counted,
};

/// The time limit for a program to print its version.
pub(super) const VERSION: Duration = Duration::from_secs(10);
/// The time after which a process that does not end is killed.
const KILL: Duration = Duration::from_secs(3);
/// What a process says of a program that it looked for.
const FOUND: &str = "found";
const MISSED: &str = "missed";
/// The file that a process at an executor writes.
const FILE: &str = "ralph-probe.txt";
/// The branch of the slot.
const BRANCH: &str = "ralph/doctor";

/// What a trial attempt tries.
pub(super) struct TrialPlan<'a> {
    /// The executors that verify work before it lands: the setup and the verify commands run there.
    pub(super) verifiers: Vec<Executor>,
    /// The executors besides this machine, each with the agents of its tasks.
    pub(super) executors: Vec<(Executor, Vec<&'a AgentCommand>)>,
}

/// Makes the trial attempt, unless a run is active or nothing needs a slot.
pub(super) fn findings(
    workspace: &Workspace,
    bench: &ProbeFolder,
    plan: &TrialPlan<'_>,
) -> Vec<Finding> {
    let commits = workspace.repo.commits();
    let mut kinds = workspace.repo.local().commit_hooks();
    kinds.extend(commits.signs_commits().unwrap_or(true).then_some("a signature"));
    let is_needed = !plan.verifiers.is_empty() || !plan.executors.is_empty() || !kinds.is_empty();
    let (slot, lock) =
        if is_needed { prepare(workspace, LockUse::Doctor) } else { (TrialSlot::None(""), None) };
    let branch = workspace.repo.head().ok().and_then(|head| head.branch);
    let at = branch.unwrap_or_else(|| "HEAD".to_owned());
    let trial = Trial { workspace, bench, at, slot, left: RefCell::default() };
    let mut findings: Vec<Finding> =
        plan.verifiers.iter().map(|verifier| trial.commands(plan, verifier)).collect();
    let left = trial.left.take();
    findings.extend(left.map(|path| FindingKind::SetupLeaves.with(&[&path])));
    findings.push(trial.commit(&kinds, plan.verifiers.iter().find(|it| it.is_sandbox())));
    for (executor, agents) in &plan.executors {
        findings.extend(trial.executor(executor, agents));
    }
    drop(trial);
    drop(lock);
    findings
}

/// The slot of a trial attempt.
enum TrialSlot {
    Ready(TemporarySlot),
    /// There is none, for a reason that other checks report.
    None(&'static str),
    /// It cannot be made.
    Failed(String),
}

/// Makes the slot. Returns it with the lock that keeps runs away from it.
fn prepare(workspace: &Workspace, holds_for: LockUse) -> (TrialSlot, Option<Lock>) {
    if !workspace.repo.head().is_ok_and(|head| head.commit.is_some()) {
        return (TrialSlot::None("there is no commit"), None);
    }
    let Ok(Some(lock)) = workspace.lock() else {
        return (TrialSlot::None("a run is active"), None);
    };
    let holder = LockHolder {
        process: process::own_identity(),
        holds_for,
        run_id: String::new(),
        since: rfc3339(Utc::now()),
        task_id: None,
        onto: None,
    };
    if let Err(error) = workspace.state.write_holder(&holder) {
        return (TrialSlot::Failed(error.to_string()), Some(lock));
    }
    let wanted = SlotUse {
        name: "probe",
        commit: None,
        branch: BRANCH,
        base_ref: workspace.place.trial_ref(0),
        mark: FILE,
    };
    let slot = TemporarySlot::prepare(workspace, wanted);
    let failed = |error| TrialSlot::Failed(format!("{error:#}"));
    (slot.map_or_else(failed, TrialSlot::Ready), Some(lock))
}

/// What the setup and the verify commands show.
enum Checks {
    /// One fails: the kind of the finding, the command and the reason.
    Failed(FindingKind, String, String),
    /// All pass, and whether they notice broken code.
    Passed(Notice),
}

/// Whether the verify commands notice broken code in a slot, where a proof is made; none if that cannot
/// be tried.
///
/// # Errors
/// Errors of git and of the disk.
pub(super) fn notice(workspace: &Workspace, executor: &Executor) -> Result<Option<Notice>> {
    let bench = ProbeFolder::new(&workspace.config)?;
    let (slot, _lock) = prepare(workspace, LockUse::Start);
    let (at, left) = (String::new(), RefCell::default());
    let trial = Trial { workspace, bench: &bench, at, slot, left };
    let TrialSlot::Ready(slot) = &trial.slot else { return Ok(None) };
    Ok(match trial.checks(slot, executor)? {
        Checks::Passed(notice) => Some(notice),
        Checks::Failed(..) => None,
    })
}

/// A trial attempt.
struct Trial<'a> {
    workspace: &'a Workspace,
    bench: &'a ProbeFolder,
    /// The branch.
    at: String,
    slot: TrialSlot,
    /// A file that the setup has left and git does not ignore.
    left: RefCell<Option<String>>,
}

impl Trial<'_> {
    /// The finding about a trial in the slot.
    fn in_slot(
        &self,
        subject: &'static str,
        trial: impl FnOnce(&TemporarySlot) -> Result<Finding>,
    ) -> Finding {
        let tried = match &self.slot {
            TrialSlot::Ready(slot) => trial(slot),
            TrialSlot::None(why) => return Finding::ok(subject, format!("not tried: {why}")),
            TrialSlot::Failed(why) => {
                return Finding { subject, ..FindingKind::NoSlot.of_error(why, Exit::Error) };
            }
        };
        tried.unwrap_or_else(|error| Finding {
            subject,
            ..FindingKind::NotTried.of_text(&format!("{error:#}"))
        })
    }

    /// The slot at an executor.
    fn place<'a>(&'a self, slot: &TemporarySlot, executor: &'a Executor) -> ProbePlace<'a> {
        ProbePlace {
            workspace: self.workspace,
            executor,
            folder: slot.root.clone(),
            base: Some(slot.base.clone()),
            is_set_up: false,
        }
    }

    /// Runs the setup and the verify commands at an executor that verifies work.
    fn commands(&self, plan: &TrialPlan<'_>, executor: &Executor) -> Finding {
        let config = &self.workspace.config;
        let others = plan.executors.iter().map(|(other, _)| other.name.as_str());
        let others: Vec<&str> = others.filter(|name| *name != executor.name).collect();
        let at = match (executor.name.as_str(), &others[..]) {
            (LOCAL, []) => format!("{} in a slot", self.at),
            (LOCAL, _) => {
                format!("{} in a slot here, not on `{}`", self.at, others.join("`, `"))
            }
            (name, _) => format!("{} in a slot on `{name}`", self.at),
        };
        self.in_slot("slot", |slot| {
            let noticed = match self.checks(slot, executor)? {
                Checks::Failed(kind, command, why) => {
                    let is_plain = kind == FindingKind::VerifyFails && executor.name == LOCAL;
                    let here = || {
                        self.bench.ask(
                            Probe::shell(&command, self.workspace.root()),
                            config.verify_timeout,
                        )
                    };
                    let passes_here = is_plain && here()?.failure().is_none();
                    let kind = if passes_here { FindingKind::OnlyInCheckout } else { kind };
                    return Ok(kind.with(&[&command, &at, &why]));
                }
                Checks::Passed(Notice::Missed(finding, _)) => return Ok(finding),
                Checks::Passed(Notice::Noticed) => ", and notices broken code",
                Checks::Passed(Notice::NoCode) => "",
            };
            let verify = counted(config.verify.0.len(), "verify command");
            let ran = match (config.setup.0.len(), config.verify.0.len()) {
                (0, 0) => "no setup and no verify command".to_owned(),
                (0, _) => format!("{verify} passed"),
                (_, 0) => "setup passed".to_owned(),
                _ => format!("setup and {verify} passed"),
            };
            Ok(Finding::ok("slot", format!("{ran} on {at}{noticed}")))
        })
    }

    /// Runs the setup and the verify commands in the slot, and again with broken code.
    fn checks(&self, slot: &TemporarySlot, executor: &Executor) -> Result<Checks> {
        let config = &self.workspace.config;
        let setup = config.setup.0.iter();
        let setup = setup.map(|it| (it, FindingKind::SetupFails, config.setup_timeout));
        let verify = config.verify.0.iter();
        let verify = verify.map(|it| (it, FindingKind::VerifyFails, config.verify_timeout));
        if let Err(why) = placement::check(self.workspace, executor) {
            bail!("{why}");
        }
        let place = self.place(slot, executor);
        let mut green = Vec::new();
        for (command, kind, limit) in setup.chain(verify) {
            let (probe, began) = (Probe::shell(command, &slot.root), Instant::now());
            if let Some(why) = self.bench.ask_in(&place, probe, limit)?.0.failure() {
                return Ok(Checks::Failed(kind, command.clone(), why));
            }
            if kind == FindingKind::SetupFails {
                let tree = self.workspace.repo.slots().open(&slot.root).context("no slot")?;
                self.left.replace(tree.dirty()?.into_keys().next());
            } else {
                let has_tests = planted::tests_of(self.bench).is_some_and(|run| !run.is_empty());
                green.push(GreenCheck { command, took: began.elapsed(), has_tests });
            }
        }
        let files = self.workspace.repo.files_at(&slot.base)?;
        let tree = self.workspace.repo.slots().open(&slot.root).context("the slot is gone")?;
        let builds = slot_pool::builds(&tree, &config.setup.0)?;
        let build = if builds { &config.setup.0[..] } else { &[] };
        Ok(Checks::Passed(planted::notice(self.bench, &place, &files, build, &green)?))
    }

    /// Checks that git knows who commits, and that these hooks and the signing pass without a person:
    /// the hooks in the sandbox, if attempts work in one.
    fn commit(&self, kinds: &[&str], sandbox: Option<&Executor>) -> Finding {
        let commits = self.workspace.repo.commits();
        let who = match commits.committer() {
            Ok(who) => who,
            Err(error) => return FindingKind::Committer.of_text(&error.to_string()),
        };
        if kinds.is_empty() {
            return Finding::ok("commit", format!("as {who}; no hooks, not signed"));
        }
        let tried = format!("an empty commit with {}", kinds.join(", "));
        self.in_slot("commit", |slot| {
            let draft = commits.trial_commit();
            let probe = |draft: CommitDraft| Probe {
                argv: draft.argv,
                dir: Some(slot.root.clone()),
                env: draft.env,
                env_remove: draft.env_remove,
                ..Probe::default()
            };
            let limit = self.bench.commit;
            let mut failure = match sandbox {
                Some(executor) => {
                    let unsigned = probe(draft.clone().unsigned());
                    self.bench.ask_in(&self.place(slot, executor), unsigned, limit)?.0.failure()
                }
                None => self.bench.ask(probe(draft.clone()), limit)?.failure(),
            };
            if failure.is_none() && sandbox.is_some() {
                failure = self.bench.ask(probe(draft.signing()), limit)?.failure();
            }
            Ok(match failure {
                None => Finding::ok("commit", format!("as {who}; tested in a slot: {tried}")),
                Some(why) => FindingKind::CommitFails.with(&[&tried, &why]),
            })
        })
    }

    /// Tries an executor with these agents, and says what it does not hold.
    fn executor(&self, executor: &Executor, agents: &[&AgentCommand]) -> Vec<Finding> {
        let name = &executor.name;
        let tried = self.in_slot("executor", |slot| {
            let seen = placement::check(self.workspace, executor);
            if let Err(why) = seen.and_then(|()| placement::answers(executor)) {
                let why = why.strip_prefix(&format!("executor `{name}`: ")).unwrap_or(&why);
                return Ok(FindingKind::Executor.of_error(&format!("{name}: {why}"), Exit::Agent));
            }
            Ok(match self.processes(slot, executor, agents)? {
                Ok(placement) => {
                    let at = placement.map_or_else(|| name.clone(), |it| it.to_string());
                    let what = "a process wrote, committed, found the agent and was killed there";
                    Finding::ok("executor", format!("{at}: {what}"))
                }
                Err(why) => FindingKind::Executor.of_error(&format!("{name}: {why}"), Exit::Agent),
            })
        });
        let mut findings = vec![tried];
        for agent in agents {
            if let Err(why) = placement::check_agent(executor, agent.preset_name().as_deref()) {
                findings.push(FindingKind::Executor.of_error(&why, Exit::Agent));
            }
        }
        let support = placement::sandbox_support(executor);
        for gap in support.iter().flat_map(|support| &support.gaps) {
            findings.push(FindingKind::SandboxGap.with(&[name, gap]));
        }
        let home = std::env::var_os("HOME").filter(|_| support.is_some()).unwrap_or_default();
        let entries = std::fs::read_dir(home).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut hidden: Vec<String> = names.filter(|name| !is_shown(name)).collect();
        if !hidden.is_empty() {
            hidden.sort_unstable();
            let hides = format!("it hides `~/{}`; `show` shows more", hidden.join("`, `~/"));
            findings.push(FindingKind::SandboxGap.with(&[name, &hides]));
        }
        findings
    }

    /// Runs processes in the slot at an executor. Returns where they ran, or why that failed.
    fn processes(
        &self,
        slot: &TemporarySlot,
        executor: &Executor,
        agents: &[&AgentCommand],
    ) -> Result<Result<Option<Placement>, String>> {
        let workspace = self.workspace;
        let mut place = self.place(slot, executor);
        let mut seen = None;
        let mut ask = |script: &str, limit: Duration| {
            let probe = Probe::shell(script, &slot.root);
            let (answer, placement) = self.bench.ask_in(&place, probe, limit)?;
            // As in a run, the next process needs what a setup would have left.
            place.is_set_up = !workspace.config.setup.0.is_empty();
            seen = placement;
            Ok::<_, anyhow::Error>(answer)
        };
        let tried = (|| -> Result<Result<(), String>> {
            let name = &executor.name;
            let commit = format!(
                "echo {name} >> {FILE} && git add {FILE} && git -c user.name=ralph -c \
                 user.email=ralph@localhost commit --quiet --no-verify -m probe"
            );
            if let Some(why) = ask(&commit, START)?.failure() {
                return Ok(Err(why));
            }
            let tree = workspace.repo.slots().open(&slot.root).context("the slot is gone")?;
            if tree.head()?.commit.as_ref() == Some(&slot.base) || !slot.root.join(FILE).is_file() {
                return Ok(Err("a commit that was made there did not arrive here".to_owned()));
            }
            for agent in agents {
                let program = agent.argv.first().map_or("", String::as_str);
                // One of the repository is that of the slot there.
                let own = Path::new(program).strip_prefix(workspace.root());
                let program =
                    own.map_or_else(|_| program.to_owned(), |own| format!("./{}", own.display()));
                let word = shell_word(&program);
                let look =
                    format!("command -v {word} > /dev/null && echo {FOUND} || echo {MISSED}");
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
            Ok(match ask("sleep 600 & exec sleep 600", KILL)? {
                ProbeAnswer::Late(_) => Ok(()),
                ProbeAnswer::Yes(_) => {
                    Err("a process that was to be killed ended by itself".to_owned())
                }
                ProbeAnswer::No(why) => Err(format!("a process could not be killed there: {why}")),
            })
        })();
        Ok(tried?.map(|()| seen))
    }
}
