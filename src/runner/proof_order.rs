//! The making of one proof, in a thread: its controls run one after the other in a slot.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

use super::{
    context::{RunContext, task_of},
    kept_proof::ProofSlot,
    side_command::{ProofTurn, SideCommands},
};
use crate::{
    adapters::git::{Repo, changed_lines},
    core::{
        commit_id::CommitId,
        duration,
        graph::TaskGraph,
        proof::{
            ControlKind, ControlResult, ControlText, Proof, ProofReason, ProofSettings,
            halves::{Half, HalvesRule, is_own_code},
            plan::{ChangedFile, Control, ProofPlan, ProofSubject},
            tripwire::Tripwire,
        },
        test_output::TestRun,
        verdict::{CheckResult, Evidence, Merge, Outcome},
    },
    fixed_limit,
    project::{attempt::AttemptRecord, slot_pool::builds},
    regular_file,
};

/// The shortest limit for a command of a control.
const SHORTEST: Duration = Duration::from_secs(10);

/// How many times as long a command may take that has reached its limit once.
const MORE: u32 = 4;

/// A command of the controls.
struct ControlCommand {
    command: String,
    limit: Duration,
}

/// A proof to make.
pub(super) struct ProofOrder {
    main: PathBuf,
    pub(super) slot: PathBuf,
    base: CommitId,
    settings: ProofSettings,
    commands: Vec<ControlCommand>,
    verify: Vec<String>,
    setup: Vec<ControlCommand>,
    takes_back: Vec<String>,
    /// The branch on which the commits of its slot have landed.
    branch: Option<String>,
    runs: SideCommands,
    /// The folder of the attempt, which is gone by then, but a sandbox has it in it.
    task_dir: PathBuf,
    /// The folder of the attempt in the repository.
    log: String,
    seed: u64,
    turn: Arc<ProofTurn>,
    /// Whether it is made before the work lands.
    is_before: bool,
    /// How its slot is made, if that is not there.
    fresh: Option<ProofSlot>,
}

impl ProofOrder {
    /// The order for the proof of an attempt; else why there is none.
    pub(super) fn of(
        cx: &RunContext,
        graph: &TaskGraph,
        record: &AttemptRecord,
        evidence: &Evidence,
    ) -> Result<ProofOrder, String> {
        let slot = record.slot.as_ref().map(|slot| slot.path.as_path());
        let slot = slot.ok_or("attempts work in the checkout")?;
        let base = record.base.as_ref().ok_or("it has no base")?;
        let config = &cx.workspace.config;
        // What Python compiles for a control must not be taken for the work.
        let env = [("PYTHONDONTWRITEBYTECODE", "1")];
        let runs = SideCommands::of(cx, graph, record, (slot, "proof"), &env)?;
        let task = task_of(graph, record).ok_or("its task is no longer in the graph")?;
        let settings = task.proof_settings(&config.proof);
        let limit = |check: Option<&CheckResult>| {
            let green = check.map_or(config.verify_timeout.as_secs_f64(), |it| it.duration_seconds);
            Duration::try_from_secs_f64(green * 3.0)
                .unwrap_or(SHORTEST)
                .max(SHORTEST)
                .min(config.verify_timeout)
        };
        let verified = &evidence.verify;
        let verify: Vec<_> = verified.iter().map(|check| check.command.clone()).collect();
        let commands = verify.iter().map(|command| {
            let limit = limit(verified.iter().find(|check| check.command == *command));
            ControlCommand { command: command.clone(), limit }
        });
        let setup = config.setup.0.iter().cloned();
        let setup = setup.map(|command| ControlCommand { command, limit: config.setup_timeout });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(ProofOrder {
            setup: setup.collect(),
            branch: match &evidence.merge {
                Some(Merge::Landed { branch, .. }) => Some(branch.clone()),
                _ => None,
            },
            main: cx.workspace.root().to_owned(),
            slot: slot.to_owned(),
            base: base.clone(),
            commands: commands.collect(),
            takes_back: evidence.takes_back.iter().map(ToString::to_string).collect(),
            verify,
            settings,
            runs,
            task_dir: cx.workspace.root().join(record.folder(&cx.workspace)),
            log: record.log.clone(),
            seed: now.as_nanos() as u64,
            turn: Arc::default(),
            is_before: false,
            fresh: None,
        })
    }

    /// The order as one of those of `turn`, made before the work lands or after, in a slot that is made
    /// first if it is `fresh`.
    pub(super) fn in_turn(
        self,
        turn: &Arc<ProofTurn>,
        is_before: bool,
        fresh: Option<ProofSlot>,
    ) -> ProofOrder {
        ProofOrder { turn: Arc::clone(turn), is_before, fresh, ..self }
    }

