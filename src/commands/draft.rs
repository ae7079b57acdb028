//! `ralph draft`: has an agent write tasks, checks them, and adds them if a person wants them.

mod agent;
mod prompt;
mod target;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use serde_json::json;

use self::{
    agent::{CallFault, DraftAgent, DraftSlot},
    prompt::{DraftSpec, LastDraft},
    target::{CheckedDraft, DraftTarget},
};
use super::{
    Invocation, graph, init::Wizard, inside::SurroundingAttempt, run::given_agent,
    task_editor::read_text,
};
use crate::{
    adapters::{
        git, signal,
        terminal::{self, Paint},
    },
    cli::DraftArgs,
    core::{
        agents::agent_command::AgentCommand,
        duration,
        event::GraphEvent,
        exit::{Exit, Failure, fail},
        graph::drafted::DraftAim,
        spend::{Reached, Spend},
    },
    project::{
        config::ConfigLayer,
        event_store::{EventStore, new_run_id},
        workspace::{Workspace, shell_word, typed},
    },
    runner,
    view::lines::counted,
};

/// The most calls of the agent for one draft.
const CALLS: u32 = 3;

/// Drafts tasks.
///
/// # Errors
/// An invalid command line; no agent; no valid draft; a limit; a signal. The graph is unchanged then.
pub fn run(invocation: &Invocation, options: DraftArgs) -> Result<Exit> {
    let mut workspace = invocation.workspace()?;
    if let Some(around) = SurroundingAttempt::of(&workspace) {
        return Err(around.refuse("draft"));
    }
    workspace.set_flags(flags(&options))?;
    let target = DraftTarget::open(&workspace, options.extend, options.split.as_deref())?;
    if let Some(path) = &options.keep {
        let text = read_text(invocation, path, prompt::LONGEST)?;
        return target::keep(invocation, &workspace, &target, &text);
    }
    let spec = prompt::read(invocation, options.spec.as_deref())?;
    let given = given_agent(invocation, options.agent)?;
    let agents = given.unwrap_or_else(|| workspace.config.agent.calls.clone());
    let agents = startable(&workspace, agents)?;
    target.try_layout()?;
    let signals = DraftSignals::listen()?;
    let made = make(&workspace, &target, &spec, &agents, &signals)?;
    show(&workspace, &made)?;
    let MadeDraft { draft, path, .. } = made;
    let keep_command = target.keep_command(&workspace, &path);
    let count = draft.ids.len();
    let name = workspace.graph_name();
    if !options.yes {
        let question = format!("Keep {} in {name}?", counted(count, "task"));
        let answer = terminal::can_ask().then(|| Wizard::of_listener().is_wanted(&question, true));
        if !matches!(answer, Some(Ok(true))) {
            if matches!(answer, Some(Err(_))) {
                terminal::say("");
            }
            // Unwrapped, so that it can be copied.
            terminal::say(&format!("not kept; to keep it:\n  {keep_command}"));
            return Ok(match answer {
                Some(Err(_)) => Exit::Signal(signals.number().unwrap_or(INTERRUPT)),
                _ => Exit::Waiting,
            });
        }
    }
    target::keep(invocation, &workspace, &target, &draft.answer).inspect_err(|_| {
        terminal::say(&format!("the draft was not kept; to try again:\n  {keep_command}"));
    })
}

/// Returns the agents that can be started.
///
/// # Errors
/// There is none; the error is about the first.
fn startable(workspace: &Workspace, agents: Vec<AgentCommand>) -> Result<Vec<AgentCommand>> {
    let hint = "name another after `--`, or set `agent` in `.ralph/config.yaml`";
    let mut refused = None;
    let mut found = Vec::new();
    for agent in agents {
        match runner::check_agent(&agent, workspace, hint) {
            Ok(()) => found.push(agent),
            Err(error) => refused = refused.or(Some((agent.name, error))),
        }
    }
    match (found.is_empty(), refused) {
        (true, Some((_, error))) => Err(error),
        (true, None) => fail(Exit::Agent, "no agent command; set `agent`"),
        (false, Some((name, error))) => {
            say(&format!("without `{name}`: {error:#}"));
            Ok(found)
        }
        (false, None) => Ok(found),
    }
}

