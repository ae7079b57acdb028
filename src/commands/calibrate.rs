//! `ralph review --calibrate`: plants known defects in copies of landed work, gives these to the reviewer
//! of the settings, and counts how many it finds.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use anyhow::{Context, Result};
use chrono::Utc;
use serde_json::json;

use super::{
    Invocation, end_with_git,
    review::{Landing, landings},
    slots::{SlotUse, TemporarySlot},
    success,
    task_editor::TaskEditor,
};
use crate::{
    adapters::{git, signal, terminal},
    cli::ReviewArgs,
    core::{
        agents::provider_error::Advice,
        commit_id::CommitId,
        duration,
        event::{CalibrationCall, CheckEvent},
        exit::{Exit, fail},
        graph::TaskGraph,
        loop_paths::LoopPaths,
        planted_defect::{self, DefectKind, DefectPlace, PlantedDefect},
        reviewer::{FindingSeverity, ReviewFinding},
        spend::Spend,
        verdict::Evidence,
    },
    project::{
        config::ReviewConfig,
        event_store::{EventStore, new_run_id},
        slot_pool::SlotPool,
        workspace::{Workspace, landing_branch},
    },
    runner::{BenchAnswer, BenchWork, ReviewBench},
    view::{
        calibration::{CalibrationReview, CalibrationView},
        lines::counted,
    },
};

/// The branch that is checked out in the slot.
const BRANCH: &str = "ralph/calibration";

/// Plants defects in landed work, and counts how many the reviewer finds.
///
/// # Errors
/// No reviewer is set, or it cannot be started; no landed work in which a defect can be planted; another
/// calibration; inside an attempt; errors of git and of the disk.
pub fn run(invocation: &Invocation, options: &ReviewArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_review(invocation, "review")?;
    let stop = Arc::new(AtomicI32::new(0));
    listen(&stop)?;
    let landed = chosen(&mut editor, options)?;
    let TaskEditor { mut workspace, file, store } = editor;
    let Some(rule) = workspace.config.review.as_ref().map(ReviewConfig::rule) else {
        let why = "no reviewer is set; set `review` in `.ralph/config.yaml`, such as `review: {}`";
        return fail(Exit::Usage, why);
    };
    let branch = landing_branch(&workspace)?.unwrap_or_default();
    if let Some(sum) = options.max_cost {
        let onto = workspace.config.onto.clone();
        workspace.set_flags([("max_cost".to_owned(), json!(sum))].into_iter().collect())?;
        workspace.config.onto = onto;
    }
    let (trials, notes) = CalibrationTrial::all(&workspace, &landed, options)?;
    let lock = workspace.state.try_lock_calibration().context("lock the calibration")?;
    let Some(lock) = lock else {
        return fail(Exit::Running, "another `ralph review --calibrate` runs in this repository");
    };
    workspace.ignore_own_files()?;
    let run_id = new_run_id(Utc::now());
    let log = format!("logs/calibration/{run_id}");
    let bench = ReviewBench::open(workspace, &lock, run_id)?;
    let from = rule.severity;
    let mut calibration = Calibration {
        bench: &bench,
        graph: file.graph(),
        store,
        stop: &stop,
        branch,
        log,
        from,
        spend: Spend::default(),
        reviews: Vec::new(),
        notes,
    };
    let exit = calibration.all(&landed, &trials)?;
    let Calibration { spend, reviews, notes, .. } = calibration;
    let view = CalibrationView::of(bench.reviewer(), reviews, &spend, notes);
    if options.json {
        success(&terminal::json(&view))?;
    } else {
        let lines = view.lines();
        let lines = lines.iter().map(|line| format!("{}\n", terminal::visible(line)));
        success(&lines.collect::<String>())?;
    }
    Ok(exit)
}

/// Notes the first signal, which ends the review that is made; the second one ends the program.
fn listen(stop: &Arc<AtomicI32>) -> Result<()> {
    let stop = Arc::clone(stop);
    signal::listen(move |number| {
        if number == signal::SUSPEND {
            return signal::suspend();
        }
        if stop.swap(number, Ordering::SeqCst) != 0 {
            end_with_git(number);
        }
        git::stop_calls();
    })
    .context("listen for signals")
}

