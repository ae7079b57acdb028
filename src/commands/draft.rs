//! `ralph draft`: has an agent write tasks, checks them, and adds them if a person wants them.

mod agent;
mod prompt;
mod target;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result};
use chrono::{DateTime, Utc};

use self::{
    agent::{DraftSlot, EndedCall},
    prompt::{DraftSpec, LastDraft},
    target::{CheckedDraft, DraftTarget},
};
use super::{
    Invocation, end_with_git, graph,
    init::Wizard,
    inside::SurroundingAttempt,
    run::{given_agent, limits},
    task_editor::read_text,
};
use crate::{
    adapters::{
        signal,
        terminal::{self, Paint},
    },
    cli::{DraftArgs, LimitArgs},
    core::{
        agents::agent_command::AgentCommand,
        duration,
        event::GraphEvent,
        executor::shell_word,
        exit::{self, Exit, Failure, fail},
        graph::drafted::DraftAim,
        spend::{Reached, Spend},
    },
    project::{
        event_store::{EventStore, new_run_id},
        fatal,
        workspace::{Workspace, typed},
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
    let (timeout, max_cost) = (options.timeout, options.max_cost);
    let given = LimitArgs { timeout, max_cost, ..LimitArgs::default() };
    workspace.set_flags(limits(None, None, &given))?;
    let target = DraftTarget::open(&workspace, options.extend, options.split.as_deref())?;
    if let Some(path) = &options.keep {
        let text = read_text(invocation, path, prompt::LONGEST)?;
        return target::keep(invocation, &workspace, &target, &text);
    }
    let spec = prompt::read(invocation, options.spec.as_deref())?;
    let given = given_agent(invocation, options.agent)?;
    let agents = given.unwrap_or_else(|| workspace.config.agent.calls.clone());
    for agent in &agents {
        let hint = "name another after `--`, or set `agent` in `.ralph/config.yaml`";
        runner::check_agent(agent, &workspace, hint)?;
    }
    target.try_layout()?;
    // The run of a call handles signals itself; before it, there is only a slot to be made.
    let is_preparing = Arc::new(AtomicBool::new(true));
    let heard = Arc::clone(&is_preparing);
    signal::listen(move |number| {
        if heard.load(Ordering::SeqCst) {
            end_with_git(number);
        }
    })?;
    let made = make(&workspace, &target, &spec, &agents, &is_preparing)?;
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
                Some(Err(_)) => Exit::Signal(INTERRUPT),
                _ => Exit::Waiting,
            });
        }
    }
    target::keep(invocation, &workspace, &target, &draft.answer).inspect_err(|_| {
        terminal::say(&format!("the draft was not kept; to try again:\n  {keep_command}"));
    })
}

/// A draft that is valid.
struct MadeDraft {
    draft: CheckedDraft,
    /// Its file, relative to the repository.
    path: PathBuf,
    spend: Spend,
}

/// Has the agents write the draft, in a slot that is gone on return.
fn make(
    workspace: &Workspace,
    target: &DraftTarget,
    spec: &DraftSpec,
    agents: &[AgentCommand],
    is_preparing: &AtomicBool,
) -> Result<MadeDraft> {
    let Some(_lock) = workspace.state.try_lock_draft().context("lock the drafts")? else {
        return fail(Exit::Running, "another `ralph draft` is running in this repository");
    };
    workspace.ignore_own_files()?;
    let store = workspace.event_store()?;
    let log = format!("logs/draft/{}", new_run_id(Utc::now()));
    let slot = DraftSlot::prepare(workspace)?;
    is_preparing.store(false, Ordering::SeqCst);
    let (spend, began) = (Spend::default(), Utc::now());
    let mut rounds =
        DraftRounds { workspace, slot: &slot, agents, target, spec, store, log, spend, began };
    let (draft, path) = rounds.all()?;
    Ok(MadeDraft { draft, path, spend: rounds.spend })
}

/// SIGINT, for a terminal that gives no other reason.
const INTERRUPT: i32 = 2;

/// The error for a draft that a signal ended.
fn stopped(number: i32, log: Option<&str>) -> anyhow::Error {
    let log = log.map_or_else(String::new, |log| format!("; what the agent wrote is in {log}"));
    let message = format!("{}: the graph is unchanged{log}", signal::name(number));
    Failure::drawn(Exit::Signal(number), message).into()
}