/// A draft that is valid.
struct MadeDraft {
    draft: CheckedDraft,
    /// Its file, relative to the repository.
    path: PathBuf,
    /// The name of the agent that wrote it.
    agent: String,
    spend: Spend,
}

/// Has the agents write the draft, in a slot that is gone on return.
fn make(
    workspace: &Workspace,
    target: &DraftTarget,
    spec: &DraftSpec,
    agents: &[AgentCommand],
    signals: &DraftSignals,
) -> Result<MadeDraft> {
    let Some(lock) = workspace.state.try_lock_draft().context("lock the drafts")? else {
        return fail(Exit::Running, "another `ralph draft` is running in this repository");
    };
    workspace.ignore_own_files()?;
    let store = workspace.event_store()?;
    let log = format!("logs/draft/{}", new_run_id(Utc::now()));
    let slot = DraftSlot::prepare(workspace).map_err(|error| signals.stop_of(error))?;
    let (call, others) = agents.split_first().context("no agent command")?;
    let agent = DraftAgent { workspace, call, slot: &slot, lock: &lock };
    agent.set_up(&log, signals)?;
    let (spend, began, calls) = (Spend::default(), Utc::now(), 0);
    let mut rounds =
        DraftRounds { agent, others, target, spec, store, signals, log, calls, spend, began };
    let (draft, path) = rounds.all()?;
    let agent = rounds.agent.call.name.clone();
    Ok(MadeDraft { draft, path, agent, spend: rounds.spend })
}

/// SIGINT, for a terminal that gives no other reason.
const INTERRUPT: i32 = 2;

