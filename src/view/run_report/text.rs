//! The walk over a report, which is the same for a terminal and for Markdown.

use chrono::{DateTime, Utc};

use super::{Attention, AttentionKind, FailedTask, LandedTask, RunReport};
use crate::{
    adapters::terminal::Style,
    core::{failure_line, graph::task::TaskId, spend::dollars},
    view::{
        attempt::AttemptView,
        lines::{Line, line},
        page::{Fold, Markup, TextPage, fitting},
        run::RunView,
        state::StateKind,
        waits::waiting_text,
        words::{clock, counted, full, ids, length, short},
    },
};

impl RunReport {
    /// Returns how it ended with its totals: two lines.
    pub fn head(&self) -> [Line; 2] {
        let style = self.style();
        let text = match (&self.run.why, self.run.exit_code) {
            (Some(why), Some(0)) => format!("{why}{} (exit code 0)", self.run.merge_queue.end()),
            (Some(why), Some(code)) => format!("{why} (exit code {code})"),
            _ => self.run.sentence(),
        };
        let totals = line(if self.did_nothing() { Some(Style::Warn) } else { None }, self.totals());
        [line(style, text), totals]
    }

    /// Returns the rest of the report of a run that ended, at most as wide as this.
    pub fn body(&self, width: Option<usize>, fold: Fold) -> Vec<Line> {
        let mut page = TextPage::new(Markup::Terminal(width));
        self.parts(&mut page, fold);
        page.lines
    }

    /// Returns the body with as much as fits below `above` lines on a screen of `rows`.
    pub fn body_on_screen(&self, width: Option<usize>, rows: usize, above: usize) -> Vec<Line> {
        fitting(rows.saturating_sub(above), |fold| self.body(width, fold))
    }

    /// Returns the whole report of a run that ended, as lines of any width.
    pub fn lines(&self) -> Vec<Line> {
        self.head().into_iter().chain(self.body(None, Fold::LONG)).collect()
    }

    /// Returns this heading with how much is complete, and who is needed.
    pub fn people_lines(&self, heading: &str) -> Vec<Line> {
        let mut page = TextPage::new(Markup::Terminal(None));
        let progress =
            self.left.as_ref().map_or(String::new(), |left| format!("; {}", left.progress()));
        page.text(Style::Warn, &format!("{heading}{progress}"));
        self.people(&mut page, Fold::LONG);
        page.lines
    }

    /// Returns the page of `ralph status`, on a screen with this many rows.
    pub fn status(&self, width: Option<usize>, rows: usize, now: DateTime<Utc>) -> Vec<Line> {
        fitting(rows, |fold| self.page(width, fold, now))
    }

    /// Returns the page with all that is known.
    pub fn page(&self, width: Option<usize>, fold: Fold, now: DateTime<Utc>) -> Vec<Line> {
        self.written(Markup::Terminal(width), fold, now)
    }

    /// Returns the report as Markdown, for a pull request or a chat.
    pub fn markdown(&self, now: DateTime<Utc>) -> String {
        let id = self.run.run_id.as_deref().unwrap_or("none");
        let lines = self.written(Markup::Markdown, Fold::ALL, now).into_iter();
        format!("## Run {id}\n") + &lines.map(|line| line.text + "\n").collect::<String>()
    }

    fn written(&self, markup: Markup, fold: Fold, now: DateTime<Utc>) -> Vec<Line> {
        let mut page = TextPage::new(markup);
        let exit = self.run.exit_code.filter(|_| self.run.why.is_some());
        let exit = exit.map_or(String::new(), |code| format!(" (exit code {code})"));
        let rows = fold.rows.max(2);
        let since = self.open_since().map_or(String::new(), |open| format!("; {open} open now"));
        let text = format!("Status: {}{since}", self.run.sentence());
        page.short(self.style(), &text, &exit, rows);
        if let Some(waiting) = &self.run.waiting {
            page.text(Style::Warn, &format!("Waiting: {}", waiting_text(waiting, now)));
        }
        for executor in &self.run.unreachable {
            let text = executor.text(self.run.goes_on(), now);
            page.text(Style::Warn, &format!("Executor {text}"));
        }
        if let Some(text) = self.run.since_text(now) {
            page.text(None, &text);
        }
        self.schedule(&mut page, now);
        if self.run.run_id.is_some() {
            let style = self.did_nothing().then_some(Style::Warn);
            page.text(style, &self.totals());
            self.work(&mut page);
        }
        self.parts(&mut page, fold);
        self.tail(&mut page, fold);
        page.lines
    }

