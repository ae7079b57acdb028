//! Proofs of landed work, each in a thread: controls run in the slot in which its agent worked, while
//! other attempts go on in other slots.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

use super::{
    RunCore, RunnerMessage,
    context::{RunContext, task_of},
    side_command::{ProofTurn, SideCommands},
};
use crate::{
    adapters::git::{Repo, changed_lines},
    core::{
        commit_id::CommitId,
        duration,
        event::{CheckEvent, record::Record},
        graph::{TaskGraph, task::TaskId},
        proof::{
            ControlKind, ControlResult, ControlText, Proof, ProofOutcome, ProofSettings,
            halves::{Half, HalvesRule, is_own_code},
            plan::{ChangedFile, ProofPlan, ProofSubject},
            policy::ProofPolicy,
            tripwire::Tripwire,
        },
        run::{
            command::{AttemptId, CheckPurpose, PendingResult},
            input::Input,
        },
        test_output,
        verdict::{CheckResult, Outcome, Verdict},
    },
    project::{attempt::AttemptRecord, config::Config},
};

/// The shortest limit for a command of a control.
const SHORTEST: Duration = Duration::from_secs(60);
/// How many proofs may wait for another one.
const WAITING: usize = 8;

/// A proof that is made.
struct ActiveProof {
    task_id: TaskId,
    iteration: u32,
    slot: PathBuf,
    /// The result of an attempt that lands only with its proof.
    end: Option<Box<PendingResult>>,
}

/// The proofs of a run.
#[derive(Default)]
pub(super) struct RunProofs {
    active: Vec<ActiveProof>,
    pub(super) turn: Arc<ProofTurn>,
}

impl RunProofs {
    /// The slots in which proofs are made.
    pub(super) fn slots(&self) -> impl Iterator<Item = &PathBuf> {
        self.active.iter().map(|proof| &proof.slot)
    }

    /// Whether any is being made.
    pub(super) fn any(&self) -> bool {
        !self.active.is_empty()
    }

    /// The tasks whose proof is not there yet.
    pub(super) fn tasks(&self) -> Vec<TaskId> {
        self.active.iter().map(|proof| proof.task_id.clone()).collect()
    }

    /// Lets as many proofs run at once as work is verified at once, at the end of a run; before, half
    /// as many.
    pub(super) fn allow(&self, config: &Config, jobs: usize, is_end: bool) {
        let width = if config.verify_exclusive { 1 } else { config.queue_limits(jobs).width };
        self.turn.allow(if is_end { width } else { width / 2 });
    }