/// The settings from flags.
fn flags(options: &DraftArgs) -> ConfigLayer {
    let timeout = options.timeout.map(|length| json!(duration::text(length)));
    let max_cost = options.max_cost.map(|sum| json!(sum));
    [("timeout", timeout), ("max_cost", max_cost)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// The signals that this process got.
struct DraftSignals {
    number: Arc<AtomicI32>,
    count: Arc<AtomicU32>,
}

impl DraftSignals {
    /// Catches signals from now on. They end the `git` that is waited for.
    fn listen() -> Result<DraftSignals> {
        let signals = DraftSignals { number: Arc::default(), count: Arc::default() };
        let (number, count) = (Arc::clone(&signals.number), Arc::clone(&signals.count));
        signal::listen(move |signal| {
            if signal == signal::SUSPEND {
                return signal::suspend();
            }
            number.store(signal, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
        })
        .context("listen for signals")?;
        let count = Arc::clone(&signals.count);
        git::ask_while_waiting(move || count.load(Ordering::SeqCst) > 0);
        Ok(signals)
    }

    /// The last signal.
    fn number(&self) -> Option<i32> {
        Some(self.number.load(Ordering::SeqCst)).filter(|number| *number != 0)
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// The error for a signal that ended `git`, or the error itself.
    fn stop_of(&self, error: anyhow::Error) -> anyhow::Error {
        let is_stop = error.chain().any(<dyn std::error::Error>::is::<git::CallStopped>);
        match self.number() {
            Some(number) if is_stop => stopped(number, None),
            _ => error,
        }
    }
}

/// The error for a draft that a signal ended.
fn stopped(number: i32, log: Option<&str>) -> anyhow::Error {
    let log = log.map_or_else(String::new, |log| format!("; what the agent wrote is in {log}"));
    let message = format!("{}: the graph is unchanged{log}", signal::name(number));
    Failure::drawn(Exit::Signal(number), message).into()
}

/// A draft, or what is wrong with it, and its file, relative to the repository.
type ReceivedDraft = (Result<CheckedDraft, LastDraft>, PathBuf);

/// A draft in the making.
struct DraftRounds<'a> {
    agent: DraftAgent<'a>,
    /// The agents to ask if that one is refused by its provider.
    others: &'a [AgentCommand],
    target: &'a DraftTarget,
    spec: &'a DraftSpec,
    store: EventStore,
    signals: &'a DraftSignals,
    /// The folder of prompts, outputs and drafts, relative to the repository.
    log: String,
    /// The number of calls so far.
    calls: u32,
    spend: Spend,
    began: DateTime<Utc>,
}

impl DraftRounds<'_> {
    /// Calls the agent until its draft is good. Returns the draft and its file, relative to the
    /// repository.
    fn all(&mut self) -> Result<(CheckedDraft, PathBuf)> {
        let mut good: Option<(CheckedDraft, PathBuf)> = None;
        let mut last: Option<LastDraft> = None;
        for number in 1..=CALLS {
            if let Some(reached) = self.limit_reached() {
                match good {
                    Some(good) => return Ok(good),
                    None => return Err(self.out_of_budget(&reached)),
                }
            }
            let (draft, path) = match self.round(number, last.as_ref()) {
                Ok(found) => found,
                // A draft that is only to be improved is not lost.
                Err(error) if good.is_some() && self.signals.number().is_none() => {
                    say(&format!("the draft was not improved: {error:#}"));
                    break;
                }
                Err(error) => return Err(error),
            };
            match draft {
                Ok(found) => {
                    let is_better = good
                        .as_ref()
                        .is_none_or(|(before, _)| found.findings.len() < before.findings.len());
                    let was_improved = good.is_some();
                    let report = found.remarks(false);
                    let text = found.answer.clone();
                    if is_better {
                        good = Some((found, path));
                    }
                    if report.is_empty() || was_improved {
                        break;
                    }
                    say_why(number, &report);
                    last = Some(LastDraft { text, report });
                }
                Err(bad) => {
                    if good.is_some() {
                        break;
                    }
                    say_why(number, &bad.report);
                    last = Some(bad);
                }
            }
        }
        good.ok_or_else(|| {
            let report = last.map(|last| last.report).unwrap_or_default();
            terminal::say(report.trim_end());
            let message = format!(
                "draft {CALLS} of {CALLS} is still not a valid graph; the graph is unchanged; the \
                 drafts are in {}",
                self.log
            );
            Failure::new(Exit::Invalid, message).into()
        })
    }

    /// Has an agent write a draft and checks it. The next agent is called if one is refused.
    fn round(&mut self, number: u32, last: Option<&LastDraft>) -> Result<ReceivedDraft> {
        loop {
            let fault = match self.call(number, last)? {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            let next = self.others.split_first().filter(|_| fault.is_refusal);
            let Some((next, others)) = next.filter(|_| self.limit_reached().is_none()) else {
                return Err(fault.error);
            };
            say(&format!("{:#}; calling `{}` instead", fault.error, next.name));
            (self.agent.call, self.others) = (next, others);
        }
    }

    /// Calls the agent once and checks its draft.
    fn call(
        &mut self,
        number: u32,
        last: Option<&LastDraft>,
    ) -> Result<Result<ReceivedDraft, CallFault>> {
        let DraftAgent { workspace, call, slot, .. } = self.agent;
        self.calls += 1;
        let log = format!("{}/{}", self.log, self.calls);
        let prompt = prompt::render(workspace, self.target, self.spec, slot, last)?;
        let whole = self.spec.is_cut().then_some(self.spec.text.as_str());
        slot.begin(whole, last.map(|last| last.text.as_str()))?;
        let timeout = duration::short(workspace.config.timeout);
        say(&format!("call {number} of at most {CALLS}: `{}`, for up to {timeout}", call.name));
        let mut ended = self.agent.call(self.calls, &log, &prompt, self.signals)?;
        let answer = self.agent.answer(&ended, last.map(|last| last.text.as_str()));
        let path = Path::new(&log).join("draft.yaml");
        if let Some(answer) = &answer {
            crate::regular_file::write(&workspace.root().join(&path), answer.as_bytes())
                .with_context(|| format!("write `{}`", path.display()))?;
        }
        let checked = answer.as_deref().map(|answer| self.target.check(workspace, answer));
        let checked = checked.transpose()?;
        ended.record.tasks = checked.as_ref().and_then(|it| Some(it.as_ref().ok()?.ids.len()));
        self.spend.add_draft(&ended.record);
        self.store.emit(None, None, GraphEvent::Drafted(ended.record.clone()))?;
        if let Some(fault) = self.agent.fault(&ended, answer.is_some()) {
            return Ok(Err(fault));
        }
        let draft = match checked {
            Some(Ok(draft)) => Ok(draft),
            Some(Err(report)) => Err(LastDraft { text: answer.unwrap_or_default(), report }),
            None => {
                let file = slot.answer_file();
                let report = format!(
                    "there is no file `{}`, and no fenced block with `tasks:` in the last message",
                    file.display()
                );
                Err(LastDraft { text: String::new(), report })
            }
        };
        Ok(Ok((draft, path)))
    }

    /// The limit of the settings that is reached, if one is.
    fn limit_reached(&self) -> Option<Reached> {
        let budget = self.agent.workspace.policy().budget;
        let recent = &self.store.history().recent;
        budget.reached(&self.spend, Some(self.began), recent, Utc::now())
    }

    fn out_of_budget(&self, reached: &Reached) -> anyhow::Error {
        let drafts = match self.spend.attempts {
            0 => String::new(),
            _ => format!("; the drafts are in {}", self.log),
        };
        let message = format!("limit reached: {reached}; the graph is unchanged{drafts}");
        Failure::new(Exit::Limit, message).into()
    }
}

/// Prints the tasks as a tree, what they run and read, the remarks that are left, and the cost.
fn show(workspace: &Workspace, made: &MadeDraft) -> Result<()> {
    let MadeDraft { draft, agent, spend, .. } = made;
    terminal::print(&graph::text(&draft.picture(workspace)?, true))?;
    let remarks = draft.remarks(Paint::for_stream(&std::io::stderr()).is_on());
    if !remarks.is_empty() {
        terminal::say(remarks.trim_end());
    }
    draft.effects().iter().for_each(|line| say(line));
    let took = std::time::Duration::try_from_secs_f64(spend.duration_seconds).unwrap_or_default();
    say(&format!(
        "{}, {}; {} of `{}` in {}, cost {}",
        counted(draft.ids.len(), "task"),
        counted(draft.findings.len(), "remark"),
        counted(spend.attempts as usize, "call"),
        agent,
        duration::short(took),
        spend.cost(),
    ));
    Ok(())
}

/// Says why a draft goes back to the agent: the first errors or remarks, with their places.
fn say_why(call: u32, report: &str) {
    /// The number of errors that are shown.
    const SHOWN: usize = 2;
    // The last report is shown whole.
    if call == CALLS {
        return;
    }
    let mut lines = report.lines().peekable();
    let mut found: Vec<String> = Vec::new();
    while let Some(line) = lines.next() {
        let place = lines.peek().and_then(|next| next.trim_start().strip_prefix("--> "));
        match place {
            Some(place) => found.push(format!("{}: {line}", place.trim())),
            None if found.is_empty() && lines.peek().is_none() => found.push(line.to_owned()),
            None => {}
        }
    }
    let shown = found[..found.len().min(SHOWN)].join("; ");
    let more = match found.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    say(&format!("the draft goes back to the agent: {shown}{more}"));
}

/// Prints lines of text to standard error.
fn say(text: &str) {
    let width = terminal::stderr_width().unwrap_or(usize::MAX);
    for line in text.lines() {
        terminal::say(&terminal::wrap(&terminal::visible(line), width).join("\n"));
    }
}

impl DraftTarget {
    /// The command that keeps a draft in this file.
    fn keep_command(&self, workspace: &Workspace, path: &Path) -> String {
        let aim = match self.aim() {
            DraftAim::New => String::new(),
            DraftAim::Extend => " --extend".to_owned(),
            DraftAim::Split(id) => format!(" --split {id}"),
        };
        let path = typed(&workspace.root().join(path));
        format!("{} draft{aim} --keep {}", workspace.typed_command(), shell_word(&path))
    }
}