    /// The attempts that have not ended, and the merge queue.
    fn work(&self, page: &mut TextPage) {
        let goes_on = self.run.goes_on();
        for attempt in &self.run.attempts {
            // Work that waits to land after the end of its run is in the merge queue.
            if goes_on || !attempt.position.state.is_queued() {
                page.text(None, &current(&self.run, attempt));
            }
        }
        let queue = &self.run.merge_queue;
        let text = if goes_on { queue.text() } else { Some(ids(&queue.waiting)) };
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            page.text(None, &format!("Merge queue: {text}"));
        }
    }

    fn style(&self) -> Option<Style> {
        match self.run.exit_code {
            _ if self.is_good() => Some(Style::Good),
            Some(0) | None if self.run.goes_on() || self.run.exit_code == Some(0) => None,
            _ => Some(Style::Warn),
        }
    }

    /// Whether it ended without a completed task.
    fn did_nothing(&self) -> bool {
        !self.run.goes_on() && self.run.completed == 0 && self.run.plain.is_none()
    }

    /// How many of the landed tasks are not proved.
    fn unproved(&self) -> usize {
        let proofs = self.landed.iter().filter_map(|task| task.proof.as_ref());
        proofs.filter(|proof| !proof.is_good).count()
    }

    fn totals(&self) -> String {
        let run = &self.run;
        let time = self.duration_seconds.map_or(String::new(), |wall| {
            let sum = run.spend.duration_seconds;
            let agents =
                if sum > wall { format!(" (attempts {})", length(sum)) } else { String::new() };
            format!(", {}{agents}", length(wall))
        });
        let known = run.spend.attempts > 0 && run.spend.cost_usd.is_some();
        let cost = if known { format!("; {}", run.spend.cost) } else { String::new() };
        let attempts = run.attempts_made();
        if run.plain.is_some() {
            return format!(
                "{}, {} failed{time}{cost}",
                counted(attempts, "iteration"),
                run.failures
            );
        }
        let done = match run.completed {
            0 => "nothing done".to_owned(),
            // Tasks not proved are counted with the progress.
            count if self.unproved() > 0 => format!("{count} landed"),
            count => format!("{count} completed"),
        };
        let progress = match (&self.left, self.remaining) {
            (Some(counts), _) => format!("; {}", counts.progress()),
            (None, Some(left)) => format!("; {left} left"),
            (None, None) => String::new(),
        };
        format!("{done} in {}{time}{cost}{progress}", counted(attempts, "attempt"))
    }

    fn parts(&self, page: &mut TextPage, fold: Fold) {
        let plain = self.run.plain.as_ref();
        if let Some((plain, kept)) = plain.and_then(|it| Some((it, it.not_landed.as_ref()?))) {
            let (name, attempt) = (&plain.name, kept.rsplit('/').next().unwrap_or(kept));
            let text = format!(
                "its work has not landed: start it again to continue; `ralph restore --name {name} \
                 {attempt}` makes a branch of it"
            );
            page.aside(Style::Warn, &text);
        }
        let is_told = self.run.completed > 0 && plain.is_none();
        if let Some(waste) = self.waste.text.as_ref().filter(|_| is_told) {
            page.text(None, waste);
        }
        self.people(page, fold);
        if !self.landed.is_empty() {
            let diff = if page.is_narrow() { "" } else { ", `ralph diff ID`" };
            match self.landed.iter().filter(|task| task.is_to_review()).count() {
                0 => page.heading("landed:"),
                n => page.heading_with("landed", &format!("{n} to review: `ralph review`{diff}")),
            }
            let hidden = self.landed.len().saturating_sub(fold.landed);
            self.landed.iter().take(fold.landed).for_each(|task| task.show(page, fold));
            page.more(hidden, &self.command());
        }
        let failed = self.only_failed();
        if !failed.is_empty() {
            page.heading("failed:");
            failed.iter().take(fold.failed).for_each(|task| task.show(page, fold.rows));
            page.more(failed.len().saturating_sub(fold.failed), &self.command());
        }
        self.future(page);
        for next in &self.next {
            page.text(None, &format!("next: {next}"));
        }
        for unknown in &self.unknown {
            page.text(Style::Faint, &format!("not known: {unknown}"));
        }
    }

    /// The command that prints this report in full.
    fn command(&self) -> String {
        let name = self.run.plain.as_ref().map(|plain| format!(" --name {}", plain.name));
        let number = (self.number > 1).then(|| format!(" --run {}", self.number));
        format!("ralph report{}{}", name.unwrap_or_default(), number.unwrap_or_default())
    }

    fn people(&self, page: &mut TextPage, fold: Fold) {
        if self.attention.is_empty() {
            return;
        }
        page.heading("needs you:");
        let is_unproved = |it: &&Attention| it.kind == AttentionKind::Unproved;
        let (unproved, others): (Vec<&Attention>, Vec<&Attention>) =
            self.attention.iter().partition(is_unproved);
        // A question takes a person seconds: none is left out.
        let asks = others.iter().filter(|it| it.kind == AttentionKind::Question).count();
        let shown = fold.attention.max(asks);
        others.iter().take(shown).for_each(|it| it.show(page, fold));
        page.more(others.len().saturating_sub(shown), &self.command());
        match &unproved[..] {
            [] => {}
            [one] => one.show(page, fold),
            // The tasks say it below, each with its reason.
            all => {
                let tasks = all.iter().filter_map(|it| it.task_id.clone());
                let tasks: Vec<TaskId> = tasks.collect();
                let text = format!("{} not proved: {}", counted(tasks.len(), "task"), ids(&tasks));
                page.tall(Style::Warn, '-', ("", &text), "", fold.rows);
                page.note(Style::Strong, &super::attention::accept_unproved("ID"));
            }
        }
    }

    fn future(&self, page: &mut TextPage) {
        let counts = self.left.as_ref();
        let counts = counts.filter(|counts| counts.left() > 0 && self.run.plain.is_none());
        let Some(counts) = counts else { return };
        page.heading(&format!("left: {} ({})", counts.left(), counts.parts().join(", ")));
        let ready = self.upcoming.iter().filter(|it| it.state == StateKind::Ready).take(3);
        for task in ready {
            let title = format!(": {}", task.title);
            let title = if task.title == task.id.as_str() { "" } else { &title };
            page.entry(Some(Style::Faint), '○', (task.id.as_str(), title), "");
        }
        let Some(it) = &self.forecast else { return };
        let lines = if it.goes_on { it.lines() } else { it.outlook().into_iter().collect() };
        for text in &lines {
            page.aside(Style::Faint, text);
        }
    }

    fn schedule(&self, page: &mut TextPage, now: DateTime<Utc>) {
        if let Some(schedule) = &self.run.schedule {
            page.text(None, &format!("Schedule: {}", schedule.text(now)));
        }
        if let Some(missed) = self.run.missed_start {
            let text = format!(
                "Schedule: missed the start of {}: `ralph schedule` does not run",
                full(missed)
            );
            page.text(Style::Bad, &text);
        }
    }

    /// The run, its limits, and the runs before it.
    fn tail(&self, page: &mut TextPage, fold: Fold) {
        let run = &self.run;
        let Some(run_id) = &run.run_id else {
            return;
        };
        let started = run.started_at.map_or(String::new(), |at| format!(", started {}", full(at)));
        let beat = run.last_beat_seconds;
        let beat = beat.map_or(String::new(), |beat| format!(", last beat {} ago", short(beat)));
        let branch = run.branch.as_ref().map_or(String::new(), |it| format!(", lands on `{it}`"));
        let process = run.pid.unwrap_or_default();
        let text = format!("Run: {run_id}{started}, process {process}{branch}{beat}");
        page.row(Style::Faint, &text, "");
        for earlier in run.earlier_runs.iter().take(fold.earlier) {
            let began = earlier.started_at.map_or(String::new(), full);
            let text = format!("Run {}: {began}, {}", earlier.number, earlier.text());
            page.row(Style::Faint, &text, &format!("; {}", run.command_of(earlier.number)));
        }
    }
}