    /// Whether all proofs were ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.turn.is_stopped()
    }

    /// Ends all proofs.
    pub(super) fn stop(&self) {
        self.turn.stop();
    }

    /// Takes the end of a proof. Returns the iteration of its attempt, and its result if it waits for it.
    pub(super) fn ended(&mut self, id: &AttemptId) -> (u32, Option<Box<PendingResult>>) {
        let at = self.active.iter().position(|proof| proof.task_id == id.task_id);
        at.map(|at| self.active.remove(at)).map_or((0, None), |it| (it.iteration, it.end))
    }

    /// Journals that landed work whose proof is not made any more was not examined.
    pub(super) fn record_unmade(&self, core: &mut RunCore) -> Result<()> {
        let is_made =
            |id: &TaskId| !self.is_stopped() && self.active.iter().any(|it| it.task_id == *id);
        let due = core.journal.history().unexamined().filter(|(id, _)| !is_made(id));
        let due: Vec<_> = due.map(|(id, attempt)| (id.clone(), attempt)).collect();
        for (id, attempt) in due {
            let outcome = ProofOutcome::Skipped { why: "the run ended before".to_owned() };
            let proof = Proof::at_once(outcome);
            core.emit(Some((&id, 0)), CheckEvent::Proved { attempt, proof })?;
        }
        Ok(())
    }

    /// Begins the proof of an attempt that has landed and whose slot is released, if `newest`, the
    /// newest end, is its own. Journals it if it is there at once.
    pub(super) fn begin(
        &mut self,
        core: &mut RunCore,
        record: &AttemptRecord,
        newest: Option<&Record>,
        is_kept: bool,
    ) -> Result<()> {
        let newest = newest.filter(|it| it.task_id.as_ref() == Some(&record.task_id));
        let ended = newest.and_then(|it| it.event.ended());
        let Some(ended) = ended.filter(|ended| {
            let is_due = ended.verdict == Verdict::Complete && ended.evidence.to_prove;
            is_due && ended.attempt == record.attempt
        }) else {
            return Ok(());
        };
        let why = if is_kept {
            "processes may still work in its slot".to_owned()
        } else if self.active.len() >= WAITING {
            "other proofs are behind".to_owned()
        } else {
            match self.start(core, record, &ended.evidence.verify, None) {
                Ok(()) => return Ok(()),
                Err((why, _)) => why,
            }
        };
        let proof = Proof::at_once(ProofOutcome::Skipped { why });
        let event = CheckEvent::Proved { attempt: record.attempt, proof };
        core.emit(Some((&record.task_id, record.iteration)), event).map(drop)
    }

    /// Begins the proof of work that lands only with it, or not if it weakens the checks; its judgement
    /// follows.
    pub(super) fn start_first(
        &mut self,
        core: &mut RunCore,
        record: &AttemptRecord,
        end: PendingResult,
    ) -> Option<Input> {
        let verified = end.evidence.verify.clone();
        let (why, end) = self.start(core, record, &verified, Some(Box::new(end))).err()?;
        let mut end = end?;
        if core.proof_policy(record) == ProofPolicy::Require {
            end.evidence.missing.push(format!("its proof is missing: {why}"));
        }
        Some(Input::Judged(record.id(), end))
    }

    /// Makes the proofs of several works from the same base, none of which has landed, one after the other
    /// in a thread: each with its number, its record and the results of its verify commands. Sends them.
    pub(super) fn compare<'r>(
        &self,
        core: &RunCore,
        works: impl Iterator<Item = (u32, &'r AttemptRecord, &'r [CheckResult])>,
        send: impl FnOnce(Vec<(u32, Proof)>) + Send + 'static,
    ) {
        let (cx, graph) = (&core.cx, core.graph.file.graph());
        let orders: Vec<_> = works
            .map(|(number, record, verified)| {
                let order = ProofOrder::of(cx, graph, record, verified);
                let turn = Arc::clone(&self.turn);
                (number, order.map(|order| ProofOrder { turn, is_before: true, ..order }))
            })
            .collect();
        self.allow(&cx.workspace.config, cx.policy.jobs, false);
        thread::spawn(move || {
            let made = orders.into_iter().map(|(number, order)| {
                let skipped = |why| Proof::at_once(ProofOutcome::Skipped { why });
                (number, order.map_or_else(skipped, |order| order.carry_out()))
            });
            send(made.collect());
        });
    }

    /// Starts the proof of an attempt, whose result `end` waits for it.
    ///
    /// # Errors
    /// It cannot be made: the reason and the result.
    fn start(
        &mut self,
        core: &mut RunCore,
        record: &AttemptRecord,
        verified: &[CheckResult],
        end: Option<Box<PendingResult>>,
    ) -> Result<(), (String, Option<Box<PendingResult>>)> {
        let (cx, graph) = (&core.cx, core.graph.file.graph());
        let order = match ProofOrder::of(cx, graph, record, verified) {
            Ok(order) => order,
            Err(why) => return Err((why, end)),
        };
        let order = ProofOrder { turn: Arc::clone(&self.turn), is_before: end.is_some(), ..order };
        let (task_id, iteration) = (record.task_id.clone(), record.iteration);
        self.active.push(ActiveProof { task_id, iteration, slot: order.slot.clone(), end });
        let (outbox, id) = (cx.outbox.clone(), record.id());
        self.allow(&cx.workspace.config, cx.policy.jobs, false);
        // Until the run has looked.
        self.turn.wait(cx.workspace.config.verify_exclusive);
        thread::spawn(move || {
            let proof = Box::new(order.carry_out());
            drop(outbox.send(RunnerMessage::Proved(id, proof)));
        });
        core.proves = true;
        Ok(())
    }
}

/// A command of the controls.
struct ControlCommand {
    command: String,
    limit: Duration,
}

/// A proof to make.
struct ProofOrder {
    main: PathBuf,
    slot: PathBuf,
    base: CommitId,
    settings: ProofSettings,
    commands: Vec<ControlCommand>,
    verify: Vec<String>,
    idle: Vec<String>,
    runs: SideCommands,
    /// The folder of the attempt, which is gone by then, but a sandbox has it in it.
    task_dir: PathBuf,
    /// The folder of the attempt in the repository.
    log: String,
    budget: Duration,
    seed: u64,
    turn: Arc<ProofTurn>,
    /// Whether it is made before the work lands.
    is_before: bool,
}