/// The landed work that is reviewed again: the newest, at most as many as defects are planted.
fn chosen(editor: &mut TaskEditor, options: &ReviewArgs) -> Result<Vec<Landing>> {
    let ids = editor.find_all(&options.ids)?;
    let mut landed = landings(editor, |entry| ids.is_empty() || ids.contains(&entry.task_id))?;
    landed.sort_by_key(|landing| std::cmp::Reverse(landing.item.at));
    landed.truncate(options.defects as usize);
    if landed.is_empty() {
        let what = if ids.is_empty() { "no work of a task has" } else { "none of their work has" };
        return fail(Exit::Error, format!("{what} landed on this branch; nothing to review again"));
    }
    Ok(landed)
}

/// A review to make: of landed work as it is, or with a defect.
struct CalibrationTrial {
    /// The number of the landed work.
    landing: usize,
    /// The defect, and the text of its file.
    planted: Option<(PlantedDefect, String)>,
}

impl CalibrationTrial {
    /// The reviews to make, and what cannot be planted. Defects and controls take turns.
    fn all(
        workspace: &Workspace,
        landed: &[Landing],
        options: &ReviewArgs,
    ) -> Result<(Vec<CalibrationTrial>, Vec<String>)> {
        let mut texts = BTreeMap::new();
        let mut all: Vec<(usize, String, DefectPlace)> = Vec::new();
        for (number, Landing { item, .. }) in landed.iter().enumerate() {
            for path in workspace.repo.differing(Some(&item.before), &item.last)? {
                let text = |commit: &CommitId| -> Result<Option<String>> {
                    let bytes = workspace.repo.file_at(commit, &path)?;
                    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
                };
                let Some(new) = text(&item.last)? else { continue };
                let added = git::added_lines(&text(&item.before)?.unwrap_or_default(), &new)?;
                let found = planted_defect::places(&path, &new, &added);
                all.extend(found.into_iter().map(|place| (number, path.clone(), place)));
                texts.insert((number, path), new);
            }
        }
        let keys: Vec<_> = all.iter().map(|(number, _, place)| (place.kind, *number)).collect();
        let wanted = options.defects as usize;
        let drawn = planted_defect::draw(&keys, wanted, options.seed);
        if drawn.is_empty() {
            let why = "no defect can be planted: the landed work adds no suitable line of Rust, \
                       Python, JavaScript, TypeScript or Go";
            return fail(Exit::Error, why);
        }
        let missing = DefectKind::ALL.into_iter().filter(|it| !keys.iter().any(|key| key.0 == *it));
        let mut notes: Vec<String> =
            missing.map(|it| format!("no landed line takes a {it}")).collect();
        if drawn.len() < wanted {
            let count = counted(drawn.len(), "defect");
            notes.push(format!("only {count} could be planted instead of {wanted}"));
        }
        let mut trials = Vec::new();
        for number in 0..drawn.len().max(landed.len()) {
            trials.extend(drawn.get(number).map(|at| {
                let (landing, path, place) = &all[*at];
                let text = &texts[&(*landing, path.clone())];
                let seed = options.seed.wrapping_add(number as u64);
                let planted = Some(planted_defect::plant(path, text, place, seed));
                CalibrationTrial { landing: *landing, planted }
            }));
            let is_control = number < landed.len();
            trials
                .extend(is_control.then_some(CalibrationTrial { landing: number, planted: None }));
        }
        Ok((trials, notes))
    }
}

/// A calibration that is made.
struct Calibration<'a> {
    bench: &'a ReviewBench,
    graph: &'a TaskGraph,
    store: EventStore,
    /// The signal that ends it; 0 before.
    stop: &'a AtomicI32,
    /// The branch that the work landed on.
    branch: String,
    /// The folder for prompts and outputs, relative to the repository.
    log: String,
    /// The gravity from which a finding counts.
    from: FindingSeverity,
    spend: Spend,
    reviews: Vec<CalibrationReview>,
    notes: Vec<String>,
}