/// Whether a signal ended a draft.
fn is_signal(error: &anyhow::Error) -> bool {
    matches!(exit::of_error(error), Exit::Signal(_))
}

/// A draft, or what is wrong with it, and its file, relative to the repository.
type ReceivedDraft = (Result<CheckedDraft, LastDraft>, PathBuf);

/// A draft in the making.
struct DraftRounds<'a> {
    workspace: &'a Workspace,
    slot: &'a DraftSlot,
    /// The agents, each of which is called where the provider of those before it refuses.
    agents: &'a [AgentCommand],
    target: &'a DraftTarget,
    spec: &'a DraftSpec,
    store: EventStore,
    /// The folder of prompts, outputs and drafts, relative to the repository.
    log: String,
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
                Err(error) if good.is_some() && !is_signal(&error) => {
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

    /// Has an agent write a draft, and checks it.
    fn round(&mut self, number: u32, last: Option<&LastDraft>) -> Result<ReceivedDraft> {
        let (workspace, slot) = (self.workspace, self.slot);
        let prompt = prompt::render(workspace, self.target, self.spec, slot, last)?;
        let whole = self.spec.is_cut().then_some(self.spec.text.as_str());
        let text = last.map(|last| last.text.as_str());
        slot.begin(whole, text)?;
        let timeout = duration::short(workspace.config.timeout);
        say(&format!("call {number} of at most {CALLS}, for up to {timeout}"));
        let place = (self.spend.attempts, self.log.as_str());
        let EndedCall { mut records, answer, fault } =
            slot.call(workspace, self.agents, &prompt, place, text)?;
        let log = records.last().map_or("", |record| record.log.as_str());
        let path = Path::new(log).join("draft.yaml");
        if let Some(answer) = &answer {
            crate::regular_file::write(&workspace.root().join(&path), answer.as_bytes())
                .with_context(|| format!("write `{}`", path.display()))?;
        }
        let checked = answer.as_deref().map(|answer| self.target.check(workspace, answer));
        let checked = checked.transpose()?;
        if let Some(record) = records.last_mut() {
            record.tasks = checked.as_ref().and_then(|it| Some(it.as_ref().ok()?.ids.len()));
        }
        for record in records {
            self.spend = self.spend.plus(&record.spend());
            self.store.emit(None, None, GraphEvent::Drafted(record))?;
        }
        if let Some(fault) = fault {
            return Err(fault);
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
        Ok((draft, path))
    }

    /// The limit of the settings that is reached, if one is.
    fn limit_reached(&self) -> Option<Reached> {
        let budget = self.workspace.policy().budget;
        budget.reached(&self.spend, Some(self.began), Utc::now())
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
    let MadeDraft { draft, spend, .. } = made;
    terminal::print(&graph::text(&draft.picture(workspace)?, true))?;
    let remarks = draft.remarks(Paint::for_stream(&std::io::stderr()).is_on());
    if !remarks.is_empty() {
        terminal::say(remarks.trim_end());
    }
    draft.effects().iter().for_each(|line| say(line));
    let took = std::time::Duration::try_from_secs_f64(spend.duration_seconds).unwrap_or_default();
    say(&format!(
        "{}, {}; {} in {}, cost {}",
        counted(draft.ids.len(), "task"),
        counted(draft.findings.len(), "remark"),
        counted(spend.attempts as usize, "call"),
        duration::short(took),
        spend.cost(),
    ));
    Ok(())
}

/// Says why a draft goes back to the agent. The last report is shown whole.
fn say_why(call: u32, report: &str) {
    if call < CALLS {
        say(&format!("the draft goes back to the agent: {}", fatal::first_line(report)));
    }
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
        let aim = match &self.aim {
            DraftAim::New | DraftAim::Before(_) => String::new(),
            DraftAim::Extend => " --extend".to_owned(),
            DraftAim::Split(id) => format!(" --split {id}"),
        };
        let path = typed(&workspace.root().join(path));
        format!("{} draft{aim} --keep {}", workspace.typed_command(), shell_word(&path))
    }
}
