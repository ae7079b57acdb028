//! `ralph draft`: has an agent write tasks into a copy of the graph, checks it, and takes it over if
//! a person accepts it.

mod agent;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, bail};
use chrono::Utc;
use serde_json::json;

use self::agent::DraftSlot;
use super::{
    Invocation, check, end_with_git, given_agent, init,
    task_editor::{TaskEditor, has_graph, read_text, shown, usage},
};
use crate::{
    adapters::{
        excerpt, signal,
        terminal::{self, questions::Questions},
    },
    cli::DraftArgs,
    core::{
        agents::agent_command::AgentCommand,
        event::GraphEvent,
        exit::{Exit, Failure, fail},
        graph::{lint::diagnostics, load},
        setup,
    },
    project::{attempt, event_store::new_run_id, fatal, workspace::Workspace},
    regular_file, runner,
    view::lines::counted,
};

/// The most calls of the agent: one, and one with the findings of the first.
const CALLS: u32 = 2;
/// The longest text, in bytes.
const LONGEST: u64 = 16 << 20;
/// The most lines that name files of the repository.
const FILES: usize = 300;

/// Drafts tasks.
///
/// # Errors
/// An invalid command line; no agent; no valid draft; a limit; a signal. The graph is unchanged then.
pub fn run(invocation: &Invocation, options: DraftArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_first(invocation, "draft")?;
    let workspace = &editor.workspace;
    let spec = spec(invocation, &options.spec)?;
    let given = given_agent(invocation, options.agent)?;
    let agents = given.unwrap_or_else(|| workspace.config.agent.calls.clone());
    for agent in &agents {
        let hint = "name another after `--`, or set `agent` in `.ralph/config.yaml`";
        runner::check_agent(agent, workspace, hint)?;
    }
    let before = editor.file.text().to_owned();
    let base = setup::without_examples(&before).unwrap_or_else(|| before.clone());
    // The run of a call handles signals itself; before it, there is only a slot to be made.
    let is_preparing = Arc::new(AtomicBool::new(true));
    let heard = Arc::clone(&is_preparing);
    signal::listen(move |number| {
        if heard.load(Ordering::SeqCst) {
            end_with_git(number);
        }
    })?;
    let draft = Draft { workspace, spec: &spec, base: &base }.make(&agents, &is_preparing)?;
    let nothing = Path::new("/dev/null");
    let graph = if has_graph(workspace) { workspace.graph_path() } else { nothing };
    let path = workspace.root().join(&draft.path);
    workspace.repo.landings().show_difference(graph, &path)?;
    say(&draft.findings);
    let name = workspace.graph_name();
    let question = format!("Take this over into {name}?");
    if !options.yes {
        let answer = terminal::can_ask().then(|| Questions::new().is_wanted(&question, true));
        if !matches!(answer, Some(Ok(true))) {
            let kept = draft.path.display();
            say(&format!(
                "not taken over; the draft is `{kept}`, and `cp {kept} {name}` takes it over"
            ));
            return Ok(match answer {
                Some(Err(_)) => Exit::Signal(agent::INTERRUPT),
                _ => Exit::Waiting,
            });
        }
    }
    editor.change(|file| {
        if file.text() != before {
            bail!("the graph changed while the agent worked; nothing was taken over");
        }
        Ok(Some(draft.text.clone()))
    })?;
    say(&format!("{name}: {} added", counted(draft.tasks, "task")));
    Ok(Exit::Success)
}

/// Reads the text that tasks are drafted from: a file, standard input, or the text itself.
fn spec(invocation: &Invocation, given: &str) -> Result<String> {
    let path = Path::new(given);
    let is_word = !given.trim().is_empty() && !given.contains(char::is_whitespace);
    // A text that is too long for a path is no path.
    let text =
        if given == "-" || invocation.file(path)?.symlink_metadata().is_ok_and(|at| at.is_file()) {
            read_text(invocation, path, LONGEST)?
        } else if is_word && (given.contains('/') || path.extension().is_some()) {
            return usage(format!("there is no file `{}`", shown(path)));
        } else {
            given.to_owned()
        };
    if text.trim().is_empty() {
        return usage("there is no text to draft tasks from");
    }
    Ok(text)
}

/// A graph that an agent is to extend.
struct Draft<'a> {
    workspace: &'a Workspace,
    /// The request.
    spec: &'a str,
    /// The text of the graph before.
    base: &'a str,
}