impl Calibration<'_> {
    /// Makes the reviews, up to a signal, a limit or an error of the provider.
    fn all(&mut self, landed: &[Landing], trials: &[CalibrationTrial]) -> Result<Exit> {
        let (began, budget) = (Utc::now(), self.bench.workspace().policy().budget);
        for (number, trial) in trials.iter().enumerate() {
            let (now, recent) = (Utc::now(), self.store.history().recent_costs());
            if let Some(reached) = budget.reached(&self.spend, Some(began), recent, now) {
                return Ok(self.ends_early(
                    &format!("limit reached: {reached}"),
                    Exit::Limit,
                    trials,
                ));
            }
            let left = budget.left(&self.spend, self.store.history().recent_costs(), now);
            terminal::say(&format!("review {} of {}", number + 1, trials.len()));
            let made = self.one(&landed[trial.landing], trial, number + 1, left);
            let signal = self.stop.load(Ordering::SeqCst);
            if signal != 0 {
                let why = format!("stopped by {}", signal::name(signal));
                return Ok(self.ends_early(&why, Exit::Signal(signal), trials));
            }
            let Some((why, exit)) = made? else { continue };
            return Ok(self.ends_early(&why, exit, trials));
        }
        Ok(Exit::Success)
    }

    fn ends_early(&mut self, why: &str, exit: Exit, trials: &[CalibrationTrial]) -> Exit {
        let (made, all) = (self.reviews.len(), trials.len());
        self.notes.push(format!("{why}; {made} of {all} reviews were made"));
        exit
    }

    /// Makes a review. Returns why no other one can be made, if so.
    fn one(
        &mut self,
        landing: &Landing,
        trial: &CalibrationTrial,
        number: usize,
        left: Option<f64>,
    ) -> Result<Option<(String, Exit)>> {
        let (item, workspace) = (&landing.item, self.bench.workspace());
        let slot = TemporarySlot::prepare(
            workspace,
            SlotUse {
                root: SlotPool::of(workspace).calibration(),
                commit: Some(item.last.clone()),
                branch: BRANCH,
                base_ref: LoopPaths::calibration_ref().to_owned(),
                mark: BRANCH,
            },
        )?;
        let tree = workspace.repo.slots().open(&slot.root).context("the slot is gone")?;
        let defect = trial.planted.as_ref();
        let file = defect.map(|(defect, text)| (defect.file.as_str(), text.as_str()));
        let commit = tree.commits().as_one_with(&item.before, &item.last, file)?;
        tree.integration().check_out(&commit)?;
        let commits = workspace.repo.between(&item.before, &item.last)?;
        let log = format!("{}/{number}", self.log);
        let work = BenchWork {
            task_id: &item.task_id,
            attempt: item.attempt,
            run_on: landing.run_on.as_deref(),
            evidence: Evidence { commits, verify: landing.verify.clone(), ..Evidence::default() },
            branch: self.branch.clone(),
            base: item.before.clone(),
            last: item.last.clone(),
            slot: slot.root.clone(),
            log: log.clone(),
        };
        let goes_on = || self.stop.load(Ordering::SeqCst) == 0;
        let facts = (self.graph, self.store.history());
        let BenchAnswer { review, outcome, usage, error, took } =
            self.bench.review(facts, work, left, goes_on)?;
        drop(slot);
        let defect = defect.map(|(defect, _)| defect.clone());
        let found = match &defect {
            Some(defect) => defect.is_found(&review, self.from),
            None => review.findings.iter().any(|finding| finding.severity >= self.from),
        };
        let call = CalibrationCall {
            by: review.by.clone(),
            planted: defect.as_ref().map(|defect| defect.kind),
            found,
            outcome,
            duration_seconds: duration::seconds(took),
            usage,
            log: log.clone(),
        };
        self.spend = self.spend.plus(&call.spend());
        self.store.emit(None, None, CheckEvent::Calibrated(call))?;
        let ends = error.and_then(|error| match error.advice(0, Utc::now()) {
            Advice::Wait { .. } => Some((error.to_string(), Exit::Limit)),
            Advice::Stop(exit) => Some((error.to_string(), exit)),
            Advice::Count => None,
        });
        if ends.is_none() && self.stop.load(Ordering::SeqCst) == 0 {
            let findings = review.findings.iter().map(ReviewFinding::line).collect();
            let (task_id, failed) = (item.task_id.clone(), review.failed);
            self.reviews.push(CalibrationReview { task_id, defect, found, failed, findings, log });
        }
        Ok(ends)
    }
}