    /// Makes the proof when it is its turn.
    pub(super) fn carry_out(&self) -> Proof {
        let turn = self.turn.take();
        let (began, mut controls) = (Instant::now(), Vec::new());
        let reason = if self.turn.is_stopped() {
            Ok(stopped(began))
        } else {
            self.prove(began, &mut controls)
        };
        // Also what fails because it was stopped: the setup of a slot.
        let reason = reason.unwrap_or_else(|error| {
            if self.turn.is_stopped() { stopped(began) } else { not_made(&error) }
        });
        drop(turn);
        Proof::new(reason, controls, duration::seconds(began.elapsed()))
    }

    fn prove(&self, began: Instant, done: &mut Vec<ControlResult>) -> Result<ProofReason> {
        let main = Repo::discover(&self.main)?;
        if let Some(fresh) = &self.fresh {
            fresh.make(&self.main, &self.turn)?;
        }
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
            commands: &self.verify,
            takes_back: &self.takes_back,
            branch: self.branch.as_deref(),
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
        let setup: Vec<String> = self.setup.iter().map(|it| it.command.clone()).collect();
        let is_built = builds(&tree, &setup)?;
        let setup = if is_built { &self.setup[..] } else { &[] };
        // Those in which a test ran with the work.
        let mut commands: Vec<&ControlCommand> = self.commands.iter().collect();
        let mut last = None;
        let outcome = loop {
            let Some(control) = plan.next(done, last) else { break plan.reason(done) };
            if self.is_over(began) {
                break stopped(began);
            }
            let files = control.tree.iter().map(|(path, file)| {
                let text = match file {
                    ControlText::Base => None,
                    ControlText::Text(text) => Some(text.as_str()),
                };
                (path.as_str(), text)
            });
            let commit = tree.commits().variant(&head, &self.base, files)?;
            let times = self.times(control.tree.keys());
            tree.slot().move_to(&commit)?;
            set_apart(times);
            let result = match self.build(setup, done.len(), began) {
                Ok(None) => self.control((&plan, &control), done, &mut commands, began),
                Ok(Some(red)) => Ok(ControlResult {
                    functions: control.functions.clone(),
                    red: Some(red),
                    ..ControlResult::of(control.kind)
                }),
                Err(reason) => Err(reason),
            };
            tree.integration().clean_up()?;
            match result {
                Ok(result) => done.push(result),
                Err(reason) => break reason,
            }
            last = Some(control);
        };
        self.runs.end();
        tree.slot().leave_controls(&head, &log)?;
        if is_built {
            tree.slot().note_setup(None)?;
        }
        // The slot of an attempt that is not closed is put on its branch by the run itself.
        if !self.is_before {
            let _ = fs::remove_dir_all(&self.task_dir);
            tree.slot().end_controls(&head)?;
        }
        Ok(outcome)
    }

    fn is_over(&self, began: Instant) -> bool {
        self.turn.is_stopped() || began.elapsed() >= fixed_limit::proof()
    }