impl ProofOrder {
    /// The order for the proof of an attempt; else why there is none.
    fn of(
        cx: &RunContext,
        graph: &TaskGraph,
        record: &AttemptRecord,
        verified: &[CheckResult],
    ) -> Result<ProofOrder, String> {
        let slot = record.slot.as_ref().map(|slot| slot.path.as_path());
        let slot = slot.ok_or("attempts work in the checkout")?;
        let base = record.base.as_ref().ok_or("it has no base")?;
        let config = &cx.workspace.config;
        // What Python compiles for a control must not be taken for the work.
        let env = [("PYTHONDONTWRITEBYTECODE", "1")];
        let place = (slot, CheckPurpose::Verify, "proof");
        let runs = SideCommands::of(cx, graph, record, place, &env)?;
        let task = task_of(graph, record).ok_or("its task is no longer in the graph")?;
        let settings = config.proof.of(&task);
        let limit = |check: Option<&CheckResult>| {
            let green = check.map_or(config.verify_timeout.as_secs_f64(), |it| it.duration_seconds);
            Duration::try_from_secs_f64(green * 3.0)
                .unwrap_or(SHORTEST)
                .max(SHORTEST)
                .min(config.verify_timeout)
        };
        let verify: Vec<_> = verified.iter().map(|check| check.command.clone()).collect();
        let commands = if settings.commands.is_empty() { &verify } else { &settings.commands };
        let commands = commands.iter().map(|command| {
            let limit = limit(verified.iter().find(|check| check.command == *command));
            ControlCommand { command: command.clone(), limit }
        });
        let idle = verified.iter().filter(|check| check.no_test).map(|it| it.command.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(ProofOrder {
            main: cx.workspace.root().to_owned(),
            slot: slot.to_owned(),
            base: base.clone(),
            commands: commands.collect(),
            idle: idle.collect(),
            verify,
            settings,
            runs,
            task_dir: cx.workspace.root().join(record.folder(&cx.workspace)),
            log: record.log.clone(),
            budget: config.proof_timeout,
            seed: now.as_nanos() as u64,
            turn: Arc::default(),
            is_before: false,
        })
    }

    /// Makes the proof when it is its turn.
    fn carry_out(&self) -> Proof {
        let turn = self.turn.take();
        let (began, mut controls) = (Instant::now(), Vec::new());
        let outcome = if self.turn.is_stopped() {
            Ok(self.stopped(began))
        } else {
            self.prove(began, &mut controls)
        };
        let outcome = outcome.unwrap_or_else(|error| not_made(&error));
        drop(turn);
        let duration_seconds = duration::seconds(began.elapsed());
        Proof { outcome, controls, duration_seconds }
    }

    fn stopped(&self, began: Instant) -> ProofOutcome {
        let limit = duration::short(self.budget);
        let why = if began.elapsed() < self.budget {
            "the run ended before".to_owned()
        } else {
            format!("`proof_timeout` ({limit}) reached")
        };
        ProofOutcome::Skipped { why }
    }

    fn prove(&self, began: Instant, done: &mut Vec<ControlResult>) -> Result<ProofOutcome> {
        let main = Repo::discover(&self.main)?;
        let tree = main.slots().open(&self.slot).context("the slot is gone")?;
        let head = tree.head()?.commit.context("the slot has no commit")?;
        let files = changed_files(&tree, &self.base, &head)?;
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let all = tree.files_at(&head)?;
        let rule = HalvesRule::new(&self.settings, (&self.verify, &paths), &all);
        let subject = ProofSubject {
            files: &files,
            rule: &rule,
            policy: self.settings.policy,
            tripwire: Tripwire::new(self.seed),
            idle: &self.idle,
            commands: self.verify.len(),
        };
        let all_code = || all_code(&tree, &head, all, &rule).map_err(|error| not_made(&error));
        let plan = match ProofPlan::of(subject, all_code) {
            Ok(plan) => plan,
            Err(outcome) => return Ok(outcome),
        };
        if !self.is_before {
            tree.slot().begin_controls()?;
            fs::create_dir_all(&self.task_dir).context("make the folder of the attempt")?;
        }
        let log = tree.slot().head_log();
        let outcome = loop {
            let Some(kind) = plan.next(done) else { break plan.outcome(done) };
            if self.is_over(began) {
                break self.stopped(began);
            }
            let files = plan.tree(kind).iter().map(|(path, file)| {
                let text = match file {
                    ControlText::Base => None,
                    ControlText::Text(text) => Some(text.as_str()),
                };
                (path.as_str(), text)
            });
            let commit = tree.commits().variant(&head, &self.base, files)?;
            self.wait_for_a_second(plan.tree(kind).keys());
            tree.slot().move_to(&commit)?;
            let result = self.control(kind, done.len(), &plan.marker(), began);
            tree.integration().clean_up()?;
            match result {
                Ok(result) => done.push(result),
                Err(outcome) => break outcome,
            }
        };
        self.runs.end();
        tree.slot().leave_controls(&head, &log)?;
        // The slot of an attempt that is not closed is put on its branch by the run itself.
        if !self.is_before {
            let _ = fs::remove_dir_all(&self.task_dir);
            tree.slot().end_controls(&head)?;
        }
        Ok(outcome)
    }

    fn is_over(&self, began: Instant) -> bool {
        self.turn.is_stopped() || began.elapsed() >= self.budget
    }

    /// Waits until the files that change get another time than they have, in whole seconds: caches
    /// compare that.
    fn wait_for_a_second<'p>(&self, paths: impl Iterator<Item = &'p String>) {
        let second = |time: SystemTime| time.duration_since(UNIX_EPOCH).map(|it| it.as_secs()).ok();
        let times = paths.filter_map(|path| {
            second(fs::symlink_metadata(self.slot.join(path)).ok()?.modified().ok()?)
        });
        let newest = times.max();
        while newest.is_some() && second(SystemTime::now()) == newest {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs the commands on the tree of a control that is checked out.
    ///
    /// # Errors
    /// They could not run, or were stopped: the outcome.
    fn control(
        &self,
        kind: ControlKind,
        number: usize,
        marker: &str,
        began: Instant,
    ) -> Result<ControlResult, ProofOutcome> {
        let started = Instant::now();
        let mut result = ControlResult {
            control: kind,
            red: None,
            marked: false,
            failed_tests: None,
            tests: None,
            misses_names: false,
            passed: Vec::new(),
            duration_seconds: 0.0,
        };
        for (at, ControlCommand { command, limit }) in self.commands.iter().enumerate() {
            let name = kind.log_name();
            let log = format!("{}/proof-{}-{name}-{}.log", self.log, number + 1, at + 1);
            let left = self.budget.saturating_sub(began.elapsed());
            let goes_on = || !self.turn.is_stopped();
            let place = (self.main.as_path(), log);
            let (check, output) = self.runs.check(command, place, (*limit).min(left), goes_on);
            let is_timed_out = matches!(check.outcome, Outcome::TimedOut { .. });
            let is_cut = is_timed_out && *limit > left;
            if let Outcome::NotStarted { error } = check.outcome {
                let why = format!("`{command}` did not start: {error}");
                return Err(ProofOutcome::Skipped { why });
            }
            if !is_cut && is_timed_out {
                let why = format!("`{command}` took longer than {}", duration::short(*limit));
                return Err(ProofOutcome::Skipped { why });
            }
            if is_cut || matches!(check.outcome, Outcome::Cancelled | Outcome::Interrupted) {
                return Err(self.stopped(began));
            }
            let is_marked = output.contains(marker);
            let tests = test_output::ran(&output);
            result.tests = result.tests.into_iter().chain(tests).reduce(u64::saturating_add);
            // Of two that fail, the one that ran into the statement counts.
            let counts = result.red.is_none() || (is_marked && !result.marked);
            if check.is_green() && kind.runs_all() {
                result.passed.push(command.clone());
            } else if !check.is_green() && counts {
                result.failed_tests = test_output::failed(&output);
                result.misses_names = test_output::misses_names(&output);
                result.red = Some(check);
            }
            result.marked |= is_marked;
            let is_enough = result.marked || kind != ControlKind::Tripwire;
            if result.red.is_some() && !kind.runs_all() && is_enough {
                break;
            }
        }
        result.duration_seconds = duration::seconds(started.elapsed());
        Ok(result)
    }
}

fn not_made(error: &anyhow::Error) -> ProofOutcome {
    ProofOutcome::Skipped { why: format!("{error:#}") }
}

/// The files that differ between two commits, with their texts.
fn changed_files(tree: &Repo, base: &CommitId, head: &CommitId) -> Result<Vec<ChangedFile>> {
    let mut files = Vec::new();
    for path in tree.differing(Some(base), head)? {
        let bytes = [tree.file_at(base, &path)?, tree.file_at(head, &path)?];
        let was_there = bytes[0].is_some();
        let [base, head] = bytes.map(|bytes| bytes.and_then(|it| String::from_utf8(it).ok()));
        let (old, new) = (base.as_deref().unwrap_or(""), head.as_deref().unwrap_or(""));
        let (lines, has_lost) = changed_lines(old, new)?;
        files.push(ChangedFile { path, base, head, was_there, lines, has_lost });
    }
    Ok(files)
}

/// The code of the project in a commit with these files, by path.
fn all_code(
    tree: &Repo,
    head: &CommitId,
    files: Vec<String>,
    rule: &HalvesRule,
) -> Result<Vec<(String, String)>> {
    let paths =
        files.into_iter().filter(|path| is_own_code(path) && rule.half(path) == Half::Source);
    let texts = paths.filter_map(|path| {
        let text = tree.file_at(head, &path).transpose()?;
        text.map(|text| Some((path, String::from_utf8(text).ok()?))).transpose()
    });
    texts.collect()
}
