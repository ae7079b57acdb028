//! The part of the output of a failed command that says why.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use super::workspace::{LogFolder, Workspace};
use crate::{
    adapters::{agent_output, terminal},
    core::{
        event::AttemptResult,
        failure_line,
        graph::task::TaskId,
        history::{History, LastAttempt},
        prompt,
        redact::Redactor,
        verdict::{CheckResult, Verdict},
    },
};

/// How many lines of an output are kept.
const LINES: usize = 12;
/// The file in an attempt's folder with its standard error.
const STDERR: &str = "stderr";
/// How many tasks have their output read.
const TASKS: usize = 40;

/// Reads the ends of outputs in the folder of the logs.
#[derive(Clone, Debug)]
pub struct FailureOutputReader {
    logs: LogFolder,
    secrets: Redactor,
}

/// By task, the lines of the command that failed in its newest attempt that say why; safe to print.
pub type FailureOutputs = BTreeMap<TaskId, Vec<String>>;

impl FailureOutputReader {
    /// Returns a reader for a repository. Like the logs, its output has no secrets.
    pub fn new(workspace: &Workspace) -> FailureOutputReader {
        FailureOutputReader { logs: workspace.log_folder(), secrets: workspace.secrets() }
    }

    /// Reads the outputs for the tasks whose newest attempt did not complete them; only those of the
    /// newest attempts if there are many.
    pub fn read(&self, history: &History) -> FailureOutputs {
        let last =
            history.tasks().into_iter().filter_map(|(id, past)| Some((id, past.last.as_deref()?)));
        let mut failed: Vec<(&TaskId, &LastAttempt)> =
            last.filter(|(_, last)| last.verdict != Verdict::Complete).collect();
        failed.sort_by_key(|(_, last)| std::cmp::Reverse(last.at));
        let failed = failed.into_iter().take(TASKS);
        failed
            .map(|(id, last)| (id.clone(), self.reason(&last.ended)))
            .filter(|(_, lines)| !lines.is_empty())
            .collect()
    }

    fn reason(&self, ended: &AttemptResult) -> Vec<String> {
        let lines = match failed_check(ended) {
            Some(check) => {
                let log = self.logs.path(&check.log);
                log.map_or_else(Vec::new, |log| excerpt(&log, LINES))
            }
            None if ended.outcome.is_own_failure() => self.own_failure(ended),
            None => Vec::new(),
        };
        lines.iter().map(|line| self.secrets.clone().text(line)).collect()
    }

    /// The last line of an agent that failed, and the lines of its standard error that say why.
    fn own_failure(&self, ended: &AttemptResult) -> Vec<String> {
        let log = self.logs.path(&format!("{}/{STDERR}", ended.log));
        let errors = log.map_or_else(Vec::new, |log| excerpt(&log, LINES));
        if errors.is_empty() {
            return errors;
        }
        let said = ended.last_line.as_deref().map(terminal::visible);
        let is_new = |said: &Cow<'_, str>| !errors.iter().any(|line| line.trim() == said.trim());
        let said = said.filter(is_new).map(Cow::into_owned);
        said.into_iter().chain(errors).collect()
    }
}

/// The end of the standard error of an attempt, safe to print; none if its process did not fail.
pub fn errors(root: &Path, ended: &AttemptResult, bytes: usize) -> String {
    if !ended.outcome.is_own_failure() {
        return String::new();
    }
    let path = root.join(&ended.log).join(STDERR);
    prompt::tail(&readable(&path), bytes).trim().to_owned()
}

/// The command of verify or setup that failed in an attempt.
fn failed_check(ended: &AttemptResult) -> Option<&CheckResult> {
    ended.evidence.red().or(ended.evidence.setup.as_ref())
}

/// The lines of a file with the output of a failed command that say why, safe to print.
pub fn excerpt(path: &Path, count: usize) -> Vec<String> {
    failure_line::excerpt(&written(&readable(path)), count)
}

/// The last lines of a file with plain output that are not blank, safe to print, each cut to 500
/// characters.
pub fn last_words(path: &Path, count: usize) -> Vec<String> {
    last_of(&readable(path), count)
}

/// The part of an output file that may show a failure, safe to print.
fn readable(path: &Path) -> String {
    terminal::printable(agent_output::failure(path).as_bytes())
}

/// The last lines of a text that are not blank, each cut to 500 characters.
pub fn last_of(text: &str, count: usize) -> Vec<String> {
    let lines = written(text);
    let last = &lines[lines.len().saturating_sub(count)..];
    last.iter().map(|line| line.chars().take(500).collect()).collect()
}

/// The lines that are not blank.
fn written(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect()
}