/// A valid draft.
struct MadeDraft {
    text: String,
    /// Its file, relative to the repository.
    path: PathBuf,
    /// The number of new tasks.
    tasks: usize,
    /// Their `check --strict` findings, drawn.
    findings: String,
}

impl Draft<'_> {
    /// Has the agents write the draft, in a slot that is gone on return.
    fn make(&self, agents: &[AgentCommand], is_preparing: &AtomicBool) -> Result<MadeDraft> {
        let workspace = self.workspace;
        let Some(_lock) = workspace.state.try_lock_draft().context("lock the drafts")? else {
            return fail(Exit::Running, "another `ralph draft` is running in this repository");
        };
        workspace.ignore_own_files()?;
        let mut store = workspace.event_store()?;
        let logs = format!("logs/draft/{}", new_run_id(Utc::now()));
        let slot = DraftSlot::prepare(workspace)?;
        is_preparing.store(false, Ordering::SeqCst);
        let (mut last, mut text) = (String::new(), self.base.to_owned());
        let mut good = None;
        for number in 1..=CALLS {
            slot.begin(&text, self.spec)?;
            say(&format!("call {number} of at most {CALLS}"));
            let log = format!("{logs}/{number}");
            let mut ended = slot.call(workspace, agents, &self.prompt(&slot, &last)?, &log)?;
            text = slot.graph().unwrap_or_default();
            let path = Path::new(&log).join("task-graph.yaml");
            regular_file::write(&workspace.root().join(&path), text.as_bytes())
                .with_context(|| format!("write `{}`", path.display()))?;
            let checked = self.check(&text);
            ended.record.tasks = checked.as_ref().ok().map(|(tasks, _)| *tasks);
            store.emit(None, None, GraphEvent::Drafted(ended.record))?;
            match (ended.fault, good.is_some()) {
                (Some(fault), false) => return Err(fault),
                (Some(_), true) => break,
                (None, _) => {}
            }
            match checked {
                Ok((tasks, findings)) => {
                    last.clone_from(&findings);
                    good = Some(MadeDraft { text: text.clone(), path, tasks, findings });
                }
                Err(faults) => last = faults,
            }
            if last.is_empty() {
                break;
            }
            if number < CALLS {
                say(&format!("the draft goes back to the agent: {}", fatal::first_line(&last)));
            }
        }
        good.ok_or_else(|| {
            say(&last);
            let message = format!("the agent wrote no valid draft; the graph is unchanged, and the drafts are in {logs}");
            Failure::new(Exit::Invalid, message).into()
        })
    }

    /// Returns the number of new tasks and the findings about them, drawn.
    ///
    /// # Errors
    /// Why it is no valid draft, drawn.
    fn check(&self, text: &str) -> Result<(usize, String), String> {
        let name = self.workspace.graph_name();
        if text == self.base {
            return Err(format!("`{name}` is unchanged: add the tasks"));
        }
        let (document, loaded) =
            load::read(text).map_err(|faults| excerpt::render(&name, text, &faults, false))?;
        let before = load::read(self.base).map(|(_, before)| before.graph);
        let is_known = |number: usize| {
            let id = &loaded.graph.task(number).id;
            before.as_ref().is_ok_and(|before| before.number(id).is_some())
        };
        let new = (0..loaded.graph.tasks().len()).filter(|number| !is_known(*number)).count();
        let mut findings = check::remarks(self.workspace, &loaded.graph);
        findings.retain(|finding| !is_known(finding.task));
        let found = diagnostics(&document, &findings);
        let drawn = if found.is_empty() {
            String::new()
        } else {
            excerpt::render(&name, text, &found, false)
        };
        Ok((new, drawn))
    }

    fn prompt(&self, slot: &DraftSlot, last: &str) -> Result<String> {
        let verify = match &self.workspace.config.verify.0 {
            verify if !verify.is_empty() => verify.clone(),
            _ => init::found(slot.root()).verify(),
        };
        let context = json!({
            "spec": slot.spec_file().display().to_string(),
            "graph": slot.graph_file().display().to_string(),
            "files": setup::layout(&slot.files, FILES),
            "verify": verify,
            "last": last,
        });
        attempt::rendered(self.workspace, "draft.md", &context)
    }
}

/// Prints lines of text to standard error.
fn say(text: &str) {
    let width = terminal::stderr_width().unwrap_or(usize::MAX);
    for line in text.lines() {
        terminal::say(&terminal::wrap(&terminal::visible(line), width).join("\n"));
    }
}