fn current(run: &RunView, attempt: &AttemptView) -> String {
    let AttemptView { task_id, attempt: number, since, position, .. } = attempt;
    let (age, since) = (attempt.age(run.goes_on()), clock(*since));
    let more = position.text().map_or(String::new(), |text| format!("; {text}"));
    format!("Current attempt: {task_id}, attempt {number}, since {since}, {age}{more}")
}

impl Attention {
    fn show(&self, page: &mut TextPage, Fold { detail, rows, .. }: Fold) {
        let frees = match self.unblocks {
            0 | 1 => String::new(),
            2 => "; 1 other waits on it".to_owned(),
            count => format!("; {} others wait on it", count - 1),
        };
        let frees = if self.task_id.is_some() { frees } else { String::new() };
        let (id, title) = self.subject(page.is_narrow());
        page.tall(Style::Warn, '-', (id, &format!("{title}{}", self.why)), &frees, rows);
        page.quote(&self.shown(detail));
        if let Some(remedy) = &self.remedy {
            let show =
                self.show.as_ref().map_or(String::new(), |show| format!("{show} shows it; "));
            page.note(Style::Strong, &format!("{show}{remedy}"));
        } else if let Some(show) = &self.show {
            page.note(Style::Faint, &format!("{show} shows it"));
        }
    }