    /// The files of these paths with their times.
    fn times<'p>(&self, paths: impl Iterator<Item = &'p String>) -> Vec<(PathBuf, SystemTime)> {
        let files = paths.map(|path| self.slot.join(path));
        files
            .filter_map(|file| {
                Some((file.clone(), fs::symlink_metadata(file).ok()?.modified().ok()?))
            })
            .collect()
    }

    /// Builds a control that is checked out, where `setup` builds. Returns the command that failed.
    ///
    /// # Errors
    /// It was stopped: the reason.
    fn build(
        &self,
        setup: &[ControlCommand],
        number: usize,
        began: Instant,
    ) -> Result<Option<CheckResult>, ProofReason> {
        for (at, ControlCommand { command, limit }) in setup.iter().enumerate() {
            let log = format!("{}/proof-{}-setup-{}.log", self.log, number + 1, at + 1);
            let goes_on = || !self.is_over(began);
            let (check, _) = self.runs.check(command, (self.main.as_path(), log), *limit, goes_on);
            if self.is_over(began) {
                return Err(stopped(began));
            }
            if !check.is_green() {
                return Ok(Some(check));
            }
        }
        Ok(None)
    }

    /// Runs the commands on the tree of a control that is checked out, up to one with a failed test. The
    /// first control leaves out those in which no test ran.
    ///
    /// # Errors
    /// They could not run, or were stopped: the reason.
    fn control(
        &self,
        (plan, control): (&ProofPlan, &Control),
        done: &[ControlResult],
        commands: &mut Vec<&ControlCommand>,
        began: Instant,
    ) -> Result<ControlResult, ProofReason> {
        let (started, name) = (Instant::now(), control.kind.log_name());
        let mut result = ControlResult {
            functions: control.functions.clone(),
            ran: Some(0),
            ..ControlResult::of(control.kind)
        };
        let (is_first, mut tested) = (control.kind == ControlKind::Inert, Vec::new());
        for (at, given) in commands.iter().enumerate() {
            let ControlCommand { command, limit } = given;
            let log = format!("{}/proof-{}-{name}-{}.log", self.log, done.len() + 1, at + 1);
            let left = fixed_limit::proof().saturating_sub(began.elapsed());
            let goes_on = || !self.turn.is_stopped();
            let place = (self.main.as_path(), log);
            let ask = |limit: Duration| self.runs.check(command, place.clone(), limit, goes_on);
            let timed_out = |it: &CheckResult| matches!(it.outcome, Outcome::TimedOut { .. });
            let (mut check, mut output) = ask((*limit).min(left));
            if timed_out(&check) && *limit < left {
                // A busy machine is slow; what has no end has none with more time.
                (check, output) = ask((*limit * MORE).min(left));
            }
            let is_late = timed_out(&check);
            if let Outcome::NotStarted { error } = check.outcome {
                let why = format!("`{command}` did not start: {error}");
                return Err(ProofReason::NotMade { why });
            }
            let is_ended = matches!(check.outcome, Outcome::Cancelled | Outcome::Interrupted);
            if is_ended || (is_late && *limit > left) {
                return Err(stopped(began));
            }
            let run = TestRun::read(&output);
            let has_tests = run.as_ref().is_some_and(|run| !run.is_empty());
            result.has_tests |= has_tests;
            result.ran =
                result.ran.zip(run.as_ref().and_then(|it| it.ran)).map(|(all, ran)| all + ran);
            result.reached.extend(plan.reached(control, &output));
            if has_tests {
                tested.push(*given);
            }
            if check.is_green() {
                continue;
            }
            let run = run.unwrap_or_default();
            result.is_cut |= run.is_cut || run.is_unloaded;
            result.failed.extend(run.failed);
            if is_late {
                result.failed.push(format!("{command} (no end)"));
            }
            if result.red.is_none() || !result.failed.is_empty() {
                result.red = Some(check);
            }
            let is_enough =
                !is_first && !matches!(control.kind, ControlKind::Tripwire | ControlKind::Landed);
            if is_enough && plan.is_noticed(done, &result) {
                break;
            }
        }
        if is_first && !tested.is_empty() {
            *commands = tested;
        }
        result.duration_seconds = duration::seconds(started.elapsed());
        Ok(result)
    }
}

/// Gives files that have changed since then another time, in whole seconds: caches compare that.
fn set_apart(times: Vec<(PathBuf, SystemTime)>) {
    for (file, before) in times {
        let now = fs::symlink_metadata(&file).and_then(|it| it.modified());
        if now
            .is_ok_and(|now| now.duration_since(before).is_ok_and(|it| it < Duration::from_secs(1)))
            && let Ok(file) = regular_file::open_with(&file, fs::OpenOptions::new().append(true))
        {
            let _ = file.set_modified(before + Duration::from_secs(1));
        }
    }
}

fn not_made(error: &anyhow::Error) -> ProofReason {
    ProofReason::NotMade { why: format!("{error:#}") }
}

/// The files that differ between two commits, with their texts.
fn changed_files(tree: &Repo, base: &CommitId, head: &CommitId) -> Result<Vec<ChangedFile>> {
    let mut files = Vec::new();
    for path in tree.differing(Some(base), head)? {
        let bytes = [tree.file_at(base, &path)?, tree.file_at(head, &path)?];
        let was_there = bytes[0].is_some();
        let [base, head] = bytes.map(|bytes| bytes.and_then(|it| String::from_utf8(it).ok()));
        let (old, new) = (base.as_deref().unwrap_or(""), head.as_deref().unwrap_or(""));
        let lines = changed_lines(old, new)?;
        files.push(ChangedFile { path, base, head, was_there, lines });
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

/// The reason of a proof that was stopped: its time was over, or its run ended.
fn stopped(began: Instant) -> ProofReason {
    if began.elapsed() < fixed_limit::proof() {
        return ProofReason::cut_off();
    }
    let why =
        format!("the limit of a proof ({}) was reached", duration::short(fixed_limit::proof()));
    ProofReason::NotMade { why }
}