    /// The lines of the detail that say the most: the beginning of a question, the reason in an
    /// output.
    fn shown(&self, count: usize) -> Vec<String> {
        if !self.is_output() || self.detail.len() <= count {
            return self.detail.iter().take(count).cloned().collect();
        }
        let lines: Vec<&str> = self.detail.iter().map(String::as_str).collect();
        let is_line = |line: &&str| *line != failure_line::GAP;
        let lines: Vec<&str> = lines.into_iter().filter(is_line).collect();
        let excerpt = failure_line::excerpt(&lines, count).into_iter();
        excerpt.filter(|line| line != failure_line::GAP).collect()
    }

    /// Whether the detail is from an output.
    fn is_output(&self) -> bool {
        matches!(self.kind, AttentionKind::Parked | AttentionKind::Spent | AttentionKind::Baseline)
    }

    /// The task, and its title if there is room, with a colon.
    fn subject(&self, is_narrow: bool) -> (&str, String) {
        match (&self.task_id, &self.title) {
            (Some(id), Some(title)) if title != id.as_str() && !is_narrow => {
                (id.as_str(), format!(" ({title}): "))
            }
            (Some(id), _) => (id.as_str(), ": ".to_owned()),
            (None, _) => ("", String::new()),
        }
    }
}

impl LandedTask {
    /// Whether it has work without a review.
    fn is_to_review(&self) -> bool {
        !self.reviewed && !self.commits.is_empty()
    }

    fn show(&self, page: &mut TextPage, fold: Fold) {
        let first = self.commits.first().map(|commit| commit.subject.as_str());
        let title = self.title.as_deref().filter(|title| *title != self.id.as_str());
        let title = title.or(first).unwrap_or("no commit");
        let end = self.facts(page.is_narrow());
        page.entry(Some(Style::Good), '+', (self.id.as_str(), &format!(": {title}")), &end);
        self.remarks.iter().for_each(|remark| page.note(Style::Warn, remark));
        if let Some(proof) = &self.proof {
            let style = if proof.is_good { Style::Faint } else { Style::Warn };
            page.note(style, &proof.text);
        }
        for commit in
            self.commits.iter().take(fold.commits.saturating_add(1)).filter(|_| fold.commits > 0)
        {
            page.commit(commit);
        }
        let hidden = self.commits.len().saturating_sub(fold.commits.saturating_add(1));
        if fold.commits > 0 && hidden > 0 {
            page.note(Style::Faint, &format!("and {}", counted(hidden, "more commit")));
        }
    }

    /// The changes, the duration and the cost.
    fn facts(&self, is_narrow: bool) -> String {
        let mut facts = Vec::new();
        if !self.commits.is_empty() {
            if !is_narrow {
                facts.push(counted(self.commits.len(), "commit"));
                facts.push(counted(self.files, "file"));
            }
            facts.push(format!("+{} -{}", self.insertions, self.deletions));
        }
        if self.attempts > 1 && !is_narrow {
            facts.push(counted(self.attempts as usize, "attempt"));
        }
        facts.push(length(self.duration_seconds));
        facts.extend(self.cost_usd.filter(|cost| *cost > 0.0).map(dollars));
        format!("; {}", facts.join(", "))
    }
}

impl FailedTask {
    fn show(&self, page: &mut TextPage, rows: usize) {
        let FailedTask { id, attempt, why, .. } = self;
        let end = format!("; `ralph show {id}.{attempt}`");
        page.tall(Style::Bad, '!', (id.as_str(), &format!(": {why}")), &end, rows);
    }
}
